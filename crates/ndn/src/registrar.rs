//! Registers the prefixes of local publications with neighbours, by NFD's management protocol, so that Interests reach
//! this node.
//!
//! ```text
//!  publish ─► Interest /localhost/nfd/rib/register/PARAMETERS/DIGEST ─► neighbour ─► Data 200 OK ─► confirmed
//!                       └ /localhop/nfd/… where the neighbour is another machine; expires, and is renewed
//! ```
//! If many names share a prefix, that prefix is registered (`aggregation`). An Interest below it for an unpublished name is
//! returned as a Nack without a route, so that forwarders try other producers. Some foreign forwarders ignore Nacks:
//! prefixes replace names only if all neighbours are forwarders of ours, as their answers to probes show.
//!
//! The same commands tell a routing daemon of this machine, such as NLSR, which routes of applications to advertise (NFD's
//! `readvertise_nlsr`).
//!
//! A restarted neighbour has forgotten all of them. One behind a stream closes it; one behind datagrams is probed each
//! second for its boot number (LP header 0x039c), and when that changes all are registered again. Other forwarders
//! ignore the probe.
mod aggregation;

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    string::{String, ToString},
    vec::Vec,
};

use bytes::Bytes;
use tributary_content::Name;
use tributary_core::{Duration, FaceId, Random, Time};

use self::aggregation::{Change, Cover};
use crate::{
    config::{Registrar, RegistrationScope},
    ids::Nonce,
    router::{LocalPacket, rib::CHILD_INHERIT},
    wire::{
        ControlParameters, ControlResponse, Data, Interest, KeyLocator, LpPacket, NameView, SignKey, SignatureInfo,
        VerifyKey, interest::with_parameters,
    },
};

/// How long a neighbour may take to answer before the request is repeated.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a route at another machine lives without renewal, and when it is renewed.
const REMOTE_LIFETIME: Duration = Duration::from_secs(60);
const RENEWAL: Duration = Duration::from_secs(20);
/// How often a neighbour is probed for a restart.
const BOOT_PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum unanswered requests to a neighbour; further ones wait for their turn.
const IN_FLIGHT_MAX: usize = 64;
/// The code of an answer: this node may not register that.
const FORBIDDEN: u64 = 403;
/// How often a withdrawal is sent to a neighbour that does not answer.
const WITHDRAWALS_MAX: u32 = 10;
/// Unanswered probes after which a neighbour counts as one without support for them; further ones go with renewals
/// only.
const BOOT_PROBE_TRIES: u32 = 3;

/// What became of a published name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Registered {
    /// A neighbour has a route to it.
    Confirmed(Name),
    /// It refused, and why.
    Refused(Name, String),
}

tributary_core::declared! {
    /// The registrations of a node.
    pub(crate) struct Registrations {
        /// The program that takes the commands, as their second component.
        program: &'static [u8] = program,
        /// Signs the commands.
        key: SignKey = key,
        /// The certificate of the key, if it has one.
        certificate: Option<Name> = certificate,
        epoch: Duration = epoch,
        /// When the last command was signed, in milliseconds: no two have the same time, so that a neighbour can order
        /// them.
        signed_at: u64 = 0,
        cover: Cover = Cover::default(),
        pub(crate) neighbours: BTreeMap<FaceId, Neighbour> = registrars.into_iter().map(neighbour).collect(),
        /// Commands by their names, for the answers.
        requested: BTreeMap<Bytes, (Name, FaceId)> = BTreeMap::new(),
        /// Published names to which no neighbour has confirmed a route.
        unconfirmed: BTreeSet<Name> = BTreeSet::new(),
        outcomes: VecDeque<Registered> = VecDeque::new(),
    }
    pub(crate) fn new(
        program: &'static [u8],
        registrars: Vec<Registrar>,
        signer: (SignKey, Option<Name>),
        epoch: Duration
    ) {
        let (key, certificate) = signer;
        let neighbour = |registrar: Registrar| (registrar.face, Neighbour::new(registrar.scope));
    }
}

/// A neighbour, and the prefixes registered there.
#[derive(Default)]
pub(crate) struct Neighbour {
    scope: RegistrationScope,
    registered: BTreeMap<Name, State>,
    /// Prefixes with a due request, in their order.
    queue: VecDeque<Name>,
    /// When those that are not in the queue are due.
    timers: BTreeSet<(Time, Name)>,
    in_flight: usize,
    is_up: bool,
    boot: Boot,
}

/// A prefix at a neighbour.
struct State {
    phase: Phase,
    is_confirmed: bool,
    /// It is being withdrawn: the number of requests so far, and the final deadline.
    withdrawn: Option<(u32, Time)>,
}
enum Phase {
    /// In the queue.
    Due,
    /// Asked for by this command; repeated at that time.
    InFlight(Bytes, Time),
    /// Answered; renewed at that time.
    Idle(Option<Time>),
}

/// The boot number of a neighbour.
#[derive(Default)]
struct Boot {
    /// When the next probe is due.
    request_at: Time,
    /// The number of the last question; `None` when it is answered.
    requested: Option<u32>,
    /// Questions without an answer, in a row.
    unanswered: u32,
    number: Option<u64>,
}

impl Neighbour {
    fn new(scope: RegistrationScope) -> Self {
        Neighbour { scope, ..Neighbour::default() }
    }
    /// Enters a prefix into a phase; returns the command that no longer waits for an answer.
    fn enter(&mut self, prefix: &Name, phase: Phase) -> Option<Bytes> {
        let state = self.registered.get_mut(prefix)?;
        if matches!((&state.phase, &phase), (Phase::Due, Phase::Due)) {
            return None;
        }
        let before = core::mem::replace(&mut state.phase, Phase::Due);
        // A neighbour that does not answer may have forgotten it.
        state.is_confirmed &= !matches!((&before, &phase), (Phase::InFlight(..), Phase::Due));
        let command = self.leave(prefix, before);
        match &phase {
            Phase::Due => self.queue.push_back(prefix.clone()),
            Phase::InFlight(_, until) => {
                self.in_flight += 1;
                self.timers.insert((*until, prefix.clone()));
            }
            Phase::Idle(renewal) => self.timers.extend(renewal.map(|at| (at, prefix.clone()))),
        }
        self.registered.get_mut(prefix)?.phase = phase;
        command
    }
    fn leave(&mut self, prefix: &Name, before: Phase) -> Option<Bytes> {
        match before {
            Phase::InFlight(command, until) => {
                self.in_flight -= 1;
                self.timers.remove(&(until, prefix.clone()));
                Some(command)
            }
            Phase::Idle(renewal) => {
                renewal.map(|at| self.timers.remove(&(at, prefix.clone())));
                None
            }
            // It is in the queue once, and the queue skips prefixes that are no longer due.
            Phase::Due => None,
        }
    }
    fn register(&mut self, prefix: &Name) -> Option<Bytes> {
        let new = || State { phase: Phase::Idle(None), is_confirmed: false, withdrawn: None };
        let state = self.registered.entry(prefix.clone()).or_insert_with(new);
        (state.is_confirmed, state.withdrawn) = (false, None);
        self.enter(prefix, Phase::Due)
    }
    fn withdraw(&mut self, prefix: &Name, until: Time) -> Option<Bytes> {
        if !self.is_up {
            // Its stream has ended, and its routes with it; over datagrams they expire.
            return self.forget(prefix);
        }
        let state = self.registered.get_mut(prefix).filter(|state| state.withdrawn.is_none())?;
        state.withdrawn = Some((0, until));
        self.enter(prefix, Phase::Due)
    }
    fn forget(&mut self, prefix: &Name) -> Option<Bytes> {
        let state = self.registered.remove(prefix)?;
        if self.queue.len() > 2 * self.registered.len() + IN_FLIGHT_MAX {
            let mut kept = BTreeSet::new();
            let registered = &self.registered;
            let is_due = |of: &Name| registered.get(of).is_some_and(|state| matches!(state.phase, Phase::Due));
            self.queue.retain(|of| is_due(of) && kept.insert(of.clone()));
        }
        self.leave(prefix, state.phase)
    }
    /// All prefixes are registered again.
    fn start_anew(&mut self) -> Vec<Bytes> {
        self.registered.values_mut().for_each(|state| state.is_confirmed = false);
        let all: Vec<Name> = self.registered.keys().cloned().collect();
        all.iter().filter_map(|prefix| self.enter(prefix, Phase::Due)).collect()
    }
    /// The next prefix for which a request may be sent.
    fn next_due(&mut self, now: Time) -> Option<Name> {
        while self.in_flight < IN_FLIGHT_MAX {
            let prefix = self.queue.pop_front()?;
            let Some(state) = self.registered.get(&prefix).filter(|state| matches!(state.phase, Phase::Due)) else {
                continue;
            };
            let is_over = |(requests, until)| requests >= WITHDRAWALS_MAX || until <= now;
            if state.withdrawn.is_some_and(is_over) {
                self.forget(&prefix);
                continue;
            }
            return Some(prefix);
        }
        None
    }
    /// The prefixes below `prefix` that the cover does not want.
    fn outdated_below(&self, prefix: &Name, cover: &Cover) -> Vec<Name> {
        let below = self.registered.range(prefix.clone()..).take_while(|(of, _)| prefix.is_prefix_of(of));
        below.map(|(of, _)| of).filter(|of| !cover.includes(of)).cloned().collect()
    }
}

impl Boot {
    fn knows_questions(&self) -> bool {
        self.number.is_some() || self.unanswered < BOOT_PROBE_TRIES
    }
}

/// A command to send by a face of this node.
pub(crate) struct Command {
    pub(crate) interest: Bytes,
    pub(crate) face: FaceId,
}

impl Command {
    pub(crate) fn headers(&self) -> LpPacket<'static> {
        LpPacket { next_hop_face: Some(u64::from(self.face.0)), ..LpPacket::default() }
    }
}

impl Registrations {
    /// Registers at the local program behind `face` only, and starts without names; `None` for no program.
    pub(crate) fn move_to(&mut self, face: Option<FaceId>) {
        (self.cover, self.requested, self.unconfirmed) = Default::default();
        let neighbour = |face| (face, Neighbour { is_up: true, ..Neighbour::new(RegistrationScope::Localhost) });
        self.neighbours = face.map(neighbour).into_iter().collect();
    }
    /// Registers with one more neighbour, which is another machine.
    pub(crate) fn join(&mut self, face: FaceId) {
        let mut neighbour = Neighbour::new(RegistrationScope::Localhop);
        self.cover.prefixes().for_each(|prefix| _ = neighbour.register(prefix));
        self.neighbours.insert(face, neighbour);
    }
    /// Registers no longer with a neighbour that is gone.
    pub(crate) fn leave(&mut self, face: FaceId) {
        self.neighbours.remove(&face);
        self.requested.retain(|_, (_, of)| *of != face);
    }
    /// The key that verifies its commands.
    pub(crate) fn key(&self) -> VerifyKey {
        self.key.verify_key()
    }
    /// Whether there is any neighbour to register with.
    pub(crate) fn is_used(&self) -> bool {
        !self.neighbours.is_empty()
    }
    /// What became of a published name.
    pub(crate) fn poll_outcome(&mut self) -> Option<Registered> {
        self.outcomes.pop_front()
    }
    /// Registers a published name everywhere.
    pub(crate) fn add(&mut self, now: Time, name: &Name) {
        if !self.is_used() {
            return;
        }
        let changes = self.cover.add(name);
        self.unconfirmed.insert(name.clone());
        self.apply(now, changes);
        let Some(prefix) = self.cover.prefix_of(name) else { return };
        let is_confirmed =
            |neighbour: &Neighbour| neighbour.registered.get(&prefix).is_some_and(|state| state.is_confirmed);
        if self.neighbours.values().any(is_confirmed) {
            self.confirm(&prefix);
        }
    }
    /// Withdraws a name everywhere; the requests are repeated until the neighbours answer.
    pub(crate) fn remove(&mut self, now: Time, name: &Name) {
        self.unconfirmed.remove(name);
        let changes = self.cover.remove(name);
        self.apply(now, changes);
    }
    fn apply(&mut self, now: Time, changes: Vec<Change>) {
        for change in changes {
            for neighbour in self.neighbours.values_mut() {
                let outdated = match &change {
                    Change::Register(prefix) => Vec::from_iter(neighbour.register(prefix)),
                    Change::Withdraw(prefix) => {
                        let outdated = neighbour.outdated_below(prefix, &self.cover);
                        outdated.iter().filter_map(|of| neighbour.withdraw(of, now + REMOTE_LIFETIME)).collect()
                    }
                };
                outdated.iter().for_each(|command| _ = self.requested.remove(command));
            }
        }
    }
    /// Registers again with a returning neighbour.
    pub(crate) fn on_face_up(&mut self, now: Time, face: FaceId) {
        if let Some(neighbour) = self.neighbours.get_mut(&face) {
            neighbour.is_up = true;
            neighbour.boot.request_at = now;
            neighbour.start_anew().iter().for_each(|command| _ = self.requested.remove(command));
        }
    }
    /// A neighbour is away.
    pub(crate) fn on_face_down(&mut self, face: FaceId) {
        let Some(neighbour) = self.neighbours.get_mut(&face) else { return };
        neighbour.is_up = false;
        neighbour.registered.values_mut().for_each(|state| state.is_confirmed = false);
        let withdrawn = neighbour.registered.iter().filter(|(_, state)| state.withdrawn.is_some());
        for prefix in withdrawn.map(|(prefix, _)| prefix.clone()).collect::<Vec<_>>() {
            neighbour.forget(&prefix).map(|command| self.requested.remove(&command));
        }
    }
    /// The next neighbour to probe for a restart, and the number of the probe; only faces that `takes_part` accepts are
    /// probed.
    pub(crate) fn poll_boot_probe(
        &mut self,
        now: Time,
        random: &mut Random,
        takes_part: impl Fn(FaceId) -> bool,
    ) -> Option<(FaceId, u32)> {
        for (face, neighbour) in &mut self.neighbours {
            let boot = &mut neighbour.boot;
            if boot.request_at > now || neighbour.registered.is_empty() {
                continue;
            }
            boot.request_at = now + if boot.knows_questions() { BOOT_PROBE_INTERVAL } else { RENEWAL };
            if takes_part(*face) {
                let number = random.bits() as u32;
                boot.requested = Some(number);
                boot.unanswered += 1;
                return Some((*face, number));
            }
        }
        None
    }
    /// Takes a neighbour's boot number; after a restart everything is registered again.
    pub(crate) fn on_boot(&mut self, now: Time, face: FaceId, number: u32, boot: u64) {
        let Some(neighbour) = self.neighbours.get_mut(&face) else { return };
        // Over a stream it is probed once, with number zero.
        let is_stream = number == 0 && neighbour.boot.unanswered == 0 && neighbour.boot.requested.is_none();
        if !is_stream && neighbour.boot.requested != Some(number) {
            return;
        }
        (neighbour.boot.requested, neighbour.boot.unanswered) = (None, 0);
        if neighbour.boot.number.replace(boot).is_some_and(|before| before != boot) {
            neighbour.start_anew().iter().for_each(|command| _ = self.requested.remove(command));
        }
        if self.neighbours.values().all(|neighbour| neighbour.boot.number.is_some()) {
            let changes = self.cover.allow_common();
            self.apply(now, changes);
        }
    }
    /// The next command to send at a neighbour that is `up`.
    pub(crate) fn poll(&mut self, now: Time, random: &mut Random, up: impl Fn(FaceId) -> bool) -> Option<Command> {
        for neighbour in self.neighbours.values_mut() {
            while let Some((_, prefix)) = neighbour.timers.first().filter(|(at, _)| *at <= now).cloned() {
                neighbour.enter(&prefix, Phase::Due).map(|command| self.requested.remove(&command));
            }
        }
        // Requests to absent neighbours wait for them.
        let due = self.neighbours.iter_mut().filter(|(face, _)| up(**face));
        let (face, prefix) = due.into_iter().find_map(|(face, of)| of.next_due(now).map(|prefix| (*face, prefix)))?;
        let state = self.neighbours.get_mut(&face)?.registered.get_mut(&prefix)?;
        let verb: &[u8] = match &mut state.withdrawn {
            Some((requests, _)) => {
                *requests += 1;
                b"unregister"
            }
            None => b"register",
        };
        let command = self.command(now, &prefix, face, verb, random)?;
        let name = Bytes::from(Interest::decode(&command.interest).ok()?.name.as_tlv().to_vec());
        self.neighbours.get_mut(&face)?.enter(&prefix, Phase::InFlight(name.clone(), now + PATIENCE));
        self.requested.insert(name, (prefix, face));
        Some(command)
    }
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let timers = self.neighbours.values().filter_map(|neighbour| neighbour.timers.first().map(|(at, _)| *at));
        let used = self.neighbours.values().filter(|neighbour| !neighbour.registered.is_empty());
        used.map(|neighbour| neighbour.boot.request_at).chain(timers).min()
    }
    /// Takes an answer, or a returned Interest.
    pub(crate) fn handle_packet(&mut self, now: Time, local: &LocalPacket) {
        let Ok(data) = Data::decode(&local.packet) else { return };
        let Some((prefix, face)) = self.requested.remove(data.name.as_tlv()) else { return };
        let Some(neighbour) = self.neighbours.get_mut(&face) else { return };
        if !neighbour.boot.knows_questions() {
            // It was away, or does not know probes: the next answers decide.
            (neighbour.boot.unanswered, neighbour.boot.request_at) = (0, now);
        }
        let refusal = match data.content.map(ControlResponse::decode) {
            Some(Ok(response)) if response.code == 200 => None,
            Some(Ok(response)) => Some((response.code, response.text)),
            Some(Err(error)) => Some((0, error.to_string())),
            None => Some((0, "an answer without content".into())),
        };
        let is_retried = neighbour.scope == RegistrationScope::Localhop || refusal.is_some();
        neighbour.enter(&prefix, Phase::Idle(is_retried.then_some(now + RENEWAL)));
        let Some(state) = neighbour.registered.get_mut(&prefix) else { return };
        if state.withdrawn.is_some() {
            neighbour.forget(&prefix);
            return;
        }
        match refusal {
            None => {
                state.is_confirmed = true;
                // It makes the registrations below it superfluous. A name that came under a prefix in between stays
                // until that is confirmed.
                let outdated = if self.cover.includes(&prefix) {
                    neighbour.outdated_below(&prefix, &self.cover)
                } else {
                    Vec::new()
                };
                for of in outdated {
                    neighbour.withdraw(&of, now + REMOTE_LIFETIME).map(|command| self.requested.remove(&command));
                }
                self.confirm(&prefix);
            }
            Some((FORBIDDEN, _)) if self.cover.is_common(&prefix) => {
                let changes = self.cover.refuse(&prefix);
                self.apply(now, changes);
            }
            // A common prefix has replaced it.
            Some(_) if !self.cover.includes(&prefix) => {}
            Some((_, reason)) => {
                let names: Vec<Name> = match self.cover.is_common(&prefix) {
                    true => aggregation::below(&self.unconfirmed, &prefix).cloned().collect(),
                    false => [prefix].into(),
                };
                for name in names {
                    self.unconfirmed.remove(&name);
                    self.outcomes.push_back(Registered::Refused(name, reason.clone()));
                }
            }
        }
    }
    /// A neighbour has this prefix.
    fn confirm(&mut self, prefix: &Name) {
        let names: Vec<Name> = aggregation::below(&self.unconfirmed, prefix).cloned().collect();
        for name in names.into_iter().filter(|name| name == prefix || self.cover.is_common(prefix)) {
            self.unconfirmed.remove(&name);
            self.outcomes.push_back(Registered::Confirmed(name));
        }
    }
    fn command(&mut self, now: Time, name: &Name, face: FaceId, verb: &[u8], random: &mut Random) -> Option<Command> {
        let scope = self.neighbours.get(&face)?.scope;
        let is_register = verb == b"register";
        let parameters = ControlParameters {
            name: Some(name.clone()),
            flags: is_register.then_some(CHILD_INHERIT),
            expiration_millis: (is_register && scope == RegistrationScope::Localhop)
                .then_some(REMOTE_LIFETIME.as_millis() as u64),
            ..ControlParameters::default()
        };
        let door: &[u8] = match scope {
            RegistrationScope::Localhost => b"localhost",
            RegistrationScope::Localhop => b"localhop",
        };
        let parts = [door, self.program, b"rib", verb, &parameters.encode()];
        let base = parts.iter().try_fold(Name::root(), |name, part| name.child(part)).ok()?;
        let nonce = random.bits().to_be_bytes();
        self.signed_at = (self.signed_at + 1).max((self.epoch + now.since(Time::ZERO)).as_millis() as u64);
        let interest = Interest {
            must_be_fresh: true,
            nonce: Some(Nonce::from(random.bits())),
            lifetime_millis: Some(PATIENCE.as_millis() as u64),
            signature: Some(SignatureInfo {
                key_locator: self.certificate.as_ref().map(|name| KeyLocator::Name(NameView::from(name))),
                nonce: Some(&nonce),
                time: Some(self.signed_at),
                ..SignatureInfo::new(self.key.kind())
            }),
            ..Interest::new(NameView::from(&base))
        };
        Some(Command { interest: with_parameters(&interest, Some(&self.key)).into(), face })
    }
}

#[cfg(test)]
mod tests;
