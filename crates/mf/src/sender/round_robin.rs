//! The order in which flows send.
use core::ops::Bound::{Excluded, Included, Unbounded};

use super::*;

/// Flows that have something to send, by destination and by the size of their chunks.
///
/// A round offers flows in the order of their ids, starting after the last sender. If a chunk does not fit into a
/// destination's window, no larger one does: the round skips all of those. Sizes are classed by powers of two, so a
/// round tries a few flows per destination regardless of their number.
#[derive(Default)]
pub(super) struct Turns {
    lines: BTreeMap<Guid, BTreeMap<u32, BTreeSet<u32>>>,
}

/// One round through [`Turns`].
pub(super) struct Round {
    last: FlowId,
    part: Part,
    /// Where the round is: the destination, and its transfer that was offered last.
    to: Guid,
    after: Option<u32>,
    /// The size class of the flow offered last, and of the flows to its destination that do not fit.
    offered: u32,
    refused_from: u32,
}

/// Which destinations a round is at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The destination of the last sender, starting with its later transfers.
    Rest,
    /// Those behind it.
    Behind,
    /// Those before it.
    Before,
    /// It again, up to the flow that sent last.
    Begin,
}

/// Classes of flow sizes.
pub(super) fn size_class(bytes: u32) -> u32 {
    u32::BITS - bytes.leading_zeros()
}

impl Turns {
    /// A flow has something to send.
    pub(super) fn insert(&mut self, (to, transfer): FlowId, size: u32) {
        self.lines.entry(to).or_default().entry(size).or_default().insert(transfer);
    }
    /// The flow has nothing left to send.
    pub(super) fn remove(&mut self, (to, transfer): &FlowId, size: u32) {
        let Some(line) = self.lines.get_mut(to) else { return };
        let Some(transfers) = line.get_mut(&size) else { return };
        transfers.remove(transfer);
        if transfers.is_empty() {
            line.remove(&size);
        }
        if line.is_empty() {
            self.lines.remove(to);
        }
    }
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
    /// The next flow of a round.
    pub(super) fn next(&self, round: &mut Round) -> Option<FlowId> {
        loop {
            if let Some((transfer, size)) = self.next_in_line(round) {
                (round.after, round.offered) = (Some(transfer), size);
                return Some((round.to, transfer));
            }
            self.advance(round)?;
        }
    }
    /// The next transfer to the destination that a round is at, and its size.
    fn next_in_line(&self, round: &Round) -> Option<(u32, u32)> {
        let after = round.after.map_or(Unbounded, Excluded);
        let line = self.lines.get(&round.to)?.range(..round.refused_from);
        let firsts = line.filter_map(|(size, transfers)| Some((*transfers.range((after, Unbounded)).next()?, *size)));
        firsts.min().filter(|(transfer, _)| round.part != Part::Begin || *transfer <= round.last.1)
    }
    /// Advances to the next destination; `None` at the end of the round.
    fn advance(&self, round: &mut Round) -> Option<()> {
        (round.after, round.refused_from) = (None, u32::MAX);
        let last = round.last.0;
        if matches!(round.part, Part::Rest | Part::Behind) {
            if let Some((to, _)) = self.lines.range((Excluded(round.to), Unbounded)).next() {
                (round.part, round.to) = (Part::Behind, *to);
                return Some(());
            }
            if let Some((to, _)) = self.lines.range(..last).next() {
                (round.part, round.to) = (Part::Before, *to);
                return Some(());
            }
        } else if round.part == Part::Before
            && let Some((to, _)) = self.lines.range((Excluded(round.to), Included(last))).next()
            && *to != last
        {
            round.to = *to;
            return Some(());
        }
        (round.part != Part::Begin).then(|| (round.part, round.to) = (Part::Begin, last))
    }
}

impl Round {
    /// A round that starts after the last sender.
    pub(super) fn after(last: FlowId) -> Round {
        Round { last, part: Part::Rest, to: last.0, after: Some(last.1), offered: 0, refused_from: u32::MAX }
    }
    /// The flow offered last does not fit.
    pub(super) fn refuse(&mut self) {
        self.refused_from = self.offered;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guid(number: u8) -> Guid {
        Guid([number; 20])
    }
    /// Everything that a round after `last` offers if sizes below `room` fit at destination 2, and any size elsewhere.
    fn offered(turns: &Turns, last: (u8, u32), room: u32) -> Vec<(u8, u32)> {
        let mut round = Round::after((guid(last.0), last.1));
        let mut offered = Vec::new();
        while let Some((to, transfer)) = turns.next(&mut round) {
            offered.push((to.0[0], transfer));
            if to == guid(2) && round.offered >= room {
                round.refuse();
            }
        }
        offered
    }

    #[test]
    fn a_round_offers_each_flow_once_after_the_last_one_that_sent() {
        let mut turns = Turns::default();
        assert_eq!(offered(&turns, (2, 5), 99), []);
        let all = [(1, 7), (2, 0), (2, 5), (2, 6), (2, 9), (4, 1)];
        for (to, transfer) in all {
            turns.insert((guid(to), transfer), transfer % 3);
        }
        assert_eq!(offered(&turns, (2, 5), 99), [(2, 6), (2, 9), (4, 1), (1, 7), (2, 0), (2, 5)]);
        assert_eq!(offered(&turns, (3, 1), 99), [(4, 1), (1, 7), (2, 0), (2, 5), (2, 6), (2, 9)]);
        assert_eq!(offered(&turns, (0, 0), 99), all);
        assert_eq!(offered(&turns, (4, 1), 99), all);
        assert_eq!(offered(&turns, (9, 1), 99), all);
        all.into_iter().for_each(|(to, transfer)| turns.remove(&(guid(to), transfer), transfer % 3));
        assert!(turns.is_empty());
    }

    #[test]
    fn what_is_as_large_as_what_has_no_room_is_passed_and_what_is_smaller_is_not() {
        let mut turns = Turns::default();
        // Sizes 7, 4, 1, 4, 1 …
        (0..1_000).for_each(|transfer| turns.insert((guid(2), transfer), 1 + (transfer + 2) % 3 * 3));
        turns.insert((guid(3), 1), 7);
        let small: Vec<(u8, u32)> =
            (0..1_000).filter(|transfer| transfer % 3 == 1).map(|transfer| (2, transfer)).collect();
        // The first flows of size 7 and of size 4 do not fit; all of size 1 do.
        let expected = [&[(2, 0), (2, 1), (2, 2)], &small[1..], &[(3, 1)]].concat();
        assert_eq!(offered(&turns, (1, 0), 2), expected);
        assert_eq!(offered(&turns, (1, 0), 0), [(2, 0), (2, 1), (3, 1)]);
    }
}
