//! The receiving side of PTP (paper: consumer): finds paths by probing, requests each packet on the path that the
//! engine of [`tributary_transport::Transfer`] chooses, and passes it the packets with their origin.
//!
//! ```text
//!  probes ──► tag, manifest ──► Paths ──► in use ──► Transfer ──► packet on path ──► tagged Interest
//!                                 ▲                     ▲
//!                                 └── failed, silent ◄──┴── Data, from a producer or from a cache
//! ```
mod echo;
mod fetch;
mod foreign;
mod manifest_signer;
mod paths;
mod requested;
pub mod selection;

use alloc::{string::String, sync::Arc, vec::Vec};

use bytes::Bytes;
use tributary_content::{Manifest, Name, ObjectId};
use tributary_core::{Duration, EchoId, FaceId, NodeId, Random, Time, TransferId, event::TransferEvent};
use tributary_transport::{
    Fetch, TransferConfig,
    bulk::{BulkInput, BulkStep},
    echo::Echo,
    fetches::FetchTable,
    policy::{FacePolicy, PathDemands},
};

use crate::{
    config::{Config, PathConfig, SharedKey, Unsigned},
    router::LocalPacket,
    trust::Anchors,
    wire::{Certificate, Data, Interest, LpPacket, VerifyKey, packet_type, types},
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

tributary_core::declared! {
    /// All fetches of a node.
    pub struct Receiver {
        label: String = config.label.clone(),
        // An Interest names one packet, so a request names few: it is no gain to collect more.
        config: TransferConfig =
            TransferConfig { request_packets_max: transfer.request_packets_max.min(8), ..transfer },
        paths: PathConfig = config.paths.clone(),
        shared_keys: Vec<SharedKey> = config.shared_keys.clone(),
        anchors: Arc<Anchors> = Arc::new(config.anchors.clone()),
        unsigned: Unsigned = config.unsigned,
        epoch: Duration = config.epoch,
        random: Random = random,
        pub(crate) fetches: FetchTable<Fetching> = FetchTable::new(0, ENDED_KEPT),
        pub(crate) echoing: echo::Echoing = echo::Echoing::default(),
        polled_at: Time = Time::ZERO,
        /// Data that answers no request.
        pub unsolicited: u64 = 0,
    }
    /// A receiver without fetches in a node with these settings.
    pub fn new(config: &Config, random: Random) {
        let transfer = config.transfer.clone();
    }
}

impl Receiver {
    /// Starts a fetch. With a certificate only data signed by its key is accepted, regardless of anchors.
    pub fn fetch(&mut self, now: Time, fetch: Fetch, pinned: Option<Certificate>) -> TransferId {
        let id = self.fetches.number_for(&*fetch.opener);
        let paths = PathConfig {
            // A lookup seeks no paths.
            probes_initial: if fetch.opener.only_looks() { 1 } else { self.paths.probes_initial },
            in_use_max: self.paths.in_use_max.min(usize::from(fetch.paths_per_source.max(1)) * SOURCES_TYPICAL),
            ..self.paths.clone()
        };
        let shared = SharedKey::of(&self.shared_keys, &fetch.name).map(|key| VerifyKey::Hmac(key.secret.clone()));
        let trust = Trust { shared, pinned, anchors: self.anchors.clone(), unsigned: self.unsigned, epoch: self.epoch };
        self.fetches.insert(id, Fetching::new(now, &self.label, fetch, self.config.clone(), paths, trust));
        id
    }
    /// Ends a fetch.
    pub fn cancel(&mut self, now: Time, id: TransferId) {
        if let Some(fetch) = self.fetches.get_mut(id) {
            fetch.transfer.cancel(now);
        }
    }
    /// Takes the reports of a fetch's bulk driver, and returns its next tasks.
    pub fn step_bulk(&mut self, now: Time, id: TransferId, inputs: Vec<BulkInput>) -> Option<BulkStep> {
        self.fetches.get_mut(id).map(|fetch| fetch.transfer.step_bulk(now, inputs))
    }
    /// Sets the operator's policy for a face.
    pub fn set_face_policy(&mut self, now: Time, face: FaceId, policy: FacePolicy) {
        self.fetches.shared.faces.set(now, face, policy);
        let faces = self.fetches.shared.faces.clone();
        for (_, fetch) in self.fetches.running_mut() {
            fetch.reconsider_paths(now, &faces, &mut self.random);
        }
        self.collect_events(now);
    }
    /// Changes a fetch's demands on its paths; false for an unknown fetch.
    pub fn set_demands(&mut self, now: Time, id: TransferId, demands: PathDemands) -> bool {
        let is_known = self.fetches.set_demands(now, id, demands);
        let faces = self.fetches.shared.faces.clone();
        if let Some(fetch) = self.fetches.get_mut(id) {
            fetch.reconsider_paths(now, &faces, &mut self.random);
        }
        self.collect_events(now);
        is_known
    }
    /// Sends an echo request.
    ///
    /// # Errors
    /// The reason, in words: nothing was sent.
    pub fn echo(&mut self, now: Time, echo: &Echo) -> Result<EchoId, String> {
        self.echoing.send(now, echo, &mut self.random)
    }
    /// Takes a Data or a Nack for this node.
    pub fn handle_packet(&mut self, now: Time, local: &LocalPacket) {
        if self.echoing.handle_packet(now, local) {
            return;
        }
        // Hundreds of lookups may be open, and each packet concerns few of them: it is decoded once.
        let is_data = packet_type(&local.packet) == Some(types::DATA);
        let data = if is_data { Data::decode(&local.packet).ok() } else { None };
        let returned = local.nack.and_then(|_| Interest::decode(&local.packet).ok());
        let name = data.as_ref().map(|data| data.name).or(returned.as_ref().map(|interest| interest.name));
        // Several fetches may have requested the same: one answer serves all.
        let mut taken = false;
        for (_, fetch) in self.fetches.running_mut() {
            if let Some(name) = name.filter(|name| fetch.concerns(*name)) {
                taken |= fetch.handle_packet(now, local, name, data.as_ref(), &mut self.random);
            }
        }
        self.unsolicited += u64::from(!taken);
        self.collect_events(now);
    }
    /// Takes the answers of fetches' stores on other threads.
    pub fn handle_storage(&mut self, now: Time) {
        for (_, fetch) in self.fetches.running_mut() {
            fetch.handle_storage(now, &mut self.random);
        }
        self.collect_events(now);
    }
    /// Serves the timers that are due.
    pub fn handle_timeout(&mut self, now: Time) {
        for (_, fetch) in self.fetches.iter_mut() {
            fetch.handle_timeout(now, &mut self.random);
        }
        self.echoing.handle_timeout(now);
        self.collect_events(now);
    }
    /// The next Interest to send.
    pub fn poll_interest(&mut self, now: Time) -> Option<Outgoing> {
        self.polled_at = now;
        if let Some(echo) = self.echoing.waiting.pop_front() {
            return Some(echo);
        }
        self.fetches.serve_in_turn(|fetch, shared| fetch.poll_interest(now, shared, &mut self.random))
    }
    /// When to call [`Receiver::handle_timeout`] or poll for Interests again.
    pub fn poll_timeout(&self) -> Option<Time> {
        let fetching = self.fetches.running().next().is_some();
        let limit = Some(self.fetches.shared.limit.ready_at()).filter(|ready| *ready > self.polled_at && fetching);
        let echo = self.echoing.poll_timeout();
        self.fetches.iter().filter_map(|(_, fetch)| fetch.poll_timeout()).chain(limit).chain(echo).min()
    }
    /// The next event to report.
    pub fn poll_event(&mut self) -> Option<(TransferId, TransferEvent)> {
        self.fetches.poll_event()
    }
    fn collect_events(&mut self, now: Time) {
        self.fetches.collect_events(|fetch| fetch.poll_event(now, &mut self.random));
    }
    /// Whether forwarders have returned the Interests of the latest fetch of a name for lack of a route.
    pub fn is_refused(&self, name: &Name) -> bool {
        self.fetches
            .all()
            .rfind(|(_, fetch)| fetch.transfer.name() == name)
            .is_some_and(|(_, fetch)| fetch.is_refused())
    }
    /// Paths known to a fetch, and the number in use.
    pub fn paths(&self, id: TransferId) -> Option<(usize, usize)> {
        self.fetches.get(id).map(|fetch| (fetch.paths.len(), fetch.paths.in_use().count()))
    }
}

/// Typical number of a fetch's sources: NDN does not distinguish them before the first answer, so paths are limited
/// together.
const SOURCES_TYPICAL: usize = 4;

/// A source as a producer named itself.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) node: NodeId,
    pub(crate) label: String,
    pub(crate) manifest: Vec<u8>,
    /// The same, decoded; `None` for foreign objects.
    pub(crate) shown: Option<Manifest>,
    /// How it cuts the object.
    pub(crate) segment_bytes: u16,
}
impl Source {
    /// The id of its bytes.
    pub(crate) fn object(&self) -> Option<ObjectId> {
        self.shown.as_ref().map(Manifest::object_id)
    }
}
