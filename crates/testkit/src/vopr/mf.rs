//! Nodes of the MobilityFirst family for fault runs.
use std::collections::BTreeMap;

use tributary_content::{Name, ObjectId, PublicKey};
use tributary_core::{ByteCount, Duration, Random, Time};
use tributary_mf::{
    Config, MfNode,
    config::{CustodyUntil, HolRelief, ProxyConfig, Rebinding},
    ids::Guid,
    link::{Chunk, Forwarding, Origin},
    router::proxy::{CHUNK_OVERHEAD_BYTES, Holding, Place, Proxy},
    wire::{PacketType, Reliability, hop::DataHeader},
};
use tributary_transport::Endpoint;
use tributary_trust::Roles;

use super::{
    disk::Disk,
    family::{Family, Usage},
    plan::Plan,
    profile::Profile,
    topology::{NodeSpec, Topology},
};

/// The MobilityFirst family.
#[derive(Clone, Copy, Debug)]
pub struct Mf;

/// What all nodes of a MobilityFirst network have in common.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether cache sizes differ from node to node.
    nodes_differ: bool,
    hello_interval: Duration,
    binding_lifetime: Duration,
    replicas: u8,
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
    /// The settings of a node whose config file omits the family.
    fn usual() -> Settings {
        let config = Config::new("", 0);
        Settings {
            nodes_differ: false,
            hello_interval: config.hello_interval,
            binding_lifetime: config.binding_lifetime,
            replicas: config.replicas,
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
        // These belong together: the buffer holds two chunks.
        let cut = if deviates() { drawn.clone() } else { usual.clone() };
        Settings {
            nodes_differ: deviates(),
            hello_interval: if deviates() { drawn.hello_interval } else { usual.hello_interval },
            binding_lifetime: if deviates() { drawn.binding_lifetime } else { usual.binding_lifetime },
            replicas: if deviates() { drawn.replicas } else { usual.replicas },
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
        let mut settings = Settings {
            nodes_differ: true,
            hello_interval: Duration::from_millis(100 + random.below(400)),
            binding_lifetime: Duration::from_secs(6 + random.below(25)),
            replicas: 1 + random.below(5) as u8,
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
            // Less than the bytes sent, so that chunks are refused, given back and evicted.
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
        config.resolver = knows_names(index, spec);
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
        // What real nodes keep, in the same places.
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
        node.keep_partials(now, disk.repository("partial"));
        node
    }
    fn roles(topology: &Topology, index: usize) -> Roles {
        let spec = &topology.nodes[index];
        let resolver = if knows_names(index, spec) { Roles::RESOLVER } else { Roles::HOST };
        if spec.router { Roles::ROUTER | resolver } else { Roles::HOST }
    }
    fn usages(node: &MfNode) -> Vec<Usage> {
        let usage = |what, used, limit| Usage { what, used, limit };
        let cache = node.status(Time::ZERO).cache;
        let cache = cache.map(|cache| usage("bytes in the cache", cache.used.0, cache.capacity.0));
        let store = node.proxy().map(|proxy| proxy.usage());
        let store = store.map(|(used, capacity)| usage("bytes in the store", used.0, capacity.0));
        cache.into_iter().chain(store).collect()
    }
    fn in_vain(node: &MfNode) -> Vec<(&'static str, u64)> {
        let counters = node.status(Time::ZERO).counters;
        let unsolicited = counters
            .into_iter()
            .find(|(name, _)| *name == "unsolicited data for fetches")
            .map_or(0, |(_, count)| count);
        vec![("unsolicited data for fetches", unsolicited)]
    }
    fn stored(node: &MfNode) -> Vec<String> {
        let mut lines = BTreeMap::<String, u64>::new();
        for held in node.holdings() {
            let Holding { key, delegated, owed, place, rests, durable, .. } = held;
            let what = if key.number == 0 { "descriptions" } else { "chunks" };
            let to = key.flow.destination;
            let state = match place {
                Place::InTransit { via, .. } => format!("in transit by {via}"),
                Place::Here if rests => "Resting".into(),
                Place::Here => "Waiting".into(),
                Place::Leaving => "Leaving".into(),
            };
            let line = format!("{what} for {to}: {state}, delegated {delegated}, owed {owed}, durable {durable}");
            *lines.entry(line).or_default() += 1;
        }
        lines.into_iter().map(|(line, count)| format!("{count} {line}")).collect()
    }
    fn only_name_server(topology: &Topology) -> Option<usize> {
        let mut all = topology.nodes.iter().enumerate().filter(|(index, spec)| knows_names(*index, spec));
        let first = all.next().map(|(index, _)| index);
        first.filter(|_| all.next().is_none())
    }
    fn knows_name(node: &MfNode, owner: &PublicKey, name: &Name) -> bool {
        node.knows_name(&Guid::of_content(owner, name))
    }
    fn unreadable(node: &mut MfNode, now: Time) -> Vec<String> {
        node.unreadable_chunks(now).iter().map(|key| format!("{key:?}")).collect()
    }
    fn stores(node: &MfNode, _: Time, object: &ObjectId) -> bool {
        let holdings = node.proxy().into_iter().flat_map(Proxy::holdings);
        holdings.into_iter().any(|held| held.durable && held.key.object == *object)
    }
    fn durable_chunks(node: &MfNode) -> Vec<(ObjectId, u32, u64)> {
        let durable = node.proxy().into_iter().flat_map(Proxy::holdings).filter(|held| held.durable);
        let chunk = |held: &Holding| (held.key.object, held.key.number, held.bytes - CHUNK_OVERHEAD_BYTES);
        durable.map(chunk).collect()
    }
    fn broken_promises(node: &MfNode) -> u64 {
        node.proxy().map_or(0, |proxy| proxy.stats.evicted + proxy.stats.expired)
    }
    /// Chunks that arrived but are neither here nor forwarded, or were forwarded without having arrived.
    fn leftovers(node: &MfNode) -> Vec<(&'static str, u64)> {
        let (buffer, stats) = (&node.router().buffer, node.router().stats);
        let came = stats.arrived + stats.originated;
        let went = stats.sent + stats.consumed + stats.dropped + stats.returned;
        // A packet still arriving does not count as arrived; a copy made here does.
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
    /// Bindings of dead nodes, twice; requests repeated after sixteen times the timeout; suspicions of 10 s.
    fn settle(settings: &Settings) -> Duration {
        settings.binding_lifetime * 2 + settings.nack_timeout * 16 + Duration::from_secs(60)
    }
    /// Attached nodes attach again, and watches of names are renewed.
    fn groups_settle(settings: &Settings) -> Duration {
        settings.binding_lifetime + Duration::from_secs(20)
    }
    /// Hellos, link states and renewals of bindings at all replicas, each with its link-layer messages.
    fn idle_packets_max(settings: &Settings) -> f64 {
        60.0 + 2.0 / settings.hello_interval.as_secs_f64()
    }
}

/// Routers hold names, and all nodes know the routers; the first node is always one.
fn knows_names(index: usize, spec: &NodeSpec) -> bool {
    spec.router && (spec.resolver || spec.manager.is_some() || index == 0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tributary_core::{FaceId, Rate, link::LinkConfig};
    use tributary_transport::{TransferConfig, messaging::SendOptions};

    use super::*;
    use crate::vopr::{
        Canary, FaultKind, Finding, RunReport,
        faults::{Farewell, Fault, Memory, What},
        messages::{Addressee, Groups, MessageSpec},
        stored_messages::Post,
        topology::{LinkSpec, Shape},
        try_run,
        workload::Operation,
    };

    #[test]
    fn half_of_the_plans_or_more_have_the_settings_of_a_node_whose_config_says_nothing() {
        let usual = format!("{:?}", Settings::usual());
        let drawn = (0..400).map(|seed| Mf::draw(Profile::Product, &mut Random::new(seed, 2)));
        let drawn = drawn.filter(|settings| format!("{settings:?}") == usual);
        assert!(drawn.count() >= 180, "half, but for chance");
    }

    const A: usize = 0;
    const B: usize = 1;
    const C: usize = 2;
    const COURIER: usize = 3;
    const PHONE: usize = 4;
    /// The link from b to the phone, which delays the packets from a.
    const SLOW: usize = 2;

    /// ```text
    ///   courier ─ 100 ─ a ─ 20 ─ b ─ 2 ─ phone      Mbit/s
    ///                   └── 20 ─ c ─ 20 ──┘
    /// ```
    /// The courier sends while the phone is away, and leaves when a has promised to keep the whole message. The phone
    /// comes back behind b, and the chunks from a wait in the memory of b for the slow link.
    fn chain(settings: Settings, fault: What, at: Duration) -> Plan<Settings> {
        let node = |label: &str, router: bool| NodeSpec {
            label: label.into(),
            router,
            resolver: router,
            manager: None,
            publisher: false,
            receiver: false,
            cache_bytes: ByteCount(0),
            cache_policy: 0,
            transfer: TransferConfig::default(),
        };
        let nodes = [("a", true), ("b", true), ("c", true), ("courier", false), ("phone", false)];
        let nodes = nodes.into_iter().map(|(label, router)| node(label, router)).collect();
        let mut topology = Topology { shape: Shape::Mesh, nodes, links: Vec::new() };
        for (from, to, mbps) in [(COURIER, A, 100), (A, B, 20), (B, PHONE, 2), (A, C, 20), (C, PHONE, 20)] {
            let face = |node| FaceId(topology.links_of(node).count() as u32 + 1);
            let rate = Rate::from_bits_per_second(mbps * 1_000_000);
            let way = LinkConfig { rate: Some(rate), delay: Duration::from_millis(3), ..LinkConfig::default() };
            let ends = [(from, face(from)), (to, face(to))];
            topology.links.push(LinkSpec { ends, directions: [way.clone(), way], face_mtu: 1_472 });
        }
        let mut operations = vec![(Time::ZERO, Operation::Away { node: PHONE })];
        for number in 0..20 {
            let (to, size, chunk_size) = (Addressee::Device(PHONE), 60_000, 1 << 14);
            let options = SendOptions { chunk_bytes: Some(16_384), ..SendOptions::default() };
            let message = MessageSpec { number, node: COURIER, to, size, chunk_size, options };
            operations.push((Time::from_millis(2_000), Operation::Send(message)));
        }
        operations.push((Time::ZERO + BACK, Operation::Back { node: PHONE, link: Some(SLOW) }));
        let from = Time::ZERO + BACK + at;
        let (kind, until) = (FaultKind::Gone, from + Duration::from_secs(1));
        Plan {
            seed: 1,
            profile: Profile::Product,
            is_certified: false,
            settings,
            topology,
            objects: Vec::new(),
            groups: Groups::default(),
            post: Post { couriers: vec![COURIER], phones: vec![PHONE] },
            operations,
            faults: vec![Fault { kind, from, until, what: fault }],
            kinds: BTreeSet::from([kind]),
            mend: Time::from_millis(16_000),
        }
    }
    const BACK: Duration = Duration::from_secs(8);

    fn run(custody: CustodyUntil, fault: &What, at: u64) -> Result<RunReport, Finding> {
        let mut settings = Settings::usual();
        settings.proxy.custody = custody;
        let plan = chain(settings, fault.clone(), Duration::from_millis(at));
        try_run::<Mf>(&plan, None, None)
    }

    #[test]
    fn what_was_promised_outlives_the_router_behind_its_custodian_only_where_custody_goes_from_disk_to_disk() {
        // The last of 1.2 MB at 2 Mbit/s arrives five seconds after the first.
        let moments = [1_000, 2_000, 3_500];
        for fault in [What::Gone(B), What::Kill(B, Memory::Kept, Farewell::Missing)] {
            for at in moments {
                let report = run(CustodyUntil::Disk, &fault, at).expect("what was promised comes");
                assert_eq!((report.promised, report.delivered), (20, 20), "{fault:?} after {at} ms");
            }
            let lost = moments.map(|at| run(CustodyUntil::Hop, &fault, at).err());
            let lost = lost.iter().flatten().filter(|finding| finding.message.contains("was promised")).count();
            assert!(lost > 0, "{fault:?} loses what b had in its memory");
        }
    }

    /// The canary sings within a few plans: if it no longer does, random plans do not put promises at risk.
    #[test]
    fn random_plans_find_soon_that_stores_forget_what_the_next_hop_has_in_memory() {
        let options = crate::vopr::Options { canary: Some(Canary::Forgetful), ..Default::default() };
        let found = (1..=FORGETFUL_BY).find_map(|seed| crate::vopr::run_seed::<Mf>(seed, &options).err());
        let found = found.expect("some plan loses what was promised");
        assert!(found.message.contains("was promised"), "{found:?}");
    }
    const FORGETFUL_BY: u64 = 24;
}
