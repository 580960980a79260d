//! The parts that nodes of all families share: events queued for a driver, counters, unsolicited faces, and wake-ups. A
//! node that is made of these only dispatches.
use alloc::{
    collections::{BTreeMap, VecDeque},
    string::ToString,
    vec::Vec,
};

use tributary_content::{Name, StoreError};
use tributary_core::{Duration, FaceId, Time, event::Event};

use crate::FaceOptions;

/// The default options of a face without configuration: the longest UDP payload that crosses an Ethernet in one IPv4
/// packet, less the 24 bytes of a secure face's protection.
pub const FACE_DEFAULT: FaceOptions = FaceOptions { mtu: 1_448, rate: None };
/// Events that wait for the driver; beyond that they are dropped and counted.
pub const EVENTS_MAX: usize = 65_536;
/// Maximum unsolicited faces whose neighbour has never answered, so that senders with forged addresses leave space for
/// neighbours.
pub const UNPROVEN_MAX: usize = 128;

/// A node's pending events for its driver, and its counters.
#[derive(Debug, Default)]
pub struct Events {
    queue: VecDeque<Event>,
    counters: BTreeMap<&'static str, u64>,
}

impl Events {
    /// Adds an event; beyond [`EVENTS_MAX`] it is dropped and counted.
    pub fn push(&mut self, event: Event) {
        if self.queue.len() < EVENTS_MAX {
            self.queue.push_back(event);
        } else {
            self.count("events dropped");
        }
    }
    /// A datagram of `bytes` bytes from `face` was dropped: counts it by its reason, and adds the event.
    pub fn on_dropped(&mut self, face: FaceId, reason: &'static str, bytes: usize) {
        self.count(reason);
        self.push(Event::Dropped { face, reason, bytes: u32::try_from(bytes).unwrap_or(u32::MAX) });
    }
    /// A published object cannot be read: adds the event.
    pub fn on_unreadable(&mut self, name: &Name, error: &StoreError) {
        self.push(Event::Unreadable { name: name.to_string(), reason: error.to_string() });
    }
    /// Counts something that has no event.
    pub fn count(&mut self, what: &'static str) {
        self.count_all(what, 1);
    }
    /// Counts something that happened `times` times.
    pub fn count_all(&mut self, what: &'static str, times: u64) {
        *self.counters.entry(what).or_default() += times;
    }
    /// The counters, by name.
    pub fn counters(&self) -> &BTreeMap<&'static str, u64> {
        &self.counters
    }
    /// The oldest event.
    pub fn poll(&mut self) -> Option<Event> {
        self.queue.pop_front()
    }
    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

/// Unsolicited faces: opened by incoming packets, not by configuration. Such a face is closed when its neighbour does
/// not answer: endless hellos would let anyone aim a stream of them at a third party.
#[derive(Debug)]
pub struct UnsolicitedFaces {
    /// Those whose neighbour has never answered, and since when they are known.
    unproven: BTreeMap<FaceId, Time>,
    /// The others, and when their neighbour answered last.
    proven: BTreeMap<FaceId, Time>,
    timeout: Duration,
    away_timeout: Duration,
}

impl UnsolicitedFaces {
    /// None yet. A face is kept for `timeout` until its neighbour answers, and for `away_timeout` after the last
    /// answer.
    pub fn new(timeout: Duration, away_timeout: Duration) -> UnsolicitedFaces {
        UnsolicitedFaces { unproven: BTreeMap::new(), proven: BTreeMap::new(), timeout, away_timeout }
    }
    /// A packet has announced a face.
    pub fn add(&mut self, now: Time, face: FaceId) {
        self.unproven.insert(face, now);
    }
    /// A face was removed, or configured.
    pub fn remove(&mut self, face: FaceId) {
        self.unproven.remove(&face);
        self.proven.remove(&face);
    }
    /// The neighbour on a face answers; true if it is the first answer. Named faces are ignored.
    pub fn on_answer(&mut self, now: Time, face: FaceId) -> bool {
        if let Some(answered_at) = self.proven.get_mut(&face) {
            *answered_at = now;
            return false;
        }
        let is_first = self.unproven.remove(&face).is_some();
        if is_first {
            self.proven.insert(face, now);
        }
        is_first
    }
    /// Whether a face is one of these.
    pub fn contains(&self, face: FaceId) -> bool {
        self.unproven.contains_key(&face) || self.proven.contains_key(&face)
    }
    /// Whether there are faces whose neighbour has never answered.
    pub fn has_unproven(&self) -> bool {
        !self.unproven.is_empty()
    }
    /// The face to close before another one is added, when [`UNPROVEN_MAX`] neighbours have never answered: the oldest
    /// of them, which has had the most time; one that is about to answer only if all are.
    pub fn surplus(&self, is_about_to_answer: impl Fn(FaceId) -> bool) -> Option<FaceId> {
        if self.unproven.len() < UNPROVEN_MAX {
            return None;
        }
        let oldest = self.unproven.iter().min_by_key(|(face, since)| (is_about_to_answer(**face), **since));
        oldest.map(|(face, _)| *face)
    }
    /// The faces to close. Those for which `answers` is true have just answered.
    pub fn expired(&mut self, now: Time, answers: impl Fn(FaceId) -> bool) -> Vec<FaceId> {
        let all = self.unproven.keys().chain(self.proven.keys()).copied();
        let answering: Vec<FaceId> = all.filter(|face| answers(*face)).collect();
        answering.into_iter().for_each(|face| _ = self.on_answer(now, face));
        self.expiries().filter(|(_, expiry)| *expiry <= now).map(|(face, _)| face).collect()
    }
    /// When the next face is due to be closed.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.expiries().map(|(_, expiry)| expiry).min()
    }
    fn expiries(&self) -> impl Iterator<Item = (FaceId, Time)> {
        let unproven = self.unproven.iter().map(|(face, since)| (*face, *since + self.timeout));
        unproven.chain(self.proven.iter().map(|(face, answered_at)| (*face, *answered_at + self.away_timeout)))
    }
}

/// The earliest of a node's deadlines and its purpose.
pub fn earliest<W>(deadlines: impl IntoIterator<Item = (Option<Time>, W)>) -> Option<(Time, W)> {
    let due = deadlines.into_iter().filter_map(|(due, wake)| Some((due?, wake)));
    due.min_by_key(|(due, _)| *due)
}
/// The node's deadlines that are due at `now`, in their order.
pub fn due<W>(now: Time, deadlines: impl IntoIterator<Item = (Option<Time>, W)>) -> impl Iterator<Item = W> {
    let is_due = move |(due, wake): (Option<Time>, W)| due.is_some_and(|due| due <= now).then_some(wake);
    deadlines.into_iter().filter_map(is_due)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faces_that_do_not_answer_are_given_up_before_those_that_are_away() {
        let second = Duration::from_secs(1);
        let (mut faces, now) = (UnsolicitedFaces::new(second * 10, second * 60), Time::from_millis(1_000));
        (1..=3).for_each(|face| faces.add(now, FaceId(face)));
        assert!(faces.on_answer(now + second, FaceId(2)) && !faces.on_answer(now + second * 2, FaceId(2)));
        assert!(!faces.on_answer(now, FaceId(9)), "it was named");
        assert_eq!(faces.unproven.keys().map(|face| face.0).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(faces.poll_timeout(), Some(now + second * 10));
        assert_eq!(faces.expired(now + second * 10, |_| false), [FaceId(1), FaceId(3)]);
        faces.remove(FaceId(1));
        faces.remove(FaceId(3));
        let mut gone = |at: Time| faces.expired(at, |_| false).len();
        assert_eq!((gone(now + second * 61), gone(now + second * 62)), (0, 1));
        assert_eq!(faces.expired(now + second * 62, |_| true), [], "it has answered again");
    }

    #[test]
    fn the_oldest_face_makes_room_unless_its_neighbour_is_about_to_answer() {
        let mut faces = UnsolicitedFaces::new(Duration::from_secs(10), Duration::from_secs(60));
        let oldest_last = |face: u32| Time::from_millis(u64::from(UNPROVEN_MAX as u32 - face / 2));
        for face in 0..UNPROVEN_MAX as u32 {
            assert_eq!(faces.surplus(|_| false), None);
            faces.add(oldest_last(face), FaceId(face));
        }
        let last = UNPROVEN_MAX as u32 - 1;
        assert_eq!(faces.surplus(|_| false), Some(FaceId(last - 1)), "of two that came at once the first");
        assert_eq!(faces.surplus(|face| face.0 >= last - 1), Some(FaceId(last - 3)));
        assert_eq!(faces.surplus(|_| true), Some(FaceId(last - 1)));
    }
}
