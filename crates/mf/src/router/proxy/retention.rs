//! The operator's decisions about stored chunks: on hold until released, or kept longer than their lifetime.
//!
//! Each such decision is a separate record in the repository, without payload, so that large data is not written again:
//!
//! ```text
//! bytes  0            1              9                      17                   25
//!        | flags (4)  | chunk number | ends at, in ms of    | left when that was | 1 if it is
//!        |            |              | the repository clock | decided, in ms     | on hold
//! ```
//! A later record of a chunk counts instead of an earlier one, which is removed when the later one is durable: a node that is
//! killed in between has one of the two.
use tributary_core::{
    wire::{Reader, Wire, Writer, codec::Choice},
    wire_table,
};

use super::*;
use crate::wire::fields::MILLIS;

/// The first byte of a decision; the first bytes of chunks' heads have the flags of `head.rs`.
const RECORD: u8 = 4;

wire_table! {
    /// A decision about a chunk.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(super) struct Term {
        /// When its lifetime ends, by the repository's clock.
        ends_at: Duration = MILLIS => "end",
        /// The remaining lifetime at the decision: an upper bound if the clock was set back since.
        left: Duration = MILLIS => "left",
        pub(super) on_hold: bool = Choice(&[false, true]) => "on hold",
    }
}

impl Term {
    fn record(&self, chunk: u64) -> Vec<u8> {
        let mut record = Vec::with_capacity(26);
        record.put_u8(RECORD);
        record.put_u64(chunk);
        self.encode(&mut record);
        record
    }
    /// The number of its chunk, and the term; `None` for other records.
    fn of_record(record: &[u8]) -> Option<(u64, Term)> {
        let mut reader = Reader::new(record.strip_prefix(&[RECORD])?);
        let record = (reader.u64("chunk").ok()?, Term::read(&mut reader).ok()?);
        reader.end().ok().map(|()| record)
    }
    /// The remaining lifetime at a time of the repository's clock.
    pub(super) fn left_at(&self, clock: Duration) -> Duration {
        self.ends_at.saturating_sub(clock).min(self.left)
    }
}

/// The records of terms in the repository.
#[derive(Default)]
pub(super) struct Terms {
    /// The number of the record of each chunk that has one.
    records: BTreeMap<u64, u64>,
    /// Terms not yet in a commit, and those in the running one.
    changed: BTreeMap<u64, Term>,
    committing: BTreeMap<u64, Term>,
    /// Records that the running commit replaces.
    superseded: Vec<u64>,
}

impl Terms {
    /// Separates the decisions from the chunks of a repository; returns the chunks, and the term of each that has one.
    /// Decisions without a chunk, and outdated ones, are removed.
    pub(super) fn take_from(
        &mut self,
        found: &mut Vec<(u64, Vec<u8>, u64)>,
        repository: &mut dyn ChunkRepository,
    ) -> Result<BTreeMap<u64, Term>, StoreError> {
        let mut terms = BTreeMap::new();
        let mut useless = Vec::new();
        found.retain(|(record, head, _)| {
            let Some((chunk, term)) = Term::of_record(head) else { return true };
            terms.insert(chunk, term);
            useless.extend(self.records.insert(chunk, *record));
            false
        });
        let chunks: BTreeSet<u64> = found.iter().map(|(id, ..)| *id).collect();
        self.records.retain(|chunk, record| {
            let is_here = chunks.contains(chunk);
            if !is_here {
                useless.push(*record);
            }
            is_here
        });
        useless.into_iter().try_for_each(|record| repository.remove(record))?;
        Ok(terms)
    }
    /// Whether anything was decided about a chunk.
    pub(super) fn has(&self, chunk: u64) -> bool {
        self.records.contains_key(&chunk) || self.changed.contains_key(&chunk)
    }
    /// How many decisions are not durable yet.
    pub(super) fn unsaved(&self) -> usize {
        self.changed.len() + self.committing.len()
    }
}

/// What the owner decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    /// They stay until they are released, or with their receiver.
    Hold,
    /// Their lifetimes count again.
    Release,
    /// They are kept for at least this long from now on.
    AtLeast(Duration),
}

impl Proxy {
    /// Decides how long chunks are kept, regardless of their senders and the settings. It survives a restart once
    /// [`Proxy::unsaved_terms`] is zero. Returns the number of affected chunks.
    pub(crate) fn decide(&mut self, now: Time, keys: &[ChunkKey], decision: Decision) -> u64 {
        let ids: Vec<u64> = keys.iter().filter_map(|key| self.keys.get(key).copied()).collect();
        for id in &ids {
            let Some(stored) = self.chunks.get(id) else { continue };
            let (on_hold, until) = match decision {
                Decision::Hold => (true, stored.until),
                Decision::Release => (false, stored.until),
                Decision::AtLeast(time) => (stored.on_hold, stored.until.max(now + time)),
            };
            if (on_hold, until) != (stored.on_hold, stored.until) {
                self.set_term(*id, on_hold, until);
                self.keep_term(now, *id);
            }
        }
        ids.len() as u64
    }
    /// How many decisions are not on the disk yet.
    pub fn unsaved_terms(&self) -> usize {
        self.terms.unsaved()
    }
    /// Sets how long a chunk is kept. A chunk on hold has no deadline, and is never dropped in favour of others.
    pub(super) fn set_term(&mut self, id: u64, on_hold: bool, until: Time) {
        let Some(stored) = self.chunks.get_mut(&id) else { return };
        let was = core::mem::replace(&mut stored.on_hold, on_hold);
        let old = core::mem::replace(&mut stored.until, until);
        let (flow, entry) = (stored.key.flow, (stored.header.priority, core::cmp::Reverse(id)));
        self.deadlines.remove(&(old, id));
        if !on_hold {
            self.deadlines.insert((until, id));
        }
        if was != on_hold {
            self.change_flow(flow, |flow| match on_hold {
                true => drop(flow.chunks.remove(&entry)),
                false => drop(flow.chunks.insert(entry)),
            });
        }
    }
    /// Sees to it that the next commit has the term of a chunk.
    pub(super) fn keep_term(&mut self, now: Time, id: u64) {
        let Some(stored) = self.chunks.get(&id) else { return };
        let left = stored.until.since(now);
        let ends_at = self.repository.clock().saturating_add(left);
        self.terms.changed.insert(id, Term { ends_at, left, on_hold: stored.on_hold });
        self.dirty = true;
    }
    /// Puts the decisions since the last commit started.
    pub(super) fn put_terms(&mut self) -> Result<(), StoreError> {
        while let Some((id, term)) = self.terms.changed.pop_first() {
            let record = self.next_id;
            self.next_id += 1;
            self.terms.committing.insert(id, term);
            self.repository.put(record, &term.record(id), &[])?;
            self.terms.superseded.extend(self.terms.records.insert(id, record));
        }
        Ok(())
    }
    /// The running commit has ended: earlier records are obsolete.
    pub(super) fn on_terms_committed(&mut self) {
        self.terms.committing.clear();
        for record in core::mem::take(&mut self.terms.superseded) {
            self.remove_record(record);
        }
    }
    /// The commit failed: its decisions go into the next one.
    pub(super) fn on_terms_failed(&mut self) {
        for (id, term) in core::mem::take(&mut self.terms.committing) {
            if self.chunks.contains_key(&id) {
                self.terms.changed.entry(id).or_insert(term);
            }
        }
    }
    /// A chunk is gone, and its term with it.
    pub(super) fn forget_term(&mut self, id: u64) {
        self.terms.changed.remove(&id);
        self.terms.committing.remove(&id);
        if let Some(record) = self.terms.records.remove(&id) {
            self.remove_record(record);
        }
    }
    fn remove_record(&mut self, record: u64) {
        if let Err(error) = self.repository.remove(record) {
            self.failure = Some(error);
        }
        self.dirty = true;
    }
}

#[cfg(test)]
mod tests {
    use alloc::{sync::Arc, vec};
    use std::sync::Mutex;

    use super::{super::tests::header as data_header, *};

    /// Written data, and which part of it is on the disk; both outlive a proxy.
    #[derive(Clone, Default)]
    struct Disk(Arc<Mutex<OnDisk>>);
    #[derive(Default)]
    struct OnDisk {
        written: MemoryRepository,
        durable: MemoryRepository,
        clock: Duration,
        is_full: bool,
    }
    impl Disk {
        /// Power fails, and returns after `later`.
        fn cut_power(&self, later: Duration) {
            let mut disk = self.0.lock().unwrap();
            disk.written = disk.durable.clone();
            disk.clock += later;
        }
        fn set_full(&self, is_full: bool) {
            self.0.lock().unwrap().is_full = is_full;
        }
        fn entries(&self) -> usize {
            self.0.lock().unwrap().durable.list().unwrap().len()
        }
    }
    impl ChunkRepository for Disk {
        fn put(&mut self, id: u64, head: &[u8], payload: &[Bytes]) -> Result<(), StoreError> {
            self.0.lock().unwrap().written.put(id, head, payload)
        }
        fn remove(&mut self, id: u64) -> Result<(), StoreError> {
            self.0.lock().unwrap().written.remove(id)
        }
        fn commit(&mut self) -> Result<(), StoreError> {
            let mut disk = self.0.lock().unwrap();
            if disk.is_full {
                return Err(StoreError::Io {
                    operation: "commit",
                    path: "store".into(),
                    reason: "no space left".into(),
                });
            }
            disk.durable = disk.written.clone();
            Ok(())
        }
        fn read(&mut self, id: u64) -> Result<Bytes, StoreError> {
            self.0.lock().unwrap().written.read(id)
        }
        fn list(&mut self) -> Result<Vec<(u64, Vec<u8>, u64)>, StoreError> {
            self.0.lock().unwrap().written.list()
        }
        fn clock(&self) -> Duration {
            self.0.lock().unwrap().clock
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn header(source: u8, number: u32, lifetime_ms: u32) -> ChunkHeader {
        ChunkHeader { lifetime_ms, ..data_header(source, 2, number, 0) }
    }
    fn key(source: u8, number: u32) -> ChunkKey {
        header(source, number, 0).key().unwrap()
    }
    fn start(disk: &Disk, capacity: u64) -> Proxy {
        let config = ProxyConfig { capacity: ByteCount(capacity), lifetime: 60 * SECOND, ..ProxyConfig::default() };
        Proxy::new(Time::ZERO, config, (Guid([99; 20]), NetworkAddress(7)), Box::new(disk.clone())).unwrap()
    }
    fn put(proxy: &mut Proxy, source: u8, number: u32) -> Result<(), Refused> {
        proxy.put(Time::ZERO, &header(source, number, 10_000), &vec![1; 1_000].into(), Kept::For(StoreReason::Away))
    }
    fn commit(proxy: &mut Proxy) {
        while proxy.has_uncommitted() {
            assert_eq!((proxy.begin_commit(), proxy.poll_commit(Time::ZERO)), (Ok(true), Ok(true)));
        }
    }
    /// Whether it is on hold, and how long it is kept after `now`.
    fn term(proxy: &Proxy, source: u8, number: u32, now: Time) -> Option<(bool, Duration)> {
        let held = proxy.holdings().find(|held| held.key == key(source, number))?;
        Some((held.on_hold, held.until.since(now)))
    }

    #[test]
    fn what_is_on_hold_neither_expires_nor_makes_room_nor_is_purged() {
        // Room for two.
        let mut proxy = start(&Disk::default(), 2 * (1_000 + CHUNK_OVERHEAD_BYTES));
        put(&mut proxy, 1, 0).unwrap();
        put(&mut proxy, 1, 1).unwrap();
        let both = [key(1, 0), key(1, 1)];
        assert_eq!(proxy.decide(Time::ZERO, &both, Decision::Hold), 2);
        assert_eq!(put(&mut proxy, 3, 0), Err(Refused::Full), "the source that has most gives no room");
        let later = Time::ZERO + 3_600 * SECOND;
        proxy.handle_timeout(later);
        assert_eq!((proxy.purge(later, &both), proxy.holdings().count(), proxy.stats.expired), (0, 2, 0));
        // After the release, one may be evicted and the other has expired.
        assert_eq!(proxy.decide(Time::ZERO, &both, Decision::Release), 2);
        assert_eq!(put(&mut proxy, 3, 0), Ok(()));
        assert_eq!(proxy.stats.evicted, 1);
        proxy.handle_timeout(Time::ZERO + 10 * SECOND);
        assert_eq!((proxy.holdings().count(), proxy.stats.expired), (0, 2));
        assert!(proxy.flows.is_empty() && proxy.sources.is_empty() && proxy.largest.is_empty());
    }

    #[test]
    fn a_source_whose_chunks_are_all_on_hold_leaves_nothing_behind() {
        let mut proxy = start(&Disk::default(), 1 << 20);
        put(&mut proxy, 1, 0).unwrap();
        proxy.decide(Time::ZERO, &[key(1, 0)], Decision::Hold);
        assert_eq!(proxy.flows.len(), 1, "its share counts still");
        commit(&mut proxy);
        proxy.on_complete(Token(7), &key(1, 0).flow, 1, ObjectId([9; 16]));
        commit(&mut proxy);
        assert!(proxy.flows.is_empty() && proxy.sources.is_empty() && proxy.order.is_empty());
        assert_eq!(proxy.repository.list().unwrap(), [], "its record is gone with it");
    }

    #[test]
    fn what_was_decided_about_chunks_outlives_the_router() {
        let disk = Disk::default();
        let mut proxy = start(&disk, 1 << 20);
        (0..4).for_each(|number| put(&mut proxy, 1, number).unwrap());
        commit(&mut proxy);
        proxy.decide(Time::ZERO, &[key(1, 0)], Decision::Hold);
        proxy.decide(Time::ZERO, &[key(1, 1)], Decision::AtLeast(500 * SECOND));
        proxy.decide(Time::ZERO, &[key(1, 2)], Decision::AtLeast(SECOND));
        assert_eq!(proxy.unsaved_terms(), 2, "a shorter time changes nothing");
        commit(&mut proxy);
        assert_eq!(proxy.unsaved_terms(), 0);
        // Not committed: as if it had never been decided.
        proxy.decide(Time::ZERO, &[key(1, 3)], Decision::Hold);
        disk.cut_power(100 * SECOND);
        let mut again = start(&disk, 1 << 20);
        let terms = |proxy: &Proxy| [0, 1, 2, 3].map(|number| term(proxy, 1, number, Time::ZERO));
        let over = Some((false, Duration::ZERO));
        assert_eq!(terms(&again), [Some((true, Duration::ZERO)), Some((false, 400 * SECOND)), over, over]);
        again.handle_timeout(Time::ZERO);
        assert_eq!(terms(&again), [Some((true, Duration::ZERO)), Some((false, 400 * SECOND)), None, None]);
        // A decision replaces the previous one, whose record is removed.
        again.decide(Time::ZERO, &[key(1, 0)], Decision::AtLeast(50 * SECOND));
        again.decide(Time::ZERO, &[key(1, 0)], Decision::Release);
        commit(&mut again);
        assert_eq!(disk.entries(), 4, "two chunks and their records");
        disk.cut_power(Duration::ZERO);
        let last = start(&disk, 1 << 20);
        assert_eq!(terms(&last)[..2], [Some((false, 50 * SECOND)), Some((false, 400 * SECOND))]);
    }

    #[test]
    fn a_clock_that_was_set_back_does_not_lengthen_what_was_extended() {
        let disk = Disk::default();
        disk.cut_power(1_000 * SECOND);
        let mut proxy = start(&disk, 1 << 20);
        put(&mut proxy, 1, 0).unwrap();
        proxy.decide(Time::ZERO, &[key(1, 0)], Decision::AtLeast(500 * SECOND));
        commit(&mut proxy);
        disk.0.lock().unwrap().clock = Duration::ZERO;
        assert_eq!(term(&start(&disk, 1 << 20), 1, 0, Time::ZERO), Some((false, 500 * SECOND)));
    }

    #[test]
    fn a_decision_that_a_full_disk_did_not_take_is_in_the_next_commit() {
        let disk = Disk::default();
        let mut proxy = start(&disk, 1 << 20);
        put(&mut proxy, 1, 0).unwrap();
        commit(&mut proxy);
        proxy.decide(Time::ZERO, &[key(1, 0)], Decision::Hold);
        disk.set_full(true);
        assert!(proxy.begin_commit().is_err());
        assert_eq!((proxy.unsaved_terms(), proxy.has_uncommitted()), (1, false), "it is not tried without end");
        disk.set_full(false);
        put(&mut proxy, 1, 1).unwrap();
        commit(&mut proxy);
        assert_eq!(proxy.unsaved_terms(), 0);
        disk.cut_power(99 * SECOND);
        assert_eq!(term(&start(&disk, 1 << 20), 1, 0, Time::ZERO), Some((true, Duration::ZERO)));
    }

    #[test]
    fn what_takes_the_place_of_a_chunk_on_hold_is_on_hold_and_goes_on_without_a_lifetime() {
        let disk = Disk::default();
        let mut proxy = start(&disk, 1 << 20);
        put(&mut proxy, 1, 0).unwrap();
        proxy.decide(Time::ZERO, &[key(1, 0)], Decision::Hold);
        let right = ChunkHeader { flags: Flags::NO_CACHE, ..header(1, 0, 10_000) };
        proxy.put(Time::ZERO, &right, &vec![2; 1_000].into(), Kept::For(StoreReason::Away)).unwrap();
        commit(&mut proxy);
        assert_eq!(term(&proxy, 1, 0, Time::ZERO), Some((true, 10 * SECOND)));
        proxy.on_reachable(&Guid([2; 20]));
        let now = Time::ZERO + 20 * SECOND;
        let (header, _) = proxy.poll_release(now, |_| Release::Now, |_| Vec::new()).unwrap();
        assert_eq!(header.lifetime_ms, 0, "the next store keeps it as long as it keeps any");
    }
}
