//! The code that ends Hello, Beacon and Control packets. Control packets in a network with an authority use a key of
//! the two nodes; all others use [`OPEN_KEY`] and detect damage only: faces authenticate neighbours.
use alloc::vec::Vec;

use super::WireError;

/// The key of codes without a secret.
pub const OPEN_KEY: [u8; 32] = [0; 32];
/// Bytes of the code.
pub const MAC_BYTES: usize = 8;

/// Appends the code over `out[start..]`: the first 8 bytes of keyed BLAKE3.
///
/// `start` is the end of the common header: hops left and the mark change on the way and are not covered.
///
/// # Panics
/// If `start` is behind the end of `out`.
pub fn seal(key: &[u8; 32], out: &mut Vec<u8>, start: usize) {
    let hash = blake3::keyed_hash(key, &out[start..]);
    out.extend_from_slice(&hash.as_bytes()[..MAC_BYTES]);
}

/// Checks the code at the end of `body` and returns the bytes before it.
///
/// # Errors
/// [`WireError::Short`] if the body is shorter than a code, [`WireError::Value`] if the code is wrong.
pub fn unseal<'a>(key: &[u8; 32], body: &'a [u8]) -> Result<&'a [u8], WireError> {
    let Some((inner, code)) = body.split_last_chunk::<MAC_BYTES>() else {
        return Err(WireError::Short { field: "authentication code", needs: MAC_BYTES, has: body.len() });
    };
    let hash = blake3::keyed_hash(key, inner);
    // All bytes are compared even after a difference, so that timing reveals nothing.
    let difference = hash.as_bytes().iter().zip(code).fold(0, |sum, (a, b)| sum | (a ^ b));
    if difference == 0 {
        Ok(inner)
    } else {
        Err(WireError::Value { field: "authentication code", found: u64::from_be_bytes(*code) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_bit_is_noticed_and_the_wrong_key_too() {
        let mut packet = b"HEADbody".to_vec();
        seal(&[1; 32], &mut packet, 4);
        assert_eq!(packet.len(), 8 + MAC_BYTES);
        assert_eq!(unseal(&[1; 32], &packet[4..]), Ok(&b"body"[..]));
        assert!(unseal(&[2; 32], &packet[4..]).is_err());
        for bit in 32..packet.len() * 8 {
            let mut bad = packet.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(unseal(&[1; 32], &bad[4..]).is_err(), "bit {bit}");
        }
        assert!(unseal(&[1; 32], &packet[packet.len() - 7..]).is_err());
    }
}
