//! Routers with corrupting caches, for `trib demo --evil cache` and `corrupt_cache` in scenarios.
mod mf;
mod ndn;
mod psi;

use tributary::{NodeConfig, config::Wrapper, simulated::BoxedNode};
use tributary_content::{Name, ObjectReader, PublicKey};
use tributary_core::{
    ByteCount, Datagram, FaceAddresses, FaceChange, FaceId, FaceRefusal, FaceRequest, Node, Random, Rate, Time,
    TimerId, TransferId, Transmit, TransmitBuf,
    event::{Event, TransferReport},
};
use tributary_transport::{
    Echoes, Endpoint, FaceOptions, Fetch, Forwarding, Messaging, NodeStatus, Obstacle,
    bulk::{BulkInput, BulkStep},
    policy::{FacePolicy, PathDemands},
};
use tributary_trust::{Grant, Identity};

/// Gives nodes the faulty caches that their configs request.
pub const FAULTY_CACHES: Wrapper = Wrapper(Some(with_faulty_cache));

fn with_faulty_cache(inner: BoxedNode, config: &NodeConfig, seed: u64) -> BoxedNode {
    let share = config.faults.corrupt_cache;
    if share == 0.0 {
        return inner;
    }
    let random = Random::new(seed, FAULT_STREAM);
    let settings = &config.settings;
    let corruption: Box<dyn Corruption> = match (settings.psi(), settings.mf()) {
        (Some(psi), _) => Box::new(psi::FaultyCache { origin: psi.node.0 as u16, share, random }),
        (_, Some(mf)) => Box::new(mf::FaultyCache { own: mf.guid(), share }),
        _ => Box::new(ndn::FaultyCache::new(share, random)),
    };
    Box::new(FaultyNode { inner, corruption })
}

/// The random stream that decides which packets a faulty cache alters.
const FAULT_STREAM: u64 = 0x11e5;

/// How a faulty node alters the packets that it sends.
trait Corruption: Send {
    /// Looks at a packet that arrived.
    fn on_arrival(&mut self, _datagram: &Datagram) {}
    /// The packet to send in place of `datagram`.
    fn corrupt(&mut self, datagram: Datagram) -> Datagram;
    /// Everything that the arrivals so far gave rise to has been sent.
    fn on_drained(&mut self) {}
}

/// A node whose transmissions are corrupted; otherwise it behaves correctly.
struct FaultyNode {
    inner: BoxedNode,
    corruption: Box<dyn Corruption>,
}

impl Node for FaultyNode {
    fn handle_datagram(&mut self, now: Time, face: FaceId, datagram: Datagram) {
        self.corruption.on_arrival(&datagram);
        self.inner.handle_datagram(now, face, datagram);
    }
    fn handle_timeout(&mut self, now: Time) {
        self.inner.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        let Some(transmit) = self.inner.poll_transmit(now, out) else {
            self.corruption.on_drained();
            return None;
        };
        let correct: Vec<_> = out.drain().collect();
        out.clear();
        for datagram in correct {
            out.push_datagram(self.corruption.corrupt(datagram));
        }
        Some(transmit)
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        self.inner.poll_timeout()
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.inner.poll_event()
    }
    fn handle_storage(&mut self, now: Time) {
        self.inner.handle_storage(now);
    }
    fn handle_face(&mut self, now: Time, face: FaceId, change: FaceChange) {
        self.inner.handle_face(now, face, change);
    }
    fn poll_face_request(&mut self) -> Option<FaceRequest> {
        self.inner.poll_face_request()
    }
    fn handle_face_answer(&mut self, now: Time, request: u64, answer: Result<(FaceId, FaceAddresses), FaceRefusal>) {
        self.inner.handle_face_answer(now, request, answer);
    }
    fn handle_channels(&mut self, channels: Vec<String>) {
        self.inner.handle_channels(channels);
    }
}

impl Endpoint for FaultyNode {
    fn add_face(&mut self, now: Time, face: FaceId, options: FaceOptions) {
        self.inner.add_face(now, face, options);
    }
    fn remove_face(&mut self, now: Time, face: FaceId) {
        self.inner.remove_face(now, face);
    }
    fn publish(&mut self, now: Time, object: Box<dyn ObjectReader>) {
        self.inner.publish(now, object);
    }
    fn unpublish(&mut self, now: Time, name: &Name) {
        self.inner.unpublish(now, name);
    }
    fn fetch(&mut self, now: Time, fetch: Fetch) -> TransferId {
        self.inner.fetch(now, fetch)
    }
    fn fetch_certified(&mut self, now: Time, fetch: Fetch, certificate: &[u8]) -> Option<TransferId> {
        self.inner.fetch_certified(now, fetch, certificate)
    }
    fn cancel(&mut self, now: Time, transfer: TransferId) {
        self.inner.cancel(now, transfer);
    }
    fn step_bulk(&mut self, now: Time, transfer: TransferId, inputs: Vec<BulkInput>) -> Option<BulkStep> {
        self.inner.step_bulk(now, transfer, inputs)
    }
    fn watch(&mut self, now: Time, scope: &Name) {
        self.inner.watch(now, scope);
    }
    fn unwatch(&mut self, now: Time, scope: &Name) {
        self.inner.unwatch(now, scope);
    }
    fn leave(&mut self, now: Time) {
        self.inner.leave(now);
    }
    fn limit(&mut self, now: Time, transfer: Option<TransferId>, rate: Option<Rate>) {
        self.inner.limit(now, transfer, rate);
    }
    fn set_face_policy(&mut self, now: Time, face: FaceId, policy: FacePolicy) {
        self.inner.set_face_policy(now, face, policy);
    }
    fn set_demands(&mut self, now: Time, transfer: TransferId, demands: PathDemands) -> bool {
        self.inner.set_demands(now, transfer, demands)
    }
    fn report(&self, now: Time, transfer: TransferId) -> Option<TransferReport> {
        self.inner.report(now, transfer)
    }
    fn transfers(&self) -> Vec<(TransferId, Name)> {
        self.inner.transfers()
    }
    fn publishes(&self, name: &Name) -> bool {
        self.inner.publishes(name)
    }
    fn published_count(&self) -> usize {
        self.inner.published_count()
    }
    fn published(&self) -> Vec<(Name, ByteCount)> {
        self.inner.published()
    }
    fn status(&self, now: Time) -> NodeStatus {
        self.inner.status(now)
    }
    fn obstacle(&self, now: Time, name: &Name) -> Option<Obstacle> {
        self.inner.obstacle(now, name)
    }
    fn set_identity(&mut self, now: Time, identity: &Identity) {
        self.inner.set_identity(now, identity);
    }
    fn handle_grant(&mut self, now: Time, face: FaceId, grant: Option<&Grant>) {
        self.inner.handle_grant(now, face, grant);
    }
    fn set_face_key(&mut self, face: FaceId, key: Option<PublicKey>) {
        self.inner.set_face_key(face, key);
    }
    fn echoes(&mut self) -> Option<&mut dyn Echoes> {
        self.inner.echoes()
    }
    fn forwarding(&mut self) -> Option<&mut dyn Forwarding> {
        self.inner.forwarding()
    }
    fn messaging(&mut self) -> Option<&mut dyn Messaging> {
        self.inner.messaging()
    }
}
