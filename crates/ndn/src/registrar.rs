//! Registers the prefixes of local publications with neighbours, by NFD's management protocol, so that Interests reach
//! this node.
//!
//! ```text
//!  publish ─► Interest /localhost/nfd/rib/register/PARAMETERS/DIGEST ─► neighbour ─► Data 200 OK ─► confirmed
//!                       └ /localhop/nfd/… where the neighbour is another machine; expires, and is renewed
//! ```
//! A neighbour that restarts has forgotten all of them. One behind a stream closes it; one behind datagrams is probed
//! each second for its boot number (LP header 0x039c), and when that changes all are registered again. Other forwarders
//! ignore the probe.
use alloc::{
    collections::BTreeMap,
    string::{String, ToString},
    vec::Vec,
};

use bytes::Bytes;
use tributary_content::Name;
use tributary_core::{Duration, FaceId, Random, Time};

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
/// How often a withdrawal is sent to a neighbour that does not answer.
const WITHDRAWALS_MAX: u32 = 10;
/// Unanswered probes after which a neighbour counts as one that does not know them; further ones go with renewals only.
const BOOT_PROBE_TRIES: u32 = 3;

/// What became of a registration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Registered {
    /// The neighbour has the route.
    Confirmed(Name),
    /// It refused, and why.
    Refused(Name, String),
}

/// The registrations of a node.
pub(crate) struct Registrations {
    registrars: Vec<Registrar>,
    /// Signs the commands.
    key: SignKey,
    /// The certificate of the key, if it has one.
    certificate: Option<Name>,
    epoch: Duration,
    /// When the last command was signed, in milliseconds: no two at the same time, so that a neighbour knows the later one.
    signed_at: u64,
    states: BTreeMap<(Name, FaceId), State>,
    neighbours: BTreeMap<FaceId, Neighbour>,
    /// Commands by their names, for the answers.
    requested: BTreeMap<Bytes, (Name, FaceId)>,
}

struct State {
    due: Time,
    command: Option<Bytes>,
    /// It is being withdrawn: the number of requests so far, and when the next one is due or it is given up.
    withdrawn: Option<(u32, Time)>,
}

/// The boot number of a neighbour.
#[derive(Default)]
struct Neighbour {
    /// When the next probe is due.
    request_at: Time,
    /// The number of the last question; `None` when it is answered.
    requested: Option<u32>,
    /// Questions without an answer, in a row.
    unanswered: u32,
    boot: Option<u64>,
}

impl Neighbour {
    fn knows_questions(&self) -> bool {
        self.boot.is_some() || self.unanswered < BOOT_PROBE_TRIES
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
    pub(crate) fn new(
        registrars: Vec<Registrar>,
        (key, certificate): (SignKey, Option<Name>),
        epoch: Duration,
    ) -> Registrations {
        let neighbours = registrars.iter().map(|registrar| (registrar.face, Neighbour::default())).collect();
        Registrations {
            registrars,
            key,
            certificate,
            epoch,
            signed_at: 0,
            states: BTreeMap::new(),
            neighbours,
            requested: BTreeMap::new(),
        }
    }
    /// The key that verifies its commands.
    pub(crate) fn key(&self) -> VerifyKey {
        self.key.verify_key()
    }
    /// Whether there is any neighbour to register at.
    pub(crate) fn is_used(&self) -> bool {
        !self.registrars.is_empty()
    }
    /// Whether the neighbour at a face is one to register at.
    pub(crate) fn registers_at(&self, face: FaceId) -> bool {
        self.registrars.iter().any(|registrar| registrar.face == face)
    }
    /// Registers a prefix everywhere.
    pub(crate) fn add(&mut self, now: Time, name: &Name) {
        for registrar in &self.registrars {
            let key = (name.clone(), registrar.face);
            if let Some(command) = self.states.get_mut(&key).and_then(|state| state.command.take()) {
                self.requested.remove(&command);
            }
            self.states.insert(key, State { due: now, command: None, withdrawn: None });
        }
    }
    /// Registers again with a neighbour that has come back.
    pub(crate) fn on_face_up(&mut self, now: Time, face: FaceId) {
        self.states.iter_mut().filter(|((_, at), _)| *at == face).for_each(|(_, state)| state.due = now);
        self.neighbours.entry(face).and_modify(|neighbour| neighbour.request_at = now);
    }
    /// The next neighbour to probe for a restart, and the number of the probe; only faces that `takes_part` accepts are
    /// probed.
    pub(crate) fn poll_boot_probe(
        &mut self,
        now: Time,
        random: &mut Random,
        takes_part: impl Fn(FaceId) -> bool,
    ) -> Option<(FaceId, u32)> {
        let states = &self.states;
        let is_used = |face: FaceId| states.keys().any(|(_, at)| *at == face);
        for (face, neighbour) in self.neighbours.iter_mut().filter(|(_, neighbour)| neighbour.request_at <= now) {
            if !is_used(*face) {
                continue;
            }
            neighbour.request_at = now + if neighbour.knows_questions() { BOOT_PROBE_INTERVAL } else { RENEWAL };
            if takes_part(*face) {
                let number = random.bits() as u32;
                neighbour.requested = Some(number);
                neighbour.unanswered += 1;
                return Some((*face, number));
            }
        }
        None
    }
    /// Takes a neighbour's boot number; after a restart everything is registered again.
    pub(crate) fn on_boot(&mut self, now: Time, face: FaceId, number: u32, boot: u64) {
        let Some(neighbour) = self.neighbours.get_mut(&face).filter(|known| known.requested == Some(number)) else {
            return;
        };
        (neighbour.requested, neighbour.unanswered) = (None, 0);
        if neighbour.boot.replace(boot).is_some_and(|before| before != boot) {
            self.states.iter_mut().filter(|((_, at), _)| *at == face).for_each(|(_, state)| state.due = now);
        }
    }
    /// Withdraws a prefix everywhere; the requests are repeated until the neighbours answer.
    pub(crate) fn remove(&mut self, now: Time, name: &Name) {
        for ((_, _), state) in self.states.iter_mut().filter(|((of, _), _)| of == name) {
            if let Some(command) = state.command.take() {
                self.requested.remove(&command);
            }
            (state.due, state.withdrawn) = (now, Some((0, now + REMOTE_LIFETIME)));
        }
    }
    fn forget(&mut self, key: &(Name, FaceId)) {
        if let Some(state) = self.states.remove(key)
            && let Some(command) = state.command
        {
            self.requested.remove(&command);
        }
    }
    /// The next command to send at a neighbour that is `up`.
    pub(crate) fn poll(&mut self, now: Time, random: &mut Random, up: impl Fn(FaceId) -> bool) -> Option<Command> {
        let is_over = |state: &State| {
            state.withdrawn.is_some_and(|(requested, until)| requested >= WITHDRAWALS_MAX || until <= now)
        };
        let over =
            self.states.iter().filter(|(_, state)| state.due <= now && is_over(state)).map(|(key, _)| key.clone());
        for key in over.collect::<Vec<_>>() {
            self.forget(&key);
        }
        let due = self.states.iter_mut().find(|((_, face), state)| state.due <= now && up(*face));
        let key = match due {
            Some((key, _)) => key.clone(),
            None => {
                // Those whose neighbour is away wait for it.
                self.states.values_mut().filter(|state| state.due <= now).for_each(|state| state.due = now + PATIENCE);
                return None;
            }
        };
        let verb: &[u8] = match &mut self.states.get_mut(&key)?.withdrawn {
            Some((requested, _)) => {
                *requested += 1;
                b"unregister"
            }
            None => b"register",
        };
        let command = self.command(now, &key.0, key.1, verb, random)?;
        let name = Interest::decode(&command.interest).ok()?.name.as_tlv().to_vec();
        let name = Bytes::from(name);
        let state = self.states.get_mut(&key)?;
        if let Some(before) = state.command.replace(name.clone()) {
            self.requested.remove(&before);
        }
        state.due = now + PATIENCE;
        self.requested.insert(name, key);
        Some(command)
    }
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let due = self.states.values().map(|state| state.due).filter(|due| *due < Time::MAX).min();
        let used = self.neighbours.iter().filter(|(face, _)| self.states.keys().any(|(_, at)| at == *face));
        used.map(|(_, neighbour)| neighbour.request_at).chain(due).min()
    }
    /// Takes an answer, or an Interest that came back.
    pub(crate) fn handle_packet(&mut self, now: Time, local: &LocalPacket) -> Option<Registered> {
        let data = Data::decode(&local.packet).ok()?;
        let key = self.requested.remove(data.name.as_tlv())?;
        let scope = self.registrars.iter().find(|registrar| registrar.face == key.1)?.scope;
        if let Some(neighbour) = self.neighbours.get_mut(&key.1).filter(|neighbour| !neighbour.knows_questions()) {
            // It was away, or knows no questions: soon it is clear which.
            (neighbour.unanswered, neighbour.request_at) = (0, now);
        }
        let state = self.states.get_mut(&key)?;
        state.command = None;
        if state.withdrawn.is_some() {
            self.states.remove(&key);
            return None;
        }
        state.due = match scope {
            RegistrationScope::Localhost => Time::MAX,
            RegistrationScope::Localhop => now + RENEWAL,
        };
        match data.content.map(ControlResponse::decode) {
            Some(Ok(response)) if response.code == 200 => Some(Registered::Confirmed(key.0)),
            Some(Ok(response)) => Some(Registered::Refused(key.0, response.text)),
            Some(Err(error)) => Some(Registered::Refused(key.0, error.to_string())),
            None => Some(Registered::Refused(key.0, "an answer without content".into())),
        }
    }
    fn command(&mut self, now: Time, name: &Name, face: FaceId, verb: &[u8], random: &mut Random) -> Option<Command> {
        let scope = self.registrars.iter().find(|registrar| registrar.face == face)?.scope;
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
        let parts = [door, b"nfd", b"rib", verb, &parameters.encode()];
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
mod tests {
    use super::*;

    fn registrations(scope: RegistrationScope) -> (Registrations, Random) {
        let registrar = Registrar { face: FaceId(3), scope };
        (Registrations::new([registrar].into(), (SignKey::Digest, None), Duration::from_secs(1_000)), Random::new(1, 1))
    }
    fn answer(command: &Command, code: u64, text: &str) -> LocalPacket {
        let interest = Interest::decode(&command.interest).unwrap();
        let content = ControlResponse { code, text: text.into(), body: None }.encode();
        LocalPacket {
            via: None,
            face: FaceId(1),
            packet: Data::new(interest.name, &content).sign(&SignKey::Digest).into(),
            nack: None,
            incoming_face: None,
            token: Vec::new(),
            tag: None,
            tag_bits: None,
            rates: Vec::new(),
            probe: false,
            origin: None,
            path_failed: false,
            marked: false,
        }
    }

    #[test]
    fn a_prefix_is_asked_for_again_until_the_neighbour_answers_and_renewed_elsewhere() {
        for (scope, renewed) in [(RegistrationScope::Localhost, false), (RegistrationScope::Localhop, true)] {
            let (mut registrations, mut random) = registrations(scope);
            let name: Name = "/lab/file".parse().unwrap();
            registrations.add(Time::from_millis(5), &name);
            assert!(registrations.poll(Time::from_millis(5), &mut random, |_| false).is_none(), "it is away");
            registrations.on_face_up(Time::from_millis(6), FaceId(3));
            let first = registrations.poll(Time::from_millis(6), &mut random, |_| true).unwrap();
            assert!(registrations.poll(Time::from_millis(1_005), &mut random, |_| true).is_none());
            let second = registrations.poll(Time::from_millis(1_006), &mut random, |_| true).unwrap();
            let at = Time::from_millis(1_100);
            assert_eq!(registrations.handle_packet(at, &answer(&first, 200, "OK")), None, "it was replaced");
            let confirmed = registrations.handle_packet(at, &answer(&second, 200, "OK"));
            assert_eq!(confirmed, Some(Registered::Confirmed(name.clone())));
            let due = registrations.states.values().map(|state| state.due).min();
            assert_eq!(due, Some(if renewed { at + RENEWAL } else { Time::MAX }));
            registrations.remove(at, &name);
            let is_withdrawal = |command: &Command| {
                let interest = Interest::decode(&command.interest).unwrap();
                interest.name.components().nth(3).is_some_and(|verb| verb.value == b"unregister")
            };
            let first = registrations.poll(at, &mut random, |_| true).unwrap();
            let again = registrations.poll(at + PATIENCE, &mut random, |_| true).unwrap();
            assert!([&first, &again].into_iter().all(is_withdrawal), "it is asked until it answers");
            assert_eq!(registrations.handle_packet(at + PATIENCE, &answer(&again, 200, "OK")), None);
            assert_eq!(registrations.poll_timeout(), None);
            // One that never answers is given up.
            registrations.add(at, &name);
            registrations.remove(at, &name);
            let requested = (0..120).filter(|second| {
                registrations.poll(at + Duration::from_secs(*second), &mut random, |_| true).is_some()
            });
            assert_eq!(requested.count() as u32, WITHDRAWALS_MAX);
            assert_eq!(registrations.poll_timeout(), None);
        }
    }

    #[test]
    fn who_starts_anew_is_asked_again_and_who_knows_no_questions_is_asked_seldom() {
        let (mut registrations, mut random) = registrations(RegistrationScope::Localhost);
        let name: Name = "/lab/file".parse().unwrap();
        let face = FaceId(3);
        let mut ask =
            |of: &mut Registrations, at: u64| of.poll_boot_probe(Time::from_millis(at), &mut random, |_| true);
        assert_eq!(ask(&mut registrations, 0), None, "nothing is registered there");
        registrations.add(Time::ZERO, &name);
        let (_, first) = ask(&mut registrations, 0).unwrap();
        let mut random = Random::new(2, 2);
        let command = registrations.poll(Time::ZERO, &mut random, |_| true).unwrap();
        registrations.handle_packet(Time::from_millis(10), &answer(&command, 200, "OK"));
        registrations.on_boot(Time::from_millis(10), face, first, 77);
        let mut ask =
            |of: &mut Registrations, at: u64| of.poll_boot_probe(Time::from_millis(at), &mut random, |_| true);
        assert_eq!(ask(&mut registrations, 999), None);
        let (_, second) = ask(&mut registrations, 1_000).unwrap();
        registrations.on_boot(Time::from_millis(1_010), face, second, 77);
        registrations.on_boot(Time::from_millis(1_020), face, first, 78);
        assert_eq!(registrations.poll_timeout(), Some(Time::from_millis(2_000)), "an old answer says nothing");
        let (_, third) = ask(&mut registrations, 2_000).unwrap();
        registrations.on_boot(Time::from_millis(2_010), face, third, 78);
        assert!(registrations.poll(Time::from_millis(2_010), &mut random, |_| true).is_some(), "it has started anew");

        let (mut registrations, mut random) = self::registrations(RegistrationScope::Localhost);
        registrations.add(Time::ZERO, &name);
        let mut requested = 0;
        for at in 0..100 {
            requested += usize::from(
                registrations.poll_boot_probe(Time::from_millis(at * 1_000), &mut random, |_| true).is_some(),
            );
        }
        assert_eq!(requested, 4 + 4);
    }

    #[test]
    fn a_refusal_is_told_with_its_reason() {
        let (mut registrations, mut random) = registrations(RegistrationScope::Localhop);
        let name: Name = "/lab/file".parse().unwrap();
        registrations.add(Time::ZERO, &name);
        let command = registrations.poll(Time::ZERO, &mut random, |_| true).unwrap();
        assert_eq!(command.headers().next_hop_face, Some(3));
        let refused = registrations.handle_packet(Time::ZERO, &answer(&command, 403, "not you"));
        assert_eq!(refused, Some(Registered::Refused(name, "not you".into())));
    }
}
