//! Publish-Subscribe Internetworking (PSI) with mmFTP, its multisource and multipath file transfer.
//!
//! One daemon is one [`PsiNode`], in any mix of roles. It is a [`tributary_core::Node`] for drivers and a
//! [`tributary_transport::Endpoint`] for people.
//!
//! | paper | subject | module |
//! |---|---|---|
//! | §II-A, §II-B | scope graph, item ids, publish and subscribe | [`ids`], [`pubsub`] |
//! | §II-B | rendezvous nodes as a distributed hash table | [`resolver::rendezvous`] |
//! | §II-B, §III-D | topology manager: link state, k shortest paths, FIDs, shared links | [`resolver::topology`] |
//! | §II-B | LIPSIN forwarding by in-packet Bloom filters | [`router`] |
//! | §III-B1 | slow path: subscription, match, offers of FID pairs | [`pubsub`], [`resolver`], [`receiver`] |
//! | §III-B2 | fast path: requests that carry the route of the answer, stateless sources | [`receiver`], [`sender`] |
//! | §III-B2 | caches on the path | [`router::cache`] |
//! | §III-C, §III-D | error, flow and congestion control | [`tributary_transport`] |
//! | | reliable control messages | [`control`] |
//! | | capabilities: requests that only the topology manager could have made possible | [`capability`] |
//! | | packet formats | [`wire`] |
//!
//! `SPEC.md` maps the paper's requirements to modules and tests.
//!
//! # Example
//! Two nodes on one wire; the first is publisher, forwarder, rendezvous node and topology manager in one:
//! ```
//! use tributary_content::{MemoryObject, MemoryOpener, SigningKey};
//! use tributary_core::{*, link::LinkConfig};
//! use tributary_psi::{Config, PsiNode};
//! use tributary_sim::Network;
//! use tributary_transport::{Endpoint, FaceOptions, Fetch, PathMetric};
//!
//! let mut net = Network::new(1);
//! let mut config = Config::new("hub", 1);
//! (config.router, config.resolver, config.topology_manager) = (true, true, Some(1));
//! let hub = net.add_node(PsiNode::new(config));
//! let receiver = net.add_node(PsiNode::new(Config::new("receiver", 2)));
//! let wire = LinkConfig::new(Rate::from_mbps(100), Duration::from_millis(5));
//! net.connect((hub, FaceId(1)), (receiver, FaceId(1)), wire.clone(), wire);
//! for node in [hub, receiver] {
//!     net.with(node, |node, now| node.add_face(now, FaceId(1), FaceOptions { mtu: 1472, rate: None }));
//! }
//! let object = MemoryObject::new("/lab/file".parse().unwrap(), vec![7; 100_000], &SigningKey::from_secret(&[1; 32])).unwrap();
//! net.with(hub, |node, now| node.publish(now, Box::new(object)));
//! let opener = MemoryOpener::new();
//! let content = opener.content();
//! net.with(receiver, |node, now| node.fetch(now, Fetch {
//!     name: "/lab/file".parse().unwrap(),
//!     opener: Box::new(opener),
//!     rate_limit: None,
//!     paths_per_source: 4,
//!     metric: PathMetric::Hops,
//!     patience: Some(Duration::from_secs(5)),
//! }));
//! net.run_until(Time::from_millis(5_000));
//! assert_eq!(content.finished(&"/lab/file".parse().unwrap()).unwrap(), vec![7; 100_000]);
//! ```
#![no_std]
#![cfg_attr(
    not(feature = "internals"),
    allow(unreachable_pub, unused_imports, reason = "modules are public for fuzz targets, benchmarks and tests")
)]
extern crate alloc;

#[path = "."]
mod internals {
    pub mod capability;
    pub mod control;
    pub mod ids;
    pub mod node;
    pub mod pubsub;
    pub mod receiver;
    pub mod resolver;
    pub mod router;
    pub mod sender;
    pub mod wire;
}
#[cfg(not(feature = "internals"))]
use internals::*;
#[cfg(feature = "internals")]
pub use internals::*;

pub mod config;
mod stats;

#[cfg(test)]
mod network_tests;

pub use config::Config;
pub use ids::node_of_key;
pub use node::PsiNode;
pub use router::cache::{POLICIES as CACHE_POLICIES, PayloadMemory};
pub use wire::{DataHeader, FLAG_CACHED, Fid, Header, PacketType, StreamKey, TTL_MAX};

/// The topology manager's graph and paths, for programs that compute them without a node.
pub mod topology {
    pub use crate::{
        ids::Roles,
        resolver::topology::{FidBuilder, FidConfig, Graph, NodeIndex, PathConfig, Tree, select},
        wire::{Adjacency, FidKind, LinkState},
    };
}
