use super::*;
use crate::disk::fixtures::{directory, key};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// A source that is written to while it is read.
struct Restless;
static LOOKS: AtomicU8 = AtomicU8::new(0);

impl Source for Restless {
    const KIND: ObjectKind = ObjectKind::File;
    fn fingerprint_at(&self, _: &Path) -> Result<Hash, PublishError> {
        Ok(self.fingerprint())
    }
    fn size(&self) -> u64 {
        10
    }
    fn modified(&self) -> u64 {
        1
    }
    fn access(&self) -> Access {
        Access::Everybody
    }
    fn fingerprint(&self) -> Hash {
        Hash([LOOKS.load(Relaxed); 32])
    }
    fn read_at(&mut self, _: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        LOOKS.fetch_add(1, Relaxed);
        buffer.fill(1);
        Ok(())
    }
}

impl OpenSource for Restless {
    fn open(_: &Path) -> Result<Self, PublishError> {
        Ok(Restless)
    }
}

#[test]
fn it_is_seen_that_what_is_published_was_changed_or_is_gone() {
    let directory = directory();
    let (file, folder) = (directory.path().join("file"), directory.path().join("folder"));
    fs::create_dir(&folder).expect("writable");
    for (path, inner) in [(&file, &file), (&folder, &folder.join("inner"))] {
        fs::write(inner, b"first").expect("writable");
        let name = "/x".parse().expect("a name");
        let published = publish(path, name, &key(), &PublishOptions::default()).expect("publishable");
        assert!(published.original.is_unchanged());
        fs::write(inner, b"longer").expect("writable");
        assert!(!published.original.is_unchanged());
        fs::remove_file(inner).expect("it is there");
        assert!(!published.original.is_unchanged());
    }
}

#[test]
fn a_file_that_changes_while_it_is_hashed_is_not_published() {
    let directory = directory();
    let name = "/x".parse().expect("a name");
    let refused = Published::<Restless>::publish(directory.path(), name, &key(), &PublishOptions::default());
    assert!(matches!(refused.map(|_| ()), Err(PublishError::Changed { .. })));
}
