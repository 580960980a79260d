//! Numbers as people read them.
use std::fmt;
use tributary_core::Duration;

/// A number of things, such as `1 path` and `2 paths`.
pub fn counted<C: fmt::Display + PartialEq + From<u8>>(count: C, what: &str) -> String {
    let plural = if count == C::from(1) { "" } else { "s" };
    format!("{count} {what}{plural}")
}
pub(super) fn milliseconds(duration: Duration) -> f64 {
    round(duration.as_secs_f64() * 1e3, 3)
}
pub(super) fn share(part: u64, total: u64) -> f64 {
    if total == 0 { 0.0 } else { part as f64 / total as f64 }
}
/// Cuts insignificant digits, so that JSON lines stay readable.
pub(super) fn round(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    // An empty sum is minus zero; adding zero removes the sign.
    (value * scale).round() / scale + 0.0
}
