//! The contents of control messages are for their receivers only: link-label secrets and capability keys travel in
//! them.
//!
//! ```text
//! nonce 24 | XChaCha20-Poly1305(message) | tag 16
//! ```
//! The nonce is a keyed hash of the message and of its destination, so no node needs a source of randomness, and
//! different messages never share a nonce: an observer can recognise only equal messages, which repeat.
use alloc::vec::Vec;
use core::fmt;

use chacha20poly1305::{
    Key, KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};

use tributary_core::NodeId;

use super::{OPEN_KEY, WireError};

const NONCE_BYTES: usize = 24;
/// Bytes that encryption adds.
pub const SECRECY_BYTES: usize = NONCE_BYTES + 16;

/// The keys of two nodes for the content of control messages.
pub struct Secrecy {
    cipher: XChaCha20Poly1305,
    nonce_key: [u8; 32],
}

impl fmt::Debug for Secrecy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrecy")
    }
}
/// The public keys of a network without an authority.
impl Default for Secrecy {
    fn default() -> Self {
        Secrecy::new(&OPEN_KEY)
    }
}
impl Secrecy {
    /// The keys that follow from the secret that two nodes share.
    pub fn new(shared: &[u8; 32]) -> Secrecy {
        let key = blake3::derive_key("tributary psi control message content", shared);
        Secrecy {
            cipher: XChaCha20Poly1305::new(&Key::from(key)),
            nonce_key: blake3::derive_key("tributary psi control message nonce", shared),
        }
    }
    /// Encrypts a message; `context` names sender and receiver, and only the same context decrypts it.
    pub fn hide(&self, context: &[u8], message: &[u8]) -> Vec<u8> {
        let mut hasher = blake3::Hasher::new_keyed(&self.nonce_key);
        hasher.update(&(context.len() as u64).to_be_bytes());
        hasher.update(context);
        hasher.update(message);
        let nonce: [u8; NONCE_BYTES] = *hasher.finalize().as_bytes().first_chunk().expect("a hash has 32 bytes");
        let hidden = self.cipher.encrypt(&XNonce::from(nonce), Payload { msg: message, aad: context });
        let mut out = Vec::with_capacity(message.len() + SECRECY_BYTES);
        out.extend_from_slice(&nonce);
        out.extend_from_slice(&hidden.expect("a message is far shorter than the cipher's limit of 256 GiB"));
        out
    }
    /// Decrypts the result of [`Secrecy::hide`].
    ///
    /// # Errors
    /// [`WireError`] if it is cut, altered, or addressed to another node.
    pub fn reveal(&self, context: &[u8], hidden: &[u8]) -> Result<Vec<u8>, WireError> {
        let Some((nonce, hidden)) = hidden.split_first_chunk::<NONCE_BYTES>() else {
            return Err(WireError::Short { field: "hidden message", needs: SECRECY_BYTES, has: hidden.len() });
        };
        let message = self.cipher.decrypt(&XNonce::from(*nonce), Payload { msg: hidden, aad: context });
        message.map_err(|_| WireError::Value { field: "hidden message", found: hidden.len() as u64 })
    }
}

/// Which message of the domain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct MessageKey {
    /// Who sent it.
    pub from: NodeId,
    /// Its boot number.
    pub boot: u32,
    /// Its number since that boot.
    pub message: u32,
}

impl MessageKey {
    /// The context that a message's encryption is bound to: sender, boot number, message number, receiver.
    pub fn context(&self, to: NodeId) -> [u8; 24] {
        let mut context = [0; 24];
        context[..8].copy_from_slice(&self.from.0.to_be_bytes());
        context[8..12].copy_from_slice(&self.boot.to_be_bytes());
        context[12..16].copy_from_slice(&self.message.to_be_bytes());
        context[16..].copy_from_slice(&to.0.to_be_bytes());
        context
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_bit_another_context_and_another_key_are_noticed() {
        let domain = Secrecy::new(&[1; 32]);
        let hidden = domain.hide(b"a to b", b"the secret of the labels");
        assert_eq!(hidden.len(), 24 + SECRECY_BYTES);
        assert_eq!(domain.reveal(b"a to b", &hidden).unwrap(), b"the secret of the labels");
        assert!(domain.reveal(b"a to c", &hidden).is_err());
        assert!(Secrecy::new(&[2; 32]).reveal(b"a to b", &hidden).is_err());
        for bit in 0..hidden.len() * 8 {
            let mut bad = hidden.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(domain.reveal(b"a to b", &bad).is_err(), "bit {bit}");
        }
        for len in 0..hidden.len() {
            assert!(domain.reveal(b"a to b", &hidden[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn nonces_differ_for_different_messages_and_contexts() {
        let domain = Secrecy::new(&[1; 32]);
        let nonce = |context: &[u8], message: &[u8]| domain.hide(context, message)[..24].to_vec();
        assert_ne!(nonce(b"ab", b"c"), nonce(b"a", b"bc"));
        assert_ne!(nonce(b"a", b"b"), nonce(b"a", b"c"));
        assert_eq!(nonce(b"a", b"b"), nonce(b"a", b"b"));
    }
}
