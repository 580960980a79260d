//! The receiving side of PTP (paper: consumer): finds paths by probing, asks for each packet on the path that the engine
//! of [`tributary_transport::Transfer`] chooses, and tells it what came and from where.
//!
//! ```text
//!  probes ──► tag, manifest ──► Paths ──► in use ──► Transfer ──► packet on path ──► tagged Interest
//!                                 ▲                     ▲
//!                                 └── failed, silent ◄──┴── Data, from a producer or from a cache
//! ```
mod asked;
mod echo;
mod fetch;
mod others;
mod paths;
pub mod selection;

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

use bytes::Bytes;
use tributary_content::Name;
use tributary_core::{
    Duration, EchoId, NodeId, Random, Rate, Time, TransferId,
    event::{EchoReport, TransferEvent, TransferReport},
};
use tributary_transport::{
    Fetch, TransferConfig,
    echo::{Echo, EchoError},
    limit::TokenBucket,
};

use crate::{
    config::{PathConfig, SharedKey},
    router::LocalPacket,
    wire::{LpPacket, VerifyKey},
};
use fetch::{Fetching, Trust};

/// Ended fetches whose reports are kept.
const ENDED_KEPT: usize = 64;

/// An Interest to send, with its headers.
pub struct Outgoing {
    /// The Interest.
    pub interest: Bytes,
    tag: Option<paths::Tag>,
    probe: bool,
    /// What our own router returns with the answer.
    token: Option<[u8; 4]>,
}

impl Outgoing {
    /// The headers to send it with.
    pub fn headers(&self) -> LpPacket<'_> {
        let (mut tag, mut tag_bits) = (None, None);
        match &self.tag {
            Some(paths::Tag::Labels(labels)) => tag = crate::wire::PathTag::parse(labels).ok(),
            Some(paths::Tag::Bits(bits)) => tag_bits = crate::wire::huffman::BitTag::parse(bits).ok(),
            None => {}
        }
        LpPacket {
            tag,
            tag_bits,
            probe: self.probe,
            pit_token: self.token.as_ref().map(|token| &token[..]),
            ..LpPacket::default()
        }
    }
}

/// All fetches of a node.
pub struct Receiver {
    label: alloc::string::String,
    config: TransferConfig,
    paths: PathConfig,
    shared_keys: Vec<SharedKey>,
    epoch: Duration,
    random: Random,
    fetches: BTreeMap<TransferId, Fetching>,
    next_transfer: u32,
    /// The fetch that asked last: they take turns, so that a common limit is shared.
    last_polled: TransferId,
    limit: TokenBucket,
    echoing: echo::Echoing,
    events: VecDeque<(TransferId, TransferEvent)>,
    polled_at: Time,
    /// Data that belongs to nothing that was asked for.
    pub strays: u64,
}

impl Receiver {
    /// A receiver without fetches in a node called `label`.
    pub fn new(label: &str, config: TransferConfig, paths: PathConfig, random: Random) -> Receiver {
        Receiver {
            label: label.into(),
            config,
            paths,
            shared_keys: Vec::new(),
            epoch: Duration::ZERO,
            random,
            fetches: BTreeMap::new(),
            next_transfer: 0,
            last_polled: TransferId(0),
            limit: TokenBucket::new(None, Duration::from_millis(20)),
            echoing: echo::Echoing::default(),
            events: VecDeque::new(),
            polled_at: Time::ZERO,
            strays: 0,
        }
    }
    /// From now on believes below a shared key's prefix only what is signed with that key. `epoch` is the Unix time of the
    /// driver's epoch, by which certificates count or not.
    pub fn trust(&mut self, keys: Vec<SharedKey>, epoch: Duration) {
        (self.shared_keys, self.epoch) = (keys, epoch);
    }
    /// Starts a fetch.
    pub fn fetch(&mut self, now: Time, fetch: Fetch) -> TransferId {
        self.next_transfer = self.next_transfer.wrapping_add(1);
        let id = TransferId(self.next_transfer);
        let paths = PathConfig {
            in_use_max: self.paths.in_use_max.min(usize::from(fetch.paths_per_source.max(1)) * SOURCES_TYPICAL),
            ..self.paths.clone()
        };
        let shared = SharedKey::of(&self.shared_keys, &fetch.name).map(|key| VerifyKey::Hmac(key.secret.clone()));
        let trust = Trust { shared, epoch: self.epoch };
        self.fetches.insert(id, Fetching::new(now, &self.label, fetch, self.config.clone(), paths, trust));
        let ended: Vec<TransferId> =
            self.fetches.iter().filter(|(_, fetch)| fetch.is_ended()).map(|(id, _)| *id).collect();
        for old in ended.iter().take(ended.len().saturating_sub(ENDED_KEPT)) {
            self.fetches.remove(old);
        }
        id
    }
    /// Ends a fetch.
    pub fn cancel(&mut self, now: Time, id: TransferId) {
        if let Some(fetch) = self.fetches.get_mut(&id) {
            fetch.transfer.cancel(now);
        }
    }
    /// Limits one fetch or, for `None`, all together.
    pub fn set_limit(&mut self, now: Time, id: Option<TransferId>, rate: Option<Rate>) {
        match id {
            None => self.limit.set_rate(now, rate),
            Some(id) => {
                if let Some(fetch) = self.fetches.get_mut(&id) {
                    fetch.transfer.set_limit(now, rate);
                }
            }
        }
    }
    /// Sends an echo request.
    ///
    /// # Errors
    /// [`EchoError`]: nothing was sent.
    pub fn echo(&mut self, now: Time, echo: &Echo) -> Result<EchoId, EchoError> {
        self.echoing.send(now, echo, &mut self.random)
    }
    /// Takes a Data or a Nack for this node.
    pub fn handle_packet(&mut self, now: Time, local: &LocalPacket) {
        if self.echoing.handle_packet(now, local) {
            return;
        }
        // Several fetches may have asked for the same: one answer comes for all.
        let mut taken = false;
        for fetch in self.fetches.values_mut() {
            taken |= fetch.handle_packet(now, local, &mut self.random);
        }
        self.strays += u64::from(!taken);
        self.collect_events(now);
    }
    /// Takes what the stores of fetches have answered that work on another thread.
    pub fn handle_storage(&mut self, now: Time) {
        for fetch in self.fetches.values_mut().filter(|fetch| !fetch.is_ended()) {
            fetch.handle_storage(now, &mut self.random);
        }
        self.collect_events(now);
    }
    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        for fetch in self.fetches.values_mut() {
            fetch.handle_timeout(now, &mut self.random);
        }
        self.echoing.handle_timeout(now);
        self.collect_events(now);
    }
    /// The next Interest to send.
    pub fn poll_interest(&mut self, now: Time) -> Option<Outgoing> {
        self.polled_at = now;
        if let Some(echo) = self.echoing.poll_interest() {
            return Some(echo);
        }
        let after = self.fetches.range(TransferId(self.last_polled.0.saturating_add(1))..);
        let order: Vec<TransferId> = after
            .chain(self.fetches.range(..=self.last_polled))
            .filter(|(_, fetch)| !fetch.is_ended())
            .map(|(id, _)| *id)
            .collect();
        for id in order {
            let Some(fetch) = self.fetches.get_mut(&id) else { continue };
            if let Some(outgoing) = fetch.poll_interest(now, &mut self.limit, &mut self.random) {
                self.last_polled = id;
                return Some(outgoing);
            }
        }
        None
    }
    /// When to call [`Receiver::handle_timeout`] or poll for Interests again.
    pub fn poll_timeout(&self) -> Option<Time> {
        let fetching = self.fetches.values().any(|fetch| !fetch.is_ended());
        let limit = Some(self.limit.ready_at()).filter(|ready| *ready > self.polled_at && fetching);
        let echo = self.echoing.poll_timeout();
        self.fetches.values().filter_map(Fetching::poll_timeout).chain(limit).chain(echo).min()
    }
    /// The next thing worth telling.
    pub fn poll_event(&mut self) -> Option<(TransferId, TransferEvent)> {
        self.events.pop_front()
    }
    /// What came of an echo request.
    pub fn poll_echo(&mut self) -> Option<EchoReport> {
        self.echoing.poll_report()
    }
    fn collect_events(&mut self, now: Time) {
        for (id, fetch) in &mut self.fetches {
            while let Some(event) = fetch.poll_event(now, &mut self.random) {
                self.events.push_back((*id, event));
            }
        }
    }
    /// The account of a fetch.
    pub fn report(&self, now: Time, id: TransferId) -> Option<TransferReport> {
        self.fetches.get(&id).map(|fetch| fetch.transfer.report(now))
    }
    /// Whether forwarders have sent back what the latest fetch of a name asked for, because no route leads on.
    pub fn is_refused(&self, name: &Name) -> bool {
        self.fetches.values().rfind(|fetch| fetch.transfer.name() == name).is_some_and(Fetching::is_refused)
    }
    /// The fetches, oldest first, with the names they fetch.
    pub fn transfers(&self) -> Vec<(TransferId, Name)> {
        self.fetches.iter().map(|(id, fetch)| (*id, fetch.transfer.name().clone())).collect()
    }
    /// Paths known to a fetch, and those of them in use.
    pub fn paths(&self, id: TransferId) -> Option<(usize, usize)> {
        self.fetches.get(&id).map(|fetch| (fetch.paths.len(), fetch.paths.in_use().count()))
    }
}

/// Sources that a fetch usually has: NDN does not tell them apart before the first answer, so paths are limited together.
const SOURCES_TYPICAL: usize = 4;

/// A source as a producer named itself.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) node: NodeId,
    pub(crate) label: alloc::string::String,
    pub(crate) manifest: Vec<u8>,
    /// How it cuts the object.
    pub(crate) segment_bytes: u16,
}
