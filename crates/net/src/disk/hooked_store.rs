//! A store with hooks around its operations.
use std::sync::Arc;

use tributary_content::{Bitmap, ChunkIndex, ChunkStore, HashTree, StoreError, Wishes};

/// Actions in addition to a store's own work.
pub trait StoreHooks: Send {
    /// All chunks have been stored; the object is about to get its name.
    ///
    /// # Errors
    /// [`StoreError`] keeps it from getting the name.
    fn before_finish(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
    /// The object has its name.
    fn after_finish(&mut self) {}
    /// The store has refused something.
    fn on_error(&mut self, _error: &StoreError) {}
}

/// Runs `hooks` around the work of `inner`.
pub struct HookedStore<H> {
    /// What stores.
    pub inner: Box<dyn ChunkStore>,
    /// The added actions.
    pub hooks: H,
}

impl<H: StoreHooks> HookedStore<H> {
    fn watch<T>(&mut self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        result.inspect_err(|error| self.hooks.on_error(error))
    }
}
impl<H: StoreHooks> ChunkStore for HookedStore<H> {
    tributary_core::forwarded! {
        this => this.inner;
        fn held(&Self) -> &Bitmap;
        fn tree(&Self) -> Option<&HashTree>;
        fn wishes(&Self) -> Option<Arc<dyn Wishes>>;
        fn never_waits(&Self) -> bool;
        fn accepts(&Self, index: ChunkIndex) -> bool;
    }
    fn put_tree(&mut self, tree: &HashTree) -> Result<(), StoreError> {
        let put = self.inner.put_tree(tree);
        self.watch(put)
    }
    fn put_chunk(&mut self, index: ChunkIndex, bytes: &[u8]) -> Result<(), StoreError> {
        let put = self.inner.put_chunk(index, bytes);
        self.watch(put)
    }
    fn sync(&mut self) -> Result<(), StoreError> {
        let synced = self.inner.sync();
        self.watch(synced)
    }
    fn finish(&mut self) -> Result<(), StoreError> {
        self.hooks.before_finish()?;
        let finished = self.inner.finish();
        self.watch(finished)?;
        self.hooks.after_finish();
        Ok(())
    }
}
