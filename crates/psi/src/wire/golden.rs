//! Helpers of the wire tests.
use alloc::vec::Vec;
use core::fmt::Debug;

use super::WireError;

/// Bytes from hex digits; blanks group fields.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|c| !c.is_ascii_whitespace()).collect();
    assert_eq!(digits.len() % 2, 0, "hex digits come in pairs");
    digits.chunks(2).map(|pair| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// A golden packet: it reads as `expected`, re-emits byte for byte, every cut is refused, and so is a byte too many.
pub(crate) fn check<T: PartialEq + Debug>(
    bytes: &[u8],
    expected: &T,
    decode: impl Fn(&[u8]) -> Result<T, WireError>,
    encode: impl Fn(&T, &mut Vec<u8>),
) {
    assert_eq!(decode(bytes).as_ref(), Ok(expected));
    let mut emitted = Vec::new();
    encode(expected, &mut emitted);
    assert_eq!(emitted, bytes);
    for cut in 0..bytes.len() {
        assert!(decode(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    emitted.push(0);
    assert_eq!(decode(&emitted), Err(WireError::Trailing { extra: 1 }));
}
