//! A disk in memory that forgets what was not committed when its node is killed.
use bytes::Bytes;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tributary_content::StoreError;
use tributary_mf::{payload::Payload, router::proxy::ChunkRepository};

/// Chunks by number: head and payload. Clones are the same disk.
#[derive(Clone, Default)]
pub(super) struct Disk(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    durable: BTreeMap<u64, (Vec<u8>, Bytes)>,
    current: BTreeMap<u64, (Vec<u8>, Bytes)>,
}

impl Disk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Power is gone: what was not committed is lost.
    pub(super) fn crash(&self) {
        let mut state = self.state();
        state.current = state.durable.clone();
    }
}

impl ChunkRepository for Disk {
    fn put(&mut self, id: u64, head: &[u8], payload: &Payload) -> Result<(), StoreError> {
        self.state().current.insert(id, (head.into(), payload.to_bytes()));
        Ok(())
    }
    fn remove(&mut self, id: u64) -> Result<(), StoreError> {
        self.state().current.remove(&id);
        Ok(())
    }
    fn commit(&mut self) -> Result<(), StoreError> {
        let mut state = self.state();
        state.durable = state.current.clone();
        Ok(())
    }
    fn read(&mut self, id: u64) -> Result<Bytes, StoreError> {
        self.state().current.get(&id).map(|(_, payload)| payload.clone()).ok_or_else(|| StoreError::Io {
            operation: "read",
            path: format!("chunk {id}"),
            reason: "there is no such chunk".into(),
        })
    }
    fn list(&mut self) -> Result<Vec<(u64, Vec<u8>, u64)>, StoreError> {
        let list = |(id, (head, payload)): (&u64, &(Vec<u8>, Bytes))| (*id, head.clone(), payload.len() as u64);
        Ok(self.state().current.iter().map(list).collect())
    }
}
