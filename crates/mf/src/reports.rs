//! Reports with a counter per sender, so that a delayed one does not count as new.
use tributary_core::{Duration, Time};

/// No report is delayed this long: one with a lower number comes from a restarted sender whose count starts again.
const OVERTAKEN: Duration = Duration::from_secs(2);

/// The last report of a sender.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Reports {
    sequence: u32,
    at: Time,
}

impl Reports {
    /// Whether a report with this number is news; then it is the last one.
    pub(crate) fn is_news(&mut self, now: Time, sequence: u32) -> bool {
        let is_news = sequence > self.sequence || now.since(self.at) >= OVERTAKEN;
        if is_news {
            (self.sequence, self.at) = (sequence, now);
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_counts_from_one_again_is_heard_and_what_was_overtaken_is_not() {
        let (mut reports, now) = (Reports::default(), Time::from_millis(5_000));
        assert!(reports.is_news(now, 7));
        let later = now + OVERTAKEN.mul_f64(0.5);
        assert!(!reports.is_news(later, 7) && !reports.is_news(later, 6));
        assert!(reports.is_news(now + OVERTAKEN, 1));
        assert!(reports.is_news(now + OVERTAKEN, 2));
    }
}
