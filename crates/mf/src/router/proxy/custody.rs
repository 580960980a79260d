//! Custody (RFC 5050 §5.10, RFC 4838): a forwarded chunk stays here until a custodian further on, or its receiver,
//! reports it on disk.
//!
//! ```text
//!   waiting ──► leaving ──(next hop has it in memory)──► in transit ──(taken: it is on a disk further on)──► gone
//!      ▲  ▲                                                   │
//!      │  └──(next hop lost or restarted, timeout, asked for)─┤
//!      └───────── resting ◄──────(refused, lost on the way)───┘
//! ```
//! The objects and bytes in transit to one destination are limited, as its receiver may be short of space. A started
//! transfer continues regardless of others, and the oldest one even beyond the limit, so that partly received objects
//! cannot block each other forever.
use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    vec::Vec,
};

use tributary_content::ObjectId;
use tributary_core::{Duration, Time, TimerTable};
use tributary_transport::rtt::RttEstimator;

use super::{Holding, LATELY_MAX, Proxy, Release, Waiting};
use crate::{
    config::{CustodyUntil, ProxyConfig},
    custody::Answer,
    ids::{ChunkKey, Custodian, Flow, Guid, Token},
    sender::is_pushed,
    wire::{ChunkHeader, ChunkRanges, CustodyState},
};

/// The pause after a refusal, which doubles with each one, and after the loss of a chunk.
const REFUSED_PAUSE: Duration = Duration::from_secs(2);
const REFUSED_PAUSE_MAX: Duration = Duration::from_secs(120);
/// The timeout doubles with each failed transmission of a chunk, at most this many times.
const BACKOFF_MAX: u32 = 6;
/// A chunk that a NACK names counts as lost if it was sent so long ago.
const MISSED_AFTER: Duration = Duration::from_secs(1);

/// Where a chunk is that this proxy keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Here: it waits or rests, or is a delegated copy.
    Here,
    /// In the queues of this router, or on the wire.
    Leaving,
    /// Accepted by a neighbour, at least into its memory.
    InTransit {
        /// The neighbour.
        via: Guid,
        /// Since when.
        since: Time,
    },
}

/// The chunks of a transfer that are in transit.
struct Transit {
    /// Transfers with the same destination are in their starting order.
    begun: u64,
    ids: BTreeSet<u64>,
    /// When a neighbour last accepted one of them.
    heard_at: Time,
}

/// The chunks in transit by transfer, which the [`ChunkKey`] of its chunk 0 names.
#[derive(Default)]
pub(super) struct Transits {
    open: BTreeMap<ChunkKey, Transit>,
    due: TimerTable<ChunkKey>,
    /// Chunks of each transfer that were refused or lost, and when they are tried again.
    resting: BTreeMap<ChunkKey, BTreeSet<u64>>,
    resting_due: TimerTable<ChunkKey>,
    /// The chunks that each neighbour has in its memory.
    via: BTreeMap<Guid, BTreeSet<u64>>,
    /// The chunks that each vanished neighbour had accepted, and in which of its runs.
    lost_with: BTreeMap<Guid, (u64, BTreeSet<u64>)>,
    begun: u64,
    /// Destinations to which nothing is sent for a while.
    pub(super) holds: TimerTable<Guid>,
    pub(super) answers: VecDeque<Answer>,
}

tributary_core::declared! {
    /// The bytes and objects in transit to a destination, and their limit.
    pub(super) struct Window {
        /// By starting order.
        open: BTreeMap<u64, ChunkKey> = BTreeMap::new(),
        bytes: u64 = 0,
        /// Objects that may be in transit: the configured number, unless some were refused.
        objects: u32 = config.custody_objects,
        pause: Duration = REFUSED_PAUSE,
        rtt: RttEstimator =
            RttEstimator::new(config.custody_timeout * 3, config.custody_timeout, config.custody_timeout_max),
    }
    pub(super) fn new(config: &ProxyConfig) {}
}

impl Window {
    /// The transfers that may send, if not all waiting ones may.
    fn may_send(&self, config: &ProxyConfig) -> Option<Vec<ChunkKey>> {
        if self.open.len() < self.objects as usize && (self.bytes < config.custody_bytes.0 || self.open.is_empty()) {
            return None;
        }
        let most = if self.bytes < config.custody_bytes.0 { usize::MAX } else { 1 };
        Some(self.open.values().take(most).copied().collect())
    }
}

/// The transfer of a chunk.
fn transfer_of(key: &ChunkKey) -> ChunkKey {
    ChunkKey { number: 0, ..*key }
}

impl Proxy {
    /// Whether a chunk is kept until it is on a disk further on. Chunks for groups are not: they take many paths.
    pub(super) fn keeps_custody(&self, header: &ChunkHeader) -> bool {
        self.config.custody == CustodyUntil::Disk && !header.is_for_group()
    }
    /// This proxy as a custodian.
    pub(super) fn custodian(&self) -> Custodian {
        Custodian { guid: self.own.0, address: self.own.1 }
    }
    /// A chunk leaves.
    pub(super) fn on_released(&mut self, now: Time, id: u64) {
        let Some(stored) = self.chunks.get_mut(&id) else { return };
        stored.sends = stored.sends.saturating_add(1);
        let (key, bytes, was) = (stored.key, stored.bytes, stored.place);
        stored.place = Place::Leaving;
        let (header, transfer) = (stored.header.clone(), transfer_of(&key));
        if !self.keeps_custody(&header) {
            return;
        }
        let Some(destination) = self.destinations.get_mut(&key.flow.destination) else { return };
        if let Place::InTransit { via, .. } = was {
            self.transits.via.entry(via).and_modify(|ids| _ = ids.remove(&id));
        }
        let begun = self.transits.begun;
        let new = || Transit { begun, ids: BTreeSet::new(), heard_at: now };
        let transit = self.transits.open.entry(transfer).or_insert_with(new);
        self.transits.begun += u64::from(transit.ids.is_empty());
        destination.window.open.insert(transit.begun, transfer);
        if transit.ids.insert(id) {
            destination.window.bytes += bytes;
        }
    }
    /// A chunk is no longer in transit: it is back, or gone.
    pub(super) fn leave_transit(&mut self, id: u64) {
        let Some(stored) = self.chunks.get_mut(&id) else { return };
        let (key, bytes, was) = (stored.key, stored.bytes, stored.place);
        stored.place = Place::Here;
        if let Place::InTransit { via, .. } = was
            && let Some(ids) = self.transits.via.get_mut(&via)
        {
            ids.remove(&id);
            if ids.is_empty() {
                self.transits.via.remove(&via);
            }
        }
        let transfer = transfer_of(&key);
        let Some(transit) = self.transits.open.get_mut(&transfer) else { return };
        if !transit.ids.remove(&id) {
            return;
        }
        let (is_over, begun) = (transit.ids.is_empty(), transit.begun);
        if is_over {
            self.transits.open.remove(&transfer);
            self.transits.due.stop(&transfer);
        }
        if let Some(destination) = self.destinations.get_mut(&key.flow.destination) {
            destination.window.bytes = destination.window.bytes.saturating_sub(bytes);
            if is_over {
                destination.window.open.remove(&begun);
            }
            if !destination.waiting.is_empty() {
                self.ready.insert(key.flow.destination);
            }
        }
    }
    /// A chunk no longer rests: it waits, or is gone.
    pub(super) fn leave_rest(&mut self, id: u64) {
        let Some(stored) = self.chunks.get_mut(&id).filter(|stored| stored.rests) else { return };
        stored.rests = false;
        let transfer = transfer_of(&stored.key);
        let Some(resting) = self.transits.resting.get_mut(&transfer) else { return };
        resting.remove(&id);
        if resting.is_empty() {
            self.transits.resting.remove(&transfer);
            self.transits.resting_due.stop(&transfer);
        }
    }
    /// A neighbour has a chunk of this custodian in its memory.
    pub(super) fn on_taken_on(&mut self, now: Time, id: u64, via: Guid) {
        let Some(stored) = self.chunks.get_mut(&id).filter(|stored| stored.place == Place::Leaving) else { return };
        stored.place = Place::InTransit { via, since: now };
        let transfer = transfer_of(&stored.key);
        self.transits.via.entry(via).or_default().insert(id);
        self.note_alive(now, transfer);
    }
    /// The timeout after which a chunk is sent again.
    fn timeout(&self, stored: &Holding) -> Duration {
        let window = self.destinations.get(&stored.key.flow.destination).map(|destination| &destination.window);
        let rto = window.map_or(self.config.custody_timeout, |window| window.rtt.rto());
        let backoff = stored.sends.saturating_sub(1).min(BACKOFF_MAX);
        (rto * 2u32.pow(backoff)).min(self.config.custody_timeout_max.max(rto))
    }
    /// A chunk of a transfer was accepted or stored: restarts the timeouts of those in transit.
    fn note_alive(&mut self, now: Time, transfer: ChunkKey) {
        if let Some(transit) = self.transits.open.get_mut(&transfer) {
            transit.heard_at = now;
        }
        self.set_due(transfer);
    }
    fn set_due(&mut self, transfer: ChunkKey) {
        let Some(transit) = self.transits.open.get(&transfer) else { return };
        let heard_at = transit.heard_at;
        let due = |id: &u64| {
            let stored = self.chunks.get(id)?;
            let Place::InTransit { since, .. } = stored.place else { return None };
            Some(since.max(heard_at) + self.timeout(stored))
        };
        // The first ones are those that wait longest.
        let due = transit.ids.iter().take(DUE_LOOKED_AT).filter_map(due).min();
        let due = due.or_else(|| (transit.ids.len() > DUE_LOOKED_AT).then(|| heard_at + self.config.custody_timeout));
        match due {
            Some(due) => self.transits.due.set(transfer, due),
            None => self.transits.due.stop(&transfer),
        }
    }
    /// Runs the timers: chunks that no custodian has acknowledged, and resting ones.
    pub(super) fn custody_timeout(&mut self, now: Time) {
        while let Some(transfer) = self.transits.due.pop_due(now) {
            let Some(transit) = self.transits.open.get(&transfer) else { continue };
            let heard_at = transit.heard_at;
            let is_late = |id: &&u64| {
                let Some(stored) = self.chunks.get(id) else { return false };
                let Place::InTransit { since, .. } = stored.place else { return false };
                since.max(heard_at) + self.timeout(stored) <= now
            };
            let late: Vec<u64> = transit.ids.iter().filter(is_late).copied().collect();
            self.stats.timeouts += late.len() as u64;
            late.into_iter().for_each(|id| self.again(id));
            self.set_due(transfer);
            if self.transits.due.due(&transfer).is_some_and(|due| due <= now) {
                // All the chunks examined first are still leaving.
                self.transits.due.stop(&transfer);
            }
        }
        while let Some(transfer) = self.transits.resting_due.pop_due(now) {
            self.wake(&transfer);
        }
        while let Some(guid) = self.transits.holds.pop_due(now) {
            self.ready.insert(guid);
        }
    }
    /// When the next of these is due.
    pub(super) fn custody_due(&self) -> Option<Time> {
        let Transits { due, resting_due, holds, .. } = &self.transits;
        let firsts =
            [resting_due.next().map(|(at, _)| at), holds.next().map(|(at, _)| at), due.next().map(|(at, _)| at)];
        firsts.into_iter().flatten().min()
    }
    /// Sends a chunk again as soon as there is a path.
    fn again(&mut self, id: u64) {
        let Some(stored) = self.chunks.get(&id) else { return };
        let (reason, to) = (stored.reason, stored.key.flow.destination);
        self.take_back(id, reason);
        self.ready.insert(to);
    }
    /// What rested of a transfer waits again.
    fn wake(&mut self, transfer: &ChunkKey) {
        let Some(ids) = self.transits.resting.remove(transfer) else { return };
        self.transits.resting_due.stop(transfer);
        for id in ids {
            self.chunks.entry(id).and_modify(|stored| stored.rests = false);
            self.again(id);
        }
    }
    /// Routes have changed: lost chunks are tried again.
    pub(super) fn wake_lost(&mut self) {
        let held = |transfer: &ChunkKey| self.transits.holds.due(&transfer.flow.destination).is_some();
        let resting: Vec<ChunkKey> = self.transits.resting.keys().filter(|transfer| !held(transfer)).copied().collect();
        resting.iter().for_each(|transfer| self.wake(transfer));
    }
    fn rest(&mut self, transfer: ChunkKey, ids: &[u64], until: Time) {
        for id in ids {
            self.leave_transit(*id);
            self.unwait(*id);
            let Some(stored) = self.chunks.get_mut(id) else { continue };
            (stored.rests, stored.owed) = (true, true);
            self.transits.resting.entry(transfer).or_default().insert(*id);
            let known = self.transits.resting_due.due(&transfer);
            self.transits.resting_due.set(transfer, known.map_or(until, |known| known.max(until)));
        }
    }
    /// The neighbour is gone, and the chunks in its memory may be too: they take another route if there is one. If the
    /// neighbour comes back without a restart, it still has them.
    pub fn on_neighbour_lost(&mut self, guid: &Guid, life: u64) {
        let Some(ids) = self.transits.via.remove(guid) else { return };
        ids.iter().for_each(|id| self.again(*id));
        self.transits.lost_with.insert(*guid, (life, ids));
        if self.transits.lost_with.len() > NEIGHBOURS_LOST_MAX {
            self.transits.lost_with.pop_first();
        }
    }
    /// A neighbour is present, in this run: after a restart it has lost the chunks that it had accepted.
    pub fn on_neighbour(&mut self, now: Time, guid: &Guid, life: u64) {
        let Some((known, ids)) = self.transits.lost_with.remove(guid) else { return };
        if known != life {
            return;
        }
        for id in ids {
            let Some(stored) = self.chunks.get_mut(&id) else { continue };
            if stored.place != Place::Here || !stored.owed || stored.rests {
                continue;
            }
            stored.sends = stored.sends.saturating_sub(1);
            self.unwait(id);
            self.on_released(now, id);
            self.on_taken_on(now, id, *guid);
        }
    }
    /// This neighbour, or a router behind it, has restarted: chunks sent there may have been in its memory.
    pub fn on_restarted_beyond(&mut self, via: &Guid) {
        let ids = self.transits.via.get(via).cloned().unwrap_or_default();
        ids.into_iter().for_each(|id| self.again(id));
    }
    /// A message reports the state of chunks whose custodian is this proxy. It counts for those that were sent and have
    /// its token.
    pub fn on_custody(
        &mut self,
        now: Time,
        from: &Guid,
        token: Token,
        (flow, transfer, object): (&Flow, u32, ObjectId),
        state: CustodyState,
        chunks: &ChunkRanges,
    ) {
        let key = |number| ChunkKey { flow: *flow, object, transfer, number };
        if state == CustodyState::Over {
            if *from == flow.destination {
                self.on_complete(token, flow, transfer, object);
            }
            return;
        }
        if state == CustodyState::Ready {
            let mut known = self.keys.range(key(0)..=key(u32::MAX));
            if known.any(|(_, id)| self.chunks.get(id).is_some_and(|stored| stored.has(token))) {
                self.end_hold(&flow.destination);
            }
            return;
        }
        let named = chunks.runs().iter().flat_map(|(first, count)| self.keys.range(key(*first)..key(first + count)));
        let is_meant = |id: &u64| self.chunks.get(id).is_some_and(|stored| stored.has(token) && stored.sends > 0);
        let ids: Vec<u64> = named.map(|(_, id)| *id).filter(is_meant).collect();
        match state {
            CustodyState::Taken => {
                for id in ids {
                    self.on_taken(now, id);
                }
                self.note_alive(now, key(0));
            }
            CustodyState::Refused => {
                let until = self.hold(now, &flow.destination);
                self.stats.refusals += ids.len() as u64;
                self.rest(key(0), &ids, until);
            }
            CustodyState::Lost => {
                let sends = ids.iter().filter_map(|id| self.chunks.get(id)).map(|stored| stored.sends).max();
                let backoff = sends.unwrap_or(1).saturating_sub(1).min(BACKOFF_MAX);
                let pause = (REFUSED_PAUSE * 2u32.pow(backoff)).min(REFUSED_PAUSE_MAX);
                self.stats.lost += ids.len() as u64;
                self.rest(key(0), &ids, now + pause);
            }
            CustodyState::Over | CustodyState::Ready => {}
        }
    }
    /// A chunk is on a disk further on.
    fn on_taken(&mut self, now: Time, id: u64) {
        let Some(stored) = self.chunks.get(&id) else { return };
        let (key, sends, place) = (stored.key, stored.sends, stored.place);
        // After a retransmission the answer is ambiguous (Karn); a manifest is stored only with its whole object.
        let is_sample = sends == 1 && !(key.number == 0 && is_pushed(key.transfer));
        let most = self.config.custody_objects;
        if let Some(destination) = self.destinations.get_mut(&key.flow.destination) {
            let window = &mut destination.window;
            if let Place::InTransit { since, .. } = place
                && is_sample
            {
                window.rtt.on_sample(now.since(since));
            }
            window.pause = REFUSED_PAUSE;
            window.objects = (window.objects + 1).min(most);
            if self.transits.holds.due(&key.flow.destination).is_some() {
                // It has space for others again; it may have kept the refused chunks, or reports that it is ready.
                self.transits.holds.stop(&key.flow.destination);
                self.ready.insert(key.flow.destination);
            }
        }
        while self.lately.len() >= LATELY_MAX {
            self.lately.pop_front();
        }
        self.lately.push_back((now, key));
        let Some(stored) = self.chunks.get_mut(&id) else { return };
        if stored.delegated {
            // A copy for the producer stays until its lifetime is over.
            stored.owed = false;
            self.unwait(id);
            self.leave_rest(id);
            return self.leave_transit(id);
        }
        self.stats.delivered += 1;
        // The previous custodian need not wait for this disk too.
        self.notify_previous(id);
        self.remove(id);
    }
    /// A destination is full: no new chunks are sent to it for a while. Returns until when.
    fn hold(&mut self, now: Time, guid: &Guid) -> Time {
        let Some(destination) = self.destinations.get_mut(guid) else { return now + REFUSED_PAUSE };
        let window = &mut destination.window;
        window.objects = 1;
        if let Some(until) = self.transits.holds.due(guid) {
            return until;
        }
        let until = now + window.pause;
        window.pause = (window.pause * 2).min(REFUSED_PAUSE_MAX);
        self.transits.holds.set(*guid, until);
        until
    }
    /// A destination has space again: refused chunks are tried at once.
    fn end_hold(&mut self, guid: &Guid) {
        let Some(destination) = self.destinations.get_mut(guid) else { return };
        self.transits.holds.stop(guid);
        destination.window.pause = REFUSED_PAUSE;
        self.ready.insert(*guid);
        let of_it = |transfer: &&ChunkKey| transfer.flow.destination == *guid;
        let resting: Vec<ChunkKey> = self.transits.resting.keys().filter(of_it).copied().collect();
        resting.iter().for_each(|transfer| self.wake(transfer));
    }
    /// The destination has appeared: after a restart it may have space.
    pub fn forget_refusals(&mut self, guid: &Guid) {
        if self.transits.holds.due(guid).is_some() {
            self.end_hold(guid);
        }
    }
    /// A chunk is durable here: notifies its previous custodian, once.
    pub(super) fn notify_previous(&mut self, id: u64) {
        let own = self.own.0;
        let Some(stored) = self.chunks.get_mut(&id) else { return };
        let header = ChunkHeader { custodian: stored.header.custodian.take(), ..stored.header.clone() };
        let answer = Answer::to(&header, CustodyState::Taken).filter(|answer| answer.custodian.guid != own);
        self.transits.answers.extend(answer);
    }
    /// A stored chunk has come again, from this custodian.
    pub(super) fn on_come_again(&mut self, id: u64, header: &ChunkHeader) {
        let Some(custodian) = header.custodian.filter(|custodian| custodian.guid != self.own.0) else { return };
        let Some(stored) = self.chunks.get_mut(&id).filter(|stored| stored.has_token_of(header)) else { return };
        stored.header.custodian = Some(custodian);
        if stored.durable {
            self.notify_previous(id);
        }
    }
    /// A chunk that may be stored here passes, retransmitted. If its source sent it, it is forwarded with this proxy as
    /// custodian, and the stored copy waits with it. If another custodian sent it, unaware of the copy here, that
    /// custodian is notified; returns true then, and the passing chunk need not be forwarded.
    pub fn take_from_custodian(&mut self, header: &ChunkHeader) -> bool {
        let Some(id) = header.key().and_then(|key| self.keys.get(&key)).copied() else { return false };
        let has_other_custodian = header.custodian.is_some_and(|custodian| custodian.guid != self.own.0);
        let is_kept = |stored: &Holding| stored.durable && stored.has_token_of(header) && stored.owed;
        if !has_other_custodian || !self.chunks.get(&id).is_some_and(is_kept) {
            return false;
        }
        self.on_come_again(id, header);
        self.stats.duplicates += 1;
        true
    }
    /// The next answer to a custodian.
    pub(crate) fn poll_answer(&mut self) -> Option<Answer> {
        self.transits.answers.pop_front()
    }
    /// Whether a chunk that its receiver reports missing is: one that was just accepted may still arrive.
    pub(super) fn is_missed(&self, now: Time, id: u64) -> bool {
        match self.chunks.get(&id).map(|stored| stored.place) {
            Some(Place::InTransit { since, .. }) => now.since(since) >= MISSED_AFTER,
            Some(Place::Here) => true,
            Some(Place::Leaving) | None => false,
        }
    }
    /// The first chunk that may go to a destination whose window is full: one of a started transfer.
    pub(super) fn first_of_begun(
        &self,
        now: Time,
        guid: &Guid,
        may: &impl Fn(&ChunkHeader) -> Release,
    ) -> Option<(Option<Waiting>, Release)> {
        let destination = self.destinations.get(guid)?;
        let held = self.transits.holds.due(guid).is_some_and(|until| until > now);
        let mut begun = match destination.window.may_send(&self.config) {
            _ if held => destination.window.open.values().copied().collect(),
            None => return None,
            Some(begun) => begun,
        };
        // The transfer with the turn continues; otherwise they take turns in the order in which they started.
        if let Some((object, transfer)) = destination.turn.transfer {
            let at = begun.iter().position(|key| (key.object, key.transfer) == (object, transfer));
            let first = at.map_or(0, |at| if destination.turn.left > 0 { at } else { at + 1 });
            let count = begun.len().max(1);
            begun.rotate_left(first % count);
        }
        for key in begun {
            let range = (key.object, key.transfer, 0, 0)..=(key.object, key.transfer, u32::MAX, u64::MAX);
            let of_it = |(.., id): &&Waiting| self.chunks.get(id).is_some_and(|stored| stored.key.flow == key.flow);
            let Some(first) = destination.waiting.range(range).find(of_it) else { continue };
            let Some(stored) = self.chunks.get(&first.3) else { continue };
            match may(&stored.header) {
                Release::Hidden => {}
                verdict => return Some((Some(*first), verdict)),
            }
        }
        Some((None, Release::Away))
    }
}

/// Maximum vanished neighbours whose chunks are remembered.
const NEIGHBOURS_LOST_MAX: usize = 1_024;
/// Chunks of a transfer examined for the earliest due one.
const DUE_LOOKED_AT: usize = 16;

impl Holding {
    /// Whether it is of the transfer that the header is of.
    fn has_token_of(&self, header: &ChunkHeader) -> bool {
        header.token().is_some_and(|token| self.has(token))
    }
}

#[cfg(test)]
impl Transits {
    /// All chunks in transit, by transfer.
    pub(super) fn ids(&self) -> BTreeSet<u64> {
        let ids: BTreeSet<u64> = self.open.values().flat_map(|transit| transit.ids.iter().copied()).collect();
        assert_eq!(ids.len(), self.open.values().map(|transit| transit.ids.len()).sum::<usize>());
        assert!(self.open.values().all(|transit| !transit.ids.is_empty()));
        let mut due = self.due.clone();
        let due = core::iter::from_fn(|| due.pop_due(Time::MAX));
        assert!(due.into_iter().all(|transfer| self.open.contains_key(&transfer)));
        assert!(self.via.values().flatten().all(|id| ids.contains(id)));
        ids
    }
    pub(super) fn rests(&self, id: u64) -> bool {
        self.resting.values().any(|resting| resting.contains(&id))
    }
}
#[cfg(test)]
impl Window {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}
