//! The path tag: a stack of labels, one for each router on the path. PTP §4 A, figures 4 and 5.
//!
//! ```text
//!            consumer ──── router A ──── router B ──── producer
//!  Data      [a b]  ◄────── [b] ◄──────── [] ◄───────── probing Data: each router puts the label of the face on
//!                                                        which the Data came in front
//!  Interest  [a b] ───────► [b] ────────► [] ──────────► each router takes its own label off and follows it
//! ```
//! The stack is a byte string. A label is meaningful only to the router that wrote it: no other node need know its
//! length or can infer faces from it, because it is a random number of that router (see [`crate::router::labels`]).
use alloc::vec::Vec;

use tributary_core::Rate;

use super::WireError;

/// Bytes that all labels of a tag may have together: 32 routers with labels of 4 bytes.
pub const TAG_BYTES_MAX: usize = 128;

/// A tag in a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PathTag<'a>(&'a [u8]);

impl<'a> PathTag<'a> {
    /// The tag without labels, as a producer appends it.
    pub const EMPTY: PathTag<'static> = PathTag(&[]);

    /// Checks the value of the header.
    ///
    /// # Errors
    /// [`WireError::Length`] if it is longer than [`TAG_BYTES_MAX`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        match bytes.len() {
            0..=TAG_BYTES_MAX => Ok(PathTag(bytes)),
            bytes => Err(WireError::Length("PathTag", bytes)),
        }
    }
    /// The labels, the next router's first.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }
    /// Whether no label is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// The first label, if it has `bytes` bytes, and the rest.
    pub fn pop(&self, bytes: usize) -> Option<(&'a [u8], PathTag<'a>)> {
        let (label, rest) = self.0.split_at_checked(bytes)?;
        Some((label, PathTag(rest)))
    }
    /// The tag with one more label in front; `None` if it gets too long.
    pub fn pushed(&self, label: &[u8]) -> Option<Vec<u8>> {
        (label.len() + self.0.len() <= TAG_BYTES_MAX).then(|| [label, self.0].concat())
    }
}

/// Bytes of one rate.
const RATE_BYTES: usize = 2;
/// Bits of its mantissa; the rest are its exponent.
const MANTISSA_BITS: u32 = 11;

/// The rates of the links of a tag of labels, the link behind the first label first. Each router writes the rate of the
/// Data's departure face, before the next one prepends that link's label to the tag; so without omissions there are as
/// many rates as labels. A rate is 2 bytes, most significant first: 5 bits of exponent and 11 of mantissa, mantissa ×
/// 2^exponent kbit/s, rounded down (to 0.1 % from 1 Mbit/s on); 0 if the router does not know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathRates<'a>(&'a [[u8; RATE_BYTES]]);

impl<'a> PathRates<'a> {
    /// Checks the value of the header.
    ///
    /// # Errors
    /// [`WireError::Length`] if it is not an integer of rates, or more than a tag has labels.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        match bytes.as_chunks() {
            (rates, []) if bytes.len() <= TAG_BYTES_MAX => Ok(PathRates(rates)),
            _ => Err(WireError::Length("PathRates", bytes.len())),
        }
    }
    /// The value of the header.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0.as_flattened()
    }
    /// The rates, the link behind the first label first; `None` for an unknown one.
    pub fn rates(&self) -> impl Iterator<Item = Option<Rate>> + 'a {
        let rate = |bytes: &[u8; RATE_BYTES]| {
            let (exponent, mantissa) = (bytes[0] >> 3, u16::from_be_bytes(*bytes) & ((1 << MANTISSA_BITS) - 1));
            let kbps = u64::from(mantissa) << exponent;
            (kbps > 0).then(|| Rate::from_bits_per_second(kbps * 1_000))
        };
        self.0.iter().map(rate)
    }
    /// The value with one more in front; `None` if it gets too long.
    pub fn pushed(&self, rate: Option<Rate>) -> Option<Vec<u8>> {
        let kbps = rate.map_or(0, |rate| rate.bits_per_second() / 1_000);
        let exponent = (u64::BITS - kbps.leading_zeros()).saturating_sub(MANTISSA_BITS);
        let bits = match (u16::try_from(exponent), u16::try_from(kbps >> exponent)) {
            (Ok(exponent), Ok(mantissa)) if exponent < 1 << (16 - MANTISSA_BITS) => {
                exponent << MANTISSA_BITS | mantissa
            }
            _ => u16::MAX,
        };
        (RATE_BYTES + self.as_bytes().len() <= TAG_BYTES_MAX).then(|| [&bits.to_be_bytes(), self.as_bytes()].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_come_off_in_the_reverse_order_and_the_stack_has_a_limit() {
        let one = PathTag::EMPTY.pushed(&[1, 1, 1, 1]).unwrap();
        let two = PathTag::parse(&one).unwrap().pushed(&[2, 2]).unwrap();
        let tag = PathTag::parse(&two).unwrap();
        let (label, rest) = tag.pop(2).unwrap();
        assert_eq!((label, rest.as_bytes()), (&[2, 2][..], &[1, 1, 1, 1][..]));
        assert!(rest.pop(5).is_none() && rest.pop(4).unwrap().1.is_empty());
        let full = [7; TAG_BYTES_MAX];
        assert!(PathTag::parse(&full).unwrap().pushed(&[1]).is_none());
        assert!(PathTag::parse(&[7; TAG_BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn a_rate_comes_back_but_for_a_thousandth() {
        let mut value = Vec::new();
        let sent = [None, Some(1), Some(2_047), Some(200_001), Some(1 << 41), Some(u64::MAX / 1_000)];
        for kbps in sent {
            let rate = kbps.map(|kbps| Rate::from_bits_per_second(kbps * 1_000));
            value = PathRates::parse(&value).unwrap().pushed(rate).unwrap();
        }
        let kbps = |rate: Rate| rate.bits_per_second() / 1_000;
        let read: Vec<Option<u64>> = PathRates::parse(&value).unwrap().rates().map(|rate| rate.map(kbps)).collect();
        let most = 2_047 << 31;
        assert_eq!(read, [Some(most), Some(1 << 41), Some(199_936), Some(2_047), Some(1), None]);
        assert_eq!(PathRates::parse(&[0; 3]), Err(WireError::Length("PathRates", 3)));
        assert_eq!(PathRates::parse(&[7; TAG_BYTES_MAX]).unwrap().pushed(None), None);
        assert!(PathRates::parse(&[7; TAG_BYTES_MAX + 2]).is_err());
    }
}
