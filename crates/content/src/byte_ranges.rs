//! Ranges of bytes in the syntax of HTTP (RFC 9110 §14.1.2).
use alloc::vec::Vec;
use core::{fmt, ops::Range, str::FromStr};

/// How many ranges one set may have.
pub const RANGES_MAX: usize = 64;

/// A set of byte ranges: `0-499`, `500-` (to the end), `-500` (the last 500), separated by commas.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ByteRanges(Vec<Spec>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Spec {
    /// From the first byte to the last one, inclusive.
    Closed(u64, u64),
    From(u64),
    Last(u64),
}

/// Why a text is no set of byte ranges.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ByteRangesError {
    /// It is not of the form.
    #[error("is not a range of bytes: write 0-499, 500- or -500, or several with commas between")]
    Syntax,
    /// It has too many.
    #[error("has more than {RANGES_MAX} ranges")]
    TooMany,
}

impl ByteRanges {
    /// The bytes of an object of `size` bytes for each range, in the order of the ranges. Ranges that start beyond the
    /// end are omitted; `None` if no byte is left.
    pub fn of(&self, size: u64) -> Option<Vec<Range<u64>>> {
        let range = |spec: &Spec| match *spec {
            Spec::Closed(first, last) => first..last.saturating_add(1).min(size),
            Spec::From(first) => first..size,
            Spec::Last(count) => size.saturating_sub(count)..size,
        };
        let ranges: Vec<Range<u64>> = self.0.iter().map(range).filter(|range| range.start < range.end).collect();
        (!ranges.is_empty()).then_some(ranges)
    }
    /// The same in ascending order, with those that touch or overlap as one.
    pub fn ascending(&self, size: u64) -> Option<Vec<Range<u64>>> {
        let mut ranges = self.of(size)?;
        ranges.sort_unstable_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match joined.last_mut() {
                Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        Some(joined)
    }
}

impl FromStr for ByteRanges {
    type Err = ByteRangesError;
    fn from_str(text: &str) -> Result<Self, ByteRangesError> {
        let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
            // A number that is too large is behind every end.
            true if !text.is_empty() => Ok(text.parse().unwrap_or(u64::MAX)),
            _ => Err(ByteRangesError::Syntax),
        };
        let spec = |text: &str| {
            let (first, last) = text.trim_matches([' ', '\t']).split_once('-').ok_or(ByteRangesError::Syntax)?;
            match (first, last) {
                ("", last) => number(last).map(Spec::Last),
                (first, "") => number(first).map(Spec::From),
                (first, last) => match (number(first)?, number(last)?) {
                    (first, last) if first <= last => Ok(Spec::Closed(first, last)),
                    _ => Err(ByteRangesError::Syntax),
                },
            }
        };
        if text.split(',').nth(RANGES_MAX).is_some() {
            return Err(ByteRangesError::TooMany);
        }
        text.split(',').map(spec).collect::<Result<_, _>>().map(ByteRanges)
    }
}
impl fmt::Display for ByteRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, spec) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "," })?;
            match spec {
                Spec::Closed(first, last) => write!(f, "{first}-{last}")?,
                Spec::From(first) => write!(f, "{first}-")?,
                Spec::Last(count) => write!(f, "-{count}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::single_range_in_vec_init, reason = "these are lists of ranges")]
    use alloc::{string::ToString, vec};

    use super::*;

    fn ranges(text: &str) -> ByteRanges {
        text.parse().expect("legal")
    }

    #[test]
    fn ranges_mean_what_http_says() {
        for (text, meant) in [
            ("0-499", Some(vec![0..500])),
            ("500-", Some(vec![500..1000])),
            ("-200", Some(vec![800..1000])),
            ("-5000", Some(vec![0..1000])),
            ("900-2000, 0-0", Some(vec![900..1000, 0..1])),
            ("1000-,-1", Some(vec![999..1000])),
            ("1000-", None),
            ("-0", None),
            ("99999999999999999999-", None),
        ] {
            assert_eq!(ranges(text).of(1000), meant, "{text}");
        }
        assert_eq!(ranges("-1").of(0), None);
        assert_eq!(ranges("400-599,0-9,500-700,701-710").ascending(1000), Some(vec![0..10, 400..711]));
        assert_eq!(ranges("0-4,7-,-3").to_string(), "0-4,7-,-3");
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in ["", "-", "1", "a-b", "5-4", "0-1,", "0--1", "+1-2", "0x1-2", "1-2-3"] {
            assert_eq!(text.parse::<ByteRanges>(), Err(ByteRangesError::Syntax), "{text}");
        }
        let many = vec!["0-1"; RANGES_MAX + 1].join(",");
        assert_eq!(many.parse::<ByteRanges>(), Err(ByteRangesError::TooMany));
    }
}
