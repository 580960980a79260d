//! What leaves the store: chunks, reports to their sources, names to watch and to look up.
use alloc::{collections::BTreeSet, vec::Vec};
use core::ops::Bound;

use bytes::Bytes;
use tributary_content::StoreError;
use tributary_core::Time;

use super::{Proxy, REPORT_BACKOFF_MAX, REPORTS_MAX, Release, Report, Waiting};
use crate::{
    ids::{ChunkKey, Guid, NetworkAddress, Token},
    wire::{ChunkHeader, ChunkRanges, Flags, TransportBody, TransportMessage, chunk::lifetime_ms},
};

/// Maximum destinations tried per search; the others follow the next time.
const READY_TRIED: usize = 64;

impl Proxy {
    /// The next chunk that may leave; `may` decides by its header. A chunk that is partly at its next hop goes first:
    /// `begun` finds it, given the header of another chunk for the same destination.
    pub fn poll_release(
        &mut self,
        now: Time,
        may: impl Fn(&ChunkHeader) -> Release,
        begun: impl Fn(&ChunkHeader) -> Vec<ChunkKey>,
    ) -> Option<(ChunkHeader, Bytes)> {
        let mut full_from = None;
        for _ in 0..READY_TRIED {
            let behind = (Bound::Excluded(self.tried_last), Bound::Unbounded);
            let guid = *self.ready.range(behind).next().or_else(|| self.ready.first())?;
            if full_from == Some(guid) {
                return None;
            }
            // The others have their turns before its next one.
            self.tried_last = guid;
            let begun_ones = self.first_of_begun(now, &guid, &may);
            let (first, verdict) = begun_ones.unwrap_or_else(|| self.first_to_leave(&guid, &may));
            let Some(destination) = self.destinations.get_mut(&guid) else {
                self.ready.remove(&guid);
                continue;
            };
            let Some(stored) = first.and_then(|first| self.chunks.get(&first.3)) else {
                self.ready.remove(&guid);
                continue;
            };
            let Some(first) = first else { continue };
            match verdict {
                Release::Later => drop(full_from.get_or_insert(guid)),
                Release::Away | Release::Hidden => drop(self.ready.remove(&guid)),
                Release::Now => {
                    let entry = |key: ChunkKey| Some((key.object, key.transfer, key.number, *self.keys.get(&key)?));
                    let waits = |entry: &Waiting| destination.waiting.contains(entry);
                    let begun = begun(&stored.header).into_iter().filter_map(entry).find(waits);
                    let first = begun.unwrap_or(first);
                    match self.repository.read(first.3) {
                        Ok(payload) => {
                            self.unwait(first.3);
                            let stored = self.chunks.get(&first.3)?;
                            let destination = self.destinations.get_mut(&guid)?;
                            destination.turn.on_release(&first, stored.bytes);
                            let (until, on_hold, sends) = (stored.until, stored.on_hold, stored.sends);
                            let mut header = stored.header.clone();
                            header.custodian = self.keeps_custody(&header).then(|| self.custodian());
                            self.on_released(now, first.3);
                            if sends > 0 {
                                header.flags |= Flags::REPEATED;
                            }
                            // Its old address may be outdated.
                            header.addresses.clear();
                            header.flags |= Flags::STORED;
                            header.hops_left = crate::wire::chunk::HOPS_MAX;
                            if header.lifetime_ms > 0 {
                                // The next store keeps it for the remaining lifetime; a chunk on hold is kept as if it
                                // had none of its own.
                                header.lifetime_ms = if on_hold { 0 } else { lifetime_ms(until.since(now)) };
                            }
                            return Some((header, payload));
                        }
                        // The disk fails now: the chunk is tried again with the storage timer.
                        Err(error @ StoreError::Later { .. }) => {
                            self.failure = Some(error);
                            self.ready.remove(&guid);
                        }
                        Err(error) => {
                            self.failure = Some(error);
                            self.unwait(first.3);
                            self.drop_stored(now, first.3);
                        }
                    }
                }
            }
        }
        None
    }
    /// The first chunk for a destination that does not exist for just this chunk's source.
    fn first_to_leave(&self, guid: &Guid, may: &impl Fn(&ChunkHeader) -> Release) -> (Option<Waiting>, Release) {
        let mut hidden = BTreeSet::new();
        let Some(destination) = self.destinations.get(guid) else { return (None, Release::Away) };
        let begin = destination.turn.begin();
        for (mut from, until) in [(Bound::Included(begin), None), (Bound::Unbounded, Some(begin))] {
            let is_in = |entry: &&Waiting| until.is_none_or(|until| **entry < until);
            while let Some(first) = destination.waiting.range((from, Bound::Unbounded)).next().filter(is_in) {
                let Some(stored) = self.chunks.get(&first.3) else { return (None, Release::Away) };
                let source = stored.key.flow.source;
                if !hidden.contains(&source) {
                    match may(&stored.header) {
                        Release::Hidden => drop(hidden.insert(source)),
                        verdict => return (Some(*first), verdict),
                    }
                }
                from = Bound::Excluded((first.0, u32::MAX, u32::MAX, u64::MAX));
            }
        }
        (None, Release::Hidden)
    }
    /// A batch of chunks to report to a source: stored, or dropped. A report to an unreachable source would be lost: it
    /// waits, and the name is looked up. `has_way` decides for a source and its address.
    pub fn poll_report(
        &mut self,
        now: Time,
        has_way: impl Fn(&Guid, NetworkAddress) -> bool,
    ) -> Option<(Guid, NetworkAddress, Token, TransportMessage)> {
        self.report_more(now);
        let is_due = self.report_at.is_some_and(|at| at <= now);
        self.full_reports.retain(|id| self.reports.get(id).is_some_and(Report::is_full));
        let mut full = self.full_reports.iter().copied();
        let mut ready =
            full.find(|id| self.reports.get(id).is_some_and(|report| has_way(&id.0.source, report.address)));
        if is_due && ready.is_none() {
            let mut reports = self.reports.iter();
            ready = reports.find(|((flow, ..), report)| has_way(&flow.source, report.address)).map(|(id, _)| *id);
        }
        let Some((id, report)) = ready.and_then(|id| Some((id, self.reports.remove(&id)?))) else {
            if !is_due {
                return None;
            }
            self.report_at = (!self.reports.is_empty()).then(|| now + self.config.timer * self.report_backoff);
            self.report_backoff = (self.report_backoff * 2).min(REPORT_BACKOFF_MAX);
            let sources: BTreeSet<Guid> = self.reports.keys().map(|(flow, ..)| flow.source).collect();
            self.lookups.extend(sources);
            if !self.untold.is_empty() {
                // None of these sources can be reached: others are tried the next time.
                self.hold_back(REPORTS_MAX);
                self.report_more(now);
            }
            return None;
        };
        self.report_backoff = 1;
        let (flow, transfer, object, stored) = id;
        let Report { address: to, token, chunks: numbers, enough } = report;
        let chunks = ChunkRanges::from_ascending(numbers.iter().copied());
        let reported_to = chunks.iter().last();
        let rest: BTreeSet<u32> = numbers.into_iter().filter(|number| Some(*number) > reported_to).collect();
        if !rest.is_empty() {
            let rest = Report { address: to, token, chunks: rest, enough };
            if rest.is_full() {
                self.full_reports.insert(id);
            }
            self.reports.insert(id, rest);
        }
        let (proxy, address) = self.own;
        let message = if stored {
            TransportBody::Stored { flow, proxy, address, chunks }.about(transfer, object)
        } else {
            TransportBody::Dropped { flow, proxy, chunks }.about(transfer, object)
        };
        Some((flow.source, to, token, message))
    }
    /// A notice to a source whose chunks are kept for less than their lifetime.
    pub fn poll_capped(&mut self) -> Option<(Guid, NetworkAddress, Token, TransportMessage)> {
        let (ChunkKey { flow, object, transfer, .. }, source, lifetime) = self.capped.pop_front()?;
        let message = TransportBody::KeptFor { flow, lifetime_ms: lifetime_ms(lifetime) }.about(transfer, object);
        Some((flow.source, source.address, source.token, message))
    }
    /// When to call [`Proxy::handle_timeout`] or poll for reports.
    pub fn poll_timeout(&self) -> Option<Time> {
        let lifetime = self.deadlines.first().map(|(until, _)| *until);
        let timer = self.timers.next().map(|(at, _)| at);
        let reminder = self.reminders.next().map(|(at, _)| at);
        [lifetime, timer, reminder, self.report_at, self.custody_due()].into_iter().flatten().min()
    }
}
