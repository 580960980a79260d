//! A node's state per face: handshakes, sessions, and packets waiting for them.
//!
//! ```text
//!  initiator                          responder
//!     ── initiation ───────────────────►   without a cookie: no state, an answer half as long
//!     ◄─────────────────────── cookie ──
//!     ── initiation with it ───────────►   the address is proven: a handshake begins
//!     ◄───────────────────── response ──   who the responder is
//!     ── finish, data … ───────────────►   who the initiator is: the session is in use
//!     ◄────────────── confirm, data … ──
//! ```
use alloc::{
    boxed::Box,
    collections::{BTreeSet, VecDeque},
    format,
    string::String,
    vec::Vec,
};
use bytes::BytesMut;
use core::net::SocketAddr;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use tributary_core::{
    Budget, Duration, FaceId, FaceProtection, Stranger, Time, TransmitBuf, event::Event, printable::escape,
};

use crate::{
    Admission, Config, Entropy, HELD_FOR, Peer, Protection, Refusal, Stats,
    cookie::{Cookie, CookieJar, Holder},
    noise::{Handshake, public_key},
    session::{Refused, Session},
    wire::{CHALLENGE_BYTES, Control, Kind, NOTICE_BYTES_MAX, PROLOGUE, Packet, SessionIndex, is_secure},
};

mod handshakes;

tributary_core::declared! {
    /// The state of all faces of a node.
    pub(crate) struct Layer {
        /// The static public key.
        public: [u8; 32] = public_key(&config.secret),
        /// What this node presents in a handshake: the protection that it wants, then the configured certificate or
        /// label.
        presented: Vec<u8> = [&[protection], &config.presented[..]].concat(),
        admission: Box<dyn Admission> = admission,
        entropy: Entropy = entropy,
        cookies: CookieJar = CookieJar::new(secret),
        faces: HashMap<FaceId, Face, FxBuildHasher> = HashMap::default(),
        /// The face of each session and handshake of ours.
        owners: HashMap<SessionIndex, FaceId, FxBuildHasher> = HashMap::default(),
        due: BTreeSet<(Time, FaceId)> = BTreeSet::new(),
        out: VecDeque<(FaceId, Vec<u8>)> = VecDeque::new(),
        events: VecDeque<Event> = VecDeque::new(),
        /// Faces whose neighbour answers at another face's address.
        moves: VecDeque<(FaceId, FaceId)> = VecDeque::new(),
        /// Faces whose neighbour has changed.
        peers: VecDeque<(FaceId, Option<Peer>)> = VecDeque::new(),
        /// What neighbours have for the owner of this node.
        notices: VecDeque<(FaceId, Vec<u8>)> = VecDeque::new(),
        /// The handshakes of faces that are not configured, and answers about sessions to addresses without a face.
        strangers: Budget = Budget::default(),
        hints: Budget = Budget::default(),
        /// Whether the address of the next handshake has just returned its cookie.
        has_proven: bool = false,
        pub(crate) stats: Stats = Stats::default(),
        config: Config = config,
    }
    pub(crate) fn new(config: Config, admission: Box<dyn Admission>, entropy: Entropy) {
        let (mut entropy, mut secret) = (entropy, [0; 32]);
        entropy(&mut secret);
        let protection = u8::from(config.protection == Protection::Encrypted);
    }
}

#[derive(Default)]
struct Face {
    policy: FaceProtection,
    peer: Option<Peer>,
    /// The static key of the sessions, and when an authentic packet last arrived under one.
    key: Option<[u8; 32]>,
    heard: Option<Time>,
    /// The session in use and its predecessor, whose packets may still arrive.
    current: Option<Session>,
    previous: Option<Session>,
    initiating: Option<Initiating>,
    /// A session that the neighbour has not confirmed, and the message that announces it.
    finishing: Option<Finishing>,
    /// Whether the driver has configured the face: a configured neighbour, not just an address from which packets came.
    is_configured: bool,
    answered: Budget,
    /// The last few handshakes started by the neighbour, or by an attacker on the path.
    responding: VecDeque<Responding>,
    /// Packets of the node that wait for a session.
    waiting: VecDeque<Vec<u8>>,
    challenge: Option<Challenge>,
    /// The face's next deadline.
    due: Option<Time>,
    /// No handshake before this.
    not_before: Time,
    /// Why nothing passes.
    trouble: Option<Trouble>,
    /// When the log last mentioned it, and when the other end was last told of an unknown session.
    noted: Option<Time>,
    hinted: Option<Time>,
}

/// Why nothing passes over a face. It is formatted only when displayed, so that floods of wrong packets stay cheap.
enum Trouble {
    /// Packets arrive without protection.
    Unprotected,
    /// A handshake gets no answer.
    Silent,
    /// This node does not admit the neighbour, and why.
    Refused(String),
    /// The neighbour does not admit this node, and why.
    Refuses(String),
    /// The keys have ended, and no handshake for new ones has succeeded.
    Ended,
}

impl Trouble {
    fn describe(&self, face: FaceId) -> String {
        match self {
            Trouble::Unprotected => {
                format!("{face} receives unprotected packets and drops them: is `security` the same at both ends?")
            }
            Trouble::Silent => {
                format!(
                    "nobody answers the handshake on {face}: is the neighbour up, and is its `security` not \"none\"?"
                )
            }
            Trouble::Refused(reason) => format!("the neighbour on {face} is refused: {reason}"),
            Trouble::Refuses(reason) => format!("the neighbour on {face} refuses this node: {reason}"),
            Trouble::Ended => format!("the keys on {face} have ended, and every handshake for new ones has failed"),
        }
    }
}

struct Initiating {
    index: SessionIndex,
    noise: Handshake,
    first: Vec<u8>,
    cookie: Option<Cookie>,
    /// Cookies received since the last attempt.
    cookies: u32,
    retry: Retry,
}

struct Finishing {
    session: Session,
    finish: Vec<u8>,
    retry: Retry,
}

struct Responding {
    index: SessionIndex,
    theirs: SessionIndex,
    noise: Handshake,
    ephemeral: [u8; 32],
    /// The message being answered, and the answer: both are repeated until the third message arrives.
    first: Vec<u8>,
    response: Vec<u8>,
}

/// A question whether the neighbour has moved to the address of another face.
struct Challenge {
    bytes: [u8; CHALLENGE_BYTES],
    at: FaceId,
    since: Time,
}

#[derive(Clone, Copy)]
struct Retry {
    attempts: u32,
    due: Time,
    /// Whether the node has sent something since the last attempt.
    is_wanted: bool,
}

impl Retry {
    fn new(now: Time) -> Retry {
        Retry { attempts: 1, due: now + RETRY_FIRST, is_wanted: false }
    }
    /// Counts an attempt; the next one is twice as far away as the last.
    fn again(&mut self, now: Time) {
        let wait = RETRY_FIRST * (1 << self.attempts.min(RETRY_DOUBLINGS));
        *self = Retry { attempts: self.attempts + 1, due: now + wait, is_wanted: false };
    }
}

/// The first wait for an answer: more than a round trip of nearly all links.
const RETRY_FIRST: Duration = Duration::from_millis(250);
/// Waits grow up to four seconds: the slowest radio carries a handshake's message in one.
const RETRY_DOUBLINGS: u32 = 4;
/// A session without confirmation is dropped after this many attempts.
const FINISH_ATTEMPTS_MAX: u32 = 7;
/// Cookies that one attempt uses; without a limit, repeated or changed packets could multiply the traffic.
const COOKIES_MAX: u32 = 4;
/// Two sessions that the neighbours started within this time count as simultaneous, and one of them is dropped.
const SIMULTANEOUS: Duration = Duration::from_secs(10);
/// Handshakes of a face that are answered at a time.
const RESPONDING_MAX: usize = 4;
/// The attempt after which the log reports the failure.
const ATTEMPTS_NOTED: u32 = 5;
/// Packets that wait for a session; a protocol's own repetition makes up for more.
const WAITING_MAX: usize = 16;
/// How long the neighbour that began a session uses its keys, and when the other one steps in: keys end after 180 s.
const REKEY_AFTER: Duration = Duration::from_secs(120);
const REKEY_AFTER_BY_OTHER: Duration = Duration::from_secs(150);
/// How long a neighbour that answers no handshake, where protection is optional, counts as unable to.
const PREFERRED_AGAIN: Duration = Duration::from_secs(300);
/// How long nothing is tried with a neighbour that was refused, or refuses.
const REFUSED_FOR: Duration = Duration::from_secs(30);
/// Minimum interval between log lines of a face, and between notices to its far end about an unknown session.
const NOTE_INTERVAL: Duration = Duration::from_secs(60);
const HINT_INTERVAL: Duration = Duration::from_secs(1);
/// How often an unknown session at the other end makes us start a new one: anybody can claim that it is unknown.
const HINTED_INTERVAL: Duration = Duration::from_secs(5);
/// Timeout of a challenge, and minimum interval between two.
const CHALLENGE_PATIENCE: Duration = Duration::from_secs(8);
const CHALLENGE_INTERVAL: Duration = Duration::from_millis(250);
/// Burst and rate per second of answered handshakes over all unproven faces: each costs a third of a millisecond, and
/// current traffic waits for a whole burst.
const HANDSHAKE_BURST: u32 = 25;
const HANDSHAKES_PER_SECOND: u64 = 200;
/// Burst and rate per second of answered handshakes of one face: more than a neighbour starts, since an attacker on the
/// path uses up some.
const FACE_HANDSHAKE_BURST: u32 = 8;
const FACE_HANDSHAKES_PER_SECOND: u64 = 20;
/// Notices waiting for the owner of this node, who fetches them after each packet.
const NOTICES_MAX: usize = 64;
/// Faces with handshakes or sessions. The driver limits their number; this limit only guards against drivers that do
/// not.
const FACES_MAX: usize = 1 << 16;

impl Layer {
    pub(crate) fn set_policy(&mut self, face: FaceId, policy: FaceProtection) {
        let face = self.face(face);
        (face.policy, face.is_configured) = (policy, true);
    }
    pub(crate) fn policy(&self, face: FaceId) -> FaceProtection {
        self.faces.get(&face).map_or(self.config.policy, |face| face.policy)
    }
    /// The proven neighbour on a face.
    pub(crate) fn peer(&self, face: FaceId) -> Option<&Peer> {
        self.faces.get(&face)?.peer.as_ref()
    }
    /// Why nothing passes over a face.
    pub(crate) fn trouble(&self, face: FaceId) -> Option<String> {
        Some(self.faces.get(&face)?.trouble.as_ref()?.describe(face))
    }
    pub(crate) fn is_refused(&self, face: FaceId) -> bool {
        self.faces.get(&face).is_some_and(Face::is_refused)
    }
    /// Changes what this node presents from the next handshake on. Neighbours that refused the old certificate may be
    /// tried again at once.
    pub(crate) fn present(&mut self, presented: &[u8]) {
        self.presented.truncate(1);
        self.presented.extend_from_slice(presented);
        for face in self.faces.values_mut() {
            if face.is_refused() {
                face.not_before = Time::ZERO;
            }
        }
    }
    /// Sends a notice to the neighbour on a face. Without a session it is lost, as any packet may be.
    pub(crate) fn send_notice(&mut self, id: FaceId, notice: &[u8]) {
        let Some(face) = self.faces.get(&id) else { return };
        let session = face.current.as_ref().or(face.finishing.as_ref().map(|finishing| &finishing.session));
        if let Some(session) = session.map(|session| session.ours).filter(|_| notice.len() <= NOTICE_BYTES_MAX) {
            self.send_control(id, id, session, Control::Notice(notice));
        }
    }
    pub(crate) fn has_notices(&self) -> bool {
        !self.notices.is_empty()
    }
    /// The next notice of a neighbour.
    pub(crate) fn poll_notice(&mut self) -> Option<(FaceId, Vec<u8>)> {
        self.notices.pop_front()
    }
    /// Ends the session of a neighbour whose admission ended.
    pub(crate) fn dismiss(&mut self, now: Time, id: FaceId, reason: &str) {
        let session = self.faces.get(&id).and_then(|face| face.current.as_ref()).map(|session| session.ours);
        if let Some(session) = session {
            self.send_control(id, id, session, Control::Refuse(reason));
        }
        self.forget_sessions(id);
        self.part(id);
        self.refuse(now, id, reason.into());
    }
    /// Forgets the neighbour on a face.
    fn part(&mut self, id: FaceId) {
        if self.faces.get_mut(&id).and_then(|face| face.peer.take()).is_some() {
            self.peers.push_back((id, None));
        }
    }
    /// The next face whose neighbour has changed.
    pub(crate) fn poll_peer(&mut self) -> Option<(FaceId, Option<Peer>)> {
        self.peers.pop_front()
    }
    pub(crate) fn forget(&mut self, id: FaceId) {
        self.part(id);
        let Some(face) = self.faces.remove(&id) else { return };
        if let Some(due) = face.due {
            self.due.remove(&(due, id));
        }
        face.indices().for_each(|index| self.disown(index));
    }

    // What arrives.

    /// Decides about a packet from an address without a face; nothing is kept of the address before it returns a cookie.
    pub(crate) fn on_stranger(&mut self, now: Time, from: SocketAddr, packet: &[u8]) -> Stranger {
        let holder = Holder::Address(from);
        self.has_proven = false;
        match Packet::decode(packet) {
            Some(Packet::Initiation { from: index, cookie, .. }) => {
                self.has_proven = cookie.is_some_and(|cookie| self.cookies.is_valid(now, holder, &cookie));
                if self.has_proven {
                    return Stranger::Admitted;
                }
                self.stats.cookies += 1;
                let cookie = self.cookies.make(now, holder);
                Stranger::Answered(Packet::Cookie { to: index, cookie }.encode())
            }
            // A neighbour may have another address.
            Some(Packet::Protected { to, .. }) if self.owners.contains_key(&to) => Stranger::Admitted,
            // Its session is of before this node was started again.
            Some(Packet::Protected { to, .. }) if self.hints.take(now, HANDSHAKE_BURST, HANDSHAKES_PER_SECOND) => {
                self.stats.strays += 1;
                Stranger::Answered(Packet::Unknown { index: to }.encode())
            }
            _ if self.config.policy != FaceProtection::Required && !is_secure(packet) => Stranger::Admitted,
            _ => {
                self.stats.unprotected += 1;
                Stranger::Dropped
            }
        }
    }

    /// Processes a packet from the end of `id`. Its payload for the node is appended to `plain`; returns its sender.
    pub(crate) fn receive(&mut self, now: Time, id: FaceId, packet: &[u8], plain: &mut BytesMut) -> Option<FaceId> {
        let policy = self.policy(id);
        let is_open = matches!(policy, FaceProtection::Optional | FaceProtection::Preferred);
        // A packet without a session cannot speak for a neighbour that uses one.
        let has_session =
            || policy == FaceProtection::Optional && self.faces.get(&id).is_some_and(|face| face.current.is_some());
        if policy == FaceProtection::Off || is_open && !is_secure(packet) && !has_session() {
            plain.extend_from_slice(packet);
            return Some(id);
        }
        match Packet::decode(packet) {
            Some(Packet::Protected { to, kind }) => return self.on_protected(now, id, to, kind, packet, plain),
            Some(Packet::Initiation { from, cookie, noise }) => self.on_initiation(now, id, from, cookie, noise),
            Some(Packet::Cookie { to, cookie }) => self.on_cookie(now, id, to, cookie),
            Some(Packet::Response { to, from, noise }) => self.on_response(now, id, to, from, noise),
            Some(Packet::Finish { to, noise }) => self.on_finish(now, id, to, noise),
            Some(Packet::Unknown { index }) => self.on_unknown(now, id, index),
            None => {
                self.stats.unprotected += 1;
                self.drop_packet(id, "not protected", packet.len());
                if self.faces.contains_key(&id) {
                    self.note(now, id, Trouble::Unprotected);
                }
            }
        }
        None
    }
    fn on_protected(
        &mut self,
        now: Time,
        id: FaceId,
        to: SessionIndex,
        kind: Kind,
        packet: &[u8],
        plain: &mut BytesMut,
    ) -> Option<FaceId> {
        let owner = self.owners.get(&to).copied();
        let Some((owner, face)) = owner.and_then(|owner| Some((owner, self.faces.get_mut(&owner)?))) else {
            self.on_stray(now, id, to, packet.len());
            return None;
        };
        let Some(session) = face.session(to) else {
            // A handshake that is not finished.
            return None;
        };
        if session.has_ended(now) {
            self.drop_packet(id, "under keys that have ended", packet.len());
            self.expire(now, owner);
            return None;
        }
        let before = plain.len();
        if kind != Kind::Control && kind != session.kind() {
            self.stats.forged += 1;
            return None;
        }
        let opened = match session.open(kind, packet, plain) {
            Ok(opened) => opened,
            Err(refused) => {
                let reason = match refused {
                    Refused::Forged => {
                        self.stats.forged += 1;
                        "forged"
                    }
                    Refused::Replayed => {
                        self.stats.replayed += 1;
                        "replayed"
                    }
                };
                self.drop_packet(id, reason, packet.len());
                return None;
            }
        };
        face.heard = Some(now);
        if face.policy == FaceProtection::Preferred {
            // An attacker who drops later handshakes must not get its packets in the clear. Until now answers to packets
            // that left before the handshake may have been on their way.
            face.policy = FaceProtection::Required;
        }
        // The neighbour answers, so that failed handshakes of others do not matter.
        face.trouble = None;
        if face.finishing.as_ref().is_some_and(|finishing| finishing.session.ours == to) {
            self.confirm(owner);
        }
        if owner != id && opened.is_latest {
            self.challenge(now, owner, id);
        }
        if kind == Kind::Control {
            let control = plain.split_off(before);
            self.on_control(now, owner, id, to, &control);
            return None;
        }
        Some(owner)
    }
    /// A packet of a session that is unknown: of before this node was started again.
    fn on_stray(&mut self, now: Time, id: FaceId, to: SessionIndex, bytes: usize) {
        self.stats.strays += 1;
        self.drop_packet(id, "of an unknown session", bytes);
        let face = self.face(id);
        if face.hinted.is_none_or(|hinted| now.since(hinted) >= HINT_INTERVAL) {
            face.hinted = Some(now);
            self.send(id, &Packet::Unknown { index: to });
        }
    }
    fn on_unknown(&mut self, now: Time, id: FaceId, index: SessionIndex) {
        let Some(face) = self.faces.get_mut(&id) else { return };
        let Some(current) = face.current.as_mut().filter(|session| session.theirs == index) else { return };
        // The neighbour was started again: its next session is no simultaneous one, however soon it comes.
        current.leads = false;
        if face.previous.as_ref().is_some_and(|second| second.since > current.since) {
            core::mem::swap(&mut face.current, &mut face.previous);
        } else if face.may_initiate(now) {
            face.not_before = now + HINTED_INTERVAL;
            self.initiate(now, id);
        }
    }
    fn on_control(&mut self, now: Time, owner: FaceId, arrived: FaceId, session: SessionIndex, bytes: &[u8]) {
        match Control::decode(bytes) {
            Some(Control::Confirm) | None => {}
            Some(Control::Refuse(reason)) => {
                self.stats.refused += 1;
                self.forget_sessions(owner);
                self.part(owner);
                if let Some(face) = self.faces.get_mut(&owner) {
                    face.not_before = now + REFUSED_FOR;
                }
                self.note(now, owner, Trouble::Refuses(escape(reason).into()));
            }
            Some(Control::Notice(bytes)) => {
                // The notice waits until the neighbour is introduced; the neighbour repeats it.
                if self.faces.get(&owner).is_some_and(|face| face.peer.is_some()) && self.notices.len() < NOTICES_MAX {
                    self.notices.push_back((owner, bytes.into()));
                }
            }
            Some(Control::Challenge(bytes)) => {
                // Along the path of the question, so that it proves that path.
                self.send_control(owner, arrived, session, Control::Answer(bytes));
            }
            Some(Control::Answer(bytes)) => {
                let Some(face) = self.faces.get_mut(&owner) else { return };
                let is_right = |challenge: &mut Challenge| {
                    challenge.bytes == bytes
                        && challenge.at == arrived
                        && now.since(challenge.since) <= CHALLENGE_PATIENCE
                };
                if face.challenge.take_if(is_right).is_some() {
                    self.stats.moves += 1;
                    self.moves.push_back((owner, arrived));
                }
            }
        }
    }
    /// Asks a neighbour whose authentic packet arrived over another face whether it has moved there.
    fn challenge(&mut self, now: Time, owner: FaceId, at: FaceId) {
        let Some(face) = self.faces.get_mut(&owner) else { return };
        let is_pending = |challenge: &Challenge| challenge.at == at && now.since(challenge.since) < CHALLENGE_INTERVAL;
        if face.challenge.as_ref().is_some_and(is_pending) {
            return;
        }
        let mut bytes = [0; CHALLENGE_BYTES];
        (self.entropy)(&mut bytes);
        face.challenge = Some(Challenge { bytes, at, since: now });
        let Some(session) = face.current.as_ref().map(|session| session.ours) else { return };
        self.send_control(owner, at, session, Control::Challenge(bytes));
    }

    // What leaves.

    /// Protects the node's packets for a face; packets that must wait for a session are taken out.
    pub(crate) fn seal(&mut self, now: Time, id: FaceId, batch: &mut TransmitBuf, buffer: &mut BytesMut) {
        let policy = self.policy(id);
        self.expire(now, id);
        let has_session = self.faces.get(&id).is_some_and(|face| face.current.is_some() || face.finishing.is_some());
        match policy {
            FaceProtection::Off => return,
            _ if has_session => {}
            FaceProtection::Optional => return,
            FaceProtection::Preferred => return self.want(now, id),
            FaceProtection::Required => {
                batch.take_each(|head, body| self.wait(id, [head, &body].concat()));
                return self.want(now, id);
            }
        }
        self.want_new_keys(now, id);
        let Some(session) = self.faces.get_mut(&id).and_then(Face::sending) else { return };
        let kind = session.kind();
        let mut ends = Vec::with_capacity(batch.len());
        batch.take_each(|head, body| {
            if session.can_send() {
                session.seal(kind, head, &body, buffer);
                ends.push(buffer.len());
            }
        });
        let bytes = buffer.split().freeze();
        let mut start = 0;
        for end in ends {
            batch.push(&[], bytes.slice(start..end));
            start = end;
        }
    }
    fn wait(&mut self, id: FaceId, packet: Vec<u8>) {
        let face = self.face(id);
        if face.waiting.len() < WAITING_MAX {
            return face.waiting.push_back(packet);
        }
        self.stats.waited_in_vain += 1;
    }
    /// The node has something to send, and no session to send it under.
    fn want(&mut self, now: Time, id: FaceId) {
        let face = self.face(id);
        match &mut face.initiating {
            Some(initiating) => initiating.retry.is_wanted = true,
            None if now >= face.not_before => self.initiate(now, id),
            None => {}
        }
    }
    /// Ends the sessions of a face if the keys in use have ended.
    fn expire(&mut self, now: Time, id: FaceId) {
        let Some(face) = self.faces.get(&id) else { return };
        if !face.current.as_ref().is_some_and(|session| session.has_ended(now)) {
            return;
        }
        let was_tried = face.initiating.is_some() || !face.responding.is_empty();
        self.end_sessions(id);
        if was_tried {
            // Each session ends once, so that this line needs no limit.
            self.face(id).noted = None;
            self.note(now, id, Trouble::Ended);
        }
    }
    fn want_new_keys(&mut self, now: Time, id: FaceId) {
        let Some(face) = self.faces.get_mut(&id) else { return };
        let Some(session) = &face.current else { return };
        let patience = if session.we_began { REKEY_AFTER } else { REKEY_AFTER_BY_OTHER };
        let is_due = now.since(session.since) >= patience || session.is_worn();
        if is_due && face.may_initiate(now) {
            self.initiate(now, id);
        }
    }
    /// Sends the packets that waited for a session.
    fn flush(&mut self, id: FaceId) {
        let Some(face) = self.faces.get_mut(&id) else { return };
        let waiting = core::mem::take(&mut face.waiting);
        let Some(session) = face.sending() else { return };
        let kind = session.kind();
        for packet in waiting {
            let mut sealed = BytesMut::new();
            session.seal(kind, &[], &packet, &mut sealed);
            self.out.push_back((id, sealed.to_vec()));
        }
    }
    fn send(&mut self, id: FaceId, packet: &Packet<'_>) {
        self.out.push_back((id, packet.encode()));
    }
    fn send_control(&mut self, owner: FaceId, over: FaceId, ours: SessionIndex, control: Control<'_>) {
        let Some(face) = self.faces.get_mut(&owner) else { return };
        let Some(session) = face.session(ours).filter(|session| session.can_send()) else { return };
        let mut sealed = BytesMut::new();
        session.seal(Kind::Control, &control.encode(), &[], &mut sealed);
        self.out.push_back((over, sealed.to_vec()));
    }
    /// The next packet of the layer's own.
    pub(crate) fn poll_transmit(&mut self) -> Option<(FaceId, Vec<u8>)> {
        self.out.pop_front()
    }
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
    /// The next face that has moved to the address of another one.
    pub(crate) fn poll_move(&mut self) -> Option<(FaceId, FaceId)> {
        self.moves.pop_front()
    }

    // Time.

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| *due)
    }
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        while let Some((due, id)) = self.due.first().copied().filter(|(due, _)| *due <= now) {
            self.due.remove(&(due, id));
            let Some(face) = self.faces.get_mut(&id) else { continue };
            face.due = None;
            self.repeat_initiation(now, id);
            self.repeat_finish(now, id);
            self.schedule(id);
        }
    }
    fn repeat_initiation(&mut self, now: Time, id: FaceId) {
        let Some(face) = self.faces.get_mut(&id) else { return };
        let Some(initiating) = face.initiating.as_mut().filter(|initiating| initiating.retry.due <= now) else {
            return;
        };
        let attempts = initiating.retry.attempts;
        // With nothing to send there is no hurry: the node starts again when it has something.
        let is_wanted = initiating.retry.is_wanted || !face.waiting.is_empty() || attempts < ATTEMPTS_NOTED;
        let is_hopeless = face.policy == FaceProtection::Preferred && attempts >= ATTEMPTS_NOTED;
        if !is_wanted || is_hopeless {
            let index = initiating.index;
            face.initiating = None;
            if is_hopeless {
                face.not_before = now + PREFERRED_AGAIN;
            }
            self.disown(index);
            return;
        }
        face.waiting.clear();
        // The far end may have restarted and may no longer know the cookie.
        let cookie = initiating.cookie.filter(|_| initiating.retry.attempts % 3 != 0);
        (initiating.cookie, initiating.cookies) = (cookie, 0);
        initiating.retry.again(now);
        let (index, first, attempts) = (initiating.index, initiating.first.clone(), initiating.retry.attempts);
        self.send(id, &Packet::Initiation { from: index, cookie, noise: &first });
        if attempts >= ATTEMPTS_NOTED {
            self.note(now, id, Trouble::Silent);
        }
    }
    fn repeat_finish(&mut self, now: Time, id: FaceId) {
        let Some(face) = self.faces.get_mut(&id) else { return };
        let Some(finishing) = face.finishing.as_mut().filter(|finishing| finishing.retry.due <= now) else { return };
        if finishing.retry.attempts >= FINISH_ATTEMPTS_MAX {
            let index = finishing.session.ours;
            face.finishing = None;
            self.disown(index);
            return;
        }
        finishing.retry.again(now);
        let finish = finishing.finish.clone();
        self.out.push_back((id, finish));
    }
    fn schedule(&mut self, id: FaceId) {
        let Some(face) = self.faces.get_mut(&id) else { return };
        let initiating = face.initiating.as_ref().map(|initiating| initiating.retry.due);
        let finishing = face.finishing.as_ref().map(|finishing| finishing.retry.due);
        let due = initiating.into_iter().chain(finishing).min();
        if due != face.due {
            if let Some(before) = face.due {
                self.due.remove(&(before, id));
            }
            face.due = due;
            self.due.extend(due.map(|due| (due, id)));
        }
    }

    // Pieces.

    fn face(&mut self, id: FaceId) -> &mut Face {
        if self.faces.len() >= FACES_MAX && !self.faces.contains_key(&id) {
            // A face without a session is evicted.
            let idle = self.faces.iter().find(|(_, face)| face.current.is_none()).map(|(id, _)| *id);
            idle.into_iter().for_each(|idle| self.forget(idle));
        }
        let policy = self.config.policy;
        self.faces.entry(id).or_insert_with(|| Face { policy, ..Face::default() })
    }
    fn initiating(&mut self, id: FaceId, index: SessionIndex) -> Option<&mut Initiating> {
        self.faces.get_mut(&id)?.initiating.as_mut().filter(|initiating| initiating.index == index)
    }
    /// Ends the sessions and handshakes of a face.
    fn forget_sessions(&mut self, id: FaceId) {
        self.end_sessions(id);
        let Some(face) = self.faces.get_mut(&id) else { return };
        let gone: Vec<SessionIndex> = face.indices().collect();
        face.initiating = None;
        face.responding.clear();
        gone.into_iter().for_each(|index| self.disown(index));
        self.schedule(id);
    }
    fn end_sessions(&mut self, id: FaceId) {
        let Some(face) = self.faces.get_mut(&id) else { return };
        let finishing = face.finishing.take().map(|finishing| finishing.session);
        let gone = [face.current.take(), face.previous.take(), finishing].into_iter().flatten();
        gone.for_each(|session| self.disown(session.ours));
    }
    /// A number that no session or handshake of this node has.
    fn new_index(&mut self, id: FaceId) -> SessionIndex {
        loop {
            let mut bits = [0; 4];
            (self.entropy)(&mut bits);
            let index = SessionIndex::new(u32::from_be_bytes(bits));
            if let hashbrown::hash_map::Entry::Vacant(vacant) = self.owners.entry(index) {
                vacant.insert(id);
                return index;
            }
        }
    }
    fn disown(&mut self, index: SessionIndex) {
        self.owners.remove(&index);
    }
    fn draw(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        (self.entropy)(&mut bytes);
        bytes
    }
    fn drop_packet(&mut self, face: FaceId, reason: &'static str, bytes: usize) {
        self.events.push_back(Event::Dropped { face, reason, bytes: bytes as u32 });
    }
    /// Remembers why nothing passes over a face, and logs it at most once per [`NOTE_INTERVAL`].
    fn note(&mut self, now: Time, id: FaceId, trouble: Trouble) {
        let face = self.face(id);
        let note = face.noted.is_none_or(|noted| now.since(noted) >= NOTE_INTERVAL).then(|| trouble.describe(id));
        face.trouble = Some(trouble);
        if let Some(note) = note {
            face.noted = Some(now);
            self.events.push_back(Event::Note(note));
        }
    }
}

impl Face {
    fn is_refused(&self) -> bool {
        matches!(self.trouble, Some(Trouble::Refused(_) | Trouble::Refuses(_)))
    }
    /// The session that this node identifies by `ours`.
    fn session(&mut self, ours: SessionIndex) -> Option<&mut Session> {
        let sessions = [&mut self.current, &mut self.previous].into_iter().flatten();
        let finishing = self.finishing.iter_mut().map(|finishing| &mut finishing.session);
        sessions.chain(finishing).find(|session| session.ours == ours)
    }
    /// Whether a handshake of `key` would replace the sessions of another key, and whether that key is still active.
    fn is_of_another(&self, key: Option<[u8; 32]>) -> bool {
        self.key.is_some() && self.key != key && (self.current.is_some() || self.finishing.is_some())
    }
    fn is_heard(&self, now: Time) -> bool {
        self.heard.is_some_and(|heard| now.since(heard) < HELD_FOR)
    }
    fn may_initiate(&self, now: Time) -> bool {
        self.initiating.is_none() && self.finishing.is_none() && now >= self.not_before
    }
    /// The session that packets leave under: a new one of ours only if there is no other, since it is not confirmed.
    fn sending(&mut self) -> Option<&mut Session> {
        match &mut self.current {
            Some(session) => Some(session),
            None => self.finishing.as_mut().map(|finishing| &mut finishing.session),
        }
    }
    fn indices(&self) -> impl Iterator<Item = SessionIndex> {
        let sessions = self.current.iter().chain(&self.previous).map(|session| session.ours);
        let finishing = self.finishing.iter().map(|finishing| finishing.session.ours);
        let initiating = self.initiating.iter().map(|initiating| initiating.index);
        let responding = self.responding.iter().map(|responding| responding.index);
        sessions.chain(finishing).chain(initiating).chain(responding)
    }
}
