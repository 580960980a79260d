//! Neighbours that a config names by host or by a zone. A separate thread resolves their addresses, so that no node
//! waits for a name server, and repeats that while the node runs.
//!
//! ```text
//!   not found ──found──► face made ──another address in the answer, the old one not──► face made anew
//!       ▲                   │
//!       └── noted once ─────┴── the neighbour is silent: the next address of the answer
//! ```
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Weak,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
};
use tributary_core::{Duration, FaceId, Time};
use tributary_net::{Clock, DriverError, DriverHandle, StreamFaceConfig};

use super::{driver_config::datagram_face, event_bus::EventBus};
use crate::{
    config::{FaceConfig, NamedPeer, is_own},
    error::{ApiError, spawn},
    families::BoxedNode,
};

/// Interval at which the name of an answering neighbour is resolved again.
pub(crate) const LOOKUP_INTERVAL: Duration = Duration::from_secs(30);
/// How often the name of one that does not answer or is not found.
pub(crate) const LOOKUP_INTERVAL_SILENT: Duration = Duration::from_secs(5);
/// How often it is checked whether one is due.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// The result of the latest lookup of a neighbour.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct LookedUp {
    /// Where datagrams or the stream go to.
    pub(crate) address: Option<SocketAddr>,
    /// Why it found nothing that can be used.
    pub(crate) problem: Option<String>,
}

/// Looks up the neighbours of a node until it is dropped.
pub(crate) struct PeerLookups {
    states: Arc<Mutex<BTreeMap<FaceId, LookedUp>>>,
    /// Dropping it ends the thread. The thread is not joined, since it may be waiting for a name server.
    _running: Sender<()>,
}

impl PeerLookups {
    /// Starts the thread if one of these neighbours has a name. `known` are the results of earlier lookups.
    pub(crate) fn start(
        faces: &BTreeMap<FaceId, FaceConfig>,
        listen: &[SocketAddr],
        known: BTreeMap<FaceId, LookedUp>,
        driver: &Arc<DriverHandle<BoxedNode>>,
        events: &Arc<EventBus>,
    ) -> Result<Option<Self>, ApiError> {
        let named = faces.iter().filter_map(|(id, face)| {
            let peer = face.peer.named()?.clone();
            Some(Neighbour { id: *id, face: face.clone(), peer, due: Time::ZERO })
        });
        let neighbours: Vec<_> = named.collect();
        if neighbours.is_empty() {
            return Ok(None);
        }
        let (running, stopped) = channel();
        let states = Arc::new(Mutex::new(known));
        let thread = Thread {
            neighbours,
            listen: listen.into(),
            driver: Arc::downgrade(driver),
            events: Arc::clone(events),
            states: Arc::clone(&states),
            clock: Clock::new(),
        };
        spawn("lookups", move || thread.run(&stopped))?;
        Ok(Some(PeerLookups { states, _running: running }))
    }
    /// The latest lookup of a neighbour; `None` before the first one, and for those without a name.
    pub(crate) fn state(&self, face: FaceId) -> Option<LookedUp> {
        self.states.lock().get(&face).cloned()
    }
    /// The lookup state of all neighbours with names.
    pub(crate) fn states(&self) -> BTreeMap<FaceId, LookedUp> {
        self.states.lock().clone()
    }
}

struct Neighbour {
    id: FaceId,
    face: FaceConfig,
    peer: NamedPeer,
    due: Time,
}

struct Thread {
    neighbours: Vec<Neighbour>,
    listen: Vec<SocketAddr>,
    driver: Weak<DriverHandle<BoxedNode>>,
    events: Arc<EventBus>,
    states: Arc<Mutex<BTreeMap<FaceId, LookedUp>>>,
    clock: Clock,
}

impl Thread {
    fn run(mut self, stopped: &Receiver<()>) {
        loop {
            if self.neighbours.iter().any(|neighbour| neighbour.due <= self.clock.now()) && self.look().is_none() {
                return;
            }
            if stopped.recv_timeout(CHECK_INTERVAL) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }
    /// Looks up the neighbours that are due; `None` once the node is gone.
    fn look(&mut self) -> Option<()> {
        let status = self.driver.upgrade()?.call(|node, now| node.status(now).faces).ok()?;
        let is_up = |id: FaceId| status.iter().any(|face| face.face == id && face.up);
        for index in 0..self.neighbours.len() {
            let neighbour = &self.neighbours[index];
            if neighbour.due > self.clock.now() {
                continue;
            }
            let is_up = is_up(neighbour.id);
            let before = self.states.lock().get(&neighbour.id).cloned().unwrap_or_default();
            let usable = neighbour.peer.look_up().and_then(|found| usable_of(neighbour, &self.listen, found));
            let chosen = usable.map(|usable| choose(before.address, &usable, is_up));
            // It may have taken long, and the node may be gone.
            let driver = self.driver.upgrade()?;
            let now = match chosen {
                Ok(address) if before.address == Some(address) => LookedUp { address: Some(address), problem: None },
                Ok(address) => match self.lead(neighbour, address, &driver) {
                    Ok(()) => {
                        let text = format!("{} to {} leads to {address}", neighbour.id, neighbour.peer);
                        tracing::info!("{text}");
                        self.events.note(&text);
                        LookedUp { address: Some(address), problem: None }
                    }
                    Err(error) => LookedUp { address: None, problem: Some(format!("{address}: {error}")) },
                },
                // The earlier addresses may still be right.
                Err(problem) => LookedUp { problem: Some(problem), ..before.clone() },
            };
            if let Some(problem) = now.problem.as_ref().filter(|problem| before.problem.as_ref() != Some(problem)) {
                let text = format!("{}: {problem}; trying again every {LOOKUP_INTERVAL_SILENT:?}", neighbour.id);
                tracing::warn!("{text}");
                self.events.note(&text);
            }
            let is_settled = is_up && now.problem.is_none();
            self.states.lock().insert(neighbour.id, now);
            let pause = if is_settled { LOOKUP_INTERVAL } else { LOOKUP_INTERVAL_SILENT };
            self.neighbours[index].due = self.clock.now() + pause;
        }
        Some(())
    }
    /// Replaces the face of a neighbour by one to this address.
    fn lead(
        &self,
        neighbour: &Neighbour,
        address: SocketAddr,
        driver: &DriverHandle<BoxedNode>,
    ) -> Result<(), DriverError> {
        match driver.remove_face(neighbour.id) {
            Ok(()) | Err(DriverError::UnknownFace { .. }) => {}
            Err(error) => return Err(error),
        }
        match neighbour.peer.stream(address) {
            Some(peer) => driver.add_stream(StreamFaceConfig { id: neighbour.id, peer }),
            None => driver.add_face(datagram_face(&self.listen, neighbour.id, &neighbour.face, address)),
        }
    }
}

/// The addresses that can be reached from the sockets of the node, in the order of the answer.
fn usable_of(neighbour: &Neighbour, listen: &[SocketAddr], found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, String> {
    if !neighbour.peer.is_datagrams() {
        return Ok(found);
    }
    let reaches = |peer: &SocketAddr| match neighbour.face.source(listen, *peer) {
        Some(source) => source.is_ipv4() == peer.is_ipv4() && (!source.ip().is_loopback() || is_own(peer.ip())),
        None => neighbour.face.device.is_some(),
    };
    let usable: Vec<_> = found.iter().filter(|peer| reaches(peer)).copied().collect();
    if usable.is_empty() {
        let words = |addresses: &[SocketAddr]| addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let (found, listen) = (words(&found), words(listen));
        return Err(format!("'{}' is {found}, which is not reached from {listen} ('listen')", neighbour.peer));
    }
    Ok(usable)
}
/// The address to use among a name's addresses, at least one: the present one if it is still among them and the
/// neighbour answers, else the next one.
fn choose(before: Option<SocketAddr>, usable: &[SocketAddr], is_up: bool) -> SocketAddr {
    match before.and_then(|before| usable.iter().position(|address| *address == before)) {
        Some(index) if is_up => usable[index],
        Some(index) => usable[(index + 1) % usable.len()],
        None => usable[0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{NodeConfig, face_id};

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_silent_neighbour_is_tried_at_its_other_addresses_and_one_that_answers_is_left_there() {
        let [a, b, c] = ["192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1"].map(address);
        assert_eq!(choose(None, &[a, b], false), a);
        assert_eq!(choose(Some(a), &[b, a], true), a);
        assert_eq!(choose(Some(a), &[a, b], false), b);
        assert_eq!(choose(Some(b), &[a, b], false), a);
        assert_eq!(choose(Some(a), &[a], false), a);
        assert_eq!(choose(Some(a), &[b, c], true), b, "the answer has changed");
    }

    #[test]
    fn only_addresses_that_the_listening_sockets_reach_are_used() {
        let text =
            "[node]\nlabel = \"a\"\nroles = [\"receiver\"]\nlisten = [\"LISTEN\"]\n[[face]]\npeer = \"r.example:1\"\n";
        let found = || ["192.0.2.1:1", "[2001:db8::1]:1"].map(address).to_vec();
        let reached = |listen: &str| {
            let text = text.replace("LISTEN", listen);
            let config = NodeConfig::parse("a.toml", &text, "/etc".as_ref()).expect("it is right");
            let face = config.faces[0].clone();
            let peer = face.peer.named().expect("it has a name").clone();
            let neighbour = Neighbour { id: face_id(0), face, peer, due: Time::ZERO };
            usable_of(&neighbour, &config.listen, found())
        };
        assert_eq!(reached("0.0.0.0:0"), Ok(vec![address("192.0.2.1:1")]));
        assert_eq!(reached("[::]:0"), Ok(vec![address("[2001:db8::1]:1")]));
        let refused = reached("127.0.0.1:0").expect_err("loopback leads nowhere");
        assert_eq!(
            refused,
            "'r.example:1' is 192.0.2.1:1, [2001:db8::1]:1, which is not reached from 127.0.0.1:0 ('listen')"
        );
    }
}
