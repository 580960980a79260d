//! Names that change under way, and what is done when room is short.
use super::*;

impl Router {
    /// What a name is bound to, as just learnt; none for nowhere. Chunks on their way follow it.
    pub fn handle_binding(&mut self, now: Time, guid: Guid, addresses: Vec<NetworkAddress>, lifetime: Duration) {
        self.bindings.insert(now, guid, addresses, lifetime);
        self.diverted.remove(&guid);
        self.retry(now, guid);
    }
    /// The addresses that a name is known to have.
    pub fn binding(&self, now: Time, guid: &Guid) -> Option<&[NetworkAddress]> {
        self.bindings.look(now, guid)
    }
    /// Something about this destination has changed: what waits or is queued for it is looked at again.
    pub(super) fn retry(&mut self, now: Time, guid: Guid) {
        let mut again = self.unresolved.remove(&guid).map(|(_, slots)| slots).unwrap_or_default();
        let mut moving = Vec::new();
        for (face, hop) in &self.hops {
            for (_, slot) in &hop.queue {
                let header = self.buffer.chunk(*slot).and_then(|chunk| chunk.header.as_ref());
                if let Some(header) = header.filter(|header| header.destination == guid) {
                    let way = self.way(now, header);
                    if !matches!(way, Way::Face(to, _) if to == *face) {
                        moving.push((*face, *slot));
                    }
                }
            }
        }
        for (face, slot) in moving {
            let count = self.buffer.chunk(slot).map_or(0, Chunk::count);
            if let Some(hop) = self.hops.get_mut(&face) {
                hop.queue.retain(|(_, queued)| *queued != slot);
                hop.queued = hop.queued.saturating_sub(u32::from(count));
            }
            again.push(slot);
        }
        for slot in again {
            self.forward(now, slot);
        }
    }
    /// Keeps chunks for a destination here rather than with a router whose storage is depleted.
    pub(super) fn divert(&mut self, now: Time, face: FaceId) {
        let depleted = match (&self.topology, self.hops.get(&face).and_then(|hop| hop.peer.as_ref())) {
            (Some(topology), Some(peer)) => topology.is_depleted(peer.address, self.config.depleted_percent),
            _ => false,
        };
        let Some(hop) = self.hops.get_mut(&face).filter(|_| depleted && self.config.stores) else { return };
        for slot in hop.outgoing.take_refused(&self.buffer) {
            let destination = self.buffer.chunk(slot).and_then(|chunk| Some(chunk.header.as_ref()?.destination));
            if let Some(guid) = destination {
                self.diverted.insert(guid, now + DIVERSION);
            }
            self.outputs.push_back(Output::Store(slot, StoreReason::Depleted));
        }
    }
    /// Pushes chunks to the proxy that keep others from passing (paper §3.4.3): those that wait longest in line for the
    /// face that holds more than its share of a buffer that is nearly full.
    pub(super) fn relieve(&mut self, now: Time) {
        let nearly_full = self.buffer.free() < self.buffer.capacity() / 4;
        if !nearly_full || self.config.relief == HolRelief::Off || !self.config.stores || now < self.relief_after {
            return;
        }
        let recent = |hop: &&mut Hop| hop.used_at.is_some_and(|at| now.since(at) < ACTIVE);
        let active = self.hops.values_mut().filter(recent).count() as u32;
        let share = self.buffer.capacity() / active.max(1) / 2;
        let Some((_, hop)) = self.hops.iter_mut().max_by_key(|(_, hop)| hop.queued).filter(|_| active > 1) else {
            return;
        };
        while hop.queued > share
            && hop.queue.len() > QUEUE_KEPT
            && let Some((_, slot)) = hop.queue.pop_back()
        {
            hop.queued = hop.queued.saturating_sub(self.buffer.chunk(slot).map_or(0, |chunk| u32::from(chunk.count())));
            self.stats.relieved += 1;
            self.outputs.push_back(Output::Store(slot, StoreReason::Relief));
        }
    }
    /// Tells neighbours whose window was too small for a chunk that it has opened.
    pub(super) fn open_windows(&mut self) {
        let window = self.buffer.free();
        for hop in self.hops.values_mut().filter(|hop| hop.peer.is_some()) {
            let low = WINDOW_LOW.min(self.config.buffer_packets / 2);
            if hop.incoming.advertised < low && window >= low && !hop.incoming.has_answers() {
                hop.incoming.announce_window();
            }
        }
    }
}
