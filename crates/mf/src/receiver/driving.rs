//! What is due: the one message per window, repeated questions, ends.
use super::*;

impl Receiver {
    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.poll_timeout().is_some_and(|due| now.since(due) >= STOOD_STILL) {
            self.fetches.iter_mut().for_each(|(_, fetch)| fetch.lonely_since = now);
        }
        let mut ids: Vec<TransferId> = self.fetches.running().map(|(id, _)| id).collect();
        if self.fetches.limit.rate().is_some() {
            // Who has waited longest comes first.
            ids.sort_by_key(|id| self.fetches.get(*id).and_then(Incoming::grant_since));
        }
        for id in ids {
            let Some(fetch) = self.fetches.get_mut(id) else { continue };
            if let Some((_, found)) = fetch.gathered.take_if(|(until, _)| *until <= now) {
                self.decide(now, id, &found);
            }
            let Some(fetch) = self.fetches.get_mut(id) else { continue };
            if let Some(reassembly) = fetch.reassembly.as_mut().filter(|reassembly| reassembly.awaits_reader()) {
                let taken = reassembly.store_waiting();
                fetch.looked_at = now;
                if fetch.take_stored() {
                    fetch.lonely_since = now;
                }
                match taken {
                    Taken::Failed(reason) => {
                        self.fail(now, id, reason);
                        continue;
                    }
                    Taken::Wrong(wrong) => self.distrust(now, id, wrong),
                    Taken::Kept | Taken::Duplicate | Taken::Refused => {}
                }
                self.finish_if_complete(now, id);
            }
            if self.fetches.get(id).is_some_and(|fetch| fetch.request_since.is_some()) {
                self.request(now, id);
            }
            self.say_due(now, id);
            self.ask_doubted(now, id);
            let limit_ready = self.fetches.limit.ready_at();
            let Some(fetch) = self.fetches.get_mut(id).filter(|fetch| fetch.ended.is_none()) else { continue };
            let ready = fetch.limit.ready_at().max(limit_ready);
            if ready > now && fetch.grant_since().is_some() {
                // It is the limit that keeps the sources silent.
                fetch.lonely_since = now;
                fetch.nack_at = fetch.nack_at.max(ready + fetch.options.nack_timeout(&self.config));
            }
            if let Some(reassembly) = fetch.reassembly.as_ref().filter(|reassembly| reassembly.awaits_storage()) {
                // It is not the sources that keep silent.
                let has_all = !reassembly.is_open() || reassembly.missing().next().is_none();
                fetch.lonely_since = now;
                if has_all && fetch.nack_at <= now {
                    fetch.set_nack(now, fetch.options.nack_timeout(&self.config));
                }
            }
            if fetch.reassembly.as_ref().is_some_and(Reassembly::is_reader_behind) {
                // Nor is it here; the NACK timeout goes on, and says what there is room for.
                (fetch.lonely_since, fetch.nacks) = (now, 0);
            }
            if let Some(patience) = fetch.patience
                && now.since(fetch.lonely_since) >= patience
            {
                let reason = match self.attached {
                    true => fetch.lonely_reason(patience),
                    false => fetch.detached_reason(now),
                };
                self.fail(now, id, reason);
                continue;
            }
            let call_at =
                fetch.call_at(self.active_at, fetch.options.nack_timeout(&self.config)).filter(|_| self.attached);
            if call_at.is_some_and(|at| at <= now) {
                self.outbox.extend(fetch.call());
            }
            if fetch.nack_at <= now && self.attached && fetch.object.is_some() {
                // On a slow link a chunk may take longer than the timeout: while one comes, it is not missing.
                let timeout = fetch.options.nack_timeout(&self.config);
                let silence = fetch.suspicion_at(now).map_or(timeout, |suspicion| suspicion.patience);
                let heard = self.arriving.get(&(fetch.object, fetch.transfer)).filter(|heard| now < **heard + silence);
                let (heard, postponed_max) =
                    heard.map_or((self.active_at, POSTPONED_BY_OTHERS_MAX), |heard| (*heard, POSTPONED_MAX));
                let latest = fetch.lonely_since + timeout * postponed_max;
                let quiet_at = latest.min(heard + silence);
                if now < quiet_at {
                    fetch.nack_at = quiet_at;
                } else {
                    self.nack(now, id);
                }
            }
        }
    }
    /// Nothing has come for a long time: says what is missing, again and again (paper: NACK timeout).
    pub(super) fn nack(&mut self, now: Time, id: TransferId) {
        let Some(fetch) = self.fetches.get_mut(id) else { return };
        let timeout = fetch.options.nack_timeout(&self.config);
        fetch.tells_missing = true;
        fetch.suspicion = fetch.suspicion_at(now);
        match &mut fetch.suspicion {
            Some(suspicion) => suspicion.patience *= 2,
            None => fetch.nacks += 1,
        }
        if fetch.reliability == Reliability::DontCare && is_pushed(fetch.transfer) {
            return self.fail(now, id, "chunks are missing, and the sender does not care".into());
        }
        let nothing_yet = fetch.sender.is_none() || fetch.nacks > 1;
        if nothing_yet && !is_pushed(fetch.transfer) {
            let silent = fetch.sender.map(|(sender, _)| sender).or(fetch.asked);
            let number = silent.and_then(|guid| fetch.number_of(&guid));
            if let Some(source) = number.and_then(|number| fetch.sources.get_mut(number)) {
                source.state.away_until = now + timeout * AWAY_TIMEOUTS;
            }
            fetch.sender = None;
            self.request(now, id);
        } else {
            let window = fetch.highest_window.unwrap_or(0);
            fetch.status_at = Some((now, window));
            self.say_due(now, id);
        }
        if let Some(fetch) = self.fetches.get_mut(id) {
            fetch.set_nack(now, fetch.options.nack_timeout(&self.config));
        }
    }
    /// The one message per window, if it is due.
    pub(super) fn say_due(&mut self, now: Time, id: TransferId) {
        let (config, limit_ready, buffer) = (self.config.clone(), self.fetches.limit.ready_at(), self.buffer_of(id));
        let Some((fetch, shared)) = self.fetches.get_with_limit(id) else { return };
        if fetch.ended.is_some() {
            return;
        }
        let Some((_, window)) = fetch.status_at.filter(|(at, _)| *at <= now) else { return };
        let ready = fetch.limit.ready_at().max(limit_ready);
        // What is missing is said at once, and the window is opened when the limit lets it.
        let waits = ready > now && fetch.grants(window);
        if waits && !fetch.says_missing() {
            return;
        }
        let (Some(reassembly), Some((to, address)), Some(object)) = (&fetch.reassembly, fetch.sender, fetch.object)
        else {
            // Nobody sends any more: there is nobody to tell.
            fetch.status_at = None;
            return;
        };
        let share = reassembly.buffered_bytes() * 100 / buffer.max(1);
        // Window notice (reference/mobilityfirst): below 50 % increase, 50 to 80 % decrease, above 80 % stop.
        let chunk_bytes = reassembly.cut().map_or(config.chunk_bytes, |(chunk_bytes, _)| chunk_bytes);
        let most = (buffer / u64::from(chunk_bytes.max(1)) / 4).clamp(1, u64::from(u16::MAX)) as u16;
        let most = most.min(config.window_chunks_max);
        let room = buffer.saturating_sub(reassembly.buffered_bytes()) / u64::from(chunk_bytes.max(1));
        let rate = fetch.limit.rate().into_iter().chain(shared.rate()).min();
        let advice = match (share, rate) {
            _ if waits => 0,
            (0..50, Some(rate)) => {
                let size = reassembly.manifest().size;
                let chunks = |time| limited_window(rate, time, chunk_bytes, size).min(most);
                // It could have been opened earlier: the windows are too short for the round trip.
                let is_late = now.since(ready) > LIMIT_BURST;
                let wanted = if is_late { fetch.window_chunks.saturating_mul(2) } else { fetch.window_chunks };
                wanted.clamp(chunks(LIMITED_WINDOW), chunks(LIMITED_WINDOW_MAX))
            }
            (0..50, None) => fetch.window_chunks.saturating_mul(2).min(most),
            // The window before may still come, and has to find room beside this one.
            (50..=80, _) => {
                let left = room.saturating_sub(u64::from(fetch.window_chunks));
                (fetch.window_chunks / 2).max(1).min(u16::try_from(left).unwrap_or(u16::MAX))
            }
            _ => 0,
        };
        if advice == 0 && fetch.stopped && !fetch.says_missing() {
            // It has been told to stop.
            fetch.status_at = Some((now + LOOK_AGAIN, window));
            return;
        }
        fetch.stopped = advice == 0 && !waits;
        if advice > 0 {
            fetch.window_chunks = advice;
            let windows =
                (u64::from(window) + 1).saturating_sub(fetch.granted.map_or(0, |granted| u64::from(granted) + 1));
            let bytes = fetch.take_grant(windows * u64::from(advice), chunk_bytes);
            fetch.limit.on_pass(now, bytes);
            shared.on_pass(now, bytes);
            fetch.granted = fetch.granted.max(Some(window));
        }
        let told = if waits { fetch.granted.unwrap_or(0) } else { window };
        fetch.sequence += 1;
        // What there is no room for would come in vain.
        let missing = fetch.take_missing(if share < 50 { usize::MAX } else { room.max(1) as usize });
        let message = TransportMessage::Status {
            transfer: fetch.transfer,
            object,
            window: on_wire(told),
            advice_chunks: advice,
            sequence: fetch.sequence,
            missing,
        };
        if !waits {
            fetch.status_at = fetch.stopped.then(|| (now + LOOK_AGAIN, window));
        }
        self.outbox.push_back(match fetch.avoid_caches {
            // The network finds the source: the address may be that of storage which answers for it.
            true => {
                Outgoing { flags: Flags::NO_CACHE, ..Outgoing::new(to, NetworkAddress::NONE, fetch.token, message) }
            }
            false => Outgoing { proxies: fetch.proxies, ..Outgoing::new(to, address, fetch.token, message) },
        });
    }
    pub(super) fn finish_if_complete(&mut self, now: Time, id: TransferId) {
        let Some(fetch) = self.fetches.get_mut(id).filter(|fetch| fetch.ended.is_none()) else { return };
        let Some(reassembly) = fetch.reassembly.as_mut().filter(|reassembly| reassembly.is_complete()) else { return };
        if !fetch.kept_for.is_empty() {
            // Before it has its name: what custodians hear then is true even if its bytes were still in memory.
            match reassembly.sync() {
                Ok(true) => {}
                Ok(false) => return,
                Err(reason) => return self.fail(now, id, reason),
            }
        }
        match reassembly.finish() {
            Ok(true) => {}
            Ok(false) => return,
            Err(reason) => return self.fail(now, id, reason),
        }
        fetch.ended = Some(now);
        // The account is kept; a store in memory would hold the object as long.
        let size = reassembly.manifest().size;
        fetch.kept = (size, size);
        fetch.reassembly = None;
        self.outbox.extend(fetch.overs());
        let told = fetch.answers(CustodyState::Taken, |_, _| true);
        self.answers.extend(told);
        self.done.push_back(fetch.name.clone());
        let pushed = is_pushed(fetch.transfer);
        fetch.events.push_back(TransferEvent::Completed);
        if pushed {
            self.tell_ready();
        }
    }
    pub(super) fn fail(&mut self, now: Time, id: TransferId, reason: String) {
        let Some(fetch) = self.fetches.get_mut(id) else { return };
        fetch.ended = Some(now);
        fetch.failure = Some(reason.clone());
        fetch.kept = fetch.sizes();
        let is_kept = is_pushed(fetch.transfer) && !fetch.kept_for.is_empty();
        // What a custodian keeps, and there is no room for on the disk, may come again when there is.
        let comes_again = is_kept && fetch.reassembly.as_ref().is_some_and(Reassembly::may_succeed_later);
        fetch.reassembly = None;
        // Who sends has nothing more to do for it.
        match is_pushed(fetch.transfer) {
            true if comes_again => {}
            true => self.outbox.extend(fetch.refusal()),
            false => self.outbox.extend(fetch.overs()),
        }
        let state = if comes_again { CustodyState::Lost } else { CustodyState::Over };
        let told = fetch.answers(state, |_, _| true);
        self.answers.extend(told);
        if comes_again {
            self.pushed.retain(|_, known| *known != id);
        }
        if is_pushed(fetch.transfer) {
            self.tell_ready();
        }
        let Some(fetch) = self.fetches.get_mut(id) else { return };
        self.done.push_back(fetch.name.clone());
        fetch.events.push_back(TransferEvent::Failed { reason });
    }
    /// What to send.
    pub fn poll_message(&mut self) -> Option<Outgoing> {
        self.outbox.pop_front()
    }
    /// What happened.
    pub fn poll_event(&mut self) -> Option<(TransferId, TransferEvent)> {
        if self.fetches.is_empty() {
            return None;
        }
        self.collect_events();
        self.fetches.poll_event()
    }
    pub(super) fn collect_events(&mut self) {
        self.fetches.collect_events(|fetch| fetch.events.pop_front());
    }
    /// A name that no fetch needs announcements of any more.
    pub fn poll_done(&mut self) -> Option<Name> {
        while let Some(name) = self.done.pop_front() {
            if !self.wants(&name) {
                return Some(name);
            }
        }
        None
    }
    /// When to call [`Receiver::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        let due = self.fetches.running().flat_map(|(_, fetch)| {
            let ready = fetch.limit.ready_at().max(self.fetches.limit.ready_at());
            let status = fetch.status_at.map(|(at, window)| if fetch.grants(window) { at.max(ready) } else { at });
            let request = fetch.request_since.map(|since| since.max(ready));
            let nack = Some(fetch.nack_at).filter(|_| self.attached && fetch.object.is_some());
            let patience = fetch.patience.map(|patience| fetch.lonely_since + patience);
            let reader = fetch.reassembly.as_ref().is_some_and(Reassembly::awaits_reader);
            let reader = reader.then(|| fetch.looked_at + LOOK_AGAIN);
            let call =
                fetch.call_at(self.active_at, fetch.options.nack_timeout(&self.config)).filter(|_| self.attached);
            let doubted =
                fetch.sources.iter().filter_map(|(_, source)| source.state.ask_at()).min().filter(|_| self.attached);
            let gathered = fetch.gathered.as_ref().map(|(until, _)| *until);
            [nack, patience, status, request, reader, call, doubted, gathered]
        });
        due.flatten().min()
    }
}
