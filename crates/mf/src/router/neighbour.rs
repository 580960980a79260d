//! The neighbour at each face: hellos, authentication, round trips, loss, SETT and LETT.
use alloc::{
    collections::{BTreeMap, VecDeque},
    string::String,
    vec::Vec,
};
use core::ops::Range;

use tributary_content::{SigningKey, hash::secret_number};
use tributary_core::{Duration, FaceId, Time};
use tributary_transport::{Cadence, LinkPace, MtuProbe, PathMtu, Ramp};

use crate::{
    ids::{Guid, NetworkAddress},
    wire::{Hello, MtuMessage, Probe, Roles},
};

mod face;

/// Hellos whose send times are remembered.
const SENT_MAX: usize = 64;
/// Intervals of hellos per sample of the link's cost.
const SAMPLE_INTERVALS: u32 = 10;
/// Samples in the means of the short-term and the long-term cost (reference/mobilityfirst).
const SAMPLES: [usize; 2] = [3, 10];
/// With more bytes in flight than one packet on average a link is in use, and hellos wait for data.
const LOAD_BYTES: u64 = 1_500;
/// Packet size for the expected transmission time.
const COST_BYTES: u64 = 1_500;
/// A host searches for a router that has been silent for longer than this at growing intervals: each search follows
/// after this part of the silence, so that the router's return is noticed after a thirtieth of its absence and a
/// battery lasts. A router has mains power and may hold chunks for the host, so it searches for longer: the host
/// answers its hello at once.
const SEARCH_PATIENCE: Duration = Duration::from_secs(5);
const SEARCH_SILENCE: u32 = 32;
const ROUTER_PATIENCE: Duration = Duration::from_secs(300);
const ROUTER_SEARCH_MAX: Duration = Duration::from_millis(500);
/// The longest time between two searches over a link that delays packets instead of losing them.
const SPACED_MAX: Duration = Duration::from_millis(500);
/// After this long without traffic hellos between a host and its router become rarer.
const IDLE_AFTER: Duration = Duration::from_secs(30);
/// If hellos are further apart than this, a neighbour whose hello is late is probed instead of awaited.
const IDLE: Duration = Duration::from_secs(1);
/// On a link that delays packets instead of losing them, searches follow each other after this part of the silence.
const SPACED: u32 = 4;
/// Hellos without an immediate answer that are needed to tell whether a link delays or loses them.
const UNANSWERED_MIN: usize = 3;
/// Minimum time between two hellos that answer a hello.
const REPLY_INTERVAL: Duration = Duration::from_millis(5);
/// The extra tolerance for differences between hello numbers.
const SEQUENCE_STEP: u32 = 64;
/// Intervals without a hello after which it is late.
const LATE: u32 = 2;
/// Hellos missed until a neighbour is gone.
const MISSED_MAX: u32 = 5;
/// The bits of a nonce that are equal on all faces of a node and identify its runs. The other bits are secret per face.
const BOOT_BITS: u64 = !0 << 40;
/// Ended nonces of a face that are remembered.
const ENDED_NONCES_MAX: usize = 16;
/// Hellos that a suspect neighbour may leave unanswered, the time between two, and their minimum in round trips.
const CHECKS_MAX: u32 = 5;
const CHECK_INTERVAL: Duration = Duration::from_millis(25);
const CHECK_ROUND_TRIPS: u32 = 3;
/// Hellos take at most this part (one sixtieth) of a link, and the search for a neighbour on a known link at most the
/// second one.
const HELLO_PARTS: u32 = 60;
const SEARCH_PARTS: u32 = 10;
/// Doublings of the time between hellos to a neighbour that is present and not yet authenticated.
const GREETINGS_MAX: u32 = 4;
/// Bytes of a hello without a signature and with an empty label.
const HELLO_BYTES: usize = 112;
/// A check waits for packets of this number and length that may be in flight in either direction.
const CHECK_BEHIND: (u32, usize) = (8, 1_472);
const ANSWER_BEHIND: u32 = 4;
/// The first MTU probe waits for this many times a full-length datagram's time on the link.
const MTU_PARTS: u32 = 20;
/// The datagram size that every link carries (RFC 791: the size that every host accepts).
const DATAGRAM_BYTES_MIN: u32 = 576;

/// A node's statement about itself.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its key.
    pub key: SigningKey,
    /// Its human-readable name.
    pub label: String,
    /// Its roles.
    pub roles: Roles,
    /// Its address; none for hosts.
    pub address: NetworkAddress,
    /// Its boot number, random at each start; link states carry it, hellos do not.
    pub boot: u64,
    /// The secret that derives the nonces of its faces; never sent.
    pub nonce_secret: [u8; 32],
}

/// An authenticated neighbour.
#[derive(Clone, PartialEq, Debug)]
pub struct Peer {
    /// Its GUID.
    pub guid: Guid,
    /// Its human-readable name.
    pub label: String,
    /// Its roles.
    pub roles: Roles,
    /// Its address; none for hosts.
    pub address: NetworkAddress,
    /// The part of its nonces that is equal on all its faces, distinct from its link state's boot number. A new one
    /// means that it has restarted.
    pub boot: u64,
    /// Longest datagram on the link: the configured size of both ends' faces, or less if that does not arrive.
    pub datagram_bytes: u32,
    /// Packets that it could buffer at its first hello.
    pub window: u32,
}

/// The intervals of hellos.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rhythm {
    /// To a neighbour that answers while the link is in use.
    pub hello: Duration,
    /// The same between a host and its router while almost nothing is carried.
    pub idle: Duration,
    /// To a neighbour that has just fallen silent.
    pub search: Duration,
    /// From a host to a neighbour that has been silent for long.
    pub search_max: Duration,
    /// Whether it adopts its neighbours' longer intervals while almost nothing is carried: a router does, as a host may
    /// run on a battery. If both ends did, a lost hello would slow both down permanently.
    pub follows: bool,
}

/// A change of a neighbour.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// A neighbour is up.
    Up(FaceId, Peer),
    /// The neighbour no longer answers.
    Down(FaceId, Peer),
    /// Its link carries datagrams of at most this size.
    Mtu(FaceId, u32),
}

tributary_core::declared! {
    /// The neighbour protocol of all faces.
    #[derive(Debug)]
    pub struct Neighbour {
        identity: Identity = identity,
        public: tributary_content::PublicKey = public,
        rhythm: Rhythm = rhythm,
        window: u32 = window,
        faces: BTreeMap<FaceId, Face> = BTreeMap::new(),
        /// The roles that neighbours may have; `None` in a network without an authority, where they may have all.
        allowed: Option<BTreeMap<FaceId, Roles>> = None,
        /// Nonces drawn so far.
        nonces: u64 = 0,
        packets: VecDeque<(FaceId, Vec<u8>)> = VecDeque::new(),
        /// A change.
        pub changes: VecDeque<Change> = VecDeque::new(),
        /// A suspect neighbour has answered.
        pub cleared: bool = false,
        /// Whether a round trip was measured since the last report, so that slowness may have changed.
        pub measured: bool = false,
        /// Signatures made and checked since the start.
        signatures: (u64, u64) = (0, 0),
    }
    /// A protocol without faces. `window` is advertised in the first hello.
    pub fn new(identity: Identity, rhythm: Rhythm, window: u32) {
        let public = identity.key.public();
    }
}

#[derive(Debug, Default)]
struct Face {
    mtu: u32,
    /// Only a node that receives hellos on this face can echo it.
    nonce: u64,
    /// A packet opened the face, and no neighbour has answered a hello there yet.
    awaits_proof: bool,
    /// Nonces that were proven here before the current one, the oldest first: packets recorded with them are rejected.
    ended_nonces: VecDeque<u64>,
    /// The latest proven nonce.
    proven_nonce: Option<u64>,
    sequence: u32,
    /// The number of the latest hello that answered another.
    replied: u32,
    /// Hellos sent, up to a limit, since an unauthenticated neighbour was first heard.
    greetings: u32,
    /// The latest hellos.
    sent: VecDeque<SentProbe>,
    /// The slowness of the link.
    pace: LinkPace,
    /// The intervals of sent and received hellos.
    ramp: Ramp,
    cadence: Cadence,
    /// Bytes in both directions on this face, without hellos.
    carried: u64,
    /// The same at the last hello, when more than a packet was last carried between two hellos, and whether that is
    /// long ago.
    carried_at_hello: u64,
    busy_at: Time,
    is_idle: bool,
    next_hello: Time,
    sent_at: Time,
    /// The peer's nonce and whether its proof has arrived.
    heard_nonce: u64,
    proven: bool,
    /// Whether the peer has seen ours.
    accepted: bool,
    up: Option<Peer>,
    /// The neighbour that fell silent, until another one sends a hello.
    silent: Option<Peer>,
    /// When the last hello arrived from the neighbour, or another packet that only it can have sent.
    alive_at: Time,
    /// Since when the peer is suspected to be gone, and how often it was probed.
    check: Option<(Time, u32)>,
    /// When it was last probed.
    checked_at: Option<Time>,
    heard_sequence: u32,
    heard_at: Option<Time>,
    heard: u32,
    last_up: Time,
    /// The link's path MTU; kept while the neighbour is away.
    path_mtu: Option<PathMtu>,
    rtt: Option<Duration>,
    /// Since the last sample: the least round trip while the link was idle, and whether there was another.
    rtt_min: Option<Duration>,
    loaded: bool,
    /// The round trip of the last sample.
    rtt_sampled: Option<Duration>,
    heard_count: u32,
    /// Hellos up to this one had no receiver, or an earlier run of the neighbour.
    counted_from: u32,
    /// The latest unanswered hellos.
    unanswered: Range<u32>,
    /// Whether the link delays packets, as radios do, instead of losing them: most of those without an immediate answer
    /// have arrived.
    holds: bool,
    sampled_at: Time,
    samples: VecDeque<Duration>,
}

/// A sent hello: its number, its time, the bytes carried until then, and its size.
#[derive(Clone, Copy, Debug)]
struct SentProbe {
    sequence: u32,
    at: Time,
    carried: u64,
    bytes: usize,
}

impl Neighbour {
    /// Signatures made and checked since the start: the most expensive work that a hello can cause.
    #[cfg(test)]
    fn signatures(&self) -> (u64, u64) {
        self.signatures
    }
    /// Restricts neighbours to the roles that they are [allowed](Neighbour::allow) from now on.
    pub fn require_certificates(&mut self) {
        self.allowed.get_or_insert_default();
    }
    /// Sets the roles that the neighbour's certificate allows on a face; `None` if no neighbour is admitted there. A
    /// neighbour that is up with other roles starts again.
    pub fn allow(&mut self, face: FaceId, roles: Option<Roles>) {
        let Some(allowed) = &mut self.allowed else { return };
        let before = match roles {
            Some(roles) => allowed.insert(face, roles),
            None => allowed.remove(&face),
        };
        if before == roles {
            return;
        }
        let Some(state) = self.faces.get_mut(&face) else { return };
        if let Some(peer) = state.up.take() {
            self.changes.push_back(Change::Down(face, peer));
        }
    }
    /// Starts hellos on a face.
    pub fn add_face(&mut self, now: Time, face: FaceId, mtu: u32) {
        if let Some(known) = self.faces.get_mut(&face) {
            (known.mtu, known.awaits_proof) = (mtu, false);
            return;
        }
        self.insert_face(now, face, mtu);
        self.send_hello(now, face);
    }
    /// Adds a face that a packet opened, whose source address may be forged. The neighbour gets one short unsigned
    /// answer per hello until it has echoed one.
    pub fn add_unsolicited(&mut self, now: Time, face: FaceId, mtu: u32) {
        if !self.faces.contains_key(&face) {
            self.insert_face(now, face, mtu);
            self.faces.entry(face).and_modify(|state| state.awaits_proof = true);
        }
    }
    /// Whether the neighbour on an unsolicited face has not yet shown that it receives packets.
    #[cfg(test)]
    fn awaits_proof(&self, face: FaceId) -> bool {
        self.faces.get(&face).is_some_and(|face| face.awaits_proof)
    }
    /// A nonce for a new face, which no one can link to those of other faces or of another start.
    fn draw_nonce(&mut self, face: FaceId) -> u64 {
        self.nonces += 1;
        let Identity { nonce_secret, boot, .. } = &self.identity;
        let of = |number: u64, face: u64| secret_number(nonce_secret, [*boot, number, face]);
        // Numbers of faces begin at 1.
        let drawn = of(0, 0) & BOOT_BITS | of(self.nonces, u64::from(face.0)) & !BOOT_BITS;
        drawn.max(1)
    }
    fn insert_face(&mut self, now: Time, face: FaceId, mtu: u32) {
        let state = Face {
            mtu,
            nonce: self.draw_nonce(face),
            busy_at: now,
            next_hello: now,
            alive_at: now,
            last_up: now,
            sampled_at: now,
            ..Face::default()
        };
        self.faces.insert(face, state);
    }
    /// Stops.
    pub fn remove_face(&mut self, face: FaceId) {
        if let Some(peer) = self.faces.remove(&face).and_then(|face| face.up) {
            self.changes.push_back(Change::Down(face, peer));
        }
    }
    /// Processes a hello.
    ///
    /// # Errors
    /// The reason for its rejection.
    pub fn handle_hello(&mut self, now: Time, face_id: FaceId, hello: Hello) -> Result<(), &'static str> {
        if hello.key == self.public {
            return Err("own hello");
        }
        let Some(face) = self.faces.get_mut(&face_id) else { return Err("unknown face") };
        let ours = face.nonce;
        // A signature is slow to check, so each hello's is checked at most once.
        let mut checked = None;
        let mut is_proven = |signatures: &mut (u64, u64)| {
            *checked.get_or_insert_with(|| {
                signatures.1 += u64::from(hello.signature.is_some());
                hello.is_proven()
            })
        };
        if face.ended_nonces.contains(&hello.nonce) {
            return Err("hello of an earlier start");
        }
        if hello.nonce != face.heard_nonce {
            // A candidate needs a proof to replace a neighbour that answers.
            if face.up.is_some() && !(hello.echo == ours && is_proven(&mut self.signatures)) {
                if now.since(face.sent_at) >= REPLY_INTERVAL {
                    self.reply_to_candidate(now, face_id, &hello);
                }
                return Err("hello of another start, not proven yet");
            }
            face.check = None;
            if let Some(peer) = face.up.take() {
                self.changes.push_back(Change::Down(face_id, peer));
            }
            (face.silent, face.unanswered) = (None, 0..0);
            (face.heard_nonce, face.proven, face.accepted) = (hello.nonce, false, false);
            (face.heard_sequence, face.heard, face.greetings, face.replied) = (0, 0, 0, 0);
        }
        face.check_sequence(now, hello.sequence)?;
        face.on_hello(now, &hello);
        self.measured = true;
        face.cadence.on_message(now);
        if face.up.is_some() {
            face.shorten_interval(&self.rhythm);
        }
        let (wants_answer, heard) = (hello.wants_answer, hello.probe.sequence);
        face.alive_at = now;
        self.on_received(face_id);
        let Some(face) = self.faces.get_mut(&face_id) else { return Err("unknown face") };
        if hello.echo != ours {
            face.accepted = false;
            self.reply_to(now, face_id, heard);
            return Ok(());
        }
        // It has received a hello there.
        face.awaits_proof = false;
        if !face.proven {
            face.proven = is_proven(&mut self.signatures);
            if !face.proven {
                self.reply_to(now, face_id, heard);
                return if hello.signature.is_some() { Err("forged") } else { Ok(()) };
            }
            face.on_proven(hello.nonce);
        }
        face.accepted = hello.accepts;
        face.last_up = now;
        if face.up.is_none() {
            let stated = face.mtu.min(u32::from(hello.datagram_bytes)).max(DATAGRAM_BYTES_MIN);
            let number = ours as u32 ^ face_id.0;
            let known = face.path_mtu.take().filter(|search| search.size_configured() == stated);
            let search = known.unwrap_or_else(|| PathMtu::new(stated, number));
            let certified = self.allowed.as_ref();
            let certified = certified.map(|allowed| allowed.get(&face_id).copied().unwrap_or(Roles::HOST));
            let peer = peer_of(hello, certified, &search);
            face.up = Some(peer.clone());
            face.silent = None;
            face.counted_from = face.sequence;
            face.path_mtu = Some(search);
            face.put_mtu_off(now);
            (face.ramp, face.cadence) = (Ramp::default(), Cadence::default());
            face.next_hello = now + self.rhythm.hello;
            self.changes.push_back(Change::Up(face_id, peer));
            // At once: packets before the proof would count as from an earlier run.
            self.send_hello(now, face_id);
            self.probe_length(now, face_id);
        } else if !face.accepted || wants_answer {
            self.reply_to(now, face_id, heard);
        }
        Ok(())
    }
    /// A query that was sent with data was not answered in time: the neighbour is probed, unless it has just been. A
    /// neighbour whose answers are queued is heard often, and would be probed at every packet.
    pub fn on_unanswered(&mut self, now: Time, face: FaceId) {
        let last_check = self.faces.get(&face).and_then(|face| face.checked_at);
        if last_check.is_none_or(|at| now.since(at) >= CHECK_INTERVAL) {
            self.check(now, face);
        }
    }
    /// A neighbour may be gone: it is probed, and counts as gone if it does not answer soon.
    pub fn check(&mut self, now: Time, face: FaceId) {
        let Some(state) = self.faces.get_mut(&face).filter(|face| face.up.is_some() && face.check.is_none()) else {
            return;
        };
        state.check = Some((now, 0));
        state.checked_at = Some(now);
        if now.since(state.alive_at) <= state.expected_interval(self.rhythm.hello) * LATE {
            // Perhaps only long packets are lost.
            state.path_mtu.iter_mut().for_each(|search| search.check(now));
        }
        self.send_hello(now, face);
    }
    /// Processes an MTU probe, or its answer.
    ///
    /// # Errors
    /// The reason for its rejection.
    pub fn handle_mtu(&mut self, now: Time, face: FaceId, message: MtuMessage) -> Result<(), &'static str> {
        let Some(state) = self.faces.get_mut(&face).filter(|face| face.up.is_some()) else {
            return Err("not from a neighbour");
        };
        match message {
            MtuMessage::Probe(probe) => self.send_mtu(face, MtuMessage::Answer(probe.number)),
            MtuMessage::Answer(number) => {
                let search = state.path_mtu.as_ref();
                if let Some((bytes, round_trip)) = search.and_then(|search| search.round_trip_of(now, number)) {
                    state.pace.on_round_trip(now, bytes, round_trip);
                    self.measured = true;
                    state.put_mtu_off(now);
                    state.shorten_interval(&self.rhythm);
                }
                state.path_mtu.iter_mut().for_each(|search| search.on_answer(now, number));
                self.on_mtu(face);
            }
        }
        Ok(())
    }
    /// Counts bytes other than hellos that a face sends or receives.
    pub fn on_carried(&mut self, face: FaceId, bytes: usize) {
        if let Some(face) = self.faces.get_mut(&face) {
            face.carried += bytes as u64;
            if face.is_idle && face.carried - face.carried_at_hello > LOAD_BYTES {
                face.is_idle = false;
                face.shorten_interval(&self.rhythm);
            }
        }
    }
    /// Datagrams leave through a face, the longest with this many bytes.
    pub fn on_sent(&mut self, face: FaceId, bytes: usize) {
        if let Some(search) = self.faces.get_mut(&face).and_then(|face| face.path_mtu.as_mut()) {
            search.on_sent(bytes);
        }
    }
    /// The neighbour has acknowledged packets on a face, with datagrams of up to `bytes`.
    pub fn on_arrived(&mut self, now: Time, face: FaceId, bytes: u32) {
        if let Some(search) = self.faces.get_mut(&face).and_then(|face| face.path_mtu.as_mut()) {
            search.on_arrived(now, bytes);
        }
    }
    /// Sends the path MTU search's probes, and reports its result.
    fn on_mtu(&mut self, face: FaceId) {
        let Some(state) = self.faces.get_mut(&face) else { return };
        let (Some(search), Some(peer)) = (&mut state.path_mtu, &mut state.up) else { return };
        let probes: Vec<MtuProbe> = core::iter::from_fn(|| search.poll_probe()).collect();
        if peer.datagram_bytes != search.size() {
            peer.datagram_bytes = search.size();
            self.changes.push_back(Change::Mtu(face, search.size()));
        }
        probes.into_iter().for_each(|probe| self.send_mtu(face, MtuMessage::Probe(probe)));
    }
    /// Sends a longer datagram where hellos alone would make a long link seem slow.
    fn probe_length(&mut self, now: Time, face: FaceId) {
        let Some(state) = self.faces.get_mut(&face) else { return };
        let seems_slow = state.pace.interval(self.rhythm.hello, HELLO_BYTES, HELLO_PARTS) > self.rhythm.hello;
        if seems_slow && !state.pace.tells_lengths() {
            state.path_mtu.iter_mut().for_each(|search| search.probe_smallest(now));
            self.on_mtu(face);
        }
    }
    fn send_mtu(&mut self, face: FaceId, message: MtuMessage) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        self.packets.push_back((face, bytes));
    }
    /// A packet of a neighbour has arrived: it is present.
    pub fn on_received(&mut self, face: FaceId) {
        if let Some(face) = self.faces.get_mut(&face) {
            self.cleared |= face.check.take().is_some();
        }
    }
    /// Whether no hello has arrived for a while at a face with a present or former neighbour.
    pub fn awaits_hello(&self, now: Time, face: FaceId) -> bool {
        let late = |face: &Face| now.since(face.alive_at) > face.expected_interval(self.rhythm.hello) * LATE;
        self.faces.get(&face).is_some_and(|face| face.silent.is_some() || face.up.is_some() && late(face))
    }
    /// A packet has arrived that only the neighbour can have sent: it is present, or present again. Packets that a link
    /// has delayed arrive before the next hello, and would otherwise be refused.
    pub fn on_expected(&mut self, now: Time, face_id: FaceId) {
        let Some(face) = self.faces.get_mut(&face_id) else { return };
        (face.alive_at, face.last_up) = (now, now);
        if let Some(peer) = face.silent.take() {
            face.counted_from = face.sequence;
            face.up = Some(peer.clone());
            self.changes.push_back(Change::Up(face_id, peer));
            self.reply(now, face_id);
        }
    }
    /// Whether the neighbour at a face may be gone.
    pub fn is_suspect(&self, face: FaceId) -> bool {
        self.faces.get(&face).is_some_and(|face| face.check.is_some())
    }
    /// Runs the timers that are due.
    pub fn handle_timeout(&mut self, now: Time) {
        let ids: Vec<FaceId> = self.faces.keys().copied().collect();
        for id in ids {
            if self.faces.get(&id).and_then(|face| face.late_at(self.rhythm.hello)).is_some_and(|at| at <= now) {
                self.check(now, id);
            }
            let Some(face) = self.faces.get_mut(&id) else { continue };
            let expected = face.expected_interval(self.rhythm.hello);
            let silent = now.since(face.alive_at) > expected * MISSED_MAX;
            let patience = face.check_interval() * CHECKS_MAX;
            let holds = face.holds;
            // On a link that delays answers, only a longer silence counts.
            let failed = |(since, checks): (Time, u32)| !holds && checks >= CHECKS_MAX && now.since(since) >= patience;
            let silent = silent || face.check.is_some_and(failed);
            if let Some(peer) = face.up.take_if(|_| silent) {
                face.samples.clear();
                face.rtt_sampled = None;
                face.check = None;
                face.path_mtu.iter_mut().for_each(PathMtu::on_away);
                face.silent = Some(peer.clone());
                self.changes.push_back(Change::Down(id, peer));
            }
            let says = face.next_hello <= now && !face.awaits_proof;
            if face.up.is_some()
                && let Some(search) = &mut face.path_mtu
            {
                if now.since(face.alive_at) > expected * LATE {
                    search.on_silence(now);
                }
                search.handle_timeout(now);
                self.on_mtu(id);
            }
            if says {
                self.send_hello(now, id);
                self.probe_length(now, id);
            }
        }
    }
    /// The next hello to send.
    pub fn poll_packet(&mut self) -> Option<(FaceId, Vec<u8>)> {
        self.packets.pop_front()
    }
    /// When to call [`Neighbour::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        let silence = |face: &Face| {
            let silence = face.expected_interval(self.rhythm.hello) * MISSED_MAX;
            face.up.as_ref().map(|_| face.alive_at + silence + Duration::from_nanos(1))
        };
        let search = |face: &Face| face.up.as_ref().and(face.path_mtu.as_ref()).and_then(PathMtu::poll_timeout);
        let greets = |face: &Face| (!face.awaits_proof).then_some(face.next_hello);
        let late = |face: &Face| face.late_at(self.rhythm.hello);
        self.faces.values().flat_map(|face| [greets(face), silence(face), search(face), late(face)]).flatten().min()
    }
    /// All faces and their neighbours.
    pub fn faces(&self) -> impl Iterator<Item = (FaceId, Option<&Peer>)> {
        self.faces.iter().map(|(id, face)| (*id, face.up.as_ref()))
    }
    /// The neighbour at a face.
    pub fn peer(&self, face: FaceId) -> Option<&Peer> {
        self.faces.get(&face)?.up.as_ref()
    }
    /// The smoothed round-trip time of hellos.
    pub fn rtt(&self, face: FaceId) -> Option<Duration> {
        self.faces.get(&face)?.rtt
    }
    /// The slowness of a face's link: the expected delay of an answer, as far as known, including queued data; and the
    /// time that a full-length datagram occupies the link, zero if the link may only be long.
    pub fn slowness(&self, face: FaceId) -> (Duration, Duration) {
        let Some(face) = self.faces.get(&face) else { return (Duration::ZERO, Duration::ZERO) };
        let answer_time = face.rtt.unwrap_or_default() + face.pace.airtime(CHECK_BEHIND.1) * ANSWER_BEHIND;
        (answer_time, face.known_airtime(CHECK_BEHIND.1))
    }
    /// SETT and LETT of a face, in microseconds (reference/mobilityfirst): expected time for one packet.
    pub fn cost(&self, face: FaceId) -> (u32, u32) {
        let Some(face) = self.faces.get(&face) else { return (u32::MAX, u32::MAX) };
        let mean = |count: usize| {
            let taken: Vec<Duration> = face.samples.iter().rev().take(count).copied().collect();
            let first = face.rtt.unwrap_or(Duration::from_millis(1)) / 2;
            let sum: Duration = taken.iter().sum();
            let mean = if taken.is_empty() { first } else { sum / taken.len() as u32 };
            u32::try_from(mean.as_micros()).unwrap_or(u32::MAX).max(1)
        };
        (mean(SAMPLES[0]), mean(SAMPLES[1]))
    }

    /// Answers a hello from a neighbour that has heard this node's hellos up to number `heard`. While the last answer
    /// may be in flight, no other is sent: on a slow link, answers to old hellos would cause more answers without end.
    fn reply_to(&mut self, now: Time, id: FaceId, heard: u32) {
        let Some(face) = self.faces.get(&id) else { return };
        let on_its_way = self.rhythm.search.max(face.rtt.unwrap_or_default());
        if heard >= face.replied || now.since(face.sent_at) >= on_its_way {
            self.reply(now, id);
            self.faces.entry(id).and_modify(|face| face.replied = face.sequence);
        }
    }
    fn reply(&mut self, now: Time, id: FaceId) {
        if self.faces.get(&id).is_some_and(|face| now.since(face.sent_at) >= REPLY_INTERVAL) {
            self.send_hello(now, id);
        }
    }
    /// A proof for a candidate, who claims the address of a neighbour that still answers.
    fn reply_to_candidate(&mut self, now: Time, id: FaceId, hello: &Hello) {
        let Some(face) = self.faces.get_mut(&id) else { return };
        let known = (face.heard_nonce, face.accepted, face.proven);
        // Its proof is missing and must be shown.
        (face.heard_nonce, face.accepted, face.proven) = (hello.nonce, false, false);
        self.send_hello(now, id);
        if let Some(face) = self.faces.get_mut(&id) {
            (face.heard_nonce, face.accepted, face.proven) = known;
        }
    }
    fn send_hello(&mut self, now: Time, id: FaceId) {
        let Some(face) = self.faces.get_mut(&id) else { return };
        face.sequence = face.sequence.wrapping_add(1).max(1);
        face.sent_at = now;
        if face.up.is_none() || face.check.is_some() {
            let from = if face.unanswered.is_empty() { face.sequence } else { face.unanswered.start };
            face.unanswered = from..face.sequence + 1;
        }
        // On a delaying link one waiting hello serves as well as many.
        let spaced = if face.holds { now.since(face.alive_at) / SPACED } else { Duration::ZERO }.min(SPACED_MAX);
        if let Some((_, checks)) = &mut face.check {
            *checks += 1;
        }
        // Routers detect broken links by silence: between them hellos continue at the usual rate.
        let is_host =
            |peer: &Peer| !(peer.roles.contains(Roles::ROUTER) && self.identity.roles.contains(Roles::ROUTER));
        let carried = face.carried - core::mem::replace(&mut face.carried_at_hello, face.carried);
        if carried > LOAD_BYTES || face.up.is_none() {
            face.busy_at = now;
        }
        face.is_idle = now.since(face.busy_at) >= IDLE_AFTER && face.up.as_ref().is_some_and(is_host);
        face.next_hello = now
            + match face.up {
                Some(_) if face.check.is_some() => face.check_interval().max(spaced),
                Some(_) => {
                    let target = face.hello_interval(&self.rhythm);
                    face.ramp.on_sent(now, self.rhythm.hello, target)
                }
                None if face.heard_at.is_some() && !face.proven => {
                    // A neighbour is present and answers each hello: the timer covers losses. The link's speed is still
                    // unknown.
                    face.greetings = (face.greetings + 1).min(GREETINGS_MAX);
                    self.rhythm.search * (1 << face.greetings)
                }
                None => {
                    let silence = now.since(face.last_up);
                    let (patience, most) = match self.identity.roles.contains(Roles::ROUTER) {
                        true => (ROUTER_PATIENCE, ROUTER_SEARCH_MAX),
                        false => (SEARCH_PATIENCE, self.rhythm.search_max),
                    };
                    let slowly = if silence > patience { (silence / SEARCH_SILENCE).min(most) } else { Duration::ZERO };
                    // Hosts that lost the same router at the same time must not search for it in step.
                    let draw = secret_number(&self.identity.nonce_secret, [face.nonce, u64::from(face.sequence), 0]);
                    let slowly = slowly * 3 / 4 + slowly / 2 * (draw % 256) as u32 / 256;
                    face.pace.interval(self.rhythm.search, HELLO_BYTES, SEARCH_PARTS).max(spaced).max(slowly)
                }
            };
        if now.since(face.sampled_at) >= self.rhythm.hello * SAMPLE_INTERVALS {
            face.take_sample(now);
        }
        let probe = match face.heard_at {
            Some(at) => Probe {
                sequence: face.heard_sequence,
                held_us: u32::try_from(now.since(at).as_micros()).unwrap_or(u32::MAX),
                heard: face.heard,
            },
            None => Probe::default(),
        };
        let mut hello = Hello {
            roles: self.identity.roles,
            accepts: face.proven,
            wants_answer: face.check.is_some(),
            sequence: face.sequence,
            probe,
            nonce: face.nonce,
            echo: face.heard_nonce,
            address: self.identity.address,
            datagram_bytes: u16::try_from(face.mtu).unwrap_or(u16::MAX),
            window: self.window,
            key: self.public,
            label: self.identity.label.clone(),
            signature: None,
        };
        // A signature is long and slow: not for a source address that may be forged.
        if face.heard_nonce != 0 && !face.accepted && !face.awaits_proof {
            hello.sign(&self.identity.key);
            self.signatures.0 += 1;
        }
        let mut bytes = Vec::with_capacity(192);
        hello.encode(&mut bytes);
        face.sent.push_back(SentProbe { sequence: face.sequence, at: now, carried: face.carried, bytes: bytes.len() });
        if face.sent.len() > SENT_MAX {
            face.sent.pop_front();
        }
        self.packets.push_back((id, bytes));
    }
}

/// The neighbour behind a hello; in a network with an authority only with its certified roles.
fn peer_of(hello: Hello, certified: Option<Roles>, search: &PathMtu) -> Peer {
    let roles = certified.map_or(hello.roles, |certified| hello.roles.within(certified));
    // Only routers have addresses, whatever the hello claims.
    let is_host = certified.is_some() && !roles.contains(Roles::ROUTER);
    Peer {
        guid: hello.guid(),
        label: hello.label,
        roles,
        address: if is_host { NetworkAddress::NONE } else { hello.address },
        boot: hello.nonce & BOOT_BITS,
        datagram_bytes: search.size(),
        window: hello.window,
    }
}

#[cfg(test)]
mod tests;
