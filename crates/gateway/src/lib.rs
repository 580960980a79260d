//! Objects of every family as a web server that any program can read from.
//!
//! ```text
//!  curl, apt, a browser ──HTTP──► server ──► session of an object ──wants──► node ──► sources
//!                                   ▲              │ cache file ◄── verified chunks ──┘
//!                                   └── body ◄─────┘
//! ```
//! All clients of an object share one session: one fetch, and one file with the chunks that have arrived. A client's
//! body wants the chunk that it waits for and a read-ahead after it; the node fetches the chunks that the bodies of all
//! clients want, most urgent first. A byte leaves only after its chunk was verified against the publisher's signature.
//!
//! | part | module |
//! |---|---|
//! | connections and their limits, requests, answers | [`server`] |
//! | the API of the node | [`api`] |
//! | the page that shows the API's data | `dashboard` |
//! | metrics for Prometheus | `metrics` |
//! | settings | [`config`] |
//! | paths to names, hosts to names | `place` |
//! | sessions of objects, and which object a name is in | `sessions` |
//! | folders: index, pages, JSON | `folder` |
//! | ranges and preconditions | `conditions` |
//! | bodies | `body` |
//! | files of web servers, fetched on a miss | `origin` |
pub mod api;
mod body;
mod conditions;
pub mod config;
mod dashboard;
mod folder;
mod metrics;
mod origin;
mod place;
pub mod server;
mod sessions;

pub use config::{GatewayConfig, Mirror};
pub use server::Gateway;
