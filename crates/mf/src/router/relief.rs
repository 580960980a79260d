//! Names that change in transit, and relief when the buffer is full.
use super::*;

impl Router {
    /// Applies a new binding of a name, which may be empty. Chunks in transit follow it. Outdated bindings are ignored.
    pub fn handle_binding(&mut self, now: Time, guid: Guid, binding: Binding) {
        if !self.accepts_binding(now, &guid, binding.version) {
            return self.retry(now, guid);
        }
        // An unchanged binding does not fill or empty another router's storage.
        if self.bindings.differs(&guid, &binding.addresses) {
            self.diverted.remove(&guid);
        }
        self.bindings.insert(now, guid, binding);
        self.retry(now, guid);
    }
    /// The same for a binding that has just changed: it takes precedence over the addresses of chunks in transit.
    pub fn handle_move(&mut self, now: Time, guid: Guid, binding: Binding) {
        if !self.accepts_binding(now, &guid, binding.version) {
            return self.retry(now, guid);
        }
        self.bindings.insert(now, guid, binding);
        self.bindings.on_moved(now, guid);
        self.diverted.remove(&guid);
        self.retry(now, guid);
    }
    /// Whether a record of this version about a name, or (`None`) its absence, is at least as new as the known state.
    pub fn accepts_binding(&self, now: Time, guid: &Guid, version: Option<u64>) -> bool {
        self.bindings.accepts(now, guid, version)
    }
    /// An attached host has set its readers, in a record of this version. An older version that arrives later is
    /// ignored.
    pub fn handle_readers(&mut self, guid: Guid, version: u64, readers: Readers) {
        let known = self.rule_versions.entry(guid).or_default();
        if *known > version {
            return;
        }
        *known = version;
        match readers {
            Readers::All => drop(self.rules.remove(&guid)),
            Readers::Only(_) => drop(self.rules.insert(guid, readers)),
        }
    }
    /// The known addresses of a name.
    pub fn binding(&self, now: Time, guid: &Guid) -> Option<&[NetworkAddress]> {
        self.bindings.look(now, guid)
    }
    /// Something about this destination has changed: its queued and waiting chunks are reconsidered.
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
            self.take_queued(face, slot);
            again.push(slot);
        }
        for slot in again {
            self.forward(now, slot);
        }
    }
    /// Keeps chunks for a destination here instead of at a router with depleted storage.
    pub(super) fn divert(&mut self, now: Time, face: FaceId) {
        let depleted = match (&self.topology, self.hops.get(&face).and_then(|hop| hop.peer.as_ref())) {
            (Some(topology), Some(peer)) => topology.is_depleted(peer.address),
            _ => false,
        };
        let Some(hop) = self.hops.get_mut(&face).filter(|_| depleted && self.config.stores) else { return };
        for slot in hop.outgoing.take_refused(&mut self.buffer) {
            let destination = self.buffer.chunk(slot).and_then(|chunk| Some(chunk.header.as_ref()?.destination));
            if let Some(guid) = destination {
                self.diverted.insert(guid, now + DIVERSION);
            }
            self.outputs.push_back(Output::Store(slot, StoreReason::Depleted));
        }
    }
    /// Pushes chunks that block others to the proxy (paper §3.4.3): of the destination with most queued packets, those
    /// that have waited longest, while it has more than its share of a nearly full buffer. A chunk for many
    /// destinations blocks no one while most of them wait for it.
    pub(super) fn relieve(&mut self, now: Time) {
        let needed = match self.config.relief {
            HolRelief::Off => return,
            // Blocked nodes upstream cannot be seen from here.
            HolRelief::Proxy => true,
            HolRelief::Windows => self.buffer.destinations() > 1,
        };
        if self.buffer.free() >= self.nearly_full() || !self.config.stores || now < self.relief_after {
            return;
        }
        if self.loosen(now, needed) || !needed {
            return;
        }
        let mut lines: BTreeMap<Guid, Vec<(FaceId, Slot, u32)>> = BTreeMap::new();
        for (face, hop) in &self.hops {
            for (_, slot) in hop.queue.iter().filter(|(_, slot)| !self.buffer.is_shared(*slot)) {
                let chunk = self.buffer.chunk(*slot).and_then(|chunk| Some((chunk.destination()?, chunk.count())));
                if let Some((destination, count)) = chunk {
                    lines.entry(destination).or_default().push((*face, *slot, u32::from(count)));
                }
            }
        }
        let packets = |line: &[(FaceId, Slot, u32)]| line.iter().map(|(.., count)| *count).sum::<u32>();
        let Some((destination, mut line)) = lines.into_iter().max_by_key(|(_, line)| packets(line)) else { return };
        let share = match self.config.relief {
            HolRelief::Windows => self.buffer.share_of(&destination),
            HolRelief::Proxy | HolRelief::Off => self.buffer.capacity() / (self.buffer.destinations() as u32 + 1),
        };
        let mut used = self.buffer.used_by(&destination);
        while used > share
            && line.len() > 1
            && let Some((face, slot, count)) = line.pop()
        {
            used = used.saturating_sub(count);
            self.take_queued(face, slot);
            self.push_aside(now, slot);
        }
    }
    /// If every queue has been blocked for [`STUCK`], the neighbours may be waiting for space here as well: frees space
    /// for one of their chunks, at the expense of any chunk, and reserves it for a while. Returns whether that is so.
    ///
    /// A chunk that the neighbour refused heads its queue, which may be empty behind it. A buffer with a single
    /// destination is more often full because that is slow: unless the neighbour asks for space here too, it has longer.
    fn loosen(&mut self, now: Time, has_several: bool) -> bool {
        let is_held_up = |hop: &Hop| {
            let is_asked = now.since(hop.incoming.asked_at) < ACTIVE;
            let patience = if has_several || is_asked { STUCK } else { ABANDONED };
            hop.outgoing.blocked_since.is_some_and(|since| now.since(since) >= patience)
        };
        let waits = |hop: &&Hop| !hop.queue.is_empty() || hop.outgoing.blocked_since.is_some();
        let mut waiting = self.hops.values().filter(waits).peekable();
        if waiting.peek().is_none() || !waiting.all(is_held_up) {
            return false;
        }
        (self.relief_after, self.loose_until) = (now + STUCK, now + STUCK);
        let (mut room, mut aside) = (self.buffer.free(), Vec::new());
        while room < 2 * self.buffer.largest() {
            if let Some((face, slot)) = self.hops.iter().find_map(|(face, hop)| Some((*face, hop.queue.back()?.1))) {
                self.take_queued(face, slot);
                aside.push(slot);
            } else {
                aside.extend(self.hops.values_mut().flat_map(|hop| hop.outgoing.take_refused(&mut self.buffer)));
            }
            if aside.is_empty() {
                break;
            }
            for slot in aside.drain(..) {
                room += self.buffer.chunk(slot).map_or(0, |chunk| u32::from(chunk.count()));
                self.push_aside(now, slot);
            }
        }
        true
    }
    fn push_aside(&mut self, now: Time, slot: Slot) {
        self.stats.relieved += 1;
        self.relieved_at = now;
        self.outputs.push_back(Output::Store(slot, StoreReason::Relief));
    }
    /// With less free space than this the buffer is nearly full.
    pub(super) fn nearly_full(&self) -> u32 {
        match self.config.relief {
            HolRelief::Windows => self.buffer.largest(),
            HolRelief::Proxy | HolRelief::Off => self.buffer.largest().max(self.buffer.capacity() / 4),
        }
    }
    /// Whether chunks that fill the buffer are pushed aside before they block everything.
    pub(super) fn relieves(&self) -> bool {
        self.config.relief == HolRelief::Windows && self.config.stores
    }
    /// Takes a chunk out of the line of a face.
    pub(super) fn take_queued(&mut self, face: FaceId, slot: Slot) {
        let count = self.buffer.chunk(slot).map_or(0, Chunk::count);
        if let Some(hop) = self.hops.get_mut(&face) {
            hop.queue.retain(|(_, queued)| *queued != slot);
            hop.queued = hop.queued.saturating_sub(u32::from(count));
        }
    }
    /// Notifies neighbours that their window, too small for a chunk before, has opened.
    pub(super) fn open_windows(&mut self) {
        let low = self.window_low();
        for hop in self.hops.values_mut().filter(|hop| hop.peer.is_some()) {
            let window = hop.incoming.room(&self.buffer);
            if hop.incoming.advertised < low && window >= low && !hop.incoming.has_answers() {
                hop.incoming.announce_window();
            }
            hop.incoming.announce_destinations(&self.buffer);
        }
    }
}
