//! Foreign programs' objects in virtual time: stale or forged copies in caches do not stop a fetch.
#![allow(clippy::unwrap_used, reason = "a test: a failed unwrap is a failed test")]
use std::collections::VecDeque;

use bytes::Bytes;
use tributary_content::{MemoryObject, MemoryOpener, Name, ObjectReader, PublicKey, SigningKey};
use tributary_core::{
    Datagram, Duration, FaceId, Node, Rate, Time, TimerId, Transmit, TransmitBuf,
    event::{Event, TransferReport},
    link::{LinkChange, LinkConfig, Loss},
};
use tributary_ndn::{
    Config, NdnNode,
    naming::{self, Requested},
    wire::{
        ContentType, Data, Interest, KeyLocator, LpPacket, MetaInfo, NameView, SignKey, SignatureInfo,
        signature::ED25519_INFO, tlv::Writer, types,
    },
};
use tributary_sim::{Connection, Network, NodeIndex};
use tributary_transport::{Endpoint, FaceOptions, Fetch, PathMetric};

const OBJECT: &str = "/lab/file";
const KEY: &str = "/alice/KEY/1";
const SEGMENT_BYTES: usize = 1000;

/// A foreign program: publishes an object without a manifest, and sends the requests that the test chooses. It knows no
/// tags.
#[derive(Clone)]
struct Program {
    version: u64,
    bytes: Vec<u8>,
    key: SignKey,
    /// Whose key its certificate tells.
    certified: PublicKey,
    /// A manifest that it shows, and nothing else.
    claim: Option<Vec<u8>>,
    /// How it cuts its objects.
    cut: Cut,
    /// Whether it denies the existence of missing objects.
    denies: bool,
    outgoing: VecDeque<Bytes>,
}

/// How an object is cut into Data.
#[derive(Clone, Debug)]
enum Cut {
    /// Into segments of [`SEGMENT_BYTES`].
    Even,
    /// Into these segments, which name a possibly different last segment (FinalBlockId).
    Into(Vec<Vec<u8>>, fn(u64, u64) -> Option<u64>),
    /// It is one Data of this content type, under the object's own name.
    Single(Option<ContentType>),
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}
fn public(secret: u8) -> PublicKey {
    SigningKey::from_secret(&[secret; 32]).public()
}
fn signed(
    of: &Name,
    content: &[u8],
    last: impl Into<Option<u64>>,
    key: &SignKey,
    content_type: Option<ContentType>,
) -> Bytes {
    let component = |last| Name::root().typed_child(types::SEGMENT, &naming::number(last)).unwrap();
    let last = last.into().map(component);
    let locator = name(KEY);
    let final_block_id = last.as_ref().map(|last| &last.as_tlv()[..]);
    let meta = MetaInfo { content_type, freshness_millis: Some(3_600_000), final_block_id };
    let key_locator = Some(KeyLocator::Name(NameView::from(&locator)));
    let signature = SignatureInfo { key_locator, ..SignatureInfo::new(key.kind()) };
    Data { meta: Some(meta), signature, ..Data::new(NameView::from(of), content) }.sign(key).into()
}

impl Program {
    fn publishing(version: u64, size: usize) -> Program {
        let bytes = (0..size).map(|at| (at / 7 + version as usize) as u8).collect();
        let key = SignKey::ed25519(&[1; 32]);
        Program {
            version,
            bytes,
            key,
            certified: public(1),
            claim: None,
            cut: Cut::Even,
            denies: false,
            outgoing: VecDeque::new(),
        }
    }
    fn versioned(&self) -> Name {
        name(OBJECT).typed_child(types::VERSION, &naming::number(self.version)).unwrap()
    }
    fn last(&self) -> u64 {
        (self.bytes.len() as u64 - 1) / SEGMENT_BYTES as u64
    }
    fn segment(&self, number: u64) -> Name {
        self.versioned().typed_child(types::SEGMENT, &naming::number(number)).unwrap()
    }
    /// A program that shows a manifest of its own under another publisher's name, and has nothing else.
    fn claiming(secret: u8) -> Program {
        let object = MemoryObject::new(name(OBJECT), vec![7; 20_000], &SigningKey::from_secret(&[secret; 32])).unwrap();
        Program { claim: Some(object.manifest().encode()), ..Program::publishing(1, 20_000) }
    }
    fn answer(&self, requested: &Name) -> Option<Bytes> {
        if let Some(manifest) = &self.claim {
            let content = naming::encode_manifest(SEGMENT_BYTES as u16, manifest);
            let is_requested = naming::requested(NameView::from(&name(OBJECT)), NameView::from(requested))
                == Some(Requested::Manifest);
            return is_requested.then(|| signed(requested, &content, 0, &self.key, None));
        }
        let metadata = name(OBJECT).typed_child(types::KEYWORD, naming::METADATA).unwrap();
        if self.denies && name(OBJECT).is_prefix_of(requested) {
            return Some(signed(requested, &[], None, &self.key, Some(ContentType::Nack)));
        }
        if let Cut::Single(content_type) = self.cut
            && *requested != name(KEY)
        {
            let is_requested = *requested == name(OBJECT);
            return is_requested.then(|| signed(requested, &self.bytes, None, &self.key, content_type));
        }
        if *requested == name(OBJECT) || *requested == metadata {
            let mut content = Vec::new();
            content.put_element(types::NAME, self.versioned().as_tlv());
            let of = metadata.typed_child(types::VERSION, &[1]).unwrap().typed_child(types::SEGMENT, &[0]).unwrap();
            return Some(signed(&of, &content, 0, &self.key, None));
        }
        if *requested == name(KEY) {
            let content = [ED25519_INFO, &self.certified.0].concat();
            let of = name(KEY).child(b"self").unwrap().typed_child(types::VERSION, &[1]).unwrap();
            return Some(signed(&of, &content, 0, &SignKey::Digest, Some(ContentType::Key)));
        }
        if let Cut::Into(parts, last) = &self.cut {
            let number = (0..parts.len() as u64).find(|number| *requested == self.segment(*number))?;
            let last = last(number, parts.len() as u64 - 1);
            return Some(signed(requested, &parts[number as usize], last, &self.key, None));
        }
        let number = (0..=self.last()).find(|number| *requested == self.segment(*number))?;
        let content = self.bytes.chunks(SEGMENT_BYTES).nth(number as usize)?;
        Some(signed(requested, content, self.last(), &self.key, None))
    }
    fn ask(&mut self, for_name: &Name) {
        let interest = Interest { can_be_prefix: true, ..Interest::new(NameView::from(for_name)) };
        self.outgoing.push_back(interest.encode().into());
    }
}

/// A node of ours, or a program that is attached to one.
enum Attached {
    Ours(Box<NdnNode>),
    Other(Program),
}

impl Attached {
    fn node(label: &str, seed: u64) -> Attached {
        Attached::Ours(Box::new(NdnNode::new(Config::new(label, seed))))
    }
    fn ours(&mut self) -> &mut NdnNode {
        let Attached::Ours(node) = self else { panic!("it is a program of others") };
        node
    }
    fn other(&mut self) -> &mut Program {
        let Attached::Other(program) = self else { panic!("it is a node of ours") };
        program
    }
}

impl Node for Attached {
    fn handle_datagram(&mut self, now: Time, face: FaceId, datagram: Datagram) {
        let program = match self {
            Attached::Ours(node) => return node.handle_datagram(now, face, datagram),
            Attached::Other(program) => program,
        };
        let bytes = datagram.to_vec();
        let headers = LpPacket::decode(&bytes).unwrap_or(LpPacket::around(&bytes));
        let interest = headers.fragment.and_then(|packet| Interest::decode(packet).ok());
        let answer = interest.and_then(|interest| program.answer(&interest.name.to_name().ok()?));
        program.outgoing.extend(answer);
    }
    fn handle_timeout(&mut self, now: Time) {
        if let Attached::Ours(node) = self {
            node.handle_timeout(now);
        }
    }
    fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        match self {
            Attached::Ours(node) => node.poll_transmit(now, out),
            Attached::Other(program) => {
                out.push(&[], program.outgoing.pop_front()?);
                Some(Transmit { face: FaceId(1) })
            }
        }
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        match self {
            Attached::Ours(node) => node.poll_timeout(),
            Attached::Other(_) => None,
        }
    }
    fn poll_event(&mut self) -> Option<Event> {
        match self {
            Attached::Ours(node) => node.poll_event(),
            Attached::Other(_) => None,
        }
    }
}

/// ```text
///   consumer ── router ── producer
///                 └────── asker, who asked before
/// ```
struct World {
    net: Network<Attached>,
    consumer: NodeIndex,
    router: NodeIndex,
    producer: NodeIndex,
    asker: NodeIndex,
    to_producer: Connection,
}

impl World {
    fn new(producer: Program) -> World {
        Self::with_asker(Attached::Other(producer.clone()), producer, Duration::from_millis(5))
    }
    fn with_asker(producer: Attached, asker: Program, delay: Duration) -> World {
        let mut net = Network::new(1);
        let consumer = net.add_node(Attached::node("consumer", 1));
        let router = net.add_node(Attached::node("router", 2));
        let asker = net.add_node(Attached::Other(asker));
        let producer = net.add_node(producer);
        let ms = Duration::from_millis;
        let [_, to_producer, _] =
            [(1, consumer, ms(5)), (2, producer, ms(5)), (3, asker, delay)].map(|(face, far, delay)| {
                let wire = LinkConfig::new(Rate::from_mbps(20), delay);
                net.connect((router, FaceId(face)), (far, FaceId(1)), wire.clone(), wire.clone())
            });
        for (node, faces, next) in [(consumer, 1..=1, 1), (router, 1..=3, 2)] {
            net.with(node, |node, now| {
                let options = FaceOptions { mtu: 1472, rate: None };
                faces.for_each(|face| node.ours().add_face(now, FaceId(face), options));
                assert!(node.ours().router_mut().add_route(&Name::root(), FaceId(next), 0));
            });
        }
        World { net, consumer, router, producer, asker, to_producer }
    }
    /// In addition to `producer`, an impostor at this distance shows a manifest.
    fn with_imposter(producer: Attached, imposter: Program, delay: Duration) -> World {
        let mut world = Self::with_asker(producer, imposter, delay);
        world.net.with(world.router, |router, _| {
            assert!(router.ours().router_mut().add_route(&Name::root(), FaceId(3), 1));
        });
        world
    }
    /// The producer, which is ours, publishes this.
    fn publish(&mut self, object: MemoryObject) {
        self.net.with(self.producer, |node, now| {
            node.ours().add_face(now, FaceId(1), FaceOptions { mtu: 1472, rate: None });
            node.ours().publish(now, Box::new(object));
        });
    }
    /// A consumer requests these, and the router stores them.
    fn keep(&mut self, names: &[Name]) {
        self.net.with(self.asker, |asker, _| names.iter().for_each(|name| asker.other().ask(name)));
        let until = self.net.now() + Duration::from_millis(200);
        self.net.run_until(until);
    }
    /// Replaces the producer and fetches from the new one; how long it took.
    fn fetch_from(&mut self, producer: &Program, opener: MemoryOpener) -> (Duration, TransferReport) {
        self.net.with(self.producer, |node, _| node.other().clone_from(producer));
        self.fetch(&producer.bytes, opener)
    }
    /// Loses packets on both ways between router and producer.
    fn lose(&mut self, share: f64) {
        self.net.change(self.to_producer, LinkChange::Loss(Loss::Bernoulli(share)));
    }
    /// Fetches what should be `expected`; how long it took.
    fn fetch(&mut self, expected: &[u8], opener: MemoryOpener) -> (Duration, TransferReport) {
        let content = opener.content();
        let fetch = Fetch {
            name: name(OBJECT),
            opener: Box::new(opener),
            rate_limit: None,
            paths_per_source: 4,
            metric: PathMetric::Hops,
            patience: Some(Duration::from_secs(25)),
        };
        let id = self.net.with(self.consumer, |node, now| node.ours().fetch(now, fetch));
        let report =
            |world: &mut World| world.net.with(world.consumer, |node, now| node.ours().report(now, id).unwrap());
        let ended = loop {
            let until = self.net.now() + Duration::from_millis(20);
            self.net.run_until(until);
            let report = report(self);
            if report.ended.is_some() {
                break report;
            }
        };
        if ended.failure.is_none() {
            assert!(content.finished(&name(OBJECT)).is_some_and(|bytes| bytes == expected), "{ended:?}");
        }
        (ended.ended.unwrap().since(ended.started), ended)
    }
}

#[test]
fn what_caches_keep_that_is_stale_or_forged_holds_a_fetch_up_for_a_moment_only() {
    let honest = Program::publishing(6, 50_000);
    let stale = Program::publishing(5, 50_000);
    let metadata = name(OBJECT).typed_child(types::KEYWORD, naming::METADATA).unwrap();
    let ends_of = |program: &Program| [program.segment(0), program.segment(program.last())];
    let anothers_key = Program { certified: public(2), ..honest.clone() };
    let forged = Program { key: SignKey::Digest, bytes: vec![7; 40_000], ..honest.clone() };
    let forged_complete = Program { bytes: vec![7; 400], ..forged.clone() };
    let by_another = Program { key: SignKey::ed25519(&[2; 32]), ..anothers_key.clone() };
    let cases = [
        ("nothing", &honest, vec![], 300),
        ("the metadata of a version that is gone", &stale, vec![metadata.clone()], 2_500),
        ("as much as shows that version", &stale, [&[metadata][..], &[name(KEY)], &ends_of(&stale)].concat(), 7_000),
        ("another's certificate", &anothers_key, vec![name(KEY)], 300),
        ("a forged first segment", &forged, vec![forged.segment(0)], 3_000),
        ("forged ends", &forged, ends_of(&forged).to_vec(), 2_000),
        ("a forged object", &forged_complete, vec![forged_complete.segment(0)], 4_000),
        ("a first segment and a certificate of another", &by_another, vec![by_another.segment(0), name(KEY)], 4_000),
    ];
    for (what, before, kept, limit) in cases {
        for pinned in [false, true] {
            let mut world = World::new(before.clone());
            world.keep(&kept);
            let opener = if pinned { MemoryOpener::pinned(public(1)) } else { MemoryOpener::new() };
            let (took, report) = world.fetch_from(&honest, opener);
            assert_eq!(report.failure, None, "{what}");
            assert!(took < Duration::from_millis(limit), "{what}, pinned {pinned}: {took:?}");
        }
    }
}

#[test]
fn a_fetch_that_fails_names_what_could_not_be_used_last() {
    let wrong = Program { certified: public(2), ..Program::publishing(5, 50_000) };
    let (took, report) = World::new(wrong.clone()).fetch_from(&wrong, MemoryOpener::new());
    let expected = "'/lab/file' could not be fetched from the sources that answered within 25s: its first segment is not \
                    signed by '/alice/KEY/1'";
    assert_eq!((took.as_secs(), report.failure.as_deref()), (25, Some(expected)));
}

#[test]
fn whoever_shows_a_manifest_that_is_not_trusted_does_not_keep_a_fetch_from_what_others_publish() {
    let honest = Program::publishing(6, 50_000);
    for delay in [1, 20, 60, 150].map(Duration::from_millis) {
        let mut world = World::with_imposter(Attached::Other(honest.clone()), Program::claiming(2), delay);
        let (took, report) = world.fetch_from(&honest, MemoryOpener::pinned(public(1)));
        assert_eq!(report.failure, None, "{delay:?}");
        assert!(took < Duration::from_secs(3), "{delay:?}: {took:?}");
    }
}

#[test]
fn another_manifest_under_the_name_of_a_producer_takes_nothing_away_from_a_known_key_and_ends_a_first_fetch() {
    let (key, bytes) = (SigningKey::from_secret(&[1; 32]), vec![5; 500_000]);
    for is_known in [true, false] {
        for delay in [20, 60].map(Duration::from_millis) {
            let mut world = World::with_imposter(Attached::node("alice", 3), Program::claiming(2), delay);
            world.publish(MemoryObject::new(name(OBJECT), bytes.clone(), &key).unwrap());
            let opener = if is_known { MemoryOpener::pinned(public(1)) } else { MemoryOpener::new() };
            let (took, report) = world.fetch(&bytes, opener);
            assert!(took < Duration::from_secs(2), "{delay:?}: {took:?}");
            let faulty = report.sources.iter().find(|source| source.label.starts_with("alice (ed25519:"));
            match &report.failure {
                None => assert!(is_known && faulty.is_some_and(|source| source.distrusted.is_some()), "{report:?}"),
                Some(reason) => assert!(!is_known && reason.contains("claimed by several publishers"), "{report:?}"),
            }
        }
    }
}

#[test]
fn whoever_shows_the_manifest_of_another_and_tells_of_packets_of_another_size_keeps_nobody_out_for_long() {
    let bytes = vec![5; 500_000];
    let object = || MemoryObject::new(name(OBJECT), bytes.clone(), &SigningKey::from_secret(&[1; 32])).unwrap();
    for delay in [1, 20].map(Duration::from_millis) {
        let replayed = Program { claim: Some(object().manifest().encode()), ..Program::publishing(1, 20_000) };
        let mut world = World::with_imposter(Attached::node("alice", 3), replayed, delay);
        world.publish(object());
        let (took, report) = world.fetch(&bytes, MemoryOpener::pinned(public(1)));
        assert_eq!(report.failure, None, "{delay:?}");
        assert!(took < Duration::from_secs(4), "{delay:?}: {took:?}");
    }
}

/// Producers that cut and number as the format allows, and name the last segment where they like.
fn cut_by_foreigners() -> Vec<(&'static str, Program)> {
    let cut_into = |parts: Vec<Vec<u8>>, last: fn(u64, u64) -> Option<u64>| Program {
        bytes: parts.concat(),
        cut: Cut::Into(parts, last),
        ..Program::publishing(6, 1)
    };
    let all = |_, last| Some(last);
    let in_the_last = |number, last| (number == last).then_some(last);
    let even = |count: usize| -> Vec<Vec<u8>> { (0..count).map(|part| vec![part as u8; SEGMENT_BYTES]).collect() };
    let with = |at: usize, size: usize| {
        let mut parts = even(300);
        parts[at] = vec![0xee; size];
        parts
    };
    let sizes = |sizes: &[usize]| sizes.iter().map(|size| vec![*size as u8; *size]).collect::<Vec<_>>();
    vec![
        ("a single Data", Program { bytes: b"hello".to_vec(), cut: Cut::Single(None), ..Program::publishing(6, 1) }),
        ("an empty single Data", Program { bytes: vec![], cut: Cut::Single(None), ..Program::publishing(6, 1) }),
        ("a certificate", Program { cut: Cut::Single(Some(ContentType::Key)), ..Program::publishing(6, 100) }),
        ("the last one named in the last one", cut_into(with(299, 7), in_the_last)),
        ("one segment of two named so", cut_into(even(2), in_the_last)),
        ("the last one named in the first one only", cut_into(even(40), |number, last| (number == 0).then_some(last))),
        ("the last one named in the middle only", cut_into(even(40), |number, last| (number == 16).then_some(last))),
        ("a last one that moves", cut_into(even(40), |number, last| Some(if number < 10 { 20 } else { last }))),
        ("an empty last one", cut_into(with(299, 0), all)),
        ("two empty last ones", cut_into(sizes(&[1000, 1000, 0, 0]), all)),
        ("an empty last one, named there", cut_into(with(299, 0), in_the_last)),
        ("an empty first one", cut_into(with(0, 0), all)),
        ("an empty one between", cut_into(with(150, 0), all)),
        ("a shorter one between", cut_into(with(250, 500), all)),
        ("a longer one between", cut_into(with(250, 1200), all)),
        ("a shorter first one", cut_into(with(0, 10), all)),
        ("all of other sizes", cut_into(sizes(&[5, 900, 0, 77, 1200, 1]), in_the_last)),
        ("empty ones only", cut_into(sizes(&[0, 0, 0]), all)),
    ]
}

#[test]
fn objects_are_fetched_however_their_producer_cuts_them_and_nobody_is_called_untrustworthy() {
    for (what, program) in cut_by_foreigners() {
        for key in [SignKey::ed25519(&[1; 32]), SignKey::Digest] {
            let program = Program { key, ..program.clone() };
            let (took, report) = World::new(program.clone()).fetch_from(&program, MemoryOpener::new());
            assert_eq!(report.failure, None, "{what}");
            assert!(report.sources.iter().all(|source| source.distrusted.is_none()), "{what}: {report:?}");
            assert_eq!(report.bytes, program.bytes.len() as u64, "{what}");
            assert!(took < Duration::from_secs(20), "{what}: {took:?}");
        }
    }
}

#[test]
fn where_no_segment_names_the_last_one_the_fetch_says_so() {
    let parts = vec![vec![1; SEGMENT_BYTES]; 6];
    let program = Program { cut: Cut::Into(parts, |_, _| None), ..Program::publishing(6, 6_000) };
    let (_, report) = World::new(program.clone()).fetch_from(&program, MemoryOpener::new());
    let failure = report.failure.unwrap();
    assert!(failure.contains("(FinalBlockId): segment 5 does not, and no segment 6 comes"), "{failure}");
    assert!(report.sources.iter().all(|source| source.distrusted.is_none()));
}

#[test]
fn what_its_producer_says_does_not_exist_does_not_exist() {
    let program = Program { denies: true, ..Program::publishing(6, 6_000) };
    let (_, report) = World::new(program.clone()).fetch_from(&program, MemoryOpener::new());
    let failure = report.failure.unwrap();
    assert!(failure.ends_with("its producer says that it does not exist (application Nack)"), "{failure}");
    let program = Program { cut: Cut::Single(Some(ContentType::Link)), ..Program::publishing(6, 60) };
    let (_, report) = World::new(program.clone()).fetch_from(&program, MemoryOpener::new());
    let failure = report.failure.unwrap();
    assert!(failure.contains("it is a Link object"), "{failure}");
}

#[test]
fn segments_of_unequal_sizes_come_together_over_a_link_that_loses_a_tenth() {
    for (what, program) in cut_by_foreigners() {
        let mut world = World::new(program.clone());
        world.lose(0.1);
        let (_, report) = world.fetch_from(&program, MemoryOpener::new());
        assert_eq!(report.failure, None, "{what}");
        assert!(report.sources.iter().all(|source| source.distrusted.is_none()), "{what}: {report:?}");
    }
}
