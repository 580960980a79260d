//! The table of experiments, one file each; adding an experiment takes a file and a line here.
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

use crate::Experiment;

/// Every experiment, in the order of the report.
pub const ALL: &[Experiment] = &[
    mmftp_multisource::EXPERIMENT,
    mmftp_failure::EXPERIMENT,
    mmftp_multipath::EXPERIMENT,
    mmftp_friendliness::EXPERIMENT,
    fairness::EXPERIMENT,
    mmftp_selection::EXPERIMENT,
    mmftp_in_network::EXPERIMENT,
    mmftp_cache::EXPERIMENT,
    mmftp_scale::EXPERIMENT,
    mftp::ALL[0],
    mftp::ALL[1],
    mftp::ALL[2],
    mftp::ALL[3],
    mftp::ALL[4],
    mftp::ALL[5],
    mftp::ALL[6],
    mftp::ALL[7],
    mftp::ALL[8],
    mftp::ALL[9],
    ptp::TREE_1,
    ptp::TREE_2,
    ptp::DIAMOND_1,
    ptp::DIAMOND_2,
    ptp::FAIRNESS,
    ptp::CACHE,
    ptp::MESH,
    ptp::SELECTION,
    ptp::CONTROL,
    ptp::SHAPING,
];

/// The experiment of that name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    ALL.iter().find(|experiment| experiment.name == name)
}

/// The variants of an experiment that can be run alone ([`crate::Settings::only`]); empty if it has no such variants.
pub fn schemes(experiment: &Experiment) -> Vec<&'static str> {
    match experiment.name {
        "fairness" => fairness::SHARERS.map(|(name, _)| name).to_vec(),
        name => ptp::schemes(name),
    }
}
