//! The arguments of `trib http-proxy`.
use clap::{Args, Subcommand, builder::TypedValueParser};
use std::path::PathBuf;
use tributary_content::{Name, PublicKey};
use tributary_core::{ByteCount, Duration};
use tributary_http::log::LogFormat;

use super::common::{Peer, one_of, parse_timeout};

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
        /// Address for browsers
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
        listen: std::net::SocketAddr,
        /// The server proxy's name [default: /http/HOST of each request]
        #[arg(long, value_name = "NAME")]
        to: Option<Name>,
        /// Accept only this publisher's key [default: any attached device]
        #[arg(long, value_name = "KEY")]
        publisher: Option<PublicKey>,
        /// Wait for an answer after the request
        #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_timeout)]
        timeout: Duration,
        /// Time limit of a request's head, and of the pause between requests
        #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_timeout)]
        head_timeout: Duration,
        /// Time limit of a pause in a request's body
        #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_timeout)]
        body_timeout: Duration,
        /// Limits, timeouts and logging
        #[command(flatten)]
        options: HttpOptions,
    },
    /// The web server's end: forwards requests for a name to an ordinary web server
    Server {
        /// The node's config
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        #[command(flatten)]
        peer: Peer,
        /// The web server, such as http://127.0.0.1:80
        #[arg(long, value_name = "URL")]
        origin: String,
        /// Target of tunnels, for https, such as 127.0.0.1:443 [default: only port 80, to the web server]
        #[arg(long, value_name = "HOST:PORT")]
        tunnel: Option<String>,
        /// The name to attach to, such as /http/www.example.org; may be repeated
        #[arg(long, value_name = "NAME", required = true)]
        name: Vec<Name>,
        /// Wait for the web server's answer
        #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_timeout)]
        timeout: Duration,
        /// Limits, timeouts and logging
        #[command(flatten)]
        options: HttpOptions,
    },
}

/// Options of both proxies.
#[derive(Args, Debug)]
pub(crate) struct HttpOptions {
    /// Time limit of silence in a response or tunnel
    #[arg(long, value_name = "TIME", default_value = "15min", value_parser = parse_timeout)]
    pub(crate) idle_timeout: Duration,
    /// Maximum number of concurrent connections, or of requests at the web server's end
    #[arg(long, value_name = "COUNT", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) connections: u32,
    /// Memory for bodies beyond 768 KiB for each connection
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    pub(crate) memory: ByteCount,
    /// Append a line for each request to this file; - is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) access_log: Option<PathBuf>,
    /// Format of these lines
    #[arg(long, value_name = "FORMAT", default_value = "combined", value_parser = log_format())]
    pub(crate) log_format: LogFormat,
}

fn log_format() -> impl TypedValueParser<Value = LogFormat> {
    let help = ["As Apache and nginx write them, plus the duration in seconds", "One JSON object a line"];
    one_of([("combined", LogFormat::Combined), ("json", LogFormat::Json)], help)
}
