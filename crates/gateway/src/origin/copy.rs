//! A copy of an origin's answer: its head, and its body while it arrives and afterwards.
use std::{
    fs::File,
    io::{self, Write},
    ops::Range,
    os::unix::fs::FileExt,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use bytes::Bytes;
use hyper::HeaderMap;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};
use tributary_net::{
    disk::{ObjectCache, Pin},
    wall_clock,
};
use tributary_web::{
    checksum::{Algorithm, Hasher},
    header::{HeaderName, HeaderValue},
};

/// Bytes that are read at a time.
const READ_BYTES: u64 = 1 << 20;
/// After how many bytes a growing file makes room for as many.
const STEP_BYTES: u64 = 64 << 20;
/// Such pieces that wait for a client.
const PIECES_WAITING_MAX: usize = 2;
/// Where an object differs from one node to the next: its time, and the number of a request.
const TRANSIENT: [&str; 2] = ["date", "x-request-id"];

/// What vouches for the bytes of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verified {
    /// A SHA-256 that the protocol gives.
    Digest,
    /// The origin alone, by its connection and its validators.
    Origin,
    /// The node that published the copy.
    Publisher,
}
impl Verified {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Verified::Digest => "digest",
            Verified::Origin => "origin",
            Verified::Publisher => "publisher",
        }
    }
}

/// The head of an answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) url: String,
    /// The fields of the request that it depends on.
    pub(crate) vary: Vec<(String, String)>,
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    /// Bytes of the body, if known.
    pub(crate) size: Option<u64>,
    /// The SHA-256 of the body, which names its file; `None` while it arrives, and of answers to HEAD.
    pub(crate) digest: Option<String>,
    /// When the origin last confirmed it, in seconds since 1970. Neighbours take it from the version of the object.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) at: u64,
    /// For how many seconds it is fresh from then on.
    pub(crate) lifetime: u64,
    pub(crate) verified: Verified,
}
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
impl Head {
    pub(crate) fn map(&self) -> HeaderMap {
        let pair = |(name, value): &(String, String)| {
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(value).ok()?))
        };
        let mut map = HeaderMap::new();
        self.fields.iter().filter_map(pair).for_each(|(name, value)| _ = map.append(name, value));
        map
    }
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }
    /// How old it is; `None` if the clock has been set back since.
    pub(crate) fn age(&self) -> Option<Duration> {
        wall_clock().checked_sub(Duration::from_secs(self.at))
    }
    /// How long it has been stale; zero if it is fresh.
    pub(crate) fn staleness(&self) -> Duration {
        self.age().map_or(Duration::MAX, |age| age.saturating_sub(Duration::from_secs(self.lifetime)))
    }
    pub(crate) fn is_fresh(&self) -> bool {
        self.age().is_some_and(|age| age < Duration::from_secs(self.lifetime))
    }
    /// Whether it answers a request with these fields.
    pub(crate) fn fits(&self, request: &HeaderMap) -> bool {
        self.vary.iter().all(|(name, value)| field_of(request, name) == *value)
    }
    /// The form for neighbours: equal on all nodes, so that they publish the same object.
    pub(crate) fn document(&self) -> Vec<u8> {
        let mut head = Head { at: 0, ..self.clone() };
        head.fields.retain(|(name, _)| !TRANSIENT.contains(&name.as_str()));
        serde_json::to_vec(&head).unwrap_or_default()
    }
}
/// The texts of a field, as one.
pub(crate) fn field_of(fields: &HeaderMap, name: &str) -> String {
    let values: Vec<&str> = fields.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    values.join(", ")
}
/// Fields as texts; others are left out.
pub(crate) fn texts(fields: &HeaderMap) -> Vec<(String, String)> {
    let text = |(name, value): (&HeaderName, &HeaderValue)| Some((name.to_string(), value.to_str().ok()?.into()));
    fields.iter().filter_map(text).collect()
}

/// A copy. While its body arrives, readers share it; later its file is opened for each.
#[derive(Clone)]
pub(crate) struct Copy {
    pub(crate) head: Head,
    pub(crate) body: Option<Arc<Body>>,
}

/// The bytes of a body, readable as they arrive.
pub(crate) struct Body {
    file: Mutex<Option<Arc<File>>>,
    /// Keeps the file from eviction: space that readers use would not become free.
    pub(crate) pin: Mutex<Option<Pin>>,
    state: watch::Sender<State>,
    /// Whether this gateway itself reads it from the origin: then it will have every byte.
    pub(crate) is_from_origin: AtomicBool,
    /// Whether a digest decides at the end: readers get the last byte only then, so that none takes a wrong file for a
    /// complete one.
    is_on_trial: bool,
}
struct State {
    arrived: Arrived,
    end: Option<Result<(), String>>,
}
enum Arrived {
    /// The first bytes.
    First(u64),
    /// Some chunks of a file of `size` bytes.
    Chunks { held: Vec<bool>, chunk: u64, size: u64 },
}
impl State {
    /// The end of the bytes from `at` on that have arrived without a gap.
    fn end_from(&self, at: u64, is_on_trial: bool) -> u64 {
        let (end, size) = match &self.arrived {
            Arrived::First(end) => (*end, *end),
            Arrived::Chunks { held, chunk, size } => {
                let first = at / chunk;
                let here = held.iter().skip(first as usize).take_while(|held| **held).count() as u64;
                (if here == 0 { at } else { ((first + here) * chunk).min(*size) }, *size)
            }
        };
        if is_on_trial && self.end.is_none() { end.min(size.saturating_sub(1)) } else { end }
    }
}

impl Body {
    pub(crate) fn arriving(is_on_trial: bool) -> Arc<Body> {
        let state = watch::Sender::new(State { arrived: Arrived::First(0), end: None });
        let is_from_origin = AtomicBool::new(false);
        Arc::new(Body { file: Mutex::default(), pin: Mutex::default(), state, is_from_origin, is_on_trial })
    }
    /// One that is complete.
    pub(crate) fn open(path: &Path, pin: Pin) -> io::Result<Arc<Body>> {
        let file = File::open(path)?;
        let arrived = Arrived::First(file.metadata()?.len());
        let state = watch::Sender::new(State { arrived, end: Some(Ok(())) });
        let (file, pin) = (Mutex::new(Some(Arc::new(file))), Mutex::new(Some(pin)));
        let is_from_origin = AtomicBool::new(true);
        Ok(Arc::new(Body { file, pin, state, is_from_origin, is_on_trial: false }))
    }
    /// Its bytes come in chunks to the file at `path`.
    pub(crate) fn begin_chunks(&self, path: &Path, size: u64, chunk: u32, held: Vec<bool>) -> io::Result<()> {
        *self.file.lock() = Some(Arc::new(File::open(path)?));
        let chunk = u64::from(chunk.max(1));
        self.state.send_modify(|state| state.arrived = Arrived::Chunks { held, chunk, size });
        Ok(())
    }
    pub(crate) fn on_chunk(&self, index: u32) {
        self.state.send_modify(|state| {
            if let Arrived::Chunks { held, .. } = &mut state.arrived
                && let Some(held) = held.get_mut(index as usize)
            {
                *held = true;
            }
        });
    }
    /// Nothing more arrives. The first call counts.
    pub(crate) fn end(&self, result: Result<(), String>) {
        self.state.send_modify(|state| _ = state.end.get_or_insert(result));
    }
    pub(crate) fn has_ended(&self) -> bool {
        self.state.borrow().end.is_some()
    }
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.state.borrow().end, Some(Err(_)))
    }
    /// The bytes so far; all of them once it has ended.
    pub(crate) fn len(&self) -> u64 {
        match self.state.borrow().arrived {
            Arrived::First(end) => end,
            Arrived::Chunks { size, .. } => size,
        }
    }
    /// Waits for the byte at `at`; returns the end of those that follow without a gap, or `at` if it is behind the last.
    async fn wait(&self, at: u64) -> Result<u64, String> {
        let mut state = self.state.subscribe();
        let is_here = |state: &State| state.end_from(at, self.is_on_trial) > at || state.end.is_some();
        let state = state.wait_for(is_here).await.map_err(|_| "the gateway ends".to_string())?;
        match (state.end_from(at, self.is_on_trial), &state.end) {
            (_, Some(Err(reason))) => Err(reason.clone()),
            (end, _) => Ok(end.max(at)),
        }
    }
    /// Sends a range of it to a client as it arrives.
    pub(crate) fn stream(self: Arc<Body>, range: Range<u64>) -> mpsc::Receiver<io::Result<Bytes>> {
        let (pieces, wait) = mpsc::channel(PIECES_WAITING_MAX);
        tokio::spawn(async move {
            let mut at = range.start;
            while at < range.end {
                let piece = match self.wait(at).await {
                    Ok(end) if end == at => break,
                    Ok(end) => self.read(at..end.min(range.end).min(at + READ_BYTES)).await,
                    Err(reason) => Err(io::Error::other(reason)),
                };
                at += piece.as_ref().map_or(u64::MAX - at, |bytes| bytes.len() as u64);
                if pieces.send(piece).await.is_err() {
                    break;
                }
            }
        });
        wait
    }
    async fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        let file = self.file.lock().clone().ok_or(io::ErrorKind::NotFound)?;
        let read = move || {
            let mut bytes = vec![0; usize::try_from(range.end - range.start).map_err(io::Error::other)?];
            file.read_exact_at(&mut bytes, range.start)?;
            Ok(bytes.into())
        };
        tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?
    }
}

/// Writes a body in order, and hashes it.
pub(crate) struct Filler {
    pub(crate) body: Arc<Body>,
    cache: ObjectCache,
    file: Arc<File>,
    hasher: Hasher,
    pub(crate) at: u64,
}
impl Filler {
    /// Begins to write the body to a new file.
    pub(crate) fn new(body: Arc<Body>, path: &Path, cache: ObjectCache) -> io::Result<Filler> {
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
        let file = Arc::new(file);
        *body.file.lock() = Some(Arc::clone(&file));
        Ok(Filler { body, cache, file, hasher: Hasher::new(Algorithm::Sha256), at: 0 })
    }
    /// The SHA-256 of all bytes, which must be `proof` if there is one.
    pub(crate) fn finish(self, size: Option<u64>, proof: Option<&str>) -> Result<String, String> {
        let digest = self.hasher.finish(Algorithm::Sha256).digits();
        match (size, proof) {
            (Some(size), _) if size != self.at => Err(format!("{} of {size} bytes came", self.at)),
            (_, Some(proof)) if proof != digest => Err(format!("the bytes have SHA-256 {digest}, and not {proof}")),
            _ => Ok(digest),
        }
    }
}
impl Write for Filler {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The length of some bodies is not known before their end.
        let is_step = self.at / STEP_BYTES != (self.at + bytes.len() as u64) / STEP_BYTES;
        if is_step && !self.cache.make_room(STEP_BYTES) || !self.cache.write(&self.file, bytes, self.at)? {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.hasher.update(bytes);
        self.at += bytes.len() as u64;
        let at = self.at;
        self.body.state.send_modify(|state| state.arrived = Arrived::First(at));
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The SHA-256 of a file.
pub(crate) fn digest_of(path: &Path) -> io::Result<String> {
    let (mut file, mut hasher) = (File::open(path)?, Hasher::new(Algorithm::Sha256));
    let mut bytes = vec![0; READ_BYTES as usize];
    loop {
        match io::Read::read(&mut file, &mut bytes)? {
            0 => return Ok(hasher.finish(Algorithm::Sha256).digits()),
            length => hasher.update(&bytes[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_are_sent_as_they_arrive_and_the_last_one_only_when_the_digest_is_right() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = ObjectCache::open(folder.path(), 1 << 20, Duration::MAX).expect("a cache");
        let filler =
            |name: &str| Filler::new(Body::arriving(true), &folder.path().join(name), cache.clone()).expect("a file");
        let proof = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        for (text, is_right) in [("abc", true), ("abd", false)] {
            let mut filler = filler(text);
            let body = Arc::clone(&filler.body);
            let mut pieces = Arc::clone(&body).stream(0..u64::MAX);
            filler.write_all(&text.as_bytes()[..2]).expect("room");
            assert_eq!(pieces.recv().await.expect("a piece").expect("read"), "a");
            filler.write_all(&text.as_bytes()[2..]).expect("room");
            assert_eq!(pieces.recv().await.expect("a piece").expect("read"), "b");
            body.end(filler.finish(Some(3), Some(proof)).map(drop));
            let last = pieces.recv().await.expect("the last byte, or an error");
            assert_eq!(last.is_ok_and(|bytes| bytes == "c"), is_right, "{text}");
            assert!(pieces.recv().await.is_none());
        }
    }

    #[tokio::test]
    async fn a_range_waits_for_its_own_chunks_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("part");
        std::fs::write(&path, "abcdefghij").expect("writable");
        let body = Body::arriving(false);
        body.begin_chunks(&path, 10, 4, vec![false; 3]).expect("there");
        let mut last = Arc::clone(&body).stream(7..10);
        body.on_chunk(2);
        body.on_chunk(1);
        assert_eq!(last.recv().await.expect("a piece").expect("read"), "hij");
        assert_eq!(Arc::clone(&body).stream(5..6).recv().await.expect("a piece").expect("read"), "f");
        let mut all = body.stream(0..10);
        assert!(all.try_recv().is_err(), "the first chunk is missing");
    }

    #[test]
    fn neighbours_see_the_same_document_whenever_it_was_fetched() {
        let fields = vec![("etag".into(), "\"a\"".into()), ("date".into(), "today".into())];
        let head = Head {
            url: "http://a/b".into(),
            vary: Vec::new(),
            status: 200,
            fields,
            size: Some(3),
            digest: Some("00".into()),
            at: wall_clock().as_secs() - 100,
            lifetime: 60,
            verified: Verified::Origin,
        };
        let later = Head { at: head.at + 90, fields: vec![head.fields[0].clone()], ..head.clone() };
        assert_eq!(head.document(), later.document());
        assert!(later.is_fresh() && !head.is_fresh());
        assert!((40..45).contains(&head.staleness().as_secs()));
        let future = Head { at: head.at + 1_000, ..head };
        assert!(!future.is_fresh(), "a clock that was set back");
    }
}
