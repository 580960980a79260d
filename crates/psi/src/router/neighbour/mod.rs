//! The neighbour at each face, and the routes to the topology managers.
//!
//! Neighbours exchange hellos every `hello_interval`. A face is up when its hellos are echoed (two-way check) and down
//! when `hello_misses` of them are missed. Echoed clocks give the link's round-trip time; padded hellos give its MTU:
//! the largest size that the other side reports as received (RFC 8899 in spirit).
//!
//! Topology managers flood beacons. Every node forwards the first copy of each to its other neighbours and adds the
//! labels of the links, so that it arrives with a route to the manager and one back: enough to send the link state
//! there, from which the manager derives everything else.
//! ```text
//!   down ──hello──► heard ──hello that heard us──► up ──3 missed, or not heard any more, or restarted──► down
//! ```
use alloc::{
    collections::{BTreeMap, VecDeque},
    format,
    string::String,
    vec::Vec,
};

use tributary_content::{PublicKey, hash::secret_number};
use tributary_core::{Datagram, Duration, FaceId, Location, NodeId, Time, event::Event};
use tributary_transport::{Cadence, FaceOptions, FaceStatus, LinkPace, Ramp};
use tributary_trust::{Grant, Identity};

use super::labels::{LabelKey, Port};
use crate::{
    ids::Roles,
    wire::{
        ADJACENCIES_MAX, Adjacency, BEACON_LABELS_MAX, Beacon, DATAGRAM_BYTES_MIN, Fid, Header, Heard, Hello,
        LinkState, ListLabel, MAC_BYTES, ManagerState, OPEN_KEY, PacketType, Routes, Wire, WireError, list_fid, seal,
        successions, unseal,
    },
};

mod beacon;
mod config;
mod hello;
mod link_state;
pub mod trust;

pub use config::NeighbourConfig;

use beacon::Manager;
use hello::Face;
use trust::Trust;

tributary_core::declared! {
    /// The neighbour protocol of one node.
    ///
    /// After each `handle_*` or command, drain [`Neighbour::poll_face`] (into [`super::Router::set_face_up`]),
    /// [`Neighbour::poll_packet`], [`Neighbour::poll_link_state`], [`Neighbour::poll_beacon`] (into a topology manager
    /// of this node) and [`Neighbour::poll_event`]; then call [`Neighbour::poll_timeout`].
    pub struct Neighbour {
        key: LabelKey = LabelKey::new(&config.secret),
        faces: BTreeMap<FaceId, Face> = BTreeMap::new(),
        managers: BTreeMap<NodeId, Manager> = BTreeMap::new(),
        routes: Option<Routes> = None,
        /// In a network with an authority: the identities and permissions of neighbours.
        trust: Option<Trust> = None,
        term: u32 = 0,
        sequence: u32 = 0,
        /// Nonces drawn so far.
        nonces: u64 = 0,
        link_state_due: Option<Time> = None,
        link_state_sent: Time = Time::ZERO,
        /// The present time between link states while nothing changes.
        link_state_refresh: Duration = LINK_STATE_REFRESH,
        link_state_ready: Option<LinkState> = None,
        packets: VecDeque<(FaceId, Vec<u8>)> = VecDeque::new(),
        face_changes: VecDeque<(FaceId, bool)> = VecDeque::new(),
        beacons: VecDeque<Beacon> = VecDeque::new(),
        events: VecDeque<Event> = VecDeque::new(),
        config: NeighbourConfig = config,
    }
    /// A node without faces.
    pub fn new(config: NeighbourConfig) {}
}

/// A topology manager that can be reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ManagerInfo<'a> {
    /// Its last beacon.
    pub beacon: &'a Beacon,
    /// The route to it.
    pub to: Fid,
    /// The route back.
    pub back: Fid,
    /// Its key in a network with an authority.
    pub key: Option<PublicKey>,
}

/// Maximum bytes sent to an address per byte received from it, before it has proven that it receives them (RFC 9000,
/// 8.1).
const ANSWER_MAX: usize = 3;
/// Bytes of a hello with an empty label and a received hello, its header and its authentication code.
const HELLO_BYTES: usize = 5 + 34 + 36 + 2 + MAC_BYTES;
/// Tolerated missed hellos before a face is down: a loss of a fifth of all packets takes a face down once in ten
/// minutes and not twice a minute; transfers notice silence long before.
const HELLO_MISSES: u32 = 5;
/// Datagram sizes to try, ascending; bounded by each face's configured MTU. The first is assumed to work.
const MTU_LADDER: [u32; 5] = [DATAGRAM_BYTES_MIN, 1472, 8972, 32_768, 65_507];
/// How often a size is tried, one hello after the other, before the pauses between tries double.
const MTU_PROBES: u32 = 3;
/// Maximum time between checks of the size in use, with a try of the next one.
const MTU_PROBE_INTERVAL: Duration = Duration::from_secs(30);
/// How long a change waits for further ones before the topology managers learn it.
const LINK_STATE_DEBOUNCE: Duration = Duration::from_millis(20);
/// Time between link-state messages while only round-trip times or loads change.
const LINK_STATE_METRIC_INTERVAL: Duration = Duration::from_secs(1);
/// Time between link-state messages while nothing changes.
const LINK_STATE_REFRESH: Duration = Duration::from_secs(5);
/// How long a silent topology manager is remembered.
const MANAGER_TIMEOUT: Duration = Duration::from_secs(3);

/// Reasons for which hellos and beacons are dropped, besides [`WireError::reason`].
pub mod reason {
    /// The sender has not proven that it receives packets at the address of the neighbour that it claims to be.
    pub const UNPROVEN: &str = "hello in the place of a neighbour, not proven";
    /// A hello of a face that was not added, and exceeds the limit.
    pub const FACES: &str = "too many faces";
}

impl Neighbour {
    /// Adds a face and sends hellos over it. A known face gets the new options. Returns false at the limit.
    pub fn add_face(&mut self, now: Time, face: FaceId, options: FaceOptions) -> bool {
        if let Some(state) = self.faces.get_mut(&face) {
            state.options = options;
            state.awaits_proof = false;
            return true;
        }
        let is_new = self.insert_face(now, face, options);
        if is_new {
            self.send_hello(now, face, None);
        }
        is_new
    }
    /// Adds an unsolicited face. Nothing but [`Neighbour::greet_unsolicited`] sends over it before its neighbour has
    /// sent an authentic hello. Returns false at the limit of faces.
    pub fn add_unsolicited(&mut self, now: Time, face: FaceId, options: FaceOptions) -> bool {
        let is_new = !self.faces.contains_key(&face) && self.insert_face(now, face, options);
        if is_new && let Some(state) = self.faces.get_mut(&face) {
            state.awaits_proof = true;
        }
        is_new
    }
    /// Sends a hello to a sender whose datagram of `bytes` came before any answered hello: at most one per datagram,
    /// not much longer than it, and not more often than to neighbours; otherwise an attacker could aim hellos at a
    /// third party.
    pub fn greet_unsolicited(&mut self, now: Time, face: FaceId, bytes: usize) {
        let is_due = |state: &Face| state.awaits_proof && state.hello_due <= now;
        if bytes * ANSWER_MAX >= HELLO_BYTES + self.config.label.len() && self.faces.get(&face).is_some_and(is_due) {
            self.send_hello(now, face, None);
        }
    }
    /// A nonce for a new face: it cannot be linked to other faces' nonces, or to this face's in another run.
    fn nonce(&mut self, face: FaceId) -> u64 {
        self.nonces += 1;
        secret_number(&self.config.nonce_secret, [self.config.boot, self.nonces, face.0.into()])
    }
    fn insert_face(&mut self, now: Time, face: FaceId, options: FaceOptions) -> bool {
        if self.faces.len() >= self.config.faces_max {
            return false;
        }
        let nonce = self.nonce(face);
        self.faces.insert(face, Face::new(now, options, nonce));
        true
    }
    /// Removes a face.
    pub fn remove_face(&mut self, now: Time, face: FaceId) {
        self.on_down(now, face, "face removed");
        self.faces.remove(&face);
    }
    /// Sets the rate in use on a face, for paths by residual capacity.
    pub fn set_used(&mut self, now: Time, face: FaceId, used_kbps: u32) {
        if let Some(state) = self.faces.get_mut(&face) {
            state.used_kbps = used_kbps;
            self.on_metric(now, face);
        }
    }
    /// Sets this node's identity in a network with an authority.
    pub fn set_identity(&mut self, now: Time, identity: &Identity) {
        match &mut self.trust {
            Some(trust) => trust.set_identity(identity.clone()),
            None => self.trust = Some(Trust::new(identity.clone())),
        }
        self.schedule_link_state(now);
    }
    /// Sets the grant of the neighbour on a face in a network with an authority; `None` if no neighbour is admitted
    /// there.
    pub fn admit(&mut self, now: Time, face: FaceId, grant: Option<&Grant>) {
        if self.trust.as_mut().is_some_and(|trust| trust.admit(face, grant)) {
            self.on_down(now, face, "its certificate is another one");
            self.faces.entry(face).and_modify(|state| state.peer = None);
        }
    }
    /// Whether the neighbour on a face may send control packets in the name of a node.
    pub fn may_send_as(&self, face: FaceId, from: NodeId) -> bool {
        self.trust.as_ref().is_none_or(|trust| trust.may_send_as(face, from))
    }
    /// Signatures made and checked, in a network with an authority.
    #[cfg(test)]
    pub fn signatures(&self) -> (u64, u64) {
        self.trust.as_ref().map_or((0, 0), |trust| trust.counts)
    }
    /// Takes a Hello or Beacon packet that arrived on a face.
    pub fn handle_datagram(&mut self, now: Time, face: FaceId, datagram: &Datagram) {
        let size = datagram.len() as u32;
        let all;
        let bytes = if datagram.head().is_empty() {
            &datagram.body()[..]
        } else {
            all = datagram.to_vec();
            &all
        };
        if let Err(why) = self.on_packet(now, face, bytes) {
            self.events.push_back(Event::Dropped { face, reason: why, bytes: size });
        }
    }
    /// Takes a packet of another version of the wire format: reports it once per face.
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
    /// Takes a routes message. Returns whether it is newer than the last one; only then it has an effect.
    pub fn handle_routes(&mut self, routes: &Routes) -> bool {
        let is_newer = |known: &Routes| (routes.term, routes.sequence) > (known.term, known.sequence);
        if self.routes.as_ref().is_some_and(|known| !is_newer(known)) {
            return false;
        }
        self.see_term(routes.term);
        self.routes = Some(routes.clone());
        true
    }
    /// Records a term: link states carry it, so that the next manager's term exceeds it.
    pub fn see_term(&mut self, term: u32) {
        self.term = self.term.max(term);
    }
    /// Floods a beacon of the topology manager on this node; its label lists are filled in here.
    pub fn originate_beacon(&mut self, now: Time, mut beacon: Beacon) {
        beacon.to_manager = [self.key.list(Port::Local)].into();
        beacon.from_manager.clear();
        let ups: Vec<FaceId> = self.faces.iter().filter(|(_, state)| state.up).map(|(face, _)| *face).collect();
        ups.into_iter().for_each(|face| self.send_beacon(now, face, &beacon, None));
        self.remember_own(now, beacon);
    }
    /// Serves the timers that are due.
    pub fn handle_timeout(&mut self, now: Time) {
        let faces: Vec<FaceId> = self.faces.keys().copied().collect();
        faces.into_iter().for_each(|face| self.handle_face_timeout(now, face));
        self.forget_silent_managers(now);
        self.check_link_state(now);
    }
    /// When [`Neighbour::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let faces = self.faces.values().flat_map(|state| {
            let down = state.peer.as_ref().map(|peer| peer.heard + state.down_after(self.config.hello_interval));
            [(!state.awaits_proof).then_some(state.hello_due), down, state.probe_due].into_iter().flatten()
        });
        let managers = self.managers.iter().filter(|(node, _)| **node != self.config.node);
        let managers = managers.map(|(_, manager)| manager.heard + manager.timeout());
        faces.chain(managers).chain(self.link_state_time()).min()
    }
    /// The next packet to send, on one face.
    pub fn poll_packet(&mut self) -> Option<(FaceId, Vec<u8>)> {
        self.packets.pop_front()
    }
    /// The next face that went up or down.
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

    /// One entry per face, without its traffic.
    pub fn neighbours(&self) -> Vec<FaceStatus> {
        let status = |(face, state): (&FaceId, &Face)| {
            let peer = state.peer.as_ref();
            FaceStatus {
                face: *face,
                neighbour: peer.map_or_else(String::new, |peer| peer.label.clone()),
                up: state.up,
                rtt: peer.and_then(|peer| peer.rtt),
                mtu: state.mtu,
                rate: state.options.rate,
                ..FaceStatus::default()
            }
        };
        self.faces.iter().map(status).collect()
    }
    /// The topology managers that can be reached, by node id; the one on this node included.
    pub fn managers(&self) -> Vec<ManagerInfo<'_>> {
        self.managers.iter().filter_map(|(node, manager)| self.manager_info(*node, manager)).collect()
    }
    /// The active topology manager with the highest term, if one can be reached.
    pub fn active_manager(&self) -> Option<ManagerInfo<'_>> {
        let active = self.managers().into_iter().filter(|manager| manager.beacon.state == ManagerState::Active);
        active.max_by_key(|ManagerInfo { beacon, .. }| (beacon.term, beacon.priority, beacon.node))
    }
    /// The newest routes message.
    pub fn routes(&self) -> Option<&Routes> {
        self.routes.as_ref()
    }
    /// How slow the slowest link of this node that is up is: the round trip of a control packet of full length that need
    /// not wait, and the time for which it occupies the link.
    pub fn slowest_link(&self) -> (Duration, Duration) {
        let links = self.faces.values().filter(|state| state.up).map(|state| {
            let airtime = state.pace.airtime(DATAGRAM_BYTES_MIN as usize);
            (state.peer.as_ref().and_then(|peer| peer.rtt).unwrap_or_default() + airtime * 2, airtime)
        });
        links.fold((Duration::ZERO, Duration::ZERO), |(rtt, airtime), link| (rtt.max(link.0), airtime.max(link.1)))
    }
    /// Whether the neighbour on a face answers.
    pub fn is_up(&self, face: FaceId) -> bool {
        self.faces.get(&face).is_some_and(|state| state.up)
    }

    /// Whether the neighbour on a face has recently sent an authentic hello.
    pub fn hears(&self, face: FaceId) -> bool {
        self.faces.get(&face).is_some_and(|state| state.peer.is_some())
    }

    fn on_packet(&mut self, now: Time, face: FaceId, bytes: &[u8]) -> Result<(), &'static str> {
        let header = Header::decode(bytes).map_err(|error| {
            if let WireError::Version { found, .. } = error {
                self.handle_other_version(face, found);
            }
            error.reason()
        })?;
        let body = &bytes[header.len()..];
        let body = unseal(&OPEN_KEY, body).map_err(|_| "damaged hello or beacon")?;
        match header.packet_type {
            PacketType::Hello => {
                let mut hello = Hello::decode(body).map_err(WireError::reason)?;
                if let Some(trust) = &self.trust {
                    hello.roles = trust.roles(face, hello.node, hello.roles)?;
                }
                self.on_hello(now, face, hello, bytes.len() as u32)
            }
            PacketType::Beacon => {
                let beacon = match &mut self.trust {
                    Some(trust) => trust.read(now, face, body)?,
                    None => Beacon::decode(body).map_err(WireError::reason)?,
                };
                self.on_beacon(now, face, beacon)
            }
            PacketType::Control | PacketType::Request | PacketType::Data => Err("not a hello or beacon"),
        }
    }
}

#[cfg(test)]
mod tests;
