//! Where a stream face leads to, or where one is waited for.
use std::{
    fmt, io,
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
    str::FromStr,
};

use socket2::SockAddr;
use tributary_core::PeerPlace;

/// An address of a stream, written as a URI: `tcp://127.0.0.1:6363`, `unix:///run/node.sock`, `ws://[::1]:9696`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StreamAddress {
    /// TCP; packets follow each other without anything between them.
    Tcp(SocketAddr),
    /// A Unix stream socket; likewise.
    Unix(PathBuf),
    /// WebSocket over TCP; each binary message is one packet (RFC 6455).
    WebSocket(SocketAddr),
}

impl StreamAddress {
    pub(super) fn socket_address(&self) -> io::Result<SockAddr> {
        match self {
            StreamAddress::Tcp(address) | StreamAddress::WebSocket(address) => Ok((*address).into()),
            StreamAddress::Unix(path) => SockAddr::unix(path),
        }
    }
    /// Where whoever has this address is: a Unix socket and a loopback address do not leave the machine.
    pub fn place(&self) -> PeerPlace {
        match self {
            StreamAddress::Unix(_) => PeerPlace::ThisMachine,
            StreamAddress::Tcp(address) | StreamAddress::WebSocket(address) if address.ip().is_loopback() => {
                PeerPlace::ThisMachine
            }
            StreamAddress::Tcp(_) | StreamAddress::WebSocket(_) => PeerPlace::Elsewhere,
        }
    }
}
impl fmt::Display for StreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamAddress::Tcp(address) => write!(f, "tcp://{address}"),
            StreamAddress::Unix(path) => write!(f, "unix://{}", path.display()),
            StreamAddress::WebSocket(address) => write!(f, "ws://{address}"),
        }
    }
}
impl FromStr for StreamAddress {
    type Err = String;
    /// Takes `tcp`, `tcp4`, `tcp6`, `unix` and `ws`; host names are resolved, once.
    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("'{text}' is no stream address; use tcp://HOST:PORT, unix:///PATH or ws://HOST:PORT");
        let (scheme, rest) = text.split_once("://").ok_or_else(unknown)?;
        let resolve = || {
            let mut addresses =
                rest.trim_end_matches('/').to_socket_addrs().map_err(|error| format!("'{rest}': {error}"))?;
            addresses
                .find(|address| match scheme {
                    "tcp4" => address.is_ipv4(),
                    "tcp6" => address.is_ipv6(),
                    _ => true,
                })
                .ok_or_else(|| format!("'{rest}' has no address for {scheme}"))
        };
        match scheme {
            "tcp" | "tcp4" | "tcp6" => resolve().map(StreamAddress::Tcp),
            "ws" => resolve().map(StreamAddress::WebSocket),
            "unix" if rest.starts_with('/') => Ok(StreamAddress::Unix(rest.into())),
            _ => Err(unknown()),
        }
    }
}
