//! The topology manager of a domain, active or standby.
//!
//! ```text
//!            startup_wait or active one silent, and no better standby
//!   standby ─────────────────────────────────────────────────────────► active (term = highest seen + 1)
//!      ▲                                                                  │
//!      └──────────────── another active one with a higher term ───────────┘
//! ```
//! Active and standby managers get the same link states and path requests; only the active one sends anything. Their
//! results depend on nothing else, so after a take-over the paths, their numbers and FIDs are the same as before.
use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    string::String,
    vec::Vec,
};

use tributary_core::{Duration, NodeId, Time, event::Event};
use tributary_transport::{Cadence, PathMetric};
use tributary_trust::{Access, Grant, Identity, Roles as CertifiedRoles};

use super::{
    fid::{FidBuilder, FidConfig, Tree},
    graph::{Change, Graph, LinkIndex, LinkKey, LinkStates, NodeIndex, residual_kbps},
    paths::{PathConfig, shared_links},
    yen::{Path, shortest_tree},
};
use crate::{
    capability::{CapabilityKey, KeyRing},
    config::{Config, Limits},
    ids::Roles,
    wire::{
        Beacon, DATAGRAM_BYTES_MIN, Fid, FidKind, Limit, LinkState, ManagerState, Message, Offer, OfferVersion,
        PATH_LABEL_BYTES_MAX, PATHS_MAX, PathOffer, PathRequest, RESOLVERS_MAX, Refused, Rejection, ResolverRoute,
        Routes, SHARED_LINKS_MAX, SharedLink, successions, term_after,
    },
};

mod config;
mod offers;
mod requests;
mod routes;
mod selections;
mod succession;

pub use config::ManagerConfig;

use offers::OfferedSource;
use requests::{Ended, Transfer};
use routes::RoutesDue;
use selections::{Selection, Shapes};
use succession::Rival;

/// Time between beacons.
const BEACON_INTERVAL: Duration = Duration::from_millis(500);
/// Silence after which an active manager counts as dead.
const MANAGER_SILENCE: Duration = Duration::from_millis(2500);
/// How long a manager listens after its start before it may become active.
const STARTUP_WAIT: Duration = Duration::from_millis(600);
/// How long a change of the topology waits for further ones before paths are computed again.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// Life of a capability key. Offers are renewed when it changes; the previous one stays valid for one more period.
const CAPABILITY_ROTATION: Duration = Duration::from_secs(3600);
/// When a message could not be delivered: how long until the next try.
const RETRY: Duration = Duration::from_millis(300);
/// How long a withdrawn transfer or publisher is remembered, so that a delayed request does not revive it: longer than
/// a message may be in transit.
const WITHDRAWAL_MEMORY: Duration = Duration::from_secs(60);

tributary_core::declared! {
    /// The topology manager on one node.
    ///
    /// After each `handle_*`, read [`TopologyManager::reshaped`] (then messages in flight take the new route), and
    /// drain [`TopologyManager::poll_message`] (to send over [`TopologyManager::route_to`]),
    /// [`TopologyManager::poll_beacon`] (to flood) and [`TopologyManager::poll_event`]; then read
    /// [`TopologyManager::poll_timeout`].
    pub struct TopologyManager {
        /// In a network with an authority: nodes have the roles in their certificates.
        identity: Option<Identity> = None,
        /// The grants of the domain's nodes.
        grants: BTreeMap<NodeId, Grant> = BTreeMap::new(),
        started: Option<Time> = None,
        state: ManagerState = ManagerState::Standby,
        /// Its term, or the highest that it saw.
        pub term: u32 = 0,
        rivals: BTreeMap<NodeId, Rival> = BTreeMap::new(),
        /// When an active manager was last heard, and the silence after which it counts as dead.
        last_active: Option<(Time, Duration)> = None,
        beacon_due: Time = Time::ZERO,
        beacon_sequence: u32 = 0,
        domain: LinkStates = LinkStates::new(config.limits.nodes_max, config.limits.links_max, config.node_silence),
        graph: Graph = Graph::new(&[]),
        shapes: Shapes = Shapes::default(),
        builder: FidBuilder = FidBuilder::new(config.fid.clone()),
        change: Change = Change::None,
        changed_nodes: BTreeSet<NodeId> = BTreeSet::new(),
        recompute_due: Option<Time> = None,
        /// When paths are computed again because delays or loads have changed.
        metrics_due: Option<Time> = None,
        /// Whether routes may have changed since this was reset.
        pub reshaped: bool = false,
        trees: BTreeMap<NodeIndex, Vec<Option<LinkIndex>>> = BTreeMap::new(),
        pairs: BTreeMap<(NodeId, NodeId), (Vec<LinkKey>, Fid)> = BTreeMap::new(),
        transfers: BTreeMap<(NodeId, u32), Transfer> = BTreeMap::new(),
        ended: Ended = Ended::default(),
        /// Transfers whose offer may have changed; those without an offer come first.
        dirty: BTreeSet<(NodeId, u32)> = BTreeSet::new(),
        fresh: BTreeSet<(NodeId, u32)> = BTreeSet::new(),
        /// Bytes that packets leave for FIDs: see [`Offer::fid_room`].
        fid_room: u8 = 0,
        /// How often the paths of a transfer were computed.
        pub computations: u64 = 0,
        sent_routes: BTreeMap<NodeId, Routes> = BTreeMap::new(),
        routes_sequence: u32 = 0,
        /// One for all transfers: a transfer that returns after its lease ran out must not reuse the sequences that its
        /// subscriber knows.
        offers_sequence: u32 = 0,
        retries: BTreeMap<NodeId, Time> = BTreeMap::new(),
        // A restarted manager starts elsewhere; otherwise capabilities that had expired long ago would be valid
        // again.
        ring: KeyRing = KeyRing::new(config.secret, config.boot as u32),
        rotation_due: Time = Time::MAX,
        messages: VecDeque<(NodeId, Message)> = VecDeque::new(),
        pub(crate) refused_nodes: VecDeque<(NodeId, Refused)> = VecDeque::new(),
        beacons: VecDeque<Beacon> = VecDeque::new(),
        events: VecDeque<Event> = VecDeque::new(),
        /// Messages that were refused, by reason.
        pub refused: BTreeMap<&'static str, u64> = BTreeMap::new(),
        /// The answer of `poll_timeout`, read far more often than it changes.
        deadline: Time = Time::ZERO,
        pub(crate) config: ManagerConfig = config,
    }
    /// A standby that listens.
    pub fn new(config: ManagerConfig) {}
}

impl TopologyManager {
    /// Sets this node's identity in a network with an authority.
    pub fn set_identity(&mut self, now: Time, identity: &Identity) {
        // Of another authority, expired or revoked: it gets no further capability keys.
        let is_same = self.identity.as_ref().is_none_or(|before| before.is_of_network(identity));
        self.grants.retain(|_, grant| is_same && identity.check(grant, now).is_ok());
        if let Ok(grant) = identity.own_grant(&self.config.label, now) {
            self.grants.insert(self.config.node, grant);
        }
        self.identity = Some(identity.clone());
    }
    /// Sets a node's grant, before its link state.
    pub fn handle_grant(&mut self, node: NodeId, grant: &Grant) {
        if self.grants.get(&node).is_some_and(|known| known == grant) {
            return;
        }
        // More than the nodes of the domain, as some may have left it since.
        if self.grants.len() >= 2 * self.config.limits.nodes_max {
            let domain = &self.domain;
            self.grants.retain(|node, _| domain.get(*node).is_some());
        }
        self.grants.insert(node, grant.clone());
    }
    /// Takes a node's link state.
    pub fn handle_link_state(&mut self, now: Time, mut state: LinkState) {
        let node = state.node;
        if self.identity.is_some() {
            let certified = self.grants.get(&node).map_or(CertifiedRoles::HOST, |grant| grant.roles);
            state.roles = state.roles.within(certified);
        }
        let reported = state.adjacencies.len();
        // A link with a smaller MTU would make the packets of all paths of a transfer as small.
        state.adjacencies.retain(|link| link.mtu >= DATAGRAM_BYTES_MIN);
        if state.adjacencies.len() < reported {
            self.refuse("a link carries less than 1,200 bytes");
        }
        match self.domain.handle(now, state) {
            Err(reason) => {
                let limit = match reason {
                    super::graph::reason::NODES => Some(Limit::Nodes.reached(self.config.limits.nodes_max)),
                    super::graph::reason::LINKS => Some(Limit::Links.reached(self.config.limits.links_max)),
                    _ => None,
                };
                match limit {
                    // It is not in the graph, so its message's own path is the only one to it.
                    Some(rejection) => {
                        self.refuse_for(node, rejection);
                        self.refused_nodes.push_back((node, Refused { transfer: 0, rejection }));
                    }
                    None => self.refuse(reason),
                }
            }
            Ok(Change::None) => {}
            // Delays and loads change all the time, and a late update breaks nothing.
            Ok(Change::Metrics) => {
                self.metrics_due.get_or_insert(now + DEBOUNCE * 10);
            }
            Ok(change) => {
                self.change = self.change.max(change);
                self.changed_nodes.insert(node);
                let due = now + DEBOUNCE;
                self.recompute_due = Some(self.recompute_due.map_or(due, |earlier| earlier.min(due)));
            }
        }
        // The new term has to exceed any that a node has seen, including this manager's before a restart.
        let above = term_after(self.domain.term, self.config.boot);
        if self.state == ManagerState::Active && self.domain.term > self.term && above > self.term {
            self.reign(now, above);
        }
        self.handle_timeout(now);
    }
    /// A message to `node` could not be delivered: its content is sent again later if the node is still reachable.
    pub fn handle_undelivered(&mut self, now: Time, node: NodeId) {
        self.retries.insert(node, now + RETRY);
        self.handle_timeout(now);
    }
    /// Serves the timers that are due.
    pub fn handle_timeout(&mut self, now: Time) {
        let started = *self.started.get_or_insert(now);
        self.rivals.retain(|_, rival| rival.heard + rival.silence() > now);
        self.check_succession(now, started);
        if self.beacon_due <= now {
            self.send_beacon(now);
        }
        let gone = self.domain.expire(now);
        if !gone.is_empty() {
            self.change = self.change.max(Change::Reshaped);
            self.changed_nodes.extend(gone);
            self.recompute_due = Some(now);
        }
        self.expire_transfers(now);
        let mut routes_due = RoutesDue::Nobody;
        if self.state == ManagerState::Active && self.rotation_due <= now {
            self.ring.rotate();
            self.rotation_due = now + CAPABILITY_ROTATION;
            self.dirty.extend(self.transfers.keys());
            routes_due = RoutesDue::All;
            self.note(format!("capability keys rotated to epoch {}", self.ring.current().epoch));
        }
        let retries: Vec<NodeId> = self.retries.iter().filter(|(_, due)| **due <= now).map(|(node, _)| *node).collect();
        for node in retries {
            self.retries.remove(&node);
            self.sent_routes.remove(&node);
            for (key, transfer) in self.transfers.iter_mut().filter(|(key, _)| key.0 == node) {
                transfer.last_offered = None;
                self.dirty.insert(*key);
            }
            routes_due = routes_due.and(RoutesDue::Only([node].into()));
        }
        if self.metrics_due.is_some_and(|due| due <= now) {
            self.metrics_due = None;
            self.change = self.change.max(Change::Metrics);
            self.recompute_due = Some(now);
        }
        if self.recompute_due.is_some_and(|due| due <= now) {
            routes_due = routes_due.and(self.on_topology());
        }
        if self.state == ManagerState::Active {
            self.announce_routes(routes_due);
            self.send_offers();
        }
        self.deadline = self.next_deadline(started);
    }
    /// When [`TopologyManager::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        Some(self.deadline)
    }
    /// The next message, to send over [`TopologyManager::route_to`].
    pub fn poll_message(&mut self) -> Option<(NodeId, Message)> {
        self.messages.pop_front()
    }
    /// The next beacon to flood.
    pub fn poll_beacon(&mut self) -> Option<Beacon> {
        self.beacons.pop_front()
    }
    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
    /// Verified routes from this node to `node` and back; `None` without a path.
    pub fn route_to(&mut self, node: NodeId) -> Option<(Fid, Fid)> {
        self.pair(self.config.node, node)
    }

    /// Whether it rules.
    pub fn is_active(&self) -> bool {
        self.state == ManagerState::Active
    }
    /// Nodes and directed links of the domain.
    pub fn size(&self) -> (usize, usize) {
        (self.graph.node_count(), self.graph.link_count())
    }
    /// The domain.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }
    /// The last link state of a node.
    pub fn link_state(&self, node: NodeId) -> Option<&LinkState> {
        self.domain.get(node)
    }
    /// Whether a node announces a role, from its first message on.
    pub fn has_role(&self, node: NodeId, role: Roles) -> bool {
        self.link_state(node).is_some_and(|state| state.roles.contains(role))
    }
    /// How many transfers it keeps.
    pub fn transfer_count(&self) -> usize {
        self.transfers.len()
    }

    /// Its rule starts again, so that all offers are made again.
    #[cfg(test)]
    pub(crate) fn reign_again(&mut self, now: Time) {
        let term = term_after(self.term, self.config.boot);
        self.reign(now, term);
    }

    fn next_deadline(&self, started: Time) -> Time {
        let active = self.state == ManagerState::Active;
        let offers = (active && !(self.dirty.is_empty() && self.fresh.is_empty())).then_some(Time::ZERO);
        let succession = (!active).then(|| self.succession_time(started));
        let rotation = active.then_some(self.rotation_due);
        let single = [
            Some(self.beacon_due),
            self.recompute_due,
            self.metrics_due,
            offers,
            succession,
            rotation,
            self.domain.poll_timeout(),
        ];
        let rivals = self.rivals.values().map(|rival| rival.heard + rival.silence());
        let transfers = self.transfers.values().map(|transfer| transfer.due).chain(self.ended.due());
        let retries = self.retries.values().copied();
        single.into_iter().flatten().chain(rivals).chain(transfers).chain(retries).min().unwrap_or(Time::MAX)
    }

    fn note(&mut self, text: String) {
        self.events.push_back(Event::Note(text));
    }
    /// Refuses a request about `node` because of a limit: counts it, and reports it once per limit.
    fn refuse_for(&mut self, node: NodeId, rejection: Rejection) {
        let Rejection::LimitReached(limit, _) = rejection else { return };
        let count = self.refused.entry(limit.name()).or_default();
        *count += 1;
        if *count == 1 {
            self.note(format!(
                "topology manager {}: node {node} is refused: {rejection}; further refusals are counted",
                self.config.label
            ));
        }
    }
    fn refuse(&mut self, reason: &'static str) {
        let count = self.refused.entry(reason).or_default();
        *count += 1;
        // Stale messages are common; a limit is worth one line.
        if *count == 1 && reason != super::graph::reason::STALE {
            self.note(format!("topology manager {}: {reason}", self.config.label));
        }
    }
}
