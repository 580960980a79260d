//! The graph of the domain, and the routes sent to every node.
use super::*;

impl TopologyManager {
    /// Takes the present link states as the graph. Returns whether routes may have changed.
    pub(super) fn on_topology(&mut self) -> bool {
        self.recompute_due = None;
        let change = core::mem::replace(&mut self.change, Change::None);
        let changed = core::mem::take(&mut self.changed_nodes);
        let graph = self.domain.graph();
        let secrets_changed = !graph.same_secrets(&self.graph);
        self.graph = graph;
        let reshaped = change >= Change::Shrunk;
        if reshaped {
            self.reshaped = true;
            self.trees.clear();
            self.builder.on_graph(&self.graph, secrets_changed);
        }
        for (key, transfer) in &self.transfers {
            let touched = || {
                transfer.last_offered.iter().flatten().flat_map(|source| &source.paths).any(|path| {
                    path.links.iter().any(|link| changed.contains(&link.node) || self.graph.find(*link).is_none())
                })
            };
            let affected = match change {
                // A new link may make a better path, or a false match of an FID, for any transfer.
                Change::Grown => true,
                Change::Metrics => transfer.metric.is_measured(),
                Change::None | Change::Properties | Change::Shrunk => {
                    transfer.last_offered.is_none() || transfer.metric.is_measured() || touched()
                }
            };
            if affected {
                self.dirty.insert(*key);
            }
        }
        let present = |node: NodeId| self.graph.node(node).is_some();
        self.pairs.retain(|(from, to), _| present(*from) && present(*to));
        self.sent_routes.retain(|node, _| present(*node));
        reshaped
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

    pub(super) fn keys(&self) -> Vec<CapabilityKey> {
        let epoch = self.capability_epoch;
        // The next one goes out early, so that no request meets a router that does not know it yet.
        [epoch.wrapping_sub(1), epoch, epoch.wrapping_add(1)]
            .map(|epoch| CapabilityKey::derive(&self.config.domain_secret, epoch))
            .into()
    }
    pub(super) fn tell_routes(&mut self) {
        let keys = self.keys();
        let nodes: Vec<NodeIndex> = self.graph.nodes().collect();
        let resolver = |node: &NodeIndex| self.graph.node_info(*node).roles.contains(Roles::RESOLVER);
        let mut resolvers: Vec<NodeIndex> = nodes.iter().copied().filter(resolver).collect();
        if resolvers.len() > RESOLVERS_MAX {
            resolvers.truncate(RESOLVERS_MAX);
            self.refuse("more than 256 rendezvous nodes in the domain: the others are not used");
        }
        for node in nodes {
            let info = self.graph.node_info(node);
            let (id, roles) = (info.id, info.roles);
            if self.route_to(id).is_none() {
                continue;
            }
            let mut routes = Vec::new();
            for resolver in &resolvers {
                let info = self.graph.node_info(*resolver);
                let (resolver, boot, label) = (info.id, info.boot as u32, info.label.clone());
                // From the resolver, so that one tree per resolver serves all nodes.
                if let Some((back, to)) = self.pair(resolver, id) {
                    routes.push(ResolverRoute { node: resolver, boot, label, to, back });
                }
            }
            let verifies = roles.contains(Roles::ROUTER) || roles.contains(Roles::SENDER);
            let mut routes = Routes {
                manager: self.config.node,
                term: self.term,
                sequence: 0,
                resolvers: routes,
                bitmap: self.builder.bitmap_numbers(&self.graph, node),
                keys: if verifies { keys.clone() } else { Vec::new() },
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
