//! A node in this process: its thread and sockets, its events, its files.
//!
//! | what | module |
//! |---|---|
//! | the node on its driver | `runtime` |
//! | its faces, which authenticate neighbours | `secure` |
//! | its certificate and its network | `membership` |
//! | its events, for subscribers | `event_bus` |
//! | neighbours that the config names by a host | `peer_lookup` |
//! | neighbours' keys, remembered since the first contact | `peer_keys` |
//! | lookups of names | `lookups` |
//! | its fetches without a client | `queue` |
//! | which face may carry which content now | `policies` |
//! | its key, trust and downloads | `files` |
//! | keys of sealed objects | `keys` |
//! | publications that it restores after a restart | `publications` |
//! | stores of fetches, and the results of opening them | `opening` |
//! | transfers that are paused and resumed | `resumed_transfers` |
//! | objects sent to it | `inbox` |
mod driver_config;
pub(crate) mod event_bus;
pub(crate) mod files;
pub(crate) mod inbox;
pub(crate) mod keys;
pub(crate) mod log_limit;
pub(crate) mod lookups;
pub(crate) mod membership;
pub(crate) mod mirrors;
pub(crate) mod opening;
pub(crate) mod peer_keys;
mod peer_lookup;
pub(crate) mod policies;
pub(crate) mod publications;
pub(crate) mod queue;
mod resumed_transfers;
pub(crate) mod runtime;
pub(crate) mod secure;
mod state_lock;

use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::AtomicBool},
};
use tokio::sync::Semaphore;
use tributary_content::{Name, SigningKey};
use tributary_core::{Duration, Time, TransferId, event::TransferReport};
use tributary_net::disk::{self, age::Age};
use tributary_transport::Messaging;

use self::{
    files::Files, keys::KeyFinder, policies::Policies, publications::Publications, queue::Queue, runtime::Runtime,
    state_lock::StateLock,
};
use crate::{
    config::{NodeConfig, Role},
    error::{ApiError, ErrorKind},
    families::BoxedNode,
    family::Family,
    views::LatencyView,
};

/// A node in this process with everything that it keeps. Dropping it stops the node.
pub(crate) struct LocalNode {
    /// The config with which it was started.
    pub(crate) config: NodeConfig,
    /// The latest config; settings that need a restart are as in `config`.
    pub(crate) current: Mutex<NodeConfig>,
    pub(crate) runtime: Runtime,
    pub(crate) files: Files,
    pub(crate) key: SigningKey,
    pub(crate) publications: Publications,
    /// What may be fetched over which face.
    pub(crate) policies: Policies,
    /// The age of the state folder's content.
    pub(crate) age: Age,
    pub(crate) seed: u64,
    /// Fetches that run now.
    pub(crate) fetches: Semaphore,
    /// How long the network took, by operation.
    latencies: Mutex<BTreeMap<&'static str, LatencyView>>,
    /// Fetches that run without a client.
    pub(crate) queue: Queue,
    /// Whether a command receives objects on this node.
    pub(crate) receiving: AtomicBool,
    /// The names that commands attached it to, whether or not a command receives.
    pub(crate) attached: Mutex<BTreeSet<Name>>,
    /// The files and folders that are published, by the URIs of their names.
    pub(crate) originals: Mutex<BTreeMap<String, disk::Original>>,
    /// The versions that are published, by the URIs of their names.
    pub(crate) versions: Mutex<BTreeMap<String, u64>>,
    /// The names of the lists of keys of the sealed objects that are published, by theirs.
    pub(crate) key_lists: Mutex<BTreeMap<Name, Name>>,
    /// Dropped last: the next process finds everything written.
    _lock: StateLock,
}

impl LocalNode {
    /// Starts the node of a config: opens sockets and state.
    pub(crate) fn start(config: NodeConfig) -> Result<Self, ApiError> {
        Self::start_with(config, |config, seed, files, key| {
            config.settings.of_family_mut().identify(key, &config.label);
            if config.network.is_some() {
                config.settings.of_family_mut().certify(&key.public());
            }
            let identity = membership::load(config, key)?;
            let runtime = Runtime::start(config, seed, &files.storage, key, identity.as_ref())?;
            if let Some(identity) = &identity {
                membership::warnings(config, identity).iter().for_each(|warning| runtime.events.note(warning));
            }
            Ok(runtime)
        })
    }
    /// Starts a node that the caller made.
    pub(crate) fn start_node(config: NodeConfig, node: BoxedNode) -> Result<Self, ApiError> {
        Self::start_with(config, |config, seed, files, _| Runtime::start_node(config, seed, &files.storage, node))
    }
    fn start_with(
        mut config: NodeConfig,
        start: impl FnOnce(&mut NodeConfig, u64, &Files, &SigningKey) -> Result<Runtime, ApiError>,
    ) -> Result<Self, ApiError> {
        let seed = seed(&config);
        let files = Files::open(&config.state_dir, &config.trust)?;
        let lock = StateLock::take(&config)?;
        let key = files::load_key(&config.key)?;
        let runtime = start(&mut config, seed, &files, &key)?;
        let publications = Publications::open(&config.state_dir)?;
        let policies = Policies::open(&config.state_dir)?;
        let age = Age::open(&config.state_dir)
            .map_err(|error| ApiError::io("read the age of", config.state_dir.display(), &error))?;
        let queue = Queue::open(&config.state_dir)?;
        Ok(LocalNode {
            fetches: Semaphore::new(config.limits.transfers),
            current: Mutex::new(config.clone()),
            config,
            runtime,
            files,
            key,
            publications,
            policies,
            age,
            seed,
            latencies: Mutex::default(),
            queue,
            receiving: AtomicBool::new(false),
            attached: Mutex::default(),
            originals: Mutex::default(),
            versions: Mutex::default(),
            key_lists: Mutex::default(),
            _lock: lock,
        })
    }

    // Commands.

    /// Runs a command about messages on the node's thread.
    ///
    /// # Errors
    /// [`ApiError`] if its family has no messaging, or the node is gone.
    pub(crate) fn with_messaging<R: Send + 'static>(
        &self,
        command: impl FnOnce(&mut dyn Messaging, Time) -> R + Send + 'static,
    ) -> Result<R, ApiError> {
        let done = self.runtime.call(|node, now| node.messaging().map(|messaging| command(messaging, now)))?;
        done.ok_or_else(|| {
            ApiError::usage(format!("nodes of the family '{}' neither send nor store", self.config.family()))
                .with_hint(format!("take a node with {}", Family::able(|can| can.messages)))
        })
    }

    // Questions.

    /// Notes how long the network took for an operation.
    pub(crate) fn note_latency(&self, operation: &'static str, taken: Duration) {
        self.latencies.lock().entry(operation).or_default().observe(taken.as_secs_f64());
    }
    pub(crate) fn latencies(&self) -> BTreeMap<String, LatencyView> {
        self.latencies.lock().iter().map(|(operation, view)| (operation.to_string(), view.clone())).collect()
    }
    /// Opens sealed objects with the node's key.
    pub(crate) fn opening(&self, patience: Duration) -> disk::Sealed {
        disk::Sealed::Open(Arc::new(KeyFinder {
            node: self.runtime.remote(),
            files: self.files.clone(),
            key: self.key.clone(),
            fetch: self.config.fetch.clone(),
            patience,
        }))
    }
    /// Whether the file published under a name has not changed since.
    pub(crate) fn is_unchanged(&self, name: &Name) -> bool {
        self.originals.lock().get(&name.to_string()).is_some_and(disk::Original::is_unchanged)
    }
    pub(crate) fn must_play(&self, role: Role, verb: &str) -> Result<(), ApiError> {
        if self.config.has_role(role) {
            return Ok(());
        }
        Err(ApiError::usage(format!("cannot {verb}: the node '{}' does not have the role {role}", self.config.label))
            .with_hint(format!("add \"{role}\" to roles in its [node] section")))
    }
    pub(crate) fn transfers(&self) -> Result<Vec<(TransferId, Name)>, ApiError> {
        let lives = Arc::clone(&self.runtime.lives);
        self.runtime.call(move |node, _| lives.transfers(node))
    }
    pub(crate) fn report(&self, transfer: TransferId) -> Result<Option<(Time, TransferReport)>, ApiError> {
        let lives = Arc::clone(&self.runtime.lives);
        self.runtime.call(move |node, now| lives.report(node, now, transfer).map(|report| (now, report)))
    }
    /// A transfer by its number, if the node knows it.
    pub(crate) fn transfer(&self, text: &str) -> Result<TransferId, ApiError> {
        let found = self.transfers()?.into_iter().find(|(id, _)| id.to_string() == text);
        found.map(|(id, _)| id).ok_or_else(|| {
            let message = format!("there is no transfer '{text}'");
            ApiError::new(ErrorKind::NotFound, message).with_hint("`trib status` lists the transfers")
        })
    }
}

/// The config's seed, else one that no earlier start had.
fn seed(config: &NodeConfig) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The standard library's hasher is seeded by the system at each start: entropy without another dependency.
    config.seed.unwrap_or_else(|| std::hash::RandomState::new().build_hasher().finish())
}
