//! MobilityFirst with MFTP, its hop-by-hop transport for mobile and disconnected hosts.
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod config;
pub mod ids;
pub mod link;
pub mod resolver;
pub mod router;
pub mod wire;
