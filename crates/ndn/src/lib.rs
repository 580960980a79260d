//! Named Data Networking (NDN) with PTP, a path-specified transport.
#![no_std]
extern crate alloc;

pub mod ids;
pub mod router;
pub mod wire;
