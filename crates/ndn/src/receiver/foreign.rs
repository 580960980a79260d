//! Foreign objects: published without a manifest of ours, found by discovery (RDR), verified segment by segment.
//!
//! ```text
//!  /name/32=metadata, else /name ─► version ─► segment 0 ─► last segment ─► size, described to the transfer
//!                              │                │  └─► not named: looked for ([`last_segment`])
//!                              │                └─► who signs ─► the key that its locator names ─► who vouches for it
//!                              │                │   under trust anchors: the chain of certificates to one of them
//!                              │                └─► by HMAC: the key that is shared with its publishers
//!                              └─► one Data of that very name: this is all
//!
//!  a segment of another size than the first ─► all of them, put together in memory ([`unequal_segments`])
//! ```
//! Any node may have answered, and caches keep stale or forged Data. An unusable answer is requested again past caches;
//! after too many of them, or when a stage takes too long, discovery restarts, alternately past caches and not.
use alloc::{borrow::ToOwned, boxed::Box, collections::BTreeSet, format, string::String, sync::Arc, vec::Vec};

use tributary_content::{Manifest, Name, PublicKey};
use tributary_core::{Duration, Time};
use tributary_transport::transfer::CacheUse;

mod last_segment;
mod segmentation;
mod signer;
mod unequal_segments;

use last_segment::EndSearch;
use unequal_segments::Gather;

use crate::{
    config::Unsigned,
    naming,
    receiver::fetch::Trust,
    trust::{Anchors, Chain, stand_in},
    wire::{Certificate, ContentType, Data, KeyLocator, NameView, SignatureType, VerifyKey, tlv, types},
};

/// How long an answer may take before the question is repeated.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often the issuer's certificate of a key is requested.
const ISSUER_QUESTIONS_MAX: u32 = 4;
/// Unusable answers in one stage after which discovery restarts.
const REFUSED_MAX: u32 = 4;
/// First limit of a stage's duration before discovery restarts: the usual lifetime of an Interest.
const STAGE_TIME: Duration = Duration::from_secs(2);
/// How often that doubles, as answers may be slow or get lost.
const STAGE_DOUBLINGS_MAX: u32 = 2;
/// Rounds in which an untrusted object is requested again: with and without caches.
const UNTRUSTED_ROUNDS: u32 = 2;
tributary_core::declared! {
    /// Discovery of an object without a manifest.
    #[derive(Default)]
    pub(super) struct Foreign {
        object: Name = object.clone(),
        /// The name with its version, once that is known.
        versioned: Name = object.clone(),
        stage: Stage = Stage::start(object),
        requested: Option<(Name, Time)> = None,
        /// Requests so far; discovery alternates between the two names that producers answer.
        questions: u32 = 0,
        first: Option<Segment> = None,
        /// The key shared with its publishers: no other counts.
        shared: Option<VerifyKey> = trust.shared.clone(),
        /// The only accepted certificate, if the user has pinned one.
        pinned: Option<Certificate> = trust.pinned.clone(),
        /// The trust anchors, if any decides about the object's name: then nothing else counts.
        anchors: Option<Arc<Anchors>> = trust.anchors.cover(object).then(|| trust.anchors.clone()),
        unsigned: Unsigned = trust.unsigned,
        /// Unix time of the driver's epoch: certificates count for a time.
        epoch: Duration = trust.epoch,
        /// Requests for the key's issuer.
        issuer_requests: u32 = 0,
        /// Segments with a wrong signature; they are requested past caches only.
        pub bad: BTreeSet<u32> = BTreeSet::new(),
        /// How often discovery has restarted.
        rounds: u32 = 0,
        /// When it does so next.
        until: Option<Time> = None,
        /// Answers in this stage that could not be used.
        refused: u32 = 0,
        /// Whether to request the version itself next in place of its segment 0: it may be a single Data.
        requests_version: bool = false,
        /// Whether anything was requested in this stage.
        has_requested: bool = false,
        /// How often the last segment has named a later one.
        last_moves: u32 = 0,
        /// The maximum number of assembled segments so far.
        gathered_most: u32 = 0,
        /// Whether its producer denies its existence.
        pub is_absent: bool = false,
        /// Whether a segment of the object came from a producer, so that it exists.
        pub is_confirmed: bool = false,
        /// Why the last found object could not be fetched.
        obstacle: Option<String> = None,
        /// The last such reason that was reported.
        reported: Option<String> = None,
    }
    pub(super) fn new(object: &Name, trust: &Trust) {}
}

#[derive(Default)]
enum Stage {
    /// Which version exists?
    #[default]
    Version,
    /// Whose key is it?
    Key { locator: Name },
    /// Who vouches for that key?
    Issuer { issuer: Name, certificate: bytes::Bytes },
    /// Which certificates link that key to a trust anchor?
    Chain { chain: Box<Chain> },
    /// How are they cut?
    First,
    /// Which one is the last?
    End { search: EndSearch },
    /// How long is the last one?
    Last { last: u64 },
    /// Segments of unequal sizes are put together.
    Gather { gather: Box<Gather> },
    /// Everything is known.
    Known(Box<Known>),
    /// Its producer announces a manifest, which the probes request.
    Ours,
    /// A manifest has arrived.
    Over,
}

/// A question of the discovery.
pub(super) struct Question {
    pub(super) name: Name,
    /// Whether a longer name may answer, and a fresh one only.
    pub(super) discovers: bool,
    /// Whether caches may.
    pub(super) caches: CacheUse,
}

impl Stage {
    /// Where discovery starts: a name with a version needs none.
    fn start(object: &Name) -> Stage {
        match NameView::from(object).last().is_some_and(|last| last.kind == types::VERSION) {
            true => Stage::First,
            false => Stage::Version,
        }
    }
}

struct Segment {
    packet: bytes::Bytes,
    kind: SignatureType,
    key: Option<VerifyKey>,
    publisher: PublicKey,
    /// Who vouches for the key, in words.
    vouched: String,
    /// Whether it is the complete object, under a name that ends in no segment.
    is_single: bool,
}

/// A foreign object, ready to be fetched.
pub(super) struct Known {
    pub(super) versioned: Name,
    pub(super) segments: u32,
    pub(super) segment_bytes: u16,
    pub(super) producer: String,
    pub(super) manifest: Manifest,
    /// The object, if it was assembled in memory; its packets are cut from this.
    pub(super) gathered: Option<Vec<u8>>,
    /// Bytes of the last segment.
    tail: u32,
    is_single: bool,
    kind: SignatureType,
    key: VerifyKey,
}

/// The result of an answer.
pub(super) enum Found {
    /// It is not part of this.
    Nothing,
    /// One step further.
    Step,
    /// More of it than ever before is assembled in memory.
    Progress,
    /// The object can be fetched; a note for the user about its signer.
    Object(String),
    /// It cannot be used; if that is news, why it cannot be fetched.
    Refused(Option<String>),
}

/// The next stage and, with the last one, a note for the user about the signer; or why an answer cannot be used.
type Next = Result<(Stage, Option<String>), String>;

impl Foreign {
    /// A manifest has arrived: the object is one of ours.
    pub(super) fn end(&mut self) {
        if !self.is_confirmed {
            self.stage = Stage::Over;
        }
    }
    /// A producer has sent a segment: the findings stay.
    pub(super) fn confirm(&mut self) {
        self.is_confirmed = true;
    }
    /// Whether a foreign object was found, so that it may still be fetched.
    pub(super) fn is_found(&self) -> bool {
        !self.is_at_start() && !matches!(self.stage, Stage::Ours | Stage::Over)
    }
    /// Why the last found object could not be fetched.
    pub(super) fn obstacle(&self) -> Option<&str> {
        self.obstacle.as_deref()
    }
    pub(super) fn known(&self) -> Option<&Known> {
        match &self.stage {
            Stage::Known(known) => Some(known),
            _ => None,
        }
    }
    /// The next request, at least `pause` after the last one.
    pub(super) fn poll(&mut self, now: Time, pause: Duration) -> Option<Question> {
        if matches!(self.stage, Stage::Gather { .. }) {
            self.give_up_stage(now);
        }
        if let Stage::Gather { gather } = &mut self.stage {
            let number = gather.poll(now)?;
            let caches = if self.bad.contains(&number) { CacheUse::Bypassed } else { CacheUse::Allowed };
            return Some(Question { name: segment(&self.versioned, number.into())?, discovers: false, caches });
        }
        if self.requested.as_ref().is_some_and(|(_, requested)| *requested + PATIENCE.max(pause) > now) {
            return None;
        }
        if self.requested.is_some() && self.has_requested {
            self.on_silence();
        }
        self.give_up_issuer();
        self.give_up_stage(now);
        let (name, discovers) = match &self.stage {
            Stage::Version if self.questions.is_multiple_of(2) => {
                (self.object.typed_child(types::KEYWORD, naming::METADATA).ok()?, true)
            }
            Stage::Version => (self.object.clone(), true),
            Stage::Key { locator } => (locator.clone(), true),
            Stage::Chain { chain } => (chain.needs().clone(), true),
            Stage::Issuer { issuer, .. } => {
                self.issuer_requests += 1;
                (issuer.clone(), true)
            }
            Stage::First if self.requests_version => (self.versioned.clone(), false),
            Stage::First => (segment(&self.versioned, 0)?, false),
            Stage::End { search } => (segment(&self.versioned, search.next()?)?, false),
            Stage::Last { .. } if self.first.as_ref().is_some_and(|first| first.is_single) => {
                (self.versioned.clone(), false)
            }
            Stage::Last { last } => (segment(&self.versioned, *last)?, false),
            Stage::Gather { .. } | Stage::Known(_) | Stage::Ours | Stage::Over => return None,
        };
        self.questions += 1;
        self.has_requested = true;
        self.requested = Some((name.clone(), now));
        let is_suspect = self.refused > 0 || !self.rounds.is_multiple_of(2);
        let caches = if is_suspect { CacheUse::Bypassed } else { CacheUse::Allowed };
        Some(Question { name, discovers, caches })
    }
    /// The answer did not arrive.
    fn on_silence(&mut self) {
        match &mut self.stage {
            // Whose version a person has named, it may be one Data.
            Stage::First if self.versioned == self.object => self.requests_version = !self.requests_version,
            Stage::End { search } => {
                search.on_silence();
                self.give_up_end();
            }
            _ => {}
        }
    }
    /// Restarts discovery when no segment that arrives names the last one.
    fn give_up_end(&mut self) {
        let Stage::End { search } = &self.stage else { return };
        if search.next().is_some() {
            return;
        }
        let low = search.low;
        self.obstacle = Some(format!(
            "none of its segments says which one is the last (FinalBlockId): segment {low} does not, and no segment {} \
             comes",
            low + 1
        ));
        self.begin_anew();
    }
    /// Continues without the issuer's certificate, if it does not arrive.
    fn give_up_issuer(&mut self) {
        if self.issuer_requests < ISSUER_QUESTIONS_MAX {
            return;
        }
        let Stage::Issuer { issuer, .. } = &self.stage else { return };
        let Some(first) = &mut self.first else { return };
        first.vouched = format!(", a key whose certificate by '{issuer}' could not be checked: it does not come");
        self.go_on();
    }
    /// Continues with an object whose key is not available even past caches, as with other programs' default keys: it
    /// counts as unsigned. True if it does.
    fn goes_on_without_key(&mut self) -> bool {
        let (Stage::Key { .. }, Some(first)) = (&self.stage, &mut self.first) else { return false };
        if self.rounds == 0 || self.refused > 0 || self.unsigned == Unsigned::Refused {
            return false;
        }
        first.key = Some(VerifyKey::Missing(first.kind));
        first.vouched =
            ", a key without an available certificate: no signature is verified, anybody may have made it".into();
        self.go_on();
        true
    }
    /// Continues with the last segment, once nothing more can be learned about the key.
    fn go_on(&mut self) {
        let Some(first) = &self.first else { return };
        // With one segment the outcome follows when that is requested again.
        let last = final_of(first).unwrap_or(0);
        match self.measure() {
            Ok((stage @ (Stage::End { .. } | Stage::Last { .. }), _)) => self.enter(stage),
            _ => self.enter(Stage::Last { last }),
        }
    }
    /// Restarts discovery when a stage takes too long. Until a producer has answered, caches may answer without end.
    fn give_up_stage(&mut self, now: Time) {
        if self.is_confirmed || matches!(self.stage, Stage::Issuer { .. } | Stage::End { .. } | Stage::Over) {
            return;
        }
        let doubled = 1 << self.rounds.min(STAGE_DOUBLINGS_MAX);
        // Segments are requested by probes, a second apart.
        let times = match self.stage {
            Stage::Known(_) | Stage::Ours => 2 * doubled,
            // Their patience grows before they fail.
            Stage::Gather { .. } => 8 * doubled,
            _ => doubled,
        };
        let until = *self.until.get_or_insert(now + STAGE_TIME * times);
        let has_begun = self.rounds > 0 || self.refused > 0 || !self.is_at_start();
        if now < until || !has_begun {
            return;
        }
        if self.goes_on_without_key() {
            return;
        }
        if self.refused == 0 {
            self.obstacle = self.silence().or(self.obstacle.take());
        }
        self.begin_anew();
    }
    fn is_at_start(&self) -> bool {
        match &self.stage {
            Stage::Version => true,
            Stage::First => self.versioned == self.object,
            _ => false,
        }
    }
    /// The missing answer; `None` if nothing shows that it exists.
    fn silence(&self) -> Option<String> {
        let versioned = &self.versioned;
        let what = match &self.stage {
            _ if self.is_at_start() => return None,
            Stage::Version | Stage::Issuer { .. } | Stage::End { .. } | Stage::Over => return None,
            Stage::Gather { gather } => format!("segment {} of '{versioned}' does not come", gather.missing()),
            Stage::First => format!("the first segment of '{versioned}' does not come"),
            Stage::Key { locator } => format!(
                "the key that signs it, '{locator}', does not come; if its certificate is at hand as a file, name that with \
                 --publisher FILE or in a section [[trust_anchor]]"
            ),
            Stage::Chain { chain } => {
                format!("the certificate '{}', on the way to a trust anchor, does not come", chain.needs())
            }
            Stage::Last { last } => format!("the last segment of '{versioned}', {last}, does not come"),
            Stage::Known(_) => format!("no segment of '{versioned}' comes from a producer"),
            Stage::Ours => "its metadata names a manifest, which does not arrive".into(),
        };
        Some(what)
    }
    fn begin_anew(&mut self) {
        self.rounds = self.rounds.saturating_add(1);
        self.versioned.clone_from(&self.object);
        self.first = None;
        self.last_moves = 0;
        self.bad.clear();
        self.enter(Stage::start(&self.object));
    }
    fn enter(&mut self, stage: Stage) {
        (self.stage, self.until, self.refused, self.issuer_requests) = (stage, None, 0, 0);
        (self.requests_version, self.has_requested) = (false, false);
    }
    pub(super) fn poll_timeout(&self, pause: Duration) -> Option<Time> {
        match self.stage {
            Stage::Over => None,
            Stage::Known(_) if self.is_confirmed => None,
            Stage::Gather { ref gather } => gather.poll_timeout().into_iter().chain(self.until).min(),
            Stage::Known(_) | Stage::Ours => Some(self.until.unwrap_or(Time::ZERO)),
            _ => Some(self.requested.as_ref().map_or(Time::ZERO, |(_, requested)| *requested + PATIENCE.max(pause))),
        }
    }
    /// Whether a Data of this name may answer the last question of the discovery.
    pub(super) fn awaits(&self, name: NameView<'_>) -> bool {
        self.requested.as_ref().is_some_and(|(requested, _)| NameView::from(requested).is_prefix_of(name))
    }
    /// Takes a Data that may answer the last question.
    pub(super) fn handle_data(&mut self, now: Time, packet: &bytes::Bytes, data: &Data<'_>) -> Found {
        if matches!(self.stage, Stage::Gather { .. }) {
            return self.on_gathered(now, data);
        }
        let Some((requested, _)) = &self.requested else { return Found::Nothing };
        if !NameView::from(requested).is_prefix_of(data.name) {
            return Found::Nothing;
        }
        let is_exact = requested.as_tlv().len() == data.name.as_tlv().len();
        let wants_exact = matches!(self.stage, Stage::First | Stage::End { .. } | Stage::Last { .. });
        if wants_exact && !is_exact {
            return Found::Nothing;
        }
        if data.content_type() == ContentType::Nack && !naming::has_manifest(data) {
            // Producers deny unknown names, such as the probes for a manifest of ours.
            if !is_exact {
                return Found::Nothing;
            }
            if matches!(self.stage, Stage::Version | Stage::First | Stage::Last { .. }) {
                self.is_absent = true;
                return self.refuse("its producer says that it does not exist (application Nack)".into());
            }
        }
        let next = match &self.stage {
            Stage::Version => self.on_version(now, packet, data),
            Stage::First => self.on_first(now, packet, data),
            Stage::Chain { chain } => self.on_chain(now, chain.clone(), packet),
            Stage::Key { locator } => self.on_key(now, &locator.clone(), packet, data),
            Stage::Issuer { issuer, certificate } => self.on_issuer(now, &issuer.clone(), &certificate.clone(), data),
            Stage::End { .. } => self.on_end(data),
            Stage::Last { last } => self.on_last(*last, data),
            Stage::Gather { .. } | Stage::Known(_) | Stage::Ours | Stage::Over => return Found::Nothing,
        };
        match next {
            Ok((stage, advice)) => {
                self.requested = None;
                self.is_absent = false;
                self.enter(stage);
                advice.map_or(Found::Step, Found::Object)
            }
            Err(reason) => self.refuse(reason),
        }
    }
    /// Rejects an unusable answer. The first time it is requested again at once.
    fn refuse(&mut self, reason: String) -> Found {
        self.refused += 1;
        self.obstacle = Some(reason);
        if self.refused == 1 {
            self.requested = None;
        }
        if self.refused < REFUSED_MAX {
            return Found::Refused(None);
        }
        self.begin_anew();
        let is_news = self.reported != self.obstacle;
        self.reported.clone_from(&self.obstacle);
        Found::Refused(self.reported.clone().filter(|_| is_news))
    }
    /// The found object is untrusted: caches may have kept a forged one. True if discovery starts again.
    pub(super) fn look_elsewhere(&mut self, now: Time) -> bool {
        let is_early = self.rounds < UNTRUSTED_ROUNDS;
        if is_early {
            self.begin_anew();
            self.requested = Some((self.object.clone(), now));
        }
        is_early
    }
    fn on_version(&mut self, now: Time, packet: &bytes::Bytes, data: &Data<'_>) -> Next {
        // A producer of this program: its manifest is requested already. Its segments reveal that too, and caches keep
        // them longer.
        if naming::has_manifest(data) {
            return Ok((Stage::Ours, None));
        }
        let is_metadata =
            data.name.components().any(|part| part.kind == types::KEYWORD && part.value == naming::METADATA);
        let versioned = if is_metadata {
            match read_metadata(data.content.unwrap_or(&[])) {
                Some((_, true)) => return Ok((Stage::Ours, None)),
                Some((versioned, false)) => Some(versioned),
                None => None,
            }
        } else {
            // A segment that answers for the complete name.
            data.name.parent().to_name().ok().filter(|_| data.name.last().is_some_and(|c| c.kind == types::SEGMENT))
        };
        match versioned {
            Some(versioned) if self.object.is_prefix_of(&versioned) => {
                self.versioned = versioned;
                Ok((Stage::First, None))
            }
            Some(elsewhere) => Err(format!("its metadata names another object, '{elsewhere}'")),
            // A single Data of that very name is the complete object.
            None if data.name.as_tlv() == self.object.as_tlv().as_ref() => {
                self.versioned.clone_from(&self.object);
                self.on_first(now, packet, data)
            }
            None => Err("what answers for its name is neither metadata nor a segment".into()),
        }
    }
    fn on_first(&mut self, now: Time, packet: &bytes::Bytes, data: &Data<'_>) -> Next {
        let kind = data.signature.kind;
        if naming::has_manifest(data) {
            return Ok((Stage::Ours, None));
        }
        match data.content_type() {
            ContentType::Link => {
                let reason = "it is a Link object: it names where its content can be had, which is not followed here";
                return Err(reason.into());
            }
            ContentType::Flic => return Err("it is a FLIC manifest: collections of that kind are not read here".into()),
            _ => {}
        }
        let is_single = data.name.as_tlv() == self.versioned.as_tlv().as_ref();
        if let Some(shared) = self.shared.clone() {
            return self.on_shared(packet, data, shared, is_single);
        }
        if self.pinned.is_some() || self.anchors.is_some() {
            return self.on_certified(now, packet, data, is_single);
        }
        if kind == SignatureType::DigestSha256 && self.unsigned == Unsigned::Refused {
            return Err("it is unsigned and has only a digest; `unsigned` of [ndn] refuses such objects".into());
        }
        if kind == SignatureType::DigestSha256 {
            if !data.is_signed_by(&VerifyKey::Digest) {
                return Err("its first segment is damaged: it has another digest".into());
            }
            let (key, publisher) = (Some(VerifyKey::Digest), stand_in(b"nobody"));
            self.first =
                Some(Segment { packet: packet.clone(), kind, key, publisher, vouched: String::new(), is_single });
            return self.measure();
        }
        if kind == SignatureType::Hmac {
            return Err("its segments are signed with a shared key (HMAC): name it in a section [[shared_key]]".into());
        }
        let locator = match (kind, data.signature.key_locator) {
            (kind, Some(KeyLocator::Name(name))) if kind.is_by_key() => name.to_name().ok(),
            _ => None,
        };
        let Some(locator) = locator else {
            return Err(format!("its segments are signed in a way that cannot be verified here: {kind:?}"));
        };
        let (packet, publisher) = (packet.clone(), stand_in(b"nobody"));
        self.first = Some(Segment { packet, kind, key: None, publisher, vouched: String::new(), is_single });
        Ok((Stage::Key { locator }, None))
    }
    /// The segment number of a Data of the object, if its signature is right. Until a producer has sent a segment, the
    /// findings themselves may be forged.
    pub(super) fn verified(&mut self, data: &Data<'_>) -> Option<u32> {
        let Stage::Known(known) = &self.stage else { return None };
        let segment = known.segment(data.name)?;
        let is_alike = data.signature.kind == known.kind && !naming::has_manifest(data);
        if is_alike && data.is_signed_by(&known.key) {
            self.bad.remove(&segment);
            return Some(segment);
        }
        self.bad.insert(segment);
        if !self.is_confirmed {
            self.refuse("its segments are not signed by the key of its first and last segment".into());
        }
        None
    }
}

impl Known {
    /// Whether a segment has as many bytes as follows from the first and the last one.
    pub(super) fn fits(&self, segment: u32, bytes: usize) -> bool {
        let is_last = segment + 1 == self.segments;
        bytes == if is_last { self.tail as usize } else { usize::from(self.segment_bytes) }
    }
    /// The bytes of a packet of an object assembled in memory.
    pub(super) fn gathered_packet(&self, packet: u32) -> Option<&[u8]> {
        let complete = self.gathered.as_ref()?;
        let start = packet as usize * usize::from(self.segment_bytes);
        complete.get(start..complete.len().min(start + usize::from(self.segment_bytes)))
    }
    /// The name of a segment.
    pub(super) fn name(&self, number: u32) -> Option<Name> {
        if self.is_single {
            return Some(self.versioned.clone());
        }
        segment(&self.versioned, u64::from(number))
    }
    /// The segment that a name is.
    pub(super) fn segment(&self, name: NameView<'_>) -> Option<u32> {
        if self.is_single {
            return (name.as_tlv() == self.versioned.as_tlv().as_ref()).then_some(0);
        }
        let last = name.last().filter(|last| last.kind == types::SEGMENT)?;
        let number = u32::try_from(last.number()?).ok().filter(|number| *number < self.segments)?;
        (name.parent().as_tlv() == self.versioned.as_tlv().as_ref()).then_some(number)
    }
}

fn segment(versioned: &Name, number: u64) -> Option<Name> {
    versioned.typed_child(types::SEGMENT, &naming::number(number)).ok()
}
/// The number of the last segment according to the first one.
fn final_of(first: &Segment) -> Option<u64> {
    final_segment(&Data::decode(&first.packet).ok()?)
}
/// The number of the last segment according to a Data.
fn final_segment(data: &Data<'_>) -> Option<u64> {
    data.final_block().filter(|last| last.kind == types::SEGMENT).and_then(|last| last.number())
}
fn key_name(data: &Data<'_>) -> Option<String> {
    match data.signature.key_locator {
        Some(KeyLocator::Name(name)) => name.to_name().ok().map(|name| format!("'{name}'")),
        _ => None,
    }
}
/// The versioned name in metadata, and whether its producer shows a manifest.
fn read_metadata(content: &[u8]) -> Option<(Name, bool)> {
    let mut reader = tlv::Reader::new("metadata", content);
    let (mut versioned, mut has_manifest) = (None, false);
    while let Ok(Some(element)) = reader.element() {
        match element.kind {
            types::NAME if versioned.is_none() => {
                versioned = NameView::parse(element.value).ok().and_then(|name| name.to_name().ok());
            }
            naming::HAS_MANIFEST => has_manifest = true,
            _ => {}
        }
    }
    versioned.map(|name| (name.to_owned(), has_manifest))
}
#[cfg(test)]
mod tests;
