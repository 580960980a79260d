//! A deterministic network simulator for [`Node`](tributary_core::Node)s.
//!
//! A [`Network`] holds nodes, and between them pairs of [`Link`](tributary_core::link::Link)s. It calls the same
//! [`pump`](tributary_core::pump()) as the real driver, so that nodes behave as they do there. It knows no protocol:
//! the type parameter is the type of nodes (`Box<dyn Node>` for a mixture).
//!
//! ```text
//!   Agenda: one entry per link and per node, ordered by (time, sequence)
//!      │ next
//!      ├─ link ──► poll_deliver ──► node.handle_datagram ─┐
//!      ├─ node ──► (timer) ───────────────────────────────┴► pump ──► links[face].enqueue, observer
//!      └─ action (a change of a link, a kill, a restart, a command of a test)
//! ```
//! The same seed and the same calls reproduce the same run; [`Network::trace_hash`] shows it.
//!
//! | part | module |
//! |---|---|
//! | nodes, links, faults, running | [`network`] |
//! | the earliest deadline | [`agenda`] |
//! | fingerprint of a run | [`trace`] |
//!
//! # Example
//! Two nodes that throw a ball, 10 ms apart:
//! ```
//! use tributary_core::{event::Event, link::LinkConfig, *};
//! use tributary_sim::Network;
//!
//! #[derive(Default)]
//! struct Player { caught: u32, ball: Option<(FaceId, Datagram)> }
//! impl Node for Player {
//!     fn handle_datagram(&mut self, _: Time, face: FaceId, ball: Datagram) {
//!         self.caught += 1;
//!         self.ball = Some((face, ball));
//!     }
//!     fn handle_timeout(&mut self, _: Time) {}
//!     fn poll_transmit(&mut self, _: Time, out: &mut TransmitBuf) -> Option<Transmit> {
//!         let (face, ball) = self.ball.take()?;
//!         out.push_datagram(ball);
//!         Some(Transmit { face })
//!     }
//!     fn poll_timeout(&self) -> Option<(Time, TimerId)> { None }
//!     fn poll_event(&mut self) -> Option<Event> { None }
//! }
//!
//! let mut net = Network::new(1);
//! let (ann, bob) = (net.add_node(Player::default()), net.add_node(Player::default()));
//! let link = LinkConfig { delay: Duration::from_millis(10), ..LinkConfig::default() };
//! net.connect((ann, FaceId(0)), (bob, FaceId(0)), link.clone(), link);
//! net.with(ann, |player, _| player.ball = Some((FaceId(0), Datagram::from(&b"ball"[..]))));
//! net.run_until(Time::from_millis(55));
//! assert_eq!((net.node(ann).caught, net.node(bob).caught), (2, 3));
//! ```

pub mod agenda;
pub mod network;
pub mod trace;

pub use network::{Connection, Footprint, LinkIndex, Network, NetworkStats, NodeIndex, PacketSeen, RunEnd};
pub use trace::{TraceDepth, TraceHash};
