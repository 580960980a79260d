//! Couples sub-flows that share a link (paper §III-D: "no more aggressive than a single-flow connection").
//!
//! The quantity that coupling limits depends on the controller. A window that grows with arrivals grows by a part
//! ([`growth`]). A model of the path gets its share by probing: if several sub-flows probed in turn, each would find
//! the capacity that the others had just released and take a full share. So the sub-flows of a group ([`components`])
//! probe at the same time, and their sum behaves like one flow; where the shared link is not the bottleneck this costs
//! nothing.
use alloc::{collections::VecDeque, vec::Vec};

use tributary_core::{Duration, Rate, Time};

use crate::{
    Coupling,
    window::{Growth, RateFilter},
};

/// One sub-flow of a group: its window in packets and its smoothed round-trip time in seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Member {
    /// Window in packets, at least a fraction of one.
    pub window: f64,
    /// Round-trip time in seconds, above zero.
    pub rtt: f64,
    /// Packets between the last two losses, or since the last one if that is more: for couplings of other crates.
    pub loss_interval: f64,
}

/// The growth of the sub-flow `own`, one of the sub-flows `group` that share a link.
///
/// Linked increase is RFC 6356: `min(α / w_total, 1 / w_own)` per packet with
/// `α = w_total · max(w/rtt²) / (Σ w/rtt)²`, and no change to slow start; PTP's compensation
/// multiplies it by `rtt_own / rtt_max` (PTP eq. 2). The normalised form is
/// `m_ca = max(1/rtt²) / Σ(1/rtt²)` of `1/w` per packet, and `m_ss = max(w/rtt²) / Σ(w/rtt²)` in slow start.
pub fn growth(coupling: Coupling, own: Member, group: &[Member]) -> Growth {
    if group.len() < 2 {
        return Growth::ALONE;
    }
    let sum = |f: fn(&Member) -> f64| group.iter().map(f).sum::<f64>();
    let max = |f: fn(&Member) -> f64| group.iter().map(f).fold(0.0, f64::max);
    let rate = sum(|m| m.window / m.rtt);
    let plain = Growth { weight: own.window / own.rtt / rate, ..Growth::ALONE };
    match coupling {
        Coupling::Uncoupled => Growth::ALONE,
        Coupling::LinkedIncrease | Coupling::LinkedIncreaseCompensated => {
            // PTP leaves the reference open. The largest round-trip time of the group makes the factor at most one, so
            // that no sub-flow grows faster than it would alone.
            let compensation = match coupling {
                Coupling::LinkedIncreaseCompensated => own.rtt / max(|m| m.rtt),
                _ => 1.0,
            };
            let per_packet = max(|m| m.window / (m.rtt * m.rtt)) / (rate * rate);
            Growth { avoidance: (per_packet * own.window).min(1.0) * compensation, ..plain }
        }
        Coupling::Normalised => Growth {
            slow_start: max(|m| m.window / (m.rtt * m.rtt)) / sum(|m| m.window / (m.rtt * m.rtt)),
            avoidance: max(|m| 1.0 / (m.rtt * m.rtt)) / sum(|m| 1.0 / (m.rtt * m.rtt)),
            ..plain
        },
        Coupling::Other(other) => (other.law)(own, group),
    }
}

/// The rate of all sub-flows of a group together, as a single flow in their place would measure it.
///
/// Each sub-flow keeps the best rate that it has seen. They saw it at different moments, some while the others paused,
/// so the sum exceeds what the group ever had, and together they would press n-fold against rival flows. The rate
/// measured over all of them is the true one, and each uses its part of it.
#[derive(Clone, Debug, Default)]
pub struct GroupModel {
    /// Times and delivered bytes over the last round trip.
    marks: VecDeque<(Time, u64)>,
    best: RateFilter,
    /// The rate over the last round trip.
    last: f64,
    round: u64,
    round_ends: Time,
}

impl GroupModel {
    /// Rounds that must have been measured before the model counts.
    const ROUNDS_MIN: u64 = 3;
    const MARKS_MAX: usize = 256;
    /// Who gets less than this part of the best has lost something.
    const SHORT: f64 = 0.9;

    /// Takes the total delivered until now; `starved` if a sub-flow lacked packets to request lately.
    pub fn on_delivered(&mut self, now: Time, delivered: u64, starved: bool, round_trip: Duration) {
        while let Some((at, before)) = self.marks.front().copied() {
            if now.since(at) < round_trip && self.marks.len() < Self::MARKS_MAX {
                break;
            }
            self.marks.pop_front();
            let Some(rate) = Rate::over(delivered.saturating_sub(before), now.since(at)) else { continue };
            let rate = rate.bits_per_second() as f64 / 8.0;
            self.last = rate;
            if !starved || rate > self.best.best() {
                self.best.on_sample(rate, self.round);
            }
        }
        self.marks.push_back((now, delivered));
        if now >= self.round_ends {
            self.round += 1;
            self.round_ends = now + round_trip;
        }
    }
    /// The part of their individual rates, which sum to `own`, that the sub-flows may use.
    pub fn scale(&self, own: f64) -> f64 {
        let best = self.best.best();
        if self.round < Self::ROUNDS_MIN || best <= 0.0 || own <= 0.0 { 1.0 } else { (best / own).min(1.0) }
    }
    /// Whether the group gets clearly less than before: a sub-flow has lost its share, and the others may gain.
    pub fn is_short(&self) -> bool {
        self.round >= Self::ROUNDS_MIN && self.last < self.best.best() * Self::SHORT
    }
}

/// The groups of sub-flows, by number, that share a link directly or through further sub-flows.
pub fn components(groups: &[&[u16]]) -> Vec<Vec<usize>> {
    let mut components: Vec<Vec<usize>> = Vec::new();
    for (index, own) in groups.iter().enumerate() {
        let touches = |other: &usize| groups[*other].iter().any(|group| own.contains(group));
        let (touched, mut apart): (Vec<_>, Vec<_>) =
            components.into_iter().partition(|component| component.iter().any(touches));
        let mut joined: Vec<usize> = touched.into_iter().flatten().collect();
        joined.push(index);
        apart.push(joined);
        components = apart;
    }
    components
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    const EQUAL: [Member; 2] = [member(10.0, 0.1), member(10.0, 0.1)];

    const fn member(window: f64, rtt: f64) -> Member {
        Member { window, rtt, loss_interval: 100.0 }
    }

    #[test]
    fn two_equal_sub_flows_grow_together_like_one() {
        // RFC 6356 on equal paths: α = 1/2 … together one packet per round trip of the total window.
        let linked = growth(Coupling::LinkedIncrease, EQUAL[0], &EQUAL);
        assert!((linked.avoidance - 0.25).abs() < 1e-12, "{linked:?}");
        let normalised = growth(Coupling::Normalised, EQUAL[0], &EQUAL);
        assert!((normalised.avoidance - 0.5).abs() < 1e-12 && (normalised.slow_start - 0.5).abs() < 1e-12);
    }

    #[test]
    fn sub_flows_hang_together_by_links_of_others() {
        let mut found = components(&[&[1], &[2], &[], &[2, 3], &[4], &[3, 1], &[]]);
        found.iter_mut().for_each(|component| component.sort_unstable());
        found.sort();
        assert_eq!(found, [vec![0, 1, 3, 5], vec![2], vec![4], vec![6]]);
    }

    #[test]
    fn compensation_leaves_long_round_trips_their_increase_and_shortens_that_of_short_ones() {
        let group = [member(10.0, 0.02), member(10.0, 0.1)];
        let of = |coupling, own| growth(coupling, own, &group).avoidance;
        for (own, factor) in [(group[0], 0.2), (group[1], 1.0)] {
            let plain = of(Coupling::LinkedIncrease, own);
            assert!((of(Coupling::LinkedIncreaseCompensated, own) - plain * factor).abs() < 1e-12);
        }
    }

    #[test]
    fn no_sub_flow_grows_faster_than_it_would_alone() {
        let group = [member(2.0, 0.01), member(50.0, 0.2)];
        let compensated = Coupling::LinkedIncreaseCompensated;
        for coupling in [Coupling::Uncoupled, Coupling::LinkedIncrease, compensated, Coupling::Normalised] {
            for own in group {
                let growth = growth(coupling, own, &group);
                assert!(growth.avoidance <= 1.0 && growth.slow_start <= 1.0, "{coupling:?} {growth:?}");
            }
        }
        assert_eq!(growth(Coupling::LinkedIncrease, EQUAL[0], &EQUAL[..1]), Growth::ALONE);
    }
}
