//! Messages of receivers and proxies to the sender.
use super::*;

impl Sender {
    /// Takes a message of a receiver or a proxy. It counts only for flows whose token its `header` carries.
    pub fn handle_message(&mut self, now: Time, header: &ChunkHeader, message: &TransportMessage) {
        let Some(token) = header.token() else { return };
        let (transfer, object) = (message.transfer, message.object);
        if let Some(id) = self.group_flow(token, transfer, object) {
            return self.on_word_of_group(now, header, message, id);
        }
        match &message.body {
            TransportBody::Status { window, advice_chunks, sequence, missing } => {
                self.on_status(now, header, (token, transfer, object), (*window, *advice_chunks, *sequence), missing);
            }
            TransportBody::Ack { complete, chunks } => {
                let id = (header.source, transfer);
                if self.flows.get(&id).is_none_or(|flow| !flow.is_of(object, token)) {
                    return;
                }
                let patience = self.remind_first();
                self.flows.change(&id, |flow| {
                    flow.on_word(now, patience);
                    let count = flow.count;
                    flow.on_ack(chunks.iter().take_while(|number| *number < count));
                    flow.delivered |= *complete;
                });
                if *complete {
                    self.end(id);
                }
            }
            TransportBody::Stored { flow, proxy, address, chunks } => {
                self.change_own(token, flow, transfer, object, |state| on_stored(state, (*proxy, *address), chunks));
            }
            TransportBody::Dropped { flow, chunks, .. } => {
                self.change_own(token, flow, transfer, object, |state| on_dropped(now, state, chunks));
            }
            TransportBody::KeptFor { flow, lifetime_ms } => {
                let kept = Duration::from_millis(u64::from(*lifetime_ms));
                self.change_own(token, flow, transfer, object, |state| state.on_kept_for(kept));
            }
            TransportBody::Unavailable => {
                let id = (header.source, transfer);
                let is_meant = |flow: &Outflow| flow.is_of(object, token) && !flow.requested;
                if self.flows.get(&id).is_some_and(is_meant) {
                    self.flows.change(&id, |flow| flow.refused = true);
                    self.end(id);
                }
            }
            TransportBody::Completed { .. }
            | TransportBody::Request { .. }
            | TransportBody::Push { .. }
            | TransportBody::Custody { .. }
            | TransportBody::Unreadable { .. } => {}
        }
    }
    /// A receiver acknowledges a window, advises the size of the next and names missing chunks (paper §3.4.2).
    fn on_status(
        &mut self,
        now: Time,
        header: &ChunkHeader,
        (token, transfer, object): (Token, u32, ObjectId),
        (window, advice_chunks, sequence): (u16, u16, u32),
        missing: &ChunkRanges,
    ) {
        let (from, address, patience) = (header.source, header.source_address, self.remind_first());
        // A node on the way may have corrupted the copies.
        let past_copies = header.flags.contains(Flags::NO_CACHE);
        let id = (from, transfer);
        let Some(flow) = self.flows.get(&id).filter(|flow| flow.is_of(object, token)) else { return };
        let mut reports = flow.reports;
        if !reports.is_news(now, sequence) {
            return;
        }
        let pushes = self.flows.change(&id, |flow| {
            flow.reports = reports;
            flow.on_word(now, patience);
            if !address.is_none() && flow.addresses.len() <= 1 {
                flow.addresses = Vec::from([address]);
            }
            let (confirmed, begun) = (flow.window.confirmed, flow.window.begun.len());
            let acknowledged = nearest_window(window, confirmed as u32) as usize + 1;
            flow.window.confirmed = confirmed.max(acknowledged.min(begun));
            flow.window.advice = advice_chunks;
            if !missing.is_empty() {
                // Chunks that are sent again now do not count as lost while in flight.
                flow.ack_at.iter_mut().for_each(|at| *at = (*at).max(now + ACK_PATIENCE));
            }
            let mut pushes: BTreeMap<(Guid, NetworkAddress), Vec<u32>> = BTreeMap::new();
            // Beyond the sent chunks, a receiver that wants only a part names chunks that its request held back.
            let (next, count) = (flow.next, flow.count);
            let missing = missing.iter().take_while(|number| *number < count);
            let named: Vec<u32> = missing.filter(|number| *number < next || flow.held.contains(*number)).collect();
            for number in named {
                if past_copies {
                    flow.past_copies.insert(number);
                }
                match flow.stored.remove(&number) {
                    // The network's copy is nearer (paper §3.3); if it does not arrive either, this end sends it.
                    Some(proxy) if !past_copies => pushes.entry(proxy).or_default().push(number),
                    _ => drop(flow.again.insert(number)),
                }
            }
            pushes
        });
        let flow = Flow { source: self.own, destination: from };
        self.push_from(pushes.unwrap_or_default(), token, flow, transfer, object);
    }
    /// A message of a member of a group, or of a proxy, about a flow to that group: members answer in their own names.
    fn on_word_of_group(&mut self, now: Time, header: &ChunkHeader, message: &TransportMessage, id: FlowId) {
        let (own, from, address) = (self.own, header.source, header.source_address);
        let past_copies = header.flags.contains(Flags::NO_CACHE);
        // A device does not become a member by sending a message.
        self.notify_members_again(id);
        let notice = self.flows.change(&id, |flow| {
            let (token, count, next) = (flow.token, flow.count, flow.next);
            // Only proxies authorised by the source may report for members.
            let speaks = flow.options.proxies > 0;
            let Some(group) = &mut flow.group else { return None };
            match &message.body {
                TransportBody::Status { sequence, missing, .. } => {
                    flow.heard_at = now;
                    let missing = || missing.iter().take_while(|number| *number < next);
                    if past_copies {
                        flow.past_copies.extend(missing());
                    }
                    let pushes = group.on_missing(now, (from, address), *sequence, missing(), &flow.past_copies);
                    return Some((token, pushes));
                }
                TransportBody::Ack { complete, .. } => {
                    flow.heard_at = now;
                    if *complete {
                        group.on_complete(from);
                    }
                }
                TransportBody::Completed { members } => {
                    flow.heard_at = now;
                    if speaks {
                        members.iter().for_each(|member| group.on_complete(*member));
                    }
                }
                TransportBody::Unavailable => {
                    flow.heard_at = now;
                    group.on_refused(from);
                }
                TransportBody::Stored { flow, proxy, address, chunks } if flow.source == own => {
                    let chunks = chunks.iter().take_while(|number| *number < count);
                    group.on_stored(flow.destination, (*proxy, *address), chunks);
                }
                TransportBody::Dropped { flow: of, chunks, .. } if of.source == own => {
                    group.on_dropped(of.destination, chunks);
                    flow.lost += reported_lost(flow, chunks);
                }
                TransportBody::KeptFor { lifetime_ms, .. } => {
                    flow.on_kept_for(Duration::from_millis(u64::from(*lifetime_ms)));
                }
                TransportBody::Stored { .. }
                | TransportBody::Dropped { .. }
                | TransportBody::Request { .. }
                | TransportBody::Push { .. }
                | TransportBody::Custody { .. }
                | TransportBody::Unreadable { .. } => {}
            }
            None
        });
        if let Some((token, pushes)) = notice.flatten() {
            let flow = Flow { source: own, destination: from };
            return self.push_from(pushes, token, flow, id.1, message.object);
        }
        let ends = matches!(
            message.body,
            TransportBody::Ack { .. } | TransportBody::Completed { .. } | TransportBody::Unavailable
        );
        if ends && self.flows.get(&id).and_then(|flow| flow.group.as_ref()).is_some_and(Group::is_over) {
            self.end(id);
        }
    }
    /// Changes the flow that a message of a proxy is about.
    fn change_own(
        &mut self,
        token: Token,
        flow: &Flow,
        transfer: u32,
        object: ObjectId,
        change: impl FnOnce(&mut Outflow),
    ) {
        let id = (flow.destination, transfer);
        if flow.source == self.own && self.flows.get(&id).is_some_and(|state| state.is_of(object, token)) {
            self.flows.change(&id, change);
        }
    }
    /// A flow to a group.
    fn group_flow(&self, token: Token, transfer: u32, object: ObjectId) -> Option<FlowId> {
        let id = self.flows.pushed(transfer)?;
        let is_meant = |flow: &&Outflow| flow.is_of(object, token) && flow.group.is_some();
        self.flows.get(&id).filter(is_meant).map(|_| id)
    }
    /// Requests proxies to send the chunks that they have of a flow (paper: Push).
    fn push_from(
        &mut self,
        pushes: BTreeMap<(Guid, NetworkAddress), Vec<u32>>,
        token: Token,
        flow: Flow,
        transfer: u32,
        object: ObjectId,
    ) {
        for ((proxy, address), numbers) in pushes {
            let chunks = ChunkRanges::from_ascending(numbers);
            let push = TransportBody::Push { flow, chunks }.about(transfer, object);
            self.messages.push_back((proxy, address, token, push));
        }
    }
}

/// The dropped chunks of a flow, among those that have been sent.
fn reported_lost(flow: &Outflow, chunks: &ChunkRanges) -> u64 {
    chunks.iter().take_while(|number| *number < flow.next).count() as u64
}

/// A proxy on the way has promised to keep chunks.
fn on_stored(flow: &mut Outflow, proxy: (Guid, NetworkAddress), chunks: &ChunkRanges) {
    let of = |count: u32| chunks.iter().take_while(move |number| *number < count);
    let count = flow.count;
    flow.stored.extend(of(count).map(|number| (number, proxy)));
    flow.pause = DROP_PAUSE;
    for number in of(count) {
        flow.dropped.remove(&number);
        // It was reported missing earlier: it comes from the proxy.
        flow.again.remove(&number);
        flow.window.on_stored(number, &flow.held);
    }
}
/// A proxy on the way has dropped chunks: they are sent again after a pause, which doubles.
fn on_dropped(now: Time, flow: &mut Outflow, chunks: &ChunkRanges) {
    flow.lost += reported_lost(flow, chunks);
    if flow.options.reliability == Reliability::DontCare {
        return;
    }
    let next = flow.next;
    for number in chunks.iter().take_while(|number| *number < next) {
        flow.stored.remove(&number);
        flow.dropped.insert(number);
    }
    if flow.resume_at.is_none() {
        flow.resume_at = Some(now + flow.pause);
        flow.pause = (flow.pause * 2).min(DROP_PAUSE_MAX);
    }
}
