//! The contract between protocol state machines and the drivers that feed them.
//!
//! A protocol is a [`Node`]: a state machine that takes time and bytes and gives back datagrams,
//! deadlines and events. It owns no socket, clock, thread, file or source of entropy, so the
//! simulator and the real driver run the very same code through one [`pump()`].
//!
//! ```text
//!            handle_datagram            poll_transmit
//!   face ──────────────────►  Node  ──────────────────►  face
//!            handle_timeout     │       poll_timeout  ►  next deadline
//!   clock ──────────────────►   └────►  poll_event    ►  events
//! ```
//!
//! | what | module |
//! |---|---|
//! | nanosecond time, rates, byte counts | [`units`] |
//! | newtypes for faces, nodes, transfers, paths | [`ids`] |
//! | reference-counted packets, batches | [`datagram`] |
//! | the [`Node`] trait | [`node`] |
//! | the only caller of a node | [`pump`](mod@pump) |
//! | deadlines by key | [`timer`] |
//! | links as sans-I/O objects: queue, rate, loss, delay | [`link`] |
//! | places on the Earth | [`location`] |
//! | a node's reports | [`event`] |
//! | seeded random streams | [`random`] |
//! | keys in the order of their last use | [`recency`] |
//! | fields of packets | [`wire`] |
//! | peers' names, escaped for people | [`printable`] |
//! | structs with their first values | [`declared`](declared!) |
//!
//! # Example
//! A node that echoes each packet:
//! ```
//! use tributary_core::{*, event::Event};
//! struct Echo(Vec<(FaceId, Datagram)>);
//! impl Node for Echo {
//!     fn handle_datagram(&mut self, _: Time, face: FaceId, datagram: Datagram) { self.0.push((face, datagram)); }
//!     fn handle_timeout(&mut self, _: Time) {}
//!     fn poll_transmit(&mut self, _: Time, out: &mut TransmitBuf) -> Option<Transmit> {
//!         let (face, datagram) = self.0.pop()?;
//!         out.push_datagram(datagram);
//!         Some(Transmit { face })
//!     }
//!     fn poll_timeout(&self) -> Option<(Time, TimerId)> { None }
//!     fn poll_event(&mut self) -> Option<Event> { None }
//! }
//! let mut echo = Echo(Vec::new());
//! echo.handle_datagram(Time::ZERO, FaceId(7), Datagram::from(&b"hello"[..]));
//! let mut sent = Vec::new();
//! struct Out<'a>(&'a mut Vec<(FaceId, Vec<u8>)>);
//! impl Outlet for Out<'_> {
//!     fn transmit(&mut self, _: Time, transmit: Transmit, batch: &mut TransmitBuf) {
//!         for d in batch.drain() { self.0.push((transmit.face, d.to_vec())); }
//!     }
//!     fn event(&mut self, _: Time, _: Event) {}
//! }
//! pump(&mut echo, Time::ZERO, &mut Out(&mut sent), &mut TransmitBuf::new());
//! assert_eq!(sent, [(FaceId(7), b"hello".to_vec())]);
//! ```
#![no_std]
extern crate alloc;

mod budget;
pub mod datagram;
mod declared;
pub mod ecn;
pub mod event;
mod forwarded;
pub mod ids;
pub mod link;
pub mod location;
pub mod node;
pub mod printable;
pub mod pump;
pub mod random;
pub mod recency;
pub mod timer;
pub mod units;
pub mod wire;

pub use budget::Budget;
pub use datagram::{Datagram, DatagramBatch, HEAD_BYTES_MAX, Transmit, TransmitBuf};
pub use ecn::Ecn;
pub use ids::{EchoId, FaceId, NodeId, PathId, PeerKey, SourceId, TimerId, TransferId};
pub use location::{Location, LocationError};
pub use node::{FaceAddresses, FaceChange, FaceProtection, FaceRefusal, FaceRequest, Node, PeerPlace, Stranger};
pub use pump::{Outlet, pump};
pub use random::Random;
pub use recency::Recency;
pub use timer::TimerTable;
pub use units::{ByteCount, Duration, Rate, Time, earlier};
