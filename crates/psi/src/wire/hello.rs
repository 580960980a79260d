//! The hello of neighbours: liveness, two-way check, round-trip time and MTU of one hop.
use alloc::string::String;

use tributary_core::{
    FaceId, NodeId,
    wire::codec::{Of, Optional, Own, Text, U32, U64},
    wire_table,
};

use super::{
    LABEL_BYTES_MAX, WireError, Writer,
    fields::{ANY_NODE, FACE, ROLES},
};
use crate::ids::Roles;

wire_table! {
    /// What a Hello carries behind the common header (type Hello, empty FID) and before its authentication code.
    ///
    /// ```text
    /// node 8 | nonce 8 | face 4 | roles 1 | label 2+n | sent 8 | heard 0 or 1
    /// | if heard: node 8, nonce 8, face 4, their time 8, its age 4, largest datagram 4
    /// | padding 2+n zeros
    /// ```
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Hello {
        /// The sender.
        pub node: NodeId = ANY_NODE => "node id",
        /// Secret that the sender drew for this face in this run: only a node that receives hellos on it can echo it,
        /// and without it a node cannot act for the sender here.
        pub nonce: u64 = U64 => "nonce",
        /// The face that the sender sent it on, in the sender's numbering.
        pub face: FaceId = FACE => "face",
        /// What the sender is.
        pub roles: Roles = ROLES => "roles",
        /// The sender's human-readable name, at most 32 bytes.
        pub label: String = Text(LABEL_BYTES_MAX) => "label",
        /// The sender's clock, in microseconds.
        pub sent_us: u64 = U64 => "time sent",
        /// The neighbour last heard on this face; `None` without a recent one.
        pub heard: Option<Heard> = Optional(Own) => "heard",
        /// Zeros that fill the datagram up to the size that is probed.
        pub padding_bytes: u16 = PADDING => "padding",
    }
}

wire_table! {
    /// What one side of a link heard from the other.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Heard {
        /// Who.
        pub node: NodeId = ANY_NODE => "heard node id",
        /// With which nonce.
        pub nonce: u64 = U64 => "heard nonce",
        /// From which face of theirs.
        pub face: FaceId = FACE => "heard face",
        /// Their clock in their last hello, in microseconds.
        pub echo_us: u64 = U64 => "echo",
        /// How long ago that hello arrived, in microseconds.
        pub age_us: u32 = U32 => "age of echo",
        /// The largest datagram that arrived from them lately, in bytes: proof that the link carries it.
        pub received_bytes_max: u32 = U32 => "largest datagram",
    }
}

const PADDING: Of<u16> = Of(
    |reader, field| {
        let padding = reader.blob(field, usize::from(u16::MAX))?;
        match padding.iter().find(|byte| **byte != 0) {
            Some(found) => Err(WireError::Value { field, found: u64::from(*found) }),
            None => Ok(u16::try_from(padding.len()).unwrap_or(u16::MAX)),
        }
    },
    |padding, out| {
        out.put_u16(*padding);
        out.resize(out.len() + usize::from(*padding), 0);
    },
);
