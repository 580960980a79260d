//! Certificates. NDN certificate format 2.
//!
//! ```text
//!  /lab/alice / KEY / KEY-ID / ISSUER / v=VERSION      name of the certificate
//!  └────────┘ └─────┘                                  identity, and with KEY-ID the name of the key
//!   ContentType KEY · Content: SubjectPublicKeyInfo · SignatureInfo: who issued it, and when it counts
//! ```
use bytes::Bytes;
use tributary_content::Name;

use super::{
    ContentType, Data, KeyLocator, MetaInfo, NameView, PACKET_BYTES_MAX, SignKey, SignatureInfo, SignatureType,
    ValidityPeriod, VerifyKey, WireError, signature::compact_time, spki::SpkiError, types,
};
use crate::naming::number;

/// The component before the id of a key.
pub const KEY: &[u8] = b"KEY";
/// For how long others may answer by the certificate that they keep, in milliseconds: an hour, as others write it.
const FRESHNESS_MILLIS: u64 = 3_600_000;

/// Whether the component at position `count` from a name's end is `KEY`.
pub(crate) fn has_key_before_end(name: &Name, count: usize) -> bool {
    let component = name.len().checked_sub(count).and_then(|at| name.typed_components().nth(at));
    component.is_some_and(|component| component == (types::GENERIC, KEY))
}

/// Why a Data is no certificate.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// The packet cannot be read.
    #[error("it is no NDN packet: {0}")]
    Wire(#[from] WireError),
    /// Its name has another form.
    #[error("its name is not IDENTITY/KEY/KEY-ID/ISSUER/VERSION")]
    Name,
    /// Its content type is not a key.
    #[error("its content is no key (ContentType is {0}, not 2)")]
    ContentType(u64),
    /// It has no validity period.
    #[error("it has no ValidityPeriod")]
    Validity,
    /// Its key cannot be used.
    #[error("{0}")]
    Key(#[from] SpkiError),
}

/// A certificate: a name for a public key, signed by its issuer.
#[derive(Clone, PartialEq, Debug)]
pub struct Certificate {
    packet: Bytes,
    name: Name,
    key: VerifyKey,
    kind: SignatureType,
    issuer: Option<Name>,
    not_before: [u8; 15],
    not_after: [u8; 15],
}

impl Certificate {
    /// Reads a certificate; its signature is for [`Certificate::is_signed_by`], its time for [`Certificate::counts_at`].
    ///
    /// # Errors
    /// [`CertificateError`] if it has another form, or an unsupported key.
    pub fn decode(packet: impl Into<Bytes>) -> Result<Certificate, CertificateError> {
        let packet = packet.into();
        if packet.len() > PACKET_BYTES_MAX {
            return Err(WireError::Length("certificate", packet.len()).into());
        }
        let data = Data::decode(&packet)?;
        if data.content_type() != ContentType::Key {
            return Err(CertificateError::ContentType(data.content_type().number()));
        }
        let name = data.name.to_name().map_err(|_| CertificateError::Name)?;
        if !has_key_before_end(&name, 4) {
            return Err(CertificateError::Name);
        }
        let validity = data.signature.validity.ok_or(CertificateError::Validity)?;
        let issuer = match data.signature.key_locator {
            Some(KeyLocator::Name(name)) => name.to_name().ok(),
            Some(KeyLocator::Digest(_)) | None => None,
        };
        let (kind, key) = (data.signature.kind, VerifyKey::from_spki(data.content.unwrap_or(&[]))?);
        let (not_before, not_after) = (*validity.not_before, *validity.not_after);
        Ok(Certificate { name, key, kind, issuer, not_before, not_after, packet })
    }
    /// Makes a certificate for a key, signed by `signer`, whose name in the KeyLocator is `locator`. It is valid from
    /// `valid.0` to `valid.1`, in seconds since 1970. Its version is `version`, milliseconds since 1970 by custom.
    ///
    /// # Errors
    /// [`CertificateError`]: the name gets too long, or the key is no public one.
    pub fn issue(
        (key_name, key): (&Name, &VerifyKey),
        (issuer, version): (&[u8], u64),
        (locator, signer): (&Name, &SignKey),
        valid: (u64, u64),
    ) -> Result<Certificate, CertificateError> {
        let named = key_name.child(issuer).and_then(|name| name.typed_child(types::VERSION, &number(version)));
        let name = named.map_err(|_| CertificateError::Name)?;
        let content = key.to_spki().ok_or(SpkiError::Algorithm)?;
        let (not_before, not_after) = (compact_time(valid.0), compact_time(valid.1));
        let meta = MetaInfo {
            content_type: Some(ContentType::Key),
            freshness_millis: Some(FRESHNESS_MILLIS),
            final_block_id: None,
        };
        let signature = SignatureInfo {
            key_locator: Some(KeyLocator::Name(NameView::from(locator))),
            validity: Some(ValidityPeriod { not_before: &not_before, not_after: &not_after }),
            ..SignatureInfo::new(signer.kind())
        };
        let packet = Data { meta: Some(meta), signature, ..Data::new(NameView::from(&name), &content) }.sign(signer);
        Certificate::decode(packet)
    }
    /// The packet.
    pub fn packet(&self) -> &Bytes {
        &self.packet
    }
    /// Its name.
    pub fn name(&self) -> &Name {
        &self.name
    }
    /// The name of the key: without issuer and version.
    pub fn key_name(&self) -> Name {
        self.name.prefix(self.name.len() - 2)
    }
    /// Its identity: the part of the name before `KEY`.
    pub fn identity(&self) -> Name {
        self.name.prefix(self.name.len() - 4)
    }
    /// The key that it certifies.
    pub fn key(&self) -> &VerifyKey {
        &self.key
    }
    /// The name in its KeyLocator: the key or certificate of its issuer.
    pub fn issuer(&self) -> Option<&Name> {
        self.issuer.as_ref()
    }
    /// The algorithm of its signature.
    pub fn signature(&self) -> SignatureType {
        self.kind
    }
    /// Its first and last second, `YYYYMMDDThhmmss`, UTC.
    pub fn validity(&self) -> (&str, &str) {
        let text = |time| core::str::from_utf8(time).unwrap_or_default();
        (text(&self.not_before), text(&self.not_after))
    }
    /// Whether it counts at a time, in seconds since 1970.
    pub fn counts_at(&self, unix_seconds: u64) -> bool {
        ValidityPeriod { not_before: &self.not_before, not_after: &self.not_after }.contains(unix_seconds)
    }
    /// Whether its signature is by `key`.
    pub fn is_signed_by(&self, key: &VerifyKey) -> bool {
        Data::decode(&self.packet).is_ok_and(|data| data.is_signed_by(key))
    }
    /// Whether a KeyLocator with this name means this certificate: packets name the certificate, its key, or a prefix
    /// between them.
    pub fn is_meant_by(&self, locator: &Name) -> bool {
        locator.len() + 2 >= self.name.len() && locator.is_prefix_of(&self.name)
    }
    /// Whether it names itself as its issuer.
    pub fn is_self_issued(&self) -> bool {
        self.issuer.as_ref().is_some_and(|issuer| self.is_meant_by(issuer))
    }
}

/// The name of a key with this id.
///
/// # Errors
/// [`CertificateError::Name`] if it gets too long.
pub fn key_name(identity: &Name, id: &[u8]) -> Result<Name, CertificateError> {
    identity.child(KEY).and_then(|name| name.child(id)).map_err(|_| CertificateError::Name)
}
