//! The PSI family: from a checked node config to its node.
use tributary_core::{Datagram, Random};
use tributary_psi::{
    Config, PsiNode,
    wire::{DataHeader, FLAG_CACHED, Header, PacketType},
};

use crate::{
    config::NodeConfig,
    fault::{LYING_STREAM, Liar, Lie},
    registry::BoxedNode,
};

/// Makes a PSI node.
pub(crate) fn build(config: &NodeConfig, seed: u64) -> BoxedNode {
    let inner = PsiNode::new(Config { seed, ..config.psi.clone() });
    let share = config.faults.corrupt_cache;
    if share > 0.0 {
        let random = Random::new(seed, LYING_STREAM);
        return Box::new(Liar { inner, lie: LyingCache { origin: config.psi.node.0 as u16, share, random } });
    }
    Box::new(inner)
}

/// A cache that answers with flipped bytes.
struct LyingCache {
    /// What the node's data packets call their sender.
    origin: u16,
    share: f64,
    random: Random,
}

impl Lie for LyingCache {
    /// Flips a byte of the payload if the packet came from this node's own cache.
    fn tell(&mut self, datagram: Datagram) -> Datagram {
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
    use tributary_psi::wire::{Fid, StreamKey, TTL_MAX};

    fn liar(origin: u16) -> LyingCache {
        LyingCache { origin, share: 1.0, random: Random::new(1, 1) }
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
        let told = |origin, flags| liar(origin).tell(data(flags).into()).to_vec();
        assert_ne!(told(7, FLAG_CACHED), data(FLAG_CACHED));
        assert_eq!(told(8, FLAG_CACHED), data(FLAG_CACHED));
        assert_eq!(told(7, 0), data(0));
        assert_eq!(liar(7).tell(Datagram::from(&b"no packet"[..])).to_vec(), b"no packet");
    }
}
