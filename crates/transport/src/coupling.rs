//! How sub-flows that share a link grow together (paper §III-D: "no more aggressive than a single-flow connection").
use crate::{Coupling, window::Growth};

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
/// `α = w_total · max(w/rtt²) / (Σ w/rtt)²`, and no change to slow start. The normalised form is
/// `m_ca = max(1/rtt²) / Σ(1/rtt²)` of `1/w` per packet, and `m_ss = max(w/rtt²) / Σ(w/rtt²)` in slow start.
pub fn growth(coupling: Coupling, own: Member, group: &[Member]) -> Growth {
    if group.len() < 2 {
        return Growth::ALONE;
    }
    let sum = |f: fn(&Member) -> f64| group.iter().map(f).sum::<f64>();
    let max = |f: fn(&Member) -> f64| group.iter().map(f).fold(0.0, f64::max);
    match coupling {
        Coupling::Uncoupled => Growth::ALONE,
        Coupling::LinkedIncrease => {
            let rate = sum(|m| m.window / m.rtt);
            let per_packet = max(|m| m.window / (m.rtt * m.rtt)) / (rate * rate);
            Growth { slow_start: 1.0, avoidance: (per_packet * own.window).min(1.0) }
        }
        Coupling::Normalised => Growth {
            slow_start: max(|m| m.window / (m.rtt * m.rtt)) / sum(|m| m.window / (m.rtt * m.rtt)),
            avoidance: max(|m| 1.0 / (m.rtt * m.rtt)) / sum(|m| 1.0 / (m.rtt * m.rtt)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn no_sub_flow_grows_faster_than_it_would_alone() {
        let group = [Member { window: 2.0, rtt: 0.01 }, Member { window: 50.0, rtt: 0.2 }];
        for coupling in [Coupling::Uncoupled, Coupling::LinkedIncrease, Coupling::Normalised] {
            for own in group {
                let growth = growth(coupling, own, &group);
                assert!(growth.avoidance <= 1.0 && growth.slow_start <= 1.0, "{coupling:?} {growth:?}");
            }
        }
        assert_eq!(growth(Coupling::LinkedIncrease, EQUAL[0], &EQUAL[..1]), Growth::ALONE);
    }
}
