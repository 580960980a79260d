//! Sets of records: what is kept and found under one key of the swarm.
//!
//! ```text
//! u8 1 | u32 split | ( u32 seconds | u64 version | u16 length | end of the key | u16 length | value )*     big-endian
//! ```
//! `split`: for how many more seconds more of the same group lies under two further keys, 0 if none does. `seconds`: for
//! how long a record is kept if nobody says it again. The beginning of its key is the group's, which the key of the set
//! says.
use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;
use tributary_transport::engine::{Entry, Rules};

use crate::shard::Shard;

/// Bytes of a set at most, as it is sent.
pub(crate) const SET_BYTES_MAX: usize = 60_000;
/// The longest time for which a record is kept without being said again, whatever a peer says.
pub(crate) const TTL_MAX: Duration = Duration::from_secs(8 * 3_600);

const FORMAT: u8 = 1;
const HEAD_BYTES: usize = 5;
const ENTRY_HEAD_BYTES: usize = 16;

/// A record, and when it ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub(crate) version: u64,
    pub(crate) value: Vec<u8>,
    pub(crate) ends: Instant,
}

impl Held {
    /// What replaces what: a higher version, and of two records with the same one that with the greater value, so that all
    /// peers come to the same.
    fn gives_way_to(&self, version: u64, value: &[u8]) -> bool {
        (self.version, &self.value[..]) < (version, value)
    }
}

/// What became of a record that was offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    New,
    /// It was there; it ends no earlier than said now.
    Same,
    /// There is a newer one.
    Older,
    /// Nobody has signed it, or it does not belong here.
    Forged,
    /// The set has no room for it.
    Full,
}

/// The records under a key of the swarm.
#[derive(Clone, Default, Debug)]
pub(crate) struct Set {
    entries: BTreeMap<Vec<u8>, Held>,
    /// Until when more lies under two further keys.
    split: Option<Instant>,
    /// As it is sent, without its head.
    bytes: usize,
}

/// A record as a peer offers it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Offer {
    pub(crate) entry: Entry,
    pub(crate) ttl: Duration,
}

impl Offer {
    /// Bytes that it takes in a set of its group.
    pub(crate) fn bytes(&self, group: &[u8]) -> usize {
        size(group, &self.entry.key, &self.entry.value)
    }
}

/// What a peer offers for a set.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Offers {
    pub(crate) split: Option<Duration>,
    pub(crate) records: Vec<Offer>,
}

impl Offers {
    /// As it is sent. Records that do not begin with the group are left out.
    pub(crate) fn encode(&self, group: &[u8]) -> Vec<u8> {
        let mut out = vec![FORMAT];
        out.extend(self.split.map_or(0, seconds).to_be_bytes());
        for Offer { entry, ttl } in &self.records {
            let Some(end) = entry.key.strip_prefix(group) else { continue };
            let (Ok(key_bytes), Ok(bytes)) = (u16::try_from(end.len()), u16::try_from(entry.value.len())) else {
                continue;
            };
            out.extend(seconds(*ttl).to_be_bytes());
            out.extend(entry.version.to_be_bytes());
            out.extend(key_bytes.to_be_bytes());
            out.extend(end);
            out.extend(bytes.to_be_bytes());
            out.extend(&entry.value);
        }
        out
    }
    /// `None` for what is no set.
    pub(crate) fn decode(group: &[u8], bytes: &[u8]) -> Option<Offers> {
        let mut rest = bytes.strip_prefix(&[FORMAT]).filter(|_| bytes.len() <= SET_BYTES_MAX)?;
        let split = u32::from_be_bytes(*take(&mut rest)?);
        let split = (split > 0).then(|| Duration::from_secs(u64::from(split)).min(TTL_MAX));
        let mut records = Vec::new();
        while !rest.is_empty() {
            let ttl = Duration::from_secs(u64::from(u32::from_be_bytes(*take(&mut rest)?))).min(TTL_MAX);
            let version = u64::from_be_bytes(*take(&mut rest)?);
            let key = [group, text(&mut rest)?].concat();
            let value = text(&mut rest)?.to_vec();
            records.push(Offer { entry: Entry { key, version, value }, ttl });
        }
        Some(Offers { split, records })
    }
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (first, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(first)
}
fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::from(u16::from_be_bytes(*take(rest)?));
    let (first, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(first)
}
/// Whole seconds, of what lasts at least one.
fn seconds(ttl: Duration) -> u32 {
    u32::try_from(ttl.min(TTL_MAX).as_millis().div_ceil(1_000)).unwrap_or(u32::MAX).max(1)
}
/// Bytes that a record takes where it is sent.
fn size(group: &[u8], key: &[u8], value: &[u8]) -> usize {
    ENTRY_HEAD_BYTES + key.len().saturating_sub(group.len()) + value.len()
}

impl Set {
    /// Takes a record, if it is signed, belongs to `shard`, and is newer than what is here.
    pub(crate) fn take(&mut self, now: Instant, shard: &Shard, offer: Offer, rules: &dyn Rules) -> Taken {
        let Offer { entry: Entry { key, version, value }, ttl } = offer;
        let (ends, before) = (now + ttl.min(TTL_MAX), self.entries.get_mut(&key));
        let mut before_bytes = 0;
        if let Some(held) = before {
            if held.version == version && held.value == value {
                held.ends = held.ends.max(ends);
                return Taken::Same;
            }
            before_bytes = size(&shard.group, &key, &held.value);
            if !held.gives_way_to(version, &value) {
                // A signature is not looked at in vain.
                return Taken::Older;
            }
        }
        let entry = Entry { key, version, value };
        if rules.group(&entry.key) != Some(&shard.group[..]) || !shard.holds(&entry.key) || !rules.accepts(&entry) {
            return Taken::Forged;
        }
        let bytes = self.bytes - before_bytes + size(&shard.group, &entry.key, &entry.value);
        if HEAD_BYTES + bytes > SET_BYTES_MAX {
            return Taken::Full;
        }
        self.bytes = bytes;
        self.entries.insert(entry.key, Held { version, value: entry.value, ends });
        Taken::New
    }
    /// More lies under further keys for so long.
    pub(crate) fn mark_split(&mut self, now: Instant, lasts: Duration) {
        let until = now + lasts.min(TTL_MAX);
        self.split = Some(self.split.map_or(until, |known| known.max(until)));
    }
    /// Whether more lies under further keys, and for how long.
    pub(crate) fn split(&self, now: Instant) -> Option<Duration> {
        self.split.map(|until| until.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }
    /// Removes what is over; gives when the next record ends. `None`: nothing is left.
    pub(crate) fn expire(&mut self, now: Instant, group: &[u8]) -> Option<Instant> {
        self.split.take_if(|until| *until <= now);
        self.entries.retain(|_, held| held.ends > now);
        self.bytes = self.entries.iter().map(|(key, held)| size(group, key, &held.value)).sum();
        self.entries.values().map(|held| held.ends).chain(self.split).min()
    }
    /// What of it has not ended, as it is offered to others.
    pub(crate) fn offers(&self, now: Instant) -> Offers {
        let left = self.entries.iter().filter(|(_, held)| held.ends > now);
        let offer = |(key, held): (&Vec<u8>, &Held)| Offer {
            entry: Entry { key: key.clone(), version: held.version, value: held.value.clone() },
            ttl: held.ends.saturating_duration_since(now),
        };
        Offers { split: self.split(now), records: left.map(offer).collect() }
    }
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Held> {
        self.entries.get(key)
    }
    pub(crate) fn into_entries(self) -> BTreeMap<Vec<u8>, Held> {
        self.entries
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.split.is_none()
    }
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::Plain;

    fn offer(key: &[u8], version: u64, value: &[u8], seconds: u64) -> Offer {
        let entry = Entry { key: key.to_vec(), version, value: value.to_vec() };
        Offer { entry, ttl: Duration::from_secs(seconds) }
    }

    #[test]
    fn a_newer_record_replaces_an_older_one_and_never_the_reverse() {
        let (mut set, now, shard) = (Set::default(), Instant::now(), Shard::root(b"p/"));
        let mut take = |version, value: &[u8], seconds| {
            let taken = set.take(now, &shard, offer(b"p/k", version, value, seconds), &Plain);
            (taken, set.get(b"p/k").map(|held| (held.version, (held.ends - now).as_secs())))
        };
        assert_eq!(take(5, b"ok", 60), (Taken::New, Some((5, 60))));
        assert_eq!(take(4, b"ok", 90), (Taken::Older, Some((5, 60))));
        assert_eq!(take(5, b"ok", 30), (Taken::Same, Some((5, 60))), "nobody shortens its time");
        assert_eq!(take(5, b"ok", 90), (Taken::Same, Some((5, 90))));
        assert_eq!(take(u64::MAX, b"no", 90), (Taken::Forged, Some((5, 90))));
        assert_eq!(take(6, b"ok", 10), (Taken::New, Some((6, 10))));
        assert_eq!(take(7, b"ok", u64::MAX), (Taken::New, Some((7, TTL_MAX.as_secs()))));
    }

    #[test]
    fn a_set_is_bounded_and_what_does_not_belong_to_it_is_not_taken() {
        let (mut set, now, shard) = (Set::default(), Instant::now(), Shard::root(b"p/"));
        assert_eq!(set.take(now, &shard, offer(b"q/k", 1, b"ok", 60), &Plain), Taken::Forged);
        let value = [b"ok".to_vec(), vec![0; 4_000]].concat();
        let mut taken = 0;
        while set.take(now, &shard, offer(format!("p/{taken}").as_bytes(), 1, &value, 60), &Plain) == Taken::New {
            taken += 1;
        }
        assert_eq!(taken, SET_BYTES_MAX / 4_020);
        let sent = set.offers(now).encode(b"p/");
        assert_eq!(sent.len(), HEAD_BYTES + set.bytes());
        assert_eq!(set.take(now, &shard, offer(b"p/0", 2, b"ok", 60), &Plain), Taken::New, "a shorter one has room");
        assert_eq!(set.expire(now + Duration::from_secs(61), b"p/"), None);
        assert_eq!((set.len(), set.bytes()), (0, 0));
    }

    proptest! {
        #[test]
        fn whatever_peers_send_is_a_set_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some(offers) = Offers::decode(b"p/", &bytes) {
                prop_assert_eq!(Offers::decode(b"p/", &offers.encode(b"p/")), Some(offers));
            }
        }

        #[test]
        fn damaged_sets_do_no_harm(at in any::<prop::sample::Index>(), by in any::<u8>(), cut in any::<prop::sample::Index>()) {
            let records = vec![offer(b"p/a", 7, b"ok1", 60), offer(b"p/b", 8, b"ok2", 3)];
            let mut bytes = Offers { split: Some(Duration::from_secs(9)), records }.encode(b"p/");
            let at = at.index(bytes.len());
            bytes[at] ^= by;
            bytes.truncate(cut.index(bytes.len()) + 1);
            let (mut set, now, shard) = (Set::default(), Instant::now(), Shard::root(b"p/"));
            for offer in Offers::decode(b"p/", &bytes).unwrap_or_default().records {
                let entry = offer.entry.clone();
                let is_kept = set.take(now, &shard, offer, &Plain) == Taken::New;
                prop_assert!(!is_kept || Plain.accepts(&entry));
            }
        }

        #[test]
        fn sets_are_read_as_they_are_written(
            records in proptest::collection::vec((any::<Vec<u8>>(), any::<u64>(), any::<Vec<u8>>(), 1u64..28_000), 0..9),
            split in proptest::option::of(1u64..28_000),
        ) {
            let records = records.into_iter().map(|(key, version, value, ttl)| {
                offer(&[b"p/", &key[..]].concat(), version, &value, ttl)
            });
            let offers = Offers { split: split.map(Duration::from_secs), records: records.collect() };
            prop_assert_eq!(Offers::decode(b"p/", &offers.encode(b"p/")), Some(offers));
        }
    }
}
