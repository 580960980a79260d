//! Links as sans-I/O objects: a drop-tail [`Queue`], an exact [`Serialiser`], a [`LossProcess`] and a
//! [`Wire`] with delay, composed by [`Link`].
//!
//! ```text
//!            ┌───────┐   ┌────────────┐   ┌──────┐   ┌────────────────┐
//! enqueue ──►│ Queue │──►│ Serialiser │──►│ Loss │──►│ Wire           │──► poll_deliver
//!            └───┬───┘   └────────────┘   └──┬───┘   │ delay, jitter, │
//!             dropped                       lost     │ reorder, copy  │
//!                                                    └────────────────┘
//! ```
//! The simulator wires links between nodes; the real driver puts them in front of a UDP socket.
use alloc::{
    collections::{VecDeque, vec_deque},
    vec::Vec,
};
use bytes::Bytes;

use crate::{Datagram, Duration, Random, Rate, Time};

/// One direction of a link.
///
/// Calls, in this order and with a `now` that never goes back: [`Link::enqueue`] and the setters at any
/// time; [`Link::poll_deliver`] until it gives `None` whenever [`Link::poll_timeout`] is reached.
///
/// Packets leave in the order in which they came, save those that [`Reorder`] holds back.
/// At any time `in + duplicated = out + lost + dropped + oversize + in flight`; see [`LinkStats`].
#[derive(Clone, Debug)]
pub struct Link {
    /// Where packets lie while queue, serialiser and wire pass their numbers on; moving packets costs more.
    shelf: Shelf,
    queue: Queue<Place>,
    serialiser: Serialiser,
    sending: Option<Place>,
    loss: LossProcess,
    wire: Wire<Place>,
    state: LinkState,
    duplicate: f64,
    corrupt: f64,
    overhead_bytes: u32,
    mtu: u32,
    random: Random,
    stats: LinkStats,
}

impl Link {
    /// An idle link in state [`LinkState::Up`]. All its random choices come from `random`.
    pub fn new(config: LinkConfig, random: Random) -> Self {
        Link {
            shelf: Shelf::default(),
            queue: Queue::new(config.queue_bytes),
            serialiser: Serialiser::new(config.rate),
            sending: None,
            loss: LossProcess::new(config.loss),
            wire: Wire::new(config.delay, config.jitter, config.reorder),
            state: LinkState::Up,
            duplicate: config.duplicate,
            corrupt: config.corrupt,
            overhead_bytes: config.overhead_bytes,
            mtu: config.mtu,
            random,
            stats: LinkStats::default(),
        }
    }
    /// Takes one packet from the sending end.
    pub fn enqueue(&mut self, now: Time, datagram: Datagram) {
        let bytes = datagram.len() as u64;
        self.stats.in_packets += 1;
        self.stats.in_bytes += bytes;
        if self.state == LinkState::Down {
            self.count_lost(bytes);
            return;
        }
        if bytes > u64::from(self.mtu) {
            self.stats.oversize_packets += 1;
            self.stats.oversize_bytes += bytes;
            return;
        }
        if self.serialiser.is_unlimited() {
            let place = self.shelf.put(datagram);
            self.launch(now, place);
            return;
        }
        self.advance(now);
        let wire_bytes = self.wire_bytes(bytes);
        if self.sending.is_none() {
            let place = self.shelf.put(datagram);
            self.start(now, wire_bytes, place);
        } else if self.queue.has_room(wire_bytes) {
            self.queue.push(wire_bytes, self.shelf.put(datagram));
        } else {
            self.stats.dropped_packets += 1;
            self.stats.dropped_bytes += bytes;
        }
    }
    /// The next packet that has reached the far end at `now`, earliest first.
    pub fn poll_deliver(&mut self, now: Time) -> Option<Datagram> {
        self.advance(now);
        let (_, place) = self.wire.pop(now)?;
        Some(self.deliver(place))
    }
    /// Like [`Link::poll_deliver`], with the exact time of arrival, which is `now` or earlier.
    pub fn poll_arrival(&mut self, now: Time) -> Option<(Time, Datagram)> {
        self.advance(now);
        let (due, place) = self.wire.pop(now)?;
        Some((due, self.deliver(place)))
    }
    /// No packet arrives before this time; `None` if nothing is under way or nothing moves (rate zero).
    ///
    /// Usually a packet does arrive then; it may turn out to be lost or late, and the time moves on.
    pub fn poll_timeout(&self) -> Option<Time> {
        let earliest_of_sending = match self.sending {
            Some(_) => self.serialiser.free_at().map(|end| end + self.wire.delay),
            None => None,
        };
        match (self.wire.next_due(), earliest_of_sending) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
    /// Changes one property at run time.
    pub fn apply(&mut self, now: Time, change: LinkChange) {
        match change {
            LinkChange::State(state) => self.set_state(now, state),
            LinkChange::Rate(rate) => self.set_rate(now, rate),
            LinkChange::Delay(delay) => self.set_delay(now, delay),
            LinkChange::Loss(loss) => self.set_loss(now, loss),
            LinkChange::QueueBytes(bytes) => self.set_queue_bytes(now, bytes),
        }
    }
    /// Cuts or mends the link. A cut loses what waits and what is being sent; what is on the wire still arrives.
    pub fn set_state(&mut self, now: Time, state: LinkState) {
        self.advance(now);
        self.state = state;
        if state == LinkState::Down {
            if let Some(place) = self.sending.take() {
                self.lose(place);
            }
            while let Some((_, place)) = self.queue.pop() {
                self.lose(place);
            }
            self.serialiser.abort(now);
        }
    }
    /// Changes the rate; the rest of the packet that is being sent goes at the new rate.
    pub fn set_rate(&mut self, now: Time, rate: Option<Rate>) {
        self.advance(now);
        self.serialiser.set_rate(now, rate);
        self.advance(now);
    }
    /// Changes the propagation delay of packets that are not yet on the wire. Order is kept.
    pub fn set_delay(&mut self, now: Time, delay: Duration) {
        self.advance(now);
        self.wire.delay = delay;
    }
    /// Changes the loss of packets that are not yet on the wire.
    pub fn set_loss(&mut self, now: Time, loss: Loss) {
        self.advance(now);
        self.loss = LossProcess::new(loss);
    }
    /// Changes the limit of the queue; what waits already stays.
    pub fn set_queue_bytes(&mut self, now: Time, bytes: u64) {
        self.advance(now);
        self.queue.bytes_max = bytes;
    }
    /// Whether packets pass.
    pub fn state(&self) -> LinkState {
        self.state
    }
    /// The current rate; `None` is unlimited.
    pub fn rate(&self) -> Option<Rate> {
        self.serialiser.rate
    }
    /// The current propagation delay without jitter.
    pub fn delay(&self) -> Duration {
        self.wire.delay
    }
    /// Packets that wait, are being sent, or are on the wire.
    pub fn in_flight(&self) -> u64 {
        self.queue.len() as u64 + u64::from(self.sending.is_some()) + self.wire.len() as u64
    }
    /// Counters since the link was made.
    pub fn stats(&self) -> LinkStats {
        LinkStats { queue_bytes: self.queue.bytes(), queue_bytes_max: self.queue.bytes_peak(), ..self.stats }
    }

    /// Brings queue and serialiser up to `now`.
    fn advance(&mut self, now: Time) {
        while self.sending.is_some()
            && let Some(end) = self.serialiser.free_at()
            && end <= now
        {
            if let Some(sent) = self.sending.take() {
                self.launch(end, sent);
            }
            if let Some((wire_bytes, next)) = self.queue.pop() {
                self.start(end, wire_bytes, next);
            }
        }
    }
    fn start(&mut self, now: Time, wire_bytes: u64, place: Place) {
        self.serialiser.start(now, wire_bytes);
        self.sending = Some(place);
    }
    /// The last bit has left at `now`: the fate of the packet on the wire is decided here.
    fn launch(&mut self, now: Time, place: Place) {
        if self.loss.next(&mut self.random) == Fate::Lost {
            self.lose(place);
            return;
        }
        if self.random.chance(self.corrupt) {
            let datagram = self.shelf.packet_mut(place);
            if !datagram.is_empty() {
                *datagram = flip_bit(datagram, self.random.below(datagram.len() as u64 * 8));
                self.stats.corrupted_packets += 1;
            }
        }
        if self.random.chance(self.duplicate) {
            let copy = self.shelf.packet_mut(place).clone();
            self.stats.duplicated_packets += 1;
            self.stats.duplicated_bytes += copy.len() as u64;
            let place = self.shelf.put(copy);
            self.stats.reordered_packets += u64::from(self.wire.push(now, place, &mut self.random));
        }
        self.stats.reordered_packets += u64::from(self.wire.push(now, place, &mut self.random));
    }
    fn deliver(&mut self, place: Place) -> Datagram {
        let datagram = self.shelf.take(place);
        self.stats.out_packets += 1;
        self.stats.out_bytes += datagram.len() as u64;
        datagram
    }
    fn lose(&mut self, place: Place) {
        let bytes = self.shelf.take(place).len() as u64;
        self.count_lost(bytes);
    }
    fn wire_bytes(&self, bytes: u64) -> u64 {
        bytes + u64::from(self.overhead_bytes)
    }
    fn count_lost(&mut self, bytes: u64) {
        self.stats.lost_packets += 1;
        self.stats.lost_bytes += bytes;
    }
}

/// What a link is like. The default is a perfect wire for datagrams of up to 1,472 bytes.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkConfig {
    /// Rate of the serialiser; `None` is unlimited (then nothing ever waits), zero lets nothing pass.
    pub rate: Option<Rate>,
    /// Propagation delay.
    pub delay: Duration,
    /// Uniform addition to the delay, from zero to this; it never changes the order of packets.
    pub jitter: Duration,
    /// Loss on the wire, after the serialiser: lost packets have used the rate.
    pub loss: Loss,
    /// Bytes that may wait, `overhead_bytes` of each packet included and the packet being sent excluded; what
    /// exceeds it is dropped at the tail. Default 1 MiB.
    pub queue_bytes: u64,
    /// Packets held back behind later ones.
    pub reorder: Reorder,
    /// Probability, 0 to 1, that a packet arrives twice.
    pub duplicate: f64,
    /// Probability, 0 to 1, that one bit of a packet is flipped.
    pub corrupt: f64,
    /// Bytes per packet that count against rate and queue beside the datagram. Default 28: IPv4 and UDP headers.
    pub overhead_bytes: u32,
    /// Longest datagram that passes, without overhead; longer ones are counted as oversize. Default 1,472.
    pub mtu: u32,
}

impl LinkConfig {
    /// A loss-free link of that rate and one-way delay, everything else by default.
    pub fn new(rate: Rate, delay: Duration) -> Self {
        LinkConfig { rate: Some(rate), delay, ..LinkConfig::default() }
    }
}
impl Default for LinkConfig {
    fn default() -> Self {
        LinkConfig {
            rate: None,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: Loss::None,
            queue_bytes: 1 << 20,
            reorder: Reorder::default(),
            duplicate: 0.0,
            corrupt: 0.0,
            overhead_bytes: 28,
            mtu: 1_472,
        }
    }
}

/// Packets that arrive later than their successors.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Reorder {
    /// Probability, 0 to 1, that a packet is held back.
    pub probability: f64,
    /// By how much it is held back.
    pub delay: Duration,
}

/// Whether packets pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LinkState {
    /// They do.
    #[default]
    Up,
    /// All packets offered are lost.
    Down,
}

/// A change of a link at run time; see the setters of [`Link`].
#[derive(Clone, PartialEq, Debug)]
pub enum LinkChange {
    /// Cut or mended.
    State(LinkState),
    /// Another rate; `None` is unlimited.
    Rate(Option<Rate>),
    /// Another propagation delay.
    Delay(Duration),
    /// Another loss process.
    Loss(Loss),
    /// Another limit of the queue.
    QueueBytes(u64),
}

/// Counters of a link. Bytes are those of datagrams, without overhead.
///
/// `in + duplicated = out + lost + dropped + oversize + in flight`, in packets and in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkStats {
    /// Packets offered.
    pub in_packets: u64,
    /// Bytes offered.
    pub in_bytes: u64,
    /// Packets delivered.
    pub out_packets: u64,
    /// Bytes delivered.
    pub out_bytes: u64,
    /// Packets lost on the wire or to a link that is down.
    pub lost_packets: u64,
    /// Bytes lost on the wire or to a link that is down.
    pub lost_bytes: u64,
    /// Packets dropped by the full queue.
    pub dropped_packets: u64,
    /// Bytes dropped by the full queue.
    pub dropped_bytes: u64,
    /// Packets longer than the MTU.
    pub oversize_packets: u64,
    /// Bytes of packets longer than the MTU.
    pub oversize_bytes: u64,
    /// Copies made of packets.
    pub duplicated_packets: u64,
    /// Bytes of the copies.
    pub duplicated_bytes: u64,
    /// Packets with a flipped bit.
    pub corrupted_packets: u64,
    /// Packets held back behind later ones.
    pub reordered_packets: u64,
    /// Bytes that wait now, overhead included.
    pub queue_bytes: u64,
    /// Most bytes that ever waited, overhead included.
    pub queue_bytes_max: u64,
}

/// A drop-tail queue with a limit in bytes.
#[derive(Clone, Debug)]
pub struct Queue<T> {
    packets: VecDeque<(u64, T)>,
    bytes: u64,
    bytes_peak: u64,
    bytes_max: u64,
}

impl<T> Queue<T> {
    /// An empty queue for `bytes_max` bytes.
    pub fn new(bytes_max: u64) -> Self {
        Queue { packets: VecDeque::new(), bytes: 0, bytes_peak: 0, bytes_max }
    }
    /// Whether a packet that counts as `bytes` may be appended; if not, it is to be dropped.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.bytes.saturating_add(bytes) <= self.bytes_max
    }
    /// Appends a packet that counts as `bytes`.
    ///
    /// # Panics
    /// If there is no room.
    pub fn push(&mut self, bytes: u64, packet: T) {
        assert!(self.has_room(bytes), "{} bytes wait, {bytes} more exceed {}", self.bytes, self.bytes_max);
        self.bytes += bytes;
        self.bytes_peak = self.bytes_peak.max(self.bytes);
        self.packets.push_back((bytes, packet));
    }
    /// Takes the oldest packet and the bytes that it counted as.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        let (bytes, packet) = self.packets.pop_front()?;
        self.bytes -= bytes;
        Some((bytes, packet))
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
}

/// Sends one packet after the other at a rate, without drift: the end of the n-th of packets sent back to
/// back is start + ⌊sum of bits ÷ rate⌋, however the bits are cut into packets.
#[derive(Clone, Debug)]
pub struct Serialiser {
    rate: Option<Rate>,
    free_at: Time,
    /// What `free_at` leaves out: this many (1/rate)-ths of a nanosecond.
    carry: u64,
    /// At rate zero: what is still to be sent, in bits × 10⁹.
    stalled: Option<u128>,
}

impl Serialiser {
    /// An idle serialiser; `None` is unlimited, rate zero sends nothing.
    pub fn new(rate: Option<Rate>) -> Self {
        Serialiser { rate, free_at: Time::ZERO, carry: 0, stalled: None }
    }
    /// Starts to send `bytes` at `now`, or when what is being sent has ended.
    pub fn start(&mut self, now: Time, bytes: u64) {
        if now > self.free_at {
            self.free_at = now;
            self.carry = 0;
        }
        self.extend(u128::from(bytes) * 8 * NANOS);
    }
    /// When everything that was started has been sent; `None` for never (rate zero).
    pub fn free_at(&self) -> Option<Time> {
        self.stalled.is_none().then_some(self.free_at)
    }
    /// Whether sending takes no time.
    pub fn is_unlimited(&self) -> bool {
        self.rate.is_none() && self.stalled.is_none()
    }
    /// Changes the rate; what is still to be sent goes at the new rate from `now` on.
    pub fn set_rate(&mut self, now: Time, rate: Option<Rate>) {
        let left = match (self.stalled.take(), self.rate) {
            (Some(left), _) => left,
            (None, Some(old)) if self.free_at > now => {
                let nanos = self.free_at.since(now).as_nanos();
                nanos * u128::from(old.bits_per_second()) + u128::from(self.carry)
            }
            (None, _) => 0,
        };
        self.rate = rate;
        self.free_at = now;
        self.carry = 0;
        if left > 0 {
            self.extend(left);
        }
    }
    /// Forgets what is still to be sent.
    pub fn abort(&mut self, now: Time) {
        self.stalled = None;
        self.carry = 0;
        self.free_at = self.free_at.min(now);
    }

    /// Adds bits × 10⁹ to what is being sent.
    fn extend(&mut self, bits_nanos: u128) {
        let Some(rate) = self.rate else { return };
        let rate = rate.bits_per_second();
        if rate == 0 {
            self.stalled = Some(self.stalled.unwrap_or(0) + bits_nanos);
            return;
        }
        let total = bits_nanos + u128::from(self.carry);
        // Division of 128-bit integers costs ten times as much, and only absurd rates need it.
        let (nanos, carry) = match u64::try_from(total) {
            Ok(total) => (total / rate, total % rate),
            Err(_) => (u64::try_from(total / u128::from(rate)).unwrap_or(u64::MAX), (total % u128::from(rate)) as u64),
        };
        self.free_at += Duration::from_nanos(nanos);
        self.carry = carry;
    }
}

/// How packets get lost.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Loss {
    /// Not at all.
    #[default]
    None,
    /// Each with this probability, independently.
    Bernoulli(f64),
    /// In bursts: a chain of two states that may change at each packet, starting in the good one.
    GilbertElliott {
        /// Probability per packet to go from good to bad.
        good_to_bad: f64,
        /// Probability per packet to go from bad to good; its inverse is the mean length of a burst.
        bad_to_good: f64,
        /// Loss while good.
        loss_good: f64,
        /// Loss while bad.
        loss_bad: f64,
    },
    /// The n-th packet is lost if the n-th entry is true; packets beyond the end pass.
    Mask(Vec<bool>),
}

/// Decides packet by packet what gets lost.
#[derive(Clone, Debug)]
pub struct LossProcess {
    loss: Loss,
    is_bad: bool,
    index: usize,
}

/// What becomes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It goes on.
    Passes,
    /// It is lost.
    Lost,
}

impl LossProcess {
    /// The process at its start.
    pub fn new(loss: Loss) -> Self {
        LossProcess { loss, is_bad: false, index: 0 }
    }
    /// The fate of the next packet.
    pub fn next(&mut self, random: &mut Random) -> Fate {
        let lost = match &self.loss {
            Loss::None => false,
            Loss::Bernoulli(p) => random.chance(*p),
            Loss::GilbertElliott { good_to_bad, bad_to_good, loss_good, loss_bad } => {
                let change = if self.is_bad { bad_to_good } else { good_to_bad };
                self.is_bad ^= random.chance(*change);
                random.chance(if self.is_bad { *loss_bad } else { *loss_good })
            }
            Loss::Mask(mask) => {
                let lost = mask.get(self.index).copied().unwrap_or(false);
                self.index += 1;
                lost
            }
        };
        if lost { Fate::Lost } else { Fate::Passes }
    }
}

/// Packets under way between the serialiser and the far end, by time of arrival.
#[derive(Clone, Debug)]
pub struct Wire<T> {
    packets: VecDeque<(Time, T)>,
    last_due: Time,
    delay: Duration,
    jitter: Duration,
    reorder: Reorder,
}

impl<T> Wire<T> {
    /// An empty wire.
    pub fn new(delay: Duration, jitter: Duration, reorder: Reorder) -> Self {
        Wire { packets: VecDeque::new(), last_due: Time::ZERO, delay, jitter, reorder }
    }
    /// Takes a packet at `now`; gives whether it is held back behind later ones.
    pub fn push(&mut self, now: Time, packet: T, random: &mut Random) -> bool {
        let mut due = now + self.delay;
        if !self.jitter.is_zero() {
            let nanos = u64::try_from(self.jitter.as_nanos()).unwrap_or(u64::MAX - 1);
            due += Duration::from_nanos(random.below(nanos.saturating_add(1)));
        }
        due = due.max(self.last_due);
        let held_back = random.chance(self.reorder.probability);
        if held_back {
            due += self.reorder.delay;
        } else {
            self.last_due = due;
        }
        let mut index = self.packets.len();
        while index > 0 && self.packets[index - 1].0 > due {
            index -= 1;
        }
        if index == self.packets.len() {
            self.packets.push_back((due, packet));
        } else {
            self.packets.insert(index, (due, packet));
        }
        held_back
    }
    /// Takes the next packet that has arrived at `now`, and when it did.
    pub fn pop(&mut self, now: Time) -> Option<(Time, T)> {
        if self.packets.front()?.0 > now {
            return None;
        }
        self.packets.pop_front()
    }
    /// When the next packet arrives.
    pub fn next_due(&self) -> Option<Time> {
        self.packets.front().map(|(due, _)| *due)
    }
    /// Packets under way.
    pub fn len(&self) -> usize {
        self.packets.len()
    }
    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
    /// Packets under way with their times of arrival, next first.
    pub fn iter(&self) -> vec_deque::Iter<'_, (Time, T)> {
        self.packets.iter()
    }
}

/// Packets by number; the numbers of those that left are used again, last one first.
#[derive(Clone, Debug, Default)]
struct Shelf {
    packets: Vec<Option<Datagram>>,
    free: Vec<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Place(u32);

impl Shelf {
    fn put(&mut self, datagram: Datagram) -> Place {
        if let Some(place) = self.free.pop() {
            self.packets[place.0 as usize] = Some(datagram);
            return place;
        }
        self.packets.push(Some(datagram));
        Place(u32::try_from(self.packets.len() - 1).expect("fewer than 2^32 packets fit into memory"))
    }
    fn take(&mut self, place: Place) -> Datagram {
        self.free.push(place);
        self.packets[place.0 as usize].take().expect("a place is taken once")
    }
    fn packet_mut(&mut self, place: Place) -> &mut Datagram {
        self.packets[place.0 as usize].as_mut().expect("a place holds a packet until it is taken")
    }
}

const NANOS: u128 = 1_000_000_000;

/// A copy of `datagram` with bit number `bit` inverted.
fn flip_bit(datagram: &Datagram, bit: u64) -> Datagram {
    let mut bytes = datagram.to_vec();
    let index = usize::try_from(bit / 8).unwrap_or(0);
    bytes[index] ^= 1 << (bit % 8);
    Datagram::from(Bytes::from(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn ms(n: u64) -> Time {
        Time::from_millis(n)
    }
    fn packet(tag: u8, len: usize) -> Datagram {
        Datagram::from(vec![tag; len])
    }
    fn link(config: LinkConfig) -> Link {
        Link::new(config, Random::new(1, 1))
    }
    fn drain(link: &mut Link, now: Time) -> Vec<(u64, u8)> {
        core::iter::from_fn(|| link.poll_arrival(now)).map(|(t, d)| (t.as_nanos(), d.header_bytes()[0])).collect()
    }

    #[test]
    fn delivers_after_serialisation_and_delay() {
        let mut link = link(LinkConfig::new(Rate::from_mbps(8), Duration::from_millis(10)));
        link.enqueue(ms(0), packet(1, 972));
        link.enqueue(ms(0), packet(2, 972));
        assert_eq!(link.poll_timeout(), Some(ms(11)));
        assert!(link.poll_deliver(Time::from_nanos(10_999_999)).is_none());
        assert_eq!(drain(&mut link, ms(11)), [(11_000_000, 1)]);
        assert_eq!(link.poll_timeout(), Some(ms(12)));
        assert_eq!(drain(&mut link, ms(50)), [(12_000_000, 2)]);
        assert_eq!((link.poll_timeout(), link.in_flight()), (None, 0));
    }

    #[test]
    fn queue_takes_exactly_its_limit() {
        let config = LinkConfig { queue_bytes: 2_000, ..LinkConfig::new(Rate::from_mbps(8), Duration::ZERO) };
        let mut at_limit = link(config.clone());
        for _ in 0..3 {
            at_limit.enqueue(ms(0), packet(1, 972));
        }
        assert_eq!((at_limit.stats().dropped_packets, at_limit.stats().queue_bytes_max), (0, 2_000));
        let mut beyond = link(LinkConfig { queue_bytes: 1_999, ..config });
        for _ in 0..3 {
            beyond.enqueue(ms(0), packet(1, 972));
        }
        assert_eq!(beyond.stats().dropped_packets, 1);
    }

    #[test]
    fn mask_loses_exactly_what_it_names() {
        let mut link = link(LinkConfig { loss: Loss::Mask(vec![false, true, true]), ..LinkConfig::default() });
        for tag in 0..5 {
            link.enqueue(ms(1), packet(tag, 10));
        }
        assert_eq!(drain(&mut link, ms(1)), [(1_000_000, 0), (1_000_000, 3), (1_000_000, 4)]);
        assert_eq!(link.stats().lost_packets, 2);
    }

    #[test]
    fn a_rate_change_applies_to_the_rest_of_the_packet_being_sent() {
        let mut link = link(LinkConfig::new(Rate::from_mbps(8), Duration::ZERO));
        link.enqueue(ms(0), packet(1, 972));
        link.set_rate(Time::from_nanos(500_000), Some(Rate::from_mbps(4)));
        assert_eq!(link.poll_timeout(), Some(Time::from_nanos(1_500_000)));
        link.set_rate(ms(1), Some(Rate::from_bits_per_second(0)));
        assert_eq!(link.poll_timeout(), None);
        link.set_rate(ms(100), Some(Rate::from_mbps(1)));
        assert_eq!(link.poll_timeout(), Some(ms(102)));
        link.set_rate(ms(101), None);
        assert_eq!(drain(&mut link, ms(101)), [(101_000_000, 1)]);
    }

    #[test]
    fn a_cut_loses_what_waits_but_not_what_is_on_the_wire() {
        let mut link = link(LinkConfig::new(Rate::from_mbps(8), Duration::from_millis(10)));
        for tag in 0..4 {
            link.enqueue(ms(0), packet(tag, 972));
        }
        link.set_state(Time::from_nanos(1_500_000), LinkState::Down);
        link.enqueue(ms(2), packet(9, 972));
        assert_eq!(link.stats().lost_packets, 4);
        assert_eq!(drain(&mut link, ms(100)), [(11_000_000, 0)]);
        link.set_state(ms(200), LinkState::Up);
        link.enqueue(ms(200), packet(5, 972));
        assert_eq!(link.poll_timeout(), Some(ms(211)));
    }

    #[test]
    fn jitter_and_a_shorter_delay_keep_the_order_and_reorder_breaks_it() {
        let jitter = LinkConfig { jitter: Duration::from_millis(5), ..LinkConfig::default() };
        let mut link_jitter = link(jitter.clone());
        for tag in 0..100 {
            link_jitter.enqueue(Time::from_nanos(u64::from(tag) * 1_000), packet(tag, 10));
        }
        link_jitter.set_delay(ms(1), Duration::ZERO);
        link_jitter.enqueue(ms(1), packet(100, 10));
        let tags: Vec<_> = drain(&mut link_jitter, ms(100)).into_iter().map(|(_, tag)| tag).collect();
        assert_eq!(tags, (0..=100).collect::<Vec<_>>());

        let reorder = Reorder { probability: 0.3, delay: Duration::from_micros(10) };
        let mut link_reorder = link(LinkConfig { reorder, ..jitter });
        for tag in 0..100 {
            link_reorder.enqueue(Time::from_nanos(u64::from(tag) * 1_000), packet(tag, 10));
        }
        let arrivals = drain(&mut link_reorder, ms(100));
        assert!(arrivals.is_sorted_by_key(|(time, _)| *time));
        assert!(!arrivals.is_sorted_by_key(|(_, tag)| *tag));
        assert_eq!(arrivals.len(), 100);
    }

    #[test]
    fn corruption_flips_one_bit_and_duplication_adds_one_copy() {
        let mut link = link(LinkConfig { corrupt: 1.0, duplicate: 1.0, ..LinkConfig::default() });
        link.enqueue(ms(0), packet(0, 100));
        let (a, b) = (link.poll_deliver(ms(0)).expect("first"), link.poll_deliver(ms(0)).expect("copy"));
        assert_eq!(a, b);
        assert_eq!(a.to_vec().iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
        let stats = link.stats();
        assert_eq!((stats.in_packets, stats.duplicated_packets, stats.out_packets), (1, 1, 2));
    }

    #[test]
    fn a_datagram_of_mtu_size_passes_and_one_byte_more_does_not() {
        let mut link = link(LinkConfig { mtu: 100, ..LinkConfig::default() });
        link.enqueue(ms(0), packet(0, 100));
        link.enqueue(ms(0), packet(1, 101));
        assert_eq!(drain(&mut link, ms(0)), [(0, 0)]);
        assert_eq!(link.stats().oversize_packets, 1);
    }

    #[test]
    fn gilbert_elliott_has_its_stationary_loss_in_bursts() {
        let loss = Loss::GilbertElliott { good_to_bad: 0.01, bad_to_good: 0.25, loss_good: 0.0, loss_bad: 1.0 };
        let (mut process, mut random) = (LossProcess::new(loss), Random::new(7, 7));
        let fates: Vec<_> = (0..200_000).map(|_| process.next(&mut random)).collect();
        let lost = fates.iter().filter(|fate| **fate == Fate::Lost).count() as f64;
        let bursts = fates.windows(2).filter(|w| w[0] == Fate::Passes && w[1] == Fate::Lost).count() as f64;
        assert!((lost / 200_000.0 - 0.01 / 0.26).abs() < 0.003, "{lost}");
        assert!((lost / bursts - 4.0).abs() < 0.3, "{}", lost / bursts);
    }

    #[test]
    fn serialiser_does_not_drift() {
        // 7 bytes at 3 Gbit/s take 18.67 ns: a sum of rounded times would be off by a third of a million.
        let rate = Rate::from_mbps(3_000);
        let mut serialiser = Serialiser::new(Some(rate));
        for _ in 0..1_000_000 {
            serialiser.start(Time::ZERO, 7);
        }
        assert_eq!(serialiser.free_at(), Some(Time::ZERO + rate.time_for(7_000_000)));
        // Beyond 64 bits: the same closed form holds.
        let mut fast = Serialiser::new(Some(Rate::from_bits_per_second(u64::MAX)));
        for _ in 0..10 {
            fast.start(Time::ZERO, 1 << 40);
        }
        assert_eq!(fast.free_at(), Some(Time::ZERO + Rate::from_bits_per_second(u64::MAX).time_for(10 << 40)));
    }
}
