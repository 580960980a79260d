//! How an object is cut into packets.
use tributary_content::{ChunkIndex, Manifest};

use crate::TREE_PACKET_FIRST;

/// The unit of verification: a chunk, or the list of all chunks' hashes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Unit {
    /// The hash list (first in order: it is fetched first).
    Tree,
    /// One chunk.
    Chunk(u32),
}

/// Packet numbers ↔ bytes of an object, for one packet size.
///
/// Each chunk is cut separately, so that no packet straddles two: with `p` packets in a full chunk, chunk `c` has the
/// packets `c · p ..`. Within a chunk all packets but the last have the same length. The hash list's packets are
/// numbered from [`TREE_PACKET_FIRST`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    size: u64,
    chunk_bytes: u32,
    tree_bytes: u32,
    packet_bytes: u32,
    packets_per_chunk: u32,
    chunks: u32,
}

impl Layout {
    /// The layout of `manifest`'s object in packets of at most `packet_bytes_max`; `None` if that is zero or the object
    /// would have 2³¹ packets or more.
    ///
    /// The packet size is evened out so that the last packet of a chunk is hardly shorter than the others.
    pub fn new(manifest: &Manifest, packet_bytes_max: u16) -> Option<Layout> {
        let chunk_bytes = manifest.chunk_size.min(u32::try_from(manifest.size).unwrap_or(u32::MAX)).max(1);
        if packet_bytes_max == 0 {
            return None;
        }
        let evened = chunk_bytes.div_ceil(chunk_bytes.div_ceil(u32::from(packet_bytes_max)));
        Layout::exact(manifest, u16::try_from(evened).ok()?)
    }
    /// The layout in packets of exactly `packet_bytes`, the size in a request to a source.
    pub fn exact(manifest: &Manifest, packet_bytes: u16) -> Option<Layout> {
        if packet_bytes == 0 {
            return None;
        }
        let packet_bytes = u32::from(packet_bytes);
        let packets_per_chunk = manifest.chunk_size.div_ceil(packet_bytes);
        let chunks = manifest.chunk_count();
        if u64::from(chunks) * u64::from(packets_per_chunk) >= u64::from(TREE_PACKET_FIRST) {
            return None;
        }
        Some(Layout {
            size: manifest.size,
            chunk_bytes: manifest.chunk_size,
            tree_bytes: u32::try_from(manifest.tree_bytes()).ok()?,
            packet_bytes,
            packets_per_chunk,
            chunks,
        })
    }
    /// Payload bytes of a packet that is not the last one of its unit.
    pub fn packet_bytes(&self) -> u16 {
        self.packet_bytes as u16
    }
    /// Number of chunks.
    pub fn chunks(&self) -> u32 {
        self.chunks
    }
    /// Bytes of a unit; zero for chunks that do not exist.
    pub fn unit_bytes(&self, unit: Unit) -> u32 {
        match unit {
            Unit::Tree => self.tree_bytes,
            Unit::Chunk(index) => {
                let start = u64::from(index) * u64::from(self.chunk_bytes);
                self.size.saturating_sub(start).min(u64::from(self.chunk_bytes)) as u32
            }
        }
    }
    /// The packets of a unit, as first number and number after the last.
    pub fn packets(&self, unit: Unit) -> (u32, u32) {
        let first = match unit {
            Unit::Tree => TREE_PACKET_FIRST,
            Unit::Chunk(index) => index * self.packets_per_chunk,
        };
        (first, first + self.unit_bytes(unit).div_ceil(self.packet_bytes))
    }
    /// The place of a packet: its unit, offset and length. `None` if the object has no such packet.
    pub fn locate(&self, packet: u32) -> Option<(Unit, u32, u32)> {
        let (unit, within) = if packet >= TREE_PACKET_FIRST {
            (Unit::Tree, packet - TREE_PACKET_FIRST)
        } else {
            (Unit::Chunk(packet / self.packets_per_chunk), packet % self.packets_per_chunk)
        };
        let offset = within.checked_mul(self.packet_bytes)?;
        let left = self.unit_bytes(unit).checked_sub(offset)?;
        (left > 0).then(|| (unit, offset, left.min(self.packet_bytes)))
    }
    /// The chunk of a unit; `None` for the hash list.
    pub fn chunk_of(unit: Unit) -> Option<ChunkIndex> {
        match unit {
            Unit::Tree => None,
            Unit::Chunk(index) => Some(ChunkIndex(index)),
        }
    }
}
