//! PTP §6 C, scenario 2: one producer behind a diamond, four paths that share links.
use super::{
    throughput::{self, Spec},
    topology::Topology,
};
use crate::{Experiment, Results, Settings};

/// Paths of equal delay and different rates.
pub(in crate::experiments) const CASE_1: Experiment = Experiment {
    name: "ptp-diamond-1",
    title: "four paths that share links, of equal delay and different rates",
    paper: "PTP §6 C, Case I, Fig. 16",
    runs: 10,
    run: case_1,
};
/// Paths of equal rate and different delays.
pub(in crate::experiments) const CASE_2: Experiment = Experiment {
    name: "ptp-diamond-2",
    title: "four paths that share links, of equal rate and different delays",
    paper: "PTP §6 C, Case II, Fig. 17",
    runs: 10,
    run: case_2,
};

fn case_1(settings: &Settings) -> Results {
    throughput::run(&spec_1(), settings)
}
fn case_2(settings: &Settings) -> Results {
    throughput::run(&spec_2(), settings)
}

pub(super) fn spec_1() -> Spec {
    let topology = Topology::new(&[
        (1, 2, 10_000, 5),
        (2, 3, 1_600, 10),
        (2, 4, 400, 20),
        (2, 5, 2_800, 20),
        (3, 4, 1_200, 10),
        (3, 5, 400, 10),
        (4, 6, 1_600, 10),
        (5, 6, 3_200, 10),
        (6, 7, 10_000, 5),
    ]);
    Spec {
        name: CASE_1.name,
        title: "Diamond, case I",
        topology,
        consumer: 1,
        producers: &[7],
        paper: &[
            ("ptp", 0.971),
            ("ptp-paper", 0.971),
            ("ptp-default", 0.971),
            ("rfa-raaqm", 0.415),
            ("rfa-chopcop", 0.646),
            ("paf-raaqm", 0.356),
        ],
        seconds: (60.0, 10.0),
    }
}
pub(super) fn spec_2() -> Spec {
    let topology = Topology::new(&[
        (1, 2, 10_000, 5),
        (2, 3, 2_000, 5),
        (2, 4, 1_000, 40),
        (2, 5, 1_000, 30),
        (3, 4, 1_000, 20),
        (3, 5, 1_000, 5),
        (4, 6, 2_000, 10),
        (5, 6, 2_000, 5),
        (6, 7, 10_000, 5),
    ]);
    Spec {
        name: CASE_2.name,
        title: "Diamond, case II",
        topology,
        consumer: 1,
        producers: &[7],
        paper: &[
            ("ptp", 0.973),
            ("ptp-paper", 0.973),
            ("ptp-default", 0.973),
            ("rfa-raaqm", 0.811),
            ("rfa-chopcop", 0.852),
            ("paf-raaqm", 0.786),
        ],
        seconds: (60.0, 10.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_four_paths_and_the_optimum_fills_them_all() {
        for (spec, kbps) in [(spec_1(), 4_800), (spec_2(), 4_000)] {
            assert_eq!(spec.topology.optimum(spec.producers, 1).0, kbps);
            assert_eq!(spec.topology.paths(spec.producers, 1).len(), 4);
        }
    }
}
