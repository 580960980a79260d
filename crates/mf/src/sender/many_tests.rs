//! Many flows at once: the work for one does not grow with their number, and none is forgotten.
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};

use tributary_content::{Manifest, MemoryObject, SigningKey};

use super::*;

const OWN: Guid = Guid([9; 20]);
const PROXY: (Guid, NetworkAddress) = (Guid([3; 20]), NetworkAddress(3));

fn object(name: &str, bytes: usize) -> MemoryObject {
    let key = SigningKey::from_secret(&[7; 32]);
    MemoryObject::new(name.parse().expect("a name"), Bytes::from(alloc::vec![1; bytes]), &key).expect("fits")
}
fn guid(number: u32) -> Guid {
    Guid([&number.to_be_bytes()[..], &[5; 16]].concat().try_into().expect("20 bytes"))
}
/// A sender, and an object that it may send, of two chunks.
fn sender() -> (Sender, ObjectId) {
    let mut sender = Sender::new(OWN, EndConfig::default(), 0, &[0; 32]);
    let message = object("/message", 4);
    let id = message.manifest().publication_id();
    sender.publish(Box::new(message));
    (sender, id)
}
fn options() -> SendOptions {
    SendOptions::new(&EndConfig::default())
}
fn header(from: Guid, token: Token) -> ChunkHeader {
    ChunkHeader::new(ChunkKind::Transport(token), from, OWN, NetworkAddress(1))
}
fn ack(transfer: u32, object: ObjectId) -> TransportMessage {
    TransportBody::Ack { complete: true, chunks: ChunkRanges::default() }.about(transfer, object)
}
fn stored(sent: &ChunkHeader) -> TransportMessage {
    let tag = sent.tag().expect("data");
    let (flow, chunks) = (sent.flow(), ChunkRanges::from_ascending([tag.number]));
    let (proxy, address) = PROXY;
    TransportBody::Stored { flow, proxy, address, chunks }.about(tag.transfer, tag.object)
}

/// The destinations of the flows.
#[derive(Clone, Copy, PartialEq, Debug)]
enum To {
    One,
    Each,
    Group,
}

/// Flows examined for each of `count` flows over its lifetime: its chunks are stored on the way, its receiver is
/// reminded once, requests missing chunks, and completes.
fn looks_at(count: u32, to: To) -> f64 {
    let cache = ContentCache::new(ByteCount(0));
    let (mut sender, object) = sender();
    let mut now = Time::from_millis(1);
    let service = if to == To::Group { ServiceId::Multicast } else { ServiceId::Unicast };
    let options = SendOptions { service, ..options() };
    let member = Guid([4; 20]);
    let look_at_groups = |sender: &mut Sender| {
        for group in sender.take_groups(false) {
            sender.set_members(&group, &[member].into());
        }
    };
    for number in 0..count {
        let destination = if to == To::Each { guid(number) } else { guid(0) };
        sender.push(now, object, destination, Vec::new(), options).expect("room");
        look_at_groups(&mut sender);
        assert!(sender.take_destinations().is_none(), "nobody is followed for so little");
    }
    let mut tokens = BTreeMap::new();
    let mut chunks = 0;
    while let Some((sent, _)) = sender.poll_chunk(now, &cache, |_, _| true) {
        let tag = sent.tag().expect("data");
        tokens.insert((sent.destination, tag.transfer), tag.token);
        let (message, from) = (stored(&sent), header(PROXY.0, tag.token));
        assert!(!sender.is_forged(&from, &message) && sender.is_forged(&header(PROXY.0, Token(1)), &message));
        sender.handle_message(now, &from, &message);
        assert!(sender.poll_timeout().is_some());
        look_at_groups(&mut sender);
        chunks += 1;
    }
    assert_eq!((chunks, tokens.len()), (2 * count, count as usize));
    // All are due in the same moment, and for storage that has them nothing is sent again.
    now += Duration::from_secs(20);
    sender.handle_timeout(now);
    for ((destination, transfer), token) in &tokens {
        let from = if to == To::Group { member } else { *destination };
        let missing = ChunkRanges::from_ascending([1]);
        let (transfer, window, advice_chunks, sequence) = (*transfer, 0, 1, 1);
        let status = TransportBody::Status { window, advice_chunks, sequence, missing }.about(transfer, object);
        sender.handle_message(now, &header(from, *token), &status);
        look_at_groups(&mut sender);
        assert!(sender.report(transfer).is_some_and(|report| !report.is_over));
        sender.handle_message(now, &header(from, *token), &ack(transfer, object));
        look_at_groups(&mut sender);
        assert!(to == To::Group || sender.report(transfer).is_some_and(|report| report.delivered.len() == 1));
    }
    assert_eq!(sender.flows(), 0);
    sender.looks() as f64 / f64::from(count)
}

#[test]
fn as_little_is_done_for_one_of_ten_thousand_flows_as_for_one_of_ten() {
    for to in [To::One, To::Each, To::Group] {
        let few = looks_at(10, to);
        for count in [100, 1_000, 10_000] {
            let many = looks_at(count, to);
            assert!(many <= few + 1.0, "{to:?}: {few} of 10, {many} of {count}");
        }
    }
}

#[test]
fn a_round_for_which_there_is_no_room_tries_few_of_ten_thousand_flows() {
    let cache = ContentCache::new(ByteCount(0));
    let (mut sender, _) = sender();
    let now = Time::from_millis(1);
    for number in 0..10_000 {
        let message = object(&alloc::format!("/{number}"), 1 << (number % 16));
        let id = message.manifest().publication_id();
        sender.lend(Box::new(message));
        sender.push(now, id, guid(number % 2), Vec::new(), options()).expect("room");
    }
    let before = sender.looks();
    assert!(sender.poll_chunk(now, &cache, |_, _| false).is_none());
    assert!(sender.looks() - before <= 2 * 17, "{}", sender.looks() - before);
    // A chunk that fits is sent, although many larger ones precede it.
    let sent = core::iter::from_fn(|| sender.poll_chunk(now, &cache, |to, bytes| *to == guid(1) && bytes < 4));
    let sent = sent.map(|(header, _)| header.destination).collect::<Vec<Guid>>();
    assert_eq!(sent, alloc::vec![guid(1); 2 * 10_000 / 16], "objects of two bytes, in two chunks");
}

#[test]
fn all_have_their_turns_where_there_is_room_for_one_chunk_at_a_time() {
    let cache = ContentCache::new(ByteCount(0));
    let (mut sender, id) = sender();
    let now = Time::from_millis(1);
    for number in 0..30 {
        sender.push(now, id, guid(number / 3), Vec::new(), options()).expect("room");
    }
    let mut sent: BTreeMap<FlowId, u32> = BTreeMap::new();
    for round in 1..=2 {
        for _ in 0..30 {
            let (header, _) = sender.poll_chunk(now, &cache, |_, _| true).expect("there is more");
            *sent.entry((header.destination, header.tag().expect("data").transfer)).or_default() += 1;
        }
        assert!(sent.len() == 30 && sent.values().all(|chunks| *chunks == round), "{sent:?}");
    }
    assert!(sender.poll_chunk(now, &cache, |_, _| true).is_none());
}

#[test]
fn what_is_sent_under_a_name_takes_it_neither_from_what_is_published_nor_from_what_is_sent() {
    let cache = ContentCache::new(ByteCount(0));
    let (mut sender, published) = sender();
    let (name, now): (Name, _) = ("/message".parse().expect("a name"), Time::from_millis(1));
    // Readings of one sensor, all under its name.
    let mut transfers = Vec::new();
    for bytes in 10..20 {
        let reading = object("/message", bytes);
        let id = reading.manifest().publication_id();
        sender.lend(Box::new(reading));
        transfers.push((sender.push(now, id, guid(1), Vec::new(), options()).expect("room"), id));
    }
    assert_eq!((sender.by_name(&name), sender.published().count()), (Some(published), 1));
    let sent = core::iter::from_fn(|| sender.poll_chunk(now, &cache, |_, _| true)).collect::<Vec<_>>();
    assert_eq!(sent.len(), 20, "none is given up");
    for (transfer, id) in transfers {
        let token = Token::of(&[0; 32], &guid(1), transfer);
        sender.handle_message(now, &header(guid(1), token), &ack(transfer, id));
        assert!(sender.object(&id).is_none(), "nobody needs it any more");
    }
    assert!(sender.by_name(&name) == Some(published) && sender.object(&published).is_some());
}

#[test]
fn what_is_in_storage_as_a_whole_makes_room_for_what_is_sent_next() {
    let cache = ContentCache::new(ByteCount(0));
    let (mut sender, object) = sender();
    let now = Time::from_millis(1);
    let push = |sender: &mut Sender| sender.push(now, object, guid(1), Vec::new(), options());
    let first = push(&mut sender).expect("room");
    (1..PUSHED_MAX).for_each(|_| assert!(push(&mut sender).is_some()));
    assert!(push(&mut sender).is_none(), "none of them is anywhere else yet");
    for chunks_stored in 1..=2 {
        let (sent, _) = core::iter::from_fn(|| sender.poll_chunk(now, &cache, |_, _| true))
            .find(|(header, _)| header.tag().is_some_and(|tag| tag.transfer == first))
            .expect("its turn comes");
        let token = sent.token().expect("data");
        sender.handle_message(now, &header(PROXY.0, token), &stored(&sent));
        assert_eq!(push(&mut sender).is_some(), chunks_stored == 2);
    }
    let report = sender.report(first).expect("its account is kept");
    assert!(report.is_over && report.stored_chunks == report.chunks && report.delivered.is_empty());
    assert_eq!(sender.flows(), PUSHED_MAX);
}

#[test]
fn the_account_of_what_ended_last_is_kept_however_early_it_began() {
    let (mut sender, object) = sender();
    let now = Time::from_millis(1);
    let first = sender.push(now, object, guid(1), Vec::new(), options()).expect("room");
    for _ in 0..2 * ENDED_KEPT {
        let other = sender.push(now, object, guid(1), Vec::new(), options()).expect("room");
        sender.cancel(other);
    }
    sender.cancel(first);
    assert!(sender.report(first).is_some_and(|report| report.is_over));
    assert_eq!(sender.ended.len(), ENDED_KEPT);
}

#[test]
fn who_asks_under_the_number_of_something_sent_unasked_does_not_take_its_place() {
    let (mut sender, message) = sender();
    let now = Time::from_millis(1);
    let transfer = sender.push(now, message, guid(1), Vec::new(), options()).expect("room");
    sender.publish(Box::new(object("/other", 9)));
    let other = sender.by_name(&"/other".parse().expect("a name")).expect("it is published");
    for from in [guid(1), guid(0)] {
        let request = TransportBody::Request {
            chunk_bytes: 1 << 10,
            reliability: Reliability::Nack,
            buffer_chunks: 3,
            held: ChunkRanges::default(),
        }
        .about(transfer, other);
        sender.handle_request(now, &header(from, Token(7)), &request, None);
    }
    assert_eq!((sender.flows(), sender.unknown), (1, 2));
    assert_eq!(sender.report(transfer).map(|report| report.bytes), Some(u64::from(EndConfig::default().chunk_bytes)));
}

/// An object whose bytes come from a disk, one chunk for each wake-up of its node.
struct OnDisk {
    object: MemoryObject,
    begun: VecDeque<ChunkIndex>,
    /// Chunks of all objects that are being read, and their maximum so far.
    under_way: Arc<(AtomicUsize, AtomicUsize)>,
}
impl ObjectReader for OnDisk {
    fn manifest(&self) -> &Manifest {
        self.object.manifest()
    }
    fn tree(&self) -> Bytes {
        self.object.tree()
    }
    fn read_chunk(&mut self, index: ChunkIndex) -> Result<Bytes, StoreError> {
        self.object.read_chunk(index)
    }
    fn try_read(&mut self, _: ChunkIndex) -> Result<Option<Bytes>, StoreError> {
        Ok(None)
    }
    fn begin_read(&mut self, index: ChunkIndex) {
        let now = self.under_way.0.fetch_add(1, Ordering::Relaxed) + 1;
        self.under_way.1.fetch_max(now, Ordering::Relaxed);
        self.begun.push_back(index);
    }
    fn poll_read(&mut self) -> Option<(ChunkIndex, Result<Bytes, StoreError>)> {
        let index = self.begun.pop_front()?;
        self.under_way.0.fetch_sub(1, Ordering::Relaxed);
        Some((index, self.object.read_chunk(index)))
    }
}

/// `count` objects on a disk, each with some chunks, on their way to two receivers each.
fn on_disk(count: u32) -> (Sender, Vec<ObjectId>, Arc<(AtomicUsize, AtomicUsize)>) {
    let (mut sender, _) = sender();
    let (mut ids, under_way) = (Vec::new(), Arc::<(AtomicUsize, AtomicUsize)>::default());
    for number in 0..count {
        let object = object(&alloc::format!("/disk/{number}"), 3 << 20);
        ids.push(object.manifest().publication_id());
        let (begun, under_way) = (VecDeque::new(), Arc::clone(&under_way));
        sender.publish(Box::new(OnDisk { object, begun, under_way }));
        for to in [1, 2] {
            sender.push(Time::from_millis(1), ids[ids.len() - 1], guid(to), Vec::new(), options()).expect("room");
        }
    }
    (sender, ids, under_way)
}
fn send_all(sender: &mut Sender) -> usize {
    let cache = ContentCache::new(ByteCount(0));
    let mut sent = 0;
    // The disk is fast, and idle without requests.
    for _ in 0..1_000 {
        sent += core::iter::from_fn(|| sender.poll_chunk(Time::from_millis(1), &cache, |_, _| true)).count();
        sender.handle_storage();
    }
    sent
}

#[test]
fn all_that_waits_for_a_disk_is_read_in_its_turn_a_few_chunks_at_a_time() {
    let (mut sender, _, under_way) = on_disk(20);
    let chunks = 1 + (3_u32 << 20).div_ceil(EndConfig::default().chunk_bytes);
    assert_eq!(send_all(&mut sender), 20 * 2 * chunks as usize);
    let most = under_way.1.load(Ordering::Relaxed) as u64;
    let unit = u64::from(object("/x", 3 << 20).manifest().chunk_size);
    assert!(most > 1 && most * unit <= tributary_transport::catalogue::READ_BYTES_MAX, "{most} chunks at a time");
    assert_eq!(under_way.0.load(Ordering::Relaxed), 0);
}

#[test]
fn what_waits_for_an_object_that_is_withdrawn_is_given_up_and_what_is_published_anew_goes_on() {
    let cache = ContentCache::new(ByteCount(0));
    for is_withdrawn in [true, false] {
        let (mut sender, ids, under_way) = on_disk(20);
        // Descriptions go, and then all wait.
        while sender.poll_chunk(Time::from_millis(1), &cache, |_, _| true).is_some() {}
        for (number, id) in ids.iter().enumerate() {
            let name: Name = alloc::format!("/disk/{number}").parse().expect("a name");
            match is_withdrawn {
                true => assert_eq!(sender.unpublish(&name), Some(*id)),
                false => sender.publish(Box::new(OnDisk {
                    object: object(&alloc::format!("/disk/{number}"), 3 << 20),
                    begun: VecDeque::new(),
                    under_way: Arc::clone(&under_way),
                })),
            }
        }
        let chunks = (3_u32 << 20).div_ceil(EndConfig::default().chunk_bytes) as usize;
        assert_eq!(send_all(&mut sender), if is_withdrawn { 0 } else { 20 * 2 * chunks });
        assert_eq!(sender.flows(), if is_withdrawn { 0 } else { 40 });
        let notices = core::iter::from_fn(|| sender.poll_message()).count();
        assert_eq!(notices, if is_withdrawn { 40 } else { 0 }, "receivers are told");
    }
}
