//! Link labels, the elements of an FID (paper §II-B, LIPSIN).
//!
//! Every outgoing link of a node, and the delivery to the node itself, has a label that only the node and the
//! topology manager can compute, from the node's random secret:
//! ```text
//! key            = BLAKE3 derive_key("tributary psi link labels", secret)
//! bloom(s, m)    = `bits` positions below m out of the eight 32-bit words of keyed BLAKE3(key, 'B' ‖ port ‖ s)
//! list           = first 4 bytes (in lists of more than 24: first 2) of keyed BLAKE3(key, 'L' ‖ port)
//! ```
//! One hash per salt gives the positions for every filter size, and a position that is already taken moves up
//! by one, so that each label has exactly `bits` bits.
use alloc::{boxed::Box, vec::Vec};

use tributary_core::FaceId;

use crate::wire::{FID_BYTES_MAX, ListLabel, SHORT_LABELS};

/// Salts that a Bloom FID may use: 0 to 63.
pub const SALTS: u8 = 64;
/// Bytes of the smallest Bloom filter that a router accepts.
pub const BLOOM_BYTES_MIN: usize = 8;
/// Maximum bits of a label in a Bloom filter.
pub const BLOOM_BITS_MAX: u8 = 8;
/// Bits of a link label in a Bloom filter; the same in the whole domain. LIPSIN §4.
pub const LABEL_BITS: u8 = 5;
/// Share of set bits beyond which a Bloom FID is dropped. LIPSIN §4.
pub const FILL_MAX: f64 = 0.6;
/// 64-bit words of the largest filter.
pub const FILTER_WORDS_MAX: usize = FID_BYTES_MAX / 8;
/// The words of a Bloom filter.
pub type Filter = [u64; FILTER_WORDS_MAX];

/// A place where a router may put a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Port {
    /// The link behind a face.
    Face(FaceId),
    /// The node itself.
    Local,
}

/// Whether a label is in an FID of kind list with these bytes and this salt.
pub fn is_listed(list: &[u8], salt: u8, label: &ListLabel) -> bool {
    match salt {
        SHORT_LABELS => list.as_chunks::<2>().0.contains(&[label[0], label[1]]),
        _ => list.as_chunks::<4>().0.contains(label),
    }
}

/// The key from which a node's labels are made.
#[derive(Clone)]
pub struct LabelKey([u8; 32]);

impl LabelKey {
    /// The key of a node with this secret.
    pub fn new(secret: &[u8; 16]) -> LabelKey {
        LabelKey(blake3::derive_key("tributary psi link labels", secret))
    }
    /// What the Bloom labels of `port` under `salt` are made of.
    pub fn seeds(&self, port: Port, salt: u8) -> LabelSeeds {
        let hash = self.hash(b'B', port, salt);
        let mut seeds = [0; BLOOM_BITS_MAX as usize];
        for (seed, bytes) in seeds.iter_mut().zip(hash.as_bytes().as_chunks::<4>().0) {
            *seed = u32::from_be_bytes(*bytes);
        }
        LabelSeeds(seeds)
    }
    /// The label of `port` in FIDs of kind list.
    pub fn list(&self, port: Port) -> ListLabel {
        *self.hash(b'L', port, 0).as_bytes().first_chunk().expect("a hash has 32 bytes")
    }

    fn hash(&self, purpose: u8, port: Port, salt: u8) -> blake3::Hash {
        let (local, face) = match port {
            Port::Face(face) => (0, face.0),
            Port::Local => (1, 0),
        };
        let [a, b, c, d] = face.to_be_bytes();
        blake3::keyed_hash(&self.0, &[purpose, local, a, b, c, d, salt])
    }
}

/// The Bloom labels of one port under one salt, for filters of any size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LabelSeeds([u32; BLOOM_BITS_MAX as usize]);

impl LabelSeeds {
    /// The label for a filter of `filter_bytes`, with `bits` bits (1 to [`BLOOM_BITS_MAX`]).
    pub fn bloom(&self, filter_bytes: usize, bits: u8) -> BloomLabel {
        let size = (filter_bytes * 8) as u64;
        let mut label = BloomLabel { count: bits.clamp(1, BLOOM_BITS_MAX), bits: [0; BLOOM_BITS_MAX as usize] };
        for i in 0..usize::from(label.count) {
            let mut bit = ((u64::from(self.0[i]) * size) >> 32) as u16;
            while label.bits[..i].contains(&bit) {
                bit = if u64::from(bit) + 1 == size { 0 } else { bit + 1 };
            }
            label.bits[i] = bit;
        }
        label
    }
}

/// The positions of a label's bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BloomLabel {
    count: u8,
    bits: [u16; BLOOM_BITS_MAX as usize],
}

impl BloomLabel {
    /// Sets the label's bits in `filter`.
    pub fn add_to(&self, filter: &mut [u64]) {
        self.positions().for_each(|bit| filter[bit / 64] |= 1 << (bit % 64));
    }
    /// Whether all of the label's bits are set in `filter`.
    pub fn is_in(&self, filter: &[u64]) -> bool {
        self.positions().all(|bit| filter[bit / 64] & (1 << (bit % 64)) != 0)
    }

    fn positions(&self) -> impl Iterator<Item = usize> {
        self.bits[..usize::from(self.count)].iter().map(|bit| usize::from(*bit))
    }
}

/// The bytes of a filter as words: bit `i` of the filter is bit `i % 64` of word `i / 64`.
pub fn filter_words(bytes: &[u8]) -> Filter {
    let mut words = [0; FILTER_WORDS_MAX];
    let (full_words, rest) = bytes.as_chunks::<8>();
    for (word, bytes) in words.iter_mut().zip(full_words) {
        *word = u64::from_le_bytes(*bytes);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        words[full_words.len()] = u64::from_le_bytes(last);
    }
    words
}

/// The inverse of [`filter_words`]: the first `len` bytes.
pub fn filter_bytes(words: &[u64], len: usize) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).take(len).collect()
}

tributary_core::declared! {
    /// Labels of all ports of one node, in the form that makes forwarding a few AND and compare per link.
    ///
    /// Ports are numbered in the order of [`LabelTables::set_ports`]. Tables are made when a filter size and salt first
    /// occurs and kept, up to `tables_max`; one more empties them all, so that filters of all sizes and salts cannot
    /// fill the memory.
    pub struct LabelTables {
        /// The secret of the labels.
        pub key: LabelKey = LabelKey::new(secret),
        bits: u8 = bits,
        tables_max: usize = tables_max.max(1),
        ports: Vec<Port> = Vec::new(),
        list: Vec<ListLabel> = Vec::new(),
        bloom: Vec<Option<Box<[u64]>>> = Vec::new(),
        tables: usize = 0,
    }
    /// Tables of a node with this secret, labels of `bits` bits, and at most `tables_max` (at least 1) tables.
    pub fn new(secret: &[u8; 16], bits: u8, tables_max: usize) {}
}

impl LabelTables {
    /// Sets the ports; numbers from now on follow this order.
    pub fn set_ports(&mut self, ports: Vec<Port>) {
        self.list = ports.iter().map(|port| self.key.list(*port)).collect();
        self.ports = ports;
        self.clear();
    }
    /// Sets in `matches` (bit `i % 64` of word `i / 64`) the ports whose label under `salt` (below [`SALTS`]) is in
    /// `filter`, which has `filter_bytes` bytes ([`BLOOM_BYTES_MIN`] to [`FID_BYTES_MAX`]). `matches` starts as zeros.
    pub fn match_bloom(&mut self, filter: &Filter, filter_bytes: usize, salt: u8, matches: &mut [u64]) {
        let table = self.table(filter_bytes, salt);
        match filter_bytes.div_ceil(8) {
            1 => match_words::<1>(table, filter, matches),
            2 => match_words::<2>(table, filter, matches),
            3 => match_words::<3>(table, filter, matches),
            4 => match_words::<4>(table, filter, matches),
            5 => match_words::<5>(table, filter, matches),
            6 => match_words::<6>(table, filter, matches),
            7 => match_words::<7>(table, filter, matches),
            8 => match_words::<8>(table, filter, matches),
            9 => match_words::<9>(table, filter, matches),
            10 => match_words::<10>(table, filter, matches),
            11 => match_words::<11>(table, filter, matches),
            _ => match_words::<12>(table, filter, matches),
        }
    }
    /// As [`LabelTables::match_bloom`], for an FID of kind list.
    pub fn match_list(&self, list: &[u8], salt: u8, matches: &mut [u64]) {
        for (i, own) in self.list.iter().enumerate() {
            if is_listed(list, salt, own) {
                matches[i / 64] |= 1 << (i % 64);
            }
        }
    }

    fn table(&mut self, filter_bytes: usize, salt: u8) -> &[u64] {
        let slot = (filter_bytes.min(FID_BYTES_MAX) * usize::from(SALTS)) + usize::from(salt % SALTS);
        if self.bloom.get(slot).is_none_or(Option::is_none) {
            if self.tables >= self.tables_max {
                self.clear();
            }
            if self.bloom.len() <= slot {
                self.bloom.resize(slot + 1, None);
            }
            let words = filter_bytes.div_ceil(8);
            let mut table = alloc::vec![0; words * self.ports.len()].into_boxed_slice();
            for (port, label) in self.ports.iter().zip(table.chunks_exact_mut(words)) {
                self.key.seeds(*port, salt).bloom(filter_bytes, self.bits).add_to(label);
            }
            self.bloom[slot] = Some(table);
            self.tables += 1;
        }
        self.bloom[slot].as_deref().expect("made above if it was not there")
    }
    fn clear(&mut self) {
        self.bloom.clear();
        self.tables = 0;
    }
}

fn match_words<const N: usize>(table: &[u64], filter: &Filter, matches: &mut [u64]) {
    let filter: &[u64; N] = filter.first_chunk().expect("no filter has more words");
    for (labels, matched) in table.chunks(64 * N).zip(matches) {
        let mut mask = 0;
        for (i, label) in labels.as_chunks::<N>().0.iter().enumerate() {
            let missing = label.iter().zip(filter).fold(0, |missing, (label, filter)| missing | (label & !filter));
            mask |= u64::from(missing == 0) << i;
        }
        *matched = mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_the_same_for_manager_and_router() {
        let secret = [7; 16];
        let key = LabelKey::new(&secret);
        let ports: Vec<_> = (0..70).map(|i| Port::Face(FaceId(i))).chain([Port::Local]).collect();
        let mut tables = LabelTables::new(&secret, 5, 1000);
        tables.set_ports(ports.clone());
        for size in [8, 10, 16, 32, 62, 64, 96] {
            for salt in [0, 1, 63] {
                for wanted in [[0, 70], [63, 64], [5, 69]] {
                    let mut filter = [0; FILTER_WORDS_MAX];
                    wanted.iter().for_each(|i| key.seeds(ports[*i], salt).bloom(size, 5).add_to(&mut filter));
                    let mut matches = [0; 2];
                    tables.match_bloom(&filter, size, salt, &mut matches);
                    for (i, port) in ports.iter().enumerate() {
                        let expected = key.seeds(*port, salt).bloom(size, 5).is_in(&filter);
                        assert_eq!(matches[i / 64] & (1 << (i % 64)) != 0, expected, "port {i} of {size} bytes");
                        assert!(expected || !wanted.contains(&i));
                    }
                }
            }
        }
    }

    #[test]
    fn a_label_has_its_number_of_bits_and_lies_inside_the_filter() {
        let key = LabelKey::new(&[1; 16]);
        for size in [8, 16, 31, 32, 64, 96] {
            for salt in 0..SALTS {
                for bits in 1..=BLOOM_BITS_MAX {
                    let mut filter = [0; FILTER_WORDS_MAX];
                    key.seeds(Port::Local, salt).bloom(size, bits).add_to(&mut filter);
                    assert_eq!(filter.iter().map(|word| word.count_ones()).sum::<u32>(), u32::from(bits));
                    let bytes = filter_bytes(&filter, size);
                    assert_eq!(filter_words(&bytes), filter);
                }
            }
        }
    }

    #[test]
    fn tables_do_not_grow_beyond_their_number() {
        let mut tables = LabelTables::new(&[1; 16], 5, 10);
        tables.set_ports([Port::Local].into());
        let mut matches = [0];
        for size in (8..=96).step_by(2) {
            for salt in 0..SALTS {
                tables.match_bloom(&[u64::MAX; FILTER_WORDS_MAX], size, salt, &mut matches);
                assert_eq!(matches[0], 1);
                assert!(tables.tables <= 10 && tables.bloom.iter().flatten().count() == tables.tables);
            }
        }
    }

    #[test]
    fn list_labels_match_their_ports_only() {
        let mut tables = LabelTables::new(&[3; 16], 5, 10);
        let ports = [Port::Face(FaceId(1)), Port::Face(FaceId(2)), Port::Local];
        tables.set_ports(ports.into());
        let list = [tables.key.list(ports[2]), [9; 4], tables.key.list(ports[0])].concat();
        let mut matches = [0];
        tables.match_list(&list, 0, &mut matches);
        assert_eq!(matches[0], 0b101);
    }
}
