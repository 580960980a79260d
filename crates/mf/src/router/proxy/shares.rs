//! Which chunk is evicted for another one: shares of flows and sources.
use super::*;

/// Maximum sources considered for eviction, starting with the one with most in store.
const SOURCES_TRIED: usize = 64;

#[derive(Default)]
pub(super) struct FlowState {
    pub(super) bytes: u64,
    pub(super) used_at: u64,
    /// How many of its chunks are delegated copies.
    pub(super) delegated: u32,
    /// Candidates for eviction: by priority, the lowest first; then the newest first.
    pub(super) chunks: BTreeSet<(u8, core::cmp::Reverse<u64>)>,
}

/// What a source has in store.
#[derive(Default)]
pub(super) struct SourceState {
    pub(super) bytes: u64,
    pub(super) used_at: u64,
    /// Its flows as in [`Proxy::order`].
    pub(super) order: BTreeSet<(u8, u64, Flow)>,
}

impl Proxy {
    /// Changes a flow, and its place in the eviction order.
    pub(super) fn change_flow(&mut self, flow: Flow, change: impl FnOnce(&mut FlowState)) {
        let place = |state: &FlowState| state.chunks.first().map(|(least, _)| (*least, state.used_at, flow));
        let state = self.flows.entry(flow).or_default();
        let of_source = &mut self.sources.entry(flow.source).or_default().order;
        if let Some(before) = place(state) {
            self.order.remove(&before);
            of_source.remove(&before);
        }
        change(state);
        match place(state) {
            Some(place) => {
                self.order.insert(place);
                of_source.insert(place);
            }
            // All its chunks are on hold.
            None if self.flows.get(&flow).is_some_and(|flow| flow.bytes > 0) => {}
            None => drop(self.flows.remove(&flow)),
        }
    }
    /// The same for a source, after its flows.
    pub(super) fn change_source(&mut self, source: Guid, change: impl FnOnce(&mut SourceState)) {
        let place = |state: &SourceState| (state.bytes, core::cmp::Reverse(state.used_at), source);
        let state = self.sources.entry(source).or_default();
        self.largest.remove(&place(state));
        change(state);
        match state.bytes == 0 {
            true => drop(self.sources.remove(&source)),
            false => drop(self.largest.insert(place(state))),
        }
    }
    /// The chunk that is evicted for one of another flow: the first in order if its priority is lower, else one of the
    /// source that has most in store, if that is more than the newcomer's would have.
    pub(super) fn victim(&self, newcomer: &Flow, priority: u8, source_bytes: u64) -> Option<u64> {
        let first = |order: &BTreeSet<(u8, u64, Flow)>| order.iter().find(|(.., flow)| flow != newcomer).copied();
        let less_important = first(&self.order).filter(|(least, ..)| *least < priority);
        let larger = self.largest.iter().rev().take(SOURCES_TRIED).take_while(|(bytes, ..)| *bytes > source_bytes);
        let mut larger = larger.filter_map(|(.., source)| first(&self.sources.get(source)?.order));
        let (.., flow) = less_important.or_else(|| larger.find(|(least, ..)| *least <= priority))?;
        let (_, id) = self.flows.get(&flow)?.chunks.first()?;
        Some(id.0)
    }
}
