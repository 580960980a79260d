//! What a node shows of itself to people.
use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};

use tributary_content::Name;
use tributary_core::{ByteCount, NodeId, Rate, Time};
use tributary_transport::{CacheStatus, FaceStatus, LinkStatus, NodeStatus, Obstacle, ObstacleKind};

use crate::{
    ids::Roles,
    node::PsiNode,
    resolver::{
        rendezvous::Rendezvous,
        topology::{Link, NodeIndex},
    },
    router::cache::PacketCache,
    wire::{Limit, successions},
};

/// Maximum links shown.
const LINKS_SHOWN_MAX: usize = 512;

impl PsiNode {
    /// Everything worth showing, for `trib status`.
    pub(crate) fn status_at(&self, now: Time) -> NodeStatus {
        let mut counters = self.events.counters().clone();
        let router = &self.router.stats;
        for (reason, count) in &router.dropped {
            *counters.entry(reason).or_default() = (*count).max(counters.get(reason).copied().unwrap_or(0));
        }
        let control = self.control.stats();
        counters.extend([
            ("packets arrived", router.arrived),
            ("packets originated", router.originated),
            ("packets that wait for another request's answer", self.router.pending.counters.joined),
            ("pending packets forgotten for pending_packets_max", self.router.pending.counters.evicted),
            ("requests answered", self.sender.requests),
            ("data packets answered with", self.sender.packets),
            ("requests for unknown objects", self.sender.unknown_objects),
            ("requests dropped, too many wait for the disk", self.sender.waiting.drops),
            ("unsolicited data for fetches", self.receiver.unsolicited),
            ("unsolicited answers of resolvers", self.pubsub.unsolicited),
            ("control messages delivered", control.messages_delivered),
            ("control fragments repeated", control.fragments_repeated),
            ("control messages timed out", control.timed_out),
        ]);
        if let Some((stats, ..)) = self.rendezvous.as_ref().and_then(Rendezvous::store_status) {
            counters.extend([
                ("entries put into the store of records", stats.stored),
                ("changes told by the store of records", stats.changes),
                ("failed requests to the store of records", stats.failed),
                ("malformed entries in the store of records", stats.forged),
                ("restarts of the store of records", stats.restarts),
            ]);
        }
        counters.extend(self.refusals());
        NodeStatus {
            node: self.config.node,
            label: self.config.label.clone(),
            family: "psi",
            roles: self.role_names(),
            faces: self.face_statuses(),
            cache: self.router.cache().map(cache_status),
            resolver: self.resolver_lines(now),
            counters,
            tables: self.tables(),
            table_limits: self.table_limits(),
            links: self.links(),
            network: None,
        }
    }
    /// The refusals for a limit, by the counter of that limit.
    fn refusals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let of = |limit: Limit| {
            let resolver = self.rendezvous.as_ref().and_then(|rendezvous| rendezvous.refused.get(&limit));
            let manager = self.manager.as_ref().and_then(|manager| manager.refused.get(limit.name()));
            let own = if limit == Limit::Wishes { self.pubsub.refused } else { 0 };
            (limit.counter(), resolver.copied().unwrap_or(0) + manager.copied().unwrap_or(0) + own)
        };
        Limit::ALL.into_iter().map(of)
    }
    /// Why a fetch of `name` finds no source: the network lacks a topology manager or a rendezvous node, the rendezvous
    /// node does not answer, or it knows no publisher.
    pub(crate) fn obstacle_of(&self, name: &Name) -> Option<Obstacle> {
        let missing = |what: &str, role: &str| {
            let neighbours = self.neighbour.neighbours().into_iter().filter(|info| info.up);
            let labels: Vec<String> = neighbours.map(|info| format!("'{}'", info.neighbour)).collect();
            if labels.is_empty() {
                return None;
            }
            let reason = format!(
                "neighbours answer ({}), but the network has no {what} that this node hears of; one node of it needs the \
                 role \"{role}\"",
                labels.join(", ")
            );
            Some(Obstacle { kind: ObstacleKind::Missing, reason })
        };
        if self.neighbour.managers().is_empty() {
            return missing("topology manager", "topology-manager");
        }
        let has_resolvers = self.neighbour.routes().is_some_and(|routes| !routes.resolvers.is_empty());
        if !has_resolvers && self.rendezvous.is_none() {
            return missing("rendezvous node", "resolver");
        }
        let (is_granted, resolver) = self.pubsub.subscription(name)?;
        let Some(resolver) = resolver else { return missing("rendezvous node", "resolver") };
        let label = self.label_of_resolver(resolver);
        Some(match is_granted {
            true => Obstacle {
                kind: ObstacleKind::NoSuchName,
                reason: format!("the rendezvous node {label} knows no publisher of it that can be reached"),
            },
            false => {
                Obstacle { kind: ObstacleKind::Silent, reason: format!("the rendezvous node {label} does not answer") }
            }
        })
    }
    fn label_of_resolver(&self, node: NodeId) -> String {
        let mut routes = self.neighbour.routes().into_iter().flat_map(|routes| &routes.resolvers);
        match routes.find(|route| route.node == node) {
            Some(route) => format!("'{}'", route.label),
            None if node == self.config.node => format!("'{}'", self.config.label),
            None => node.to_string(),
        }
    }
    fn role_names(&self) -> Vec<&'static str> {
        let all = [
            (Roles::ROUTER, "router"),
            (Roles::RESOLVER, "resolver"),
            (Roles::TOPOLOGY_MANAGER, "topology-manager"),
            (Roles::SENDER, "sender"),
            (Roles::RECEIVER, "receiver"),
        ];
        all.into_iter().filter(|(role, _)| self.roles.contains(*role)).map(|(_, name)| name).collect()
    }
    /// A topology manager's view of the domain.
    fn links(&self) -> Vec<LinkStatus> {
        let Some(manager) = &self.manager else { return Vec::new() };
        let graph = manager.graph();
        let rate = |kbps: u32| Rate::from_bits_per_second(u64::from(kbps) * 1_000);
        let label = |node| graph.node_info(node).label.clone();
        let links = graph.nodes().flat_map(|node| graph.links_of(node));
        let links = links.filter_map(|link| Some((graph.link(link), graph.end_of(link)?)));
        let status = |(link, end): (&Link, NodeIndex)| LinkStatus {
            from: label(link.from),
            to: label(end),
            rate: (link.adjacency.capacity_kbps > 0).then(|| rate(link.adjacency.capacity_kbps)),
            used: rate(link.adjacency.used_kbps),
        };
        links.take(LINKS_SHOWN_MAX).map(status).collect()
    }
    fn tables(&self) -> BTreeMap<&'static str, u64> {
        let mut tables = BTreeMap::new();
        if let Some(rendezvous) = self.rendezvous.as_ref().map(|rendezvous| rendezvous.status()) {
            tables.extend([
                ("rendezvous_records", rendezvous.records as u64),
                ("rendezvous_publications", rendezvous.publications as u64),
                ("rendezvous_subscriptions", rendezvous.subscriptions as u64),
                ("rendezvous_requests", rendezvous.requests as u64),
                ("rendezvous_clients", rendezvous.clients as u64),
            ]);
        }
        if let Some((nodes, links)) = self.manager.as_ref().map(|manager| manager.size()) {
            tables.extend([("topology_nodes", nodes as u64), ("topology_links", links as u64)]);
        }
        if let Some(manager) = &self.manager {
            tables.insert("topology_transfers", manager.transfer_count() as u64);
        }
        tables.insert("wishes", self.pubsub.wish_count() as u64);
        tables
    }
    fn table_limits(&self) -> BTreeMap<&'static str, u64> {
        let limits = &self.config.limits;
        let all = [
            (self.rendezvous.is_some(), "rendezvous_records", limits.records_max),
            (self.rendezvous.is_some(), "rendezvous_requests", limits.requests_max),
            (self.rendezvous.is_some(), "rendezvous_clients", limits.clients_max),
            (true, "wishes", limits.wishes_max),
            (self.manager.is_some(), "topology_transfers", limits.transfers_max),
            (self.manager.is_some(), "topology_nodes", limits.nodes_max),
            (self.manager.is_some(), "topology_links", limits.links_max),
        ];
        all.into_iter().filter(|(has, ..)| *has).map(|(_, table, limit)| (table, limit as u64)).collect()
    }
    fn face_statuses(&self) -> Vec<FaceStatus> {
        let status = |status: FaceStatus| {
            let stats = self.router.face_stats(status.face).unwrap_or_default();
            FaceStatus {
                sent: (stats.sent_packets, ByteCount(stats.sent_bytes)),
                received: (stats.received_packets, ByteCount(stats.received_bytes)),
                dropped: stats.dropped_packets,
                ..status
            }
        };
        self.neighbour.neighbours().into_iter().map(status).collect()
    }
    fn resolver_lines(&self, _now: Time) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        let active = self.neighbour.active_manager().map(|manager| manager.beacon.node);
        for manager in self.neighbour.managers().into_iter().map(|manager| manager.beacon) {
            let state = if Some(manager.node) == active { "active" } else { "standby" };
            let text = format!(
                "{} ({state}, term {}, priority {})",
                manager.label,
                successions(manager.term),
                manager.priority
            );
            lines.push(("topology manager".to_string(), text));
        }
        for route in self.neighbour.routes().iter().flat_map(|routes| &routes.resolvers) {
            lines.push(("rendezvous node".to_string(), route.label.clone()));
        }
        if let Some(rendezvous) = &self.rendezvous {
            let status = rendezvous.status();
            let text = format!(
                "{} records ({} acted on), {} publications, {} subscriptions, {} nodes in the DHT",
                status.records, status.acting, status.publications, status.subscriptions, status.members
            );
            lines.push(("rendezvous state".to_string(), text));
            if let Some((_, engine, state)) = rendezvous.store_status() {
                lines.push(("engine of records".to_string(), format!("{engine}, {state}")));
            }
            for (limit, refused) in &rendezvous.refused {
                let text = format!("{refused} refusals for {} ({limit})", limit.name());
                lines.push(("rendezvous limit".to_string(), text));
            }
        }
        if let Some(manager) = &self.manager {
            let (nodes, links) = manager.size();
            let state = if manager.is_active() { "active" } else { "standby" };
            let transfers = manager.transfer_count();
            let text = format!(
                "{state} in term {}, {nodes} nodes, {links} links, {transfers} transfers",
                successions(manager.term)
            );
            lines.push(("topology manager state".to_string(), text));
        }
        lines
    }
}

fn cache_status(cache: &PacketCache) -> CacheStatus {
    let counters = cache.counters;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    CacheStatus {
        policy: cache.policy_name,
        used: cache.used(),
        capacity: cache.capacity(),
        hits: counters.hits,
        misses: counters.misses,
        objects: cache
            .entries()
            .map(|entry| (hex(&entry.stream.0), entry.packets, entry.bytes, entry.counters.hits))
            .collect(),
    }
}
