//! The table of experiments, one file each; adding an experiment takes a file, a line here, and its description in
//! `data/experiments.toml`.
mod fairness;
mod mftp;
mod mmftp_cache;
mod mmftp_failure;
mod mmftp_friendliness;
mod mmftp_in_network;
mod mmftp_multipath;
mod mmftp_multisource;
mod mmftp_scale;
mod mmftp_selection;
mod ptp;

use std::sync::LazyLock;

use serde::Deserialize;

use crate::{Experiment, Results, Settings};

/// Runs an experiment and fills in its results.
type Run = fn(&Settings, &mut Results);

/// The code of each experiment.
const RUNS: [(&str, Run); 29] = [
    ("mmftp-multisource", mmftp_multisource::run),
    ("mmftp-failure", mmftp_failure::run),
    ("mmftp-multipath", mmftp_multipath::run),
    ("mmftp-friendliness", mmftp_friendliness::run),
    ("fairness", fairness::run),
    ("mmftp-selection", mmftp_selection::run),
    ("mmftp-in-network", mmftp_in_network::run),
    ("mmftp-cache", mmftp_cache::run),
    ("mmftp-scale", mmftp_scale::run),
    ("mftp-wireless", mftp::wireless::run),
    ("mftp-disconnection", mftp::disconnection::run),
    ("mftp-proactive", mftp::proactive::run),
    ("mftp-web", mftp::web::run),
    ("mftp-hol", mftp::hol::run),
    ("mftp-mobility", mftp::mobility::run),
    ("mftp-store", mftp::store::run),
    ("mftp-m2m", mftp::m2m::run),
    ("mftp-contacts", mftp::contacts::run),
    ("mftp-multicast", mftp::multicast::run),
    ("ptp-tree-1", ptp::tree_1),
    ("ptp-tree-2", ptp::tree_2),
    ("ptp-diamond-1", ptp::diamond_1),
    ("ptp-diamond-2", ptp::diamond_2),
    ("ptp-fairness", ptp::fairness::run),
    ("ptp-cache", ptp::cache::run),
    ("ptp-mesh", ptp::mesh::run),
    ("ptp-selection", ptp::compare::selection),
    ("ptp-control", ptp::compare::control),
    ("ptp-shaping", ptp::shaping::run),
];

/// Every experiment, in the order of the report.
pub static ALL: LazyLock<Vec<Experiment>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct Descriptions {
        experiment: Vec<Experiment>,
    }
    let descriptions: Descriptions =
        toml::from_str(include_str!("../../data/experiments.toml")).expect("the descriptions were tested");
    descriptions.experiment
});

/// The experiment of that name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    ALL.iter().find(|experiment| experiment.name == name)
}

/// The code of the experiment of that name.
pub(crate) fn run_of(name: &str) -> Option<Run> {
    RUNS.iter().find(|(of, _)| *of == name).map(|(_, run)| *run)
}

/// The variants of an experiment that can be run alone ([`crate::Settings::only`]); empty if it has no such variants.
pub fn schemes(experiment: &Experiment) -> Vec<&'static str> {
    match experiment.name.as_str() {
        "fairness" => fairness::SHARERS.map(|(name, _)| name).to_vec(),
        name => ptp::schemes(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_description_has_its_code_and_each_code_its_description() {
        assert_eq!(
            ALL.iter().map(|experiment| experiment.name.as_str()).collect::<Vec<_>>(),
            RUNS.map(|(name, _)| name)
        );
    }
}
