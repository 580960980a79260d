//! One node's entries at others, summarised by a count and a digest per bucket. A holder with the same entries prolongs
//! them; one with others gets them again.
use alloc::vec::Vec;

use tributary_core::{
    wire::{
        Codec, Reader, WireError,
        codec::{List16, Own, U16, U32, U64},
    },
    wire_table,
};

wire_table! {
    /// The holdings in one bucket.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Holding {
        /// Which one.
        pub bucket: u16 = U16 => "bucket",
        /// How many entries.
        pub count: u32 = U32 => "count",
        /// The sum of their marks: hashes of their identity and version.
        pub sum: u64 = U64 => "sum",
    }
}

/// The first 64 bits of a hash of all parts, one behind the other: the mark of an entry.
pub fn mark(parts: &[&[u8]]) -> u64 {
    first_bits(blake3::Hasher::new(), parts)
}
pub(crate) fn first_bits(mut hasher: blake3::Hasher, parts: &[&[u8]]) -> u64 {
    for part in parts {
        hasher.update(part);
    }
    u64::from_be_bytes(*hasher.finalize().as_bytes().first_chunk().expect("8 of 32 bytes"))
}

impl Holding {
    /// Bytes of an encoded one.
    pub const BYTES: usize = 14;

    /// Counts an entry in, given its mark.
    pub fn add(&mut self, mark: u64) {
        self.count = self.count.saturating_add(1);
        self.sum = self.sum.wrapping_add(mark);
    }
    /// The reverse of [`Holding::add`].
    pub fn remove(&mut self, mark: u64) {
        self.count = self.count.saturating_sub(1);
        self.sum = self.sum.wrapping_sub(mark);
    }
}

/// A count in two bytes and one part per bucket, in ascending order of buckets, which are below this number.
pub struct Ascending(pub u16);
impl Codec<Vec<Holding>> for Ascending {
    fn read(&self, reader: &mut Reader<'_>, field: &'static str) -> Result<Vec<Holding>, WireError> {
        self.check(List16(self.0.into(), "bucket", Own).read(reader, field)?, |holding: &Holding| holding.bucket)
    }
    fn write(&self, value: &Vec<Holding>, out: &mut Vec<u8>) {
        List16(self.0.into(), "bucket", Own).write(value, out);
    }
}
impl Codec<Vec<u16>> for Ascending {
    fn read(&self, reader: &mut Reader<'_>, field: &'static str) -> Result<Vec<u16>, WireError> {
        self.check(List16(self.0.into(), "bucket", U16).read(reader, field)?, |bucket| *bucket)
    }
    fn write(&self, value: &Vec<u16>, out: &mut Vec<u8>) {
        List16(self.0.into(), "bucket", U16).write(value, out);
    }
}
impl Ascending {
    fn check<T>(&self, all: Vec<T>, bucket_of: impl Fn(&T) -> u16) -> Result<Vec<T>, WireError> {
        let buckets = || all.iter().map(&bucket_of);
        let wrong = buckets().zip(buckets().skip(1)).find(|(first, second)| first >= second).map(|(_, second)| second);
        match wrong.or(buckets().last().filter(|last| *last >= self.0)) {
            Some(bucket) => Err(WireError::Value { field: "bucket", found: bucket.into() }),
            None => Ok(all),
        }
    }
}

#[cfg(test)]
mod tests {
    use tributary_core::wire::{Wire, Writer};

    use super::*;

    #[test]
    fn what_is_counted_in_and_out_in_any_order_leaves_nothing() {
        let mut holding = Holding { bucket: 3, ..Holding::default() };
        for mark in [7, u64::MAX, 9] {
            holding.add(mark);
        }
        for mark in [9, 7, u64::MAX] {
            holding.remove(mark);
        }
        assert_eq!(holding, Holding { bucket: 3, count: 0, sum: 0 });
    }

    #[test]
    fn buckets_ascend_and_there_are_no_others() {
        let read = |buckets: &[u16]| {
            let mut bytes = Vec::new();
            bytes.put_u16(buckets.len() as u16);
            buckets.iter().for_each(|bucket| Holding { bucket: *bucket, count: 1, sum: 2 }.encode(&mut bytes));
            assert_eq!(bytes.len(), 2 + Holding::BYTES * buckets.len());
            let all: Result<Vec<Holding>, _> = Ascending(4).read(&mut Reader::new(&bytes), "buckets");
            all.map(|all| all.len())
        };
        assert_eq!(read(&[0, 2, 3]), Ok(3));
        assert_eq!(read(&[2, 2]), Err(WireError::Value { field: "bucket", found: 2 }));
        assert_eq!(read(&[1, 4]), Err(WireError::Value { field: "bucket", found: 4 }));
        assert_eq!(read(&[0; 5]), Err(WireError::Value { field: "buckets", found: 5 }));
    }
}
