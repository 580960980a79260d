//! Copies of a chunk in arrival (paper §3.5): they are sent over several links as its packets arrive.
use super::*;

/// The copies of an arriving chunk for a group.
#[derive(Debug)]
pub(super) struct Copying {
    /// Started copies.
    copies: Vec<Slot>,
    /// Headers of the copies that start when the chunk is complete.
    rest: Vec<ChunkHeader>,
}

impl Router {
    /// Starts to send copies of an arriving chunk, one for each header whose path is idle; the others follow when the
    /// chunk is complete, which [`Output::Copied`] reports. If no copy can start, the chunk is reported as
    /// [`Output::Arrived`] like any other. Returns the number of started copies.
    pub fn begin_copies(&mut self, now: Time, slot: Slot, headers: Vec<ChunkHeader>) -> usize {
        let is_arriving = self.buffer.chunk(slot).is_some_and(|chunk| !chunk.is_complete());
        if !is_arriving || self.copying.contains_key(&slot) {
            return 0;
        }
        let (mut copies, mut rest) = (Vec::new(), Vec::new());
        for mut header in headers {
            let Some((face, address)) = self.cut_way(now, slot, &header) else {
                rest.push(header);
                continue;
            };
            binding::narrow(&mut header, address);
            let Some(copy) = self.buffer.copy_of(slot, header) else { continue };
            self.stats.originated += 1;
            self.send_while_arriving(now, copy, face);
            copies.push(copy);
        }
        let begun = copies.len();
        if begun > 0 {
            self.copying.insert(slot, Copying { copies, rest });
        }
        begun
    }
    /// Starts copies of a complete chunk. They share its bytes.
    pub fn copy(&mut self, now: Time, slot: Slot, headers: impl IntoIterator<Item = ChunkHeader>) {
        let longest = self.datagram_bytes() as usize - DataHeader::BYTES;
        let lengths = self.buffer.chunk(slot).map(Chunk::lengths).unwrap_or_default();
        let first = lengths.first().map_or(0, |bytes| *bytes as usize);
        let all_fit = lengths.iter().all(|bytes| *bytes as usize <= longest);
        let fits = |header: &ChunkHeader| all_fit && header.len() + first <= longest;
        let (fitting, oversized): (Vec<ChunkHeader>, Vec<ChunkHeader>) = headers.into_iter().partition(fits);
        for header in fitting {
            let Some(copy) = self.buffer.copy_of(slot, header) else { return };
            self.stats.originated += 1;
            self.forward(now, copy);
        }
        if !oversized.is_empty() {
            let payload = self.buffer.payload(slot);
            self.originate_copies(now, oversized, &payload);
        }
    }
    /// A packet of a chunk has arrived; false if no copy of it has started.
    pub(super) fn on_copied_packet(&mut self, slot: Slot, index: u16) -> bool {
        let Some(Copying { copies, .. }) = self.copying.get(&slot) else { return false };
        let fragment = self.buffer.chunk(slot).and_then(|chunk| chunk.fragment(index)).cloned();
        let Some(fragment) = fragment else { return true };
        for copy in copies.clone() {
            if self.buffer.fill(copy, index, fragment.clone()).is_some() {
                self.send_packet_on(copy, index);
            }
        }
        true
    }
    /// A chunk is complete; false if no copy of it has started.
    pub(super) fn on_copied(&mut self, now: Time, slot: Slot) -> bool {
        let Some(Copying { copies, rest }) = self.copying.remove(&slot) else { return false };
        for copy in copies {
            self.buffer.complete_copy(copy, slot);
            if !self.send_rest_on(now, copy) {
                // Its link is down, or does not carry its packets: it is sent when complete.
                self.forward(now, copy);
            }
        }
        self.outputs.push_back(Output::Copied(slot, rest));
        true
    }
    /// The copies of a chunk that will stay incomplete, except those whose next hop got the rest elsewhere.
    pub(super) fn take_copies(&mut self, slot: Slot) -> Vec<Slot> {
        let mut copies = self.copying.remove(&slot).map(|copying| copying.copies).unwrap_or_default();
        copies.retain(|copy| self.buffer.chunk(*copy).is_some());
        self.stats.originated -= copies.len() as u64;
        copies
    }
}
