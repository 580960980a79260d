//! The fields that several packets of this family have: terms, metrics, places, FIDs.
use alloc::vec::Vec;

use tributary_core::{
    FaceId, Location, NodeId,
    wire::{Reader, WireError, Writer, codec::Of},
};

use super::Fid;
use crate::ids::Roles;

/// No real term of a topology manager reaches this: at one succession per minute it takes 4,000 years. Only an attacker
/// that tries to exhaust the terms sends one.
pub const TERM_END: u32 = 1 << 31;
/// The encoding of a missing position.
const NOWHERE: (i32, i32) = (i32::MIN, i32::MIN);
/// Bits of a term that come from the manager's boot number; those above count successions.
const TERM_BOOT_BITS: u32 = 12;

/// The term of a manager with the boot number `boot` that takes over when it knows terms up to `seen`.
///
/// As with the ballots of Paxos (Lamport, *The Part-Time Parliament*, 1998, §2.3), no two managers and no two boots of
/// one have the same term, although they may not know each other: so all messages of managers have one order, and a
/// late one of a former manager never counts as newer.
pub fn term_after(seen: u32, boot: u64) -> u32 {
    let count = (successions(seen) + 1).min(successions(TERM_END - 1));
    let boot_bits = (boot ^ (boot >> 32)) & ((1 << TERM_BOOT_BITS) - 1);
    let boot_bits = u32::try_from(boot_bits).expect("a term has 32 bits");
    count << TERM_BOOT_BITS | boot_bits
}
/// How many managers ruled one after the other up to `term`.
pub fn successions(term: u32) -> u32 {
    term >> TERM_BOOT_BITS
}

/// The fields that several packets of this family have.
pub(crate) trait Fields {
    /// The term of a topology manager, below [`TERM_END`]: beyond it no succession of managers can have led.
    fn term(&mut self) -> Result<u32, WireError>;
    /// A node's position, in two numbers of four bytes: millionths of a degree, both the smallest number without a
    /// position.
    fn location(&mut self) -> Result<Option<Location>, WireError>;
    fn fid(&mut self, field: &'static str) -> Result<Fid, WireError>;
}
impl Fields for Reader<'_> {
    fn term(&mut self) -> Result<u32, WireError> {
        let term = self.u32("term")?;
        if term < TERM_END { Ok(term) } else { Err(WireError::Value { field: "term", found: term.into() }) }
    }
    fn location(&mut self) -> Result<Option<Location>, WireError> {
        let mut degrees = |field| self.u32(field).map(u32::cast_signed);
        let (latitude, longitude) = (degrees("latitude")?, degrees("longitude")?);
        match Location::from_microdegrees(latitude, longitude) {
            None if (latitude, longitude) != NOWHERE => {
                Err(WireError::Value { field: "location", found: latitude.cast_unsigned().into() })
            }
            location => Ok(location),
        }
    }
    fn fid(&mut self, field: &'static str) -> Result<Fid, WireError> {
        let fid = Fid::decode(self.rest())?;
        self.bytes(field, fid.encoded_len())?;
        Ok(fid)
    }
}

/// A node, or [`NodeId::NONE`].
pub(super) const ANY_NODE: Of<NodeId> =
    Of(|reader, field| reader.u64(field).map(NodeId), |node, out| out.put_u64(node.0));
pub(super) const FACE: Of<FaceId> = Of(|reader, field| reader.u32(field).map(FaceId), |face, out| out.put_u32(face.0));
pub(super) const ROLES: Of<Roles> =
    Of(|reader, field| reader.choice(field, Roles::from_bits), |roles, out| out.put_u8(roles.bits()));
pub(super) const TERM: Of<u32> = Of(|reader, _| reader.term(), |term, out| out.put_u32(*term));
pub(super) const FID: Of<Fid> = Of(|reader, field| reader.fid(field), Fid::encode);
pub(super) const LOCATION: Of<Option<Location>> =
    Of(|reader, _| reader.location(), |location, out| put_location(out, *location));

/// Appends a position for [`Fields::location`].
pub(crate) fn put_location(out: &mut Vec<u8>, location: Option<Location>) {
    let (latitude, longitude) = location.map_or(NOWHERE, Location::microdegrees);
    out.put_u32(latitude.cast_unsigned());
    out.put_u32(longitude.cast_unsigned());
}
