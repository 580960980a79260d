//! Decides which publisher a fetch believes for a name.
//!
//! ```text
//!  pinned key ─► key that owns the name ─► rule of the longest prefix ─► certified key
//!             ─► key remembered for the name, or for the nearest name above ─► first use
//! ```
//! The first of these that exists decides alone. Bytes that a request names by their hash need no key.
use alloc::{collections::BTreeMap, format, sync::Arc, vec::Vec};
use tributary_content::{Manifest, Name, ObjectId, PublicKey, StoreError};

use crate::{check_signer, owner_of};

/// Keys by the prefixes of rules, or by the names that they are remembered for.
pub type Keys = BTreeMap<Name, PublicKey>;

/// What a fetch believes besides the keys that its node remembers.
#[derive(Clone, Debug, Default)]
pub struct Believed {
    /// The only publisher that the request accepts.
    pub pinned: Option<PublicKey>,
    /// The only bytes that it accepts.
    pub object: Option<ObjectId>,
    /// The publishers that the node's config names for prefixes.
    pub rules: Arc<Keys>,
    /// The publishers that an authority vouches for.
    pub certified: Vec<PublicKey>,
    /// Whether a remembered key counts for its name only: those that send objects to a node share the names below one.
    pub is_for_senders: bool,
}

/// The reason to believe a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ground {
    /// The request pins it.
    Pinned,
    /// The name belongs to it.
    Owner,
    /// A rule for this prefix names it.
    Rule(Name),
    /// An authority vouches for it.
    Certified,
    /// It is remembered for this name.
    Remembered(Name),
}

impl Believed {
    /// The only key that is believed for a name, and why; `None` believes the first one.
    pub fn key(&self, name: &Name, remembered: &Keys) -> Option<(PublicKey, Ground)> {
        let pinned = self.pinned.map(|key| (key, Ground::Pinned));
        let owner = || owner_of(name).map(|key| (key, Ground::Owner));
        let rule = || nearest(&self.rules, name).map(|(key, prefix)| (key, Ground::Rule(prefix)));
        pinned.or_else(owner).or_else(rule).or_else(|| match self.certified[..] {
            [] => {
                let known = nearest(remembered, name).filter(|(_, of)| !self.is_for_senders || of == name);
                known.map(|(key, of)| (key, Ground::Remembered(of)))
            }
            [key] => Some((key, Ground::Certified)),
            // They may contest the name.
            [..] => None,
        })
    }
    /// Whether the first publisher that offers a name is not simply believed.
    pub fn knows(&self, name: &Name, remembered: &Keys) -> bool {
        self.object.is_some() || self.key(name, remembered).is_some()
    }
    /// Whether a complete object binds its name to its publisher's key.
    pub fn binds(&self) -> bool {
        // A hash identifies bytes, and no publisher.
        self.object.is_none() || self.pinned.is_some()
    }
    /// Checks the publisher of a manifest against its name.
    ///
    /// # Errors
    /// [`StoreError::Untrusted`] names both keys, and how to accept the offered one.
    pub fn check(&self, manifest: &Manifest, remembered: &Keys) -> Result<(), StoreError> {
        let Manifest { name, publisher, .. } = manifest;
        let refuse = |reason| Err(StoreError::Untrusted { reason });
        // No pin gives a stranger the names of a key.
        if let Err(reason) = check_signer(name, publisher) {
            return refuse(reason);
        }
        if let Some(object) = self.object
            && object != manifest.object_id()
        {
            let offered = manifest.object_id();
            return refuse(format!("'{name}' is offered with the hash {offered}, but you asked for {object}"));
        }
        let Some((key, ground)) = self.key(name, remembered).filter(|(key, _)| self.binds() && key != publisher) else {
            return Ok(());
        };
        let believed = match ground {
            Ground::Pinned => format!("you asked for {key}"),
            // `check_signer` has refused other keys.
            Ground::Owner => return Ok(()),
            Ground::Rule(prefix) => {
                format!("a [[trust]] in this node's config believes only {key} below '{prefix}'")
            }
            Ground::Certified => format!("an authority vouches for {key}"),
            Ground::Remembered(of) if of == *name => {
                return refuse(format!(
                    "'{name}' was published by {key} before, and is now offered with a signature by {publisher}: \
                     either its publisher has a new key, or somebody else uses its name; \
                     if you trust the new key, fetch with --publisher {publisher}"
                ));
            }
            Ground::Remembered(of) => format!("'{of}', above it, was published by {key}"),
        };
        refuse(format!(
            "'{name}' is offered with a signature by {publisher}, but {believed}; \
             if you trust the offered key, fetch with --publisher {publisher}"
        ))
    }
}

/// The key of the longest name that is `name` or above it.
fn nearest(keys: &Keys, name: &Name) -> Option<(PublicKey, Name)> {
    (0..=name.len()).rev().map(|len| name.prefix(len)).find_map(|above| Some((*keys.get(&above)?, above)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{string::ToString, vec};
    use tributary_content::{MemoryObject, ObjectReader, SigningKey};

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }
    fn key(byte: u8) -> PublicKey {
        SigningKey::from_secret(&[byte; 32]).public()
    }
    fn keys(of: &[(&str, u8)]) -> Keys {
        of.iter().map(|(text, byte)| (name(text), key(*byte))).collect()
    }
    fn offered(text: &str, by: u8) -> Manifest {
        let object = MemoryObject::new(name(text), vec![7; 10], &SigningKey::from_secret(&[by; 32]));
        object.expect("it is short").manifest().clone()
    }

    #[test]
    fn a_pin_outranks_rules_these_a_certificate_and_that_what_is_remembered() {
        let remembered = keys(&[("/lab/a", 4)]);
        let mut believed = Believed {
            pinned: Some(key(1)),
            rules: Arc::new(keys(&[("/lab", 2)])),
            certified: vec![key(3)],
            ..Believed::default()
        };
        let mut decides = |byte: u8, ground: Ground, drop: fn(&mut Believed)| {
            assert_eq!(believed.key(&name("/lab/a"), &remembered), Some((key(byte), ground)));
            for by in 1..=5 {
                assert_eq!(believed.check(&offered("/lab/a", by), &remembered).is_ok(), by == byte, "{by}");
            }
            drop(&mut believed);
        };
        decides(1, Ground::Pinned, |believed| believed.pinned = None);
        decides(2, Ground::Rule(name("/lab")), |believed| believed.rules = Arc::default());
        decides(3, Ground::Certified, |believed| believed.certified = Vec::new());
        decides(4, Ground::Remembered(name("/lab/a")), |_| {});
        assert!(!believed.knows(&name("/lab/b"), &remembered), "the first one is believed");
        assert_eq!(believed.check(&offered("/lab/b", 9), &remembered), Ok(()));
        believed.certified = vec![key(5), key(6)];
        assert_eq!(believed.key(&name("/lab/a"), &remembered), None, "two that are certified contest a name");
    }

    #[test]
    fn the_longest_prefix_decides_and_no_name_beside_or_below() {
        let of = keys(&[("/lab", 1), ("/lab/a/b", 2), ("/lab/a/b/c/d", 3)]);
        let rules = Believed { rules: Arc::new(of.clone()), ..Believed::default() };
        for (text, expected) in
            [("/lab", Some(1)), ("/lab/a", Some(1)), ("/lab/a/b", Some(2)), ("/lab/a/b/c", Some(2)), ("/la", None)]
        {
            let expected = expected.map(key);
            assert_eq!(rules.key(&name(text), &Keys::new()).map(|(key, _)| key), expected, "{text}");
            assert_eq!(Believed::default().key(&name(text), &of).map(|(key, _)| key), expected, "{text}");
        }
        let of_sender = Believed { is_for_senders: true, ..Believed::default() };
        assert_eq!(of_sender.key(&name("/lab/a"), &of), None, "senders share the names below one");
        assert!(of_sender.knows(&name("/lab"), &of) && of_sender.check(&offered("/lab", 2), &of).is_err());
        let root = Believed { rules: Arc::new(keys(&[("/", 1)])), ..Believed::default() };
        assert!(root.knows(&name("/x"), &Keys::new()));
    }

    #[test]
    fn a_refusal_names_both_keys_and_the_way_to_accept() {
        let (remembered, rules) = (keys(&[("/lab", 1)]), Arc::new(keys(&[("/lab", 1)])));
        let of = |believed: &Believed, text| believed.check(&offered(text, 2), &remembered).unwrap_err().to_string();
        let pinned = Believed { pinned: Some(key(1)), ..Believed::default() };
        let certified = Believed { certified: vec![key(1)], ..Believed::default() };
        for (refused, ground) in [
            (of(&pinned, "/lab"), "but you asked for"),
            (of(&Believed { rules, ..Believed::default() }, "/lab/a"), "[[trust]]"),
            (of(&certified, "/lab"), "an authority vouches for"),
            (of(&Believed::default(), "/lab"), "was published by"),
            (of(&Believed::default(), "/lab/a"), "'/lab', above it,"),
        ] {
            for part in [ground, &key(1).to_string(), &format!("--publisher {}", key(2))] {
                assert!(refused.contains(part), "{part}: {refused}");
            }
        }
    }

    #[test]
    fn a_hash_accepts_its_bytes_from_everybody_and_binds_no_key() {
        let (ours, remembered) = (offered("/lab/a", 1), keys(&[("/lab/a", 9)]));
        let by_hash = Believed { object: Some(ours.object_id()), ..Believed::default() };
        assert_eq!(by_hash.check(&offered("/lab/a", 2), &remembered), Ok(()));
        assert!(by_hash.knows(&name("/lab/a"), &Keys::new()) && !by_hash.binds());
        let by_both = Believed { pinned: Some(key(1)), ..by_hash.clone() };
        assert!(by_both.binds() && by_both.check(&ours, &remembered).is_ok());
        assert!(by_both.check(&offered("/lab/a", 2), &remembered).is_err(), "another key");
        let by_another = Believed { object: Some(ObjectId([1; 16])), ..Believed::default() };
        let refused = by_another.check(&ours, &remembered).unwrap_err().to_string();
        assert!(refused.contains("01010101") && refused.contains(&ours.object_id().to_string()), "{refused}");
    }
}
