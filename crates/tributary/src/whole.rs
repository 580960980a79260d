//! A store that tells when its object is whole.
use tributary_content::{Bitmap, ChunkIndex, ChunkStore, HashTree, StoreError};

/// Calls `tell` once `inner` has finished.
pub(crate) struct TellsWhole<F> {
    pub(crate) inner: Box<dyn ChunkStore>,
    pub(crate) tell: F,
}
impl<F: FnMut() + Send> ChunkStore for TellsWhole<F> {
    fn held(&self) -> &Bitmap {
        self.inner.held()
    }
    fn tree(&self) -> Option<&HashTree> {
        self.inner.tree()
    }
    fn put_tree(&mut self, tree: &HashTree) -> Result<(), StoreError> {
        self.inner.put_tree(tree)
    }
    fn put_chunk(&mut self, index: ChunkIndex, bytes: &[u8]) -> Result<(), StoreError> {
        self.inner.put_chunk(index, bytes)
    }
    fn sync(&mut self) -> Result<(), StoreError> {
        self.inner.sync()
    }
    fn finish(&mut self) -> Result<(), StoreError> {
        self.inner.finish()?;
        (self.tell)();
        Ok(())
    }
}
