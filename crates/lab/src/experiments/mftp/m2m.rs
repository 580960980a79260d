//! MFTP §2, §3.3: sensors that wake up for a moment, for a sink that is often away.
use std::collections::BTreeSet;

use tributary::{Family, config::Role};
use tributary_content::{MemoryOpener, ObjectReader};
use tributary_core::{
    Duration, Random, Rate, Time, TransferId,
    link::{LinkChange, LinkConfig, LinkState, Loss},
};
use tributary_mf::{MfNode, Reliability, SendOptions};
use tributary_transport::{Messaging, messaging::InNetwork};

use super::{
    network::{RIVALS, START, Unaccounted, gigabit},
    nodes::Nodes,
    outage::distribution,
};
use crate::{
    Results, Settings, Table,
    comparison::RivalDownload,
    figures::{Chart, lines},
    optimum::MFTP_PAYLOAD_SHARE,
    rivals::Rival,
    simulation::{Scenario, object, parallel},
    stats::{confidence, mean, quantile},
};

/// A sensor sleeps for nearly all of this.
const PERIOD: Duration = Duration::from_secs(10);
/// The sink is connected for the first part of each of its periods.
const SINK_PERIOD: Duration = Duration::from_secs(30);
const SINK_CONNECTED: Duration = Duration::from_secs(15);
/// How long a core that forgets is down: its restart time. Its neighbours do not notice, and hand over their remaining
/// chunks when it is back.
const FORGETS_FOR: Duration = Duration::from_millis(100);

/// Sensors, measurements, and the network between them and the sink.
#[derive(Clone, Copy)]
struct Field {
    /// What follows the `@` of its metrics.
    setting: &'static str,
    title: &'static str,
    sensors: usize,
    periods: u32,
    reading_bytes: usize,
    /// The maximum time that a sensor is awake per period. It sleeps as soon as it knows that its readings are safe.
    awake: Duration,
    radio_kbps: u64,
    /// Between core and gate.
    backhaul_kbps: u64,
    /// Whether the sink is away now and then.
    sink: Sink,
    /// Whether the core is killed once in each of its periods.
    core: Core,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sink {
    AlwaysThere,
    AwayHalf,
}
#[derive(Clone, Copy, PartialEq, Eq)]
enum Core {
    Lasting,
    Forgetful,
}

/// Small readings for a sink that is away half of the time, over a good network.
fn away(settings: &Settings) -> Field {
    let (sensors, periods) = settings.choose((20, 12), (3, 3));
    Field {
        setting: "away",
        title: "Readings of sleepy sensors, the sink away half of the time",
        sensors,
        periods,
        reading_bytes: 2_000,
        awake: Duration::from_millis(500),
        radio_kbps: 250,
        backhaul_kbps: 1_000_000,
        sink: Sink::AwayHalf,
        core: Core::Lasting,
    }
}
/// Pictures for a sink that is always connected, over a narrow link behind a router that loses its memory now and then:
/// sensors sleep before their pictures have left their access router.
fn patchy(settings: &Settings) -> Field {
    let (sensors, periods) = settings.choose((10, 24), (8, 6));
    Field {
        setting: "patchy",
        title: "Pictures of sleepy sensors over a router that forgets",
        sensors,
        periods,
        reading_bytes: 64_000,
        awake: Duration::from_secs(1),
        radio_kbps: 2_000,
        backhaul_kbps: 1_000,
        sink: Sink::AlwaysThere,
        core: Core::Forgetful,
    }
}
/// As `patchy`, with sensors that stay awake for nearly all of a period if they have to: the price of knowing that a
/// picture is safe.
fn patient(settings: &Settings) -> Field {
    Field {
        setting: "patient",
        title: "The same, and sensors sleep only when they know that their pictures are safe",
        awake: PERIOD.mul_f64(0.95),
        ..patchy(settings)
    }
}

impl Field {
    /// When the core is killed: once per period, at a random time.
    fn kills(&self, seed: u64) -> Vec<Time> {
        let mut random = Random::new(seed, KILL_STREAM);
        let draw = |period| START + PERIOD * period + PERIOD.mul_f64(0.9 * random.unit());
        match self.core {
            Core::Lasting => Vec::new(),
            Core::Forgetful => (0..self.periods).map(draw).collect(),
        }
    }
    /// When the sink is connected again, at or after `time`.
    fn sink_back(&self, time: Time) -> Time {
        let since = time.since(START).as_nanos();
        let (period, connected) = (SINK_PERIOD.as_nanos(), SINK_CONNECTED.as_nanos());
        let is_there = self.sink == Sink::AlwaysThere || since % period < connected;
        if is_there { time } else { START + Duration::from_nanos(((since / period + 1) * period) as u64) }
    }
    /// The minimum delay of a reading beyond the sink's absence: from the gate if the sink was away, otherwise over all
    /// links.
    fn least_delay(&self, at: Time) -> f64 {
        let bits = self.reading_bytes as f64 * 8.0 / MFTP_PAYLOAD_SHARE;
        let (kbps, delay) = if self.sink_back(at) == at {
            (self.radio_kbps.min(self.backhaul_kbps).min(SINK_KBPS), RADIO_DELAY * 2 + WIRE_DELAY * 2)
        } else {
            (SINK_KBPS, RADIO_DELAY)
        };
        bits / (kbps as f64 * 1e3) + delay.as_secs_f64()
    }
}
const KILL_STREAM: u64 = 0x5e46;
const SINK_KBPS: u64 = 5_000;
const RADIO_DELAY: Duration = Duration::from_millis(5);
const WIRE_DELAY: Duration = Duration::from_millis(10);

/// How readings are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// The access router answers for the sensor.
    Delegated,
    /// Proxies may store; the sensor answers for itself.
    Stored,
    /// No storage; the sensor answers for itself.
    Unstored,
    /// Fire and forget, no storage: the network layer alone.
    Forgotten,
}

const WAYS: [(&str, &str, Way); 4] = [
    ("delegated", "MFTP, delegated", Way::Delegated),
    ("stored", "MFTP, stored on the way", Way::Stored),
    ("unstored", "MFTP, no storage", Way::Unstored),
    ("forgotten", "MFTP, no storage, don't care", Way::Forgotten),
];

/// Readings: sensor and when it wakes up to send.
fn readings(field: &Field, seed: u64) -> Vec<(usize, Time)> {
    let mut random = Random::new(seed, 0x5e45);
    let mut readings = Vec::new();
    for sensor in 0..field.sensors {
        let phase = PERIOD.mul_f64(random.unit());
        readings.extend((0..field.periods).map(|period| (sensor, START + phase + PERIOD * period)));
    }
    readings.sort_by_key(|(sensor, at)| (*at, *sensor));
    readings
}

fn scenario(seed: u64, field: &Field, sensors: usize) -> Scenario {
    let mut scenario = Scenario::new("m2m", seed);
    for label in ["field", "core", "gate"] {
        scenario.add_node(label, Family::Mf, &[Role::Router, Role::Resolver]).mf_mut().transfer.chunk_bytes =
            CHUNK_BYTES;
    }
    scenario.add_node("sink", Family::Mf, &[Role::Receiver]).mf_mut().transfer.chunk_bytes = CHUNK_BYTES;
    scenario.add_link("field", "core", gigabit(WIRE_DELAY));
    let rate = Rate::from_bits_per_second(field.backhaul_kbps * 1000);
    scenario.add_link("core", "gate", LinkConfig { rate: Some(rate), ..gigabit(WIRE_DELAY) });
    scenario.add_link("gate", "sink", radio(SINK_KBPS));
    for sensor in 0..sensors {
        scenario.add_node(&format!("s{sensor}"), Family::Mf, &[Role::Sender]).mf_mut().transfer.chunk_bytes =
            CHUNK_BYTES;
        scenario.add_link(&format!("s{sensor}"), "field", radio(field.radio_kbps));
    }
    scenario
}
/// The smallest chunks: a router's failure loses some of a picture's chunks, not all or nothing.
const CHUNK_BYTES: u32 = 16 << 10;
/// A lossy radio link.
fn radio(kbps: u64) -> LinkConfig {
    let rate = Rate::from_bits_per_second(kbps * 1000);
    let link = LinkConfig { queue_bytes: 32 << 10, ..LinkConfig::new(rate, RADIO_DELAY) };
    LinkConfig { loss: Loss::Bernoulli(0.05), ..link }
}

/// Results of one run.
#[derive(Default)]
struct Row {
    /// Seconds from a reading to its arrival, for readings that arrived, without the sink's absence.
    delays: Vec<f64>,
    readings: usize,
    /// Bytes of sensors that arrived: bytes sent to a radio that is off are no cost of the transport.
    sent_bytes: u64,
    /// Seconds for which sensors were awake.
    awake_seconds: f64,
    /// Readings that their sensors knew to be safe, and the ones among them that never arrived.
    promised: usize,
    broken: usize,
    unaccounted: u64,
}

/// Scheduled steps, apart from the links' own changes.
#[derive(Clone, Copy)]
enum Step {
    Measure(usize),
    Kill,
    Restart,
}

fn steps(field: &Field, seed: u64, all: &[(usize, Time)]) -> Vec<(Time, Step)> {
    let mut steps: Vec<_> = all.iter().enumerate().map(|(number, (_, at))| (*at, Step::Measure(number))).collect();
    let kills = field.kills(seed);
    steps.extend(kills.iter().flat_map(|at| [(*at, Step::Kill), (*at + FORGETS_FOR, Step::Restart)]));
    steps.sort_by_key(|(at, _)| *at);
    steps
}

/// A sensor, and its readings that are not known to be safe yet.
#[derive(Default)]
struct Sensor {
    awake_since: Option<Time>,
    open: Vec<(usize, TransferId)>,
}

impl Sensor {
    /// Forgets the readings that are safe now, and returns their numbers: those that have arrived, those that storage
    /// has promised to keep, or those that have left the node if the transport confirms nothing more.
    fn take_safe(&mut self, way: Way, node: &MfNode, now: Time) -> Vec<usize> {
        let is_safe = |id: TransferId| {
            let Some(report) = node.send_report(now, id) else { return false };
            let is_kept = match way {
                Way::Delegated | Way::Stored => report.stored_chunks >= report.chunks,
                Way::Unstored => false,
                Way::Forgotten => report.has_left,
            };
            is_kept || !report.delivered.is_empty()
        };
        self.open.extract_if(.., |(_, id)| is_safe(*id)).map(|(number, _)| number).collect()
    }
}

/// How often the sensors' knowledge is sampled.
const LOOK: Duration = Duration::from_millis(10);

#[expect(clippy::too_many_lines, reason = "the script of one scenario")]
fn ours(way: Way, field: &Field, seed: u64) -> Row {
    let all = readings(field, seed);
    let mut nodes = Nodes::new(&scenario(seed, field, field.sensors));
    nodes.run_until(START - Duration::from_millis(500));
    let opener = MemoryOpener::new();
    let content = opener.content();
    nodes.with("sink", |node, _| node.accept(Box::new(opener)));
    let sink = nodes.at("sink").guid();
    let state = |up: bool| LinkChange::State(if up { LinkState::Up } else { LinkState::Down });
    let end = START + PERIOD * field.periods + SINK_PERIOD * 2;
    let mut at = START;
    while at < end && field.sink == Sink::AwayHalf {
        let gate = nodes.link("gate-sink");
        nodes.net.change_at(at, gate, state(true));
        nodes.net.change_at(at + SINK_CONNECTED, gate, state(false));
        at += SINK_PERIOD;
    }
    let links: Vec<_> = (0..field.sensors).map(|sensor| nodes.link(&format!("s{sensor}-field"))).collect();
    links.iter().for_each(|link| nodes.net.change(*link, state(false)));
    let mut sensors: Vec<Sensor> = (0..field.sensors).map(|_| Sensor::default()).collect();
    let mut waiting: Vec<(usize, tributary_content::Name, Time)> = Vec::new();
    let mut promised = BTreeSet::new();
    let mut row = Row { readings: all.len(), ..Row::default() };
    let mut run_until = |until: Time,
                         nodes: &mut Nodes,
                         sensors: &mut [Sensor],
                         waiting: &mut Vec<(usize, tributary_content::Name, Time)>| {
        while nodes.net.now() < until {
            let is_any_awake = sensors.iter().any(|sensor| sensor.awake_since.is_some());
            nodes.run_to_event(if is_any_awake { until.min(nodes.net.now() + LOOK) } else { until });
            let now = nodes.net.now();
            waiting.retain(|(_, name, due)| {
                let is_here = content.finished(name).is_some();
                if is_here {
                    row.delays.push(now.max(*due).since(*due).as_secs_f64());
                }
                !is_here
            });
            for (number, sensor) in sensors.iter_mut().enumerate() {
                let Some(since) = sensor.awake_since else { continue };
                promised.extend(sensor.take_safe(way, nodes.at(&format!("s{number}")), now));
                let awake = now.since(since);
                if sensor.open.is_empty() || awake >= field.awake {
                    nodes.net.change(links[number], state(false));
                    sensor.awake_since = None;
                    row.awake_seconds += awake.as_secs_f64();
                }
            }
        }
    };
    for (at, step) in steps(field, seed, &all) {
        run_until(at, &mut nodes, &mut sensors, &mut waiting);
        let number = match step {
            Step::Measure(number) => number,
            Step::Kill => {
                nodes.kill("core");
                continue;
            }
            Step::Restart => {
                nodes.restart("core");
                continue;
            }
        };
        let reading = object(&format!("/sensor/{number}"), field.reading_bytes, number as u64);
        let id = reading.manifest().publication_id();
        waiting.push((number, reading.manifest().name.clone(), field.sink_back(at)));
        let sensor = all[number].0;
        nodes.net.change(links[sensor], state(true));
        sensors[sensor].awake_since = Some(at);
        let sent = nodes.with(&format!("s{sensor}"), |node, now| {
            node.offer(Box::new(reading));
            let mut options = SendOptions::new(&node.config().transfer);
            (options.in_network, options.reliability) = match way {
                Way::Delegated => (InNetwork::Delegate, Reliability::Nack),
                Way::Stored => (InNetwork::Store, Reliability::Nack),
                Way::Unstored => (InNetwork::Nothing, Reliability::Nack),
                Way::Forgotten => (InNetwork::Nothing, Reliability::DontCare),
            };
            node.send(now, id, sink, options)
        });
        sensors[sensor].open.extend(sent.map(|transfer| (number, TransferId(transfer))));
    }
    run_until(end, &mut nodes, &mut sensors, &mut waiting);
    row.promised = promised.len();
    row.broken = waiting.iter().filter(|(number, ..)| promised.contains(number)).count();
    row.unaccounted = nodes.unaccounted_packets();
    row.sent_bytes = links.iter().map(|link| nodes.net.link_stats(link.a_to_b).out_bytes).sum();
    row
}

/// TCP or QUIC: the sink asks the sensor as soon as the sensor wakes, if it is connected; intermediate nodes cannot
/// store anything.
fn rival(rival: Rival, field: &Field, seed: u64) -> Row {
    let (all, kills) = (readings(field, seed), field.kills(seed));
    let mut row = Row { readings: all.len(), ..Row::default() };
    for (number, (_, at)) in all.iter().enumerate() {
        if field.sink_back(*at) != *at {
            row.awake_seconds += field.awake.as_secs_f64();
            continue;
        }
        let mut scenario = scenario(seed.wrapping_add(number as u64), field, 1);
        scenario.limit = Time::ZERO + field.awake;
        for killed in kills.iter().filter(|killed| **killed < *at + field.awake && **killed + FORGETS_FOR > *at) {
            let down = Time::ZERO + killed.since(*at);
            scenario.change_link(down, "field-core", LinkChange::State(LinkState::Down));
            let up = Time::ZERO + (*killed + FORGETS_FOR).since(*at);
            scenario.change_link(up, "field-core", LinkChange::State(LinkState::Up));
        }
        let mut comparison =
            RivalDownload::measured(rival, &scenario, "s0", "sink", field.reading_bytes as u64, Time::ZERO);
        let seconds = comparison.seconds(scenario.limit);
        row.awake_seconds += seconds.unwrap_or(field.awake.as_secs_f64());
        row.delays.extend(seconds);
        row.unaccounted += comparison.unaccounted_packets();
    }
    row
}

pub(in crate::experiments) fn run(settings: &Settings, results: &mut Results) {
    let mut unaccounted = Unaccounted::default();
    let mut table = Table::new(
        "runs",
        &["setting", "variant", "run", "readings", "delivered", "delay_mean_s", "delay_max_s", "sent_bytes"],
    );
    for field in [away(settings), patchy(settings), patient(settings)] {
        over(results, &mut table, &mut unaccounted, settings, &field);
    }
    unaccounted.tell(results);
    results.tables.push(table);
}

fn over(results: &mut Results, table: &mut Table, unaccounted: &mut Unaccounted, settings: &Settings, field: &Field) {
    let setting = field.setting;
    let seeds: Vec<u64> = (0..settings.runs).map(|run| settings.seed_of(1, run)).collect();
    let mut all = Vec::new();
    for (variant, label, way) in WAYS {
        all.push((variant, label.to_string(), parallel::map(&seeds, |seed| ours(way, field, *seed))));
    }
    for (of, label) in RIVALS {
        let rows = parallel::map(&seeds, |seed| rival(of, field, *seed));
        all.push((of.name(), format!("{label}, sink asks"), rows));
    }
    results.metric(format!("optimum.delivered@{setting}"), 1.0, "share");
    let least: Vec<f64> =
        seeds.iter().flat_map(|seed| readings(field, *seed)).map(|(_, at)| field.least_delay(at)).collect();
    results.metric(format!("optimum.delay_seconds_median@{setting}"), quantile(&least, 0.5), "seconds");
    results.metric(format!("optimum.delay_seconds_95@{setting}"), quantile(&least, 0.95), "seconds");
    let mut series = Vec::new();
    for (variant, label, rows) in &all {
        let share: Vec<f64> = rows.iter().map(|row| row.delays.len() as f64 / row.readings.max(1) as f64).collect();
        let delays: Vec<f64> = rows.iter().flat_map(|row| row.delays.iter().copied()).collect();
        let bytes: Vec<f64> = rows.iter().map(|row| row.sent_bytes as f64 / row.readings.max(1) as f64).collect();
        let in_period = delays.iter().filter(|delay| **delay <= PERIOD.as_secs_f64()).count() as f64;
        let readings: usize = rows.iter().map(|row| row.readings).sum();
        let mut put = |quantity: &str, value: f64, unit: &str| {
            results.metric(format!("{variant}.{quantity}@{setting}"), value, unit);
        };
        put("delivered", mean(&share), "share");
        put("delivered_confidence", confidence(&share), "share");
        put("delivered_within_period", in_period / readings.max(1) as f64, "share");
        put("delay_seconds_median", quantile(&delays, 0.5), "seconds");
        put("delay_seconds_95", quantile(&delays, 0.95), "seconds");
        put("delay_seconds_max", quantile(&delays, 1.0), "seconds");
        put(
            "awake_seconds_per_reading",
            rows.iter().map(|row| row.awake_seconds).sum::<f64>() / readings.max(1) as f64,
            "seconds",
        );
        if Rival::by_name(variant).is_none() {
            let promised = rows.iter().map(|row| row.promised).sum::<usize>() as f64;
            put("promised", promised / readings.max(1) as f64, "share");
            put("promised_and_lost", rows.iter().map(|row| row.broken).sum::<usize>() as f64, "count");
            put("sent_bytes_per_reading", mean(&bytes), "bytes");
        }
        unaccounted.add(variant, rows.iter().map(|row| row.unaccounted).sum());
        for (run, row) in (1..).zip(rows) {
            let counts = [row.readings, row.delays.len()].map(|count| format!("{count}"));
            let delays = [mean(&row.delays), quantile(&row.delays, 1.0)].map(|delay| format!("{delay:.4}"));
            let head = [setting.to_string(), variant.to_string(), format!("{run}")];
            table.push(head.into_iter().chain(counts).chain(delays).chain([format!("{}", row.sent_bytes)]).collect());
        }
        // Readings that never arrived make the curve end below one.
        let missing = rows.iter().map(|row| row.readings - row.delays.len()).sum::<usize>();
        let total = distribution(label, delays.iter().copied().chain(std::iter::repeat_n(f64::MAX, missing)));
        let points = total.points.iter().copied().filter(|(delay, _)| *delay < f64::MAX);
        series.push(crate::figures::Series::new(label, points.collect()));
    }
    series.push(distribution("optimum", least.into_iter()).dashed().coloured(6));
    let mut chart = Chart::new(field.title, "delay beyond the sink's own absence (s)", "share of readings");
    let last = if field.core == Core::Forgetful { 30.0 } else { 3.0 };
    (chart.y_to, chart.x_range, chart.size.1) = (1.0, Some((0.0, last)), 440);
    results.captioned(
        format!("delays-{setting}"),
        "Of all readings, the share that came within a time after the first moment at which the sink was \
            connected. A curve that ends below one has lost readings.",
        lines(&chart, &series),
    );
    let Field { sensors, periods, reading_bytes, .. } = field;
    results.parameter(
        &format!("{setting}: sensors"),
        format!("{sensors}, awake for at most {} s in each of {periods} periods of 10 s", field.awake.as_secs_f64()),
    );
    results.parameter(
        &format!("{setting}: reading, radio, backhaul"),
        format!("{reading_bytes} bytes, signed; {} and {} kbit/s", field.radio_kbps, field.backhaul_kbps),
    );
    results.parameter(
        &format!("{setting}: sink"),
        if field.sink == Sink::AwayHalf { "connected for 15 s of each 30 s" } else { "always connected" },
    );
}
