//! Cursor over untrusted bytes, and its counterpart for writing. All numbers are big-endian.
use alloc::{string::String, vec::Vec};

use super::WireError;
use crate::ids::{Guid, NetworkAddress};

/// Reads fields one after the other; every read is checked, and fails with [`WireError::Short`] if bytes are missing.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes)
    }
    pub(crate) fn bytes(&mut self, field: &'static str, count: usize) -> Result<&'a [u8], WireError> {
        let short = WireError::Short { field, needs: count, has: self.0.len() };
        let (taken, rest) = self.0.split_at_checked(count).ok_or(short)?;
        self.0 = rest;
        Ok(taken)
    }
    pub(crate) fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], WireError> {
        Ok(self.bytes(field, N)?.try_into().expect("`bytes` gives exactly N bytes"))
    }
    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, WireError> {
        self.array::<1>(field).map(|[byte]| byte)
    }
    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, WireError> {
        self.array(field).map(u16::from_be_bytes)
    }
    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, WireError> {
        self.array(field).map(u32::from_be_bytes)
    }
    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64, WireError> {
        self.array(field).map(u64::from_be_bytes)
    }
    pub(crate) fn guid(&mut self, field: &'static str) -> Result<Guid, WireError> {
        self.array(field).map(Guid)
    }
    pub(crate) fn address(&mut self, field: &'static str) -> Result<NetworkAddress, WireError> {
        self.u32(field).map(NetworkAddress)
    }
    /// A byte string behind a 2-byte length of at most `max`.
    pub(crate) fn blob(&mut self, field: &'static str, max: usize) -> Result<&'a [u8], WireError> {
        let len = self.u16(field)?;
        if usize::from(len) > max {
            return Err(WireError::Value { field, found: u64::from(len) });
        }
        self.bytes(field, usize::from(len))
    }
    /// UTF-8 text behind a 2-byte length of at most `max`.
    pub(crate) fn text(&mut self, field: &'static str, max: usize) -> Result<String, WireError> {
        let bytes = self.blob(field, max)?;
        let text = core::str::from_utf8(bytes)
            .map_err(|error| WireError::Value { field, found: u64::from(bytes[error.valid_up_to()]) })?;
        Ok(text.into())
    }
    /// Takes a value that `legal` maps to what it means.
    pub(crate) fn choice<T>(&mut self, field: &'static str, legal: fn(u8) -> Option<T>) -> Result<T, WireError> {
        let found = self.u8(field)?;
        legal(found).ok_or(WireError::Value { field, found: u64::from(found) })
    }
    /// A 1-byte count of at most `max`, and so many items.
    pub(crate) fn list<T>(
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
    /// Everything that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.0)
    }
    /// How many bytes are left.
    pub(crate) fn left(&self) -> usize {
        self.0.len()
    }
    /// Fails if anything is left.
    pub(crate) fn end(&self) -> Result<(), WireError> {
        if self.0.is_empty() { Ok(()) } else { Err(WireError::Trailing { extra: self.0.len() }) }
    }
}

/// Appends fields one after the other.
pub(crate) trait Writer {
    fn put(&mut self, bytes: &[u8]);
    fn put_u8(&mut self, value: u8) {
        self.put(&[value]);
    }
    fn put_u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }
    fn put_u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }
    fn put_u64(&mut self, value: u64) {
        self.put(&value.to_be_bytes());
    }
    /// Callers keep the limit that the reader checks; what exceeds it is cut.
    fn put_blob(&mut self, bytes: &[u8]) {
        let len = bytes.len().min(usize::from(u16::MAX));
        self.put_u16(len as u16);
        self.put(&bytes[..len]);
    }
}
impl Writer for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}
