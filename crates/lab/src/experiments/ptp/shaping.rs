//! PTP where routers shape Interests hop by hop, which §8 leaves for later: whether its windows get along with queues of
//! Interests in place of queues of Data.
use tributary_ndn::ShapingConfig;

use super::{
    fairness, mesh,
    scenarios::{diamond_1, tree_1},
    schemes::{Form, Scheme, ptp},
    throughput,
    variants::{QUEUE_PACKETS, Variant},
};
use crate::{
    Results, Settings, Table,
    figures::{Bar, BarGroup, Chart, bars},
    stats::{confidence, mean},
};

/// The paper's window on the product's paths and the product's window, each without shaping and with it.
pub(super) const SCHEMES: [Scheme; 4] = [
    ptp("ptp", "PTP", Form::BEST),
    shaped(ptp("ptp-shaped", "PTP, shaped", Form::BEST)),
    ptp("ptp-default", "PTP, model-based", Form::DEFAULT),
    shaped(ptp("ptp-default-shaped", "PTP, model-based, shaped", Form::DEFAULT)),
];

const fn shaped(scheme: Scheme) -> Scheme {
    Scheme {
        shaping: Some(ShapingConfig { interests_max: QUEUE_PACKETS as usize, ..ShapingConfig::DEFAULT }),
        ..scheme
    }
}

/// The routers at both ends of the narrow link.
const LEGACY: [u8; 2] = [3, 4];

/// The results of a scheme in a network: utilisation, share of requested packets lost, and for two fetches the share of
/// one.
struct Signalled {
    place: &'static str,
    utilisation: Vec<f64>,
    lost: Vec<f64>,
    single_share: Option<Vec<f64>>,
}

pub(in crate::experiments) fn run(settings: &Settings, results: &mut Results) {
    let columns = ["scheme", "network", "utilisation", "±", "lost", "part of the single path", "±"];
    let mut table = Table::new("shaping", &columns);
    let mut groups = Vec::new();
    for scheme in SCHEMES.iter().filter(|scheme| settings.takes(scheme.name)) {
        let mut of_scheme = Vec::new();
        for Signalled { place, utilisation, lost, single_share } in measure(settings, scheme) {
            let mut tell = |quantity: &str, values: &[f64]| {
                results.metric(format!("{}.{quantity}@{place}", scheme.name), mean(values), "share");
                results.metric(format!("{}.{quantity}_confidence@{place}", scheme.name), confidence(values), "share");
                [mean(values), confidence(values)].map(|value| format!("{value:.4}"))
            };
            let ([used, half], [lost, _]) = (tell("utilisation", &utilisation), tell("lost", &lost));
            let [single, single_half] = single_share.map_or_else(Default::default, |part| tell("single_share", &part));
            table.push(vec![scheme.name.into(), place.into(), used, half, lost, single, single_half]);
            of_scheme.push(Bar::of(&utilisation));
        }
        groups.push(BarGroup { label: scheme.label.into(), bars: of_scheme });
    }
    results.tables.push(table);
    let chart = Chart { y_to: 1.0, size: (900, 380), ..Chart::new("Interests shaped hop by hop", "", "utilisation") };
    results
        .figure("shaping", bars(&chart, &["tree I", "diamond I", "mesh", "two fetches", "the same, legacy"], &groups));
}

fn measure(settings: &Settings, scheme: &Scheme) -> Vec<Signalled> {
    let mut measured = Vec::new();
    for (place, spec) in [("tree-1", tree_1()), ("diamond-1", diamond_1()), ("mesh", mesh::spec())] {
        let runs = throughput::runs(&spec, settings, scheme);
        let [utilisation, lost] = [runs.of(|run| run.utilisation), runs.of(|run| run.lost)];
        measured.push(Signalled { place, utilisation, lost, single_share: None });
    }
    for (place, legacy) in [("two", &[][..]), ("legacy", &LEGACY)] {
        let runs = fairness::measure_all(settings, vec![Variant::plain(scheme)], legacy).remove(0);
        let [utilisation, lost] = [runs.of(|run| run.utilisation), runs.of(|run| run.lost)];
        measured.push(Signalled { place, utilisation, lost, single_share: Some(runs.of(|run| run.single_share)) });
    }
    measured
}
