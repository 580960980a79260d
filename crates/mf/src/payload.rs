//! The bytes of a chunk in the pieces in which they arrived or were read, so that they are copied only at their
//! destination.
use alloc::vec::{self, Vec};

use bytes::Bytes;

/// The payload of a chunk: consecutive pieces, shared by reference.
#[derive(Clone, Default, Debug)]
pub struct Payload(Vec<Bytes>);

impl Payload {
    /// Bytes in all.
    pub fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }
    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Bytes::is_empty)
    }
    /// The pieces.
    pub fn pieces(&self) -> &[Bytes] {
        &self.0
    }
    /// All bytes in one piece: shared if there is only one, otherwise copied.
    pub fn to_bytes(&self) -> Bytes {
        match &self.0[..] {
            [only] => only.clone(),
            pieces => pieces.concat().into(),
        }
    }
    /// The bytes from `start` to before `end`, piece by piece.
    pub fn range(&self, start: usize, end: usize) -> impl Iterator<Item = &[u8]> {
        let mut at = 0;
        self.0.iter().filter_map(move |piece| {
            let first = at;
            at += piece.len();
            let (from, until) = (start.clamp(first, at), end.clamp(first, at));
            (from < until).then(|| &piece[from - first..until - first])
        })
    }
    /// Fragments of these lengths until nothing is left: the last may be shorter, the first may be empty. A fragment
    /// within one piece is shared, others are copied.
    pub fn cut(&self, lengths: impl IntoIterator<Item = usize>) -> Vec<Bytes> {
        let mut rest = Rest { pieces: self.0.clone().into_iter(), piece: Bytes::new() };
        let mut left = self.len();
        let mut fragments = Vec::new();
        for length in lengths {
            if left == 0 && !fragments.is_empty() {
                break;
            }
            let length = length.min(left);
            left -= length;
            fragments.push(rest.take(length));
        }
        fragments
    }
}
impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        Payload(Vec::from([bytes]))
    }
}
impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Payload::from(Bytes::from(bytes))
    }
}
impl FromIterator<Bytes> for Payload {
    fn from_iter<I: IntoIterator<Item = Bytes>>(pieces: I) -> Self {
        Payload(pieces.into_iter().collect())
    }
}

/// The rest of a payload while it is cut.
struct Rest {
    pieces: vec::IntoIter<Bytes>,
    piece: Bytes,
}

impl Rest {
    /// The next `length` bytes; the caller has checked that they exist.
    fn take(&mut self, length: usize) -> Bytes {
        let mut joined = Vec::new();
        loop {
            let missing = length - joined.len();
            if self.piece.len() >= missing && joined.is_empty() {
                return self.piece.split_to(missing);
            }
            joined.extend_from_slice(&self.piece.split_to(self.piece.len().min(missing)));
            if joined.len() == length {
                return joined.into();
            }
            self.piece = self.pieces.next().unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use core::iter::{once, repeat};

    use super::*;

    fn payload() -> Payload {
        [&b"012"[..], b"", b"34567", b"89"].into_iter().map(Bytes::from_static).collect()
    }

    #[test]
    fn what_lies_in_one_piece_is_shared_and_the_rest_is_joined() {
        let payload = payload();
        let fragments = payload.cut(once(2).chain(repeat(3)));
        assert_eq!(fragments, [&b"01"[..], b"234", b"567", b"89"]);
        let shared = |fragment: &Bytes| {
            let within = |piece: &Bytes| piece.as_ptr_range().contains(&fragment.as_ptr());
            payload.0.iter().any(within)
        };
        assert!(fragments.iter().map(shared).eq([true, false, true, true]));
        assert_eq!((payload.len(), payload.to_bytes()), (10, Bytes::from_static(b"0123456789")));
    }

    #[test]
    fn nothing_is_one_empty_fragment() {
        assert_eq!(Payload::from(Bytes::new()).cut(repeat(3)), [Bytes::new()]);
        assert_eq!(payload().cut(once(0).chain(repeat(20))), [&b""[..], b"0123456789"]);
    }

    #[test]
    fn a_range_goes_over_the_ends_of_pieces() {
        assert!(payload().range(2, 9).eq([&b"2"[..], b"34567", b"8"]));
        assert!(payload().range(3, 8).eq([b"34567"]));
        assert_eq!(payload().range(4, 4).count(), 0);
    }
}
