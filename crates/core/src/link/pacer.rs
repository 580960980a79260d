//! What decides when a packet has left: a rate, a token bucket, or a recording.
use super::{Delivery, DeliveryTrace, Serialiser, TokenBucket};
use crate::{Rate, Time};

/// Sends one packet after the other.
#[derive(Clone, Debug)]
pub(super) enum Pacer {
    Rate(Serialiser),
    Bucket(TokenBucket),
    Delivery(Delivery),
}

impl Pacer {
    pub(super) fn new(rate: Option<Rate>, burst_bytes: u64, delivery: Option<DeliveryTrace>) -> Self {
        match delivery {
            Some(trace) => Pacer::Delivery(Delivery::new(trace)),
            None if burst_bytes > 0 => Pacer::Bucket(TokenBucket::new(rate, burst_bytes)),
            None => Pacer::Rate(Serialiser::new(rate)),
        }
    }
    pub(super) fn start(&mut self, now: Time, bytes: u64) {
        match self {
            Pacer::Rate(serialiser) => serialiser.start(now, bytes),
            Pacer::Bucket(bucket) => bucket.start(now, bytes),
            Pacer::Delivery(delivery) => delivery.start(now, bytes),
        }
    }
    pub(super) fn free_at(&self) -> Option<Time> {
        match self {
            Pacer::Rate(serialiser) => serialiser.free_at(),
            Pacer::Bucket(bucket) => bucket.free_at(),
            Pacer::Delivery(delivery) => Some(delivery.free_at()),
        }
    }
    pub(super) fn is_unlimited(&self) -> bool {
        match self {
            Pacer::Rate(serialiser) => serialiser.is_unlimited(),
            Pacer::Bucket(bucket) => bucket.is_unlimited(),
            Pacer::Delivery(_) => false,
        }
    }
    pub(super) fn abort(&mut self, now: Time) {
        match self {
            Pacer::Rate(serialiser) => serialiser.abort(now),
            Pacer::Bucket(bucket) => bucket.abort(now),
            Pacer::Delivery(delivery) => delivery.abort(now),
        }
    }
    /// Continues at a rate. A packet of `bytes` that a recording was sending starts again.
    pub(super) fn set_rate(&mut self, now: Time, rate: Option<Rate>, bytes: Option<u64>) {
        match self {
            Pacer::Rate(serialiser) => serialiser.set_rate(now, rate),
            Pacer::Bucket(bucket) => bucket.set_rate(now, rate),
            Pacer::Delivery(_) => {
                let mut serialiser = Serialiser::new(rate);
                if let Some(bytes) = bytes {
                    serialiser.start(now, bytes);
                }
                *self = Pacer::Rate(serialiser);
            }
        }
    }
    /// The rate; for a recording, its mean.
    pub(super) fn rate(&self) -> Option<Rate> {
        match self {
            Pacer::Rate(serialiser) => serialiser.rate,
            Pacer::Bucket(bucket) => bucket.rate,
            Pacer::Delivery(delivery) => Some(delivery.trace().rate_mean()),
        }
    }
}
