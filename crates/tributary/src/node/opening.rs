//! Opens the store of a fetch and records the version, the mirrors and refusals.
use parking_lot::Mutex;
use std::sync::Arc;
use tributary_content::{ChunkStore, HadStore, Manifest, Name, ObjectKind, PublicKey, StoreError, StoreOpener};
use tributary_net::disk::{HookedStore, StoreHooks};

/// Facts about the object of a fetch. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings(Arc<Mutex<Found>>);

#[derive(Debug, Default)]
struct Found {
    version: Option<u64>,
    is_had: bool,
    mirrors: Vec<String>,
    refusal: Option<StoreError>,
}

impl Findings {
    /// The version of the object, once its manifest has arrived.
    pub(crate) fn version(&self) -> Option<u64> {
        self.0.lock().version
    }
    /// Whether this node already has that version, so that it fetches nothing.
    pub(crate) fn is_had(&self) -> bool {
        self.0.lock().is_had
    }
    /// Takes the web servers that the publisher names.
    pub(crate) fn take_mirrors(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().mirrors)
    }
    /// Takes the first refusal of the disk: it explains a failure better than the network does.
    pub(crate) fn take_refusal(&self) -> Option<StoreError> {
        self.0.lock().refusal.take()
    }
    fn note(&self, error: &StoreError) {
        if let StoreError::Io { .. }
        | StoreError::Later { .. }
        | StoreError::Absent { .. }
        | StoreError::Sealed { .. } = error
        {
            self.0.lock().refusal.get_or_insert_with(|| error.clone());
        }
    }
}
impl StoreHooks for Findings {
    fn on_error(&mut self, error: &StoreError) {
        self.note(error);
    }
}

/// Opens stores by `inner` and records its findings.
pub(crate) struct FetchOpener<O> {
    pub(crate) inner: O,
    /// The version that this node has. The store of an equal or older version claims to be complete.
    pub(crate) newer_than: Option<u64>,
    pub(crate) findings: Findings,
}
impl<O: StoreOpener> StoreOpener for FetchOpener<O> {
    tributary_core::forwarded! {
        this => this.inner;
        fn trusts(&Self, manifest: &Manifest) -> Result<(), StoreError>;
        fn knows_publisher(&Self, name: &Name) -> bool;
        fn certify(&mut Self, publisher: PublicKey);
        fn bind_no_key(&mut Self);
        fn resumes(&Self, manifest: &Manifest) -> bool;
    }
    fn open(&mut self, manifest: &Manifest) -> Result<Box<dyn ChunkStore>, StoreError> {
        let is_had = self.newer_than.is_some_and(|than| manifest.version <= than);
        // Web servers have files, as they are.
        let has_mirrors = manifest.kind == ObjectKind::File && !manifest.is_sealed;
        let mirrors = if has_mirrors { manifest.mirrors.clone() } else { Vec::new() };
        {
            let mut found = self.findings.0.lock();
            (found.version, found.is_had, found.mirrors) = (Some(manifest.version), is_had, mirrors);
        }
        if is_had {
            return Ok(Box::new(HadStore::new(manifest)));
        }
        let inner = self.inner.open(manifest).inspect_err(|error| self.findings.note(error))?;
        Ok(Box::new(HookedStore { inner, hooks: self.findings.clone() }))
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
        for (newer_than, is_had) in [(None, false), (Some(version), true), (version.checked_sub(1), false)] {
            let findings = Findings::default();
            let mut opener = FetchOpener { inner: MemoryOpener::new(), newer_than, findings: findings.clone() };
            let store = opener.open(&manifest).unwrap();
            assert_eq!((findings.version(), findings.is_had()), (Some(version), is_had), "{newer_than:?}");
            assert_eq!(store.held().iter_set().count() == manifest.chunk_count() as usize, is_had);
        }
    }
}
