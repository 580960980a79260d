//! How sub-flows that share a link grow together (paper §III-D: "no more aggressive than a single-flow connection").
//!
//! What sub-flows that share a link may do differs by controller. A window that grows by what arrives grows by a part
//! ([`growth`]). A model of the path gets its share by probing: several sub-flows that probe one after the other each
//! find room that the others have just left, and take a share each; if they probe at one time, their sum behaves as one
//! flow ([`components`] tells who belongs together), and where the link that they share is not the narrow one, it costs
//! them nothing.
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
    match coupling {
        Coupling::Uncoupled => Growth::ALONE,
        Coupling::LinkedIncrease | Coupling::LinkedIncreaseCompensated => {
            // PTP leaves the reference open. The largest round-trip time of the group makes the factor at most one, so
            // that no sub-flow grows faster than it would alone.
            let compensation = match coupling {
                Coupling::LinkedIncreaseCompensated => own.rtt / max(|m| m.rtt),
                _ => 1.0,
            };
            let rate = sum(|m| m.window / m.rtt);
            let per_packet = max(|m| m.window / (m.rtt * m.rtt)) / (rate * rate);
            Growth { slow_start: 1.0, avoidance: (per_packet * own.window).min(1.0) * compensation }
        }
        Coupling::Normalised => Growth {
            slow_start: max(|m| m.window / (m.rtt * m.rtt)) / sum(|m| m.window / (m.rtt * m.rtt)),
            avoidance: max(|m| 1.0 / (m.rtt * m.rtt)) / sum(|m| 1.0 / (m.rtt * m.rtt)),
        },
    }
}

/// What the sub-flows of a group get together: the rate that one flow in their place would take for its own.
///
/// Each of them keeps the best rate that it has seen. They have seen it at different moments, one when the others paused,
/// so that their sum is more than there ever was; together they would press for it against other flows, n-fold. The
/// rate of all together, measured as a flow measures its own, is the true one, and each uses its part of it.
#[derive(Clone, Debug, Default)]
pub struct GroupModel {
    /// When how much had been delivered, over the last round trip.
    marks: VecDeque<(Time, u64)>,
    best: RateFilter,
    round: u64,
    round_ends: Time,
}

impl GroupModel {
    /// Rounds that must have been measured before the model counts.
    const ROUNDS_MIN: u64 = 3;
    const MARKS_MAX: usize = 256;

    /// Takes what all have delivered until now; `starved` if one of them had nothing to ask for lately.
    pub fn on_delivered(&mut self, now: Time, delivered: u64, starved: bool, round_trip: Duration) {
        while let Some((at, before)) = self.marks.front().copied() {
            if now.since(at) < round_trip && self.marks.len() < Self::MARKS_MAX {
                break;
            }
            self.marks.pop_front();
            let Some(rate) = Rate::over(delivered.saturating_sub(before), now.since(at)) else { continue };
            let rate = rate.bits_per_second() as f64 / 8.0;
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
    /// The part of their own rates that the sub-flows may use, whose sum is `own`.
    pub fn scale(&self, own: f64) -> f64 {
        let best = self.best.best();
        if self.round < Self::ROUNDS_MIN || best <= 0.0 || own <= 0.0 { 1.0 } else { (best / own).min(1.0) }
    }
}

/// Which of the sub-flows with these shared links hang together, directly or by others; numbers of sub-flows.
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
    const EQUAL: [Member; 2] = [Member { window: 10.0, rtt: 0.1 }, Member { window: 10.0, rtt: 0.1 }];

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
        let group = [Member { window: 10.0, rtt: 0.02 }, Member { window: 10.0, rtt: 0.1 }];
        let of = |coupling, own| growth(coupling, own, &group).avoidance;
        for (own, factor) in [(group[0], 0.2), (group[1], 1.0)] {
            let plain = of(Coupling::LinkedIncrease, own);
            assert!((of(Coupling::LinkedIncreaseCompensated, own) - plain * factor).abs() < 1e-12);
        }
    }

    #[test]
    fn no_sub_flow_grows_faster_than_it_would_alone() {
        let group = [Member { window: 2.0, rtt: 0.01 }, Member { window: 50.0, rtt: 0.2 }];
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
