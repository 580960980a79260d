//! The proxy of a group behind it (paper §3.5). It receives the requests of members to whom it distributed a transfer,
//! answers them from its copies, requests missing chunks upstream once for all members, and reports complete members
//! upstream in one message.
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use tributary_content::ObjectId;
use tributary_core::{Duration, Time};

use crate::{
    ids::{ChunkKey, Flow, Guid, NetworkAddress, Token},
    reports::Reports,
    wire::{ChunkHeader, ChunkRanges, TransportBody, TransportMessage, transport::MEMBERS_LISTED_MAX},
};

/// How long requests and completions are collected.
const COLLECT: Duration = Duration::from_millis(50);
/// Maximum relayed transfers.
const RELAYS_MAX: usize = 4_096;
/// Maximum requested chunks of a transfer; members repeat requests for others.
const REQUESTS_MAX: usize = 65_536;
/// Maximum remembered members of a transfer.
const MEMBERS_MAX: usize = 4_096;
/// A transfer without any message for this long is forgotten.
const IDLE: Duration = Duration::from_secs(600);

/// All transfers that this proxy spreads.
#[derive(Debug, Default)]
pub(crate) struct Relays(BTreeMap<(Guid, u32), Relay>);

#[derive(Debug, Default)]
struct Relay {
    object: ObjectId,
    token: Token,
    /// Chunks that it is cut into.
    count: u32,
    /// The group that copies are kept for.
    group: Guid,
    /// The address of the next proxy on the way to the source, or of the source.
    upstream: NetworkAddress,
    requests: BTreeMap<u32, BTreeSet<Guid>>,
    /// Proxies that the requests may still try.
    proxies_left: u8,
    awaited: BTreeMap<u32, BTreeSet<Guid>>,
    heard: BTreeMap<Guid, Reports>,
    completed: BTreeSet<Guid>,
    /// Members that have everything, reported upstream or not.
    done: BTreeSet<Guid>,
    /// The members that this router serves; `None` if there are others, or if they are unknown.
    members: Option<BTreeSet<Guid>>,
    due: Option<Time>,
    sequence: u32,
    used_at: Time,
}

/// A proxy's task for a transfer.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Task {
    /// Send a chunk from the local copy to each of these.
    Repair(ChunkKey, Vec<Guid>),
    /// Send a message to the source: the chunks missing here, or the members that have everything.
    Send {
        /// The source, and the address of the next proxy on the way there.
        to: (Guid, NetworkAddress),
        /// The token of the transfer.
        token: Token,
        /// The message.
        message: TransportMessage,
        /// Proxies that a request may still visit.
        proxies_left: u8,
    },
    /// All members behind this router have everything: its copies are no longer needed.
    Release {
        /// Source and destination.
        flow: Flow,
        /// The transfer.
        transfer: u32,
        /// The object.
        object: ObjectId,
        /// The token of the transfer.
        token: Token,
    },
}

impl Relays {
    /// A data chunk is distributed here, to these members, or (`None`) also to others, which are unknown.
    pub(crate) fn on_spread(&mut self, now: Time, header: &ChunkHeader, members: Option<BTreeSet<Guid>>) {
        let Some(tag) = header.tag() else { return };
        let id = (header.source, tag.transfer);
        if self.0.len() >= RELAYS_MAX && !self.0.contains_key(&id) {
            return;
        }
        let relay = self.0.entry(id).or_insert_with(|| Relay {
            object: tag.object,
            token: tag.token,
            count: tag.count,
            group: header.destination,
            ..Relay::default()
        });
        relay.upstream = header.source_address;
        relay.used_at = now;
        relay.members = members;
    }
    /// Whether a member of this router may still request chunks of a transfer with this token.
    pub(crate) fn serves(&self, source: &Guid, transfer: u32, token: Token) -> bool {
        let relay = self.0.get(&(*source, transfer)).filter(|relay| relay.token == token);
        relay.is_some_and(|relay| !relay.is_done())
    }
    /// Whether a transfer with this token is distributed here.
    pub(crate) fn knows(&self, source: &Guid, transfer: u32, token: Option<Token>) -> bool {
        self.0.get(&(*source, transfer)).is_some_and(|relay| Some(relay.token) == token)
    }
    /// A member, or a proxy for others, reports missing chunks.
    pub(crate) fn on_missing(
        &mut self,
        now: Time,
        source: Guid,
        transfer: u32,
        (from, sequence, proxies_left): (Guid, u32, u8),
        missing: impl Iterator<Item = u32>,
    ) {
        let Some(relay) = self.0.get_mut(&(source, transfer)) else { return };
        let has_room = relay.heard.len() < MEMBERS_MAX || relay.heard.contains_key(&from);
        if !has_room || !relay.heard.entry(from).or_default().is_news(now, sequence) {
            return;
        }
        relay.used_at = now;
        // The most patient of the requests decides how far they go together.
        relay.proxies_left = relay.proxies_left.max(proxies_left);
        let (count, requested) = (relay.count, relay.requests.len() + relay.awaited.len());
        for number in missing.take_while(|number| *number < count).take(REQUESTS_MAX.saturating_sub(requested)) {
            relay.requests.entry(number).or_default().insert(from);
            relay.due.get_or_insert(now + COLLECT);
        }
    }
    /// Members have everything.
    pub(crate) fn on_complete(&mut self, now: Time, source: Guid, transfer: u32, members: &[Guid]) {
        if let Some(relay) = self.0.get_mut(&(source, transfer)) {
            relay.used_at = now;
            relay.completed.extend(members.iter().take(MEMBERS_MAX));
            let room = MEMBERS_MAX.saturating_sub(relay.done.len());
            relay.done.extend(members.iter().take(room));
            relay.due.get_or_insert(now + COLLECT);
        }
    }
    /// A chunk requested upstream has arrived. Returns the members that wait for it.
    pub(crate) fn on_repair(&mut self, source: Guid, transfer: u32, number: u32) -> Vec<Guid> {
        let awaited = self.0.get_mut(&(source, transfer)).and_then(|relay| relay.awaited.remove(&number));
        awaited.unwrap_or_default().into_iter().collect()
    }
    /// The group of a transfer.
    pub(crate) fn group(&self, source: &Guid, transfer: u32) -> Option<Guid> {
        self.0.get(&(*source, transfer)).map(|relay| relay.group)
    }
    /// Returns everything that is due. `has` says whether this router holds a copy.
    pub(crate) fn poll_tasks(&mut self, now: Time, has: impl Fn(&ChunkKey) -> bool) -> Vec<Task> {
        let mut tasks = Vec::new();
        for ((source, transfer), relay) in &mut self.0 {
            if relay.due.is_none_or(|due| due > now) {
                continue;
            }
            relay.due = None;
            let (transfer, object, token, to) = (*transfer, relay.object, relay.token, (*source, relay.upstream));
            let flow = Flow { source: *source, destination: relay.group };
            let mut missing = Vec::new();
            for (number, who) in core::mem::take(&mut relay.requests) {
                let key = ChunkKey { flow, object, transfer, number };
                if has(&key) {
                    tasks.push(Task::Repair(key, who.into_iter().collect()));
                } else if relay.proxies_left > 0 {
                    relay.awaited.entry(number).or_default().extend(who);
                    missing.push(number);
                }
                // Beyond the depth limit a request is discarded.
            }
            if !missing.is_empty() {
                relay.sequence += 1;
                let (sequence, missing) = (relay.sequence, ChunkRanges::from_ascending(missing));
                let message =
                    TransportBody::Status { window: 0, advice_chunks: 1, sequence, missing }.about(transfer, object);
                tasks.push(Task::Send { to, token, message, proxies_left: relay.proxies_left - 1 });
            }
            relay.proxies_left = 0;
            let completed: Vec<Guid> = core::mem::take(&mut relay.completed).into_iter().collect();
            for members in completed.chunks(MEMBERS_LISTED_MAX) {
                let message = TransportBody::Completed { members: members.into() }.about(transfer, object);
                tasks.push(Task::Send { to, token, message, proxies_left: 0 });
            }
            if !completed.is_empty() && relay.is_done() {
                tasks.push(Task::Release { flow, transfer, object, token });
            }
        }
        tasks
    }
    /// When to call [`Relays::poll_tasks`].
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.0.values().filter_map(|relay| relay.due).min()
    }
    /// Forgets transfers that are over.
    pub(crate) fn expire(&mut self, now: Time) {
        self.0.retain(|_, relay| now.since(relay.used_at) < IDLE);
    }
}

impl Relay {
    /// Whether all members of this router have everything.
    fn is_done(&self) -> bool {
        self.members.as_ref().is_some_and(|members| members.is_subset(&self.done))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{ChunkKind, DataTag, Reliability};
    use alloc::vec;

    const SOURCE: Guid = Guid([1; 20]);

    fn header() -> ChunkHeader {
        let tag = DataTag {
            object: ObjectId([5; 16]),
            transfer: 7,
            token: Token(3),
            number: 0,
            count: 9,
            chunk_bytes: 1_000,
            reliability: Reliability::Nack,
            window: u16::MAX,
            window_chunks: 0,
        };
        let mut header = ChunkHeader::new(ChunkKind::Data(tag), SOURCE, Guid([2; 20]), NetworkAddress::NONE);
        header.source_address = NetworkAddress(77);
        header
    }
    fn spread(relays: &mut Relays, now: Time) {
        let header = header();
        relays.on_spread(now, &header, Some((10..50).map(|member| Guid([member; 20])).collect()));
    }
    fn requested(tasks: &[Task]) -> Vec<(Vec<u32>, u8)> {
        let requested = tasks.iter().filter_map(|task| match task {
            Task::Send {
                message: TransportMessage { body: TransportBody::Status { missing, .. }, .. },
                proxies_left,
                ..
            } => Some((missing.iter().collect(), *proxies_left)),
            Task::Repair(..) | Task::Send { .. } | Task::Release { .. } => None,
        });
        requested.collect()
    }

    #[test]
    fn a_transfer_is_known_by_its_token_only() {
        let mut relays = Relays::default();
        spread(&mut relays, Time::from_millis(5));
        let knows = |transfer, token: Option<u64>| relays.knows(&SOURCE, transfer, token.map(Token));
        assert!(knows(7, Some(3)));
        assert!(!knows(7, Some(4)) && !knows(7, None) && !knows(8, Some(3)));
    }

    #[test]
    fn many_requests_become_one_and_what_is_here_is_answered_here() {
        let now = Time::from_millis(5);
        let mut relays = Relays::default();
        spread(&mut relays, now);
        for member in 10..30 {
            relays.on_missing(now, SOURCE, 7, (Guid([member; 20]), 1, 3), [2, 4].into_iter());
        }
        assert_eq!(relays.poll_timeout(), Some(now + COLLECT));
        let tasks = relays.poll_tasks(now + COLLECT, |key| key.number == 4);
        assert!(matches!(&tasks[0], Task::Repair(key, who) if key.number == 4 && who.len() == 20), "{tasks:?}");
        assert_eq!(requested(&tasks), [(vec![2], 2)]);
        assert_eq!(relays.on_repair(SOURCE, 7, 2).len(), 20);
        assert!(relays.on_repair(SOURCE, 7, 2).is_empty(), "each is served once");
    }

    #[test]
    fn chunks_that_there_are_not_are_not_asked_for() {
        let (now, member) = (Time::from_millis(5), |member| Guid([member; 20]));
        let mut relays = Relays::default();
        spread(&mut relays, now);
        relays.on_missing(now, SOURCE, 7, (member(10), 1, 3), 7..u32::MAX);
        assert_eq!(requested(&relays.poll_tasks(now + COLLECT, |_| false)), [(vec![7, 8], 2)]);
        // A source that claims the maximum number of chunks.
        let mut header = header();
        if let ChunkKind::Data(tag) = &mut header.kind {
            (tag.transfer, tag.count) = (8, u32::MAX);
        }
        relays.on_spread(now, &header, None);
        for (number, first) in [(11, 0), (12, 1 << 20), (13, 1 << 30)] {
            relays.on_missing(now, SOURCE, 8, (member(number), 1, 3), first..u32::MAX);
            relays.poll_tasks(now + COLLECT, |_| false);
        }
        let relay = &relays.0[&(SOURCE, 8)];
        assert_eq!(relay.requests.len() + relay.awaited.len(), REQUESTS_MAX);
    }

    #[test]
    fn a_request_that_somebody_repeats_is_none() {
        let now = Time::from_millis(5_000);
        let mut relays = Relays::default();
        spread(&mut relays, now);
        let member = Guid([9; 20]);
        let mut asks = |sequence| {
            relays.on_missing(now, SOURCE, 7, (member, sequence, 3), [2].into_iter());
            relays.poll_tasks(now + COLLECT, |_| false).len()
        };
        assert_eq!([3, 3, 2, 4].map(&mut asks), [1, 0, 0, 1]);
    }

    #[test]
    fn a_request_that_has_passed_enough_proxies_is_discarded() {
        let now = Time::from_millis(5);
        let mut relays = Relays::default();
        spread(&mut relays, now);
        relays.on_missing(now, SOURCE, 7, (Guid([9; 20]), 1, 0), [2].into_iter());
        assert_eq!(relays.poll_tasks(now + COLLECT, |_| false), []);
        relays.on_missing(now, SOURCE, 7, (Guid([9; 20]), 2, 1), [2].into_iter());
        assert_eq!(requested(&relays.poll_tasks(now + COLLECT * 2, |_| false)), [(vec![2], 0)]);
    }

    #[test]
    fn who_is_done_is_told_in_one_message() {
        let now = Time::from_millis(5);
        let mut relays = Relays::default();
        spread(&mut relays, now);
        for member in 10..49 {
            relays.on_complete(now, SOURCE, 7, &[Guid([member; 20])]);
        }
        let tasks = relays.poll_tasks(now + COLLECT, |_| false);
        let told = |task: &Task| match task {
            Task::Send { message: TransportMessage { body: TransportBody::Completed { members }, .. }, .. } => {
                Some(members.len())
            }
            _ => None,
        };
        assert!(tasks.iter().map(told).eq([Some(39)]), "{tasks:?}");
        assert_eq!(relays.poll_tasks(now + COLLECT * 2, |_| false), []);
    }

    #[test]
    fn copies_go_when_the_last_has_everything_and_stay_as_long_as_others_may_ask() {
        let now = Time::from_millis(5);
        let mut relays = Relays::default();
        spread(&mut relays, now);
        let releases = |relays: &mut Relays, members: core::ops::Range<u8>| {
            let members: Vec<Guid> = members.map(|member| Guid([member; 20])).collect();
            relays.on_complete(now, SOURCE, 7, &members);
            let tasks = relays.poll_tasks(now + COLLECT, |_| false);
            tasks.iter().any(|task| matches!(task, Task::Release { transfer: 7, token: Token(3), .. }))
        };
        assert!(!releases(&mut relays, 10..49) && relays.serves(&SOURCE, 7, Token(3)));
        assert!(releases(&mut relays, 49..50) && !relays.serves(&SOURCE, 7, Token(3)));
        // Distributing to a new member renews the copies; the members of a group elsewhere are unknown.
        let header = header();
        let members = |range: core::ops::Range<u8>| Some(range.map(|member| Guid([member; 20])).collect());
        relays.on_spread(now, &header, members(10..51));
        assert!(relays.serves(&SOURCE, 7, Token(3)) && !relays.serves(&SOURCE, 7, Token(4)));
        relays.on_spread(now, &header, None);
        assert!(!releases(&mut relays, 50..51) && relays.serves(&SOURCE, 7, Token(3)));
    }
}
