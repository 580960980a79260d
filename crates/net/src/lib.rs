//! The real driver: sockets, clock, threads, and links on real sockets.
//!
//! A [`Driver`] gives one [`Node`](tributary_core::Node) a thread, UDP sockets and a monotonic clock, and runs it
//! through the same [`pump`](tributary_core::pump()) as the simulator. It knows no protocol.
//!
//! ```text
//!               ┌───────────────────────── one thread ─────────────────────────┐
//!  UDP ──GRO──► │ pooled 64 KiB buffer ─► slices ─► node.handle_datagram       │
//!               │                                      │ pump                  │
//!  UDP ◄─GSO──  │ batch of equal datagrams ◄─ (Link) ◄───┴─► events ─► callback  │
//!               └───▲──────────────────────────────────────────────────────────┘
//!         wait, ns ─┘        DriverHandle::call ─► queue + wake-up
//! ```
//! | part | module |
//! |---|---|
//! | faces, listeners, limits | [`config`] |
//! | spawn, commands, stop | [`driver`] |
//! | the loop | `event_loop` (private) |
//! | faces by id and by address | `faces` (private) |
//! | one UDP socket with GSO and GRO | `socket` (private) |
//! | faces over TCP, Unix sockets and WebSocket | [`stream`] |
//! | batches of datagrams, receive buffers | `batch`, `buffers` (private) |
//! | counters | [`stats`] |
//! | errors | [`error`] |
//! | the only clock | [`clock`] |
//! | what operating systems do differently | [`platform`] |
//!
//! # Example
//! A node that echoes packets, on a port that the kernel chooses:
//! ```
//! use std::net::UdpSocket;
//! use tributary_core::{*, event::Event};
//! use tributary_net::{Driver, DriverConfig, ListenConfig};
//!
//! #[derive(Default)]
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
//!
//! let any_port = ListenConfig::new("127.0.0.1:0".parse()?);
//! let config = DriverConfig { listen: vec![any_port], ..DriverConfig::default() };
//! let driver = Driver::spawn(Echo::default, config, |_, _| {})?;
//!
//! let client = UdpSocket::bind("127.0.0.1:0")?;
//! client.send_to(b"hello", driver.listen_addrs()[0])?;
//! let mut answer = [0; 16];
//! assert_eq!(client.recv(&mut answer)?, 5);
//! driver.stop()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
pub mod bell;
mod buffers;
pub mod clock;
pub mod config;
pub mod disk;
pub mod driver;
mod ecn;
pub mod error;
mod event_loop;
mod faces;
pub mod owner;
pub mod platform;
mod socket;
pub mod stats;
pub mod stream;

pub use bell::Bell;
pub use clock::{Clock, wall_clock};
pub use config::{DriverConfig, FaceConfig, ListenConfig, UnixAccess};
pub use driver::{Driver, DriverHandle};
pub use ecn::EcnCounts;
pub use error::DriverError;
pub use stats::{DriverStats, FaceStats, StreamStats};
pub use stream::{Framing, PacketLength, StreamAddress, StreamFaceConfig};
