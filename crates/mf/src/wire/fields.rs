//! The fields that only this family's packets have.
use tributary_core::wire::{Reader, WireError};

use crate::ids::{Guid, NetworkAddress};

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
