//! What is numbered or named in this family only.
use core::fmt;

/// Tells copies of one Interest from new Interests for the same name: a copy that comes back has gone in a circle.
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
