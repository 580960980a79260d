//! Sources that are set aside because of wrong bytes in their names, or because they do not answer: others are asked for
//! all that is missing, and meanwhile it is found out who lied.
use super::*;
use crate::reassembly::Verdict;

/// What is still to be known of a source in whose name wrong bytes came.
pub(super) struct Doubt {
    /// What was wrong with them.
    pub(super) reason: String,
    check: Check,
    /// When they are asked for again, and how often they were.
    ask_at: Time,
    asks: u32,
}

impl Receiver {
    /// Wrong bytes came in the name of a source while others are known: one of these is asked at once for all that is
    /// missing, and the source for what was wrong alone, past caches and storage, until it is known whether it lies.
    pub(super) fn doubt(&mut self, now: Time, id: TransferId, number: SourceId, wrong: Wrong) {
        let Some(fetch) = self.fetches.get_mut(id) else { return };
        let Some(reassembly) = &mut fetch.reassembly else { return };
        let Some(source) = fetch.sources.get_mut(number) else { return };
        let check = reassembly.begin_check(&wrong);
        source.state.doubt = Some(Doubt { reason: wrong.reason, check, ask_at: now, asks: 0 });
        reassembly.forget(number);
        let guid = source.state.guid;
        fetch.avoid_caches = true;
        if fetch.sender.is_some_and(|(sender, _)| sender != guid) {
            self.ask_again(now, id, None, wrong.chunks);
        } else {
            fetch.leave_sender();
            self.request(now, id);
        }
        self.ask_doubted(now, id);
    }
    /// Asks sources that are in doubt for what came wrong, if that is due.
    pub(super) fn ask_doubted(&mut self, now: Time, id: TransferId) {
        let Some((fetch, shared)) = self.fetches.get_with_limit(id) else { return };
        if fetch.ended.is_some() || !self.attached {
            return;
        }
        let timeout = fetch.options.nack_timeout(&self.config);
        let (Some(object), transfer, token) = (fetch.object, fetch.transfer, fetch.token) else { return };
        let (hears, mut bytes) = (fetch.hears_of_the_end(), 0);
        for source in fetch.sources.iter_mut() {
            let Some(doubt) = source.state.doubt.as_mut().filter(|doubt| doubt.ask_at <= now) else { continue };
            doubt.asks += 1;
            // Who does not answer is not known to lie, and not asked for ever.
            doubt.ask_at = if doubt.asks < WRONG_ASKS { now + timeout } else { Time::MAX };
            let ((chunk_bytes, count), wanted) = (doubt.check.cut(), doubt.check.chunks());
            bytes += u64::from(chunk_bytes) * wanted.clone().count() as u64;
            let request = TransportMessage::Request {
                transfer,
                object,
                chunk_bytes,
                reliability: fetch.reliability,
                buffer_chunks: self.config.window_chunks,
                held: ChunkRanges::from_ascending((0..count).filter(|number| !wanted.contains(number))),
            };
            // What it sends is over first: a request that comes twice is none.
            self.outbox.extend(source.state.over(transfer, token, object));
            source.state.serves = hears.then_some(NetworkAddress::NONE);
            let asked = Outgoing::new(source.state.guid, NetworkAddress::NONE, token, request);
            self.outbox.push_back(Outgoing { flags: Flags::NO_CACHE, ..asked });
        }
        fetch.limit.on_pass(now, bytes);
        shared.on_pass(now, bytes);
    }
    /// A chunk has come in the name of a source that is in doubt.
    pub(super) fn on_doubted(&mut self, id: TransferId, number: SourceId, chunk: (&ChunkHeader, &DataTag, &Payload)) {
        let (header, tag, payload) = chunk;
        let Some(fetch) = self.fetches.get_mut(id) else { return };
        let origin = fetch.origin(header);
        let (Some(reassembly), Some(object)) = (&fetch.reassembly, fetch.object) else { return };
        let Some(source) = fetch.sources.get_mut(number) else { return };
        source.state.serves = source.state.serves.and(Some(header.source_address));
        fetch.duplicate_bytes += payload.len() as u64;
        let Some(doubt) = &mut source.state.doubt else { return };
        match reassembly.check(&mut doubt.check, tag.number, (tag.chunk_bytes, tag.count), payload) {
            Verdict::Open => {}
            Verdict::Right => {
                (source.state.doubt, source.state.wrongs) = (None, 0);
                self.outbox.extend(source.state.over(fetch.transfer, fetch.token, object));
            }
            // What comes out of storage is not what was asked for.
            Verdict::Wrong if !matches!(origin, Origin::Source(_)) => {}
            Verdict::Wrong => {
                self.wrong.count(origin, payload.len() as u64);
                let reason = doubt.reason.clone();
                self.blame(id, number, reason);
            }
        }
    }
    /// A source lies: it is named, told that nothing more is wanted of it, and asked no more.
    pub(super) fn blame(&mut self, id: TransferId, number: SourceId, reason: String) {
        let Some(fetch) = self.fetches.get_mut(id) else { return };
        let Some(source) = fetch.sources.get_mut(number) else { return };
        source.state.doubt = None;
        let over = fetch.object.and_then(|object| source.state.over(fetch.transfer, fetch.token, object));
        self.outbox.extend(over);
        let distrusted = fetch.sources.distrust(number, Evidence::Bytes, reason);
        fetch.events.extend(distrusted);
    }
}

impl Incoming {
    /// The number of a source.
    pub(super) fn number_of(&self, guid: &Guid) -> Option<SourceId> {
        self.sources.find(|source| source.state.guid == *guid)
    }
    /// The source of this GUID.
    pub(super) fn source_of(&self, guid: &Guid) -> Option<&Source> {
        self.number_of(guid).and_then(|number| self.sources.get(number))
    }
    /// Whether somebody else than this source may be asked of whom nothing bad is known.
    pub(super) fn has_others(&self, number: SourceId) -> bool {
        let mut others = self.sources.iter().filter(|(other, _)| *other != number);
        others.any(|(_, source)| is_sure(source))
    }
    /// Whom to ask for what is missing: the network chooses the nearest as long as nobody is to be passed over, and is told
    /// whom to ask else, one source after the other. `None` if there is nobody.
    pub(super) fn choose(&mut self, now: Time) -> Option<Asked> {
        let is_there = |source: &Source| is_there(source, now);
        let pools: [&dyn Fn(&Source) -> bool; 3] = [&is_there, &is_sure, &Source::is_usable];
        let pool = pools.into_iter().find(|fits| self.sources.iter().any(|(_, source)| fits(source)))?;
        if self.nacks == 0 && self.sources.iter().all(|(_, source)| is_there(source)) {
            return Some(Asked::Nearest);
        }
        let last = self.asked.and_then(|guid| self.number_of(&guid));
        let mut fit = self.sources.iter().filter(|(_, source)| pool(source)).map(|(number, _)| number);
        let first = fit.next()?;
        let next = core::iter::once(first).chain(fit).find(|number| Some(*number) > last).unwrap_or(first);
        let source = self.sources.get_mut(next)?;
        source.state.doubt = None;
        Some(Asked::Source(source.state.guid))
    }
    /// Who sends is not the sender any more.
    pub(super) fn leave_sender(&mut self) {
        (self.sender, self.highest_window, self.granted, self.status_at) = (None, None, None, None);
        self.windows.clear();
        self.wrong.clear();
    }
    /// When a sender that is silent is asked whether it is still there, if others could go on for it.
    pub(super) fn call_at(&self, active_at: Time, timeout: Duration) -> Option<Time> {
        let (sender, _) = self.sender?;
        let number = self.number_of(&sender).unwrap_or(SourceId(u16::MAX));
        let waits = !self.stopped && !is_pushed(self.transfer) && self.calls < CALLS_MAX && self.has_others(number);
        waits.then(|| self.lonely_since.max(active_at) + timeout / CALL_PART * 2u32.pow(self.calls))
    }
    /// The question whether the sender is still there: it says nothing, and a router that cannot bring it to a host that is
    /// gone says so.
    pub(super) fn call(&mut self) -> Option<Outgoing> {
        self.calls += 1;
        let ((to, address), object) = self.sender.zip(self.object)?;
        let (transfer, chunks) = (self.transfer, ChunkRanges::default());
        let message = TransportMessage::Ack { transfer, object, complete: false, chunks };
        Some(Outgoing { proxies: self.proxies, ..Outgoing::new(to, address, self.token, message) })
    }
}

/// Whether nothing speaks against a source.
fn is_sure(source: &Source) -> bool {
    source.is_usable() && source.state.doubt.is_none()
}
/// The same, and it was not said to be gone.
pub(super) fn is_there(source: &Source, now: Time) -> bool {
    is_sure(source) && source.state.away_until <= now
}

impl Peer {
    /// What tells it that nothing more is wanted of it, if it may be sending.
    pub(super) fn over(&mut self, transfer: u32, token: Token, object: ObjectId) -> Option<Outgoing> {
        let address = self.serves.take()?;
        let message = TransportMessage::Ack { transfer, object, complete: true, chunks: ChunkRanges::default() };
        Some(Outgoing::new(self.guid, address, token, message))
    }
    /// Whether something has come of it that is not over.
    pub(super) fn sends(&self) -> bool {
        self.serves.is_some_and(|address| !address.is_none())
    }
    /// When it is asked again for what came wrong.
    pub(super) fn ask_at(&self) -> Option<Time> {
        self.doubt.as_ref().map(|doubt| doubt.ask_at).filter(|at| *at < Time::MAX)
    }
}

#[cfg(test)]
mod tests {
    use tributary_content::{MemoryObject, MemoryOpener, ObjectKind, ObjectReader, SigningKey};

    use super::{
        super::{FetchOptions, tests::fetch_of},
        *,
    };
    use crate::{router::cache::ContentCache, sender::Sender, wire::ChunkKind};

    const UNIT: u32 = 4_096;
    const UNITS: u32 = 40;

    /// A fetch from two sources in chunks of so many bytes, the first of which is asked first. What comes in its name of the
    /// tenth unit is changed so often. Gives the account, and the bytes that the first one sent.
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
        let id = receiver.fetch(now, fetch_of(&name, MemoryOpener::new()), FetchOptions::default());
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
                // What it had sent when it was set aside, and what was asked for again.
                assert!(sent < u64::from(UNIT * 24), "{case}");
            }
        }
    }
}
