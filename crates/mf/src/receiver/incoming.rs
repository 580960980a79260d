//! One object on its way here.
use core::ops::RangeInclusive;

use super::*;

pub(super) struct Incoming {
    pub(super) name: Name,
    pub(super) opener: Option<Box<dyn StoreOpener>>,
    pub(super) patience: Option<Duration>,
    /// What is chosen for this one and not by the node's settings.
    pub(super) options: FetchOptions,
    pub(super) limit: TokenBucket,
    /// Bytes that are missing and that no sender was let send.
    pub(super) ungranted: u64,
    /// The last window that was told of: the sender may begin two more.
    pub(super) granted: Option<u32>,
    /// The chunk size that was asked for.
    pub(super) asked_bytes: u32,
    /// It is to be asked for as soon as the limit lets it, since then.
    pub(super) request_since: Option<Time>,
    pub(super) started: Time,
    pub(super) ended: Option<Time>,
    pub(super) failure: Option<String>,
    pub(super) resumed: u64,
    pub(super) reassembly: Option<Reassembly>,
    pub(super) object: Option<ObjectId>,
    pub(super) content: Guid,
    pub(super) sources: Sources<Peer>,
    /// Announcements that wait for others, and until when.
    pub(super) gathered: Option<(Time, Vec<(Announcer, Manifest)>)>,
    /// The one that was asked last; `None` left the choice to the network (anycast).
    pub(super) asked: Option<Guid>,
    /// When that was, until it is answered, and how often it was asked in vain.
    pub(super) asked_at: Option<(Time, u32)>,
    /// Who sends.
    pub(super) sender: Option<(Guid, NetworkAddress)>,
    /// Proxies that may be asked for what is missing (paper §3.5).
    pub(super) proxies: u8,
    pub(super) transfer: u32,
    pub(super) token: Token,
    pub(super) reliability: Reliability,
    /// Who last sent from a cache.
    pub(super) cached_by: Option<Guid>,
    /// Caches and storage are passed by, because one lied, or may have; the caches that did.
    pub(super) avoid_caches: bool,
    pub(super) bypassed: BTreeSet<Guid>,
    /// Chunks that came wrong and are to be asked for again; how often in a row, and since when.
    pub(super) wrong: BTreeSet<u32>,
    pub(super) wrongs: u32,
    pub(super) wrong_since: Option<Time>,
    pub(super) windows: BTreeMap<u32, (u16, BTreeSet<u32>)>,
    pub(super) highest_window: Option<u32>,
    pub(super) status_at: Option<(Time, u32)>,
    pub(super) window_chunks: u16,
    pub(super) stopped: bool,
    /// When it was last looked at whether a slow reader has gone on.
    pub(super) looked_at: Time,
    pub(super) sequence: u32,
    pub(super) nack_at: Time,
    pub(super) nacks: u32,
    /// The next message says what is missing.
    pub(super) tells_missing: bool,
    pub(super) suspicion: Option<Suspicion>,
    pub(super) gaps: Option<Gaps>,
    pub(super) lonely_since: Time,
    /// When a chunk last came that was not here.
    pub(super) useful_at: Time,
    /// How often the sender was asked since then whether it is still there.
    pub(super) calls: u32,
    /// Chunks whose custodians wait to hear that they are on the disk: what they are told then, and bytes of a chunk.
    pub(super) kept_for: BTreeMap<(u32, Custodian), (Answer, u32)>,
    pub(super) cached_bytes: u64,
    pub(super) repeated_bytes: u64,
    pub(super) duplicate_bytes: u64,
    /// For the current rate.
    pub(super) recent: VecDeque<(Time, u64)>,
    /// Bytes of the object and of what was stored of it when it ended.
    pub(super) kept: (u64, u64),
    pub(super) events: VecDeque<TransferEvent>,
}

impl Fetching for Incoming {
    fn name(&self) -> &Name {
        &self.name
    }
    fn is_ended(&self) -> bool {
        self.ended.is_some()
    }
    fn set_limit(&mut self, now: Time, rate: Option<Rate>) {
        self.limit.set_rate(now, rate);
    }
    fn report(&self, now: Time) -> TransferReport {
        self.report_at(now)
    }
}

/// A source, and what this family keeps of it.
pub(super) type Source = sources::Source<Peer>;

/// What is known of a source as a device of the network.
pub(super) struct Peer {
    pub(super) guid: Guid,
    pub(super) hops: u32,
    /// How often in a row it was asked again for what came wrong.
    pub(super) wrongs: u32,
    /// Wrong bytes came in its name, and it is not known yet whether it lies.
    pub(super) doubt: Option<Doubt>,
    /// It did not answer, or was said to be gone: until then others are asked first.
    pub(super) away_until: Time,
    /// From that until the first packet of its answer, last and least.
    pub(super) rtt: Option<(Duration, Duration)>,
    /// Packets of its chunks that came here, and those of them that were lost on the way before.
    pub(super) packets: u64,
    pub(super) late_packets: u64,
    /// It may be sending, and is there, as far as known.
    pub(super) serves: Option<NetworkAddress>,
}

/// NACKs in vain after which the token of something pushed is taken from what comes.
const VAIN_NACKS: u32 = 2;
/// Chunks whose custodians wait at most; of others they hear when they send them again.
const KEPT_FOR_MAX: usize = 65_536;

/// Who is asked for what is missing.
pub(super) enum Asked {
    /// Whom the network finds nearest (anycast).
    Nearest,
    /// This one.
    Source(Guid),
}

/// An access router has lost what it had in memory.
#[derive(Clone, Copy)]
pub(super) struct Suspicion {
    /// How long nothing may come until it is said what is missing; more each time.
    pub(super) patience: Duration,
    /// Until when there is less patience than usual.
    pub(super) until: Time,
}

/// What is missing in front of what comes after a loss on the way: a router sends the chunks of a flow in the order in
/// which they came, so what it still has comes later.
#[derive(Default)]
pub(super) struct Gaps {
    /// Chunks below this one are here, or it was seen that they are missing.
    seen: u32,
    /// Once something was missing, until when more of it is looked for: chunks of other ways may just be later.
    until: Option<Time>,
    /// What is still to be said.
    missing: BTreeSet<u32>,
}

impl Gaps {
    /// A chunk has come; true if others are missing before it.
    fn on_chunk(&mut self, number: u32, until: Time, is_missing: impl Fn(u32) -> bool) -> bool {
        let before = self.missing.len();
        self.missing.extend((self.seen..number).filter(|earlier| is_missing(*earlier)));
        self.seen = self.seen.max(number + 1);
        let found = self.missing.len() > before;
        if found {
            self.until.get_or_insert(until);
        }
        found
    }
    fn is_over(&self, now: Time) -> bool {
        self.until.is_some_and(|until| now >= until) && self.missing.is_empty()
    }
}

pub(super) enum Opened {
    No,
    Yes,
    /// Its store is being opened on another thread.
    Begun,
    Failed(String),
}

impl Incoming {
    /// Whether it is being pushed to this node.
    pub(super) fn is_pushed_here(&self) -> bool {
        is_pushed(self.transfer) && self.ended.is_none()
    }
    /// The custodian of a chunk waits to hear that it is on the disk.
    pub(super) fn keep_for(&mut self, header: &ChunkHeader) {
        if let Some((answer, tag)) = Answer::to(header, CustodyState::Taken).zip(header.tag())
            && self.kept_for.len() < KEPT_FOR_MAX
        {
            self.kept_for.insert((tag.number, answer.custodian), (answer, tag.chunk_bytes));
        }
    }
    /// What custodians are told of chunks, all or those that `is_meant` says by number and bytes of a chunk.
    pub(super) fn answers(&mut self, state: CustodyState, is_meant: impl Fn(u32, u32) -> bool) -> Vec<Answer> {
        let mut told = Vec::new();
        self.kept_for.retain(|(number, _), (answer, chunk_bytes)| {
            let is_told = is_meant(*number, *chunk_bytes);
            told.extend(is_told.then_some(Answer { state, ..*answer }));
            !is_told
        });
        told
    }
    /// Whether what comes with another token is of it: of what is pushed the first chunk tells the token, and may have been
    /// damaged on its way, so that whoever sends hears none of what is asked for by it.
    pub(super) fn takes_another_token(&self) -> bool {
        self.is_pushed_here() && self.nacks >= VAIN_NACKS
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
            opener: None,
            patience: None,
            options: FetchOptions::default(),
            limit: TokenBucket::new(None, LIMIT_BURST),
            ungranted: 0,
            granted: None,
            asked_bytes: 0,
            request_since: None,
            started: now,
            ended: None,
            failure: None,
            resumed: 0,
            reassembly: None,
            object: None,
            content: Guid::NONE,
            sources: Sources::default(),
            gathered: None,
            asked: None,
            asked_at: None,
            sender: None,
            proxies: 0,
            transfer,
            token,
            reliability,
            cached_by: None,
            avoid_caches: false,
            bypassed: BTreeSet::new(),
            wrong: BTreeSet::new(),
            wrongs: 0,
            wrong_since: None,
            windows: BTreeMap::new(),
            highest_window: None,
            status_at: None,
            window_chunks,
            stopped: false,
            looked_at: now,
            sequence: 0,
            nack_at: Time::MAX,
            nacks: 0,
            tells_missing: false,
            suspicion: None,
            gaps: None,
            lonely_since: now,
            useful_at: now,
            calls: 0,
            kept_for: BTreeMap::new(),
            cached_bytes: 0,
            repeated_bytes: 0,
            duplicate_bytes: 0,
            recent: VecDeque::new(),
            kept: (0, 0),
            events: VecDeque::new(),
        }
    }
    /// Keeps announcements until there may be others; false if they can be decided on at once.
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
    /// Takes note of all that devices announce under the name: chooses the object if none is chosen, and judges each device
    /// by the best that it announces.
    pub(super) fn consider(&mut self, found: &[(Announcer, Manifest)]) -> Opened {
        let Some(opener) = self.opener.as_mut() else { return Opened::No };
        let checked: Vec<_> = found
            .iter()
            .map(|(device, manifest)| (device, manifest, choice::check(&**opener, &self.name, manifest)))
            .collect();
        let mut opened = Opened::No;
        if self.reassembly.is_none() {
            let trusted = checked.iter().filter(|(.., check)| check.is_ok()).map(|(_, manifest, _)| *manifest);
            match choice::choose(&**opener, &self.name, trusted) {
                Choice::Nothing => {}
                Choice::Contested(reason) => opened = Opened::Failed(reason),
                Choice::Object { manifest, advice } => {
                    self.events.extend(advice.map(|text| TransferEvent::Advice { text }));
                    self.object = Some(manifest.object_id());
                    self.content = Guid::of_content(&manifest.publisher, &manifest.name);
                    match Reassembly::new(manifest, &mut **opener) {
                        Ok(reassembly) => {
                            opened = if reassembly.is_open() { Opened::Yes } else { Opened::Begun };
                            self.reassembly = Some(reassembly);
                        }
                        Err(error) => opened = Opened::Failed(error.to_string()),
                    }
                }
            }
        }
        let chosen = self.reassembly.as_ref().map(Reassembly::manifest);
        let mut standings: BTreeMap<Guid, (&Announcer, Standing)> = BTreeMap::new();
        for (device, manifest, check) in checked {
            let standing = match (check, chosen) {
                (Err(reason), _) => Standing::Faulty(reason),
                (Ok(()), Some(chosen)) => choice::standing(manifest, chosen),
                (Ok(()), None) => Standing::Wanted,
            };
            let rank = |standing: &Standing| match standing {
                Standing::Wanted => 2,
                Standing::Superseded(_) => 1,
                Standing::Faulty(_) => 0,
            };
            let known = standings.entry(device.guid).or_insert_with(|| (device, standing.clone()));
            if rank(&standing) > rank(&known.1) {
                known.1 = standing;
            }
        }
        for (guid, (device, standing)) in standings {
            let known = self.sources.find(|source| source.state.guid == guid);
            let Some(source) = known.or_else(|| {
                let (source, added) = self.sources.add(node_of(&guid), &device.label, Peer::new(guid))?;
                self.events.push_back(added);
                Some(source)
            }) else {
                continue;
            };
            match standing {
                Standing::Wanted => _ = self.sources.reopen(source),
                Standing::Superseded(reason) => self.events.extend(self.sources.close(source, reason)),
                Standing::Faulty(reason) => self.events.extend(self.sources.distrust(source, Evidence::Offer, reason)),
            }
        }
        opened
    }
    pub(super) fn set_nack(&mut self, now: Time, timeout: Duration) {
        let timeout = timeout * 2u32.pow(self.nacks.min(BACKOFF_MAX));
        self.nack_at = now + self.suspicion_at(now).map_or(timeout, |suspicion| timeout.min(suspicion.patience));
    }
    /// The suspicion that there is now.
    pub(super) fn suspicion_at(&self, now: Time) -> Option<Suspicion> {
        self.suspicion.filter(|suspicion| now < suspicion.until)
    }
    /// Looks for what is missing before a chunk that has come; true if it is to be said.
    pub(super) fn look_for_gaps(&mut self, now: Time, number: u32, timeout: Duration) -> bool {
        let (Some(gaps), Some(reassembly)) = (&mut self.gaps, &self.reassembly) else { return false };
        if gaps.is_over(now) {
            self.gaps = None;
            return false;
        }
        gaps.on_chunk(number, now + timeout, |number| reassembly.is_missing(number))
    }
    /// Whether there is something to be said of what is missing.
    pub(super) fn says_missing(&self) -> bool {
        self.tells_missing || !self.wrong.is_empty() || self.gaps.as_ref().is_some_and(|gaps| !gaps.missing.is_empty())
    }
    /// What is to be said of what is missing, at most so many chunks; nothing if what is not here may be on its way.
    pub(super) fn take_missing(&mut self, most: usize) -> ChunkRanges {
        let all = core::mem::take(&mut self.tells_missing) || self.nacks > 0;
        let mut some = self.gaps.as_mut().map(|gaps| core::mem::take(&mut gaps.missing)).unwrap_or_default();
        some.append(&mut self.wrong);
        let Some(reassembly) = &self.reassembly else { return ChunkRanges::default() };
        match all {
            true => ChunkRanges::from_ascending(reassembly.missing().take(most)),
            false => ChunkRanges::from_ascending(some.into_iter().filter(|number| reassembly.is_missing(*number))),
        }
    }
    /// What tells the sender that nothing more is wanted of it.
    pub(super) fn over(&self) -> Option<Outgoing> {
        let (to, object) = self.sender.zip(self.object)?;
        let chunks = ChunkRanges::default();
        let message = TransportMessage::Ack { transfer: self.transfer, object, complete: true, chunks };
        self.last_word(to, message)
    }
    fn last_word(&self, (to, address): (Guid, NetworkAddress), message: TransportMessage) -> Option<Outgoing> {
        self.hears_of_the_end()
            .then(|| Outgoing { proxies: self.proxies, ..Outgoing::new(to, address, self.token, message) })
    }
    /// Whether who sends goes on until it hears that nothing more is wanted.
    pub(super) fn hears_of_the_end(&self) -> bool {
        self.reliability != Reliability::DontCare
    }
    /// What tells the sender of something unasked that it cannot be kept here.
    pub(super) fn refusal(&self) -> Option<Outgoing> {
        let source = self.sources.first().map(|source| (source.state.guid, NetworkAddress::NONE));
        let (to, object) = self.sender.or(source).zip(self.object)?;
        let message = TransportMessage::Unavailable { transfer: self.transfer, object };
        self.last_word(to, message)
    }
    /// What tells all that may be sending that nothing more is wanted of them.
    pub(super) fn overs(&mut self) -> Vec<Outgoing> {
        let sender = self.over();
        let Some(object) = self.object else { return Vec::new() };
        let others =
            self.sources.iter_mut().filter(|source| sender.as_ref().is_none_or(|over| over.to != source.state.guid));
        let overs = others.filter_map(|source| source.state.over(self.transfer, self.token, object));
        overs.chain(sender.clone()).collect()
    }
    /// One source is asked for all that is missing: gives what tells the others that nothing more is wanted of them.
    pub(super) fn on_asked(&mut self, guid: Guid) -> Vec<Outgoing> {
        let Some(object) = self.object else { return Vec::new() };
        let hears = self.hears_of_the_end();
        let (transfer, token) = (self.transfer, self.token);
        let tell = |source: &mut Source| match source.state.guid == guid {
            true => {
                source.state.serves = source.state.serves.or(hears.then_some(NetworkAddress::NONE));
                None
            }
            false if source.state.doubt.is_some() => None,
            false => source.state.over(transfer, token, object),
        };
        self.sources.iter_mut().filter_map(tell).collect()
    }
    /// Something is asked for: the first that comes of who sends nothing yet is the answer.
    pub(super) fn on_request(&mut self, now: Time) {
        let asked = self.asked.and_then(|guid| self.source_of(&guid));
        let sends = asked.is_some_and(|source| source.state.sends());
        self.asked_at = (!sends).then(|| (now, self.asked_at.map_or(0, |(_, times)| times + 1)));
    }
    /// A chunk has come; gives when it was asked for, if it is the answer to a request that was not repeated: of one that
    /// was it is not known which one is answered (Karn).
    pub(super) fn take_answered(&mut self, from: &Guid) -> Option<Time> {
        let sends = self.source_of(from).is_some_and(|source| source.state.sends());
        if sends || self.asked.is_some_and(|asked| asked != *from) {
            return None;
        }
        let (at, times) = self.asked_at.take()?;
        (times == 0).then_some(at)
    }
    pub(super) fn on_useful(&mut self, now: Time, header: &ChunkHeader, bytes: u64) {
        // Where it was stored the count begins anew.
        let direct = self.origin(header).source().filter(|_| !header.flags.contains(Flags::STORED));
        if let Some(source) = direct.and_then(|number| self.sources.get_mut(number)) {
            source.state.hops = u32::from(HOPS_MAX - header.hops_left) + 1;
        }
        if header.flags.contains(Flags::REPEATED) {
            self.repeated_bytes += bytes;
        }
        self.useful_at = now;
        self.recent.push_back((now, bytes));
        while self.recent.front().is_some_and(|(at, _)| now.since(*at) > Duration::from_secs(2)) {
            self.recent.pop_front();
        }
    }
    /// Who sent a chunk.
    pub(super) fn origin(&self, header: &ChunkHeader) -> Origin {
        match self.number_of(&header.source) {
            Some(_) if header.flags.contains(Flags::CACHED) => Origin::Cache,
            Some(number) if header.flags.contains(Flags::STORED) => Origin::Storage(number),
            Some(number) => Origin::Source(number),
            None => Origin::Cache,
        }
    }
    /// Takes note that chunks came wrong; gives when they are asked for again.
    pub(super) fn on_wrong(&mut self, now: Time, chunks: RangeInclusive<u32>, timeout: Duration) -> Time {
        self.avoid_caches = true;
        self.wrong_since.get_or_insert(now);
        let is_new = self.wrong.is_empty();
        self.wrong.extend(chunks);
        let window = self.highest_window.unwrap_or(0);
        let known = self.status_at;
        if is_new || known.is_none() {
            let pause = match self.wrongs {
                0 => Duration::ZERO,
                wrongs => (WRONG_PAUSE * 2u32.pow(wrongs.min(16) - 1)).min(timeout * 2u32.pow(BACKOFF_MAX)),
            };
            self.wrongs += 1;
            self.status_at = known.into_iter().chain([(now + pause, window)]).min();
        }
        self.status_at.map_or(now, |(at, _)| at)
    }
    /// Books what was stored to those who sent it; false if nothing was.
    pub(super) fn take_stored(&mut self) -> bool {
        let mut any = false;
        while let Some(Stored { index, bytes, parts }) = self.reassembly.as_mut().and_then(Reassembly::poll_stored) {
            (self.wrongs, self.wrong_since) = (0, None);
            for (origin, bytes) in parts {
                match origin.source().and_then(|number| self.sources.get_mut(number)) {
                    Some(source) => (source.bytes, source.state.wrongs) = (source.bytes + u64::from(bytes), 0),
                    None => self.cached_bytes += u64::from(bytes),
                }
            }
            self.events.push_back(TransferEvent::ChunkStored { index, bytes });
            any = true;
        }
        any
    }
    /// Whether to tell of this window lets the sender send more.
    pub(super) fn grants(&self, window: u32) -> bool {
        self.ungranted > 0 && self.granted.is_none_or(|granted| granted < window)
    }
    /// What the sender is to be let send, and since when, if only the limit may hold it up.
    pub(super) fn grant_since(&self) -> Option<Time> {
        let status = self.status_at.filter(|(_, window)| self.grants(*window)).map(|(at, _)| at);
        self.request_since.or(status)
    }
    /// So many chunks of so many bytes may come now; gives the bytes that count against the limit.
    pub(super) fn take_grant(&mut self, chunks: u64, chunk_bytes: u32) -> u64 {
        let bytes = chunks.saturating_mul(u64::from(chunk_bytes)).min(self.ungranted);
        self.ungranted -= bytes;
        bytes
    }
    /// Bytes of the object, and of what is stored of it.
    pub(super) fn sizes(&self) -> (u64, u64) {
        let sizes = |reassembly: &Reassembly| (reassembly.manifest().size, reassembly.stored_bytes());
        self.reassembly.as_ref().map_or(self.kept, sizes)
    }
    pub(super) fn on_window(&mut self, tag: &DataTag) {
        if tag.window_chunks > 0 {
            // Of a sender that was on its way already the windows are counted from the first one that comes.
            let number = nearest_window(tag.window, self.highest_window.unwrap_or(0));
            let window = self.windows.entry(number).or_insert((tag.window_chunks, BTreeSet::new()));
            window.1.insert(tag.number);
            self.highest_window = self.highest_window.max(Some(number));
        }
    }
    /// A window of which all chunks are here; each once, the highest if there are several.
    pub(super) fn complete_window(&mut self) -> Option<u32> {
        let full = self.windows.iter().filter(|(_, (chunks, here))| here.len() >= usize::from(*chunks));
        let window = full.map(|(window, _)| *window).max()?;
        self.windows.retain(|number, (chunks, here)| *number > window || here.len() < usize::from(*chunks));
        Some(window)
    }
    pub(super) fn lonely_reason(&self, patience: Duration) -> String {
        match (&self.reassembly, self.sources.len()) {
            (None, 0) => format!("no publisher of '{}' answered within {patience:?}", self.name),
            (None, _) => format!("no source of '{}' can be trusted", self.name),
            (Some(reassembly), sources) => format!(
                "none of the {sources} sources of '{}' answered for {patience:?}; {} of {} bytes are verified and kept",
                self.name,
                reassembly.stored_bytes(),
                reassembly.manifest().size
            ),
        }
    }
    /// The same for a node that no router answers.
    pub(super) fn detached_reason(&self, now: Time) -> String {
        let silence = now.since(self.lonely_since).as_secs_f64();
        let (name, held) = (&self.name, self.sizes());
        let kept = match held {
            (0, _) => String::new(),
            (size, stored) => format!("; {stored} of {size} bytes are verified and kept"),
        };
        format!("no access router answers, and nothing of '{name}' has come for {silence:.0} s{kept}")
    }
    fn report_at(&self, now: Time) -> TransferReport {
        let paths = self.sources.iter().map(|(id, source)| self.path_report(now, source, id));
        let (size, stored) = self.sizes();
        TransferReport {
            bytes: size,
            stored_bytes: stored,
            resumed_bytes: self.resumed,
            cached_bytes: self.cached_bytes,
            retransmitted_bytes: self.repeated_bytes,
            duplicate_bytes: self.duplicate_bytes,
            started: self.started,
            ended: self.ended,
            failure: self.failure.clone(),
            sources: self.sources.reports(),
            paths: paths.collect(),
        }
    }
    pub(super) fn path_report(&self, now: Time, source: &Source, id: SourceId) -> PathReport {
        let sends = self.sender.is_some_and(|(sender, _)| sender == source.state.guid);
        let (state, reason) = match (source.objection(), self.ended, sends) {
            (Some(reason), ..) => (PathState::Closed, reason.into()),
            (None, None, _) if let Some(doubt) = &source.state.doubt => {
                (PathState::Idle, format!("{}; others are asked until it is known who lied", doubt.reason))
            }
            (None, None, false) if source.state.away_until > now => {
                (PathState::Silent, "did not answer, or is gone".into())
            }
            (None, Some(_), _) => (PathState::Idle, "the transfer has ended".into()),
            (None, None, true) if self.nacks > 0 => (PathState::Silent, "nothing comes; asked again".into()),
            (None, None, true) => (PathState::Active, "sends".into()),
            (None, None, false) => (PathState::Idle, "the network chose another source".into()),
        };
        let since = self.recent.front().map_or(Duration::ZERO, |(at, _)| now.since(*at));
        let recent: u64 = self.recent.iter().map(|(_, bytes)| bytes).sum();
        PathReport {
            path: PathId(id.0),
            source: id,
            label: source.label.clone(),
            hops: source.state.hops,
            groups: Vec::new(),
            state,
            reason,
            bytes: source.bytes,
            cached_bytes: 0,
            requested_packets: source.state.packets + source.state.late_packets,
            lost_packets: source.state.late_packets,
            in_flight_bytes: 0,
            window_bytes: self
                .reassembly
                .as_ref()
                .and_then(Reassembly::cut)
                .map_or(0, |(chunk_bytes, _)| u64::from(chunk_bytes) * u64::from(self.window_chunks)),
            rate: Rate::over(recent, since).filter(|_| sends).unwrap_or_default(),
            rtt: source.state.rtt.map(|(last, _)| last),
            rtt_min: source.state.rtt.map(|(_, least)| least),
        }
    }
}

impl Peer {
    pub(super) fn new(guid: Guid) -> Peer {
        Peer {
            guid,
            hops: 0,
            wrongs: 0,
            doubt: None,
            away_until: Time::ZERO,
            rtt: None,
            packets: 0,
            late_packets: 0,
            serves: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use tributary_content::{MemoryObject, MemoryOpener, ObjectReader, SigningKey};

    use super::{super::tests::fetch_of, *};

    /// A fetch that trusts one key only, after its source has announced what each of `rounds` names: true for the file
    /// that is wanted, false for one of another publisher. Gives how many requests were sent, and the account.
    fn announced(rounds: &[&[bool]]) -> (usize, TransferReport) {
        let name: Name = "/lab/file".parse().expect("a name");
        let file = |honest: bool| {
            let key = SigningKey::from_secret(&[if honest { 7 } else { 66 }; 32]);
            let bytes = Bytes::from(alloc::vec![u8::from(honest); 5_000]);
            MemoryObject::new(name.clone(), bytes, &key).expect("fits").manifest().clone()
        };
        let opener = MemoryOpener::pinned(file(true).publisher);
        let mut receiver = Receiver::new(EndConfig::default(), 1, &[1; 32]);
        let id = receiver.fetch(Time::ZERO, fetch_of(&name, opener), FetchOptions::default());
        receiver.set_attached(Time::ZERO, true);
        let device = Announcer { guid: Guid([1; 20]), label: "source".into() };
        let mut requests = 0;
        for (round, files) in (1..).zip(rounds) {
            let found: Vec<_> = files.iter().map(|honest| (device.clone(), file(*honest))).collect();
            receiver.handle_announcements(Time::from_millis(round), &name, &found, Announced::All);
            requests += core::iter::from_fn(|| receiver.poll_message()).count();
        }
        (requests, receiver.report(Time::from_millis(100), id).expect("it runs"))
    }

    #[test]
    fn who_announces_what_is_wanted_is_asked_whatever_else_it_announces_or_did() {
        for rounds in [&[&[false, true][..]][..], &[&[true, false]], &[&[false], &[true]], &[&[false], &[true, false]]]
        {
            let (requests, report) = announced(rounds);
            assert_eq!(requests, 1, "{rounds:?}");
            assert!(report.sources.iter().all(|source| source.distrusted.is_none()), "{rounds:?}: {report:?}");
        }
        let (requests, report) = announced(&[&[false]]);
        assert!(requests == 0 && report.sources[0].distrusted.is_some(), "nobody has what is wanted: {report:?}");
    }

    #[test]
    fn who_is_the_first_that_can_be_asked_is_asked() {
        let (name, mut sources) = ("/lab/file".parse::<Name>().expect("a name"), Vec::new());
        let file = |version| {
            let (key, bytes) = (SigningKey::from_secret(&[7; 32]), Bytes::from_static(b"21.5"));
            let kind = tributary_content::ObjectKind::File;
            let made = MemoryObject::with_options(name.clone(), bytes, &key, version, kind, 4_096);
            made.expect("fits").manifest().clone()
        };
        let mut receiver = Receiver::new(EndConfig::default(), 1, &[1; 32]);
        receiver.fetch(Time::ZERO, fetch_of(&name, MemoryOpener::new()), FetchOptions::default());
        receiver.set_attached(Time::ZERO, true);
        // The first source begins and goes over to a new version; the second one still has what was begun.
        for (number, version) in [(1, 1), (1, 2), (2, 1)] {
            let device = Announcer { guid: Guid([number; 20]), label: String::new() };
            receiver.handle_announcements(Time::from_millis(1), &name, &[(device, file(version))], Announced::All);
            sources.extend(core::iter::from_fn(|| receiver.poll_message()).map(|message| message.to));
        }
        let content = Guid::of_content(&SigningKey::from_secret(&[7; 32]).public(), &name);
        assert_eq!(sources, [content, Guid([2; 20])]);
    }

    #[test]
    fn a_gap_is_told_once_and_looked_for_as_long_as_none_was_found() {
        let (mut gaps, here) = (Gaps::default(), [0, 1, 2, 5, 6]);
        let until = Time::from_millis(3_000);
        let mut on_chunk = |number| {
            gaps.on_chunk(number, until, |earlier| !here.contains(&earlier));
            (core::mem::take(&mut gaps.missing).into_iter().collect::<Vec<_>>(), gaps.is_over(until))
        };
        assert_eq!(on_chunk(2), (Vec::new(), false));
        assert_eq!(on_chunk(5), (Vec::from([3, 4]), true));
        assert_eq!(on_chunk(6), (Vec::new(), true));
    }
}
