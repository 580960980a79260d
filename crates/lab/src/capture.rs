//! Packet captures in the pcapng format, for Wireshark and its relatives.
//!
//! Simulated links carry datagrams without addresses, so each one is put into an Ethernet frame with IPv6 and UDP
//! headers that are made up from the numbers of the two nodes: node 7 is `fd00::7`. Times are virtual, in nanoseconds
//! since 1970; a mark is the ECN codepoint CE.
use std::io::{self, Write};
use tributary_core::{Datagram, Time};

use tributary_sim::NodeIndex;

/// One direction of a link, as an interface of the capture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The sender on the link.
    pub from: NodeIndex,
    /// Who receives on it.
    pub to: NodeIndex,
    /// The UDP port of both ends, by which a dissector is chosen.
    pub port: u16,
}

/// Writes packets as a pcapng file.
#[derive(Debug)]
pub struct Capture<W> {
    out: W,
    interfaces: Vec<Interface>,
    packets: u64,
}

impl<W: Write> Capture<W> {
    /// Begins a file with these interfaces.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn new(mut out: W, interfaces: Vec<Interface>) -> io::Result<Self> {
        // Section header: byte order, version 1.0, length unspecified.
        let mut section = Vec::new();
        section.extend_from_slice(&0x1a2b_3c4d_u32.to_le_bytes());
        section.extend_from_slice(&[1, 0, 0, 0]);
        section.extend_from_slice(&u64::MAX.to_le_bytes());
        write_block(&mut out, SECTION_HEADER, &section)?;
        for interface in &interfaces {
            let mut block = Vec::new();
            block.extend_from_slice(&LINKTYPE_ETHERNET.to_le_bytes());
            block.extend_from_slice(&[0, 0]);
            block.extend_from_slice(&0_u32.to_le_bytes());
            option(&mut block, OPTION_NAME, interface.name.as_bytes());
            option(&mut block, OPTION_RESOLUTION, &[9]);
            option(&mut block, OPTION_END, &[]);
            write_block(&mut out, INTERFACE, &block)?;
        }
        Ok(Capture { out, interfaces, packets: 0 })
    }
    /// Writes one packet that arrived over the interface of that number.
    ///
    /// # Errors
    /// If the packet cannot be written.
    ///
    /// # Panics
    /// If the interface does not exist.
    pub fn record(&mut self, time: Time, interface: usize, datagram: &Datagram) -> io::Result<()> {
        let frame = frame(&self.interfaces[interface], datagram);
        let mut block = Vec::with_capacity(frame.len() + 24);
        block.extend_from_slice(&(interface as u32).to_le_bytes());
        block.extend_from_slice(&((time.as_nanos() >> 32) as u32).to_le_bytes());
        block.extend_from_slice(&(time.as_nanos() as u32).to_le_bytes());
        for _ in ["captured", "original"] {
            block.extend_from_slice(&(frame.len() as u32).to_le_bytes());
        }
        block.extend_from_slice(&frame);
        pad(&mut block);
        self.packets += 1;
        write_block(&mut self.out, ENHANCED_PACKET, &block)
    }
    /// Packets written.
    pub fn packets(&self) -> u64 {
        self.packets
    }
    /// Ends the file and returns its writer.
    ///
    /// # Errors
    /// If the last bytes cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

// draft-ietf-opsawg-pcapng
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const LINKTYPE_ETHERNET: u16 = 1;
const OPTION_END: u16 = 0;
const OPTION_NAME: u16 = 2;
const OPTION_RESOLUTION: u16 = 9;

fn write_block(out: &mut impl Write, kind: u32, body: &[u8]) -> io::Result<()> {
    let length = (body.len() as u32 + 12).to_le_bytes();
    out.write_all(&kind.to_le_bytes())?;
    out.write_all(&length)?;
    out.write_all(body)?;
    out.write_all(&length)
}
fn option(block: &mut Vec<u8>, code: u16, value: &[u8]) {
    block.extend_from_slice(&code.to_le_bytes());
    block.extend_from_slice(&(value.len() as u16).to_le_bytes());
    block.extend_from_slice(value);
    pad(block);
}
fn pad(block: &mut Vec<u8>) {
    block.resize(block.len().next_multiple_of(4), 0);
}

/// The datagram in UDP, IPv6 and Ethernet.
fn frame(interface: &Interface, datagram: &Datagram) -> Vec<u8> {
    let udp_bytes = (datagram.len() + 8) as u16;
    let [from, to] = [interface.from.0, interface.to.0];
    let mut frame = Vec::with_capacity(datagram.len() + 62);
    frame.extend_from_slice(&mac(to));
    frame.extend_from_slice(&mac(from));
    frame.extend_from_slice(&[0x86, 0xdd]);
    // Version 6; the two lowest bits of the traffic class are ECN: 3 is CE, 2 is ECT(0).
    let ecn = if datagram.is_marked() { 3_u8 } else { 2 };
    frame.extend_from_slice(&[0x60, ecn << 4, 0, 0]);
    frame.extend_from_slice(&udp_bytes.to_be_bytes());
    frame.extend_from_slice(&[17, 64]);
    frame.extend_from_slice(&address(from));
    frame.extend_from_slice(&address(to));
    let udp = frame.len();
    for field in [interface.port, interface.port, udp_bytes, 0] {
        frame.extend_from_slice(&field.to_be_bytes());
    }
    frame.extend_from_slice(datagram.head());
    frame.extend_from_slice(datagram.body());
    let checksum = checksum(from, to, &frame[udp..]);
    frame[udp + 6..udp + 8].copy_from_slice(&checksum.to_be_bytes());
    frame
}
fn mac(node: u32) -> [u8; 6] {
    let [a, b, c, d] = node.to_be_bytes();
    [2, 0, a, b, c, d]
}
fn address(node: u32) -> [u8; 16] {
    let mut address = [0; 16];
    address[0] = 0xfd;
    address[12..].copy_from_slice(&node.to_be_bytes());
    address
}
/// RFC 8200 §8.1: over the pseudo-header and everything from the UDP header on; zero is sent as all ones.
fn checksum(from: u32, to: u32, udp: &[u8]) -> u16 {
    let mut sum = udp.len() as u64 + 17;
    for bytes in [&address(from)[..], &address(to), udp] {
        for pair in bytes.chunks(2) {
            sum += u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    match !(sum as u16) {
        0 => 0xffff,
        sum => sum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture() -> Vec<u8> {
        let interface = Interface { name: "a → b".into(), from: NodeIndex(1), to: NodeIndex(0x0203), port: 7001 };
        let mut capture = Capture::new(Vec::new(), vec![interface]).expect("memory takes everything");
        let mut marked = Datagram::from(&b"hello"[..]);
        marked.set_marked();
        let split = Datagram::new(b"he", bytes::Bytes::from_static(b"llo"));
        capture.record(Time::from_nanos(1_500_000_001), 0, &marked).expect("memory takes everything");
        capture.record(Time::from_nanos(5_000_000_000), 0, &split).expect("memory takes everything");
        capture.finish().expect("memory takes everything")
    }

    /// Blocks of a file: kind and body, with both lengths checked.
    fn blocks(mut file: &[u8]) -> Vec<(u32, &[u8])> {
        let word = |bytes: &[u8]| u32::from_le_bytes(*bytes.first_chunk().expect("four bytes"));
        let mut blocks = Vec::new();
        while !file.is_empty() {
            let length = word(&file[4..]) as usize;
            assert!(length.is_multiple_of(4) && word(&file[length - 4..]) as usize == length);
            blocks.push((word(file), &file[8..length - 4]));
            file = &file[length..];
        }
        blocks
    }

    #[test]
    fn a_file_has_its_section_its_interfaces_and_its_packets() {
        let file = capture();
        let blocks = blocks(&file);
        let kinds: Vec<u32> = blocks.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [SECTION_HEADER, INTERFACE, ENHANCED_PACKET, ENHANCED_PACKET]);
        let packet = blocks[2].1;
        assert_eq!(packet[4..12], [0, 0, 0, 0, 0x01, 0x2f, 0x68, 0x59], "1,500,000,001 ns in two words");
        let frame = &packet[20..20 + 14 + 40 + 8 + 5];
        assert_eq!((&frame[12..14], frame[15] >> 4 & 3, &frame[62..]), (&[0x86, 0xdd][..], 3, &b"hello"[..]));
        // A right checksum makes the sum over everything all ones.
        let mut sum: u32 = 17 + 13;
        for pair in frame[22..].chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        }
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        // Whether the header is inline makes no difference to the bytes; the mark does.
        assert_eq!(blocks[3].1[20 + 62..20 + 67], *b"hello");
        assert_eq!(blocks[3].1[20 + 15] >> 4 & 3, 2);
    }

    #[test]
    fn tshark_reads_it_where_it_is_installed() {
        let path = std::env::temp_dir().join(format!("tributary-capture-{}.pcapng", std::process::id()));
        std::fs::write(&path, capture()).expect("the temporary folder can be written");
        let fields = ["frame.time_epoch", "frame.interface_name", "ipv6.dst", "udp.checksum.status", "udp.dstport"];
        let mut command = std::process::Command::new("tshark");
        command.args(["-o", "udp.check_checksum:TRUE", "-T", "fields", "-r"]).arg(&path);
        for field in fields {
            command.args(["-e", field]);
        }
        let output = command.output();
        std::fs::remove_file(&path).expect("it was written");
        let Ok(output) = output else { return };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text, "1.500000001\ta → b\tfd00::203\t1\t7001\n5.000000000\ta → b\tfd00::203\t1\t7001\n");
    }
}
