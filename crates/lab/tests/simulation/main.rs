//! Scenarios in virtual time, their files, and imported files.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod example;
mod families;
mod files;
mod formats;
mod imports;
mod page;
mod runs;
mod slow;
