//! MFTP §2, §3.3: sensors that wake up for a moment, for a sink that is often away.
use tributary::{
    Family,
    config::Role,
    simulation::{Scenario, object, parallel},
};
use tributary_content::{MemoryOpener, ObjectReader};
use tributary_core::{
    Duration, Random, Rate, Time,
    link::{LinkChange, LinkConfig, LinkState, Loss},
};
use tributary_mf::{
    sender::{ProxyUse, SendOptions},
    wire::Reliability,
};

use super::{
    network::{START, gigabit, tell_conservation},
    nodes::Nodes,
    outage::distribution,
};
use crate::{
    Experiment, Results, Settings, Table,
    beside::Beside,
    figures::{Chart, Figure, lines},
    rivals::Rival,
    stats::{mean, quantile},
};

/// The entry of the table.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "mftp-m2m",
    title: "Sleepy sensors and a sink that is away half of the time: delegation, storage, or neither",
    paper: "motivated in MFTP §2 and §3.3, not evaluated there",
    runs: 3,
    run,
};

/// A sensor sleeps for nearly all of this.
const PERIOD: Duration = Duration::from_secs(10);
/// How long it is awake in each period.
const AWAKE: Duration = Duration::from_millis(500);
const READING_BYTES: usize = 2_000;
/// The sink is connected for the first part of each of its periods.
const SINK_PERIOD: Duration = Duration::from_secs(30);
const SINK_CONNECTED: Duration = Duration::from_secs(15);

/// How readings are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// The access router is asked to answer for the sensor.
    Delegated,
    /// Proxies may store; the sensor answers for itself.
    Stored,
    /// Fire and forget, no storage: what the network layer alone gives.
    Forgotten,
}

const WAYS: [(&str, &str, Way); 3] = [
    ("delegated", "MFTP, delegated", Way::Delegated),
    ("stored", "MFTP, stored on the way", Way::Stored),
    ("forgotten", "MFTP, no storage, don't care", Way::Forgotten),
];

/// Readings: sensor and when it wakes up to send.
fn readings(sensors: usize, periods: u32, seed: u64) -> Vec<(usize, Time)> {
    let mut random = Random::new(seed, 0x5e45);
    let mut readings = Vec::new();
    for sensor in 0..sensors {
        let phase = PERIOD.mul_f64(random.unit());
        readings.extend((0..periods).map(|period| (sensor, START + phase + PERIOD * period)));
    }
    readings.sort_by_key(|(sensor, at)| (*at, *sensor));
    readings
}
/// When the sink is connected again, at or after `time`.
fn sink_back(time: Time) -> Time {
    let since = time.since(START).as_nanos();
    let (period, connected) = (SINK_PERIOD.as_nanos(), SINK_CONNECTED.as_nanos());
    if since % period < connected { time } else { START + Duration::from_nanos(((since / period + 1) * period) as u64) }
}

fn scenario(seed: u64, sensors: usize) -> Scenario {
    let mut scenario = Scenario::new("m2m", seed);
    for label in ["field", "core", "gate"] {
        scenario.add_node(label, Family::Mf, &[Role::Router, Role::Resolver]);
    }
    scenario.add_node("sink", Family::Mf, &[Role::Receiver]);
    scenario.add_link("field", "core", gigabit(Duration::from_millis(10)));
    scenario.add_link("core", "gate", gigabit(Duration::from_millis(10)));
    scenario.add_link("gate", "sink", radio(5_000));
    for sensor in 0..sensors {
        scenario.add_node(&format!("s{sensor}"), Family::Mf, &[Role::Sender]);
        scenario.add_link(&format!("s{sensor}"), "field", radio(250));
    }
    scenario
}
/// A lossy radio link.
fn radio(kbps: u64) -> LinkConfig {
    let rate = Rate::from_bits_per_second(kbps * 1000);
    let link = LinkConfig { queue_bytes: 32 << 10, ..LinkConfig::new(rate, Duration::from_millis(5)) };
    LinkConfig { loss: Loss::Bernoulli(0.05), ..link }
}

/// What one run gives.
#[derive(Default)]
struct Row {
    /// Seconds from a reading to its arrival, of those that arrived; beyond what the sink's absence costs.
    delays: Vec<f64>,
    readings: usize,
    /// Bytes of sensors that arrived: what they say to a radio that is off is no cost of the transport.
    sent_bytes: u64,
    unaccounted: u64,
}

fn ours(way: Way, seed: u64, sensors: usize, periods: u32) -> Row {
    let all = readings(sensors, periods, seed);
    let mut nodes = Nodes::new(&scenario(seed, sensors));
    nodes.net.run_until(START - Duration::from_millis(500));
    let opener = MemoryOpener::new();
    let content = opener.content();
    nodes.with("sink", |node, _| node.accept(Box::new(opener)));
    let sink = nodes.at("sink").guid();
    let state = |up: bool| LinkChange::State(if up { LinkState::Up } else { LinkState::Down });
    let end = START + PERIOD * periods + SINK_PERIOD * 2;
    let mut at = START;
    while at < end {
        let gate = nodes.link("gate-sink");
        nodes.net.change_at(at, gate, state(true));
        nodes.net.change_at(at + SINK_CONNECTED, gate, state(false));
        at += SINK_PERIOD;
    }
    for sensor in 0..sensors {
        let link = nodes.link(&format!("s{sensor}-field"));
        nodes.net.change(link, state(false));
    }
    for (sensor, at) in &all {
        let link = nodes.link(&format!("s{sensor}-field"));
        // It wakes a little earlier, so that it is attached when it has measured.
        nodes.net.change_at(*at, link, state(true));
        nodes.net.change_at(*at + AWAKE, link, state(false));
    }
    let mut waiting = Vec::new();
    let mut row = Row { readings: all.len(), ..Row::default() };
    let mut collect = |nodes: &Nodes, waiting: &mut Vec<(tributary_content::Name, Time)>| {
        waiting.retain(|(name, due)| {
            let is_here = content.finished(name).is_some();
            if is_here {
                row.delays.push(nodes.net.now().max(*due).since(*due).as_secs_f64());
            }
            !is_here
        });
    };
    for (number, (sensor, at)) in all.iter().enumerate() {
        while nodes.net.now() < *at {
            nodes.run_to_event(*at);
            collect(&nodes, &mut waiting);
        }
        let reading = object(&format!("/sensor/{number}"), READING_BYTES, number as u64);
        let id = reading.manifest().object_id();
        waiting.push((reading.manifest().name.clone(), sink_back(*at)));
        nodes.with(&format!("s{sensor}"), |node, now| {
            node.offer(Box::new(reading));
            let mut options = SendOptions::new(&node.config().transfer);
            (options.proxy, options.reliability) = match way {
                Way::Delegated => (ProxyUse::Delegate, Reliability::Nack),
                Way::Stored => (ProxyUse::Allowed, Reliability::Nack),
                Way::Forgotten => (ProxyUse::Forbidden, Reliability::DontCare),
            };
            node.send(now, id, sink, options);
        });
    }
    while nodes.net.now() < end {
        nodes.run_to_event(end);
        collect(&nodes, &mut waiting);
    }
    row.unaccounted = nodes.unaccounted_packets();
    for sensor in 0..sensors {
        let link = nodes.link(&format!("s{sensor}-field"));
        row.sent_bytes += nodes.net.link_stats(link.a_to_b).out_bytes;
    }
    row
}

/// TCP: the sink asks the sensor the moment it wakes, if it is connected; nobody in between can keep anything.
fn tcp(seed: u64, sensors: usize, periods: u32) -> Row {
    let all = readings(sensors, periods, seed);
    let mut row = Row { readings: all.len(), ..Row::default() };
    for (number, (_, at)) in all.iter().enumerate() {
        if sink_back(*at) != *at {
            continue;
        }
        let mut scenario = scenario(seed.wrapping_add(number as u64), 1);
        scenario.limit = Time::ZERO + AWAKE;
        let mut beside = Beside::new(Rival::TcpCubic, &scenario, &["s0"], "sink", READING_BYTES as u64, Time::ZERO);
        row.delays.extend(beside.seconds(scenario.limit));
        row.unaccounted += beside.unaccounted_packets();
    }
    row
}

fn run(settings: &Settings) -> Results {
    let (sensors, periods) = settings.choose((20, 12), (3, 3));
    let mut results = Results::new(EXPERIMENT.name, settings);
    let mut table = Table::new("runs", &["variant", "run", "readings", "delivered", "delay_mean_s", "sent_bytes"]);
    let seeds: Vec<u64> = (0..settings.runs).map(|run| settings.seed_of(1, run)).collect();
    let mut all = Vec::new();
    for (variant, label, way) in WAYS {
        all.push((variant, label, parallel::map(&seeds, |seed| ours(way, *seed, sensors, periods))));
    }
    all.push(("tcp-cubic", "TCP, sink asks", parallel::map(&seeds, |seed| tcp(*seed, sensors, periods))));
    results.metric("optimum.delivered", 1.0, "share");
    let mut series = Vec::new();
    for (variant, label, rows) in &all {
        let share: Vec<f64> = rows.iter().map(|row| row.delays.len() as f64 / row.readings.max(1) as f64).collect();
        let delays: Vec<f64> = rows.iter().flat_map(|row| row.delays.iter().copied()).collect();
        let bytes: Vec<f64> = rows.iter().map(|row| row.sent_bytes as f64 / row.readings.max(1) as f64).collect();
        results.metric(format!("{variant}.delivered"), mean(&share), "share");
        results.metric(format!("{variant}.delay_seconds_median"), quantile(&delays, 0.5), "seconds");
        results.metric(format!("{variant}.delay_seconds_95"), quantile(&delays, 0.95), "seconds");
        if *variant != "tcp-cubic" {
            results.metric(format!("{variant}.sent_bytes_per_reading"), mean(&bytes), "bytes");
        }
        tell_conservation(&mut results, variant, rows.iter().map(|row| row.unaccounted).sum());
        for (run, row) in (1..).zip(rows) {
            let counts = [row.readings, row.delays.len()].map(|count| format!("{count}"));
            let rest = [format!("{:.4}", mean(&row.delays)), format!("{}", row.sent_bytes)];
            table.push([variant.to_string(), format!("{run}")].into_iter().chain(counts).chain(rest).collect());
        }
        // Those that never came make the curve end below one.
        let missing = rows.iter().map(|row| row.readings - row.delays.len()).sum::<usize>();
        let whole = distribution(label, delays.iter().copied().chain(std::iter::repeat_n(f64::MAX, missing)));
        let points = whole.points.iter().copied().filter(|(delay, _)| *delay < f64::MAX);
        series.push(crate::figures::Series::new(label, points.collect()));
    }
    results.tables.push(table);
    let mut chart =
        Chart::new("Readings of sleepy sensors", "delay beyond the sink's own absence (s)", "share of readings");
    (chart.y_to, chart.x_range) = (1.0, Some((0.0, 3.0)));
    results.figures.push(Figure {
        name: "delays".into(),
        caption: "Of all readings, the share that came within a time after the first moment at which the sink was \
                  connected. A curve that ends below one lost the rest."
            .into(),
        svg: lines(&chart, &series),
    });
    results.parameter("sensors", format!("{sensors}, awake for 0.5 s in each of {periods} periods of 10 s"));
    results.parameter("reading", format!("{READING_BYTES} bytes, signed"));
    results.parameter("radio", "250 kbit/s to sensors, 5 Mbit/s to the sink, 5 ms, 5 % loss both ways");
    results.parameter("sink", "connected for 15 s of each 30 s");
    results.note(
        "A sensor has 0.5 s in which to attach and to hand over its reading; then its radio is off. Delegation and storage \
         take it over hop by hop and hold it until the sink is back. TCP needs both ends at a time: here the sink asks the \
         sensor the very moment at which it wakes, which nobody could know; readings while the sink is away are lost.",
    );
    results
}
