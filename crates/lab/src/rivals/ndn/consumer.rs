//! A consumer with one window for everything that it asks for, as the conventional framework has it (PTP §2): it sends
//! Interests by name, routers choose their paths.
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tributary_content::Name;
use tributary_core::{Datagram, Duration, FaceId, Node, Random, Time, TimerId, Transmit, TransmitBuf, event::Event};
use tributary_ndn::{Data, Interest, LpPacket, NameView, Nonce, Requested, packet_name, packet_type, requested, types};
use tributary_transport::rtt::RttEstimator;

use super::{Answer, ConsumerKind, Window};

/// The object, and how it is fetched.
#[derive(Clone, PartialEq, Debug)]
pub struct ConsumerConfig {
    /// The object.
    pub object: Name,
    /// Its version.
    pub version: u64,
    /// Its segments.
    pub segments: u32,
    /// Start time.
    pub start: Time,
    /// End time, even if data remains; [`Time::MAX`] for never.
    pub stop: Time,
    /// Its window.
    pub kind: ConsumerKind,
    /// How long an Interest is pending in routers.
    pub lifetime: Duration,
    /// Seed of nonces and chances.
    pub seed: u64,
}

/// The least margin of the retransmission timeout, the largest one, and the one before the first sample.
const RTO: [Duration; 3] = [Duration::from_millis(200), Duration::from_secs(4), Duration::from_secs(1)];
const FACE: FaceId = FaceId(1);

struct Pending {
    sent_at: Time,
    deadline: Time,
    again: bool,
}

/// A rival's consumer as a node with one face.
pub struct Consumer {
    config: ConsumerConfig,
    window: Box<dyn Window>,
    rtt: RttEstimator,
    random: Random,
    next: u32,
    pending: BTreeMap<u32, Pending>,
    deadlines: BTreeSet<(Time, u32)>,
    again: VecDeque<u32>,
    out: VecDeque<Datagram>,
    backoff: u32,
    /// Interests sent, copies included.
    pub requested: u64,
    /// Data received, without duplicates, and the content bytes in them.
    pub arrived: (u64, u64),
    /// Of these, Data that caches gave.
    pub cached: u64,
    /// Interests that timed out or were returned.
    pub lost: (u64, u64),
}

impl Consumer {
    /// A consumer that has not started.
    pub fn new(config: ConsumerConfig) -> Consumer {
        Consumer {
            window: config.kind.window(),
            rtt: RttEstimator::new(RTO[2], RTO[0], RTO[1]),
            random: Random::new(config.seed, 11),
            next: 0,
            pending: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            again: VecDeque::new(),
            out: VecDeque::new(),
            backoff: 0,
            requested: 0,
            arrived: (0, 0),
            cached: 0,
            lost: (0, 0),
            config,
        }
    }
    /// Interests that may be pending.
    pub fn window(&self) -> f64 {
        self.window.interests()
    }
    /// Smoothed round-trip time over all paths.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt.smoothed()
    }
    fn is_active(&self, now: Time) -> bool {
        now >= self.config.start && now < self.config.stop
    }
    fn fill(&mut self, now: Time) {
        while self.is_active(now) && (self.pending.len() as f64) < self.window.interests().max(1.0).floor() {
            let (segment, again) = match self.again.pop_front() {
                Some(segment) => (segment, true),
                None if self.next < self.config.segments => {
                    self.next += 1;
                    (self.next - 1, false)
                }
                None => return,
            };
            self.request(now, segment, again);
        }
    }
    fn request(&mut self, now: Time, segment: u32, again: bool) {
        let Ok(name) = packet_name(&self.config.object, self.config.version, segment) else { return };
        let interest = Interest {
            nonce: Some(Nonce::from(self.random.bits())),
            lifetime_millis: Some(self.config.lifetime.as_millis() as u64),
            ..Interest::new(NameView::from(&name))
        };
        self.out.push_back(Datagram::from(interest.encode()));
        self.requested += 1;
        // A margin of 200 ms above the mean, as Linux has it: windows that grow by packets on slow links need it.
        let usual = self.rtt.smoothed().map_or(RTO[2], |rtt| self.rtt.rto().max(rtt + RTO[0]));
        let rto = (usual * (1 << self.backoff.min(4))).min(RTO[1]);
        let deadline = now + rto;
        self.pending.insert(segment, Pending { sent_at: now, deadline, again });
        self.deadlines.insert((deadline, segment));
    }
    fn take(&mut self, segment: u32) -> Option<Pending> {
        let pending = self.pending.remove(&segment)?;
        self.deadlines.remove(&(pending.deadline, segment));
        Some(pending)
    }
    fn segment_of(&self, name: NameView<'_>) -> Option<u32> {
        let object = NameView::from(&self.config.object);
        match object.is_prefix_of(name).then(|| requested(object, name))?? {
            Requested::Packet { version, packet } if version == self.config.version => Some(packet),
            _ => None,
        }
    }
    fn on_packet(&mut self, now: Time, headers: &LpPacket<'_>) -> Option<()> {
        let packet = headers.fragment?;
        match packet_type(packet) {
            Some(types::INTEREST) if headers.nack.is_some() => {
                // It looped or met a full table: that does not indicate a queue, and the segment is requested again.
                let segment = self.segment_of(Interest::decode(packet).ok()?.name)?;
                self.take(segment)?;
                self.lost.1 += 1;
                self.again.push_back(segment);
            }
            Some(types::DATA) => {
                let data = Data::decode(packet).ok()?;
                let segment = self.segment_of(data.name)?;
                // Data that arrives after its segment was declared lost still counts.
                let was_given_up = self.again.iter().position(|other| *other == segment);
                was_given_up.and_then(|at| self.again.remove(at));
                let pending = self.take(segment);
                if pending.is_none() && was_given_up.is_none() {
                    return None;
                }
                let bytes = data.content.map_or(0, <[u8]>::len) as u64;
                self.arrived = (self.arrived.0 + 1, self.arrived.1 + bytes);
                self.cached += u64::from(headers.origin.is_some());
                let pending = pending?;
                let rtt = (!pending.again).then(|| now.since(pending.sent_at));
                if let Some(rtt) = rtt {
                    self.rtt.on_sample(rtt);
                    self.backoff = 0;
                }
                let mut path = headers.tag.map(|tag| tag.as_bytes().to_vec()).unwrap_or_default();
                path.push(u8::from(headers.origin.is_some()));
                let marked = headers.congestion_mark.is_some_and(|mark| mark > 0);
                let answer = Answer { rtt, sent_at: pending.sent_at, path: &path, marked };
                self.window.on_data(now, &answer, &mut self.random);
            }
            _ => {}
        }
        Some(())
    }
}

impl Node for Consumer {
    fn handle_datagram(&mut self, now: Time, _: FaceId, datagram: Datagram) {
        let bytes = datagram.to_vec();
        let headers = match packet_type(&bytes) {
            Some(types::LP_PACKET) => LpPacket::decode(&bytes).unwrap_or_default(),
            _ => LpPacket::around(&bytes),
        };
        self.on_packet(now, &headers);
        self.fill(now);
    }
    fn handle_timeout(&mut self, now: Time) {
        while let Some((deadline, segment)) = self.deadlines.first().copied().filter(|(due, _)| *due <= now) {
            self.deadlines.remove(&(deadline, segment));
            let Some(pending) = self.pending.remove(&segment) else { continue };
            self.lost.0 += 1;
            self.again.push_back(segment);
            self.backoff = (self.backoff + u32::from(pending.again)).min(4);
            self.window.on_timeout(now, pending.sent_at);
        }
        if now >= self.config.stop {
            self.pending.clear();
            self.deadlines.clear();
        }
        self.fill(now);
    }
    fn poll_transmit(&mut self, _: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        while !out.is_full()
            && let Some(datagram) = self.out.pop_front()
        {
            out.push_datagram(datagram);
        }
        (!out.is_empty()).then_some(Transmit { face: FACE })
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        let start = (self.next == 0 && self.config.segments > 0).then_some(self.config.start);
        let stop = Some(self.config.stop).filter(|stop| *stop < Time::MAX && !self.pending.is_empty());
        let due = self.deadlines.first().map(|(due, _)| *due);
        start.into_iter().chain(stop).chain(due).min().map(|due| (due, TimerId(1)))
    }
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
}
