//! The demo's network as data.
use tributary::{
    Family,
    families::{Delivery, Resolution},
};

use crate::args::Evil;

/// A network of daemons.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Topology {
    pub(crate) family: Family,
    /// Its drawing, for people.
    pub(crate) drawing: String,
    pub(crate) nodes: Vec<NodeSpec>,
    pub(crate) links: Vec<LinkSpec>,
}

/// A network as it is written down, for the family that needs most.
struct Plan {
    drawing: &'static str,
    nodes: &'static [NodeSpec],
    links: &'static [LinkSpec],
}

/// One daemon.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct NodeSpec {
    pub(crate) label: &'static str,
    pub(crate) part: Part,
}

/// What a daemon is in the demo.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    Publisher,
    Forwarder,
    Rendezvous,
    /// With its priority; the highest is active.
    TopologyManager(u8),
    Receiver,
}

/// A link, the same in both directions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct LinkSpec {
    pub(crate) ends: [&'static str; 2],
    pub(crate) mbps: u64,
    /// One way.
    pub(crate) delay_ms: u64,
    pub(crate) carries: Carries,
}

/// What a link is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Carries {
    /// Objects, and control with them.
    Data,
    /// Control; too narrow to count for the bound.
    Control,
}

/// The receiver's label.
pub(crate) const RECEIVER: &str = "receiver";
/// The publisher that fails or sends wrong bytes.
pub(crate) const WEAK_PUBLISHER: &str = "pub-a";
/// The publisher that offers another file.
pub(crate) const IMPOSTER: &str = "pub-c";
/// The rendezvous node that fails.
pub(crate) const WEAK_RESOLVER: &str = "rendezvous-1";
/// The topology manager that is active first.
pub(crate) const ACTIVE_MANAGER: &str = "manager-1";
/// The forwarder that fails or sends wrong bytes.
pub(crate) const WEAK_FORWARDER: &str = "north";
/// The link to the receiver that is cut: the best one.
pub(crate) const BEST_LINK: [&str; 2] = ["north", RECEIVER];
/// The router that a mobile receiver is attached to.
pub(crate) const ACCESS: &str = "access";
/// The link that fails when a mobile receiver leaves.
pub(crate) const LAST_HOP: [&str; 2] = [ACCESS, RECEIVER];
/// The gateway in front of the receiver, if there is one.
pub(crate) const GATEWAY: &str = "gateway";

const fn node(label: &'static str, part: Part) -> NodeSpec {
    NodeSpec { label, part }
}
const fn data(a: &'static str, b: &'static str, mbps: u64, delay_ms: u64) -> LinkSpec {
    LinkSpec { ends: [a, b], mbps, delay_ms, carries: Carries::Data }
}
const fn control(a: &'static str, b: &'static str, mbps: u64) -> LinkSpec {
    LinkSpec { ends: [a, b], mbps, delay_ms: 2, carries: Carries::Control }
}

/// The daemons of both networks of several uplinks; only one of them has links for the gateway.
const WITH_UPLINKS: &[NodeSpec] = &[
    node("pub-a", Part::Publisher),
    node("pub-b", Part::Publisher),
    node("pub-c", Part::Publisher),
    node("north", Part::Forwarder),
    node("east", Part::Forwarder),
    node("south", Part::Forwarder),
    node("west", Part::Forwarder),
    node(GATEWAY, Part::Forwarder),
    node("rendezvous-1", Part::Rendezvous),
    node("rendezvous-2", Part::Rendezvous),
    node("rendezvous-3", Part::Rendezvous),
    node("manager-1", Part::TopologyManager(200)),
    node("manager-2", Part::TopologyManager(100)),
    node(RECEIVER, Part::Receiver),
];

/// A receiver with four uplinks; two publishers are reached over two paths each.
const UPLINKS: Plan = Plan {
    drawing: "  pub-a ─┬─ 25 ─ north ─ 20 ─┐
         └─ 15 ─ east ── 12 ─┤
  pub-b ─┬─ 10 ─ south ── 8 ─┼─ receiver      Mbit/s; one way 5 to 20 ms
         └─ 20 ─┐            │
  pub-c ─── 20 ─┴ west ── 16 ┘",
    nodes: WITH_UPLINKS,
    links: &[
        data("pub-a", "north", 25, 5),
        data("pub-a", "east", 15, 8),
        data("pub-b", "south", 10, 5),
        data("pub-b", "west", 20, 8),
        data("pub-c", "west", 20, 5),
        data("north", RECEIVER, 20, 15),
        data("east", RECEIVER, 12, 10),
        data("south", RECEIVER, 8, 20),
        data("west", RECEIVER, 16, 12),
        control("north", "east", 2),
        control("east", "south", 2),
        control("south", "west", 2),
        control("west", "north", 2),
        control("rendezvous-1", "north", 50),
        control("rendezvous-2", "east", 50),
        control("rendezvous-3", "south", 50),
        control("manager-1", "north", 50),
        control("manager-2", "west", 50),
    ],
};

/// The same behind one gateway, whose cache sees everything that the receiver fetches.
const BEHIND_GATEWAY: Plan = Plan {
    drawing: "  pub-a ─┬─ 25 ─ north ─ 20 ─┐
         └─ 15 ─ east ── 12 ─┤
  pub-b ─┬─ 10 ─ south ── 8 ─┼─ gateway ─ 100 ─ receiver      Mbit/s
         └─ 20 ─┐            │  (cache)
  pub-c ─── 20 ─┴ west ── 16 ┘",
    nodes: WITH_UPLINKS,
    links: &[
        data("pub-a", "north", 25, 5),
        data("pub-a", "east", 15, 8),
        data("pub-b", "south", 10, 5),
        data("pub-b", "west", 20, 8),
        data("pub-c", "west", 20, 5),
        data("north", GATEWAY, 20, 15),
        data("east", GATEWAY, 12, 10),
        data("south", GATEWAY, 8, 20),
        data("west", GATEWAY, 16, 12),
        data(GATEWAY, RECEIVER, 100, 1),
        control("rendezvous-1", "north", 50),
        control("rendezvous-2", "east", 50),
        control("rendezvous-3", "south", 50),
        control("manager-1", "north", 50),
        control("manager-2", "west", 50),
    ],
};

/// MobilityFirst: a mobile receiver behind its access router. The nearest publisher serves.
const MOBILE: Plan = Plan {
    drawing: "  pub-a ── 50 ── core ── 100 ── access ── 40 ── receiver      Mbit/s; one way 2 to 10 ms;
                  │                               receiver goes away and comes back, access is
  pub-b ── 50 ── north ── 50 ── pub-c             killed while it keeps what comes meanwhile",
    nodes: &[
        node("pub-a", Part::Publisher),
        node("pub-b", Part::Publisher),
        node("pub-c", Part::Publisher),
        node("core", Part::Forwarder),
        node("north", Part::Forwarder),
        node(ACCESS, Part::Forwarder),
        node(RECEIVER, Part::Receiver),
    ],
    links: &[
        data("pub-a", "core", 50, 2),
        data("pub-b", "north", 50, 5),
        data("pub-c", "north", 50, 8),
        data("north", "core", 100, 5),
        data("core", ACCESS, 100, 10),
        data(ACCESS, RECEIVER, 40, 5),
    ],
};

/// Whether the receiver fetches a second time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fetches {
    Once,
    Twice,
}

/// The network for a demo. Caches are shown, honest or not, behind a gateway that all paths pass.
pub(crate) fn choose(family: Family, fetches: Fetches, evil: Option<Evil>) -> Topology {
    let profile = family.profile();
    let plan = match (profile.delivery, fetches, evil) {
        (Delivery::Custody, ..) => MOBILE,
        (Delivery::Multipath, Fetches::Twice, _) | (.., Some(Evil::Cache)) => BEHIND_GATEWAY,
        (Delivery::Multipath, Fetches::Once, _) => UPLINKS,
    };
    let mut topology =
        Topology { family, drawing: plan.drawing.into(), nodes: plan.nodes.into(), links: plan.links.into() };
    if profile.resolution == Resolution::Servers {
        topology.drawing.push_str("\n  rendezvous-1 to -3, manager-1 and -2 hang off the forwarders");
    } else {
        // This family has no nodes that only resolve names and compute paths, and no links to them.
        topology.nodes.retain(|node| node.part.rank().is_some());
        let stays = |label: &str| topology.nodes.iter().any(|node| node.label == label);
        topology.links.retain(|link| link.carries == Carries::Data && link.ends.iter().all(|end| stays(end)));
    }
    topology.nodes.retain(|node| topology.links.iter().any(|link| link.ends.contains(&node.label)));
    topology
}

impl Part {
    /// Its distance from the publishers; `None` for nodes that carry no objects.
    fn rank(self) -> Option<u8> {
        match self {
            Part::Publisher => Some(0),
            Part::Forwarder => Some(1),
            Part::Receiver => Some(3),
            Part::Rendezvous | Part::TopologyManager(_) => None,
        }
    }
}

impl Topology {
    /// The node whose cache has seen everything and may be faulty: the one in front of the receiver.
    pub(crate) fn gateway(&self) -> &'static str {
        match self.family.profile().delivery {
            Delivery::Multipath => GATEWAY,
            Delivery::Custody => ACCESS,
        }
    }
    /// The links of a node, in the order of its faces.
    pub(crate) fn links_of(&self, label: &str) -> impl Iterator<Item = (&LinkSpec, &'static str)> {
        self.links.iter().filter_map(move |link| match link.ends {
            [a, b] if a == label => Some((link, b)),
            [a, b] if b == label => Some((link, a)),
            _ => None,
        })
    }
    /// Whether `neighbour` is nearer to the publishers than `label`, so that requests go there.
    pub(crate) fn leads_to_publishers(&self, label: &str, neighbour: &str) -> bool {
        let rank = |label: &str| {
            // The gateway is a forwarder behind the rest.
            let behind = u8::from(label == GATEWAY);
            let node = self.nodes.iter().find(|node| node.label == label);
            node.and_then(|node| node.part.rank()).map(|rank| rank + behind)
        };
        rank(neighbour).is_some_and(|there| rank(label).is_some_and(|here| there < here))
    }
    /// The face of `label` that leads to `neighbour`, as its config numbers it.
    pub(crate) fn face(&self, label: &str, neighbour: &str) -> Option<String> {
        self.links_of(label).position(|(_, other)| other == neighbour).map(|index| format!("face-{}", index + 1))
    }
    /// The publishers' labels.
    pub(crate) fn publishers(&self) -> impl Iterator<Item = &'static str> {
        self.nodes.iter().filter(|node| node.part == Part::Publisher).map(|node| node.label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_ends_at_nodes_and_every_node_is_reached() {
        let all = [Family::Psi, Family::Ndn, Family::Mf]
            .map(|family| [Fetches::Once, Fetches::Twice].map(|fetches| choose(family, fetches, None)));
        for topology in all.as_flattened() {
            for link in &topology.links {
                for end in link.ends {
                    assert!(topology.nodes.iter().any(|node| node.label == end), "{end}");
                }
            }
            for node in &topology.nodes {
                assert!(topology.links_of(node.label).count() > 0, "{}", node.label);
            }
        }
        let [[uplinks, _], [of_ndn, behind_gateway], _] = all;
        assert_eq!(uplinks.face(RECEIVER, "north"), Some("face-1".into()));
        assert_eq!(uplinks.face(RECEIVER, "pub-a"), None);
        assert_eq!((of_ndn.nodes.len(), of_ndn.links.len()), (8, 9));
        assert!(behind_gateway.leads_to_publishers(RECEIVER, GATEWAY));
        assert!(behind_gateway.leads_to_publishers(GATEWAY, "north"));
        assert!(behind_gateway.leads_to_publishers("north", "pub-a"));
        assert!(!behind_gateway.leads_to_publishers("north", GATEWAY));
    }
}
