//! Echo requests and their answers: reachability and delay of a name, and the nodes on the way to it. The semantics are
//! from ICN ping (RFC 9508) and ICN traceroute (RFC 9507); numbers of elements and codes are this program's.
//!
//! ```text
//!  Interest  /prefix/NONCE/32=ping          MustBeFresh; the nonce, 8 bytes, makes each request a name of its own, so
//!            /prefix/NONCE/32=traceroute    that none is aggregated and none is answered by what another one brought
//!                                           HopLimit counts down; who counts it to zero answers
//!  Data      the same name, no freshness    so that no cache answers for it later
//!            └─ Content {0xf600 ReplyCode, 0xf602 Responder (UTF-8)}
//! ```
//! Paths are chosen by path tags in link packets and recorded in them, as for every probing Interest; see [`super::tag`].
use alloc::vec::Vec;

use tributary_content::{Name, NameError};

use super::{
    NameView, WireError,
    tlv::{Sequence, Writer},
    types,
};

/// Bytes of the nonce in the name.
pub const NONCE_BYTES: usize = 8;
/// Maximum bytes of a responder's name.
pub const RESPONDER_BYTES_MAX: usize = 64;

const REPLY_CODE: u32 = 0xf600;
const RESPONDER: u32 = 0xf602;
const PING: &[u8] = b"ping";
const TRACEROUTE: &[u8] = b"traceroute";

/// The purpose of an echo request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Purpose {
    /// Whether the name can be reached. RFC 9508.
    Ping,
    /// The nodes on the way there. RFC 9507.
    Traceroute,
}

impl Purpose {
    fn word(self) -> &'static [u8] {
        match self {
            Purpose::Ping => PING,
            Purpose::Traceroute => TRACEROUTE,
        }
    }
}

/// An echo request, decoded from its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EchoRequest<'a> {
    /// The name to reach.
    pub target: NameView<'a>,
    /// Distinguishes requests for one target.
    pub nonce: [u8; NONCE_BYTES],
    /// What for.
    pub purpose: Purpose,
}

impl<'a> EchoRequest<'a> {
    /// Reads the name of an Interest or Data; `None` if it names no echo request.
    pub fn of(name: NameView<'a>) -> Option<Self> {
        let last = name.last().filter(|last| last.kind == types::KEYWORD)?;
        let purpose = match last.value {
            PING => Purpose::Ping,
            TRACEROUTE => Purpose::Traceroute,
            _ => return None,
        };
        let with_nonce = name.parent();
        let nonce = with_nonce.last().filter(|nonce| nonce.kind == types::GENERIC)?;
        Some(EchoRequest { target: with_nonce.parent(), nonce: nonce.value.try_into().ok()?, purpose })
    }
    /// The name of the request for `target`.
    ///
    /// # Errors
    /// [`NameError`] if it gets too long.
    pub fn name(target: &Name, nonce: [u8; NONCE_BYTES], purpose: Purpose) -> Result<Name, NameError> {
        target.child(&nonce)?.typed_child(types::KEYWORD, purpose.word())
    }
}

/// Why a node answers an echo request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ReplyCode {
    /// The target is the node's own name.
    Forwarder,
    /// An application on the node serves the target.
    Application,
    /// The target is in the node's content store.
    Object,
    /// The hop limit ends here.
    HopLimit,
}

impl ReplyCode {
    /// All codes with their numbers.
    pub const ALL: [(u64, ReplyCode); 4] =
        [(1, ReplyCode::Forwarder), (2, ReplyCode::Application), (3, ReplyCode::Object), (4, ReplyCode::HopLimit)];

    /// Its number on the wire.
    pub fn number(self) -> u64 {
        match self {
            ReplyCode::Forwarder => 1,
            ReplyCode::Application => 2,
            ReplyCode::Object => 3,
            ReplyCode::HopLimit => 4,
        }
    }
}

/// The content of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EchoReply<'a> {
    /// Why this node answers.
    pub code: ReplyCode,
    /// How it calls itself.
    pub responder: &'a str,
}

impl<'a> EchoReply<'a> {
    /// Reads the content of a Data.
    ///
    /// # Errors
    /// [`WireError`] names the element and its error.
    pub fn decode(content: &'a [u8]) -> Result<Self, WireError> {
        let mut sequence = Sequence::new("EchoReply", content, &[REPLY_CODE, RESPONDER]);
        let (mut code, mut responder) = (None, None);
        while let Some(element) = sequence.element()? {
            if element.kind == REPLY_CODE {
                let found = sequence.integer("EchoReplyCode", &element)?;
                let known = ReplyCode::ALL.iter().find(|(number, _)| *number == found);
                code = Some(known.ok_or(WireError::Value("EchoReplyCode", found))?.1);
            } else {
                let wrong = WireError::Length("EchoResponder", element.value.len());
                let text = core::str::from_utf8(element.value).ok();
                responder = Some(text.filter(|text| text.len() <= RESPONDER_BYTES_MAX).ok_or(wrong)?);
            }
        }
        Ok(EchoReply {
            code: code.ok_or(WireError::Missing("EchoReplyCode"))?,
            responder: responder.ok_or(WireError::Missing("EchoResponder"))?,
        })
    }
    /// The content of a Data. A name that is too long is cut.
    pub fn encode(&self) -> Vec<u8> {
        let mut end = self.responder.len().min(RESPONDER_BYTES_MAX);
        while !self.responder.is_char_boundary(end) {
            end -= 1;
        }
        let mut out = Vec::with_capacity(16 + end);
        out.put_integer(REPLY_CODE, self.code.number());
        out.put_element(RESPONDER, &self.responder.as_bytes()[..end]);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::hex;

    #[test]
    fn requests_are_told_by_their_names_and_nothing_else_is_one() {
        let target: Name = "/lab/file".parse().unwrap();
        for purpose in [Purpose::Ping, Purpose::Traceroute] {
            let name = EchoRequest::name(&target, *b"\0\x01\x02\x03\x04\x05\x06\x07", purpose).unwrap();
            let read = EchoRequest::of(NameView::from(&name)).unwrap();
            assert_eq!((read.target.to_name(), read.nonce[7], read.purpose), (Ok(target.clone()), 7, purpose));
        }
        let golden = EchoRequest::name(&"/a".parse().unwrap(), [0xee; 8], Purpose::Ping).unwrap();
        assert_eq!(hex(golden.as_tlv()), "080161 0808eeeeeeeeeeeeeeee 200470696e67".replace(' ', ""));
        for other in ["/ping", "/a/ping", "/32=ping", "/a/1234567/32=ping", "/a/12345678/32=pong", "/a/12345678/ping"] {
            let other: Name = other.parse().unwrap();
            assert_eq!(EchoRequest::of(NameView::from(&other)), None, "{other}");
        }
        let root: Name = "/12345678/32=ping".parse().unwrap();
        assert_eq!(EchoRequest::of(NameView::from(&root)).map(|request| request.target), Some(NameView::ROOT));
    }

    #[test]
    fn answers_come_back_and_malformed_ones_are_refused() {
        for (_, code) in ReplyCode::ALL {
            let reply = EchoReply { code, responder: "north" };
            assert_eq!(EchoReply::decode(&reply.encode()), Ok(reply));
        }
        let golden = EchoReply { code: ReplyCode::Object, responder: "n1" }.encode();
        assert_eq!(hex(&golden), "fdf6000103 fdf602026e31".replace(' ', ""));
        let long = alloc::string::String::from_utf8(alloc::vec![b'x'; 63]).unwrap() + "é";
        let cut = EchoReply { code: ReplyCode::Forwarder, responder: &long }.encode();
        assert_eq!(EchoReply::decode(&cut).map(|reply| reply.responder.len()), Ok(63));
        let decode = |bytes: &[u8]| EchoReply::decode(bytes).map(|_| ()).map_err(|error| error.reason());
        assert_eq!(decode(&golden[..5]), Err("malformed: element missing"));
        assert_eq!(decode(&golden[5..]), Err("malformed: element missing"));
        assert_eq!(decode(&[&[0xfd, 0xf6, 0, 1, 9][..], &golden[5..]].concat()), Err("malformed: illegal value"));
        assert_eq!(decode(&[&golden[..5], &[0xfd, 0xf6, 2, 1, 0xff][..]].concat()), Err("malformed: illegal length"));
        let too_long = [&golden[..5], &[0xfd, 0xf6, 2, 65][..], &[b'x'; 65]].concat();
        assert_eq!(decode(&too_long), Err("malformed: illegal length"));
    }
}
