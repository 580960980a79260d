//! Link-state routing (reference/mobilityfirst): every router knows all links with their short-term and long-term cost,
//! and the state of all storage; routes are shortest by SETT.
use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    string::String,
    vec::Vec,
};

use tributary_core::{Duration, FaceId, Time};

use crate::{
    ids::{Guid, NetworkAddress},
    wire::{Adjacency, LinkState, Roles},
};

/// How often a router repeats its whole state.
const REFRESH: Duration = Duration::from_secs(10);
/// How long the link state of a silent router remains valid.
pub(super) const LIFETIME: Duration = Duration::from_secs(35);
/// Default maximum of known routers.
pub const ROUTERS_MAX: usize = 1_024;
/// Why the link state of one more is dropped.
pub(crate) const TOO_MANY_ROUTERS: &str = "link state of more routers than routers_max";
/// How long changes are collected before the link state is sent.
const DEBOUNCE: Duration = Duration::from_millis(10);
/// Interval of checks for changes of cost alone.
const COST_INTERVAL: Duration = Duration::from_secs(1);
/// The factor on the cost of paths through routers with depleted storage: upstream routes around them.
const DEPLETED_FACTOR: u64 = 4;
/// Without an explicit limit, a router with less free storage than this percentage counts as depleted.
pub const DEPLETED_PERCENT: u8 = 5;

/// The path to a router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The face to leave by.
    pub face: FaceId,
    /// Expected time for one packet now, in microseconds (path SETT).
    pub short_us: u64,
    /// The same in the long run (path LETT).
    pub long_us: u64,
    /// Links on it.
    pub hops: u32,
}

impl Route {
    /// Whether the path is so much worse than usual that waiting is better (GSTAR: store).
    ///
    /// Differences below 2 ms are noise of the probes.
    pub fn is_bad(&self, ratio: f64) -> bool {
        self.short_us as f64 > self.long_us as f64 * ratio && self.short_us - self.long_us > 2_000
    }
}

/// A router's view of the network.
#[derive(Debug, Default)]
pub struct Topology {
    own: LinkState,
    /// The face that each neighbour is reached by.
    faces: BTreeMap<NetworkAddress, FaceId>,
    states: BTreeMap<NetworkAddress, (LinkState, Time)>,
    routes: BTreeMap<NetworkAddress, Route>,
    outbox: VecDeque<(FaceId, LinkState)>,
    /// What the router at each face claims; one router may be at several faces.
    claims: BTreeMap<FaceId, Claim>,
    /// Whether a neighbour counts as a router only when the network vouches for it: a certified router has signed its link state.
    pub vouched_only: bool,
    announce_at: Option<Time>,
    refresh_at: Time,
    cost_at: Time,
    changed: bool,
    /// The percentage of free storage below which a router counts as depleted.
    pub depleted_percent: u8,
    /// Maximum other routers in it.
    pub routers_max: usize,
}

/// A neighbour's word that it is the router of an address.
#[derive(Clone, Copy, Debug)]
struct Claim {
    address: NetworkAddress,
    guid: Guid,
    /// Whether it is accepted: routes use its face.
    is_bound: bool,
}

impl Topology {
    /// A router that knows only itself, with the boot number `boot`.
    pub fn new(router: NetworkAddress, guid: Guid, boot: u64, label: String, roles: Roles) -> Topology {
        let own = LinkState { router, guid, sequence: 1, boot, roles, storage_free: 100, label, links: Vec::new() };
        let (depleted_percent, routers_max) = (DEPLETED_PERCENT, ROUTERS_MAX);
        Topology { own, changed: true, depleted_percent, routers_max, ..Topology::default() }
    }
    /// The number of other known routers.
    pub fn router_count(&self) -> usize {
        self.states.len()
    }
    /// Whether the node with this GUID is certified as a router, or need not be. A router usually has the `address`
    /// that it claims, so that entry is checked first: every chunk asks.
    pub fn vouches_for(&self, guid: &Guid, address: NetworkAddress) -> bool {
        let names = |(state, _): &(LinkState, Time)| state.guid == *guid;
        !self.vouched_only || self.states.get(&address).is_some_and(names) || self.states.values().any(names)
    }
    /// A router answers on a face, and is sent all link states. Routes use the face if the router is certified where
    /// needed, and if no other node has that address.
    pub fn on_up(&mut self, now: Time, face: FaceId, neighbour: NetworkAddress, guid: Guid) {
        self.claims.insert(face, Claim { address: neighbour, guid, is_bound: false });
        self.bind(now, face);
        let known: Vec<LinkState> = self.states.values().map(|(state, _)| state.clone()).collect();
        self.outbox.extend(known.into_iter().map(|state| (face, state)));
        self.outbox.push_back((face, self.own.clone()));
        self.announce_at.get_or_insert(now);
    }
    /// Lets routes use a face if its neighbour's claim is acceptable.
    fn bind(&mut self, now: Time, face: FaceId) {
        let Some(Claim { address, guid, .. }) = self.claims.get(&face).copied() else { return };
        let is_vouched = !self.vouched_only || self.states.get(&address).is_some_and(|(state, _)| state.guid == guid);
        // A present router keeps its address against other claimants.
        let mut others = self.claims.iter().filter(|(at, _)| **at != face);
        let is_taken = others.any(|(_, held)| held.is_bound && held.address == address && held.guid != guid);
        if is_vouched && !is_taken {
            self.claims.entry(face).and_modify(|claim| claim.is_bound = true);
            self.faces.insert(address, face);
            self.announce_at.get_or_insert(now);
        }
    }
    /// Binds the waiting faces whose claim `concerns` the caller.
    fn bind_waiting(&mut self, now: Time, concerns: impl Fn(&Claim) -> bool) {
        let waiting = self.claims.iter().filter(|(_, claim)| !claim.is_bound && concerns(claim));
        waiting.map(|(face, _)| *face).collect::<Vec<_>>().into_iter().for_each(|face| self.bind(now, face));
    }
    /// The router no longer answers.
    pub fn on_down(&mut self, now: Time, face: FaceId) {
        let Some(Claim { address, is_bound: true, .. }) = self.claims.remove(&face) else { return };
        // Another claimant of the address may now have it.
        self.bind_waiting(now, |claim| claim.address == address);
        if self.faces.get(&address) == Some(&face) {
            // It may be at another face as well.
            match self.claims.iter().find(|(_, other)| other.is_bound && other.address == address) {
                Some((other, _)) => drop(self.faces.insert(address, *other)),
                None => drop(self.faces.remove(&address)),
            }
        }
        self.announce_at.get_or_insert(now);
    }
    /// How much of this router's storage is free.
    pub fn set_storage_free(&mut self, now: Time, percent: u8) {
        let known = self.own.storage_free;
        let is_low = |percent: u8| percent < self.depleted_percent;
        let crosses = (percent == 0) != (known == 0) || is_low(percent) != is_low(known);
        if known.abs_diff(percent) >= 5 || crosses {
            self.own.storage_free = percent;
            self.announce_at.get_or_insert(now + DEBOUNCE);
        }
    }
    /// Applies a router's link state, and floods it if it is new; `false` if the limit of routers is reached.
    pub fn handle_state(&mut self, now: Time, from: FaceId, state: LinkState) -> bool {
        if state.router == self.own.router {
            // The last own state returns where routers form a ring; any other one is from an earlier run.
            let is_echo = state.sequence == self.own.sequence && !differs(&state, &self.own);
            // Sequence numbers wrap around (RFC 1982), so that there is always a newer one than any forged number.
            if state.guid == self.own.guid && !is_newer(self.own.sequence, state.sequence) && !is_echo {
                self.own.sequence = state.sequence;
                self.announce_at.get_or_insert(now);
            }
            return true;
        }
        let known = self.states.get(&state.router);
        if known.is_none() && self.states.len() >= self.routers_max {
            return false;
        }
        if known.is_some_and(|(known, _)| !is_newer(state.sequence, known.sequence)) {
            return true;
        }
        self.changed |= known.is_none_or(|(known, _)| differs(known, &state));
        let routers = self.claims.iter().filter(|(face, claim)| claim.is_bound && **face != from);
        self.outbox.extend(routers.map(|(face, _)| (*face, state.clone())));
        let (router, guid) = (state.router, state.guid);
        self.states.insert(router, (state, now));
        self.bind_waiting(now, |claim| (claim.address, claim.guid) == (router, guid));
        true
    }
    /// Runs the timers that are due; `cost` returns SETT and LETT of a face.
    pub fn handle_timeout(&mut self, now: Time, cost: impl Fn(FaceId) -> (u32, u32)) {
        if self.cost_at <= now {
            self.cost_at = now + COST_INTERVAL;
            let far = |old: u32, new: u32| old.abs_diff(new) > (old / 20).max(500);
            let moved = self.own.links.iter().any(|link| {
                let Some(face) = self.faces.get(&link.neighbour) else { return true };
                let (short_us, long_us) = cost(*face);
                far(link.short_us, short_us) || far(link.long_us, long_us)
            });
            if moved {
                self.announce_at.get_or_insert(now);
            }
            let before = self.states.len();
            self.states.retain(|_, (_, heard)| now.since(*heard) < LIFETIME);
            self.changed |= self.states.len() != before;
        }
        if self.announce_at.is_some_and(|at| at <= now) || self.refresh_at <= now {
            self.announce_at = None;
            self.refresh_at = now + REFRESH;
            self.own.sequence = self.own.sequence.wrapping_add(1);
            let links = self.faces.iter().take(crate::wire::routing::ADJACENCIES_MAX).map(|(neighbour, face)| {
                let (short_us, long_us) = cost(*face);
                Adjacency { neighbour: *neighbour, short_us, long_us }
            });
            self.own.links = links.collect();
            self.changed = true;
            // Uncertified neighbours need this as well.
            self.outbox.extend(self.claims.keys().map(|face| (*face, self.own.clone())));
        }
    }
    /// A message to send to a router.
    pub fn poll_message(&mut self) -> Option<(FaceId, LinkState)> {
        self.outbox.pop_front()
    }
    /// When to call [`Topology::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        [self.announce_at, Some(self.refresh_at), Some(self.cost_at)].into_iter().flatten().min()
    }
    /// Recomputes the routes if anything has changed since the last call; true if so.
    pub fn update(&mut self) -> bool {
        if !core::mem::take(&mut self.changed) {
            return false;
        }
        self.routes = self.shortest();
        true
    }
    /// The path to a router.
    pub fn route(&self, to: NetworkAddress) -> Option<&Route> {
        self.routes.get(&to)
    }
    /// All routers that can be reached, this one included, with their distance (path SETT).
    pub fn reachable(&self) -> impl Iterator<Item = (&LinkState, u64)> {
        let all_known = self.states.values().map(|(state, _)| state);
        let all_known = all_known.filter_map(|state| Some((state, self.routes.get(&state.router)?.short_us)));
        [(&self.own, 0)].into_iter().chain(all_known)
    }
    /// A router's link state.
    pub fn state(&self, router: NetworkAddress) -> Option<&LinkState> {
        if router == self.own.router { Some(&self.own) } else { self.states.get(&router).map(|(state, _)| state) }
    }
    /// Whether the storage of a router is (nearly) used up.
    pub fn is_depleted(&self, router: NetworkAddress) -> bool {
        let is_low = |state: &LinkState| state.storage_free < self.depleted_percent;
        self.state(router).is_some_and(|state| state.roles.contains(Roles::PROXY) && is_low(state))
    }

    /// Dijkstra by SETT over links that both ends report.
    fn shortest(&self) -> BTreeMap<NetworkAddress, Route> {
        let mut found: BTreeMap<NetworkAddress, Route> = BTreeMap::new();
        let mut open: BTreeSet<(u64, NetworkAddress)> = BTreeSet::new();
        let mut best: BTreeMap<NetworkAddress, (u64, Route)> = BTreeMap::new();
        for link in &self.own.links {
            let Some(face) =
                self.faces.get(&link.neighbour).filter(|_| self.is_mutual(self.own.router, link.neighbour))
            else {
                continue;
            };
            let (short, long) = (u64::from(link.short_us), u64::from(link.long_us));
            let route = Route { face: *face, short_us: short, long_us: long, hops: 1 };
            best.insert(link.neighbour, (short, route));
            open.insert((short, link.neighbour));
        }
        while let Some((weight, at)) = open.pop_first() {
            let Some((_, route)) = best.get(&at).copied().filter(|(known, _)| *known == weight) else { continue };
            if found.contains_key(&at) {
                continue;
            }
            found.insert(at, route);
            let Some((state, _)) = self.states.get(&at) else { continue };
            let factor = if self.is_depleted(at) { DEPLETED_FACTOR } else { 1 };
            for link in state.links.iter().filter(|link| self.is_mutual(at, link.neighbour)) {
                if link.neighbour == self.own.router || found.contains_key(&link.neighbour) {
                    continue;
                }
                let further = weight + u64::from(link.short_us) * factor;
                if best.get(&link.neighbour).is_none_or(|(known, _)| further < *known) {
                    let route = Route {
                        face: route.face,
                        short_us: route.short_us + u64::from(link.short_us),
                        long_us: route.long_us + u64::from(link.long_us),
                        hops: route.hops + 1,
                    };
                    best.insert(link.neighbour, (further, route));
                    open.insert((further, link.neighbour));
                }
            }
        }
        found
    }
    fn is_mutual(&self, from: NetworkAddress, to: NetworkAddress) -> bool {
        self.state(to).is_some_and(|state| state.links.iter().any(|link| link.neighbour == from))
    }
}

/// Whether a sequence number comes after another one, by less than half of the number space.
pub(super) fn is_newer(number: u64, than: u64) -> bool {
    (1..1 << 63).contains(&number.wrapping_sub(than))
}
fn differs(a: &LinkState, b: &LinkState) -> bool {
    (&a.links, a.roles, a.storage_free, a.guid, a.boot) != (&b.links, b.roles, b.storage_free, b.guid, b.boot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use proptest::prelude::*;

    const N: usize = 7;

    #[test]
    fn of_more_routers_than_may_be_known_the_last_is_refused_until_another_is_gone() {
        let mut topology = Topology::new(NetworkAddress(1), Guid([1; 20]), 1, "r".into(), Roles::ROUTER);
        topology.routers_max = 2;
        let state = |router: u32, sequence| LinkState {
            router: NetworkAddress(router),
            guid: Guid([router as u8; 20]),
            sequence,
            boot: 1,
            roles: Roles::ROUTER,
            storage_free: 100,
            label: format!("r{router}"),
            links: Vec::new(),
        };
        assert!(topology.handle_state(Time::ZERO, FaceId(1), state(2, 1)));
        assert!(topology.handle_state(Time::ZERO, FaceId(1), state(3, 1)));
        assert!(!topology.handle_state(Time::ZERO, FaceId(1), state(4, 1)));
        assert!(topology.handle_state(Time::ZERO, FaceId(1), state(3, 2)), "those known go on");
        assert_eq!(topology.router_count(), 2);
        let later = Time::ZERO + LIFETIME + Duration::from_secs(1);
        topology.handle_timeout(later, |face| (face.0, face.0));
        assert!(topology.handle_state(later, FaceId(1), state(4, 2)));
    }

    /// Router 0's view of a graph of `N` routers with these costs; zero is no link.
    fn topology(costs: &[[u32; N]; N]) -> Topology {
        let address = |i: usize| NetworkAddress(i as u32 + 1);
        let mut topology = Topology::new(address(0), Guid([1; 20]), 1, "r0".into(), Roles::ROUTER);
        for (j, cost) in costs[0].iter().enumerate().filter(|(_, cost)| **cost > 0) {
            topology.on_up(Time::ZERO, FaceId(*cost), address(j), Guid([j as u8 + 1; 20]));
        }
        for (i, row) in costs.iter().enumerate().skip(1) {
            let links = row.iter().enumerate().filter(|(_, cost)| **cost > 0);
            let links = links.map(|(j, cost)| Adjacency { neighbour: address(j), short_us: *cost, long_us: *cost });
            let state = LinkState {
                router: address(i),
                guid: Guid([i as u8 + 1; 20]),
                sequence: 1,
                boot: 1,
                roles: Roles::ROUTER,
                storage_free: 100,
                label: format!("r{i}"),
                links: links.collect(),
            };
            topology.handle_state(Time::ZERO, FaceId(999), state);
        }
        topology.handle_timeout(Time::ZERO, |face| (face.0, face.0));
        topology.update();
        topology
    }

    #[test]
    fn what_comes_back_around_a_ring_is_not_told_again_and_an_earlier_life_is_outdone() {
        let mut topology = Topology::new(NetworkAddress(1), Guid([1; 20]), 1, "r".into(), Roles::ROUTER);
        topology.on_up(Time::ZERO, FaceId(1), NetworkAddress(2), Guid([2; 20]));
        topology.handle_timeout(Time::ZERO, |_| (100, 100));
        let stated: Vec<LinkState> = core::iter::from_fn(|| topology.poll_message()).map(|(_, state)| state).collect();
        let last = stated.last().expect("it tells its links").clone();
        topology.handle_state(Time::from_millis(1), FaceId(1), last.clone());
        topology.handle_timeout(Time::from_millis(1), |_| (100, 100));
        assert_eq!(topology.poll_message(), None);
        for sequence in [last.sequence, last.sequence + 9] {
            let earlier = LinkState { sequence, storage_free: 7, ..last.clone() };
            topology.handle_state(Time::from_millis(2), FaceId(1), earlier);
            topology.handle_timeout(Time::from_millis(2), |_| (100, 100));
            assert!(topology.poll_message().is_some_and(|(_, state)| state.sequence > sequence));
        }
    }

    /// One forged link state with the highest possible number must not silence the router forever.
    #[test]
    fn a_router_is_heard_again_after_a_forged_state_with_the_highest_number() {
        let state = |sequence, storage_free| LinkState {
            router: NetworkAddress(2),
            guid: Guid([2; 20]),
            sequence,
            boot: 1,
            roles: Roles::ROUTER,
            storage_free,
            label: "r2".into(),
            links: Vec::new(),
        };
        let mut near = Topology::new(NetworkAddress(1), Guid([1; 20]), 1, "r1".into(), Roles::ROUTER);
        let mut own = Topology::new(NetworkAddress(2), Guid([2; 20]), 1, "r2".into(), Roles::ROUTER);
        near.handle_state(Time::ZERO, FaceId(1), state(5, 100));
        for (step, forged) in [u64::MAX >> 1, u64::MAX - 1, u64::MAX, 1 << 62].into_iter().enumerate() {
            let now = Time::from_millis(100 * step as u64);
            near.handle_state(now, FaceId(9), state(forged, 1));
            own.handle_state(now, FaceId(1), state(forged, 1));
            own.on_up(now, FaceId(1), NetworkAddress(1), Guid([1; 20]));
            own.handle_timeout(now, |_| (1, 1));
            let own_state = core::iter::from_fn(|| own.poll_message())
                .filter(|(_, own_state)| own_state.router == NetworkAddress(2))
                .last();
            let (_, own_state) = own_state.expect("it tells its state");
            near.handle_state(now, FaceId(1), own_state);
            assert_eq!(near.state(NetworkAddress(2)).map(|state| state.storage_free), Some(100), "after {forged:#x}");
        }
    }

    #[test]
    fn nobody_takes_the_address_of_a_router_that_is_there() {
        let mut costs = [[0; N]; N];
        (costs[0][1], costs[1][0]) = (5, 5);
        let mut topology = topology(&costs);
        let face = |topology: &mut Topology| {
            topology.handle_timeout(Time::ZERO, |face| (face.0, face.0));
            topology.update();
            topology.route(NetworkAddress(2)).map(|route| route.face)
        };
        topology.on_up(Time::ZERO, FaceId(9), NetworkAddress(2), Guid([66; 20]));
        assert_eq!(face(&mut topology), Some(FaceId(5)));
        topology.on_down(Time::ZERO, FaceId(5));
        assert_eq!(face(&mut topology), Some(FaceId(9)), "another machine may take over an address that is free");
    }

    #[test]
    fn where_routers_are_certified_a_neighbour_is_none_before_it_is_vouched_for() {
        let mut topology = Topology::new(NetworkAddress(1), Guid([1; 20]), 1, "r1".into(), Roles::ROUTER);
        topology.vouched_only = true;
        let guid = Guid([2; 20]);
        topology.on_up(Time::ZERO, FaceId(1), NetworkAddress(2), guid);
        assert!(topology.poll_message().is_some(), "it is told who is here all the same");
        let is_bound = |topology: &Topology| topology.claims.get(&FaceId(1)).is_some_and(|claim| claim.is_bound);
        assert!(!topology.vouches_for(&guid, NetworkAddress(2)) && !is_bound(&topology));
        let links = [1].map(|to| Adjacency { neighbour: NetworkAddress(to), short_us: 1, long_us: 1 }).into();
        let (roles, label) = (Roles::ROUTER, String::new());
        let state =
            LinkState { router: NetworkAddress(2), guid, sequence: 1, boot: 1, roles, storage_free: 100, label, links };
        topology.handle_state(Time::ZERO, FaceId(1), state);
        assert!(topology.vouches_for(&guid, NetworkAddress(2)) && is_bound(&topology));
        assert!(topology.vouches_for(&guid, NetworkAddress(3)), "by its GUID, wherever it says that it is");
        assert!(!topology.vouches_for(&Guid([3; 20]), NetworkAddress(2)));
    }

    proptest! {
        #[test]
        fn routes_are_as_short_as_those_of_floyd_and_warshall(raw: [[u8; N]; N]) {
            let mut costs = [[0u32; N]; N];
            for i in 0..N {
                for j in 0..i {
                    // Half of the links exist; costs are unique so that they identify faces.
                    let cost = if raw[i][j] < 128 { 0 } else { u32::from(raw[i][j]) * 64 + (i * N + j) as u32 };
                    (costs[i][j], costs[j][i]) = (cost, cost);
                }
            }
            let mut distance = [[u64::MAX / 4; N]; N];
            for i in 0..N {
                for j in 0..N {
                    if costs[i][j] > 0 {
                        distance[i][j] = u64::from(costs[i][j]);
                    }
                }
                distance[i][i] = 0;
            }
            for k in 0..N {
                for i in 0..N {
                    for j in 0..N {
                        distance[i][j] = distance[i][j].min(distance[i][k] + distance[k][j]);
                    }
                }
            }
            let topology = topology(&costs);
            for to in 1..N {
                let found = topology.route(NetworkAddress(to as u32 + 1)).map(|route| route.short_us);
                let expected = Some(distance[0][to]).filter(|distance| *distance < u64::MAX / 4);
                prop_assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn what_is_news_is_passed_on_once_and_what_is_old_is_not() {
        let mut costs = [[0; N]; N];
        (costs[0][1], costs[1][0], costs[0][2], costs[2][0]) = (5, 5, 7, 7);
        let mut topology = topology(&costs);
        while topology.poll_message().is_some() {}
        let state = topology.state(NetworkAddress(2)).cloned().expect("it was told");
        topology.handle_state(Time::ZERO, FaceId(5), state.clone());
        assert_eq!(topology.poll_message(), None);
        let newer = LinkState { sequence: 2, ..state };
        topology.handle_state(Time::ZERO, FaceId(5), newer.clone());
        assert_eq!(topology.poll_message(), Some((FaceId(7), newer)), "not back to where it came from");
        assert_eq!(topology.poll_message(), None);
    }

    #[test]
    fn a_neighbour_at_two_faces_is_there_until_it_is_gone_from_both() {
        let mut costs = [[0; N]; N];
        (costs[0][1], costs[1][0], costs[1][2], costs[2][1]) = (5, 5, 7, 7);
        let mut topology = topology(&costs);
        topology.on_up(Time::ZERO, FaceId(6), NetworkAddress(2), Guid([2; 20]));
        for (gone, left) in [(6, Some(5)), (5, None)] {
            topology.on_down(Time::ZERO, FaceId(gone));
            topology.handle_timeout(Time::ZERO, |face| (face.0, face.0));
            topology.update();
            assert_eq!(topology.route(NetworkAddress(3)).map(|route| route.face.0), left, "{gone} is gone");
        }
    }

    #[test]
    fn ways_through_depleted_storage_are_avoided() {
        let mut costs = [[0; N]; N];
        for (a, b, cost) in [(0, 1, 1_000), (1, 3, 1_001), (0, 2, 2_000), (2, 3, 2_001)] {
            (costs[a][b], costs[b][a]) = (cost, cost);
        }
        let mut topology = topology(&costs);
        let far = NetworkAddress(4);
        assert_eq!(topology.route(far).map(|route| route.face), Some(FaceId(1_000)));
        let state = topology.state(NetworkAddress(2)).cloned().expect("it was told");
        let roles = Roles::ROUTER | Roles::PROXY;
        topology.handle_state(Time::ZERO, FaceId(1_000), LinkState { sequence: 2, storage_free: 1, roles, ..state });
        assert!(topology.update());
        assert_eq!(topology.route(far).map(|route| route.face), Some(FaceId(2_000)));
    }

    #[test]
    fn a_path_is_bad_when_it_is_worse_than_usual_by_a_tenth() {
        let route = |short_us| Route { face: FaceId(1), short_us, long_us: 100_000, hops: 1 };
        assert!(!route(109_000).is_bad(1.1) && route(111_000).is_bad(1.1));
    }
}
