//! Rivals on the links of a scenario: their times for the download that one of ours makes there.
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};
use tributary_core::{
    Duration, Time,
    link::{LinkChange, LinkState},
};
use tributary_sim::{Connection, Network, NodeIndex};

use crate::{
    page::Page,
    rivals::{Content, DownloadConfig, Plan, Rival, RivalNode, browser::content_of, outcome, run_download},
    simulation::{Direction, Fault, Scenario},
};

/// The rivals that stand in the tables: the commonest today (twice, because smoltcp's loss recovery is the plainest that
/// there is and quinn's is not), and the one that loss does not fool.
pub const RIVALS: [Rival; 3] = [Rival::TcpCubic, Rival::QuicCubic, Rival::QuicBbr];

/// Seconds that a rival takes for `bytes` bytes from `sources` to `receiver`, starting at `start`: over one connection
/// for one source, like a download manager for several. `None` if bytes were wrong or did not all arrive.
///
/// # Panics
/// As [`RivalDownload::new`].
pub fn seconds(
    rival: Rival,
    scenario: &Scenario,
    sources: &[&str],
    receiver: &str,
    bytes: u64,
    start: Time,
) -> Option<f64> {
    RivalDownload::new(rival, scenario, sources, receiver, bytes, start).seconds(scenario.limit)
}

/// Seconds in which a browser at `receiver` loads `page` from `server` over a rival, from `start` on, `None` if it does
/// not end in time; and unaccounted packets of all links.
pub fn page_seconds(
    rival: Rival,
    scenario: &Scenario,
    server: &str,
    receiver: &str,
    page: &Arc<Page>,
    start: Time,
) -> (Option<f64>, u64) {
    let content = content_of(page, scenario.seed);
    let mut plan = Plan::new();
    let from = plan.server(rival, content);
    let client = plan.browser(rival, content, from, page, start);
    let (mut net, _) = network(scenario, plan, BTreeMap::from([(server, from), (receiver, client)]));
    let ended = |net: &Network<RivalNode>| match net.node(client) {
        RivalNode::Browser(host) => host.application().ended(),
        RivalNode::Server(_) | RivalNode::Client(_) | RivalNode::Router(_) => None,
    };
    net.run_while(scenario.limit, |net| ended(net).is_none());
    (ended(&net).map(|end| end.since(start).as_secs_f64()), unaccounted(&net))
}
fn unaccounted(net: &Network<RivalNode>) -> u64 {
    net.links().map(|(.., link)| link.stats().unaccounted_packets(link.in_flight())).sum()
}
/// One connection from `start` on, with a receive window made to measure if it is TCP.
fn measured(rival: Rival, scenario: &Scenario, source: &str, receiver: &str, start: Time) -> DownloadConfig {
    let mut config = DownloadConfig { start, ..DownloadConfig::single() };
    if let (Rival::TcpReno | Rival::TcpCubic, Some(window)) = (rival, window_of(scenario, source, receiver)) {
        config.window_bytes = window;
    }
    config
}
/// A receive window that fills the path from `source` to `receiver`, the one with the fewest links, and half of the
/// queue before its narrowest link: with a larger one smoltcp, which recovers one loss a round trip, loses a queue's
/// worth of packets at the end of each slow start, and stays at a third of a long path for minutes; Linux, which uses
/// SACK, does not. Setting it takes knowledge of the path. `None` if no path has a limit.
fn window_of(scenario: &Scenario, source: &str, receiver: &str) -> Option<usize> {
    let mut reached = BTreeMap::from([(source, Vec::new())]);
    let mut queue = VecDeque::from([source]);
    while let Some(at) = queue.pop_front() {
        for link in &scenario.links {
            let [a, b] = [&link.ends[0], &link.ends[1]].map(String::as_str);
            for (from, to, config) in [(a, b, (&link.forward, &link.backward)), (b, a, (&link.backward, &link.forward))]
            {
                if from == at && !reached.contains_key(to) {
                    let path = reached[at].iter().copied().chain([config]).collect();
                    reached.insert(to, path);
                    queue.push_back(to);
                }
            }
        }
    }
    let path = reached.get(receiver)?;
    let round_trip = path.iter().fold(Duration::ZERO, |sum, (there, back)| sum + there.delay + back.delay);
    let (rate, narrowest) =
        path.iter().filter_map(|(there, _)| Some((there.rate?, there))).min_by_key(|(rate, _)| *rate)?;
    Some((rate.bytes_in(round_trip) + narrowest.queue_bytes / 2) as usize)
}

/// The links of a scenario between hosts that are placed, and routers everywhere else.
fn network<'a>(
    scenario: &'a Scenario,
    mut plan: Plan,
    mut nodes: BTreeMap<&'a str, NodeIndex>,
) -> (Network<RivalNode>, Vec<Connection>) {
    for node in &scenario.nodes {
        nodes.entry(&node.label).or_insert_with(|| plan.router());
    }
    for link in &scenario.links {
        let [a, b] = [&link.ends[0], &link.ends[1]].map(|end| nodes[end.as_str()]);
        plan.connect(a, b, link.forward.clone(), link.backward.clone());
    }
    plan.build(scenario.seed)
}

/// A rival's download on the links of a scenario, with the scenario's queues, congestion and faults. A publisher that
/// stops serving becomes an unreachable server, because a connection that stays open and silent is equivalent for its
/// client.
pub struct RivalDownload {
    net: Network<RivalNode>,
    client: NodeIndex,
    servers: Vec<NodeIndex>,
    start: Time,
    bytes: u64,
}

impl RivalDownload {
    /// Puts a client at `receiver` and a server at each of `sources`; the other nodes are routers.
    ///
    /// # Panics
    /// If a name in the scenario means nothing, or it has a fault that would compare nothing: a killed router.
    pub fn new(
        rival: Rival,
        scenario: &Scenario,
        sources: &[&str],
        receiver: &str,
        bytes: u64,
        start: Time,
    ) -> RivalDownload {
        let config = if sources.len() == 1 { DownloadConfig::single() } else { DownloadConfig::default() };
        Self::configured(rival, scenario, sources, receiver, bytes, DownloadConfig { start, ..config })
    }
    /// The same from one source; TCP has a receive window made to measure for the path.
    ///
    /// # Panics
    /// As [`RivalDownload::new`].
    pub fn measured(
        rival: Rival,
        scenario: &Scenario,
        source: &str,
        receiver: &str,
        bytes: u64,
        start: Time,
    ) -> RivalDownload {
        Self::configured(
            rival,
            scenario,
            &[source],
            receiver,
            bytes,
            measured(rival, scenario, source, receiver, start),
        )
    }
    fn configured(
        rival: Rival,
        scenario: &Scenario,
        sources: &[&str],
        receiver: &str,
        bytes: u64,
        config: DownloadConfig,
    ) -> RivalDownload {
        let start = config.start;
        let content = Content { seed: scenario.seed, bytes };
        let mut plan = Plan::new();
        let mut nodes = BTreeMap::new();
        let servers: Vec<_> = sources.iter().map(|_| plan.server(rival, content)).collect();
        nodes.extend(sources.iter().copied().zip(servers.iter().copied()));
        let client = plan.client(rival, content, &servers, config);
        nodes.insert(receiver, client);
        let (mut net, connections) = network(scenario, plan, nodes);
        for planned in &scenario.faults {
            let (label, state) = match &planned.fault {
                Fault::StopServing { node } => (node, LinkState::Down),
                Fault::ServeAgain { node } => (node, LinkState::Up),
                Fault::Link { link, direction, change } => {
                    let index = scenario.links.iter().position(|of| of.name == *link).expect("the scenario is right");
                    let (connection, change) = (connections[index], change.clone());
                    match direction {
                        Direction::Both => net.change_at(planned.at, connection, change),
                        Direction::Forward => net.change_link_at(planned.at, connection.a_to_b, change),
                        Direction::Backward => net.change_link_at(planned.at, connection.b_to_a, change),
                    }
                    continue;
                }
                other => panic!("no rival is compared under {other:?}"),
            };
            for (link, connection) in scenario.links.iter().zip(&connections) {
                if link.ends.contains(label) {
                    net.change_at(planned.at, *connection, LinkChange::State(state));
                }
            }
        }
        RivalDownload { net, client, servers, start, bytes }
    }
    /// Runs it to its end or until `limit`; returns the seconds from its start to its last byte.
    pub fn seconds(&mut self, limit: Time) -> Option<f64> {
        run_download(&mut self.net, self.client, limit);
        let outcome = outcome(&self.net, self.client, &self.servers);
        outcome.seconds.filter(|_| outcome.bytes == self.bytes && outcome.wrong_bytes == 0)
    }
    /// The same, and the bytes received by the time since its start, sampled every `interval`.
    pub fn seconds_and_progress(&mut self, limit: Time, interval: Duration) -> (Option<f64>, Vec<(f64, u64)>) {
        let mut progress = Vec::new();
        let mut until = self.start;
        loop {
            run_download(&mut self.net, self.client, until.min(limit));
            let download = self.net.node(self.client).download().expect("the node is a client");
            progress.push((self.net.now().since(self.start).as_secs_f64(), download.received_bytes()));
            if download.ended().is_some() || until >= limit {
                return (self.seconds(limit), progress);
            }
            until += interval;
        }
    }
    /// Unaccounted packets of all links; see
    /// [`LinkOutcome::unaccounted_packets`](crate::simulation::LinkOutcome::unaccounted_packets).
    pub fn unaccounted_packets(&self) -> u64 {
        unaccounted(&self.net)
    }
}

/// One of several downloads at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Download<'a> {
    /// The node with the file.
    pub source: &'a str,
    /// Who fetches it; each receiver has one download.
    pub receiver: &'a str,
    /// Its length; all downloads from one source have the same.
    pub bytes: u64,
    /// Start time.
    pub start: Time,
}

/// Several downloads of a rival on the links of a scenario, each over one connection, TCP's with a receive window made to
/// measure. Faults of the scenario do not happen.
pub struct Together {
    net: Network<RivalNode>,
    /// Client, server and bytes of each.
    downloads: Vec<(NodeIndex, NodeIndex, u64)>,
}

impl Together {
    /// Puts clients and servers at their places; the other nodes are routers.
    ///
    /// # Panics
    /// If a name means nothing.
    pub fn new(rival: Rival, scenario: &Scenario, downloads: &[Download<'_>]) -> Together {
        let (mut plan, mut nodes) = (Plan::new(), BTreeMap::new());
        let mut placed = Vec::new();
        for Download { source, receiver, bytes, start } in downloads {
            let content = Content { seed: scenario.seed, bytes: *bytes };
            let server = *nodes.entry(*source).or_insert_with(|| plan.server(rival, content));
            let client = plan.client(rival, content, &[server], measured(rival, scenario, source, receiver, *start));
            nodes.insert(receiver, client);
            placed.push((client, server, *bytes));
        }
        let (net, _) = network(scenario, plan, nodes);
        Together { net, downloads: placed }
    }
    /// Runs until the download of that number has ended or until `limit`; returns the seconds from its start to its
    /// last byte.
    pub fn seconds(&mut self, number: usize, limit: Time) -> Option<f64> {
        let (client, server, bytes) = self.downloads[number];
        run_download(&mut self.net, client, limit);
        let outcome = outcome(&self.net, client, &[server]);
        outcome.seconds.filter(|_| outcome.bytes == bytes && outcome.wrong_bytes == 0)
    }
    /// Runs until `time`.
    pub fn run_until(&mut self, time: Time) {
        self.net.run_until(time);
    }
    /// Bytes received of each.
    pub fn received(&self) -> Vec<u64> {
        let of = |client: NodeIndex| self.net.node(client).download().map_or(0, |download| download.received_bytes());
        self.downloads.iter().map(|(client, ..)| of(*client)).collect()
    }
    /// Bytes that the server of that download has sent, IP headers included.
    pub fn sent_bytes(&self, number: usize) -> u64 {
        let (client, server, _) = self.downloads[number];
        outcome(&self.net, client, &[server]).sent_bytes
    }
    /// The time.
    pub fn now(&self) -> Time {
        self.net.now()
    }
    /// Unaccounted packets of all links.
    pub fn unaccounted_packets(&self) -> u64 {
        unaccounted(&self.net)
    }
}
