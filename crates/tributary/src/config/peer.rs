//! Addresses of neighbours.
use nix::ifaddrs::getifaddrs;
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket},
    str::FromStr,
};
use tributary_core::PeerPlace;
use tributary_net::StreamAddress;

/// Where a neighbour is: `192.0.2.7:7001`, `router.example:7001`, `[fe80::1%eth0]:7001` or `udp://…` for datagrams,
/// `tcp://…`, `unix://…` or `ws://…` for a stream. A neighbour with several addresses has commas between them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PeerAddress {
    /// It receives datagrams.
    Datagrams(SocketAddr),
    /// It is at the end of a stream.
    Stream(StreamAddress),
    /// By a name, which is resolved while the node runs.
    Named(NamedPeer),
}

/// A neighbour whose address may change: given by its host name, by several, or on a link that may not exist yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedPeer {
    scheme: Scheme,
    /// Hosts with their ports, at least one.
    hosts: Vec<(String, u16)>,
}

/// The protocol over the addresses of a name, and their kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scheme {
    Udp,
    Udp4,
    Udp6,
    Tcp,
    Tcp4,
    Tcp6,
    WebSocket,
}

impl Scheme {
    const ALL: [(&'static str, Scheme); 7] = [
        ("udp", Scheme::Udp),
        ("udp4", Scheme::Udp4),
        ("udp6", Scheme::Udp6),
        ("tcp", Scheme::Tcp),
        ("tcp4", Scheme::Tcp4),
        ("tcp6", Scheme::Tcp6),
        ("ws", Scheme::WebSocket),
    ];

    fn takes(self, address: SocketAddr) -> bool {
        match self {
            Scheme::Udp4 | Scheme::Tcp4 => address.is_ipv4(),
            Scheme::Udp6 | Scheme::Tcp6 => address.is_ipv6(),
            Scheme::Udp | Scheme::Tcp | Scheme::WebSocket => true,
        }
    }
}

impl NamedPeer {
    /// Whether it receives datagrams; else it is at the end of a stream.
    pub fn is_datagrams(&self) -> bool {
        matches!(self.scheme, Scheme::Udp | Scheme::Udp4 | Scheme::Udp6)
    }
    /// Looks its addresses up with the system's resolver. That may take many seconds.
    ///
    /// # Errors
    /// Why no address of the required kind exists.
    pub fn look_up(&self) -> Result<Vec<SocketAddr>, String> {
        let mut all = Vec::new();
        let mut failed = None;
        for (host, port) in &self.hosts {
            match (host.as_str(), *port).to_socket_addrs() {
                Ok(found) => all.extend(found.filter(|address| self.scheme.takes(*address))),
                Err(error) => failed = Some((host, error.to_string())),
            }
        }
        match failed.filter(|_| all.is_empty()) {
            None if all.is_empty() => Err(format!("'{self}' has no address of this kind")),
            None => Ok(all),
            Some((host, error)) => {
                let reason = error.strip_prefix("failed to lookup address information: ").unwrap_or(&error);
                Err(format!("cannot look up '{host}': {reason}"))
            }
        }
    }
    /// The stream to one of its addresses; `None` if it receives datagrams.
    pub fn stream(&self, address: SocketAddr) -> Option<StreamAddress> {
        match self.scheme {
            Scheme::Udp | Scheme::Udp4 | Scheme::Udp6 => None,
            Scheme::Tcp | Scheme::Tcp4 | Scheme::Tcp6 => Some(StreamAddress::Tcp(address)),
            Scheme::WebSocket => Some(StreamAddress::WebSocket(address)),
        }
    }
    /// Parses `HOST:PORT`, or several separated by commas; a host is a name, or an IPv6 address in brackets with its
    /// zone.
    fn parse(scheme: Scheme, text: &str) -> Result<Self, String> {
        let is_alone = !text.contains(',');
        let hosts = text.split(',').map(|text| match text.parse::<SocketAddr>() {
            Ok(address) if !is_alone && scheme.takes(address) => Ok((address.ip().to_string(), address.port())),
            Ok(_) | Err(_) => Self::parse_host(text),
        });
        Ok(NamedPeer { scheme, hosts: hosts.collect::<Result<_, _>>()? })
    }
    fn parse_host(text: &str) -> Result<(String, u16), String> {
        let (host, port) = text.rsplit_once(':').ok_or_else(|| format!("'{text}' has no port"))?;
        let number = port.parse::<u16>();
        let port = number.map_err(|_| format!("'{port}' is not a port from 1 to 65535"))?;
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(inside) => {
                let (address, zone) = inside.split_once('%').unwrap_or((inside, ""));
                if address.parse::<Ipv6Addr>().is_err() || !is_word(zone, ZONE_BYTES_MAX) {
                    return Err(format!("'{inside}' is no IPv6 address with a zone such as fe80::1%eth0"));
                }
                inside
            }
            None if host.parse::<IpAddr>().is_ok() => {
                return Err(format!("'{text}' has an IPv6 address without [brackets]"));
            }
            None => host,
        };
        let is_name =
            host.contains('%') || is_word(host, HOST_BYTES_MAX) && host.bytes().any(|byte| byte.is_ascii_alphabetic());
        if is_name {
            return Ok((host.into(), port));
        }
        Err(format!("'{host}' is neither an IP address nor the name of a host"))
    }
}
impl fmt::Display for NamedPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, _) = Scheme::ALL.iter().find(|(_, scheme)| *scheme == self.scheme).expect("ALL lists every scheme");
        if self.scheme != Scheme::Udp {
            write!(f, "{word}://")?;
        }
        f.write_str(&self.endpoints().collect::<Vec<_>>().join(","))
    }
}
impl NamedPeer {
    fn endpoints(&self) -> impl Iterator<Item = String> {
        let text = |(host, port): &(String, u16)| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        self.hosts.iter().map(text)
    }
}

/// How long the name of a host may be (RFC 1035 §2.3.4).
const HOST_BYTES_MAX: usize = 253;
/// How long the name of a network interface may be.
const ZONE_BYTES_MAX: usize = 15;

/// Whether a text could be a host or an interface.
fn is_word(text: &str, bytes_max: usize) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !text.is_empty() && text.len() <= bytes_max && text.bytes().all(is_legal)
}
/// Whether an address is one of this machine's.
pub(crate) fn is_own(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

/// The address at which others reach a socket that listens on `own`: if that is every address, the address used for
/// connections out of this machine.
pub(crate) fn reached_at(own: IpAddr) -> IpAddr {
    if !own.is_unspecified() {
        return own;
    }
    // No packet is sent: connecting a datagram socket only asks the routing table (RFC 5737, RFC 3849).
    let far = if own.is_ipv4() { "192.0.2.1:9" } else { "[2001:db8::1]:9" };
    let loopback = if own.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
    let out = UdpSocket::bind((own, 0)).and_then(|socket| socket.connect(far).and_then(|()| socket.local_addr()));
    // Without a default route, the address of any interface.
    let of_interfaces = || {
        let addresses = getifaddrs().ok()?.filter_map(|interface| {
            let address = interface.address?;
            let v6 = address.as_sockaddr_in6().map(|v6| v6.ip()).filter(|ip| !ip.is_unicast_link_local());
            address.as_sockaddr_in().map(|v4| v4.ip().into()).or(v6.map(IpAddr::V6))
        });
        addresses.into_iter().find(|ip: &IpAddr| ip.is_ipv4() == own.is_ipv4() && !ip.is_loopback())
    };
    out.ok().map(|address| address.ip()).or_else(of_interfaces).unwrap_or(loopback)
}

impl PeerAddress {
    /// The address for datagrams.
    pub fn datagrams(&self) -> Option<SocketAddr> {
        if let PeerAddress::Datagrams(address) = self { Some(*address) } else { None }
    }
    /// The address of the stream.
    pub fn stream(&self) -> Option<&StreamAddress> {
        if let PeerAddress::Stream(address) = self { Some(address) } else { None }
    }
    /// The name to look up.
    pub fn named(&self) -> Option<&NamedPeer> {
        if let PeerAddress::Named(named) = self { Some(named) } else { None }
    }
    /// Whether it is at the end of a stream.
    pub fn is_stream(&self) -> bool {
        match self {
            PeerAddress::Datagrams(_) => false,
            PeerAddress::Stream(_) => true,
            PeerAddress::Named(named) => !named.is_datagrams(),
        }
    }
    /// Each `HOST:PORT` of a neighbour on datagrams: its key is remembered for them.
    pub fn endpoints(&self) -> Vec<String> {
        match self {
            PeerAddress::Datagrams(address) => vec![address.to_string()],
            PeerAddress::Named(named) if named.is_datagrams() => named.endpoints().collect(),
            PeerAddress::Stream(_) | PeerAddress::Named(_) => Vec::new(),
        }
    }
    /// Its port, if given.
    pub fn port(&self) -> Option<u16> {
        match self {
            PeerAddress::Datagrams(address)
            | PeerAddress::Stream(StreamAddress::Tcp(address) | StreamAddress::WebSocket(address)) => {
                Some(address.port())
            }
            PeerAddress::Stream(StreamAddress::Unix(_)) => None,
            PeerAddress::Named(named) => Some(named.hosts[0].1),
        }
    }
    /// Whether the system vouches that it is on this machine; of datagrams it does not.
    pub fn place(&self) -> PeerPlace {
        match self {
            PeerAddress::Stream(stream) => stream.place(),
            // RFC 6761 §6.3: it is this machine everywhere.
            PeerAddress::Named(named) if !named.is_datagrams() && named.hosts[0].0 == "localhost" => {
                PeerPlace::ThisMachine
            }
            PeerAddress::Datagrams(_) | PeerAddress::Named(_) => PeerPlace::Elsewhere,
        }
    }
    /// Replaces this neighbour by another one, as a person writes it: scheme and port default to those here.
    ///
    /// # Errors
    /// A sentence if the text is no address.
    pub fn replaced(&self, text: &str) -> Result<PeerAddress, String> {
        let own = self.to_string();
        let own = own.split_once("://").map_or("udp", |(scheme, _)| scheme);
        let (scheme, host) = text.split_once("://").unwrap_or((own, text));
        let port = self.port().map_or_else(String::new, |port| format!(":{port}"));
        let read = |host: String| format!("{scheme}://{host}").parse();
        // A bare IPv6 address has no brackets.
        let with_port = || read(format!("{host}{port}")).or_else(|_| read(format!("[{host}]{port}")));
        read(host.into()).or_else(|error| with_port().map_err(|_| error))
    }
}
impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerAddress::Datagrams(address) => address.fmt(f),
            PeerAddress::Stream(address) => address.fmt(f),
            PeerAddress::Named(named) => named.fmt(f),
        }
    }
}
impl FromStr for PeerAddress {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (word, rest) = text.split_once("://").unwrap_or(("udp", text));
        let Some((_, scheme)) = Scheme::ALL.iter().find(|(known, _)| *known == word) else {
            return text.parse().map(PeerAddress::Stream);
        };
        let rest = rest.trim_end_matches('/');
        let Ok(address) = rest.parse::<SocketAddr>() else {
            return NamedPeer::parse(*scheme, rest).map(PeerAddress::Named);
        };
        let named = NamedPeer { scheme: *scheme, hosts: Vec::new() };
        match named.stream(address) {
            _ if !scheme.takes(address) => Err(format!("{address} is no address for {word}://")),
            Some(stream) => Ok(PeerAddress::Stream(stream)),
            None => Ok(PeerAddress::Datagrams(address)),
        }
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
        for wrong in [
            "127.0.0.1",
            "udp://here",
            "http://127.0.0.1:80",
            "unix://relative",
            "",
            "fe80::1:7001",
            "[fe80::1%]:7001",
            "[fe80::1%a/b]:7001",
            "192.0.2.300:7001",
            "two words:7001",
            "router.lan:70000",
            "udp4://[::1]:7001",
            "router.lan:7001,",
            "router.lan:7001,192.0.2.300:7001",
        ] {
            assert!(wrong.parse::<PeerAddress>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_and_zones_are_kept_as_written_and_looked_up_later() {
        for (text, shown, is_stream) in [
            ("router.lan:7001", "router.lan:7001", false),
            ("udp6://router.lan:7001", "udp6://router.lan:7001", false),
            ("[fe80::1%eth0]:7001", "[fe80::1%eth0]:7001", false),
            ("tcp://router.lan:6363", "tcp://router.lan:6363", true),
            ("ws://router.lan:9696/", "ws://router.lan:9696", true),
            ("router.lan:7001,192.0.2.7:7002,[::1]:7003", "router.lan:7001,192.0.2.7:7002,[::1]:7003", false),
        ] {
            let address: PeerAddress = text.parse().expect(text);
            assert!(address.named().is_some(), "{text}");
            assert_eq!((address.to_string().as_str(), address.is_stream()), (shown, is_stream), "{text}");
        }
        let PeerAddress::Named(named) = "localhost:7001".parse().expect("a name") else { panic!("not named") };
        let found = named.look_up().expect("every machine knows it");
        assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 7001), "{found:?}");
        let PeerAddress::Named(named) = "[fe80::1%lo]:7001".parse().expect("a zone") else { panic!("not named") };
        let SocketAddr::V6(found) = named.look_up().expect("every machine has lo")[0] else { panic!("not IPv6") };
        assert_eq!(found.scope_id(), 1);
        let PeerAddress::Named(named) = "nobody.invalid:1".parse().expect("a name") else { panic!("not named") };
        assert!(named.look_up().expect_err("RFC 6761").starts_with("cannot look up 'nobody.invalid': "));
    }

    #[test]
    fn another_neighbour_keeps_what_is_not_said_of_it() {
        for (own, text, becomes) in [
            ("127.0.0.1:7001", "192.0.2.7", "192.0.2.7:7001"),
            ("127.0.0.1:7001", "192.0.2.7:9", "192.0.2.7:9"),
            ("127.0.0.1:7001", "router.lan", "router.lan:7001"),
            ("127.0.0.1:7001", "router.lan:9", "router.lan:9"),
            ("127.0.0.1:7001", "2001:db8::7", "[2001:db8::7]:7001"),
            ("127.0.0.1:7001", "fe80::7%eth0", "[fe80::7%eth0]:7001"),
            ("127.0.0.1:7001", "[2001:db8::7]:9", "[2001:db8::7]:9"),
            ("127.0.0.1:7001", "[2001:db8::7]", "[2001:db8::7]:7001"),
            ("tcp://127.0.0.1:6363", "192.0.2.7", "tcp://192.0.2.7:6363"),
            ("tcp://127.0.0.1:6363", "udp://192.0.2.7", "192.0.2.7:6363"),
            ("127.0.0.1:6363", "tcp://router.lan", "tcp://router.lan:6363"),
            ("127.0.0.1:6363", "unix:///run/nfd.sock", "unix:///run/nfd.sock"),
        ] {
            let own: PeerAddress = own.parse().expect(own);
            assert_eq!(own.replaced(text).expect(text).to_string(), becomes, "{text}");
        }
        let own: PeerAddress = "127.0.0.1:7001".parse().expect("an address");
        assert!(own.replaced("").is_err() && own.replaced("two words").is_err());
    }
}
