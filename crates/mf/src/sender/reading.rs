//! Bytes of objects that must be read from a disk before they can be sent.
use super::*;

/// Running reads, and the flows that wait for each.
#[derive(Default)]
pub(super) struct Reading {
    flows: BTreeMap<(ObjectId, ChunkIndex), BTreeSet<FlowId>>,
    /// Flows that wait for other reads to finish.
    queue: VecDeque<FlowId>,
}

/// The state of a chunk to send.
pub(super) enum Read {
    /// All of it.
    Complete(Payload),
    /// This chunk of its object must be read first.
    Needs(ChunkIndex),
}

impl Sender {
    /// Returns the bytes of a chunk to send, or `None` while they are being read: the flow gets its turn when they have
    /// arrived.
    pub(super) fn read_for(&mut self, id: FlowId, mut chunk: Waiting) -> Result<Option<Payload>, Failure> {
        let Some((object, chunk_bytes)) = self.flows.get(&id).map(|flow| (flow.object, flow.chunk_bytes)) else {
            return Ok(None);
        };
        match self.read(object, chunk_bytes, &mut chunk)? {
            Read::Complete(payload) => Ok(Some(payload)),
            Read::Needs(index) => {
                if !self.begin_read(id, object, index) {
                    self.reading.queue.push_back(id);
                }
                chunk.awaits_storage = true;
                self.flows.change(&id, |flow| flow.waiting = Some(chunk));
                Ok(None)
            }
        }
    }
    /// A chunk of an object: 0 is its description, the others its bytes.
    fn read(&mut self, object: ObjectId, chunk_bytes: u32, chunk: &mut Waiting) -> Result<Read, Failure> {
        if let Some(failure) = chunk.failed.take() {
            return Err(failure);
        }
        let answering = self.objects.answering(&object);
        let opened = self.objects.open(&object);
        let (published, recent) = opened.ok_or_else(|| Failure::here("it is no longer published"))?;
        let Some(index) = chunk.next.number.checked_sub(1) else {
            return Ok(Read::Complete(published.state.clone().into()));
        };
        let manifest = published.reader().manifest();
        let (unit, size) = (u64::from(manifest.chunk_size), manifest.size);
        let start = u64::from(index) * u64::from(chunk_bytes);
        let end = size.min(start + u64::from(chunk_bytes));
        let mut at = start + chunk.parts.iter().map(|part| part.len() as u64).sum::<u64>();
        while at < end {
            let of = u32::try_from(at / unit).unwrap_or(u32::MAX);
            let read = published.chunk(ChunkIndex(of), recent);
            let read = read.map_err(|error| Failure::of_source(&error, answering))?;
            let Some(bytes) = read else { return Ok(Read::Needs(ChunkIndex(of))) };
            let from = at - u64::from(of) * unit;
            let until = (end - u64::from(of) * unit).min(bytes.len() as u64);
            if until <= from {
                return Err(Failure::here("it is shorter than its manifest states"));
            }
            chunk.parts.push(bytes.slice(from as usize..until as usize));
            at += until - from;
        }
        Ok(Read::Complete(core::mem::take(&mut chunk.parts).into_iter().collect()))
    }
    /// Begins to read a chunk of an object for a flow, unless it is being read already; false if enough is being read.
    fn begin_read(&mut self, id: FlowId, object: ObjectId, index: ChunkIndex) -> bool {
        let Some(publication) = self.objects.answering(&object) else { return true };
        let key = (publication, index);
        if let Some(flows) = self.reading.flows.get_mut(&key) {
            flows.insert(id);
            return true;
        }
        let has_begun = self.objects.begin_read(&object, index);
        if has_begun {
            self.reading.flows.insert(key, BTreeSet::from([id]));
        }
        has_begun
    }
    /// Takes finished reads; [`Sender::poll_chunk`] then sends them.
    pub fn handle_storage(&mut self) {
        let taken = self.objects.take_read();
        for chunk in &taken {
            for id in self.reading.flows.remove(chunk).unwrap_or_default() {
                if !self.go_on(id) {
                    self.reading.queue.push_back(id);
                }
            }
        }
        for _ in 0..self.reading.queue.len() {
            let Some(id) = self.reading.queue.pop_front() else { break };
            if !self.go_on(id) {
                self.reading.queue.push_front(id);
                break;
            }
        }
        self.objects.forget_read(&taken);
    }
    /// Takes the bytes that were read for a flow, or starts to read missing ones; false if enough reads are running.
    fn go_on(&mut self, id: FlowId) -> bool {
        let awaits = |flow: &&Outflow| flow.waiting.as_ref().is_some_and(|waiting| waiting.awaits_storage);
        // It may be over, or another one of the same id.
        let Some(flow) = self.flows.get(&id).filter(awaits) else { return true };
        let (object, chunk_bytes) = (flow.object, flow.chunk_bytes);
        let Some(mut waiting) = self.flows.change(&id, |flow| flow.waiting.take()).flatten() else { return true };
        let has_begun = match self.read(object, chunk_bytes, &mut waiting) {
            Ok(Read::Complete(payload)) => {
                (waiting.parts, waiting.awaits_storage) = (payload.pieces().to_vec(), false);
                true
            }
            Ok(Read::Needs(index)) => self.begin_read(id, object, index),
            Err(failure) => {
                (waiting.failed, waiting.awaits_storage) = (Some(failure), false);
                true
            }
        };
        self.flows.change(&id, |flow| flow.waiting = Some(waiting));
        has_begun
    }
    /// An object is gone or has a new reader: flows that wait for the old reader's bytes read them again.
    pub(super) fn on_reader_gone(&mut self, object: &ObjectId) {
        let range = (*object, ChunkIndex(0))..=(*object, ChunkIndex(u32::MAX));
        let keys: Vec<(ObjectId, ChunkIndex)> = self.reading.flows.range(range).map(|(key, _)| *key).collect();
        let waiting = keys.into_iter().filter_map(|key| self.reading.flows.remove(&key));
        for id in waiting.flatten().collect::<BTreeSet<FlowId>>() {
            if !self.go_on(id) {
                self.reading.queue.push_back(id);
            }
        }
    }
}
