//! How long a fetch waits for sources that do not answer.
use tributary_core::{Duration, Time};

/// A timeout that is handled so late was not missed by the sources: this end stood still itself, as a process that is
/// stopped or a machine that sleeps does.
const STOOD_STILL: Duration = Duration::from_secs(1);

/// Ends a fetch when no source has answered for its patience.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Patience {
    /// `None` waits for ever.
    limit: Option<Duration>,
    since: Time,
}

impl Patience {
    /// Waits from `now` for at most `limit`; `None` waits forever.
    pub fn new(now: Time, limit: Option<Duration>) -> Patience {
        Patience { limit, since: now }
    }
    /// Waits from `now`: a source has answered, or it is not the sources that hold the fetch up.
    pub fn restart(&mut self, now: Time) {
        self.since = now;
    }
    /// The same if this node handles only now a timeout that was due long ago. Whether that is so.
    pub fn restart_after_standstill(&mut self, now: Time, due: Option<Time>) -> bool {
        let stood_still = due.is_some_and(|due| now.since(due) >= STOOD_STILL);
        if stood_still {
            self.restart(now);
        }
        stood_still
    }
    /// Since when no source has answered.
    pub fn since(&self) -> Time {
        self.since
    }
    /// How long it waits; zero if it waits for ever.
    pub fn limit(&self) -> Duration {
        self.limit.unwrap_or_default()
    }
    /// When it runs out; `None` for never.
    pub fn deadline(&self) -> Option<Time> {
        Some(self.since + self.limit?)
    }
    /// Whether it has run out.
    pub fn is_over(&self, now: Time) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_anew_after_an_answer_and_after_a_standstill_of_this_node() {
        let (second, now) = (Duration::from_secs(1), Time::from_millis(10_000));
        let mut patience = Patience::new(now, Some(second * 5));
        assert!(!patience.is_over(now + second * 4) && patience.is_over(now + second * 5));
        patience.restart(now + second * 4);
        assert!(!patience.is_over(now + second * 8));
        patience.restart_after_standstill(now + second * 9, Some(now + second * 9 - second / 2));
        assert!(patience.is_over(now + second * 9), "a timeout may be handled a little late");
        patience.restart_after_standstill(now + second * 60, Some(now + second * 9));
        assert!(!patience.is_over(now + second * 60));
        assert_eq!(Patience::new(now, None).deadline(), None);
    }
}
