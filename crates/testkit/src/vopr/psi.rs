//! Nodes of the PSI family for fault runs.
use tributary_core::{Duration, Random, Time};
use tributary_psi::{
    Config, PsiNode, node_of_key,
    router::cache::POLICIES,
    wire::{DataHeader, FLAG_CACHED, Header, PacketType},
};

use super::{certified::node_key, disk::Disk, family::Family, plan::Plan, profile::Profile};

/// The PSI family.
#[derive(Clone, Copy, Debug)]
pub struct Psi;

/// What all nodes of a PSI domain have in common.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether caches and fetch settings differ from node to node.
    nodes_differ: bool,
    hello_interval: Duration,
    fid_kinds: Vec<String>,
    lease: Duration,
    replicas: u8,
}

impl Settings {
    /// The settings of a node whose config file omits the family.
    fn usual() -> Settings {
        let Config { hello_interval, fid_kinds, lease, replicas, .. } = Config::new("", 0);
        Settings { nodes_differ: false, hello_interval, fid_kinds, lease, replicas }
    }
    /// Others in every field.
    fn unusual(random: &mut Random) -> Settings {
        let mut kinds = vec!["bloom", "bitmap", "list"];
        let first = random.below(3) as usize;
        kinds.rotate_left(first);
        // A list carries any path, so it may be the only encoding; filters and bitmaps may both fail.
        let keep = 1 + random.below(3) as usize;
        if !kinds[..keep].contains(&"list") {
            kinds[keep - 1] = "list";
        }
        kinds.truncate(keep);
        Settings {
            nodes_differ: true,
            hello_interval: Duration::from_millis(100 + random.below(400)),
            fid_kinds: kinds.into_iter().map(String::from).collect(),
            lease: Duration::from_secs(6 + random.below(25)),
            replicas: 1 + random.below(3) as u8,
        }
    }
}

impl Family for Psi {
    type Node = PsiNode;
    type Settings = Settings;
    const NAME: &'static str = "psi";
    const HAS_LISTINGS: bool = true;
    const HAS_GROUPS: bool = false;
    const FINDS_MTU: bool = true;
    const CACHES_ON_PATHS: bool = true;

    fn draw(profile: Profile, random: &mut Random) -> Settings {
        let usual = Settings::usual();
        if profile == Profile::Product && random.chance(0.5) {
            return usual;
        }
        let drawn = Settings::unusual(random);
        if profile == Profile::Laboratory {
            return drawn;
        }
        let mut deviates = || random.chance(0.5);
        Settings {
            nodes_differ: deviates(),
            hello_interval: if deviates() { drawn.hello_interval } else { usual.hello_interval },
            fid_kinds: if deviates() { drawn.fid_kinds } else { usual.fid_kinds },
            lease: if deviates() { drawn.lease } else { usual.lease },
            replicas: if deviates() { drawn.replicas } else { usual.replicas },
        }
    }
    fn node(plan: &Plan<Settings>, index: usize, seed: u64, _: Time, _: &Disk) -> PsiNode {
        let (settings, spec) = (&plan.settings, &plan.topology.nodes[index]);
        let mut config = Config::new(&spec.label, seed);
        if plan.is_certified {
            config.node = node_of_key(&node_key(plan.seed, index).public());
        }
        config.router = spec.router;
        config.resolver = spec.resolver;
        config.topology_manager = spec.manager;
        if settings.nodes_differ {
            config.cache_bytes = spec.cache_bytes;
            config.cache_policy = POLICIES[spec.cache_policy % POLICIES.len()].0.into();
            config.transfer = spec.transfer.clone();
        }
        config.hello_interval = settings.hello_interval;
        config.fid_kinds.clone_from(&settings.fid_kinds);
        config.lease = settings.lease;
        config.replicas = settings.replicas;
        config.transfer.check().expect("drawn within the limits");
        PsiNode::new(config)
    }
    /// Flips a bit of a Data packet's payload and marks it as coming from a cache.
    fn forge(packet: &mut [u8], random: &mut Random) -> bool {
        let Ok(header) = Header::decode(packet) else { return false };
        let payload = header.len() + DataHeader::BYTES;
        if header.packet_type != PacketType::Data || packet.len() <= payload {
            return false;
        }
        if random.chance(0.5) {
            packet[1] |= FLAG_CACHED;
        }
        let at = payload + random.below((packet.len() - payload) as u64) as usize;
        packet[at] ^= 1 << random.below(8);
        true
    }
    /// Leases of dead nodes, twice (a handover may take them over late); suspicions of 10 s; MTU probes every 30 s.
    fn settle(settings: &Settings) -> Duration {
        settings.lease * 2 + Duration::from_secs(60)
    }
    /// Hellos, MTU probes and link states, beacons of three managers, renewals of leases, with their acknowledgements.
    fn idle_packets_max(settings: &Settings) -> f64 {
        60.0 + 2.0 / settings.hello_interval.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_plans_or_more_have_the_settings_of_a_node_whose_config_says_nothing() {
        let usual = format!("{:?}", Settings::usual());
        let drawn = (0..400).map(|seed| Psi::draw(Profile::Product, &mut Random::new(seed, 2)));
        let drawn = drawn.filter(|settings| format!("{settings:?}") == usual);
        assert!(drawn.count() >= 180, "half, but for chance");
    }
}
