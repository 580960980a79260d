//! What custodians hear of their chunks: that a chunk is on the disk of this node, that there is no room for it now, or
//! that nobody wants it. The description of a pushed object is acknowledged when all of the object is stored: a node
//! that is killed before that is sent the description again, and goes on with what is on its disk.
use super::*;

/// Custodians that hear when there is room again, at most; others try again by themselves.
const REFUSED_MAX: usize = 64;
/// Chunks of an object whose custodians wait at most; of others they hear when they send them again.
const WAITING_MAX: usize = 65_536;

/// The custodians that wait to hear that chunks of one object are on the disk.
#[derive(Default)]
pub(super) struct Custody {
    /// What they are told then, and bytes of a chunk.
    waiting: BTreeMap<(u32, Custodian), (Answer, u32)>,
}

impl Custody {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
    /// The custodian of this chunk, if it has one, waits to hear that it is on the disk.
    pub(super) fn add(&mut self, header: &ChunkHeader) {
        if let Some((answer, tag)) = Answer::to(header, CustodyState::Taken).zip(header.tag())
            && self.waiting.len() < WAITING_MAX
        {
            self.waiting.insert((tag.number, answer.custodian), (answer, tag.chunk_bytes));
        }
    }
    /// The answers about chunks of which `is_meant` holds, by number and bytes of a chunk; those wait no more.
    pub(super) fn take(&mut self, state: CustodyState, is_meant: impl Fn(u32, u32) -> bool) -> Vec<Answer> {
        let taken = self.waiting.extract_if(.., |(number, _), (_, chunk_bytes)| is_meant(*number, *chunk_bytes));
        taken.map(|(_, (answer, _))| Answer { state, ..answer }).collect()
    }
    /// The same about all chunks.
    pub(super) fn take_all(&mut self, state: CustodyState) -> Vec<Answer> {
        self.take(state, |_, _| true)
    }
}

/// The answers that leave, and the custodians that were refused for want of room.
#[derive(Default)]
pub(super) struct CustodyAnswers {
    pub(super) outbox: VecDeque<Answer>,
    refused: BTreeMap<Custodian, Answer>,
}

impl CustodyAnswers {
    /// There is no room for a chunk now; its custodian hears when there is.
    fn refuse(&mut self, answer: Answer) {
        if self.refused.len() < REFUSED_MAX || self.refused.contains_key(&answer.custodian) {
            self.refused.insert(answer.custodian, answer);
        }
        self.outbox.push_back(answer);
    }
    /// There is room again.
    pub(super) fn on_room(&mut self) {
        let refused = core::mem::take(&mut self.refused).into_values();
        self.outbox.extend(refused.map(|answer| Answer { state: CustodyState::Ready, ..answer }));
    }
    /// Nobody wants the transfer that this chunk is of.
    pub(super) fn on_unsolicited(&mut self, header: &ChunkHeader) {
        self.outbox.extend(Answer::to(header, CustodyState::Over));
    }
}

impl Receiver {
    /// What a custodian is to be told.
    pub(crate) fn poll_answer(&mut self) -> Option<Answer> {
        self.answers.outbox.pop_front()
    }
    /// Tells custodians which of their chunks are on the disk, and ends the transfer if it is complete. Both take what the
    /// store has answered meanwhile; an answer that only one of them saw would be the other one's last.
    pub(super) fn settle(&mut self, now: Time, id: TransferId) {
        self.settle_custody(now, id);
        self.finish_if_complete(now, id);
    }
    /// Writes to the disk what custodians wait for, and tells them what is there.
    fn settle_custody(&mut self, now: Time, id: TransferId) {
        let Some(fetch) = self.fetches.get_mut(id).filter(|fetch| !fetch.record.is_ended()) else { return };
        if fetch.custody.is_empty() {
            return;
        }
        let Some(reassembly) = fetch.reassembly.as_mut().filter(|reassembly| reassembly.is_open()) else { return };
        if let Err(reason) = reassembly.sync() {
            return self.fail(now, id, reason);
        }
        let is_pushed = is_pushed(fetch.transfer);
        let is_kept = |number, chunk_bytes| reassembly.is_durable(number, chunk_bytes) && !(is_pushed && number == 0);
        self.answers.outbox.extend(fetch.custody.take(CustodyState::Taken, is_kept));
    }
    /// There is no room now for a chunk that has come: its custodian or its source keeps it and sends it later.
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
        let dropped = TransportMessage::Dropped { flow, transfer, object, proxy, chunks };
        self.outbox.push_back(Outgoing::answer(header, dropped));
    }
}
