//! Files that chunks are appended to.
//!
//! ```text
//! bytes  0        4            8               16   24        32                      64        64 + head
//!        | "TBC2" | head bytes | payload bytes | id | durable | BLAKE3 of 4–32, rest  | head …  | payload … | next chunk …
//! ```
//! `durable` is the length of the file that was on the disk before this chunk was started, so that a start need not
//! read that again. A removed chunk has another mark; its payload is given back to the file system. A file that is
//! closed in order ends with a seal: a removed chunk without head and payload, whose `durable` covers everything before
//! it.
use std::{
    io,
    path::{Path, PathBuf},
};

use bytes::Bytes;

use super::super::fs::{FileSystem, FsFile, OpenOptions};

/// Where a chunk is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// The number of the segment.
    pub(super) segment: u64,
    /// Its first byte there.
    pub(super) at: u64,
    pub(super) head_bytes: u32,
    pub(super) payload_bytes: u64,
}

impl Place {
    /// Its length.
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
    /// Whether it has not been removed.
    pub(super) is_live: bool,
}

/// What a segment has.
pub(super) struct Contents {
    /// Complete chunks, those that were durable once, and removed ones.
    pub(super) found: Vec<Found>,
    /// Incomplete chunks that were started after the last ones known to be durable.
    pub(super) torn: Vec<Found>,
    /// The unreadable ranges of formerly durable data.
    pub(super) damaged: Vec<(u64, u64)>,
    /// The valid length; bytes behind it were never complete.
    pub(super) end: u64,
    /// Up to here everything was once on the disk.
    pub(super) durable: u64,
    /// Bytes that the file has.
    pub(super) length: u64,
}

/// Puts the bytes of a chunk into `out`, which is emptied first.
pub(super) fn encode(out: &mut Vec<u8>, id: u64, durable: u64, head: &[u8], payload: &[Bytes]) {
    out.clear();
    let payload_bytes: usize = payload.iter().map(Bytes::len).sum();
    push_front(out, LIVE, (head.len() as u32, payload_bytes as u64), id, durable);
    out.extend_from_slice(head);
    payload.iter().for_each(|piece| out.extend_from_slice(piece));
    let hash = hash(out);
    out[HASH_AT..FRONT_BYTES].copy_from_slice(hash.as_bytes());
}
/// The seal behind the last chunk of a file whose `durable` bytes are all on the disk.
pub(super) fn seal(durable: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(FRONT_BYTES);
    push_front(&mut out, REMOVED, (0, 0), 0, durable);
    let hash = hash(&out);
    out[HASH_AT..FRONT_BYTES].copy_from_slice(hash.as_bytes());
    out
}
fn push_front(out: &mut Vec<u8>, mark: [u8; 4], (head_bytes, payload_bytes): (u32, u64), id: u64, durable: u64) {
    out.extend_from_slice(&mark);
    out.extend_from_slice(&head_bytes.to_be_bytes());
    out.extend_from_slice(&payload_bytes.to_be_bytes());
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(&durable.to_be_bytes());
    out.extend_from_slice(&[0; 32]);
}
/// Head and payload of a chunk; nothing if it is damaged.
///
/// # Errors
/// Errors of the file system.
pub(super) fn read(fs: &dyn FileSystem, folder: &Path, place: &Place) -> io::Result<Option<(Vec<u8>, Bytes)>> {
    read_from(&*fs.open(&path(folder, place.segment), OpenOptions::READ)?, place)
}
/// The same, of an open file.
pub(super) fn read_from(file: &dyn FsFile, place: &Place) -> io::Result<Option<(Vec<u8>, Bytes)>> {
    let Ok(length) = usize::try_from(place.bytes()) else { return Ok(None) };
    let mut bytes = vec![0; length];
    match file.read_exact_at(&mut bytes, place.at) {
        // The file was truncated.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let header = bytes.first_chunk().and_then(parse).filter(|header| header.head_bytes == place.head_bytes);
    let is_complete = |header: Front| header.payload_bytes == place.payload_bytes && header.hash == hash(&bytes);
    if !header.is_some_and(is_complete) {
        return Ok(None);
    }
    let bytes = Bytes::from(bytes);
    let start = FRONT_BYTES + place.head_bytes as usize;
    Ok(Some((bytes[FRONT_BYTES..start].to_vec(), bytes.slice(start..))))
}
/// Marks the chunk at `at` as removed.
///
/// # Errors
/// Errors of the file system.
pub(super) fn mark_removed(file: &dyn FsFile, at: u64) -> io::Result<()> {
    file.write_all_at(&REMOVED, at)
}
/// All chunks of a segment. Bytes that were not yet durable when the last chunk was started are read, and count if they
/// form whole chunks. Behind a damaged front it continues at the next whole chunk.
///
/// # Errors
/// Errors of the file system.
pub(super) fn contents(file: &dyn FsFile, segment: u64) -> io::Result<Contents> {
    let length = file.metadata()?.length;
    let mut reader = Reader { file, start: 0, buffer: Vec::new() };
    let (mut found, mut durable) = (Vec::<Found>::new(), 0);
    let (mut end, mut budget) = (0, SEARCH_BYTES_MAX);
    let mut gaps = Vec::new();
    let is_complete = |one: &Found| read_from(file, &one.place).map(|read| read.is_some());
    loop {
        if let Some((one, before)) = next(&mut reader, segment, end, length)? {
            (end, durable) = (one.place.end(), durable.max(before.min(end)));
            found.push(one);
            continue;
        }
        // The lengths of the last chunk may be the damaged part; a removed chunk has no hash to check.
        let suspect = match found.last() {
            Some(last) if last.is_live => (!is_complete(last)?).then_some((last.place, true)),
            last => last.map(|last| (last.place, false)),
        };
        let from = suspect.map_or(end, |(place, _)| place.at);
        let Some((at, before)) = search(file, from + 1, length, &mut budget)? else { break };
        if suspect.is_some_and(|(place, is_damaged)| is_damaged || place.end() > at) {
            found.pop();
        }
        gaps.push((found.last().map_or(0, |last| last.place.end()), at));
        durable = durable.max(before.min(at));
        end = at;
    }
    let mut torn = Vec::new();
    let mut kept = Vec::with_capacity(found.len());
    for one in found {
        let counts = !one.is_live || one.place.end() <= durable || is_complete(&one)?;
        if counts { kept.push(one) } else { torn.push(one) }
    }
    let end = kept.last().map_or(0, |one| one.place.end());
    torn.retain(|one| one.place.end() <= end);
    let tail = (end < durable).then_some((end, durable));
    let damaged = gaps.into_iter().filter(|(from, _)| *from < durable).chain(tail).collect();
    Ok(Contents { found: kept, torn, damaged, end, durable, length })
}
/// The beginning of the next chunk at `from` or later that is live and whole by its hash, or of the seal, and how much
/// was durable before it. Bytes in a payload may look like a chunk; `budget` bounds the bytes that are read to check
/// that.
fn search(file: &dyn FsFile, from: u64, length: u64, budget: &mut u64) -> io::Result<Option<(u64, u64)>> {
    let mut window = vec![0; SEARCH_WINDOW_BYTES.min(length.saturating_sub(from) as usize)];
    let mut start = from;
    while length.saturating_sub(start) >= FRONT_BYTES as u64 {
        let bytes = (length - start).min(SEARCH_WINDOW_BYTES as u64) as usize;
        file.read_exact_at(&mut window[..bytes], start)?;
        for (at, front) in (start..).zip(window[..bytes].windows(FRONT_BYTES)) {
            let is_marked = |front: &&[u8; FRONT_BYTES]| front.starts_with(&LIVE) || front.starts_with(&REMOVED);
            let header = front.first_chunk().filter(is_marked).and_then(parse);
            let Some(header) = header.filter(|header| header.is_live || header.is_seal(at)) else { continue };
            let Some(place) = header.place(0, at, length) else { continue };
            if *budget < place.bytes() {
                return Ok(None);
            }
            *budget -= place.bytes();
            if read_from(file, &place)?.is_some() {
                return Ok(Some((at, header.durable)));
            }
        }
        start += (bytes - FRONT_BYTES + 1) as u64;
    }
    Ok(None)
}
/// The chunk at `at`, and the length that was durable before it; `None` if no chunk starts there or the file ends
/// within it.
fn next(reader: &mut Reader<'_>, segment: u64, at: u64, length: u64) -> io::Result<Option<(Found, u64)>> {
    if length.saturating_sub(at) < FRONT_BYTES as u64 {
        return Ok(None);
    }
    let Some(header) = reader.bytes(at, FRONT_BYTES)?.first_chunk().and_then(parse) else { return Ok(None) };
    let Some(place) = header.place(segment, at, length) else { return Ok(None) };
    let head = reader.bytes(at + FRONT_BYTES as u64, header.head_bytes as usize)?.to_vec();
    Ok(Some((Found { id: header.id, head, place, is_live: header.is_live }, header.durable)))
}

/// Reads a file in pieces that are larger than the requested ones.
struct Reader<'a> {
    file: &'a dyn FsFile,
    start: u64,
    buffer: Vec<u8>,
}

impl Reader<'_> {
    /// `count` bytes at `at`, which the file has.
    fn bytes(&mut self, at: u64, count: usize) -> io::Result<&[u8]> {
        let has = |buffer: &Vec<u8>, start: u64| {
            at.checked_sub(start).is_some_and(|from| from + count as u64 <= buffer.len() as u64)
        };
        if !has(&self.buffer, self.start) {
            self.start = at;
            self.buffer.resize(count.max(READ_BYTES), 0);
            let mut have = 0;
            while have < count {
                match self.file.read_at(&mut self.buffer[have..], at + have as u64) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(read) => have += read,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        self.buffer.clear();
                        return Err(error);
                    }
                }
            }
            self.buffer.truncate(have);
        }
        let from = (at - self.start) as usize;
        Ok(&self.buffer[from..from + count])
    }
}

/// The header in front of a chunk.
struct Front {
    is_live: bool,
    head_bytes: u32,
    payload_bytes: u64,
    id: u64,
    durable: u64,
    hash: blake3::Hash,
}

impl Front {
    /// The place of the chunk whose front is at `at`; `None` if a file of `length` bytes ends within it.
    fn place(&self, segment: u64, at: u64, length: u64) -> Option<Place> {
        let room = length.checked_sub(at + FRONT_BYTES as u64)?.checked_sub(u64::from(self.head_bytes))?;
        let fits = self.head_bytes <= HEAD_BYTES_MAX && self.payload_bytes <= room;
        fits.then_some(Place { segment, at, head_bytes: self.head_bytes, payload_bytes: self.payload_bytes })
    }
    /// Whether it is the seal of a file at `at`.
    fn is_seal(&self, at: u64) -> bool {
        !self.is_live && (self.head_bytes, self.payload_bytes, self.durable) == (0, 0, at)
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
/// Bytes read at once from a segment whose chunks are listed.
const READ_BYTES: usize = 8 << 10;
/// Bytes searched at once behind damage, and the limit.
const SEARCH_WINDOW_BYTES: usize = 1 << 20;
const SEARCH_BYTES_MAX: u64 = 256 << 20;
/// The longest head that is read back.
const HEAD_BYTES_MAX: u32 = 1 << 16;
