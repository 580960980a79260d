//! The signer of a foreign object, and the issuer of its key.
use alloc::{
    boxed::Box,
    format,
    string::{String, ToString},
};

use bytes::Bytes;
use tributary_content::{Name, PublicKey};
use tributary_core::Time;

use super::{Foreign, Next, Segment, Stage, key_name};
use crate::{
    trust::{Chain, Step, Vouched, chain::check_time, publisher_of, stand_in},
    wire::{ContentType, Data, KeyLocator, NameView, SignatureType, VerifyKey},
};

impl Foreign {
    /// Takes the first segment of an object that must be signed with a shared key.
    pub(super) fn on_shared(&mut self, packet: &Bytes, data: &Data<'_>, shared: VerifyKey, is_single: bool) -> Next {
        // A holder of the shared key could forge what the anchor should verify.
        if self.anchors.is_some() {
            return Err(
                "a shared key and a trust anchor both decide about its name, and no signature satisfies both".into()
            );
        }
        if !data.is_signed_by(&shared) {
            return Err("it is not signed with the key that is shared for its prefix".into());
        }
        let locator = key_name(data).unwrap_or_default();
        let publisher = stand_in(&[b"shared", locator.as_bytes()].concat());
        let (packet, kind, key) = (packet.clone(), data.signature.kind, Some(shared));
        self.first = Some(Segment { packet, kind, key, publisher, vouched: String::new(), is_single });
        self.measure()
    }
    /// Takes the first segment of an object that a pinned certificate or a trust anchor must vouch for.
    pub(super) fn on_certified(&mut self, now: Time, packet: &Bytes, data: &Data<'_>, is_single: bool) -> Next {
        let (packet, kind, publisher) = (packet.clone(), data.signature.kind, stand_in(b"nobody"));
        let first =
            |key, publisher, vouched| Segment { packet: packet.clone(), kind, key, publisher, vouched, is_single };
        if let Some(pinned) = &self.pinned {
            check_time(pinned, self.unix(now)).map_err(|refusal| refusal.to_string())?;
            if !data.is_signed_by(pinned.key()) {
                let signer = key_name(data).unwrap_or_else(|| format!("nobody ({kind:?})"));
                return Err(format!("it is signed by {signer}, and not by the key of '{}'", pinned.name()));
            }
            let vouched = ", a key whose certificate was named".into();
            self.first = Some(first(Some(pinned.key().clone()), publisher_of(pinned.key()), vouched));
            return self.measure();
        }
        let Some(anchors) = &self.anchors else { return Err("no trust anchor decides about it".into()) };
        // Schemas are written for the names of packets, with version and segment.
        let name = data.name.to_name().map_err(|error| error.to_string())?;
        let begun = Chain::begin(anchors, &name, &packet, self.unix(now));
        self.first = Some(first(None, publisher, String::new()));
        let (chain, step) = begun.map_err(|refusal| format!("{refusal}"))?;
        self.on_step(Box::new(chain), step)
    }
    /// Takes a certificate of the chain to a trust anchor.
    pub(super) fn on_chain(&mut self, now: Time, mut chain: Box<Chain>, packet: &Bytes) -> Next {
        let step = chain.handle_certificate(packet, self.unix(now)).map_err(|refusal| format!("{refusal}"))?;
        self.on_step(chain, step)
    }
    fn on_step(&mut self, chain: Box<Chain>, step: Step) -> Next {
        let Step::Vouched(vouched) = step else { return Ok((Stage::Chain { chain }, None)) };
        let Vouched { signer, anchor, certificates } = *vouched;
        let Some(first) = &mut self.first else { return Err("its first segment was forgotten".into()) };
        (first.key, first.publisher) = (Some(signer.key().clone()), publisher_of(signer.key()));
        first.vouched = match certificates {
            0 => ", the key of a trust anchor".into(),
            1 => format!(", a key that the trust anchor '{anchor}' vouches for"),
            _ => format!(", a key that the trust anchor '{anchor}' vouches for over {certificates} certificates"),
        };
        self.measure()
    }
    /// Now, in seconds since 1970.
    fn unix(&self, now: Time) -> u64 {
        (self.epoch + now.since(Time::ZERO)).as_secs()
    }
    pub(super) fn on_key(&mut self, now: Time, locator: &Name, packet: &Bytes, data: &Data<'_>) -> Next {
        let unix = self.unix(now);
        let Some(first) = &mut self.first else { return Err("its first segment was forgotten".into()) };
        let Some((key, publisher)) = certified_key(data, first.kind) else {
            return Err(format!("the key that signs it, '{locator}', is not usable here"));
        };
        if !counts(data, unix) {
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
        match issuer.filter(|_| data.signature.kind.is_by_key()) {
            None => first.vouched = ", a key without an issuer".into(),
            Some(issuer) if NameView::from(&issuer).is_prefix_of(data.name) => {
                if !data.is_signed_by(&key) {
                    return Err(format!("the certificate '{}' is not signed by its own key", data.name));
                }
                first.vouched = ", a key that vouches for itself".into();
            }
            Some(issuer) => {
                (first.key, first.publisher) = (Some(key), publisher);
                return Ok((Stage::Issuer { issuer, certificate: packet.clone() }, None));
            }
        }
        (first.key, first.publisher) = (Some(key), publisher);
        self.measure()
    }
    /// Takes the certificate of a key's issuer. The issuer of that one is not requested.
    pub(super) fn on_issuer(&mut self, now: Time, issuer: &Name, certificate: &Bytes, data: &Data<'_>) -> Next {
        let Ok(certificate) = Data::decode(certificate) else { return Err("its certificate is damaged".into()) };
        let key = certified_key(data, certificate.signature.kind).filter(|_| counts(data, self.unix(now)));
        if !key.is_some_and(|(key, _)| certificate.is_signed_by(&key)) {
            return Err(format!("the certificate '{}' is not signed by '{issuer}'", certificate.name));
        }
        if let Some(first) = &mut self.first {
            first.vouched = format!(", a key for which '{issuer}' vouches; who vouches for that one was not asked");
        }
        self.measure()
    }
}

/// The key in a certificate that makes signatures of this kind, and the form in which trust remembers it.
fn certified_key(data: &Data<'_>, kind: SignatureType) -> Option<(VerifyKey, PublicKey)> {
    let content = data.content.filter(|_| data.content_type() == ContentType::Key)?;
    // Some programs publish the bare point of a P-256 key.
    let key = VerifyKey::from_spki(content).ok().or_else(|| VerifyKey::ecdsa(content))?;
    let publisher = match &key {
        VerifyKey::Ecdsa(_) => stand_in(content),
        key => publisher_of(key),
    };
    (key.kind() == kind).then_some((key, publisher))
}
/// Whether a certificate is valid now. A bare key has no validity period.
fn counts(certificate: &Data<'_>, unix: u64) -> bool {
    certificate.signature.validity.is_none_or(|validity| validity.contains(unix))
}
