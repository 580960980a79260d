//! Where a resolver keeps records: in its own memory and on its own disk, or in an outside store.
use alloc::{boxed::Box, string::String};

use tributary_content::{ChunkRepository, Damage, StoreError};
use tributary_core::Time;
use tributary_trust::Identity;

use super::{Asker, Replica, Stored};
use crate::{
    ids::{Guid, NetworkAddress},
    wire::NameMessage,
};

/// The records of a resolver.
pub enum Records {
    /// The embedded engine.
    Embedded(Box<Replica>),
    /// An outside store.
    Stored(Box<Stored>),
}

impl Records {
    /// In a network with an authority: takes records that have an end from now on.
    pub fn set_identity(&mut self, identity: &Identity) {
        match self {
            Records::Embedded(replica) => replica.set_identity(identity),
            Records::Stored(stored) => stored.set_identity(identity),
        }
    }
    /// Keeps records in `repository` too, and takes over those of an earlier life. An outside store needs none.
    ///
    /// # Errors
    /// [`StoreError`] as [`Replica::restore`].
    pub fn restore(&mut self, now: Time, repository: Box<dyn ChunkRepository>) -> Result<(), StoreError> {
        match self {
            Records::Embedded(replica) => replica.restore(now, repository).map(drop),
            Records::Stored(_) => Ok(()),
        }
    }
    /// Takes a question.
    pub fn handle(&mut self, now: Time, from: Asker, message: NameMessage) {
        match self {
            Records::Embedded(replica) => replica.handle(now, from, message),
            Records::Stored(stored) => stored.handle(now, from, message),
        }
    }
    /// Takes the answer of a router to which something was handed over.
    pub fn handle_answer(&mut self, now: Time, from: NetworkAddress, message: &NameMessage) {
        if let Records::Embedded(replica) = self {
            replica.handle_answer(now, from, message);
        }
    }
    /// Takes what a disk or a store has done.
    pub fn settle(&mut self, now: Time) {
        match self {
            Records::Embedded(replica) => replica.commit(now),
            Records::Stored(stored) => stored.settle(now),
        }
    }
    /// What went wrong with the repository; told once.
    pub fn poll_failure(&mut self) -> Option<StoreError> {
        match self {
            Records::Embedded(replica) => replica.poll_failure(),
            Records::Stored(_) => None,
        }
    }
    /// An answer or a notification to send.
    pub fn poll_message(&mut self) -> Option<(Asker, NameMessage)> {
        match self {
            Records::Embedded(replica) => replica.poll_message(),
            Records::Stored(stored) => stored.poll_message(),
        }
    }
    /// Something worth telling.
    pub fn poll_note(&mut self) -> Option<String> {
        match self {
            Records::Embedded(replica) => replica.poll_note(),
            Records::Stored(stored) => stored.poll_note(),
        }
    }
    /// When to call [`Records::settle`].
    pub fn poll_timeout(&self) -> Option<Time> {
        match self {
            Records::Embedded(replica) => replica.poll_timeout(),
            Records::Stored(stored) => stored.poll_timeout(),
        }
    }
    /// Forgets what is over.
    pub fn handle_timeout(&mut self, now: Time) {
        match self {
            Records::Embedded(replica) => replica.handle_timeout(now),
            Records::Stored(stored) => stored.handle_timeout(now),
        }
    }
    /// A router has started anew.
    pub fn on_restarted(&mut self, router: NetworkAddress) {
        match self {
            Records::Embedded(replica) => replica.on_restarted(router),
            Records::Stored(stored) => stored.on_restarted(router),
        }
    }
    /// Other routers than `before` hold records now, each of them at `replicas` routers. `own` is this one.
    pub fn handle_members(
        &mut self,
        now: Time,
        own: NetworkAddress,
        before: &[NetworkAddress],
        members: &[NetworkAddress],
        replicas: usize,
    ) {
        match self {
            Records::Embedded(replica) => replica.hand_over(now, own, before, members, replicas),
            Records::Stored(stored) => stored.handle_members(now, own, members),
        }
    }
    /// What the repository has found damaged; `None` without one.
    pub fn damage(&self) -> Option<Damage> {
        match self {
            Records::Embedded(replica) => Some(replica.damage()),
            Records::Stored(_) => None,
        }
    }
    /// Whether anything is held here at a place.
    pub fn knows(&self, place: &Guid) -> bool {
        match self {
            Records::Embedded(replica) => replica.knows(place),
            Records::Stored(_) => false,
        }
    }
}
