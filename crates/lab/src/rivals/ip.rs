//! What the rivals send over a face: whole IPv4 packets.
use std::{collections::BTreeMap, net::Ipv4Addr};

use tributary_core::{FaceId, link::LinkConfig};

/// Bytes of an IPv4 header without options, the only form that the rivals send.
pub const IPV4_BYTES: usize = 20;
/// Bytes of a UDP header.
pub const UDP_BYTES: usize = 8;
/// The longest IPv4 packet on a link of the lab, as on Ethernet.
pub const MTU_BYTES: u32 = 1_500;
/// Hops that a packet of a host may take; the default of RFC 1700.
pub const TTL_DEFAULT: u8 = 64;

/// IP's number of TCP.
pub const PROTOCOL_TCP: u8 = 6;
/// IP's number of UDP.
pub const PROTOCOL_UDP: u8 = 17;

/// The same link for whole IP packets: nothing is added to a packet, and its longest is [`MTU_BYTES`].
///
/// Links for our own datagrams count 28 bytes of IPv4 and UDP headers in addition to each of them; over a link made by
/// this function the very same bytes are in the packet, so both take the same time.
pub fn ip_link(config: LinkConfig) -> LinkConfig {
    LinkConfig { overhead_bytes: 0, mtu: MTU_BYTES, ..config }
}

/// The address of the host of node `index`: 10.0.0.1 for 0, and upwards.
///
/// # Panics
/// From 2²⁴ − 2 on, where 10.0.0.0/8 ends.
pub fn address_of(index: u32) -> Ipv4Addr {
    assert!(index < (1 << 24) - 2, "10.0.0.0/8 has no address for node {index}");
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 1).to_bits() + index)
}

/// The fields of an IPv4 header that differ from packet to packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv4Header {
    /// Who sent it.
    pub source: Ipv4Addr,
    /// Whom it is for.
    pub destination: Ipv4Addr,
    /// What follows: [`PROTOCOL_TCP`] or [`PROTOCOL_UDP`].
    pub protocol: u8,
    /// Hops that are left.
    pub ttl: u8,
    /// The sender's support of marks, and the marks of queues on the way.
    pub ecn: Ecn,
    /// Bytes after the header.
    pub payload_bytes: u16,
}

/// The two bits of explicit congestion notification (RFC 3168 §5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ecn {
    /// The transport would not notice a mark.
    NotCapable,
    /// Both ends understand marks; either code point.
    Capable,
    /// A queue on the way marked the packet.
    Marked,
}

impl Ipv4Header {
    /// Reads the header of a packet of `packet_bytes` bytes; the error is a phrase for counters.
    ///
    /// # Errors
    /// If it is shorter than a header, not IPv4 without options and fragments, longer than the packet, or damaged.
    pub fn parse(bytes: &[u8], packet_bytes: usize) -> Result<Self, &'static str> {
        let header: &[u8; IPV4_BYTES] = bytes.first_chunk().ok_or("shorter than an IPv4 header")?;
        if header[0] != 0x45 {
            return Err("not IPv4 without options");
        }
        if checksum(header) != 0 {
            return Err("damaged IPv4 header");
        }
        let total = u16::from_be_bytes([header[2], header[3]]);
        if usize::from(total) != packet_bytes || usize::from(total) < IPV4_BYTES {
            return Err("IPv4 length is not that of the packet");
        }
        let address = |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
        let ecn = match header[1] & 3 {
            0 => Ecn::NotCapable,
            3 => Ecn::Marked,
            _ => Ecn::Capable,
        };
        Ok(Ipv4Header {
            ecn,
            source: address(12),
            destination: address(16),
            protocol: header[9],
            ttl: header[8],
            payload_bytes: total - IPV4_BYTES as u16,
        })
    }
    /// The header after a queue on the last link marked the packet (`is_marked`); the error is a phrase for counters.
    ///
    /// # Errors
    /// If the transport does not support marks: its packet would have been dropped, and the caller drops it now.
    pub fn after_link(self, is_marked: bool) -> Result<Self, &'static str> {
        match (is_marked, self.ecn) {
            (false, _) => Ok(self),
            (true, Ecn::NotCapable) => Err("marked, and its transport knows no marks"),
            (true, Ecn::Capable | Ecn::Marked) => Ok(Ipv4Header { ecn: Ecn::Marked, ..self }),
        }
    }
    /// Writes the header, with its checksum.
    pub fn emit(&self) -> [u8; IPV4_BYTES] {
        let mut header = [0; IPV4_BYTES];
        header[0] = 0x45;
        header[1] = match self.ecn {
            Ecn::NotCapable => 0,
            Ecn::Capable => 2,
            Ecn::Marked => 3,
        };
        header[2..4].copy_from_slice(&(self.payload_bytes + IPV4_BYTES as u16).to_be_bytes());
        // "Do not fragment": routers of the lab never do.
        header[6] = 0x40;
        header[8] = self.ttl;
        header[9] = self.protocol;
        header[12..16].copy_from_slice(&self.source.octets());
        header[16..20].copy_from_slice(&self.destination.octets());
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        header
    }
}

/// IPv4 and UDP headers, for a transport that understands marks, of a datagram of `payload_bytes` bytes, between equal ports.
///
/// UDP's own checksum is left out, as RFC 768 allows: the payload is authenticated.
pub fn udp_headers(
    source: Ipv4Addr,
    destination: Ipv4Addr,
    port: u16,
    payload_bytes: usize,
) -> [u8; IPV4_BYTES + UDP_BYTES] {
    let length = u16::try_from(payload_bytes + UDP_BYTES).expect("datagrams are no longer than the MTU");
    let ip = Ipv4Header {
        source,
        destination,
        protocol: PROTOCOL_UDP,
        ttl: TTL_DEFAULT,
        ecn: Ecn::Capable,
        payload_bytes: length,
    };
    let mut headers = [0; IPV4_BYTES + UDP_BYTES];
    headers[..IPV4_BYTES].copy_from_slice(&ip.emit());
    headers[20..22].copy_from_slice(&port.to_be_bytes());
    headers[22..24].copy_from_slice(&port.to_be_bytes());
    headers[24..26].copy_from_slice(&length.to_be_bytes());
    headers
}

/// The destination port of a UDP datagram that starts after the IPv4 header of `bytes`.
pub fn udp_port(bytes: &[u8]) -> Option<u16> {
    let port = bytes.get(IPV4_BYTES + 2..IPV4_BYTES + 4)?;
    Some(u16::from_be_bytes([port[0], port[1]]))
}

/// The Internet checksum of RFC 1071; zero over a header that holds its own.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

/// By which face a packet leaves.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Routes {
    faces: BTreeMap<Ipv4Addr, FaceId>,
    default: Option<FaceId>,
}

impl Routes {
    /// Everything by one face, as for a host with one link.
    pub fn all_by(face: FaceId) -> Self {
        Routes { faces: BTreeMap::new(), default: Some(face) }
    }
    /// Adds or changes the route to one address.
    pub fn set(&mut self, destination: Ipv4Addr, face: FaceId) {
        self.faces.insert(destination, face);
    }
    /// The face towards `destination`; `None` if there is no route.
    pub fn face(&self, destination: Ipv4Addr) -> Option<FaceId> {
        self.faces.get(&destination).copied().or(self.default)
    }
}

/// One end of a link: a node's number and its face.
pub type End = (usize, FaceId);

/// Routes by fewest hops, computed once: links as pairs of (node, face), hosts as (node, address).
///
/// Returns one table for each of `nodes_len` nodes. Of equally short ways the one over the link that was named first
/// counts, seen from the host, so the result depends on the order of `links` and on nothing else.
pub fn shortest_routes(nodes_len: usize, links: &[(End, End)], hosts: &[(usize, Ipv4Addr)]) -> Vec<Routes> {
    let mut neighbours = vec![Vec::new(); nodes_len];
    for (a, b) in links {
        neighbours[a.0].push((b.0, b.1));
        neighbours[b.0].push((a.0, a.1));
    }
    let mut tables = vec![Routes::default(); nodes_len];
    for (host, address) in hosts {
        let mut reached = vec![false; nodes_len];
        reached[*host] = true;
        let mut front = std::collections::VecDeque::from([*host]);
        while let Some(node) = front.pop_front() {
            for (next, face_back) in &neighbours[node] {
                if !std::mem::replace(&mut reached[*next], true) {
                    tables[*next].set(*address, *face_back);
                    front.push_back(*next);
                }
            }
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example header that textbooks and encyclopedias compute the checksum of: 0xb861.
    const KNOWN: [u8; 20] = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8,
        0x00, 0xc7,
    ];

    #[test]
    fn a_known_header_parses_and_is_emitted_byte_for_byte() {
        let header = Ipv4Header::parse(&KNOWN, 0x73).expect("it is valid");
        assert_eq!(header.source, Ipv4Addr::new(192, 168, 0, 1));
        assert_eq!((header.protocol, header.ttl, header.payload_bytes), (PROTOCOL_UDP, 64, 95));
        assert_eq!(header.emit(), KNOWN);
    }

    #[test]
    fn a_mark_is_for_those_who_understand_it() {
        let header = Ipv4Header::parse(&KNOWN, 0x73).expect("it is valid");
        assert_eq!(header.ecn, Ecn::NotCapable);
        assert_eq!(header.after_link(false), Ok(header));
        assert!(header.after_link(true).is_err());
        let capable = Ipv4Header { ecn: Ecn::Capable, ..header };
        let marked = capable.after_link(true).expect("it takes marks");
        assert_eq!(Ipv4Header::parse(&marked.emit(), 0x73), Ok(Ipv4Header { ecn: Ecn::Marked, ..header }));
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_noticed() {
        for bit in 0..KNOWN.len() * 8 {
            let mut damaged = KNOWN;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Ipv4Header::parse(&damaged, 0x73).is_err(), "bit {bit}");
        }
        assert!(Ipv4Header::parse(&KNOWN[..19], 19).is_err());
        assert!(Ipv4Header::parse(&KNOWN, 0x74).is_err());
    }

    #[test]
    fn routes_lead_over_the_fewest_hops() {
        // 0 - 1 - 2 - 3 and a short cut 0 - 3.
        let f = FaceId;
        let links = [((0, f(0)), (1, f(0))), ((1, f(1)), (2, f(0))), ((2, f(1)), (3, f(0))), ((0, f(1)), (3, f(1)))];
        let tables = shortest_routes(4, &links, &[(3, address_of(3)), (0, address_of(0))]);
        assert_eq!(tables[0].face(address_of(3)), Some(f(1)));
        assert_eq!(tables[1].face(address_of(0)), Some(f(0)));
        assert_eq!(tables[2].face(address_of(3)), Some(f(1)));
        assert_eq!(tables[3].face(address_of(0)), Some(f(1)));
        assert_eq!(tables[3].face(address_of(2)), None);
    }
}
