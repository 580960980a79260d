//! Forwarding identifiers: a path or tree, encoded for the packet header (paper §II-B, LIPSIN).
use alloc::vec::Vec;
use core::fmt;

use super::WireError;

/// The longest FID.
pub const FID_BYTES_MAX: usize = 96;

/// How links are written into an FID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum FidKind {
    /// A Bloom filter over the link labels of one salt (LIPSIN).
    Bloom = 0,
    /// One bit per adjacency of the domain, numbered by the topology manager (as BIER-TE, RFC 9262).
    Bitmap = 1,
    /// One label per link, in any order: 4 bytes each, or the first 2 of them (salt 1).
    List = 2,
}

/// A forwarding identifier. The empty FID leads nowhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fid {
    kind: FidKind,
    salt: u8,
    len: u8,
    bytes: [u8; FID_BYTES_MAX],
}

impl Fid {
    /// The FID of packets that go one hop.
    pub const NONE: Fid = Fid { kind: FidKind::List, salt: 0, len: 0, bytes: [0; FID_BYTES_MAX] };

    /// An FID from its parts; a byte of padding is added to an odd length.
    ///
    /// # Panics
    /// If `bytes` is longer than [`FID_BYTES_MAX`].
    pub fn new(kind: FidKind, salt: u8, bytes: &[u8]) -> Fid {
        assert!(bytes.len() <= FID_BYTES_MAX, "an FID has at most {FID_BYTES_MAX} bytes, not {}", bytes.len());
        let len = u8::try_from(bytes.len().next_multiple_of(2)).expect("its limit fits a byte");
        let mut fid = Fid { kind, salt, len, bytes: [0; FID_BYTES_MAX] };
        fid.bytes[..bytes.len()].copy_from_slice(bytes);
        fid
    }
    /// How its links are written.
    pub fn kind(&self) -> FidKind {
        self.kind
    }
    /// Which of the labels of each link it uses; the epoch of a bitmap; how long the labels of a list are.
    pub fn salt(&self) -> u8 {
        self.salt
    }
    /// The filter, bitmap or list.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
    /// Whether it leads nowhere.
    pub fn is_none(&self) -> bool {
        self.len == 0
    }
    /// Reads kind, length, salt and bytes.
    ///
    /// # Errors
    /// [`WireError`] if they are cut or not legal.
    pub fn decode(bytes: &[u8]) -> Result<Fid, WireError> {
        let [shape, salt, rest @ ..] = bytes else {
            return Err(WireError::Short { field: "FID", needs: 2, has: bytes.len() });
        };
        let kind = match shape >> 6 {
            0 => FidKind::Bloom,
            1 => FidKind::Bitmap,
            2 => FidKind::List,
            found => return Err(WireError::Value { field: "FID kind", found: u64::from(found) }),
        };
        let len = usize::from(shape & 0x3f) * 2;
        if len > FID_BYTES_MAX {
            return Err(WireError::Value { field: "FID length", found: len as u64 });
        }
        let filter = rest.get(..len).ok_or(WireError::Short { field: "FID", needs: len, has: rest.len() })?;
        Ok(Fid::new(kind, *salt, filter))
    }
    /// Appends kind, length, salt and bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[((self.kind as u8) << 6) | (self.len / 2), self.salt]);
        out.extend_from_slice(self.bytes());
    }
    /// Bytes that [`Fid::encode`] appends.
    pub fn encoded_len(&self) -> usize {
        2 + usize::from(self.len)
    }
}
impl fmt::Debug for Fid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}/{}:", self.kind, self.salt)?;
        self.bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
