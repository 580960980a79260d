//! The fields that only this family's packets have.
use tributary_core::{
    Duration,
    wire::{WireError, Writer, codec::Of},
};

use crate::ids::{Guid, NetworkAddress};

pub(crate) const GUID: Of<Guid> = Of(|reader, field| reader.array(field).map(Guid), |guid, out| out.put(&guid.0));
pub(crate) const ADDRESS: Of<NetworkAddress> =
    Of(|reader, field| reader.u32(field).map(NetworkAddress), |address, out| out.put_u32(address.0));
/// An address that is not [`NetworkAddress::NONE`].
pub(super) const PLACE: Of<NetworkAddress> = Of(
    |reader, field| match reader.u32(field)? {
        0 => Err(WireError::Value { field, found: 0 }),
        address => Ok(NetworkAddress(address)),
    },
    |address, out| out.put_u32(address.0),
);
/// Milliseconds in eight bytes.
pub(crate) const MILLIS: Of<Duration> = Of(
    |reader, field| reader.u64(field).map(Duration::from_millis),
    |time, out| out.put_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
);
