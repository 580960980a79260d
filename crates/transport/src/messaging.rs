//! What a network that delivers without being asked can do beside fetching (paper MFTP §4: send, recv, attach, detach):
//! a capability that some families have. The shapes are the same for all of them, so that fronts know no family.
use alloc::{boxed::Box, collections::BTreeMap, string::String, vec::Vec};

use tributary_content::{Name, ObjectReader, StoreOpener};
use tributary_core::{ByteCount, Duration, Time, TransferId};

use crate::Fetch;

/// Commands and questions of a node that sends, takes what is sent, and stores for those who are away.
pub trait Messaging {
    /// Sends an object to somebody who did not ask. Progress is in [`Messaging::send_report`].
    ///
    /// # Errors
    /// A sentence that says why it cannot be sent.
    fn send(
        &mut self,
        now: Time,
        object: Box<dyn ObjectReader>,
        to: &Destination,
        options: &SendOptions,
    ) -> Result<TransferId, String>;
    /// Fetches an object, as `Endpoint::fetch` does, with options of its own.
    fn get(&mut self, now: Time, fetch: Fetch, options: &GetOptions) -> TransferId;
    /// The account of something sent; `None` if there never was one or it was forgotten.
    fn send_report(&self, now: Time, transfer: TransferId) -> Option<SendReport>;
    /// Ends what is being sent.
    fn cancel_send(&mut self, now: Time, transfer: TransferId);
    /// Takes objects that are sent to this node and that `acceptor` trusts; `None` takes no more. Their progress is told
    /// by `Event::Transfer`, like that of fetches.
    fn accept(&mut self, now: Time, acceptor: Option<Box<dyn StoreOpener>>, options: &AcceptOptions);
    /// From now on what is sent to `name` reaches this node too.
    fn attach(&mut self, now: Time, name: &Name);
    /// Ends [`Messaging::attach`].
    fn detach(&mut self, now: Time, name: &Name);
    /// Says who may look up what this node says under `name`, or (`None`) where the node itself is: these devices, by
    /// their identifiers in hex, or (`None`) everybody. For all others it is as if there were no such name.
    ///
    /// # Errors
    /// A sentence that says why that cannot be.
    fn set_readers(&mut self, now: Time, name: Option<&Name>, readers: Option<&[String]>) -> Result<(), String>;
    /// Says who belongs to a group of this node (MobilityFirst: devices and groups by their identifiers in hex), or (`None`)
    /// that there is none of this label any more.
    ///
    /// # Errors
    /// A sentence that says why that cannot be.
    fn set_group(&mut self, now: Time, label: &str, members: Option<&[String]>) -> Result<(), String>;
    /// The groups of this node, by their labels.
    fn groups(&self) -> BTreeMap<String, Group>;
    /// What this node holds for others, and until when.
    fn holdings(&self, now: Time) -> StoreStatus;
}

/// Who belongs to a group, as its owner says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Its identifier in hex.
    pub id: String,
    /// Those of its members.
    pub members: Vec<String>,
    /// That of the device whose proxy spreads what is for the group; `None` for whichever router it comes to first.
    pub proxy: Option<String>,
}

/// To whom something is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Destination {
    /// The device or group of this identifier (MobilityFirst: GUID), in hex.
    Id(String),
    /// Everybody, or the nearest one, who is attached to this name.
    Name(Name),
}

/// How sure the delivery has to be, end to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Delivery {
    /// Sent and forgotten.
    DontCare,
    /// The receiver tells what is missing.
    #[default]
    Nack,
    /// The receiver tells what has arrived.
    Ack,
}

/// What the network may keep on the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum InNetwork {
    /// What cannot be delivered now may be stored on the way.
    #[default]
    Store,
    /// The first router is to keep a copy and answer for the sender, which may sleep then.
    Delegate,
    /// What cannot be delivered now is dropped.
    Forbid,
}

/// To how many of those who are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// To all; those who miss something say so to the sender.
    All,
    /// To all; those who miss something say so to routers on the way, which answer from copies and ask at most this
    /// many of each other before they give up, 1 to 255.
    AllByProxies(u8),
    /// To the nearest one.
    Nearest,
}

/// How something is sent. `None` leaves a choice to the node's settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SendOptions {
    /// Bytes of the object in a chunk.
    pub chunk_bytes: Option<u32>,
    /// How sure it has to be.
    pub delivery: Option<Delivery>,
    /// What the network may keep.
    pub in_network: Option<InNetwork>,
    /// Larger is more important where storage is short.
    pub priority: u8,
    /// How long it is worth keeping.
    pub lifetime: Option<Duration>,
    /// To whom of those who are attached to the name.
    pub spread: Spread,
}
impl Default for SendOptions {
    fn default() -> Self {
        SendOptions {
            chunk_bytes: None,
            delivery: None,
            in_network: None,
            priority: 0,
            lifetime: None,
            spread: Spread::All,
        }
    }
}

/// How something is fetched. `None` leaves a choice to the node's settings.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GetOptions {
    /// Bytes of the object in a chunk that is asked for; whoever has it may cut it into smaller ones.
    pub chunk_bytes: Option<u32>,
    /// How sure it has to be.
    pub delivery: Option<Delivery>,
    /// How long nothing may come before it is said what is missing.
    pub nack_timeout: Option<Duration>,
    /// What the network may keep of what is sent here.
    pub in_network: Option<InNetwork>,
}

/// How something is taken.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AcceptOptions {
    /// How long nothing may come of an object before it is said what is missing; `None` leaves it to the node's settings.
    pub nack_timeout: Option<Duration>,
}

/// Where something sent stands.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SendReport {
    /// Bytes of the object.
    pub bytes: u64,
    /// Chunks that it is cut into, and how many of these have left this node at least once.
    pub chunks: u32,
    /// See there.
    pub sent_chunks: u32,
    /// Chunks sent again.
    pub repeated_chunks: u64,
    /// Chunks that storage on the way has promised to keep; of a group, for each of its members.
    pub stored_chunks: u32,
    /// Their numbers; of a group, of those that are kept for any.
    pub stored: ChunkRuns,
    /// Who keeps how many of them.
    pub custodians: Vec<(String, u64)>,
    /// How long storage on the way keeps them at most, if that is less than what was asked for.
    pub kept_for: Option<Duration>,
    /// How often a chunk was dropped on the way, as far as that was told. Each goes again unless nobody cares.
    pub dropped_chunks: u64,
    /// How sure it has to be, as was chosen for it or by the node's settings.
    pub delivery: Delivery,
    /// What the network may keep of it, chosen likewise.
    pub in_network: InNetwork,
    /// To how many it goes, as far as known.
    pub destinations: u32,
    /// Who has said that everything arrived and is verified.
    pub delivered: Vec<String>,
    /// Who has said that it cannot keep it.
    pub refused: Vec<String>,
    /// Whether nothing of it waits in this node any more.
    pub has_left: bool,
    /// Whether the sender has nothing more to do.
    pub is_over: bool,
}

/// A set of chunk numbers as ascending runs that neither touch nor overlap: the first number, and how many there are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChunkRuns(Vec<(u32, u32)>);

impl FromIterator<u32> for ChunkRuns {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> ChunkRuns {
        let mut numbers: Vec<u32> = numbers.into_iter().collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for number in numbers {
            match runs.last_mut() {
                Some((first, count)) if first.checked_add(*count) == Some(number) => *count += 1,
                _ => runs.push((number, 1)),
            }
        }
        ChunkRuns(runs)
    }
}
impl ChunkRuns {
    /// The runs.
    pub fn runs(&self) -> &[(u32, u32)] {
        &self.0
    }
    /// How many numbers there are.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| u64::from(*count)).sum()
    }
}

/// What a node stores.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct StoreStatus {
    /// Bytes in use.
    pub used: ByteCount,
    /// Bytes allowed; zero if the node does not store for others.
    pub capacity: ByteCount,
    /// What is stored, by transfer and by why it is here.
    pub held: Vec<Held>,
}

/// Chunks of one object that one sender sent once to one destination.
#[derive(Clone, PartialEq, Debug)]
pub struct Held {
    /// Who sent it.
    pub source: String,
    /// For whom it is.
    pub destination: String,
    /// The object.
    pub object: String,
    /// Chunks that are here.
    pub chunks: ChunkRuns,
    /// Their bytes.
    pub bytes: ByteCount,
    /// Their priority.
    pub priority: u8,
    /// How long the oldest has been here.
    pub age: Duration,
    /// How long the one that goes first is kept still.
    pub left: Duration,
    /// Why they are here.
    pub reason: &'static str,
    /// Who is to keep them until they are on a disk further on: the router that is asked.
    pub custodian: String,
    /// How many wait here, leave, or are tried again later as there was no room further on.
    pub waiting: u64,
    /// See there.
    pub resting: u64,
    /// How many were taken on by a neighbour that has not said yet that they are on a disk.
    pub in_transit: u64,
    /// Those neighbours.
    pub in_transit_to: Vec<String>,
    /// How long the one that is under way longest is.
    pub in_transit_for: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_numbers_are_told_in_as_few_runs_as_there_are_whatever_their_order() {
        let of = |numbers: &[u32]| numbers.iter().copied().collect::<ChunkRuns>();
        assert_eq!(of(&[]).runs(), []);
        let some = of(&[7, 2, 1, 9, 2, u32::MAX, 3]);
        assert_eq!((some.runs(), some.count()), (&[(1, 3), (7, 1), (9, 1), (u32::MAX, 1)][..], 6));
    }
}
