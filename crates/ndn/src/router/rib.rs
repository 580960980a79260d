//! The routes that were registered, and the forwarding table that follows from them: routes are inherited by longer
//! prefixes unless these capture. NFD management, "RIB".
use alloc::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    vec::Vec,
};

use tributary_content::Name;
use tributary_core::{FaceId, Time};

use super::{INTERNAL_FACES_FIRST, fib::NextHop};

/// Flag of a route: longer prefixes have it too.
pub const CHILD_INHERIT: u64 = 1;
/// Flag of a route: routes of shorter prefixes do not count here.
pub const CAPTURE: u64 = 2;
/// Origin of routes that the configuration made.
pub const ORIGIN_STATIC: u64 = 255;
/// Origin of routes that an application registered.
pub const ORIGIN_APP: u64 = 0;
/// Origin of routes that an application registered and wants a routing daemon to advertise.
pub const ORIGIN_CLIENT: u64 = 65;

/// Whether a routing daemon of this machine, such as NLSR or `ndnd dv`, takes commands below a prefix.
pub fn is_of_routing_daemon(prefix: &Name) -> bool {
    prefix.components().eq([&b"localhost"[..], b"nlsr"])
}

/// What NFD's tools call an origin.
pub fn origin_word(origin: u64) -> alloc::string::String {
    let word = match origin {
        ORIGIN_APP => "app",
        64 => "autoreg",
        ORIGIN_CLIENT => "client",
        66 => "autoconf",
        128 => "nlsr",
        129 => "prefixann",
        ORIGIN_STATIC => "static",
        other => return alloc::format!("{other}"),
    };
    word.into()
}

/// One registered route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The face that it leads by.
    pub face: FaceId,
    /// Who made it.
    pub origin: u64,
    /// Its cost.
    pub cost: u64,
    /// [`CHILD_INHERIT`], [`CAPTURE`].
    pub flags: u64,
    /// Until when it counts; `None` for ever.
    pub expires: Option<Time>,
}

/// The routes.
#[derive(Clone, Debug, Default)]
pub struct Rib {
    entries: BTreeMap<Name, Vec<Route>>,
    routes: usize,
    routes_max: usize,
    /// Routes that applications and neighbours registered, by face.
    registered: BTreeMap<FaceId, usize>,
    /// Routes of any origin, by face.
    by_face: BTreeMap<FaceId, usize>,
    /// Number of searches through all routes.
    pub searches: u64,
    /// No route expires before; `None` if none does.
    expires_from: Option<Time>,
    /// The prefixes with a route that came or went and concerns a routing daemon, since the last poll.
    pub changed: BTreeSet<Name>,
}

impl Rib {
    /// An empty table for at most `routes_max` routes.
    pub fn new(routes_max: usize) -> Self {
        Rib { routes_max, ..Rib::default() }
    }
    /// Registers a route; replaces one with the same face and origin. False at the limit: one face may register as many
    /// routes as stay free for others.
    pub fn register(&mut self, prefix: &Name, route: Route) -> bool {
        let free = self.routes_max.saturating_sub(self.routes);
        let known = self.entries.get_mut(prefix).and_then(|routes| {
            routes.iter_mut().find(|known| known.face == route.face && known.origin == route.origin)
        });
        match known {
            Some(known) => *known = route,
            None => {
                let has = self.registered.get(&route.face).copied().unwrap_or(0);
                if free == 0 || is_shared(&route) && has >= free {
                    return false;
                }
                if is_shared(&route) {
                    self.registered.insert(route.face, has + 1);
                }
                self.entries.entry(prefix.clone()).or_default().push(route);
                self.routes += 1;
                if concerns_routing_daemon(prefix, &route) {
                    self.changed.insert(prefix.clone());
                }
                *self.by_face.entry(route.face).or_default() += 1;
            }
        }
        self.expires_from = self.expires_from.into_iter().chain(route.expires).min();
        true
    }
    /// Withdraws a route; returns whether it existed.
    pub fn unregister(&mut self, prefix: &Name, face: FaceId, origin: u64) -> bool {
        self.retain_at(prefix, |route| route.face != face || route.origin != origin)
    }
    fn retain_at(&mut self, prefix: &Name, keep: impl Fn(&Route) -> bool) -> bool {
        let Some(routes) = self.entries.get_mut(prefix) else { return false };
        let (before, mut is_told) = (routes.len(), false);
        routes.retain(|route| {
            let stays = keep(route);
            is_told |= !stays && concerns_routing_daemon(prefix, route);
            let counts = [(!stays, &mut self.by_face), (!stays && is_shared(route), &mut self.registered)];
            for (_, counts) in counts.into_iter().filter(|(is_one_less, _)| *is_one_less) {
                if let Entry::Occupied(mut count) = counts.entry(route.face) {
                    *count.get_mut() -= 1;
                    if *count.get() == 0 {
                        count.remove();
                    }
                }
            }
            stays
        });
        let gone = before - routes.len();
        self.routes -= gone;
        if is_told {
            self.changed.insert(prefix.clone());
        }
        if routes.is_empty() {
            self.entries.remove(prefix);
        }
        gone > 0
    }
    /// Withdraws all routes by a face; the prefixes that had one.
    pub fn remove_face(&mut self, face: FaceId) -> Vec<Name> {
        // Unsolicited faces come and go, and have none.
        if !self.by_face.contains_key(&face) {
            return Vec::new();
        }
        self.remove_where(|route| route.face == face)
    }
    /// Withdraws expired routes; returns their prefixes.
    pub fn expire(&mut self, now: Time) -> Vec<Name> {
        let gone = self.remove_where(|route| route.expires.is_some_and(|expires| expires <= now));
        self.expires_from = self.entries.values().flatten().filter_map(|route| route.expires).min();
        gone
    }
    fn remove_where(&mut self, gone: impl Fn(&Route) -> bool) -> Vec<Name> {
        self.searches += 1;
        let hit = |(_, routes): &(&Name, &Vec<Route>)| routes.iter().any(&gone);
        let prefixes: Vec<Name> = self.entries.iter().filter(hit).map(|(prefix, _)| prefix.clone()).collect();
        for prefix in &prefixes {
            self.retain_at(prefix, |route| !gone(route));
        }
        prefixes
    }
    /// When to look for routes that expire: with the next one, or before if that one was withdrawn.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.expires_from
    }
    /// The prefixes whose next hops may change with `prefix`: itself and all below it.
    pub fn affected(&self, prefix: &Name) -> Vec<Name> {
        let below = self.entries.range(prefix.clone()..).map(|(below, _)| below);
        let mut all: Vec<Name> = below.take_while(|below| prefix.is_prefix_of(below)).cloned().collect();
        if all.first() != Some(prefix) {
            all.insert(0, prefix.clone());
        }
        all
    }
    /// The next hops of a prefix: its own routes and inherited ones, the cheapest for each face, its own before
    /// inherited ones. A prefix without own routes has no next hops.
    pub fn next_hops(&self, prefix: &Name) -> Vec<NextHop> {
        let mut hops: BTreeMap<FaceId, u64> = BTreeMap::new();
        let Some(own) = self.entries.get(prefix) else { return Vec::new() };
        let take = |hops: &mut BTreeMap<FaceId, u64>, routes: &[Route], inherited: bool| {
            let known: Vec<FaceId> = hops.keys().copied().collect();
            for route in routes.iter().filter(|route| !inherited || route.flags & CHILD_INHERIT != 0) {
                if !known.contains(&route.face) {
                    let cost = hops.entry(route.face).or_insert(route.cost);
                    *cost = (*cost).min(route.cost);
                }
            }
        };
        take(&mut hops, own, false);
        let mut captured = own.iter().any(|route| route.flags & CAPTURE != 0);
        let mut above = prefix.parent();
        while let (false, Some(prefix)) = (captured, above) {
            if let Some(routes) = self.entries.get(&prefix) {
                take(&mut hops, routes, true);
                captured = routes.iter().any(|route| route.flags & CAPTURE != 0);
            }
            above = prefix.parent();
        }
        hops.into_iter().map(|(face, cost)| NextHop { face, cost }).collect()
    }
    /// Whether an application or a neighbour has registered a prefix, or one above, by a face.
    pub fn is_registered(&self, prefix: &Name, face: FaceId) -> bool {
        let mut prefixes = core::iter::successors(Some(prefix.clone()), Name::parent);
        let by_face = |route: &Route| route.face == face && is_shared(route);
        prefixes.any(|prefix| self.entries.get(&prefix).is_some_and(|routes| routes.iter().any(by_face)))
    }
    /// The routes of a prefix itself.
    pub fn get(&self, prefix: &Name) -> &[Route] {
        self.entries.get(prefix).map_or(&[], Vec::as_slice)
    }
    /// All prefixes with their routes, in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &[Route])> {
        self.entries.iter().map(|(prefix, routes)| (prefix, &routes[..]))
    }
    /// Whether a routing daemon is to advertise a prefix: an application asks for that, and the name is valid beyond this
    /// machine.
    pub fn is_advertised(&self, prefix: &Name) -> bool {
        let first = prefix.components().next();
        first != Some(b"localhost") && self.get(prefix).iter().any(|route| route.origin == ORIGIN_CLIENT)
    }
    /// Routes registered.
    pub fn len(&self) -> usize {
        self.routes
    }
    /// Whether no route is registered.
    pub fn is_empty(&self) -> bool {
        self.routes == 0
    }
}

/// Whether a routing daemon hears of a route, or has registered it to hear of others.
fn concerns_routing_daemon(prefix: &Name, route: &Route) -> bool {
    route.origin == ORIGIN_CLIENT || is_of_routing_daemon(prefix)
}
/// Whether a route is one of an application or neighbour, which may register without end.
fn is_shared(route: &Route) -> bool {
    route.origin != ORIGIN_STATIC && route.face.0 < INTERNAL_FACES_FIRST
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(face: u32, cost: u64, flags: u64) -> Route {
        Route { face: FaceId(face), origin: ORIGIN_APP, cost, flags, expires: None }
    }
    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }
    fn hops(rib: &Rib, prefix: &str) -> Vec<(u32, u64)> {
        rib.next_hops(&name(prefix)).iter().map(|hop| (hop.face.0, hop.cost)).collect()
    }

    #[test]
    fn routes_are_inherited_unless_captured() {
        let mut rib = Rib::new(10);
        rib.register(&name("/"), route(1, 10, CHILD_INHERIT));
        rib.register(&name("/a"), route(2, 20, 0));
        rib.register(&name("/a/b"), route(1, 30, 0));
        rib.register(&name("/a/b/c"), route(3, 40, CAPTURE));
        rib.register(&name("/a/b/c/d"), route(4, 50, 0));
        assert_eq!(hops(&rib, "/a"), [(1, 10), (2, 20)]);
        assert_eq!(hops(&rib, "/a/b"), [(1, 30)], "its own route by face 1 counts, though it costs more");
        assert_eq!(hops(&rib, "/a/b/c"), [(3, 40)]);
        assert_eq!(hops(&rib, "/a/b/c/d"), [(4, 50)]);
        assert_eq!(hops(&rib, "/x"), []);
        assert_eq!(rib.affected(&name("/a/b")), ["/a/b", "/a/b/c", "/a/b/c/d"].map(name));
        assert_eq!(rib.affected(&name("/a/aa")), [name("/a/aa")]);
    }

    #[test]
    fn routes_go_by_hand_with_their_face_or_in_time_and_have_a_limit() {
        let mut rib = Rib::new(3);
        let fixed = |face| Route { origin: ORIGIN_STATIC, ..route(face, 0, 0) };
        assert!(rib.register(&name("/a"), Route { expires: Some(Time::from_millis(5)), ..fixed(1) }));
        assert!(rib.register(&name("/a"), fixed(2)) && rib.register(&name("/b"), fixed(2)));
        assert!(!rib.register(&name("/c"), fixed(1)) && rib.register(&name("/a"), Route { cost: 7, ..fixed(2) }));
        assert_eq!(rib.iter().count(), 2);
        assert_eq!(rib.poll_timeout(), Some(Time::from_millis(5)));
        assert_eq!(rib.expire(Time::from_millis(4)), []);
        assert_eq!(rib.expire(Time::from_millis(5)), [name("/a")]);
        assert_eq!(rib.remove_face(FaceId(2)), ["/a", "/b"].map(name));
        assert!(rib.is_empty() && !rib.unregister(&name("/a"), FaceId(2), ORIGIN_APP));
    }

    #[test]
    fn faces_without_routes_go_without_a_search() {
        let mut rib = Rib::new(10);
        rib.register(&name("/a"), route(1, 0, 0));
        rib.register(&name("/b"), route(2, 0, 0));
        rib.unregister(&name("/b"), FaceId(2), ORIGIN_APP);
        for face in 2..1_000 {
            assert_eq!(rib.remove_face(FaceId(face)), []);
        }
        assert_eq!(rib.searches, 0);
        assert_eq!(rib.remove_face(FaceId(1)), ["/a"].map(name));
        assert_eq!(rib.searches, 1);
    }

    #[test]
    fn however_many_register_without_end_there_is_room_for_one_more() {
        let mut rib = Rib::new(100);
        for face in 1..=4 {
            let had = rib.len();
            let got =
                (0..1000).filter(|n| rib.register(&name(&alloc::format!("/{face}/{n}")), route(face, 0, 0))).count();
            assert_eq!(got, (100 - had).div_ceil(2), "half of what is left");
        }
        assert!(rib.register(&name("/honest"), route(5, 0, 0)));
        rib.remove_face(FaceId(1));
        assert!(rib.register(&name("/4/more"), route(4, 0, 0)), "what has gone makes room");
    }
}
