//! One packet after the other at a rate.
use crate::{Duration, Rate, Time};

/// Sends one packet after the other at a rate, without drift: the end of the n-th of packets sent back to
/// back is start + ⌊sum of bits ÷ rate⌋, however the bits are cut into packets.
#[derive(Clone, Debug)]
pub struct Serialiser {
    pub(super) rate: Option<Rate>,
    free_at: Time,
    /// What `free_at` leaves out: this many (1/rate)-ths of a nanosecond.
    carry: u64,
    /// At rate zero: the unsent rest, in bits × 10⁹.
    stalled: Option<u128>,
}

impl Serialiser {
    /// An idle serialiser; `None` is unlimited, rate zero sends nothing.
    pub fn new(rate: Option<Rate>) -> Self {
        Serialiser { rate, free_at: Time::ZERO, carry: 0, stalled: None }
    }
    /// Starts to send `bytes` at `now`, or when the present packet has left.
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
    /// Changes the rate; the unsent rest is sent at the new rate from `now` on.
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
    /// Discards the unsent rest.
    pub fn abort(&mut self, now: Time) {
        self.stalled = None;
        self.carry = 0;
        self.free_at = self.free_at.min(now);
    }

    /// Adds bits × 10⁹ to the packet being sent.
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

const NANOS: u128 = 1_000_000_000;
