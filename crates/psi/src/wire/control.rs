//! The reliable control packet: one fragment of a message, or an acknowledgement.
use alloc::vec::Vec;

use tributary_core::NodeId;
use tributary_trust::Certificate;

use super::{Fid, Fields, Reader, WireError, Writer};

/// Maximum fragments of a message.
pub const FRAGMENTS_MAX: usize = 128;

/// A control packet, behind the common header whose FID is the route to the receiver.
///
/// ```text
/// from 8 | to 8 | boot 4 | message id 4 | kind 1 | ...
///   kind 0, fragment:  index 1 | count - 1, 1 | reply FID (kind and length 1, salt 1, bytes) | payload | MAC 8
///   kind 1, ack:       bitmap of fragments received 16 | MAC 8
///   kind 2, introduction: certificate or key of the sender | MAC 8
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ControlPacket<'a> {
    /// Who sent this packet.
    pub from: NodeId,
    /// Its receiver; other nodes that it reaches by a false positive drop it.
    pub to: NodeId,
    /// Identifies the run of the node that sent this message: of `from` in a fragment, of `to` in an ack.
    pub boot: u32,
    /// The number of the message of that boot.
    pub message: u32,
    /// The rest.
    pub body: ControlBody<'a>,
}

/// What a control packet carries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ControlBody<'a> {
    /// A piece of a message.
    Fragment {
        /// Which piece, less than `count`.
        index: u8,
        /// The number of pieces, 1 to [`FRAGMENTS_MAX`].
        count: u8,
        /// The route back to the sender; [`Fid::NONE`] if it has no route, and then no ack is expected.
        reply: Fid,
        /// Its bytes.
        payload: &'a [u8],
    },
    /// Who the sender is, in a network with an authority.
    Introduction {
        /// Its certificate, or its key of 32 bytes without one.
        credential: &'a [u8],
    },
    /// Which fragments have arrived: bit `i` for fragment `i`.
    Ack {
        /// The bitmap.
        received: u128,
    },
}

impl<'a> ControlPacket<'a> {
    /// Reads the packet in `bytes`, from which [`super::unseal`] removed the code.
    ///
    /// # Errors
    /// [`WireError`] names the field and its error.
    pub fn decode(bytes: &'a [u8]) -> Result<ControlPacket<'a>, WireError> {
        let mut reader = Reader::new(bytes);
        let from = node_id(&mut reader, "from")?;
        let to = node_id(&mut reader, "to")?;
        let boot = reader.u32("boot")?;
        let message = reader.u32("message id")?;
        let body = match reader.u8("control kind")? {
            0 => {
                let index = reader.u8("fragment index")?;
                let last = reader.u8("fragment count")?;
                if usize::from(last) >= FRAGMENTS_MAX {
                    return Err(WireError::Value { field: "fragment count", found: u64::from(last) + 1 });
                }
                if index > last {
                    return Err(WireError::Value { field: "fragment index", found: index.into() });
                }
                let reply = reader.fid("reply FID")?;
                ControlBody::Fragment { index, count: last + 1, reply, payload: reader.rest() }
            }
            1 => {
                let received = u128::from_be_bytes(reader.array("received fragments")?);
                reader.end()?;
                ControlBody::Ack { received }
            }
            2 => match reader.rest() {
                credential if (32..=Certificate::BYTES_MAX).contains(&credential.len()) => {
                    ControlBody::Introduction { credential }
                }
                other => return Err(WireError::Value { field: "introduction", found: other.len() as u64 }),
            },
            found => return Err(WireError::Value { field: "control kind", found: found.into() }),
        };
        Ok(ControlPacket { from, to, boot, message, body })
    }
    /// Appends the packet to `out`, without the code at the end.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.from.0);
        out.put_u64(self.to.0);
        out.put_u32(self.boot);
        out.put_u32(self.message);
        match &self.body {
            ControlBody::Fragment { index, count, reply, payload } => {
                out.extend_from_slice(&[0, *index, count - 1]);
                reply.encode(out);
                out.extend_from_slice(payload);
            }
            ControlBody::Introduction { credential } => {
                out.put_u8(2);
                out.extend_from_slice(credential);
            }
            ControlBody::Ack { received } => {
                out.put_u8(1);
                out.extend_from_slice(&received.to_be_bytes());
            }
        }
    }
}

/// Reads the id of a node, which is never zero.
pub(crate) fn node_id(reader: &mut Reader<'_>, field: &'static str) -> Result<NodeId, WireError> {
    match reader.u64(field)? {
        0 => Err(WireError::Value { field, found: 0 }),
        id => Ok(NodeId(id)),
    }
}
