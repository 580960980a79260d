//! The evaluation of PTP (§6): the product's own nodes beside rivals on the same routers.
//!
//! The paper's figures are lost from its text and its topology files are not public: rates and delays of scenarios 1 to 4
//! are reconstructions (reference/ptp-evaluation), and each result says so. Scenario 5 is stated in full.
//!
//! | what | file |
//! |---|---|
//! | who is compared | `schemes.rs` |
//! | networks and their maximum flow | `topology.rs` |
//! | one run | `world.rs` |
//! | scenarios 1, 2 and 5 | `tree.rs`, `diamond.rs`, `mesh.rs`, on `throughput.rs` |
//! | scenario 3 | `fairness.rs` |
//! | scenario 4 | `cache.rs` |
//! | selections and control laws | `compare.rs` |
mod cache;
mod compare;
mod diamond;
mod fairness;
mod figures;
mod mesh;
mod schemes;
mod throughput;
mod topology;
mod tree;
mod world;

pub(super) use cache::EXPERIMENT as CACHE;
pub(super) use compare::{CONTROL, SELECTION};
pub(super) use diamond::{CASE_1 as DIAMOND_1, CASE_2 as DIAMOND_2};
pub(super) use fairness::EXPERIMENT as FAIRNESS;
pub(super) use mesh::EXPERIMENT as MESH;
pub(super) use tree::{CASE_1 as TREE_1, CASE_2 as TREE_2};
