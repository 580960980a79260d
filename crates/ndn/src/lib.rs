//! Named Data Networking (NDN) with PTP, a path-specified transport.
//!
//! One daemon is one [`NdnNode`]: a forwarder that speaks the packet format of NDN, and in it a producer and a consumer.
//! It is a [`tributary_core::Node`] for drivers and a [`tributary_transport::Endpoint`] for people.
//!
//! | paper (PTP) | what | module |
//! |---|---|---|
//! | | packet format 0.3, NDNLPv2, management protocol | [`wire`] |
//! | | FIB, PIT, content store, strategies, routes, management | [`router`] |
//! | §3 A, §4 A | probing Interests, tags recorded and followed (MPFP) | [`router`], [`router::labels`], [`wire::tag`] |
//! | §4 B | forwarding verification, acceleration base (FAB) | [`router::fab`] |
//! | §4 C, appendix | paths in use and their selection | [`receiver`], [`receiver::selection`] |
//! | §5 | a sub-flow per path, losses, windows (MPCCP) | [`tributary_transport`], see `SPEC.md` |
//! | | objects as segments that other programs fetch | [`naming`], [`sender`] |
//! | | certificates, trust anchors and schemas | [`trust`], [`wire::certificate`] |
//! | | own prefixes registered at neighbours | `registrar` (private) |
//!
//! `SPEC.md` maps the paper's requirements to modules and tests.
//!
//! # Example
//! A consumer and a producer on one wire:
//! ```
//! use tributary_content::{MemoryObject, MemoryOpener, SigningKey};
//! use tributary_core::{*, link::LinkConfig};
//! use tributary_ndn::{Config, NdnNode};
//! use tributary_sim::Network;
//! use tributary_transport::{Endpoint, FaceOptions, Fetch, PathMetric};
//!
//! let mut net = Network::new(1);
//! let producer = net.add_node(NdnNode::new(Config::new("producer", 1)));
//! let consumer = net.add_node(NdnNode::new(Config::new("consumer", 2)));
//! let wire = LinkConfig::new(Rate::from_mbps(100), Duration::from_millis(5));
//! net.connect((producer, FaceId(1)), (consumer, FaceId(1)), wire.clone(), wire);
//! for node in [producer, consumer] {
//!     net.with(node, |node, now| node.add_face(now, FaceId(1), FaceOptions { mtu: 1472, rate: None }));
//! }
//! net.with(consumer, |node, _| node.router_mut().add_route(&"/lab".parse().unwrap(), FaceId(1), 0));
//! let object = MemoryObject::new("/lab/file".parse().unwrap(), vec![7; 100_000], &SigningKey::from_secret(&[1; 32])).unwrap();
//! net.with(producer, |node, now| node.publish(now, Box::new(object)));
//! let opener = MemoryOpener::new();
//! let content = opener.content();
//! net.with(consumer, |node, now| node.fetch(now, Fetch {
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
    pub mod ids;
    pub mod naming;
    pub mod node;
    pub mod receiver;
    pub mod router;
    pub mod sender;
    pub mod trust;
    pub mod wire;
}
#[cfg(not(feature = "internals"))]
use internals::*;
#[cfg(feature = "internals")]
pub use internals::*;

pub mod config;
mod registrar;
mod stats;

pub use config::Config;
pub use ids::Nonce;
pub use naming::{Requested, packet_name, requested};
pub use node::{FACE_RECEIVER, FACE_SENDER, NdnNode};
pub use receiver::selection::SELECTIONS;
pub use router::{
    FaceProfile, InvalidPath, LinkService, ManagementTrust, RemoteRegistration, Transit,
    cs::POLICIES as CACHE_POLICIES, labels::LabelScheme, marking::MarkingRule, shaping::ShapingConfig,
    strategy::STRATEGIES,
};
pub use sender::Sender;
pub use trust::{Anchors, Schema, SchemaError, TrustAnchor, publisher_of, schema::SCHEMA_BYTES_MAX};
pub use wire::{
    Certificate, CertificateError, ContentType, Data, Interest, KeyLocator, LpPacket, MetaInfo, NameView,
    PACKET_BYTES_MAX, Secret, SecretError, SignKey, SignatureType, VerifyKey, lp::Origin, packet_type, tlv, types,
};
pub use wire::{certificate::key_name, secret::SIGNING_KEY};
