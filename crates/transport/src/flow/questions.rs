//! A sub-flow's measurements of its path: window, deadlines, rates.
use super::*;
use crate::window::portion_bytes;

impl Flow {
    /// How many packets may be requested at `now`; zero if it must wait for answers or for its pace.
    pub(crate) fn room(&self, now: Time) -> u32 {
        if let Some(silence) = self.silent {
            return u32::from(silence.probe_at <= now);
        }
        if self.requests.len() >= REQUESTS_MAX {
            return 0;
        }
        if let Some(request_at) = self.alone_at() {
            return u32::from(request_at <= now && self.in_flight == 0);
        }
        if self.pace_at > now && self.pace().is_some() {
            return 0;
        }
        let window = self.window();
        let free = (window.saturating_sub(self.in_flight) / self.packet_bytes) as u32;
        if free == 0 {
            return 0;
        }
        let portion = self.portion();
        // Waiting for a full portion keeps requests few; an idle path requests at once.
        if free >= portion || self.in_flight == 0 { free.min(portion) } else { 0 }
    }
    /// When the next packet may be requested, if each packet is requested alone.
    pub(super) fn alone_at(&self) -> Option<Time> {
        self.unproven.and_then(|unproven| unproven.request_at)
    }
    /// The rate of requests. A large first window in one burst would overflow the queue that it was made to fill; a
    /// small one would only delay that.
    pub(super) fn pace(&self) -> Option<Rate> {
        let is_large = self.requested_packets >= UNPACED_PACKETS && self.rtt.smoothed().is_none();
        self.controller.pacing_rate().or(self.pace_initial.filter(|_| is_large))
    }
    /// Packets per request at the path's rate.
    pub(super) fn portion(&self) -> u32 {
        let quarter = (self.window() / self.packet_bytes / 4) as u32;
        let most = self.controller.burst_max().unwrap_or(Duration::MAX).min(self.config.request_duration);
        let by_rate = match self.pace() {
            Some(rate) => {
                (portion_bytes(rate, most, self.config.request_burst, self.packet_bytes) / self.packet_bytes) as u32
            }
            None => quarter,
        };
        let portion = by_rate.min(quarter).clamp(1, u32::from(self.config.request_packets_max));
        // A multiple of the source's send batches, if it is at least one.
        let per_send = (SEND_BYTES / self.packet_bytes).max(1) as u32;
        if portion > per_send { portion - portion % per_send } else { portion }
    }
    /// When to look at the path again: its pace, its silence, its next probe.
    pub(crate) fn deadline(&self, polled_at: Time) -> Option<Time> {
        let next = match self.silent {
            Some(silence) => silence.probe_at,
            None => self.alone_at().unwrap_or(self.pace_at),
        };
        // A request that was possible at the last poll and not made waits for an arrival, not for time.
        let waits = next > polled_at && (self.silent.is_some() || self.in_flight < self.window());
        let Some(oldest) = self.requests.iter().find(|request| request.waiting != 0) else {
            return waits.then_some(next);
        };
        let due = self.silence_after(oldest).min(oldest.sent_at + self.rtt.rto() * OVERDUE_RTOS);
        Some(if waits { due.min(next) } else { due })
    }
    pub(super) fn silence_deadline(&self) -> Option<Time> {
        let oldest = self.requests.iter().find(|request| request.waiting != 0)?;
        Some(self.silence_after(oldest))
    }
    pub(super) fn silence_after(&self, oldest: &Outstanding) -> Time {
        (self.last_arrival.max(oldest.sent_at) + self.rtt.rto()).max(self.excused_until)
    }
    /// The cache use that request `number` allowed; `None` if the request is forgotten.
    pub(crate) fn cache_use(&self, number: u16) -> Option<CacheUse> {
        let index = usize::from(number.wrapping_sub(self.first_number));
        self.requests.get(index).map(|request| request.caches)
    }
    /// Whether the answer to request `number` for `packet` is lost and not only late: later requests have been answered
    /// beyond any reordering that the path has ever shown.
    pub(crate) fn was_overtaken(&self, number: u16, packet: u32) -> bool {
        let age = self.first_number.wrapping_sub(number);
        if (1..u16::MAX / 2).contains(&age) {
            // It is forgotten: numbers are consecutive.
            return true;
        }
        let index = usize::from(number.wrapping_sub(self.first_number));
        self.requests.get(index).is_some_and(|request| {
            let sequence = request.position(packet).map_or(0, |position| request.first_sequence + u64::from(position));
            sequence + self.reordering.packets <= self.highest_arrived
        })
    }
    /// Whether the answer to a request for a packet is still waited for.
    pub(crate) fn waits_for(&self, number: u16, packet: u32) -> bool {
        let request = self.requests.get(usize::from(number.wrapping_sub(self.first_number)));
        request.is_some_and(|request| {
            request.position(packet).is_some_and(|position| request.waiting & 1u64 << position != 0)
        })
    }
    /// Whether a packet at `now` arrives too soon after request `number` to be its answer: in less than half of the
    /// smallest round trip. On lossy paths few samples set that minimum, and an earlier answer is often the first to
    /// find the queue empty.
    pub(crate) fn is_too_soon(&self, now: Time, number: u16) -> bool {
        let request = self.requests.get(usize::from(number.wrapping_sub(self.first_number)));
        request.zip(self.rtt.minimum()).is_some_and(|(request, minimum)| now.since(request.sent_at) < minimum / 2)
    }
    /// Whether `packet` of request `number` was declared lost and is remembered.
    pub(crate) fn took_for_lost(&self, number: u16, packet: u32) -> bool {
        let request = self.requests.get(usize::from(number.wrapping_sub(self.first_number)));
        request.is_some_and(|request| request.position(packet).is_some_and(|at| request.lost & (1 << at) != 0))
    }
    /// Since when it has been silent; `None` if it answers.
    pub(crate) fn silent_since(&self) -> Option<Time> {
        self.silent.map(|silence| silence.since)
    }
    /// The longest time that an answer to a request at `now` may take: twice the timeout, because the queue may grow as
    /// fast as it drains, so that the true round trip is twice the last sample. On a silent path at least the duration
    /// of the silence, because no newer sample exists.
    pub(crate) fn answer_time(&self, now: Time) -> Duration {
        let silent = self.silent.map_or(Duration::ZERO, |silence| now.since(silence.since));
        (self.rtt.rto() * ANSWER_RTOS).max(silent)
    }
    /// Bytes that may be in flight: the controller's window, but on a slow link not so far beyond the bandwidth-delay
    /// product that other flows would wait longer than [`QUEUE_TIME_MAX`]. The window's minimum for portions, sharing
    /// and probing is a number of packets, and ten packets last 12 s on a link of 9,600 bit/s.
    pub(crate) fn window(&self) -> u64 {
        let window = self.controller.window().max(self.packet_bytes);
        let (Some(rate), Some(minimum)) = (self.slow_rate, self.rtt.minimum()) else { return window };
        let most = rate.bytes_in(minimum + QUEUE_TIME_MAX);
        window.min(most.max(WINDOW_PACKETS_MIN * self.packet_bytes))
    }
    pub(super) fn current_rate(&self) -> Option<Rate> {
        self.controller.pacing_rate().filter(|rate| rate.bits_per_second() > 0)
    }
    /// Whether `bytes` are a matter of some milliseconds.
    pub(crate) fn is_quick_with(&self, bytes: u64) -> bool {
        self.current_rate().is_some_and(|rate| rate.bytes_in(QUICK) >= bytes)
    }
    /// When `packets` requested at `now` would have arrived.
    pub(crate) fn arrival_of(&self, now: Time, packets: u32) -> Time {
        let per_packet = self.current_rate().map_or(Duration::ZERO, |rate| rate.time_for(self.packet_bytes));
        now + self.rtt.smoothed().unwrap_or_else(|| self.rtt.rto()) + per_packet * packets
    }

    /// Bytes requested from `now` on that arrive by `eta` at the path's rate; zero while it is silent.
    pub(crate) fn brings_until(&self, now: Time, eta: Time) -> u64 {
        let Some(rate) = self.current_rate().filter(|_| self.silent.is_none()) else { return 0 };
        rate.bytes_in(eta.since(self.arrival_of(now, 1)))
    }
}
