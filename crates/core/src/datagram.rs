//! Packets that share their payload.
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;

use crate::FaceId;

/// The longest header that a node may put in front of a shared payload.
pub const HEAD_BYTES_MAX: usize = 184;

/// One packet: an inline head and a reference-counted body.
///
/// A packet from a socket has an empty head and everything in its body. A node that changes a few
/// header bytes emits a new head in front of a slice of the same body. A header never straddles the
/// two: it lies wholly in the head if there is one, else at the start of the body, so
/// [`Datagram::header_bytes`] always shows all of the next one.
#[derive(Clone)]
pub struct Datagram {
    head_len: u8,
    /// Whether a queue on the way was long (the CE codepoint of RFC 3168).
    marked: bool,
    head: [u8; HEAD_BYTES_MAX],
    body: Bytes,
}

impl Datagram {
    /// A packet whose header is copied into the head and whose payload is shared.
    ///
    /// # Panics
    /// If `head` is longer than [`HEAD_BYTES_MAX`].
    pub fn new(head: &[u8], body: Bytes) -> Self {
        assert!(head.len() <= HEAD_BYTES_MAX, "a head has at most {HEAD_BYTES_MAX} bytes, not {}", head.len());
        let mut datagram = Datagram { head_len: head.len() as u8, marked: false, head: [0; HEAD_BYTES_MAX], body };
        datagram.head[..head.len()].copy_from_slice(head);
        datagram
    }
    /// The bytes in which the whole header lies: the head, or all bytes if there is no head.
    pub fn header_bytes(&self) -> &[u8] {
        if self.head_len == 0 { &self.body } else { &self.head[..usize::from(self.head_len)] }
    }
    /// The packet without its first `count` bytes: the next header, if there is one, is then at the front.
    ///
    /// # Panics
    /// If `count` exceeds the length of [`Datagram::header_bytes`].
    pub fn strip(mut self, count: usize) -> Self {
        let head_len = usize::from(self.head_len);
        if head_len == 0 {
            self.body = self.body.slice(count..);
        } else {
            self.head.copy_within(count..head_len, 0);
            self.head_len = (head_len - count) as u8;
        }
        self
    }
    /// The same packet with at least its first `count` bytes in the head, so that [`Datagram::head_mut`] can change them.
    ///
    /// # Panics
    /// If the packet is shorter, `count` exceeds [`HEAD_BYTES_MAX`], or there is a head that is shorter.
    pub fn with_head(self, count: usize) -> Self {
        if self.head_len == 0 {
            let split = Datagram::new(&self.body[..count], self.body.slice(count..));
            return Datagram { marked: self.marked, ..split };
        }
        assert!(count <= usize::from(self.head_len), "a header does not straddle head and body");
        self
    }
    /// The inline head, to change.
    pub fn head_mut(&mut self) -> &mut [u8] {
        &mut self.head[..usize::from(self.head_len)]
    }
    /// All bytes as one shared slice: the body itself if there is no head, else a copy.
    pub fn into_bytes(self) -> Bytes {
        if self.head_len == 0 { self.body } else { self.to_vec().into() }
    }
    /// Whether a queue on the way to this node marked the packet instead of dropping it. The mark is delivered with the
    /// packet and not sent on by itself: a node that forwards puts it into its own header.
    pub fn is_marked(&self) -> bool {
        self.marked
    }
    /// Marks the packet.
    pub fn set_marked(&mut self) {
        self.marked = true;
    }
    /// The inline head; empty for packets that came from a socket.
    pub fn head(&self) -> &[u8] {
        &self.head[..usize::from(self.head_len)]
    }
    /// The shared body.
    pub fn body(&self) -> &Bytes {
        &self.body
    }
    /// Bytes in all.
    pub fn len(&self) -> usize {
        usize::from(self.head_len) + self.body.len()
    }
    /// Whether there is not a single byte.
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
        Datagram { head_len: 0, marked: false, head: [0; HEAD_BYTES_MAX], body }
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

/// Packets that arrived together: one shared buffer cut into equal parts, of which the last may be shorter (GRO).
#[derive(Clone, Debug)]
pub struct DatagramRun {
    bytes: Bytes,
    stride: usize,
}

impl DatagramRun {
    /// The packets in `bytes`, each of `stride` bytes but the last, which has what is left. No bytes are one empty packet.
    ///
    /// # Panics
    /// If `stride` is zero.
    pub fn new(bytes: Bytes, stride: usize) -> Self {
        assert!(stride > 0, "a packet of a run has at least one byte");
        DatagramRun { bytes, stride }
    }
    /// How many packets there are: at least one.
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
    /// One packet by itself.
    pub fn datagram(&self, index: usize) -> Datagram {
        Datagram::from(self.share(index, 0))
    }

    fn place(&self, index: usize) -> (usize, usize) {
        let len = self.bytes.len();
        let start = index.saturating_mul(self.stride).min(len);
        (start, start.saturating_add(self.stride).min(len))
    }
}

/// Where a batch goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// The face that all packets of the batch leave by.
    pub face: FaceId,
}

/// A batch of packets for one face, in order. A driver may send runs of equal length with one system call (GSO).
///
/// Heads lie one behind the other in one buffer and bodies are shared, so filling a batch copies headers only.
#[derive(Default, Debug)]
pub struct TransmitBuf {
    heads: Vec<u8>,
    parts: Vec<(u32, Bytes)>,
}

impl TransmitBuf {
    /// How many packets a node puts into one batch at most.
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
        self.heads.extend_from_slice(datagram.head());
        self.parts.push((u32::from(datagram.head_len), datagram.body));
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
    /// Takes all packets out; those whose head is longer than [`HEAD_BYTES_MAX`] become one contiguous body.
    pub fn drain(&mut self) -> impl Iterator<Item = Datagram> {
        let mut start = 0;
        let heads = core::mem::take(&mut self.heads);
        self.parts.drain(..).map(move |(len, body)| {
            let head = &heads[start..start + len as usize];
            start += len as usize;
            if body.is_empty() || head.len() > HEAD_BYTES_MAX {
                Datagram::from([head, &body].concat())
            } else {
                Datagram::new(head, body)
            }
        })
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
        let run = DatagramRun::new(Bytes::from_static(b"aabbc"), 2);
        assert_eq!(run.count(), 3);
        assert_eq!([run.bytes(0), run.bytes(1), run.bytes(2), run.bytes(3)], [&b"aa"[..], b"bb", b"c", b""]);
        assert_eq!((run.share(1, 1), run.datagram(2).to_vec()), (Bytes::from_static(b"b"), b"c".to_vec()));
        let empty = DatagramRun::new(Bytes::new(), 1);
        assert_eq!((empty.count(), empty.datagram(0).len()), (1, 0));
    }
}
