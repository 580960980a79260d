//! Two fetches over one bottleneck: a fetch of several sub-flows that share it against a fetch of one (paper §III-D).
use super::*;
use tributary_content::{Bitmap, ChunkIndex, ChunkStore, HashTree, Manifest, StoreError, StoreOpener};
use tributary_transport::{ControllerKind, Coupling};

/// A store that discards its chunks.
struct Nowhere(Bitmap, Option<HashTree>);

impl StoreOpener for Nowhere {
    fn trusts(&self, _: &Manifest) -> Result<(), StoreError> {
        Ok(())
    }
    fn resumes(&self, _: &Manifest) -> bool {
        false
    }
    fn open(&mut self, manifest: &Manifest) -> Result<Box<dyn ChunkStore>, StoreError> {
        Ok(Box::new(Nowhere(Bitmap::new(manifest.chunk_count()), None)))
    }
}
impl ChunkStore for Nowhere {
    fn held(&self) -> &Bitmap {
        &self.0
    }
    fn tree(&self) -> Option<&HashTree> {
        self.1.as_ref()
    }
    fn put_tree(&mut self, tree: &HashTree) -> Result<(), StoreError> {
        self.1 = Some(tree.clone());
        Ok(())
    }
    fn put_chunk(&mut self, index: ChunkIndex, _: &[u8]) -> Result<(), StoreError> {
        self.0.set(index);
        Ok(())
    }
    fn finish(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

struct Contender {
    transfer: Transfer,
    requests: Vec<PacketRequest>,
    ups: BTreeMap<PathId, Link>,
}

/// Fetches of one object, each over sub-flows that all end in the same narrow link.
pub(crate) struct Contest {
    now: Time,
    object: MemoryObject,
    contenders: Vec<Contender>,
    down: Link,
    /// Of the narrow link, one way.
    delay: Duration,
    /// For requests, in transit to the sources.
    pub request_loss: Loss,
    seed: u64,
    pub shared: Shared,
    /// The face of all paths.
    pub face: Option<FaceId>,
}

impl Contest {
    /// A contest over a link of `mbps` with the round-trip time `rtt_ms`, a queue of `queue` bandwidth-delay products.
    pub(crate) fn new(mbps: u64, rtt_ms: u64, queue: f64, loss: f64, bytes: usize) -> Contest {
        let mut narrow = link(mbps, rtt_ms, loss);
        narrow.queue_bytes = (Rate::from_mbps(mbps).bytes_in(Duration::from_millis(rtt_ms)) as f64 * queue) as u64;
        Contest::over(narrow, bytes)
    }
    /// A contest over that link; requests take as long as data.
    pub(crate) fn over(narrow: LinkConfig, bytes: usize) -> Contest {
        let object = MemoryObject::new(name(), random_bytes(bytes, 3), &key()).unwrap();
        Contest::seeded(narrow, object, 5)
    }
    /// A contest for that object.
    pub(crate) fn seeded(narrow: LinkConfig, object: MemoryObject, seed: u64) -> Contest {
        Contest {
            now: Time::ZERO,
            object,
            contenders: Vec::new(),
            delay: narrow.delay,
            down: Link::new(narrow, Random::new(seed, 77)),
            request_loss: Loss::None,
            seed,
            shared: Shared::default(),
            face: None,
        }
    }
    /// Adds a fetch with a sub-flow for each of `extra_ms`, the delay of its requests beyond the narrow link.
    pub(crate) fn add(&mut self, config: TransferConfig, extra_ms: &[u64]) {
        let opener = Nowhere(Bitmap::new(0), None);
        let mut transfer = Transfer::new(self.now, name(), config, Box::new(opener), None, None);
        let shared_links = if extra_ms.len() > 1 { vec![SharedLink::new(9)] } else { vec![] };
        let path = |index: usize| PathOffer {
            path: PathId(index as u16 + 1),
            label: "receiver>source".into(),
            hops: 1,
            packet_bytes_max: 1441,
            shared_links: shared_links.clone(),
            rtt: None,
            capacity: None,
            face: self.face,
        };
        transfer.handle_offer(
            self.now,
            vec![SourceOffer {
                node: NodeId(1),
                label: "source".into(),
                manifest: self.object.manifest().encode(),
                paths: (0..extra_ms.len()).map(path).collect(),
            }],
        );
        let stream = self.contenders.len() as u64 * 64;
        let up = |(index, extra): (usize, &u64)| {
            let mut config = LinkConfig::new(Rate::from_mbps(100), self.delay + Duration::from_millis(*extra));
            config.loss = self.request_loss.clone();
            (PathId(index as u16 + 1), Link::new(config, Random::new(self.seed + 1, stream + index as u64)))
        };
        let ups = extra_ms.iter().enumerate().map(up).collect();
        self.contenders.push(Contender { transfer, requests: Vec::new(), ups });
    }
    /// A fetch, for commands.
    pub(crate) fn transfer(&mut self, number: usize) -> &mut Transfer {
        &mut self.contenders[number].transfer
    }
    /// The account of each fetch's first path.
    pub(crate) fn paths(&self) -> Vec<PathReport> {
        self.contenders.iter().map(|contender| contender.transfer.report(self.now).paths.remove(0)).collect()
    }
    /// Bytes that wait for the narrow link.
    pub(crate) fn queue_bytes(&self) -> u64 {
        self.down.stats().queue_bytes
    }
    /// Bytes that each fetch has received.
    pub(crate) fn bytes(&self) -> Vec<u64> {
        let bytes = |contender: &Contender| {
            contender.transfer.report(self.now).paths.iter().map(|path| path.bytes).sum::<u64>()
        };
        self.contenders.iter().map(bytes).collect()
    }
    pub(crate) fn run_until(&mut self, end: Time) {
        while self.now < end {
            let mut next = end;
            for contender in &mut self.contenders {
                if contender.transfer.poll_timeout().is_some_and(|due| due <= self.now) {
                    contender.transfer.handle_timeout(self.now);
                }
                while let Some(request) = contender.transfer.poll_request(self.now, &mut self.shared) {
                    let index = contender.requests.len() as u32;
                    let size = 70 + 5 * request.ranges.len();
                    let datagram = Datagram::new(&index.to_be_bytes(), Bytes::from(vec![0; size]));
                    contender.ups.get_mut(&request.path).unwrap().enqueue(self.now, datagram);
                    contender.requests.push(request);
                }
                let ups = contender.ups.values().map(Link::poll_timeout);
                next = ups.chain([contender.transfer.poll_timeout()]).flatten().fold(next, Time::min);
            }
            next = self.down.poll_timeout().map_or(next, |due| due.min(next));
            self.now = self.now.max(next);
            self.deliver();
        }
    }
    fn deliver(&mut self) {
        for (number, contender) in self.contenders.iter_mut().enumerate() {
            for up in contender.ups.values_mut() {
                while let Some(datagram) = up.poll_deliver(self.now) {
                    let index = u32::from_be_bytes(*datagram.header_bytes().first_chunk().unwrap());
                    let request = &contender.requests[index as usize];
                    let layout = Layout::exact(self.object.manifest(), request.packet_bytes).unwrap();
                    for packet in request.ranges.iter().flat_map(|&(first, count)| first..first + u32::from(count)) {
                        let (unit, offset, len) = layout.locate(packet).unwrap();
                        let complete = match unit {
                            Unit::Tree => self.object.tree(),
                            Unit::Chunk(chunk) => {
                                let start = chunk as usize * self.object.manifest().chunk_size as usize;
                                self.object.bytes().slice(start..)
                            }
                        };
                        let mut head = [0; 29];
                        head[..4].copy_from_slice(&index.to_be_bytes());
                        head[4..8].copy_from_slice(&packet.to_be_bytes());
                        head[8] = number as u8;
                        let payload = complete.slice(offset as usize..(offset + len) as usize);
                        self.down.enqueue(self.now, Datagram::new(&head, payload));
                    }
                }
            }
        }
        while let Some(datagram) = self.down.poll_deliver(self.now) {
            let head = datagram.head();
            let index = u32::from_be_bytes(*head.first_chunk().unwrap());
            let packet = u32::from_be_bytes(head[4..8].try_into().unwrap());
            let contender = &mut self.contenders[usize::from(head[8])];
            let request = &contender.requests[index as usize];
            let (path, number) = (request.path, request.number);
            let data = PacketData { path, number, packet, cache: None, payload: datagram.body() };
            contender.transfer.handle_data(self.now, &data);
            if datagram.is_marked() {
                contender.transfer.handle_marks(self.now, path, number, datagram.body().len() as u64);
            }
        }
    }
}

/// The ratio of `sub_flows` sub-flows' rate to one flow's on the same link, between 10 and 40 seconds. `sub_flows`
/// start either before the single flow or after it; the geometric mean of both orders counts, because a later flow
/// measures a longer path.
fn share(controller: ControllerKind, coupling: Coupling, sub_flows: usize, queue: f64, spread_ms: u64) -> f64 {
    let [before, after] =
        [true, false].map(|first| share_once(controller, coupling, sub_flows, queue, spread_ms, first));
    let ratio = (before * after).sqrt();
    println!(
        "{controller:?} {coupling:?} {sub_flows} sub-flows, queue {queue}, spread {spread_ms} ms: {before:.2}, {after:.2}: {ratio:.2}"
    );
    ratio
}
fn share_once(
    controller: ControllerKind,
    coupling: Coupling,
    sub_flows: usize,
    queue: f64,
    spread_ms: u64,
    first: bool,
) -> f64 {
    let config = TransferConfig { controller, coupling, ..TransferConfig::default() };
    let (mbps, rtt_ms) = (24, 40);
    let mut contest = Contest::new(mbps, rtt_ms, queue, 0.0, 130_000_000);
    let extra: Vec<u64> = (0..sub_flows as u64).map(|index| index * spread_ms).collect();
    let (ours, other) = if first { (0, 1) } else { (1, 0) };
    contest.add(config.clone(), if first { &extra } else { &[0] });
    contest.run_until(Time::from_millis(300));
    contest.add(config, if first { &[0] } else { &extra });
    contest.run_until(Time::from_millis(10_000));
    let before = contest.bytes();
    contest.run_until(Time::from_millis(40_000));
    let after = contest.bytes();
    let used = (after[0] + after[1] - before[0] - before[1]) as f64 / (mbps as f64 * 1e6 / 8.0 * 30.0);
    assert!(used > 0.9, "{used}");
    (after[ours] - before[ours]) as f64 / (after[other] - before[other]) as f64
}

#[test]
fn model_based_sub_flows_that_share_a_bottleneck_get_together_about_what_one_flow_gets() {
    let coupled = |sub_flows, queue, spread| {
        share(ControllerKind::ModelBased, Coupling::LinkedIncrease, sub_flows, queue, spread)
    };
    for (queue, spread_ms) in [(1.0, 0), (1.5, 3), (3.0, 5)] {
        let ratio = coupled(2, queue, spread_ms);
        // The one flow occasionally takes the others for rivals, and yields as Cubic does.
        assert!((0.7..1.5).contains(&ratio), "2 sub-flows, queue {queue}: {ratio}");
    }
    // The more there are, the more rounding to whole packets affects each.
    for (sub_flows, most) in [(4, 1.6), (8, 2.2)] {
        let ratio = coupled(sub_flows, 1.5, 3);
        assert!((0.7..most).contains(&ratio), "{sub_flows} sub-flows: {ratio}");
    }
}

/// A window that halves for each loss gets `sqrt(2 / p)` packets at a loss of `p`, and `sqrt(2 a / p)` if it grows by `a`
/// in a round trip: with n equal sub-flows linked increase gives each 1/n², the normalised form 1/n (RFC 6356 §3; Mathis
/// et al., "The macroscopic behavior of the TCP congestion avoidance algorithm").
#[test]
fn loss_based_sub_flows_get_the_shares_that_follow_from_their_increase() {
    for (coupling, expected) in
        [(Coupling::LinkedIncrease, 1.0), (Coupling::Normalised, 2.0), (Coupling::Uncoupled, 4.0)]
    {
        let config = TransferConfig { controller: ControllerKind::LossBased, coupling, ..TransferConfig::default() };
        let mut contest = Contest::new(200, 30, 1.5, 0.004, 130_000_000);
        contest.add(config.clone(), &[0, 0, 0, 0]);
        contest.add(config, &[0]);
        contest.run_until(Time::from_millis(5_000));
        let before = contest.bytes();
        contest.run_until(Time::from_millis(45_000));
        let after = contest.bytes();
        let ratio = (after[0] - before[0]) as f64 / (after[1] - before[1]) as f64;
        println!("{coupling:?}: {ratio:.2}");
        assert!((0.7 * expected..1.4 * expected).contains(&ratio), "{coupling:?}: {ratio}");
    }
}

#[test]
fn uncoupled_model_based_sub_flows_take_as_many_shares_as_they_are() {
    let ratio = share(ControllerKind::ModelBased, Coupling::Uncoupled, 4, 1.5, 1);
    // Each of the four takes the others for rivals where it is displaced.
    assert!((2.2..5.6).contains(&ratio), "{ratio}");
}

#[test]
fn two_flows_of_one_bottleneck_share_it_without_overflowing_it_all_the_time() {
    let mut contest = Contest::new(24, 40, 1.0, 0.0, 130_000_000);
    for _ in 0..2 {
        contest.add(TransferConfig::default(), &[0]);
    }
    contest.run_until(Time::from_millis(20_000));
    for contender in &contest.contenders {
        let path = contender.transfer.report(contest.now).paths.remove(0);
        let share = path.lost_packets as f64 / path.requested_packets as f64;
        assert!(share < 0.05, "{share:.3} of all packets lost");
        assert!(path.rtt_min.unwrap() < Duration::from_millis(50), "a standing queue was taken for the path");
    }
}
