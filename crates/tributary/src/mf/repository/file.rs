//! Chunks in files of their own, as versions before segments wrote them: they are read and removed, and no others come.
//!
//! ```text
//! bytes  0        4            8               16                      48        48 + head
//!        | "TBC1" | head bytes | payload bytes | BLAKE3 of the rest    | head …  | payload … |
//! ```
use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use bytes::Bytes;

const MAGIC: [u8; 4] = *b"TBC1";
const FRONT_BYTES: usize = 48;
/// The longest head that is read back.
const HEAD_BYTES_MAX: usize = 1 << 16;

/// Head and payload length of a file whose lengths are right.
///
/// # Errors
/// Those of the file system.
pub(super) fn head(path: &Path) -> io::Result<Option<(Vec<u8>, u64)>> {
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
/// The payload.
///
/// # Errors
/// Those of the file system, and if it is damaged.
pub(super) fn read(folder: &Path, id: u64) -> io::Result<Bytes> {
    let path = path(folder, id);
    let bytes = Bytes::from(fs::read(&path)?);
    let damaged = || io::Error::other(format!("{} is damaged", path.display()));
    let front = bytes.first_chunk().ok_or_else(damaged)?;
    let (head_bytes, payload_bytes, hash) = parse(front).ok_or_else(damaged)?;
    let start = FRONT_BYTES.checked_add(head_bytes).filter(|start| *start <= bytes.len()).ok_or_else(damaged)?;
    if (bytes.len() - start) as u64 != payload_bytes || blake3::hash(&bytes[FRONT_BYTES..]) != hash {
        return Err(damaged());
    }
    Ok(bytes.slice(start..))
}
/// The file of a chunk.
pub(super) fn path(folder: &Path, id: u64) -> PathBuf {
    folder.join(format!("{id:016x}.chunk"))
}

/// Head length, payload length and hash.
fn parse(front: &[u8; FRONT_BYTES]) -> Option<(usize, u64, blake3::Hash)> {
    let rest = front.strip_prefix(&MAGIC)?;
    let (head_bytes, rest) = rest.split_first_chunk()?;
    let (payload_bytes, rest) = rest.split_first_chunk()?;
    let hash: [u8; 32] = *rest.first_chunk()?;
    Some((u32::from_be_bytes(*head_bytes) as usize, u64::from_be_bytes(*payload_bytes), hash.into()))
}
