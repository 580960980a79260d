//! The record of a fetch: its times and result, its byte counts, and its node's pending events.
use alloc::{collections::VecDeque, string::String, vec::Vec};

use tributary_core::{
    Time,
    event::{PathReport, SourceReport, TransferEvent, TransferReport},
};

/// The common record of a fetch in all families. It starts with [`Record::on_open`] and ends once, by
/// [`Record::complete`] or [`Record::fail`]; each adds its event.
#[derive(Debug, Default)]
pub struct Record {
    started: Time,
    ended: Option<Time>,
    failure: Option<String>,
    is_absent: bool,
    resumed_bytes: u64,
    /// Bytes from caches on the way.
    pub cached_bytes: u64,
    /// Bytes that were requested again.
    pub retransmitted_bytes: u64,
    /// Bytes that arrived a second time.
    pub duplicate_bytes: u64,
    events: VecDeque<TransferEvent>,
}

impl Record {
    /// The record of a fetch that was started at `started`.
    pub fn new(started: Time) -> Record {
        Record { started, ..Record::default() }
    }
    /// Whether it has ended, one way or the other.
    pub fn is_ended(&self) -> bool {
        self.ended.is_some()
    }
    /// Whether it has ended with the whole object.
    pub fn is_completed(&self) -> bool {
        self.is_ended() && self.failure.is_none()
    }
    /// The name has no publisher, for the given `reason`. Reported once until that changes.
    pub fn on_absent(&mut self, reason: &str) {
        if !self.is_ended() && !core::mem::replace(&mut self.is_absent, true) {
            self.push(TransferEvent::Absent { reason: reason.into() });
        }
    }
    /// A publisher of the name exists.
    pub fn on_present(&mut self) {
        self.is_absent = false;
    }
    /// Whether it has ended because its name has no publisher: there was nothing to transfer.
    pub fn was_in_vain(&self) -> bool {
        self.is_ended() && self.is_absent
    }
    /// The store of the object, of `bytes` bytes, is open; an earlier run has left `resumed_bytes` in it.
    pub fn on_open(&mut self, bytes: u64, resumed_bytes: u64) {
        self.resumed_bytes = resumed_bytes;
        self.push(TransferEvent::Started { bytes, resumed_bytes });
    }
    /// The object has its final name.
    pub fn complete(&mut self, now: Time) {
        self.ended = Some(now);
        self.push(TransferEvent::Completed);
    }
    /// The fetch ends without the whole object; `reason` names the failed step, its target and the cause.
    pub fn fail(&mut self, now: Time, reason: String) {
        self.ended = Some(now);
        self.failure = Some(reason.clone());
        self.push(TransferEvent::Failed { reason });
    }
    /// Resets the counters: the object is fetched from the beginning again.
    pub fn start_over(&mut self) {
        (self.resumed_bytes, self.cached_bytes, self.retransmitted_bytes, self.duplicate_bytes) = (0, 0, 0, 0);
    }

    /// Adds an event.
    pub fn push(&mut self, event: TransferEvent) {
        self.events.push_back(event);
    }
    /// Adds events.
    pub fn extend(&mut self, events: impl IntoIterator<Item = TransferEvent>) {
        self.events.extend(events);
    }
    /// The oldest pending event.
    pub fn poll_event(&mut self) -> Option<TransferEvent> {
        self.events.pop_front()
    }

    /// The report of an object of `bytes` bytes; `stored_bytes` of them are verified and stored.
    pub fn report(
        &self,
        (bytes, stored_bytes): (u64, u64),
        sources: Vec<SourceReport>,
        paths: Vec<PathReport>,
    ) -> TransferReport {
        TransferReport {
            bytes,
            stored_bytes,
            resumed_bytes: self.resumed_bytes,
            cached_bytes: self.cached_bytes,
            retransmitted_bytes: self.retransmitted_bytes,
            duplicate_bytes: self.duplicate_bytes,
            started: self.started,
            ended: self.ended,
            failure: self.failure.clone(),
            sources,
            paths,
        }
    }
}
