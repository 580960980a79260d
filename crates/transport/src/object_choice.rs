//! Chooses the object that a fetch of a name transfers, and judges sources that offer another one.
//!
//! The rule is identical in all families. A name that belongs to a key ([`tributary_trust::owner_of`]) is believed under
//! that key only. For other names without a pinned or remembered key, a key is trusted only if every source has
//! it: node ids are free, so two forged publications would outvote an honest one, and no count of unproven publishers
//! decides. As soon as two keys claim a name for different bytes, a person has to decide. A trusted key is remembered
//! when an object that it signed is complete and verified ([`tributary_content::StoreOpener`]), never before. Among the
//! objects that the trusted publisher signed, the fetch resumes the one that an earlier fetch started, or else takes
//! the newest.
//!
//! A signature gives a name its meaning; the bytes of the chosen object are checked against its hash tree, so every
//! source that offers the same bytes serves, regardless of the version and the signer it presents. Where several
//! unknown keys sign the same bytes, the fetch takes the bytes but remembers no key: otherwise the first to sign a copy
//! would own the name. A source that offers other bytes under another key is faulty; one that offers other bytes under
//! the trusted key has another version, is honest and stays idle.
use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};

use tributary_content::{Manifest, Name, StoreError, StoreOpener};
use tributary_trust::check_signer;

/// What [`choose`] decides.
#[derive(Clone, PartialEq, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and it is taken apart at once")]
pub enum Choice {
    /// There is no candidate.
    Nothing,
    /// This object is fetched.
    Object {
        /// Its manifest.
        manifest: Manifest,
        /// A hint to the user about the choice.
        advice: Option<String>,
        /// Whether several unknown keys sign these bytes: [`StoreOpener::bind_no_key`].
        is_agreed: bool,
    },
    /// Several publishers claim the name for different bytes, and no key is pinned or remembered. The text names all of
    /// them.
    Contested(String),
}

/// A fetch's judgement of a source by the object that it offers; the best one of several offers counts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Standing {
    /// It claims a name without the right to it; the text describes the conflict.
    Faulty(String),
    /// It has as much right to the name as the chosen publisher and offers other bytes: the fetch ends, for this reason.
    Contested(String),
    /// It is honest and offers another version, which the text names.
    Superseded(String),
    /// It offers the chosen object.
    Wanted,
}

/// Why a manifest may not be fetched under a name.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// It is for this name.
    #[error("its manifest is for another name, '{0}'")]
    OtherName(Name),
    /// Its publisher is not trusted with the name.
    #[error(transparent)]
    Untrusted(StoreError),
}

/// Whether a manifest may be fetched as `name`.
///
/// # Errors
/// It is for another name, or `opener` does not trust its publisher.
pub fn check(opener: &dyn StoreOpener, name: &Name, manifest: &Manifest) -> Result<(), Unfit> {
    if manifest.name != *name {
        return Err(Unfit::OtherName(manifest.name.clone()));
    }
    trusts(opener, manifest).map_err(Unfit::Untrusted)
}
/// Checks that a manifest's publisher is trusted with its name: the key that the name belongs to, or else one that `opener`
/// trusts.
///
/// # Errors
/// [`StoreError::Untrusted`] explains why not.
pub fn trusts(opener: &dyn StoreOpener, manifest: &Manifest) -> Result<(), StoreError> {
    check_signer(&manifest.name, &manifest.publisher).map_err(|reason| StoreError::Untrusted { reason })?;
    opener.trusts(manifest)
}

/// Chooses among the offers of sources: one manifest per source, which has passed [`check`].
pub fn choose<'a>(opener: &dyn StoreOpener, name: &Name, candidates: impl IntoIterator<Item = &'a Manifest>) -> Choice {
    let candidates: Vec<&Manifest> = candidates.into_iter().collect();
    let mut claims: BTreeMap<[u8; 32], (usize, &Manifest)> = BTreeMap::new();
    for manifest in &candidates {
        let (count, newest) = claims.entry(manifest.publisher.0).or_insert((0, manifest));
        *count += 1;
        if manifest.version > newest.version {
            *newest = manifest;
        }
    }
    // If a key is pinned or remembered, `check` has left only its candidates.
    let is_agreed = claims.len() > 1 && candidates.iter().all(|manifest| manifest.continues(candidates[0]));
    if claims.len() > 1 && !is_agreed {
        return Choice::Contested(contest(name, claims.values().map(|(count, manifest)| (*count, *manifest))));
    }
    let keys = claims.len();
    // Where several keys agree, the copy with the fewest readers sets the access of the received object.
    let newest = claims.into_values().map(|(_, newest)| newest).max_by_key(|manifest| manifest.access.number());
    let Some(newest) = newest else { return Choice::Nothing };
    // A partial download resumes as any version of the same bytes, preferably as the newest.
    let mut all = core::iter::once(newest).chain(candidates.iter().copied());
    let manifest = all.find(|manifest| opener.resumes(manifest)).unwrap_or(newest);
    let is_first = !opener.knows_publisher(name) && !manifest.is_unsigned();
    let advice = is_first.then(|| match is_agreed {
        true => format!(
            "no key is known for '{name}': {keys} keys sign the same bytes, which are fetched; no key is remembered; \
             --publisher KEY pins one"
        ),
        false => format!(
            "no key is known for '{name}': key {} is believed because no source has another one, and is remembered once the \
             object is complete; --publisher KEY pins one",
            manifest.publisher
        ),
    });
    Choice::Object { manifest: manifest.clone(), advice, is_agreed }
}

fn contest<'a>(name: &Name, claims: impl Iterator<Item = (usize, &'a Manifest)>) -> String {
    let claim = |(count, manifest): (usize, &Manifest)| {
        format!("{count} source{} with key {}", if count == 1 { "" } else { "s" }, manifest.publisher)
    };
    let claims = claims.map(claim).collect::<Vec<_>>().join(", ");
    format!(
        "'{name}' is claimed by several publishers, and none of their keys is pinned or remembered: {claims}; name the \
         right one with --publisher KEY"
    )
}

/// The standing of a source that offers `offered` while the fetch transfers `chosen`. `check` is the result of
/// [`check`] for the offer.
pub fn standing(offered: &Manifest, check: Result<(), Unfit>, chosen: &Manifest) -> Standing {
    if offered.object_id() == chosen.object_id() {
        Standing::Wanted
    } else if let Err(unfit) = check {
        Standing::Faulty(unfit.to_string())
    } else if offered.publisher == chosen.publisher {
        Standing::Superseded(format!(
            "offers version {} of the object by now, this fetch is of version {}",
            offered.version, chosen.version
        ))
    } else {
        // A known key would have failed the check of one of them.
        Standing::Contested(contest(&chosen.name, [(1, chosen), (1, offered)].into_iter()))
    }
}

#[cfg(test)]
mod tests {
    use tributary_content::{MemoryObject, MemoryOpener, ObjectKind, ObjectReader, SigningKey};

    use super::*;

    fn name() -> Name {
        "/x".parse().expect("a name")
    }
    fn manifest(key: u8, version: u64) -> Manifest {
        of_bytes(key, version, key * 16 + version as u8)
    }
    fn of_bytes(key: u8, version: u64, byte: u8) -> Manifest {
        let key = SigningKey::from_secret(&[key; 32]);
        let made = MemoryObject::with_options(name(), alloc::vec![byte; 10], &key, version, ObjectKind::File, 4_096);
        made.expect("it is short").manifest().clone()
    }
    /// The key and version that are chosen; `None` for a contest.
    fn chosen(opener: &MemoryOpener, offers: &[(u8, u64)]) -> Option<Manifest> {
        let offers: Vec<Manifest> = offers.iter().map(|(key, version)| manifest(*key, *version)).collect();
        match choose(opener, &name(), &offers) {
            Choice::Object { manifest, .. } => Some(manifest),
            Choice::Nothing | Choice::Contested(_) => None,
        }
    }

    #[test]
    fn the_only_key_is_believed_and_no_majority_of_unproven_publishers() {
        let opener = MemoryOpener::new();
        assert_eq!(chosen(&opener, &[(1, 3), (1, 9), (1, 5)]), Some(manifest(1, 9)));
        assert_eq!(chosen(&opener, &[(1, 3), (2, 9)]), None, "one each");
        assert_eq!(chosen(&opener, &[(1, 1), (2, 1), (1, 1), (1, 1)]), None, "three may be forged");
        assert_eq!(choose(&opener, &name(), &[]), Choice::Nothing);
    }

    #[test]
    fn other_bytes_of_the_same_key_are_another_version_and_of_another_key_a_contest_or_a_fault() {
        let of = |offered: Manifest| standing(&offered, Ok(()), &manifest(1, 2));
        assert_eq!(of(manifest(1, 2)), Standing::Wanted);
        assert!(matches!(of(manifest(1, 3)), Standing::Superseded(_)));
        assert!(matches!(of(manifest(2, 2)), Standing::Contested(_)));
        let unfit = standing(&manifest(2, 2), Err(Unfit::OtherName(name())), &manifest(1, 2));
        assert!(matches!(unfit, Standing::Faulty(_)));
    }

    #[test]
    fn the_same_bytes_serve_whoever_signs_them_and_under_whichever_version() {
        let chosen = of_bytes(1, 2, 7);
        for offered in [of_bytes(1, 9, 7), of_bytes(2, 1, 7)] {
            assert_eq!(standing(&offered, Err(Unfit::OtherName(name())), &chosen), Standing::Wanted);
        }
        let other = standing(&of_bytes(2, 1, 8), Err(Unfit::OtherName(name())), &chosen);
        assert!(matches!(other, Standing::Faulty(_)));
    }

    #[test]
    fn unknown_keys_that_sign_the_same_bytes_are_believed_in_them_and_none_is_remembered() {
        let opener = MemoryOpener::new();
        let same = [of_bytes(1, 3, 7), of_bytes(2, 9, 7), of_bytes(3, 1, 7)];
        let Choice::Object { manifest, is_agreed: true, advice: Some(advice) } = choose(&opener, &name(), &same) else {
            panic!("they agree");
        };
        assert_eq!(manifest.object_id(), same[0].object_id());
        assert!(advice.contains("3 keys") && advice.contains("no key is remembered"), "{advice}");
        let but_one = [of_bytes(1, 3, 7), of_bytes(2, 9, 7), of_bytes(3, 1, 8)];
        assert!(matches!(choose(&opener, &name(), &but_one), Choice::Contested(_)));
    }
}
