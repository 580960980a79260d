//! Fields of packets: a cursor over untrusted bytes, its counterpart for writing, and what can be wrong with them. All
//! numbers are big-endian. For the families whose formats are ours; NDN's has its own, in type-length-value blocks.
#![expect(clippy::missing_errors_doc, reason = "every read fails as `Reader` says")]
pub mod codec;

use alloc::{string::String, vec::Vec};

pub use codec::{Codec, Wire};

/// Why bytes are not a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The packet ends too early.
    #[error("packet ends inside {field}: needs {needs} bytes, has {has}")]
    Short {
        /// Which field.
        field: &'static str,
        /// Bytes that it needs.
        needs: usize,
        /// Bytes available.
        has: usize,
    },
    /// Bytes follow the end of the packet.
    #[error("{extra} bytes after the end of the packet")]
    Trailing {
        /// How many.
        extra: usize,
    },
    /// A field has a value that is not legal.
    #[error("{field} cannot be {found}")]
    Value {
        /// Which field.
        field: &'static str,
        /// Its value.
        found: u64,
    },
    /// Another version of the format.
    #[error("wire format version {found}, this program speaks {known}")]
    Version {
        /// The packet's.
        found: u8,
        /// Ours.
        known: u8,
    },
    /// A signature or an authentication code that does not hold.
    #[error("{field} is not authentic")]
    Forged {
        /// The value found.
        field: &'static str,
    },
}

impl WireError {
    /// A fixed phrase per kind of error, for counters.
    pub fn reason(self) -> &'static str {
        match self {
            WireError::Short { .. } => "malformed: too short",
            WireError::Trailing { .. } => "malformed: trailing bytes",
            WireError::Value { .. } => "malformed: illegal value",
            WireError::Version { .. } => "other wire version",
            WireError::Forged { .. } => "forged",
        }
    }
}

/// Reads fields one after the other. Every read is checked: [`WireError::Short`] if bytes are missing, and
/// [`WireError::Value`] for an illegal value.
#[derive(Clone, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// A cursor at the start of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes)
    }
    /// Takes `count` bytes.
    #[inline]
    pub fn bytes(&mut self, field: &'static str, count: usize) -> Result<&'a [u8], WireError> {
        let short = WireError::Short { field, needs: count, has: self.0.len() };
        let (taken, rest) = self.0.split_at_checked(count).ok_or(short)?;
        self.0 = rest;
        Ok(taken)
    }
    /// Takes exactly `N` bytes as an array.
    #[inline]
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], WireError> {
        let short = WireError::Short { field, needs: N, has: self.0.len() };
        let (taken, rest) = self.0.split_first_chunk().ok_or(short)?;
        self.0 = rest;
        Ok(*taken)
    }
    /// One byte.
    #[inline]
    pub fn u8(&mut self, field: &'static str) -> Result<u8, WireError> {
        self.array::<1>(field).map(|[byte]| byte)
    }
    /// Two bytes.
    #[inline]
    pub fn u16(&mut self, field: &'static str) -> Result<u16, WireError> {
        self.array(field).map(u16::from_be_bytes)
    }
    /// Four bytes.
    #[inline]
    pub fn u32(&mut self, field: &'static str) -> Result<u32, WireError> {
        self.array(field).map(u32::from_be_bytes)
    }
    /// Eight bytes.
    #[inline]
    pub fn u64(&mut self, field: &'static str) -> Result<u64, WireError> {
        self.array(field).map(u64::from_be_bytes)
    }
    /// A byte string behind a 2-byte length of at most `max`.
    pub fn blob(&mut self, field: &'static str, max: usize) -> Result<&'a [u8], WireError> {
        let len = self.u16(field)?;
        if usize::from(len) > max {
            return Err(WireError::Value { field, found: u64::from(len) });
        }
        self.bytes(field, usize::from(len))
    }
    /// UTF-8 text behind a 2-byte length of at most `max`.
    pub fn text(&mut self, field: &'static str, max: usize) -> Result<String, WireError> {
        let bytes = self.blob(field, max)?;
        let text = core::str::from_utf8(bytes)
            .map_err(|error| WireError::Value { field, found: u64::from(bytes[error.valid_up_to()]) })?;
        Ok(text.into())
    }
    /// A byte with a meaning that `legal` looks up.
    pub fn choice<T>(&mut self, field: &'static str, legal: impl Fn(u8) -> Option<T>) -> Result<T, WireError> {
        let found = self.u8(field)?;
        legal(found).ok_or(WireError::Value { field, found: u64::from(found) })
    }
    /// A 1-byte count of at most `max`, and that many items.
    pub fn list<T>(
        &mut self,
        field: &'static str,
        max: usize,
        item: impl Fn(&mut Self) -> Result<T, WireError>,
    ) -> Result<Vec<T>, WireError> {
        let count = self.u8(field)?;
        if usize::from(count) > max {
            return Err(WireError::Value { field, found: u64::from(count) });
        }
        (0..count).map(|_| item(self)).collect()
    }
    /// The unread bytes, which stay unread.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }
    /// Fails with [`WireError::Trailing`] if anything is left.
    #[inline]
    pub fn end(&self) -> Result<(), WireError> {
        if self.0.is_empty() { Ok(()) } else { Err(WireError::Trailing { extra: self.0.len() }) }
    }
}

/// Appends fields one after the other.
pub trait Writer {
    /// Bytes as they are.
    fn put(&mut self, bytes: &[u8]);
    /// One byte.
    fn put_u8(&mut self, value: u8) {
        self.put(&[value]);
    }
    /// Two bytes.
    fn put_u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }
    /// A count in one byte, at most 255. The encoder respects the reader's limit: a truncated count would describe
    /// another packet.
    fn put_count8(&mut self, count: usize) {
        debug_assert!(count <= usize::from(u8::MAX), "a count of {count} in one byte");
        self.put_u8(u8::try_from(count).unwrap_or(u8::MAX));
    }
    /// A count in two bytes, at most 65,535; otherwise the same.
    fn put_count16(&mut self, count: usize) {
        debug_assert!(count <= usize::from(u16::MAX), "a count of {count} in two bytes");
        self.put_u16(u16::try_from(count).unwrap_or(u16::MAX));
    }
    /// Four bytes.
    fn put_u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }
    /// Eight bytes.
    fn put_u64(&mut self, value: u64) {
        self.put(&value.to_be_bytes());
    }
    /// A byte string behind a 2-byte length. Callers respect the reader's limit; bytes beyond 65,535 are cut.
    fn put_blob(&mut self, bytes: &[u8]) {
        let len = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        self.put_u16(len);
        self.put(&bytes[..usize::from(len)]);
    }
}
impl Writer for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_and_what_is_cut_or_too_long_is_told() {
        let mut out = Vec::new();
        out.put_u8(1);
        out.put_u16(2);
        out.put_u32(3);
        out.put_u64(4);
        out.put_blob(b"name");
        out.put(&[2, 7, 8]);
        let read = |bytes: &[u8]| {
            let mut reader = Reader::new(bytes);
            let numbers = (reader.u8("a")?, reader.u16("b")?, reader.u32("c")?, reader.u64("d")?);
            let text = reader.text("name", 4)?;
            let list = reader.list("list", 2, |reader| reader.choice("item", |item| (item > 6).then_some(item)))?;
            reader.end()?;
            Ok((numbers, text, list))
        };
        assert_eq!(read(&out), Ok(((1, 2, 3, 4), "name".into(), [7, 8].into())));
        for len in 0..out.len() {
            assert!(matches!(read(&out[..len]), Err(WireError::Short { .. })), "{len} bytes");
        }
        assert_eq!(read(&[&out[..], &[0]].concat()), Err(WireError::Trailing { extra: 1 }));
        let changed = |at: usize, to: u8| {
            let mut bytes = out.clone();
            bytes[at] = to;
            read(&bytes)
        };
        assert_eq!(changed(16, 5), Err(WireError::Value { field: "name", found: 5 }));
        assert_eq!(changed(18, 0xff), Err(WireError::Value { field: "name", found: 0xff }));
        assert_eq!(changed(21, 3), Err(WireError::Value { field: "list", found: 3 }));
        assert_eq!(changed(23, 6), Err(WireError::Value { field: "item", found: 6 }));
        let mut out = Vec::new();
        out.put_blob(&[1; 70_000]);
        assert_eq!(Reader::new(&out).blob("blob", 65_535).map(<[u8]>::len), Ok(65_535));
    }
}
