//! Where NDN packets end in a stream.
use tributary_ndn::{PACKET_BYTES_MAX, tlv};
use tributary_net::{Framing, PacketLength};

/// Finds the ends of packets in a stream: each has its length in its first bytes, even if its type is unknown and the
/// forwarder drops it. A start like an HTTP request ends the stream: if it were skipped, a web page's POST to this
/// machine could hold a command after its headers.
#[derive(Debug)]
pub(crate) struct TlvFraming;

/// Bytes that a link packet may have around a packet.
const LINK_BYTES_MAX: usize = 4096;
/// Bytes of the longest type and length.
const HEAD_BYTES_MAX: usize = 9 + 9;

impl Framing for TlvFraming {
    fn packet_length(&self, bytes: &[u8]) -> PacketLength {
        if bytes.first().is_some_and(|first| *first == 0 || first.is_ascii_uppercase()) {
            return PacketLength::Invalid;
        }
        let unknown = if bytes.len() < HEAD_BYTES_MAX { PacketLength::Unknown } else { PacketLength::Invalid };
        let Some((_, kind_bytes)) = tlv::read_number(bytes) else { return unknown };
        let Some((length, length_bytes)) = tlv::read_number(&bytes[kind_bytes..]) else { return unknown };
        match usize::try_from(length) {
            Ok(length) if length <= PACKET_BYTES_MAX + LINK_BYTES_MAX => {
                PacketLength::Known(kind_bytes + length_bytes + length)
            }
            Ok(_) | Err(_) => PacketLength::Invalid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell_the_length_and_too_much_is_refused() {
        let length = |bytes: &[u8]| TlvFraming.packet_length(bytes);
        assert_eq!(length(&[5]), PacketLength::Unknown);
        assert_eq!(length(&[5, 10]), PacketLength::Known(12));
        assert_eq!(length(&[6, 253]), PacketLength::Unknown);
        assert_eq!(length(&[6, 253, 0x1f, 0x40, 7]), PacketLength::Known(8004));
        assert_eq!(length(&[100, 253, 0xff, 0xff]), PacketLength::Invalid);
        assert_eq!(length(&[6, 255, 1, 0, 0, 0, 0, 0, 0, 0]), PacketLength::Invalid);
        assert_eq!(length(&[0xff; 18]), PacketLength::Invalid);
        assert_eq!(length(&[0xf0, 2, 0, 0]), PacketLength::Known(4), "of a type that is not known");
        assert_eq!(length(&[253, 1, 0, 1]), PacketLength::Known(5));
        assert_eq!(length(b"POST / HTTP/1.1\r\n"), PacketLength::Invalid);
    }
}
