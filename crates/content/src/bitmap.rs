//! Which chunks of an object, or packets of a chunk, are held.
use alloc::{vec, vec::Vec};
use core::ops::Range;

/// A set of numbers below a fixed length. Indices are `u32` or [`ChunkIndex`](crate::ChunkIndex).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bitmap {
    words: Vec<u64>,
    len: u32,
    count: u32,
}

impl Bitmap {
    /// The largest length: 1,048,576 bits, 128 KiB.
    pub const LEN_MAX: u32 = 1 << 20;

    /// `len` bits, none of them set.
    ///
    /// # Panics
    /// If `len` exceeds [`Bitmap::LEN_MAX`].
    pub fn new(len: u32) -> Self {
        assert!(len <= Self::LEN_MAX, "a bitmap has at most {} bits, not {len}", Self::LEN_MAX);
        Bitmap { words: vec![0; len.div_ceil(64) as usize], len, count: 0 }
    }
    /// `len` bits, all of them set.
    ///
    /// # Panics
    /// If `len` exceeds [`Bitmap::LEN_MAX`].
    pub fn full(len: u32) -> Self {
        let mut bitmap = Bitmap::new(len);
        bitmap.words.fill(u64::MAX);
        if let Some(last) = bitmap.words.last_mut()
            && !len.is_multiple_of(64)
        {
            *last = (1 << (len % 64)) - 1;
        }
        bitmap.count = len;
        bitmap
    }
    /// Reads `len` bits in the form of [`Bitmap::encode`]. The first bit is the lowest of the first byte.
    ///
    /// # Errors
    /// [`BitmapError`] if `len` is too large, the bytes are not exactly as many as needed, or a bit beyond `len` is set.
    pub fn decode(len: u32, bytes: &[u8]) -> Result<Self, BitmapError> {
        if len > Self::LEN_MAX {
            return Err(BitmapError::TooLong { len });
        }
        let need = len.div_ceil(8) as usize;
        if bytes.len() != need {
            return Err(BitmapError::Length { need, have: bytes.len() });
        }
        let mut bitmap = Bitmap::new(len);
        for (word, bytes) in bitmap.words.iter_mut().zip(bytes.chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(padded);
        }
        if !len.is_multiple_of(64) && bitmap.words.last().is_some_and(|last| last >> (len % 64) != 0) {
            return Err(BitmapError::Padding);
        }
        bitmap.count = bitmap.words.iter().map(|word| word.count_ones()).sum();
        Ok(bitmap)
    }

    /// Sets one bit; true if that changed it. A bit beyond the length is ignored.
    pub fn set(&mut self, index: impl Into<u32>) -> bool {
        let index = index.into();
        let changes = index < self.len && !self.get(index);
        if changes {
            self.words[index as usize / 64] |= 1 << (index % 64);
            self.count += 1;
        }
        changes
    }
    /// Clears one bit; true if that changed it.
    pub fn clear(&mut self, index: impl Into<u32>) -> bool {
        let index = index.into();
        let changes = self.get(index);
        if changes {
            self.words[index as usize / 64] &= !(1 << (index % 64));
            self.count -= 1;
        }
        changes
    }

    /// Whether one bit is set; never beyond the length.
    pub fn get(&self, index: impl Into<u32>) -> bool {
        let index = index.into();
        index < self.len && self.words[index as usize / 64] >> (index % 64) & 1 == 1
    }
    /// The number of bits.
    pub fn len(&self) -> u32 {
        self.len
    }
    /// Whether the bitmap has no bits at all, set or not.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// How many bits are set.
    pub fn count(&self) -> u32 {
        self.count
    }
    /// Whether all bits are set.
    pub fn is_full(&self) -> bool {
        self.count == self.len
    }
    /// The first bit that is not set.
    pub fn first_unset(&self) -> Option<u32> {
        self.next_unset(0)
    }
    /// The first bit at or after `from` that is not set.
    pub fn next_unset(&self, from: u32) -> Option<u32> {
        self.next(from, u64::MAX)
    }
    /// The first bit at or after `from` that is set.
    pub fn next_set(&self, from: u32) -> Option<u32> {
        self.next(from, 0)
    }
    /// The longest ranges of bits that are not set, in order.
    pub fn unset_ranges(&self) -> impl Iterator<Item = Range<u32>> {
        let mut at = 0;
        core::iter::from_fn(move || {
            let start = self.next_unset(at)?;
            at = self.next_set(start).unwrap_or(self.len);
            Some(start..at)
        })
    }
    /// The longest ranges of bits that are set, in order.
    pub fn set_ranges(&self) -> impl Iterator<Item = Range<u32>> {
        let mut at = 0;
        core::iter::from_fn(move || {
            let start = self.next_set(at)?;
            at = self.next_unset(start).unwrap_or(self.len);
            Some(start..at)
        })
    }
    /// The bits that are set, in order.
    pub fn iter_set(&self) -> impl Iterator<Item = u32> {
        let mut at = 0;
        core::iter::from_fn(move || {
            let found = self.next_set(at)?;
            at = found + 1;
            Some(found)
        })
    }
    /// One bit per bit, the first one lowest in the first byte; unused bits of the last byte are zero.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(self.len.div_ceil(8) as usize);
        bytes
    }

    /// The first bit at or after `from` that is set once all words are XORed with `flip`.
    fn next(&self, from: u32, flip: u64) -> Option<u32> {
        if from >= self.len {
            return None;
        }
        let first = from / 64;
        let mut keep = u64::MAX << (from % 64);
        for (number, word) in (first..).zip(&self.words[first as usize..]) {
            let word = (word ^ flip) & keep;
            keep = u64::MAX;
            if word != 0 {
                let found = number * 64 + word.trailing_zeros();
                return (found < self.len).then_some(found);
            }
        }
        None
    }
}

/// Why bytes are not a bitmap of some length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BitmapError {
    /// More bits than any bitmap has.
    #[error("a bitmap has at most {max} bits, not {len}", max = Bitmap::LEN_MAX)]
    TooLong {
        /// The requested length.
        len: u32,
    },
    /// More or fewer bytes than the bits need.
    #[error("the bitmap has {have} bytes instead of {need}")]
    Length {
        /// Bytes that the bits need.
        need: usize,
        /// Bytes present.
        have: usize,
    },
    /// A bit beyond the length is set.
    #[error("the bitmap has bits set beyond its end")]
    Padding,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_an_ordered_set(
            len in 0u32..300,
            steps in prop::collection::vec((any::<bool>(), 0u32..310), 0..400),
            from in 0u32..310,
        ) {
            let (mut bitmap, mut oracle) = (Bitmap::new(len), BTreeSet::new());
            for (set, index) in steps {
                if set {
                    prop_assert_eq!(bitmap.set(index), index < len && oracle.insert(index));
                } else {
                    prop_assert_eq!(bitmap.clear(index), oracle.remove(&index));
                }
            }
            let unset: Vec<u32> = (0..len).filter(|index| !oracle.contains(index)).collect();
            prop_assert!((0..310).all(|index| bitmap.get(index) == oracle.contains(&index)));
            prop_assert_eq!(bitmap.count() as usize, oracle.len());
            prop_assert_eq!(bitmap.is_full(), unset.is_empty());
            prop_assert_eq!(bitmap.first_unset(), unset.first().copied());
            prop_assert_eq!(bitmap.next_unset(from), unset.iter().copied().find(|index| *index >= from));
            prop_assert_eq!(bitmap.next_set(from), oracle.range(from..).next().copied());
            prop_assert!(bitmap.iter_set().eq(oracle.iter().copied()));
            let runs: Vec<_> = bitmap.unset_ranges().collect();
            prop_assert!(runs.windows(2).all(|pair| pair[0].end < pair[1].start), "runs touch: {:?}", runs);
            prop_assert_eq!(runs.into_iter().flatten().collect::<Vec<_>>(), unset);
            let runs: Vec<_> = bitmap.set_ranges().collect();
            prop_assert!(runs.windows(2).all(|pair| pair[0].end < pair[1].start), "runs touch: {:?}", runs);
            prop_assert!(runs.into_iter().flatten().eq(oracle.iter().copied()));
            prop_assert_eq!(Bitmap::decode(len, &bitmap.encode()), Ok(bitmap));
        }
    }

    #[test]
    fn a_full_bitmap_has_every_bit_and_none_beyond() {
        for len in [0, 1, 63, 64, 65, 128] {
            let full = Bitmap::full(len);
            assert_eq!((full.count(), full.first_unset(), full.get(len)), (len, None, false));
            assert_eq!(Bitmap::decode(len, &full.encode()), Ok(full));
        }
    }

    #[test]
    fn malformed_bytes_are_refused_with_the_reason() {
        assert_eq!(Bitmap::decode(9, &[0xff]), Err(BitmapError::Length { need: 2, have: 1 }));
        assert_eq!(Bitmap::decode(9, &[0xff, 1, 0]), Err(BitmapError::Length { need: 2, have: 3 }));
        assert_eq!(Bitmap::decode(9, &[0xff, 2]), Err(BitmapError::Padding));
        assert!(Bitmap::decode(9, &[0xff, 1]).is_ok_and(|bitmap| bitmap.is_full()));
        let len = Bitmap::LEN_MAX + 1;
        assert_eq!(Bitmap::decode(len, &vec![0; len.div_ceil(8) as usize]), Err(BitmapError::TooLong { len }));
        assert_eq!(Bitmap::new(Bitmap::LEN_MAX).len(), Bitmap::LEN_MAX);
    }
}
