//! Every control message.
use alloc::vec::Vec;

use tributary_core::{
    wire::codec::{Own, U32},
    wire_table,
};

use super::{
    ClientRequest, Digest, Forward, LinkState, Offer, Operation, Overtaken, PathRequest, Reader, Refused, Relay,
    Renewal, Renewed, Replicate, Reply, Routes, ScopeNotice, Wire, WireError, Writer,
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
        Wire::decode(bytes)
    }
    /// Appends the message to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        Wire::encode(self, out);
    }
    fn read_many(kind: u8, reader: &mut Reader<'_>) -> Result<Message, WireError> {
        if kind != MANY {
            return Err(WireError::Value { field: "message kind", found: kind.into() });
        }
        let count = reader.u16("messages")?;
        // Each has two bytes of length at least.
        if usize::from(count) > reader.rest().len() / 2 {
            return Err(WireError::Value { field: "messages", found: count.into() });
        }
        let each = |_| match reader.blob("message", MESSAGE_BYTES_MAX)? {
            [MANY, ..] => Err(WireError::Value { field: "message kind", found: MANY.into() }),
            bytes => Message::decode(bytes),
        };
        (0..count).map(each).collect::<Result<_, _>>().map(Message::Many)
    }
    fn encode_many(&self, out: &mut Vec<u8>) {
        let Message::Many(all) = self else { return };
        out.put_u8(MANY);
        out.put_count16(all.len());
        for message in all {
            let mut bytes = Vec::with_capacity(256);
            message.encode(&mut bytes);
            out.put_blob(&bytes);
        }
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

wire_table!(enum Message "message kind" {
    1 => LinkState(inner: Own => "link state")
    2 => Routes(inner: Own => "routes")
    3 => PathRequest(inner: Own => "path request")
    4 => Offer(inner: Own => "offer")
    5 => Request(inner: Own => "request")
    6 => Reply(inner: Own => "reply")
    7 => ScopeNotice(inner: Own => "notice")
    8 => Forward(inner: Own => "request")
    9 => Replicate(inner: Own => "records")
    10 => Sync { request: U32 => "request" }
    11 => Digest(inner: Own => "digest")
    12 => Relay(inner: Own => "notice")
    13 => Overtaken(inner: Own => "overtaken entries")
    14 => Ready { request: U32 => "request" }
    15 => Refused(inner: Own => "refusal")
    16 => Renewal(inner: Own => "renewal")
    17 => Renewed(inner: Own => "renewed")
} else Message::read_many, Message::encode_many);

/// The kind of [`Message::Many`].
const MANY: u8 = 18;

#[cfg(test)]
pub(crate) mod tests;
