//! Keys of sealed objects, found in their lists.
use std::sync::mpsc::RecvTimeoutError;
use tributary_content::{
    ChunkStore, KeyList, Manifest, MemoryContent, MemoryOpener, Name, ObjectKey, PublicKey, SigningKey, StoreError,
    StoreOpener,
};
use tributary_core::{
    Duration, Time,
    event::{Event, TransferEvent},
};
use tributary_net::{Clock, disk::FindKey};

use super::{files::Files, runtime::Remote};
use crate::{config::FetchConfig, error::ApiError};

/// Finds the key of a sealed object: fetches the list of its keys, an object of the same publisher, and opens it with the key
/// of the node. Waits for the network, on a thread of the disk.
pub(crate) struct KeyFinder {
    pub(crate) node: Remote,
    pub(crate) files: Files,
    pub(crate) key: SigningKey,
    pub(crate) fetch: FetchConfig,
    /// How long to wait for the list.
    pub(crate) patience: Duration,
}

impl FindKey for KeyFinder {
    fn find_key(&self, manifest: &Manifest) -> Result<ObjectKey, StoreError> {
        if let Some(own) = self.files.own_key(manifest) {
            return Ok(own);
        }
        let name = &manifest.name;
        let sealed = |reason: String| StoreError::Sealed { reason: format!("'{name}' is sealed, and {reason}") };
        let list_name =
            KeyList::name_for(manifest).map_err(|error| sealed(format!("its keys have no name: {error}")))?;
        let list = self.list(&list_name, manifest.publisher);
        let list =
            list.map_err(|reason| sealed(format!("the list of its keys, '{list_name}', cannot be had: {reason}")))?;
        let list = KeyList::decode(&list).map_err(|error| sealed(format!("the list of its keys is wrong: {error}")))?;
        list.open(manifest.object_id(), &self.key).ok_or_else(|| {
            sealed(format!("this node's key is none of its readers': give its publisher {}", self.key.public()))
        })
    }
}

impl KeyFinder {
    /// Fetches a list, or returns the reason.
    fn list(&self, name: &Name, publisher: PublicKey) -> Result<Vec<u8>, String> {
        let message_of = |error: ApiError| error.message;
        let opener = ListOpener(MemoryOpener::pinned(publisher));
        let content = opener.0.content();
        let fetch = self.fetch.fetch(name.clone(), Box::new(opener), self.patience);
        let subscription = self.node.events.subscribe();
        let transfer = self.node.call(move |node, now| node.fetch(now, fetch)).map_err(message_of)?;
        let clock = Clock::new();
        // A family may find sources late; then they have the same time again.
        let deadline = Time::ZERO + self.patience + self.patience;
        loop {
            let left = clock.until(deadline).min(LOOK);
            let waited = subscription.wait(left);
            match waited {
                Err(RecvTimeoutError::Disconnected) => return Err("the node was stopped".into()),
                Ok(Event::Transfer(of, TransferEvent::Failed { reason })) if of == transfer => {
                    return Err(reason);
                }
                Ok(Event::Transfer(of, TransferEvent::Completed)) if of == transfer => {}
                // The event of its end may have been lost.
                Err(RecvTimeoutError::Timeout) => {}
                Ok(_) => continue,
            }
            if let Some(bytes) = fetched(&content, name) {
                return Ok(bytes);
            }
            let report = self.node.call(move |node, now| node.report(now, transfer)).map_err(message_of)?;
            if let Some(reason) = report.and_then(|report| report.failure) {
                return Err(reason);
            }
            if clock.until(deadline).is_zero() {
                self.node.call(move |node, now| node.cancel(now, transfer)).map_err(message_of)?;
                return Err(format!("no source has answered within {:?}", self.patience));
            }
        }
    }
}

fn fetched(content: &MemoryContent, name: &Name) -> Option<Vec<u8>> {
    content.finished(name).map(Vec::from)
}

/// Keeps a list in memory, and nothing longer than one.
struct ListOpener(MemoryOpener);

impl StoreOpener for ListOpener {
    tributary_core::forwarded! {
        this => this.0;
        fn trusts(&Self, manifest: &Manifest) -> Result<(), StoreError>;
        fn knows_publisher(&Self, name: &Name) -> bool;
        fn bind_no_key(&mut Self);
        fn resumes(&Self, manifest: &Manifest) -> bool;
    }
    fn open(&mut self, manifest: &Manifest) -> Result<Box<dyn ChunkStore>, StoreError> {
        if manifest.size > KeyList::BYTES_MAX as u64 {
            let reason = format!("'{}' has {} bytes, more than a list of keys has", manifest.name, manifest.size);
            return Err(StoreError::Sealed { reason });
        }
        self.0.open(manifest)
    }
}

/// Interval of checks for the end of a fetch in case its event is missed.
const LOOK: Duration = Duration::from_millis(200);
