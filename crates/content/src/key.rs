//! Publishers' keys and signatures.
use alloc::vec::Vec;
use core::{fmt, str::FromStr};
use ed25519_dalek::Signer;

use crate::hex;

/// A publisher's Ed25519 key; as text `ed25519:` and 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKey {
    /// Whether `signature` was made over `message` for `context` with this key. See [`SigningKey::sign`].
    ///
    /// Strict: keys of small order and signatures that could be altered without the secret key are refused.
    pub fn verify(&self, context: &str, message: &[u8], signature: &Signature) -> bool {
        let Ok(key) = ed25519_dalek::VerifyingKey::from_bytes(&self.0) else { return false };
        let signature = ed25519_dalek::Signature::from_bytes(&signature.0);
        key.verify_strict(&framed(context, message), &signature).is_ok()
    }
    /// The X25519 key of the same secret, for key agreement: the curve's Montgomery form. `None` if these bytes are not a
    /// key, or one of small order.
    ///
    /// One secret for both uses is sound for these schemes (E. Thormarker, "On using the same key pair for Ed25519 and an
    /// X25519 based KEM", 2021), and spares people a second key to read out and compare.
    pub fn agreement_key(&self) -> Option<[u8; 32]> {
        let key = ed25519_dalek::VerifyingKey::from_bytes(&self.0).ok().filter(|key| !key.is_weak())?;
        Some(key.to_montgomery().to_bytes())
    }
}
impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        hex::show(&self.0, f)
    }
}
impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}
impl FromStr for PublicKey {
    type Err = KeyError;
    /// Reads `ed25519:` and 64 hex digits.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let mut key = [0; 32];
        let digits = text.strip_prefix(PREFIX).ok_or(KeyError::Format)?;
        hex::decode(digits, &mut key).ok_or(KeyError::Format)?;
        match ed25519_dalek::VerifyingKey::from_bytes(&key) {
            Ok(point) if !point.is_weak() => Ok(PublicKey(key)),
            _ => Err(KeyError::Weak),
        }
    }
}

/// A publisher's secret key. It is wiped from memory when dropped, and never shown.
#[derive(Clone)]
pub struct SigningKey(ed25519_dalek::SigningKey);

impl SigningKey {
    /// The key made of 32 secret bytes, which must come from a good source of entropy.
    pub fn from_secret(secret: &[u8; 32]) -> Self {
        SigningKey(ed25519_dalek::SigningKey::from_bytes(secret))
    }
    /// The public half.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key().to_bytes())
    }
    /// Signs `message` for one purpose, named by `context`; a signature for one context is worthless in another.
    ///
    /// # Panics
    /// If `context` has more than 255 bytes.
    pub fn sign(&self, context: &str, message: &[u8]) -> Signature {
        Signature(self.0.sign(&framed(context, message)).to_bytes())
    }
    /// The X25519 secret of the same key. See [`PublicKey::agreement_key`].
    pub fn agreement_secret(&self) -> [u8; 32] {
        self.0.to_scalar_bytes()
    }
    /// A secret for one purpose that only the holders of this key and of `other` can compute. `None` if `other` is not
    /// a key.
    ///
    /// It is constant for a pair of keys: a cipher that uses it needs nonces that never repeat.
    pub fn pair_secret(&self, other: &PublicKey, context: &str) -> Option<[u8; 32]> {
        let theirs = ed25519_dalek::VerifyingKey::from_bytes(&other.0).ok().filter(|key| !key.is_weak())?;
        let shared = theirs.to_montgomery().mul_clamped(self.agreement_secret());
        let own = self.public();
        let (low, high) = if own < *other { (&own, other) } else { (other, &own) };
        let mut hasher = blake3::Hasher::new_derive_key(context);
        hasher.update(shared.as_bytes()).update(&low.0).update(&high.0);
        Some(*hasher.finalize().as_bytes())
    }
}
impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey(of {})", self.public())
    }
}

/// An Ed25519 signature.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature(pub [u8; 64]);

impl Signature {
    /// Bytes of a signature.
    pub const BYTES: usize = 64;
}
impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signature(")?;
        hex::show(&self.0, f)?;
        f.write_str(")")
    }
}

/// Text that is not a public key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Not `ed25519:` and 64 hex digits.
    #[error("a key is written as 'ed25519:' and 64 hex digits")]
    Format,
    /// Not a point of the curve, or one of small order, which has valid signatures without a secret.
    #[error("these bytes are not an Ed25519 key")]
    Weak,
}

const PREFIX: &str = "ed25519:";

/// The signed bytes: the length of the context in one byte, the context, the message.
fn framed(context: &str, message: &[u8]) -> Vec<u8> {
    let length = u8::try_from(context.len()).expect("a context has at most 255 bytes");
    [&[length], context.as_bytes(), message].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{
        format,
        string::{String, ToString},
    };

    #[test]
    fn a_signature_holds_for_its_key_context_and_message_only() {
        let key = SigningKey::from_secret(&[1; 32]);
        let signature = key.sign("test", b"message");
        assert!(key.public().verify("test", b"message", &signature));
        assert!(!key.public().verify("tes", b"tmessage", &signature));
        assert!(!key.public().verify("test", b"massage", &signature));
        assert!(!SigningKey::from_secret(&[2; 32]).public().verify("test", b"message", &signature));
    }

    #[test]
    fn keys_are_shown_as_text_and_read_back() {
        let key = SigningKey::from_secret(&[1; 32]).public();
        assert!(key.to_string().starts_with("ed25519:8a88e3dd7409f195"), "{key}");
        assert_eq!(key.to_string().parse(), Ok(key));
        assert_eq!("ed25519:00".parse::<PublicKey>(), Err(KeyError::Format));
        assert_eq!(key.to_string().replace("ed25519:", "").parse::<PublicKey>(), Err(KeyError::Format));
        let neutral_element = format!("ed25519:01{}", "0".repeat(62));
        assert_eq!(neutral_element.parse::<PublicKey>(), Err(KeyError::Weak));
    }

    #[test]
    fn two_keys_have_one_secret_that_a_third_does_not_have() {
        let [a, b, c] = [1, 2, 3].map(|byte| SigningKey::from_secret(&[byte; 32]));
        let secret = a.pair_secret(&b.public(), "test").expect("a key");
        assert_eq!(b.pair_secret(&a.public(), "test"), Some(secret));
        assert_ne!(a.pair_secret(&b.public(), "tests"), Some(secret));
        assert_ne!(c.pair_secret(&b.public(), "test"), Some(secret));
        let neutral_element = PublicKey(core::array::from_fn(|index| u8::from(index == 0)));
        assert_eq!((a.pair_secret(&neutral_element, "test"), neutral_element.agreement_key()), (None, None));
    }

    #[test]
    fn a_signing_key_does_not_show_its_secret() {
        let secret = [0x5a; 32];
        let shown = format!("{:?}", SigningKey::from_secret(&secret));
        let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(!shown.contains(&hex) && !shown.contains("90, 90"), "{shown}");
    }
}
