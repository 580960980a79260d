//! The management protocol of NFD, so that existing tools work: commands as signed Interests, and status datasets,
//! below `/localhost/nfd`.
//!
//! | command | what |
//! |---|---|
//! | `rib/register`, `rib/unregister` | routes |
//! | `fib/add-nexthop`, `fib/remove-nexthop` | routes that longer prefixes do not inherit |
//! | `faces/create`, `faces/destroy` | forwarded to the driver: [`Router::poll_face_request`] |
//! | `strategy-choice/set`, `strategy-choice/unset` | strategies |
//! | `cs/config`, `cs/erase` | the content store |
//! | `faces/query` | the faces that a filter fits |
//! | `faces/events` | the notification stream about faces |
//! | `status/general`, `faces/list`, `faces/channels`, `fib/list`, `rib/list`, `strategy-choice/list`, `cs/info` | datasets |
mod certified;
mod commands;
mod datasets;
mod events;
mod order;

use alloc::{
    collections::{BTreeMap, VecDeque},
    string::String,
    sync::Arc,
    vec::Vec,
};

use bytes::Bytes;
use tributary_content::Name;
use tributary_core::{Duration, FaceId, FaceRefusal, Time};

use super::{
    Done, FACE_MANAGEMENT, RemoteRegistration, Router,
    dead_nonces::DeadNonces,
    face::{Face, FaceScope},
    fib::NextHop,
};
use crate::{
    naming::number,
    trust::Anchors,
    wire::{
        Component, ControlParameters, ControlResponse, Data, Interest, LpPacket, MetaInfo, NameView, SignKey,
        SignatureInfo, VerifyKey, dataset::FaceFilter, signature::digest, tlv, types,
    },
};

/// Whose commands are obeyed.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ManagementTrust {
    /// No one's.
    Nobody,
    /// Any signed command of an application of this user or root on this machine. Applications of other users register
    /// prefixes for themselves and change their own face.
    AnyLocal,
    /// Any signed command of an application on this machine, of any user, as NFD does by default.
    AnyUser,
    /// Commands of applications on this machine that one of these keys signed.
    Keys(Vec<VerifyKey>),
    /// Commands with a chain to one of these anchors, about names that their signer may sign.
    Anchors(Arc<Anchors>),
}

/// The number of a request to the driver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub u64);

/// Something that only the driver can do.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FaceRequest {
    /// Open a face to this address and report it with [`Router::complete_face_request`].
    Create {
        /// Its number.
        id: RequestId,
        /// The address, such as `udp4://192.0.2.1:6363`.
        uri: String,
        /// Bytes that it may carry; `None` as usual.
        mtu: Option<u64>,
    },
    /// Close a face, which the router has forgotten already.
    Destroy {
        /// The face.
        face: FaceId,
    },
}

/// Requests to the driver at one time.
pub(super) const REQUESTS_MAX: usize = 64;
/// How long the driver may take.
const REQUEST_PATIENCE: Duration = Duration::from_secs(4);
/// How far the clock of a command's signer may differ from this one, as in NFD.
const CLOCK_GRACE: Duration = Duration::from_secs(120);
/// Commands remembered against replay, and for how long: older ones are refused by their own time.
const COMMANDS_SEEN: (usize, Duration) = (16_384, Duration::from_secs(2 * CLOCK_GRACE.as_secs() + 1));
/// Bytes and number of datasets kept for segmented fetches. The newest is kept regardless of its size.
const DATASETS_KEPT: (usize, usize) = (16 << 20, 64);
/// How long a dataset without requests is kept.
const DATASET_PATIENCE: Duration = Duration::from_secs(10);
/// Content bytes of one segment.
const SEGMENT_BYTES: usize = 7_000;
/// Milliseconds for which a dataset counts as fresh.
const FRESHNESS_MILLIS: u64 = 1_000;

tributary_core::declared! {
    /// State of the management protocol.
    #[derive(Debug, Default)]
    pub(super) struct Management {
        prefix: Name = "/localhost/nfd".parse().expect("it is a name"),
        remote_prefix: Name = "/localhop/nfd".parse().expect("it is a name"),
        pub(super) queue: VecDeque<(Option<FaceId>, Bytes)> = VecDeque::new(),
        requests: BTreeMap<RequestId, Waiting> = BTreeMap::new(),
        to_driver: VecDeque<FaceRequest> = VecDeque::new(),
        next_request: u64 = 0,
        /// Results of face requests by the node's operator, until they are read.
        opened: BTreeMap<RequestId, ControlResponse> = BTreeMap::new(),
        /// Where the driver accepts faces.
        pub(super) channels: Vec<String> = Vec::new(),
        seen: DeadNonces = DeadNonces::new(COMMANDS_SEEN.1, COMMANDS_SEEN.0),
        order: order::CommandOrder = Default::default(),
        datasets: VecDeque<Dataset> = VecDeque::new(),
        version: u64 = 0,
        events: events::FaceEvents = Default::default(),
        certified: certified::Certified = Default::default(),
    }
    pub(super) fn new() {}
}

/// A dataset as it was at its first request.
#[derive(Debug)]
struct Dataset {
    versioned: Name,
    content: Vec<u8>,
    requested_at: Time,
}

impl Dataset {
    /// The Data of a segment; `None` for an unknown number.
    fn segment(&self, segment: usize) -> Option<Bytes> {
        let last = self.content.len().div_ceil(SEGMENT_BYTES).max(1) - 1;
        let start = segment.checked_mul(SEGMENT_BYTES).filter(|_| segment <= last)?;
        let part = &self.content[start..self.content.len().min(start + SEGMENT_BYTES)];
        let name = self.versioned.typed_child(types::SEGMENT, &number(segment as u64)).ok()?;
        let last = Name::root().typed_child(types::SEGMENT, &number(last as u64)).ok()?;
        let meta = MetaInfo {
            freshness_millis: Some(FRESHNESS_MILLIS),
            final_block_id: Some(last.as_tlv()),
            content_type: None,
        };
        Some(Data { meta: Some(meta), ..Data::new(NameView::from(&name), part) }.sign(&SignKey::Digest).into())
    }
}

/// A command that waits for the driver.
#[derive(Debug)]
struct Waiting {
    /// The command's Interest; `None` if the node's operator gave it.
    interest: Option<Bytes>,
    since: Time,
    parameters: ControlParameters,
}

#[cfg(test)]
impl Management {
    /// Packets of the notification stream that were made.
    pub(super) fn packets_of_events(&self) -> u64 {
        self.events.packets
    }
}

impl Router {
    pub(super) fn set_up_management(&mut self) {
        let hop = [NextHop { face: FACE_MANAGEMENT, cost: 0 }];
        self.fib.set(&self.management.prefix, &hop, 0);
        if self.config.remote_registration == RemoteRegistration::Neighbours {
            self.fib.set(&self.management.remote_prefix, &hop, 0);
        }
    }
    /// The next request to the driver.
    pub fn poll_face_request(&mut self) -> Option<FaceRequest> {
        self.management.to_driver.pop_front()
    }
    /// The driver made a face, which has been added, or reports why not.
    pub fn complete_face_request(&mut self, now: Time, id: RequestId, made: Result<FaceId, FaceRefusal>) {
        self.now = now;
        let Some(waiting) = self.management.requests.remove(&id) else { return };
        let mut body = waiting.parameters;
        let response = match made {
            // Changes apply to the existing face.
            Ok(face) => match self.change_face(Some(face), &body) {
                Ok(result) => ControlResponse { code: 200, text: "OK".into(), body: Some(result) },
                Err((_, text)) => {
                    self.remove_face(now, face);
                    self.management.to_driver.push_back(FaceRequest::Destroy { face });
                    ControlResponse { code: 406, text: text.into(), body: Some(body) }
                }
            },
            Err(FaceRefusal::Exists(face)) => {
                body.face_id = Some(u64::from(face.0));
                let body = self.faces.get(&face).map_or(body, Face::parameters);
                ControlResponse { code: 409, text: "a face to this address exists".into(), body: Some(body) }
            }
            Err(FaceRefusal::Address(text)) => ControlResponse { code: 406, text, body: Some(body) },
            Err(FaceRefusal::System(text)) => ControlResponse { code: 504, text, body: Some(body) },
        };
        match waiting.interest {
            Some(interest) => self.respond(&interest, &response),
            None => drop(self.management.opened.insert(id, response)),
        }
    }
    /// The result of [`Router::open_face`], reported once.
    pub fn opened_face(&mut self, id: RequestId) -> Option<ControlResponse> {
        self.management.opened.remove(&id)
    }
    pub(super) fn requests_due(&self) -> Option<Time> {
        let requests = self.management.requests.values().map(|waiting| waiting.since + REQUEST_PATIENCE);
        let certificates =
            self.management.certified.waiting.iter().map(|checked| checked.requested + certified::PATIENCE);
        requests.chain(certificates).min()
    }
    pub(super) fn expire_requests(&mut self) {
        let now = self.now;
        self.expire_certificates();
        let late = |waiting: &Waiting| waiting.since + REQUEST_PATIENCE <= now;
        let gone: Vec<RequestId> =
            self.management.requests.iter().filter(|(_, waiting)| late(waiting)).map(|(id, _)| *id).collect();
        for id in gone {
            self.complete_face_request(now, id, Err(FaceRefusal::System("the face was not made in time".into())));
        }
    }
    /// Answers the Interests for the management.
    pub(super) fn run_management(&mut self) {
        while let Some((came_by, packet)) = self.management.queue.pop_front() {
            if let Ok(data) = Data::decode(&packet) {
                self.on_certificate(&packet, &data);
                continue;
            }
            let Ok(interest) = Interest::decode(&packet) else { continue };
            self.on_request(came_by, &packet, &interest);
        }
    }
    fn on_request(&mut self, came_by: Option<FaceId>, packet: &Bytes, interest: &Interest<'_>) {
        if let Some(data) = self.kept_segment(interest.name) {
            return self.publish(data);
        }
        let components: Vec<Component<'_>> = interest.name.components().skip(2).take(3).collect();
        let [module, verb, ..] = &components[..] else { return };
        let (module, verb) = (module.value, verb.value);
        let is_remote = NameView::from(&self.management.remote_prefix).is_prefix_of(interest.name);
        if !is_remote && let Some(content) = self.dataset(module, verb) {
            return self.publish_dataset(interest.name.prefix(4), content);
        }
        if !is_remote && module == b"faces" && verb == b"events" {
            return self.answer_from_face_events(interest);
        }
        let Some(parameters) = components.get(2) else { return };
        if !is_remote && module == b"faces" && verb == b"query" {
            if let Ok(filter) = FaceFilter::decode(parameters.value) {
                let content = self.faces_that_fit(&filter);
                self.publish_dataset(interest.name.prefix(5), content);
            }
            return;
        }
        let response = match ControlParameters::decode(parameters.value) {
            // A neighbour speaks for itself only.
            Ok(parameters) if is_remote && (module != b"rib" || parameters.face_id.unwrap_or(0) != 0) => {
                let text = "neighbours may register and unregister prefixes for themselves, nothing else".into();
                Some(ControlResponse { code: 403, text, body: None })
            }
            Ok(parameters)
                if self.is_of_other_user(came_by) && !is_about_itself(came_by, module, verb, &parameters) =>
            {
                let text = "programs of other users register prefixes for themselves, nothing else, unless `management` \
                            of this forwarder says otherwise";
                Some(ControlResponse { code: 403, text: text.into(), body: None })
            }
            // Cheap checks come before signatures.
            Ok(parameters) if is_remote && !self.may_register(came_by, parameters.name.as_ref()) => {
                let text = "neighbours of this forwarder may not register this prefix".into();
                Some(ControlResponse { code: 403, text, body: None })
            }
            Ok(parameters) => {
                // Commands about faces and about the whole store ignore a name, so it must not authorise them.
                let is_of_name = !matches!((module, verb), (b"faces", _) | (b"cs", b"config"));
                let subject = parameters.name.as_ref().filter(|_| is_of_name);
                match self.authorise(came_by, packet, interest, subject) {
                    Ok(Some(signed_at)) => {
                        came_by.filter(|_| is_remote).into_iter().for_each(|face| self.challenge(face));
                        self.command(came_by, packet, module, verb, parameters, signed_at)
                    }
                    Ok(None) => None,
                    Err(text) => Some(ControlResponse { code: 403, text, body: None }),
                }
            }
            Err(_) => Some(ControlResponse { code: 400, text: "malformed parameters".into(), body: None }),
        };
        if let Some(response) = response {
            self.respond(packet, &response);
        }
    }
    /// Whether a neighbour may register a prefix.
    fn may_register(&self, face: Option<FaceId>, prefix: Option<&Name>) -> bool {
        let Some(prefix) = prefix else { return true };
        if face.is_some_and(|face| !self.may_own(face, prefix)) {
            return false;
        }
        let scope = &self.config.registration_prefixes;
        match scope.is_empty() {
            true => {
                let first = prefix.components().next();
                first.is_some_and(|first| first != b"localhost" && first != b"localhop")
            }
            false => scope.iter().any(|allowed| allowed.is_prefix_of(prefix)),
        }
    }
    /// Whether a command comes from another user's program, which may command this forwarder only with an accepted
    /// signature.
    fn is_of_other_user(&self, came_by: Option<FaceId>) -> bool {
        let is_other = |face| self.faces.get(&face).is_some_and(|face| face.profile.scope == FaceScope::OtherUser);
        matches!(self.config.management, ManagementTrust::AnyLocal) && came_by.is_some_and(is_other)
    }
    /// Asks a neighbour that registers a prefix to prove its address: with a forged one, traffic would go to a third party.
    /// Until then it gets no more than [`Face::may_send`] allows.
    fn challenge(&mut self, face: FaceId) {
        let Some(challenged) = self.faces.get_mut(&face).filter(|face| !face.is_proven) else { return };
        let (of_face, at) = (face.0.to_be_bytes(), self.now.as_nanos().to_be_bytes());
        let drawn = digest(&[&self.secret, &of_face, &at, b"challenge"]);
        challenged.challenge(u32::from_be_bytes(*drawn.first_chunk().expect("a digest is longer")));
    }
    /// Whether a command is accepted, and its signing time if it has one; `None` if its certificates are missing.
    /// `subject` is the name that it concerns.
    fn authorise(
        &mut self,
        came_by: Option<FaceId>,
        packet: &Bytes,
        interest: &Interest<'_>,
        subject: Option<&Name>,
    ) -> Result<Option<Option<u64>>, String> {
        let is_remote = NameView::from(&self.management.remote_prefix).is_prefix_of(interest.name);
        if came_by.is_some_and(|face| !self.is_local(face)) && !is_remote {
            return Err("commands are taken from this machine only".into());
        }
        // By the signed part: the digest in the name covers more, so the same command could come under another name.
        let id = match interest.signature {
            Some(_) => interest.signed_parts().iter().fold(0, |hash, part| self.hasher.join(hash, part)),
            // In the older format the last component is the signature.
            None => self.hasher.name(interest.name.prefix(interest.name.len().saturating_sub(1))),
        };
        if self.management.seen.contains(id) {
            return Err("this command was here before".into());
        }
        let (signed, time) = match interest.signature {
            Some(info) => (self.is_obeyed(info, |key| interest.is_signed_by(key)), info.time),
            None => self.is_obeyed_legacy(interest.name),
        };
        if !signed {
            return Err("not signed by a trusted key".into());
        }
        if let ManagementTrust::Keys(_) | ManagementTrust::Anchors(_) = self.config.management {
            self.check_time(time)?;
        }
        if let ManagementTrust::Anchors(anchors) = self.config.management.clone() {
            let own = if is_remote { &self.management.remote_prefix } else { &self.management.prefix };
            let subject = subject.unwrap_or(own).clone();
            match self.authority(&anchors, came_by, packet, &subject) {
                certified::Authority::Vouched => {}
                certified::Authority::Unknown => return Ok(None),
                certified::Authority::Refused(reason) => return Err(reason),
            }
        }
        self.management.seen.insert(self.now, id);
        Ok(Some(time))
    }
    /// Whether a command was signed now, and not before this forwarder started: it remembers commands since then.
    fn check_time(&self, millis: Option<u64>) -> Done {
        let signed_at = Duration::from_millis(millis.ok_or("it does not say when it was signed")?);
        let clock = self.config.epoch + self.now.since(Time::ZERO);
        if signed_at.abs_diff(clock) > CLOCK_GRACE {
            return Err("signed long ago, or one of the two clocks is wrong");
        }
        if signed_at.as_millis() < self.config.epoch.as_millis() {
            return Err("signed before this forwarder started, or by a clock that is slow");
        }
        Ok(())
    }
    fn is_obeyed(&self, info: SignatureInfo<'_>, is_signed_by: impl Fn(&VerifyKey) -> bool) -> bool {
        match &self.config.management {
            ManagementTrust::Nobody => false,
            // Any local program may; a right digest only excludes damage.
            ManagementTrust::AnyLocal | ManagementTrust::AnyUser => {
                info.kind != VerifyKey::Digest.kind() || is_signed_by(&VerifyKey::Digest)
            }
            ManagementTrust::Keys(keys) => keys.iter().any(is_signed_by),
            // The chain of certificates shows it.
            ManagementTrust::Anchors(_) => info.kind.is_by_key(),
        }
    }
    /// Command Interests of format 0.2: parameters, timestamp, nonce, signature info and value are name components. Whether
    /// it is obeyed, and its timestamp in milliseconds.
    fn is_obeyed_legacy(&self, name: NameView<'_>) -> (bool, Option<u64>) {
        if let ManagementTrust::Anchors(_) = self.config.management {
            // Chains are followed for signed Interests of format 0.3.
            return (false, None);
        }
        let components: Vec<Component<'_>> = name.components().collect();
        let [.., time, _, info, value] = &components[..] else { return (false, None) };
        if components.len() < 9 {
            return (false, None);
        }
        let info = tlv::only("SignatureInfo", info.value, types::SIGNATURE_INFO)
            .and_then(SignatureInfo::decode)
            .map(|(info, _)| info);
        let value = tlv::only("SignatureValue", value.value, types::SIGNATURE_VALUE);
        let (Ok(info), Ok(value)) = (info, value) else { return (false, None) };
        let signed = name.parent();
        (self.is_obeyed(info, |key| key.verify(info.kind, &[signed.as_tlv()], value)), time.number())
    }

    fn respond(&mut self, interest: &Bytes, response: &ControlResponse) {
        let Ok(interest) = Interest::decode(interest) else { return };
        let content = response.encode();
        let data = Data::new(interest.name, &content).sign(&SignKey::Digest);
        self.publish(data.into());
    }
    fn publish(&mut self, data: Bytes) {
        // Perhaps no face is waiting; then this does nothing.
        let _ = self.on_data(FACE_MANAGEMENT, &LpPacket::default(), data);
    }
    /// Answers with a dataset in segments below a new version of the name `requested`.
    fn publish_dataset(&mut self, requested: NameView<'_>, content: Vec<u8>) {
        let now = self.now;
        let Ok(base) = requested.to_name() else { return };
        self.management.version =
            self.management.version.max((self.config.epoch + now.since(Time::ZERO)).as_micros() as u64) + 1;
        let Ok(versioned) = base.typed_child(types::VERSION, &number(self.management.version)) else { return };
        let dataset = Dataset { versioned, content, requested_at: now };
        if let Some(first) = dataset.segment(0) {
            self.publish(first);
        }
        // Also one of a single segment: ndnd's tools request by version the segment that they have.
        let kept = &mut self.management.datasets;
        kept.retain(|old| now.since(old.requested_at) < DATASET_PATIENCE);
        kept.push_back(dataset);
        let is_too_much = |kept: &VecDeque<Dataset>| {
            kept.len() > 1 && kept.iter().map(|kept| kept.content.len()).sum::<usize>() > DATASETS_KEPT.0
        };
        while kept.len() > DATASETS_KEPT.1 || is_too_much(kept) {
            kept.pop_front();
        }
    }
    /// The segment of a dataset that is kept.
    fn kept_segment(&mut self, name: NameView<'_>) -> Option<Bytes> {
        let segment = name.last().filter(|last| last.kind == types::SEGMENT)?.number()?;
        let versioned = name.parent();
        let kept = self.management.datasets.iter_mut();
        let dataset = kept.rev().find(|dataset| NameView::from(&dataset.versioned) == versioned)?;
        dataset.requested_at = self.now;
        dataset.segment(usize::try_from(segment).ok()?)
    }
}

/// Whether a command concerns only its own arrival face.
fn is_about_itself(came_by: Option<FaceId>, module: &[u8], verb: &[u8], parameters: &ControlParameters) -> bool {
    let is_own = parameters.face_id.is_none_or(|face| face == 0 || came_by.is_some_and(|own| face == u64::from(own.0)));
    is_own && matches!((module, verb), (b"rib", b"register" | b"unregister") | (b"faces", b"update"))
}
