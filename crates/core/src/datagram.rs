//! Packets that share their payload.
use alloc::{boxed::Box, vec, vec::Vec};
use bytes::{Buf, Bytes};
use core::fmt;

use crate::FaceId;

/// The longest header that a node may put in front of a shared payload.
pub const HEAD_BYTES_MAX: usize = 184;

/// One packet: its own header and a reference-counted body.
///
/// A packet from a socket has an empty head and everything in its body. A node that changes a few
/// header bytes emits a new head in front of a slice of the same body. A header never straddles the
/// two: it lies wholly in the head if there is one, else at the start of the body, so
/// [`Datagram::header_bytes`] always shows all of the next one.
///
/// Packets are moved from queue to queue, so they are small: short heads lie inline, long ones on the heap.
#[derive(Clone)]
pub struct Datagram {
    head: Head,
    /// Whether a queue on the way was long (the CE codepoint of RFC 3168).
    marked: bool,
    body: Bytes,
}

/// Bytes of the longest head that needs no allocation: a header of PSI with a filter of 32 bytes and more.
const INLINE_BYTES: usize = 60;

#[derive(Clone)]
enum Head {
    Inline { start: u8, end: u8, bytes: [u8; INLINE_BYTES] },
    Heap { start: u8, bytes: Box<[u8]> },
}

impl Head {
    const EMPTY: Head = Head::Inline { start: 0, end: 0, bytes: [0; INLINE_BYTES] };

    #[inline]
    fn new(head: &[u8]) -> Head {
        assert!(head.len() <= HEAD_BYTES_MAX, "a head has at most {HEAD_BYTES_MAX} bytes, not {}", head.len());
        let mut bytes = [0; INLINE_BYTES];
        match bytes.get_mut(..head.len()) {
            Some(place) => {
                place.copy_from_slice(head);
                Head::Inline { start: 0, end: head.len() as u8, bytes }
            }
            None => Head::Heap { start: 0, bytes: head.into() },
        }
    }
    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Head::Inline { start, end, bytes } => &bytes[usize::from(*start)..usize::from(*end)],
            Head::Heap { start, bytes } => &bytes[usize::from(*start)..],
        }
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Head::Inline { start, end, bytes } => &mut bytes[usize::from(*start)..usize::from(*end)],
            Head::Heap { start, bytes } => &mut bytes[usize::from(*start)..],
        }
    }
    /// Drops the first `count` bytes. The caller has checked the length.
    fn strip(&mut self, count: usize) {
        let (Head::Inline { start, .. } | Head::Heap { start, .. }) = self;
        *start += count as u8;
    }
}

impl Datagram {
    /// A packet whose header is copied into the head and whose payload is shared.
    ///
    /// # Panics
    /// If `head` is longer than [`HEAD_BYTES_MAX`].
    #[inline]
    pub fn new(head: &[u8], body: Bytes) -> Self {
        Datagram { head: Head::new(head), marked: false, body }
    }
    /// The bytes that contain the complete header: the head, or all bytes if there is no head.
    #[inline]
    pub fn header_bytes(&self) -> &[u8] {
        let head = self.head();
        if head.is_empty() { &self.body } else { head }
    }
    /// The bytes behind the first `count` that are contiguous with them: the complete next header, or the payload.
    ///
    /// # Panics
    /// If the packet is shorter.
    #[inline]
    pub fn bytes_after(&self, count: usize) -> &[u8] {
        let head = self.head();
        if count < head.len() { &head[count..] } else { &self.body[count - head.len()..] }
    }
    /// The packet without its first `count` bytes: the next header, if any, is then at the front.
    ///
    /// # Panics
    /// If `count` exceeds the length of [`Datagram::header_bytes`].
    pub fn strip(mut self, count: usize) -> Self {
        let head_len = self.head().len();
        if head_len == 0 {
            self.body.advance(count);
        } else {
            assert!(count <= head_len, "the head has {head_len} bytes, not {count}");
            self.head.strip(count);
        }
        self
    }
    /// The same packet with at least its first `count` bytes in the head, so that [`Datagram::head_mut`] can change them.
    ///
    /// # Panics
    /// If the packet is shorter, `count` exceeds [`HEAD_BYTES_MAX`], or there is a head that is shorter.
    pub fn with_head(mut self, count: usize) -> Self {
        if self.head().is_empty() {
            self.head = Head::new(&self.body[..count]);
            self.body.advance(count);
        }
        assert!(count <= self.head().len(), "a header does not straddle head and body");
        self
    }
    /// The head, to change.
    pub fn head_mut(&mut self) -> &mut [u8] {
        self.head.bytes_mut()
    }
    /// All bytes as one shared slice: the body itself if there is no head, else a copy.
    pub fn into_bytes(self) -> Bytes {
        if self.head().is_empty() { self.body } else { self.to_vec().into() }
    }
    /// Takes the body out; the packet is then nothing but its head.
    pub fn take_body(&mut self) -> Bytes {
        core::mem::take(&mut self.body)
    }
    /// Whether a queue on the way to this node marked the packet instead of dropping it. A forwarder copies the mark
    /// into its own header, because the link does not carry it further.
    pub fn is_marked(&self) -> bool {
        self.marked
    }
    /// Marks the packet.
    pub fn set_marked(&mut self) {
        self.marked = true;
    }
    /// The head; empty for packets that came from a socket.
    #[inline]
    pub fn head(&self) -> &[u8] {
        self.head.bytes()
    }
    /// The shared body.
    #[inline]
    pub fn body(&self) -> &Bytes {
        &self.body
    }
    /// Bytes in all.
    #[inline]
    pub fn len(&self) -> usize {
        self.head().len() + self.body.len()
    }
    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// A copy of all bytes, head first.
    pub fn to_vec(&self) -> Vec<u8> {
        [self.head(), &self.body].concat()
    }
}
impl From<Bytes> for Datagram {
    fn from(body: Bytes) -> Self {
        Datagram { head: Head::EMPTY, marked: false, body }
    }
}
impl From<Vec<u8>> for Datagram {
    fn from(body: Vec<u8>) -> Self {
        Datagram::from(Bytes::from(body))
    }
}
impl From<&[u8]> for Datagram {
    fn from(body: &[u8]) -> Self {
        Datagram::from(Bytes::copy_from_slice(body))
    }
}
impl PartialEq for Datagram {
    fn eq(&self, other: &Self) -> bool {
        self.to_vec() == other.to_vec()
    }
}
impl fmt::Debug for Datagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Datagram({} B: ", self.len())?;
        for byte in self.header_bytes().iter().take(32) {
            write!(f, "{byte:02x}")?;
        }
        f.write_str(")")
    }
}

/// Packets that arrived together: one shared buffer cut into equal parts; the last part may be shorter (GRO).
#[derive(Clone, Debug)]
pub struct DatagramBatch {
    bytes: Bytes,
    stride: usize,
}

impl DatagramBatch {
    /// The packets in `bytes`, each of `stride` bytes but the last, which has the rest. No bytes are one empty packet.
    ///
    /// # Panics
    /// If `stride` is zero.
    pub fn new(bytes: Bytes, stride: usize) -> Self {
        assert!(stride > 0, "a packet of a run has at least one byte");
        DatagramBatch { bytes, stride }
    }
    /// The number of packets: at least one.
    pub fn count(&self) -> usize {
        self.bytes.len().div_ceil(self.stride).max(1)
    }
    /// The bytes of one packet; of one that does not exist none.
    pub fn bytes(&self, index: usize) -> &[u8] {
        let (start, end) = self.place(index);
        &self.bytes[start..end]
    }
    /// One packet from its byte `skip` on, sharing the buffer.
    ///
    /// # Panics
    /// If the packet is shorter.
    pub fn share(&self, index: usize, skip: usize) -> Bytes {
        let (start, end) = self.place(index);
        self.bytes.slice(start + skip..end)
    }
    /// One packet of the batch.
    pub fn datagram(&self, index: usize) -> Datagram {
        Datagram::from(self.share(index, 0))
    }

    fn place(&self, index: usize) -> (usize, usize) {
        let len = self.bytes.len();
        let start = index.saturating_mul(self.stride).min(len);
        (start, start.saturating_add(self.stride).min(len))
    }
}

/// The destination of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// The face that all packets of the batch leave by.
    pub face: FaceId,
}

/// A batch of packets for one face, in order. A driver may send packets of equal length with one system call (GSO).
///
/// Heads lie one behind the other in one buffer and bodies are shared, so filling a batch copies headers only.
#[derive(Default, Debug)]
pub struct TransmitBuf {
    heads: Vec<u8>,
    parts: Vec<(u32, Bytes)>,
}

impl TransmitBuf {
    /// Maximum packets of a batch.
    pub const DATAGRAMS_MAX: usize = 64;

    /// An empty batch.
    pub fn new() -> Self {
        TransmitBuf::default()
    }
    /// Appends a packet: a header to copy and a payload to share.
    pub fn push(&mut self, head: &[u8], body: Bytes) {
        self.heads.extend_from_slice(head);
        self.parts.push((head.len() as u32, body));
    }
    /// Appends a packet as it is.
    pub fn push_datagram(&mut self, datagram: Datagram) {
        let head = datagram.head();
        self.heads.extend_from_slice(head);
        self.parts.push((head.len() as u32, datagram.body));
    }
    /// Packets in the batch.
    pub fn len(&self) -> usize {
        self.parts.len()
    }
    /// Whether the batch holds no packet.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
    /// Whether the batch has [`TransmitBuf::DATAGRAMS_MAX`] packets.
    pub fn is_full(&self) -> bool {
        self.parts.len() >= Self::DATAGRAMS_MAX
    }
    /// Drops all packets and keeps the allocations.
    pub fn clear(&mut self) {
        self.heads.clear();
        self.parts.clear();
    }
    /// Each packet as head and body, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Bytes)> {
        let mut start = 0;
        self.parts.iter().map(move |(len, body)| {
            let end = start + *len as usize;
            let head = &self.heads[start..end];
            start = end;
            (head, body)
        })
    }
    /// Takes all packets out as head and body, in order, and keeps the allocations.
    pub fn take_each(&mut self, mut take: impl FnMut(&[u8], Bytes)) {
        let mut start = 0;
        for (len, body) in self.parts.drain(..) {
            let end = start + len as usize;
            take(&self.heads[start..end], body);
            start = end;
        }
        self.heads.clear();
    }
    /// Takes all packets out and keeps the allocations; packets whose head is longer than [`HEAD_BYTES_MAX`] become one
    /// contiguous body.
    pub fn drain(&mut self) -> impl Iterator<Item = Datagram> {
        Drain { parts: self.parts.drain(..), heads: &mut self.heads, start: 0 }
    }
}

struct Drain<'a> {
    parts: vec::Drain<'a, (u32, Bytes)>,
    heads: &'a mut Vec<u8>,
    start: usize,
}

impl Iterator for Drain<'_> {
    type Item = Datagram;

    #[inline]
    fn next(&mut self) -> Option<Datagram> {
        let (len, body) = self.parts.next()?;
        let end = self.start + len as usize;
        let head = &self.heads[self.start..end];
        self.start = end;
        Some(if body.is_empty() || head.len() > HEAD_BYTES_MAX {
            Datagram::from([head, &body].concat())
        } else {
            Datagram::new(head, body)
        })
    }
}
impl Drop for Drain<'_> {
    fn drop(&mut self) {
        self.heads.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_is_shared_whether_the_header_is_inline_or_not() {
        let contiguous = Datagram::from(&b"HHpayload"[..]);
        let split = Datagram::new(b"HH", Bytes::from_static(b"payload"));
        assert_eq!(contiguous, split);
        assert_eq!(&contiguous.header_bytes()[..2], split.header_bytes());
        assert_eq!(contiguous.clone().strip(2).into_bytes(), split.clone().strip(2).into_bytes());
        assert_eq!(contiguous.clone().strip(1).header_bytes(), b"Hpayload");
        let mut edited = contiguous.clone().with_head(1);
        edited.head_mut()[0] = b'h';
        assert_eq!(edited.to_vec(), b"hHpayload");
        assert_eq!(contiguous.to_vec(), b"HHpayload");
    }

    #[test]
    fn short_heads_lie_inline_and_long_ones_on_the_heap_and_nobody_sees_which() {
        assert!(size_of::<Datagram>() <= 104, "{} bytes are moved with every packet", size_of::<Datagram>());
        for len in [1, INLINE_BYTES, INLINE_BYTES + 1, HEAD_BYTES_MAX] {
            let head: Vec<u8> = (1..=len as u8).collect();
            let mut split = Datagram::new(&head, Bytes::from_static(b"body"));
            let contiguous = Datagram::from([&head, &b"body"[..]].concat());
            assert_eq!((split.head(), split.len()), (&head[..], len + 4));
            assert_eq!((&split, contiguous.clone().with_head(len).head()), (&contiguous, &head[..]));
            assert_eq!(split.clone().strip(len - 1).header_bytes(), &head[len - 1..]);
            assert_eq!(split.bytes_after(len - 1), &head[len - 1..]);
            assert_eq!((split.bytes_after(len), contiguous.bytes_after(len)), (&b"body"[..], &b"body"[..]));
            assert_eq!((split.bytes_after(len + 4), contiguous.bytes_after(len + 4)), (&b""[..], &b""[..]));
            assert_eq!(split.clone().strip(len).header_bytes(), b"body", "a head that is used up is none");
            split.head_mut()[0] = 9;
            assert_eq!((split.head()[0], split.take_body(), split.len()), (9, Bytes::from_static(b"body"), len));
        }
    }

    #[test]
    fn drain_gives_back_what_was_pushed_in_order() {
        let mut batch = TransmitBuf::new();
        batch.push(b"a", Bytes::from_static(b"1"));
        batch.push(b"", Bytes::from_static(b"2"));
        batch.push(&[7; HEAD_BYTES_MAX + 1], Bytes::from_static(b"3"));
        let lens: Vec<_> = batch.iter().map(|(head, body)| head.len() + body.len()).collect();
        assert_eq!(lens, [2, 1, HEAD_BYTES_MAX + 2]);
        let mut copy = TransmitBuf::new();
        batch.iter().for_each(|(head, body)| copy.push(head, body.clone()));
        let mut taken = Vec::new();
        copy.take_each(|head, body| taken.push([head, &body].concat()));
        assert_eq!((taken.len(), &taken[0][..], copy.is_empty()), (3, &b"a1"[..], true));
        let drained: Vec<_> = batch.drain().collect();
        assert_eq!(drained[0].to_vec(), b"a1");
        assert_eq!(drained[2].len(), HEAD_BYTES_MAX + 2);
        assert!(batch.is_empty());
    }

    #[test]
    fn a_run_is_cut_at_its_stride_and_shares_its_buffer() {
        let run = DatagramBatch::new(Bytes::from_static(b"aabbc"), 2);
        assert_eq!(run.count(), 3);
        assert_eq!([run.bytes(0), run.bytes(1), run.bytes(2), run.bytes(3)], [&b"aa"[..], b"bb", b"c", b""]);
        assert_eq!((run.share(1, 1), run.datagram(2).to_vec()), (Bytes::from_static(b"b"), b"c".to_vec()));
        let empty = DatagramBatch::new(Bytes::new(), 1);
        assert_eq!((empty.count(), empty.datagram(0).len()), (1, 0));
    }
}
