//! How the rendezvous function grows: `cargo run --release -p tributary-psi --example records_bench [ITEMS_MAX [HOSTS [NODES]]]`
//!
//! Hosts publish 10³, 10⁴ … items, each in scopes of its own of at most 10,000; then one of them fetches 100 at random, one
//! after the other, and then all are held for three leases. Hosts and rendezvous nodes are those of real nodes; each message
//! takes 40 ms and costs its bytes, as on links without a limit. Printed for each size: virtual time until all are
//! published, messages and bytes of that, processor time of hosts and rendezvous nodes together, the longest time from a
//! subscription until a topology manager is asked for its paths, in round trips; messages and bytes for one renewal of all
//! that is published, memory of all of them, and the exponent of each between this size and the one before.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark measures wall-clock time and prints it"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use tributary_content::Name;
use tributary_core::{Duration, NodeId, Random, Time, event::ResolverEvent};
use tributary_psi::{
    pubsub::{PubSub, PubSubConfig},
    resolver::rendezvous::{Rendezvous, RendezvousConfig, Target},
    wire::{Fid, Message, MissingScopes, PathRequest},
};
use tributary_transport::PathMetric;

const DELAY: Duration = Duration::from_millis(40);
const LEASE: Duration = Duration::from_secs(30);
/// As many as fit one scope by default are ten times that.
const SCOPE_ITEMS: u64 = 10_000;
const FETCHES: u32 = 100;
/// Hosts are numbered from here on.
const HOST: u64 = 1_000;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a number"));
    let mut next = |default: u64| arguments.next().unwrap_or(default);
    let (max, hosts, nodes) = (next(100_000), next(100), next(3));
    println!("{hosts} hosts, {nodes} rendezvous nodes, 40 ms each way; exponents against the row before");
    let heads = ["items", "time s", "messages", "bytes", "CPU ms", "RTT to a match", "renewal messages", "bytes", "MB"];
    println!("{}", heads.map(|head| format!("{head:>18}")).concat());
    let mut before: Option<[f64; 8]> = None;
    let mut items = 1_000;
    while items <= max {
        let row = Domain::new(hosts, nodes).measure(items);
        let cell = |(at, value): (usize, &f64)| {
            let grown = before.map_or(String::new(), |before| format!(" ({:.2})", (value / before[at]).log10()));
            format!("{:>18}", format!("{value:.1}{grown}"))
        };
        println!("{items:>18}{}", row.iter().enumerate().map(cell).collect::<String>());
        before = Some(row);
        items *= 10;
    }
}

struct Domain {
    now: Time,
    nodes: BTreeMap<NodeId, Rendezvous>,
    hosts: BTreeMap<NodeId, PubSub>,
    /// What is on its way: receiver, sender and message, by its arrival.
    mail: BTreeMap<(Time, u64), (NodeId, NodeId, Message)>,
    /// Who has something due, or has been told something.
    due: BTreeSet<(Time, NodeId)>,
    due_of: BTreeMap<NodeId, Time>,
    number: u64,
    messages: u64,
    bytes: u64,
    published: u64,
    refused: u64,
    asked: Vec<(Time, PathRequest)>,
}

impl Domain {
    fn new(hosts: u64, nodes: u64) -> Domain {
        let members: Vec<NodeId> = (1..=nodes).map(NodeId).collect();
        let rendezvous = |node: &NodeId| {
            let mut rendezvous = Rendezvous::new(RendezvousConfig::default(), *node, node.0 as u32);
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
            nodes: members.iter().map(rendezvous).collect(),
            hosts: (0..hosts).map(host).collect(),
            mail: BTreeMap::new(),
            due: BTreeSet::new(),
            due_of: BTreeMap::new(),
            number: 0,
            messages: 0,
            bytes: 0,
            published: 0,
            refused: 0,
            asked: Vec::new(),
        };
        let all: Vec<NodeId> = domain.nodes.keys().chain(domain.hosts.keys()).copied().collect();
        all.into_iter().for_each(|node| domain.collect(node));
        // Rendezvous nodes find each other.
        domain.run(Time::ZERO + Duration::from_secs(2));
        domain
    }
    fn measure(mut self, items: u64) -> [f64; 8] {
        let hosts = self.hosts.len() as u64;
        let resident = memory();
        let (begun, began) = (Instant::now(), self.now);
        for number in 0..items {
            let node = NodeId(HOST + number % hosts);
            let host = self.hosts.get_mut(&node).expect("it is there");
            host.publish(self.now, &name(number, hosts), vec![7; 400], 1_000, MissingScopes::Create);
        }
        let all: Vec<NodeId> = self.hosts.keys().copied().collect();
        all.into_iter().for_each(|node| self.collect(node));
        let counted = (self.messages, self.bytes);
        while self.published < items {
            self.step();
        }
        let time = self.now.since(began);
        let cpu = begun.elapsed();
        let counted = (self.messages - counted.0, self.bytes - counted.1);
        let slowest = self.fetch(items, hosts);
        let before = (self.messages, self.bytes);
        // What was published last is renewed first after a third of a lease.
        self.run(self.now + LEASE * 3);
        let renewals = 9.0;
        let held = memory() - resident;
        let publications: usize = self.nodes.values().map(|node| node.status().publications).sum();
        assert!(publications as u64 >= items, "{publications} of {items} stand");
        if self.refused > 0 {
            println!("{} publications were refused at first, with 8,192 requests under way at a node", self.refused);
        }
        [
            time.as_secs_f64(),
            counted.0 as f64,
            counted.1 as f64,
            cpu.as_secs_f64() * 1e3,
            slowest.as_secs_f64() / (DELAY * 2).as_secs_f64(),
            (self.messages - before.0) as f64 / renewals,
            (self.bytes - before.1) as f64 / renewals,
            held,
        ]
    }
    /// Subscribes items at random; the longest time until all that publish one are told to a topology manager.
    fn fetch(&mut self, items: u64, hosts: u64) -> Duration {
        let mut random = Random::new(1, 1);
        let subscriber = NodeId(HOST);
        let mut slowest = Duration::ZERO;
        for transfer in 0..FETCHES {
            let name = name(random.below(items), hosts);
            let began = self.now;
            let host = self.hosts.get_mut(&subscriber).expect("it is there");
            host.subscribe(began, &name, transfer, 4, PathMetric::Hops);
            self.collect(subscriber);
            let is_met = |(_, asked): &(Time, PathRequest)| asked.transfer == transfer && !asked.publishers.is_empty();
            while !self.asked.iter().any(is_met) {
                self.step();
                assert!(self.now.since(began) < Duration::from_secs(60), "a fetch finds nobody");
            }
            slowest = slowest.max(self.now.since(began));
            let host = self.hosts.get_mut(&subscriber).expect("it is there");
            host.unsubscribe(self.now, &name, transfer);
            self.collect(subscriber);
        }
        slowest
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
    /// Goes on to whatever comes next.
    fn step(&mut self) {
        self.now = self.now.max(self.next().expect("renewals never end"));
        if let Some(entry) = self.mail.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (to, from, message) = entry.remove();
            if let Some(node) = self.nodes.get_mut(&to) {
                node.handle_message(self.now, from, Fid::NONE, message);
            } else if let Some(host) = self.hosts.get_mut(&to) {
                host.handle_message(self.now, from, message);
            }
            return self.collect(to);
        }
        let Some((_, node)) = self.due.first().copied() else { return };
        if let Some(rendezvous) = self.nodes.get_mut(&node) {
            rendezvous.handle_timeout(self.now);
        } else if let Some(host) = self.hosts.get_mut(&node) {
            host.handle_timeout(self.now);
        }
        self.collect(node);
    }
    /// Sends what a node has to say.
    fn collect(&mut self, node: NodeId) {
        let mut out = Vec::new();
        let mut due = None;
        if let Some(rendezvous) = self.nodes.get_mut(&node) {
            while rendezvous.poll_event().is_some() {}
            while let Some((target, message)) = rendezvous.poll_message() {
                match (target, message) {
                    (Target::Node(to) | Target::Reply(to, _), message) => out.push((to, message)),
                    (Target::TopologyManagers, Message::PathRequest(request)) => self.asked.push((self.now, request)),
                    (Target::TopologyManagers, other) => panic!("a topology manager is sent {other:?}"),
                }
            }
            due = rendezvous.poll_timeout();
        } else if let Some(host) = self.hosts.get_mut(&node) {
            while let Some(event) = host.poll_event() {
                match event {
                    ResolverEvent::Published { .. } => self.published += 1,
                    // It says it again a second later.
                    ResolverEvent::Rejected { reason, .. } if reason.contains("requests_max") => self.refused += 1,
                    ResolverEvent::Rejected { name, reason, .. } => panic!("{name}: {reason}"),
                    _ => {}
                }
            }
            while let Some((to, message)) = host.poll_message() {
                out.push((to, message));
            }
            due = host.poll_timeout();
        }
        for (to, message) in out {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            (self.messages, self.bytes, self.number) =
                (self.messages + 1, self.bytes + bytes.len() as u64, self.number + 1);
            self.mail.insert((self.now + DELAY, self.number), (to, node, message));
        }
        let before = self.due_of.remove(&node);
        before.map(|at| self.due.remove(&(at, node)));
        if let Some(at) = due {
            self.due_of.insert(node, at);
            self.due.insert((at, node));
        }
    }
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
