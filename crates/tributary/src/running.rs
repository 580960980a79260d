//! A node on its driver: the thread, the sockets, the events.
use std::{net::SocketAddr, sync::Arc};
use tributary_core::{FaceId, Time, link::LinkChange, link::LinkConfig};
use tributary_net::{
    Driver, DriverConfig, DriverError, DriverHandle, DriverStats, FaceConfig, ListenConfig, StreamFaceConfig,
    disk::Storage,
};
use tributary_transport::FaceOptions;

use crate::{
    config::NodeConfig,
    error::{ApiError, ErrorKind},
    hub::Hub,
    registry::{self, BoxedNode},
};

/// A node that runs. Dropping it stops it.
pub(crate) struct Running {
    driver: DriverHandle<BoxedNode>,
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
        let driver = Driver::spawn(
            move || node,
            DriverConfig { bell: storage.bell().clone(), ..driver_config(config, seed) },
            move |now, event| {
                to_hub.handle_event(now, event);
            },
        )?;
        for warning in driver.warnings() {
            hub.note(warning);
        }
        let faces: Vec<_> = datagram_faces(config).map(|(id, face, _)| (id, options(face))).collect();
        let rate = config.limits.rate;
        driver.call(move |node, now| {
            for (face, options) in faces {
                node.add_face(now, face, options);
            }
            if rate.is_some() {
                node.limit(now, None, rate);
            }
        })?;
        Ok(Running { driver, hub, storage: storage.clone() })
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

/// What a publisher's withdrawals have to get through before it is gone; those that do not make it expire.
const LEAVE_TIME: std::time::Duration = std::time::Duration::from_millis(200);

/// The number of the face that a config lists at `index`.
pub(crate) fn face_id(index: usize) -> FaceId {
    FaceId(index as u32 + 1)
}

/// The faces over UDP, with their numbers and neighbours.
fn datagram_faces(config: &NodeConfig) -> impl Iterator<Item = (FaceId, &crate::config::FaceConfig, SocketAddr)> {
    let numbered = config.faces.iter().enumerate();
    numbered.filter_map(|(index, face)| Some((face_id(index), face, face.peer.datagrams()?)))
}

fn options(face: &crate::config::FaceConfig) -> FaceOptions {
    FaceOptions { mtu: face.mtu, rate: face.rate.or_else(|| face.egress.as_ref()?.rate) }
}

fn driver_config(config: &NodeConfig, seed: u64) -> DriverConfig {
    let faces = datagram_faces(config).map(|(id, face, peer)| FaceConfig {
        local: face.source(&config.listen),
        device: face.device.clone(),
        link: face.egress.as_ref().map(|link| LinkConfig { mtu: face.mtu, ..link.clone() }),
        mtu: face.mtu,
        ..FaceConfig::new(id, peer)
    });
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
