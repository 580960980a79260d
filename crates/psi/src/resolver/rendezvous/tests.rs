//! Whole domains in memory: rendezvous nodes and hosts, real control channels, a bad network, and an oracle that knows
//! the required entries.
use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};

extern crate std;

use proptest::prelude::*;
use tributary_content::Name;
use tributary_core::{Duration, NodeId, Time, event::ResolverEvent};
use tributary_transport::PathMetric;

use super::*;
use crate::{
    ids::ItemId,
    network_tests::{Faults, Network, route},
    pubsub::{PubSub, PubSubConfig},
    wire::{
        ChildState, ClientRequest, Holding, Limit, MissingScopes, Operation, PathRequest, Renewal, bucket_of, mark,
    },
};

/// A host is a node from 1000 on.
fn host(number: u64) -> NodeId {
    NodeId(1_000 + number)
}
fn name(text: &str) -> Name {
    text.parse().unwrap()
}
const CREATE: MissingScopes = MissingScopes::Create;
const REFUSE: MissingScopes = MissingScopes::Refuse;

/// An attacker that can send control messages in the name of a host, as is possible for any node without an authority.
#[test]
fn what_is_said_in_the_name_of_a_publisher_mutes_it_for_no_longer_than_until_its_next_renewal() {
    let mut world = World::new(5, Faults::NONE, 3, 2);
    world.run(Duration::from_secs(2));
    let now = world.now();
    for text in ["/a", "/b"] {
        world.client(1).publish(now, &name(text), vec![1], 10, CREATE);
    }
    world.run(Duration::from_secs(2));
    let publishers = |world: &World, text: &str| {
        let records = world.resolvers.values().filter_map(|resolver| resolver.records.get(&key_of(&name(text))));
        records.filter(|record| record.publishers().next().is_some()).count()
    };
    assert!(publishers(&world, "/a") > 0);
    for version in [u64::MAX >> 1, 1 << 62, 1 << 41, 1 << 39, 1 << 40] {
        let now = world.now();
        let request = ClientRequest { request: 1, version, name: name("/a"), operation: Operation::Unpublish };
        let message = Message::Request(request);
        let asked = world.resolvers.values_mut().next().expect("it runs");
        asked.handle_message(now, host(1), route(host(1)), message);
        world.run(Duration::from_secs(15));
        assert!(publishers(&world, "/a") > 0, "after {version:#x}");
        assert!(publishers(&world, "/b") > 0);
    }
    // Nor before it has published for the first time.
    let now = world.now();
    let request = ClientRequest {
        request: 2,
        version: u64::MAX >> 1,
        name: name("/c"),
        operation: Operation::Publish {
            label: "forged".into(),
            manifest: vec![2],
            object_bytes: 1,
            lease: Duration::from_secs(30),
            scopes: CREATE,
        },
    };
    let asked = world.resolvers.values_mut().next().expect("it runs");
    asked.handle_message(now, host(1), route(host(1)), Message::Request(request));
    world.run(Duration::from_secs(1));
    world.act(1, |client, now| client.publish(now, &name("/c"), vec![1], 10, CREATE));
    world.run(Duration::from_secs(3));
    assert!(publishers(&world, "/c") > 0);
}

pub(super) struct World {
    network: Network,
    config: RendezvousConfig,
    pub(super) resolvers: BTreeMap<NodeId, Rendezvous>,
    pub(super) hosts: BTreeMap<NodeId, PubSub>,
    /// The state of a topology manager: the last path request of each transfer.
    matches: BTreeMap<(NodeId, u32), PathRequest>,
    path_requests: usize,
    events: BTreeMap<NodeId, Vec<ResolverEvent>>,
    pub(super) notes: Vec<(NodeId, String)>,
    pub(super) replies: Vec<(NodeId, Reply)>,
    boot: u32,
}

impl World {
    pub(super) fn new(seed: u64, faults: Faults, resolvers: u64, hosts: u64) -> World {
        World::with(seed, faults, resolvers, hosts, RendezvousConfig::default())
    }
    pub(super) fn with(seed: u64, faults: Faults, resolvers: u64, hosts: u64, config: RendezvousConfig) -> World {
        let mut world = World {
            network: Network::new(seed, faults),
            config,
            resolvers: BTreeMap::new(),
            hosts: BTreeMap::new(),
            matches: BTreeMap::new(),
            path_requests: 0,
            events: BTreeMap::new(),
            notes: Vec::new(),
            replies: Vec::new(),
            boot: 1,
        };
        for number in 1..=hosts {
            world.start_host(host(number));
        }
        for number in 1..=resolvers {
            world.start_resolver(NodeId(number));
        }
        world.announce();
        world
    }
    pub(super) fn start_host(&mut self, node: NodeId) {
        self.boot += 1;
        self.network.add(node, self.boot);
        let config = PubSubConfig { node, label: format!("host-{}", node.0 - 1_000), ..PubSubConfig::default() };
        self.hosts.insert(node, PubSub::new(config, self.boot));
    }
    pub(super) fn start_resolver(&mut self, node: NodeId) {
        self.boot += 1;
        self.network.add(node, self.boot);
        self.resolvers.insert(node, Rendezvous::new(self.config.clone(), node, self.boot));
    }
    /// The topology manager sends all nodes the list of rendezvous nodes.
    pub(super) fn announce(&mut self) {
        let now = self.network.now;
        let nodes: Vec<NodeId> = self.resolvers.keys().copied().collect();
        for resolver in self.resolvers.values_mut() {
            resolver.handle_members(now, &nodes);
        }
        for (host, client) in &mut self.hosts {
            // Each has another nearest one.
            let mut routes: Vec<_> = nodes.iter().map(|node| (*node, 1)).collect();
            if !routes.is_empty() {
                let nearest = host.0 as usize % routes.len();
                routes.rotate_left(nearest);
            }
            client.handle_resolvers(now, &routes);
        }
    }
    /// The same, node by node, with pauses of up to `pause` in between: for some time no two nodes agree.
    fn announce_slowly(&mut self, pause: Duration) {
        let nodes: Vec<NodeId> = self.resolvers.keys().copied().collect();
        let mut order = nodes.clone();
        for i in (1..order.len()).rev() {
            order.swap(i, self.network.random.below(i as u64 + 1) as usize);
        }
        for node in order {
            let now = self.network.now;
            self.resolvers.get_mut(&node).expect("it runs").handle_members(now, &nodes);
            let pause = self.network.random.below(pause.as_nanos() as u64);
            self.run(Duration::from_nanos(pause));
        }
        self.announce();
    }
    pub(super) fn kill(&mut self, node: NodeId) {
        self.network.channels.remove(&node);
        self.resolvers.remove(&node);
        self.hosts.remove(&node);
    }
    pub(super) fn client(&mut self, number: u64) -> &mut PubSub {
        self.hosts.get_mut(&host(number)).expect("the host runs")
    }
    pub(super) fn act(&mut self, number: u64, act: impl FnOnce(&mut PubSub, Time)) {
        let now = self.now();
        act(self.client(number), now);
    }
    pub(super) fn now(&self) -> Time {
        self.network.now
    }
    fn exchange(&mut self) {
        let now = self.network.now;
        loop {
            let mut busy = false;
            for (node, channel) in &mut self.network.channels {
                while let Some(delivery) = channel.poll_delivery() {
                    busy = true;
                    if let Some(resolver) = self.resolvers.get_mut(node) {
                        resolver.handle_message(now, delivery.from, delivery.reply, delivery.message);
                    } else if let Some(client) = self.hosts.get_mut(node) {
                        if let Message::Reply(reply) = delivery.message {
                            self.replies.push((*node, reply));
                        }
                        client.handle_message(now, delivery.from, delivery.message);
                    }
                }
                while let Some(outcome) = channel.poll_outcome() {
                    busy = true;
                    if let Some(resolver) = self.resolvers.get_mut(node) {
                        resolver.handle_outcome(now, outcome.to, outcome.result);
                    } else if let Some(client) = self.hosts.get_mut(node) {
                        client.handle_outcome(now, outcome.to, outcome.result);
                    }
                }
            }
            for (node, resolver) in &mut self.resolvers {
                let channel = self.network.channels.get_mut(node).expect("each node has a channel");
                while let Some(event) = resolver.poll_event() {
                    let Event::Note(text) = event else { continue };
                    self.notes.push((*node, text));
                }
                while let Some((target, message)) = resolver.poll_message() {
                    busy = true;
                    match target {
                        Target::Node(to) => {
                            channel.send(now, to, route(to), route(*node), &message);
                        }
                        Target::Reply(to, back) => {
                            channel.send(now, to, back, route(*node), &message);
                        }
                        Target::TopologyManagers => {
                            let Message::PathRequest(request) = message else { panic!("only matches go there") };
                            self.path_requests += 1;
                            self.matches.insert((request.subscriber, request.transfer), request);
                        }
                    }
                }
            }
            for (node, client) in &mut self.hosts {
                let channel = self.network.channels.get_mut(node).expect("each node has a channel");
                while let Some(event) = client.poll_event() {
                    self.events.entry(*node).or_default().push(event);
                }
                while let Some((to, message)) = client.poll_message() {
                    busy = true;
                    channel.send(now, to, route(to), route(*node), &message);
                }
            }
            if !busy {
                break;
            }
        }
        self.network.drain();
    }
    /// Lets `time` pass.
    pub(super) fn run(&mut self, time: Duration) {
        let end = self.network.now + time;
        let mut steps = 0;
        loop {
            self.exchange();
            steps += 1;
            assert!(steps < 500_000, "something spins at {}", self.network.now);
            let timers = self.resolvers.values().filter_map(Rendezvous::poll_timeout);
            let timers = timers.chain(self.hosts.values().filter_map(PubSub::poll_timeout));
            let next = timers.chain(self.network.next()).min();
            let next = match next {
                Some(next) if next <= end => next.max(self.network.now),
                _ => break self.network.step(end),
            };
            self.network.step(next);
            for resolver in self.resolvers.values_mut() {
                resolver.handle_timeout(next);
            }
            for client in self.hosts.values_mut() {
                client.handle_timeout(next);
            }
        }
    }
    fn seconds(&mut self, seconds: u64) {
        self.run(Duration::from_secs(seconds));
    }
    fn publish(&mut self, number: u64, text: &str) {
        self.act(number, |client, now| client.publish(now, &name(text), manifest(number, text), 1_000, CREATE));
    }
    /// Publishes what others publish under this name too.
    fn publish_copy(&mut self, number: u64, text: &str) {
        self.act(number, |client, now| client.publish(now, &name(text), manifest(0, text), 1_000, CREATE));
    }
    pub(super) fn subscribe(&mut self, number: u64, text: &str, transfer: u32) {
        self.act(number, |client, now| client.subscribe(now, &name(text), transfer, 4, PathMetric::Hops));
    }
    /// The publishers of a transfer that the topology manager knows; `None` if it knows none or the transfer was
    /// withdrawn.
    pub(super) fn sources(&self, number: u64, transfer: u32) -> Option<Vec<u64>> {
        let request = self.matches.get(&(host(number), transfer)).filter(|request| request.paths > 0)?;
        Some(request.publishers.iter().map(|publisher| publisher.node.0 - 1_000).collect())
    }
    fn events_of(&mut self, number: u64) -> Vec<ResolverEvent> {
        self.events.remove(&host(number)).unwrap_or_default()
    }
    pub(super) fn rejections(&mut self, number: u64) -> Vec<(String, String)> {
        let rejected = |event| match event {
            ResolverEvent::Rejected { operation, reason, .. } => Some((operation.to_string(), reason)),
            _ => None,
        };
        self.events_of(number).into_iter().filter_map(rejected).collect()
    }
    /// The live entries of `text` on each node that holds its record, as publisher, subscriber and child counts.
    fn holders(&self, text: &str) -> BTreeMap<NodeId, (usize, usize, usize)> {
        let key = ItemId::new(&name(text)).key();
        let counts =
            |record: &Record| (record.publishers().count(), record.subscriptions().count(), record.children().count());
        self.resolvers.iter().filter_map(|(node, r)| Some((*node, counts(r.records.get(&key)?)))).collect()
    }
    /// The nodes that are responsible for `text`, first first.
    fn responsible(&self, text: &str) -> Vec<NodeId> {
        let nodes = self.resolvers.keys().copied();
        members::responsible(nodes, ItemId::new(&name(text)).key(), self.config.replicas)
    }
}

#[test]
fn hosts_with_far_more_items_than_resolvers_take_requests_publish_them_all_and_subscriptions_do_not_wait() {
    const HOSTS: u64 = 20;
    const ITEMS: usize = 60;
    // The subscription is answered although its item may not be published yet.
    let limits = Limits { requests_max: 32, ..Limits::default() };
    let config = RendezvousConfig { limits, silence: Duration::ZERO, ..RendezvousConfig::default() };
    let mut world = World::with(12, Faults::NONE, 3, HOSTS, config);
    world.seconds(1);
    for host in 1..=HOSTS {
        for item in 0..ITEMS {
            world.publish(host, &format!("/{host}/{item}"));
        }
    }
    world.run(Duration::from_millis(300));
    world.subscribe(1, "/2/0", 1);
    world.run(Duration::from_millis(300));
    assert!(world.sources(1, 1).is_some(), "a subscription waits for publications");
    world.seconds(20);
    for host in 1..=HOSTS {
        let events = world.events_of(host);
        let published = events.iter().filter(|event| matches!(event, ResolverEvent::Published { .. })).count();
        let rejected: Vec<_> = events.iter().filter(|it| matches!(it, ResolverEvent::Rejected { .. })).collect();
        assert_eq!((published, rejected), (ITEMS, vec![]), "host {host}");
    }
    let held: usize = world.resolvers.values().map(|resolver| resolver.status().publications).sum();
    assert_eq!(held, 3 * ITEMS * HOSTS as usize);
    let refused: u64 = world.resolvers.values().flat_map(|resolver| resolver.refused.values()).sum();
    assert!(refused > 0 && refused < 4 * HOSTS * ITEMS as u64, "{refused} refusals");
}

fn manifest(number: u64, text: &str) -> Vec<u8> {
    format!("{text} by {number}").into_bytes()
}

#[test]
fn a_subscription_meets_publications_before_and_after_it() {
    let mut world = World::new(1, Faults::NONE, 5, 4);
    world.seconds(1);
    world.publish(1, "/lab/a");
    world.seconds(1);
    world.subscribe(4, "/lab/a", 7);
    world.seconds(1);
    assert_eq!(world.sources(4, 7), Some(vec![1]));
    world.publish(2, "/lab/a");
    world.publish(3, "/lab/a");
    world.seconds(1);
    assert_eq!(world.sources(4, 7), Some(vec![1, 2, 3]));
    let request = &world.matches[&(host(4), 7)];
    assert_eq!(request.item, ItemId::new(&name("/lab/a")));
    assert_eq!((request.paths, request.metric), (4, PathMetric::Hops));
    assert_eq!(request.publishers[1].label, "host-2");
    assert_eq!(request.publishers[1].manifest, manifest(2, "/lab/a"));
    assert!((25_000..=30_000).contains(&request.lease_ms), "{}", request.lease_ms);
    assert_eq!(world.events_of(4), [ResolverEvent::Subscribed { name: "/lab/a".into() }]);
    assert_eq!(world.events_of(1), [ResolverEvent::Published { name: "/lab/a".into() }]);
}

#[test]
fn a_subscription_without_any_publisher_stands_and_says_so() {
    let mut world = World::new(1, Faults::NONE, 3, 2);
    world.subscribe(1, "/nobody/has/this", 1);
    world.seconds(1);
    assert_eq!(world.sources(1, 1), None, "hosts may be publishing again what a node that has just started lacks");
    world.seconds(2);
    assert_eq!(world.events_of(1), [ResolverEvent::Subscribed { name: "/nobody/has/this".into() }]);
    assert_eq!(world.sources(1, 1), Some(vec![]));
    world.publish(2, "/nobody/has/this");
    world.seconds(1);
    assert_eq!(world.sources(1, 1), Some(vec![2]));
}

#[test]
fn unpublishing_and_unsubscribing_reach_the_topology_manager() {
    let mut world = World::new(2, Faults::NONE, 4, 3);
    world.publish(1, "/lab/a");
    world.publish(2, "/lab/a");
    world.subscribe(3, "/lab/a", 1);
    world.seconds(2);
    assert_eq!(world.sources(3, 1), Some(vec![1, 2]));
    world.act(1, |client, now| client.unpublish(now, &name("/lab/a")));
    world.seconds(1);
    assert_eq!(world.sources(3, 1), Some(vec![2]));
    world.act(2, |client, now| client.unpublish(now, &name("/lab/a")));
    world.seconds(1);
    assert_eq!(world.sources(3, 1), Some(vec![]));
    world.act(3, |client, now| client.unsubscribe(now, &name("/lab/a"), 1));
    world.seconds(1);
    assert_eq!(world.sources(3, 1), None);
    assert_eq!(world.matches[&(host(3), 1)].paths, 0, "the request is withdrawn");
    assert!(world.events_of(1).contains(&ResolverEvent::Unpublished { name: "/lab/a".into() }));
    assert!(world.events_of(3).contains(&ResolverEvent::Unsubscribed { name: "/lab/a".into() }));
    assert_eq!(world.holders("/lab").values().map(|(_, _, children)| children).sum::<usize>(), 0);
}

#[test]
fn a_publisher_that_dies_goes_with_its_lease_and_one_that_lives_stays() {
    let mut world = World::new(3, Faults::NONE, 4, 3);
    world.publish(1, "/lab/a");
    world.publish(2, "/lab/a");
    world.subscribe(3, "/lab/a", 1);
    world.seconds(2);
    world.kill(host(1));
    world.seconds(15);
    assert_eq!(world.sources(3, 1), Some(vec![1, 2]), "the lease still holds");
    world.seconds(20);
    assert_eq!(world.sources(3, 1), Some(vec![2]));
    world.seconds(300);
    assert_eq!(world.sources(3, 1), Some(vec![2]));
    assert_eq!(world.holders("/lab/a").len(), 3);
}

#[test]
fn a_restarted_publisher_replaces_its_former_self_even_with_a_smaller_boot_number() {
    let mut world = World::new(4, Faults::NONE, 3, 2);
    world.boot = 1_000;
    world.start_host(host(1));
    world.announce();
    world.publish(1, "/lab/a");
    world.subscribe(2, "/lab/a", 1);
    world.seconds(2);
    world.events_of(1);
    world.boot = 10;
    world.start_host(host(1));
    world.announce();
    world.act(1, |client, now| client.publish(now, &name("/lab/a"), b"another manifest".to_vec(), 5, CREATE));
    world.seconds(2);
    assert_eq!(world.events_of(1), [ResolverEvent::Published { name: "/lab/a".into() }]);
    assert_eq!(world.matches[&(host(2), 1)].publishers[0].manifest, b"another manifest");
}

#[test]
fn a_late_duplicate_of_a_publication_does_not_revive_it() {
    let mut world = World::new(5, Faults::NONE, 3, 1);
    let request =
        |request, version, operation| Message::Request(ClientRequest { request, version, name: name("/a"), operation });
    let publish = Operation::Publish {
        label: "late".into(),
        manifest: vec![1],
        object_bytes: 1,
        lease: Duration::from_secs(30),
        scopes: CREATE,
    };
    world.seconds(1);
    for (number, version, operation) in [(1, 5, publish.clone()), (2, 6, Operation::Unpublish), (3, 5, publish)] {
        let now = world.now();
        let message = request(number | Reply::HOST_BIT, version, operation);
        let channel = world.network.channels.get_mut(&host(1)).unwrap();
        channel.send(now, NodeId(1), route(NodeId(1)), route(host(1)), &message);
        world.seconds(1);
    }
    let answers: Vec<Answer> = world.replies.iter().map(|(_, reply)| reply.answer).collect();
    assert_eq!(answers, [Answer::Done { replicas: 3 }, Answer::Done { replicas: 3 }, Answer::Stale { current: 6 }]);
    assert!(world.holders("/a").values().all(|(publishers, _, _)| *publishers == 0));
}

#[test]
fn a_host_numbers_beyond_what_a_topology_manager_knows_of_an_earlier_run() {
    let mut world = World::new(4, Faults::NONE, 3, 2);
    world.publish(1, "/lab/a");
    world.subscribe(2, "/lab/a", 1);
    world.seconds(2);
    let known = 1 << 60;
    let item = ItemId::new(&name("/lab/a"));
    let keys = [MatchKey::Publisher(host(1)), MatchKey::Subscription(host(2), 1), MatchKey::Publisher(NodeId(77))];
    let overtaken = Overtaken { item, entries: keys.map(|key| (key, known)).into() };
    let now = world.now();
    let first = world.responsible("/lab/a")[0];
    let resolver = world.resolvers.get_mut(&first).unwrap();
    resolver.handle_message(now, NodeId(900), Fid::NONE, Message::Overtaken(overtaken));
    assert!(world.matches[&(host(2), 1)].version < known);
    world.seconds(11);
    let request = &world.matches[&(host(2), 1)];
    assert!(request.version > known && request.publishers.len() == 1, "{request:?}");
    world.seconds(10);
    assert!(world.matches[&(host(2), 1)].publishers[0].version > known);
}

#[test]
fn a_scope_tells_what_is_in_it_then_that_it_is_listed_then_what_changes() {
    let mut world = World::new(6, Faults::NONE, 5, 3);
    world.publish(1, "/lab/images/a");
    world.publish(1, "/lab/b");
    world.seconds(2);
    world.act(3, |client, now| client.subscribe_scope(now, &name("/lab")));
    world.seconds(1);
    let events = world.events_of(3);
    let scope = ResolverEvent::Appeared { name: "/lab/images".into(), is_scope: true, publishers: 0, bytes: 0 };
    let item = ResolverEvent::Appeared { name: "/lab/b".into(), is_scope: false, publishers: 1, bytes: 1_000 };
    assert!(events.contains(&scope) && events.contains(&item), "{events:?}");
    assert!(events.contains(&ResolverEvent::Subscribed { name: "/lab".into() }));
    assert_eq!(events.iter().filter(|e| matches!(e, ResolverEvent::Listed { entries: 2, .. })).count(), 1);
    world.publish(2, "/lab/b");
    world.publish(2, "/lab/c");
    world.seconds(1);
    let events = world.events_of(3);
    assert!(events.contains(&ResolverEvent::Appeared {
        name: "/lab/b".into(),
        is_scope: false,
        publishers: 2,
        bytes: 1_000
    }));
    assert_eq!(events.len(), 2, "{events:?}");
    world.act(1, |client, now| client.unpublish(now, &name("/lab/images/a")));
    world.act(2, |client, now| client.unpublish(now, &name("/lab/c")));
    world.seconds(1);
    let events: BTreeSet<String> = world.events_of(3).iter().map(|event| format!("{event:?}")).collect();
    assert_eq!(
        events,
        ["/lab/c", "/lab/images"].map(|n| format!("{:?}", ResolverEvent::Disappeared { name: n.into() })).into()
    );
    world.act(3, |client, now| client.unsubscribe_scope(now, &name("/lab")));
    world.publish(1, "/lab/d");
    world.seconds(2);
    assert_eq!(world.events_of(3), [ResolverEvent::Unsubscribed { name: "/lab".into() }]);
}

#[test]
fn an_item_claims_no_name_below_it_and_a_name_below_claims_no_item() {
    for order in [["/lab", "/lab/tools/one"], ["/lab/tools/one", "/lab"]] {
        let mut world = World::new(8, Faults::NONE, 5, 4);
        for (publisher, name) in (1..).zip(order) {
            world.publish(publisher, name);
            world.seconds(1);
            assert!(world.rejections(publisher).is_empty(), "{order:?}");
            world.subscribe(3, name, publisher as u32);
        }
        world.act(4, |client, now| client.subscribe_scope(now, &name("/lab")));
        world.seconds(1);
        assert!(world.matches.values().filter(|request| request.publishers.len() == 1).count() == 2, "{order:?}");
        assert!(world.events_of(4).contains(&ResolverEvent::Listed { name: "/lab".into(), entries: 1 }), "{order:?}");
        let above = if order[0] == "/lab" { 1 } else { 2 };
        world.act(above, |client, now| client.unpublish(now, &name("/lab")));
        world.seconds(2);
        assert_eq!(world.events_of(4), [], "the names below stay");
    }
}

#[test]
fn the_root_lists_the_outermost_names_even_if_there_are_none() {
    let mut world = World::new(7, Faults::NONE, 3, 2);
    world.act(2, |client, now| client.subscribe_scope(now, &Name::root()));
    world.seconds(2);
    assert!(world.events_of(2).contains(&ResolverEvent::Listed { name: "/".into(), entries: 0 }));
    world.publish(1, "/top");
    world.seconds(1);
    let top = ResolverEvent::Appeared { name: "/top".into(), is_scope: false, publishers: 1, bytes: 1_000 };
    assert_eq!(world.events_of(2), [top]);
}

#[test]
fn explicit_scopes_follow_the_rules_of_psi() {
    let mut world = World::new(8, Faults::NONE, 4, 2);
    world.seconds(1);
    let step = |world: &mut World, number: u64, act: &dyn Fn(&mut PubSub, Time)| {
        world.act(number, act);
        world.seconds(1);
        world.events_of(number)
    };
    let rejected = |name: &str, operation: &'static str, rejection: Rejection| {
        vec![ResolverEvent::Rejected { name: name.into(), operation, reason: rejection.to_string() }]
    };
    let published = |name: &str| vec![ResolverEvent::Published { name: name.into() }];
    let unpublished = |name: &str| vec![ResolverEvent::Unpublished { name: name.into() }];

    let put = |c: &mut PubSub, t| c.publish(t, &name("/s/i"), vec![1], 1, REFUSE);
    assert_eq!(step(&mut world, 1, &put), rejected("/s/i", "publish", Rejection::NoSuchScope));
    let sub = |c: &mut PubSub, t| c.publish_scope(t, &name("/s/t"), REFUSE);
    assert_eq!(step(&mut world, 1, &sub), rejected("/s/t", "publish scope", Rejection::NoSuchScope));
    assert_eq!(step(&mut world, 1, &|c, t| c.publish_scope(t, &name("/s"), REFUSE)), published("/s"));
    assert_eq!(step(&mut world, 1, &put), published("/s/i"));
    assert_eq!(step(&mut world, 1, &sub), published("/s/t"));
    let again = |c: &mut PubSub, t| c.publish_scope(t, &name("/s"), REFUSE);
    assert_eq!(step(&mut world, 2, &again), rejected("/s", "publish scope", Rejection::AlreadyPublished));
    assert_eq!(step(&mut world, 1, &again), rejected("/s", "publish scope", Rejection::AlreadyPublished));
    let gone = |c: &mut PubSub, t| c.unpublish_scope(t, &name("/s"));
    assert_eq!(step(&mut world, 2, &gone), rejected("/s", "unpublish scope", Rejection::NotAuthorised));
    assert_eq!(step(&mut world, 1, &|c, t| c.unpublish(t, &name("/s/i"))), unpublished("/s/i"));
    assert_eq!(step(&mut world, 1, &|c, t| c.unpublish_scope(t, &name("/s/t"))), unpublished("/s/t"));
    assert_eq!(step(&mut world, 1, &gone), unpublished("/s"), "empty at once after the last answer");
    assert_eq!(step(&mut world, 1, &gone), rejected("/s", "unpublish scope", Rejection::NoSuchScope));
    let list = |c: &mut PubSub, t| c.subscribe_scope(t, &name("/s"));
    assert_eq!(step(&mut world, 2, &list), rejected("/s", "subscribe scope", Rejection::NoSuchScope));
}

#[test]
fn a_scope_with_something_in_it_is_not_removed() {
    let mut world = World::new(9, Faults::NONE, 4, 2);
    world.act(1, |client, now| client.publish_scope(now, &name("/s"), REFUSE));
    world.seconds(1);
    world.publish(2, "/s/i");
    world.seconds(1);
    world.events_of(1);
    world.act(1, |client, now| client.unpublish_scope(now, &name("/s")));
    world.seconds(1);
    assert_eq!(world.rejections(1), [("unpublish scope".into(), Rejection::ScopeNotEmpty.to_string())]);
    // The scope still exists, but its lease is no longer renewed: it lives as long as it has entries.
    world.seconds(60);
    world.act(1, |client, now| client.subscribe_scope(now, &name("/s")));
    world.seconds(1);
    assert!(world.events_of(1).contains(&ResolverEvent::Listed { name: "/s".into(), entries: 1 }));
}

#[test]
fn a_scope_keeps_an_item_whose_publishers_take_turns() {
    for seed in 0..60 {
        let mut world = World::new(seed, Faults::lossy(0.02), 5, 3);
        world.seconds(1);
        world.publish(1, "/s/i");
        world.seconds(2);
        world.act(1, |client, now| client.unpublish(now, &name("/s/i")));
        let pause = world.network.random.below(60);
        world.run(Duration::from_millis(pause));
        world.publish(2, "/s/i");
        let pause = world.network.random.below(10);
        world.run(Duration::from_millis(pause));
        world.publish(3, "/s/i");
        world.seconds(3);
        assert_eq!([2, 3].map(|number| world.rejections(number)), [[], []], "seed {seed}");
        let first = world.responsible("/s")[0];
        assert_eq!(world.holders("/s").get(&first), Some(&(0, 0, 1)), "seed {seed}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn every_rejection_reaches_the_application() {
    let tight = RendezvousConfig {
        limits: Limits {
            publishers_max: 1,
            subscriptions_max: 1,
            children_max: 3,
            scope_subscribers_max: 1,
            records_max: 7,
            ..Limits::default()
        },
        manifest_bytes_max: 100,
        ..RendezvousConfig::default()
    };
    let mut world = World::with(10, Faults::NONE, 1, 4, tight);
    world.publish(1, "/s/i");
    world.subscribe(1, "/s/i", 1);
    world.seconds(1);
    world.act(1, |client, now| client.subscribe_scope(now, &name("/s")));
    world.seconds(1);
    assert!(world.rejections(1).is_empty());
    let mut seen = BTreeSet::new();
    let mut expect = |world: &mut World, number: u64, rejection: Rejection, act: &dyn Fn(&mut PubSub, Time)| {
        world.act(number, act);
        world.seconds(10);
        let rejections = world.rejections(number);
        assert_eq!(rejections.len(), 1, "{rejection:?}");
        assert!(rejections[0].1.starts_with(&rejection.to_string()), "{rejections:?} instead of {rejection}");
        seen.insert(rejection.code());
    };
    let put = |text: &'static str, scopes| move |c: &mut PubSub, t: Time| c.publish(t, &name(text), vec![1], 1, scopes);
    expect(&mut world, 2, Rejection::NoSuchScope, &put("/none/i", REFUSE));
    expect(&mut world, 2, Rejection::NotPublished, &|c, t| c.unpublish(t, &name("/s/i")));
    expect(&mut world, 2, Rejection::NotPublished, &|c, t| c.unpublish_scope(t, &name("/s")));
    expect(&mut world, 2, Rejection::NotSubscribed, &|c, t| c.unsubscribe(t, &name("/s/i"), 1));
    expect(&mut world, 2, Rejection::NotSubscribed, &|c, t| c.unsubscribe_scope(t, &name("/s")));
    expect(&mut world, 2, Rejection::IsScope, &|c, t| c.subscribe(t, &name("/s"), 1, 1, PathMetric::Hops));
    expect(&mut world, 2, Rejection::IsItem, &|c, t| c.subscribe_scope(t, &name("/s/i")));
    expect(&mut world, 2, Rejection::Malformed, &put("/", CREATE));
    expect(&mut world, 2, Rejection::LimitReached(Limit::Publishers, 1), &put("/s/i", CREATE));
    expect(&mut world, 2, Rejection::LimitReached(Limit::Subscriptions, 1), &|c, t| {
        c.subscribe(t, &name("/s/i"), 1, 1, PathMetric::Hops);
    });
    expect(&mut world, 2, Rejection::LimitReached(Limit::ScopeSubscribers, 1), &|c, t| {
        c.subscribe_scope(t, &name("/s"))
    });
    expect(&mut world, 2, Rejection::LimitReached(Limit::ManifestBytes, 100), &|c, t| {
        c.publish(t, &name("/s/big"), vec![0; 101], 1, CREATE);
    });
    expect(&mut world, 2, Rejection::LimitReached(Limit::ManifestBytes, 1_400), &|c, t| {
        c.publish(t, &name("/s/big"), vec![0; 1_401], 1, CREATE);
    });
    world.publish(1, "/s/j");
    world.publish(1, "/s/k");
    world.seconds(1);
    expect(&mut world, 2, Rejection::LimitReached(Limit::Children, 3), &put("/s/l", CREATE));
    world.act(3, |client, now| client.publish_scope(now, &name("/own"), CREATE));
    world.seconds(1);
    world.events_of(3);
    world.act(2, |client, now| client.publish_scope(now, &name("/s"), CREATE));
    expect(&mut world, 2, Rejection::ScopeNotEmpty, &|c, t| c.unpublish_scope(t, &name("/s")));
    expect(&mut world, 2, Rejection::AlreadyPublished, &|c, t| c.publish_scope(t, &name("/own"), CREATE));
    expect(&mut world, 2, Rejection::NotAuthorised, &|c, t| c.unpublish_scope(t, &name("/own")));
    expect(&mut world, 2, Rejection::LimitReached(Limit::Records, 7), &|c, t| {
        for transfer in 0..1 {
            c.subscribe(t, &name("/too/many/records"), transfer, 1, PathMetric::Hops);
        }
        c.subscribe(t, &name("/too/many/records/again"), 1, 1, PathMetric::Hops);
    });
    // Two names with one id cannot be found in a test's time: the record's name is replaced instead.
    let key = ItemId::new(&name("/taken")).key();
    let resolver = world.resolvers.get_mut(&NodeId(1)).unwrap();
    resolver.config.limits.records_max = 100;
    resolver.records.insert(key, Record::new(name("/other")));
    resolver.records.get_mut(&key).unwrap().merge(
        Time::ZERO,
        crate::wire::Entry {
            key: EntryKey::Publisher(host(1)),
            version: 1,
            lease: Duration::from_secs(10_000),
            value: None,
        },
        Duration::from_secs(10_000),
    );
    expect(&mut world, 2, Rejection::IdTaken, &put("/taken", CREATE));
    world
        .hosts
        .insert(host(3), PubSub::new(PubSubConfig { node: host(3), wishes_max: 0, ..PubSubConfig::default() }, 77));
    expect(&mut world, 3, Rejection::LimitReached(Limit::Wishes, 0), &|c, t| {
        c.subscribe(t, &name("/s/z"), 1, 1, PathMetric::Hops);
    });
    let resolver = world.resolvers.get_mut(&NodeId(1)).unwrap();
    resolver.joined = false;
    expect(&mut world, 4, Rejection::Overloaded, &put("/late", CREATE));
    let resolver = world.resolvers.get_mut(&NodeId(1)).unwrap();
    resolver.joined = true;
    resolver.config.limits.requests_max = 0;
    world.start_host(host(4));
    world.announce();
    expect(&mut world, 4, Rejection::LimitReached(Limit::Requests, 0), &put("/one/more", CREATE));
    let resolver = world.resolvers.get_mut(&NodeId(1)).unwrap();
    (resolver.config.limits.requests_max, resolver.config.limits.clients_max) = (100, 2);
    world.start_host(host(9));
    world.announce();
    expect(&mut world, 9, Rejection::LimitReached(Limit::Clients, 2), &put("/one/host/more", CREATE));
    world.start_host(host(4));
    world.announce();
    world.kill(NodeId(1));
    expect(&mut world, 4, Rejection::NoResolverReachable, &put("/alone", CREATE));
    // What topology managers refuse, and nodes with an outside store, is in their tests.
    let of_others = [Limit::Transfers, Limit::Nodes, Limit::Links].map(|limit| Rejection::LimitReached(limit, 0));
    let of_others = [&of_others[..], &[Rejection::StoreUnavailable, Rejection::StoreFull]].concat();
    let all = Rejection::all().filter(|rejection| !of_others.contains(rejection));
    assert_eq!(seen, all.map(Rejection::code).collect(), "a rejection without a test");
}

#[test]
fn what_is_for_rendezvous_nodes_is_refused_to_others() {
    let mut world = World::new(11, Faults::NONE, 2, 1);
    world.seconds(1);
    let set_child = ClientRequest {
        request: 1 | Reply::HOST_BIT,
        version: 1,
        name: Name::root(),
        operation: Operation::SetChild {
            component: name("/forged").as_tlv().to_vec(),
            child: ChildState::Scope,
            lease: Duration::from_secs(30),
            scopes: CREATE,
        },
    };
    let replicate = crate::wire::Replicate { request: 3 | Reply::HOST_BIT, records: vec![] };
    let forward = crate::wire::Forward { request: 4 | Reply::HOST_BIT, client: host(1), inner: set_child.clone() };
    for message in [
        Message::Request(set_child),
        Message::Sync { request: 2 | Reply::HOST_BIT },
        Message::Replicate(replicate),
        Message::Forward(forward),
    ] {
        let now = world.now();
        let channel = world.network.channels.get_mut(&host(1)).unwrap();
        channel.send(now, NodeId(1), route(NodeId(1)), route(host(1)), &message);
    }
    world.seconds(1);
    let answers: Vec<_> = world.replies.iter().map(|(_, reply)| reply.answer).collect();
    assert_eq!(answers, [Answer::Rejected(Rejection::NotAuthorised); 4]);
    assert_eq!(world.resolvers[&NodeId(1)].dropped, 3);
}

#[test]
fn before_an_answer_all_responsible_nodes_hold_the_result() {
    let mut world = World::new(12, Faults::NONE, 7, 2);
    world.seconds(1);
    world.publish(1, "/lab/a");
    while world.events_of(1).is_empty() {
        world.run(Duration::from_millis(1));
    }
    let holders = world.holders("/lab/a");
    assert_eq!(holders.len(), 3);
    assert!(holders.values().all(|held| *held == (1, 0, 0)), "{holders:?}");
    assert_eq!(holders.keys().collect::<BTreeSet<_>>(), world.responsible("/lab/a").iter().collect());
}

#[test]
fn any_two_of_three_responsible_nodes_may_die_and_the_match_is_still_made() {
    for (first, second) in [(0, 1), (0, 2), (1, 2)] {
        let mut world = World::new(13, Faults::NONE, 7, 3);
        world.publish(1, "/lab/a");
        world.publish(2, "/lab/a");
        world.seconds(2);
        // The publishers die too, so that nothing comes back by renewal.
        world.kill(host(1));
        world.kill(host(2));
        let responsible = world.responsible("/lab/a");
        world.kill(responsible[first]);
        world.kill(responsible[second]);
        world.seconds(1);
        world.announce();
        world.subscribe(3, "/lab/a", 1);
        world.seconds(3);
        assert_eq!(world.sources(3, 1), Some(vec![1, 2]), "{first} and {second} died");
        assert_eq!(world.holders("/lab/a").len(), 3, "the survivor handed over");
    }
}

#[test]
fn a_running_subscription_is_served_on_by_the_next_node_without_any_announcement() {
    let mut world = World::new(14, Faults::NONE, 5, 3);
    world.publish(1, "/lab/a");
    world.subscribe(3, "/lab/a", 1);
    world.seconds(2);
    let first = world.responsible("/lab/a")[0];
    world.kill(first);
    // No node learns of the failure: silence alone must suffice.
    world.publish(2, "/lab/a");
    world.seconds(20);
    assert_eq!(world.sources(3, 1), Some(vec![1, 2]));
}

#[test]
fn a_newcomer_gets_its_records_before_it_acts() {
    let mut world = World::new(15, Faults::NONE, 3, 3);
    for item in 0..60 {
        world.publish(1, &format!("/lab/{item}"));
        world.publish(2, &format!("/lab/{item}"));
        world.subscribe(3, &format!("/lab/{item}"), item);
    }
    world.seconds(3);
    for number in 4..=6 {
        world.start_resolver(NodeId(number));
        world.announce();
        // The topology manager never, not even for a moment, learns of fewer publishers.
        for _ in 0..300 {
            world.run(Duration::from_millis(10));
            for item in 0..60 {
                assert_eq!(world.sources(3, item), Some(vec![1, 2]), "item {item}, {number} nodes, {}", world.now());
            }
        }
    }
    for item in 0..60 {
        let text = format!("/lab/{item}");
        let responsible = world.responsible(&text);
        let holders = world.holders(&text);
        assert!(responsible.iter().all(|node| holders.get(node) == Some(&(2, 1, 0))), "{text}: {holders:?}");
    }
    world.seconds(40);
    for item in 0..60 {
        let text = format!("/lab/{item}");
        let holders: BTreeSet<NodeId> = world.holders(&text).into_keys().collect();
        assert_eq!(holders, world.responsible(&text).into_iter().collect(), "others dropped it after the grace");
    }
}

#[test]
fn a_resolver_that_restarts_empty_is_filled_again() {
    let mut world = World::new(16, Faults::NONE, 3, 2);
    for item in 0..20 {
        world.publish(1, &format!("/lab/{item}"));
    }
    world.seconds(2);
    world.kill(NodeId(2));
    world.start_resolver(NodeId(2));
    world.announce();
    world.seconds(1);
    for item in 0..20 {
        assert_eq!(world.holders(&format!("/lab/{item}"))[&NodeId(2)], (1, 0, 0));
    }
}

/// Whether all resolvers of the world are ready.
fn ready(world: &World, node: u64) -> bool {
    world.resolvers[&NodeId(node)].is_ready()
}

#[test]
fn a_newcomer_that_is_full_is_not_ready_and_nothing_is_forgotten_for_it() {
    for loss in [0.0, 0.1] {
        let mut world = World::new(22, Faults::lossy(loss), 3, 3);
        for item in 0..40 {
            world.publish(1, &format!("/lab/{item}"));
            world.subscribe(3, &format!("/lab/{item}"), item);
        }
        world.seconds(4);
        world.config.limits.records_max = 10;
        world.start_resolver(NodeId(4));
        world.announce();
        world.seconds(20);
        for item in 0..40 {
            let holders = world.holders(&format!("/lab/{item}"));
            assert!(holders.values().filter(|held| **held == (1, 1, 0)).count() >= 3, "{item}: {holders:?}");
        }
        world.seconds(40);
        assert!(!ready(&world, 4), "it has less than it is responsible for");
        let reported = |world: &World, node: u64, text: &str| {
            world.notes.iter().filter(|(of, note)| *of == NodeId(node) && note.contains(text)).count()
        };
        assert_eq!(reported(&world, 4, "records of the resolver (records_max = 10)"), 1, "{:?}", world.notes);
        assert!((1..=3).all(|node| reported(&world, node, "node 4 does not take all the records") <= 1));
        assert!((1..=3).any(|node| reported(&world, node, "(records_max = 10); they are offered again") == 1));
        for item in 0..40 {
            let holders = world.holders(&format!("/lab/{item}"));
            assert!(holders.values().filter(|held| **held == (1, 1, 0)).count() >= 2, "{item}: {holders:?}");
            assert_eq!(world.sources(3, item), Some(vec![1]), "the others act for it");
        }
        // There is space at last.
        world.resolvers.get_mut(&NodeId(4)).unwrap().config.limits.records_max = 1_000;
        world.seconds(60);
        assert!(ready(&world, 4));
        for item in 0..40 {
            let text = format!("/lab/{item}");
            let holders: BTreeSet<NodeId> = world.holders(&text).into_keys().collect();
            assert_eq!(holders, world.responsible(&text).into_iter().collect(), "{text}");
        }
    }
}

#[test]
fn an_old_holder_forgets_only_what_the_new_one_has_confirmed() {
    let mut world = World::new(23, Faults::NONE, 3, 1);
    for item in 0..30 {
        world.publish(1, &format!("/lab/{item}"));
    }
    world.seconds(2);
    world.start_resolver(NodeId(4));
    // The newcomer is announced, but nothing reaches it for longer than every grace; leases are long.
    let channel = world.network.channels.remove(&NodeId(4)).unwrap();
    let newcomer = world.resolvers.remove(&NodeId(4)).unwrap();
    let nodes = [1, 2, 3, 4].map(NodeId);
    let now = world.now();
    for resolver in world.resolvers.values_mut() {
        resolver.handle_members(now, &nodes);
    }
    world.seconds(25);
    for item in 0..30 {
        assert_eq!(world.holders(&format!("/lab/{item}")).len(), 3, "nobody has confirmed anything");
    }
    world.network.channels.insert(NodeId(4), channel);
    world.resolvers.insert(NodeId(4), newcomer);
    world.announce();
    world.seconds(40);
    for item in 0..30 {
        let text = format!("/lab/{item}");
        let holders: BTreeSet<NodeId> = world.holders(&text).into_keys().collect();
        assert_eq!(holders, world.responsible(&text).into_iter().collect(), "{text}");
    }
}

#[test]
fn a_newcomer_waits_for_its_predecessors_however_long_and_the_others_do_its_work() {
    let mut world = World::new(24, Faults::NONE, 3, 3);
    for item in 0..30 {
        world.publish(1, &format!("/lab/{item}"));
    }
    world.seconds(2);
    world.start_resolver(NodeId(4));
    // One predecessor dies at the same moment, and the topology manager does not notice for long.
    world.network.channels.remove(&NodeId(2));
    world.resolvers.remove(&NodeId(2));
    let nodes = [1, 2, 3, 4].map(NodeId);
    let now = world.now();
    for resolver in world.resolvers.values_mut() {
        resolver.handle_members(now, &nodes);
    }
    for client in world.hosts.values_mut() {
        client.handle_resolvers(now, &nodes.map(|node| (node, 1)));
    }
    world.seconds(15);
    assert!(!ready(&world, 4), "longer than twelve seconds");
    assert!(ready(&world, 1) && ready(&world, 3));
    for item in 0..30 {
        world.subscribe(3, &format!("/lab/{item}"), item);
    }
    world.seconds(12);
    for item in 0..30 {
        assert_eq!(world.sources(3, item), Some(vec![1]), "somebody acts for item {item}");
    }
    world.announce();
    world.seconds(5);
    assert!(ready(&world, 4), "what is gone is not waited for");
    for item in 0..30 {
        let held = world.holders(&format!("/lab/{item}"))[&NodeId(4)];
        assert_eq!(held, (1, 1, 0));
    }
}

#[test]
fn a_pull_that_is_dropped_with_a_membership_is_repeated_beside_replications() {
    // The newcomer is ready after 20 to 60 ms.
    for after in (0..80).step_by(4) {
        let mut world = World::new(26, Faults::NONE, 2, 2);
        for item in 0..30 {
            world.publish(1, &format!("/lab/{item}"));
        }
        world.seconds(2);
        world.start_resolver(NodeId(3));
        world.announce();
        world.run(Duration::from_millis(after));
        // One node counts the newcomer as dead for a moment.
        let now = world.now();
        for nodes in [&[1, 2].map(NodeId)[..], &[1, 2, 3].map(NodeId)] {
            world.resolvers.get_mut(&NodeId(1)).unwrap().handle_members(now, nodes);
        }
        // Changes keep arriving at the newcomer all the time.
        for item in 0..40 {
            world.publish(2, &format!("/lab/{item}"));
            world.run(Duration::from_millis(200));
        }
        assert!(ready(&world, 3), "the announcement came after {after} ms");
    }
}

#[test]
fn what_a_predecessor_that_dies_half_way_had_sent_to_others_only_is_fetched_from_these() {
    let config = RendezvousConfig { replicas: 2, ..RendezvousConfig::default() };
    let mut world = World::with(25, Faults::lossy(0.1), 2, 2, config);
    for item in 0..300 {
        world.publish(1, &format!("/lab/{item}"));
    }
    world.seconds(12);
    // The publisher dies too: nothing comes back by renewal.
    world.kill(host(1));
    world.start_resolver(NodeId(3));
    world.announce();
    world.run(Duration::from_millis(60));
    assert!(!ready(&world, 3));
    world.kill(NodeId(1));
    world.run(Duration::from_millis(300));
    world.announce();
    world.seconds(6);
    assert!(ready(&world, 3));
    for item in 0..300 {
        let holders = world.holders(&format!("/lab/{item}"));
        assert_eq!(holders.get(&NodeId(3)), Some(&(1, 0, 0)), "item {item}: {holders:?}");
    }
}

#[test]
fn at_the_limit_of_records_each_new_name_is_refused_and_the_refusal_is_told() {
    for records in [1, 1_000] {
        let limits = Limits { records_max: records, ..Limits::default() };
        let config = RendezvousConfig { limits, ..RendezvousConfig::default() };
        let mut resolver = Rendezvous::new(config, NodeId(1), 1);
        resolver.handle_members(Time::ZERO, &[NodeId(1)]);
        let subscribe = |number: u32| {
            let operation =
                Operation::Subscribe { transfer: 1, k: 1, metric: PathMetric::Hops, lease: Duration::from_secs(30) };
            let name = name(&format!("/{number}"));
            Message::Request(ClientRequest { request: number | Reply::HOST_BIT, version: 1, name, operation })
        };
        let mut answers = 0;
        let mut ask = |resolver: &mut Rendezvous, number: u32| {
            resolver.handle_message(Time::ZERO, host(1), route(host(1)), subscribe(number));
            while let Some((_, message)) = resolver.poll_message() {
                answers += u32::from(matches!(message, Message::Reply(_)));
            }
        };
        (0..records as u32).for_each(|number| ask(&mut resolver, number));
        (0..2_000).for_each(|number| ask(&mut resolver, 1 << 20 | number));
        assert_eq!(resolver.refused[&Limit::Records], 2_000);
        assert_eq!(answers as usize, records + 2_000);
    }
}

#[test]
fn what_one_node_missed_is_found_by_comparing() {
    let mut world = World::new(17, Faults::NONE, 3, 1);
    world.publish(1, "/lab/a");
    world.seconds(2);
    world.kill(host(1));
    let key = ItemId::new(&name("/lab/a")).key();
    let resolver = world.resolvers.get_mut(&NodeId(3)).unwrap();
    resolver.records.remove(&key);
    world.seconds(21);
    assert_eq!(world.holders("/lab/a").get(&NodeId(3)), Some(&(1, 0, 0)));
}

#[test]
fn all_resolvers_may_die_and_what_hosts_want_comes_back_with_new_ones() {
    let mut world = World::new(18, Faults::NONE, 3, 3);
    world.publish(1, "/lab/a");
    world.subscribe(3, "/lab/a", 1);
    world.act(2, |client, now| client.subscribe_scope(now, &Name::root()));
    world.seconds(2);
    world.events.clear();
    for number in 1..=3 {
        world.kill(NodeId(number));
    }
    world.announce();
    world.matches.clear();
    world.seconds(20);
    assert_eq!(world.rejections(1).len(), 1, "told once");
    for number in 4..=6 {
        world.start_resolver(NodeId(number));
    }
    world.announce();
    world.seconds(5);
    assert_eq!(world.sources(3, 1), Some(vec![1]));
    world.publish(1, "/top");
    world.seconds(2);
    assert!(world.events_of(2).iter().any(|e| matches!(e, ResolverEvent::Appeared { name, .. } if name == "/top")));
}

#[test]
fn two_halves_that_could_not_see_each_other_become_one() {
    let mut world = World::new(19, Faults::NONE, 6, 4);
    let now = world.now();
    let halves = [[1, 2, 3].map(NodeId), [4, 5, 6].map(NodeId)];
    for (number, half) in [(1, 0), (2, 1), (3, 0), (4, 1)] {
        let routes = halves[half].map(|node| (node, 1));
        world.client(number).handle_resolvers(now, &routes);
    }
    for half in &halves {
        for node in half {
            world.resolvers.get_mut(node).unwrap().handle_members(now, half);
        }
    }
    world.publish(1, "/lab/a");
    world.publish(2, "/lab/a");
    world.subscribe(3, "/lab/a", 1);
    world.seconds(3);
    assert_eq!(world.sources(3, 1), Some(vec![1]));
    world.announce();
    world.seconds(5);
    assert_eq!(world.sources(3, 1), Some(vec![1, 2]));
}

#[test]
fn records_spread_evenly_over_the_nodes() {
    let nodes: Vec<NodeId> = (0..10).map(|i| host(i * 7)).collect();
    let mut keys = BTreeMap::<NodeId, usize>::new();
    for item in 0..10_000 {
        let key = ItemId::new(&name(&format!("/lab/{item}"))).key();
        for node in members::responsible(nodes.iter().copied(), key, 3) {
            *keys.entry(node).or_default() += 1;
        }
    }
    let most = *keys.values().max().unwrap() as f64;
    let mean = keys.values().sum::<usize>() as f64 / keys.len() as f64;
    assert_eq!(mean, 3_000.0);
    assert!(most / mean < 1.05, "the fullest node holds {:.3} of the mean", most / mean);
}

#[test]
fn thousands_of_items_of_one_scope_are_held_renewed_and_listed() {
    let mut world = World::new(21, Faults::NONE, 5, 2);
    let config = PubSubConfig { node: host(1), ..PubSubConfig::default() };
    world.hosts.insert(host(1), PubSub::new(config, 99));
    world.announce();
    for item in 0..3_000 {
        world.publish(1, &format!("/big/{item}"));
    }
    world.seconds(20);
    assert_eq!(world.events_of(1).len(), 3_000);
    world.act(2, |client, now| client.subscribe_scope(now, &name("/big")));
    world.seconds(70);
    let events = world.events_of(2);
    assert!(events.contains(&ResolverEvent::Listed { name: "/big".into(), entries: 3_000 }));
    assert_eq!(events.len(), 3_002, "nothing flickered");
    let publications: usize = world.resolvers.values().map(|resolver| resolver.status().publications).sum();
    assert_eq!(publications, 9_000);
}

/// The number of held publications, and the versions of the first host's.
fn held(world: &World) -> (usize, Vec<u64>) {
    let publications = world.resolvers.values().map(|resolver| resolver.status().publications).sum();
    let records = world.resolvers.values().flat_map(|resolver| resolver.records.values());
    let entry = |record: &Record| record.entries.get(&EntryKey::Publisher(host(1))).map(|held| held.version);
    let mut versions: Vec<u64> = records.filter_map(entry).collect();
    versions.sort_unstable();
    (publications, versions)
}

#[test]
fn a_host_renews_all_its_items_at_once_and_they_fall_together_when_it_is_gone() {
    let mut world = World::new(31, Faults::NONE, 4, 1);
    (0..400).for_each(|item| world.publish(1, &format!("/x/{item}")));
    world.seconds(5);
    let before = held(&world);
    assert_eq!(before.0, 1_200);
    let sent = world.network.channels[&host(1)].stats().fragments_sent;
    world.seconds(120);
    assert_eq!(held(&world), before, "nothing was published again");
    let each = (world.network.channels[&host(1)].stats().fragments_sent - sent) / 12;
    assert!(each <= 12, "{each} packets for each renewal of 400 items");
    world.kill(host(1));
    world.seconds(41);
    assert_eq!(held(&world).0, 0);
    for resolver in world.resolvers.values() {
        assert_eq!(
            resolver.records.values().map(|record| record.children).sum::<usize>(),
            0,
            "the scope lists none of them"
        );
    }
}

#[test]
fn what_a_node_has_lost_is_published_again_and_nothing_else() {
    let mut world = World::new(32, Faults::NONE, 3, 1);
    (0..400).for_each(|item| world.publish(1, &format!("/x/{item}")));
    world.seconds(5);
    let before = held(&world);
    // One node silently loses a record.
    let key = ItemId::new(&name("/x/7")).key();
    world.resolvers.get_mut(&NodeId(2)).unwrap().forget(key);
    assert_eq!(held(&world).0, before.0 - 1);
    world.seconds(11);
    let after = held(&world);
    assert_eq!(after.0, before.0);
    let bucket = bucket_of(key);
    let others_there = (0..400).filter(|item| bucket_of(ItemId::new(&name(&format!("/x/{item}"))).key()) == bucket);
    let changed = after.1.iter().filter(|version| !before.1.contains(version)).count();
    assert!(changed <= 3 * others_there.count(), "{changed} entries changed, those of one bucket at most");
    // All of them lose everything.
    for number in 1..=3 {
        world.kill(NodeId(number));
        world.start_resolver(NodeId(number + 10));
    }
    world.announce();
    world.seconds(15);
    assert_eq!(held(&world).0, 1_200);
}

#[test]
fn nobody_renews_in_the_name_of_another() {
    let mut resolver = Rendezvous::new(RendezvousConfig::default(), NodeId(1), 1);
    resolver.handle_members(Time::ZERO, &[NodeId(1)]);
    let publish = |request: u32| ClientRequest {
        request: request | Reply::HOST_BIT,
        version: 1,
        name: name("/a"),
        operation: Operation::Publish {
            label: "x".into(),
            manifest: vec![1],
            object_bytes: 1,
            lease: Duration::from_secs(30),
            scopes: CREATE,
        },
    };
    resolver.handle_message(Time::ZERO, host(1), route(host(1)), Message::Request(publish(1)));
    let key = ItemId::new(&name("/a")).key();
    let holding = Holding { bucket: bucket_of(key), count: 1, sum: mark(key, 1) };
    let renew = |resolver: &mut Rendezvous, now: Time, from: NodeId, number: u32| {
        let renewal = Renewal {
            request: number | Reply::HOST_BIT,
            client: host(1),
            lease: Duration::from_secs(30),
            holdings: vec![holding],
        };
        resolver.handle_message(now, from, route(from), Message::Renewal(renewal));
        let answers = core::iter::from_fn(|| resolver.poll_message());
        answers.filter(|(_, message)| matches!(message, Message::Renewed(_))).count()
    };
    let at = |seconds: u64| Time::from_millis(seconds * 1_000);
    assert_eq!(renew(&mut resolver, at(10), host(2), 2), 0, "it is not even answered");
    assert_eq!(renew(&mut resolver, at(20), host(1), 3), 1);
    resolver.handle_timeout(at(45));
    assert_eq!(resolver.status().publications, 1);
    assert_eq!(renew(&mut resolver, at(49), host(2), 4), 0);
    resolver.handle_timeout(at(51));
    assert_eq!(resolver.status().publications, 0, "its own renewal was that of 20 s");
}

#[test]
fn status_counts_what_is_held() {
    let mut world = World::new(20, Faults::NONE, 3, 2);
    world.publish(1, "/lab/a");
    world.subscribe(2, "/lab/a", 1);
    world.act(2, |client, now| client.subscribe_scope(now, &name("/lab")));
    world.seconds(2);
    let status = world.resolvers[&NodeId(1)].status();
    let resolver = &world.resolvers[&NodeId(1)];
    assert!(resolver.is_ready() && status.members == 3 && resolver.members.suspected().next().is_none());
    // The root, the scope and the item; each node is responsible for all of them.
    let children: usize = resolver.records.values().map(|record| record.children).sum();
    assert_eq!((status.records, status.publications, status.subscriptions, children), (3, 1, 1, 2));
    assert!(resolver.records.keys().all(|key| resolver.members.responsible(*key).len() == 3));
    let acting: usize = world.resolvers.values().map(|resolver| resolver.status().acting).sum();
    assert_eq!(acting, 3, "each record has one acting node");
}

/// What a run of commands must leave behind.
#[derive(Default)]
struct Oracle {
    publishers: BTreeMap<String, BTreeSet<u64>>,
    subscribers: BTreeMap<String, BTreeSet<u64>>,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Commands in any order, nodes that die and join, 0 to 20 % loss, duplication, reordering: at the end exactly the
    /// hosts' wishes are held, by exactly the responsible nodes, and the topology manager knows all matches.
    #[test]
    fn nothing_is_lost_and_nothing_is_left_over(
        seed: u64,
        loss in 0.0..0.2f64,
        steps in proptest::collection::vec((0u8..8, 1u64..6, 0u64..6), 1..40),
    ) {
        let mut world = World::new(seed, Faults::lossy(loss), 5, 5);
        let mut oracle = Oracle::default();
        let mut next_resolver = 6;
        for (action, number, item) in steps {
            let text = format!("/lab/{}/{item}", item % 2);
            let now = world.now();
            match action {
                0..=2 => {
                    if oracle.publishers.entry(text.clone()).or_default().insert(number) {
                        world.publish(number, &text);
                    }
                }
                3 => {
                    if oracle.publishers.entry(text.clone()).or_default().remove(&number) {
                        world.client(number).unpublish(now, &name(&text));
                    }
                }
                4 | 5 => {
                    if oracle.subscribers.entry(text.clone()).or_default().insert(number) {
                        world.subscribe(number, &text, item as u32);
                    }
                }
                6 => {
                    if oracle.subscribers.entry(text.clone()).or_default().remove(&number) {
                        world.client(number).unsubscribe(now, &name(&text), item as u32);
                    }
                }
                _ => {
                    if world.resolvers.len() > 3 && item < 4 {
                        let victim = *world.resolvers.keys().nth(number as usize % world.resolvers.len()).unwrap();
                        world.kill(victim);
                    } else {
                        world.start_resolver(NodeId(next_resolver));
                        next_resolver += 1;
                    }
                    world.run(Duration::from_millis(300));
                    world.announce_slowly(Duration::from_millis(400));
                }
            }
            let pause = world.network.random.below(400);
            world.run(Duration::from_millis(pause));
        }
        // Two leases: unwanted entries have had time to expire, wanted ones must have been renewed.
        world.seconds(65);
        for (text, publishers) in &oracle.publishers {
            let subscribers = oracle.subscribers.get(text).map_or(0, BTreeSet::len);
            let holders = world.holders(text);
            for node in world.responsible(text) {
                let expected = (publishers.len(), subscribers, 0);
                let held = holders.get(&node).copied().unwrap_or_default();
                prop_assert_eq!(held, expected, "{} on {}: {:?}", text, node, holders);
            }
        }
        for (text, subscribers) in &oracle.subscribers {
            let publishers: Vec<u64> =
                oracle.publishers.get(text).map(|p| p.iter().copied().collect()).unwrap_or_default();
            let item: u32 = text.rsplit('/').next().unwrap().parse().unwrap();
            for number in subscribers {
                prop_assert_eq!(world.sources(*number, item), Some(publishers.clone()), "{} of {}", text, number);
            }
        }
        for number in 1..=5 {
            let odd: Vec<_> = world.rejections(number);
            prop_assert!(
                odd.iter().all(|(_, reason)| reason.starts_with("no resolver") || reason.contains("overloaded")),
                "{:?}", odd
            );
        }
    }

    /// Valid but senseless messages, from any node, in any order: no panic, no spinning, limits held.
    #[test]
    fn any_messages_are_survived(
        messages in proptest::collection::vec((1u64..6, crate::wire::message::tests::message(), 0u64..3_000), 1..60),
    ) {
        let limits = Limits { records_max: 10, requests_max: 10, clients_max: 3, ..Limits::default() };
        let config = RendezvousConfig { limits, ..RendezvousConfig::default() };
        let mut resolver = Rendezvous::new(config, NodeId(1), 5);
        let mut client = PubSub::new(PubSubConfig::default(), 5);
        client.subscribe_scope(Time::ZERO, &Name::root());
        resolver.handle_members(Time::ZERO, &[NodeId(2), NodeId(3)]);
        let mut now = Time::ZERO;
        for (from, message, pause) in messages {
            now += Duration::from_millis(pause);
            client.handle_message(now, NodeId(from), message.clone());
            resolver.handle_message(now, NodeId(from), route(NodeId(from)), message);
            resolver.handle_timeout(now);
            client.handle_timeout(now);
            while resolver.poll_message().is_some() || resolver.poll_event().is_some() {}
            while client.poll_message().is_some() || client.poll_event().is_some() {}
            let status = resolver.status();
            prop_assert!(status.records <= 10 && resolver.clients.len() <= 3);
        }
        for _ in 0..500 {
            if let Some(due) = resolver.poll_timeout() {
                prop_assert!(due >= now || due == Time::ZERO, "{} after {}", due, now);
                now = due.max(now);
                resolver.handle_timeout(now);
                while resolver.poll_message().is_some() || resolver.poll_event().is_some() {}
            }
        }
        prop_assert!(now > Time::from_millis(100_000), "timers spin at {}", now);
    }

    /// After any notices in any order, a scope's subscriber ends with the present state.
    #[test]
    fn a_listing_is_right_in_the_end(
        seed: u64,
        loss in 0.0..0.2f64,
        steps in proptest::collection::vec((any::<bool>(), 1u64..4, 0u64..5), 1..30),
        death in 0usize..40,
    ) {
        let mut world = World::new(seed, Faults::lossy(loss), 4, 4);
        world.act(4, |client, now| client.subscribe_scope(now, &Name::root()));
        let mut oracle = BTreeMap::<String, BTreeSet<u64>>::new();
        for (index, (publishes, number, item)) in steps.into_iter().enumerate() {
            let text = format!("/{item}");
            let publishers = oracle.entry(text.clone()).or_default();
            let now = world.now();
            if publishes && publishers.insert(number) {
                world.publish(number, &text);
            } else if !publishes && publishers.remove(&number) {
                world.client(number).unpublish(now, &name(&text));
            }
            if index == death {
                let victim = world.responsible("/")[0];
                world.kill(victim);
                world.run(Duration::from_millis(500));
                world.announce();
            }
            let pause = world.network.random.below(300);
            world.run(Duration::from_millis(pause));
        }
        world.seconds(65);
        let mut known = BTreeMap::<String, u32>::new();
        for event in world.events_of(4) {
            match event {
                ResolverEvent::Appeared { name, publishers, .. } => {
                    known.insert(name, publishers);
                }
                ResolverEvent::Disappeared { name } => {
                    prop_assert!(known.remove(&name).is_some(), "{} went and was not there", name);
                }
                _ => {}
            }
        }
        let expected: BTreeMap<String, u32> =
            oracle.into_iter().filter(|(_, p)| !p.is_empty()).map(|(text, p)| (text, p.len() as u32)).collect();
        prop_assert_eq!(known, expected);
    }
}

#[test]
fn of_very_many_publishers_each_subscriber_is_told_of_some_that_differ_and_of_itself() {
    const HOSTS: u64 = 24;
    let mut world = World::with(3, Faults::NONE, 3, HOSTS + 2, RendezvousConfig::default());
    world.seconds(1);
    for number in 1..=HOSTS {
        world.publish_copy(number, "/s/i");
        world.subscribe(number, "/s/i", 1);
    }
    // These have the whole object already.
    let complete = [HOSTS + 1, HOSTS + 2];
    complete.into_iter().for_each(|number| world.publish_copy(number, "/s/i"));
    world.seconds(2);
    let told = |world: &World| -> Vec<Vec<u64>> {
        (1..=HOSTS).map(|number| world.sources(number, 1).expect("it is told")).collect()
    };
    let before = told(&world);
    let mut reported: BTreeMap<u64, usize> = BTreeMap::new();
    for (number, sources) in (1..=HOSTS).zip(&before) {
        assert_eq!(world.rejections(number), [], "{number} may publish");
        assert!(sources.len() == 9 && sources.contains(&number), "{number}: {sources:?}");
        sources.iter().for_each(|source| *reported.entry(*source).or_default() += 1);
    }
    for number in complete {
        assert!((8..=12).contains(&reported[&number]), "{number} serves about eight: {reported:?}");
    }
    assert!(reported.len() as u64 == HOSTS + 2 && reported.values().all(|count| *count < 18), "{reported:?}");
    // A publisher that leaves changes no other place.
    world.act(20, |client, now| client.unpublish(now, &name("/s/i")));
    world.seconds(1);
    for (sources, before) in told(&world).iter().zip(&before) {
        let kept = before.iter().filter(|source| sources.contains(source)).count();
        assert!(!sources.contains(&20) && kept + 1 >= before.len(), "{before:?}, {sources:?}");
    }
}

#[test]
fn a_swarm_that_gathers_costs_each_subscriber_few_requests() {
    let requests = |hosts: u64| {
        let mut world = World::with(1, Faults::NONE, 5, hosts + 1, RendezvousConfig::default());
        world.seconds(1);
        world.publish_copy(hosts + 1, "/s/i");
        (1..=hosts).for_each(|number| world.subscribe(number, "/s/i", 1));
        world.seconds(1);
        let before = world.path_requests;
        for number in 1..=hosts {
            world.publish_copy(number, "/s/i");
            world.run(Duration::from_millis(20));
        }
        world.seconds(1);
        (world.path_requests - before) as f64 / hosts as f64
    };
    let (few, many) = (requests(16), requests(128));
    assert!(few >= 1.0 && many < 20.0, "{few} requests for each of 16 subscribers, {many} for each of 128");
}

#[test]
fn whoever_signs_something_else_is_named_besides_those_who_agree() {
    let mut world = World::with(1, Faults::NONE, 7, 26, RendezvousConfig::default());
    world.seconds(1);
    (1..=24).for_each(|number| world.publish_copy(number, "/s/i"));
    world.act(25, |client, now| client.publish(now, &name("/s/i"), manifest(25, "/s/i"), 1_000, CREATE));
    world.subscribe(26, "/s/i", 1);
    world.seconds(1);
    let sources = world.sources(26, 1).expect("it is told");
    assert!(sources.contains(&25), "{sources:?}");
}
