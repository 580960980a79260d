//! Whole networks in virtual time.
#![allow(clippy::unwrap_used, reason = "a test: a failed unwrap is a failed test")]
use std::sync::{Arc, Mutex};
use tributary_content::{
    ChunkIndex, ChunkStore, HadStore, Manifest, MemoryContent, MemoryObject, MemoryOpener, Name, ObjectKind,
    ObjectReader, PublicKey, SigningKey, StoreError, StoreOpener, chunk_size_for,
};
use tributary_core::{
    ByteCount, Datagram, Duration, FaceAddresses, FaceId, Node, PeerPlace, Random, Rate, Time, TransferId, TransmitBuf,
    event::{PathReport, PathState, TransferReport},
    link::{LinkChange, LinkConfig, Loss, Reorder},
    node::FaceChange,
};
use tributary_ndn::{
    Config, NdnNode,
    config::{Credentials, DataSignature, Registrar, RegistrationScope, RouterLimits},
    receiver::selection::SELECTIONS,
    router::{
        FaceProfile, LinkService, ManagementTrust, RemoteRegistration, labels::LabelScheme, marking::MarkingRule,
        pit::PitLimits, shaping::ShapingConfig,
    },
    trust::{Anchors, TrustAnchor},
    wire::dataset::FacePersistency,
    wire::{
        Certificate, ControlParameters, ControlResponse, Data, Interest, LpPacket, Secret, SignKey, SignatureInfo,
        certificate::key_name, interest::with_parameters, reliability::ReliabilityConfig,
    },
};
use tributary_sim::{Connection, Network, NodeIndex};
use tributary_testkit::crowd::{self, Role};
use tributary_transport::{ControllerKind, Coupling, Endpoint, FaceOptions, Fetch, PathMetric};

const OBJECT: &str = "/lab/file";

/// A network whose nodes are numbered from 1, and whose links lead the Interests from the first node to the second.
struct World {
    net: Network<NdnNode>,
    nodes: Vec<NodeIndex>,
    links: Vec<Connection>,
    faces: Vec<u32>,
}

impl World {
    fn new(count: usize, set: impl Fn(usize, &mut Config)) -> World {
        let mut net = Network::new(1);
        let nodes = (1..=count)
            .map(|at| {
                let mut config = Config::new(&format!("node-{at}"), at as u64);
                set(at, &mut config);
                net.add_node(NdnNode::new(config))
            })
            .collect();
        World { net, nodes, links: Vec::new(), faces: vec![0; count] }
    }
    fn node(&self, at: usize) -> NodeIndex {
        self.nodes[at - 1]
    }
    fn link(&mut self, from: usize, to: usize, config: &LinkConfig) {
        let face = |world: &mut World, at: usize| {
            world.faces[at - 1] += 1;
            FaceId(world.faces[at - 1])
        };
        let (near, far) = (face(self, from), face(self, to));
        let ends = ((self.node(from), near), (self.node(to), far));
        self.links.push(self.net.connect(ends.0, ends.1, config.clone(), config.clone()));
        for (node, face) in [ends.0, ends.1] {
            self.net.with(node, |node, now| node.add_face(now, face, FaceOptions { mtu: 1472, rate: None }));
        }
        self.net.with(ends.0.0, |node, _| node.router_mut().add_route(&"/lab".parse().unwrap(), near, 0));
    }
    /// Publishes `count` random bytes at each of the nodes; returns them.
    fn publish(&mut self, at: impl IntoIterator<Item = usize>, count: usize) -> Vec<u8> {
        let bytes = bytes(count);
        at.into_iter().for_each(|at| self.publish_object(at, memory_object(&bytes, &key(1))));
        bytes
    }
    fn publish_object(&mut self, at: usize, object: impl ObjectReader + 'static) {
        self.net.with(self.node(at), |node, now| node.publish(now, Box::new(object)));
    }
    /// Fetches at a node to the end, which must deliver the published bytes; returns the duration.
    fn fetch_all(&mut self, at: usize, sent: &[u8]) -> (Duration, TransferReport) {
        let fetch = self.fetch(at);
        self.receive(&fetch, sent)
    }
    fn fetch(&mut self, at: usize) -> Fetching {
        self.fetch_with(at, MemoryOpener::new(), Duration::from_secs(20))
    }
    fn fetch_with(&mut self, at: usize, opener: MemoryOpener, patience: Duration) -> Fetching {
        let content = opener.content();
        let fetch = Fetch {
            name: object(),
            opener: Box::new(opener),
            rate_limit: None,
            paths_per_source: 4,
            metric: PathMetric::Hops,
            patience: Some(patience),
        };
        Fetching { at, id: self.net.with(self.node(at), |node, now| node.fetch(now, fetch)), content }
    }
    /// Runs until the fetch ends, which must deliver the published bytes; returns the duration.
    fn receive(&mut self, fetch: &Fetching, sent: &[u8]) -> (Duration, TransferReport) {
        let (took, report) = self.finish(fetch);
        assert!(fetch.content.finished(&object()).is_some_and(|content| content == sent), "{report:?}");
        (took, report)
    }
    /// Runs until the fetch ends; how long it took.
    fn finish(&mut self, fetch: &Fetching) -> (Duration, TransferReport) {
        let report = |world: &World| world.net.node(world.node(fetch.at)).report(world.net.now(), fetch.id).unwrap();
        for _ in 0..6000 {
            let next = self.net.now() + Duration::from_millis(20);
            self.net.run_until(next);
            let report = report(self);
            if let Some(ended) = report.ended {
                return (ended.since(report.started), report);
            }
        }
        panic!("it has not ended: {:?}", report(self));
    }
}

/// A running fetch at a node.
struct Fetching {
    at: usize,
    id: TransferId,
    content: MemoryContent,
}

fn link(mbps: u64, millis: u64) -> LinkConfig {
    LinkConfig::new(Rate::from_mbps(mbps), Duration::from_millis(millis))
}
/// A link that loses this share of packets each way.
fn lossy(loss: f64, link: LinkConfig) -> LinkConfig {
    LinkConfig { loss: Loss::Bernoulli(loss), ..link }
}
fn bytes(count: usize) -> Vec<u8> {
    let mut random = Random::new(9, 9);
    (0..count).map(|_| random.bits() as u8).collect()
}
fn object() -> Name {
    OBJECT.parse().unwrap()
}
fn key(secret: u8) -> SigningKey {
    SigningKey::from_secret(&[secret; 32])
}
fn memory_object(bytes: &[u8], key: &SigningKey) -> MemoryObject {
    MemoryObject::new(object(), bytes.to_vec(), key).unwrap()
}
/// Consumer 1, routers 2 to 4, producers 5 to 8 with 4, 8, 8 and 16 Mbit/s: the tree of PTP's scenario 1.
fn tree(set: impl Fn(usize, &mut Config)) -> World {
    tree_with(None, set)
}
/// The same with queues of `queue_packets` packets, `None` for 1 MiB.
fn tree_with(queue_packets: Option<u64>, set: impl Fn(usize, &mut Config)) -> World {
    let mut world = World::new(8, set);
    let link = |mbps, millis| LinkConfig { queue_packets, ..link(mbps, millis) };
    world.link(1, 2, &link(100, 5));
    world.link(2, 3, &link(50, 10));
    world.link(2, 4, &link(50, 10));
    for (from, to, mbps) in [(3, 5, 4), (3, 6, 8), (4, 7, 8), (4, 8, 16)] {
        world.link(from, to, &link(mbps, 10));
    }
    world
}

#[test]
fn a_file_comes_from_four_producers_over_all_paths_near_the_sum_of_their_rates() {
    for scheme in [LabelScheme::Random, LabelScheme::Huffman] {
        let mut world = tree(|_, config| config.labels = scheme);
        let sent = world.publish(5..=8, 9_000_000);
        let (took, report) = world.fetch_all(1, &sent);
        assert_eq!((report.sources.len(), report.paths.len()), (4, 4), "{report:?}");
        // 36 Mbit/s together; 9 % of it are names, signatures and headers, and there are the first round trips.
        let ideal = Duration::from_secs(2);
        assert!(took < ideal.mul_f64(1.35), "{took:?} {report:?}");
        let share = |source: &str| report.sources.iter().find(|s| s.label == source).unwrap().bytes as f64 / 9e6;
        assert!((0.08..0.16).contains(&share("node-5")) && (0.35..0.55).contains(&share("node-8")), "{report:?}");
    }
}

#[test]
fn every_selection_carries_a_fetch_to_its_end_whatever_tags_tell_of_links() {
    for (selection, _) in SELECTIONS {
        for (labels, tell_rates) in
            [(LabelScheme::Random, true), (LabelScheme::Random, false), (LabelScheme::Huffman, false)]
        {
            let mut world = tree(|_, config| {
                (config.labels, config.tell_rates) = (labels, tell_rates);
                config.paths.selection = selection.into();
                // Two of the four at a time, and several changes.
                (config.paths.in_use_max, config.paths.change_interval) = (2, Duration::from_millis(300));
            });
            let sent = world.publish(5..=8, 3_000_000);
            let (took, report) = world.fetch_all(1, &sent);
            // The slowest two of them carry 12 Mbit/s.
            assert!(took < Duration::from_secs(2).mul_f64(1.5), "{selection} {labels:?}: {took:?} {report:?}");
        }
    }
}

#[test]
fn caches_on_the_way_answer_a_second_fetch_and_are_told_apart() {
    let mut world = World::new(4, |at, config| {
        if at != 2 {
            config.cache_bytes = ByteCount(0);
        }
    });
    world.link(1, 2, &link(50, 5));
    world.link(4, 2, &link(50, 5));
    world.link(2, 3, &link(5, 10));
    let sent = world.publish([3], 1_000_000);
    let (slow, report) = world.fetch_all(1, &sent);
    assert_eq!(report.cached_bytes, 0);
    let (fast, report) = world.fetch_all(4, &sent);
    assert!(report.cached_bytes > 950_000, "{report:?}");
    assert!(fast < slow / 2, "{fast:?} after {slow:?}");
}

#[test]
fn a_link_that_dies_is_noticed_without_a_nack_and_the_others_finish() {
    let mut world = tree(|_, _| {});
    let sent = world.publish(5..=8, 6_000_000);
    let fetch = world.fetch(1);
    world.net.run_until(Time::from_millis(800));
    // The link to producer 8, silently.
    let dead = world.links[6];
    world.net.outage(dead, Time::from_millis(801), Time::MAX);
    let (_, report) = world.receive(&fetch, &sent);
    let of_8 = |path: &&PathReport| path.label.ends_with("node-8");
    assert!(
        report.paths.iter().filter(of_8).all(|path| matches!(path.state, PathState::Silent | PathState::Closed)),
        "{report:?}"
    );
}

/// Of two paths one is used. Whichever dies, the other one has it all soon.
#[test]
fn when_the_only_path_in_use_dies_another_takes_its_place_before_a_second_has_passed() {
    for dead in [0, 2] {
        let mut world = World::new(4, |_, config| config.paths.in_use_max = 1);
        for router in [2, 3] {
            world.link(1, router, &link(10, 10));
            world.link(router, 4, &link(10, 10));
        }
        let sent = world.publish([4], 2_000_000);
        let fetch = world.fetch(1);
        world.net.outage(world.links[dead], Time::from_millis(800), Time::MAX);
        let (took, _) = world.receive(&fetch, &sent);
        // 1.7 s of Data at the rate of one path.
        assert!(took < Duration::from_millis(2_700), "link {dead}: {took:?}");
    }
}

#[test]
fn loss_reordering_and_duplication_everywhere_slow_it_down_and_nothing_else() {
    for seed in 0..3u64 {
        let mut world = World::new(5, |_, config| config.seed += 100 * seed);
        let bad = LinkConfig { duplicate: 0.01, jitter: Duration::from_millis(2), ..lossy(0.02, link(20, 5)) };
        for (from, to) in [(1, 2), (2, 3), (2, 4), (3, 5), (4, 5)] {
            world.link(from, to, &bad);
        }
        let sent = world.publish([5], 1_000_000);
        world.fetch_all(1, &sent);
    }
}

/// Of Interests and of Data: with a fifth lost, over two links two of five requests are answered, and with three tenths
/// one of four. So most packets are requested again: the answers must show that the path works, and the missing ones
/// that it loses much.
#[test]
fn a_fifth_or_more_lost_on_every_link_is_no_silence_over_one_path_or_two() {
    for (loss, routers, limit) in [(0.2, 1, 8), (0.2, 2, 5), (0.3, 1, 16), (0.3, 2, 15), (0.4, 1, 40), (0.4, 2, 40)] {
        let producer = routers + 2;
        let mut world = World::new(producer, |_, _| {});
        let bad = lossy(loss, link(10, 10));
        for router in 2..producer {
            world.link(1, router, &bad);
            world.link(router, producer, &bad);
        }
        let sent = world.publish([producer], 2_000_000);
        let (took, _) = world.fetch_all(1, &sent);
        // 1.6 s of payload at the rate of one path.
        assert!(took < Duration::from_secs(limit), "{loss} over {routers}: {took:?}");
    }
}

/// The router has no route to the object for half a minute, and rejects Interests.
#[test]
fn probes_that_come_back_come_ever_more_rarely_and_find_the_way_when_there_is_one() {
    let mut world = World::new(3, |_, _| {});
    world.link(1, 2, &link(20, 10));
    world.link(3, 2, &link(20, 10));
    let sent = world.publish([3], 100_000);
    let fetch = world.fetch_with(1, MemoryOpener::new(), Duration::from_secs(60));
    let requested = |world: &World| world.net.node(world.node(1)).router().stats.counters.interests.1;
    // Probes double their distance from 0.1 s on, and discovery asks each half a second.
    let mut before = 0;
    for (until, most) in [(3, 20), (10, 2 * 7), (30, 2 * 20)] {
        world.net.run_until(Time::from_millis(until * 1_000));
        let now = requested(&world);
        assert!(now - before <= most && now > before, "{} Interests until {until} s", now - before);
        before = now;
    }
    let (router, publisher) = (world.node(2), FaceId(2));
    world.net.with(router, |node, _| node.router_mut().add_route(&"/lab".parse().unwrap(), publisher, 0));
    let (_, report) = world.receive(&fetch, &sent);
    let ended = report.ended.unwrap();
    assert!(ended < Time::from_millis(31_500), "{ended:?}: probes come once a second");
}

#[test]
fn forwarders_that_know_no_tags_in_the_middle_are_no_obstacle() {
    let mut world = tree(|at, config| config.path_tags = at != 2);
    let sent = world.publish(5..=8, 1_000_000);
    world.fetch_all(1, &sent);
}

/// The paper's window grows until a packet is lost: here an Interest, which the router rejects at once because too many
/// wait.
#[test]
fn where_interests_are_shaped_a_full_queue_of_them_is_a_loss_and_no_failed_path() {
    let mut world = World::new(3, |_, config| config.transfer.controller = ControllerKind::PathSpecified);
    world.link(1, 2, &link(100, 5));
    world.link(2, 3, &link(10, 10));
    let shaping = ShapingConfig { interests_max: 30, ..ShapingConfig::DEFAULT };
    let options = FaceOptions { mtu: 1472, rate: Some(Rate::from_mbps(10)) };
    let profile = FaceProfile { shaping: Some(shaping), ..FaceProfile::from(options) };
    world.net.with(world.node(3), |node, _| node.add_face_with(FaceId(1), profile));
    let sent = world.publish([3], 3_000_000);
    let (took, report) = world.fetch_all(1, &sent);
    assert!(report.paths.iter().map(|path| path.lost_packets).sum::<u64>() > 0, "{report:?}");
    // 2.4 s of payload; 9 % of the link are names, signatures and headers.
    assert!(took < Duration::from_secs(3), "{took:?} {report:?}");
}

/// A narrow link with a queue of a second in front of it, whose forwarder marks what waits there for long.
#[test]
fn marks_keep_the_queues_of_others_short_and_the_link_full() {
    let fetch_with = |controller: ControllerKind, marking: MarkingRule, delay_ms: u64| {
        let mut world = World::new(3, |_, config| config.transfer.controller = controller);
        world.link(1, 2, &link(100, 5));
        world.link(2, 3, &LinkConfig { queue_bytes: 1_250_000, ..link(10, delay_ms) });
        let options = FaceOptions { mtu: 1472, rate: Some(Rate::from_mbps(10)) };
        let profile = FaceProfile { marking, ..FaceProfile::from(options) };
        world.net.with(world.node(3), |node, _| node.add_face_with(FaceId(1), profile));
        let sent = world.publish([3], 10_000_000);
        let fetching = world.fetch(1);
        let mut rtts = Vec::new();
        for at in (4_000..=7_000).step_by(100) {
            world.net.run_until(Time::from_millis(at));
            let report = world.net.node(world.node(1)).report(world.net.now(), fetching.id).unwrap();
            rtts.push(report.paths[0].rtt.unwrap());
        }
        rtts.sort_unstable();
        let (took, report) = world.receive(&fetching, &sent);
        (took, rtts[rtts.len() / 2], report.paths[0].lost_packets)
    };
    // Windows swing with the intervals of the rule that marks: medians over time, and over links of several lengths.
    let fetch = |controller, marking| {
        let mut runs = [18, 20, 22].map(|delay_ms| fetch_with(controller, marking, delay_ms));
        runs.sort_unstable_by_key(|(_, rtt, _)| *rtt);
        runs[1]
    };
    let codel = MarkingRule::Codel { target: Duration::from_millis(5), interval: Duration::from_millis(100) };
    for controller in [ControllerKind::PathSpecified, ControllerKind::ModelBased] {
        let [without, with] = [MarkingRule::Off, codel].map(|marking| fetch(controller, marking));
        // 8 s of payload, and a tenth more for names, signatures and headers.
        assert!(without.0.max(with.0) < Duration::from_millis(9_000), "{controller:?} {without:?} {with:?}");
        let (_, rtt, lost) = with;
        assert!(rtt < Duration::from_millis(100) && lost == 0, "{controller:?} {rtt:?} {lost}");
        // The model needs no marks for that.
        let (_, rtt, lost) = without;
        let fills = controller == ControllerKind::PathSpecified;
        assert_eq!((rtt > Duration::from_millis(500), lost > 100), (fills, fills), "{controller:?} {rtt:?} {lost}");
    }
}

/// A narrow link with a short queue, between forwarders that know no tags and hold copies back for 400 ms, as ndnd's do.
#[test]
fn what_is_lost_is_not_waited_for_where_copies_are_held_back() {
    let mut world = World::new(4, |at, config| {
        if at == 2 || at == 3 {
            config.path_tags = false;
            config.cache_bytes = ByteCount(0);
            config.suppression = (Duration::from_millis(400), Duration::from_millis(400));
        }
    });
    world.link(1, 2, &link(1000, 0));
    world.link(2, 3, &LinkConfig { queue_bytes: 64 << 10, ..link(25, 10) });
    world.link(3, 4, &link(1000, 0));
    let sent = world.publish([4], 3_000_000);
    let (took, report) = world.fetch_all(1, &sent);
    assert!(report.retransmitted_bytes > 0, "nothing was lost");
    // Payload at the link's rate; a tenth of it is names, signatures and headers.
    let ideal = Duration::from_millis(960);
    assert!(took < ideal.mul_f64(1.3), "{took:?} {report:?}");
}

/// Packets that a link delays are overtaken, declared lost and requested again; then they arrive at once. If one
/// counted as the answer to the second request, it would show a round trip near zero, and that all packets requested
/// between the two are lost.
#[test]
fn what_comes_late_after_it_was_asked_for_again_is_no_answer_to_that() {
    for is_legacy in [false, true] {
        let mut world = World::new(3, |at, config| config.path_tags = at != 2 || !is_legacy);
        world.link(1, 2, &link(100, 5));
        let reorder = Reorder { probability: 0.02, delay: Duration::from_millis(8) };
        world.link(2, 3, &LinkConfig { reorder, ..link(20, 10) });
        let sent = world.publish([3], 6_000_000);
        let (took, report) = world.fetch_all(1, &sent);
        // 2.4 s of payload; 9 % of the link are names, signatures and headers.
        assert!(took < Duration::from_millis(3_000), "{took:?} {report:?}");
        let path = &report.paths[0];
        assert!(path.rtt_min >= Some(Duration::from_millis(30)) && path.lost_packets < 50, "{report:?}");
    }
}

/// The consumer's own link loses packets, and the forwarder behind it caches them without marking its answers.
#[test]
fn what_a_cache_may_have_answered_that_does_not_say_so_tells_nothing_of_the_path() {
    let mut world = World::new(3, |at, config| config.path_tags = at != 2);
    world.link(1, 2, &lossy(0.03, link(100, 1)));
    world.link(2, 3, &link(10, 20));
    let sent = world.publish([3], 3_000_000);
    let (took, report) = world.fetch_all(1, &sent);
    assert!(report.retransmitted_bytes > 50_000, "little was lost: {report:?}");
    // 2.4 s of payload, and 6 % of all exchanges lost.
    assert!(took < Duration::from_millis(3_200), "{took:?} {report:?}");
    assert!(report.paths[0].rtt_min >= Some(Duration::from_millis(42)), "{report:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = || {
        let mut world = tree(|_, _| {});
        let sent = world.publish(5..=8, 500_000);
        let (took, _) = world.fetch_all(1, &sent);
        (took, world.net.trace_hash())
    };
    assert_eq!(run(), run());
}

/// The paper's form: MPCCP's window, loss by one reordered packet of a producer, Linked Increase over all paths.
fn as_in_the_paper(config: &mut Config) {
    config.transfer.controller = ControllerKind::PathSpecified;
    config.transfer.coupling = Coupling::LinkedIncrease;
    config.transfer.reorder_packets = 1;
    config.transfer.request_packets_max = 1;
    config.segment_bytes = 1024;
}

#[test]
fn an_imposter_who_is_heard_first_is_named_and_the_others_are_waited_for() {
    let mut world = World::new(4, |_, _| {});
    // The imposter at node 3 is next door, the publisher at node 4 far away.
    for (to, millis) in [(2, 1), (3, 1), (4, 150)] {
        let from = if to == 2 { 1 } else { 2 };
        world.link(from, to, &link(50, millis));
    }
    world.net.with(world.node(2), |node, _| node.router_mut().set_strategy(&"/lab".parse().unwrap(), "multicast"));
    let sent = world.publish([4], 300_000);
    world.publish_object(3, memory_object(&bytes(200_000), &key(2)));
    let fetch = world.fetch_with(1, MemoryOpener::pinned(key(1).public()), Duration::from_secs(20));
    let (_, report) = world.receive(&fetch, &sent);
    let imposter = report.sources.iter().find(|source| source.label == "node-3");
    assert!(imposter.is_some_and(|source| source.distrusted.is_some() && source.bytes == 0), "{report:?}");
}

#[test]
fn the_papers_own_windows_use_all_paths_too() {
    // Queues as in the paper's evaluation: windows that grow until packets are lost fill those of 1 MiB for seconds.
    let mut world = tree_with(Some(50), |_, config| as_in_the_paper(config));
    let sent = world.publish(5..=8, 9_000_000);
    let (took, report) = world.fetch_all(1, &sent);
    assert_eq!(report.paths.iter().filter(|path| path.bytes > 200_000).count(), 4, "{report:?}");
    // 36 Mbit/s together, a tenth of it names, signatures and headers; windows that grow until packets are lost.
    assert!(took < Duration::from_secs(2).mul_f64(1.5), "{took:?} {report:?}");
}

#[test]
fn caches_and_producers_on_one_path_are_told_apart_by_the_papers_own_windows() {
    let mut world = World::new(4, |_, config| as_in_the_paper(config));
    world.link(1, 2, &link(50, 5));
    world.link(4, 2, &link(50, 5));
    // The queue is short: in a long one, slow start leaves the whole object on its way to the cache.
    world.link(2, 3, &LinkConfig { queue_bytes: 40_000, ..link(5, 10) });
    let sent = world.publish([3], 2_000_000);
    // Another consumer takes a part of the object and stops, so that a part of it is cached on the way.
    let first = world.fetch(4);
    world.net.run_until(Time::from_millis(2000));
    world.net.with(world.nodes[3], |node, now| node.cancel(now, first.id));
    let (_, report) = world.fetch_all(1, &sent);
    assert!((500_000..1_500_000).contains(&report.cached_bytes), "{report:?}");
}

/// No link has a configured rate, and the links lose packets as well.
#[test]
fn forwarders_find_out_what_their_links_carry_while_a_fetch_fills_them() {
    for mbps in [1, 7, 80] {
        let mut world = World::new(3, |_, _| {});
        world.link(1, 2, &lossy(0.01, link(mbps, 10)));
        world.link(2, 3, &lossy(0.01, link(2 * mbps, 10)));
        let sent = world.publish([3], mbps as usize * 625_000);
        world.fetch_all(1, &sent);
        for (at, carries) in [(2, mbps), (3, 2 * mbps)] {
            let node = world.net.node(world.node(at));
            let known = node.status(world.net.now()).faces[0].rate.map(Rate::mbps);
            // What UDP and IP add is not in it.
            let expected = carries as f64 * 1_200.0 / 1_228.0;
            let is_right = known.map_or(carries > 150, |known| (known / expected - 1.0).abs() < 0.01);
            assert!(is_right, "{carries} Mbit/s: {known:?} Mbit/s at node {at}");
        }
    }
}

/// Serves its object with one byte of each chunk changed.
struct Faulty(MemoryObject);

impl ObjectReader for Faulty {
    fn manifest(&self) -> &Manifest {
        self.0.manifest()
    }
    fn tree(&self) -> bytes::Bytes {
        self.0.tree()
    }
    fn read_chunk(&mut self, index: ChunkIndex) -> Result<bytes::Bytes, StoreError> {
        let mut chunk = self.0.read_chunk(index)?.to_vec();
        let at = chunk.len() / 2;
        chunk[at] ^= 1;
        Ok(chunk.into())
    }
}

#[test]
fn a_producer_that_lies_is_named_and_nobody_else_is() {
    let mut world = tree(|_, _| {});
    // Enough that the relaying nodes before it are cleared.
    let sent = world.publish(5..=7, 12_000_000);
    world.publish_object(8, Faulty(memory_object(&sent, &key(1))));
    let (_, report) = world.fetch_all(1, &sent);
    let named: Vec<&str> = report
        .sources
        .iter()
        .filter(|source| source.distrusted.is_some())
        .map(|source| source.label.as_str())
        .collect();
    assert_eq!(named, ["node-8"], "{report:?}");
    let mut honest = report.sources.iter().filter(|source| source.label != "node-8");
    assert!(honest.all(|source| source.closed.is_none()), "{report:?}");
}

#[test]
fn a_path_that_was_silent_is_used_again_as_soon_as_it_answers() {
    let mut world = World::new(3, |_, _| {});
    world.link(1, 2, &link(20, 10));
    world.link(1, 3, &link(20, 10));
    let sent = world.publish([2, 3], 20_000_000);
    world.net.outage(world.links[0], Time::from_millis(1_000), Time::from_millis(2_000));
    let (took, report) = world.fetch_all(1, &sent);
    // 4.5 s at the links' rates; a tenth of it are names, signatures and headers. Without the path: 7 s.
    assert!(took < Duration::from_millis(5_400), "{took:?} {report:?}");
    assert!(report.paths.iter().all(|path| path.state == PathState::Done), "{report:?}");
}

#[test]
fn a_path_that_leads_to_another_version_by_now_stays_silent_and_the_fetch_ends_in_time() {
    let mut world = World::new(3, |_, _| {});
    world.link(1, 2, &link(5, 10));
    world.link(2, 3, &link(5, 10));
    world.publish([2], 1_000_000);
    let fetch = world.fetch(1);
    world.net.run_until(Time::from_millis(500));
    let (kind, chunk_size) = (ObjectKind::File, chunk_size_for(9_000));
    let newer = MemoryObject::with_options(object(), bytes(9_000), &key(1), 2, kind, chunk_size).unwrap();
    world.publish_object(3, newer);
    world.net.with(world.node(2), |node, now| node.unpublish(now, &object()));
    let (took, report) = world.finish(&fetch);
    // Node 2 forwards names that it does not have, so probes come back from node 3.
    assert!(took < Duration::from_millis(21_000), "{took:?} of a patience of 20 s");
    assert!(report.failure.is_some() && report.bytes == 1_000_000, "{report:?}");
}

#[test]
fn after_a_restart_of_the_router_between_a_fetch_is_answered_as_soon_as_publishers_have_registered_again() {
    let scope = RegistrationScope::Localhop;
    let router = || {
        let mut config = Config::new("node-2", 2);
        config.remote_registration = RemoteRegistration::Neighbours;
        config
    };
    let mut world = World::new(3, |at, config| match at {
        2 => *config = router(),
        3 => config.registrars = vec![Registrar { face: FaceId(1), scope }],
        _ => {}
    });
    world.link(1, 2, &link(20, 10));
    // Node 2 learns no route.
    world.link(3, 2, &link(20, 10));
    let sent = world.publish([3], 100_000);
    world.net.run_until(Time::from_millis(30_300));
    let place = world.node(2);
    world.net.kill(place);
    world.net.run_until(Time::from_millis(32_800));
    world.net.restart(place, |now| {
        let mut node = NdnNode::new(Config { epoch: Duration::from_secs(32), ..router() });
        node.add_face(now, FaceId(1), FaceOptions { mtu: 1472, rate: None });
        node
    });
    // A fetch that begins while its router has just started waits for the publisher.
    let (took, _) = world.fetch_all(1, &sent);
    // It is queried for its run each second; by renewals alone, each 20 s, it takes 7.7 s here and up to 20 s.
    assert!(took < Duration::from_millis(1_500), "{took:?}");
}

#[test]
fn two_publishers_below_one_prefix_serve_each_its_own_objects() {
    let mut world = World::new(4, |at, config| match at {
        2 => config.remote_registration = RemoteRegistration::Neighbours,
        3 | 4 => config.registrars = vec![Registrar { face: FaceId(1), scope: RegistrationScope::Localhop }],
        _ => {}
    });
    world.link(1, 2, &link(20, 10));
    // Both know the router as the way to everything else, as hosts do.
    world.link(3, 2, &link(20, 10));
    world.link(4, 2, &link(20, 10));
    let content = bytes(50_000);
    let object = |at: usize| MemoryObject::new(name_of(at), content.clone(), &key(1)).unwrap();
    for at in 0..400 {
        world.publish_object(3 + at % 2, object(at));
    }
    // One is at both.
    world.publish_object(3, object(1_000));
    world.publish_object(4, object(1_000));
    world.net.run_until(Time::from_millis(5_000));
    let routes = world.net.node(world.node(2)).router().rib.len();
    assert!(routes < 10, "{routes} routes to 402 objects");
    for (at, sources) in [(7, 1), (8, 1), (398, 1), (399, 1), (1_000, 2)] {
        let opener = MemoryOpener::new();
        let received = opener.content();
        let fetch = Fetch {
            name: name_of(at),
            opener: Box::new(opener),
            rate_limit: None,
            paths_per_source: 4,
            metric: PathMetric::Hops,
            patience: Some(Duration::from_secs(20)),
        };
        let id = world.net.with(world.node(1), |node, now| node.fetch(now, fetch));
        let (took, report) = world.finish(&Fetching { at: 1, id, content: received.clone() });
        assert!(received.finished(&name_of(at)).is_some_and(|received| received == content), "{at}: {report:?}");
        assert!(took < Duration::from_millis(1_000), "{at} took {took:?}");
        assert_eq!(report.sources.len(), sources, "{at}: {report:?}");
    }
}
fn name_of(at: usize) -> Name {
    format!("/lab/data/{at}").parse().unwrap()
}

#[test]
fn a_face_that_only_packets_told_of_goes_after_a_minute_unless_somebody_says_that_it_stays() {
    let mut node = NdnNode::new(Config::new("node", 1));
    let faces = [FaceId(5), FaceId(6)];
    faces.iter().for_each(|face| node.handle_datagram(Time::ZERO, *face, Datagram::from(vec![0; 20])));
    assert!(faces.iter().all(|face| !node.router().has_face(*face)), "that was no packet");
    faces.iter().for_each(|face| node.handle_datagram(Time::ZERO, *face, Datagram::from(LpPacket::default().encode())));
    let profile = node.router().faces().find(|(id, ..)| *id == faces[1]).unwrap().2.clone();
    assert_eq!(profile.persistency, FacePersistency::OnDemand);
    node.router_mut().add_face(faces[1], FaceProfile { persistency: FacePersistency::Persistent, ..profile });
    node.handle_timeout(Time::from_millis(60_000));
    assert_eq!(faces.map(|face| node.router().has_face(face)), [false, true]);
}

#[test]
fn faces_are_what_the_settings_say_whoever_tells_of_them() {
    let (default, single) = (FaceId(5), FaceId(6));
    let slow = LinkService { rate: Some(Rate::from_mbps(3)), ..LinkService::default() };
    let config = Config {
        link_service: LinkService {
            rate: Some(Rate::from_mbps(20)),
            reliability: Some(ReliabilityConfig::default()),
            marking: MarkingRule::Codel { target: Duration::from_millis(5), interval: Duration::from_millis(100) },
            shaping: Some(ShapingConfig::DEFAULT),
        },
        link_services: [(single, slow)].into(),
        ..Config::new("node", 1)
    };
    let mut node = NdnNode::new(config);
    let profile = |node: &NdnNode, face| node.router().faces().find(|(id, ..)| *id == face).unwrap().2.clone();
    // A face opened by a packet, a configured one, and one with a reported link rate.
    node.handle_datagram(Time::ZERO, default, Datagram::from(LpPacket::default().encode()));
    node.add_face(Time::ZERO, single, FaceOptions { mtu: 1_472, rate: None });
    node.add_face(Time::ZERO, FaceId(7), FaceOptions { mtu: 1_472, rate: Some(Rate::from_mbps(1)) });
    let found = profile(&node, default);
    assert_eq!(found.rate, Some(Rate::from_mbps(20)));
    assert!(found.reliability.is_some() && found.shaping.is_some() && found.marking != MarkingRule::Off);
    assert_eq!(profile(&node, FaceId(7)).rate, Some(Rate::from_mbps(1)));
    let found = profile(&node, single);
    assert_eq!((found.rate, found.reliability, found.shaping), (slow.rate, None, None));
    // A stream loses nothing, and one to an application of this machine is no link.
    let addresses = FaceAddresses { peer: "tcp4://192.0.2.1:1".into(), ..FaceAddresses::default() };
    let open = |place| FaceChange::Opened { mtu: u32::MAX, place, addresses: addresses.clone() };
    node.handle_face(Time::ZERO, FaceId(8), open(PeerPlace::Elsewhere));
    let found = profile(&node, FaceId(8));
    assert_eq!((found.rate, found.reliability), (Some(Rate::from_mbps(20)), None));
    node.handle_face(Time::ZERO, FaceId(9), open(PeerPlace::ThisMachine));
    assert_eq!((profile(&node, FaceId(9)).rate, profile(&node, FaceId(9)).shaping), (None, None));
}

#[test]
fn the_limits_of_the_settings_are_those_of_the_tables() {
    let pit = PitLimits { entries_max: 20, entries_per_face_max: 5, ..PitLimits::default() };
    let limits = RouterLimits { pit, routes_max: 3, faces_max: 6, ..RouterLimits::default() };
    let mut node = NdnNode::new(Config { limits, cache_packets_max: Some(7), ..Config::new("node", 1) });
    // Four faces lead to the node's own parts.
    for (face, is_there) in [(1, true), (2, true), (3, false)] {
        node.add_face(Time::ZERO, FaceId(face), FaceOptions { mtu: 1_472, rate: None });
        assert_eq!(node.router().has_face(FaceId(face)), is_there);
    }
    let name = |number: u32| Name::root().child(&number.to_be_bytes()).unwrap();
    let routes = (0..5).filter(|number| node.router_mut().add_route(&name(*number), FaceId(2), 0)).count();
    assert_eq!(routes, 3);
    for number in 0..20 {
        let below = name(0).child(&[number]).unwrap();
        let requested = Interest::new((&below).into()).encode();
        node.handle_datagram(Time::ZERO, FaceId(1), Datagram::from(requested));
    }
    assert_eq!(node.router().pit.len(), 5);
    assert_eq!(node.router().cs.limits.packets_max, 7);
}

#[test]
fn a_node_obeys_whom_its_settings_say() {
    let (operator, other) = (SignKey::ed25519(&[1; 32]), SignKey::ed25519(&[2; 32]));
    let code = |management: &ManagementTrust, key: &SignKey| {
        let mut node = NdnNode::new(Config { management: management.clone(), ..Config::new("node", 1) });
        let open =
            FaceChange::Opened { mtu: u32::MAX, place: PeerPlace::ThisMachine, addresses: FaceAddresses::default() };
        node.handle_face(Time::ZERO, FaceId(1), open);
        let parameters = ControlParameters { name: "/app".parse().ok(), ..ControlParameters::default() };
        let base: Name = "/localhost/nfd/rib/register".parse().unwrap();
        let base = base.child(&parameters.encode()).unwrap();
        let interest = Interest {
            signature: Some(SignatureInfo { nonce: Some(&[1; 8]), time: Some(0), ..SignatureInfo::new(key.kind()) }),
            ..Interest::new((&base).into())
        };
        node.handle_datagram(Time::ZERO, FaceId(1), Datagram::from(with_parameters(&interest, Some(key))));
        let mut batch = TransmitBuf::new();
        node.poll_transmit(Time::ZERO, &mut batch).unwrap();
        let answer = batch.drain().next().unwrap().to_vec();
        let answer = LpPacket::decode(&answer).map_or(answer.clone(), |headers| headers.fragment.unwrap().to_vec());
        ControlResponse::decode(Data::decode(&answer).unwrap().content.unwrap()).unwrap().code
    };
    let keys = ManagementTrust::Keys(vec![operator.verify_key()]);
    for (management, codes) in
        [(ManagementTrust::AnyLocal, [200, 200, 200]), (keys, [403, 200, 403]), (ManagementTrust::Nobody, [403; 3])]
    {
        let found = [&SignKey::Digest, &operator, &other].map(|key| code(&management, key));
        assert_eq!(found, codes, "{management:?}");
    }
}

/// The link on which fetches of `ndnd cat` do not complete: `cargo xtask bench ndn-congested`.
#[test]
fn a_narrow_link_with_a_short_queue_between_two_forwarders_is_filled() {
    for queue_bytes in [32 << 10, 64 << 10] {
        let mut world = World::new(4, |_, _| {});
        world.link(1, 2, &link(1_000, 1));
        world.link(2, 3, &LinkConfig { queue_bytes, ..link(25, 10) });
        world.link(3, 4, &link(1_000, 1));
        let sent = world.publish([4], 25_000_000);
        let (took, _) = world.fetch_all(1, &sent);
        let carried = world.net.link_stats(world.links[1].b_to_a);
        let used = carried.out_bytes as f64 * 8.0 / 25e6 / took.as_secs_f64();
        assert!(used >= 0.95 && carried.dropped_packets > 0, "{queue_bytes}: {used:.3} of it, {carried:?}");
    }
}

/// A token bucket of 16 kB without a queue, on the last link or on the first. The source's own node or the router has a
/// cache before it.
#[test]
fn behind_a_policer_a_fetch_asks_for_no_more_than_its_rate() {
    let policer = LinkConfig {
        burst_bytes: 16_000,
        queue_bytes: 1_500,
        ..LinkConfig::new(Rate::from_mbps(16), Duration::from_micros(50))
    };
    // Without the router's cache 0.078 are lost and 0.966 used on the first link.
    for (links, policed, most, least) in
        [([link(100, 1), policer.clone()], 1, 0.03, 0.9), ([policer.clone(), link(100, 5)], 0, 0.15, 0.8)]
    {
        let mut world = World::new(3, |_, _| {});
        world.link(1, 2, &links[0]);
        world.link(2, 3, &links[1]);
        let sent = world.publish([3], 20_000_000);
        let (took, _) = world.fetch_all(1, &sent);
        let carried = world.net.link_stats(world.links[policed].b_to_a);
        let used = carried.out_bytes as f64 * 8.0 / 16e6 / took.as_secs_f64();
        let lost = carried.dropped_packets as f64 / carried.in_packets as f64;
        assert!(lost <= most && used >= least, "link {policed}: {lost:.4} lost, {used:.3} used: {carried:?}");
    }
}

/// Opens nothing: the fetch ends with the manifest. It believes all publishers, or those that it is told an authority
/// vouches for.
#[derive(Default)]
struct Look {
    certified: Option<Arc<Mutex<Vec<PublicKey>>>>,
}
impl StoreOpener for Look {
    fn trusts(&self, manifest: &Manifest) -> Result<(), StoreError> {
        match &self.certified {
            Some(certified) if !certified.lock().unwrap().contains(&manifest.publisher) => {
                Err(StoreError::Untrusted { reason: "nobody vouches for it".into() })
            }
            _ => Ok(()),
        }
    }
    fn certify(&mut self, publisher: PublicKey) {
        self.certified.iter().for_each(|certified| certified.lock().unwrap().push(publisher));
    }
    fn resumes(&self, _: &Manifest) -> bool {
        false
    }
    fn only_looks(&self) -> bool {
        true
    }
    fn open(&mut self, manifest: &Manifest) -> Result<Box<dyn ChunkStore>, StoreError> {
        Ok(Box::new(HadStore::new(manifest)))
    }
}

/// A gateway looks up each missing path and its two parents.
#[test]
fn two_hundred_missing_paths_cost_an_object_less_than_a_twentieth_of_its_rate() {
    let took = |missing: usize| {
        let mut world = World::new(2, |_, _| {});
        world.link(1, 2, &link(40, 20));
        let sent = world.publish([2], 25_000_000);
        let fetch = world.fetch(1);
        world.net.run_until(Time::from_millis(1_000));
        let names = (0..missing).flat_map(|at| ["/a/b", "/a", ""].map(|tail| format!("/lab/c{at}{tail}")));
        for name in names {
            let fetch = Fetch {
                name: name.parse().unwrap(),
                opener: Box::new(Look::default()),
                rate_limit: None,
                paths_per_source: 4,
                metric: PathMetric::Hops,
                patience: Some(Duration::from_secs(3)),
            };
            world.net.with(world.node(1), |node, now| node.fetch(now, fetch));
        }
        world.receive(&fetch, &sent).0
    };
    let (alone, among) = (took(0), took(200));
    assert!(among <= alone + alone / 20, "{among:?} among them, {alone:?} without");
}

#[test]
fn receivers_behind_one_router_need_as_long_as_one_of_them() {
    let node = |role, label: &str, seed| {
        let mut config = Config::new(label, seed);
        if let Role::Router(cache) = role {
            config.cache_bytes = cache;
        }
        NdnNode::new(config)
    };
    let join = |node: &mut NdnNode, role, towards| {
        if role != Role::Publisher {
            node.router_mut().add_route(&"/lab".parse().unwrap(), towards, 0);
        }
    };
    crowd::assert_all_are_served(node, join);
}

#[test]
fn a_host_registers_at_a_router_that_obeys_its_key_only() {
    let host = DataSignature::Ed25519([3; 32]);
    let obeyed = host.key().verify_key();
    for (signature, is_obeyed) in
        [(host, true), (DataSignature::Ed25519([4; 32]), false), (DataSignature::Digest, false)]
    {
        let mut world = World::new(3, |at, config| match at {
            2 => {
                config.remote_registration = RemoteRegistration::Neighbours;
                config.management = ManagementTrust::Keys(vec![obeyed.clone()]);
            }
            3 => {
                config.registrars = vec![Registrar { face: FaceId(1), scope: RegistrationScope::Localhop }];
                config.signature = signature.clone();
            }
            _ => {}
        });
        world.link(1, 2, &link(20, 10));
        // Node 2 learns no route.
        world.link(3, 2, &link(20, 10));
        let sent = world.publish([3], 100_000);
        if is_obeyed {
            world.fetch_all(1, &sent);
        }
        world.net.run_until(world.net.now() + Duration::from_secs(1));
        let is_registered = world.net.node(world.node(2)).router().rib.iter().any(|(prefix, _)| *prefix == object());
        assert_eq!(is_registered, is_obeyed, "{signature:?}");
    }
}

/// A key of `identity` that a key of `/lab` with this secret has certified, and the anchor for that.
fn certified(identity: &str, root: u8) -> (DataSignature, TrustAnchor) {
    let valid = (0, 4_000_000_000);
    let (root, own) = (SignKey::ed25519(&[root; 32]), SignKey::ecdsa(&[root; 32]).unwrap());
    let root_name = key_name(&"/lab".parse().unwrap(), b"root").unwrap();
    let named = (&root_name, &root.verify_key());
    let anchor = Certificate::issue(named, (b"self", 1), (&root_name, &root), valid).unwrap();
    let name = key_name(&identity.parse().unwrap(), b"1").unwrap();
    let by = (anchor.name(), &root);
    let certificate = Certificate::issue((&name, &own.verify_key()), (b"root", 1), by, valid).unwrap();
    let credentials = Credentials::new(Secret { name, key: own }, vec![certificate], Vec::new()).unwrap();
    (DataSignature::Certified(Arc::new(credentials)), TrustAnchor::new(anchor))
}

#[test]
fn whom_an_anchor_vouches_for_is_certified_to_the_store_before_it_decides() {
    for (root, is_vouched) in [(1, true), (2, false)] {
        let mut world = World::new(2, |at, config| {
            config.epoch = Duration::from_secs(1_700_000_000);
            match at {
                1 => config.anchors = Anchors::new(vec![certified("/lab", 1).1]),
                _ => config.signature = certified("/lab", root).0,
            }
        });
        world.link(1, 2, &link(20, 10));
        world.publish([2], 100_000);
        let noted = Arc::<Mutex<Vec<PublicKey>>>::default();
        let fetch = Fetch {
            name: object(),
            opener: Box::new(Look { certified: Some(Arc::clone(&noted)) }),
            rate_limit: None,
            paths_per_source: 4,
            metric: PathMetric::Hops,
            patience: Some(Duration::from_secs(5)),
        };
        let id = world.net.with(world.node(1), |node, now| node.fetch(now, fetch));
        world.net.run_until(Time::from_millis(6_000));
        let failure = world.net.node(world.node(1)).report(world.net.now(), id).and_then(|report| report.failure);
        assert_eq!(failure.is_none(), is_vouched, "{failure:?}");
        assert_eq!(noted.lock().unwrap().first(), is_vouched.then(|| key(1).public()).as_ref());
    }
}

/// The object is `/lab/file`: a key of `/lab` may register it, one of `/lab/other` may not, one under another root neither.
#[test]
fn a_host_registers_what_its_certificate_covers_at_a_router_that_obeys_an_anchor() {
    for (identity, root, is_obeyed) in [("/lab", 1, true), ("/lab/other", 1, false), ("/lab", 2, false)] {
        let anchors = Anchors::new(vec![certified("/lab", 1).1]);
        let mut world = World::new(3, |at, config| {
            config.epoch = Duration::from_secs(1_700_000_000);
            match at {
                2 => {
                    config.remote_registration = RemoteRegistration::Neighbours;
                    config.management = ManagementTrust::Anchors(Arc::new(anchors.clone()));
                }
                3 => {
                    config.registrars = vec![Registrar { face: FaceId(1), scope: RegistrationScope::Localhop }];
                    config.signature = certified(identity, root).0;
                }
                _ => {}
            }
        });
        world.link(1, 2, &link(20, 10));
        world.link(3, 2, &link(20, 10));
        let sent = world.publish([3], 100_000);
        if is_obeyed {
            world.fetch_all(1, &sent);
        }
        world.net.run_until(world.net.now() + Duration::from_secs(5));
        let is_registered = world.net.node(world.node(2)).router().rib.iter().any(|(prefix, _)| *prefix == object());
        assert_eq!(is_registered, is_obeyed, "{identity} under root {root}");
    }
}

#[test]
fn a_link_that_carries_less_than_its_faces_are_told_is_found_out() {
    for (at_first, later) in [(1_000, 1_000), (1_472, 1_000), (1_000, 1_472)] {
        let mut world = World::new(3, |_, _| {});
        world.link(1, 2, &link(20, 5));
        world.link(2, 3, &LinkConfig { mtu: at_first, ..link(8, 5) });
        let sent = world.publish([3], 2_000_000);
        world.net.change_at(Time::from_millis(1_000), world.links[1], LinkChange::Mtu(later));
        let (took, _) = world.fetch_all(1, &sent);
        // The object takes 2.4 s; the size is tried thrice, at most five seconds after the link has shrunk.
        assert!(took < Duration::from_secs(12), "{at_first} bytes, later {later}: {took:?}");
        let found = |at: usize| world.net.node(world.node(at)).status(world.net.now()).faces[0].mtu;
        assert_eq!(found(3), if later == 1_000 { 576 } else { 1_472 }, "{at_first} bytes, later {later}");
    }
}
