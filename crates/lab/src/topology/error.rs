//! Errors in topology files.
use tributary::config::recordings::encoding::NotText;

/// A line that makes no sense.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct TopologyError {
    /// The file.
    pub file: String,
    /// The line, from 1 on.
    pub line: usize,
    /// The error.
    pub message: String,
}

impl TopologyError {
    /// An error in `line`; the caller adds the file's name.
    pub(super) fn at(line: usize, message: impl Into<String>) -> Self {
        TopologyError { file: String::new(), line, message: message.into() }
    }
}

impl From<NotText> for TopologyError {
    fn from(error: NotText) -> Self {
        TopologyError::at(error.line, error.message)
    }
}

/// Why a file defines no topology.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read topology '{file}': {reason}")]
    Read {
        /// The file.
        file: String,
        /// The system's error.
        reason: String,
    },
    /// Its name identifies no format.
    #[error("the name of '{file}' does not show its format; name one of graphml, ndnsim, minindn, rocketfuel, cch")]
    Unknown {
        /// The file.
        file: String,
    },
    /// A line makes no sense.
    #[error(transparent)]
    Wrong(#[from] TopologyError),
}
