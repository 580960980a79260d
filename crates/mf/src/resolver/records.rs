//! Where a resolver keeps records: in its own memory and on its own disk, or in an external store.
use alloc::{boxed::Box, string::String, vec::Vec};

use tributary_content::{ChunkRepository, Damage, StoreError};
use tributary_core::Time;
use tributary_trust::Identity;

use super::Asker;
use crate::{
    ids::{Guid, NetworkAddress},
    wire::NameMessage,
};

/// The records of a resolver: [`Replica`](super::Replica) or [`Stored`](super::Stored).
pub trait Records: Send {
    /// Requires from now on that records have an end, in a network with an authority.
    fn set_identity(&mut self, identity: &Identity);
    /// Keeps records in `repository` too, and takes over the valid ones of an earlier run; their owners have their
    /// lifetime again to renew them. Returns how many records there are. An external store needs no repository.
    ///
    /// # Errors
    /// [`StoreError`] if the repository cannot be read; then every record is refused until a later attempt succeeds.
    fn restore(&mut self, _now: Time, _repository: Box<dyn ChunkRepository>) -> Result<usize, StoreError> {
        Ok(0)
    }
    /// Takes a question of a front and queues its answer.
    fn handle(&mut self, now: Time, from: Asker, message: NameMessage);
    /// Takes the answer of a router that got records handed over.
    fn handle_answer(&mut self, _now: Time, _from: NetworkAddress, _message: &NameMessage) {}
    /// Takes the results of the disk or the store, and sends the answers that waited for them.
    fn settle(&mut self, now: Time);
    /// The last failure of the repository, once.
    fn poll_failure(&mut self) -> Option<StoreError> {
        None
    }
    /// An answer or a notification to send.
    fn poll_message(&mut self) -> Option<(Asker, NameMessage)>;
    /// A note for people.
    fn poll_note(&mut self) -> Option<String>;
    /// When to call [`Records::settle`].
    fn poll_timeout(&self) -> Option<Time>;
    /// Removes expired records and watches.
    fn handle_timeout(&mut self, now: Time);
    /// A router has restarted; its requests are numbered from the beginning.
    fn on_restarted(&mut self, router: NetworkAddress);
    /// Other routers than `before` hold records now, each record at `replicas` of them. `own` is this one.
    fn handle_members(
        &mut self,
        now: Time,
        own: NetworkAddress,
        before: &[NetworkAddress],
        members: &[NetworkAddress],
        replicas: usize,
    );
    /// The damage that the repository has found; `None` for an external store.
    fn damage(&self) -> Option<Damage> {
        None
    }
    /// Whether a record at this place is held here.
    fn knows(&self, _place: &Guid) -> bool {
        false
    }
    /// Counters for people.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
    /// Fill levels of the tables.
    fn tables(&self) -> Vec<(&'static str, u64)>;
    /// Its state, for people.
    fn status(&self) -> Vec<(&'static str, String)>;
}
