//! Where a chunk goes: attached here, by the addresses that it has, or by those that its name has now (late binding).
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use tributary_core::{Duration, FaceId, Time};

use super::{RouterConfig, StoreReason, link_state::Topology, neighbour::Peer};
use crate::{
    ids::{Guid, NetworkAddress, ServiceId},
    wire::{ChunkHeader, ChunkKind, Roles},
};

/// Names whose bindings are remembered at most.
const BINDINGS_MAX: usize = 65_536;
/// How long chunks with older addresses are taken to be on their way to a device that has moved.
const MOVE_LIFETIME: Duration = Duration::from_secs(2);

/// What is to be done with a chunk.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Way {
    /// It is for this node.
    Local,
    /// By this face, to this address (none: to who is attached there).
    Face(FaceId, NetworkAddress),
    /// Its name has to be looked up.
    Resolve,
    /// It cannot go on, and may be stored.
    Store(StoreReason),
    /// A host that is attached nowhere waits.
    Wait,
    /// It goes nowhere.
    Drop(&'static str),
}

/// Leaves only the address that was chosen, where the ways part.
pub fn narrow(header: &mut ChunkHeader, address: NetworkAddress) {
    if !address.is_none() {
        header.addresses.clear();
        header.addresses.push(address);
    }
}

/// What names are bound to, as far as this node has asked.
#[derive(Debug, Default)]
pub struct Bindings {
    known: BTreeMap<Guid, (Vec<NetworkAddress>, Time)>,
    /// Until when it is news.
    moved: BTreeMap<Guid, Time>,
}

impl Bindings {
    pub(super) fn insert(&mut self, now: Time, guid: Guid, addresses: Vec<NetworkAddress>, lifetime: Duration) {
        if self.known.len() < BINDINGS_MAX || self.known.contains_key(&guid) {
            self.known.insert(guid, (addresses, now + lifetime));
        }
    }
    /// Whether a name was bound to other addresses when it was last heard of.
    pub(super) fn differs(&self, guid: &Guid, addresses: &[NetworkAddress]) -> bool {
        self.known.get(guid).map_or(&[][..], |(known, _)| known) != addresses
    }
    /// The binding has just changed: it counts more than the addresses that chunks on their way have.
    pub(super) fn on_moved(&mut self, now: Time, guid: Guid) {
        if self.known.contains_key(&guid) {
            self.moved.insert(guid, now + MOVE_LIFETIME);
        }
    }
    /// Where a device has moved to, if that is news.
    fn news(&self, now: Time, guid: &Guid) -> Option<&[NetworkAddress]> {
        self.moved.get(guid).filter(|until| **until > now)?;
        self.look(now, guid)
    }
    pub(super) fn look(&self, now: Time, guid: &Guid) -> Option<&[NetworkAddress]> {
        self.known.get(guid).filter(|(_, until)| *until > now).map(|(addresses, _)| &addresses[..])
    }
    pub(super) fn expire(&mut self, now: Time) {
        self.known.retain(|_, (_, until)| *until > now);
        self.moved.retain(|_, until| *until > now);
    }
}

/// Everything that the choice depends on.
pub(super) struct Chooser<'a> {
    pub(super) now: Time,
    pub(super) store_ratio: f64,
    pub(super) config: &'a RouterConfig,
    pub(super) topology: Option<&'a Topology>,
    pub(super) attached: &'a BTreeMap<Guid, FaceId>,
    pub(super) bindings: &'a Bindings,
    pub(super) diverted: &'a BTreeMap<Guid, Time>,
    /// Faces whose neighbours may be gone.
    pub(super) suspects: &'a BTreeSet<FaceId>,
    /// Packets that wait for a face.
    pub(super) load: &'a dyn Fn(FaceId) -> u32,
    pub(super) peers: &'a dyn Fn() -> Vec<(FaceId, &'a Peer)>,
}

impl Chooser<'_> {
    pub(super) fn way(&self, header: &ChunkHeader) -> Way {
        let own = self.config.address;
        let here = own.is_some_and(|own| header.addresses.contains(&own));
        if header.destination == self.config.guid || (header.destination.is_none() && here) {
            return Way::Local;
        }
        if let Some(face) = self.attached.get(&header.destination).filter(|_| !header.destination.is_none()) {
            return Way::Face(*face, NetworkAddress::NONE);
        }
        if header.kind == ChunkKind::LinkState {
            return Way::Drop("link state of another link");
        }
        let Some(topology) = self.topology else { return self.entered_by_host() };
        // An address that is this router's own and does not hold any more is passed over.
        let elsewhere = |addresses: &[NetworkAddress]| -> Vec<NetworkAddress> {
            addresses.iter().filter(|address| Some(**address) != own).copied().collect()
        };
        let mut addresses = elsewhere(&header.addresses);
        if header.destination.is_none() && addresses.is_empty() {
            return Way::Drop("no destination");
        }
        let old = |bound: &&[NetworkAddress]| !addresses.iter().any(|address| bound.contains(address));
        if let Some(bound) = self.bindings.news(self.now, &header.destination).filter(old)
            && !header.destination.is_none()
        {
            addresses = elsewhere(bound);
        }
        let unknown = addresses.iter().all(|address| topology.route(*address).is_none());
        if !header.destination.is_none() && (here || unknown) {
            match self.bindings.look(self.now, &header.destination) {
                None => return Way::Resolve,
                Some(bound) if elsewhere(bound).is_empty() => return Way::Store(StoreReason::Away),
                Some(bound) => addresses = elsewhere(bound),
            }
        }
        self.by_address(topology, header, &addresses)
    }
    /// A host leaves the way to its access routers, and takes the one with the least to do.
    fn entered_by_host(&self) -> Way {
        let routers = (self.peers)().into_iter().filter(|(_, peer)| peer.roles.contains(Roles::ROUTER));
        match routers.min_by_key(|(face, _)| (self.suspects.contains(face), (self.load)(*face), *face)) {
            Some((face, _)) => Way::Face(face, NetworkAddress::NONE),
            None => Way::Wait,
        }
    }
    fn by_address(&self, topology: &Topology, header: &ChunkHeader, addresses: &[NetworkAddress]) -> Way {
        let routes = addresses.iter().filter_map(|address| Some((*address, topology.route(*address)?)));
        let routes: Vec<_> = routes.collect();
        let Some(nearest) = routes.iter().min_by_key(|(_, route)| route.short_us) else {
            return Way::Store(StoreReason::NoRoute);
        };
        let parts = routes.iter().any(|(_, route)| route.face != nearest.1.face);
        let (address, route) = match header.service {
            // The ways part here: chunks are spread by what waits for each way, and by distance where nothing does.
            ServiceId::Multihoming if parts => {
                let least = routes.iter().min_by_key(|(_, route)| ((self.load)(route.face), route.short_us));
                *least.unwrap_or(nearest)
            }
            // As long as the ways are one, all addresses stay.
            ServiceId::Multihoming if routes.len() > 1 => (NetworkAddress::NONE, nearest.1),
            // A copy keeps all addresses that it is for.
            ServiceId::Multicast => (NetworkAddress::NONE, nearest.1),
            _ => *nearest,
        };
        if header.is_control() {
            return Way::Face(route.face, address);
        }
        if self.diverted.contains_key(&header.destination)
            && topology.is_depleted(address, self.config.depleted_percent)
        {
            return Way::Store(StoreReason::Depleted);
        }
        if self.config.stores && route.is_bad(self.store_ratio) {
            return Way::Store(StoreReason::BadPath);
        }
        Way::Face(route.face, address)
    }
}
