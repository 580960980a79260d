//! Networks of rivals: hosts, routers and links, with routes and addresses filled in.
use std::{net::Ipv4Addr, sync::Arc};

use tributary_core::{FaceId, Time, link::LinkConfig};
use tributary_sim::{Connection, Network, NodeIndex, RunEnd};

use super::{
    content::Content,
    downloader::{DownloadConfig, SourceAddress, SourceCount},
    forward::IpRouter,
    ip::{address_of, ip_link, shortest_routes},
    node::{Rival, RivalNode},
};
use crate::page::Page;

/// A network to be.
///
/// Nodes are numbered in the order in which they are named, and keep their numbers in the [`Network`]; the faces of a
/// node are numbered from zero in the order of its links.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    nodes: Vec<Planned>,
    links: Vec<PlannedLink>,
}

#[derive(Clone, Debug)]
enum Planned {
    Router,
    Server { rival: Rival, content: Content },
    Client { rival: Rival, content: Content, servers: Vec<NodeIndex>, config: DownloadConfig },
    Browser { rival: Rival, content: Content, server: NodeIndex, page: Arc<Page>, start: Time },
}

#[derive(Clone, Debug)]
struct PlannedLink {
    a: (NodeIndex, FaceId),
    b: (NodeIndex, FaceId),
    a_to_b: LinkConfig,
    b_to_a: LinkConfig,
}

impl Plan {
    /// Nothing yet.
    pub fn new() -> Self {
        Plan::default()
    }
    /// A router.
    pub fn router(&mut self) -> NodeIndex {
        self.add(Planned::Router)
    }
    /// A mirror that serves `content`.
    pub fn server(&mut self, rival: Rival, content: Content) -> NodeIndex {
        self.add(Planned::Server { rival, content })
    }
    /// A host that fetches `content` from `servers`, which must use the same transport and have the same file.
    pub fn client(
        &mut self,
        rival: Rival,
        content: Content,
        servers: &[NodeIndex],
        config: DownloadConfig,
    ) -> NodeIndex {
        self.add(Planned::Client { rival, content, servers: servers.to_vec(), config })
    }
    /// A host that loads `page` from `server` from `start` on; the server must have [`content_of`](super::browser::content_of)
    /// the page.
    pub fn browser(
        &mut self,
        rival: Rival,
        content: Content,
        server: NodeIndex,
        page: &Arc<Page>,
        start: Time,
    ) -> NodeIndex {
        self.add(Planned::Browser { rival, content, server, page: Arc::clone(page), start })
    }
    /// Joins two nodes; `a_to_b` and `b_to_a` may be written as for our own datagrams, see [`ip_link`].
    ///
    /// Returns the two faces.
    pub fn connect(&mut self, a: NodeIndex, b: NodeIndex, a_to_b: LinkConfig, b_to_a: LinkConfig) -> (FaceId, FaceId) {
        let faces = (self.face_next(a), self.face_next(b));
        let (a_to_b, b_to_a) = (ip_link(a_to_b), ip_link(b_to_a));
        self.links.push(PlannedLink { a: (a, faces.0), b: (b, faces.1), a_to_b, b_to_a });
        faces
    }
    /// The network, with its connections in the order in which they were named.
    pub fn build(&self, seed: u64) -> (Network<RivalNode>, Vec<Connection>) {
        let index = |(node, face): (NodeIndex, FaceId)| (node.0 as usize, face);
        let links: Vec<_> = self.links.iter().map(|link| (index(link.a), index(link.b))).collect();
        let hosts: Vec<(usize, Ipv4Addr)> = (0..self.nodes.len()).map(|node| (node, address_of(node as u32))).collect();
        let tables = shortest_routes(self.nodes.len(), &links, &hosts);
        let mut net = Network::new(seed);
        for ((number, planned), routes) in (0..).zip(&self.nodes).zip(tables) {
            let own = address_of(number);
            let node = match planned {
                Planned::Router => RivalNode::Router(IpRouter::new(routes)),
                Planned::Server { rival, content } => rival.server(vec![own], routes, *content, seed),
                Planned::Client { rival, content, servers, config } => {
                    let source = |server: &NodeIndex| SourceAddress { remote: address_of(server.0), local: own };
                    let sources: Vec<_> = servers.iter().map(source).collect();
                    // A node is polled for packets as soon as it exists, and links come after nodes: a first packet at
                    // time zero would be lost, and cost a second.
                    let start = config.start.max(Time::from_nanos(1));
                    rival.client(routes, *content, &sources, DownloadConfig { start, ..config.clone() }, seed)
                }
                Planned::Browser { rival, content, server, page, start } => {
                    let source = SourceAddress { remote: address_of(server.0), local: own };
                    rival.browser(routes, (page, *content), source, (*start).max(Time::from_nanos(1)), seed)
                }
            };
            net.add_node(node);
        }
        let connect = |link: &PlannedLink| net.connect(link.a, link.b, link.a_to_b.clone(), link.b_to_a.clone());
        let connections = self.links.iter().map(connect).collect();
        (net, connections)
    }

    fn add(&mut self, node: Planned) -> NodeIndex {
        self.nodes.push(node);
        NodeIndex((self.nodes.len() - 1) as u32)
    }
    fn face_next(&self, node: NodeIndex) -> FaceId {
        FaceId(self.links.iter().filter(|link| link.a.0 == node || link.b.0 == node).count() as u32)
    }
}

/// Result of a download.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DownloadOutcome {
    /// From its start to its last byte; `None` if the last byte did not arrive.
    pub seconds: Option<f64>,
    /// Bytes that arrived and were found right.
    pub bytes: u64,
    /// Bytes that differ from the file.
    pub wrong_bytes: u64,
    /// The bytes from each server.
    pub sources: Vec<SourceCount>,
    /// What the servers sent again; see [`StackStats`](super::StackStats).
    pub retransmitted_bytes: u64,
    /// All bytes that the servers sent, IP headers included.
    pub sent_bytes: u64,
}

/// The progress of the download of `client` from `servers` in a network.
///
/// # Panics
/// If `client` is no client of a rival.
pub fn outcome(net: &Network<RivalNode>, client: NodeIndex, servers: &[NodeIndex]) -> DownloadOutcome {
    let download = net.node(client).download().expect("the node is a client");
    let seconds = download.started().zip(download.ended()).map(|(start, end)| end.since(start).as_secs_f64());
    let alive = servers.iter().filter(|server| net.is_alive(**server));
    let stats = alive.map(|server| net.node(*server).stack_stats());
    let (retransmitted_bytes, sent_bytes) =
        stats.fold((0, 0), |sum, stats| (sum.0 + stats.retransmitted_bytes, sum.1 + stats.packet_bytes));
    DownloadOutcome {
        seconds,
        bytes: download.received_bytes(),
        wrong_bytes: download.wrong_bytes(),
        sources: download.sources().to_vec(),
        retransmitted_bytes,
        sent_bytes,
    }
}

/// Runs a network until the download of `client` has ended or until `limit`.
pub fn run_download(net: &mut Network<RivalNode>, client: NodeIndex, limit: Time) -> RunEnd {
    let is_running =
        |net: &Network<RivalNode>| net.node(client).download().is_some_and(|download| download.ended().is_none());
    net.run_while(limit, is_running)
}
