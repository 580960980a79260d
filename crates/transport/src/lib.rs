//! What receiver-driven transports share: paths, windows, loss detection, chunk scheduling, end-game, verification.
//!
//! A [`Transfer`] is one fetch. A family (mmFTP over PSI, PTP over NDN) passes it offers of sources and paths, sends
//! the [`transfer::PacketRequest`]s that it polls, and passes it the packets that arrive; this crate does the rest.
//!
//! | topic | paper (mmFTP) | module |
//! |---|---|---|
//! | a fetch: choice of the object, requests in ascending order, end-game | §III-B2, §III-D | [`transfer`] |
//! | choice of the object of a name, and trust in its publisher | – | [`object_choice`] |
//! | the ledger of sources, and how long they may be silent | – | [`sources`], [`patience`] |
//! | the record of a fetch: its end, its bytes, its events | – | [`record`] |
//! | chunks that are verified, stored, counted | – | [`object_writer`] |
//! | a sub-flow per path: packets in flight, losses by order and by timer | §III-C, §III-D | `flow` |
//! | windows: slow start and congestion avoidance; a model of the path | §III-D | [`window`] |
//! | sub-flows that share a link | §III-D (hybrid co-operative model) | [`coupling`] |
//! | servers that deliver byte ranges: ranges per connection, takeover, blame | – | [`bulk`] |
//! | which traffic may use which face, and in which order of priority | – | [`policy`] |
//! | packets of an object | | [`layout`] |
//! | all fetches of a node | – | [`fetches`] |
//! | the publications of a node, and chunks that are read from a disk first | – | [`catalogue`] |
//! | commands and questions of a node | | [`endpoint`] |
//! | events, unsolicited faces and wake-ups of a node | | [`host`] |
//! | echo requests of a node | | [`echo`] |
//! | how large a datagram a link carries | – (RFC 8899) | [`path_mtu`] |
//! | how slow a link is, and how often control packets may use it | – | [`link_pace`] |
//!
//! # Example
//! A fetch over one perfect path:
//! ```
//! use tributary_content::{MemoryObject, MemoryOpener, ObjectReader, SigningKey};
//! use tributary_core::{NodeId, PathId, Time};
//! use tributary_transport::{*, layout::Layout, policy::Shared, transfer::*};
//! let (now, name) = (Time::ZERO, "/demo/hello".parse().unwrap());
//! let mut object = MemoryObject::new("/demo/hello".parse().unwrap(), vec![7; 5000], &SigningKey::from_secret(&[1; 32])).unwrap();
//! let opener = MemoryOpener::new();
//! let content = opener.content();
//! let mut transfer = Transfer::new(now, name, TransferConfig::default(), Box::new(opener), None, None);
//! let path = PathOffer { path: PathId(1), label: "receiver>source".into(), hops: 1, packet_bytes_max: 1000, shared_links: vec![], rtt: None, capacity: None, face: None };
//! let manifest = object.manifest().clone();
//! transfer.handle_offer(now, vec![SourceOffer { node: NodeId(1), label: "source".into(), manifest: manifest.encode(), paths: vec![path] }]);
//! let mut unlimited = Shared::default();
//! while let Some(request) = transfer.poll_request(now, &mut unlimited) {
//!     let layout = Layout::exact(&manifest, request.packet_bytes).unwrap();
//!     for packet in request.ranges.iter().flat_map(|&(first, count)| first..first + u32::from(count)) {
//!         let (_, offset, len) = layout.locate(packet).unwrap();
//!         let payload = &object.bytes()[offset as usize..][..len as usize];
//!         transfer.handle_data(now, &PacketData { path: request.path, number: request.number, packet, cache: None, payload });
//!     }
//! }
//! assert!(transfer.is_ended());
//! assert_eq!(content.finished(&"/demo/hello".parse().unwrap()).unwrap(), *object.bytes());
//! ```
#![no_std]
extern crate alloc;

mod assembly;
pub mod bulk;
pub mod catalogue;
pub mod config;
pub mod coupling;
pub mod echo;
pub mod endpoint;
pub mod fetches;
mod flow;
pub mod forwarding;
pub mod host;
pub mod layout;
pub mod limit;
pub mod link_pace;
pub mod messaging;
#[cfg(feature = "serde")]
mod milliseconds;
pub mod object_choice;
pub mod object_writer;
pub mod path_mtu;
pub mod patience;
pub mod policy;
pub mod ranges;
pub mod record;
mod reordering;
pub mod rtt;
pub mod sources;
pub mod transfer;
pub mod window;

pub use config::{ConfigError, ControllerKind, Coupling, Other, OtherController, OtherCoupling, TransferConfig};
pub use echo::Echoes;
pub use endpoint::{
    CacheStatus, Endpoint, FaceOptions, FaceSecurity, FaceStatus, Fetch, LinkStatus, NetworkStatus, NodeStatus,
    Obstacle, ObstacleKind, PathMetric,
};
pub use flow::Ranges;
pub use forwarding::Forwarding;
pub use link_pace::{Cadence, LinkPace, Ramp};
pub use messaging::Messaging;
pub use path_mtu::{MtuProbe, PathMtu};
pub use transfer::Transfer;

/// Packets from this number on belong to the hash list of an object, those below to its chunks.
pub const TREE_PACKET_FIRST: u32 = 1 << 31;
