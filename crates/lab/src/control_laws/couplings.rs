//! Couplings of sub-flows that the papers leave open, to compare with: OLIA and BALIA.
use tributary_transport::{Coupling, Other, coupling::Member, window::Growth};

/// OLIA (Khalili and others, 2012): Linked Increase among sub-flows that do equally well; otherwise it moves window from
/// the fullest path to the best one. It adds `(w_own / rtt_own²) / (Σ w/rtt)² + α_own / w_own` per packet, where α moves
/// window from the sub-flows with the largest windows to those with the largest `loss_interval² / rtt`
/// (draft-khalili-mptcp-congestion-control-05).
pub(crate) const OLIA: Coupling = Coupling::Other(Other { name: "olia", law: olia });
/// BALIA (Peng and others, 2016): increase and decrease depend on the ratio of the fastest sub-flow's rate to this
/// one's. It adds `x_own / (rtt_own · (Σ x)²) · (1 + α)/2 · (4 + α)/5` with `x = w/rtt` and `α = max(x) / x_own`, and a
/// loss takes `min(α, 1.5)` times as much (draft-walid-mptcp-congestion-control-04).
pub(crate) const BALIA: Coupling = Coupling::Other(Other { name: "balia", law: balia });

fn rate(group: &[Member]) -> f64 {
    group.iter().map(|m| m.window / m.rtt).sum()
}
/// Per packet, of the window of one: factor on 1/w.
fn resource_pooling(own: Member, group: &[Member]) -> f64 {
    let rate = rate(group);
    own.window * own.window / (own.rtt * own.rtt * rate * rate)
}
fn plain(own: Member, group: &[Member]) -> Growth {
    Growth { weight: own.window / own.rtt / rate(group), ..Growth::ALONE }
}
fn olia(own: Member, group: &[Member]) -> Growth {
    let avoidance = (resource_pooling(own, group) + olia_shift(own, group)).min(1.0);
    Growth { avoidance, ..plain(own, group) }
}
fn balia(own: Member, group: &[Member]) -> Growth {
    let fastest = group.iter().map(|m| m.window / m.rtt).fold(0.0, f64::max);
    let alpha = fastest / (own.window / own.rtt);
    let avoidance = (resource_pooling(own, group) * (1.0 + alpha) / 2.0 * (4.0 + alpha) / 5.0).min(1.0);
    Growth { avoidance, decrease: alpha.min(BALIA_DECREASE_MAX), ..plain(own, group) }
}

/// The largest factor by which a slow sub-flow's decrease grows.
const BALIA_DECREASE_MAX: f64 = 1.5;
/// Values of sub-flows that differ by less than this part are equal.
const OLIA_EQUAL: f64 = 0.01;

/// OLIA's α for `own`: the best sub-flows without the largest windows share `1/n`, those with the largest windows pay it.
fn olia_shift(own: Member, group: &[Member]) -> f64 {
    let quality = |m: &Member| m.loss_interval * m.loss_interval / m.rtt;
    let largest = |value: fn(&Member, f64) -> f64| group.iter().fold(0.0, |most, m| value(m, most));
    let best = largest(|m, most| (m.loss_interval * m.loss_interval / m.rtt).max(most)) * (1.0 - OLIA_EQUAL);
    let fullest = largest(|m, most| m.window.max(most)) * (1.0 - OLIA_EQUAL);
    let is_deprived = |m: &Member| quality(m) >= best && m.window < fullest;
    let count = |which: &dyn Fn(&Member) -> bool| group.iter().filter(|m| which(m)).count() as f64;
    let deprived = count(&is_deprived);
    if deprived == 0.0 {
        0.0
    } else if is_deprived(&own) {
        1.0 / (group.len() as f64 * deprived)
    } else if own.window >= fullest {
        -1.0 / (group.len() as f64 * count(&|m| m.window >= fullest))
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_transport::coupling::growth;

    const EQUAL: [Member; 2] = [member(10.0, 0.1), member(10.0, 0.1)];

    const fn member(window: f64, rtt: f64) -> Member {
        Member { window, rtt, loss_interval: 100.0 }
    }

    #[test]
    fn olia_moves_window_from_the_fullest_to_the_best() {
        // Equal sub-flows: each adds a quarter of 1/w per packet, as under Linked Increase.
        assert!((growth(OLIA, EQUAL[0], &EQUAL).avoidance - 0.25).abs() < 1e-12);
        // The second loses less often, and has the smaller window.
        let group = [member(30.0, 0.1), Member { loss_interval: 1000.0, ..member(10.0, 0.1) }, member(20.0, 0.1)];
        let [full, best, other] = group.map(|own| growth(OLIA, own, &group).avoidance);
        assert!((full - (0.25 - 1.0 / 3.0)).abs() < 1e-9, "900 / 3600, and a third less: {full}");
        assert!((best - (100.0 / 3600.0 + 1.0 / 3.0)).abs() < 1e-9, "{best}");
        assert!((other - 400.0 / 3600.0).abs() < 1e-9, "{other}");
        // The best has the largest window already: nothing is moved.
        let group = [Member { loss_interval: 1000.0, ..member(30.0, 0.1) }, member(10.0, 0.1)];
        assert!((growth(OLIA, group[1], &group).avoidance - 100.0 / 1600.0).abs() < 1e-9);
    }

    #[test]
    fn balia_takes_more_from_the_slower_and_gives_it_more() {
        let equal = growth(BALIA, EQUAL[0], &EQUAL);
        assert!((equal.avoidance - 0.25).abs() < 1e-12 && (equal.decrease - 1.0).abs() < 1e-12);
        let group = [member(20.0, 0.1), member(10.0, 0.1)];
        let slow = growth(BALIA, group[1], &group);
        // α = 2: x / (Σx)² = 1/9 of 1/w, times 3/2 and 6/5.
        assert!(
            (slow.avoidance - 1.0 / 9.0 * 1.5 * 1.2).abs() < 1e-9 && (slow.decrease - 1.5).abs() < 1e-12,
            "{slow:?}"
        );
        assert!((slow.weight - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn no_sub_flow_grows_faster_than_it_would_alone() {
        let group = [member(2.0, 0.01), member(50.0, 0.2)];
        for coupling in [OLIA, BALIA] {
            for own in group {
                let growth = growth(coupling, own, &group);
                assert!(growth.avoidance <= 1.0 && growth.slow_start <= 1.0, "{coupling:?} {growth:?}");
            }
        }
    }
}
