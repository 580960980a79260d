//! Messages that the network has promised to keep, although their senders have left.
//!
//! A message to a device is promised when its source has heard that all of its chunks are stored. From then on it must
//! arrive, once and unaltered, within its lifetime: after any number of kills of any nodes. There are few excuses, and
//! each is one that a person would accept: the only disk with a copy is lost, a node on the way altered bytes, a store
//! had to evict, or the device is full.
use std::collections::{BTreeMap, BTreeSet};

use tributary_content::{Name, ObjectId};
use tributary_core::{Duration, Time};
use tributary_sim::NodeIndex;

use super::{
    family::Family,
    faults::FaultKind,
    messages::{Addressee, MessageSpec},
    world::World,
};

/// One message that was reported as stored.
#[derive(Clone, Debug)]
pub(super) struct Promise {
    device: usize,
    pub(super) name: Name,
    object: ObjectId,
    pub(super) spec: MessageSpec,
    made_at: Time,
    /// Until when it is kept.
    until: Time,
    /// Why it need not arrive.
    excuse: Option<&'static str>,
}

impl Promise {
    /// Whether it still has to be kept.
    pub(super) fn is_open<F: Family>(&self, world: &World<'_, F>) -> bool {
        self.excuse.is_none()
            && world.net.now() < self.until
            && !world.gone.contains(&self.device)
            && !world.people[self.device].received.contains(&self.spec.number)
    }
}

/// How long stores keep chunks without a stated lifetime.
const LIFETIME: Duration = Duration::from_secs(3_600);
/// A lifetime ends at each router in its own time.
const LIFETIME_SLACK: Duration = Duration::from_secs(1);

impl<F: Family> World<'_, F> {
    /// A source has heard that a message is stored.
    pub(super) fn promise(&mut self, spec: &MessageSpec, object: ObjectId, begun_at: Time) {
        let (Addressee::Device(device), now) = (spec.to, self.net.now()) else { return };
        if self.promises.contains_key(&spec.number) {
            return;
        }
        let lifetime = spec.options.lifetime.unwrap_or(LIFETIME).min(LIFETIME);
        let until = begun_at + lifetime.saturating_sub(LIFETIME_SLACK);
        let name = spec.object().name.parse().expect("plans have legal names");
        let promise = Promise { device, name, object, spec: spec.clone(), made_at: now, until, excuse: None };
        self.log(|| format!("promised: message {} for node {device}", spec.number));
        self.promises.insert(spec.number, promise);
    }
    /// Whether a message was promised.
    pub(super) fn is_promised(&self, number: usize) -> bool {
        self.promises.contains_key(&number)
    }
    /// A node loses its disk: data that only this node may have need not arrive. To be called while it lives, or it has
    /// no excuse.
    pub(super) fn lose_disk(&mut self, node: usize) {
        if !self.is_alive(node) {
            // It had died before: the contents of its disk are unknown.
            let open = self.promises.values_mut().filter(|promise| promise.excuse.is_none());
            open.for_each(|promise| promise.excuse = Some("a disk was lost while its node was dead"));
            return;
        }
        let now = self.net.now();
        let inner = self.net.node(NodeIndex(node as u32)).inner();
        for promise in self.promises.values_mut().filter(|promise| promise.excuse.is_none()) {
            if promise.device == node && self.people[node].inbox.has_some_of(&promise.object) {
                promise.excuse = Some("its device has lost what it had of it");
            }
            if F::stores(inner, now, &promise.object) {
                promise.excuse = Some("a disk that had it was lost");
            }
        }
    }
    /// The node's life ends: how often it broke a promise that it may break.
    pub(super) fn count_broken(&mut self, node: usize) {
        if self.is_alive(node) {
            self.broken += F::broken_promises(self.net.node(NodeIndex(node as u32)).inner());
        }
    }
    /// Custody: each byte of a promised message, and its description, is on the disk of some router or of its device at
    /// any time, so that no kill loses any of it.
    pub(super) fn check_custody(&self) {
        let may_be_lost = |kind: FaultKind| {
            kind.is_byzantine() || [FaultKind::DiskFull, FaultKind::StoreFull, FaultKind::StoreFails].contains(&kind)
        };
        if self.plan.faults.iter().any(|fault| may_be_lost(fault.kind)) {
            return;
        }
        let open: Vec<&Promise> = self.promises.values().filter(|promise| promise.is_open(self)).collect();
        let is_router = |node: &usize| self.plan.topology.nodes[*node].router && !self.gone.contains(node);
        let routers: Vec<usize> = (0..self.people.len()).filter(is_router).collect();
        // The disk of a dead node cannot be read.
        if open.is_empty() || !routers.iter().all(|node| self.is_alive(*node)) {
            return;
        }
        let nodes = || routers.iter().map(|node| self.net.node(NodeIndex(*node as u32)).inner());
        if self.broken + nodes().map(F::broken_promises).sum::<u64>() > 0 {
            return;
        }
        let mut chunks = BTreeMap::<ObjectId, BTreeMap<u32, u64>>::new();
        for (object, number, bytes) in nodes().flat_map(F::durable_chunks) {
            chunks.entry(object).or_default().insert(number, bytes);
        }
        let none = BTreeMap::new();
        for promise in open {
            let Some(at_device) = self.people[promise.device].inbox.durable_bytes(&promise.object) else { continue };
            let stored = chunks.get(&promise.object).unwrap_or(&none);
            let at_routers: u64 = stored.range(1..).map(|(_, bytes)| bytes).sum();
            let (size, has_description) = (promise.spec.size, stored.contains_key(&0));
            assert!(
                has_description && at_routers + at_device >= size,
                "of '{}', which was promised at {}, {at_routers} bytes are on disks of routers and {at_device} on that of \
                 node {}, of {size}; the description is {}",
                promise.name,
                promise.made_at,
                promise.device,
                if has_description { "there" } else { "nowhere" }
            );
        }
    }
    /// A promised message that has no excuse and has not arrived.
    pub(super) fn missing_promise(&self) -> Option<String> {
        let alive = (0..self.people.len()).filter(|node| self.is_alive(*node));
        let nodes: Vec<&F::Node> = alive.map(|node| self.net.node(NodeIndex(node as u32)).inner()).collect();
        let broken = self.broken + nodes.iter().map(|node| F::broken_promises(node)).sum::<u64>();
        let kinds: BTreeSet<FaultKind> = self.plan.faults.iter().map(|fault| fault.kind).collect();
        let excuses = [FaultKind::Corrupt, FaultKind::LyingCache, FaultKind::Malformed, FaultKind::DiskFull];
        if broken > 0 || excuses.iter().any(|kind| kinds.contains(kind)) {
            return None;
        }
        let now = self.net.now();
        let mut due = self.promises.values().filter(|promise| promise.is_open(self));
        let first = due.next()?;
        let holders = nodes.iter().filter(|node| F::stores(node, now, &first.object)).count();
        Some(format!(
            "node {} has not got '{}', which was promised at {} ({holders} nodes store it; {} more of {} promises are not \
             kept): {:?}",
            first.device,
            first.name,
            first.made_at,
            due.count(),
            self.promises.len(),
            first.spec
        ))
    }
}
