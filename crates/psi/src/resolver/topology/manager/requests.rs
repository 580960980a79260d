//! Path requests: merges their newer entries.
//!
//! Requests may arrive in any order, repeatedly, and from several rendezvous nodes. Each entry carries the version that
//! its host gave it; the newer one wins, of equal ones the withdrawal: the same rule by which rendezvous nodes merge
//! their records. Withdrawn entries are remembered for `WITHDRAWAL_MEMORY`, longer than a message may be in transit.
use super::*;
use crate::{
    ids::ItemId,
    wire::{MatchKey, Overtaken, PUBLISHERS_MAX, Publisher, WITHDRAWN_MAX},
};

/// Publishers that a transfer keeps in any case, so that rendezvous nodes that know different ones complete each other.
const NEIGHBOURS: usize = 8;

tributary_core::declared! {
    /// A subscriber's request for paths.
    pub(super) struct Transfer {
        pub(super) item: ItemId = request.item.clone(),
        pub(super) metric: PathMetric = request.metric,
        /// Paths per source.
        pub(super) paths: u8 = request.paths,
        /// Version of the subscription.
        version: u64 = request.version,
        expires: Time = Time::MAX,
        publishers: BTreeMap<NodeId, Held> = BTreeMap::new(),
        /// Requests so far.
        requests: u64 = 0,
        /// When something in it expires.
        pub(super) due: Time = Time::MAX,
        /// The last offer to the subscriber, with the links of each path; `None` if the next one must be sent in any
        /// case.
        pub(super) last_offered: Option<Vec<OfferedSource>> = None,
        /// The choices of its paths, the last one first.
        pub(super) selections: Vec<Selection> = Vec::new(),
        /// The numbers of paths by their links; kept for the life of the transfer.
        pub(super) path_ids: BTreeMap<Vec<LinkKey>, u16> = BTreeMap::new(),
    }
    fn new(request: &PathRequest) {}
}

/// A publisher as it is held.
struct Held {
    version: u64,
    /// The last request that named it.
    named: u64,
    /// When a live one counts as withdrawn unless it is named again, and when a withdrawn one is forgotten.
    expires: Time,
    /// Label and manifest; `None` once it was withdrawn.
    value: Option<(String, Vec<u8>)>,
}

/// Transfers that have ended, so that a late request does not revive them.
#[derive(Default)]
pub(super) struct Ended {
    by_key: BTreeMap<(NodeId, u32), (u64, Time)>,
    by_age: BTreeSet<(Time, (NodeId, u32))>,
}

impl Ended {
    fn insert(&mut self, key: (NodeId, u32), version: u64, until: Time, max: usize) {
        let version = version.max(self.version(key).unwrap_or(0));
        self.remove(key);
        if self.by_key.len() >= max
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.by_key.remove(&oldest);
        }
        self.by_key.insert(key, (version, until));
        self.by_age.insert((until, key));
    }
    fn remove(&mut self, key: (NodeId, u32)) {
        if let Some((_, until)) = self.by_key.remove(&key) {
            self.by_age.remove(&(until, key));
        }
    }
    fn version(&self, key: (NodeId, u32)) -> Option<u64> {
        self.by_key.get(&key).map(|(version, _)| *version)
    }
    fn expire(&mut self, now: Time) {
        while let Some((until, key)) = self.by_age.first().copied().filter(|(until, _)| *until <= now) {
            self.by_age.remove(&(until, key));
            self.by_key.remove(&key);
        }
    }
    pub(super) fn due(&self) -> Option<Time> {
        self.by_age.first().map(|(until, _)| *until)
    }
}

impl Transfer {
    /// The publishers that are not withdrawn: node, label, manifest.
    pub(super) fn publishers(&self) -> impl Iterator<Item = (NodeId, &str, &[u8])> {
        self.publishers.iter().filter_map(|(node, held)| {
            let (label, manifest) = held.value.as_ref()?;
            Some((*node, label.as_str(), manifest.as_slice()))
        })
    }
    /// Takes the subscription of `request`, which is not older than the present one; true if it changed anything.
    fn renew(&mut self, now: Time, request: &PathRequest) -> bool {
        let expires = now + Duration::from_millis(request.lease_ms.into());
        if request.version == self.version {
            // Every copy of one request ends at the same moment, and no copy arrives before it was sent.
            self.expires = self.expires.min(expires);
            return false;
        }
        self.version = request.version;
        self.expires = expires;
        let before = (self.metric, self.paths);
        (self.metric, self.paths) = (request.metric, request.paths);
        let replaces = self.item != request.item;
        if replaces {
            self.item = request.item.clone();
            self.publishers.clear();
        }
        replaces || before != (self.metric, self.paths)
    }
    /// Takes a publisher that is named as live. Returns whether anything changed, or the known version if that is
    /// newer.
    fn publish(&mut self, publisher: Publisher, expires: Time) -> Result<bool, u64> {
        let Publisher { node, version, label, manifest } = publisher;
        let (value, named) = (Some((label, manifest)), self.requests);
        match self.publishers.get_mut(&node) {
            Some(held) if held.version > version => Err(held.version),
            Some(held) if held.version == version => {
                held.named = named;
                if held.value.is_some() {
                    held.expires = held.expires.max(expires);
                }
                Ok(false)
            }
            Some(held) => {
                let changed = held.value != value;
                *held = Held { version, named, expires, value };
                Ok(changed)
            }
            None => {
                self.publishers.insert(node, Held { version, named, expires, value });
                Ok(true)
            }
        }
    }
    /// Takes the withdrawal of a publisher; true if it was live.
    fn withdraw(&mut self, node: NodeId, version: u64, until: Time) -> bool {
        let was_live = match self.publishers.get(&node) {
            Some(held) if held.version > version => return false,
            Some(held) => held.value.is_some(),
            None => false,
        };
        self.publishers.insert(node, Held { version, named: 0, expires: until, value: None });
        was_live
    }
    /// Drops publishers whose lease has ended; true if one of them was live.
    fn expire(&mut self, now: Time, memory: Duration) -> bool {
        let mut fell = false;
        self.publishers.retain(|_, held| {
            if held.expires > now {
                return true;
            }
            let was_live = held.value.take().is_some();
            held.expires = now + memory;
            fell |= was_live;
            was_live
        });
        fell
    }
    /// Forgets entries beyond the limits: of live publishers all but the `named` that were named last, since rendezvous
    /// nodes name a few of many and these change; of withdrawals the oldest. True if a live one was forgotten.
    fn cut(&mut self, named: usize) -> bool {
        let live = self.publishers.iter().filter(|(_, held)| held.value.is_some());
        let mut live: Vec<(u64, NodeId)> = live.map(|(node, held)| (held.named, *node)).collect();
        live.sort_unstable_by(|a, b| b.cmp(a));
        let live = live.split_off(live.len().min(named.clamp(NEIGHBOURS, PUBLISHERS_MAX)));
        live.iter().for_each(|(_, node)| {
            self.publishers.remove(node);
        });
        while self.publishers.len() > PUBLISHERS_MAX + WITHDRAWN_MAX {
            let withdrawn = self.publishers.iter().filter(|(_, held)| held.value.is_none());
            let Some(oldest) = withdrawn.min_by_key(|(_, held)| held.expires).map(|(node, _)| *node) else { break };
            self.publishers.remove(&oldest);
        }
        !live.is_empty()
    }
    fn settle(&mut self) {
        let publishers = self.publishers.values().map(|held| held.expires);
        self.due = publishers.min().map_or(self.expires, |first| first.min(self.expires));
    }
}

impl TopologyManager {
    /// Takes a path request of the rendezvous node `from`, its repetition, or its withdrawal.
    pub fn handle_path_request(&mut self, now: Time, from: NodeId, request: PathRequest) {
        self.merge_request(now, from, request);
        self.handle_timeout(now);
    }
    fn merge_request(&mut self, now: Time, from: NodeId, request: PathRequest) {
        let key = (request.subscriber, request.transfer);
        let known = self.transfers.get(&key).map(|transfer| transfer.version);
        let ended = self.ended.version(key);
        if request.paths == 0 {
            if known.is_none_or(|known| known <= request.version) {
                self.end_transfer(now, key, request.version);
            }
            return;
        }
        let subscription = MatchKey::Subscription(request.subscriber, request.transfer);
        if let Some(ended) = ended.filter(|ended| *ended >= request.version) {
            if ended > request.version {
                self.overtaken(from, request.item, [(subscription, ended)].into());
            }
            return;
        }
        let mut overtaken = Vec::new();
        let full = self.transfers.len() >= self.config.limits.transfers_max;
        match self.transfers.get_mut(&key) {
            Some(transfer) if request.version < transfer.version => {
                overtaken.push((subscription, transfer.version));
                if transfer.item != request.item {
                    return self.overtaken(from, request.item, overtaken);
                }
            }
            Some(transfer) => {
                if transfer.renew(now, &request) {
                    self.dirty.insert(key);
                }
            }
            None if full => {
                let rejection = Limit::Transfers.reached(self.config.limits.transfers_max);
                self.refuse_for(key.0, rejection);
                // A standby reaches the same refusal, but only one manager sends it.
                if self.state == ManagerState::Active {
                    let refused = Refused { transfer: key.1, rejection };
                    self.messages.push_back((key.0, Message::Refused(refused)));
                }
                return;
            }
            None => {
                let mut transfer = Transfer::new(&request);
                transfer.renew(now, &request);
                self.ended.remove(key);
                self.transfers.insert(key, transfer);
                self.fresh.insert(key);
            }
        }
        let Some(transfer) = self.transfers.get_mut(&key) else { return };
        let expires = now + Duration::from_millis(request.lease_ms.into());
        let mut changed = transfer.last_offered.is_none();
        transfer.requests += 1;
        let (named, mut manifest) = (request.publishers.len(), Vec::new());
        for mut publisher in request.publishers {
            let node = publisher.node;
            match publisher.manifest.is_empty() {
                true => publisher.manifest.clone_from(&manifest),
                false => manifest.clone_from(&publisher.manifest),
            }
            match transfer.publish(publisher, expires) {
                Ok(news) => changed |= news,
                Err(version) => overtaken.push((MatchKey::Publisher(node), version)),
            }
        }
        for (node, version) in request.withdrawn {
            changed |= transfer.withdraw(node, version, now + WITHDRAWAL_MEMORY);
        }
        changed |= transfer.cut(named);
        transfer.settle();
        let is_fresh = transfer.last_offered.is_none();
        if changed {
            if is_fresh {
                self.fresh.insert(key)
            } else {
                self.dirty.insert(key)
            };
        }
        if !overtaken.is_empty() {
            self.overtaken(from, request.item, overtaken);
        }
    }
    /// Ends the transfers and publishers whose time is over.
    pub(super) fn expire_transfers(&mut self, now: Time) {
        self.ended.expire(now);
        let due: Vec<_> =
            self.transfers.iter().filter(|(_, transfer)| transfer.due <= now).map(|(key, _)| *key).collect();
        for key in due {
            let Some(transfer) = self.transfers.get_mut(&key) else { continue };
            if transfer.expires <= now {
                let version = transfer.version;
                self.end_transfer(now, key, version);
                continue;
            }
            if transfer.expire(now, WITHDRAWAL_MEMORY) {
                self.dirty.insert(key);
            }
            transfer.settle();
        }
    }
    fn end_transfer(&mut self, now: Time, key: (NodeId, u32), version: u64) {
        self.transfers.remove(&key);
        self.dirty.remove(&key);
        self.fresh.remove(&key);
        self.ended.insert(key, version, now + WITHDRAWAL_MEMORY, self.config.limits.transfers_max);
    }
    fn overtaken(&mut self, to: NodeId, item: ItemId, mut entries: Vec<(MatchKey, u64)>) {
        entries.truncate(crate::wire::OVERTAKEN_MAX);
        self.messages.push_back((to, Message::Overtaken(Overtaken { item, entries })));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SUBSCRIBER: NodeId = NodeId(9);
    const KEY: (NodeId, u32) = (SUBSCRIBER, 1);

    /// A host's statement; its place in the history is its version.
    #[derive(Clone, Copy, Debug)]
    enum Stated {
        Subscribe,
        Unsubscribe,
        Publish(u64),
        Unpublish(u64),
    }
    /// A rendezvous node's knowledge: version and liveness of the subscription and of each publisher.
    #[derive(Clone, Default)]
    struct View {
        subscription: Option<(u64, bool)>,
        publishers: BTreeMap<u64, (u64, bool)>,
    }
    impl View {
        fn hear(&mut self, version: u64, stated: Stated) {
            let newer = |known: Option<&(u64, bool)>| known.is_none_or(|(known, _)| *known < version);
            match stated {
                Stated::Subscribe | Stated::Unsubscribe if newer(self.subscription.as_ref()) => {
                    self.subscription = Some((version, matches!(stated, Stated::Subscribe)));
                }
                Stated::Publish(node) | Stated::Unpublish(node) if newer(self.publishers.get(&node)) => {
                    self.publishers.insert(node, (version, matches!(stated, Stated::Publish(_))));
                }
                Stated::Subscribe | Stated::Unsubscribe | Stated::Publish(_) | Stated::Unpublish(_) => {}
            }
        }
        fn request(&self) -> Option<PathRequest> {
            let (version, live) = self.subscription?;
            let of = |wanted: bool| self.publishers.iter().filter(move |(_, (_, live))| *live == wanted);
            let publisher = |(node, (version, _)): (&u64, &(u64, bool))| Publisher {
                node: NodeId(*node),
                version: *version,
                label: String::new(),
                manifest: version.to_be_bytes().into(),
            };
            Some(PathRequest {
                subscriber: SUBSCRIBER,
                transfer: 1,
                version,
                item: ItemId::new(&"/a".parse().unwrap()),
                metric: PathMetric::Hops,
                paths: if live { 2 } else { 0 },
                lease_ms: if live { 100_000 } else { 0 },
                publishers: of(true).map(publisher).collect(),
                withdrawn: of(false).map(|(node, (version, _))| (NodeId(*node), *version)).collect(),
            })
        }
        fn held(&self) -> Option<(u64, BTreeMap<u64, u64>)> {
            let (version, live) = self.subscription?;
            let publishers = self.publishers.iter().filter(|(_, (_, live))| *live);
            live.then(|| (version, publishers.map(|(node, (version, _))| (*node, *version)).collect()))
        }
    }
    fn manager() -> TopologyManager {
        TopologyManager::new(ManagerConfig::new(&Config::new("tm", 1), 1, 1))
    }
    fn held(manager: &TopologyManager) -> Option<(u64, BTreeMap<u64, u64>)> {
        let transfer = manager.transfers.get(&KEY)?;
        let live = transfer.publishers.iter().filter(|(_, held)| held.value.is_some());
        Some((transfer.version, live.map(|(node, held)| (node.0, held.version)).collect()))
    }
    fn stated() -> impl Strategy<Value = Stated> {
        prop_oneof![
            2 => Just(Stated::Subscribe),
            1 => Just(Stated::Unsubscribe),
            4 => (1u64..5).prop_map(Stated::Publish),
            2 => (1u64..5).prop_map(Stated::Unpublish),
        ]
    }

    proptest! {
        #[test]
        fn path_requests_in_any_order_and_often_leave_what_the_hosts_said_last(
            history in prop::collection::vec((stated(), 0u8..4), 1..20),
            order in prop::collection::vec(any::<prop::sample::Index>(), 60),
        ) {
            let (mut views, mut all) = ([View::default(), View::default()], View::default());
            let mut requests = Vec::new();
            for (index, (stated, heard_by)) in history.iter().enumerate() {
                all.hear(index as u64 + 1, *stated);
                for (bit, view) in views.iter_mut().enumerate().filter(|(bit, _)| heard_by >> bit & 1 == 1) {
                    view.hear(index as u64 + 1, *stated);
                    requests.extend(view.request().map(|request| (NodeId(bit as u64 + 1), request)));
                }
            }
            // In the end the rendezvous nodes agree.
            requests.extend(all.request().map(|request| (NodeId(1), request)));
            let mut shuffled: Vec<_> = order.iter().filter(|_| !requests.is_empty()).map(|at| at.get(&requests)).collect();
            shuffled.extend(requests.iter().rev());
            let mut manager = manager();
            for (from, request) in shuffled {
                manager.handle_path_request(Time::from_millis(1), *from, request.clone());
            }
            prop_assert_eq!(held(&manager), all.held());
        }
    }

    fn request(version: u64, publishers: &[(u64, u64)], withdrawn: &[(u64, u64)]) -> PathRequest {
        let mut view = View { subscription: Some((version, true)), ..View::default() };
        view.publishers.extend(publishers.iter().map(|(node, version)| (*node, (*version, true))));
        view.publishers.extend(withdrawn.iter().map(|(node, version)| (*node, (*version, false))));
        view.request().unwrap()
    }
    #[test]
    fn of_more_publishers_than_a_transfer_keeps_those_that_were_named_last_stay() {
        let mut manager = manager();
        let all: Vec<(u64, u64)> = (1..=100).map(|node| (node, 1)).collect();
        let mut name = |ms, named: &[(u64, u64)]| -> Vec<u64> {
            manager.handle_path_request(Time::from_millis(ms), NodeId(1), request(1, named, &[]));
            held(&manager).expect("it runs").1.into_keys().collect()
        };
        assert_eq!(name(1, &all[60..80]), (61..=80).collect::<Vec<_>>());
        assert_eq!(name(2, &all[20..32]), (21..=32).collect::<Vec<_>>());
        assert_eq!(name(3, &all[0..6]), [1, 2, 3, 4, 5, 6, 31, 32], "a rendezvous node may know few");
        assert_eq!(name(4, &all[0..70]).len(), PUBLISHERS_MAX);
    }
    #[test]
    fn a_publisher_without_a_manifest_has_that_of_the_one_before() {
        let mut manager = manager();
        let mut named = request(1, &[(1, 1), (2, 1), (3, 1)], &[]);
        named.publishers[1].manifest = Vec::new();
        named.publishers[2].manifest = alloc::vec![7];
        let first = named.publishers[0].manifest.clone();
        manager.handle_path_request(Time::from_millis(1), NodeId(1), named);
        let manifests: Vec<Vec<u8>> = manager.transfers[&KEY].publishers().map(|(.., of)| of.to_vec()).collect();
        assert_eq!(manifests, [first.clone(), first, alloc::vec![7]]);
    }
    fn overtaken(manager: &mut TopologyManager) -> Vec<(NodeId, Vec<(MatchKey, u64)>)> {
        let messages = core::iter::from_fn(|| manager.poll_message());
        let overtaken = |(to, message)| match message {
            Message::Overtaken(overtaken) => Some((to, overtaken.entries)),
            _ => None,
        };
        messages.filter_map(overtaken).collect()
    }

    #[test]
    fn a_late_request_of_any_rendezvous_node_withdraws_no_source() {
        let mut manager = manager();
        let now = Time::from_millis(1);
        manager.handle_path_request(now, NodeId(1), request(5, &[(1, 1), (2, 2)], &[]));
        manager.handle_path_request(now, NodeId(2), request(4, &[(1, 1)], &[]));
        manager.handle_path_request(now, NodeId(1), request(5, &[], &[]));
        assert_eq!(held(&manager), Some((5, [(1, 1), (2, 2)].into())));
        assert_eq!(overtaken(&mut manager), [(NodeId(2), [(MatchKey::Subscription(SUBSCRIBER, 1), 5)].into())]);
        manager.handle_path_request(now, NodeId(1), request(5, &[(1, 1)], &[(2, 3)]));
        manager.handle_path_request(now, NodeId(2), request(5, &[(1, 1), (2, 2)], &[]));
        assert_eq!(held(&manager), Some((5, [(1, 1)].into())));
        assert_eq!(overtaken(&mut manager), [(NodeId(2), [(MatchKey::Publisher(NodeId(2)), 3)].into())]);
    }

    #[test]
    fn a_withdrawn_transfer_is_not_revived_and_forgotten_in_the_end() {
        let mut manager = manager();
        let mut view = View { subscription: Some((7, false)), ..View::default() };
        manager.handle_path_request(Time::from_millis(1), NodeId(1), view.request().unwrap());
        manager.handle_path_request(Time::from_millis(2), NodeId(1), request(6, &[(1, 1)], &[]));
        manager.handle_path_request(Time::from_millis(2), NodeId(1), request(7, &[(1, 1)], &[]));
        assert_eq!(held(&manager), None);
        manager.handle_timeout(Time::from_millis(60_001));
        assert!(manager.ended.by_key.is_empty() && manager.ended.by_age.is_empty());
        view.subscription = Some((6, true));
        manager.handle_path_request(Time::from_millis(60_002), NodeId(1), view.request().unwrap());
        assert_eq!(held(&manager), Some((6, [].into())));
    }

    #[test]
    fn a_publisher_that_no_renewal_names_falls_with_the_lease_of_the_last_one_that_did() {
        let mut manager = manager();
        manager.handle_path_request(Time::from_millis(0), NodeId(1), request(1, &[(1, 1), (2, 1)], &[]));
        manager.handle_path_request(Time::from_millis(50_000), NodeId(1), request(2, &[(1, 1)], &[]));
        assert_eq!(held(&manager).unwrap().1, [(1, 1), (2, 1)].into());
        manager.handle_timeout(Time::from_millis(100_000));
        assert_eq!(held(&manager).unwrap().1, [(1, 1)].into());
        manager.handle_timeout(Time::from_millis(150_000));
        assert_eq!(held(&manager), None, "the lease of the subscription has ended");
    }

    #[test]
    fn what_is_remembered_of_ended_transfers_is_bounded() {
        let mut ended = Ended::default();
        for transfer in 0..10 {
            ended.insert((SUBSCRIBER, transfer), 1, Time::from_millis(u64::from(transfer)), 4);
        }
        assert_eq!((ended.by_key.len(), ended.by_age.len()), (4, 4));
        assert_eq!((ended.version((SUBSCRIBER, 5)), ended.version((SUBSCRIBER, 6))), (None, Some(1)));
    }
}
