//! Nodes of the MobilityFirst family for fault runs.
use tributary_content::ObjectId;
use tributary_core::{ByteCount, Duration, Random, Time};
use tributary_mf::{
    Config, MfNode,
    config::{CustodyUntil, HolRelief, ProxyConfig, Rebinding},
    link::{Chunk, Forwarding, Origin},
    router::proxy::Proxy,
    wire::{PacketType, Reliability, hop::DataHeader},
};
use tributary_transport::Endpoint;

use super::{
    disk::Disk,
    family::{Family, Usage},
    plan::Plan,
    profile::Profile,
};

/// The MobilityFirst family.
#[derive(Clone, Copy, Debug)]
pub struct Mf;

/// What all nodes of a MobilityFirst network have in common.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether each node has a cache of its own size.
    nodes_differ: bool,
    hello_interval: Duration,
    binding_lifetime: Duration,
    replicas: u8,
    network_key: [u8; 32],
    chunk_bytes: u32,
    buffer_packets: u32,
    window_chunks: u16,
    reliability: Reliability,
    nack_timeout: Duration,
    relief: HolRelief,
    rebinding: Rebinding,
    proxy: ProxyConfig,
    delegate: bool,
}

impl Settings {
    /// Those of a node whose config file says nothing of the family.
    fn usual() -> Settings {
        let config = Config::new("", 0);
        Settings {
            nodes_differ: false,
            hello_interval: config.hello_interval,
            binding_lifetime: config.binding_lifetime,
            replicas: config.replicas,
            network_key: config.network_key,
            chunk_bytes: config.transfer.chunk_bytes,
            buffer_packets: config.buffer_packets,
            window_chunks: config.transfer.window_chunks,
            reliability: config.transfer.reliability,
            nack_timeout: config.transfer.nack_timeout,
            relief: config.relief,
            rebinding: config.proxy.rebinding,
            proxy: config.proxy,
            delegate: config.transfer.delegate,
        }
    }
    /// Some of `drawn`, and the others of `usual`; two of three relieve as is usual.
    fn deviating(usual: Settings, drawn: Settings, random: &mut Random) -> Settings {
        let relieves = random.chance(0.66);
        let mut deviates = || random.chance(0.5);
        // These belong together: the buffer has room for two chunks.
        let cut = if deviates() { drawn.clone() } else { usual.clone() };
        Settings {
            nodes_differ: deviates(),
            hello_interval: if deviates() { drawn.hello_interval } else { usual.hello_interval },
            binding_lifetime: if deviates() { drawn.binding_lifetime } else { usual.binding_lifetime },
            replicas: if deviates() { drawn.replicas } else { usual.replicas },
            network_key: if deviates() { drawn.network_key } else { usual.network_key },
            chunk_bytes: cut.chunk_bytes,
            buffer_packets: cut.buffer_packets,
            window_chunks: if deviates() { drawn.window_chunks } else { usual.window_chunks },
            reliability: if deviates() { drawn.reliability } else { usual.reliability },
            nack_timeout: if deviates() { drawn.nack_timeout } else { usual.nack_timeout },
            relief: if relieves { usual.relief } else { drawn.relief },
            rebinding: if deviates() { drawn.rebinding } else { usual.rebinding },
            proxy: usual.proxy,
            delegate: drawn.delegate && deviates(),
        }
    }
    /// Others in every field.
    fn unusual(random: &mut Random) -> Settings {
        let chunk_bytes = [4_096, 65_536, 262_144, 1 << 20][random.below(4) as usize];
        let key = if random.chance(0.5) { [0; 32] } else { [random.below(256) as u8; 32] };
        let mut settings = Settings {
            nodes_differ: true,
            hello_interval: Duration::from_millis(100 + random.below(400)),
            binding_lifetime: Duration::from_secs(6 + random.below(25)),
            replicas: 1 + random.below(5) as u8,
            network_key: key,
            chunk_bytes,
            buffer_packets: 2 * chunk_bytes.div_ceil(1_000).max(32) + random.below(6_000) as u32,
            window_chunks: 1 + random.below(16) as u16,
            reliability: [Reliability::Nack, Reliability::Nack, Reliability::Ack][random.below(3) as usize],
            nack_timeout: Duration::from_millis(200 + random.below(3_000)),
            relief: [HolRelief::Off, HolRelief::Proxy, HolRelief::Proxy][random.below(3) as usize],
            rebinding: [Rebinding::Watch, Rebinding::Watch, Rebinding::Timer][random.below(3) as usize],
            proxy: ProxyConfig {
                capacity: ByteCount([1 << 20, 8 << 20, 1 << 30][random.below(3) as usize]),
                ..ProxyConfig::default()
            },
            delegate: random.chance(0.2),
        };
        settings.proxy.flow_capacity = settings.proxy.flow_capacity.min(settings.proxy.capacity);
        settings
    }
}

impl Family for Mf {
    type Node = MfNode;
    type Settings = Settings;
    const NAME: &'static str = "mf";
    const HAS_LISTINGS: bool = true;
    const HAS_GROUPS: bool = true;
    const FINDS_MTU: bool = true;
    const CACHES_ON_PATHS: bool = false;

    fn draw(profile: Profile, random: &mut Random) -> Settings {
        let usual = Settings::usual();
        if profile == Profile::Product && random.chance(0.5) {
            return usual;
        }
        let drawn = Settings::unusual(random);
        if profile == Profile::Laboratory {
            return drawn;
        }
        let mut settings = Settings::deviating(usual, drawn, random);
        if random.chance(0.4) {
            // Less than what is sent, so that it is refused, given back and makes room.
            let bytes = [30_000, 200_000, 1 << 20, 8 << 20][random.below(4) as usize];
            settings.proxy = ProxyConfig::with_capacity(ByteCount(bytes));
            let part = |random: &mut Random| ByteCount(bytes / (1 + random.below(8)));
            (settings.proxy.flow_capacity, settings.proxy.source_capacity) = (part(random), part(random));
        }
        settings
    }
    fn forget(settings: &mut Settings) {
        settings.proxy.custody = CustodyUntil::Hop;
    }
    fn node(plan: &Plan<Settings>, index: usize, seed: u64, now: Time, disk: &Disk) -> MfNode {
        let (settings, spec) = (&plan.settings, &plan.topology.nodes[index]);
        let mut config = Config::new(&spec.label, seed);
        config.router = spec.router;
        // Names are held by routers, which all others know; the first one always is one.
        config.resolver = spec.router && (spec.resolver || spec.manager.is_some() || index == 0);
        config.network_key = settings.network_key;
        config.hello_interval = settings.hello_interval;
        config.binding_lifetime = settings.binding_lifetime;
        config.replicas = settings.replicas;
        config.buffer_packets = settings.buffer_packets;
        config.relief = settings.relief;
        if plan.groups.store_and_forward {
            config.hop.forwarding = Forwarding::StoreAndForward;
        }
        if settings.nodes_differ {
            config.cache_bytes = spec.cache_bytes;
        }
        config.proxy = ProxyConfig { rebinding: settings.rebinding, ..settings.proxy.clone() };
        config.transfer.chunk_bytes = settings.chunk_bytes;
        config.transfer.window_chunks = settings.window_chunks;
        config.transfer.reliability = settings.reliability;
        config.transfer.nack_timeout = settings.nack_timeout;
        config.transfer.delegate = settings.delegate;
        config.check().expect("drawn within the limits");
        // What real nodes keep, in the same two places.
        if plan.profile == Profile::Laboratory {
            return MfNode::new(config);
        }
        let (stores, resolves) = (config.router && config.proxy.enabled, config.resolver);
        let mut node = match stores {
            true => MfNode::with_repository(now, config, disk.repository("store")),
            false => MfNode::new(config),
        };
        if resolves {
            node.keep_names(now, disk.repository("names"));
        }
        node
    }
    fn usages(node: &MfNode) -> Vec<Usage> {
        let usage = |what, used, limit| Usage { what, used, limit };
        let cache = node.status(Time::ZERO).cache;
        let cache = cache.map(|cache| usage("bytes in the cache", cache.used.0, cache.capacity.0));
        let store = node.proxy().map(|proxy| proxy.usage());
        let store = store.map(|(used, capacity)| usage("bytes in the store", used.0, capacity.0));
        cache.into_iter().chain(store).collect()
    }
    fn unreadable(node: &mut MfNode, now: Time) -> Vec<String> {
        node.unreadable_chunks(now).iter().map(|key| format!("{key:?}")).collect()
    }
    fn stores(node: &MfNode, _: Time, object: &ObjectId) -> bool {
        let holdings = node.proxy().into_iter().flat_map(Proxy::holdings);
        holdings.into_iter().any(|held| held.durable && held.key.object == *object)
    }
    fn broken_promises(node: &MfNode) -> u64 {
        node.proxy().map_or(0, |proxy| proxy.stats.evicted + proxy.stats.expired)
    }
    /// Chunks that came and are neither here nor went anywhere, or went without having come.
    fn leftovers(node: &MfNode) -> Vec<(&'static str, u64)> {
        let (buffer, stats) = (&node.router().buffer, node.router().stats);
        let came = stats.arrived + stats.originated;
        let went = stats.sent + stats.consumed + stats.dropped + stats.returned;
        // What still arrives has not come; a copy of it, made here, has.
        let has_come = |chunk: &&Chunk| chunk.is_complete() || chunk.origin == Origin::Local;
        let here = buffer.chunks().filter(has_come).count() as u64;
        vec![("chunks unaccounted for", came.abs_diff(went + here))]
    }
    /// Flips a bit of a fragment of a chunk, behind the packet's own header.
    fn forge(packet: &mut [u8], random: &mut Random) -> bool {
        let is_data = packet.first().is_some_and(|first| PacketType::of(*first) == Ok(PacketType::Data));
        let header = DataHeader::BYTES;
        if !is_data || packet.len() <= header {
            return false;
        }
        let at = header + random.below((packet.len() - header) as u64) as usize;
        packet[at] ^= 1 << random.below(8);
        true
    }
    /// Bindings of what died, twice; requests repeated after sixteen times the timeout; suspicions of 10 s.
    fn settle(settings: &Settings) -> Duration {
        settings.binding_lifetime * 2 + settings.nack_timeout * 16 + Duration::from_secs(60)
    }
    /// Who is attached says so again, and watches of names are renewed.
    fn groups_settle(settings: &Settings) -> Duration {
        settings.binding_lifetime + Duration::from_secs(20)
    }
    /// Hellos, link states and renewals of bindings at all replicas, each with what the hop link says of it.
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
        let drawn = (0..400).map(|seed| Mf::draw(Profile::Product, &mut Random::new(seed, 2)));
        let drawn = drawn.filter(|settings| format!("{settings:?}") == usual);
        assert!(drawn.count() >= 180, "half, but for chance");
    }
}
