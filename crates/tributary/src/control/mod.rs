//! The control socket: how other processes reach a node.
//!
//! | what | module |
//! |---|---|
//! | the lines | [`protocol`] |
//! | a daemon and its end of the socket | `daemon`, `server` |
//! | a client's end | `client` |
//! | the running daemons | `discovery` |
mod client;
mod daemon;
mod discovery;
pub mod protocol;
mod server;

pub use client::SocketApi;
pub use daemon::Daemon;
pub use discovery::find_controls;
pub use server::ControlSocket;
