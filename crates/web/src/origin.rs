//! The origin of a web server's address, and the requests that it permits.
//!
//! A URL that a person writes may lead anywhere. A URL from a publisher, which may be unknown, could make this machine
//! send requests to services that only it can reach: on loopback and in private networks. So the address is checked
//! where a connection is made, after a name is resolved and at each redirect.
use nix::sys::socket::SockaddrStorage;
use reqwest::{
    Url,
    dns::{Addrs, Name, Resolve, Resolving},
};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

/// Who names the servers of a fetch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Origin {
    /// The user: addresses may be anywhere, and get the user's passwords and cookies.
    #[default]
    Person,
    /// An untrusted source: its servers must have public addresses and the ports of the web or above 1,023, and get no
    /// passwords or cookies.
    Stranger,
    /// An untrusted source, whose servers may be at any address.
    StrangerAnywhere,
    /// The operator of a gateway, who names hosts ([`crate::ClientOptions::hosts`]): these may be anywhere, and their
    /// redirects may lead to public addresses only. They get no passwords, because the answers are for all clients.
    Operator,
}

impl Origin {
    /// Whether a person chose the servers, so that they may get several requests.
    pub(crate) fn is_trusted(self) -> bool {
        matches!(self, Origin::Person | Origin::Operator)
    }
    /// Refuses a URL that its origin may not request. `hosts` are those that an operator names.
    pub(crate) fn check(self, url: &Url, hosts: &[String]) -> Result<(), String> {
        let is_named = || url.host_str().is_some_and(|host| is_among(host, hosts));
        if self == Origin::Person || self == Origin::Operator && is_named() {
            return Ok(());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("its address has a password in it".into());
        }
        if self == Origin::StrangerAnywhere {
            return Ok(());
        }
        if let Some(port) = url.port().filter(|port| *port < 1_024 && !matches!(port, 80 | 443)) {
            return Err(format!("port {port} is not a port of the web"));
        }
        // A name is checked when it is resolved; an address is not resolved.
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_string();
        match host.parse::<IpAddr>() {
            Ok(address) => check_address(address, &here()?),
            Err(_) => Ok(()),
        }
    }
    /// What resolves the names of such servers, if not the system alone.
    pub(crate) fn resolver(self, hosts: &[String]) -> Option<Arc<PublicOnly>> {
        let hosts = if self == Origin::Operator { hosts.to_vec() } else { Vec::new() };
        matches!(self, Origin::Stranger | Origin::Operator).then(|| Arc::new(PublicOnly { hosts }))
    }
}
fn is_among(host: &str, hosts: &[String]) -> bool {
    hosts.iter().any(|named| named.eq_ignore_ascii_case(host))
}

/// Resolves a name to its public addresses, and fails if it has others: a name with both is an attack.
pub(crate) struct PublicOnly {
    /// Names that may have any addresses.
    hosts: Vec<String>,
}
impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        let is_named = is_among(name.as_str(), &self.hosts);
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            if is_named {
                return Ok(Box::new(found.into_iter()) as Addrs);
            }
            let here = here()?;
            for address in &found {
                check_address(address.ip(), &here).map_err(|why| format!("'{}' is not used: {why}", name.as_str()))?;
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Refuses an address that is not public, or that belongs to this machine or its links, which are `here`: these may be
/// public, and yet have services that no outsider reaches.
fn check_address(address: IpAddr, here: &[Prefix]) -> Result<(), String> {
    if !is_public(address) {
        return Err(format!("the address {address} is not public"));
    }
    match here.iter().any(|prefix| prefix.contains(address)) {
        true => Err(format!("the address {address} is one of this machine or its network")),
        false => Ok(()),
    }
}
/// The addresses of an interface's link.
#[derive(Clone, Copy, Debug)]
struct Prefix {
    address: IpAddr,
    mask: IpAddr,
}
impl Prefix {
    fn contains(&self, other: IpAddr) -> bool {
        match (self.address, self.mask, other.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(mask), IpAddr::V4(other)) => own & mask == other & mask,
            (IpAddr::V6(own), IpAddr::V6(mask), IpAddr::V6(other)) => own & mask == other & mask,
            _ => false,
        }
    }
}
/// The links of this machine as they are now.
///
/// # Errors
/// The system's error; then untrusted addresses get no requests.
fn here() -> Result<Vec<Prefix>, String> {
    fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
        let v4 = address.as_sockaddr_in().map(|address| address.ip().into());
        v4.or_else(|| address.as_sockaddr_in6().map(|address| address.ip().into()))
    }
    let interfaces = nix::ifaddrs::getifaddrs().map_err(|error| format!("the addresses of this machine: {error}"))?;
    Ok(interfaces
        .filter_map(|interface| {
            let address = ip(&interface.address?)?;
            let full_mask = match address {
                IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::BROADCAST),
                IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(u128::MAX)),
            };
            Some(Prefix { address, mask: interface.netmask.and_then(|mask| ip(&mask)).unwrap_or(full_mask) })
        })
        .collect())
}

/// Whether an address is one of the public Internet, by the registries of special addresses (RFC 6890 and later ones).
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}
fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || address.is_multicast()
        || a == 0
        || a >= 240
        // Shared by customers of a provider (RFC 6598); protocols (RFC 6890); benchmarks (RFC 2544); 6to4 relays.
        || (a, b & 0xc0) == (100, 64)
        || (a, b, c) == (192, 0, 0)
        || (a, b & 0xfe) == (198, 18)
        || (a, b, c) == (192, 88, 99);
    !is_special
}
fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match segments {
        // Mapped, translated (RFC 6052) and tunnelled (RFC 3056) addresses lead to the IPv4 address in them.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            is_public_v4(v4(high, low))
        }
        // Teredo, benchmarks, ORCHID and the like, documentation.
        [0x2001, second, ..] if second < 0x200 || second == 0xdb8 => false,
        [0x3fff, second, ..] if second < 0x1000 => false,
        // The range allocated so far.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_only_this_machine_or_its_network_reaches_are_not_public() {
        for address in [
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.8",
            "198.18.0.1",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fd00::1",
            "fc00::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::1",
            "2002:c0a8:1::1",
            "::127.0.0.1",
        ] {
            assert!(!is_public(address.parse().expect("an address")), "{address}");
        }
        for address in ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1", "::ffff:8.8.8.8", "2001:4860::8888"] {
            assert!(is_public(address.parse().expect("an address")), "{address}");
        }
    }

    #[test]
    fn who_is_not_asked_cannot_send_this_machine_to_private_places() {
        let refused =
            |origin: Origin, url: &str| origin.check(&url.parse().expect("a URL"), &["cache.lan".into()]).err();
        for url in [
            "http://127.0.0.1/x",
            "http://[::1]:8080/x",
            "http://2130706433/x",
            "http://0x7f.1/x",
            "http://127.1/x",
            "http://a.example.org:25/x",
            "http://user:password@a.example.org/x",
        ] {
            assert!(refused(Origin::Stranger, url).is_some(), "{url}");
            assert_eq!(refused(Origin::Person, url), None, "{url}");
        }
        assert_eq!(refused(Origin::Stranger, "https://a.example.org:8443/x"), None);
        assert_eq!(refused(Origin::StrangerAnywhere, "http://127.0.0.1:1/x"), None);
        assert!(refused(Origin::StrangerAnywhere, "http://user@a.example.org/x").is_some());
        assert_eq!(refused(Origin::Operator, "http://Cache.lan:25/x"), None);
        assert!(refused(Origin::Operator, "http://127.0.0.1/x").is_some());
    }

    #[test]
    fn public_addresses_of_this_machine_and_its_links_are_not_asked() {
        let prefix = |address: &str, mask: &str| Prefix {
            address: address.parse().expect("an address"),
            mask: mask.parse().expect("a mask"),
        };
        let here = [prefix("93.184.216.34", "255.255.255.0"), prefix("2606:4700::5", "ffff:ffff:ffff:ffff::")];
        let is_allowed = |address: &str| check_address(address.parse().expect("an address"), &here).is_ok();
        for address in ["93.184.216.34", "93.184.216.1", "::ffff:93.184.216.1", "2606:4700::5", "2606:4700::9"] {
            assert!(!is_allowed(address), "{address}");
        }
        assert!(is_allowed("93.184.217.1") && is_allowed("2606:4700:0:1::5"));
        let own = super::here().expect("the system lists them");
        assert!(own.iter().any(|prefix| prefix.address.is_loopback()), "{own:?}");
    }

    #[tokio::test]
    async fn a_name_that_leads_to_a_private_place_has_no_address() {
        let resolved = PublicOnly { hosts: Vec::new() }.resolve("localhost".parse().expect("a name")).await;
        assert!(resolved.err().is_some_and(|error| error.to_string().contains("not public")));
    }
}
