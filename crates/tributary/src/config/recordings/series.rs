//! Tables over time: a CSV file with a header, one column of times in seconds, and columns of rates or delays.
//!
//! Cells may be quoted; commas inside quotes are text, and `""` is a quote (RFC 4180); they hold no line breaks. Lines
//! that start with `#` are skipped, also before the header.
use std::borrow::Cow;
use tributary_core::{
    Duration, Rate,
    link::{LinkChange, LinkState, Script},
};

use super::RecordingError;

/// Which columns to read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Columns {
    /// The column of times, in seconds; each time is counted from the first one.
    pub time: String,
    /// The column of rates, in Mbit/s; a rate of zero is an outage.
    pub rate: Option<String>,
    /// The column of one-way delays, in milliseconds.
    pub delay: Option<String>,
    /// Only rows with this text in this column.
    pub only: Option<(String, String)>,
}

/// Reads a table; `file` names it in errors. It repeats after its last row, which lasts as long as the previous one.
///
/// # Errors
/// [`RecordingError`] if a column is missing, a value is no number of zero or more, times decrease, or no row is left.
pub fn parse(file: &str, text: &str, columns: &Columns) -> Result<Script, RecordingError> {
    let lines = text.lines().enumerate().map(|(index, text)| (index + 1, text.trim()));
    let mut lines = lines.filter(|(_, text)| !text.is_empty() && !text.starts_with('#'));
    let Some((header_line, header)) = lines.next() else { return Err(RecordingError::new(file, 0, "it is empty")) };
    let names = cells_of(file, header_line, header)?;
    let column = |name: &str| {
        let missing = || {
            RecordingError::new(
                file,
                header_line,
                format!("there is no column '{name}'; there are {}", names.join(", ")),
            )
        };
        names.iter().position(|other| *other == name).ok_or_else(missing)
    };
    let time = column(&columns.time)?;
    let rate = columns.rate.as_deref().map(column).transpose()?;
    let delay = columns.delay.as_deref().map(column).transpose()?;
    let only = columns.only.as_ref().map(|(name, text)| column(name).map(|index| (index, text))).transpose()?;
    let mut steps: Vec<(Duration, LinkChange)> = Vec::new();
    let (mut first, mut last, mut step) = (None, Duration::ZERO, Duration::from_secs(1));
    for (line, text) in lines {
        let cells = cells_of(file, line, text)?;
        let number = |index: usize| match cells.get(index).map(|cell| (cell, cell.parse::<f64>())) {
            Some((_, Ok(number))) if number.is_finite() && (0.0..1e12).contains(&number) => Ok(number),
            other => {
                let cell = other.map_or("", |(cell, _)| cell.as_ref());
                Err(RecordingError::new(file, line, format!("{} '{cell}' is no number of zero or more", names[index])))
            }
        };
        if only.is_some_and(|(index, text)| cells.get(index).is_none_or(|cell| *cell != *text)) {
            continue;
        }
        let seconds = number(time)?;
        let first = *first.get_or_insert(seconds);
        let at = Duration::from_nanos(((seconds - first) * 1e9).max(0.0) as u64);
        if seconds < first || at < last {
            return Err(RecordingError::new(file, line, format!("time goes back to {seconds} s")));
        }
        if at > last {
            step = at - last;
        }
        last = at;
        if let Some(index) = rate {
            let bits = (number(index)? * 1e6) as u64;
            // A link of rate zero keeps waiting packets for ever; one that is down loses them, as a lost signal does.
            steps.push((at, LinkChange::State(if bits == 0 { LinkState::Down } else { LinkState::Up })));
            if bits > 0 {
                steps.push((at, LinkChange::Rate(Some(Rate::from_bits_per_second(bits)))));
            }
        }
        if let Some(index) = delay {
            steps.push((at, LinkChange::Delay(Duration::from_nanos((number(index)? * 1e6) as u64))));
        }
    }
    if steps.is_empty() {
        return Err(RecordingError::new(file, 0, "it has no values"));
    }
    Ok(Script::new(steps, Some(last + step)))
}

/// The cells of a row.
fn cells_of<'a>(file: &str, line: usize, row: &'a str) -> Result<Vec<Cow<'a, str>>, RecordingError> {
    let mut cells = Vec::new();
    let mut rest = row;
    loop {
        rest = rest.trim_start();
        let (cell, behind) = match rest.strip_prefix('"') {
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (Cow::Borrowed(rest[..end].trim_end()), &rest[end..])
            }
            Some(quoted) => {
                let mut quotes = quoted.match_indices('"').map(|(at, _)| at).peekable();
                let end = loop {
                    match quotes.next() {
                        // Two quotes mean one.
                        Some(at) if quotes.peek() == Some(&(at + 1)) => drop(quotes.next()),
                        Some(at) => break at,
                        None => return Err(RecordingError::new(file, line, "a quote is not closed in its line")),
                    }
                };
                (Cow::Owned(quoted[..end].replace("\"\"", "\"")), quoted[end + 1..].trim_start())
            }
        };
        cells.push(cell);
        match behind.strip_prefix(',') {
            Some(next) => rest = next,
            None if behind.is_empty() => return Ok(cells),
            None => return Err(RecordingError::new(file, line, format!("a quote is followed by '{behind}'"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "ride,t_s,down_mbps,latency_ms\n1,5,10,20\n1,6,0,21\n2,0,7,1\n1,7,2.5,22\n";

    fn columns() -> Columns {
        Columns {
            time: "t_s".into(),
            rate: Some("down_mbps".into()),
            delay: Some("latency_ms".into()),
            only: Some(("ride".into(), "1".into())),
        }
    }

    #[test]
    fn rows_become_changes_and_zero_is_an_outage() {
        let script = parse("x.csv", FILE, &columns()).expect("it is right");
        let (s, ms) = (Duration::from_secs, Duration::from_millis);
        let expected = [
            (s(0), LinkChange::State(LinkState::Up)),
            (s(0), LinkChange::Rate(Some(Rate::from_mbps(10)))),
            (s(0), LinkChange::Delay(ms(20))),
            (s(1), LinkChange::State(LinkState::Down)),
            (s(1), LinkChange::Delay(ms(21))),
            (s(2), LinkChange::State(LinkState::Up)),
            (s(2), LinkChange::Rate(Some(Rate::from_bits_per_second(2_500_000)))),
            (s(2), LinkChange::Delay(ms(22))),
        ];
        assert_eq!((script.steps(), script.period()), (&expected[..], Some(s(3))));
    }

    #[test]
    fn cells_may_be_quoted_and_comments_stand_between() {
        let plain = parse("x.csv", FILE, &columns()).expect("it is right");
        let quoted = FILE.replace("ride,t_s", "# drive\r\n\r\n\"ride\" , \"t_s\"").replace("1,5,", "\"1\",\"5\",");
        assert_eq!(parse("x.csv", &quoted, &columns()), Ok(plain));
        let cells = cells_of("x", 1, "a, \"b, \"\"c\"\"\" ,,").expect("they are right");
        assert_eq!(cells, ["a", "b, \"c\"", "", ""]);
        for wrong in ["\"a", "\"a\"b,c"] {
            assert!(cells_of("x", 1, wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn errors_name_file_and_line() {
        let wrong =
            |from: &str, to: &str| parse("x.csv", &FILE.replace(from, to), &columns()).expect_err("wrong").to_string();
        assert_eq!(wrong("t_s", "t"), "x.csv:1: there is no column 't_s'; there are ride, t, down_mbps, latency_ms");
        assert_eq!(wrong("2.5", "fast"), "x.csv:5: down_mbps 'fast' is no number of zero or more");
        assert_eq!(wrong("1,7,", "1,5.5,"), "x.csv:5: time goes back to 5.5 s");
    }
}
