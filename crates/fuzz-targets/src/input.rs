//! Reads a script from the fuzzer's bytes: missing bytes are zero, and the script ends with the bytes.

/// A cursor over the fuzzer's bytes.
#[derive(Clone, Debug)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// A cursor at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Input(bytes)
    }
    /// The next byte; `None` at the end.
    pub fn step(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }
    /// The next byte, or zero.
    pub fn u8(&mut self) -> u8 {
        self.step().unwrap_or(0)
    }
    /// The next two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }
    /// The next four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from(self.u16()) << 16 | u32::from(self.u16())
    }
    /// The next eight bytes.
    pub fn u64(&mut self) -> u64 {
        u64::from(self.u32()) << 32 | u64::from(self.u32())
    }
    /// The next `count` bytes, or as many as are left.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
    /// Bytes behind a length of two bytes, or as many as are left.
    pub fn blob(&mut self) -> &'a [u8] {
        let count = self.u16();
        self.bytes(count.into())
    }
}
