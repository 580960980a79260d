//! Who may claim a name.
use alloc::{collections::BTreeMap, format, string::String};
use tributary_content::{Name, PublicKey};
use tributary_core::FaceId;

use crate::Grant;

/// The first component of names that belong to a key.
const FIRST: &[u8] = b"key";
/// What a key starts with as text, and not as a component.
const PREFIX: &str = "ed25519:";

/// The key that a name belongs to, whatever an authority or a receiver knows: that of `/key/HASH` and of all names below,
/// where `HASH` is the key as this program prints it, without `ed25519:`: 64 lower-case hexadecimal digits. In upper case
/// they name the same key, so that nobody gets a name that looks like another's.
pub fn owner_of(name: &Name) -> Option<PublicKey> {
    let mut components = name.components();
    components.next().filter(|first| *first == FIRST)?;
    format!("{PREFIX}{}", core::str::from_utf8(components.next()?).ok()?).parse().ok()
}

/// The name `/key/HASH`, below which all names belong to the key.
pub fn key_prefix(key: &PublicKey) -> Name {
    let text = format!("{key}");
    let digits = text.trim_start_matches(PREFIX).as_bytes();
    Name::root().child(FIRST).and_then(|name| name.child(digits)).expect("it is short")
}

/// Checks that `signer` may sign objects and records of this name: names of a key need its signature.
///
/// # Errors
/// The reason why not, which names both keys.
pub fn check_signer(name: &Name, signer: &PublicKey) -> Result<(), String> {
    match owner_of(name).filter(|owner| owner != signer) {
        Some(owner) => Err(format!("'{name}' belongs to the key {owner}, and is offered with a signature by {signer}")),
        None => Ok(()),
    }
}

/// Whether a node that has proven `grant` may use `name` as its own. A name that [belongs to a key](owner_of) needs that
/// key. Without an authority (no `owners`) everybody may use the other names. With one, certified nodes may below their
/// prefixes, and others where none of the `owners` has names above or below.
pub fn may_claim<'a>(name: &Name, grant: Option<&Grant>, owners: Option<impl Iterator<Item = &'a Grant>>) -> bool {
    let overlaps = |owned: &Name| owned.is_prefix_of(name) || name.is_prefix_of(owned);
    match (owner_of(name), owners) {
        (Some(owner), _) => grant.is_some_and(|grant| grant.key == owner),
        (None, None) => true,
        // Without a grant, the node has proven nothing.
        (None, Some(mut owners)) => grant.is_some_and(|grant| match grant.is_certified() {
            true => grant.owns(name),
            false => !owners.any(|owner| owner.prefixes.iter().any(overlaps)),
        }),
    }
}

/// The proven keys of a node's neighbours, and the names that they may claim.
#[derive(Clone, Debug, Default)]
pub struct Claimants {
    grants: BTreeMap<FaceId, Grant>,
    has_authority: bool,
}

impl Claimants {
    /// From now on certificates decide on names that belong to no key.
    pub fn require_certificates(&mut self) {
        self.has_authority = true;
    }
    /// Sets the rights of the neighbour on a face; `None` if none has proven its key there.
    pub fn set(&mut self, face: FaceId, grant: Option<&Grant>) {
        self.grants.remove(&face);
        self.grants.extend(grant.map(|grant| (face, grant.clone())));
    }
    /// The rights of the neighbour on a face.
    pub fn grant(&self, face: FaceId) -> Option<&Grant> {
        self.grants.get(&face)
    }
    /// The rights of all.
    pub fn grants(&self) -> impl Iterator<Item = &Grant> {
        self.grants.values()
    }
    /// Whether the neighbour on a face may use `name` as its own: see [`may_claim`].
    pub fn may_claim(&self, face: FaceId, name: &Name) -> bool {
        may_claim(name, self.grant(face), self.has_authority.then(|| self.grants()))
    }
    /// Whether the neighbour on a face may say that `folder` leads to a name of its own: it may claim the folder, or owns
    /// a name below, or nobody owns the folder.
    pub fn may_lead_to(&self, face: FaceId, folder: &Name) -> bool {
        if !self.has_authority || owner_of(folder).is_some() {
            return self.may_claim(face, folder);
        }
        let leads = |grant: &Grant| grant.prefixes.iter().any(|prefix| folder.is_prefix_of(prefix));
        self.grant(face).is_some_and(|grant| match grant.is_certified() {
            true => grant.owns(folder) || leads(grant) || folder.is_prefix_of(&key_prefix(&grant.key)),
            false => !self.grants().any(|other| other.owns(folder)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Roles, UnixTime};
    use alloc::vec::Vec;
    use tributary_content::SigningKey;

    fn key(byte: u8) -> PublicKey {
        SigningKey::from_secret(&[byte; 32]).public()
    }
    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }
    /// A name below the key of `byte`.
    fn below(byte: u8, rest: &str) -> Name {
        name(&format!("{}{rest}", key_prefix(&key(byte))))
    }

    #[test]
    fn names_below_a_key_belong_to_it_in_either_case_and_no_other_names_do() {
        let printed = format!("{}", key(1));
        assert_eq!(key_prefix(&key(1)), name(&format!("/key/{}", &printed[8..])));
        for owned in [below(1, ""), below(1, "/lab/image"), name(&format!("/key/{}/x", printed[8..].to_uppercase()))] {
            assert_eq!(owner_of(&owned), Some(key(1)), "{owned}");
        }
        let digits = &printed[8..];
        let others = ["/", "/key", "/key/x", "/lab/key", &format!("/keys/{digits}"), &format!("/key/{}", &digits[1..])];
        for other in others.map(name) {
            assert_eq!(owner_of(&other), None, "{other}");
        }
    }

    #[test]
    fn only_its_key_signs_what_has_the_name_of_a_key() {
        assert_eq!(check_signer(&below(1, "/x"), &key(1)), Ok(()));
        assert_eq!(check_signer(&name("/x"), &key(2)), Ok(()));
        let reason = check_signer(&below(1, "/x"), &key(2)).expect_err("it is a stranger's");
        assert!([1, 2].iter().all(|byte| reason.contains(&format!("{}", key(*byte)))), "{reason}");
    }

    #[test]
    fn nobody_claims_the_name_of_a_key_that_it_has_not_proven_with_an_authority_or_without() {
        let certified = |byte: u8, prefixes: &[&str]| Grant {
            prefixes: prefixes.iter().copied().map(name).collect::<Vec<_>>(),
            until: Some(UnixTime::MAX),
            serial: Some(1),
            roles: Roles::HOST,
            ..Grant::host(key(byte), "")
        };
        let mut claimants = Claimants::default();
        claimants.set(FaceId(1), Some(&Grant::host(key(1), "")));
        claimants.set(FaceId(2), Some(&certified(2, &["/key", "/lab"])));
        for has_authority in [false, true] {
            if has_authority {
                claimants.require_certificates();
            }
            let may = |face: u32| {
                (claimants.may_claim(FaceId(face), &below(1, "/x")), claimants.may_lead_to(FaceId(face), &below(1, "")))
            };
            assert_eq!([may(1), may(2), may(3)], [(true, true), (false, false), (false, false)]);
        }
        assert!(claimants.may_claim(FaceId(2), &below(2, "")) && claimants.may_claim(FaceId(2), &name("/lab/x")));
        assert!(claimants.may_lead_to(FaceId(2), &name("/key")) && !claimants.may_claim(FaceId(1), &name("/lab/x")));
        claimants.set(FaceId(1), None);
        assert!(!claimants.may_claim(FaceId(1), &below(1, "/x")), "it has gone");
    }
}
