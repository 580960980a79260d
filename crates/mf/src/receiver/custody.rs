//! Answers to custodians about their chunks: a chunk is on this node's disk, is refused for now, or is not wanted. The
//! manifest of a pushed object is acknowledged once the whole object is stored: a node that is killed earlier receives
//! the manifest again and resumes from its disk.
use super::*;

/// Maximum custodians that are notified of free space; others retry on their own.
const REFUSED_MAX: usize = 64;
/// Chunks per object whose custodians wait, at most; other custodians get their answer when they send the chunk again.
const WAITING_MAX: usize = 65_536;

/// The custodians that wait for chunks of one object to reach the disk.
#[derive(Default)]
pub(super) struct Custody {
    /// The answer to send then, and the size of the chunk.
    waiting: BTreeMap<(u32, Custodian), (Answer, u32)>,
}

impl Custody {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
    /// The custodian of this chunk, if any, waits for it to reach the disk.
    pub(super) fn add(&mut self, header: &ChunkHeader) {
        if let Some((answer, tag)) = Answer::to(header, CustodyState::Taken).zip(header.tag())
            && self.waiting.len() < WAITING_MAX
        {
            self.waiting.insert((tag.number, answer.custodian), (answer, tag.chunk_bytes));
        }
    }
    /// Takes out the waiting answers for which `is_meant` holds, given the number and size of the chunk.
    pub(super) fn take(&mut self, state: CustodyState, is_meant: impl Fn(u32, u32) -> bool) -> Vec<Answer> {
        let taken = self.waiting.extract_if(.., |(number, _), (_, chunk_bytes)| is_meant(*number, *chunk_bytes));
        taken.map(|(_, (answer, _))| Answer { state, ..answer }).collect()
    }
    /// The same about all chunks.
    pub(super) fn take_all(&mut self, state: CustodyState) -> Vec<Answer> {
        self.take(state, |_, _| true)
    }
}

/// Outgoing answers, and the custodians refused for lack of space.
#[derive(Default)]
pub(super) struct CustodyAnswers {
    pub(super) outbox: VecDeque<Answer>,
    refused: BTreeMap<Custodian, Answer>,
}

impl CustodyAnswers {
    /// The buffer is full: the custodian is notified when there is space.
    fn refuse(&mut self, answer: Answer) {
        if self.refused.len() < REFUSED_MAX || self.refused.contains_key(&answer.custodian) {
            self.refused.insert(answer.custodian, answer);
        }
        self.outbox.push_back(answer);
    }
    /// There is space again.
    pub(super) fn on_room(&mut self) {
        let refused = core::mem::take(&mut self.refused).into_values();
        self.outbox.extend(refused.map(|answer| Answer { state: CustodyState::Ready, ..answer }));
    }
    /// The chunk belongs to a transfer that this node does not want.
    pub(super) fn on_unsolicited(&mut self, header: &ChunkHeader) {
        self.outbox.extend(Answer::to(header, CustodyState::Over));
    }
}

impl Receiver {
    /// Returns the next answer to a custodian.
    pub(crate) fn poll_answer(&mut self) -> Option<Answer> {
        self.answers.outbox.pop_front()
    }
    /// Notifies custodians of chunks that are on the disk, and ends the transfer if it is complete. Both use the
    /// store's answers, which can be taken only once.
    pub(super) fn settle(&mut self, now: Time, id: TransferId) {
        self.settle_custody(now, id);
        self.finish_if_complete(now, id);
    }
    /// Writes the chunks that custodians wait for to the disk, and notifies the custodians of written ones.
    fn settle_custody(&mut self, now: Time, id: TransferId) {
        let Some(fetch) = self.fetches.get_mut(id).filter(|fetch| !fetch.record.is_ended()) else { return };
        if fetch.custody.is_empty() {
            return;
        }
        let Some(reassembly) = fetch.reassembly.as_mut().filter(|it| it.writer.is_open()) else { return };
        if let Err(reason) = reassembly.sync() {
            return self.fail(now, id, reason);
        }
        let is_pushed = is_pushed(fetch.transfer);
        let is_kept = |number, chunk_bytes| reassembly.is_durable(number, chunk_bytes) && !(is_pushed && number == 0);
        self.answers.outbox.extend(fetch.custody.take(CustodyState::Taken, is_kept));
    }
    /// Refuses an arrived chunk for lack of space: its custodian or its source keeps it and sends it later.
    pub(super) fn refuse(&mut self, header: &ChunkHeader, tag: &DataTag) {
        self.refused += 1;
        if let Some(answer) = Answer::to(header, CustodyState::Refused) {
            return self.answers.refuse(answer);
        }
        if tag.reliability == Reliability::DontCare || header.flags.contains(Flags::CACHED) {
            return;
        }
        let (flow, transfer, object) = (header.flow(), tag.transfer, tag.object);
        let (proxy, chunks) = (header.destination, ChunkRanges::from_ascending([tag.number]));
        let dropped = TransportBody::Dropped { flow, proxy, chunks }.about(transfer, object);
        self.outbox.push_back(Outgoing::answer(header, dropped));
    }
}
