//! Newtypes for everything that is numbered.
use core::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub $inner);
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id!(
    /// One attachment of a node: a link end in the simulator, a socket and a peer in the real driver.
    /// Valid within its node only.
    FaceId(u32),
    "face-"
);
id!(
    /// One fetch of one object by one receiver; unique within its node.
    TransferId(u32),
    "transfer-"
);
id!(
    /// One path of one transfer: a pair of routes, one for requests and one for data; unique within its transfer.
    PathId(u16),
    "path-"
);
id!(
    /// One source of one transfer; unique within its transfer.
    SourceId(u16),
    "source-"
);
id!(
    /// One echo request of a node; unique within it.
    EchoId(u64),
    "echo-"
);
id!(
    /// Why a node wants to wake up. Each node names its own; a driver only shows the number in traces.
    TimerId(u16),
    "timer-"
);

/// Ed25519 public key that identifies a neighbour, independent of its address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerKey(pub [u8; 32]);

impl fmt::Display for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ed25519:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
impl fmt::Debug for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeerKey({self})")
    }
}

/// A node of the network, unique within its domain. Zero means "no node".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeId(pub u64);

impl NodeId {
    /// No node.
    pub const NONE: NodeId = NodeId(0);
}
impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeId({:x})", self.0)
    }
}

/// Gives a newtype of eight bits, of which `known` have a meaning, the operations of a set.
#[macro_export]
macro_rules! bit_set {
    ($type:ident, $known:expr) => {
        impl $type {
            /// The set with these bits; `None` if one of them has no meaning.
            pub fn from_bits(bits: u8) -> Option<$type> {
                (bits & !$known == 0).then_some($type(bits))
            }
            /// Its bits in encodings.
            pub fn bits(self) -> u8 {
                self.0
            }
            /// Whether all of `others` are in this set.
            pub fn contains(self, others: $type) -> bool {
                self.0 & others.0 == others.0
            }
            /// This set without `others`.
            pub fn without(self, others: $type) -> $type {
                $type(self.0 & !others.0)
            }
        }
        impl core::ops::BitOr for $type {
            type Output = $type;
            fn bitor(self, others: $type) -> $type {
                $type(self.0 | others.0)
            }
        }
    };
}
