//! Fair Interest shaping: Interests wait at their arrival face, in a queue for each flow, until their Data fits onto
//! that face's link. So Interests queue instead of Data, and each flow gets the same share of the link (deficit round
//! robin). CHoPCoP's hop-by-hop shaping, whose details are not public: a reconstruction (reference/baselines).
use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

use tributary_core::{Duration, FaceId, Rate, Time};

use super::{
    Router,
    face::{Arrived, Face},
};
use crate::wire::{Data, Interest, NackReason, NameView, packet_type, types};

/// Settings of a shaper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShapingConfig {
    /// How much Data may wait in the link's own queue, as time at its rate. Default: 5 ms.
    pub slack: Duration,
    /// Maximum Interests that wait at one face. Default: 512.
    pub interests_max: usize,
}

impl ShapingConfig {
    /// The defaults.
    pub const DEFAULT: ShapingConfig = ShapingConfig { slack: Duration::from_millis(5), interests_max: 512 };
}

impl Default for ShapingConfig {
    fn default() -> Self {
        ShapingConfig::DEFAULT
    }
}

/// The Interests that wait at one face.
#[derive(Clone, Debug)]
pub(crate) struct Shaper<T> {
    config: ShapingConfig,
    rate: Rate,
    /// Flows with waiting Interests, and those whose Data was measured.
    flows: BTreeMap<u64, Flow<T>>,
    /// Those that have Interests waiting, in the order of their turns.
    turns: VecDeque<u64>,
    waiting: usize,
    /// When the link will have sent the Data of all released Interests.
    busy_until: Time,
}

#[derive(Clone, Debug)]
struct Flow<T> {
    interests: VecDeque<T>,
    /// Bytes that it may still use in this turn.
    deficit: f64,
    /// Smoothed size of its Data.
    data_bytes: f64,
}

impl Router {
    /// Queues an Interest from a shaped face for its turn; others continue at once.
    pub(super) fn shape(&mut self, face: FaceId, arrived: Arrived) {
        let is_interest = packet_type(&arrived.packet) == Some(types::INTEREST) && arrived.headers().nack.is_none();
        let interest = Interest::decode(&arrived.packet).ok().filter(|_| is_interest);
        let flow = interest.as_ref().map(|interest| self.flow_of(interest.name));
        let shaper = self.faces.get_mut(&face).and_then(|face| face.shaper.as_mut());
        let (Some(flow), Some(shaper)) = (flow, shaper) else {
            return self.on_packet(face, &arrived.headers(), arrived.packet.clone());
        };
        if let Err(arrived) = shaper.on_interest(flow, arrived.clone(), is_copy) {
            self.drop(face, "too many interests wait for their turn", arrived.packet.len());
            let headers = arrived.headers();
            self.nack(face, headers.pit_token, &arrived.packet, NackReason::Congestion, false);
        }
        self.release_from(face);
    }
    /// Forwards all Interests of these faces whose turn has come.
    pub(super) fn release_shaped(&mut self, mut faces: Vec<FaceId>) {
        let now = self.now;
        let due = |face: &Face| face.shaper.as_ref().and_then(Shaper::poll_timeout).is_some_and(|due| due <= now);
        faces.retain(|face| self.faces.get(face).is_some_and(due));
        faces.into_iter().for_each(|face| self.release_from(face));
    }
    fn release_from(&mut self, face: FaceId) {
        let now = self.now;
        let next = |router: &mut Router| router.faces.get_mut(&face)?.shaper.as_mut()?.poll(now);
        while let Some(arrived) = next(self) {
            self.on_packet(face, &arrived.headers(), arrived.packet.clone());
        }
    }
    /// Measures a Data that leaves through a shaped face; returns how long its flow's Interests wait there.
    pub(super) fn measure_shaped(&mut self, face: FaceId, packet: &[u8]) -> Duration {
        if self.faces.get(&face).is_none_or(|face| face.shaper.is_none()) {
            return Duration::ZERO;
        }
        let Ok(data) = Data::decode(packet) else { return Duration::ZERO };
        let flow = self.flow_of(data.name);
        let shaper = self.faces.get_mut(&face).and_then(|face| face.shaper.as_mut());
        shaper.map_or(Duration::ZERO, |shaper| {
            shaper.on_data(flow, packet.len());
            shaper.delay(flow)
        })
    }
    /// The flow that a packet belongs to: its name without the last component, as PTP §4 B has it.
    fn flow_of(&self, name: NameView<'_>) -> u64 {
        self.hasher.name(name.prefix(name.len().saturating_sub(1)))
    }
}

/// Whether two Interests request the same, from the same caches.
fn is_copy(one: &Arrived, other: &Arrived) -> bool {
    let requested = |arrived: &Arrived| {
        let name = Interest::decode(&arrived.packet).ok().map(|interest| interest.name.as_tlv().to_vec());
        (name, arrived.headers().probe)
    };
    requested(one) == requested(other)
}

/// Bytes that each flow may use in a turn: at least one Data.
const QUANTUM: f64 = 1_500.0;
/// The assumed size of a Data before any has arrived.
const DATA_BYTES: f64 = 1_200.0;
/// Gain of the smoothed size.
const GAIN: f64 = 1.0 / 16.0;
/// Maximum remembered flows.
const FLOWS_MAX: usize = 4_096;

impl<T> Shaper<T> {
    pub(crate) fn new(config: ShapingConfig, rate: Rate) -> Self {
        Shaper { config, rate, flows: BTreeMap::new(), turns: VecDeque::new(), waiting: 0, busy_until: Time::ZERO }
    }
    /// Takes an Interest of a flow, replacing a waiting duplicate; returns it if too many wait.
    pub(crate) fn on_interest(&mut self, flow: u64, interest: T, is_copy: impl Fn(&T, &T) -> bool) -> Result<(), T> {
        if self.waiting >= self.config.interests_max {
            return Err(interest);
        }
        if self.flows.len() >= FLOWS_MAX && !self.flows.contains_key(&flow) {
            self.flows.retain(|_, flow| !flow.interests.is_empty());
        }
        let known = self.flows.entry(flow).or_insert_with(|| Flow {
            interests: VecDeque::new(),
            deficit: 0.0,
            data_bytes: DATA_BYTES,
        });
        if let Some(copy) = known.interests.iter_mut().find(|other| is_copy(other, &interest)) {
            *copy = interest;
            return Ok(());
        }
        self.waiting += 1;
        if known.interests.is_empty() {
            known.deficit = 0.0;
            self.turns.push_back(flow);
        }
        known.interests.push_back(interest);
        Ok(())
    }
    /// The next Interest to pass on now.
    pub(crate) fn poll(&mut self, now: Time) -> Option<T> {
        if self.busy_until > now + self.config.slack {
            return None;
        }
        loop {
            let turn = *self.turns.front()?;
            let Some(flow) = self.flows.get_mut(&turn) else {
                self.turns.pop_front();
                continue;
            };
            if flow.deficit < flow.data_bytes {
                flow.deficit += QUANTUM.max(flow.data_bytes);
                self.turns.rotate_left(1);
                continue;
            }
            let interest = flow.interests.pop_front()?;
            flow.deficit -= flow.data_bytes;
            self.waiting -= 1;
            self.busy_until = self.busy_until.max(now) + self.rate.time_for(flow.data_bytes as u64);
            if flow.interests.is_empty() {
                self.turns.pop_front();
            }
            return Some(interest);
        }
    }
    /// When [`Shaper::poll`] returns the next one; `None` if none waits.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        (self.waiting > 0).then(|| self.busy_until - self.config.slack)
    }
    /// Measures a Data of a flow that leaves by the face.
    pub(crate) fn on_data(&mut self, flow: u64, bytes: usize) {
        if let Some(flow) = self.flows.get_mut(&flow) {
            flow.data_bytes += GAIN * (bytes as f64 - flow.data_bytes);
        }
    }
    /// How long an Interest of a flow would wait now: the time of the earlier ones' Data on the flow's share of the
    /// link.
    pub(crate) fn delay(&self, flow: u64) -> Duration {
        let Some(flow) = self.flows.get(&flow) else { return Duration::ZERO };
        let bytes = flow.interests.len() as f64 * flow.data_bytes * self.turns.len().max(1) as f64;
        self.rate.time_for(bytes as u64)
    }
    /// Drops all waiting Interests.
    pub(crate) fn clear(&mut self) {
        self.flows.clear();
        self.turns.clear();
        self.waiting = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// 1 Mbit/s, Data of 1,250 bytes: one each 10 ms.
    fn shaper() -> Shaper<u32> {
        let config = ShapingConfig { slack: Duration::ZERO, interests_max: 60 };
        let mut shaper = Shaper::new(config, Rate::from_mbps(1));
        for flow in [1, 2] {
            assert_eq!(shaper.on_interest(flow, 0, |_, _| false), Ok(()));
            (0..200).for_each(|_| shaper.on_data(flow, 1_250));
        }
        (0..2).for_each(|at| assert!(shaper.poll(Time::from_millis(at * 10)).is_some()));
        shaper
    }
    fn released(shaper: &mut Shaper<u32>, from: u64, until: u64) -> Vec<u32> {
        (from..until).filter_map(|at| shaper.poll(Time::from_millis(at))).collect()
    }

    #[test]
    fn interests_leave_at_the_pace_of_the_data_that_they_bring() {
        let mut shaper = shaper();
        (0..20).for_each(|n| assert_eq!(shaper.on_interest(1, n, |_, _| false), Ok(())));
        assert_eq!(released(&mut shaper, 1_000, 1_100).len(), 10);
        assert_eq!(shaper.delay(1).as_millis(), 99, "ten more wait");
        assert_eq!(shaper.poll_timeout().map(|due| due.as_nanos() / 1_000_000), Some(1_099));
    }

    #[test]
    fn a_greedy_flow_gets_no_more_than_its_half_and_none_waits_for_a_flow_that_asks_nothing() {
        let mut shaper = shaper();
        (0..40).for_each(|_| assert_eq!(shaper.on_interest(1, 1, |_, _| false), Ok(())));
        (0..5).for_each(|_| assert_eq!(shaper.on_interest(2, 2, |_, _| false), Ok(())));
        let first = released(&mut shaper, 1_000, 1_100);
        assert!(first.iter().filter(|flow| **flow == 2).count() >= 4, "{first:?}");
        assert_eq!(released(&mut shaper, 1_100, 1_200).len(), 10, "the other has the rest");
    }

    #[test]
    fn flows_that_ask_for_nothing_are_forgotten_when_there_are_too_many() {
        let mut shaper = shaper();
        for flow in 0..2 * FLOWS_MAX as u64 {
            assert_eq!(shaper.on_interest(flow, 0, |_, _| false), Ok(()));
            assert!(shaper.poll(Time::from_millis(1_000 + 10 * flow)).is_some());
        }
        assert!(shaper.flows.len() <= FLOWS_MAX, "{}", shaper.flows.len());
    }

    #[test]
    fn a_copy_takes_the_place_of_the_interest_that_waits() {
        let mut shaper = shaper();
        assert_eq!(shaper.on_interest(1, 5, |a, b| a == b), Ok(()));
        assert_eq!(shaper.on_interest(1, 5, |a, b| a == b), Ok(()));
        assert_eq!(released(&mut shaper, 1_000, 1_100), [5]);
    }

    #[test]
    fn at_the_limit_interests_are_given_back() {
        let mut shaper = shaper();
        (0..60).for_each(|n| assert_eq!(shaper.on_interest(1, n, |_, _| false), Ok(())));
        assert_eq!(shaper.on_interest(2, 7, |_, _| false), Err(7));
        assert_eq!(shaper.on_interest(1, 7, |_, _| true), Err(7), "at the limit nothing is looked at");
        shaper.clear();
        assert_eq!((shaper.poll(Time::from_millis(5_000)), shaper.poll_timeout()), (None, None));
    }
}
