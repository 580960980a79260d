//! Paths below a name: which folder above a name has it.
//!
//! A name that nobody offers may be a path in a folder that somebody publishes under a shorter name. The names above it are
//! looked up, which moves their manifests and no more.
use std::sync::{Arc, Mutex, PoisonError};

use tributary_content::{ChunkStore, HadStore, Manifest, Name, ObjectKind, PublicKey, StoreError, StoreOpener};
use tributary_core::{Time, TransferId};
use tributary_net::disk::Questions;
use tributary_transport::Fetch;

use crate::{
    api::Flow,
    error::{ApiError, ErrorKind},
    node::LocalNode,
    notice::Notice,
    request::{FolderPart, Get, Output},
};

/// Names above a name that are looked up at most.
const LEVELS_MAX: usize = 8;
/// How long a fetch goes without a source before the names above its own are looked up: whoever names an object that
/// there is does not wait for them.
pub(super) const LOOK_AFTER: Time = Time::from_millis(300);

/// The names above one, as they are looked up.
pub(super) struct Above<'a> {
    node: &'a LocalNode,
    looks: Vec<(TransferId, Name, Found)>,
}
type Found = Arc<Mutex<Option<Manifest>>>;

/// A folder and a path in it, and the only publisher that is believed about them.
pub(super) type Within = ((Name, String), Option<PublicKey>);

/// Whom to believe about the folders above a name.
#[derive(Clone, Copy)]
pub(super) enum Keys {
    /// Whoever is believed about a folder by its own name.
    Any,
    /// The key that the fetch is pinned to.
    Pinned(PublicKey),
    /// The key that is remembered for the name: a folder of somebody else is no way around it.
    Remembered(PublicKey),
}
impl Keys {
    /// The only publisher that is believed, if there is one.
    pub(super) fn only(self) -> Option<PublicKey> {
        match self {
            Keys::Any => None,
            Keys::Pinned(key) | Keys::Remembered(key) => Some(key),
        }
    }
}

impl LocalNode {
    /// Whom to believe about the folders above `name`, of which the fetch pins `publisher`.
    pub(super) fn keys_above(&self, publisher: Option<PublicKey>, name: &Name) -> Result<Keys, ApiError> {
        Ok(match publisher {
            Some(key) => Keys::Pinned(key),
            None => self.files.known_key(name)?.map_or(Keys::Any, Keys::Remembered),
        })
    }
    /// Begins to look for the folder that has the path `name`.
    pub(super) fn look_above(&self, name: &Name, keys: Keys) -> Result<Above<'_>, ApiError> {
        let mut above = Above { node: self, looks: Vec::new() };
        for len in (1..name.len()).rev().take(LEVELS_MAX) {
            let (name, found) = (name.prefix(len), Found::default());
            if let Keys::Remembered(key) = keys
                && self.files.known_key(&name)?.is_some_and(|known| known != key)
            {
                // Only a person may put another key in place of the folder's own.
                continue;
            }
            let opener = Look { questions: self.files.questions(keys.only())?, found: Arc::clone(&found) };
            let fetch = Fetch {
                name: name.clone(),
                opener: Box::new(opener),
                rate_limit: None,
                paths_per_source: self.config().fetch.paths_per_source,
                metric: self.config().fetch.metric,
                patience: Some(self.config().fetch.patience),
            };
            let transfer = self.runtime.call(move |node, now| node.fetch(now, fetch))?;
            above.looks.push((transfer, name, found));
        }
        Ok(above)
    }
    /// Fetches the part of a folder that the name of `get` is a path of.
    pub(super) fn get_within(
        &self,
        get: &Get,
        (folder, below): (Name, String),
        only: Option<PublicKey>,
        notify: &mut dyn FnMut(Notice) -> Flow,
    ) -> Result<(), ApiError> {
        if get.output == Output::Stream {
            let message = format!("cannot fetch '{}' to a stream: it is a part of the folder '{folder}'", get.name);
            return Err(ApiError::new(ErrorKind::Usage, message).with_hint("fetch it to a file or folder with -o"));
        }
        notify(Notice::Note { text: format!("'{}' is looked for in the folder '{folder}'", get.name) });
        let part = FolderPart { below: Some(below), ..get.part.clone() };
        // A certificate names its key.
        let publisher = get.publisher.clone().or_else(|| only.map(|key| key.to_string()));
        self.get_to_path(&Get { name: folder.to_string(), part, publisher, ..get.clone() }, notify)
    }
}

impl Above<'_> {
    /// The folder that was found, of several the one with the longest name, and the path in it.
    pub(super) fn found(&self, name: &Name) -> Option<(Name, String)> {
        let is_folder = |found: &Found| {
            let manifest = found.lock().unwrap_or_else(PoisonError::into_inner);
            manifest.as_ref().is_some_and(|manifest| manifest.kind == ObjectKind::Directory)
        };
        let (_, folder, _) = self.looks.iter().find(|(_, _, found)| is_folder(found))?;
        let parts: Option<Vec<&str>> =
            name.components().skip(folder.len()).map(|part| std::str::from_utf8(part).ok()).collect();
        Some((folder.clone(), parts?.join("/")))
    }
}
impl Drop for Above<'_> {
    fn drop(&mut self) {
        for (transfer, ..) in self.looks.drain(..) {
            // A node that has ended has none.
            let _ = self.node.runtime.call(move |node, now| node.cancel(now, transfer));
        }
    }
}

/// Takes note of the manifest of an object, and says that all of it is here.
struct Look {
    questions: Questions,
    found: Found,
}
impl StoreOpener for Look {
    fn trusts(&self, manifest: &Manifest) -> Result<(), StoreError> {
        self.questions.trusts(manifest)
    }
    fn resumes(&self, _: &Manifest) -> bool {
        false
    }
    fn open(&mut self, manifest: &Manifest) -> Result<Box<dyn ChunkStore>, StoreError> {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(manifest.clone());
        Ok(Box::new(HadStore::new(manifest)))
    }
}
