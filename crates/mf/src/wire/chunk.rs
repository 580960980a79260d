//! The header of a chunk: once per chunk, at the front of its packet 0 (reference/mobilityfirst, layouts).
use alloc::vec::Vec;
use core::ops::BitOrAssign;

use tributary_content::ObjectId;
use tributary_core::{
    bit_set,
    wire::{
        Codec, Wire,
        codec::{Of, U16, U32},
    },
    wire_table,
};
use tributary_transport::messaging::InNetwork;
pub use tributary_transport::messaging::Reliability;

use super::{
    Reader, WireError, Writer,
    fields::{ADDRESS, GUID, PLACE},
    transport::{CHUNK_BYTES, OBJECT, RELIABILITY},
};
use crate::ids::{ChunkKey, Custodian, Flow, Guid, NetworkAddress, ServiceId, Token};
use crate::sender::is_pushed;

/// Maximum addresses of a destination.
pub const ADDRESSES_MAX: usize = 10;
/// Bytes of the longest chunk header.
#[cfg(test)]
pub const CHUNK_HEADER_BYTES_MAX: usize = 60 + 4 * ADDRESSES_MAX + DataTag::BYTES + Custodian::BYTES;
/// Maximum routers on a chunk's way.
pub const HOPS_MAX: u8 = 64;
/// Maximum bytes of a chunk's payload.
pub const CHUNK_BYTES_MAX: u32 = 8 << 20;

/// Options of a chunk, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(u8);

impl Flags {
    /// None.
    pub const NONE: Flags = Flags(0);
    /// Asks the access router to keep a copy and answer for the producer (paper §3.3).
    pub const DELEGATE: Flags = Flags(1);
    /// Forbids storage on the way; chunks that cannot be forwarded are dropped.
    pub const NO_PROXY: Flags = Flags(2);
    /// A request that caches and storage must not answer; data that answers one, and replaces older copies.
    pub const NO_CACHE: Flags = Flags(4);
    /// A cache sent it.
    pub const CACHED: Flags = Flags(8);
    /// Sent again.
    pub const REPEATED: Flags = Flags(16);
    /// Storage on the way sends it in the name of its source.
    pub const STORED: Flags = Flags(32);
    /// On the wire alone: the header ends with its [`custodian`](ChunkHeader::custodian).
    const CUSTODY: u8 = 64;

    /// The storage on the way that a request or chunk demands, if any.
    pub fn in_network(self) -> Option<InNetwork> {
        let marked = [InNetwork::Nothing, InNetwork::Delegate];
        marked.into_iter().find(|storage| self.contains(Flags::from(*storage)))
    }
}
bit_set!(Flags, 63);
impl From<InNetwork> for Flags {
    /// The flags of a chunk; those of a request apply to the chunks that answer it.
    fn from(in_network: InNetwork) -> Flags {
        match in_network {
            InNetwork::Store => Flags::NONE,
            InNetwork::Delegate => Flags::DELEGATE,
            InNetwork::Nothing => Flags::NO_PROXY,
        }
    }
}
impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Flags) {
        self.0 |= other.0;
    }
}

wire_table! {
    /// The transport header of a chunk of an object (paper §3.1): sequence numbers belong to the content, not to the ends.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct DataTag {
        /// The object.
        pub object: ObjectId = OBJECT => "object id",
        /// The transfer's number: the requester's choice for fetched content, the sender's for a push.
        pub transfer: u32 = U32 => "transfer",
        /// The token that messages about the transfer must show.
        pub token: Token = TOKEN => "token",
        /// The chunk's number: 0 is the manifest with the hash list, chunk `n` the object's bytes from
        /// `(n - 1) · chunk_bytes` on.
        pub number: u32 = U32 => "chunk number",
        /// Chunks in all, chunk 0 included; at least 1.
        pub count: u32 = U32 => "chunks",
        /// Bytes of the object in each chunk but the last.
        pub chunk_bytes: u32 = CHUNK_BYTES => "chunk bytes",
        /// The reports expected from the receiver.
        pub reliability: Reliability = RELIABILITY => "reliability",
        /// The end-to-end window that the chunk belongs to; `u16::MAX` without flow control.
        pub window: u16 = U16 => "window",
        /// Total chunks of this window; zero without flow control.
        pub window_chunks: u16 = U16 => "chunks of the window",
    }
}
const TOKEN: Of<Token> = Of(|reader, field| reader.u64(field).map(Token), |token, out| out.put_u64(token.0));

impl DataTag {
    pub(crate) const BYTES: usize = 16 + 4 + Token::BYTES + 4 * 3 + 1 + 2 * 2;
}

/// What the payload of a chunk is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChunkKind {
    /// A chunk of an object.
    Data(DataTag),
    /// A [`TransportMessage`](super::TransportMessage), with the token of the transfer that it is about.
    Transport(Token),
    /// A [`NameMessage`](super::NameMessage).
    Names,
    /// A sealed [`LinkState`](super::LinkState); goes one hop.
    LinkState,
}

impl ChunkKind {
    fn byte(&self) -> u8 {
        match self {
            ChunkKind::Data(_) => 0,
            ChunkKind::Transport(_) => 1,
            ChunkKind::Names => 2,
            ChunkKind::LinkState => 3,
        }
    }
}

/// The rest of a lifetime as [`ChunkHeader::lifetime_ms`]: at least 1, since 0 leaves it to proxies.
pub(crate) fn lifetime_ms(left: core::time::Duration) -> u32 {
    u32::try_from(left.as_millis()).unwrap_or(u32::MAX).max(1)
}

tributary_core::declared! {
    /// The owner, destination and treatment of a chunk.
    ///
    /// ```text
    /// kind 1 | flags 1 | service 2 | hops left 1 | priority 1 | proxies left 1 | lifetime in ms 4 | payload bytes 4
    /// | source GUID 20 | source address 4 | destination GUID 20 | number of addresses 1 | addresses 4 each
    /// | for data: object id 16, transfer 4, token 8, chunk 4, chunks 4, chunk bytes 4, reliability 1, window 2, its
    ///   chunks 2
    /// | for data whose custodian is named (flag 64): GUID 20, address 4
    /// | for a message of the transport: token 8
    /// ```
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ChunkHeader {
        /// What the payload is.
        pub kind: ChunkKind = kind,
        /// Options.
        pub flags: Flags = Flags::NONE,
        /// The requested service of the network.
        pub service: ServiceId = ServiceId::Unicast,
        /// Routers that it may still pass, up to [`HOPS_MAX`].
        pub hops_left: u8 = HOPS_MAX,
        /// Larger is more important where storage is short.
        pub priority: u8 = 0,
        /// For a request for chunks of a multicast: proxies that it may still try (paper §3.5).
        pub proxies_left: u8 = 0,
        /// Remaining storage lifetime in milliseconds; 0 leaves it to the proxy.
        pub lifetime_ms: u32 = 0,
        /// Bytes of the payload, up to [`CHUNK_BYTES_MAX`].
        pub payload_bytes: u32 = 0,
        /// The sender.
        pub source: Guid = source,
        /// Where the sender is, for answers; may be [`NetworkAddress::NONE`].
        pub source_address: NetworkAddress = NetworkAddress::NONE,
        /// The receiver; [`Guid::NONE`] means any device at the address.
        pub destination: Guid = destination,
        /// The destination's known addresses; none for late binding. At most [`ADDRESSES_MAX`], none of them zero.
        pub addresses: Vec<NetworkAddress> = if address.is_none() { Vec::new() } else { Vec::from([address]) },
        /// For a data chunk that left a durable store: the node that keeps it until a node further on reports it on
        /// disk.
        pub custodian: Option<Custodian> = None,
    }
    /// A unicast chunk with default options.
    pub fn new(kind: ChunkKind, source: Guid, destination: Guid, address: NetworkAddress) {}
}

impl ChunkHeader {
    /// Reads the header at the start of `bytes`, and how long it is.
    ///
    /// # Errors
    /// [`WireError`] names the field and its error.
    pub fn decode(bytes: &[u8]) -> Result<(ChunkHeader, usize), WireError> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8("chunk kind")?;
        // Messages have no custodian.
        let custody = if kind == 0 { Flags::CUSTODY } else { 0 };
        let (flags, has_custodian) =
            reader.choice("flags", |byte| Some((Flags::from_bits(byte & !custody)?, byte & custody != 0)))?;
        let service = reader.u16("service")?;
        let service =
            ServiceId::from_number(service).ok_or(WireError::Value { field: "service", found: u64::from(service) })?;
        let hops_left = reader.choice("hops left", |byte| (byte <= HOPS_MAX).then_some(byte))?;
        let (priority, proxies_left) = (reader.u8("priority")?, reader.u8("proxies left")?);
        let lifetime_ms = reader.u32("lifetime")?;
        let payload_bytes = reader.u32("payload bytes")?;
        if payload_bytes > CHUNK_BYTES_MAX {
            return Err(WireError::Value { field: "payload bytes", found: u64::from(payload_bytes) });
        }
        let (source, source_address) =
            (GUID.read(&mut reader, "source")?, ADDRESS.read(&mut reader, "source address")?);
        let destination = GUID.read(&mut reader, "destination")?;
        let addresses = reader.list("addresses", ADDRESSES_MAX, |reader| PLACE.read(reader, "address"))?;
        let kind = match kind {
            0 => match DataTag::read(&mut reader)? {
                DataTag { number, count, .. } if number >= count => {
                    return Err(WireError::Value { field: "chunk number", found: number.into() });
                }
                tag => ChunkKind::Data(tag),
            },
            1 => ChunkKind::Transport(TOKEN.read(&mut reader, "token")?),
            2 => ChunkKind::Names,
            3 => ChunkKind::LinkState,
            found => return Err(WireError::Value { field: "chunk kind", found: u64::from(found) }),
        };
        let custodian = has_custodian.then(|| Custodian::read(&mut reader)).transpose()?;
        let header = ChunkHeader {
            kind,
            flags,
            service,
            hops_left,
            priority,
            proxies_left,
            lifetime_ms,
            payload_bytes,
            source,
            source_address,
            destination,
            addresses,
            custodian,
        };
        Ok((header, bytes.len() - reader.rest().len()))
    }
    /// Appends the header to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let custodian = self.custodian.filter(|_| self.tag().is_some());
        out.put(&[self.kind.byte(), self.flags.0 | if custodian.is_some() { Flags::CUSTODY } else { 0 }]);
        out.put_u16(self.service as u16);
        out.put(&[self.hops_left, self.priority, self.proxies_left]);
        out.put_u32(self.lifetime_ms);
        out.put_u32(self.payload_bytes);
        out.put(&self.source.0);
        out.put_u32(self.source_address.0);
        out.put(&self.destination.0);
        out.put_count8(self.addresses.len().min(ADDRESSES_MAX));
        self.addresses.iter().take(ADDRESSES_MAX).for_each(|address| out.put_u32(address.0));
        match &self.kind {
            ChunkKind::Data(tag) => tag.encode(out),
            ChunkKind::Transport(token) => out.put_u64(token.0),
            ChunkKind::Names | ChunkKind::LinkState => {}
        }
        custodian.iter().for_each(|custodian| custodian.encode(out));
    }
    /// Length of the encoded header.
    #[expect(clippy::len_without_is_empty, reason = "a header is never empty")]
    pub fn len(&self) -> usize {
        let tail = match self.kind {
            ChunkKind::Data(_) => DataTag::BYTES + self.custodian.map_or(0, |_| Custodian::BYTES),
            ChunkKind::Transport(_) => Token::BYTES,
            ChunkKind::Names | ChunkKind::LinkState => 0,
        };
        60 + 4 * self.addresses.len() + tail
    }
    /// The same without addresses: it follows the destination's current address.
    pub fn unbound(&self) -> ChunkHeader {
        ChunkHeader { addresses: Vec::new(), ..self.clone() }
    }
    /// Source and destination.
    pub fn flow(&self) -> Flow {
        Flow { source: self.source, destination: self.destination }
    }
    /// The transport header of a chunk of an object.
    pub fn tag(&self) -> Option<&DataTag> {
        if let ChunkKind::Data(tag) = &self.kind { Some(tag) } else { None }
    }
    /// The token of the transfer that it belongs to, or is about.
    pub fn token(&self) -> Option<Token> {
        match &self.kind {
            ChunkKind::Data(tag) => Some(tag.token),
            ChunkKind::Transport(token) => Some(*token),
            ChunkKind::Names | ChunkKind::LinkState => None,
        }
    }
    /// Identifies duplicates of an object's chunk; `None` for messages.
    pub fn key(&self) -> Option<ChunkKey> {
        let tag = self.tag()?;
        Some(ChunkKey { flow: self.flow(), object: tag.object, transfer: tag.transfer, number: tag.number })
    }
    /// Whether it belongs to a pushed object that routers should store when it cannot be forwarded.
    pub fn may_be_kept(&self) -> bool {
        let is_reliable = |tag: &DataTag| is_pushed(tag.transfer) && tag.reliability != Reliability::DontCare;
        self.tag().is_some_and(is_reliable) && !self.flags.contains(Flags::NO_PROXY)
    }
    /// Whether it goes to several devices, or to one of several.
    pub fn is_for_group(&self) -> bool {
        matches!(self.service, ServiceId::Multicast | ServiceId::Anycast)
    }
    /// Whether it is a message of the network itself, which is never held up by data.
    pub fn is_control(&self) -> bool {
        self.tag().is_none()
    }
}
