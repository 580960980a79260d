//! Contacts as the ONE simulator's `StandardEventsReader` has them: who came near whom, and left.
//! ```text
//! time<TAB>CONN<TAB>node<TAB>node<TAB>up|down        (seconds)
//! ```
use std::collections::{BTreeMap, BTreeSet};
use tributary_core::{
    Duration,
    link::{LinkChange, LinkState, Script},
};

use super::RecordingError;

/// Who met whom, and when.
#[derive(Clone, PartialEq, Debug)]
pub struct Contacts {
    /// The names of all nodes, in order.
    pub nodes: Vec<String>,
    /// For each pair of indices that ever met, its script: down at first, up and down with each contact, once only.
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

/// Reads contacts from `start` on, which becomes time zero; `file` is what errors call it. What is up then is up from
/// the beginning. An `up` while up and a `down` while down change nothing.
///
/// # Errors
/// [`RecordingError`] if a line is no event, or time goes back.
pub fn parse(file: &str, text: &str, start: Duration) -> Result<Contacts, RecordingError> {
    let mut events: Vec<(Duration, &str, &str, LinkState)> = Vec::new();
    for (line, text) in text.lines().enumerate().map(|(index, text)| (index + 1, text.trim())) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let [time, "CONN", a, b, state] = words[..] else {
            return Err(RecordingError::new(file, line, "a line is: time CONN node node up|down"));
        };
        let state = match state {
            "up" => LinkState::Up,
            "down" => LinkState::Down,
            other => return Err(RecordingError::new(file, line, format!("'{other}' is neither up nor down"))),
        };
        let time = match time.parse::<f64>() {
            Ok(seconds) if (0.0..1e10).contains(&seconds) => Duration::from_nanos((seconds * 1e9) as u64),
            _ => return Err(RecordingError::new(file, line, format!("'{time}' is no number of seconds"))),
        };
        if events.last().is_some_and(|(last, ..)| *last > time) {
            return Err(RecordingError::new(file, line, format!("time goes back to {} s", time.as_secs_f64())));
        }
        events.push((time, a, b, state));
    }
    let names: BTreeSet<&str> = events.iter().flat_map(|(_, a, b, _)| [*a, *b]).collect();
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
    fn errors_name_file_and_line() {
        let wrong = |from: &str, to: &str| {
            parse("x.tsv", &FILE.replace(from, to), Duration::ZERO).expect_err("wrong").to_string()
        };
        assert_eq!(wrong("10 CONN", "10 MSG"), "x.tsv:3: a line is: time CONN node node up|down");
        assert_eq!(wrong("35", "25"), "x.tsv:6: time goes back to 25 s");
        assert_eq!(wrong("1 7 up", "1 7 maybe"), "x.tsv:6: 'maybe' is neither up nor down");
    }
}
