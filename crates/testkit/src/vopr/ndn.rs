//! Nodes of the NDN family for fault runs.
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tributary_content::Name;
use tributary_core::{ByteCount, Duration, FaceId, Random, Time};
use tributary_ndn::{
    Config, NdnNode,
    config::{DataSignature, Registrar, RegistrationScope, StaticRoute},
    ids::Nonce,
    receiver::selection::SELECTIONS,
    router::{
        INTERNAL_FACES_FIRST, InvalidPath, LinkService, RemoteRegistration, Transit, cs, labels::LabelScheme,
        marking::MarkingRule, rib::ORIGIN_APP, shaping::ShapingConfig, strategy::STRATEGIES,
    },
    wire::{
        ControlParameters, Data, Interest, LpPacket, NameView, SignKey, SignatureInfo, SignatureType,
        interest::with_parameters, reliability::ReliabilityConfig, signature, types,
    },
};

use super::{disk::Disk, family::Family, faults::What, plan::Plan, profile::Profile, topology::Topology};

/// The NDN family.
#[derive(Clone, Copy, Debug)]
pub struct Ndn;

/// What all nodes of an NDN network have in common.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether caches and fetch settings differ from node to node.
    nodes_differ: bool,
    strategy: &'static str,
    selection: &'static str,
    labels: LabelScheme,
    invalid_path: InvalidPath,
    signature: DataSignature,
    segment_bytes: u16,
    in_use_max: usize,
    change_interval: Duration,
    interest_lifetime: Duration,
    fab_flows: usize,
    /// Whether some faces retransmit packets lost on their links, mark packets, or queue Interests.
    link_services: bool,
    /// Whether the last link to a publisher is not a configured route: publishers register at their neighbours.
    registers: bool,
}

impl Settings {
    /// The settings of a node whose config file omits the family.
    fn usual() -> Settings {
        let config = Config::new("", 0);
        let name_of = |all: &[&'static str], name: &str| all.iter().find(|known| **known == name).copied();
        let strategies: Vec<&'static str> = STRATEGIES.iter().map(|(name, ..)| *name).collect();
        let selections: Vec<&'static str> = SELECTIONS.iter().map(|(name, ..)| *name).collect();
        Settings {
            nodes_differ: false,
            strategy: name_of(&strategies, &config.strategy).expect("a default is one of the choices"),
            selection: name_of(&selections, &config.paths.selection).expect("a default is one of the choices"),
            labels: config.labels,
            invalid_path: config.invalid_path,
            signature: config.signature.clone(),
            segment_bytes: config.segment_bytes,
            in_use_max: config.paths.in_use_max,
            change_interval: config.paths.change_interval,
            interest_lifetime: config.paths.interest_lifetime,
            fab_flows: config.fab_flows,
            link_services: false,
            registers: false,
        }
    }
    /// Others in every field.
    fn unusual(random: &mut Random) -> Settings {
        let mut one_of = |count: usize| random.below(count as u64) as usize;
        Settings {
            nodes_differ: true,
            strategy: STRATEGIES[one_of(STRATEGIES.len())].0,
            selection: SELECTIONS[one_of(SELECTIONS.len())].0,
            labels: [LabelScheme::Random, LabelScheme::Huffman][one_of(2)],
            invalid_path: [InvalidPath::ByName, InvalidPath::Nack][one_of(2)],
            signature: if one_of(3) < 2 { DataSignature::Digest } else { DataSignature::Ed25519([7; 32]) },
            segment_bytes: [200, 1_024, 1_200, 1_200, 1_340, 4_000][one_of(6)],
            in_use_max: 1 + one_of(10),
            change_interval: Duration::from_millis(1_000 + 1_000 * one_of(15) as u64),
            interest_lifetime: Duration::from_millis(500 + 500 * one_of(8) as u64),
            fab_flows: [1, 16, 4_096][one_of(3)],
            registers: one_of(4) == 0,
            // Drawn last, so that older seeds keep their settings.
            link_services: one_of(3) == 0,
        }
    }
}

impl Family for Ndn {
    type Node = NdnNode;
    type Settings = Settings;
    const NAME: &'static str = "ndn";
    /// The network cannot list the names below a prefix.
    const HAS_LISTINGS: bool = false;
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
            strategy: if deviates() { drawn.strategy } else { usual.strategy },
            selection: if deviates() { drawn.selection } else { usual.selection },
            labels: if deviates() { drawn.labels } else { usual.labels },
            invalid_path: if deviates() { drawn.invalid_path } else { usual.invalid_path },
            signature: if deviates() { drawn.signature.clone() } else { usual.signature.clone() },
            segment_bytes: if deviates() { drawn.segment_bytes } else { usual.segment_bytes },
            in_use_max: if deviates() { drawn.in_use_max } else { usual.in_use_max },
            change_interval: if deviates() { drawn.change_interval } else { usual.change_interval },
            interest_lifetime: if deviates() { drawn.interest_lifetime } else { usual.interest_lifetime },
            fab_flows: if deviates() { drawn.fab_flows } else { usual.fab_flows },
            link_services: drawn.link_services && deviates(),
            registers: drawn.registers,
        }
    }
    fn node(plan: &Plan<Settings>, index: usize, seed: u64, _: Time, _: &Disk) -> NdnNode {
        let (settings, spec) = (&plan.settings, &plan.topology.nodes[index]);
        let mut config = Config::new(&spec.label, seed);
        config.strategy = settings.strategy.into();
        config.paths.selection = settings.selection.into();
        config.labels = settings.labels;
        config.invalid_path = settings.invalid_path;
        config.signature = settings.signature.clone();
        config.segment_bytes = settings.segment_bytes;
        config.paths.in_use_max = settings.in_use_max;
        config.paths.change_interval = settings.change_interval;
        config.paths.interest_lifetime = settings.interest_lifetime;
        config.fab_flows = settings.fab_flows;
        config.transit = if spec.router { Transit::Allowed } else { Transit::Refused };
        if settings.nodes_differ {
            config.cache_bytes = spec.cache_bytes;
            config.cache_policy = cs::POLICIES[spec.cache_policy % cs::POLICIES.len()].0.into();
            config.transfer = spec.transfer.clone();
        }
        if !spec.router {
            config.cache_bytes = ByteCount(0);
        }
        config.routes = routes(plan, index);
        if settings.link_services {
            config.link_services = link_services(plan, index);
        }
        if settings.registers {
            config.remote_registration = RemoteRegistration::Neighbours;
            let faces = plan.topology.links_of(index).map(|(link, end)| plan.topology.links[link].ends[end].1);
            let scope = RegistrationScope::Localhop;
            config.registrars = faces.map(|face| Registrar { face, scope }).collect();
        }
        config.transfer.check().expect("drawn within the limits");
        NdnNode::new(config)
    }
    /// Flips a bit of a Data's content and makes its digest right again.
    fn forge(packet: &mut [u8], random: &mut Random) -> bool {
        let base = packet.as_ptr() as usize;
        let at = |slice: &[u8]| slice.as_ptr() as usize - base;
        let complete = match LpPacket::decode(packet) {
            Ok(LpPacket { fragment: Some(fragment), .. }) => fragment,
            Ok(_) => return false,
            Err(_) => packet,
        };
        let Ok(data) = Data::decode(complete) else { return false };
        let Some(content) = data.content.filter(|content| !content.is_empty()) else { return false };
        let (content, name) = (at(content)..at(content) + content.len(), at(data.name.as_tlv()));
        let value = at(data.signature_value);
        let is_digest = data.signature.kind == SignatureType::DigestSha256;
        let flipped = content.start + random.below(content.len() as u64) as usize;
        packet[flipped] ^= 1 << random.below(8);
        if is_digest {
            // The signature is behind its type and length, a byte each.
            let digest = signature::digest(&[&packet[name..value - 2]]);
            debug_assert_eq!(u32::from(packet[value - 2]), types::SIGNATURE_VALUE);
            packet[value..value + digest.len()].copy_from_slice(&digest);
        }
        true
    }
    /// A registration with a lifetime, of a prefix below the plan's or of any other, or the end of one.
    fn greedy(settings: &Settings, random: &mut Random) -> Option<Vec<u8>> {
        if !settings.registers || random.chance(0.3) {
            return None;
        }
        let parts = [&b"localhop"[..], b"nfd", b"rib", if random.chance(0.8) { b"register" } else { b"unregister" }];
        let prefix = match random.below(2) {
            0 => format!("/scope-{}/object-{}", random.below(3), random.below(6)),
            _ => format!("/greedy-{}", random.below(1_000)),
        };
        let parameters = ControlParameters {
            name: prefix.parse().ok(),
            flags: Some(random.below(4)),
            expiration_millis: Some(1 + random.below(20_000)),
            ..ControlParameters::default()
        };
        let base = parts.into_iter().try_fold(Name::root(), |name, part| name.child(part)).ok()?;
        let base = base.child(&parameters.encode()).ok()?;
        let once = random.bits().to_be_bytes();
        let interest = Interest {
            must_be_fresh: true,
            nonce: Some(Nonce::from(random.bits())),
            signature: Some(SignatureInfo { nonce: Some(&once), ..SignatureInfo::new(SignatureType::DigestSha256) }),
            ..Interest::new(NameView::from(&base))
        };
        Some(with_parameters(&interest, Some(&SignKey::Digest)))
    }
    /// Interests follow the configured routes, which do not change when a node has left.
    fn reaches(plan: &Plan<Settings>, gone: &BTreeSet<usize>, from: usize, to: usize) -> bool {
        let distance = distances(&plan.topology, from);
        let (mut seen, mut queue) = (BTreeSet::from([to]), VecDeque::from([to]));
        while let Some(node) = queue.pop_front() {
            for (link, end) in plan.topology.links_of(node) {
                let (neighbour, _) = plan.topology.links[link].ends[1 - end];
                let is_nearer = distance[neighbour].zip(distance[node]).is_some_and(|(theirs, own)| theirs < own);
                let passes = neighbour == from || plan.topology.nodes[neighbour].router;
                if is_nearer && passes && !gone.contains(&neighbour) && seen.insert(neighbour) {
                    queue.push_back(neighbour);
                }
            }
        }
        seen.contains(&from)
    }
    /// What a neighbour has registered leads to it, and nothing else does.
    fn misfit(plan: &Plan<Settings>, nodes: &[Option<&NdnNode>], published: &[BTreeSet<Name>]) -> Option<String> {
        if !plan.settings.registers {
            return None;
        }
        for (index, node) in nodes.iter().enumerate() {
            let Some(router) = node.map(NdnNode::router) else { continue };
            let neighbours: Vec<(FaceId, usize)> = plan
                .topology
                .links_of(index)
                .map(|(link, end)| (plan.topology.links[link].ends[end].1, plan.topology.links[link].ends[1 - end].0))
                .collect();
            for (face, neighbour) in &neighbours {
                let is_missing = |name: &&Name| {
                    let hops = router.fib.exact(name).into_iter().flat_map(|entry| &entry.next_hops);
                    !hops.into_iter().any(|hop| hop.face == *face)
                };
                if let Some(name) = published[*neighbour].iter().find(is_missing) {
                    return Some(format!("node {index} has no route to '{name}' by {face}, where it is published"));
                }
            }
            let routes = router.rib.iter().flat_map(|(name, routes)| routes.iter().map(move |route| (name, route)));
            for (name, route) in routes.filter(|(_, route)| route.origin == ORIGIN_APP) {
                let is_there = |(face, at): &(FaceId, usize)| *face == route.face && published[*at].contains(name);
                if route.face.0 < INTERNAL_FACES_FIRST && !neighbours.iter().any(is_there) {
                    return Some(format!("node {index} has a route to '{name}' by {}, where it is not", route.face));
                }
            }
        }
        None
    }
    /// Pending Interests, suspicions of 10 s, and probes that have become rare; registrations that are not renewed live
    /// for a minute.
    fn settle(settings: &Settings) -> Duration {
        Duration::from_secs(if settings.registers { 120 } else { 60 })
    }
    /// Packets are sent only for Interests, but a registering node asks each second whether its neighbour has
    /// restarted, and a receiver that waits for a withdrawn version asks over each of its paths now and then.
    fn idle_packets_max(settings: &Settings) -> f64 {
        let registrars = if settings.registers { 3.0 } else { 0.0 };
        let requested = 2.0 + registrars + 0.5 * settings.in_use_max as f64;
        // Each packet on a reliable link has an acknowledgement, which travels alone where nothing else does.
        if settings.link_services { 2.0 * requested } else { requested }
    }
}

/// The random stream of link services; faces' numbers follow.
const LINK_SERVICES: u64 = 1 << 40;

/// The link services of a node's faces. The two ends of a link are configured independently.
fn link_services(plan: &Plan<Settings>, index: usize) -> BTreeMap<FaceId, LinkService> {
    let faces = plan.topology.links_of(index).map(|(link, end)| plan.topology.links[link].ends[end].1);
    let drawn = faces.map(|face| {
        let mut random = Random::new(plan.seed, LINK_SERVICES + ((index as u64) << 32) + u64::from(face.0));
        let service = LinkService {
            rate: None,
            reliability: random.chance(0.5).then(ReliabilityConfig::default),
            marking: [MarkingRule::Off, MarkingRule::CODEL, MarkingRule::LINEAR][random.below(3) as usize],
            shaping: random.chance(0.3).then_some(ShapingConfig::DEFAULT),
        };
        (face, service)
    });
    drawn.collect()
}

/// Routes of a node: towards every possible publisher of an object, by each neighbour that has fewer links to go.
fn routes(plan: &Plan<Settings>, index: usize) -> Vec<StaticRoute> {
    let mut routes: Vec<StaticRoute> = Vec::new();
    for (number, object) in plan.objects.iter().enumerate() {
        let prefix: Name = object.name.parse().expect("plans have legal names");
        let imposters = plan.faults.iter().filter_map(|fault| match fault.what {
            What::Imposter(node, object) if object == number => Some(node),
            _ => None,
        });
        for publisher in object.publishers.iter().copied().chain(imposters) {
            let distance = distances(&plan.topology, publisher);
            for (link, end) in plan.topology.links_of(index) {
                let link = &plan.topology.links[link];
                let (face, neighbour) = (link.ends[end].1, link.ends[1 - end].0);
                let passes = neighbour == publisher || plan.topology.nodes[neighbour].router;
                let Some((theirs, own)) = distance[neighbour].zip(distance[index]) else { continue };
                let is_registered = plan.settings.registers && neighbour == publisher;
                if !passes || is_registered || theirs >= own {
                    continue;
                }
                let same = routes.iter_mut().find(|route| (route.face, &route.prefix) == (face, &prefix));
                match same {
                    Some(route) => route.cost = route.cost.min(own),
                    None => routes.push(StaticRoute { face, prefix: prefix.clone(), cost: own }),
                }
            }
        }
    }
    routes
}

/// Links from each node to `to` over routers.
fn distances(topology: &Topology, to: usize) -> Vec<Option<u64>> {
    let mut distance = vec![None; topology.nodes.len()];
    distance[to] = Some(0);
    let mut queue = VecDeque::from([to]);
    while let Some(node) = queue.pop_front() {
        for (link, end) in topology.links_of(node) {
            let (neighbour, _): (usize, FaceId) = topology.links[link].ends[1 - end];
            if distance[neighbour].is_none() {
                distance[neighbour] = distance[node].map(|links| links + 1);
                if topology.nodes[neighbour].router {
                    queue.push_back(neighbour);
                }
            }
        }
    }
    distance
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_plans_or_more_have_the_settings_of_a_node_whose_config_says_nothing() {
        let usual = format!("{:?}", Settings::usual());
        let drawn = (0..400).map(|seed| Ndn::draw(Profile::Product, &mut Random::new(seed, 2)));
        let drawn = drawn.filter(|settings| format!("{settings:?}") == usual);
        assert!(drawn.count() >= 180, "half, but for chance");
    }
}
