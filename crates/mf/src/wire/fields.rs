//! The fields that only this family's packets have.
use tributary_core::wire::{Reader, WireError, Writer, codec::Of};

use crate::ids::{Guid, NetworkAddress};

pub(crate) const GUID: Of<Guid> = Of(|reader, field| reader.guid(field), |guid, out| out.put(&guid.0));
pub(crate) const ADDRESS: Of<NetworkAddress> =
    Of(|reader, field| reader.address(field), |address, out| out.put_u32(address.0));

pub(super) trait Fields {
    fn guid(&mut self, field: &'static str) -> Result<Guid, WireError>;
    fn address(&mut self, field: &'static str) -> Result<NetworkAddress, WireError>;
}
impl Fields for Reader<'_> {
    fn guid(&mut self, field: &'static str) -> Result<Guid, WireError> {
        self.array(field).map(Guid)
    }
    fn address(&mut self, field: &'static str) -> Result<NetworkAddress, WireError> {
        self.u32(field).map(NetworkAddress)
    }
}
