//! PTP §6 B, scenario 1: four producers behind a tree.
use super::{
    throughput::{self, Spec},
    topology::Topology,
};
use crate::{Experiment, Results, Settings};

/// Paths of equal delay and different rates.
pub(in crate::experiments) const CASE_1: Experiment = Experiment {
    name: "ptp-tree-1",
    title: "four producers behind a tree, paths of equal delay and different rates",
    paper: "PTP §6 B, Case I, Fig. 13",
    runs: 10,
    run: case_1,
};
/// Paths of equal rate and different delays.
pub(in crate::experiments) const CASE_2: Experiment = Experiment {
    name: "ptp-tree-2",
    title: "four producers behind a tree, paths of equal rate and different delays",
    paper: "PTP §6 B, Case II, Fig. 14",
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
        (1, 2, 6_000, 5),
        (2, 3, 2_000, 10),
        (2, 4, 4_000, 10),
        (3, 5, 500, 10),
        (3, 6, 1_000, 10),
        (4, 7, 1_000, 10),
        (4, 8, 2_000, 10),
    ]);
    Spec {
        name: CASE_1.name,
        title: "Tree, case I",
        topology,
        consumer: 1,
        producers: &[5, 6, 7, 8],
        paper: &[
            ("ptp", 0.9778),
            ("ptp-paper", 0.9778),
            ("ptp-default", 0.9778),
            ("rfa-raaqm", 0.8156),
            ("rfa-chopcop", 0.8689),
            ("paf-raaqm", 0.7911),
        ],
        seconds: (60.0, 10.0),
    }
}
pub(super) fn spec_2() -> Spec {
    let topology = Topology::new(&[
        (1, 2, 6_000, 5),
        (2, 3, 2_500, 10),
        (2, 4, 2_500, 20),
        (3, 5, 1_000, 10),
        (3, 6, 1_000, 10),
        (4, 7, 1_000, 25),
        (4, 8, 1_000, 75),
    ]);
    Spec {
        name: CASE_2.name,
        title: "Tree, case II",
        topology,
        consumer: 1,
        producers: &[5, 6, 7, 8],
        // The paper's text has the labels of its solutions 3 and 4 the wrong way round here.
        paper: &[
            ("ptp", 0.969),
            ("ptp-paper", 0.969),
            ("ptp-default", 0.969),
            ("rfa-raaqm", 0.843),
            ("rfa-chopcop", 0.925),
            ("paf-raaqm", 0.801),
        ],
        seconds: (60.0, 10.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_optima_are_those_that_the_papers_figures_imply() {
        for (spec, kbps) in [(spec_1(), 4_500), (spec_2(), 4_000)] {
            assert_eq!(spec.topology.optimum(spec.producers, 1).0, kbps);
        }
    }
}
