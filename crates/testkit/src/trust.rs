//! The trust rule of fetches, one for all families, tried in the smallest network in which publishers can disagree.
//!
//! ```text
//! publisher-1 ──┐
//! publisher-2 ──┼── router ── receiver        10 Mbit/s and 5 ms each
//! publisher-3 ──┘
//! ```
//! The rule: without a pinned or remembered key a key is trusted only if all sources of a name have it; if they
//! disagree, a person has to decide, even if most have the same one. With a pinned key a source of other bytes under
//! another key is distrusted; one that publishes another version under the same key is honest. Every source with the
//! chosen bytes serves them, under any key and version.
use std::{cell::Cell, rc::Rc};

use bytes::Bytes;
use tributary_content::{MemoryContent, MemoryObject, MemoryOpener, Name, ObjectKind, SigningKey, StoreOpener};
use tributary_core::{
    Duration, FaceId, Rate, TransferId,
    event::{Event, TransferEvent, TransferReport},
    link::LinkConfig,
};
use tributary_sim::{Network, NodeIndex};
use tributary_transport::{Endpoint, FaceOptions, Fetch, PathMetric};
use tributary_trust::key_prefix;

/// What a node of the star is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Everything that the network itself needs: router, resolver, manager.
    Router,
    /// Publishes.
    Publisher,
    /// Fetches.
    Receiver,
}

const PUBLISHERS: usize = 3;
const OBJECT_BYTES: usize = 200_000;

/// Puts a family through the rule. `make` makes a node of a label and a seed, and `route` adds, in families with
/// configured routes, a route for everything below a name over a face.
///
/// # Panics
/// At the first case in which the family decides otherwise.
pub fn run<N: Endpoint>(make: impl Fn(Part, &str, u64) -> N, route: impl Fn(&mut N, &Name, FaceId)) {
    let star = || Star::new(&make, &route);
    believes_nobody_if_two_disagree(star());
    believes_no_majority(star());
    ends_when_another_key_appears(star());
    believes_the_pinned_key(star());
    takes_the_newest_version(star());
    goes_on_when_a_newer_version_appears(star());
    copies_under_other_keys_and_versions_serve(star());
    believes_keys_that_sign_the_same_bytes_and_remembers_none(star());
    learns_at_once_that_nobody_publishes(star());
    the_name_of_a_key_is_its_own(star());
}

/// Two keys with one source each: neither is trusted, and the reason names both.
fn believes_nobody_if_two_disagree<N: Endpoint>(mut star: Star<N>) {
    star.publish(0, 1, 1);
    star.publish(1, 2, 1);
    let fetch = star.fetch(MemoryOpener::new(), None);
    let report = star.end_of(&fetch);
    let reason = report.failure.as_deref().unwrap_or("no failure");
    let names_both = [1, 2].iter().all(|key| reason.contains(&key_of(*key).public().to_string()));
    assert!(reason.contains("claimed by several publishers") && names_both, "{reason}: {report:#?}");
    assert_eq!(report.stored_bytes, 0, "{report:#?}");
}

/// Two sources against one: two publications are as easily forged as one. Nothing is remembered of any of them, so that the
/// fetch with the right key succeeds afterwards.
fn believes_no_majority<N: Endpoint>(mut star: Star<N>) {
    star.publish(0, 1, 1);
    star.publish(1, 2, 1);
    star.publish(2, 2, 1);
    let opener = MemoryOpener::new();
    let fetch = star.fetch(opener.clone(), None);
    let report = star.end_of(&fetch);
    let reason = report.failure.as_deref().unwrap_or("no failure");
    assert!(reason.contains("claimed by several publishers"), "{reason}: {report:#?}");
    assert!(!opener.knows_publisher(&name()));
    let fetch = star.fetch(MemoryOpener::pinned(key_of(1).public()), None);
    let report = star.end_of(&fetch);
    assert_eq!(fetch.content.finished(&name()), Some(bytes_of(1, 1)), "{report:#?}");
}

/// A second key appears while a first fetch runs: nobody knows who is right, and nothing is remembered.
fn ends_when_another_key_appears<N: Endpoint>(mut star: Star<N>) {
    star.publish(0, 1, 1);
    let opener = MemoryOpener::new();
    let fetch = star.fetch(opener.clone(), Some(Rate::from_bits_per_second(100_000)));
    star.run(Duration::from_millis(1_000));
    assert!(star.report(&fetch).bytes > 0);
    star.publish(1, 2, 1);
    let report = star.end_of(&fetch);
    let reason = report.failure.as_deref().unwrap_or("no failure");
    assert!(reason.contains("claimed by several publishers"), "{reason}: {report:#?}");
    assert!(!opener.knows_publisher(&name()) && report.stored_bytes < OBJECT_BYTES as u64, "{report:#?}");
}

/// One source with the pinned key against two others.
fn believes_the_pinned_key<N: Endpoint>(mut star: Star<N>) {
    star.publish(0, 2, 1);
    star.publish(1, 2, 1);
    star.publish(2, 1, 1);
    let fetch = star.fetch(MemoryOpener::pinned(key_of(1).public()), None);
    let report = star.end_of(&fetch);
    assert_eq!(fetch.content.finished(&name()), Some(bytes_of(1, 1)), "{report:#?}");
}

/// Two versions under one key: the newest is fetched, and the source of the older one is honest.
fn takes_the_newest_version<N: Endpoint>(mut star: Star<N>) {
    star.publish(0, 1, 1);
    star.publish(1, 1, 2);
    let fetch = star.fetch(MemoryOpener::new(), None);
    let report = star.end_of(&fetch);
    assert_eq!(fetch.content.finished(&name()), Some(bytes_of(1, 2)), "{report:#?}");
    assert!(report.sources.iter().all(|source| source.distrusted.is_none()), "{report:#?}");
}

/// A source publishes again while a fetch of the version before runs: the fetch ends as it began, and no source is
/// blamed.
fn goes_on_when_a_newer_version_appears<N: Endpoint>(mut star: Star<N>) {
    star.publish(0, 1, 1);
    star.publish(1, 1, 1);
    // Long enough for the news to arrive.
    let fetch = star.fetch(MemoryOpener::new(), Some(Rate::from_bits_per_second(400_000)));
    star.run(Duration::from_millis(1_000));
    star.publish(1, 1, 2);
    let report = star.end_of(&fetch);
    assert_eq!(fetch.content.finished(&name()), Some(bytes_of(1, 1)), "{report:#?}");
    assert!(report.sources.iter().all(|source| source.distrusted.is_none()), "{report:#?}");
}

/// Three copies of identical bytes, signed by three keys as three versions; only one key is trusted for the name. When
/// the busiest source withdraws in the middle, the others finish the fetch.
fn copies_under_other_keys_and_versions_serve<N: Endpoint>(mut star: Star<N>) {
    (0..PUBLISHERS).for_each(|at| star.publish_bytes(at, at as u8 + 1, 3 * at as u64 + 1, bytes_of(1, 1)));
    let fetch = star.fetch(MemoryOpener::pinned(key_of(1).public()), Some(Rate::from_bits_per_second(400_000)));
    star.run(Duration::from_millis(1_500));
    let so_far = star.report(&fetch);
    let busiest = so_far.sources.iter().max_by_key(|source| source.bytes).expect("there are three");
    let number: usize = busiest.label.trim_start_matches("publisher-").parse().expect("it is called by its number");
    star.net.with(star.publishers[number - 1], |node, now| node.unpublish(now, &name()));
    let report = star.end_of(&fetch);
    assert_eq!(fetch.content.finished(&name()), Some(bytes_of(1, 1)), "{report:#?}");
    assert!(report.sources.iter().all(|source| source.distrusted.is_none()), "{report:#?}");
    assert!(report.sources.iter().filter(|source| source.bytes > 0).count() > 1, "{report:#?}");
}

/// The same without any known key: the bytes are fetched, and no key owns the name afterwards.
fn believes_keys_that_sign_the_same_bytes_and_remembers_none<N: Endpoint>(mut star: Star<N>) {
    (0..PUBLISHERS).for_each(|at| star.publish_bytes(at, at as u8 + 1, 3 * at as u64 + 1, bytes_of(1, 1)));
    let opener = MemoryOpener::new();
    let fetch = star.fetch(opener.clone(), None);
    let report = star.end_of(&fetch);
    assert_eq!(fetch.content.finished(&name()), Some(bytes_of(1, 1)), "{report:#?}");
    assert!(report.sources.len() == PUBLISHERS && !opener.knows_publisher(&name()), "{report:#?}");
}

/// The name has no publisher: the receiver learns it within three round trips and 50 ms, a fetch that ends then was no
/// transfer, and a publication ends the negative answer.
fn learns_at_once_that_nobody_publishes<N: Endpoint>(mut star: Star<N>) {
    let learnt = Rc::new(Cell::new(None));
    let heard = Rc::clone(&learnt);
    star.net.set_observer(move |now, _, event| {
        if matches!(event, Event::Transfer(_, TransferEvent::Absent { .. })) {
            heard.set(heard.get().or(Some(now)));
        }
    });
    let fetch = star.fetch(MemoryOpener::new(), None);
    let begun = star.net.now();
    star.run(Duration::from_secs(1));
    let taken = learnt.get().expect("the network says that nobody publishes it").since(begun);
    assert!(taken <= RTT * 3 + Duration::from_millis(50), "it took {taken:?}");
    let given_up = star.fetch(MemoryOpener::new(), None);
    star.run(Duration::from_millis(500));
    let transfers = star.net.with(star.receiver, |node, now| {
        node.cancel(now, given_up.id);
        node.transfers()
    });
    assert_eq!(transfers, [(fetch.id, name())]);
    star.publish(0, 1, 1);
    let published = star.net.now();
    let report = star.end_of(&fetch);
    assert_eq!(fetch.content.finished(&name()), Some(bytes_of(1, 1)), "{report:#?}");
    assert!(star.net.now().since(published) <= Duration::from_secs(2), "{report:#?}");
}

/// The name belongs to a key, and no key is pinned or remembered. A stranger is there before the owner and another one comes
/// amid the fetch, which waits for the owner as if nobody answered: all bytes are the owner's.
fn the_name_of_a_key_is_its_own<N: Endpoint>(mut star: Star<N>) {
    star.name = key_prefix(&key_of(1).public()).child(b"object").expect("it is short");
    star.publish(0, 2, 1);
    let fetch = star.fetch(MemoryOpener::new(), Some(Rate::from_bits_per_second(400_000)));
    star.run(Duration::from_secs(10));
    assert!(star.report(&fetch).ended.is_none(), "{:#?}", star.report(&fetch));
    star.publish(1, 1, 1);
    star.run(Duration::from_millis(3_000));
    assert!(star.report(&fetch).bytes > 0, "{:#?}", star.report(&fetch));
    star.publish(2, 3, 1);
    let report = star.end_of(&fetch);
    assert_eq!(fetch.content.finished(&star.name), Some(bytes_of(1, 1)), "{report:#?}");
    assert!(report.sources.iter().all(|source| source.bytes == 0 || source.label == "publisher-2"), "{report:#?}");
}

/// From the receiver to a publisher and back.
const RTT: Duration = Duration::from_millis(20);

fn name() -> Name {
    "/trust/object".parse().expect("a name")
}
fn key_of(key: u8) -> SigningKey {
    SigningKey::from_secret(&[key; 32])
}
fn bytes_of(key: u8, version: u64) -> Bytes {
    Bytes::from(vec![key * 16 + version as u8; OBJECT_BYTES])
}

struct Star<N> {
    net: Network<N>,
    /// Of the object.
    name: Name,
    publishers: Vec<NodeIndex>,
    receiver: NodeIndex,
}
struct Fetching {
    id: TransferId,
    content: MemoryContent,
}

impl<N: Endpoint> Star<N> {
    fn new(make: &impl Fn(Part, &str, u64) -> N, route: &impl Fn(&mut N, &Name, FaceId)) -> Star<N> {
        let mut net = Network::new(1);
        let router = net.add_node(make(Part::Router, "router", 1));
        let mut face = 0;
        let mut join = |net: &mut Network<N>, part, label: &str| {
            face += 1;
            let node = net.add_node(make(part, label, 1 + u64::from(face)));
            let link = LinkConfig::new(Rate::from_mbps(10), Duration::from_millis(5));
            let (near, far) = ((node, FaceId(1)), (router, FaceId(face)));
            net.connect(near, far, link.clone(), link);
            for (end, face) in [near, far] {
                net.with(end, |node, now| node.add_face(now, face, FaceOptions { mtu: 1_472, rate: None }));
            }
            // Interests go from the receiver to all publishers.
            let (from, out) = if part == Part::Receiver { near } else { far };
            for prefix in ["/trust", "/key"] {
                net.with(from, |node, _| route(node, &prefix.parse().expect("a name"), out));
            }
            node
        };
        let publishers =
            (1..=PUBLISHERS).map(|at| join(&mut net, Part::Publisher, &format!("publisher-{at}"))).collect();
        let receiver = join(&mut net, Part::Receiver, "receiver");
        let mut star = Star { net, name: name(), publishers, receiver };
        star.run(Duration::from_secs(5));
        star
    }
    fn run(&mut self, time: Duration) {
        let end = self.net.now() + time;
        self.net.run_until(end);
    }
    /// Publishes a version of the object with a key.
    fn publish(&mut self, publisher: usize, key: u8, version: u64) {
        self.publish_bytes(publisher, key, version, bytes_of(key, version));
    }
    fn publish_bytes(&mut self, publisher: usize, key: u8, version: u64, bytes: Bytes) {
        let object =
            MemoryObject::with_options(self.name.clone(), bytes, &key_of(key), version, ObjectKind::File, 16_384);
        let object = Box::new(object.expect("it is in every limit"));
        self.net.with(self.publishers[publisher], |node, now| node.publish(now, object));
    }
    /// Fetches the object once all publications are known.
    fn fetch(&mut self, opener: MemoryOpener, rate_limit: Option<Rate>) -> Fetching {
        self.run(Duration::from_secs(3));
        let content = opener.content();
        let (patience, opener) = (Some(Duration::from_secs(30)), Box::new(opener));
        let metric = PathMetric::Hops;
        let fetch = Fetch { name: self.name.clone(), opener, rate_limit, paths_per_source: 4, metric, patience };
        Fetching { id: self.net.with(self.receiver, |node, now| node.fetch(now, fetch)), content }
    }
    fn report(&self, fetch: &Fetching) -> TransferReport {
        self.net.node(self.receiver).report(self.net.now(), fetch.id).expect("it is remembered")
    }
    fn end_of(&mut self, fetch: &Fetching) -> TransferReport {
        for _ in 0..1_200 {
            self.run(Duration::from_millis(100));
            let report = self.report(fetch);
            if report.ended.is_some() {
                return report;
            }
        }
        panic!("the fetch has not ended after two minutes");
    }
}
