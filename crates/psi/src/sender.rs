//! The source of objects (paper: publisher). It keeps no state of transfers: each request names its packets and the
//! route of the answer (paper §III-B2).
use alloc::{boxed::Box, collections::VecDeque, vec::Vec};
use core::ops::Range;

use bytes::Bytes;
use tributary_content::{Bitmap, ChunkIndex, Name, ObjectReader, StoreError, Unavailable};
use tributary_core::NodeId;
use tributary_transport::{
    catalogue::{Catalogue, WaitQueue},
    layout::{Layout, Unit},
    transfer::Holdings,
};

use crate::wire::{DataHeader, FIXED_BYTES, FLAG_UNAVAILABLE, Header, PacketType, Request, StreamKey, TTL_MAX};

/// Chunks that one request may make a source read and verify; honest requests name packets of neighbouring chunks.
const REQUEST_READS_MAX: u32 = 16;
/// The part of a chunk's packets that counts as its end.
const CHUNK_END: u32 = 8;
/// Maximum requests that wait for the disk. Further ones are dropped: their receivers repeat them.
const WAITING_MAX: usize = 256;

/// Where the answers of a [`Sender`] go: the router of the same node.
pub trait AnswerSink {
    /// Takes the Data packets of one answer out of `packets`: each its own header and payload, behind one common `header`.
    fn answer(&mut self, header: &Header, packets: &mut Vec<(DataHeader, Bytes)>);
}

tributary_core::declared! {
    /// Published objects, and the answers to requests for their packets.
    pub struct Sender {
        origin: u16 = node.0 as u16,
        pub(crate) objects: Catalogue<Cut> = Catalogue::default(),
        /// Requests answered.
        pub requests: u64 = 0,
        /// Packets sent.
        pub packets: u64 = 0,
        /// Requests for objects that are not published here.
        pub unknown_objects: u64 = 0,
        /// The answer that is being put together.
        answer: Vec<(DataHeader, Bytes)> = Vec::new(),
        /// The first packet, within the current request, of a chunk that is not here yet.
        not_yet: Option<u32> = None,
        /// Whether receivers of the object of that request hear which chunks are here, or were given.
        has_news: bool = false,
        /// Requests, or their unanswered rest, whose chunks are being read, in order of arrival.
        pub(crate) waiting: WaitQueue<Request> = WaitQueue::new(WAITING_MAX),
    }
    /// A source in `node` without objects.
    pub fn new(node: NodeId) {}
}

/// How an object is cut into packets.
pub(crate) struct Cut {
    tree: Bytes,
    /// Whether the object is still being fetched.
    is_arriving: bool,
    /// The capability of the last request: another one is of another receiver or path.
    asked_by: Option<[u8; 8]>,
    /// The chunks given of a complete object; `None` before a second receiver asks. Receivers learn them, so that they
    /// take different chunks from here and the others from each other.
    given: Option<Given>,
    /// The layout for the last requested packet size, and its stream.
    layout: Option<Layout>,
    stream: StreamKey,
}

impl Sender {
    /// Offers an object; an older one of the same name is dropped.
    pub fn publish(&mut self, reader: Box<dyn ObjectReader>) {
        let stream = StreamKey::new(&reader.manifest().object_id(), 0);
        let cut = Cut {
            tree: reader.tree(),
            is_arriving: reader.held().is_some(),
            asked_by: None,
            given: None,
            layout: None,
            stream,
        };
        if !self.objects.publish(reader, cut).is_empty() {
            // Reads of a removed reader never end; receivers retransmit their requests.
            self.waiting.take();
        }
    }
    /// Withdraws a name; false if it is not published.
    pub fn unpublish(&mut self, name: &Name) -> bool {
        let withdrawn = self.objects.withdraw(name).is_some();
        if withdrawn {
            self.waiting.take();
        }
        withdrawn
    }
    /// Whether a name is published and its object is still being fetched.
    pub fn is_arriving(&self, name: &Name) -> bool {
        let object = self.objects.by_name(name).and_then(|object| self.objects.get(&object));
        object.is_some_and(|published| published.state.is_arriving)
    }
    /// Answers a request: at most [`crate::wire::REQUEST_PACKETS_MAX`] packets. Nonexistent packets are skipped.
    pub fn handle_request(&mut self, request: &Request, sink: &mut impl AnswerSink) {
        self.requests += 1;
        // Requests of one receiver over one path are answered in order: it counts gaps as losses.
        let waits = self.waiting.iter().any(|other| is_same_flow(other, request));
        let rest = if waits { Some(request.clone()) } else { self.answer(request, sink) };
        if let Some(rest) = rest {
            self.waiting.push(rest);
        }
    }
    /// Answers requests whose chunks have been read since.
    pub fn handle_storage(&mut self, sink: &mut impl AnswerSink) {
        if !self.objects.is_reading() {
            return;
        }
        let taken = self.objects.take_read();
        for request in self.waiting.take() {
            let waits = self.waiting.iter().any(|other| is_same_flow(other, &request));
            if let Some(rest) = if waits { Some(request) } else { self.answer(&request, sink) } {
                self.waiting.push(rest);
            }
        }
        self.objects.forget_read(&taken);
    }
    /// Answers a request as far as possible without waiting for a disk; returns the unanswered part.
    fn answer(&mut self, request: &Request, sink: &mut impl AnswerSink) -> Option<Request> {
        let outcome = self.collect(request);
        self.packets += self.answer.len() as u64;
        let lacking = self.not_yet.take();
        // Before the data: afterwards it would make the other packets look lost.
        lacking.into_iter().for_each(|packet| self.advertise_holdings(request, packet, sink));
        let last = self.answer.last().map(|(header, _)| header.packet);
        if !self.answer.is_empty() {
            let header = Header { packet_type: PacketType::Data, flags: 0, ttl: TTL_MAX, fid: request.forward };
            sink.answer(&header, &mut self.answer);
            self.answer.clear();
        }
        let is_news = |packet: &u32| self.has_news && lacking.is_none() && self.is_turn_to_advertise(request, *packet);
        last.filter(is_news).into_iter().for_each(|packet| self.advertise_holdings(request, packet, sink));
        outcome.unwrap_or_else(|(packet, why)| {
            if let Some(why) = why {
                self.notify(request, packet, &[why.number()], sink);
            }
            None
        })
    }
    /// Whether the answer to a request is followed by this node's holdings of the object: `last` of its packets is one of
    /// the last of a chunk, when the receiver is about to choose its next one, or the only one, as of a receiver that
    /// polls.
    fn is_turn_to_advertise(&self, request: &Request, last: u32) -> bool {
        let Some(layout) = self.objects.get(&request.object).and_then(|published| published.state.layout.as_ref())
        else {
            return false;
        };
        let ends = |(unit, ..): (Unit, u32, u32)| {
            let (first, end) = layout.packets(unit);
            Layout::chunk_of(unit).is_some() && last + 1 + (end - first) / CHUNK_END >= end
        };
        matches!(request.ranges[..], [(_, 1)]) || layout.locate(last).is_some_and(ends)
    }
    /// Sends this node's holdings of an object that it is still fetching, or which chunks of a complete one it has given.
    fn advertise_holdings(&mut self, request: &Request, packet: u32, sink: &mut impl AnswerSink) {
        let Some(published) = self.objects.get(&request.object) else { return };
        let (what, chunks) = match (published.reader().held(), &published.state.given) {
            (Some(held), _) => (Unavailable::NotYet.number(), held),
            (None, Some(given)) => (GIVEN, given.chunks()),
            (None, None) => return,
        };
        let located = published.state.layout.as_ref().and_then(|layout| layout.locate(packet));
        let requested = located.and_then(|(unit, ..)| Layout::chunk_of(unit)).map_or(0, |index| index.0);
        let notice = holdings_notice(what, &chunks, published.reader().manifest().chunk_count(), requested);
        self.notify(request, packet, &notice, sink);
    }
    /// Sends a notice about a packet instead of it.
    fn notify(&mut self, request: &Request, packet: u32, notice: &[u8], sink: &mut impl AnswerSink) {
        let reason = Bytes::copy_from_slice(notice);
        let stream = StreamKey::new(&request.object, request.packet_bytes);
        let notice = DataHeader { tag: request.tag, packet, stream, origin: self.origin };
        let (packet_type, fid) = (PacketType::Data, request.forward);
        let header = Header { packet_type, flags: FLAG_UNAVAILABLE, ttl: TTL_MAX, fid };
        sink.answer(&header, &mut alloc::vec![(notice, reason)]);
    }
    /// Collects the packets of `request` up to a chunk that must be read first; returns the part from there on.
    ///
    /// # Errors
    /// The first packet that cannot be read, and why; `None` if it may be later.
    fn collect(&mut self, request: &Request) -> Result<Option<Request>, (u32, Option<Unavailable>)> {
        self.has_news = false;
        let Some((published, recent)) = self.objects.open(&request.object) else {
            self.unknown_objects += 1;
            return Ok(None);
        };
        if published.state.layout.as_ref().is_none_or(|layout| layout.packet_bytes() != request.packet_bytes) {
            published.state.layout = Layout::exact(published.reader().manifest(), request.packet_bytes);
            // The stream of the bytes, for any id in the request: later answers carry it too.
            let object = published.reader().manifest().object_id();
            published.state.stream = StreamKey::new(&object, request.packet_bytes);
        }
        let chunks = published.reader().manifest().chunk_count();
        published.state.note_receiver(request.capability, chunks);
        self.has_news = published.state.is_arriving || published.state.given.is_some();
        let Some(layout) = published.state.layout.clone() else { return Ok(None) };
        let (tag, stream, origin) = (request.tag, published.state.stream, self.origin);
        let mut open: Option<(Unit, Bytes)> = None;
        let (mut reads, mut lacking) = (0, None);
        let packets = request.ranges.iter().flat_map(|&(first, count)| first..first + u32::from(count));
        for (at, packet) in packets.enumerate() {
            let Some((unit, offset, len)) = layout.locate(packet) else { continue };
            if lacking == Some(unit) {
                continue;
            }
            if open.as_ref().is_none_or(|(opened, _)| *opened != unit) {
                reads += 1;
                if reads > REQUEST_READS_MAX {
                    return Ok(None);
                }
                match published.unit(unit, recent, |cut| &cut.tree) {
                    Ok(Some(bytes)) => open = Some((unit, bytes)),
                    Ok(None) => {
                        let rest = Request { ranges: without_first(&request.ranges, at), ..request.clone() };
                        if let Some(index) = Layout::chunk_of(unit) {
                            self.objects.begin_read(&request.object, index);
                        }
                        return Ok(Some(rest));
                    }
                    Err(StoreError::NotYet { .. }) => {
                        self.not_yet.get_or_insert(packet);
                        lacking = Some(unit);
                        continue;
                    }
                    Err(error) => {
                        return Err((packet, self.objects.on_failure(&request.object, error)));
                    }
                }
            }
            let Some((_, bytes)) = &open else { continue };
            if let (Some(given), Some(index)) = (&mut published.state.given, Layout::chunk_of(unit)) {
                given.note(index, layout.packets(unit).1 == packet + 1);
            }
            let payload = bytes.slice(offset as usize..(offset + len) as usize);
            self.answer.push((DataHeader { tag, packet, stream, origin }, payload));
        }
        Ok(None)
    }
}

impl Cut {
    /// An object of `chunks` chunks is requested with `capability`.
    fn note_receiver(&mut self, capability: [u8; 8], chunks: u32) {
        let is_another = self.asked_by.replace(capability).is_some_and(|last| last != capability);
        if is_another && !self.is_arriving && self.given.is_none() {
            self.given = Some(Given { whole: Bitmap::new(chunks), begun: VecDeque::new() });
        }
    }
}

/// The chunks of an object that a source has given.
struct Given {
    /// Chunks whose last packet was sent; emptied once all were.
    whole: Bitmap,
    /// Chunks that it began last. A receiver may leave one unfinished, which must be given again.
    begun: VecDeque<u32>,
}

/// Chunks that are taken to be under way.
const BEGUN_MAX: usize = 16;

impl Given {
    fn note(&mut self, index: ChunkIndex, is_last: bool) {
        if self.begun.back() != Some(&index.0) && !self.begun.contains(&index.0) {
            self.begun.push_back(index.0);
            if self.begun.len() > BEGUN_MAX {
                self.begun.pop_front();
            }
        }
        if is_last {
            self.whole.set(index);
            if self.whole.is_full() {
                self.whole = Bitmap::new(self.whole.len());
            }
        }
    }
    fn chunks(&self) -> Vec<Range<u32>> {
        let mut all = self.whole.clone();
        self.begun.iter().for_each(|index| _ = all.set(*index));
        all.set_ranges().collect()
    }
}

/// In place of a reason: the source has the whole object, and has given these chunks.
pub(crate) const GIVEN: u8 = 5;

/// The notice of a source that is still fetching the object: the reason, and which chunks it has. Of a complete one:
/// [`GIVEN`], and which chunks it has given.
/// ```text
/// reason 1 | first chunk 4 | a bit per chunk from there on, the first one in the highest bit
/// ```
/// For an object of up to [`HELD_CHUNKS_MAX`] chunks the notice covers the whole object, for a larger one the chunks
/// from the requested one on.
fn holdings_notice(what: u8, held: &[Range<u32>], chunks: u32, requested: u32) -> Vec<u8> {
    let first = if chunks <= HELD_CHUNKS_MAX { 0 } else { requested };
    let count = chunks.saturating_sub(first).clamp(1, HELD_CHUNKS_MAX);
    let mut bits = Bitmap::new(count);
    for chunk in held.iter().flat_map(|range| range.start.max(first)..range.end.min(first + count)) {
        bits.set(chunk - first);
    }
    let mut notice = alloc::vec![what];
    notice.extend_from_slice(&first.to_be_bytes());
    notice.extend(bits.encode().into_iter().map(u8::reverse_bits));
    notice
}
/// The chunks in the notice of a source; `None` if it is malformed.
pub(crate) fn holdings_of(notice: &[u8]) -> Option<Holdings> {
    let (first, bits) = notice.get(1..)?.split_first_chunk::<4>()?;
    let first = u32::from_be_bytes(*first);
    let count = u32::try_from(bits.len()).ok()?.checked_mul(8)?;
    let window = first..first.checked_add(count).filter(|_| (1..=HELD_CHUNKS_MAX).contains(&count))?;
    let bits: Vec<u8> = bits.iter().map(|byte| byte.reverse_bits()).collect();
    let held = Bitmap::decode(count, &bits).ok()?;
    Some(Holdings { window, held: held.set_ranges().map(|run| first + run.start..first + run.end).collect() })
}
/// Maximum chunks covered by one notice: with them it fits the smallest packet.
const HELD_CHUNKS_MAX: u32 = 4_096;

/// Whether two requests are of one receiver, for one object, over one path.
fn is_same_flow(one: &Request, other: &Request) -> bool {
    one.object == other.object && one.forward == other.forward && one.tag >> 16 == other.tag >> 16
}
/// Runs without their first `count` packets.
fn without_first(ranges: &[(u32, u8)], count: usize) -> Vec<(u32, u8)> {
    let mut left = u32::try_from(count).unwrap_or(u32::MAX);
    let mut rest = Vec::with_capacity(ranges.len());
    for &(first, packets) in ranges {
        let skipped = left.min(u32::from(packets));
        left -= skipped;
        if skipped < u32::from(packets) {
            rest.push((first + skipped, packets - skipped as u8));
        }
    }
    rest
}

/// Bytes of a Data packet before its payload, on a route whose forward FID has `fid_bytes`.
pub fn data_overhead(fid_bytes: usize) -> usize {
    FIXED_BYTES + fid_bytes + DataHeader::BYTES
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of ranges are what this is about")]
mod tests {
    use super::*;
    use crate::wire::Fid;
    use alloc::vec;
    use core::sync::atomic::Ordering;
    use tributary_content::{MemoryObject, ObjectKind, SigningKey};
    use tributary_testkit::OnDisk;

    #[derive(Default)]
    struct Answers(Vec<(u32, u32, usize)>);
    impl AnswerSink for Answers {
        fn answer(&mut self, _: &Header, packets: &mut Vec<(DataHeader, Bytes)>) {
            self.0.extend(packets.drain(..).map(|(header, bytes)| (header.tag, header.packet, bytes.len())));
        }
    }

    #[test]
    fn who_waits_for_the_disk_is_answered_in_order_and_others_at_once() {
        let key = SigningKey::from_secret(&[1; 32]);
        let name = "/x".parse().expect("a name");
        let bytes: Vec<u8> = (0..4096u32).map(|at| at as u8).collect();
        let object = MemoryObject::with_options(name, bytes, &key, 1, ObjectKind::File, 2048).expect("legal");
        let id = object.manifest().object_id();
        let (object, goes_on) = OnDisk::new(object, 1);
        let mut sender = Sender::new(NodeId(1));
        sender.publish(Box::new(object));
        let request = |flow: u32, number: u32, ranges| Request {
            tag: flow << 16 | number,
            object: id,
            packet_bytes: 1024,
            capability: [0; 8],
            forward: Fid::NONE,
            ranges,
        };
        let mut sink = Answers::default();
        // Two packets of each chunk; the second chunk must be read.
        sender.handle_request(&request(1, 1, vec![(0, 3)]), &mut sink);
        assert_eq!(sink.0, [(1 << 16 | 1, 0, 1024), (1 << 16 | 1, 1, 1024)]);
        sink.0.clear();
        sender.handle_request(&request(1, 2, vec![(0, 1)]), &mut sink);
        assert_eq!(sink.0, [], "it would overtake what was asked for before");
        sender.handle_request(&request(2, 1, vec![(1, 1), (3, 1)]), &mut sink);
        assert_eq!(sink.0, [(2 << 16 | 1, 1, 1024)]);
        sink.0.clear();
        sender.handle_storage(&mut sink);
        assert_eq!(sink.0, [], "nothing was read");
        goes_on.store(true, Ordering::Relaxed);
        sender.handle_storage(&mut sink);
        let reported: Vec<(u32, u32)> = sink.0.iter().map(|(tag, packet, _)| (*tag, *packet)).collect();
        assert_eq!(reported, [(1 << 16 | 1, 2), (1 << 16 | 2, 0), (2 << 16 | 1, 3)]);
        assert!(sender.waiting.is_empty());
        assert_eq!(without_first(&[(5, 3), (20, 2)], 4), [(21, 1)]);
    }

    /// Two chunks of four, and no others.
    struct Arriving(MemoryObject);
    impl ObjectReader for Arriving {
        fn manifest(&self) -> &tributary_content::Manifest {
            self.0.manifest()
        }
        fn tree(&self) -> Bytes {
            self.0.tree()
        }
        fn read_chunk(&mut self, index: ChunkIndex) -> Result<Bytes, StoreError> {
            match index.0 {
                0 | 3 => self.0.read_chunk(index),
                chunk => Err(StoreError::NotYet { chunk }),
            }
        }
        fn held(&self) -> Option<Vec<Range<u32>>> {
            Some(vec![0..1, 3..4])
        }
    }

    #[test]
    fn what_is_here_is_given_while_the_rest_arrives_and_who_asks_for_that_hears_what_is_here() {
        let key = SigningKey::from_secret(&[1; 32]);
        let name = "/x".parse().expect("a name");
        let object = MemoryObject::with_options(name, vec![1; 8192], &key, 1, ObjectKind::File, 2048).expect("legal");
        let id = object.manifest().object_id();
        let mut sender = Sender::new(NodeId(1));
        sender.publish(Box::new(Arriving(object)));
        let (capability, forward, ranges) = ([0; 8], Fid::NONE, vec![(0, 8)]);
        let request = Request { tag: 7, object: id, packet_bytes: 1024, capability, forward, ranges };
        let mut sink = Notices::default();
        sender.handle_request(&request, &mut sink);
        assert_eq!(sink.1, 4, "two chunks of two packets each");
        // Golden: chunks 0 and 3 of four.
        assert_eq!(sink.0, [(7, 2, vec![4, 0, 0, 0, 0, 0b1001_0000])], "one for the request, before the data");
        assert_eq!(holdings_of(&sink.0[0].2), Some(Holdings { window: 0..8, held: vec![0..1, 3..4] }));
        assert!(sender.objects.poll_failure().is_none(), "nothing is amiss");
        // A receiver of present chunks gets the list at the end of each chunk, and after a request for one packet.
        for (ranges, notices) in [(vec![(0, 1)], 1), (vec![(0, 2)], 1), (vec![(6, 2)], 1), (vec![(7, 1)], 1)] {
            let (capability, forward) = ([0; 8], Fid::NONE);
            let (mut sink, packets) = (Notices::default(), usize::from(ranges[0].1));
            let request = Request { tag: 8, object: id, packet_bytes: 1024, capability, forward, ranges };
            sender.handle_request(&request, &mut sink);
            assert_eq!((sink.0.len(), sink.1), (notices, packets));
        }
    }

    #[test]
    fn lists_of_what_is_held_are_read_as_they_are_written_and_what_makes_no_sense_is_no_list() {
        let small = holdings_notice(Unavailable::NotYet.number(), &[1..3, 9..10], 11, 5);
        assert_eq!(small, [4, 0, 0, 0, 0, 0b0110_0000, 0b0100_0000]);
        assert_eq!(holdings_of(&small), Some(Holdings { window: 0..16, held: vec![1..3, 9..10] }));
        let large =
            holdings_notice(Unavailable::NotYet.number(), &[0..100, 70_000..70_002, 80_000..99_000], 100_000, 69_999);
        assert_eq!((large.len(), &large[..6]), (5 + 512, &[4, 0, 1, 0x11, 0x6f, 0b0110_0000][..]));
        assert_eq!(holdings_of(&large), Some(Holdings { window: 69_999..74_095, held: vec![70_000..70_002] }));
        let last = holdings_notice(Unavailable::NotYet.number(), &[99_999..100_000], 100_000, 99_999);
        assert_eq!(last[5..], [0b1000_0000]);
        let of = |first: u32, bytes: usize| {
            holdings_of(&[&[4][..], &first.to_be_bytes()[..], &vec![1u8; bytes][..]].concat())
        };
        assert!(of(7, 512).is_some());
        assert_eq!((of(0, 0), of(0, 513), of(u32::MAX - 8, 2)), (None, None, None));
        assert_eq!((holdings_of(&[]), holdings_of(&[4, 0, 0])), (None, None));
    }

    /// Notices: tag, packet and payload.
    #[derive(Default)]
    struct Notices(Vec<(u32, u32, Vec<u8>)>, usize);
    impl AnswerSink for Notices {
        fn answer(&mut self, header: &Header, packets: &mut Vec<(DataHeader, Bytes)>) {
            match header.flags {
                FLAG_UNAVAILABLE => {
                    self.0.extend(packets.drain(..).map(|(header, bytes)| (header.tag, header.packet, bytes.to_vec())));
                }
                _ => self.1 += packets.drain(..).count(),
            }
        }
    }

    #[test]
    fn who_asks_for_what_was_changed_is_told_so_by_one_short_packet_a_request_and_this_node_once() {
        let key = SigningKey::from_secret(&[1; 32]);
        let name = "/x".parse().expect("a name");
        let object = MemoryObject::with_options(name, vec![1; 4096], &key, 1, ObjectKind::File, 2048);
        let mut object = object.expect("legal");
        object.alter(|bytes| bytes[3000] = 2);
        let id = object.manifest().object_id();
        let mut sender = Sender::new(NodeId(1));
        sender.publish(Box::new(object));
        let mut sink = Notices::default();
        for tag in [7, 8] {
            let (capability, forward, ranges) = ([0; 8], Fid::NONE, vec![(0, 4)]);
            let request = Request { tag, object: id, packet_bytes: 1024, capability, forward, ranges };
            sender.handle_request(&request, &mut sink);
        }
        assert_eq!(sink.0, [(7, 2, vec![1]), (8, 2, vec![1])]);
        assert_eq!(sink.1, 4, "what is right is given");
        assert!(sender.objects.poll_failure().is_some() && sender.objects.poll_failure().is_none());
    }

    /// Receivers recognise answers by the stream of the bytes. A request by the publication's id, which is public as
    /// well, changes nothing for them.
    #[test]
    fn answers_are_of_the_stream_of_the_bytes_by_whichever_id_they_were_requested() {
        #[derive(Default)]
        struct Streams(Vec<StreamKey>);
        impl AnswerSink for Streams {
            fn answer(&mut self, _: &Header, packets: &mut Vec<(DataHeader, Bytes)>) {
                self.0.extend(packets.drain(..).map(|(header, _)| header.stream));
            }
        }
        let key = SigningKey::from_secret(&[1; 32]);
        let name = "/x".parse().expect("a name");
        let object = MemoryObject::with_options(name, vec![1; 4096], &key, 1, ObjectKind::File, 2048).expect("legal");
        let ids = [object.manifest().publication_id(), object.manifest().object_id()];
        let mut sender = Sender::new(NodeId(1));
        sender.publish(Box::new(object));
        let mut sink = Streams::default();
        for (tag, object) in (1..).zip(ids) {
            let (capability, forward, ranges) = ([0; 8], Fid::NONE, vec![(0, 1)]);
            sender.handle_request(&Request { tag, object, packet_bytes: 1024, capability, forward, ranges }, &mut sink);
        }
        assert_eq!(sink.0, [StreamKey::new(&ids[1], 1024); 2]);
    }

    #[test]
    fn requests_that_wait_are_bounded() {
        let key = SigningKey::from_secret(&[1; 32]);
        let name = "/x".parse().expect("a name");
        let object = MemoryObject::with_options(name, vec![1; 4096], &key, 1, ObjectKind::File, 2048).expect("legal");
        let id = object.manifest().object_id();
        let mut sender = Sender::new(NodeId(1));
        sender.publish(Box::new(OnDisk::new(object, 1).0));
        let mut sink = Answers::default();
        for tag in 0..WAITING_MAX as u32 + 5 {
            let ranges = vec![(2, 1)];
            let (capability, forward) = ([0; 8], Fid::NONE);
            let request = Request { tag: tag << 16, object: id, packet_bytes: 1024, capability, forward, ranges };
            sender.handle_request(&request, &mut sink);
        }
        assert_eq!((sender.waiting.len(), sender.waiting.drops), (WAITING_MAX, 5));
    }

    #[test]
    fn what_was_given_to_several_is_told_until_all_was_given() {
        let mut given = Given { whole: Bitmap::new(40), begun: VecDeque::new() };
        given.note(ChunkIndex(3), false);
        given.note(ChunkIndex(5), true);
        assert_eq!(given.chunks(), [3..4, 5..6]);
        for index in 10..26 {
            given.note(ChunkIndex(index), true);
        }
        assert_eq!(given.chunks(), [5..6, 10..26], "whoever began with 3 may have gone away");
        (0..40).for_each(|index| given.note(ChunkIndex(index), true));
        assert_eq!(given.chunks(), [24..40], "it begins anew, and these may be under way");
    }
    #[test]
    fn only_several_receivers_are_told_what_was_given() {
        let key = SigningKey::from_secret(&[1; 32]);
        let bytes = vec![3; 8 << 10];
        let name: Name = "/x".parse().expect("a name");
        let object = MemoryObject::with_options(name, bytes, &key, 1, ObjectKind::File, 2048).expect("legal");
        let id = object.manifest().object_id();
        let mut sender = Sender::new(NodeId(1));
        sender.publish(Box::new(object));
        let mut ask = |receiver: u8, chunk: u32| {
            let (capability, forward, ranges) = ([receiver; 8], Fid::NONE, vec![(2 * chunk, 2)]);
            let request = Request { tag: 1, object: id, packet_bytes: 1024, capability, forward, ranges };
            let mut answers = Notices::default();
            sender.handle_request(&request, &mut answers);
            answers.0.into_iter().map(|(.., notice)| notice).collect::<Vec<_>>()
        };
        assert_eq!((ask(1, 0), ask(1, 1)), (Vec::new(), Vec::new()));
        let notices: Vec<Holdings> = ask(2, 2).iter().filter_map(|notice| holdings_of(notice)).collect();
        assert_eq!(notices, [Holdings { window: 0..8, held: vec![2..3] }]);
        assert_eq!(holdings_of(&ask(1, 3)[0]).expect("a list").held, [2..4]);
    }
}
