//! A node on its driver: the thread, the sockets, the events.
use std::sync::Arc;
use tributary_core::{FaceId, Time, link::LinkChange};
use tributary_net::{Driver, DriverConfig, DriverError, DriverHandle, DriverStats, FaceStats, disk::Storage};

use super::{
    driver_config::{datagram_faces, driver_config, options},
    event_bus::EventBus,
    peer_lookup::{LookedUp, PeerLookups},
};
use crate::{
    config::NodeConfig,
    error::{ApiError, ErrorKind},
    families::BoxedNode,
};

/// A node that runs. Dropping it stops it.
pub(crate) struct Runtime {
    driver: Arc<DriverHandle<BoxedNode>>,
    lookups: Option<PeerLookups>,
    events: Arc<EventBus>,
    storage: Storage,
}

impl Runtime {
    /// Opens the sockets and starts the node that `config` describes.
    pub(crate) fn start(config: &NodeConfig, seed: u64, storage: &Storage) -> Result<Self, ApiError> {
        let settings = config.settings.of_family();
        settings.check_storage(config)?;
        Self::start_node(config, seed, storage, settings.build(config, seed, storage.bell()))
    }
    /// The same with a node that the caller made.
    pub(crate) fn start_node(
        config: &NodeConfig,
        seed: u64,
        storage: &Storage,
        node: BoxedNode,
    ) -> Result<Self, ApiError> {
        let events = Arc::new(EventBus::default());
        let to_events = Arc::clone(&events);
        let driver = Arc::new(Driver::spawn(
            move || node,
            DriverConfig { bell: storage.bell().clone(), ..driver_config(config, seed) },
            move |now, event| {
                to_events.handle_event(now, event);
            },
        )?);
        for warning in driver.warnings() {
            events.note(warning);
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
        let lookups = PeerLookups::start(config, &driver, &events)?;
        Ok(Runtime { driver, lookups, events, storage: storage.clone() })
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
    pub(crate) fn looked_up(&self, face: FaceId) -> Option<LookedUp> {
        self.lookups.as_ref()?.state(face)
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
        self.looked_up(number?).and_then(|peer| peer.problem).or_else(|| refused.map(in_words))
    }
    /// Where its events pass.
    pub(crate) fn events(&self) -> &Arc<EventBus> {
        &self.events
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

impl Drop for Runtime {
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

impl From<DriverError> for ApiError {
    fn from(error: DriverError) -> Self {
        let text = error.to_string();
        match text.split_once("; hint: ") {
            Some((message, hint)) => ApiError::new(ErrorKind::Io, message).with_hint(hint),
            None => ApiError::new(ErrorKind::Io, text),
        }
    }
}
