//! The façade: from a config to a running node, and the one interface that every front end uses.
//!
//! ```text
//!  config file ─► NodeConfig ─► families ─► node ─► driver thread ─► events ─► bus
//!                  (errors with lines)                  ▲                       │
//!  front ─► Request ─► Api ──┬─ LocalApi ───────────────┘◄──────────────────────┘
//!                            └─ SocketApi ─► control socket ─► LocalApi of a daemon
//!        ◄─ Notice ◄───────────┘
//! ```
//! | what | module |
//! |---|---|
//! | requests, and carrying them out in process or over a socket | [`request`], [`api`] |
//! | notices: everything that is reported, as JSON objects | [`notice`], [`views`] |
//! | errors for people | [`error`] |
//! | the config of a node | [`config`] |
//! | the families, the only match over them | [`families`] |
//! | messages in memory, for programs | [`messenger`] |
//! | daemons, their control sockets and clients | [`control`] |
//! | where files live | [`paths`] |
//! | how much is logged | [`log`] |
//! | deliberate misbehaviour | [`fault`] |
//! | the same nodes for a simulator | [`simulated`] |
//!
//! # Example
//! ```no_run
//! use tributary::{Api, Flow, Get, LocalApi, NodeConfig, Output, Request};
//! let api = LocalApi::start(NodeConfig::load("receiver.toml".as_ref())?)?;
//! let get = Get::new("/lab/big", Output::Path("big".into()));
//! api.ask(Request::Get(get), None, &mut |notice| {
//!     let line = notice.to_line(); // {"event":"progress", …}, and {"event":"done", …} at last
//!     Flow::Continue
//! })?;
//! # Ok::<(), tributary::ApiError>(())
//! ```
pub mod api;
pub mod authority;
pub mod config;
mod config_file;
pub mod control;
pub mod error;
pub mod families;
pub mod family;
pub mod fault;
mod local;
pub mod log;
pub mod messenger;
mod node;
pub mod notice;
mod operations;
mod path_serde;
pub mod paths;
pub mod preflight;
pub mod request;
pub mod simulated;
mod state_file;
pub mod views;

pub use api::{Api, Flow, Notify};
pub use config::{ConfigErrors, NodeConfig};
pub use control::{ControlSocket, Daemon, SocketApi};
pub use error::{ApiError, ErrorKind, spawn};
pub use families::{Credential, key_chain};
pub use family::Family;
pub use local::LocalApi;
pub use node::{
    files::load_key, log_limit::warn_bounded, membership::time_of_day, mirrors::uplink_of, peer_keys::accept_key,
};
pub use notice::Notice;
pub use request::{Get, GetOptions, OnRepeat, Output, Overwrite, Recv, Request, Sealed, Send, Term};
pub use tributary_net::Clock;
