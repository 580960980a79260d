//! One file, from the first request to its final name.
use parking_lot::Mutex;
use reqwest::Url;
use std::{borrow::Cow, collections::BTreeMap, io::Read, ops::Range, path::PathBuf, sync::Arc, time::Duration};
use tokio::sync::mpsc;
use tributary_content::{
    ChunkIndex, ChunkStore, Manifest, Name, PublicKey, StoreError, chunk_hash, manifest::chunk_size_for,
};
use tributary_core::{
    PathId, Rate, SourceId, Time,
    event::{TransferEvent, TransferReport},
};
use tributary_net::{
    Clock,
    disk::{Existing, PartFile, PartOptions},
};
use tributary_transport::{
    bulk::{Bulk, BulkChunk, BulkConfig, BulkFailure, BulkFlowId, BulkInput, BulkShape, ChunkPool, Delivers, MirrorId},
    limit::TokenBucket,
    ranges::RangeSet,
    record::Record,
};

use crate::{
    checksum::{Checksum, Hasher, Pieces},
    client::{ClientOptions, Lanes, Shared, Uplink, client, tls},
    flow::{Common, Flow},
    habits::Habit,
    probing::Probed,
    request::{Answer, Ask, Place, Refusal, Validator, request, shown},
    s3,
    search::{Candidate, Search},
    spool::{self, Spool},
};

/// Maximum mirrors of a file.
pub const MIRRORS_MAX: usize = 64;
/// How often arrived bytes are counted.
pub(crate) const TICK: Duration = Duration::from_millis(25);
/// How often progress is reported.
pub(crate) const REPORT_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum chunks that wait for the disk, over all flows.
const QUEUE_CHUNKS: usize = 32;
/// Burst of a rate limit, as time.
pub(crate) const LIMIT_BURST: Duration = Duration::from_millis(50);
/// Maximum bytes of a document that is read into memory.
pub const DOCUMENT_BYTES_MAX: usize = 16 << 20;

/// A file to fetch.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The addresses of the file. The checksum, the pieces, or else the majority decide which file is the right one.
    pub mirrors: Vec<Url>,
    /// Its destination.
    pub output: PathBuf,
    /// Its bytes, if known.
    pub size: Option<u64>,
    /// The required hash, if known.
    pub checksum: Option<Checksum>,
    /// The hashes of its pieces, if known; they need the size.
    pub pieces: Option<Pieces>,
    /// Whether an existing file may be replaced.
    pub existing: Existing,
    /// Where it is remembered which files were fetched from where, and which habits servers have; without it no file is
    /// replaced.
    pub state_dir: Option<PathBuf>,
    /// The rate not to exceed.
    pub rate_limit: Option<Rate>,
    /// How long to go without a byte from any mirror.
    pub patience: Duration,
    /// How servers are reached.
    pub client: ClientOptions,
}

/// Reports during a fetch.
#[derive(Clone, Debug)]
pub enum Update {
    /// An attempt begins. `part` is the file with the bytes so far: those of the chunks of `chunk_size` bytes that are
    /// `held`, and of later [`TransferEvent::ChunkStored`].
    Opened {
        /// The file, which gets its final name at the end.
        part: PathBuf,
        /// Bytes of the whole file.
        size: u64,
        /// Bytes of a chunk but the last one.
        chunk_size: u32,
        /// Which chunks an earlier fetch has left.
        held: Vec<bool>,
    },
    /// Something happened.
    Event(TransferEvent),
    /// How far it is.
    Report(Box<TransferReport>, Time),
}
/// Whether a fetch continues. If it does not, the bytes fetched so far are kept.
pub type Control = std::ops::ControlFlow<()>;

/// A file that is complete.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The account.
    pub report: TransferReport,
    /// Where it is.
    pub path: PathBuf,
    /// Whether all of it was checked against a checksum or the hashes of its pieces.
    pub verified: bool,
    /// The SHA-256 or other checksum that it was checked against.
    pub checksum: Option<String>,
}

/// Why a fetch ended without the file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebError {
    /// No mirror has it.
    #[error("{0}")]
    NotFound(String),
    /// A part of it was fetched and kept.
    #[error("{0}")]
    Incomplete(String),
    /// No mirror has the file with the checksum.
    #[error("{0}")]
    Mismatch(String),
    /// The options make no sense, or a file that they name cannot be used.
    #[error("{0}")]
    Usage(String),
    /// The disk refused.
    #[error("{0}")]
    Disk(#[from] StoreError),
    /// The system has no thread or the like.
    #[error("{0}")]
    System(String),
    /// The caller ended it.
    #[error("the fetch was stopped; the bytes received are kept")]
    Stopped,
}

/// Fetches a file. Blocks; `on_update` is called several times a second.
///
/// # Errors
/// [`WebError`] names the failed step, its target and the cause.
pub fn fetch(wanted: &Wanted, on_update: &mut dyn FnMut(Update) -> Control) -> Result<Outcome, WebError> {
    run(Search::run(wanted, on_update))
}
/// Reads a small document, such as a Metalink file, from a URL.
///
/// # Errors
/// Errors of [`fetch`]; [`WebError::NotFound`] if it is too large.
pub fn fetch_document(url: &Url, options: &ClientOptions) -> Result<Vec<u8>, WebError> {
    run(async {
        let shared = Shared::new(options)?;
        let client = client(options.uplinks.first().unwrap_or(&Uplink::Any), tls(options, None)?, options)?;
        let failed = |why: &str| WebError::NotFound(format!("cannot fetch '{}': {why}", shown(url)));
        let refused = |refusal: Refusal| failed(&refusal.reason());
        let mut answer = request(&client, &shared, url, &Ask::Whole).await.map_err(refused)?;
        let mut bytes = Vec::new();
        loop {
            let read = tokio::time::timeout(crate::client::HEAD_TIME_MAX, answer.read()).await;
            match read.map_err(|_| failed("it stalls"))?.map_err(refused)? {
                Some(more) if bytes.len() + more.len() <= DOCUMENT_BYTES_MAX => bytes.extend_from_slice(&more),
                Some(_) => return Err(failed(&format!("it has more than {DOCUMENT_BYTES_MAX} bytes"))),
                None => return Ok(bytes),
            }
        }
    })
}
pub(crate) fn run<T>(work: impl Future<Output = Result<T, WebError>>) -> Result<T, WebError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| WebError::System(format!("cannot start a thread: {error}")))?;
    let result = runtime.block_on(work);
    // A lookup of a name may take longer; it is not waited for.
    runtime.shutdown_background();
    result
}
// The chunks on the disk.

/// The chunks of the file, for the scheduler.
struct Chunks {
    idle: RangeSet,
    held: Vec<bool>,
    chunk_size: u32,
}
impl ChunkPool for Chunks {
    fn take(&mut self, chunks: u32) -> Option<Range<u32>> {
        let (first, end) = self.idle.first_range()?;
        let end = end.min(first.saturating_add(chunks));
        self.idle.remove(first, end);
        Some(first..end)
    }
    fn give_back(&mut self, run: Range<u32>) {
        run.filter(|chunk| !self.held[*chunk as usize]).for_each(|chunk| self.idle.insert(chunk, chunk + 1));
    }
    fn is_missing(&self, chunk: u32) -> bool {
        self.held.get(chunk as usize).is_some_and(|held| !held)
    }
    fn idle_bytes(&self) -> u64 {
        self.idle.len() * u64::from(self.chunk_size)
    }
    fn chunk_bytes(&self) -> u32 {
        self.chunk_size
    }
    fn chunks(&self) -> u32 {
        self.held.len() as u32
    }
}

// The fetch.

struct MirrorPlace {
    id: MirrorId,
    place: Place,
    is_encoded: bool,
    /// Its maximum connections, if known.
    connections: Option<usize>,
    /// An answer that starts at the beginning of the file.
    held: Option<Answer>,
    /// How long the head of its first answer took over uplinks, by their places in the lanes.
    times: BTreeMap<usize, Duration>,
}

/// Why an attempt ended without the file.
pub(crate) enum End {
    /// For good.
    Failed(WebError),
    /// The file has changed on every mirror.
    Changed(WebError),
    /// It has another checksum, and `decoded` has the right one, if the servers announce an encoding.
    Mismatch { error: WebError, servers: usize, decoded: Option<Spool> },
}
impl<E: Into<WebError>> From<E> for End {
    fn from(error: E) -> End {
        End::Failed(error.into())
    }
}

/// One attempt to fetch the file of a certain size.
pub(crate) struct Fetch<'a> {
    wanted: &'a Wanted,
    clock: Clock,
    bulk: Bulk,
    chunks: Chunks,
    store: PartFile,
    manifest: Manifest,
    pieces: Option<&'a Pieces>,
    mirrors: Vec<MirrorPlace>,
    flows: Vec<(MirrorId, Flow)>,
    record: Record,
    stored_bytes: u64,
    /// Which mirror delivered a chunk in this run.
    owners: BTreeMap<u32, MirrorId>,
    prefix: Prefix,
    heard: Time,
    reported: Time,
    has_changed: bool,
}

/// The start of the file that is already hashed, so that little is left to do once the last chunk has arrived.
#[derive(Default)]
struct Prefix {
    hasher: Option<Hasher>,
    chunks: u32,
}

impl<'a> Fetch<'a> {
    /// Opens the store. Mirrors that are not `usable` have another file; `clock` was started when the first byte was requested.
    pub(crate) fn open(
        wanted: &'a Wanted,
        clock: Clock,
        size: u64,
        mirrors: Vec<Candidate>,
        on_update: &mut dyn FnMut(Update) -> Control,
    ) -> Result<Self, WebError> {
        let mut bulk = Bulk::new(BulkConfig::default(), SourceId(1), PathId(1));
        let mut nothing = Chunks { idle: RangeSet::new(), held: Vec::new(), chunk_size: 1 };
        let is_proven = wanted.checksum.is_some() || wanted.pieces.is_some();
        let (mut places, mut first) = (Vec::new(), None);
        for Candidate { url, answer, habit } in mirrors {
            let delivers = match &answer {
                Ok(probed) if !probed.head.ranges => Delivers::Everything,
                _ => Delivers::Ranges,
            };
            let id = bulk.add_mirror(&label_of(&url), delivers);
            match answer {
                Err(Refusal::Faulty(reason)) => bulk.distrust_mirror(id, reason, &mut nothing),
                Err(refusal) => bulk.close_mirror(id, refusal.reason(), &mut nothing),
                Ok(Probed { head, held, times }) => {
                    let place = Place::new(url, Some(size), is_proven, habit.range_max);
                    // It is the first answer, so there is nothing to contradict.
                    let _ = place.compare(&head);
                    first.get_or_insert(head.validator);
                    let (is_encoded, connections) = (head.is_encoded, habit.connections);
                    places.push(MirrorPlace { id, place, is_encoded, connections, held, times });
                }
            }
        }
        if !bulk.any_usable() {
            while let Some(event) = bulk.poll_event() {
                let _ = on_update(Update::Event(event));
            }
            let (name, why) = (shown(&wanted.mirrors[0]), bulk.hopeless_reason());
            return Err(WebError::NotFound(format!("cannot fetch '{name}': {why}")));
        }
        let (chunk_size, pieces) = cut(wanted, size);
        let manifest = describe(wanted, size, chunk_size, first.as_ref())?;
        let options =
            PartOptions { existing: wanted.existing, state_dir: wanted.state_dir.clone(), ..PartOptions::default() };
        let store = PartFile::open(&wanted.output, &manifest, &options)?;
        let held: Vec<bool> = (0..manifest.chunk_count()).map(|chunk| store.held().get(chunk)).collect();
        let mut idle = RangeSet::new();
        store.held().unset_ranges().for_each(|run| idle.insert(run.start, run.end));
        let stored_bytes =
            store.held().iter_set().map(|chunk| u64::from(manifest.chunk_len(ChunkIndex(chunk)))).sum::<u64>();
        let mut record = Record::new(Time::ZERO);
        record.on_open(size, stored_bytes);
        let _ = on_update(Update::Opened { part: store.part().into(), size, chunk_size, held: held.clone() });
        Ok(Fetch {
            wanted,
            clock,
            bulk,
            chunks: Chunks { idle, held, chunk_size },
            store,
            manifest,
            pieces,
            mirrors: places,
            flows: Vec::new(),
            record,
            stored_bytes,
            owners: BTreeMap::new(),
            prefix: Prefix::default(),
            heard: Time::ZERO,
            reported: Time::ZERO,
            has_changed: false,
        })
    }
    /// Fetches the chunks that `spool` lacks, and gives the file its name.
    pub(crate) async fn complete(
        &mut self,
        lanes: &Lanes,
        shared: &Arc<Shared>,
        spool: Option<&Spool>,
        on_update: &mut dyn FnMut(Update) -> Control,
    ) -> Result<Outcome, End> {
        let (came, mut arrivals) = mpsc::channel(QUEUE_CHUNKS);
        let limit = Arc::new(Mutex::new(TokenBucket::new(self.wanted.rate_limit, LIMIT_BURST)));
        self.connect(lanes, Common { shared: Arc::clone(shared), came, limit, clock: self.clock });
        if let Some(spool) = spool {
            self.take_all(spool)?;
        }
        self.transfer(&mut arrivals, on_update).await?;
        self.check(&mut arrivals, on_update).await?;
        self.store.finish()?;
        self.record.complete(self.clock.now());
        self.on_update(on_update)?;
        let verified = self.wanted.checksum.is_some() || self.wanted.pieces.is_some();
        let checksum = self.wanted.checksum.as_ref().map(ToString::to_string);
        Ok(Outcome { report: self.report(), path: self.store.target().into(), verified, checksum })
    }
    /// Observations about the servers.
    pub(crate) fn habits(&self) -> impl Iterator<Item = (&Url, Habit)> {
        self.mirrors.iter().map(|mirror| {
            let (id, place) = (mirror.id, &mirror.place);
            let connections = self.bulk.connections_max(id).or(mirror.connections);
            let is_stream = self.bulk.delivers(id) == Delivers::Everything;
            (&place.url, Habit { is_stream, connections, range_max: place.range_max(), day: 0 })
        })
    }
    /// Starts the tasks of the flows.
    fn connect(&mut self, lanes: &Lanes, common: Common) {
        let shape = BulkShape { size: self.manifest.size, chunk_size: self.manifest.chunk_size };
        for mirror in &mut self.mirrors {
            let clients = &lanes.clients[usize::from(mirror.id.0)];
            for (lane, (uplink, client)) in lanes.uplinks.iter().zip(clients).enumerate() {
                // Each uplink keeps one connection.
                let flows = self.flows.iter().filter(|(id, _)| *id == mirror.id).count();
                if !lanes.is_first(lane) && mirror.connections.is_some_and(|most| flows >= most) {
                    continue;
                }
                // The probe took the time of a connection too.
                let rtt = mirror.times.get(&lane).map(|time| *time / 2);
                let Some(id) = self.bulk.add_flow(mirror.id, &uplink.to_string(), rtt) else { continue };
                let way = (client, &mirror.place, mirror.held.take());
                self.flows.push((mirror.id, Flow::start(id, way, shape, &common)));
            }
        }
    }
    /// Takes the bytes of a single stream from the first mirror.
    fn take_all(&mut self, spool: &Spool) -> Result<(), WebError> {
        let flow = BulkFlowId(0);
        for chunk in 0..self.manifest.chunk_count() {
            let index = ChunkIndex(chunk);
            let mut bytes = vec![0; self.manifest.chunk_len(index) as usize];
            spool.read_at(&mut bytes, self.manifest.chunk_offset(index))?;
            let verdict = self.take(flow, chunk, &bytes)?;
            let of_chunk = (chunk, bytes.len() as u32);
            self.bulk.handle_chunk(self.clock.now(), flow, 0, of_chunk, verdict, &mut self.chunks);
        }
        Ok(())
    }

    /// Runs until every chunk has arrived.
    async fn transfer(
        &mut self,
        arrivals: &mut mpsc::Receiver<BulkInput>,
        on_update: &mut dyn FnMut(Update) -> Control,
    ) -> Result<(), End> {
        self.heard = self.clock.now();
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while self.stored_bytes < self.manifest.size {
            tokio::select! {
                came = arrivals.recv() => match came {
                    Some(came) => self.handle(came)?,
                    None => return Err(WebError::System("the connections' tasks have ended".into()).into()),
                },
                _ = tick.tick() => {}
            }
            let now = self.clock.now();
            self.count_bytes(now);
            self.bulk.handle_timeout(now, &mut self.chunks);
            self.send_orders(now);
            self.hash_next()?;
            self.on_update(on_update)?;
            if !self.bulk.any_usable() {
                let error = self.incomplete(&self.bulk.hopeless_reason());
                return Err(if self.has_changed { End::Changed(error) } else { End::Failed(error) });
            }
            if now.since(self.heard) >= self.wanted.patience {
                let (why, patience) = (self.bulk.hopeless_reason(), self.wanted.patience);
                return Err(self.incomplete(&format!("nothing came for {patience:?} ({why})")).into());
            }
        }
        Ok(())
    }
    /// Hashes the next chunk behind the hashed ones, if it has arrived. True if it had.
    fn hash_next(&mut self) -> Result<bool, WebError> {
        let Some(checksum) = &self.wanted.checksum else { return Ok(false) };
        if self.prefix.chunks >= self.manifest.chunk_count() || self.chunks.is_missing(self.prefix.chunks) {
            return Ok(false);
        }
        let bytes = self.read(self.prefix.chunks)?;
        self.prefix.hasher.get_or_insert_with(|| checksum.hasher()).update(&bytes);
        self.prefix.chunks += 1;
        Ok(true)
    }
    fn incomplete(&self, why: &str) -> WebError {
        let (name, kept, size) = (shown(&self.wanted.mirrors[0]), self.stored_bytes, self.manifest.size);
        WebError::Incomplete(format!(
            "cannot fetch '{name}' any further: {why}; {kept} of {size} bytes are here and kept"
        ))
    }
    fn handle(&mut self, came: BulkInput) -> Result<(), WebError> {
        let now = self.clock.now();
        self.count_bytes(now);
        match came {
            BulkInput::Head { flow, number } => {
                self.heard = now;
                self.bulk.handle_head(now, flow, number);
            }
            BulkInput::Failed { flow, number, failure } => {
                if let BulkFailure::Again { wait: Some(wait), .. } = &failure {
                    // A server that requests a pause is reachable.
                    self.heard = now + *wait;
                }
                self.has_changed |= matches!(failure, BulkFailure::Changed(_));
                self.bulk.handle_failure(now, flow, number, failure, &mut self.chunks);
            }
            BulkInput::Chunk { flow, number, chunk, bytes } => {
                self.heard = now;
                let verdict = self.take(flow, chunk, &bytes)?;
                self.bulk.handle_chunk(now, flow, number, (chunk, bytes.len() as u32), verdict, &mut self.chunks);
            }
            // A flow reports nothing else.
            BulkInput::Mirror { .. } | BulkInput::Settled | BulkInput::Bytes { .. } => {}
        }
        Ok(())
    }
    /// Verifies and keeps a chunk.
    fn take(&mut self, flow: BulkFlowId, chunk: u32, bytes: &[u8]) -> Result<BulkChunk, WebError> {
        let Some(mirror) = self.bulk.mirror_of(flow) else { return Ok(BulkChunk::Duplicate) };
        if !self.chunks.is_missing(chunk) || !self.bulk.is_usable(mirror) {
            return Ok(BulkChunk::Duplicate);
        }
        let offset = self.manifest.chunk_offset(ChunkIndex(chunk));
        if self.pieces.is_some_and(|pieces| !pieces.fit(offset, bytes)) {
            let end = offset + bytes.len() as u64;
            return Ok(BulkChunk::Bad(format!(
                "sent bytes {offset} to {} that do not fit the hash of their piece",
                end - 1
            )));
        }
        self.store.put_chunk(ChunkIndex(chunk), bytes)?;
        self.chunks.held[chunk as usize] = true;
        self.chunks.idle.remove(chunk, chunk + 1);
        self.stored_bytes += bytes.len() as u64;
        self.owners.insert(chunk, mirror);
        let length = bytes.len() as u32;
        self.record.push(TransferEvent::ChunkStored { index: chunk, bytes: length });
        Ok(BulkChunk::Kept)
    }
    fn count_bytes(&mut self, now: Time) {
        for (index, (_, flow)) in (0..).zip(&mut self.flows) {
            let arrived = flow.arrived();
            if arrived > 0 {
                self.bulk.handle_bytes(now, BulkFlowId(index), flow.number, arrived);
                self.heard = self.heard.max(now);
            }
        }
    }
    fn send_orders(&mut self, now: Time) {
        loop {
            while let Some(cut) = self.bulk.poll_cut() {
                self.flows[usize::from(cut.flow.0)].1.cut(cut);
            }
            let Some(order) = self.bulk.poll_order(now, &mut self.chunks) else { return };
            let (mirror, flow) = &mut self.flows[usize::from(order.flow.0)];
            flow.order(order, self.bulk.delivers(*mirror));
        }
    }
    fn on_update(&mut self, on_update: &mut dyn FnMut(Update) -> Control) -> Result<(), WebError> {
        let mut is_stopped = false;
        while let Some(event) = self.bulk.poll_event().or_else(|| self.record.poll_event()) {
            is_stopped |= on_update(Update::Event(event)).is_break();
        }
        let now = self.clock.now();
        if now.since(self.reported) >= REPORT_INTERVAL {
            self.reported = now;
            is_stopped |= on_update(Update::Report(Box::new(self.report()), now)).is_break();
        }
        if is_stopped { Err(WebError::Stopped) } else { Ok(()) }
    }
    fn report(&self) -> TransferReport {
        let sizes = (self.manifest.size, self.stored_bytes);
        let mut report = self.record.report(sizes, Vec::new(), Vec::new());
        self.bulk.add_to(self.clock.now(), &mut report);
        report
    }

    // The checksum of the whole file.

    /// Checks the whole file. If it is wrong, each mirror in turn delivers all chunks that came from others: the one
    /// whose file matches shows which mirrors sent false bytes.
    async fn check(
        &mut self,
        arrivals: &mut mpsc::Receiver<BulkInput>,
        on_update: &mut dyn FnMut(Update) -> Control,
    ) -> Result<(), End> {
        let Some(found) = self.mismatch()? else { return Ok(()) };
        let name = shown(&self.wanted.mirrors[0]);
        let decoded = self.decoded()?;
        let mut tries: Vec<MirrorId> =
            self.mirrors.iter().map(|mirror| mirror.id).filter(|id| self.bulk.is_usable(*id)).collect();
        let delivered = |id: &MirrorId| self.owners.values().filter(|owner| *owner == id).count();
        tries.sort_by_key(|id| std::cmp::Reverse(delivered(id)));
        let text = format!("the file does not fit its checksum ({found}): each mirror is tried alone");
        let _ = on_update(Update::Event(TransferEvent::Advice { text }));
        // What each mirror sent first, by the hashes of its chunks.
        let mut sent: BTreeMap<u32, (MirrorId, _)> = BTreeMap::new();
        for honest in tries {
            for chunk in 0..self.manifest.chunk_count() {
                let owner = self.owners.get(&chunk).copied();
                if owner == Some(honest) {
                    continue;
                }
                if let Some(owner) = owner {
                    let bytes = self.read(chunk)?;
                    sent.entry(chunk).or_insert((owner, chunk_hash(&bytes)));
                }
                self.store.forget(ChunkIndex(chunk))?;
                self.prefix = Prefix::default();
                self.owners.remove(&chunk);
                self.chunks.held[chunk as usize] = false;
                self.chunks.idle.insert(chunk, chunk + 1);
                self.stored_bytes -= u64::from(self.manifest.chunk_len(ChunkIndex(chunk)));
            }
            if decoded.is_some() {
                break;
            }
            self.bulk.set_only(Some(honest));
            match self.transfer(arrivals, on_update).await {
                Err(End::Failed(WebError::Incomplete(_)) | End::Changed(_))
                    if self.bulk.any_usable() && !self.bulk.is_usable(honest) =>
                {
                    continue;
                }
                ended => ended?,
            }
            self.bulk.set_only(None);
            if self.mismatch()?.is_some() {
                continue;
            }
            let mut faulty: BTreeMap<MirrorId, u32> = BTreeMap::new();
            for (chunk, (owner, hash)) in sent {
                if owner != honest && chunk_hash(&self.read(chunk)?) != hash {
                    faulty.entry(owner).or_insert(chunk);
                }
            }
            for (mirror, chunk) in faulty {
                let at = self.manifest.chunk_offset(ChunkIndex(chunk));
                let reason = format!("sent other bytes than those that fit the checksum, near byte {at}");
                self.bulk.distrust_mirror(mirror, reason, &mut self.chunks);
            }
            return Ok(self.on_update(on_update)?);
        }
        let wanted = self.wanted.checksum.as_ref().map(ToString::to_string).unwrap_or_default();
        let error = WebError::Mismatch(format!(
            "cannot fetch '{name}': no mirror has the file with {wanted}; the last one tried has {found}"
        ));
        let servers = self.mirrors.iter().map(|mirror| mirror.place.servers()).sum();
        // Nothing of a wrong file is worth keeping.
        (0..self.manifest.chunk_count()).try_for_each(|chunk| self.store.forget(ChunkIndex(chunk)))?;
        Err(End::Mismatch { error, servers, decoded })
    }
    /// The decoded file, if it has the checksum: some servers compress files against the request's header.
    fn decoded(&self) -> Result<Option<Spool>, WebError> {
        let is_encoded = self.mirrors.iter().any(|mirror| mirror.is_encoded);
        let Some(checksum) = self.wanted.checksum.as_ref().filter(|_| is_encoded) else { return Ok(None) };
        let stored = || Stored { fetch: self, at: 0 };
        let mut hasher = checksum.hasher();
        // Hashed before anything is written: a wrong file may have any length.
        let fits = spool::decode(stored(), &mut |bytes| {
            hasher.update(bytes);
            Ok(())
        }) && hasher.finish(checksum.algorithm) == *checksum;
        if !fits {
            return Ok(None);
        }
        let mut spool = Spool::beside(&self.wanted.output)?;
        spool::decode(stored(), &mut |bytes| spool.write(bytes));
        Ok(Some(spool))
    }
    fn read(&self, chunk: u32) -> Result<Vec<u8>, WebError> {
        let mut bytes = vec![0; self.manifest.chunk_len(ChunkIndex(chunk)) as usize];
        self.store.read_at(&mut bytes, self.manifest.chunk_offset(ChunkIndex(chunk)))?;
        Ok(bytes)
    }
    /// The checksum that the file has, if that is another than it must have.
    fn mismatch(&mut self) -> Result<Option<String>, WebError> {
        if let Some(checksum) = &self.wanted.checksum {
            while self.hash_next()? {}
            let hasher = self.prefix.hasher.take().unwrap_or_else(|| checksum.hasher());
            self.prefix = Prefix::default();
            let found = hasher.finish(checksum.algorithm);
            return Ok((found != *checksum).then(|| found.to_string()));
        }
        // Pieces that are larger than any chunk.
        let Some(pieces) = self.wanted.pieces.as_ref().filter(|_| self.pieces.is_none()) else { return Ok(None) };
        for (index, hash) in pieces.hashes.iter().enumerate() {
            let (mut at, mut hasher) = (index as u64 * pieces.length, hash.hasher());
            let end = (at + pieces.length).min(self.manifest.size);
            while at < end {
                let mut bytes = vec![0; (end - at).min(1 << 20) as usize];
                self.store.read_at(&mut bytes, at)?;
                hasher.update(&bytes);
                at += bytes.len() as u64;
            }
            let found = hasher.finish(hash.algorithm);
            if found != *hash {
                return Ok(Some(format!("piece {index}: {found}")));
            }
        }
        Ok(None)
    }
}

/// The stored bytes, in sequence.
struct Stored<'a, 'b> {
    fetch: &'a Fetch<'b>,
    at: u64,
}
impl Read for Stored<'_, '_> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let length = (self.fetch.manifest.size - self.at).min(bytes.len() as u64) as usize;
        self.fetch.store.read_at(&mut bytes[..length], self.at).map_err(std::io::Error::other)?;
        self.at += length as u64;
        Ok(length)
    }
}

/// Bytes of the smallest chunks, and the largest number of such chunks in a file, beyond which they grow: near the end
/// connections share the remainder by whole chunks, and one that shares its uplink with several others takes long for
/// each.
const CHUNK_MIN: u32 = 64 << 10;
const CHUNKS_MAX: u64 = 1 << 16;

/// Bytes of the chunks of a file without pieces.
fn chunk_for(size: u64) -> u32 {
    let least = size.div_ceil(CHUNKS_MAX).next_power_of_two().max(u64::from(CHUNK_MIN));
    chunk_size_for(size).min(u32::try_from(least).unwrap_or(u32::MAX))
}
/// How a file is cut into chunks, and the pieces that chunks are verified by.
fn cut(wanted: &Wanted, size: u64) -> (u32, Option<&Pieces>) {
    let chunk = chunk_for(size);
    let Some(pieces) = &wanted.pieces else { return (chunk, None) };
    if pieces.length > u64::from(Manifest::CHUNK_SIZE_MAX) {
        return (chunk, None);
    }
    // A chunk is one piece or several, so that it can be verified alone.
    let several = u64::from(chunk).div_ceil(pieces.length) * pieces.length;
    match u32::try_from(several) {
        Ok(bytes) if bytes <= Manifest::CHUNK_SIZE_MAX => (bytes, Some(pieces)),
        _ => (chunk, None),
    }
}
/// Describes the file for its store. An interrupted fetch of another version has another description.
fn describe(wanted: &Wanted, size: u64, chunk_size: u32, first: Option<&Validator>) -> Result<Manifest, WebError> {
    let url = shown(&wanted.mirrors[0]);
    let mut hasher = blake3::Hasher::new();
    match (&wanted.checksum, &wanted.pieces, first) {
        (Some(checksum), ..) => _ = hasher.update(checksum.bytes()),
        (None, Some(pieces), _) => pieces.hashes.iter().for_each(|hash| _ = hasher.update(hash.bytes())),
        (None, None, Some(validator)) if validator.etag.is_some() || validator.modified.is_some() => {
            hasher.update(format!("{:?} {:?}", validator.etag, validator.modified).as_bytes());
        }
        // Nothing shows whether it is the same file the next time: a part of it is not resumed then.
        _ => _ = hasher.update(format!("{:?}", tributary_net::wall_clock()).as_bytes()),
    }
    let version = u64::from_be_bytes(hasher.finalize().as_bytes()[..8].try_into().expect("a hash has 32 bytes"));
    let key = blake3::hash(url.as_bytes());
    let name: Result<Name, _> = format!("/web/{}", &key.to_hex()[..32]).parse();
    let name = name.map_err(|error| WebError::Usage(format!("cannot fetch '{url}': {error}")))?;
    Manifest::unsigned(name, version, size, chunk_size, PublicKey(*key.as_bytes()))
        .map_err(|error| WebError::Usage(format!("cannot fetch '{url}': {error}")))
}
/// The host, with its port if that is unusual.
pub(crate) fn label_of(url: &Url) -> String {
    if url.scheme() == s3::SCHEME {
        return format!("s3://{}", url.host_str().unwrap_or_default());
    }
    match (url.host_str().unwrap_or_default(), url.port()) {
        (host, Some(port)) => format!("{host}:{port}"),
        (host, None) => host.into(),
    }
}
/// The last part of a URL's path as a file name, if it is a legal one.
pub fn file_name(url: &Url) -> Option<String> {
    let last = url.path_segments()?.next_back()?;
    let name = percent_decoded(last)?;
    let is_fit =
        !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0']) && !name.starts_with('-');
    (is_fit && !name.contains(char::is_control)).then_some(name)
}

pub(crate) fn percent_decoded(text: &str) -> Option<String> {
    percent_encoding::percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned)
}
