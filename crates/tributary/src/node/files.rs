//! What a node keeps on disk: keys, published files, downloads.
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};
use tributary_content::{
    ByteRanges, ChunkStore, Manifest, Name, ObjectId, ObjectKey, PublicKey, SigningKey, StoreError, StoreOpener,
};
use tributary_net::disk::{
    BackgroundOpener, CacheOpener, Destination, DiskOpener, DiskOptions, Existing, KeyFileError, ObjectCache, OnOpen,
    PartOptions, Placed, Publication, PublishError, PublishOptions, Sealed, SealedPublication, Selection, Share,
    Storage, StreamOptions, Trust, TrustStore, directory_at, load_or_create_key, part::Durability, publish,
    publish_copy, publish_sealed, sealed,
};
use tributary_trust::{Believed, Keys};

use super::opening::{FetchOpener, Findings};
use crate::{
    error::{ApiError, ErrorKind},
    preflight::{file_name, into, is_folder_name, must_be_writable},
    request::{Get, Overwrite},
};

/// The files of one node.
#[derive(Clone)]
pub(crate) struct Files {
    trust: Trust,
    publish: PublishOptions,
    /// The threads that work for the node on its disk.
    pub(crate) storage: Storage,
}

/// The destination of a fetched object.
pub(crate) enum Sink {
    /// To this file or folder.
    Path(PathBuf),
    /// In order to this.
    Stream(Box<dyn Write + Send>),
    /// Into a cache, the parts that readers want.
    Cache(ObjectCache, OnOpen),
}

/// The wanted portion of an object.
#[derive(Default)]
pub(crate) struct Portion {
    /// Ranges of its bytes, to a stream.
    pub(crate) ranges: Option<ByteRanges>,
    /// A part of a folder, to a path.
    pub(crate) selection: Option<Arc<Selection>>,
    /// Who serves it while it arrives.
    pub(crate) share: Option<Share>,
}

impl Files {
    /// The files in `state_dir`, which is made for its owner only if it does not exist. Fetches believe `rules` before
    /// the keys that are remembered there.
    pub(crate) fn open(state_dir: &Path, rules: &Keys) -> Result<Self, ApiError> {
        use std::os::unix::fs::DirBuilderExt;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(state_dir).map_err(|error| {
            ApiError::io("make the state folder", state_dir.display(), &error)
                .with_hint("set 'state_dir' in [node] to a folder that you may write to")
        })?;
        let storage = Storage::default();
        let publish = PublishOptions {
            state_dir: Some(state_dir.into()),
            storage: Some(storage.clone()),
            ..PublishOptions::default()
        };
        let believed = Believed { rules: Arc::new(rules.clone()), ..Believed::default() };
        let trust = Trust::new(TrustStore::new(state_dir.join("trust")), believed);
        Ok(Files { trust, publish, storage })
    }
    /// The place of an object of this name that is fetched to `path`, as with `cp`: inside `path` if that is a folder
    /// or ends with a slash, as the last part of the name or of the path `below` it. A folder to which this object was
    /// fetched before stays the target: the next version replaces it.
    ///
    /// # Errors
    /// [`ApiError`] if the last part is no file's name, or the folder cannot be made.
    pub(crate) fn target(&self, path: &Path, name: &Name, below: Option<&str>) -> Result<PathBuf, ApiError> {
        let earlier = || directory_at(path, self.publish.state_dir.as_deref()?);
        if !is_folder_name(path) && (!path.is_dir() || earlier().is_some_and(|there| there.name == *name)) {
            return Ok(path.into());
        }
        let below = below.and_then(|below| below.rsplit('/').find(|part| !part.is_empty()));
        into(path, &below.map_or_else(|| file_name(name), |below| Ok(below.into()))?)
    }
    /// Hashes and signs a file or folder, with the web servers that have it too. `version` is the time of its last change if it is `None`.
    pub(crate) fn publish(
        &self,
        path: &Path,
        name: Name,
        version: Option<u64>,
        mirrors: &[String],
        key: &SigningKey,
    ) -> Result<Publication, ApiError> {
        let options = PublishOptions { version, mirrors: mirrors.to_vec(), ..self.publish.clone() };
        publish(path, name, key, &options)
            .map_err(|error: PublishError| ApiError::new(ErrorKind::Io, error.to_string()))
    }
    /// The same for readers only.
    pub(crate) fn publish_sealed(
        &self,
        path: &Path,
        name: Name,
        version: Option<u64>,
        key: &SigningKey,
        readers: &[PublicKey],
    ) -> Result<SealedPublication, ApiError> {
        let options = PublishOptions { version, ..self.publish.clone() };
        publish_sealed(path, name, key, readers, &options)
            .map_err(|error: PublishError| ApiError::new(ErrorKind::Io, error.to_string()))
    }
    /// What a fetch has written to `path`, to be published as its publisher signed it.
    pub(crate) fn publish_copy(&self, path: &Path) -> Result<Publication, ApiError> {
        publish_copy(path, &self.publish).map_err(|error: PublishError| ApiError::new(ErrorKind::Io, error.to_string()))
    }
    /// The key of a sealed object that this node has published itself, if it is one.
    pub(crate) fn own_key(&self, manifest: &Manifest) -> Option<ObjectKey> {
        sealed::own_key(self.publish.state_dir.as_deref()?, manifest)
    }
    /// Whom a request believes that accepts only this publisher, and only these bytes.
    pub(crate) fn trust(&self, publisher: Option<PublicKey>, object: Option<ObjectId>) -> Trust {
        self.trust.pinning(publisher, object)
    }
    /// Opens the store of a fetch on a disk thread, so that the caller does not wait; the result is in `findings`.
    pub(crate) fn opener(
        &self,
        get: &Get,
        sink: Sink,
        trust: Trust,
        sealed: Sealed,
        portion: Portion,
        findings: &Findings,
    ) -> Result<Box<dyn StoreOpener>, ApiError> {
        let destination = match sink {
            Sink::Path(path) => {
                must_be_writable(&path)?;
                Destination::Path(path)
            }
            Sink::Stream(stream) => Destination::Stream(stream),
            Sink::Cache(cache, on_open) => {
                let (snapshot, bell) = (known(&trust)?, self.storage.bell().clone());
                let inner = CacheOpener { cache, trust, sealed, bell, on_open };
                return Ok(self.in_background(get, inner, (snapshot, None), findings));
            }
        };
        let existing = match get.overwrite {
            Overwrite::EarlierFetch => Existing::EarlierFetch,
            Overwrite::Anything => Existing::Anything,
        };
        let part = PartOptions { existing, selection: portion.selection, share: portion.share, ..self.part_options() };
        let stream =
            StreamOptions { ranges: portion.ranges, bell: self.storage.bell().clone(), ..StreamOptions::default() };
        let snapshot = known(&trust)?;
        let inner = DiskOpener::new(trust, destination, DiskOptions { part, stream, sealed });
        let resumable = inner.resumable();
        Ok(self.in_background(get, inner, (snapshot, resumable), findings))
    }
    fn in_background(
        &self,
        get: &Get,
        inner: impl StoreOpener + 'static,
        known: (Trust, Option<Manifest>),
        findings: &Findings,
    ) -> Box<dyn StoreOpener> {
        let inner = FetchOpener { inner, newer_than: get.newer_than, findings: findings.clone() };
        Box::new(BackgroundOpener::new(inner, known, &self.storage))
    }
    fn part_options(&self) -> PartOptions {
        PartOptions { state_dir: self.publish.state_dir.clone(), ..PartOptions::default() }
    }
    /// Refuses to write into a folder of another publisher: `path` below `folder` is the target of an object.
    ///
    /// # Errors
    /// [`StoreError::Untrusted`] if a folder on the way belongs to another publisher.
    pub(crate) fn check_owner(&self, folder: &Path, path: &Path, manifest: &Manifest) -> Result<(), StoreError> {
        for above in path.ancestors().skip(1).take_while(|above| *above != folder) {
            let there = self.publish.state_dir.as_deref().and_then(|state_dir| directory_at(above, state_dir));
            // A removed folder has nothing left to protect; another process may have created it again.
            let is_empty = || fs::read_dir(above).is_ok_and(|mut entries| entries.next().is_none());
            if let Some(there) = there.filter(|there| there.publisher != manifest.publisher && !is_empty()) {
                let reason = format!(
                    "'{}' with a signature by {} would be written into the folder '{}' of {}; receive it into another \
                     folder if you trust both",
                    manifest.name, manifest.publisher, there.name, there.publisher
                );
                return Err(StoreError::Untrusted { reason });
            }
        }
        Ok(())
    }
    /// The store of an object that is sent to this node, in the file or folder `path`, whose parent exists. Waits for
    /// the disk.
    ///
    /// # Errors
    /// The errors of [`DiskOpener`].
    pub(crate) fn open_below(
        &self,
        path: &Path,
        trust: &Trust,
        manifest: &Manifest,
        existing: Existing,
        placed: &Placed,
    ) -> Result<Box<dyn ChunkStore>, StoreError> {
        // The senders chose the time: several versions may arrive at once. The custodian drops one when it is here.
        let part = PartOptions {
            apart: true,
            existing,
            placed: placed.clone(),
            durability: Durability::Power,
            ..self.part_options()
        };
        let options = DiskOptions { part, ..DiskOptions::default() };
        DiskOpener::new(trust.clone(), Destination::Path(path.into()), options).open(manifest)
    }
}

/// Reads or creates the publisher's key in `path`.
///
/// # Errors
/// [`ApiError`] if the file is damaged, readable by others, or cannot be read or created.
pub fn load_key(path: &Path) -> Result<SigningKey, ApiError> {
    load_or_create_key(path).map_err(|error: KeyFileError| ApiError::new(ErrorKind::Io, error.to_string()))
}

/// The same with the keys that are remembered now. Refuses a fetch before any request if they cannot be read: then no
/// key is trusted, and no publisher is to blame.
///
/// # Errors
/// [`ApiError`] names the file, and how to repair it.
pub(crate) fn known(trust: &Trust) -> Result<Trust, ApiError> {
    let hint = "it lists trusted keys; repair it, or move it away to trust the first key seen for each name again";
    trust.snapshot().map_err(|error| ApiError::from(error).with_hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_content::ChunkIndex;
    use tributary_core::Duration;
    use tributary_net::Bell;

    #[test]
    fn a_cache_remembers_the_publisher_of_verified_content_unless_several_sign_it() {
        for is_contested in [false, true] {
            let home = tempfile::tempdir().expect("a folder");
            fs::write(home.path().join("file"), b"theirs").expect("writable");
            let (trust, cache) = (TrustStore::new(home.path().join("trust")), home.path().join("cache"));
            let cache = ObjectCache::open(&cache, 1 << 20, Duration::from_secs(60)).expect("writable");
            let key = SigningKey::from_secret(&[1; 32]);
            let name: Name = "/lab/file".parse().expect("a name");
            let object = publish(&home.path().join("file"), name.clone(), &key, &PublishOptions::default());
            let mut object = object.expect("publishable").object;
            let (sealed, bell, on_open) = (Sealed::Keep, Bell::default(), Box::new(drop));
            let of_opener = Trust::new(trust.clone(), Believed::default());
            let mut opener = CacheOpener { cache, trust: of_opener, sealed, bell, on_open };
            if is_contested {
                opener.bind_no_key();
            }
            let mut store = opener.open(object.manifest()).expect("it is trusted");
            store.put_chunk(ChunkIndex(0), &object.read_chunk(ChunkIndex(0)).expect("readable")).expect("writable");
            store.finish().expect("it is whole");
            assert_eq!(trust.known(&name).expect("readable").is_none(), is_contested);
        }
    }

    #[test]
    fn nobody_writes_into_the_folder_of_another_publisher() {
        let home = tempfile::tempdir().expect("a folder");
        let (inbox, source) = (home.path().join("inbox"), home.path().join("source"));
        fs::create_dir_all(source.join("sub")).expect("writable");
        fs::write(source.join("sub/file"), b"theirs").expect("writable");
        let files = Files::open(&home.path().join("state"), &Keys::new()).expect("writable");
        let keys = [1, 2].map(|byte| SigningKey::from_secret(&[byte; 32]));
        // As a sender with that key sends it.
        let arrive = |name: &str, key: &SigningKey| {
            let path = if name == "/lab/tree" { &source } else { &source.join("sub/file") };
            let options = PublishOptions { version: Some(1), ..PublishOptions::default() };
            let mut object = publish(path, name.parse().expect("a name"), key, &options).expect("publishable").object;
            let manifest = object.manifest().clone();
            let to = inbox.join(&name[1..]);
            fs::create_dir_all(to.parent().expect("it is below")).expect("writable");
            files.check_owner(&inbox, &to, &manifest)?;
            let placed = Placed::default();
            let mut store = files.open_below(
                &to,
                &files.trust(None, None).for_senders(),
                &manifest,
                Existing::EarlierFetchOrNumber,
                &placed,
            )?;
            for index in (0..).map(ChunkIndex).take_while(|index| index.0 < manifest.chunk_count()) {
                store.put_chunk(index, &object.read_chunk(index)?)?;
            }
            store.finish()
        };
        arrive("/lab/tree", &keys[0]).expect("nothing is there");
        for name in ["/lab/tree/more", "/lab/tree/sub/file", "/lab/tree/new/file"] {
            let refused = arrive(name, &keys[1]).expect_err("it is another's folder").to_string();
            assert!(refused.contains("'/lab/tree' of") && refused.contains("another folder"), "{refused}");
        }
        assert_eq!(fs::read(inbox.join("lab/tree/sub/file")).expect("it is there"), b"theirs");
        arrive("/lab/tree-2/file", &keys[1]).expect("beside it");
        fs::remove_dir_all(inbox.join("lab/tree")).expect("it is there");
        arrive("/lab/tree/more", &keys[1]).expect("the other folder is gone");
    }
}
