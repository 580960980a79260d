//! The packets of the MobilityFirst family. Parsing is total: any bytes yield a packet or a [`WireError`], never a
//! panic, and parsed packets re-emit byte for byte.
//!
//! Five kinds of packet cross a link, distinguished by the first byte (version in the high nibble, kind in the low
//! one):
//!
//! | kind | packet | module |
//! |---|---|---|
//! | 1 | Hello: greets and probes a neighbour | [`hello`] |
//! | 2 | Data: a fragment of a chunk | [`hop`] |
//! | 3 | CSYN: queries which packets of a chunk have arrived | [`hop`] |
//! | 4 | CACK: the answer, with the advertised window | [`hop`] |
//! | 5 | MTU: probes whether datagrams of a size arrive, and answers | [`mtu`] |
//!
//! Everything else is a chunk: fragment 0 starts with a [`ChunkHeader`], which identifies its flow and its payload:
//! data of an object, a [transport message](transport), a [message about names](names), or [link state](routing). So
//! all of these have the reliability of the hop link, and none needs another.
// A number truncated on its way into or out of a packet would make another packet of it.
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]
pub mod chunk;
pub(crate) mod fields;
#[cfg(test)]
mod golden_tests;
pub mod hello;
pub mod hop;
mod mac;
pub mod mtu;
pub mod names;
pub mod routing;
pub mod transport;

pub use chunk::{ADDRESSES_MAX, ChunkHeader, ChunkKind, DataTag, Flags, Reliability};
pub use hello::{Hello, Probe, Roles};
pub use hop::{CHUNK_PACKETS_MAX, Cack, CackState, Class, Csyn, DataHeader};
pub use mac::{MAC_BYTES, OPEN_KEY, seal, unseal};
pub use mtu::MtuMessage;
pub use names::{
    BUCKETS, Holding, NameMessage, NameRecord, RECORD_SPAN, Readers, RecordBody, RecordKey, Refusal, SealedHead,
    Statement, bucket_of,
};
pub use routing::{Adjacency, LinkState};
pub use transport::{ChunkRanges, CustodyState, TransportBody, TransportMessage};
use tributary_core::wire::{Reader, Writer};
pub use tributary_core::wire::{Wire, WireError};

/// The version of the wire format.
pub const VERSION: u8 = 4;
/// Maximum bytes of a node's human-readable name.
pub const LABEL_BYTES_MAX: usize = 32;

/// What a packet on a link is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PacketType {
    /// Greets and probes a neighbour.
    Hello = 1,
    /// A fragment of a chunk.
    Data = 2,
    /// Queries which packets of a chunk have arrived.
    Csyn = 3,
    /// Acknowledges the arrived packets of a chunk.
    Cack = 4,
    /// Probes whether datagrams of a size arrive, or answers.
    Mtu = 5,
}

impl PacketType {
    /// The kind of the packet that starts with this byte.
    ///
    /// # Errors
    /// [`WireError::Version`] or [`WireError::Value`] for an unknown kind.
    pub fn of(first: u8) -> Result<PacketType, WireError> {
        if first >> 4 != VERSION {
            return Err(WireError::Version { found: first >> 4, known: VERSION });
        }
        Ok(match first & 0x0f {
            1 => PacketType::Hello,
            2 => PacketType::Data,
            3 => PacketType::Csyn,
            4 => PacketType::Cack,
            5 => PacketType::Mtu,
            found => return Err(WireError::Value { field: "packet type", found: u64::from(found) }),
        })
    }
    /// The first byte of a packet of this kind.
    pub fn first_byte(self) -> u8 {
        VERSION << 4 | self as u8
    }
    fn expect(self, reader: &mut Reader<'_>) -> Result<(), WireError> {
        let first = reader.u8("packet type")?;
        match PacketType::of(first)? {
            found if found == self => Ok(()),
            found => Err(WireError::Value { field: "packet type", found: found as u64 }),
        }
    }
}
