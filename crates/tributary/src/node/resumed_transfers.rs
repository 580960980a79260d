//! Paused and resumed transfers. Users see one transfer; the node runs a new fetch after each pause.
use parking_lot::Mutex;
use std::collections::BTreeMap;
use tributary_content::Name;
use tributary_core::{
    SourceId, Time, TransferId,
    event::{Event, SourceReport, TransferReport},
};

use crate::families::BoxedNode;

/// The transfers that were paused at least once. A transfer keeps the number of its first fetch, and its report sums up
/// all of its fetches. A transfer without a pause has the number and the report of its only fetch.
#[derive(Debug, Default)]
pub(crate) struct Lives(Mutex<BTreeMap<TransferId, Life>>);

#[derive(Clone, Debug)]
struct Life {
    name: Name,
    /// The running or last paused fetch, and the earlier ones.
    fetch: TransferId,
    former: Vec<TransferId>,
    /// The summed report of the paused fetches.
    before: TransferReport,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Running,
    Paused,
    /// Cancelled during the pause.
    Cancelled,
}

impl Lives {
    /// Ends the fetch of a transfer without counting a failure.
    pub(crate) fn pause(&self, node: &mut BoxedNode, now: Time, id: TransferId) {
        let known = node.transfers();
        let mut lives = self.0.lock();
        lives.retain(|_, life| life.state == State::Paused || known.iter().any(|(fetch, _)| *fetch == life.fetch));
        let fetch = lives.get(&id).map_or(id, |life| life.fetch);
        let Some((_, name)) = known.into_iter().find(|(known, _)| *known == fetch) else { return };
        node.cancel(now, fetch);
        let Some(report) = node.report(now, fetch) else { return };
        let life = lives.entry(id).or_insert_with(|| Life {
            name,
            fetch,
            former: Vec::new(),
            before: TransferReport::default(),
            state: State::Running,
        });
        if life.state == State::Running {
            life.before = TransferReport { failure: None, ..join(&life.before, report) };
            life.state = State::Paused;
        }
    }
    /// Continues a paused transfer with `fetch`.
    pub(crate) fn resume(&self, id: TransferId, fetch: TransferId) {
        if let Some(life) = self.0.lock().get_mut(&id).filter(|life| life.state == State::Paused) {
            life.former.push(std::mem::replace(&mut life.fetch, fetch));
            life.state = State::Running;
        }
    }
    /// Counts a paused transfer as cancelled: it will not be resumed.
    pub(crate) fn give_up(&self, id: TransferId) {
        if let Some(life) = self.0.lock().get_mut(&id).filter(|life| life.state == State::Paused) {
            life.state = State::Cancelled;
            life.before.failure = Some("cancelled".into());
        }
    }
    /// The current or last fetch of a transfer.
    pub(crate) fn fetch_of(&self, id: TransferId) -> TransferId {
        self.0.lock().get(&id).map_or(id, |life| life.fetch)
    }
    /// The transfer of a fetch.
    pub(crate) fn transfer_of(&self, fetch: TransferId) -> TransferId {
        let is_it = |(_, life): &(&TransferId, &Life)| life.fetch == fetch;
        self.0.lock().iter().find(is_it).map_or(fetch, |(id, _)| *id)
    }
    /// Whether a transfer is paused.
    pub(crate) fn is_paused(&self, id: TransferId) -> bool {
        self.0.lock().get(&id).is_some_and(|life| life.state == State::Paused)
    }
    /// Replaces the number of a fetch in an event by the number of its transfer.
    pub(crate) fn shown(&self, event: Event) -> Event {
        match event {
            Event::Transfer(fetch, event) => Event::Transfer(self.transfer_of(fetch), event),
            event => event,
        }
    }
    /// The transfers of a node, the oldest first.
    pub(crate) fn transfers(&self, node: &BoxedNode) -> Vec<(TransferId, Name)> {
        let fetches = node.transfers();
        let lives = self.0.lock();
        let is_former = |fetch: &TransferId| lives.values().any(|life| life.former.contains(fetch));
        let of = |fetch: TransferId| lives.iter().find(|(_, life)| life.fetch == fetch).map_or(fetch, |(id, _)| *id);
        let is_forgotten =
            |life: &&Life| life.state == State::Paused && !fetches.iter().any(|(fetch, _)| *fetch == life.fetch);
        let forgotten = lives.values().filter(is_forgotten).map(|life| (life.fetch, life.name.clone()));
        let mut transfers: Vec<_> = forgotten.chain(fetches.iter().cloned()).collect();
        transfers.retain(|(fetch, _)| !is_former(fetch));
        transfers.iter_mut().for_each(|(id, _)| *id = of(*id));
        transfers
    }
    /// The transfers of a node with their reports.
    pub(crate) fn accounts(&self, node: &BoxedNode, now: Time) -> Vec<(TransferId, Name, TransferReport)> {
        let account = |(id, name)| self.report(node, now, id).map(|report| (id, name, report));
        self.transfers(node).into_iter().filter_map(account).collect()
    }
    /// The report of a transfer.
    pub(crate) fn report(&self, node: &BoxedNode, now: Time, id: TransferId) -> Option<TransferReport> {
        match self.0.lock().get(&id) {
            Some(life) if life.state != State::Running => Some(life.before.clone()),
            Some(life) => node.report(now, life.fetch).map(|report| join(&life.before, report)),
            None => node.report(now, id),
        }
    }
}

/// Adds the report of earlier fetches, `before`, to the report of the last one. Pauses do not count as time. Sources of
/// earlier fetches alone are listed last, as closed; only the last fetch has paths.
fn join(before: &TransferReport, mut report: TransferReport) -> TransferReport {
    let Some(ended) = before.ended else { return report };
    report.started = report.started - ended.since(before.started);
    report.resumed_bytes = before.resumed_bytes;
    if report.bytes == 0 {
        // The fetch has not found its object yet, but the disk holds the chunks of the earlier ones.
        (report.bytes, report.stored_bytes) = (before.bytes, before.stored_bytes);
    }
    report.cached_bytes += before.cached_bytes;
    report.retransmitted_bytes += before.retransmitted_bytes;
    report.duplicate_bytes += before.duplicate_bytes;
    for source in &before.sources {
        match report.sources.iter_mut().find(|now| (now.node, &now.label) == (source.node, &source.label)) {
            Some(now) => now.bytes += source.bytes,
            None => {
                let number = report.sources.iter().map(|source| source.source.0 + 1).max().unwrap_or_default();
                let closed = source.closed.clone().or_else(|| Some("not used since the pause".into()));
                report.sources.push(SourceReport { source: SourceId(number), closed, ..source.clone() });
            }
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_core::Duration;

    fn report(started: u64, ended: u64, label: &str, bytes: u64) -> TransferReport {
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let source = SourceReport { label: label.into(), bytes, ..SourceReport::default() };
        TransferReport {
            bytes: 100,
            stored_bytes: bytes,
            started: at(started),
            ended: Some(at(ended)),
            sources: vec![source],
            ..TransferReport::default()
        }
    }

    #[test]
    fn a_resumed_transfer_adds_up_its_fetches_without_the_time_between_them() {
        let joined = join(&report(10, 14, "attic", 30), report(20, 25, "cellar", 40));
        let joined = join(&joined, report(90, 91, "attic", 30));
        assert_eq!(joined.ended.map(|ended| ended.since(joined.started)), Some(Duration::from_secs(10)));
        let sources: Vec<_> =
            joined.sources.iter().map(|of| (of.label.as_str(), of.bytes, of.closed.is_some())).collect();
        assert_eq!(sources, [("attic", 60, false), ("cellar", 40, true)]);
        let numbers: Vec<_> = joined.sources.iter().map(|source| source.source).collect();
        assert!(numbers[0] != numbers[1], "{numbers:?}");
        let waiting = join(&report(10, 14, "attic", 30), TransferReport::default());
        assert_eq!((waiting.bytes, waiting.stored_bytes), (100, 30));
    }
}
