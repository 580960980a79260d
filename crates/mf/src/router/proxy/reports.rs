//! Reports to sources: which of their chunks are stored, and which were dropped.
use super::*;

/// A report leaves early once it covers this many chunks, or half a window of stored ones.
pub(super) const REPORT_CHUNKS: usize = 1_024;

tributary_core::declared! {
    /// Where the reports of a chunk go.
    #[derive(Clone, Copy)]
    pub(super) struct Source {
        /// Where it was when it sent the chunk.
        pub(super) address: NetworkAddress = header.source_address,
        /// The token that the report carries.
        pub(super) token: Token = header.token().unwrap_or_default(),
        /// The window that the chunk carries, in chunks; zero without a window.
        pub(super) window_chunks: u16 = header.tag().map_or(0, |tag| tag.window_chunks),
    }
    pub(super) fn of(header: &ChunkHeader) {}
}

/// A report to a source.
#[derive(Default)]
pub(super) struct Report {
    /// Where the source was when it sent.
    pub(super) address: NetworkAddress,
    pub(super) token: Token,
    pub(super) chunks: BTreeSet<u32>,
    /// The number of chunks at which it leaves at once: the source may need it to start its next window.
    pub(super) enough: usize,
}

impl Report {
    pub(super) fn is_full(&self) -> bool {
        self.chunks.len() >= self.enough
    }
}

/// The transfer and object of a report, and whether it concerns stored chunks.
pub(super) type ReportId = (Flow, u32, ObjectId, bool);

impl Proxy {
    pub(super) fn report(&mut self, now: Time, key: ChunkKey, source: Source, stored: bool) {
        let due = now + self.config.report_delay;
        self.report_at = Some(self.report_at.map_or(due, |at| at.min(due)));
        let of = |stored: bool| (key.flow, key.transfer, key.object, stored);
        if let Some(opposite) = self.reports.get_mut(&of(!stored)) {
            opposite.chunks.remove(&key.number);
            if opposite.chunks.is_empty() {
                self.reports.remove(&of(!stored));
            }
        }
        if self.reports.len() >= REPORTS_MAX && !self.reports.contains_key(&of(stored)) {
            if stored {
                // The chunk is stored: it is reported when a report can take it.
                self.untold.extend(self.keys.get(&key));
                return;
            }
            self.hold_back(1);
            if self.reports.len() >= REPORTS_MAX {
                self.stats.untold += 1;
                return;
            }
        }
        let report = self.reports.entry(of(stored)).or_default();
        (report.address, report.token) = (source.address, source.token);
        report.enough = match source.window_chunks {
            window if window > 0 && stored => usize::from(window.div_ceil(2)).min(REPORT_CHUNKS),
            _ => REPORT_CHUNKS,
        };
        report.chunks.insert(key.number);
        if report.is_full() {
            self.full_reports.insert(of(stored));
        }
    }
    /// Withdraws this many reports of stored chunks, to send them later.
    pub(super) fn hold_back(&mut self, count: usize) {
        let held = self.reports.keys().filter(|(.., stored)| *stored).take(count).copied();
        for id in held.collect::<Vec<_>>() {
            let (flow, transfer, object, _) = id;
            let numbers = self.reports.remove(&id).map(|report| report.chunks).unwrap_or_default();
            let keys = numbers.into_iter().map(|number| ChunkKey { flow, object, transfer, number });
            self.untold.extend(keys.filter_map(|key| self.keys.get(&key)));
        }
    }
    /// Makes the withheld reports of stored chunks, as far as the limit allows.
    pub(super) fn report_more(&mut self, now: Time) {
        while self.reports.len() < REPORTS_MAX {
            let next = self.untold.range(self.untold_from..).next().or_else(|| self.untold.first()).copied();
            let Some(id) = next else { return };
            self.untold.remove(&id);
            self.untold_from = id + 1;
            if let Some(stored) = self.chunks.get(&id) {
                let (key, source) = (stored.key, Source::of(&stored.header));
                self.report(now, key, source, true);
            }
        }
    }
    /// Reports a chunk that was dropped without having been stored.
    pub fn report_dropped(&mut self, now: Time, header: &ChunkHeader) {
        if let Some(key) = header.key() {
            self.report(now, key, Source::of(header), false);
        }
    }
}
