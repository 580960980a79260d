//! What the owner of a node may change of its forwarding table.
use alloc::{string::ToString, vec::Vec};

use tributary_transport::forwarding::{Forwarding, ForwardingError, RouteStatus};

use super::*;
use crate::{
    router::{RequestId, rib, strategy::STRATEGIES},
    wire::ControlParameters,
};

impl Forwarding for NdnNode {
    fn routes(&self, now: Time, prefix: Option<&Name>) -> Vec<RouteStatus> {
        let rib = &self.router.rib;
        let of = |(prefix, routes): (&Name, &[Route])| {
            let status = |route: &Route| RouteStatus {
                prefix: prefix.clone(),
                face: route.face,
                cost: route.cost,
                origin: rib::origin_word(route.origin),
                expires: route.expires.map(|expires| expires.since(now)),
            };
            routes.iter().map(status).collect::<Vec<_>>()
        };
        match prefix {
            Some(prefix) => of((prefix, rib.get(prefix))),
            None => rib.iter().flat_map(of).collect(),
        }
    }
    fn add_route(
        &mut self,
        now: Time,
        prefix: &Name,
        face: FaceId,
        cost: u64,
        lifetime: Option<Duration>,
    ) -> Result<(), ForwardingError> {
        if !self.router.has_face(face) {
            return Err(ForwardingError::NoFace(face));
        }
        let expires = lifetime.map(|lifetime| now + lifetime);
        let route = Route { face, origin: rib::ORIGIN_STATIC, cost, flags: CHILD_INHERIT, expires };
        if self.router.register(prefix, route) { Ok(()) } else { Err(ForwardingError::Full) }
    }
    fn remove_route(&mut self, prefix: &Name, face: FaceId) -> usize {
        let routes = self.router.rib.get(prefix).to_vec();
        let routes = routes.into_iter().filter(|route| route.face == face);
        routes.filter(|route| self.router.unregister(prefix, face, route.origin)).count()
    }
    fn strategies(&self) -> Vec<(Name, &'static str)> {
        self.router.strategies().map(|(prefix, strategy)| (prefix.clone(), strategy)).collect()
    }
    fn known_strategies(&self) -> Vec<&'static str> {
        STRATEGIES.iter().map(|(name, _)| *name).collect()
    }
    fn set_strategy(&mut self, prefix: &Name, strategy: Option<&str>) -> Result<(), ForwardingError> {
        match strategy {
            Some(name) if !self.router.set_strategy(prefix, name) => Err(ForwardingError::NoStrategy(name.into())),
            None if !self.router.unset_strategy(prefix) => Err(ForwardingError::NotChosen),
            _ => Ok(()),
        }
    }
    fn open_face(&mut self, now: Time, uri: &str) -> Result<u64, ForwardingError> {
        let parameters = ControlParameters { uri: Some(uri.into()), ..ControlParameters::default() };
        let opened = self.router.open_face(now, None, parameters);
        opened.map(|RequestId(id)| id).map_err(|refusal| match face_in(refusal.body) {
            Some(face) => ForwardingError::Exists(face),
            None => ForwardingError::NotOpened(refusal.text),
        })
    }
    fn opened_face(&mut self, request: u64) -> Option<Result<FaceId, ForwardingError>> {
        let response = self.router.opened_face(RequestId(request))?;
        Some(match (response.code, face_in(response.body)) {
            (200, Some(face)) => Ok(face),
            (409, Some(face)) => Err(ForwardingError::Exists(face)),
            _ => Err(ForwardingError::NotOpened(response.text.to_string())),
        })
    }
    fn register_at(&mut self, now: Time, face: FaceId, is_wanted: bool) {
        if !is_wanted {
            return self.registrations.leave(face);
        }
        self.registrations.join(face);
        let is_own = |routes: &[Route]| routes.iter().any(|route| route.face == FACE_SENDER);
        let own: Vec<Name> =
            self.router.rib.iter().filter(|(_, routes)| is_own(routes)).map(|(name, _)| name.clone()).collect();
        own.iter().for_each(|name| self.registrations.add(now, name));
        self.registrations.on_face_up(now, face);
        self.register_due(now);
    }
    fn close_face(&mut self, now: Time, face: FaceId) -> bool {
        self.unsolicited.remove(face);
        let was_there = self.router.close_face(now, face);
        self.settle(now);
        was_there
    }
}

/// The face that an answer is about.
fn face_in(body: Option<ControlParameters>) -> Option<FaceId> {
    u32::try_from(body?.face_id?).ok().map(FaceId)
}
