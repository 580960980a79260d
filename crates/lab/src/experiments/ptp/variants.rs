//! What every scenario is run with: each scheme, queues of several lengths, shorter links, and the other parameters that
//! can be found for a scheme.

use super::{
    figures::Shown,
    schemes::{ALTERNATIVES, Form, MAIN, Receiver, Scheme},
    topology::Topology,
    world::Record,
};
use crate::{
    Results, Settings,
    simulation::parallel,
    stats::{confidence, mean},
};

/// Queue of every link, in packets, unless it is swept.
pub(super) const QUEUE_PACKETS: u64 = 50;
/// The other lengths of the sweep.
pub(super) const QUEUES_SWEPT: [u64; 2] = [20, 200];
/// Shorter links: the name of the setting, the divisor of the reconstruction's delays, and the phase of the seeds.
const DELAYS_SWEPT: [(&str, u64, u64); 3] = [("tenth", 10, 4), ("half", 2, 5), ("fifth", 5, 6)];

/// One variant of a scenario.
#[derive(Clone, Debug)]
pub(super) struct Variant {
    /// What follows the quantity's name in metrics: `@` and a setting, or nothing.
    pub(super) setting: String,
    pub(super) scheme: Scheme,
    pub(super) queue_packets: u64,
    /// The divisor of the reconstruction's delays, which the paper's lost figures leave open.
    delays_by: u64,
    /// Whose random streams it has, see [`Settings::seed_of`].
    phase: u64,
}

/// What the runs of a variant gave.
pub(super) struct Runs<T> {
    pub(super) variant: Variant,
    pub(super) values: Vec<T>,
}

/// One run of a variant.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) variant: Variant,
    pub(super) seed: u64,
    /// Whether it is one of those that figures over time show.
    pub(super) is_shown: bool,
}

impl Variant {
    /// A scheme with nothing else changed.
    pub(super) fn plain(scheme: &Scheme) -> Self {
        Variant { setting: String::new(), scheme: scheme.clone(), queue_packets: QUEUE_PACKETS, delays_by: 1, phase: 0 }
    }
    /// Every variant, unchanged ones first; at small scale only the first scheme is varied. Only one scheme if the
    /// settings name it.
    pub(super) fn all(settings: &Settings) -> Vec<Variant> {
        let [schemes, alternatives] = settings.choose([MAIN.len(), ALTERNATIVES.len()], [1, 1]);
        let plain = || MAIN[..schemes].iter().map(Variant::plain);
        let queues = QUEUES_SWEPT.into_iter().zip(1..).flat_map(|(queue_packets, phase)| {
            plain().map(move |plain| Variant {
                setting: format!("@queue{queue_packets}"),
                queue_packets,
                phase,
                ..plain
            })
        });
        let alternatives = ALTERNATIVES[..alternatives].iter().map(|scheme| Variant {
            setting: format!("@{}", scheme.label),
            phase: 3,
            ..Variant::plain(scheme)
        });
        let shorter = DELAYS_SWEPT.into_iter().flat_map(|(part, delays_by, phase)| {
            plain().map(move |plain| Variant { setting: format!("@delays-{part}"), delays_by, phase, ..plain })
        });
        let all = MAIN.iter().map(Variant::plain).chain(queues).chain(alternatives).chain(shorter);
        all.filter(|variant| settings.takes(variant.scheme.name)).collect()
    }
    pub(super) fn is_plain(&self) -> bool {
        self.setting.is_empty()
    }
    /// Whether it reports the bytes of its tags: for each scheme with tags, and for other codes in comparison.
    pub(super) fn records_tags(&self) -> bool {
        match &self.scheme.receiver {
            Receiver::Ptp(form) => self.is_plain() || form.labels != Form::PAPER.labels,
            Receiver::Single(_) => false,
        }
    }
    /// The network with the delays of this variant.
    pub(super) fn topology(&self, topology: &Topology) -> Topology {
        topology.with_delays_divided(self.delays_by)
    }
}

impl<T> Runs<T> {
    /// Reports the bytes of tags, if this variant reports them.
    pub(super) fn record_tags(&self, results: &mut Results, bytes: impl Fn(&T) -> f64) {
        if self.variant.records_tags() {
            self.tell(results, "tag_bytes", &self.of(bytes), "bytes", None);
        }
    }
    /// A quantity of each run.
    pub(super) fn of(&self, quantity: impl Fn(&T) -> f64) -> Vec<f64> {
        self.values.iter().map(quantity).collect()
    }
    /// Reports a quantity: its mean, and half its 95 % confidence interval; with the paper's value, if it has it.
    pub(super) fn tell(&self, results: &mut Results, quantity: &str, values: &[f64], unit: &str, paper: Option<f64>) {
        let (name, setting) = (self.variant.scheme.name, &self.variant.setting);
        match paper.filter(|_| self.variant.is_plain()) {
            Some(paper) => results.comparison(format!("{name}.{quantity}"), mean(values), unit, paper),
            None => results.metric(format!("{name}.{quantity}{setting}"), mean(values), unit),
        }
        results.metric(format!("{name}.{quantity}_confidence{setting}"), confidence(values), unit);
    }
}

/// Performs all runs of `variants`; the settings define the number of runs of each.
pub(super) fn run<T: Send>(
    settings: &Settings,
    variants: Vec<Variant>,
    one: impl Fn(&Run) -> T + Sync,
) -> Vec<Runs<T>> {
    let of = |variant: &Variant| {
        let run = |run| Run {
            variant: variant.clone(),
            seed: settings.seed_of(variant.phase, run),
            is_shown: run == 0 && variant.is_plain(),
        };
        (0..settings.runs).map(run).collect::<Vec<_>>()
    };
    let runs: Vec<Run> = variants.iter().flat_map(of).collect();
    let mut values = parallel::map(&runs, one).into_iter();
    let mut take = || values.by_ref().take(settings.runs as usize).collect();
    variants.into_iter().map(|variant| Runs { variant, values: take() }).collect()
}

/// Those with nothing changed, in the order of [`MAIN`].
pub(super) fn plain<T>(all: &[Runs<T>]) -> Vec<&Runs<T>> {
    all.iter().filter(|runs| runs.variant.is_plain()).collect()
}

/// The runs that figures over time show, by scheme.
pub(super) fn shown<'a, T>(
    main: &'a [&Runs<T>],
    record: impl Fn(&'a T) -> Option<&'a Record>,
) -> impl Iterator<Item = Shown<'a>> {
    main.iter().filter_map(move |runs| Some((&runs.variant.scheme, record(runs.values.first()?)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scale;
    use std::collections::BTreeSet;

    #[test]
    fn every_variant_has_a_name_and_seeds_of_its_own() {
        let settings = Settings { seed: 1, runs: 2, scale: Scale::Full, ..Settings::default() };
        let all = run(&settings, Variant::all(&settings), |run| (run.seed, run.is_shown));
        let names: BTreeSet<String> =
            all.iter().map(|runs| format!("{}{}", runs.variant.scheme.name, runs.variant.setting)).collect();
        assert_eq!(names.len(), all.len());
        let changes = QUEUES_SWEPT.len() + DELAYS_SWEPT.len();
        assert_eq!(all.len(), (1 + changes) * MAIN.len() + ALTERNATIVES.len());
        assert_eq!(plain(&all).len(), MAIN.len());
        let small = Variant::all(&Settings { scale: Scale::Small, ..settings });
        assert_eq!(small.len(), MAIN.len() + changes + 1, "of each change one");
        let only = Variant::all(&Settings { only: Some("ptp-default"), ..settings });
        assert_eq!(
            only.len(),
            1 + changes + 3,
            "plain, queues and delays, rates measured and not reported, other tags"
        );
        assert!(only.iter().all(|variant| variant.scheme.name == "ptp-default"));
        for runs in &all {
            assert_eq!(runs.values.len(), 2);
            assert_ne!(runs.values[0].0, runs.values[1].0);
            assert_eq!(runs.values[0].1, runs.variant.is_plain(), "the first of each plain variant is shown");
            assert!(!runs.values[1].1);
        }
    }
}
