//! How topology managers announce themselves, and how every node learns a route to and from them.
use alloc::{string::String, vec::Vec};

use tributary_core::{
    NodeId,
    wire::codec::{Bytes, Choice, List8, Text, U8, U32, U64},
    wire_table,
};

use super::{
    FID_BYTES_MAX, Fid, FidKind, LABEL_BYTES_MAX,
    fields::{ANY_NODE, TERM},
};

/// Maximum labels in one route of a beacon: as many as an FID of kind list holds when it shortens them.
pub const BEACON_LABELS_MAX: usize = FID_BYTES_MAX / 2;

/// A link, or the local delivery of a node, in an FID of kind list.
pub type ListLabel = [u8; 4];

/// The salt of lists that hold the first two bytes of each label, where complete labels would be too long. Other lists
/// have 0.
pub const SHORT_LABELS: u8 = 1;

wire_table! {
    /// What a Beacon carries behind the common header (type Beacon, empty FID) and before its authentication code.
    ///
    /// Each forwarding node adds two labels, so that it arrives with the routes in both directions:
    /// ```text
    ///   TM ──(label of TM's face)──► A ──(label of A's face)──► B          `from_manager`, without B's local delivery
    ///   TM ◄──(label of A's face)── A ◄──(label of B's face)── B          `to_manager`, with TM's local delivery
    ///
    /// node 8 | boot 8 | sequence 4 | term 4 | state 1 | priority 1 | capability epoch 4 | label 2+n
    /// | number of labels 1, to manager 4 each | number of labels 1, from manager 4 each
    /// ```
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Beacon {
        /// The topology manager.
        pub node: NodeId = ANY_NODE => "node id",
        /// Boot number; another one after each start.
        pub boot: u64 = U64 => "boot",
        /// Counts its beacons from 1.
        pub sequence: u32 = U32 => "sequence",
        /// Number of the reign, which no other one has; see [`term_after`]. Zero before the first.
        pub term: u32 = TERM => "term",
        /// Whether it rules or waits.
        pub state: ManagerState = Choice(&[ManagerState::Standby, ManagerState::Active]) => "state",
        /// The highest becomes active.
        pub priority: u8 = U8 => "priority",
        /// Epoch of the capability key in use.
        pub capability_epoch: u32 = U32 => "capability epoch",
        /// Its human-readable name, at most 32 bytes.
        pub label: String = Text(LABEL_BYTES_MAX) => "label",
        /// Labels of the route from the receiver of this beacon to the manager, the manager's local delivery included.
        pub to_manager: Vec<ListLabel> =
            List8(BEACON_LABELS_MAX, "route to the manager", Bytes) => "route to the manager",
        /// Labels of the route from the manager to the receiver of this beacon, but for the receiver's local delivery.
        pub from_manager: Vec<ListLabel> =
            List8(BEACON_LABELS_MAX, "route from the manager", Bytes) => "route from the manager",
    }
}

/// Whether a topology manager rules.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ManagerState {
    /// It keeps the same state as the active one and takes over when that falls silent.
    Standby,
    /// It computes paths and hands them out.
    Active,
}

/// The FID of kind list with these labels: shortened to two bytes each if they would not fit otherwise; then a chance
/// of 1 in 65,536 per link and label that a router on the way sends a copy astray is acceptable.
///
/// # Panics
/// If there are more than [`BEACON_LABELS_MAX`].
pub fn list_fid(labels: &[ListLabel]) -> Fid {
    if size_of_val(labels) <= FID_BYTES_MAX {
        return Fid::new(FidKind::List, 0, labels.as_flattened());
    }
    let short: Vec<[u8; 2]> = labels.iter().map(|[first, second, ..]| [*first, *second]).collect();
    Fid::new(FidKind::List, SHORT_LABELS, short.as_flattened())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_routes_have_short_labels() {
        assert_eq!(
            list_fid(&[[0x11, 0x22, 0x33, 0x44], [0x55, 0x66, 0x77, 0x88]]).bytes(),
            0x1122_3344_5566_7788_u64.to_be_bytes()
        );
        let short = list_fid(&[[0x11, 0x22, 0x33, 0x44]; 25]);
        assert_eq!((short.salt(), short.bytes()), (SHORT_LABELS, &[0x11, 0x22].repeat(25)[..]));
    }
}
