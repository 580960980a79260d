//! The topology manager of a domain, active or standby.
//!
//! ```text
//!            startup_wait or active one silent, and no better standby
//!   standby ─────────────────────────────────────────────────────────► active (term = highest seen + 1)
//!      ▲                                                                  │
//!      └──────────────── another active one with a higher term ───────────┘
//! ```
//! Active and standby get the same link states and path requests; only the active one tells anybody anything. What
//! they compute depends on nothing else, so after a take-over the paths, their numbers and FIDs are the same as before.
use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    string::String,
    vec::Vec,
};

use tributary_core::{Duration, NodeId, Time, event::Event};
use tributary_transport::PathMetric;

use super::{
    fid::{FidBuilder, FidConfig, Tree},
    graph::{Change, Graph, LinkIndex, LinkKey, LinkStates, NodeIndex, residual_kbps},
    paths::{PathConfig, Source, select, shared_links},
    yen::{Path, shortest_tree},
};
use crate::{
    capability::CapabilityKey,
    config::Config,
    ids::Roles,
    wire::{
        Beacon, Fid, FidKind, LinkState, ManagerState, Message, Offer, OfferVersion, PATH_LABEL_BYTES_MAX, PATHS_MAX,
        PathOffer, PathRequest, RESOLVERS_MAX, ResolverRoute, Routes, SHARED_LINKS_MAX, SharedLink, successions,
        term_after,
    },
};

/// Settings of a topology manager.
#[derive(Clone, PartialEq, Debug)]
pub struct ManagerConfig {
    /// Its node.
    pub node: NodeId,
    /// Its human-readable name, at most 32 bytes.
    pub label: String,
    /// Number of this run; another one after each start.
    pub incarnation: u64,
    /// The highest of those that answer becomes active; of equal ones the highest node id.
    pub priority: u8,
    /// What capability keys are derived from; the same for all managers of the domain.
    pub domain_secret: [u8; 32],
    /// Time between beacons. Default: 500 ms.
    pub beacon_interval: Duration,
    /// Silence after which an active manager counts as gone. Default: 2.5 s.
    pub manager_silence: Duration,
    /// How long a manager listens after its start before it may become active. Default: 600 ms.
    pub startup_wait: Duration,
    /// How long a change of the topology waits for others before paths are computed again. Default: 50 ms.
    pub debounce: Duration,
    /// Silence after which a node is forgotten. Default: 16 s, three refreshes and a little.
    pub node_silence: Duration,
    /// Life of a capability key. Offers are renewed when it changes; the previous one stays valid for one more
    /// period. Default: 1 h.
    pub capability_rotation: Duration,
    /// When a message could not be delivered: how long until the next try. Default: 300 ms.
    pub retry: Duration,
    /// Transfers at most. Default: 4,096.
    pub transfers_max: usize,
    /// Nodes in the domain at most. Default: 4,096.
    pub nodes_max: usize,
    /// Directed links in the domain at most. Default: 65,536.
    pub links_max: usize,
    /// Paths per source at most, up to 16. Default: 16.
    pub paths_max: usize,
    /// Transfers whose paths are computed in one go; the others follow at once, but packets are handled in between.
    /// Default: 32.
    pub transfers_per_turn: usize,
    /// How FIDs are made.
    pub fid: FidConfig,
    /// How paths are chosen.
    pub paths: PathConfig,
}

impl ManagerConfig {
    /// Defaults for the manager on the node of `config`.
    pub fn new(config: &Config, priority: u8, incarnation: u64) -> ManagerConfig {
        let kind = |name: &String| match name.as_str() {
            "bloom" => Some(FidKind::Bloom),
            "bitmap" => Some(FidKind::Bitmap),
            "list" => Some(FidKind::List),
            _ => None,
        };
        let kinds = config.fid_kinds.iter().filter_map(kind).collect();
        ManagerConfig {
            node: config.node,
            label: config.label.clone(),
            incarnation,
            priority,
            domain_secret: config.domain_secret,
            beacon_interval: Duration::from_millis(500),
            manager_silence: Duration::from_millis(2500),
            startup_wait: Duration::from_millis(600),
            debounce: Duration::from_millis(50),
            node_silence: Duration::from_secs(16),
            capability_rotation: Duration::from_secs(3600),
            retry: Duration::from_millis(300),
            transfers_max: 4096,
            nodes_max: 4096,
            links_max: 65_536,
            paths_max: PATHS_MAX,
            transfers_per_turn: 32,
            fid: FidConfig { kinds, ..FidConfig::default() },
            paths: PathConfig::default(),
        }
    }
}

/// The topology manager on one node.
///
/// After each `handle_*`, drain [`TopologyManager::poll_message`] (to send over [`TopologyManager::route_to`]),
/// [`TopologyManager::poll_beacon`] (to flood) and [`TopologyManager::poll_event`]; then ask
/// [`TopologyManager::poll_timeout`].
pub struct TopologyManager {
    config: ManagerConfig,
    started: Option<Time>,
    state: ManagerState,
    term: u32,
    rivals: BTreeMap<NodeId, Rival>,
    last_active: Option<Time>,
    beacon_due: Time,
    beacon_sequence: u32,

    domain: LinkStates,
    graph: Graph,
    builder: FidBuilder,
    change: Change,
    changed_nodes: BTreeSet<NodeId>,
    recompute_due: Option<Time>,
    trees: BTreeMap<NodeIndex, Vec<Option<LinkIndex>>>,
    pairs: BTreeMap<(NodeId, NodeId), (Vec<LinkKey>, Fid)>,

    transfers: BTreeMap<(NodeId, u32), Transfer>,
    dirty: BTreeSet<(NodeId, u32)>,
    told_routes: BTreeMap<NodeId, Routes>,
    routes_sequence: u32,
    /// One for all transfers: one whose lease runs out and that comes again must not begin anew with the sequences that
    /// its subscriber knows.
    offers_sequence: u32,
    retries: BTreeMap<NodeId, Time>,
    capability_epoch: u32,
    rotation_due: Time,

    messages: VecDeque<(NodeId, Message)>,
    beacons: VecDeque<Beacon>,
    events: VecDeque<Event>,
    refused: BTreeMap<&'static str, u64>,
    /// The answer of `poll_timeout`, which is asked far more often than anything changes.
    deadline: Time,
}

/// Another topology manager.
struct Rival {
    beacon: Beacon,
    heard: Time,
}

struct Transfer {
    request: PathRequest,
    expires: Time,
    /// What the subscriber was told last, with the links of each path; `None` if it must be told in any case.
    told: Option<Vec<OfferedSource>>,
    /// The numbers of paths by their links; kept for the life of the transfer.
    path_ids: BTreeMap<Vec<LinkKey>, u16>,
}

/// One source as it was offered.
#[derive(Clone, PartialEq, Debug)]
struct OfferedSource {
    node: NodeId,
    label: String,
    manifest: Vec<u8>,
    paths: Vec<OfferedPath>,
}

#[derive(Clone, PartialEq, Debug)]
struct OfferedPath {
    links: Vec<LinkKey>,
    offer: PathOffer,
    epoch: u32,
}

/// One transfer, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransferInfo {
    /// Who wants it.
    pub subscriber: NodeId,
    /// The subscriber's number.
    pub transfer: u32,
    /// Sources that were offered.
    pub sources: usize,
    /// Paths that were offered.
    pub paths: usize,
}

const HOP_SEPARATOR: &str = ">";
/// Numbers of paths that one transfer remembers beyond those that it uses.
const PATH_IDS_MAX: usize = 4096;

impl TopologyManager {
    /// A standby that listens.
    pub fn new(config: ManagerConfig) -> TopologyManager {
        TopologyManager {
            domain: LinkStates::new(config.nodes_max, config.links_max, config.node_silence),
            builder: FidBuilder::new(config.fid.clone()),
            started: None,
            state: ManagerState::Standby,
            term: 0,
            rivals: BTreeMap::new(),
            last_active: None,
            beacon_due: Time::ZERO,
            beacon_sequence: 0,
            graph: Graph::new(&[]),
            change: Change::None,
            changed_nodes: BTreeSet::new(),
            recompute_due: None,
            trees: BTreeMap::new(),
            pairs: BTreeMap::new(),
            transfers: BTreeMap::new(),
            dirty: BTreeSet::new(),
            told_routes: BTreeMap::new(),
            routes_sequence: 0,
            offers_sequence: 0,
            retries: BTreeMap::new(),
            capability_epoch: 1,
            rotation_due: Time::MAX,
            messages: VecDeque::new(),
            beacons: VecDeque::new(),
            events: VecDeque::new(),
            refused: BTreeMap::new(),
            deadline: Time::ZERO,
            config,
        }
    }
    /// Takes a node's link state.
    pub fn handle_link_state(&mut self, now: Time, state: LinkState) {
        let node = state.node;
        match self.domain.handle(now, state) {
            Err(reason) => self.refuse(reason),
            Ok(Change::None) => {}
            Ok(change) => {
                self.change = self.change.max(change);
                self.changed_nodes.insert(node);
                // Delays and loads move all the time, and nothing breaks meanwhile.
                let wait = if change == Change::Metrics { self.config.debounce * 10 } else { self.config.debounce };
                let due = now + wait;
                self.recompute_due = Some(self.recompute_due.map_or(due, |earlier| earlier.min(due)));
            }
        }
        // Whatever anybody saw, be it of an earlier run of this manager, is to be outdone.
        let above = term_after(self.domain.term(), self.config.incarnation);
        if self.state == ManagerState::Active && self.domain.term() > self.term && above > self.term {
            self.reign(now, above);
        }
        self.handle_timeout(now);
    }
    /// Takes a path request, its repetition, or its withdrawal.
    pub fn handle_path_request(&mut self, now: Time, mut request: PathRequest) {
        let key = (request.subscriber, request.transfer);
        if request.paths == 0 {
            self.transfers.remove(&key);
            self.dirty.remove(&key);
            return self.handle_timeout(now);
        }
        request.publishers.sort_by_key(|publisher| publisher.node);
        request.publishers.dedup_by_key(|publisher| publisher.node);
        let expires = now + Duration::from_millis(u64::from(request.lease_ms));
        let full = self.transfers.len() >= self.config.transfers_max;
        match self.transfers.get_mut(&key) {
            Some(transfer) => {
                transfer.expires = expires;
                let lease_ms = request.lease_ms;
                let same = PathRequest { lease_ms, ..transfer.request.clone() } == request;
                transfer.request = request;
                if same && transfer.told.is_some() {
                    return self.handle_timeout(now);
                }
            }
            None if full => return self.refuse("too many transfers in the domain"),
            None => {
                let transfer = Transfer { request, expires, told: None, path_ids: BTreeMap::new() };
                self.transfers.insert(key, transfer);
            }
        }
        self.dirty.insert(key);
        self.handle_timeout(now);
    }
    /// Takes another manager's beacon.
    pub fn handle_beacon(&mut self, now: Time, beacon: &Beacon) {
        if beacon.node == self.config.node {
            return;
        }
        let ours = (self.term, self.config.priority, self.config.node);
        let outdoes = (beacon.term, beacon.priority, beacon.node) > ours;
        match (self.state, beacon.state) {
            (ManagerState::Standby, ManagerState::Active) => self.capability_epoch = beacon.capability_epoch,
            (ManagerState::Active, ManagerState::Active) if outdoes => {
                self.state = ManagerState::Standby;
                self.capability_epoch = beacon.capability_epoch;
                self.messages.clear();
                self.note(format!(
                    "topology manager {} steps down: {} is active with term {}",
                    self.config.label,
                    beacon.label,
                    successions(beacon.term)
                ));
                self.beacon_due = now;
            }
            // By a rare chance it ruled in this very term, and nodes may have taken its routes.
            (ManagerState::Active, _) if beacon.term == self.term => {
                self.reign(now, term_after(self.term, self.config.incarnation));
            }
            (ManagerState::Standby, ManagerState::Standby) | (ManagerState::Active, _) => {}
        }
        if beacon.state == ManagerState::Active {
            self.last_active = Some(now);
        }
        self.rivals.insert(beacon.node, Rival { beacon: beacon.clone(), heard: now });
        self.handle_timeout(now);
    }
    /// A message to `node` could not be delivered: it is told again later if it still can be reached.
    pub fn handle_undelivered(&mut self, now: Time, node: NodeId) {
        self.retries.insert(node, now + self.config.retry);
        self.handle_timeout(now);
    }
    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        let started = *self.started.get_or_insert(now);
        let silence = self.config.manager_silence;
        self.rivals.retain(|_, rival| rival.heard + silence > now);
        self.check_succession(now, started);
        if self.beacon_due <= now {
            self.send_beacon(now);
        }
        let gone = self.domain.expire(now);
        if !gone.is_empty() {
            self.change = self.change.max(Change::Shrunk);
            self.changed_nodes.extend(gone);
            self.recompute_due = Some(now);
        }
        let expired: Vec<_> =
            self.transfers.iter().filter(|(_, transfer)| transfer.expires <= now).map(|(key, _)| *key).collect();
        for key in expired {
            self.transfers.remove(&key);
            self.dirty.remove(&key);
        }
        let mut routes_due = false;
        if self.state == ManagerState::Active && self.rotation_due <= now {
            self.capability_epoch = self.capability_epoch.wrapping_add(1);
            self.rotation_due = now + self.config.capability_rotation;
            self.dirty.extend(self.transfers.keys());
            routes_due = true;
            self.note(format!("capability keys rotated to epoch {}", self.capability_epoch));
        }
        let retries: Vec<NodeId> = self.retries.iter().filter(|(_, due)| **due <= now).map(|(node, _)| *node).collect();
        for node in retries {
            self.retries.remove(&node);
            self.told_routes.remove(&node);
            for (key, transfer) in self.transfers.iter_mut().filter(|(key, _)| key.0 == node) {
                transfer.told = None;
                self.dirty.insert(*key);
            }
            routes_due = true;
        }
        if self.recompute_due.is_some_and(|due| due <= now) {
            routes_due |= self.on_topology();
        }
        if self.state == ManagerState::Active {
            if routes_due {
                self.tell_routes();
            }
            self.tell_offers();
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
    /// Verified routes from this node to `node` and back; `None` if there is no way.
    pub fn route_to(&mut self, node: NodeId) -> Option<(Fid, Fid)> {
        self.pair(self.config.node, node)
    }

    /// Whether it rules.
    pub fn is_active(&self) -> bool {
        self.state == ManagerState::Active
    }
    /// Its term, or the highest that it saw.
    pub fn term(&self) -> u32 {
        self.term
    }
    /// Nodes and directed links of the domain.
    pub fn size(&self) -> (usize, usize) {
        (self.graph.node_count(), self.graph.link_count())
    }
    /// The domain.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }
    /// The transfers that it keeps.
    pub fn transfers(&self) -> Vec<TransferInfo> {
        let info = |((subscriber, number), transfer): (&(NodeId, u32), &Transfer)| {
            let told = transfer.told.as_deref().unwrap_or_default();
            TransferInfo {
                subscriber: *subscriber,
                transfer: *number,
                sources: told.len(),
                paths: told.iter().map(|source| source.paths.len()).sum(),
            }
        };
        self.transfers.iter().map(info).collect()
    }
    /// Messages that were refused, by reason.
    pub fn refused(&self) -> &BTreeMap<&'static str, u64> {
        &self.refused
    }

    fn next_deadline(&self, started: Time) -> Time {
        let active = self.state == ManagerState::Active;
        let offers = (active && !self.dirty.is_empty()).then_some(Time::ZERO);
        let succession = (!active).then(|| self.succession_time(started));
        let rotation = active.then_some(self.rotation_due);
        let single =
            [Some(self.beacon_due), self.recompute_due, offers, succession, rotation, self.domain.poll_timeout()];
        let rivals = self.rivals.values().map(|rival| rival.heard + self.config.manager_silence);
        let transfers = self.transfers.values().map(|transfer| transfer.expires);
        let retries = self.retries.values().copied();
        single.into_iter().flatten().chain(rivals).chain(transfers).chain(retries).min().unwrap_or(Time::MAX)
    }

    // Succession.

    /// When a standby may take over if nothing is heard until then.
    fn succession_time(&self, started: Time) -> Time {
        let listened = started + self.config.startup_wait;
        let leaderless = self.last_active.map_or(listened, |heard| (heard + self.config.manager_silence).max(listened));
        // Each better standby that answers gets one period to do it.
        let ours = (self.config.priority, self.config.node);
        let better = self.rivals.values().filter(|rival| (rival.beacon.priority, rival.beacon.node) > ours).count();
        leaderless + self.config.manager_silence * better as u32
    }
    fn check_succession(&mut self, now: Time, started: Time) {
        if self.state == ManagerState::Standby && self.succession_time(started) <= now {
            let seen = self.rivals.values().map(|rival| rival.beacon.term).max().unwrap_or(0);
            let term = term_after(self.term.max(seen).max(self.domain.term()), self.config.incarnation);
            self.state = ManagerState::Active;
            self.rotation_due = now + self.config.capability_rotation;
            self.note(format!("topology manager {} takes over, term {}", self.config.label, successions(term)));
            if self.change != Change::None {
                self.on_topology();
            }
            self.reign(now, term);
        }
    }
    /// Starts a term: everybody is told everything again.
    fn reign(&mut self, now: Time, term: u32) {
        self.term = term;
        self.builder.set_bitmap_epoch((successions(term) ^ term) as u8);
        self.builder.on_graph(&self.graph, false);
        self.told_routes.clear();
        for transfer in self.transfers.values_mut() {
            // The sequence goes on, so that offers are newer even if the term cannot grow any more.
            transfer.told = None;
        }
        self.dirty.extend(self.transfers.keys());
        self.beacon_due = now;
        self.send_beacon(now);
        self.tell_routes();
    }
    fn send_beacon(&mut self, now: Time) {
        self.beacon_due = now + self.config.beacon_interval;
        self.beacon_sequence += 1;
        self.beacons.push_back(Beacon {
            node: self.config.node,
            incarnation: self.config.incarnation,
            sequence: self.beacon_sequence,
            term: self.term,
            state: self.state,
            priority: self.config.priority,
            capability_epoch: self.capability_epoch,
            label: self.config.label.clone(),
            to_manager: Vec::new(),
            from_manager: Vec::new(),
        });
    }

    // Topology.

    /// Takes the present link states as the graph. Returns whether routes may have changed.
    fn on_topology(&mut self) -> bool {
        self.recompute_due = None;
        let change = core::mem::replace(&mut self.change, Change::None);
        let changed = core::mem::take(&mut self.changed_nodes);
        let graph = self.domain.graph();
        let secrets_changed = !graph.same_secrets(&self.graph);
        self.graph = graph;
        let reshaped = change >= Change::Shrunk;
        if reshaped {
            self.trees.clear();
            self.builder.on_graph(&self.graph, secrets_changed);
        }
        for (key, transfer) in &self.transfers {
            let touched = || {
                transfer.told.iter().flatten().flat_map(|source| &source.paths).any(|path| {
                    path.links.iter().any(|link| changed.contains(&link.node) || self.graph.find(*link).is_none())
                })
            };
            let affected = match change {
                // What is new may make a better path, or a false match of an FID, for anybody.
                Change::Grown => true,
                Change::Metrics => transfer.request.metric.is_measured(),
                Change::None | Change::Properties | Change::Shrunk => {
                    transfer.told.is_none() || transfer.request.metric.is_measured() || touched()
                }
            };
            if affected {
                self.dirty.insert(*key);
            }
        }
        let present = |node: NodeId| self.graph.node(node).is_some();
        self.pairs.retain(|(from, to), _| present(*from) && present(*to));
        self.told_routes.retain(|node, _| present(*node));
        reshaped
    }
    /// The links of the path with the fewest hops.
    fn route(&mut self, from: NodeIndex, to: NodeIndex) -> Option<Vec<LinkIndex>> {
        let graph = &self.graph;
        let tree = self.trees.entry(from).or_insert_with(|| shortest_tree(graph, from));
        let (mut links, mut node) = (Vec::new(), to);
        while node != from {
            let link = tree[node.0 as usize]?;
            links.push(link);
            node = graph.link(link).from;
        }
        links.reverse();
        Some(links)
    }
    /// Verified FIDs over the path with the fewest hops, there and back.
    fn pair(&mut self, from: NodeId, to: NodeId) -> Option<(Fid, Fid)> {
        let (start, end) = (self.graph.node(from)?, self.graph.node(to)?);
        let there = self.route(start, end)?;
        let back: Vec<LinkIndex> = there.iter().rev().filter_map(|link| self.graph.reverse_of(*link)).collect();
        Some((self.pair_fid(from, to, start, end, &there)?, self.pair_fid(to, from, end, start, &back)?))
    }
    fn pair_fid(
        &mut self,
        from: NodeId,
        to: NodeId,
        start: NodeIndex,
        end: NodeIndex,
        links: &[LinkIndex],
    ) -> Option<Fid> {
        let tree = Tree { source: start, links, destinations: &[end] };
        let keys: Vec<LinkKey> = links.iter().map(|link| self.graph.key_of(*link)).collect();
        if let Some((known, fid)) = self.pairs.get(&(from, to))
            && *known == keys
            && self.builder.verify(&self.graph, tree, fid)
        {
            return Some(*fid);
        }
        let fid = self.builder.build_self_contained(&self.graph, tree)?;
        self.pairs.insert((from, to), (keys, fid));
        Some(fid)
    }

    // Routes.

    fn keys(&self) -> Vec<CapabilityKey> {
        let epoch = self.capability_epoch;
        // The next one goes out early, so that no request meets a router that does not know it yet.
        [epoch.wrapping_sub(1), epoch, epoch.wrapping_add(1)]
            .map(|epoch| CapabilityKey::derive(&self.config.domain_secret, epoch))
            .into()
    }
    fn tell_routes(&mut self) {
        let keys = self.keys();
        let nodes: Vec<NodeIndex> = self.graph.nodes().collect();
        let resolver = |node: &NodeIndex| self.graph.node_info(*node).roles.contains(Roles::RESOLVER);
        let resolvers: Vec<NodeIndex> = nodes.iter().copied().filter(resolver).take(RESOLVERS_MAX).collect();
        for node in nodes {
            let info = self.graph.node_info(node);
            let (id, roles) = (info.id, info.roles);
            if self.route_to(id).is_none() {
                continue;
            }
            let mut routes = Vec::new();
            for resolver in &resolvers {
                let info = self.graph.node_info(*resolver);
                let (resolver, label) = (info.id, info.label.clone());
                // From the resolver, so that one tree per resolver serves all nodes.
                if let Some((back, to)) = self.pair(resolver, id) {
                    routes.push(ResolverRoute { node: resolver, label, to, back });
                }
            }
            let verifies = roles.contains(Roles::ROUTER) || roles.contains(Roles::SENDER);
            let mut routes = Routes {
                manager: self.config.node,
                term: self.term,
                sequence: 0,
                resolvers: routes,
                bitmap: self.builder.bitmap_numbers(&self.graph, node),
                keys: if verifies { keys.clone() } else { Vec::new() },
            };
            let told = self.told_routes.get(&id);
            routes.sequence = told.map_or(0, |told| told.sequence);
            if told == Some(&routes) {
                continue;
            }
            self.routes_sequence += 1;
            routes.sequence = self.routes_sequence;
            self.told_routes.insert(id, routes.clone());
            self.messages.push_back((id, Message::Routes(routes)));
        }
    }

    // Offers.

    fn tell_offers(&mut self) {
        for _ in 0..self.config.transfers_per_turn {
            let Some(key) = self.dirty.pop_first() else { return };
            self.tell_offer(key);
        }
    }
    fn tell_offer(&mut self, key: (NodeId, u32)) {
        let Some(mut transfer) = self.transfers.remove(&key) else { return };
        let reachable = self.route_to(key.0).and_then(|_| self.graph.node(key.0));
        if let Some(subscriber) = reachable {
            let sources = self.sources(subscriber, &mut transfer);
            if transfer.told.as_ref() != Some(&sources) {
                self.offers_sequence += 1;
                let version = OfferVersion { term: self.term, sequence: self.offers_sequence };
                self.push_offers(key, version, &sources);
                transfer.told = Some(sources);
            }
        } else {
            // It is told when the topology lets it be reached again.
            transfer.told = None;
        }
        self.transfers.insert(key, transfer);
    }
    fn push_offers(&mut self, (subscriber, transfer): (NodeId, u32), version: OfferVersion, sources: &[OfferedSource]) {
        if sources.is_empty() {
            self.messages.push_back((subscriber, Message::Offer(Offer::none(transfer, version))));
        }
        for (index, source) in sources.iter().enumerate() {
            let offer = Offer {
                transfer,
                version,
                index: index as u8,
                count: sources.len() as u8,
                source: source.node,
                source_label: source.label.clone(),
                manifest: source.manifest.clone(),
                paths: source.paths.iter().map(|path| path.offer.clone()).collect(),
            };
            self.messages.push_back((subscriber, Message::Offer(offer)));
        }
    }
    /// The present sources of a transfer with their paths.
    fn sources(&mut self, subscriber: NodeIndex, transfer: &mut Transfer) -> Vec<OfferedSource> {
        let request = transfer.request.clone();
        if transfer.path_ids.len() > PATH_IDS_MAX {
            let told = transfer.told.iter().flatten().flat_map(|source| &source.paths);
            transfer.path_ids = told.map(|path| (path.links.clone(), path.offer.id)).collect();
        }
        let reachable: Vec<(usize, NodeIndex)> = request
            .publishers
            .iter()
            .enumerate()
            .filter_map(|(i, publisher)| Some((i, self.graph.node(publisher.node)?)))
            .collect();
        let nodes: Vec<Source> = reachable.iter().map(|(_, node)| Source { node: *node }).collect();
        let k = usize::from(request.paths).min(self.config.paths_max).min(PATHS_MAX);
        let costs = self.graph.costs(request.metric);
        let chosen = select(&self.graph, &costs, &nodes, subscriber, k, &self.config.paths);
        let mut offered: Vec<OfferedSource> = request
            .publishers
            .iter()
            .map(|publisher| OfferedSource {
                node: publisher.node,
                label: publisher.label.clone(),
                manifest: publisher.manifest.clone(),
                paths: Vec::new(),
            })
            .collect();
        let mut all_links: Vec<Vec<LinkIndex>> = Vec::new();
        for ((i, source), paths) in reachable.into_iter().zip(chosen) {
            for path in paths {
                let told = transfer.told.iter().flatten().find(|told| told.node == offered[i].node);
                let keys: Vec<LinkKey> = path.links.iter().map(|link| self.graph.key_of(*link)).collect();
                let known = told.and_then(|told| told.paths.iter().find(|known| known.links == keys)).cloned();
                if let Some(offer) =
                    self.path_offer(source, subscriber, &path, keys, known, request.metric, &mut transfer.path_ids)
                {
                    offered[i].paths.push(offer);
                    all_links.push(path.links);
                }
            }
        }
        self.set_shared_links(&mut offered, &all_links);
        offered
    }
    #[expect(clippy::too_many_arguments, reason = "one call; a struct for it would only repeat the names")]
    fn path_offer(
        &mut self,
        source: NodeIndex,
        subscriber: NodeIndex,
        path: &Path,
        keys: Vec<LinkKey>,
        known: Option<OfferedPath>,
        metric: PathMetric,
        ids: &mut BTreeMap<Vec<LinkKey>, u16>,
    ) -> Option<OfferedPath> {
        let back: Vec<LinkIndex> = path.links.iter().rev().filter_map(|link| self.graph.reverse_of(*link)).collect();
        let data = Tree { source, links: &path.links, destinations: &[subscriber] };
        let requests = Tree { source: subscriber, links: &back, destinations: &[source] };
        let mut fid = |tree: Tree<'_>, known: Option<Fid>| {
            let holds = known.filter(|fid| self.builder.verify(&self.graph, tree, fid));
            holds.or_else(|| self.builder.build(&self.graph, tree))
        };
        let forward = fid(data, known.as_ref().map(|known| known.offer.forward))?;
        let reverse = fid(requests, known.as_ref().map(|known| known.offer.reverse))?;
        let unchanged = known.filter(|known| {
            known.epoch == self.capability_epoch && known.offer.forward == forward && known.offer.reverse == reverse
        });
        let links = || path.links.iter().map(|link| &self.graph.link(*link).adjacency);
        let rates = |rate: fn(&crate::wire::Adjacency) -> u32| {
            links().filter(|link| link.capacity_kbps > 0).map(rate).min().unwrap_or(0)
        };
        let mut offer = PathOffer {
            id: path_id(&keys, ids),
            reverse,
            forward,
            capability: [0; 8],
            hops: u8::try_from(path.links.len()).unwrap_or(u8::MAX),
            mtu: links().map(|link| link.mtu).min().unwrap_or(u32::from(u16::MAX)),
            latency_us: links().fold(0, |sum: u32, link| sum.saturating_add(link.rtt_us / 2)),
            capacity_kbps: rates(|link| link.capacity_kbps),
            residual_kbps: rates(residual_kbps),
            shared_links: Vec::new(),
            label: self.path_label(subscriber, &back),
        };
        let epoch = self.capability_epoch;
        match unchanged {
            Some(known) => {
                offer.capability = known.offer.capability;
                // Delays and loads move all the time: an offer is not renewed for them if they did not choose it.
                if !metric.is_measured() {
                    offer.latency_us = known.offer.latency_us;
                    offer.residual_kbps = known.offer.residual_kbps;
                    offer.shared_links = known.offer.shared_links;
                }
            }
            None => {
                offer.capability = CapabilityKey::derive(&self.config.domain_secret, epoch).sign(&reverse, &forward);
            }
        }
        Some(OfferedPath { links: keys, offer, epoch })
    }
    fn path_label(&self, subscriber: NodeIndex, back: &[LinkIndex]) -> String {
        let nodes = [subscriber].into_iter().chain(back.iter().filter_map(|link| self.graph.end_of(*link)));
        let labels: Vec<&str> = nodes.map(|node| self.graph.node_info(node).label.as_str()).collect();
        let whole = labels.join(HOP_SEPARATOR);
        if whole.len() <= PATH_LABEL_BYTES_MAX {
            return whole;
        }
        // Both ends and how much is between them; a label has at most 32 bytes.
        let (first, last) = (labels[0], labels[labels.len() - 1]);
        format!("{first}{HOP_SEPARATOR}({} nodes){HOP_SEPARATOR}{last}", labels.len() - 2)
    }
    fn set_shared_links(&self, offered: &mut [OfferedSource], all_links: &[Vec<LinkIndex>]) {
        let slices: Vec<&[LinkIndex]> = all_links.iter().map(Vec::as_slice).collect();
        let shared = shared_links(&slices);
        // Numbers by name of the link, so that they are the same on every manager.
        let mut taken: BTreeMap<LinkKey, u16> = BTreeMap::new();
        let names: BTreeSet<LinkKey> = shared.iter().flatten().map(|link| self.graph.key_of(*link)).collect();
        for name in names {
            let number = free_number(hash16(&[name]), taken.values());
            taken.insert(name, number);
        }
        let paths = offered.iter_mut().flat_map(|source| &mut source.paths);
        for (path, links) in paths.zip(&shared) {
            let known = core::mem::take(&mut path.offer.shared_links);
            let shared = |link: &LinkIndex| {
                let number = *taken.get(&self.graph.key_of(*link))?;
                let adjacency = &self.graph.link(*link).adjacency;
                let now = if adjacency.capacity_kbps > 0 { residual_kbps(adjacency) } else { 0 };
                let before = known.iter().find(|before| before.number == number);
                Some(SharedLink { number, residual_kbps: before.map_or(now, |before| before.residual_kbps) })
            };
            path.offer.shared_links = links.iter().take(SHARED_LINKS_MAX).filter_map(shared).collect();
        }
    }

    fn note(&mut self, text: String) {
        self.events.push_back(Event::Note(text));
    }
    fn refuse(&mut self, reason: &'static str) {
        let count = self.refused.entry(reason).or_default();
        *count += 1;
        // Stale messages are everyday; a limit is worth a line, once.
        if *count == 1 && reason != super::graph::reason::STALE {
            self.note(format!("topology manager {}: {reason}", self.config.label));
        }
    }
}

/// The number of a path: a hash of its links, so that all managers give the same one; the next free one if two meet.
fn path_id(keys: &[LinkKey], ids: &mut BTreeMap<Vec<LinkKey>, u16>) -> u16 {
    if let Some(id) = ids.get(keys) {
        return *id;
    }
    let id = free_number(hash16(keys), ids.values());
    ids.insert(keys.into(), id);
    id
}
fn hash16(keys: &[LinkKey]) -> u16 {
    let mut hasher = blake3::Hasher::new();
    for key in keys {
        hasher.update(&key.node.0.to_be_bytes());
        hasher.update(&key.face.0.to_be_bytes());
    }
    let hash = hasher.finalize();
    u16::from_be_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
}
fn free_number<'a>(mut wanted: u16, taken: impl Iterator<Item = &'a u16>) -> u16 {
    let taken: BTreeSet<u16> = taken.copied().collect();
    while taken.contains(&wanted) {
        wanted = wanted.wrapping_add(1);
    }
    wanted
}
