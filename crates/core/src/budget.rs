//! A bound on how often something costly is done.
use crate::Time;

/// How often something was done lately. It may be done some times in a row, and is regained with time.
#[derive(Clone, Copy, Default, Debug)]
pub struct Budget {
    spent: u32,
    since: Time,
}

impl Budget {
    /// Whether one more is allowed with a burst of `most` and `per_second` a second; if so, counts it.
    pub fn take(&mut self, now: Time, most: u32, per_second: u64) -> bool {
        let regained = now.since(self.since).as_millis() as u64 * per_second / 1_000;
        // Only then does the clock advance: otherwise each call during a flood would lose its fraction of a token.
        if regained > 0 {
            *self = Budget { spent: self.spent.saturating_sub(regained.min(u64::from(u32::MAX)) as u32), since: now };
        }
        let may = self.spent < most;
        self.spent += u32::from(may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Duration;

    #[test]
    fn a_flood_gets_its_share_and_no_more_however_often_it_asks() {
        let mut budget = Budget::default();
        // Ten questions in each millisecond of ten seconds.
        let at = |number: u64| Time::ZERO + Duration::from_micros(number * 100);
        let granted = (0..100_000).filter(|number| budget.take(at(*number), 50, 200)).count();
        assert!((2_000..=2_050).contains(&granted), "{granted}");
    }
}
