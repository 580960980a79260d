//! Public keys as certificates carry them: SubjectPublicKeyInfo in DER. RFC 5280 §4.1.2.7.
//!
//! | algorithm | identifier | key |
//! |---|---|---|
//! | Ed25519 | 1.3.101.112 | 32 bytes; RFC 8410 |
//! | ECDSA | 1.2.840.10045.2.1 over P-256 | a point; RFC 5480 |
//! | RSA | 1.2.840.113549.1.1.1 | RSAPublicKey of 2,048 to 8,192 bits; RFC 8017 |
use alloc::{boxed::Box, vec::Vec};

use p256::{
    ecdsa,
    pkcs8::{
        DecodePublicKey, EncodePublicKey, ObjectIdentifier,
        der::{Decode, Encode, Reader, SliceReader, asn1::BitStringRef, asn1::UintRef},
        spki::{AlgorithmIdentifierRef, SubjectPublicKeyInfoRef},
    },
};

use super::{VerifyKey, signature::ED25519_INFO};

/// The algorithm identifier of RSA keys.
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
/// Bits of an RSA modulus: fewer can be factored, more take too long to verify.
pub const RSA_BITS: core::ops::RangeInclusive<usize> = 2048..=8192;

/// Why bytes are no usable public key.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpkiError {
    /// It is no SubjectPublicKeyInfo, or its key does not fit its algorithm.
    #[error("it holds no public key in DER (SubjectPublicKeyInfo)")]
    Malformed,
    /// An unknown algorithm.
    #[error("its key is neither Ed25519 nor ECDSA over P-256 nor RSA")]
    Algorithm,
    /// An RSA key of a size that is not accepted.
    #[error("its RSA key has {0} bits; 2048 to 8192 are accepted")]
    RsaBits(usize),
}

impl VerifyKey {
    /// A P-256 key from a point in SEC1 form (33 or 65 bytes) or a SubjectPublicKeyInfo; `None` if they are no such key.
    pub fn ecdsa(public: &[u8]) -> Option<VerifyKey> {
        let key = ecdsa::VerifyingKey::from_sec1_bytes(public)
            .ok()
            .or_else(|| ecdsa::VerifyingKey::from_public_key_der(public).ok())?;
        Some(VerifyKey::Ecdsa(Box::new(key)))
    }
    /// The key in a SubjectPublicKeyInfo.
    ///
    /// # Errors
    /// [`SpkiError`] names the defect.
    pub fn from_spki(der: &[u8]) -> Result<VerifyKey, SpkiError> {
        if let Some(key) = der.strip_prefix(ED25519_INFO) {
            let key = key.try_into().map_err(|_| SpkiError::Malformed)?;
            return VerifyKey::ed25519(key).ok_or(SpkiError::Malformed);
        }
        let info = SubjectPublicKeyInfoRef::from_der(der).map_err(|_| SpkiError::Malformed)?;
        if info.algorithm.oid == RSA {
            let key = info.subject_public_key.as_bytes().ok_or(SpkiError::Malformed)?;
            let bits = rsa_bits(key).ok_or(SpkiError::Malformed)?;
            let is_accepted = RSA_BITS.contains(&bits);
            return if is_accepted { Ok(VerifyKey::Rsa(key.to_vec())) } else { Err(SpkiError::RsaBits(bits)) };
        }
        if info.algorithm.oid != p256::elliptic_curve::ALGORITHM_OID {
            return Err(SpkiError::Algorithm);
        }
        // Also a key over another curve.
        let key = ecdsa::VerifyingKey::from_public_key_der(der).map_err(|_| SpkiError::Algorithm)?;
        Ok(VerifyKey::Ecdsa(Box::new(key)))
    }
    /// The key as a SubjectPublicKeyInfo; `None` if it is no public key.
    pub fn to_spki(&self) -> Option<Vec<u8>> {
        match self {
            VerifyKey::Ed25519(key) => Some([ED25519_INFO, key.as_bytes()].concat()),
            VerifyKey::Ecdsa(key) => key.to_public_key_der().ok().map(|der| der.as_bytes().to_vec()),
            VerifyKey::Rsa(key) => {
                let null = p256::pkcs8::der::AnyRef::NULL;
                let algorithm = AlgorithmIdentifierRef { oid: RSA, parameters: Some(null) };
                let subject_public_key = BitStringRef::from_bytes(key).ok()?;
                SubjectPublicKeyInfoRef { algorithm, subject_public_key }.to_der().ok()
            }
            VerifyKey::Digest | VerifyKey::Hmac(_) | VerifyKey::Null | VerifyKey::Missing(_) => None,
        }
    }
}

/// The size of the modulus in an RSAPublicKey.
fn rsa_bits(key: &[u8]) -> Option<usize> {
    let mut reader = SliceReader::new(key).ok()?;
    let bits = reader.sequence(|inner| {
        let modulus = UintRef::decode(inner)?;
        UintRef::decode(inner)?;
        let bytes = modulus.as_bytes();
        let unused = bytes.first().map_or(0, |first| first.leading_zeros() as usize);
        Ok::<usize, p256::pkcs8::der::Error>(bytes.len() * 8 - unused)
    });
    bits.ok().filter(|_| reader.is_finished())
}
