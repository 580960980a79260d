//! How the rendezvous function grows:
//! `cargo run --release -p trib-psi --example records_bench [ITEMS_MAX [HOSTS [NODES [MBPS]]]]`
//!
//! Hosts publish 10³, 10⁴ … items, each host in private scopes of at most 10,000; during that time one of them fetches
//! published items, then 100 random ones in turn, and then all publications are held for three leases. Hosts,
//! rendezvous nodes and their control channels are the real nodes'. Each has a link of `MBPS` both ways (100) with a
//! drop-tail queue of 100 ms, and each packet takes 40 ms. Printed for each size: virtual time until all are published,
//! the part of it for which the busiest link was busy, packets and bytes, processor time of hosts and rendezvous nodes
//! together, the longest time from a subscription until a topology manager gets the request for its paths, in round
//! trips, during the flood and after it; packets and bytes for one renewal of every publication, memory of all nodes,
//! and the exponent of each between this size and the one before.
#![expect(clippy::print_stdout, reason = "a benchmark prints what it measures")]

use std::collections::{BTreeMap, BTreeSet};

use tributary_content::Name;
use tributary_core::{Duration, FaceId, NodeId, Random, Rate, Time, event::ResolverEvent};
use tributary_psi::{
    config::Limits,
    control::{ControlChannel, ControlConfig},
    pubsub::{PubSub, PubSubConfig},
    resolver::rendezvous::{Rendezvous, RendezvousConfig, Target},
    wire::{Fid, FidKind, Message, MissingScopes, PathRequest},
};
use tributary_transport::PathMetric;

const DELAY: Duration = Duration::from_millis(40);
const LEASE: Duration = Duration::from_secs(30);
/// The queue before a link.
const QUEUE: Duration = Duration::from_millis(100);
/// Bytes of a packet around a control packet's body: common header and FID, UDP and IP.
const HEADER_BYTES: u64 = 5 + 8 + 28;
/// As many as fit one scope by default are ten times that.
const SCOPE_ITEMS: u64 = 10_000;
const FETCHES: u32 = 100;
/// Hosts are numbered from here on.
const HOST: u64 = 1_000;
const COLUMNS: [&str; 10] = [
    "time s",
    "link busy",
    "packets",
    "bytes",
    "CPU ms",
    "RTT in flood",
    "RTT after",
    "renewal packets",
    "bytes",
    "MB",
];

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a number"));
    let mut next = |default: u64| arguments.next().unwrap_or(default);
    let (max, hosts, nodes, mbps) = (next(100_000), next(100), next(3), next(100));
    println!(
        "{hosts} hosts, {nodes} rendezvous nodes, {mbps} Mbit/s, 40 ms each way; exponents against the row before"
    );
    println!("{:>9}{}", "items", COLUMNS.map(|head| format!("{head:>18}")).concat());
    let mut before: Option<[f64; COLUMNS.len()]> = None;
    let mut items = 1_000;
    while items <= max {
        let row = Domain::new(hosts, nodes, Rate::from_mbps(mbps)).measure(items);
        let cell = |(at, value): (usize, &f64)| {
            let grown = before.map_or(String::new(), |before| format!(" ({:.2})", (value / before[at]).log10()));
            format!("{:>18}", format!("{value:.2}{grown}"))
        };
        println!("{items:>9}{}", row.iter().enumerate().map(cell).collect::<String>());
        before = Some(row);
        items *= 10;
    }
}

/// A node's link in one direction: until when it is busy, its total busy time, and its drops.
#[derive(Clone, Copy, Default)]
struct Link {
    free_at: Time,
    busy: Duration,
    dropped: u64,
}

impl Link {
    /// When a packet that arrives at `at` has passed; `None` if the queue is full.
    fn pass(&mut self, at: Time, bytes: u64, rate: Rate) -> Option<Time> {
        let free_at = self.free_at.max(at);
        if free_at.since(at) > QUEUE {
            self.dropped += 1;
            return None;
        }
        let time = rate.time_for(bytes);
        self.busy += time;
        self.free_at = free_at + time;
        Some(self.free_at)
    }
}

struct Domain {
    now: Time,
    rate: Rate,
    nodes: BTreeMap<NodeId, Rendezvous>,
    hosts: BTreeMap<NodeId, PubSub>,
    channels: BTreeMap<NodeId, ControlChannel>,
    /// The links of each node: out and in.
    links: BTreeMap<NodeId, [Link; 2]>,
    /// Packets in transit to a node's link or (true) over it, by their arrival there or at the node.
    mail: BTreeMap<(Time, u64), (NodeId, Vec<u8>, bool)>,
    /// Nodes with a due timer or a new message.
    due: BTreeSet<(Time, NodeId)>,
    due_of: BTreeMap<NodeId, Time>,
    number: u64,
    packets: u64,
    bytes: u64,
    published: u64,
    last_published: String,
    told: u64,
    asked: Vec<(Time, PathRequest)>,
}

impl Domain {
    fn new(hosts: u64, nodes: u64, rate: Rate) -> Domain {
        let members: Vec<NodeId> = (1..=nodes).map(NodeId).collect();
        let rendezvous = |node: &NodeId| {
            let limits = Limits { records_max: 2_000_000, ..Limits::default() };
            let config = RendezvousConfig { limits, ..RendezvousConfig::default() };
            let mut rendezvous = Rendezvous::new(config, *node, node.0 as u32);
            rendezvous.handle_members(Time::ZERO, &members);
            (*node, rendezvous)
        };
        let host = |number: u64| {
            let node = NodeId(HOST + number);
            let config =
                PubSubConfig { node, label: format!("host-{number}"), lease: LEASE, ..PubSubConfig::default() };
            let mut host = PubSub::new(config, 1);
            let mut routes: Vec<(NodeId, u32)> = members.iter().map(|node| (*node, 1)).collect();
            routes.rotate_left(number as usize % members.len());
            host.handle_resolvers(Time::ZERO, &routes);
            (node, host)
        };
        let mut domain = Domain {
            now: Time::ZERO,
            rate,
            nodes: members.iter().map(rendezvous).collect(),
            hosts: (0..hosts).map(host).collect(),
            channels: BTreeMap::new(),
            links: BTreeMap::new(),
            mail: BTreeMap::new(),
            due: BTreeSet::new(),
            due_of: BTreeMap::new(),
            number: 0,
            packets: 0,
            bytes: 0,
            published: 0,
            last_published: String::new(),
            told: 0,
            asked: Vec::new(),
        };
        let all: Vec<NodeId> = domain.nodes.keys().chain(domain.hosts.keys()).copied().collect();
        let channel = |node: &NodeId| (*node, ControlChannel::new(ControlConfig::default(), *node, 1));
        domain.channels = all.iter().map(channel).collect();
        all.into_iter().for_each(|node| domain.collect(node));
        // Rendezvous nodes find each other.
        domain.run(Time::ZERO + Duration::from_secs(2));
        domain
    }
    fn measure(mut self, items: u64) -> [f64; COLUMNS.len()] {
        let hosts = self.hosts.len() as u64;
        let resident = memory();
        let (begun, began) = (processor_time(), self.now);
        for number in 0..items {
            let node = NodeId(HOST + number % hosts);
            let host = self.hosts.get_mut(&node).expect("it is there");
            host.publish(self.now, &name(number, hosts), vec![7; 400], 1_000, MissingScopes::Create);
        }
        self.links.clear();
        let all: Vec<NodeId> = self.hosts.keys().copied().collect();
        all.into_iter().for_each(|node| self.collect(node));
        let counted = (self.packets, self.bytes);
        let mut flood = Duration::ZERO;
        let mut transfer = FETCHES;
        while self.published < items {
            self.step();
            // Ten fetches in between, of published items.
            if self.published > items * u64::from(transfer + 1 - FETCHES) / 11 && transfer < FETCHES + 10 {
                flood = flood.max(self.fetch(self.last_published.clone().parse().expect("a name"), transfer));
                transfer += 1;
            }
        }
        let time = self.now.since(began);
        let cpu = processor_time() - begun;
        let counted = (self.packets - counted.0, self.bytes - counted.1);
        let links = || self.links.values().flatten();
        let busiest = links().map(|link| link.busy).max().unwrap_or(Duration::ZERO);
        let dropped: u64 = links().map(|link| link.dropped).sum();
        let mut random = Random::new(1, 1);
        let fetches: Vec<Name> = (0..FETCHES).map(|_| name(random.below(items), hosts)).collect();
        let slowest = (0..).zip(fetches).map(|(transfer, name)| self.fetch(name, transfer)).max();
        let before = (self.packets, self.bytes);
        // The last publications are renewed first after a third of a lease.
        self.run(self.now + LEASE * 3);
        let renewals = 9.0;
        let held = memory() - resident;
        let publications: usize = self.nodes.values().map(|node| node.status().publications).sum();
        assert!(publications as u64 >= items, "{publications} of {items} stand");
        if self.told + dropped > 0 {
            let refused: u64 = self.nodes.values().flat_map(|node| node.refused.values()).sum();
            println!(
                "{dropped} packets dropped, {refused} requests refused, {} refusals told to applications",
                self.told
            );
        }
        let round_trips = |time: Duration| time.as_secs_f64() / (DELAY * 2).as_secs_f64();
        [
            time.as_secs_f64(),
            busiest.as_secs_f64() / time.as_secs_f64(),
            counted.0 as f64,
            counted.1 as f64,
            cpu,
            round_trips(flood),
            round_trips(slowest.expect("there are some")),
            (self.packets - before.0) as f64 / renewals,
            (self.bytes - before.1) as f64 / renewals,
            held,
        ]
    }
    /// Subscribes an item; returns the time until a topology manager has learnt all its publishers.
    fn fetch(&mut self, name: Name, transfer: u32) -> Duration {
        let subscriber = NodeId(HOST);
        let began = self.now;
        let host = self.hosts.get_mut(&subscriber).expect("it is there");
        host.subscribe(began, &name, transfer, 4, PathMetric::Hops);
        self.collect(subscriber);
        let is_met = |(_, asked): &(Time, PathRequest)| asked.transfer == transfer && !asked.publishers.is_empty();
        while !self.asked.iter().any(is_met) {
            self.step();
            assert!(self.now.since(began) < Duration::from_secs(60), "a fetch finds nobody");
        }
        let time = self.now.since(began);
        let host = self.hosts.get_mut(&subscriber).expect("it is there");
        host.unsubscribe(self.now, &name, transfer);
        self.collect(subscriber);
        time
    }
    fn run(&mut self, end: Time) {
        while self.next().is_some_and(|next| next <= end) {
            self.step();
        }
        self.now = self.now.max(end);
    }
    fn next(&self) -> Option<Time> {
        let mail = self.mail.first_key_value().map(|((at, _), _)| *at);
        self.due.first().map(|(at, _)| *at).into_iter().chain(mail).min()
    }
    /// Advances to the next event.
    fn step(&mut self) {
        self.now = self.now.max(self.next().expect("renewals never end"));
        if let Some(entry) = self.mail.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (to, packet, is_through) = entry.remove();
            if !is_through {
                return self.receive(to, packet);
            }
            let channel = self.channels.get_mut(&to).expect("it is there");
            channel.handle_packet(self.now, FaceId(0), &packet).expect("nothing is damaged");
            return self.collect(to);
        }
        let Some((_, node)) = self.due.first().copied() else { return };
        self.channels.get_mut(&node).expect("it is there").handle_timeout(self.now);
        if let Some(rendezvous) = self.nodes.get_mut(&node) {
            rendezvous.handle_timeout(self.now);
        } else if let Some(host) = self.hosts.get_mut(&node) {
            host.handle_timeout(self.now);
        }
        self.collect(node);
    }
    fn handle(&mut self, node: NodeId, from: NodeId, reply: Fid, message: Message) {
        if let Some(rendezvous) = self.nodes.get_mut(&node) {
            rendezvous.handle_message(self.now, from, reply, message);
        } else if let Some(host) = self.hosts.get_mut(&node) {
            host.handle_message(self.now, from, message);
        }
    }
    /// Delivers a node's arrived messages, and sends its own.
    fn collect(&mut self, node: NodeId) {
        let mut channel = self.channels.remove(&node).expect("it is there");
        loop {
            let mut moved = false;
            while let Some(delivery) = channel.poll_delivery() {
                moved = true;
                self.handle(node, delivery.from, delivery.reply, delivery.message);
            }
            while let Some(outcome) = channel.poll_outcome() {
                moved = true;
                if let Some(rendezvous) = self.nodes.get_mut(&node) {
                    rendezvous.handle_outcome(self.now, outcome.to, outcome.result);
                } else if let Some(host) = self.hosts.get_mut(&node) {
                    host.handle_outcome(self.now, outcome.to, outcome.result);
                }
            }
            let out = self.say(node);
            for (to, messages) in out {
                moved = true;
                for message in Message::join(messages) {
                    channel.send(self.now, to, route(to), route(node), &message);
                }
            }
            if !moved {
                break;
            }
        }
        while let Some((fid, packet)) = channel.poll_packet(self.now) {
            self.send(node, NodeId(u64::from_be_bytes(fid.bytes().try_into().expect("routes are ids"))), packet);
        }
        let due = [
            channel.poll_timeout(),
            self.nodes.get(&node).and_then(Rendezvous::poll_timeout),
            self.hosts.get(&node).and_then(PubSub::poll_timeout),
        ];
        self.channels.insert(node, channel);
        let before = self.due_of.remove(&node);
        before.map(|at| self.due.remove(&(at, node)));
        if let Some(at) = due.into_iter().flatten().min() {
            self.due_of.insert(node, at);
            self.due.insert((at, node));
        }
    }
    fn say(&mut self, node: NodeId) -> BTreeMap<NodeId, Vec<Message>> {
        let mut out: BTreeMap<NodeId, Vec<Message>> = BTreeMap::new();
        if let Some(rendezvous) = self.nodes.get_mut(&node) {
            while rendezvous.poll_event().is_some() {}
            while let Some((target, message)) = rendezvous.poll_message() {
                match (target, message) {
                    (Target::Node(to) | Target::Reply(to, _), message) => out.entry(to).or_default().push(message),
                    (Target::TopologyManagers, Message::PathRequest(request)) => self.asked.push((self.now, request)),
                    (Target::TopologyManagers, other) => panic!("a topology manager is sent {other:?}"),
                }
            }
        } else if let Some(host) = self.hosts.get_mut(&node) {
            while let Some(event) = host.poll_event() {
                match event {
                    ResolverEvent::Published { name } => {
                        self.published += 1;
                        self.last_published = name;
                    }
                    // The client continues without help.
                    ResolverEvent::Rejected { reason, .. } if reason.contains("still trying") => self.told += 1,
                    ResolverEvent::Rejected { name, reason, .. } => panic!("{name}: {reason}"),
                    _ => {}
                }
            }
            while let Some((to, message)) = host.poll_message() {
                out.entry(to).or_default().push(message);
            }
        }
        out
    }
    /// Sends a packet.
    fn send(&mut self, from: NodeId, to: NodeId, packet: Vec<u8>) {
        let bytes = packet.len() as u64 + HEADER_BYTES;
        (self.packets, self.bytes, self.number) = (self.packets + 1, self.bytes + bytes, self.number + 1);
        let link = &mut self.links.entry(from).or_default()[0];
        if let Some(sent) = link.pass(self.now, bytes, self.rate) {
            self.mail.insert((sent + DELAY, self.number), (to, packet, false));
        }
    }
    /// A packet has reached the link of its receiver.
    fn receive(&mut self, to: NodeId, packet: Vec<u8>) {
        let link = &mut self.links.entry(to).or_default()[1];
        if let Some(arrived) = link.pass(self.now, packet.len() as u64 + HEADER_BYTES, self.rate) {
            self.number += 1;
            self.mail.insert((arrived, self.number), (to, packet, true));
        }
    }
}

/// The route to a node: here, its id.
fn route(node: NodeId) -> Fid {
    Fid::new(FidKind::List, 0, &node.0.to_be_bytes())
}

fn name(number: u64, hosts: u64) -> Name {
    let (host, at) = (number % hosts, number / hosts);
    format!("/host-{host}/{}/{at}", at / SCOPE_ITEMS).parse().expect("a name")
}

/// Resident memory in megabytes.
fn memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: f64 = status.split(' ').nth(1).and_then(|text| text.parse().ok()).expect("a number");
    pages * 4_096.0 / 1e6
}

/// Processor time of this program in milliseconds, in steps of ten.
fn processor_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    // User and system time are the 14th and 15th field; the second one is in brackets and may have spaces.
    let fields = stat.rsplit(')').next().expect("there is a name").split_ascii_whitespace().skip(11);
    fields.take(2).map(|ticks| ticks.parse::<f64>().expect("a number") * 10.0).sum()
}
