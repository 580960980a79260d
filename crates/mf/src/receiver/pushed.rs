//! Objects pushed to this node: running ones, earlier ones, and chunks of objects that no acceptor has taken yet.
use super::*;

/// Pushed objects received at the same time, at most: other sources are refused for now, and wait.
const RECEIVING_MAX: usize = 256;
/// Finished pushed objects that are remembered to recognise copies, at most.
pub(super) const REMEMBERED_MAX: usize = 4_096;
/// Chunks of a pushed object that are kept before its manifest or an acceptor arrives.
const EARLY_MAX: usize = 64;
/// At the limit an object without arrivals for this long is dropped in favour of others.
const EARLY_PATIENCE: Duration = Duration::from_secs(60);

/// A pushed transfer: its source, and the number that this gave it.
pub(super) type PushKey = (Guid, u32);

/// The state of pushed objects.
#[derive(Default)]
pub(super) struct Pushed {
    /// Decides whether and where pushed objects are stored; without it all are refused.
    pub(super) acceptor: Option<Box<dyn StoreOpener>>,
    transfers: BTreeMap<PushKey, TransferId>,
    /// The keys of `transfers`, the oldest first.
    since: VecDeque<PushKey>,
    /// The results of forgotten fetches in `transfers`: a source that missed the answer sends again.
    settled: BTreeMap<PushKey, Settled>,
    /// Chunks of objects whose manifest has not arrived, or that no acceptor has taken yet.
    early: BTreeMap<PushKey, Early>,
}

/// What became of a pushed object.
struct Settled {
    object: ObjectId,
    token: Token,
    has_all: bool,
}

/// Chunks of a pushed object that is not being received yet.
struct Early {
    chunks: Vec<(ChunkHeader, Bytes)>,
    heard_at: Time,
}

impl Early {
    fn bytes(&self) -> u64 {
        self.chunks.iter().map(|(_, payload)| payload.len() as u64).sum()
    }
    fn has(&self, number: u32) -> bool {
        self.chunks.iter().any(|(header, _)| header.tag().is_some_and(|tag| tag.number == number))
    }
}

impl Pushed {
    /// The transfer by which it is received, or was.
    pub(super) fn transfer(&self, key: &PushKey) -> Option<TransferId> {
        self.transfers.get(key).copied()
    }
    /// Whether the object of a forgotten fetch was completed; `None` if unknown.
    pub(super) fn has_settled(&self, key: &PushKey, tag: &DataTag) -> Option<bool> {
        let settled = self.settled.get(key)?;
        ((settled.object, settled.token) == (tag.object, tag.token)).then_some(settled.has_all)
    }
    /// A fetch is forgotten; a pushed object's result outlives it.
    pub(super) fn on_forgotten(&mut self, id: TransferId, fetch: &Incoming) {
        let (Some(object), Some(source)) = (fetch.object, fetch.sources.first()) else { return };
        let key = (source.state.guid, fetch.transfer);
        if self.transfers.get(&key) == Some(&id) {
            let settled = Settled { object, token: fetch.token, has_all: fetch.record.is_completed() };
            self.settled.insert(key, settled);
        }
    }
    /// Forgets a transfer, which may then start again.
    pub(super) fn forget(&mut self, id: TransferId) {
        self.transfers.retain(|_, known| *known != id);
    }
    /// Takes the chunks that arrived earlier.
    pub(super) fn take_early(&mut self, key: &PushKey) -> Vec<(ChunkHeader, Bytes)> {
        self.early.remove(key).map(|early| early.chunks).unwrap_or_default()
    }
    fn early_bytes(&self) -> u64 {
        self.early.values().map(Early::bytes).sum()
    }
    /// Drops the untaken object with the longest silence in favour of another one; false if every object may still
    /// receive chunks.
    fn forget_early(&mut self, now: Time, other: PushKey) -> bool {
        let idle = |(key, early): &(&PushKey, &Early)| **key != other && now.since(early.heard_at) >= EARLY_PATIENCE;
        let oldest = self.early.iter().filter(idle).min_by_key(|(_, early)| early.heard_at).map(|(key, _)| *key);
        oldest.and_then(|key| self.early.remove(&key)).is_some()
    }
}

impl Receiver {
    /// Accepts pushed objects that `acceptor` trusts from now on, or none without one. Earlier chunks wait for
    /// [`Receiver::take_early`].
    pub fn accept(&mut self, acceptor: Option<Box<dyn StoreOpener>>) {
        self.pushed.acceptor = acceptor;
    }
    /// Whether to refuse an arriving chunk, because its object does not fit for now, or because the chunk is already
    /// kept until an acceptor takes the object. Its custodian is notified and need not send the rest.
    pub fn turns_away(&mut self, header: &ChunkHeader) -> bool {
        let tag = header.tag().filter(|tag| is_pushed(tag.transfer) && header.custodian.is_some());
        let Some(tag) = tag.filter(|tag| self.pushed.transfer(&(header.source, tag.transfer)).is_none()) else {
            return false;
        };
        match self.pushed.early.get(&(header.source, tag.transfer)) {
            Some(early) if self.pushed.acceptor.is_none() && early.has(tag.number) => {
                self.answers.outbox.extend(Answer::to(header, CustodyState::Refused));
                true
            }
            Some(_) => false,
            None if self.receiving() >= RECEIVING_MAX => {
                self.refuse(header, tag);
                true
            }
            None => false,
        }
    }
    /// Pushed objects in progress.
    fn receiving(&self) -> usize {
        self.fetches.running().filter(|(_, fetch)| is_pushed(fetch.transfer)).count() + self.pushed.early.len()
    }
    /// Takes the first chunks of a pushed object.
    pub(super) fn on_pushed(&mut self, now: Time, header: &ChunkHeader, tag: &DataTag, payload: &Payload) {
        let key = (header.source, tag.transfer);
        let is_full = !self.pushed.early.contains_key(&key) && self.receiving() >= RECEIVING_MAX;
        if is_full && !self.pushed.forget_early(now, key) {
            return self.refuse(header, tag);
        }
        // A returning device receives its stored messages before any acceptor takes them: they are kept, and their
        // custodians wait.
        if self.pushed.acceptor.is_none() {
            self.answers.outbox.extend(Answer::to(header, CustodyState::Refused));
        }
        if tag.number != 0 || self.pushed.acceptor.is_none() {
            return self.keep_early(now, key, header, payload);
        }
        let manifest = manifest_of(&payload.to_bytes()).filter(|manifest| manifest.publication_id() == tag.object);
        let Some((manifest, acceptor)) = manifest.zip(self.pushed.acceptor.as_mut()) else {
            self.strays += 1;
            self.pushed.early.remove(&key);
            return self.answers.on_unsolicited(header);
        };
        let (name, size) = (manifest.name.clone(), manifest.size);
        let delivery = [&header.source.0[..], &tag.transfer.to_be_bytes()].concat();
        let trusted = object_choice::trusts(&**acceptor, &manifest);
        match trusted.and_then(|()| Reassembly::sent(manifest, &mut **acceptor, &delivery)) {
            // Its custodian continues to keep it.
            Err(StoreError::Later { .. }) => self.refuse(header, tag),
            Err(error) => {
                let id = self.begin_pushed(now, header, tag, name, size, None);
                self.pushed.early.remove(&key);
                self.fail(now, id, error.to_string());
            }
            Ok(reassembly) => {
                let is_open = reassembly.writer.is_open();
                let id = self.begin_pushed(now, header, tag, name, size, Some(reassembly));
                let before = self.pushed.take_early(&key);
                if is_open {
                    self.on_open(now, id);
                }
                self.handle_data(now, header, payload);
                before.into_iter().for_each(|(header, payload)| self.handle_data(now, &header, &payload.into()));
            }
        }
    }
    fn begin_pushed(
        &mut self,
        now: Time,
        header: &ChunkHeader,
        tag: &DataTag,
        name: Name,
        size: u64,
        reassembly: Option<Reassembly>,
    ) -> TransferId {
        let id = self.fetches.number();
        let mut incoming =
            Incoming::new(now, name, (tag.transfer, tag.token), tag.reliability, self.config.window_chunks);
        (incoming.object, incoming.reassembly) = (Some(tag.object), reassembly);
        // The source sends all of it: only the windows enforce the limits.
        incoming.credit.ungranted = size;
        let guid = header.source;
        let _ = incoming.sources.add(node_of(&guid), &guid.to_string(), Peer::new(guid));
        self.insert(id, incoming);
        self.remember_pushed((guid, tag.transfer), id);
        id
    }
    fn remember_pushed(&mut self, key: PushKey, id: TransferId) {
        let pushed = &mut self.pushed;
        pushed.transfers.insert(key, id);
        pushed.since.push_back(key);
        while pushed.since.len() > REMEMBERED_MAX
            && let Some(oldest) = pushed.since.pop_front()
        {
            let id = pushed.transfers.get(&oldest).copied();
            if id.and_then(|id| self.fetches.get(id)).is_some_and(Incoming::is_pushed_here) {
                pushed.since.push_back(oldest);
            } else {
                pushed.transfers.remove(&oldest);
                pushed.settled.remove(&oldest);
            }
        }
    }
    /// Keeps a chunk of an object that is not being received yet.
    pub(super) fn keep_early(&mut self, now: Time, key: PushKey, header: &ChunkHeader, payload: &Payload) {
        let Some(tag) = header.tag() else { return };
        while self.pushed.early_bytes() + payload.len() as u64 > self.config.buffer_bytes.0 {
            if !self.pushed.forget_early(now, key) {
                return self.refuse(header, tag);
            }
        }
        let early = self.pushed.early.entry(key).or_insert_with(|| Early { chunks: Vec::new(), heard_at: now });
        early.heard_at = now;
        // A repeated chunk replaces the earlier copy.
        early.chunks.retain(|(known, _)| known.tag().map(|known| known.number) != Some(tag.number));
        if early.chunks.len() < EARLY_MAX {
            early.chunks.push((header.clone(), payload.to_bytes()));
        } else {
            self.refuse(header, tag);
        }
    }
    /// Starts the objects that arrived before the acceptor.
    pub fn take_early(&mut self, now: Time) {
        if self.pushed.acceptor.is_none() {
            return;
        }
        self.answers.on_room();
        let is_first = |(header, _): &(ChunkHeader, Bytes)| header.tag().is_some_and(|tag| tag.number == 0);
        let firsts = self.pushed.early.values_mut().filter_map(|early| {
            let at = early.chunks.iter().position(is_first)?;
            Some(early.chunks.remove(at))
        });
        for (header, payload) in firsts.collect::<Vec<_>>() {
            self.handle_data(now, &header, &payload.into());
        }
    }
    #[cfg(test)]
    pub(super) fn early_chunks(&self) -> Vec<(u8, usize)> {
        self.pushed.early.iter().map(|((from, _), early)| (from.0[0], early.chunks.len())).collect()
    }
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.pushed.transfers.len()
    }
}
