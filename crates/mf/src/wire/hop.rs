//! The packets of the hop link (paper §3.2.1, §3.4.1): fragments of chunks, CSYN and CACK.
use alloc::vec::Vec;
use core::ops::Range;

use super::{PacketType, Reader, WireError, Writer};
use crate::ids::HopId;

/// Maximum packets of a chunk: with packets of 1,400 bytes, chunks of up to 11 MB; the bitmap of a CACK fits any link.
pub const CHUNK_PACKETS_MAX: u16 = 8_192;
/// The flag of a data packet of the class [`Class::Control`].
const FLAG_CONTROL: u8 = 2;
/// The header before a fragment of a chunk. Its length is the same in all packets, so equal fragments make equal
/// packets, which systems send and receive in batches.
///
/// ```text
/// 0        1        2                 4                 6                 10                14
/// +--------+--------+-----------------+-----------------+-----------------+-----------------+
/// |ver|  2 | flags  | packet in chunk | packets in all  |     hop id      | CSYN number or 0|
/// +--------+--------+-----------------+-----------------+-----------------+-----------------+
/// ```
/// Flag 2: of the class [`Class::Control`]. With a CSYN number the packet is a [`Csyn`] as well. In packet 0 the
/// [`ChunkHeader`](super::ChunkHeader) follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataHeader {
    /// The packet's number in the chunk, below `count`.
    pub index: u16,
    /// Packets of the chunk, 1 to [`CHUNK_PACKETS_MAX`].
    pub count: u16,
    /// The chunk on this hop.
    pub hop: HopId,
    /// The number of the CSYN that the packet also represents, not zero.
    pub csyn: Option<u32>,
    /// Whether it is data or a message of the network.
    pub class: Class,
}

/// What a chunk counts against where it arrives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Class {
    /// Messages of names, transport and routing: few packets, never held up by back-pressure.
    Control,
    /// Data of objects: counts against the back-pressure buffer.
    #[default]
    Bulk,
}

impl DataHeader {
    /// Its length.
    pub const BYTES: usize = 14;

    /// Reads the header at the start of `bytes`; the content follows at [`DataHeader::BYTES`].
    ///
    /// # Errors
    /// [`WireError`] names the field and its error.
    pub fn decode(bytes: &[u8]) -> Result<DataHeader, WireError> {
        let mut reader = Reader::new(bytes);
        PacketType::Data.expect(&mut reader)?;
        let class = reader.choice("flags", |byte| match byte {
            0 => Some(Class::Bulk),
            FLAG_CONTROL => Some(Class::Control),
            _ => None,
        })?;
        let index = reader.u16("packet number")?;
        let count = reader.u16("packets of the chunk")?;
        if count == 0 || count > CHUNK_PACKETS_MAX {
            return Err(WireError::Value { field: "packets of the chunk", found: u64::from(count) });
        }
        if index >= count {
            return Err(WireError::Value { field: "packet number", found: u64::from(index) });
        }
        let hop = HopId(reader.u32("hop id")?);
        let csyn = Some(reader.u32("csyn number")?).filter(|number| *number != 0);
        Ok(DataHeader { index, count, hop, csyn, class })
    }
    /// It as it is sent.
    pub fn to_bytes(&self) -> [u8; DataHeader::BYTES] {
        let mut bytes = [0; DataHeader::BYTES];
        bytes[0] = PacketType::Data.first_byte();
        bytes[1] = if self.class == Class::Control { FLAG_CONTROL } else { 0 };
        bytes[2..4].copy_from_slice(&self.index.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.count.to_be_bytes());
        bytes[6..10].copy_from_slice(&self.hop.0.to_be_bytes());
        bytes[10..].copy_from_slice(&self.csyn.unwrap_or(0).to_be_bytes());
        bytes
    }
    /// Appends it to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put(&self.to_bytes());
    }
}

/// Query for the arrived packets of a chunk: `type 1 | 0 | packets in all 2 | hop id 4 | CSYN number 4`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Csyn {
    /// Packets of the chunk.
    pub count: u16,
    /// The chunk on this hop.
    pub hop: HopId,
    /// Increases with every CSYN on the link; the answer repeats it, so that it measures the round trip.
    pub number: u32,
}

impl Csyn {
    /// Reads a whole packet.
    ///
    /// # Errors
    /// [`WireError`] names the field and its error.
    pub fn decode(bytes: &[u8]) -> Result<Csyn, WireError> {
        let mut reader = Reader::new(bytes);
        PacketType::Csyn.expect(&mut reader)?;
        reader.choice("flags", |byte| (byte == 0).then_some(()))?;
        let count = reader.u16("packets of the chunk")?;
        if count == 0 || count > CHUNK_PACKETS_MAX {
            return Err(WireError::Value { field: "packets of the chunk", found: u64::from(count) });
        }
        let csyn = Csyn { count, hop: HopId(reader.u32("hop id")?), number: reader.u32("csyn number")? };
        reader.end()?;
        Ok(csyn)
    }
    /// Appends the packet to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put(&[PacketType::Csyn.first_byte(), 0]);
        out.put_u16(self.count);
        out.put_u32(self.hop.0);
        out.put_u32(self.number);
    }
}

/// The receiver's state of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum CackState {
    /// Packets are missing.
    Partial = 0,
    /// All packets have arrived and the chunk is accepted: the sender may forget it.
    Complete = 1,
    /// The buffer is full for now; nothing of the chunk was kept.
    Refused = 2,
    /// All packets have arrived, but the chunk is not accepted yet: the sender keeps it and sends nothing.
    Held = 3,
    /// No news of a chunk: only the window.
    Window = 4,
}

/// The answer to a CSYN: which packets have arrived, and how many more may follow.
///
/// `type 1 | state 1 | hop id 4 | CSYN number 4 (0: unasked) | advertised window in packets 4 |`
/// `window of the chunk's destination in packets 4 ([`Cack::NOT_TOLD`]: not reported) | duplicates 1 |`
/// `marked packets of the link 1 | first missing packet 2 | bitmap`: packet `first + i` is bit `i mod 8` of byte `i / 8`. Packets before the first
/// missing one are here; the bitmap ends with its last byte that is not zero, and is empty but for a partial chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cack {
    /// What became of the chunk.
    pub state: CackState,
    /// The chunk on this hop.
    pub hop: HopId,
    /// The CSYN that is answered; 0 for none.
    pub number: u32,
    /// W_ad: packets that may be sent of chunks not yet started (paper §3.4.1).
    pub window: u32,
    /// The same for chunks with this chunk's destination; [`Cack::UNKNOWN`] if not advertised.
    pub destination_window: u32,
    /// Duplicate packets of this chunk: the sender declared them lost too early.
    pub duplicates: u8,
    /// Packets of the link that arrived with a congestion mark, modulo 256: a lost answer loses no mark.
    pub marked: u8,
    /// The first packet that is missing.
    pub first_missing: u16,
    /// The packets that have arrived from there on.
    pub bitmap: Vec<u8>,
}

impl Cack {
    /// In [`Cack::destination_window`]: not advertised.
    pub const UNKNOWN: u32 = u32::MAX;

    /// Reads a whole packet.
    ///
    /// # Errors
    /// [`WireError`] names the field and its error.
    pub fn decode(bytes: &[u8]) -> Result<Cack, WireError> {
        let mut reader = Reader::new(bytes);
        PacketType::Cack.expect(&mut reader)?;
        let state = reader.choice("state", |byte| {
            use CackState::{Complete, Held, Partial, Refused, Window};
            [Partial, Complete, Refused, Held, Window].into_iter().find(|state| *state as u8 == byte)
        })?;
        let (hop, number) = (HopId(reader.u32("hop id")?), reader.u32("csyn number")?);
        let (window, destination_window) = (reader.u32("window")?, reader.u32("window of the destination")?);
        let duplicates = reader.u8("duplicates")?;
        let marked = reader.u8("marked packets")?;
        let first_missing = reader.u16("first missing packet")?;
        if first_missing > CHUNK_PACKETS_MAX {
            return Err(WireError::Value { field: "first missing packet", found: u64::from(first_missing) });
        }
        let bitmap = reader.rest();
        let room = usize::from(CHUNK_PACKETS_MAX).saturating_sub(usize::from(first_missing)).div_ceil(8);
        if bitmap.len() > room || (!bitmap.is_empty() && state != CackState::Partial) {
            return Err(WireError::Value { field: "bytes of the bitmap", found: bitmap.len() as u64 });
        }
        if bitmap.last() == Some(&0) || bitmap.first().is_some_and(|byte| byte & 1 == 1) {
            return Err(WireError::Value { field: "bitmap", found: u64::from(bitmap[0]) });
        }
        let bitmap = bitmap.into();
        Ok(Cack { state, hop, number, window, destination_window, duplicates, marked, first_missing, bitmap })
    }
    /// Appends the packet to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put(&[PacketType::Cack.first_byte(), self.state as u8]);
        out.put_u32(self.hop.0);
        out.put_u32(self.number);
        out.put_u32(self.window);
        out.put_u32(self.destination_window);
        out.put_u8(self.duplicates);
        out.put_u8(self.marked);
        out.put_u16(self.first_missing);
        out.put(&self.bitmap);
    }
    /// First missing packet and bitmap of a chunk: packets before `unsure` have arrived, packets after it have not, and
    /// `has` decides between them.
    pub fn describe(unsure: Range<u16>, has: impl Fn(u16) -> bool) -> (u16, Vec<u8>) {
        let Some(first) = unsure.clone().find(|index| !has(*index)) else { return (unsure.end, Vec::new()) };
        let Some(last) = (first..unsure.end).rev().find(|index| has(*index)) else { return (first, Vec::new()) };
        let mut bitmap = alloc::vec![0u8; usize::from(last - first) / 8 + 1];
        for index in (first..=last).filter(|index| has(*index)) {
            bitmap[usize::from(index - first) / 8] |= 1 << ((index - first) % 8);
        }
        (first, bitmap)
    }
    /// No packet from here on has arrived, unless the chunk is complete.
    pub fn end(&self) -> u16 {
        match self.state {
            CackState::Complete | CackState::Held => u16::MAX,
            CackState::Refused | CackState::Window => 0,
            CackState::Partial => {
                self.first_missing.saturating_add(u16::try_from(self.bitmap.len() * 8).unwrap_or(u16::MAX))
            }
        }
    }
    /// Whether the packet has arrived.
    pub fn has(&self, index: u16) -> bool {
        match self.state {
            CackState::Complete | CackState::Held => true,
            CackState::Refused | CackState::Window => false,
            CackState::Partial if index < self.first_missing => true,
            CackState::Partial => {
                let bit = index - self.first_missing;
                self.bitmap.get(usize::from(bit) / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
            }
        }
    }
}
