//! What this resolver has put and says again, under which leases, and what of watched groups is known: of that changes are
//! told, and lists that are of no group are made.
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::Instant;
use tributary_transport::engine::{Answer, Before, Entry, Lease};

use crate::{
    set::{Held, Offer, Offers, SET_BYTES_MAX},
    shard::Shard,
};

/// The pause before it is said again what could not be said.
const SAY_AGAIN: Duration = Duration::from_secs(5);

/// A record that is known here.
#[derive(Debug)]
struct Known {
    held: Held,
    own: Option<Own>,
}

/// A record that this resolver has put.
#[derive(Debug)]
struct Own {
    lease: u64,
    group: Vec<u8>,
    depth: u8,
    /// Until when those who keep it were told to, and when they are told again.
    said_until: Instant,
    due: Instant,
}

#[derive(Debug)]
struct Leased {
    until: Instant,
    lasts: Duration,
    keys: BTreeSet<Vec<u8>>,
}

/// What is to be said again, of one part of a group.
pub(crate) struct Again {
    pub(crate) shard: Shard,
    pub(crate) offers: Offers,
    /// Until when whoever keeps them is told to.
    pub(crate) until: BTreeMap<Vec<u8>, Instant>,
}

/// All of it.
#[derive(Default, Debug)]
pub(crate) struct Records {
    revision: u64,
    known: BTreeMap<Vec<u8>, Known>,
    own: usize,
    leases: BTreeMap<u64, Leased>,
    due: BTreeSet<(Instant, Vec<u8>)>,
    watched: BTreeSet<Vec<u8>>,
    /// What has changed, not told yet.
    told: Vec<Answer>,
}

impl Records {
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }
    /// Changes that are to be told.
    pub(crate) fn take_told(&mut self) -> Vec<Answer> {
        core::mem::take(&mut self.told)
    }
    /// Records that this resolver has put.
    pub(crate) fn own(&self) -> usize {
        self.own
    }
    pub(crate) fn is_own(&self, key: &[u8]) -> bool {
        self.known.get(key).is_some_and(|known| known.own.is_some())
    }
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Held> {
        self.known.get(key).map(|known| &known.held)
    }
    /// Those from one key on and before another one.
    pub(crate) fn range(&self, from: &[u8], to: &[u8]) -> impl Iterator<Item = (&Vec<u8>, &Held)> {
        let is_some = from < to;
        let range = is_some
            .then(|| self.known.range::<[u8], _>((std::ops::Bound::Included(from), std::ops::Bound::Excluded(to))));
        range.into_iter().flatten().map(|(key, known)| (key, &known.held))
    }

    // Leases.

    /// Until when a lease lasts; it is made if there is none.
    pub(crate) fn lease(&mut self, now: Instant, lease: Lease) -> Instant {
        let lasts = Duration::from_secs(u64::from(lease.seconds));
        let leased = || Leased { until: now + lasts, lasts, keys: BTreeSet::new() };
        self.leases.entry(lease.id).or_insert_with(leased).until
    }
    /// Whether a lease goes on. One that was made by another resolver is not known here: records are put again, and so come
    /// under one.
    pub(crate) fn renew(&mut self, now: Instant, lease: u64) -> bool {
        let Some(leased) = self.leases.get_mut(&lease).filter(|leased| leased.until > now) else { return false };
        leased.until = now + leased.lasts;
        true
    }

    // What is put.

    /// A record was put under a lease, and is kept until then.
    pub(crate) fn publish(&mut self, entry: Entry, lease: u64, shard: Shard, now: Instant, until: Instant) {
        let Some(leased) = self.leases.get_mut(&lease) else { return };
        leased.keys.insert(entry.key.clone());
        let ends = leased.until;
        let key = entry.key.clone();
        let due = now + until.saturating_duration_since(now) / 2;
        self.change(&key, Some(Held { version: entry.version, value: entry.value, ends }));
        let own = Own { lease, group: shard.group, depth: shard.depth, said_until: until, due };
        let Some(known) = self.known.get_mut(&key) else { return };
        match known.own.replace(own) {
            None => self.own += 1,
            Some(before) => {
                self.due.remove(&(before.due, key.clone()));
                if let Some(leased) = self.leases.get_mut(&before.lease).filter(|_| before.lease != lease) {
                    leased.keys.remove(&key);
                }
            }
        }
        self.due.insert((due, key));
    }
    /// A record is not said again.
    pub(crate) fn withdraw(&mut self, key: &[u8]) {
        let Some(own) = self.known.get_mut(key).and_then(|known| known.own.take()) else { return };
        self.own -= 1;
        self.due.remove(&(own.due, key.to_vec()));
        if let Some(leased) = self.leases.get_mut(&own.lease) {
            leased.keys.remove(key);
        }
        self.change(key, None);
    }
    /// Ends leases that nobody has renewed, and with them what was put under them; and what others had put.
    pub(crate) fn expire(&mut self, now: Instant) {
        let over = self.leases.iter().filter(|(_, leased)| leased.until <= now).map(|(id, _)| *id);
        for id in over.collect::<Vec<u64>>() {
            for key in self.leases.remove(&id).map(|leased| leased.keys).unwrap_or_default() {
                self.withdraw(&key);
            }
        }
        for group in self.watched.clone() {
            let ended = self.of_group(&group).filter(|(_, known)| known.own.is_none() && known.held.ends <= now);
            for key in ended.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
                self.change(&key, None);
            }
        }
    }
    /// All that was put is said again at once, as after it was learnt that there are others.
    pub(crate) fn say_all(&mut self, now: Instant) {
        for (key, known) in &mut self.known {
            if let Some(own) = &mut known.own {
                self.due.remove(&(own.due, key.clone()));
                (own.due, own.said_until) = (now, now);
                self.due.insert((now, key.clone()));
            }
        }
    }
    /// What is to be said again now, of one part of a group.
    pub(crate) fn next_due(&mut self, now: Instant) -> Option<Again> {
        loop {
            let (at, key) = self.due.first().filter(|(at, _)| *at <= now)?.clone();
            self.due.remove(&(at, key.clone()));
            let Some(own) = self.known.get(&key).and_then(|known| known.own.as_ref()) else { continue };
            let shard = Shard::at(&own.group, own.depth, &key);
            let until = self.leases.get(&own.lease).map_or(now, |leased| leased.until);
            if until <= own.said_until || until <= now {
                // Nobody has renewed its lease since; it is looked again before it ends.
                let left = until.saturating_duration_since(now);
                self.put_off(&key, now + (left / 2).max(Duration::from_secs(1)));
                continue;
            }
            return Some(self.of_shard(now, shard));
        }
    }
    /// What this resolver has put at a part of a group, as much as fits a set.
    fn of_shard(&mut self, now: Instant, shard: Shard) -> Again {
        let (mut offers, mut until, mut bytes) = (Offers::default(), BTreeMap::new(), 0);
        for (key, known) in self.of_group(&shard.group) {
            let Some(own) = &known.own else { continue };
            let lasts = self.leases.get(&own.lease).map(|leased| leased.until).filter(|until| *until > own.said_until);
            let (Some(lasts), true) = (lasts, own.depth == shard.depth && shard.holds(key)) else { continue };
            let entry = Entry { key: key.clone(), version: known.held.version, value: known.held.value.clone() };
            let offer = Offer { entry, ttl: lasts.saturating_duration_since(now) };
            bytes += offer.bytes(&shard.group);
            if bytes > SET_BYTES_MAX / 2 && !offers.records.is_empty() {
                break;
            }
            until.insert(key.clone(), lasts);
            offers.records.push(offer);
        }
        for key in until.keys() {
            // Before the answer is there it is not due again.
            self.put_off(key, now + 2 * SAY_AGAIN);
        }
        Again { shard, offers, until }
    }
    fn put_off(&mut self, key: &[u8], due: Instant) {
        if let Some(own) = self.known.get_mut(key).and_then(|known| known.own.as_mut()) {
            self.due.remove(&(own.due, key.to_vec()));
            own.due = due;
            self.due.insert((due, key.to_vec()));
        }
    }
    /// What was due was said, or could not be.
    pub(crate) fn on_said(&mut self, now: Instant, until: &BTreeMap<Vec<u8>, Instant>, is_kept: bool) {
        for (key, until) in until {
            let Some(own) = self.known.get_mut(key).and_then(|known| known.own.as_mut()) else { continue };
            if is_kept {
                own.said_until = own.said_until.max(*until);
            }
            let due = if is_kept { now + until.saturating_duration_since(now) / 2 } else { now + SAY_AGAIN };
            self.put_off(key, due);
        }
    }

    // What is watched.

    pub(crate) fn watch(&mut self, group: &[u8], is_watched: bool) {
        if is_watched {
            self.watched.insert(group.to_vec());
        } else if self.watched.remove(group) {
            let others = self.of_group(group).filter(|(_, known)| known.own.is_none()).map(|(key, _)| key.clone());
            for key in others.collect::<Vec<_>>() {
                self.change(&key, None);
            }
        }
    }
    pub(crate) fn is_watched(&self, group: &[u8]) -> bool {
        self.watched.contains(group)
    }
    pub(crate) fn watched(&self) -> Vec<Vec<u8>> {
        self.watched.iter().cloned().collect()
    }
    /// What others keep of a watched group was read. What was there and is not now is known until its end: those who keep it
    /// may not have answered.
    pub(crate) fn absorb(&mut self, read: &BTreeMap<Vec<u8>, Held>) {
        for (key, held) in read {
            match self.known.get_mut(key) {
                Some(known) if known.held.version > held.version => {}
                Some(known) if known.held.version == held.version && known.held.value == held.value => {
                    known.held.ends = known.held.ends.max(held.ends);
                }
                _ => {
                    // What somebody has put anew elsewhere is not said again here.
                    self.disown(key);
                    self.change(key, Some(held.clone()));
                }
            }
        }
    }
    fn disown(&mut self, key: &[u8]) {
        let Some(own) = self.known.get_mut(key).and_then(|known| known.own.take()) else { return };
        self.own -= 1;
        self.due.remove(&(own.due, key.to_vec()));
        if let Some(leased) = self.leases.get_mut(&own.lease) {
            leased.keys.remove(key);
        }
    }
    fn of_group<'a>(&'a self, group: &'a [u8]) -> impl Iterator<Item = (&'a Vec<u8>, &'a Known)> {
        let from = (std::ops::Bound::Included(group), std::ops::Bound::Unbounded);
        self.known.range::<[u8], _>(from).take_while(move |(key, _)| key.starts_with(group))
    }
    /// A record is another one from now on, or none; whoever listens is told.
    fn change(&mut self, key: &[u8], after: Option<Held>) {
        let entry = |held: &Held| Entry { key: key.to_vec(), version: held.version, value: held.value.clone() };
        let before = self.known.get(key).map(|known| entry(&known.held));
        let after_it = after.as_ref().map(entry);
        match (self.known.get_mut(key), after) {
            (Some(known), Some(held)) => known.held = held,
            (None, Some(held)) => drop(self.known.insert(key.to_vec(), Known { held, own: None })),
            (_, None) => drop(self.known.remove(key)),
        }
        if before == after_it {
            return;
        }
        self.revision += 1;
        let before = before.map_or(Before::Nothing, Before::Entry);
        self.told.push(Answer::Changed { revision: self.revision, key: key.to_vec(), after: after_it, before });
    }
}
