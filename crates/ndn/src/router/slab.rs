//! Entries that are found by hash, each with a number that stays the same while it is held.
use alloc::vec::Vec;

use hashbrown::HashTable;

/// The entries, each with its hash.
#[derive(Clone, Debug)]
pub(super) struct Slab<E> {
    table: HashTable<u32>,
    entries: Vec<Option<(u64, E)>>,
    free: Vec<u32>,
}

impl<E> Default for Slab<E> {
    fn default() -> Self {
        Slab { table: HashTable::new(), entries: Vec::new(), free: Vec::new() }
    }
}

impl<E> Slab<E> {
    /// The number of the entry with this hash that `is` accepts.
    #[inline]
    pub(super) fn find(&self, hash: u64, is: impl Fn(&E) -> bool) -> Option<u32> {
        self.table.find(hash, |slot| self.get(*slot).is_some_and(&is)).copied()
    }
    /// The entries with this hash, and maybe others.
    pub(super) fn with_hash(&self, hash: u64) -> impl Iterator<Item = &E> {
        self.table.iter_hash(hash).filter_map(|slot| self.get(*slot))
    }
    /// Adds an entry.
    pub(super) fn insert(&mut self, hash: u64, entry: E) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            (self.entries.len() - 1) as u32
        });
        self.entries[slot as usize] = Some((hash, entry));
        let entries = &self.entries;
        self.table.insert_unique(hash, slot, |slot| entries[*slot as usize].as_ref().map_or(0, |(hash, _)| *hash));
        slot
    }
    /// Takes an entry out.
    pub(super) fn remove(&mut self, slot: u32) -> Option<E> {
        let (hash, entry) = self.entries.get_mut(slot as usize)?.take()?;
        if let Ok(found) = self.table.find_entry(hash, |held| *held == slot) {
            found.remove();
        }
        self.free.push(slot);
        Some(entry)
    }
    /// An entry.
    #[inline]
    pub(super) fn get(&self, slot: u32) -> Option<&E> {
        self.entries.get(slot as usize)?.as_ref().map(|(_, entry)| entry)
    }
    /// An entry, to change it.
    #[inline]
    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut E> {
        self.entries.get_mut(slot as usize)?.as_mut().map(|(_, entry)| entry)
    }
    /// All entries, in order of number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &E)> {
        let numbered = self.entries.iter().enumerate();
        numbered.filter_map(|(slot, entry)| Some((slot as u32, &entry.as_ref()?.1)))
    }
    /// All entries, to change them.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut E> {
        self.entries.iter_mut().flatten().map(|(_, entry)| entry)
    }
    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }
}
