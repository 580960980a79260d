//! The NDN family: from a checked node config to its node.
use std::{
    collections::BTreeSet,
    time::{SystemTime, UNIX_EPOCH},
};

use tributary_content::SigningKey;
use tributary_core::{ByteCount, Datagram, Random};
use tributary_ndn::{
    Config, NdnNode,
    config::{DataSignature, StaticRoute},
    router::Transit,
    wire::{Data, LpPacket, PACKET_BYTES_MAX, SignKey, SignatureType, lp::Origin, tlv, types},
};
use tributary_net::{Framing, PacketLength};

use crate::{
    config::{NodeConfig, Role},
    fault::{LYING_STREAM, Liar, Lie},
    registry::BoxedNode,
    simulation::routes::RouteTold,
};

/// Makes an NDN node. A node that is no router keeps nothing for others and passes nothing on.
pub(crate) fn build(config: &NodeConfig, seed: u64) -> BoxedNode {
    let is_router = config.has_role(Role::Router);
    let ndn = Config {
        seed,
        transit: if is_router { Transit::Allowed } else { Transit::Refused },
        cache_bytes: if is_router { config.ndn.cache_bytes } else { ByteCount(0) },
        ..config.ndn.clone()
    };
    let inner = NdnNode::new(ndn);
    let share = config.faults.corrupt_cache;
    if share > 0.0 {
        let lie = LyingCache { share, random: Random::new(seed, LYING_STREAM), passing: BTreeSet::new() };
        return Box::new(Liar { inner, lie });
    }
    Box::new(inner)
}

/// Names of Data that are remembered until all is sent; beyond them nothing is altered.
const PASSING_MAX: usize = 4_096;

/// A content store that answers with flipped bytes. Digests are made right again, so that nothing but the object's own
/// hashes shows it.
struct LyingCache {
    share: f64,
    random: Random,
    /// Names of the Data that arrived and may not have been passed on yet: they come from elsewhere.
    passing: BTreeSet<Vec<u8>>,
}

impl Lie for LyingCache {
    fn on_arrival(&mut self, datagram: &Datagram) {
        let bytes = datagram.to_vec();
        let packet = LpPacket::decode(&bytes).ok().and_then(|headers| headers.fragment);
        if let Some(data) = packet.and_then(|packet| Data::decode(packet).ok())
            && self.passing.len() < PASSING_MAX
        {
            self.passing.insert(data.name.as_tlv().to_vec());
        }
    }
    fn tell(&mut self, datagram: Datagram) -> Datagram {
        let bytes = datagram.to_vec();
        let Ok(headers) = LpPacket::decode(&bytes) else { return datagram };
        let packet = headers.fragment.filter(|_| headers.origin == Some(Origin::Cache));
        let Some(data) = packet.and_then(|packet| Data::decode(packet).ok()) else { return datagram };
        let is_own = self.passing.len() < PASSING_MAX && !self.passing.contains(data.name.as_tlv());
        let mut content = data.content.unwrap_or_default().to_vec();
        let Some(first) = content.first_mut().filter(|_| is_own && self.random.chance(self.share)) else {
            return datagram;
        };
        *first ^= 0x55;
        let altered = Data { content: Some(&content), ..data };
        let altered = match data.signature.kind {
            SignatureType::DigestSha256 => altered.sign(&SignKey::Digest),
            _ => altered.encode(),
        };
        LpPacket { fragment: Some(&altered), ..headers }.encode().into()
    }
    fn on_drained(&mut self) {
        self.passing.clear();
    }
}

/// Gives a node what follows from its key and from the calendar.
#[expect(clippy::disallowed_methods, reason = "where a real node starts, before any core runs")]
pub(crate) fn identify(config: &mut NodeConfig, key: &SigningKey) {
    if let DataSignature::Ed25519(secret) = &mut config.ndn.signature {
        // The signature that the secret is made from is never shown to anybody.
        let signature = key.sign("tributary ndn data", b"");
        *secret = blake3::derive_key("tributary 2026 ndn data secret", &signature.0);
    }
    config.ndn.epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
}

/// Gives a node of a simulation its routes.
pub(crate) fn tell_routes(config: &mut NodeConfig, told: &[RouteTold]) {
    let route = |told: &RouteTold| StaticRoute { face: told.face, prefix: told.prefix.clone(), cost: told.cost };
    config.ndn.routes = told.iter().map(route).collect();
}

/// Finds the ends of NDN packets in a stream: each says its length in its first bytes. What begins as none of them does
/// ends the stream: with anything skipped, what a web page posts to this machine could hold a command behind its headers.
#[derive(Debug)]
pub(crate) struct TlvFraming;

/// Bytes that a link packet may have around a packet.
const LINK_BYTES_MAX: usize = 4096;
/// Bytes of such a type and the longest length.
const HEAD_BYTES_MAX: usize = 1 + 9;

impl Framing for TlvFraming {
    fn packet_length(&self, bytes: &[u8]) -> PacketLength {
        let Some((kind, behind)) = bytes.split_first() else { return PacketLength::Unknown };
        if ![types::INTEREST, types::DATA, types::LP_PACKET].contains(&u32::from(*kind)) {
            return PacketLength::Invalid;
        }
        let unknown = if bytes.len() < HEAD_BYTES_MAX { PacketLength::Unknown } else { PacketLength::Invalid };
        let Some((length, length_bytes)) = tlv::read_number(behind) else { return unknown };
        match usize::try_from(length) {
            Ok(length) if length <= PACKET_BYTES_MAX + LINK_BYTES_MAX => PacketLength::Known(1 + length_bytes + length),
            Ok(_) | Err(_) => PacketLength::Invalid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        registry::Family,
        simulation::{Scenario, Simulation, object},
    };
    use tributary_core::{Duration, Rate, Time, link::LinkConfig};
    use tributary_ndn::wire::VerifyKey;

    #[test]
    fn a_scenario_of_this_family_takes_both_ways_at_the_rates_of_their_links() {
        let mut scenario = Scenario::new("ndn", 1);
        for label in ["north", "south"] {
            scenario.add_node(label, Family::Ndn, &[Role::Router]);
        }
        scenario.add_node("server", Family::Ndn, &[Role::Sender]);
        scenario.add_node("phone", Family::Ndn, &[Role::Receiver]);
        for (label, mbps) in [("north", 20), ("south", 10)] {
            let link = |mbps| LinkConfig::new(Rate::from_mbps(mbps), Duration::from_millis(10));
            scenario.add_link("server", label, link(100));
            scenario.add_link(label, "phone", link(mbps));
        }
        scenario.publish("server", Time::ZERO, object("/lab/file", 9_000_000, 1));
        scenario.fetch("phone", Time::from_millis(100), "/lab/file".parse().expect("a name"));
        let outcome = Simulation::run(&scenario).expect("a scenario");
        let seconds = outcome.transfers[0].seconds().expect("it completes");
        assert_eq!(outcome.transfers[0].is_verified, Some(true));
        // 2.4 s for the payload alone on both links; names, signatures and headers are a seventh of it.
        assert!((2.4..3.1).contains(&seconds), "{seconds} s");
    }

    /// What a second receiver is given by the server and by the cache of the router before it, a share of whose answers are
    /// lies, of a file that a first one has fetched through it; and how many paths bypass that cache.
    fn past_a_cache(corrupt_cache: f64) -> (u64, u64, usize) {
        let mut scenario = Scenario::new("ndn", 1);
        for label in ["gateway", "north", "south"] {
            scenario.add_node(label, Family::Ndn, &[Role::Router]);
        }
        scenario.node_mut("gateway").expect("it was added").faults.corrupt_cache = corrupt_cache;
        scenario.add_node("server", Family::Ndn, &[Role::Sender]);
        let link = |mbps| LinkConfig::new(Rate::from_mbps(mbps), Duration::from_millis(5));
        for label in ["north", "south"] {
            scenario.node_mut(label).expect("it was added").ndn.cache_bytes = ByteCount(0);
            scenario.add_link("server", label, link(100));
            scenario.add_link(label, "gateway", link(20));
        }
        for (label, at) in [("phone", 100), ("tablet", 5_000)] {
            scenario.add_node(label, Family::Ndn, &[Role::Receiver]);
            scenario.add_link("gateway", label, link(100));
            scenario.fetch(label, Time::from_millis(at), "/lab/file".parse().expect("a name"));
        }
        scenario.publish("server", Time::ZERO, object("/lab/file", 4_000_000, 1));
        scenario.keeps_events = true;
        let outcome = Simulation::run(&scenario).expect("a scenario");
        assert!(outcome.is_complete(), "{:?}", outcome.transfers);
        let second = &outcome.transfers[1];
        let sources = &second.report.as_ref().expect("it started").sources;
        assert!(sources.iter().all(|source| source.distrusted.is_none()), "the server is no liar: {sources:?}");
        let bypassed = outcome.events.iter().filter(|event| event.contains("cache-distrusted")).count();
        (second.bytes_from("server"), second.report.as_ref().map_or(0, |report| report.cached_bytes), bypassed)
    }

    #[test]
    fn a_cache_that_lies_is_bypassed_and_its_source_serves_in_its_place() {
        let (of_server, of_cache, bypassed) = past_a_cache(0.0);
        assert!(of_cache > 3_900_000 && of_server < 100_000 && bypassed == 0, "{of_server} {of_cache} {bypassed}");
        let (of_server, of_cache, bypassed) = past_a_cache(0.5);
        assert!(of_cache < 100_000 && of_server > 3_900_000 && bypassed > 0, "{of_server} {of_cache} {bypassed}");
    }

    #[test]
    fn only_what_its_own_cache_answers_is_altered() {
        let name: tributary_content::Name = "/lab/file".parse().expect("a name");
        let data = Data::new((&name).into(), b"payload").sign(&SignKey::Digest);
        let packet = |origin| LpPacket { origin, ..LpPacket::around(&data) }.encode();
        let liar = || LyingCache { share: 1.0, random: Random::new(1, 1), passing: BTreeSet::new() };
        for origin in [None, Some(Origin::Aggregation)] {
            assert_eq!(liar().tell(packet(origin).into()).to_vec(), packet(origin));
        }
        let mut liar = liar();
        let cached = packet(Some(Origin::Cache));
        liar.on_arrival(&cached.clone().into());
        assert_eq!(liar.tell(cached.clone().into()).to_vec(), cached, "it comes from another cache");
        liar.on_drained();
        let lie = liar.tell(cached.into()).to_vec();
        let lie = LpPacket::decode(&lie).expect("a packet").fragment.expect("a Data");
        let lie = Data::decode(lie).expect("a Data");
        assert_ne!(lie.content, Some(&b"payload"[..]));
        assert!(lie.is_signed_by(&VerifyKey::Digest), "nothing but the object's hashes tells");
    }

    #[test]
    fn the_first_bytes_tell_the_length_and_too_much_is_refused() {
        let length = |bytes: &[u8]| TlvFraming.packet_length(bytes);
        assert_eq!(length(&[5]), PacketLength::Unknown);
        assert_eq!(length(&[5, 10]), PacketLength::Known(12));
        assert_eq!(length(&[6, 253]), PacketLength::Unknown);
        assert_eq!(length(&[6, 253, 0x1f, 0x40, 7]), PacketLength::Known(8004));
        assert_eq!(length(&[100, 253, 0xff, 0xff]), PacketLength::Invalid);
        assert_eq!(length(&[6, 255, 1, 0, 0, 0, 0, 0, 0, 0]), PacketLength::Invalid);
        assert_eq!(length(&[0xff; 14]), PacketLength::Invalid);
        assert_eq!(length(b"POST / HTTP/1.1\r\n"), PacketLength::Invalid);
    }
}
