//! Chunks that arrive: for what was asked for, and what is pushed.
use core::ops::RangeInclusive;

use tributary_content::Unavailable;

use super::{doubt::is_there, *};
use crate::link::Arrival;

impl Receiver {
    /// A chunk for this node, of so many packets, has come over its last hop: goes before [`Receiver::handle_data`].
    pub fn on_arrival(&mut self, header: &ChunkHeader, packets: u16, arrival: &Arrival) {
        let Some(tag) = header.tag().filter(|tag| !is_pushed(tag.transfer)) else { return };
        let is_of = |fetch: &&mut Incoming| fetch.object == Some(tag.object) && fetch.token == tag.token;
        let Some(fetch) = self.fetches.get_mut(TransferId(tag.transfer)).filter(is_of) else { return };
        let (origin, asked_at) = (fetch.origin(header), fetch.take_answered(&header.source));
        let Some(source) = origin.source().and_then(|number| fetch.sources.get_mut(number)) else {
            return;
        };
        source.state.packets += u64::from(packets);
        source.state.late_packets += u64::from(arrival.late);
        if let Some(asked_at) = asked_at.filter(|at| matches!(origin, Origin::Source(_)) && *at <= arrival.begun) {
            let rtt = arrival.begun.since(asked_at);
            source.state.rtt = Some((rtt, source.state.rtt.map_or(rtt, |(_, least)| least.min(rtt))));
        }
    }
    /// Whether a chunk that begins to arrive is here already, verified, and nobody waits to hear so: its last router may not
    /// know that it was taken, if the receiver went away at that moment.
    pub fn has_already(&mut self, now: Time, header: &ChunkHeader) -> bool {
        let Some(tag) = header.tag().filter(|tag| tag.reliability != Reliability::Ack) else { return false };
        let id = self.id_of(header, tag);
        let is_of = |fetch: &&mut Incoming| {
            fetch.object == Some(tag.object) && fetch.token == tag.token && fetch.ended.is_none()
        };
        let Some(fetch) = id.and_then(|id| self.fetches.get_mut(id)).filter(is_of) else { return false };
        let holds =
            |held: &Reassembly| held.holds(tag.number, tag.chunk_bytes, tag.count, header.payload_bytes as usize);
        let source = fetch.source_of(&header.source);
        let is_trusted = source.is_none_or(|source| !source.has_lied() && source.state.doubt.is_none());
        if !is_trusted || header.flags.contains(Flags::NO_CACHE) || !fetch.reassembly.as_ref().is_some_and(holds) {
            return false;
        }
        fetch.lonely_since = now;
        if let Some(id) = id.filter(|_| header.custodian.is_some()) {
            fetch.keep_for(header);
            self.settle_custody(now, id);
        }
        true
    }
    /// Whether a chunk that begins to arrive is of something for which there is no room now, or that nobody takes yet and is
    /// kept until somebody does: its custodian, which is told so, need not send the rest.
    pub fn turns_away(&mut self, header: &ChunkHeader) -> bool {
        let tag = header.tag().filter(|tag| is_pushed(tag.transfer) && header.custodian.is_some());
        let Some(tag) = tag.filter(|tag| !self.pushed.contains_key(&(header.source, tag.transfer))) else {
            return false;
        };
        let is_of = |(known, _): &(ChunkHeader, Bytes)| known.tag().is_some_and(|known| known.number == tag.number);
        match self.early.get(&(header.source, tag.transfer)) {
            Some(early) if self.acceptor.is_none() && early.chunks.iter().any(is_of) => {
                self.answers.extend(Answer::to(header, CustodyState::Refused));
                true
            }
            Some(_) => false,
            None if self.pushed_here() >= PUSHED_MAX => {
                self.refuse(header, tag);
                true
            }
            None => false,
        }
    }
    /// Pushed objects that have begun.
    fn pushed_here(&self) -> usize {
        self.fetches.running().filter(|(_, fetch)| is_pushed(fetch.transfer)).count() + self.early.len()
    }
    /// What a chunk is for; `None` for the first one of something that nobody here asked for.
    fn id_of(&self, header: &ChunkHeader, tag: &DataTag) -> Option<TransferId> {
        match is_pushed(tag.transfer) {
            true => self.pushed.get(&(header.source, tag.transfer)).copied(),
            false => Some(TransferId(tag.transfer)),
        }
    }
    /// Takes a chunk of an object for this node.
    pub fn handle_data(&mut self, now: Time, header: &ChunkHeader, payload: &Payload) {
        let Some(tag) = header.tag() else { return };
        let Some(id) = self.id_of(header, tag) else { return self.on_pushed(now, header, tag, payload) };
        let is_of = |fetch: &&mut Incoming| {
            fetch.object == Some(tag.object) && (fetch.token == tag.token || fetch.takes_another_token())
        };
        let Some(fetch) = self.fetches.get_mut(id).filter(is_of) else {
            let settled = self.settled.get(&(header.source, tag.transfer));
            let settled = settled.filter(|settled| (settled.object, settled.token) == (tag.object, tag.token));
            let has_all = settled.map(|settled| settled.has_all);
            self.strays += u64::from(has_all.is_none());
            if has_all.is_some() || !is_pushed(tag.transfer) {
                self.say_over(header, tag, has_all.unwrap_or(false));
                self.tell_over(header);
            }
            return;
        };
        if fetch.ended.is_some() {
            let has_all = fetch.failure.is_none();
            self.tell_over(header);
            return self.say_over(header, tag, has_all);
        }
        let bytes = payload.len() as u64;
        let Some(reassembly) = &mut fetch.reassembly else { return };
        if !reassembly.is_open() {
            return self.keep_early(now, (header.source, tag.transfer), header, payload);
        }
        let number = fetch.number_of(&header.source).filter(|_| !is_pushed(tag.transfer));
        let hears = fetch.hears_of_the_end();
        if let Some((number, source)) = number.and_then(|number| Some((number, fetch.sources.get_mut(number)?))) {
            if source.has_lied() {
                fetch.duplicate_bytes += bytes;
                self.tell_over(header);
                return self.say_over(header, tag, true);
            }
            if source.state.doubt.is_some() {
                return self.on_doubted(id, number, (header, tag, payload));
            }
            source.state.serves = hears.then_some(header.source_address);
        }
        // What others than the one that was asked, and serves, had on its way is no answer to what is said to that one.
        let is_stray = fetch.sender.is_some_and(|(known, _)| known != header.source && fetch.asked == Some(known));
        if !is_stray {
            let first = fetch.sender.is_none_or(|(known, _)| known != header.source);
            fetch.sender = Some((header.source, header.source_address));
            fetch.proxies = header.proxies_left;
            if first {
                fetch.windows.clear();
                (fetch.highest_window, fetch.granted, fetch.nacks) = (None, None, 0);
            }
        }
        (fetch.lonely_since, fetch.calls, fetch.token) = (now, 0, tag.token);
        if is_pushed(tag.transfer) {
            // Somebody on the way may have changed what was said of it first.
            fetch.reliability = fetch.reliability.max(tag.reliability);
        }
        let (number, chunk_bytes, count) = (tag.number, tag.chunk_bytes, tag.count);
        let origin = fetch.origin(header);
        let room = self.make_room(id, bytes);
        let Some((fetch, shared)) = self.fetches.get_with_limit(id) else { return };
        if header.flags.contains(Flags::CACHED) {
            fetch.cached_by = Some(header.source);
        }
        let Some(reassembly) = &mut fetch.reassembly else { return };
        let is_first = reassembly.cut().is_none();
        let taken = reassembly.take(number, (chunk_bytes, count), payload, origin, room);
        if is_first && chunk_bytes > fetch.asked_bytes && !is_pushed(tag.transfer) {
            // A cache has it in larger chunks.
            let more = fetch.take_grant(2 * u64::from(fetch.window_chunks), chunk_bytes - fetch.asked_bytes);
            fetch.limit.on_pass(now, more);
            shared.on_pass(now, more);
        }
        fetch.take_stored();
        if matches!(taken, Taken::Kept | Taken::Duplicate) {
            fetch.keep_for(header);
        }
        match taken {
            Taken::Kept => {
                fetch.nacks = 0;
                fetch.on_useful(now, header, bytes);
                if !is_stray {
                    fetch.on_window(tag);
                }
            }
            Taken::Duplicate => {
                fetch.duplicate_bytes += bytes;
                // Whoever sends the beginning once more has sent everything, and asks what became of it.
                let is_reminder = number == 0 && is_pushed(tag.transfer) && fetch.reliability != Reliability::DontCare;
                let timeout = fetch.options.nack_timeout(&self.config);
                let heard = self.arriving.get(&(fetch.object, fetch.transfer)).copied();
                if is_reminder && now >= heard.unwrap_or_default().max(fetch.useful_at) + timeout {
                    self.settle_custody(now, id);
                    return self.nack(now, id);
                }
            }
            Taken::Refused => {
                // Its sender sends more than it was told, or others have filled the buffer meanwhile.
                fetch.set_nack(now, fetch.options.nack_timeout(&self.config));
                match header.custodian {
                    Some(_) => self.refuse(header, tag),
                    None => self.refused += 1,
                }
                return self.say_due(now, id);
            }
            Taken::Wrong(wrong) => return self.distrust(now, id, wrong),
            Taken::Failed(reason) => return self.fail(now, id, reason),
        }
        if fetch.reliability == Reliability::Ack {
            let chunks = ChunkRanges::from_ascending([number]);
            let (transfer, object) = (fetch.transfer, tag.object);
            let message = TransportMessage::Ack { transfer, object, complete: false, chunks };
            self.outbox.push_back(Outgoing::answer(header, message));
        }
        fetch.set_nack(now, fetch.options.nack_timeout(&self.config));
        let window = fetch.complete_window();
        if let Some(window) = window {
            fetch.status_at = Some((now, window));
        }
        // What was sent again overtakes nothing that is told of here.
        if !header.flags.contains(Flags::REPEATED)
            && fetch.look_for_gaps(now, number, fetch.options.nack_timeout(&self.config))
        {
            let window = fetch.status_at.map_or(fetch.highest_window.unwrap_or(0), |(_, window)| window);
            fetch.status_at = Some((now, window));
        }
        self.finish_if_complete(now, id);
        self.settle_custody(now, id);
        self.say_due(now, id);
    }
    /// A sender goes on with what is complete here, or is not wanted any more, or was asked for by an earlier life of this
    /// node: without an answer it would repeat for ever what is not acknowledged. Of what was sent unasked it is said that
    /// it is complete if it is, else that it is refused.
    fn say_over(&mut self, header: &ChunkHeader, tag: &DataTag, has_all: bool) {
        if tag.reliability == Reliability::DontCare {
            return;
        }
        let (transfer, object) = (tag.transfer, tag.object);
        let message = match has_all || !is_pushed(transfer) {
            true => TransportMessage::Ack { transfer, object, complete: true, chunks: ChunkRanges::default() },
            false => TransportMessage::Unavailable { transfer, object },
        };
        self.outbox.push_back(Outgoing::answer(header, message));
    }
    /// The first chunks of something that nobody here asked for.
    pub(super) fn on_pushed(&mut self, now: Time, header: &ChunkHeader, tag: &DataTag, payload: &Payload) {
        let key = (header.source, tag.transfer);
        let is_known = self.early.contains_key(&key);
        let is_full = !is_known && self.pushed_here() >= PUSHED_MAX;
        if is_full && !self.forget_early(now, key) {
            return self.refuse(header, tag);
        }
        // A device that has just come back is given what was stored for it before anybody takes it: it is kept, and whoever
        // is its custodian waits.
        if self.acceptor.is_none() {
            self.answers.extend(Answer::to(header, CustodyState::Refused));
        }
        if tag.number != 0 || self.acceptor.is_none() {
            return self.keep_early(now, key, header, payload);
        }
        let manifest = manifest_of(&payload.to_bytes()).filter(|manifest| manifest.object_id() == tag.object);
        let Some((manifest, acceptor)) = manifest.zip(self.acceptor.as_mut()) else {
            self.strays += 1;
            self.early.remove(&key);
            self.tell_over(header);
            return;
        };
        let (name, size) = (manifest.name.clone(), manifest.size);
        let delivery = [&header.source.0[..], &tag.transfer.to_be_bytes()].concat();
        let trusted = acceptor.trusts(&manifest);
        let opened = match trusted.and_then(|()| Reassembly::sent(manifest, &mut **acceptor, &delivery)) {
            // Whoever keeps it goes on keeping it.
            Err(StoreError::Later { .. }) => return self.refuse(header, tag),
            opened => opened.map_err(|error| error.to_string()),
        };
        let id = self.fetches.number();
        let mut incoming =
            Incoming::new(now, name, (tag.transfer, tag.token), tag.reliability, self.config.window_chunks);
        incoming.object = Some(tag.object);
        incoming.ungranted = size;
        let is_open = opened.as_ref().is_ok_and(Reassembly::is_open);
        let refused = opened.map(|reassembly| incoming.reassembly = Some(reassembly)).err();
        let guid = header.source;
        let _ = incoming.sources.add(node_of(&guid), &guid.to_string(), Peer::new(guid));
        self.insert(id, incoming);
        self.remember_pushed(key, id);
        if let Some(reason) = refused {
            self.early.remove(&key);
            return self.fail(now, id, reason);
        }
        let before = self.early.remove(&key).map(|early| early.chunks).unwrap_or_default();
        let before = before.into_iter().map(|(header, payload)| (header, Payload::from(payload)));
        if is_open {
            self.on_open(now, id);
        }
        for (header, payload) in core::iter::once((header.clone(), payload.clone())).chain(before) {
            self.handle_data(now, &header, &payload);
        }
    }
    fn remember_pushed(&mut self, key: (Guid, u32), id: TransferId) {
        self.pushed.insert(key, id);
        self.pushed_since.push_back(key);
        while self.pushed_since.len() > PUSHED_KEPT
            && let Some(oldest) = self.pushed_since.pop_front()
        {
            let id = self.pushed.get(&oldest).copied();
            if id.and_then(|id| self.fetches.get(id)).is_some_and(Incoming::is_pushed_here) {
                self.pushed_since.push_back(oldest);
            } else {
                self.pushed.remove(&oldest);
                self.settled.remove(&oldest);
            }
        }
    }
    fn keep_early(&mut self, now: Time, key: (Guid, u32), header: &ChunkHeader, payload: &Payload) {
        let bytes = |early: &Early| early.chunks.iter().map(|(_, payload)| payload.len() as u64).sum::<u64>();
        let most = self.config.buffer_bytes.0;
        while self.early.values().map(bytes).sum::<u64>() + payload.len() as u64 > most {
            if !self.forget_early(now, key) {
                if let Some(tag) = header.tag() {
                    self.refuse(header, tag);
                }
                return;
            }
        }
        let early = self.early.entry(key).or_insert_with(|| Early { chunks: Vec::new(), heard_at: now });
        early.heard_at = now;
        // What is repeated takes the place of what is here.
        let number = |header: &ChunkHeader| header.tag().map(|tag| tag.number);
        early.chunks.retain(|(known, _)| number(known) != number(header));
        if early.chunks.len() < EARLY_MAX {
            early.chunks.push((header.clone(), payload.to_bytes()));
        } else if let Some(tag) = header.tag() {
            self.refuse(header, tag);
        }
    }
    /// Of what nobody has taken yet the one of which nothing was heard for longest makes room for another one; false if more
    /// of each may be about to come.
    fn forget_early(&mut self, now: Time, other: (Guid, u32)) -> bool {
        let idle =
            |(key, early): &(&(Guid, u32), &Early)| **key != other && now.since(early.heard_at) >= EARLY_PATIENCE;
        let oldest = self.early.iter().filter(idle).min_by_key(|(_, early)| early.heard_at).map(|(key, _)| *key);
        oldest.and_then(|key| self.early.remove(&key)).is_some()
    }
    /// Somebody takes what is pushed: begins with what came before.
    pub fn take_early(&mut self, now: Time) {
        if self.acceptor.is_none() {
            return;
        }
        self.tell_ready();
        let is_first = |(header, _): &(ChunkHeader, Bytes)| header.tag().is_some_and(|tag| tag.number == 0);
        let firsts = self.early.values_mut().filter_map(|early| {
            let at = early.chunks.iter().position(is_first)?;
            Some(early.chunks.remove(at))
        });
        for (header, payload) in firsts.collect::<Vec<_>>() {
            self.handle_data(now, &header, &payload.into());
        }
    }
    /// Who sent wrong bytes is asked for them again, and no more if they stay wrong, while others serve if there are any; if
    /// it may have been a cache or storage, these are passed by. If several sent what is wrong, sources stay: it comes
    /// again, and then from one of them.
    pub(super) fn distrust(&mut self, now: Time, id: TransferId, wrong: Wrong) {
        for (origin, bytes) in &wrong.origins {
            self.wrong.count(*origin, *bytes);
        }
        let Some(fetch) = self.fetches.get_mut(id) else { return };
        if is_pushed(fetch.transfer) {
            return self.ask_past_copies(now, id, wrong);
        }
        let only = wrong.origins.keys().next().filter(|_| wrong.origins.len() == 1).copied();
        if let Some(Origin::Source(number)) = only {
            if fetch.has_others(number) {
                return self.doubt(now, id, number, wrong);
            }
            if fetch.sources.get(number).is_some_and(|source| source.state.wrongs < WRONG_ASKS) {
                return self.ask_again(now, id, Some(number), wrong.chunks);
            }
        }
        let Wrong { reason, origins, .. } = wrong;
        if let Some(reassembly) = &mut fetch.reassembly {
            reassembly.restart();
        }
        fetch.leave_sender();
        if let Some(Origin::Source(number)) = only {
            self.blame(id, number, reason.clone());
            let Some(fetch) = self.fetches.get(id) else { return };
            if !fetch.sources.any_usable() {
                let reason = format!("no source of '{}' can be trusted: {reason}", fetch.name);
                return self.fail(now, id, reason);
            }
        } else if let Some(cache) = fetch.cached_by.filter(|_| origins.contains_key(&Origin::Cache)) {
            fetch.avoid_caches = true;
            // What it sent before it was passed by may still come.
            if fetch.bypassed.insert(cache) {
                let node = node_of(&cache);
                fetch.events.push_back(TransferEvent::CacheDistrusted { node, reason });
            }
        } else if origins.keys().any(|origin| matches!(origin, Origin::Storage(_))) {
            fetch.avoid_caches = true;
        } else if origins.contains_key(&Origin::Cache) {
            self.strays += 1;
        }
        self.request(now, id);
    }
    /// What is pushed has one source, and whoever is on the way may have changed it: the source is asked again, past all
    /// copies, more and more rarely. That it lies is not known as long as others could have.
    fn ask_past_copies(&mut self, now: Time, id: TransferId, wrong: Wrong) {
        let Some(fetch) = self.fetches.get_mut(id) else { return };
        let timeout = fetch.options.nack_timeout(&self.config);
        fetch.set_nack(now, timeout);
        if fetch.reliability == Reliability::DontCare {
            return;
        }
        if fetch.wrong_since.is_some_and(|since| now.since(since) >= WRONG_LIFETIME) {
            let reason = format!(
                "all that comes of '{}' is wrong for {} s, last: it {}; its source lies, or somebody on the way",
                fetch.name,
                WRONG_LIFETIME.as_secs(),
                wrong.reason
            );
            return self.fail(now, id, reason);
        }
        self.ask_again(now, id, None, wrong.chunks);
    }
    /// Asks the sender, past copies, for chunks that came wrong, in the name of a source if it is known of which.
    pub(super) fn ask_again(
        &mut self,
        now: Time,
        id: TransferId,
        source: Option<SourceId>,
        chunks: RangeInclusive<u32>,
    ) {
        let Some(fetch) = self.fetches.get_mut(id) else { return };
        let timeout = fetch.options.nack_timeout(&self.config);
        let before = fetch.wrongs;
        let asked_at = fetch.on_wrong(now, chunks, timeout);
        let asks = u32::from(fetch.wrongs > before);
        if let Some(source) = source.and_then(|number| fetch.sources.get_mut(number)) {
            source.state.wrongs += asks;
        }
        fetch.nack_at = fetch.nack_at.max(asked_at + timeout);
        self.say_due(now, id);
    }
    /// Takes a message that is for a receiver.
    pub fn handle_message(&mut self, now: Time, header: &ChunkHeader, message: &TransportMessage) {
        let (transfer, object) = match message {
            TransportMessage::Unavailable { transfer, object } => (transfer, object),
            TransportMessage::Unreadable { transfer, object, why } => {
                return self.on_unreadable(now, header, (*transfer, *object), *why);
            }
            _ => return,
        };
        let (id, from, token) = (TransferId(*transfer), header.source, header.token());
        let asked = |fetch: &&mut Incoming| {
            fetch.object == Some(*object) && Some(fetch.token) == token && fetch.ended.is_none()
        };
        if let Some(fetch) = self.fetches.get_mut(id).filter(asked) {
            let timeout = fetch.options.nack_timeout(&self.config);
            let known = fetch.number_of(&from);
            if let Some(source) = known.and_then(|number| fetch.sources.get_mut(number)) {
                source.state.away_until = now + timeout * AWAY_TIMEOUTS;
                source.state.serves = None;
            }
            let sends = fetch.sender.is_some_and(|(sender, _)| sender == from);
            let was_asked = fetch.sender.is_none() && known.is_some() && fetch.asked.is_none_or(|asked| asked == from);
            if !sends && !was_asked {
                return;
            }
            let others = fetch.sources.iter().any(|(_, source)| is_there(source, now));
            if others && known.is_some() {
                fetch.leave_sender();
                fetch.asked_at = None;
                return self.request(now, id);
            }
            (fetch.nacks, fetch.sender) = (fetch.nacks + 1, None);
            fetch.avoid_caches |= known.is_none();
            // Not at once: it may be the only one, and about to come back.
            fetch.set_nack(now, timeout / 4);
        }
    }
    /// A source says that it cannot read what it offers: it is asked no more, and the fetch ends if there is no other one.
    fn on_unreadable(&mut self, now: Time, header: &ChunkHeader, about: (u32, ObjectId), why: Unavailable) {
        let (from, token) = (header.source, header.token());
        let is_meant = |fetch: &Incoming| {
            fetch.transfer == about.0
                && fetch.object == Some(about.1)
                && Some(fetch.token) == token
                && fetch.ended.is_none()
                && (fetch.sender.is_some_and(|(sender, _)| sender == from)
                    || fetch.asked.is_none_or(|asked| asked == from))
        };
        let Some((id, fetch)) = self.fetches.iter_mut().find(|(_, fetch)| is_meant(fetch)) else { return };
        let number = fetch.number_of(&from);
        let source = number.and_then(|number| fetch.sources.get_mut(number));
        let label = source.as_ref().map_or_else(|| from.to_string(), |source| source.label.clone());
        if let (Some(source), Some(number)) = (source, number) {
            source.state.serves = None;
            let closed = fetch.sources.close_unavailable(number, why.to_string());
            fetch.events.extend(closed);
        }
        fetch.leave_sender();
        fetch.asked_at = None;
        if fetch.sources.any_usable() {
            return self.request(now, id);
        }
        let reason = format!("no source of '{}' can be used any more: '{label}': {why}", fetch.name);
        self.fail(now, id, reason);
    }
}

#[cfg(test)]
mod tests {
    use tributary_content::{ChunkStore, MemoryObject, MemoryOpener, ObjectReader, SigningKey, StoreAnswer, StoreTask};

    use super::{super::tests::fetch_of, *};
    use crate::{
        ids::Custodian,
        router::cache::ContentCache,
        sender::{PUSHED, SendOptions, Sender},
        wire::ChunkKind,
    };

    /// Chunks of an object of so many, all but its description: the bytes of unit `number - 1` of 10,000 each.
    fn chunks_of(source: u8, count: u32) -> (ChunkHeader, Vec<(ChunkHeader, Payload)>, Payload) {
        let key = SigningKey::from_secret(&[7; 32]);
        let name = alloc::format!("/lab/{source}").parse().expect("a name");
        let bytes: Bytes = (0..10_000 * count).map(|number| (number / 9) as u8).collect();
        let kind = tributary_content::ObjectKind::File;
        let object = MemoryObject::with_options(name, bytes.clone(), &key, 1, kind, 10_000).expect("fits");
        let encoded = object.manifest().encode();
        let head = [&(encoded.len() as u16).to_be_bytes()[..], &encoded, &object.tree()].concat();
        let header = |number| {
            let tag = DataTag {
                object: object.manifest().object_id(),
                transfer: PUSHED | 1,
                token: Token(7),
                number,
                count: count + 1,
                chunk_bytes: 10_000,
                reliability: Reliability::Nack,
                window: u16::MAX,
                window_chunks: 0,
            };
            ChunkHeader::new(ChunkKind::Data(tag), Guid([source; 20]), Guid([9; 20]), NetworkAddress(1))
        };
        let data = (1..=count).map(|number| {
            (header(number), bytes.slice((number as usize - 1) * 10_000..number as usize * 10_000).into())
        });
        (header(0), data.collect(), head.into())
    }

    #[test]
    fn all_transfers_together_keep_to_the_buffer_and_none_is_starved() {
        let most = 1_000_000;
        let config = EndConfig { buffer_bytes: tributary_core::ByteCount(most), ..EndConfig::default() };
        let mut receiver = Receiver::new(config, 1, &[1; 32]);
        let opener = MemoryOpener::new();
        // Its reader reads nothing.
        opener.content().read_in_order(None, Some(tributary_content::ChunkIndex(0)));
        receiver.accept(Some(Box::new(opener)));
        let now = Time::from_millis(1_000);
        for source in 1..=4 {
            let (first, data, head) = chunks_of(source, 400);
            receiver.handle_data(now, &first, &head);
            // From behind: nothing of it can be read.
            for (header, payload) in data.iter().rev() {
                receiver.handle_data(now, header, payload);
                assert!(receiver.buffered_bytes() <= most + u64::from(source) * 10_000);
            }
            let refused = receiver.refused;
            assert!(refused >= 250 * u64::from(source), "{refused}");
            let held = receiver.fetches.iter().map(|(id, _)| receiver.buffered_of(id)).collect::<Vec<_>>();
            let part = most / u64::from(source);
            assert!(held.iter().all(|held| *held >= part / 2), "each has its part: {held:?}");
        }
    }

    #[test]
    fn what_nobody_has_taken_is_forgotten_for_want_of_room_alone() {
        let config = EndConfig { buffer_bytes: tributary_core::ByteCount(65_000), ..EndConfig::default() };
        let mut receiver = Receiver::new(config, 1, &[1; 32]);
        let mut now = Time::from_millis(1_000);
        let bring = |receiver: &mut Receiver, now, source| {
            let (first, data, head) = chunks_of(source, 2);
            receiver.handle_data(now, &first, &head);
            data.iter().for_each(|(header, payload)| receiver.handle_data(now, header, payload));
        };
        let held = |receiver: &Receiver| {
            receiver.early.iter().map(|((from, _), early)| (from.0[0], early.chunks.len())).collect::<Vec<_>>()
        };
        (1..=3).for_each(|source| bring(&mut receiver, now + Duration::from_millis(u64::from(source)), source));
        assert_eq!(held(&receiver), [(1, 3), (2, 3), (3, 3)]);
        bring(&mut receiver, now, 4);
        assert_eq!(held(&receiver), [(1, 3), (2, 3), (3, 3), (4, 1)], "the rest of the others may be on its way");
        now += Duration::from_secs(86_400);
        assert_eq!(held(&receiver).len(), 4, "a day later");
        bring(&mut receiver, now, 4);
        assert_eq!(held(&receiver), [(2, 3), (3, 3), (4, 3)], "the oldest makes room");
        receiver.accept(Some(Box::new(MemoryOpener::new())));
        receiver.take_early(now);
        assert!(receiver.fetches.iter().all(|(_, fetch)| fetch.ended.is_some() && fetch.failure.is_none()));
        assert_eq!(receiver.fetches.iter().count(), 3);
    }

    #[test]
    fn copies_of_what_was_pushed_are_known_and_memory_of_them_is_bounded() {
        let (source, key) = (Guid([2; 20]), SigningKey::from_secret(&[7; 32]));
        let mut receiver = Receiver::new(EndConfig::default(), 1, &[1; 32]);
        receiver.accept(Some(Box::new(MemoryOpener::new())));
        let options = SendOptions::new(&EndConfig::default());
        let (count, mut last) = (PUSHED_KEPT + 100, Vec::new());
        for number in 0..count {
            let name = alloc::format!("/lab/reading/{number}").parse().expect("a name");
            let object = MemoryObject::new(name, Bytes::from_static(b"21.5"), &key).expect("fits");
            let id = object.manifest().object_id();
            let mut sender = Sender::new(source, EndConfig::default(), number as u32, &[2; 32]);
            sender.lend(Box::new(object));
            sender.push(Time::ZERO, id, Guid([1; 20]), Vec::new(), options);
            let no_cache = ContentCache::new(tributary_core::ByteCount(0));
            last = core::iter::from_fn(|| sender.poll_chunk(Time::ZERO, &no_cache, |_, _| true)).collect();
            last.iter().for_each(|(header, payload)| receiver.handle_data(Time::ZERO, header, payload));
        }
        last.iter().for_each(|(header, payload)| receiver.handle_data(Time::ZERO, header, payload));
        let done = core::iter::from_fn(|| receiver.poll_event());
        let done = done.filter(|(_, event)| matches!(event, TransferEvent::Completed));
        assert_eq!(done.count(), count, "each once");
        assert_eq!(receiver.pushed.len(), PUSHED_KEPT);
    }

    #[test]
    fn who_missed_the_answer_is_told_again_when_many_others_have_come_meanwhile() {
        let mut receiver = Receiver::new(EndConfig::default(), 1, &[1; 32]);
        receiver.accept(Some(Box::new(MemoryOpener::new())));
        let now = Time::from_millis(1_000);
        let custodian = Custodian { guid: Guid([8; 20]), address: NetworkAddress(3) };
        let bring = |receiver: &mut Receiver, source: u32, custodian: Option<Custodian>| {
            let (first, data, head) = chunks_of((source % 200) as u8, 1);
            let chunks = core::iter::once((first, head)).chain(data);
            for (mut header, payload) in chunks {
                let ChunkKind::Data(tag) = &mut header.kind else { continue };
                (tag.transfer, header.custodian) = (PUSHED | source, custodian);
                receiver.handle_data(now, &header, &payload);
            }
        };
        (0..=ENDED_MAX as u32 + 1).for_each(|number| bring(&mut receiver, number, None));
        assert!(receiver.fetches.iter().count() <= ENDED_MAX + 1, "{}", receiver.fetches.iter().count());
        while receiver.poll_message().is_some() || receiver.poll_answer().is_some() {}
        bring(&mut receiver, 0, Some(custodian));
        let is_complete = |message: &Outgoing| matches!(message.message, TransportMessage::Ack { complete: true, .. });
        assert!(receiver.poll_message().is_some_and(|message| is_complete(&message)), "its source");
        assert_eq!(receiver.poll_answer().map(|answer| answer.state), Some(CustodyState::Over), "and its custodian");
        assert_eq!(receiver.strays, 0);
    }

    /// A store that answers later, and has room for one chunk.
    struct FillsUp {
        inner: Box<dyn ChunkStore>,
        begun: VecDeque<StoreTask>,
        has_room: bool,
    }
    impl ChunkStore for FillsUp {
        fn begin(&mut self, task: StoreTask) -> Result<Option<StoreAnswer>, StoreError> {
            self.begun.push_back(task);
            Ok(None)
        }
        fn poll_answer(&mut self) -> Result<Option<StoreAnswer>, StoreError> {
            let Some(task) = self.begun.pop_front() else { return Ok(None) };
            if matches!(task, StoreTask::Chunk(..)) && !core::mem::take(&mut self.has_room) {
                let (path, reason) = ("/inbox".into(), "no space left".into());
                return Err(StoreError::Io { operation: "write to", path, reason });
            }
            self.inner.begin(task)
        }
        fn held(&self) -> &tributary_content::Bitmap {
            self.inner.held()
        }
        fn put_chunk(&mut self, index: tributary_content::ChunkIndex, bytes: &[u8]) -> Result<(), StoreError> {
            self.inner.put_chunk(index, bytes)
        }
        fn finish(&mut self) -> Result<(), StoreError> {
            self.inner.finish()
        }
    }
    struct FillsUpOpener(MemoryOpener);
    impl StoreOpener for FillsUpOpener {
        fn trusts(&self, manifest: &Manifest) -> Result<(), StoreError> {
            self.0.trusts(manifest)
        }
        fn resumes(&self, manifest: &Manifest) -> bool {
            self.0.resumes(manifest)
        }
        fn open(&mut self, manifest: &Manifest) -> Result<Box<dyn ChunkStore>, StoreError> {
            Ok(Box::new(FillsUp { inner: self.0.open(manifest)?, begun: VecDeque::new(), has_room: true }))
        }
    }

    #[test]
    fn chunks_that_were_stored_before_the_disk_was_full_are_told() {
        let mut receiver = Receiver::new(EndConfig::default(), 1, &[1; 32]);
        receiver.accept(Some(Box::new(FillsUpOpener(MemoryOpener::new()))));
        let (first, data, head) = chunks_of(1, 3);
        receiver.handle_data(NOW, &first, &head);
        data.iter().for_each(|(header, payload)| receiver.handle_data(NOW, header, payload));
        let id = receiver.transfers()[0].0;
        while receiver.report(NOW, id).is_some_and(|report| report.ended.is_none()) {
            receiver.handle_storage(NOW);
        }
        let stored = receiver.report(NOW, id).expect("it is known").stored_bytes;
        let told = core::iter::from_fn(|| receiver.poll_event());
        let told = told.filter(|(_, event)| matches!(event, TransferEvent::ChunkStored { .. })).count();
        assert_eq!((stored, told), (10_000, 1));
    }

    #[test]
    fn a_token_that_was_damaged_on_its_way_is_replaced_by_what_comes_after_nacks_in_vain() {
        let (source, key) = (Guid([2; 20]), SigningKey::from_secret(&[7; 32]));
        let mut receiver = Receiver::new(EndConfig::default(), 1, &[1; 32]);
        receiver.accept(Some(Box::new(MemoryOpener::new())));
        receiver.set_attached(Time::ZERO, true);
        let object = MemoryObject::new("/lab/reading".parse().expect("a name"), Bytes::from_static(b"21.5"), &key);
        let object = object.expect("fits");
        let id = object.manifest().object_id();
        let mut sender = Sender::new(source, EndConfig::default(), 1, &[2; 32]);
        sender.lend(Box::new(object));
        sender.push(Time::ZERO, id, Guid([1; 20]), Vec::new(), SendOptions::new(&EndConfig::default()));
        let no_cache = ContentCache::new(tributary_core::ByteCount(0));
        let (header, payload) = sender.poll_chunk(Time::ZERO, &no_cache, |_, _| true).expect("the first chunk");
        let token = header.token().expect("it has one");
        let mut damaged = header.clone();
        if let ChunkKind::Data(tag) = &mut damaged.kind {
            tag.token.0 ^= 1 << 38;
        }
        receiver.handle_data(Time::ZERO, &damaged, &payload);
        let (mut now, mut right) = (Time::ZERO, Vec::new());
        while now < Time::from_millis(60_000) {
            now += Duration::from_millis(100);
            receiver.handle_timeout(now);
            right.extend(core::iter::from_fn(|| receiver.poll_message()).map(|message| message.token == token));
            // Whoever sends hears nothing, and reminds it.
            receiver.handle_data(now, &header, &payload);
        }
        assert_eq!(right[..3], [false, false, true], "the second one in vain shows it: {right:?}");
        assert!(right[2..].iter().all(|is_right| *is_right));
    }

    /// Chunks from a cache, one of them wrong, wait for the hash list that a source sends.
    #[test]
    fn who_sends_the_hash_list_is_not_blamed_for_wrong_bytes_that_a_cache_sent_before() {
        let (own, source, cache) = (Guid([1; 20]), Guid([2; 20]), Guid([3; 20]));
        let (name, bytes) = ("/lab/file".parse::<Name>().expect("a name"), Bytes::from(alloc::vec![5; 4_000]));
        let kind = tributary_content::ObjectKind::File;
        let key = SigningKey::from_secret(&[7; 32]);
        let object = MemoryObject::with_options(name.clone(), bytes, &key, 1, kind, 1_024).expect("fits");
        let manifest = object.manifest().clone();
        let mut receiver = Receiver::new(EndConfig::default(), 1, &[1; 32]);
        let mut sender = Sender::new(source, EndConfig::default(), 0, &[2; 32]);
        sender.publish(Box::new(object));
        let mut now = Time::from_millis(1);
        let id = receiver.fetch(now, fetch_of(&name, MemoryOpener::new()), FetchOptions::default());
        receiver.set_attached(now, true);
        let device = Announcer { guid: source, label: "source".into() };
        receiver.handle_announcements(now, &name, &[(device, manifest)], Announced::All);
        let mut is_first = true;
        for _ in 0..100 {
            now += Duration::from_millis(500);
            receiver.handle_timeout(now);
            for message in core::iter::from_fn(|| receiver.poll_message()) {
                let kind = ChunkKind::Transport(message.token);
                let from = ChunkHeader::new(kind, own, source, NetworkAddress(1));
                sender.handle_request(now, &from, &message.message, None);
                sender.handle_message(now, &from, &message.message);
            }
            let no_cache = ContentCache::new(tributary_core::ByteCount(0));
            let mut sent: Vec<_> = core::iter::from_fn(|| sender.poll_chunk(now, &no_cache, |_, _| true)).collect();
            if core::mem::take(&mut is_first) {
                let head = sent.remove(0);
                let (header, payload) = &mut sent[0];
                (header.source, header.flags) = (cache, Flags::CACHED);
                *payload = alloc::vec![6; payload.len()].into_iter().collect::<Bytes>().into();
                sent.push(head);
            }
            sent.iter().for_each(|(header, payload)| receiver.handle_data(now, header, payload));
        }
        let report = receiver.report(now, id).expect("it is known");
        assert!(report.ended.is_some() && report.failure.is_none(), "{report:?}");
        let events: Vec<_> = core::iter::from_fn(|| receiver.poll_event()).map(|(_, event)| event).collect();
        let node = node_of(&cache);
        let is_cache =
            |event: &TransferEvent| matches!(event, TransferEvent::CacheDistrusted { node: of, .. } if *of == node);
        assert_eq!(events.iter().filter(|event| is_cache(event)).count(), 1, "{events:?}");
        assert_eq!(receiver.wrong, WrongBytes { caches: 1_024, ..WrongBytes::default() }, "the first unit alone");
    }

    /// Long after anything came.
    const NOW: Time = Time::from_millis(60_000);

    /// A fetch of four chunks whose source, [2; 20], is asked, and how.
    fn fetch() -> (Receiver, Sender, TransferId, Vec<Outgoing>) {
        let (source, key) = (Guid([2; 20]), SigningKey::from_secret(&[7; 32]));
        let name: Name = "/lab/file".parse().expect("a name");
        let object = MemoryObject::new(name.clone(), Bytes::from(alloc::vec![5; 4_000]), &key).expect("fits");
        let manifest = object.manifest().clone();
        let config = EndConfig { chunk_bytes: 1_024, ..EndConfig::default() };
        let mut receiver = Receiver::new(config.clone(), 1, &[1; 32]);
        let mut sender = Sender::new(source, config, 0, &[2; 32]);
        sender.publish(Box::new(object));
        let id = receiver.fetch(NOW, fetch_of(&name, MemoryOpener::new()), FetchOptions::default());
        receiver.set_attached(NOW, true);
        let device = Announcer { guid: source, label: "source".into() };
        receiver.handle_announcements(NOW, &name, &[(device, manifest)], Announced::All);
        let asked = core::iter::from_fn(|| receiver.poll_message()).collect();
        (receiver, sender, id, asked)
    }
    fn header_of(message: &Outgoing, from: Guid, token: Token) -> ChunkHeader {
        ChunkHeader::new(ChunkKind::Transport(token), from, message.to, NetworkAddress(1))
    }

    /// Of a unit of four chunks one has come when the source has to be asked anew.
    #[test]
    fn who_is_asked_again_sends_nothing_that_is_here_whole_units_or_not() {
        let (mut receiver, mut sender, id, asked) = fetch();
        let no_cache = ContentCache::new(tributary_core::ByteCount(0));
        let mut sent_for = |receiver: &mut Receiver, now, asked: &[Outgoing], delivered: &[u32]| -> Vec<u32> {
            for message in asked {
                let from = header_of(message, Guid([1; 20]), message.token);
                sender.handle_request(now, &from, &message.message, None);
            }
            let sent: Vec<_> = core::iter::from_fn(|| sender.poll_chunk(now, &no_cache, |_, _| true)).collect();
            let number = |header: &ChunkHeader| header.tag().expect("data").number;
            for (header, payload) in sent.iter().filter(|(header, _)| delivered.contains(&number(header))) {
                receiver.handle_data(now, header, payload);
            }
            sent.iter().map(|(header, _)| number(header)).collect()
        };
        assert_eq!(sent_for(&mut receiver, NOW, &asked, &[2]), [1, 2, 3, 4]);
        let mut now = NOW;
        let again = loop {
            now += Duration::from_secs(1);
            receiver.handle_timeout(now);
            let is_request = |message: &Outgoing| matches!(message.message, TransportMessage::Request { .. });
            let asked: Vec<_> = core::iter::from_fn(|| receiver.poll_message()).filter(is_request).collect();
            if !asked.is_empty() {
                break sent_for(&mut receiver, now, &asked, &[1, 3, 4]);
            }
        };
        assert_eq!(again, [1, 3, 4]);
        assert!(receiver.report(now, id).is_some_and(|report| report.ended.is_some() && report.failure.is_none()));
    }

    #[test]
    fn the_answer_to_a_request_that_was_repeated_tells_no_round_trip() {
        for repeats in [0, 1] {
            let (mut receiver, mut sender, id, mut asked) = fetch();
            let mut now = NOW;
            for _ in 0..repeats {
                now += EndConfig::default().nack_timeout;
                receiver.handle_timeout(now);
                asked.extend(core::iter::from_fn(|| receiver.poll_message()));
            }
            assert_eq!(asked.len(), repeats + 1);
            let from = header_of(&asked[0], Guid([1; 20]), asked[0].token);
            sender.handle_request(now, &from, &asked[0].message, None);
            let no_cache = ContentCache::new(tributary_core::ByteCount(0));
            let (header, _) = sender.poll_chunk(now, &no_cache, |_, _| true).expect("it was asked for");
            let arrival = Arrival { begun: now + Duration::from_millis(40), late: 1, is_resumed: false };
            receiver.on_arrival(&header, 9, &arrival);
            let path = receiver.report(now, id).expect("it is known").paths.remove(0);
            assert_eq!(path.rtt, (repeats == 0).then_some(Duration::from_millis(40)));
            assert_eq!((path.requested_packets, path.lost_packets), (10, 1));
        }
    }

    #[test]
    fn chunks_without_the_token_of_the_fetch_are_of_no_transfer() {
        let (mut receiver, mut sender, id, asked) = fetch();
        let from = header_of(&asked[0], Guid([1; 20]), asked[0].token);
        sender.handle_request(NOW, &from, &asked[0].message, None);
        let no_cache = ContentCache::new(tributary_core::ByteCount(0));
        let sent: Vec<_> = core::iter::from_fn(|| sender.poll_chunk(NOW, &no_cache, |_, _| true)).collect();
        let stored = |receiver: &Receiver| receiver.report(NOW, id).expect("it is known").stored_bytes;
        for (header, payload) in &sent {
            let mut forged = header.clone();
            if let ChunkKind::Data(tag) = &mut forged.kind {
                tag.token.0 ^= 1;
            }
            // With wrong bytes somebody would be blamed for them.
            let wrong: Payload = Bytes::from(alloc::vec![6; payload.len()]).into();
            receiver.handle_data(NOW, &forged, &wrong);
            receiver.handle_data(NOW, &forged, payload);
        }
        assert_eq!(
            (stored(&receiver), receiver.strays),
            (0, 2 * sent.len() as u64),
            "asked for, it is known by its own"
        );
        sent.iter().for_each(|(header, payload)| receiver.handle_data(NOW, header, payload));
        assert_eq!(stored(&receiver), 4_000);
        let events: Vec<_> = core::iter::from_fn(|| receiver.poll_event()).map(|(_, event)| event).collect();
        assert!(!events.iter().any(|event| matches!(event, TransferEvent::SourceDistrusted { .. })), "{events:?}");
    }

    #[test]
    fn only_who_was_asked_says_that_it_cannot_read_it_and_that_ends_what_has_no_other_source() {
        let (source, stranger) = (Guid([2; 20]), Guid([3; 20]));
        for (from, flip, ends) in [(source, 1, false), (stranger, 0, false), (source, 0, true)] {
            let (mut receiver, _, id, asked) = fetch();
            let TransportMessage::Request { transfer, object, .. } = asked[0].message else { panic!("{asked:?}") };
            let header = header_of(&asked[0], from, Token(asked[0].token.0 ^ flip));
            let why = Unavailable::Changed;
            receiver.handle_message(NOW, &header, &TransportMessage::Unreadable { transfer, object, why });
            let report = receiver.report(NOW, id).expect("it is known");
            assert_eq!(report.failure.is_some_and(|reason| reason.contains("changed at the source")), ends);
        }
    }

    #[test]
    fn only_who_was_asked_says_that_it_does_not_have_it() {
        let (source, stranger) = (Guid([2; 20]), Guid([3; 20]));
        for (from, flip, heard) in [(source, 1, false), (stranger, 0, false), (source, 0, true)] {
            let (mut receiver, _, id, asked) = fetch();
            let TransportMessage::Request { transfer, object, .. } = asked[0].message else { panic!("{asked:?}") };
            let header = header_of(&asked[0], from, Token(asked[0].token.0 ^ flip));
            let now = NOW + Duration::from_millis(10);
            receiver.handle_message(now, &header, &TransportMessage::Unavailable { transfer, object });
            // It is asked again sooner than after a silence.
            receiver.handle_timeout(now + EndConfig::default().nack_timeout / 2);
            let again = core::iter::from_fn(|| receiver.poll_message()).count();
            assert_eq!(again > 0, heard, "{from:?} {flip}");
            assert!(receiver.report(now, id).is_some_and(|report| report.ended.is_none()));
        }
    }
}
