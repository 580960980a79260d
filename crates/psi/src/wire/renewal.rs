//! Renewal of all publications of a host at once.
use alloc::vec::Vec;

use tributary_core::{Duration, NodeId, wire::codec::U32, wire_table};
pub use tributary_directory::holdings::Holding;
use tributary_directory::holdings::{self, Ascending};

use super::rendezvous::{LEASE, NODE};
use crate::ids::RecordKey;

/// Buckets distribute records over rendezvous nodes, so that few numbers describe a host's publications at each of
/// them. This many distribute the records evenly to within a few per cent.
pub const BUCKETS: u16 = 2_048;
/// The longest lease of a host.
pub const RENEWAL_LEASE_MAX: Duration = Duration::from_secs(3_600);

/// The bucket of a record: the first 11 bits of its key.
pub fn bucket_of(key: RecordKey) -> u16 {
    u16::from_be_bytes([key.0[0], key.0[1]]) >> 5
}

/// What one publication adds to the sum of its bucket: a hash of its record and its version.
pub fn mark(key: RecordKey, version: u64) -> u64 {
    holdings::mark(&[&key.0, &version.to_be_bytes()])
}

wire_table! {
    /// A host still publishes everything that it has published: one lease per host and bucket, not one per item.
    /// Rendezvous nodes also forward parts of it to the holders of the records.
    ///
    /// ```text
    /// request 4 | host 8 | lease in ms 4 | buckets 2 | of each, in ascending order: bucket 2, items 4, sum 8
    /// ```
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Renewal {
        /// Chosen by the asker, returned in the answer.
        pub request: u32 = U32 => "request",
        /// The host.
        pub client: NodeId = NODE => "host",
        /// Lifetime of everything without another renewal.
        pub lease: Duration = LEASE => "lease",
        /// Its entries per bucket.
        pub holdings: Vec<Holding> = Ascending(BUCKETS) => "buckets",
    }
}

wire_table! {
    /// The answer to a [`Renewal`]: the buckets to publish again, because a node holds other entries.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Renewed {
        /// The renewal's number.
        pub request: u32 = U32 => "request",
        /// The buckets, in ascending order.
        pub missing: Vec<u16> = Ascending(BUCKETS) => "buckets",
    }
}
