//! The rivals over the three paths of targets 7 to 9: 20, 12 and 8 Mbit/s, round-trip time 40 ms, 50 MB from three
//! servers, three connections in parallel; TCP also with a receive window made to measure (the last two rows). Time ÷ fluid bound, median of some seeds with the extremes.
//!
//! `cargo run --release -p trib-lab --example rivals_paths [SEEDS]`
#![expect(clippy::print_stdout, reason = "an example prints its table")]
use tributary_core::{Duration, Rate, Time};
use tributary_lab::rivals::{DownloadConfig, DownloadOutcome, PathSpec, Rival, download};

const FILE_BYTES: u64 = 50_000_000;
const MBPS: [u64; 3] = [20, 12, 8];

/// A receive window of TCP that fills each of the paths and overflows no queue: the setting with which knowledge of the
/// paths could spare smoltcp its losses.
const TUNED_WINDOW_BYTES: usize = 112 << 10;

fn paths(loss: f64, silent: bool) -> Vec<PathSpec> {
    let mut paths: Vec<_> =
        MBPS.iter().map(|mbps| PathSpec::new(Rate::from_mbps(*mbps), Duration::from_millis(40))).collect();
    for path in &mut paths {
        path.loss = loss;
    }
    if silent {
        paths[0].silent = Some((Time::from_millis(2_200), Time::from_millis(6_600)));
    }
    paths
}

/// Seconds that the file takes if every path is full from the first moment on with packets of TCP that carry 1,448
/// bytes in 1,500: the bound of the design's targets.
fn fluid_seconds(loss: f64, silent: bool) -> f64 {
    let rate: f64 = MBPS.iter().sum::<u64>() as f64 * 1e6 * (1.0 - loss) * 1_448.0 / 1_500.0;
    let lost = if silent { 4.4 * MBPS[0] as f64 / MBPS.iter().sum::<u64>() as f64 } else { 0.0 };
    FILE_BYTES as f64 * 8.0 / rate + lost
}

fn main() {
    let seeds: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(5);
    for (name, loss, silent) in [("clean", 0.0, false), ("1 % loss", 0.01, false), ("silent", 0.0, true)] {
        let bound = fluid_seconds(loss, silent);
        println!("{name}: bound {bound:.2} s");
        let tuned = DownloadConfig { window_bytes: TUNED_WINDOW_BYTES, ..DownloadConfig::default() };
        let all = Rival::ALL.map(|rival| (rival, rival.name(), DownloadConfig::default()));
        let windowed = [Rival::TcpReno, Rival::TcpCubic].map(|rival| (rival, "  112 KiB", tuned.clone()));
        for (rival, label, config) in all.into_iter().chain(windowed) {
            let mut runs: Vec<DownloadOutcome> = (1..=seeds)
                .map(|seed| download(rival, FILE_BYTES, &paths(loss, silent), config.clone(), seed))
                .collect();
            assert!(runs.iter().all(|run| run.bytes == FILE_BYTES && run.wrong_bytes == 0), "a download is not whole");
            runs.sort_by(|a, b| a.seconds.partial_cmp(&b.seconds).expect("times are numbers"));
            let ratio = |run: &DownloadOutcome| run.seconds.unwrap_or(f64::INFINITY) / bound;
            let median = &runs[runs.len() / 2];
            let bytes: Vec<_> = median.sources.iter().map(|s| format!("{:.1}", s.bytes as f64 / 1e6)).collect();
            println!(
                "  {:13} {:.3} ({:.3}-{:.3})  {:6.2} s, MB by source {}, sent again {:.2} MB, connections {:?}",
                label,
                ratio(median),
                ratio(&runs[0]),
                ratio(&runs[runs.len() - 1]),
                median.seconds.unwrap_or(f64::INFINITY),
                bytes.join("/"),
                median.retransmitted_bytes as f64 / 1e6,
                median.sources.iter().map(|s| s.connections).collect::<Vec<_>>(),
            );
        }
    }
}
