//! What an engine has to know of records if strangers keep them.

use super::Entry;

/// What the protocol of a resolver says of the records that an engine keeps: each peer asks it before it keeps one.
pub trait Rules: Send + Sync {
    /// The beginning that a key has in common with those that are found together with it. Given the beginning of a key: the
    /// same, if it reaches so far. `None`: such keys are not found together, or there are none.
    fn group<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]>;
    /// Whether a record may be kept and found: whoever its key names has signed what it says, with that version, or it is
    /// of a kind that nobody signs. It comes from strangers, and may be anything.
    fn accepts(&self, entry: &Entry) -> bool;
}
