//! Records of names in an external store, such as an etcd cluster: the contract between a resolver, which does no I/O, and
//! the client of the store, which is independent of the protocol.
//!
//! ```text
//!   resolver ──Request──► Engine ──► the store          a record: key, version, value
//!            ◄──Answer───        ◄── and others' changes a later version replaces an earlier one, never the reverse
//!                                                        a lease: its records expire unless it is renewed
//! ```
//! The contract of an engine:
//! - [`Answer::Stored`] says that the record is in the store, and stays there if a minority of its members fail.
//! - A put is one transaction with the comparison of versions, so that many resolvers may put at the same time.
//! - [`Answer::Changed`] reports each change once, in the order of revisions, after the last [`Answer::Restarted`].
//!   When an engine loses its position, as after a compaction, it restarts, and the resolver lists the records again.
//! - Each request is answered within a few seconds, by [`Answer::Failed`] at the latest. A put that has failed may
//!   still have been stored. Only requests in the [background](Priority::Background) may wait for longer, behind other
//!   background requests.
//! - While the watch is up to date, [`Answer::Current`] is sent every few seconds. Without it, the reported state may
//!   be out of date.
//! - The store is untrusted: a resolver verifies the records that it reads there like those from the network.
use alloc::{string::String, vec::Vec};

use crate::holdings::first_bits;

/// Keeps records alive: the store deletes the records under a lease that was not renewed for `seconds`. Clients that
/// use the same number share the lease.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Lease {
    /// Its number, from 1 to 2^63 − 1.
    pub id: u64,
    /// How long it lasts without being renewed, in seconds.
    pub seconds: u32,
}

impl Lease {
    /// The lease that `parts` name within a context.
    pub fn of(context: &'static str, parts: &[&[u8]], seconds: u32) -> Lease {
        Lease { id: (first_bits(blake3::Hasher::new_derive_key(context), parts) >> 1).max(1), seconds }
    }
}

/// A record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The key.
    pub key: Vec<u8>,
    /// Records with higher versions replace lower ones.
    pub version: u64,
    /// The value.
    pub value: Vec<u8>,
}

/// What a put may replace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum If {
    /// Nothing, or a record with a version below this.
    Below(u64),
    /// The record of this revision, unchanged since: for records whose version cannot be trusted.
    Unchanged(u64),
    /// Any record or none: for records without versions.
    Always,
}

/// A resolver's request. The resolver chooses `id`, and the answer carries it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Stores a record if the present one may be replaced. If exactly this record is present, only its lease changes,
    /// and that counts as stored.
    Put {
        /// Comes back with the answer.
        id: u64,
        /// The record.
        entry: Entry,
        /// The condition on the present record.
        when: If,
        /// The lease of the record; the engine creates it if it does not exist.
        lease: Lease,
    },
    /// Renews a lease.
    Renew {
        /// Comes back with the answer.
        id: u64,
        /// The lease.
        lease: Lease,
    },
    /// Reads the records with exactly these keys; the answer omits missing ones.
    Get {
        /// Comes back with the answer.
        id: u64,
        /// The keys, [`KEYS_MAX`] at most.
        keys: Vec<Vec<u8>>,
    },
    /// Reads the records with keys from `from` on and before `to`, in ascending order.
    List {
        /// Comes back with the answer.
        id: u64,
        /// The first key.
        from: Vec<u8>,
        /// The end of the range, exclusive.
        to: Vec<u8>,
        /// How many at most.
        count: u32,
        /// The revision to read; `None` for the present one.
        at: Option<u64>,
    },
}

/// Keys of one [`Request::Get`] at most: fewer than the 128 operations that etcd allows in a transaction by default.
pub const KEYS_MAX: usize = 100;

impl Request {
    /// The number that comes back with the answer.
    pub fn id(&self) -> u64 {
        match self {
            Request::Put { id, .. }
            | Request::Renew { id, .. }
            | Request::Get { id, .. }
            | Request::List { id, .. } => *id,
        }
    }
}

/// How long a request may wait.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Priority {
    /// A client waits for the answer. It overtakes background requests.
    Question,
    /// One of many, such as the requests that list all records after a restart.
    #[default]
    Background,
}

/// What a record was before a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Before {
    /// There was no record.
    Nothing,
    /// The earlier record.
    Entry(Entry),
    /// The store has discarded the earlier record.
    Unknown,
}

/// A change of a record, by any client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The revision that it made.
    pub revision: u64,
    /// The key.
    pub key: Vec<u8>,
    /// The record after the change; `None` if it was deleted.
    pub after: Option<Entry>,
    /// The record before the change.
    pub before: Before,
}

/// The answers to requests, and the notices of the watch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The record is in the store.
    Stored {
        /// As in the request.
        id: u64,
        /// Whether this put has stored it; if not, exactly this record was present.
        is_new: bool,
    },
    /// The condition of a put did not hold.
    Stale {
        /// As in the request.
        id: u64,
        /// The present record; `None` if the record that should be unchanged was deleted.
        entry: Option<Entry>,
        /// The revision that made it.
        revision: u64,
    },
    /// The lease was renewed, or it has expired together with its records.
    Renewed {
        /// As in the request.
        id: u64,
        /// Whether it was renewed.
        is_alive: bool,
    },
    /// The records of a [`Request::List`] or [`Request::Get`].
    Listed {
        /// As in the request.
        id: u64,
        /// In ascending order of keys.
        entries: Vec<Entry>,
        /// Whether there are more behind the last one.
        more: bool,
        /// The revision of this state; later changes have higher numbers.
        revision: u64,
    },
    /// The request failed; a retry may succeed.
    Failed {
        /// As in the request.
        id: u64,
        /// Why.
        reason: String,
        /// Whether the store is full and refuses writes until space is freed; reads still work.
        is_full: bool,
    },
    /// A record was put, by any client, or deleted.
    Changed(Change),
    /// The watch has (re)started: it reports all changes with revisions above this one. Earlier ones may be missing.
    Restarted {
        /// The revision.
        revision: u64,
    },
    /// All changes up to a moment ago have been reported.
    Current,
}

impl Answer {
    /// The request that this answers; `None` for notices.
    pub fn id(&self) -> Option<u64> {
        match self {
            Answer::Stored { id, .. }
            | Answer::Stale { id, .. }
            | Answer::Renewed { id, .. }
            | Answer::Listed { id, .. }
            | Answer::Failed { id, .. } => Some(*id),
            Answer::Changed(_) | Answer::Restarted { .. } | Answer::Current => None,
        }
    }
}

/// The client of a store.
pub trait Engine: Send {
    /// The name of the store in configs and messages, such as `etcd`.
    fn name(&self) -> &'static str;
    /// Takes a request; the answer comes by [`Engine::poll`].
    fn ask(&mut self, request: Request, priority: Priority);
    /// The next answer or notice; answers to questions come first.
    fn poll(&mut self) -> Option<Answer>;
}
