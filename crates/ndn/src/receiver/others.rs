//! Objects of others: published without a manifest of ours, found by discovery (RDR), verified segment by segment.
//!
//! ```text
//!  /name/32=metadata, else /name ─► version ─► segment 0 ─► last segment ─► size, described to the transfer
//!                              │                │  └─► not named: looked for ([`end`])
//!                              │                └─► who signs ─► the key that its locator names ─► who vouches for it
//!                              │                └─► by HMAC: the key that is shared with its publishers
//!                              └─► one Data of that very name: this is all
//!
//!  a segment of another size than the first ─► all of them, put together in memory ([`gather`])
//! ```
//! Anybody may have answered, and caches keep what is stale or forged. An answer that cannot be used is asked for again past
//! caches; after too many of them, or where a stage takes too long, discovery begins anew, by turns past caches and not.
use alloc::{
    borrow::ToOwned,
    boxed::Box,
    collections::BTreeSet,
    format,
    string::{String, ToString},
    vec::Vec,
};

use tributary_content::{Manifest, Name, PublicKey};
use tributary_core::{Duration, Time};
use tributary_transport::transfer::CacheUse;

mod end;
mod gather;

use end::EndSearch;
use gather::{GATHERED_BYTES_MAX, GATHERED_SEGMENTS_MAX, Gather};

use crate::{
    naming,
    wire::{
        ContentType, Data, KeyLocator, NameView, SignatureType, VerifyKey,
        signature::{ED25519_INFO, digest},
        tlv, types,
    },
};

/// How long an answer may take before it is asked for again.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often the certificate of the one who vouches for a key is asked for.
const ISSUER_QUESTIONS_MAX: u32 = 4;
/// Answers in one stage that cannot be used, after which discovery begins anew.
const REFUSED_MAX: u32 = 4;
/// How long a stage may take the first time before discovery begins anew: as long as an Interest usually lives.
const STAGE_TIME: Duration = Duration::from_secs(2);
/// How often that doubles, as answers may be slow or get lost.
const STAGE_DOUBLINGS_MAX: u32 = 2;
/// Rounds in which an object of somebody who is not trusted is asked for again: with and without caches.
const UNTRUSTED_ROUNDS: u32 = 2;
/// How often the last segment may name a later one as the last: somebody is publishing still.
const LAST_MOVES_MAX: u32 = 8;
/// Into packets of so many bytes an object is cut that was put together in memory.
const GATHERED_CUT: u16 = 8000;
/// Bytes of a chunk at least; it has as many segments as that takes.
const CHUNK_BYTES_MIN: u32 = 256 << 10;

/// What is known of an object of which nobody has shown a manifest.
pub(super) struct Others {
    object: Name,
    stage: Stage,
    asked: Option<(Name, Time)>,
    /// Questions so far; discovery takes turns between the two names that producers answer.
    questions: u32,
    first: Option<Segment>,
    /// The key that is shared with those who publish it: nothing else counts.
    shared: Option<VerifyKey>,
    /// Unix time of the driver's epoch: certificates count for a time.
    epoch: Duration,
    /// Questions about who vouches for the key.
    issuer_asked: u32,
    /// Segments that came with a wrong signature; they are asked of producers only.
    bad: BTreeSet<u32>,
    /// How often discovery began anew.
    rounds: u32,
    /// When it does so next.
    until: Option<Time>,
    /// Answers in this stage that could not be used.
    refused: u32,
    /// Whether the version itself is asked for next in place of its segment 0: it may be one Data.
    asks_whole: bool,
    /// Whether anything was asked for in this stage.
    has_asked: bool,
    /// How often the last segment has named a later one.
    last_moves: u32,
    /// How many segments were together at most.
    gathered_most: u32,
    /// Whether its producer says that it does not exist.
    is_absent: bool,
    /// Whether what was found has shown to be there: a segment of it came from a producer.
    is_confirmed: bool,
    /// Why what was found last could not be fetched.
    obstacle: Option<String>,
    /// The last such reason that was told.
    told: Option<String>,
}

enum Stage {
    /// Which version is there?
    Version,
    /// Whose key is it?
    Key { versioned: Name, locator: Name },
    /// Who vouches for that key?
    Issuer { versioned: Name, issuer: Name, certificate: bytes::Bytes },
    /// How are they cut?
    First { versioned: Name },
    /// Which one is the last?
    End { versioned: Name, search: EndSearch },
    /// How long is the last one?
    Last { versioned: Name, last: u64 },
    /// Segments of unequal sizes are put together.
    Gather { versioned: Name, gather: Box<Gather> },
    /// All is known.
    Known(Box<Known>),
    /// Its producer says that it shows a manifest, which others ask for.
    Ours,
    /// A manifest came.
    Over,
}

/// What is asked to find out what there is.
pub(super) struct Question {
    pub(super) name: Name,
    /// Whether a longer name may answer, and a fresh one only.
    pub(super) discovers: bool,
    /// Whether caches may.
    pub(super) caches: CacheUse,
}

impl Stage {
    /// Where discovery begins: a name with a version needs none.
    fn start(object: &Name) -> Stage {
        match NameView::from(object).last().is_some_and(|last| last.kind == types::VERSION) {
            true => Stage::First { versioned: object.clone() },
            false => Stage::Version,
        }
    }
}

/// What segment 0 told.
struct Segment {
    packet: bytes::Bytes,
    kind: SignatureType,
    key: Option<VerifyKey>,
    publisher: PublicKey,
    /// Who vouches for the key, in words.
    vouched: String,
    /// Whether it is the whole object, under a name that ends in no segment.
    is_single: bool,
}

/// An object of others, ready to be fetched.
pub(super) struct Known {
    pub(super) versioned: Name,
    pub(super) segments: u32,
    pub(super) segment_bytes: u16,
    pub(super) producer: String,
    pub(super) manifest: Manifest,
    /// The object, if it was put together in memory; its packets are cut from this.
    pub(super) gathered: Option<Vec<u8>>,
    /// Bytes of the last segment.
    tail: u32,
    is_single: bool,
    kind: SignatureType,
    key: VerifyKey,
}

/// What came of an answer.
pub(super) enum Found {
    /// It does not belong here.
    Nothing,
    /// One step further.
    Step,
    /// More of it has come than ever before, put together in memory.
    Progress,
    /// The object can be fetched, and what a person should know of who signs it.
    Object(String),
    /// It cannot be used; if that is news, why it cannot be fetched.
    Refused(Option<String>),
}

/// The next stage and, with the last one, what a person should know of who signs it; or why an answer cannot be used.
type Next = Result<(Stage, Option<String>), String>;

impl Others {
    pub(super) fn new(object: &Name, shared: Option<VerifyKey>, epoch: Duration) -> Others {
        Others {
            object: object.clone(),
            stage: Stage::start(object),
            asked: None,
            questions: 0,
            first: None,
            shared,
            epoch,
            issuer_asked: 0,
            bad: BTreeSet::new(),
            rounds: 0,
            until: None,
            refused: 0,
            asks_whole: false,
            has_asked: false,
            last_moves: 0,
            gathered_most: 0,
            is_absent: false,
            is_confirmed: false,
            obstacle: None,
            told: None,
        }
    }
    /// A manifest came: the object is one of ours.
    pub(super) fn end(&mut self) {
        if !self.is_confirmed {
            self.stage = Stage::Over;
        }
    }
    /// A segment came from a producer: what is known stays.
    pub(super) fn confirm(&mut self) {
        self.is_confirmed = true;
    }
    pub(super) fn is_confirmed(&self) -> bool {
        self.is_confirmed
    }
    /// Whether somebody tells of an object of others: it may be fetched yet.
    pub(super) fn is_found(&self) -> bool {
        !self.is_at_start() && !matches!(self.stage, Stage::Ours | Stage::Over)
    }
    /// Whether the producer says that there is no such object.
    pub(super) fn is_absent(&self) -> bool {
        self.is_absent
    }
    /// Why what was found last could not be fetched.
    pub(super) fn obstacle(&self) -> Option<&str> {
        self.obstacle.as_deref()
    }
    pub(super) fn known(&self) -> Option<&Known> {
        match &self.stage {
            Stage::Known(known) => Some(known),
            _ => None,
        }
    }
    /// The next question, at least `pause` after the last one.
    pub(super) fn poll(&mut self, now: Time, pause: Duration) -> Option<Question> {
        if matches!(self.stage, Stage::Gather { .. }) {
            self.give_up_stage(now);
        }
        if let Stage::Gather { versioned, gather } = &mut self.stage {
            let number = gather.poll(now)?;
            let caches = if self.bad.contains(&number) { CacheUse::Bypassed } else { CacheUse::Allowed };
            return Some(Question { name: segment(versioned, number.into())?, discovers: false, caches });
        }
        if self.asked.as_ref().is_some_and(|(_, asked)| *asked + PATIENCE.max(pause) > now) {
            return None;
        }
        if self.asked.is_some() && self.has_asked {
            self.on_silence();
        }
        self.give_up_issuer();
        self.give_up_stage(now);
        let (name, discovers) = match &self.stage {
            Stage::Version if self.questions.is_multiple_of(2) => {
                (self.object.typed_child(types::KEYWORD, naming::METADATA).ok()?, true)
            }
            Stage::Version => (self.object.clone(), true),
            Stage::Key { locator, .. } => (locator.clone(), true),
            Stage::Issuer { issuer, .. } => {
                self.issuer_asked += 1;
                (issuer.clone(), true)
            }
            Stage::First { versioned } if self.asks_whole => (versioned.clone(), false),
            Stage::First { versioned } => (segment(versioned, 0)?, false),
            Stage::End { versioned, search } => (segment(versioned, search.next()?)?, false),
            Stage::Last { versioned, last } => (segment(versioned, *last)?, false),
            Stage::Gather { .. } | Stage::Known(_) | Stage::Ours | Stage::Over => return None,
        };
        self.questions += 1;
        self.has_asked = true;
        self.asked = Some((name.clone(), now));
        let is_suspect = self.refused > 0 || !self.rounds.is_multiple_of(2);
        let caches = if is_suspect { CacheUse::Bypassed } else { CacheUse::Allowed };
        Some(Question { name, discovers, caches })
    }
    /// What was asked for has not come.
    fn on_silence(&mut self) {
        match &mut self.stage {
            // Whose version a person has named, it may be one Data.
            Stage::First { versioned } if *versioned == self.object => self.asks_whole = !self.asks_whole,
            Stage::End { search, .. } => {
                search.on_silence();
                self.give_up_end();
            }
            _ => {}
        }
    }
    /// Begins anew where no segment that comes says that it is the last.
    fn give_up_end(&mut self) {
        let Stage::End { search, .. } = &self.stage else { return };
        if search.next().is_some() {
            return;
        }
        let low = search.low();
        self.obstacle = Some(format!(
            "none of its segments says which one is the last (FinalBlockId): segment {low} does not, and no segment {} \
             comes",
            low + 1
        ));
        self.begin_anew();
    }
    /// Goes on without the certificate of the one who vouches for the key, if it does not come.
    fn give_up_issuer(&mut self) {
        if self.issuer_asked < ISSUER_QUESTIONS_MAX {
            return;
        }
        let Stage::Issuer { versioned, issuer, .. } = &self.stage else { return };
        let Some(first) = &mut self.first else { return };
        first.vouched = format!(", a key whose certificate by '{issuer}' could not be checked: it does not come");
        let versioned = versioned.clone();
        // What comes of it with one segment is told when that is asked for again.
        let last = final_of(first).unwrap_or(0);
        match self.measure(versioned.clone()) {
            Ok((stage @ (Stage::End { .. } | Stage::Last { .. }), _)) => self.enter(stage),
            _ => self.enter(Stage::Last { versioned, last }),
        }
    }
    /// Begins anew where a stage takes too long. While nobody has told anything, caches may answer without end.
    fn give_up_stage(&mut self, now: Time) {
        if self.is_confirmed || matches!(self.stage, Stage::Issuer { .. } | Stage::End { .. } | Stage::Over) {
            return;
        }
        let doubled = 1 << self.rounds.min(STAGE_DOUBLINGS_MAX);
        // Segments are asked for by probes, a second apart.
        let times = match self.stage {
            Stage::Known(_) | Stage::Ours => 2 * doubled,
            // Their patience grows before they are given up.
            Stage::Gather { .. } => 8 * doubled,
            _ => doubled,
        };
        let until = *self.until.get_or_insert(now + STAGE_TIME * times);
        let has_begun = self.rounds > 0 || self.refused > 0 || !self.is_at_start();
        if now < until || !has_begun {
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
            Stage::First { versioned } => *versioned == self.object,
            _ => false,
        }
    }
    /// What has not come; `None` where nobody has told that it is there.
    fn silence(&self) -> Option<String> {
        let what = match &self.stage {
            _ if self.is_at_start() => return None,
            Stage::Version | Stage::Issuer { .. } | Stage::End { .. } | Stage::Over => return None,
            Stage::Gather { versioned, gather } => {
                format!("segment {} of '{versioned}' does not come", gather.missing())
            }
            Stage::First { versioned } => format!("the first segment of '{versioned}' does not come"),
            Stage::Key { locator, .. } => format!("the key that signs it, '{locator}', does not come"),
            Stage::Last { versioned, last } => format!("the last segment of '{versioned}', {last}, does not come"),
            Stage::Known(known) => format!("no segment of '{}' comes from a producer", known.versioned),
            Stage::Ours => "it is said to have a manifest, which does not come".into(),
        };
        Some(what)
    }
    fn begin_anew(&mut self) {
        self.rounds = self.rounds.saturating_add(1);
        self.first = None;
        self.last_moves = 0;
        self.bad.clear();
        self.enter(Stage::start(&self.object));
    }
    fn enter(&mut self, stage: Stage) {
        (self.stage, self.until, self.refused, self.issuer_asked) = (stage, None, 0, 0);
        (self.asks_whole, self.has_asked) = (false, false);
    }
    pub(super) fn poll_timeout(&self, pause: Duration) -> Option<Time> {
        match self.stage {
            Stage::Over => None,
            Stage::Known(_) if self.is_confirmed => None,
            Stage::Gather { ref gather, .. } => gather.poll_timeout().into_iter().chain(self.until).min(),
            Stage::Known(_) | Stage::Ours => Some(self.until.unwrap_or(Time::ZERO)),
            _ => Some(self.asked.as_ref().map_or(Time::ZERO, |(_, asked)| *asked + PATIENCE.max(pause))),
        }
    }
    /// Takes a Data that may answer the last question.
    pub(super) fn handle_data(&mut self, now: Time, packet: &bytes::Bytes, data: &Data<'_>) -> Found {
        if matches!(self.stage, Stage::Gather { .. }) {
            return self.on_gathered(now, data);
        }
        let Some((asked, _)) = &self.asked else { return Found::Nothing };
        if !NameView::from(asked).is_prefix_of(data.name) {
            return Found::Nothing;
        }
        let is_exact = asked.as_tlv().len() == data.name.as_tlv().len();
        let wants_exact = matches!(self.stage, Stage::First { .. } | Stage::End { .. } | Stage::Last { .. });
        if wants_exact && !is_exact {
            return Found::Nothing;
        }
        if matches!(self.stage, Stage::Version | Stage::First { .. } | Stage::Last { .. })
            && data.content_type() == ContentType::Nack
            && !naming::has_manifest(data)
        {
            self.is_absent = true;
            return self.refuse(format!("its producer says that '{}' does not exist", data.name));
        }
        let next = match &self.stage {
            Stage::Version => self.on_version(packet, data),
            Stage::First { versioned } => self.on_first(versioned.clone(), packet, data),
            Stage::Key { versioned, locator } => self.on_key(now, versioned.clone(), &locator.clone(), packet, data),
            Stage::Issuer { versioned, issuer, certificate } => {
                let (versioned, issuer, certificate) = (versioned.clone(), issuer.clone(), certificate.clone());
                self.on_issuer(now, versioned, &issuer, &certificate, data)
            }
            Stage::End { versioned, .. } => self.on_end(versioned.clone(), data),
            Stage::Last { versioned, last } => self.on_last(versioned.clone(), *last, data),
            Stage::Gather { .. } | Stage::Known(_) | Stage::Ours | Stage::Over => return Found::Nothing,
        };
        match next {
            Ok((stage, advice)) => {
                self.asked = None;
                self.is_absent = false;
                self.enter(stage);
                advice.map_or(Found::Step, Found::Object)
            }
            Err(reason) => self.refuse(reason),
        }
    }
    /// An answer cannot be used. The first time it is asked for again at once.
    fn refuse(&mut self, reason: String) -> Found {
        self.refused += 1;
        self.obstacle = Some(reason);
        if self.refused == 1 {
            self.asked = None;
        }
        if self.refused < REFUSED_MAX {
            return Found::Refused(None);
        }
        self.begin_anew();
        let is_news = self.told != self.obstacle;
        self.told.clone_from(&self.obstacle);
        Found::Refused(self.told.clone().filter(|_| is_news))
    }
    /// What was found is of somebody who is not trusted: caches may have kept what is forged. Whether it is looked for
    /// anew.
    pub(super) fn look_elsewhere(&mut self, now: Time) -> bool {
        let is_early = self.rounds < UNTRUSTED_ROUNDS;
        if is_early {
            self.begin_anew();
            self.asked = Some((self.object.clone(), now));
        }
        is_early
    }
    fn on_version(&mut self, packet: &bytes::Bytes, data: &Data<'_>) -> Next {
        // A producer of this program: its manifest is asked for already. Segments tell it too, which caches keep longer.
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
            // A segment that answers for the whole name.
            data.name.parent().to_name().ok().filter(|_| data.name.last().is_some_and(|c| c.kind == types::SEGMENT))
        };
        match versioned {
            Some(versioned) if self.object.is_prefix_of(&versioned) => Ok((Stage::First { versioned }, None)),
            Some(elsewhere) => Err(format!("its metadata names another object, '{elsewhere}'")),
            // One Data of that very name is the whole object.
            None if data.name.as_tlv() == self.object.as_tlv().as_ref() => {
                self.on_first(self.object.clone(), packet, data)
            }
            None => Err("what answers for its name is neither metadata nor a segment".into()),
        }
    }
    fn on_first(&mut self, versioned: Name, packet: &bytes::Bytes, data: &Data<'_>) -> Next {
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
        let is_single = data.name.as_tlv() == versioned.as_tlv().as_ref();
        if let Some(shared) = self.shared.clone() {
            return self.on_shared(versioned, packet, data, shared, is_single);
        }
        if kind == SignatureType::DigestSha256 {
            if !data.is_signed_by(&VerifyKey::Digest) {
                return Err("its first segment is damaged: it has another digest".into());
            }
            let (key, publisher) = (Some(VerifyKey::Digest), stand_in(b"nobody"));
            self.first = Some(Segment { packet: packet.clone(), kind, key, publisher, vouched: String::new(), is_single });
            return self.measure(versioned);
        }
        if kind == SignatureType::Hmac {
            return Err("its segments are signed with a shared key (HMAC): name it in a section [[shared_key]]".into());
        }
        let locator = match (kind, data.signature.key_locator) {
            (SignatureType::Ed25519 | SignatureType::Ecdsa, Some(KeyLocator::Name(name))) => name.to_name().ok(),
            _ => None,
        };
        let Some(locator) = locator else {
            return Err(format!("its segments are signed in a way that cannot be verified here: {kind:?}"));
        };
        let (packet, publisher) = (packet.clone(), stand_in(b"nobody"));
        self.first = Some(Segment { packet, kind, key: None, publisher, vouched: String::new(), is_single });
        Ok((Stage::Key { versioned, locator }, None))
    }
    /// Takes the first segment of an object that must be signed with a shared key.
    fn on_shared(
        &mut self,
        versioned: Name,
        packet: &bytes::Bytes,
        data: &Data<'_>,
        shared: VerifyKey,
        is_single: bool,
    ) -> Next {
        if !data.is_signed_by(&shared) {
            return Err("it is not signed with the key that is shared for its prefix".into());
        }
        let locator = key_name(data).unwrap_or_default();
        let publisher = stand_in(&[b"shared", locator.as_bytes()].concat());
        let (packet, kind, key) = (packet.clone(), data.signature.kind, Some(shared));
        self.first = Some(Segment { packet, kind, key, publisher, vouched: String::new(), is_single });
        self.measure(versioned)
    }
    fn on_key(&mut self, now: Time, versioned: Name, locator: &Name, packet: &bytes::Bytes, data: &Data<'_>) -> Next {
        let Some(first) = &mut self.first else { return Err("its first segment was forgotten".into()) };
        let Some((key, publisher)) = certified_key(data, first.kind) else {
            return Err(format!("the key that signs it, '{locator}', is none that can be used here"));
        };
        if !counts(data, self.epoch, now) {
            return Err(format!("the certificate of the key that signs it, '{locator}', does not count now"));
        }
        let is_right = Data::decode(&first.packet).is_ok_and(|data| data.is_signed_by(&key));
        if !is_right {
            return Err(format!("its first segment is not signed by '{locator}'"));
        }
        let issuer = match data.signature.key_locator {
            Some(KeyLocator::Name(name)) => name.to_name().ok(),
            Some(KeyLocator::Digest(_)) | None => None,
        };
        let vouches = matches!(data.signature.kind, SignatureType::Ed25519 | SignatureType::Ecdsa);
        match issuer.filter(|_| vouches) {
            None => first.vouched = ", a key for which nobody vouches".into(),
            Some(issuer) if NameView::from(&issuer).is_prefix_of(data.name) => {
                if !data.is_signed_by(&key) {
                    return Err(format!("the certificate '{}' is not signed by its own key", data.name));
                }
                first.vouched = ", a key that vouches for itself".into();
            }
            Some(issuer) => {
                (first.key, first.publisher) = (Some(key), publisher);
                return Ok((Stage::Issuer { versioned, issuer, certificate: packet.clone() }, None));
            }
        }
        (first.key, first.publisher) = (Some(key), publisher);
        self.measure(versioned)
    }
    /// Takes the certificate of the one who vouches for the key. Who vouches for that one is not asked.
    fn on_issuer(
        &mut self,
        now: Time,
        versioned: Name,
        issuer: &Name,
        certificate: &bytes::Bytes,
        data: &Data<'_>,
    ) -> Next {
        let Ok(certificate) = Data::decode(certificate) else { return Err("its certificate is damaged".into()) };
        let key = certified_key(data, certificate.signature.kind).filter(|_| counts(data, self.epoch, now));
        if !key.is_some_and(|(key, _)| certificate.is_signed_by(&key)) {
            return Err(format!("the certificate '{}' is not signed by '{issuer}'", certificate.name));
        }
        if let Some(first) = &mut self.first {
            first.vouched = format!(", a key for which '{issuer}' vouches; who vouches for that one was not asked");
        }
        self.measure(versioned)
    }
    /// How much there is: with one segment that is settled, else the last one tells.
    fn measure(&mut self, versioned: Name) -> Next {
        let Some(first) = &self.first else { return Err("its first segment was forgotten".into()) };
        let last = if first.is_single { Some(0) } else { final_of(first) };
        match last {
            Some(0) => {
                let bytes = Data::decode(&first.packet).ok().and_then(|data| data.content).map_or(0, <[u8]>::len);
                self.describe(versioned, 0, bytes)
            }
            Some(last) => Ok((Stage::Last { versioned, last }, None)),
            None => Ok((Stage::End { versioned, search: EndSearch::new() }, None)),
        }
    }
    /// Whether a segment is signed like the first one.
    fn is_signed_like_first(&self, data: &Data<'_>) -> bool {
        self.first.as_ref().and_then(|first| first.key.as_ref()).is_some_and(|key| data.is_signed_by(key))
    }
    /// Takes a segment that may name the last one.
    fn on_end(&mut self, versioned: Name, data: &Data<'_>) -> Next {
        let is_like_first = self.is_signed_like_first(data);
        let Stage::End { search, .. } = &mut self.stage else { return Err("it is known already".into()) };
        let number = search.next().unwrap_or_default();
        let mut search = core::mem::replace(search, EndSearch::new());
        if data.content_type() == ContentType::Nack {
            search.on_missing();
        } else if !is_like_first {
            self.stage = Stage::End { versioned, search };
            return Err(format!("its segment {number} is signed by somebody else than its first one"));
        } else {
            match final_segment(data) {
                Some(last) if last == number => return self.on_last(versioned, last, data),
                Some(last) if last > number => return Ok((Stage::Last { versioned, last }, None)),
                Some(_) | None => search.on_segment(number),
            }
        }
        if search.next().is_none() {
            self.stage = Stage::End { versioned, search };
            self.give_up_end();
            return Ok((Stage::start(&self.object), None));
        }
        Ok((Stage::End { versioned, search }, None))
    }
    fn on_last(&mut self, versioned: Name, last: u64, data: &Data<'_>) -> Next {
        if !self.is_signed_like_first(data) {
            return Err("its last segment is signed by somebody else than its first one".into());
        }
        // Who publishes still has changed its mind since the first segment.
        if let Some(later) = final_segment(data).filter(|later| *later > last) {
            self.last_moves += 1;
            return match self.last_moves <= LAST_MOVES_MAX {
                true => Ok((Stage::Last { versioned, last: later }, None)),
                false => Err(format!("its last segment was said to be {last}, and is said to be {later} by now")),
            };
        }
        self.describe(versioned, last, data.content.map_or(0, <[u8]>::len))
    }
    fn describe(&mut self, versioned: Name, last: u64, tail: usize) -> Next {
        let Some(first) = &self.first else { return Err("its first segment was forgotten".into()) };
        let Ok(data) = Data::decode(&first.packet) else { return Err("its first segment is damaged".into()) };
        let segment_bytes = data.content.map_or(0, <[u8]>::len);
        // Nothing stands in an empty last segment; the one before is as long as the first, or is seen not to be.
        let (last, tail) = if tail == 0 && last > 0 { (last - 1, segment_bytes) } else { (last, tail) };
        if tail > segment_bytes || last > 0 && segment_bytes == 0 {
            return Self::gather(versioned, last);
        }
        let segments = last.checked_add(1).and_then(|segments| u32::try_from(segments).ok());
        let (Ok(bytes), Some(segments)) = (u16::try_from(segment_bytes), segments) else {
            return Err(format!("its segments have {segment_bytes} bytes, and the last is number {last}"));
        };
        let size = last * segment_bytes as u64 + tail as u64;
        self.settle(versioned, Cut { size, segments, bytes: bytes.max(1), tail: tail as u32 }, None)
    }
    /// Puts the segments together in memory, as they are of unequal sizes.
    fn gather(versioned: Name, last: u64) -> Next {
        match Gather::new(last, PATIENCE) {
            Some(gather) => Ok((Stage::Gather { versioned, gather: Box::new(gather) }, None)),
            None => Err(format!(
                "its segments have unequal sizes, and of such ones {GATHERED_SEGMENTS_MAX} are put together at most; the \
                 last is number {last}"
            )),
        }
    }
    /// A segment of what is known has another size than it should: whether all are put together from now on.
    pub(super) fn on_uneven(&mut self) -> bool {
        let Stage::Known(known) = &self.stage else { return false };
        let (versioned, last) = (known.versioned.clone(), u64::from(known.segments) - 1);
        self.is_confirmed = false;
        match Self::gather(versioned, last) {
            Ok((stage, _)) => self.enter(stage),
            Err(reason) => {
                self.obstacle = Some(reason);
                self.begin_anew();
            }
        }
        true
    }
    /// Takes a segment of unequal ones.
    fn on_gathered(&mut self, now: Time, data: &Data<'_>) -> Found {
        let Stage::Gather { versioned, gather } = &self.stage else { return Found::Nothing };
        let number = data.name.last().filter(|last| last.kind == types::SEGMENT).and_then(|last| last.number());
        let Some(number) = number.and_then(|number| u32::try_from(number).ok()) else { return Found::Nothing };
        if data.name.parent().as_tlv() != versioned.as_tlv().as_ref() || !gather.wants(number) {
            return Found::Nothing;
        }
        let is_alike = self.first.as_ref().is_some_and(|first| first.kind == data.signature.kind);
        if !is_alike || !self.is_signed_like_first(data) {
            self.bad.insert(number);
            return self.refuse(format!("its segment {number} is signed by somebody else than its first one"));
        }
        if data.content_type() == ContentType::Nack {
            self.is_absent = true;
            return self.refuse(format!("its producer says that its segment {number} does not exist"));
        }
        self.bad.remove(&number);
        (self.until, self.refused) = (None, 0);
        let Stage::Gather { versioned, gather } = &mut self.stage else { return Found::Nothing };
        let versioned = versioned.clone();
        if !gather.on_segment(now, number, data.content.unwrap_or(&[])) {
            let reason = format!(
                "its segments have unequal sizes, and together more than {GATHERED_BYTES_MAX} bytes: so many are put \
                 together in memory at most"
            );
            self.refused = REFUSED_MAX;
            return self.refuse(reason);
        }
        let missing = gather.missing();
        let Some(whole) = gather.take_whole() else {
            let is_more = missing > self.gathered_most;
            self.gathered_most = self.gathered_most.max(missing);
            return if is_more { Found::Progress } else { Found::Step };
        };
        let size = whole.len() as u64;
        let (segments, tail) = (size.div_ceil(GATHERED_CUT.into()).max(1), (size % u64::from(GATHERED_CUT)) as u32);
        let cut = Cut { size, segments: segments as u32, bytes: GATHERED_CUT, tail };
        match self.settle(versioned, cut, Some(whole)) {
            Ok((stage, advice)) => {
                self.enter(stage);
                advice.map_or(Found::Step, Found::Object)
            }
            Err(reason) => self.refuse(reason),
        }
    }
    /// All is known.
    fn settle(&mut self, versioned: Name, cut: Cut, gathered: Option<Vec<u8>>) -> Next {
        let Some(first) = &self.first else { return Err("its first segment was forgotten".into()) };
        let Ok(data) = Data::decode(&first.packet) else { return Err("its first segment is damaged".into()) };
        let Cut { size, segments, bytes, tail } = cut;
        let version = NameView::from(&versioned).last().and_then(|part| part.number()).unwrap_or(0);
        let Some(chunk) = chunk_bytes(size, u32::from(bytes)) else {
            return Err(format!("{size} bytes in segments of {bytes} are more than can be numbered"));
        };
        let manifest = match Manifest::unsigned(self.object.clone(), version, size, chunk, first.publisher) {
            Ok(manifest) => manifest,
            Err(error) => return Err(error.to_string()),
        };
        let Some(key) = first.key.clone() else { return Err("nobody's key is known".into()) };
        let advice = match first.kind {
            SignatureType::DigestSha256 => format!(
                "'{}' carries digests instead of signatures: it is undamaged, but nothing says who made it",
                self.object
            ),
            SignatureType::Hmac => {
                format!("'{}' carries no manifest; each of its segments is signed with the shared key", self.object)
            }
            _ => format!(
                "'{}' carries no manifest; each of its segments is signed by {}{}",
                self.object,
                key_name(&data).unwrap_or_default(),
                first.vouched
            ),
        };
        let producer = super::fetch::producer_of(&data);
        let (kind, is_single) = (first.kind, first.is_single);
        let segment_bytes = bytes;
        let known =
            Known { versioned, segments, segment_bytes, producer, manifest, gathered, tail, is_single, kind, key };
        Ok((Stage::Known(Box::new(known)), Some(advice)))
    }
    /// The number of the segment that a Data of the object is, if its signature holds. As long as no segment has come from a
    /// producer, it may be what is known that is forged.
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
            self.refuse("its segments are signed by somebody else than its first and last one".into());
        }
        None
    }
    /// Whether a segment must come from a producer: what came before was forged.
    pub(super) fn must_bypass(&self, segment: u32) -> bool {
        self.bad.contains(&segment)
    }
}

/// How an object is cut.
struct Cut {
    size: u64,
    segments: u32,
    /// Bytes of every segment but the last.
    bytes: u16,
    /// Bytes of the last one.
    tail: u32,
}

impl Known {
    /// Whether a segment has as many bytes as follows from the first and the last one.
    pub(super) fn fits(&self, segment: u32, bytes: usize) -> bool {
        let is_last = segment + 1 == self.segments;
        bytes == if is_last { self.tail as usize } else { usize::from(self.segment_bytes) }
    }
    /// The bytes of a packet of what was put together in memory.
    pub(super) fn gathered_packet(&self, packet: u32) -> Option<&[u8]> {
        let whole = self.gathered.as_ref()?;
        let start = packet as usize * usize::from(self.segment_bytes);
        whole.get(start..whole.len().min(start + usize::from(self.segment_bytes)))
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

/// What trust remembers of a signer that has no Ed25519 key: a point of the curve that follows from the signer's own key
/// and of which nobody knows the secret, so that nobody signs a manifest with it.
fn stand_in(signer: &[u8]) -> PublicKey {
    let candidates = (0..=u8::MAX).map(|number| digest(&[b"tributary ndn signer", &[number], signer]));
    let is_key = |bytes: &[u8; 32]| ed25519_dalek::VerifyingKey::from_bytes(bytes).is_ok_and(|key| !key.is_weak());
    PublicKey(candidates.into_iter().find(is_key).expect("every second number gives a point"))
}

/// The key in a certificate that makes signatures of this kind, and what trust remembers of it.
fn certified_key(data: &Data<'_>, kind: SignatureType) -> Option<(VerifyKey, PublicKey)> {
    let content = data.content.unwrap_or(&[]);
    let found = match kind {
        SignatureType::Ed25519 => {
            let key = content.strip_prefix(ED25519_INFO).and_then(|key| <[u8; 32]>::try_from(key).ok());
            key.and_then(|bytes| Some((VerifyKey::ed25519(&bytes)?, PublicKey(bytes))))
        }
        _ => VerifyKey::ecdsa(content).map(|key| (key, stand_in(content))),
    };
    found.filter(|_| data.content_type() == ContentType::Key)
}
/// Whether a certificate counts now. A bare key says nothing of times.
fn counts(certificate: &Data<'_>, epoch: Duration, now: Time) -> bool {
    let unix = (epoch + now.since(Time::ZERO)).as_secs();
    certificate.signature.validity.is_none_or(|validity| validity.contains(unix))
}
fn segment(versioned: &Name, number: u64) -> Option<Name> {
    versioned.typed_child(types::SEGMENT, &naming::number(number)).ok()
}
/// The number of the last segment, as the first one tells it.
fn final_of(first: &Segment) -> Option<u64> {
    final_segment(&Data::decode(&first.packet).ok()?)
}
/// The number of the last segment, as a Data tells it.
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
/// Bytes of a chunk: whole segments, at least [`CHUNK_BYTES_MIN`], and not too many chunks. `None` if that cannot be.
fn chunk_bytes(size: u64, segment_bytes: u32) -> Option<u32> {
    let segment_bytes = segment_bytes.max(1);
    let mut least = u64::from(CHUNK_BYTES_MIN).max(size.div_ceil(u64::from(Manifest::CHUNKS_MAX)));
    least = least.div_ceil(u64::from(segment_bytes)) * u64::from(segment_bytes);
    u32::try_from(least).ok().filter(|chunk| *chunk <= Manifest::CHUNK_SIZE_MAX)
}

#[cfg(test)]
mod tests;
