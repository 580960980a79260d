//! A node behind the layer.
use alloc::{boxed::Box, string::String, vec::Vec};
use bytes::{Bytes, BytesMut};
use core::net::SocketAddr;
use tributary_core::{
    Datagram, DatagramBatch, FaceAddresses, FaceChange, FaceId, FaceProtection, FaceRefusal, FaceRequest, Node,
    Stranger, Time, TimerId, Transmit, TransmitBuf, event::Event,
};

use crate::{Admission, Config, Entropy, OnPeer, Peer, Stats, layer::Layer, wire::DATA_OVERHEAD};

/// A node whose faces are protected. To a driver it is a node like any other.
pub struct Secured<N> {
    node: N,
    layer: Layer,
    on_peer: OnPeer<N>,
    /// Buffers that packets were sealed into; a driver has usually copied them when the next batch is sealed.
    sealed: Buffers,
}

/// The layer's timer; the node's own timers have far smaller numbers.
const LAYER: TimerId = TimerId(u16::MAX);

impl<N: Node> Secured<N> {
    /// `node` behind a layer that admits neighbours by `admission` and draws keys from `entropy`.
    pub fn new(node: N, config: Config, admission: Box<dyn Admission>, entropy: Entropy) -> Self {
        let layer = Layer::new(config, admission, entropy);
        Secured { node, layer, on_peer: Box::new(|_, _, _, _| {}), sealed: Buffers::default() }
    }
    /// The same, which calls `on_peer` when another neighbour is at the end of a face.
    #[must_use]
    pub fn on_peer(self, on_peer: OnPeer<N>) -> Self {
        Secured { on_peer, ..self }
    }
    tributary_core::forwarded! {
        this => this.layer;
        /// Changes what this node presents, at most [`PRESENTED_BYTES_MAX`](crate::PRESENTED_BYTES_MAX) bytes, from the
        /// next handshake on. Neighbours see it when keys are renewed.
        pub fn present(&mut Self, presented: &[u8]);
        /// Sends a notice of at most [`NOTICE_BYTES_MAX`](crate::NOTICE_BYTES_MAX) bytes to the owner of the neighbour
        /// on a face, authenticated and encrypted. It may be lost.
        pub fn send_notice(&mut Self, face: FaceId, notice: &[u8]);
        /// Whether there are notices.
        pub fn has_notices(&Self) -> bool;
        /// The next notice of a neighbour's owner.
        pub fn poll_notice(&mut Self) -> Option<(FaceId, Vec<u8>)>;
        /// Says how a face is protected, from now on.
        pub fn set_policy(&mut Self, face: FaceId, policy: FaceProtection);
        /// Whether a face carries packets outside a session.
        pub fn policy(&Self, face: FaceId) -> FaceProtection;
        /// The proven neighbour on a face.
        pub fn peer(&Self, face: FaceId) -> Option<&Peer>;
        /// Why no packets pass over a face.
        pub fn trouble(&Self, face: FaceId) -> Option<String>;
        /// Whether that is so because one of both ends does not admit the other.
        pub fn is_refused(&Self, face: FaceId) -> bool;
    }
    /// Ends the session with a neighbour whose admission has ended, and sends it the reason.
    pub fn dismiss(&mut self, now: Time, face: FaceId, reason: &str) {
        self.layer.dismiss(now, face, reason);
        self.introduce(now);
    }
    /// The node.
    pub fn node(&self) -> &N {
        &self.node
    }
    /// The node, to command.
    pub fn node_mut(&mut self) -> &mut N {
        &mut self.node
    }
    /// Forgets a face that the owner removes.
    pub fn forget(&mut self, now: Time, face: FaceId) {
        self.layer.forget(face);
        self.introduce(now);
    }
    /// Its counters.
    pub fn stats(&self) -> Stats {
        self.layer.stats
    }
    /// Informs the node of new neighbours, before their first packet, and of dismissed ones.
    fn introduce(&mut self, now: Time) {
        while let Some((face, peer)) = self.layer.poll_peer() {
            (self.on_peer)(&mut self.node, now, face, peer.as_ref());
        }
    }
    fn deliver(&mut self, now: Time, face: FaceId, bytes: Bytes, stride: usize) {
        if bytes.len() > stride {
            self.node.handle_batch(now, face, DatagramBatch::new(bytes, stride));
        } else if !bytes.is_empty() {
            self.node.handle_datagram(now, face, Datagram::from(bytes));
        }
    }
}

impl<N: Node> Node for Secured<N> {
    fn handle_datagram(&mut self, now: Time, face: FaceId, datagram: Datagram) {
        if self.layer.policy(face) == FaceProtection::Off {
            return self.node.handle_datagram(now, face, datagram);
        }
        let is_marked = datagram.is_marked();
        let bytes = datagram.into_bytes();
        let mut plain = BytesMut::with_capacity(bytes.len());
        let owner = self.layer.receive(now, face, &bytes, &mut plain);
        self.introduce(now);
        let Some(owner) = owner else { return };
        if !plain.is_empty() {
            let mut datagram = Datagram::from(plain.freeze());
            if is_marked {
                datagram.set_marked();
            }
            self.node.handle_datagram(now, owner, datagram);
        }
    }
    fn handle_batch(&mut self, now: Time, face: FaceId, run: DatagramBatch) {
        if self.layer.policy(face) == FaceProtection::Off {
            return self.node.handle_batch(now, face, run);
        }
        // Packets of the same length and owner stay a run.
        let all: usize = (0..run.count()).map(|index| run.bytes(index).len()).sum();
        let mut plain = BytesMut::with_capacity(all);
        let mut pending: Option<(FaceId, usize)> = None;
        for index in 0..run.count() {
            let before = plain.len();
            let Some(owner) = self.layer.receive(now, face, run.bytes(index), &mut plain) else {
                // Earlier packets belong to the earlier neighbour.
                if let Some((face, stride)) = pending.take() {
                    let run = plain.split().freeze();
                    self.deliver(now, face, run, stride);
                }
                self.introduce(now);
                continue;
            };
            let bytes = plain.len() - before;
            match pending {
                Some((face, stride)) if face == owner && bytes == stride => {}
                Some((face, stride)) if face == owner && bytes < stride => {
                    // A shorter one ends it.
                    pending = None;
                    let run = plain.split().freeze();
                    self.deliver(now, face, run, stride);
                }
                Some((face, stride)) => {
                    let rest = plain.split_off(before);
                    let run = core::mem::replace(&mut plain, rest).freeze();
                    self.deliver(now, face, run, stride);
                    pending = Some((owner, bytes));
                }
                None => pending = (bytes > 0).then_some((owner, bytes)),
            }
        }
        if let Some((face, stride)) = pending {
            self.deliver(now, face, plain.freeze(), stride);
        }
    }
    fn handle_stranger(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) -> Stranger {
        self.layer.on_stranger(now, from, datagram)
    }
    fn handle_timeout(&mut self, now: Time) {
        self.layer.handle_timeout(now);
        self.node.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        loop {
            if let Some((face, packet)) = self.layer.poll_transmit() {
                out.push(&[], packet.into());
                return Some(Transmit { face });
            }
            let transmit = self.node.poll_transmit(now, out)?;
            if self.layer.policy(transmit.face) != FaceProtection::Off {
                let bytes = out.iter().map(|(head, body)| head.len() + body.len() + DATA_OVERHEAD).sum();
                let mut buffer = self.sealed.take(bytes);
                self.layer.seal(now, transmit.face, out, &mut buffer);
                if let Some((_, first)) = out.iter().next() {
                    self.sealed.lend(first);
                }
            }
            if !out.is_empty() {
                return Some(transmit);
            }
        }
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        let own = self.layer.poll_timeout().map(|due| (due, LAYER));
        own.into_iter().chain(self.node.poll_timeout()).min_by_key(|(due, _)| *due)
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.layer.poll_event().or_else(|| self.node.poll_event())
    }
    fn handle_face(&mut self, now: Time, face: FaceId, change: FaceChange) {
        if change == FaceChange::Closed {
            self.layer.forget(face);
            self.introduce(now);
        }
        self.node.handle_face(now, face, change);
    }
    tributary_core::forwarded! {
        this => this.node;
        fn handle_storage(&mut Self, now: Time);
        fn handle_face_answer(&mut Self, now: Time, request: u64, answer: Result<(FaceId, FaceAddresses), FaceRefusal>);
        fn handle_channels(&mut Self, channels: Vec<String>);
    }
    fn poll_face_request(&mut self) -> Option<FaceRequest> {
        let moved = self.layer.poll_move().map(|(face, to)| FaceRequest::Move { face, to });
        moved.or_else(|| self.node.poll_face_request())
    }
}

/// Buffers are reused when no packet shares them: otherwise the allocator would return large ones to the system for
/// each batch, and the system would clear them again.
#[derive(Default)]
struct Buffers {
    lent: Vec<Bytes>,
}

/// Buffers that are remembered; a queue that holds more gets new ones.
const LENT_MAX: usize = 4;

impl Buffers {
    fn take(&mut self, bytes: usize) -> BytesMut {
        let free = self.lent.iter().position(Bytes::is_unique);
        let buffer = free.map(|index| self.lent.swap_remove(index)).and_then(|buffer| buffer.try_into_mut().ok());
        let mut buffer = buffer.unwrap_or_default();
        buffer.clear();
        buffer.reserve(bytes);
        buffer
    }
    fn lend(&mut self, first: &Bytes) {
        if self.lent.len() < LENT_MAX {
            self.lent.push(first.clone());
        }
    }
}
