//! One node of a PSI domain: any mix of roles, glued together.
//!
//! ```text
//!                       ┌─ Hello, Beacon ──► Neighbour ──── link state ──┐
//!  faces ──► datagram ──┤                                                ▼
//!                       └─► Router ── for this node ─┬─ Control ──► ControlChannel ──► message, by kind:
//!                             │  ▲                   ├─ Request ──► Sender               TopologyManager,
//!                        copies  └── Data, Request,  └─ Data ─────► Receiver             Rendezvous, PubSub,
//!                             ▼      Control                                             Receiver (offers)
//!                           faces
//! ```
mod faces;
mod local;
mod messages;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    vec::Vec,
};

use bytes::Bytes;
use tributary_content::{Name, ObjectReader};
use tributary_core::{
    ByteCount, Datagram, DatagramBatch, Duration, FaceChange, FaceId, Node, NodeId, Random, Rate, Time, TimerId,
    TransferId, Transmit, TransmitBuf,
    event::{Event, TransferReport},
};
use tributary_directory::engine::Engine;
use tributary_transport::{
    Endpoint, FaceOptions, Fetch, NodeStatus, Obstacle,
    bulk::{BulkInput, BulkStep},
    host::{self, Events, FACE_DEFAULT, UnsolicitedFaces},
    policy::{FacePolicy, PathDemands},
};
use tributary_trust::{Grant, Identity};

use self::{faces::UNSOLICITED_FACE_TIMEOUT, local::RouterSink};
use crate::{
    config::Config,
    control::{ControlChannel, ControlConfig, MessageNumber},
    ids::{RecordKey, Roles},
    pubsub::{PubSub, PubSubConfig},
    receiver::Receiver,
    resolver::{
        rendezvous::{Rendezvous, RendezvousConfig},
        topology::manager::{ManagerConfig, TopologyManager},
    },
    router::{
        BatchVerdict, Router, RouterConfig, View,
        neighbour::{Neighbour, NeighbourConfig},
    },
    sender::{AnswerSink, Sender},
    wire::{
        DataHeader, FLAG_MARKED, Fid, Header, LinkState, Message, MissingScopes, PacketType, Request, TTL_MAX, VERSION,
        WireError,
    },
};

/// Why the node wakes up; the number goes into [`TimerId`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
enum Wake {
    Neighbour = 1,
    Control,
    PubSub,
    Rendezvous,
    Manager,
    Receiver,
    LinkUse,
    Own,
}

tributary_core::declared! {
    /// A node of the PSI family. See [`Endpoint`] for its commands and [`Node`] for its verbs.
    pub struct PsiNode {
        pub(crate) roles: Roles = roles,
        pub(crate) router: Router = Router::new(router),
        pub(crate) neighbour: Neighbour = Neighbour::new(neighbour),
        pub(crate) control: ControlChannel = ControlChannel::new(ControlConfig::default(), config.node, boot as u32),
        pub(crate) pubsub: PubSub = PubSub::new(pubsub, boot as u32),
        pub(crate) rendezvous: Option<Rendezvous> =
            config.resolver.then(|| Rendezvous::new(rendezvous, config.node, boot as u32)),
        pub(crate) manager: Option<TopologyManager> = config
            .topology_manager
            .map(|priority| TopologyManager::new(ManagerConfig::new(&config, priority, boot))),
        pub(crate) sender: Sender = Sender::new(config.node),
        pub(crate) receiver: Receiver = Receiver::new(config.transfer.clone(), &mut random),
        /// Hellos and beacons, which go one hop.
        pub(crate) one_hop: VecDeque<(FaceId, Vec<u8>)> = VecDeque::new(),
        /// Routes to rendezvous nodes and back.
        pub(crate) resolvers: BTreeMap<NodeId, (Fid, Fid)> = BTreeMap::new(),
        /// Their boot numbers.
        pub(crate) resolver_boots: BTreeMap<NodeId, u32> = BTreeMap::new(),
        /// The topology managers at the last check.
        pub(crate) managers: BTreeMap<NodeId, (Fid, Fid)> = BTreeMap::new(),
        /// Routes and offers of a manager without a current beacon: a message may overtake a beacon, and its sender
        /// does not repeat it. The oldest are dropped.
        pub(crate) early: VecDeque<(NodeId, Message)> = VecDeque::new(),
        /// Messages whose outcome is awaited.
        pub(crate) waiting: BTreeMap<MessageNumber, Waiting> = BTreeMap::new(),
        /// All faces, the driver's and unsolicited ones.
        pub(crate) faces: BTreeMap<FaceId, FaceOptions> = BTreeMap::new(),
        /// Unsolicited faces. The router does not know those whose neighbour has never answered.
        pub(crate) unsolicited: UnsolicitedFaces =
            UnsolicitedFaces::new(UNSOLICITED_FACE_TIMEOUT, UNSOLICITED_FACE_TIMEOUT),
        pub(crate) link_state: Option<LinkState> = None,
        /// Refusals by topology managers that this node has reported: the manager and the code of the reason.
        pub(crate) refusals_reported: BTreeSet<(NodeId, u8)> = BTreeSet::new(),
        pub(crate) used: BTreeMap<FaceId, (Time, u64)> = BTreeMap::new(),
        pub(crate) used_due: Time = Time::ZERO,
        /// When the fetch of an object that this node publishes itself continues.
        pub(crate) own_due: Option<Time> = None,
        /// The earliest of [`PsiNode::control_deadlines`]: packets of transfers do not move it, and there are many of
        /// them.
        control_due: Option<(Time, Wake)> = None,
        pub(crate) events: Events = Events::default(),
        pub(crate) config: Config = config,
    }
    fn start(config: Config) {
        let mut random = Random::new(config.seed, config.node.0);
        let mut secret = [0; 16];
        secret[..8].copy_from_slice(&random.bits().to_be_bytes());
        secret[8..].copy_from_slice(&random.bits().to_be_bytes());
        let boot = random.bits();
        let mut roles = Roles::SENDER | Roles::RECEIVER;
        if config.router {
            roles = roles | Roles::ROUTER;
        }
        if config.resolver {
            roles = roles | Roles::RESOLVER;
        }
        if config.topology_manager.is_some() {
            roles = roles | Roles::TOPOLOGY_MANAGER;
        }
        let router = RouterConfig {
            // A neighbour that has not answered a hello may have forged its address: its packets are not forwarded.
            neighbours_only: true,
            cache_bytes: if config.router { config.cache_bytes } else { ByteCount(0) },
            cache_policy: config.cache_policy.clone(),
            cache_memory: config.cache_memory,
            pending_packets_max: config.limits.pending_packets_max,
            pending_lifetime: config.pending_lifetime,
            ..RouterConfig::new(config.node, secret)
        };
        let (seed, own) = (config.seed.to_be_bytes(), config.node.0.to_be_bytes());
        let nonce_secret = blake3::derive_key(NONCES, &[&config.secret[..], &seed, &own].concat());
        let neighbour = NeighbourConfig {
            nonce_secret,
            hello_interval: config.hello_interval,
            location: config.location,
            ..NeighbourConfig::new(config.node, &config.label, roles, boot, secret)
        };
        let limits = config.limits;
        let replicas = usize::from(config.replicas);
        let rendezvous = RendezvousConfig { replicas, limits, ..RendezvousConfig::default() };
        let pubsub = PubSubConfig {
            node: config.node,
            label: config.label.clone(),
            lease: config.lease,
            wishes_max: limits.wishes_max,
            ..PubSubConfig::default()
        };
    }
}

/// Who waits for the outcome of a control message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waiting {
    /// The neighbour protocol: a link state that a topology manager must know.
    LinkState,
    /// The rendezvous function: a request for paths, by the record of the item, the subscriber and its transfer.
    PathRequest(RecordKey, NodeId, u32),
    PubSub,
    Rendezvous,
    Manager,
}

/// Requests made in one batch if all stay in the node, because it fetches an object that it publishes.
const REQUESTS_PER_POLL: usize = 64;
/// The pause after that many.
const OWN_PAUSE: Duration = Duration::from_millis(1);
/// Maximum stored messages of unknown topology managers.
const EARLY_MAX: usize = 64;

/// What the secret of the nonces in hellos is derived for.
const NONCES: &str = "tributary 2026 psi node's nonces of hellos";

impl PsiNode {
    /// A node with the roles that `config` names. Nothing is sent before a face is added or a packet arrives.
    pub fn new(config: Config) -> PsiNode {
        let mut node = PsiNode::start(config);
        node.control_due = node.next_control_deadline();
        node
    }
    /// Its settings.
    pub fn config(&self) -> &Config {
        &self.config
    }
    /// Keeps the records of the rendezvous function in an outside store, if it has that role; to be called before anything
    /// else.
    pub fn keep_records_by(&mut self, engine: Box<dyn Engine>) {
        if let Some(rendezvous) = &mut self.rendezvous {
            rendezvous.keep_records_by(engine, self.config.seed);
            self.control_due = self.next_control_deadline();
        }
    }

    fn next_control_deadline(&self) -> Option<(Time, Wake)> {
        host::earliest(self.control_deadlines())
    }
    /// When each part that is independent of transfers' packets must wake up.
    fn control_deadlines(&self) -> [(Option<Time>, Wake); 6] {
        [
            (self.neighbour.poll_timeout(), Wake::Neighbour),
            (self.control.poll_timeout(), Wake::Control),
            (self.pubsub.poll_timeout(), Wake::PubSub),
            (self.rendezvous.as_ref().and_then(Rendezvous::poll_timeout), Wake::Rendezvous),
            (self.manager.as_ref().and_then(TopologyManager::poll_timeout), Wake::Manager),
            ((!self.faces.is_empty()).then_some(self.used_due), Wake::LinkUse),
        ]
    }
    /// Whether a control packet is not a host's in another node's name: a node's registrations, and its acks, are its
    /// own. Routers are trusted to have checked.
    fn speaks_for_itself(&self, face: FaceId, datagram: &Datagram) -> bool {
        let header = Header::decode(datagram.header_bytes()).ok();
        let from = header.and_then(|header| datagram.bytes_after(header.len()).first_chunk::<8>());
        // Malformed packets are dropped elsewhere.
        from.is_none_or(|from| self.neighbour.may_send_as(face, NodeId(u64::from_be_bytes(*from))))
    }
}

impl Node for PsiNode {
    fn handle_datagram(&mut self, now: Time, face: FaceId, datagram: Datagram) {
        let bytes = datagram.len();
        if !self.faces.contains_key(&face) && !self.meet(now, face) {
            return self.events.on_dropped(face, "too many faces", bytes);
        }
        match datagram.header_bytes().first().map(|byte| (byte >> 4, byte & 0x0f)) {
            Some((VERSION, packet_type)) if packet_type <= PacketType::Beacon as u8 => {
                self.neighbour.handle_datagram(now, face, &datagram);
                self.settle(now);
            }
            Some((VERSION, packet_type))
                if packet_type == PacketType::Control as u8 && !self.speaks_for_itself(face, &datagram) =>
            {
                self.events.on_dropped(face, "control message of a host in the name of another node", bytes);
            }
            Some((VERSION, packet_type)) => {
                let verdict = self.router.forward(now, Some(face), datagram);
                match verdict.dropped {
                    Some(reason) => self.events.on_dropped(face, reason, bytes),
                    None => self.neighbour.on_traffic(now, face),
                }
                if let Some(local) = verdict.local {
                    self.on_local(now, face, local);
                    if packet_type == PacketType::Control as u8 || self.receiver.news {
                        self.settle(now);
                    }
                }
            }
            Some((version, _)) => {
                self.neighbour.handle_other_version(face, version);
                self.events.on_dropped(face, "other wire version", datagram.len());
            }
            None => self.events.on_dropped(face, "empty datagram", 0),
        }
        if self.unsolicited.has_unproven() {
            self.neighbour.greet_unsolicited(now, face, bytes);
        }
    }
    fn handle_batch(&mut self, now: Time, face: FaceId, batch: DatagramBatch) {
        let mut first = 0;
        while first < batch.count() {
            // An unknown face becomes known by its first packet.
            let is_known = self.faces.contains_key(&face);
            let verdict =
                if is_known { self.router.forward_batch(face, &batch, first) } else { BatchVerdict::default() };
            if verdict.packets == 0 {
                self.handle_datagram(now, face, batch.datagram(first));
                first += 1;
                continue;
            }
            self.neighbour.on_traffic(now, face);
            if let Some((reason, dropped)) = verdict.dropped {
                (0..dropped).for_each(|_| self.events.on_dropped(face, reason, batch.bytes(first).len()));
            }
            if verdict.is_local {
                self.on_local_batch(now, face, &batch, first, &verdict);
            }
            first += verdict.packets;
        }
    }
    fn handle_timeout(&mut self, now: Time) {
        if self.receiver.poll_timeout().is_some_and(|due| due <= now) {
            let router = &mut self.router;
            self.receiver.handle_timeout(now, &mut |fid| router.face_of(fid));
        }
        self.own_due = self.own_due.filter(|due| *due > now);
        let is_due = self.control_due.is_some_and(|(due, _)| due <= now);
        let deadlines = self.control_deadlines().into_iter().filter(|_| is_due);
        for wake in host::due(now, deadlines) {
            match wake {
                Wake::Neighbour => self.neighbour.handle_timeout(now),
                Wake::Control => self.control.handle_timeout(now),
                Wake::PubSub => self.pubsub.handle_timeout(now),
                Wake::Rendezvous => self.rendezvous.iter_mut().for_each(|rendezvous| rendezvous.handle_timeout(now)),
                Wake::Manager => self.manager.iter_mut().for_each(|manager| manager.handle_timeout(now)),
                Wake::Receiver | Wake::Own => unreachable!("they are not among them"),
                Wake::LinkUse => self.measure_use(now),
            }
        }
        if is_due || self.receiver.news {
            self.settle(now);
        }
    }
    fn handle_storage(&mut self, now: Time) {
        self.receiver.handle_storage(now);
        let mut sink = RouterSink { router: &mut self.router, local: Vec::new() };
        self.sender.handle_storage(&mut sink);
        let local = sink.local;
        self.on_answered(now, local);
        let has_store = self.rendezvous.as_ref().is_some_and(Rendezvous::has_store);
        if let Some(rendezvous) = self.rendezvous.as_mut().filter(|_| has_store) {
            rendezvous.handle_store(now);
        }
        if has_store || self.receiver.news {
            self.settle(now);
        }
    }
    fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        while let Some((face, bytes)) = self.neighbour.poll_packet() {
            self.one_hop.push_back((face, bytes));
        }
        if let Some((face, bytes)) = self.one_hop.pop_front() {
            out.push(&[], Bytes::from(bytes));
            return Some(Transmit { face });
        }
        for _ in 0..REQUESTS_PER_POLL {
            if let Some(transmit) = self.router.poll_transmit(out) {
                return Some(transmit);
            }
            let (fid, flags, request) = self.receiver.poll_request(now)?;
            let mut body = Vec::with_capacity(160);
            request.encode(&mut body);
            self.send_packet(now, PacketType::Request, flags, fid, body);
            if self.receiver.news {
                // This node's own source has answered the last of a fetch.
                self.settle(now);
            }
        }
        // All of these were answered by this node itself; the driver must check its other inputs now and then.
        self.own_due = Some(now + OWN_PAUSE);
        None
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        debug_assert_eq!(self.control_due, self.next_control_deadline(), "whatever moves a deadline settles");
        let mut next = self.control_due;
        let mut consider = |due: Option<Time>, wake| {
            if let Some(due) = due.filter(|due| next.is_none_or(|(earliest, _)| *due < earliest)) {
                next = Some((due, wake));
            }
        };
        consider(self.receiver.poll_timeout(), Wake::Receiver);
        consider(self.own_due, Wake::Own);
        next.map(|(due, wake)| (due, TimerId(wake as u16)))
    }
    fn poll_event(&mut self) -> Option<Event> {
        if self.events.is_empty() {
            while let Some((id, event)) = self.receiver.poll_event() {
                self.events.push(Event::Transfer(id, event));
            }
        }
        self.events.poll()
    }
    fn handle_face(&mut self, now: Time, face: FaceId, change: FaceChange) {
        match change {
            FaceChange::Opened { mtu, .. } => self.add_face(now, face, FaceOptions { mtu, rate: None }),
            FaceChange::Closed => self.remove_face(now, face),
            FaceChange::Located(_) => {}
        }
    }
}

impl Endpoint for PsiNode {
    fn add_face(&mut self, now: Time, face: FaceId, options: FaceOptions) {
        self.attach(now, face, options);
        self.unsolicited.remove(face);
        self.settle(now);
    }
    fn remove_face(&mut self, now: Time, face: FaceId) {
        self.detach(now, face);
        self.settle(now);
    }
    fn set_identity(&mut self, now: Time, identity: &Identity) {
        self.neighbour.set_identity(now, identity);
        self.control.set_identity(identity);
        self.manager.iter_mut().for_each(|manager| manager.set_identity(now, identity));
        self.settle(now);
    }
    fn handle_grant(&mut self, now: Time, face: FaceId, grant: Option<&Grant>) {
        self.neighbour.admit(now, face, grant);
        self.settle(now);
    }
    fn publish(&mut self, now: Time, object: Box<dyn ObjectReader>) {
        let manifest = object.manifest().clone();
        self.sender.publish(object);
        self.pubsub.publish(now, &manifest.name, manifest.encode(), manifest.size, MissingScopes::Create);
        self.settle(now);
    }
    fn unpublish(&mut self, now: Time, name: &Name) {
        self.sender.unpublish(name);
        self.pubsub.unpublish(now, name);
        self.settle(now);
    }
    fn fetch(&mut self, now: Time, fetch: Fetch) -> TransferId {
        let (name, paths, metric) = (fetch.name.clone(), fetch.paths_per_source, fetch.metric);
        let id = self.receiver.fetch(now, fetch);
        self.pubsub.subscribe(now, &name, id.0, paths, metric);
        self.settle(now);
        id
    }
    fn cancel(&mut self, now: Time, transfer: TransferId) {
        self.receiver.cancel(now, transfer);
        self.settle(now);
    }
    fn step_bulk(&mut self, now: Time, transfer: TransferId, inputs: Vec<BulkInput>) -> Option<BulkStep> {
        let step = self.receiver.step_bulk(now, transfer, inputs);
        self.settle(now);
        step
    }
    fn watch(&mut self, now: Time, scope: &Name) {
        self.pubsub.subscribe_scope(now, scope);
        self.settle(now);
    }
    fn unwatch(&mut self, now: Time, scope: &Name) {
        self.pubsub.unsubscribe_scope(now, scope);
        self.settle(now);
    }
    fn leave(&mut self, now: Time) {
        self.pubsub.withdraw_all(now);
        self.settle(now);
    }
    fn limit(&mut self, now: Time, transfer: Option<TransferId>, rate: Option<Rate>) {
        self.receiver.transfers.set_limit(now, transfer, rate);
    }
    fn set_face_policy(&mut self, now: Time, face: FaceId, policy: FacePolicy) {
        self.receiver.transfers.shared.faces.set(now, face, policy);
    }
    fn set_demands(&mut self, now: Time, transfer: TransferId, demands: PathDemands) -> bool {
        self.receiver.transfers.set_demands(now, transfer, demands)
    }
    fn report(&self, now: Time, transfer: TransferId) -> Option<TransferReport> {
        self.receiver.transfers.report(now, transfer)
    }
    fn transfers(&self) -> Vec<(TransferId, Name)> {
        self.receiver.transfers.names()
    }
    fn publishes(&self, name: &Name) -> bool {
        self.sender.objects.by_name(name).is_some()
    }
    fn published_count(&self) -> usize {
        self.sender.objects.published().len()
    }
    fn published(&self) -> Vec<(Name, ByteCount)> {
        self.sender.objects.published().map(|(name, bytes)| (name.clone(), bytes)).collect()
    }
    fn status(&self, now: Time) -> NodeStatus {
        self.status_at(now)
    }
    fn obstacle(&self, _now: Time, name: &Name) -> Option<Obstacle> {
        self.obstacle_of(name)
    }
}

#[cfg(test)]
mod tests;
