//! Greedy, responsive traffic: a window with additive increase and multiplicative decrease.
use bytes::Bytes;
use std::collections::BTreeMap;
use tributary_core::{Datagram, Duration, FaceId, Node, Time, TimerId, Transmit, TransmitBuf, event::Event};

use super::Packet;

/// Settings of a [`Greedy`] flow.
#[derive(Clone, PartialEq, Debug)]
pub struct GreedyConfig {
    /// Bytes of each datagram, at least [`Packet::BYTES`]. Default: 1,400.
    pub packet_bytes: u32,
    /// The first window, in packets. Default: 10 (RFC 6928).
    pub window_initial: f64,
    /// The largest window, in packets. Default: 10,000.
    pub window_max: f64,
    /// Packets that may overtake one that is not lost. Default: 3 (RFC 5681).
    pub reorder_packets: u64,
    /// The shortest timeout. Default: 200 ms, as Linux has it.
    pub timeout_min: Duration,
    /// Start time. Default: at once.
    pub start: Time,
    /// When it ends. Default: never.
    pub end: Time,
}
impl Default for GreedyConfig {
    fn default() -> Self {
        GreedyConfig {
            packet_bytes: 1_400,
            window_initial: 10.0,
            window_max: 10_000.0,
            reorder_packets: 3,
            timeout_min: Duration::from_millis(200),
            start: Time::ZERO,
            end: Time::MAX,
        }
    }
}

/// Counters of a [`Greedy`] flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GreedyStats {
    /// Packets sent.
    pub sent: u64,
    /// Packets answered.
    pub answered: u64,
    /// Packets declared lost.
    pub lost: u64,
    /// Halvings of the window.
    pub halvings: u64,
    /// Timeouts.
    pub timeouts: u64,
}

/// One window-based flow on face 0 towards a [`Sink`](super::Sink), like TCP Reno without retransmissions: every packet
/// is new. Slow start, congestion avoidance, one halving per round trip for losses and marks (RFC 5681, RFC 3168),
/// timeouts with backoff (RFC 6298).
#[derive(Clone, Debug)]
pub struct Greedy {
    config: GreedyConfig,
    payload: Bytes,
    window: f64,
    threshold: f64,
    next: u64,
    /// Packets neither answered nor lost, with the times at which they were sent.
    in_flight: BTreeMap<u64, Time>,
    /// Packets up to this one were sent before the last halving: their losses and marks are outdated.
    recovery_until: u64,
    rtt: Option<(f64, f64)>,
    timeout: Duration,
    timer: Option<Time>,
    stats: GreedyStats,
}

impl Greedy {
    /// A flow that starts at its configured time.
    ///
    /// # Panics
    /// If its packets are shorter than their header.
    pub fn new(config: GreedyConfig) -> Self {
        let rest = (config.packet_bytes as usize).checked_sub(Packet::BYTES).expect("packets hold their header");
        Greedy {
            payload: Bytes::from(vec![0; rest]),
            window: config.window_initial,
            threshold: f64::INFINITY,
            next: 0,
            in_flight: BTreeMap::new(),
            recovery_until: 0,
            rtt: None,
            timeout: Duration::from_secs(1),
            timer: Some(config.start),
            stats: GreedyStats::default(),
            config,
        }
    }
    /// The window in packets.
    pub fn window(&self) -> f64 {
        self.window
    }
    /// Counters.
    pub fn stats(&self) -> GreedyStats {
        self.stats
    }

    fn on_answer(&mut self, now: Time, number: u64, sent: Time, marked: bool) {
        if self.in_flight.remove(&number).is_none() {
            return;
        }
        self.stats.answered += 1;
        self.on_sample(now.since(sent));
        if self.window < self.threshold {
            self.window += 1.0;
        } else {
            self.window += 1.0 / self.window;
        }
        self.window = self.window.min(self.config.window_max);
        if marked {
            self.on_congestion(number);
        }
        let limit = number.saturating_sub(self.config.reorder_packets);
        while let Some((oldest, _)) = self.in_flight.first_key_value()
            && *oldest < limit
        {
            let oldest = *oldest;
            self.in_flight.remove(&oldest);
            self.stats.lost += 1;
            self.on_congestion(oldest);
        }
        self.timer = (!self.in_flight.is_empty()).then(|| now + self.timeout);
    }
    fn on_congestion(&mut self, number: u64) {
        if number < self.recovery_until {
            return;
        }
        self.recovery_until = self.next;
        self.stats.halvings += 1;
        self.threshold = (self.window / 2.0).max(2.0);
        self.window = self.threshold;
    }
    fn on_timeout(&mut self, now: Time) {
        if self.in_flight.is_empty() {
            return;
        }
        self.stats.timeouts += 1;
        self.stats.lost += self.in_flight.len() as u64;
        self.in_flight.clear();
        self.threshold = (self.window / 2.0).max(2.0);
        self.window = 1.0;
        self.recovery_until = self.next;
        self.timeout = (self.timeout * 2).min(Duration::from_secs(60));
        self.timer = Some(now);
    }
    /// RFC 6298 §2.
    fn on_sample(&mut self, sample: Duration) {
        let sample = sample.as_secs_f64();
        let (smoothed, variation) = match self.rtt {
            None => (sample, sample / 2.0),
            Some((smoothed, variation)) => {
                (smoothed + (sample - smoothed) / 8.0, variation + ((sample - smoothed).abs() - variation) / 4.0)
            }
        };
        self.rtt = Some((smoothed, variation));
        self.timeout = Duration::from_secs_f64(smoothed + 4.0 * variation).max(self.config.timeout_min);
    }
    fn may_send(&self, now: Time) -> bool {
        now >= self.config.start
            && now < self.config.end
            && (self.in_flight.len() as f64) < self.window.floor().max(1.0)
    }
}

impl Node for Greedy {
    fn handle_datagram(&mut self, now: Time, _: FaceId, datagram: Datagram) {
        if let Some(Packet::Ack { number, sent, marked }) = Packet::decode(&datagram) {
            self.on_answer(now, number, sent, marked);
        }
    }
    fn handle_timeout(&mut self, now: Time) {
        if self.timer.is_some_and(|timer| timer <= now) {
            self.timer = None;
            self.on_timeout(now);
        }
    }
    fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        if !self.may_send(now) {
            // A timer of the past with no packet in flight was the start, or has nothing left to do.
            self.timer = self.timer.filter(|timer| *timer > now);
            return None;
        }
        let number = self.next;
        self.next += 1;
        self.stats.sent += 1;
        self.in_flight.insert(number, now);
        if self.timer.is_none_or(|timer| timer <= now) {
            self.timer = Some(now + self.timeout);
        }
        out.push(&Packet::Data { number, sent: now }.encode(), self.payload.clone());
        Some(Transmit { face: FaceId(0) })
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        self.timer.map(|timer| (timer, TimerId(0)))
    }
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
}
