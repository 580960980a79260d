//! Whole chunks: where they go, queues, turns.
use super::*;
use crate::ids::Custodian;

impl Router {
    /// Starts a chunk of this node.
    pub fn originate(&mut self, now: Time, header: ChunkHeader, payload: &Payload, origin: Origin) -> Slot {
        let slot = self.put(header, payload, origin, None);
        self.forward(now, slot);
        slot
    }
    /// Starts copies of one payload. In any cut, they share its bytes.
    pub fn originate_copies(&mut self, now: Time, headers: impl IntoIterator<Item = ChunkHeader>, payload: &Payload) {
        let (payload, copies) = (&payload.to_bytes().into(), Some(self.buffer.new_copies()));
        for header in headers {
            let slot = self.put(header, payload, Origin::Local, copies);
            self.forward(now, slot);
        }
    }
    /// Puts a chunk of this node into the buffer without sending it.
    pub fn put_own(&mut self, header: ChunkHeader, payload: &Payload) -> Slot {
        self.put(header, payload, Origin::Local, None)
    }
    fn put(&mut self, mut header: ChunkHeader, payload: &Payload, origin: Origin, copies: Option<Copies>) -> Slot {
        header.payload_bytes = payload.len() as u32;
        let (first, rest) = self.fragment_bytes(&header);
        let fragments = cut(payload, first, rest);
        self.stats.originated += 1;
        self.buffer.put_copy(header, fragments, origin, copies)
    }
    /// Bytes of a chunk's first fragment, and of the others. They do not depend on where the chunk starts or on its
    /// addresses and custodian, so that another router can continue where one stopped.
    fn fragment_bytes(&self, header: &ChunkHeader) -> (usize, usize) {
        let rest = self.datagram_bytes() as usize - DataHeader::BYTES;
        let addresses_left = ADDRESSES_MAX - header.addresses.len();
        let custodian_left = match header.custodian {
            None if header.tag().is_some() => Custodian::BYTES,
            _ => 0,
        };
        (rest - header.len() - 4 * addresses_left - custodian_left, rest)
    }
    /// Packets of a chunk when it leaves the store.
    pub(super) fn packets_of(&self, header: &ChunkHeader) -> u32 {
        let (first, rest) = self.fragment_bytes(header);
        1 + header.payload_bytes.saturating_sub(first as u32).div_ceil(rest as u32)
    }
    /// The smallest datagram that all links carry.
    pub(super) fn datagram_bytes(&self) -> u32 {
        let links = self.hops.values().filter(|hop| hop.peer.is_some());
        links.map(|hop| hop.datagram_bytes).min().unwrap_or(1_472).max(576)
    }
    /// Room for chunks that this node makes: none while those before them fill the buffer (back-pressure reaches the
    /// source).
    pub fn room_for_local(&self) -> bool {
        self.hops.values().any(|hop| hop.peer.is_some())
            && self.waiting.is_empty()
            && self.buffer.free() >= self.window_low()
            && (self.config.address.is_some() || self.leaves_room())
    }
    /// Whether a host that sends one more chunk still has buffer space for an incoming one. Two hosts that fill their
    /// buffers, and that of the router between them, with chunks for each other would deadlock.
    fn leaves_room(&self) -> bool {
        let kept = 2 * self.buffer.largest();
        if self.buffer.free() >= kept {
            return true;
        }
        let own = self.buffer.chunks().filter(|chunk| chunk.origin == Origin::Local && chunk.class == Class::Bulk);
        let own: u32 = own.map(|chunk| u32::from(chunk.count())).sum();
        own == 0 || own + kept <= self.buffer.capacity()
    }
    /// A window below this may not admit one chunk; the neighbour is notified when it opens again.
    pub(super) fn window_low(&self) -> u32 {
        WINDOW_LOW.min(self.config.buffer_packets / 2)
    }
    /// The same for a chunk of `bytes` for a destination: none while two wait, or while the neighbour's window for it
    /// is closed.
    pub fn room_for_destination(&mut self, now: Time, destination: &Guid, bytes: u32) -> bool {
        if self.config.address.is_none() && self.room_for_own() {
            return true;
        }
        let buffer = &self.buffer;
        if self.config.address.is_some() {
            // A router's chunks may go to itself, its store, or several paths.
            let chunk = (bytes / self.datagram_bytes()).max(1);
            // Others leave space for one that runs dry, as upstream.
            let leaves_room = buffer.runs_dry(destination) || buffer.free() >= self.window_low() + chunk;
            let is_short = buffer.used_by(destination) < chunk * QUEUE_KEPT as u32;
            return is_short && (leaves_room || !self.relieves());
        }
        self.hops.values_mut().filter(|hop| hop.peer.is_some()).any(|hop| {
            hop.waiting_for(buffer, destination) < QUEUE_KEPT
                && hop.outgoing.has_room_for(now, destination, bytes / hop.datagram_bytes.max(1))
        })
    }
    /// The same for a router whose chunks may go to itself, its store, or several paths, and for a disconnected host,
    /// whose outbox takes them.
    pub fn room_for_own(&self) -> bool {
        let is_out_of_range = self.keeps_own && self.hops.values().all(|hop| hop.peer.is_none());
        (self.config.address.is_some() || is_out_of_range) && self.buffer.used() == 0
    }
    /// Removes this node's queued chunks of a transfer to a destination, which are no longer needed. Chunks in
    /// transmission continue.
    pub fn withdraw(&mut self, destination: &Guid, transfer: u32) {
        let is_of = |chunk: &Chunk| {
            let tag = chunk.header.as_ref().and_then(ChunkHeader::tag);
            let is_own = chunk.origin == Origin::Local && chunk.destination().as_ref() == Some(destination);
            is_own && tag.is_some_and(|tag| tag.transfer == transfer)
        };
        let queued = self.hops.iter().flat_map(|(face, hop)| hop.queue.iter().map(|(_, slot)| (*face, *slot)));
        let useless: Vec<(FaceId, Slot)> =
            queued.filter(|(_, slot)| self.buffer.chunk(*slot).is_some_and(is_of)).collect();
        for (face, slot) in useless {
            self.take_queued(face, slot);
            self.consume(slot);
        }
    }
    /// Whether chunks of a transfer of this node are still buffered.
    pub fn holds_own(&self, transfer: u32) -> bool {
        let own = |chunk: &Chunk| {
            let tag = chunk.header.as_ref().and_then(ChunkHeader::tag);
            chunk.origin == Origin::Local && tag.is_some_and(|tag| tag.transfer == transfer)
        };
        self.buffer.chunks().any(own)
    }
    /// The data chunks in transit to a destination through this node, or in arrival.
    pub fn data_for(&self, destination: &Guid) -> impl Iterator<Item = &DataTag> {
        let headers = self.buffer.chunks().filter_map(|chunk| chunk.header.as_ref());
        headers.filter(|header| header.destination == *destination).filter_map(ChunkHeader::tag)
    }
    /// Whether the node has something to see to.
    pub fn has_outputs(&self) -> bool {
        !self.outputs.is_empty()
    }
    /// The distance to a device at an address, as path SETT in microseconds.
    pub fn distance(&self, device: &Guid, address: NetworkAddress) -> Option<u64> {
        if self.attached.contains_key(device) || *device == self.config.guid {
            return Some(0);
        }
        let topology = self.topology.as_ref()?;
        topology.route(address).map(|route| route.short_us.max(1))
    }
    /// Whether a message to a device that was at an address would go out now.
    pub fn has_way(&self, now: Time, device: &Guid, address: NetworkAddress) -> bool {
        let bound = self.binding(now, device).unwrap_or_default().iter();
        bound.chain([&address]).any(|address| self.distance(device, *address).is_some())
    }
    /// Whether a stored chunk with this header could leave: now (true), when the queue allows (false), or not at all
    /// (`None`).
    pub fn verdict(&self, now: Time, header: &ChunkHeader) -> Option<bool> {
        match self.way(now, header) {
            Way::Face(face, _) => {
                let Some(hop) = self.hops.get(&face) else { return Some(false) };
                let destination = &header.destination;
                let packets = self.packets_of(header);
                let (free, runs_dry) = (self.buffer.free(), self.buffer.runs_dry(destination));
                let room = self.buffer.free_for(destination).min(hop.outgoing.windows.destination_room(destination));
                // A released chunk must not push others into the store, unless its destination runs dry. Otherwise
                // chunks that fill the buffer would keep it in the store for as long as their links take.
                let kept = match (runs_dry, self.relieves()) {
                    _ if now < self.loose_until => 2 * self.buffer.largest(),
                    (true, true) => 0,
                    // Space for one chunk stays free for passing ones.
                    (true, false) => self.buffer.largest(),
                    _ => self.nearly_full(),
                };
                // The chunk that has just freed space would be stored again at once for the released one, in a loop.
                let is_pressed = now == self.relieved_at && self.buffer.used() > 0;
                Some(
                    !is_pressed
                        && hop.takes_from_store(&self.buffer, destination)
                        && (self.buffer.used() == 0 || room >= packets && free >= kept + packets),
                )
            }
            Way::Local => Some(true),
            Way::Resolve | Way::Store(_) | Way::Wait | Way::Drop(_) => None,
        }
    }
    /// Chunks for a stored chunk's destination that are partly at its next hop already.
    pub fn interrupted(&self, now: Time, header: &ChunkHeader) -> Vec<ChunkKey> {
        let Way::Face(face, _) = self.way(now, &header.unbound()) else { return Vec::new() };
        let interrupted = self.hops.get(&face).into_iter().flat_map(|hop| hop.outgoing.interrupted());
        interrupted.filter(|key| key.flow.destination == header.destination).collect()
    }
    /// Sends a complete chunk where it belongs.
    pub fn forward(&mut self, now: Time, slot: Slot) {
        let Some(chunk) = self.buffer.chunk(slot) else { return };
        let Some(header) = chunk.header.clone() else { return };
        let transit = matches!(chunk.origin, Origin::Face(..));
        match self.way(now, &header) {
            Way::Local => self.outputs.push_back(Output::Local(slot)),
            Way::Face(face, address) => {
                if transit && header.hops_left == 0 {
                    return self.drop_chunk(slot, "hop limit");
                }
                if let Some(header) = self.buffer.header_mut(slot) {
                    header.hops_left = header.hops_left.saturating_sub(u8::from(transit));
                    binding::narrow(header, address);
                }
                let parts = header.service == ServiceId::Multihoming && header.addresses.len() > 1;
                if parts && !address.is_none() {
                    self.on_split(now, &header, address);
                }
                self.taken(slot);
                self.enqueue(now, face, slot);
            }
            // The node finds the paths to the members of a group.
            Way::Resolve | Way::Store(_)
                if header.service == ServiceId::Multicast
                    && header.tag().is_some()
                    && self.config.address.is_some() =>
            {
                self.outputs.push_back(Output::Arrived(slot));
            }
            Way::Resolve => {
                self.taken_if_control(slot);
                self.wait_for(now, slot, header.destination);
            }
            Way::Store(reason) if header.is_control() || header.flags.contains(Flags::NO_PROXY) => {
                let reason = if reason == StoreReason::NoRoute { "no route" } else { "destination away" };
                match header.kind {
                    ChunkKind::Transport(_) => self.outputs.push_back(Output::Undeliverable(slot, reason)),
                    ChunkKind::Data(_) | ChunkKind::Names | ChunkKind::LinkState => self.drop_chunk(slot, reason),
                }
            }
            Way::Store(reason) => self.outputs.push_back(Output::Store(slot, reason)),
            Way::Wait => match self.keeps_own && header.may_be_kept() {
                true => self.outputs.push_back(Output::Store(slot, StoreReason::NoRoute)),
                false => self.waiting.push(slot),
            },
            Way::Drop(reason) => self.drop_chunk(slot, reason),
        }
    }
    /// Forwards a chunk once a name is looked up.
    pub fn wait_for(&mut self, now: Time, slot: Slot, name: Guid) {
        self.unresolved.entry(name).or_insert((now, Vec::new())).1.push(slot);
        self.outputs.push_back(Output::Resolve(name));
    }
    /// Checks that a device has proven its key: as the neighbour on `face`, or by a record of its own that it is reached
    /// through that face, as far as routes show.
    ///
    /// # Errors
    /// The device if its record has to be looked up first; `None` if it has not.
    pub fn find_behind(&self, now: Time, face: FaceId, device: Guid) -> Result<(), Option<Guid>> {
        if self.hops.get(&face).is_some_and(|hop| hop.guid == device) {
            return Ok(());
        }
        let route = |at: NetworkAddress| self.topology.as_ref().and_then(|topology| topology.route(at));
        let may_be_there =
            |at: &NetworkAddress| Some(*at) != self.config.address && route(*at).is_none_or(|route| route.face == face);
        let places = self.binding(now, &device).ok_or(Some(device))?;
        places.iter().any(may_be_there).then_some(()).ok_or(None)
    }
    /// A chunk goes to one of several addresses, since their paths diverge here. Looks up their weights; until these
    /// are known, chunks do not wait for them.
    fn on_split(&mut self, now: Time, header: &ChunkHeader, address: NetworkAddress) {
        if self.bindings.look(now, &header.destination).is_none() {
            self.outputs.push_back(Output::Resolve(header.destination));
        }
        self.bindings.on_split(&header.destination, address, header.payload_bytes);
    }
    pub(super) fn taken_if_control(&mut self, slot: Slot) {
        if self.buffer.chunk(slot).is_some_and(|chunk| chunk.class == Class::Control) {
            self.taken(slot);
        }
    }
    pub(super) fn enqueue(&mut self, now: Time, face: FaceId, slot: Slot) {
        let (Some(hop), Some(chunk)) = (self.hops.get_mut(&face), self.buffer.chunk(slot)) else { return };
        match chunk.class {
            Class::Control => hop.outgoing.begin(now, slot, &mut self.buffer),
            Class::Bulk if !hop.outgoing.can_ever_take(hop.outgoing.packets_of(chunk)) => {
                self.drop_chunk(slot, TOO_LARGE);
            }
            Class::Bulk => {
                hop.used_at = Some(now);
                hop.queued += u32::from(chunk.count());
                // Objects take turns, by packets: a small one does not wait for all of a large one.
                let object = chunk.header.as_ref().and_then(|header| Some((header.flow(), header.tag()?.object)));
                let tag = object.map_or(hop.turn, |object| {
                    let last = hop.turns.get(&object).copied().unwrap_or(0).max(hop.turn);
                    let tag = last + u64::from(chunk.count());
                    hop.turns.insert(object, tag);
                    tag
                });
                let at = hop.queue.partition_point(|(known, _)| *known <= tag);
                hop.queue.insert(at, (tag, slot));
                self.advance(now, face);
            }
        }
    }
    /// Takes a chunk out: it is for this node, stored, or answered. The neighbour may forget it.
    pub fn consume(&mut self, slot: Slot) -> Option<Chunk> {
        self.stats.consumed += 1;
        self.taken(slot);
        let chunk = self.buffer.remove(slot);
        self.open_windows();
        chunk
    }
    /// The proxy refuses a chunk from [`Output::Store`] for lack of space.
    pub fn refuse_store(&mut self, now: Time, slot: Slot, reason: StoreReason) {
        match reason {
            StoreReason::Relief => {
                self.relief_after = now + RELIEF_PAUSE;
                // It returns to the queue, without counting another hop.
                let header = self.buffer.chunk(slot).and_then(|chunk| chunk.header.as_ref());
                match header.map(|header| self.way(now, header)) {
                    Some(Way::Face(face, _)) => self.enqueue(now, face, slot),
                    _ => self.forward(now, slot),
                }
            }
            StoreReason::BadPath => {
                // Better a bad path than none.
                let header = self.buffer.chunk(slot).and_then(|chunk| chunk.header.as_ref());
                let way = header.map(|header| self.way_unless_worse(now, header, f64::MAX));
                match way {
                    Some(Way::Face(face, _)) => {
                        self.taken(slot);
                        self.enqueue(now, face, slot);
                    }
                    _ => self.drop_chunk(slot, NO_ROOM),
                }
            }
            StoreReason::Away | StoreReason::NoRoute | StoreReason::Depleted => {
                let upstream = self.buffer.chunk(slot).and_then(|chunk| match chunk.origin {
                    Origin::Face(face, hop) => Some((face, hop)),
                    Origin::Local | Origin::Store => None,
                });
                let keeper = upstream.and_then(|(face, hop)| {
                    let hop_state = self.hops.get_mut(&face)?;
                    hop_state.peer.as_ref().filter(|peer| peer.roles.contains(Roles::PROXY))?;
                    Some((hop_state, hop))
                });
                match keeper {
                    Some((hop_state, hop)) => {
                        // Its router may have storage left, and will not send it here again.
                        hop_state.incoming.on_given_back(hop);
                        self.stats.returned += 1;
                        self.buffer.remove(slot);
                    }
                    None => self.drop_chunk(slot, NO_ROOM),
                }
            }
        }
    }
    /// Drops a chunk that can go nowhere.
    pub fn drop_chunk(&mut self, slot: Slot, reason: &'static str) {
        self.taken(slot);
        self.stats.dropped += 1;
        if let Some(header) = self.buffer.remove(slot).and_then(|chunk| chunk.header) {
            self.outputs.push_back(Output::Lost(header, reason));
        }
        self.open_windows();
    }
    /// Tells the neighbour that it may forget a chunk.
    pub(super) fn taken(&mut self, slot: Slot) {
        self.forget_part(slot);
        if let Some(Origin::Face(face, id)) = self.buffer.chunk(slot).map(|chunk| chunk.origin)
            && let Some(hop) = self.hops.get_mut(&face)
        {
            hop.incoming.on_taken_late(id);
        }
    }
}
