//! The file served by mirrors: its bytes follow from their position, so no storage is needed.
/// A file whose bytes are known at both ends: arriving bytes are compared and not stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Content {
    /// Two contents of different seeds agree in no more bytes than chance has it.
    pub seed: u64,
    /// Length of the file.
    pub bytes: u64,
}

impl Content {
    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Panics
    /// If that reaches beyond the end of the file.
    pub fn fill(&self, offset: u64, out: &mut [u8]) {
        assert!(offset + out.len() as u64 <= self.bytes, "{} bytes at {offset} exceed {}", out.len(), self.bytes);
        let mut at = offset;
        let mut rest = out;
        while !rest.is_empty() {
            let skip = (at % WORD_BYTES) as usize;
            let word = self.word(at / WORD_BYTES);
            let take = rest.len().min(WORD_BYTES as usize - skip);
            let (now, later) = rest.split_at_mut(take);
            now.copy_from_slice(&word[skip..skip + take]);
            rest = later;
            at += take as u64;
        }
    }
    /// Whether `bytes` match the file from `offset` on.
    pub fn agrees(&self, offset: u64, bytes: &[u8]) -> bool {
        let mut at = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let skip = (at % WORD_BYTES) as usize;
            let word = self.word(at / WORD_BYTES);
            let take = rest.len().min(WORD_BYTES as usize - skip);
            if at + take as u64 > self.bytes || rest[..take] != word[skip..skip + take] {
                return false;
            }
            rest = &rest[take..];
            at += take as u64;
        }
        true
    }

    /// SplitMix64 (Steele, Lea and Flood 2014) at any position: cheap, since each byte is made twice.
    fn word(&self, index: u64) -> [u8; WORD_BYTES as usize] {
        let mut bits = (self.seed.rotate_left(32) ^ index).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)).to_le_bytes()
    }
}

/// Bytes per step of the generator.
const WORD_BYTES: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_cut_gives_the_same_bytes_and_a_changed_byte_is_found() {
        let content = Content { seed: 7, bytes: 1_000 };
        let mut total = vec![0; 1_000];
        content.fill(0, &mut total);
        for (start, end) in [(0, 1), (63, 65), (64, 128), (999, 1_000), (10, 990)] {
            let mut cut = vec![0; end - start];
            content.fill(start as u64, &mut cut);
            assert_eq!(cut, total[start..end]);
            assert!(content.agrees(start as u64, &cut));
            cut[0] ^= 1;
            assert!(!content.agrees(start as u64, &cut));
        }
        assert!(!content.agrees(999, &[total[999], 0]), "beyond the end nothing agrees");
        assert!(!Content { seed: 8, ..content }.agrees(0, &total));
    }
}
