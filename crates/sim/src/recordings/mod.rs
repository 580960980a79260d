//! What others have measured: when links let bytes through, how fast they were, who met whom.
//!
//! | what | gives | file |
//! |---|---|---|
//! | mahimahi's packet-delivery traces | a [`DeliveryTrace`](tributary_core::link::DeliveryTrace) | [`mahimahi`] |
//! | tables of rates and delays over time | a [`Script`](tributary_core::link::Script) | [`series`] |
//! | contacts of the ONE simulator | a script per pair of nodes | [`contacts`] |
pub mod contacts;
pub mod mahimahi;
pub mod series;

/// A line of a recording that makes no sense.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct RecordingError {
    /// The file.
    pub file: String,
    /// The line, from 1 on; 0 for the file as a whole.
    pub line: usize,
    /// What is wrong there.
    pub message: String,
}

impl RecordingError {
    fn new(file: &str, line: usize, message: impl Into<String>) -> Self {
        RecordingError { file: file.into(), line, message: message.into() }
    }
}
