//! A node on its driver: the thread, the sockets, the events.
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tributary_core::{FaceId, Time, link::LinkChange, link::LinkConfig};
use tributary_net::{
    Driver, DriverConfig, DriverError, DriverHandle, DriverStats, FaceConfig, FaceStats, ListenConfig,
    StreamFaceConfig, disk::Storage,
};
use tributary_transport::FaceOptions;

use crate::{
    config::NodeConfig,
    error::{ApiError, ErrorKind},
    hub::Hub,
    lookups::{Found, Lookups},
    registry::{self, BoxedNode},
};

/// The neighbours that the config names, by the faces that they have.
struct Neighbours {
    faces: BTreeMap<FaceId, crate::config::FaceConfig>,
    /// The next face: numbers are not used again, so that what is told of one is never of another.
    next: FaceId,
}

/// A node that runs. Dropping it stops it.
pub(crate) struct Running {
    driver: Arc<DriverHandle<BoxedNode>>,
    lookups: Mutex<Option<Lookups>>,
    neighbours: Mutex<Neighbours>,
    hub: Arc<Hub>,
    storage: Storage,
}

impl Running {
    /// Opens the sockets and starts the node that `config` describes.
    pub(crate) fn start(config: &NodeConfig, seed: u64, storage: &Storage) -> Result<Self, ApiError> {
        registry::check_storage(config)?;
        Self::start_node(config, seed, storage, registry::build(config, seed))
    }
    /// The same with a node that the caller made.
    pub(crate) fn start_node(
        config: &NodeConfig,
        seed: u64,
        storage: &Storage,
        node: BoxedNode,
    ) -> Result<Self, ApiError> {
        let hub = Arc::new(Hub::default());
        let to_hub = Arc::clone(&hub);
        let driver = Arc::new(Driver::spawn(
            move || node,
            DriverConfig { bell: storage.bell().clone(), ..driver_config(config, seed) },
            move |now, event| {
                to_hub.handle_event(now, event);
            },
        )?);
        for warning in driver.warnings() {
            hub.note(warning);
        }
        let faces: Vec<_> = datagram_faces(config).map(|(id, face)| (id, options(face))).collect();
        let rate = config.limits.rate;
        driver.call(move |node, now| {
            for (face, options) in faces {
                node.add_face(now, face, options);
            }
            if rate.is_some() {
                node.limit(now, None, rate);
            }
        })?;
        let numbered = config.faces.iter().enumerate().map(|(index, face)| (face_id(index), face.clone()));
        let neighbours = Neighbours { faces: numbered.collect(), next: face_id(config.faces.len()) };
        let lookups = Lookups::start(&neighbours.faces, &config.listen, BTreeMap::new(), &driver, &hub)?;
        let (lookups, neighbours) = (Mutex::new(lookups), Mutex::new(neighbours));
        Ok(Running { driver, lookups, neighbours, hub, storage: storage.clone() })
    }
    /// The neighbours that the config names now, and their faces.
    pub(crate) fn neighbours(&self) -> Vec<(FaceId, crate::config::FaceConfig)> {
        locked(&self.neighbours).faces.iter().map(|(id, face)| (*id, face.clone())).collect()
    }
    /// Leaves the neighbours that a newer config of the node does not name any more, and meets those that it does; one whose
    /// settings differ is another one. Gives in words what was done, and what could not be.
    pub(crate) fn change_neighbours(&self, config: &NodeConfig) -> Result<Vec<String>, ApiError> {
        let mut neighbours = locked(&self.neighbours);
        let is_wanted = |(_, face): &(&FaceId, &crate::config::FaceConfig)| config.faces.contains(face);
        let gone: Vec<FaceId> = neighbours.faces.iter().filter(|entry| !is_wanted(entry)).map(|(id, _)| *id).collect();
        let is_known = |face: &&crate::config::FaceConfig| neighbours.faces.values().any(|known| known == *face);
        let fresh: Vec<_> = config.faces.iter().filter(|face| !is_known(face)).cloned().collect();
        if gone.is_empty() && fresh.is_empty() {
            return Ok(Vec::new());
        }
        // It leads no face anew meanwhile.
        let mut found = locked(&self.lookups).take().map(|lookups| lookups.all_found()).unwrap_or_default();
        let mut told = Vec::new();
        for id in gone {
            match self.driver.leave_face(id) {
                Ok(()) | Err(DriverError::UnknownFace { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            self.driver.call(move |node, now| node.remove_face(now, id))?;
            found.remove(&id);
            told.extend(neighbours.faces.remove(&id).map(|face| format!("{} is no neighbour any more", face.peer)));
        }
        for face in fresh {
            let id = neighbours.next;
            neighbours.next = FaceId(id.0 + 1);
            let options = options(&face);
            self.driver.call(move |node, now| node.add_face(now, id, options))?;
            let opened = match (face.peer.datagrams(), face.peer.stream()) {
                (Some(peer), _) => self.driver.add_face(datagram_face(&config.listen, id, &face, peer)),
                (None, Some(peer)) => self.driver.add_stream(StreamFaceConfig { id, peer: peer.clone() }),
                // Its name is looked up first.
                (None, None) => Ok(()),
            };
            told.push(match opened {
                Ok(()) => format!("{} is a neighbour", face.peer),
                Err(error) => format!("{} cannot be a neighbour before a restart ({error})", face.peer),
            });
            neighbours.faces.insert(id, face);
        }
        *locked(&self.lookups) = Lookups::start(&neighbours.faces, &config.listen, found, &self.driver, &self.hub)?;
        Ok(told)
    }
    /// Runs a command on the node's thread and gives its result.
    pub(crate) fn call<R: Send + 'static>(
        &self,
        command: impl FnOnce(&mut BoxedNode, Time) -> R + Send + 'static,
    ) -> Result<R, ApiError> {
        Ok(self.driver.call(command)?)
    }
    /// Changes the emulated link of a face, to see what a network does about it.
    pub(crate) fn change_link(&self, face: FaceId, change: LinkChange) -> Result<(), ApiError> {
        Ok(self.driver.change_link(face, change)?)
    }
    /// The driver's counters.
    pub(crate) fn stats(&self) -> Result<DriverStats, ApiError> {
        Ok(self.driver.stats()?)
    }
    /// Where it listens.
    pub(crate) fn listen_addrs(&self) -> Vec<String> {
        let datagrams = self.driver.listen_addrs().iter().map(ToString::to_string);
        datagrams.chain(self.driver.stream_addrs().iter().map(ToString::to_string)).collect()
    }
    /// What the name of a neighbour stands for; `None` for those without a name.
    pub(crate) fn found(&self, face: FaceId) -> Option<Found> {
        locked(&self.lookups).as_ref()?.found(face)
    }
    /// The time of the node.
    pub(crate) fn now(&self) -> Time {
        self.driver.clock().now()
    }
    /// Why nothing gets to the neighbour of a face, as far as this machine knows: its name is not found, or the kernel
    /// has refused to send there lately.
    pub(crate) fn problem(&self, face: &str, stats: &DriverStats, now: Time) -> Option<String> {
        let account = stats.faces.iter().find(|account| account.face.to_string() == face);
        let number = face.strip_prefix("face-").and_then(|number| number.parse().ok()).map(FaceId);
        let refused = account.and_then(|account| Some((account, account.refused?)));
        let refused = refused.filter(|(_, (_, at))| now.since(*at) < REFUSAL_FRESH);
        let in_words = |(account, (reason, _)): (&FaceStats, (&str, Time))| {
            format!("cannot send to {} from {}: {reason}", account.peer, account.local)
        };
        self.found(number?).and_then(|found| found.problem).or_else(|| refused.map(in_words))
    }
    /// Where its events pass.
    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }
    /// Lets the node take leave, stops it, and waits for its thread.
    pub(crate) fn stop(&self) -> Result<(), ApiError> {
        let publishes = self.driver.call(|node, now| {
            let publishes = !node.status(now).published.is_empty();
            node.leave(now);
            publishes
        });
        if publishes.unwrap_or(false) {
            std::thread::sleep(LEAVE_TIME);
        }
        self.driver.stop()?;
        // What is verified is written before the process may end.
        self.storage.wait();
        Ok(())
    }
}

impl Drop for Running {
    /// What is verified is written before all this is gone.
    fn drop(&mut self) {
        if self.driver.stop().is_ok() {
            self.storage.wait();
        }
    }
}

/// How long ago the kernel may have refused to send for that to be still the case: neighbours are greeted more often.
const REFUSAL_FRESH: std::time::Duration = std::time::Duration::from_secs(10);
/// What a publisher's withdrawals have to get through before it is gone; those that do not make it expire.
const LEAVE_TIME: std::time::Duration = std::time::Duration::from_millis(200);

/// The number of the face that a config lists at `index`.
pub(crate) fn face_id(index: usize) -> FaceId {
    FaceId(index as u32 + 1)
}

/// The faces over UDP with their numbers, those whose addresses are to be looked up too.
fn datagram_faces(config: &NodeConfig) -> impl Iterator<Item = (FaceId, &crate::config::FaceConfig)> {
    let numbered = config.faces.iter().enumerate().map(|(index, face)| (face_id(index), face));
    numbered.filter(|(_, face)| !face.peer.is_stream())
}
/// A face over UDP as the driver of a node that listens there has it.
pub(crate) fn datagram_face(
    listen: &[SocketAddr],
    id: FaceId,
    face: &crate::config::FaceConfig,
    peer: SocketAddr,
) -> FaceConfig {
    FaceConfig {
        local: face.source(listen, peer),
        device: face.device.clone(),
        link: face.egress.as_ref().map(|link| LinkConfig { mtu: face.mtu, ..link.clone() }),
        mtu: face.mtu,
        ..FaceConfig::new(id, peer)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn options(face: &crate::config::FaceConfig) -> FaceOptions {
    FaceOptions { mtu: face.mtu, rate: face.rate.or_else(|| face.egress.as_ref()?.rate) }
}

fn driver_config(config: &NodeConfig, seed: u64) -> DriverConfig {
    let addressed = datagram_faces(config).filter_map(|(id, face)| Some((id, face, face.peer.datagrams()?)));
    let faces = addressed.map(|(id, face, peer)| datagram_face(&config.listen, id, face, peer));
    let streams = config.faces.iter().enumerate().filter_map(|(index, face)| {
        let peer = face.peer.stream()?.clone();
        Some(StreamFaceConfig { id: face_id(index), peer })
    });
    DriverConfig {
        faces: faces.collect(),
        stream_faces: streams.collect(),
        stream_listen: config.listen_streams.clone(),
        web_origins: config.web_origins.clone(),
        framing: config.family.framing(),
        listen: config.listen.iter().map(|address| ListenConfig::new(*address)).collect(),
        thread_name: config.label.chars().take(15).collect(),
        seed,
        ..DriverConfig::default()
    }
}

impl From<DriverError> for ApiError {
    fn from(error: DriverError) -> Self {
        let text = error.to_string();
        match text.split_once("; hint: ") {
            Some((message, hint)) => ApiError::new(ErrorKind::Io, message).with_hint(hint),
            None => ApiError::new(ErrorKind::Io, text),
        }
    }
}
