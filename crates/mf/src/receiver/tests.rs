//! Tests of the receiver.
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use tributary_content::{ChunkStore, MemoryObject, MemoryOpener, ObjectReader, SigningKey, StoreAnswer, StoreTask};

use tributary_transport::PathMetric;

use super::{pushed::REMEMBERED_MAX, *};
use crate::{
    ids::Custodian,
    link::Arrival,
    router::cache::ContentCache,
    sender::{PUSHED, SendOptions, Sender},
    wire::ChunkKind,
};

/// A fetch without limits.
pub(super) fn fetch_of(name: &Name, opener: impl StoreOpener + 'static) -> Fetch {
    Fetch {
        name: name.clone(),
        opener: Box::new(opener),
        rate_limit: None,
        paths_per_source: 1,
        metric: PathMetric::Hops,
        patience: None,
    }
}

/// All `count` chunks of an object except its manifest: unit `number - 1`, of 10,000 bytes each.
fn chunks_of(source: u8, count: u32) -> (ChunkHeader, Vec<(ChunkHeader, Payload)>, Payload) {
    let key = SigningKey::from_secret(&[7; 32]);
    let name = alloc::format!("/lab/{source}").parse().expect("a name");
    let bytes: Bytes = (0..10_000 * count).map(|number| (number / 9) as u8).collect();
    let kind = tributary_content::ObjectKind::File;
    let object = MemoryObject::with_options(name, bytes.clone(), &key, 1, kind, 10_000).expect("fits");
    let encoded = object.manifest().encode();
    let head = [&(encoded.len() as u16).to_be_bytes()[..], &encoded, &object.tree()].concat();
    let header = |number| {
        let tag = DataTag {
            object: object.manifest().publication_id(),
            transfer: PUSHED | 1,
            token: Token(7),
            number,
            count: count + 1,
            chunk_bytes: 10_000,
            reliability: Reliability::Nack,
            window: u16::MAX,
            window_chunks: 0,
        };
        ChunkHeader::new(ChunkKind::Data(tag), Guid([source; 20]), Guid([9; 20]), NetworkAddress(1))
    };
    let data = (1..=count)
        .map(|number| (header(number), bytes.slice((number as usize - 1) * 10_000..number as usize * 10_000).into()));
    (header(0), data.collect(), head.into())
}

#[test]
fn all_transfers_together_keep_to_the_buffer_and_none_is_starved() {
    let most = 1_000_000;
    let config = EndConfig { buffer_bytes: tributary_core::ByteCount(most), ..EndConfig::default() };
    let mut receiver = Receiver::new(config, 1, &[1; 32]);
    let opener = MemoryOpener::new();
    // Its reader reads nothing.
    opener.content().read_in_order(None, Some(tributary_content::ChunkIndex(0)));
    receiver.accept(Some(Box::new(opener)));
    let now = Time::from_millis(1_000);
    for source in 1..=4 {
        let (first, data, head) = chunks_of(source, 400);
        receiver.handle_data(now, &first, &head);
        // In reverse order: nothing can be read until the end.
        for (header, payload) in data.iter().rev() {
            receiver.handle_data(now, header, payload);
            assert!(receiver.buffered_bytes() <= most + u64::from(source) * 10_000);
        }
        let refused = receiver.refused;
        assert!(refused >= 250 * u64::from(source), "{refused}");
        let held = receiver.fetches.all().map(|(id, _)| receiver.buffered_of(id)).collect::<Vec<_>>();
        let part = most / u64::from(source);
        assert!(held.iter().all(|held| *held >= part / 2), "each has its part: {held:?}");
    }
}

#[test]
fn what_nobody_has_taken_is_forgotten_for_want_of_room_alone() {
    let config = EndConfig { buffer_bytes: tributary_core::ByteCount(65_000), ..EndConfig::default() };
    let mut receiver = Receiver::new(config, 1, &[1; 32]);
    let mut now = Time::from_millis(1_000);
    let bring = |receiver: &mut Receiver, now, source| {
        let (first, data, head) = chunks_of(source, 2);
        receiver.handle_data(now, &first, &head);
        data.iter().for_each(|(header, payload)| receiver.handle_data(now, header, payload));
    };
    let held = |receiver: &Receiver| receiver.early_chunks();
    (1..=3).for_each(|source| bring(&mut receiver, now + Duration::from_millis(u64::from(source)), source));
    assert_eq!(held(&receiver), [(1, 3), (2, 3), (3, 3)]);
    bring(&mut receiver, now, 4);
    assert_eq!(held(&receiver), [(1, 3), (2, 3), (3, 3), (4, 1)], "the rest of the others may be on its way");
    now += Duration::from_secs(86_400);
    assert_eq!(held(&receiver).len(), 4, "a day later");
    bring(&mut receiver, now, 4);
    assert_eq!(held(&receiver), [(2, 3), (3, 3), (4, 3)], "the oldest makes room");
    receiver.accept(Some(Box::new(MemoryOpener::new())));
    receiver.take_early(now);
    assert!(receiver.fetches.all().all(|(_, fetch)| fetch.record.is_completed()));
    assert_eq!(receiver.fetches.all().count(), 3);
}

#[test]
fn copies_of_what_was_pushed_are_known_and_memory_of_them_is_bounded() {
    let (source, key) = (Guid([2; 20]), SigningKey::from_secret(&[7; 32]));
    let mut receiver = Receiver::new(EndConfig::default(), 1, &[1; 32]);
    receiver.accept(Some(Box::new(MemoryOpener::new())));
    let options = SendOptions::new(&EndConfig::default());
    let (count, mut last) = (REMEMBERED_MAX + 100, Vec::new());
    for number in 0..count {
        let name = alloc::format!("/lab/reading/{number}").parse().expect("a name");
        let object = MemoryObject::new(name, Bytes::from_static(b"21.5"), &key).expect("fits");
        let id = object.manifest().publication_id();
        let mut sender = Sender::new(source, EndConfig::default(), number as u32, &[2; 32]);
        sender.lend(Box::new(object));
        sender.push(Time::ZERO, id, Guid([1; 20]), Vec::new(), options);
        let no_cache = ContentCache::new(tributary_core::ByteCount(0));
        last = core::iter::from_fn(|| sender.poll_chunk(Time::ZERO, &no_cache, |_, _| true)).collect();
        last.iter().for_each(|(header, payload)| receiver.handle_data(Time::ZERO, header, payload));
    }
    last.iter().for_each(|(header, payload)| receiver.handle_data(Time::ZERO, header, payload));
    let done = core::iter::from_fn(|| receiver.poll_event());
    let done = done.filter(|(_, event)| matches!(event, TransferEvent::Completed));
    assert_eq!(done.count(), count, "each once");
    assert_eq!(receiver.remembered(), REMEMBERED_MAX);
}

#[test]
fn who_missed_the_answer_is_told_again_when_many_others_have_come_meanwhile() {
    let mut receiver = Receiver::new(EndConfig::default(), 1, &[1; 32]);
    receiver.accept(Some(Box::new(MemoryOpener::new())));
    let now = Time::from_millis(1_000);
    let custodian = Custodian { guid: Guid([8; 20]), address: NetworkAddress(3) };
    let bring = |receiver: &mut Receiver, source: u32, custodian: Option<Custodian>| {
        let (first, data, head) = chunks_of((source % 200) as u8, 1);
        let chunks = core::iter::once((first, head)).chain(data);
        for (mut header, payload) in chunks {
            let ChunkKind::Data(tag) = &mut header.kind else { continue };
            (tag.transfer, header.custodian) = (PUSHED | source, custodian);
            receiver.handle_data(now, &header, &payload);
        }
    };
    (0..=ENDED_MAX as u32 + 1).for_each(|number| bring(&mut receiver, number, None));
    assert!(receiver.fetches.all().count() <= ENDED_MAX + 1, "{}", receiver.fetches.all().count());
    while receiver.poll_message().is_some() || receiver.poll_answer().is_some() {}
    bring(&mut receiver, 0, Some(custodian));
    let is_complete = |message: &Outgoing| {
        matches!(message.message, TransportMessage { body: TransportBody::Ack { complete: true, .. }, .. })
    };
    assert!(receiver.poll_message().is_some_and(|message| is_complete(&message)), "its source");
    assert_eq!(receiver.poll_answer().map(|answer| answer.state), Some(CustodyState::Over), "and its custodian");
    assert_eq!(receiver.strays, 0);
}

/// A store that answers when the test allows it, and has space for a number of chunks.
struct Late {
    inner: Box<dyn ChunkStore>,
    answers: Arc<AtomicBool>,
    begun: VecDeque<StoreTask>,
    room: usize,
}
impl ChunkStore for Late {
    fn begin(&mut self, task: StoreTask) -> Result<Option<StoreAnswer>, StoreError> {
        self.begun.push_back(task);
        Ok(None)
    }
    fn poll_answer(&mut self) -> Result<Option<StoreAnswer>, StoreError> {
        if !self.answers.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let Some(task) = self.begun.pop_front() else { return Ok(None) };
        if matches!(task, StoreTask::Chunk(..)) {
            let Some(room) = self.room.checked_sub(1) else {
                let (path, reason) = ("/inbox".into(), "no space left".into());
                return Err(StoreError::Io { operation: "write to", path, reason });
            };
            self.room = room;
        }
        self.inner.begin(task)
    }
    fn held(&self) -> &tributary_content::Bitmap {
        self.inner.held()
    }
    fn put_chunk(&mut self, index: tributary_content::ChunkIndex, bytes: &[u8]) -> Result<(), StoreError> {
        self.inner.put_chunk(index, bytes)
    }
    fn finish(&mut self) -> Result<(), StoreError> {
        self.inner.finish()
    }
}
struct LateOpener {
    inner: MemoryOpener,
    answers: Arc<AtomicBool>,
    room: usize,
}
impl StoreOpener for LateOpener {
    fn trusts(&self, manifest: &Manifest) -> Result<(), StoreError> {
        self.inner.trusts(manifest)
    }
    fn resumes(&self, manifest: &Manifest) -> bool {
        self.inner.resumes(manifest)
    }
    fn open(&mut self, manifest: &Manifest) -> Result<Box<dyn ChunkStore>, StoreError> {
        let (inner, answers) = (self.inner.open(manifest)?, Arc::clone(&self.answers));
        Ok(Box::new(Late { inner, answers, begun: VecDeque::new(), room: self.room }))
    }
}

#[test]
fn chunks_that_were_stored_before_the_disk_was_full_are_told() {
    let mut receiver = Receiver::new(EndConfig::default(), 1, &[1; 32]);
    receiver.accept(Some(Box::new(LateOpener { inner: MemoryOpener::new(), answers: Arc::new(true.into()), room: 1 })));
    let (first, data, head) = chunks_of(1, 3);
    receiver.handle_data(NOW, &first, &head);
    data.iter().for_each(|(header, payload)| receiver.handle_data(NOW, header, payload));
    let id = receiver.transfers()[0].0;
    while receiver.report(NOW, id).is_some_and(|report| report.ended.is_none()) {
        receiver.handle_storage(NOW);
    }
    let stored = receiver.report(NOW, id).expect("it is known").stored_bytes;
    let told = core::iter::from_fn(|| receiver.poll_event());
    let told = told.filter(|(_, event)| matches!(event, TransferEvent::ChunkStored { .. })).count();
    assert_eq!((stored, told), (10_000, 1));
}

#[test]
fn a_message_that_was_stored_before_a_restart_is_finished_and_its_custodian_told() {
    let store = MemoryOpener::new();
    let (mut first, mut data, head) = chunks_of(1, 1);
    let mut killed = Receiver::new(EndConfig::default(), 1, &[1; 32]);
    killed.accept(Some(Box::new(store.clone())));
    killed.handle_data(NOW, &first, &head);
    killed.handle_data(NOW, &data[0].0, &data[0].1);

    let mut receiver = Receiver::new(EndConfig::default(), 2, &[1; 32]);
    let answers = Arc::new(AtomicBool::new(false));
    receiver.accept(Some(Box::new(LateOpener { inner: store, answers: Arc::clone(&answers), room: 0 })));
    for header in [&mut first, &mut data[0].0] {
        header.custodian = Some(Custodian { guid: Guid([8; 20]), address: NetworkAddress(3) });
    }
    data[0].0.payload_bytes = 10_000;
    receiver.handle_data(NOW, &first, &head);
    answers.store(true, Ordering::Relaxed);
    assert!(receiver.has_already(NOW, &data[0].0));
    (0..10).for_each(|_| receiver.handle_storage(NOW));
    assert!(receiver.report(NOW, receiver.transfers()[0].0).is_some_and(|report| report.ended.is_some()));
    let told = core::iter::from_fn(|| receiver.poll_answer()).map(|answer| (answer.state, answer.key.number));
    assert_eq!(told.collect::<Vec<_>>(), [(CustodyState::Taken, 1), (CustodyState::Taken, 0)]);
}

#[test]
fn a_token_that_was_damaged_on_its_way_is_replaced_by_what_comes_after_nacks_in_vain() {
    let (source, key) = (Guid([2; 20]), SigningKey::from_secret(&[7; 32]));
    let mut receiver = Receiver::new(EndConfig::default(), 1, &[1; 32]);
    receiver.accept(Some(Box::new(MemoryOpener::new())));
    receiver.set_attached(Time::ZERO, true);
    let object = MemoryObject::new("/lab/reading".parse().expect("a name"), Bytes::from_static(b"21.5"), &key);
    let object = object.expect("fits");
    let id = object.manifest().publication_id();
    let mut sender = Sender::new(source, EndConfig::default(), 1, &[2; 32]);
    sender.lend(Box::new(object));
    sender.push(Time::ZERO, id, Guid([1; 20]), Vec::new(), SendOptions::new(&EndConfig::default()));
    let no_cache = ContentCache::new(tributary_core::ByteCount(0));
    let (header, payload) = sender.poll_chunk(Time::ZERO, &no_cache, |_, _| true).expect("the first chunk");
    let token = header.token().expect("it has one");
    let mut damaged = header.clone();
    if let ChunkKind::Data(tag) = &mut damaged.kind {
        tag.token.0 ^= 1 << 38;
    }
    receiver.handle_data(Time::ZERO, &damaged, &payload);
    let (mut now, mut right) = (Time::ZERO, Vec::new());
    while now < Time::from_millis(60_000) {
        now += Duration::from_millis(100);
        receiver.handle_timeout(now);
        right.extend(core::iter::from_fn(|| receiver.poll_message()).map(|message| message.token == token));
        // The sender gets no answer, and reminds the receiver.
        receiver.handle_data(now, &header, &payload);
    }
    assert_eq!(right[..3], [false, false, true], "the second one in vain shows it: {right:?}");
    assert!(right[2..].iter().all(|is_right| *is_right));
}

/// Chunks from a cache, one of them wrong, wait for the hash list that a source sends.
#[test]
fn who_sends_the_hash_list_is_not_blamed_for_wrong_bytes_that_a_cache_sent_before() {
    let (own, source, cache) = (Guid([1; 20]), Guid([2; 20]), Guid([3; 20]));
    let (name, bytes) = ("/lab/file".parse::<Name>().expect("a name"), Bytes::from(alloc::vec![5; 4_000]));
    let kind = tributary_content::ObjectKind::File;
    let key = SigningKey::from_secret(&[7; 32]);
    let object = MemoryObject::with_options(name.clone(), bytes, &key, 1, kind, 1_024).expect("fits");
    let manifest = object.manifest().clone();
    let mut receiver = Receiver::new(EndConfig::default(), 1, &[1; 32]);
    let mut sender = Sender::new(source, EndConfig::default(), 0, &[2; 32]);
    sender.publish(Box::new(object));
    let mut now = Time::from_millis(1);
    let id = receiver.fetch(now, fetch_of(&name, MemoryOpener::new()), GetOptions::default());
    receiver.set_attached(now, true);
    let device = Announcer { guid: source, label: "source".into() };
    receiver.handle_announcements(now, &name, &[(device, manifest)], Announced::All);
    let mut is_first = true;
    for _ in 0..100 {
        now += Duration::from_millis(500);
        receiver.handle_timeout(now);
        for message in core::iter::from_fn(|| receiver.poll_message()) {
            let kind = ChunkKind::Transport(message.token);
            let from = ChunkHeader::new(kind, own, source, NetworkAddress(1));
            sender.handle_request(now, &from, &message.message, None);
            sender.handle_message(now, &from, &message.message);
        }
        let no_cache = ContentCache::new(tributary_core::ByteCount(0));
        let mut sent: Vec<_> = core::iter::from_fn(|| sender.poll_chunk(now, &no_cache, |_, _| true)).collect();
        if core::mem::take(&mut is_first) {
            let head = sent.remove(0);
            let (header, payload) = &mut sent[0];
            (header.source, header.flags) = (cache, Flags::CACHED);
            *payload = alloc::vec![6; payload.len()].into_iter().collect::<Bytes>().into();
            sent.push(head);
        }
        sent.iter().for_each(|(header, payload)| receiver.handle_data(now, header, payload));
    }
    let report = receiver.report(now, id).expect("it is known");
    assert!(report.ended.is_some() && report.failure.is_none(), "{report:?}");
    let events: Vec<_> = core::iter::from_fn(|| receiver.poll_event()).map(|(_, event)| event).collect();
    let node = node_of(&cache);
    let is_cache =
        |event: &TransferEvent| matches!(event, TransferEvent::CacheDistrusted { node: of, .. } if *of == node);
    assert_eq!(events.iter().filter(|event| is_cache(event)).count(), 1, "{events:?}");
    assert_eq!(receiver.wrong, WrongBytes { caches: 1_024, ..WrongBytes::default() }, "the first unit alone");
}

/// Long after anything came.
const NOW: Time = Time::from_millis(60_000);

/// A fetch of four chunks after its request to the source [2; 20], and that request.
fn fetch() -> (Receiver, Sender, TransferId, Vec<Outgoing>) {
    let (source, key) = (Guid([2; 20]), SigningKey::from_secret(&[7; 32]));
    let name: Name = "/lab/file".parse().expect("a name");
    let object = MemoryObject::new(name.clone(), Bytes::from(alloc::vec![5; 4_000]), &key).expect("fits");
    let manifest = object.manifest().clone();
    let config = EndConfig { chunk_bytes: 1_024, ..EndConfig::default() };
    let mut receiver = Receiver::new(config.clone(), 1, &[1; 32]);
    let mut sender = Sender::new(source, config, 0, &[2; 32]);
    sender.publish(Box::new(object));
    let id = receiver.fetch(NOW, fetch_of(&name, MemoryOpener::new()), GetOptions::default());
    receiver.set_attached(NOW, true);
    let device = Announcer { guid: source, label: "source".into() };
    receiver.handle_announcements(NOW, &name, &[(device, manifest)], Announced::All);
    let requested_chunks = core::iter::from_fn(|| receiver.poll_message()).collect();
    (receiver, sender, id, requested_chunks)
}
fn header_of(message: &Outgoing, from: Guid, token: Token) -> ChunkHeader {
    ChunkHeader::new(ChunkKind::Transport(token), from, message.to, NetworkAddress(1))
}

/// One of a unit's four chunks has arrived when the source is requested again.
#[test]
fn who_is_asked_again_sends_nothing_that_is_here_whole_units_or_not() {
    let (mut receiver, mut sender, id, requested_chunks) = fetch();
    let no_cache = ContentCache::new(tributary_core::ByteCount(0));
    let mut sent_for = |receiver: &mut Receiver, now, requested_chunks: &[Outgoing], delivered: &[u32]| -> Vec<u32> {
        for message in requested_chunks {
            let from = header_of(message, Guid([1; 20]), message.token);
            sender.handle_request(now, &from, &message.message, None);
        }
        let sent: Vec<_> = core::iter::from_fn(|| sender.poll_chunk(now, &no_cache, |_, _| true)).collect();
        let number = |header: &ChunkHeader| header.tag().expect("data").number;
        for (header, payload) in sent.iter().filter(|(header, _)| delivered.contains(&number(header))) {
            receiver.handle_data(now, header, payload);
        }
        sent.iter().map(|(header, _)| number(header)).collect()
    };
    assert_eq!(sent_for(&mut receiver, NOW, &requested_chunks, &[2]), [1, 2, 3, 4]);
    let mut now = NOW;
    let again = loop {
        now += Duration::from_secs(1);
        receiver.handle_timeout(now);
        let is_request = |message: &Outgoing| {
            matches!(message.message, TransportMessage { body: TransportBody::Request { .. }, .. })
        };
        let requested_chunks: Vec<_> = core::iter::from_fn(|| receiver.poll_message()).filter(is_request).collect();
        if !requested_chunks.is_empty() {
            break sent_for(&mut receiver, now, &requested_chunks, &[1, 3, 4]);
        }
    };
    assert_eq!(again, [1, 3, 4]);
    assert!(receiver.report(now, id).is_some_and(|report| report.ended.is_some() && report.failure.is_none()));
}

#[test]
fn the_answer_to_a_request_that_was_repeated_tells_no_round_trip() {
    for repeats in [0, 1] {
        let (mut receiver, mut sender, id, mut requested_chunks) = fetch();
        let mut now = NOW;
        for _ in 0..repeats {
            now += EndConfig::default().nack_timeout;
            receiver.handle_timeout(now);
            requested_chunks.extend(core::iter::from_fn(|| receiver.poll_message()));
        }
        assert_eq!(requested_chunks.len(), repeats + 1);
        let from = header_of(&requested_chunks[0], Guid([1; 20]), requested_chunks[0].token);
        sender.handle_request(now, &from, &requested_chunks[0].message, None);
        let no_cache = ContentCache::new(tributary_core::ByteCount(0));
        let (header, _) = sender.poll_chunk(now, &no_cache, |_, _| true).expect("it was asked for");
        let arrival = Arrival { begun: now + Duration::from_millis(40), late: 1, is_resumed: false };
        receiver.on_arrival(&header, 9, &arrival);
        let path = receiver.report(now, id).expect("it is known").paths.remove(0);
        assert_eq!(path.rtt, (repeats == 0).then_some(Duration::from_millis(40)));
        assert_eq!((path.requested_packets, path.lost_packets), (10, 1));
    }
}

#[test]
fn chunks_without_the_token_of_the_fetch_are_of_no_transfer() {
    let (mut receiver, mut sender, id, requested_chunks) = fetch();
    let from = header_of(&requested_chunks[0], Guid([1; 20]), requested_chunks[0].token);
    sender.handle_request(NOW, &from, &requested_chunks[0].message, None);
    let no_cache = ContentCache::new(tributary_core::ByteCount(0));
    let sent: Vec<_> = core::iter::from_fn(|| sender.poll_chunk(NOW, &no_cache, |_, _| true)).collect();
    let stored = |receiver: &Receiver| receiver.report(NOW, id).expect("it is known").stored_bytes;
    for (header, payload) in &sent {
        let mut forged = header.clone();
        if let ChunkKind::Data(tag) = &mut forged.kind {
            tag.token.0 ^= 1;
        }
        // Wrong bytes would mark a source as faulty.
        let wrong: Payload = Bytes::from(alloc::vec![6; payload.len()]).into();
        receiver.handle_data(NOW, &forged, &wrong);
        receiver.handle_data(NOW, &forged, payload);
    }
    assert_eq!((stored(&receiver), receiver.strays), (0, 2 * sent.len() as u64), "asked for, it is known by its own");
    sent.iter().for_each(|(header, payload)| receiver.handle_data(NOW, header, payload));
    assert_eq!(stored(&receiver), 4_000);
    let events: Vec<_> = core::iter::from_fn(|| receiver.poll_event()).map(|(_, event)| event).collect();
    assert!(!events.iter().any(|event| matches!(event, TransferEvent::SourceDistrusted { .. })), "{events:?}");
}

#[test]
fn only_who_was_asked_says_that_it_cannot_read_it_and_that_ends_what_has_no_other_source() {
    let (source, stranger) = (Guid([2; 20]), Guid([3; 20]));
    for (from, flip, ends) in [(source, 1, false), (stranger, 0, false), (source, 0, true)] {
        let (mut receiver, _, id, requested_chunks) = fetch();
        let TransportMessage { transfer, object, body: TransportBody::Request { .. } } = requested_chunks[0].message
        else {
            panic!("{requested_chunks:?}")
        };
        let header = header_of(&requested_chunks[0], from, Token(requested_chunks[0].token.0 ^ flip));
        let why = Unavailable::Changed;
        receiver.handle_message(NOW, &header, &TransportBody::Unreadable { why }.about(transfer, object));
        let report = receiver.report(NOW, id).expect("it is known");
        assert_eq!(report.failure.is_some_and(|reason| reason.contains("changed at the source")), ends);
    }
}

#[test]
fn only_who_was_asked_says_that_it_does_not_have_it() {
    let (source, stranger) = (Guid([2; 20]), Guid([3; 20]));
    for (from, flip, heard) in [(source, 1, false), (stranger, 0, false), (source, 0, true)] {
        let (mut receiver, _, id, requested_chunks) = fetch();
        let TransportMessage { transfer, object, body: TransportBody::Request { .. } } = requested_chunks[0].message
        else {
            panic!("{requested_chunks:?}")
        };
        let header = header_of(&requested_chunks[0], from, Token(requested_chunks[0].token.0 ^ flip));
        let now = NOW + Duration::from_millis(10);
        receiver.handle_message(now, &header, &TransportBody::Unavailable.about(transfer, object));
        // The repetition comes sooner than after a silence.
        receiver.handle_timeout(now + EndConfig::default().nack_timeout / 2);
        let again = core::iter::from_fn(|| receiver.poll_message()).count();
        assert_eq!(again > 0, heard, "{from:?} {flip}");
        assert!(receiver.report(now, id).is_some_and(|report| report.ended.is_none()));
    }
}
