//! Sent, received and stored messages, in the form for people.
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, path::Path};
use tributary_content::Manifest;
use tributary_core::TransferId;
use tributary_transport::messaging::{Group, Held, SendReport, StoreStatus};

use super::numbers::round;
use crate::request::Send;

tributary_core::declared! {
    /// Something that is being sent.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
    pub struct SentView {
        /// The transfer, such as `transfer-1`.
        pub transfer: String = transfer.to_string(),
        /// Its name.
        pub name: String = send.name.clone(),
        /// The destination.
        pub to: String = send.to.clone(),
        /// Bytes of the object.
        pub bytes: u64 = bytes,
        /// Chunks that it is cut into.
        pub chunks: u32 = report.chunks,
        /// Chunks that have left at least once.
        pub sent_chunks: u32 = report.sent_chunks,
        /// Chunks sent again.
        pub repeated_chunks: u64 = report.repeated_chunks,
        /// Chunks that storage on the way has promised to keep; for a group, for each of its members.
        pub stored_chunks: u32 = report.stored_chunks,
        /// Their numbers in runs: the first, and how many.
        #[serde(default)]
        pub stored_numbers: Vec<(u32, u32)> = report.stored.ranges().to_vec(),
        /// Who keeps how many of them: the custodians' GUIDs.
        #[serde(default)]
        pub custodians: Vec<(String, u64)> = report.custodians.clone(),
        /// How many of the stored chunks this node itself keeps, as no router could take them yet.
        #[serde(default)]
        pub kept_here: u32 = report.kept_here,
        /// How long it is kept at most, in seconds from the beginning of the sending.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub kept_seconds: Option<f64> = report.kept_for.map(|kept| round(kept.as_secs_f64(), 3)),
        /// How often a chunk was dropped on the way, as far as reported.
        #[serde(default)]
        pub dropped_chunks: u64 = report.dropped_chunks,
        /// Receivers that are known.
        pub destinations: u32 = report.destinations,
        /// Receivers that have everything, verified.
        pub delivered: Vec<String> = report.delivered.clone(),
        /// Receivers that cannot keep it.
        #[serde(default)]
        pub refused: Vec<String> = report.refused.clone(),
        /// Whether the node has sent all of it.
        pub has_left: bool = report.has_left,
        /// Since the beginning.
        pub seconds: f64 = 0.0,
    }
    pub(crate) fn new(transfer: TransferId, send: &Send, bytes: u64, report: &SendReport) {}
}
impl SentView {
    /// Until when it is kept, for people: ` until 2026-12-05 16:30 UTC`, or for how long if that is less than an hour.
    pub fn kept_until(&self) -> Option<String> {
        let left = (self.kept_seconds? - self.seconds).max(0.0);
        if left < 3_600.0 {
            return Some(format!(" for {left:.0} s"));
        }
        let until = jiff::Timestamp::now().checked_add(jiff::SignedDuration::from_secs_f64(left)).ok()?;
        Some(format!(" until {}", until.strftime("%Y-%m-%d %H:%M UTC")))
    }
}

tributary_core::declared! {
    /// A received object that this node did not request.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
    pub struct ReceivedView {
        /// Its name.
        pub name: String = manifest.name.to_string(),
        /// Its length.
        pub bytes: u64 = manifest.size,
        /// Its version.
        pub version: u64 = manifest.version,
        /// The key that signed it.
        pub publisher: String = manifest.publisher.to_string(),
        /// Where it is.
        pub output: String = path.display().to_string(),
        /// Always true; nothing else is reported.
        pub verified: bool = true,
        /// Itself, if it is a short text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub text: Option<String> = text,
    }
    pub(crate) fn new(manifest: &Manifest, path: &Path, text: Option<String>) {}
}

/// A group that a node owns.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct GroupView {
    /// Its label.
    pub label: String,
    /// Its GUID, to which messages for the group or its members are sent.
    pub guid: String,
    /// The GUIDs of its members, devices or groups again.
    pub members: Vec<String>,
    /// The device whose proxy distributes the group's messages, if set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
}
impl GroupView {
    pub(crate) fn new((label, group): (String, Group)) -> GroupView {
        let Group { id, members, proxy } = group;
        GroupView { label, guid: id, members, proxy }
    }
}

/// What a node stores for others.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct StoreView {
    /// Bytes in use.
    pub used_bytes: u64,
    /// Bytes allowed; zero if the node stores nothing for others.
    pub capacity_bytes: u64,
    /// The stored chunks.
    pub held: Vec<HeldView>,
}

tributary_core::declared! {
    /// Chunks of one object from one sender for one destination.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
    pub struct HeldView {
        /// Who sent it.
        pub source: String = held.source.clone(),
        /// For whom it is.
        pub destination: String = held.destination.clone(),
        /// The object.
        pub object: String = held.object.clone(),
        /// Its name, if its manifest is also stored.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub name: Option<String> = held.name.clone(),
        /// Chunks held.
        pub chunks: u64 = held.chunks.count(),
        /// Their numbers in runs: the first, and how many.
        #[serde(default)]
        pub numbers: Vec<(u32, u32)> = held.chunks.ranges().to_vec(),
        /// Bytes held.
        pub bytes: u64 = held.bytes.0,
        /// Their priority.
        pub priority: u8 = held.priority,
        /// Age of the oldest.
        pub age_seconds: f64 = round(held.age.as_secs_f64(), 3),
        /// How long the first of them that expires is kept still; zero if all are on hold.
        pub left_seconds: f64 = round(held.left.unwrap_or_default().as_secs_f64(), 3),
        /// How many are on hold: they are kept until they are released, or with their receiver.
        #[serde(default)]
        pub on_hold: u64 = held.on_hold,
        /// Why they are here.
        pub reason: String = held.reason.into(),
        /// The custodian: the router that keeps them until they are on a disk further on. Its GUID.
        #[serde(default)]
        pub custodian: String = held.custodian.clone(),
        /// Chunks that wait here or leave.
        #[serde(default)]
        pub waiting: u64 = held.waiting,
        /// Chunks that full nodes further on refused; they are tried again.
        #[serde(default)]
        pub resting: u64 = held.resting,
        /// Chunks that a neighbour has accepted, but that no node has reported on disk yet.
        #[serde(default)]
        pub in_transit: u64 = held.in_transit,
        /// The GUIDs of these neighbours.
        #[serde(default)]
        pub in_transit_to: Vec<String> = held.in_transit_to.clone(),
        /// How long the one that is under way longest is.
        #[serde(default)]
        pub in_transit_seconds: f64 = round(held.in_transit_for.as_secs_f64(), 3),
    }
    fn new(held: &Held) {}
}
impl StoreView {
    pub(crate) fn new(store: &StoreStatus) -> Self {
        let held = store.held.iter().map(HeldView::new);
        StoreView { used_bytes: store.used.0, capacity_bytes: store.capacity.0, held: held.collect() }
    }
    /// Chunks that are held.
    pub fn chunks(&self) -> u64 {
        self.held.iter().map(|held| held.chunks).sum()
    }
    /// Chunks that are stored here and not in `after`: by their numbers, regardless of changes in between.
    pub fn lost_in(&self, after: &StoreView) -> u64 {
        self.keys().difference(&after.keys()).count() as u64
    }
    fn keys<'a>(&'a self) -> BTreeSet<(&'a str, &'a str, &'a str, u32)> {
        let ranges = self.held.iter().flat_map(|held| held.numbers.iter().map(move |run| (held, run)));
        let key = |held: &'a HeldView, number| (&held.source[..], &held.destination[..], &held.object[..], number);
        ranges
            .flat_map(|(held, (first, count))| {
                (*first..first.saturating_add(*count)).map(move |number| key(held, number))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_store_lost_is_told_by_the_numbers_of_chunks_and_not_by_their_count() {
        let held = |object: &str, numbers: &[(u32, u32)]| HeldView {
            object: object.into(),
            chunks: numbers.iter().map(|(_, count)| u64::from(*count)).sum(),
            numbers: numbers.to_vec(),
            ..HeldView::default()
        };
        let store = |held: Vec<HeldView>| StoreView { held, ..StoreView::default() };
        let before = store(vec![held("a", &[(0, 3), (7, 1)]), held("b", &[(5, 2)])]);
        assert_eq!((before.chunks(), before.lost_in(&before)), (6, 0));
        let as_many_more = store(vec![held("a", &[(0, 2), (8, 2)]), held("b", &[(4, 2)])]);
        assert_eq!((as_many_more.chunks(), before.lost_in(&as_many_more)), (6, 3));
    }
}
