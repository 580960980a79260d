//! Cursor over untrusted bytes, and its counterpart for writing. All numbers are big-endian.
use alloc::{string::String, vec::Vec};

use tributary_core::Location;
use tributary_transport::PathMetric;

use super::WireError;

/// No term of a topology manager reaches this: a succession a minute would take a year. Whoever sends one wants the
/// terms to run out.
pub const TERM_END: u32 = 1 << 31;
/// How a node that does not say where it is does so.
const NOWHERE: (i32, i32) = (i32::MIN, i32::MIN);
/// Bits of a term that tell the run of a manager; those above count successions.
const TERM_RUN_BITS: u32 = 12;

/// The term of a manager that rules after all that it knows of terms up to `seen`, in its run `incarnation`.
///
/// Like the ballots of Paxos (Lamport, *The Part-Time Parliament*, 1998, §2.3) no two managers and no two runs of one
/// have the same term, although they may not have heard of each other: so all that managers tell is in one order, and
/// what a former one said is never taken for newer because it came late.
pub fn term_after(seen: u32, incarnation: u64) -> u32 {
    let count = (successions(seen) + 1).min(successions(TERM_END - 1));
    let run = (incarnation ^ (incarnation >> 32)) as u32 & ((1 << TERM_RUN_BITS) - 1);
    count << TERM_RUN_BITS | run
}
/// How many managers ruled one after the other up to `term`.
pub fn successions(term: u32) -> u32 {
    term >> TERM_RUN_BITS
}

/// Reads fields one after the other; every read is checked.
#[derive(Clone, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// A cursor at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes)
    }
    /// Takes `count` bytes.
    ///
    /// # Errors
    /// [`WireError::Short`] if fewer are left; the same for all reads below.
    pub fn bytes(&mut self, field: &'static str, count: usize) -> Result<&'a [u8], WireError> {
        if self.0.len() < count {
            return Err(WireError::Short { field, needs: count, has: self.0.len() });
        }
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        Ok(taken)
    }
    /// Takes exactly `N` bytes as an array.
    #[expect(clippy::missing_errors_doc, reason = "as for `bytes`")]
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], WireError> {
        let taken = self.bytes(field, N)?;
        Ok(taken.try_into().expect("`bytes` gives exactly N bytes"))
    }
    /// One byte.
    #[expect(clippy::missing_errors_doc, reason = "as for `bytes`")]
    pub fn u8(&mut self, field: &'static str) -> Result<u8, WireError> {
        Ok(self.array::<1>(field)?[0])
    }
    /// Two bytes.
    #[expect(clippy::missing_errors_doc, reason = "as for `bytes`")]
    pub fn u16(&mut self, field: &'static str) -> Result<u16, WireError> {
        self.array(field).map(u16::from_be_bytes)
    }
    /// Four bytes.
    #[expect(clippy::missing_errors_doc, reason = "as for `bytes`")]
    pub fn u32(&mut self, field: &'static str) -> Result<u32, WireError> {
        self.array(field).map(u32::from_be_bytes)
    }
    /// The term of a topology manager, below [`TERM_END`].
    ///
    /// # Errors
    /// As for [`Reader::bytes`], and [`WireError::Value`] if no succession of managers can have led to it.
    pub fn term(&mut self) -> Result<u32, WireError> {
        let term = self.u32("term")?;
        if term < TERM_END { Ok(term) } else { Err(WireError::Value { field: "term", found: term.into() }) }
    }
    /// What paths are ordered by.
    ///
    /// # Errors
    /// As for [`Reader::bytes`], and [`WireError::Value`] if there is no metric of this number.
    pub fn metric(&mut self) -> Result<PathMetric, WireError> {
        let found = self.u8("metric")?;
        PathMetric::of_number(found).ok_or(WireError::Value { field: "metric", found: found.into() })
    }
    /// Where a node is, in two numbers of four bytes: millionths of a degree, both the smallest number if it does not say.
    ///
    /// # Errors
    /// As for [`Reader::bytes`], and [`WireError::Value`] if it is nowhere on the Earth.
    pub fn location(&mut self) -> Result<Option<Location>, WireError> {
        let mut degrees = |field| self.u32(field).map(u32::cast_signed);
        let (latitude, longitude) = (degrees("latitude")?, degrees("longitude")?);
        match Location::from_microdegrees(latitude, longitude) {
            None if (latitude, longitude) != NOWHERE => {
                Err(WireError::Value { field: "location", found: latitude.cast_unsigned().into() })
            }
            location => Ok(location),
        }
    }
    /// Eight bytes.
    #[expect(clippy::missing_errors_doc, reason = "as for `bytes`")]
    pub fn u64(&mut self, field: &'static str) -> Result<u64, WireError> {
        self.array(field).map(u64::from_be_bytes)
    }
    /// A byte string behind a 2-byte length of at most `max`.
    ///
    /// # Errors
    /// [`WireError::Value`] if it is longer than `max`, [`WireError::Short`] if it is cut.
    pub fn blob(&mut self, field: &'static str, max: usize) -> Result<&'a [u8], WireError> {
        let len = self.u16(field)?;
        if usize::from(len) > max {
            return Err(WireError::Value { field, found: u64::from(len) });
        }
        self.bytes(field, usize::from(len))
    }
    /// A UTF-8 string behind a 2-byte length of at most `max`.
    ///
    /// # Errors
    /// As for [`Reader::blob`], and [`WireError::Value`] if it is not UTF-8.
    pub fn text(&mut self, field: &'static str, max: usize) -> Result<String, WireError> {
        let bytes = self.blob(field, max)?;
        let text = core::str::from_utf8(bytes)
            .map_err(|e| WireError::Value { field, found: u64::from(bytes[e.valid_up_to()]) })?;
        Ok(text.into())
    }
    /// Bytes not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }
    /// Asserts that everything was read.
    ///
    /// # Errors
    /// [`WireError::Trailing`] if not.
    pub fn end(&self) -> Result<(), WireError> {
        if self.0.is_empty() { Ok(()) } else { Err(WireError::Trailing { extra: self.0.len() }) }
    }
}

/// Appends fields one after the other.
pub trait Writer {
    /// One byte.
    fn put_u8(&mut self, value: u8);
    /// Two bytes.
    fn put_u16(&mut self, value: u16);
    /// Four bytes.
    fn put_u32(&mut self, value: u32);
    /// What [`Reader::location`] reads.
    fn put_location(&mut self, location: Option<Location>) {
        let (latitude, longitude) = location.map_or(NOWHERE, Location::microdegrees);
        self.put_u32(latitude.cast_unsigned());
        self.put_u32(longitude.cast_unsigned());
    }
    /// Eight bytes.
    fn put_u64(&mut self, value: u64);
    /// A byte string behind a 2-byte length.
    ///
    /// # Panics
    /// If it is longer than 65,535 bytes.
    fn put_blob(&mut self, bytes: &[u8]);
}

impl Writer for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }
    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_be_bytes());
    }
    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_be_bytes());
    }
    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_be_bytes());
    }
    fn put_blob(&mut self, bytes: &[u8]) {
        self.put_u16(u16::try_from(bytes.len()).expect("a blob has at most 65,535 bytes"));
        self.extend_from_slice(bytes);
    }
}
