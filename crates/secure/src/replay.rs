//! Which packet numbers of a session have been seen.

/// A sliding window over packet numbers: each is accepted once, and old ones not at all.
///
/// Packets of one session may overtake each other by as much as the window is wide: several receive queues of a network
/// card, and paths below us that stripe, do that.
#[derive(Clone, Debug)]
pub(crate) struct ReplayWindow {
    /// The next number after the highest one that was seen.
    next: u64,
    /// Whether each of the last [`WINDOW`] numbers was seen, by the number modulo the window.
    seen: [u64; WORDS],
}

const WORDS: usize = 64;
/// Numbers that are remembered.
pub(crate) const WINDOW: u64 = WORDS as u64 * 64;

impl ReplayWindow {
    pub(crate) fn new() -> Self {
        ReplayWindow { next: 0, seen: [0; WORDS] }
    }
    /// The number after the highest one that was seen.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }
    /// Whether a number is new, and not older than the window.
    pub(crate) fn is_new(&self, number: u64) -> bool {
        number >= self.next || number + WINDOW >= self.next && self.seen[word(number)] & bit(number) == 0
    }
    /// Remembers a new number. Call it only for authenticated packets.
    pub(crate) fn insert(&mut self, number: u64) {
        if number >= self.next {
            if number - self.next >= WINDOW {
                self.seen = [0; WORDS];
            } else {
                (self.next..number).for_each(|skipped| self.seen[word(skipped)] &= !bit(skipped));
            }
            self.next = number + 1;
        }
        self.seen[word(number)] |= bit(number);
    }
    /// The 64-bit number whose lower 32 bits are `low` and that is nearest to the next one (as in RFC 9000, appendix
    /// A.3).
    pub(crate) fn expand(&self, low: u32) -> u64 {
        const SPAN: u64 = 1 << 32;
        let candidate = self.next & !(SPAN - 1) | u64::from(low);
        if candidate + SPAN / 2 < self.next {
            candidate + SPAN
        } else if candidate > self.next + SPAN / 2 && candidate >= SPAN {
            candidate - SPAN
        } else {
            candidate
        }
    }
}

fn word(number: u64) -> usize {
    (number / 64) as usize % WORDS
}
fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn accepts_what_a_set_of_all_numbers_would_within_the_window(steps in prop::collection::vec((any::<bool>(), 0u64..6_000), 1..300)) {
            let (mut window, mut seen, mut highest) = (ReplayWindow::new(), BTreeSet::new(), None::<u64>);
            let mut at = 0u64;
            for (ahead, step) in steps {
                let number = if ahead { at + step } else { at.saturating_sub(step) };
                at = at.max(number);
                let is_recent = highest.is_none_or(|highest| number + WINDOW > highest);
                prop_assert_eq!(window.is_new(number), is_recent && !seen.contains(&number));
                if window.is_new(number) {
                    window.insert(number);
                    seen.insert(number);
                    highest = highest.max(Some(number));
                }
            }
        }
        #[test]
        fn expands_what_is_within_two_billion_of_the_next(next in 0u64..1 << 40, off in -(1i64 << 31) + 1..1i64 << 31) {
            let mut window = ReplayWindow::new();
            window.next = next;
            let number = next.saturating_add_signed(off);
            prop_assert_eq!(window.expand(number as u32), number);
        }
    }
}
