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
//! | sealed messages between routers | [`seals`], [`replays`] |
//!
//! What grows with the number of names, and its bounds:
//! - A place may hold any number of records. It answers in pages of 60 kB; a watcher fetches them one by one, and
//!   compares a digest at each renewal instead of fetching them again.
//! - The listing of a scope holds its direct children. For everything deeper it holds one record per device and scope
//!   ([`RecordBody::Scope`]).
//! - Places lie in 1,024 buckets, and all places of a bucket have the same replicas. A device renews with the number of
//!   its records in each bucket, and a digest ([`NameMessage::Renew`]); it puts the records of a bucket again if a
//!   replica holds something else. This costs 14 bytes per bucket, for a thousand names or a million, and a device that
//!   has moved to another access router puts nothing again.
//! - A client has a window of open puts; messages of one moment share a chunk ([`NameMessage::Many`]).
//!
//! The author of a record may restrict its readers ([`Readers`]). The routers of a network need all records for
//! delivery; the front authenticates hosts by their hellos, and answers and delivers as if records that a host may not
//! read did not exist.
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
    /// The records at a place now: the answer to a lookup, or the first one to a watch.
    Found(Guid, Vec<NameRecord>),
    /// A record at a watched place is new, or withdraws another one.
    Changed(Guid, Box<NameRecord>),
    /// This many replicas keep this node's record of a GUID.
    Kept(Guid, u8),
    /// This node's record of a GUID was refused.
    Refused(Guid, Refusal),
}

/// Resolves names for one node. The default is the embedded [`GnrsClient`]; another service may implement this.
///
/// All answers come from [`NameResolver::poll_answer`]. [Puts](NameResolver::put) and [watches](NameResolver::watch)
/// stay active until they are withdrawn.
pub trait NameResolver: Send {
    /// Puts a record signed by this node's key: inserts it, or updates the earlier one of the same GUID.
    fn put(&mut self, now: Time, body: RecordBody);
    /// In a network with an authority: new records have an end, earlier ones are put again, and others' records count
    /// only until their end.
    fn set_identity(&mut self, now: Time, identity: &Identity) {
        let _ = (now, identity);
    }
    /// Sets the readers of this node's records of a GUID, now and from now on; everybody by default.
    fn set_readers(&mut self, now: Time, guid: Guid, readers: Readers);
    /// Withdraws the records of a GUID.
    fn delete(&mut self, now: Time, guid: Guid);
    /// Requests the records at a place once.
    fn lookup(&mut self, now: Time, place: Guid);
    /// Requests the records at a place and their changes. If it is already watched, the known state is answered at
    /// once, even while the service is unreachable.
    fn watch(&mut self, now: Time, place: Guid);
    /// Whether a place is watched.
    fn is_watched(&self, _place: Guid) -> bool {
        false
    }
    /// The number of records at a watched place; `None` before the first answer.
    fn known(&self, _place: Guid) -> Option<usize> {
        None
    }
    /// All records at a place that is watched; `None` before the service has sent them.
    fn records(&self, _place: Guid) -> Option<Vec<NameRecord>> {
        None
    }
    /// Why the service could not answer the last request, if it said so and has answered none since.
    fn trouble(&self) -> Option<Refusal> {
        None
    }
    /// Ends [`NameResolver::watch`].
    fn unwatch(&mut self, now: Time, place: Guid);
    /// Sets the slowness of the path to the service: the expected delay of an answer, and the time that a datagram
    /// occupies its link, zero if unknown.
    fn set_slowness(&mut self, answer_time: Duration, airtime: Duration) {
        let _ = (answer_time, airtime);
    }
    /// The service is reachable, for the first time or again; open requests are sent at once.
    fn on_reachable(&mut self, now: Time);
    /// Takes a message of the service.
    fn handle_message(&mut self, now: Time, message: NameMessage);
    /// Runs the timers that are due.
    fn handle_timeout(&mut self, now: Time);
    /// A message to the service.
    fn poll_message(&mut self) -> Option<NameMessage>;
    /// Returns the next answer.
    fn poll_answer(&mut self) -> Option<Answer>;
    /// When to call [`NameResolver::handle_timeout`].
    fn poll_timeout(&self) -> Option<Time>;
}

/// The requester at a replica or a front: a node and its location.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Asker {
    /// Its GUID.
    pub guid: Guid,
    /// Its address.
    pub address: NetworkAddress,
}

/// The numbers of the last watches that each requester started or ended at a place: late messages are ignored. A
/// requester's numbers increase; they restart with a new run.
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
    /// Forgets a restarted requester.
    pub(crate) fn forget(&mut self, is_it: impl Fn(&Asker) -> bool) {
        self.0.retain(|(asker, _), _| !is_it(asker));
    }
}

/// Reads a record that is put at a place.
fn admit(identity: Option<&Identity>, now: Time, place: &Guid, bytes: &[u8]) -> Result<NameRecord, Refusal> {
    let record = NameRecord::decode(bytes).map_err(|_| Refusal::Forged)?;
    let holds = identity.is_none_or(|identity| record.holds(identity, now));
    match record.places().contains(place) {
        false => Err(Refusal::Misplaced),
        true if !holds => Err(Refusal::Ended),
        true => Ok(record),
    }
}

/// One number for all known records of a place, by author, GUID and version; 0 for none.
///
/// It is a sum of hashes, so a replica updates it with one addition per change.
pub fn digest(records: impl Iterator<Item = (RecordKey, u64)>) -> u64 {
    records.fold(0, |sum, ((author, guid), version)| sum.wrapping_add(mark(&author, &guid, version)))
}

/// What one record adds to a sum: a hash of two GUIDs and its version.
pub fn mark(first: &Guid, second: &Guid, version: u64) -> u64 {
    holdings::mark(&[&first.0, &second.0, &version.to_be_bytes()])
}

/// The records of a place after `after`, as many as fit into one answer: [`NameMessage::Found`] if these are all, else
/// a [`NameMessage::Page`].
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

/// The replicas of a place: the `count` routers whose hash with the place's bucket is highest (rendezvous hashing), so
/// that a router that joins or leaves moves only its own records.
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
