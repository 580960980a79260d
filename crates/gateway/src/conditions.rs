//! Preconditions and ranges (RFC 9110 §13, §14).
use std::{
    ops::Range,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use hyper::{HeaderMap, header};
use tributary_content::{ByteRanges, Manifest};

/// What identifies the bytes of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Validators {
    /// The strong tag, with its quotes.
    pub(crate) tag: String,
    /// When they were last changed, to the second, if the version is a time.
    pub(crate) modified: Option<SystemTime>,
}

/// The answer that the preconditions select.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    /// 304.
    NotModified,
    /// 412.
    Failed,
    /// 200, all bytes.
    All,
    /// 206, these ranges in this order.
    Ranges(Vec<Range<u64>>),
    /// 416.
    Unsatisfiable,
}

/// Versions in this range count as times, in microseconds since 1970.
const TIMES: Range<u64> = 946_684_800_000_000..4_102_444_800_000_000;

impl Validators {
    /// Of a whole object, or of the part of a folder at an offset.
    pub(crate) fn new(manifest: &Manifest, part: Option<&Range<u64>>) -> Validators {
        let root = manifest.root;
        let tag = match part {
            None => format!("\"{root}\""),
            Some(part) => format!("\"{root}-{:x}-{:x}\"", part.start, part.end - part.start),
        };
        let is_time = TIMES.contains(&manifest.version);
        let modified = is_time.then(|| UNIX_EPOCH + Duration::from_secs(manifest.version / 1_000_000));
        Validators { tag, modified }
    }
    fn is_listed(&self, list: &str, is_weak_enough: bool) -> bool {
        list.split(',').map(str::trim).any(|tag| {
            tag == "*" || tag == self.tag || is_weak_enough && tag.strip_prefix("W/").is_some_and(|tag| tag == self.tag)
        })
    }
    fn is_newer_than(&self, date: &str) -> Option<bool> {
        Some(self.modified? > httpdate::parse_http_date(date).ok()?)
    }
}

/// The requested part of `size` bytes.
pub(crate) fn wanted(headers: &HeaderMap, validators: &Validators, size: u64) -> Wanted {
    let field = |name| headers.get(name).and_then(|value| value.to_str().ok());
    match (field(header::IF_MATCH), field(header::IF_UNMODIFIED_SINCE)) {
        (Some(list), _) if !validators.is_listed(list, false) => return Wanted::Failed,
        (None, Some(date)) if validators.is_newer_than(date) == Some(true) => return Wanted::Failed,
        _ => {}
    }
    let none_match: Vec<&str> =
        headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok()).collect();
    match field(header::IF_MODIFIED_SINCE) {
        _ if none_match.iter().any(|list| validators.is_listed(list, true)) => return Wanted::NotModified,
        Some(date) if none_match.is_empty() && validators.is_newer_than(date) == Some(false) => {
            return Wanted::NotModified;
        }
        _ => {}
    }
    let is_same = match field(header::IF_RANGE) {
        None => true,
        Some(tag) if tag.starts_with('"') => tag == validators.tag,
        Some(date) => match (httpdate::parse_http_date(date), validators.modified) {
            (Ok(date), Some(modified)) => date == modified,
            _ => false,
        },
    };
    let Some(text) = field(header::RANGE).filter(|_| is_same) else { return Wanted::All };
    // Unknown units and malformed ranges are ignored.
    let Some(ranges) = text.strip_prefix("bytes=").and_then(|ranges| ranges.parse::<ByteRanges>().ok()) else {
        return Wanted::All;
    };
    match ranges.of(size) {
        // Slicing caches request a range of every file, and would forward a 416 (RFC 9110 §14.2 lets a server ignore
        // ranges).
        _ if size == 0 => Wanted::All,
        None => Wanted::Unsatisfiable,
        // Ranges that together exceed the whole only cost.
        Some(ranges) if ranges.len() > 1 && ranges.iter().map(|range| range.end - range.start).sum::<u64>() > size => {
            Wanted::All
        }
        Some(ranges) => Wanted::Ranges(ranges),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::single_range_in_vec_init, reason = "these are lists of ranges")]
    use super::*;

    fn of(fields: &[(&'static str, &str)]) -> Wanted {
        let modified = Some(UNIX_EPOCH + Duration::from_secs(1_700_000_000));
        let validators = Validators { tag: "\"abc\"".into(), modified };
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().expect("legal"));
        }
        wanted(&headers, &validators, 1000)
    }

    #[test]
    fn preconditions_go_in_the_order_of_the_standard() {
        let (same, later) = ("Tue, 14 Nov 2023 22:13:20 GMT", "Wed, 15 Nov 2023 22:13:20 GMT");
        let earlier = "Mon, 13 Nov 2023 22:13:20 GMT";
        assert_eq!(of(&[]), Wanted::All);
        for tags in ["\"abc\"", "\"x\", \"abc\"", "W/\"abc\"", "*"] {
            assert_eq!(of(&[("if-none-match", tags)]), Wanted::NotModified, "{tags}");
        }
        assert_eq!(of(&[("if-none-match", "\"x\""), ("if-modified-since", later)]), Wanted::All);
        assert_eq!(of(&[("if-modified-since", same)]), Wanted::NotModified);
        assert_eq!(of(&[("if-modified-since", later)]), Wanted::NotModified);
        assert_eq!(of(&[("if-modified-since", earlier)]), Wanted::All);
        assert_eq!(of(&[("if-modified-since", "yesterday")]), Wanted::All);
        assert_eq!(of(&[("if-match", "W/\"abc\"")]), Wanted::Failed);
        assert_eq!(of(&[("if-unmodified-since", earlier)]), Wanted::Failed);
        let part = Wanted::Ranges(vec![0..10]);
        assert_eq!(of(&[("range", "bytes=0-9"), ("if-range", "\"abc\"")]), part);
        assert_eq!(of(&[("range", "bytes=0-9"), ("if-range", "\"x\"")]), Wanted::All);
        assert_eq!(of(&[("range", "bytes=0-9"), ("if-range", "W/\"abc\"")]), Wanted::All);
        assert_eq!(of(&[("range", "bytes=0-9"), ("if-range", same)]), part);
        assert_eq!(of(&[("range", "bytes=0-9"), ("if-range", earlier)]), Wanted::All);
    }

    #[test]
    fn ranges_that_cannot_be_are_refused_and_strange_ones_are_ignored() {
        assert_eq!(of(&[("range", "bytes=1000-")]), Wanted::Unsatisfiable);
        assert_eq!(of(&[("range", "bytes=5-1")]), Wanted::All);
        assert_eq!(of(&[("range", "lines=1-2")]), Wanted::All);
        assert_eq!(of(&[("range", "bytes=-1,0-0")]), Wanted::Ranges(vec![999..1000, 0..1]));
        let many = vec!["0-999"; 60].join(",");
        assert_eq!(of(&[("range", &format!("bytes={many}"))]), Wanted::All);
    }
}
