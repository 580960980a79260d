//! What receiver-driven transports share.
#![no_std]
extern crate alloc;

pub mod config;
pub mod endpoint;

pub use config::{ControllerKind, Coupling, TransferConfig};
pub use endpoint::{CacheStatus, Endpoint, FaceOptions, FaceStatus, Fetch, NodeStatus, PathMetric};

/// Packets from this number on belong to the hash list of an object, those below to its chunks.
pub const TREE_PACKET_FIRST: u32 = 1 << 31;
