//! Chooses the paths that together deliver most over the links that they share, which the labels in their tags show.
//! Routers state link rates, or [`links`] infers them from delivery rates; [`flow`] computes the result of windows on
//! them, and so which paths to try. They stay if more arrives; otherwise the best set returns. Not in the paper, whose
//! bandwidth-based selection takes any unused path.
mod flow;
mod links;
#[cfg(test)]
mod tests;

use alloc::{collections::BTreeMap, vec::Vec};

use tributary_core::{PathId, Random};

use self::{
    flow::{Fair, Limit},
    links::{AGE_MAX, Loads, Observations, Set},
};
use super::{Candidate, PathSelection};
use crate::router::labels::LABEL_BYTES;

/// Selection by shared links.
#[derive(Clone, Default, Debug)]
pub(super) struct Spread {
    observations: Observations,
    /// The paths that brought most, and how many Mbit/s.
    best: Option<(Set, f64)>,
    /// The set chosen at the last change.
    chosen: Set,
    /// Paths with failed trials, and the remaining changes for which that counts.
    vain: BTreeMap<PathId, u32>,
    /// Changes until the next trial, and their number after another failed one.
    pause: u32,
    pause_next: u32,
}

type Label = [u8; LABEL_BYTES];

/// Paths on each link of a path, including itself, beyond which it is not worthwhile while nothing is known.
const LOAD_MAX: f64 = 2.0;
/// Other paths are tried if their expected rate is this many times as high, and stay if their rate is this many times
/// as high.
const GAIN_EXPECTED: f64 = 1.03;
const GAIN: f64 = 1.01;
/// A path that delivers less than this part of its links' free capacity has a window that hardly grows: another path
/// over the same links may deliver more.
const LAGGING: f64 = 0.25;
/// Fewer paths are as good if they bring this part.
const LEANER: f64 = 0.99;
/// If all link rates are known, a set that delivered less than these allow is tried once more after this many changes:
/// slowly growing windows may not have been full. In the mesh of PTP §6 F one run had the optimum's paths in use for
/// ten seconds early on, when they delivered 0.86 of what other paths did later, and used 0.89 of it forever.
const TRIED_ONCE_CHANGES: u32 = 4;
/// If some link rates are unknown, a set on trial is judged by its rate at its second change, unless it was below this
/// part of the best at the first: new paths over long queues start slowly, and that rate would be mistaken for their
/// links' capacity.
const HOPELESS: f64 = 0.85;
/// The weight of the flow over a path if it is one of the best (smaller if all its link rates are known, since less is
/// uncertain), and after a failed trial.
const BEST_WEIGHT: f64 = 1.15;
const BEST_WEIGHT_KNOWN_RATES: f64 = 1.02;
const VAIN_WEIGHT: f64 = 0.9;
/// The deduction per router on the way, so that the shorter of equal paths is chosen.
const HOP_WEIGHT: f64 = 0.001;
/// Interests on links with Data of other paths cost this many times their bytes: they wait in the same queues and are
/// lost like Data, which their path counts as its own losses. Measured in the mesh of PTP §6 F: with 3 to 6 no path
/// whose Interests meet Data is chosen where there are others, with 1 or 2 some are.
const INTEREST_COST: f64 = 4.0;
/// A path is not used for less than this part of one path's maximum.
const FLOW_MIN: f64 = 0.1;
/// Alternative explanations of the observations that are tried when the likeliest one leads nowhere.
const NOISY_PROPOSALS: usize = 8;
/// Maximum changes between two trials, and changes for which a failed trial is remembered.
const PAUSE_MAX: u32 = 8;
const VAIN_CHANGES: u32 = 32;

/// Links that all known paths share: no choice avoids them.
fn common(known: &[Candidate]) -> impl Fn(&Label) -> bool {
    let (counts, all) = (Loads::count(known), known.len());
    move |link| all > 1 && counts.on(link) >= all as f64
}

/// Whether routers report the rates of all links of a path.
fn has_known_rates(path: &Candidate) -> bool {
    path.links.iter().all(|link| link.rate.is_some())
}

/// Mbit/s of the links with reported rates.
fn known_rates(known: &[Candidate]) -> BTreeMap<Label, f64> {
    let links = known.iter().flat_map(|path| &path.links);
    links.filter_map(|link| Some((link.label, link.rate?.mbps()))).collect()
}

impl Spread {
    /// Whether the paths in use, which brought `total`, are on trial and may bring more at the next change.
    fn may_bring_more(&self, in_use: &Set, total: f64) -> bool {
        let is_open = |(best, most): &(Set, f64)| {
            best != in_use && (most * HOPELESS..most * GAIN).contains(&total) && self.observations.times(in_use) == 1
        };
        *in_use == self.chosen && self.best.as_ref().is_some_and(is_open)
    }
    /// Decides whether the paths in use, which brought `total`, are the best.
    fn judge(&mut self, known: &[Candidate], in_use: Set, total: f64) {
        let works = |id: &PathId| known.iter().any(|path| path.path == *id);
        let Some((best, most)) = self.best.take().filter(|(best, _)| best.iter().all(works)) else {
            self.best = Some((in_use, total));
            return;
        };
        let is_leaner = in_use == self.chosen && in_use.len() < best.len();
        let is_better = total > most * GAIN || is_leaner && total >= most * LEANER;
        if is_better {
            self.pause_next = 0;
        }
        if is_better || in_use == best {
            self.best = Some((in_use, total));
            return;
        }
        self.vain.extend(in_use.difference(&best).map(|id| (*id, VAIN_CHANGES)));
        self.pause = self.pause_next;
        self.pause_next = (2 * self.pause_next).clamp(1, PAUSE_MAX);
        self.best = Some((best, most));
    }
    /// Paths worth a trial in place of `best`, whose throughput is `most`: those of the maximum flow, or near it, with
    /// more throughput where windows share links.
    fn propose(
        &self,
        known: &[Candidate],
        asking: f64,
        in_use_max: usize,
        (best, most): &(Set, f64),
        noise: Option<&mut Random>,
    ) -> Option<Set> {
        let each = known.iter().filter_map(|path| path.rate_known).map(|rate| rate.mbps()).fold(0.0, f64::max);
        let known_rates = known_rates(known);
        let is_common = common(known);
        let limits = self.observations.limits(&is_common, &known_rates, each, noise);
        // Interests of paths in the opposite direction of a link take capacity from its Data.
        let times = |path: &Candidate, link: &Label| {
            let data = path.links.iter().filter(|on| on.label == *link).count() as f64;
            data + INTEREST_COST * asking * path.links.iter().filter(|on| on.reverse == Some(*link)).count() as f64
        };
        let with = |link: &Label| {
            let times = known.iter().map(|path| times(path, link)).enumerate();
            times.filter(|(_, times)| *times > 0.0).collect()
        };
        let counts = Loads::count(known);
        let shared = counts.links().filter(|link| !is_common(link) || known_rates.contains_key(*link));
        let of_links = shared.map(|link| Limit { of: with(link), most: limits.get(link).copied().unwrap_or(each) });
        // A path with unknown link rates is assumed to deliver as much as the best one did.
        let unknown = (0..known.len()).filter(|path| !has_known_rates(&known[*path]));
        let of_paths = unknown.map(|path| Limit { of: [(path, 1.0)].into(), most: each });
        let limits: Vec<Limit> = of_links.chain(of_paths).collect();
        let fair = Fair::new(known.len(), &limits);
        let used: Vec<usize> = (0..known.len()).filter(|path| best.contains(&known[*path].path)).collect();
        let rooms = fair.rates(&used);
        let lags = |(path, room): (&Candidate, f64)| {
            !has_known_rates(path) && path.rate_known.map_or(0.0, |rate| rate.mbps()) < room * LAGGING
        };
        let of_best = used.iter().map(|path| &known[*path]).zip(rooms);
        let lagging: Set = of_best.filter(|of| lags(*of)).map(|(path, _)| path.path).collect();
        let weight = |path: &Candidate| {
            let favour = if has_known_rates(path) { BEST_WEIGHT_KNOWN_RATES } else { BEST_WEIGHT };
            let is_lagging = lagging.contains(&path.path);
            let best = if best.contains(&path.path) && !is_lagging { favour } else { 1.0 };
            let vain = if is_lagging || self.vain.contains_key(&path.path) { VAIN_WEIGHT } else { 1.0 };
            best * vain - HOP_WEIGHT * path.hops as f64
        };
        let weights: Vec<f64> = known.iter().map(weight).collect();
        // No set of paths brings more than this.
        let flows = flow::greatest(&weights, &limits);
        let bound: f64 = flows.iter().sum();
        if bound <= most * GAIN_EXPECTED {
            return None;
        }
        let mut order: Vec<usize> = (0..known.len()).filter(|path| flows[*path] > each * FLOW_MIN).collect();
        order.sort_by(|a, b| flows[*b].total_cmp(&flows[*a]));
        order.truncate(in_use_max);
        let paths = fair.improve(&weights, order, in_use_max);
        let chosen: Set = paths.iter().map(|path| known[*path].path).collect();
        let once = if known.iter().all(has_known_rates) { TRIED_ONCE_CHANGES } else { AGE_MAX };
        let expected = self.observations.total(&chosen, once).unwrap_or_else(|| fair.total(&paths));
        (expected > most * GAIN_EXPECTED).then_some(chosen)
    }
}

impl PathSelection for Spread {
    /// At the start the path with the least used links, until others use more than half of the remaining ones; later
    /// the replacement of a failed one.
    fn fill(&mut self, known: &[Candidate], _: &mut Random) -> Option<PathId> {
        let in_use = || known.iter().filter(|path| path.in_use);
        let (used, is_common) = (Loads::count(in_use()), common(known));
        // Paths on its links if it were used too: together, and on each.
        let load = |path: &Candidate| {
            let links: Vec<&Label> =
                path.links.iter().map(|link| &link.label).filter(|link| !is_common(link)).collect();
            let total: f64 = links.iter().map(|link| 1.0 + used.on(link)).sum();
            (total, total / links.len().max(1) as f64)
        };
        let is_wanted = |path: &Candidate| match (in_use().count(), &self.best) {
            (0, _) => true,
            (count, Some(_)) => count < self.chosen.len(),
            (_, None) => load(path).1 < LOAD_MAX,
        };
        let order = |a: &&Candidate, b: &&Candidate| {
            load(a).0.total_cmp(&load(b).0).then(a.rtt.cmp(&b.rtt)).then(a.path.cmp(&b.path))
        };
        known.iter().filter(|path| !path.in_use && is_wanted(path)).min_by(order).map(|path| path.path)
    }
    fn change(&mut self, known: &[Candidate], asking: f64, in_use_max: usize, random: &mut Random) -> Vec<PathId> {
        let in_use: Set = known.iter().filter(|path| path.in_use).map(|path| path.path).collect();
        let total: f64 = known.iter().map(|path| path.rate.mbps()).sum();
        if total <= 0.0 {
            // No path delivers anything, so nothing can be learned: start again.
            *self = Spread::default();
            return in_use.into_iter().collect();
        }
        self.observations.add(known, &self.chosen);
        self.vain.retain(|_, changes| {
            *changes -= 1;
            *changes > 0
        });
        if !known.iter().all(has_known_rates) && self.may_bring_more(&in_use, total) {
            return in_use.into_iter().collect();
        }
        self.judge(known, in_use, total);
        let is_pausing = self.pause > 0;
        self.pause = self.pause.saturating_sub(1);
        let mut propose = |best: &(Set, f64)| {
            let likeliest = self.propose(known, asking, in_use_max, best, None);
            // Paths in use are replaced only by the likeliest.
            let is_new = |set: &Set| !set.is_subset(&best.0);
            let mut noisy = || self.propose(known, asking, in_use_max, best, Some(random)).filter(is_new);
            likeliest.or_else(|| (0..NOISY_PROPOSALS).find_map(|_| noisy()))
        };
        let proposed = self.best.as_ref().filter(|_| !is_pausing).and_then(&mut propose);
        let best = self.best.iter().flat_map(|(best, _)| best).copied();
        self.chosen = proposed.unwrap_or_else(|| best.collect());
        self.chosen.iter().copied().collect()
    }
}
