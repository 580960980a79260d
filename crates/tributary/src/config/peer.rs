//! Addresses of neighbours.
use std::{fmt, net::SocketAddr, str::FromStr};
use tributary_core::PeerPlace;
use tributary_net::StreamAddress;

/// Where a neighbour is: `192.0.2.7:7001` or `udp://…` for datagrams, `tcp://…`, `unix://…` or `ws://…` for a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PeerAddress {
    /// It takes datagrams.
    Datagrams(SocketAddr),
    /// It is at the end of a stream.
    Stream(StreamAddress),
}

impl PeerAddress {
    /// The address for datagrams.
    pub fn datagrams(&self) -> Option<SocketAddr> {
        match self {
            PeerAddress::Datagrams(address) => Some(*address),
            PeerAddress::Stream(_) => None,
        }
    }
    /// The address of the stream.
    pub fn stream(&self) -> Option<&StreamAddress> {
        match self {
            PeerAddress::Datagrams(_) => None,
            PeerAddress::Stream(address) => Some(address),
        }
    }
    /// Its port, if it has one.
    pub fn port(&self) -> Option<u16> {
        match self {
            PeerAddress::Datagrams(address)
            | PeerAddress::Stream(StreamAddress::Tcp(address) | StreamAddress::WebSocket(address)) => {
                Some(address.port())
            }
            PeerAddress::Stream(StreamAddress::Unix(_)) => None,
        }
    }
    /// Whether the system vouches that it is on this machine; of datagrams it does not.
    pub fn place(&self) -> PeerPlace {
        self.stream().map_or(PeerPlace::Elsewhere, StreamAddress::place)
    }
}
impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerAddress::Datagrams(address) => address.fmt(f),
            PeerAddress::Stream(address) => address.fmt(f),
        }
    }
}
impl FromStr for PeerAddress {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let datagrams = match text.split_once("://") {
            None => text,
            Some(("udp" | "udp4" | "udp6", address)) => address,
            Some(_) => return text.parse().map(PeerAddress::Stream),
        };
        datagrams.parse().map(PeerAddress::Datagrams).map_err(|error: std::net::AddrParseError| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scheme_is_read_and_shown_again() {
        for (text, shown, place) in [
            ("127.0.0.1:7001", "127.0.0.1:7001", PeerPlace::Elsewhere),
            ("udp4://127.0.0.1:6363", "127.0.0.1:6363", PeerPlace::Elsewhere),
            ("tcp4://127.0.0.1:6363", "tcp://127.0.0.1:6363", PeerPlace::ThisMachine),
            ("tcp://192.0.2.1:6363", "tcp://192.0.2.1:6363", PeerPlace::Elsewhere),
            ("unix:///run/ndn.sock", "unix:///run/ndn.sock", PeerPlace::ThisMachine),
            ("ws://[::1]:9696", "ws://[::1]:9696", PeerPlace::ThisMachine),
        ] {
            let address: PeerAddress = text.parse().expect(text);
            assert_eq!((address.to_string().as_str(), address.place()), (shown, place), "{text}");
        }
        for wrong in ["127.0.0.1", "udp://here", "http://127.0.0.1:80", "unix://relative", ""] {
            assert!(wrong.parse::<PeerAddress>().is_err(), "{wrong}");
        }
    }
}
