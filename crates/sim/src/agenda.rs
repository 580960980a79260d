//! The earliest deadline: a tournament between all participants.
use tributary_core::Time;

/// Deadlines of numbered participants, earliest first; equal times in the order in which they were set.
///
/// Each participant has one place for any deadline, so the size of the tournament depends on the network, not on the
/// packets in flight. A changed deadline replays the matches between its place and the top: one comparison a level,
/// where a heap needs two, and it stops at the first match with an unchanged winner.
/// ```text
///              entries[1]                    the earliest of all
///         entries[2]      entries[3]
///        0         1     2         3         participants
/// ```
#[derive(Clone, Debug, Default)]
pub struct Agenda {
    /// Entry `i` is the winner of the match between entries `2 i` and `2 i + 1`; the upper half, a power of two in
    /// length, holds the participants.
    entries: Vec<Entry>,
    /// How many take part.
    participants: usize,
    /// How many of them have a deadline.
    len: usize,
    sequence: u64,
}

/// A participant and its sort key, so that a match reads no other memory.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Its deadline above, and below it the number of the call that set it; or [`NEVER`].
    key: u128,
    participant: u32,
}

/// Later than every deadline.
const NEVER: u128 = u128::MAX;

impl Agenda {
    /// An empty tournament.
    pub fn new() -> Self {
        Agenda::default()
    }
    /// Adds a participant without a deadline and returns its number: 0, 1, 2, …
    pub fn add(&mut self) -> u32 {
        let number = u32::try_from(self.participants).expect("fewer than 2^32 participants fit into memory");
        self.participants += 1;
        let (before, width) = (self.entries.len() / 2, self.participants.next_power_of_two());
        if width > before {
            let fresh = (before..width).map(|index| Entry { key: NEVER, participant: index as u32 });
            let all: Vec<Entry> = self.entries.drain(before..).chain(fresh).collect();
            self.entries.clear();
            self.entries.extend_from_slice(&all);
            self.entries.extend(all);
            for place in (1..width).rev() {
                let [left, right] = [self.entries[2 * place], self.entries[2 * place + 1]];
                self.entries[place] = if right.key < left.key { right } else { left };
            }
        }
        number
    }
    /// Sets, moves or (`None`) removes the deadline of a participant. An unchanged deadline keeps its place.
    ///
    /// # Panics
    /// If the participant does not exist.
    #[inline]
    pub fn set(&mut self, participant: u32, due: Option<Time>) {
        assert!((participant as usize) < self.participants, "there are {} participants", self.participants);
        let key = self.entries[self.entries.len() / 2 + participant as usize].key;
        let is_same = match due {
            Some(due) => key != NEVER && (key >> 64) as u64 == due.as_nanos(),
            None => key == NEVER,
        };
        if !is_same {
            self.change(participant, due);
        }
    }
    /// The earliest deadline and its participant.
    #[inline]
    pub fn next(&self) -> Option<(Time, u32)> {
        let first = self.entries.get(1)?;
        (first.key != NEVER).then(|| (Time::from_nanos((first.key >> 64) as u64), first.participant))
    }

    /// How many participants have a deadline.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether no participant has a deadline.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Changes the deadline of a participant, and plays the matches from its place up.
    #[inline(never)]
    fn change(&mut self, participant: u32, due: Option<Time>) {
        let entries = &mut self.entries[..];
        let mut place = entries.len() / 2 + participant as usize;
        let mut winner = Entry { key: NEVER, participant };
        if let Some(due) = due {
            self.sequence += 1;
            winner.key = u128::from(due.as_nanos()) << 64 | u128::from(self.sequence);
        }
        self.len += usize::from(entries[place].key == NEVER);
        self.len -= usize::from(winner.key == NEVER);
        entries[place] = winner;
        while place > 1 {
            let rival = &entries[place ^ 1];
            if rival.key < winner.key {
                winner = *rival;
            }
            place /= 2;
            let before = &mut entries[place];
            if before.participant == winner.participant && winner.participant != participant {
                break;
            }
            *before = winner;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use tributary_core::Random;

    #[test]
    fn agrees_with_a_sorted_map_over_random_operations() {
        let (mut agenda, mut random) = (Agenda::new(), Random::new(3, 3));
        let mut model: BTreeMap<u32, (Time, u64)> = BTreeMap::new();
        let mut participants = 0;
        for step in 0..50_000 {
            if step % 2_000 == 0 {
                assert_eq!(agenda.add(), participants);
                participants += 1;
            }
            let participant = random.below(u64::from(participants)) as u32;
            let due = (random.below(4) > 0).then(|| Time::from_nanos(random.below(50)));
            agenda.set(participant, due);
            match due {
                Some(due) if model.get(&participant).is_none_or(|(before, _)| *before != due) => {
                    model.insert(participant, (due, step));
                }
                Some(_) => {}
                None => {
                    model.remove(&participant);
                }
            }
            let expected = model.iter().min_by_key(|(_, key)| **key).map(|(who, (due, _))| (*due, *who));
            assert_eq!((agenda.next(), agenda.len()), (expected, model.len()));
        }
    }
}
