//! Queues that mark instead of dropping: they stay short, nothing is lost, and the link is used.
use super::{shared::Contest, *};
use tributary_core::{
    Ecn,
    link::{
        QueueDiscipline,
        queue::{Signal, codel::CoDelConfig, threshold::ThresholdConfig},
    },
};

/// A queue of two products of bandwidth and delay that signals by marks.
fn marking(mbps: u64, rtt_ms: u64, ecn: Ecn) -> LinkConfig {
    let mut narrow = link(mbps, rtt_ms, 0.0);
    narrow.queue_bytes = (narrow.queue_bytes * 4 / 3).max(200_000);
    let rate = Rate::from_mbps(mbps);
    narrow.discipline = match ecn {
        // The low-latency queue of DualPI2 (RFC 9332 §2.4): a step at 1 ms, and two packets on slow links.
        Ecn::Scalable => QueueDiscipline::Threshold(ThresholdConfig {
            threshold: rate.bytes_in(Duration::from_millis(1)).max(3_000),
            ..ThresholdConfig::DEFAULT
        }),
        Ecn::Classic | Ecn::Off => QueueDiscipline::CoDel(CoDelConfig {
            signal: if ecn == Ecn::Off { Signal::Drop } else { Signal::Mark },
            ..CoDelConfig::DEFAULT
        }),
    };
    narrow
}

/// What flows that start one second apart do between 10 and 40 seconds: the use of the link, the part that is lost, and
/// the mean time in the queue in milliseconds.
fn behind(mbps: u64, rtt_ms: u64, ecn: Ecn, flows: usize) -> (f64, f64, f64, Vec<u64>) {
    let mut contest = Contest::over(marking(mbps, rtt_ms, ecn), (mbps * 125_000 * 42) as usize);
    for flow in 0..flows {
        contest.run_until(Time::from_millis(1_000 * flow as u64));
        contest.add(TransferConfig { ecn, ..TransferConfig::default() }, &[0]);
    }
    contest.run_until(Time::from_millis(10_000));
    let before = contest.paths();
    let mut waited = 0.0;
    for step in 0..3_000 {
        contest.run_until(Time::from_millis(10_000) + Duration::from_millis(10 * (step + 1)));
        waited += contest.queue_bytes() as f64 / (mbps as f64 * 125.0) / 3_000.0;
    }
    let after = contest.paths();
    let got: Vec<u64> = before.iter().zip(&after).map(|(before, after)| after.bytes - before.bytes).collect();
    let lost: u64 = before.iter().zip(&after).map(|(before, after)| after.lost_packets - before.lost_packets).sum();
    // With all headers.
    let used = got.iter().sum::<u64>() as f64 * (1_441.0 + 29.0 + 28.0) / 1_441.0 / (mbps as f64 * 125_000.0 * 30.0);
    let lost = lost as f64 / (got.iter().sum::<u64>() as f64 / 1_441.0);
    println!("{mbps} Mbit/s {rtt_ms} ms {ecn:?} {flows}: {used:.3} used, {lost:.4} lost, {waited:.2} ms");
    (used, lost, waited, got)
}

#[test]
fn nothing_is_lost_behind_queues_that_mark_and_they_stay_short() {
    for (mbps, rtt_ms) in [(20, 50), (100, 20), (20, 100)] {
        for flows in [1, 2, 4] {
            for (ecn, target_ms) in [(Ecn::Classic, 5.0), (Ecn::Scalable, 1.0)] {
                let (used, lost, waited, got) = behind(mbps, rtt_ms, ecn, flows);
                assert!(lost <= 0.001, "{lost} lost");
                assert!(used >= 0.95, "{used} used");
                assert!(waited <= target_ms + 5.2, "{waited} ms");
                let (least, most) = (got.iter().min().unwrap(), got.iter().max().unwrap());
                assert!(*least * 3 > *most, "{got:?}");
            }
        }
    }
}

/// The share that a loss-based flow loses behind the same queue if it drops: what marks save.
#[test]
fn the_same_queue_loses_packets_if_it_drops() {
    let (_, lost, ..) = behind(20, 50, Ecn::Off, 4);
    assert!(lost > 0.01, "{lost}");
}
