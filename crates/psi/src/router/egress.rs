//! Egress: a queue for each face, in batches as they will be sent.
use alloc::collections::VecDeque;

use bytes::Bytes;
use tributary_core::{FaceId, Transmit, TransmitBuf};
use tributary_transport::FaceOptions;

use super::{Router, RouterFaceStats, decision::Ports};
use crate::wire::FLAG_MARKED;

pub(super) struct Face {
    pub(super) id: FaceId,
    pub(super) options: FaceOptions,
    /// Whether its neighbour has answered before.
    pub(super) is_proven: bool,
    /// Full batches, of [`TransmitBuf::DATAGRAMS_MAX`] packets each, to be handed out as they are.
    full: VecDeque<Batch>,
    /// The batch behind them.
    open: Batch,
    pub(super) stats: RouterFaceStats,
}

#[derive(Default)]
pub(super) struct Batch {
    packets: TransmitBuf,
    bytes: usize,
}

impl Face {
    pub(super) fn new(id: FaceId, options: FaceOptions) -> Face {
        let stats = RouterFaceStats::default();
        Face { id, options, is_proven: false, full: VecDeque::new(), open: Batch::default(), stats }
    }
    pub(super) fn clear(&mut self) {
        self.full.clear();
        self.open = Batch::default();
        self.stats.queue_packets = 0;
        self.stats.queue_bytes = 0;
    }
}

impl Router {
    /// Replaces the empty batch `out` by packets of one face, up to [`TransmitBuf::DATAGRAMS_MAX`]; faces take turns.
    #[inline]
    pub fn poll_transmit(&mut self, out: &mut TransmitBuf) -> Option<Transmit> {
        if self.queued == 0 { None } else { self.next_batch(out) }
    }
    fn next_batch(&mut self, out: &mut TransmitBuf) -> Option<Transmit> {
        let waits = |face: &Face| face.stats.queue_packets > 0;
        let (before, after) = self.faces.split_at(self.next_face);
        let index = match after.iter().position(waits) {
            Some(index) => self.next_face + index,
            None => before.iter().position(waits)?,
        };
        self.next_face = if index + 1 == self.faces.len() { 0 } else { index + 1 };
        // The capacity of the previous `out` is reused for the next packets.
        out.clear();
        let face = &mut self.faces[index];
        let bytes = match face.full.pop_front() {
            Some(mut batch) => {
                core::mem::swap(out, &mut batch.packets);
                let bytes = core::mem::take(&mut batch.bytes);
                self.spare = Some(batch);
                bytes
            }
            None => {
                core::mem::swap(out, &mut face.open.packets);
                core::mem::take(&mut face.open.bytes)
            }
        };
        let count = out.len();
        face.stats.queue_packets -= count;
        face.stats.queue_bytes -= bytes;
        face.stats.sent_packets += count as u64;
        face.stats.sent_bytes += bytes as u64;
        self.queued -= count;
        Some(Transmit { face: face.id })
    }
    /// Queues a packet on all faces in `self.matches`, which are indices into `ports`. Adds their number to `queued`,
    /// and returns the reason if a queue refused one.
    pub(super) fn enqueue_copies(
        &mut self,
        head: &mut [u8],
        body: Bytes,
        ports: Ports,
        queued: &mut usize,
    ) -> Option<&'static str> {
        if ports.copies == 1 {
            let result = self.enqueue(ports.first, head, body);
            *queued += usize::from(result.is_ok());
            return result.err().map(|reason| self.count_drop(reason));
        }
        let (mut body, mut left, mut dropped) = (Some(body), ports.copies, None);
        for word in 0..self.matches.len() {
            let mut bits = self.matches[word];
            while bits != 0 {
                let index = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                left -= 1;
                let Some(body) = (if left == 0 { body.take() } else { body.clone() }) else { break };
                match self.enqueue(index, head, body) {
                    Ok(()) => *queued += 1,
                    Err(reason) => dropped = Some(self.count_drop(reason)),
                }
            }
        }
        dropped
    }
    /// Puts a packet into a face's queue.
    fn enqueue(&mut self, index: usize, head: &mut [u8], body: Bytes) -> Result<(), &'static str> {
        let face = &mut self.faces[index];
        let bytes = head.len() + body.len();
        if bytes > face.options.mtu as usize {
            face.stats.dropped_packets += 1;
            return Err("longer than the mtu");
        }
        let queue_bytes = face.stats.queue_bytes + bytes;
        if face.stats.queue_packets >= self.config.queue_packets_max || queue_bytes > self.config.queue_bytes_max {
            face.stats.dropped_packets += 1;
            return Err("egress queue full");
        }
        if face.open.packets.is_full() {
            let spare = self.spare.take().unwrap_or_default();
            face.full.push_back(core::mem::replace(&mut face.open, spare));
        }
        let batch = &mut face.open;
        let flags = head[1];
        if self.config.mark_bytes.is_some_and(|mark| queue_bytes > mark) {
            head[1] |= FLAG_MARKED;
            face.stats.marked_packets += 1;
        }
        batch.packets.push(head, body);
        batch.bytes += bytes;
        head[1] = flags;
        face.stats.queue_bytes = queue_bytes;
        face.stats.queue_packets += 1;
        self.queued += 1;
        self.stats.queued += 1;
        Ok(())
    }
}
