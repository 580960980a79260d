//! Contacts as the ONE simulator's `StandardEventsReader` has them: which nodes came into range of each other, and
//! left.
//! ```text
//! time CONN node node up|down [interface]            (seconds)
//! ```
//! or as CRAWDAD's cambridge/haggle has them, a line per contact in any order, overlapping or not:
//! ```text
//! node node start end ...                            (seconds; what follows is ignored)
//! ```
//! As their reader does (`src/input/StandardEventsReader.java` of the ONE), this one skips empty lines and those that
//! begin with `#`, reads `UP` as `up`, and ignores further words of a line. It also skips events of messages (`C`, `S`,
//! `DE`, `A`, `DR`, `R`), which describe no contacts. Theirs takes `n7` and `7` for the same node; here they are two.
use std::collections::{BTreeMap, BTreeSet};
use tributary_core::{
    Duration,
    link::{LinkChange, LinkState, Script},
};

use tributary::config::recordings::RecordingError;

/// The maximum number of nodes in a recording.
pub const NODES_MAX: usize = 100_000;

/// The contacts of pairs of nodes, with their times.
#[derive(Clone, PartialEq, Debug)]
pub struct Contacts {
    /// The names of all nodes, in order.
    pub nodes: Vec<String>,
    /// For each pair of indices that ever met, its script, which does not repeat: initially down, up and down with each
    /// contact.
    pub pairs: BTreeMap<(usize, usize), Script>,
    /// The time of the last line.
    pub duration: Duration,
}

impl Contacts {
    /// The total time of all contacts.
    pub fn contact_time(&self) -> Duration {
        let mut sum = Duration::ZERO;
        for script in self.pairs.values() {
            let mut since = None;
            for (time, change) in script.steps() {
                match change {
                    LinkChange::State(LinkState::Up) => since = Some(*time),
                    _ => sum += since.take().map_or(Duration::ZERO, |since| *time - since),
                }
            }
            sum += since.map_or(Duration::ZERO, |since| self.duration - since);
        }
        sum
    }
}

/// Reads contacts from `start` on, which becomes time zero; errors call the file `file`. Contacts that are up at
/// `start` are up from the beginning. An `up` while up and a `down` while down change nothing.
///
/// # Errors
/// [`RecordingError`] if a line is not an event, time goes back, or there is no contact.
pub fn parse(file: &str, text: &str, start: Duration) -> Result<Contacts, RecordingError> {
    let mut events: Vec<(Duration, &str, &str, LinkState)> = Vec::new();
    let mut contacts: BTreeMap<(&str, &str), Vec<(Duration, Duration)>> = BTreeMap::new();
    for (line, text) in text.lines().enumerate().map(|(index, text)| (index + 1, text.trim())) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        if let Some((a, b, contact)) = contact(&words) {
            let contact = contact.map_err(|message| RecordingError::new(file, line, message))?;
            if a == b {
                return Err(RecordingError::new(file, line, format!("'{a}' cannot meet itself")));
            }
            contacts.entry((a.min(b), a.max(b))).or_default().push(contact);
            continue;
        }
        if let [time, "C" | "S" | "DE" | "A" | "DR" | "R", _, _, ..] = words[..]
            && time.parse::<f64>().is_ok()
        {
            continue;
        }
        let [time, "CONN", a, b, state, ..] = words[..] else {
            let message = "a line is: time CONN node node up|down, or: node node start end";
            return Err(RecordingError::new(file, line, message));
        };
        let state = match state {
            state if state.eq_ignore_ascii_case("up") => LinkState::Up,
            state if state.eq_ignore_ascii_case("down") => LinkState::Down,
            other => return Err(RecordingError::new(file, line, format!("'{other}' is neither up nor down"))),
        };
        let time = match time.parse::<f64>() {
            Ok(seconds) if (0.0..1e10).contains(&seconds) => Duration::from_nanos((seconds * 1e9) as u64),
            _ => return Err(RecordingError::new(file, line, format!("'{time}' is no number of seconds"))),
        };
        if events.last().is_some_and(|(last, ..)| *last > time) {
            return Err(RecordingError::new(file, line, format!("time goes back to {} s", time.as_secs_f64())));
        }
        if a == b {
            return Err(RecordingError::new(file, line, format!("'{a}' cannot meet itself")));
        }
        events.push((time, a, b, state));
    }
    if !contacts.is_empty() {
        for ((a, b), of_pair) in contacts {
            for (from, to) in united(of_pair) {
                events.extend([(from, a, b, LinkState::Up), (to, a, b, LinkState::Down)]);
            }
        }
        events.sort_by_key(|(time, ..)| *time);
    }
    let names: BTreeSet<&str> = events.iter().flat_map(|(_, a, b, _)| [*a, *b]).collect();
    if names.is_empty() {
        return Err(RecordingError::new(file, 0, "it has no contacts"));
    }
    if names.len() > NODES_MAX {
        return Err(RecordingError::new(file, 0, format!("it has {} nodes, more than {NODES_MAX}", names.len())));
    }
    let indices: BTreeMap<&str, usize> = names.iter().copied().zip(0..).collect();
    let mut steps: BTreeMap<(usize, usize), Vec<(Duration, LinkState)>> = BTreeMap::new();
    for (time, a, b, state) in &events {
        let (a, b) = (indices[a], indices[b]);
        let steps = steps.entry((a.min(b), a.max(b))).or_insert_with(|| vec![(Duration::ZERO, LinkState::Down)]);
        let at = time.saturating_sub(start);
        if at.is_zero() {
            // Before or at the start: only the last word counts.
            steps[0].1 = *state;
        } else if steps.last().is_some_and(|(_, last)| last != state) {
            steps.push((at, *state));
        }
    }
    let script = |steps: Vec<(Duration, LinkState)>| {
        Script::new(steps.into_iter().map(|(at, state)| (at, LinkChange::State(state))), None)
    };
    Ok(Contacts {
        nodes: names.into_iter().map(str::to_string).collect(),
        pairs: steps.into_iter().map(|(pair, steps)| (pair, script(steps))).collect(),
        duration: events.last().map_or(Duration::ZERO, |(time, ..)| time.saturating_sub(start)),
    })
}

/// A contact as a line of two nodes and two times; `None` for a line of another kind.
type Contact<'a> = (&'a str, &'a str, Result<(Duration, Duration), String>);
fn contact<'a>(words: &[&'a str]) -> Option<Contact<'a>> {
    let [a, b, start, end, ..] = words else { return None };
    let seconds = |word: &str| word.parse::<f64>().ok().filter(|seconds| (0.0..1e10).contains(seconds));
    if words[2..].iter().any(|word| seconds(word).is_none()) {
        return None;
    }
    let (start, end) = (seconds(start)?, seconds(end)?);
    let time = |seconds: f64| Duration::from_nanos((seconds * 1e9) as u64);
    let row =
        if end < start { Err(format!("it ends at {end} s, before it begins")) } else { Ok((time(start), time(end))) };
    Some((a, b, row))
}
/// The union of one pair's contacts, which each end recorded separately.
fn united(mut contacts: Vec<(Duration, Duration)>) -> Vec<(Duration, Duration)> {
    contacts.sort_unstable();
    let mut united: Vec<(Duration, Duration)> = Vec::new();
    for (from, to) in contacts {
        match united.last_mut() {
            Some((_, end)) if from <= *end => *end = to.max(*end),
            _ => united.push((from, to)),
        }
    }
    united
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str =
        "0\tCONN\t0\t7\tup\n0\tCONN\t0\t7\tdown\n10 CONN 7 0 up\n20 CONN 0 7 up\n30 CONN 0 7 down\n35 CONN 1 7 up\n";

    #[test]
    fn contacts_become_scripts_of_pairs() {
        let contacts = parse("x", FILE, Duration::ZERO).expect("it is right");
        assert_eq!(contacts.nodes, ["0", "1", "7"]);
        let state = |seconds, state| (Duration::from_secs(seconds), LinkChange::State(state));
        let (up, down) = (LinkState::Up, LinkState::Down);
        assert_eq!(contacts.pairs[&(0, 2)].steps(), [state(0, down), state(10, up), state(30, down)]);
        assert_eq!(contacts.contact_time(), Duration::from_secs(20));
        let later = parse("x", FILE, Duration::from_secs(15)).expect("it is right");
        assert_eq!(later.pairs[&(0, 2)].steps(), [state(0, up), state(15, down)]);
    }

    #[test]
    fn a_line_per_contact_is_read_as_well() {
        // The second line is the same contact, recorded by the other end.
        let text = "3 1 40 50 1 0\n1 7 10 25 1 0\n7 1 20 30 1 0\n";
        let contacts = parse("x", text, Duration::ZERO).expect("it is right");
        assert_eq!(contacts.nodes, ["1", "3", "7"]);
        assert_eq!(contacts.contact_time(), Duration::from_secs(30));
        let steps = contacts.pairs[&(0, 2)].steps();
        assert_eq!(steps.iter().map(|(at, _)| at.as_secs()).collect::<Vec<_>>(), [0, 10, 30]);
        let error = parse("x", "1 2 50 40\n", Duration::ZERO).expect_err("it ends before it begins");
        assert_eq!(error.to_string(), "x:1: it ends at 40 s, before it begins");
    }

    #[test]
    fn what_the_one_passes_over_is_passed_over() {
        let text = "# Haggle\n\n0 C M1 0 7 500k\n1 CONN 0 7 UP bt0\r\n1.5 S M1 0 7\n2 DE M1 0 7\n9 CONN 7 0 Down x y\n9 DR * 7\n";
        let contacts = parse("x", text, Duration::ZERO).expect("it is right");
        assert_eq!((contacts.nodes.len(), contacts.contact_time()), (2, Duration::from_secs(8)));
        assert_eq!(parse("x", "1 S M1\n", Duration::ZERO).map_err(|error| error.line), Err(1));
        assert_eq!(parse("x", "# nothing\n", Duration::ZERO).map_err(|error| error.line), Err(0));
        assert_eq!(parse("x", "1 CONN a a up\n", Duration::ZERO).map_err(|error| error.line), Err(1));
    }

    #[test]
    fn errors_name_file_and_line() {
        let wrong = |from: &str, to: &str| {
            parse("x.tsv", &FILE.replace(from, to), Duration::ZERO).expect_err("wrong").to_string()
        };
        assert_eq!(
            wrong("10 CONN", "10 MSG"),
            "x.tsv:3: a line is: time CONN node node up|down, or: node node start end"
        );
        assert_eq!(wrong("35", "25"), "x.tsv:6: time goes back to 25 s");
        assert_eq!(wrong("1 7 up", "1 7 maybe"), "x.tsv:6: 'maybe' is neither up nor down");
    }
}
