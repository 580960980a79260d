//! MFTP §3.3: storage that is short, and a router that is killed while it stores.
use std::collections::BTreeSet;
use tributary_content::{MemoryContent, MemoryObject, MemoryOpener, ObjectReader};
use tributary_core::{ByteCount, Duration, Random, Rate, Time};
use tributary_mf::{Config, Holding, SendOptions};

use super::{
    disk::Speed,
    network::{LAST_HOP, LAST_HOP_KBPS, RIVALS, START, Unaccounted, about, describe, figure_7, gigabit},
    nodes::Nodes,
};
use crate::{
    Results, Settings, Table,
    comparison::{Download, RivalDownload, Together},
    figures::{Bar, BarGroup, Chart, Series, Style, bars, lines},
    optimum::MFTP_PAYLOAD_SHARE,
    rivals::Rival,
    simulation::{Scenario, object, parallel},
    stats::{confidence, mean, quantile},
};

const RTT: Duration = Duration::from_millis(20);

pub(in crate::experiments) fn run(settings: &Settings, results: &mut Results) {
    let mut unaccounted = Unaccounted::default();
    pressure(results, settings, &mut unaccounted);
    kills(results, settings, &mut unaccounted);
    unaccounted.tell(results);
    describe(results);
}

/// Sends an object to n4 unprompted; returns the transfer's number.
fn push(nodes: &mut Nodes, from: &str, object: MemoryObject) -> u32 {
    let (to, id) = (nodes.at("n4").guid(), object.manifest().publication_id());
    nodes.with(from, |node, now| {
        node.offer(Box::new(object));
        let options = SendOptions::new(&node.config().transfer);
        node.send(now, id, to, options).expect("it was offered")
    })
}
fn accept(nodes: &mut Nodes) -> MemoryContent {
    let opener = MemoryOpener::new();
    let content = opener.content();
    nodes.with("n4", |node, _| node.accept(Box::new(opener)));
    content
}
fn outage(nodes: &mut Nodes, down: Time, up: Time) {
    let connection = nodes.link(LAST_HOP);
    nodes.net.outage(connection, down, up);
}
/// Runs until the objects are complete at n4; seconds from `since`, in their order.
fn wait(nodes: &mut Nodes, content: &MemoryContent, names: &[&str], since: Time, limit: Time) -> Vec<Option<f64>> {
    let names: Vec<tributary_content::Name> =
        names.iter().map(|name| name.parse().expect("names of the lab are right")).collect();
    let mut done = vec![None; names.len()];
    while done.iter().any(Option::is_none) && nodes.net.now() < limit {
        nodes.run_to_event(limit);
        for (name, done) in names.iter().zip(&mut done) {
            if done.is_none() && content.finished(name).is_some() {
                *done = Some(nodes.net.now().since(since).as_secs_f64());
            }
        }
    }
    done
}

// ---- a greedy flow

const MODEST_BYTES: usize = 4_000_000;
const GREEDY_BYTES: usize = 60_000_000;
/// Bytes of each flow that a proxy holds, in MB: all of its storage, and a quarter.
const CAPS_MB: [u64; 2] = [40, 10];

/// The write rate of each router's disk, and the additional time of a commit: a small flash card.
const DISK: Speed = Speed { rate: Rate::from_mbps(160), each: Duration::from_millis(5) };

/// The schedule of messages, and of the receiver's return.
struct Pressure {
    seed: u64,
    pushed: [Time; 2],
    back: Time,
}

impl Pressure {
    fn new(seed: u64) -> Pressure {
        let mut random = Random::new(seed, MOMENT_STREAM);
        let later = |seconds: u64, random: &mut Random| START + Duration::from_secs_f64(seconds as f64 + random.unit());
        let pushed = [later(1, &mut random), later(3, &mut random)];
        Pressure { seed, pushed, back: START + about(Duration::from_secs(11), &mut random) }
    }
}
const MOMENT_STREAM: u64 = 0x57b0;

struct Held {
    modest: f64,
    greedy: f64,
    modest_seconds: Option<f64>,
    greedy_seconds: Option<f64>,
    unaccounted: u64,
}

fn with_source(seed: u64, set: &dyn Fn(&mut Config)) -> Scenario {
    let mut scenario = figure_7(seed, RTT, 0.0, set);
    let config = scenario.add_node("greedy", tributary::Family::Mf, &[tributary::config::Role::Sender]);
    set(config.mf_mut());
    scenario.add_link("greedy", "n2", gigabit(Duration::from_millis(1)));
    scenario
}

fn hold(plan: &Pressure, cap_mb: u64, objects: &[MemoryObject; 2]) -> Held {
    let set = |config: &mut Config| {
        config.proxy.capacity = ByteCount(40_000_000);
        config.proxy.flow_capacity = ByteCount(cap_mb * 1_000_000);
    };
    let mut nodes = Nodes::new(&with_source(plan.seed, &set));
    nodes.run_until(START - Duration::from_secs(1));
    let content = accept(&mut nodes);
    outage(&mut nodes, START - Duration::from_millis(500), plan.back);
    for ((at, from), object) in plan.pushed.iter().zip(["n1", "greedy"]).zip(objects) {
        nodes.run_until(*at);
        push(&mut nodes, from, object.clone());
    }
    nodes.run_until(plan.back - Duration::from_millis(1));
    let held = nodes.at("n3").holdings();
    let of = |nodes: &Nodes, label: &str| {
        let guid = nodes.at(label).guid();
        held.iter().filter(|held| held.key.flow.source == guid).map(|held| held.bytes).sum::<u64>() as f64
    };
    let (modest, greedy) = (of(&nodes, "n1"), of(&nodes, "greedy"));
    let limit = plan.back + PATIENCE;
    let done = wait(&mut nodes, &content, &["/lab/modest", "/lab/greedy"], plan.back, limit);
    Held { modest, greedy, modest_seconds: done[0], greedy_seconds: done[1], unaccounted: nodes.unaccounted_packets() }
}
/// How long delivery may take after the receiver's return.
const PATIENCE: Duration = Duration::from_secs(300);

/// The end-to-end counterpart: nothing is stored, and the receiver asks both sources when it is back.
fn requested_for(rival: Rival, plan: &Pressure, objects: &[MemoryObject; 2]) -> Held {
    let mut scenario = with_source(plan.seed, &|_| {});
    for device in ["modest-client", "greedy-client"] {
        scenario.add_bare_node(device);
        scenario.add_link("n4", device, gigabit(Duration::ZERO));
    }
    let [modest, greedy] = [0, 1].map(|number| objects[number].bytes().len() as u64);
    let downloads = [("n1", "modest-client", modest), ("greedy", "greedy-client", greedy)];
    let downloads = downloads.map(|(source, receiver, bytes)| Download { source, receiver, bytes, start: plan.back });
    let mut net = Together::new(rival, &scenario, &downloads);
    let [modest_seconds, greedy_seconds] = [0, 1].map(|number| net.seconds(number, plan.back + PATIENCE));
    Held { modest: 0.0, greedy: 0.0, modest_seconds, greedy_seconds, unaccounted: net.unaccounted_packets() }
}

fn pressure(results: &mut Results, settings: &Settings, unaccounted: &mut Unaccounted) {
    let greedy = settings.choose(GREEDY_BYTES, 20_000_000);
    let objects = [object("/lab/modest", MODEST_BYTES, 1), object("/lab/greedy", greedy, 2)];
    let mut table = Table::new("pressure", &["setting", "run", "modest_mb", "greedy_mb", "modest_s", "greedy_s"]);
    let mut groups = Vec::new();
    let plans: Vec<Pressure> = (0..settings.runs).map(|run| Pressure::new(settings.seed_of(1, run))).collect();
    let mut all = Vec::new();
    for cap in CAPS_MB {
        let rows = parallel::map(&plans, |plan| hold(plan, cap, &objects));
        all.push((format!("cap{cap}mb"), format!("{cap} MB a flow"), rows));
    }
    for (rival, label) in RIVALS {
        let rows = parallel::map(&plans, |plan| requested_for(rival, plan, &objects));
        all.push((rival.name().to_string(), label.to_string(), rows));
    }
    for (setting, label, rows) in all {
        let of = |value: &dyn Fn(&Held) -> f64| rows.iter().map(value).collect::<Vec<_>>();
        let modest = of(&|row| row.modest / MODEST_BYTES as f64);
        let done = |value: fn(&Held) -> Option<f64>| rows.iter().filter_map(value).collect::<Vec<_>>();
        let (late, later) = (done(|row| row.modest_seconds), done(|row| row.greedy_seconds));
        let mut put = |name: &str, value: f64, unit: &str| results.metric(format!("{name}@{setting}"), value, unit);
        put("modest.held_share", mean(&modest), "share");
        put("modest.held_share_min", quantile(&modest, 0.0), "share");
        put("greedy.held_mb", mean(&of(&|row| row.greedy / 1e6)), "megabytes");
        put("modest.seconds_after_return", mean(&late), "seconds");
        put("modest.seconds_confidence", confidence(&late), "seconds");
        put("greedy.seconds_after_return", mean(&later), "seconds");
        put("greedy.seconds_confidence", confidence(&later), "seconds");
        put("pressure.failed", (2 * rows.len() - late.len() - later.len()) as f64, "count");
        unaccounted.add(&setting, rows.iter().map(|row| row.unaccounted).sum());
        for (run, row) in (1..).zip(&rows) {
            let seconds = [row.modest_seconds, row.greedy_seconds];
            let seconds = seconds.map(|value| value.map(|value| format!("{value:.4}")).unwrap_or_default());
            let held = [row.modest, row.greedy].map(|bytes| format!("{:.4}", bytes / 1e6));
            table.push([setting.clone(), format!("{run}")].into_iter().chain(held).chain(seconds).collect());
        }
        let bars = vec![Bar::of(&late), Bar::of(&later)];
        groups.push(BarGroup { label, bars });
    }
    results.metric("optimum.seconds_after_return@all", least_seconds(MODEST_BYTES + greedy), "seconds");
    results.metric("optimum.seconds_after_return@modest", least_seconds(MODEST_BYTES), "seconds");
    results.tables.push(table);
    let chart =
        Chart::new("When the two are complete after the receiver's return", "limit for each flow, or rival", "seconds");
    results.figure("pressure", bars(&chart, &["modest", "greedy"], &groups));
}
/// The minimum time for `bytes` over the last hop.
fn least_seconds(bytes: usize) -> f64 {
    bytes as f64 * 8e-3 / (LAST_HOP_KBPS as f64 * MFTP_PAYLOAD_SHARE)
}

// ---- a router that is killed while it stores

struct Killed {
    /// Chunks in the store when it was killed, and those that its disk had.
    held: usize,
    durable: usize,
    /// Chunks that are stored according to the source.
    confirmed: usize,
    /// How many of these are missing after the kill.
    lost: usize,
    restored: usize,
    /// Chunks that the source sent again afterwards.
    again: u64,
    /// How many acknowledged ones were missing just before the receiver's return.
    gone_later: usize,
    seconds: Option<f64>,
    unaccounted: u64,
}

/// An object is being stored at n3 when it is killed.
fn kill(seed: u64, object: &MemoryObject) -> Killed {
    // Everything may be in flight without an answer of the receiver, which is away.
    let set = |config: &mut Config| config.transfer.window_chunks = 128;
    let mut random = Random::new(seed, MOMENT_STREAM);
    let share = 0.1 + 0.8 * random.unit();
    let mut nodes = Nodes::with_disks(&figure_7(seed, RTT, 0.0, &set), Some(DISK));
    nodes.run_until(START - Duration::from_secs(1));
    let content = accept(&mut nodes);
    let away = START + Duration::from_secs(30);
    outage(&mut nodes, START - Duration::from_millis(500), away);
    nodes.run_until(START + Duration::from_secs_f64(random.unit()));
    let transfer = push(&mut nodes, "n1", object.clone());
    let numbers = |nodes: &Nodes, is_counted: fn(&Holding) -> bool| -> BTreeSet<u32> {
        nodes.at("n3").holdings().iter().filter(|held| is_counted(held)).map(|held| held.key.number).collect()
    };
    let chunks = nodes.at("n1").sender().report(transfer).map_or(0, |report| report.chunks);
    let enough = (f64::from(chunks) * share).max(1.0) as usize;
    while numbers(&nodes, |held| held.durable).len() < enough && nodes.net.now() < START + Duration::from_secs(15) {
        let next = nodes.net.now() + Duration::from_micros(200 + random.below(800));
        nodes.run_until(next);
    }
    let held = numbers(&nodes, |_| true);
    let durable = numbers(&nodes, |held| held.durable);
    let confirmed = nodes.at("n1").sender().promised(transfer);
    let before = nodes.at("n1").sender().chunks.1;
    nodes.kill("n3");
    let revived = nodes.net.now() + Duration::from_secs(2);
    nodes.run_until(revived);
    nodes.restart("n3");
    let restored = numbers(&nodes, |_| true);
    let acknowledged: BTreeSet<u32> = durable.union(&confirmed).copied().collect();
    nodes.run_until(away - Duration::from_millis(1));
    let kept = numbers(&nodes, |_| true);
    let done = wait(&mut nodes, &content, &["/lab/stored"], away, away + PATIENCE);
    Killed {
        held: held.len(),
        durable: durable.len(),
        confirmed: confirmed.len(),
        lost: acknowledged.difference(&restored).count(),
        restored: restored.len(),
        again: nodes.at("n1").sender().chunks.1 - before,
        gone_later: acknowledged.difference(&kept).count(),
        seconds: done[0],
        unaccounted: nodes.unaccounted_packets(),
    }
}

/// The end-to-end counterpart: it starts when the receiver is back. Routers store nothing, so an earlier kill has no
/// effect.
fn begun_later(rival: Rival, seed: u64, bytes: usize) -> (Option<f64>, u64) {
    let scenario = figure_7(seed, RTT, 0.0, &|_| {});
    let mut comparison = RivalDownload::measured(rival, &scenario, "n1", "n4", bytes as u64, START);
    (comparison.seconds(scenario.limit), comparison.unaccounted_packets())
}

fn kills(results: &mut Results, settings: &Settings, unaccounted: &mut Unaccounted) {
    let sizes: &[usize] = settings.choose(&[5, 20, 50, 100], &[5]);
    let columns = [
        "stored_mb",
        "run",
        "chunks_held",
        "durable",
        "told",
        "restored",
        "lost",
        "sent_again",
        "seconds_beyond_optimum",
    ];
    let mut table = Table::new("kills", &columns);
    let mut series: Vec<(&str, Vec<(f64, f64)>)> = vec![("MFTP, killed while storing", Vec::new())];
    series.extend(RIVALS.map(|(_, label)| (label, Vec::new())));
    for megabytes in sizes {
        let bytes = megabytes * 1_000_000;
        let stored = object("/lab/stored", bytes, 3);
        let seeds: Vec<u64> = (0..settings.runs).map(|run| settings.seed_of(1_000 + *megabytes as u64, run)).collect();
        let rows = parallel::map(&seeds, |seed| kill(*seed, &stored));
        let ideal = least_seconds(bytes);
        let average = |value: fn(&Killed) -> f64| mean(&rows.iter().map(value).collect::<Vec<_>>());
        let beyond: Vec<f64> = rows.iter().filter_map(|row| Some(row.seconds? - ideal)).collect();
        let setting = format!("{megabytes}mb");
        let mut put = |name: &str, value: f64, unit: &str| results.metric(format!("{name}@{setting}"), value, unit);
        put("kill.chunks_held", average(|row| row.held as f64), "count");
        put("kill.chunks_durable", average(|row| row.durable as f64), "count");
        put("kill.chunks_told", average(|row| row.confirmed as f64), "count");
        put("kill.chunks_lost", rows.iter().map(|row| row.lost).sum::<usize>() as f64, "count");
        put("kill.chunks_gone_later", rows.iter().map(|row| row.gone_later).sum::<usize>() as f64, "count");
        put("kill.chunks_sent_again", average(|row| row.again as f64), "count");
        put("kill.beyond_seconds_mean", mean(&beyond), "seconds");
        put("kill.beyond_seconds_confidence", confidence(&beyond), "seconds");
        put("kill.failed", (rows.len() - beyond.len()) as f64, "count");
        put("optimum.seconds_after_return", ideal, "seconds");
        unaccounted.add("mftp", rows.iter().map(|row| row.unaccounted).sum());
        series[0].1.push((*megabytes as f64, mean(&beyond)));
        for (number, (rival, _)) in (1..).zip(RIVALS) {
            let rows = parallel::map(&seeds, |seed| begun_later(rival, *seed, bytes));
            unaccounted.add(rival.name(), rows.iter().map(|(_, lost)| lost).sum());
            let beyond: Vec<f64> = rows.iter().filter_map(|(seconds, _)| Some((*seconds)? - ideal)).collect();
            let name = rival.name();
            results.metric(format!("{name}.beyond_seconds_mean@{setting}"), mean(&beyond), "seconds");
            series[number].1.push((*megabytes as f64, mean(&beyond)));
        }
        for (run, row) in (1..).zip(&rows) {
            let beyond = row.seconds.map(|seconds| format!("{:.4}", seconds - ideal)).unwrap_or_default();
            let counts = [row.held, row.durable, row.confirmed, row.restored, row.lost].map(|count| format!("{count}"));
            let cells = counts.into_iter().chain([format!("{}", row.again), beyond]);
            table.push([setting.clone(), format!("{run}")].into_iter().chain(cells).collect());
        }
    }
    results.tables.push(table);
    let chart = Chart::new("After the kill of a router that stores", "object (MB)", "seconds beyond the optimum");
    results.figure(
        "kills",
        lines(
            &chart,
            &series
                .into_iter()
                .map(|(label, points)| Series::new(label, points).styled(Style::Marked))
                .collect::<Vec<_>>(),
        ),
    );
}
