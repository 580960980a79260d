//! The NDN family: from a checked node config to its node.
use std::time::{SystemTime, UNIX_EPOCH};

use tributary_content::SigningKey;
use tributary_core::ByteCount;
use tributary_ndn::{
    Config, NdnNode,
    config::{DataSignature, StaticRoute},
    router::Transit,
    wire::{PACKET_BYTES_MAX, tlv},
};
use tributary_net::{Framing, PacketLength};

use crate::{
    config::{NodeConfig, Role},
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
    Box::new(NdnNode::new(ndn))
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

/// Finds the ends of NDN packets in a stream: each says its length in its first bytes.
#[derive(Debug)]
pub(crate) struct TlvFraming;

/// Bytes that a link packet may have around a packet.
const LINK_BYTES_MAX: usize = 4096;
/// Bytes of the longest type and length.
const HEAD_BYTES_MAX: usize = 5 + 9;

impl Framing for TlvFraming {
    fn packet_length(&self, bytes: &[u8]) -> PacketLength {
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
    use crate::{
        registry::Family,
        simulation::{Scenario, Simulation, object},
    };
    use tributary_core::{Duration, Rate, Time, link::LinkConfig};

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
    }
}
