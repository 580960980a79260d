//! Tests that every role of every family must pass.
use std::fmt;

use bytes::Bytes;
use tributary_content::{MemoryObject, MemoryOpener, SigningKey};
use tributary_core::{
    Datagram, Duration, FaceId, Node, Outlet, Random, Rate, Time, Transmit, TransmitBuf, event::Event, pump,
};
use tributary_sim::{TraceDepth, TraceHash};
use tributary_transport::{Endpoint, FaceOptions, Fetch, PathMetric};

use crate::checked::{Checked, Limits};

/// How a node is examined. The default suits a node with faces 0 to 3 that sends unprompted or answers.
pub struct Conformance<N> {
    /// Seed of everything random.
    pub seed: u64,
    /// Faces that it has.
    pub faces: Vec<FaceId>,
    /// Longest datagram that it may send. Default 1,472.
    pub mtu: usize,
    /// Datagrams fed per kind of attack. Default 2,000.
    pub rounds: u32,
    /// Given to the node at the start, so that it has something to send.
    pub kick: Option<fn(&mut N, Time)>,
    /// Valid datagrams from its peers (golden packets), as a base for mutations in addition to its own output.
    pub samples: Vec<Vec<u8>>,
    /// Virtual time for which it is left alone at the end. Default 10 min.
    pub idle: Duration,
    /// Timeouts that it may request per second, averaged over `idle`. Default 200.
    pub idle_timeouts_per_second: u64,
    /// Most datagrams that it may send per second, averaged over `idle`. Default 1,000.
    pub idle_datagrams_per_second: u64,
}

impl<N> Default for Conformance<N> {
    fn default() -> Self {
        Conformance {
            seed: 1,
            faces: (0..4).map(FaceId).collect(),
            mtu: 1_472,
            rounds: 2_000,
            kick: None,
            samples: Vec::new(),
            idle: Duration::from_secs(600),
            idle_timeouts_per_second: 200,
            idle_datagrams_per_second: 1_000,
        }
    }
}
impl<N> fmt::Debug for Conformance<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conformance").field("seed", &self.seed).field("faces", &self.faces).finish_non_exhaustive()
    }
}

/// Examines nodes made by `make_node`, each under [`Checked`]:
///
/// 1. random bytes on random faces, empty and huge datagrams;
/// 2. its own output and the samples: as they are, truncated at every length, with flipped bits, with a tail,
///    spliced, and each with the header inline or not;
/// 3. left alone afterwards, its timers do not spin and it does not babble;
/// 4. a second node with the same seed does exactly the same.
///
/// # Panics
/// At the first violation, naming it.
pub fn run<N: Node>(make_node: impl Fn() -> N, options: &Conformance<N>) {
    let first = Examination::new(make_node(), options).run();
    let second = Examination::new(make_node(), options).run();
    assert!(
        first == second,
        "node: two runs with seed {} differ: trace {first:016x} and {second:016x}; \
         is there a clock, a random hasher or an address in it?",
        options.seed,
    );
}

/// The faces of a node of a family.
pub fn add_faces<N: Endpoint>(node: &mut N, now: Time) {
    for face in 0..4 {
        node.add_face(now, FaceId(face), FaceOptions { mtu: 1_472, rate: Some(Rate::from_mbps(10)) });
    }
}
/// The start of a sender.
///
/// # Panics
/// Never: the object has a name.
pub fn publish<N: Endpoint>(node: &mut N, now: Time) {
    let name = "/conformance/object".parse().expect("it is a name");
    let object = MemoryObject::new(name, vec![5; 300_000], &SigningKey::from_secret(&[3; 32]));
    node.publish(now, Box::new(object.expect("it has a name")));
}
/// The start of a receiver: it watches a level, and fetches an object that its neighbours may have.
///
/// # Panics
/// Never: the names are right.
pub fn fetch<N: Endpoint>(node: &mut N, now: Time) {
    node.watch(now, &"/conformance".parse().expect("it is a name"));
    let fetch = Fetch {
        name: "/conformance/object".parse().expect("it is a name"),
        opener: Box::new(MemoryOpener::new()),
        rate_limit: None,
        paths_per_source: 4,
        metric: PathMetric::Hops,
        patience: Some(Duration::from_secs(30)),
    };
    node.fetch(now, fetch);
}

struct Examination<'a, N> {
    node: Checked<N>,
    options: &'a Conformance<N>,
    random: Random,
    now: Time,
    batch: TransmitBuf,
    heard: Recorded,
}

/// The node's output.
struct Recorded {
    trace: TraceHash,
    /// Bytes, and how many of them were in the head.
    corpus: Vec<(Vec<u8>, usize)>,
    datagrams: u64,
}

/// How much of a node's own output is kept for mutation.
const CORPUS_MAX: usize = 64;
/// The largest UDP payload.
const HUGE: usize = 65_507;

impl Outlet for Recorded {
    fn transmit(&mut self, now: Time, transmit: Transmit, batch: &mut TransmitBuf) {
        for datagram in batch.drain() {
            self.trace.on_packet(now, 0, transmit.face, &datagram);
            self.datagrams += 1;
            if self.corpus.len() < CORPUS_MAX {
                let entry = (datagram.to_vec(), datagram.head().len());
                if !self.corpus.contains(&entry) {
                    self.corpus.push(entry);
                }
            }
        }
    }
    fn event(&mut self, now: Time, event: Event) {
        self.trace.on_event(now, 0, &event);
    }
}

impl<'a, N: Node> Examination<'a, N> {
    fn new(node: N, options: &'a Conformance<N>) -> Self {
        let limits = Limits { mtu: options.mtu, ..Limits::default() };
        let corpus = options.samples.iter().map(|sample| (sample.clone(), 0)).collect();
        Examination {
            node: Checked::with_limits(node, limits),
            options,
            random: Random::new(options.seed, 0xc0f0),
            now: Time::ZERO,
            batch: TransmitBuf::new(),
            heard: Recorded { trace: TraceHash::new(TraceDepth::Full), corpus, datagrams: 0 },
        }
    }
    fn run(mut self) -> u64 {
        self.pump();
        if let Some(kick) = self.options.kick {
            self.node.command(self.now, kick);
            self.pump();
        }
        self.pass(Duration::from_secs(1));
        for sample in self.options.samples.clone() {
            self.feed(sample, 0);
        }
        self.random_bytes();
        self.mutations();
        self.idle();
        self.heard.trace.value()
    }

    fn random_bytes(&mut self) {
        for face in self.options.faces.clone() {
            for bytes in [vec![], vec![0], vec![0; HUGE], vec![0xff; HUGE]] {
                self.feed_on(face, bytes, 0);
            }
        }
        for _ in 0..self.options.rounds {
            let len = match self.random.below(4) {
                0 => self.random.below(16),
                1 => self.random.below(128),
                2 => self.random.below(1_600),
                _ => self.random.below(9_000),
            };
            let bytes = (0..len).map(|_| self.random.bits() as u8).collect();
            self.feed(bytes, 0);
        }
    }
    fn mutations(&mut self) {
        for (complete, head_len) in self.heard.corpus.clone() {
            for len in 0..complete.len().min(256) {
                self.feed(complete[..len].to_vec(), head_len);
            }
        }
        for _ in 0..self.options.rounds {
            if self.heard.corpus.is_empty() {
                return;
            }
            let (mut bytes, head_len) = self.pick();
            match self.random.below(6) {
                0 => {}
                1 => {
                    let len = self.random.below(bytes.len() as u64 + 1) as usize;
                    bytes.truncate(len);
                }
                2 => {
                    let tail = self.random.below(64);
                    bytes.extend((0..tail).map(|_| self.random.bits() as u8));
                }
                3 => {
                    let (other, _) = self.pick();
                    let cut = self.random.below(bytes.len().min(other.len()) as u64 + 1) as usize;
                    bytes.truncate(cut);
                    bytes.extend_from_slice(&other[cut..]);
                }
                _ => {
                    for _ in 0..=self.random.below(8) {
                        // Most fields are near the front.
                        let reach = if self.random.chance(0.7) { bytes.len().min(64) } else { bytes.len() };
                        let bit = self.random.below(reach as u64 * 8) as usize;
                        if let Some(byte) = bytes.get_mut(bit / 8) {
                            *byte ^= 1 << (bit % 8);
                        }
                    }
                }
            }
            bytes.truncate(HUGE);
            self.feed(bytes, head_len);
        }
    }
    fn idle(&mut self) {
        let (start, sent) = (self.now, self.heard.datagrams);
        let timeouts = self.pass(self.options.idle);
        let seconds = self.options.idle.as_secs().max(1);
        assert!(
            timeouts <= self.options.idle_timeouts_per_second * seconds,
            "node: {timeouts} timeouts in {seconds} s of rest from {start} on: it spins slowly",
        );
        let sent = self.heard.datagrams - sent;
        assert!(
            sent <= self.options.idle_datagrams_per_second * seconds,
            "node: {sent} datagrams in {seconds} s of rest from {start} on: it babbles",
        );
    }

    fn pick(&mut self) -> (Vec<u8>, usize) {
        let index = self.random.below(self.heard.corpus.len() as u64) as usize;
        self.heard.corpus[index].clone()
    }
    fn feed(&mut self, bytes: Vec<u8>, head_len: usize) {
        let faces = &self.options.faces;
        let face = faces[self.random.below(faces.len() as u64) as usize];
        self.feed_on(face, bytes, head_len);
    }
    /// Feeds bytes as from a socket, or, at times, cut behind the head as from a simulated link.
    fn feed_on(&mut self, face: FaceId, bytes: Vec<u8>, head_len: usize) {
        let bytes = Bytes::from(bytes);
        let is_cut = (1..=bytes.len()).contains(&head_len) && self.random.chance(0.5);
        let datagram =
            if is_cut { Datagram::new(&bytes[..head_len], bytes.slice(head_len..)) } else { Datagram::from(bytes) };
        self.node.handle_datagram(self.now, face, datagram);
        self.pump();
        let pause = Duration::from_micros(self.random.below(2_000));
        self.pass(pause);
    }
    /// Advances time, and returns how many timeouts were served.
    fn pass(&mut self, time: Duration) -> u64 {
        let end = self.now + time;
        let mut timeouts = 0;
        while let Some((due, _)) = self.node.poll_timeout()
            && due <= end
        {
            timeouts += 1;
            self.now = self.now.max(due);
            self.pump();
        }
        self.now = end;
        timeouts
    }
    fn pump(&mut self) {
        let now = self.now;
        while pump(&mut self.node, now, &mut self.heard, &mut self.batch).is_some_and(|due| due <= now) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        collections::VecDeque,
        hash::{BuildHasher, RandomState},
    };
    use tributary_core::TimerId;

    #[derive(Clone, Copy, PartialEq)]
    enum Vice {
        None,
        PanicsOnEmpty,
        PanicsOnLong,
        PanicsOnOwnTruncated,
        WakesOften,
        Babbles,
        DependsOnAddress,
    }
    struct Suspect {
        vice: Vice,
        stated: VecDeque<Vec<u8>>,
        next: Time,
        salt: u64,
    }
    fn suspect(vice: Vice) -> impl Fn() -> Suspect {
        move || {
            let salt = if vice == Vice::DependsOnAddress { RandomState::new().hash_one(1) } else { 7 };
            Suspect { vice, stated: VecDeque::from([b"HELLO, world".to_vec()]), next: Time::ZERO, salt }
        }
    }
    impl Node for Suspect {
        fn handle_datagram(&mut self, _: Time, _: FaceId, datagram: Datagram) {
            let bytes = datagram.to_vec();
            match self.vice {
                Vice::PanicsOnEmpty => assert!(!bytes.is_empty(), "a vice shows"),
                Vice::PanicsOnLong => assert!(bytes.len() < HUGE, "a vice shows"),
                Vice::PanicsOnOwnTruncated => {
                    assert!(!bytes.starts_with(b"HELLO") || bytes.len() >= 7, "a vice shows");
                }
                _ => {}
            }
            self.stated.push_back(self.salt.to_le_bytes().to_vec());
        }
        fn handle_timeout(&mut self, now: Time) {
            let often = matches!(self.vice, Vice::WakesOften | Vice::Babbles);
            self.next = now + if often { Duration::from_millis(1) } else { Duration::from_secs(1) };
            if self.vice == Vice::Babbles {
                self.stated.extend([vec![1], vec![2]]);
            }
        }
        fn poll_transmit(&mut self, _: Time, out: &mut TransmitBuf) -> Option<Transmit> {
            out.push_datagram(Datagram::from(self.stated.pop_front()?));
            Some(Transmit { face: FaceId(0) })
        }
        fn poll_timeout(&self) -> Option<(Time, TimerId)> {
            Some((self.next, TimerId(0)))
        }
        fn poll_event(&mut self) -> Option<Event> {
            None
        }
    }

    #[test]
    fn an_innocent_node_passes_and_each_vice_is_found() {
        let found = |vice, idle_timeouts_per_second| {
            let options = Conformance { idle_timeouts_per_second, ..Conformance::default() };
            let result = std::panic::catch_unwind(|| run(suspect(vice), &options));
            result.err().map(|panic| match panic.downcast::<String>() {
                Ok(message) => *message,
                Err(panic) => panic.downcast::<&str>().map_or_else(|_| String::new(), |text| (*text).into()),
            })
        };
        assert_eq!(found(Vice::None, 200), None);
        for (vice, message) in [
            (Vice::PanicsOnEmpty, "a vice shows"),
            (Vice::PanicsOnLong, "a vice shows"),
            (Vice::PanicsOnOwnTruncated, "a vice shows"),
            (Vice::WakesOften, "spins slowly"),
            (Vice::DependsOnAddress, "differ"),
        ] {
            let shown = found(vice, 200);
            assert!(shown.as_ref().is_some_and(|shown| shown.contains(message)), "{message}: {shown:?}");
        }
        let shown = found(Vice::Babbles, 2_000);
        assert!(shown.as_ref().is_some_and(|shown| shown.contains("babbles")), "{shown:?}");
    }
}
