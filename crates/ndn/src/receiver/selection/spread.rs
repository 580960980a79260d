//! Paths that share few links: the labels in their tags tell which links two paths have in common. One path after the
//! other is chosen, the one whose links are used least, until more than half of what is left is in use by others. Then, if
//! there is room, other paths are tried one at a time; one whose rate is not for the most part taken from the others
//! stays. Not in the paper, whose bandwidth-based selection takes any unused path.
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use tributary_core::{PathId, Random};

use super::{Candidate, PathSelection};
use crate::router::labels::LABEL_BYTES;

/// Selection by shared links.
#[derive(Clone, Default, Debug)]
pub(super) struct Spread {
    /// Paths that were tried and brought something of their own.
    proven: BTreeSet<PathId>,
    /// Paths that were tried and did not.
    rejected: BTreeSet<PathId>,
    /// The path on trial, and what all brought before, in Mbit/s.
    trial: Option<(PathId, f64)>,
    /// Changes until the next trial, and how long the last pause was.
    pause: u32,
    pause_last: u32,
}

/// Paths on each link of a path, itself included, beyond which it is not worth its while.
const LOAD_MAX: f64 = 2.0;
/// Changes of the paths in use between two trials at most.
const PAUSE_MAX: u32 = 32;

type Label = [u8; LABEL_BYTES];

/// How many paths have each link.
#[derive(Default)]
struct Links(BTreeMap<Label, f64>);

impl Links {
    fn of<'a>(paths: impl IntoIterator<Item = &'a Candidate>) -> Self {
        let mut links = Links::default();
        paths.into_iter().for_each(|path| links.add(path));
        links
    }
    fn add(&mut self, path: &Candidate) {
        path.links.iter().for_each(|link| *self.0.entry(*link).or_default() += 1.0);
    }
}

/// Chooses one path after the other.
struct Choice<'a> {
    unused: Vec<&'a Candidate>,
    chosen: Links,
    /// Links that all known paths have: nothing can be done about them.
    common: BTreeSet<Label>,
}

impl<'a> Choice<'a> {
    fn new(known: &'a [Candidate], is_chosen: impl Fn(&Candidate) -> bool) -> Self {
        let (chosen, unused): (Vec<&Candidate>, Vec<&Candidate>) = known.iter().partition(|path| is_chosen(path));
        let all = Links::of(known).0.into_iter();
        let common = all.filter(|(_, count)| *count >= known.len() as f64 && known.len() > 1).map(|(link, _)| link);
        Choice { unused, common: common.collect(), chosen: Links::of(chosen) }
    }
    /// Paths on the links of `path` if it were used too: together, and on each.
    fn load(&self, path: &Candidate) -> (f64, f64) {
        let links: Vec<&Label> = path.links.iter().filter(|link| !self.common.contains(*link)).collect();
        let total: f64 = links.iter().map(|link| 1.0 + self.chosen.0.get(*link).copied().unwrap_or_default()).sum();
        (total, total / links.len().max(1) as f64)
    }
    /// The path that brings least load, if that is at most `load_max` on each of its links.
    fn next(&mut self, load_max: f64) -> Option<PathId> {
        let order = |a: &&&Candidate, b: &&&Candidate| {
            self.load(a).0.total_cmp(&self.load(b).0).then(a.rtt.cmp(&b.rtt)).then(a.path.cmp(&b.path))
        };
        let best = *self.unused.iter().filter(|path| self.load(path).1 < load_max).min_by(order)?;
        self.unused.retain(|path| path.path != best.path);
        self.chosen.add(best);
        Some(best.path)
    }
}

impl Spread {
    /// Ends a trial: whether most of what the path brought came in addition.
    fn judge(&mut self, known: &[Candidate]) {
        let Some((tried, before)) = self.trial.take() else { return };
        let total: f64 = known.iter().map(|path| path.rate.mbps()).sum();
        let own = known.iter().find(|path| path.path == tried).map_or(0.0, |path| path.rate.mbps());
        if own > 0.0 && total - before > own / 2.0 {
            self.proven.insert(tried);
            self.pause_last = 0;
        } else {
            self.rejected.insert(tried);
            self.pause_last = (2 * self.pause_last.max(1)).min(PAUSE_MAX);
        }
        self.pause = self.pause_last;
    }
    /// Begins a trial if it is time for one.
    fn try_another(&mut self, known: &[Candidate], chosen: &[PathId]) -> Option<PathId> {
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        let out = |path: &Candidate| chosen.contains(&path.path) || self.rejected.contains(&path.path);
        let Some(tried) = Choice::new(known, out).next(f64::INFINITY) else {
            self.rejected.clear();
            self.pause = PAUSE_MAX;
            return None;
        };
        self.trial = Some((tried, known.iter().map(|path| path.rate.mbps()).sum()));
        Some(tried)
    }
}

impl PathSelection for Spread {
    fn name(&self) -> &'static str {
        "spread"
    }
    fn fill(&mut self, known: &[Candidate], _: &mut Random) -> Option<PathId> {
        let load_max = if known.iter().any(|path| path.in_use) { LOAD_MAX } else { f64::INFINITY };
        Choice::new(known, |path| path.in_use).next(load_max)
    }
    fn change(&mut self, known: &[Candidate], in_use_max: usize, _: &mut Random) -> Vec<PathId> {
        self.judge(known);
        self.proven.retain(|proven| known.iter().any(|path| path.path == *proven));
        let mut chosen: Vec<PathId> = self.proven.iter().copied().take(in_use_max).collect();
        let mut choice = Choice::new(known, |path| chosen.contains(&path.path));
        while chosen.len() < in_use_max
            && let Some(next) = choice.next(if chosen.is_empty() { f64::INFINITY } else { LOAD_MAX })
        {
            chosen.push(next);
        }
        let is_settled = chosen.iter().all(|path| known.iter().any(|known| known.path == *path && known.in_use));
        if is_settled && chosen.len() < in_use_max {
            chosen.extend(self.try_another(known, &chosen));
        }
        chosen
    }
}
