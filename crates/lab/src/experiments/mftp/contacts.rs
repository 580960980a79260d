//! Devices that meet a gateway now and then, by contact traces.
use crate::contacts;
use std::path::PathBuf;
use tributary::{Family, config::Role};
use tributary_content::MemoryObject;
use tributary_core::{
    Duration, Random, Rate, Time,
    link::{LinkChange, LinkConfig, LinkState},
};

use super::{
    network::{RIVALS, START, Unaccounted, gigabit, unaccounted},
    outage::distribution,
};
use crate::{
    Results, Settings, Table,
    comparison::RivalDownload,
    figures::{Chart, lines},
    optimum::{self, MFTP_PAYLOAD_SHARE},
    rivals::Rival,
    runs::run as run_scenario,
    simulation::{Scenario, parallel},
    stats::{mean, median},
    wide_area::{file, file_name},
};

/// Rate of a contact, in kbit/s.
const KBPS: u64 = 2_000;
/// The maximum number of devices: those that meet the gateway longest.
const DEVICES_MAX: usize = 8;

/// When a device is with the gateway, in seconds from the start: beginnings and ends.
type Meetings = Vec<(f64, f64)>;

/// Meetings as they were measured among people: times between them by a Pareto law of exponent 0.9, cut at an hour
/// (Chaintreau et al., Impact of Human Mobility on Opportunistic Forwarding Algorithms, 2007), 10 to 120 s long.
fn synthetic(seed: u64, devices: usize, seconds: f64) -> Vec<Meetings> {
    let device = |number: u64| {
        let mut random = Random::new(seed, 0x00c0_47ac + number);
        let (mut now, mut meetings) = (0.0, Vec::new());
        while now < seconds {
            let gap = (30.0 * (1.0 - random.unit()).powf(-1.0 / 0.9)).min(3_600.0);
            let long = 10.0 + 110.0 * random.unit();
            meetings.push((now + gap, now + gap + long));
            now += gap + long;
        }
        meetings
    };
    (0..devices as u64).map(device).collect()
}

/// Meetings of a trace, starting with the first hour in which anything happens. The node with the longest meetings is
/// the gateway.
fn recorded(name: &str, text: &str, seconds: f64) -> Option<Vec<Meetings>> {
    let contacts = contacts::parse(name, text, Duration::ZERO).ok()?;
    let intervals = |script: &tributary_core::link::Script| {
        let (mut meetings, mut since) = (Meetings::new(), None);
        for (time, change) in script.steps() {
            let at = time.as_secs_f64();
            match change {
                LinkChange::State(LinkState::Up) => since = Some(at),
                _ => meetings.extend(since.take().map(|since| (since, at))),
            }
        }
        meetings.retain(|(from, to)| *from < seconds && to - from >= 1.0);
        meetings
    };
    let pairs: Vec<((usize, usize), Meetings)> =
        contacts.pairs.iter().map(|(pair, script)| (*pair, intervals(script))).collect();
    let total = |meetings: &Meetings| meetings.iter().map(|(from, to)| to - from).sum::<f64>();
    let of = |node: usize| pairs.iter().filter(move |((a, b), _)| *a == node || *b == node);
    let gateway = (0..contacts.nodes.len()).max_by(|a, b| {
        let sum = |node: usize| of(node).map(|(_, meetings)| total(meetings)).sum::<f64>();
        sum(*a).total_cmp(&sum(*b))
    })?;
    let mut devices: Vec<Meetings> = of(gateway).map(|(_, meetings)| meetings.clone()).collect();
    devices.sort_by(|a, b| total(b).total_cmp(&total(a)));
    devices.truncate(DEVICES_MAX);
    devices.retain(|meetings| !meetings.is_empty());
    Some(devices)
}

/// Traces by name: ours, and measured ones if there is a folder with them.
fn traces(settings: &Settings, seconds: f64) -> Vec<(String, Vec<Meetings>)> {
    let count = settings.choose(DEVICES_MAX, 2);
    let mut traces = vec![("synthetic".to_string(), synthetic(settings.seed, count, seconds))];
    if let Some(folder) = std::env::var_os("TRIBUTARY_DATA").map(PathBuf::from)
        && settings.scale == crate::Scale::Full
    {
        for name in ["haggle-intel", "haggle-computer-lab", "haggle-cambridge-students"] {
            let path = folder.join("contact-traces").join(format!("{name}.tsv"));
            let text = std::fs::read_to_string(path).ok();
            traces.extend(text.and_then(|text| Some((name.to_string(), recorded(name, &text, seconds)?))));
        }
    }
    traces
}

fn radio() -> LinkConfig {
    let rate = Rate::from_bits_per_second(KBPS * 1000);
    LinkConfig { queue_bytes: 64 << 10, ..LinkConfig::new(rate, Duration::from_millis(10)) }
}
fn at(seconds: f64) -> Time {
    START + Duration::from_secs_f64(seconds)
}

/// ```text
///   server ── core ── gate ─ ─ ─ d0, d1, …      while they meet
/// ```
fn scenario(seed: u64, meetings: &[Meetings], object: &MemoryObject, limit: f64) -> Scenario {
    let mut scenario = Scenario::new("contacts", seed);
    scenario.add_node("server", Family::Mf, &[Role::Sender]);
    for label in ["core", "gate"] {
        scenario.add_node(label, Family::Mf, &[Role::Router, Role::Resolver]);
    }
    scenario.add_link("server", "core", gigabit(Duration::from_millis(5)));
    scenario.add_link("core", "gate", gigabit(Duration::from_millis(20)));
    scenario.publish("server", Time::ZERO, object.clone());
    for (number, of_device) in meetings.iter().enumerate() {
        let (label, link) = (format!("d{number}"), format!("gate-d{number}"));
        scenario.add_node(&label, Family::Mf, &[Role::Receiver]);
        scenario.add_link("gate", &label, radio());
        scenario.change_link(Time::ZERO, &link, LinkChange::State(LinkState::Down));
        for (from, to) in of_device {
            scenario.change_link(at(*from), &link, LinkChange::State(LinkState::Up));
            scenario.change_link(at(*to), &link, LinkChange::State(LinkState::Down));
        }
        scenario.fetch(&label, START, file_name());
    }
    scenario.limit = at(limit);
    scenario
}

/// Seconds taken by a download manager that requests the rest again as soon as a meeting begins, and unaccounted
/// packets.
fn rival(rival: Rival, seed: u64, meetings: &Meetings, bytes: u64) -> (Option<f64>, u64) {
    let (mut left, mut lost) = (bytes, 0);
    for (number, (from, to)) in (0u64..).zip(meetings) {
        let mut scenario = Scenario::new("meeting", seed.wrapping_add(number));
        for label in ["server", "core", "gate", "device"] {
            scenario.add_bare_node(label);
        }
        scenario.add_link("server", "core", gigabit(Duration::from_millis(5)));
        scenario.add_link("core", "gate", gigabit(Duration::from_millis(20)));
        scenario.add_link("gate", "device", radio());
        scenario.limit = Time::ZERO + Duration::from_secs_f64(to - from);
        let mut comparison = RivalDownload::measured(rival, &scenario, "server", "device", left, Time::ZERO);
        let (seconds, progress) = comparison.seconds_and_progress(scenario.limit, Duration::from_secs(1));
        lost += comparison.unaccounted_packets();
        if let Some(seconds) = seconds {
            return (Some(from + seconds), lost);
        }
        left -= progress.last().map_or(0, |(_, bytes)| *bytes);
    }
    (None, lost)
}

pub(in crate::experiments) fn run(settings: &Settings, results: &mut Results) {
    let bytes = settings.choose(40_000_000, 6_000_000);
    let limit = settings.choose(6.0 * 3_600.0, 1_800.0);
    let mut table = Table::new("times", &["trace", "variant", "device", "seconds", "optimum_seconds"]);
    let object = file(bytes);
    let mut lost_packets = Unaccounted::default();
    let traces = traces(settings, limit);
    for (trace, meetings) in &traces {
        let outcome = run_scenario(&scenario(settings.seed, meetings, &object, limit));
        lost_packets.add("mftp", unaccounted(&outcome));
        let ours: Vec<Option<f64>> =
            outcome.transfers.iter().map(|of| of.seconds().filter(|_| of.is_complete())).collect();
        let devices: Vec<usize> = (0..meetings.len()).collect();
        // Each device alone: contacts do not share a radio here.
        let bounds = parallel::map(&devices, |device| {
            let alone = scenario(settings.seed, &meetings[*device..=*device], &object, limit);
            optimum::seconds_of(MFTP_PAYLOAD_SHARE, &alone, &["server"], "d0", bytes as u64, START)
                .filter(|seconds| *seconds <= limit)
        });
        let mut all = vec![("mftp", "MFTP", ours)];
        for (of, label) in RIVALS {
            let rows = parallel::map(&devices, |device| rival(of, settings.seed, &meetings[*device], bytes as u64));
            lost_packets.add(of.name(), rows.iter().map(|(_, lost)| lost).sum());
            let seconds = rows.into_iter().map(|(seconds, _)| seconds.filter(|seconds| *seconds <= limit));
            all.push((of.name(), label, seconds.collect()));
        }
        let possible = bounds.iter().flatten().count();
        results.metric(format!("optimum.complete@{trace}"), possible as f64, "count");
        let minutes = |seconds: &[Option<f64>]| seconds.iter().flatten().map(|value| value / 60.0).collect::<Vec<_>>();
        results.metric(format!("optimum.minutes_median@{trace}"), median(&minutes(&bounds)), "minutes");
        let mut series = Vec::new();
        for (variant, label, seconds) in &all {
            let pairs = seconds.iter().zip(&bounds).filter_map(|(took, bound)| Some((*took)? - (*bound)?));
            let beyond: Vec<f64> = pairs.collect();
            results.metric(format!("{variant}.complete@{trace}"), seconds.iter().flatten().count() as f64, "count");
            results.metric(format!("{variant}.minutes_median@{trace}"), median(&minutes(seconds)), "minutes");
            results.metric(format!("{variant}.beyond_seconds_mean@{trace}"), mean(&beyond), "seconds");
            results.metric(format!("{variant}.beyond_seconds_median@{trace}"), median(&beyond), "seconds");
            for (device, (seconds, bound)) in seconds.iter().zip(&bounds).enumerate() {
                let cell = |value: &Option<f64>| value.map(|value| format!("{value:.2}")).unwrap_or_default();
                let head = [trace.clone(), (*variant).to_string(), format!("{device}")];
                table.push(head.into_iter().chain([cell(seconds), cell(bound)]).collect());
            }
            series.push(distribution(label, minutes(seconds).into_iter()));
        }
        series.push(distribution("optimum", minutes(&bounds).into_iter()).dashed().coloured(6));
        let chart =
            Chart::new(&format!("A file in meetings with a gateway: {trace}"), "minutes since the request", "share");
        results.captioned(
            format!("times-{trace}"),
            format!("{} MB to {} devices, of those that got it in six hours.", bytes / 1_000_000, meetings.len()),
            lines(&Chart { y_to: 1.0, ..chart }, &series),
        );
    }
    lost_packets.tell(results);
    results.tables.push(table);
    let names: Vec<&str> = traces.iter().map(|(name, _)| name.as_str()).collect();
    results.parameter("traces", names.join(", "));
    results.parameter("object", format!("{bytes} bytes"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardly_anything_of_a_meeting_is_lost() {
        let (bytes, limit) = (40_000_000, 6.0 * 3_600.0);
        let (object, meetings) = (file(bytes), synthetic(1, DEVICES_MAX, limit));
        let outcome = run_scenario(&scenario(1, &meetings, &object, limit));
        let beyond: Vec<f64> = (0..meetings.len())
            .map(|device| {
                let alone = scenario(1, &meetings[device..=device], &object, limit);
                let bound = optimum::seconds_of(MFTP_PAYLOAD_SHARE, &alone, &["server"], "d0", bytes as u64, START);
                outcome.transfers[device].seconds().expect("it completes") - bound.expect("it is possible")
            })
            .collect();
        let (median, mean) = (median(&beyond), mean(&beyond));
        println!("seconds beyond the optimum: {beyond:.2?}, median {median:.2}, mean {mean:.2}");
        // Hellos, acknowledgements and heads of chunks take a hundredth of the transfer's time. A device that has been away for
        // minutes hardly searches, for the sake of its battery: the gateway finds it, half a second after they meet at most.
        assert!(median < 2.0 && mean < 2.4, "{beyond:.2?}");
    }

    /// The gateway's buffer holds about eight chunks for all of them.
    #[test]
    fn devices_that_meet_the_gateway_at_once_do_not_wait_for_each_other() {
        let (bytes, limit) = (40_000_000, 600.0);
        let (object, meetings) = (file(bytes), vec![vec![(10.0, 590.0)]; 5]);
        let outcome = run_scenario(&scenario(1, &meetings, &object, limit));
        let alone = scenario(1, &meetings[..1], &object, limit);
        let bound = optimum::seconds_of(MFTP_PAYLOAD_SHARE, &alone, &["server"], "d0", bytes as u64, START);
        let bound = bound.expect("it is possible");
        let took = |device: usize| outcome.transfers[device].seconds().expect("it completes");
        let beyond: Vec<f64> = (0..meetings.len()).map(|device| took(device) - bound).collect();
        println!("seconds beyond the optimum of {bound:.1}: {beyond:.2?}");
        // The first to ask waits a round trip longer for the name, and its first chunk finds the buffer full with two of each
        // of the others: it waits until one of these has left.
        let mut sorted = beyond.clone();
        sorted.sort_by(f64::total_cmp);
        let a_chunk = f64::from(1u32 << 20) * 8.0 / 2e6;
        assert!(sorted[3] < 2.6 && sorted[4] < 2.6 + a_chunk, "{beyond:.2?}");
    }

    #[test]
    fn the_gateway_of_a_trace_is_who_meets_longest() {
        let text =
            "0 CONN 1 2 up\n10 CONN 2 3 up\n50 CONN 1 2 down\n70 CONN 2 3 down\n80 CONN 1 3 up\n85 CONN 1 3 down\n";
        let devices = recorded("x", text, 1_000.0).expect("it is a trace");
        assert_eq!(devices, [vec![(10.0, 70.0)], vec![(0.0, 50.0)]]);
    }
}
