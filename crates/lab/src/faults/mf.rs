//! A content cache that answers with flipped bytes.
use tributary_core::Datagram;
use tributary_mf::{ChunkHeader, DataHeader, Flags, ids::Guid};

use super::Corruption;

/// Flips a byte in a share of the chunks that a router's own cache answers with: in the first one and, evenly, in
/// others, so that no small object escapes by luck, and in the same ones when they are sent again. The chunk header, in
/// the first packet of a chunk, shows that it comes from the cache.
pub(super) struct FaultyCache {
    /// What the router's chunks call their source.
    pub(super) own: Guid,
    pub(super) share: f64,
}

impl FaultyCache {
    fn alters(&self, number: u32) -> bool {
        let altered_until = |number: u32| (f64::from(number) * self.share).ceil();
        // The first chunk carries the manifest, which stays true.
        number > 0 && altered_until(number) > altered_until(number - 1)
    }
}

impl Corruption for FaultyCache {
    fn corrupt(&mut self, datagram: Datagram) -> Datagram {
        let bytes = datagram.to_vec();
        let first = DataHeader::decode(&bytes).ok().filter(|packet| packet.index == 0);
        let header = first.and_then(|_| ChunkHeader::decode(bytes.get(DataHeader::BYTES..)?).ok());
        let Some((header, header_bytes)) = header else { return datagram };
        let is_altered = header.tag().is_some_and(|tag| self.alters(tag.number));
        let is_own = header.source == self.own && header.flags.contains(Flags::CACHED);
        let payload = DataHeader::BYTES + header_bytes;
        if !is_altered || !is_own || bytes.len() <= payload {
            return datagram;
        }
        let mut altered = bytes;
        altered[payload] ^= 0x55;
        altered.into()
    }
}

#[cfg(test)]
mod tests {
    use tributary_content::ObjectId;
    use tributary_mf::{
        ChunkKind, Class, DataTag, Reliability,
        ids::{HopId, NetworkAddress, Token},
    };

    use super::*;

    /// A packet of a chunk of router 7.
    fn packet(index: u16, number: u32, flags: Flags) -> Vec<u8> {
        let mut bytes = Vec::new();
        DataHeader { index, count: 2, hop: HopId(3), csyn: None, class: Class::Bulk }.encode(&mut bytes);
        if index == 0 {
            let tag = DataTag {
                object: ObjectId([9; 16]),
                transfer: 1,
                token: Token(5),
                number,
                count: 3,
                chunk_bytes: 1_024,
                reliability: Reliability::Nack,
                window: 0,
                window_chunks: 0,
            };
            let mut header = ChunkHeader::new(ChunkKind::Data(tag), Guid([7; 20]), Guid([8; 20]), NetworkAddress(1));
            header.flags = flags;
            header.encode(&mut bytes);
        }
        bytes.extend_from_slice(b"payload");
        bytes
    }

    #[test]
    fn only_what_its_own_cache_answers_is_altered() {
        let is_altered = |own: u8, bytes: Vec<u8>| {
            let mut cache = FaultyCache { own: Guid([own; 20]), share: 1.0 };
            cache.corrupt(bytes.clone().into()).to_vec() != bytes
        };
        assert!(is_altered(7, packet(0, 1, Flags::CACHED)));
        assert!(!is_altered(8, packet(0, 1, Flags::CACHED)), "another router's");
        assert!(!is_altered(7, packet(0, 1, Flags::STORED)), "not out of the cache");
        assert!(!is_altered(7, packet(0, 0, Flags::CACHED)), "what the object is");
        assert!(!is_altered(7, packet(1, 1, Flags::CACHED)));
        assert!(!is_altered(7, b"no packet".to_vec()));
    }

    #[test]
    fn a_share_of_the_chunks_is_altered_and_the_first_among_them() {
        let lies = |share: f64, count: u32| -> Vec<u32> {
            let cache = FaultyCache { own: Guid([7; 20]), share };
            (0..=count).filter(|number| cache.alters(*number)).collect()
        };
        assert_eq!(lies(0.5, 9), [1, 3, 5, 7, 9]);
        assert_eq!(lies(0.25, 9), [1, 5, 9]);
        assert_eq!(lies(1.0, 3), [1, 2, 3]);
        assert_eq!(lies(0.01, 1), [1]);
    }
}
