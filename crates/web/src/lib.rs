//! HTTP(S) servers as sources: one file from several mirrors over several uplinks, without any node.
//!
//! ```text
//!   Wanted ──► probe each mirror ──► Bulk (transport): which flow fetches which chunks
//!                                      │ orders, cuts          ▲ heads, bytes, chunks, failures
//!                                      ▼                       │
//!                            a task per flow: ranges over one connection, bound to an uplink
//!                                                              │
//!                                     piece hashes ──► PartFile (net::disk) ──► checksum ──► the file's name
//! ```
//! | part | module |
//! |---|---|
//! | one file, from the first request to its final name | [`download`] |
//! | web servers as sources of a node's fetch | [`node`] |
//! | which file it is, when mirrors have different ones | `search` (private) |
//! | mirrors' descriptions of a file; the task of a connection; files of unknown length | `probing`, `flow`, `spool` (private) |
//! | observations about servers | `habits` (private) |
//! | requests: redirects, ranges, validators, time limits | [`request`] |
//! | connections: TLS, proxies, uplinks | [`client`] |
//! | checksums and piece hashes | [`checksum`] |
//! | Metalink 4 (RFC 5854), Metalink 3, fields of HTTP (RFC 6249) | [`metalink`] |
//! | requests of a gateway's clients, passed on | [`exchange`] |
//! | passwords and cookies from files | [`credentials`] |
//! | stores with the protocol of Amazon S3 | [`s3`] |
//! | an etcd cluster as the store of a resolver's names | [`etcd`] |
//!
//! This crate has the only HTTP client of the sources. [`tributary_transport::bulk`], which does not know HTTP, assigns
//! the chunks to mirrors.
pub mod checksum;
pub mod client;
pub mod credentials;
pub mod download;
pub mod etcd;
pub mod exchange;
mod flow;
mod habits;
pub mod metalink;
pub mod node;
pub mod origin;
mod probing;
pub mod request;
pub mod s3;
mod search;
mod spool;

pub use checksum::{Algorithm, Checksum, Pieces};
pub use client::{ClientOptions, Uplink};
pub use download::{Control, Outcome, Update, Wanted, WebError, fetch, fetch_document};
pub use metalink::Metalink;
pub use origin::Origin;
pub use request::shown;
pub use reqwest::{Url, header};
