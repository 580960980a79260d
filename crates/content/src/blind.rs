//! Names that reveal nothing without their key.
//!
//! Below a prefix each component is replaced by a keyed hash over it and all components before it:
//! ```text
//!   /lab / payroll / 2026          prefix /lab
//!   /lab / 9f0c…   / 41d7…         BLAKE3(key; /lab/payroll), BLAKE3(key; /lab/payroll/2026), 16 bytes in hex
//! ```
//! Publisher and readers share the key. Others still see the prefix, the number of components, equal names and equal
//! parents, sizes, and which node requests which name when. Checking a guessed name needs the key.
use core::fmt;
use zeroize::Zeroize;

use crate::{Name, NameError};

/// The key of blinded names. It is wiped from memory when dropped, and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct BlindingKey([u8; 32]);

impl BlindingKey {
    /// The key made of secret bytes of any number, which must come from a good source of entropy.
    pub fn from_secret(secret: &[u8]) -> Self {
        BlindingKey(blake3::derive_key("tributary blinded names v1", secret))
    }
    /// The name with each component after `prefix` blinded. Names outside it, and already blinded components, stay
    /// unchanged: blinding is idempotent.
    ///
    /// # Errors
    /// [`NameError`] if the name gets too long: a blinded component has 32 bytes.
    pub fn blind(&self, prefix: &Name, name: &Name) -> Result<Name, NameError> {
        if !prefix.is_prefix_of(name) {
            return Ok(name.clone());
        }
        let mut blinded = prefix.clone();
        for (index, (kind, component)) in name.typed_components().enumerate().skip(prefix.len()) {
            if kind == GENERIC && is_blinded(component) {
                blinded = blinded.child(component)?;
                continue;
            }
            let hash = blake3::keyed_hash(&self.0, name.prefix(index + 1).as_tlv());
            blinded = blinded.child(&hash.to_hex().as_bytes()[..2 * BLINDED_BYTES])?;
        }
        Ok(blinded)
    }
}
impl Drop for BlindingKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}
impl fmt::Debug for BlindingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BlindingKey")
    }
}

/// Whether a component has the form of a blinded one.
fn is_blinded(component: &[u8]) -> bool {
    component.len() == 2 * BLINDED_BYTES && component.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

const BLINDED_BYTES: usize = 16;
/// NDN's type of components that are nothing special.
const GENERIC: u16 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }
    fn blinded(key: u8, prefix: &str, text: &str) -> Name {
        BlindingKey::from_secret(&[key; 32]).blind(&name(prefix), &name(text)).expect("it is short")
    }

    #[test]
    fn components_below_the_prefix_are_hashes_under_the_key_and_the_rest_stays() {
        let one = blinded(1, "/lab", "/lab/payroll/2026");
        assert_eq!(one, blinded(1, "/lab", "/lab/payroll/2026"), "readers find it");
        assert_ne!(one, blinded(2, "/lab", "/lab/payroll/2026"));
        assert!(name("/lab").is_prefix_of(&one) && one.len() == 3 && !one.to_string().contains("payroll"));
        assert_eq!(one.prefix(2), blinded(1, "/lab", "/lab/payroll"), "levels stay levels");
        // The same word at another place is another hash.
        let other = blinded(1, "/lab", "/lab/plans/2026");
        assert_ne!(one.components().nth(2), other.components().nth(2));
        assert_eq!(blinded(1, "/lab", "/other/payroll"), name("/other/payroll"));
        assert_eq!(blinded(1, "/lab", "/lab"), name("/lab"));
        assert_eq!(blinded(1, "/lab", "/laboratory/x"), name("/laboratory/x"));
    }

    proptest! {
        #[test]
        fn blinding_twice_is_blinding_once(text in "(/[a-z]{1,9}){2,8}", length in 0usize..4) {
            let (key, name) = (BlindingKey::from_secret(&[3; 32]), name(&text));
            let prefix = name.prefix(length);
            let once = key.blind(&prefix, &name).expect("it is short");
            prop_assert_eq!(key.blind(&prefix, &once), Ok(once.clone()));
            prop_assert_eq!(once.len(), name.len());
        }
    }
}
