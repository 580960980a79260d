//! The source of objects (paper: publisher). It keeps no state of transfers: each request says which packets it wants
//! and which route the answer takes (paper §III-B2).
use alloc::{
    boxed::Box,
    collections::{BTreeMap, VecDeque},
    string::{String, ToString},
    vec::Vec,
};

use bytes::Bytes;
use tributary_content::{Name, ObjectId, ObjectReader, StoreError};
use tributary_core::{ByteCount, NodeId};
use tributary_transport::layout::{Layout, Unit};

use crate::wire::{DataHeader, FIXED_BYTES, Header, PacketType, Request, StreamKey, TTL_MAX};

/// Chunks that one request may make a source read and verify; honest requests name packets of neighbouring chunks.
const REQUEST_READS_MAX: u32 = 16;

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
}

struct Published {
    reader: Box<dyn ObjectReader>,
    tree: Bytes,
    /// The layout for the packet size that was asked for last.
    layout: Option<Layout>,
    stream: StreamKey,
    /// What went wrong when it was last read; told once.
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
        self.objects.insert(object, Published { reader, tree, layout: None, stream, failed: None });
    }
    /// Withdraws a name; false if it is not published.
    pub fn unpublish(&mut self, name: &Name) -> bool {
        let object = self.by_name.remove(name);
        object.is_some_and(|object| self.objects.remove(&object).is_some())
    }
    /// Names and sizes of all objects.
    pub fn published(&self) -> impl Iterator<Item = (&Name, ByteCount)> {
        self.by_name.iter().map(|(name, object)| {
            let size = self.objects.get(object).map_or(0, |published| published.reader.manifest().size);
            (name, ByteCount(size))
        })
    }
    /// The encoded manifest of a name.
    pub fn manifest(&self, name: &Name) -> Option<Vec<u8>> {
        let object = self.by_name.get(name)?;
        self.objects.get(object).map(|published| published.reader.manifest().encode())
    }
    /// Answers a request: at most [`crate::wire::REQUEST_PACKETS_MAX`] packets. What does not exist is passed over.
    pub fn handle_request(&mut self, request: &Request, sink: &mut impl AnswerSink) {
        self.requests += 1;
        self.collect(request);
        self.packets += self.answer.len() as u64;
        if !self.answer.is_empty() {
            let header = Header { packet_type: PacketType::Data, flags: 0, ttl: TTL_MAX, fid: request.forward };
            sink.answer(&header, &mut self.answer);
            self.answer.clear();
        }
    }
    /// Puts together what there is of `request`, up to the first chunk that cannot be read.
    fn collect(&mut self, request: &Request) {
        let Some(published) = self.objects.get_mut(&request.object) else {
            self.unknown_objects += 1;
            return;
        };
        if published.layout.as_ref().is_none_or(|layout| layout.packet_bytes() != request.packet_bytes) {
            published.layout = Layout::exact(published.reader.manifest(), request.packet_bytes);
            published.stream = StreamKey::new(&request.object, request.packet_bytes);
        }
        let Some(layout) = &published.layout else { return };
        let (tag, stream, origin) = (request.tag, published.stream, self.origin);
        let mut open: Option<(Unit, Bytes)> = None;
        let mut reads = 0;
        for packet in request.runs.iter().flat_map(|&(first, count)| first..first + u32::from(count)) {
            let Some((unit, offset, len)) = layout.locate(packet) else { continue };
            if open.as_ref().is_none_or(|(opened, _)| *opened != unit) {
                reads += 1;
                if reads > REQUEST_READS_MAX {
                    return;
                }
                let bytes = match Layout::chunk_of(unit) {
                    None => Ok(published.tree.clone()),
                    Some(index) => published.reader.read_chunk(index),
                };
                match bytes {
                    Ok(bytes) => open = Some((unit, bytes)),
                    Err(error) => {
                        let reason = error.to_string();
                        if published.failed.as_ref() != Some(&reason) {
                            published.failed = Some(reason);
                            self.failures.push_back((published.reader.manifest().name.clone(), error));
                        }
                        return;
                    }
                }
            }
            let Some((_, bytes)) = &open else { return };
            let payload = bytes.slice(offset as usize..(offset + len) as usize);
            self.answer.push((DataHeader { tag, packet, stream, origin }, payload));
        }
    }
    /// An object that could not be read, and why; each failure once.
    pub fn poll_failure(&mut self) -> Option<(Name, StoreError)> {
        self.failures.pop_front()
    }
}

/// Bytes of a Data packet before its payload, on a route whose forward FID has `fid_bytes`.
pub fn data_overhead(fid_bytes: usize) -> usize {
    FIXED_BYTES + fid_bytes + DataHeader::BYTES
}
