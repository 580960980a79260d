//! MobilityFirst with MFTP, its hop-by-hop transport for mobile and disconnected hosts.
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod anycast;
pub mod config;
pub mod ids;
pub mod link;
mod listing;
pub mod node;
pub mod reassembly;
pub mod receiver;
pub mod resolver;
pub mod router;
pub mod sender;
mod stats;
pub mod wire;

pub use config::Config;
pub use node::MfNode;
