//! The signer of a foreign object, and the issuer of its key.
use alloc::{format, string::String};

use tributary_content::{Name, PublicKey};
use tributary_core::{Duration, Time};

use super::{Foreign, Next, Segment, Stage, key_name};
use crate::wire::{
    ContentType, Data, KeyLocator, NameView, SignatureType, VerifyKey,
    signature::{ED25519_INFO, digest},
};

impl Foreign {
    /// Takes the first segment of an object that must be signed with a shared key.
    pub(super) fn on_shared(
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
    pub(super) fn on_key(
        &mut self,
        now: Time,
        versioned: Name,
        locator: &Name,
        packet: &bytes::Bytes,
        data: &Data<'_>,
    ) -> Next {
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
            None => first.vouched = ", a key without an issuer".into(),
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
    /// Takes the certificate of a key's issuer. The issuer of that one is not requested.
    pub(super) fn on_issuer(
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
}

/// A stand-in for a signer without an Ed25519 key in the trust store: a point of the curve that follows from the
/// signer's own key and whose secret is unknown, so that it can sign no manifest.
pub(super) fn stand_in(signer: &[u8]) -> PublicKey {
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
