//! PTP §6 E, scenario 4: half of the first 2,000 packets lie in a cache on the way.
use tributary_core::Time;

use super::{
    figures::{self, Shown},
    links::{Link, Use},
    throughput::start_of,
    topology::Topology,
    variants::{self, Run, Runs, Variant},
    world::{self, Object, Plan, Record, SAMPLE, SEGMENT_BYTES, Start},
};
use crate::{Results, Settings, Table, stats::mean};

/// Start of the second consumer, in seconds.
const BEGINS: f64 = 20.0;
/// Packets that the first consumer fetches (§6 E).
const FIRST_PACKETS: u32 = 2_000;
/// Kbit/s of the link behind the cache and of the link in front of it.
const BEHIND_KBPS: u64 = 1_000;
const FRONT_KBPS: u64 = 2_000;
/// Who fetches first, and fills the cache.
const FIRST_CONSUMER: u8 = 5;
/// Samples over which a rate is averaged: half a second.
const SMOOTH: usize = 5;

/// What a run shows.
struct Measured {
    /// Mbit/s on the consumer's link while the cache has packets, from two seconds after the start.
    with_cache: f64,
    /// The same afterwards, from two seconds on.
    without_cache: f64,
    /// From the start until 95 % of the link in front of the cache are used.
    rise: Wait,
    /// From the last packet of the cache until requests are within a tenth of the rate of the link behind it.
    fall: Wait,
    /// Packets declared lost from the last packet of the cache on.
    lost: f64,
    /// Kbit/s on each link while the cache has packets, then the same afterwards.
    links: Vec<f64>,
    /// Of the run that figures show.
    record: Option<Record>,
}

/// How long something took.
struct Wait {
    /// Until it was so, or until the end of the run.
    seconds: f64,
    end: End,
}

/// What ended a [`Wait`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Reached,
    /// The end of the run; the further duration is unknown.
    Run,
}

pub(in crate::experiments) fn run(settings: &Settings, results: &mut Results) {
    let seconds = settings.choose(60.0, 45.0);
    let topology = Topology::new(&[(1, 2, 10_000, 10), (2, 3, 2_000, 10), (3, 4, 1_000, 10), (5, 3, 1_000, 10)]);
    let objects = [Object::new("A", ((FRONT_KBPS * 125) as f64 * (seconds - BEGINS)) as u64, &[4])];
    let all = variants::run(settings, Variant::all(settings), |Run { variant, seed, is_shown }| {
        let begin = Time::from_nanos((BEGINS * 1e9) as u64);
        let measured = measure(world::run(&Plan {
            topology: &variant.topology(&topology),
            scheme: &variant.scheme,
            objects: &objects,
            consumers: vec![
                Start { node: 1, object: 0, at: begin, plain: None },
                Start { node: FIRST_CONSUMER, object: 0, at: start_of(*seed), plain: Some(FIRST_PACKETS) },
            ],
            caches: vec![(3, 0.5)],
            legacy: &[],
            queue_packets: variant.queue_packets,
            until: Time::from_nanos((seconds * 1e9) as u64),
            seed: *seed,
        }));
        Measured { record: measured.record.filter(|_| *is_shown), ..measured }
    });
    let columns = [
        "scheme",
        "setting",
        "run",
        "with cache (Mbit/s)",
        "without (Mbit/s)",
        "rise (s)",
        "fall (s)",
        "lost after it (packets)",
    ];
    let mut table = Table::new("cache", &columns);
    all.iter().for_each(|runs| tell(results, &mut table, runs));
    results.tables.push(table);
    let main = variants::plain(&all);
    links(results, &topology, &main);
    let shown: Vec<Shown<'_>> = variants::shown(&main, |run| run.record.as_ref()).collect();
    for run in &shown {
        figures::windows("Cache", results, *run, &[(0, "")], Vec::new());
    }
    // The paper's Figs. 22 and 23.
    figures::rates_by_scheme("Cache", results, &shown, SMOOTH, BEGINS - 2.0);
    figures::sweep("Cache", results, "with_cache_mbps", "rate with a cache (Mbit/s)");
    describe(results, &topology);
}

fn measure(record: Record) -> Measured {
    let at = |seconds: f64| ((seconds / SAMPLE.as_secs_f64()).round() as usize).min(record.samples.len() - 1);
    let (begin, last) = (at(BEGINS), record.samples.len() - 1);
    let cached = |at: usize| record.samples[at].consumers[0].cached;
    let dry = (begin..=last).find(|at| cached(*at) == cached(last)).unwrap_or(last);
    let rise = (begin + SMOOTH..=last).find(|at| record.kbps(at - SMOOTH, *at)[0] >= 0.95 * FRONT_KBPS as f64);
    // What the link behind the cache carries, in requests.
    let bound = 1.1 * (BEHIND_KBPS * 125) as f64 / f64::from(SEGMENT_BYTES) * SMOOTH as f64 * SAMPLE.as_secs_f64();
    let requested = |at: usize| record.samples[at].consumers[0].requested;
    let is_calm = |at: usize| requested(at).saturating_sub(requested(at - SMOOTH)) as f64 <= bound;
    let fall = (dry..=last).find(|at| is_calm(*at));
    let wait = |found: Option<usize>, from: usize| Wait {
        seconds: (found.unwrap_or(last) - from) as f64 * SAMPLE.as_secs_f64(),
        end: found.map_or(End::Run, |_| End::Reached),
    };
    let two = at(2.0);
    let with_cache = record.kbps((begin + two).min(dry.saturating_sub(1)), dry);
    let without_cache = record.kbps((dry + two).min(last - 1), last);
    Measured {
        with_cache: with_cache[0] / 1e3,
        without_cache: without_cache[0] / 1e3,
        links: [with_cache, without_cache].concat(),
        rise: wait(rise, begin),
        fall: wait(fall, dry),
        lost: (record.samples[last].consumers[0].lost - record.samples[dry].consumers[0].lost) as f64,
        record: Some(record),
    }
}

fn tell(results: &mut Results, table: &mut Table, runs: &Runs<Measured>) {
    let name = runs.variant.scheme.name;
    let paper = |value: f64| name.starts_with("ptp").then_some(value);
    runs.tell(results, "with_cache_mbps", &runs.of(|run| run.with_cache), "mbps", paper(1.9));
    runs.tell(results, "without_cache_mbps", &runs.of(|run| run.without_cache), "mbps", paper(1.0));
    type Which = fn(&Measured) -> &Wait;
    let (rise, fall): (Which, Which) = (|run| &run.rise, |run| &run.fall);
    for (which, of) in [("rise", rise), ("fall", fall)] {
        runs.tell(results, &format!("{which}_seconds"), &runs.of(|run| of(run).seconds), "seconds", None);
        let reached = runs.of(|run| f64::from(u8::from(of(run).end == End::Reached)));
        results.metric(format!("{name}.{which}_reached{}", runs.variant.setting), mean(&reached), "share");
    }
    runs.tell(results, "lost_packets", &runs.of(|run| run.lost), "count", None);
    for (run, measured) in (1..).zip(&runs.values) {
        let reached = |wait: &Wait| Some(wait.seconds).filter(|_| wait.end == End::Reached);
        let (rise, fall) = (reached(&measured.rise), reached(&measured.fall));
        let cells = [Some(measured.with_cache), Some(measured.without_cache), rise, fall, Some(measured.lost)];
        let cells = cells.iter().map(|value| value.map(|value| format!("{value:.4}")).unwrap_or_default());
        let setting = runs.variant.setting.trim_start_matches('@').to_string();
        table.push([name.to_string(), setting, format!("{run}")].into_iter().chain(cells).collect());
    }
}

fn links(results: &mut Results, topology: &Topology, main: &[&Runs<Measured>]) {
    let hops = topology.hops();
    let phases = [("with cache", FRONT_KBPS), ("after it", BEHIND_KBPS)];
    let of_phase = |(when, most): (&str, u64)| {
        let link = |(link, from, to): &(usize, u8, u8)| {
            let rate = topology.links[*link].kbps;
            // Traffic on the first consumer's link is not counted here.
            let full = if *from == FIRST_CONSUMER { 0 } else { most.min(rate) };
            let link = Link::new(*from, *to, rate, full);
            Link { label: format!("{} {when}", link.label), ..link }
        };
        hops.iter().map(link).collect::<Vec<_>>()
    };
    let links = Use {
        title: "Cache",
        full: "possible rate",
        caption: "By its possible rate while the cache has packets (2 Mbit/s from there and from the producer \
            together), and afterwards (1 from the producer).",
        links: &phases.into_iter().flat_map(of_phase).collect::<Vec<_>>(),
    };
    links.tell(results, main, |run| &run.links);
}

fn describe(results: &mut Results, topology: &Topology) {
    for link in &topology.links {
        results.parameter(
            &format!("link {}-{}", link.near, link.far),
            format!("{} kbit/s, {} ms", link.kbps, link.delay_us / 1_000),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::ptp::world::{Sample, Seen};

    /// A second consumer at a steady rate, in kbit/s on the wire, that requests `asks` packets per sample.
    fn steady(kbps: u64, asks: u64) -> Record {
        let sample = |at: u64| Sample {
            at: at as f64 * SAMPLE.as_secs_f64(),
            wire: vec![at * kbps * 125 / 10; 4],
            consumers: vec![Seen { requested: at * asks, ..Seen::default() }],
            ..Sample::default()
        };
        Record { samples: (0..=450).map(sample).collect() }
    }

    #[test]
    fn what_is_never_reached_takes_until_the_run_ends_and_is_not_told_as_reached() {
        let slow = measure(steady(900, 100));
        assert!(slow.rise.end == End::Run && (slow.rise.seconds - 25.0).abs() < 1e-9, "{}", slow.rise.seconds);
        assert!(slow.fall.end == End::Run, "it goes on asking for 1,000 packets a second");
        let full = measure(steady(2_000, 10));
        assert!(full.rise.end == End::Reached && full.rise.seconds < 0.6, "{}", full.rise.seconds);
        assert!(full.fall.end == End::Reached && full.fall.seconds < 0.1, "{}", full.fall.seconds);

        let runs =
            Runs { variant: Variant::plain(&crate::experiments::ptp::schemes::MAIN[0]), values: vec![slow, full] };
        let mut results = Results::new("ptp-cache", &Settings::default());
        let mut table = Table::new("cache", &[]);
        tell(&mut results, &mut table, &runs);
        assert_eq!(results.value("ptp.rise_reached"), 0.5);
        assert!(results.metrics.values().all(|metric| metric.value >= 0.0), "{:?}", results.metrics);
        assert_eq!(table.rows[0][5], "", "nobody knows how long it would have taken");
    }
}
