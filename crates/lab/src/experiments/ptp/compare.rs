//! PTP's open questions: which paths to use (appendix), and which control law (§8).
use tributary_transport::{ControllerKind, Coupling};

use super::{
    fairness, mesh,
    scenarios::{diamond_1, diamond_2, tree_1, tree_2},
    schemes::{Form, Rates, Scheme, ptp},
    throughput,
    variants::Variant,
};
use crate::{
    Results, Settings,
    control_laws::{BALIA, OLIA, WEIGHTED_VEGAS},
    figures::{Bar, BarGroup, Chart, bars},
    stats::{confidence, mean},
};

/// Names in results, selections, and the link rates that routers report.
pub(super) const SELECTIONS: [(&str, &str, Rates); 9] = [
    ("bandwidth", "bandwidth", Rates::Untold),
    ("random", "random", Rates::Untold),
    ("hops", "hops", Rates::Untold),
    ("latency", "latency", Rates::Untold),
    ("variance", "variance", Rates::Untold),
    ("hybrid", "hybrid", Rates::Untold),
    ("spread-untold", "spread", Rates::Untold),
    ("spread-measured", "spread", Rates::Measured),
    ("spread", "spread", Rates::Signalled),
];

fn scheme(form: Form) -> Scheme {
    ptp("ptp", "PTP", form)
}

/// Tells a quantity of a candidate, and makes its bar.
fn put(results: &mut Results, name: &str, at: &str, values: &[f64]) -> Option<Bar> {
    results.metric(format!("{name}{at}"), mean(values), "share");
    results.metric(format!("{name}_confidence{at}"), confidence(values), "share");
    Bar::of(values)
}

pub(in crate::experiments) fn selection(settings: &Settings, results: &mut Results) {
    let spec = mesh::spec();
    let mut groups = Vec::new();
    for (label, selection, rates) in SELECTIONS.into_iter().filter(|(label, ..)| settings.takes(label)) {
        let mut bars = Vec::new();
        for (prefix, form) in [("", Form::PAPER), ("default-", Form::DEFAULT)] {
            let runs = throughput::runs(&spec, settings, &scheme(Form { selection, rates, ..form }));
            let name = format!("{prefix}{label}");
            bars.push(put(results, &format!("{name}.utilisation"), "", &runs.of(|run| run.utilisation)));
            put(results, &format!("{name}.goodput_share"), "", &runs.of(|run| run.goodput));
        }
        groups.push(BarGroup { label: label.into(), bars });
    }
    let chart = Chart {
        y_to: 1.0,
        size: (900, 380),
        ..Chart::new("Mesh: selections", "selection", "utilisation of the maximum flow")
    };
    results.figure("selections", bars(&chart, &["paper's window", "default"], &groups));
}

/// Control laws: name, controller, coupling.
pub(super) const LAWS: [(&str, ControllerKind, Coupling); 8] = [
    ("uncoupled", ControllerKind::PathSpecified, Coupling::Uncoupled),
    ("linked-increase", ControllerKind::PathSpecified, Coupling::LinkedIncrease),
    ("compensated", ControllerKind::PathSpecified, Coupling::LinkedIncreaseCompensated),
    ("olia", ControllerKind::PathSpecified, OLIA),
    ("balia", ControllerKind::PathSpecified, BALIA),
    ("weighted-vegas", WEIGHTED_VEGAS, Coupling::LinkedIncrease),
    ("model-based", ControllerKind::ModelBased, Coupling::LinkedIncrease),
    ("model-uncoupled", ControllerKind::ModelBased, Coupling::Uncoupled),
];

pub(in crate::experiments) fn control(settings: &Settings, results: &mut Results) {
    let specs = [
        ("tree-1", tree_1()),
        ("tree-2", tree_2()),
        ("diamond-1", diamond_1()),
        ("diamond-2", diamond_2()),
        ("mesh", mesh::spec()),
    ];
    let mut groups = Vec::new();
    for (law, controller, coupling) in LAWS.into_iter().filter(|(law, ..)| settings.takes(law)) {
        let base = if controller == ControllerKind::ModelBased { Form::DEFAULT } else { Form::PAPER };
        let scheme = scheme(Form { controller, coupling, selection: "spread", rates: Rates::Signalled, ..base });
        let mut bars = Vec::new();
        for (place, spec) in &specs {
            let shares = throughput::runs(spec, settings, &scheme).of(|run| run.utilisation);
            bars.push(put(results, &format!("{law}.utilisation"), &format!("@{place}"), &shares));
        }
        let fairness = fairness::measure_all(settings, vec![Variant::plain(&scheme)], &[]).remove(0);
        bars.push(put(results, &format!("{law}.single_share"), "", &fairness.of(|run| run.single_share)));
        groups.push(BarGroup { label: law.into(), bars });
    }
    let chart = Chart { y_to: 1.0, size: (1200, 400), ..Chart::new("Control laws", "law", "share") };
    let names = ["tree I", "tree II", "diamond I", "diamond II", "mesh", "fairness: part of the single path"];
    results.figure("control", bars(&chart, &names, &groups));
}
