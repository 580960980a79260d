//! Bounds repeated lines of the log: senders of datagrams must not be able to fill a disk.
use std::{collections::BTreeMap, fmt, sync::LazyLock};

use parking_lot::Mutex;
use tributary_core::{Duration, Time};
use tributary_net::Clock;

/// Lines of one kind about one source that may follow each other, and the interval of later ones.
const PER_SOURCE: Limit = Limit { burst: 8, interval: Duration::from_secs(10) };
/// The same about all sources together.
const PER_KIND: Limit = Limit { burst: 40, interval: Duration::from_secs(1) };
/// Kinds of lines that are counted separately; further ones count as one.
const KINDS_MAX: usize = 256;
/// Sources of one kind that are counted separately; for further ones only the limit of the kind counts.
const SOURCES_MAX: usize = 256;
/// Interval of summaries of omitted lines, if no line of the kind appears.
const SUMMARY: Duration = Duration::from_secs(10);

/// Logs a warning that peers can cause at will: at most as many lines of one kind, and about one source, as the log's
/// limits allow.
pub fn warn_bounded(text: &str) {
    static SHARED: LazyLock<(Clock, Mutex<LogLimit>)> = LazyLock::new(|| (Clock::new(), Mutex::default()));
    let (clock, limit) = &*SHARED;
    // It is whole between any two statements.
    let admitted = limit.lock().admit(clock.now(), text);
    if let Some(left_out) = admitted {
        tracing::warn!("{text}{left_out}");
    }
}

/// How many lines of a kind were left out before one that is written; shown behind that.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct LeftOut(pub(crate) u64);

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            count => write!(f, " ({count} lines like it were left out)"),
        }
    }
}

/// Decides which lines are written.
#[derive(Debug, Default)]
pub(crate) struct LogLimit {
    kinds: BTreeMap<String, Kind>,
    summary_at: Time,
}

#[derive(Debug, Default)]
struct Kind {
    all: Bucket,
    sources: BTreeMap<String, Bucket>,
    left_out: u64,
}

#[derive(Clone, Copy)]
struct Limit {
    burst: u32,
    interval: Duration,
}

/// When the lines so far are within the rate.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    paid_off: Time,
}
impl Bucket {
    fn has(self, now: Time, limit: Limit) -> bool {
        self.paid_off <= now + limit.interval * (limit.burst - 1)
    }
    fn take(&mut self, now: Time, limit: Limit) {
        self.paid_off = self.paid_off.max(now) + limit.interval;
    }
}

impl LogLimit {
    /// Whether to write a line, and how many of its kind were omitted before it.
    pub(crate) fn admit(&mut self, now: Time, text: &str) -> Option<LeftOut> {
        let (mut kind, source) = shape(text);
        if self.kinds.len() >= KINDS_MAX && !self.kinds.contains_key(&kind) {
            kind.clear();
        }
        let kind = self.kinds.entry(kind).or_default();
        if !kind.all.has(now, PER_KIND) {
            kind.left_out += 1;
            return None;
        }
        if kind.sources.len() >= SOURCES_MAX && !kind.sources.contains_key(&source) {
            // Silent sources start again.
            kind.sources.retain(|_, bucket| bucket.paid_off > now);
        }
        let has_room = kind.sources.len() < SOURCES_MAX || kind.sources.contains_key(&source);
        let of_source = has_room.then(|| kind.sources.entry(source).or_default());
        if of_source.as_ref().is_some_and(|bucket| !bucket.has(now, PER_SOURCE)) {
            kind.left_out += 1;
            return None;
        }
        kind.all.take(now, PER_KIND);
        of_source.into_iter().for_each(|bucket| bucket.take(now, PER_SOURCE));
        Some(LeftOut(std::mem::take(&mut kind.left_out)))
    }
    /// Periodic summaries of suppressed kinds without later lines: the number of lines, and an example.
    pub(crate) fn summaries(&mut self, now: Time) -> Vec<(u64, String)> {
        if now < self.summary_at {
            return Vec::new();
        }
        self.summary_at = now + SUMMARY;
        let left_out = self.kinds.iter_mut().filter(|(_, kind)| kind.left_out > 0);
        let summaries = left_out.map(|(shape, kind)| (std::mem::take(&mut kind.left_out), shape.clone())).collect();
        // A silent kind starts again.
        self.kinds.retain(|_, kind| kind.all.paid_off > now);
        summaries
    }
}

/// The common shape of a kind of lines, and their source: words with digits, such as faces, addresses and GUIDs, and
/// quoted text are replaced. The first of them is the source.
fn shape(text: &str) -> (String, String) {
    let (mut kind, mut source, mut quoted) = (String::with_capacity(text.len()), String::new(), false);
    for word in text.split_whitespace() {
        let quotes = word.matches('\'').count();
        let is_hidden = quoted || quotes > 0 || word.contains(|character: char| character.is_ascii_digit());
        if quotes % 2 == 1 {
            quoted = !quoted;
        }
        if is_hidden && source.is_empty() {
            source = word.into();
        }
        if !kind.is_empty() {
            kind.push(' ');
        }
        kind.push_str(if is_hidden { "…" } else { word });
        // The start of a long line determines its kind.
        if kind.len() > SHAPE_BYTES_MAX {
            break;
        }
    }
    (kind, source)
}
const SHAPE_BYTES_MAX: usize = 160;

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(limit: &mut LogLimit, count: u64, pause: Duration, text: impl Fn(u64) -> String) -> (u64, u64) {
        let (mut now, mut written, mut left_out) = (Time::from_millis(1_000), 0, 0);
        for number in 0..count {
            now += pause;
            if let Some(before) = limit.admit(now, &text(number)) {
                written += 1;
                left_out += before.0;
            }
            left_out += limit.summaries(now).iter().map(|(count, _)| count).sum::<u64>();
        }
        left_out += limit.summaries(now + SUMMARY).iter().map(|(count, _)| count).sum::<u64>();
        (written, left_out)
    }

    #[test]
    fn forged_datagrams_write_few_lines_and_all_that_were_left_out_are_counted() {
        for (count, sources) in [(7_200, 500), (7_200, 7_200), (20_000, 1)] {
            let mut limit = LogLimit::default();
            let pause = Duration::from_micros(50);
            let text = |number| format!("face-{} is 192.0.2.1:{}", number % sources, number % sources);
            let (written, left_out) = lines(&mut limit, count, pause, text);
            assert!(written <= 60, "{written} lines about {count} datagrams from {sources} sources");
            assert_eq!(written + left_out, count);
        }
        let mut limit = LogLimit::default();
        let text = |number| format!("'{}' of a stranger's making {number}", "x".repeat(number as usize % 50));
        assert!(lines(&mut limit, 10_000, Duration::from_millis(1), text).0 < 100);
    }

    #[test]
    fn who_makes_much_noise_does_not_hide_others() {
        let mut limit = LogLimit::default();
        let now = Time::from_millis(1_000);
        let noisy = (0..1_000).filter(|_| limit.admit(now, "face-1 is down: hellos missed").is_some()).count();
        assert_eq!(noisy, 8);
        assert_eq!(limit.admit(now, "face-2 is down: hellos missed"), Some(LeftOut(992)));
        assert_eq!(limit.admit(now, "topology manager tm is silent"), Some(LeftOut(0)));
    }

    #[test]
    fn what_happens_now_and_then_is_always_written() {
        let mut limit = LogLimit::default();
        let text = |number| format!("face-1 is down: the neighbour restarted {number}");
        assert_eq!(lines(&mut limit, 500, Duration::from_secs(10), text), (500, 0));
    }

    #[test]
    fn the_memory_of_lines_is_bounded() {
        let mut limit = LogLimit::default();
        for number in 0..20_000u64 {
            let word: String = number.to_string().bytes().map(|digit| char::from(digit + b'A' - b'0')).collect();
            limit.admit(Time::from_millis(1_000), &format!("{word} face-{number}"));
            limit.admit(Time::from_millis(1_000), &format!("one kind face-{number}"));
        }
        assert!(limit.kinds.len() <= KINDS_MAX + 1);
        assert!(limit.kinds.values().all(|kind| kind.sources.len() <= SOURCES_MAX));
    }
}
