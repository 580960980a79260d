//! The source of objects (paper: publisher). It keeps no state of transfers: each request says which packets it wants
//! and which route the answer takes (paper §III-B2).
use alloc::{
    boxed::Box,
    collections::{BTreeMap, VecDeque},
    string::{String, ToString},
    vec::Vec,
};

use bytes::Bytes;
use tributary_content::{ChunkIndex, Name, ObjectId, ObjectReader, StoreError, Unavailable};
use tributary_core::{ByteCount, NodeId};
use tributary_transport::{
    layout::{Layout, Unit},
    served::Served,
};

use crate::wire::{DataHeader, FIXED_BYTES, FLAG_UNAVAILABLE, Header, PacketType, Request, StreamKey, TTL_MAX};

/// Chunks that one request may make a source read and verify; honest requests name packets of neighbouring chunks.
const REQUEST_READS_MAX: u32 = 16;
/// Requests that wait for the disk at most. Further ones are dropped: their receivers repeat them.
const WAITING_MAX: usize = 256;

/// Where the answers of a [`Sender`] go: the router of the same node.
pub trait AnswerSink {
    /// Takes the Data packets of one answer out of `packets`: each its own header and payload, behind one common `header`.
    fn answer(&mut self, header: &Header, packets: &mut Vec<(DataHeader, Bytes)>);
}

/// Published objects, and the answers to requests for their packets.
pub struct Sender {
    origin: u16,
    objects: BTreeMap<ObjectId, Published>,
    by_name: BTreeMap<Name, ObjectId>,
    failures: VecDeque<(Name, StoreError)>,
    /// Requests answered.
    pub requests: u64,
    /// Packets sent.
    pub packets: u64,
    /// Requests for objects that are not published here.
    pub unknown_objects: u64,
    /// The answer that is being put together.
    answer: Vec<(DataHeader, Bytes)>,
    /// Requests, or their unanswered rest, whose chunks are being read, in order of arrival.
    waiting: VecDeque<Request>,
    /// Whether chunks of any object are being read.
    is_reading: bool,
    /// Requests that were dropped because too many waited.
    pub waiting_drops: u64,
}

struct Published {
    object: Served,
    tree: Bytes,
    /// The layout for the last requested packet size.
    layout: Option<Layout>,
    stream: StreamKey,
    /// The error of the last read; reported once.
    failed: Option<String>,
}

impl Sender {
    /// A source in `node` without objects.
    pub fn new(node: NodeId) -> Sender {
        Sender {
            origin: node.0 as u16,
            objects: BTreeMap::new(),
            by_name: BTreeMap::new(),
            failures: VecDeque::new(),
            requests: 0,
            packets: 0,
            unknown_objects: 0,
            answer: Vec::new(),
            waiting: VecDeque::new(),
            is_reading: false,
            waiting_drops: 0,
        }
    }
    /// Offers an object; an older one of the same name is dropped.
    pub fn publish(&mut self, reader: Box<dyn ObjectReader>) {
        let (name, object) = (reader.manifest().name.clone(), reader.manifest().object_id());
        if let Some(old) = self.by_name.insert(name, object)
            && old != object
        {
            self.objects.remove(&old);
        }
        let tree = reader.tree();
        let stream = StreamKey::new(&object, 0);
        self.objects
            .insert(object, Published { object: Served::new(reader), tree, layout: None, stream, failed: None });
    }
    /// Withdraws a name; false if it is not published.
    pub fn unpublish(&mut self, name: &Name) -> bool {
        let object = self.by_name.remove(name);
        object.is_some_and(|object| self.objects.remove(&object).is_some())
    }
    /// Names and sizes of all objects.
    pub fn published(&self) -> impl Iterator<Item = (&Name, ByteCount)> {
        self.by_name.iter().map(|(name, object)| {
            let size = self.objects.get(object).map_or(0, |published| published.object.reader().manifest().size);
            (name, ByteCount(size))
        })
    }
    /// The encoded manifest of a name.
    pub fn manifest(&self, name: &Name) -> Option<Vec<u8>> {
        let object = self.by_name.get(name)?;
        self.objects.get(object).map(|published| published.object.reader().manifest().encode())
    }
    /// Answers a request: at most [`crate::wire::REQUEST_PACKETS_MAX`] packets. What does not exist is passed over.
    pub fn handle_request(&mut self, request: &Request, sink: &mut impl AnswerSink) {
        self.requests += 1;
        // Requests of one receiver over one path are answered in order: it takes gaps for losses.
        let waits = self.waiting.iter().any(|other| is_same_flow(other, request));
        let rest = if waits { Some(request.clone()) } else { self.answer(request, sink) };
        let Some(rest) = rest else { return };
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(rest);
        } else {
            self.waiting_drops += 1;
        }
    }
    /// Answers requests whose chunks were read meanwhile.
    pub fn handle_storage(&mut self, sink: &mut impl AnswerSink) {
        if !self.is_reading {
            return;
        }
        self.objects.values_mut().for_each(|published| drop(published.object.take_read()));
        self.is_reading = self.objects.values().any(|published| published.object.bytes_under_way() > 0);
        let mut still: VecDeque<Request> = VecDeque::new();
        for request in core::mem::take(&mut self.waiting) {
            let waits = still.iter().any(|other| is_same_flow(other, &request));
            still.extend(if waits { Some(request) } else { self.answer(&request, sink) });
        }
        self.waiting = still;
        self.objects.values_mut().for_each(|published| published.object.forget_read());
    }
    /// Answers a request as far as possible without waiting for a disk; returns the rest.
    fn answer(&mut self, request: &Request, sink: &mut impl AnswerSink) -> Option<Request> {
        let outcome = self.collect(request);
        self.packets += self.answer.len() as u64;
        if !self.answer.is_empty() {
            let header = Header { packet_type: PacketType::Data, flags: 0, ttl: TTL_MAX, fid: request.forward };
            sink.answer(&header, &mut self.answer);
            self.answer.clear();
        }
        outcome.unwrap_or_else(|(packet, why)| {
            if let Some(why) = why {
                self.refuse(request, packet, why, sink);
            }
            None
        })
    }
    /// Reports to the receiver that a packet is unavailable and why, by one packet that is shorter than its request.
    fn refuse(&mut self, request: &Request, packet: u32, why: Unavailable, sink: &mut impl AnswerSink) {
        let stream = StreamKey::new(&request.object, request.packet_bytes);
        let notice = DataHeader { tag: request.tag, packet, stream, origin: self.origin };
        let (packet_type, fid) = (PacketType::Data, request.forward);
        let header = Header { packet_type, flags: FLAG_UNAVAILABLE, ttl: TTL_MAX, fid };
        let reason = Bytes::copy_from_slice(&[why.number()]);
        sink.answer(&header, &mut alloc::vec![(notice, reason)]);
    }
    /// Puts together what there is of `request`, up to a chunk that has to be waited for: then gives the rest.
    ///
    /// # Errors
    /// The first packet that cannot be read, and why; `None` if it may be later.
    fn collect(&mut self, request: &Request) -> Result<Option<Request>, (u32, Option<Unavailable>)> {
        let Some(published) = self.objects.get_mut(&request.object) else {
            self.unknown_objects += 1;
            return Ok(None);
        };
        if published.layout.as_ref().is_none_or(|layout| layout.packet_bytes() != request.packet_bytes) {
            published.layout = Layout::exact(published.object.reader().manifest(), request.packet_bytes);
            published.stream = StreamKey::new(&request.object, request.packet_bytes);
        }
        let Some(layout) = published.layout.as_ref() else { return Ok(None) };
        let (tag, stream, origin) = (request.tag, published.stream, self.origin);
        let mut open: Option<(Unit, Bytes)> = None;
        let mut reads = 0;
        let packets = request.ranges.iter().flat_map(|&(first, count)| first..first + u32::from(count));
        for (at, packet) in packets.enumerate() {
            let Some((unit, offset, len)) = layout.locate(packet) else { continue };
            if open.as_ref().is_none_or(|(opened, _)| *opened != unit) {
                reads += 1;
                if reads > REQUEST_READS_MAX {
                    return Ok(None);
                }
                let bytes = match Layout::chunk_of(unit) {
                    None => Ok(Some(published.tree.clone())),
                    Some(index) => published.object.chunk(index),
                };
                match bytes {
                    Ok(Some(bytes)) => open = Some((unit, bytes)),
                    Ok(None) => {
                        let rest = Request { ranges: without_first(&request.ranges, at), ..request.clone() };
                        if let Some(index) = Layout::chunk_of(unit) {
                            self.begin_read(&request.object, index);
                        }
                        return Ok(Some(rest));
                    }
                    Err(error) => {
                        let (reason, why) = (error.to_string(), Unavailable::of(&error));
                        if published.failed.as_ref() != Some(&reason) {
                            published.failed = Some(reason);
                            self.failures.push_back((published.object.reader().manifest().name.clone(), error));
                        }
                        return Err((packet, why));
                    }
                }
            }
            let Some((_, bytes)) = &open else { continue };
            let payload = bytes.slice(offset as usize..(offset + len) as usize);
            self.answer.push((DataHeader { tag, packet, stream, origin }, payload));
        }
        Ok(None)
    }
    fn begin_read(&mut self, object: &ObjectId, index: ChunkIndex) {
        let under_way = self.objects.values().map(|published| published.object.bytes_under_way()).sum();
        if let Some(published) = self.objects.get_mut(object) {
            published.object.begin(index, under_way);
            self.is_reading = true;
        }
    }
    /// An object that could not be read, and why; each failure once.
    pub fn poll_failure(&mut self) -> Option<(Name, StoreError)> {
        self.failures.pop_front()
    }
}

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
        // Two packets of each chunk; the second chunk has to be read.
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
        assert!(sender.poll_failure().is_some() && sender.poll_failure().is_none());
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
        assert_eq!((sender.waiting.len(), sender.waiting_drops), (WAITING_MAX, 5));
    }
}
