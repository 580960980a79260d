//! What subscribers are offered: paths to the sources of their transfers, with FIDs, numbers and capabilities.
use super::*;

/// Between the names of the nodes on a path.
const HOP_SEPARATOR: &str = ">";
/// Numbers of paths that one transfer remembers beyond those that it uses.
const PATH_IDS_MAX: usize = 4096;

/// One source as it was offered.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct OfferedSource {
    node: NodeId,
    label: String,
    manifest: Vec<u8>,
    pub(super) paths: Vec<OfferedPath>,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) struct OfferedPath {
    pub(super) links: Vec<LinkKey>,
    /// The links of requests, from subscriber to source.
    back: Vec<LinkKey>,
    offer: PathOffer,
    epoch: u32,
}

impl OfferedPath {
    /// Whether both of its FIDs hold by this measure, given the links from source to subscriber.
    pub(super) fn holds(&self, holds: &mut impl FnMut(&[LinkKey], &Fid) -> bool) -> bool {
        holds(&self.links, &self.offer.forward) && holds(&self.back, &self.offer.reverse)
    }
}

impl TopologyManager {
    pub(super) fn send_offers(&mut self) {
        for _ in 0..self.config.transfers_per_turn {
            let Some(key) = self.fresh.pop_first().or_else(|| self.dirty.pop_first()) else { return };
            self.send_offer(key);
        }
    }
    fn send_offer(&mut self, key: (NodeId, u32)) {
        let Some(mut transfer) = self.transfers.remove(&key) else { return };
        let reachable = self.route_to(key.0).and_then(|_| self.graph.node(key.0));
        if let Some(subscriber) = reachable {
            let sources = self.sources(subscriber, &mut transfer);
            if transfer.last_offered.as_ref() != Some(&sources) {
                self.offers_sequence += 1;
                let version = OfferVersion { term: self.term, sequence: self.offers_sequence };
                self.push_offers(key, version, &sources);
                transfer.last_offered = Some(sources);
            }
        } else {
            // It gets an offer when the topology makes it reachable again.
            transfer.last_offered = None;
        }
        self.transfers.insert(key, transfer);
    }
    fn push_offers(&mut self, (subscriber, transfer): (NodeId, u32), version: OfferVersion, sources: &[OfferedSource]) {
        if sources.is_empty() {
            self.messages.push_back((subscriber, Message::Offer(Offer::none(transfer, version))));
        }
        for (index, source) in sources.iter().enumerate() {
            let offer = Offer {
                transfer,
                version,
                index: index as u8,
                count: sources.len() as u8,
                source: source.node,
                source_label: source.label.clone(),
                manifest: match index.checked_sub(1) {
                    Some(before) if sources[before].manifest == source.manifest => Vec::new(),
                    _ => source.manifest.clone(),
                },
                fid_room: self.fid_room,
                paths: source.paths.iter().map(|path| path.offer.clone()).collect(),
            };
            self.messages.push_back((subscriber, Message::Offer(offer)));
        }
    }
    /// The present sources of a transfer with their paths.
    fn sources(&mut self, subscriber: NodeIndex, transfer: &mut Transfer) -> Vec<OfferedSource> {
        let publishers: Vec<(NodeId, String, Vec<u8>)> =
            transfer.publishers().map(|(node, label, manifest)| (node, label.into(), manifest.into())).collect();
        let (metric, paths) = (transfer.metric, transfer.paths);
        if transfer.path_ids.len() > PATH_IDS_MAX {
            let last_offered = transfer.last_offered.iter().flatten().flat_map(|source| &source.paths);
            transfer.path_ids = last_offered.map(|path| (path.links.clone(), path.offer.id)).collect();
        }
        let reachable: Vec<(usize, NodeIndex)> =
            publishers.iter().enumerate().filter_map(|(i, (node, ..))| Some((i, self.graph.node(*node)?))).collect();
        let nodes: Vec<NodeIndex> = reachable.iter().map(|(_, node)| *node).collect();
        let k = usize::from(paths).min(PATHS_MAX);
        let chosen = self.chosen((subscriber, &nodes), k, transfer);
        let mut offered: Vec<OfferedSource> = publishers
            .into_iter()
            .map(|(node, label, manifest)| OfferedSource { node, label, manifest, paths: Vec::new() })
            .collect();
        let mut all_links: Vec<Vec<LinkIndex>> = Vec::new();
        for ((i, source), paths) in reachable.into_iter().zip(chosen) {
            for links in paths {
                let last_offered =
                    transfer.last_offered.iter().flatten().find(|last_offered| last_offered.node == offered[i].node);
                let keys: Vec<LinkKey> = links.iter().map(|link| self.graph.key_of(*link)).collect();
                let known = last_offered
                    .and_then(|last_offered| last_offered.paths.iter().find(|known| known.links == keys))
                    .cloned();
                if let Some(offer) =
                    self.path_offer(source, subscriber, &links, keys, known, metric, &mut transfer.path_ids)
                {
                    offered[i].paths.push(offer);
                    all_links.push(links);
                }
            }
        }
        self.set_shared_links(&mut offered, &all_links);
        offered
    }
    #[expect(clippy::too_many_arguments, reason = "one call; a struct for it would only repeat the names")]
    fn path_offer(
        &mut self,
        source: NodeIndex,
        subscriber: NodeIndex,
        links: &[LinkIndex],
        keys: Vec<LinkKey>,
        known: Option<OfferedPath>,
        metric: PathMetric,
        ids: &mut BTreeMap<Vec<LinkKey>, u16>,
    ) -> Option<OfferedPath> {
        let back: Vec<LinkIndex> = links.iter().rev().filter_map(|link| self.graph.reverse_of(*link)).collect();
        let data = Tree { source, links, destinations: &[subscriber] };
        let requests = Tree { source: subscriber, links: &back, destinations: &[source] };
        let mut fid = |tree: Tree<'_>, known: Option<Fid>| {
            let holds = known.filter(|fid| self.builder.verify(&self.graph, tree, fid));
            holds.or_else(|| self.builder.build(&self.graph, tree))
        };
        let forward = fid(data, known.as_ref().map(|known| known.offer.forward))?;
        let reverse = fid(requests, known.as_ref().map(|known| known.offer.reverse))?;
        let unchanged = known.filter(|known| {
            known.epoch == self.ring.current().epoch && known.offer.forward == forward && known.offer.reverse == reverse
        });
        let adjacencies = || links.iter().map(|link| &self.graph.link(*link).adjacency);
        let rates = |rate: fn(&crate::wire::Adjacency) -> u32| {
            adjacencies().filter(|link| link.capacity_kbps > 0).map(rate).min().unwrap_or(0)
        };
        let mut offer = PathOffer {
            id: path_id(&keys, ids),
            reverse,
            forward,
            capability: [0; 8],
            hops: u8::try_from(links.len()).unwrap_or(u8::MAX),
            mtu: adjacencies().map(|link| link.mtu).min().unwrap_or(u32::from(u16::MAX)),
            latency_us: adjacencies().fold(0, |sum: u32, link| sum.saturating_add(link.rtt_us / 2)),
            capacity_kbps: rates(|link| link.capacity_kbps),
            residual_kbps: rates(residual_kbps),
            shared_links: Vec::new(),
            label: self.path_label(subscriber, &back),
        };
        let epoch = self.ring.current().epoch;
        match unchanged {
            Some(known) => {
                offer.capability = known.offer.capability;
                // Delays and loads move all the time: an offer is not renewed for them if they did not choose it.
                if !metric.is_measured() {
                    offer.latency_us = known.offer.latency_us;
                    offer.residual_kbps = known.offer.residual_kbps;
                    offer.shared_links = known.offer.shared_links;
                }
            }
            None => {
                offer.capability = self.ring.current().sign(&reverse, &forward);
            }
        }
        let back = back.iter().map(|link| self.graph.key_of(*link)).collect();
        Some(OfferedPath { links: keys, back, offer, epoch })
    }
    fn path_label(&self, subscriber: NodeIndex, back: &[LinkIndex]) -> String {
        let nodes = [subscriber].into_iter().chain(back.iter().filter_map(|link| self.graph.end_of(*link)));
        let labels: Vec<&str> = nodes.map(|node| self.graph.node_info(node).label.as_str()).collect();
        let joined = labels.join(HOP_SEPARATOR);
        if joined.len() <= PATH_LABEL_BYTES_MAX {
            return joined;
        }
        // Both ends and the number of nodes between them; a label has at most 32 bytes.
        let (first, last) = (labels[0], labels[labels.len() - 1]);
        format!("{first}{HOP_SEPARATOR}({} nodes){HOP_SEPARATOR}{last}", labels.len() - 2)
    }
    fn set_shared_links(&self, offered: &mut [OfferedSource], all_links: &[Vec<LinkIndex>]) {
        let slices: Vec<&[LinkIndex]> = all_links.iter().map(Vec::as_slice).collect();
        let rate = |link: LinkIndex| {
            let adjacency = &self.graph.link(link).adjacency;
            (adjacency.capacity_kbps > 0).then(|| residual_kbps(adjacency))
        };
        let shared = shared_links(&slices, rate);
        // Numbers by name of the link, so that they are the same on every manager.
        let mut taken: BTreeMap<LinkKey, u16> = BTreeMap::new();
        let names: BTreeSet<LinkKey> = shared.iter().flatten().map(|link| self.graph.key_of(*link)).collect();
        for name in names {
            let number = free_number(hash16(&[name]), taken.values());
            taken.insert(name, number);
        }
        let paths = offered.iter_mut().flat_map(|source| &mut source.paths);
        for (path, links) in paths.zip(&shared) {
            let known = core::mem::take(&mut path.offer.shared_links);
            let shared = |link: &LinkIndex| {
                let number = *taken.get(&self.graph.key_of(*link))?;
                let now = rate(*link).unwrap_or(0);
                let before = known.iter().find(|before| before.number == number);
                Some(SharedLink { number, residual_kbps: before.map_or(now, |before| before.residual_kbps) })
            };
            path.offer.shared_links = links.iter().take(SHARED_LINKS_MAX).filter_map(shared).collect();
        }
    }
}

/// The number of a path: a hash of its links, so that all managers compute the same one; the next free one after a
/// collision.
fn path_id(keys: &[LinkKey], ids: &mut BTreeMap<Vec<LinkKey>, u16>) -> u16 {
    if let Some(id) = ids.get(keys) {
        return *id;
    }
    let id = free_number(hash16(keys), ids.values());
    ids.insert(keys.into(), id);
    id
}
fn hash16(keys: &[LinkKey]) -> u16 {
    let mut hasher = blake3::Hasher::new();
    for key in keys {
        hasher.update(&key.node.0.to_be_bytes());
        hasher.update(&key.face.0.to_be_bytes());
    }
    let hash = hasher.finalize();
    u16::from_be_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
}
fn free_number<'a>(mut wanted: u16, taken: impl Iterator<Item = &'a u16>) -> u16 {
    let taken: BTreeSet<u16> = taken.copied().collect();
    while taken.contains(&wanted) {
        wanted = wanted.wrapping_add(1);
    }
    wanted
}
