//! Swarms on loopback, with the records and rules of MobilityFirst's names.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "real peers take the time that they take")]
#[path = "suite/common.rs"]
mod common;
#[path = "suite/growth.rs"]
mod growth;
#[path = "suite/resolvers.rs"]
mod resolvers;
#[path = "suite/swarms.rs"]
mod swarms;
