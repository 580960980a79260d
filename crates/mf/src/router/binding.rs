//! The next step of a chunk: a device attached here, the chunk's addresses, or its name's current addresses (late
//! binding).
use alloc::{collections::BTreeMap, vec::Vec};

use tributary_core::{Duration, FaceId, Time};

use super::{
    Router, StoreReason, WINDOW_FULL,
    link_state::{Route, Topology},
};
use crate::{
    ids::{Guid, NetworkAddress, ServiceId, WEIGHT_MAX, Weighted, weighted},
    link::Backlog,
    wire::{ChunkHeader, ChunkKind, Readers, Roles},
};

/// Maximum remembered bindings.
const BINDINGS_MAX: usize = 65_536;
/// How long chunks with older addresses are assumed to be in transit to a device that has moved.
const MOVE_LIFETIME: Duration = Duration::from_secs(2);

/// Assumed nanoseconds per packet without a measurement: 120 Mbit/s.
const UNKNOWN_PACE: u64 = 100_000;

/// How far one address of a name may lag behind another in sent bytes, relative to their weights.
const SPLIT_LAG: u64 = 64 << 20;

/// The treatment of a chunk.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Way {
    /// It is for this node.
    Local,
    /// Through this face to this address (none: to the device attached there).
    Face(FaceId, NetworkAddress),
    /// Its name must be looked up.
    Resolve,
    /// It cannot be forwarded, and may be stored.
    Store(StoreReason),
    /// A host that is attached nowhere waits.
    Wait,
    /// It is dropped.
    Drop(&'static str),
}

/// Leaves only the chosen address, where the paths diverge.
pub fn narrow(header: &mut ChunkHeader, address: NetworkAddress) {
    if !address.is_none() {
        header.addresses.clear();
        header.addresses.push(address);
    }
}

/// The bindings of the names that this node has looked up.
#[derive(Debug, Default)]
pub struct Bindings {
    known: BTreeMap<Guid, Bound>,
    /// Until when it is news.
    moved: BTreeMap<Guid, Time>,
}

#[derive(Debug, Default)]
struct Bound {
    addresses: Vec<NetworkAddress>,
    /// The weight of each of them.
    weights: Vec<u8>,
    /// Bytes sent to each of them where their paths diverge here, scaled by weight: a heavier address counts fewer.
    sent: Vec<u64>,
    /// The devices for which it is valid.
    readers: Readers,
    /// The version of the record that contains it; `None` if none was found.
    version: Option<u64>,
    until: Time,
}

impl Bindings {
    /// Whether a record of this version about a name, or (`None`) its absence, is at least as new as the known state: a
    /// later answer may overtake an earlier one.
    pub(super) fn accepts(&self, now: Time, guid: &Guid, version: Option<u64>) -> bool {
        self.known.get(guid).filter(|bound| bound.until > now).is_none_or(|bound| bound.version <= version)
    }
    pub(super) fn insert(&mut self, now: Time, guid: Guid, binding: Binding) {
        if self.known.len() < BINDINGS_MAX || self.known.contains_key(&guid) {
            let Binding { addresses, readers, lifetime, version } = binding;
            let bound = self.known.entry(guid).or_default();
            (bound.until, bound.readers, bound.version) = (now + lifetime, readers, version);
            let (addresses, weights): (Vec<_>, Vec<_>) = addresses.into_iter().unzip();
            if (&bound.addresses, &bound.weights) != (&addresses, &weights) {
                bound.sent = addresses.iter().map(|_| 0).collect();
                (bound.addresses, bound.weights) = (addresses, weights);
            }
        }
    }
    /// Whether the last known binding of a name has other addresses.
    pub(super) fn differs(&self, guid: &Guid, addresses: &[Weighted]) -> bool {
        let known = self.known.get(guid).map_or(&[][..], |bound| &bound.addresses);
        !known.iter().eq(addresses.iter().map(|(address, _)| address))
    }
    /// The weight of one of a name's addresses; the maximum if unknown.
    fn weight(&self, now: Time, guid: &Guid, address: NetworkAddress) -> u8 {
        let bound = self.known.get(guid).filter(|bound| bound.until > now);
        let at = bound.and_then(|bound| Some((bound, bound.addresses.iter().position(|known| *known == address)?)));
        at.map_or(WEIGHT_MAX, |(bound, at)| bound.weights[at])
    }
    /// Bytes sent to one of a name's addresses, scaled by its weight; `None` if that is unknown or all weights are
    /// equal.
    fn sent(&self, now: Time, guid: &Guid, address: NetworkAddress) -> Option<u64> {
        let bound = self.known.get(guid).filter(|bound| bound.until > now)?;
        let differ = bound.weights.windows(2).any(|pair| pair[0] != pair[1]);
        let at = bound.addresses.iter().position(|known| *known == address)?;
        differ.then(|| bound.sent[at])
    }
    /// A chunk of this many bytes was sent to one of a name's addresses.
    pub(super) fn on_split(&mut self, guid: &Guid, address: NetworkAddress, bytes: u32) {
        let Some(bound) = self.known.get_mut(guid) else { return };
        let Some(at) = bound.addresses.iter().position(|known| *known == address) else { return };
        bound.sent[at] += weighted(u64::from(bytes), bound.weights[at]);
        // Who took nothing for a while has not saved it up.
        let least = bound.sent[at].saturating_sub(SPLIT_LAG);
        bound.sent.iter_mut().for_each(|sent| *sent = (*sent).max(least));
    }
    /// The binding has just changed: it takes precedence over the addresses of chunks in transit.
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
        self.known.get(guid).filter(|bound| bound.until > now).map(|bound| &bound.addresses[..])
    }
    /// Whether a name may be bound for a source, as far as known.
    fn serves(&self, now: Time, guid: &Guid, source: &Guid) -> bool {
        let bound = self.known.get(guid).filter(|bound| bound.until > now);
        bound.is_none_or(|bound| bound.readers.contain(source) || source == guid)
    }
    pub(super) fn expire(&mut self, now: Time) {
        self.known.retain(|_, bound| bound.until > now);
        self.moved.retain(|_, until| *until > now);
    }
}

/// What a name is bound to.
#[derive(Clone, PartialEq, Debug)]
pub struct Binding {
    /// Addresses with weights, best first; none for nowhere.
    pub addresses: Vec<Weighted>,
    /// The devices for which it is valid, besides its owner's and routers.
    pub readers: Readers,
    /// How long it holds.
    pub lifetime: Duration,
    /// The version of the record that contains it; `None` if none was found.
    pub version: Option<u64>,
}

impl Router {
    /// Where a chunk would go now.
    pub(super) fn way(&self, now: Time, header: &ChunkHeader) -> Way {
        self.way_unless_worse(now, header, self.config.store_ratio)
    }
    /// The same; a path counts as bad if it is worse than usual by this factor.
    pub(super) fn way_unless_worse(&self, now: Time, header: &ChunkHeader, store_ratio: f64) -> Way {
        let own = self.config.address;
        let here = own.is_some_and(|own| header.addresses.contains(&own));
        if header.destination == self.config.guid || (header.destination.is_none() && here) {
            return Way::Local;
        }
        if let Some(face) = self.attached.get(&header.destination).filter(|_| !header.destination.is_none()) {
            return match self.is_hidden_here(now, header) {
                true => Way::Store(StoreReason::Away),
                false => Way::Face(*face, NetworkAddress::NONE),
            };
        }
        if header.kind == ChunkKind::LinkState {
            return Way::Drop("link state of another link");
        }
        let Some(topology) = &self.topology else { return self.entered_by_host(header) };
        // Skips addresses of this router, which are outdated.
        let elsewhere = |addresses: &[NetworkAddress]| -> Vec<NetworkAddress> {
            addresses.iter().filter(|address| Some(**address) != own).copied().collect()
        };
        let mut addresses = elsewhere(&header.addresses);
        if header.destination.is_none() && addresses.is_empty() {
            return Way::Drop("no destination");
        }
        let old = |bound: &&[NetworkAddress]| !addresses.iter().any(|address| bound.contains(address));
        let serves = self.serves(now, header);
        if let Some(bound) = self.bindings.news(now, &header.destination).filter(old)
            && !header.destination.is_none()
            && serves
        {
            addresses = elsewhere(bound);
        }
        let unknown = addresses.iter().all(|address| topology.route(*address).is_none());
        if !header.destination.is_none() && (here || unknown) {
            match self.bindings.look(now, &header.destination) {
                None => return Way::Resolve,
                // The name does not exist for this source.
                Some(bound) if !serves || elsewhere(bound).is_empty() => return Way::Store(StoreReason::Away),
                Some(bound) => addresses = elsewhere(bound),
            }
        }
        self.by_address(now, topology, header, &addresses, store_ratio)
    }
    /// Whether the destination of a chunk does not exist for its source, which is not among its readers.
    pub fn is_hidden(&self, now: Time, header: &ChunkHeader) -> bool {
        match self.attached.contains_key(&header.destination) {
            true => self.is_hidden_here(now, header),
            false => !self.serves(now, header),
        }
    }
    /// Whether the destination of a chunk may be bound for its source. Routers' own messages to hosts reach every host.
    fn serves(&self, now: Time, header: &ChunkHeader) -> bool {
        self.bindings.serves(now, &header.destination, &header.source) || self.is_router(&header.source)
    }
    fn is_router(&self, guid: &Guid) -> bool {
        let knows = |topology: &Topology| topology.reachable().any(|(state, _)| state.guid == *guid);
        *guid == self.config.guid || self.topology.as_ref().is_some_and(knows)
    }
    /// Whether an attached host's chunk without an address is for another attached host whose readers exclude it.
    fn is_hidden_here(&self, now: Time, header: &ChunkHeader) -> bool {
        let may = self.rules.get(&header.destination).is_none_or(|rule| rule.contain(&header.source));
        let is_from_here = header.addresses.is_empty() && self.attached.contains_key(&header.source);
        is_from_here && !(may && self.serves(now, header))
    }
    /// A host leaves the path to its access routers, and takes the one with the shortest queue.
    fn entered_by_host(&self, header: &ChunkHeader) -> Way {
        let routers = self.peers().filter(|(_, peer)| peer.roles.contains(Roles::ROUTER));
        match routers
            .min_by_key(|(face, _)| (self.suspects.contains(face), self.load(*face, &header.destination), *face))
        {
            Some((face, _)) => Way::Face(face, NetworkAddress::NONE),
            None => Way::Wait,
        }
    }
    fn by_address(
        &self,
        now: Time,
        topology: &Topology,
        header: &ChunkHeader,
        addresses: &[NetworkAddress],
        store_ratio: f64,
    ) -> Way {
        let routes = addresses.iter().filter_map(|address| Some((*address, topology.route(*address)?)));
        let routes: Vec<_> = routes.collect();
        let far = |address: NetworkAddress, short_us| {
            weighted(short_us, self.bindings.weight(now, &header.destination, address))
        };
        let Some(nearest) = routes.iter().min_by_key(|(address, route)| far(*address, route.short_us)) else {
            return Way::Store(StoreReason::NoRoute);
        };
        let parts = routes.iter().any(|(_, route)| route.face != nearest.1.face);
        let (address, route) = match header.service {
            ServiceId::Multihoming if parts => self.split(now, header, &routes).unwrap_or(*nearest),
            // While the paths are common, all addresses stay.
            ServiceId::Multihoming if routes.len() > 1 => (NetworkAddress::NONE, nearest.1),
            // A copy keeps all addresses that it is for.
            ServiceId::Multicast => (NetworkAddress::NONE, nearest.1),
            _ => *nearest,
        };
        if header.is_control() {
            return Way::Face(route.face, address);
        }
        if self.diverted.contains_key(&header.destination) && topology.is_depleted(address) {
            return Way::Store(StoreReason::Depleted);
        }
        if self.config.stores && route.is_bad(store_ratio) {
            return Way::Store(StoreReason::BadPath);
        }
        Way::Face(route.face, address)
    }
    /// Where the paths to a device's addresses diverge, chunks are distributed by the addresses' weights as far as all
    /// paths keep up. Otherwise, or with equal weights, a chunk takes the path on which it arrives first: chunks then
    /// arrive nearly in order, and no access idles while chunks remain. A slow access with more queued chunks would
    /// block the whole transfer's window.
    fn split<'b>(
        &self,
        now: Time,
        header: &ChunkHeader,
        routes: &[(NetworkAddress, &'b Route)],
    ) -> Option<(NetworkAddress, &'b Route)> {
        let sent = |address: NetworkAddress| self.bindings.sent(now, &header.destination, address);
        let weight = |address: NetworkAddress| self.bindings.weight(now, &header.destination, address);
        let waiting = |route: &Route| self.waiting(now, route.face, &header.destination);
        let packets = self.packets_of(header);
        let due = routes.iter().min_by_key(|(address, route)| (sent(*address), route.short_us))?;
        let by_weight = routes.iter().all(|(address, _)| sent(*address).is_some());
        if by_weight && waiting(due.1).packets <= packets {
            return Some(*due);
        }
        let ways: Vec<Carrier> = routes
            .iter()
            .map(|(address, route)| Carrier { waiting: waiting(route), weight: weight(*address) })
            .collect();
        let unit = Carrier::unit(&ways);
        let (at, _) = routes.iter().enumerate().min_by_key(|(at, (_, route))| {
            (ways[*at].ready_after(packets, unit).saturating_add(route.short_us * 1_000), route.short_us)
        })?;
        Some(routes[at])
    }
    /// Packets that wait for a face, and behind the neighbour for a destination as its window shows.
    fn load(&self, face: FaceId, destination: &Guid) -> u32 {
        let Some(hop) = self.hops.get(&face) else { return u32::MAX };
        let windows = &hop.outgoing.windows;
        hop.queued + WINDOW_FULL - windows.link_room().min(windows.destination_room(destination)).min(WINDOW_FULL)
    }
    /// The queue of a face and behind it on the way to a destination.
    fn waiting(&self, now: Time, face: FaceId, destination: &Guid) -> Backlog {
        let Some(hop) = self.hops.get(&face) else { return Backlog::default() };
        let there = hop.outgoing.windows.backlog(now, destination);
        Backlog { packets: hop.queued + there.packets, ..there }
    }
}

/// One of several paths to a destination, as a carrier of its chunks.
struct Carrier {
    waiting: Backlog,
    weight: u8,
}

impl Carrier {
    /// Nanoseconds per packet on a path of maximum weight, measured over all paths; a default without measurements.
    fn unit(ways: &[Carrier]) -> u64 {
        let units =
            ways.iter().filter_map(|way| Some(way.waiting.pace? * u64::from(way.weight) / u64::from(WEIGHT_MAX)));
        let (sum, count) = units.fold((0, 0), |(sum, count), unit| (sum + unit, count + 1));
        u64::checked_div(sum, count).unwrap_or(UNKNOWN_PACE)
    }
    /// Nanoseconds until this many more packets have left behind the queue.
    fn ready_after(&self, packets: u32, unit: u64) -> u64 {
        let pace = match self.waiting.pace {
            Some(pace) => pace,
            // Whatever its weight promises: one that has nothing to do is tried.
            None if self.waiting.packets == 0 => 0,
            None => weighted(unit, self.weight),
        };
        (u64::from(self.waiting.packets) + u64::from(packets)).saturating_mul(pace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_name_in_any_order_is_what_was_said_last() {
        let (now, name) = (Time::from_millis(1), Guid([1; 20]));
        let orders = [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]];
        for order in orders {
            let mut bindings = Bindings::default();
            for version in order.into_iter().chain(order).map(Some).chain([None]) {
                let addresses = version.map(|version| (NetworkAddress(version), 255)).into_iter().collect();
                let version = version.map(u64::from);
                if bindings.accepts(now, &name, version) {
                    let lifetime = Duration::from_secs(9);
                    bindings.insert(now, name, Binding { addresses, readers: Readers::All, lifetime, version });
                }
            }
            assert_eq!(bindings.look(now, &name), Some(&[NetworkAddress(3)][..]), "{order:?}");
        }
        let mut bindings = Bindings::default();
        assert!(bindings.accepts(now, &name, None), "nothing is known");
        let lifetime = Duration::from_secs(9);
        bindings.insert(
            now,
            name,
            Binding { addresses: Vec::new(), readers: Readers::All, lifetime, version: Some(5) },
        );
        assert!(bindings.accepts(now + lifetime, &name, Some(4)), "what is over does not count");
    }

    #[test]
    fn weights_are_kept_with_addresses_and_whoever_took_nothing_has_not_saved_it_up() {
        let (now, host) = (Time::from_millis(1), Guid([1; 20]));
        let [a, b] = [NetworkAddress(1), NetworkAddress(2)];
        let mut bindings = Bindings::default();
        let lifetime = Duration::from_secs(9);
        let readers = || Readers::All;
        let binding = |addresses: &[Weighted]| Binding {
            addresses: addresses.into(),
            readers: readers(),
            lifetime,
            version: Some(1),
        };
        bindings.insert(now, host, binding(&[(a, 200), (b, 200)]));
        assert_eq!(bindings.sent(now, &host, a), None, "all weigh the same");
        bindings.insert(now, host, binding(&[(a, 255), (b, 85)]));
        assert_eq!([a, b, NetworkAddress(3)].map(|address| bindings.weight(now, &host, address)), [255, 85, 255]);
        let mut taken = [0; 2];
        for _ in 0..400 {
            let due = if bindings.sent(now, &host, a) <= bindings.sent(now, &host, b) { a } else { b };
            taken[usize::from(due == b)] += 1;
            bindings.on_split(&host, due, 1 << 20);
            // An unchanged binding keeps its counters.
            bindings.insert(now, host, binding(&[(a, 255), (b, 85)]));
        }
        assert_eq!(taken, [300, 100]);
        (0..10_000).for_each(|_| bindings.on_split(&host, a, 1 << 20));
        let [a, b] = [a, b].map(|address| bindings.sent(now, &host, address).unwrap());
        assert_eq!(a - b, SPLIT_LAG);
        assert_eq!(bindings.sent(now + lifetime, &host, NetworkAddress(1)), None, "it is over");
    }
}
