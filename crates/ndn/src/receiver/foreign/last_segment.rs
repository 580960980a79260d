//! Finds the last segment where the first does not name it: some producers put FinalBlockId into the last one only.
//!
//! ```text
//!  0 ─ 1 ─ 2 ─ 4 ─ 8 ─ 16 …      twice as far each time, until nothing comes
//!                 8 ─ 12 ─ 10 …  then halves of what is left, until a segment names the last one
//! ```

/// How often a segment is requested before it counts as missing.
const TRIES: u32 = 2;

/// The findings about the end so far; at first that segment 0 has arrived.
#[derive(Default)]
pub(super) struct EndSearch {
    /// The highest segment received that is not the last one, or does not say so.
    pub low: u64,
    /// The lowest unanswered one.
    high: Option<u64>,
    tries: u32,
}

impl EndSearch {
    /// The segment to request; `None` if none is left that could help.
    pub(super) fn next(&self) -> Option<u64> {
        match self.high {
            None => Some(self.low.saturating_mul(2).max(1)),
            Some(high) => Some(self.low + (high - self.low) / 2).filter(|next| *next > self.low),
        }
    }
    /// A segment has arrived that does not name the last one.
    pub(super) fn on_segment(&mut self, number: u64) {
        self.tries = 0;
        self.low = self.low.max(number);
        self.high = self.high.filter(|high| *high > self.low);
    }
    /// The requested segment has not arrived in time.
    pub(super) fn on_silence(&mut self) {
        self.tries += 1;
        if self.tries >= TRIES {
            self.on_missing();
        }
    }
    /// The producer denies the requested segment.
    pub(super) fn on_missing(&mut self) {
        self.tries = 0;
        self.high = self.next().or(self.high);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches an object with this last segment; returns the number of unanswered requests until it was found.
    fn misses(last: u64) -> u32 {
        let (mut search, mut misses) = (EndSearch::default(), 0);
        loop {
            match search.next().expect("the last one is among those that can be asked for") {
                next if next == last => return misses,
                next if next < last => search.on_segment(next),
                _ => {
                    misses += 1;
                    search.on_missing();
                }
            }
        }
    }

    #[test]
    fn the_last_segment_is_found_with_few_questions_in_vain() {
        for last in (1..300).chain([65_535, 65_536, 1_000_000]) {
            assert!(misses(last) <= 2 + last.ilog2(), "{last}: {}", misses(last));
        }
    }

    #[test]
    fn where_no_segment_says_that_it_is_the_last_the_search_ends() {
        let mut search = EndSearch::default();
        while let Some(next) = search.next() {
            match next <= 5 {
                true => search.on_segment(next),
                false => {
                    search.on_silence();
                    assert_eq!(search.next(), Some(next), "it is asked for twice");
                    search.on_silence();
                }
            }
        }
        assert_eq!(search.low, 5);
    }
}
