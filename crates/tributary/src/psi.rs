//! The PSI family: from a checked node config to its node.
use tributary_content::{Name, ObjectReader};
use tributary_core::{
    Datagram, FaceChange, FaceId, Node, Random, Rate, Time, TimerId, TransferId, Transmit, TransmitBuf,
    event::{Event, TransferReport},
};
use tributary_psi::{
    Config, PsiNode,
    wire::{DataHeader, FLAG_CACHED, Header, PacketType},
};
use tributary_transport::{Endpoint, FaceOptions, Fetch, NodeStatus};

use crate::{config::NodeConfig, registry::BoxedNode};

/// Makes a PSI node.
pub(crate) fn build(config: &NodeConfig, seed: u64) -> BoxedNode {
    let node = PsiNode::new(Config { seed, ..config.psi.clone() });
    let share = config.faults.corrupt_cache;
    if share > 0.0 {
        let random = Random::new(seed, LYING_STREAM);
        return Box::new(LyingCache { origin: config.psi.node.0 as u16, inner: node, share, random });
    }
    Box::new(node)
}

/// The random stream that decides which packets a lying cache alters.
const LYING_STREAM: u64 = 0x11e5;

/// A node whose cache answers with flipped bytes; everything else about it is honest.
struct LyingCache {
    inner: PsiNode,
    /// What its data packets call their sender.
    origin: u16,
    share: f64,
    random: Random,
}

impl LyingCache {
    /// Flips a byte of the payload if the packet came from this node's own cache.
    fn lie(&mut self, datagram: Datagram) -> Datagram {
        let bytes = datagram.header_bytes();
        let Ok(header) = Header::decode(bytes) else { return datagram };
        let is_cached = header.packet_type == PacketType::Data && header.flags & FLAG_CACHED != 0;
        let payload = header.len() + DataHeader::BYTES;
        let is_own = bytes
            .get(header.len()..)
            .is_some_and(|rest| DataHeader::decode(rest).is_ok_and(|data| data.origin == self.origin));
        if !is_cached || !is_own || datagram.len() <= payload || !self.random.chance(self.share) {
            return datagram;
        }
        let mut altered = datagram.to_vec();
        altered[payload] ^= 0x55;
        altered.into()
    }
}

impl Node for LyingCache {
    fn handle_datagram(&mut self, now: Time, face: FaceId, datagram: Datagram) {
        self.inner.handle_datagram(now, face, datagram);
    }
    fn handle_timeout(&mut self, now: Time) {
        self.inner.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        let transmit = self.inner.poll_transmit(now, out)?;
        let honest: Vec<_> = out.drain().collect();
        out.clear();
        for datagram in honest {
            let told = self.lie(datagram);
            out.push_datagram(told);
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
}

impl Endpoint for LyingCache {
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
    fn cancel(&mut self, now: Time, transfer: TransferId) {
        self.inner.cancel(now, transfer);
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
    fn report(&self, now: Time, transfer: TransferId) -> Option<TransferReport> {
        self.inner.report(now, transfer)
    }
    fn transfers(&self) -> Vec<(TransferId, Name)> {
        self.inner.transfers()
    }
    fn status(&self, now: Time) -> NodeStatus {
        self.inner.status(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_psi::wire::{Fid, StreamKey, TTL_MAX};

    fn liar(origin: u16) -> LyingCache {
        LyingCache { inner: PsiNode::new(Config::new("liar", 1)), origin, share: 1.0, random: Random::new(1, 1) }
    }
    fn data(flags: u8) -> Vec<u8> {
        let fid = Fid::decode(&[0, 0]).unwrap();
        let mut bytes = Vec::new();
        Header { packet_type: PacketType::Data, flags, ttl: TTL_MAX, fid }.encode(&mut bytes);
        DataHeader { tag: 1, packet: 2, stream: StreamKey([3; 6]), origin: 7 }.encode(&mut bytes);
        bytes.extend_from_slice(b"payload");
        bytes
    }

    #[test]
    fn only_what_its_own_cache_answers_is_altered() {
        let told = |origin, flags| liar(origin).lie(data(flags).into()).to_vec();
        assert_ne!(told(7, FLAG_CACHED), data(FLAG_CACHED));
        assert_eq!(told(8, FLAG_CACHED), data(FLAG_CACHED));
        assert_eq!(told(7, 0), data(0));
        assert_eq!(liar(7).lie(Datagram::from(&b"no packet"[..])).to_vec(), b"no packet");
    }
}
