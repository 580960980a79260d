//! The graph of the domain, and the routes sent to every node.
use tributary_core::FaceId;

use super::offers::OfferedPath;
use super::*;
use crate::router::labels::Port;

/// Which nodes may need other routes than those that they have.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum RoutesDue {
    Nobody,
    Only(BTreeSet<NodeId>),
    All,
}

impl RoutesDue {
    pub(super) fn and(self, other: RoutesDue) -> RoutesDue {
        match (self, other) {
            (RoutesDue::All, _) | (_, RoutesDue::All) => RoutesDue::All,
            (RoutesDue::Nobody, due) | (due, RoutesDue::Nobody) => due,
            (RoutesDue::Only(mut some), RoutesDue::Only(mut others)) => {
                some.append(&mut others);
                RoutesDue::Only(some)
            }
        }
    }
}

/// A router's label and, for each of its links to routers, the face, the capacity and the MTU.
type Properties = (String, BTreeMap<FaceId, (u32, u32)>);

/// Ports that FIDs made before may match by chance.
struct News {
    /// The routers with new ports.
    ports: BTreeMap<NodeId, (NodeIndex, Vec<FaceId>)>,
    /// The nodes that have other labels.
    renewed: BTreeSet<NodeId>,
}

impl News {
    fn new(earlier: &Graph, graph: &Graph, ends: &BTreeSet<NodeId>, renewed: BTreeSet<NodeId>) -> News {
        let mut ports = BTreeMap::new();
        for id in ends {
            let Some(node) = graph.node(*id).filter(|node| graph.is_transit(*node)) else { continue };
            let faces = |graph: &Graph, node: NodeIndex| -> BTreeSet<FaceId> {
                graph.links_of(node).map(|link| graph.link(link).face).collect()
            };
            let before = earlier.node(*id).map(|node| faces(earlier, node)).unwrap_or_default();
            let new: Vec<FaceId> = faces(graph, node).difference(&before).copied().collect();
            if !new.is_empty() {
                ports.insert(*id, (node, new));
            }
        }
        News { ports, renewed }
    }
    /// Whether an FID over these links is as right as before.
    fn spare(&self, graph: &Graph, builder: &mut FidBuilder, links: &[LinkKey], fid: &Fid) -> bool {
        !links.iter().any(|link| {
            let mut matches = |(node, faces): &(NodeIndex, Vec<FaceId>)| {
                faces.iter().any(|face| builder.matches(graph, *node, Port::Face(*face), fid))
            };
            self.renewed.contains(&link.node) || self.ports.get(&link.node).is_some_and(&mut matches)
        })
    }
}

/// Bytes of FIDs by the number of links of a path: the Bloom filters that suffice for nearly all paths of that length.
const FID_ROOMS: [(u32, u8); 3] = [(16, 16), (34, 32), (u32::MAX, 64)];

impl TopologyManager {
    /// Sets the present link states as the graph. Returns the nodes whose routes may have changed.
    pub(super) fn on_topology(&mut self) -> RoutesDue {
        self.recompute_due = None;
        let change = core::mem::replace(&mut self.change, Change::None);
        let changed = core::mem::take(&mut self.changed_nodes);
        let graph = self.domain.graph();
        let earlier = core::mem::replace(&mut self.graph, graph);
        if change < Change::Reshaped {
            self.mark_touched(change, &changed);
            return RoutesDue::Nobody;
        }

        self.reshaped = true;
        self.trees.clear();
        self.reshape();
        let renewed = self.graph.renewed(&earlier);
        let epoch = self.builder.bitmap_epoch();
        self.builder.on_graph(&self.graph, &renewed);
        let present = |node: NodeId| self.graph.node(node).is_some();
        self.pairs.retain(|(from, to), _| present(*from) && present(*to));
        self.sent_routes.retain(|node, _| present(*node));
        // A link counts when both of its ends announce it: the other end of a new or removed one may have announced it
        // earlier.
        let mut ends: BTreeSet<NodeId> = changed.union(&renewed).copied().collect();
        ends.extend(self.shapes.changed().flat_map(|way| [way.key.node, way.to]));
        let is_core_changed = self.shapes.changed().any(|way| way.is_transit == [true; 2]);
        if is_core_changed {
            let links = self.graph.diameter();
            self.fid_room = FID_ROOMS.iter().find(|(max, _)| links <= *max).map_or(0, |(_, room)| *room);
            self.metrics_due = None;
        }
        if self.builder.bitmap_epoch() != epoch {
            self.dirty.extend(self.transfers.keys());
            return RoutesDue::All;
        }
        // Every node has a route to each rendezvous node, and the manager's own routes are for its own node.
        let serves = |graph: &Graph, id: &NodeId| {
            graph.node(*id).is_some_and(|node| graph.node_info(node).roles.contains(Roles::RESOLVER))
        };
        let concerns_all =
            ends.iter().any(|id| *id == self.config.node || serves(&earlier, id) || serves(&self.graph, id));
        let news = News::new(&earlier, &self.graph, &ends, renewed);
        self.mark_changed(&earlier, &news, &ends, is_core_changed);
        if concerns_all { RoutesDue::All } else { self.changed_routes(&news, ends) }
    }
    /// Marks the transfers whose offers depend on properties of the links of these nodes.
    fn mark_touched(&mut self, change: Change, changed: &BTreeSet<NodeId>) {
        for (key, transfer) in &self.transfers {
            let touched = || {
                let mut paths = transfer.last_offered.iter().flatten().flat_map(|source| &source.paths);
                paths.any(|path| path.links.iter().any(|link| changed.contains(&link.node)))
            };
            let affected = transfer.metric.is_measured()
                || change != Change::Metrics && (transfer.last_offered.is_none() || touched());
            if affected {
                self.dirty.insert(*key);
            }
        }
    }
    /// Marks the transfers for which other paths are right now, or that need other FIDs. `ends` are the nodes whose links
    /// or properties have changed.
    fn mark_changed(&mut self, earlier: &Graph, news: &News, ends: &BTreeSet<NodeId>, is_core_changed: bool) {
        let (graph, builder) = (&self.graph, &mut self.builder);
        // Properties that routers announce of their links to routers go into offers.
        let properties = |graph: &Graph, id: &NodeId| -> Option<Properties> {
            let node = graph.node(*id).filter(|node| graph.is_transit(*node))?;
            let links = graph.links_of(node).map(|link| graph.link(link));
            let ways = links.filter(|link| link.two_way.is_some_and(|(to, _)| graph.is_transit(to)));
            let ways = ways.map(|link| (link.face, (link.adjacency.capacity_kbps, link.adjacency.mtu)));
            Some((graph.node_info(node).label.clone(), ways.collect()))
        };
        let is_restated = |id: &&NodeId| match (properties(earlier, id), properties(graph, id)) {
            (Some((label, before)), Some((now, ways))) => {
                label != now || before.iter().any(|(face, of)| ways.get(face).is_some_and(|now| now != of))
            }
            (before, now) => before != now,
        };
        let restated: BTreeSet<NodeId> = ends.iter().filter(is_restated).copied().collect();
        for (key, transfer) in &self.transfers {
            let ends_here = || ends.contains(&key.0) || transfer.publishers().any(|(node, ..)| ends.contains(&node));
            let mut offered = transfer.last_offered.iter().flatten().flat_map(|source| &source.paths);
            let mut stands = |path: &OfferedPath| {
                path.holds(&mut |links, fid| news.spare(graph, builder, links, fid))
                    && !path.links.iter().any(|link| restated.contains(&link.node))
            };
            if transfer.last_offered.is_none()
                || ends_here()
                || !self.shapes.stand(key.0, transfer, is_core_changed)
                || !offered.all(&mut stands)
            {
                self.dirty.insert(*key);
            }
        }
    }
    /// The nodes whose routes have changed: the nodes in `ends`, and those to or from which other links lead or other FIDs
    /// are needed.
    fn changed_routes(&mut self, news: &News, ends: BTreeSet<NodeId>) -> RoutesDue {
        let resolvers = self.resolvers();
        let mut due = ends;
        for node in self.graph.nodes() {
            let id = self.graph.node_info(node).id;
            for resolver in &resolvers {
                let resolver_id = self.graph.node_info(*resolver).id;
                let there = self.route(*resolver, node).unwrap_or_default();
                let back = there.iter().rev().filter_map(|link| self.graph.reverse_of(*link)).collect();
                let mut stands = |ends: (NodeId, NodeId), links: Vec<LinkIndex>| {
                    let keys = links.iter().map(|link| self.graph.key_of(*link));
                    self.pairs.get(&ends).is_some_and(|(known, fid)| {
                        keys.eq(known.iter().copied()) && news.spare(&self.graph, &mut self.builder, known, fid)
                    })
                };
                if !(stands((resolver_id, id), there) && stands((id, resolver_id), back)) {
                    due.insert(id);
                    break;
                }
            }
        }
        RoutesDue::Only(due)
    }
    /// The rendezvous nodes.
    fn resolvers(&self) -> Vec<NodeIndex> {
        let serves = |node: &NodeIndex| self.graph.node_info(*node).roles.contains(Roles::RESOLVER);
        self.graph.nodes().filter(serves).take(RESOLVERS_MAX + 1).collect()
    }
    /// The links of the path with the fewest hops.
    pub(super) fn route(&mut self, from: NodeIndex, to: NodeIndex) -> Option<Vec<LinkIndex>> {
        let graph = &self.graph;
        let tree = self.trees.entry(from).or_insert_with(|| shortest_tree(graph, from));
        let (mut links, mut node) = (Vec::new(), to);
        while node != from {
            let link = tree[node.0 as usize]?;
            links.push(link);
            node = graph.link(link).from;
        }
        links.reverse();
        Some(links)
    }
    /// Verified FIDs over the path with the fewest hops, there and back.
    pub(super) fn pair(&mut self, from: NodeId, to: NodeId) -> Option<(Fid, Fid)> {
        let (start, end) = (self.graph.node(from)?, self.graph.node(to)?);
        let there = self.route(start, end)?;
        let back: Vec<LinkIndex> = there.iter().rev().filter_map(|link| self.graph.reverse_of(*link)).collect();
        Some((self.pair_fid(from, to, start, end, &there)?, self.pair_fid(to, from, end, start, &back)?))
    }
    pub(super) fn pair_fid(
        &mut self,
        from: NodeId,
        to: NodeId,
        start: NodeIndex,
        end: NodeIndex,
        links: &[LinkIndex],
    ) -> Option<Fid> {
        let tree = Tree { source: start, links, destinations: &[end] };
        let keys: Vec<LinkKey> = links.iter().map(|link| self.graph.key_of(*link)).collect();
        if let Some((known, fid)) = self.pairs.get(&(from, to))
            && *known == keys
            && self.builder.verify(&self.graph, tree, fid)
        {
            return Some(*fid);
        }
        let fid = self.builder.build_self_contained(&self.graph, tree)?;
        self.pairs.insert((from, to), (keys, fid));
        Some(fid)
    }

    /// Whether a node gets the capability keys: it may serve, or it is a manager that may have to take over.
    fn gets_keys(&self, node: NodeId, roles: Roles) -> bool {
        let wanted = [Roles::ROUTER, Roles::SENDER, Roles::TOPOLOGY_MANAGER].iter().any(|role| roles.contains(*role));
        let may_serve = |identity: &Identity| {
            let is_open = identity.network().access() == Access::Open;
            self.grants.get(&node).is_some_and(|grant| match grant.is_certified() {
                // Roles come from the certificate here, except the sender's, which any node has.
                true => grant.roles != CertifiedRoles::HOST || !grant.prefixes.is_empty(),
                false => is_open,
            })
        };
        wanted && (node == self.config.node || self.identity.as_ref().is_none_or(may_serve))
    }
    pub(super) fn announce_routes(&mut self, due: RoutesDue) {
        if due == RoutesDue::Nobody {
            return;
        }
        let keys: Vec<CapabilityKey> = self.ring.keys().into();
        let nodes: Vec<NodeIndex> = self.graph.nodes().collect();
        let mut resolvers = self.resolvers();
        if resolvers.len() > RESOLVERS_MAX {
            resolvers.truncate(RESOLVERS_MAX);
            self.refuse("more than 256 rendezvous nodes in the domain: the others are not used");
        }
        for node in nodes {
            let info = self.graph.node_info(node);
            let (id, roles) = (info.id, info.roles);
            if matches!(&due, RoutesDue::Only(some) if !some.contains(&id)) {
                continue;
            }
            if self.route_to(id).is_none() {
                continue;
            }
            let mut routes = Vec::new();
            for resolver in &resolvers {
                let info = self.graph.node_info(*resolver);
                let (resolver, boot, label) = (info.id, info.boot as u32, info.label.clone());
                let key = self.grants.get(&resolver).map(|grant| grant.key);
                if self.identity.is_some() && key.is_none() {
                    continue;
                }
                // From the resolver, so that one tree per resolver serves all nodes.
                if let Some((back, to)) = self.pair(resolver, id) {
                    routes.push(ResolverRoute { node: resolver, boot, label, to, back, key });
                }
            }
            let gets_keys = self.gets_keys(id, roles);
            let mut routes = Routes {
                manager: self.config.node,
                term: self.term,
                sequence: 0,
                resolvers: routes,
                bitmap: self.builder.bitmap_numbers(&self.graph, node),
                keys: if gets_keys { keys.clone() } else { Vec::new() },
            };
            let reported = self.sent_routes.get(&id);
            routes.sequence = reported.map_or(0, |reported| reported.sequence);
            if reported == Some(&routes) {
                continue;
            }
            self.routes_sequence += 1;
            routes.sequence = self.routes_sequence;
            self.sent_routes.insert(id, routes.clone());
            self.messages.push_back((id, Message::Routes(routes)));
        }
    }
}
