//! The numbers that a sender has used: a replayed message is recognised by its number.

/// Numbers remembered behind the highest one; a message delayed for longer counts as a replay.
const WINDOW: u64 = 1_024;

/// The numbers of one sender, which increase and never repeat (RFC 6479).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Replays {
    highest: u64,
    seen: [u64; WINDOW as usize / 64],
    /// Whether a second number was near the first one.
    confirmed: bool,
    /// The last number that was too far ahead.
    doubted: u64,
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
    /// The same for unauthenticated numbers, which may have been changed in transit: a number far ahead would make all
    /// right ones count as replays. It counts if the previous number was the last suspect one, as in RFC 3550, appendix
    /// A.1, and so does any while only one is known.
    pub fn is_new_unproven(&mut self, number: u64) -> bool {
        let is_near = number <= self.highest + WINDOW / 2 && number + WINDOW > self.highest;
        if !is_near && !self.confirmed {
            *self = Replays::default();
        } else if number > self.highest + WINDOW / 2 && core::mem::replace(&mut self.doubted, number) + 1 != number {
            return false;
        }
        self.confirmed |= is_near && self.highest > 0;
        self.is_new(number)
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

    #[test]
    fn a_number_that_was_changed_on_its_way_stops_no_others() {
        let mut replays = Replays::default();
        assert!((700_000..700_010).all(|number| replays.is_new_unproven(number)), "whoever started anew hears of any");
        assert!(!replays.is_new_unproven(3_000_000_000), "changed");
        assert!((700_010..700_020).all(|number| replays.is_new_unproven(number)));
        assert!(replays.is_new_unproven(700_019 + WINDOW / 2), "changed a little");
        assert!((700_020..700_100).all(|number| replays.is_new_unproven(number)));
        assert!((700_000..700_100).all(|number| !replays.is_new_unproven(number)), "repeated");
        // This many were lost.
        assert!(
            !replays.is_new_unproven(800_000) && replays.is_new_unproven(800_001) && replays.is_new_unproven(800_002)
        );
        assert!(!replays.is_new_unproven(700_100), "of long ago");

        let mut first_was_changed = Replays::default();
        assert!(first_was_changed.is_new_unproven(4_000_000_000));
        assert!((1..10).all(|number| first_was_changed.is_new_unproven(number)));
        assert!((1..10).all(|number| !first_was_changed.is_new_unproven(number)), "repeated");
    }

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
