//! Who is next: a tournament between all participants.
use tributary_core::Time;

/// Deadlines of numbered participants, earliest first; equal times in the order in which they were set.
///
/// Each participant has one place, whatever its deadline, so the tournament stays as small as the network however many
/// packets are under way. A deadline that moves plays the matches on the way from its place to the top anew: one
/// comparison a level, where a heap needs two, and none once a match ends as before.
/// ```text
///              winners[1]                    the earliest of all
///         winners[2]      winners[3]
///        0         1     2         3         participants
/// ```
#[derive(Clone, Debug, Default)]
pub struct Agenda {
    /// For each participant its deadline above, and below it the number of the call that set it; or [`NEVER`]. There is
    /// room for a power of two.
    keys: Vec<u128>,
    /// Match `i` is between the winners of matches `2 i` and `2 i + 1`; those beyond the last match are the participants.
    winners: Vec<u32>,
    /// How many take part.
    participants: usize,
    /// How many of them have a deadline.
    len: usize,
    sequence: u64,
}

/// Later than every deadline.
const NEVER: u128 = u128::MAX;

impl Agenda {
    /// Nobody takes part.
    pub fn new() -> Self {
        Agenda::default()
    }
    /// Adds a participant without a deadline and gives its number: 0, 1, 2, …
    pub fn add(&mut self) -> u32 {
        let number = u32::try_from(self.participants).expect("fewer than 2^32 participants fit into memory");
        self.participants += 1;
        if self.participants > self.keys.len() {
            let width = self.participants.next_power_of_two();
            self.keys.resize(width, NEVER);
            self.winners.clear();
            self.winners.resize(width, 0);
            self.winners.extend(0..width as u32);
            (1..width).rev().for_each(|place| self.winners[place] = self.winner_of(place));
        }
        number
    }
    /// Sets, moves or (`None`) removes the deadline of a participant. An unchanged deadline keeps its place.
    ///
    /// # Panics
    /// If there is no such participant.
    pub fn set(&mut self, participant: u32, due: Option<Time>) {
        assert!((participant as usize) < self.participants, "there are {} participants", self.participants);
        let key = &mut self.keys[participant as usize];
        let fresh = match due {
            Some(due) if *key != NEVER && (*key >> 64) as u64 == due.as_nanos() => return,
            None if *key == NEVER => return,
            Some(due) => {
                self.sequence += 1;
                u128::from(due.as_nanos()) << 64 | u128::from(self.sequence)
            }
            None => NEVER,
        };
        self.len += usize::from(*key == NEVER);
        self.len -= usize::from(fresh == NEVER);
        *key = fresh;
        self.play(participant);
    }
    /// The earliest deadline and whose it is.
    pub fn next(&self) -> Option<(Time, u32)> {
        let first = *self.winners.get(1)?;
        let key = self.keys[first as usize];
        (key != NEVER).then(|| (Time::from_nanos((key >> 64) as u64), first))
    }

    /// How many participants have a deadline.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether nobody has a deadline.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Plays the matches from a participant up whose deadline has changed.
    fn play(&mut self, participant: u32) {
        let (mut place, mut winner) = (self.keys.len() + participant as usize, participant);
        let mut key = self.keys[participant as usize];
        while place > 1 {
            let rival = self.winners[place ^ 1];
            let rival_key = self.keys[rival as usize];
            if rival_key < key {
                (winner, key) = (rival, rival_key);
            }
            place /= 2;
            let before = core::mem::replace(&mut self.winners[place], winner);
            if before == winner && winner != participant {
                break;
            }
        }
    }
    /// Who wins match `place`, given the matches below it.
    fn winner_of(&self, place: usize) -> u32 {
        let (left, right) = (self.winners[2 * place], self.winners[2 * place + 1]);
        if self.keys[right as usize] < self.keys[left as usize] { right } else { left }
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
