//! Suspect sources: while the receiver finds out who corrupted the bytes sent in their names, it requests all missing
//! chunks from other sources.
use super::*;
use crate::reassembly::Verdict;

/// The trial of a source in whose name corrupted bytes arrived: the receiver requests them from it again, bypassing
/// caches and storage.
pub(super) struct Trial {
    /// The reason.
    pub(super) reason: String,
    check: Check,
    /// When they are requested again, and how often they were.
    due: Time,
    requests: u32,
}

impl Receiver {
    /// Corrupted bytes arrived in the name of a source while others are known: another source is requested all missing
    /// chunks at once, and this one only the corrupted chunks, until it is known whether it is faulty.
    pub(super) fn put_on_trial(&mut self, now: Time, id: TransferId, number: SourceId, wrong: Wrong) {
        let Some(fetch) = self.fetches.get_mut(id) else { return };
        let Some(reassembly) = &mut fetch.reassembly else { return };
        let Some(source) = fetch.sources.get_mut(number) else { return };
        let check = reassembly.begin_check(&wrong);
        source.state.trial = Some(Trial { reason: wrong.reason, check, due: now, requests: 0 });
        reassembly.forget(number);
        let guid = source.state.guid;
        fetch.caches.avoid = true;
        if fetch.serving.sender.is_some_and(|(sender, _)| sender != guid) {
            self.request_again(now, id, None, wrong.chunks);
        } else {
            fetch.leave_sender();
            self.request(now, id);
        }
        self.request_of_suspects(now, id);
    }
    /// Requests the corrupted chunks from suspect sources when due.
    pub(super) fn request_of_suspects(&mut self, now: Time, id: TransferId) {
        let Some((fetch, shared)) = self.fetches.get_with_limit(id) else { return };
        if fetch.record.is_ended() || !self.attached {
            return;
        }
        let timeout = fetch.nack_timeout(&self.config);
        let (Some(object), transfer, token) = (fetch.object, fetch.transfer, fetch.token) else { return };
        let (is_answered, mut bytes) = (fetch.answers_the_end(), 0);
        for source in fetch.sources.iter_mut() {
            let Some(trial) = source.state.trial.as_mut().filter(|trial| trial.due <= now) else { continue };
            trial.requests += 1;
            // A silent source is not known to be faulty, and is not requested forever.
            trial.due = if trial.requests < RETRIES_MAX { now + timeout } else { Time::MAX };
            let ((chunk_bytes, count), wanted) = (trial.check.cut, trial.check.chunks.clone());
            bytes += u64::from(chunk_bytes) * wanted.clone().count() as u64;
            let request = TransportBody::Request {
                chunk_bytes,
                reliability: fetch.reliability,
                buffer_chunks: self.config.window_chunks,
                held: ChunkRanges::from_ascending((0..count).filter(|number| !wanted.contains(number))),
            }
            .about(transfer, object);
            // The source ends its flow first: it would take a request for an existing flow as a repetition.
            self.outbox.extend(source.state.stop_message(transfer, token, object));
            source.state.serves = is_answered.then_some(NetworkAddress::NONE);
            let request = Outgoing::new(source.state.guid, NetworkAddress::NONE, token, request);
            self.outbox.push_back(Outgoing { flags: Flags::NO_CACHE, ..request });
        }
        fetch.credit.pass(now, shared, bytes);
    }
    /// A chunk has arrived in the name of a suspect source.
    pub(super) fn on_suspect_data(
        &mut self,
        id: TransferId,
        number: SourceId,
        header: &ChunkHeader,
        tag: &DataTag,
        payload: &Payload,
    ) {
        let Some(fetch) = self.fetches.get_mut(id) else { return };
        let origin = fetch.origin(header);
        let (Some(reassembly), Some(object)) = (&fetch.reassembly, fetch.object) else { return };
        let Some(source) = fetch.sources.get_mut(number) else { return };
        source.state.serves = source.state.serves.and(Some(header.source_address));
        fetch.record.duplicate_bytes += payload.len() as u64;
        let Some(trial) = &mut source.state.trial else { return };
        match reassembly.check(&mut trial.check, tag.number, (tag.chunk_bytes, tag.count), payload) {
            Verdict::Open => {}
            Verdict::Right => {
                (source.state.trial, source.state.retries) = (None, 0);
                self.outbox.extend(source.state.stop_message(fetch.transfer, fetch.token, object));
            }
            // A chunk from storage does not answer the request.
            Verdict::Wrong if !matches!(origin, Origin::Source(_)) => {}
            Verdict::Wrong => {
                self.wrong.count(origin, payload.len() as u64);
                let reason = trial.reason.clone();
                self.blame(id, number, reason);
            }
        }
    }
    /// A source is faulty: it is named, stopped, and receives no more requests.
    pub(super) fn blame(&mut self, id: TransferId, number: SourceId, reason: String) {
        let Some(fetch) = self.fetches.get_mut(id) else { return };
        let Some(source) = fetch.sources.get_mut(number) else { return };
        source.state.trial = None;
        let stop = fetch.object.and_then(|object| source.state.stop_message(fetch.transfer, fetch.token, object));
        self.outbox.extend(stop);
        fetch.record.extend(fetch.sources.distrust(number, Evidence::Bytes, reason));
    }
}

impl Peer {
    /// When to request the corrupted chunks from it again.
    pub(super) fn trial_due(&self) -> Option<Time> {
        self.trial.as_ref().map(|trial| trial.due).filter(|due| *due < Time::MAX)
    }
}

#[cfg(test)]
mod tests {
    use tributary_content::{MemoryObject, MemoryOpener, ObjectKind, ObjectReader, SigningKey};

    use super::{
        super::{GetOptions, tests::fetch_of},
        *,
    };
    use crate::{router::cache::ContentCache, sender::Sender, wire::ChunkKind};

    const UNIT: u32 = 4_096;
    const UNITS: u32 = 40;

    /// A fetch from two sources in chunks of `chunk_bytes`, with the first requested first; its tenth unit is corrupted
    /// `changed` times. Returns the report, and the bytes that the first source sent.
    fn fetched(chunk_bytes: u32, changed: u32) -> (TransferReport, u64) {
        let (own, guids) = (Guid([9; 20]), [Guid([1; 20]), Guid([2; 20])]);
        let (name, key) = ("/lab/file".parse::<Name>().expect("a name"), SigningKey::from_secret(&[7; 32]));
        let bytes = Bytes::from(alloc::vec![5; (UNIT * UNITS) as usize]);
        let object = MemoryObject::with_options(name.clone(), bytes, &key, 1, ObjectKind::File, UNIT).expect("fits");
        let config = EndConfig { chunk_bytes, ..EndConfig::default() };
        let mut receiver = Receiver::new(config.clone(), 1, &[1; 32]);
        let mut senders = guids.map(|guid| {
            let mut sender = Sender::new(guid, config.clone(), 0, &[2; 32]);
            sender.publish(Box::new(object.clone()));
            sender
        });
        let mut now = Time::from_millis(1);
        let id = receiver.fetch(now, fetch_of(&name, MemoryOpener::new()), GetOptions::default());
        receiver.set_attached(now, true);
        let device = |guid| (Announcer { guid, label: String::new() }, object.manifest().clone());
        receiver.handle_announcements(now, &name, &guids.map(device), Announced::All);
        let (mut left, mut sent) = (changed, 0);
        for _ in 0..1_000 {
            now += Duration::from_millis(20);
            receiver.handle_timeout(now);
            for message in core::iter::from_fn(|| receiver.poll_message()) {
                let sender = &mut senders[usize::from(message.to == guids[1])];
                let from = ChunkHeader::new(ChunkKind::Transport(message.token), own, message.to, NetworkAddress(1));
                sender.handle_request(now, &from, &message.message, None);
                sender.handle_message(now, &from, &message.message);
            }
            let cache = ContentCache::new(tributary_core::ByteCount(0));
            for (sender, guid) in senders.iter_mut().zip(guids) {
                // A chunk of each at a time.
                let Some((header, mut payload)) = sender.poll_chunk(now, &cache, |_, _| true) else { continue };
                let is_first = guid == guids[0];
                sent += if is_first { payload.len() as u64 } else { 0 };
                let has_wrong = |tag: &DataTag| UNIT * 10 / tag.chunk_bytes + 1 == tag.number;
                if is_first && header.tag().is_some_and(has_wrong) && left > 0 {
                    left -= 1;
                    payload = alloc::vec![6; payload.len()].into_iter().collect::<Bytes>().into();
                }
                receiver.handle_data(now, &header, &payload);
            }
        }
        assert_eq!(senders.map(|sender| sender.flows()), [0, 0], "all have heard that nothing more is wanted of them");
        (receiver.report(now, id).expect("it is known"), sent)
    }

    #[test]
    fn who_may_have_lied_is_set_aside_at_once_and_blamed_when_it_lies_past_copies_too() {
        for chunk_bytes in [1_024, UNIT, 2 * UNIT] {
            for (changed, is_blamed) in [(1, false), (2, true), (u32::MAX, true)] {
                let (report, sent) = fetched(chunk_bytes, changed);
                let case = alloc::format!("{chunk_bytes} bytes, {changed} times: {sent} sent, {report:?}");
                assert!(report.ended.is_some() && report.failure.is_none(), "{case}");
                let blamed: Vec<bool> = report.sources.iter().map(|source| source.distrusted.is_some()).collect();
                assert_eq!(blamed, [is_blamed, false], "{case}");
                assert!(report.sources[1].bytes >= u64::from(UNIT * (UNITS - 12)), "the other one goes on: {case}");
                // The bytes that it sent before its suspension, and the repeated ones.
                assert!(sent < u64::from(UNIT * 24), "{case}");
            }
        }
    }
}
