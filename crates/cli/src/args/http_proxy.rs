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
        /// The only publisher's key whose answers are believed [default: that of whoever is attached to the name]
        #[arg(long, value_name = "KEY")]
        publisher: Option<PublicKey>,
        /// How long an answer is waited for once its request has been sent
        #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_timeout)]
        timeout: Duration,
        /// How long a browser may take to send the head of a request, or be idle between two requests
        #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_timeout)]
        head_timeout: Duration,
        /// How long a browser may send nothing of a request's body
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
        /// Where tunnels lead, for https: a host and its port, such as 127.0.0.1:443; without it none is opened but those to
        /// port 80, which lead to the web server
        #[arg(long, value_name = "HOST:PORT")]
        tunnel: Option<String>,
        /// The name to attach to, such as /http/www.example.org; several times if wanted
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

/// What both proxies can be told.
#[derive(Args, Debug)]
pub(crate) struct HttpOptions {
    /// How long a response or a tunnel may carry nothing, such as an event stream between two events
    #[arg(long, value_name = "TIME", default_value = "15min", value_parser = parse_timeout)]
    pub(crate) idle_timeout: Duration,
    /// Connections of browsers, or at the web server's end requests, at the same time at most
    #[arg(long, value_name = "COUNT", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) connections: u32,
    /// Memory for bodies beyond 768 KiB for each connection
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    pub(crate) memory: ByteCount,
    /// Append a line for each request to this file; - is the standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) access_log: Option<PathBuf>,
    /// How these lines look
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) log_format: LogFormat,
}

/// How lines of the access log look.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum LogFormat {
    /// As Apache and nginx write them, with the seconds that the request took at the end
    #[default]
    Combined,
    /// An object of JSON a line
    Json,
}
