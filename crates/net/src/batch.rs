//! Runs of datagrams that one system call can send.
use std::io::IoSlice;

use bytes::Bytes;

/// Datagrams of equal length for one peer; the last one may be shorter. Heads are copied, bodies shared.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    heads: Vec<u8>,
    /// The length of each head, and the body.
    pub(crate) parts: Vec<(u32, Bytes)>,
    /// Length of all datagrams but the last.
    pub(crate) segment: usize,
    /// Bytes of all datagrams.
    pub(crate) bytes: usize,
    /// The ECN bits of all datagrams.
    pub(crate) ecn: u8,
    /// Whether the last datagram is shorter, so that no other may follow.
    is_closed: bool,
}

/// Maximum datagrams of one run, as older kernels allow.
pub(crate) const SEGMENTS_MAX: usize = 64;
/// Maximum bytes of one run: the payload of one IPv4 packet.
const BATCH_BYTES_MAX: usize = 65_507;

impl Batch {
    /// Whether a datagram of `len` bytes with these ECN bits may follow the others within `segments_max`. An empty batch
    /// takes any.
    pub(crate) fn takes(&self, len: usize, ecn: u8, segments_max: usize) -> bool {
        self.parts.is_empty()
            || !self.is_closed
                && self.ecn == ecn
                && (1..=self.segment).contains(&len)
                && self.parts.len() < segments_max
                && self.bytes + len <= BATCH_BYTES_MAX
    }
    /// Appends a datagram that [`Batch::takes`].
    pub(crate) fn push(&mut self, head: &[u8], body: Bytes, ecn: u8) {
        let len = head.len() + body.len();
        debug_assert!(self.takes(len, ecn, SEGMENTS_MAX), "a datagram that does not fit into its run");
        if self.parts.is_empty() {
            self.ecn = ecn;
            self.segment = len;
            self.is_closed = len == 0;
        } else {
            self.is_closed = len < self.segment;
        }
        self.bytes += len;
        self.heads.extend_from_slice(head);
        self.parts.push((head.len() as u32, body));
    }
    /// Drops all datagrams and keeps the allocations.
    pub(crate) fn clear(&mut self) {
        self.heads.clear();
        self.parts.clear();
        self.bytes = 0;
    }
    /// Fills `slices` with heads and bodies in order, and returns the number of slices.
    pub(crate) fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>; 2 * SEGMENTS_MAX]) -> usize {
        let (mut count, mut start) = (0, 0);
        for (head_len, body) in &self.parts {
            let end = start + *head_len as usize;
            for part in [&self.heads[start..end], body] {
                if !part.is_empty() {
                    slices[count] = IoSlice::new(part);
                    count += 1;
                }
            }
            start = end;
        }
        count
    }
    /// Each datagram as a separate batch.
    pub(crate) fn singles(&self) -> impl Iterator<Item = Batch> {
        let mut start = 0;
        self.parts.iter().map(move |(head_len, body)| {
            let end = start + *head_len as usize;
            let mut single = Batch::default();
            single.push(&self.heads[start..end], body.clone(), self.ecn);
            start = end;
            single
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(len: usize) -> Bytes {
        Bytes::from(vec![7; len])
    }

    /// Whether it was taken.
    fn offer(batch: &mut Batch, head: &[u8], body: Bytes, segments_max: usize) -> bool {
        let takes = batch.takes(head.len() + body.len(), 0, segments_max);
        if takes {
            batch.push(head, body, 0);
        }
        takes
    }

    #[test]
    fn takes_equal_lengths_and_one_shorter_at_the_end() {
        let mut batch = Batch::default();
        assert!(offer(&mut batch, b"h", body(9), 64));
        assert!(offer(&mut batch, b"hh", body(8), 64));
        assert!(!offer(&mut batch, b"", body(11), 64));
        assert!(offer(&mut batch, b"", body(3), 64));
        assert!(!offer(&mut batch, b"", body(3), 64));
        assert_eq!((batch.parts.len(), batch.bytes, batch.segment), (3, 23, 10));
        let mut slices = [IoSlice::new(&[]); 2 * SEGMENTS_MAX];
        let count = batch.gather(&mut slices);
        assert_eq!(slices[..count].iter().map(|slice| slice.len()).collect::<Vec<_>>(), [1, 9, 2, 8, 3]);
        assert_eq!(batch.singles().map(|single| single.bytes).collect::<Vec<_>>(), [10, 10, 3]);
    }

    #[test]
    fn ends_at_its_limits_of_count_and_bytes() {
        let mut batch = Batch::default();
        for _ in 0..44 {
            assert!(offer(&mut batch, b"", body(1_472), 64));
        }
        assert!(!offer(&mut batch, b"", body(1_472), 64));
        batch.clear();
        assert!(offer(&mut batch, b"", body(10), 2) && offer(&mut batch, b"", body(10), 2));
        assert!(!offer(&mut batch, b"", body(10), 2));
    }

    #[test]
    fn datagrams_with_other_ecn_bits_travel_apart() {
        let mut batch = Batch::default();
        batch.push(b"", body(9), 0b10);
        assert!(batch.takes(9, 0b10, 64) && !batch.takes(9, 0b11, 64));
        assert_eq!(batch.singles().map(|single| single.ecn).collect::<Vec<_>>(), [0b10]);
    }

    #[test]
    fn empty_datagrams_travel_alone() {
        let mut batch = Batch::default();
        assert!(offer(&mut batch, b"", body(0), 64));
        assert!(!offer(&mut batch, b"", body(0), 64));
        batch.clear();
        assert!(offer(&mut batch, b"", body(5), 64));
        assert!(!offer(&mut batch, b"", body(0), 64));
    }
}
