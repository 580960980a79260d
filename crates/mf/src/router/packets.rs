//! Incoming and outgoing packets of the hop link, and the chunks that they complete.
use super::*;

impl Router {
    /// Takes a packet of the hop link.
    pub fn handle_packet(&mut self, now: Time, face: FaceId, kind: PacketType, datagram: Datagram) {
        let bytes = datagram.len();
        let Some(hop) = self.hops.get_mut(&face).filter(|hop| hop.peer.is_some()) else {
            return self.outputs.push_back(Output::Dropped(face, "not from a neighbour", bytes));
        };
        hop.received = (hop.received.0 + 1, hop.received.1 + bytes as u64);
        let result = match kind {
            PacketType::Data => take_data(now, hop, datagram, &mut self.buffer).map(Some),
            PacketType::Csyn => Csyn::decode(&datagram.into_bytes()).map(|csyn| {
                hop.incoming.handle_csyn(now, &csyn);
                None
            }),
            PacketType::Cack => Cack::decode(&datagram.into_bytes()).map(|cack| {
                hop.outgoing.handle_cack(now, &cack, &mut self.buffer);
                None
            }),
            PacketType::Hello | PacketType::Mtu => Ok(None),
        };
        if kind == PacketType::Cack {
            self.on_sent(now, face);
        }
        let result = result.map(|arrived| {
            arrived.into_iter().for_each(|arrived| {
                self.on_arrived(now, arrived);
                if let Arrived::Fragment(slot, _) = arrived {
                    self.resume(now, slot);
                }
            });
        });
        if let Err(error) = result {
            self.outputs.push_back(Output::Dropped(face, error.reason(), bytes));
        }
    }
    /// Whether a packet belongs to a chunk that a face's neighbour had started, or answers a query to it: no other node
    /// knows either.
    pub fn expects(&self, face: FaceId, kind: PacketType, datagram: &Datagram) -> bool {
        let (Some(hop), bytes) = (self.hops.get(&face), datagram.header_bytes()) else { return false };
        match kind {
            PacketType::Data => DataHeader::decode(bytes).is_ok_and(|header| hop.incoming.knows(header.hop)),
            PacketType::Csyn => Csyn::decode(bytes).is_ok_and(|csyn| hop.incoming.knows(csyn.hop)),
            PacketType::Cack => Cack::decode(bytes).is_ok_and(|cack| hop.outgoing.has_queried(cack.number)),
            PacketType::Hello | PacketType::Mtu => false,
        }
    }
    /// Bytes of the longest datagram that the neighbour at a face has acknowledged since this was called last; 0 if none.
    pub fn take_arrived(&mut self, face: FaceId) -> u32 {
        self.hops.get_mut(&face).map_or(0, |hop| core::mem::take(&mut hop.outgoing.arrived))
    }
    pub(super) fn on_arrived(&mut self, now: Time, arrived: Arrived) {
        match arrived {
            Arrived::Nothing => {}
            Arrived::Fragment(slot, 0) if self.adopt(slot) => self.on_adopted(now, slot),
            Arrived::Spoilt(slot) => {
                let face = match self.buffer.chunk(slot).map(|chunk| chunk.origin) {
                    Some(Origin::Face(face, _)) => face,
                    _ => FaceId::default(),
                };
                let bytes = self.buffer.chunk(slot).map_or(0, Chunk::bytes) as usize;
                self.outputs.push_back(Output::Dropped(face, "chunk with a packet of another one", bytes));
                self.forget_part(slot);
                self.give_up(Vec::from([slot]));
            }
            Arrived::Fragment(slot, 0) if self.buffer.chunk(slot).is_some_and(|chunk| self.is_for_me(chunk)) => {
                self.outputs.push_back(Output::Begun(slot));
            }
            Arrived::Fragment(slot, index) => {
                if self.cut.contains_key(&slot) {
                    self.send_packet_on(slot, index);
                } else if !self.on_copied_packet(slot, index)
                    && index == 0
                    && self.config.hop.forwarding == Forwarding::CutThrough
                {
                    self.begin_cut(now, slot);
                }
            }
            Arrived::Complete(slot) => {
                self.stats.arrived += 1;
                self.name_custodian(slot);
                if let Some(face) = self.forged_origin(slot) {
                    let bytes = self.consume(slot).map_or(0, |chunk| chunk.bytes()) as usize;
                    self.outputs.push_back(Output::Dropped(face, "in the name of another", bytes));
                } else if self.send_rest_on(now, slot) {
                    self.taken(slot);
                    self.outputs.push_back(Output::Passed(slot));
                } else if !self.on_copied(now, slot) {
                    match self.is_here_already(slot) {
                        true => drop(self.consume(slot)),
                        false => self.outputs.push_back(Output::Arrived(slot)),
                    }
                }
            }
        }
    }
    fn is_for_me(&self, chunk: &Chunk) -> bool {
        chunk.class == Class::Bulk && chunk.destination() == Some(self.config.guid)
    }
    /// Nothing more is wanted of a chunk that is arriving: the neighbour need not send the rest.
    pub fn end_early(&mut self, slot: Slot) {
        if self.buffer.chunk(slot).is_some_and(|chunk| !chunk.is_complete()) {
            self.stats.arrived += 1;
            self.consume(slot);
        }
    }
    /// A chunk whose first packets came before its router had stored it does not name that router as its custodian,
    /// which would send the whole chunk again: it is notified as if it were. If it is not the custodian, it ignores the
    /// notice.
    fn name_custodian(&mut self, slot: Slot) {
        let Some(chunk) = self.buffer.chunk(slot).filter(|chunk| chunk.class == Class::Bulk) else { return };
        let Origin::Face(face, _) = chunk.origin else { return };
        if !chunk.arrival.is_some_and(|arrival| arrival.is_resumed) {
            return;
        }
        let peer = self.hops.get(&face).and_then(|hop| hop.peer.as_ref());
        let Some(peer) = peer.filter(|peer| peer.roles.contains(Roles::PROXY)) else { return };
        let custodian = crate::ids::Custodian { guid: peer.guid, address: peer.address };
        if let Some(header) = self.buffer.header_mut(slot) {
            header.custodian.get_or_insert(custodian);
        }
    }
    /// Hosts send under their own GUIDs, which their hellos prove; returns the origin of a chunk that violates this.
    /// Where routers are certified, an uncertified node that claims to be a router counts as a host.
    fn forged_origin(&self, slot: Slot) -> Option<FaceId> {
        let chunk = self.buffer.chunk(slot).filter(|_| self.config.address.is_some())?;
        let Origin::Face(face, _) = chunk.origin else { return None };
        let is_vouched =
            |peer: &Peer| self.topology.as_ref().is_none_or(|topology| topology.vouches_for(&peer.guid, peer.address));
        let is_host = |peer: &&Peer| !peer.roles.contains(Roles::ROUTER) || !is_vouched(peer);
        let host = self.hops.get(&face)?.peer.as_ref().filter(is_host)?;
        (chunk.header.as_ref()?.source != host.guid).then_some(face)
    }
    /// A chunk that a vanished neighbour has partly delivered continues from that part; true if it is complete.
    fn adopt(&mut self, slot: Slot) -> bool {
        let is_free = |old: &Slot| !self.cut.contains_key(old) && !self.copying.contains_key(old);
        let Some(old) = self.buffer.other_part(slot).filter(is_free) else { return false };
        let Some(Origin::Face(face, id)) = self.buffer.chunk(old).map(|chunk| chunk.origin) else { return false };
        let gone = |hop: &&mut Hop| hop.peer.is_none() || self.suspects.contains(&face);
        let Some(hop) = self.hops.get_mut(&face).filter(gone) else { return false };
        hop.incoming.forget(id);
        self.buffer.adopt(slot, old);
        self.buffer.chunk(slot).is_some_and(Chunk::is_complete)
    }
    /// Stores the received part of each chunk whose arrival over a face started at least `age` ago.
    pub(super) fn keep_arriving(&mut self, now: Time, face: FaceId, age: Duration) {
        let Some(hop) = self.hops.get(&face).filter(|hop| hop.peer.is_some()) else { return };
        for (slot, begun) in hop.incoming.begun() {
            let Some(chunk) = self.buffer.chunk(slot).filter(|_| now.since(begun) >= age) else { continue };
            let Some(header) = &chunk.header else { continue };
            let may_be_kept = !header.flags.contains(Flags::NO_PROXY) || header.destination == self.config.guid;
            // A host must not add bytes to a chunk of another source.
            if may_be_kept && self.forged_origin(slot).is_none() {
                self.partials.keep(now, hop.guid, slot, chunk);
            }
        }
    }
    /// Adds the stored part of a chunk, as soon as its packets determine the cut.
    fn resume(&mut self, now: Time, slot: Slot) {
        let Some(key) = self.part_of(slot).filter(|key| self.partials.has(key, slot)) else { return };
        let Some(cut) = self.buffer.chunk(slot).and_then(Chunk::even_cut) else { return };
        let Some((payload, here)) = self.partials.resume(&key, slot) else { return };
        let count = self.buffer.chunk(slot).map_or(0, Chunk::count);
        for index in 0..count {
            let (start, end) = cut.range(index);
            if here.len_between(start, end) < u64::from(end - start) {
                continue;
            }
            match self.buffer.fill(slot, index, payload.slice(start as usize..end as usize)).map(Chunk::is_complete) {
                None => {}
                Some(true) => return self.on_adopted(now, slot),
                Some(false) => self.on_arrived(now, Arrived::Fragment(slot, index)),
            }
        }
    }
    /// The key of a neighbour's chunk in the partial store; `None` while that is empty.
    fn part_of(&self, slot: Slot) -> Option<PartKey> {
        let chunk = self.buffer.chunk(slot).filter(|_| !self.partials.is_empty())?;
        let Origin::Face(face, _) = chunk.origin else { return None };
        PartKey::of(self.hops.get(&face)?.guid, chunk.header.as_ref()?)
    }
    /// Removes the stored part of a chunk that was accepted or is wrong.
    pub(super) fn forget_part(&mut self, slot: Slot) {
        self.part_of(slot).into_iter().for_each(|key| self.partials.remove(&key));
    }
    /// The parts from two neighbours complete a chunk.
    fn on_adopted(&mut self, now: Time, slot: Slot) {
        let Some(chunk) = self.buffer.chunk(slot) else { return };
        let origin = chunk.origin;
        if chunk.adds_up() {
            return self.on_arrived(now, Arrived::Complete(slot));
        }
        if let Origin::Face(face, id) = origin
            && let Some(hop) = self.hops.get_mut(&face)
        {
            hop.incoming.on_spoilt(id);
        }
        self.on_arrived(now, Arrived::Spoilt(slot));
    }
    /// Whether a repeated chunk is still in transit through this node.
    fn is_here_already(&self, slot: Slot) -> bool {
        let plain = |header: &&ChunkHeader| {
            let to_one =
                matches!(header.service, ServiceId::Unicast | ServiceId::ContentResponse | ServiceId::Multihoming);
            to_one && header.flags.contains(Flags::REPEATED)
        };
        let Some(chunk) = self.buffer.chunk(slot) else { return false };
        let Some(key) = chunk.header.as_ref().filter(plain).and_then(ChunkHeader::key) else { return false };
        let same =
            |chunk: &&Chunk| chunk.is_complete() && chunk.header.as_ref().and_then(ChunkHeader::key) == Some(key);
        self.buffer.chunks().filter(same).count() > usize::from(chunk.is_complete())
    }
    /// Sends a chunk on while it arrives, if nothing speaks against it.
    pub(super) fn begin_cut(&mut self, now: Time, slot: Slot) {
        let Some(header) = self.buffer.chunk(slot).and_then(|chunk| chunk.header.clone()) else { return };
        if header.tag().is_none() || self.config.address.is_none() || self.forged_origin(slot).is_some() {
            return;
        }
        if header.service == ServiceId::Multicast {
            // The node finds the paths to the members of a group.
            return self.outputs.push_back(Output::Begun(slot));
        }
        let plain = matches!(header.service, ServiceId::Unicast | ServiceId::ContentResponse);
        let wants_much = header.flags.contains(Flags::DELEGATE) || !plain;
        if wants_much || header.hops_left == 0 || self.is_here_already(slot) {
            return;
        }
        let Some((face, address)) = self.cut_way(now, slot, &header) else { return };
        if let Some(header) = self.buffer.header_mut(slot) {
            header.hops_left -= 1;
            binding::narrow(header, address);
        }
        self.send_while_arriving(now, slot, face);
    }
    /// Where an arriving chunk may be forwarded at once under this header.
    pub(super) fn cut_way(&mut self, now: Time, slot: Slot, header: &ChunkHeader) -> Option<(FaceId, NetworkAddress)> {
        let Way::Face(face, address) = self.way(now, header) else { return None };
        let mut bound = header.clone();
        binding::narrow(&mut bound, address);
        let chunk = self.buffer.chunk(slot)?;
        let (first, count) = (chunk.fragment(0)?.len(), chunk.count());
        let hop = self.hops.get_mut(&face)?;
        // It is too long for the next link, or its header grows by the address chosen here: once complete, it is cut
        // again.
        let fits = DataHeader::BYTES + bound.len() + first <= hop.datagram_bytes as usize;
        let is_idle = fits && hop.queue.is_empty();
        (is_idle && hop.outgoing.can_begin(now, &header.destination, count.into()) == Room::Open)
            .then_some((face, address))
    }
    pub(super) fn send_while_arriving(&mut self, now: Time, slot: Slot, face: FaceId) {
        let Some(hop) = self.hops.get_mut(&face) else { return };
        hop.outgoing.begin(now, slot, &mut self.buffer);
        hop.used_at = Some(now);
        self.cut.insert(slot, face);
        self.stats.cut_through += 1;
    }
    /// Forwards one more packet of a chunk during its arrival.
    pub(super) fn send_packet_on(&mut self, slot: Slot, index: u16) {
        let bytes = self.buffer.chunk(slot).and_then(|chunk| chunk.fragment(index)).map_or(0, Bytes::len);
        let Some(hop) = self.cut.get(&slot).and_then(|face| self.hops.get_mut(face)) else { return };
        if hop.carries(bytes) {
            hop.outgoing.on_fragment(slot, index);
        } else {
            // Once complete, it is cut again.
            hop.outgoing.cancel(slot, &mut self.buffer);
            self.cut.remove(&slot);
        }
    }
    /// Forwards the last packets of a chunk that is forwarded during its arrival. False if it is not, or no longer,
    /// because the last packet is too long for the next link.
    pub(super) fn send_rest_on(&mut self, now: Time, slot: Slot) -> bool {
        let longest = self.buffer.chunk(slot).and_then(|chunk| chunk.lengths().into_iter().max()).unwrap_or(0);
        let Some(hop) = self.cut.remove(&slot).and_then(|face| self.hops.get_mut(&face)) else { return false };
        let fits = hop.carries(longest as usize);
        if fits {
            hop.outgoing.on_complete(now, slot);
        } else {
            hop.outgoing.cancel(slot, &mut self.buffer);
        }
        fits
    }
    /// Removes chunks that the neighbour has accepted from the buffer, and starts others.
    pub(super) fn on_sent(&mut self, now: Time, face: FaceId) {
        let Some(hop) = self.hops.get_mut(&face) else { return };
        let neighbour = hop.guid;
        let mut done = Vec::new();
        while let Some(slot) = hop.outgoing.done.pop_front() {
            done.push(slot);
        }
        for slot in done {
            self.stats.sent += 1;
            if self.cut.remove(&slot).is_some() {
                // The neighbour got the rest from elsewhere: no node waits for it.
                let origin = self.buffer.chunk(slot).map(|chunk| chunk.origin);
                self.stats.arrived += u64::from(matches!(origin, Some(Origin::Face(..))));
                self.taken(slot);
            }
            let chunk = self.buffer.remove(slot);
            if let Some((destination, chunk)) = chunk.as_ref().and_then(|chunk| Some((chunk.destination()?, chunk)))
                && chunk.class == Class::Bulk
            {
                self.buffer.on_left(destination, u32::from(chunk.count()));
            }
            let Some(Chunk { origin, header: Some(header), .. }) = chunk else { continue };
            if let Origin::Face(from, id) = origin
                && header.service == ServiceId::Multihoming
                && let Some(hop) = self.hops.get_mut(&from)
            {
                hop.incoming.on_left(id);
            }
            if origin == Origin::Store || header.flags.contains(Flags::REPEATED) {
                let delivered = header.key().zip(header.token());
                self.outputs.extend(delivered.map(|(key, token)| Output::Delivered(key, token, neighbour)));
            }
        }
        self.advance(now, face);
        self.open_windows();
    }
    /// Starts to send queued chunks as far as the neighbour's windows allow.
    pub(super) fn advance(&mut self, now: Time, face: FaceId) {
        for slot in self.begin_waiting(now, face) {
            self.send_missing_first(face, slot);
        }
    }
    fn begin_waiting(&mut self, now: Time, face: FaceId) -> Vec<Slot> {
        // Destinations whose windows are closed are skipped; the order within a destination stays.
        let (mut at, mut full, mut begun) = (0, Vec::new(), Vec::new());
        let Some(hop) = self.hops.get_mut(&face).filter(|hop| hop.peer.is_some()) else { return begun };
        while let Some((tag, slot)) = hop.queue.get(at).copied() {
            let chunk = self.buffer.chunk(slot).and_then(|chunk| Some((chunk.count(), chunk.destination()?)));
            let Some((count, destination)) = chunk else {
                hop.queue.remove(at);
                continue;
            };
            if full.contains(&destination) {
                at += 1;
                continue;
            }
            let room = match hop.outgoing.can_begin(now, &destination, count.into()) {
                Room::Open => {
                    // On this link it may need more packets.
                    let packets = self.buffer.chunk(slot).map_or(0, |chunk| hop.outgoing.packets_of(chunk));
                    if packets > u32::from(count) {
                        hop.outgoing.can_begin(now, &destination, packets)
                    } else {
                        Room::Open
                    }
                }
                room => room,
            };
            match room {
                Room::Open => {}
                Room::LinkFull => return begun,
                Room::DestinationFull => {
                    full.push(destination);
                    continue;
                }
            }
            hop.queue.remove(at);
            hop.turn = hop.turn.max(tag);
            if hop.queue.is_empty() {
                hop.turns.clear();
            }
            hop.queued = hop.queued.saturating_sub(u32::from(count));
            hop.outgoing.begin(now, slot, &mut self.buffer);
            begun.push(slot);
        }
        hop.outgoing.on_idle();
        begun
    }
    /// The destination got a part of the chunk over another face before it went away there: its missing packets go
    /// first.
    fn send_missing_first(&mut self, face: FaceId, slot: Slot) {
        let Some(chunk) = self.buffer.chunk(slot) else { return };
        let Some(key) = chunk.header.as_ref().and_then(ChunkHeader::key) else { return };
        let had = |(other, hop): (&FaceId, &Hop)| {
            let is_other = *other != face && hop.guid == key.flow.destination;
            is_other.then(|| hop.outgoing.missing_of(&key, chunk)).flatten()
        };
        let missing = self.hops.iter().find_map(had);
        if let (Some(missing), Some(hop)) = (missing, self.hops.get_mut(&face)) {
            hop.outgoing.send_first(slot, &missing);
        }
    }
}

fn take_data(now: Time, hop: &mut Hop, datagram: Datagram, buffer: &mut Buffer) -> Result<Arrived, WireError> {
    let header = DataHeader::decode(datagram.header_bytes())?;
    hop.incoming.handle_data(now, &header, datagram.strip(DataHeader::BYTES), buffer)
}
