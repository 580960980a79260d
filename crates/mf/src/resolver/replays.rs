//! Which numbers somebody has used: what is repeated by somebody else is known by its number.

/// Numbers that are remembered behind the highest one; what was held up longer on its way counts as repeated.
const WINDOW: u64 = 1_024;

/// The numbers of one sender, who counts up and uses none twice (RFC 6479).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Replays {
    highest: u64,
    seen: [u64; WINDOW as usize / 64],
}

impl Replays {
    /// Whether a number, from 1 on, was not used yet; from now on it was.
    pub fn is_new(&mut self, number: u64) -> bool {
        if number == 0 || number + WINDOW <= self.highest {
            return false;
        }
        for passed in self.highest + 1..=number.min(self.highest + WINDOW) {
            *self.word(passed).0 &= !Replays::bit(passed);
        }
        self.highest = self.highest.max(number);
        let (word, bit) = self.word(number);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
    fn word(&mut self, number: u64) -> (&mut u64, u64) {
        (&mut self.seen[(number % WINDOW / 64) as usize], Replays::bit(number))
    }
    fn bit(number: u64) -> u64 {
        1 << (number % 64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_number_is_new_once_and_never_behind_the_window(
            steps in proptest::collection::vec((0u64..3_000, 0u64..2_000), 1..300)
        ) {
            let (mut replays, mut used, mut highest) = (Replays::default(), BTreeSet::new(), 0);
            for (ahead, back) in steps {
                let number = (highest + ahead).saturating_sub(back);
                let expected = number > 0 && number + WINDOW > highest && !used.contains(&number);
                prop_assert_eq!(replays.is_new(number), expected, "{} after {}", number, highest);
                if expected {
                    used.insert(number);
                    highest = highest.max(number);
                }
            }
        }
    }
}
