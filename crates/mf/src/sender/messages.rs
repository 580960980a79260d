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
        match message {
            TransportMessage::Status { transfer, object, window, advice_chunks, sequence, missing } => {
                if let Some((id, flow)) = self.group_flow(token, *transfer, *object) {
                    flow.heard_at = now;
                    let next = flow.next;
                    let missing = || missing.iter().take_while(|number| *number < next);
                    if past_copies {
                        flow.past_copies.extend(missing());
                    }
                    let Some(group) = &mut flow.group else { return };
                    let pushes = group.on_missing(now, (from, address), *sequence, missing(), &flow.past_copies);
                    return self.push_from(pushes, token, Flow { source: own, destination: from }, id.1, *object);
                }
                let is_meant = |flow: &&mut Outflow| flow.is_of(*object, token);
                let Some(flow) = self.flows.get_mut(&(from, *transfer)).filter(is_meant) else { return };
                if !flow.reports.is_news(now, *sequence) {
                    return;
                }
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
                self.push_from(pushes, token, Flow { source: own, destination: from }, *transfer, *object);
            }
            TransportMessage::Ack { transfer, object, complete, chunks } => {
                if let Some((id, flow)) = self.group_flow(token, *transfer, *object) {
                    flow.heard_at = now;
                    let Some(group) = flow.group.as_mut().filter(|_| *complete) else { return };
                    group.on_complete(from);
                    if group.is_over() {
                        self.end(id);
                    }
                    return;
                }
                let id = (from, *transfer);
                let is_meant = |flow: &&mut Outflow| flow.is_of(*object, token);
                let Some(flow) = self.flows.get_mut(&id).filter(is_meant) else { return };
                for number in chunks.iter().take_while(|number| *number < flow.count) {
                    flow.unacknowledged.remove(&number);
                    flow.again.remove(&number);
                }
                flow.on_word(now, patience);
                if *complete {
                    flow.delivered = true;
                    self.end(id);
                }
            }
            TransportMessage::Completed { transfer, object, members } => {
                if let Some((id, flow)) = self.group_flow(token, *transfer, *object) {
                    flow.heard_at = now;
                    // Only proxies that the source has asked to speak for members do.
                    let speaks = flow.options.proxies > 0;
                    let Some(group) = flow.group.as_mut().filter(|_| speaks) else { return };
                    members.iter().for_each(|member| group.on_complete(*member));
                    if group.is_over() {
                        self.end(id);
                    }
                }
            }
            TransportMessage::Stored { flow, transfer, object, proxy, address, chunks } => {
                let of = |count: u32| chunks.iter().take_while(move |number| *number < count);
                if let Some((_, state)) = self.group_flow(token, *transfer, *object) {
                    let count = state.count;
                    if let Some(group) = state.group.as_mut().filter(|_| flow.source == own) {
                        group.on_stored(flow.destination, (*proxy, *address), of(count));
                    }
                    return;
                }
                if let Some(state) = self.own_flow(token, flow, *transfer, *object) {
                    let count = state.count;
                    state.stored.extend(of(count).map(|number| (number, (*proxy, *address))));
                    state.pause = DROP_PAUSE;
                    for number in of(count) {
                        state.dropped.remove(&number);
                        // Said to be missing before this was known: it comes from there.
                        state.again.remove(&number);
                        state.window.on_stored(number, &state.held);
                    }
                }
            }
            TransportMessage::Dropped { flow, transfer, object, chunks, .. } => {
                let told = |state: &Outflow| chunks.iter().take_while(|number| *number < state.next).count() as u64;
                if let Some((_, state)) = self.group_flow(token, *transfer, *object) {
                    if flow.source == own {
                        state.lost += told(state);
                        state.group.iter_mut().for_each(|group| group.on_dropped(flow.destination, chunks));
                    }
                    return;
                }
                if let Some(state) = self.own_flow(token, flow, *transfer, *object) {
                    state.lost += told(state);
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
                }
            }
            TransportMessage::KeptFor { flow, transfer, object, lifetime_ms } => {
                let kept = Duration::from_millis(u64::from(*lifetime_ms));
                let known = match self.group_flow(token, *transfer, *object) {
                    Some((_, state)) => Some(state),
                    None => self.own_flow(token, flow, *transfer, *object),
                };
                if let Some(state) = known {
                    state.kept_for = Some(state.kept_for.map_or(kept, |known| known.min(kept)));
                }
            }
            TransportMessage::Unavailable { transfer, object } => {
                if let Some((id, flow)) = self.group_flow(token, *transfer, *object) {
                    flow.heard_at = now;
                    let Some(group) = &mut flow.group else { return };
                    group.on_refused(from);
                    if group.is_over() {
                        self.end(id);
                    }
                    return;
                }
                let id = (from, *transfer);
                let is_meant = |flow: &&mut Outflow| flow.is_of(*object, token) && !flow.requested;
                let Some(flow) = self.flows.get_mut(&id).filter(is_meant) else { return };
                flow.refused = true;
                self.end(id);
            }
            TransportMessage::Request { .. }
            | TransportMessage::Push { .. }
            | TransportMessage::Custody { .. }
            | TransportMessage::Unreadable { .. } => {}
        }
    }
    fn own_flow(&mut self, token: Token, flow: &Flow, transfer: u32, object: ObjectId) -> Option<&mut Outflow> {
        let state = self.flows.get_mut(&(flow.destination, transfer))?;
        (flow.source == self.own && state.is_of(object, token)).then_some(state)
    }
    /// A flow to a group: members answer in their own names.
    fn group_flow(&mut self, token: Token, transfer: u32, object: ObjectId) -> Option<((Guid, u32), &mut Outflow)> {
        let mine = |(id, flow): &(&(Guid, u32), &mut Outflow)| {
            id.1 == transfer && flow.is_of(object, token) && flow.group.is_some()
        };
        self.flows.iter_mut().find(mine).map(|(id, flow)| (*id, flow))
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
