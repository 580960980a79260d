//! Receivers that serve each other while they fetch.
use super::*;
use tributary_content::{ChunkIndex, Manifest, ObjectKind, ObjectReader, StoreError, Wanted};

const NAME: &str = "/lab/file";
const BYTES: usize = 4 << 20;
const CHUNK: u32 = 32 << 10;
/// The rate of the publisher's link in Mbit/s; receivers' links have ten times as much.
const NARROW: u64 = 10;

/// What a receiver has so far of an object.
struct Arriving {
    object: MemoryObject,
    content: MemoryContent,
}
impl ObjectReader for Arriving {
    fn manifest(&self) -> &Manifest {
        self.object.manifest()
    }
    fn tree(&self) -> Bytes {
        self.object.tree()
    }
    fn read_chunk(&mut self, index: ChunkIndex) -> Result<Bytes, StoreError> {
        match self.content.held(&name(NAME)).is_some_and(|held| held.get(index.0)) {
            true => self.object.read_chunk(index),
            false => Err(StoreError::NotYet { chunk: index.0 }),
        }
    }
    fn held(&self) -> Option<Vec<std::ops::Range<u32>>> {
        Some(self.content.held(&name(NAME))?.set_ranges().collect())
    }
}

/// Seconds until the last of `receivers` has a file of one publisher behind a narrow link, and the bytes that this one sent.
fn swarm(receivers: u32, serve: bool) -> (f64, u64) {
    let mut domain = Domain::new(u64::from(receivers));
    domain.node("hub", |config| {
        (config.router, config.resolver, config.topology_manager) = (true, true, Some(10));
        config.cache_bytes = tributary_core::ByteCount(0);
    });
    domain.node("publisher", |_| {});
    domain.link("publisher", "hub", NARROW, 5);
    let labels: Vec<String> = (0..receivers).map(|number| format!("receiver-{number}")).collect();
    for label in &labels {
        domain.node(label, |_| {});
        domain.link(label, "hub", 10 * NARROW, 2);
    }
    let key = SigningKey::from_secret(&[7; 32]);
    let bytes = random_bytes(BYTES, 3);
    let object = MemoryObject::with_options(name(NAME), bytes.clone(), &key, 1, ObjectKind::File, CHUNK).unwrap();
    domain.publish("publisher", object.clone());
    domain.run(3.0);
    let (begun, count) = (domain.net.now(), object.manifest().chunk_count());
    let mut random = Random::new(u64::from(receivers), 5);
    let mut fetches: Vec<_> = labels.iter().map(|label| (label, domain.fetch(label, NAME), false)).collect();
    if serve {
        for (_, (_, content), _) in &fetches {
            let first = (random.bits() % u64::from(count)) as u32;
            content.want(Wanted { windows: vec![first..count, 0..first], may_change: false, extent: None });
        }
    }
    let mut last = begun;
    for _ in 0..10_000 {
        domain.run(0.02);
        let mut is_over = true;
        for (label, (id, content), is_offered) in &mut fetches {
            if serve && !*is_offered && content.held(&name(NAME)).is_some() {
                let arriving = Arriving { object: object.clone(), content: content.clone() };
                domain.with(label, |node, now| node.publish(now, Box::new(arriving)));
                *is_offered = true;
            }
            let node = domain.nodes[*label];
            let report = domain.net.node(node).report(domain.net.now(), *id).unwrap();
            is_over &= report.ended.is_some();
            last = last.max(report.ended.unwrap_or(last));
        }
        if is_over {
            break;
        }
    }
    let mut of_publisher = 0;
    for (label, (id, content), _) in &fetches {
        assert_eq!(content.finished(&name(NAME)), Some(bytes.clone()), "{label}");
        let report = domain.net.node(domain.nodes[*label]).report(domain.net.now(), *id).unwrap();
        assert!(report.sources.iter().all(|source| source.distrusted.is_none()), "{label}: {:#?}", report.sources);
        let from = report.sources.iter().filter(|source| source.label == "publisher");
        of_publisher += from.map(|source| source.bytes).sum::<u64>();
    }
    (last.since(begun).as_secs_f64(), of_publisher)
}

#[test]
fn receivers_that_serve_while_they_fetch_need_little_longer_the_more_they_are() {
    // `SWARM_MAX=64` takes minutes.
    let most: u32 = std::env::var("SWARM_MAX").map_or(16, |text| text.parse().expect("a number"));
    let counts = std::iter::successors(Some(8), |count| Some(count * 2)).take_while(|count| *count <= most);
    let times: Vec<(f64, f64)> = counts
        .map(|count| {
            let (seconds, bytes) = swarm(count, true);
            let share = bytes as f64 / BYTES as f64;
            println!("{count} receivers: {seconds:.2} s, {share:.2} times the file from the publisher");
            (seconds, share)
        })
        .collect();
    let (alone, _) = swarm(1, true);
    let (apart, _) = swarm(8, false);
    println!("1 receiver: {alone:.2} s; 8 that do not serve: {apart:.2} s");
    assert!(apart > 7.0 * alone, "the publisher's link is narrow: {apart}");
    assert!(times[0].0 < 0.5 * apart, "{times:?}");
    // Twice as many need somewhat longer; twice as long if each took everything from the publisher.
    for pair in times.windows(2) {
        assert!(pair[1].0 < 1.6 * pair[0].0, "{times:?}");
    }
    assert!(times.iter().all(|(_, copies)| *copies < 1.8), "{times:?}");
}
