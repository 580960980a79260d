//! A receiver that moves from access router to access router, and receivers on recorded satellite and cellular links.
use std::path::PathBuf;
use tributary::config::recordings::{
    mahimahi,
    series::{self, Columns},
};
use tributary::{Family, config::Role};
use tributary_content::MemoryObject;
use tributary_core::{
    Duration, Random, Rate, Time,
    link::{DeliveryTrace, LinkChange, LinkConfig, LinkState, Script},
};

use super::{
    network::{LABELS, RIVALS, START, Unaccounted, about, gigabit, last_hop, payload_share, unaccounted},
    outage::distribution,
};
use crate::{
    Results, Settings, Table,
    comparison::RivalDownload,
    figures::{Bar, BarGroup, Chart, bars, lines},
    optimum::{self, MFTP_PAYLOAD_SHARE},
    rivals::Rival,
    runs::run as run_scenario,
    simulation::{Scenario, parallel},
    stats::{confidence, mean, quantile},
    wide_area::{file, file_name},
};

/// Seconds between one access router and the next.
const GAPS: [u64; 3] = [0, 1, 5];
/// How long it stays at each, a tenth less or more.
const STAY: Duration = Duration::from_secs(4);
/// One-way delay from the core to each access router.
const DELAYS_MS: [u64; 3] = [5, 15, 30];
/// Two minutes of six rides; see `data/SOURCE.md`.
const STARLINK: &str = include_str!("../../../data/starlink.csv");

struct Item {
    seed: u64,
    stays: Vec<Stay>,
    object: MemoryObject,
}

/// A time at one access router, counted from [`START`].
#[derive(Clone, Copy)]
struct Stay {
    from: Duration,
    until: Duration,
    at: usize,
}

/// A journey as drawn, including the part before the request of the first stay.
fn stays(seed: u64, gap: Duration) -> Vec<Stay> {
    let mut random = Random::new(seed, STAY_STREAM);
    let (mut from, mut until) = (Duration::ZERO, STAY.mul_f64(0.5 + 0.5 * random.unit()));
    let mut stays = Vec::new();
    for at in (0..DELAYS_MS.len()).cycle() {
        stays.push(Stay { from, until, at });
        from = until + about(gap, &mut random);
        until = from + about(STAY, &mut random);
        if until > JOURNEY {
            break;
        }
    }
    stays
}
const STAY_STREAM: u64 = 0x57a9;
/// The end of the longest journey.
const JOURNEY: Duration = Duration::from_secs(240);

/// ```text
///              ┌──5 ms── a0 ──25── mobile      for 4 s, then away for the gap,
///   server ── core ──15── a1 ──25── mobile      then here, and so on
///              └──30──── a2 ──25── mobile
/// ```
fn scenario(item: &Item) -> Scenario {
    let mut scenario = Scenario::new("mobility", item.seed);
    scenario.add_node("server", Family::Mf, &[Role::Sender]);
    scenario.add_node("core", Family::Mf, &[Role::Router, Role::Resolver]);
    scenario.add_node("mobile", Family::Mf, &[Role::Receiver]);
    scenario.add_link("server", "core", gigabit(Duration::from_millis(5)));
    for (number, delay) in DELAYS_MS.iter().enumerate() {
        let access = format!("a{number}");
        scenario.add_node(&access, Family::Mf, &[Role::Router, Role::Resolver]);
        scenario.add_link("core", &access, gigabit(Duration::from_millis(*delay)));
        scenario.add_link(&access, "mobile", last_hop(0.0));
        if number > 0 {
            scenario.change_link(Time::ZERO, &format!("{access}-mobile"), LinkChange::State(LinkState::Down));
        }
    }
    for Stay { from, until, at } in &item.stays {
        let link = format!("a{at}-mobile");
        if !from.is_zero() {
            scenario.change_link(START + *from, &link, LinkChange::State(LinkState::Up));
        }
        scenario.change_link(START + *until, &link, LinkChange::State(LinkState::Down));
    }
    scenario.publish("server", Time::ZERO, item.object.clone());
    scenario.fetch("mobile", START, file_name());
    scenario.limit = START + JOURNEY;
    scenario
}

/// Seconds of a download manager that requests the rest of the file over a new connection the moment that it is
/// attached: better than any real one, which must notice first. And unaccounted packets.
fn rival(rival: Rival, item: &Item) -> (Option<f64>, u64) {
    let (mut left, mut lost) = (item.object.bytes().len() as u64, 0);
    for Stay { from, until, at } in &item.stays {
        let mut scenario = Scenario::new("stay", item.seed.wrapping_add(from.as_secs()));
        for label in ["server", "core", "access", "mobile"] {
            scenario.add_bare_node(label);
        }
        scenario.add_link("server", "core", gigabit(Duration::from_millis(5)));
        scenario.add_link("core", "access", gigabit(Duration::from_millis(DELAYS_MS[*at])));
        scenario.add_link("access", "mobile", last_hop(0.0));
        scenario.limit = Time::ZERO + (*until - *from);
        let mut comparison = RivalDownload::measured(rival, &scenario, "server", "mobile", left, Time::ZERO);
        let (seconds, progress) = comparison.seconds_and_progress(scenario.limit, Duration::from_millis(100));
        lost += comparison.unaccounted_packets();
        if let Some(seconds) = seconds {
            return (Some(from.as_secs_f64() + seconds), lost);
        }
        left -= progress.last().map_or(0, |(_, bytes)| *bytes);
    }
    (None, lost)
}

pub(in crate::experiments) fn run(settings: &Settings, results: &mut Results) {
    let bytes = settings.choose(40_000_000, 12_000_000);
    let mut table = Table::new("times", &["variant", "setting", "run", "seconds"]);
    let object = file(bytes);
    let mut groups = Vec::new();
    let mut lost_packets = Unaccounted::default();
    for gap in GAPS {
        let setting = format!("gap{gap}");
        let items: Vec<Item> = (0..settings.runs)
            .map(|run| {
                let seed = settings.seed_of(gap + 1, run);
                Item { seed, stays: stays(seed, Duration::from_secs(gap)), object: object.clone() }
            })
            .collect();
        let bounds = |share| -> Vec<f64> {
            let bound = |item| optimum::seconds_of(share, &scenario(item), &["server"], "mobile", bytes as u64, START);
            items.iter().map(|item| bound(item).unwrap_or(f64::INFINITY)).collect()
        };
        let optimum = bounds(MFTP_PAYLOAD_SHARE);
        results.metric(format!("optimum.seconds_mean@{setting}"), mean(&optimum), "seconds");
        let ours = parallel::map(&items, |item| {
            let outcome = run_scenario(&scenario(item));
            let transfer = &outcome.transfers[0];
            (transfer.seconds().filter(|_| transfer.is_complete()), unaccounted(&outcome))
        });
        let mut all = vec![("mftp", ours)];
        all.extend(RIVALS.map(|(of, _)| (of.name(), parallel::map(&items, |item| rival(of, item)))));
        let mut bars = Vec::new();
        for (variant, rows) in all {
            lost_packets.add(variant, rows.iter().map(|(_, lost)| lost).sum());
            let seconds: Vec<Option<f64>> = rows.into_iter().map(|(seconds, _)| seconds).collect();
            let done: Vec<f64> = seconds.iter().flatten().copied().collect();
            let own = bounds(payload_share(variant));
            let used = |(seconds, bound): (&Option<f64>, &f64)| Some(bound / (*seconds)?);
            let beyond: Vec<f64> =
                seconds.iter().zip(&optimum).filter_map(|(seconds, bound)| Some((*seconds)? - bound)).collect();
            let used: Vec<f64> = seconds.iter().zip(&own).filter_map(used).collect();
            results.metric(format!("{variant}.seconds_mean@{setting}"), mean(&done), "seconds");
            results.metric(format!("{variant}.beyond_seconds_mean@{setting}"), mean(&beyond), "seconds");
            results.metric(format!("{variant}.beyond_seconds_confidence@{setting}"), confidence(&beyond), "seconds");
            results.metric(format!("{variant}.utilisation@{setting}"), mean(&used), "share");
            results.metric(format!("{variant}.failed@{setting}"), (seconds.len() - done.len()) as f64, "count");
            for (run, seconds) in (1..).zip(&done) {
                table.push(vec![variant.into(), setting.clone(), format!("{run}"), format!("{seconds:.4}")]);
            }
            bars.push(Bar::of(&done));
        }
        bars.push(Bar::new(mean(&optimum)));
        groups.push(BarGroup { label: format!("{gap} s between"), bars });
    }
    let chart = Chart::new("A file on the move over three access routers", "time without connection", "seconds");
    results.captioned(
        "moves",
        format!(
            "{} MB; about four seconds at each access router. The rivals request the missing part over a new \
             connection at once.",
            bytes / 1_000_000
        ),
        bars(&chart, &LABELS.into_iter().chain(["optimum"]).collect::<Vec<_>>(), &groups),
    );
    for (named, links) in [
        (("satellite", "A file over Starlink on a motorway"), rides(settings)),
        (("synthetic", "A file over made-up cellular links"), synthetic(settings)),
        (("cellular", "A file over cellular links"), cellular(settings)),
    ] {
        over_recorded(results, &mut table, settings, named, links, &mut lost_packets);
    }
    lost_packets.tell(results);
    results.tables.push(table);
    describe(results, bytes);
}

// ---- recorded links

/// The recorded last hop of a receiver.
struct Recorded {
    label: String,
    down: LinkConfig,
    up: LinkConfig,
    /// The rates of `down` over time, for the optimum.
    rates: Script,
    bytes: usize,
}

/// Two minutes of rides with a satellite terminal.
fn rides(settings: &Settings) -> Vec<Recorded> {
    let ride = |number: usize| {
        let columns = Columns {
            time: "t_s".into(),
            rate: Some("down_mbps".into()),
            delay: None,
            only: Some(("ride".into(), number.to_string())),
        };
        let rates = series::parse("starlink.csv", STARLINK, &columns).expect("the recording is right");
        let mut down = LinkConfig::new(Rate::from_mbps(200), Duration::from_millis(20));
        down.queue_bytes = 2_500_000;
        let up = LinkConfig { rate: Some(Rate::from_mbps(15)), queue_bytes: 256 << 10, ..down.clone() };
        down.script = Some(rates.clone());
        Recorded { label: number.to_string(), down, up, rates, bytes: settings.choose(400_000_000, 20_000_000) }
    };
    (1..=settings.choose(6, 1)).map(ride).collect()
}

/// Cellular links with recordings of both directions, in the folder that `TRIBUTARY_DATA` names.
const CELLULAR: [&str; 6] = [
    "ATT-LTE-driving",
    "ATT-LTE-driving-2016",
    "TMobile-LTE-short",
    "Verizon-LTE-short",
    "TMobile-UMTS-driving",
    "Verizon-EVDO-driving",
];
/// The minimum duration of a file's transfer, in seconds of the recording.
const CELLULAR_SECONDS: u64 = 60;
/// Rates for the optimum are means over this time.
const BIN_MS: u64 = 100;

/// Each link starts at as many evenly spread offsets of its recording as there are runs.
fn cellular(settings: &Settings) -> Vec<Recorded> {
    let Some(folder) = std::env::var_os("TRIBUTARY_DATA").map(PathBuf::from) else { return Vec::new() };
    let direction = |file: &str| {
        let text = std::fs::read_to_string(folder.join("mahimahi-traces").join(file)).ok()?;
        mahimahi::parse(file, &text).ok()
    };
    let links = |label: &&str| {
        let (down, up) = (direction(&format!("{label}.120s.down"))?, direction(&format!("{label}.120s.up"))?);
        let runs = settings.runs.max(1);
        let begun = |run: u32| {
            let after = down.period() / runs * run;
            varying(format!("{label}@{}s", after.as_secs()), down.begun_at(after), up.begun_at(after))
        };
        Some((0..runs).map(begun).collect::<Vec<_>>())
    };
    if settings.scale == crate::Scale::Full {
        CELLULAR.iter().filter_map(links).flatten().collect()
    } else {
        Vec::new()
    }
}
/// Synthetic links of that kind: a rate that walks about 12 Mbit/s down and 4 up and drops to zero now and then for up
/// to four seconds.
fn synthetic(settings: &Settings) -> Vec<Recorded> {
    (0..settings.choose(settings.runs, 1)).map(|run| radio(settings.seed_of(9, run), 12_000)).collect()
}
/// A radio link whose rate varies around `kbps` over two minutes, and occasionally drops to zero for up to four
/// seconds.
fn radio(seed: u64, kbps: u64) -> Recorded {
    let mut random = Random::new(seed, 0);
    let mut pauses = Vec::new();
    let mut at = random.below(8_000);
    while at < 120_000 {
        let length = random.below(200).pow(2) / 10;
        pauses.push(at..at + length);
        at += length + 2_000 + random.below(12_000);
    }
    let mut direction = |kbps: u64| {
        let (mut level, mut bits, mut leave) = (100, 0, Vec::new());
        for ms in 0..120_000u64 {
            if ms % 50 == 0 {
                let steps = random.below(41) as i64 - 20 + (100 - level) / 20;
                level = (level + steps).clamp(10, 300);
            }
            if pauses.iter().any(|pause| pause.contains(&ms)) {
                continue;
            }
            bits += kbps * level as u64 / 100;
            while bits >= 12_000 {
                bits -= 12_000;
                leave.push(Duration::from_millis(ms));
            }
        }
        DeliveryTrace::new(leave, Duration::from_secs(120), DeliveryTrace::BYTES_EACH)
    };
    let (down, up) = (direction(kbps), direction(kbps / 3));
    varying(format!("{seed}"), down, up)
}
/// A last hop with the rates of a recording, and a file of the size that it can carry in [`CELLULAR_SECONDS`].
fn varying(label: String, down: DeliveryTrace, up: DeliveryTrace) -> Recorded {
    let leave: Vec<u64> = down.offsets().map(|offset| offset.as_millis() as u64).collect();
    let begin = START.since(Time::ZERO).as_millis() as u64;
    let until = begin + CELLULAR_SECONDS * 1_000;
    let bits = |from: u64, to: u64| leave.iter().filter(|at| (from..to).contains(at)).count() as u64 * 12_000;
    let bins = (0..down.period().as_millis() as u64 / BIN_MS).map(|bin| {
        let rate = Rate::from_bits_per_second(bits(bin * BIN_MS, (bin + 1) * BIN_MS) * 1_000 / BIN_MS);
        (Duration::from_millis(bin * BIN_MS), LinkChange::Rate(Some(rate)))
    });
    let (rates, bytes) = (Script::new(bins, None), bits(begin, until) as f64 / 8.0 * MFTP_PAYLOAD_SHARE);
    let [down, up] = [down, up].map(|trace| {
        let mut link = LinkConfig::new(trace.rate_mean(), Duration::from_millis(20));
        (link.delivery, link.queue_bytes, link.overhead_bytes) = (Some(trace), 512 << 10, 28);
        link
    });
    Recorded { label, down, up, rates, bytes: bytes as usize }
}

fn recorded_scenario(seed: u64, last_hop: &Recorded, object: &MemoryObject) -> Scenario {
    let mut scenario = Scenario::new("recorded", seed);
    scenario.add_node("server", Family::Mf, &[Role::Sender]);
    for label in ["core", "access"] {
        scenario.add_node(label, Family::Mf, &[Role::Router, Role::Resolver]);
    }
    scenario.add_node("car", Family::Mf, &[Role::Receiver]);
    scenario.add_link("server", "core", gigabit(Duration::from_millis(5)));
    scenario.add_link("core", "access", gigabit(Duration::from_millis(10)));
    scenario.add_link("access", "car", last_hop.down.clone()).backward = last_hop.up.clone();
    scenario.publish("server", Time::ZERO, object.clone());
    scenario.fetch("car", START, file_name());
    scenario.limit = START + Duration::from_secs(600);
    scenario
}

/// A file over each of the recorded links, called `setting` together.
fn over_recorded(
    results: &mut Results,
    table: &mut Table,
    settings: &Settings,
    (setting, title): (&str, &str),
    links: Vec<Recorded>,
    lost_packets: &mut Unaccounted,
) {
    let links: Vec<(u64, Recorded, MemoryObject)> = (1..)
        .zip(links)
        .map(|(number, link)| {
            let object = file(link.bytes);
            (number, link, object)
        })
        .collect();
    if links.is_empty() {
        return;
    }
    let build = |(number, link, object): &(u64, Recorded, MemoryObject)| {
        recorded_scenario(settings.seed.wrapping_add(*number), link, object)
    };
    let bounds = |share| -> Vec<f64> {
        let bound = |item: &(u64, Recorded, MemoryObject)| {
            let mut bound = build(item);
            let last_hop = bound.links.last_mut().expect("it has three");
            (last_hop.forward.delivery, last_hop.forward.script) = (None, Some(item.1.rates.clone()));
            optimum::seconds_of(share, &bound, &["server"], "car", item.1.bytes as u64, START).unwrap_or(f64::INFINITY)
        };
        links.iter().map(bound).collect()
    };
    let optimum = bounds(MFTP_PAYLOAD_SHARE);
    results.metric(format!("optimum.seconds_mean@{setting}"), mean(&optimum), "seconds");
    let ours = parallel::map(&links, |item| {
        let outcome = run_scenario(&build(item));
        let transfer = &outcome.transfers[0];
        (transfer.seconds().filter(|_| transfer.is_complete()), unaccounted(&outcome))
    });
    let mut all = vec![("mftp", LABELS[0], ours)];
    for (of, label) in RIVALS {
        let rows = parallel::map(&links, |item| {
            let scenario = build(item);
            let mut comparison = RivalDownload::measured(of, &scenario, "server", "car", item.1.bytes as u64, START);
            (comparison.seconds(scenario.limit), comparison.unaccounted_packets())
        });
        all.push((of.name(), label, rows));
    }
    let mut series = Vec::new();
    for (variant, label, rows) in all {
        lost_packets.add(variant, rows.iter().map(|(_, lost)| lost).sum());
        let seconds: Vec<Option<f64>> = rows.into_iter().map(|(seconds, _)| seconds).collect();
        let own = bounds(payload_share(variant));
        let used: Vec<f64> =
            seconds.iter().zip(&own).filter_map(|(seconds, bound)| Some((*seconds)? / bound)).collect();
        let done: Vec<f64> = seconds.iter().flatten().copied().collect();
        let ratios = seconds.iter().zip(&optimum).filter_map(|(seconds, bound)| Some((*seconds)? / bound));
        series.push(distribution(label, ratios.clone()));
        let ratios: Vec<f64> = ratios.collect();
        results.metric(format!("{variant}.seconds_mean@{setting}"), mean(&done), "seconds");
        results.metric(format!("{variant}.utilisation@{setting}"), 1.0 / mean(&used).max(1e-9), "share");
        results.metric(format!("{variant}.ratio_mean@{setting}"), mean(&ratios), "times");
        results.metric(format!("{variant}.ratio_confidence@{setting}"), confidence(&ratios), "times");
        results.metric(format!("{variant}.ratio_max@{setting}"), quantile(&ratios, 1.0), "times");
        results.metric(format!("{variant}.failed@{setting}"), (seconds.len() - done.len()) as f64, "count");
        for ((_, link, _), seconds) in links.iter().zip(&seconds) {
            let seconds = seconds.map(|seconds| format!("{seconds:.4}")).unwrap_or_default();
            table.push(vec![variant.into(), setting.into(), link.label.clone(), seconds]);
        }
    }
    let mut chart = Chart::new(title, "time ÷ optimum of the recording", "share of recordings");
    chart.y_to = 1.0;
    results.captioned(
        setting,
        format!("A file over each of {} recorded links, outages included.", links.len()),
        lines(&chart, &series),
    );
}

fn describe(results: &mut Results, bytes: usize) {
    results.parameter("moves: object", format!("{bytes} bytes"));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its share of the link's bytes until the last byte has arrived, and the share of retransmitted packets.
    fn used(link: &Recorded) -> f64 {
        let object = file(link.bytes);
        let outcome = run_scenario(&recorded_scenario(1, link, &object));
        let transfer = &outcome.transfers[0];
        assert!(transfer.is_complete());
        let seconds = transfer.seconds().expect("it is complete");
        let end = START + Duration::from_secs_f64(seconds);
        let trace = link.down.delivery.as_ref().expect("it has one");
        let carried = trace.offsets().filter(|at| (START..end).contains(&(Time::ZERO + *at))).count();
        println!("{}: {seconds:.1} s", link.label);
        link.bytes as f64 / optimum::PAYLOAD_SHARE / (carried * 1_500) as f64
    }

    #[test]
    fn a_radio_link_that_stands_still_now_and_then_is_used() {
        for kbps in [1_000, 8_000] {
            let shares: Vec<f64> = (1..=4).map(|seed| used(&radio(seed, kbps))).collect();
            println!("{kbps} kbit/s: {shares:.3?}");
            assert!(mean(&shares) > 0.985, "{kbps} kbit/s: {shares:?}");
        }
    }
}
