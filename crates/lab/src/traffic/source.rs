//! Traffic that does not listen: at a constant rate, or in bursts.
use bytes::Bytes;
use tributary_core::{
    Datagram, Duration, FaceId, Node, Random, Rate, Time, TimerId, Transmit, TransmitBuf, event::Event,
};

use super::{Law, Packet};

/// Settings of a [`Source`].
#[derive(Clone, PartialEq, Debug)]
pub struct SourceConfig {
    /// The rate of datagram bytes while it sends; above zero.
    pub rate: Rate,
    /// Bytes of each datagram, at least [`Packet::BYTES`]. Default: 1,400.
    pub packet_bytes: u32,
    /// When it sends. Default: always.
    pub pattern: Pattern,
    /// Start time. Default: at once.
    pub start: Time,
    /// When it ends. Default: never.
    pub end: Time,
}
impl SourceConfig {
    /// A constant rate without end.
    pub fn constant(rate: Rate) -> Self {
        SourceConfig { rate, packet_bytes: 1_400, pattern: Pattern::Constant, start: Time::ZERO, end: Time::MAX }
    }
}

/// When a source sends.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Pattern {
    /// Always.
    #[default]
    Constant,
    /// In bursts, with pauses between them.
    OnOff {
        /// Mean length of a burst, above zero.
        on: Duration,
        /// Mean length of a pause.
        off: Duration,
        /// The law of both.
        law: Law,
    },
}

/// Sends packets on face 0 and hears nothing.
#[derive(Clone, Debug)]
pub struct Source {
    config: SourceConfig,
    payload: Bytes,
    random: Random,
    next: Time,
    /// When the burst ends; with [`Pattern::Constant`] never.
    burst_end: Time,
    number: u64,
}

impl Source {
    /// A source whose bursts are drawn from `random`.
    ///
    /// # Panics
    /// If its rate or its mean burst is zero, or its packets are shorter than their header.
    pub fn new(config: SourceConfig, mut random: Random) -> Self {
        assert!(config.rate.bits_per_second() > 0, "a source has a rate");
        let rest = (config.packet_bytes as usize).checked_sub(Packet::BYTES).expect("packets hold their header");
        let start = config.start;
        let burst_end = match config.pattern {
            Pattern::Constant => Time::MAX,
            Pattern::OnOff { on, law, .. } => {
                assert!(!on.is_zero(), "bursts last");
                start + law.draw(on, &mut random)
            }
        };
        Source { config, payload: Bytes::from(vec![0; rest]), random, next: start, burst_end, number: 0 }
    }
    /// Packets sent.
    pub fn sent_packets(&self) -> u64 {
        self.number
    }
    /// Moves the time of the next packet into a burst.
    fn skip_pauses(&mut self) {
        let Pattern::OnOff { on, off, law } = self.config.pattern else { return };
        while self.next >= self.burst_end {
            let start = self.burst_end + law.draw(off, &mut self.random);
            self.next = self.next.max(start);
            self.burst_end = start + law.draw(on, &mut self.random).max(Duration::from_nanos(1));
        }
    }
}

impl Node for Source {
    fn handle_datagram(&mut self, _: Time, _: FaceId, _: Datagram) {}
    fn handle_timeout(&mut self, _: Time) {}
    fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        if self.next > now || self.next >= self.config.end {
            return None;
        }
        out.push(&Packet::Plain { number: self.number, sent: now }.encode(), self.payload.clone());
        self.number += 1;
        self.next += self.config.rate.time_for(u64::from(self.config.packet_bytes));
        self.skip_pauses();
        Some(Transmit { face: FaceId(0) })
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        (self.next < self.config.end).then_some((self.next, TimerId(0)))
    }
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
}
