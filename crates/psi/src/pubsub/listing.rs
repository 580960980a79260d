//! A subscriber's view of a scope: notices in any order become one consistent listing.
use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    string::{String, ToString},
    vec::Vec,
};

use tributary_content::Name;
use tributary_core::event::ResolverEvent;

use crate::wire::{ChildState, NOTHING_KNOWN, NoticeKind, ScopeNotice, TERM_SHIFT};

type Events = VecDeque<ResolverEvent>;

/// The listing of one scope.
///
/// A listing of revision `r` contains everything up to `r`; a change of revision `r` is the one that made it. So a
/// change at or below the last listing is old, and so is a lower listing. Revisions that follow the listing without a
/// gap are `known`; if one is missing, the next renewal of the subscription requests a new listing.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Listing {
    /// Revision of the last complete listing, if any.
    floor: Option<u64>,
    known: u64,
    /// Revisions beyond `known` whose predecessors are missing.
    ahead: BTreeSet<u64>,
    /// Components with their states, and the revision of each.
    children: BTreeMap<Vec<u8>, (u64, ChildState)>,
    /// A listing with missing parts.
    parts: Option<Parts>,
    /// Whether the application knows that the listing exceeds the limit.
    is_cut_reported: bool,
}

#[derive(Clone, PartialEq, Debug)]
struct Parts {
    revision: u64,
    count: u16,
    received: BTreeMap<u16, Vec<(Vec<u8>, ChildState)>>,
}

impl Listing {
    /// The revision up to which everything is known, for the renewal of the subscription.
    pub(super) fn known(&self) -> u64 {
        if self.floor.is_some() { self.known } else { NOTHING_KNOWN }
    }

    /// Takes a notice and emits its changes; keeps at most `listing_max` entries, and reports it if there are more.
    /// True if it is a change by another node than the listing's, with a lower number: both nodes acted, and the right
    /// one sends its state at the renewal of the subscription.
    pub(super) fn on_notice(&mut self, notice: ScopeNotice, listing_max: usize, events: &mut Events) -> bool {
        let ScopeNotice { scope, revision, kind, children } = notice;
        match kind {
            NoticeKind::Listing { part, parts } => {
                if self.floor.is_some_and(|floor| floor > revision) {
                    return false;
                }
                let stale = self.parts.as_ref().is_some_and(|parts| parts.revision > revision);
                if stale {
                    return false;
                }
                if self.parts.as_ref().is_none_or(|known| known.revision < revision || known.count != parts) {
                    self.parts = Some(Parts { revision, count: parts, received: BTreeMap::new() });
                }
                let Some(known) = &mut self.parts else { return false };
                known.received.insert(part, children);
                if known.received.len() == usize::from(known.count) {
                    let all = core::mem::take(&mut known.received).into_values().flatten().collect();
                    self.parts = None;
                    self.on_listing(&scope, revision, all, listing_max, events);
                }
            }
            NoticeKind::Change => {
                if let Some(floor) = self.floor.filter(|floor| *floor >= revision) {
                    return floor >> TERM_SHIFT != revision >> TERM_SHIFT;
                }
                for (component, child) in children {
                    self.set(&scope, revision, component, child, listing_max, events);
                }
                self.ahead.insert(revision);
                self.advance();
            }
        }
        false
    }

    fn on_listing(
        &mut self,
        scope: &Name,
        revision: u64,
        all: Vec<(Vec<u8>, ChildState)>,
        listing_max: usize,
        events: &mut Events,
    ) {
        let present: BTreeSet<&Vec<u8>> = all.iter().map(|(component, _)| component).collect();
        let absent: Vec<Vec<u8>> =
            self.children.keys().filter(|component| !present.contains(component)).cloned().collect();
        for component in absent {
            self.set(scope, revision, component, ChildState::Absent, listing_max, events);
        }
        for (component, child) in all {
            self.set(scope, revision, component, child, listing_max, events);
        }
        // Removed entries need no memory: older changes are below the floor from now on.
        self.children.retain(|_, (since, child)| *child != ChildState::Absent || *since > revision);
        let first = self.floor.is_none();
        self.floor = Some(revision);
        self.known = revision;
        self.advance();
        if first {
            let entries = self.children.values().filter(|(_, child)| *child != ChildState::Absent).count();
            events.push_back(ResolverEvent::Listed { name: scope.to_string(), entries: entries as u32 });
        }
    }

    fn advance(&mut self) {
        if self.floor.is_none() {
            // Without a listing, changes are remembered only to know which entries are newer than the listing.
            return;
        }
        while let Some(revision) = self.ahead.first().copied()
            && revision <= self.known + 1
        {
            self.ahead.pop_first();
            self.known = self.known.max(revision);
        }
        // Bounded: a renewal soon causes a new listing.
        while self.ahead.len() > 64 {
            self.ahead.pop_first();
        }
    }

    fn set(
        &mut self,
        scope: &Name,
        revision: u64,
        component: Vec<u8>,
        child: ChildState,
        listing_max: usize,
        events: &mut Events,
    ) {
        let before = self.children.get(&component).copied();
        if before.is_some_and(|(since, _)| since > revision) {
            return;
        }
        if before.is_none() && self.children.len() >= listing_max {
            if child != ChildState::Absent && !core::mem::replace(&mut self.is_cut_reported, true) {
                let reason =
                    format!("it has more than {listing_max} entries, the most that a host remembers (listing_max)");
                events.push_back(ResolverEvent::Rejected { name: scope.to_string(), operation: "list", reason });
            }
            return;
        }
        let name = full_name(scope, &component);
        self.children.insert(component, (revision, child));
        let was = before.map_or(ChildState::Absent, |(_, state)| state);
        if was == child {
            return;
        }
        events.push_back(match child {
            ChildState::Absent => ResolverEvent::Disappeared { name },
            ChildState::Scope => ResolverEvent::Appeared { name, is_scope: true, publishers: 0, bytes: 0 },
            ChildState::Item { publishers, bytes } => {
                ResolverEvent::Appeared { name, is_scope: false, publishers, bytes }
            }
        });
    }
}

fn full_name(scope: &Name, component: &[u8]) -> String {
    let tlv = [scope.as_tlv(), component].concat();
    // Their joint length exceeds the limit: then the rendezvous node that reports it is wrong, and only the scope can
    // be shown.
    Name::from_tlv(tlv).unwrap_or_else(|_| scope.clone()).to_string()
}
