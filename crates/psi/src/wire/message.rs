//! Every control message.
use alloc::vec::Vec;

use super::{
    ClientRequest, Digest, Forward, LinkState, Offer, Overtaken, PathRequest, Reader, Refused, Relay, Replicate, Reply,
    Routes, ScopeNotice, WireError,
};

/// The most bytes of one message; longer ones cannot be sent and are refused.
pub const MESSAGE_BYTES_MAX: usize = 65_535;

/// A control message: what travels reliably between two nodes, in one or more control packets.
///
/// On the wire: kind 1, then the fields of the message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Node to topology manager: its links.
    LinkState(LinkState),
    /// Topology manager to node: how to reach the rendezvous nodes.
    Routes(Routes),
    /// Rendezvous node to topology manager: the publishers matched with a subscriber.
    PathRequest(PathRequest),
    /// Topology manager to subscriber: paths to one source.
    Offer(Offer),
    /// Host to rendezvous node: publish, subscribe and their like.
    Request(ClientRequest),
    /// The answer to a [`Message::Request`], [`Message::Forward`], [`Message::Replicate`] or [`Message::Sync`].
    Reply(Reply),
    /// Rendezvous node to subscriber of a scope.
    ScopeNotice(ScopeNotice),
    /// Rendezvous node to the responsible one: a request of a host.
    Forward(Forward),
    /// Rendezvous node to rendezvous node: state to keep.
    Replicate(Replicate),
    /// Rendezvous node to rendezvous node: send me all records for which I am responsible.
    Sync {
        /// The number that the sender waits for.
        request: u32,
    },
    /// Rendezvous node to rendezvous node: fingerprints, to find what differs.
    Digest(Digest),
    /// Rendezvous node to rendezvous node: a notice for a subscriber that talks to the latter.
    Relay(Relay),
    /// Rendezvous node to rendezvous node: I have taken over my records, as of my [`Message::Sync`] to you.
    Ready {
        /// The number of that.
        request: u32,
    },
    /// Topology manager to rendezvous node: entries of a [`Message::PathRequest`] that are older than those it knows.
    Overtaken(Overtaken),
    /// Topology manager to node: something is refused.
    Refused(Refused),
}

impl Message {
    /// Reads the message in `bytes`.
    ///
    /// # Errors
    /// [`WireError`] names the field and its error.
    pub fn decode(bytes: &[u8]) -> Result<Message, WireError> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8("message kind")?;
        let message = match kind {
            1 => return LinkState::decode(reader.rest()).map(Message::LinkState),
            2 => return Routes::decode(reader.rest()).map(Message::Routes),
            3 => return PathRequest::decode(reader.rest()).map(Message::PathRequest),
            4 => return Offer::decode(reader.rest()).map(Message::Offer),
            5 => Message::Request(ClientRequest::decode(&mut reader)?),
            6 => Message::Reply(Reply::decode(&mut reader)?),
            7 => Message::ScopeNotice(ScopeNotice::decode(&mut reader)?),
            8 => Message::Forward(Forward::decode(&mut reader)?),
            9 => Message::Replicate(Replicate::decode(&mut reader)?),
            10 => Message::Sync { request: reader.u32("request")? },
            11 => Message::Digest(Digest::decode(&mut reader)?),
            12 => Message::Relay(Relay::decode(&mut reader)?),
            15 => Message::Refused(Refused::decode(&mut reader)?),
            14 => Message::Ready { request: reader.u32("request")? },
            13 => return Overtaken::decode(reader.rest()).map(Message::Overtaken),
            found => return Err(WireError::Value { field: "message kind", found: found.into() }),
        };
        reader.end()?;
        Ok(message)
    }
    /// Appends the message to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let at = out.len();
        out.push(0);
        out[at] = match self {
            Message::LinkState(inner) => {
                inner.encode(out);
                1
            }
            Message::Routes(inner) => {
                inner.encode(out);
                2
            }
            Message::PathRequest(inner) => {
                inner.encode(out);
                3
            }
            Message::Offer(inner) => {
                inner.encode(out);
                4
            }
            Message::Request(inner) => {
                inner.encode(out);
                5
            }
            Message::Reply(inner) => {
                inner.encode(out);
                6
            }
            Message::ScopeNotice(inner) => {
                inner.encode(out);
                7
            }
            Message::Forward(inner) => {
                inner.encode(out);
                8
            }
            Message::Replicate(inner) => {
                inner.encode(out);
                9
            }
            Message::Sync { request } => {
                out.extend_from_slice(&request.to_be_bytes());
                10
            }
            Message::Digest(inner) => {
                inner.encode(out);
                11
            }
            Message::Relay(inner) => {
                inner.encode(out);
                12
            }
            Message::Overtaken(inner) => {
                inner.encode(out);
                13
            }
            Message::Refused(inner) => {
                inner.encode(out);
                15
            }
            Message::Ready { request } => {
                out.extend_from_slice(&request.to_be_bytes());
                14
            }
        };
    }
}

#[cfg(test)]
pub(crate) mod tests;
