//! Chooses the object that a fetch of a name transfers, and judges sources that offer another one.
//!
//! The rule is the same in all families. Without a pinned or remembered key, a key is trusted only if every source has it:
//! node ids are free, so two forged publications would outvote an honest one, and no count of unproven publishers decides.
//! As soon as two keys claim a name, a person has to decide. A trusted key is remembered when an object that it signed is
//! complete and verified ([`tributary_content::StoreOpener`]), never before. Of the objects that the trusted publisher
//! signed, the fetch continues the one that an earlier fetch has begun, else it takes the newest. A source that offers
//! another object under another key is faulty; one that offers another version under the trusted key is honest and stays
//! idle.
use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};

use tributary_content::{Manifest, Name, StoreOpener};

/// What [`choose`] decides.
#[derive(Clone, PartialEq, Debug)]
pub enum Choice {
    /// There is no candidate.
    Nothing,
    /// This object is fetched.
    Object {
        /// Its manifest.
        manifest: Manifest,
        /// What a person should know of how it was chosen.
        advice: Option<String>,
    },
    /// Several publishers claim the name, and none of them is pinned or remembered. The text names all of them.
    Contested(String),
}

/// A fetch's judgement of a source by the object that it offers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It offers the chosen object.
    Wanted,
    /// It is honest and offers another version, as the text says.
    Superseded(String),
    /// It claims a name that is not its own, as the text says.
    Faulty(String),
}

/// Whether a manifest may be fetched as `name`.
///
/// # Errors
/// The reason for people: it is for another name, or `opener` does not trust its publisher.
pub fn check(opener: &dyn StoreOpener, name: &Name, manifest: &Manifest) -> Result<(), String> {
    if manifest.name != *name {
        return Err(format!("its manifest is for another name, '{}'", manifest.name));
    }
    opener.trusts(manifest).map_err(|error| error.to_string())
}

/// Chooses among what sources offer: one manifest per source, each of which has passed [`check`].
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
    if claims.len() > 1 {
        let claim = |(count, manifest): &(usize, &Manifest)| {
            format!("{count} source{} with key {}", if *count == 1 { "" } else { "s" }, manifest.publisher)
        };
        let claims = claims.values().map(claim).collect::<Vec<_>>().join(", ");
        return Choice::Contested(format!(
            "'{name}' is claimed by several publishers, and none of their keys is pinned or remembered: {claims}; name the \
             right one with --publisher KEY"
        ));
    }
    let Some((_, newest)) = claims.into_values().next() else { return Choice::Nothing };
    let begun = candidates.iter().find(|manifest| opener.resumes(manifest));
    let manifest = begun.copied().unwrap_or(newest);
    let is_first = !opener.knows_publisher(name) && !manifest.is_unsigned();
    let advice = is_first.then(|| {
        format!(
            "no key is known for '{name}': key {} is believed because no source has another one, and is remembered once the \
             object is complete; --publisher KEY pins one",
            manifest.publisher
        )
    });
    Choice::Object { manifest: manifest.clone(), advice }
}

/// The standing of a source that offers `offered` while the fetch transfers `chosen`.
pub fn standing(offered: &Manifest, chosen: &Manifest) -> Standing {
    if offered.object_id() == chosen.object_id() {
        Standing::Wanted
    } else if offered.publisher == chosen.publisher {
        Standing::Superseded(format!(
            "offers version {} of the object by now, this fetch is of version {}",
            offered.version, chosen.version
        ))
    } else {
        Standing::Faulty(format!(
            "offers another file under this name, signed by {} and not by {}",
            offered.publisher, chosen.publisher
        ))
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
        let key = SigningKey::from_secret(&[key; 32]);
        let made = MemoryObject::with_options(name(), alloc::vec![1; 10], &key, version, ObjectKind::File, 4_096);
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
    fn another_version_is_honest_and_another_key_is_not() {
        assert_eq!(standing(&manifest(1, 2), &manifest(1, 2)), Standing::Wanted);
        assert!(matches!(standing(&manifest(1, 3), &manifest(1, 2)), Standing::Superseded(_)));
        assert!(matches!(standing(&manifest(2, 2), &manifest(1, 2)), Standing::Faulty(_)));
    }
}
