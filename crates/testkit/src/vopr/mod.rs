//! Fault runs in the manner of TigerBeetle's VOPR: a seed becomes a whole domain, the operations of its users, and
//! faults; while faults last, nothing bad may happen, and after their end everything good must.
//!
//! ```text
//!  seed ──► Plan: Topology · settings · workload · faults
//!            │
//!            ▼                  every packet and every event
//!          World: Network of Puppets ────────────────────────► Ledger: what does not add up panics
//!            │
//!            ├─ faults and people until `mend`     safety: bytes, books, reports, limits, reasons
//!            ├─ everything mended                  liveness: whoever can be satisfied must be
//!            ├─ everything fetched anew            liveness, without any excuse
//!            └─ nobody does anything               idle traffic only, nothing left over
//! ```
//! | part | module |
//! |---|---|
//! | the contract of a family | [`family`] |
//! | nodes, roles, links | [`topology`] |
//! | publications, fetches, watches | [`workload`] |
//! | groups and messages to them | [`messages`] |
//! | devices that are away, and senders that end | [`stored_messages`] |
//! | whether nodes are set up as the product is | [`profile`] |
//! | the data that outlives a node | [`disk`] |
//! | promised messages, which have to arrive | `promised_messages` |
//! | faults | [`faults`] |
//! | all of these, drawn from a seed | [`plan`] |
//! | a node that can be frozen and whose packets can be forged | `controlled_node` |
//! | the objects really published; stores that compare | `published_objects` |
//! | the books | `ledger` |
//! | the network, the people and the faults at work | `world` |
//! | groups at work, and their checkers | `group_messages` |
//! | phases and checkers | [`run`](mod@run) |
//! | findings, and reducing a plan to its relevant part | [`shrink`](mod@shrink) |
//! | many seeds | [`campaign`] |
//! | bugs of the harness that the checkers must find | [`canary`] |
//!
//! `cargo xtask vopr` is the command.
pub mod campaign;
pub mod canary;
mod certified;
mod controlled_node;
#[cfg_attr(not(feature = "mf"), allow(dead_code, reason = "the other families keep no chunks"))]
pub mod disk;
pub mod family;
pub mod faults;
mod group_messages;
mod ledger;
pub mod messages;
#[cfg(feature = "mf")]
pub mod mf;
#[cfg(feature = "ndn")]
pub mod ndn;
pub mod plan;
pub mod profile;
mod promised_messages;
#[cfg(feature = "psi")]
pub mod psi;
mod published_objects;
pub mod run;
pub mod shrink;
pub mod stored_messages;
pub mod topology;
pub mod workload;
mod world;

pub use campaign::{Options, Totals, run_seed};
pub use canary::Canary;
pub use family::{Family, Usage};
pub use faults::FaultKind;
pub use ledger::Narrator;
pub use plan::Plan;
pub use profile::Profile;
pub use run::RunReport;
pub use shrink::{Finding, Shrunk, shrink, try_run};
