//! The commands.
use bytes::Bytes;
use tributary_content::Name;
use tributary_core::{Duration, FaceId, Time};

use super::{FaceRequest, REQUESTS_MAX, RequestId, Waiting};
use crate::{
    router::{
        Router,
        rib::{CHILD_INHERIT, ORIGIN_APP, ORIGIN_STATIC, Route},
    },
    wire::{ControlParameters, ControlResponse},
};

impl Router {
    /// Obeys a command; `None` if the answer comes later.
    pub(super) fn command(
        &mut self,
        now: Time,
        came_by: Option<FaceId>,
        packet: &Bytes,
        module: &[u8],
        verb: &[u8],
        parameters: ControlParameters,
    ) -> Option<ControlResponse> {
        let face = match parameters.face_id {
            None | Some(0) => came_by,
            Some(face) => u32::try_from(face).ok().map(FaceId),
        };
        let done = match (module, verb) {
            (b"rib", b"register") => self.on_register(now, face, parameters, ORIGIN_APP, CHILD_INHERIT),
            (b"fib", b"add-nexthop") => self.on_register(now, face, parameters, ORIGIN_STATIC, 0),
            (b"rib", b"unregister") => self.on_unregister(face, parameters, ORIGIN_APP),
            (b"fib", b"remove-nexthop") => self.on_unregister(face, parameters, ORIGIN_STATIC),
            (b"faces", b"create") => return self.on_create(now, packet, parameters),
            (b"faces", b"destroy") => self.on_destroy(now, parameters),
            (b"strategy-choice", b"set") => self.on_set_strategy(parameters),
            (b"strategy-choice", b"unset") => self.on_unset_strategy(parameters),
            (b"cs", b"config") => Ok(self.on_cs_config(now, parameters)),
            (b"cs", b"erase") => self.on_cs_erase(parameters),
            _ => Err((501, "unknown command")),
        };
        Some(match done {
            Ok(body) => ControlResponse { code: 200, text: "OK".into(), body: Some(body) },
            Err((code, text)) => ControlResponse { code, text: text.into(), body: None },
        })
    }
    fn on_register(
        &mut self,
        now: Time,
        face: Option<FaceId>,
        mut parameters: ControlParameters,
        origin: u64,
        flags: u64,
    ) -> Result<ControlParameters, (u64, &'static str)> {
        let name = parameters.name.clone().ok_or((400, "no name"))?;
        let face = face.filter(|face| self.faces.contains_key(face)).ok_or((410, "face not found"))?;
        let route = Route {
            face,
            origin: parameters.origin.unwrap_or(origin),
            cost: parameters.cost.unwrap_or(0),
            flags: parameters.flags.unwrap_or(flags),
            expires: parameters.expiration_millis.map(|millis| now + Duration::from_millis(millis)),
        };
        if !self.register(&name, route) {
            return Err((503, "too many routes"));
        }
        parameters.face_id = Some(u64::from(face.0));
        (parameters.origin, parameters.cost, parameters.flags) =
            (Some(route.origin), Some(route.cost), Some(route.flags));
        Ok(parameters)
    }
    fn on_unregister(
        &mut self,
        face: Option<FaceId>,
        mut parameters: ControlParameters,
        origin: u64,
    ) -> Result<ControlParameters, (u64, &'static str)> {
        let name = parameters.name.clone().ok_or((400, "no name"))?;
        let face = face.ok_or((410, "face not found"))?;
        let origin = parameters.origin.unwrap_or(origin);
        self.unregister(&name, face, origin);
        (parameters.face_id, parameters.origin) = (Some(u64::from(face.0)), Some(origin));
        Ok(parameters)
    }
    fn on_create(&mut self, now: Time, packet: &Bytes, mut parameters: ControlParameters) -> Option<ControlResponse> {
        let refuse = |code, text: &str, body| Some(ControlResponse { code, text: text.into(), body });
        let Some(uri) = parameters.uri.clone() else { return refuse(400, "no uri", None) };
        if let Some((face, ..)) = self.faces().find(|(_, _, profile, _)| profile.uri == uri) {
            parameters.face_id = Some(u64::from(face.0));
            return refuse(409, "a face to this address exists", Some(parameters));
        }
        if self.management.requests.len() >= REQUESTS_MAX {
            return refuse(503, "too many faces are being made", None);
        }
        self.management.next_request += 1;
        let id = RequestId(self.management.next_request);
        // Persistency: 0 persistent, 1 on demand, 2 permanent.
        let is_persistent = parameters.persistency != Some(1);
        self.management.to_driver.push_back(FaceRequest::Create { id, uri, mtu: parameters.mtu, is_persistent });
        self.management.requests.insert(id, Waiting { interest: packet.clone(), since: now, parameters });
        None
    }
    fn on_destroy(
        &mut self,
        now: Time,
        parameters: ControlParameters,
    ) -> Result<ControlParameters, (u64, &'static str)> {
        let face = parameters.face_id.and_then(|face| u32::try_from(face).ok()).map(FaceId);
        let face = face.filter(|face| face.0 < crate::router::INTERNAL_FACES_FIRST).ok_or((400, "no such face"))?;
        if self.faces.contains_key(&face) {
            self.remove_face(now, face);
            self.management.to_driver.push_back(FaceRequest::Destroy { face });
        }
        Ok(parameters)
    }
    fn on_set_strategy(&mut self, parameters: ControlParameters) -> Result<ControlParameters, (u64, &'static str)> {
        let name = parameters.name.clone().ok_or((400, "no name"))?;
        let strategy = parameters.strategy.as_ref().and_then(strategy_of).ok_or((400, "no strategy"))?;
        if self.set_strategy(&name, &strategy) { Ok(parameters) } else { Err((404, "strategy not known")) }
    }
    fn on_unset_strategy(&mut self, parameters: ControlParameters) -> Result<ControlParameters, (u64, &'static str)> {
        let name = parameters.name.clone().ok_or((400, "no name"))?;
        if name.is_empty() {
            return Err((400, "the root's strategy can be replaced, not taken back"));
        }
        self.unset_strategy(&name);
        Ok(parameters)
    }
    fn on_cs_config(&mut self, now: Time, parameters: ControlParameters) -> ControlParameters {
        if let Some(capacity) = parameters.capacity {
            self.set_cache_capacity(now, usize::try_from(capacity).unwrap_or(usize::MAX));
        }
        parameters
    }
    fn on_cs_erase(&mut self, mut parameters: ControlParameters) -> Result<ControlParameters, (u64, &'static str)> {
        let name = parameters.name.clone().ok_or((400, "no name"))?;
        let erased = self.erase_cache(&name, parameters.count.unwrap_or(ERASED_MAX).min(ERASED_MAX));
        parameters.count = Some(erased);
        parameters.capacity = (erased == ERASED_MAX).then_some(ERASED_MAX);
        Ok(parameters)
    }
}

/// Packets that one command erases at most; the answer tells if there are more.
const ERASED_MAX: u64 = 256;

/// The strategy that `/localhost/nfd/strategy/NAME/v=5` names.
fn strategy_of(name: &Name) -> Option<alloc::string::String> {
    let mut components = name.components().skip(3);
    core::str::from_utf8(components.next()?).ok().map(Into::into)
}
