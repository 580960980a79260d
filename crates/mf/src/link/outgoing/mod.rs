//! The sending side of a hop (paper §3.2.1, §3.4.1): fragments, CSYN after the chunk, local retransmission of fragments
//! missing in the CACK, pipelined across chunks. The neighbour's advertised window limits it, and so do a local window
//! and pace that tolerate random loss.
//!
//! ```text
//!   begin ──► sending: unsent ──► under way ──► acknowledged ──► done
//!                         ▲            │
//!                         └─ not in a CACK whose CSYN was sent later
//! ```
mod packets;
mod sending;

use alloc::{boxed::Box, collections::BTreeMap, collections::VecDeque, vec, vec::Vec};

use tributary_core::{Duration, Rate, Time};
use tributary_transport::{
    TransferConfig,
    rtt::RttEstimator,
    window::{self, Arrival, Controller, Loss},
};

use self::sending::Sending;
use super::{
    HopConfig,
    buffer::{Buffer, Chunk, Slot},
    windows::{Room, Windows},
};
use crate::{
    ids::{ChunkKey, Guid, HopId},
    wire::{CHUNK_PACKETS_MAX, Cack, CackState, ChunkHeader, Class, DataHeader, Flags},
};

/// Bytes that the headers below a datagram take on a wire, so that the pace matches the link's rate.
const OVERHEAD_BYTES: u64 = 28;
/// Maximum CSYNs with outstanding answers.
const CSYNS_MAX: usize = 4_096;
/// Interrupted chunks whose progress is remembered.
const SUSPENDED_MAX: usize = 64;
/// Maximum chunks in flight at the same time.
const SENDING_MAX: usize = 256;
/// Packets declared lost too early raise the threshold up to this many.
const REORDER_MAX: u64 = 64;
/// The timeout of a CSYN before the first round trip, its minimum and its maximum. The prototype has 2 s between routers
/// and 100 ms at hosts.
pub(super) const RTO_INITIAL: Duration = Duration::from_millis(200);
pub(super) const RTO_MIN: Duration = Duration::from_millis(20);
pub(super) const RTO_MAX: Duration = Duration::from_secs(1);
/// Maximum bytes in flight.
const WINDOW_BYTES_MAX: u64 = 16 << 20;
/// Samples of the delivery rate that survive an interruption.
const RATES_MAX: usize = 16;
/// Minimum time between two queries for a closed window.
const PROBE_INTERVAL_MIN: Duration = Duration::from_millis(100);
/// How long measurements of a link stay valid while the neighbour is away.
const MODEL_LIFE: Duration = Duration::from_secs(10);
/// The first window must not occupy a slow link for longer than this, but has at least the minimum number of packets.
const FIRST_WINDOW_TIME: Duration = Duration::from_secs(1);
const FIRST_WINDOW_PACKETS_MIN: u32 = 4;
/// Before the first answer the time between two queries grows up to this many timeouts: the link may be slower than any
/// guess.
const UNHEARD_TIMEOUTS_MAX: u32 = 64;
/// In `order`: has been acknowledged.
const ACKNOWLEDGED: u64 = u64::MAX;

tributary_core::declared! {
    /// Chunks that leave over one face.
    pub struct Outgoing {
        config: HopConfig = config,
        datagram_bytes: usize = datagram_bytes as usize,
        sending: Vec<Sending> = Vec::new(),
        /// Interrupted chunks; without progress if the neighbour has rebooted since.
        suspended: VecDeque<(ChunkKey, Option<Progress>)> = VecDeque::new(),
        /// Whether a chunk started with a query for the packets that the neighbour has.
        has_asked: bool = false,
        first_hop: u32 = first_hop,
        next_hop: u32 = first_hop.max(1),
        first_csyn: u32 = first_csyn,
        next_csyn: u32 = first_csyn,
        /// Counts packets, so that a CSYN covers those sent before it.
        order: u64 = 0,
        csyns: BTreeMap<u32, Query> = BTreeMap::new(),
        control_queries: packets::Repeated = packets::Repeated::default(),
        /// The neighbour's windows.
        pub(crate) windows: Windows = Windows::default(),
        /// Maximum packets in the neighbour's buffer, as far as it has reported.
        capacity: u32 = u32::MAX,
        controller: Box<dyn Controller> = window::controller(&transfer, u64::from(datagram_bytes), Time::ZERO),
        transfer: TransferConfig = transfer,
        /// The last samples of the delivery rate.
        rates: VecDeque<Rate> = VecDeque::new(),
        rtt: RttEstimator = RttEstimator::new(RTO_INITIAL, RTO_MIN, RTO_MAX),
        reorder: u64 = 0,
        in_flight: u64 = 0,
        /// The neighbour's count of marked packets.
        marked: u8 = 0,
        delivered: u64 = 0,
        delivered_at: Time = Time::ZERO,
        pace_at: Time = Time::ZERO,
        heard_at: Time = Time::ZERO,
        /// Since when the neighbour has been away; losses of packets up to `interrupted_at` are no sign of congestion.
        away_since: Option<Time> = None,
        interrupted_at: u64 = 0,
        starved: bool = true,
        /// Since when the neighbour's window has kept a chunk waiting.
        pub blocked_since: Option<Time> = None,
        probe_at: Time = Time::MAX,
        /// Chunks that the neighbour has completely received.
        pub done: VecDeque<Slot> = VecDeque::new(),
        /// Bytes of the longest datagram acknowledged since the last query; 0 if none.
        pub arrived: u32 = 0,
        /// Counters.
        pub stats: OutgoingStats = OutgoingStats::default(),
    }
    /// A hop with datagrams of at most `datagram_bytes`. `first_hop` is the first hop id: different at every start of
    /// the node, and at each of its faces; so are the numbers of CSYNs, which do not wrap.
    pub fn new(config: HopConfig, datagram_bytes: u32, first_hop: u32) {
        let transfer = TransferConfig {
            window_bytes_max: WINDOW_BYTES_MAX,
            window_initial_packets: config.window_initial_packets,
            shares_queues: false,
            ecn: config.ecn,
            // A hop requests nothing: a window covers what arrives between two acknowledgements.
            request_burst: TransferConfig::default().request_duration,
            rto_min: RTO_MIN,
            rto_initial: RTO_INITIAL,
            rto_max: RTO_MAX,
            ..TransferConfig::default()
        };
        let first_csyn = (first_hop >> 2).max(1);
    }
}

/// Counters of the sending side of a hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OutgoingStats {
    /// Data packets sent.
    pub packets: u64,
    /// Of these, retransmitted.
    pub repeated: u64,
    /// Chunks that the neighbour has completely received.
    pub chunks: u64,
    /// Chunks that the neighbour refused because its buffer was full.
    pub refused: u64,
    /// CSYNs that were not answered in time.
    pub timeouts: u64,
}

/// The state of an interrupted chunk. Packets in transit may still arrive: a link may delay them.
struct Progress {
    hop: HopId,
    /// As in [`Sending`].
    order: Vec<u64>,
    sent_end: u16,
    ever_sent: Vec<bool>,
    lengths: Vec<u32>,
    asks: bool,
}

/// A CSYN that was sent.
struct Query {
    at: Time,
    /// Packets sent up to here should have arrived before it.
    order: u64,
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    starved: bool,
}

impl Outgoing {
    // Inputs.

    /// Sets the slowness of the link: the expected delay of an answer, and the time that a full-length datagram
    /// occupies the link. Until the first chunk is sent, the first window is at most one second's worth of the link,
    /// and the first timeout covers the answer to that whole window.
    pub fn set_slowness(&mut self, now: Time, answer_time: Duration, airtime: Duration) {
        if self.order > 0 || self.delivered > 0 || self.rtt.smoothed().is_some() {
            return;
        }
        let bearable = FIRST_WINDOW_TIME.as_nanos() / airtime.as_nanos().max(1);
        let packets = u32::try_from(bearable).unwrap_or(u32::MAX);
        let packets = packets.clamp(FIRST_WINDOW_PACKETS_MIN, self.config.window_initial_packets.max(1));
        let rto = RTO_INITIAL.max(answer_time + airtime * packets);
        self.rtt = RttEstimator::new(rto, RTO_MIN, RTO_MAX);
        if packets != self.transfer.window_initial_packets {
            self.transfer.window_initial_packets = packets;
            self.controller = window::controller(&self.transfer, self.datagram_bytes as u64, now);
        }
    }
    /// Takes the window from the neighbour's hello; used until the first CACK.
    pub fn set_first_window(&mut self, packets: u32) {
        self.windows.set_first(packets);
        // The advertised window is half of the neighbour's buffer.
        self.capacity = if packets > 0 { packets.saturating_mul(2).saturating_add(1) } else { u32::MAX };
    }
    /// Packets of a chunk on this link, after a new cut if it needs one.
    pub fn packets_of(&self, chunk: &Chunk) -> u32 {
        let Some(header) = chunk.header.as_ref().filter(|_| chunk.is_complete()) else {
            return u32::from(chunk.count());
        };
        let rest = self.datagram_bytes.saturating_sub(DataHeader::BYTES).max(1);
        let first = rest.saturating_sub(header.len()).max(1);
        let fits = (0..).zip(chunk.lengths()).all(|(index, len)| len as usize <= if index == 0 { first } else { rest });
        match fits {
            true => u32::from(chunk.count()),
            false => 1 + header.payload_bytes.saturating_sub(first as u32).div_ceil(rest as u32),
        }
    }
    /// Whether the neighbour's window can ever admit a chunk of this many packets: otherwise the chunk would block all
    /// others forever.
    pub fn can_ever_take(&self, packets: u32) -> bool {
        packets <= self.capacity && packets <= u32::from(CHUNK_PACKETS_MAX)
    }
    /// Limits the link's datagrams to this size from now on; started chunks keep their cut.
    pub fn set_datagram_bytes(&mut self, bytes: u32) {
        self.datagram_bytes = bytes as usize;
    }
    /// Whether a data chunk of `count` packets may start now: all packets of earlier chunks are sent, and the
    /// neighbour's windows admit it.
    pub fn can_begin(&mut self, now: Time, destination: &Guid, count: u32) -> Room {
        let busy = |sending: &Sending| sending.class == Class::Bulk && !sending.parked && sending.has_unsent();
        if self.sending.len() >= SENDING_MAX || self.sending.iter().any(busy) {
            return Room::LinkFull;
        }
        // Refused chunks go first, unless their destination's window is closed.
        let windows = &self.windows;
        let first = |sending: &Sending| {
            windows.room(&sending.destination, sending.order.len() as u32) != Room::DestinationFull
                || sending.destination == *destination
        };
        let room = match self.sending.iter().any(|sending| sending.parked && first(sending)) {
            true => Room::LinkFull,
            false => windows.room(destination, count),
        };
        match room {
            Room::Open => self.blocked_since = None,
            Room::LinkFull => self.on_blocked(now),
            Room::DestinationFull => self.windows.on_blocked(now, destination, self.rtt.rto()),
        }
        room
    }
    /// Whether the neighbour's window for a destination admits `packets` more, regardless of the link's window.
    pub fn has_room_for(&mut self, now: Time, destination: &Guid, packets: u32) -> bool {
        let has_room = self.windows.destination_room(destination) >= packets;
        if !has_room {
            self.windows.on_blocked(now, destination, self.rtt.rto());
        }
        has_room
    }
    /// Starts to send a buffered chunk. An interrupted chunk continues where it stopped.
    pub fn begin(&mut self, now: Time, slot: Slot, buffer: &mut Buffer) {
        if let Some(since) = self.away_since.take() {
            match now.since(since) <= MODEL_LIFE {
                true => self.controller.on_return(now),
                false => self.controller = self.fresh_controller(now),
            }
        }
        let Some(header) = buffer.chunk(slot).and_then(|chunk| chunk.header.as_ref()) else { return };
        let (key, destination, header_len) = (header.key(), header.destination, header.len());
        let is_repeated = header.flags.contains(Flags::REPEATED);
        let suspended = key.and_then(|key| self.suspended.iter().position(|(known, _)| *known == key));
        let suspended = suspended.and_then(|at| self.suspended.remove(at)).map(|(_, progress)| progress);
        let may_be_there = is_repeated || suspended.is_some() || !self.has_asked && self.is_slow();
        let progress = suspended.flatten();
        if let Some(progress) = &progress {
            buffer.cut_as(slot, &progress.lengths);
        }
        let rest = self.datagram_bytes.saturating_sub(DataHeader::BYTES).max(1);
        buffer.fit(slot, rest.saturating_sub(header_len).max(1), rest);
        let Some(chunk) = buffer.chunk(slot) else { return };
        let (count, class, complete) = (chunk.count(), chunk.class, chunk.is_complete());
        let mut sending = Sending {
            slot,
            key,
            destination,
            class,
            hop: HopId(self.next_hop),
            order: vec![0; usize::from(count)],
            ever_sent: vec![false; usize::from(count)],
            left: count,
            query_at: Time::MAX,
            ..Sending::default()
        };
        sending.asks = complete && may_be_there && sending.may_ask();
        self.has_asked |= sending.asks;
        let lengths = chunk.lengths();
        match progress.filter(|progress| progress.lengths == lengths) {
            Some(progress) => {
                sending.hop = progress.hop;
                (sending.resumed, sending.asks) = (true, progress.asks);
                sending.order = progress.order;
                sending.ever_sent = progress.ever_sent;
                sending.sent_end = progress.sent_end;
                sending.left = sending.order.iter().filter(|order| **order != ACKNOWLEDGED).count() as u16;
                self.in_flight += sending.bytes_under_way(buffer);
                if sending.left == 0 || sending.under_way() {
                    sending.query_at = now;
                }
            }
            None => self.next_hop = self.next_hop.wrapping_add(1).max(1),
        }
        if !complete {
            sending.next = count;
            sending.again = (0..count).filter(|index| chunk.fragment(*index).is_some()).collect();
        }
        if class == Class::Bulk {
            self.windows.begin(now, sending.hop, destination, self.next_csyn, u32::from(count));
        }
        buffer.set_left(slot, sending.left);
        self.sending.push(sending);
    }
    /// The packets of a chunk that the neighbour lacked when it went away, if the cut is unchanged; `None` if it had
    /// none of it.
    pub fn missing_of(&self, key: &ChunkKey, chunk: &Chunk) -> Option<Vec<u16>> {
        let progress = self.suspended.iter().find(|(known, _)| known == key)?.1.as_ref()?;
        let missing = (0..).zip(&progress.order).filter(|(_, order)| **order != ACKNOWLEDGED).map(|(index, _)| index);
        let missing: Vec<u16> = missing.collect();
        (missing.len() < progress.order.len() && progress.lengths == chunk.lengths()).then_some(missing)
    }
    /// Sends these packets of a chunk that has just started first, right after the one with its header.
    pub fn send_first(&mut self, slot: Slot, packets: &[u16]) {
        if let Some(sending) = self.sending.iter_mut().find(|sending| sending.slot == slot && !sending.resumed) {
            sending.again.extend(core::iter::once(&0).chain(packets));
        }
    }
    /// A fragment has arrived of a chunk that started before it was complete (cut-through).
    pub fn on_fragment(&mut self, slot: Slot, index: u16) {
        if let Some(sending) = self.sending.iter_mut().find(|sending| sending.slot == slot)
            && sending.order.get(usize::from(index)) == Some(&0)
        {
            sending.again.push_back(index);
        }
    }
    /// A chunk that started before it was complete is now complete: its unsent packets are sent, followed by a query.
    pub fn on_complete(&mut self, now: Time, slot: Slot) {
        let Some(sending) = self.sending.iter_mut().find(|sending| sending.slot == slot) else { return };
        let unsent = (0..).zip(&sending.order).filter(|(_, order)| **order == 0).map(|(index, _)| index);
        let unsent: Vec<u16> = unsent.filter(|index| !sending.again.contains(index)).collect();
        sending.again.extend(unsent);
        if !sending.has_unsent() {
            sending.query_at = now;
        }
    }
    /// Takes out the complete chunks that the neighbour refused and that wait for space there: they take another route.
    /// A chunk in arrival waits until it is complete.
    pub fn take_refused(&mut self, buffer: &mut Buffer) -> Vec<Slot> {
        let has_all = |slot: &Slot| buffer.chunk(*slot).is_some_and(Chunk::is_complete);
        let refused = self.sending.iter().filter(|sending| sending.parked).map(|sending| sending.slot);
        let refused: Vec<Slot> = refused.filter(has_all).collect();
        refused.iter().for_each(|slot| self.cancel(*slot, buffer));
        refused
    }
    /// Processes a CACK.
    pub fn handle_cack(&mut self, now: Time, cack: &Cack, buffer: &mut Buffer) {
        if cack.number != 0 && !(self.first_csyn..self.next_csyn).contains(&cack.number) {
            // A replay from another link: accepted, it would count as newer than all later ones.
            return;
        }
        self.heard_at = now;
        self.capacity = self.capacity.max(cack.window);
        self.windows.on_cack(now, cack);
        let queried = self.csyns.remove(&cack.number);
        // Answers arrive in the order of the queries: those before this one were lost.
        self.csyns = self.csyns.split_off(&cack.number);
        let mut rtt = None;
        if let Some(queried) = &queried {
            let sample = now.since(queried.at);
            self.rtt.on_sample(sample);
            rtt = Some(sample);
            for sending in &mut self.sending {
                sending.timeouts = 0;
                let overtaken = sending.last_csyn != 0 && sending.last_csyn < cack.number && sending.hop != cack.hop;
                if overtaken && sending.query_at > now && sending.queried {
                    sending.query_at = now;
                }
            }
        }
        if let Some(queried) = &queried {
            self.on_marked(now, queried, cack.marked);
        }
        let Some(at) = self.sending.iter().position(|sending| sending.hop == cack.hop) else { return };
        match cack.state {
            CackState::Refused => return self.on_refused(now, at, buffer),
            CackState::Window => return,
            CackState::Complete | CackState::Held | CackState::Partial => {}
        }
        let sending = &mut self.sending[at];
        if cack.duplicates > sending.duplicates {
            sending.duplicates = cack.duplicates;
            self.reorder = (self.reorder + 1).min(REORDER_MAX);
        }
        let horizon = queried.as_ref().map_or(0, |queried| queried.order);
        let is_forgotten = queried.is_some() && sending.is_forgotten(cack);
        let begins_anew = queried.is_some() && core::mem::take(&mut sending.resumed) || is_forgotten;
        let (acknowledged, lost) = self.take_fragments(at, cack, horizon, begins_anew, buffer);
        let sending = &mut self.sending[at];
        let is_whole = buffer.chunk(sending.slot).is_some_and(Chunk::is_complete);
        sending.asks |= is_forgotten && is_whole && sending.may_ask();
        sending.asks &= !sending.is_known(cack);
        let count = sending.order.len() as u16;
        if sending.parked && cack.end() > 0 {
            // Its later packets fitted, and space for the whole chunk is reserved.
            sending.parked = false;
            self.windows.begin(now, sending.hop, sending.destination, self.next_csyn, u32::from(count));
        }
        if cack.number >= sending.last_csyn {
            sending.queried = false;
            sending.query_at = match (sending.under_way(), sending.has_unsent()) {
                (false, _) => Time::MAX,
                (true, true) => now + self.rtt.rto(),
                // The missing packets were sent too near the query: query again, since they must have arrived by now.
                (true, false) => now,
            };
        }
        self.delivered += acknowledged;
        if let Some(queried) = &queried {
            self.inform_controller(now, queried, rtt, (acknowledged, lost));
        }
        if acknowledged > 0 {
            self.delivered_at = now;
        }
        let sending = &mut self.sending[at];
        match cack.state {
            CackState::Complete => {
                self.stats.chunks += 1;
                self.windows.end(cack.hop);
                self.done.push_back(sending.slot);
                self.sending.remove(at);
            }
            CackState::Held => sending.query_at = now + self.rtt.rto() * 4,
            CackState::Partial if sending.left == 0 => {
                // A damaged answer acknowledged all packets: the next one decides.
                sending.resumed = true;
                sending.query_at = now + self.rtt.rto();
            }
            CackState::Partial | CackState::Refused | CackState::Window => {}
        }
    }
    /// Takes the neighbour's count of marked packets. The count falls if the neighbour has restarted.
    fn on_marked(&mut self, now: Time, queried: &Query, count: u8) {
        let marks = count.wrapping_sub(core::mem::replace(&mut self.marked, count));
        if (1..=u8::MAX / 2).contains(&marks) {
            let bytes = u64::from(marks) * self.datagram_bytes as u64;
            self.controller.on_mark(now, &Loss { bytes, in_flight: self.in_flight, requested_at: queried.at });
        }
    }
    /// The neighbour refused the chunk at `at`: all its packets count as unsent, and it waits for the window.
    fn on_refused(&mut self, now: Time, at: usize, buffer: &mut Buffer) {
        self.stats.refused += 1;
        let sending = &mut self.sending[at];
        let chunk = buffer.chunk(sending.slot);
        for (index, order) in sending.order.iter_mut().enumerate() {
            if *order != 0 && *order != ACKNOWLEDGED {
                self.in_flight = self.in_flight.saturating_sub(size_of(chunk, index));
            }
            *order = 0;
        }
        (sending.first_open, sending.sent_end) = (0, 0);
        sending.left = sending.order.len() as u16;
        sending.restart(buffer);
        sending.parked = true;
        buffer.set_left(sending.slot, sending.left);
        self.windows.end(sending.hop);
        self.on_blocked(now);
    }
    /// Applies a CACK's report on the packets of the chunk at `at`; those sent up to `horizon` and still missing are
    /// lost. With `begins_anew` the neighbour has forgotten the chunk, so that packets that it acknowledged count as
    /// missing again. Returns the bytes acknowledged and lost on this link.
    fn take_fragments(
        &mut self,
        at: usize,
        cack: &Cack,
        horizon: u64,
        begins_anew: bool,
        buffer: &mut Buffer,
    ) -> (u64, u64) {
        let sending = &mut self.sending[at];
        let chunk = buffer.chunk(sending.slot);
        let (mut acknowledged, mut lost) = (0, 0);
        let count = sending.order.len() as u16;
        let open = match begins_anew {
            true => 0..count,
            false => sending.first_open..sending.sent_end.max(cack.end()).min(count),
        };
        sending.first_open = open.start;
        for index in open.map(usize::from) {
            let order = sending.order[index];
            if order == ACKNOWLEDGED {
                if begins_anew && !cack.has(index as u16) {
                    sending.order[index] = 0;
                    sending.left += 1;
                    sending.again.push_back(index as u16);
                }
                continue;
            }
            if cack.has(index as u16) {
                let bytes = size_of(chunk, index);
                if order != 0 {
                    self.in_flight = self.in_flight.saturating_sub(bytes);
                }
                // Packets that reached the neighbour from elsewhere prove nothing about this link.
                if sending.ever_sent[index] {
                    acknowledged += bytes;
                    let header = chunk.filter(|_| index == 0).and_then(|chunk| chunk.header.as_ref());
                    let header = DataHeader::BYTES + header.map_or(0, ChunkHeader::len);
                    let datagram = bytes + header as u64 - OVERHEAD_BYTES.min(bytes);
                    self.arrived = self.arrived.max(u32::try_from(datagram).unwrap_or(0));
                }
                sending.order[index] = ACKNOWLEDGED;
                sending.left -= 1;
            } else if order != 0 && order <= horizon {
                let bytes = size_of(chunk, index);
                self.in_flight = self.in_flight.saturating_sub(bytes);
                lost += if order > self.interrupted_at { bytes } else { 0 };
                sending.order[index] = 0;
                sending.again.push_back(index as u16);
            }
        }
        while sending.order.get(usize::from(sending.first_open)) == Some(&ACKNOWLEDGED) {
            sending.first_open += 1;
        }
        buffer.set_left(sending.slot, sending.left);
        (acknowledged, lost)
    }
    /// Reports the acknowledged and lost packets of the answer to `queried` to the window controller.
    fn inform_controller(
        &mut self,
        now: Time,
        queried: &Query,
        rtt: Option<Duration>,
        (acknowledged, lost): (u64, u64),
    ) {
        let elapsed = now.since(queried.delivered_at).max(queried.at.since(queried.first_sent_at));
        let rate = Rate::over(self.delivered - queried.delivered, elapsed).filter(|_| acknowledged > 0);
        if let Some(rate) = rate {
            if self.rates.len() >= RATES_MAX {
                self.rates.pop_front();
            }
            self.rates.push_back(rate);
        }
        let arrival = Arrival {
            bytes: acknowledged,
            in_flight: self.in_flight,
            rtt,
            rate,
            delivered_at_request: queried.delivered,
            delivered: self.delivered,
            starved: queried.starved,
            requested_at: queried.at,
            is_beside: false,
        };
        self.controller.on_data(now, &arrival);
        if lost > 0 {
            self.controller.on_loss(now, &Loss { bytes: lost, in_flight: self.in_flight, requested_at: queried.at });
        }
    }
    /// Drops a chunk.
    pub fn cancel(&mut self, slot: Slot, buffer: &mut Buffer) {
        if let Some(at) = self.sending.iter().position(|sending| sending.slot == slot) {
            let sending = self.sending.remove(at);
            self.windows.end(sending.hop);
            self.in_flight = self.in_flight.saturating_sub(sending.bytes_under_way(buffer));
            buffer.set_left(slot, sending.order.len() as u16);
        }
    }
    /// The neighbour is gone: returns all chunks, oldest first, and remembers their progress.
    pub fn suspend(&mut self, now: Time, buffer: &mut Buffer) -> Vec<Slot> {
        for sending in &self.sending {
            buffer.set_left(sending.slot, sending.order.len() as u16);
            if let (Some(key), Some(chunk)) = (sending.key, buffer.chunk(sending.slot)) {
                let progress = Progress {
                    hop: sending.hop,
                    order: sending.order.clone(),
                    sent_end: sending.sent_end,
                    ever_sent: sending.ever_sent.clone(),
                    lengths: chunk.lengths(),
                    asks: sending.asks,
                };
                self.suspended.retain(|(known, _)| *known != key);
                self.suspended.push_back((key, Some(progress)));
            }
        }
        while self.suspended.len() > SUSPENDED_MAX {
            self.suspended.pop_front();
        }
        self.in_flight = 0;
        self.csyns.clear();
        self.windows.suspend();
        self.blocked_since = None;
        self.probe_at = Time::MAX;
        self.away_since.get_or_insert(now);
        self.interrupted_at = self.order;
        self.sending.drain(..).map(|sending| sending.slot).collect()
    }
    /// The neighbour has rebooted: its CACKs show which packets of interrupted chunks it still has.
    pub fn reset(&mut self) {
        self.suspended.iter_mut().for_each(|(_, progress)| *progress = None);
        self.windows = Windows::default();
    }
    /// No queued chunk waits for the neighbour's window; a refused one may.
    pub fn on_idle(&mut self) {
        if !self.has_refused() {
            (self.blocked_since, self.probe_at) = (None, Time::MAX);
        }
    }
    fn has_refused(&self) -> bool {
        self.sending.iter().any(|sending| sending.parked)
    }

    // Outputs.

    /// When to poll for packets again.
    pub fn poll_timeout(&self) -> Option<Time> {
        let queries = self.sending.iter().map(|sending| sending.query_at).min().filter(|at| *at < Time::MAX);
        let open = self.in_flight < self.window();
        let bulk = |sending: &Sending| sending.class == Class::Bulk && !sending.parked && sending.has_unsent();
        let pace = (open && self.sending.iter().any(bulk)).then_some(self.pace_at);
        let probe = Some(self.probe_at).filter(|at| *at < Time::MAX);
        [queries, pace, probe, self.windows.poll_timeout()].into_iter().flatten().min()
    }
    /// Interrupted chunks, the earliest first.
    pub fn interrupted(&self) -> impl Iterator<Item = ChunkKey> {
        self.suspended.iter().map(|(key, _)| *key)
    }
    /// Whether a query with this number was sent to the neighbour.
    pub fn has_queried(&self, number: u32) -> bool {
        number != 0 && (self.first_csyn..self.next_csyn).contains(&number)
    }
    /// Hop ids used so far.
    pub fn hops_used(&self) -> u32 {
        self.next_hop.wrapping_sub(self.first_hop)
    }
    /// Chunks in transmission.
    #[cfg(test)]
    pub fn sending(&self) -> usize {
        self.sending.len()
    }
    /// Consecutive unanswered CSYNs of the chunk that has waited longest.
    pub fn timeouts(&self) -> u32 {
        self.sending.iter().map(|sending| sending.timeouts).max().unwrap_or(0)
    }

    // Private.

    /// Whether the configured first window would occupy the link for longer than [`FIRST_WINDOW_TIME`].
    fn is_slow(&self) -> bool {
        self.transfer.window_initial_packets < self.config.window_initial_packets
    }
    /// A controller with the measurements from before the neighbour's absence, except stale ones: they would make it
    /// probe instead of send.
    fn fresh_controller(&self, now: Time) -> Box<dyn Controller> {
        let mut controller = window::controller(&self.transfer, self.datagram_bytes as u64, now);
        let best = self.rates.iter().max().copied();
        if let (Some(rtt), Some(rate)) = (self.rtt.minimum(), best) {
            let arrival = Arrival {
                bytes: 0,
                in_flight: 0,
                rtt: Some(rtt),
                rate: Some(rate),
                delivered_at_request: self.delivered,
                delivered: self.delivered,
                starved: false,
                requested_at: now,
                is_beside: false,
            };
            controller.on_data(now, &arrival);
        }
        controller
    }
    fn on_blocked(&mut self, now: Time) {
        self.blocked_since.get_or_insert(now);
        if self.probe_at == Time::MAX {
            self.probe_at = now + self.rtt.rto() * 2;
        }
    }
    fn unpark(&mut self, now: Time) {
        let mut is_full = false;
        for sending in self.sending.iter_mut().filter(|sending| sending.parked) {
            let count = sending.order.len() as u32;
            match self.windows.room(&sending.destination, count) {
                Room::Open => {
                    (sending.parked, self.blocked_since) = (false, None);
                    self.windows.begin(now, sending.hop, sending.destination, self.next_csyn, count);
                }
                Room::DestinationFull => self.windows.on_blocked(now, &sending.destination, self.rtt.rto()),
                Room::LinkFull => is_full = true,
            }
        }
        if is_full {
            self.on_blocked(now);
        }
        if self.blocked_since.is_none() && !self.has_refused() {
            self.probe_at = Time::MAX;
        }
    }
}

/// Bytes on the link of packet `index` of a chunk, headers included.
fn size_of(chunk: Option<&Chunk>, index: usize) -> u64 {
    let fragment = chunk.and_then(|chunk| chunk.fragment(index as u16));
    fragment.map_or(0, |bytes| bytes.len() as u64 + OVERHEAD_BYTES)
}
