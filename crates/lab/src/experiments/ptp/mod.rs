//! The evaluation of PTP (§6): the product's own nodes and rivals on the same routers.
//!
//! The paper's figures are lost from its text and its topology files are not public: rates and delays of scenarios 1 to
//! 4 are reconstructions (reference/ptp-evaluation), and each result states that. Scenario 5 is stated in full.
//!
//! | part | file |
//! |---|---|
//! | the schemes compared | `schemes.rs` |
//! | networks and their maximum flow | `topology.rs` |
//! | lengths of queues and links, other parameters | `variants.rs` |
//! | one run | `world.rs` |
//! | scenarios 1, 2 and 5 | `scenarios.rs`, `mesh.rs`, on `throughput.rs` |
//! | scenario 3 | `fairness.rs` |
//! | scenario 4 | `cache.rs` |
//! | reports and drawings | `links.rs`, `figures.rs` |
//! | selections and control laws | `compare.rs` |
//! | Interests shaped hop by hop | `shaping.rs` |
mod cache;
mod compare;
mod fairness;
mod figures;
mod links;
mod mesh;
mod scenarios;
mod schemes;
mod shaping;
mod throughput;
mod topology;
mod variants;
mod world;

pub(super) use cache::EXPERIMENT as CACHE;
pub(super) use compare::{CONTROL, SELECTION};
pub(super) use fairness::EXPERIMENT as FAIRNESS;
pub(super) use mesh::EXPERIMENT as MESH;
pub(super) use scenarios::{DIAMOND_1, DIAMOND_2, TREE_1, TREE_2};
pub(super) use shaping::EXPERIMENT as SHAPING;

use crate::Experiment;

/// The experiments that compare [`schemes::MAIN`].
const OF_SCHEMES: [Experiment; 7] = [TREE_1, TREE_2, DIAMOND_1, DIAMOND_2, FAIRNESS, CACHE, MESH];

/// The names of an experiment's variants; empty if it cannot run one alone.
pub(super) fn schemes(experiment: &str) -> Vec<&'static str> {
    if experiment == SHAPING.name {
        shaping::SCHEMES.iter().map(|scheme| scheme.name).collect()
    } else if experiment == SELECTION.name {
        compare::SELECTIONS.iter().map(|(name, ..)| *name).collect()
    } else if experiment == CONTROL.name {
        compare::LAWS.iter().map(|(name, ..)| *name).collect()
    } else {
        let compares = OF_SCHEMES.iter().any(|of_schemes| of_schemes.name == experiment);
        schemes::MAIN.iter().filter(|_| compares).map(|scheme| scheme.name).collect()
    }
}
