//! The capacities of links, inferred from the delivery rates of paths that were in use together.
use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    vec::Vec,
};

use tributary_core::{PathId, Random};

use super::{Candidate, Label};

/// Sets of paths that are remembered, and for how many changes.
const OBSERVATIONS_MAX: usize = 16;
pub(super) const AGE_MAX: u32 = 64;
/// A link carries as much as ever if it is this part of the most; a larger difference is noise.
const SAME: f64 = 0.9;
/// A full link carries this part of its maximum, whatever paths use it; other links reach it occasionally.
const FULL: f64 = 0.97;

pub(super) type Set = BTreeSet<PathId>;

/// Mbit/s, or paths, on each link.
#[derive(Clone, Default, Debug)]
pub(super) struct Loads(BTreeMap<Label, f64>);

impl Loads {
    /// How many of `paths` have each link.
    pub(super) fn count<'a>(paths: impl IntoIterator<Item = &'a Candidate>) -> Loads {
        Loads::of(paths, |_| 1.0)
    }
    fn of<'a>(paths: impl IntoIterator<Item = &'a Candidate>, amount: impl Fn(&Candidate) -> f64) -> Loads {
        let mut loads = Loads::default();
        for path in paths {
            path.links.iter().for_each(|link| *loads.0.entry(link.label).or_default() += amount(path));
        }
        loads
    }
    pub(super) fn on(&self, link: &Label) -> f64 {
        self.0.get(link).copied().unwrap_or_default()
    }
    pub(super) fn links(&self) -> impl Iterator<Item = &Label> {
        self.0.keys()
    }
}

/// What a set of paths brought.
#[derive(Clone, Debug)]
struct Observation {
    set: Set,
    /// Mbit/s of all.
    total: f64,
    loads: Loads,
    /// The links of each of the paths that were in use all the time.
    paths: Vec<Vec<Label>>,
    /// Changes at which it was in use, and how many ago it was for the last time.
    times: u32,
    age: u32,
}

/// Observations of the sets of paths that were in use lately.
#[derive(Clone, Default, Debug)]
pub(super) struct Observations(VecDeque<Observation>);

/// Observations of a link.
#[derive(Default)]
struct Seen {
    /// Maximum Mbit/s.
    most: f64,
    /// Sets of paths that used it, and how many of them filled it as much as ever.
    used: u32,
    busy: u32,
}

impl Observations {
    /// Records the throughput of the paths in use; those not in `before` were added in between.
    pub(super) fn add(&mut self, known: &[Candidate], before: &Set) {
        let in_use = || known.iter().filter(|path| path.in_use);
        let set: Set = in_use().map(|path| path.path).collect();
        let before_now = self.0.iter().find(|observation| observation.set == set);
        let times = 1 + before_now.map_or(0, |observation| observation.times);
        self.0.iter_mut().for_each(|observation| observation.age += 1);
        self.0.retain(|observation| observation.set != set && observation.age < AGE_MAX);
        if self.0.len() >= OBSERVATIONS_MAX {
            self.0.pop_front();
        }
        let all_the_time = in_use().filter(|path| before.contains(&path.path));
        self.0.push_back(Observation {
            set,
            total: in_use().map(|path| path.rate.mbps()).sum(),
            loads: Loads::of(in_use(), |path| path.rate.mbps()),
            paths: all_the_time.map(|path| path.links.iter().map(|link| link.label).collect()).collect(),
            times,
            age: 0,
        });
    }
    /// At how many changes these paths were in use.
    pub(super) fn times(&self, set: &Set) -> u32 {
        self.0.iter().find(|seen| seen.set == *set).map_or(0, |seen| seen.times)
    }
    /// The throughput of these paths on trial; a value from a single change counts for the next `once`.
    pub(super) fn total(&self, set: &Set, once: u32) -> Option<f64> {
        let counts = |seen: &&Observation| seen.set == *set && (seen.times > 1 || seen.age < once);
        self.0.iter().find(counts).map(|observation| observation.total)
    }
    /// The capacity of each used link, where it is full. Something is full on each path, or it would have delivered
    /// more: a link that carried as much as ever. Links that did so whenever they were used are assumed to be full
    /// first, others only for paths that these do not explain, `excluded` ones never; with `noise` in another, random
    /// order. A link that is not full can carry another path with the rate `each`.
    pub(super) fn limits(
        &self,
        excluded: impl Fn(&Label) -> bool,
        rates: &BTreeMap<Label, f64>,
        each: f64,
        mut noise: Option<&mut Random>,
    ) -> BTreeMap<Label, f64> {
        let (seen, is_noisy) = (self.seen(), noise.is_some());
        let mut likelihood = |seen: &Seen| {
            let factor = noise.as_mut().map_or(1.0, |random| 0.5 + random.below(1_000) as f64 / 1_000.0);
            f64::from(seen.busy) / f64::from(seen.used + 1) * factor
        };
        let considered = seen.iter().filter(|(link, _)| match rates.contains_key(*link) {
            true => is_noisy,
            false => !excluded(link),
        });
        let mut order: Vec<(f64, &Label, &Seen)> =
            considered.map(|(link, seen)| (likelihood(seen), link, seen)).collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.2.most.total_cmp(&b.2.most)).then(a.1.cmp(b.1)));
        let all = self.0.iter().flat_map(|observation| observation.paths.iter().map(move |path| (observation, path)));
        let mut unexplained: Vec<(&Observation, &Vec<Label>)> = all.collect();
        let mut limits = rates.clone();
        let is_full =
            |seen: &Observation, link: &Label| rates.get(link).is_some_and(|rate| seen.loads.on(link) >= rate * SAME);
        unexplained.retain(|(seen, path)| !path.iter().any(|link| is_full(seen, link)));
        for (_, link, Seen { most, .. }) in order {
            let before = unexplained.len();
            unexplained.retain(|(seen, path)| !path.contains(link) || seen.loads.on(link) < most * SAME);
            let is_full = unexplained.len() < before;
            let room = rates.get(link).copied().unwrap_or(most + each);
            limits.insert(*link, if is_full { *most } else { room });
        }
        limits
    }
    fn seen(&self) -> BTreeMap<Label, Seen> {
        let mut links: BTreeMap<Label, Seen> = BTreeMap::new();
        let all = || self.0.iter().flat_map(|observation| &observation.loads.0);
        for (link, load) in all() {
            let seen = links.entry(*link).or_default();
            seen.most = seen.most.max(*load);
            seen.used += 1;
        }
        for (link, load) in all() {
            links.entry(*link).and_modify(|seen| seen.busy += u32::from(*load >= seen.most * FULL));
        }
        links
    }
}
