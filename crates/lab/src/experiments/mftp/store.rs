//! MFTP §3.3: storage that is short, and a router that is killed while it stores.
use tributary::simulation::{Scenario, object, parallel};
use tributary_content::{MemoryContent, MemoryObject, MemoryOpener, ObjectId, ObjectReader};
use tributary_core::{ByteCount, Duration, Time};
use tributary_mf::{Config, sender::SendOptions};

use super::{
    network::{LAST_HOP, START, describe, figure_7, gigabit, tell_conservation},
    nodes::Nodes,
};
use crate::{
    Experiment, Results, Settings, Table,
    figures::{Bar, BarGroup, Chart, Figure, Series, Style, bars, lines},
    optimum::PAYLOAD_SHARE,
    stats::{confidence, mean, quantile},
};

/// The entry of the table.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "mftp-store",
    title: "Storage in the network: a greedy flow beside modest ones, and a router killed while it stores",
    paper: "claimed in MFTP §3.2.2 and §3.3, not evaluated there",
    runs: 3,
    run,
};

const RTT: Duration = Duration::from_millis(20);

fn run(settings: &Settings) -> Results {
    let mut results = Results::new(EXPERIMENT.name, settings);
    let unaccounted = pressure(&mut results, settings) + kills(&mut results, settings);
    tell_conservation(&mut results, "mftp", unaccounted);
    describe(&mut results);
    results.note(
        "Pressure: the receiver is away for ten seconds. A modest source has sent it 4 MB, a greedy one sends 60 MB. The \
         proxy holds 40 MB in all and so much for each flow as the setting says. Told is what of each is held when the \
         receiver comes back, and when each is complete.",
    );
    results.note(
        "Kill: the receiver is away while an object is stored at its access router. The router is killed, loses its memory \
         and what its disk had not committed, and starts again two seconds later. What it had acknowledged must not be sent \
         by the source again; what stood in its buffers and was not acknowledged may be.",
    );
    results
}

/// Sends an object to n4 without being asked.
fn push(nodes: &mut Nodes, from: &str, object: MemoryObject) -> ObjectId {
    let (to, id) = (nodes.at("n4").guid(), object.manifest().object_id());
    nodes.with(from, |node, now| {
        node.offer(Box::new(object));
        let options = SendOptions::new(&node.config().transfer);
        node.send(now, id, to, options);
    });
    id
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
    set(&mut config.mf);
    scenario.add_link("greedy", "n2", gigabit(Duration::from_millis(1)));
    scenario
}

fn hold(seed: u64, cap_mb: u64, objects: &[MemoryObject; 2]) -> Held {
    let set = |config: &mut Config| {
        config.proxy.capacity = ByteCount(40_000_000);
        config.proxy.flow_capacity = ByteCount(cap_mb * 1_000_000);
    };
    let mut nodes = Nodes::new(&with_source(seed, &set));
    nodes.net.run_until(START - Duration::from_secs(1));
    let content = accept(&mut nodes);
    let back = START + Duration::from_secs(10);
    outage(&mut nodes, START - Duration::from_millis(500), back);
    nodes.net.run_until(START + Duration::from_secs(1));
    push(&mut nodes, "n1", objects[0].clone());
    nodes.net.run_until(START + Duration::from_secs(3));
    push(&mut nodes, "greedy", objects[1].clone());
    nodes.net.run_until(back - Duration::from_millis(1));
    let held = nodes.at("n3").holdings();
    let of = |nodes: &Nodes, label: &str| {
        let guid = nodes.at(label).guid();
        held.iter().filter(|held| held.key.flow.source == guid).map(|held| held.bytes.0).sum::<u64>() as f64
    };
    let (modest, greedy) = (of(&nodes, "n1"), of(&nodes, "greedy"));
    let done = wait(&mut nodes, &content, &["/lab/modest", "/lab/greedy"], back, back + Duration::from_secs(120));
    Held { modest, greedy, modest_seconds: done[0], greedy_seconds: done[1], unaccounted: nodes.unaccounted_packets() }
}

fn pressure(results: &mut Results, settings: &Settings) -> u64 {
    let greedy = settings.choose(GREEDY_BYTES, 20_000_000);
    let objects = [object("/lab/modest", MODEST_BYTES, 1), object("/lab/greedy", greedy, 2)];
    let mut table = Table::new("pressure", &["flow_cap_mb", "run", "modest_mb", "greedy_mb", "modest_s", "greedy_s"]);
    let mut groups = Vec::new();
    let mut unaccounted = 0;
    for cap in CAPS_MB {
        let seeds: Vec<u64> = (0..settings.runs).map(|run| settings.seed_of(cap, run)).collect();
        let rows = parallel::map(&seeds, |seed| hold(*seed, cap, &objects));
        let of = |value: &dyn Fn(&Held) -> f64| rows.iter().map(value).collect::<Vec<_>>();
        let modest = of(&|row| row.modest / MODEST_BYTES as f64);
        let (late, later) =
            (of(&|row| row.modest_seconds.unwrap_or(-1.0)), of(&|row| row.greedy_seconds.unwrap_or(-1.0)));
        let setting = format!("cap{cap}mb");
        let mut put = |name: &str, value: f64, unit: &str| results.metric(format!("{name}@{setting}"), value, unit);
        put("modest.held_share", mean(&modest), "share");
        put("modest.held_share_min", quantile(&modest, 0.0), "share");
        put("greedy.held_mb", mean(&of(&|row| row.greedy / 1e6)), "megabytes");
        put("modest.seconds_after_return", mean(&late), "seconds");
        put("greedy.seconds_after_return", mean(&later), "seconds");
        unaccounted += rows.iter().map(|row| row.unaccounted).sum::<u64>();
        for (run, row) in (1..).zip(&rows) {
            let seconds = [row.modest_seconds, row.greedy_seconds];
            let seconds = seconds.map(|value| value.map(|value| format!("{value:.4}")).unwrap_or_default());
            let held = [row.modest, row.greedy].map(|bytes| format!("{:.4}", bytes / 1e6));
            table.push([format!("{cap}"), format!("{run}")].into_iter().chain(held).chain(seconds).collect());
        }
        let bars =
            vec![Bar::with_spread(mean(&late), confidence(&late)), Bar::with_spread(mean(&later), confidence(&later))];
        groups.push(BarGroup { label: format!("{cap} MB a flow"), bars });
    }
    let total = (MODEST_BYTES + greedy) as f64;
    results.metric("optimum.seconds_after_return@all", total * 8e-6 / (25.0 * PAYLOAD_SHARE), "seconds");
    results.tables.push(table);
    let chart = Chart::new("When the two are complete after the receiver's return", "limit for each flow", "seconds");
    results.figures.push(Figure {
        name: "pressure".into(),
        caption: "4 MB of a modest source and 60 MB of a greedy one wait in 40 MB of storage.".into(),
        svg: bars(&chart, &["modest", "greedy"], &groups),
    });
    unaccounted
}

// ---- a router that is killed

struct Killed {
    held: usize,
    restored: u64,
    again: u64,
    lost: Option<f64>,
    unaccounted: u64,
}

/// `bytes` are stored at n3 when it is killed.
fn kill(seed: u64, bytes: usize, object: &MemoryObject) -> Killed {
    // As much as there is may be under way without a word from the receiver, which is away.
    let set = |config: &mut Config| config.transfer.window_chunks = 128;
    let mut nodes = Nodes::new(&figure_7(seed, RTT, 0.0, &set));
    nodes.net.run_until(START - Duration::from_secs(1));
    let content = accept(&mut nodes);
    let away = START + Duration::from_secs(30);
    outage(&mut nodes, START - Duration::from_millis(500), away);
    nodes.net.run_until(START);
    push(&mut nodes, "n1", object.clone());
    nodes.net.run_until(START + Duration::from_secs(15));
    let held = nodes.at("n3").holdings().len();
    let before = nodes.at("n1").sender().chunks.1;
    nodes.kill("n3");
    nodes.net.run_until(START + Duration::from_secs(17));
    nodes.restart("n3");
    let restored = nodes.at("n3").proxy().map_or(0, |proxy| proxy.stats.restored);
    nodes.net.run_until(away);
    let done = wait(&mut nodes, &content, &["/lab/stored"], away, away + Duration::from_secs(120));
    let ideal = bytes as f64 * 8e-6 / (25.0 * PAYLOAD_SHARE);
    Killed {
        held,
        restored,
        again: nodes.at("n1").sender().chunks.1 - before,
        lost: done[0].map(|seconds| seconds - ideal),
        unaccounted: nodes.unaccounted_packets(),
    }
}

fn kills(results: &mut Results, settings: &Settings) -> u64 {
    let sizes: &[usize] = settings.choose(&[5, 20, 50, 100], &[5]);
    let mut table =
        Table::new("kills", &["stored_mb", "run", "chunks_held", "restored", "sent_again", "seconds_beyond_ideal"]);
    let mut points = Vec::new();
    let mut unaccounted = 0;
    for megabytes in sizes {
        let bytes = megabytes * 1_000_000;
        let stored = object("/lab/stored", bytes, 3);
        let seeds: Vec<u64> = (0..settings.runs).map(|run| settings.seed_of(1_000 + *megabytes as u64, run)).collect();
        let rows = parallel::map(&seeds, |seed| kill(*seed, bytes, &stored));
        let sum = |value: fn(&Killed) -> u64| rows.iter().map(value).sum::<u64>() as f64;
        let lost: Vec<f64> = rows.iter().filter_map(|row| row.lost).collect();
        let setting = format!("{megabytes}mb");
        let mut put = |name: &str, value: f64, unit: &str| results.metric(format!("{name}@{setting}"), value, unit);
        put("kill.chunks_held", sum(|row| row.held as u64) / rows.len() as f64, "count");
        put("kill.chunks_lost", sum(|row| (row.held as u64).saturating_sub(row.restored)), "count");
        put("kill.chunks_sent_again", sum(|row| row.again) / rows.len() as f64, "count");
        put("kill.lost_seconds_mean", mean(&lost), "seconds");
        put("kill.failed", (rows.len() - lost.len()) as f64, "count");
        unaccounted += rows.iter().map(|row| row.unaccounted).sum::<u64>();
        points.push((*megabytes as f64, mean(&lost)));
        for (run, row) in (1..).zip(&rows) {
            let lost = row.lost.map(|lost| format!("{lost:.4}")).unwrap_or_default();
            let counts = [row.held as u64, row.restored, row.again].map(|count| format!("{count}"));
            table.push([setting.clone(), format!("{run}")].into_iter().chain(counts).chain([lost]).collect());
        }
    }
    results.tables.push(table);
    let chart = Chart::new("After the kill of a router that stores", "stored (MB)", "seconds beyond the ideal");
    results.figures.push(Figure {
        name: "kills".into(),
        caption: "Time beyond bytes ÷ capacity from the receiver's return to the last verified byte.".into(),
        svg: lines(&chart, &[Series::new("MFTP", points).styled(Style::Marked)]),
    });
    unaccounted
}
