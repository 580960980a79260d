//! Renewal of all publications together.
use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::ToString,
    vec::Vec,
};

use tributary_content::Name;
use tributary_core::{Duration, NodeId, Time, event::ResolverEvent};

use super::{Key, PubSub, REQUEST_TIMEOUT, RESOLVER_TIMEOUT};
use crate::{
    ids::ItemId,
    wire::{Holding, Message, Renewal, Renewed, Reply, mark},
};

/// How soon buckets are renewed in which publications were in progress when the others were.
const POSTPONED: Duration = Duration::from_secs(1);

/// The entries of this host that the rendezvous nodes should hold.
#[derive(Debug, Default)]
pub(super) struct Renewals {
    holdings: BTreeMap<u16, Holding>,
    /// Buckets that were left out of the last renewal.
    postponed: BTreeSet<u16>,
    /// When everything is renewed next, and when the postponed buckets are.
    all_at: Option<Time>,
    postponed_at: Option<Time>,
    /// The renewal in progress.
    open: Option<Open>,
    /// Since when no answer has come, and whether the application knows.
    unmet_since: Option<Time>,
    complained: bool,
}

#[derive(Debug)]
struct Open {
    request: u32,
    to: NodeId,
    sent: BTreeMap<u16, Holding>,
    overdue_at: Time,
}

impl Renewals {
    /// When the next message is due, and when to tell the application that no answer arrives.
    pub(super) fn due(&self, resolver_timeout: Duration, has_resolver: bool) -> Option<Time> {
        if self.holdings.is_empty() {
            return None;
        }
        let overdue = self.open.as_ref().map(|open| open.overdue_at);
        let sends = [self.all_at, self.postponed_at, overdue].into_iter().flatten().filter(|_| has_resolver);
        sends.chain(self.complain_at(resolver_timeout)).min()
    }
    fn complain_at(&self, resolver_timeout: Duration) -> Option<Time> {
        self.unmet_since.filter(|_| !self.complained && !self.holdings.is_empty()).map(|since| since + resolver_timeout)
    }
    pub(super) fn is_expected(&self, renewed: &Renewed, from: NodeId) -> bool {
        self.open.as_ref().is_some_and(|open| open.request == renewed.request && open.to == from)
    }
}

impl PubSub {
    /// The rendezvous nodes hold an item of this host in this version.
    pub(super) fn count_in(&mut self, now: Time, key: &Key, version: u64) {
        self.count_out(key);
        let Some(wish) = self.wishes.get_mut(key) else { return };
        wish.held = Some(version);
        let bucket = wish.bucket;
        let holding = self.renewals.holdings.entry(bucket).or_insert(Holding { bucket, ..Holding::default() });
        holding.add(mark(ItemId::new(key.name()).key(), version));
        if self.renewals.all_at.is_none() {
            self.renewals.all_at = Some(now + self.lease() / 3);
        }
    }
    /// They should no longer hold it, or should hold another version.
    pub(super) fn count_out(&mut self, key: &Key) {
        let Some(wish) = self.wishes.get_mut(key) else { return };
        let (Some(version), bucket) = (wish.held.take(), wish.bucket) else { return };
        if let Some(holding) = self.renewals.holdings.get_mut(&bucket) {
            holding.remove(mark(ItemId::new(key.name()).key(), version));
            if holding.count == 0 {
                self.renewals.holdings.remove(&bucket);
            }
        }
    }

    pub(super) fn renew_if_due(&mut self, now: Time) {
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if is_due(self.renewals.complain_at(RESOLVER_TIMEOUT)) {
            self.complain_of_renewals(now);
        }
        if let Some(open) = self.renewals.open.take_if(|open| open.overdue_at <= now) {
            let is_heard = self.heard_from_used.is_some_and(|heard| now.since(heard) < REQUEST_TIMEOUT);
            self.renewals.all_at = Some(now);
            if !is_heard && self.resolver == Some(open.to) {
                self.fail_over(now, open.to);
            }
        }
        if is_due(self.renewals.all_at) {
            self.renew_all(now);
        } else if is_due(self.renewals.postponed_at) {
            if self.renewals.open.is_some() {
                self.renewals.postponed_at = Some(now + POSTPONED);
                return;
            }
            let postponed = core::mem::take(&mut self.renewals.postponed);
            self.send_renewal(now, Some(&postponed));
        }
    }
    /// Renews everything now.
    pub(super) fn renew_all(&mut self, now: Time) {
        self.renewals.all_at = (!self.renewals.holdings.is_empty()).then(|| now + self.lease() / 3);
        self.send_renewal(now, None);
    }

    /// Sends the digests of the entries that the rendezvous nodes should hold in these buckets or (`None`) all. Buckets
    /// with requests in progress follow a little later: their result is open, and a mismatch causes a new publication.
    fn send_renewal(&mut self, now: Time, only: Option<&BTreeSet<u16>>) {
        self.renewals.postponed_at = None;
        if self.renewals.holdings.is_empty() {
            return;
        }
        let Some(to) = self.resolver else {
            self.renewals.unmet_since.get_or_insert(now);
            return;
        };
        if only.is_none() {
            self.renewals.postponed.clear();
        }
        let busy = self.busy_buckets();
        let wanted = self.renewals.holdings.values().filter(|it| only.is_none_or(|only| only.contains(&it.bucket)));
        let (later, holdings): (Vec<Holding>, Vec<Holding>) =
            wanted.copied().partition(|holding| busy.contains(&holding.bucket));
        self.renewals.postponed.extend(later.iter().map(|holding| holding.bucket));
        if !self.renewals.postponed.is_empty() {
            self.renewals.postponed_at = Some(now + POSTPONED);
        }
        if holdings.is_empty() {
            return;
        }
        self.request_next = self.request_next.wrapping_add(1) | Reply::HOST_BIT;
        let request = self.request_next;
        let sent = holdings.iter().map(|holding| (holding.bucket, *holding)).collect();
        let overdue_at = now + REQUEST_TIMEOUT * 2;
        self.renewals.open = Some(Open { request, to, sent, overdue_at });
        self.renewals.unmet_since.get_or_insert(now);
        let renewal = Renewal { request, client: self.config.node, lease: self.lease(), holdings };
        self.messages.push_back((to, Message::Renewal(renewal)));
    }
    /// Tells the application, once for all, that publications will expire.
    fn complain_of_renewals(&mut self, now: Time) {
        self.renewals.complained = true;
        let Some(since) = self.renewals.unmet_since else { return };
        let mut held = self.wishes.iter().filter(|(_, wish)| wish.held.is_some()).map(|(key, _)| key.name());
        let (first, others) = (held.next().map(Name::to_string), held.count());
        let Some(name) = first else { return };
        let mut reason = self.why_unmet(since, now.since(since));
        if others > 0 {
            reason.push_str(&format!(" (so it is with {others} more publications)"));
        }
        self.events.push_back(ResolverEvent::Rejected { name, operation: "publish", reason });
    }
    /// Buckets in which a publication or its withdrawal is in progress.
    fn busy_buckets(&self) -> BTreeSet<u16> {
        let items = self.requests.values().filter(|(key, ..)| matches!(key, Key::Item(_)));
        items.filter_map(|(key, ..)| Some(self.wishes.get(key)?.bucket)).collect()
    }

    /// Publishes again the buckets in which a node holds other entries, unless they have just changed.
    pub(super) fn on_renewed(&mut self, now: Time, renewed: Renewed) {
        let Some(Open { sent, .. }) = self.renewals.open.take() else { return };
        (self.renewals.unmet_since, self.renewals.complained) = (None, false);
        if renewed.missing.is_empty() {
            return;
        }
        let busy = self.busy_buckets();
        let is_settled = |bucket: &u16| {
            !busy.contains(bucket) && sent.get(bucket).is_some_and(|it| self.renewals.holdings.get(bucket) == Some(it))
        };
        let (again, later): (BTreeSet<u16>, BTreeSet<u16>) = renewed.missing.iter().partition(|it| is_settled(it));
        if !later.is_empty() {
            self.renewals.postponed.extend(later);
            self.renewals.postponed_at = Some(now + POSTPONED);
        }
        let is_again = |(_, wish): &(&Key, &super::Wish)| wish.held.is_some() && again.contains(&wish.bucket);
        let keys: Vec<Key> = self.wishes.iter().filter(is_again).map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.count_out(&key);
            let version = self.version(&key);
            if let Some(wish) = self.wishes.get_mut(&key) {
                wish.version = version;
                wish.unmet_since = now;
            }
            self.send(now, key);
        }
    }
}
