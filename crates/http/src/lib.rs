//! HTTP at both ends, MFTP between (paper MFTP §5.2, §5.3: MF-HTTP-MF proxy).
//!
//! ```text
//!  browser, curl ──HTTP──► BrowserProxy ══request══► (MobilityFirst) ══► OriginProxy ──HTTP──► web server
//!                                       ◄══response══
//! ```
//! A request and its response are an exchange: a stream of bytes in each direction, cut into segments. Each segment is
//! an object: signed, verified before it counts, moved hop by hop, and stored by the network in the receiver's absence.
//! Objects have no order between them, so no exchange waits for another. A stream buffers only as much as its reader
//! has granted ([`config`]), so bodies of any size need little memory.
//!
//! hyper reads and writes HTTP/1.1 at both ends; the proxies follow RFC 9110 §7.6 and RFC 9112.
//!
//! | what | module |
//! |---|---|
//! | messages between the proxies, and frames in streams | [`exchange`] |
//! | the two streams of an exchange: order, window, memory | `stream` |
//! | messages in and out of the messenger, and who they are from | `messages` |
//! | the browser's side | [`browser`] |
//! | the web server's side | [`origin`] |
//! | bodies out of and into streams | `body` |
//! | the tunnels of `CONNECT` and `Upgrade`, for https and WebSockets | `tunnel` |
//! | forwarded fields, `Via` | `fields` |
//! | interim responses (1xx) to browsers | `interim` |
//! | `Max-Forwards` | `local` |
//! | limits and timeouts | [`config`] |
//! | the access log | [`log`] |
mod body;
pub mod browser;
pub mod config;
pub mod exchange;
mod fields;
mod interim;
mod local;
pub mod log;
mod messages;
pub mod origin;
mod stream;
mod tunnel;

pub use browser::BrowserProxy;
pub use messages::MESSAGE_BYTES_MAX;
pub use origin::OriginProxy;
