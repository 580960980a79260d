//! PTP §6 F, scenario 5: a hierarchical mesh with links that are of no use.
use super::{
    throughput::{self, Spec},
    topology::Topology,
};
use crate::{Experiment, Results, Settings, Table};

/// The entry of the table.
pub(in crate::experiments) const EXPERIMENT: Experiment = Experiment {
    name: "ptp-mesh",
    title: "four producers behind a mesh, two links of no use, 57 paths of which 10 are used",
    paper: "PTP §6 F, Fig. 24, Table I",
    runs: 10,
    run,
};

/// Table I: link towards the consumer, kbit/s.
const TABLE_1: [(u8, u8, f64); 16] = [
    (2, 1, 1350.0),
    (3, 2, 384.0),
    (4, 2, 581.0),
    (8, 2, 385.0),
    (7, 3, 191.0),
    (9, 3, 193.0),
    (7, 4, 191.0),
    (5, 4, 197.0),
    (11, 4, 193.0),
    (5, 8, 193.0),
    (6, 8, 192.0),
    (12, 6, 198.0),
    (11, 5, 197.0),
    (10, 5, 195.0),
    (10, 7, 193.0),
    (9, 7, 192.0),
];

fn run(settings: &Settings) -> Results {
    let spec = spec();
    let mut results = throughput::run(&spec, settings);
    table_1(&mut results);
    results.note(
        "Stated in the paper: topology, rates and delays. Ours: Interests use the redundant links 3-4 and 5-7 both ways and \
         the others in the direction of Table I, which leaves 33 of the 57 paths without circles; how long a run lasts.",
    );
    results
}

pub(super) fn spec() -> Spec {
    let topology = Topology::new(&[
        (1, 2, 1_400, 20),
        (2, 3, 400, 20),
        (2, 4, 600, 20),
        (2, 8, 400, 20),
        (3, 7, 200, 20),
        (3, 9, 200, 20),
        (4, 7, 200, 20),
        (4, 5, 200, 20),
        (4, 11, 200, 20),
        (8, 5, 200, 20),
        (8, 6, 200, 20),
        (6, 12, 200, 20),
        (5, 11, 200, 20),
        (5, 10, 200, 20),
        (7, 10, 200, 20),
        (7, 9, 200, 20),
    ]);
    Spec {
        name: EXPERIMENT.name,
        title: "Mesh",
        topology: topology.both_ways(3, 4, 200, 20).both_ways(5, 7, 200, 20),
        consumer: 1,
        producers: &[9, 10, 11, 12],
        paper: &[("ptp", 0.964), ("ptp-paper", 0.964), ("ptp-default", 0.964)],
        seconds: (300.0, 100.0),
    }
}

/// Sets the links of Table I beside ours, and counts what the redundant links carry.
fn table_1(results: &mut Results) {
    let Some(links) = results.tables.iter().find(|table| table.name == "links") else { return };
    let kbps = |scheme: &str, link: &str| {
        let row = links.rows.iter().find(|row| row[0] == scheme && row[1] == link);
        row.and_then(|row| row[4].parse::<f64>().ok()).unwrap_or_default()
    };
    let columns =
        ["link", "paper (kbit/s)", "paper (share)", "PTP (kbit/s)", "PTP (share)", "PTP, paper's window (share)"];
    let mut table = Table::new("table-1", &columns);
    let mut redundant = Vec::new();
    for (from, to, paper) in TABLE_1 {
        let link = format!("{from}-{to}");
        let rate =
            links.rows.iter().find(|row| row[1] == link).and_then(|row| row[2].parse::<f64>().ok()).unwrap_or(1.0);
        let [ours, theirs] = ["ptp", "ptp-paper"].map(|scheme| kbps(scheme, &link));
        table.push(vec![
            format!("{from} ⇒ {to}"),
            format!("{paper:.0}"),
            format!("{:.3}", paper / rate),
            format!("{ours:.0}"),
            format!("{:.3}", ours / rate),
            format!("{:.3}", theirs / rate),
        ]);
    }
    for scheme in ["ptp", "ptp-paper"] {
        let total: f64 = ["3-4", "4-3", "5-7", "7-5"].iter().map(|link| kbps(scheme, link)).sum();
        redundant.push((scheme, total / 400.0));
    }
    results.tables.push(table);
    for (scheme, share) in redundant {
        results.metric(format!("{scheme}.redundant_share"), share, "share");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mesh_is_the_papers() {
        let spec = spec();
        let (optimum, hops) = spec.topology.optimum(spec.producers, 1);
        assert_eq!(optimum, 1_400);
        // The paper's 57 count every link both ways.
        assert_eq!(spec.topology.paths(spec.producers, 1).len(), 33);
        let used = |from, to| {
            let at = spec.topology.hops().iter().position(|(_, near, far)| (*near, *far) == (to, from));
            hops[at.expect("a hop of Table I")]
        };
        assert!(TABLE_1.iter().all(|(from, to, _)| used(*from, *to) > 0), "the optimum fills the links of Table I");
    }
}
