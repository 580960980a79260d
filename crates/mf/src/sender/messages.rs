//! What receivers and proxies say to the sender.
use super::*;

impl Sender {
    /// Takes a message of a receiver or a proxy, which came under `header`. It counts for what has the token that the header
    /// shows.
    pub fn handle_message(&mut self, now: Time, header: &ChunkHeader, message: &TransportMessage) {
        let (own, from, address) = (self.own, header.source, header.source_address);
        let Some(token) = header.token() else { return };
        // Somebody on the way may have changed what it has.
        let past_copies = header.flags.contains(Flags::NO_CACHE);
        let patience = self.remind_first();
        let (transfer, object) = message.about();
        if let Some(id) = self.group_flow(token, transfer, object) {
            return self.on_word_of_group(now, header, message, id);
        }
        match message {
            TransportMessage::Status { window, advice_chunks, sequence, missing, .. } => {
                let id = (from, transfer);
                let Some(flow) = self.flows.get(&id).filter(|flow| flow.is_of(object, token)) else { return };
                let mut reports = flow.reports;
                if !reports.is_news(now, *sequence) {
                    return;
                }
                let pushes = self.flows.change(&id, |flow| {
                    flow.reports = reports;
                    flow.on_word(now, patience);
                    if !address.is_none() && flow.addresses.len() <= 1 {
                        flow.addresses = Vec::from([address]);
                    }
                    let (confirmed, begun) = (flow.window.confirmed, flow.window.begun.len());
                    let said = nearest_window(*window, confirmed as u32) as usize + 1;
                    flow.window.confirmed = confirmed.max(said.min(begun));
                    flow.window.advice = *advice_chunks;
                    if !missing.is_empty() {
                        // What goes again now is not taken for lost while it is on its way.
                        flow.ack_at.iter_mut().for_each(|at| *at = (*at).max(now + ACK_PATIENCE));
                    }
                    let mut pushes: BTreeMap<(Guid, NetworkAddress), Vec<u32>> = BTreeMap::new();
                    for number in missing.iter().take_while(|number| *number < flow.next) {
                        if past_copies {
                            flow.past_copies.insert(number);
                        }
                        match flow.stored.remove(&number) {
                            // The network's copy is nearer (paper §3.3); if it does not come either, this end sends it.
                            Some(proxy) if !past_copies => pushes.entry(proxy).or_default().push(number),
                            _ => drop(flow.again.insert(number)),
                        }
                    }
                    pushes
                });
                let flow = Flow { source: own, destination: from };
                self.push_from(pushes.unwrap_or_default(), token, flow, transfer, object);
            }
            TransportMessage::Ack { complete, chunks, .. } => {
                let id = (from, transfer);
                if self.flows.get(&id).is_none_or(|flow| !flow.is_of(object, token)) {
                    return;
                }
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
            TransportMessage::Stored { flow, proxy, address, chunks, .. } => {
                self.change_own(token, flow, transfer, object, |state| {
                    let of = |count: u32| chunks.iter().take_while(move |number| *number < count);
                    let count = state.count;
                    state.stored.extend(of(count).map(|number| (number, (*proxy, *address))));
                    state.pause = DROP_PAUSE;
                    for number in of(count) {
                        state.dropped.remove(&number);
                        // Said to be missing before this was known: it comes from there.
                        state.again.remove(&number);
                        state.window.on_stored(number, &state.held);
                    }
                });
            }
            TransportMessage::Dropped { flow, chunks, .. } => {
                self.change_own(token, flow, transfer, object, |state| {
                    state.lost += told_lost(state, chunks);
                    if state.options.reliability == Reliability::DontCare {
                        return;
                    }
                    let next = state.next;
                    for number in chunks.iter().take_while(|number| *number < next) {
                        state.stored.remove(&number);
                        state.dropped.insert(number);
                    }
                    if state.resume_at.is_none() {
                        state.resume_at = Some(now + state.pause);
                        state.pause = (state.pause * 2).min(DROP_PAUSE_MAX);
                    }
                });
            }
            TransportMessage::KeptFor { flow, lifetime_ms, .. } => {
                let kept = Duration::from_millis(u64::from(*lifetime_ms));
                self.change_own(token, flow, transfer, object, |state| state.on_kept_for(kept));
            }
            TransportMessage::Unavailable { .. } => {
                let id = (from, transfer);
                let is_meant = |flow: &&Outflow| flow.is_of(object, token) && !flow.requested;
                if self.flows.get(&id).filter(is_meant).is_some() {
                    self.flows.change(&id, |flow| flow.refused = true);
                    self.end(id);
                }
            }
            TransportMessage::Completed { .. }
            | TransportMessage::Request { .. }
            | TransportMessage::Push { .. }
            | TransportMessage::Custody { .. }
            | TransportMessage::Unreadable { .. } => {}
        }
    }
    /// A message of a member, or of a proxy, about something that goes to a group: members answer in their own names.
    fn on_word_of_group(&mut self, now: Time, header: &ChunkHeader, message: &TransportMessage, id: FlowId) {
        let (own, from, address) = (self.own, header.source, header.source_address);
        let past_copies = header.flags.contains(Flags::NO_CACHE);
        // Who is no member does not count as one for having spoken.
        self.tell_members_again(id);
        let told = self.flows.change(&id, |flow| {
            let (token, count, next) = (flow.token, flow.count, flow.next);
            // Only proxies that the source has asked to speak for members do.
            let speaks = flow.options.proxies > 0;
            let Some(group) = &mut flow.group else { return None };
            match message {
                TransportMessage::Status { sequence, missing, .. } => {
                    flow.heard_at = now;
                    let missing = || missing.iter().take_while(|number| *number < next);
                    if past_copies {
                        flow.past_copies.extend(missing());
                    }
                    let pushes = group.on_missing(now, (from, address), *sequence, missing(), &flow.past_copies);
                    return Some((token, pushes));
                }
                TransportMessage::Ack { complete, .. } => {
                    flow.heard_at = now;
                    if *complete {
                        group.on_complete(from);
                    }
                }
                TransportMessage::Completed { members, .. } => {
                    flow.heard_at = now;
                    if speaks {
                        members.iter().for_each(|member| group.on_complete(*member));
                    }
                }
                TransportMessage::Unavailable { .. } => {
                    flow.heard_at = now;
                    group.on_refused(from);
                }
                TransportMessage::Stored { flow, proxy, address, chunks, .. } if flow.source == own => {
                    let chunks = chunks.iter().take_while(|number| *number < count);
                    group.on_stored(flow.destination, (*proxy, *address), chunks);
                }
                TransportMessage::Dropped { flow: of, chunks, .. } if of.source == own => {
                    group.on_dropped(of.destination, chunks);
                    flow.lost += told_lost(flow, chunks);
                }
                TransportMessage::KeptFor { lifetime_ms, .. } => {
                    flow.on_kept_for(Duration::from_millis(u64::from(*lifetime_ms)));
                }
                TransportMessage::Stored { .. }
                | TransportMessage::Dropped { .. }
                | TransportMessage::Request { .. }
                | TransportMessage::Push { .. }
                | TransportMessage::Custody { .. }
                | TransportMessage::Unreadable { .. } => {}
            }
            None
        });
        if let Some((token, pushes)) = told.flatten() {
            let flow = Flow { source: own, destination: from };
            return self.push_from(pushes, token, flow, id.1, message.about().1);
        }
        let ends = matches!(
            message,
            TransportMessage::Ack { .. } | TransportMessage::Completed { .. } | TransportMessage::Unavailable { .. }
        );
        if ends && self.flows.get(&id).and_then(|flow| flow.group.as_ref()).is_some_and(Group::is_over) {
            self.end(id);
        }
    }
    /// Changes the flow of a transfer that somebody on the way speaks of.
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
    /// Tells proxies to send what they have for a flow.
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
            let push = TransportMessage::Push { flow, transfer, object, chunks };
            self.messages.push_back((proxy, address, token, push));
        }
    }
}

/// Chunks of a flow that were dropped on the way, of those that have left.
fn told_lost(flow: &Outflow, chunks: &ChunkRanges) -> u64 {
    chunks.iter().take_while(|number| *number < flow.next).count() as u64
}
