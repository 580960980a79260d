//! Holes: zeros are not written to a file that reads as zeros there.
use std::{io, ops::Range};

use super::fs::FsFile;

/// Bytes of a block that a file system leaves out as a unit.
const BLOCK_BYTES: u64 = 4096;

/// The parts of `bytes` to write at `offset` of a file that is all zeros there: everything but complete blocks of
/// zeros.
pub(super) fn data_in(bytes: &[u8], offset: u64) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() && is_zero(&bytes[block_at(at, bytes.len(), offset)]) {
            at = block_at(at, bytes.len(), offset).end;
        }
        let start = at;
        while at < bytes.len() && !is_zero(&bytes[block_at(at, bytes.len(), offset)]) {
            at = block_at(at, bytes.len(), offset).end;
        }
        (start < at).then_some(start..at)
    })
}
/// Writes `bytes` at `offset` of a file with any contents; blocks of zeros become holes, if the file system has any.
pub(super) fn overwrite(file: &dyn FsFile, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let zero = |range: Range<usize>| -> io::Result<()> {
        let (at, length) = (offset + range.start as u64, range.len() as u64);
        if range.is_empty() || file.punch_hole(at, length).is_ok() {
            return Ok(());
        }
        file.write_all_at(&bytes[range], at)
    };
    let mut end = 0;
    for range in data_in(bytes, offset) {
        zero(end..range.start)?;
        file.write_all_at(&bytes[range.clone()], offset + range.start as u64)?;
        end = range.end;
    }
    zero(end..bytes.len())
}

/// The block around `at`, cut to the bytes.
fn block_at(at: usize, length: usize, offset: u64) -> Range<usize> {
    let left = BLOCK_BYTES - (offset + at as u64) % BLOCK_BYTES;
    at..length.min(at + usize::try_from(left).unwrap_or(usize::MAX))
}
fn is_zero(block: &[u8]) -> bool {
    let (words, rest) = block.as_chunks::<16>();
    words.iter().all(|word| u128::from_ne_bytes(*word) == 0) && rest.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::iter::once;

    #[test]
    fn only_whole_blocks_of_zeros_are_left_out() {
        let mut bytes = vec![0; 5 * 4096];
        assert_eq!(data_in(&bytes, 0).count(), 0);
        bytes[4096] = 1;
        assert!(data_in(&bytes, 0).eq(once(4096..8192)));
        // In the file the block starts elsewhere.
        assert!(data_in(&bytes, 100).eq(once(3996..8092)));
        bytes[8191] = 1;
        bytes[8192] = 1;
        assert!(data_in(&bytes, 0).eq(once(4096..12288)));
        assert!(data_in(&bytes[..4097], 0).eq(once(4096..4097)));
        assert_eq!(data_in(&[], 7).count(), 0);
    }

    proptest! {
        #[test]
        fn what_is_left_out_is_zero(
            blocks in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..12), cut in 0usize..5000, offset in 0u64..9000,
        ) {
            let mut bytes: Vec<u8> = blocks.iter().flat_map(|byte| [vec![0; 3000], vec![*byte; 1096]].concat()).collect();
            bytes.truncate(bytes.len().saturating_sub(cut));
            let mut written = vec![0; bytes.len()];
            for range in data_in(&bytes, offset) {
                written[range.clone()].copy_from_slice(&bytes[range]);
            }
            prop_assert_eq!(written, bytes);
        }
    }
}
