//! Rivals in the same simulator: third-party code on the same links as ours.
//!
//! TCP is [smoltcp](tcp)'s and QUIC is [quinn](quic)'s; both are fed with virtual time and seeded randomness, and
//! nothing in their loss recovery or congestion control is changed. On top run today's usual programs: a server that
//! sends ranges of a file, and a client that fetches the file over one connection or as a download manager does, in
//! pieces over connections to several mirrors. Below are whole IPv4 packets, with every header at its true length, and
//! routers that forward them.
//!
//! ```text
//!   Downloader  Mirror          programs      downloader, mirror
//!   ─────────── Host ─────────  a node        host
//!   TcpStack    QuicStack       Stack         tcp, quic
//!   ────────── IPv4 ──────────  routes        ip, forward
//!   faces: IpRouter                           forward
//! ```
//! | part | module |
//! |---|---|
//! | name of a rival, nodes of a network | [`node`] |
//! | networks with routes filled in, outcome of a download | [`plan`] |
//! | disjoint paths, the scenario of most tables | [`paths`] |
//! | a download and its settings | [`downloader`] |
//! | a server | [`mirror`] |
//! | a browser | [`browser`] |
//! | routers | [`forward`] |
//! | downloads in a person's own scenario | [`guest`] |
//! | consumers of NDN without explicit paths | [`ndn`] |
//!
//! **Headers.** A link for our datagrams counts 28 bytes of IPv4 and UDP in addition to each and takes 1,472 bytes. A
//! link for rivals ([`ip_link`]) counts nothing and takes 1,500, because the headers are in the packets: 20 of IPv4,
//! and 20 of TCP or 8 of UDP. A rival that shares links with our nodes is a [`guest`] of their scenario.
//!
//! # Example
//! One megabyte over one QUIC connection:
//! ```
//! use tributary_core::{Duration, Rate};
//! use tributary_lab::rivals::{DownloadConfig, PathSpec, Rival, download};
//!
//! let path = PathSpec::new(Rate::from_mbps(20), Duration::from_millis(40));
//! let outcome = download(Rival::QuicCubic, 1_000_000, &[path], DownloadConfig::single(), 1);
//! assert_eq!((outcome.bytes, outcome.wrong_bytes), (1_000_000, 0));
//! assert!(outcome.seconds.is_some_and(|seconds| seconds > 0.4));
//! ```
pub mod browser;
pub mod content;
pub mod downloader;
pub mod forward;
pub mod guest;
pub mod host;
pub mod ip;
pub mod mirror;
pub mod ndn;
pub mod node;
pub mod paths;
pub mod plan;
pub mod quic;
pub mod stack;
pub mod tcp;

pub use browser::Browser;
pub use content::Content;
pub use downloader::{DownloadConfig, Downloader, SourceAddress, SourceCount};
pub use forward::{IpRouter, RouterStats};
pub use host::{Application, Host};
pub use ip::{MTU_BYTES, Routes, address_of, ip_link, shortest_routes};
pub use mirror::{Mirror, Range};
pub use node::{Rival, RivalNode};
pub use paths::{PathSpec, Paths, download};
pub use plan::{DownloadOutcome, Plan, outcome, run_download};
pub use stack::{Stack, StackStats};
