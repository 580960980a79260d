//! MFTP §3.5: one file to many, at small and large scale, beside a connection to each.
use std::collections::BTreeSet;
use tributary::{
    Family,
    config::Role,
    simulation::{Scenario, object, parallel},
};
use tributary_content::{MemoryContent, MemoryObject, MemoryOpener, Name};
use tributary_core::{
    Duration, Rate,
    event::{Event, TransferEvent},
    link::{LinkConfig, Loss},
};
use tributary_transport::{
    Endpoint, Messaging,
    messaging::{Destination, SendOptions, Spread},
};

use super::{
    network::{START, tell_conservation},
    nodes::Nodes,
};
use crate::{
    Experiment, Results, Settings, Table,
    figures::{Chart, Figure, Series, Style, lines},
    optimum::PAYLOAD_SHARE,
    rivals::{Content, DownloadConfig, Plan, Rival, outcome, run_download},
    stats::mean,
};

/// The entry of the table.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "mftp-multicast",
    title: "One file to 2 to 64 receivers: small and large scale, beside a connection to each",
    paper: "designed in MFTP §3.5, not evaluated there",
    runs: 3,
    run,
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
const RIVALS: [(Rival, &str); 2] = [(Rival::QuicBbr, "QUIC BBR to each"), (Rival::QuicCubic, "QUIC Cubic to each")];

#[derive(Clone, Copy)]
struct Item {
    seed: u64,
    receivers: usize,
    loss: f64,
}

/// What one run gives.
struct Row {
    /// Until the last receiver has all; `None` if one never had.
    seconds: Option<f64>,
    /// Bytes that left the source for each byte of the file.
    copies: f64,
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
    let before = source_bytes(&nodes);
    let options = SendOptions { spread, ..SendOptions::default() };
    let to = Destination::Name(name(GROUP));
    let object = object.clone();
    let bytes = object.bytes().clone();
    let sent = nodes.with("source", |node, now| Messaging::send(node, now, Box::new(object), &to, &options).is_ok());
    let mut last = None;
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
    Row { seconds, copies, unaccounted: nodes.unaccounted_packets() }
}

/// A connection to each, all at once.
fn rival(rival: Rival, item: &Item, bytes: u64) -> Row {
    let mut plan = Plan::new();
    let content = Content { seed: item.seed, bytes };
    let server = plan.server(rival, content);
    let core = plan.router();
    plan.connect(server, core, core_link(2), core_link(2));
    let (mut access, mut clients) = (core, Vec::new());
    for receiver in 0..item.receivers {
        if receiver % BEHIND_ONE == 0 {
            access = plan.router();
            plan.connect(core, access, core_link(5), core_link(5));
        }
        let config = DownloadConfig { start: START, ..DownloadConfig::single() };
        let client = plan.client(rival, content, &[server], config);
        plan.connect(access, client, last_link(item.loss), last_link(item.loss));
        clients.push(client);
    }
    let (mut net, _) = plan.build(item.seed);
    for client in &clients {
        run_download(&mut net, *client, START + LIMIT);
    }
    let outcomes: Vec<_> = clients.iter().map(|client| outcome(&net, *client, &[server])).collect();
    let seconds: Option<Vec<f64>> = outcomes.iter().map(|outcome| outcome.seconds).collect();
    Row {
        seconds: seconds.map(|seconds| seconds.into_iter().fold(0.0, f64::max)),
        copies: outcomes[0].sent_bytes as f64 / bytes as f64,
        unaccounted: net.links().map(|(.., link)| link.stats().unaccounted_packets(link.in_flight())).sum(),
    }
}

fn run(settings: &Settings) -> Results {
    let bytes: usize = settings.choose(10_000_000, 2_000_000);
    let counts: &[usize] = settings.choose(&[2, 4, 8, 16, 32, 64], &[2, 10]);
    let mut results = Results::new(EXPERIMENT.name, settings);
    let mut table = Table::new("times", &["variant", "receivers", "loss", "run", "seconds", "copies_from_source"]);
    let file = object(FILE, bytes, settings.seed);
    let (mut unaccounted, mut rivals_unaccounted) = (0, 0);
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
                })
                .collect();
            let last = LAST_MBPS as f64 * (1.0 - loss);
            let seconds = |mbps: f64| bytes as f64 * 8e-6 / (mbps * PAYLOAD_SHARE);
            let each = (CORE_MBPS as f64 / *receivers as f64).min(last);
            results.metric(format!("optimum.seconds_mean@{setting}"), seconds(last), "seconds");
            results.metric(format!("optimum-unicast.seconds_mean@{setting}"), seconds(each), "seconds");
            let mut all = Vec::new();
            for (variant, label, spread) in SCALES {
                let rows = parallel::map(&items, |item| ours(item, spread, &file));
                unaccounted += rows.iter().map(|row| row.unaccounted).sum::<u64>();
                all.push((variant, label, rows));
            }
            for (of, label) in RIVALS {
                let rows = parallel::map(&items, |item| rival(of, item, bytes as u64));
                rivals_unaccounted += rows.iter().map(|row| row.unaccounted).sum::<u64>();
                all.push((of.name(), label, rows));
            }
            for (number, (variant, label, rows)) in all.iter().enumerate() {
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
        chart.is_x_logarithmic = true;
        let series: Vec<Series> =
            lines_of.into_iter().map(|(label, points)| Series::new(&label, points).styled(Style::Marked)).collect();
        results.figures.push(Figure {
            name: format!("times-loss{percent}"),
            caption: format!("{} MB; {percent} % loss on every last hop, both ways.", bytes / 1_000_000),
            svg: lines(&chart, &series),
        });
    }
    tell_conservation(&mut results, "mftp", unaccounted);
    tell_conservation(&mut results, "rivals", rivals_unaccounted);
    results.tables.push(table);
    results.parameter("object", format!("{bytes} bytes"));
    results.parameter("source – core – access routers", format!("{CORE_MBPS} Mbit/s, 2 and 5 ms one way"));
    results
        .parameter("last hops", format!("{LAST_MBPS} Mbit/s, 1 ms; {BEHIND_ONE} receivers behind each access router"));
    results.note(
        "Small scale: members tell the source what they miss. Large scale: they tell routers on the way, which gather \
         requests and answer from copies (paper §3.5). Every copy is verified against the signed manifest. The optimum is \
         one last hop filled to capacity × (1 − loss); that of unicast shares the source's link among all. Rivals open a \
         connection to each receiver at the same moment.",
    );
    results
}
