//! Recorded measurements of links: delivery opportunities, and rates.
//!
//! | recording | result | file |
//! |---|---|---|
//! | mahimahi's packet-delivery traces | a [`DeliveryTrace`](tributary_core::link::DeliveryTrace) | [`mahimahi`] |
//! | tables of rates and delays over time | a [`Script`](tributary_core::link::Script) | [`series`] |
pub mod encoding;
pub mod mahimahi;
pub mod series;

use std::borrow::Cow;

use self::encoding::NotText;

/// A line of a recording that makes no sense.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct RecordingError {
    /// The file.
    pub file: String,
    /// The line, from 1 on; 0 for the file as a whole.
    pub line: usize,
    /// The error.
    pub message: String,
}

/// The text of a recording: its byte-order mark counts, else it is UTF-8, else windows-1252. `file` names it in errors.
///
/// # Errors
/// [`RecordingError`] names the line that is no text.
pub fn text<'a>(file: &str, bytes: &'a [u8]) -> Result<Cow<'a, str>, RecordingError> {
    match encoding::text(bytes) {
        Ok((text, _)) => Ok(text),
        Err(NotText { line, message }) => Err(RecordingError::new(file, line, message)),
    }
}

impl RecordingError {
    /// An error in `line` of `file`.
    pub fn new(file: &str, line: usize, message: impl Into<String>) -> Self {
        RecordingError { file: file.into(), line, message: message.into() }
    }
}
