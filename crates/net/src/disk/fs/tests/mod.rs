//! A simulated disk, and random histories over it, for tests of this crate and of others. No program has them.
pub mod histories;
mod simulated;

pub use simulated::{Faults, SimulatedDisk};
