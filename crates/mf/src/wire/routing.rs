//! Link state (reference/mobilityfirst, routing): each router's statement about its links and its storage, sent to all
//! others.
use alloc::{string::String, vec::Vec};

use tributary_core::{
    wire::{
        Codec,
        codec::{List8, Of, Own, Text, U32, U64},
    },
    wire_table,
};

use super::{
    LABEL_BYTES_MAX, Roles, WireError, Writer,
    fields::{ADDRESS, GUID, PLACE},
};
use crate::ids::{Guid, NetworkAddress};

/// Links in a router's statement, at most.
pub const ADJACENCIES_MAX: usize = 255;

wire_table! {
    /// One link of a router to another router.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Adjacency {
        /// The router at the far end.
        pub neighbour: NetworkAddress = ADDRESS => "neighbour",
        /// SETT: expected time for one packet, over the last three probes, in microseconds.
        pub short_us: u32 = U32 => "sett",
        /// LETT: the same over the last ten probes.
        pub long_us: u32 = U32 => "lett",
    }
}

wire_table! {
    /// A router's complete statement about itself. Flooded over all links; signed in a network with an authority,
    /// otherwise with a checksum that only detects damage.
    ///
    /// `address 4 | guid 20 | sequence 8 | boot number 8 | roles 1 | storage free in percent 1 | label | links: neighbour 4,
    /// SETT 4, LETT 4`
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    pub struct LinkState {
        /// Whose it is.
        pub router: NetworkAddress = PLACE => "router",
        /// The router's GUID.
        pub guid: Guid = GUID => "guid",
        /// Later ones are newer.
        pub sequence: u64 = U64 => "sequence",
        /// The router's boot number; another one means that it has restarted.
        pub boot: u64 = U64 => "boot",
        /// What the router does.
        pub roles: Roles = ROLES => "roles",
        /// Its free storage in percent; below a threshold upstream routers keep chunks instead of sending them to be
        /// stored there (depleted-storage signal).
        pub storage_free: u8 = PERCENT => "free storage",
        /// Its human-readable name.
        pub label: String = Text(LABEL_BYTES_MAX) => "label",
        /// Its links to other routers, by ascending address.
        pub links: Vec<Adjacency> = LINKS => "links",
    }
}

const ROLES: Of<Roles> =
    Of(|reader, field| reader.choice(field, Roles::from_bits), |roles, out| out.put_u8(roles.bits()));
const PERCENT: Of<u8> =
    Of(|reader, field| reader.choice(field, |byte| (byte <= 100).then_some(byte)), |percent, out| out.put_u8(*percent));
const LIST: List8<Own> = List8(ADJACENCIES_MAX, "link", Own);
const LINKS: Of<Vec<Adjacency>> = Of(
    |reader, field| {
        let links: Vec<Adjacency> = LIST.read(reader, field)?;
        match links.windows(2).find(|pair| pair[0].neighbour >= pair[1].neighbour) {
            Some(pair) => Err(WireError::Value { field: "neighbour", found: u64::from(pair[1].neighbour.0) }),
            None => Ok(links),
        }
    },
    |links, out| LIST.write(links, out),
);
