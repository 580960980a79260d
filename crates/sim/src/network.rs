//! Nodes, the links between them, and the loop that runs them.
use std::collections::BTreeMap;

use tributary_core::{
    Datagram, FaceId, Node, Outlet, Random, Time, Transmit, TransmitBuf,
    event::Event,
    link::{Link, LinkChange, LinkConfig, LinkState, LinkStats},
    pump,
};

use crate::{
    agenda::Agenda,
    trace::{TraceDepth, TraceHash},
};

/// A network of nodes of type `N` in virtual time.
///
/// Build it with [`add_node`](Network::add_node) and [`connect`](Network::connect), plan faults with
/// [`at`](Network::at) and its relatives, run it with [`run_until`](Network::run_until) or
/// [`run_while`](Network::run_while), and give commands to nodes with [`with`](Network::with).
pub struct Network<N> {
    nodes: Vec<Option<N>>,
    world: World,
    batch: TransmitBuf,
    actions: BTreeMap<(Time, u64), Action<N>>,
    action_sequence: u64,
}

type Action<N> = Box<dyn FnOnce(&mut Network<N>)>;
type Observer = Box<dyn FnMut(Time, NodeIndex, &Event)>;
type Tap = Box<dyn FnMut(PacketSeen<'_>)>;

/// Everything but the nodes, so that a node and the world can be borrowed separately.
struct World {
    now: Time,
    seed: u64,
    links: Vec<LinkSlot>,
    places: Vec<Place>,
    agenda: Agenda,
    participants: Vec<Participant>,
    trace: TraceHash,
    stats: NetworkStats,
    /// Entries of the agenda worked off since time last passed.
    steps_in_instant: u32,
    observer: Option<Observer>,
    tap: Option<Tap>,
}

struct LinkSlot {
    link: Link,
    participant: u32,
    from: NodeIndex,
    to: NodeIndex,
    face_to: FaceId,
}

/// The world's state of a node.
struct Place {
    participant: u32,
    /// The outgoing link of each face.
    faces: Vec<Option<LinkIndex>>,
}

#[derive(Clone, Copy)]
enum Participant {
    Link(LinkIndex),
    Node(NodeIndex),
}

impl<N: Node> Network<N> {
    /// An empty network at time zero. All random choices of its links come from `seed`.
    pub fn new(seed: u64) -> Self {
        Network {
            nodes: Vec::new(),
            world: World {
                now: Time::ZERO,
                seed,
                links: Vec::new(),
                places: Vec::new(),
                agenda: Agenda::new(),
                participants: Vec::new(),
                trace: TraceHash::new(TraceDepth::default()),
                stats: NetworkStats::default(),
                steps_in_instant: 0,
                observer: None,
                tap: None,
            },
            batch: TransmitBuf::new(),
            actions: BTreeMap::new(),
            action_sequence: 0,
        }
    }

    // ---- building

    /// Adds a node and pumps it at once.
    pub fn add_node(&mut self, node: N) -> NodeIndex {
        let index = NodeIndex(u32::try_from(self.nodes.len()).expect("fewer than 2^32 nodes fit into memory"));
        let participant = self.world.agenda.add();
        self.world.participants.push(Participant::Node(index));
        self.world.places.push(Place { participant, faces: Vec::new() });
        self.nodes.push(Some(node));
        self.pump_node(index);
        index
    }
    /// Joins face `a.1` of node `a.0` and face `b.1` of node `b.0` by one link in each direction.
    ///
    /// # Panics
    /// If a node does not exist, a face is already connected, or a face number is 65,536 or more.
    pub fn connect(
        &mut self,
        a: (NodeIndex, FaceId),
        b: (NodeIndex, FaceId),
        a_to_b: LinkConfig,
        b_to_a: LinkConfig,
    ) -> Connection {
        Connection { a_to_b: self.add_link(a, b, a_to_b), b_to_a: self.add_link(b, a, b_to_a) }
    }
    fn add_link(&mut self, from: (NodeIndex, FaceId), to: (NodeIndex, FaceId), config: LinkConfig) -> LinkIndex {
        assert!(self.nodes.len() > to.0.0 as usize, "{to:?} does not exist");
        let world = &mut self.world;
        let index = LinkIndex(u32::try_from(world.links.len()).expect("fewer than 2^32 links fit into memory"));
        let face = from.1.0 as usize;
        assert!(face < FACES_MAX, "{} is beyond the {FACES_MAX} faces of a simulated node", from.1);
        let faces = &mut world.places[from.0.0 as usize].faces;
        if faces.len() <= face {
            faces.resize(face + 1, None);
        }
        assert!(faces[face].is_none(), "{} of node {} is already connected", from.1, from.0.0);
        faces[face] = Some(index);
        let participant = world.agenda.add();
        world.participants.push(Participant::Link(index));
        let link = Link::new(config, Random::new(world.seed, LINK_STREAMS + u64::from(index.0)));
        world.links.push(LinkSlot { link, participant, from: from.0, to: to.0, face_to: to.1 });
        index
    }
    /// Sets the depth of [`Network::trace_hash`], and restarts it.
    pub fn set_trace_depth(&mut self, depth: TraceDepth) {
        self.world.trace = TraceHash::new(depth);
    }
    /// Shows every event of every node to `observer`, in order.
    pub fn set_observer(&mut self, observer: impl FnMut(Time, NodeIndex, &Event) + 'static) {
        self.world.observer = Some(Box::new(observer));
    }
    /// Shows every packet to `tap` at the moment when it arrives.
    pub fn set_tap(&mut self, tap: impl FnMut(PacketSeen<'_>) + 'static) {
        self.world.tap = Some(Box::new(tap));
    }

    // ---- planning

    /// Does something to the network at `time`, before anything else that happens at that time; at once if
    /// `time` has passed. Actions of the same time run in the order in which they were planned.
    pub fn at(&mut self, time: Time, action: impl FnOnce(&mut Network<N>) + 'static) {
        self.action_sequence += 1;
        self.actions.insert((time, self.action_sequence), Box::new(action));
    }
    /// Changes a link at `time`.
    pub fn change_link_at(&mut self, time: Time, link: LinkIndex, change: LinkChange) {
        self.at(time, move |net| net.change_link(link, change));
    }
    /// Changes both directions of a connection at `time`.
    pub fn change_at(&mut self, time: Time, connection: Connection, change: LinkChange) {
        self.at(time, move |net| net.change(connection, change));
    }
    /// Cuts both directions of a connection at `down` and mends them at `up`.
    pub fn outage(&mut self, connection: Connection, down: Time, up: Time) {
        self.change_at(down, connection, LinkChange::State(LinkState::Down));
        self.change_at(up, connection, LinkChange::State(LinkState::Up));
    }

    // ---- acting now

    /// Passes a command to a node, then pumps it.
    ///
    /// # Panics
    /// If the node does not exist or is dead.
    pub fn with<R>(&mut self, node: NodeIndex, command: impl FnOnce(&mut N, Time) -> R) -> R {
        let now = self.world.now;
        let alive = self.nodes[node.0 as usize].as_mut().expect("commands go to nodes that are alive");
        let result = command(alive, now);
        self.pump_node(node);
        result
    }
    /// Passes a packet to a node as if it had arrived on `face` now, then pumps the node.
    pub fn inject(&mut self, node: NodeIndex, face: FaceId, datagram: Datagram) {
        self.deliver(node, face, datagram);
    }
    /// Changes a link now.
    pub fn change_link(&mut self, link: LinkIndex, change: LinkChange) {
        let now = self.world.now;
        self.world.links[link.0 as usize].link.apply(now, change);
        self.world.schedule_link(link);
    }
    /// Changes both directions of a connection now.
    pub fn change(&mut self, connection: Connection, change: LinkChange) {
        self.change_link(connection.a_to_b, change.clone());
        self.change_link(connection.b_to_a, change);
    }
    /// Removes a node without a farewell and returns it; packets to it are counted as unreceived.
    pub fn kill(&mut self, node: NodeIndex) -> Option<N> {
        self.world.agenda.set(self.world.places[node.0 as usize].participant, None);
        self.nodes[node.0 as usize].take()
    }
    /// Replaces a node, dead or alive, with a new one, which is pumped at once.
    pub fn restart(&mut self, node: NodeIndex, make: impl FnOnce(Time) -> N) {
        self.nodes[node.0 as usize] = Some(make(self.world.now));
        self.pump_node(node);
    }

    // ---- running

    /// Runs everything that is due at `end` or before; the time is then `end`.
    pub fn run_until(&mut self, end: Time) {
        while self.step(end) {}
        self.world.now = self.world.now.max(end);
    }
    /// Runs while `condition` holds, which is evaluated after every step, or until `limit`.
    pub fn run_while(&mut self, limit: Time, mut condition: impl FnMut(&Network<N>) -> bool) -> RunEnd {
        while condition(self) {
            if !self.step(limit) {
                let idle = self.world.agenda.next().is_none() && self.actions.is_empty();
                if !idle {
                    self.world.now = self.world.now.max(limit);
                }
                return if idle { RunEnd::Idle } else { RunEnd::LimitReached };
            }
        }
        RunEnd::ConditionEnded
    }
    /// Runs the next event if it is due at `limit` or before; false if nothing is due.
    pub fn step(&mut self, limit: Time) -> bool {
        let next_action = self.actions.first_key_value().map(|((time, _), _)| (*time).max(self.world.now));
        let next = self.world.agenda.next();
        if let Some(time) = next_action
            && next.is_none_or(|(due, _)| time <= due)
        {
            if time > limit {
                return false;
            }
            self.world.now = time;
            if let Some((_, action)) = self.actions.pop_first() {
                action(self);
            }
            return true;
        }
        let Some((due, participant)) = next else { return false };
        if due > limit {
            return false;
        }
        if due > self.world.now {
            self.world.now = due;
            self.world.steps_in_instant = 0;
        }
        self.world.stats.steps += 1;
        self.world.steps_in_instant += 1;
        assert!(
            self.world.steps_in_instant <= STEPS_MAX,
            "time stands still at {due}: nodes answer each other for ever over links without delay",
        );
        match self.world.participants[participant as usize] {
            Participant::Node(node) => self.pump_node(node),
            Participant::Link(link) => self.run_link(link),
        }
        true
    }

    fn run_link(&mut self, index: LinkIndex) {
        let now = self.world.now;
        let slot = &mut self.world.links[index.0 as usize];
        let (from, to, face) = (slot.from, slot.to, slot.face_to);
        let mut arrived = slot.link.poll_deliver(now);
        while let Some(datagram) = arrived {
            self.world.stats.packet_hops += 1;
            if let Some(tap) = &mut self.world.tap {
                tap(PacketSeen { time: now, link: index, from, to, datagram: &datagram });
            }
            self.deliver(to, face, datagram);
            let slot = &mut self.world.links[index.0 as usize];
            let next = slot.link.poll_timeout();
            if next.is_none_or(|due| due > now) {
                return self.world.agenda.set(slot.participant, next);
            }
            arrived = slot.link.poll_deliver(now);
        }
        self.world.schedule_link(index);
    }
    #[inline]
    fn deliver(&mut self, to: NodeIndex, face: FaceId, datagram: Datagram) {
        let now = self.world.now;
        match &mut self.nodes[to.0 as usize] {
            Some(node) => {
                self.world.trace.on_packet(now, to.0, face, &datagram);
                node.handle_datagram(now, face, datagram);
                self.pump_node(to);
            }
            None => self.world.stats.unreceived_packets += 1,
        }
    }
    /// Pumps a node until it has nothing more to do at this time.
    fn pump_node(&mut self, index: NodeIndex) {
        let Some(node) = &mut self.nodes[index.0 as usize] else { return };
        let now = self.world.now;
        let mut pumps = 0;
        let next = loop {
            let next = pump(node, now, &mut NodeOutlet { world: &mut self.world, node: index }, &mut self.batch);
            match next {
                Some(due) if due <= now => pumps += 1,
                next => break next,
            }
            assert!(
                pumps < PUMPS_MAX,
                "node {} spins at {now}: after {PUMPS_MAX} pumps it still has something to do (timer {:?})",
                index.0,
                node.poll_timeout(),
            );
        };
        self.world.agenda.set(self.world.places[index.0 as usize].participant, next);
    }

    // ---- questions

    /// The virtual time.
    pub fn now(&self) -> Time {
        self.world.now
    }
    /// The seed of the run.
    pub fn seed(&self) -> u64 {
        self.world.seed
    }
    /// The number of nodes, including dead ones.
    pub fn nodes_len(&self) -> usize {
        self.nodes.len()
    }
    /// A node, to look at.
    ///
    /// # Panics
    /// If the node does not exist or is dead.
    pub fn node(&self, node: NodeIndex) -> &N {
        self.nodes[node.0 as usize].as_ref().expect("only nodes that are alive can be looked at")
    }
    /// Whether a node is alive.
    pub fn is_alive(&self, node: NodeIndex) -> bool {
        self.nodes[node.0 as usize].is_some()
    }
    /// A link, to look at.
    pub fn link(&self, link: LinkIndex) -> &Link {
        &self.world.links[link.0 as usize].link
    }
    /// Counters of a link.
    pub fn link_stats(&self, link: LinkIndex) -> LinkStats {
        self.link(link).stats()
    }
    /// All links with the nodes that they join, in the order in which they were made.
    pub fn links(&self) -> impl Iterator<Item = (LinkIndex, NodeIndex, NodeIndex, &Link)> {
        let slots = self.world.links.iter().zip(0..);
        slots.map(|(slot, index)| (LinkIndex(index), slot.from, slot.to, &slot.link))
    }
    /// Counters of the whole network.
    pub fn stats(&self) -> NetworkStats {
        self.world.stats
    }
    /// The memory of the simulator itself; it depends on the network and the packets in flight, not on how long it has
    /// run.
    pub fn footprint(&self) -> Footprint {
        Footprint {
            agenda_entries: self.world.agenda.len(),
            packet_places: self.world.links.iter().map(|slot| slot.link.packet_places()).sum(),
            actions: self.actions.len(),
        }
    }
    /// A fingerprint of the run: equal runs have equal hashes.
    pub fn trace_hash(&self) -> u64 {
        self.world.trace.value()
    }
}

impl World {
    #[inline]
    fn schedule_link(&mut self, link: LinkIndex) {
        let slot = &self.links[link.0 as usize];
        self.agenda.set(slot.participant, slot.link.poll_timeout());
    }
}

struct NodeOutlet<'a> {
    world: &'a mut World,
    node: NodeIndex,
}

impl Outlet for NodeOutlet<'_> {
    fn transmit(&mut self, now: Time, transmit: Transmit, batch: &mut TransmitBuf) {
        let faces = &self.world.places[self.node.0 as usize].faces;
        match faces.get(transmit.face.0 as usize) {
            Some(Some(index)) => {
                let index = *index;
                let link = &mut self.world.links[index.0 as usize].link;
                batch.drain().for_each(|datagram| link.enqueue(now, datagram));
                self.world.schedule_link(index);
            }
            _ => self.world.stats.unconnected_packets += batch.len() as u64,
        }
    }
    fn event(&mut self, now: Time, event: Event) {
        self.world.trace.on_event(now, self.node.0, &event);
        if let Some(observer) = &mut self.world.observer {
            observer(now, self.node, &event);
        }
    }
}

/// A node of a [`Network`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeIndex(pub u32);

/// One direction of a [`Connection`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkIndex(pub u32);

/// Two links between the same two faces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    /// The link from the first node to the second.
    pub a_to_b: LinkIndex,
    /// The link from the second node to the first.
    pub b_to_a: LinkIndex,
}

/// Why a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunEnd {
    /// The condition stopped holding.
    ConditionEnded,
    /// The time limit was reached first.
    LimitReached,
    /// No packet is in flight and no timer runs, so nothing will ever happen.
    Idle,
}

/// A packet at the moment of its arrival.
#[derive(Clone, Copy, Debug)]
pub struct PacketSeen<'a> {
    /// When.
    pub time: Time,
    /// Over which link.
    pub link: LinkIndex,
    /// The node that sent it.
    pub from: NodeIndex,
    /// The node that gets it.
    pub to: NodeIndex,
    /// The packet.
    pub datagram: &'a Datagram,
}

/// Counters of a [`Network`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NetworkStats {
    /// Entries of the agenda worked off.
    pub steps: u64,
    /// Packets that crossed a link.
    pub packet_hops: u64,
    /// Packets that arrived at a dead node.
    pub unreceived_packets: u64,
    /// Packets that a node sent to a face without a link.
    pub unconnected_packets: u64,
}

/// What a [`Network`] keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Footprint {
    /// Entries of the agenda: up to one per link and per node.
    pub agenda_entries: usize,
    /// Places for packets in links: the largest number ever in flight.
    pub packet_places: usize,
    /// Actions that are planned.
    pub actions: usize,
}

/// Faces of a simulated node are numbered below this.
const FACES_MAX: usize = 65_536;
/// A node that needs more pumps than this at one point in time is stuck.
const PUMPS_MAX: u32 = 10_000;
/// A network that takes more steps than this at the same time is stuck.
const STEPS_MAX: u32 = 1_000_000;
/// First random stream used by links; lower ones are free for nodes.
const LINK_STREAMS: u64 = 1 << 32;
