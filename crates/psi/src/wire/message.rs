//! Every control message.
use alloc::vec::Vec;

use super::{
    ClientRequest, Digest, Forward, LinkState, Offer, Operation, Overtaken, PathRequest, Reader, Refused, Relay,
    Renewal, Renewed, Replicate, Reply, Routes, ScopeNotice, WireError, Writer,
};

/// The most bytes of one message; longer ones cannot be sent and are refused.
pub const MESSAGE_BYTES_MAX: usize = 65_535;
/// Bytes of messages that are sent as one [`Message::Many`]: a few dozen publications. Longer ones would only fill the
/// receiver's room for incomplete messages.
pub const MANY_BYTES_MAX: usize = 16 << 10;

/// A control message, which travels reliably between two nodes in one or more control packets.
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
    /// Rendezvous node to rendezvous node: fingerprints, to find differences.
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
    /// Host to rendezvous node, and on to the holders of its records: all its publications still stand.
    Renewal(Renewal),
    /// The answer to that.
    Renewed(Renewed),
    /// Several messages at once, without nesting: count 2, then the length 2 and the bytes of each.
    Many(Vec<Message>),
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
            16 => Message::Renewal(Renewal::decode(&mut reader)?),
            17 => Message::Renewed(Renewed::decode(&mut reader)?),
            MANY => {
                let count = reader.u16("messages")?;
                // Each has two bytes of length at least.
                if usize::from(count) > reader.rest().len() / 2 {
                    return Err(WireError::Value { field: "messages", found: count.into() });
                }
                let mut all = Vec::new();
                for _ in 0..count {
                    let bytes = reader.blob("message", MESSAGE_BYTES_MAX)?;
                    if bytes.first() == Some(&MANY) {
                        return Err(WireError::Value { field: "message kind", found: MANY.into() });
                    }
                    all.push(Message::decode(bytes)?);
                }
                Message::Many(all)
            }
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
            Message::Renewal(inner) => {
                inner.encode(out);
                16
            }
            Message::Renewed(inner) => {
                inner.encode(out);
                17
            }
            Message::Many(all) => {
                encode_many(all, out);
                MANY
            }
        };
    }
    /// Whether it may wait behind others: publications are bulk, because they are many, while a client waits for the
    /// answer to a subscription.
    pub fn is_bulk(&self) -> bool {
        let is_bulk = |operation: &Operation| {
            matches!(operation, Operation::Publish { .. } | Operation::PublishScope { .. } | Operation::SetChild { .. })
        };
        match self {
            Message::Request(request) => is_bulk(&request.operation),
            Message::Forward(forward) => is_bulk(&forward.inner.operation),
            Message::Replicate(_) | Message::Digest(_) => true,
            Message::Many(all) => all.iter().all(Message::is_bulk),
            _ => false,
        }
    }
    /// The messages that it is.
    pub fn each(self) -> Vec<Message> {
        match self {
            Message::Many(all) => all,
            one => Vec::from([one]),
        }
    }
    /// Bytes of a [`Message::Many`] before its parts.
    pub(crate) const MANY_HEAD_BYTES: usize = 3;
    /// The encoding of a [`Message::Many`] of `count` messages, with the length and bytes of each in `parts`.
    pub(crate) fn many_of_parts(count: u16, parts: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::MANY_HEAD_BYTES + parts.len());
        bytes.push(MANY);
        bytes.put_u16(count);
        bytes.extend_from_slice(parts);
        bytes
    }
    /// Joins messages for one receiver into as few as there are units of [`MANY_BYTES_MAX`], in their order; those that
    /// may wait and those that may not are kept apart.
    pub fn join(messages: Vec<Message>) -> Vec<Message> {
        if messages.len() < 2 {
            return messages;
        }
        let mut joined: Vec<Vec<Message>> = Vec::new();
        // Which of them the next one of either class goes into, and how many bytes of it are left.
        let mut open: [Option<(usize, usize)>; 2] = [None; 2];
        let mut bytes = Vec::new();
        for message in messages {
            bytes.clear();
            message.encode(&mut bytes);
            let (class, needs) = (usize::from(message.is_bulk()), bytes.len() + 2);
            match open[class].as_mut().filter(|(_, left)| needs <= *left) {
                Some((at, left)) => {
                    *left -= needs;
                    joined[*at].push(message);
                }
                None => {
                    open[class] = Some((joined.len(), MANY_BYTES_MAX.saturating_sub(needs)));
                    joined.push(Vec::from([message]));
                }
            }
        }
        let single = |mut all: Vec<Message>| match all.len() {
            1 => all.pop(),
            _ => Some(Message::Many(all)),
        };
        joined.into_iter().filter_map(single).collect()
    }
}

fn encode_many(all: &[Message], out: &mut Vec<u8>) {
    out.put_count16(all.len());
    for message in all {
        let mut bytes = Vec::with_capacity(256);
        message.encode(&mut bytes);
        out.put_blob(&bytes);
    }
}

/// The kind of [`Message::Many`].
const MANY: u8 = 18;

#[cfg(test)]
pub(crate) mod tests;
