//! Tests of the sender.
use super::*;
use tributary_content::{MemoryObject, SigningKey};

use crate::wire::Wire;

fn object(name: &str) -> Box<dyn ObjectReader> {
    let key = SigningKey::from_secret(&[7; 32]);
    Box::new(MemoryObject::new(name.parse().expect("a name"), Bytes::from_static(b"21.5"), &key).expect("fits"))
}

#[test]
fn a_repeated_request_opens_the_window_that_no_message_confirmed() {
    let cache = ContentCache::new(ByteCount(0));
    let mut sender = Sender::new(Guid([9; 20]), EndConfig::default(), 0, &[0; 32]);
    let (key, name) = (SigningKey::from_secret(&[7; 32]), "/file".parse().expect("a name"));
    let object = MemoryObject::new(name, Bytes::from(alloc::vec![1; 100 << 10]), &key).expect("fits");
    let id = object.manifest().publication_id();
    sender.publish(Box::new(object));
    let header = ChunkHeader::new(ChunkKind::Transport(Token(7)), Guid([1; 20]), Guid([9; 20]), NetworkAddress(1));
    let (mut now, mut sent, mut rounds) = (Time::from_millis(1), Vec::new(), 0);
    while sent.len() < 101 && rounds < 100 {
        let request = TransportBody::Request {
            chunk_bytes: 1 << 10,
            reliability: Reliability::Nack,
            buffer_chunks: 3,
            held: ChunkRanges::from_ascending(sent.iter().copied()),
        }
        .about(1, id);
        sender.handle_request(now, &header, &request, None);
        while let Some((header, _)) = sender.poll_chunk(now, &cache, |_, _| true) {
            sent.push(header.tag().expect("data").number);
        }
        (now, rounds) = (now + REQUEST_AGAIN * 2, rounds + 1);
    }
    assert_eq!(sent, (0..101).collect::<Vec<_>>());
    assert!(rounds > 10, "{rounds}: two windows at a time");
}

#[test]
fn who_has_acknowledged_chunks_and_not_the_whole_is_reminded() {
    let (cache, key) = (ContentCache::new(ByteCount(0)), SigningKey::from_secret(&[7; 32]));
    let receiver = Guid([1; 20]);
    // All of them; or only the manifest, by a receiver that is then killed and forgets the others.
    for acknowledged in [0..4, 0..1] {
        let mut now = Time::from_millis(1);
        let mut sender = Sender::new(Guid([9; 20]), EndConfig::default(), 0, &[0; 32]);
        let name = "/reading".parse().expect("a name");
        let object = MemoryObject::new(name, Bytes::from(alloc::vec![7; 3_000]), &key).expect("fits");
        let id = object.manifest().publication_id();
        sender.lend(Box::new(object));
        let options = SendOptions::new(&EndConfig::default());
        let options = SendOptions { reliability: Reliability::Ack, chunk_bytes: 1_024, ..options };
        sender.push(now, id, receiver, Vec::new(), options);
        let sent: Vec<_> = core::iter::from_fn(|| sender.poll_chunk(now, &cache, |_, _| true)).collect();
        assert_eq!(sent.len(), 4);
        let tag = *sent[0].0.tag().expect("data");
        let from = ChunkHeader::new(ChunkKind::Transport(tag.token), receiver, Guid([9; 20]), NetworkAddress(1));
        let acknowledge = |sender: &mut Sender, now, chunks: ChunkRanges, complete| {
            let ack = TransportBody::Ack { complete, chunks }.about(tag.transfer, id);
            sender.handle_message(now, &from, &ack);
        };
        acknowledge(&mut sender, now, ChunkRanges::from_ascending(acknowledged), false);
        let mut again = Vec::new();
        while now < Time::from_millis(30_000) {
            now += Duration::from_secs(1);
            sender.handle_timeout(now);
            let sent = core::iter::from_fn(|| sender.poll_chunk(now, &cache, |_, _| true));
            again.extend(sent.map(|(header, _)| header.tag().expect("data").number));
        }
        assert!(again.contains(&0), "by the description, not only {again:?}");
        acknowledge(&mut sender, now, ChunkRanges::default(), true);
        assert_eq!(sender.flows.len(), 0);
    }
}

#[test]
fn who_asks_for_what_was_changed_is_told_so_and_this_node_once() {
    let cache = ContentCache::new(ByteCount(0));
    let mut sender = Sender::new(Guid([9; 20]), EndConfig::default(), 0, &[0; 32]);
    let (key, name) = (SigningKey::from_secret(&[7; 32]), "/file".parse().expect("a name"));
    let mut object = MemoryObject::new(name, Bytes::from(alloc::vec![1; 20_000]), &key).expect("fits");
    object.alter(|bytes| bytes[9] = 2);
    let id = object.manifest().publication_id();
    sender.publish(Box::new(object));
    let header = ChunkHeader::new(ChunkKind::Transport(Token(7)), Guid([1; 20]), Guid([9; 20]), NetworkAddress(1));
    for transfer in [1, 2] {
        let request = TransportBody::Request {
            chunk_bytes: 8_192,
            reliability: Reliability::Nack,
            buffer_chunks: 100,
            held: ChunkRanges::default(),
        }
        .about(transfer, id);
        sender.handle_request(Time::from_millis(1), &header, &request, None);
        while sender.poll_chunk(Time::from_millis(1), &cache, |_, _| true).is_some() {}
        let told = core::iter::from_fn(|| sender.poll_message()).map(|(.., message)| message);
        let why = Unavailable::Changed;
        assert!(told.eq([TransportBody::Unreadable { why }.about(transfer, id)]));
    }
    assert!(
        sender.failures.pop_front().is_some_and(|(name, _)| name == "/file") && sender.failures.pop_front().is_none()
    );
}

#[test]
fn what_is_here_is_not_sent_however_it_is_cut() {
    let cache = ContentCache::new(ByteCount(0));
    let config = EndConfig { chunk_bytes: 4_096, ..EndConfig::default() };
    let mut sender = Sender::new(Guid([9; 20]), config, 0, &[0; 32]);
    let (key, name) = (SigningKey::from_secret(&[7; 32]), "/file".parse().expect("a name"));
    let object = MemoryObject::new(name, Bytes::from(alloc::vec![1; 20_000]), &key).expect("fits");
    let id = object.manifest().publication_id();
    sender.publish(Box::new(object));
    let header = ChunkHeader::new(ChunkKind::Transport(Token(7)), Guid([1; 20]), Guid([9; 20]), NetworkAddress(1));
    let mut now = Time::from_millis(1);
    for (held, missing) in [([0, 1].as_slice(), [3, 4, 5].as_slice()), (&[0, 1, 3], &[3, 4])] {
        let request = TransportBody::Request {
            chunk_bytes: 8_192,
            reliability: Reliability::Nack,
            buffer_chunks: 100,
            held: ChunkRanges::from_ascending(held.iter().copied()),
        }
        .about(1, id);
        sender.handle_request(now, &header, &request, None);
        let sent = core::iter::from_fn(|| sender.poll_chunk(now, &cache, |_, _| true));
        let sent: Vec<u32> = sent.map(|(header, _)| header.tag().expect("data").number).collect();
        assert_eq!(sent, missing);
        now += REQUEST_AGAIN * 2;
    }
}

#[test]
fn what_was_lent_is_forgotten_when_the_last_one_has_it_and_what_is_published_stays() {
    let cache = ContentCache::new(ByteCount(0));
    let mut sender = Sender::new(Guid([9; 20]), EndConfig::default(), 0, &[0; 32]);
    sender.publish(object("/published"));
    let now = Time::from_millis(1);
    for (name, stays) in [("/published", true), ("/lent", false)] {
        let id = object(name).manifest().publication_id();
        sender.lend(object(name));
        let options = SendOptions::new(&EndConfig::default());
        let receivers = [Guid([1; 20]), Guid([2; 20])];
        let transfers = receivers.map(|to| sender.push(now, id, to, Vec::new(), options).expect("room"));
        while sender.poll_chunk(now, &cache, |_, _| true).is_some() {}
        for (receiver, transfer) in receivers.into_iter().zip(transfers) {
            assert!(sender.object(&id).is_some(), "{name}: somebody has not got it");
            let chunks = ChunkRanges::from_ascending([0, 1]);
            let all = TransportBody::Ack { complete: true, chunks }.about(transfer, id);
            let token = Token::of(&[0; 32], &receiver, transfer);
            let from = ChunkHeader::new(ChunkKind::Transport(token), receiver, Guid([9; 20]), NetworkAddress(1));
            sender.handle_message(now, &from, &all);
            assert!(sender.report(transfer).is_some_and(|report| report.is_over));
        }
        assert_eq!(sender.object(&id).is_some(), stays, "{name}");
    }
    assert_eq!(sender.published().count(), 1);
}

/// The effect of a message about a transfer to one receiver, chunks 0 to 2, with the right or a forged token: chunks
/// sent again, chunks in storage, and whether the transfer is over.
fn comes_of(message: impl FnOnce(u32, ObjectId, Flow) -> TransportMessage, is_forged: bool) -> (Vec<u32>, u32, bool) {
    let cache = ContentCache::new(ByteCount(0));
    let (own, receiver, mut now) = (Guid([9; 20]), Guid([1; 20]), Time::from_millis(1));
    let config = EndConfig { chunk_bytes: 1_024, ..EndConfig::default() };
    let mut sender = Sender::new(own, config.clone(), 0, &[5; 32]);
    let (key, name) = (SigningKey::from_secret(&[7; 32]), "/file".parse().expect("a name"));
    let object = MemoryObject::new(name, Bytes::from(alloc::vec![1; 2_048]), &key).expect("fits");
    let id = object.manifest().publication_id();
    sender.lend(Box::new(object));
    let transfer = sender.push(now, id, receiver, Vec::new(), SendOptions::new(&config)).expect("room");
    let sent: Vec<_> = core::iter::from_fn(|| sender.poll_chunk(now, &cache, |_, _| true)).collect();
    assert_eq!(sent.len(), 3);
    let token = sent[0].0.token().expect("a chunk shows it");
    let token = if is_forged { Token(token.0 ^ 1) } else { token };
    let said = message(transfer, id, Flow { source: own, destination: receiver });
    let header = ChunkHeader::new(ChunkKind::Transport(token), receiver, own, NetworkAddress(1));
    assert_eq!(sender.is_forged(&header, &said), is_forged);
    sender.handle_message(now, &header, &said);
    now += DROP_PAUSE;
    sender.handle_timeout(now);
    let again = core::iter::from_fn(|| sender.poll_chunk(now, &cache, |_, _| true));
    let again: Vec<u32> = again.map(|(header, _)| header.tag().expect("data").number).collect();
    let report = sender.report(transfer).expect("it is known");
    (again, report.stored_chunks, report.is_over)
}

#[test]
fn what_is_said_of_a_transfer_without_its_token_counts_for_nothing() {
    let (proxy, address) = (Guid([3; 20]), NetworkAddress(3));
    let some = || ChunkRanges::from_ascending([1]);
    let both = |message: fn(u32, ObjectId, Flow, (Guid, NetworkAddress), ChunkRanges) -> TransportMessage| {
        [true, false].map(|is_forged| {
            comes_of(|transfer, object, flow| message(transfer, object, flow, (proxy, address), some()), is_forged)
        })
    };
    let nothing = (Vec::new(), 0, false);
    let nack = both(|transfer, object, _, _, missing| {
        TransportBody::Status { window: 0, advice_chunks: 1, sequence: 1, missing }.about(transfer, object)
    });
    assert_eq!(nack, [nothing.clone(), (Vec::from([1]), 0, false)]);
    let ack =
        both(|transfer, object, _, _, chunks| TransportBody::Ack { complete: true, chunks }.about(transfer, object));
    assert_eq!(ack, [nothing.clone(), (Vec::new(), 0, true)]);
    let stored = both(|transfer, object, flow, (proxy, address), chunks| {
        TransportBody::Stored { flow, proxy, address, chunks }.about(transfer, object)
    });
    assert_eq!(stored, [nothing.clone(), (Vec::new(), 1, false)]);
    let dropped = both(|transfer, object, flow, (proxy, _), chunks| {
        TransportBody::Dropped { flow, proxy, chunks }.about(transfer, object)
    });
    assert_eq!(dropped, [nothing, (Vec::from([1]), 0, false)]);
}

/// Three chunks sent to the group [1; 20], whose routers may try `proxies` of each other.
struct ToGroup {
    sender: Sender,
    now: Time,
    transfer: u32,
    object: ObjectId,
    token: Token,
}

impl ToGroup {
    fn new(proxies: u8) -> ToGroup {
        let (own, group, now) = (Guid([9; 20]), Guid([1; 20]), Time::from_millis(1));
        let config = EndConfig { chunk_bytes: 1_024, ..EndConfig::default() };
        let mut sender = Sender::new(own, config.clone(), 0, &[5; 32]);
        let (key, name) = (SigningKey::from_secret(&[7; 32]), "/file".parse().expect("a name"));
        let object = MemoryObject::new(name, Bytes::from(alloc::vec![1; 2_048]), &key).expect("fits");
        let id = object.manifest().publication_id();
        sender.lend(Box::new(object));
        let options = SendOptions { service: ServiceId::Multicast, proxies, ..SendOptions::new(&config) };
        let transfer = sender.push(now, id, group, Vec::new(), options).expect("room");
        sender.set_members(&group, &[Guid([2; 20]), Guid([3; 20])].into());
        let mut to_group = ToGroup { sender, now, transfer, object: id, token: Token::default() };
        let sent = to_group.sent();
        assert_eq!(sent.len(), 3);
        to_group.token = sent[0].0.token().expect("a chunk shows it");
        to_group
    }
    fn sent(&mut self) -> Vec<(ChunkHeader, Payload)> {
        let cache = ContentCache::new(ByteCount(0));
        core::iter::from_fn(|| self.sender.poll_chunk(self.now, &cache, |_, _| true)).collect()
    }
    /// `from` sends a message with a token; returns its effect within a moment: chunks sent again, pushes, stored
    /// chunks, and complete members.
    fn hear(&mut self, from: Guid, token: Token, message: &TransportMessage) -> (usize, usize, u32, usize) {
        let header = ChunkHeader::new(ChunkKind::Transport(token), from, Guid([9; 20]), NetworkAddress(1));
        self.sender.handle_message(self.now, &header, message);
        self.now += Duration::from_millis(100);
        self.sender.handle_timeout(self.now);
        let (again, pushes) = (self.sent().len(), core::iter::from_fn(|| self.sender.poll_message()).count());
        let report = self.sender.report(self.transfer).expect("it is known");
        (again, pushes, report.stored_chunks, report.delivered.len())
    }
}

#[test]
fn what_is_said_of_what_goes_to_a_group_without_its_token_counts_for_nothing() {
    let mut group = ToGroup::new(1);
    let (transfer, object, token) = (group.transfer, group.object, group.token);
    let (member, proxy) = (Guid([2; 20]), Guid([8; 20]));
    let chunks = || ChunkRanges::from_ascending([1]);
    let flow = Flow { source: Guid([9; 20]), destination: member };
    let status = |sequence| {
        TransportBody::Status { window: 0, advice_chunks: 1, sequence, missing: chunks() }.about(transfer, object)
    };
    let address = NetworkAddress(8);
    let all = Guid([3; 20]);
    let said = [
        // The first chunk is sent again; stored chunks are pushed from storage, and dropped ones leave it.
        (status(1), member, (1, 0, 0, 0)),
        (TransportBody::Stored { flow, proxy, address, chunks: chunks() }.about(transfer, object), proxy, (0, 0, 1, 0)),
        (status(2), member, (0, 1, 0, 0)),
        (TransportBody::Stored { flow, proxy, address, chunks: chunks() }.about(transfer, object), proxy, (0, 0, 1, 0)),
        (TransportBody::Dropped { flow, proxy, chunks: chunks() }.about(transfer, object), proxy, (0, 0, 0, 0)),
        (TransportBody::Completed { members: [all].into() }.about(transfer, object), proxy, (0, 0, 0, 1)),
        (TransportBody::Ack { complete: true, chunks: chunks() }.about(transfer, object), member, (0, 0, 0, 2)),
    ];
    let (mut stored, mut delivered) = (0, 0);
    for (message, from, comes) in said {
        let nothing = group.hear(from, Token(token.0 ^ 1), &message);
        assert_eq!(nothing, (0, 0, stored, delivered), "{message:?}");
        assert_eq!(group.hear(from, token, &message), comes, "{message:?}");
        (stored, delivered) = (comes.2, comes.3);
    }
    assert!(group.sender.report(transfer).is_some_and(|report| report.is_over));
}

#[test]
fn members_are_spoken_for_only_if_proxies_were_asked_to() {
    for (proxies, delivered) in [(0, 0), (1, 2)] {
        let mut group = ToGroup::new(proxies);
        let (transfer, object, token) = (group.transfer, group.object, group.token);
        let members = [Guid([2; 20]), Guid([3; 20])].into();
        let all = TransportBody::Completed { members }.about(transfer, object);
        assert_eq!(group.hear(Guid([2; 20]), token, &all), (0, 0, 0, delivered));
        let is_over = group.sender.report(transfer).is_some_and(|report| report.is_over);
        assert_eq!(is_over, proxies > 0, "a member cannot end it for the others");
    }
}

#[test]
fn what_was_said_to_be_missing_is_sent_once_however_often_that_is_repeated() {
    let status = |sequence| {
        move |transfer, object, _| {
            TransportBody::Status { window: 0, advice_chunks: 1, sequence, missing: ChunkRanges::from_ascending([1]) }
                .about(transfer, object)
        }
    };
    // A repeated message shows the token as well.
    for (sequence, again) in [(5, 0), (4, 0), (6, 1)] {
        let (own, receiver, now) = (Guid([9; 20]), Guid([1; 20]), Time::from_millis(5_000));
        let mut group = ToGroup::new(0);
        let sender = &mut group.sender;
        let transfer = sender.push(now, group.object, receiver, Vec::new(), SendOptions::new(&EndConfig::default()));
        let transfer = transfer.expect("room");
        group.now = now;
        let token = group.sent()[0].0.token().expect("a chunk shows it");
        let object = group.object;
        let mut hear = |sequence| {
            let header = ChunkHeader::new(ChunkKind::Transport(token), receiver, own, NetworkAddress(1));
            group.sender.handle_message(group.now, &header, &status(sequence)(transfer, object, ()));
            group.sent().len()
        };
        assert_eq!((hear(5), hear(sequence)), (1, again), "5, then {sequence}");
    }
}

#[test]
fn a_request_that_is_repeated_without_the_token_of_the_first_sends_nothing_again() {
    let cache = ContentCache::new(ByteCount(0));
    let (own, receiver, mut now) = (Guid([9; 20]), Guid([1; 20]), Time::from_millis(1));
    let mut sender = Sender::new(own, EndConfig::default(), 0, &[0; 32]);
    let file = object("/file");
    let request = TransportBody::Request {
        chunk_bytes: 1 << 10,
        reliability: Reliability::Nack,
        buffer_chunks: 3,
        held: ChunkRanges::default(),
    }
    .about(1, file.manifest().publication_id());
    sender.publish(file);
    for (token, sent) in [(7, 2), (8, 0), (7, 2)] {
        let header = ChunkHeader::new(ChunkKind::Transport(Token(token)), receiver, own, NetworkAddress(1));
        sender.handle_request(now, &header, &request, None);
        let all: Vec<_> = core::iter::from_fn(|| sender.poll_chunk(now, &cache, |_, _| true)).collect();
        assert_eq!(all.len(), sent);
        assert!(all.iter().all(|(header, _)| header.token() == Some(Token(7))));
        now += REQUEST_AGAIN * 2;
    }
}

/// One message may name as many chunks as there are numbers.
fn of_all(chunks: fn(ChunkRanges) -> TransportMessage) -> TransportMessage {
    let mut bytes = Vec::new();
    chunks(ChunkRanges::from_ascending([0])).encode(&mut bytes);
    let count = bytes.len() - 4;
    bytes[count..].fill(0xff);
    TransportMessage::decode(&bytes).expect("it is legal")
}

#[test]
fn storage_has_no_chunks_that_there_are_not() {
    let all = of_all(|chunks| {
        TransportBody::Stored {
            flow: Flow { source: Guid::NONE, destination: Guid::NONE },
            proxy: Guid([3; 20]),
            address: NetworkAddress(3),
            chunks,
        }
        .about(0, ObjectId([0; 16]))
    });
    let TransportMessage { body: TransportBody::Stored { proxy, address, chunks, .. }, .. } = all else {
        panic!("{all:?}")
    };
    let of_one = comes_of(
        |transfer, object, flow| {
            TransportBody::Stored { flow, proxy, address, chunks: chunks.clone() }.about(transfer, object)
        },
        false,
    );
    assert_eq!(of_one, (Vec::new(), 3, false));
    let mut group = ToGroup::new(1);
    let (transfer, object, token) = (group.transfer, group.object, group.token);
    let flow = Flow { source: Guid([9; 20]), destination: Guid([2; 20]) };
    let stored = TransportBody::Stored { flow, proxy, address, chunks }.about(transfer, object);
    assert_eq!(group.hear(proxy, token, &stored), (0, 0, 3, 0));
}

#[test]
fn one_who_asks_for_very_much_takes_nothing_from_others() {
    let cache = ContentCache::new(ByteCount(0));
    let own = Guid([9; 20]);
    let mut sender = Sender::new(own, EndConfig::default(), 0, &[0; 32]);
    let file = object("/file");
    let id = file.manifest().publication_id();
    sender.publish(file);
    let ask = |sender: &mut Sender, now, from: Guid, transfer| {
        let request = TransportBody::Request {
            chunk_bytes: 1 << 10,
            reliability: Reliability::Nack,
            buffer_chunks: 3,
            held: ChunkRanges::default(),
        }
        .about(transfer, id);
        let header = ChunkHeader::new(ChunkKind::Transport(Token(7)), from, own, NetworkAddress(1));
        sender.handle_request(now, &header, &request, None);
        while sender.poll_chunk(now, &cache, |_, _| true).is_some() {}
        let answer = sender.poll_message().map(|(to, .., message)| (to, message));
        match answer {
            None => true,
            Some((to, TransportMessage { transfer: told, body: TransportBody::Unavailable, .. })) => {
                assert_eq!((to, told), (from, transfer));
                false
            }
            other => panic!("{other:?}"),
        }
    };
    let mut now = Time::from_millis(1_000);
    let taken = (0..5_000).filter(|transfer| ask(&mut sender, now, Guid([1; 20]), *transfer)).count();
    assert_eq!((taken, sender.flows()), (FLOWS_OF_ONE_MAX, FLOWS_OF_ONE_MAX));
    assert!(ask(&mut sender, now, Guid([2; 20]), 1), "another one is served");
    // New names are free: those that request once fill the remaining slots.
    let guid = |number: u32| Guid([&number.to_be_bytes()[..], &[3; 16]].concat().try_into().expect("20 bytes"));
    (0..REQUESTED_MAX as u32).for_each(|number| _ = ask(&mut sender, now, guid(number), 1));
    assert_eq!(sender.flows(), REQUESTED_MAX);
    assert!(!ask(&mut sender, now, Guid([4; 20]), 1), "all may be about to say something");
    now += SILENT;
    assert!(ask(&mut sender, now, Guid([4; 20]), 1), "who is silent makes room");
    assert!(ask(&mut sender, now, Guid([1; 20]), 9_999));
    let options = SendOptions::new(&EndConfig::default());
    assert!(sender.push(now, id, Guid([5; 20]), Vec::new(), options).is_some());
    assert_eq!(sender.flows(), REQUESTED_MAX + 1, "what is begun here takes no room from those who ask");
}

#[test]
fn windows_beyond_those_that_have_numbers_of_their_own_are_known_by_the_last_one() {
    assert_eq!([0, 65_534, 65_535, 65_536, 131_070].map(on_wire), [0, 65_534, 0, 1, 0]);
    for window in [0, 1, 40_000, 65_534, 65_535, 65_600, 131_069, 131_070, 4_000_000] {
        for known in [window, window + 2, window + 30_000, u32::max(window, 30_000) - 30_000] {
            assert_eq!(nearest_window(on_wire(window), known), window, "beside {known}");
        }
    }
    assert_eq!(nearest_window(u16::MAX, 5), 0, "no window has that number");
}

#[test]
fn a_transfer_of_very_many_windows_goes_on_as_fast_as_it_began() {
    let cache = ContentCache::new(ByteCount(0));
    let config = EndConfig { window_chunks: 1, chunk_bytes: 1_024, ..EndConfig::default() };
    let (own, receiver) = (Guid([9; 20]), Guid([1; 20]));
    let mut sender = Sender::new(own, config.clone(), 0, &[0; 32]);
    let (key, name) = (SigningKey::from_secret(&[7; 32]), "/file".parse().expect("a name"));
    let count = u32::from(u16::MAX) + 1_000;
    let bytes = Bytes::from(alloc::vec![1; (count as usize - 1) * 1_024]);
    let object = MemoryObject::new(name, bytes, &key).expect("fits");
    let id = object.manifest().publication_id();
    sender.lend(Box::new(object));
    let mut now = Time::from_millis(1);
    let transfer = sender.push(now, id, receiver, Vec::new(), SendOptions::new(&config)).expect("room");
    let (mut sent, mut silent, mut sequence) = (0, 0, 0);
    while sent < count && silent < 2 {
        now += Duration::from_millis(1);
        let chunks: Vec<_> = core::iter::from_fn(|| sender.poll_chunk(now, &cache, |_, _| true)).collect();
        silent = if chunks.is_empty() { silent + 1 } else { 0 };
        for (header, _) in chunks {
            let tag = header.tag().expect("data");
            (sent, sequence) = (sent + 1, sequence + 1);
            let status = TransportBody::Status {
                window: tag.window,
                advice_chunks: 1,
                sequence,
                missing: ChunkRanges::default(),
            }
            .about(transfer, id);
            let kind = ChunkKind::Transport(tag.token);
            sender.handle_message(now, &ChunkHeader::new(kind, receiver, own, NetworkAddress(1)), &status);
        }
    }
    assert_eq!(sent, count, "it stands still after that many chunks");
}

#[test]
fn what_has_a_lifetime_is_given_up_at_its_end_however_often_it_is_dropped() {
    let cache = ContentCache::new(ByteCount(0));
    let (own, receiver, begin) = (Guid([9; 20]), Guid([1; 20]), Time::from_millis(1));
    for lifetime in [Some(Duration::from_secs(100)), None] {
        let mut sender = Sender::new(own, EndConfig::default(), 0, &[0; 32]);
        let file = object("/file");
        let id = file.manifest().publication_id();
        sender.lend(file);
        let options = SendOptions { lifetime, ..SendOptions::new(&EndConfig::default()) };
        let transfer = sender.push(begin, id, receiver, Vec::new(), options).expect("room");
        let (mut now, mut sent) = (begin, Vec::new());
        while sender.flows() > 0 && now < begin + FLOW_LIFETIME * 3 {
            while let Some((header, _)) = sender.poll_chunk(now, &cache, |_, _| true) {
                sent.push((now, header.lifetime_ms));
                let flow = Flow { source: own, destination: receiver };
                let chunks = ChunkRanges::from_ascending([header.tag().expect("data").number]);
                let proxy = Guid([3; 20]);
                let dropped = TransportBody::Dropped { flow, proxy, chunks }.about(transfer, id);
                let kind = ChunkKind::Transport(header.token().expect("data"));
                sender.handle_message(now, &ChunkHeader::new(kind, proxy, own, NetworkAddress(1)), &dropped);
            }
            now = sender.poll_timeout().unwrap_or(now).max(now + Duration::from_millis(1));
            sender.handle_timeout(now);
        }
        let lasted = now.since(begin);
        assert_eq!(lasted, lifetime.unwrap_or(FLOW_LIFETIME), "what is sent again is no sign of life");
        assert!(sent.len() > 6, "it is sent again until then");
        let report = sender.report(transfer).expect("it is known");
        assert!(report.is_over && report.delivered.is_empty());
        assert_eq!(sender.expired.pop_front().is_some(), lifetime.is_some());
        assert_eq!(sender.failures.pop_front().is_some(), lifetime.is_some(), "why is told");
        for (at, lifetime_ms) in sent {
            let left = lifetime.map_or(0, |lifetime| (begin + lifetime).since(at).as_millis() as u32);
            assert_eq!(lifetime_ms, left, "each says what is left of it");
        }
    }
}

#[test]
fn tokens_differ_with_secret_receiver_and_transfer() {
    let tokens = [([1; 32], 1, 1), ([2; 32], 1, 1), ([1; 32], 2, 1), ([1; 32], 1, 2)];
    let tokens = tokens.map(|(secret, peer, transfer)| Token::of(&secret, &Guid([peer; 20]), transfer));
    assert_eq!(tokens.iter().map(|token| token.0).collect::<BTreeSet<u64>>().len(), 4);
}
