//! The scopes that contain a node's objects: the listing of the scope above has one record of it, regardless of the
//! number of objects.
use alloc::{collections::BTreeMap, vec::Vec};

use tributary_content::Name;

use crate::{
    ids::Guid,
    wire::{Readers, names::READERS_MAX},
};

/// The scopes above a node's contents.
#[derive(Debug, Default)]
pub(super) struct Scopes(BTreeMap<Name, Scope>);

#[derive(Debug, Default)]
struct Scope {
    /// Contents that everyone may read.
    open: usize,
    /// Contents with restricted readers.
    hidden: usize,
    /// How many of these each reader may read.
    readers: BTreeMap<Guid, usize>,
}

impl Scopes {
    /// Adds or removes a content; returns the scopes above it, except the root.
    pub(super) fn count(&mut self, name: &Name, readers: &Readers, is_in: bool) -> Vec<Name> {
        let scopes: Vec<Name> = (1..name.len()).map(|count| name.prefix(count)).collect();
        for name in &scopes {
            let scope = self.0.entry(name.clone()).or_default();
            match readers {
                Readers::All => step(&mut scope.open, is_in),
                Readers::Only(devices) => {
                    step(&mut scope.hidden, is_in);
                    for device in devices {
                        step(scope.readers.entry(*device).or_default(), is_in);
                    }
                    scope.readers.retain(|_, count| *count > 0);
                }
            }
            if scope.open + scope.hidden == 0 {
                self.0.remove(name);
            }
        }
        scopes
    }
    /// The readers of the existence of a scope's contents; `None` if it has none. Beyond a record's maximum, the first
    /// ones.
    pub(super) fn readers(&self, name: &Name) -> Option<Readers> {
        let scope = self.0.get(name)?;
        Some(match scope.open {
            0 => Readers::Only(scope.readers.keys().copied().take(READERS_MAX).collect()),
            _ => Readers::All,
        })
    }
}

fn step(count: &mut usize, is_in: bool) {
    *count = if is_in { *count + 1 } else { count.saturating_sub(1) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_known_to_those_who_may_know_one_of_its_contents() {
        let (mut scopes, name) = (Scopes::default(), |text: &str| -> Name { text.parse().unwrap() });
        let only = |device: u8| Readers::Only([Guid([device; 20])].into());
        assert_eq!(scopes.count(&name("/a"), &Readers::All, true), [], "the root is always there");
        assert_eq!(scopes.count(&name("/a/b/c"), &only(1), true), [name("/a"), name("/a/b")]);
        scopes.count(&name("/a/b/d"), &only(2), true);
        scopes.count(&name("/a/e"), &Readers::All, true);
        let both = Readers::Only([Guid([1; 20]), Guid([2; 20])].into());
        assert_eq!((scopes.readers(&name("/a")), scopes.readers(&name("/a/b"))), (Some(Readers::All), Some(both)));
        scopes.count(&name("/a/e"), &Readers::All, false);
        scopes.count(&name("/a/b/c"), &only(1), false);
        assert_eq!(scopes.readers(&name("/a")), Some(only(2)));
        scopes.count(&name("/a/b/d"), &only(2), false);
        assert_eq!((scopes.readers(&name("/a")), scopes.readers(&name("/a/b"))), (None, None));
    }
}
