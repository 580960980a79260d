//! Chunks in individual files, as versions before segments wrote them: they are read and removed, and no new ones are
//! written.
//!
//! ```text
//! bytes  0        4            8               16                      48        48 + head
//!        | "TBC1" | head bytes | payload bytes | BLAKE3 of the rest    | head …  | payload … |
//! ```
use std::{
    io,
    path::{Path, PathBuf},
};

use bytes::Bytes;

use super::super::fs::{self, FileSystem, OpenOptions};

const MAGIC: [u8; 4] = *b"TBC1";
const FRONT_BYTES: usize = 48;
/// The longest head that is read back.
const HEAD_BYTES_MAX: usize = 1 << 16;

/// Head and payload length of a file whose lengths are right.
///
/// # Errors
/// Errors of the file system.
pub(super) fn head(fs: &dyn FileSystem, path: &Path) -> io::Result<Option<(Vec<u8>, u64)>> {
    let file = fs.open(path, OpenOptions::READ)?;
    let length = file.metadata()?.length;
    let mut front = [0; FRONT_BYTES];
    if length < FRONT_BYTES as u64 {
        return Ok(None);
    }
    file.read_exact_at(&mut front, 0)?;
    let Some((head_bytes, payload_bytes, _)) = parse(&front) else { return Ok(None) };
    let rest = length.checked_sub((FRONT_BYTES + head_bytes) as u64);
    if head_bytes > HEAD_BYTES_MAX || rest != Some(payload_bytes) {
        return Ok(None);
    }
    let mut head = vec![0; head_bytes];
    file.read_exact_at(&mut head, FRONT_BYTES as u64)?;
    Ok(Some((head, payload_bytes)))
}
/// The payload; nothing if it is damaged.
///
/// # Errors
/// Errors of the file system.
pub(super) fn read(fs: &dyn FileSystem, folder: &Path, id: u64) -> io::Result<Option<Bytes>> {
    let bytes = Bytes::from(fs::read(fs, &path(folder, id))?);
    let Some((head_bytes, payload_bytes, hash)) = bytes.first_chunk().and_then(parse) else { return Ok(None) };
    let start = FRONT_BYTES.checked_add(head_bytes).filter(|start| *start <= bytes.len());
    let is_complete =
        |start: &usize| (bytes.len() - start) as u64 == payload_bytes && blake3::hash(&bytes[FRONT_BYTES..]) == hash;
    Ok(start.filter(is_complete).map(|start| bytes.slice(start..)))
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
