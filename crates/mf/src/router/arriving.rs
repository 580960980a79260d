//! Requests for an object that another receiver has requested through this router and that is arriving: they join it, and
//! the cache answers them chunk by chunk (as NDN's pending Interests do), so that each chunk comes from its source once.
//!
//! The first request goes on to the source and leads. When nothing of its object has come for
//! [`pending_lifetime`](crate::Config::pending_lifetime), its receiver may be gone: the next request leads, for what is
//! still missing.
use alloc::{collections::BTreeMap, vec::Vec};

use bytes::Bytes;
use tributary_content::ObjectId;
use tributary_core::{Duration, Time};

use crate::{
    ids::Guid,
    wire::{ChunkHeader, ChunkRanges, TransportMessage},
};

/// The receiver of a transfer, and its number.
type FlowId = (Guid, u32);

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Pending {
    /// Its header.
    pub header: ChunkHeader,
    /// The encoded [`TransportMessage::Request`].
    pub payload: Bytes,
}

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It goes on to a source.
    Passes,
    /// It is kept here until the first chunk shows how the object is cut.
    Waits,
    /// The cache answers it with chunks of this size, of which there are so many.
    Joins((u32, u32)),
}

/// An object that is arriving.
#[derive(Debug)]
pub struct Stream {
    leader: FlowId,
    /// Chunks that the leader had, and of which size: these do not come.
    held: (ChunkRanges, u32),
    heard_at: Time,
    /// Requests that wait for the first chunk.
    pub waiting: BTreeMap<FlowId, Pending>,
    /// Requests that the cache answers.
    pub joined: BTreeMap<FlowId, Pending>,
}

/// The objects that are arriving through a router with a cache.
#[derive(Debug, Default)]
pub struct Arriving {
    streams: BTreeMap<ObjectId, Stream>,
    requests_max: usize,
    lifetime: Duration,
    /// No stream is due earlier.
    due: Option<Time>,
    /// Requests that wait or have joined.
    len: usize,
    /// Requests that joined so far.
    pub joins: u64,
    /// Requests that went on to a source as there was no room for them here.
    pub beyond: u64,
}

impl Arriving {
    /// Nothing yet; at most `requests_max` objects and as many requests, each as long as something comes every `lifetime`.
    pub fn new(requests_max: u32, lifetime: Duration) -> Arriving {
        let requests_max = requests_max as usize;
        Arriving { streams: BTreeMap::new(), requests_max, lifetime, due: None, len: 0, joins: 0, beyond: 0 }
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
        let TransportMessage::Request { transfer, object, chunk_bytes, held, .. } = message else {
            return Verdict::Passes;
        };
        let id = (pending.header.source, *transfer);
        let Some(stream) = self.streams.get_mut(object) else {
            if self.streams.len() < self.requests_max {
                self.lead(now, *object, id, (held.clone(), *chunk_bytes), BTreeMap::new());
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
                Verdict::Waits
            }
        }
    }
    /// A request goes to a source, and others wait for what it brings.
    pub fn lead(
        &mut self,
        now: Time,
        object: ObjectId,
        leader: FlowId,
        held: (ChunkRanges, u32),
        joined: BTreeMap<FlowId, Pending>,
    ) {
        self.len += joined.len();
        self.streams.insert(object, Stream { leader, held, heard_at: now, waiting: BTreeMap::new(), joined });
        let due = now + self.lifetime;
        self.due = Some(self.due.map_or(due, |known| known.min(due)));
    }
    /// A chunk of an object has come: the flows that may wait for it, and the requests that can be answered from now on.
    pub fn on_chunk(&mut self, now: Time, object: &ObjectId, is_whole: bool) -> (Vec<FlowId>, Vec<Pending>) {
        let Some(stream) = self.streams.get_mut(object) else { return (Vec::new(), Vec::new()) };
        stream.heard_at = now;
        let waiting = core::mem::take(&mut stream.waiting);
        self.len -= waiting.len();
        // They are counted when they join.
        self.joins -= waiting.len() as u64;
        let joined = stream.joined.keys().copied().collect();
        if is_whole {
            self.remove(object);
        }
        (joined, waiting.into_values().collect())
    }
    /// Whether a flow out of the cache goes on with what is still to come.
    pub fn has_joined(&self, object: &ObjectId, id: &FlowId) -> bool {
        self.streams.get(object).is_some_and(|stream| stream.joined.contains_key(id))
    }
    fn remove(&mut self, object: &ObjectId) -> Option<Stream> {
        let stream = self.streams.remove(object)?;
        self.len -= stream.waiting.len() + stream.joined.len();
        Some(stream)
    }
    /// When to call [`Arriving::take_silent`].
    pub fn poll_timeout(&self) -> Option<Time> {
        self.due
    }
    /// Forgets objects of which nothing has come for too long; `comes` tells whether a chunk of one is on its way in.
    pub fn take_silent(&mut self, now: Time, comes: impl Fn(&ObjectId) -> bool) -> Vec<(ObjectId, Stream)> {
        if self.due.is_none_or(|due| due > now) {
            return Vec::new();
        }
        let mut silent = Vec::new();
        for (object, stream) in &mut self.streams {
            if stream.heard_at + self.lifetime <= now {
                match comes(object) {
                    true => stream.heard_at = now,
                    false => silent.push(*object),
                }
            }
        }
        let silent = silent.into_iter().filter_map(|object| Some((object, self.remove(&object)?))).collect();
        self.due = self.streams.values().map(|stream| stream.heard_at + self.lifetime).min();
        silent
    }
}
