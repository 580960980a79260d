//! The number of connections of an uplink: one more at a time, while the uplink then delivers more.
//!
//! ```text
//!   settle ──► measure ──► put a spare flow to use ──► settle ──► measure ──┬─ more ──► keep it, try another
//!                 ▲                                                         └─ not ──► give it up, pause
//!                 └──────────────────── pause, doubled each time ◄──────────────┘
//! ```
use super::*;

/// The connections that leave this machine in the same place, whichever mirrors they lead to: they share its rate.
#[derive(Default)]
pub(super) struct Uplink {
    pub(super) name: String,
    /// Bytes since the measurement started.
    bytes: u64,
    /// Start of the measurement; `None` while a flow has a fault.
    from: Option<Time>,
    /// The uplink's rate before the flow on trial was added.
    before: f64,
    pub(super) trial: Option<usize>,
    next_trial: Time,
    pause: Duration,
}

/// The shortest time between a change and the measurement of its effect, so that slow start is over.
const SETTLE_MIN: Duration = Duration::from_millis(300);
/// The same in round trips.
const SETTLE_ROUND_TRIPS: f64 = 8.0;
/// Minimum duration of a measurement.
const MEASURE_MIN: Duration = Duration::from_millis(900);
/// The same in round trips.
const MEASURE_ROUND_TRIPS: f64 = 12.0;
/// The most of both.
const TIMES_MAX: Duration = Duration::from_secs(4);
/// The pause after a trial that something disturbed; one without gain doubles it.
const PAUSE_MIN: Duration = Duration::from_secs(2);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// The minimum remaining work of the uplink that justifies a trial, in seconds of its rate.
const REST_SECONDS: f64 = 3.0;

impl Uplink {
    pub(super) fn new(name: &str) -> Uplink {
        Uplink { name: name.into(), pause: PAUSE_MIN, ..Uplink::default() }
    }
    pub(super) fn on_bytes(&mut self, bytes: u64) {
        self.bytes += bytes;
    }
}

impl Bulk {
    /// Judges the trials that are due, and starts new ones. `idle_bytes` is the size of the unassigned chunks.
    pub(super) fn tune(&mut self, now: Time, idle_bytes: u64) {
        for index in 0..self.uplinks.len() {
            self.tune_uplink(now, index, idle_bytes);
        }
    }
    fn tune_uplink(&mut self, now: Time, index: usize, idle_bytes: u64) {
        let in_use = || self.flows.iter().filter(|flow| flow.uplink == index && !flow.is_spare);
        let usable = || in_use().filter(|flow| self.mirrors[flow.mirror].is_usable());
        // A flow that is silent, waits for its server or lacks work gives no measurement of the uplink.
        let has_work = |flow: &Flow| flow.order.is_some() || (idle_bytes > 0 && flow.retry_at <= now);
        let is_busy = |flow: &Flow| flow.trouble.is_none() && has_work(flow);
        let rtt = usable().filter_map(|flow| flow.rtt_min).fold(0.0, f64::max);
        let of_trips = |least: Duration, trips: f64| least.max(Duration::from_secs_f64(rtt * trips)).min(TIMES_MAX);
        let (settle, measure) = (of_trips(SETTLE_MIN, SETTLE_ROUND_TRIPS), of_trips(MEASURE_MIN, MEASURE_ROUND_TRIPS));
        let is_steady = usable().next().is_some() && usable().all(is_busy);
        if !is_steady {
            self.uplinks[index].from = None;
            return self.end_trial(now, index);
        }
        let uplink = &mut self.uplinks[index];
        let Some(from) = uplink.from else {
            (uplink.from, uplink.bytes) = (Some(now + settle), 0);
            return;
        };
        if now < from {
            uplink.bytes = 0;
            return;
        }
        if now.since(from) < measure {
            return;
        }
        let rate = uplink.bytes as f64 / now.since(from).as_secs_f64();
        (uplink.from, uplink.bytes) = (Some(now), 0);
        if uplink.trial.is_some() {
            if rate < uplink.before * (1.0 + self.config.connection_gain) {
                uplink.pause = (uplink.pause * 2).min(PAUSE_MAX);
                return self.end_trial(now, index);
            }
            (uplink.trial, uplink.pause) = (None, PAUSE_MIN);
        }
        if now < uplink.next_trial || (idle_bytes as f64) < rate * REST_SECONDS {
            return;
        }
        (uplink.before, uplink.from) = (rate, Some(now + settle));
        let Some(spare) = self.spare_of(index) else { return };
        self.uplinks[index].trial = Some(spare);
        let flow = &mut self.flows[spare];
        flow.is_spare = false;
        if flow.requests == 0 {
            let source = self.mirrors[flow.mirror].source;
            self.events.push_back(TransferEvent::PathAdded { path: flow.path, source });
        }
    }
    /// A flow that could be put to use: of the mirror that has the fewest over this uplink.
    fn spare_of(&self, uplink: usize) -> Option<usize> {
        let in_use = |mirror: usize| {
            self.flows.iter().filter(|flow| flow.uplink == uplink && flow.mirror == mirror && !flow.is_spare).count()
        };
        let is_spare = |flow: &Flow| {
            let mirror = &self.mirrors[flow.mirror];
            let is_meant = self.only.is_none_or(|only| usize::from(only.0) == flow.mirror);
            flow.uplink == uplink
                && flow.is_spare
                && flow.order.is_none()
                && mirror.is_usable()
                && !mirror.is_full
                && is_meant
                && mirror.delivers == Delivers::Ranges
        };
        let spares = self.flows.iter().enumerate().filter(|(_, flow)| is_spare(flow));
        spares.min_by_key(|(_, flow)| in_use(flow.mirror)).map(|(index, _)| index)
    }
    /// Makes the flow on trial spare again: it still completes its order.
    fn end_trial(&mut self, now: Time, index: usize) {
        let uplink = &mut self.uplinks[index];
        let Some(flow) = uplink.trial.take() else { return };
        uplink.next_trial = now + uplink.pause;
        self.flows[flow].is_spare = true;
    }
}
