//! What custodians are told: that a chunk is on the disk of this node, that there is no room for it now, or that nobody
//! wants it. The description of what is pushed is kept when all of the object is: then whoever is killed before that is
//! sent it again, and goes on with what is on its disk.
use super::*;

/// Custodians that are told when there is room again, at most; others try again by themselves.
const REFUSED_TO_MAX: usize = 64;

impl Receiver {
    /// What custodians are to be told.
    pub(crate) fn poll_answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }
    /// Writes to the disk what custodians wait for, and tells of what is there.
    pub(super) fn settle_custody(&mut self, now: Time, id: TransferId) {
        let Some(fetch) = self.fetches.get_mut(id).filter(|fetch| fetch.ended.is_none()) else { return };
        if fetch.kept_for.is_empty() {
            return;
        }
        let Some(reassembly) = fetch.reassembly.as_mut().filter(|reassembly| reassembly.is_open()) else { return };
        if let Err(reason) = reassembly.sync() {
            return self.fail(now, id, reason);
        }
        let Some(reassembly) = fetch.reassembly.take() else { return };
        let is_pushed = is_pushed(fetch.transfer);
        let is_kept = |number, chunk_bytes| reassembly.is_durable(number, chunk_bytes) && !(is_pushed && number == 0);
        let told = fetch.answers(CustodyState::Taken, is_kept);
        fetch.reassembly = Some(reassembly);
        self.answers.extend(told);
    }
    /// A chunk has come for which there is no room now: whoever keeps it, its custodian or its source, does so and sends it
    /// later.
    pub(super) fn refuse(&mut self, header: &ChunkHeader, tag: &DataTag) {
        self.refused += 1;
        if let Some(answer) = Answer::to(header, CustodyState::Refused) {
            if self.refused_to.len() < REFUSED_TO_MAX || self.refused_to.contains_key(&answer.custodian) {
                self.refused_to.insert(answer.custodian, answer);
            }
            return self.answers.push_back(answer);
        }
        if tag.reliability == Reliability::DontCare || header.flags.contains(Flags::CACHED) {
            return;
        }
        let (flow, transfer, object) = (header.flow(), tag.transfer, tag.object);
        let (proxy, chunks) = (header.destination, ChunkRanges::from_ascending([tag.number]));
        self.outbox
            .push_back(Outgoing::answer(header, TransportMessage::Dropped { flow, transfer, object, proxy, chunks }));
    }
    /// There is room again.
    pub(super) fn tell_ready(&mut self) {
        let told = core::mem::take(&mut self.refused_to).into_values();
        self.answers.extend(told.map(|answer| Answer { state: CustodyState::Ready, ..answer }));
    }
    /// Nobody wants what a custodian has of a transfer.
    pub(super) fn tell_over(&mut self, header: &ChunkHeader) {
        self.answers.extend(Answer::to(header, CustodyState::Over));
    }
}
