//! The layout of records in a store: their keys, values, and leases.
//!
//! | key | value | lease |
//! |---|---|---|
//! | `r/PLACE/AUTHOR/GUID` | a byte, 1 if valid and 0 if ended; the signed record | the author's memory |
//! | the same for an attachment or a group | the same | of the author's subscriptions of some hours |
//! | the same for a deletion | the same | of the deletions of some minutes |
//! | `a/AUTHOR` | nothing: its author is present | the author's presence |
//!
//! GUIDs are written in hex, so that the places of a bucket are adjacent. A device has two leases, for one name or a
//! million: its records are found while its presence lasts, and their versions are known while its memory lasts.
//! Lookups find attachments and groups in their author's absence, until their own lease ends.
use alloc::{format, string::String, vec::Vec};

use tributary_core::{Duration, Time};
use tributary_directory::engine::{Entry, Lease};

use super::super::replica::MEMORY;
use crate::{
    ids::Guid,
    wire::{NameRecord, RECORD_SPAN, RecordKey},
};

/// A record at a place.
pub(super) type Slot = (Guid, RecordKey);

/// What a key means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Record(Slot),
    Author(Guid),
}

impl Key {
    /// `None` for any other key.
    pub(super) fn read(bytes: &[u8]) -> Option<Key> {
        let mut parts = core::str::from_utf8(bytes).ok()?.split('/');
        let (kind, mut guid) = (parts.next()?, || parts.next()?.parse::<Guid>().ok());
        let key = match kind {
            "r" => Key::Record((guid()?, (guid()?, guid()?))),
            "a" => Key::Author(guid()?),
            _ => return None,
        };
        parts.next().is_none().then_some(key)
    }
}

pub(super) fn key_of((place, (author, guid)): &Slot) -> Vec<u8> {
    format!("r/{place}/{author}/{guid}").into_bytes()
}
pub(super) fn author_key(author: &Guid) -> Vec<u8> {
    format!("a/{author}").into_bytes()
}
pub(super) fn authors_range() -> (Vec<u8>, Vec<u8>) {
    (b"a/".to_vec(), b"a0".to_vec())
}
/// The records at a place, or those after one of them.
pub(super) fn place_range(place: &Guid, after: Option<&RecordKey>) -> (Vec<u8>, Vec<u8>) {
    let from = match after {
        Some(after) => behind(&key_of(&(*place, *after))),
        None => format!("r/{place}/").into_bytes(),
    };
    (from, format!("r/{place}0").into_bytes())
}
/// The records at all places of a bucket.
pub(super) fn bucket_range(bucket: u16) -> (Vec<u8>, Vec<u8>) {
    let first = |bucket: u16| -> String {
        match bucket.checked_mul(64) {
            Some(first) => format!("r/{first:04x}"),
            None => "r/g".into(),
        }
    };
    (first(bucket).into_bytes(), first(bucket + 1).into_bytes())
}
/// The first key behind this one.
pub(super) fn behind(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

const ENDED: u8 = 0;
const STATED: u8 = 1;

/// A record as it is kept.
pub(super) fn entry(slot: &Slot, record: &NameRecord, bytes: &[u8]) -> Entry {
    let version = record.statement().version;
    Entry { key: key_of(slot), version, value: [&[STATED], bytes].concat() }
}
/// The same record, ended; its version stays known.
pub(super) fn ended(entry: Entry) -> Entry {
    let record = entry.value.get(1..).unwrap_or_default();
    Entry { value: [&[ENDED], record].concat(), ..entry }
}
/// Whether the entry is valid, without checking signatures.
pub(super) fn is_stated(entry: &Entry) -> bool {
    entry.value.split_first().is_some_and(|(state, record)| *state == STATED && !NameRecord::bytes_are_deletion(record))
}
/// The record in a store's slot, and whether it is valid; `None` if its signature is missing or wrong.
pub(super) fn verified(slot: &Slot, entry: &Entry) -> Option<(NameRecord, bool)> {
    let (state, bytes) = entry.value.split_first()?;
    let record = NameRecord::decode(bytes).ok()?;
    let belongs = record.places().contains(&slot.0) && record.key() == slot.1;
    let is_stated = *state == STATED && !record.is_deletion();
    (belongs && record.statement().version == entry.version).then_some((record, is_stated))
}

/// The leases of devices.
#[derive(Debug)]
pub(super) struct Leases {
    /// In a network with an authority: how far clocks may be apart, in seconds.
    clock_tolerance: Option<u64>,
    /// Distinguishes one resolver's leases of deletions from others'.
    salt: u64,
}

impl Leases {
    pub(super) fn new(salt: u64) -> Leases {
        Leases { clock_tolerance: None, salt }
    }
    /// Records have an absolute end, until which old ones could be replayed.
    pub(super) fn with_ends(&mut self, clock_tolerance: u64) {
        self.clock_tolerance = Some(clock_tolerance);
    }
    /// The author is present while this lasts.
    pub(super) fn presence(author: &Guid, lifetime: Duration) -> Lease {
        let seconds = seconds(lifetime.max(LEASE_MIN));
        lease(author, b"presence", u64::from(seconds), seconds)
    }
    /// The author's records are remembered while this lasts.
    pub(super) fn memory(&self, author: &Guid) -> Lease {
        let seconds = self.remembered(RECORD_SPAN);
        lease(author, b"memory", u64::from(seconds), seconds)
    }
    /// The lease of a deleted record's version, which may be valid for `lifetime`, and for at most `span` seconds by
    /// its signature.
    pub(super) fn deletions(&self, author: &Guid, now: Time, (lifetime, span): (Duration, u64)) -> Lease {
        self.passing(author, now, b"deletions", (MEMORY, self.remembered(span).max(seconds(lifetime))))
    }
    /// Keeps an attachment or a group in its author's absence. The author puts it again, under a new lease, before an
    /// eighth of the lifetime is over.
    pub(super) fn subscriptions(&self, author: &Guid, now: Time, lifetime: Duration) -> Lease {
        self.passing(author, now, b"subscriptions", (lifetime / 8, seconds(lifetime)))
    }
    /// How long the version of an ended record is remembered that was valid for at most `span` seconds.
    fn remembered(&self, span: u64) -> u32 {
        let seconds = self.clock_tolerance.map_or(MEMORY.as_secs(), |tolerance| span + tolerance);
        u32::try_from(seconds).unwrap_or(u32::MAX)
    }
    /// A lease without renewals: its records end with it. Records that a device states in the same `slot` of the time
    /// share one.
    fn passing(&self, author: &Guid, now: Time, what: &[u8], (slot, lasts): (Duration, u32)) -> Lease {
        let slot = slot.as_secs().max(1);
        let number_of_slot = now.since(Time::ZERO).as_secs() / slot;
        let seconds = lasts.saturating_add(u32::try_from(slot).unwrap_or(u32::MAX));
        lease(author, what, self.salt ^ number_of_slot ^ u64::from(seconds) << 32, seconds)
    }
}

/// The shortest lease of a device, regardless of its renewals, which are unsigned. Devices renew every ten seconds by
/// default.
pub(super) const LEASE_MIN: Duration = Duration::from_secs(30);

/// Whole seconds, as stores count them.
fn seconds(lifetime: Duration) -> u32 {
    u32::try_from(lifetime.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX)
}
fn lease(author: &Guid, what: &[u8], more: u64, seconds: u32) -> Lease {
    Lease::of("tributary 2026 mobilityfirst leases", &[&author.0, &more.to_be_bytes(), what], seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{BUCKETS, bucket_of};

    #[test]
    fn keys_are_read_as_they_are_written_and_buckets_hold_their_places() {
        let guid = |first: u8, last: u8| {
            let mut guid = Guid([last; 20]);
            guid.0[0] = first;
            guid
        };
        for first in [0, 1, 0x7f, 0xff] {
            let slot = (guid(first, 3), (guid(4, 5), guid(6, 7)));
            let key = key_of(&slot);
            assert_eq!(Key::read(&key), Some(Key::Record(slot)));
            let is_in = |(from, to): (Vec<u8>, Vec<u8>)| from <= key && key < to;
            assert!(is_in(place_range(&slot.0, None)) && !is_in(place_range(&slot.0, Some(&slot.1))));
            let holding: Vec<u16> = (0..BUCKETS).filter(|bucket| is_in(bucket_range(*bucket))).collect();
            assert_eq!(holding, [bucket_of(&slot.0)]);
        }
        assert_eq!(Key::read(&author_key(&guid(1, 2))), Some(Key::Author(guid(1, 2))));
        for wrong in [&b"r/12/34/56"[..], b"a/", b"", b"\xff", b"h/1"] {
            assert_eq!(Key::read(wrong), None);
        }
    }
}
