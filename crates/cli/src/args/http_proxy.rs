//! What `trib http-proxy` takes.
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use tributary_content::{Name, PublicKey};
use tributary_core::{ByteCount, Duration};

use super::common::{Peer, parse_timeout};

/// The two proxies.
#[derive(Subcommand, Debug)]
pub(crate) enum HttpProxy {
    /// The browsers' end: an HTTP proxy, or the site itself, on a local port
    Browser {
        /// The node's config
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        #[command(flatten)]
        peer: Peer,
        /// Where browsers connect to
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
        listen: std::net::SocketAddr,
        /// The name that the other end is attached to [default: /http/HOST of each request]
        #[arg(long, value_name = "NAME")]
        to: Option<Name>,
        /// Accept answers of this publisher's key only [default: any that is attached to the name]
        #[arg(long, value_name = "KEY")]
        publisher: Option<PublicKey>,
        /// How long to wait for an answer once the request has been sent
        #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_timeout)]
        timeout: Duration,
        /// How long a browser may take for the head of a request, or idle between two requests
        #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_timeout)]
        head_timeout: Duration,
        /// How long a browser may pause within the body of a request
        #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_timeout)]
        body_timeout: Duration,
        /// What it may use, how long it waits, and where it logs
        #[command(flatten)]
        options: HttpOptions,
    },
    /// The web server's end: takes requests for a name and asks an ordinary web server
    Server {
        /// The node's config
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        #[command(flatten)]
        peer: Peer,
        /// The web server, such as http://127.0.0.1:80
        #[arg(long, value_name = "URL")]
        origin: String,
        /// Target of tunnels, for https: a host and its port, such as 127.0.0.1:443; without it only tunnels to port
        /// 80 are opened, which lead to the web server
        #[arg(long, value_name = "HOST:PORT")]
        tunnel: Option<String>,
        /// The name to attach to, such as /http/www.example.org; may be repeated
        #[arg(long, value_name = "NAME", required = true)]
        name: Vec<Name>,
        /// How long the web server may take to answer
        #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_timeout)]
        timeout: Duration,
        /// What it may use, how long it waits, and where it logs
        #[command(flatten)]
        options: HttpOptions,
    },
}

/// Options of both proxies.
#[derive(Args, Debug)]
pub(crate) struct HttpOptions {
    /// How long a response or a tunnel may be silent, such as an event stream between two events
    #[arg(long, value_name = "TIME", default_value = "15min", value_parser = parse_timeout)]
    pub(crate) idle_timeout: Duration,
    /// Maximum number of concurrent connections of browsers, or of requests at the web server's end
    #[arg(long, value_name = "COUNT", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) connections: u32,
    /// Memory for bodies beyond 768 KiB for each connection
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    pub(crate) memory: ByteCount,
    /// Append a line for each request to this file; - is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) access_log: Option<PathBuf>,
    /// Format of these lines
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) log_format: LogFormat,
}

/// How lines of the access log look.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum LogFormat {
    /// As Apache and nginx write them, followed by the duration in seconds
    #[default]
    Combined,
    /// One JSON object a line
    Json,
}
