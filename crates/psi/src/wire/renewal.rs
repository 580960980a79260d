//! Renewal of all publications of a host at once.
use alloc::vec::Vec;

use tributary_core::{Duration, NodeId};

use super::{
    Reader, WireError, Writer,
    control::node_id,
    rendezvous::{lease, put_lease},
};
use crate::ids::RecordKey;

/// Records are spread over rendezvous nodes by buckets, so that few numbers say what a host publishes at each of them.
/// As many as spread the records to within a few per cent.
pub const BUCKETS: u16 = 2_048;
/// The longest lease of a host.
pub const RENEWAL_LEASE_MAX: Duration = Duration::from_secs(3_600);

/// The bucket of a record: the first 11 bits of its key.
pub fn bucket_of(key: RecordKey) -> u16 {
    u16::from_be_bytes([key.0[0], key.0[1]]) >> 5
}

/// What one publication adds to the sum of its bucket: a hash of its record and its version.
pub fn mark(key: RecordKey, version: u64) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&key.0).update(&version.to_be_bytes());
    u64::from_be_bytes(*hasher.finalize().as_bytes().first_chunk().expect("8 of 32 bytes"))
}

/// What a host publishes in one bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Holding {
    /// The bucket, less than [`BUCKETS`].
    pub bucket: u16,
    /// How many items.
    pub count: u32,
    /// The sum of their [`mark`]s.
    pub sum: u64,
}

impl Holding {
    /// Counts a publication in, given its mark.
    pub fn add(&mut self, mark: u64) {
        self.count = self.count.saturating_add(1);
        self.sum = self.sum.wrapping_add(mark);
    }
    /// The reverse of [`Holding::add`].
    pub fn remove(&mut self, mark: u64) {
        self.count = self.count.saturating_sub(1);
        self.sum = self.sum.wrapping_sub(mark);
    }
}

/// A host still publishes all that it has published: one lease per host and bucket, not one per item. Also what
/// rendezvous nodes pass on of it to those who hold the records.
///
/// ```text
/// request 4 | host 8 | lease in ms 4 | buckets 2 | of each, in ascending order: bucket 2, items 4, sum 8
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Renewal {
    /// Chosen by the asker, returned in the answer.
    pub request: u32,
    /// The host.
    pub client: NodeId,
    /// How long everything stands without another renewal.
    pub lease: Duration,
    /// What there is.
    pub holdings: Vec<Holding>,
}

/// The answer to a [`Renewal`]: what is to be published again, because somebody holds something else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Renewed {
    /// The renewal's number.
    pub request: u32,
    /// The buckets, in ascending order.
    pub missing: Vec<u16>,
}

impl Renewal {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (request, client, lease) = (reader.u32("request")?, node_id(reader, "host")?, lease(reader)?);
        let holding = |reader: &mut Reader<'_>| {
            Ok(Holding { bucket: reader.u16("bucket")?, count: reader.u32("items")?, sum: reader.u64("sum")? })
        };
        let holdings = ascending(reader, holding, |holding| holding.bucket)?;
        Ok(Renewal { request, client, lease, holdings })
    }
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.request);
        out.put_u64(self.client.0);
        put_lease(self.lease, out);
        out.put_u16(self.holdings.len() as u16);
        for Holding { bucket, count, sum } in &self.holdings {
            out.put_u16(*bucket);
            out.put_u32(*count);
            out.put_u64(*sum);
        }
    }
}

impl Renewed {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let request = reader.u32("request")?;
        let missing = ascending(reader, |reader| reader.u16("bucket"), |bucket| *bucket)?;
        Ok(Renewed { request, missing })
    }
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.request);
        out.put_u16(self.missing.len() as u16);
        self.missing.iter().for_each(|bucket| out.put_u16(*bucket));
    }
}

fn ascending<T>(
    reader: &mut Reader<'_>,
    read: impl Fn(&mut Reader<'_>) -> Result<T, WireError>,
    bucket_of: impl Fn(&T) -> u16,
) -> Result<Vec<T>, WireError> {
    let count = reader.u16("buckets")?;
    if count > BUCKETS {
        return Err(WireError::Value { field: "buckets", found: count.into() });
    }
    let mut all: Vec<T> = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        let part = read(reader)?;
        let bucket = bucket_of(&part);
        if bucket >= BUCKETS || all.last().is_some_and(|last| bucket_of(last) >= bucket) {
            return Err(WireError::Value { field: "bucket", found: bucket.into() });
        }
        all.push(part);
    }
    Ok(all)
}
