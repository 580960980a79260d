//! One object in transfer to this node.
use super::{mirrors::Mirrors, *};

/// Unanswered NACKs after which the receiver adopts the token in the arriving chunks of a pushed object.
const VAIN_NACKS: u32 = 2;
/// The current rate is the mean over this time.
const RATE_TIME: Duration = Duration::from_secs(2);

/// One object in transfer to this node: requested by a fetch, or pushed by its source.
#[derive(Default)]
pub(super) struct Incoming {
    pub(super) name: Name,
    /// Decides on trust, and opens the store; a pushed object was decided on before.
    pub(super) opener: Option<Box<dyn StoreOpener>>,
    /// Options of this transfer, which override the node's settings.
    pub(super) options: GetOptions,
    /// The number of the transfer; for a pushed object the source's choice.
    pub(super) transfer: u32,
    /// The token of messages about the transfer.
    pub(super) token: Token,
    pub(super) reliability: Reliability,
    /// The object, once it is chosen.
    pub(super) object: Option<ObjectId>,
    /// Its GUID: the nearest holder answers.
    pub(super) content: Guid,
    /// Its store, until the end.
    pub(super) reassembly: Option<Reassembly>,
    /// Its size and the stored bytes at the end.
    final_sizes: (u64, u64),
    pub(super) sources: Sources<Peer>,
    /// Objections to sources while the object is not chosen: an object signed by another key may have the same bytes as
    /// the one chosen later.
    conflicts: BTreeMap<SourceId, TransferEvent>,
    /// Announcements that wait for others, and their deadline.
    pub(super) gathered: Option<(Time, Vec<(Announcer, Manifest)>)>,
    pub(super) record: Record,
    pub(super) patience: Patience,
    pub(super) credit: Credit,
    pub(super) windows: Windows,
    pub(super) nack: NackTimer,
    pub(super) missing: Missing,
    /// If readers want only a part: the chunks that are requested and missing.
    pub(super) requested_chunks: BTreeSet<u32>,
    pub(super) serving: Serving,
    pub(super) caches: Caches,
    /// Custodians that wait for their chunks to reach the disk.
    pub(super) custody: Custody,
    pub(super) arrivals: Arrivals,
    /// When the node last checked whether a slow reader has continued.
    pub(super) reader_checked_at: Time,
    /// Web servers that deliver parts of it.
    pub(super) mirrors: Option<Box<Mirrors>>,
}

/// The sources that were requested, and the one that sends.
#[derive(Default)]
pub(super) struct Serving {
    /// The source of the last request; `None` left the choice to the network (anycast).
    pub(super) requested: Option<Guid>,
    /// When that was, until its answer, and the number of repetitions.
    pub(super) requested_at: Option<(Time, u32)>,
    /// The sender and its address.
    pub(super) sender: Option<(Guid, NetworkAddress)>,
    /// Proxies on the way that may still answer requests for missing chunks (paper §3.5).
    pub(super) proxies: u8,
    /// Liveness probes since the sender was last heard.
    pub(super) probes: u32,
}

impl Serving {
    /// Records a request. If `sends`, the source already sends, so no chunk can be recognised as the answer.
    fn on_request(&mut self, now: Time, source: Option<Guid>, sends: bool) {
        self.requested = source;
        self.requested_at = (!sends).then(|| (now, self.requested_at.map_or(0, |(_, repeats)| repeats + 1)));
    }
    /// A chunk has arrived from a source that was not sending. Returns when it was requested, if the request was not
    /// repeated: after a repetition the answer is ambiguous (Karn).
    fn take_answer(&mut self, from: &Guid) -> Option<Time> {
        if self.requested.is_some_and(|requested| requested != *from) {
            return None;
        }
        let (at, repeats) = self.requested_at.take()?;
        (repeats == 0).then_some(at)
    }
    pub(super) fn is_sent_by(&self, guid: &Guid) -> bool {
        self.sender.is_some_and(|(sender, _)| sender == *guid)
    }
    /// A chunk of `guid` is late: another source was requested, and is sending.
    pub(super) fn is_late(&self, guid: &Guid) -> bool {
        self.sender.is_some_and(|(sender, _)| sender != *guid && self.requested == Some(sender))
    }
    /// Records the sender of a chunk; true if it is new.
    pub(super) fn on_chunk(&mut self, header: &ChunkHeader) -> bool {
        let is_new = !self.is_sent_by(&header.source);
        (self.sender, self.proxies) = (Some((header.source, header.source_address)), header.proxies_left);
        is_new
    }
}

/// Which copies of the object on the way are bypassed.
#[derive(Default)]
pub(super) struct Caches {
    /// Requests bypass caches and storage, because one of them sent corrupted bytes, or may have.
    pub(super) avoid: bool,
    /// The cache that answered last.
    pub(super) last: Option<Guid>,
    distrusted: BTreeSet<Guid>,
}

impl Caches {
    /// A cache sent corrupted bytes; true if it was not known as faulty. Chunks that it sent before requests bypassed
    /// it may still arrive.
    pub(super) fn distrust(&mut self, cache: Guid) -> bool {
        self.avoid = true;
        self.distrusted.insert(cache)
    }
}

/// The missing chunks that have arrived.
#[derive(Default)]
pub(super) struct Arrivals {
    /// When the last one was complete.
    pub(super) last_at: Time,
    started: Time,
    /// When the first packet of the current chunk arrived.
    pub(super) begun: Option<Time>,
    /// Recent chunks: first packet, last packet, bytes.
    recent: VecDeque<(Time, Time, u64)>,
}

impl Arrivals {
    fn new(now: Time) -> Arrivals {
        Arrivals { last_at: now, started: now, ..Arrivals::default() }
    }
    fn on_chunk(&mut self, now: Time, bytes: u64) {
        self.last_at = now;
        self.recent.push_back((self.begun.take().map_or(now, |begun| begun.min(now)), now, bytes));
        self.recent.retain(|(_, end, _)| now.since(*end) <= RATE_TIME);
    }
    /// The rate over the last [`RATE_TIME`]. A chunk's bytes count over the time of their arrival: counted at its end,
    /// a large chunk on a slow link would show a multiple of the link's rate.
    fn rate(&self, now: Time) -> Option<Rate> {
        let age = now.since(self.started).min(RATE_TIME);
        let bytes = self.recent.iter().map(|(begun, end, bytes)| {
            let (taken, before) = (end.since(*begun), now.since(*begun).saturating_sub(age));
            match (now.since(*end) < age, taken.saturating_sub(before)) {
                (false, _) => 0,
                (true, _) if before == Duration::ZERO => *bytes,
                (true, within) => (u128::from(*bytes) * within.as_nanos() / taken.as_nanos().max(1)) as u64,
            }
        });
        Rate::over(bytes.sum(), age)
    }
}

/// A source, with this family's state of it.
pub(super) type Source = sources::Source<Peer>;

/// The state of a source as a device of the network.
#[derive(Default)]
pub(super) struct Peer {
    pub(super) guid: Guid,
    pub(super) hops: u32,
    /// Consecutive repeated requests for corrupted chunks.
    pub(super) retries: u32,
    /// Corrupted bytes arrived in its name, and it may be faulty.
    pub(super) trial: Option<Trial>,
    /// It did not answer, or was reported as gone: until then others are requested first.
    pub(super) away_until: Time,
    /// From a request to the first packet of its answer: the last time and the shortest.
    pub(super) rtt: Option<(Duration, Duration)>,
    /// Packets of its chunks that arrived here, and how many were lost on the way.
    pub(super) packets: u64,
    pub(super) late_packets: u64,
    /// Its address if it may be sending and is reachable, as far as known.
    pub(super) serves: Option<NetworkAddress>,
}

/// The state of the store after announcements were considered.
pub(super) enum Opened {
    No,
    Yes,
    /// Its store is being opened on another thread.
    Begun,
    Failed(String),
}

impl Fetching for Incoming {
    fn name(&self) -> &Name {
        &self.name
    }
    fn is_ended(&self) -> bool {
        self.record.is_ended()
    }
    fn was_in_vain(&self) -> bool {
        self.record.was_in_vain()
    }
    fn set_limit(&mut self, now: Time, rate: Option<Rate>) {
        self.credit.limit.set_rate(now, rate);
    }
    fn report(&self, now: Time) -> TransferReport {
        let paths = self.sources.iter().map(|(id, source)| self.path_report(now, source, id)).collect();
        let mut report = self.record.report(self.sizes(), self.sources.reports(), paths);
        self.mirrors.iter().for_each(|mirrors| mirrors.report(now, &mut report));
        report
    }
}

impl Incoming {
    /// How long to wait for the next packet before missing chunks are reported: this fetch's choice, or the node's.
    pub(super) fn nack_timeout(&self, config: &EndConfig) -> Duration {
        self.options.nack_timeout.unwrap_or(config.nack_timeout)
    }
    pub(super) fn new(
        now: Time,
        name: Name,
        (transfer, token): (u32, Token),
        reliability: Reliability,
        window_chunks: u16,
    ) -> Incoming {
        Incoming {
            name,
            transfer,
            token,
            reliability,
            record: Record::new(now),
            patience: Patience::new(now, None),
            credit: Credit::new(window_chunks, None),
            nack: NackTimer::new(),
            arrivals: Arrivals::new(now),
            reader_checked_at: now,
            ..Incoming::default()
        }
    }
    /// Whether its source pushes it to this node.
    pub(super) fn is_pushed_here(&self) -> bool {
        is_pushed(self.transfer) && !self.record.is_ended()
    }
    /// Whether a chunk belongs to this transfer's object.
    pub(super) fn is_of(&self, tag: &DataTag) -> bool {
        self.object == Some(tag.object) && self.token == tag.token
    }
    /// Whether chunks with another token belong to the transfer. The first chunk of a pushed object carries its token;
    /// if that was damaged, the sender ignores every request that shows it.
    pub(super) fn takes_another_token(&self) -> bool {
        self.is_pushed_here() && self.nack.in_vain >= VAIN_NACKS
    }

    // Collects announcements before the choice of the object and its sources.

    /// Keeps announcements while others may follow; false if they can be decided on at once.
    pub(super) fn gather(&mut self, now: Time, found: &[(Announcer, Manifest)]) -> bool {
        let knows = self.opener.as_ref().is_none_or(|opener| opener.knows_publisher(&self.name));
        if knows || self.reassembly.is_some() {
            return false;
        }
        let (_, gathered) = self.gathered.get_or_insert_with(|| (now + GATHER_TIME, Vec::new()));
        let is_new = |(device, manifest): &&(Announcer, Manifest)| {
            !gathered.iter().any(|(other, known)| other.guid == device.guid && known == manifest)
        };
        let new: Vec<_> = found.iter().filter(is_new).cloned().collect();
        gathered.extend(new);
        true
    }
    /// Processes all announcements under the name: chooses the object if none is chosen, and judges each device by its
    /// best announcement.
    pub(super) fn consider(&mut self, found: &[(Announcer, Manifest)]) -> Opened {
        self.record.on_present();
        let Some(opener) = self.opener.as_ref() else { return Opened::No };
        let checked: Vec<(&Announcer, &Manifest, Result<(), Unfit>)> = found
            .iter()
            .map(|(device, manifest)| (device, manifest, object_choice::check(&**opener, &self.name, manifest)))
            .collect();
        let opened = if self.reassembly.is_none() { self.choose_object(&checked) } else { Opened::No };
        self.judge_sources(checked).map_or(opened, Opened::Failed)
    }
    fn choose_object(&mut self, checked: &[(&Announcer, &Manifest, Result<(), Unfit>)]) -> Opened {
        let Some(opener) = self.opener.as_mut() else { return Opened::No };
        let trusted = checked.iter().filter(|(.., check)| check.is_ok()).map(|(_, manifest, _)| *manifest);
        match object_choice::choose(&**opener, &self.name, trusted) {
            Choice::Nothing => Opened::No,
            Choice::Contested(reason) => Opened::Failed(reason),
            Choice::Object { manifest, advice, is_agreed } => {
                self.record.extend(advice.map(|text| TransferEvent::Advice { text }));
                if is_agreed {
                    opener.bind_no_key();
                }
                self.object = Some(manifest.object_id());
                self.content = Guid::of_content(&manifest.publisher, &manifest.name);
                match Reassembly::new(manifest, &mut **opener) {
                    Ok(reassembly) => {
                        let is_open = reassembly.writer.is_open();
                        self.reassembly = Some(reassembly);
                        if is_open { Opened::Yes } else { Opened::Begun }
                    }
                    Err(error) => Opened::Failed(error.to_string()),
                }
            }
        }
    }
    /// Judges the sources by the objects that they announce; returns why the fetch has to end, if another publisher has
    /// as much right to the name.
    fn judge_sources(&mut self, checked: Vec<(&Announcer, &Manifest, Result<(), Unfit>)>) -> Option<String> {
        let chosen = self.reassembly.as_ref().map(Reassembly::manifest);
        let is_chosen = chosen.is_some();
        let mut standings: BTreeMap<Guid, (&Announcer, Standing)> = BTreeMap::new();
        for (device, manifest, check) in checked {
            let standing = match (check, chosen) {
                (check, Some(chosen)) => object_choice::standing(manifest, check, chosen),
                (Err(unfit), None) => Standing::Faulty(unfit.to_string()),
                (Ok(()), None) => Standing::Wanted,
            };
            let known = standings.entry(device.guid).or_insert_with(|| (device, standing.clone()));
            known.1 = standing.max(known.1.clone());
        }
        for (guid, (device, standing)) in standings {
            let Some(source) = self.number_of(&guid).or_else(|| {
                let (source, added) = self.sources.add(node_of(&guid), &device.label, Peer::new(guid))?;
                self.record.push(added);
                Some(source)
            }) else {
                continue;
            };
            match standing {
                Standing::Wanted => {
                    self.sources.reopen(source);
                    self.conflicts.remove(&source);
                }
                Standing::Superseded(reason) => self.record.extend(self.sources.close(source, reason)),
                Standing::Contested(reason) => return Some(reason),
                Standing::Faulty(reason) => {
                    let distrusted = self.sources.distrust(source, Evidence::Offer, reason);
                    self.conflicts.extend(distrusted.into_iter().map(|event| (source, event)));
                }
            }
        }
        if is_chosen {
            self.report_conflicts();
        }
        None
    }
    /// Reports the objections to sources, now that no other object can be chosen.
    pub(super) fn report_conflicts(&mut self) {
        self.record.extend(core::mem::take(&mut self.conflicts).into_values());
    }
    /// The number of a source.
    pub(super) fn number_of(&self, guid: &Guid) -> Option<SourceId> {
        self.sources.find(|source| source.state.guid == *guid)
    }
    /// The source of this GUID.
    pub(super) fn source_of(&self, guid: &Guid) -> Option<&Source> {
        self.number_of(guid).and_then(|number| self.sources.get(number))
    }
    /// The same, mutable.
    pub(super) fn source_of_mut(&mut self, guid: &Guid) -> Option<&mut Source> {
        self.number_of(guid).and_then(|number| self.sources.get_mut(number))
    }
    /// Whether there is another source without known faults to request from.
    pub(super) fn has_other_sources(&self, number: SourceId) -> bool {
        self.sources.iter().any(|(other, source)| other != number && is_sure(source))
    }
    /// Chooses where to request missing chunks: the network picks the nearest holder unless a source must be avoided;
    /// then the receiver requests the sources one by one by GUID. `None` without a source, and in it for the nearest.
    fn choose_target(&mut self, now: Time) -> Option<Option<Guid>> {
        let is_there = |source: &Source| is_there(source, now);
        let pools: [&dyn Fn(&Source) -> bool; 3] = [&is_there, &is_sure, &Source::is_usable];
        let pool = pools.into_iter().find(|fits| self.sources.iter().any(|(_, source)| fits(source)))?;
        if self.nack.in_vain == 0 && self.sources.iter().all(|(_, source)| is_there(source)) {
            return Some(None);
        }
        let last = self.serving.requested.and_then(|guid| self.number_of(&guid));
        let mut fit = self.sources.iter().filter(|(_, source)| pool(source)).map(|(number, _)| number);
        let first = fit.next()?;
        let next = core::iter::once(first).chain(fit).find(|number| Some(*number) > last).unwrap_or(first);
        let source = self.sources.get_mut(next)?;
        source.state.trial = None;
        Some(Some(source.state.guid))
    }

    // Chooses the target of requests, and stops senders that are no longer it.

    /// Chooses the target of requests; false without a source. `stopped` gets the messages that stop the others.
    pub(super) fn aim(&mut self, now: Time, stopped: &mut VecDeque<Outgoing>) -> bool {
        let Some(target) = self.choose_target(now) else { return false };
        let sends = target.and_then(|guid| self.source_of(&guid)).is_some_and(|source| source.state.sends());
        self.serving.on_request(now, target, sends);
        if let Some(guid) = target {
            stopped.extend(self.cancel_others(guid));
        }
        true
    }
    /// Requests everything from one source: returns the messages that stop the others.
    fn cancel_others(&mut self, guid: Guid) -> Vec<Outgoing> {
        let Some(object) = self.object else { return Vec::new() };
        let is_answered = self.answers_the_end();
        let (transfer, token) = (self.transfer, self.token);
        let stop = |source: &mut Source| match source.state.guid == guid {
            true => {
                source.state.serves = source.state.serves.or(is_answered.then_some(NetworkAddress::NONE));
                None
            }
            false if source.state.trial.is_some() => None,
            false => source.state.stop_message(transfer, token, object),
        };
        self.sources.iter_mut().filter_map(stop).collect()
    }
    /// A chunk has arrived; returns when it was requested, if it answers a request.
    pub(super) fn take_answered(&mut self, from: &Guid) -> Option<Time> {
        let sends = self.source_of(from).is_some_and(|source| source.state.sends());
        if sends { None } else { self.serving.take_answer(from) }
    }
    /// The previous sender no longer counts as the sender.
    pub(super) fn leave_sender(&mut self) {
        self.serving.sender = None;
        self.windows.on_sender_gone();
        self.credit.granted = None;
        self.missing.on_sender_gone();
    }
    /// When to probe a silent sender, if other sources could take over.
    pub(super) fn probe_at(&self, active_at: Time, timeout: Duration) -> Option<Time> {
        let (sender, _) = self.serving.sender?;
        let number = self.number_of(&sender).unwrap_or(SourceId(u16::MAX));
        let waits = !self.credit.is_stopped
            && !is_pushed(self.transfer)
            && self.serving.probes < PROBES_MAX
            && self.has_other_sources(number);
        waits.then(|| self.patience.since().max(active_at) + timeout / PROBE_PART * 2u32.pow(self.serving.probes))
    }
    /// A liveness probe for the sender: an empty acknowledgement. A router that cannot deliver it to a vanished host
    /// reports that.
    pub(super) fn probe(&mut self) -> Option<Outgoing> {
        self.serving.probes += 1;
        let (sender, object) = self.serving.sender.zip(self.object)?;
        let (transfer, chunks) = (self.transfer, ChunkRanges::default());
        Some(self.message(sender, TransportBody::Ack { complete: false, chunks }.about(transfer, object)))
    }
    fn message(&self, (to, address): (Guid, NetworkAddress), message: TransportMessage) -> Outgoing {
        Outgoing { proxies: self.serving.proxies, ..Outgoing::new(to, address, self.token, message) }
    }

    // The origin of a chunk.

    /// The sender of a chunk.
    pub(super) fn origin(&self, header: &ChunkHeader) -> Origin {
        match self.number_of(&header.source) {
            Some(_) if header.flags.contains(Flags::CACHED) => Origin::Cache,
            Some(number) if header.flags.contains(Flags::STORED) => Origin::Storage(number),
            Some(number) => Origin::Source(number),
            None => Origin::Cache,
        }
    }
    /// Records the sender of a chunk; false if the chunk is late because another source has taken over.
    pub(super) fn on_sender(&mut self, header: &ChunkHeader) -> bool {
        if self.serving.is_late(&header.source) {
            return false;
        }
        if self.serving.on_chunk(header) {
            self.windows.on_sender_change();
            self.credit.granted = None;
            self.nack.in_vain = 0;
        }
        true
    }
    /// A missing chunk was stored.
    pub(super) fn on_useful(&mut self, now: Time, header: &ChunkHeader, bytes: u64) {
        self.nack.in_vain = 0;
        // A store on the way counts the hops from itself.
        let direct = self.origin(header).source().filter(|_| !header.flags.contains(Flags::STORED));
        if let Some(source) = direct.and_then(|number| self.sources.get_mut(number)) {
            source.state.hops = u32::from(HOPS_MAX - header.hops_left) + 1;
        }
        if header.flags.contains(Flags::REPEATED) {
            self.record.retransmitted_bytes += bytes;
        }
        self.arrivals.on_chunk(now, bytes);
    }
    /// Credits stored bytes to their senders; false if nothing was stored.
    pub(super) fn take_stored(&mut self) -> bool {
        let mut any = false;
        while let Some(Stored { index, bytes, parts }) = self.reassembly.as_mut().and_then(|it| it.stored.pop_front()) {
            self.missing.on_verified();
            self.mirrors.iter_mut().for_each(|mirrors| mirrors.on_stored(index));
            for (origin, bytes) in parts.into_iter().filter(|(origin, _)| *origin != Origin::Mirror) {
                match origin.source().and_then(|number| self.sources.get_mut(number)) {
                    Some(source) => (source.bytes, source.state.retries) = (source.bytes + u64::from(bytes), 0),
                    None => self.record.cached_bytes += u64::from(bytes),
                }
            }
            self.record.push(TransferEvent::ChunkStored { index, bytes });
            any = true;
        }
        any
    }
    /// Records corrupted chunks. Returns when they are requested again, and whether that is one request more.
    pub(super) fn on_corrupt(&mut self, now: Time, chunks: RangeInclusive<u32>, timeout: Duration) -> (Time, bool) {
        self.caches.avoid = true;
        let status = self.windows.status;
        let pause = self.missing.on_corrupt(now, chunks, timeout, status.is_some());
        if let Some(pause) = pause {
            let again = (now + pause, self.windows.highest());
            let (at, window) = status.map_or(again, |status| status.min(again));
            self.windows.status = Some((at, window));
        }
        (self.windows.status.map_or(now, |(at, _)| at), pause.is_some())
    }
    /// Looks for gaps before an arrived chunk; true if it found a new one.
    pub(super) fn find_gaps(&mut self, now: Time, number: u32, timeout: Duration) -> bool {
        // In a part of an object, gaps between chunks show nothing.
        let Some(reassembly) = self.reassembly.as_ref().filter(|reassembly| !reassembly.is_selective()) else {
            return false;
        };
        self.missing.find_gaps(now, number, timeout, reassembly)
    }
    /// Since when only the limit may prevent a further grant to the sender.
    pub(super) fn grant_since(&self) -> Option<Time> {
        let status = self.windows.status.filter(|(_, window)| self.credit.grants(*window)).map(|(at, _)| at);
        self.credit.request_since.or(status)
    }

    /// Whether any source or mirror may still deliver.
    pub(super) fn has_deliverers(&self) -> bool {
        self.sources.any_usable() || self.mirrors.as_ref().is_some_and(|mirrors| mirrors.may_deliver())
    }

    // A part of the object.

    /// The chunks to request next, most urgent first, if readers want only a part: as many as keep `room` in flight.
    fn next_wanted(&mut self, chunk_bytes: u32, room: usize) -> Vec<u32> {
        let Some(reassembly) = &mut self.reassembly else { return Vec::new() };
        reassembly.writer.refresh_wishes();
        self.requested_chunks.retain(|number| !reassembly.has(*number, chunk_bytes));
        let room = room.saturating_sub(self.requested_chunks.len());
        reassembly.wanted(chunk_bytes).filter(|number| !self.requested_chunks.contains(number)).take(room).collect()
    }
    /// The chunks that a request declares as present if readers want only a part: all but those that they want now.
    pub(super) fn held_back(&mut self, chunk_bytes: u32) -> Option<ChunkRanges> {
        if is_pushed(self.transfer) || !self.reassembly.as_ref().is_some_and(Reassembly::is_selective) {
            return None;
        }
        self.requested_chunks.clear();
        self.missing.wanted.clear();
        let room = usize::from(self.credit.window_chunks.max(1)) * 2;
        let wanted: BTreeSet<u32> = self.next_wanted(chunk_bytes, room).into_iter().collect();
        // The gaps between and around this many runs fit into a message.
        let wanted = ChunkRanges::from_ascending(wanted);
        let runs = wanted.runs().iter().take(RANGES_MAX - 1);
        let requested_chunks: BTreeSet<u32> = runs.flat_map(|(first, count)| *first..first + count).collect();
        let count = chunk_count(self.reassembly.as_ref()?.manifest().size, chunk_bytes);
        let held = ChunkRanges::from_ascending(0..count).without(requested_chunks.iter().copied());
        self.requested_chunks = requested_chunks;
        Some(held)
    }
    /// Requests the chunks that readers want and that are not in flight, once they fit.
    pub(super) fn request_wanted(&mut self, now: Time) {
        if is_pushed(self.transfer) || self.serving.sender.is_none() {
            return;
        }
        let Some(reassembly) = self.reassembly.as_ref().filter(|reassembly| reassembly.is_selective()) else { return };
        let Some((chunk_bytes, _)) = reassembly.cut else { return };
        let next = self.next_wanted(chunk_bytes, usize::from(self.credit.window_chunks.max(1)) * 2);
        if !next.is_empty() {
            self.missing.wanted.extend(&next);
            self.requested_chunks.extend(next);
            self.windows.hasten_status(now);
        }
    }

    // The end.

    /// Ends the transfer: stored data stays, and the store is closed. A store in memory would otherwise hold the object
    /// as long as the report is kept.
    pub(super) fn close(&mut self) -> Option<Reassembly> {
        self.final_sizes = self.sizes();
        self.reassembly.take()
    }
    /// The bytes of the object, and how many are stored.
    pub(super) fn sizes(&self) -> (u64, u64) {
        self.reassembly.as_ref().map_or(self.final_sizes, |it| it.writer.sizes())
    }
    /// Whether the sender continues until it is told to stop.
    pub(super) fn answers_the_end(&self) -> bool {
        self.reliability != Reliability::DontCare
    }
    fn last_message(&self, to: (Guid, NetworkAddress), message: TransportMessage) -> Option<Outgoing> {
        self.answers_the_end().then(|| self.message(to, message))
    }
    /// The messages that stop all nodes that may be sending.
    pub(super) fn stop_messages(&mut self) -> Vec<Outgoing> {
        let Some(object) = self.object else { return Vec::new() };
        let (transfer, chunks) = (self.transfer, ChunkRanges::default());
        let done = TransportBody::Ack { complete: true, chunks }.about(transfer, object);
        let sender = self.serving.sender.and_then(|sender| self.last_message(sender, done));
        let others =
            self.sources.iter_mut().filter(|source| sender.as_ref().is_none_or(|done| done.to != source.state.guid));
        let others = others.filter_map(|source| source.state.stop_message(self.transfer, self.token, object));
        others.chain(sender.clone()).collect()
    }
    /// The message that tells a pushed object's source that it cannot be kept here.
    pub(super) fn refusal(&self) -> Option<Outgoing> {
        let source = self.sources.first().map(|source| (source.state.guid, NetworkAddress::NONE));
        let (to, object) = self.serving.sender.or(source).zip(self.object)?;
        self.last_message(to, TransportBody::Unavailable.about(self.transfer, object))
    }
    /// Why it fails when the patience with its sources is over.
    pub(super) fn silence_reason(&self, now: Time, is_attached: bool) -> String {
        let sizes = self.reassembly.as_ref().map(|_| self.sizes());
        if is_attached {
            return self.sources.silence_reason(&self.name, self.patience.limit(), sizes);
        }
        let (silence, name) = (now.since(self.patience.since()).as_secs_f64(), &self.name);
        let kept = match self.sizes() {
            (0, _) => String::new(),
            (size, stored) => format!("; {stored} of {size} bytes are verified and kept"),
        };
        format!("no access router answers, and nothing of '{name}' has come for {silence:.0} s{kept}")
    }

    fn path_report(&self, now: Time, source: &Source, id: SourceId) -> PathReport {
        let sends = self.serving.is_sent_by(&source.state.guid);
        let (state, reason) = match (source.objection(), self.record.is_ended(), sends) {
            (Some(reason), ..) => (PathState::Closed, reason.into()),
            (None, false, _) if let Some(trial) = &source.state.trial => {
                (PathState::Idle, format!("{}; other sources are used until the faulty node is known", trial.reason))
            }
            (None, false, false) if source.state.away_until > now => {
                (PathState::Silent, "did not answer, or is gone".into())
            }
            (None, true, _) => (PathState::Done, String::new()),
            (None, false, true) if self.nack.in_vain > 0 => (PathState::Silent, "silent; requested again".into()),
            (None, false, true) => (PathState::Active, "sends".into()),
            (None, false, false) => (PathState::Idle, "the network chose another source".into()),
        };
        let cut = self.reassembly.as_ref().and_then(|it| it.cut);
        PathReport {
            path: PathId(id.0),
            source: id,
            label: source.label.clone(),
            face: None,
            hops: source.state.hops,
            groups: Vec::new(),
            state,
            reason,
            bytes: source.bytes,
            cached_bytes: 0,
            requested_packets: source.state.packets + source.state.late_packets,
            lost_packets: source.state.late_packets,
            in_flight_bytes: 0,
            window_bytes: cut
                .map_or(0, |(chunk_bytes, _)| u64::from(chunk_bytes) * u64::from(self.credit.window_chunks)),
            rate: self.arrivals.rate(now).filter(|_| sends).unwrap_or_default(),
            rtt: source.state.rtt.map(|(last, _)| last),
            rtt_min: source.state.rtt.map(|(_, least)| least),
        }
    }
}

/// Whether nothing is held against a source.
fn is_sure(source: &Source) -> bool {
    source.is_usable() && source.state.trial.is_none()
}
/// The same, and it was not reported as gone.
pub(super) fn is_there(source: &Source, now: Time) -> bool {
    is_sure(source) && source.state.away_until <= now
}

impl Peer {
    pub(super) fn new(guid: Guid) -> Peer {
        Peer { guid, ..Peer::default() }
    }
    /// It did not answer, or was reported as gone.
    pub(super) fn on_away(&mut self, now: Time, timeout: Duration) {
        self.away_until = now + timeout * AWAY_TIMEOUTS;
    }
    /// The message that stops it, if it may be sending.
    pub(super) fn stop_message(&mut self, transfer: u32, token: Token, object: ObjectId) -> Option<Outgoing> {
        let address = self.serves.take()?;
        let message = TransportBody::Ack { complete: true, chunks: ChunkRanges::default() }.about(transfer, object);
        Some(Outgoing::new(self.guid, address, token, message))
    }
    /// Whether it has sent chunks, and was not stopped.
    pub(super) fn sends(&self) -> bool {
        self.serves.is_some_and(|address| !address.is_none())
    }
}

#[cfg(test)]
mod tests;
