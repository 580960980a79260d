//! mahimahi's packet-delivery traces: one integer per line, the millisecond at which 1,500 bytes may leave.
//!
//! As in its `src/frontend/link_queue.cc`, a trace has at least one line and a positive duration, and times never
//! decrease. Mahimahi refuses empty lines and text after a number; this reader accepts an empty line at the end and
//! CRLF.
use tributary_core::{Duration, link::DeliveryTrace};

use super::RecordingError;

/// Reads a trace; `file` names it in errors. The trace repeats after its last line's time, as in mahimahi.
///
/// # Errors
/// [`RecordingError`] if there is no line, a line is no number, or times decrease.
pub fn parse(file: &str, text: &str) -> Result<DeliveryTrace, RecordingError> {
    let mut offsets: Vec<u64> = Vec::new();
    let mut empty = None;
    for (line, text) in text.lines().enumerate().map(|(index, text)| (index + 1, text.trim())) {
        if text.is_empty() {
            empty = empty.or(Some(line));
            continue;
        }
        if let Some(line) = empty {
            return Err(RecordingError::new(file, line, "it has an empty line"));
        }
        let ms: u64 = match text.parse() {
            Ok(ms) if ms < MS_MAX => ms,
            _ => return Err(RecordingError::new(file, line, format!("'{text}' is no number of milliseconds"))),
        };
        if offsets.last().is_some_and(|last| *last > ms) {
            return Err(RecordingError::new(file, line, format!("time goes back to {ms} ms")));
        }
        offsets.push(ms);
    }
    let period = match offsets.last() {
        Some(0) => return Err(RecordingError::new(file, 0, "the trace lasts no time: its last line is 0")),
        Some(last) => Duration::from_millis(*last),
        None => return Err(RecordingError::new(file, 0, "there is no line in it")),
    };
    Ok(DeliveryTrace::new(offsets.into_iter().map(Duration::from_millis), period, DeliveryTrace::BYTES_EACH))
}

/// A year.
const MS_MAX: u64 = 366 * 86_400_000;

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_core::Rate;

    #[test]
    fn the_line_1_alone_is_12_mbps() {
        let trace = parse("x", "1\n").expect("it is right");
        assert_eq!(trace.rate_mean(), Rate::from_mbps(12));
    }

    #[test]
    fn errors_name_file_and_line() {
        let wrong = |text| parse("t.up", text).expect_err("wrong").to_string();
        assert_eq!(wrong("1\n5\n4\n"), "t.up:3: time goes back to 4 ms");
        assert_eq!(wrong("1\nx\n"), "t.up:2: 'x' is no number of milliseconds");
        assert_eq!(wrong("1\n\n5\n"), "t.up:2: it has an empty line");
        assert!(parse("t.up", "1\r\n5\r\n\r\n").is_ok());
        assert_eq!(wrong("\n"), "t.up:0: there is no line in it");
        assert_eq!(wrong("0\n0\n"), "t.up:0: the trace lasts no time: its last line is 0");
    }
}
