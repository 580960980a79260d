//! Objects whose segments have unequal sizes: the offset of a segment is known only when all earlier ones have arrived,
//! so they are fetched in order and assembled in memory.
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use tributary_core::{Duration, Time};

/// Maximum bytes of an object assembled in memory.
pub(super) const GATHERED_BYTES_MAX: usize = 64 << 20;
/// Its maximum number of segments: empty ones take no bytes, but time.
pub(super) const GATHERED_SEGMENTS_MAX: u64 = 1 << 20;
/// Maximum outstanding segments.
const WINDOW_MAX: usize = 64;
/// Maximum segments kept out of order.
const EARLY_MAX: u32 = 256;
/// The longest that an answer is waited for.
const PATIENCE_MAX: Duration = Duration::from_secs(8);

/// The segments so far.
#[derive(Default)]
pub(super) struct Gather {
    /// The last segment's number.
    last: u32,
    /// The content of all segments before `next_in_order`.
    bytes: Vec<u8>,
    next_in_order: u32,
    early: BTreeMap<u32, Vec<u8>>,
    /// The lowest segment that was never requested.
    next_to_request: u32,
    /// When segments were requested that have not arrived.
    requested: BTreeMap<u32, Time>,
    /// Overdue segments.
    again: BTreeSet<u32>,
    window: usize,
    patience: Duration,
    patience_min: Duration,
}

impl Gather {
    /// For segments 0 to `last`, with at least `patience` for each; `None` if there are too many.
    pub(super) fn new(last: u64, patience: Duration) -> Option<Gather> {
        let last = u32::try_from(last).ok().filter(|last| u64::from(*last) < GATHERED_SEGMENTS_MAX)?;
        Some(Gather { last, window: 2, patience, patience_min: patience, ..Gather::default() })
    }
    /// The next segment to request now, if any.
    pub(super) fn poll(&mut self, now: Time) -> Option<u32> {
        let patience = self.patience;
        let overdue: Vec<u32> =
            self.requested.iter().filter(|(_, at)| **at + patience <= now).map(|(number, _)| *number).collect();
        if !overdue.is_empty() {
            self.requested.retain(|number, _| !overdue.contains(number));
            self.again.extend(overdue);
            self.window = (self.window / 2).max(1);
            self.patience = (self.patience * 2).min(PATIENCE_MAX);
        }
        if self.requested.len() >= self.window {
            return None;
        }
        let number = match self.again.pop_first() {
            Some(number) => number,
            None if self.next_to_request <= self.last && self.next_to_request < self.next_in_order + EARLY_MAX => {
                self.next_to_request += 1;
                self.next_to_request - 1
            }
            None => return None,
        };
        self.requested.insert(number, now);
        Some(number)
    }
    /// When to poll again without arrivals.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.requested.values().min().map(|at| *at + self.patience)
    }
    /// Whether a segment is wanted.
    pub(super) fn wants(&self, number: u32) -> bool {
        let is_here = number < self.next_in_order || self.early.contains_key(&number);
        number < self.next_to_request && !is_here
    }
    /// Takes a segment that is wanted; false if the object has become too large.
    pub(super) fn on_segment(&mut self, now: Time, number: u32, content: &[u8]) -> bool {
        if let Some(at) = self.requested.remove(&number) {
            self.patience = (now.since(at) * 2).max(self.patience_min).min(PATIENCE_MAX);
        }
        self.again.remove(&number);
        self.window = (self.window + 1).min(WINDOW_MAX);
        self.early.insert(number, content.to_vec());
        while let Some(content) = self.early.remove(&self.next_in_order) {
            self.bytes.extend_from_slice(&content);
            self.next_in_order += 1;
        }
        self.bytes.len() <= GATHERED_BYTES_MAX
    }
    /// The number of the first missing segment.
    pub(super) fn missing(&self) -> u32 {
        self.next_in_order
    }
    /// The complete object, once all segments have arrived.
    pub(super) fn take_complete(&mut self) -> Option<Vec<u8>> {
        (self.next_in_order > self.last).then(|| core::mem::take(&mut self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use tributary_core::Random;

    const PATIENCE: Duration = Duration::from_millis(500);

    #[test]
    fn segments_of_any_size_come_together_in_order_although_answers_are_lost_and_swapped() {
        let mut random = Random::new(7, 1);
        let parts: Vec<Vec<u8>> = (0..700_u32).map(|number| vec![number as u8; random.below(900) as usize]).collect();
        let mut gather = Gather::new(parts.len() as u64 - 1, PATIENCE).expect("few segments");
        let (mut now, mut under_way) = (Time::ZERO, Vec::new());
        let complete = loop {
            while let Some(number) = gather.poll(now) {
                under_way.push(number);
            }
            assert!(under_way.len() <= WINDOW_MAX);
            now = match under_way.is_empty() {
                true => gather.poll_timeout().expect("something is missing"),
                false => now + Duration::from_millis(1),
            };
            if !under_way.is_empty() {
                let number = under_way.swap_remove(random.below(under_way.len() as u64) as usize);
                if random.chance(0.8) && gather.wants(number) {
                    assert!(gather.on_segment(now, number, &parts[number as usize]));
                }
            }
            if let Some(complete) = gather.take_complete() {
                break complete;
            }
        };
        assert!(complete == parts.concat());
    }

    #[test]
    fn what_is_too_large_or_has_too_many_segments_is_refused() {
        assert!(Gather::new(GATHERED_SEGMENTS_MAX - 1, PATIENCE).is_some());
        assert!(Gather::new(GATHERED_SEGMENTS_MAX, PATIENCE).is_none());
        let mut gather = Gather::new(1, PATIENCE).expect("two segments");
        assert_eq!([gather.poll(Time::ZERO), gather.poll(Time::ZERO)], [Some(0), Some(1)]);
        assert!(gather.on_segment(Time::ZERO, 0, &vec![0; GATHERED_BYTES_MAX]));
        assert!(!gather.on_segment(Time::ZERO, 1, &[0]), "one byte beyond");
    }
}
