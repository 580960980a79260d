//! The file that mirrors serve: bytes that follow from their position, so that nobody has to store it.
use tributary_core::Random;

/// A file whose every byte is known to both ends: what arrives is compared byte by byte, and nothing is kept.
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
    /// Whether `bytes` are those of the file from `offset` on.
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

    fn word(&self, index: u64) -> [u8; WORD_BYTES as usize] {
        let mut random = Random::new(self.seed, index);
        let mut word = [0; WORD_BYTES as usize];
        for eight in word.chunks_exact_mut(8) {
            eight.copy_from_slice(&random.bits().to_le_bytes());
        }
        word
    }
}

/// How many bytes come from one random stream.
const WORD_BYTES: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_cut_gives_the_same_bytes_and_a_changed_byte_is_found() {
        let content = Content { seed: 7, bytes: 1_000 };
        let mut whole = vec![0; 1_000];
        content.fill(0, &mut whole);
        for (start, end) in [(0, 1), (63, 65), (64, 128), (999, 1_000), (10, 990)] {
            let mut cut = vec![0; end - start];
            content.fill(start as u64, &mut cut);
            assert_eq!(cut, whole[start..end]);
            assert!(content.agrees(start as u64, &cut));
            cut[0] ^= 1;
            assert!(!content.agrees(start as u64, &cut));
        }
        assert!(!content.agrees(999, &[whole[999], 0]), "beyond the end nothing agrees");
        assert!(!Content { seed: 8, ..content }.agrees(0, &whole));
    }
}
