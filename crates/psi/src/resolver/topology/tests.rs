//! A whole domain from cold start: routers, neighbours and two topology managers on links of 1 ms, without the
//! reliable control channel, so that every message goes once, over the very FIDs that were handed out.
use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    vec::Vec,
};

use bytes::Bytes;
use tributary_core::{ByteCount, Duration, FaceId, NodeId, Rate, Time, TransmitBuf, event::Event};
use tributary_transport::{FaceOptions, PathMetric};

use super::manager::{ManagerConfig, TopologyManager};
use crate::{
    config::{Config, Limits},
    ids::{ItemId, Roles},
    router::{
        Router, RouterConfig,
        neighbour::{Neighbour, NeighbourConfig},
    },
    wire::{
        DATAGRAM_BYTES_MIN, Fid, Header, Limit, LinkState, ManagerState, Message, Offer, OfferVersion, PacketType,
        PathRequest, Publisher, Rejection, Routes, TTL_MAX, Wire as _, successions,
    },
};

struct Host {
    config: Config,
    roles: Roles,
    faces: Vec<FaceId>,
    alive: bool,
    runs: u64,
    router: Router,
    neighbour: Neighbour,
    manager: Option<TopologyManager>,
}

/// Both ends of a link, and whether it carries anything.
struct Wire {
    ends: [(usize, FaceId); 2],
    up: bool,
}

struct World {
    now: Time,
    hosts: Vec<Host>,
    wires: Vec<Wire>,
    flying: BTreeMap<(Time, u64), (usize, FaceId, Vec<u8>)>,
    count: u64,
    offers: Vec<(Time, usize, Offer)>,
    routes: Vec<(Time, usize, Routes)>,
    notes: Vec<String>,
    /// Where data packets that were sent as probes arrived.
    arrived: Vec<(usize, Vec<u8>)>,
}
fn ms(millis: u64) -> Time {
    Time::from_millis(millis)
}

impl World {
    fn new() -> World {
        World {
            now: ms(1000),
            hosts: Vec::new(),
            wires: Vec::new(),
            flying: BTreeMap::new(),
            count: 0,
            offers: Vec::new(),
            routes: Vec::new(),
            notes: Vec::new(),
            arrived: Vec::new(),
        }
    }
    fn add(&mut self, label: &str, roles: Roles, priority: Option<u8>) -> usize {
        let config = Config { topology_manager: priority, ..Config::new(label, self.hosts.len() as u64) };
        let roles = if priority.is_some() { roles | Roles::TOPOLOGY_MANAGER } else { roles };
        let host = Host::start(config, roles, 1);
        self.hosts.push(host);
        self.hosts.len() - 1
    }
    fn link(&mut self, a: usize, b: usize) -> usize {
        let ends = [a, b].map(|host| {
            let face = FaceId(self.hosts[host].faces.len() as u32 + 10);
            self.hosts[host].attach(self.now, face);
            (host, face)
        });
        self.wires.push(Wire { ends, up: true });
        self.wires.len() - 1
    }
    fn kill(&mut self, host: usize) {
        self.hosts[host].alive = false;
    }
    fn restart(&mut self, host: usize) {
        let old = &self.hosts[host];
        let mut new = Host::start(old.config.clone(), old.roles, old.runs + 1);
        let faces = old.faces.clone();
        faces.into_iter().for_each(|face| new.attach(self.now, face));
        self.hosts[host] = new;
    }
    fn transmit(&mut self, host: usize, face: FaceId, bytes: Vec<u8>) {
        let wire = self.wires.iter().find(|wire| wire.ends.contains(&(host, face))).unwrap();
        let to = wire.ends[usize::from(wire.ends[0] == (host, face))];
        if wire.up && bytes.len() <= 1500 {
            self.count += 1;
            self.flying.insert((self.now + Duration::from_millis(1), self.count), (to.0, to.1, bytes));
        }
    }
    fn send(&mut self, host: usize, fid: Fid, message: &Message) {
        let mut body = Vec::new();
        message.encode(&mut body);
        let header = Header { packet_type: PacketType::Control, flags: 0, ttl: TTL_MAX, fid };
        let verdict = self.hosts[host].router.originate(self.now, &header, b"", body.into());
        assert_eq!(verdict.dropped, None);
        if let Some(local) = verdict.local {
            self.deliver(host, &local.strip(header.len()).into_bytes());
        }
    }
    fn deliver(&mut self, host: usize, bytes: &[u8]) {
        let now = self.now;
        match Message::decode(bytes) {
            Ok(Message::LinkState(state)) => self.hosts[host].manager.as_mut().unwrap().handle_link_state(now, state),
            Ok(Message::Routes(routes)) => {
                if self.hosts[host].neighbour.handle_routes(&routes) {
                    if let Some(manager) = &mut self.hosts[host].manager {
                        manager.handle_routes(&routes);
                    }
                    self.hosts[host].router.handle_routes(&routes);
                    self.routes.push((now, host, routes));
                }
            }
            Ok(Message::Offer(offer)) => self.offers.push((now, host, offer)),
            _ => self.arrived.push((host, bytes.into())),
        }
    }
    fn settle(&mut self) {
        for i in 0..self.hosts.len() {
            while self.hosts[i].alive && self.settle_one(i) {}
        }
    }
    fn settle_one(&mut self, i: usize) -> bool {
        let now = self.now;
        let mut moved = false;
        while let Some((face, up)) = self.hosts[i].neighbour.poll_face() {
            self.hosts[i].router.set_face_up(face, up);
        }
        while let Some((face, packet)) = self.hosts[i].neighbour.poll_packet() {
            self.transmit(i, face, packet);
        }
        while let Some(beacon) = self.hosts[i].neighbour.poll_beacon() {
            moved = true;
            if let Some(manager) = &mut self.hosts[i].manager {
                manager.handle_beacon(now, &beacon);
            }
        }
        while let Some(beacon) = self.hosts[i].manager.as_mut().and_then(TopologyManager::poll_beacon) {
            moved = true;
            self.hosts[i].neighbour.originate_beacon(now, beacon);
        }
        if let Some(state) = self.hosts[i].neighbour.poll_link_state() {
            moved = true;
            let managers = self.hosts[i].neighbour.managers();
            for to in managers.into_iter().map(|manager| manager.to).collect::<Vec<_>>() {
                self.send(i, to, &Message::LinkState(state.clone()));
            }
        }
        while let Some((node, message)) = self.hosts[i].manager.as_mut().and_then(TopologyManager::poll_message) {
            moved = true;
            let (to, _) =
                self.hosts[i].manager.as_mut().unwrap().route_to(node).expect("messages go where a route leads");
            self.send(i, to, &message);
        }
        let host = &mut self.hosts[i];
        let events = core::iter::from_fn(|| host.neighbour.poll_event());
        let own = core::iter::from_fn(|| host.manager.as_mut()?.poll_event());
        self.notes.extend(events.chain(own).filter_map(|event| match event {
            Event::Note(text) => Some(text),
            _ => None,
        }));
        let mut batch = TransmitBuf::new();
        while let Some(transmit) = self.hosts[i].router.poll_transmit(&mut batch) {
            let packets: Vec<Vec<u8>> = batch.drain().map(|datagram| datagram.to_vec()).collect();
            packets.into_iter().for_each(|packet| self.transmit(i, transmit.face, packet));
        }
        moved
    }
    fn run(&mut self, millis: u64) {
        let end = self.now + Duration::from_millis(millis);
        loop {
            self.settle();
            let alive = self.hosts.iter().filter(|host| host.alive);
            let timers = alive.flat_map(|host| {
                [host.neighbour.poll_timeout(), host.manager.as_ref().and_then(TopologyManager::poll_timeout)]
            });
            let next = timers.flatten().chain(self.flying.keys().next().map(|key| key.0)).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            while let Some(entry) = self.flying.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (host, face, bytes) = entry.remove();
                if self.hosts[host].alive {
                    self.arrive(host, face, bytes);
                }
            }
            for host in self.hosts.iter_mut().filter(|host| host.alive) {
                host.neighbour.handle_timeout(self.now);
                host.manager.iter_mut().for_each(|manager| manager.handle_timeout(self.now));
            }
        }
        self.now = end;
    }
    fn arrive(&mut self, host: usize, face: FaceId, bytes: Vec<u8>) {
        let header = Header::decode(&bytes).unwrap();
        if matches!(header.packet_type, PacketType::Hello | PacketType::Beacon) {
            return self.hosts[host].neighbour.handle_datagram(self.now, face, &bytes.into());
        }
        let verdict = self.hosts[host].router.forward(self.now, Some(face), bytes.into());
        if let Some(local) = verdict.local {
            self.deliver(host, &local.strip(header.len()).into_bytes());
        }
    }

    fn id(&self, host: usize) -> NodeId {
        self.hosts[host].config.node
    }
    fn path_request(&self, subscriber: usize, publishers: &[usize], paths: u8) -> PathRequest {
        PathRequest {
            subscriber: self.id(subscriber),
            transfer: 1,
            version: self.now.as_nanos(),
            item: ItemId::new(&"/a".parse().unwrap()),
            metric: PathMetric::Hops,
            paths,
            lease_ms: 10_000_000,
            publishers: publishers
                .iter()
                .map(|host| Publisher {
                    node: self.id(*host),
                    version: 1,
                    label: self.hosts[*host].config.label.clone(),
                    manifest: [7].into(),
                })
                .collect(),
            withdrawn: Vec::new(),
        }
    }
    /// A rendezvous node's request, to all managers that live.
    fn ask(&mut self, request: &PathRequest) {
        let now = self.now;
        for host in self.hosts.iter_mut().filter(|host| host.alive) {
            host.manager.iter_mut().for_each(|manager| manager.handle_path_request(now, NodeId(77), request.clone()));
        }
        self.settle();
    }
    fn active(&self) -> Vec<usize> {
        let rules = |host: &&usize| {
            let host = &self.hosts[**host];
            host.alive && host.manager.as_ref().is_some_and(TopologyManager::is_active)
        };
        (0..self.hosts.len()).collect::<Vec<_>>().iter().filter(rules).copied().collect()
    }
    /// The newest full state that the subscriber was offered.
    fn offered(&self) -> (OfferVersion, Vec<Offer>) {
        let newest = self.offers.iter().map(|(_, _, offer)| offer.version).max().expect("something was offered");
        let mut set: Vec<Offer> = self
            .offers
            .iter()
            .filter(|(_, _, offer)| offer.version == newest)
            .map(|(_, _, offer)| offer.clone())
            .collect();
        set.sort_by_key(|offer| offer.index);
        assert_eq!(set.len(), usize::from(set[0].count.max(1)), "the set is complete");
        (newest, set)
    }
    fn labels(&self) -> Vec<String> {
        self.offered().1.iter().flat_map(|offer| offer.paths.iter().map(|path| path.label.clone())).collect()
    }
    /// Sends a packet over every offered FID and checks that it arrives where it should and nowhere else.
    fn check_paths(&mut self, subscriber: usize) {
        for offer in self.offered().1 {
            let source = (0..self.hosts.len()).find(|host| self.id(*host) == offer.source).unwrap();
            for path in offer.paths {
                for (from, to, fid) in [(subscriber, source, path.reverse), (source, subscriber, path.forward)] {
                    self.arrived.clear();
                    let header = Header { packet_type: PacketType::Control, flags: 0, ttl: TTL_MAX, fid };
                    let verdict =
                        self.hosts[from].router.originate(self.now, &header, b"", Bytes::from_static(&[255, 1, 2]));
                    assert!(verdict.local.is_none() && verdict.dropped.is_none());
                    self.run(u64::from(path.hops) + 2);
                    assert_eq!(self.arrived, [(to, [255, 1, 2].into())], "{}", path.label);
                }
            }
        }
    }
}

impl Host {
    fn start(config: Config, roles: Roles, run: u64) -> Host {
        let secret = *blake3::hash(format!("{} {run}", config.label).as_bytes()).as_bytes().first_chunk().unwrap();
        let router = RouterConfig { cache_bytes: ByteCount(0), ..RouterConfig::new(config.node, secret) };
        // Boot numbers do not grow, as when they are random.
        let boot = run.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let neighbour = NeighbourConfig::new(config.node, &config.label, roles, boot, secret);
        let manager = config.topology_manager.map(|priority| ManagerConfig::new(&config, priority, boot));
        Host {
            router: Router::new(router),
            neighbour: Neighbour::new(neighbour),
            manager: manager.map(TopologyManager::new),
            faces: Vec::new(),
            alive: true,
            runs: run,
            roles,
            config,
        }
    }
    fn attach(&mut self, now: Time, face: FaceId) {
        let options = FaceOptions { mtu: 1472, rate: Some(Rate::from_mbps(10)) };
        self.router.add_face(face, options);
        self.neighbour.add_face(now, face, options);
        self.faces.push(face);
    }
}

/// ```text
///             fn-1 ── fn-2 ── pub-1
///            /    \  /    \  /
///   receiver      rn-1     fn-5 ── pub-2         tm-1 at fn-1, tm-2 at fn-4
///            \    /  \    /  \
///             fn-3 ── fn-4 ── (tm-2)
/// ```
struct Demo {
    world: World,
    receiver: usize,
    routers: [usize; 5],
    publishers: [usize; 2],
    managers: [usize; 2],
    /// receiver–fn-1, fn-1–fn-2, fn-2–pub-1
    upper: [usize; 3],
}

fn demo() -> Demo {
    let mut world = World::new();
    let receiver = world.add("receiver", Roles::RECEIVER, None);
    let routers = [1, 2, 3, 4, 5].map(|i| world.add(&format!("fn-{i}"), Roles::ROUTER, None));
    let [f1, f2, f3, f4, f5] = routers;
    let rn = world.add("rn-1", Roles::ROUTER | Roles::RESOLVER, None);
    let publishers = ["pub-1", "pub-2"].map(|label| world.add(label, Roles::SENDER, None));
    let managers = [world.add("tm-1", Roles::NONE, Some(100)), world.add("tm-2", Roles::NONE, Some(50))];
    let upper = [world.link(receiver, f1), world.link(f1, f2), world.link(f2, publishers[0])];
    for (a, b) in [
        (receiver, f3),
        (f3, f4),
        (f1, rn),
        (f3, rn),
        (rn, f2),
        (rn, f4),
        (f2, f5),
        (f4, f5),
        (f5, publishers[0]),
        (f5, publishers[1]),
        (managers[0], f1),
        (managers[1], f4),
    ] {
        world.link(a, b);
    }
    Demo { world, receiver, routers, publishers, managers, upper }
}

/// The demo domain after a cold start, with offers for both publishers.
fn offered_demo(paths: u8) -> Demo {
    let mut demo = demo();
    demo.world.run(1500);
    let request = demo.world.path_request(demo.receiver, &demo.publishers, paths);
    demo.world.ask(&request);
    demo.world.run(50);
    demo
}
/// Without a standby, and the request for two paths per publisher that is answered.
fn demo_of_one_manager() -> (Demo, PathRequest) {
    let mut demo = demo();
    demo.world.kill(demo.managers[1]);
    demo.world.run(1500);
    let request = demo.world.path_request(demo.receiver, &demo.publishers, 2);
    demo.world.ask(&request);
    demo.world.run(10);
    (demo, request)
}
impl Demo {
    /// The first manager is killed and restarts; then it gets the same request again.
    fn restart_manager(&mut self, request: &PathRequest) {
        self.world.kill(self.managers[0]);
        self.world.run(300);
        self.world.restart(self.managers[0]);
        self.world.run(3000);
        self.world.ask(request);
        self.world.run(100);
    }
}

#[test]
fn from_cold_start_to_offers_that_work() {
    let mut demo = demo();
    demo.world.run(1000);
    assert_eq!(demo.world.active(), [demo.managers[0]]);
    for host in 0..demo.world.hosts.len() {
        assert_eq!(demo.world.hosts[host].neighbour.managers().len(), 2, "host {host}");
        let routes = demo.world.hosts[host].neighbour.routes().expect("everybody has routes");
        assert_eq!((successions(routes.term), routes.resolvers.len()), (1, 1));
        // The standby keeps using them when it takes over.
        assert_eq!(routes.keys.is_empty(), matches!(demo.world.hosts[host].roles, Roles::RECEIVER));
    }
    let request = demo.world.path_request(demo.receiver, &demo.publishers, 2);
    demo.world.ask(&request);
    demo.world.run(10);
    let (version, offers) = demo.world.offered();
    assert_eq!((successions(version.term), version.sequence), (1, 1));
    assert_eq!(offers.iter().map(|offer| offer.paths.len()).collect::<Vec<_>>(), [2, 2]);
    let mut labels = demo.world.labels();
    labels.sort();
    assert_eq!(labels[0], "receiver>fn-1>fn-2>fn-5>pub-2");
    assert!(labels.contains(&"receiver>fn-1>fn-2>pub-1".into()), "{labels:?}");
    for path in offers.iter().flat_map(|offer| &offer.paths) {
        assert_eq!((path.mtu, path.capacity_kbps, path.residual_kbps), (1472, 10_000, 10_000));
        assert!(path.latency_us.abs_diff(u32::from(path.hops) * 1000) < 200);
    }
    // Both paths to pub-2 end with the link fn-5–pub-2: one group that no path to pub-1 has.
    let shared: BTreeSet<u16> = offers.iter().find(|offer| offer.source_label == "pub-2").unwrap().paths[0]
        .shared_links
        .iter()
        .map(|link| link.number)
        .collect();
    let all: Vec<u16> = offers
        .iter()
        .flat_map(|offer| &offer.paths)
        .flat_map(|path| &path.shared_links)
        .inspect(|link| assert_eq!(link.residual_kbps, 10_000))
        .map(|link| link.number)
        .collect();
    assert!(shared.iter().any(|number| all.iter().filter(|other| *other == number).count() == 2));
    demo.world.check_paths(demo.receiver);
}

#[test]
fn nothing_is_told_twice_while_nothing_changes() {
    let mut demo = offered_demo(3);
    demo.world.run(2000);
    let (offers, routes) = (demo.world.offers.len(), demo.world.routes.len());
    for _ in 0..10 {
        demo.world.run(2000);
        let request = demo.world.path_request(demo.receiver, &demo.publishers, 3);
        demo.world.ask(&request);
    }
    assert_eq!((demo.world.offers.len(), demo.world.routes.len()), (offers, routes));
}

#[test]
fn a_cut_link_and_a_dead_router_bring_new_offers_and_their_return_the_old_ones() {
    let mut demo = offered_demo(2);
    let (first, before) = demo.world.offered();
    let ids = |offers: &[Offer]| -> BTreeMap<String, u16> {
        offers.iter().flat_map(|offer| &offer.paths).map(|path| (path.label.clone(), path.id)).collect()
    };
    demo.world.wires[demo.upper[1]].up = false;
    demo.world.run(1500);
    let (cut, offers) = demo.world.offered();
    assert!(cut > first);
    assert!(demo.world.labels().iter().all(|label| !label.contains("fn-1>fn-2")), "{:?}", demo.world.labels());
    assert_eq!(offers.iter().map(|offer| offer.paths.len()).collect::<Vec<_>>(), [2, 2]);
    for (label, id) in ids(&offers) {
        assert!(ids(&before).get(&label).is_none_or(|known| *known == id), "{label} has another number");
    }
    demo.world.check_paths(demo.receiver);

    demo.world.wires[demo.upper[1]].up = true;
    demo.world.run(1500);
    assert_eq!(ids(&demo.world.offered().1), ids(&before));

    demo.world.kill(demo.routers[4]);
    demo.world.run(1500);
    let (_, offers) = demo.world.offered();
    let paths: BTreeMap<&str, usize> =
        offers.iter().map(|offer| (offer.source_label.as_str(), offer.paths.len())).collect();
    assert_eq!(paths, [("pub-1", 2), ("pub-2", 0)].into(), "pub-2 hangs on the dead router alone");
    demo.world.check_paths(demo.receiver);

    demo.world.restart(demo.routers[4]);
    demo.world.run(1500);
    assert_eq!(ids(&demo.world.offered().1), ids(&before));
    demo.world.check_paths(demo.receiver);
}

#[test]
fn the_standby_takes_over_with_the_same_paths_and_the_old_one_comes_back_as_standby() {
    let mut demo = offered_demo(2);
    let (_, before) = demo.world.offered();
    demo.world.kill(demo.managers[0]);
    let killed = demo.world.now;
    // Its last beacon was at most half a second old, and 1.5 s of silence are needed.
    demo.world.run(950);
    assert!(demo.world.active().is_empty());
    demo.world.run(1250);
    assert_eq!(demo.world.active(), [demo.managers[1]]);
    assert!(demo.world.notes.iter().any(|note| note == "topology manager tm-2 takes over, term 2"));
    let (version, after) = demo.world.offered();
    assert_eq!(successions(version.term), 2);
    let when = demo.world.offers.iter().find(|(_, _, offer)| successions(offer.version.term) == 2).unwrap().0;
    assert!(when.since(killed) < Duration::from_millis(2100), "{:?}", when.since(killed));
    let paths = |offers: &[Offer]| {
        offers
            .iter()
            .flat_map(|offer| offer.paths.clone())
            .map(|path| (path.id, path.label))
            .collect::<BTreeMap<_, _>>()
    };
    assert_eq!(paths(&before), paths(&after));
    demo.world.check_paths(demo.receiver);
    let capabilities = |offers: &[Offer]| {
        offers
            .iter()
            .flat_map(|offer| &offer.paths)
            .map(|path| (path.id, path.forward, path.capability))
            .collect::<Vec<_>>()
    };
    assert_eq!(capabilities(&before), capabilities(&after));

    demo.world.restart(demo.managers[0]);
    demo.world.run(5000);
    assert_eq!(demo.world.active(), [demo.managers[1]]);
    assert_eq!(demo.world.hosts[demo.managers[0]].manager.as_ref().unwrap().graph().node_count(), 11);
    // And it takes over in its turn.
    let request = demo.world.path_request(demo.receiver, &demo.publishers, 2);
    demo.world.ask(&request);
    demo.world.kill(demo.managers[1]);
    demo.world.run(2500);
    assert_eq!(demo.world.active(), [demo.managers[0]]);
    assert_eq!(successions(demo.world.offered().0.term), 3);
    demo.world.check_paths(demo.receiver);
}

#[test]
fn an_active_manager_that_was_cut_off_steps_down_when_it_meets_its_successor() {
    let mut demo = offered_demo(2);
    let link = demo.world.wires.iter().position(|wire| wire.ends.iter().any(|end| end.0 == demo.managers[0])).unwrap();
    demo.world.wires[link].up = false;
    demo.world.run(4000);
    assert_eq!(demo.world.active(), demo.managers);
    demo.world.wires[link].up = true;
    demo.world.run(1500);
    assert_eq!(demo.world.active(), [demo.managers[1]]);
    assert!(demo.world.notes.iter().any(|note| note.starts_with("topology manager tm-1 steps down")));
    demo.world.run(3000);
    assert_eq!(demo.world.active(), [demo.managers[1]]);
    assert_eq!(successions(demo.world.offered().0.term), 2);
    demo.world.check_paths(demo.receiver);
}

#[test]
fn a_lone_manager_that_restarts_goes_on_above_its_old_term() {
    let (mut demo, request) = demo_of_one_manager();
    let old = demo.world.offered().0;
    for _ in 0..3 {
        demo.restart_manager(&request);
    }
    let new = demo.world.offered().0;
    assert!(successions(new.term) > successions(old.term) + 1, "{new:?}");
    let accepted = demo.world.hosts[demo.receiver].neighbour.routes().unwrap().term;
    assert_eq!(accepted, new.term);
    demo.world.check_paths(demo.receiver);
}

#[test]
fn publishers_come_and_go_and_requests_end() {
    let mut demo = demo();
    demo.world.run(1500);
    let none = demo.world.path_request(demo.receiver, &[], 2);
    demo.world.ask(&none);
    demo.world.run(10);
    assert_eq!(demo.world.offered().1[0].count, 0);
    let one = demo.world.path_request(demo.receiver, &demo.publishers[..1], 2);
    demo.world.ask(&one);
    demo.world.run(10);
    assert_eq!(demo.world.offered().1.len(), 1);
    let both = PathRequest { lease_ms: 3000, ..demo.world.path_request(demo.receiver, &demo.publishers, 2) };
    demo.world.ask(&both);
    demo.world.run(10);
    assert_eq!(demo.world.offered().1.len(), 2);
    demo.world.run(3000);
    let manager = demo.world.hosts[demo.managers[0]].manager.as_ref().unwrap();
    assert_eq!(manager.transfer_count(), 0, "the lease is over");
    demo.world.ask(&both);
    demo.world.ask(&PathRequest { paths: 0, ..both });
    assert_eq!(demo.world.hosts[demo.managers[0]].manager.as_ref().unwrap().transfer_count(), 0);
}

#[test]
fn a_subscriber_that_is_cut_off_is_told_when_it_comes_back() {
    let mut demo = offered_demo(2);
    demo.world.kill(demo.receiver);
    demo.world.run(2000);
    demo.world.restart(demo.receiver);
    demo.world.offers.clear();
    demo.world.run(1000);
    assert!(!demo.world.offers.is_empty());
    demo.world.check_paths(demo.receiver);
}

#[test]
fn keys_rotate_and_offers_are_renewed_while_old_ones_stay_valid() {
    let mut demo = offered_demo(2);
    let (first, before) = demo.world.offered();
    demo.world.run(3_600_000);
    let (second, after) = demo.world.offered();
    assert_eq!([first, second].map(|version| successions(version.term)), [1, 1]);
    for (old, new) in before.iter().zip(&after).flat_map(|(a, b)| a.paths.iter().zip(&b.paths)) {
        assert_eq!((old.id, old.forward, old.reverse), (new.id, new.forward, new.reverse));
        assert_ne!(old.capability, new.capability);
        let keys = &demo.world.hosts[demo.routers[0]].neighbour.routes().unwrap().keys;
        let valid = |capability| keys.iter().any(|key| key.sign(&old.reverse, &old.forward) == capability);
        assert!(valid(old.capability) && valid(new.capability));
    }
}

#[test]
fn what_a_manager_handed_out_ends_with_the_second_run_after_it() {
    let (mut demo, request) = demo_of_one_manager();
    let mut handed_out = Vec::new();
    for _ in 0..3 {
        let path = demo.world.offered().1[0].paths[0].clone();
        handed_out.push((path.reverse, path.forward, path.capability));
        demo.restart_manager(&request);
        let keys = &demo.world.hosts[demo.routers[0]].neighbour.routes().unwrap().keys;
        let valid = handed_out
            .iter()
            .filter(|(reverse, forward, capability)| keys.iter().any(|key| key.sign(reverse, forward) == *capability));
        assert_eq!(valid.count(), 0, "of {} former runs", handed_out.len());
    }
    demo.world.check_paths(demo.receiver);
}

#[test]
fn a_link_that_is_said_to_carry_next_to_nothing_is_no_link() {
    let mut demo = offered_demo(2);
    let shown = |demo: &Demo| demo.world.offered().1.iter().flat_map(|offer| offer.paths.clone()).collect::<Vec<_>>();
    assert!(shown(&demo).iter().any(|path| path.label.contains("fn-1>fn-2")));
    for (sequence, mtu) in [(1_000, 0), (1_001, 60), (1_002, DATAGRAM_BYTES_MIN - 1)] {
        let (now, node) = (demo.world.now, demo.world.id(demo.routers[1]));
        let manager = demo.world.hosts[demo.managers[0]].manager.as_mut().unwrap();
        let mut state = manager.link_state(node).unwrap().clone();
        state.sequence = sequence;
        state.adjacencies.iter_mut().for_each(|link| link.mtu = mtu);
        manager.handle_link_state(now, state);
        assert_eq!(manager.refused.len(), 1);
        demo.world.run(100);
        let paths = shown(&demo);
        assert!(paths.iter().all(|path| path.mtu == 1472 && !path.label.contains("fn-2")), "{mtu}: {paths:#?}");
    }
    assert!(!demo.world.labels().is_empty());
}

#[test]
fn what_could_not_be_delivered_is_told_again() {
    let mut demo = offered_demo(2);
    let (version, _) = demo.world.offered();
    demo.world.offers.clear();
    let (now, receiver) = (demo.world.now, demo.world.id(demo.receiver));
    demo.world.hosts[demo.managers[0]].manager.as_mut().unwrap().handle_undelivered(now, receiver);
    demo.world.run(3000);
    assert!(demo.world.offered().0 > version);
}

#[test]
fn limits_refuse_count_and_tell_once() {
    let mut demo = demo();
    demo.world.run(1500);
    let manager = demo.managers[0];
    let limits = Limits { transfers_max: 2, nodes_max: 1, ..Limits::default() };
    let config = ManagerConfig { limits, ..ManagerConfig::new(&demo.world.hosts[manager].config, 1, 1) };
    let mut manager = TopologyManager::new(config);
    for transfer in 0..5 {
        let request = PathRequest { transfer, ..demo.world.path_request(demo.receiver, &demo.publishers, 2) };
        manager.handle_path_request(ms(0), NodeId(77), request);
    }
    assert_eq!(manager.transfer_count(), 2);
    let states = super::graph::tests::states(3, &[]);
    states.into_iter().for_each(|state| manager.handle_link_state(ms(0), state));
    assert_eq!(manager.refused.values().sum::<u64>(), 5);
    let notes: Vec<String> = core::iter::from_fn(|| manager.poll_event())
        .filter_map(|event| if let Event::Note(text) = event { Some(text) } else { None })
        .collect();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].contains("transfers in the domain of the topology manager (transfers_max = 2)"), "{notes:?}");
    assert!(notes[1].contains("nodes in the domain of the topology manager (nodes_max = 1)"), "{notes:?}");
    let refused: Vec<_> = core::iter::from_fn(|| manager.refused_nodes.pop_front()).collect();
    assert_eq!(refused.len(), 2);
    assert!(refused.iter().all(|(_, refused)| refused.rejection == Rejection::LimitReached(Limit::Nodes, 1)));
}

#[test]
fn a_better_standby_has_its_turn_also_after_a_manager_behind_a_slow_link() {
    let mut manager = TopologyManager::new(ManagerConfig::new(&Config::new("tm", 1), 1, 1));
    let beacon = |node: u64, priority: u8, state: ManagerState, sequence: u32| crate::wire::Beacon {
        node: NodeId(node),
        boot: node,
        sequence,
        term: 1 << 16,
        state,
        priority,
        capability_epoch: 0,
        label: String::new(),
        to_manager: Vec::new(),
        from_manager: Vec::new(),
    };
    // The intervals of the active one's beacons grow up to 5 s, and they end; the better standby is heard every 0.5 s,
    // and never takes over.
    let (heard, last) = ([0, 2, 6, 14, 30, 50, 70, 90, 110, 130], 130);
    let mut taken_over = None;
    for step in 0..400u64 {
        let now = ms(1_000 + step * 250);
        if heard.contains(&step) {
            manager.handle_beacon(now, &beacon(100, 9, ManagerState::Active, step as u32 + 1));
        }
        if step.is_multiple_of(2) {
            manager.handle_beacon(now, &beacon(200, 5, ManagerState::Standby, step as u32 + 1));
        }
        manager.handle_timeout(now);
        taken_over = taken_over.or(manager.is_active().then_some(step));
    }
    // Five of the active one's beacons are missed, and the standby has as much time as that.
    assert!(taken_over.is_some_and(|step| step >= last + 2 * 100), "{taken_over:?}");
}

#[test]
fn beacons_of_managers_that_rule_say_so() {
    let mut demo = demo();
    demo.world.run(2000);
    let states: Vec<ManagerState> =
        demo.world.hosts[demo.receiver].neighbour.managers().into_iter().map(|manager| manager.beacon.state).collect();
    assert_eq!(states.iter().filter(|state| **state == ManagerState::Active).count(), 1);
    assert_eq!(demo.world.hosts[demo.receiver].neighbour.active_manager().unwrap().beacon.label, "tm-1");
}

#[test]
fn leaves_that_come_and_go_cost_no_path_of_others_and_every_fid_stays_right() {
    let mut demo = offered_demo(3);
    let leaves: Vec<usize> = (0..20)
        .map(|number| {
            let leaf = demo.world.add(&format!("leaf-{number}"), Roles::RECEIVER, None);
            demo.world.link(leaf, demo.routers[number % 5]);
            leaf
        })
        .collect();
    demo.world.run(3_000);
    let computations = |demo: &Demo| {
        let manager = |host: &usize| demo.world.hosts[*host].manager.as_ref().unwrap().computations;
        demo.managers.iter().map(manager).sum::<u64>()
    };
    let before = computations(&demo);
    for round in 0..3 {
        for leaf in &leaves {
            demo.world.kill(*leaf);
            demo.world.run(300);
            demo.world.restart(*leaf);
            demo.world.run(700);
        }
        demo.world.run(2_000);
        for leaf in &leaves {
            assert!(demo.world.hosts[*leaf].neighbour.routes().is_some(), "round {round}");
        }
    }
    // An FID that matches a new port by chance is made again, for which its transfer is computed.
    let spent = computations(&demo) - before;
    assert!(spent <= 12, "{spent} computations for 60 restarts");
    demo.world.check_paths(demo.receiver);
    // A leaf that takes part in the transfer gets paths, and one that is a router changes other nodes' paths.
    let request = demo.world.path_request(demo.receiver, &[demo.publishers[0], leaves[0]], 1);
    demo.world.ask(&request);
    demo.world.run(100);
    demo.world.restart(leaves[0]);
    demo.world.run(3_000);
    assert_eq!(demo.world.offered().1.len(), 3);
    demo.world.check_paths(demo.receiver);
    let router = demo.world.add("fn-6", Roles::ROUTER, None);
    demo.world.link(router, demo.publishers[0]);
    let uplink = demo.world.link(router, demo.receiver);
    demo.world.run(3_000);
    assert!(demo.world.labels().contains(&"receiver>fn-6>pub-1".into()), "{:?}", demo.world.labels());
    demo.world.check_paths(demo.receiver);
    demo.world.wires[uplink].up = false;
    demo.world.run(3_000);
    assert!(!demo.world.labels().iter().any(|label| label.contains("fn-6")));
    demo.world.check_paths(demo.receiver);
}

#[test]
fn a_new_fetch_is_served_before_the_repair_of_others() {
    let mut demo = demo();
    demo.world.run(1_500);
    let mut request = demo.world.path_request(demo.receiver, &demo.publishers, 2);
    for transfer in 1..=40 {
        request.transfer = transfer;
        demo.world.ask(&request);
    }
    demo.world.run(100);
    let manager = demo.world.hosts[demo.managers[0]].manager.as_mut().unwrap();
    manager.config.transfers_per_turn = 1;
    // All of them must be computed again when another one joins.
    let now = demo.world.now;
    manager.reign_again(now);
    while manager.poll_message().is_some() {}
    request.transfer = 99;
    manager.handle_path_request(now, NodeId(77), request);
    let offered = core::iter::from_fn(|| manager.poll_message()).find_map(|(_, message)| match message {
        Message::Offer(offer) => Some(offer.transfer),
        _ => None,
    });
    assert_eq!(offered, Some(99));
}

#[test]
fn packets_of_a_domain_leave_room_for_the_fids_of_its_longest_paths() {
    for (links, room) in [(5, 16), (25, 32), (40, 64)] {
        let mut world = World::new();
        let manager = world.add("tm", Roles::NONE, Some(1));
        let mut line = Vec::from([world.add("near", Roles::SENDER, None)]);
        line.extend((1..links).map(|number| world.add(&format!("fn-{number}"), Roles::ROUTER, None)));
        line.push(world.add("far", Roles::RECEIVER, None));
        for pair in line.windows(2) {
            world.link(pair[0], pair[1]);
        }
        world.link(manager, line[1]);
        world.run(4_000);
        let request = world.path_request(line[links], &[line[0]], 1);
        world.ask(&request);
        world.run(200);
        let (_, offers) = world.offered();
        assert_eq!((offers[0].fid_room, offers[0].paths[0].hops), (room, links as u8));
        assert!(offers[0].paths[0].forward.bytes().len() <= usize::from(room));
    }
}

#[test]
fn a_host_is_served_whichever_end_of_its_link_is_heard_of_last() {
    let mut demo = demo();
    demo.world.run(1_500);
    let request = demo.world.path_request(demo.receiver, &demo.publishers, 1);
    let manager = demo.managers[0];
    let (leaf, router) = (demo.publishers[1], demo.routers[4]);
    for first in [leaf, router] {
        let now = demo.world.now;
        let ids = [demo.world.id(leaf), demo.world.id(router)];
        let manager = demo.world.hosts[manager].manager.as_mut().unwrap();
        let states = ids.map(|id| manager.link_state(id).unwrap().clone());
        let between = |state: &LinkState| {
            let mut state = state.clone();
            state.adjacencies.retain(|link| !ids.contains(&link.neighbour));
            state
        };
        let mut sequence = states.iter().map(|state| state.sequence).max().unwrap();
        let mut later = now;
        let mut tell = |manager: &mut TopologyManager, state: LinkState| {
            sequence += 1;
            later += Duration::from_millis(200);
            manager.handle_link_state(later, LinkState { sequence, ..state });
            manager.handle_timeout(later + Duration::from_millis(100));
            later
        };
        // Their link is removed at both ends, and returns, one end at a time.
        states.iter().for_each(|state| _ = tell(manager, between(state)));
        manager.handle_path_request(now, NodeId(77), PathRequest { version: request.version + 1, ..request.clone() });
        while manager.poll_message().is_some() {}
        let last = usize::from(first == leaf);
        tell(manager, states[1 - last].clone());
        while manager.poll_message().is_some() {}
        let at = tell(manager, states[last].clone());
        while manager.poll_timeout().is_some_and(|due| due <= at + Duration::from_millis(100)) {
            manager.handle_timeout(at + Duration::from_millis(100));
            if manager.poll_timeout() == Some(Time::ZERO) {
                continue;
            }
            break;
        }
        let messages: Vec<(NodeId, Message)> = core::iter::from_fn(|| manager.poll_message()).collect();
        let offered = messages.iter().any(|(_, message)| {
            matches!(message, Message::Offer(offer) if offer.source == ids[0] && !offer.paths.is_empty())
        });
        assert!(offered, "paths to the host, of whose link {first} spoke first: {messages:?}");
    }
}
