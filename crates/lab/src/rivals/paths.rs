//! The simplest scenario: one client and a server at the far end of each of some paths that share nothing.
use tributary_core::{
    Duration, Rate, Time,
    link::{LinkConfig, Loss},
};
use tributary_sim::{Connection, Network, NodeIndex};

use super::{
    content::Content,
    downloader::DownloadConfig,
    node::{Rival, RivalNode},
    plan::{DownloadOutcome, Plan, outcome, run_download},
};

/// A path to one server.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PathSpec {
    /// Rate, the same in both directions.
    pub rate: Rate,
    /// Round-trip time without queues.
    pub rtt: Duration,
    /// Packet loss probability, the same in both directions.
    pub loss: f64,
    /// When both directions are cut and mended.
    pub silent: Option<(Time, Time)>,
}

impl PathSpec {
    /// A path without loss that is never silent.
    pub fn new(rate: Rate, rtt: Duration) -> Self {
        PathSpec { rate, rtt, loss: 0.0, silent: None }
    }
    /// Either direction of the path. The queue holds one and a half times rate × round-trip time, at least 30 kB, as
    /// in the tests of our own transport.
    pub fn link(&self) -> LinkConfig {
        let mut link = LinkConfig::new(self.rate, self.rtt / 2);
        link.queue_bytes = (self.rate.bytes_in(self.rtt) * 3 / 2).max(30_000);
        if self.loss > 0.0 {
            link.loss = Loss::Bernoulli(self.loss);
        }
        link
    }
}

/// One client and one server per path, ready to run.
pub struct Paths {
    /// The network.
    pub net: Network<RivalNode>,
    /// The client.
    pub client: NodeIndex,
    /// The servers, one for each path.
    pub servers: Vec<NodeIndex>,
    /// The paths, from client to server.
    pub connections: Vec<Connection>,
}

impl Paths {
    /// A download of `bytes` bytes over `paths`.
    pub fn new(rival: Rival, bytes: u64, paths: &[PathSpec], config: DownloadConfig, seed: u64) -> Self {
        let content = Content { seed, bytes };
        let mut plan = Plan::new();
        let servers: Vec<_> = paths.iter().map(|_| plan.server(rival, content)).collect();
        let client = plan.client(rival, content, &servers, config);
        for (server, path) in servers.iter().zip(paths) {
            plan.connect(client, *server, path.link(), path.link());
        }
        let (mut net, connections) = plan.build(seed);
        for (connection, path) in connections.iter().zip(paths) {
            if let Some((down, up)) = path.silent {
                net.outage(*connection, down, up);
            }
        }
        Paths { net, client, servers, connections }
    }
    /// Runs until the download has ended or until `limit`.
    pub fn run(&mut self, limit: Time) -> DownloadOutcome {
        run_download(&mut self.net, self.client, limit);
        outcome(&self.net, self.client, &self.servers)
    }
}

/// A download of `bytes` bytes over `paths`, limited to one hour.
pub fn download(rival: Rival, bytes: u64, paths: &[PathSpec], config: DownloadConfig, seed: u64) -> DownloadOutcome {
    Paths::new(rival, bytes, paths, config, seed).run(Time::from_millis(3_600_000))
}
