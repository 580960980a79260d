//! What one node keeps at others, said by few numbers: a count and a digest for each bucket of it. Who keeps the same
//! prolongs it; who keeps something else gets it again.
use alloc::vec::Vec;

use crate::wire::{Reader, WireError, Writer};

/// The holdings in one bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Holding {
    /// Which one.
    pub bucket: u16,
    /// How many entries.
    pub count: u32,
    /// The sum of their marks: hashes of what each of them is, its version included.
    pub sum: u64,
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
    /// Reads `bucket 2 | count 4 | sum 8`.
    ///
    /// # Errors
    /// [`WireError`] names the field that is cut off.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Holding { bucket: reader.u16("bucket")?, count: reader.u32("count")?, sum: reader.u64("sum")? })
    }
    /// Writes the same.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u16(self.bucket);
        out.put_u32(self.count);
        out.put_u64(self.sum);
    }
}

/// Reads a count and as many parts, one for each of some of `buckets` buckets, which ascend. `count_field` names the count
/// in errors.
///
/// # Errors
/// [`WireError`] names the field that is cut off, or the bucket that does not follow.
pub fn read_ascending<T>(
    reader: &mut Reader<'_>,
    (count_field, buckets): (&'static str, u16),
    read: impl Fn(&mut Reader<'_>) -> Result<T, WireError>,
    bucket_of: impl Fn(&T) -> u16,
) -> Result<Vec<T>, WireError> {
    let count = reader.u16(count_field)?;
    if count > buckets {
        return Err(WireError::Value { field: count_field, found: count.into() });
    }
    let mut all: Vec<T> = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        let part = read(reader)?;
        let bucket = bucket_of(&part);
        if bucket >= buckets || all.last().is_some_and(|last| bucket_of(last) >= bucket) {
            return Err(WireError::Value { field: "bucket", found: bucket.into() });
        }
        all.push(part);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
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
            let mut reader = Reader::new(&bytes);
            read_ascending(&mut reader, ("buckets", 4), Holding::decode, |holding| holding.bucket).map(|all| all.len())
        };
        assert_eq!(read(&[0, 2, 3]), Ok(3));
        assert_eq!(read(&[2, 2]), Err(WireError::Value { field: "bucket", found: 2 }));
        assert_eq!(read(&[1, 4]), Err(WireError::Value { field: "bucket", found: 4 }));
        assert_eq!(read(&[0; 5]), Err(WireError::Value { field: "buckets", found: 5 }));
    }
}
