//! A packet cache that answers with flipped bytes.
use tributary_core::{Datagram, Random};
use tributary_psi::{DataHeader, FLAG_CACHED, Header, PacketType};

use super::Corruption;

/// A cache that answers with flipped bytes.
pub(super) struct FaultyCache {
    /// What the node's data packets call their sender.
    pub(super) origin: u16,
    /// Share of the packets out of the cache that are altered, 0 to 1.
    pub(super) share: f64,
    pub(super) random: Random,
}

impl Corruption for FaultyCache {
    /// Flips a byte of the payload if the packet came from this node's own cache.
    fn corrupt(&mut self, datagram: Datagram) -> Datagram {
        let bytes = datagram.header_bytes();
        let Ok(header) = Header::decode(bytes) else { return datagram };
        let is_cached = header.packet_type == PacketType::Data && header.flags & FLAG_CACHED != 0;
        let payload = header.len() + DataHeader::BYTES;
        let is_own = bytes
            .get(header.len()..)
            .is_some_and(|rest| DataHeader::decode(rest).is_ok_and(|data| data.origin == self.origin));
        if !is_cached || !is_own || datagram.len() <= payload || !self.random.chance(self.share) {
            return datagram;
        }
        let mut altered = datagram.to_vec();
        altered[payload] ^= 0x55;
        altered.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_psi::{Fid, StreamKey, TTL_MAX};

    fn faulty(origin: u16) -> FaultyCache {
        FaultyCache { origin, share: 1.0, random: Random::new(1, 1) }
    }
    fn data(flags: u8) -> Vec<u8> {
        let fid = Fid::decode(&[0, 0]).unwrap();
        let mut bytes = Vec::new();
        Header { packet_type: PacketType::Data, flags, ttl: TTL_MAX, fid }.encode(&mut bytes);
        DataHeader { tag: 1, packet: 2, stream: StreamKey([3; 6]), origin: 7 }.encode(&mut bytes);
        bytes.extend_from_slice(b"payload");
        bytes
    }

    #[test]
    fn only_what_its_own_cache_answers_is_altered() {
        let sent = |origin, flags| faulty(origin).corrupt(data(flags).into()).to_vec();
        assert_ne!(sent(7, FLAG_CACHED), data(FLAG_CACHED));
        assert_eq!(sent(8, FLAG_CACHED), data(FLAG_CACHED));
        assert_eq!(sent(7, 0), data(0));
        assert_eq!(faulty(7).corrupt(Datagram::from(&b"no packet"[..])).to_vec(), b"no packet");
    }
}
