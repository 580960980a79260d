//! Lookups: which of several names has an object, for a path that may be in a folder.
//!
//! A lookup moves a manifest only. It takes no slot of a fetch and no thread, and no list of transfers shows it. The
//! network's negative answer is kept for the lookup's patience. Until then the lookup stays subscribed, so a
//! publication ends the negative answer at once, where RFC 2308 has only its lifetime.
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tributary_content::{
    ChunkStore, HadStore, Manifest, Name, ObjectKind, PublicKey, Reference, StoreError, StoreOpener,
};
use tributary_core::{
    Duration, Time, TransferId,
    event::{Event, TransferEvent},
};
use tributary_net::disk::Trust;
use tributary_transport::Fetch;

use crate::{config::FetchConfig, families::BoxedNode};

/// A name to look up.
pub(crate) struct Level {
    /// With what the lookup accepts alone.
    pub(crate) reference: Reference,
    /// The publishers that it believes, as known at its start.
    pub(crate) trust: Trust,
}

/// What a path means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// The object or the folder of this name, and the only publisher to believe about it.
    Found(Reference),
    /// The network knows no publisher, for this reason.
    Nothing(String),
    /// It cannot be fetched from those that offer it, for this reason.
    Refused(String),
    /// The limit of open lookups is reached.
    Full(usize),
}

/// Who waits for an outcome. It is called on the node's thread, and waits for nothing.
pub(crate) type Answer = Box<dyn FnOnce(Outcome) + Send>;

/// The lookups of a node.
#[derive(Default)]
pub(crate) struct Lookups(Mutex<State>);

#[derive(Default)]
struct State {
    open: BTreeMap<Reference, Lookup>,
    by_transfer: BTreeMap<TransferId, Reference>,
    questions: BTreeMap<u64, Question>,
    number: u64,
}

/// The lookup of one name.
struct Lookup {
    transfer: TransferId,
    begun: Time,
    finding: Finding,
    has_source: bool,
    manifest: Arc<Mutex<Option<ObjectKind>>>,
    questions: BTreeSet<u64>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Finding {
    Open,
    Found(ObjectKind),
    Absent(String),
    Refused(String),
}

/// A path and the names that it may mean with their findings: the path itself first, then the names above it, the longest first.
struct Question {
    path: Name,
    levels: Vec<(Reference, Finding)>,
    answer: Answer,
}

impl Lookups {
    /// Resolves `path` among `levels`, which start with the longest name. `lookups_max` limits the open lookups of all
    /// questions; at the limit the oldest negative answer is dropped.
    pub(crate) fn begin(
        &self,
        (node, now): (&mut BoxedNode, Time),
        (path, levels): (Name, Vec<Level>),
        (config, lookups_max, patience): (&FetchConfig, usize, Duration),
        answer: Answer,
    ) {
        let mut state = self.0.lock();
        state.number += 1;
        let number = state.number;
        let mut findings = Vec::new();
        for Level { reference: key, trust } in levels {
            if !state.open.contains_key(&key) {
                if state.open.len() >= lookups_max && !state.make_room(node, now) {
                    state.open.values_mut().for_each(|lookup| _ = lookup.questions.remove(&number));
                    drop(state);
                    return answer(Outcome::Full(lookups_max));
                }
                let manifest = Arc::default();
                let opener = Look { trust, manifest: Arc::clone(&manifest) };
                let fetch = Fetch {
                    name: key.name.clone(),
                    opener: Box::new(opener),
                    rate_limit: None,
                    paths_per_source: config.paths_per_source,
                    metric: config.metric,
                    patience: Some(patience),
                };
                let transfer = node.fetch(now, fetch);
                let (finding, questions) = (Finding::Open, BTreeSet::new());
                let lookup = Lookup { transfer, begun: now, finding, has_source: false, manifest, questions };
                state.by_transfer.insert(transfer, key.clone());
                state.open.insert(key.clone(), lookup);
            }
            let Some(lookup) = state.open.get_mut(&key) else { continue };
            lookup.questions.insert(number);
            findings.push((key, lookup.finding.clone()));
        }
        state.questions.insert(number, Question { path, levels: findings, answer });
        let decided = state.decide(number);
        drop(state);
        decided.into_iter().for_each(|(answer, outcome)| answer(outcome));
    }
    /// The number of names in lookup.
    pub(crate) fn open(&self) -> u32 {
        u32::try_from(self.0.lock().open.len()).unwrap_or(u32::MAX)
    }
    /// Takes an event of the node. True for an event of a lookup, which subscribers must not see.
    pub(crate) fn handle_event(&self, event: &Event) -> bool {
        let Event::Transfer(transfer, event) = event else { return false };
        let mut state = self.0.lock();
        let Some(key) = state.by_transfer.get(transfer).cloned() else { return false };
        let is_over = matches!(event, TransferEvent::Completed | TransferEvent::Failed { .. });
        if is_over {
            state.by_transfer.remove(transfer);
        }
        let Some(lookup) = state.open.get_mut(&key).filter(|lookup| lookup.transfer == *transfer) else { return true };
        match event {
            TransferEvent::Absent { reason } => lookup.finding = Finding::Absent(reason.clone()),
            TransferEvent::SourceAdded { .. } => (lookup.has_source, lookup.finding) = (true, Finding::Open),
            TransferEvent::Completed => {
                let kind = *lookup.manifest.lock();
                lookup.finding = kind.map_or_else(|| Finding::Refused("it has no manifest".into()), Finding::Found);
            }
            TransferEvent::Failed { reason } if lookup.has_source => lookup.finding = Finding::Refused(reason.clone()),
            TransferEvent::Failed { reason } => lookup.finding = Finding::Absent(reason.clone()),
            _ => return true,
        }
        let (finding, questions) = (lookup.finding.clone(), lookup.questions.clone());
        if is_over {
            state.open.remove(&key);
        }
        let mut decided = Vec::new();
        for number in questions {
            let levels = state.questions.get_mut(&number).into_iter().flat_map(|question| &mut question.levels);
            levels.filter(|(of, _)| *of == key).for_each(|(_, known)| known.clone_from(&finding));
            decided.extend(state.decide(number));
        }
        drop(state);
        decided.into_iter().for_each(|(answer, outcome)| answer(outcome));
        true
    }
}

impl State {
    /// Removes the answer of a question once its outcome is certain.
    fn decide(&mut self, number: u64) -> Option<(Answer, Outcome)> {
        let outcome = self.questions.get(&number)?.outcome()?;
        let question = self.questions.remove(&number)?;
        for (key, _) in &question.levels {
            self.open.get_mut(key).into_iter().for_each(|lookup| _ = lookup.questions.remove(&number));
        }
        Some((question.answer, outcome))
    }
    /// Ends the oldest lookup with a negative answer that no question waits for; false without one.
    fn make_room(&mut self, node: &mut BoxedNode, now: Time) -> bool {
        let is_kept = |lookup: &Lookup| matches!(lookup.finding, Finding::Absent(_)) && lookup.questions.is_empty();
        let kept = self.open.iter().filter(|(_, lookup)| is_kept(lookup));
        let Some(key) = kept.min_by_key(|(_, lookup)| lookup.begun).map(|(key, _)| key.clone()) else { return false };
        self.open.remove(&key).into_iter().for_each(|lookup| node.cancel(now, lookup.transfer));
        true
    }
}

impl Question {
    /// The outcome; `None` while it depends on an open lookup. A folder above the path counts only after a negative answer
    /// for the path itself: the owner of a shorter name must not outrank the owner of the path.
    fn outcome(&self) -> Option<Outcome> {
        let mut nothing = None;
        for (reference, finding) in &self.levels {
            let is_path = reference.name == self.path;
            match finding {
                Finding::Open => return None,
                Finding::Found(kind) if is_path || *kind == ObjectKind::Directory => {
                    return Some(Outcome::Found(reference.clone()));
                }
                Finding::Refused(reason) if is_path => return Some(Outcome::Refused(reason.clone())),
                Finding::Absent(reason) => nothing = nothing.or(Some(reason)),
                Finding::Found(_) | Finding::Refused(_) => {}
            }
        }
        Some(Outcome::Nothing(nothing.map_or_else(|| "no folder above it is published".into(), Clone::clone)))
    }
}

/// Records the kind of the object, and reports a complete store, so that no chunk is requested.
struct Look {
    trust: Trust,
    manifest: Arc<Mutex<Option<ObjectKind>>>,
}
impl StoreOpener for Look {
    fn trusts(&self, manifest: &Manifest) -> Result<(), StoreError> {
        self.trust.check(manifest)
    }
    fn knows_publisher(&self, name: &Name) -> bool {
        self.trust.knows(name)
    }
    fn certify(&mut self, publisher: PublicKey) {
        self.trust.certify(publisher);
    }
    fn resumes(&self, _: &Manifest) -> bool {
        false
    }
    fn only_looks(&self) -> bool {
        true
    }
    fn open(&mut self, manifest: &Manifest) -> Result<Box<dyn ChunkStore>, StoreError> {
        *self.manifest.lock() = Some(manifest.kind);
        Ok(Box::new(HadStore::new(manifest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The outcome for `/a/b/c`, given the findings for `/a/b/c`, `/a/b` and `/a`.
    fn outcome(found: [Finding; 3]) -> Option<Outcome> {
        let names = ["/a/b/c", "/a/b", "/a"].map(|name| name.parse::<Name>().expect("a name"));
        let levels = names.iter().cloned().map(Reference::from).zip(found).collect();
        Question { path: names[0].clone(), levels, answer: Box::new(drop) }.outcome()
    }

    #[test]
    fn the_path_itself_outranks_folders_above_it_and_the_longest_folder_the_others() {
        let (file, folder) = (Finding::Found(ObjectKind::File), Finding::Found(ObjectKind::Directory));
        let (open, absent, refused) =
            (Finding::Open, Finding::Absent("nobody".into()), Finding::Refused("another key".into()));
        let at = |name: &str| Some(Outcome::Found(name.parse().expect("a name")));
        let nothing = Some(Outcome::Nothing("nobody".into()));
        for (found, expected) in [
            ([&file, &folder, &folder], at("/a/b/c")),
            ([&open, &folder, &folder], None),
            ([&refused, &folder, &folder], Some(Outcome::Refused("another key".into()))),
            ([&absent, &folder, &folder], at("/a/b")),
            ([&absent, &open, &folder], None),
            ([&absent, &refused, &folder], at("/a")),
            ([&absent, &file, &absent], nothing.clone()),
            ([&absent, &absent, &absent], nothing),
        ] {
            assert_eq!(outcome(found.map(Clone::clone)), expected, "{found:?}");
        }
    }
}
