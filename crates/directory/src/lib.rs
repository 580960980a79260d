//! The part of name resolution that `psi` and `mf` share: leased, versioned records that several resolvers replicate, and the
//! external stores that may keep them. It does no I/O and is independent of the records and wire formats of both families.
//!
//! ```text
//!   host                        resolver                                external store
//!   its holdings ──Renew──►     the holdings of each host, with a lease
//!   by bucket    ◄─missing──    (equal holdings renew the lease)
//!                               Outside ──Request──► Engine ──────────► etcd, or a store in memory in tests
//!                                 │  ◄──Answer────         ◄──────────  and the changes of others
//!                                 ▼
//!                               StoreEvent: done, page, changed, restarted
//! ```
//! | part | module | used by `psi` for | used by `mf` for |
//! |---|---|---|---|
//! | the contract with an external store | [`engine`] | `rendezvous::stored` | `resolver::stored` |
//! | a resolver's requests, rounds, pages, counters | [`Outside`] | `rendezvous::stored` | `resolver::stored` |
//! | whether the store answers, is full, reports changes | [`health`] | status, notes | status, notes, refusals |
//! | a range that changes while a resolver reads it | [`Snapshot`] | nothing: merging needs no order | buckets, watched places, present devices |
//! | a node's entries at others, by count and digest per bucket | [`holdings`] | `Renewal` | `NameMessage::Renew` |
//!
//! # What each family adds
//! A family adds its records, their validation and matching, and its wire format:
//! - `psi`: a record is an item or scope with entries that rendezvous nodes merge. A coordinator checks each operation and
//!   replicates it (`Replicate`); nodes push, pull and compare records. Entries are not signed.
//! - `mf`: a record is signed by its author, and every reader verifies it. A front sends each record to all replicas and asks
//!   the two nearest replicas for a place. Replicas hand records over with `Put`.
//!
//! Both replicate, yet their wire formats keep these parts apart: the number of buckets (2,048 and 1,024), the hash that
//! places buckets on nodes, the hash of an entry, the sender of questions (coordinator or front), and the hand-over.
//!
//! # With an external store
//! `psi` keeps the records of its buckets in memory, and the store replaces the other replicas. `mf` keeps only watched places
//! and sums in memory, and reads the store for each lookup. So lookups of `mf` are linearizable; those of `psi` may lag
//! behind the store by [`health::BLIND_AFTER`].
#![no_std]
extern crate alloc;

pub mod engine;
pub mod health;
pub mod holdings;
mod outside;
mod snapshot;

pub use outside::{Outside, Page, Pages, Rest, StoreEvent, StoreStats};
pub use snapshot::Snapshot;
