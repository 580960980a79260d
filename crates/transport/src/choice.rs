//! Chooses the object that a fetch of a name transfers, and judges sources that offer another one.
//!
//! The rule is the same in all families. Without a pinned or remembered key the fetch trusts and remembers the key that
//! most sources have; without a majority it leaves the decision to a person. Of the objects that the trusted publisher
//! signed it continues the one that an earlier fetch has begun, else it takes the newest. A source that offers another
//! object under another key is faulty; one that offers another version under the trusted key is honest and stays idle.
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
    /// Several publishers claim the name, and none has a majority. The text names all of them.
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
    if let Some(begun) = candidates.iter().find(|manifest| opener.resumes(manifest)) {
        return Choice::Object { manifest: (*begun).clone(), advice: None };
    }
    let mut claims: BTreeMap<[u8; 32], (usize, &Manifest)> = BTreeMap::new();
    for manifest in &candidates {
        let (count, newest) = claims.entry(manifest.publisher.0).or_insert((0, manifest));
        *count += 1;
        if manifest.version > newest.version {
            *newest = manifest;
        }
    }
    let in_words = || {
        let claim = |(count, manifest): &(usize, &Manifest)| {
            format!("{count} source{} with key {}", if *count == 1 { "" } else { "s" }, manifest.publisher)
        };
        claims.values().map(claim).collect::<Vec<_>>().join(", ")
    };
    let majority = claims.values().find(|(count, _)| 2 * count > candidates.len());
    let Some((_, manifest)) = majority else {
        return match claims.is_empty() {
            true => Choice::Nothing,
            false => Choice::Contested(format!(
                "'{name}' is claimed by several publishers, and nothing is known of them: {}; name the right one with \
                 --publisher KEY",
                in_words()
            )),
        };
    };
    let advice = if claims.len() > 1 {
        Some(format!(
            "'{name}' is claimed by several publishers: {}. The key that most sources have, {}, is believed and \
             remembered; name the right one with --publisher KEY if that is wrong",
            in_words(),
            manifest.publisher
        ))
    } else if !opener.knows_publisher(name) && !manifest.is_unsigned() {
        Some(format!(
            "no key was known for '{name}': key {} is the first one seen, so it is trusted and remembered; \
             --publisher KEY pins one",
            manifest.publisher
        ))
    } else {
        None
    };
    Choice::Object { manifest: (*manifest).clone(), advice }
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
    fn the_majority_is_believed_and_its_newest_version_chosen() {
        let opener = MemoryOpener::new();
        assert_eq!(chosen(&opener, &[(1, 3), (2, 9), (1, 5)]), Some(manifest(1, 5)));
        assert_eq!(chosen(&opener, &[(1, 3), (2, 9)]), None, "one each");
        assert_eq!(chosen(&opener, &[(1, 1), (2, 1), (3, 1), (1, 1)]), None, "half are no majority");
        assert_eq!(choose(&opener, &name(), &[]), Choice::Nothing);
    }

    #[test]
    fn another_version_is_honest_and_another_key_is_not() {
        assert_eq!(standing(&manifest(1, 2), &manifest(1, 2)), Standing::Wanted);
        assert!(matches!(standing(&manifest(1, 3), &manifest(1, 2)), Standing::Superseded(_)));
        assert!(matches!(standing(&manifest(2, 2), &manifest(1, 2)), Standing::Faulty(_)));
    }
}
