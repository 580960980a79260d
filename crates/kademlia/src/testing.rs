//! Records of unit tests.
use tributary_transport::engine::{Entry, Rules};

/// Takes records whose values begin with `ok`; groups end with the first slash.
pub(crate) struct Plain;

impl Rules for Plain {
    fn group<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        let slash = key.iter().position(|byte| *byte == b'/')?;
        key.get(..=slash)
    }
    fn accepts(&self, entry: &Entry) -> bool {
        entry.value.starts_with(b"ok")
    }
}
