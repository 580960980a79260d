//! How lists of revocations spread: each node announces the number of its list to its neighbours, and a neighbour with
//! an older list fetches it.
//!
//! ```text
//!  A has list 7                      B has list 6
//!    ── have 7 ────────────────────►
//!    ◄───────────── want 7 from 0 ──
//!    ── part of 7 from 0 ──────────►   … the next part, until all is there and the authority's signature holds
//!                                      B takes it, and tells its own neighbours
//! ```
//! Neighbours speak over an authenticated channel that may lose messages. Only the authority's signature makes a list
//! valid: a neighbour that offers an invalid list is not asked again for a while. No neighbour costs this node more
//! than four lists of memory and one signature check at a time.
use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};
use tributary_content::PublicKey;
use tributary_core::{
    Budget, Duration, FaceId, Time,
    wire::{Reader, WireError, Writer},
};

use crate::Revocations;

/// Bytes of a list in one message.
const PART_BYTES_MAX: usize = 900;
/// Bytes of a message.
pub const MESSAGE_BYTES_MAX: usize = 17 + PART_BYTES_MAX;
/// Interval between announcements of this node's list: an earlier announcement may be lost.
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(60);
/// Timeout of a request for a part, and how many requests are made. Patience is cheap, because a neighbour whose place
/// is needed for another fetch loses it after [`FETCH_TIME`]. Where two of five messages are lost, every fifteenth part
/// loses six requests in a row, and one in 10⁴ loses twenty.
const PATIENCE: Duration = Duration::from_secs(1);
const ATTEMPTS_MAX: u32 = 20;
/// How long a neighbour is not asked after it offered an invalid list.
const DISTRUST: Duration = Duration::from_secs(600);
/// Neighbours from which lists are fetched at a time.
const FETCHES_MAX: usize = 4;
/// How long a fetch keeps its place while other neighbours offer lists too.
const FETCH_TIME: Duration = Duration::from_secs(5);
/// How long nothing is fetched from a neighbour that lost its place by silence or slowness.
const PAUSE: Duration = Duration::from_secs(30);
/// Parts that a neighbour gets in a row, and in a second.
const PARTS_BURST: u32 = 64;
const PARTS_PER_SECOND: u64 = 100;
/// Neighbours that are remembered.
const NEIGHBOURS_MAX: usize = 1 << 16;

tributary_core::declared! {
    /// One node's part in spreading the lists of one authority.
    ///
    /// After each call take all of [`Spread::poll_message`] and [`Spread::poll_list`], then ask
    /// [`Spread::poll_timeout`].
    pub struct Spread {
        authority: PublicKey = authority,
        /// The list that this node has, as bytes, and its number.
        list: Option<(u64, Vec<u8>)> = None,
        neighbours: BTreeMap<FaceId, Neighbour> = BTreeMap::new(),
        announce_at: Time = Time::MAX,
        messages: VecDeque<(FaceId, Vec<u8>)> = VecDeque::new(),
        fresh: VecDeque<Revocations> = VecDeque::new(),
    }
    /// The state of a node in the network of `authority`, without a list.
    pub fn new(authority: PublicKey) {}
}

#[derive(Default)]
struct Neighbour {
    parts: Budget,
    fetch: Option<Fetch>,
    distrusted_until: Time,
}

/// A list that is being fetched from a neighbour.
struct Fetch {
    number: u64,
    bytes: Vec<u8>,
    since: Time,
    due: Time,
    attempts: u32,
}

enum Message<'a> {
    Have { number: u64 },
    Want { number: u64, at: u32 },
    Part { number: u64, at: u32, total: u32, bytes: &'a [u8] },
}

impl Spread {
    /// The authority whose lists it spreads.
    pub fn authority(&self) -> &PublicKey {
        &self.authority
    }
    /// Sets this node's list, which the authority has signed. Neighbours hear of it if it is newer than the last one.
    pub fn set_list(&mut self, list: &Revocations) {
        if list.number() <= self.number() {
            return;
        }
        self.list = Some((list.number(), list.encode()));
        for neighbour in self.neighbours.values_mut() {
            neighbour.fetch.take_if(|fetch| fetch.number <= list.number());
        }
        self.announce_all();
    }
    /// A neighbour has come up.
    pub fn greet(&mut self, now: Time, face: FaceId) {
        if self.neighbours.len() < NEIGHBOURS_MAX || self.neighbours.contains_key(&face) {
            self.neighbours.insert(face, Neighbour::default());
            self.announce(face);
            self.announce_at = self.announce_at.min(now + ANNOUNCE_INTERVAL);
        }
    }
    /// A neighbour has gone down.
    pub fn part(&mut self, face: FaceId) {
        self.neighbours.remove(&face);
    }
    /// Takes what a neighbour says.
    pub fn handle_message(&mut self, now: Time, face: FaceId, bytes: &[u8]) {
        let own = self.number();
        let Some(neighbour) = self.neighbours.get_mut(&face) else { return };
        match Message::decode(bytes) {
            Ok(Message::Have { number }) => {
                let is_fetched = neighbour.fetch.as_ref().is_some_and(|fetch| fetch.number >= number);
                let is_news = number > own && !is_fetched && neighbour.distrusted_until <= now;
                let since = neighbour.fetch.as_ref().map_or(now, |fetch| fetch.since);
                if is_news && self.make_room(now, face) {
                    let fetch = Fetch { number, bytes: Vec::new(), since, due: now, attempts: 0 };
                    self.neighbours.entry(face).and_modify(|neighbour| neighbour.fetch = Some(fetch));
                    self.ask(now, face);
                } else if number < own {
                    self.announce(face);
                }
            }
            Ok(Message::Want { number, at }) => {
                let Some((_, list)) = self.list.as_ref().filter(|(own, _)| *own == number) else {
                    // It has heard of an older one.
                    return self.announce(face);
                };
                let rest = list.get(at as usize..).filter(|rest| !rest.is_empty());
                let Some(rest) = rest.filter(|_| neighbour.parts.take(now, PARTS_BURST, PARTS_PER_SECOND)) else {
                    return;
                };
                let bytes = &rest[..rest.len().min(PART_BYTES_MAX)];
                let part = Message::Part { number, at, total: list.len() as u32, bytes };
                self.messages.push_back((face, part.encode()));
            }
            Ok(Message::Part { number, at, total, bytes }) => self.on_part(now, face, number, at, total, bytes),
            Err(_) => neighbour.distrusted_until = now + DISTRUST,
        }
    }
    /// Sends announcements and repeats requests that are due.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.announce_at <= now {
            self.announce_at = if self.neighbours.is_empty() { Time::MAX } else { now + ANNOUNCE_INTERVAL };
            self.announce_all();
        }
        let due = |neighbour: &Neighbour| neighbour.fetch.as_ref().is_some_and(|fetch| fetch.due <= now);
        let late: Vec<FaceId> =
            self.neighbours.iter().filter(|(_, neighbour)| due(neighbour)).map(|(face, _)| *face).collect();
        late.into_iter().for_each(|face| self.ask(now, face));
    }
    /// When [`Spread::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let fetches = self.neighbours.values().filter_map(|neighbour| neighbour.fetch.as_ref().map(|fetch| fetch.due));
        fetches.chain((self.announce_at < Time::MAX).then_some(self.announce_at)).min()
    }
    /// The next message to a neighbour.
    pub fn poll_message(&mut self) -> Option<(FaceId, Vec<u8>)> {
        self.messages.pop_front()
    }
    /// The next list that is newer than this node's, and signed by the authority. Give it back by [`Spread::set_list`].
    pub fn poll_list(&mut self) -> Option<Revocations> {
        self.fresh.pop_front()
    }

    /// Whether one more list may be fetched. At the limit the oldest fetch that has had its time is dropped, so that
    /// slow and silent neighbours cannot keep this node from newer lists.
    fn make_room(&mut self, now: Time, face: FaceId) -> bool {
        let others = self.neighbours.iter().filter(|(other, _)| **other != face);
        let running: Vec<(Time, FaceId)> =
            others.filter_map(|(other, of)| Some((of.fetch.as_ref()?.since, *other))).collect();
        if running.len() < FETCHES_MAX {
            return true;
        }
        let oldest = running.into_iter().min().filter(|(since, _)| now.since(*since) >= FETCH_TIME);
        let Some(neighbour) = oldest.and_then(|(_, face)| self.neighbours.get_mut(&face)) else { return false };
        (neighbour.fetch, neighbour.distrusted_until) = (None, now + PAUSE);
        true
    }
    fn on_part(&mut self, now: Time, face: FaceId, number: u64, at: u32, total: u32, bytes: &[u8]) {
        let Some(neighbour) = self.neighbours.get_mut(&face) else { return };
        let Some(fetch) = &mut neighbour.fetch else { return };
        // Repeated and late parts are no offence.
        if fetch.number != number || fetch.bytes.len() != at as usize || bytes.is_empty() {
            return;
        }
        if total as usize > Revocations::BYTES_MAX || fetch.bytes.len() + bytes.len() > total as usize {
            neighbour.fetch = None;
            neighbour.distrusted_until = now + DISTRUST;
            return;
        }
        fetch.bytes.extend_from_slice(bytes);
        fetch.attempts = 0;
        if fetch.bytes.len() < total as usize {
            return self.ask(now, face);
        }
        let list = core::mem::take(&mut fetch.bytes);
        neighbour.fetch = None;
        let is_ours = |list: &Revocations| list.number() == number && list.is_signed_by(&self.authority);
        match Revocations::decode(&list).ok().filter(is_ours) {
            Some(list) => self.fresh.push_back(list),
            None => neighbour.distrusted_until = now + DISTRUST,
        }
    }
    fn ask(&mut self, now: Time, face: FaceId) {
        let Some(neighbour) = self.neighbours.get_mut(&face) else { return };
        let Some(fetch) = &mut neighbour.fetch else { return };
        if fetch.attempts >= ATTEMPTS_MAX {
            (neighbour.fetch, neighbour.distrusted_until) = (None, now + PAUSE);
            return;
        }
        fetch.attempts += 1;
        fetch.due = now + PATIENCE;
        let want = Message::Want { number: fetch.number, at: fetch.bytes.len() as u32 };
        self.messages.push_back((face, want.encode()));
    }
    /// Announces the number of this node's list; 0 stands for no list.
    fn announce(&mut self, face: FaceId) {
        self.messages.push_back((face, Message::Have { number: self.number() }.encode()));
    }
    fn number(&self) -> u64 {
        self.list.as_ref().map_or(0, |(number, _)| *number)
    }
    fn announce_all(&mut self) {
        let faces: Vec<FaceId> = self.neighbours.keys().copied().collect();
        faces.into_iter().for_each(|face| self.announce(face));
    }
}

impl<'a> Message<'a> {
    fn decode(bytes: &'a [u8]) -> Result<Message<'a>, WireError> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8("kind")?;
        let number = reader.u64("number")?;
        let message = match kind {
            0 => Message::Have { number },
            1 => Message::Want { number, at: reader.u32("offset")? },
            2 => {
                let (at, total) = (reader.u32("offset")?, reader.u32("bytes of the list")?);
                let rest = reader.rest();
                if rest.len() > PART_BYTES_MAX {
                    return Err(WireError::Value { field: "bytes of the part", found: rest.len() as u64 });
                }
                return Ok(Message::Part { number, at, total, bytes: rest });
            }
            found => return Err(WireError::Value { field: "kind", found: found.into() }),
        };
        reader.end()?;
        Ok(message)
    }
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Message::Have { number } => {
                out.put_u8(0);
                out.put_u64(*number);
            }
            Message::Want { number, at } => {
                out.put_u8(1);
                out.put_u64(*number);
                out.put_u32(*at);
            }
            Message::Part { number, at, total, bytes } => {
                out.put_u8(2);
                out.put_u64(*number);
                out.put_u32(*at);
                out.put_u32(*total);
                out.extend_from_slice(bytes);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tributary_content::SigningKey;
    use tributary_core::Random;

    fn authority() -> SigningKey {
        SigningKey::from_secret(&[9; 32])
    }
    /// A list of several parts.
    fn list(number: u64) -> Revocations {
        Revocations::issue(&authority(), number, (0..1_000).collect(), [].into()).expect("within limits")
    }
    fn ms(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    /// Nodes in a row; face 0 of each leads to the one before, face 1 to the one after.
    struct Row {
        now: Time,
        nodes: Vec<Spread>,
        random: Random,
        loss: f64,
        carried: usize,
    }
    impl Row {
        fn new(count: usize, loss: f64, seed: u64) -> Row {
            let mut nodes: Vec<Spread> = (0..count).map(|_| Spread::new(authority().public())).collect();
            for node in 1..count {
                nodes[node].greet(ms(0), FaceId(0));
                nodes[node - 1].greet(ms(0), FaceId(1));
            }
            Row { now: ms(0), nodes, random: Random::new(seed, 1), loss, carried: 0 }
        }
        fn settle(&mut self) {
            let mut moved = true;
            while core::mem::take(&mut moved) {
                for index in 0..self.nodes.len() {
                    while let Some(list) = self.nodes[index].poll_list() {
                        moved = true;
                        self.nodes[index].set_list(&list);
                    }
                    while let Some((face, message)) = self.nodes[index].poll_message() {
                        moved = true;
                        self.carried += 1;
                        assert!(message.len() <= MESSAGE_BYTES_MAX);
                        let (to, back) = if face.0 == 0 { (index - 1, FaceId(1)) } else { (index + 1, FaceId(0)) };
                        if !self.random.chance(self.loss) {
                            self.nodes[to].handle_message(self.now, back, &message);
                        }
                    }
                }
            }
        }
        fn run(&mut self, millis: u64) {
            let end = self.now + Duration::from_millis(millis);
            self.settle();
            while let Some(due) = self.nodes.iter().filter_map(Spread::poll_timeout).min().filter(|due| *due <= end) {
                self.now = self.now.max(due);
                for index in 0..self.nodes.len() {
                    self.nodes[index].handle_timeout(self.now);
                }
                self.settle();
            }
            self.now = end;
        }
        fn numbers(&self) -> Vec<Option<u64>> {
            self.nodes.iter().map(|node| node.list.as_ref().map(|(number, _)| *number)).collect()
        }
    }

    #[test]
    fn a_list_that_one_node_gets_is_soon_at_all_and_an_older_one_replaces_none() {
        let mut row = Row::new(4, 0.0, 1);
        row.nodes[3].set_list(&list(2));
        row.nodes[1].set_list(&list(5));
        row.run(100);
        assert_eq!(row.numbers(), [Some(5); 4]);
        row.nodes[0].set_list(&list(4));
        row.run(100);
        assert_eq!(row.numbers(), [Some(5); 4]);
        // At rest they tell each other a number once a minute.
        row.carried = 0;
        row.run(600_000);
        assert!((50..=80).contains(&row.carried), "{} messages in ten minutes over three links", row.carried);
        // A neighbour that comes later gets the list too.
        let mut late = Row::new(2, 0.0, 1);
        late.nodes[0] = Spread::new(authority().public());
        late.nodes[0].set_list(&list(7));
        late.nodes[0].greet(ms(0), FaceId(1));
        late.run(100);
        assert_eq!(late.numbers(), [Some(7); 2]);
    }

    #[test]
    fn a_neighbour_that_offers_what_is_no_list_of_the_authority_costs_little_and_holds_up_nobody() {
        let forged = Revocations::issue(&SigningKey::from_secret(&[8; 32]), 9, [1].into(), [].into()).expect("short");
        let renumbered = list(3).encode();
        for (number, bytes, total) in [
            (9, forged.encode(), None),
            (9, renumbered, None),
            (9, [7; 500].into(), None),
            (9, [7; 500].into(), Some(u32::MAX)),
            (9, [7; 500].into(), Some(10)),
        ] {
            let mut node = Spread::new(authority().public());
            node.set_list(&list(2));
            node.greet(ms(0), FaceId(1));
            node.greet(ms(0), FaceId(2));
            let have = Message::Have { number }.encode();
            node.handle_message(ms(0), FaceId(1), &have);
            let total = total.unwrap_or(bytes.len() as u32);
            let mut at = 0;
            for bytes in bytes.chunks(PART_BYTES_MAX) {
                node.handle_message(ms(0), FaceId(1), &Message::Part { number, at, total, bytes }.encode());
                at += bytes.len() as u32;
            }
            assert_eq!(node.poll_list(), None);
            assert!(node.neighbours[&FaceId(1)].fetch.is_none());
            while node.poll_message().is_some() {}
            node.handle_message(ms(500_000), FaceId(1), &have);
            assert_eq!(node.poll_message(), None, "it is not asked again");
            node.handle_message(ms(500_000), FaceId(2), &have);
            assert!(node.poll_message().is_some(), "another one is");
        }
        // A silent neighbour is dropped after its requests, and one that asks without end gets its share.
        let mut row = Row::new(1, 0.0, 1);
        row.nodes[0].set_list(&list(2));
        row.nodes[0].greet(ms(0), FaceId(1));
        let node = &mut row.nodes[0];
        node.handle_message(ms(0), FaceId(1), &Message::Have { number: 3 }.encode());
        (0..=u64::from(ATTEMPTS_MAX)).for_each(|second| node.handle_timeout(ms(second * 1_000)));
        assert!(node.neighbours[&FaceId(1)].fetch.is_none());
        while node.poll_message().is_some() {}
        let want = Message::Want { number: 2, at: 0 }.encode();
        (0..10_000).for_each(|_| node.handle_message(ms(30_000), FaceId(1), &want));
        assert_eq!(core::iter::from_fn(|| node.poll_message()).count(), PARTS_BURST as usize);
        // A stranger is not heard.
        node.handle_message(ms(30_000), FaceId(3), &want);
        assert_eq!(node.poll_message(), None);
    }

    #[test]
    fn lists_arrive_where_two_of_five_messages_are_lost() {
        for seed in 0..300 {
            let mut row = Row::new(3, 0.4, seed);
            row.nodes[0].set_list(&list(5));
            row.run(10 * 60_000);
            assert_eq!(row.numbers(), [Some(5); 3], "seed {seed}");
        }
    }
    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn lists_arrive_whatever_is_lost(seed: u64, loss in 0.0..0.4f64) {
            let mut row = Row::new(3, loss, seed);
            row.nodes[0].set_list(&list(5));
            row.run(20 * 60_000);
            prop_assert_eq!(row.numbers(), [Some(5); 3]);
        }
        #[test]
        fn any_messages_are_survived(messages in prop::collection::vec((0u8..4, prop::collection::vec(any::<u8>(), 0..40)), 0..40)) {
            let mut node = Spread::new(authority().public());
            node.set_list(&list(5));
            node.greet(ms(0), FaceId(0));
            for (at, (kind, bytes)) in messages.into_iter().enumerate() {
                let bytes = [&[kind][..], &[0; 7], &bytes].concat();
                if let Ok(message) = Message::decode(&bytes) {
                    prop_assert_eq!(message.encode(), bytes.clone());
                }
                node.handle_message(ms(at as u64 * 100), FaceId(0), &bytes);
                node.handle_timeout(ms(at as u64 * 100));
            }
            prop_assert_eq!(node.poll_list(), None);
        }
    }
}
