//! The forwarder: FIB, PIT and content store as NDN has them, and the path-specified forwarding of PTP (MPFP, §4).
//!
//! ```text
//!  faces ──► link service ──► Interest ─► loop? ─► content store ─► PIT ─► tag? ── verified by FAB or FIB ──┐
//!            (face.rs)        (interest.rs)                                └─ else ► strategy ──────────────┤
//!                                                                                                           ▼
//!  faces ◄── link service ◄── Data ◄── PIT ◄── content store ◄── (data.rs) ◄──────────────────────────── faces
//!                             each record with its own token, tag, mark and flags
//! ```
//! Internal faces (applications, management) are faces like the others, with numbers from [`INTERNAL_FACES_FIRST`] on;
//! poll their output with [`Router::poll_local`].
pub mod cs;
mod data;
pub mod dead_nonces;
mod echo;
pub mod fab;
mod face;
mod faces;
pub mod fib;
pub mod hash;
mod interest;
pub mod labels;
mod link_rate;
mod management;
pub mod marking;
mod mpfp;
pub mod pit;
mod readers;
pub mod rib;
mod routes;
pub mod shaping;
mod slab;
pub mod strategy;
#[cfg(test)]
mod tests;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, VecDeque},
    string::String,
    vec::Vec,
};

use bytes::Bytes;
use tributary_content::{Name, PublicKey};
use tributary_core::{
    Datagram, Duration, FaceAddresses, FaceId, Random, Rate, Time, Transmit, TransmitBuf, event::Event,
};
use tributary_transport::host::EVENTS_MAX;
use tributary_trust::{Claimants, Grant};

pub use face::{FaceLimits, FaceProfile, FaceScope, LinkService};
pub use management::{FaceRequest, ManagementTrust, RequestId};
pub use readers::NameReaders;

use crate::{
    config::Config,
    wire::{
        LpPacket, PathRates, VerifyKey,
        dataset::{FaceEvent, PacketCounters},
        lp::Origin,
        packet_type,
        reliability::ReliabilityStats,
        signature::digest,
        types,
    },
};
use cs::{ContentStore, CsLimits};
use dead_nonces::DeadNonces;
use fab::Fab;
use face::Face;
use faces::Faces;
use fib::Fib;
use hash::NameHasher;
use labels::Labels;
use management::Management;
use pit::{Pit, PitLimits};
use readers::Readers;
use rib::{ORIGIN_STATIC, Rib, Route};
use strategy::{STRATEGIES, Strategy};

/// The first number of the faces to this node's own applications.
pub const INTERNAL_FACES_FIRST: u32 = u32::MAX - 15;
/// Answers of neighbours with their boot numbers that wait to be polled; beyond that they are dropped.
const BOOT_ANSWERS_MAX: usize = 64;
/// The face of the management protocol.
pub const FACE_MANAGEMENT: FaceId = FaceId(u32::MAX);

/// What a router does with a tag that it cannot follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum InvalidPath {
    /// Forwards by name, and reports it to the consumer with the answer. PTP §3, §4 B.
    #[default]
    ByName,
    /// Returns a Nack at once.
    Nack,
}

/// Whether a node forwards packets that neither come from nor go to its own machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Transit {
    /// It does: it is a router.
    #[default]
    Allowed,
    /// It does not: it is a host.
    Refused,
}

/// Whether other machines may register prefixes by `/localhop/nfd/rib`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RemoteRegistration {
    /// They may not.
    #[default]
    Refused,
    /// Neighbours may, for themselves, once they have proven that they receive packets at their address: in networks
    /// that trust every neighbour to speak for any of [`Config::registration_prefixes`].
    Neighbours,
}

tributary_core::declared! {
    /// Limits of a router's tables and queues.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct RouterLimits {
        /// Maximum faces, including those to the node's own parts. Default: 1,024.
        pub faces_max: usize = 1024,
        /// Limits of each face.
        pub face: FaceLimits = FaceLimits::default(),
        /// Maximum prefixes in the forwarding table. Default: 2²⁰.
        pub fib_entries_max: usize = 1 << 20,
        /// Maximum registered routes. Default: 2²⁰.
        pub routes_max: usize = 1 << 20,
        /// Limits of the table of pending Interests.
        pub pit: PitLimits = PitLimits::default(),
        /// How long nonces are remembered. Default: 6 s, as NFD has it.
        pub dead_nonce_lifetime: Duration = Duration::from_secs(6),
        /// Maximum remembered nonces. Default: 2¹⁸.
        pub dead_nonces_max: usize = 1 << 18,
    }
}

/// Counters of a router.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RouterStats {
    /// Packets of all faces.
    pub counters: PacketCounters,
    /// Interests answered, and forgotten unanswered.
    pub satisfied_and_not: (u64, u64),
    /// Interests held back because a copy is pending.
    pub aggregated: u64,
    /// PTP: Interests that followed their tag.
    pub tags_followed: u64,
    /// PTP: Interests whose tag could not be followed.
    pub tags_failed: u64,
    /// PTP: labels written.
    pub labels_written: u64,
    /// Echo requests answered.
    pub echoes: u64,
    /// Packets marked for congestion that were passed on.
    pub marked: u64,
    /// Packets dropped, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
}

tributary_core::declared! {
    /// A packet for an application of this node.
    #[derive(Clone, Debug)]
    pub struct LocalPacket {
        /// The application's face.
        pub face: FaceId = face,
        /// The Interest or Data.
        pub packet: Bytes = packet.clone(),
        /// A returned Interest, and the reason.
        pub nack: Option<crate::wire::NackReason> = headers.nack,
        /// The arrival face of an Interest.
        pub incoming_face: Option<FaceId> = headers.incoming_face.and_then(|face| u32::try_from(face).ok()).map(FaceId),
        /// To be returned with the answer.
        pub token: Vec<u8> = headers.pit_token.unwrap_or(&[]).to_vec(),
        /// PTP: the tag that was recorded or is left.
        pub tag: Option<Vec<u8>> = headers.tag.map(|tag| tag.as_bytes().to_vec()),
        /// PTP: the same as bits.
        pub tag_bits: Option<Vec<u8>> = headers.tag_bits.map(|tag| tag.to_stack().value()),
        /// PTP: the face that the tag names first.
        pub via: Option<FaceId> = via,
        /// PTP: the rates of the links of the tag.
        pub rates: Vec<Option<Rate>> = headers.rates.iter().flat_map(PathRates::rates).collect(),
        /// PTP: whether the requester wants a tag.
        pub probe: bool = headers.probe,
        /// PTP: the origin of a Data that is not from a producer.
        pub origin: Option<Origin> = headers.origin,
        /// PTP: the tag could not be followed.
        pub path_failed: bool = headers.path_failed,
        /// Whether a queue on the path was long.
        pub marked: bool = headers.congestion_mark.is_some_and(|mark| mark > 0),
    }
    fn new(face: FaceId, via: Option<FaceId>, headers: &LpPacket<'_>, packet: &Bytes) {}
}

/// Maximum packets that wait for this node's applications.
const LOCAL_PACKETS_MAX: usize = 65_536;

/// Whether a packet was taken, or why it is dropped.
type Done = Result<(), &'static str>;

/// Reasons for which a router drops packets, in addition to those of [`crate::wire::WireError::reason`].
pub mod reason {
    /// More bytes than a packet may have.
    pub const TOO_LONG: &str = "longer than a packet may be";
    /// No hops left.
    pub const HOP_LIMIT: &str = "hop limit reached";
    /// No face leads to the name.
    pub const NO_ROUTE: &str = "no route";
    /// `/localhost` from or to another machine.
    pub const SCOPE: &str = "out of scope";
    /// A Nack for an Interest that was not sent there.
    pub const UNSOLICITED_NACK: &str = "nack without interest";
}

tributary_core::declared! {
    /// The forwarder of one node.
    ///
    /// Order of calls: after [`Router::handle_datagram`], [`Router::handle_local`] or a command, drain
    /// [`Router::poll_local`], [`Router::poll_transmit`] and [`Router::poll_event`].
    pub struct Router {
        secret: [u8; 16] = secret,
        hasher: NameHasher = hasher,
        random: Random = Random::new(half(0), half(8)),
        faces: Faces = Faces::default(),
        last_face: FaceId = FaceId(0),
        /// The forwarding table.
        pub fib: Fib = Fib::new(hasher, config.limits.fib_entries_max),
        /// The acceleration base.
        pub fab: Fab = Fab::new(config.fab_flows),
        /// The registered routes.
        pub rib: Rib = Rib::new(config.limits.routes_max),
        /// The table of pending Interests.
        pub pit: Pit = Pit::new(hasher, config.limits.pit),
        /// The content store.
        pub cs: ContentStore = cs,
        dead: DeadNonces = DeadNonces::new(config.limits.dead_nonce_lifetime, config.limits.dead_nonces_max),
        labels: Labels = Labels::new(secret),
        readers: Readers = Readers::new(config.readers.clone()),
        strategies: Vec<Box<dyn Strategy>> = STRATEGIES.iter().map(|(_, make)| make()).collect(),
        /// Strategies chosen for prefixes; the root's is always present.
        choices: BTreeMap<Name, usize> =
            BTreeMap::from([(Name::root(), strategy::by_name(&config.strategy).unwrap_or(0))]),
        management: Management = Management::new(),
        /// What neighbours on protected faces have proven, and so may register.
        owners: Claimants = Claimants::default(),
        /// Differs from start to start, also where the secret does not.
        boot: u64 = u64::from_be_bytes(*run.first_chunk().expect("a digest is longer")),
        /// What neighbours have answered to questions for their boot numbers: the number of the question and the boot
        /// number.
        pub(crate) boot_answers: VecDeque<(FaceId, u32, u64)> = VecDeque::new(),
        local: VecDeque<LocalPacket> = VecDeque::new(),
        events: VecDeque<Event> = VecDeque::new(),
        /// Its counters.
        pub stats: RouterStats = RouterStats::default(),
        now: Time = Time::ZERO,
        pub(crate) config: Config = config,
    }
    fn start(config: Config, secret: [u8; 16]) {
        let half = |at: usize| u64::from_be_bytes(*secret[at..].first_chunk().expect("a secret has 16 bytes"));
        let hasher = NameHasher::new([half(0), half(8)]);
        let mut limits = CsLimits::of_bytes(usize::try_from(config.cache_bytes.0).unwrap_or(usize::MAX));
        limits.packets_max = limits.packets_max.min(config.cache_packets_max.unwrap_or(usize::MAX));
        let store = |policy: &str| ContentStore::new(hasher, limits, policy);
        let cs = store(&config.cache_policy).or_else(|| store(cs::POLICIES[0].0)).expect("the first policy exists");
        // A number that was never used before; it does not reveal the secret.
        let run = digest(&[&secret, &config.epoch.as_nanos().to_be_bytes(), b"run"]);
    }
}

impl Router {
    /// A router with only its management face. The random secret of this start seeds hashes, labels and choices.
    pub fn new(config: Config, secret: [u8; 16]) -> Router {
        let mut router = Router::start(config, secret);
        router.add_internal_face(FACE_MANAGEMENT, "internal://management");
        router.set_up_management();
        router
    }

    // Faces.

    /// Adds a face, up. A known face gets the new profile. False if the table is full.
    pub fn add_face(&mut self, face: FaceId, profile: FaceProfile) -> bool {
        if !self.faces.contains_key(&face) && self.faces.len() >= self.config.limits.faces_max {
            self.count("too many faces");
            return false;
        }
        if self.insert_face(face, profile) {
            self.on_face_event(face, FaceEvent::Created);
        }
        true
    }
    /// Adds a face to an application of this node, numbered from [`INTERNAL_FACES_FIRST`] on.
    pub fn add_internal_face(&mut self, face: FaceId, uri: &str) {
        let options = tributary_transport::FaceOptions { mtu: u32::MAX, rate: None };
        let (scope, uri, local_uri) = (FaceScope::Local, uri.into(), "internal://".into());
        let profile = FaceProfile { scope, uri, local_uri, local_fields: true, ..FaceProfile::from(options) };
        self.insert_face(face, profile);
    }
    /// Whether it is a new one.
    fn insert_face(&mut self, face: FaceId, profile: FaceProfile) -> bool {
        // Numbers of probes cannot be guessed, and leave the router's other choices as they are.
        let half = u64::from_be_bytes(*self.secret.first_chunk().expect("a secret has 16 bytes"));
        let number = Random::new(half, u64::from(face.0)).bits() as u32;
        let before = self.faces.insert(face, Face::new(face, profile, self.config.limits.face, number, self.boot));
        self.labels.add(face);
        before.is_none()
    }
    /// From now on neighbours register only the names that their certificates cover.
    pub fn require_certificates(&mut self) {
        self.owners.require_certificates();
    }
    /// Sets the neighbour's rights on a face; `None` if no neighbour is admitted there.
    /// Registered routes beyond these rights are removed.
    pub fn set_grant(&mut self, now: Time, face: FaceId, grant: Option<&Grant>) {
        self.now = now;
        self.owners.set(face, grant);
        let is_learnt = |route: &Route| route.origin != ORIGIN_STATIC;
        let of_face = |face: FaceId| self.faces.get(&face).is_some_and(|state| !state.is_local());
        let learnt: Vec<(Name, FaceId, u64)> = self
            .rib
            .iter()
            .flat_map(|(prefix, routes)| routes.iter().map(move |route| (prefix, route)))
            .filter(|(_, route)| is_learnt(route) && route.face.0 < INTERNAL_FACES_FIRST && of_face(route.face))
            .filter(|(prefix, route)| !self.may_own(route.face, prefix))
            .map(|(prefix, route)| (prefix.clone(), route.face, route.origin))
            .collect();
        for (prefix, face, origin) in learnt {
            self.unregister(&prefix, face, origin);
        }
    }
    /// Whether the neighbour on a face may have routes for a prefix.
    fn may_own(&self, face: FaceId, prefix: &Name) -> bool {
        self.owners.may_claim(face, prefix)
    }
    /// Removes a face, its routes and its queue.
    pub fn remove_face(&mut self, now: Time, face: FaceId) {
        self.owners.set(face, None);
        self.now = now;
        self.set_face_up(now, face, false);
        self.on_face_event(face, FaceEvent::Destroyed);
        if self.faces.remove(&face).is_some() {
            self.labels.remove(face);
            for prefix in self.rib.remove_face(face) {
                self.update_fib(&prefix);
            }
        }
    }
    /// Sets the proven key at the far end of a face; `None` for none. It stays until the next call, even if the face is
    /// removed and returns.
    pub fn set_face_key(&mut self, face: FaceId, key: Option<PublicKey>) {
        self.readers.set_key(face, key);
    }
    /// Sets whether the far end of a face is reachable. Consumers whose tags use a face that goes down get a Nack.
    pub fn set_face_up(&mut self, now: Time, face: FaceId, up: bool) {
        self.now = now;
        let Some(state) = self.faces.get_mut(&face) else { return };
        let was_up = core::mem::replace(&mut state.up, up);
        if was_up && !up {
            state.clear();
            self.on_face_down(face);
        }
        if was_up != up {
            self.on_face_event(face, if up { FaceEvent::Up } else { FaceEvent::Down });
        }
    }
    /// Sets the addresses of a face, if it exists.
    pub fn set_face_addresses(&mut self, face: FaceId, addresses: FaceAddresses) {
        if let Some(face) = self.faces.get_mut(&face) {
            (face.profile.uri, face.profile.local_uri) = (addresses.peer, addresses.local);
        }
    }
    /// Sets the driver's listening addresses, for `faces/channels`.
    pub fn set_channels(&mut self, addresses: Vec<String>) {
        self.management.channels = addresses;
    }
    /// Whether the face exists.
    pub fn has_face(&self, face: FaceId) -> bool {
        self.faces.contains_key(&face)
    }
    /// The faces, with whether each is up, in order of number.
    pub fn faces(&self) -> impl Iterator<Item = (FaceId, bool, &FaceProfile, PacketCounters)> {
        self.faces.values().map(|face| (face.id, face.up, &face.profile, face.counters))
    }

    /// The longest datagram that arrives on a face, if known; `None` for a stream.
    pub fn mtu(&self, face: FaceId) -> Option<u32> {
        self.faces.get(&face).and_then(Face::mtu).and_then(|mtu| u32::try_from(mtu).ok())
    }

    /// The rate of a face's link, as configured or measured.
    pub fn rate(&self, face: FaceId) -> Option<Rate> {
        self.faces.get(&face).and_then(Face::rate)
    }
    /// Probes the neighbour at a face for a restart; its answer is one of `boot_answers`.
    pub fn probe_boot(&mut self, face: FaceId, number: u32) {
        if let Some(face) = self.faces.get_mut(&face).filter(|face| face.up) {
            face.probe_boot(number);
        }
    }

    // Packets.

    /// Takes a datagram, or a packet from a stream, that arrived on a face.
    pub fn handle_datagram(&mut self, now: Time, face: FaceId, datagram: Datagram) {
        self.now = now;
        let bytes = datagram.len();
        let Some(state) = self.faces.get_mut(&face) else { return self.drop(face, "unknown face", bytes) };
        if !state.up {
            return self.drop(face, face::reason::DOWN, bytes);
        }
        let result = state.handle_datagram(now, datagram);
        if let Some((number, boot)) = state.boot_answer.take()
            && self.boot_answers.len() < BOOT_ANSWERS_MAX
        {
            self.boot_answers.push_back((face, number, boot));
        }
        let is_shaped = state.shaper.is_some();
        match result {
            Ok(Some(arrived)) if is_shaped => self.shape(face, arrived),
            Ok(Some(arrived)) => {
                let headers = arrived.headers();
                self.on_packet(face, &headers, arrived.packet.clone());
            }
            Ok(None) => {}
            Err(reason) => self.drop(face, reason, bytes),
        }
    }
    /// Takes a packet from an application of this node, with headers.
    pub fn handle_local(&mut self, now: Time, face: FaceId, headers: &LpPacket<'_>, packet: Bytes) {
        self.now = now;
        self.on_packet(face, headers, packet);
    }
    fn on_packet(&mut self, face: FaceId, headers: &LpPacket<'_>, packet: Bytes) {
        if packet.len() > crate::wire::PACKET_BYTES_MAX {
            return self.drop(face, reason::TOO_LONG, packet.len());
        }
        let bytes = packet.len();
        let result = match (packet_type(&packet), headers.nack) {
            (Some(types::INTEREST), None) => self.on_interest(face, headers, packet),
            (Some(types::INTEREST), Some(_)) => self.on_nack(face, headers, &packet),
            (Some(types::DATA), None) => self.on_data(face, headers, packet),
            (Some(types::DATA), Some(_)) => Err("nack of something else than an interest"),
            _ => Err("malformed: neither Interest nor Data nor LpPacket"),
        };
        if let Err(reason) = result {
            self.drop(face, reason, bytes);
        }
        self.run_management();
    }
    /// Serves the timers that are due.
    pub fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        while let Some(entry) = self.pit.pop_expired(now) {
            self.on_expired(&entry);
        }
        let due = self.faces.due(now);
        for face in &due {
            if let Some(face) = self.faces.get_mut(face) {
                face.handle_timeout(now);
            }
        }
        self.release_shaped(due);
        if self.rib.poll_timeout().is_some_and(|due| due <= now) {
            for prefix in self.rib.expire(now) {
                self.update_fib(&prefix);
            }
        }
        self.expire_requests();
    }
    /// When to call [`Router::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        let faces = self.faces.poll_timeout().into_iter();
        faces.chain(self.pit.poll_timeout()).chain(self.rib.poll_timeout()).chain(self.requests_due()).min()
    }
    /// Replaces the empty batch by packets of one face; faces take turns.
    pub fn poll_transmit(&mut self, out: &mut TransmitBuf) -> Option<Transmit> {
        let face = self.faces.next_ready(self.last_face)?;
        self.last_face = face;
        self.faces.get_mut(&face)?.poll_transmit(out);
        Some(Transmit { face })
    }
    /// The next packet for an application of this node.
    pub fn poll_local(&mut self) -> Option<LocalPacket> {
        self.local.pop_front()
    }
    /// The next event to report.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    // Questions.

    /// Work since the start that was caused by appearing and vanishing faces: searches of the routes, packets of the
    /// notification stream, and code books.
    #[cfg(test)]
    pub fn work(&self) -> (u64, u64, u64) {
        (self.rib.searches, self.management.packets_of_events(), self.labels.books_made)
    }

    /// What link reliability has done on all faces.
    pub fn reliability_stats(&self) -> ReliabilityStats {
        let stats = self.faces.values().filter_map(Face::reliability_stats);
        stats.fold(ReliabilityStats::default(), |sum, of| ReliabilityStats {
            acknowledged: sum.acknowledged + of.acknowledged,
            retransmitted: sum.retransmitted + of.retransmitted,
            exhausted: sum.exhausted + of.exhausted,
            duplicates: sum.duplicates + of.duplicates,
        })
    }
    /// The random label that names a face in tags, for displays of paths.
    pub fn label(&self, face: FaceId) -> Option<[u8; labels::LABEL_BYTES]> {
        self.labels.label(face)
    }

    // Small things.

    /// Sends a packet on a face of any kind.
    fn send(&mut self, face: FaceId, headers: &LpPacket<'_>, packet: &Bytes) -> bool {
        let unit = self.random.unit();
        let shaped = self.measure_shaped(face, packet);
        let Some(state) = self.faces.get_mut(&face) else { return false };
        let counters = match (headers.nack, packet_type(packet)) {
            (Some(_), _) => [&mut state.counters.nacks, &mut self.stats.counters.nacks],
            (None, Some(types::INTEREST)) => [&mut state.counters.interests, &mut self.stats.counters.interests],
            (None, _) => [&mut state.counters.data, &mut self.stats.counters.data],
        };
        counters.into_iter().for_each(|(_, out)| *out += 1);
        if face.0 >= INTERNAL_FACES_FIRST {
            return self.deliver(face, headers, packet);
        }
        let is_interest = headers.nack.is_none() && packet_type(packet) == Some(types::INTEREST);
        let token = state.proof_token().filter(|_| is_interest);
        if token.is_some() && !state.may_send(packet.len()) {
            self.drop(face, "too much for an unproven address", packet.len());
            return false;
        }
        let with_token;
        let headers = match &token {
            Some(token) => {
                with_token = LpPacket { pit_token: Some(token), ..headers.clone() };
                &with_token
            }
            None => headers,
        };
        match state.send(self.now, headers, packet, (shaped, unit)) {
            Ok(()) => true,
            Err(reason) => {
                self.drop(face, reason, packet.len());
                false
            }
        }
    }
    fn deliver(&mut self, face: FaceId, headers: &LpPacket<'_>, packet: &Bytes) -> bool {
        if face == FACE_MANAGEMENT {
            let came_by = headers.incoming_face.and_then(|face| u32::try_from(face).ok()).map(FaceId);
            self.management.queue.push_back((came_by, packet.clone()));
            return true;
        }
        if self.local.len() >= LOCAL_PACKETS_MAX {
            self.drop(face, "application too slow", packet.len());
            return false;
        }
        let by_labels = headers.tag.and_then(|tag| self.labels.pop(tag)).map(|(face, _)| face);
        let by_bits = || headers.tag_bits.and_then(|tag| self.labels.pop_bits(tag)).map(|(face, _)| face);
        self.local.push_back(LocalPacket::new(face, by_labels.or_else(by_bits), headers, packet));
        true
    }
    fn count(&mut self, reason: &'static str) {
        *self.stats.dropped.entry(reason).or_default() += 1;
    }
    fn drop(&mut self, face: FaceId, reason: &'static str, bytes: usize) {
        self.count(reason);
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(Event::Dropped { face, reason, bytes: u32::try_from(bytes).unwrap_or(u32::MAX) });
        }
    }
    fn is_local(&self, face: FaceId) -> bool {
        self.faces.get(&face).is_some_and(Face::is_local)
    }
    pub(crate) fn is_up(&self, face: FaceId) -> bool {
        self.faces.get(&face).is_some_and(|face| face.up)
    }
    /// Accepts commands signed with a key under [`ManagementTrust::Keys`].
    pub fn trust(&mut self, key: VerifyKey) {
        if let ManagementTrust::Keys(keys) = &mut self.config.management {
            keys.push(key);
        }
    }
}
