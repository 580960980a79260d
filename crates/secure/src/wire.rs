//! Packets of secure faces.
//!
//! ```text
//!  initiation   d0  length  version  index(3)  cookie(17, zeros: none)  noise 1 (32)
//!  cookie       d1  length  index(3) of the initiation  cookie(17)
//!  response     d2  index(3) of the initiation  index(3)  noise 2
//!  finish       d3  index(3) of the response    noise 3
//!  data         d4  index(3) of the receiver    number(4)  sealed bytes  tag(16)
//!  clear        d5  index(3) of the receiver    number(4)  bytes         tag(16)
//!  control      d6  index(3) of the receiver    number(4)  sealed kind(1) and bytes  tag(16)
//!  unknown      d7  length  index(3) that the sender of this packet does not know
//! ```
//! Numbers are big-endian. No family's packets start with these bytes. A length of one byte counts the bytes after it:
//! packets that may reach a neighbour without secure faces are whole TLVs of a type unknown to NDN. `ndnd` 1.5 reads
//! its datagrams as one stream of TLVs, and any other layout would make it lose its place.
use alloc::vec::Vec;

use crate::{
    cookie::{COOKIE_BYTES, Cookie},
    noise::{FIRST_BYTES, SECOND_BYTES, THIRD_BYTES},
};

pub(crate) const VERSION: u8 = 1;
/// What precedes the payload of data.
pub(crate) const DATA_HEADER: usize = 8;
/// Overhead of a protected packet in bytes.
pub(crate) const DATA_OVERHEAD: usize = DATA_HEADER + 16;
const INITIATION_VALUE: usize = 4 + COOKIE_BYTES + FIRST_BYTES;
const COOKIE_VALUE: usize = 3 + COOKIE_BYTES;
const UNKNOWN_VALUE: usize = 3;
/// The longest payload of a handshake.
pub(crate) const PRESENTED_BYTES_MAX: usize = 1_024;

/// The receiver's identifier of a session or handshake.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct SessionIndex(u32);

impl SessionIndex {
    /// The lower 24 bits of `bits`.
    pub(crate) fn new(bits: u32) -> Self {
        SessionIndex(bits & 0xff_ffff)
    }
    fn bytes(self) -> [u8; 3] {
        let [_, bytes @ ..] = self.0.to_be_bytes();
        bytes
    }
    fn read(bytes: &[u8]) -> Self {
        SessionIndex(u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]))
    }
}

/// What kind of a protected packet it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The node's, encrypted.
    Data,
    /// The node's, authenticated only.
    Clear,
    /// The neighbours' own.
    Control,
}

/// A packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Packet<'a> {
    Initiation { from: SessionIndex, cookie: Option<Cookie>, noise: &'a [u8] },
    Cookie { to: SessionIndex, cookie: Cookie },
    Response { to: SessionIndex, from: SessionIndex, noise: &'a [u8] },
    Finish { to: SessionIndex, noise: &'a [u8] },
    Protected { to: SessionIndex, kind: Kind },
    Unknown { index: SessionIndex },
}

/// Whether a packet claims to be one of a secure face.
pub(crate) fn is_secure(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| (INITIATION..=UNKNOWN).contains(first))
}

const INITIATION: u8 = 0xd0;
const COOKIE: u8 = 0xd1;
const RESPONSE: u8 = 0xd2;
const FINISH: u8 = 0xd3;
const DATA: u8 = 0xd4;
const CLEAR: u8 = 0xd5;
const CONTROL: u8 = 0xd6;
const UNKNOWN: u8 = 0xd7;

impl<'a> Packet<'a> {
    /// The packet in `bytes`; `None` if they are not one.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Packet<'a>> {
        let (first, rest) = bytes.split_first()?;
        if rest.len() < 3 {
            return None;
        }
        let value = |size: usize| rest[1..].len() == size && usize::from(rest[0]) == size;
        let protected =
            |kind| (bytes.len() >= DATA_OVERHEAD).then(|| Packet::Protected { to: SessionIndex::read(rest), kind });
        match *first {
            INITIATION if value(INITIATION_VALUE) && rest[1] == VERSION => {
                let (cookie, noise) = rest[5..].split_at(COOKIE_BYTES);
                Some(Packet::Initiation { from: SessionIndex::read(&rest[2..]), cookie: Cookie::read(cookie), noise })
            }
            COOKIE if value(COOKIE_VALUE) => {
                Some(Packet::Cookie { to: SessionIndex::read(&rest[1..]), cookie: Cookie::read(&rest[4..])? })
            }
            RESPONSE => {
                let noise = bytes.get(7..)?;
                is_of(noise, SECOND_BYTES).then(|| Packet::Response {
                    to: SessionIndex::read(rest),
                    from: SessionIndex::read(&rest[3..]),
                    noise,
                })
            }
            FINISH => {
                let noise = bytes.get(4..)?;
                is_of(noise, THIRD_BYTES).then(|| Packet::Finish { to: SessionIndex::read(rest), noise })
            }
            DATA => protected(Kind::Data),
            CLEAR => protected(Kind::Clear),
            CONTROL => protected(Kind::Control),
            UNKNOWN if value(UNKNOWN_VALUE) => Some(Packet::Unknown { index: SessionIndex::read(&rest[1..]) }),
            _ => None,
        }
    }
    /// The bytes of a packet of a handshake.
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Packet::Initiation { from, cookie, noise } => {
                let cookie = cookie.map_or([0; COOKIE_BYTES], Cookie::bytes);
                [&[INITIATION, INITIATION_VALUE as u8, VERSION][..], &from.bytes(), &cookie, noise].concat()
            }
            Packet::Cookie { to, cookie } => [&[COOKIE, COOKIE_VALUE as u8][..], &to.bytes(), &cookie.bytes()].concat(),
            Packet::Response { to, from, noise } => [&[RESPONSE][..], &to.bytes(), &from.bytes(), noise].concat(),
            Packet::Finish { to, noise } => [&[FINISH][..], &to.bytes(), noise].concat(),
            Packet::Unknown { index } => [&[UNKNOWN, UNKNOWN_VALUE as u8][..], &index.bytes()].concat(),
            Packet::Protected { .. } => unreachable!("a session seals these"),
        }
    }
}

fn is_of(noise: &[u8], overhead: usize) -> bool {
    (overhead..=overhead + PRESENTED_BYTES_MAX).contains(&noise.len())
}

/// The header of a protected packet.
pub(crate) fn data_header(kind: Kind, to: SessionIndex, number: u32) -> [u8; DATA_HEADER] {
    let first = match kind {
        Kind::Data => DATA,
        Kind::Clear => CLEAR,
        Kind::Control => CONTROL,
    };
    let ([a, b, c], [d, e, f, g]) = (to.bytes(), number.to_be_bytes());
    [first, a, b, c, d, e, f, g]
}
/// The number in the header of a protected packet.
pub(crate) fn data_number(packet: &[u8]) -> u32 {
    u32::from_be_bytes([packet[4], packet[5], packet[6], packet[7]])
}
/// The session in the header of a protected packet.
#[cfg(test)]
pub(crate) fn data_session(packet: &[u8]) -> SessionIndex {
    SessionIndex::read(&packet[1..])
}

/// Messages between neighbours under a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Control<'a> {
    /// The session is in use.
    Confirm,
    /// This node refuses the other one, and why.
    Refuse(&'a str),
    /// Are you where this packet is sent to?
    Challenge([u8; CHALLENGE_BYTES]),
    /// The same bytes back: I am.
    Answer([u8; CHALLENGE_BYTES]),
    /// What the owners of both ends have for each other.
    Notice(&'a [u8]),
}

/// The longest notice: with its headers it fits into the smallest datagram of all families.
pub const NOTICE_BYTES_MAX: usize = 1_024;

pub(crate) const CHALLENGE_BYTES: usize = 8;
/// The longest reason of a refusal.
pub(crate) const REASON_BYTES_MAX: usize = 200;

impl<'a> Control<'a> {
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Control<'a>> {
        let (kind, rest) = bytes.split_first()?;
        match kind {
            0 if rest.is_empty() => Some(Control::Confirm),
            1 if rest.len() <= REASON_BYTES_MAX => core::str::from_utf8(rest).ok().map(Control::Refuse),
            2 => rest.try_into().ok().map(Control::Challenge),
            3 => rest.try_into().ok().map(Control::Answer),
            4 if rest.len() <= NOTICE_BYTES_MAX => Some(Control::Notice(rest)),
            _ => None,
        }
    }
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Control::Confirm => alloc::vec![0],
            Control::Refuse(reason) => {
                let end = reason.floor_char_boundary(REASON_BYTES_MAX);
                [&[1], &reason.as_bytes()[..end]].concat()
            }
            Control::Challenge(bytes) => [&[2], &bytes[..]].concat(),
            Control::Answer(bytes) => [&[3], &bytes[..]].concat(),
            Control::Notice(bytes) => [&[4], *bytes].concat(),
        }
    }
}

/// What both ends of a handshake mix into it first (Noise, section 6): other versions do not fit.
pub(crate) const PROLOGUE: &[u8] = b"tributary face 1";

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    #[test]
    fn packets_are_as_they_always_were() {
        let (a, b) = (SessionIndex::new(0x010203), SessionIndex::new(0xaabbcc));
        let cookie = Cookie::read(&[7; COOKIE_BYTES]).expect("a cookie");
        let noise = vec![0x11; 32];
        let initiation = Packet::Initiation { from: a, cookie: Some(cookie), noise: &noise };
        let golden = [&[0xd0, 53, 1, 1, 2, 3][..], &[7; 17], &[0x11; 32]].concat();
        assert_eq!((initiation.encode(), Packet::decode(&golden)), (golden.clone(), Some(initiation)));
        let second = vec![0x22; SECOND_BYTES];
        let response = Packet::Response { to: a, from: b, noise: &second };
        let golden = [&[0xd2, 1, 2, 3, 0xaa, 0xbb, 0xcc][..], &[0x22; 96]].concat();
        assert_eq!((response.encode(), Packet::decode(&golden)), (golden.clone(), Some(response)));
        assert_eq!(Packet::Unknown { index: b }.encode(), [0xd7, 3, 0xaa, 0xbb, 0xcc]);
        let golden = [&[0xd1, 20, 1, 2, 3][..], &[7; 17]].concat();
        let cookie_packet = Packet::Cookie { to: a, cookie };
        assert_eq!((cookie_packet.encode(), Packet::decode(&golden)), (golden.clone(), Some(cookie_packet)));
        assert_eq!(data_header(Kind::Data, b, 0x0a0b0c0d), [0xd4, 0xaa, 0xbb, 0xcc, 0x0a, 0x0b, 0x0c, 0x0d]);
    }

    proptest! {
        #[test]
        fn decodes_what_it_encodes_and_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300), kind in 0xcfu8..0xd9) {
            let bytes = [&[kind], &bytes[..]].concat();
            if let Some(packet) = Packet::decode(&bytes) {
                prop_assert!(is_secure(&bytes));
                if !matches!(packet, Packet::Protected { .. }) {
                    prop_assert_eq!(packet.encode(), bytes);
                }
            }
        }
        #[test]
        fn control_decodes_what_it_encodes_and_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Some(control) = Control::decode(&bytes) {
                prop_assert_eq!(control.encode(), bytes);
            }
        }
    }
}
