//! Packets that a cache has forwarded requests for, and the receivers that wait for them: concurrent receivers of one
//! object cost the source each packet once, as with NDN's pending interest table (RFC 8569 §2.1).
//!
//! A request joins the one that was forwarded before it by the same face. A retransmitted request is forwarded, because
//! the answer to the joined one may be lost. It joins once more if another receiver's request was forwarded since or
//! less than [`RETRY`] ago, and [`JOINS_MAX`] times at most: a receiver that has heard only a near cache times out long
//! before a far source can answer.
use alloc::{collections::VecDeque, sync::Arc, vec::Vec};

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use tributary_core::{Duration, FaceId, Time};

use super::cache::PacketKey;
use crate::wire::Fid;

/// How often one receiver joins others' requests for one packet: no attacker can keep its requests from the source for
/// longer.
const JOINS_MAX: u8 = 3;
/// How long a receiver that has joined a request leaves it to the other one to repeat it (NFD waits for up to as long).
const RETRY: Duration = Duration::from_millis(250);
/// Maximum receivers that wait for one packet.
const WAITING_MAX: usize = 255;

/// The path of a request's answer.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Way {
    /// The route of the answer, which distinguishes receivers and their paths.
    pub(super) forward: Fid,
    pub(super) tag: u32,
    /// The face that it leaves by.
    pub(super) face: FaceId,
    /// The face that the request leaves by.
    pub(super) onward: FaceId,
}

struct Asker {
    way: Arc<Way>,
    at: Time,
    joins: u8,
    /// Whether the answer to another request should be copied to it.
    waits: bool,
}

struct Pending {
    /// When a request for it was last passed on.
    passed_at: Time,
    first: Asker,
    others: Vec<Asker>,
}

/// Counters of a table of pending packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PendingCounters {
    /// Requested packets that wait for the answer to another request.
    pub joined: u64,
    /// Packets that were forgotten because the table was full.
    pub evicted: u64,
}

/// The table.
pub(crate) struct PendingPackets {
    packets: HashMap<PacketKey, Pending, FxBuildHasher>,
    /// When requests were passed on, the oldest first; bounds `packets`.
    passed: VecDeque<(Time, PacketKey)>,
    packets_max: usize,
    lifetime: Duration,
    pub(crate) counters: PendingCounters,
}

impl PendingPackets {
    /// A table of `packets_max` packets, each for `lifetime` after a request for it was forwarded.
    pub(super) fn new(packets_max: usize, lifetime: Duration) -> PendingPackets {
        let (packets, passed) = (HashMap::with_hasher(FxBuildHasher), VecDeque::new());
        PendingPackets { packets, passed, packets_max, lifetime, counters: PendingCounters::default() }
    }
    /// A packet is requested that the cache does not have: whether the request joins another one and is not passed on.
    pub(super) fn ask(&mut self, now: Time, key: PacketKey, way: &Arc<Way>) -> bool {
        while self.passed.front().is_some_and(|(at, _)| *at + self.lifetime <= now) {
            self.forget_oldest();
        }
        let joins = match self.packets.get_mut(&key) {
            Some(pending) => pending.ask(now, way),
            None if self.packets_max == 0 => return false,
            None => {
                let first = Asker { way: way.clone(), at: now, joins: 0, waits: false };
                self.packets.insert(key, Pending { passed_at: now, first, others: Vec::new() });
                false
            }
        };
        if joins {
            self.counters.joined += 1;
            return true;
        }
        if self.passed.len() >= self.packets_max && self.forget_oldest() {
            self.counters.evicted += 1;
        }
        self.passed.push_back((now, key));
        false
    }
    /// A packet has arrived: returns the requests that wait for it.
    pub(super) fn take(&mut self, key: PacketKey) -> impl Iterator<Item = Arc<Way>> + use<> {
        let pending = if self.packets.is_empty() { None } else { self.packets.remove(&key) };
        let askers = pending.into_iter().flat_map(|pending| core::iter::once(pending.first).chain(pending.others));
        askers.filter(|asker| asker.waits).map(|asker| asker.way)
    }
    /// Whether that was still pending.
    fn forget_oldest(&mut self) -> bool {
        let Some((at, key)) = self.passed.pop_front() else { return false };
        let is_last = self.packets.get(&key).is_some_and(|pending| pending.passed_at == at);
        is_last && self.packets.remove(&key).is_some()
    }
}

impl Pending {
    fn ask(&mut self, now: Time, way: &Arc<Way>) -> bool {
        let is_same_route = self.first.way.onward == way.onward;
        let mut askers = core::iter::once(&mut self.first).chain(&mut self.others);
        let Some(asker) = askers.find(|asker| asker.way.forward == way.forward) else {
            if is_same_route && self.others.len() < WAITING_MAX {
                self.others.push(Asker { way: way.clone(), at: now, joins: 1, waits: true });
                return true;
            }
            return false;
        };
        let is_under_way = asker.at < self.passed_at || asker.waits && now < self.passed_at + RETRY;
        asker.waits = is_same_route && is_under_way && asker.joins < JOINS_MAX;
        asker.joins += u8::from(asker.waits);
        (asker.way, asker.at) = (way.clone(), now);
        if !asker.waits {
            self.passed_at = now;
        }
        asker.waits
    }
}
