//! MobilityFirst with MFTP, its hop-by-hop transport for mobile and disconnected hosts.
#![no_std]
extern crate alloc;

pub mod ids;
pub mod wire;
