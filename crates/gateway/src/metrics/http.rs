//! What the listener itself counts.
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

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
}

/// Counts while the listener works.
#[derive(Debug, Default)]
pub(crate) struct HttpMeter {
    counts: Mutex<HttpCounts>,
    connections: Arc<AtomicUsize>,
}

/// An open connection, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Open(Arc<AtomicUsize>);

impl HttpMeter {
    pub(crate) fn opened(&self) -> Open {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Open(Arc::clone(&self.connections))
    }
    pub(crate) fn answered(&self, kind: &'static str, status: u16, taken: Duration) {
        let mut counts = self.lock();
        *counts.requests.entry((kind, status)).or_default() += 1;
        counts.seconds.entry(kind).or_default().observe(taken.as_secs_f64());
    }
    pub(crate) fn counts(&self) -> HttpCounts {
        HttpCounts { connections: self.connections.load(Ordering::Relaxed), ..self.lock().clone() }
    }
    fn lock(&self) -> MutexGuard<'_, HttpCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
