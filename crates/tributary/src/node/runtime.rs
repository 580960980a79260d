//! A node on its driver: the thread, the sockets, the events.
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};
use tributary_content::SigningKey;
use tributary_core::{FaceId, Time};
use tributary_net::{
    Driver, DriverConfig, DriverError, DriverHandle, DriverStats, FaceStats, StreamFaceConfig, disk::Storage,
};
use tributary_trust::Identity;

use super::{
    driver_config::{datagram_face, datagram_faces, driver_config, options, security},
    event_bus::EventBus,
    lookups::Lookups,
    membership,
    peer_keys::PeerKeys,
    peer_lookup::{LookedUp, PeerLookups},
    resumed_transfers::Lives,
    secure,
};
use crate::{
    config::{FaceConfig, NodeConfig, face_id},
    error::{ApiError, ErrorKind},
    families::BoxedNode,
};

/// The neighbours that the config names, by their faces.
struct Neighbours {
    faces: BTreeMap<FaceId, FaceConfig>,
    /// The next face. Numbers are not reused: a statement about one face must not apply to another.
    next: FaceId,
}

/// A node that runs. Dropping it stops it.
pub(crate) struct Runtime {
    pub(crate) driver: Arc<DriverHandle<BoxedNode>>,
    peers: Mutex<Option<PeerLookups>>,
    neighbours: Mutex<Neighbours>,
    pub(crate) events: Arc<EventBus>,
    pub(crate) lookups: Arc<Lookups>,
    pub(crate) lives: Arc<Lives>,
    storage: Storage,
}

impl Runtime {
    /// Opens the sockets and starts the node that `config` describes; `key` identifies it to its neighbours, and
    /// `identity` in a network with an authority.
    pub(crate) fn start(
        config: &NodeConfig,
        seed: u64,
        storage: &Storage,
        key: &SigningKey,
        identity: Option<&Identity>,
    ) -> Result<Self, ApiError> {
        config.settings.of_family().check_storage(config)?;
        let node = config.build(seed, storage.bell())?;
        let (keep, keys) = (membership::keep(config), PeerKeys::open(config, membership::time_of_day())?);
        let node = secure::protect(node, config, key, identity, keep, keys, secure::entropy());
        Self::start_node(config, seed, storage, node)
    }
    /// Starts a node that the caller made.
    pub(crate) fn start_node(
        config: &NodeConfig,
        seed: u64,
        storage: &Storage,
        node: BoxedNode,
    ) -> Result<Self, ApiError> {
        let events = Arc::new(EventBus::default());
        let lookups = Arc::<Lookups>::default();
        let lives = Arc::<Lives>::default();
        let (to_events, to_lookups, of_fetches) = (Arc::clone(&events), Arc::clone(&lookups), Arc::clone(&lives));
        let driver = Arc::new(Driver::spawn(
            move || node,
            DriverConfig { bell: storage.bell().clone(), ..driver_config(config, seed) },
            move |now, event| {
                if !to_lookups.handle_event(&event) {
                    to_events.handle_event(now, of_fetches.shown(event));
                }
            },
        )?);
        for warning in driver.warnings() {
            events.note(warning);
        }
        let faces: Vec<_> = datagram_faces(config).map(|(id, face)| (id, security(face), options(face))).collect();
        let rate = config.limits.rate;
        driver.call(move |node, now| {
            for (face, security, options) in faces {
                node.set_security(face, security);
                node.add_face(now, face, options);
            }
            if rate.is_some() {
                node.limit(now, None, rate);
            }
        })?;
        let numbered = config.faces.iter().enumerate().map(|(index, face)| (face_id(index), face.clone()));
        let neighbours = Neighbours { faces: numbered.collect(), next: face_id(config.faces.len()) };
        let peers = PeerLookups::start(&neighbours.faces, &config.listen, BTreeMap::new(), &driver, &events)?;
        let (peers, neighbours) = (Mutex::new(peers), Mutex::new(neighbours));
        Ok(Runtime { driver, peers, neighbours, events, lookups, lives, storage: storage.clone() })
    }
    /// The neighbours that the config names now, and their faces.
    pub(crate) fn neighbours(&self) -> Vec<(FaceId, FaceConfig)> {
        self.neighbours.lock().faces.iter().map(|(id, face)| (*id, face.clone())).collect()
    }
    /// Removes the neighbours that a newer config of the node no longer names and adds new ones; a neighbour with
    /// changed settings counts as new. Returns sentences about the changes, and about the failed ones.
    ///
    /// # Errors
    /// [`ApiError`] if the node is gone.
    pub(crate) fn change_neighbours(&self, config: &NodeConfig) -> Result<Vec<String>, ApiError> {
        let mut neighbours = self.neighbours.lock();
        for known in neighbours.faces.values_mut() {
            // What a face is called and used for changes while it stays.
            if let Some(face) = config.faces.iter().find(|face| face.is_same_link(known)) {
                known.clone_from(face);
            }
        }
        let is_gone = |(_, face): &(&FaceId, &FaceConfig)| !config.faces.contains(face);
        let gone: Vec<FaceId> = neighbours.faces.iter().filter(is_gone).map(|(id, _)| *id).collect();
        let is_new = |face: &&FaceConfig| !neighbours.faces.values().any(|known| known == *face);
        let new: Vec<FaceConfig> = config.faces.iter().filter(is_new).cloned().collect();
        if gone.is_empty() && new.is_empty() {
            return Ok(Vec::new());
        }
        // The thread must not replace a face while faces change.
        let mut known = self.peers.lock().take().map(|peers| peers.states()).unwrap_or_default();
        let mut done = Vec::new();
        for id in gone {
            match self.driver.leave_face(id) {
                Ok(()) | Err(DriverError::UnknownFace { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            self.driver.call(move |node, now| {
                node.remove_face(now, id);
                node.forwarding().into_iter().for_each(|table| table.register_at(now, id, false));
            })?;
            known.remove(&id);
            done.extend(neighbours.faces.remove(&id).map(|face| format!("{} is no longer a neighbour", face.peer)));
        }
        for face in new {
            let id = neighbours.next;
            neighbours.next = FaceId(id.0 + 1);
            let (security, options) = (security(&face), options(&face));
            self.driver.call(move |node, now| {
                node.set_security(id, security);
                node.add_face(now, id, options);
                node.forwarding().into_iter().for_each(|table| table.register_at(now, id, true));
            })?;
            let opened = match (face.peer.datagrams(), face.peer.stream()) {
                (Some(peer), _) => self.driver.add_face(datagram_face(&config.listen, id, &face, peer)),
                (None, Some(peer)) => self.driver.add_stream(StreamFaceConfig { id, peer: peer.clone() }),
                // Its name is resolved first.
                (None, None) => Ok(()),
            };
            done.push(match opened {
                Ok(()) => format!("{} is a neighbour", face.peer),
                Err(error) => format!("{} cannot be a neighbour before a restart ({error})", face.peer),
            });
            neighbours.faces.insert(id, face);
        }
        let peers = PeerLookups::start(&neighbours.faces, &config.listen, known, &self.driver, &self.events)?;
        *self.peers.lock() = peers;
        Ok(done)
    }
    /// Runs a command on the node's thread and returns its result.
    pub(crate) fn call<R: Send + 'static>(
        &self,
        command: impl FnOnce(&mut BoxedNode, Time) -> R + Send + 'static,
    ) -> Result<R, ApiError> {
        Ok(self.driver.call(command)?)
    }
    /// The same without waiting for it.
    pub(crate) fn post(&self, command: impl FnOnce(&mut BoxedNode, Time) + Send + 'static) -> Result<(), ApiError> {
        Ok(self.driver.post(command)?)
    }
    /// The node for other threads.
    pub(crate) fn remote(&self) -> Remote {
        Remote { driver: Arc::clone(&self.driver), events: Arc::clone(&self.events) }
    }
    /// Where it listens.
    pub(crate) fn listen_addrs(&self) -> Vec<String> {
        let datagrams = self.driver.listen_addrs().iter().map(ToString::to_string);
        datagrams.chain(self.driver.stream_addrs().iter().map(ToString::to_string)).collect()
    }
    /// The latest lookup of a neighbour; `None` for those that the config names by an address.
    pub(crate) fn looked_up(&self, face: FaceId) -> Option<LookedUp> {
        self.peers.lock().as_ref()?.state(face)
    }
    /// The time of the node.
    pub(crate) fn now(&self) -> Time {
        self.driver.clock().now()
    }
    /// Why no packet reaches the neighbour of a face, if this machine knows: its name cannot be resolved, or the kernel
    /// has recently refused to send there.
    pub(crate) fn problem(&self, face: &str, stats: &DriverStats, now: Time) -> Option<String> {
        let account = stats.faces.iter().find(|account| account.face.to_string() == face);
        let number = face.strip_prefix("face-").and_then(|number| number.parse().ok()).map(FaceId);
        let refused = account.and_then(|account| Some((account, account.refused?)));
        let refused = refused.filter(|(_, (_, at))| now.since(*at) < REFUSAL_FRESH);
        let in_words = |(account, (reason, _)): (&FaceStats, (&str, Time))| {
            format!("cannot send to {} from {}: {reason}", account.peer, account.local)
        };
        self.looked_up(number?).and_then(|peer| peer.problem).or_else(|| refused.map(in_words))
    }
    /// Withdraws the node's publications, stops it, and waits for its thread.
    pub(crate) fn stop(&self) -> Result<(), ApiError> {
        let publishes = self.driver.call(|node, now| {
            let publishes = node.published_count() > 0;
            node.leave(now);
            publishes
        });
        if publishes.unwrap_or(false) {
            std::thread::sleep(LEAVE_TIME);
        }
        self.driver.stop()?;
        // Verified chunks are written before the process may end.
        self.storage.wait();
        Ok(())
    }
}

/// A node that runs, for threads that work for it. It does not keep the node running.
#[derive(Clone)]
pub(crate) struct Remote {
    driver: Arc<DriverHandle<BoxedNode>>,
    pub(crate) events: Arc<EventBus>,
}

impl Remote {
    /// As [`Runtime::call`].
    pub(crate) fn call<R: Send + 'static>(
        &self,
        command: impl FnOnce(&mut BoxedNode, Time) -> R + Send + 'static,
    ) -> Result<R, ApiError> {
        Ok(self.driver.call(command)?)
    }
}

impl Drop for Runtime {
    /// Verified chunks are written before the node is gone.
    fn drop(&mut self) {
        if self.driver.stop().is_ok() {
            self.storage.wait();
        }
    }
}

/// How long a refusal of the kernel to send counts: hellos are sent more often than that.
const REFUSAL_FRESH: std::time::Duration = std::time::Duration::from_secs(10);
/// How long a publisher's withdrawals may take to reach their resolvers before it stops, if they would not expire
/// there.
const LEAVE_TIME: std::time::Duration = std::time::Duration::from_millis(200);

impl From<DriverError> for ApiError {
    fn from(error: DriverError) -> Self {
        let text = error.to_string();
        match text.split_once("; hint: ") {
            Some((message, hint)) => ApiError::new(ErrorKind::Io, message).with_hint(hint),
            None => ApiError::new(ErrorKind::Io, text),
        }
    }
}
