//! Records of names in an outside store, such as an etcd cluster: the contract between a resolver, which has no input or
//! output, and the client of the store, which knows no protocol.
//!
//! ```text
//!   resolver ──Request──► Engine ──► the store          a record: key, version, value
//!            ◄──Answer───        ◄── and what others     a later version replaces an earlier one, never the reverse
//!                                    change in it        a lease: what is put under it goes when nobody renews it
//! ```
//! What an engine has to promise, and what it has not:
//! - [`Answer::Stored`] says that the record is in the store, and stays there if a minority of its members fail.
//! - A put is one transaction with the comparison of versions, so that many resolvers may put at the same time.
//! - [`Answer::Changed`] tells each change once, in the order of revisions, from the last [`Answer::Restarted`] on. When
//!   an engine cannot go on from where it was, as after a compaction, it restarts, and the resolver lists again.
//! - Each request is answered, within a few seconds, by [`Answer::Failed`] if by nothing else. What has failed may have
//!   been stored all the same. Only what is asked in the [background](Priority::Background) may wait for longer, behind
//!   others of its kind.
//! - While changes are told as soon as they happen, [`Answer::Current`] says so every few seconds. When it does not, what
//!   was told may be long past.
//! - Records need not be believed: a resolver verifies what it reads there as it verifies what comes from the network.
mod health;

use alloc::{string::String, vec::Vec};

pub use health::{BLIND_AFTER, Health, Words};

/// What keeps records alive: whatever was put under it goes when it has not been renewed for so long. Everybody who
/// names the same number means the same lease.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Lease {
    /// Its number, from 1 to 2^63 − 1.
    pub id: u64,
    /// How long it lasts without being renewed, in seconds.
    pub seconds: u32,
}

/// A record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Where it is kept.
    pub key: Vec<u8>,
    /// Later ones replace earlier ones.
    pub version: u64,
    /// What is kept.
    pub value: Vec<u8>,
}

/// What a put may replace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum If {
    /// Nothing, or a record with a version below this.
    Below(u64),
    /// What was there at this revision and has not changed since: for what cannot be trusted to say a true version.
    Unchanged(u64),
    /// Whatever is there: for records without versions.
    Always,
}

/// What a resolver asks. `id` is chosen by it and comes back with the answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Keeps a record, if what is there allows it. If exactly this record is there, nothing but its lease changes, and
    /// that counts as stored.
    Put {
        /// Comes back with the answer.
        id: u64,
        /// The record.
        entry: Entry,
        /// What it may replace.
        when: If,
        /// What keeps it alive; the lease is made if there is none.
        lease: Lease,
    },
    /// Renews a lease.
    Renew {
        /// Comes back with the answer.
        id: u64,
        /// Which.
        lease: Lease,
    },
    /// Asks for the records with exactly these keys; those that are not there are left out of the answer.
    Get {
        /// Comes back with the answer.
        id: u64,
        /// Which; [`KEYS_MAX`] at most.
        keys: Vec<Vec<u8>>,
    },
    /// Asks for the records with keys from `from` on and before `to`, in ascending order.
    List {
        /// Comes back with the answer.
        id: u64,
        /// The first key.
        from: Vec<u8>,
        /// Behind the last key.
        to: Vec<u8>,
        /// How many at most.
        count: u32,
        /// As they were then; `None`: as they are now.
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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Priority {
    /// Somebody waits for the answer. It waits for nothing that is asked in the background.
    Question,
    /// It is a part of much, such as of all that is read anew after a restart.
    Background,
}

/// What a record was before a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Before {
    /// There was none.
    Nothing,
    /// This.
    Entry(Entry),
    /// The store does not know any more.
    Unknown,
}

/// What an engine answers, and what it tells unasked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The record is in the store.
    Stored {
        /// As in the request.
        id: u64,
        /// Whether this put has brought it; if not, exactly this record was there.
        is_new: bool,
    },
    /// What is there may not be replaced by what was asked for.
    Stale {
        /// As in the request.
        id: u64,
        /// What there is; `None`: nothing any more, of what was to be unchanged.
        entry: Option<Entry>,
        /// The revision that made it.
        revision: u64,
    },
    /// The lease goes on, or it has ended, and with it all that was put under it.
    Renewed {
        /// As in the request.
        id: u64,
        /// Whether it goes on.
        is_alive: bool,
    },
    /// The records that were asked for, by [`Request::List`] or [`Request::Get`].
    Listed {
        /// As in the request.
        id: u64,
        /// In ascending order of keys.
        entries: Vec<Entry>,
        /// Whether there are more behind the last one.
        more: bool,
        /// What they are the state of; later changes are told with higher numbers.
        revision: u64,
    },
    /// It could not be done, for now.
    Failed {
        /// As in the request.
        id: u64,
        /// Why.
        reason: String,
        /// Whether the store has no room, until somebody makes some; what it has is still read.
        is_full: bool,
    },
    /// A record was put, by whomever, or has gone.
    Changed {
        /// The revision that it made.
        revision: u64,
        /// Whose.
        key: Vec<u8>,
        /// What is there now; `None`: nothing.
        after: Option<Entry>,
        /// What was there.
        before: Before,
    },
    /// From now on all changes are told that make a higher revision than this. Earlier ones may not have been told.
    Restarted {
        /// The revision.
        revision: u64,
    },
    /// All changes of a moment ago have been told.
    Current,
}

impl Answer {
    /// Of which request; `None` for what is told unasked.
    pub fn id(&self) -> Option<u64> {
        match self {
            Answer::Stored { id, .. }
            | Answer::Stale { id, .. }
            | Answer::Renewed { id, .. }
            | Answer::Listed { id, .. }
            | Answer::Failed { id, .. } => Some(*id),
            Answer::Changed { .. } | Answer::Restarted { .. } | Answer::Current => None,
        }
    }
}

/// The client of a store.
pub trait Engine: Send {
    /// What it is called in a config and in messages to people, such as `etcd`.
    fn name(&self) -> &'static str;
    /// Takes a request; the answer comes by [`Engine::poll`].
    fn ask(&mut self, request: Request, priority: Priority);
    /// The next answer, those to questions first, or what is told unasked.
    fn poll(&mut self) -> Option<Answer>;
}
