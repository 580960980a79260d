//! The code that ends link-state messages and messages about names. In a network with an authority the former are signed
//! instead, and each two routers have a key for the latter; without one it has [`OPEN_KEY`] and finds damage only.
use alloc::vec::Vec;

use super::WireError;

/// The key of codes without a secret.
pub const OPEN_KEY: [u8; 32] = [0; 32];
/// Bytes of the code.
pub const MAC_BYTES: usize = 8;

/// Appends the code over all of `message`: the first 8 bytes of keyed BLAKE3.
pub fn seal(key: &[u8; 32], message: &mut Vec<u8>) {
    let hash = blake3::keyed_hash(key, message);
    message.extend_from_slice(&hash.as_bytes()[..MAC_BYTES]);
}

/// Checks the code at the end of `sealed` and returns the bytes before it.
///
/// # Errors
/// [`WireError::Short`] if `sealed` is shorter than a code, [`WireError::Forged`] if the code is wrong.
pub fn unseal<'a>(key: &[u8; 32], sealed: &'a [u8]) -> Result<&'a [u8], WireError> {
    let Some((message, code)) = sealed.split_last_chunk::<MAC_BYTES>() else {
        return Err(WireError::Short { field: "authentication code", needs: MAC_BYTES, has: sealed.len() });
    };
    let hash = blake3::keyed_hash(key, message);
    // All bytes are compared regardless of earlier ones, so that timing reveals nothing.
    let difference = hash.as_bytes().iter().zip(code).fold(0, |sum, (a, b)| sum | (a ^ b));
    if difference == 0 { Ok(message) } else { Err(WireError::Forged { field: "message of the network" }) }
}
