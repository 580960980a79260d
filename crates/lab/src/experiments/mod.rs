//! The table of experiments. One file each; a new one is a file and a line here.
mod mmftp_failure;
mod mmftp_multipath;
mod mmftp_multisource;

use crate::Experiment;

/// Every experiment, in the order of the report.
pub const ALL: &[Experiment] = &[mmftp_multisource::EXPERIMENT, mmftp_failure::EXPERIMENT, mmftp_multipath::EXPERIMENT];

/// The experiment of that name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    ALL.iter().find(|experiment| experiment.name == name)
}
