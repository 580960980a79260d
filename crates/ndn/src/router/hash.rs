//! Hashes of names and of all their prefixes, in one pass, with a secret so that no sender can aim at one bucket.
use tributary_content::Name;

use crate::wire::NameView;

/// Components of a name that a router handles at most.
pub const COMPONENTS_MAX: usize = Name::COMPONENTS_MAX;
/// Bytes of a name that a router handles at most.
pub const NAME_BYTES_MAX: usize = Name::BYTES_MAX;

/// Hashes names. Folded multiplication of 8 bytes at a time (as wyhash and its kin do), seeded per router.
#[derive(Clone, Copy, Debug)]
pub struct NameHasher {
    seeds: [u64; 2],
}

/// The hashes of all prefixes of one name.
#[derive(Clone, Copy, Debug)]
pub struct Prefixes {
    /// Hash and end of each prefix; the first is the root's.
    entries: [(u64, u16); COMPONENTS_MAX + 1],
    len: usize,
}

impl NameHasher {
    /// A hasher with this secret.
    pub fn new(seeds: [u64; 2]) -> Self {
        NameHasher { seeds: [seeds[0] | 1, seeds[1] | 1] }
    }
    /// The hashes of all prefixes of `name`; `None` if it has too many components or bytes for a router.
    pub fn prefixes(&self, name: NameView<'_>) -> Option<Prefixes> {
        let mut prefixes = Prefixes::default();
        self.fill(&mut prefixes, name).then_some(prefixes)
    }
    /// The same into existing memory, which is a third faster: they take half a kilobyte. False if there are none.
    pub fn fill(&self, prefixes: &mut Prefixes, name: NameView<'_>) -> bool {
        let tlv = name.as_tlv();
        if tlv.len() > NAME_BYTES_MAX {
            return false;
        }
        prefixes.entries[0] = (self.seeds[0], 0);
        prefixes.len = 1;
        let (mut hash, mut start) = (self.seeds[0], 0);
        for component in name.components() {
            hash = self.mix(hash, &tlv[start..component.end]);
            start = component.end;
            let Some(entry) = prefixes.entries.get_mut(prefixes.len) else { return false };
            *entry = (hash, start as u16);
            prefixes.len += 1;
        }
        true
    }
    /// The hash of a complete name of any length.
    pub fn name(&self, name: NameView<'_>) -> u64 {
        let tlv = name.as_tlv();
        let mut start = 0;
        name.components().fold(self.seeds[0], |hash, component| {
            let part = &tlv[start..component.end];
            start = component.end;
            self.mix(hash, part)
        })
    }
    /// The hash of a name's hash and something else.
    pub fn join(&self, hash: u64, more: &[u8]) -> u64 {
        self.mix(hash, more)
    }
    fn mix(&self, hash: u64, bytes: &[u8]) -> u64 {
        let (chunks, rest) = bytes.as_chunks::<8>();
        let mut hash = hash ^ (bytes.len() as u64);
        for chunk in chunks {
            hash = fold(hash ^ u64::from_le_bytes(*chunk), self.seeds[1]);
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        fold(hash ^ u64::from_le_bytes(last), self.seeds[1].rotate_left(32))
    }
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b | 1);
    (product as u64) ^ ((product >> 64) as u64)
}

impl Default for Prefixes {
    /// Those of no name.
    fn default() -> Self {
        Prefixes { entries: [(0, 0); COMPONENTS_MAX + 1], len: 1 }
    }
}
impl Prefixes {
    /// Components of the name.
    pub fn depth(&self) -> usize {
        self.len - 1
    }
    /// Hash and bytes of the prefix with `depth` components.
    ///
    /// # Panics
    /// If the name has fewer.
    pub fn at(&self, depth: usize) -> (u64, usize) {
        assert!(depth < self.len, "a name of {} components has no prefix of {depth}", self.depth());
        let (hash, end) = self.entries[depth];
        (hash, usize::from(end))
    }
    /// The hash of the complete name.
    pub fn full(&self) -> u64 {
        self.entries[self.len - 1].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{collections::BTreeSet, format};

    #[test]
    fn prefixes_have_the_hashes_of_the_names_that_they_are() {
        let hasher = NameHasher::new([5, 7]);
        let name: Name = "/a/bc/defghijklmno/seg=7".parse().unwrap();
        let view = NameView::from(&name);
        let prefixes = hasher.prefixes(view).unwrap();
        for depth in 0..=4 {
            let prefix = view.prefix(depth);
            assert_eq!(prefixes.at(depth), (hasher.name(prefix), prefix.as_tlv().len()));
        }
        assert_ne!(NameHasher::new([6, 7]).name(view), hasher.name(view));
    }

    #[test]
    fn hashes_of_many_names_spread() {
        let hasher = NameHasher::new([0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03]);
        let names = (0..20_000).map(|n| format!("/site/{}/file/seg={}", n % 100, n / 100).parse::<Name>().unwrap());
        let hashes: alloc::vec::Vec<u64> = names.map(|name| hasher.name(NameView::from(&name))).collect();
        assert_eq!(hashes.iter().collect::<BTreeSet<_>>().len(), 20_000);
        for shift in [0, 20, 57] {
            let mut buckets = [0u32; 128];
            hashes.iter().for_each(|hash| buckets[(hash >> shift) as usize % 128] += 1);
            assert!(buckets.iter().all(|count| (90..230).contains(count)), "shift {shift}: {buckets:?}");
        }
    }

    #[test]
    fn names_beyond_the_limits_have_no_place() {
        let hasher = NameHasher::new([5, 7]);
        let deep = [8u8, 0].repeat(COMPONENTS_MAX + 1);
        assert!(hasher.prefixes(NameView::parse(&deep).unwrap()).is_none());
        assert!(hasher.prefixes(NameView::parse(&deep[2..]).unwrap()).is_some());
        let long = [&[8u8, 253, 4, 0][..], &[0; 1024]].concat();
        assert!(hasher.prefixes(NameView::parse(&long).unwrap()).is_none());
    }
}
