//! Which neighbours may request names with readers.
//!
//! The rule applies to faces whose far end has proven a key. Others get the answer for a nonexistent name; the content
//! store answers no sooner than a route would. Applications of the node's own user may request everything; those of
//! other users of this machine may not, since any of them can connect over loopback TCP. A forwarder knows only its
//! neighbours: each neighbour is responsible for the nodes behind it.
use alloc::{collections::BTreeMap, vec::Vec};

use tributary_content::{Name, PublicKey};
use tributary_core::FaceId;

use crate::wire::Interest;

/// The readers of the names below a prefix.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameReaders {
    /// The prefix.
    pub prefix: Name,
    /// The keys of the permitted neighbours.
    pub keys: Vec<PublicKey>,
}

/// The rules of a router, and the keys at its faces.
#[derive(Default)]
pub(super) struct Readers {
    rules: Vec<NameReaders>,
    keys: BTreeMap<FaceId, PublicKey>,
}

impl Readers {
    pub(super) fn new(rules: Vec<NameReaders>) -> Self {
        Readers { rules, keys: BTreeMap::new() }
    }
    /// Sets the proven key at the far end of a face; `None` for none.
    pub(super) fn set_key(&mut self, face: FaceId, key: Option<PublicKey>) {
        match key {
            // Without rules keys are unused.
            Some(key) if !self.rules.is_empty() => drop(self.keys.insert(face, key)),
            _ => drop(self.keys.remove(&face)),
        }
    }
    /// Whether a neighbour may send this Interest. One that any longer name may answer also requests those below it.
    pub(super) fn may_ask(&self, face: FaceId, interest: &Interest<'_>) -> bool {
        let name = interest.name.as_tlv();
        let concerns = |rule: &&NameReaders| {
            let prefix = rule.prefix.as_tlv();
            name.starts_with(prefix) || interest.can_be_prefix && prefix.starts_with(name)
        };
        let key = self.keys.get(&face);
        self.rules.iter().filter(concerns).all(|rule| key.is_some_and(|key| rule.keys.contains(key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::NameView;

    #[test]
    fn only_neighbours_with_a_reader_s_key_may_ask_below_the_prefix_or_for_anything_that_covers_it() {
        let [reader, other] = [1, 2].map(|byte| PublicKey([byte; 32]));
        let name = |text: &str| text.parse::<Name>().expect("a name");
        let mut readers =
            Readers::new(alloc::vec![NameReaders { prefix: name("/lab/plans"), keys: alloc::vec![reader] }]);
        readers.set_key(FaceId(1), Some(reader));
        readers.set_key(FaceId(2), Some(other));
        let may = |readers: &Readers, face: u32, text: &str, can_be_prefix: bool| {
            let name = name(text);
            let mut interest = Interest::new(NameView::parse(name.as_tlv()).expect("a name"));
            interest.can_be_prefix = can_be_prefix;
            readers.may_ask(FaceId(face), &interest)
        };
        for (text, can_be_prefix, is_restricted) in [
            ("/lab/plans", false, true),
            ("/lab/plans/a/50=%00", false, true),
            ("/lab/plans/a", true, true),
            // The content store could answer these with Data below.
            ("/lab", true, true),
            ("/", true, true),
            ("/lab", false, false),
            ("/lab/plansx", true, false),
            ("/other", true, false),
        ] {
            assert!(may(&readers, 1, text, can_be_prefix), "{text}");
            for face in [2, 3] {
                assert_eq!(may(&readers, face, text, can_be_prefix), !is_restricted, "{text}, face {face}");
            }
        }
        readers.set_key(FaceId(1), None);
        assert!(!may(&readers, 1, "/lab/plans", false), "its session has ended");
    }
}
