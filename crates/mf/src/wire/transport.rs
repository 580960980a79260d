//! The messages between the ends of a transfer and the proxies between them (paper §3.2.2, §3.3, §3.4.2).
use alloc::vec::Vec;

use tributary_content::{ObjectId, Unavailable};
use tributary_core::{
    wire::{
        Codec, Wire,
        codec::{Choice, List8, Of, Own, U16, U32},
    },
    wire_table,
};

use super::{
    Reader, WireError, Writer,
    chunk::{CHUNK_BYTES_MAX, Reliability},
    fields::{ADDRESS, GUID},
};
use crate::ids::{Flow, Guid, NetworkAddress};

/// Maximum ranges of consecutive chunks in one message.
pub const RANGES_MAX: usize = 120;

/// Maximum members in one message.
pub const MEMBERS_LISTED_MAX: usize = 64;

/// A set of chunk numbers as ascending ranges that neither touch nor overlap.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChunkRanges(Vec<(u32, u32)>);

impl ChunkRanges {
    /// The numbers, which must ascend; those beyond [`RANGES_MAX`] ranges are omitted.
    pub fn from_ascending(numbers: impl IntoIterator<Item = u32>) -> ChunkRanges {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for number in numbers {
            let full = runs.len() == RANGES_MAX;
            match runs.last_mut() {
                Some((first, count)) if first.checked_add(*count) == Some(number) => *count += 1,
                _ if full => break,
                _ => runs.push((number, 1)),
            }
        }
        ChunkRanges(runs)
    }
    /// All numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().flat_map(|(first, count)| *first..first + count)
    }
    /// The ranges: first number and count.
    pub fn runs(&self) -> &[(u32, u32)] {
        &self.0
    }
    /// Whether there are no runs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Whether the number is in it.
    pub fn contains(&self, number: u32) -> bool {
        self.0.iter().any(|(first, count)| (*first..first + count).contains(&number))
    }
    /// The same without some numbers, which must ascend; at most [`RANGES_MAX`] ranges. The cost follows the number of
    /// ranges and numbers, not the ranges' lengths: peers choose those.
    pub fn without(&self, numbers: impl IntoIterator<Item = u32>) -> ChunkRanges {
        let mut numbers = numbers.into_iter().peekable();
        let mut left = Vec::new();
        for (first, count) in &self.0 {
            let (mut first, end) = (*first, first + count);
            while let Some(number) = numbers.next_if(|number| *number < end) {
                if number > first {
                    left.push((first, number - first));
                }
                first = first.max(number + 1);
            }
            if first < end {
                left.push((first, end - first));
            }
        }
        left.truncate(RANGES_MAX);
        ChunkRanges(left)
    }
    /// The same part of an object that is cut into `count` chunks of `to_bytes`: the chunks completely inside it. Chunk
    /// 0 is the manifest in every cut.
    pub fn recut(&self, from_bytes: u32, (to_bytes, count): (u32, u32)) -> ChunkRanges {
        if from_bytes == to_bytes {
            return self.clone();
        }
        let (from, to) = (u64::from(from_bytes.max(1)), u64::from(to_bytes.max(1)));
        let all = u64::from(count.max(1) - 1) * to;
        let head = self.contains(0).then_some((0, 1));
        let runs = self.0.iter().filter_map(|(first, count)| {
            let chunks = u64::from((*first).max(1)) - 1..(u64::from(*first) + u64::from(*count)).max(1) - 1;
            let first = u32::try_from((chunks.start * from).div_ceil(to) + 1).ok()?;
            let until = u32::try_from((chunks.end * from).min(all) / to + 1).ok()?;
            (first < until).then(|| (first, until - first))
        });
        let mut joined: Vec<(u32, u32)> = Vec::new();
        for (first, count) in head.into_iter().chain(runs) {
            match joined.last_mut() {
                Some((before, len)) if *before + *len == first => *len += count,
                _ => joined.push((first, count)),
            }
        }
        ChunkRanges(joined)
    }
    fn decode(reader: &mut Reader<'_>) -> Result<ChunkRanges, WireError> {
        let runs = reader.list("chunk ranges", RANGES_MAX, |reader| {
            let (first, count) = (reader.u32("first chunk")?, reader.u32("chunk count")?);
            match first.checked_add(count) {
                Some(_) if count > 0 => Ok((first, count)),
                _ => Err(WireError::Value { field: "chunk count", found: u64::from(count) }),
            }
        })?;
        match runs.windows(2).find(|pair| pair[0].0 + pair[0].1 >= pair[1].0) {
            Some(pair) => Err(WireError::Value { field: "first chunk", found: u64::from(pair[1].0) }),
            None => Ok(ChunkRanges(runs)),
        }
    }
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_count8(self.0.len());
        for (first, count) in &self.0 {
            out.put_u32(*first);
            out.put_u32(*count);
        }
    }
}

/// A message of the transport: `kind 1 | transfer 4 | object id 16 | the fields of its kind`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransportMessage {
    /// The transfer that it is about, as its receiver or, of a push, its sender numbers it.
    pub transfer: u32,
    /// The object that it is about.
    pub object: ObjectId,
    /// What it says.
    pub body: TransportBody,
}

impl Wire for TransportMessage {
    fn read(reader: &mut Reader<'_>) -> Result<TransportMessage, WireError> {
        let kind = reader.u8("message kind")?;
        let (transfer, object) = (reader.u32("transfer")?, OBJECT.read(reader, "object id")?);
        Ok(TransportBody::read_fields(kind, reader)?.about(transfer, object))
    }
    fn encode(&self, out: &mut Vec<u8>) {
        let at = out.len();
        out.put_u8(0);
        out.put_u32(self.transfer);
        OBJECT.write(&self.object, out);
        out[at] = self.body.write_fields(out);
    }
}

impl TransportBody {
    /// The message that says this about a transfer and its object.
    pub fn about(self, transfer: u32, object: ObjectId) -> TransportMessage {
        TransportMessage { transfer, object, body: self }
    }
}

wire_table! {
    /// What a message of the transport says.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum TransportBody("message kind") {
        /// A receiver requests an object (paper: get). Service
        /// [`ContentRequest`](crate::ids::ServiceId::ContentRequest).
        1 => Request {
            /// The chunk size that it proposes; the sender may take a smaller one.
            chunk_bytes: u32 = CHUNK_BYTES => "chunk bytes",
            /// The reports that the receiver will send.
            reliability: Reliability = RELIABILITY => "reliability",
            /// Chunks that fit into its buffer: the first sending window.
            buffer_chunks: u16 = U16 => "buffer",
            /// The chunks that it already has, in a repeated request.
            held: ChunkRanges = CHUNKS => "chunk ranges",
        },
        /// The one message per window (paper §3.4.2): flow control and missing chunks. Without missing chunks it
        /// acknowledges the window.
        2 => Status {
            /// The window it answers.
            window: u16 = U16 => "window",
            /// The sending window that the receiver advises, in chunks; 0 stops the sender.
            advice_chunks: u16 = U16 => "advice",
            /// Increases, so that an old message does not count as new.
            sequence: u32 = U32 => "sequence",
            /// The chunks that are missing (NACK).
            missing: ChunkRanges = CHUNKS => "chunk ranges",
        },
        /// Chunks that have arrived and are verified (reliability [`Reliability::Ack`]), or, with `complete`, the end.
        3 => Ack {
            /// Whether everything has arrived.
            complete: bool = Choice(&[false, true]) => "complete",
            /// The chunks that have arrived.
            chunks: ChunkRanges = CHUNKS => "chunk ranges",
        },
        /// A proxy has stored chunks, durably, and is responsible for them from now on.
        4 => Stored {
            /// Their source and destination.
            flow: Flow = Own => "flow",
            /// The proxy.
            proxy: Guid = GUID => "proxy",
            /// Where it is.
            address: NetworkAddress = ADDRESS => "proxy address",
            /// Which chunks.
            chunks: ChunkRanges = CHUNKS => "chunk ranges",
        },
        /// A proxy or router has dropped chunks.
        5 => Dropped {
            /// Their source and destination.
            flow: Flow = Own => "flow",
            /// The proxy.
            proxy: Guid = GUID => "proxy",
            /// Which chunks.
            chunks: ChunkRanges = CHUNKS => "chunk ranges",
        },
        /// The source asks a proxy to send stored chunks now.
        6 => Push {
            /// Their source and destination.
            flow: Flow = Own => "flow",
            /// Which chunks.
            chunks: ChunkRanges = CHUNKS => "chunk ranges",
        },
        /// The sender cannot serve a request, or, on its behalf, a router cannot forward it there; or a receiver cannot
        /// keep an unsolicited object.
        7 => Unavailable,
        /// A sender cannot read an object that it publishes, and gives the reason. The receiver requests it elsewhere.
        10 => Unreadable {
            /// Why.
            why: Unavailable = WHY => "reason",
        },
        /// A proxy reports the members of a group that have everything verified (paper §3.5: aggregated).
        8 => Completed {
            /// At most [`MEMBERS_LISTED_MAX`].
            members: Vec<Guid> = List8(MEMBERS_LISTED_MAX, "member", GUID) => "members",
        },
        /// The next custodian, the receiver, or a router that lost them reports the state of chunks to their custodian.
        9 => Custody {
            /// Source and destination of the chunks.
            flow: Flow = Own => "flow",
            /// Their state.
            state: CustodyState = CUSTODY => "custody",
            /// Which chunks; empty for the whole transfer.
            chunks: ChunkRanges = CHUNKS => "chunk ranges",
        },
        /// A proxy tells the source that it keeps chunks for less than their requested lifetime.
        11 => KeptFor {
            /// Source and destination of the chunks.
            flow: Flow = Own => "flow",
            /// Lifetime from now on in milliseconds.
            lifetime_ms: u32 = U32 => "lifetime",
        },
    }
}

/// The state of chunks, reported to their custodian.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum CustodyState {
    /// The node is full for now: the custodian keeps the chunks until a notice of free space, or for a while.
    Refused = 0,
    /// The answering node has them on disk: it is their custodian now, or their receiver. The previous custodian may
    /// drop them.
    Taken = 1,
    /// The transfer is not wanted anymore: all its chunks may be dropped.
    Over = 2,
    /// They were dropped on the way: the custodian sends them again.
    Lost = 3,
    /// There is space again where chunks were refused.
    Ready = 4,
}

pub(crate) const OBJECT: Of<ObjectId> =
    Of(|reader, field| reader.array(field).map(ObjectId), |object, out| out.put(&object.0));
const CHUNKS: Of<ChunkRanges> = Of(|reader, _| ChunkRanges::decode(reader), ChunkRanges::encode);
pub(super) const CHUNK_BYTES: Of<u32> = Of(
    |reader, field| match reader.u32(field)? {
        bytes if bytes > 0 && bytes <= CHUNK_BYTES_MAX => Ok(bytes),
        found => Err(WireError::Value { field, found: found.into() }),
    },
    |bytes, out| out.put_u32(*bytes),
);
pub(super) const RELIABILITY: Of<Reliability> =
    Of(|reader, field| reader.choice(field, Reliability::from_byte), |value, out| out.put_u8(*value as u8));
const CUSTODY: Choice<CustodyState> = {
    use CustodyState::{Lost, Over, Ready, Refused, Taken};
    Choice(&[Refused, Taken, Over, Lost, Ready])
};
const WHY: Of<Unavailable> = Of(
    |reader, field| reader.choice(field, |byte| Unavailable::from_number(byte).filter(|why| why.number() == byte)),
    |why, out| out.put_u8(why.number()),
);
