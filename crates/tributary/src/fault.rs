//! Deliberate misbehaviour, for demos and tests: what an honest network must survive.
use bytes::Bytes;
use tributary_content::{ChunkIndex, Manifest, Name, ObjectReader, PublicKey, StoreError};
use tributary_core::{
    Datagram, FaceAddresses, FaceChange, FaceId, FaceRefusal, FaceRequest, Node, Random, Rate, Time, TimerId,
    TransferId, Transmit, TransmitBuf,
    event::{Event, TransferReport},
};
use tributary_transport::{
    Echoes, Endpoint, FaceOptions, Fetch, Forwarding, Messaging, NodeStatus, Obstacle,
    bulk::{BulkInput, BulkStep},
    policy::{FacePolicy, PathDemands},
};
use tributary_trust::{Grant, Identity};

/// A faulty published object: some of its chunks have flipped bytes, while manifest and tree are the true ones.
pub struct CorruptObject {
    inner: Box<dyn ObjectReader>,
    share: f64,
    seed: u64,
}

impl CorruptObject {
    /// Flips a byte in `share` (0 to 1) of the chunks of `inner`; the same chunks whenever they are read.
    pub fn new(inner: Box<dyn ObjectReader>, share: f64, seed: u64) -> Self {
        CorruptObject { inner, share, seed }
    }
}
impl ObjectReader for CorruptObject {
    fn manifest(&self) -> &Manifest {
        self.inner.manifest()
    }
    fn tree(&self) -> Bytes {
        self.inner.tree()
    }
    fn read_chunk(&mut self, index: ChunkIndex) -> Result<Bytes, StoreError> {
        let chunk = self.inner.read_chunk(index)?;
        let mut random = Random::new(self.seed, u64::from(index.0));
        if chunk.is_empty() || !random.chance(self.share) {
            return Ok(chunk);
        }
        let mut bytes = chunk.to_vec();
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] ^= 0x55;
        Ok(bytes.into())
    }
}

/// The random stream that decides which packets a faulty cache alters.
pub(crate) const FAULT_STREAM: u64 = 0x11e5;

/// How a faulty node alters the packets that it sends.
pub(crate) trait Corruption: Send {
    /// Looks at a packet that arrived.
    fn on_arrival(&mut self, _datagram: &Datagram) {}
    /// The packet to send in place of `datagram`.
    fn corrupt(&mut self, datagram: Datagram) -> Datagram;
    /// Everything that the arrivals so far gave rise to has been sent.
    fn on_drained(&mut self) {}
}

/// A node whose transmissions are corrupted; it behaves correctly otherwise.
pub(crate) struct FaultyNode<N, C> {
    pub(crate) inner: N,
    pub(crate) corruption: C,
}

impl<N: Node, C: Corruption> Node for FaultyNode<N, C> {
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

impl<N: Endpoint, C: Corruption> Endpoint for FaultyNode<N, C> {
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
    fn published(&self) -> Vec<(Name, tributary_core::ByteCount)> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_content::{MemoryObject, SigningKey};

    fn object() -> MemoryObject {
        let key = SigningKey::from_secret(&[1; 32]);
        MemoryObject::new("/demo/big".parse().unwrap(), vec![7; 3 << 20], &key).unwrap()
    }
    fn chunks(reader: &mut dyn ObjectReader) -> Vec<Bytes> {
        (0..reader.manifest().chunk_count()).map(|index| reader.read_chunk(ChunkIndex(index)).unwrap()).collect()
    }

    #[test]
    fn a_corrupt_object_alters_the_same_chunks_every_time_and_no_manifest() {
        let honest = chunks(&mut object());
        let mut corrupt = CorruptObject::new(Box::new(object()), 0.5, 3);
        let first = chunks(&mut corrupt);
        assert_eq!(first, chunks(&mut corrupt));
        let altered = honest.iter().zip(&first).filter(|(honest, read)| honest != read).count();
        assert!(altered > 0 && altered < honest.len(), "{altered} of {}", honest.len());
        assert_eq!(corrupt.manifest(), object().manifest());
    }

    #[test]
    fn a_share_of_zero_alters_nothing() {
        let mut honest = CorruptObject::new(Box::new(object()), 0.0, 3);
        assert_eq!(chunks(&mut honest), chunks(&mut object()));
    }
}
