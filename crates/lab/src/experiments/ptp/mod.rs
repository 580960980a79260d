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
pub(super) mod cache;
pub(super) mod compare;
pub(super) mod fairness;
mod figures;
mod links;
pub(super) mod mesh;
mod scenarios;
mod schemes;
pub(super) mod shaping;
mod throughput;
mod topology;
mod variants;
mod world;

use crate::{Results, Settings};

/// Four producers, paths of equal delay and different rates.
pub(super) fn tree_1(settings: &Settings, results: &mut Results) {
    throughput::run(&scenarios::tree_1(), settings, results);
}
/// Four producers, paths of equal rate and different delays.
pub(super) fn tree_2(settings: &Settings, results: &mut Results) {
    throughput::run(&scenarios::tree_2(), settings, results);
}
/// One producer, paths of equal delay and different rates that share links.
pub(super) fn diamond_1(settings: &Settings, results: &mut Results) {
    throughput::run(&scenarios::diamond_1(), settings, results);
}
/// One producer, paths of equal rate and different delays that share links.
pub(super) fn diamond_2(settings: &Settings, results: &mut Results) {
    throughput::run(&scenarios::diamond_2(), settings, results);
}

/// The names of an experiment's variants; empty if it cannot run one alone.
pub(super) fn schemes(experiment: &str) -> Vec<&'static str> {
    match experiment {
        "ptp-shaping" => shaping::SCHEMES.iter().map(|scheme| scheme.name).collect(),
        "ptp-selection" => compare::SELECTIONS.iter().map(|(name, ..)| *name).collect(),
        "ptp-control" => compare::LAWS.iter().map(|(name, ..)| *name).collect(),
        of_schemes if of_schemes.starts_with("ptp-") => schemes::MAIN.iter().map(|scheme| scheme.name).collect(),
        _ => Vec::new(),
    }
}
