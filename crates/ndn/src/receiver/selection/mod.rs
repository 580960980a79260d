//! Which of the known paths are used. PTP §4 C and appendix; one file each behind one trait.
//!
//! | selection | uses |
//! |---|---|
//! | `bandwidth` | the available paths; from time to time an unused one replaces the slowest (§4 C 1) |
//! | `random` | any |
//! | `hops` | those with the fewest hops, which spares the network's links |
//! | `latency` | those with the shortest round trips |
//! | `variance` | those whose round trips vary least, by a smoothed mean deviation as in RFC 6298 |
//! | `hybrid` | among the fast half those whose round trips vary least |
//! | `spread` | those that bring most together over the links that they share, as their labels show |
mod spread;
mod stateless;

use alloc::{boxed::Box, vec::Vec};

use tributary_core::{Duration, PathId, Random, Rate};

use self::stateless::Stateless;
use crate::router::labels::LABEL_BYTES;

/// A link on a path.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Link {
    /// Its label.
    pub label: [u8; LABEL_BYTES],
    /// Its rate, if the router before it knows and states it.
    pub rate: Option<Rate>,
    /// The label of the same link in the other direction, if known: Interests of this path use it.
    pub reverse: Option<[u8; LABEL_BYTES]>,
}

/// A working path.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    /// The path.
    pub path: PathId,
    /// Whether it is in use.
    pub in_use: bool,
    /// Its recent delivery rate; zero if it is not in use.
    pub rate: Rate,
    /// Its delivery rate when it was last in use; `None` if it never was.
    pub rate_known: Option<Rate>,
    /// Routers on it.
    pub hops: usize,
    /// Mean round-trip time of its probes.
    pub rtt: Duration,
    /// Their mean deviation.
    pub rtt_deviation: Duration,
    /// The links of its labels; none if the labels are bits.
    pub links: Vec<Link>,
}

/// Chooses paths.
pub trait PathSelection: Send {
    /// The paths to use from now on, at most `in_use_max`; called once per change interval (paper: T). For each byte
    /// that a path delivers, `asking` bytes of Interests travel in the other direction.
    fn change(&mut self, known: &[Candidate], asking: f64, in_use_max: usize, random: &mut Random) -> Vec<PathId>;
    /// An additional unused path while the limit allows it; called when one was found or one in use failed.
    fn fill(&mut self, known: &[Candidate], random: &mut Random) -> Option<PathId> {
        let unused: Vec<Candidate> = known.iter().filter(|path| !path.in_use).cloned().collect();
        self.change(&unused, 0.0, 1, random).first().copied()
    }
}

/// A selection by name.
pub type Listed = (&'static str, fn() -> Box<dyn PathSelection>);

/// The selections by name, the default first.
pub const SELECTIONS: [Listed; 7] = [
    ("bandwidth", || Box::new(Stateless(stateless::bandwidth))),
    ("random", || Box::new(Stateless(stateless::random))),
    ("hops", || Box::new(Stateless(|known, count, _| smallest(known, count, |path| path.hops)))),
    ("latency", || Box::new(Stateless(|known, count, _| smallest(known, count, |path| path.rtt)))),
    ("variance", || Box::new(Stateless(|known, count, _| smallest(known, count, |path| path.rtt_deviation)))),
    ("hybrid", || Box::new(Stateless(stateless::hybrid))),
    ("spread", || Box::new(spread::Spread::default())),
];

/// The selection of this name; the first for an unknown one.
pub fn by_name(name: &str) -> Box<dyn PathSelection> {
    let found = SELECTIONS.iter().find(|(known, _)| *known == name).unwrap_or(&SELECTIONS[0]);
    (found.1)()
}

/// The `count` paths with the smallest keys, those in use first among equals.
fn smallest<K: Ord>(known: &[Candidate], count: usize, key: impl Fn(&Candidate) -> K) -> Vec<PathId> {
    let mut order: Vec<&Candidate> = known.iter().collect();
    order.sort_by_key(|path| (key(path), !path.in_use, path.path));
    order.iter().take(count).map(|path| path.path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(path: u16, in_use: bool, mbps: u64, hops: usize, rtt: u64, deviation: u64) -> Candidate {
        Candidate {
            path: PathId(path),
            in_use,
            rate: Rate::from_mbps(if in_use { mbps } else { 0 }),
            rate_known: in_use.then_some(Rate::from_mbps(mbps)),
            hops,
            rtt: Duration::from_millis(rtt),
            rtt_deviation: Duration::from_millis(deviation),
            links: Vec::new(),
        }
    }
    fn chosen(name: &str, known: &[Candidate], in_use_max: usize) -> Vec<u16> {
        let mut paths: Vec<u16> =
            by_name(name).change(known, 0.0, in_use_max, &mut Random::new(1, 1)).iter().map(|path| path.0).collect();
        paths.sort_unstable();
        paths
    }

    #[test]
    fn each_selection_prefers_its_own() {
        let known = [
            candidate(1, true, 10, 5, 50, 9),
            candidate(2, true, 1, 2, 80, 1),
            candidate(3, true, 5, 3, 20, 5),
            candidate(4, false, 0, 1, 60, 7),
        ];
        assert_eq!(chosen("bandwidth", &known, 3), [1, 3, 4], "the slowest gives way to an unused one");
        assert_eq!(chosen("bandwidth", &known, 4), [1, 2, 3, 4], "with room nothing gives way");
        assert_eq!(chosen("bandwidth", &known[..3], 3), [1, 2, 3], "nothing unused, nothing changes");
        assert_eq!(chosen("hops", &known, 2), [2, 4]);
        assert_eq!(chosen("latency", &known, 2), [1, 3]);
        assert_eq!(chosen("variance", &known, 2), [2, 3]);
        assert_eq!(chosen("hybrid", &known, 1), [3], "of the two fastest the steadier");
        assert_eq!(chosen("random", &known, 2).len(), 2);
        for (name, make) in SELECTIONS {
            assert!(make().fill(&known[3..], &mut Random::new(1, 1)) == Some(PathId(4)), "{name}");
            assert_eq!(make().change(&[], 0.0, 3, &mut Random::new(1, 1)), []);
        }
    }
}
