//! The record of received objects and their places, remembered over restarts.
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, VecDeque},
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};
use tributary_content::{ObjectId, StoreError};
use tributary_net::disk::replace_file;

use super::file_names::{refused, sync_folder};

/// Maximum received objects remembered over a restart.
const RECEIVED_MAX: usize = 1 << 18;
const KEY_BYTES: usize = 16;
pub(super) type Key = [u8; KEY_BYTES];
const ENTRY_BYTES: usize = KEY_BYTES + 8;

/// The record of received objects, so that one delivered again after a crash is not kept twice. Remembers the latest
/// [`RECEIVED_MAX`] objects in `STATE_DIR/received`: for each a key and a place in a file, appended.
#[derive(Clone, Debug)]
pub(crate) struct Received(pub(super) Arc<Mutex<Memory>>);

#[derive(Debug)]
pub(super) struct Memory {
    path: PathBuf,
    file: Option<File>,
    known: BTreeMap<Key, u64>,
    order: VecDeque<Key>,
}

impl Received {
    /// Reads the record of earlier runs.
    pub(crate) fn open(state_dir: &Path) -> Result<Received, StoreError> {
        let path = state_dir.join("received");
        let mut bytes = Vec::new();
        match File::open(&path) {
            Ok(file) => {
                let longest = (ENTRY_BYTES * RECEIVED_MAX * 2) as u64;
                file.take(longest).read_to_end(&mut bytes).map_err(|error| refused(&path, &error))?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(refused(&path, &error)),
        }
        let mut memory = Memory { path, file: None, known: Default::default(), order: VecDeque::new() };
        // A process that was killed may have left half an entry at the end.
        for entry in bytes.as_chunks::<ENTRY_BYTES>().0 {
            let (key, at) = entry.split_at(KEY_BYTES);
            let key = key.try_into().expect("it has its length");
            memory.note(key, u64::from_be_bytes(at.try_into().expect("it has its length")));
        }
        memory.write_anew()?;
        Ok(Received(Arc::new(Mutex::new(memory))))
    }
    /// The key of a received object; `delivery` identifies its sending, and is empty if unknown.
    pub(super) fn key(folder: &Path, object: &ObjectId, delivery: &[u8]) -> Key {
        key_of(&[folder.as_os_str().as_bytes(), b"\0", &object.0, delivery])
    }
    /// The key under which it is remembered that a file has lines.
    pub(super) fn of_lines(folder: &Path, path: &Path) -> Key {
        key_of(&[folder.as_os_str().as_bytes(), b"\0\0", path.as_os_str().as_bytes()])
    }
}
fn key_of(parts: &[&[u8]]) -> Key {
    let mut hasher = blake3::Hasher::new();
    parts.iter().for_each(|part| {
        hasher.update(part);
    });
    *hasher.finalize().as_bytes().first_chunk().expect("a hash has 32 bytes")
}
impl Memory {
    /// The place that is remembered under a key.
    pub(super) fn known(&self, key: &Key) -> Option<u64> {
        self.known.get(key).copied()
    }
    fn note(&mut self, key: Key, at: u64) {
        if self.known.insert(key, at).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > RECEIVED_MAX {
            let oldest = self.order.pop_front();
            oldest.map(|oldest| self.known.remove(&oldest));
        }
    }
    /// Remembers a place under a key.
    pub(super) fn add(&mut self, key: Key, at: u64) -> Result<(), StoreError> {
        if self.known(&key) == Some(at) {
            return Ok(());
        }
        let is_long = self.file.as_ref().and_then(|file| file.metadata().ok());
        if is_long.is_some_and(|file| file.len() >= (ENTRY_BYTES * RECEIVED_MAX * 2) as u64) {
            self.write_anew()?;
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path);
                let file = self.file.insert(opened.map_err(|error| refused(&self.path, &error))?);
                let folder = self.path.parent().unwrap_or(Path::new("."));
                sync_folder(folder).map_err(|error| refused(&self.path, &error))?;
                file
            }
        };
        let entry = [&key[..], &at.to_be_bytes()].concat();
        let end = file.metadata().map_err(|error| refused(&self.path, &error))?.len();
        if let Err(error) = file.write_all(&entry) {
            // Behind half an entry no other one could be read.
            let _ = file.set_len(end);
            return Err(refused(&self.path, &error));
        }
        self.note(key, at);
        Ok(())
    }
    /// Waits until additions are on the disk.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.file.iter().try_for_each(File::sync_data).map_err(|error| refused(&self.path, &error))
    }
    /// Writes the file as short as it can be.
    fn write_anew(&mut self) -> Result<(), StoreError> {
        self.file = None;
        if self.order.is_empty() {
            return Ok(());
        }
        let entry = |key: &Key| [&key[..], &self.known.get(key).copied().unwrap_or(0).to_be_bytes()].concat();
        let bytes: Vec<u8> = self.order.iter().flat_map(entry).collect();
        replace_file(&self.path, &[&bytes]).map_err(|error| refused(&self.path, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_was_received_is_known_after_a_restart_and_half_an_entry_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let key = |number| Received::key(Path::new("/inbox"), &ObjectId([number; 16]), &[]);
        let received = Received::open(folder.path()).unwrap();
        for number in 0..3 {
            received.0.lock().add(key(number), number.into()).unwrap();
        }
        let path = folder.path().join("received");
        let complete = fs::read(&path).unwrap();
        fs::write(&path, &complete[..complete.len() - 5]).unwrap();
        let known = |received: &Received| [0, 1, 2].map(|number| received.0.lock().known(&key(number)));
        let again = Received::open(folder.path()).unwrap();
        assert_eq!(known(&again), [Some(0), Some(1), None]);
        again.0.lock().add(key(2), 9).unwrap();
        assert_eq!(known(&Received::open(folder.path()).unwrap()), [Some(0), Some(1), Some(9)]);
        assert_ne!(key(0), Received::key(Path::new("/other"), &ObjectId([0; 16]), &[]));
    }
}
