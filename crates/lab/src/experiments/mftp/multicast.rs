//! MFTP §3.5: one file to many, at small and large scale, compared with a connection to each.
use std::collections::BTreeSet;
use tributary::{Family, config::Role};
use tributary_content::{MemoryContent, MemoryObject, MemoryOpener, Name};
use tributary_core::{
    Duration, Random, Rate,
    event::{Event, TransferEvent},
    link::{LinkConfig, Loss},
};
use tributary_transport::{
    Endpoint, Messaging,
    messaging::{Destination, SendOptions, Spread},
};

use super::{
    network::{RIVALS, START, Unaccounted},
    nodes::Nodes,
};
use crate::{
    Results, Settings, Table,
    comparison::{Download, Together},
    figures::{Chart, Series, Style, lines},
    optimum::MFTP_PAYLOAD_SHARE,
    rivals::Rival,
    simulation::{Scenario, object, parallel},
    stats::mean,
};

/// Receivers behind one access router.
const BEHIND_ONE: usize = 8;
const CORE_MBPS: u64 = 100;
const LAST_MBPS: u64 = 25;
const GROUP: &str = "/lab/all";
const FILE: &str = "/lab/film";
/// How long a run may take.
const LIMIT: Duration = Duration::from_secs(600);
const SCALES: [(&str, &str, Spread); 2] =
    [("small", "MFTP, small scale", Spread::All), ("large", "MFTP, large scale", Spread::AllByProxies(3))];

#[derive(Clone, Copy)]
struct Item {
    seed: u64,
    receivers: usize,
    loss: f64,
    /// When an access router is killed, since the start; it starts again [`FORGETS_FOR`] later.
    forgets: Option<Duration>,
}

/// How long a router is down that forgets.
const FORGETS_FOR: Duration = Duration::from_millis(300);
/// The router that forgets: the one to which the first receivers are attached.
const FORGETFUL: &str = "a0";

/// Results of one run.
struct Row {
    /// Until the last receiver has all; `None` if one never had.
    seconds: Option<f64>,
    /// Bytes that left the source for each byte of the file.
    copies: f64,
    /// Messages of receivers and routers to the source during the transfer, and chunks that it sent again.
    messages_to_source: u64,
    sent_again: u64,
    unaccounted: u64,
}

fn core_link(delay_ms: u64) -> LinkConfig {
    let rate = Rate::from_mbps(CORE_MBPS);
    LinkConfig {
        queue_bytes: rate.bytes_in(Duration::from_millis(50)),
        ..LinkConfig::new(rate, Duration::from_millis(delay_ms))
    }
}
fn last_link(loss: f64) -> LinkConfig {
    let rate = Rate::from_mbps(LAST_MBPS);
    let link = LinkConfig {
        queue_bytes: rate.bytes_in(Duration::from_millis(100)),
        ..LinkConfig::new(rate, Duration::from_millis(1))
    };
    if loss > 0.0 { LinkConfig { loss: Loss::Bernoulli(loss), ..link } } else { link }
}

/// ```text
///   source ──100 Mbit/s── core ──100── a0 ──25── d0, …, d7
///                           └───100── a1 ──25── d8, …
/// ```
fn scenario(item: &Item) -> Scenario {
    let mut scenario = Scenario::new("multicast", item.seed);
    scenario.add_node("source", Family::Mf, &[Role::Sender]);
    scenario.add_node("core", Family::Mf, &[Role::Router, Role::Resolver]);
    scenario.add_link("source", "core", core_link(2));
    for receiver in 0..item.receivers {
        let access = format!("a{}", receiver / BEHIND_ONE);
        if receiver % BEHIND_ONE == 0 {
            scenario.add_node(&access, Family::Mf, &[Role::Router, Role::Resolver]);
            scenario.add_link("core", &access, core_link(5));
        }
        let label = format!("d{receiver}");
        scenario.add_node(&label, Family::Mf, &[Role::Receiver]);
        scenario.add_link(&access, &label, last_link(item.loss));
    }
    scenario
}

fn name(text: &str) -> Name {
    text.parse().expect("names of the lab are right")
}
fn messages_to_source(nodes: &Nodes) -> u64 {
    nodes.at("source").router().stats.arrived
}
fn source_bytes(nodes: &Nodes) -> u64 {
    nodes.at("source").status(nodes.net.now()).faces.iter().map(|face| face.sent.1.0).sum()
}

fn ours(item: &Item, spread: Spread, object: &MemoryObject) -> Row {
    let mut nodes = Nodes::new(&scenario(item));
    let mut inboxes: Vec<MemoryContent> = Vec::new();
    let mut waiting = BTreeSet::new();
    for receiver in 0..item.receivers {
        let (label, opener) = (format!("d{receiver}"), MemoryOpener::new());
        inboxes.push(opener.content());
        nodes.with(&label, |node, now| {
            Messaging::accept(node, now, Some(Box::new(opener)), &Default::default());
            node.attach(now, &name(GROUP));
        });
        waiting.insert(nodes.place(&label));
    }
    nodes.net.run_until(START);
    let (before, messages_before) = (source_bytes(&nodes), messages_to_source(&nodes));
    let options = SendOptions { spread, ..SendOptions::default() };
    let to = Destination::Name(name(GROUP));
    let object = object.clone();
    let bytes = object.bytes().clone();
    let sent = nodes.with("source", |node, now| Messaging::send(node, now, Box::new(object), &to, &options).is_ok());
    let mut last = None;
    if let Some(after) = item.forgets {
        nodes.run_until(START + after);
        nodes.kill(FORGETFUL);
        nodes.run_until(START + after + FORGETS_FOR);
        nodes.restart(FORGETFUL);
    }
    while sent && !waiting.is_empty() && nodes.net.now() < START + LIMIT {
        for (time, place, event) in nodes.run_to_event(START + LIMIT) {
            if let Event::Transfer(_, TransferEvent::Completed) = event
                && waiting.remove(&place)
            {
                last = Some(time.since(START).as_secs_f64());
            }
        }
    }
    let right = inboxes.iter().all(|inbox| inbox.finished(&name(FILE)).is_some_and(|got| got[..] == bytes[..]));
    let copies = (source_bytes(&nodes) - before) as f64 / bytes.len() as f64;
    let seconds = last.filter(|_| right && waiting.is_empty());
    let messages_to_source = messages_to_source(&nodes) - messages_before;
    let sent_again = nodes.at("source").sender().chunks.1;
    Row { seconds, copies, messages_to_source, sent_again, unaccounted: nodes.unaccounted_packets() }
}

/// One connection to each receiver, all at once.
fn rival(rival: Rival, item: &Item, bytes: u64) -> Row {
    let scenario = scenario(item);
    let receivers: Vec<String> = (0..item.receivers).map(|receiver| format!("d{receiver}")).collect();
    let download = |receiver| Download { source: "source", receiver, bytes, start: START };
    let downloads: Vec<Download<'_>> = receivers.iter().map(|receiver| download(receiver)).collect();
    let mut net = Together::new(rival, &scenario, &downloads);
    let seconds: Vec<Option<f64>> = (0..item.receivers).map(|receiver| net.seconds(receiver, START + LIMIT)).collect();
    Row {
        seconds: seconds.into_iter().try_fold(0.0, |last: f64, seconds| Some(last.max(seconds?))),
        copies: net.sent_bytes(0) as f64 / bytes as f64,
        messages_to_source: 0,
        sent_again: 0,
        unaccounted: net.unaccounted_packets(),
    }
}

pub(in crate::experiments) fn run(settings: &Settings, results: &mut Results) {
    let bytes: usize = settings.choose(10_000_000, 2_000_000);
    let counts: &[usize] = settings.choose(&[2, 4, 8, 16, 32, 64], &[2, 10]);
    let mut table = Table::new("times", &["variant", "receivers", "loss", "run", "seconds", "copies_from_source"]);
    let file = object(FILE, bytes, settings.seed);
    let mut unaccounted = Unaccounted::default();
    for loss in [0.0, 0.01] {
        let percent = (loss * 100.0) as u64;
        let mut lines_of: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
        for receivers in counts {
            let setting = format!("n{receivers}-loss{percent}");
            let items: Vec<Item> = (0..settings.runs)
                .map(|run| Item {
                    seed: settings.seed_of(*receivers as u64 * 10 + percent, run),
                    receivers: *receivers,
                    loss,
                    forgets: None,
                })
                .collect();
            let last = LAST_MBPS as f64 * (1.0 - loss);
            let seconds = |mbps: f64| bytes as f64 * 8e-6 / (mbps * MFTP_PAYLOAD_SHARE);
            let each = (CORE_MBPS as f64 / *receivers as f64).min(last);
            results.metric(format!("optimum.seconds_mean@{setting}"), seconds(last), "seconds");
            results.metric(format!("optimum-unicast.seconds_mean@{setting}"), seconds(each), "seconds");
            let mut all = Vec::new();
            for (variant, label, spread) in SCALES {
                let rows = parallel::map(&items, |item| ours(item, spread, &file));
                all.push((variant, label, rows));
            }
            for (of, label) in RIVALS {
                let rows = parallel::map(&items, |item| rival(of, item, bytes as u64));
                all.push((of.name(), label, rows));
            }
            for (number, (variant, label, rows)) in all.iter().enumerate() {
                unaccounted.add(variant, rows.iter().map(|row| row.unaccounted).sum());
                let done: Vec<f64> = rows.iter().filter_map(|row| row.seconds).collect();
                let copies: Vec<f64> = rows.iter().map(|row| row.copies).collect();
                results.metric(format!("{variant}.seconds_mean@{setting}"), mean(&done), "seconds");
                results.metric(format!("{variant}.copies_mean@{setting}"), mean(&copies), "times");
                results.metric(format!("{variant}.failed@{setting}"), (rows.len() - done.len()) as f64, "count");
                for (run, row) in (1..).zip(rows) {
                    let seconds = row.seconds.map(|seconds| format!("{seconds:.4}")).unwrap_or_default();
                    let head = [(*variant).to_string(), format!("{receivers}"), format!("{loss}"), format!("{run}")];
                    table.push(head.into_iter().chain([seconds, format!("{:.4}", row.copies)]).collect());
                }
                if lines_of.len() <= number {
                    lines_of.push(((*label).into(), Vec::new()));
                }
                lines_of[number].1.push((*receivers as f64, mean(&done)));
            }
        }
        let mut chart = Chart::new("Until the last receiver has the file", "receivers", "seconds");
        (chart.is_x_logarithmic, chart.x_ticks) = (true, counts.iter().map(|count| *count as f64).collect());
        let series: Vec<Series> =
            lines_of.into_iter().map(|(label, points)| Series::new(&label, points).styled(Style::Marked)).collect();
        results.captioned(
            format!("times-loss{percent}"),
            format!("{} MB; {percent} % loss on every last hop, both ways.", bytes / 1_000_000),
            lines(&chart, &series),
        );
    }
    forgetful(results, settings, &file, &mut unaccounted);
    unaccounted.tell(results);
    results.tables.push(table);
    results.parameter("object", format!("{bytes} bytes"));
    results.parameter("source – core – access routers", format!("{CORE_MBPS} Mbit/s, 2 and 5 ms one way"));
    results.parameter("last hops", format!("{LAST_MBPS} Mbit/s, 1 ms; {BEHIND_ONE} receivers per access router"));
}

/// An access router is killed while it forwards the file: who answers its receivers?
fn forgetful(results: &mut Results, settings: &Settings, file: &MemoryObject, unaccounted: &mut Unaccounted) {
    let columns = ["variant", "receivers", "run", "seconds", "said_to_source", "sent_again"];
    let mut table = Table::new("forgetful", &columns);
    for receivers in settings.choose(&[8, 32][..], &[4]) {
        let items: Vec<Item> = (0..settings.runs)
            .map(|run| {
                let seed = settings.seed_of(*receivers as u64 * 10 + 5, run);
                let total = file.bytes().len() as f64 * 8e-6 / LAST_MBPS as f64;
                let after = Duration::from_secs_f64(total * (0.2 + 0.6 * Random::new(seed, MOMENT_STREAM).unit()));
                Item { seed, receivers: *receivers, loss: 0.0, forgets: Some(after) }
            })
            .collect();
        let setting = format!("n{receivers}-forgetful");
        for (variant, _, spread) in SCALES {
            let rows = parallel::map(&items, |item| ours(item, spread, file));
            unaccounted.add(variant, rows.iter().map(|row| row.unaccounted).sum());
            let done: Vec<f64> = rows.iter().filter_map(|row| row.seconds).collect();
            let average = |value: fn(&Row) -> u64| mean(&rows.iter().map(|row| value(row) as f64).collect::<Vec<_>>());
            results.metric(format!("{variant}.seconds_mean@{setting}"), mean(&done), "seconds");
            results.metric(
                format!("{variant}.said_to_source_mean@{setting}"),
                average(|row| row.messages_to_source),
                "count",
            );
            results.metric(format!("{variant}.sent_again_mean@{setting}"), average(|row| row.sent_again), "count");
            results.metric(format!("{variant}.failed@{setting}"), (rows.len() - done.len()) as f64, "count");
            for (run, row) in (1..).zip(&rows) {
                let seconds = row.seconds.map(|seconds| format!("{seconds:.4}")).unwrap_or_default();
                let counts = [row.messages_to_source, row.sent_again].map(|count| format!("{count}"));
                let head = [variant.to_string(), format!("{receivers}"), format!("{run}"), seconds];
                table.push(head.into_iter().chain(counts).collect());
            }
        }
    }
    results.tables.push(table);
}
const MOMENT_STREAM: u64 = 0x57b1;
