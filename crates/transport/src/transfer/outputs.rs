//! Outputs of a fetch: requests, deadlines, events, questions, and its end.
use super::*;

impl Transfer {
    /// The next request to send at `now`, within the limits of this transfer and of all transfers together (`shared`).
    pub fn poll_request(&mut self, now: Time, shared: &mut Shared) -> Option<PacketRequest> {
        self.polled_at = now;
        self.held_until = None;
        self.note_rules(now, &shared.faces);
        if self.record.is_ended() || self.running.is_none() {
            return None;
        }
        if self.limit.ready_at() > now || shared.limit.ready_at() > now {
            self.paths.values_mut().filter_map(|path| path.flow.as_mut()).for_each(Flow::on_starved);
            return None;
        }
        // This runs after every packet, when the windows are mostly full.
        let has_room = |path: &Path| path.flow.as_ref().is_some_and(|flow| flow.room(now) > 0);
        if !self.paths.values().any(has_room) {
            return None;
        }
        let request = match shared.faces.is_plain() {
            true => self.request_in_turn(now, None),
            false => self.request_by_rank(now, &shared.faces),
        };
        let Some(request) = request else {
            self.awaits_search = self.search_at > now;
            if !self.awaits_search {
                self.search_at = now + SEARCH_PAUSE;
            }
            return None;
        };
        let bytes =
            request.ranges.iter().map(|&(_, count)| u64::from(count)).sum::<u64>() * u64::from(request.packet_bytes);
        self.limit.on_pass(now, bytes);
        shared.limit.on_pass(now, bytes);
        self.note_request(now, request.path, bytes, &mut shared.faces);
        self.last_path = request.path;
        Some(request)
    }
    /// The next request of the paths of one rank, or of all paths, that are not held. They take turns.
    pub(super) fn request_in_turn(&mut self, now: Time, rank: Option<Rank>) -> Option<PacketRequest> {
        let from = self.last_path;
        let (mut next, mut has_wrapped) = (self.path_after(Some(from)), false);
        loop {
            let id = match next {
                Some(id) if has_wrapped && id > from => return None,
                Some(id) => id,
                None if has_wrapped => return None,
                None => {
                    (next, has_wrapped) = (self.path_after(None), true);
                    continue;
                }
            };
            if self.is_due(id, rank)
                && let Some(request) = self.request_on(now, id)
            {
                return Some(request);
            }
            next = self.path_after(Some(id));
        }
    }
    /// The next path in use, or the first one for `None`.
    pub(super) fn path_after(&self, path: Option<PathId>) -> Option<PathId> {
        let above = path.map_or(Bound::Unbounded, Bound::Excluded);
        self.paths.range((above, Bound::Unbounded)).find(|(_, path)| path.flow.is_some()).map(|(id, _)| *id)
    }
    /// When to call [`Transfer::handle_timeout`] or poll for requests again.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.record.is_ended() {
            return None;
        }
        let mut due = earlier(self.patience.deadline(), self.held_until.filter(|until| *until > self.polled_at));
        for path in self.paths.values() {
            due = earlier(due, path.flow.as_ref().and_then(|flow| flow.deadline(self.polled_at)));
        }
        let Some(running) = &self.running else { return due };
        due = earlier(due, Some(self.limit.ready_at()).filter(|ready| *ready > self.polled_at));
        due = earlier(due, running.partials.next_poll(self.polled_at));
        due = earlier(due, self.awaits_search.then_some(self.search_at).filter(|at| *at > self.polled_at));
        earlier(
            due,
            (running.awaits_reader() && running.writer.must_be_looked_at()).then(|| self.polled_at + READER_INTERVAL),
        )
    }
    /// The next event.
    pub fn poll_event(&mut self) -> Option<TransferEvent> {
        self.record.poll_event()
    }

    // Questions.

    /// Whether wrong bytes arrived on a path: it is closed for good.
    pub fn is_altered(&self, path: PathId) -> bool {
        self.paths.get(&path).is_some_and(|path| path.altered.is_some())
    }

    /// The name of the object.
    pub fn name(&self) -> &Name {
        &self.name
    }
    /// The chosen object's manifest.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.running.as_ref().map(|running| running.writer.manifest())
    }
    /// Whether it has ended, one way or the other.
    pub fn is_ended(&self) -> bool {
        self.record.is_ended()
    }
    /// The account so far.
    pub fn report(&self, now: Time) -> TransferReport {
        let paths = self.paths.iter().map(|(id, path)| self.path_report(now, *id, path)).collect();
        let mut report = self.record.report(self.sizes().unwrap_or_default(), self.sources.reports(), paths);
        self.bulk.iter().for_each(|bulk| bulk.add_to(now, &mut report));
        report
    }

    // Ends.

    pub(super) fn finish_if_complete(&mut self, now: Time) {
        let Some(running) = self.running.as_mut().filter(|_| !self.record.is_ended()) else { return };
        running.refresh_wishes();
        if !running.writer.is_complete() || running.writer.awaits_storage() {
            return;
        }
        match running.writer.finish() {
            Ok(_) => self.take_written(now),
            Err(error) => self.fail(now, error.to_string()),
        }
    }
    pub(super) fn fail(&mut self, now: Time, reason: String) {
        if self.record.is_ended() {
            return;
        }
        self.opening = None;
        if let Some(running) = &mut self.running {
            running.close();
        }
        self.record.fail(now, reason);
    }
    /// The wanted bytes of the fetch, and how many of them are stored, once the object is chosen.
    pub(super) fn sizes(&self) -> Option<(u64, u64)> {
        self.running.as_ref().map(|running| running.writer.sizes())
    }
    pub(super) fn silence_reason(&self) -> String {
        let (name, patience) = (&self.name, self.patience.limit());
        let mut reason = self.sources.silence_reason(name, patience, self.sizes());
        if let Some(why) = self.why_all_are_left_out() {
            reason = format!("{reason}; no path may be used: {why}");
        }
        match (&self.obstacle, &self.refusal) {
            _ if self.running.is_some() || !self.sources.is_empty() => reason,
            (Some(obstacle), _) => {
                format!("'{name}' could not be fetched from the sources that answered within {patience:?}: {obstacle}")
            }
            (None, Some(refusal)) => format!("{reason}: {refusal}"),
            (None, None) => reason,
        }
    }
    /// Ends the fetch if every source is refused or closed.
    pub(super) fn end_if_hopeless(&mut self, now: Time) {
        let complete = self.running.as_ref().is_some_and(|running| running.writer.has_all_wanted());
        let is_running = !self.record.is_ended() && !self.sources.is_empty();
        // Mirrors are useful only once the hash list shows which bytes are right.
        let has_mirrors = self.running.as_ref().is_some_and(|running| running.writer.has_tree()) && self.has_mirrors();
        if !self.sources.any_usable() && !complete && !has_mirrors && is_running {
            self.fail(now, self.hopeless_reason());
        }
    }
    pub(super) fn hopeless_reason(&self) -> String {
        let mut reason = self.sources.hopeless_reason(&self.name);
        if let Some(running) = self.running.as_ref().filter(|running| running.writer.stored_bytes() > 0) {
            reason.push_str(&format!(
                "; {} of {} bytes are verified and kept",
                running.writer.stored_bytes(),
                running.writer.manifest().size
            ));
        }
        if let Some(bulk) = self.bulk.as_ref().filter(|bulk| !bulk.source_reports().is_empty()) {
            reason.push_str(&format!("; mirrors: {}", bulk.hopeless_reason()));
        }
        reason
    }
}
