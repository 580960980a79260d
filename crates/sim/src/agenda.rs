//! Who is next: an indexed heap with one entry per participant.
use tributary_core::Time;

/// Deadlines of numbered participants, earliest first; equal times in the order in which they were set.
///
/// Each participant has at most one entry, which moves when its deadline does, so the heap stays as small
/// as the network however many packets are under way.
#[derive(Clone, Debug, Default)]
pub struct Agenda {
    heap: Vec<Entry>,
    /// For each participant its index in `heap`, or [`ABSENT`].
    places: Vec<u32>,
    sequence: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    due: Time,
    sequence: u64,
    participant: u32,
}

impl Entry {
    fn key(&self) -> (Time, u64) {
        (self.due, self.sequence)
    }
}

const ABSENT: u32 = u32::MAX;

impl Agenda {
    /// Nobody takes part.
    pub fn new() -> Self {
        Agenda::default()
    }
    /// Adds a participant without a deadline and gives its number: 0, 1, 2, …
    pub fn add(&mut self) -> u32 {
        self.places.push(ABSENT);
        u32::try_from(self.places.len() - 1).expect("fewer than 2^32 participants fit into memory")
    }
    /// Sets, moves or (`None`) removes the deadline of a participant. An unchanged deadline keeps its place.
    ///
    /// # Panics
    /// If there is no such participant.
    pub fn set(&mut self, participant: u32, due: Option<Time>) {
        let place = self.places[participant as usize];
        match (due, place) {
            (None, ABSENT) => {}
            (None, place) => self.remove(place as usize),
            (Some(due), ABSENT) => {
                let sequence = self.next_sequence();
                self.heap.push(Entry { due, sequence, participant });
                self.rise(self.heap.len() - 1);
            }
            (Some(due), place) => {
                let place = place as usize;
                let before = self.heap[place].due;
                if before != due {
                    let sequence = self.next_sequence();
                    self.heap[place] = Entry { due, sequence, participant };
                    if due < before { self.rise(place) } else { self.sink(place) }
                }
            }
        }
    }
    /// The earliest deadline and whose it is.
    pub fn next(&self) -> Option<(Time, u32)> {
        self.heap.first().map(|entry| (entry.due, entry.participant))
    }

    /// How many participants have a deadline.
    pub fn len(&self) -> usize {
        self.heap.len()
    }
    /// Whether nobody has a deadline.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }
    fn remove(&mut self, place: usize) {
        self.places[self.heap[place].participant as usize] = ABSENT;
        let Some(last) = self.heap.pop() else { return };
        if place < self.heap.len() {
            let rises = last.key() < self.heap[place].key();
            self.heap[place] = last;
            if rises { self.rise(place) } else { self.sink(place) }
        }
    }
    fn rise(&mut self, mut place: usize) {
        let entry = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent].key() <= entry.key() {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
    }
    fn sink(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let mut child = 2 * place + 1;
            if child >= self.heap.len() {
                break;
            }
            if child + 1 < self.heap.len() && self.heap[child + 1].key() < self.heap[child].key() {
                child += 1;
            }
            if entry.key() <= self.heap[child].key() {
                break;
            }
            self.put(place, self.heap[child]);
            place = child;
        }
        self.put(place, entry);
    }
    fn put(&mut self, place: usize, entry: Entry) {
        self.heap[place] = entry;
        self.places[entry.participant as usize] = place as u32;
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
        for _ in 0..20 {
            agenda.add();
        }
        for step in 0..50_000 {
            let participant = random.below(20) as u32;
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
            assert_eq!(agenda.next(), expected);
        }
    }
}
