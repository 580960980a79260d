//! Every control message.
use alloc::vec::Vec;

use tributary_core::{
    wire::codec::{COUNT_MAX, Messages, Own, U32},
    wire_table,
};

use super::{
    ClientRequest, Digest, Forward, LinkState, Offer, Operation, Overtaken, PathRequest, Refused, Relay, Renewal,
    Renewed, Replicate, Reply, Routes, ScopeNotice, Wire, Writer,
};

/// The most bytes of one message; longer ones cannot be sent and are refused.
pub const MESSAGE_BYTES_MAX: usize = 65_535;
/// Maximum bytes of a [`Message::Many`]: a few dozen publications. Longer ones would only fill the receiver's buffer
/// for incomplete messages.
pub const MANY_BYTES_MAX: usize = 16 << 10;

wire_table! {
    /// A control message, which travels reliably between two nodes in one or more control packets.
    ///
    /// On the wire: kind 1, then the fields of the message.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Message("message kind") {
        /// Node to topology manager: its links.
        1 => LinkState(inner: LinkState = Own => "link state"),
        /// Topology manager to node: how to reach the rendezvous nodes.
        2 => Routes(inner: Routes = Own => "routes"),
        /// Rendezvous node to topology manager: the publishers matched with a subscriber.
        3 => PathRequest(inner: PathRequest = Own => "path request"),
        /// Topology manager to subscriber: paths to one source.
        4 => Offer(inner: Offer = Own => "offer"),
        /// Host to rendezvous node: publish, subscribe and their like.
        5 => Request(inner: ClientRequest = Own => "request"),
        /// The answer to a [`Message::Request`], [`Message::Forward`], [`Message::Replicate`] or [`Message::Sync`].
        6 => Reply(inner: Reply = Own => "reply"),
        /// Rendezvous node to subscriber of a scope.
        7 => ScopeNotice(inner: ScopeNotice = Own => "notice"),
        /// Rendezvous node to the responsible one: a request of a host.
        8 => Forward(inner: Forward = Own => "request"),
        /// Rendezvous node to rendezvous node: state to keep.
        9 => Replicate(inner: Replicate = Own => "records"),
        /// Rendezvous node to rendezvous node: send me all records for which I am responsible.
        10 => Sync {
            /// The number that the sender waits for.
            request: u32 = U32 => "request",
        },
        /// Rendezvous node to rendezvous node: fingerprints, to find differences.
        11 => Digest(inner: Digest = Own => "digest"),
        /// Rendezvous node to rendezvous node: a notice for a subscriber that talks to the latter.
        12 => Relay(inner: Relay = Own => "notice"),
        /// Rendezvous node to rendezvous node: I have taken over my records, as of my [`Message::Sync`] to you.
        14 => Ready {
            /// The number of that.
            request: u32 = U32 => "request",
        },
        /// Topology manager to rendezvous node: entries of a [`Message::PathRequest`] that are older than its own.
        13 => Overtaken(inner: Overtaken = Own => "overtaken entries"),
        /// Topology manager to node: something is refused.
        15 => Refused(inner: Refused = Own => "refusal"),
        /// Host to rendezvous node, and on to the holders of its records: all its publications are still valid.
        16 => Renewal(inner: Renewal = Own => "renewal"),
        /// The answer to that.
        17 => Renewed(inner: Renewed = Own => "renewed"),
        /// Several messages at once, without nesting: count 2, then the length 2 and the bytes of each.
        18 => Many(all: Vec<Message> = Messages(COUNT_MAX, MANY) => "messages"),
    }
}

impl Message {
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
    /// Combines messages for one receiver into as few units of [`MANY_BYTES_MAX`] as possible, in their order; bulk and
    /// urgent ones are kept apart.
    pub fn join(messages: Vec<Message>) -> Vec<Message> {
        if messages.len() < 2 {
            return messages;
        }
        let mut joined: Vec<Vec<Message>> = Vec::new();
        // The open unit of either class, and its free bytes.
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

/// The kind of [`Message::Many`].
const MANY: u8 = 18;

#[cfg(test)]
pub(crate) mod tests;
