//! Fetches that follow a publisher: a version that is here already is not fetched again.
use std::sync::{Arc, Mutex, PoisonError};
use tributary_content::{ChunkStore, HadStore, Manifest, Name, StoreError, StoreOpener};

/// What a fetch has found out about versions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Versions(Arc<Mutex<Found>>);

#[derive(Clone, Copy, Debug, Default)]
struct Found {
    opened: Option<u64>,
    is_had: bool,
}

impl Versions {
    /// The version that is fetched, once that is known.
    pub(crate) fn opened(&self) -> Option<u64> {
        self.found().opened
    }
    /// Whether that one is here already.
    pub(crate) fn is_had(&self) -> bool {
        self.found().is_had
    }
    fn found(&self) -> Found {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn set(&self, found: Found) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }
}

/// Opens stores for later versions only: of others it says that all is here.
pub(crate) struct LaterVersions {
    inner: Box<dyn StoreOpener>,
    than: Option<u64>,
    versions: Versions,
}
impl LaterVersions {
    /// Takes versions above `than`, or any for `None`, and tells `versions` about them.
    pub(crate) fn new(inner: Box<dyn StoreOpener>, than: Option<u64>, versions: &Versions) -> Self {
        LaterVersions { inner, than, versions: versions.clone() }
    }
}
impl StoreOpener for LaterVersions {
    fn trusts(&self, manifest: &Manifest) -> Result<(), StoreError> {
        self.inner.trusts(manifest)
    }
    fn knows_publisher(&self, name: &Name) -> bool {
        self.inner.knows_publisher(name)
    }
    fn bind_no_key(&mut self) {
        self.inner.bind_no_key();
    }
    fn resumes(&self, manifest: &Manifest) -> bool {
        self.inner.resumes(manifest)
    }
    fn open(&mut self, manifest: &Manifest) -> Result<Box<dyn ChunkStore>, StoreError> {
        let is_had = self.than.is_some_and(|than| manifest.version <= than);
        self.versions.set(Found { opened: Some(manifest.version), is_had });
        if is_had { Ok(Box::new(HadStore::new(manifest))) } else { self.inner.open(manifest) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_content::{MemoryObject, MemoryOpener, ObjectReader, SigningKey};

    #[test]
    fn only_a_later_version_is_stored() {
        let object = MemoryObject::new("/a".parse().unwrap(), vec![1; 10], &SigningKey::from_secret(&[1; 32])).unwrap();
        let manifest = object.manifest().clone();
        let version = manifest.version;
        for (than, is_had) in [(None, false), (Some(version), true), (version.checked_sub(1), false)] {
            let versions = Versions::default();
            let mut opener = LaterVersions::new(Box::new(MemoryOpener::new()), than, &versions);
            let store = opener.open(&manifest).unwrap();
            assert_eq!((versions.opened(), versions.is_had()), (Some(version), is_had), "{than:?}");
            assert_eq!(store.held().iter_set().count() == manifest.chunk_count() as usize, is_had);
        }
    }
}
