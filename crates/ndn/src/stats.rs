//! What a node shows of itself to people.
use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};

use tributary_content::{Name, PublicKey};
use tributary_core::{ByteCount, Time};
use tributary_transport::{CacheStatus, FaceStatus, NodeStatus, Obstacle, ObstacleKind};

use crate::{node::NdnNode, router::INTERNAL_FACES_FIRST, wire::VerifyKey};

/// Maximum routes shown. A status is also built for questions about faces only. `trib route` lists all routes.
const ROUTES_SHOWN_MAX: usize = 32;

impl NdnNode {
    /// Everything worth showing, for `trib status`.
    pub(crate) fn status_at(&self, _now: Time) -> NodeStatus {
        let router = &self.router.stats;
        let mut counters = self.events.counters().clone();
        counters.extend(router.dropped.iter().map(|(reason, count)| (*reason, *count)));
        let links = self.router.reliability_stats();
        let (hits, misses) = self.router.fab.hits_and_misses;
        counters.extend([
            ("interests arrived", router.counters.interests.0),
            ("interests sent", router.counters.interests.1),
            ("data arrived", router.counters.data.0),
            ("data sent", router.counters.data.1),
            ("nacks arrived", router.counters.nacks.0),
            ("nacks sent", router.counters.nacks.1),
            ("interests satisfied", router.satisfied_and_not.0),
            ("interests not satisfied", router.satisfied_and_not.1),
            ("interests aggregated", router.aggregated),
            ("packets acknowledged on links", links.acknowledged),
            ("packets sent again on links", links.retransmitted),
            ("packets given up on links", links.exhausted),
            ("path tags followed", router.tags_followed),
            ("path tags that failed", router.tags_failed),
            ("echo requests answered", router.echoes),
            ("path labels written", router.labels_written),
            ("flows found by the acceleration base", hits),
            ("flows not found by the acceleration base", misses),
            ("interests answered here", self.sender.answered),
            ("interests for what is not here", self.sender.unknown),
            ("interests dropped, too many wait for the disk", self.sender.waiting.drops),
            ("unsolicited data for fetches", self.receiver.unsolicited),
        ]);
        NodeStatus {
            node: self.router.config.node,
            label: self.router.config.label.clone(),
            family: "ndn",
            roles: ["router", "sender", "receiver"].into(),
            faces: self.face_statuses(),
            cache: Some(self.cache_status()),
            resolver: self.resolver_lines(),
            counters,
            tables: self.tables(),
            table_limits: self.table_limits(),
            links: Vec::new(),
            network: None,
        }
    }
    /// Why a fetch of `name` finds no source: this node has no route to it, or the forwarders behind its routes do not.
    pub(crate) fn obstacle_of(&self, name: &Name) -> Option<Obstacle> {
        let routes = self.router.rib.iter().filter(|(prefix, _)| prefix.is_prefix_of(name));
        let hops = routes.flat_map(|(_, routes)| routes).filter(|route| route.face.0 < INTERNAL_FACES_FIRST);
        let mut faces: Vec<String> = hops.map(|route| route.face.to_string()).collect();
        faces.sort();
        faces.dedup();
        let faces = faces.join(", ");
        let (kind, reason) = match self.receiver.is_refused(name) {
            _ if faces.is_empty() => (ObstacleKind::Missing, "this node has no route to it".into()),
            true => (ObstacleKind::NoSuchName, format!("the forwarder at {faces} knows no route to it")),
            false => (ObstacleKind::Silent, format!("nothing came back from {faces}, where a route leads")),
        };
        Some(Obstacle { kind, reason })
    }
    fn tables(&self) -> BTreeMap<&'static str, u64> {
        let router = &self.router;
        let all = [
            ("pit", router.pit.len()),
            ("fib", router.fib.len()),
            ("rib", router.rib.len()),
            ("content_store", router.cs.len()),
            ("flows", router.fab.len()),
        ];
        all.map(|(table, entries)| (table, entries as u64)).into()
    }
    fn table_limits(&self) -> BTreeMap<&'static str, u64> {
        let limits = &self.router.config.limits;
        let all = [
            ("pit", limits.pit.entries_max),
            ("fib", limits.fib_entries_max),
            ("rib", limits.routes_max),
            ("content_store", self.router.cs.limits.packets_max),
        ];
        all.map(|(table, limit)| (table, limit as u64)).into()
    }
    fn face_statuses(&self) -> Vec<FaceStatus> {
        let driven = self.router.faces().filter(|(face, ..)| face.0 < INTERNAL_FACES_FIRST);
        driven
            .map(|(face, up, profile, counters)| FaceStatus {
                face,
                neighbour: profile.uri.clone(),
                up,
                rtt: None,
                mtu: self.router.mtu(face).unwrap_or(u32::MAX),
                rate: self.router.rate(face),
                sent: (counters.interests.1 + counters.data.1 + counters.nacks.1, ByteCount(counters.bytes.1)),
                received: (counters.interests.0 + counters.data.0 + counters.nacks.0, ByteCount(counters.bytes.0)),
                dropped: 0,
                ..FaceStatus::default()
            })
            .collect()
    }
    fn cache_status(&self) -> CacheStatus {
        let cs = &self.router.cs;
        CacheStatus {
            policy: cs.policy_name,
            used: ByteCount(cs.bytes() as u64),
            capacity: ByteCount(cs.limits.bytes_max as u64),
            hits: cs.hits_and_misses.0,
            misses: cs.hits_and_misses.1,
            objects: Vec::new(),
        }
    }
    fn resolver_lines(&self) -> Vec<(String, String)> {
        let routes = self.router.rib.iter().flat_map(|(prefix, routes)| {
            routes.iter().map(move |route| ("route".into(), format!("{prefix} by {} at {}", route.face, route.cost)))
        });
        let strategies =
            self.router.strategies().map(|(prefix, strategy)| ("strategy".into(), format!("{prefix}: {strategy}")));
        let key = match self.registrations.key() {
            VerifyKey::Ed25519(key) if self.registrations.is_used() => Some(PublicKey(key.to_bytes())),
            _ => None,
        };
        let key = key.map(|key| ("key of its commands".into(), key.to_string()));
        key.into_iter().chain(routes.take(ROUTES_SHOWN_MAX)).chain(strategies).collect()
    }
}
