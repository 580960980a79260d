//! What was sent to this node and is whole, remembered over restarts: whoever has kept it for this node and was not told so
//! before the node was killed sends it once more.
//!
//! A delivery is entered before its object gets its final name, and again when it has it. One that is there but once may
//! have its object or not: its bytes tell.
use std::{
    collections::{HashMap, VecDeque},
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};
use tributary_content::{ChunkIndex, HashTree, Manifest, ObjectId, ObjectKind, StoreError, chunk_hash};

/// Deliveries that are remembered: those that a custodian may still have on its way are far fewer.
const KEPT_MAX: usize = 4_096;
/// The name of the file in the state folder.
const FILE: &str = "received";
/// Bytes of what names a delivery.
const DELIVERY_BYTES: usize = 24;
/// An entry: state, delivery, object, and the start of the hash of these.
const ENTRY_BYTES: usize = 1 + DELIVERY_BYTES + 16 + 8;

type Delivery = [u8; DELIVERY_BYTES];

/// How far a delivery is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum State {
    /// All is verified, and the object is about to get its name.
    Naming = 1,
    /// It has it.
    Whole = 2,
}

/// The deliveries that are remembered. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Received(Arc<Mutex<Log>>);

#[derive(Debug)]
struct Log {
    path: PathBuf,
    file: File,
    known: HashMap<Delivery, (State, ObjectId)>,
    order: VecDeque<Delivery>,
}

impl Received {
    /// Those of earlier lives, in the state folder. An entry that was cut when the machine lost power is none.
    ///
    /// # Errors
    /// [`io::Error`] if the file cannot be read or made.
    pub(crate) fn open(state_dir: &Path) -> io::Result<Received> {
        let path = state_dir.join(FILE);
        let mut bytes = Vec::new();
        match File::open(&path) {
            Ok(mut file) => drop(file.read_to_end(&mut bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let (mut known, mut order) = (HashMap::new(), VecDeque::new());
        for (state, delivery, object) in bytes.chunks_exact(ENTRY_BYTES).filter_map(decode) {
            if known.insert(delivery, (state, object)).is_none() {
                order.push_back(delivery);
            }
        }
        forget_old(&mut known, &mut order);
        let is_long = bytes.len() > 4 * KEPT_MAX * ENTRY_BYTES;
        if is_long || bytes.len() % ENTRY_BYTES != 0 {
            let entries = order.iter().filter_map(|delivery| {
                let (state, object) = known.get(delivery)?;
                Some(encode(*state, delivery, object))
            });
            let shorter: Vec<u8> = entries.flatten().collect();
            let temporary = state_dir.join("received.new");
            let mut file = File::create(&temporary)?;
            file.write_all(&shorter)?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
        }
        let file = OpenOptions::new().append(true).create(true).open(&path)?;
        File::open(state_dir)?.sync_all()?;
        Ok(Received(Arc::new(Mutex::new(Log { path, file, known, order }))))
    }
    /// Whether the object of a delivery is whole under its name, `path`, already. Reads the file if that is not known for
    /// certain.
    pub(crate) fn has(&self, delivery: &[u8], manifest: &Manifest, path: &Path) -> bool {
        let Ok(delivery) = Delivery::try_from(delivery) else { return false };
        let known = self.log().known.get(&delivery).copied();
        match known.filter(|(_, object)| *object == manifest.object_id()) {
            Some((State::Whole, _)) => true,
            Some((State::Naming, _)) => is_at(path, manifest),
            None => false,
        }
    }
    /// An object is about to get its name. It is on the disk when this returns.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be written.
    pub(crate) fn begin(&self, delivery: &[u8], object: ObjectId) -> Result<(), StoreError> {
        self.enter(State::Naming, delivery, object)
    }
    /// It has it, for certain.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be written.
    pub(crate) fn end(&self, delivery: &[u8], object: ObjectId) -> Result<(), StoreError> {
        self.enter(State::Whole, delivery, object)
    }
    fn enter(&self, state: State, delivery: &[u8], object: ObjectId) -> Result<(), StoreError> {
        let Ok(delivery) = Delivery::try_from(delivery) else { return Ok(()) };
        let mut log = self.log();
        let Log { path, file, known, order } = &mut *log;
        // One that is lost with the power after the name is there is looked for by its bytes: no wait for the disk.
        let written = file.write_all(&encode(state, &delivery, &object)).and_then(|()| match state {
            State::Naming => file.sync_data(),
            State::Whole => Ok(()),
        });
        written.map_err(|error| StoreError::Io {
            operation: "write",
            path: path.display().to_string(),
            reason: error.to_string(),
        })?;
        if known.insert(delivery, (state, object)).is_none() {
            order.push_back(delivery);
        }
        forget_old(known, order);
        Ok(())
    }
    fn log(&self) -> std::sync::MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn forget_old(known: &mut HashMap<Delivery, (State, ObjectId)>, order: &mut VecDeque<Delivery>) {
    while order.len() > KEPT_MAX
        && let Some(oldest) = order.pop_front()
    {
        known.remove(&oldest);
    }
}
fn encode(state: State, delivery: &Delivery, object: &ObjectId) -> Vec<u8> {
    let mut entry = Vec::with_capacity(ENTRY_BYTES);
    entry.push(state as u8);
    entry.extend_from_slice(delivery);
    entry.extend_from_slice(&object.0);
    let check = blake3::hash(&entry);
    entry.extend_from_slice(&check.as_bytes()[..8]);
    entry
}
fn decode(entry: &[u8]) -> Option<(State, Delivery, ObjectId)> {
    let (said, check) = entry.split_at_checked(ENTRY_BYTES - 8)?;
    let state = match said[0] {
        1 => State::Naming,
        2 => State::Whole,
        _ => return None,
    };
    let object = ObjectId(said[1 + DELIVERY_BYTES..].try_into().ok()?);
    let delivery = said[1..=DELIVERY_BYTES].try_into().ok()?;
    (blake3::hash(said).as_bytes()[..8] == *check).then_some((state, delivery, object))
}
/// Whether the file at `path` is the object, byte for byte. What became of a folder is not looked at: its store goes on where
/// it was.
fn is_at(path: &Path, manifest: &Manifest) -> bool {
    let read = || -> io::Result<bool> {
        let mut file = File::open(path)?;
        if !file.metadata()?.is_file() || file.metadata()?.len() != manifest.size {
            return Ok(false);
        }
        let (mut leaves, mut buffer) = (Vec::new(), Vec::new());
        for index in (0..manifest.chunk_count()).map(ChunkIndex) {
            buffer.resize(manifest.chunk_len(index) as usize, 0);
            file.read_exact(&mut buffer)?;
            leaves.push(chunk_hash(&buffer));
        }
        Ok(HashTree::from_leaves(leaves).root() == manifest.root)
    };
    manifest.kind == ObjectKind::File && read().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_content::{MemoryObject, ObjectReader, SigningKey};

    fn object(bytes: &[u8]) -> Manifest {
        let key = SigningKey::from_secret(&[7; 32]);
        let name = "/reading".parse().expect("a name");
        MemoryObject::new(name, bytes.to_vec(), &key).expect("fits").manifest().clone()
    }

    #[test]
    fn a_delivery_is_known_whenever_its_node_was_killed() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("reading");
        let (manifest, delivery) = (object(b"21.5"), [7; DELIVERY_BYTES]);
        let id = manifest.object_id();
        let again = || Received::open(home.path()).expect("readable").has(&delivery, &manifest, &path);
        assert!(!again());
        Received::open(home.path()).expect("writable").begin(&delivery, id).expect("writable");
        assert!(!again(), "killed before it had its name");
        fs::write(&path, b"20.0").expect("writable");
        assert!(!again(), "what is there is another one");
        fs::write(&path, b"21.5").expect("writable");
        assert!(again(), "killed when it had its name");
        Received::open(home.path()).expect("writable").end(&delivery, id).expect("writable");
        fs::remove_file(&path).expect("it is there");
        assert!(again(), "whoever took it away has had it");
        let received = Received::open(home.path()).expect("readable");
        assert!(!received.has(&[8; DELIVERY_BYTES], &manifest, &path), "sent once more");
        assert!(!received.has(&delivery, &object(b"22.0"), &path), "another object");
    }

    #[test]
    fn an_entry_that_was_cut_is_none_and_no_more_are_kept_than_may_be() {
        let home = tempfile::tempdir().expect("a folder");
        let manifest = object(b"");
        let delivery = |number: usize| {
            let mut delivery = [0; DELIVERY_BYTES];
            delivery[..8].copy_from_slice(&number.to_be_bytes());
            delivery
        };
        let received = Received::open(home.path()).expect("writable");
        (0..KEPT_MAX + 10).for_each(|number| received.end(&delivery(number), manifest.object_id()).expect("writable"));
        let file = home.path().join(FILE);
        let cut = fs::metadata(&file).expect("it is there").len() - 3;
        OpenOptions::new().write(true).open(&file).and_then(|file| file.set_len(cut)).expect("writable");
        let received = Received::open(home.path()).expect("readable");
        let has = |number| received.has(&delivery(number), &manifest, home.path());
        assert_eq!([9, 10, KEPT_MAX + 8, KEPT_MAX + 9].map(has), [false, true, true, false]);
        received.end(&delivery(KEPT_MAX + 9), manifest.object_id()).expect("writable");
        assert!(Received::open(home.path()).expect("readable").has(&delivery(KEPT_MAX + 9), &manifest, home.path()));
    }
}
