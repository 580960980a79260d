//! Links as sans-I/O objects: a [`Queue`] under a discipline, an exact [`Serialiser`] or a recorded [`Delivery`], a
//! [`LossProcess`] and a [`Wire`] with delay, composed by [`Link`].
//!
//! ```text
//!            ┌───────┐   ┌────────────┐   ┌──────┐   ┌────────────────┐
//! enqueue ──►│ Queue │──►│ Serialiser │──►│ Loss │──►│ Wire           │──► poll_deliver
//!            └───┬───┘   └────────────┘   └──┬───┘   │ delay, jitter, │
//!             dropped                       lost     │ reorder, copy  │
//!                                                    └────────────────┘
//! ```
//! The simulator wires links between nodes; the real driver puts them in front of a UDP socket.
//!
//! | what | file |
//! |---|---|
//! | the properties of a link, counters | [`config`] |
//! | the queue, and the disciplines | [`queue`] |
//! | a rate, exactly | [`serialiser`] |
//! | a rate and bursts beyond it | [`bucket`] |
//! | recorded opportunities to send (mahimahi) | [`delivery`] |
//! | changes in the course of time | [`script`] |
//! | loss | [`loss`] |
//! | delay, jitter, reordering | [`wire`] |
pub mod bucket;
pub mod config;
pub mod delivery;
pub mod loss;
mod pacer;
pub mod queue;
pub mod script;
pub mod serialiser;
mod shelf;
#[cfg(test)]
mod tests;
pub mod wire;

use bytes::Bytes;

use crate::{Datagram, Duration, Random, Rate, Time, earlier};
use pacer::Pacer;
use queue::Verdict;
use script::Prompter;
use shelf::{Place, Shelf};

pub use bucket::TokenBucket;
pub use config::{LinkChange, LinkConfig, LinkState, LinkStats, Reorder};
pub use delivery::{Delivery, DeliveryTrace};
pub use loss::{Fate, Loss, LossProcess};
pub use queue::{Discipline, Queue, QueueDiscipline};
pub use script::Script;
pub use serialiser::Serialiser;
pub use wire::Wire;

crate::declared! {
    /// One direction of a link.
    ///
    /// Calls, in this order and with a `now` that never decreases: [`Link::enqueue`] and the setters at any time;
    /// [`Link::poll_deliver`] until it returns `None` whenever [`Link::poll_timeout`] is reached.
    ///
    /// Packets leave in order of arrival, except those delayed by [`Reorder`]. At any time `in + duplicated = out +
    /// lost + dropped + oversize + in flight`; see [`LinkStats`].
    #[derive(Clone, Debug)]
    pub struct Link {
        /// The packets, while queue, serialiser and wire pass on their numbers; moving packets costs more.
        shelf: Shelf = Shelf::default(),
        queue: Queue<Place> = Queue::new(config.queue_bytes, config.queue_packets, config.discipline, rate),
        pacer: Pacer = pacer,
        sending: Option<Place> = None,
        loss: LossProcess = LossProcess::new(config.loss),
        wire: Wire<Place> = Wire::new(config.delay, config.jitter, config.reorder),
        state: LinkState = LinkState::Up,
        duplicate: f64 = config.duplicate,
        corrupt: f64 = config.corrupt,
        overhead_bytes: u32 = config.overhead_bytes,
        mtu: u32 = config.mtu,
        script: Option<Prompter> = config.script.map(Prompter::new),
        random: Random = random,
        stats: LinkStats = LinkStats::default(),
    }
    /// An idle link in state [`LinkState::Up`]. All its random choices come from `random`.
    pub fn new(config: LinkConfig, random: Random) {
        let pacer = Pacer::new(config.rate, config.burst_bytes, config.delivery);
        let rate = pacer.rate();
    }
}

impl Link {
    /// Takes one packet from the sending end.
    #[inline]
    pub fn enqueue(&mut self, now: Time, datagram: Datagram) {
        let bytes = datagram.len() as u64;
        self.stats.in_packets += 1;
        self.stats.in_bytes += bytes;
        self.follow_script(now);
        if self.state == LinkState::Down {
            self.count_lost(bytes);
            return;
        }
        if bytes > u64::from(self.mtu) {
            self.stats.oversize_packets += 1;
            self.stats.oversize_bytes += bytes;
            return;
        }
        if self.pacer.is_unlimited() {
            let place = self.shelf.put(datagram);
            self.launch(now, place);
            return;
        }
        self.advance(now);
        let wire_bytes = self.wire_bytes(bytes);
        let is_idle = self.sending.is_none();
        let verdict = match is_idle {
            true => self.queue.bypass(now, wire_bytes, &mut self.random),
            false => self.queue.admit(now, wire_bytes, &mut self.random),
        };
        if verdict == Verdict::Drop {
            self.count_dropped(bytes);
            return;
        }
        let place = self.shelf.put(datagram);
        if verdict == Verdict::Mark {
            self.mark(place);
        }
        if is_idle {
            self.start(now, wire_bytes, place);
        } else {
            self.queue.push(now, wire_bytes, place);
        }
    }
    /// The next packet that has reached the far end at `now`, earliest first.
    #[inline]
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
    /// No packet arrives before this time; `None` if nothing is in transit or nothing moves (rate zero).
    ///
    /// Usually a packet does arrive then; it may turn out to be lost or late, and the time moves on.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Time> {
        let earliest_of_sending = match self.sending {
            Some(_) => self.pacer.free_at().map(|end| end + self.wire.delay),
            None => None,
        };
        // A change matters only to packets that have not left yet; an idle link catches up with its script when it is
        // used.
        let change = self.script.as_ref().filter(|_| self.sending.is_some()).and_then(Prompter::next_due);
        earlier(earlier(self.wire.next_due(), earliest_of_sending), change)
    }
    /// Changes one property at run time.
    ///
    /// - A cut loses waiting packets and the one being sent; those on the wire still arrive.
    /// - A rate applies to the rest of the packet that is being sent.
    /// - A delay and a loss process apply to packets that are not yet on the wire; order is kept.
    /// - A limit of the queue does not affect packets that wait already.
    pub fn apply(&mut self, now: Time, change: LinkChange) {
        self.advance(now);
        self.change(now, change);
        self.advance(now);
    }
    /// Whether packets pass.
    pub fn state(&self) -> LinkState {
        self.state
    }
    /// The current rate; the mean rate of a recording; `None` is unlimited.
    pub fn rate(&self) -> Option<Rate> {
        self.pacer.rate()
    }
    /// The current propagation delay without jitter.
    pub fn delay(&self) -> Duration {
        self.wire.delay
    }
    /// Packets that wait, are being sent, or are on the wire.
    pub fn in_flight(&self) -> u64 {
        self.queue.len() as u64 + u64::from(self.sending.is_some()) + self.wire.len() as u64
    }
    /// Places allocated for packets: the maximum ever in it at once.
    pub fn packet_places(&self) -> usize {
        self.shelf.len()
    }
    /// Counters since the link was made.
    pub fn stats(&self) -> LinkStats {
        LinkStats { queue_bytes: self.queue.bytes(), queue_bytes_max: self.queue.bytes_peak(), ..self.stats }
    }

    /// Brings everything before the wire up to `now`.
    #[inline]
    fn advance(&mut self, now: Time) {
        self.follow_script(now);
        self.serve(now);
    }
    /// Makes the changes that are due, each after all earlier events.
    #[inline]
    fn follow_script(&mut self, now: Time) {
        if self.script.is_some() {
            self.follow_the_script(now);
        }
    }
    fn follow_the_script(&mut self, now: Time) {
        while let Some((due, change)) = self.script.as_mut().and_then(|script| script.poll(now)) {
            self.serve(due);
            self.change(due, change);
        }
    }
    /// Brings queue and serialiser up to `now`.
    #[inline]
    fn serve(&mut self, now: Time) {
        while let Some(sent) = self.sending
            && let Some(end) = self.pacer.free_at()
            && end <= now
        {
            self.finish(end, sent);
        }
    }
    /// The packet that was being sent has left; the next one starts.
    fn finish(&mut self, end: Time, sent: Place) {
        self.sending = None;
        self.launch(end, sent);
        while let Some((wire_bytes, next, verdict)) = self.queue.pop(end) {
            match verdict {
                Verdict::Drop => {
                    let bytes = self.shelf.take(next).len() as u64;
                    self.count_dropped(bytes);
                    continue;
                }
                Verdict::Mark => self.mark(next),
                Verdict::Pass => {}
            }
            self.start(end, wire_bytes, next);
            break;
        }
    }
    fn change(&mut self, now: Time, change: LinkChange) {
        match change {
            LinkChange::State(state) => {
                self.state = state;
                if state == LinkState::Down {
                    self.lose_all(now);
                }
            }
            LinkChange::Rate(rate) => {
                let bytes = self.sending.map(|place| self.shelf.packet_mut(place).len() as u64);
                let bytes = bytes.map(|bytes| self.wire_bytes(bytes));
                self.pacer.set_rate(now, rate, bytes);
            }
            LinkChange::Delay(delay) => self.wire.delay = delay,
            LinkChange::Loss(loss) => self.loss = LossProcess::new(loss),
            LinkChange::QueueBytes(bytes) => self.queue.set_bytes_max(bytes),
            LinkChange::Reorder(reorder) => self.wire.reorder = reorder,
            LinkChange::Duplicate(probability) => self.duplicate = probability,
            LinkChange::Corrupt(probability) => self.corrupt = probability,
            LinkChange::Mtu(bytes) => self.mtu = bytes,
        }
    }
    /// Loses the packets that have not left yet.
    fn lose_all(&mut self, now: Time) {
        if let Some(place) = self.sending.take() {
            self.lose(place);
        }
        while let Some(place) = self.queue.discard() {
            self.lose(place);
        }
        self.pacer.abort(now);
    }
    fn mark(&mut self, place: Place) {
        self.shelf.packet_mut(place).set_marked();
        self.stats.marked_packets += 1;
    }
    fn start(&mut self, now: Time, wire_bytes: u64, place: Place) {
        self.pacer.start(now, wire_bytes);
        self.sending = Some(place);
    }
    /// The last bit has left at `now`: the fate of the packet on the wire is decided here.
    #[inline]
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
    #[inline]
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
    fn count_dropped(&mut self, bytes: u64) {
        self.stats.dropped_packets += 1;
        self.stats.dropped_bytes += bytes;
    }
    fn count_lost(&mut self, bytes: u64) {
        self.stats.lost_packets += 1;
        self.stats.lost_bytes += bytes;
    }
}

/// A copy of `datagram` with bit number `bit` inverted.
fn flip_bit(datagram: &Datagram, bit: u64) -> Datagram {
    let mut bytes = datagram.to_vec();
    let index = usize::try_from(bit / 8).unwrap_or(0);
    bytes[index] ^= 1 << (bit % 8);
    let mut flipped = Datagram::from(Bytes::from(bytes));
    if datagram.is_marked() {
        flipped.set_marked();
    }
    flipped
}
