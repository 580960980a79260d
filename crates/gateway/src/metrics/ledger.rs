//! The bytes of sources and paths over all transfers. Transfers come and go, and their counts start at zero; these
//! totals only grow. Other nodes choose the names of sources and nodes, so their number is limited.
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tributary::views::{PathView, ProgressView};

/// Sources with separate series.
const SOURCES_MAX: usize = 100;
/// Paths with separate series.
const PATHS_MAX: usize = 200;
/// What the others are called.
const OTHERS: &str = "others";
/// Ended transfers remembered so that a late report counts nothing twice; more than any node remembers.
const ENDED_SEEN_MAX: usize = 1_024;

/// A path over all transfers: its source, and the nodes on it.
pub(crate) type Way = (String, String);

/// The totals.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Totals {
    /// Useful bytes of each source.
    pub(crate) sources: BTreeMap<String, u64>,
    pub(crate) paths: BTreeMap<Way, PathTotals>,
    /// Transfers that ended: complete ones, and others.
    pub(crate) done: u64,
    pub(crate) failed: u64,
    pub(crate) cached_bytes: u64,
    pub(crate) retransmitted_bytes: u64,
    pub(crate) duplicate_bytes: u64,
    /// Sources that were distrusted.
    pub(crate) distrusted: u64,
    /// Transfers that run.
    pub(crate) running: u64,
    /// Paths of running transfers by their state.
    pub(crate) states: BTreeMap<String, u64>,
    /// Paths of running transfers as they are now.
    pub(crate) now: BTreeMap<Way, PathNow>,
}
/// What one path delivered.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct PathTotals {
    pub(crate) bytes: u64,
    pub(crate) requested_packets: u64,
    pub(crate) lost_packets: u64,
}
/// One path now, over all running transfers.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct PathNow {
    pub(crate) window_bytes: u64,
    pub(crate) in_flight_bytes: u64,
    pub(crate) mbps: f64,
    /// The longest of the smoothed round-trip times, in seconds.
    pub(crate) rtt: Option<f64>,
}

/// The totals, and the part of the present transfers that is in them already.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    seen: BTreeMap<String, Seen>,
    /// Ended transfers in `seen`, oldest first; some may be forgotten there already.
    ended: VecDeque<String>,
    totals: Totals,
}
#[derive(Debug)]
struct Seen {
    view: ProgressView,
    /// Whether the node did not know the transfer at the last query.
    is_absent: bool,
}

impl Ledger {
    /// Takes the account of one transfer.
    pub(crate) fn take(&mut self, view: &ProgressView) {
        let new = ProgressView { running: true, ..ProgressView::default() };
        let before = self.seen.get(&view.transfer).map_or(&new, |seen| &seen.view);
        // Reports arrive in two ways; the older one may come last.
        if view.seconds < before.seconds || view.running && !before.running && !is_put_off(before) {
            return;
        }
        let totals = &mut self.totals;
        for source in &view.sources {
            let known = before.sources.iter().find(|known| known.id == source.id);
            let name = limited(&source.id, totals.sources.contains_key(&source.id), totals.sources.len(), SOURCES_MAX);
            *totals.sources.entry(name).or_default() += more(source.bytes, known.map(|known| known.bytes));
            let was_distrusted = known.is_some_and(|known| known.distrusted.is_some());
            totals.distrusted += u64::from(source.distrusted.is_some() && !was_distrusted);
        }
        for path in &view.paths {
            let known = before.paths.iter().find(|known| known.id == path.id);
            let of = totals.paths.entry(way(&totals.paths, path)).or_default();
            of.bytes += more(path.bytes, known.map(|known| known.bytes));
            of.requested_packets += more(path.requested_packets, known.map(|known| known.requested_packets));
            of.lost_packets += more(path.lost_packets, known.map(|known| known.lost_packets));
        }
        totals.cached_bytes += more(view.cached_bytes, Some(before.cached_bytes));
        totals.retransmitted_bytes += more(view.retransmitted, Some(before.retransmitted));
        totals.duplicate_bytes += more(view.duplicate_bytes, Some(before.duplicate_bytes));
        let has_ended = (before.running || is_put_off(before)) && !view.running && !is_put_off(view);
        if has_ended {
            let ended = if view.failure.is_none() { &mut totals.done } else { &mut totals.failed };
            *ended += 1;
        }
        self.seen.insert(view.transfer.clone(), Seen { view: view.clone(), is_absent: false });
        if has_ended {
            self.ended.push_back(view.transfer.clone());
            if self.ended.len() > ENDED_SEEN_MAX
                && let Some(oldest) = self.ended.pop_front()
            {
                self.seen.remove(&oldest);
            }
        }
    }
    /// Takes the reports of all transfers known to the node, and returns the totals.
    pub(crate) fn take_all(&mut self, views: &[&ProgressView]) -> Totals {
        views.iter().for_each(|view| self.take(view));
        let present: BTreeSet<&str> = views.iter().map(|view| view.transfer.as_str()).collect();
        // A transfer may have started after the query: only one that is absent twice was forgotten.
        self.seen.retain(|transfer, seen| {
            let is_absent = !present.contains(transfer.as_str());
            !(is_absent && std::mem::replace(&mut seen.is_absent, is_absent))
        });
        let totals = &mut self.totals;
        let running = || self.seen.values().map(|seen| &seen.view).filter(|view| view.running);
        totals.running = running().count() as u64;
        totals.states.clear();
        totals.now.clear();
        for path in running().flat_map(|view| &view.paths) {
            *totals.states.entry(path.state.clone()).or_default() += 1;
            let now = totals.now.entry(way(&totals.paths, path)).or_default();
            now.window_bytes += path.window_bytes;
            now.in_flight_bytes += path.in_flight_bytes;
            now.mbps += path.mbps;
            let rtt = path.rtt_ms.map(|rtt| rtt / 1_000.0);
            now.rtt = [now.rtt, rtt].into_iter().flatten().reduce(f64::max);
        }
        totals.clone()
    }
}

/// Whether a transfer neither runs nor has ended: it is paused, or waits for its turn.
fn is_put_off(view: &ProgressView) -> bool {
    view.paused || view.waiting
}
/// The increase since then; a report that decreased counts from zero.
fn more(now: u64, before: Option<u64>) -> u64 {
    let before = before.unwrap_or(0);
    if now >= before { now - before } else { now }
}
fn limited(name: &str, is_known: bool, known: usize, limit: usize) -> String {
    if is_known || known < limit { name.into() } else { OTHERS.into() }
}
fn way(known: &BTreeMap<Way, PathTotals>, path: &PathView) -> Way {
    let way = (path.source.clone(), path.via.clone());
    if known.contains_key(&way) || known.len() < PATHS_MAX { way } else { (OTHERS.into(), OTHERS.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary::views::SourceView;

    fn view(transfer: &str, source: &str, bytes: u64) -> ProgressView {
        ProgressView {
            transfer: transfer.into(),
            running: true,
            sources: vec![SourceView { id: source.into(), bytes, ..SourceView::default() }],
            paths: vec![PathView {
                id: "path-1".into(),
                source: source.into(),
                via: format!("here>{source}"),
                bytes,
                window_bytes: 5,
                rtt_ms: Some(20.0),
                state: "active".into(),
                ..PathView::default()
            }],
            ..ProgressView::default()
        }
    }

    #[test]
    fn totals_grow_over_transfers_that_come_go_and_are_forgotten() {
        let mut ledger = Ledger::default();
        ledger.take(&view("transfer-1", "attic", 100));
        ledger.take(&view("transfer-1", "attic", 150));
        let ended = ProgressView { running: false, ..view("transfer-1", "attic", 170) };
        let totals = ledger.take_all(&[&ended, &view("transfer-2", "attic", 30)]);
        assert_eq!((totals.sources["attic"], totals.done, totals.failed, totals.running), (200, 1, 0, 1));
        let way = ("attic".to_string(), "here>attic".to_string());
        assert_eq!(totals.paths[&way].bytes, 200);
        assert_eq!((totals.now[&way].window_bytes, totals.now[&way].rtt), (5, Some(0.02)));
        let failed = ProgressView { failure: Some("cut".into()), running: false, ..view("transfer-2", "attic", 31) };
        // The first one is forgotten; no total decreases.
        let totals = ledger.take_all(&[&failed]);
        assert_eq!((totals.sources["attic"], totals.done, totals.failed, totals.running), (201, 1, 1, 0));
        assert!(totals.now.is_empty() && totals.states.is_empty());
        assert_eq!(ledger.take_all(&[&failed]), totals);
    }

    #[test]
    fn a_transfer_that_is_paused_and_resumed_counts_once() {
        let mut ledger = Ledger::default();
        let at = |seconds: f64, bytes: u64, paused: bool, running: bool| ProgressView {
            seconds,
            paused,
            running,
            ..view("transfer-1", "attic", bytes)
        };
        for (view, counts) in [
            (at(1.0, 100, false, true), (0, 0, 1)),
            (at(2.0, 200, true, false), (0, 0, 0)),
            (at(2.5, 200, false, true), (0, 0, 1)),
            (at(3.0, 300, false, false), (1, 0, 0)),
        ] {
            let totals = ledger.take_all(&[&view]);
            assert_eq!((totals.done, totals.failed, totals.running), counts, "{view:?}");
        }
        assert_eq!(ledger.totals.sources["attic"], 300);
    }

    #[test]
    fn an_account_that_comes_late_counts_nothing_twice() {
        let mut ledger = Ledger::default();
        let at = |seconds: f64, bytes: u64, running: bool| ProgressView {
            seconds,
            running,
            ..view("transfer-1", "attic", bytes)
        };
        ledger.take(&at(3.0, 300, false));
        let totals = ledger.take_all(&[&at(2.0, 200, true)]);
        assert_eq!((totals.sources["attic"], totals.done, totals.running), (300, 1, 0));
        // The query came before the node knew the transfer.
        ledger.take_all(&[]);
        let totals = ledger.take_all(&[&at(3.0, 300, false)]);
        assert_eq!((totals.sources["attic"], totals.done), (300, 1));
        ledger.take_all(&[]);
        ledger.take_all(&[]);
        assert!(ledger.seen.is_empty());
    }

    #[test]
    fn however_many_names_peers_invent_the_number_of_series_is_limited() {
        let mut ledger = Ledger::default();
        for peer in 0..5_000 {
            ledger.take(&view(&format!("transfer-{peer}"), &format!("peer-{peer}"), 1));
        }
        let totals = ledger.take_all(&[]);
        assert_eq!((totals.sources.len(), totals.paths.len()), (SOURCES_MAX + 1, PATHS_MAX + 1));
        assert_eq!(totals.sources[OTHERS], 4_900);
        assert_eq!(totals.sources.values().sum::<u64>(), 5_000);
    }
}
