//! Objects of others: published without a manifest of ours, found by discovery (RDR), verified segment by segment.
//!
//! ```text
//!  /name/32=metadata, else /name ─► version ─► segment 0 ─► last segment ─► size, described to the transfer
//!                                               └─► who signs ─► the key that its locator names ─► who vouches for it
//!                                               └─► by HMAC: the key that is shared with its publishers
//! ```
use alloc::{
    borrow::ToOwned,
    boxed::Box,
    collections::BTreeSet,
    format,
    string::{String, ToString},
};

use tributary_content::{Manifest, Name, PublicKey};
use tributary_core::{Duration, Time};

use crate::{
    naming,
    wire::{ContentType, Data, KeyLocator, NameView, SignatureType, VerifyKey, signature::digest, tlv, types},
};

/// How long an answer may take before it is asked for again.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often the certificate of the one who vouches for a key is asked for.
const ISSUER_QUESTIONS_MAX: u32 = 4;
/// First segments with a wrong signature after which it is said that there is no right one.
const REFUSED_MAX: u64 = 4;
/// Bytes of a chunk at least; it has as many segments as that takes.
const CHUNK_BYTES_MIN: u32 = 256 << 10;
/// The Ed25519 SubjectPublicKeyInfo up to the key. RFC 8410.
const ED25519_INFO: &[u8] = &[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

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
    /// Segments with a wrong signature.
    pub(super) refused: u64,
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
    /// How long is the last one?
    Last { versioned: Name, last: u64 },
    /// All is known.
    Known(Box<Known>),
    /// A manifest came, or nothing can be done.
    Over,
}

/// What segment 0 told.
struct Segment {
    packet: bytes::Bytes,
    kind: SignatureType,
    key: Option<VerifyKey>,
    publisher: PublicKey,
    /// Who vouches for the key, in words.
    vouched: String,
}

/// An object of others, ready to be fetched.
pub(super) struct Known {
    pub(super) versioned: Name,
    pub(super) segments: u32,
    pub(super) segment_bytes: u16,
    pub(super) producer: String,
    pub(super) manifest: Manifest,
    kind: SignatureType,
    key: VerifyKey,
}

/// What came of an answer.
pub(super) enum Found {
    /// It does not belong here.
    Nothing,
    /// One step further.
    Step,
    /// The object can be fetched, and what a person should know of who signs it.
    Object(String),
    /// It cannot, and why.
    Impossible(String),
}

impl Others {
    pub(super) fn new(object: &Name, shared: Option<VerifyKey>, epoch: Duration) -> Others {
        // A name with a version needs no discovery.
        let is_version = NameView::from(object).last().is_some_and(|last| last.kind == types::VERSION);
        let stage = if is_version { Stage::First { versioned: object.clone() } } else { Stage::Version };
        Others {
            object: object.clone(),
            stage,
            asked: None,
            questions: 0,
            first: None,
            shared,
            epoch,
            issuer_asked: 0,
            bad: BTreeSet::new(),
            refused: 0,
        }
    }
    /// A manifest came: the object is one of ours.
    pub(super) fn end(&mut self) {
        if !matches!(self.stage, Stage::Known(_)) {
            self.stage = Stage::Over;
        }
    }
    pub(super) fn known(&self) -> Option<&Known> {
        match &self.stage {
            Stage::Known(known) => Some(known),
            _ => None,
        }
    }
    /// The next question, at least `pause` after the last one: a name, and whether a longer and fresh one may answer.
    pub(super) fn poll(&mut self, now: Time, pause: Duration) -> Option<(Name, bool)> {
        if self.asked.as_ref().is_some_and(|(_, asked)| *asked + PATIENCE.max(pause) > now) {
            return None;
        }
        self.give_up_issuer();
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
            Stage::First { versioned } => (segment(versioned, 0)?, false),
            Stage::Last { versioned, last } => (segment(versioned, *last)?, false),
            Stage::Known(_) | Stage::Over => return None,
        };
        self.questions += 1;
        self.asked = Some((name.clone(), now));
        Some((name, discovers))
    }
    /// Goes on without the certificate of the one who vouches for the key, if it does not come.
    fn give_up_issuer(&mut self) {
        if self.issuer_asked < ISSUER_QUESTIONS_MAX || !matches!(self.stage, Stage::Issuer { .. }) {
            return;
        }
        if let Stage::Issuer { versioned, issuer, .. } = core::mem::replace(&mut self.stage, Stage::Over) {
            let last = self.first.as_mut().and_then(|first| {
                first.vouched =
                    format!(", a key whose certificate by '{issuer}' could not be checked: it does not come");
                final_segment(&Data::decode(&first.packet).ok()?)
            });
            self.stage = last.map_or(Stage::Over, |last| Stage::Last { versioned, last });
        }
    }
    pub(super) fn poll_timeout(&self, pause: Duration) -> Option<Time> {
        match self.stage {
            Stage::Known(_) | Stage::Over => None,
            _ => Some(self.asked.as_ref().map_or(Time::ZERO, |(_, asked)| *asked + PATIENCE.max(pause))),
        }
    }
    /// Takes a Data that may answer the last question.
    pub(super) fn handle_data(&mut self, now: Time, packet: &bytes::Bytes, data: &Data<'_>) -> Found {
        let Some((asked, _)) = &self.asked else { return Found::Nothing };
        if !NameView::from(asked).is_prefix_of(data.name) {
            return Found::Nothing;
        }
        let stage = core::mem::replace(&mut self.stage, Stage::Over);
        let (stage, found) = match stage {
            Stage::Version => self.on_version(data),
            Stage::First { versioned } => self.on_first(versioned, packet, data),
            Stage::Key { versioned, locator } => self.on_key(now, versioned, locator, packet, data),
            Stage::Issuer { versioned, issuer, certificate } => {
                self.on_issuer(now, versioned, &issuer, &certificate, data)
            }
            Stage::Last { versioned, last } => self.on_last(versioned, last, data),
            stage @ (Stage::Known(_) | Stage::Over) => (stage, Found::Nothing),
        };
        self.stage = stage;
        if !matches!(found, Found::Nothing) {
            self.asked = None;
        }
        found
    }
    fn on_version(&self, data: &Data<'_>) -> (Stage, Found) {
        // A producer of this program: its manifest is asked for already. Segments tell it too, which caches keep longer.
        if naming::has_manifest(data) {
            return (Stage::Over, Found::Step);
        }
        let is_metadata =
            data.name.components().any(|part| part.kind == types::KEYWORD && part.value == naming::METADATA);
        let versioned = if is_metadata {
            match read_metadata(data.content.unwrap_or(&[])) {
                Some((_, true)) => return (Stage::Over, Found::Step),
                Some((versioned, false)) => Some(versioned),
                None => None,
            }
        } else {
            // A segment that answers for the whole name.
            data.name.parent().to_name().ok().filter(|_| data.name.last().is_some_and(|c| c.kind == types::SEGMENT))
        };
        match versioned {
            Some(versioned) if self.object.is_prefix_of(&versioned) => (Stage::First { versioned }, Found::Step),
            _ => (Stage::Version, Found::Nothing),
        }
    }
    fn on_first(&mut self, versioned: Name, packet: &bytes::Bytes, data: &Data<'_>) -> (Stage, Found) {
        let kind = data.signature.kind;
        if naming::has_manifest(data) {
            return (Stage::Over, Found::Step);
        }
        if data.content_type() == ContentType::Nack {
            return impossible("its producer says that there is no such thing".into());
        }
        if final_segment(data).is_none() {
            return impossible("its first segment does not say which one is the last (FinalBlockId)".into());
        }
        if let Some(shared) = self.shared.clone() {
            return self.on_shared(versioned, packet, data, shared);
        }
        if kind == SignatureType::DigestSha256 {
            if !data.is_signed_by(&VerifyKey::Digest) {
                self.refused += 1;
                return (Stage::First { versioned }, Found::Nothing);
            }
            let (key, publisher) = (Some(VerifyKey::Digest), stand_in(b"nobody"));
            self.first = Some(Segment { packet: packet.clone(), kind, key, publisher, vouched: String::new() });
            return self.measure(versioned);
        }
        if kind == SignatureType::Hmac {
            return impossible(
                "its segments are signed with a shared key (HMAC): name it in a section [[shared_key]]".into(),
            );
        }
        let locator = match (kind, data.signature.key_locator) {
            (SignatureType::Ed25519 | SignatureType::Ecdsa, Some(KeyLocator::Name(name))) => name.to_name().ok(),
            _ => None,
        };
        let Some(locator) = locator else {
            return impossible(format!("its segments are signed in a way that cannot be verified here: {kind:?}"));
        };
        let (packet, publisher) = (packet.clone(), stand_in(b"nobody"));
        self.first = Some(Segment { packet, kind, key: None, publisher, vouched: String::new() });
        (Stage::Key { versioned, locator }, Found::Step)
    }
    /// Takes the first segment of an object that must be signed with a shared key.
    fn on_shared(
        &mut self,
        versioned: Name,
        packet: &bytes::Bytes,
        data: &Data<'_>,
        shared: VerifyKey,
    ) -> (Stage, Found) {
        if !data.is_signed_by(&shared) {
            self.refused += 1;
            // Anybody can send a wrong one; only if no other comes that is said.
            if self.refused < REFUSED_MAX {
                return (Stage::First { versioned }, Found::Nothing);
            }
            return impossible("it is not signed with the key that is shared for its prefix".into());
        }
        let locator = key_name(data).unwrap_or_default();
        let publisher = stand_in(&[b"shared", locator.as_bytes()].concat());
        let (packet, kind, key) = (packet.clone(), data.signature.kind, Some(shared));
        self.first = Some(Segment { packet, kind, key, publisher, vouched: String::new() });
        self.measure(versioned)
    }
    fn on_key(
        &mut self,
        now: Time,
        versioned: Name,
        locator: Name,
        packet: &bytes::Bytes,
        data: &Data<'_>,
    ) -> (Stage, Found) {
        let Some(first) = &mut self.first else { return impossible("its first segment was forgotten".into()) };
        let Some((key, publisher)) = certified_key(data, first.kind) else {
            return impossible(format!("the key that signs it, '{locator}', is none that can be used here"));
        };
        if !counts(data, self.epoch, now) {
            return impossible(format!("the certificate of the key that signs it, '{locator}', does not count now"));
        }
        let is_right = Data::decode(&first.packet).is_ok_and(|data| data.is_signed_by(&key));
        if !is_right {
            return impossible(format!("its first segment is not signed by '{locator}'"));
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
                    return impossible(format!("the certificate '{}' is not signed by its own key", data.name));
                }
                first.vouched = ", a key that vouches for itself".into();
            }
            Some(issuer) => {
                (first.key, first.publisher) = (Some(key), publisher);
                return (Stage::Issuer { versioned, issuer, certificate: packet.clone() }, Found::Step);
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
    ) -> (Stage, Found) {
        let Ok(certificate) = Data::decode(certificate) else { return impossible("its certificate is damaged".into()) };
        let key = certified_key(data, certificate.signature.kind).filter(|_| counts(data, self.epoch, now));
        if !key.is_some_and(|(key, _)| certificate.is_signed_by(&key)) {
            return impossible(format!("the certificate '{}' is not signed by '{issuer}'", certificate.name));
        }
        if let Some(first) = &mut self.first {
            first.vouched = format!(", a key for which '{issuer}' vouches; who vouches for that one was not asked");
        }
        self.measure(versioned)
    }
    /// How much there is: with one segment that is settled, else the last one tells.
    fn measure(&mut self, versioned: Name) -> (Stage, Found) {
        let last = self.first.as_ref().and_then(|first| final_segment(&Data::decode(&first.packet).ok()?));
        match (last, &self.first) {
            (Some(0), Some(first)) => {
                let bytes = Data::decode(&first.packet).ok().and_then(|data| data.content).map_or(0, <[u8]>::len);
                self.describe(versioned, 0, bytes)
            }
            (Some(last), Some(_)) => (Stage::Last { versioned, last }, Found::Step),
            _ => impossible("its first segment does not say which one is the last (FinalBlockId)".into()),
        }
    }
    fn on_last(&mut self, versioned: Name, last: u64, data: &Data<'_>) -> (Stage, Found) {
        let key = self.first.as_ref().and_then(|first| first.key.as_ref());
        if !key.is_some_and(|key| data.is_signed_by(key)) {
            self.refused += 1;
            return (Stage::Last { versioned, last }, Found::Nothing);
        }
        self.describe(versioned, last, data.content.map_or(0, <[u8]>::len))
    }
    fn describe(&mut self, versioned: Name, last: u64, tail: usize) -> (Stage, Found) {
        let Some(first) = self.first.take() else { return impossible("its first segment was forgotten".into()) };
        let Ok(data) = Data::decode(&first.packet) else { return impossible("its first segment is damaged".into()) };
        let segment_bytes = data.content.map_or(0, <[u8]>::len);
        let (Ok(bytes), Ok(segments)) = (u16::try_from(segment_bytes), u32::try_from(last + 1)) else {
            return impossible(format!("it has {} segments of {segment_bytes} bytes", last + 1));
        };
        if tail > segment_bytes || segments > 1 && (segment_bytes == 0 || tail == 0) {
            return impossible(format!("its segments are cut unevenly: {segment_bytes} bytes first, {tail} last"));
        }
        let size = last * segment_bytes as u64 + tail as u64;
        let version = NameView::from(&versioned).last().and_then(|part| part.number()).unwrap_or(0);
        let Some(chunk) = chunk_bytes(size, u32::from(bytes)) else {
            return impossible(format!("{size} bytes in segments of {segment_bytes} are more than can be numbered"));
        };
        let manifest = match Manifest::unsigned(self.object.clone(), version, size, chunk, first.publisher) {
            Ok(manifest) => manifest,
            Err(error) => return impossible(error.to_string()),
        };
        let Some(key) = first.key else { return impossible("nobody's key is known".into()) };
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
        let kind = first.kind;
        let bytes = bytes.max(1);
        let known = Known { versioned, segments, segment_bytes: bytes, producer, manifest, kind, key };
        (Stage::Known(Box::new(known)), Found::Object(advice))
    }
    /// The number of the segment that a Data of the object is, if its signature holds.
    pub(super) fn verified(&mut self, data: &Data<'_>) -> Option<u32> {
        let Stage::Known(known) = &self.stage else { return None };
        let segment = known.segment(data.name)?;
        if data.signature.kind != known.kind || !data.is_signed_by(&known.key) {
            self.refused += 1;
            self.bad.insert(segment);
            return None;
        }
        self.bad.remove(&segment);
        Some(segment)
    }
    /// Whether a segment must come from a producer: what came before was forged.
    pub(super) fn must_bypass(&self, segment: u32) -> bool {
        self.bad.contains(&segment)
    }
}

impl Known {
    /// The name of a segment.
    pub(super) fn name(&self, number: u32) -> Option<Name> {
        segment(&self.versioned, u64::from(number))
    }
    /// The segment that a name is.
    pub(super) fn segment(&self, name: NameView<'_>) -> Option<u32> {
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
fn impossible(reason: String) -> (Stage, Found) {
    (Stage::Over, Found::Impossible(reason))
}
fn segment(versioned: &Name, number: u64) -> Option<Name> {
    versioned.typed_child(types::SEGMENT, &naming::number(number)).ok()
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
