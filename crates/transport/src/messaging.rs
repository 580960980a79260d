//! The services of push networks besides fetching (paper MFTP §4: send, recv, attach, detach). Only some families have
//! them; all of them share the types, so that fronts depend on no family.
use alloc::{boxed::Box, collections::BTreeMap, format, string::String, vec::Vec};
use core::ops::RangeInclusive;
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use tributary_content::{Name, ObjectReader, StoreOpener};
use tributary_core::{ByteCount, Duration, Time, TransferId};

use crate::Fetch;

/// Commands and queries of a node that sends objects, receives objects of other senders, and stores for absent
/// receivers.
pub trait Messaging {
    /// Sends an object to a receiver that did not request it. [`Messaging::send_report`] has its progress.
    ///
    /// # Errors
    /// A sentence if an option is out of range or the table of transfers is full.
    fn send(
        &mut self,
        now: Time,
        object: Box<dyn ObjectReader>,
        to: &Destination,
        options: &SendOptions,
    ) -> Result<TransferId, String>;
    /// Fetches an object, as `Endpoint::fetch` does, with separate options.
    ///
    /// # Errors
    /// A sentence if an option is out of range.
    fn get(&mut self, now: Time, fetch: Fetch, options: &GetOptions) -> Result<TransferId, String>;
    /// The report of a sent object; `None` if it is unknown or was forgotten.
    fn send_report(&self, now: Time, transfer: TransferId) -> Option<SendReport>;
    /// Cancels a sending.
    fn cancel_send(&mut self, now: Time, transfer: TransferId);
    /// Receives objects that other nodes send to this one, if `acceptor` trusts them; `None` stops. `Event::Transfer`
    /// reports their progress, as for fetches. `options` have passed [`AcceptOptions::check`].
    fn accept(&mut self, now: Time, acceptor: Option<Box<dyn StoreOpener>>, options: &AcceptOptions);
    /// Attaches this node to `name`: objects sent to the name reach this node too.
    fn attach(&mut self, now: Time, name: &Name);
    /// Ends [`Messaging::attach`].
    fn detach(&mut self, now: Time, name: &Name);
    /// Sets who may look up this node's records under `name`, or (`None`) the record of its location: these devices, by
    /// their identifiers in hex, or (`None`) all. For other devices the name does not exist.
    ///
    /// # Errors
    /// A sentence if a limit is reached or an identifier is malformed.
    fn set_readers(&mut self, now: Time, name: Option<&Name>, readers: Option<&[String]>) -> Result<(), String>;
    /// Sets the members of a group of this node (MobilityFirst: devices and groups by their identifiers in hex), or
    /// (`None`) removes the group.
    ///
    /// # Errors
    /// A sentence if a limit is reached or an identifier is malformed.
    fn set_group(&mut self, now: Time, label: &str, members: Option<&[String]>) -> Result<(), String>;
    /// The groups of this node, by their labels.
    fn groups(&self) -> BTreeMap<String, Group>;
    /// The chunks that this node stores for others, and until when.
    fn holdings(&self, now: Time) -> StoreStatus;
    /// Forgets chunks that this node stores for others, and notifies the senders to which it has promised them. Returns
    /// how many chunks it forgot.
    ///
    /// # Errors
    /// A sentence if the destination is malformed.
    fn purge(&mut self, now: Time, what: &HeldFilter) -> Result<u64, String>;
    /// Sets how long chunks that this node stores for others are kept, overriding their senders' lifetimes. Returns the
    /// number of such chunks. The setting outlives the node once [`Messaging::unsaved`] is zero.
    ///
    /// # Errors
    /// A sentence if the destination is malformed or the time is not in [`EXTENSION`].
    fn keep(&mut self, now: Time, what: &HeldFilter, how: Keeping) -> Result<u64, String>;
    /// How many of the decisions of [`Messaging::keep`] are not on the disk yet.
    fn unsaved(&self) -> usize;
}

/// Selects stored chunks that meet all conditions. The default selects all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct HeldFilter {
    /// Their destination: a name, or the beginning of an identifier in hex.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub destination: Option<String>,
    /// Their object: the beginning of its identifier in hex.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub object: Option<String>,
}

/// How long stored chunks are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keeping {
    /// On hold, until they are delivered or released: they do not expire, are not evicted, and cannot be purged.
    Hold,
    /// No longer on hold: their lifetimes count again.
    Release,
    /// For at least this long from now on, in [`EXTENSION`].
    AtLeast(Duration),
}

/// The members of a group, as its owner lists them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Its identifier in hex.
    pub id: String,
    /// The identifiers of its members.
    pub members: Vec<String>,
    /// The device whose proxy distributes messages to the group; `None` for the first router that they reach.
    pub proxy: Option<String>,
}

/// The receiver of a sending.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Destination {
    /// The device or group of this identifier (MobilityFirst: GUID), in hex.
    Id(String),
    /// All devices attached to this name, or the nearest of them.
    Name(Name),
}

/// Range of the bytes in a chunk that a sender or a fetch may choose. The upper end fits into the 8,192 packets of a chunk
/// over the narrowest links of MobilityFirst, which carry 550 bytes of it in a packet.
pub const CHUNK_BYTES: RangeInclusive<u32> = 1 << 10..=8_192 * 550;
/// Range of the time without a packet after which a receiver reports missing chunks.
pub const NACK_TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(86_400);

/// Range of the time for which stored chunks may be ordered to be kept: up to ten years.
pub const EXTENSION: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(10 * 366 * 86_400);

/// End-to-end reliability of a delivery (paper MFTP §3.2.2); later ones are surer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "kebab-case"))]
#[repr(u8)]
pub enum Reliability {
    /// None: each chunk is sent once.
    DontCare = 0,
    /// The receiver reports missing chunks.
    #[default]
    Nack = 1,
    /// The receiver acknowledges chunks that have arrived.
    Ack = 2,
}
impl Reliability {
    /// All of them, with their names in configs, on the command line and in JSON.
    pub const ALL: [(&str, Reliability); 3] =
        [("dont-care", Reliability::DontCare), ("nack", Reliability::Nack), ("ack", Reliability::Ack)];

    /// The one with this number on the wire.
    pub fn from_byte(byte: u8) -> Option<Reliability> {
        Reliability::ALL.into_iter().map(|(_, kind)| kind).find(|kind| *kind as u8 == byte)
    }
}

/// What routers may store of chunks that they cannot deliver now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "kebab-case"))]
pub enum InNetwork {
    /// Any router may store them.
    #[default]
    Store,
    /// The sender's access router stores a copy and answers for the sender, which may sleep.
    Delegate,
    /// Nothing: routers drop them.
    Nothing,
}
impl InNetwork {
    /// All of them, with their names on the command line and in JSON.
    pub const ALL: [(&str, InNetwork); 3] =
        [("store", InNetwork::Store), ("delegate", InNetwork::Delegate), ("nothing", InNetwork::Nothing)];
}

/// How many of the group's members receive it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Spread {
    /// To all members; those that miss something request it from the sender.
    #[default]
    All,
    /// To all members; a member requests missing chunks from routers on the way, which answer from copies. Each request
    /// tries at most this many of them, 1 to 255.
    AllByProxies(u8),
    /// To the nearest one.
    Nearest,
}

/// How something is sent. `None` leaves a choice to the node's settings.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SendOptions {
    /// Bytes of the object in a chunk.
    pub chunk_bytes: Option<u32>,
    /// End-to-end reliability.
    pub reliability: Option<Reliability>,
    /// The storage that routers may provide.
    pub in_network: Option<InNetwork>,
    /// Larger is more important where storage is short.
    pub priority: u8,
    /// How long it is worth keeping.
    pub lifetime: Option<Duration>,
    /// Which of the devices attached to the name receive it.
    pub spread: Spread,
}

/// How an object is fetched, by families that have the choice. `None` leaves it to the node's config.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields, default))]
pub struct GetOptions {
    /// Bytes of a requested chunk, in [`CHUNK_BYTES`]; a source may cut the object into smaller ones.
    pub chunk_bytes: Option<u32>,
    /// End-to-end reliability.
    pub reliability: Option<Reliability>,
    /// How long the receiver waits for the next packet before it reports missing chunks, in [`NACK_TIMEOUT`].
    #[cfg_attr(feature = "serde", serde(rename = "nack_timeout_ms", with = "crate::milliseconds"))]
    pub nack_timeout: Option<Duration>,
    /// The storage that routers may provide while it cannot be delivered.
    pub in_network: Option<InNetwork>,
}
impl GetOptions {
    /// Checks each option against its range.
    ///
    /// # Errors
    /// The first option that is out of range.
    pub fn check(&self) -> Result<(), String> {
        check_chunk_bytes(self.chunk_bytes)?;
        check_nack_timeout(self.nack_timeout)
    }
}
impl SendOptions {
    /// Checks each option against its range.
    ///
    /// # Errors
    /// The first option that is out of range.
    pub fn check(&self) -> Result<(), String> {
        check_chunk_bytes(self.chunk_bytes)
    }
}

/// How objects that other nodes send are received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AcceptOptions {
    /// How long the receiver waits for an object's next packet before it reports missing chunks, in [`NACK_TIMEOUT`];
    /// `None` leaves it to the node's config.
    pub nack_timeout: Option<Duration>,
}
impl AcceptOptions {
    /// Checks each option against its range.
    ///
    /// # Errors
    /// The first option that is out of range.
    pub fn check(&self) -> Result<(), String> {
        check_nack_timeout(self.nack_timeout)
    }
}

fn check_chunk_bytes(bytes: Option<u32>) -> Result<(), String> {
    let (min, max) = CHUNK_BYTES.into_inner();
    let outside = bytes.filter(|bytes| !CHUNK_BYTES.contains(bytes));
    outside.map_or(Ok(()), |bytes| Err(format!("a chunk has from {min} to {max} bytes, not {bytes}")))
}
fn check_nack_timeout(timeout: Option<Duration>) -> Result<(), String> {
    let (min, max) = NACK_TIMEOUT.into_inner();
    let outside = timeout.filter(|timeout| !NACK_TIMEOUT.contains(timeout));
    outside.map_or(Ok(()), |timeout| Err(format!("a NACK timeout is {min:?} to {max:?}, not {timeout:?}")))
}

/// The progress of a sent object.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SendReport {
    /// Bytes of the object.
    pub bytes: u64,
    /// Its number of chunks, and how many of these have left this node at least once.
    pub chunks: u32,
    /// See there.
    pub sent_chunks: u32,
    /// Chunks sent again.
    pub repeated_chunks: u64,
    /// Chunks that storage on the way has promised to keep; for a group, for each of its members.
    pub stored_chunks: u32,
    /// Their numbers; of a group, of those that are kept for any.
    pub stored: ChunkSet,
    /// The custodians, and the chunks of each.
    pub custodians: Vec<(String, u64)>,
    /// Chunks that this node keeps itself, as no router could take them yet.
    pub kept_here: u32,
    /// Maximum time for which storage on the way keeps them, from the start of the sending.
    pub kept_for: Option<Duration>,
    /// Reported drops of chunks on the way. Each is sent again, unless the reliability is [`Reliability::DontCare`].
    pub dropped_chunks: u64,
    /// End-to-end reliability: as in the command, or else as in the node's config.
    pub reliability: Reliability,
    /// The storage that routers may provide, chosen likewise.
    pub in_network: InNetwork,
    /// Known receivers.
    pub destinations: u32,
    /// Receivers that have confirmed the complete, verified object.
    pub delivered: Vec<String>,
    /// Receivers that cannot keep it.
    pub refused: Vec<String>,
    /// Whether no part of it waits in this node any longer.
    pub has_left: bool,
    /// Whether the sender has nothing more to do.
    pub is_over: bool,
}

impl SendReport {
    /// Known receivers that have neither got nor refused it.
    pub fn waiting(&self) -> u64 {
        u64::from(self.destinations).saturating_sub((self.delivered.len() + self.refused.len()) as u64)
    }
    /// Whether storage, of routers or also of this node, keeps all of it for each of these receivers, of which there
    /// must be one.
    pub fn is_kept(&self, storage: Storage) -> bool {
        let here = if storage == Storage::OfRouters { u64::from(self.kept_here) } else { 0 };
        let (kept, waiting) = (u64::from(self.stored_chunks).saturating_sub(here), self.waiting());
        waiting > 0 && kept > 0 && kept >= u64::from(self.chunks) * waiting
    }
}

/// Whose storage counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Storage {
    /// That of routers and of the sending node.
    OfAll,
    /// That of routers: the sending node ends before it can send its own.
    OfRouters,
}

/// A set of chunk numbers as ascending ranges that neither touch nor overlap: the first number, and the count.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChunkSet(Vec<(u32, u32)>);

impl FromIterator<u32> for ChunkSet {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> ChunkSet {
        let mut numbers: Vec<u32> = numbers.into_iter().collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for number in numbers {
            match ranges.last_mut() {
                Some((first, count)) if first.checked_add(*count) == Some(number) => *count += 1,
                _ => ranges.push((number, 1)),
            }
        }
        ChunkSet(ranges)
    }
}
impl ChunkSet {
    /// The ranges.
    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }
    /// The number of members.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| u64::from(*count)).sum()
    }
}

/// What a node stores.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct StoreStatus {
    /// Bytes in use.
    pub used: ByteCount,
    /// Bytes allowed; zero if the node stores nothing for others.
    pub capacity: ByteCount,
    /// The stored chunks, by transfer and by reason.
    pub held: Vec<Held>,
}

/// Stored chunks of one transfer of one object to one destination.
#[derive(Clone, PartialEq, Debug)]
pub struct Held {
    /// Who sent it.
    pub source: String,
    /// Its receiver.
    pub destination: String,
    /// The object.
    pub object: String,
    /// Its name, if its manifest is also stored.
    pub name: Option<String>,
    /// The stored chunks.
    pub chunks: ChunkSet,
    /// Their bytes.
    pub bytes: ByteCount,
    /// Their priority.
    pub priority: u8,
    /// Age of the oldest.
    pub age: Duration,
    /// How long the one that expires first is kept still; `None` if all are on hold.
    pub left: Option<Duration>,
    /// How many are on hold.
    pub on_hold: u64,
    /// Why they are stored.
    pub reason: &'static str,
    /// The custodian: the router that keeps them until they are on a disk further on; here the queried router.
    pub custodian: String,
    /// How many wait here, leave, or must be retried because the next hop was full.
    pub waiting: u64,
    /// See there.
    pub resting: u64,
    /// How many a neighbour has accepted without confirming yet that they are on its disk.
    pub in_transit: u64,
    /// Those neighbours.
    pub in_transit_to: Vec<String>,
    /// How long the oldest of these has been in transit.
    pub in_transit_for: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_out_of_range_are_refused_with_the_range() {
        let (min, max) = CHUNK_BYTES.into_inner();
        let chunks = |bytes| GetOptions { chunk_bytes: Some(bytes), ..GetOptions::default() };
        for bytes in [*CHUNK_BYTES.start(), *CHUNK_BYTES.end()] {
            assert_eq!(chunks(bytes).check(), Ok(()));
            assert_eq!(SendOptions { chunk_bytes: Some(bytes), ..SendOptions::default() }.check(), Ok(()));
        }
        for bytes in [*CHUNK_BYTES.start() - 1, *CHUNK_BYTES.end() + 1] {
            let refused = Err(format!("a chunk has from {min} to {max} bytes, not {bytes}"));
            assert_eq!(chunks(bytes).check(), refused);
            assert_eq!(SendOptions { chunk_bytes: Some(bytes), ..SendOptions::default() }.check(), refused);
        }
        let accept = |nack_timeout| AcceptOptions { nack_timeout: Some(nack_timeout) }.check();
        assert_eq!((accept(*NACK_TIMEOUT.start()), accept(*NACK_TIMEOUT.end())), (Ok(()), Ok(())));
        let error = accept(Duration::from_millis(49)).unwrap_err();
        assert_eq!(alloc::format!("{error}"), "a NACK timeout is 50ms to 86400s, not 49ms");
    }
    #[test]
    fn chunk_numbers_are_told_in_as_few_runs_as_there_are_whatever_their_order() {
        let of = |numbers: &[u32]| numbers.iter().copied().collect::<ChunkSet>();
        assert_eq!(of(&[]).ranges(), []);
        let some = of(&[7, 2, 1, 9, 2, u32::MAX, 3]);
        assert_eq!((some.ranges(), some.count()), (&[(1, 3), (7, 1), (9, 1), (u32::MAX, 1)][..], 6));
    }
}
