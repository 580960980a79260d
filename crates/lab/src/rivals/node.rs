//! The rivals as nodes of a network, by name.
use std::{net::Ipv4Addr, sync::Arc};

use tributary_core::{Datagram, FaceId, Node, Time, TimerId, Transmit, TransmitBuf, event::Event};

use super::{
    browser::Browser,
    content::Content,
    downloader::{DownloadConfig, Downloader, SourceAddress, WINDOW_BYTES},
    forward::IpRouter,
    host::Host,
    ip::{MTU_BYTES, Routes},
    mirror::Mirror,
    quic::{QuicController, QuicRole, QuicStack},
    stack::{Stack, StackStats},
    tcp::{TcpController, TcpRole, TcpStack},
};
use crate::page::Page;

/// A third-party transport with its congestion control.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rival {
    /// smoltcp's Reno.
    TcpReno,
    /// smoltcp's Cubic.
    TcpCubic,
    /// quinn's NewReno.
    QuicNewReno,
    /// quinn's Cubic.
    QuicCubic,
    /// quinn's BBR.
    QuicBbr,
}

impl Rival {
    /// All of them.
    pub const ALL: [Rival; 5] = [Rival::TcpReno, Rival::TcpCubic, Rival::QuicNewReno, Rival::QuicCubic, Rival::QuicBbr];

    /// The one of that name.
    pub fn by_name(name: &str) -> Option<Rival> {
        Rival::ALL.into_iter().find(|rival| rival.name() == name)
    }
    /// The name in tables and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Rival::TcpReno => "tcp-reno",
            Rival::TcpCubic => "tcp-cubic",
            Rival::QuicNewReno => "quic-newreno",
            Rival::QuicCubic => "quic-cubic",
            Rival::QuicBbr => "quic-bbr",
        }
    }
    /// The share of file bytes in a full packet of 1,500 bytes, all headers included: the most that a flow can get
    /// of a link's rate. TCP: 1,460. QUIC: 1,439 (UDP 8, header and packet
    /// number 11 or 12, stream frame 5 to 7, tag 16).
    pub fn payload_share(self) -> f64 {
        match self {
            Rival::TcpReno | Rival::TcpCubic => 1_460.0 / 1_500.0,
            Rival::QuicNewReno | Rival::QuicCubic | Rival::QuicBbr => 1_439.0 / 1_500.0,
        }
    }

    /// A host that serves `content` at `addresses`.
    pub fn server(self, addresses: Vec<Ipv4Addr>, routes: Routes, content: Content, seed: u64) -> RivalNode {
        let stack = self.stack(Role::Server, &addresses, (WINDOW_BYTES, MTU_BYTES), seed);
        RivalNode::Server(Box::new(Host::new(addresses, routes, stack, Mirror::new(content))))
    }
    /// A host with the addresses `local` that fetches `content` from `sources`.
    pub fn client(
        self,
        routes: Routes,
        content: Content,
        sources: &[SourceAddress],
        config: DownloadConfig,
        seed: u64,
    ) -> RivalNode {
        let mut addresses: Vec<_> = sources.iter().map(|source| source.local).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let stack = self.stack(Role::Client, &addresses, (config.window_bytes, MTU_BYTES), seed);
        RivalNode::Client(Box::new(Host::new(addresses, routes, stack, Downloader::new(content, sources, config))))
    }

    /// A host at `source.local` that loads `page` from `source.remote`, from `start` on.
    pub fn browser(
        self,
        routes: Routes,
        (page, content): (&Arc<Page>, Content),
        source: SourceAddress,
        start: Time,
        seed: u64,
    ) -> RivalNode {
        let stack = self.stack(Role::Client, &[source.local], (WINDOW_BYTES, MTU_BYTES), seed);
        let browser = Browser::new(page, content, source, start);
        RivalNode::Browser(Box::new(Host::new(vec![source.local], routes, stack, browser)))
    }

    pub(super) fn stack(self, role: Role, addresses: &[Ipv4Addr], sizes: (usize, u32), seed: u64) -> Box<dyn Stack> {
        let tcp = |controller| -> Box<dyn Stack> {
            let role = match role {
                Role::Server => TcpRole::Server,
                Role::Client => TcpRole::Client,
            };
            Box::new(TcpStack::new(role, addresses, controller, sizes, seed))
        };
        let quic = |controller| -> Box<dyn Stack> {
            let role = match role {
                Role::Server => QuicRole::Server,
                Role::Client => QuicRole::Client,
            };
            Box::new(QuicStack::new(role, addresses[0], controller, sizes, seed))
        };
        match self {
            Rival::TcpReno => tcp(TcpController::Reno),
            Rival::TcpCubic => tcp(TcpController::Cubic),
            Rival::QuicNewReno => quic(QuicController::NewReno),
            Rival::QuicCubic => quic(QuicController::Cubic),
            Rival::QuicBbr => quic(QuicController::Bbr),
        }
    }
}

/// Which end.
#[derive(Clone, Copy)]
pub(super) enum Role {
    Server,
    Client,
}

/// A node of a rival's network.
pub enum RivalNode {
    /// A mirror.
    Server(Box<Host<Mirror>>),
    /// A download.
    Client(Box<Host<Downloader>>),
    /// A page load.
    Browser(Box<Host<Browser>>),
    /// Something in between.
    Router(IpRouter),
}

impl RivalNode {
    /// The download of a client.
    pub fn download(&self) -> Option<&Downloader> {
        match self {
            RivalNode::Client(host) => Some(host.application()),
            RivalNode::Server(_) | RivalNode::Browser(_) | RivalNode::Router(_) => None,
        }
    }
    /// What a host has sent; nothing for a router.
    pub fn stack_stats(&self) -> StackStats {
        match self {
            RivalNode::Server(host) => host.stack_stats(),
            RivalNode::Client(host) => host.stack_stats(),
            RivalNode::Browser(host) => host.stack_stats(),
            RivalNode::Router(_) => StackStats::default(),
        }
    }
    fn node(&self) -> &dyn Node {
        match self {
            RivalNode::Server(host) => &**host,
            RivalNode::Client(host) => &**host,
            RivalNode::Browser(host) => &**host,
            RivalNode::Router(router) => router,
        }
    }
    fn node_mut(&mut self) -> &mut dyn Node {
        match self {
            RivalNode::Server(host) => &mut **host,
            RivalNode::Client(host) => &mut **host,
            RivalNode::Browser(host) => &mut **host,
            RivalNode::Router(router) => router,
        }
    }
}

impl Node for RivalNode {
    fn handle_datagram(&mut self, now: Time, face: FaceId, datagram: Datagram) {
        self.node_mut().handle_datagram(now, face, datagram);
    }
    fn handle_timeout(&mut self, now: Time) {
        self.node_mut().handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        self.node_mut().poll_transmit(now, out)
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        self.node().poll_timeout()
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.node_mut().poll_event()
    }
}
