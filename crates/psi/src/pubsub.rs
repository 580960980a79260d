//! The publish/subscribe client of a host: keeps the rendezvous nodes informed of this host's publications and
//! subscriptions.
//!
//! Commands state the desired result. The client sends it to one rendezvous node and repeats it through another one
//! when that is silent. At a third of the lease it renews each subscription, and all publications together with one
//! message that holds their number in each bucket of records and a digest ([`renewal`]); it publishes a bucket again if
//! a rendezvous node holds other entries. So nothing is lost while any rendezvous node is reachable, and everything
//! returns once one is reachable again.
//!
//! As many requests are in progress as the rendezvous nodes take, and answer within a quarter of
//! `REQUEST_TIMEOUT` ([`flow`]). Subscriptions and withdrawals go before publications that wait.
mod flow;
mod listing;
mod renewal;
#[cfg(test)]
mod tests;

use alloc::{
    collections::{BTreeMap, VecDeque},
    format,
    string::{String, ToString},
    vec::Vec,
};

use tributary_content::Name;
use tributary_core::{Duration, NodeId, Time, TimerTable, event::ResolverEvent};
use tributary_transport::PathMetric;

use crate::{
    control::SendResult,
    ids::ItemId,
    wire::{
        Answer, ClientRequest, LABEL_BYTES_MAX, Limit, MANIFEST_BYTES_MAX, Message, MissingScopes, Operation,
        PATHS_MAX, Rejection, Reply, ScopeNotice, VERSION_MAX, bucket_of,
    },
};
use flow::Flow;
use listing::Listing;
use renewal::Renewals;

/// How long a command may stay without effect before the application learns that no rendezvous node is reachable.
const RESOLVER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one rendezvous node may take to answer before the client tries another one.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause after a refusal of something that was granted before.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How long a rendezvous node that did not answer is passed over.
const AVOID_LIFETIME: Duration = Duration::from_secs(10);
/// Entries of one scope that are remembered: as many as rendezvous nodes take by default.
const LISTING_MAX: usize = 100_000;

tributary_core::declared! {
    /// Settings of a [`PubSub`].
    #[derive(Clone, PartialEq, Debug)]
    pub struct PubSubConfig {
        /// This host.
        pub node: NodeId = NodeId::NONE,
        /// Human-readable name of this host, at most 32 bytes; longer ones are cut.
        pub label: String = String::new(),
        /// Lease of publications and subscriptions; they are renewed at a third. Default: 30 s.
        pub lease: Duration = Duration::from_secs(30),
        /// Maximum requests in progress. Default: 2,048; initially 64, and then as many as the rendezvous nodes accept.
        pub requests_max: usize = 2_048,
        /// Publications and subscriptions. Default: 1,000,000.
        pub wishes_max: usize = 1_000_000,
    }
}

/// The publish/subscribe client of one host.
///
/// Order of calls: after any command or `handle_*`, drain [`PubSub::poll_message`] and [`PubSub::poll_event`], then
/// call [`PubSub::poll_timeout`].
#[derive(Debug, Default)]
pub struct PubSub {
    config: PubSubConfig,
    wishes: BTreeMap<Key, Wish>,
    /// Nearest first.
    resolvers: Vec<NodeId>,
    /// The boot number of each of them.
    boots: BTreeMap<NodeId, u32>,
    /// The rendezvous node in use.
    pub resolver: Option<NodeId>,
    /// When a rendezvous node last answered anything, and when the one in use did.
    heard: Option<Time>,
    heard_from_used: Option<Time>,
    /// Rendezvous nodes that did not answer, until when they are passed over.
    avoided: BTreeMap<NodeId, Time>,
    /// Requests in progress, with the node that got each, and when.
    requests: BTreeMap<u32, (Key, NodeId, Time)>,
    /// Unsolicited answers and notices.
    pub unsolicited: u64,
    /// How many of them were refused because this host has reached its limit.
    pub refused: u64,
    flow: Flow,
    renewals: Renewals,
    timers: TimerTable<Key>,
    request_next: u32,
    version_next: u64,
    messages: VecDeque<(NodeId, Message)>,
    events: VecDeque<ResolverEvent>,
    /// Names that are no items, as subscriptions to them have shown.
    pub scopes: VecDeque<Name>,
    /// The round trip of a long message over the slowest link of this node.
    answer_time: Duration,
    /// The shortest lease with which renewals stay within their share of that link.
    lease_min: Duration,
}

/// Renewals with their answers take at most this fraction (1/`RENEWAL_PARTS`) of a link.
const RENEWAL_PARTS: u32 = 100;
/// The longest lease for a slow link: as long as rendezvous nodes grant.
const LEASE_MAX: Duration = Duration::from_secs(3_600);

/// The subject of a wish. A wish for something and the wish to withdraw it share a key: the later one counts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Key {
    Item(Name),
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "nodes create the scopes of their items, and no command creates one alone")
    )]
    Scope(Name),
    Subscription(Name, u32),
    Listing(Name),
}

#[derive(Debug)]
struct Wish {
    aim: Aim,
    /// Version of the last request.
    version: u64,
    /// The request in progress, if any.
    request: Option<u32>,
    /// When the request in progress is overdue.
    overdue_at: Time,
    /// Whether the request in progress serves an earlier aim: the client awaits its answer, so that the two cannot
    /// overtake each other, and ignores it.
    superseded: bool,
    /// Whether it withdraws a wish that this host had sent.
    takes_back: bool,
    /// Whether it was granted once; then it is kept in any event.
    granted: bool,
    /// The version of a publication that the rendezvous nodes hold, which its renewals count, and its bucket.
    held: Option<u64>,
    bucket: u16,
    /// How often the request in progress was overdue at a rendezvous node that answers.
    overdue: u8,
    /// Whether the application has yet to learn that it is granted.
    announce: bool,
    /// Since when it has had no effect, and whether the application knows.
    unmet_since: Time,
    complained: bool,
}

#[derive(Clone, PartialEq, Debug)]
enum Aim {
    Publish {
        manifest: Vec<u8>,
        object_bytes: u64,
        scopes: MissingScopes,
    },
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "nodes create the scopes of their items, and no command creates one alone")
    )]
    PublishScope {
        scopes: MissingScopes,
    },
    Subscribe {
        k: u8,
        metric: PathMetric,
    },
    List(Listing),
    /// Withdraw it.
    Withdraw,
}

/// One publication or subscription, for tests.
#[cfg(test)]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WishStatus {
    /// The name.
    pub name: Name,
    /// `publish`, `unpublish`, `publish scope`, `unpublish scope`, `subscribe`, `unsubscribe`, `subscribe scope` or
    /// `unsubscribe scope`.
    pub operation: &'static str,
    /// Whether the rendezvous nodes granted it.
    pub granted: bool,
}

impl PubSub {
    /// A client without wishes. `boot` increases from start to start if possible; otherwise the rendezvous nodes answer
    /// with the last known version and the client catches up.
    pub fn new(mut config: PubSubConfig, boot: u32) -> Self {
        let cut = (0..=LABEL_BYTES_MAX).rev().find(|at| config.label.is_char_boundary(*at)).unwrap_or(0);
        config.label.truncate(cut);
        PubSub {
            flow: Flow::new(&config),
            request_next: boot.wrapping_mul(0x9e37_79b1),
            version_next: u64::from(boot >> 2) << 32,
            config,
            ..PubSub::default()
        }
    }
    /// Takes how slow the slowest link of this node is: the round trip of a long message, and for how long one occupies the
    /// link. Leases that are granted from now on are longer on a slow one.
    pub fn set_slowest_link(&mut self, round_trip: Duration, airtime: Duration) {
        self.answer_time = round_trip;
        self.lease_min = (airtime * (3 * RENEWAL_PARTS)).min(LEASE_MAX);
    }
    fn lease(&self) -> Duration {
        self.config.lease.max(self.lease_min)
    }

    /// Announces an item: its encoded manifest, and its size for listings. The same again changes nothing and is answered
    /// as the first time; another manifest replaces the one before.
    pub fn publish(&mut self, now: Time, name: &Name, manifest: Vec<u8>, object_bytes: u64, scopes: MissingScopes) {
        if manifest.len() > MANIFEST_BYTES_MAX {
            return self.reject(name, "publish", Limit::ManifestBytes.reached(MANIFEST_BYTES_MAX));
        }
        let aim = Aim::Publish { manifest, object_bytes, scopes };
        let key = Key::Item(name.clone());
        match self.wishes.get_mut(&key).filter(|wish| wish.aim == aim) {
            Some(wish) if wish.granted => self.events.push_back(granted_event(&key, false)),
            Some(wish) => wish.announce = true,
            None => self.wish(now, key, aim),
        }
    }
    /// Whether an item of this host is announced, or about to be.
    pub fn publishes(&self, name: &Name) -> bool {
        self.wishes.get(&Key::Item(name.clone())).is_some_and(|wish| wish.aim != Aim::Withdraw)
    }
    /// Withdraws an item of this host.
    pub fn unpublish(&mut self, now: Time, name: &Name) {
        self.wish(now, Key::Item(name.clone()), Aim::Withdraw);
    }
    /// Creates a scope.
    #[cfg(test)]
    pub fn publish_scope(&mut self, now: Time, name: &Name, scopes: MissingScopes) {
        let aim = Aim::PublishScope { scopes };
        let key = Key::Scope(name.clone());
        if self.wishes.get(&key).is_some_and(|wish| wish.aim == aim) {
            return self.reject(name, "publish scope", Rejection::AlreadyPublished);
        }
        self.wish(now, key, aim);
    }
    /// Removes a scope that this host created; it must be empty.
    #[cfg(test)]
    pub fn unpublish_scope(&mut self, now: Time, name: &Name) {
        self.wish(now, Key::Scope(name.clone()), Aim::Withdraw);
    }
    /// Subscribes to an item: the topology manager will offer `k` paths (1 to [`PATHS_MAX`]) per source, now or as soon
    /// as it is published. `transfer` is this host's number for it.
    pub fn subscribe(&mut self, now: Time, name: &Name, transfer: u32, k: u8, metric: PathMetric) {
        let k = k.clamp(1, PATHS_MAX as u8);
        self.wish(now, Key::Subscription(name.clone(), transfer), Aim::Subscribe { k, metric });
    }
    /// Withdraws the subscription of a transfer.
    pub fn unsubscribe(&mut self, now: Time, name: &Name, transfer: u32) {
        self.wish(now, Key::Subscription(name.clone(), transfer), Aim::Withdraw);
    }
    /// Subscribes to the entries of a scope: events list them, then comes [`ResolverEvent::Listed`], then the changes.
    /// A repeated subscription lists them again.
    pub fn subscribe_scope(&mut self, now: Time, name: &Name) {
        self.wish(now, Key::Listing(name.clone()), Aim::List(Listing::default()));
    }
    /// Ends that subscription.
    pub fn unsubscribe_scope(&mut self, now: Time, name: &Name) {
        self.wish(now, Key::Listing(name.clone()), Aim::Withdraw);
    }
    /// Withdraws everything, for a clean end.
    pub fn withdraw_all(&mut self, now: Time) {
        let keys: Vec<Key> = self.wishes.keys().cloned().collect();
        keys.into_iter().for_each(|key| self.wish(now, key, Aim::Withdraw));
    }

    /// Takes the present rendezvous nodes, nearest first, with their boot numbers: the one in use gets everything again
    /// after a restart.
    pub fn handle_resolvers(&mut self, now: Time, resolvers: &[(NodeId, u32)]) {
        self.resolvers = resolvers.iter().map(|(node, _)| *node).collect();
        let boots = core::mem::replace(&mut self.boots, resolvers.iter().copied().collect());
        self.avoided.retain(|node, _| self.resolvers.contains(node));
        if self.resolver.is_none_or(|node| !self.resolvers.contains(&node)) {
            self.choose_resolver(now);
        } else if let Some(node) = self.resolver
            && boots.get(&node) != self.boots.get(&node)
        {
            self.renew_everything(now);
        }
    }

    /// Takes an answer of the rendezvous node that got the request, or a notice of any rendezvous node; messages of
    /// other nodes are dropped and counted, and other messages are ignored.
    pub fn handle_message(&mut self, now: Time, from: NodeId, message: Message) {
        match message {
            Message::Renewed(renewed) if self.renewals.is_expected(&renewed, from) => {
                self.hear(now, from);
                self.on_renewed(now, renewed);
            }
            Message::Reply(reply)
                if self.requests.get(&reply.request).is_some_and(|(_, addressee, _)| *addressee == from) =>
            {
                self.hear(now, from);
                self.on_reply(now, reply);
            }
            // The answer to a request that has ended shows that the node is alive.
            Message::Reply(reply) if self.resolvers.contains(&from) && !self.requests.contains_key(&reply.request) => {
                self.hear(now, from);
            }
            Message::ScopeNotice(notice) if self.resolvers.contains(&from) => self.on_notice(now, notice),
            Message::Reply(_) | Message::ScopeNotice(_) | Message::Renewed(_) => self.unsolicited += 1,
            _ => {}
        }
    }

    /// Takes the result of a message to a rendezvous node.
    pub fn handle_outcome(&mut self, now: Time, to: NodeId, result: SendResult) {
        if result == SendResult::Delivered {
            self.hear(now, to);
        } else if self.resolver == Some(to) {
            self.fail_over(now, to);
        }
    }

    fn hear(&mut self, now: Time, node: NodeId) {
        self.heard = Some(now);
        if self.resolver == Some(node) {
            self.heard_from_used = Some(now);
        }
    }

    /// Serves the timers that are due at `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        self.renew_if_due(now);
        self.resume(now);
        while let Some(key) = self.timers.pop_due(now) {
            self.complain_if_unmet(now, &key);
            let Some(wish) = self.wishes.get(&key) else { continue };
            match (wish.request, self.resolver) {
                (Some(_), Some(_)) if wish.overdue_at > now => self.timers.set(key, wish.overdue_at),
                (Some(_), Some(node)) => self.on_overdue(now, key, node),
                (None, Some(_)) => self.send(now, key),
                (_, None) => self.park(now, key),
            }
        }
    }

    /// When to call [`PubSub::handle_timeout`] next.
    pub fn poll_timeout(&self) -> Option<Time> {
        let renewal = self.renewals.due(RESOLVER_TIMEOUT, self.resolver.is_some());
        self.timers.next().map(|(due, _)| due).into_iter().chain(renewal).chain(self.flow.paused_until).min()
    }
    /// The next message, and for which rendezvous node.
    pub fn poll_message(&mut self) -> Option<(NodeId, Message)> {
        self.messages.pop_front()
    }
    /// The next event for the application.
    pub fn poll_event(&mut self) -> Option<ResolverEvent> {
        self.events.pop_front()
    }

    /// The number of publications and subscriptions.
    pub fn wish_count(&self) -> usize {
        self.wishes.len()
    }
    /// All publications and subscriptions.
    #[cfg(test)]
    pub fn status(&self) -> Vec<WishStatus> {
        self.wishes
            .iter()
            .map(|(key, wish)| WishStatus {
                name: key.name().clone(),
                operation: operation_name(key, &wish.aim),
                granted: wish.granted,
            })
            .collect()
    }

    fn wish(&mut self, now: Time, key: Key, aim: Aim) {
        if !self.wishes.contains_key(&key) && self.wishes.len() >= self.config.wishes_max {
            let operation = operation_name(&key, &aim);
            self.refused += 1;
            return self.reject(key.name(), operation, Limit::Wishes.reached(self.config.wishes_max));
        }
        let version = self.version(&key);
        let before = self.wishes.get(&key);
        let takes_back = aim == Aim::Withdraw && before.is_some_and(|wish| wish.aim != aim || wish.takes_back);
        let former = before.and_then(|wish| Some((wish.request?, wish.overdue_at)));
        let wish = Wish {
            aim,
            takes_back,
            version,
            request: former.map(|(request, _)| request),
            overdue_at: former.map_or(now, |(_, overdue_at)| overdue_at),
            superseded: former.is_some(),
            granted: false,
            held: None,
            bucket: match &key {
                Key::Item(name) => bucket_of(ItemId::new(name).key()),
                Key::Scope(_) | Key::Subscription(..) | Key::Listing(_) => 0,
            },
            overdue: 0,
            announce: true,
            unmet_since: now,
            complained: false,
        };
        self.count_out(&key);
        self.wishes.insert(key.clone(), wish);
        if former.is_none() {
            self.send(now, key);
        }
    }

    /// A version for the next request about `key`, beyond its last one, which may be ahead of other keys' versions.
    fn version(&mut self, key: &Key) -> u64 {
        self.version_next += 1;
        let last = self.wishes.get(key).map_or(0, |wish| wish.version);
        self.version_next.max(last + 1)
    }

    /// Sends the request for `key`, queues it if too many are in progress, or leaves it until a rendezvous node is
    /// known.
    fn send(&mut self, now: Time, key: Key) {
        let Some(resolver) = self.resolver else { return self.park(now, key) };
        let lease = self.lease();
        if !self.has_room(&key) {
            return;
        }
        let Some(wish) = self.wishes.get_mut(&key) else { return };
        if let Some(request) = wish.request {
            self.requests.remove(&request);
        }
        self.request_next = self.request_next.wrapping_add(1) | Reply::HOST_BIT;
        let request = self.request_next;
        wish.request = Some(request);
        wish.superseded = false;
        let operation = match (&key, &wish.aim) {
            (_, Aim::Publish { manifest, object_bytes, scopes }) => Operation::Publish {
                label: self.config.label.clone(),
                manifest: manifest.clone(),
                object_bytes: *object_bytes,
                lease,
                scopes: *scopes,
            },
            (_, Aim::PublishScope { scopes }) => Operation::PublishScope { lease, scopes: *scopes },
            (Key::Subscription(_, transfer), Aim::Subscribe { k, metric }) => {
                Operation::Subscribe { transfer: *transfer, k: *k, metric: *metric, lease }
            }
            (_, Aim::Subscribe { k, metric }) => Operation::Subscribe { transfer: 0, k: *k, metric: *metric, lease },
            (_, Aim::List(listing)) => Operation::SubscribeScope { known: listing.known(), lease },
            (Key::Item(_), Aim::Withdraw) => Operation::Unpublish,
            (Key::Scope(_), Aim::Withdraw) => Operation::UnpublishScope,
            (Key::Subscription(_, transfer), Aim::Withdraw) => Operation::Unsubscribe { transfer: *transfer },
            (Key::Listing(_), Aim::Withdraw) => Operation::UnsubscribeScope,
        };
        let message = ClientRequest { request, version: wish.version, name: key.name().clone(), operation };
        self.messages.push_back((resolver, Message::Request(message)));
        wish.overdue_at = now + REQUEST_TIMEOUT.max(self.answer_time * 2);
        wish.overdue = 0;
        let complain_at = wish.unmet_since + RESOLVER_TIMEOUT;
        let complains_first = !wish.complained && complain_at > now && complain_at < wish.overdue_at;
        self.timers.set(key.clone(), if complains_first { complain_at } else { wish.overdue_at });
        self.requests.insert(request, (key, resolver, now));
    }

    /// Whether a rendezvous node has granted a subscription to a name, and which one is in use; `None` without one.
    pub(crate) fn subscription(&self, name: &Name) -> Option<(bool, Option<NodeId>)> {
        let is_of = |key: &Key| matches!(key, Key::Subscription(of, _) if of == name);
        let wish = self.wishes.iter().rfind(|(key, wish)| is_of(key) && wish.aim != Aim::Withdraw);
        wish.map(|(_, wish)| (wish.granted, self.resolver))
    }

    /// Without any rendezvous node the client can only report that to the application in time.
    fn park(&mut self, now: Time, key: Key) {
        let Some(wish) = self.wishes.get_mut(&key) else { return };
        if let Some(request) = wish.request.take() {
            self.requests.remove(&request);
        }
        if wish.complained {
            self.timers.stop(&key);
        } else {
            let due = (wish.unmet_since + RESOLVER_TIMEOUT).max(now);
            self.timers.set(key, due);
        }
    }

    fn complain_if_unmet(&mut self, now: Time, key: &Key) {
        let Some(wish) = self.wishes.get_mut(key) else { return };
        // Of many publications some wait for long: that is no obstacle while others are granted.
        if flow::Class::of(key, wish) != flow::Class::Urgent && !self.flow.is_stuck(now) {
            return;
        }
        let waits = wish.request.is_some() || self.resolver.is_none();
        let (wish_since, unmet) = (wish.unmet_since, now.since(wish.unmet_since));
        if waits && !wish.complained && unmet >= RESOLVER_TIMEOUT {
            wish.complained = true;
            let operation = operation_name(key, &wish.aim);
            let reason = self.why_unmet(wish_since, unmet);
            self.events.push_back(ResolverEvent::Rejected { name: key.name().to_string(), operation, reason });
        }
    }

    /// Why a wish without effect since `since` has not been granted for `unmet`.
    fn why_unmet(&self, since: Time, unmet: Duration) -> String {
        let (known, seconds) = (self.resolvers.len(), unmet.as_secs());
        if known == 0 {
            format!("{}: none is known after {seconds} s", Rejection::NoResolverReachable)
        } else if self.heard.is_some_and(|heard| heard >= since) {
            let (open, waiting) = (self.requests.len(), self.flow.waiting());
            format!(
                "{}: they answer, but not to this within {seconds} s ({open} requests are in progress and {waiting} \
                 wait); still trying",
                Rejection::Overloaded
            )
        } else {
            format!("{}: none of {known} known answered within {seconds} s", Rejection::NoResolverReachable)
        }
    }

    /// A request was not answered in time. A rendezvous node that answers other requests is slow, not dead: switching
    /// to another one would only repeat all of them.
    fn on_overdue(&mut self, now: Time, key: Key, node: NodeId) {
        let timeout = REQUEST_TIMEOUT;
        let is_heard = self.heard_from_used.is_some_and(|heard| now.since(heard) < timeout);
        if is_heard {
            self.flow.halve(now, now - REQUEST_TIMEOUT, flow::WINDOW_SLOW, &self.config);
        }
        if is_heard && let Some(wish) = self.wishes.get_mut(&key) {
            if wish.overdue < OVERDUE_MAX {
                wish.overdue += 1;
                wish.overdue_at = now + timeout;
                let due = wish.overdue_at;
                return self.timers.set(key, due);
            }
            return self.send(now, key);
        }
        self.fail_over(now, node);
        if self.timers.due(&key).is_none() {
            self.send(now, key);
        }
    }

    fn fail_over(&mut self, now: Time, node: NodeId) {
        self.avoided.insert(node, now + AVOID_LIFETIME);
        self.choose_resolver(now);
    }

    /// Chooses the nearest rendezvous node that is not avoided, and sends everything to a new one.
    fn choose_resolver(&mut self, now: Time) {
        self.avoided.retain(|_, until| *until > now);
        let former = self.resolver;
        let usable = self.resolvers.iter().copied().find(|node| !self.avoided.contains_key(node));
        // If all are avoided, the one whose time ends first is tried.
        let soonest = || {
            let known = self.avoided.iter().filter(|(node, _)| self.resolvers.contains(node));
            known.min_by_key(|(_, until)| **until).map(|(node, _)| *node)
        };
        self.resolver = usable.or_else(soonest);
        if self.resolver != former {
            self.renew_everything(now);
        }
    }

    /// Continues with a rendezvous node that has no records of this host: subscriptions first. Publications are renewed
    /// immediately, since other nodes may still hold them; those that no node holds are published again after the
    /// answer.
    fn renew_everything(&mut self, now: Time) {
        self.heard_from_used = None;
        self.requests.clear();
        self.flow.clear();
        let open = self.wishes.iter().filter(|(_, wish)| wish.held.is_none());
        let (bulk, urgent): (Vec<_>, Vec<_>) = open.partition(|(key, wish)| wish.is_bulk(key));
        let keys: Vec<Key> = urgent.into_iter().chain(bulk).map(|(key, _)| key.clone()).collect();
        for key in keys {
            let version = self.version(&key);
            if let Some(wish) = self.wishes.get_mut(&key) {
                // Requests in progress keep their version: the node may have stored them already. Granted ones are
                // renewed.
                if wish.request.take().is_none() && wish.granted {
                    wish.version = version;
                    wish.unmet_since = now;
                }
            }
            self.send(now, key);
        }
        self.renew_all(now);
    }

    fn on_reply(&mut self, now: Time, reply: Reply) {
        let Some((key, _, sent)) = self.requests.remove(&reply.request) else { return };
        if let Some(wish) = self.wishes.get(&key) {
            let was_overdue = wish.overdue > 0;
            self.on_answered(now, sent, was_overdue, &reply.answer);
        }
        self.on_answer(now, &key, reply.answer);
        self.send_backlog(now);
    }

    fn on_answer(&mut self, now: Time, key: &Key, answer: Answer) {
        let version = self.version(key);
        let Some(wish) = self.wishes.get_mut(key) else { return };
        wish.request = None;
        if wish.superseded {
            return self.send(now, key.clone());
        }
        match answer {
            Answer::Done { .. } => self.on_granted(now, key, version),
            // It has been withdrawn already: the answer was lost, or the request had never arrived there.
            Answer::Rejected(Rejection::NotPublished) if wish.takes_back => self.on_granted(now, key, version),
            // The entry has reached the last version number, which no correct node does. It ends with its lease.
            Answer::Stale { current } if current >= VERSION_MAX => {
                self.timers.set(key.clone(), now + self.lease() / 3);
            }
            Answer::Stale { current } => {
                // This host published more before its restart than since, or another node forged its name: only this
                // entry continues from that version.
                wish.version = current + 1;
                self.send(now, key.clone());
            }
            Answer::NotReady => self.timers.set(key.clone(), now + RETRY_INTERVAL),
            Answer::Rejected(rejection) if rejection.is_busy() => self.on_busy(now, key, rejection),
            Answer::Rejected(rejection) => self.on_rejection(now, key, rejection),
        }
    }

    fn on_granted(&mut self, now: Time, key: &Key, version: u64) {
        let renew_at = now + self.lease() / 3;
        let Some(wish) = self.wishes.get_mut(key) else { return };
        let announce = core::mem::take(&mut wish.announce);
        wish.granted = true;
        wish.complained = false;
        let held = core::mem::replace(&mut wish.version, version);
        let withdrawn = wish.aim == Aim::Withdraw;
        let is_renewed_with_others = wish.is_item();
        wish.unmet_since = renew_at;
        if withdrawn {
            self.wishes.remove(key);
            self.timers.stop(key);
        } else {
            self.timers.set(key.clone(), renew_at);
        }
        if is_renewed_with_others {
            self.timers.stop(key);
            self.count_in(now, key, held);
        }
        if announce {
            self.events.push_back(granted_event(key, withdrawn));
        }
    }

    fn on_rejection(&mut self, now: Time, key: &Key, rejection: Rejection) {
        let Some(wish) = self.wishes.get_mut(key) else { return };
        let operation = operation_name(key, &wish.aim);
        if rejection == Rejection::IsScope && matches!(key, Key::Subscription(..)) {
            self.scopes.push_back(key.name().clone());
        }
        let keeps = (wish.granted || rejection.is_passing()) && wish.aim != Aim::Withdraw;
        let tells = !core::mem::replace(&mut wish.complained, true) || !keeps;
        if keeps {
            self.timers.set(key.clone(), now + RETRY_INTERVAL);
        } else {
            self.count_out(key);
            self.wishes.remove(key);
            self.timers.stop(key);
        }
        if tells {
            self.reject(key.name(), operation, rejection);
        }
    }

    fn on_notice(&mut self, now: Time, notice: ScopeNotice) {
        let key = Key::Listing(notice.scope.clone());
        if let Some(Wish { aim: Aim::List(listing), request, .. }) = self.wishes.get_mut(&key)
            && listing.on_notice(notice, LISTING_MAX, &mut self.events)
            && request.is_none()
        {
            self.timers.set(key, now);
        }
    }

    fn reject(&mut self, name: &Name, operation: &'static str, rejection: Rejection) {
        let reason = rejection.to_string();
        self.events.push_back(ResolverEvent::Rejected { name: name.to_string(), operation, reason });
    }
}

impl Wish {
    /// Whether it is a publication of an item, which is renewed with all others.
    fn is_item(&self) -> bool {
        matches!(self.aim, Aim::Publish { .. })
    }
    /// Whether it may wait behind others.
    fn is_bulk(&self, key: &Key) -> bool {
        self.is_item() || matches!(key, Key::Scope(_)) && self.aim != Aim::Withdraw
    }
}

/// How often a request may be overdue before it is sent again to a rendezvous node that answers others.
const OVERDUE_MAX: u8 = 2;

impl Key {
    fn name(&self) -> &Name {
        match self {
            Key::Item(name) | Key::Scope(name) | Key::Subscription(name, _) | Key::Listing(name) => name,
        }
    }
}

fn operation_name(key: &Key, aim: &Aim) -> &'static str {
    let withdraws = *aim == Aim::Withdraw;
    match key {
        Key::Item(_) if withdraws => "unpublish",
        Key::Item(_) => "publish",
        Key::Scope(_) if withdraws => "unpublish scope",
        Key::Scope(_) => "publish scope",
        Key::Subscription(..) if withdraws => "unsubscribe",
        Key::Subscription(..) => "subscribe",
        Key::Listing(_) if withdraws => "unsubscribe scope",
        Key::Listing(_) => "subscribe scope",
    }
}

fn granted_event(key: &Key, withdrawn: bool) -> ResolverEvent {
    let name = key.name().to_string();
    match key {
        Key::Item(_) | Key::Scope(_) if withdrawn => ResolverEvent::Unpublished { name },
        Key::Item(_) | Key::Scope(_) => ResolverEvent::Published { name },
        Key::Subscription(..) | Key::Listing(_) if withdrawn => ResolverEvent::Unsubscribed { name },
        Key::Subscription(..) | Key::Listing(_) => ResolverEvent::Subscribed { name },
    }
}
