//! The queue in front of a link, and the admission to it: a FIFO [`Queue`] under a [`Discipline`].
//!
//! | word of a scenario | discipline | file |
//! |---|---|---|
//! | `drop-tail` | drops packets beyond the limits | [`drop_tail`] |
//! | `red` | random early detection, gentle | [`red`] |
//! | `codel` | controlled delay, RFC 8289 | [`codel`] |
//! | `threshold` | marks beyond a length, as data-centre switches do | [`threshold`] |
//!
//! The limits in bytes and packets hold under every discipline.
pub mod codel;
pub mod drop_tail;
pub mod red;
pub mod threshold;

use alloc::collections::VecDeque;

use crate::{Duration, Random, Rate, Time};
use codel::{CoDel, CoDelConfig};
use drop_tail::DropTail;
use red::{Red, RedConfig};
use threshold::{Threshold, ThresholdConfig};

/// Decides which packets of a queue are dropped or marked. It sees lengths and times, never the packets.
///
/// For each packet: [`Discipline::on_arrival`] once; if it may wait, [`Discipline::on_departure`] once, when the
/// serialiser asks for it. [`Discipline::on_idle`] whenever the serialiser asks and nothing waits.
pub trait Discipline {
    /// What becomes of a packet that counts as `bytes` and finds `backlog` waiting.
    fn on_arrival(&mut self, now: Time, bytes: u64, backlog: Backlog, random: &mut Random) -> Verdict {
        let _ = (now, bytes, backlog, random);
        Verdict::Pass
    }
    /// What becomes of the oldest packet, which waited for `sojourn` and leaves `backlog` behind.
    fn on_departure(&mut self, now: Time, sojourn: Duration, backlog: Backlog) -> Verdict {
        let _ = (now, sojourn, backlog);
        Verdict::Pass
    }
    /// Nothing waits at `now`, and the serialiser has nothing to do.
    fn on_idle(&mut self, now: Time) {
        let _ = now;
    }
}

/// The waiting packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Backlog {
    /// Packets.
    pub packets: u64,
    /// Bytes, those per packet that only count on the wire included.
    pub bytes: u64,
}

/// What becomes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The packet passes.
    Pass,
    /// The packet passes with a congestion mark; see [`Datagram::is_marked`](crate::Datagram::is_marked).
    Mark,
    /// It is dropped.
    Drop,
}

/// How a discipline signals congestion where it can choose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Signal {
    /// By dropping.
    #[default]
    Drop,
    /// By marking (RFC 3168).
    Mark,
}
impl Signal {
    fn verdict(self) -> Verdict {
        match self {
            Signal::Drop => Verdict::Drop,
            Signal::Mark => Verdict::Mark,
        }
    }
}

/// The unit of a queue's length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Measure {
    /// In bytes.
    #[default]
    Bytes,
    /// In packets.
    Packets,
}
impl Measure {
    /// The length of `backlog` in this measure.
    pub fn of(self, backlog: Backlog) -> u64 {
        match self {
            Measure::Bytes => backlog.bytes,
            Measure::Packets => backlog.packets,
        }
    }
}

/// Which discipline a queue has.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum QueueDiscipline {
    /// Drops packets beyond the limits.
    #[default]
    DropTail,
    /// Random early detection.
    Red(RedConfig),
    /// Controlled delay.
    CoDel(CoDelConfig),
    /// Marks beyond a length.
    Threshold(ThresholdConfig),
}
impl QueueDiscipline {
    /// All disciplines with their words, each with its defaults.
    pub const ALL: [(&'static str, QueueDiscipline); 4] = [
        ("drop-tail", QueueDiscipline::DropTail),
        ("red", QueueDiscipline::Red(RedConfig::DEFAULT)),
        ("codel", QueueDiscipline::CoDel(CoDelConfig::DEFAULT)),
        ("threshold", QueueDiscipline::Threshold(ThresholdConfig::DEFAULT)),
    ];
}

/// A discipline at work. An enum, because links are cloned and the commonest one must cost nothing.
#[derive(Clone, Debug)]
enum Active {
    DropTail(DropTail),
    Red(Red),
    CoDel(CoDel),
    Threshold(Threshold),
}
impl Active {
    fn new(discipline: QueueDiscipline, rate: Option<Rate>) -> Self {
        match discipline {
            QueueDiscipline::DropTail => Active::DropTail(DropTail),
            QueueDiscipline::Red(config) => Active::Red(Red::new(config, rate)),
            QueueDiscipline::CoDel(config) => Active::CoDel(CoDel::new(config)),
            QueueDiscipline::Threshold(config) => Active::Threshold(Threshold::new(config)),
        }
    }
    fn discipline(&mut self) -> &mut dyn Discipline {
        match self {
            Active::DropTail(inner) => inner,
            Active::Red(inner) => inner,
            Active::CoDel(inner) => inner,
            Active::Threshold(inner) => inner,
        }
    }
    fn is_drop_tail(&self) -> bool {
        matches!(self, Active::DropTail(_))
    }
}

/// Packets that wait, oldest first, within limits in bytes and packets and under a discipline.
#[derive(Clone, Debug)]
pub struct Queue<T> {
    packets: VecDeque<(Time, u64, T)>,
    bytes: u64,
    bytes_peak: u64,
    bytes_max: u64,
    packets_max: u64,
    active: Active,
}

impl<T> Queue<T> {
    /// An empty queue for `bytes_max` bytes and `packets_max` packets (`None` is any number). `rate` is the rate of the
    /// serialiser behind the queue (`None` if it is unlimited); disciplines that measure idle times in packets use it.
    pub fn new(bytes_max: u64, packets_max: Option<u64>, discipline: QueueDiscipline, rate: Option<Rate>) -> Self {
        let packets_max = packets_max.unwrap_or(u64::MAX);
        let active = Active::new(discipline, rate);
        Queue { packets: VecDeque::new(), bytes: 0, bytes_peak: 0, bytes_max, packets_max, active }
    }
    /// What becomes of a packet that counts as `bytes`: unless it is dropped, [`Queue::push`] must follow.
    pub fn admit(&mut self, now: Time, bytes: u64, random: &mut Random) -> Verdict {
        if !self.has_room(bytes) {
            return Verdict::Drop;
        }
        if self.active.is_drop_tail() {
            return Verdict::Pass;
        }
        let backlog = self.backlog();
        self.active.discipline().on_arrival(now, bytes, backlog, random)
    }
    /// What becomes of a packet that counts as `bytes` and need not wait, because nothing is being sent.
    pub fn bypass(&mut self, now: Time, bytes: u64, random: &mut Random) -> Verdict {
        if self.active.is_drop_tail() {
            return Verdict::Pass;
        }
        let discipline = self.active.discipline();
        match discipline.on_arrival(now, bytes, Backlog::default(), random) {
            Verdict::Drop => Verdict::Drop,
            // The queue is empty and the packet did not wait: no discipline drops it at the head, but each must be
            // informed.
            verdict @ (Verdict::Pass | Verdict::Mark) => {
                discipline.on_departure(now, Duration::ZERO, Backlog::default());
                verdict
            }
        }
    }
    /// Whether a packet that counts as `bytes` is within the limits.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.bytes.saturating_add(bytes) <= self.bytes_max && (self.packets.len() as u64) < self.packets_max
    }
    /// Appends a packet that counts as `bytes`.
    ///
    /// # Panics
    /// If the queue is full.
    pub fn push(&mut self, now: Time, bytes: u64, packet: T) {
        assert!(self.has_room(bytes), "{} bytes wait, {bytes} more exceed {}", self.bytes, self.bytes_max);
        self.bytes += bytes;
        self.bytes_peak = self.bytes_peak.max(self.bytes);
        self.packets.push_back((now, bytes, packet));
    }
    /// Takes the oldest packet, its counted bytes, and its fate; after a dropped one, call again.
    pub fn pop(&mut self, now: Time) -> Option<(u64, T, Verdict)> {
        let Some((since, bytes, packet)) = self.packets.pop_front() else {
            if !self.active.is_drop_tail() {
                self.active.discipline().on_idle(now);
            }
            return None;
        };
        self.bytes -= bytes;
        if self.active.is_drop_tail() {
            return Some((bytes, packet, Verdict::Pass));
        }
        let backlog = self.backlog();
        Some((bytes, packet, self.active.discipline().on_departure(now, now.since(since), backlog)))
    }
    /// Takes the oldest packet without asking the discipline: the queue is being emptied.
    pub fn discard(&mut self) -> Option<T> {
        let (_, bytes, packet) = self.packets.pop_front()?;
        self.bytes -= bytes;
        Some(packet)
    }
    /// Changes the limit in bytes; queued packets stay.
    pub fn set_bytes_max(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
    }
    /// Packets that wait.
    pub fn len(&self) -> usize {
        self.packets.len()
    }
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
    /// Bytes that wait.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
    /// Most bytes that ever waited.
    pub fn bytes_peak(&self) -> u64 {
        self.bytes_peak
    }
    fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets.len() as u64, bytes: self.bytes }
    }
}
