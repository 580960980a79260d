//! Requests for an object that another receiver has requested through this router and that is arriving: they join it, and
//! the cache answers them chunk by chunk (as NDN's pending Interests do), so that each chunk comes from its source once.
//!
//! The router forwards the first request to a source: its transfer leads the stream. A flow that joined starves when the
//! router has sent its receiver every cached chunk. It then leaves the stream and leads a new one: the router requests the
//! missing chunks from a source.
//!
//! | at once, if | later, if no packet comes for |
//! |---|---|
//! | the leader's receiver is complete, or its source is unavailable | [`pending_lifetime`](crate::Config::pending_lifetime) |
//! | the router drops one of the leader's chunks | an eighth of that, once the leader's receiver left this router |
//! | the neighbour that sends the chunks is gone | |
//! | the leader's own queue blocks its next chunk, since its link is slower | |
//!
//! Silence is no reason while the joined receivers are busy: on a slow link each chunk takes seconds.
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use bytes::Bytes;
use tributary_content::ObjectId;
use tributary_core::{Duration, FaceId, Time};

use super::Router;
use crate::{
    ids::Guid,
    wire::{ChunkHeader, ChunkRanges, TransportBody, TransportMessage},
};

/// The receiver of a transfer, and its number.
type FlowId = (Guid, u32);

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Pending {
    /// Its header.
    pub header: ChunkHeader,
    /// The encoded request.
    pub payload: Bytes,
}

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The router forwards it to a source.
    Passes,
    /// It is kept here until the first chunk shows how the object is cut.
    Waits,
    /// The cache answers it: the size of the chunks, and their number.
    Joins((u32, u32)),
}

/// An object that is arriving.
#[derive(Debug, Default)]
pub struct Stream {
    leader: FlowId,
    /// Chunks that the leader did not request, and their size.
    held: (ChunkRanges, u32),
    /// The face over which its chunks come.
    face: Option<FaceId>,
    heard_at: Time,
    has_stopped: bool,
    /// Whether the leader's receiver has left this router.
    has_left: bool,
    /// Requests that wait for the first chunk.
    pub waiting: BTreeMap<FlowId, Pending>,
    /// Requests that the cache answers.
    pub joined: BTreeMap<FlowId, Pending>,
    /// Joined flows whose next chunk is missing.
    lacking: BTreeSet<FlowId>,
    /// Since when one of these flows starves.
    starves_since: Option<Time>,
}

impl Stream {
    fn new(now: Time, leader: FlowId, held: (ChunkRanges, u32)) -> Stream {
        Stream { leader, held, heard_at: now, ..Stream::default() }
    }
    fn due(&self, lifetime: Duration) -> Time {
        let patience = if self.has_left { lifetime / LEFT_PART } else { lifetime };
        self.starves_since.map_or(self.heard_at + lifetime, |since| since + patience)
    }
}

/// A stream that has stopped while flows starve.
#[derive(Debug)]
pub struct Stopped {
    /// Its object.
    pub object: ObjectId,
    /// The first starving flow and its request; `None` if all requests wait for the first chunk.
    pub starving: Option<(FlowId, Pending)>,
    /// Its other requests.
    pub stream: Stream,
}

/// Divides the lifetime of a stream whose leader has left the router.
const LEFT_PART: u32 = 8;

/// The objects that are arriving through a router with a cache.
#[derive(Debug, Default)]
pub struct Arriving {
    streams: BTreeMap<ObjectId, Stream>,
    /// Those for which requests wait.
    awaited: BTreeSet<ObjectId>,
    requests_max: usize,
    lifetime: Duration,
    /// No stream is due earlier.
    due: Option<Time>,
    /// Requests that wait or have joined.
    len: usize,
    /// Requests that joined so far.
    pub joins: u64,
    /// Requests forwarded to a source because of `pending_requests_max`.
    pub beyond: u64,
}

impl Arriving {
    /// Nothing yet; at most `requests_max` objects and as many requests, each as long as something comes every `lifetime`.
    pub fn new(requests_max: u32, lifetime: Duration) -> Arriving {
        let requests_max = requests_max as usize;
        Arriving { requests_max, lifetime, ..Arriving::default() }
    }
    /// A request comes that the cache cannot answer as a whole. It has `holds` of the object, which is cut so; no `cut` if
    /// nothing of it, or `None` in it if the object does not fit.
    pub fn on_request(
        &mut self,
        now: Time,
        pending: &Pending,
        message: &TransportMessage,
        cut: Option<Option<(u32, u32)>>,
        holds: impl Fn(u32) -> bool,
    ) -> Verdict {
        let TransportMessage { transfer, object, body: TransportBody::Request { chunk_bytes, held, .. } } = message
        else {
            return Verdict::Passes;
        };
        let id = (pending.header.source, *transfer);
        let Some(stream) = self.streams.get_mut(object) else {
            if self.streams.len() < self.requests_max {
                self.insert(*object, Stream::new(now, id, (held.clone(), *chunk_bytes)));
            }
            return Verdict::Passes;
        };
        if stream.leader == id {
            stream.held = (held.clone(), *chunk_bytes);
            return Verdict::Passes;
        }
        let is_covered = match cut {
            // What the leader has does not come, unless this one has it too.
            None => stream.held.0.is_empty() || stream.held == (held.clone(), *chunk_bytes),
            Some(None) => false,
            Some(Some(cut)) => {
                let (own, leaders) = (held.recut(*chunk_bytes, cut), stream.held.0.recut(stream.held.1, cut));
                (0..cut.1).all(|number| own.contains(number) || holds(number) || !leaders.contains(number))
            }
        };
        let is_new = !stream.waiting.contains_key(&id) && !stream.joined.contains_key(&id);
        if !is_covered || is_new && self.len >= self.requests_max {
            self.beyond += u64::from(is_covered);
            return Verdict::Passes;
        }
        self.len += usize::from(is_new);
        self.joins += u64::from(is_new);
        match cut.flatten() {
            Some(cut) => {
                stream.waiting.remove(&id);
                stream.joined.insert(id, pending.clone());
                Verdict::Joins(cut)
            }
            None => {
                stream.waiting.insert(id, pending.clone());
                self.awaited.insert(*object);
                Verdict::Waits
            }
        }
    }
    /// A flow that had joined a stream goes to a source, with this request; those that are left follow it.
    pub fn lead(&mut self, now: Time, leader: FlowId, request: &TransportMessage, left: Stream) {
        if let TransportMessage { object, body: TransportBody::Request { chunk_bytes, held, .. }, .. } = request {
            let (joined, lacking) = (left.joined, left.lacking);
            let stream = Stream { joined, lacking, ..Stream::new(now, leader, (held.clone(), *chunk_bytes)) };
            self.insert(*object, stream);
        }
    }
    /// Takes a stream again, unless nothing is left of it.
    pub fn restore(&mut self, object: ObjectId, stream: Stream) {
        if !stream.joined.is_empty() || !stream.waiting.is_empty() {
            self.insert(object, stream);
        }
    }
    fn insert(&mut self, object: ObjectId, stream: Stream) {
        let due = stream.due(self.lifetime);
        self.due = Some(self.due.map_or(due, |known| known.min(due)));
        self.len += stream.joined.len() + stream.waiting.len();
        if !stream.lacking.is_empty() || !stream.waiting.is_empty() {
            self.awaited.insert(object);
        }
        self.streams.insert(object, stream);
    }
    /// Whether requests have joined anything.
    pub fn is_shared(&self) -> bool {
        self.len > 0
    }
    /// A chunk of an object has come over a face: the flows that may wait for it, and the requests that can be answered from
    /// now on.
    pub fn on_chunk(
        &mut self,
        now: Time,
        object: &ObjectId,
        face: Option<FaceId>,
        is_whole: bool,
    ) -> (BTreeSet<FlowId>, Vec<Pending>) {
        let Some(stream) = self.streams.get_mut(object) else { return (BTreeSet::new(), Vec::new()) };
        (stream.heard_at, stream.face, stream.has_stopped, stream.starves_since) = (now, face, false, None);
        let (lacking, waiting) = (core::mem::take(&mut stream.lacking), core::mem::take(&mut stream.waiting));
        self.awaited.remove(object);
        self.len -= waiting.len();
        // They are counted when they join.
        self.joins -= waiting.len() as u64;
        if is_whole {
            self.remove(object);
        }
        (lacking, waiting.into_values().collect())
    }
    /// The next chunk of a flow is not here.
    pub fn on_lack(&mut self, object: ObjectId, id: FlowId) {
        if let Some(stream) = self.streams.get_mut(&object).filter(|stream| stream.joined.contains_key(&id)) {
            stream.lacking.insert(id);
            self.awaited.insert(object);
        }
    }
    /// Nothing more comes here for a flow.
    pub fn on_end(&mut self, object: &ObjectId, id: FlowId) {
        if let Some(stream) = self.streams.get_mut(object).filter(|stream| stream.leader == id) {
            stream.has_stopped = true;
        }
    }
    /// A neighbour is gone.
    pub fn on_down(&mut self, face: FaceId, neighbour: &Guid) {
        for stream in self.streams.values_mut() {
            stream.has_stopped |= stream.face == Some(face);
            stream.has_left |= stream.leader.0 == *neighbour;
        }
    }
    /// Whether a flow from the cache waits for missing chunks rather than fails.
    pub fn has_joined(&self, object: &ObjectId, id: &FlowId) -> bool {
        self.streams.get(object).is_some_and(|stream| stream.joined.contains_key(id))
    }
    fn remove(&mut self, object: &ObjectId) -> Option<Stream> {
        let stream = self.streams.remove(object)?;
        self.awaited.remove(object);
        self.len -= stream.waiting.len() + stream.joined.len();
        Some(stream)
    }
    /// Takes the next such stream. `is_stored` tells whether the proxy has chunks for a flow.
    pub fn take_stopped(
        &mut self,
        now: Time,
        router: &Router,
        is_stored: impl Fn(&FlowId, &ObjectId) -> bool,
    ) -> Option<Stopped> {
        let mut stopped = None;
        for object in &self.awaited {
            let Some(stream) = self.streams.get_mut(object) else { continue };
            let starves = |id: &&FlowId| !router.holds_data_for(&id.0, object) && !is_stored(id, object);
            let starving = stream.lacking.iter().find(starves).copied();
            if starving.is_none() && stream.waiting.is_empty() {
                stream.starves_since = None;
            } else {
                stream.starves_since.get_or_insert(now);
                let is_over = stream.due(self.lifetime) <= now;
                let is_held_up = is_over || router.holds_back(&stream.leader.0);
                if stream.has_stopped || is_held_up && !router.is_coming(object, now - self.lifetime) {
                    stopped = Some((*object, starving));
                    break;
                }
                if is_over {
                    stream.starves_since = Some(now);
                }
            }
            let due = stream.due(self.lifetime);
            self.due = Some(self.due.map_or(due, |known| known.min(due)));
        }
        let (object, starving) = stopped?;
        let mut stream = self.remove(&object)?;
        // They are counted when they join.
        self.joins -= stream.waiting.len() as u64;
        let starving = starving.and_then(|id| {
            stream.lacking.remove(&id);
            Some((id, stream.joined.remove(&id)?))
        });
        Some(Stopped { object, starving, stream })
    }
    /// When to call [`Arriving::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        self.due
    }
    /// Forgets silent streams without flows and without queued chunks; `is_there` knows the flows of this node.
    pub fn handle_timeout(&mut self, now: Time, router: &Router, is_there: impl Fn(&FlowId) -> bool) {
        let lifetime = self.lifetime;
        let silent = self.streams.iter().filter(|(_, stream)| stream.heard_at + lifetime <= now);
        for object in silent.map(|(object, _)| *object).collect::<Vec<_>>() {
            let Some(mut stream) = self.remove(&object) else { continue };
            stream.joined.retain(|id, _| is_there(id));
            stream.lacking.retain(|id| is_there(id));
            stream.heard_at = now;
            let is_slow = router.holds_data_for(&stream.leader.0, &object) || router.is_coming(&object, now - lifetime);
            match is_slow {
                true => self.insert(object, stream),
                false => self.restore(object, stream),
            }
        }
        // The node calls `take_stopped` for starving flows after each timeout.
        let dues = self.streams.values().map(|stream| stream.due(lifetime)).filter(|due| *due > now);
        self.due = dues.min();
    }
}
