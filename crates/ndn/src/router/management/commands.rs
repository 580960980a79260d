//! The commands.
use alloc::boxed::Box;
use bytes::Bytes;
use tributary_content::Name;
use tributary_core::{Duration, FaceId, Time};

use super::{FaceRequest, REQUESTS_MAX, RequestId, Waiting};
use crate::{
    router::{
        Router,
        cs::CsSwitches,
        face::{DATAGRAM_BYTES_MAX, FLAG_LOCAL_FIELDS, FLAG_MARKING, FLAG_RELIABILITY},
        marking::MarkingRule,
        rib::{CHILD_INHERIT, ORIGIN_APP, ORIGIN_STATIC, Route},
    },
    wire::{ControlParameters, ControlResponse, NameView, dataset::FacePersistency},
};

/// The body of the answer to a command, or the code and the text of its refusal.
type Answer = Result<ControlParameters, (u64, &'static str)>;

impl Router {
    /// Executes a command; `None` if the answer comes later.
    pub(super) fn command(
        &mut self,
        came_by: Option<FaceId>,
        packet: &Bytes,
        module: &[u8],
        verb: &[u8],
        parameters: ControlParameters,
        signed_at: Option<u64>,
    ) -> Option<ControlResponse> {
        let now = self.now;
        let face = match parameters.face_id {
            None | Some(0) => came_by,
            Some(face) => u32::try_from(face).ok().map(FaceId),
        };
        let origin = match (module, verb) {
            (b"rib", b"register" | b"unregister") => Some(ORIGIN_APP),
            (b"fib", b"add-nexthop" | b"remove-nexthop") => Some(ORIGIN_STATIC),
            _ => None,
        };
        if let (Some(origin), Some(face), Some(name)) = (origin, face, &parameters.name)
            && self.management.order.is_overtaken(now, name, face, parameters.origin.unwrap_or(origin), signed_at)
        {
            let text = "a later command about this route was here before".into();
            return Some(ControlResponse { code: 409, text, body: None });
        }
        let done = match (module, verb) {
            (b"rib", b"register") => self.on_register(face, parameters, ORIGIN_APP, CHILD_INHERIT),
            (b"fib", b"add-nexthop") => self.on_register(face, parameters, ORIGIN_STATIC, 0),
            (b"rib", b"unregister") => self.on_unregister(face, parameters, ORIGIN_APP),
            (b"fib", b"remove-nexthop") => self.on_unregister(face, parameters, ORIGIN_STATIC),
            (b"faces", b"create") => {
                return self.open_face(now, Some(packet), parameters).err().map(|refusal| *refusal);
            }
            (b"faces", b"destroy") => self.on_destroy(parameters),
            // The requester knows the addresses; libraries refuse an answer with them.
            (b"faces", b"update") => self.change_face(face, &parameters).map(|changed| ControlParameters {
                uri: None,
                local_uri: None,
                ..changed
            }),
            (b"strategy-choice", b"set") => self.on_set_strategy(parameters),
            (b"strategy-choice", b"unset") => self.on_unset_strategy(parameters),
            (b"cs", b"config") => self.on_cs_config(parameters),
            (b"cs", b"erase") => self.on_cs_erase(parameters),
            _ => Err((501, "unknown command")),
        };
        Some(match done {
            Ok(body) => ControlResponse { code: 200, text: "OK".into(), body: Some(body) },
            Err((code, text)) => ControlResponse { code, text: text.into(), body: None },
        })
    }
    fn on_register(&mut self, face: Option<FaceId>, mut body: ControlParameters, origin: u64, flags: u64) -> Answer {
        let now = self.now;
        let name = body.name.clone().ok_or((400, "no name"))?;
        let face = face.filter(|face| self.faces.contains_key(face)).ok_or((410, "face not found"))?;
        let route = Route {
            face,
            origin: body.origin.unwrap_or(origin),
            cost: body.cost.unwrap_or(0),
            flags: body.flags.unwrap_or(flags),
            // Libraries write the greatest number for a permanent route.
            expires: body
                .expiration_millis
                .filter(|millis| *millis < EXPIRY_MILLIS_MAX)
                .map(|millis| now + Duration::from_millis(millis)),
        };
        if !self.register(&name, route) {
            return Err((503, "too many routes"));
        }
        body.face_id = Some(u64::from(face.0));
        (body.origin, body.cost, body.flags) = (Some(route.origin), Some(route.cost), Some(route.flags));
        Ok(body)
    }
    fn on_unregister(&mut self, face: Option<FaceId>, mut parameters: ControlParameters, origin: u64) -> Answer {
        let name = parameters.name.clone().ok_or((400, "no name"))?;
        let face = face.ok_or((410, "face not found"))?;
        let origin = parameters.origin.unwrap_or(origin);
        self.unregister(&name, face, origin);
        (parameters.face_id, parameters.origin) = (Some(u64::from(face.0)), Some(origin));
        Ok(parameters)
    }
    /// Makes the driver open a face. The Interest `packet` is answered later, or by [`Router::opened_face`].
    pub(crate) fn open_face(
        &mut self,
        now: Time,
        packet: Option<&Bytes>,
        parameters: ControlParameters,
    ) -> Result<RequestId, Box<ControlResponse>> {
        let refuse = |code, text: &str, body| Err(Box::new(ControlResponse { code, text: text.into(), body }));
        let Some(uri) = parameters.uri.clone() else { return refuse(400, "no uri", None) };
        if let Err((code, text)) = flags_and_mask(&parameters) {
            return refuse(code, text, None);
        }
        if parameters.local_uri.is_some() {
            return refuse(406, "the near end of a face cannot be chosen here; leave LocalUri out", None);
        }
        if let Some(face) = self.faces.values().find(|face| face.profile.uri == uri) {
            return refuse(409, "a face to this address exists", Some(face.parameters()));
        }
        if let Err((_, text)) = persistency(&parameters) {
            return refuse(406, text, Some(parameters));
        }
        if self.management.requests.len() + self.management.opened.len() >= REQUESTS_MAX {
            return refuse(503, "too many faces are being made", None);
        }
        self.management.next_request += 1;
        let id = RequestId(self.management.next_request);
        self.management.to_driver.push_back(FaceRequest::Create { id, uri, mtu: parameters.mtu });
        self.management.requests.insert(id, Waiting { interest: packet.cloned(), since: now, parameters });
        Ok(id)
    }
    fn on_destroy(&mut self, parameters: ControlParameters) -> Answer {
        let face = parameters.face_id.and_then(|face| u32::try_from(face).ok()).map(FaceId);
        let face = face.filter(|face| face.0 < crate::router::INTERNAL_FACES_FIRST).ok_or((400, "no such face"))?;
        self.close_face(self.now, face);
        Ok(parameters)
    }
    /// Closes a face of a neighbour; returns whether it existed.
    pub(crate) fn close_face(&mut self, now: Time, face: FaceId) -> bool {
        let is_there = face.0 < crate::router::INTERNAL_FACES_FIRST && self.faces.contains_key(&face);
        if is_there {
            self.remove_face(now, face);
            self.management.to_driver.push_back(FaceRequest::Destroy { face });
        }
        is_there
    }
    /// Changes properties of a face, all or none; the answer has its present ones.
    pub(super) fn change_face(&mut self, face: Option<FaceId>, requested: &ControlParameters) -> Answer {
        let is_internal = |face: &FaceId| face.0 >= crate::router::INTERNAL_FACES_FIRST;
        let known = face.and_then(|face| self.faces.get_mut(&face)).ok_or((404, "face not found"))?;
        if is_internal(&known.id) {
            return Err((401, "a face of this node itself cannot be changed"));
        }
        let mut profile = known.profile.clone();
        profile.persistency = persistency(requested)?.unwrap_or(profile.persistency);
        if let Some(mtu) = requested.mtu {
            if profile.mtu.is_none() {
                return Err((409, "a stream carries packets of any length"));
            }
            let mtu = usize::try_from(mtu).ok().filter(|mtu| *mtu >= MTU_MIN).ok_or((409, "no such mtu"))?;
            profile.mtu = Some(mtu.min(DATAGRAM_BYTES_MAX));
        }
        let (flags, mask) = flags_and_mask(requested)?;
        let changes = |flag: u64| (mask & flag != 0).then_some(flags & flag != 0);
        if let Some(local_fields) = changes(FLAG_LOCAL_FIELDS) {
            if local_fields && !known.is_local() {
                return Err((409, "local fields are for applications of this machine, and only for them"));
            }
            profile.local_fields = local_fields;
        }
        if let Some(is_reliable) = changes(FLAG_RELIABILITY) {
            if is_reliable && profile.mtu.is_none() {
                return Err((409, "a stream loses nothing"));
            }
            profile.reliability = is_reliable.then(|| profile.reliability.unwrap_or_default());
        }
        if let Some(marks) = changes(FLAG_MARKING) {
            profile.marking = match profile.marking {
                MarkingRule::Off if marks => MarkingRule::CODEL,
                marking if marks => marking,
                _ => MarkingRule::Off,
            };
        }
        let names_marks = requested.mark_threshold.is_some() || requested.mark_interval.is_some();
        if profile.marking == MarkingRule::Off {
            if names_marks {
                return Err((409, "this face marks nothing, so there is no threshold and no interval"));
            }
        } else {
            let rate =
                profile.rate.ok_or((409, "the rate of this face's link is not known, so nothing can be marked"))?;
            let (mut target, mut interval) = profile.marking.delays();
            target = requested.mark_threshold.map_or(target, |bytes| rate.time_for(bytes));
            interval = requested.mark_interval.map_or(interval, Duration::from_nanos);
            if names_marks {
                profile.marking = MarkingRule::Codel { target, interval };
            }
        }
        known.set_profile(profile);
        Ok(known.parameters())
    }
    fn on_set_strategy(&mut self, parameters: ControlParameters) -> Answer {
        let name = parameters.name.clone().ok_or((400, "no name"))?;
        let strategy = strategy_of(parameters.strategy.as_ref().ok_or((400, "no strategy"))?)?;
        if self.set_strategy(&name, &strategy) { Ok(parameters) } else { Err((404, "strategy not known")) }
    }
    fn on_unset_strategy(&mut self, parameters: ControlParameters) -> Answer {
        let name = parameters.name.clone().ok_or((400, "no name"))?;
        if name.is_empty() {
            return Err((400, "the root's strategy can be replaced, not taken back"));
        }
        self.unset_strategy(&name);
        Ok(parameters)
    }
    fn on_cs_config(&mut self, parameters: ControlParameters) -> Answer {
        let (flags, mask) = flags_and_mask(&parameters)?;
        if mask & !CsSwitches::BOTH.flags() != 0 {
            return Err((409, "a content store admits (1) and serves (2), and nothing else"));
        }
        let switches = CsSwitches::from_flags(self.cs.switches.flags() & !mask | flags & mask);
        self.cs.switches = switches;
        if let Some(capacity) = parameters.capacity {
            self.cs.set_packets_max(self.now, usize::try_from(capacity).unwrap_or(usize::MAX));
        }
        let capacity = Some(self.cs.limits.packets_max as u64);
        Ok(ControlParameters { capacity, flags: Some(switches.flags()), ..ControlParameters::default() })
    }
    fn on_cs_erase(&mut self, mut parameters: ControlParameters) -> Answer {
        let name = parameters.name.clone().ok_or((400, "no name"))?;
        let erased = self.erase_cache(&name, parameters.count.unwrap_or(ERASED_MAX).min(ERASED_MAX));
        parameters.count = Some(erased);
        parameters.capacity = (erased == ERASED_MAX).then_some(ERASED_MAX);
        Ok(parameters)
    }
}

/// The flags of a command and its mask; zeros if it has neither.
fn flags_and_mask(requested: &ControlParameters) -> Result<(u64, u64), (u64, &'static str)> {
    match (requested.flags, requested.mask) {
        (Some(flags), Some(mask)) => Ok((flags, mask)),
        (None, None) => Ok((0, 0)),
        _ => Err((400, "flags and mask come together")),
    }
}
/// The persistency of a face. A dialled face is redialled while it exists, so persistent means permanent.
fn persistency(requested: &ControlParameters) -> Result<Option<FacePersistency>, (u64, &'static str)> {
    match requested.persistency {
        Some(number) if number == FacePersistency::Persistent as u64 => Ok(Some(FacePersistency::Persistent)),
        Some(number) if number == FacePersistency::Permanent as u64 => Ok(Some(FacePersistency::Permanent)),
        Some(_) => Err((409, "only packets that come make a face on demand")),
        None => Ok(None),
    }
}

/// A smaller MTU cannot carry a piece after its headers.
const MTU_MIN: usize = 64;

/// Maximum packets erased per command; the answer says if more are left.
const ERASED_MAX: u64 = 256;

/// A route with an expiry in a century or later is permanent.
const EXPIRY_MILLIS_MAX: u64 = 100 * 365 * 86_400_000;
/// The greatest version of a strategy that NFD has.
const STRATEGY_VERSION_MAX: u64 = 5;

/// The strategy named by `/localhost/nfd/strategy/NAME/v=5`, with or without an existing version.
fn strategy_of(name: &Name) -> Result<alloc::string::String, (u64, &'static str)> {
    let prefix: Name = "/localhost/nfd/strategy".parse().expect("it is a name");
    let mut components = NameView::from(name).components().skip(prefix.len());
    let program = components.next().filter(|_| prefix.is_prefix_of(name));
    let program =
        program.and_then(|program| core::str::from_utf8(program.value).ok()).ok_or((404, "strategy not known"))?;
    if let Some(version) = components.next() {
        let is_version = version.kind == crate::wire::types::VERSION;
        if !is_version || version.number().is_none_or(|version| version > STRATEGY_VERSION_MAX) {
            return Err((404, "this strategy has no such version"));
        }
    }
    match components.next() {
        None => Ok(program.into()),
        Some(_) => Err((404, "strategies take no parameters here")),
    }
}
