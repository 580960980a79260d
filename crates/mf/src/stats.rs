//! What a node shows of itself to people.
use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};

use tributary_content::Name;
use tributary_core::{ByteCount, Time};
use tributary_transport::{CacheStatus, FaceStatus, NodeStatus, Obstacle, ObstacleKind};

use crate::{
    ids::Guid,
    node::MfNode,
    router::{
        neighbour::Peer,
        proxy::{Damage, Proxy},
    },
    wire::Roles,
};

impl MfNode {
    /// Everything worth showing, for `trib status`.
    pub(crate) fn status_at(&self, _now: Time) -> NodeStatus {
        let mut counters = self.events.counters().clone();
        let stats = self.router.stats;
        counters.extend([
            ("chunks arrived", stats.arrived),
            ("chunks sent", stats.sent),
            ("chunks originated", stats.originated),
            ("chunks consumed", stats.consumed),
            ("chunks dropped", stats.dropped),
            ("chunks returned", stats.returned),
            ("chunks cut through", stats.cut_through),
            ("chunks pushed aside", stats.relieved),
            ("object chunks sent", self.sender.chunks.0),
            ("object chunks sent again", self.sender.chunks.1),
            ("requests for unknown objects", self.sender.unknown),
            ("unsolicited data for fetches", self.receiver.strays),
            ("chunks without room in the receive buffer", self.receiver.refused),
            ("wrong bytes of sources", self.receiver.wrong.sources),
            ("wrong bytes out of storage", self.receiver.wrong.storage),
            ("wrong bytes out of caches", self.receiver.wrong.caches),
        ]);
        if let Some(proxy) = self.proxy.as_ref().map(|proxy| proxy.stats) {
            counters.extend([
                ("chunks stored", proxy.stored),
                ("stored chunks delivered", proxy.delivered),
                ("stored chunks evicted", proxy.evicted),
                ("stored chunks expired", proxy.expired),
                ("stored chunks purged", proxy.purged),
                ("chunks refused by the store", proxy.refused),
                ("chunks restored", proxy.restored),
                ("reminders for producers", proxy.reminded),
                ("unreported drops", proxy.untold),
            ]);
        }
        let damaged = |damage: Damage| [damage.places, damage.bytes, damage.files];
        if let Some([places, bytes, files]) = self.proxy.as_ref().map(|proxy| damaged(proxy.damage())) {
            counters.extend([
                ("places in the store that are damaged", places),
                ("damaged bytes in the store", bytes),
                ("damaged files of the store put aside", files),
            ]);
        }
        let stored = self.replica.as_ref().and_then(|records| records.damage()).map(damaged);
        if let Some([places, bytes, files]) = stored {
            counters.extend([
                ("places in the stored names that are damaged", places),
                ("damaged bytes in the stored names", bytes),
                ("damaged files of the stored names put aside", files),
            ]);
        }
        counters.extend(self.replica.iter().flat_map(|records| records.counters()));
        NodeStatus {
            node: self.config.node,
            label: self.config.label.clone(),
            family: "mf",
            roles: self.role_names(),
            faces: self.face_statuses(),
            cache: (self.config.router && self.config.cache_bytes.0 > 0).then(|| self.cache_status()),
            resolver: self.resolver_lines(),
            counters,
            tables: self.tables(),
            table_limits: self.table_limits(),
            links: Vec::new(),
            network: None,
        }
    }
    /// Why a fetch of `name` finds no source: no neighbour is a router, the name service does not answer, or no device
    /// holds the object.
    pub(crate) fn obstacle_of(&self, name: &Name) -> Option<Obstacle> {
        let peers: Vec<_> = self.router.peers().map(|(_, peer)| peer).collect();
        let labels =
            |peers: &[&Peer]| peers.iter().map(|peer| format!("'{}'", peer.label)).collect::<Vec<_>>().join(", ");
        let is_router = |peer: &&&Peer| peer.roles.contains(Roles::ROUTER);
        let routers: Vec<_> = peers.iter().filter(is_router).copied().collect();
        if peers.is_empty() && !self.config.resolver {
            return None;
        }
        if routers.is_empty() && !self.config.router {
            let reason = format!("neighbours answer ({}), but none of them has the role \"router\"", labels(&peers));
            return Some(Obstacle { kind: ObstacleKind::Missing, reason });
        }
        let known = self.resolver.known(Guid::of_name(name));
        if self.front.as_ref().is_some_and(|front| front.members().is_empty()) {
            let reason = "no router that this node hears of resolves names; one needs the role \"resolver\"".into();
            return Some(Obstacle { kind: ObstacleKind::Missing, reason });
        }
        let service = match self.config.router {
            true => "the name service".to_string(),
            false => format!("the name service behind {}", labels(&routers)),
        };
        if let Some(trouble) = self.resolver.trouble() {
            return Some(Obstacle { kind: ObstacleKind::Silent, reason: trouble.reason() });
        }
        match known {
            Some(0) => Some(Obstacle {
                kind: ObstacleKind::NoSuchName,
                reason: format!("{service} knows no source of it that this device may read"),
            }),
            Some(known) => Some(Obstacle {
                kind: ObstacleKind::Silent,
                reason: format!("{service} knows {known} records of it, but no device that has it answers"),
            }),
            // A finished fetch watches nothing: its last result stands.
            None if !self.resolver.is_watched(Guid::of_name(name)) => None,
            None => {
                let reason = format!("{service} does not answer; does a router there have the role \"resolver\"?");
                Some(Obstacle { kind: ObstacleKind::Silent, reason })
            }
        }
    }
    fn role_names(&self) -> Vec<&'static str> {
        let all = [(Roles::ROUTER, "router"), (Roles::RESOLVER, "resolver"), (Roles::PROXY, "proxy")];
        let mut names: Vec<&'static str> =
            all.into_iter().filter(|(role, _)| self.roles.contains(*role)).map(|(_, name)| name).collect();
        names.extend(["sender", "receiver"]);
        names
    }
    fn table_limits(&self) -> BTreeMap<&'static str, u64> {
        let records = self.replica.iter().map(|_| ("name_records", u64::from(self.config.records_max)));
        let routers = self.router.topology.iter().map(|_| ("routers", u64::from(self.config.routers_max)));
        let partial = ("partial_bytes", self.router.partials.bytes_max);
        records.chain(routers).chain(Some(partial).filter(|(_, most)| *most > 0)).collect()
    }
    fn tables(&self) -> BTreeMap<&'static str, u64> {
        let mut tables = BTreeMap::new();
        if let Some(topology) = &self.router.topology {
            tables.insert("routers", topology.router_count() as u64);
        }
        tables.extend(self.replica.iter().flat_map(|records| records.tables()));
        if let Some(front) = &self.front {
            tables.insert("name_servers", front.members().len() as u64);
        }
        if let Some(proxy) = &self.proxy {
            tables.insert("stored_chunks", proxy.holdings().count() as u64);
        }
        if self.router.partials.bytes_max > 0 {
            tables.insert("partial_bytes", self.router.partials.used().0);
        }
        tables
    }
    fn face_statuses(&self) -> Vec<FaceStatus> {
        let status = |(face, peer): (_, Option<&Peer>)| {
            let stats = self.router.face_stats(face).unwrap_or_default();
            FaceStatus {
                face,
                neighbour: peer.map(|peer| peer.label.clone()).unwrap_or_default(),
                up: peer.is_some(),
                rtt: self.neighbour.rtt(face),
                mtu: peer.map_or(0, |peer| peer.datagram_bytes),
                rate: self.faces.get(&face).and_then(|options| options.rate),
                sent: (stats.sent.0, ByteCount(stats.sent.1)),
                received: (stats.received.0, ByteCount(stats.received.1)),
                dropped: 0,
                ..FaceStatus::default()
            }
        };
        self.neighbour.faces().map(status).collect()
    }
    fn cache_status(&self) -> CacheStatus {
        let (used, capacity) = self.cache.usage();
        CacheStatus {
            policy: "lru by object",
            used,
            capacity,
            hits: self.cache.hits,
            misses: self.cache.misses,
            objects: self.cache.objects().map(|(id, chunks, bytes)| (id.to_string(), chunks, bytes, 0)).collect(),
        }
    }
    fn resolver_lines(&self) -> Vec<(String, String)> {
        let mut lines = Vec::from([("guid".to_string(), self.guid.to_string())]);
        if self.config.router {
            lines.push(("address".into(), self.config.address.to_string()));
        }
        for label in self.config.groups.keys() {
            lines.push(("group".into(), format!("{label}: {}", self.group(label))));
        }
        for (address, weight) in self.accesses().iter().filter(|_| !self.config.router) {
            lines.push(("attached".into(), format!("{address}, weight {weight}")));
        }
        for (_, peer) in self.router.peers().filter(|(_, peer)| peer.roles.contains(Roles::ROUTER)) {
            lines.push(("router".into(), format!("{} at {}", peer.label, peer.address)));
        }
        if let Some(front) = &self.front {
            lines.push(("name servers".into(), format!("{} in reach", front.members().len())));
        }
        let records = self.replica.iter().flat_map(|records| records.status());
        lines.extend(records.map(|(what, text)| (what.to_string(), text)));
        if self.cache.arriving.joins + self.cache.arriving.beyond > 0 {
            let text =
                format!("{}, {} beyond pending_requests_max", self.cache.arriving.joins, self.cache.arriving.beyond);
            lines.push(("requests joined".into(), text));
        }
        if let Some((used, capacity)) = self.proxy.as_ref().map(Proxy::usage) {
            lines.push(("store".into(), format!("{used} of {capacity}")));
        }
        lines
    }
}
