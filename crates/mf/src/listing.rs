//! The entries of the scopes that this node watches, as events.
use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    string::ToString,
    vec::Vec,
};

use tributary_content::Name;
use tributary_core::event::ResolverEvent;

use crate::{
    ids::Guid,
    wire::{NameRecord, RecordBody, RecordKey},
};

/// Watched scopes and their known entries.
#[derive(Debug, Default)]
pub(crate) struct Listings {
    scopes: BTreeMap<Guid, Scope>,
    pub(crate) events: VecDeque<ResolverEvent>,
}

#[derive(Debug)]
struct Scope {
    name: Name,
    listed: bool,
    /// By child: the publishers below it, and its size if it is an item.
    children: BTreeMap<Name, Child>,
}

#[derive(Debug, Default)]
struct Child {
    /// Who announces which content.
    items: BTreeMap<RecordKey, u64>,
    /// Records of entries deeper than the child itself.
    deeper: BTreeSet<RecordKey>,
}

impl Listings {
    pub(crate) fn watch(&mut self, scope: &Name) {
        let place = Guid::of_name(scope);
        self.scopes.entry(place).or_insert_with(|| Scope {
            name: scope.clone(),
            listed: false,
            children: BTreeMap::new(),
        });
    }
    /// Stops watching.
    pub(crate) fn unwatch(&mut self, scope: &Name) {
        self.scopes.remove(&Guid::of_name(scope));
    }
    /// Whether a scope is watched.
    pub(crate) fn watches(&self, scope: &Name) -> bool {
        self.scopes.contains_key(&Guid::of_name(scope))
    }
    /// Whether a place is watched.
    pub(crate) fn uses(&self, place: &Guid) -> bool {
        self.scopes.contains_key(place)
    }
    /// All records of a place.
    pub(crate) fn handle_found(&mut self, place: Guid, records: &[NameRecord]) {
        let here: BTreeSet<RecordKey> = records.iter().map(NameRecord::key).collect();
        let children = self.scopes.get(&place).into_iter().flat_map(|scope| &scope.children);
        let known = children.flat_map(|(name, child)| {
            let keys = child.items.keys().chain(&child.deeper);
            keys.map(move |key| (name.clone(), *key))
        });
        let gone: Vec<(Name, RecordKey)> = known.filter(|(_, key)| !here.contains(key)).collect();
        for (child, key) in gone {
            self.change(place, child, |child| {
                child.items.remove(&key);
                child.deeper.remove(&key);
            });
        }
        records.iter().for_each(|record| self.handle_changed(place, record));
        if let Some(scope) = self.scopes.get_mut(&place).filter(|scope| !scope.listed) {
            scope.listed = true;
            let entries = u32::try_from(scope.children.len()).unwrap_or(u32::MAX);
            self.events.push_back(ResolverEvent::Listed { name: scope.name.to_string(), entries });
        }
    }
    /// A record that is new or withdraws another one.
    pub(crate) fn handle_changed(&mut self, place: Guid, record: &NameRecord) {
        let Some(scope) = self.scopes.get_mut(&place) else { return };
        let key = record.key();
        let is_scope = matches!(record.statement().body, RecordBody::Scope { .. } | RecordBody::ScopeGone { .. });
        let (name, bytes) = match &record.statement().body {
            RecordBody::Content(_) => match record.manifest() {
                Some(manifest) => (manifest.name, Some(manifest.size)),
                None => return,
            },
            RecordBody::ContentDeleted { name, .. } | RecordBody::ScopeGone { name } => (name.clone(), None),
            RecordBody::Scope { name } => (name.clone(), Some(0)),
            RecordBody::Device(_)
            | RecordBody::Group { .. }
            | RecordBody::Deleted(_)
            | RecordBody::Attached { .. }
            | RecordBody::Detached { .. } => return,
        };
        if name.len() <= scope.name.len() || !scope.name.is_prefix_of(&name) {
            return;
        }
        let child_name = name.prefix(scope.name.len() + 1);
        let is_item = name.len() == child_name.len() && !is_scope;
        self.change(place, child_name, |child| match (bytes, is_item) {
            (Some(bytes), true) => drop(child.items.insert(key, bytes)),
            (None, true) => drop(child.items.remove(&key)),
            (Some(_), false) => drop(child.deeper.insert(key)),
            (None, false) => drop(child.deeper.remove(&key)),
        });
    }
    fn change(&mut self, place: Guid, child_name: Name, change: impl FnOnce(&mut Child)) {
        let Some(scope) = self.scopes.get_mut(&place) else { return };
        let child = scope.children.entry(child_name.clone()).or_default();
        let before = (child.items.len(), child.items.values().max().copied(), !child.deeper.is_empty());
        change(child);
        let after = (child.items.len(), child.items.values().max().copied(), !child.deeper.is_empty());
        let text = child_name.to_string();
        if after.0 > 0 && (after.0, after.1) != (before.0, before.1) {
            self.events.push_back(ResolverEvent::Appeared {
                name: text.clone(),
                is_scope: false,
                publishers: u32::try_from(after.0).unwrap_or(u32::MAX),
                bytes: after.1.unwrap_or(0),
            });
        }
        if after.2 && !before.2 {
            let name = text.clone();
            self.events.push_back(ResolverEvent::Appeared { name, is_scope: true, publishers: 0, bytes: 0 });
        }
        if after.0 == 0 && !after.2 {
            scope.children.remove(&child_name);
            if before.0 > 0 || before.2 {
                self.events.push_back(ResolverEvent::Disappeared { name: text });
            }
        }
    }
}
