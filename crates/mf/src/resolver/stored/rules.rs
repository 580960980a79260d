//! What peers of a store that strangers keep together have to know of names.
use tributary_transport::engine::{Entry, Rules};

use super::keys::{self, Key};

/// Bytes of a key up to the slash behind its place.
const PLACE_BYTES: usize = 43;

/// Peers keep records that their authors have signed, and signs of life of authors, which nobody signs.
#[derive(Clone, Copy, Default, Debug)]
pub struct NameRules;

impl Rules for NameRules {
    fn group<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        let place = key.get(..PLACE_BYTES).filter(|place| place.starts_with(b"r/") && place.ends_with(b"/"));
        place.or_else(|| matches!(Key::read(key), Some(Key::Author(_))).then_some(key))
    }
    fn accepts(&self, entry: &Entry) -> bool {
        match Key::read(&entry.key) {
            // That a record has ended is signed by nobody: it is left to end by itself.
            Some(Key::Record(slot)) => {
                entry.key == keys::key_of(&slot)
                    && keys::is_marked_as_stated(entry)
                    && keys::verified(&slot, entry).is_some()
            }
            Some(Key::Author(author)) => {
                entry.key == keys::author_key(&author) && entry.version == 1 && entry.value.is_empty()
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;
    use tributary_content::SigningKey;

    use super::*;
    use crate::{
        ids::{Guid, NetworkAddress},
        wire::{NameRecord, Readers, RecordBody, Statement},
    };

    fn entry() -> Entry {
        let key = SigningKey::from_secret(&[7; 32]);
        let statement = Statement {
            key: key.public(),
            version: 5,
            lifetime_ms: 1_000,
            ends: None,
            label: "host".into(),
            body: RecordBody::Device(vec![(NetworkAddress(1), 255)]),
            readers: Readers::All,
        };
        let record = NameRecord::sign(statement, &key).unwrap();
        keys::entry(&(record.places()[0], record.key()), &record, &record.encode())
    }

    #[test]
    fn peers_keep_what_is_signed_and_nothing_else() {
        let (honest, guid) = (entry(), Guid([3; 20]));
        assert!(NameRules.accepts(&honest));
        let presence = Entry { key: keys::author_key(&guid), version: 1, value: vec![] };
        assert!(NameRules.accepts(&presence));
        let upper = |key: &[u8]| key.to_ascii_uppercase();
        for wrong in [
            keys::ended(honest.clone()),
            Entry { version: 6, ..honest.clone() },
            Entry { key: keys::key_of(&(guid, (guid, guid))), ..honest.clone() },
            Entry { value: vec![1], ..honest.clone() },
            Entry { value: vec![], ..honest.clone() },
            Entry { version: 2, ..presence.clone() },
            Entry { value: vec![0], ..presence.clone() },
            Entry { key: upper(&presence.key), ..presence.clone() },
        ] {
            assert!(!NameRules.accepts(&wrong), "{wrong:?}");
        }
    }

    #[test]
    fn what_is_found_together_is_a_place_or_one_author() {
        let (honest, guid) = (entry(), Guid([3; 20]));
        let (from, to) = keys::place_range(&guid, None);
        assert_eq!(NameRules.group(&from), Some(&from[..]));
        assert!(NameRules.group(&keys::key_of(&(guid, (guid, guid)))) == Some(&from[..]) && to > from);
        assert!(NameRules.group(&honest.key).is_some_and(|group| group.len() == PLACE_BYTES));
        let author = keys::author_key(&guid);
        assert_eq!(NameRules.group(&author), Some(&author[..]));
        for other in [keys::bucket_range(3).0, keys::authors_range().0, b"r/".to_vec(), vec![]] {
            assert_eq!(NameRules.group(&other), None);
        }
    }

    proptest! {
        #[test]
        fn a_changed_record_is_never_kept(at in 0usize..200, by in 1u8..=255) {
            let mut changed = entry();
            let at = at % changed.value.len();
            changed.value[at] ^= by;
            prop_assert!(!NameRules.accepts(&changed));
        }
    }
}
