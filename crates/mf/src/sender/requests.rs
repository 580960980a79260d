//! Requests, and the flows that they start.
use super::*;

impl Sender {
    /// Takes a request. The chunks come from the cache if it has the object, else from this node's publications.
    pub fn handle_request(
        &mut self,
        now: Time,
        header: &ChunkHeader,
        message: &TransportMessage,
        cached: Option<Cached>,
    ) {
        let TransportMessage { transfer, object, body } = message;
        let TransportBody::Request { chunk_bytes: wanted, reliability, buffer_chunks, held } = body else { return };
        if is_pushed(*transfer) {
            // Only senders use such numbers: the receiver would take the chunks for a pushed object.
            self.unknown += 1;
            return;
        }
        let (id, token) = ((header.source, *transfer), header.token().unwrap_or_default());
        if self.flows.get(&id).is_some_and(|flow| flow.object == *object) {
            return self.on_repeated_request(now, header, message, cached);
        }
        let usual = SendOptions::new(&self.config);
        let in_network = header.flags.in_network().unwrap_or(usual.in_network);
        let options = SendOptions { reliability: *reliability, in_network, ..usual };
        let cut = match &cached {
            Some(cached) => Some(cached.cut),
            None => self.cut_for(*object, *wanted).and_then(|chunk_bytes| {
                let size = self.objects.get(object)?.reader().manifest().size;
                Some((chunk_bytes, chunk_count(size, chunk_bytes)))
            }),
        };
        let Some((chunk_bytes, count)) = cut else {
            self.unknown += 1;
            let unavailable = TransportBody::Unavailable.about(*transfer, *object);
            return self.messages.push_back((header.source, header.source_address, token, unavailable));
        };
        // The object's cut may differ from the requested one.
        let mut held = held.recut(*wanted, (chunk_bytes, count));
        if let Some(Cached { under_way, .. }) = &cached {
            let is_held = |number: &u32| held.contains(*number) || under_way.contains(number);
            held = ChunkRanges::from_ascending((0..count).filter(is_held));
            if !under_way.is_empty() && (0..count).all(|number| held.contains(number)) {
                // All missing chunks are in flight from elsewhere.
                return;
            }
        }
        let mut flow = self.flow(now, *object, header_addresses(header), options, chunk_bytes, count);
        (flow.requested, flow.token) = (true, token);
        flow.from_cache = cached.is_some();
        flow.held = held;
        flow.window.advice = flow.window.advice.min(*buffer_chunks).max(1);
        // The receiver may have less space than this end would fill without its advice.
        flow.window.controlled = count > u32::from(flow.window.advice) && *reliability != Reliability::DontCare;
        if !self.start(now, id, flow) {
            // Another source may have a free slot.
            let unavailable = TransportBody::Unavailable.about(*transfer, *object);
            self.messages.push_back((header.source, header.source_address, token, unavailable));
        }
    }
    /// A request for an existing flow: chunks that were sent long ago must have been lost.
    fn on_repeated_request(
        &mut self,
        now: Time,
        header: &ChunkHeader,
        message: &TransportMessage,
        cached: Option<Cached>,
    ) {
        let TransportBody::Request { chunk_bytes: wanted, buffer_chunks, held, .. } = &message.body else { return };
        let (id, token) = ((header.source, message.transfer), header.token().unwrap_or_default());
        let is_late = |flow: &Outflow| now.since(flow.sent_at.max(flow.heard_at)) > REQUEST_AGAIN;
        if !self.flows.get(&id).is_some_and(|flow| flow.token == token && is_late(flow)) {
            return;
        }
        self.flows.change(&id, |flow| {
            flow.heard_at = now;
            flow.addresses = header_addresses(header);
            let (next, held) = (flow.next, held.recut(*wanted, (flow.chunk_bytes, flow.count)));
            let under_way = cached.map(|cached| cached.under_way).unwrap_or_default();
            let is_missing = |number: &u32| !held.contains(*number) && !under_way.contains(number);
            flow.again.extend((0..next).filter(is_missing));
            // The messages that acknowledged the started windows were lost: these windows count as received, or are
            // sent again.
            flow.window.confirmed = flow.window.begun.len();
            flow.window.advice = (*buffer_chunks).max(1);
        });
    }
    pub(super) fn flow(
        &self,
        now: Time,
        object: ObjectId,
        addresses: Vec<NetworkAddress>,
        options: SendOptions,
        chunk_bytes: u32,
        count: u32,
    ) -> Outflow {
        let window = Windows {
            begun: Vec::new(),
            confirmed: 0,
            advice: self.config.window_chunks,
            // Small objects arrive before the receiver could acknowledge anything (paper §3.4.2).
            // Only the hops hold a flow to a group back: no member speaks for the others (paper §3.5).
            controlled: count > u32::from(self.config.window_chunks)
                && options.reliability != Reliability::DontCare
                && !matches!(options.service, ServiceId::Multicast | ServiceId::Anycast),
        };
        let size = self.objects.get(&object).map_or(u64::MAX, |object| object.reader().manifest().size);
        let bytes = chunk_bytes.min(u32::try_from(size).unwrap_or(u32::MAX));
        Outflow {
            object,
            addresses,
            options,
            chunk_bytes,
            bytes,
            size: size_class(bytes),
            count,
            window,
            heard_at: now,
            sent_at: now,
            begun_at: now,
            ends_at: options.lifetime.map(|lifetime| now + lifetime),
            pause: DROP_PAUSE,
            remind_after: self.remind_first(),
            group: match options.service {
                ServiceId::Multicast => Some(Group::new(Wanted::All)),
                ServiceId::Anycast => Some(Group::new(Wanted::One)),
                _ => None,
            },
            unrecognised: options.recognises,
            ..Outflow::default()
        }
    }
    /// Starts a flow if the limit allows it. At the limit, a new requested flow replaces the one with the longest
    /// silence; a new pushed flow replaces one that is completely in storage on the way.
    pub(super) fn start(&mut self, now: Time, id: FlowId, flow: Outflow) -> bool {
        let is_full = match flow.requested {
            false => self.flows.pushed_count() >= PUSHED_MAX,
            true => self.flows.requested_count(None) >= REQUESTED_MAX,
        };
        let is_greedy = flow.requested && self.flows.requested_count(Some(&id.0)) >= FLOWS_OF_ONE_MAX;
        if is_full || is_greedy {
            let is_silent = |at: &Time| now.since(*at) >= SILENT;
            let victim = match flow.requested {
                false => self.flows.longest_kept(),
                true => {
                    let longest = self.flows.longest_silent(is_greedy.then_some(&id.0));
                    longest.filter(|(at, _)| is_silent(at)).map(|(_, id)| id)
                }
            };
            let Some(victim) = victim else { return false };
            self.end(victim);
        }
        self.end(id);
        if flow.group.is_some() {
            self.notify_members_again(id);
        }
        if flow.options.recognises {
            self.unrecognised.insert(id.0, true);
        }
        self.flows.insert(id, flow);
        true
    }
    /// The chunk size for an object: the requested one, up to the configured maximum. If it exceeds the unit in which
    /// the object is verified, it is a multiple of that.
    pub(super) fn cut_for(&self, object: ObjectId, wanted: u32) -> Option<u32> {
        let unit = self.objects.get(&object)?.reader().manifest().chunk_size;
        let wanted = wanted.min(self.config.chunk_bytes).max(1_024);
        Some(if wanted > unit { wanted / unit * unit } else { wanted })
    }
}
