//! What the listener itself counts.
use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tributary::views::LatencyView;

/// Counts of the listener at one time.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct HttpCounts {
    /// Answers by kind of request and by status.
    pub(crate) requests: BTreeMap<(&'static str, u16), u64>,
    /// Time until the head of an answer, by kind of request.
    pub(crate) seconds: BTreeMap<&'static str, LatencyView>,
    pub(crate) connections: usize,
    pub(crate) objects: usize,
    pub(crate) streams: usize,
    pub(crate) events_missed: u64,
    /// Answers from origins and their copies, and bytes that were fetched, by where they come from.
    pub(crate) origin_answers: BTreeMap<&'static str, u64>,
    pub(crate) origin_bytes: BTreeMap<&'static str, u64>,
    /// Members of the site that answer, besides this one.
    pub(crate) site_members: Option<usize>,
}

/// Counts while the listener works.
#[derive(Debug, Default)]
pub(crate) struct HttpMeter {
    counts: Mutex<HttpCounts>,
    /// Cloned for each open connection.
    pub(crate) connections: Arc<()>,
}

impl HttpMeter {
    pub(crate) fn answered(&self, kind: &'static str, status: u16, taken: Duration) {
        let mut counts = self.counts.lock();
        *counts.requests.entry((kind, status)).or_default() += 1;
        counts.seconds.entry(kind).or_default().observe(taken.as_secs_f64());
    }
    pub(crate) fn landed(&self, from: &'static str) {
        *self.counts.lock().origin_answers.entry(from).or_default() += 1;
    }
    pub(crate) fn fetched(&self, from: &'static str, bytes: u64) {
        *self.counts.lock().origin_bytes.entry(from).or_default() += bytes;
    }
    pub(crate) fn set_members(&self, members: usize) {
        self.counts.lock().site_members = Some(members);
    }
    pub(crate) fn counts(&self) -> HttpCounts {
        HttpCounts { connections: Arc::strong_count(&self.connections) - 1, ..self.counts.lock().clone() }
    }
}
