//! Memory of a cache: blocks that hold packets of one stream in order of arrival.
//!
//! An allocation for each packet costs more than the packet, when it is made and whenever one is touched; and slices of
//! one block share one reference count. A block is freed, and so evicted, as a unit.
use alloc::vec::Vec;
use bytes::{Bytes, BytesMut};

use super::{Body, PacketKey, PayloadMemory};

/// Maximum bytes of a block.
const BLOCK_BYTES_MAX: u64 = 64 << 10;
/// A cache holds at least this many of the largest blocks.
const BLOCKS_MIN: u64 = 256;

/// The block that holds a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BlockId(pub(super) u32);

/// All blocks of a cache.
pub(super) struct Blocks {
    blocks: Vec<Block>,
    free: Vec<BlockId>,
    pub(super) bytes_max: u64,
    pub(super) memory: PayloadMemory,
}

#[derive(Default)]
struct Block {
    /// The free rest of its memory; empty where packets are shared.
    room: BytesMut,
    /// Bytes that more packets may take.
    left: usize,
    bytes: u64,
    /// Packets inserted; some may have been removed since.
    keys: Vec<PacketKey>,
    live: usize,
}

impl Blocks {
    /// No blocks yet, for a cache of `capacity` bytes.
    pub(super) fn new(capacity: u64, memory: PayloadMemory) -> Blocks {
        let bytes_max = BLOCK_BYTES_MAX.min(capacity / BLOCKS_MIN);
        Blocks { blocks: Vec::new(), free: Vec::new(), bytes_max, memory }
    }
    /// A new block of `bytes` bytes.
    pub(super) fn open(&mut self, bytes: u64) -> BlockId {
        let left = usize::try_from(bytes).unwrap_or(usize::MAX);
        let room = match self.memory {
            PayloadMemory::Copied => BytesMut::with_capacity(left),
            PayloadMemory::Shared => BytesMut::new(),
        };
        let block = Block { room, left, bytes, keys: Vec::new(), live: 0 };
        if let Some(id) = self.free.pop() {
            self.blocks[id.0 as usize] = block;
            return id;
        }
        self.blocks.push(block);
        BlockId(u32::try_from(self.blocks.len() - 1).expect("fewer than 2^32 blocks fit into memory"))
    }
    /// Whether a packet of `len` bytes fits into the free rest of a block.
    pub(super) fn has_room(&self, id: BlockId, len: usize) -> bool {
        self.blocks[id.0 as usize].left >= len
    }
    /// Puts a packet, head and body, into a block with enough space: as a copy, or, if packets are shared and it is all
    /// body, as a reference.
    pub(super) fn put(&mut self, id: BlockId, key: PacketKey, head: &[u8], body: Body<'_>) -> Bytes {
        let block = &mut self.blocks[id.0 as usize];
        block.keys.push(key);
        block.live += 1;
        block.left -= head.len() + body.len();
        if let (PayloadMemory::Shared, Body::Shared(body), true) = (self.memory, body, head.is_empty()) {
            return body.clone();
        }
        block.room.extend_from_slice(head);
        block.room.extend_from_slice(&body);
        block.room.split().freeze()
    }
    /// Takes a packet out. Returns the bytes of the block if that was its last packet and the block was freed.
    pub(super) fn take_out(&mut self, id: BlockId) -> Option<u64> {
        let block = &mut self.blocks[id.0 as usize];
        block.live -= 1;
        if block.live > 0 {
            return None;
        }
        self.free.push(id);
        Some(core::mem::take(block).bytes)
    }
    /// The packets that were put into a block.
    pub(super) fn keys(&self, id: BlockId) -> Vec<PacketKey> {
        self.blocks[id.0 as usize].keys.clone()
    }
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.blocks.len()
    }
    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        self.blocks.iter().map(|block| block.bytes).sum()
    }
}
