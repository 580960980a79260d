//! The global name resolution service (paper §3; reference/mobilityfirst, routing and names).
//!
//! ```text
//!   Client ──(one message)──► Front of its access router ──► K replicas placed by hashing
//!      ▲                           │  first answer of the nearest two wins
//!      └───────────────────────────┘  notifications fan out to all who watch
//! ```
//! | what | module |
//! |---|---|
//! | a node's own names, its questions, its watches: renewed and repeated | [`client`], `scopes` |
//! | the service of an access router: finds replicas, collects their answers | [`front`] |
//! | holds records and watches | [`replica`] |
//! | the same, with the records in an outside store | [`stored`] |
//! | which of the two a node has | [`records`] |
//! | what routers say to each other, sealed | [`seals`], [`replays`] |
//!
//! What grows with the number of names, and by what it is bounded:
//! - A place may hold any number of records. It answers in pages of 60 kB; who watches it fetches them one after the
//!   other, and compares a digest with each renewal instead of fetching them again.
//! - The listing of a scope holds what is directly below it. Of everything deeper it holds one record per device and
//!   scope ([`RecordBody::Scope`]).
//! - Places lie in 1,024 buckets, and all places of a bucket have the same replicas. A device renews by saying how many
//!   records it has in each bucket, with a digest ([`NameMessage::Renew`]); it puts again what is in a bucket of which a
//!   replica holds something else. This costs 14 bytes per bucket, whether it has a thousand names or a million, and a
//!   device that has moved to another access router puts nothing again.
//! - A client has a window of open puts; messages of one moment share a chunk ([`NameMessage::Many`]).
//!
//! The author of a record may name who may know it ([`Readers`]). The routers of a network need all records to
//! deliver; the front answers hosts, which its hellos prove, as if there were none that they may not know, and they deliver
//! for hosts as if so too.
pub mod client;
pub mod front;
pub mod records;
pub mod replays;
pub mod replica;
mod scopes;
pub mod seals;
pub mod stored;
#[cfg(test)]
mod tests;

use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};

use tributary_core::{Duration, Time};
use tributary_directory::holdings;
use tributary_trust::Identity;

pub use client::GnrsClient;
pub use front::Front;
pub use records::Records;
pub use replays::Replays;
pub use replica::Replica;
pub use seals::Seals;
pub use stored::Stored;

use crate::{
    ids::{Guid, NetworkAddress},
    wire::{
        NameMessage, NameRecord, Readers, RecordBody, RecordKey, Refusal,
        names::{ANSWER_BYTES_MAX, RECORDS_MAX},
    },
};

/// What a resolver has found out.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// What is known at a place now: the answer to a lookup, or the first one to a watch.
    Found(Guid, Vec<NameRecord>),
    /// A record at a watched place is new, or takes another one back.
    Changed(Guid, Box<NameRecord>),
    /// What this node says of a GUID is kept by so many replicas.
    Kept(Guid, u8),
    /// What this node says of a GUID was not taken.
    Refused(Guid, Refusal),
}

/// Resolves names for one node. The default is the embedded [`GnrsClient`]; another service may stand behind this.
///
/// All answers come by [`NameResolver::poll_answer`]. What is [put](NameResolver::put) or
/// [watched](NameResolver::watch) is kept up until it is taken back.
pub trait NameResolver: Send {
    /// Says something in the name of this node's key: inserts, or updates what was said of the same GUID before.
    fn put(&mut self, now: Time, body: RecordBody);
    /// In a network with an authority: what is said from now on has an end, what was said before is said again, and what
    /// others say counts only until its end.
    fn set_identity(&mut self, now: Time, identity: &Identity) {
        let _ = (now, identity);
    }
    /// Says who may know what this node says of a GUID, now and from now on; everybody, as long as nothing is said.
    fn set_readers(&mut self, now: Time, guid: Guid, readers: Readers);
    /// Takes back what was said of a GUID.
    fn delete(&mut self, now: Time, guid: Guid);
    /// Asks once what is known at a place.
    fn lookup(&mut self, now: Time, place: Guid);
    /// Asks what is known at a place and what changes there. If it is watched already, what is known is answered at once,
    /// even while the service is out of reach.
    fn watch(&mut self, now: Time, place: Guid);
    /// Whether a place is watched.
    fn is_watched(&self, _place: Guid) -> bool {
        false
    }
    /// How many records the service has said there are at a place that is watched; `None` before it has said.
    fn known(&self, _place: Guid) -> Option<usize> {
        None
    }
    /// All records at a place that is watched; `None` before the service has sent them.
    fn records(&self, _place: Guid) -> Option<Vec<NameRecord>> {
        None
    }
    /// Why the service could not answer what it was asked last, if it said so and has answered nothing since.
    fn trouble(&self) -> Option<Refusal> {
        None
    }
    /// Ends [`NameResolver::watch`].
    fn unwatch(&mut self, now: Time, place: Guid);
    /// Takes how slow the way to the service is: how long an answer may take, and for how long a datagram of full length
    /// occupies its link, zero if that is not known.
    fn set_slowness(&mut self, answer_time: Duration, airtime: Duration) {
        let _ = (answer_time, airtime);
    }
    /// The service can be reached, newly or again; what is open is asked at once.
    fn on_reachable(&mut self, now: Time);
    /// Takes a message of the service.
    fn handle_message(&mut self, now: Time, message: NameMessage);
    /// Does what is due.
    fn handle_timeout(&mut self, now: Time);
    /// A message to the service.
    fn poll_message(&mut self) -> Option<NameMessage>;
    /// What was found out.
    fn poll_answer(&mut self) -> Option<Answer>;
    /// When to call [`NameResolver::handle_timeout`].
    fn poll_timeout(&self) -> Option<Time>;
}

/// Who asks a replica or a front: a node and where it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Asker {
    /// Its GUID.
    pub guid: Guid,
    /// Its address.
    pub address: NetworkAddress,
}

/// The numbers of the last watches that each asker began or ended at a place: what was said before and comes later does not
/// count. Numbers of one asker count up; of a new life of it they begin anew.
#[derive(Debug, Default)]
pub(crate) struct WatchOrder(BTreeMap<(Asker, Guid), (u32, Time)>);

/// How long numbers of watches are remembered, and how many.
const WATCH_MEMORY: (Duration, usize) = (Duration::from_secs(10), 16_384);

impl WatchOrder {
    /// Takes note of a question; true if it was overtaken by a later one.
    pub(crate) fn is_overtaken(&mut self, now: Time, asker: Asker, place: Guid, request: u32) -> bool {
        let key = (asker, place);
        let known = self.0.get(&key).filter(|(_, until)| *until > now).map(|(number, _)| *number);
        // Serial numbers of 31 bits, as in RFC 1982.
        let ahead = |known: u32| known.wrapping_sub(request) & (NameMessage::HAND_OVER_BIT - 1);
        if known.is_some_and(|known| (1..1 << 30).contains(&ahead(known))) {
            return true;
        }
        if self.0.len() >= WATCH_MEMORY.1 && !self.0.contains_key(&key) {
            self.0.pop_first();
        }
        self.0.insert(key, (request, now + WATCH_MEMORY.0));
        false
    }
    /// Forgets an asker that has started anew.
    pub(crate) fn forget(&mut self, is_it: impl Fn(&Asker) -> bool) {
        self.0.retain(|(asker, _), _| !is_it(asker));
    }
}

/// One number for all records that are known at a place, by author and GUID and with their versions; 0 for none.
///
/// It is a sum of hashes, so that a replica keeps it up to date with one addition per change.
pub fn digest(records: impl Iterator<Item = (RecordKey, u64)>) -> u64 {
    records.fold(0, |sum, ((author, guid), version)| sum.wrapping_add(mark(&author, &guid, version)))
}

/// What one record adds to a sum: a hash of two GUIDs and its version.
pub fn mark(first: &Guid, second: &Guid, version: u64) -> u64 {
    holdings::mark(&[&first.0, &second.0, &version.to_be_bytes()])
}

/// The records of a place behind `after`, as many as fit into one answer: [`NameMessage::Found`] if these are all that
/// there is, else a [`NameMessage::Page`].
fn page<'a>(
    request: u32,
    place: Guid,
    after: Option<RecordKey>,
    records: impl Iterator<Item = (&'a RecordKey, &'a [u8])>,
) -> NameMessage {
    let (mut bytes, mut taken, mut last) = (0, Vec::new(), None);
    for (key, record) in records {
        bytes += record.len() + 2;
        if taken.len() == RECORDS_MAX || bytes > ANSWER_BYTES_MAX {
            return NameMessage::Page { request, place, ends: (after, last), records: taken };
        }
        last = Some(*key);
        taken.push(record.to_vec());
    }
    match after {
        None => NameMessage::Found { request, place, records: taken },
        Some(_) => NameMessage::Page { request, place, ends: (after, None), records: taken },
    }
}

/// The replicas of a place: the `count` routers whose hash with the bucket of the place is highest (rendezvous hashing), so
/// that the coming and going of one router moves only what it holds itself.
#[cfg(test)]
pub fn place_on(place: &Guid, routers: impl Iterator<Item = NetworkAddress>, count: usize) -> Vec<NetworkAddress> {
    bucket_on(crate::wire::bucket_of(place), routers, count)
}

/// The same, of all places in a bucket.
pub fn bucket_on(bucket: u16, routers: impl Iterator<Item = NetworkAddress>, count: usize) -> Vec<NetworkAddress> {
    let weight = |router: NetworkAddress| holdings::mark(&[&bucket.to_be_bytes(), &router.0.to_be_bytes()]);
    let mut ranked: Vec<(u64, NetworkAddress)> = routers.map(|router| (weight(router), router)).collect();
    ranked.sort_unstable_by(|a, b| b.cmp(a));
    ranked.truncate(count);
    ranked.into_iter().map(|(_, router)| router).collect()
}
