//! A content cache that answers with flipped bytes.
use tributary_core::Datagram;
use tributary_mf::{
    ids::Guid,
    wire::{ChunkHeader, DataHeader, Flags},
};

use crate::fault::Lie;

/// Flips a byte in a share of the chunks that a router's own cache answers with: in the first one and, evenly, in others, so
/// that no small object comes out whole by luck, and in the same ones when they are sent again. The header of a chunk, which
/// tells that, is in its first packet.
pub(super) struct LyingCache {
    /// What the router's chunks call their source.
    pub(super) own: Guid,
    pub(super) share: f64,
}

impl LyingCache {
    fn lies_about(&self, number: u32) -> bool {
        let lies_until = |number: u32| (f64::from(number) * self.share).ceil();
        // The first chunk says what the object is; the true one is told of that.
        number > 0 && lies_until(number) > lies_until(number - 1)
    }
}

impl Lie for LyingCache {
    fn tell(&mut self, datagram: Datagram) -> Datagram {
        let bytes = datagram.to_vec();
        let first = DataHeader::decode(&bytes).ok().filter(|packet| packet.index == 0);
        let header = first.and_then(|_| ChunkHeader::decode(bytes.get(DataHeader::BYTES..)?).ok());
        let Some((header, header_bytes)) = header else { return datagram };
        let is_lie = header.tag().is_some_and(|tag| self.lies_about(tag.number));
        let is_own = header.source == self.own && header.flags.contains(Flags::CACHED);
        let payload = DataHeader::BYTES + header_bytes;
        if !is_lie || !is_own || bytes.len() <= payload {
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
    use tributary_core::{ByteCount, Duration, Rate, Time, link::LinkConfig};
    use tributary_mf::{
        ids::{HopId, NetworkAddress, Token},
        wire::{ChunkKind, Class, DataTag, Reliability},
    };

    use super::*;
    use crate::{
        config::Role,
        registry::Family,
        simulation::{Scenario, Simulation, object},
    };

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
            let mut liar = LyingCache { own: Guid([own; 20]), share: 1.0 };
            liar.tell(bytes.clone().into()).to_vec() != bytes
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
            let liar = LyingCache { own: Guid([7; 20]), share };
            (0..=count).filter(|number| liar.lies_about(*number)).collect()
        };
        assert_eq!(lies(0.5, 9), [1, 3, 5, 7, 9]);
        assert_eq!(lies(0.25, 9), [1, 5, 9]);
        assert_eq!(lies(1.0, 3), [1, 2, 3]);
        assert_eq!(lies(0.01, 1), [1]);
    }

    /// What a second receiver is given by the server and by the cache of its access router, a share of whose answers are
    /// lies, of a file that a first one has fetched through it; and how many caches it says that it bypasses.
    fn past_a_cache(corrupt_cache: f64) -> (u64, u64, usize) {
        let mut scenario = Scenario::new("mf", 1);
        for label in ["access", "core"] {
            scenario.add_node(label, Family::Mf, &[Role::Router, Role::Resolver]);
        }
        scenario.node_mut("access").expect("it was added").faults.corrupt_cache = corrupt_cache;
        scenario.node_mut("core").expect("it was added").mf.cache_bytes = ByteCount(0);
        scenario.add_node("server", Family::Mf, &[Role::Sender]);
        let link = |mbps| LinkConfig::new(Rate::from_mbps(mbps), Duration::from_millis(5));
        scenario.add_link("server", "core", link(100));
        scenario.add_link("core", "access", link(20));
        for (label, at) in [("phone", 2_000), ("tablet", 8_000)] {
            scenario.add_node(label, Family::Mf, &[Role::Receiver]);
            scenario.add_link("access", label, link(100));
            scenario.fetch(label, Time::from_millis(at), "/lab/file".parse().expect("a name"));
        }
        scenario.publish("server", Time::ZERO, object("/lab/file", 4_000_000, 1));
        scenario.keeps_events = true;
        let outcome = Simulation::run(&scenario).expect("a scenario");
        assert!(outcome.is_complete(), "{:?}", outcome.transfers);
        let second = &outcome.transfers[1];
        assert_eq!(second.is_verified, Some(true));
        let report = second.report.as_ref().expect("it started");
        assert!(report.sources.iter().all(|source| source.distrusted.is_none()), "the server is no liar: {report:?}");
        let bypassed = outcome.events.iter().filter(|event| event.contains("cache-distrusted")).count();
        (second.bytes_from("server"), report.cached_bytes, bypassed)
    }

    #[test]
    fn a_cache_that_lies_is_bypassed_and_its_source_serves_in_its_place() {
        assert_eq!(past_a_cache(0.0), (0, 4_000_000, 0));
        let (of_server, of_cache, bypassed) = past_a_cache(0.5);
        assert!(of_server > 2_000_000 && of_server + of_cache == 4_000_000, "{of_server} {of_cache}");
        assert_eq!(bypassed, 1, "it is told once, though more of what it sent comes");
    }
}
