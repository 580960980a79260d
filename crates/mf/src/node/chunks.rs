//! What becomes of chunks: passing, for this node, to be stored.
use super::*;
use crate::{
    config::CustodyUntil,
    custody::Answer,
    router::{
        NO_ROOM, NO_SHARE, NOT_PROVEN, TOO_LARGE,
        arriving::{Pending, Stopped, Verdict},
        link_state::TOO_MANY_ROUTERS,
        proxy::CHUNK_OVERHEAD_BYTES,
        signed_state::Untrusted,
    },
    sender::{Cached, is_pushed},
    wire::{CustodyState, DataTag, Reliability},
};

impl MfNode {
    // Chunks.

    pub(super) fn on_output(&mut self, now: Time, output: Output) {
        match output {
            Output::Arrived(slot) => self.on_passing(now, slot),
            Output::Passed(slot) => {
                self.keep_in_cache(now, slot);
                let _ = self.keep_out_of_its_way(now, slot, true);
            }
            Output::Begun(slot) => self.on_begun(now, slot),
            Output::Copied(slot, rest) => self.end_spread(now, slot, rest),
            Output::Local(slot) => self.on_local(now, slot),
            Output::Store(slot, reason) => self.on_store(now, slot, reason),
            Output::Resolve(guid) => self.resolver.lookup(now, guid),
            Output::Delivered(key, token, neighbour) => {
                if let Some(proxy) = &mut self.proxy {
                    proxy.on_delivered(now, &key, token, neighbour);
                    proxy.on_change();
                }
            }
            Output::Undeliverable(slot, reason) => self.on_undeliverable(now, slot, reason),
            Output::Lost(header, reason) => {
                if let Some(tag) = header.tag() {
                    self.cache.arriving.on_end(&tag.object, (header.destination, tag.transfer));
                }
                let is_kept = self.notify_custodian_of_loss(now, &header, reason);
                if let Some(proxy) = self.proxy.as_mut().filter(|_| !is_kept) {
                    match header.key() {
                        Some(key) if reason == TOO_LARGE => proxy.on_stuck(now, &key),
                        Some(key) if proxy.holds_for(&header.destination) => {
                            proxy.on_lost(&key);
                        }
                        _ => {}
                    }
                    proxy.report_dropped(now, &header);
                }
                if let Some(tag) = header.tag().filter(|_| reason == TOO_LARGE && header.source == self.guid) {
                    // Sent again it would be as large.
                    self.sender.fail((header.destination, tag.transfer), reason);
                }
                self.events.on_dropped(FaceId::default(), reason, header.payload_bytes as usize);
            }
            Output::Dropped(face, reason, bytes) => self.events.on_dropped(face, reason, bytes),
        }
    }
    /// Tells the custodian of a dropped chunk, which sends it again. Returns whether there is one.
    fn notify_custodian_of_loss(&mut self, now: Time, header: &ChunkHeader, reason: &'static str) -> bool {
        let state = match reason {
            NO_SHARE | NO_ROOM | NOT_PROVEN => CustodyState::Refused,
            _ => CustodyState::Lost,
        };
        let own = self.guid;
        let answer = Answer::to(header, state).filter(|answer| answer.custodian.guid != own);
        let is_kept = answer.is_some();
        answer.into_iter().for_each(|answer| self.custody.add(now, answer));
        is_kept
    }
    /// The first packet of a chunk has arrived.
    fn on_begun(&mut self, now: Time, slot: Slot) {
        let header = self.router.buffer.chunk(slot).and_then(|chunk| chunk.header.as_ref());
        match header.filter(|header| header.destination == self.guid) {
            None => self.begin_spread(now, slot),
            Some(header) if self.receiver.has_already(now, header) || self.receiver.turns_away(header) => {
                self.router.end_early(slot);
            }
            Some(_) => {}
        }
    }
    /// A chunk has arrived from a neighbour.
    pub(super) fn on_passing(&mut self, now: Time, slot: Slot) {
        let Some(header) = self.router.buffer.chunk(slot).and_then(|chunk| chunk.header.clone()) else { return };
        if !self.config.router || header.destination == self.guid {
            return self.router.forward(now, slot);
        }
        if self.is_for_group(&header) {
            return self.spread(now, slot);
        }
        if let ChunkKind::Transport(_) = header.kind
            && self.cache.arriving.is_shared()
        {
            self.on_end_of_transfer(slot, &header);
        }
        match &header.kind {
            ChunkKind::Transport(_) if self.relay(now, slot, &header) => return,
            ChunkKind::Data(_) => {
                self.keep_in_cache(now, slot);
                if self.keep_out_of_its_way(now, slot, false) {
                    return drop(self.router.consume(slot));
                }
                let is_delegated = header.flags.contains(Flags::DELEGATE) && self.router.is_attached(&header.source);
                if is_delegated && self.prove_source(now, slot).is_ok() {
                    self.delegate(now, slot, &header);
                }
            }
            ChunkKind::Transport(_) if header.service == ServiceId::ContentRequest => {
                if self.answer_or_bind(now, slot, &header) {
                    return;
                }
            }
            ChunkKind::Transport(_) if self.router.is_attached(&header.destination) || self.proxy.is_some() => {
                if self.answer_for_producer(now, slot, &header) {
                    return;
                }
            }
            // Hosts and their routers are neighbours, and routers address each other.
            ChunkKind::Names if !header.destination.is_none() => {
                self.router.consume(slot);
                return self.events.on_dropped(
                    FaceId::default(),
                    "about names, for a host elsewhere",
                    header.payload_bytes as usize,
                );
            }
            ChunkKind::Transport(_) | ChunkKind::Names | ChunkKind::LinkState => {}
        }
        self.router.forward(now, slot);
    }
    /// The message of the transport in a buffered chunk.
    pub(super) fn message(&self, slot: Slot) -> Option<TransportMessage> {
        TransportMessage::decode(&self.router.buffer.payload(slot).to_bytes()).ok()
    }
    /// Detects in passing messages that a transfer ends which others have joined.
    fn on_end_of_transfer(&mut self, slot: Slot, header: &ChunkHeader) {
        let Some(TransportMessage { transfer, object, body }) = self.message(slot) else { return };
        let receiver = match body {
            TransportBody::Ack { complete: true, .. } => header.source,
            TransportBody::Unavailable | TransportBody::Unreadable { .. } => header.destination,
            _ => return,
        };
        self.cache.arriving.on_end(&object, (receiver, transfer));
    }
    /// Caches content that passes; requests that wait for it are answered.
    fn keep_in_cache(&mut self, now: Time, slot: Slot) {
        if let Some(chunk) = self.router.buffer.chunk(slot)
            && let Some(header) = &chunk.header
            && let Some(tag) = header.tag()
            && header.service == ServiceId::ContentResponse
        {
            let object = tag.object;
            match header.flags.contains(Flags::NO_CACHE) {
                true => self.cache.replace(tag, || chunk.payload().to_bytes()),
                false => self.cache.insert(tag, || chunk.payload().to_bytes(), u64::from(header.payload_bytes)),
            }
            let face = if let Origin::Face(face, _) = chunk.origin { Some(face) } else { None };
            let is_whole = self.cache.is_whole(&object);
            let (lacking, waiting) = self.cache.arriving.on_chunk(now, &object, face, is_whole);
            lacking.into_iter().for_each(|id| self.sender.on_cached(id));
            waiting.into_iter().for_each(|pending| self.ask(now, pending));
        }
    }
    /// A chunk that is sent again may already be stored here, and would arrive twice. True if its custodian has learned
    /// that this node keeps it, so it need not be forwarded.
    fn keep_out_of_its_way(&mut self, now: Time, slot: Slot, has_passed: bool) -> bool {
        let header = self.router.buffer.chunk(slot).and_then(|chunk| chunk.header.as_ref());
        let (Some(header), Some(proxy)) = (header, &mut self.proxy) else { return false };
        let Some((key, token)) = header.key().zip(header.token()) else { return false };
        if !has_passed && proxy.take_from_custodian(header) {
            return true;
        }
        let has_other_custodian = header.custodian.is_some_and(|custodian| custodian.guid != self.guid);
        // Its header has been forwarded and cannot change.
        let can_be_kept = !has_passed || self.config.proxy.custody == CustodyUntil::Hop;
        if header.flags.contains(Flags::REPEATED) && !has_other_custodian && can_be_kept {
            let custodian = proxy.on_passing(now, &key, token);
            if let Some(header) = self.router.buffer.header_mut(slot).filter(|_| custodian.is_some()) {
                header.custodian = custodian;
            }
        }
        false
    }
    /// Keeps a copy for a producer that may be gone when something is missing (paper §3.3, producer delegation).
    pub(super) fn delegate(&mut self, now: Time, slot: Slot, header: &ChunkHeader) {
        // Unreliable chunks are neither requested again nor acknowledged: the copy would stay for its lifetime.
        if header.tag().is_some_and(|tag| tag.reliability == Reliability::DontCare) {
            return;
        }
        self.leave_room(slot);
        let (Some(proxy), Some(chunk)) = (&mut self.proxy, self.router.buffer.chunk(slot)) else { return };
        let mut copy = header.clone();
        copy.flags = copy.flags.without(Flags::DELEGATE);
        if proxy.put(now, &copy, &chunk.payload(), Kept::Delegated).is_ok()
            && let Some(header) = self.router.buffer.header_mut(slot)
        {
            // One copy is enough.
            *header = copy;
        }
    }
    /// Answers a request from the cache, or sends it to the nearest node that has the content; true if either is done.
    pub(super) fn answer_or_bind(&mut self, now: Time, slot: Slot, header: &ChunkHeader) -> bool {
        let payload = self.router.buffer.payload(slot).to_bytes();
        let request = TransportMessage::decode(&payload);
        let passes = header.flags.contains(Flags::NO_CACHE);
        if let Ok(TransportMessage { object, body: TransportBody::Request { chunk_bytes, held, .. }, .. }) = &request
            && passes
        {
            self.cache.keep_only(object, held, *chunk_bytes);
        }
        let pending = Pending { header: header.clone(), payload: payload.clone() };
        if !passes && self.answer_from_cache(now, &pending) {
            self.router.consume(slot);
            return true;
        }
        if header.addresses.is_empty() && !self.router.is_attached(&header.destination) {
            self.router.consume(slot);
            self.anycasts.insert(now, header.clone(), payload);
            self.resolver.lookup(now, header.destination);
            return true;
        }
        false
    }
    /// Answers a request from the cache, at once or when its object has come; false if it is to go on to a source.
    fn answer_from_cache(&mut self, now: Time, pending: &Pending) -> bool {
        let Ok(message @ TransportMessage { object, body: TransportBody::Request { .. }, .. }) =
            TransportMessage::decode(&pending.payload)
        else {
            return false;
        };
        let cut = match self.cache.look(&object) {
            Some(cut) => cut,
            None => match self.cache.join(now, pending, &message) {
                Verdict::Passes => return false,
                Verdict::Waits => return true,
                Verdict::Joins(cut) => cut,
            },
        };
        let under_way = self.under_way(&pending.header, &message, cut);
        self.sender.handle_request(now, &pending.header, &message, Some(Cached { cut, under_way }));
        true
    }
    /// Takes a request that has waited here as if it came now.
    fn ask(&mut self, now: Time, pending: Pending) {
        if !self.answer_from_cache(now, &pending) {
            self.send_on(now, pending);
        }
    }
    /// Sends a request to the nearest node that has the content, or to the one that was chosen.
    fn send_on(&mut self, now: Time, Pending { header, payload }: Pending) {
        if header.addresses.is_empty() && !self.router.is_attached(&header.destination) {
            let content = header.destination;
            self.anycasts.insert(now, header, payload);
            self.resolver.lookup(now, content);
        } else {
            self.router.originate(now, header, &payload.into(), Origin::Local);
        }
    }
    /// Where the arrival of an object stops, the first starving flow requests the missing chunks from a source.
    pub(super) fn replace_leaders(&mut self, now: Time) -> bool {
        for (object, id) in core::mem::take(&mut self.sender.lacking) {
            self.cache.arriving.on_lack(object, id);
        }
        let mut moved = false;
        loop {
            let proxy = &self.proxy;
            let is_stored = |id: &(Guid, u32), object: &ObjectId| {
                proxy.as_ref().is_some_and(|proxy| proxy.waiting_for(&id.0, *object, id.1).next().is_some())
            };
            let stopped = self.cache.arriving.take_stopped(now, &self.router, is_stored);
            let Some(Stopped { object, starving, mut stream }) = stopped else { return moved };
            moved = true;
            let waiting = core::mem::take(&mut stream.waiting);
            match starving.and_then(|(id, pending)| Some((id, pending.header, self.sender.hand_over(id)?))) {
                Some((id, header, request)) => {
                    self.cache.arriving.lead(now, id, &request, stream);
                    self.send_on(now, Pending { header, payload: request.to_bytes().into() });
                }
                None => self.cache.arriving.restore(object, stream),
            }
            waiting.into_values().for_each(|pending| self.ask(now, pending));
        }
    }
    /// The chunks of a requested object that are on their way to the receiver through this node, from any source: a
    /// request that is repeated during an outage must not deliver them twice. Only chunks of the same cut count.
    fn under_way(&self, header: &ChunkHeader, request: &TransportMessage, cut: (u32, u32)) -> BTreeSet<u32> {
        let (transfer, object) = (request.transfer, request.object);
        let sent = self.router.data_for(&header.source);
        let stored = self.proxy.iter().flat_map(|proxy| proxy.waiting_for(&header.source, object, transfer));
        let is_of = |tag: &&DataTag| {
            let is_same = (tag.transfer, tag.object, Some(tag.token)) == (transfer, object, header.token());
            is_same && (tag.chunk_bytes, tag.count) == cut
        };
        sent.chain(stored).filter(is_of).map(|tag| tag.number).collect()
    }
    /// Sends delegated copies of missing chunks; true if their producer need not see the message.
    pub(super) fn answer_for_producer(&mut self, now: Time, slot: Slot, header: &ChunkHeader) -> bool {
        let flow = crate::ids::Flow { source: header.destination, destination: header.source };
        if !self.proxy.as_ref().is_some_and(|proxy| proxy.answers_for(&flow)) {
            return false;
        }
        let (Some(message), Some(proxy)) = (self.message(slot), &mut self.proxy) else { return false };
        let TransportMessage { transfer, object, body } = message;
        let token = header.token().unwrap_or_default();
        let asks_past_copies = header.flags.contains(Flags::NO_CACHE);
        match body {
            TransportBody::Status { missing, .. } if !missing.is_empty() && !asks_past_copies => {
                let left = proxy.handle_push(now, token, &flow, transfer, object, &missing);
                let done = left.is_empty() || !self.router.is_attached(&header.destination);
                if done {
                    self.router.consume(slot);
                }
                done
            }
            TransportBody::Ack { complete: true, .. } => {
                proxy.on_complete(token, &flow, transfer, object);
                false
            }
            _ => false,
        }
    }
    /// A receiver's message to its source cannot be delivered: the receiver is notified in the source's name, and
    /// requests the object elsewhere, unless copies here answer for the source.
    fn on_undeliverable(&mut self, now: Time, slot: Slot, reason: &'static str) {
        let Some(header) = self.router.buffer.chunk(slot).and_then(|chunk| chunk.header.clone()) else { return };
        let message = self.message(slot);
        self.router.drop_chunk(slot, reason);
        let flow = crate::ids::Flow { source: header.destination, destination: header.source };
        if self.proxy.as_ref().is_some_and(|proxy| proxy.answers_for(&flow)) {
            return;
        }
        let Some(TransportMessage { transfer, object, body }) = message else { return };
        let is_of_receiver = match body {
            TransportBody::Request { .. } | TransportBody::Status { .. } => true,
            TransportBody::Ack { complete, .. } => !complete,
            _ => false,
        };
        if !is_of_receiver || is_pushed(transfer) {
            return;
        }
        self.cache.arriving.on_end(&object, (header.source, transfer));
        let payload = TransportBody::Unavailable.about(transfer, object).to_bytes();
        let kind = ChunkKind::Transport(header.token().unwrap_or_default());
        let mut answer = ChunkHeader::new(kind, header.destination, header.source, header.source_address);
        answer.source_address = self.config.address;
        self.router.originate(now, answer, &payload.into(), Origin::Local);
    }
    /// Evicts parts of interrupted chunks where the store needs their space for a complete chunk.
    fn leave_room(&mut self, slot: Slot) {
        if let (Some(proxy), Some(chunk)) = (&self.proxy, self.router.buffer.chunk(slot)) {
            let (used, capacity) = proxy.usage();
            self.router.partials.set_room(capacity.0.saturating_sub(used.0 + chunk.bytes() + CHUNK_OVERHEAD_BYTES));
        }
    }
    pub(super) fn settle_partials(&mut self, now: Time) {
        if let Some(proxy) = &self.proxy {
            let (used, capacity) = proxy.usage();
            self.router.partials.set_room(capacity.0.saturating_sub(used.0));
        }
        let is_known = self.router.partials.is_failing;
        if let Err(error) = self.router.partials.settle(now)
            && !is_known
        {
            self.events.push(Event::Note(format!("cannot keep the chunks that were interrupted: {error}")));
        }
        for _ in 0..core::mem::take(&mut self.router.partials.dropped) {
            self.events.on_dropped(FaceId::default(), "part of a chunk beyond partial_size", 0);
        }
    }
    /// Checks that the source of a chunk has proven its key, so that the chunk may be stored, and replace others, in its
    /// name. Certified routers vouch for it, and so do routers that this node was told of. Any other node may have said
    /// that it is a router, so the source's own record decides.
    ///
    /// # Errors
    /// The source whose record has to be looked up first; `None` if the source is not there.
    pub(super) fn prove_source(&self, now: Time, slot: Slot) -> Result<(), Option<Guid>> {
        let chunk = self.router.buffer.chunk(slot).ok_or(None)?;
        let is_named = |face: FaceId| self.faces.contains_key(&face) && !self.unsolicited.contains(face);
        match (chunk.origin, &chunk.header) {
            (Origin::Face(face, _), Some(header)) if self.signed.is_none() && !is_named(face) => {
                self.router.find_behind(now, face, header.source)
            }
            _ => Ok(()),
        }
    }
    pub(super) fn on_store(&mut self, now: Time, slot: Slot, reason: StoreReason) {
        match (self.prove_source(now, slot), reason) {
            (Ok(()), _) => {}
            (Err(_), StoreReason::Relief | StoreReason::BadPath) => {
                return self.router.refuse_store(now, slot, reason);
            }
            (Err(Some(source)), _) => return self.router.wait_for(now, slot, source),
            (Err(None), _) => return self.router.drop_chunk(slot, NOT_PROVEN),
        }
        self.leave_room(slot);
        let (Some(proxy), Some(chunk)) = (&mut self.proxy, self.router.buffer.chunk(slot)) else {
            return self.router.drop_chunk(slot, "no storage");
        };
        let Some(header) = chunk.header.clone() else { return };
        match proxy.put(now, &header, &chunk.payload(), Kept::For(reason)) {
            Ok(()) => self.storing.push(slot),
            Err(Refused::ShareFull) if reason != StoreReason::Relief && reason != StoreReason::BadPath => {
                self.router.drop_chunk(slot, NO_SHARE);
            }
            Err(_) => self.router.refuse_store(now, slot, reason),
        }
    }
    /// Commits stored chunks, and acknowledges them only afterwards.
    pub(super) fn commit(&mut self, now: Time) {
        loop {
            let Some(proxy) = &mut self.proxy else { return };
            let done = match proxy.poll_commit(now) {
                Ok(false) => {
                    // Else the repository wakes the node.
                    if let Some(interval) = proxy.commit_poll_interval() {
                        self.commit_look_at.get_or_insert(now + interval);
                    }
                    return;
                }
                Ok(true) => Ok(()),
                Err(error) => Err(error),
            };
            self.commit_look_at = None;
            let result = done.and_then(|()| {
                core::mem::take(&mut self.committing).into_iter().for_each(|slot| drop(self.router.consume(slot)));
                if !proxy.has_uncommitted() && self.storing.is_empty() {
                    return Ok(false);
                }
                self.committing = core::mem::take(&mut self.storing);
                proxy.begin_commit()
            });
            match result {
                Ok(true) => self.on_stored(),
                Ok(false) => return self.on_stored(),
                Err(error) => {
                    for slot in core::mem::take(&mut self.committing) {
                        self.router.drop_chunk(slot, "the store failed");
                    }
                    return self.on_store_failed(&error);
                }
            }
        }
    }
    /// Link state in a network with an authority: signed by a certified router, and passed on by certified routers.
    fn on_signed_state(&mut self, now: Time, from: FaceId, message: &[u8]) {
        let is_router = self.neighbour.peer(from).is_some_and(|peer| peer.roles.contains(Roles::ROUTER));
        let opened = match &mut self.signed {
            Some(signed) if is_router => signed.open(now, from, message),
            Some(_) | None => Err(Untrusted("link state from a neighbour that is not certified as a router")),
        };
        match (opened, &mut self.router.topology, &self.signed) {
            (Ok(state), Some(topology), Some(signed)) => {
                if let (Some(seals), Some(key)) = (&mut self.seals, signed.key_of(state.router)) {
                    seals.meet(state.router, key, &signed.identity);
                }
                if !topology.handle_state(now, from, state) {
                    self.refuse_router(from, message.len());
                }
            }
            (Err(Untrusted(reason)), ..) => self.events.on_dropped(from, reason, message.len()),
            (Ok(_), ..) => {}
        }
    }
    /// This node's topology is full, so it cannot reach anything behind one more router.
    fn refuse_router(&mut self, from: FaceId, bytes: usize) {
        if self.events.counters().get(TOO_MANY_ROUTERS).is_none() {
            let text = format!(
                "limit reached: routers in the network (routers_max = {}); further ones are not reached from here, and \
                 their link states are counted",
                self.config.routers_max
            );
            self.events.push(Event::Note(text));
        }
        self.events.on_dropped(from, TOO_MANY_ROUTERS, bytes);
    }
    pub(super) fn on_local(&mut self, now: Time, slot: Slot) {
        let is_proven = self.prove_source(now, slot).is_ok();
        let Some(chunk) = self.router.consume(slot) else { return };
        let (payload, packets) = (chunk.payload(), chunk.count());
        let from = if let Origin::Face(face, _) = chunk.origin { face } else { FaceId::default() };
        let Some(header) = chunk.header else { return };
        match header.kind {
            ChunkKind::Data(_) => {
                self.on_repair(now, &header, &payload, is_proven);
                if let Some(arrival) = chunk.arrival {
                    self.receiver.on_arrival(&header, packets, &arrival);
                }
                self.receiver.handle_data(now, &header, &payload);
            }
            ChunkKind::LinkState => {
                if self.signed.is_some() {
                    return self.on_signed_state(now, from, &payload.to_bytes());
                }
                let state = unseal(&OPEN_KEY, &payload.to_bytes()).and_then(LinkState::decode);
                match (state, &mut self.router.topology) {
                    (Ok(state), Some(topology)) => {
                        if !topology.handle_state(now, from, state) {
                            self.refuse_router(from, payload.len());
                        }
                    }
                    (Ok(_), None) => {}
                    (Err(error), _) => self.events.on_dropped(from, error.reason(), payload.len()),
                }
            }
            ChunkKind::Transport(_) => match TransportMessage::decode(&payload.to_bytes()) {
                Ok(message) => self.on_transport(now, &header, &message),
                Err(error) => self.events.on_dropped(from, error.reason(), payload.len()),
            },
            ChunkKind::Names => {
                if let Err(reason) = self.on_names(now, from, header.source, &payload.to_bytes()) {
                    self.events.on_dropped(from, reason, payload.len());
                }
            }
        }
    }
}
