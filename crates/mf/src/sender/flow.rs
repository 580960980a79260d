//! One object in transfer to one receiver.
use super::*;

#[derive(Default)]
pub(super) struct Outflow {
    pub(super) object: ObjectId,
    /// Capability that messages about the flow must carry.
    pub(super) token: Token,
    pub(super) from_cache: bool,
    pub(super) addresses: Vec<NetworkAddress>,
    pub(super) options: SendOptions,
    pub(super) requested: bool,
    pub(super) chunk_bytes: u32,
    /// Bytes of its largest chunk, and the class of sizes that they fall into.
    pub(super) bytes: u32,
    pub(super) size: u32,
    pub(super) count: u32,
    /// The next chunk that was never sent.
    pub(super) next: u32,
    pub(super) held: ChunkRanges,
    pub(super) again: BTreeSet<u32>,
    /// Corrupted chunks: they are sent past copies on the way.
    pub(super) past_copies: BTreeSet<u32>,
    pub(super) dropped: BTreeSet<u32>,
    pub(super) stored: BTreeMap<u32, (Guid, NetworkAddress)>,
    pub(super) unacknowledged: BTreeSet<u32>,
    pub(super) window: Windows,
    pub(super) reports: Reports,
    pub(super) heard_at: Time,
    pub(super) sent_at: Time,
    /// When a chunk was last sent for the first time.
    pub(super) begun_at: Time,
    /// When its lifetime is over, if it has one.
    pub(super) ends_at: Option<Time>,
    pub(super) pause: Duration,
    pub(super) resume_at: Option<Time>,
    pub(super) ack_at: Option<Time>,
    pub(super) ack_tries: u32,
    /// When a silent receiver is reminded, and how long it may be silent after that.
    pub(super) remind_at: Option<Time>,
    pub(super) remind_after: Duration,
    /// Chunks sent again.
    pub(super) repeated: u64,
    /// Chunks that routers have reported as dropped.
    pub(super) lost: u64,
    /// How long storage on the way keeps it, if that is less than its lifetime.
    pub(super) kept_for: Option<Duration>,
    /// The receiver has acknowledged all of it.
    pub(super) delivered: bool,
    /// Its receiver cannot keep it.
    pub(super) refused: bool,
    /// A chunk whose bytes are being read, or have been.
    pub(super) waiting: Option<Waiting>,
    /// Its members, if it goes to a group.
    pub(super) group: Option<Group>,
    /// Whether it waits until its destination is recognised.
    pub(super) unrecognised: bool,
}

/// A chunk to send.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Next {
    pub(super) number: u32,
    pub(super) repeated: bool,
    /// The only member of a group that it goes to, and its address.
    pub(super) only: Option<(Guid, NetworkAddress)>,
}

tributary_core::declared! {
    /// A chunk to send whose bytes have to be read first.
    pub(super) struct Waiting {
        pub(super) next: Next = next,
        /// The parts read so far, in order.
        pub(super) parts: Vec<Bytes> = Vec::new(),
        /// Why it cannot be read.
        pub(super) failed: Option<Failure> = None,
        /// Whether bytes of it are still being read.
        pub(super) awaits_storage: bool = false,
    }
    pub(super) fn new(next: Next) {}
}

/// The end-to-end window (paper §3.4.2). Two windows may be in flight, so that the one message per window arrives in
/// time.
#[derive(Default)]
pub(super) struct Windows {
    /// Per window: first chunk, end, and chunks to send; empty for objects too small for flow control.
    pub(super) begun: Vec<(u32, u32, u16)>,
    pub(super) confirmed: usize,
    /// Chunks of the next window; 0 stops.
    pub(super) advice: u16,
    pub(super) controlled: bool,
}

impl Windows {
    /// Whether a chunk belongs to a started window, or may start one.
    pub(super) fn lets(&self, number: u32) -> bool {
        self.is_begun(number) || self.advice > 0 && self.begun.len() <= self.confirmed + 1
    }
    fn is_begun(&self, number: u32) -> bool {
        !self.controlled || self.begun.last().is_some_and(|(_, end, _)| number < *end)
    }
    /// The same; starts the window.
    pub(super) fn may_send(&mut self, number: u32, count: u32, held: &ChunkRanges) -> bool {
        if self.is_begun(number) {
            return true;
        }
        if !self.lets(number) {
            return false;
        }
        let (mut end, mut chunks) = (number, 0);
        while end < count && chunks < self.advice {
            chunks += u16::from(!held.contains(end));
            end += 1;
        }
        self.begun.push((number, end, chunks));
        true
    }
    /// Storage on the way has promised to keep a chunk. If it is the last of its window and all earlier ones were
    /// delivered or stored, the network can take the next window, although the absent receiver cannot acknowledge this
    /// one.
    pub(super) fn on_stored(&mut self, number: u32, held: &ChunkRanges) {
        let at = self.begun.partition_point(|(first, ..)| *first <= number);
        let Some((_, end, _)) = at.checked_sub(1).map(|at| self.begun[at]) else { return };
        if number < end && (number + 1..end).all(|later| held.contains(later)) {
            self.confirmed = self.confirmed.max(at);
        }
    }
    pub(super) fn of(&self, number: u32) -> (u16, u16) {
        let at = self.begun.partition_point(|(first, ..)| *first <= number);
        match at.checked_sub(1).map(|at| (at, self.begun[at])) {
            Some((at, (.., chunks))) => (on_wire(at as u32), chunks),
            None => (u16::MAX, 0),
        }
    }
}

impl Outflow {
    /// Its destination has been recognised. Some of it may be in the outbox already.
    pub(super) fn recognise(&mut self, now: Time, is_group: bool) {
        self.options.recognises = false;
        self.options.service = self.options.service.for_group(is_group);
        let wanted = match self.options.service {
            ServiceId::Multicast => Some(Wanted::All),
            ServiceId::Anycast => Some(Wanted::One),
            _ => None,
        };
        self.group = wanted.map(Group::new);
        if let Some(group) = &mut self.group {
            self.window.controlled = false;
            if self.next >= self.count {
                group.on_all_sent(now);
            }
        }
    }
    /// When the flow last made progress. Repetitions, whether for lack of an acknowledgement or because storage dropped
    /// chunks, are no progress.
    pub(super) fn alive_at(&self) -> Time {
        match self.options.reliability {
            Reliability::Ack => self.heard_at,
            Reliability::Nack | Reliability::DontCare => self.heard_at.max(self.begun_at),
        }
    }
    /// When it ends: at the end of its lifetime, or after a long silence. Once custodians keep all of it, they deliver
    /// it without this end.
    pub(super) fn over_at(&self) -> Time {
        let silent_at = self.alive_at() + FLOW_LIFETIME;
        match self.ends_at {
            Some(ends_at) if !self.is_kept_on_the_way() => ends_at,
            ends_at => ends_at.map_or(silent_at, |ends_at| ends_at.min(silent_at)),
        }
    }
    /// Whether a message about this object that carries this token is about this flow.
    pub(super) fn is_of(&self, object: ObjectId, token: Token) -> bool {
        self.object == object && self.token == token
    }
    /// The receiver has sent a message. If it falls silent for `patience`, it may have restarted.
    pub(super) fn on_word(&mut self, now: Time, patience: Duration) {
        (self.heard_at, self.remind_after) = (now, patience);
        self.remind_at = self.has_to_remind().then(|| now + patience);
    }
    /// Whether a silent receiver must be reminded with the manifest. It may not know of the transfer: then it cannot
    /// report that everything is missing. Or it acknowledged the manifest and was killed, or its final acknowledgement
    /// was lost.
    pub(super) fn has_to_remind(&self) -> bool {
        let is_pushed_to_one = !self.requested && self.group.is_none();
        is_pushed_to_one && self.options.reliability != Reliability::DontCare
    }
    /// Reminds a silent receiver by sending the manifest, if due. Storage that holds the manifest sends it, unless it
    /// has lost it since.
    pub(super) fn remind(&mut self, now: Time) {
        if self.remind_at.is_none_or(|at| at > now) {
            return;
        }
        self.remind_at = None;
        if self.has_to_remind() {
            let is_late = self.remind_after >= REMIND_MAX;
            if is_late || !self.stored.contains_key(&0) {
                self.again.insert(0);
            }
            self.remind_after = (self.remind_after * 2).min(REMIND_MAX);
            self.remind_at = Some(now + self.remind_after);
        }
    }
    /// When its next timer is due.
    pub(super) fn due(&self) -> Time {
        let group = self.group.as_ref().and_then(Group::poll_timeout);
        let dues = [self.resume_at, self.ack_at, group, self.remind_at].into_iter().flatten();
        dues.fold(self.over_at(), Time::min)
    }
    /// Runs the timers that are due. A chunk that more than `threshold` members of a group request is sent to all of
    /// them again.
    pub(super) fn handle_timeout(&mut self, now: Time, threshold: usize) {
        if let Some(group) = &mut self.group {
            group.handle_timeout(now, threshold, &mut self.again);
        }
        if self.resume_at.is_some_and(|at| at <= now) {
            self.resume_at = None;
            self.again.append(&mut self.dropped);
        }
        self.remind(now);
        if self.ack_at.is_some_and(|at| at <= now) {
            self.ack_tries += 1;
            self.ack_at = Some(now + ACK_PATIENCE * 2u32.pow(self.ack_tries.min(5)));
            self.again.extend(self.unacknowledged.iter().copied());
        }
    }
    /// A chunk that needs an acknowledgement is sent.
    pub(super) fn await_ack(&mut self, now: Time, number: u32) {
        self.unacknowledged.insert(number);
        self.ack_at.get_or_insert(now + ACK_PATIENCE);
    }
    /// Chunks are acknowledged. When no others are waited for, the next wait is a short one again.
    pub(super) fn on_ack(&mut self, chunks: impl Iterator<Item = u32>) {
        for number in chunks {
            self.unacknowledged.remove(&number);
            self.again.remove(&number);
        }
        if self.unacknowledged.is_empty() {
            (self.ack_at, self.ack_tries) = (None, 0);
        }
    }
    /// Storage on the way keeps it for this long.
    pub(super) fn on_kept_for(&mut self, kept: Duration) {
        self.kept_for = Some(self.kept_for.map_or(kept, |known| known.min(kept)));
    }
    /// Whether storage on the way has all of it for its receiver, or for each incomplete member of its group: the
    /// storage has promised to deliver it.
    pub(super) fn is_kept_on_the_way(&self) -> bool {
        let is_kept = match &self.group {
            Some(group) => self.next >= self.count && group.is_idle() && group.is_kept(self.count),
            None => self.stored.len() >= self.count as usize,
        };
        !self.requested && is_kept && self.again.is_empty() && self.dropped.is_empty()
    }
    /// Whether a chunk may be sent now, as far as the receiver and the storage of this node are concerned;
    /// [`Outflow::take_next`] may still find that the rest is held.
    pub(super) fn can_send(&self) -> bool {
        if let Some(waiting) = &self.waiting {
            return !waiting.awaits_storage;
        }
        let repairs = !self.again.is_empty() || self.group.as_ref().is_some_and(Group::has_single);
        self.resume_at.is_none()
            && !self.unrecognised
            && (repairs || self.next < self.count && self.window.lets(self.next))
    }
    /// The next chunk: missing ones go before new ones.
    pub(super) fn take_next(&mut self, now: Time) -> Option<Next> {
        if self.resume_at.is_some() {
            return None;
        }
        if let Some(number) = self.again.pop_first() {
            // Chunks that the receiver did not want before are sent for the first time.
            return Some(Next { number, repeated: number < self.next && !self.held.contains(number), only: None });
        }
        if let Some((guid, address, number)) = self.group.as_mut().and_then(Group::take_single) {
            return Some(Next { number, repeated: true, only: Some((guid, address)) });
        }
        while self.next < self.count && self.held.contains(self.next) {
            // Windows include chunks that the receiver has: they count as sent and received.
            self.next += 1;
        }
        if self.next >= self.count || !self.window.may_send(self.next, self.count, &self.held) {
            return None;
        }
        self.next += 1;
        if self.next >= self.count
            && let Some(group) = self.group.as_mut().filter(|_| self.options.reliability != Reliability::DontCare)
        {
            group.on_all_sent(now);
        }
        Some(Next { number: self.next - 1, repeated: false, only: None })
    }
    pub(super) fn header(
        &self,
        now: Time,
        own: Guid,
        (destination, transfer): (Guid, u32),
        next: &Next,
    ) -> ChunkHeader {
        let Next { number, repeated, only } = *next;
        let (window, window_chunks) = self.window.of(number);
        let tag = DataTag {
            object: self.object,
            transfer,
            token: self.token,
            number,
            count: self.count,
            chunk_bytes: self.chunk_bytes,
            reliability: self.options.reliability,
            window,
            window_chunks,
        };
        let mut header = ChunkHeader::new(ChunkKind::Data(tag), own, destination, NetworkAddress::NONE);
        header.flags = self.options.in_network.into();
        if repeated {
            header.flags |= Flags::REPEATED;
            if self.past_copies.contains(&number) {
                header.flags |= Flags::NO_CACHE;
            }
        }
        if self.from_cache {
            header.flags |= Flags::CACHED;
        }
        header.addresses = self.addresses.iter().copied().take(crate::wire::ADDRESSES_MAX).collect();
        header.service = match self.options.service {
            ServiceId::Unicast if header.addresses.len() > 1 => ServiceId::Multihoming,
            ServiceId::Unicast if self.requested => ServiceId::ContentResponse,
            service => service,
        };
        if self.group.is_some() {
            header.proxies_left = self.options.proxies;
            header.addresses.clear();
        }
        if let Some((member, address)) = only {
            (header.destination, header.service) = (member, ServiceId::Unicast);
            header.addresses.extend(Some(address).filter(|address| !address.is_none()));
        }
        header.priority = self.options.priority;
        header.lifetime_ms = self.ends_at.map_or(0, |at| lifetime_ms(at.since(now)));
        header
    }
    pub(super) fn report(&self, destination: Guid) -> SendReport {
        let of_group = |members: fn(&Group) -> Vec<Guid>, is_so: bool| match &self.group {
            Some(group) => members(group),
            None => is_so.then_some(destination).into_iter().collect(),
        };
        let delivered = of_group(|group| group.delivered().collect(), self.delivered);
        let refused = of_group(|group| group.refused().collect(), self.refused);
        let of_members = self.group.iter().flat_map(Group::stored);
        let stored: Vec<u32> = self.stored.keys().copied().chain(of_members).collect();
        let mut custodians: BTreeMap<Guid, u64> = BTreeMap::new();
        let of_members = self.group.iter().flat_map(Group::keepers);
        for keeper in self.stored.values().map(|(guid, _)| *guid).chain(of_members) {
            *custodians.entry(keeper).or_default() += 1;
        }
        let bytes = u64::from(self.count.saturating_sub(1)) * u64::from(self.chunk_bytes);
        SendReport {
            bytes,
            chunks: self.count,
            sent_chunks: self.next,
            repeated_chunks: self.repeated,
            stored_chunks: stored.len() as u32,
            stored: stored.into_iter().collect(),
            custodians: custodians.into_iter().map(|(guid, chunks)| (guid.to_string(), chunks)).collect(),
            kept_here: 0,
            kept_for: self.kept_for.into_iter().chain(self.options.lifetime).min(),
            dropped_chunks: self.lost,
            reliability: self.options.reliability,
            in_network: self.options.in_network,
            destinations: self.group.as_ref().map_or(1, Group::len) as u32,
            delivered: delivered.iter().map(ToString::to_string).collect(),
            refused: refused.iter().map(ToString::to_string).collect(),
            has_left: self.next >= self.count
                && self.again.is_empty()
                && self.group.as_ref().is_none_or(Group::is_idle),
            is_over: false,
        }
    }
}

pub(super) fn header_addresses(header: &ChunkHeader) -> Vec<NetworkAddress> {
    if header.source_address.is_none() { Vec::new() } else { Vec::from([header.source_address]) }
}

/// Window numbers wrap around after this many on the wire; `u16::MAX` means no flow control.
const WINDOW_NUMBERS: u32 = u16::MAX as u32;

/// How a window is numbered on the wire.
pub(crate) fn on_wire(window: u32) -> u16 {
    (window % WINDOW_NUMBERS) as u16
}
/// The window with this number on the wire that is nearest to a known one (serial number arithmetic, as in RFC 1982).
pub(crate) fn nearest_window(number: u16, known: u32) -> u32 {
    let ahead = (u32::from(number) % WINDOW_NUMBERS + WINDOW_NUMBERS - known % WINDOW_NUMBERS) % WINDOW_NUMBERS;
    match known.checked_sub(WINDOW_NUMBERS - ahead) {
        Some(before) if ahead > WINDOW_NUMBERS / 2 => before,
        _ => known.saturating_add(ahead),
    }
}

/// Chunks of an object of `size` bytes, its description included.
pub fn chunk_count(size: u64, chunk_bytes: u32) -> u32 {
    u32::try_from(size.div_ceil(u64::from(chunk_bytes.max(1)))).unwrap_or(u32::MAX - 1).saturating_add(1)
}
