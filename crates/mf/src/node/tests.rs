//! Nodes on simulated links, one of which makes false statements.
use alloc::{boxed::Box, vec, vec::Vec};

use tributary_content::{ChunkRepository, StoreError};

use super::*;
use crate::{
    ids::{ChunkKey, Token},
    router::NOT_PROVEN,
    wire::{ChunkRanges, DataTag, Reliability},
};

/// Nodes connected without delay.
struct World {
    now: Time,
    nodes: Vec<MfNode>,
    wires: BTreeMap<(usize, FaceId), (usize, FaceId)>,
}

impl World {
    /// A router of names, and a host at it for each of `labels`.
    fn new<const N: usize>(labels: [&str; N]) -> World {
        let mut world = World { now: Time::from_millis(1), nodes: Vec::new(), wires: BTreeMap::new() };
        let mut config = Config::new("router", 1);
        (config.router, config.resolver) = (true, true);
        world.nodes.push(MfNode::new(config));
        for (label, number) in labels.iter().zip(1..) {
            world.nodes.push(MfNode::new(Config::new(label, number as u64 + 1)));
            let ends = [(0, FaceId(number as u32)), (number, FaceId(1))];
            world.wires.extend([(ends[0], ends[1]), (ends[1], ends[0])]);
            for (node, face) in ends {
                world.nodes[node].add_face(world.now, face, FaceOptions { mtu: 1_472, rate: None });
            }
        }
        world.run(1_000);
        world
    }
    fn run(&mut self, millis: u64) {
        for _ in 0..millis {
            self.now += core::time::Duration::from_millis(1);
            for node in &mut self.nodes {
                if node.poll_timeout().is_some_and(|(due, _)| due <= self.now) {
                    node.handle_timeout(self.now);
                }
            }
            self.settle();
        }
    }
    fn settle(&mut self) {
        let mut moved = true;
        while core::mem::take(&mut moved) {
            for index in 0..self.nodes.len() {
                let mut out = TransmitBuf::default();
                while let Some(Transmit { face }) = self.nodes[index].poll_transmit(self.now, &mut out) {
                    moved = true;
                    let packets: Vec<Bytes> = out.drain().map(|datagram| Bytes::from(datagram.to_vec())).collect();
                    let Some((to, face)) = self.wires.get(&(index, face)).copied() else { continue };
                    packets
                        .into_iter()
                        .for_each(|packet| self.nodes[to].handle_datagram(self.now, face, packet.into()));
                }
                while self.nodes[index].poll_event().is_some() {}
            }
        }
    }
    fn guid(&self, node: usize) -> Guid {
        self.nodes[node].guid
    }
    fn counter(&self, node: usize, what: &str) -> u64 {
        self.nodes[node].events.counters().get(what).copied().unwrap_or_default()
    }
    /// A node sends this under this name, as a message about names or of the transport.
    fn send_chunk(&mut self, node: usize, kind: ChunkKind, source: Guid, to: Guid, payload: Vec<u8>) {
        let header = ChunkHeader::new(kind, source, to, self.nodes[0].config.address);
        let now = self.now;
        self.nodes[node].router.originate(now, header, &payload.into(), Origin::Local);
        self.nodes[node].settle(now);
        self.settle();
    }
}
fn lookup(request: u32, place: Guid) -> Vec<u8> {
    let mut bytes = Vec::new();
    NameMessage::Lookup { request, place }.encode(&mut bytes);
    bytes
}

/// A disk that cannot be read for a while.
struct Unreadable {
    inner: MemoryRepository,
    tries: u32,
}
impl ChunkRepository for Unreadable {
    fn put(&mut self, id: u64, head: &[u8], payload: &[Bytes]) -> Result<(), StoreError> {
        self.inner.put(id, head, payload)
    }
    fn remove(&mut self, id: u64) -> Result<(), StoreError> {
        self.inner.remove(id)
    }
    fn commit(&mut self) -> Result<(), StoreError> {
        self.inner.commit()
    }
    fn read(&mut self, id: u64) -> Result<Bytes, StoreError> {
        self.inner.read(id)
    }
    fn list(&mut self) -> Result<Vec<(u64, Vec<u8>, u64)>, StoreError> {
        if self.tries > 0 {
            self.tries -= 1;
            let (path, reason) = ("/store".into(), "input/output error".into());
            return Err(StoreError::Io { operation: "list", path, reason });
        }
        self.inner.list()
    }
}

#[test]
fn a_store_that_cannot_be_read_at_the_start_is_read_later() {
    let mut config = Config::new("router", 1);
    config.router = true;
    let repository = Unreadable { inner: MemoryRepository::default(), tries: 3 };
    let mut now = Time::from_millis(1);
    let mut node = MfNode::with_repository(now, config, Box::new(repository));
    let mut notes = Vec::new();
    while now < Time::from_millis(30_000) {
        assert_eq!(node.proxy().is_some(), now >= Time::from_millis(15_001), "tried every five seconds");
        if let Some((due, _)) = node.poll_timeout() {
            now = due.max(now);
        }
        node.handle_timeout(now);
        while let Some(event) = node.poll_event() {
            notes.extend(if let Event::Note(note) = event { Some(note) } else { None });
        }
    }
    assert_eq!(notes.len(), 2, "that it cannot, and that it can: {notes:?}");
}

#[test]
fn questions_in_the_name_of_another_and_repeated_ones_are_refused() {
    let mut world = World::new(["owner", "reader", "forger"]);
    let [router, owner, reader, forger] = [0, 1, 2, 3].map(|node| world.guid(node));
    let (now, readers) = (world.now, Readers::Only([reader].into()));
    world.nodes[1].set_readers(now, None, readers);
    world.run(100);
    let taken = |world: &mut World, node: usize, source: Guid, to: Guid, payload: Vec<u8>| {
        let before = world.nodes[0].events.counters().clone();
        world.send_chunk(node, ChunkKind::Names, source, to, payload);
        let refused = |reason: &str| world.counter(0, reason) - before.get(reason).copied().unwrap_or_default();
        ["in the name of another", "repeated", "forged", "name query of an unsolicited face"].map(refused)
    };
    assert_eq!(taken(&mut world, 2, reader, router, lookup(900, owner)), [0; 4], "the reader itself");
    assert_eq!(taken(&mut world, 2, reader, router, lookup(900, owner)), [0, 1, 0, 0]);
    assert_eq!(taken(&mut world, 3, reader, router, lookup(901, owner)), [1, 0, 0, 0]);
    assert_eq!(taken(&mut world, 3, Guid::NONE, router, lookup(901, owner)), [1, 0, 0, 0]);
    // Like another router's request, except for the code.
    let mut seals = Seals::new(NetworkAddress(77), 5);
    let message = NameMessage::Lookup { request: 1, place: owner };
    let address = world.nodes[0].config.address;
    let boot = world.nodes[0].router.topology.as_ref().unwrap().state(address).unwrap().boot;
    seals.on_boot(address, boot);
    let mut sealed = seals.seal(address, &message).expect("without an authority there is a key for all");
    *sealed.last_mut().expect("a code") ^= 1;
    assert_eq!(taken(&mut world, 3, forger, Guid::NONE, sealed), [0, 0, 1, 0]);
}

#[test]
fn a_host_takes_answers_of_its_access_router_only_and_nobody_sends_in_anothers_name() {
    let mut world = World::new(["host", "forger"]);
    let [router, host, forger] = [0, 1, 2].map(|node| world.guid(node));
    let mut found = Vec::new();
    NameMessage::Found { request: 0, place: Guid([7; 20]), records: vec![] }.encode(&mut found);
    for (source, reason) in [
        (forger, "about names, for a host elsewhere"),
        (router, "in the name of another"),
        (host, "in the name of another"),
    ] {
        let before = world.counter(0, reason);
        world.send_chunk(2, ChunkKind::Names, source, host, found.clone());
        assert_eq!(world.counter(0, reason), before + 1, "{source:?}");
    }
    // A neighbour that is not the host's router.
    let now = world.now;
    let face = FaceId(1);
    for source in [forger, host] {
        let refused = world.nodes[1].on_names(now, face, source, &found);
        assert_eq!(refused, Err("name query of an unsolicited face"));
    }
    assert_eq!(world.nodes[1].on_names(now, face, router, &found), Ok(()));
}

#[test]
fn a_neighbour_that_is_no_router_answers_nothing() {
    let mut world = World::new(["host", "forger"]);
    let ends = [(1, FaceId(2)), (2, FaceId(2))];
    world.wires.extend([(ends[0], ends[1]), (ends[1], ends[0])]);
    for (node, face) in ends {
        world.nodes[node].add_face(world.now, face, FaceOptions { mtu: 1_472, rate: None });
    }
    world.run(1_000);
    let (now, forger) = (world.now, world.guid(2));
    assert_eq!(world.nodes[1].neighbour.peer(FaceId(2)).map(|peer| peer.guid), Some(forger));
    let mut found = Vec::new();
    NameMessage::Found { request: 0, place: Guid([7; 20]), records: vec![] }.encode(&mut found);
    let refused = world.nodes[1].on_names(now, FaceId(2), forger, &found);
    assert_eq!(refused, Err("unsolicited answer"));
}

#[test]
fn a_router_with_a_closed_face_keeps_its_own_address() {
    let mut world = World::certified(&[(router("hub", 1), None), (router("other", 2), None)], None);
    let hub = world.guid(0);
    let address = world.nodes[0].config.address;
    let closed = FacePolicy { closed: Some("its quota has ended".into()), ..FacePolicy::default() };
    let now = world.now;
    world.nodes[0].set_face_policy(now, FaceId(1), closed);
    world.nodes[0].settle(now);
    world.run(2_000);
    let now = world.now;
    world.nodes[1].resolver.lookup(now, hub);
    world.nodes[1].settle(now);
    world.run(200);
    assert_eq!(world.nodes[1].router.binding(world.now, &hub), Some(&[address][..]));
}

#[test]
fn a_host_that_starts_anew_counts_its_questions_from_one_and_is_answered() {
    let mut world = World::new(["host", "owner"]);
    let owner = world.guid(2);
    for _ in 0..20 {
        let now = world.now;
        world.nodes[1].resolver.lookup(now, owner);
        world.run(50);
    }
    let mut again = MfNode::new(Config::new("host", 99));
    again.add_face(world.now, FaceId(1), FaceOptions { mtu: 1_472, rate: None });
    world.nodes[1] = again;
    world.run(1_000);
    let now = world.now;
    world.nodes[1].resolver.lookup(now, owner);
    world.nodes[1].settle(now);
    world.run(100);
    assert_eq!(world.counter(0, "repeated"), 0);
    assert!(world.nodes[1].router.binding(world.now, &owner).is_some(), "it has no answer");
}

/// A source with an object for an absent receiver, stored at the receiver's router; returns the source's transfer as
/// well.
fn stored_for_one_that_is_away() -> (World, ChunkKey) {
    let mut world = World::new(["source", "receiver"]);
    let (now, receiver) = (world.now, world.guid(2));
    world.wires.retain(|(from, _), (to, _)| *from != 2 && *to != 2);
    world.run(2_000);
    let key = SigningKey::from_secret(&[7; 32]);
    let name = "/lab/reading".parse().unwrap();
    let object = MemoryObject::new(name, Bytes::from_static(b"21.5"), &key).unwrap();
    let id = object.manifest().publication_id();
    world.nodes[1].sender.lend(Box::new(object));
    let options = SendOptions::new(&world.nodes[1].config.transfer);
    let now = now.max(world.now);
    world.nodes[1].send(now, id, receiver, options).unwrap();
    world.run(5_000);
    let held = world.nodes[0].holdings();
    assert_eq!(held.len(), 2, "the description and the bytes wait in the router");
    (world, held[0].key)
}

#[test]
fn a_push_of_another_or_without_the_token_sends_nothing_and_whoever_stores_says_so_with_it() {
    let (mut world, key) = stored_for_one_that_is_away();
    let report = world.nodes[1].sender.report(key.transfer).unwrap();
    assert_eq!((report.stored_chunks, report.is_over), (2, false), "the source believes its router");
    // The receiver is known to be away; a push makes the store check whether it may send.
    let (now, chunks) = (world.now, ChunkRanges::from_ascending([0, 1]));
    let push = TransportBody::Push { flow: key.flow, chunks }.about(key.transfer, key.object);
    let token =
        world.nodes[0].proxy.as_mut().unwrap().copy(world.now, &key).and_then(|(header, _)| header.token()).unwrap();
    // The receiver knows the token too, from its chunks, but may not release other chunks.
    let (source, receiver) = (key.flow.source, key.flow.destination);
    for (from, token, wakes) in [(source, Token(token.0 ^ 1), false), (receiver, token, false), (source, token, true)] {
        let header = ChunkHeader::new(ChunkKind::Transport(token), from, world.guid(0), NetworkAddress::NONE);
        world.nodes[0].on_transport(now, &header, &push);
        let proxy = world.nodes[0].proxy.as_mut().unwrap();
        let tried = core::cell::Cell::new(false);
        let may = |_: &ChunkHeader| {
            tried.set(true);
            Release::Away
        };
        let none = proxy.poll_release(now, may, |_| Vec::new());
        assert_eq!((none.is_none(), tried.get()), (true, wakes));
    }
}

/// A message about chunk 0 of a transfer, changed to name all possible chunks.
fn about_all(message: &TransportMessage) -> TransportMessage {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    let count = bytes.len() - 4;
    bytes[count..].fill(0xff);
    TransportMessage::decode(&bytes).unwrap()
}

#[test]
fn a_push_and_a_nack_of_all_numbers_there_are_stop_no_router() {
    let (mut world, key) = stored_for_one_that_is_away();
    let (now, first) = (world.now, ChunkRanges::from_ascending([0]));
    let kept = world.nodes[0].proxy.as_mut().unwrap();
    let (header, payload) = kept.copy(now, &key).unwrap();
    // The router answers for the producer of another copy as well.
    let tag = DataTag { number: 5, ..*header.tag().unwrap() };
    let delegated = ChunkHeader { kind: ChunkKind::Data(tag), ..header.clone() };
    kept.put(now, &delegated, &payload.into(), Kept::Delegated).unwrap();
    let (source, receiver, kind) = (key.flow.source, key.flow.destination, ChunkKind::Transport(tag.token));
    let ChunkKey { flow, transfer, object, .. } = key;
    let push = TransportBody::Push { flow, chunks: first.clone() }.about(transfer, object);
    let said = ChunkHeader::new(kind, source, world.guid(0), NetworkAddress::NONE);
    let before = world.nodes[1].sender.report(transfer).unwrap();
    world.nodes[0].on_transport(now, &said, &about_all(&push));
    world.run(1_000);
    let after = world.nodes[1].sender.report(transfer).unwrap();
    assert_eq!((before.dropped_chunks, after.dropped_chunks), (0, 0), "all that it has sent is there");
    let nack =
        TransportBody::Status { window: 0, advice_chunks: 1, sequence: 1, missing: first }.about(transfer, object);
    let mut bytes = Vec::new();
    about_all(&nack).encode(&mut bytes);
    let said = ChunkHeader::new(kind, receiver, source, NetworkAddress::NONE);
    let slot = world.nodes[0].router.put_own(said.clone(), &bytes.into());
    world.nodes[0].answer_for_producer(now, slot, &said);
    world.run(1_000);
    assert_eq!(world.nodes[0].holdings().len(), 3);
}

#[test]
fn a_source_is_told_what_it_pushes_in_vain_and_sends_it_itself() {
    let (mut world, key) = stored_for_one_that_is_away();
    let token =
        world.nodes[0].proxy.as_mut().unwrap().copy(world.now, &key).and_then(|(header, _)| header.token()).unwrap();
    // The router has lost it without a notice.
    let (now, ChunkKey { flow, transfer, object, .. }) = (world.now, key);
    world.nodes[0].proxy.as_mut().unwrap().on_complete(token, &flow, transfer, object);
    let chunks = ChunkRanges::from_ascending([0, 1]);
    let push = TransportBody::Push { flow, chunks }.about(transfer, object);
    let said = ChunkHeader::new(ChunkKind::Transport(token), flow.source, world.guid(0), NetworkAddress::NONE);
    world.nodes[0].on_transport(now, &said, &push);
    world.run(3_000);
    assert_eq!(world.nodes[1].sender.report(transfer).unwrap().dropped_chunks, 2);
    assert_eq!(world.nodes[0].holdings().len(), 2, "it is stored anew");
}

#[test]
fn who_asks_past_a_cache_that_is_wrong_sets_it_right_for_the_next() {
    use tributary_content::{MemoryObject, MemoryOpener, ObjectReader};
    let mut world = World::new(["source", "first", "second"]);
    let key = SigningKey::from_secret(&[7; 32]);
    let (name, bytes): (Name, Vec<u8>) = ("/lab/file".parse().unwrap(), (0..100_000).map(|i| i as u8).collect());
    let object = MemoryObject::new(name.clone(), Bytes::from(bytes.clone()), &key).unwrap();
    let (id, size) = (object.manifest().object_id(), object.manifest().size);
    let mut head = (object.manifest().encode().len() as u16).to_be_bytes().to_vec();
    head.extend(object.manifest().encode());
    head.extend(object.tree());
    let now = world.now;
    world.nodes[1].publish(now, Box::new(object));
    // The router has the whole object, with a byte changed.
    let chunk_bytes = 20_000;
    let count = crate::sender::chunk_count(size, chunk_bytes);
    for number in 0..count {
        let tag = DataTag {
            object: id,
            transfer: 1,
            token: Token(1),
            number,
            count,
            chunk_bytes,
            reliability: Reliability::Nack,
            window: u16::MAX,
            window_chunks: 0,
        };
        let part = number.checked_sub(1).map(|at| bytes.chunks(chunk_bytes as usize).nth(at as usize).unwrap());
        let mut payload = part.map_or_else(|| head.clone(), <[u8]>::to_vec);
        payload[77] ^= u8::from(number == 2);
        let len = payload.len() as u64;
        world.nodes[0].cache.insert(&tag, || payload.into(), len);
    }
    world.run(1_000);
    for (node, wrong) in [(2, true), (3, false)] {
        let (opener, sent) = (MemoryOpener::new(), world.nodes[1].sender.chunks.0);
        let (content, now) = (opener.content(), world.now);
        let fetch = Fetch {
            name: name.clone(),
            opener: Box::new(opener),
            rate_limit: None,
            paths_per_source: 1,
            metric: tributary_transport::PathMetric::Hops,
            patience: None,
        };
        world.nodes[node].fetch(now, fetch);
        world.run(10_000);
        assert!(content.finished(&name).is_some_and(|got| got == bytes), "{node}");
        assert_eq!(world.nodes[node].receiver.wrong.caches > 0, wrong, "{node}");
        assert_eq!(world.nodes[1].sender.chunks.0 > sent, wrong, "{node}: the cache answers what is right");
    }
}

#[test]
fn an_acknowledgement_without_the_token_ends_nothing() {
    let (mut world, key) = stored_for_one_that_is_away();
    let ack = TransportBody::Ack { complete: true, chunks: ChunkRanges::default() }.about(key.transfer, key.object);
    let token =
        world.nodes[0].proxy.as_mut().unwrap().copy(world.now, &key).and_then(|(header, _)| header.token()).unwrap();
    let now = world.now;
    for (token, is_over) in [(Token(token.0 ^ 1), false), (token, true)] {
        let kind = ChunkKind::Transport(token);
        let header = ChunkHeader::new(kind, key.flow.destination, key.flow.source, NetworkAddress::NONE);
        world.nodes[1].on_transport(now, &header, &ack);
        assert_eq!(world.nodes[1].sender.report(key.transfer).unwrap().is_over, is_over);
        assert_eq!(world.counter(1, "about a transfer, without its token"), 1);
    }
}

/// A repository that writes when the test says so, and then wakes its node.
#[derive(Clone, Default)]
struct Calling {
    inner: MemoryRepository,
    commits: Arc<core::sync::atomic::AtomicUsize>,
    is_done: Arc<core::sync::atomic::AtomicBool>,
}
impl ChunkRepository for Calling {
    fn put(&mut self, id: u64, head: &[u8], payload: &[Bytes]) -> Result<(), StoreError> {
        self.inner.put(id, head, payload)
    }
    fn remove(&mut self, id: u64) -> Result<(), StoreError> {
        self.inner.remove(id)
    }
    fn commit(&mut self) -> Result<(), StoreError> {
        self.commits.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
        self.is_done.store(false, core::sync::atomic::Ordering::Relaxed);
        self.inner.commit()
    }
    fn is_committed(&mut self) -> Result<bool, StoreError> {
        Ok(self.is_done.load(core::sync::atomic::Ordering::Relaxed))
    }
    fn poll_interval(&self) -> Option<core::time::Duration> {
        None
    }
    fn read(&mut self, id: u64) -> Result<Bytes, StoreError> {
        self.inner.read(id)
    }
    fn list(&mut self) -> Result<Vec<(u64, Vec<u8>, u64)>, StoreError> {
        self.inner.list()
    }
}

#[test]
fn a_repository_that_calls_its_node_is_not_asked_before() {
    use core::sync::atomic::Ordering;
    let (now, disk) = (Time::from_millis(1), Calling::default());
    let mut config = Config::new("router", 1);
    (config.router, config.resolver) = (true, true);
    let mut node = MfNode::with_repository(Time::ZERO, config, Box::new(disk.clone()));
    let store = |node: &mut MfNode, number: u32| {
        let tag = DataTag {
            object: ObjectId([9; 16]),
            transfer: 1,
            token: Token(7),
            number,
            count: 2,
            chunk_bytes: 1_000,
            reliability: Reliability::Nack,
            window: 0,
            window_chunks: 0,
        };
        let header = ChunkHeader::new(ChunkKind::Data(tag), Guid([1; 20]), Guid([2; 20]), NetworkAddress(5));
        let proxy = node.proxy.as_mut().expect("routers have one");
        proxy.put(now, &header, &vec![1; 10].into(), Kept::For(StoreReason::Away)).expect("room");
        node.settle(now);
    };
    store(&mut node, 0);
    store(&mut node, 1);
    assert_eq!((disk.commits.load(Ordering::Relaxed), node.commit_look_at), (1, None), "the first one runs");
    disk.is_done.store(true, Ordering::Relaxed);
    node.handle_storage(now);
    assert_eq!(disk.commits.load(Ordering::Relaxed), 2, "what came meanwhile is in the second one");
}

// A network with an authority.

use alloc::sync::Arc;
use tributary_content::{MemoryObject, PublicKey};
use tributary_trust::{
    Access, Certificate, Identity as NetworkIdentity, Network, Roles as CertifiedRoles, Terms, UnixTime, key_prefix,
};

fn node_key(number: usize) -> SigningKey {
    SigningKey::from_secret(&[number as u8 + 1; 32])
}
fn certificate(number: usize, roles: CertifiedRoles, names: &[&str]) -> Certificate {
    let terms = Terms {
        serial: number as u64,
        key: node_key(number).public(),
        label: "node".into(),
        roles,
        prefixes: names.iter().map(|name| name.parse().expect("a name")).collect(),
        not_before: UnixTime(1_000),
        not_after: UnixTime(1_000_000),
    };
    Certificate::issue(&SigningKey::from_secret(&[99; 32]), terms).expect("within limits")
}

impl World {
    /// Nodes around the first one, with these certificates; `None` for a network without an authority.
    fn certified(nodes: &[(Config, Option<Certificate>)], access: Option<Access>) -> World {
        let mut world = World { now: Time::from_millis(1), nodes: Vec::new(), wires: BTreeMap::new() };
        let now = world.now;
        let network = |access| Network::new(SigningKey::from_secret(&[99; 32]).public(), access);
        for (number, (config, certificate)) in nodes.iter().enumerate() {
            let mut node = MfNode::new(config.clone());
            if let Some(access) = access {
                let (key, certificate) = (node_key(number), certificate.clone());
                let clock = Arc::new(|_: Time| UnixTime(2_000));
                node.set_identity(now, &NetworkIdentity::new(key, certificate, network(access), clock));
            }
            world.nodes.push(node);
        }
        for number in 1..nodes.len() {
            let ends = [(0, FaceId(number as u32)), (number, FaceId(1))];
            world.wires.extend([(ends[0], ends[1]), (ends[1], ends[0])]);
            for ((node, face), other) in ends.into_iter().zip([number, 0]) {
                if let Some(access) = access {
                    // As the handshakes of their faces prove.
                    let (key, certificate) = (node_key(other).public(), nodes[other].1.as_ref());
                    let grant = network(access).admit(&key, "node", certificate, UnixTime(2_000)).expect("admitted");
                    world.nodes[node].handle_grant(now, face, Some(&grant));
                }
                world.nodes[node].add_face(now, face, FaceOptions { mtu: 1_472, rate: None });
            }
        }
        world.run(3_000);
        world
    }
    /// The labels of the routers that the first node has in its topology.
    fn routers(&self) -> Vec<&str> {
        let topology = self.nodes[0].router.topology.as_ref().expect("it is a router");
        topology.reachable().map(|(state, _)| &*state.label).collect()
    }
}
fn router(label: &str, number: u64) -> Config {
    let mut config = Config::new(label, number);
    (config.router, config.resolver) = (true, true);
    config
}

#[test]
fn nobody_is_a_router_or_a_resolver_without_a_certificate_that_says_so() {
    let both = CertifiedRoles::ROUTER | CertifiedRoles::RESOLVER;
    let nodes = [
        (router("hub", 1), Some(certificate(0, both, &[]))),
        (router("good", 2), Some(certificate(1, both, &[]))),
        (router("evil", 3), Some(certificate(2, CertifiedRoles::HOST, &["/evil"]))),
        (router("guest", 4), None),
        (router("half", 5), Some(certificate(4, CertifiedRoles::ROUTER, &[]))),
    ];
    let world = World::certified(&nodes, None);
    assert_eq!(world.routers().len(), 5, "without an authority, whoever says so is a router");
    let world = World::certified(&nodes, Some(Access::Open));
    assert_eq!(world.routers(), ["hub", "good"]);
    assert!(world.counter(0, "link state from a neighbour that is not certified as a router") > 0);
    assert!(world.counter(0, "link state of a resolver that is not certified as one") > 0);
    let members = world.nodes[0].front.as_ref().expect("it is a router").members().len();
    assert_eq!(members, 2, "the others hold no records");
}

#[test]
fn hosts_put_records_for_names_that_they_own_and_for_no_others() {
    let object = |path: &str| {
        let key = SigningKey::from_secret(&[7; 32]);
        Box::new(MemoryObject::new(path.parse().expect("a name"), vec![7; 5_000], &key).expect("small"))
    };
    let both = CertifiedRoles::ROUTER | CertifiedRoles::RESOLVER;
    let nodes = [
        (router("hub", 1), Some(certificate(0, both, &[]))),
        (Config::new("owner", 2), Some(certificate(1, CertifiedRoles::HOST, &["/lab"]))),
        (Config::new("guest", 3), None),
    ];
    for access in [None, Some(Access::Open)] {
        let mut world = World::certified(&nodes, access);
        let publish = |world: &mut World, node: usize, path: &str| {
            let now = world.now;
            world.nodes[node].publish(now, object(path));
            world.run(200);
            world.nodes[0].knows_name(&Guid::of_name(&path.parse().expect("a name")))
        };
        assert!(publish(&mut world, 1, "/lab/file"), "{access:?}");
        assert!(publish(&mut world, 2, "/free/file"), "{access:?}: nobody owns it");
        let is_open = access.is_none();
        assert_eq!(publish(&mut world, 1, "/other/file"), is_open, "not below its prefixes");
        assert_eq!(publish(&mut world, 2, "/lab/other"), is_open, "another node owns it");
        assert_eq!(world.counter(0, names::NOT_OWNED) > 0, !is_open);
    }
}

#[test]
fn what_has_the_name_of_a_key_is_put_under_its_signature_only_with_an_authority_or_without() {
    let owner = SigningKey::from_secret(&[7; 32]);
    let below = |key: &PublicKey, part: &[u8]| key_prefix(key).child(part).expect("it is short");
    let nodes = [
        (router("hub", 1), Some(certificate(0, CertifiedRoles::ROUTER | CertifiedRoles::RESOLVER, &[]))),
        (Config::new("stranger", 2), Some(certificate(1, CertifiedRoles::HOST, &["/key"]))),
        (Config::new("guest", 3), None),
    ];
    for access in [None, Some(Access::Open)] {
        let mut world = World::certified(&nodes, access);
        let publish = |world: &mut World, node: usize, signer: &SigningKey| {
            let (now, name) = (world.now, below(&owner.public(), b"file"));
            let object = MemoryObject::new(name.clone(), vec![7; 5_000], signer).expect("small");
            world.nodes[node].publish(now, Box::new(object));
            world.run(200);
            world.nodes[0].knows_name(&Guid::of_name(&name))
        };
        assert!(!publish(&mut world, 1, &node_key(1)), "{access:?}: not even with a certificate for /key");
        assert!(publish(&mut world, 2, &owner), "{access:?}: its signature counts, and not who serves it");
        // Whoever attaches to a name signs nothing with the key, and has to prove it.
        let attach = |world: &mut World, key: &PublicKey| {
            let (now, name) = (world.now, below(key, b"inbox"));
            tributary_transport::Messaging::attach(&mut world.nodes[2], now, &name);
            world.run(200);
            world.nodes[0].knows_name(&Guid::of_name(&name))
        };
        let now = world.now;
        world.nodes[0].handle_grant(now, FaceId(2), Some(&Grant::host(node_key(2).public(), "guest")));
        assert!(!attach(&mut world, &owner.public()), "{access:?}");
        assert!(attach(&mut world, &node_key(2).public()), "{access:?}");
    }
}

#[test]
fn a_router_that_nobody_vouches_for_has_chunks_stored_for_sources_behind_it_only() {
    let nodes = [(router("hub", 1), None), (router("dials", 2), None), (Config::new("victim", 3), None)];
    let mut world = World::certified(&nodes, None);
    let now = world.now;
    // It came to the hub, whose owner has not named it.
    world.nodes[0].unsolicited.add(now, FaceId(1));
    let mut number = 0;
    let mut stored = |world: &mut World, source: Guid| {
        number += 1;
        let tag = DataTag {
            object: ObjectId([3; 16]),
            transfer: 1 << 31 | 1,
            token: Token(7),
            number,
            count: 1_000,
            chunk_bytes: 1_000,
            reliability: Reliability::Nack,
            window: u16::MAX,
            window_chunks: 0,
        };
        let before = world.nodes[0].holdings().len();
        world.send_chunk(1, ChunkKind::Data(tag), source, Guid([9; 20]), vec![7; 1_000]);
        world.run(8_000);
        world.nodes[0].holdings().len() - before
    };
    let victim = world.guid(2);
    assert_eq!([Guid([8; 20]), victim].map(|source| stored(&mut world, source)), [0, 0]);
    assert!(world.counter(0, NOT_PROVEN) > 0);
    let own = world.guid(1);
    assert_eq!(stored(&mut world, own), 1, "it has proven its own key");
    let behind = Guid([6; 20]);
    let lifetime = core::time::Duration::from_secs(60);
    let addresses = Vec::from([(world.nodes[1].config.address, WEIGHT_MAX)]);
    let binding = Binding { addresses, readers: Readers::All, lifetime, version: Some(1) };
    let now = world.now;
    world.nodes[0].router.handle_binding(now, behind, binding);
    assert_eq!(stored(&mut world, behind), 1, "by its own record it is behind that router");
    world.nodes[0].unsolicited.remove(FaceId(1));
    assert_eq!(stored(&mut world, Guid([8; 20])), 1, "the owner of the hub has named that router");
}
