//! The topology manager (paper: TM): it knows every link of the domain, and makes the paths and their FIDs.
//!
//! ```text
//!  link states ──► graph ──► yen ──► paths ──► fid ──► offers to subscribers
//!                                               │
//!                                               └────► routes to all nodes
//! ```
pub mod fid;
pub mod graph;
pub mod manager;
pub mod paths;
pub mod yen;

pub use fid::{FidBuilder, FidConfig, Tree};
pub use graph::{Change, Graph, Link, LinkIndex, LinkKey, LinkStates, Node, NodeIndex};
pub use manager::{ManagerConfig, TopologyManager};
pub use paths::{PathConfig, select};
pub use yen::{Path, Search, shortest_tree};

#[cfg(test)]
mod tests;
