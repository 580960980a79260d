//! Deliberate faults, for demos and tests, which an honest network must survive.
use bytes::Bytes;
use tributary_content::{ChunkIndex, Manifest, ObjectReader, StoreError};
use tributary_core::Random;

/// A faulty published object: some of its chunks have flipped bytes, while manifest and tree are the true ones.
pub struct CorruptObject {
    inner: Box<dyn ObjectReader>,
    share: f64,
    seed: u64,
}

impl CorruptObject {
    /// Flips a byte in `share` (0 to 1) of the chunks of `inner`; the same chunks whenever they are read.
    pub fn new(inner: Box<dyn ObjectReader>, share: f64, seed: u64) -> Self {
        CorruptObject { inner, share, seed }
    }
}
impl ObjectReader for CorruptObject {
    fn manifest(&self) -> &Manifest {
        self.inner.manifest()
    }
    fn tree(&self) -> Bytes {
        self.inner.tree()
    }
    fn read_chunk(&mut self, index: ChunkIndex) -> Result<Bytes, StoreError> {
        let chunk = self.inner.read_chunk(index)?;
        let mut random = Random::new(self.seed, u64::from(index.0));
        if chunk.is_empty() || !random.chance(self.share) {
            return Ok(chunk);
        }
        let mut bytes = chunk.to_vec();
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] ^= 0x55;
        Ok(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_content::{MemoryObject, SigningKey};

    fn object() -> MemoryObject {
        let key = SigningKey::from_secret(&[1; 32]);
        MemoryObject::new("/demo/big".parse().unwrap(), vec![7; 3 << 20], &key).unwrap()
    }
    fn chunks(reader: &mut dyn ObjectReader) -> Vec<Bytes> {
        (0..reader.manifest().chunk_count()).map(|index| reader.read_chunk(ChunkIndex(index)).unwrap()).collect()
    }

    #[test]
    fn a_corrupt_object_alters_the_same_chunks_every_time_and_no_manifest() {
        let honest = chunks(&mut object());
        let mut corrupt = CorruptObject::new(Box::new(object()), 0.5, 3);
        let first = chunks(&mut corrupt);
        assert_eq!(first, chunks(&mut corrupt));
        let altered = honest.iter().zip(&first).filter(|(honest, read)| honest != read).count();
        assert!(altered > 0 && altered < honest.len(), "{altered} of {}", honest.len());
        assert_eq!(corrupt.manifest(), object().manifest());
    }

    #[test]
    fn a_share_of_zero_alters_nothing() {
        let mut honest = CorruptObject::new(Box::new(object()), 0.0, 3);
        assert_eq!(chunks(&mut honest), chunks(&mut object()));
    }
}
