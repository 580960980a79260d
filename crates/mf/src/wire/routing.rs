//! Link state (reference/mobilityfirst, routing): what each router tells all others of its links and its storage.
use alloc::{string::String, vec::Vec};

use super::{Fields, LABEL_BYTES_MAX, Reader, Roles, WireError, Writer};
use crate::ids::{Guid, NetworkAddress};

/// Links that a router tells of at most.
pub const ADJACENCIES_MAX: usize = 255;

/// One link of a router to another router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Adjacency {
    /// The router at the far end.
    pub neighbour: NetworkAddress,
    /// SETT: expected time for one packet, over the last three probes, in microseconds.
    pub short_us: u32,
    /// LETT: the same over the last ten probes.
    pub long_us: u32,
}

/// Everything that a router tells of itself. Flooded over all links, signed in a network with an authority, otherwise with a code that finds damage only.
///
/// `address 4 | guid 20 | sequence 8 | boot number 8 | roles 1 | storage free in percent 1 | label | links: neighbour 4, SETT 4, LETT 4`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkState {
    /// Whose it is.
    pub router: NetworkAddress,
    /// The router's GUID.
    pub guid: Guid,
    /// Later ones are newer.
    pub sequence: u64,
    /// The router's boot number; another one means that it has restarted.
    pub boot: u64,
    /// What the router does.
    pub roles: Roles,
    /// How much of its storage is free, in percent; below a threshold upstream routers keep chunks themselves rather
    /// than send them to be stored there (depleted-storage signal).
    pub storage_free: u8,
    /// Its human-readable name.
    pub label: String,
    /// Its links to other routers, by ascending address.
    pub links: Vec<Adjacency>,
}

impl LinkState {
    /// Reads a whole message that was [unsealed](super::unseal).
    ///
    /// # Errors
    /// [`WireError`] names the field and its error.
    pub fn decode(bytes: &[u8]) -> Result<LinkState, WireError> {
        let mut reader = Reader::new(bytes);
        let state = LinkState {
            router: reader.address("router")?,
            guid: reader.guid("guid")?,
            sequence: reader.u64("sequence")?,
            boot: reader.u64("boot")?,
            roles: reader.choice("roles", Roles::from_bits)?,
            storage_free: reader.choice("free storage", |byte| (byte <= 100).then_some(byte))?,
            label: reader.text("label", LABEL_BYTES_MAX)?,
            links: reader.list("links", ADJACENCIES_MAX, |reader| {
                Ok(Adjacency {
                    neighbour: reader.address("neighbour")?,
                    short_us: reader.u32("sett")?,
                    long_us: reader.u32("lett")?,
                })
            })?,
        };
        reader.end()?;
        if state.router.is_none() {
            return Err(WireError::Value { field: "router", found: 0 });
        }
        match state.links.windows(2).find(|pair| pair[0].neighbour >= pair[1].neighbour) {
            Some(pair) => Err(WireError::Value { field: "neighbour", found: u64::from(pair[1].neighbour.0) }),
            None => Ok(state),
        }
    }
    /// Appends the message, not sealed, to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.router.0);
        out.put(&self.guid.0);
        out.put_u64(self.sequence);
        out.put_u64(self.boot);
        out.put(&[self.roles.bits(), self.storage_free]);
        out.put_blob(self.label.as_bytes());
        out.put_count8(self.links.len());
        for link in &self.links {
            out.put_u32(link.neighbour.0);
            out.put_u32(link.short_us);
            out.put_u32(link.long_us);
        }
    }
}
