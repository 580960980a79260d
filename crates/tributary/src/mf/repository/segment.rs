//! Files that chunks are appended to.
//!
//! ```text
//! bytes  0        4            8               16   24        32                      64        64 + head
//!        | "TBC2" | head bytes | payload bytes | id | durable | BLAKE3 of 4–32, rest  | head …  | payload … | next chunk …
//! ```
//! `durable` says how much of the file was on the disk before this chunk was begun, so that a start need not read that
//! again. What was removed has another mark; its payload is given back to the file system.
use std::{
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use tributary_mf::payload::Payload;

/// Where a chunk is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// The number of the segment.
    pub(super) segment: u64,
    /// Byte at which it begins there.
    pub(super) at: u64,
    pub(super) head_bytes: u32,
    pub(super) payload_bytes: u64,
}

impl Place {
    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        FRONT_BYTES as u64 + u64::from(self.head_bytes) + self.payload_bytes
    }
    /// The first byte behind it.
    pub(super) fn end(&self) -> u64 {
        self.at + self.bytes()
    }
    /// The first byte of its payload.
    pub(super) fn payload_at(&self) -> u64 {
        self.end() - self.payload_bytes
    }
}

/// A chunk as a segment has it.
pub(super) struct Found {
    pub(super) id: u64,
    pub(super) head: Vec<u8>,
    pub(super) place: Place,
    /// Whether nobody has removed it.
    pub(super) is_live: bool,
}

/// What a segment has.
pub(super) struct Contents {
    pub(super) found: Vec<Found>,
    /// Bytes that count; what is behind them was never whole.
    pub(super) end: u64,
}

/// Puts the bytes of a chunk into `out`, which is emptied first.
pub(super) fn encode(out: &mut Vec<u8>, id: u64, durable: u64, head: &[u8], payload: &Payload) {
    out.clear();
    out.extend_from_slice(&LIVE);
    out.extend_from_slice(&(head.len() as u32).to_be_bytes());
    out.extend_from_slice(&(payload.len() as u64).to_be_bytes());
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(&durable.to_be_bytes());
    out.extend_from_slice(&[0; 32]);
    out.extend_from_slice(head);
    payload.pieces().iter().for_each(|piece| out.extend_from_slice(piece));
    let hash = hash(out);
    out[HASH_AT..FRONT_BYTES].copy_from_slice(hash.as_bytes());
}
/// Head and payload of a chunk.
///
/// # Errors
/// Those of the file system, and if it is damaged.
pub(super) fn read(folder: &Path, place: &Place) -> io::Result<(Vec<u8>, Bytes)> {
    let path = path(folder, place.segment);
    let damaged = || io::Error::other(format!("{} is damaged at byte {}", path.display(), place.at));
    read_from(&File::open(&path)?, place)?.ok_or_else(damaged)
}
/// The same; nothing if it is damaged.
fn read_from(file: &File, place: &Place) -> io::Result<Option<(Vec<u8>, Bytes)>> {
    let Ok(length) = usize::try_from(place.bytes()) else { return Ok(None) };
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, place.at)?;
    let said = bytes.first_chunk().and_then(parse).filter(|said| said.head_bytes == place.head_bytes);
    let is_whole = |said: Front| said.payload_bytes == place.payload_bytes && said.hash == hash(&bytes);
    if !said.is_some_and(is_whole) {
        return Ok(None);
    }
    let bytes = Bytes::from(bytes);
    let start = FRONT_BYTES + place.head_bytes as usize;
    Ok(Some((bytes[FRONT_BYTES..start].to_vec(), bytes.slice(start..))))
}
/// Marks a chunk as removed.
///
/// # Errors
/// Those of the file system.
pub(super) fn mark_removed(file: &File, place: &Place) -> io::Result<()> {
    file.write_all_at(&REMOVED, place.at)
}
/// All chunks of a segment. What was not durable when the last of them was begun is read, and counts if it is whole. Where a
/// front is damaged, it goes on at the next chunk that is whole.
///
/// # Errors
/// Those of the file system.
pub(super) fn contents(folder: &Path, segment: u64) -> io::Result<Contents> {
    let path = path(folder, segment);
    let file = File::open(&path)?;
    let length = file.metadata()?.len();
    let mut reader = BufReader::new(&file);
    let (mut found, mut durable) = (Vec::<Found>::new(), 0);
    let (mut end, mut budget) = (0, SEARCH_BYTES_MAX);
    loop {
        if let Some((one, before)) = next(&mut reader, segment, end, length)? {
            (end, durable) = (one.place.end(), durable.max(before.min(end)));
            found.push(one);
            continue;
        }
        // The lengths of the last one may be what is damaged; of one that was removed nothing can tell.
        let is_damaged = |one: &Found| one.is_live && read(folder, &one.place).is_err();
        let suspect = found.last().filter(|last| !last.is_live || is_damaged(last));
        let from = suspect.map_or(end, |last| last.place.at);
        let Some(at) = search(&file, from + 1, length, &mut budget)? else { break };
        tracing::warn!(path = %path.display(), from, to = at, "a file of stored chunks is damaged; what is there is lost");
        found.pop_if(|last| last.place.end() > at || is_damaged(last));
        reader.seek(SeekFrom::Start(at))?;
        end = at;
    }
    let is_whole = |one: &Found| !one.is_live || one.place.end() <= durable || read(folder, &one.place).is_ok();
    found.retain(is_whole);
    let end = found.last().map_or(0, |one| one.place.end());
    Ok(Contents { found, end })
}
/// Where the next chunk begins that nobody has removed and that is whole by its hash, at `from` or later. What a payload
/// has in it may look like one; `budget` bounds the bytes that are read for that.
fn search(file: &File, from: u64, length: u64, budget: &mut u64) -> io::Result<Option<u64>> {
    let mut window = vec![0; SEARCH_WINDOW_BYTES];
    let mut start = from;
    while length.saturating_sub(start) >= FRONT_BYTES as u64 {
        let bytes = (length - start).min(SEARCH_WINDOW_BYTES as u64) as usize;
        file.read_exact_at(&mut window[..bytes], start)?;
        for (at, front) in (start..).zip(window[..bytes].windows(FRONT_BYTES)) {
            let said = front.first_chunk().filter(|front| front.starts_with(&LIVE)).and_then(parse);
            let Some(place) = said.and_then(|said| said.place(0, at, length)) else { continue };
            if *budget < place.bytes() {
                return Ok(None);
            }
            *budget -= place.bytes();
            if read_from(file, &place)?.is_some() {
                return Ok(Some(at));
            }
        }
        start += (bytes - FRONT_BYTES + 1) as u64;
    }
    Ok(None)
}
/// The chunk at `at`, and how much was durable before it; nothing where none begins or the file ends within it.
fn next(reader: &mut BufReader<&File>, segment: u64, at: u64, length: u64) -> io::Result<Option<(Found, u64)>> {
    let mut front = [0; FRONT_BYTES];
    if length - at < FRONT_BYTES as u64 {
        return Ok(None);
    }
    reader.read_exact(&mut front)?;
    let Some(said) = parse(&front) else { return Ok(None) };
    let Some(place) = said.place(segment, at, length) else { return Ok(None) };
    let mut head = vec![0; said.head_bytes as usize];
    reader.read_exact(&mut head)?;
    reader.seek_relative(said.payload_bytes as i64)?;
    Ok(Some((Found { id: said.id, head, place, is_live: said.is_live }, said.durable)))
}

/// What stands in front of a chunk.
struct Front {
    is_live: bool,
    head_bytes: u32,
    payload_bytes: u64,
    id: u64,
    durable: u64,
    hash: blake3::Hash,
}

impl Front {
    /// Where the chunk is that it stands in front of, at `at`; nothing if a file of so many bytes ends within it.
    fn place(&self, segment: u64, at: u64, length: u64) -> Option<Place> {
        let room = length.checked_sub(at + FRONT_BYTES as u64)?.checked_sub(u64::from(self.head_bytes))?;
        let fits = self.head_bytes <= HEAD_BYTES_MAX && self.payload_bytes <= room;
        fits.then_some(Place { segment, at, head_bytes: self.head_bytes, payload_bytes: self.payload_bytes })
    }
}

fn parse(front: &[u8; FRONT_BYTES]) -> Option<Front> {
    let (mark, rest) = front.split_first_chunk()?;
    let (head_bytes, rest) = rest.split_first_chunk()?;
    let (payload_bytes, rest) = rest.split_first_chunk()?;
    let (id, rest) = rest.split_first_chunk()?;
    let (durable, hash) = rest.split_first_chunk()?;
    let hash: [u8; 32] = *hash.first_chunk()?;
    (*mark == LIVE || *mark == REMOVED).then(|| Front {
        is_live: *mark == LIVE,
        head_bytes: u32::from_be_bytes(*head_bytes),
        payload_bytes: u64::from_be_bytes(*payload_bytes),
        id: u64::from_be_bytes(*id),
        durable: u64::from_be_bytes(*durable),
        hash: hash.into(),
    })
}
/// Over all of a chunk but its mark and the hash itself.
fn hash(chunk: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&chunk[LIVE.len()..HASH_AT]).update(&chunk[FRONT_BYTES..]);
    hasher.finalize()
}
/// The file of a segment.
pub(super) fn path(folder: &Path, segment: u64) -> PathBuf {
    folder.join(format!("{segment:016x}.chunks"))
}

/// They differ in one byte, so that a mark is never half written.
const LIVE: [u8; 4] = *b"TBC2";
const REMOVED: [u8; 4] = *b"TBX2";
const HASH_AT: usize = 32;
const FRONT_BYTES: usize = 64;
/// How much is looked at at once behind what is damaged, and how much is read there at most.
const SEARCH_WINDOW_BYTES: usize = 1 << 20;
const SEARCH_BYTES_MAX: u64 = 256 << 20;
/// The longest head that is read back.
const HEAD_BYTES_MAX: u32 = 1 << 16;
