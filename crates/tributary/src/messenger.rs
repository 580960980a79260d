//! Messages for programs: send, receive, get, attach and detach, all in memory (paper MFTP §4).
//!
//! ```no_run
//! use tributary::{LocalApi, NodeConfig, messenger::{Messenger, MessengerOptions}};
//! use tributary_core::Duration;
//! use tributary_transport::messaging::{Reliability, Destination, SendOptions};
//! let api = std::sync::Arc::new(LocalApi::start(NodeConfig::load("sensor.toml".as_ref())?)?);
//! let messenger = Messenger::open(api, &["/home/sensor".parse().unwrap()], MessengerOptions::default())?;
//! let to = Destination::Name("/home/hub".parse().unwrap());
//! let options = SendOptions { reliability: Some(Reliability::DontCare), ..SendOptions::default() };
//! messenger.send("/home/sensor/temperature".parse().unwrap(), "21.5", &to, &options)?;
//! while let Some(message) = messenger.next(Duration::from_secs(1)) {
//!     println!("{}: {} bytes", message.name, message.bytes.len());
//! }
//! # Ok::<(), tributary::ApiError>(())
//! ```
use bytes::Bytes;
use parking_lot::Mutex;
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
};
use tributary_content::{
    ChunkStore, Manifest, MemoryContent, MemoryObject, MemoryOpener, Name, ObjectKind, PublicKey, StoreError,
    StoreOpener,
};
use tributary_core::{Duration, Time, TransferId};
use tributary_net::{
    Clock,
    disk::{HookedStore, StoreHooks},
};
use tributary_transport::messaging::{AcceptOptions, Destination, GetOptions, SendOptions, SendReport};

use crate::{
    error::{ApiError, ErrorKind},
    families::Credential,
    local::LocalApi,
    operations::is_dropped,
};

/// How often the progress of a fetch is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Bytes of a chunk of a message's object.
const CHUNK_BYTES: u32 = 1 << 16;

/// A verified object that was sent to this node.
#[derive(Clone, PartialEq, Debug)]
pub struct Message {
    /// Its name.
    pub name: Name,
    /// Its version.
    pub version: u64,
    /// The key that signed it.
    pub publisher: PublicKey,
    /// Its content.
    pub bytes: Bytes,
}

tributary_core::declared! {
    /// Which messages are accepted, sent or fetched.
    #[derive(Clone, Debug)]
    pub struct MessengerOptions {
        /// The only publisher's key to trust; `None` trusts the only key that signs a name.
        pub publisher: Option<PublicKey> = None,
        /// Maximum bytes of a message. Default: 64 MiB.
        pub message_bytes_max: u64 = 64 << 20,
        /// How long to wait for the next packet of a message before missing chunks are reported; `None` uses the node's
        /// config.
        pub nack_timeout: Option<Duration> = None,
    }
}

/// Sends and receives the messages of one node. Dropping it stops receiving and detaches from its names.
pub struct Messenger {
    api: Arc<LocalApi>,
    id: String,
    options: MessengerOptions,
    names: Mutex<BTreeSet<Name>>,
    arrived: Mutex<Receiver<Message>>,
    versions: AtomicU64,
}
impl Messenger {
    /// Receives objects sent to this node and to `names`.
    ///
    /// # Errors
    /// [`ApiError`] if the node's family has no messages, or another receiver is active.
    pub fn open(api: Arc<LocalApi>, names: &[Name], options: MessengerOptions) -> Result<Messenger, ApiError> {
        let accept = AcceptOptions { nack_timeout: options.nack_timeout };
        accept.check().map_err(ApiError::usage)?;
        if api.node.receiving.swap(true, Ordering::SeqCst) {
            return Err(ApiError::usage("another receiver takes this node's messages already"));
        }
        let (sender, arrived) = channel();
        let acceptor = Acceptor { options: options.clone(), sender };
        let attach = names.to_vec();
        let done = api.node.with_messaging(move |messaging, now| {
            messaging.accept(now, Some(Box::new(acceptor)), &accept);
            attach.iter().for_each(|name| messaging.attach(now, name));
        });
        let id = done.and_then(|()| api.node.status());
        let id = id.inspect_err(|_| api.node.receiving.store(false, Ordering::SeqCst))?;
        let id = id.resolver.into_iter().find(|(subject, _)| subject == "guid").map(|(_, guid)| guid);
        let versions = AtomicU64::new(1);
        let id = id.unwrap_or_default();
        let names = Mutex::new(names.iter().cloned().collect());
        Ok(Messenger { api, id, options, names, arrived: Mutex::new(arrived), versions })
    }
    /// Attaches to `name`, until [`Messenger::detach`] or the end of the messenger.
    ///
    /// # Errors
    /// [`ApiError`] if the node is gone.
    pub fn attach(&self, name: &Name) -> Result<(), ApiError> {
        self.names.lock().insert(name.clone());
        let name = name.clone();
        self.api.node.with_messaging(move |messaging, now| messaging.attach(now, &name))
    }
    /// Detaches from `name`.
    ///
    /// # Errors
    /// [`ApiError`] if the node is gone.
    pub fn detach(&self, name: &Name) -> Result<(), ApiError> {
        self.names.lock().remove(name);
        let name = name.clone();
        self.api.node.with_messaging(move |messaging, now| messaging.detach(now, &name))
    }
    /// Fetches the object published under `name`, under the same conditions as received messages: verified, of a
    /// trusted publisher, and not too long.
    ///
    /// # Errors
    /// [`ApiError`] if it does not arrive within `patience`, or breaks a condition.
    pub fn get(&self, name: &Name, options: &GetOptions, patience: Duration) -> Result<Message, ApiError> {
        let (sender, arrived) = channel();
        let opener = Acceptor { options: self.options.clone(), sender };
        let fetch = self.api.config().fetch.fetch(name.clone(), Box::new(opener), patience);
        let options = *options;
        let transfer = self.api.node.with_messaging(move |messaging, now| messaging.get(now, fetch, &options))?;
        let transfer = transfer.map_err(ApiError::usage)?;
        let clock = Clock::new();
        let failed =
            |reason: String| Err(ApiError::new(ErrorKind::Incomplete, format!("cannot fetch '{name}': {reason}")));
        loop {
            if let Ok(message) = arrived.recv_timeout(POLL_INTERVAL) {
                return Ok(message);
            }
            let report = self.api.node.runtime.call(move |node, now| node.report(now, transfer))?;
            if let Some(reason) = report.and_then(|report| report.failure) {
                return failed(reason);
            }
            if clock.now().since(Time::ZERO) >= patience {
                self.api.node.runtime.call(move |node, now| node.cancel(now, transfer))?;
                return failed(format!("it is incomplete after {patience:?}"));
            }
        }
    }
    /// The identifier that other devices may send to.
    pub fn id(&self) -> &str {
        &self.id
    }
    /// The node.
    pub fn api(&self) -> &LocalApi {
        &self.api
    }
    /// The proof that this device signs the messenger's messages.
    pub fn credential(&self) -> Credential {
        let credential = self.api.config().settings.of_family().credential(&self.api.publisher());
        credential.expect("a family with messages has devices with keys")
    }
    /// Sends `bytes` under `name`, with a version that increases by one each time.
    ///
    /// # Errors
    /// [`ApiError`] if it cannot be sent; its result is in [`Messenger::report`].
    pub fn send(
        &self,
        name: Name,
        bytes: impl Into<Bytes>,
        to: &Destination,
        options: &SendOptions,
    ) -> Result<TransferId, ApiError> {
        let cannot = |reason: String| ApiError::usage(format!("cannot send a message: {reason}"));
        let version = self.versions.fetch_add(1, Ordering::Relaxed);
        let key = &self.api.node.key;
        let object = MemoryObject::with_options(name, bytes, key, version, ObjectKind::File, CHUNK_BYTES);
        let object = Box::new(object.map_err(|error| cannot(error.to_string()))?);
        let (to, options) = (to.clone(), options.clone());
        let sent = self.api.node.with_messaging(move |messaging, now| messaging.send(now, object, &to, &options))?;
        sent.map_err(|error| cannot(error.to_string()))
    }
    /// The state of a message that was sent; `None` if the node has forgotten it.
    ///
    /// # Errors
    /// [`ApiError`] if the node is gone.
    pub fn report(&self, transfer: TransferId) -> Result<Option<SendReport>, ApiError> {
        self.api.node.with_messaging(move |messaging, now| messaging.send_report(now, transfer))
    }
    /// Whether a message was dropped: its receiver was absent, and routers were not to store it.
    pub fn is_dropped(report: &SendReport) -> bool {
        is_dropped(report)
    }
    /// The states of several messages, in their order; `None` for those that the node has forgotten.
    ///
    /// # Errors
    /// [`ApiError`] if the node is gone.
    pub fn reports(&self, transfers: &[TransferId]) -> Result<Vec<Option<SendReport>>, ApiError> {
        let transfers = transfers.to_vec();
        self.api.node.with_messaging(move |messaging, now| {
            transfers.into_iter().map(|transfer| messaging.send_report(now, transfer)).collect()
        })
    }
    /// Stops sending some messages.
    ///
    /// # Errors
    /// [`ApiError`] if the node is gone.
    pub fn cancel(&self, transfers: &[TransferId]) -> Result<(), ApiError> {
        let transfers = transfers.to_vec();
        self.api.node.with_messaging(move |messaging, now| {
            transfers.into_iter().for_each(|transfer| messaging.cancel_send(now, transfer));
        })
    }
    /// The next message; `None` if none arrives within `patience`.
    pub fn next(&self, patience: Duration) -> Option<Message> {
        let arrived = self.arrived.lock();
        arrived.recv_timeout(patience).ok()
    }
}
impl Drop for Messenger {
    fn drop(&mut self) {
        let names = std::mem::take(&mut *self.names.lock());
        // A stopped node receives no messages either.
        let _ = self.api.node.with_messaging(move |messaging, now| {
            messaging.accept(now, None, &AcceptOptions::default());
            names.iter().for_each(|name| messaging.detach(now, name));
        });
        self.api.node.receiving.store(false, Ordering::SeqCst);
    }
}

struct Acceptor {
    options: MessengerOptions,
    sender: Sender<Message>,
}
impl StoreOpener for Acceptor {
    fn trusts(&self, manifest: &Manifest) -> Result<(), StoreError> {
        let refused = |reason: String| StoreError::Io { operation: "take", path: manifest.name.to_string(), reason };
        if self.options.publisher.is_some_and(|key| key != manifest.publisher) {
            return Err(refused(format!("it is signed by {}", manifest.publisher)));
        }
        if manifest.size > self.options.message_bytes_max || manifest.kind != ObjectKind::File {
            return Err(refused(format!("a message has at most {} bytes", self.options.message_bytes_max)));
        }
        Ok(())
    }
    fn resumes(&self, _: &Manifest) -> bool {
        false
    }
    fn open(&mut self, manifest: &Manifest) -> Result<Box<dyn ChunkStore>, StoreError> {
        self.trusts(manifest)?;
        let mut opener = MemoryOpener::new();
        let content = opener.content();
        let inner = opener.open(manifest)?;
        let hooks = Arrival { manifest: manifest.clone(), content, sender: self.sender.clone() };
        Ok(Box::new(HookedStore { inner, hooks }))
    }
}

/// Passes a message on once its object is complete.
struct Arrival {
    manifest: Manifest,
    content: MemoryContent,
    sender: Sender<Message>,
}
impl StoreHooks for Arrival {
    fn after_finish(&mut self) {
        if let Some(bytes) = self.content.finished(&self.manifest.name) {
            let Manifest { name, version, publisher, .. } = self.manifest.clone();
            // The receiver is gone if the messenger was dropped.
            let _ = self.sender.send(Message { name, version, publisher, bytes });
        }
    }
}
