//! Who is at the other end of each face, and how to reach the topology managers.
//!
//! Neighbours greet each other every `hello_interval`. A face is up when its hellos come back as heard (two-way
//! check) and down when `hello_misses` of them are missed. Echoed clocks give the link's round-trip time; hellos that
//! are padded give its MTU: what the other side says it received is what the link carries (RFC 8899 in spirit).
//!
//! Topology managers flood beacons. Every node passes the first copy of each on to its other neighbours and adds the
//! labels of the links, so that it arrives with a route to the manager and one back: enough to send the link state
//! there, from which the manager makes everything else.
//! ```text
//!   down ──hello──► heard ──hello that heard us──► up ──3 missed, or not heard any more, or restarted──► down
//! ```
use alloc::{
    collections::{BTreeMap, VecDeque},
    format,
    string::String,
    vec::Vec,
};

use tributary_core::{Datagram, Duration, FaceId, Location, NodeId, Time, event::Event};
use tributary_transport::FaceOptions;

use super::labels::{LabelKey, Port};
use crate::{
    ids::Roles,
    wire::{
        ADJACENCIES_MAX, Adjacency, BEACON_LABELS_MAX, Beacon, Fid, Header, Heard, Hello, LinkState, ListLabel,
        MAC_BYTES, ManagerState, PacketType, Routes, WireError, list_fid, seal, successions, unseal,
    },
};

/// Settings of the neighbour protocol.
#[derive(Clone, PartialEq, Debug)]
pub struct NeighbourConfig {
    /// The node.
    pub node: NodeId,
    /// Its human-readable name, at most 32 bytes.
    pub label: String,
    /// What it is.
    pub roles: Roles,
    /// Number of this run; another one after each start.
    pub incarnation: u64,
    /// Where it is. Default: not told.
    pub location: Option<Location>,
    /// The secret of its link labels; the same as the router's.
    pub secret: [u8; 16],
    /// Key of the authentication codes.
    pub network_key: [u8; 32],
    /// Time between hellos on one face. Default: 200 ms.
    pub hello_interval: Duration,
    /// Hellos that may be missed before a face is down. Default: 5, so that a loss of a fifth of all packets takes a
    /// face down once in ten minutes and not twice a minute; transfers notice silence by themselves long before.
    pub hello_misses: u32,
    /// Datagram sizes to try, ascending; bounded by each face's configured MTU. The first is taken for granted.
    /// Default: 1,200, 1,472, 8,972, 32,768, 65,507.
    pub mtu_ladder: Vec<u32>,
    /// How often a size is tried, one hello after the other, before the pauses between tries double. Default: 3.
    pub mtu_probes: u32,
    /// Time between checks of the size in use at most, with a try of the next one. Default: 30 s.
    pub mtu_probe_interval: Duration,
    /// How long a change waits for others before it is told to the topology managers. Default: 20 ms.
    pub link_state_debounce: Duration,
    /// Time between link-state messages while only round-trip times or loads change. Default: 1 s.
    pub link_state_metric_interval: Duration,
    /// Time between link-state messages while nothing changes. Default: 5 s.
    pub link_state_refresh: Duration,
    /// How long a silent topology manager is remembered. Default: 3 s.
    pub manager_timeout: Duration,
    /// Topology managers at most; beacons of more are dropped. Default: 8.
    pub managers_max: usize,
    /// Faces at most. Default: 1,024.
    pub faces_max: usize,
}

impl NeighbourConfig {
    /// Defaults for a node.
    pub fn new(node: NodeId, label: &str, roles: Roles, incarnation: u64, secret: [u8; 16]) -> NeighbourConfig {
        NeighbourConfig {
            node,
            label: label.into(),
            roles,
            incarnation,
            location: None,
            secret,
            network_key: [0; 32],
            hello_interval: Duration::from_millis(200),
            hello_misses: 5,
            mtu_ladder: [1200, 1472, 8972, 32_768, 65_507].into(),
            mtu_probes: 3,
            mtu_probe_interval: Duration::from_secs(30),
            link_state_debounce: Duration::from_millis(20),
            link_state_metric_interval: Duration::from_secs(1),
            link_state_refresh: Duration::from_secs(5),
            manager_timeout: Duration::from_secs(3),
            managers_max: 8,
            faces_max: ADJACENCIES_MAX,
        }
    }
}

/// The neighbour protocol of one node.
///
/// After each `handle_*` or command, drain [`Neighbour::poll_face`] (into [`super::Router::set_face_up`]),
/// [`Neighbour::poll_packet`], [`Neighbour::poll_link_state`], [`Neighbour::poll_beacon`] (into a topology manager of
/// this node) and [`Neighbour::poll_event`]; then ask [`Neighbour::poll_timeout`].
pub struct Neighbour {
    config: NeighbourConfig,
    key: LabelKey,
    faces: BTreeMap<FaceId, Face>,
    managers: BTreeMap<NodeId, Manager>,
    routes: Option<Routes>,
    term: u32,
    sequence: u32,
    link_state_due: Option<Time>,
    link_state_sent: Time,
    link_state_ready: Option<LinkState>,
    packets: VecDeque<(FaceId, Vec<u8>)>,
    face_changes: VecDeque<(FaceId, bool)>,
    beacons: VecDeque<Beacon>,
    events: VecDeque<Event>,
}

/// A neighbour, as its face sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NeighbourInfo {
    /// The face.
    pub face: FaceId,
    /// Who is there; [`NodeId::NONE`] if nothing was heard.
    pub node: NodeId,
    /// Its human-readable name.
    pub label: String,
    /// What it is.
    pub roles: Roles,
    /// Whether it answers.
    pub up: bool,
    /// Smoothed round-trip time.
    pub rtt: Option<Duration>,
    /// Datagram bytes proven to get through to it, or the smallest size of the ladder.
    pub mtu: u32,
}

/// A topology manager that can be reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ManagerInfo {
    /// Its node.
    pub node: NodeId,
    /// Its human-readable name.
    pub label: String,
    /// Number of its run.
    pub incarnation: u64,
    /// The route to it.
    pub to: Fid,
    /// The route back.
    pub back: Fid,
    /// Its term.
    pub term: u32,
    /// Whether it rules or waits.
    pub state: ManagerState,
    /// Its priority.
    pub priority: u8,
}

/// How long a neighbour that fell silent is greeted more often.
const EAGER: Duration = Duration::from_secs(30);
/// How many hellos it then gets in the time of one, and before that when one of its own is overdue: it answers who has
/// not heard it for long. So random loss takes no face down.
const EAGER_HELLOS: u32 = 4;

struct Face {
    options: FaceOptions,
    hello_due: Time,
    /// After the neighbour fell silent: until when it is greeted more often, so that it is soon known to be back.
    eager_until: Time,
    peer: Option<Peer>,
    up: bool,
    version_noted: bool,
    loop_noted: bool,
    received_max: [u32; 2],
    received_turn: Time,
    mtu: u32,
    probe_attempts: u32,
    probe_due: Option<Time>,
    sent_us: u64,
    used_kbps: u32,
    told: Option<Adjacency>,
}

struct Peer {
    node: NodeId,
    incarnation: u64,
    retired: Option<u64>,
    face: FaceId,
    roles: Roles,
    label: String,
    heard: Time,
    sent_us: u64,
    echo_us: u64,
    rtt: Option<Duration>,
}

struct Manager {
    beacon: Beacon,
    retired: Option<u64>,
    heard: Time,
    /// Routes by face of arrival: sequence, to the manager, from it. The face that was first is `best`.
    routes: BTreeMap<FaceId, Learnt>,
    best: Option<FaceId>,
    /// Whether it is on this node.
    own: bool,
}

impl Manager {
    /// The last beacon as it came by the best way, and that way; `None` if no way is left.
    fn latest(&self) -> Option<(Beacon, Option<FaceId>)> {
        let Some(best) = self.best else {
            return self.own.then(|| (self.beacon.clone(), None));
        };
        let learnt = self.routes.get(&best)?;
        let mut beacon = self.beacon.clone();
        beacon.sequence = learnt.sequence;
        beacon.to_manager = learnt.to.iter().skip(1).copied().collect();
        beacon.from_manager = learnt.from.split_last()?.1.into();
        Some((beacon, Some(best)))
    }
}

struct Learnt {
    sequence: u32,
    to: Vec<ListLabel>,
    from: Vec<ListLabel>,
}

/// The reasons for which hellos and beacons are dropped, beside those of [`WireError::reason`].
pub mod reason {
    /// The authentication code is wrong.
    pub const FORGED: &str = "authentication failed";
    /// A face that leads back to this node.
    pub const OWN: &str = "own hello came back";
    /// A hello of a face that was not added and does not fit any more.
    pub const FACES: &str = "too many faces";
    /// A beacon from a face that is not up.
    pub const ONE_WAY: &str = "beacon over a face that is not up";
    /// A beacon of one topology manager too many.
    pub const MANAGERS: &str = "too many topology managers";
    /// A beacon that has gone too far.
    pub const HOPS: &str = "beacon came too far";
    /// Neither hello nor beacon.
    pub const TYPE: &str = "not a hello or beacon";
}

impl Neighbour {
    /// A node without faces.
    pub fn new(config: NeighbourConfig) -> Neighbour {
        Neighbour {
            key: LabelKey::new(&config.secret),
            faces: BTreeMap::new(),
            managers: BTreeMap::new(),
            routes: None,
            term: 0,
            sequence: 0,
            link_state_due: None,
            link_state_sent: Time::ZERO,
            link_state_ready: None,
            packets: VecDeque::new(),
            face_changes: VecDeque::new(),
            beacons: VecDeque::new(),
            events: VecDeque::new(),
            config,
        }
    }
    /// Adds a face and greets over it. A known face gets the new options. Returns whether there was room for it.
    pub fn add_face(&mut self, now: Time, face: FaceId, options: FaceOptions) -> bool {
        if let Some(state) = self.faces.get_mut(&face) {
            state.options = options;
            return true;
        }
        if self.faces.len() >= self.config.faces_max {
            return false;
        }
        let mtu = options.mtu.min(self.config.mtu_ladder.first().copied().unwrap_or(1200));
        let state = Face {
            options,
            hello_due: now,
            eager_until: Time::ZERO,
            peer: None,
            up: false,
            version_noted: false,
            loop_noted: false,
            received_max: [0; 2],
            received_turn: now,
            mtu,
            probe_attempts: 0,
            probe_due: None,
            sent_us: 0,
            used_kbps: 0,
            told: None,
        };
        self.faces.insert(face, state);
        self.send_hello(now, face, None);
        true
    }
    /// Removes a face.
    pub fn remove_face(&mut self, now: Time, face: FaceId) {
        self.on_down(now, face, "face removed");
        self.faces.remove(&face);
    }
    /// Tells the rate in use on a face, for paths by residual capacity.
    pub fn set_used(&mut self, now: Time, face: FaceId, used_kbps: u32) {
        if let Some(state) = self.faces.get_mut(&face) {
            state.used_kbps = used_kbps;
            self.on_metric(now, face);
        }
    }
    /// Takes a whole Hello or Beacon packet that arrived on a face.
    pub fn handle_datagram(&mut self, now: Time, face: FaceId, datagram: &Datagram) {
        let size = datagram.len() as u32;
        let all;
        let bytes = if datagram.head().is_empty() {
            &datagram.body()[..]
        } else {
            all = datagram.to_vec();
            &all
        };
        if let Err(reason) = self.on_packet(now, face, bytes) {
            self.events.push_back(Event::Dropped { face, reason, bytes: size });
        }
    }
    /// A packet of another version of the wire format arrived: tells it once per face.
    pub fn handle_other_version(&mut self, face: FaceId, found: u8) {
        if let Some(state) = self.faces.get_mut(&face)
            && !state.version_noted
        {
            state.version_noted = true;
            let text = format!(
                "{face}: the other end speaks wire format version {found}, this program speaks {}; update the older one",
                crate::wire::VERSION
            );
            self.events.push_back(Event::Note(text));
        }
    }
    /// Takes a routes message. Returns whether it is newer than what was known; only then its content counts.
    pub fn handle_routes(&mut self, routes: &Routes) -> bool {
        let is_newer = |known: &Routes| (routes.term, routes.sequence) > (known.term, known.sequence);
        if self.routes.as_ref().is_some_and(|known| !is_newer(known)) {
            return false;
        }
        self.see_term(routes.term);
        self.routes = Some(routes.clone());
        true
    }
    /// Notes that something of a term was heard: the link states tell it, so that whoever rules outdoes it.
    pub fn see_term(&mut self, term: u32) {
        self.term = self.term.max(term);
    }
    /// Floods a beacon of the topology manager on this node; its label lists are filled in here.
    pub fn originate_beacon(&mut self, now: Time, mut beacon: Beacon) {
        beacon.to_manager = [self.key.list(Port::Local)].into();
        beacon.from_manager.clear();
        let ups: Vec<FaceId> = self.faces.iter().filter(|(_, state)| state.up).map(|(face, _)| *face).collect();
        ups.into_iter().for_each(|face| self.send_beacon(face, &beacon, None));
        self.remember_own(now, beacon);
    }
    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        let faces: Vec<FaceId> = self.faces.keys().copied().collect();
        for face in faces {
            let down_after = self.down_after();
            let state = self.faces.get_mut(&face).expect("the key was just listed");
            if state.peer.as_ref().is_some_and(|peer| peer.heard + down_after <= now) {
                state.peer = None;
                self.on_down(now, face, "hellos missed");
            }
            let state = self.faces.get_mut(&face).expect("a face that goes down stays");
            if state.received_turn + self.config.mtu_probe_interval * 2 <= now {
                state.received_turn = now;
                state.received_max = [0, state.received_max[0]];
            }
            if state.hello_due <= now {
                self.send_hello(now, face, None);
            }
            if self.faces[&face].probe_due.is_some_and(|due| due <= now) {
                self.on_probe_due(now, face);
            }
        }
        let timeout = self.config.manager_timeout;
        let own = self.config.node;
        let events = &mut self.events;
        self.managers.retain(|node, manager| {
            let keep = manager.heard + timeout > now || *node == own;
            if !keep {
                events.push_back(Event::Note(format!("topology manager {} is silent", manager.beacon.label)));
            }
            keep
        });
        self.check_link_state(now);
    }
    /// When [`Neighbour::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let down_after = self.down_after();
        let faces = self.faces.values().flat_map(|state| {
            let down = state.peer.as_ref().map(|peer| peer.heard + down_after);
            [Some(state.hello_due), down, state.probe_due].into_iter().flatten()
        });
        let managers = self.managers.iter().filter(|(node, _)| **node != self.config.node);
        let managers = managers.map(|(_, manager)| manager.heard + self.config.manager_timeout);
        faces.chain(managers).chain(self.link_state_time()).min()
    }
    /// The next packet to send, on one face.
    pub fn poll_packet(&mut self) -> Option<(FaceId, Vec<u8>)> {
        self.packets.pop_front()
    }
    /// The next face that came up or went down.
    pub fn poll_face(&mut self) -> Option<(FaceId, bool)> {
        self.face_changes.pop_front()
    }
    /// A link-state message that is due, for every topology manager in [`Neighbour::managers`].
    pub fn poll_link_state(&mut self) -> Option<LinkState> {
        self.link_state_ready.take()
    }
    /// The next beacon of another node's topology manager, once each; for a topology manager on this node.
    pub fn poll_beacon(&mut self) -> Option<Beacon> {
        self.beacons.pop_front()
    }
    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// One entry per face.
    pub fn neighbours(&self) -> Vec<NeighbourInfo> {
        let info = |(face, state): (&FaceId, &Face)| {
            let peer = state.peer.as_ref();
            NeighbourInfo {
                face: *face,
                node: peer.map_or(NodeId::NONE, |peer| peer.node),
                label: peer.map_or_else(String::new, |peer| peer.label.clone()),
                roles: peer.map_or(Roles::NONE, |peer| peer.roles),
                up: state.up,
                rtt: peer.and_then(|peer| peer.rtt),
                mtu: state.mtu,
            }
        };
        self.faces.iter().map(info).collect()
    }
    /// The topology managers that can be reached, by node id; the one on this node included.
    pub fn managers(&self) -> Vec<ManagerInfo> {
        self.managers.iter().filter_map(|(node, manager)| self.manager_info(*node, manager)).collect()
    }
    /// The active topology manager with the highest term, if one can be reached.
    pub fn active_manager(&self) -> Option<ManagerInfo> {
        let active = self.managers().into_iter().filter(|manager| manager.state == ManagerState::Active);
        active.max_by_key(|manager| (manager.term, manager.priority, manager.node))
    }
    /// The newest routes message.
    pub fn routes(&self) -> Option<&Routes> {
        self.routes.as_ref()
    }
    /// Whether the neighbour on a face answers.
    pub fn is_up(&self, face: FaceId) -> bool {
        self.faces.get(&face).is_some_and(|state| state.up)
    }

    fn down_after(&self) -> Duration {
        self.config.hello_interval * self.config.hello_misses + self.config.hello_interval / 2
    }
    /// Silence after which a hello must have been lost.
    fn overdue_after(&self) -> Duration {
        self.config.hello_interval * 3 / 2
    }
    fn on_packet(&mut self, now: Time, face: FaceId, bytes: &[u8]) -> Result<(), &'static str> {
        let header = Header::decode(bytes).map_err(|error| {
            if let WireError::Version { found, .. } = error {
                self.handle_other_version(face, found);
            }
            error.reason()
        })?;
        let body = &bytes[header.len()..];
        let body = unseal(&self.config.network_key, body).map_err(|_| reason::FORGED)?;
        match header.packet_type {
            PacketType::Hello => {
                let hello = Hello::decode(body).map_err(WireError::reason)?;
                self.on_hello(now, face, hello, bytes.len() as u32)
            }
            PacketType::Beacon => {
                let beacon = Beacon::decode(body).map_err(WireError::reason)?;
                self.on_beacon(now, face, beacon)
            }
            PacketType::Control | PacketType::Request | PacketType::Data => Err(reason::TYPE),
        }
    }
    fn on_hello(&mut self, now: Time, face: FaceId, hello: Hello, size: u32) -> Result<(), &'static str> {
        let (own, overdue_after) = (self.config.node, self.overdue_after());
        let state = self.faces.get_mut(&face).ok_or(reason::FACES)?;
        if hello.node == own {
            if !state.loop_noted {
                state.loop_noted = true;
                let text = format!("{face} leads back to this node, or another node has the same id {own}");
                self.events.push_back(Event::Note(text));
            }
            return Err(reason::OWN);
        }
        let known = state.peer.as_ref().filter(|peer| peer.node == hello.node);
        if let Some(peer) = known {
            if peer.retired == Some(hello.incarnation) {
                return Ok(());
            }
            if peer.incarnation == hello.incarnation && hello.sent_us <= peer.sent_us {
                // Late or a copy: says nothing new, but a large one did get through.
                state.received_max[0] = state.received_max[0].max(size);
                return Ok(());
            }
        }
        let restarted = known.is_some_and(|peer| peer.incarnation != hello.incarnation);
        let same = known.is_some_and(|peer| peer.incarnation == hello.incarnation && peer.face == hello.face);
        if !same {
            let retired = known.filter(|_| restarted).map(|peer| peer.incarnation);
            if state.peer.is_some() {
                let why = if restarted { "the neighbour restarted" } else { "another neighbour appeared" };
                self.on_down(now, face, why);
            }
            let state = self.faces.get_mut(&face).expect("a face that goes down stays");
            state.received_max = [0; 2];
            state.peer = Some(Peer {
                node: hello.node,
                incarnation: hello.incarnation,
                retired,
                face: hello.face,
                roles: hello.roles,
                label: hello.label.clone(),
                heard: now,
                sent_us: hello.sent_us,
                echo_us: 0,
                rtt: None,
            });
        }
        let state = self.faces.get_mut(&face).expect("it was there above");
        let news = size > state.received_max[0].max(state.received_max[1]);
        state.received_max[0] = state.received_max[0].max(size);
        let peer = state.peer.as_mut().expect("it was made above if it was not there");
        peer.heard = now;
        peer.sent_us = hello.sent_us;
        peer.roles = hello.roles;
        peer.label = hello.label;
        let us = hello
            .heard
            .filter(|heard| heard.node == own && heard.incarnation == self.config.incarnation && heard.face == face);
        match us {
            Some(heard) => {
                if heard.echo_us > peer.echo_us {
                    peer.echo_us = heard.echo_us;
                    let held = heard.echo_us.saturating_add(u64::from(heard.age_us));
                    let sample = Duration::from_micros(micros(now).saturating_sub(held));
                    peer.rtt = Some(peer.rtt.map_or(sample, |rtt| (rtt * 7 + sample) / 8));
                }
                let was_up = core::mem::replace(&mut state.up, true);
                if !was_up {
                    self.on_up(now, face);
                }
                self.on_proof(now, face, heard.received_bytes_max);
                let waits = Duration::from_micros(heard.age_us.into()) >= overdue_after;
                if !was_up || news || waits {
                    self.send_hello(now, face, None);
                }
                self.on_metric(now, face);
            }
            None => {
                // It does not hear us, or not yet.
                let lost = state.up;
                if lost {
                    self.on_down(now, face, "the neighbour does not hear this node");
                }
                if lost || !same || news {
                    self.send_hello(now, face, None);
                }
            }
        }
        Ok(())
    }
    fn on_up(&mut self, now: Time, face: FaceId) {
        let first = self.config.mtu_ladder.first().copied().unwrap_or(1200);
        let state = self.faces.get_mut(&face).expect("the caller has it");
        let node = state.peer.as_ref().map_or(NodeId::NONE, |peer| peer.node);
        state.mtu = first.min(state.options.mtu);
        state.probe_attempts = 0;
        state.probe_due = Some(now);
        self.face_changes.push_back((face, true));
        self.events.push_back(Event::Neighbour { face, node, up: true });
        self.schedule_link_state(now + self.config.link_state_debounce);
        // The newcomer need not wait for the next beacons.
        let beacons: Vec<_> = self.managers.values().filter_map(Manager::latest).collect();
        for (beacon, arrived) in beacons {
            self.send_beacon(face, &beacon, arrived);
        }
        self.on_probe_due(now, face);
    }
    fn on_down(&mut self, now: Time, face: FaceId, why: &str) {
        let Some(state) = self.faces.get_mut(&face) else { return };
        if !core::mem::replace(&mut state.up, false) {
            return;
        }
        state.probe_due = None;
        state.told = None;
        state.eager_until = now + EAGER;
        let node = state.peer.as_ref().map_or(NodeId::NONE, |peer| peer.node);
        self.face_changes.push_back((face, false));
        self.events.push_back(Event::Neighbour { face, node, up: false });
        self.events.push_back(Event::Note(format!("{face} is down: {why}")));
        for manager in self.managers.values_mut() {
            manager.routes.remove(&face);
            if manager.best == Some(face) {
                manager.best = manager.routes.iter().max_by_key(|(_, learnt)| learnt.sequence).map(|(face, _)| *face);
            }
        }
        self.schedule_link_state(now + self.config.link_state_debounce);
    }
    /// The other side says how large a datagram it received.
    fn on_proof(&mut self, now: Time, face: FaceId, received: u32) {
        let ladder = self.ladder(face);
        let Some(state) = self.faces.get_mut(&face) else { return };
        let base = ladder.first().copied().unwrap_or(state.mtu);
        let mtu = ladder.iter().copied().filter(|size| *size <= received).max().unwrap_or(base);
        if mtu == state.mtu {
            return;
        }
        state.mtu = mtu;
        // More may be possible; and if it has become less, the other side may only have forgotten what it received.
        state.probe_attempts = 0;
        self.on_probe_due(now, face);
        self.schedule_link_state(now + self.config.link_state_debounce);
    }
    fn on_probe_due(&mut self, now: Time, face: FaceId) {
        let ladder = self.ladder(face);
        let Some(state) = self.faces.get_mut(&face) else { return };
        let current = state.mtu;
        let next = ladder.into_iter().find(|size| *size > current);
        state.probe_attempts += 1;
        let extra = state.probe_attempts.saturating_sub(self.config.mtu_probes);
        let check_current = state.probe_attempts == 1 || extra > 0;
        // Where packets are lost at random some tries fail: the pauses between further ones double.
        let pause = self.config.hello_interval * (1 << extra.min(16));
        let pause = if next.is_none() { self.config.mtu_probe_interval } else { pause };
        state.probe_due = Some(now + pause.min(self.config.mtu_probe_interval));
        if check_current {
            self.send_hello(now, face, Some(current));
        }
        if let Some(size) = next {
            self.send_hello(now, face, Some(size));
        }
    }
    fn ladder(&self, face: FaceId) -> Vec<u32> {
        let limit = self.faces.get(&face).map_or(0, |state| state.options.mtu);
        let sizes = self.config.mtu_ladder.iter().copied().filter(|size| *size < limit);
        sizes.chain([limit]).collect()
    }
    fn send_hello(&mut self, now: Time, face: FaceId, size: Option<u32>) {
        let overdue_after = self.overdue_after();
        let Some(state) = self.faces.get_mut(&face) else { return };
        let mut hello = Hello {
            node: self.config.node,
            incarnation: self.config.incarnation,
            face,
            roles: self.config.roles,
            label: self.config.label.clone(),
            // Two hellos of one instant must not look like copies of one.
            sent_us: micros(now).max(state.sent_us + 1),
            heard: state.peer.as_ref().map(|peer| Heard {
                node: peer.node,
                incarnation: peer.incarnation,
                face: peer.face,
                echo_us: peer.sent_us,
                age_us: u32::try_from(now.since(peer.heard).as_micros()).unwrap_or(u32::MAX),
                received_bytes_max: state.received_max[0].max(state.received_max[1]),
            }),
            padding_bytes: 0,
        };
        state.sent_us = hello.sent_us;
        let header = Header { packet_type: PacketType::Hello, flags: 0, ttl: 1, fid: Fid::NONE };
        let mut packet = Vec::new();
        header.encode(&mut packet);
        let start = packet.len();
        hello.encode(&mut packet);
        if let Some(size) = size {
            let bare = packet.len() + MAC_BYTES;
            hello.padding_bytes = u16::try_from((size as usize).saturating_sub(bare)).unwrap_or(u16::MAX);
            packet.truncate(start);
            hello.encode(&mut packet);
        } else {
            let is_overdue = state.peer.as_ref().is_some_and(|peer| peer.heard + overdue_after <= now);
            let is_eager = if state.up { is_overdue } else { now < state.eager_until };
            state.hello_due = now + self.config.hello_interval / if is_eager { EAGER_HELLOS } else { 1 };
        }
        seal(&self.config.network_key, &mut packet, start);
        self.packets.push_back((face, packet));
    }

    fn on_beacon(&mut self, now: Time, face: FaceId, beacon: Beacon) -> Result<(), &'static str> {
        if !self.is_up(face) {
            return Err(reason::ONE_WAY);
        }
        if beacon.node == self.config.node {
            return Ok(());
        }
        if beacon.to_manager.len() >= BEACON_LABELS_MAX || beacon.from_manager.len() >= BEACON_LABELS_MAX {
            return Err(reason::HOPS);
        }
        // A copy that came through this node before offers no other way.
        let own = self.faces.keys().any(|face| beacon.from_manager.contains(&self.key.list(Port::Face(*face))));
        if own {
            return Ok(());
        }
        let known = self.managers.get(&beacon.node);
        if known.is_none() && self.managers.len() >= self.config.managers_max {
            return Err(reason::MANAGERS);
        }
        let restarted = known.is_none_or(|manager| manager.beacon.incarnation != beacon.incarnation);
        let retired = match known {
            Some(manager) if restarted => Some(manager.beacon.incarnation),
            Some(manager) => manager.retired,
            None => None,
        };
        let changed = restarted
            || known.is_some_and(|known| (known.beacon.state, known.beacon.term) != (beacon.state, beacon.term));
        let learnt = Learnt {
            sequence: beacon.sequence,
            to: [&[self.key.list(Port::Face(face))], &beacon.to_manager[..]].concat(),
            from: [&beacon.from_manager[..], &[self.key.list(Port::Local)]].concat(),
        };
        if let Some(manager) = self.managers.get_mut(&beacon.node) {
            if manager.retired == Some(beacon.incarnation) {
                return Ok(());
            }
            if !restarted && beacon.sequence <= manager.beacon.sequence {
                if beacon.sequence == manager.beacon.sequence {
                    manager.routes.insert(face, learnt);
                }
                return Ok(());
            }
        }
        if changed && beacon.state == ManagerState::Active {
            self.events.push_back(Event::Note(format!(
                "topology manager {} is active, term {}",
                beacon.label,
                successions(beacon.term)
            )));
        }
        self.see_term(beacon.term);
        let ups: Vec<FaceId> =
            self.faces.iter().filter(|(other, state)| state.up && **other != face).map(|(face, _)| *face).collect();
        ups.into_iter().for_each(|other| self.send_beacon(other, &beacon, Some(face)));
        self.beacons.push_back(beacon.clone());
        let node = beacon.node;
        let manager = self.managers.entry(node).or_insert_with(|| Manager {
            beacon: beacon.clone(),
            retired,
            heard: now,
            routes: BTreeMap::new(),
            best: None,
            own: false,
        });
        if restarted {
            manager.routes.clear();
        }
        manager.retired = retired;
        manager.heard = now;
        manager.best = Some(face);
        manager.routes.insert(face, learnt);
        // Ways that the last beacons did not confirm may be gone.
        manager.routes.retain(|_, learnt| learnt.sequence.saturating_add(2) >= beacon.sequence);
        manager.beacon = beacon;
        if restarted {
            self.schedule_link_state(now);
        }
        Ok(())
    }
    fn remember_own(&mut self, now: Time, beacon: Beacon) {
        self.see_term(beacon.term);
        let new = !self.managers.contains_key(&beacon.node);
        self.managers.insert(
            beacon.node,
            Manager { beacon, retired: None, heard: now, routes: BTreeMap::new(), best: None, own: true },
        );
        if new {
            self.schedule_link_state(now);
        }
    }
    /// Passes a beacon on over `face`. `arrived` is the face that it came by; `None` if it is this node's own.
    fn send_beacon(&mut self, face: FaceId, beacon: &Beacon, arrived: Option<FaceId>) {
        let mut beacon = beacon.clone();
        if let Some(arrived) = arrived {
            beacon.to_manager.insert(0, self.key.list(Port::Face(arrived)));
        } else if beacon.node != self.config.node {
            return;
        }
        beacon.from_manager.push(self.key.list(Port::Face(face)));
        if beacon.to_manager.len() >= BEACON_LABELS_MAX || beacon.from_manager.len() >= BEACON_LABELS_MAX {
            return;
        }
        let mut packet = Vec::new();
        Header { packet_type: PacketType::Beacon, flags: 0, ttl: 1, fid: Fid::NONE }.encode(&mut packet);
        let start = packet.len();
        beacon.encode(&mut packet);
        seal(&self.config.network_key, &mut packet, start);
        self.packets.push_back((face, packet));
    }
    fn manager_info(&self, node: NodeId, manager: &Manager) -> Option<ManagerInfo> {
        let (to, back) = if node == self.config.node {
            let local = list_fid(&[self.key.list(Port::Local)]);
            (local, local)
        } else {
            let learnt = manager.routes.get(&manager.best?)?;
            (list_fid(&learnt.to), list_fid(&learnt.from))
        };
        Some(ManagerInfo {
            node,
            label: manager.beacon.label.clone(),
            incarnation: manager.beacon.incarnation,
            to,
            back,
            term: manager.beacon.term,
            state: manager.beacon.state,
            priority: manager.beacon.priority,
        })
    }

    fn adjacency(&self, face: FaceId) -> Option<Adjacency> {
        let state = self.faces.get(&face).filter(|state| state.up)?;
        let peer = state.peer.as_ref()?;
        Some(Adjacency {
            face,
            neighbour: peer.node,
            neighbour_face: peer.face,
            rtt_us: peer.rtt.map_or(0, |rtt| u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX).max(1)),
            capacity_kbps: state
                .options
                .rate
                .map_or(0, |rate| u32::try_from(rate.bits_per_second() / 1000).unwrap_or(u32::MAX).max(1)),
            used_kbps: state.used_kbps,
            mtu: state.mtu,
        })
    }
    /// Tells a changed round-trip time or load if it differs by a quarter from what was told.
    fn on_metric(&mut self, now: Time, face: FaceId) {
        let Some(current) = self.adjacency(face) else { return };
        let Some(told) = self.faces.get(&face).and_then(|state| state.told) else { return };
        let differs = |a: u32, b: u32, least: u32| a.abs_diff(b) > (a.max(b) / 4).max(least);
        if differs(current.rtt_us, told.rtt_us, 1000)
            || differs(current.used_kbps, told.used_kbps, (current.capacity_kbps / 20).max(100))
        {
            self.schedule_link_state((self.link_state_sent + self.config.link_state_metric_interval).max(now));
        }
    }
    fn schedule_link_state(&mut self, due: Time) {
        self.link_state_due = Some(self.link_state_due.map_or(due, |earlier| earlier.min(due)));
    }
    /// When the next link-state message is due; never while nobody wants it.
    fn link_state_time(&self) -> Option<Time> {
        if self.managers.is_empty() {
            return None;
        }
        let refresh = self.link_state_sent + self.config.link_state_refresh;
        Some(self.link_state_due.map_or(refresh, |due| due.min(refresh)))
    }
    fn check_link_state(&mut self, now: Time) {
        if self.link_state_time().is_none_or(|due| due > now) {
            return;
        }
        self.link_state_due = None;
        self.link_state_sent = now;
        self.sequence += 1;
        let faces: Vec<FaceId> = self.faces.keys().copied().collect();
        let mut adjacencies = Vec::new();
        for face in faces {
            let adjacency = self.adjacency(face);
            if let Some(state) = self.faces.get_mut(&face) {
                state.told = adjacency;
            }
            adjacencies.extend(adjacency);
        }
        adjacencies.truncate(ADJACENCIES_MAX);
        self.link_state_ready = Some(LinkState {
            node: self.config.node,
            incarnation: self.config.incarnation,
            sequence: self.sequence,
            term: self.term,
            roles: self.config.roles,
            label: self.config.label.clone(),
            secret: self.config.secret,
            location: self.config.location,
            adjacencies,
        });
    }
}

fn micros(now: Time) -> u64 {
    now.as_nanos() / 1000
}

#[cfg(test)]
mod tests;
