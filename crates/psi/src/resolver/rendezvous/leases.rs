//! Leases of hosts: all publications of a host in a bucket of records share one lease, which the host renews with their
//! digest.
//!
//! A host renews with a count and a digest for each bucket ([`Renewal`](crate::wire::Renewal)), for ten items or a
//! million. A node with matching entries prolongs the lease; one with others reports that, and the host publishes the
//! bucket again. An entry not yet covered by such a lease has a separate one.
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use tributary_core::{Duration, NodeId, Time};

use super::{LEASE_MAX, PEER_TIMEOUT, Rendezvous, Target, Timer, members, stored};
use crate::{
    ids::RecordKey,
    wire::{EntryKey, Fid, Holding, Message, RENEWAL_LEASE_MAX, Renewal, Renewed, Reply, bucket_of, mark},
};

/// The lease of a host on its publications in one bucket.
#[derive(Clone, Debug, Default)]
struct HostLease {
    holding: Holding,
    /// The records in which this host's entries are.
    keys: BTreeSet<RecordKey>,
    /// Of these, those whose entries still have separate leases.
    fresh: BTreeSet<RecordKey>,
    until: Time,
    length: Duration,
    /// A topology manager knows newer versions of some of them: the host must publish again beyond these.
    is_overtaken: bool,
}

/// The leases of all hosts.
#[derive(Clone, Debug, Default)]
pub(super) struct Leases(BTreeMap<(NodeId, u16), HostLease>);

impl Leases {
    /// The entry of a host in a record changes from one version to another; `None` if it is not valid.
    pub(super) fn recount(&mut self, node: NodeId, key: RecordKey, before: Option<u64>, after: Option<u64>) {
        let bucket = bucket_of(key);
        let lease = self.0.entry((node, bucket)).or_default();
        lease.holding.bucket = bucket;
        if let Some(version) = before {
            lease.holding.remove(mark(key, version));
            lease.keys.remove(&key);
            lease.fresh.remove(&key);
        }
        if let Some(version) = after {
            lease.holding.add(mark(key, version));
            lease.keys.insert(key);
            lease.fresh.insert(key);
        }
        if lease.keys.is_empty() {
            self.0.remove(&(node, bucket));
        }
    }
    pub(super) fn overtake(&mut self, node: NodeId, key: RecordKey) {
        if let Some(lease) = self.0.get_mut(&(node, bucket_of(key))) {
            lease.is_overtaken = true;
        }
    }
    /// How long a lease-covered entry is valid at a node that gets it now: until the host has renewed there.
    pub(super) fn length(&self, node: NodeId, key: RecordKey) -> Duration {
        self.0.get(&(node, bucket_of(key))).map_or(Duration::ZERO, |lease| lease.length)
    }
}

/// A renewal of a host that this node has forwarded to all holders of its parts.
#[derive(Debug)]
pub(super) struct Renewing {
    client: NodeId,
    request: u32,
    missing: BTreeSet<u16>,
    /// Buckets in which the host has something, if there is an external store, which may have forgotten it.
    stated: BTreeSet<u16>,
    waiting: BTreeSet<NodeId>,
    since: Time,
}

impl Rendezvous {
    /// Takes the renewal of a host, or the part of one that another rendezvous node passes on.
    pub(super) fn on_renewal(&mut self, now: Time, from: NodeId, reply: Fid, renewal: Renewal) {
        let Renewal { request, client, lease, holdings } = renewal;
        let is_of_host = request & Reply::HOST_BIT != 0;
        if !is_of_host && self.members.contains(from) {
            let missing = self.renew(now, client, lease, &holdings);
            let renewed = Message::Renewed(Renewed { request, missing });
            return self.messages.push_back((Target::Reply(from, reply), renewed));
        }
        // A host renews only its own publications, and repeats that after its timeout. A refused client learns the
        // reason by its next request.
        let is_refused = !is_of_host || client != from || self.renewals.len() >= self.config.limits.requests_max;
        if is_refused || !self.remember_client(now, from, reply) {
            self.dropped += 1;
            return;
        }
        let mut parts: BTreeMap<NodeId, Vec<Holding>> = BTreeMap::new();
        let nodes = &self.members.nodes;
        let has_store = self.stored.is_some();
        let stated =
            holdings.iter().filter(|stated| has_store && stated.count > 0).map(|stated| stated.bucket).collect();
        for holding in holdings {
            for node in members::responsible_for(nodes.iter().copied(), holding.bucket, self.config.replicas) {
                parts.entry(node).or_default().push(holding);
            }
        }
        let mut renewing =
            Renewing { client, request, missing: BTreeSet::new(), stated, waiting: BTreeSet::new(), since: now };
        let id = self.request_number();
        if has_store {
            renewing.waiting.insert(stored::STORE);
            self.renew_outside(now, client, lease, id);
        }
        for (node, holdings) in parts {
            if node == self.me {
                renewing.missing.extend(self.renew(now, client, lease, &holdings));
                continue;
            }
            if self.members.is_alive(node) {
                renewing.waiting.insert(node);
            }
            let part = Renewal { request: id, client, lease, holdings };
            self.messages.push_back((Target::Node(node), Message::Renewal(part)));
        }
        self.renewals.insert(id, renewing);
        self.timers.set(Timer::Renewal(id), now + PEER_TIMEOUT);
        self.end_renewal_if_answered(id);
    }

    /// Prolongs the leases of a host where its digest matches the held entries; returns the buckets where it does not.
    fn renew(&mut self, now: Time, node: NodeId, lease: Duration, holdings: &[Holding]) -> Vec<u16> {
        let length = lease.min(LEASE_MAX).min(RENEWAL_LEASE_MAX);
        let mut missing = Vec::new();
        for stated in holdings {
            let known = self.leases.0.get_mut(&(node, stated.bucket));
            let Some(known) = known.filter(|known| known.holding == *stated && !known.is_overtaken) else {
                // A node that is still taking over its records may lack some for that reason.
                if stated.count > 0 && self.has_bucket(stated.bucket) {
                    if let Some(known) = self.leases.0.get_mut(&(node, stated.bucket)) {
                        known.is_overtaken = false;
                    }
                    missing.push(stated.bucket);
                }
                continue;
            };
            (known.until, known.length) = (now + length, length);
            let (until, fresh) = (known.until, core::mem::take(&mut known.fresh));
            for key in fresh {
                if let Some(held) =
                    self.records.get_mut(&key).and_then(|record| record.entries.get_mut(&EntryKey::Publisher(node)))
                {
                    held.expires = Time::MAX;
                }
            }
            if self.timers.due(&Timer::Lease(node, stated.bucket)).is_none() {
                self.timers.set(Timer::Lease(node, stated.bucket), until);
            }
        }
        missing
    }

    /// The lease of a host may be over: the entries that it covers expire.
    pub(super) fn on_lease_due(&mut self, now: Time, node: NodeId, bucket: u16) {
        let Some(lease) = self.leases.0.get(&(node, bucket)) else { return };
        if lease.until > now {
            return self.timers.set(Timer::Lease(node, bucket), lease.until);
        }
        for key in lease.keys.difference(&lease.fresh).copied().collect::<Vec<_>>() {
            let Some(record) = self.records.get_mut(&key) else { continue };
            record.end_lease(now, &EntryKey::Publisher(node));
            self.on_record_due(now, key);
        }
    }

    pub(super) fn on_renewed(&mut self, from: NodeId, renewed: Renewed) {
        let Some(renewing) = self.renewals.get_mut(&renewed.request) else {
            self.dropped += 1;
            return;
        };
        if renewing.waiting.remove(&from) {
            renewing.missing.extend(renewed.missing);
        }
        self.end_renewal_if_answered(renewed.request);
    }

    /// The external store has renewed the lease of a host, or does not have it: then all entries of the host are stored
    /// again.
    pub(super) fn on_renewed_outside(&mut self, id: u32, is_alive: bool) {
        let Some(renewing) = self.renewals.get_mut(&id) else { return };
        if !is_alive {
            renewing.missing.append(&mut renewing.stated);
        }
        renewing.waiting.remove(&stored::STORE);
        self.end_renewal_if_answered(id);
    }

    /// Some nodes have not answered a renewal: their entries expire or are renewed the next time.
    pub(super) fn on_renewal_due(&mut self, now: Time, id: u32) {
        let Some(renewing) = self.renewals.get_mut(&id) else { return };
        let (since, silent) = (renewing.since, core::mem::take(&mut renewing.waiting));
        for node in silent {
            if !self.members.heard_since(node, since) {
                self.suspect(now, node);
            }
        }
        self.end_renewal_if_answered(id);
    }

    fn end_renewal_if_answered(&mut self, id: u32) {
        if self.renewals.get(&id).is_none_or(|renewing| !renewing.waiting.is_empty()) {
            return;
        }
        let Some(Renewing { client, request, missing, .. }) = self.renewals.remove(&id) else { return };
        self.timers.stop(&Timer::Renewal(id));
        let route = self.clients.get(&client).map_or(Fid::NONE, |(route, _)| *route);
        let renewed = Message::Renewed(Renewed { request, missing: missing.into_iter().collect() });
        self.messages.push_back((Target::Reply(client, route), renewed));
    }
}
