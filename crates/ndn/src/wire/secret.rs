//! Secret keys in files, in ndnd's form: a Data under the key's name whose content is the secret, signed by the key
//! itself.
//!
//! | SignatureType | content |
//! |---|---|
//! | Ed25519 | PKCS #8 in DER; RFC 8410 §7 |
//! | ECDSA over P-256 | ECPrivateKey in DER; RFC 5915 |
use alloc::vec::Vec;

use p256::pkcs8::DecodePrivateKey;
use tributary_content::Name;

use super::{
    ContentType, Data, KeyLocator, MetaInfo, NameView, SignKey, SignatureInfo, SignatureType, WireError,
    certificate::has_key_before_end,
};

/// The ContentType of a secret key, by ndnd.
pub const SIGNING_KEY: ContentType = ContentType::Other(9);
/// An Ed25519 key of PKCS #8, version 1, up to its 32 bytes. RFC 8410 §7.
const ED25519_SECRET: &[u8] =
    &[0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// Why a Data is no secret key.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The packet cannot be read.
    #[error("it is no NDN packet: {0}")]
    Wire(#[from] WireError),
    /// It is something else.
    #[error("it holds no secret key (ContentType is {0}, not 9)")]
    ContentType(u64),
    /// Its name has another form.
    #[error("its name is not IDENTITY/KEY/KEY-ID")]
    Name,
    /// Its key cannot be used for signing.
    #[error("its key is neither of Ed25519 nor of ECDSA over P-256")]
    Key,
    /// It was changed: its own key did not sign it.
    #[error("it is damaged: its key does not verify its own signature")]
    Signature,
}

/// A secret key and its name.
#[derive(Clone)]
pub struct Secret {
    /// The key's name: identity, `KEY`, id.
    pub name: Name,
    /// The key.
    pub key: SignKey,
}

impl Secret {
    /// Reads a secret key.
    ///
    /// # Errors
    /// [`SecretError`] names the defect.
    pub fn decode(packet: &[u8]) -> Result<Secret, SecretError> {
        let data = Data::decode(packet)?;
        if data.content_type() != SIGNING_KEY {
            return Err(SecretError::ContentType(data.content_type().number()));
        }
        let name = data.name.to_name().map_err(|_| SecretError::Name)?;
        if !has_key_before_end(&name, 2) {
            return Err(SecretError::Name);
        }
        let content = data.content.unwrap_or(&[]);
        let key = match data.signature.kind {
            SignatureType::Ed25519 => {
                let secret = content.strip_prefix(ED25519_SECRET).and_then(|secret| <[u8; 32]>::try_from(secret).ok());
                secret.map(|secret| SignKey::ed25519(&secret))
            }
            SignatureType::Ecdsa => {
                let secret = p256::SecretKey::from_sec1_der(content).ok();
                let secret = secret.or_else(|| p256::SecretKey::from_pkcs8_der(content).ok());
                secret.and_then(|secret| SignKey::ecdsa(&secret.to_bytes().into()))
            }
            _ => None,
        };
        let key = key.ok_or(SecretError::Key)?;
        match data.is_signed_by(&key.verify_key()) {
            true => Ok(Secret { name, key }),
            false => Err(SecretError::Signature),
        }
    }
    /// The packet, for a file that only its owner can read.
    ///
    /// # Errors
    /// [`SecretError::Key`] if it is no key that makes signatures for others to verify.
    pub fn encode(&self) -> Result<Vec<u8>, SecretError> {
        let secret = match &self.key {
            SignKey::Ed25519(key) => [ED25519_SECRET, &key.to_bytes()].concat(),
            SignKey::Ecdsa(key) => {
                let secret = p256::SecretKey::from_slice(&key.to_bytes()).map_err(|_| SecretError::Key)?;
                secret.to_sec1_der().map_err(|_| SecretError::Key)?.to_vec()
            }
            SignKey::Digest | SignKey::Hmac(_) | SignKey::Null => return Err(SecretError::Key),
        };
        let name = NameView::from(&self.name);
        let meta = MetaInfo { content_type: Some(SIGNING_KEY), ..MetaInfo::default() };
        let signature =
            SignatureInfo { key_locator: Some(KeyLocator::Name(name)), ..SignatureInfo::new(self.key.kind()) };
        Ok(Data { meta: Some(meta), signature, ..Data::new(name, &secret) }.sign(&self.key))
    }
}
