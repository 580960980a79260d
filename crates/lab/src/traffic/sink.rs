//! The other end of cross traffic.
use std::collections::VecDeque;
use tributary_core::{Datagram, FaceId, Node, Time, TimerId, Transmit, TransmitBuf, event::Event};

use super::Packet;

/// Counts packets, and answers those that request an answer, on any face.
#[derive(Clone, Debug, Default)]
pub struct Sink {
    packets: u64,
    bytes: u64,
    marked: u64,
    answers: VecDeque<(FaceId, Packet)>,
}

impl Sink {
    /// Packets that arrived.
    pub fn packets(&self) -> u64 {
        self.packets
    }
    /// Bytes that arrived.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
    /// Packets that arrived marked.
    pub fn marked(&self) -> u64 {
        self.marked
    }
}

impl Node for Sink {
    fn handle_datagram(&mut self, _: Time, face: FaceId, datagram: Datagram) {
        let Some(packet) = Packet::decode(&datagram) else { return };
        self.packets += 1;
        self.bytes += datagram.len() as u64;
        self.marked += u64::from(datagram.is_marked());
        if let Packet::Data { number, sent } = packet {
            self.answers.push_back((face, Packet::Ack { number, sent, marked: datagram.is_marked() }));
        }
    }
    fn handle_timeout(&mut self, _: Time) {}
    fn poll_transmit(&mut self, _: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        let (face, packet) = self.answers.pop_front()?;
        out.push(&packet.encode(), bytes::Bytes::new());
        Some(Transmit { face })
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        None
    }
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
}
