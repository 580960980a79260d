//! Trust and destination in one.
use parking_lot::Mutex;
use std::{fmt, io::Write, path::PathBuf, sync::Arc};
use tributary_content::{ChunkStore, Manifest, Name, ObjectKey, ObjectKind, PublicKey, StoreError, StoreOpener};

use super::{
    PartFile, PartOptions, Storage, StreamOptions, StreamStore, Trust,
    hooked_store::{HookedStore, StoreHooks},
    part::Leftover,
    refusal,
};

/// The destination of a fetched object.
pub enum Destination {
    /// To this path, by way of a [`PartFile`].
    Path(PathBuf),
    /// In order to this writer, through a [`StreamStore`]. It can be opened once.
    Stream(Box<dyn Write + Send>),
}
/// How a [`DiskOpener`] decides and stores.
#[derive(Clone, Default)]
pub struct DiskOptions {
    /// For a [`Destination::Path`].
    pub part: PartOptions,
    /// For a [`Destination::Stream`].
    pub stream: StreamOptions,
    /// How to treat sealed objects.
    pub sealed: Sealed,
}

/// How to treat sealed objects.
#[derive(Clone, Default)]
pub enum Sealed {
    /// Their sealed bytes are kept, as a mirror does.
    #[default]
    Keep,
    /// They are opened.
    Open(Arc<dyn FindKey>),
}
impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sealed::Keep => "Keep",
            Sealed::Open(_) => "Open",
        })
    }
}

/// Finds the keys of sealed objects.
pub trait FindKey: Send + Sync {
    /// The key of the sealed object of `manifest`. May wait for the network.
    ///
    /// # Errors
    /// [`StoreError::Sealed`] if this reader has no key, or the key list cannot be fetched.
    fn find_key(&self, manifest: &Manifest) -> Result<ObjectKey, StoreError>;
}

/// Opens the store of one fetch on this machine.
pub struct DiskOpener {
    trust: Trust,
    destination: Option<Destination>,
    options: DiskOptions,
    prepared: Option<(Manifest, PartFile)>,
    /// The key that was found last.
    found: Option<(Manifest, ObjectKey)>,
}

impl DiskOpener {
    /// Fetches to `destination` what `trust` believes.
    pub fn new(trust: Trust, destination: Destination, options: DiskOptions) -> Self {
        DiskOpener { trust, destination: Some(destination), options, prepared: None, found: None }
    }
    /// The key of a sealed object, if it should be opened.
    fn key_of(&mut self, manifest: &Manifest) -> Result<Option<ObjectKey>, StoreError> {
        let keys = match &self.options.sealed {
            Sealed::Open(keys) if manifest.is_sealed => keys,
            Sealed::Open(_) | Sealed::Keep => return Ok(None),
        };
        // It may come over the network: a repeated opening does not fetch it again.
        if let Some((_, key)) = self.found.as_ref().filter(|(of, _)| of == manifest) {
            return Ok(Some(key.clone()));
        }
        let key = keys.find_key(manifest)?;
        self.found = Some((manifest.clone(), key.clone()));
        Ok(Some(key))
    }
    /// The manifest of an interrupted fetch at the destination that can be resumed.
    pub fn resumable(&self) -> Option<Manifest> {
        match &self.destination {
            Some(Destination::Path(target)) => {
                PartFile::interrupted(target).filter(|manifest| PartFile::resumes(target, manifest))
            }
            Some(Destination::Stream(_)) | None => None,
        }
    }
    /// Verifies the remains of an interrupted fetch at the destination, and returns its manifest; `None` if there are
    /// none.
    ///
    /// Optional: [`StoreOpener::open`] does it as well, but then its caller waits for it, a second for every few
    /// gigabytes.
    ///
    /// # Errors
    /// Errors of [`PartFile::open`].
    pub fn prepare(&mut self) -> Result<Option<Manifest>, StoreError> {
        let Some(Destination::Path(target)) = &self.destination else { return Ok(None) };
        let target = target.clone();
        let Some(manifest) = PartFile::interrupted(&target) else { return Ok(None) };
        self.prepared = None;
        if !PartFile::resumes(&target, &manifest) {
            return Ok(None);
        }
        let part = PartOptions { key: self.key_of(&manifest)?, ..self.options.part.clone() };
        let part = PartFile::open(&target, &manifest, &part)?;
        self.prepared = Some((manifest.clone(), part));
        Ok(Some(manifest))
    }
}

/// Opens stores on a thread of [`Storage`], so that the node waits for no disk. `inner` decides again from the state of
/// the disk at that time.
pub struct BackgroundOpener<O> {
    trust: Trust,
    resumable: Option<Manifest>,
    inner: Arc<Mutex<O>>,
    storage: Storage,
}

impl<O: StoreOpener + 'static> BackgroundOpener<O> {
    /// Opens by `inner`; questions before that are answered from a snapshot of the trusted keys, and from the remains of
    /// an interrupted fetch.
    pub fn new(inner: O, (trust, resumable): (Trust, Option<Manifest>), storage: &Storage) -> Self {
        BackgroundOpener { trust, resumable, inner: Arc::new(Mutex::new(inner)), storage: storage.clone() }
    }
}
impl<O: StoreOpener + 'static> StoreOpener for BackgroundOpener<O> {
    fn trusts(&self, manifest: &Manifest) -> Result<(), StoreError> {
        self.trust.check(manifest)
    }
    fn knows_publisher(&self, name: &Name) -> bool {
        self.trust.knows(name)
    }
    fn certify(&mut self, publisher: PublicKey) {
        self.trust.certify(publisher);
        self.inner.lock().certify(publisher);
    }
    fn bind_no_key(&mut self) {
        self.inner.lock().bind_no_key();
    }
    fn resumes(&self, manifest: &Manifest) -> bool {
        self.resumable.as_ref().is_some_and(|left| manifest.continues(left))
    }
    fn open(&mut self, manifest: &Manifest) -> Result<Box<dyn ChunkStore>, StoreError> {
        self.trusts(manifest)?;
        let (inner, wanted) = (Arc::clone(&self.inner), manifest.clone());
        let open = move || inner.lock().open(&wanted);
        Ok(Box::new(self.storage.open_store(manifest, open)?))
    }
}
impl StoreOpener for DiskOpener {
    fn trusts(&self, manifest: &Manifest) -> Result<(), StoreError> {
        self.trust.check(manifest)
    }
    fn knows_publisher(&self, name: &Name) -> bool {
        self.trust.knows(name)
    }
    fn certify(&mut self, publisher: PublicKey) {
        self.trust.certify(publisher);
    }
    fn bind_no_key(&mut self) {
        self.trust.bind_no_key();
    }
    fn resumes(&self, manifest: &Manifest) -> bool {
        match &self.destination {
            Some(Destination::Path(target)) => PartFile::resumes(target, manifest),
            Some(Destination::Stream(_)) | None => false,
        }
    }
    fn open(&mut self, manifest: &Manifest) -> Result<Box<dyn ChunkStore>, StoreError> {
        self.trusts(manifest)?;
        let leftover = if self.knows_publisher(&manifest.name) { Leftover::StartAnew } else { Leftover::Refuse };
        let part = PartOptions { leftover, key: self.key_of(manifest)?, ..self.options.part.clone() };
        let stream = std::path::Path::new("-");
        let inner: Box<dyn ChunkStore> = match &self.destination {
            // A store prepared for another object is closed, and its lock released, before the part is opened again.
            Some(Destination::Path(target)) => {
                let prepared = self.prepared.take().filter(|(prepared, _)| prepared == manifest);
                match prepared {
                    Some((_, part)) => Box::new(part),
                    None => PartFile::open_unless_there(target, manifest, &part)?,
                }
            }
            Some(Destination::Stream(_))
                if part.selection.is_some() || part.kind(manifest) == ObjectKind::Directory =>
            {
                return Err(refusal(
                    "write",
                    stream,
                    format!("'{}' is a directory; fetch it to a path", manifest.name),
                ));
            }
            Some(Destination::Stream(_)) => {
                let Some(Destination::Stream(out)) = self.destination.take() else {
                    unreachable!("the match says that it is a stream")
                };
                Box::new(StreamStore::new(manifest, out, self.options.stream.clone(), part.key.as_ref())?)
            }
            None => return Err(refusal("write", stream, "an object was written to it already")),
        };
        let hooks = Remember { trust: self.trust.clone(), manifest: manifest.clone() };
        Ok(Box::new(HookedStore { inner, hooks }))
    }
}

/// Binds a name to the key of its publisher when every chunk of an object under that key is verified, just before the
/// object gets its final name. An announcement alone binds nothing: a forger who cannot serve the object leaves no
/// trace, and cannot shut the true publisher out later.
pub(super) struct Remember {
    pub(super) trust: Trust,
    pub(super) manifest: Manifest,
}
impl StoreHooks for Remember {
    fn before_finish(&mut self) -> Result<(), StoreError> {
        // Another fetch may have bound the name to another key since the start: then this object does not get its name.
        self.trust.check_and_remember(&self.manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::TrustStore;
    use crate::disk::fixtures::{
        CHUNK, believing, directory, key, names, object, object_of, pattern, put, put_missing,
    };
    use std::{collections::BTreeMap, fs, io};
    use tributary_content::{ChunkIndex, MemoryObject, ObjectReader, SigningKey};

    #[test]
    fn a_fetch_to_a_path_resumes_and_remembers_the_key() {
        let (directory, mut published) = (directory(), object(3000));
        let (target, trust) = (directory.path().join("out"), TrustStore::new(directory.path().join("trust")));
        let make =
            || DiskOpener::new(believing(&trust, None), Destination::Path(target.clone()), DiskOptions::default());
        let mut opener = make();
        assert_eq!(opener.trusts(published.manifest()), Ok(()));
        assert_eq!(trust.ask(BTreeMap::len), Ok(0));
        let mut store = opener.open(published.manifest()).expect("nothing speaks against it");
        let chunk = published.read_chunk(ChunkIndex(2)).expect("published");
        store.put_chunk(ChunkIndex(2), &chunk).expect("there is room");
        drop(store);
        assert!(make().resumes(published.manifest()));
        let mut store = make().open(published.manifest()).expect("it is ours");
        assert_eq!(store.held().count(), 1);
        put_missing(&mut *store, &mut published);
        assert_eq!(trust.ask(BTreeMap::len), Ok(0));
        store.finish().expect("all is there");
        assert!(fs::read(&target).expect("there") == *published.bytes());

        let other = object_of(&pattern(3000), "/x", 1, &SigningKey::from_secret(&[8; 32]));
        assert!(matches!(make().open(other.manifest()), Err(StoreError::Untrusted { .. })));
        assert_eq!(names(directory.path()), ["out", "trust", "trust.lock"], "who is not trusted leaves no trace");
        let pinned = believing(&trust, Some(other.manifest().publisher));
        let mut pinned = DiskOpener::new(pinned, Destination::Path(target.clone()), DiskOptions::default());
        assert!(pinned.open(published.manifest()).is_err());
        assert!(pinned.open(other.manifest()).is_ok());
    }

    #[test]
    fn what_was_prepared_is_used_for_its_object_and_closed_for_another() {
        let (directory, mut published) = (directory(), object(3000));
        let target = directory.path().join("out");
        let make = || {
            let trust = TrustStore::new(directory.path().join("trust"));
            DiskOpener::new(believing(&trust, None), Destination::Path(target.clone()), DiskOptions::default())
        };
        assert_eq!(make().prepare(), Ok(None));
        assert_eq!(names(directory.path()), [""; 0]);
        let mut store = make().open(published.manifest()).expect("nothing speaks against it");
        put(&mut *store, &mut published, 1);
        drop(store);

        let mut opener = make();
        assert_eq!(opener.prepare(), Ok(Some(published.manifest().clone())));
        assert_eq!(opener.prepare(), Ok(Some(published.manifest().clone())), "asking twice does no harm");
        // Bytes that change after they were verified show that they are not read again.
        let part = PartFile::unfinished_at(&target).expect("it has a name").join("part");
        fs::write(part, [0; 3000]).expect("writable");
        let store = opener.open(published.manifest()).expect("it is ours");
        assert!(store.held().iter_set().eq([1]));
        drop(store);

        let mut store = make().open(published.manifest()).expect("it is ours");
        assert_eq!(store.held().count(), 0);
        put(&mut *store, &mut published, 0);
        drop(store);
        let mut opener = make();
        assert!(opener.prepare().is_ok_and(|prepared| prepared.is_some()));
        let same = object_of(&pattern(3000), "/x", 2, &key());
        let store = opener.open(same.manifest()).expect("the lock is free");
        assert_eq!(store.held().count(), 1, "the bytes are the same");
        drop(store);
        let newer = object_of(&pattern(2999), "/x", 3, &key());
        let store = make().open(newer.manifest()).expect("the lock is free");
        assert_eq!(store.held().count(), 0);
    }

    #[test]
    fn a_fetch_that_cannot_start_binds_no_key_to_the_name() {
        let (directory, published) = (directory(), object(3000));
        let trust = TrustStore::new(directory.path().join("trust"));
        let target = directory.path().join("missing/out");
        let mut opener = DiskOpener::new(believing(&trust, None), Destination::Path(target), DiskOptions::default());
        assert!(opener.open(published.manifest()).is_err());
        assert_eq!(trust.ask(BTreeMap::len), Ok(0));
    }

    /// Two forged announcements that are never served whole, and then the true publisher.
    #[test]
    fn forged_announcements_that_are_never_served_bind_no_key_and_block_no_fetch() {
        let (directory, mut published) = (directory(), object(3000));
        let trust = TrustStore::new(directory.path().join("trust"));
        let target = directory.path().join("out");
        let make = |publisher| {
            let trust = believing(&trust, publisher);
            DiskOpener::new(trust, Destination::Path(target.clone()), DiskOptions::default())
        };
        for secret in [8, 9] {
            let mut forged = object_of(&pattern(2999), "/x", 1, &SigningKey::from_secret(&[secret; 32]));
            let pinned = (secret == 9).then_some(forged.manifest().publisher);
            let mut store = make(pinned).open(forged.manifest()).expect("nothing is known of the name");
            put(&mut *store, &mut forged, 0);
        }
        assert_eq!(trust.ask(BTreeMap::len), Ok(0));
        let refused = make(None).open(published.manifest()).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains("--publisher"), "what lies there is another's, and nobody is known: {refused}");
        let mut store = make(Some(published.manifest().publisher)).open(published.manifest()).expect("it is pinned");
        assert_eq!(store.held().count(), 0);
        put_missing(&mut *store, &mut published);
        store.finish().expect("all is there");
        assert_eq!(trust.known(&published.manifest().name), Ok(Some(published.manifest().publisher)));
    }

    #[test]
    fn of_two_fetches_of_one_name_the_first_complete_one_binds_the_key() {
        let (directory, mut ours) = (directory(), object(3000));
        let mut theirs = object_of(&pattern(3000), "/x", 1, &SigningKey::from_secret(&[8; 32]));
        let trust = TrustStore::new(directory.path().join("trust"));
        let open = |file: &str, manifest: &Manifest| {
            let target = Destination::Path(directory.path().join(file));
            DiskOpener::new(believing(&trust, None), target, DiskOptions::default())
                .open(manifest)
                .expect("nobody is known")
        };
        let (mut first, mut second) = (open("a", theirs.manifest()), open("b", ours.manifest()));
        put_missing(&mut *first, &mut theirs);
        put_missing(&mut *second, &mut ours);
        second.finish().expect("all is there");
        assert!(matches!(first.finish(), Err(StoreError::Untrusted { .. })));
        assert_eq!(
            fs::metadata(directory.path().join("a")).map_err(|error| error.kind()).err(),
            Some(io::ErrorKind::NotFound)
        );
    }

    #[test]
    fn a_stream_is_opened_once_and_never_for_a_directory() {
        let (directory, published) = (directory(), object(3000));
        let trust = TrustStore::new(directory.path().join("trust"));
        let stream = Destination::Stream(Box::new(io::sink()));
        let mut opener = DiskOpener::new(believing(&trust, None), stream, DiskOptions::default());
        let (name, kind) = ("/tree".parse().expect("a name"), ObjectKind::Directory);
        let tree = MemoryObject::with_options(name, pattern(20), &key(), 1, kind, CHUNK).expect("legal");
        let refused = opener.open(tree.manifest()).err().map(|error| error.to_string());
        assert_eq!(refused.as_deref(), Some("cannot write '-': '/tree' is a directory; fetch it to a path"));
        assert!(opener.open(published.manifest()).is_ok());
        assert!(opener.open(published.manifest()).is_err());
    }
}
