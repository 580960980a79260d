//! Certificates and revocations as one line of text, for files and for people who send them.
use alloc::{string::String, vec::Vec};
use core::fmt::Write;
use tributary_core::wire::WireError;

/// Why a text is not valid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// It begins otherwise, or has other characters than hex digits.
    #[error("it should be one line, '{prefix}' and hex digits")]
    Format {
        /// The expected prefix.
        prefix: &'static str,
    },
    /// Its bytes are wrong.
    #[error("{0}")]
    Bytes(#[from] WireError),
}

/// `bytes` as hex digits behind `prefix`.
pub(crate) fn write(prefix: &str, bytes: &[u8]) -> String {
    let mut text = String::from(prefix);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The reverse of [`write`], of at most `bytes_max` bytes; space around the line is ignored.
pub(crate) fn read(prefix: &'static str, text: &str, bytes_max: usize) -> Result<Vec<u8>, TextError> {
    let wrong = TextError::Format { prefix };
    let digits = text.trim().strip_prefix(prefix).ok_or(wrong.clone())?.as_bytes();
    let (pairs, odd) = digits.as_chunks::<2>();
    if !odd.is_empty() || pairs.len() > bytes_max {
        return Err(wrong);
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8; 2]| u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok();
    pairs.iter().map(byte).collect::<Option<_>>().ok_or(wrong)
}
