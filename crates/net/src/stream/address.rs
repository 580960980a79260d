//! Where a stream face leads to, or where one is waited for.
use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
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
    /// The address as NDN's tools write it: the scheme names the version of IP.
    pub(crate) fn face_uri(&self) -> String {
        match self {
            StreamAddress::Tcp(address) => face_uri("tcp", *address),
            StreamAddress::Unix(_) | StreamAddress::WebSocket(_) => self.to_string(),
        }
    }
    /// How far a peer at this address is: a Unix socket and a loopback address do not leave the machine.
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
/// An address as NDN's tools write it, such as `udp4://192.0.2.1:6363`.
pub(crate) fn face_uri(scheme: &str, address: SocketAddr) -> String {
    format!("{scheme}{}://{address}", if address.is_ipv4() { 4 } else { 6 })
}
/// The address that a URI of UDP names: `udp://`, `udp4://`, `udp6://`, an IP address, and a port (default 6363,
/// NFD's). `None` for another scheme. Host names are not resolved: the driver's thread waits for no resolver.
pub(crate) fn datagram_address(uri: &str) -> Option<Result<SocketAddr, String>> {
    let (scheme, rest) = uri.split_once("://").filter(|(scheme, _)| matches!(*scheme, "udp" | "udp4" | "udp6"))?;
    let host = rest.trim_start_matches('[').trim_end_matches(']');
    let address = rest.parse().or_else(|_| host.parse().map(|ip| SocketAddr::new(ip, 6363)));
    let fits = |address: &SocketAddr| match scheme {
        "udp4" => address.is_ipv4(),
        "udp6" => address.is_ipv6(),
        _ => true,
    };
    let is_of_one = |address: &SocketAddr| match address.ip() {
        IpAddr::V4(ip) => !ip.is_multicast() && !ip.is_broadcast() && !ip.is_unspecified(),
        IpAddr::V6(ip) => !ip.is_multicast() && !ip.is_unspecified(),
    };
    Some(match address.ok().filter(fits) {
        None => Err(format!("'{uri}' has no IP address of its kind: use {scheme}://ADDRESS:PORT")),
        Some(address) if address.port() == 0 || !is_of_one(&address) => {
            Err(format!("'{uri}' is no address of one neighbour; there are no multicast faces here"))
        }
        Some(address) => Ok(address),
    })
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
    /// Accepts `tcp`, `tcp4`, `tcp6` and `ws` with an IP address, so that parsing does not wait for a resolver, and
    /// `unix`.
    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("'{text}' is no stream address; use tcp://HOST:PORT, unix:///PATH or ws://HOST:PORT");
        let (scheme, rest) = text.split_once("://").ok_or_else(unknown)?;
        let numeric = || {
            let address = rest.trim_end_matches('/').parse::<SocketAddr>().ok();
            let fits = |address: &SocketAddr| match scheme {
                "tcp4" => address.is_ipv4(),
                "tcp6" => address.is_ipv6(),
                _ => true,
            };
            address.filter(fits).ok_or_else(|| format!("'{text}' has no IP address and port of its kind"))
        };
        match scheme {
            "tcp" | "tcp4" | "tcp6" => numeric().map(StreamAddress::Tcp),
            "ws" => numeric().map(StreamAddress::WebSocket),
            "unix" if rest.starts_with('/') => Ok(StreamAddress::Unix(rest.into())),
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_datagrams_are_ip_addresses() {
        let read = |uri| datagram_address(uri).map(|address| address.ok().map(|address| address.to_string()));
        for (uri, address) in [
            ("udp://192.0.2.1:7000", Some("192.0.2.1:7000")),
            ("udp4://192.0.2.1", Some("192.0.2.1:6363")),
            ("udp6://[2001:db8::1]:99", Some("[2001:db8::1]:99")),
            ("udp6://[2001:db8::1]", Some("[2001:db8::1]:6363")),
            ("udp6://192.0.2.1:1", None),
            ("udp4://[::1]:1", None),
            ("udp4://router.example:6363", None),
            ("udp4://", None),
            ("udp4://224.0.23.170:56363", None),
            ("udp6://[ff02::1234]:56363", None),
            ("udp4://255.255.255.255:6363", None),
            ("udp4://0.0.0.0:6363", None),
            ("udp4://192.0.2.1:0", None),
        ] {
            assert_eq!(read(uri), Some(address.map(Into::into)), "{uri}");
        }
        let is_read = |uri: &str| uri.parse::<StreamAddress>().is_ok();
        assert!(is_read("tcp4://192.0.2.1:1") && is_read("unix:///run/x"));
        assert!(!is_read("tcp://router.example:1") && !is_read("quic://192.0.2.1:1"));
        assert_eq!((read("tcp4://192.0.2.1:1"), read("192.0.2.1:1")), (None, None));
    }
}
