//! Stored chunks as files.
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use tributary_content::StoreError;
use tributary_mf::router::proxy::ChunkRepository;

/// Keeps each chunk in a file of its own in one folder, named by its number.
///
/// ```text
/// bytes  0        4            8               16                      48        48 + head
///        | "TBC1" | head bytes | payload bytes | BLAKE3 of the rest    | head …  | payload … |
/// ```
/// A file is written under another name and gets its own at the commit, after its bytes are on the disk. So what
/// [`ChunkRepository::list`] shows was durable; what a killed process left half done is removed.
#[derive(Debug)]
pub struct FileRepository {
    folder: PathBuf,
    /// Written since the last commit, and not under their own names yet.
    pending: BTreeMap<u64, File>,
    /// Removed since the last commit.
    removed: bool,
}

const MAGIC: [u8; 4] = *b"TBC1";
const FRONT_BYTES: usize = 48;
/// The longest head that is read back.
const HEAD_BYTES_MAX: usize = 1 << 16;

impl FileRepository {
    /// A repository in `folder`, which is made when it is first used.
    pub fn new(folder: &Path) -> FileRepository {
        FileRepository { folder: folder.into(), pending: BTreeMap::new(), removed: false }
    }
    fn path(&self, id: u64) -> PathBuf {
        self.folder.join(format!("{id:016x}.chunk"))
    }
    fn pending_path(&self, id: u64) -> PathBuf {
        self.folder.join(format!("{id:016x}.new"))
    }
    fn try_put(&mut self, id: u64, head: &[u8], payload: &[u8]) -> io::Result<()> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(head).update(payload);
        let mut front = Vec::with_capacity(FRONT_BYTES + head.len());
        front.extend_from_slice(&MAGIC);
        front.extend_from_slice(&(head.len() as u32).to_be_bytes());
        front.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        front.extend_from_slice(hasher.finalize().as_bytes());
        front.extend_from_slice(head);
        let mut file = File::create(self.pending_path(id))?;
        file.write_all(&front)?;
        file.write_all(payload)?;
        self.pending.insert(id, file);
        Ok(())
    }
    fn try_commit(&mut self) -> io::Result<()> {
        if self.pending.is_empty() && !self.removed {
            return Ok(());
        }
        while let Some((id, file)) = self.pending.pop_first() {
            file.sync_data()?;
            fs::rename(self.pending_path(id), self.path(id))?;
        }
        File::open(&self.folder)?.sync_all()?;
        self.removed = false;
        Ok(())
    }
    /// Head and payload length of a file whose lengths are right.
    fn head(path: &Path) -> io::Result<Option<(Vec<u8>, u64)>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut front = [0; FRONT_BYTES];
        if length < FRONT_BYTES as u64 {
            return Ok(None);
        }
        file.read_exact(&mut front)?;
        let Some((head_bytes, payload_bytes, _)) = parse(&front) else { return Ok(None) };
        if head_bytes > HEAD_BYTES_MAX || length != (FRONT_BYTES + head_bytes) as u64 + payload_bytes {
            return Ok(None);
        }
        let mut head = vec![0; head_bytes];
        file.read_exact(&mut head)?;
        Ok(Some((head, payload_bytes)))
    }
    fn try_list(&self) -> io::Result<Vec<(u64, Vec<u8>, u64)>> {
        use std::os::unix::fs::DirBuilderExt;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let mut chunks = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            match (extension, u64::from_str_radix(stem, 16)) {
                ("new", Ok(_)) => fs::remove_file(&path)?,
                ("chunk", Ok(id)) => match Self::head(&path)? {
                    Some((head, payload_bytes)) => chunks.push((id, head, payload_bytes)),
                    None => {
                        tracing::warn!(path = %path.display(), "a stored chunk is damaged and is removed");
                        fs::remove_file(&path)?;
                    }
                },
                _ => {}
            }
        }
        chunks.sort_unstable_by_key(|(id, ..)| *id);
        Ok(chunks)
    }
    fn refused(&self, operation: &'static str) -> impl Fn(io::Error) -> StoreError {
        let path = self.folder.display().to_string();
        move |error| StoreError::Io { operation, path: path.clone(), reason: error.to_string() }
    }
}

impl ChunkRepository for FileRepository {
    fn put(&mut self, id: u64, head: &[u8], payload: &[u8]) -> Result<(), StoreError> {
        self.try_put(id, head, payload).map_err(|error| {
            // Half a file would take room that may be what is missing.
            let _ = fs::remove_file(self.pending_path(id));
            self.refused("store a chunk in")(error)
        })
    }
    fn remove(&mut self, id: u64) -> Result<(), StoreError> {
        let path = match self.pending.remove(&id) {
            Some(_) => self.pending_path(id),
            None => self.path(id),
        };
        match fs::remove_file(path) {
            Ok(()) => self.removed = true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(self.refused("remove a chunk from")(error)),
        }
        Ok(())
    }
    fn commit(&mut self) -> Result<(), StoreError> {
        self.try_commit().map_err(self.refused("commit"))
    }
    fn read(&mut self, id: u64) -> Result<Bytes, StoreError> {
        let path = if self.pending.contains_key(&id) { self.pending_path(id) } else { self.path(id) };
        let bytes = Bytes::from(fs::read(&path).map_err(self.refused("read a chunk of"))?);
        let damaged = || self.refused("read a chunk of")(io::Error::other(format!("{} is damaged", path.display())));
        let front = bytes.first_chunk().ok_or_else(damaged)?;
        let (head_bytes, payload_bytes, hash) = parse(front).ok_or_else(damaged)?;
        let start = FRONT_BYTES.checked_add(head_bytes).filter(|start| *start <= bytes.len()).ok_or_else(damaged)?;
        if (bytes.len() - start) as u64 != payload_bytes || blake3::hash(&bytes[FRONT_BYTES..]) != hash {
            return Err(damaged());
        }
        Ok(bytes.slice(start..))
    }
    fn list(&mut self) -> Result<Vec<(u64, Vec<u8>, u64)>, StoreError> {
        self.try_list().map_err(self.refused("list"))
    }
}

/// Head length, payload length and hash.
fn parse(front: &[u8; FRONT_BYTES]) -> Option<(usize, u64, blake3::Hash)> {
    let rest = front.strip_prefix(&MAGIC)?;
    let (head_bytes, rest) = rest.split_first_chunk()?;
    let (payload_bytes, rest) = rest.split_first_chunk()?;
    let hash: [u8; 32] = *rest.first_chunk()?;
    Some((u32::from_be_bytes(*head_bytes) as usize, u64::from_be_bytes(*payload_bytes), hash.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(repository: &mut FileRepository) -> Vec<u64> {
        repository.list().expect("a folder").into_iter().map(|(id, ..)| id).collect()
    }

    #[test]
    fn what_was_committed_is_there_after_a_kill_and_the_rest_leaves_nothing() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path().join("store");
        let mut repository = FileRepository::new(&folder);
        assert!(listed(&mut repository).is_empty());
        repository.put(1, b"head one", &[1; 100_000]).expect("room");
        repository.put(2, b"head two", &[]).expect("room");
        repository.commit().expect("a disk");
        repository.put(3, b"head three", &[3; 10]).expect("room");
        assert_eq!(repository.read(3).expect("it is there"), [3; 10][..]);
        repository.remove(2).expect("a disk");
        // Killed: no farewell.
        std::mem::forget(repository);
        let mut repository = FileRepository::new(&folder);
        assert_eq!(repository.list().expect("a folder"), [(1, b"head one".to_vec(), 100_000)]);
        assert_eq!(repository.read(1).expect("it is there"), [1; 100_000][..]);
        assert!(repository.read(3).is_err());
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 1, "something is left behind");
    }
    #[test]
    fn a_damaged_file_is_never_given_out() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut repository = FileRepository::new(dir.path());
        for id in 0..3 {
            repository.put(id, b"head", &[7; 1_000]).expect("room");
        }
        repository.commit().expect("a disk");
        let path = |id| repository.path(id);
        let (flipped, short, whole) = (path(0), path(1), path(2));
        let mut bytes = fs::read(&flipped).expect("a file");
        bytes[500] ^= 1;
        fs::write(&flipped, bytes).expect("a disk");
        fs::write(&short, &fs::read(&whole).expect("a file")[..700]).expect("a disk");
        assert_eq!(listed(&mut repository), [0, 2], "a file of the wrong length counts");
        assert!(repository.read(0).is_err(), "a flipped bit passes");
        assert!(repository.read(2).is_ok());
    }
}
