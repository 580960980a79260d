//! One unit in transit: its bytes as they arrive, and the sender of each packet.
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec,
    vec::Vec,
};

use tributary_core::PathId;

/// Who sent a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Origin {
    /// The path on which it arrived.
    pub(crate) path: PathId,
    /// The cache that claims to have sent it, by the low bits of its node id; `None` for the source.
    pub(crate) cache: Option<u16>,
    /// Whether the packet certainly used that path. Otherwise another path had requested it too, and neither is blamed.
    pub(crate) is_sure: bool,
}

impl Origin {
    /// This node's own files. If the chunk fails verification, packets from the network replace them, and no source is
    /// blamed.
    pub(crate) const HERE: Origin = Origin { path: PathId(u16::MAX), cache: None, is_sure: false };
}

/// A chunk or hash list that is being put together.
#[derive(Debug)]
pub(crate) struct Assembly {
    bytes: Vec<u8>,
    packet_bytes: usize,
    origins: Vec<Option<Origin>>,
    missing: u32,
    /// An earlier version that failed verification.
    pub(crate) failed: Option<(Vec<u8>, Vec<Option<Origin>>)>,
}

impl Assembly {
    /// Room for a unit of `len` bytes; `buffer` is a used buffer to take over.
    pub(crate) fn new(mut buffer: Vec<u8>, len: usize, packet_bytes: usize) -> Assembly {
        if buffer.capacity() < len {
            // Memory from the system is already zeroed.
            buffer = vec![0; len];
        }
        buffer.resize(len, 0);
        let packets = len.div_ceil(packet_bytes);
        Assembly { bytes: buffer, packet_bytes, origins: vec![None; packets], missing: packets as u32, failed: None }
    }
    /// Stores a packet at its offset; false if it was already present.
    pub(crate) fn put(&mut self, offset: usize, payload: &[u8], origin: Origin) -> bool {
        let slot = &mut self.origins[offset / self.packet_bytes];
        if slot.is_some() {
            return false;
        }
        *slot = Some(origin);
        self.bytes[offset..offset + payload.len()].copy_from_slice(payload);
        self.missing -= 1;
        true
    }
    /// Whether the packet at `offset` has arrived.
    pub(crate) fn has(&self, offset: usize) -> bool {
        self.origins[offset / self.packet_bytes].is_some()
    }
    /// The slots of missing packets.
    pub(crate) fn missing_slots(&self) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.origins).filter(|(_, origin)| origin.is_none()).map(|(slot, _)| slot)
    }
    /// Whether every packet has arrived.
    pub(crate) fn is_complete(&self) -> bool {
        self.missing == 0
    }
    /// The bytes; complete only if [`Assembly::is_complete`].
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    /// Returns the buffer for reuse.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }
    /// All origins of its packets.
    pub(crate) fn contributors(&self) -> BTreeSet<Origin> {
        self.origins.iter().flatten().copied().collect()
    }
    /// Useful bytes of each packet with its origin, in order.
    pub(crate) fn shares(&self) -> impl Iterator<Item = (Origin, usize)> + '_ {
        let len = self.bytes.len();
        self.origins.iter().enumerate().filter_map(move |(slot, origin)| {
            let start = slot * self.packet_bytes;
            origin.map(|origin| (origin, self.packet_bytes.min(len - start)))
        })
    }
    /// Drops the packets of origins that `unwanted` names; returns their slots.
    pub(crate) fn discard(&mut self, unwanted: impl Fn(Origin) -> bool) -> Vec<u32> {
        let mut slots = Vec::new();
        for (slot, origin) in self.origins.iter_mut().enumerate() {
            if origin.is_some_and(&unwanted) {
                *origin = None;
                self.missing += 1;
                slots.push(slot as u32);
            }
        }
        slots
    }
    /// Sets the present bytes aside as a failed version and restarts the unit.
    pub(crate) fn set_aside(&mut self) {
        let bytes = core::mem::take(&mut self.bytes);
        let packets = self.origins.len();
        self.bytes = vec![0; bytes.len()];
        let origins = core::mem::replace(&mut self.origins, vec![None; packets]);
        self.missing = packets as u32;
        self.failed.get_or_insert((bytes, origins));
    }
    /// Restores the version that was set aside, as when the culprits' packets have been found otherwise.
    pub(crate) fn take_back(&mut self) {
        if let Some((bytes, origins)) = self.failed.take() {
            self.missing = origins.iter().filter(|origin| origin.is_none()).count() as u32;
            self.bytes = bytes;
            self.origins = origins;
        }
    }
    /// Who sent packets of the failed version that differ from the present, verified bytes, and their slots.
    pub(crate) fn culprits(&self) -> BTreeMap<Origin, Vec<u32>> {
        let mut culprits: BTreeMap<Origin, Vec<u32>> = BTreeMap::new();
        let Some((bytes, origins)) = &self.failed else { return culprits };
        let good = self.bytes.chunks(self.packet_bytes);
        let pairs = bytes.chunks(self.packet_bytes).zip(good).zip(origins).enumerate();
        for (slot, (_, origin)) in pairs.filter(|(_, ((bad, good), _))| bad != good) {
            if let Some(origin) = origin {
                culprits.entry(*origin).or_default().push(slot as u32);
            }
        }
        culprits
    }
}
