//! The chunks in the store, and their places in its indexes.
use super::*;
use crate::reassembly::manifest_of;

/// Bytes that a transfer sends before it is another one's turn: the largest usual chunk.
pub(super) const TURN_BYTES: u64 = 1 << 20;

/// A chunk in the store.
#[derive(Clone, Debug)]
pub struct Holding {
    /// Its header.
    pub header: ChunkHeader,
    /// The chunk, its source and destination.
    pub key: ChunkKey,
    /// Its length.
    pub bytes: u64,
    /// Since when.
    pub since: Time,
    /// Its deadline.
    pub until: Time,
    /// Whether the router's operator wants it kept beyond that.
    pub on_hold: bool,
    /// Why it is stored.
    pub reason: StoreReason,
    /// Whether it is a copy that is kept to answer for its producer.
    pub delegated: bool,
    /// Whether it must be forwarded. A delegated copy need not: the chunk itself may have been.
    pub owed: bool,
    /// Where it is.
    pub place: Place,
    /// Whether it was refused or lost, and is tried again later.
    pub rests: bool,
    /// How often it was sent.
    pub(super) sends: u32,
    /// Whether it outlives a kill: a commit was done since it was put.
    pub durable: bool,
    /// The pause before it is sent to its receiver again. A receiver that does not know the object cannot request it.
    pub(super) remind_after: Option<Duration>,
    /// The name of its object, if this is the description.
    pub(super) name: Option<String>,
}

impl Holding {
    /// Whether this is the token of its transfer.
    pub(super) fn has(&self, token: Token) -> bool {
        self.header.token() == Some(token)
    }
}

/// The position of a waiting chunk: object, transfer, number, and its number in the store.
pub(super) type Waiting = (ObjectId, u32, u32, u64);

/// A device with stored chunks.
pub(super) struct Destination {
    /// Waiting chunks in the order in which a transfer's chunks leave; transfers take turns.
    pub(super) waiting: BTreeSet<Waiting>,
    pub(super) turn: Turn,
    /// Waiting chunks that were stored because of routes or queues.
    pub(super) by_ways: u32,
    /// Chunks stored for it.
    pub(super) chunks: u32,
    pub(super) bytes: u64,
    pub(super) watched: bool,
    pub(super) window: Window,
}

/// The transfer to a destination that is served, until it has sent [`TURN_BYTES`]: deficit round robin (Shreedhar and
/// Varghese, 1996), so that a small object does not wait for all of a large one.
#[derive(Default)]
pub(super) struct Turn {
    pub(super) transfer: Option<(ObjectId, u32)>,
    pub(super) left: u64,
}

impl Turn {
    /// Where the search for the next chunk starts; earlier chunks come last.
    pub(super) fn begin(&self) -> Waiting {
        match self.transfer {
            Some((object, transfer)) if self.left > 0 => (object, transfer, 0, 0),
            Some((object, transfer)) => (object, transfer, u32::MAX, u64::MAX),
            None => (ObjectId([0; 16]), 0, 0, 0),
        }
    }
    pub(super) fn on_release(&mut self, chunk: &Waiting, bytes: u64) {
        let transfer = Some((chunk.0, chunk.1));
        if self.transfer != transfer || self.left == 0 {
            *self = Turn { transfer, left: TURN_BYTES };
        }
        self.left = self.left.saturating_sub(bytes);
    }
}

impl Proxy {
    #[expect(clippy::too_many_arguments, reason = "the fields of one entry")]
    pub(super) fn add(
        &mut self,
        (now, until): (Time, Time),
        id: u64,
        header: ChunkHeader,
        key: ChunkKey,
        payload_bytes: u64,
        reason: StoreReason,
        delegated: bool,
    ) {
        let bytes = payload_bytes + CHUNK_OVERHEAD_BYTES;
        self.clock += 1;
        let used_at = self.clock;
        self.change_flow(key.flow, |flow| {
            flow.bytes += bytes;
            flow.used_at = used_at;
            flow.delegated += u32::from(delegated);
            flow.chunks.insert((header.priority, core::cmp::Reverse(id)));
        });
        self.change_source(key.flow.source, |source| {
            source.bytes += bytes;
            source.used_at = used_at;
        });
        self.used += bytes;
        self.deadlines.insert((until, id));
        self.keys.insert(key, id);
        if !self.destinations.contains_key(&key.flow.destination) {
            self.timers.set(key.flow.destination, now + self.config.timer);
        }
        let config = &self.config;
        let destination = self.destinations.entry(key.flow.destination).or_insert_with(|| Destination {
            waiting: BTreeSet::new(),
            turn: Turn::default(),
            by_ways: 0,
            chunks: 0,
            bytes: 0,
            watched: false,
            window: Window::new(config),
        });
        destination.chunks += 1;
        destination.bytes += bytes;
        if header.service != ServiceId::Multicast {
            self.unrecognised.iter_mut().for_each(|unrecognised| _ = unrecognised.insert(key.flow.destination));
        }
        let (place, rests, sends, durable, owed) = (Place::Here, false, 0, false, false);
        let is_pushed_to_one = is_pushed(key.transfer) && !header.is_for_group();
        let stored = Holding {
            header,
            key,
            bytes,
            since: now,
            until,
            on_hold: false,
            reason,
            delegated,
            owed,
            place,
            rests,
            sends,
            durable,
            remind_after: None,
            name: None,
        };
        self.chunks.insert(id, stored);
        if !delegated {
            self.take_back(id, reason);
        } else if key.number == 0 && is_pushed_to_one {
            self.remind_after(now, id, REMIND);
        }
    }
    /// Remembers the name of an object whose manifest this chunk is.
    pub(super) fn note_name(&mut self, id: u64, head: &[u8]) {
        let name = manifest_of(head).map(|manifest| manifest.name.to_string());
        self.chunks.entry(id).and_modify(|stored| stored.name = name);
    }
    /// Sets when a delegated manifest is sent to its receiver again.
    pub(super) fn remind_after(&mut self, now: Time, id: u64, after: Duration) {
        let Some(stored) = self.chunks.get_mut(&id).filter(|stored| stored.delegated) else { return };
        stored.remind_after = Some(after);
        self.reminders.set(id, now + after);
    }
    /// A chunk must be forwarded: it waits for that.
    pub(super) fn take_back(&mut self, id: u64, reason: StoreReason) {
        self.leave_rest(id);
        self.leave_transit(id);
        self.unwait(id);
        // An outbox sends chunks through its access router, regardless of their destinations' addresses.
        let reason = if self.unrecognised.is_some() { StoreReason::NoRoute } else { reason };
        let Some(stored) = self.chunks.get_mut(&id) else { return };
        (stored.owed, stored.reason) = (true, reason);
        let key = stored.key;
        let Some(destination) = self.destinations.get_mut(&key.flow.destination) else { return };
        destination.waiting.insert((key.object, key.transfer, key.number, id));
        if reason != StoreReason::Away {
            destination.by_ways += 1;
            self.by_ways.insert(key.flow.destination);
            self.ready.insert(key.flow.destination);
        }
        if self.config.rebinding == Rebinding::Watch && !destination.watched {
            destination.watched = true;
            self.watches.push_back((key.flow.destination, true));
        }
    }
    /// A chunk no longer waits.
    pub(super) fn unwait(&mut self, id: u64) {
        let Some(stored) = self.chunks.get(&id) else { return };
        let key = stored.key;
        let Some(destination) = self.destinations.get_mut(&key.flow.destination) else { return };
        if destination.waiting.remove(&(key.object, key.transfer, key.number, id)) && stored.reason != StoreReason::Away
        {
            destination.by_ways -= 1;
            if destination.by_ways == 0 {
                self.by_ways.remove(&key.flow.destination);
            }
        }
    }
    pub(super) fn drop_stored(&mut self, now: Time, id: u64) {
        if let Some(stored) = self.chunks.get(&id) {
            let (key, source, owed) = (stored.key, Source::of(&stored.header), stored.owed);
            if owed {
                self.report(now, key, source, false);
            }
        }
        self.remove(id);
    }
    pub(super) fn remove(&mut self, id: u64) {
        self.leave_rest(id);
        self.leave_transit(id);
        self.unwait(id);
        let Some(stored) = self.chunks.remove(&id) else { return };
        if let Err(error) = self.repository.remove(id) {
            self.failure = Some(error);
        }
        self.dirty = true;
        let key = stored.key;
        self.keys.remove(&key);
        self.used -= stored.bytes;
        self.untold.remove(&id);
        self.deadlines.remove(&(stored.until, id));
        self.forget_term(id);
        self.reminders.stop(&id);
        self.change_flow(key.flow, |flow| {
            flow.bytes -= stored.bytes;
            flow.delegated -= u32::from(stored.delegated);
            flow.chunks.remove(&(stored.header.priority, core::cmp::Reverse(id)));
        });
        self.change_source(key.flow.source, |source| source.bytes -= stored.bytes);
        if let Some(destination) = self.destinations.get_mut(&key.flow.destination) {
            destination.chunks -= 1;
            destination.bytes -= stored.bytes;
            if destination.chunks == 0 {
                if destination.watched {
                    self.watches.push_back((key.flow.destination, false));
                }
                self.timers.stop(&key.flow.destination);
                self.transits.holds.stop(&key.flow.destination);
                self.destinations.remove(&key.flow.destination);
                self.ready.remove(&key.flow.destination);
            }
        }
    }
    /// Removes the chunks of a failed commit: repeated ones would be acknowledged, and lost by a kill.
    pub(super) fn forget_unless_durable(&mut self, keys: Vec<ChunkKey>) {
        for id in keys.iter().filter_map(|key| self.keys.get(key).copied()).collect::<Vec<_>>() {
            if self.chunks.get(&id).is_some_and(|stored| !stored.durable) {
                self.remove(id);
            }
        }
    }
}
