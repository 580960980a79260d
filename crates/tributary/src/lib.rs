//! The façade: from a config to a running node, and the one interface that every front end uses.
//!
//! ```text
//!  config file ─► NodeConfig ─► registry ─► node ─► driver thread ─► events ─► hub
//!                  (errors with lines)                  ▲                       │
//!  front ─► Request ─► Api ──┬─ LocalApi ───────────────┘◄──────────────────────┘
//!                            └─ SocketApi ─► control socket ─► LocalApi of a daemon
//!        ◄─ Told ◄───────────┘
//! ```
//! | what | module |
//! |---|---|
//! | the config of a node | [`config`] |
//! | the families, the only match over them | [`registry`] |
//! | operations, in process or over a socket | [`api`] |
//! | everything that is told, as JSON objects | [`told`], [`views`] |
//! | sending, receiving what is sent, in-network storage | [`messages`] |
//! | the same for programs, in memory | [`mailbox`] |
//! | a node with its control socket | [`daemon`] |
//! | the lines of the control socket | [`protocol`] |
//! | errors for people | [`error`] |
//! | where files live | [`places`] |
//! | deliberate misbehaviour | [`fault`] |
//! | the same nodes in virtual time | [`simulation`] |
//!
//! # Example
//! ```no_run
//! use tributary::{Api, Flow, GetOptions, LocalApi, NodeConfig, Overwrite, Request, api::{Get, Output}};
//! let api = LocalApi::start(NodeConfig::load("receiver.toml".as_ref())?)?;
//! let get = Get {
//!     name: "/lab/big".into(),
//!     output: Output::Path("big".into()),
//!     publisher: None,
//!     limit_bits_per_second: None,
//!     patience_ms: None,
//!     options: GetOptions::default(),
//!     overwrite: Overwrite::EarlierFetch,
//! };
//! api.ask(Request::Get(get), None, &mut |told| {
//!     let line = told.to_line(); // {"event":"progress", …}, and {"event":"done", …} at last
//!     Flow::Continue
//! })?;
//! # Ok::<(), tributary::ApiError>(())
//! ```
mod any_path;
pub mod api;
pub mod config;
pub mod control;
pub mod daemon;
mod diagnosis;
pub mod echo;
pub mod error;
mod explain;
pub mod fault;
pub mod files;
mod hub;
mod inbox;
pub mod local;
mod lookups;
pub mod mailbox;
pub mod messages;
pub mod mf;
mod ndn;
mod occupied;
pub mod places;
pub mod protocol;
mod psi;
mod publications;
pub mod registry;
mod reload;
mod running;
pub mod simulation;
pub mod socket;
pub mod told;
pub mod views;
mod whole;

pub use api::{Api, Flow, Get, Output, Overwrite, Request, Term};
pub use config::{ConfigErrors, NodeConfig};
pub use control::ControlSocket;
pub use daemon::Daemon;
pub use error::{ApiError, ErrorKind};
pub use local::LocalApi;
pub use messages::{GetOptions, OnRepeat, Recv, Send};
pub use registry::Family;
pub use socket::SocketApi;
pub use told::Told;
pub use tributary_net::Clock;
