//! Keys of the swarm: a group of records, or a part of one that is too long for one set.
//!
//! ```text
//! group 0x00 0xff depth | prefix        the first `depth` bits of the digests of the keys that belong here
//! ```
//! A set that is half full is split: what is new goes under the keys that its digest leads to, and the set says that there
//! is more below. By digests of whole keys and not by authors, so that the many names of one author are spread too.

/// How often a group is split at most: into 256 sets, with some 30,000 names of the usual size.
pub(crate) const DEPTH_MAX: u8 = 8;
/// Bytes of a group at most.
const GROUP_BYTES_MAX: usize = 512;

/// A group, or a part of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Shard {
    pub(crate) group: Vec<u8>,
    pub(crate) depth: u8,
    prefix: u8,
}

impl Shard {
    /// All of a group, as long as it fits a set.
    pub(crate) fn root(group: &[u8]) -> Shard {
        Shard { group: group.to_vec(), depth: 0, prefix: 0 }
    }
    /// The part at a depth, [`DEPTH_MAX`] at most, where a key belongs.
    pub(crate) fn at(group: &[u8], depth: u8, key: &[u8]) -> Shard {
        Shard { group: group.to_vec(), depth, prefix: first_bits(digest(key), depth) }
    }
    /// The two parts of it.
    pub(crate) fn halves(&self) -> [Shard; 2] {
        let depth = self.depth + 1;
        let bit = 1u8.checked_shl(u32::from(8 - depth.min(8))).unwrap_or(0);
        [0, bit].map(|bit| Shard { group: self.group.clone(), depth, prefix: self.prefix | bit })
    }
    /// Whether a key belongs here.
    pub(crate) fn holds(&self, key: &[u8]) -> bool {
        first_bits(digest(key), self.depth) == self.prefix
    }
    pub(crate) fn encode(&self) -> Vec<u8> {
        [&self.group[..], &[0, 0xff, self.depth, self.prefix]].concat()
    }
    /// `None` for a key that is none of these.
    pub(crate) fn decode(key: &[u8]) -> Option<Shard> {
        let (group, [0, 0xff, depth, prefix]) = key.split_last_chunk()? else { return None };
        let is_legal = *depth <= DEPTH_MAX && first_bits(*prefix, *depth) == *prefix && group.len() <= GROUP_BYTES_MAX;
        is_legal.then(|| Shard { group: group.to_vec(), depth: *depth, prefix: *prefix })
    }
}

fn digest(key: &[u8]) -> u8 {
    blake3::hash(key).as_bytes()[0]
}
fn first_bits(byte: u8, count: u8) -> u8 {
    byte & !(u16::from(u8::MAX) >> count.min(8)) as u8
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_key_belongs_to_one_part_of_each_depth() {
        for number in 0..500u32 {
            let key = number.to_be_bytes();
            let mut shard = Shard::root(b"g/");
            for depth in 0..=DEPTH_MAX {
                assert!(shard.holds(&key) && shard == Shard::at(b"g/", depth, &key), "{shard:?}");
                assert_eq!(Shard::decode(&shard.encode()), Some(shard.clone()));
                if depth < DEPTH_MAX {
                    let holding: Vec<Shard> = shard.halves().into_iter().filter(|half| half.holds(&key)).collect();
                    assert_eq!(holding.len(), 1);
                    shard = holding[0].clone();
                }
            }
        }
        assert_eq!(Shard::decode(b"g/\0\xff\x09\0"), None);
        assert_eq!(Shard::decode(b"g/\0\xff\x01\x01"), None, "bits behind the prefix");
        assert_eq!(Shard::decode(b"\0\xff"), None);
    }

    proptest! {
        #[test]
        fn whatever_peers_ask_for_is_a_part_or_none(key in any::<Vec<u8>>()) {
            if let Some(shard) = Shard::decode(&key) {
                prop_assert_eq!(shard.encode(), key);
            }
        }
    }
}
