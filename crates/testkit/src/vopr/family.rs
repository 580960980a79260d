//! The properties of a family that fault runs depend on; everything else in this module is shared by all families.
use std::{collections::BTreeSet, fmt::Debug};

use tributary_content::{Name, ObjectId, PublicKey};
use tributary_core::{Duration, Random, Time};
use tributary_transport::Endpoint;

use tributary_trust::Roles;

use super::{disk::Disk, plan::Plan, profile::Profile, topology::Topology};

/// A family whose nodes can be put through fault runs.
pub trait Family {
    /// One node in any mix of roles.
    type Node: Endpoint;
    /// The settings that all nodes of a domain share, specific to the family.
    type Settings: Clone + Debug;
    /// The name on the command line.
    const NAME: &'static str;
    /// Whether the network can list the names in a scope.
    const HAS_LISTINGS: bool;
    /// Whether something can be sent to groups.
    const HAS_GROUPS: bool;
    /// Whether nodes probe the datagram size; else faces are configured with it, and it does not change.
    const FINDS_MTU: bool;
    /// Whether answers from caches count for the paths on which they arrived.
    const CACHES_ON_PATHS: bool;

    /// Draws the settings of a domain.
    fn draw(profile: Profile, random: &mut Random) -> Self::Settings;
    /// Lets stores forget promised chunks as soon as the next hop has them in memory: [`super::Canary::Forgetful`].
    fn forget(_settings: &mut Self::Settings) {}
    /// Node `index` of a plan as it starts at `now`; `seed` differs from node to node and from start to start, and
    /// `disk` has the data of an earlier life.
    fn node(plan: &Plan<Self::Settings>, index: usize, seed: u64, now: Time, disk: &Disk) -> Self::Node;
    /// What a node is certified for.
    fn roles(topology: &Topology, index: usize) -> Roles {
        let spec = &topology.nodes[index];
        let roles = [
            (spec.router, Roles::ROUTER),
            (spec.resolver, Roles::RESOLVER),
            (spec.manager.is_some(), Roles::TOPOLOGY_MANAGER),
        ];
        roles.into_iter().filter(|(has, _)| *has).fold(Roles::HOST, |all, (_, role)| all | role)
    }
    /// Each limited quantity of a node, with its present use.
    fn usages(node: &Self::Node) -> Vec<Usage> {
        let status = node.status(Time::ZERO);
        let cache = status.cache.iter();
        cache.map(|cache| Usage { what: "bytes in the cache", used: cache.used.0, limit: cache.capacity.0 }).collect()
    }
    /// State that must be empty in an idle node, with the size of the remainder.
    fn leftovers(_node: &Self::Node) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
    /// What in a node counts only where something goes wrong, with how often it did.
    fn in_vain(_node: &Self::Node) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
    /// The chunks that a node stores for others, in a line for each device, for the analysis of a finding.
    fn stored(_node: &Self::Node) -> Vec<String> {
        Vec::new()
    }
    /// The only node that knows names and keeps them on its disk, if it is the only one.
    fn only_name_server(_topology: &Topology) -> Option<usize> {
        None
    }
    /// Whether a node holds the record of a name that the owner of a key has published.
    fn knows_name(_node: &Self::Node, _owner: &PublicKey, _name: &Name) -> bool {
        true
    }
    /// Chunks that the node claims to store for others, and that cannot be read.
    fn unreadable(_node: &mut Self::Node, _now: Time) -> Vec<String> {
        Vec::new()
    }
    /// Whether a node stores a part of an object, so that others depend on this node's disk.
    fn stores(_node: &Self::Node, _now: Time, _object: &ObjectId) -> bool {
        false
    }
    /// What a node has promised to keep and has on its disk: object, number of the chunk (0 is the description) and bytes.
    fn durable_chunks(_node: &Self::Node) -> Vec<(ObjectId, u32, u64)> {
        Vec::new()
    }
    /// How many promises to store something a node took back in this life: it was full, or their lifetime was over.
    fn broken_promises(_node: &Self::Node) -> u64 {
        0
    }
    /// Whether `from` can deliver to `to` once all faults have ended except for the nodes that have left for good.
    fn reaches(plan: &Plan<Self::Settings>, gone: &BTreeSet<usize>, from: usize, to: usize) -> bool {
        plan.topology.widest_without(gone, from, to).is_some()
    }
    /// What a lying cache makes of a packet that it sends; false if it leaves it as it is.
    fn forge(packet: &mut [u8], random: &mut Random) -> bool;
    /// A valid packet of a node outside the plan that requests something that no node offers; `None` for families
    /// without one.
    fn greedy(_settings: &Self::Settings, _random: &mut Random) -> Option<Vec<u8>> {
        None
    }
    /// Publications that nodes believe a neighbour holds and it does not, or that it holds and they do not know, some
    /// time after the last fault. Nodes and their published names are counted as in the plan; some nodes may have left.
    fn misfit(
        _plan: &Plan<Self::Settings>,
        _nodes: &[Option<&Self::Node>],
        _published: &[BTreeSet<Name>],
    ) -> Option<String> {
        None
    }
    /// How long the domain may take, once all faults have ended, until every node has the knowledge that it needs:
    /// timeouts of neighbours, leases and suspicions, in sequence.
    fn settle(settings: &Self::Settings) -> Duration;
    /// How long a settled domain takes until all attached nodes are known as members of their groups.
    fn groups_settle(_settings: &Self::Settings) -> Duration {
        Duration::ZERO
    }
    /// The maximum number of packets that an idle node sends, per second and face.
    fn idle_packets_max(settings: &Self::Settings) -> f64;
}

/// How much of something limited is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// The limited quantity.
    pub what: &'static str,
    /// How much is used.
    pub used: u64,
    /// How much is allowed.
    pub limit: u64,
}
