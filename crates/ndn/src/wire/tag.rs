//! The path tag: a stack of labels, one for each router on the path. PTP §4 A, figures 4 and 5.
//!
//! ```text
//!            consumer ──── router A ──── router B ──── producer
//!  Data      [a b]  ◄────── [b] ◄──────── [] ◄───────── probing Data: each router puts the label of the face on
//!                                                        which the Data came in front
//!  Interest  [a b] ───────► [b] ────────► [] ──────────► each router takes its own label off and follows it
//! ```
//! The stack is a byte string. A label is what one router wrote: nobody else need know its length, and nobody can tell
//! from it which faces there are, because it is a random number of this router (see [`crate::router::labels`]).
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
            bytes => Err(WireError::Length { field: "PathTag", bytes }),
        }
    }
    /// The labels, the next router's first.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }
    /// Whether there is no label left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// The first label, if it has `bytes` bytes, and the rest.
    pub fn pop(&self, bytes: usize) -> Option<(&'a [u8], PathTag<'a>)> {
        let (label, rest) = self.0.split_at_checked(bytes)?;
        Some((label, PathTag(rest)))
    }
    /// The tag with one more label in front; `None` if it gets too long.
    pub fn pushed(&self, label: &[u8]) -> Option<alloc::vec::Vec<u8>> {
        (label.len() + self.0.len() <= TAG_BYTES_MAX).then(|| [label, self.0].concat())
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
}
