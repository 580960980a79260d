//! MobilityFirst with MFTP, its hop-by-hop transport for mobile and disconnected hosts.
//!
//! One daemon is one [`MfNode`], in any mix of roles. It is a [`tributary_core::Node`] for drivers and a
//! [`tributary_transport::Endpoint`] for people.
//!
//! | paper | what | module |
//! |---|---|---|
//! | §3 | GUIDs, addresses, services | [`ids`] |
//! | §3 | global name resolution: signed records, replicas, watches | [`resolver`] |
//! | §3.1 | chunks of an object, and their reassembly | [`sender`], [`reassembly`] |
//! | §3.2.1, §3.4.1 | hop-by-hop chunk transfer: CSYN, CACK, window | [`link`] |
//! | §3.2.2, §3.4.2 | end-to-end reliability and flow control | [`sender`], [`receiver`] |
//! | §3.3 | storage proxy | [`router::proxy`] |
//! | §3.3, §3.4.3 | late binding, head-of-line relief | [`router`] |
//! | §3.5 | multicast: resolution of groups, requests aggregated by proxies | `groups`, `relay` |
//! | | link state with SETT and LETT | [`router::link_state`] |
//! | | packet formats | [`wire`] |
//!
//! `SPEC.md` maps the paper's requirements to modules and tests.
//!
//! # Example
//! Two nodes on one wire; the first is publisher, router and name server in one:
//! ```
//! use tributary_content::{MemoryObject, MemoryOpener, SigningKey};
//! use tributary_core::{*, link::LinkConfig};
//! use tributary_mf::{Config, MfNode};
//! use tributary_sim::Network;
//! use tributary_transport::{Endpoint, FaceOptions, Fetch, PathMetric};
//!
//! let mut net = Network::new(1);
//! let mut config = Config::new("hub", 1);
//! (config.router, config.resolver) = (true, true);
//! let hub = net.add_node(MfNode::new(config));
//! let receiver = net.add_node(MfNode::new(Config::new("receiver", 2)));
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
//!     paths_per_source: 1,
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
#[cfg(test)]
extern crate std;

#[path = "."]
mod internals {
    pub mod link;
    pub mod node;
    pub mod payload;
    pub mod reassembly;
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

mod anycast;
pub mod config;
mod custody;
mod groups;
pub mod ids;
mod listing;
mod relay;
mod reports;
mod stats;

pub use config::Config;
pub use link::{Forwarding, PartKey, Partials, Slot};
pub use node::MfNode;
pub use resolver::{Asker, Records, Replica};
pub use router::{
    StoreReason,
    proxy::{Holding, Kept, Proxy},
};
pub use sender::SendOptions;
pub use wire::{
    ChunkHeader, ChunkKind, Class, DataHeader, DataTag, Flags, NameMessage, NameRecord, Readers, RecordBody,
    Reliability, Statement,
    names::{MEMBERS_MAX, OWN_LABEL_BYTES_MAX, READERS_MAX},
};
