//! What this peer keeps for the swarm: signed records, bounded in number and bytes.
//!
//! libp2p hands over what comes from others ([`RecordStore::put`]) before it acknowledges it: what is refused here has failed
//! for whoever sent it, so that copies that are counted are copies that are kept. Filtering by events, which libp2p offers
//! too, acknowledges whatever comes.
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    iter,
    sync::Arc,
};

use libp2p_identity::PeerId;
use libp2p_kad::{
    KBucketDistance, KBucketKey, ProviderRecord, Record, RecordKey,
    store::{Error, RecordStore, Result},
};
use tokio::time::Instant;
use tributary_transport::engine::Rules;

use crate::{
    set::{Offer, Offers, Set, Taken},
    shard::Shard,
};

/// Bytes that a set takes beside its records, about.
const SET_OVERHEAD_BYTES: usize = 200;

struct Part {
    shard: Shard,
    set: Set,
    /// When it is looked at again.
    due: Instant,
}

/// The records of this peer.
pub(crate) struct Store {
    own: KBucketKey<PeerId>,
    rules: Arc<dyn Rules>,
    /// By distance from the own id: what is furthest goes first.
    parts: BTreeMap<KBucketDistance, Part>,
    due: BTreeSet<(Instant, KBucketDistance)>,
    records: usize,
    bytes: usize,
    records_max: usize,
    bytes_max: usize,
    /// What comes is the own resolver's; that there is no room for it here is no refusal by others.
    pub(crate) is_publishing: bool,
    /// Records that nobody had signed.
    pub(crate) forged: u64,
    /// Records for which there was no room.
    pub(crate) refused: u64,
}

impl Store {
    pub(crate) fn new(own: PeerId, rules: Arc<dyn Rules>, records_max: usize, bytes_max: usize) -> Store {
        Store {
            own: own.into(),
            rules,
            parts: BTreeMap::new(),
            due: BTreeSet::new(),
            records: 0,
            bytes: 0,
            records_max,
            bytes_max,
            is_publishing: false,
            forged: 0,
            refused: 0,
        }
    }
    /// Records and bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.records, self.bytes)
    }
    /// Removes what has ended.
    pub(crate) fn expire(&mut self, now: Instant) {
        while let Some((_, distance)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            let Some(part) = self.remove_part(distance) else { continue };
            self.keep(now, distance, part);
        }
    }
    fn distance(&self, key: &RecordKey) -> KBucketDistance {
        self.own.distance(&KBucketKey::from(key.clone()))
    }
    fn remove_part(&mut self, distance: KBucketDistance) -> Option<Part> {
        self.due.remove(&(self.parts.get(&distance)?.due, distance));
        let part = self.parts.remove(&distance)?;
        self.records -= part.set.len();
        self.bytes -= part.set.bytes() + SET_OVERHEAD_BYTES;
        Some(part)
    }
    /// Puts a part back, without what has ended.
    fn keep(&mut self, now: Instant, distance: KBucketDistance, mut part: Part) {
        let Some(due) = part.set.expire(now, &part.shard.group) else { return };
        part.due = due;
        self.records += part.set.len();
        self.bytes += part.set.bytes() + SET_OVERHEAD_BYTES;
        self.due.insert((due, distance));
        self.parts.insert(distance, part);
    }
    /// Makes room for more at a distance, by what is further away; false if there is none.
    fn make_room(&mut self, distance: KBucketDistance, records: usize, bytes: usize) -> bool {
        while self.records + records > self.records_max || self.bytes + bytes + SET_OVERHEAD_BYTES > self.bytes_max {
            match self.parts.last_key_value().map(|(furthest, _)| *furthest).filter(|furthest| *furthest > distance) {
                Some(furthest) => drop(self.remove_part(furthest)),
                None => return false,
            }
        }
        true
    }
    fn put_set(&mut self, now: Instant, record: &Record) -> Result<()> {
        let shard = Shard::decode(record.key.as_ref());
        let parsed = shard.and_then(|shard| {
            let offers = Offers::decode(&shard.group, &record.value)?;
            // Of a part of no group nothing is kept, nor that it is split.
            let is_known = self.rules.group(&shard.group) == Some(&shard.group[..]);
            is_known.then_some((shard, offers))
        });
        let Some((shard, offers)) = parsed else {
            self.forged += 1;
            return Err(Error::ValueTooLarge);
        };
        let distance = self.distance(&record.key);
        let mut part = self.remove_part(distance).unwrap_or_else(|| Part { shard, set: Set::default(), due: now });
        // What is here already is renewed whether there is room or not.
        let is_new = |offer: &&Offer| part.set.get(&offer.entry.key).is_none();
        let (mut records, mut bytes) = (part.set.len(), part.set.bytes());
        for offer in offers.records.iter().filter(is_new) {
            (records, bytes) = (records + 1, bytes + offer.bytes(&part.shard.group));
        }
        let has_room = self.make_room(distance, records, bytes);
        let (mut kept, mut is_full) = (offers.records.is_empty() && has_room, false);
        if let Some(split) = offers.split.filter(|_| has_room) {
            part.set.mark_split(now, split);
        }
        for offer in offers.records {
            if !has_room && part.set.get(&offer.entry.key).is_none() {
                (self.refused, is_full) = (self.refused + 1, true);
                continue;
            }
            match part.set.take(now, &part.shard, offer, &*self.rules) {
                Taken::New | Taken::Same => kept = true,
                Taken::Older => {}
                Taken::Forged => self.forged += 1,
                Taken::Full => (self.refused, is_full) = (self.refused + 1, true),
            }
        }
        self.keep(now, distance, part);
        match (kept, is_full) {
            (true, false) => Ok(()),
            (_, true) => Err(Error::MaxRecords),
            // Stale or forged; libp2p has no name for that.
            (false, false) => Err(Error::ValueTooLarge),
        }
    }
}

impl RecordStore for Store {
    // The jobs of libp2p that replicate all that is here are off: whoever has put a record says it again in time.
    type RecordsIter<'a> = iter::Empty<Cow<'a, Record>>;
    type ProvidedIter<'a> = iter::Empty<Cow<'a, ProviderRecord>>;

    fn get(&self, key: &RecordKey) -> Option<Cow<'_, Record>> {
        let part = self.parts.get(&self.distance(key)).filter(|part| part.shard.encode() == key.as_ref())?;
        let offers = part.set.offers(Instant::now());
        let is_empty = offers.records.is_empty() && offers.split.is_none();
        (!is_empty).then(|| Cow::Owned(Record::new(key.clone(), offers.encode(&part.shard.group))))
    }
    fn put(&mut self, record: Record) -> Result<()> {
        let put = self.put_set(Instant::now(), &record);
        if self.is_publishing { Ok(()) } else { put }
    }
    fn remove(&mut self, _: &RecordKey) {}
    fn records(&self) -> Self::RecordsIter<'_> {
        iter::empty()
    }
    fn add_provider(&mut self, _: ProviderRecord) -> Result<()> {
        Err(Error::MaxProvidedKeys)
    }
    fn providers(&self, _: &RecordKey) -> Vec<ProviderRecord> {
        Vec::new()
    }
    fn provided(&self) -> Self::ProvidedIter<'_> {
        iter::empty()
    }
    fn remove_provider(&mut self, _: &RecordKey, _: &PeerId) {}
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use tributary_transport::engine::Entry;

    use super::*;
    use crate::testing::Plain;

    fn store(records_max: usize, bytes_max: usize) -> Store {
        Store::new(PeerId::random(), Arc::new(Plain), records_max, bytes_max)
    }
    fn record(group: usize, version: u64, value: &[u8], seconds: u64) -> Record {
        let group = format!("{group}/").into_bytes();
        let entry = Entry { key: [&group, &b"k"[..]].concat(), version, value: value.to_vec() };
        let offers = Offers { split: None, records: vec![Offer { entry, ttl: Duration::from_secs(seconds) }] };
        Record::new(Shard::root(&group).encode(), offers.encode(&group))
    }
    fn holds(store: &Store, record: &Record) -> bool {
        store.get(&record.key).is_some_and(|there| there.value == record.value)
    }

    #[test]
    fn a_full_store_keeps_what_is_nearest_and_renews_what_it_has() {
        let mut store = store(10, 1 << 20);
        let all: Vec<Record> = (0..100).map(|group| record(group, 1, b"ok", 60)).collect();
        let mut refused = 0;
        for record in &all {
            refused += usize::from(store.put(record.clone()).is_err());
            assert!(store.size().0 <= 10);
        }
        assert!(refused > 30 && store.refused == refused as u64, "{refused}");
        let mut sorted = all.clone();
        sorted.sort_by_key(|record| store.distance(&record.key));
        assert!(sorted[..10].iter().all(|record| holds(&store, record)));
        assert!(sorted[10..].iter().all(|record| store.get(&record.key).is_none()));
        assert!(store.put(sorted[9].clone()).is_ok(), "what is there is renewed");

        // What its own resolver puts is not refused by it, though it is not kept here.
        store.is_publishing = true;
        assert!(store.put(sorted[50].clone()).is_ok() && store.get(&sorted[50].key).is_none());
    }

    #[test]
    fn bytes_are_bounded_and_what_has_ended_goes() {
        let mut store = store(1_000, 50_000);
        let value = [&b"ok"[..], &[0; 4_000]].concat();
        (0..100).for_each(|group| drop(store.put(record(group, 1, &value, 60))));
        let (records, bytes) = store.size();
        assert!((11..=12).contains(&records) && bytes <= 50_000, "{records} records, {bytes} bytes");
        store.expire(Instant::now() + Duration::from_secs(59));
        assert_eq!(store.size(), (records, bytes));
        store.expire(Instant::now() + Duration::from_secs(61));
        assert_eq!((store.size(), store.parts.len(), store.due.len()), ((0, 0), 0, 0));
    }

    #[test]
    fn what_is_forged_or_stale_is_refused_and_counted() {
        let mut store = store(10, 1 << 20);
        assert!(store.put(record(1, 5, b"ok", 60)).is_ok());
        assert!(store.put(record(1, 4, b"ok", 60)).is_err() && store.forged == 0);
        assert!(store.put(record(1, 6, b"no", 60)).is_err() && store.forged == 1);
        assert!(store.put(record(2, 6, b"no", 60)).is_err() && store.forged == 2);
        assert!(store.put(Record::new(b"1/k".to_vec(), b"ok".to_vec())).is_err() && store.forged == 3);
        assert!(store.put(Record::new(Shard::root(b"none").encode(), vec![1, 0, 0, 0, 9])).is_err());
        assert!(holds(&store, &record(1, 5, b"ok", 60)));
        assert_eq!(store.size().0, 1);
    }

    proptest! {
        #[test]
        fn whatever_strangers_put_the_store_stays_in_its_bounds(
            puts in proptest::collection::vec((any::<Vec<u8>>(), any::<Vec<u8>>(), 0usize..9, any::<u64>(), any::<bool>()), 0..40),
        ) {
            let mut store = store(5, 2_000);
            for (key, value, group, version, is_record) in puts {
                let put = match is_record {
                    true => record(group, version, &[&b"ok"[..], &value].concat(), u64::from(value.len() as u8)),
                    false => Record::new(key, value),
                };
                let _ = store.put(put);
                let (records, bytes) = store.size();
                prop_assert!(records <= 5 && bytes <= 2_000, "{} records, {} bytes", records, bytes);
                prop_assert_eq!(store.parts.len(), store.due.len());
            }
        }
    }
}
