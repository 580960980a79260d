//! Errors in the form for people: the operation, its object, the reason, and a remedy.
use serde::{Deserialize, Serialize};
use std::{fmt, thread::JoinHandle};
use tributary_core::printable;

/// Why an operation failed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ApiError {
    /// What kind of failure it is; decides the exit code.
    pub kind: ErrorKind,
    /// The operation, its object, and the reason.
    pub message: String,
    /// What to try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Kinds of failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// The object, transfer or face does not exist.
    NotFound,
    /// It started and could not be completed; verified chunks are kept.
    Incomplete,
    /// The network refused.
    Rejected,
    /// The request makes no sense.
    Usage,
    /// Another process holds an exclusive resource.
    InUse,
    /// The disk, the network interface or the like refused.
    Io,
    /// The other end of the control socket speaks another language.
    Protocol,
    /// The node that worked on it was stopped or is gone.
    Gone,
    /// The caller or a signal ended it.
    Cancelled,
}

impl ErrorKind {
    /// The exit code of the program, by a script's next action: look elsewhere (1), correct the command (2), run it
    /// again (3), ask the person in charge (4), repair the machine (5), look after the daemon (6); 130 after a signal.
    pub fn exit_code(self) -> u8 {
        match self {
            ErrorKind::NotFound => 1,
            ErrorKind::Usage => 2,
            ErrorKind::Incomplete => 3,
            ErrorKind::Rejected => 4,
            ErrorKind::Io => 5,
            ErrorKind::InUse | ErrorKind::Gone | ErrorKind::Protocol => 6,
            ErrorKind::Cancelled => 130,
        }
    }
}

impl ApiError {
    /// A failure without a hint.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        ApiError { kind, message: message.into(), hint: None }
    }
    /// An error of kind [`ErrorKind::Usage`].
    pub fn usage(message: impl Into<String>) -> Self {
        ApiError::new(ErrorKind::Usage, message)
    }
    /// The same failure with a remedy.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        ApiError { hint: Some(hint.into()), ..self }
    }
    /// A failure of the operating system: `operation` on `what`.
    pub fn io(operation: &str, what: impl fmt::Display, error: &std::io::Error) -> Self {
        ApiError::new(ErrorKind::Io, format!("cannot {operation} '{what}': {error}"))
    }
}

/// Starts a thread called `name`.
///
/// # Errors
/// [`ApiError`] if the system has none.
pub fn spawn<R: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<JoinHandle<R>, ApiError> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(work);
    thread.map_err(|error| ApiError::io("start", format!("the thread '{name}'"), &error))
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Other nodes word network failures: their text must not start a line.
        let kept = match self.kind {
            ErrorKind::NotFound | ErrorKind::Incomplete | ErrorKind::Rejected => "",
            ErrorKind::Usage
            | ErrorKind::InUse
            | ErrorKind::Io
            | ErrorKind::Protocol
            | ErrorKind::Gone
            | ErrorKind::Cancelled => "\n\t",
        };
        f.write_str(&printable::escape_but(&self.message, kept))?;
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {}", printable::escape_but(hint, "\n\t")),
            None => Ok(()),
        }
    }
}
impl std::error::Error for ApiError {}
impl From<tributary_content::store::StoreError> for ApiError {
    fn from(error: tributary_content::store::StoreError) -> Self {
        ApiError::new(ErrorKind::Io, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notice::Notice;

    #[test]
    fn what_a_script_would_do_differently_has_codes_of_its_own() {
        let codes = [
            (ErrorKind::NotFound, 1),
            (ErrorKind::Usage, 2),
            (ErrorKind::Incomplete, 3),
            (ErrorKind::Rejected, 4),
            (ErrorKind::Io, 5),
            (ErrorKind::InUse, 6),
            (ErrorKind::Gone, 6),
            (ErrorKind::Protocol, 6),
            (ErrorKind::Cancelled, 130),
        ];
        for (kind, code) in codes {
            assert_eq!(kind.exit_code(), code, "{kind:?}");
        }
    }

    const LABEL: &str = "attic\u{1b}[2J\nerror: all is lost\u{202e}\u{9b}";

    #[test]
    fn what_a_peer_says_of_a_failure_begins_no_line_of_its_own() {
        let error = ApiError::new(ErrorKind::NotFound, format!("cannot fetch '/a': {LABEL}")).with_hint("ask again");
        let shown = error.to_string();
        assert_eq!(shown.lines().count(), 2, "{shown}");
        assert!(!shown.replace('\n', "").contains(printable::is_unsafe), "{shown}");
    }

    #[test]
    fn json_lines_show_what_is_in_them_and_say_the_same() {
        let notice = Notice::Note { text: LABEL.into() };
        let line = notice.to_line();
        assert!(!line.contains(printable::is_unsafe), "{line}");
        assert_eq!(serde_json::from_str::<Notice>(&line).expect("it is JSON"), notice);
    }
}
