//! The content store: forwarded Data, kept to answer later Interests. A policy, one file each, decides which Data is
//! evicted.
//!
//! | policy | file | evicts first |
//! |---|---|---|
//! | `lru` | `ordered.rs` | the least recently used packet |
//! | `fifo` | `ordered.rs` | the oldest packet |
//! | `priority` | `priority.rs` | stale packets, then the oldest (NFD's priority FIFO) |
mod ordered;
mod priority;

use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};
use core::ops::Bound;

use bytes::Bytes;
use tributary_core::{Duration, Recency, Time};

use ordered::Ordered;
use priority::Priority;

use super::{hash::NameHasher, slab::Slab};
use crate::wire::{Data, Interest, NameView, types};

/// The number of an entry, unique while it is held.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EntryId(pub u32);

/// Decides which entry to evict.
pub trait CsPolicy: Send {
    /// An entry was inserted or refreshed; it becomes stale at `stale_at`.
    fn on_insert(&mut self, id: EntryId, stale_at: Time);
    /// An entry answered an Interest.
    fn on_hit(&mut self, id: EntryId);
    /// An entry is gone.
    fn on_remove(&mut self, id: EntryId);
    /// The entry to evict next; `None` if the store is empty.
    fn victim(&mut self, now: Time) -> Option<EntryId>;
}

/// A policy by name.
pub type Listed = (&'static str, fn() -> Box<dyn CsPolicy>);

/// The policies by name, the default first.
pub const POLICIES: [Listed; 3] = [
    ("lru", || Box::new(Ordered { is_by_use: true, order: Recency::new() })),
    ("fifo", || Box::new(Ordered { is_by_use: false, order: Recency::new() })),
    ("priority", || Box::new(Priority::default())),
];

/// Limits of a content store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CsLimits {
    /// Maximum packets; zero for no content store.
    pub packets_max: usize,
    /// Maximum bytes of packets, overhead included.
    pub bytes_max: usize,
}

impl CsLimits {
    /// Limits the bytes, in packets of any size; zero for no content store.
    pub fn of_bytes(bytes_max: usize) -> CsLimits {
        CsLimits { packets_max: bytes_max / ENTRY_OVERHEAD_BYTES, bytes_max }
    }
}

/// What a content store does, as an operator may choose while it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CsSwitches {
    /// Whether it stores forwarded Data.
    pub admits: bool,
    /// Whether it answers from its contents.
    pub serves: bool,
}

impl CsSwitches {
    /// It does both, as from the start.
    pub const BOTH: CsSwitches = CsSwitches { admits: true, serves: true };

    /// The flags of the management protocol: 1 for admits, 2 for serves.
    pub fn flags(self) -> u64 {
        u64::from(self.admits) | u64::from(self.serves) << 1
    }
    /// From the flags of the management protocol; other bits have no meaning.
    pub fn from_flags(flags: u64) -> CsSwitches {
        CsSwitches { admits: flags & 1 != 0, serves: flags & 2 != 0 }
    }
}

/// What an entry costs beyond its packet: indexes, order, allocations. A million packets of 44 bytes took 256 to 269 bytes
/// each beyond themselves with the policies `lru` and `fifo`, 306 to 319 with `priority`.
pub const ENTRY_OVERHEAD_BYTES: usize = 320;

/// The content store.
pub struct ContentStore {
    hasher: NameHasher,
    /// Limits in force.
    pub limits: CsLimits,
    /// Its switches.
    pub switches: CsSwitches,
    /// The name of its policy.
    pub policy_name: &'static str,
    policy: Box<dyn CsPolicy>,
    /// Names in canonical order, for Interests that a longer name may answer.
    ordered: BTreeMap<Bytes, u32>,
    entries: Slab<Entry>,
    bytes: usize,
    /// Interests answered, and not.
    pub hits_and_misses: (u64, u64),
    /// Evicted entries.
    pub evicted: u64,
}

struct Entry {
    name: Bytes,
    packet: Bytes,
    fresh_until: Time,
}

impl ContentStore {
    /// A store with the policy of this name; `None` for an unknown policy.
    pub fn new(hasher: NameHasher, limits: CsLimits, policy: &str) -> Option<Self> {
        let (policy_name, make) = *POLICIES.iter().find(|(name, _)| *name == policy)?;
        Some(ContentStore {
            hasher,
            limits,
            switches: CsSwitches::BOTH,
            policy_name,
            policy: make(),
            ordered: BTreeMap::new(),
            entries: Slab::default(),
            bytes: 0,
            hits_and_misses: (0, 0),
            evicted: 0,
        })
    }
    /// Keeps a Data packet, in place of one with the same name. A packet larger than the store is not kept.
    pub fn insert(&mut self, now: Time, packet: &Bytes, name: NameView<'_>, freshness: Duration) {
        let hash = self.hasher.name(name);
        let cost = packet.len() + ENTRY_OVERHEAD_BYTES;
        if !self.switches.admits || self.limits.packets_max == 0 || cost > self.limits.bytes_max {
            return;
        }
        if let Some(old) = self.find(hash, name.as_tlv()) {
            self.remove(old);
        }
        while self.len() >= self.limits.packets_max || self.bytes + cost > self.limits.bytes_max {
            let Some(victim) = self.policy.victim(now) else { break };
            self.remove(victim.0);
            self.evicted += 1;
        }
        let fresh_until = now + freshness;
        // The packet may be a slice of a larger receive buffer; the copy keeps only itself alive.
        let packet = Bytes::copy_from_slice(packet);
        let entry = Entry { name: name_of(&packet), packet, fresh_until };
        let name = entry.name.clone();
        let slot = self.entries.insert(hash, entry);
        self.ordered.insert(name, slot);
        self.bytes += cost;
        self.policy.on_insert(EntryId(slot), fresh_until);
    }
    /// The packet that answers an Interest, if any.
    pub fn lookup(&mut self, now: Time, interest: &Interest<'_>) -> Option<Bytes> {
        let found = self.find_answer(now, interest).filter(|_| self.switches.serves);
        match found {
            Some(slot) => {
                self.hits_and_misses.0 += 1;
                self.policy.on_hit(EntryId(slot));
            }
            None => self.hits_and_misses.1 += 1,
        }
        self.entries.get(found?).map(|entry| entry.packet.clone())
    }
    /// Whether the packet of exactly this name would be served, fresh or not.
    pub fn contains(&self, now: Time, name: NameView<'_>) -> bool {
        self.switches.serves && !name.is_empty() && self.find_answer(now, &Interest::new(name)).is_some()
    }
    fn find_answer(&self, now: Time, interest: &Interest<'_>) -> Option<u32> {
        let name = interest.name;
        let answers = |slot: &u32| {
            let entry = self.entries.get(*slot);
            entry.is_some_and(|entry| !interest.must_be_fresh || entry.fresh_until > now)
        };
        if let Some(last) = name.last()
            && last.kind == types::IMPLICIT_DIGEST
        {
            let slot = self.find(self.hasher.name(name.parent()), name.parent().as_tlv()).filter(answers)?;
            let entry = self.entries.get(slot)?;
            let data = Data::decode(&entry.packet).ok()?;
            return (data.implicit_digest() == last.value).then_some(slot);
        }
        if let Some(slot) = self.find(self.hasher.name(name), name.as_tlv()).filter(answers) {
            return Some(slot);
        }
        if !interest.can_be_prefix {
            return None;
        }
        let start = Bytes::copy_from_slice(name.as_tlv());
        let longer = self.ordered.range((Bound::Excluded(start), Bound::Unbounded));
        longer
            .take_while(|(longer, _)| longer.starts_with(name.as_tlv()))
            .take(PREFIX_ENTRIES_MAX)
            .map(|(_, slot)| *slot)
            .find(answers)
    }
    /// Drops at most `count` entries under `prefix`; returns their number.
    pub fn erase(&mut self, prefix: NameView<'_>, count: u64) -> u64 {
        let start = Bytes::copy_from_slice(prefix.as_tlv());
        let gone: Vec<u32> = self
            .ordered
            .range(start..)
            .take_while(|(name, _)| name.starts_with(prefix.as_tlv()))
            .take(usize::try_from(count).unwrap_or(usize::MAX))
            .map(|(_, slot)| *slot)
            .collect();
        gone.iter().for_each(|slot| self.remove(*slot));
        gone.len() as u64
    }
    /// Changes the maximum number of packets.
    pub fn set_packets_max(&mut self, now: Time, packets_max: usize) {
        self.limits.packets_max = packets_max;
        while self.len() > packets_max {
            let Some(victim) = self.policy.victim(now) else { break };
            self.remove(victim.0);
            self.evicted += 1;
        }
    }
    /// Packets held.
    pub fn len(&self) -> usize {
        self.ordered.len()
    }
    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.ordered.is_empty()
    }
    /// Bytes in use, overhead included.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn find(&self, hash: u64, tlv: &[u8]) -> Option<u32> {
        self.entries.find(hash, |entry| entry.name == tlv)
    }
    fn remove(&mut self, slot: u32) {
        let Some(entry) = self.entries.remove(slot) else { return };
        self.ordered.remove(&entry.name);
        self.bytes -= entry.packet.len() + ENTRY_OVERHEAD_BYTES;
        self.policy.on_remove(EntryId(slot));
    }
}

/// Entries that one Interest with CanBePrefix looks at: stale ones could be many.
const PREFIX_ENTRIES_MAX: usize = 64;

/// The name's bytes in a packet that was decoded before.
fn name_of(packet: &Bytes) -> Bytes {
    match Data::decode(packet) {
        Ok(data) => packet.slice_ref(data.name.as_tlv()),
        Err(_) => Bytes::new(),
    }
}

#[cfg(test)]
mod tests;
