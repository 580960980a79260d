//! The ledger of a fetch's sources: their identity, the bytes that each has delivered, and the reasons why some are out
//! of use.
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};

use tributary_content::Name;
use tributary_core::{
    Duration, NodeId, SourceId,
    event::{SourceReport, TransferEvent},
};

/// Maximum sources of one fetch.
pub const SOURCES_MAX: usize = 1_024;

/// A source of a fetch; `T` is its family's state of it.
#[derive(Debug)]
pub struct Source<T> {
    /// Its node.
    pub node: NodeId,
    /// Its name for people; no two sources of a fetch have the same.
    pub label: String,
    /// Verified bytes of the object that it has brought.
    pub bytes: u64,
    /// The family's state of it.
    pub state: T,
    distrusted: Option<(String, Evidence)>,
    /// Why it is closed, if it is honest.
    closed: Option<String>,
    /// Whether it reported that it lacks the object it offers.
    is_unavailable: bool,
}

/// What a source is distrusted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// Its offer. It is trusted again as soon as it offers the chosen object.
    Offer,
    /// Bytes that it sent. No offer makes up for that.
    Bytes,
}

impl<T> Source<T> {
    /// The reason if it is distrusted.
    pub fn distrusted(&self) -> Option<&str> {
        self.distrusted.as_ref().map(|(reason, _)| &**reason)
    }
    /// Whether requests may go to it.
    pub fn is_usable(&self) -> bool {
        self.distrusted.is_none() && self.closed.is_none()
    }
    /// Whether it has sent wrong bytes.
    pub fn is_faulty(&self) -> bool {
        matches!(self.distrusted, Some((_, Evidence::Bytes)))
    }
    /// Why it gets no requests: the reason for distrust first, then the reason for closing.
    pub fn objection(&self) -> Option<&str> {
        self.distrusted().or(self.closed.as_deref())
    }
}

/// All sources of a fetch, numbered from 1 in the order in which they were found.
#[derive(Debug)]
pub struct Sources<T>(Vec<Source<T>>);

impl<T> Default for Sources<T> {
    fn default() -> Self {
        Sources(Vec::new())
    }
}

impl<T> Sources<T> {
    /// Adds a source; `None` at the limit of [`SOURCES_MAX`]. If its label is taken, its node's id is appended; without
    /// a label the id is the label.
    pub fn add(&mut self, node: NodeId, label: &str, state: T) -> Option<(SourceId, TransferEvent)> {
        if self.is_full() {
            return None;
        }
        let is_taken = self.0.iter().any(|source| source.label == label);
        let label = match (label.is_empty(), is_taken) {
            (true, _) => node.to_string(),
            (false, false) => label.to_string(),
            (false, true) => format!("{label} {node}"),
        };
        let (distrusted, closed, is_unavailable) = (None, None, false);
        self.0.push(Source { node, label: label.clone(), bytes: 0, state, distrusted, closed, is_unavailable });
        let source = SourceId(self.0.len() as u16);
        Some((source, TransferEvent::SourceAdded { source, node, label }))
    }
    /// Whether the limit is reached.
    pub fn is_full(&self) -> bool {
        self.0.len() >= SOURCES_MAX
    }
    /// The number of sources.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Whether the fetch has no source.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// The one that was found first.
    pub fn first(&self) -> Option<&Source<T>> {
        self.0.first()
    }
    /// The source of this number.
    pub fn get(&self, id: SourceId) -> Option<&Source<T>> {
        self.0.get(usize::from(id.0).checked_sub(1)?)
    }
    /// The source of this number.
    pub fn get_mut(&mut self, id: SourceId) -> Option<&mut Source<T>> {
        self.0.get_mut(usize::from(id.0).checked_sub(1)?)
    }
    /// The first source for which `is_meant` is true.
    pub fn find(&self, is_meant: impl Fn(&Source<T>) -> bool) -> Option<SourceId> {
        self.iter().find(|(_, source)| is_meant(source)).map(|(id, _)| id)
    }
    /// All of them with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (SourceId, &Source<T>)> {
        (1..).map(SourceId).zip(&self.0)
    }
    /// All of them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Source<T>> {
        self.0.iter_mut()
    }

    /// Marks a source as faulty: it gets no more requests. `None` if it is marked already.
    pub fn distrust(&mut self, source: SourceId, evidence: Evidence, reason: String) -> Option<TransferEvent> {
        let known = self.get_mut(source)?;
        let is_news = known.distrusted.is_none();
        if is_news || evidence == Evidence::Bytes {
            known.distrusted = Some((reason.clone(), evidence));
        }
        let label = known.label.clone();
        is_news.then_some(TransferEvent::SourceDistrusted { source, label, reason })
    }
    /// Closes a source that made no mistake: it gets no more requests. `None` if it was out of use already.
    pub fn close(&mut self, source: SourceId, reason: String) -> Option<TransferEvent> {
        let known = self.get_mut(source).filter(|known| known.is_usable())?;
        known.closed = Some(reason.clone());
        let label = known.label.clone();
        Some(TransferEvent::SourceClosed { source, label, reason })
    }
    /// Closes a source that reports that it lacks the object: later offers do not reopen it.
    pub fn close_unavailable(&mut self, source: SourceId, reason: String) -> Option<TransferEvent> {
        self.get_mut(source)?.is_unavailable = true;
        self.close(source, reason)
    }
    /// Reopens a source that offers the chosen object, unless it has sent wrong bytes or reported that it lacks the
    /// object. True if it is usable.
    pub fn reopen(&mut self, source: SourceId) -> bool {
        let Some(known) = self.get_mut(source).filter(|known| !known.is_faulty() && !known.is_unavailable) else {
            return false;
        };
        (known.distrusted, known.closed) = (None, None);
        true
    }

    /// Whether any source is usable.
    pub fn any_usable(&self) -> bool {
        self.0.iter().any(Source::is_usable)
    }
    /// Why a fetch of `name` without a usable source ends: the fate of each source.
    pub fn hopeless_reason(&self, name: &Name) -> String {
        let can = if self.0.iter().any(|source| source.distrusted.is_some()) { "trusted" } else { "used" };
        let why =
            |source: &Source<T>| format!(" '{}': {}", source.label, source.objection().unwrap_or("it does not answer"));
        let each: Vec<String> = self.0.iter().map(why).collect();
        format!("no source of '{name}' can be {can}:{}", each.join(";"))
    }
    /// Why a fetch of `name` ends if no source has answered for `patience`; `sizes` are the size of the chosen object
    /// and its stored part.
    pub fn silence_reason(&self, name: &Name, patience: Duration, sizes: Option<(u64, u64)>) -> String {
        match (sizes, self.len()) {
            (None, 0) => format!("no publisher of '{name}' answered within {patience:?}"),
            (None, _) => self.hopeless_reason(name),
            (Some((size, stored)), sources) => format!(
                "none of the {sources} sources of '{name}' answered for {patience:?}; {stored} of {size} bytes are verified \
                 and kept"
            ),
        }
    }
    /// The account of each.
    pub fn reports(&self) -> Vec<SourceReport> {
        let report = |(id, source): (SourceId, &Source<T>)| SourceReport {
            source: id,
            node: source.node,
            label: source.label.clone(),
            bytes: source.bytes,
            distrusted: source.distrusted().map(Into::into),
            closed: source.closed.clone(),
        };
        self.iter().map(report).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_makes_up_for_an_offer_and_not_for_wrong_bytes() {
        let mut sources = Sources::default();
        let add = |sources: &mut Sources<()>| sources.add(NodeId(7), "a", ()).expect("there is room").0;
        let (first, second, third) = (add(&mut sources), add(&mut sources), add(&mut sources));
        assert!(sources.distrust(first, Evidence::Offer, "another key".into()).is_some());
        assert!(sources.distrust(first, Evidence::Offer, "another key".into()).is_none(), "told once");
        assert!(sources.reopen(first) && sources.any_usable());
        assert!(sources.distrust(first, Evidence::Offer, "another key".into()).is_some());
        assert!(sources.distrust(first, Evidence::Bytes, "wrong bytes".into()).is_none());
        assert!(!sources.reopen(first), "it has lied since");
        assert!(sources.close_unavailable(second, "gone".into()).is_some() && !sources.reopen(second));
        assert!(sources.close(third, "another version".into()).is_some() && !sources.any_usable());
        let labels: Vec<String> = sources.reports().into_iter().map(|report| report.label).collect();
        assert_eq!((&*labels[0], labels[1] == labels[0]), ("a", false));
        let reason = sources.hopeless_reason(&"/x".parse().expect("a name"));
        assert!(reason.starts_with("no source of '/x' can be trusted: 'a': wrong bytes; 'a "), "{reason}");
        assert!(sources.reopen(third));
    }
}
