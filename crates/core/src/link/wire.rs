//! Propagation: delay, jitter, reordering.
use alloc::collections::{VecDeque, vec_deque};

use super::Reorder;
use crate::{Duration, Random, Time};

/// Packets in transit between the serialiser and the far end, by time of arrival.
#[derive(Clone, Debug)]
pub struct Wire<T> {
    packets: VecDeque<(Time, T)>,
    last_due: Time,
    pub(super) delay: Duration,
    jitter: Duration,
    pub(super) reorder: Reorder,
}

impl<T> Wire<T> {
    /// An empty wire.
    pub fn new(delay: Duration, jitter: Duration, reorder: Reorder) -> Self {
        Wire { packets: VecDeque::new(), last_due: Time::ZERO, delay, jitter, reorder }
    }
    /// Takes a packet at `now`; returns whether it is delayed behind later ones.
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
        if self.packets.back().is_none_or(|(last, _)| *last <= due) {
            self.packets.push_back((due, packet));
        } else {
            let index = self.packets.iter().rposition(|(other, _)| *other <= due).map_or(0, |before| before + 1);
            self.packets.insert(index, (due, packet));
        }
        held_back
    }
    /// Takes the next packet that has arrived at `now`, and when it did.
    #[inline]
    pub fn pop(&mut self, now: Time) -> Option<(Time, T)> {
        if self.packets.front()?.0 > now {
            return None;
        }
        self.packets.pop_front()
    }
    /// When the next packet arrives.
    #[inline]
    pub fn next_due(&self) -> Option<Time> {
        self.packets.front().map(|(due, _)| *due)
    }
    /// Packets in transit.
    pub fn len(&self) -> usize {
        self.packets.len()
    }
    /// Whether nothing is in transit.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
    /// Packets in transit with their times of arrival, next first.
    pub fn iter(&self) -> vec_deque::Iter<'_, (Time, T)> {
        self.packets.iter()
    }
}
