//! The packets that leave: fragments within window and pace, and CSYNs.
use alloc::vec::Vec;

use tributary_core::{Duration, Rate, Time, TransmitBuf};

use super::{CSYNS_MAX, OVERHEAD_BYTES, Outgoing, PROBE_INTERVAL_MIN, Query, RTO_MAX, UNHEARD_TIMEOUTS_MAX};
use crate::{
    ids::HopId,
    link::buffer::{Buffer, Chunk},
    wire::{Class, Csyn, DataHeader},
};

/// Size of a burst, as time at the pace.
const QUANTUM: Duration = Duration::from_millis(1);

/// Queries about control chunks that are repeated within one timeout of the hop, at most.
const REPEATED_MAX: u32 = 32;

/// Bytes that may be in flight beyond the window for control chunks, which do not wait behind data.
const CONTROL_BYTES: u64 = 64 << 10;

/// How long packets in flight may delay others, whatever the controller allows; some packets may always be in flight.
const QUEUE_TIME_MAX: Duration = Duration::from_secs(1);
const WINDOW_PACKETS_MIN: u64 = 4;

/// What the controller allows, which does not change while packets are sent.
struct Allowance {
    /// Bytes in flight.
    window: u64,
    rate: Option<Rate>,
    /// Packets after which a CSYN queries what has arrived.
    csyn_packets: u16,
}

impl Outgoing {
    /// Fills `out` with the packets that may be sent now.
    pub fn poll_packets(&mut self, now: Time, buffer: &Buffer, out: &mut TransmitBuf) {
        self.query_again(now, out);
        self.unpark(now);
        let allowance = self.allowance();
        let quantum_end = now + QUANTUM;
        for class in [Class::Control, Class::Bulk] {
            for at in 0..self.sending.len() {
                let sending = &self.sending[at];
                if sending.class != class || sending.parked || !sending.has_unsent() {
                    continue;
                }
                let Some(chunk) = buffer.chunk(sending.slot) else { continue };
                let may_send = |hop: &Outgoing| match class {
                    Class::Control => hop.in_flight < allowance.window + CONTROL_BYTES,
                    Class::Bulk => hop.in_flight < allowance.window && hop.pace_at <= quantum_end,
                };
                while !is_full(out) && may_send(self) && self.send_next(now, at, chunk, &allowance, out) {}
            }
        }
        if self.in_flight >= allowance.window {
            self.query_room(now, out);
        }
        self.starved = !self.sending.iter().any(|sending| !sending.parked && sending.has_unsent());
        if self.probe_at <= now && !is_full(out) {
            // The announcement of the open window may have been lost.
            self.probe_at = now + (self.rtt.rto() * 2).max(PROBE_INTERVAL_MIN);
            let number = self.query(now, None, self.order);
            let parked = self.sending.iter().find(|sending| sending.parked).map(|sending| sending.hop);
            let hop = parked.unwrap_or(HopId(self.next_hop.wrapping_sub(1)));
            push_csyn(out, Csyn { count: 1, hop, number });
        }
        while !is_full(out)
            && let Some(hop) = self.windows.poll_probe(now)
        {
            let number = self.query(now, None, self.order);
            push_csyn(out, Csyn { count: 1, hop, number });
        }
    }
    fn query_again(&mut self, now: Time, out: &mut TransmitBuf) {
        for at in 0..self.sending.len() {
            let sending = &mut self.sending[at];
            if sending.query_at > now || is_full(out) {
                continue;
            }
            if sending.class == Class::Control
                && sending.queried
                && !self.control_queries.may_query(now, self.rtt.rto())
            {
                // Its turn comes: many queries at once would crowd out their answers.
                sending.query_at = now + self.rtt.rto();
                continue;
            }
            if sending.queried && now.since(self.heard_at) >= self.rtt.rto() {
                sending.timeouts += 1;
                self.stats.timeouts += 1;
                if sending.timeouts == 1 {
                    self.controller.on_silence(now);
                }
            }
            self.query_chunk(now, at, self.order, out);
        }
    }
    /// Queries what has arrived when the window has closed behind the last packet: no later packet would carry the
    /// query.
    fn query_room(&mut self, now: Time, out: &mut TransmitBuf) {
        for at in 0..self.sending.len() {
            let sending = &self.sending[at];
            if sending.since_csyn > 0 && !sending.queried && sending.class == Class::Bulk && !is_full(out) {
                self.query_chunk(now, at, self.order.saturating_sub(self.reorder), out);
            }
        }
    }
    /// Sends a separate packet that queries what has arrived of a chunk in flight.
    fn query_chunk(&mut self, now: Time, at: usize, horizon: u64, out: &mut TransmitBuf) {
        let number = self.query(now, Some(at), horizon);
        let sending = &self.sending[at];
        push_csyn(out, Csyn { count: sending.order.len() as u16, hop: sending.hop, number });
    }
    fn allowance(&self) -> Allowance {
        let window = self.window();
        // In a small window queries are more frequent, so that the loss of one does not stop the flow.
        let quarter = u16::try_from(window / self.datagram_bytes as u64 / 4).unwrap_or(u16::MAX);
        let csyn_packets = match self.config.csyn_packets {
            u16::MAX => u16::MAX,
            packets => packets.min(quarter.max(4)),
        };
        Allowance { window, rate: self.controller.pacing_rate(), csyn_packets }
    }
    /// Bytes that may be in flight: the controller's window, but on a slow link limited so that control chunks wait no
    /// longer than [`QUEUE_TIME_MAX`].
    pub(super) fn window(&self) -> u64 {
        let window = self.controller.window();
        let (rate, Some(minimum)) = (self.controller.own_rate(), self.rtt.minimum()) else { return window };
        if rate <= 0.0 {
            return window;
        }
        let most = (rate * (minimum + QUEUE_TIME_MAX).as_secs_f64()) as u64;
        window.min(most.max(WINDOW_PACKETS_MIN * self.datagram_bytes as u64))
    }
    /// Sends one packet of a chunk; false if all its packets are sent.
    fn send_next(&mut self, now: Time, at: usize, chunk: &Chunk, allowance: &Allowance, out: &mut TransmitBuf) -> bool {
        let sending = &mut self.sending[at];
        let Some(index) = sending.take_next() else { return false };
        let (Some(fragment), Some(header)) = (chunk.fragment(index), chunk.header.as_ref()) else { return true };
        if self.in_flight == 0 {
            // The clock of the first sample starts with the first packet of a busy period.
            self.delivered_at = now;
        }
        self.order += 1;
        sending.order[usize::from(index)] = self.order;
        sending.sent_end = sending.sent_end.max(index + 1);
        sending.since_csyn += 1;
        self.stats.packets += 1;
        self.stats.repeated += u64::from(sending.ever_sent[usize::from(index)]);
        sending.ever_sent[usize::from(index)] = true;
        let last = !sending.has_unsent() && chunk.is_complete();
        let fills = !last
            && sending.class == Class::Bulk
            && !sending.queried
            && self.in_flight + fragment.len() as u64 + OVERHEAD_BYTES >= allowance.window;
        let joined = sending.since_csyn >= allowance.csyn_packets || fills || (last && sending.order.len() == 1);
        if sending.query_at == Time::MAX {
            sending.query_at = now + self.rtt.rto();
        }
        let (hop, count, class) = (sending.hop, sending.order.len() as u16, sending.class);
        let bytes = fragment.len() as u64 + OVERHEAD_BYTES;
        self.in_flight += bytes;
        if class == Class::Bulk {
            let start = self.pace_at.max(now - QUANTUM);
            self.pace_at = allowance.rate.map_or(now, |rate| start + rate.time_for(bytes));
        }
        let horizon = self.order.saturating_sub(self.reorder);
        let csyn = joined.then(|| self.query(now, Some(at), horizon));
        let head = DataHeader { index, count, hop, csyn, class };
        if index == 0 {
            let mut heads = Vec::with_capacity(DataHeader::BYTES + header.len());
            head.encode(&mut heads);
            header.encode(&mut heads);
            out.push(&heads, fragment.clone());
        } else {
            out.push(&head.to_bytes(), fragment.clone());
        }
        if last && !joined {
            self.query_chunk(now, at, horizon, out);
        } else if last {
            self.sending[at].queried = true;
        }
        true
    }
    /// Records a CSYN that is about to be sent, and returns its number. Packets up to `order` that are missing in its
    /// answer are lost.
    fn query(&mut self, now: Time, at: Option<usize>, order: u64) -> u32 {
        let number = self.next_csyn;
        self.next_csyn = self.next_csyn.wrapping_add(1).max(1);
        let queried = Query {
            at: now,
            order,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: now,
            starved: self.starved,
        };
        self.csyns.insert(number, queried);
        if self.csyns.len() > CSYNS_MAX {
            self.csyns.pop_first();
        }
        if let Some(sending) = at.and_then(|at| self.sending.get_mut(at)) {
            let patience = self.rtt.rto() * 2u32.pow(sending.timeouts.min(6));
            let most = match self.rtt.smoothed() {
                Some(_) => RTO_MAX.max(self.rtt.rto()),
                None => self.rtt.rto() * UNHEARD_TIMEOUTS_MAX,
            };
            sending.since_csyn = 0;
            sending.last_csyn = number;
            sending.queried = true;
            sending.query_at = now + patience.min(most);
        }
        number
    }
}

/// Repeated queries about control chunks, limited per timeout of the hop.
#[derive(Default)]
pub(super) struct Repeated {
    since: Time,
    queried: u32,
}
impl Repeated {
    fn may_query(&mut self, now: Time, rto: Duration) -> bool {
        if now.since(self.since) >= rto {
            (self.since, self.queried) = (now, 0);
        }
        self.queried += 1;
        self.queried <= REPEATED_MAX
    }
}

/// Whether the batch cannot take another data packet and a CSYN.
fn is_full(out: &TransmitBuf) -> bool {
    out.len() + 2 > TransmitBuf::DATAGRAMS_MAX
}
fn push_csyn(out: &mut TransmitBuf, csyn: Csyn) {
    let mut bytes = Vec::with_capacity(12);
    csyn.encode(&mut bytes);
    out.push(&bytes, bytes::Bytes::new());
}
