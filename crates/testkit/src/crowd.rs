//! Receivers that fetch one object at about the same time through one router.
//!
//! ```text
//!   publisher ──16 Mbit/s, 5 ms── router ══1 Gbit/s══ receivers
//! ```
use tributary_content::{MemoryContent, MemoryObject, MemoryOpener, Name, SigningKey};
use tributary_core::{ByteCount, Duration, FaceId, Random, Rate, TransferId, link::LinkConfig};
use tributary_sim::{Network, NodeIndex};
use tributary_transport::{Endpoint, FaceOptions, Fetch, PathMetric};

const NAME: &str = "/lab/file";
const BYTES: usize = 8 << 20;
/// The rate of the publisher's link in Mbit/s.
const RATE: u64 = 16;
/// The face of each node towards the publisher, and the publisher's own face.
const FIRST: FaceId = FaceId(1);
/// How long one receiver may take.
const LIMIT: Duration = Duration::from_secs(200);

/// The role of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It routes, with a cache of this size.
    Router(ByteCount),
    /// It publishes the object.
    Publisher,
    /// It fetches it.
    Receiver,
}

/// Lets crowds of several sizes and starting times fetch the object. Asserts that the last receiver takes at most 1.3 times
/// as long as the median one and as the object takes on the publisher's link. With a cache the publisher sends each packet
/// once, except packets lost while receivers begin; without one it sends a copy for each receiver.
///
/// `node` builds a node from its role, label and seed. `join` is called when its faces exist, with the face towards the
/// publisher. The environment variable `CROWD=all` selects the complete grid, `CROWD=16` one size, `CROWD_SEEDS=20`
/// twenty seeds.
///
/// # Panics
/// Lists the crowds that exceed a limit.
#[expect(clippy::print_stdout, reason = "rows for the results page")]
pub fn assert_all_are_served<N: Endpoint + 'static>(
    node: impl Fn(Role, &str, u64) -> N,
    join: impl Fn(&mut N, Role, FaceId),
) {
    let grid: Vec<(u32, f64)> = match std::env::var("CROWD") {
        Ok(which) => {
            let counts = [2, 3, 4, 8, 16]
                .into_iter()
                .filter(|count| which.parse().is_ok_and(|one: u32| one == *count) || which == "all");
            counts.flat_map(|count| [0.0, 0.6, 2.0].map(|spread| (count, spread))).collect()
        }
        Err(_) => vec![(2, 2.0), (4, 0.6), (16, 0.0)],
    };
    let seeds = std::env::var("CROWD_SEEDS").ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(1);
    let alone = BYTES as f64 * 8.0 / (RATE as f64 * 1e6);
    let mut failures = Vec::new();
    for seed in 1..=seeds {
        for &(count, spread) in &grid {
            for cache in [ByteCount(64 << 20), ByteCount(0)] {
                let mut crowd = Crowd::new(seed, count, cache, &node, &join);
                let (times, copies) = crowd.fetch(spread);
                let (median, last) = (times[times.len() / 2], times[times.len() - 1]);
                let ideal = alone * if cache.0 == 0 { f64::from(count) } else { 1.0 };
                let line = format!(
                    "seed {seed}, {count} receivers within {spread} s, cache {} MiB: median {median:.2} s, last {last:.2} s, \
                     {:.2} and {:.2} times the ideal and the median, {copies:.2} copies",
                    cache.0 >> 20,
                    last / ideal,
                    last / median
                );
                println!("{line}");
                let is_once = cache.0 == 0 || copies < 1.5;
                if last > 1.3 * ideal || last > 1.3 * median || !is_once {
                    failures.push(line);
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

struct Crowd<N: Endpoint> {
    net: Network<N>,
    publisher: NodeIndex,
    receivers: Vec<NodeIndex>,
    bytes: Vec<u8>,
}

impl<N: Endpoint + 'static> Crowd<N> {
    fn new(
        seed: u64,
        receivers: u32,
        cache: ByteCount,
        node: &impl Fn(Role, &str, u64) -> N,
        join: &impl Fn(&mut N, Role, FaceId),
    ) -> Self {
        let mut net = Network::new(seed);
        let mut add = |role, label: &str| {
            let index = net.nodes_len() as u64;
            net.add_node(node(role, label, seed.wrapping_mul(1000) + index))
        };
        let router = add(Role::Router(cache), "router");
        let publisher = add(Role::Publisher, "publisher");
        let receivers: Vec<_> = (0..receivers).map(|at| add(Role::Receiver, &format!("receiver-{at}"))).collect();
        let links = core::iter::once((publisher, Role::Publisher, RATE, 5))
            .chain(receivers.iter().map(|receiver| (*receiver, Role::Receiver, 1_000, 0)));
        for (at, (end, role, mbps, millis)) in (1..).zip(links) {
            let rate = Rate::from_mbps(mbps);
            let mut link = LinkConfig::new(rate, Duration::from_millis(millis));
            link.queue_bytes = rate.bytes_in(Duration::from_millis(80)).max(100_000);
            link.mtu = 1472;
            net.connect((end, FIRST), (router, FaceId(at)), link.clone(), link);
            for (node, face) in [(end, FIRST), (router, FaceId(at))] {
                net.with(node, |node, now| node.add_face(now, face, FaceOptions { mtu: 1472, rate: Some(rate) }));
            }
            net.with(end, |node, _| join(node, role, FIRST));
        }
        net.with(router, |node, _| join(node, Role::Router(cache), FIRST));
        let mut random = Random::new(3, 99);
        let bytes: Vec<u8> = (0..BYTES / 8).flat_map(|_| random.bits().to_le_bytes()).collect();
        let object = MemoryObject::new(name(), bytes.clone(), &SigningKey::from_secret(&[7; 32])).expect("it is cut");
        net.with(publisher, |node, now| node.publish(now, Box::new(object)));
        Crowd { net, publisher, receivers, bytes }
    }
    /// Seconds that each receiver needs if they start evenly within `spread` seconds, in ascending order, and how often the
    /// file leaves the publisher.
    fn fetch(&mut self, spread: f64) -> (Vec<f64>, f64) {
        self.run(3.0);
        let before = self.sent();
        let mut fetches = Vec::new();
        for receiver in self.receivers.clone() {
            let opener = MemoryOpener::new();
            let content = opener.content();
            let fetch = Fetch {
                name: name(),
                opener: Box::new(opener),
                rate_limit: None,
                paths_per_source: 4,
                metric: PathMetric::Hops,
                patience: Some(Duration::from_secs(20)),
            };
            fetches.push((receiver, self.net.with(receiver, |node, now| node.fetch(now, fetch)), content));
            self.run(spread / (self.receivers.len() - 1) as f64);
        }
        let mut times: Vec<f64> =
            fetches.into_iter().map(|(at, id, content)| self.finish(at, id, &content).as_secs_f64()).collect();
        times.sort_by(f64::total_cmp);
        (times, (self.sent() - before) as f64 / BYTES as f64)
    }
    fn finish(&mut self, receiver: NodeIndex, id: TransferId, content: &MemoryContent) -> Duration {
        let limit = self.net.now() + LIMIT;
        let report = |net: &Network<N>| net.node(receiver).report(net.now(), id).expect("it is remembered");
        self.net.run_while(limit, |net| report(net).ended.is_none());
        let report = report(&self.net);
        assert!(content.finished(&name()).is_some_and(|content| content == self.bytes), "{report:#?}");
        report.ended.expect("it is complete").since(report.started)
    }
    fn run(&mut self, seconds: f64) {
        self.net.run_until(self.net.now() + Duration::from_secs_f64(seconds));
    }
    /// Bytes that the publisher has sent.
    fn sent(&self) -> u64 {
        let status = self.net.node(self.publisher).status(self.net.now());
        status.faces.iter().map(|face| face.sent.1.0).sum()
    }
}

fn name() -> Name {
    NAME.parse().expect("a valid name")
}
