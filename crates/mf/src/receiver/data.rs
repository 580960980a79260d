//! Chunks that arrive.
use super::*;
use crate::link::Arrival;

impl Receiver {
    /// A chunk of this many packets for this node has crossed its last hop: call this before [`Receiver::handle_data`].
    pub fn on_arrival(&mut self, header: &ChunkHeader, packets: u16, arrival: &Arrival) {
        let Some(tag) = header.tag().filter(|tag| !is_pushed(tag.transfer)) else { return };
        let id = TransferId(tag.transfer);
        let Some(fetch) = self.fetches.get_mut(id).filter(|fetch| fetch.is_of(tag)) else { return };
        fetch.arrivals.begun = Some(arrival.begun);
        let (origin, requested_at) = (fetch.origin(header), fetch.take_answered(&header.source));
        let Some(source) = origin.source().and_then(|number| fetch.sources.get_mut(number)) else {
            return;
        };
        source.state.packets += u64::from(packets);
        source.state.late_packets += u64::from(arrival.late);
        if let Some(at) = requested_at.filter(|at| matches!(origin, Origin::Source(_)) && *at <= arrival.begun) {
            let rtt = arrival.begun.since(at);
            source.state.rtt = Some((rtt, source.state.rtt.map_or(rtt, |(_, least)| least.min(rtt))));
        }
    }
    /// Whether an arriving chunk is already verified here and no answer about it is pending. The last router sends such
    /// a chunk if this node went away just after receiving it.
    pub fn has_already(&mut self, now: Time, header: &ChunkHeader) -> bool {
        let Some(tag) = header.tag().filter(|tag| tag.reliability != Reliability::Ack) else { return false };
        let Some(id) = self.id_of(header, tag) else { return false };
        let is_meant = |fetch: &&mut Incoming| fetch.is_of(tag) && !fetch.record.is_ended();
        let Some(fetch) = self.fetches.get_mut(id).filter(is_meant) else { return false };
        let holds =
            |held: &Reassembly| held.holds(tag.number, tag.chunk_bytes, tag.count, header.payload_bytes as usize);
        let source = fetch.source_of(&header.source);
        let is_trusted = source.is_none_or(|source| !source.is_faulty() && source.state.trial.is_none());
        if !is_trusted || header.flags.contains(Flags::NO_CACHE) || !fetch.reassembly.as_ref().is_some_and(holds) {
            return false;
        }
        fetch.patience.restart(now);
        if header.custodian.is_some() {
            fetch.custody.add(header);
            self.settle(now, id);
        }
        true
    }
    /// The transfer of a chunk; `None` for the first chunk of a pushed object.
    fn id_of(&self, header: &ChunkHeader, tag: &DataTag) -> Option<TransferId> {
        match is_pushed(tag.transfer) {
            true => self.pushed.transfer(&(header.source, tag.transfer)),
            false => Some(TransferId(tag.transfer)),
        }
    }
    /// Takes a chunk of an object for this node.
    pub fn handle_data(&mut self, now: Time, header: &ChunkHeader, payload: &Payload) {
        let Some(tag) = header.tag() else { return };
        let Some(id) = self.id_of(header, tag) else { return self.on_pushed(now, header, tag, payload) };
        let is_of = |fetch: &&mut Incoming| {
            fetch.object == Some(tag.object) && (fetch.token == tag.token || fetch.takes_another_token())
        };
        let Some(fetch) = self.fetches.get_mut(id).filter(is_of) else { return self.on_stray(header, tag) };
        if fetch.record.is_ended() {
            let has_all = fetch.record.is_completed();
            return self.answer_ended(header, tag, has_all);
        }
        let Some(reassembly) = &fetch.reassembly else { return };
        if !reassembly.writer.is_open() {
            return self.keep_early(now, (header.source, tag.transfer), header, payload);
        }
        if !self.admits(id, header, tag, payload) {
            return;
        }
        let Some(fetch) = self.fetches.get_mut(id) else { return };
        let is_from_sender = fetch.on_sender(header);
        fetch.patience.restart(now);
        (fetch.serving.probes, fetch.token) = (0, tag.token);
        if is_pushed(tag.transfer) {
            // A node on the way may have changed the reliability in the first chunk.
            fetch.reliability = fetch.reliability.max(tag.reliability);
        }
        match self.put(now, id, header, tag, payload) {
            Taken::Kept => {
                let Some(fetch) = self.fetches.get_mut(id) else { return };
                fetch.custody.add(header);
                fetch.on_useful(now, header, payload.len() as u64);
                if is_from_sender {
                    fetch.windows.on_chunk(tag);
                }
            }
            Taken::Duplicate => {
                let Some(fetch) = self.fetches.get_mut(id) else { return };
                fetch.custody.add(header);
                fetch.record.duplicate_bytes += payload.len() as u64;
                if self.is_reminder(now, id, tag) {
                    self.settle(now, id);
                    return self.nack(now, id);
                }
            }
            Taken::Refused => return self.on_no_room(now, id, header, tag),
            Taken::Wrong(wrong) => return self.distrust(now, id, wrong),
            Taken::Failed(reason) => return self.fail(now, id, reason),
        }
        self.on_taken(now, id, header, tag);
    }
    /// A chunk is of no transfer of this node.
    fn on_stray(&mut self, header: &ChunkHeader, tag: &DataTag) {
        let has_all = self.pushed.has_settled(&(header.source, tag.transfer), tag);
        self.strays += u64::from(has_all.is_none());
        if has_all.is_some() || !is_pushed(tag.transfer) {
            self.answer_ended(header, tag, has_all.unwrap_or(false));
        }
    }
    /// Tells a chunk's sender and custodian that the transfer is over. Without an answer a sender would repeat
    /// unacknowledged chunks forever, including those that an earlier run of this node requested. The source of a
    /// pushed object learns whether the object is complete or refused.
    fn answer_ended(&mut self, header: &ChunkHeader, tag: &DataTag, has_all: bool) {
        self.answers.on_unsolicited(header);
        if tag.reliability == Reliability::DontCare {
            return;
        }
        let (transfer, object) = (tag.transfer, tag.object);
        let message = match has_all || !is_pushed(transfer) {
            true => TransportBody::Ack { complete: true, chunks: ChunkRanges::default() }.about(transfer, object),
            false => TransportBody::Unavailable.about(transfer, object),
        };
        self.outbox.push_back(Outgoing::answer(header, message));
    }
    /// Whether a chunk may be kept, judged by its sender: not from a faulty source, or one on trial.
    fn admits(&mut self, id: TransferId, header: &ChunkHeader, tag: &DataTag, payload: &Payload) -> bool {
        let Some(fetch) = self.fetches.get_mut(id) else { return false };
        let Some(number) = fetch.number_of(&header.source).filter(|_| !is_pushed(tag.transfer)) else { return true };
        let is_answered = fetch.answers_the_end();
        let Some(source) = fetch.sources.get_mut(number) else { return true };
        if source.is_faulty() {
            fetch.record.duplicate_bytes += payload.len() as u64;
            self.answer_ended(header, tag, true);
            return false;
        }
        if source.state.trial.is_some() {
            self.on_suspect_data(id, number, header, tag, payload);
            return false;
        }
        source.state.serves = is_answered.then_some(header.source_address);
        true
    }
    /// Puts a chunk where it belongs in its object.
    fn put(&mut self, now: Time, id: TransferId, header: &ChunkHeader, tag: &DataTag, payload: &Payload) -> Taken {
        let room = self.make_room(id, payload.len() as u64);
        let Some((fetch, shared)) = self.fetches.get_with_limit(id) else { return Taken::Refused };
        if header.flags.contains(Flags::CACHED) {
            fetch.caches.last = Some(header.source);
        }
        let origin = fetch.origin(header);
        let Some(reassembly) = &mut fetch.reassembly else { return Taken::Refused };
        let is_first = reassembly.cut.is_none();
        let taken = reassembly.take(tag.number, (tag.chunk_bytes, tag.count), payload, origin, room);
        if is_first && !is_pushed(tag.transfer) {
            fetch.credit.on_cut(now, shared, tag.chunk_bytes);
        }
        fetch.take_stored();
        taken
    }
    /// Whether a duplicate chunk queries the object's state: a source that has sent all of a pushed object repeats its
    /// start for that.
    fn is_reminder(&self, now: Time, id: TransferId, tag: &DataTag) -> bool {
        let Some(fetch) = self.fetches.get(id) else { return false };
        let asks = tag.number == 0 && is_pushed(tag.transfer) && fetch.reliability != Reliability::DontCare;
        let heard = self.arriving.get(&(fetch.object, fetch.transfer)).copied().unwrap_or_default();
        asks && now >= heard.max(fetch.arrivals.last_at) + fetch.nack_timeout(&self.config)
    }
    /// The buffer cannot take a chunk: its sender exceeded its grant, or other transfers have filled the buffer since.
    fn on_no_room(&mut self, now: Time, id: TransferId, header: &ChunkHeader, tag: &DataTag) {
        if let Some(fetch) = self.fetches.get_mut(id) {
            fetch.nack.restart(now, fetch.nack_timeout(&self.config));
        }
        match header.custodian {
            Some(_) => self.refuse(header, tag),
            None => self.refused += 1,
        }
        self.send_status(now, id);
    }
    /// The chunk is here, new or old: sends the acknowledgements that are due, and looks for gaps.
    fn on_taken(&mut self, now: Time, id: TransferId, header: &ChunkHeader, tag: &DataTag) {
        let Some(fetch) = self.fetches.get_mut(id) else { return };
        let timeout = fetch.nack_timeout(&self.config);
        if fetch.reliability == Reliability::Ack {
            let chunks = ChunkRanges::from_ascending([tag.number]);
            let (transfer, object) = (fetch.transfer, tag.object);
            let ack = TransportBody::Ack { complete: false, chunks }.about(transfer, object);
            self.outbox.push_back(Outgoing::answer(header, ack));
        }
        fetch.nack.restart(now, timeout);
        if let Some(window) = fetch.windows.take_complete(self.has_several_ways) {
            fetch.windows.status = Some((now, window));
        }
        // Retransmitted chunks overtake others, so they show no gap.
        if !header.flags.contains(Flags::REPEATED) && fetch.find_gaps(now, tag.number, timeout) {
            fetch.windows.hasten_status(now);
        }
        fetch.request_wanted(now);
        self.settle(now, id);
        self.send_status(now, id);
    }

    // Bytes buffered but not yet stored, over all transfers.

    pub(super) fn buffered_bytes(&self) -> u64 {
        let running = self.fetches.iter().filter_map(|(_, fetch)| fetch.reassembly.as_ref());
        running.map(|it| it.buffered).sum()
    }
    pub(super) fn buffered_of(&self, id: TransferId) -> u64 {
        let reassembly = self.fetches.get(id).and_then(|fetch| fetch.reassembly.as_ref());
        reassembly.map_or(0, |it| it.buffered)
    }
    /// The bytes that a transfer may buffer: the unused part, and in any case its share.
    pub(super) fn buffer_of(&self, id: TransferId) -> u64 {
        let max = self.config.buffer_bytes.0;
        let running = self.fetches.iter().filter(|(_, fetch)| fetch.reassembly.is_some()).count().max(1) as u64;
        let others = self.buffered_bytes() - self.buffered_of(id);
        max.saturating_sub(others).max(max / running)
    }
    /// The bytes that a transfer may still buffer. If others have filled the buffer, the transfers that would hold more
    /// than this one drop their latest chunks.
    fn make_room(&mut self, id: TransferId, bytes: u64) -> u64 {
        let own = self.buffered_of(id);
        let mut free = self.config.buffer_bytes.0.saturating_sub(self.buffered_bytes());
        while free < bytes {
            let others = self.fetches.iter_mut().filter(|(other, _)| *other != id);
            let others = others.filter_map(|(_, fetch)| fetch.reassembly.as_mut());
            let largest = others.max_by_key(|other| other.buffered);
            let Some(largest) = largest.filter(|other| other.buffered > own + bytes) else { break };
            let shed = largest.shed(bytes - free);
            if shed == 0 {
                break;
            }
            free += shed;
        }
        free
    }
}
