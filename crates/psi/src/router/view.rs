//! The common header in place: read without copying its FID, and written into the head of a packet.
use tributary_core::{Datagram, HEAD_BYTES_MAX};

use crate::wire::{
    FID_BYTES_MAX, FIXED_BYTES, FLAG_CACHED, FLAG_MARKED, FLAG_NO_CACHE, Fid, FidKind, Header, PacketType, TTL_MAX,
    VERSION, WireError,
};

/// The common header without copying its FID; accepts exactly the headers that [`Header::decode`] accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct View {
    pub(crate) packet_type: PacketType,
    pub(crate) flags: u8,
    pub(super) ttl: u8,
    pub(crate) header_len: usize,
}

impl View {
    #[inline]
    pub(crate) fn parse(bytes: &[u8]) -> Result<View, WireError> {
        let fixed: &[u8; FIXED_BYTES] =
            bytes.first_chunk().ok_or(WireError::Short { field: "header", needs: FIXED_BYTES, has: bytes.len() })?;
        let [kind, flags, ttl, shape, _] = *fixed;
        let header_len = FIXED_BYTES + usize::from(shape & 0x3f) * 2;
        let packet_type = match kind {
            REQUEST => PacketType::Request,
            DATA => PacketType::Data,
            _ => return View::parse_any(bytes),
        };
        let legal = flags & !(FLAG_NO_CACHE | FLAG_CACHED | FLAG_MARKED) == 0
            && ttl <= TTL_MAX
            && shape >> 6 <= FidKind::List as u8
            && header_len <= FIXED_BYTES + FID_BYTES_MAX
            && bytes.len() >= header_len;
        if legal { Ok(View { packet_type, flags, ttl, header_len }) } else { View::parse_any(bytes) }
    }
    fn parse_any(bytes: &[u8]) -> Result<View, WireError> {
        let header = Header::decode(bytes)?;
        Ok(View { packet_type: header.packet_type, flags: header.flags, ttl: header.ttl, header_len: header.len() })
    }
    pub(super) fn fid<'a>(&self, bytes: &'a [u8]) -> FidView<'a> {
        let kind = match bytes[3] >> 6 {
            0 => FidKind::Bloom,
            1 => FidKind::Bitmap,
            _ => FidKind::List,
        };
        FidView { kind, salt: bytes[4], bytes: &bytes[FIXED_BYTES..self.header_len] }
    }
}

const REQUEST: u8 = (VERSION << 4) | PacketType::Request as u8;

const DATA: u8 = (VERSION << 4) | PacketType::Data as u8;

/// An FID in place.
#[derive(Clone, Copy)]
pub(super) struct FidView<'a> {
    pub(super) kind: FidKind,
    pub(super) salt: u8,
    pub(super) bytes: &'a [u8],
}

impl<'a> FidView<'a> {
    pub(super) fn of(fid: &'a Fid) -> FidView<'a> {
        FidView { kind: fid.kind(), salt: fid.salt(), bytes: fid.bytes() }
    }
    pub(super) fn to_fid(self) -> Fid {
        Fid::new(self.kind, self.salt, self.bytes)
    }
}

/// Writes a common header to the start of `out` and returns its length.
pub(super) fn write_header(out: &mut [u8; HEAD_BYTES_MAX], kind: PacketType, flags: u8, ttl: u8, fid: &Fid) -> usize {
    let len = FIXED_BYTES + fid.bytes().len();
    let shape = ((fid.kind() as u8) << 6) | (fid.bytes().len() / 2) as u8;
    out[..FIXED_BYTES].copy_from_slice(&[(VERSION << 4) | kind as u8, flags, ttl, shape, fid.salt()]);
    out[FIXED_BYTES..len].copy_from_slice(fid.bytes());
    len
}

/// The parts behind the common header: the rest of the head, and the body.
pub(super) fn parts_after(datagram: &Datagram, header_len: usize) -> [&[u8]; 2] {
    let head = datagram.head();
    if head.is_empty() { [&[], &datagram.body()[header_len..]] } else { [&head[header_len..], datagram.body()] }
}
