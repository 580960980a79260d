//! Numbers and names of this family only.
use core::fmt;

/// Distinguishes duplicates of one Interest from new Interests for the same name: a returning duplicate is looping.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nonce(pub [u8; 4]);

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nonce({:08x})", u32::from_be_bytes(self.0))
    }
}
impl From<u64> for Nonce {
    /// The low bits of a random number.
    fn from(bits: u64) -> Self {
        Nonce((bits as u32).to_be_bytes())
    }
}
