//! Timers: repeated requests and NACKs, liveness probes, the end of the patience with sources.
use super::*;

impl Receiver {
    /// Runs the timers that are due.
    pub fn handle_timeout(&mut self, now: Time) {
        let due = self.poll_timeout();
        for (_, fetch) in self.fetches.iter_mut() {
            fetch.patience.restart_after_standstill(now, due);
        }
        let mut ids: Vec<TransferId> = self.fetches.running().map(|(id, _)| id).collect();
        if self.fetches.shared.limit.rate().is_some() {
            // The transfer that has waited longest goes first.
            ids.sort_by_key(|id| self.fetches.get(*id).and_then(Incoming::grant_since));
        }
        for id in ids {
            let gathered =
                self.fetches.get_mut(id).and_then(|fetch| fetch.gathered.take_if(|(until, _)| *until <= now));
            if let Some((_, found)) = gathered {
                self.decide(now, id, &found);
            }
            self.store_for_reader(now, id);
            self.look_at_reader(now, id);
            if self.fetches.get(id).is_some_and(|fetch| fetch.credit.request_since.is_some()) {
                self.request(now, id);
            }
            self.send_status(now, id);
            self.request_of_suspects(now, id);
            self.look_at_sources(now, id);
        }
    }
    /// Stores chunks that waited for the reader of an in-order stream, as far as it has continued.
    fn store_for_reader(&mut self, now: Time, id: TransferId) {
        let Some(fetch) = self.fetches.get_mut(id) else { return };
        let Some(reassembly) = fetch.reassembly.as_mut().filter(|reassembly| reassembly.awaits_reader()) else {
            return;
        };
        let taken = reassembly.store_waiting();
        fetch.reader_checked_at = now;
        if fetch.take_stored() {
            fetch.patience.restart(now);
        }
        match taken {
            Taken::Failed(reason) => self.fail(now, id, reason),
            Taken::Wrong(wrong) => self.distrust(now, id, wrong),
            Taken::Kept | Taken::Duplicate | Taken::Refused => {}
        }
        self.settle(now, id);
    }
    /// Polls the readers' wishes for a part of an object, if no wake-up reports their changes.
    fn look_at_reader(&mut self, now: Time, id: TransferId) {
        let Some(fetch) = self.fetches.get_mut(id).filter(|fetch| !fetch.record.is_ended()) else { return };
        let must_look = |reassembly: &&mut Reassembly| reassembly.writer.must_be_looked_at();
        let Some(reassembly) = fetch.reassembly.as_mut().filter(must_look) else { return };
        if fetch.reader_checked_at + LOOK_AGAIN <= now {
            fetch.reader_checked_at = now;
            if reassembly.writer.refresh_wishes() {
                self.on_wishes(now, id);
            }
        }
    }
    /// Ends the fetch, probes the sender or sends a NACK if the sources have been silent for long enough.
    fn look_at_sources(&mut self, now: Time, id: TransferId) {
        self.excuse_sources(now, id);
        let Some(fetch) = self.fetches.get_mut(id).filter(|fetch| !fetch.record.is_ended()) else { return };
        if fetch.patience.is_over(now) {
            let reason = fetch.silence_reason(now, self.attached);
            return self.fail(now, id, reason);
        }
        if !self.attached {
            return;
        }
        let timeout = fetch.nack_timeout(&self.config);
        if fetch.probe_at(self.active_at, timeout).is_some_and(|at| at <= now) {
            self.outbox.extend(fetch.probe());
        }
        if fetch.nack.due > now || fetch.object.is_none() {
            return;
        }
        // On a slow link a chunk may take longer than the timeout: during its arrival it is not missing.
        let silence = fetch.nack.timeout_at(now, timeout);
        let heard = self.arriving.get(&(fetch.object, fetch.transfer)).filter(|heard| now < **heard + silence);
        let (heard, postponed_max) =
            heard.map_or((self.active_at, POSTPONED_BY_OTHERS_MAX), |heard| (*heard, POSTPONED_MAX));
        let quiet_at = (fetch.patience.since() + timeout * postponed_max).min(heard + silence);
        if now < quiet_at {
            fetch.nack.due = quiet_at;
        } else {
            self.nack(now, id);
        }
    }
    /// Sources are not to blame for silence while it is this end that holds them up.
    fn excuse_sources(&mut self, now: Time, id: TransferId) {
        let Some((fetch, shared)) = self.fetches.get_with_limit(id) else { return };
        if fetch.record.is_ended() {
            return;
        }
        let timeout = fetch.nack_timeout(&self.config);
        let ready = fetch.credit.ready_at(shared);
        if ready > now && fetch.grant_since().is_some() {
            fetch.patience.restart(now);
            fetch.nack.put_off(ready + timeout);
        }
        let Some(reassembly) = &fetch.reassembly else { return };
        if reassembly.writer.awaits_storage() {
            fetch.patience.restart(now);
            let has_all = !reassembly.writer.is_open() || reassembly.missing().next().is_none();
            if has_all && fetch.nack.due <= now {
                fetch.nack.restart(now, timeout);
            }
        }
        if reassembly.is_reader_behind() || reassembly.awaits_wishes() {
            if reassembly.awaits_wishes() && fetch.nack.due <= now {
                // Nothing is missing.
                fetch.nack.restart(now, timeout);
            }
            // The NACK timer continues: the NACK reports the buffer's free space.
            fetch.patience.restart(now);
            fetch.nack.in_vain = 0;
        }
    }
    /// After a long silence, repeatedly reports the missing chunks (paper: NACK timeout).
    pub(super) fn nack(&mut self, now: Time, id: TransferId) {
        let Some(fetch) = self.fetches.get_mut(id).filter(|fetch| !fetch.record.is_ended()) else { return };
        let timeout = fetch.nack_timeout(&self.config);
        fetch.missing.all = true;
        fetch.nack.on_timeout(now);
        if fetch.reliability == Reliability::DontCare && is_pushed(fetch.transfer) {
            return self.fail(now, id, "chunks are missing, and the sender does not care".into());
        }
        let is_silent = fetch.serving.sender.is_none() || fetch.nack.in_vain > 1;
        if is_silent && !is_pushed(fetch.transfer) {
            let silent = fetch.serving.sender.map(|(sender, _)| sender).or(fetch.serving.requested);
            if let Some(source) = silent.and_then(|guid| fetch.source_of_mut(&guid)) {
                source.state.on_away(now, timeout);
            }
            fetch.serving.sender = None;
            self.request(now, id);
        } else {
            fetch.windows.status = Some((now, fetch.windows.highest()));
            self.send_status(now, id);
        }
        if let Some(fetch) = self.fetches.get_mut(id) {
            fetch.nack.restart(now, timeout);
        }
    }
    /// When to call [`Receiver::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        let due = self.fetches.running().flat_map(|(_, fetch)| {
            let ready = fetch.credit.ready_at(&self.fetches.shared.limit);
            let status = fetch.windows.status;
            let status = status.map(|(at, window)| if fetch.credit.grants(window) { at.max(ready) } else { at });
            let request = fetch.credit.request_since.map(|since| since.max(ready));
            let looks = |reassembly: &Reassembly| reassembly.awaits_reader() || reassembly.writer.must_be_looked_at();
            let reader = fetch.reassembly.as_ref().is_some_and(looks);
            let reader = reader.then(|| fetch.reader_checked_at + LOOK_AGAIN);
            let gathered = fetch.gathered.as_ref().map(|(until, _)| *until);
            let nack = Some(fetch.nack.due).filter(|_| fetch.object.is_some());
            let probe = fetch.probe_at(self.active_at, fetch.nack_timeout(&self.config));
            let trial = fetch.sources.iter().filter_map(|(_, source)| source.state.trial_due()).min();
            let of_sources = [nack, probe, trial].map(|due| due.filter(|_| self.attached));
            [fetch.patience.deadline(), status, request, reader, gathered].into_iter().chain(of_sources)
        });
        due.flatten().min()
    }
}
