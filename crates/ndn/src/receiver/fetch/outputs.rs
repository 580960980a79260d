//! Outputs of a fetch: probes, requests, deadlines and events.
use super::*;

impl Fetching {
    pub(in crate::internals::receiver) fn poll_interest(
        &mut self,
        now: Time,
        shared: &mut Shared,
        random: &mut Random,
    ) -> Option<Outgoing> {
        if self.is_quiet(now) {
            return None;
        }
        let next = self.next_interest(now, shared, random);
        self.quiet_until = if next.is_none() && self.version.is_none() { self.poll_timeout() } else { None };
        next
    }
    fn next_interest(&mut self, now: Time, shared: &mut Shared, random: &mut Random) -> Option<Outgoing> {
        if let Some(probe) = self.poll_probe(now, random) {
            return Some(probe);
        }
        if let Some(waiting) = self.waiting.pop_front() {
            return Some(waiting);
        }
        let pause = self.probe_pause();
        if let Some(question) = self.vouching.poll(now).or_else(|| self.foreign.poll(now, pause)) {
            let interest = self.question(&question, random);
            let probe = question.caches == CacheUse::Bypassed;
            return Some(Outgoing { interest, tag: None, probe, token: None });
        }
        let request = self.poll_request(now, shared)?;
        let version = self.version_on(request.path)?;
        let tag = self.paths.tag(request.path).cloned();
        if request.is_probe
            && let Some(packet) = request.ranges.first().map(|(first, _)| *first)
            && let Some(probe) =
                self.path_probe(now, SubstitutedRequest { path: request.path, number: request.number, packet }, random)
        {
            return Some(probe);
        }
        let object: Name = self.transfer.name().clone();
        let lifetime = self.lifetime_on(now, request.path);
        for packet in request.ranges.iter().flat_map(|&(first, count)| first..first + u32::from(count)) {
            let name = match self.foreign.known() {
                Some(known) => known.name(packet),
                None => naming::packet_name(&object, version, packet).ok(),
            };
            let Some(name) = name else { continue };
            let bypasses = request.caches == CacheUse::Bypassed || self.foreign.bad.contains(&packet);
            let (path, number) = (request.path, request.number);
            let mut requested = match self.requested.remove(&packet) {
                Some(known) => known.again(now, path, number, lifetime),
                None => PacketRequests::first(now, path, number, lifetime),
            };
            requested.caches = if bypasses { CacheUse::Bypassed } else { CacheUse::Allowed };
            let form = requested.form;
            self.requested.insert(packet, requested);
            let interest = self.interest(&name, form, lifetime, random);
            self.traffic.interests += (interest.len() + tag.as_ref().map_or(0, Tag::bytes)) as u64;
            self.waiting.push_back(Outgoing {
                interest,
                tag: tag.clone(),
                probe: bypasses,
                token: Some(token_of((path, number))),
            });
        }
        self.waiting.pop_front()
    }
    /// The engine's next request; an object assembled in memory answers at once.
    pub(super) fn poll_request(&mut self, now: Time, shared: &mut Shared) -> Option<PacketRequest> {
        loop {
            let request = self.transfer.poll_request(now, shared)?;
            let Some(known) = self.foreign.known().filter(|known| known.gathered.is_some()) else {
                return Some(request);
            };
            let packets = request.ranges.iter().flat_map(|&(first, count)| first..first + u32::from(count));
            for packet in packets {
                let payload = known.gathered_packet(packet).unwrap_or_default();
                let (path, number) = (request.path, request.number);
                self.transfer.handle_data(now, &PacketData { path, number, packet, cache: None, payload });
            }
        }
    }
    pub(super) fn poll_probe(&mut self, now: Time, random: &mut Random) -> Option<Outgoing> {
        if self.probe_at > now || !self.may_probe() {
            return None;
        }
        if let Some(due) = self.probes_wait_until().filter(|due| *due > now) {
            self.probe_at = due.min(now + self.config.probe_interval_max);
            return None;
        }
        (self.probed.0, self.probed.1) = (now, self.traffic.content);
        self.unanswered_probes = self.unanswered_probes.saturating_add(1);
        self.probes_at_once = self.probes_at_once.saturating_sub(1);
        if self.probes_at_once == 0 {
            self.probe_at = now + self.probe_pause().max(self.pause_without_answers(now));
        }
        if let Some(known) = self.foreign.known() {
            if known.gathered.is_some() {
                self.probe_at = now + self.config.probe_interval_max;
                return None;
            }
            // The probes request segments: foreign producers know no other names. Segments are long, so there are few
            // probes.
            if self.probes_at_once == 0 {
                self.probe_at = now + (self.config.probe_interval * SEGMENT_PROBE_PAUSE).max(self.probe_pause());
            }
            let segment = random.below(u64::from(known.segments)) as u32;
            let name = known.name(segment)?;
            let lifetime = self.lifetime_anywhere(now);
            self.segment_probes.insert(segment, Probe { sent: now, expires: now + lifetime });
            let interest = self.interest(&name, Form::default(), lifetime, random);
            return Some(Outgoing { interest, tag: None, probe: true, token: None });
        }
        // Each probe has a unique name, so that none is answered by another's Data.
        let (_, interest) = self.manifest_interest(now, self.lifetime_anywhere(now), random)?;
        Some(Outgoing { interest, tag: None, probe: true, token: None })
    }
    /// The deadline up to which probes wait, so that the object's content on paths in use does not wait for their
    /// answers; `None` if enough has arrived since the last one, or nothing arrives.
    fn probes_wait_until(&self) -> Option<Time> {
        let (at, before, answer_bytes) = self.probed;
        let come = self.traffic.content - before;
        let is_enough = come >= answer_bytes * PROBE_PARTS;
        // Paths that deliver nothing may belong to a faulty source: others are needed soon.
        let pause = if come > 0 { PROBE_PAUSE_MAX } else { self.config.probe_interval_max };
        // Where little comes because much is lost, probes are lost too, and other paths are to be found.
        let is_slow = |id| self.paths.narrowest(id).is_some_and(|rate| rate.bits_per_second() <= SLOW_RATE_MAX);
        let delivers = self.paths.in_use().any(|(id, _)| is_slow(id)) && !self.paths.is_silent();
        (delivers && !is_enough && self.cut_since.is_none()).then_some(at + pause)
    }
    pub(super) fn may_probe(&self) -> bool {
        self.probes.len() - self.path_probes.len() < PROBES_MAX
    }
    pub(super) fn slow_probes(&mut self) {
        self.probe_interval = self.within_limits(self.probe_interval + self.probe_interval / PROBES_SLOW_BY);
    }
    /// How long after a probe the next one comes.
    pub(super) fn probe_pause(&self) -> Duration {
        self.within_limits(self.probe_interval * (1 << self.refusals.min(REFUSALS_REPORTED_MAX)))
    }
    /// The same while the duration of an answer, and its share of a link, are unknown: it doubles for a while.
    fn pause_without_answers(&self, now: Time) -> Duration {
        let elapsed = now.since(self.started);
        if self.heard_at.is_some() || elapsed < UNANSWERED[0] || elapsed >= UNANSWERED[1] {
            return Duration::ZERO;
        }
        let doublings = self.unanswered_probes.saturating_sub(self.config.probes_initial).min(REFUSALS_REPORTED_MAX);
        self.within_limits(self.probe_interval * (1 << doublings))
    }
    pub(super) fn within_limits(&self, interval: Duration) -> Duration {
        interval.min(self.config.probe_interval_max).max(self.config.probe_interval)
    }
    /// Probes a silent path with the manifest under a unique name: a packet's name may be answered over any path that
    /// requested it. `None` for foreign objects, which have no such name.
    pub(super) fn path_probe(&mut self, now: Time, of: SubstitutedRequest, random: &mut Random) -> Option<Outgoing> {
        if self.foreign.known().is_some() || self.path_probes.len() >= PROBES_MAX {
            return None;
        }
        let tag = Some(self.paths.tag(of.path)?.clone());
        let (nonce, interest) = self.manifest_interest(now, self.lifetime_on(now, of.path), random)?;
        self.path_probes.insert(nonce, of);
        Some(Outgoing { interest, tag, probe: true, token: None })
    }
    /// An Interest for the manifest with a unique name, and its nonce.
    pub(super) fn manifest_interest(
        &mut self,
        now: Time,
        lifetime: Duration,
        random: &mut Random,
    ) -> Option<([u8; 4], bytes::Bytes)> {
        let nonce = Nonce::from(random.bits()).0;
        let base = self.transfer.name().typed_child(types::KEYWORD, naming::MANIFEST).ok()?;
        let name = base.child(&nonce).ok()?;
        self.probes.insert(nonce, Probe { sent: now, expires: now + lifetime });
        Some((nonce, self.interest(&name, Form::default(), lifetime, random)))
    }
    /// An Interest for discovery or for exactly one name. Where caches do not know how to be bypassed, it requires
    /// fresh Data at least.
    pub(super) fn question(&self, question: &Question, random: &mut Random) -> bytes::Bytes {
        Interest {
            nonce: Some(Nonce::from(random.bits())),
            lifetime_millis: Some(self.config.interest_lifetime.as_millis() as u64),
            can_be_prefix: question.discovers,
            must_be_fresh: question.discovers || question.caches == CacheUse::Bypassed,
            ..Interest::new(NameView::from(&question.name))
        }
        .encode()
        .into()
    }
    /// How long an Interest is pending that follows a path.
    pub(super) fn lifetime_on(&self, now: Time, path: PathId) -> Duration {
        self.lifetime_for(self.transfer.answer_time(now, path))
    }
    /// Lifetime of an Interest that may take any path: that of the slowest path in use; before the first answer, twice
    /// the time without answers.
    pub(super) fn lifetime_anywhere(&self, now: Time) -> Duration {
        let slowest = self.paths.in_use().filter_map(|(id, _)| self.transfer.answer_time(now, id)).max();
        self.lifetime_for(slowest.or_else(|| self.heard_at.is_none().then(|| now.since(self.started))))
    }
    pub(super) fn lifetime_for(&self, answer_time: Option<Duration>) -> Duration {
        let (least, most) = (self.config.interest_lifetime, self.config.interest_lifetime_max);
        answer_time.unwrap_or(least).min(most).max(least)
    }
    pub(super) fn interest(&self, name: &Name, form: Form, lifetime: Duration, random: &mut Random) -> bytes::Bytes {
        Interest {
            nonce: Some(Nonce::from(random.bits())),
            can_be_prefix: form.can_be_prefix,
            must_be_fresh: form.must_be_fresh,
            lifetime_millis: Some(lifetime.as_millis() as u64),
            ..Interest::new(NameView::from(name))
        }
        .encode()
        .into()
    }
    pub(in crate::internals::receiver) fn poll_timeout(&self) -> Option<Time> {
        if self.is_ended() {
            return None;
        }
        if self.quiet_until.is_some() {
            return self.quiet_until;
        }
        let oldest = self.probes.values().map(|probe| probe.expires).min();
        let probe = if self.may_probe() { Some(self.probe_at) } else { oldest };
        let change = Some(self.paths.poll_timeout());
        let foreign = self.foreign.poll_timeout(self.probe_pause());
        let gathered = match self.gathering {
            Gathering::Until(until) => Some(until),
            Gathering::Over => self.gathered.front().map(|(heard, _)| *heard + self.gathered_late.unwrap_or_default()),
            Gathering::NotBegun => None,
        };
        let due = self.transfer.poll_timeout().into_iter().chain(probe).chain(oldest).chain(change);
        due.chain(foreign).chain(gathered).chain(self.vouching.poll_timeout()).min()
    }
    /// The next event. A path that stays silent is replaced if there is another one, since foreign forwarders send no
    /// Nack for it (PTP §4 C 2).
    pub(in super::super) fn poll_event(&mut self, now: Time, random: &mut Random) -> Option<TransferEvent> {
        while let Some(event) = self.transfer.poll_event() {
            let changed = match &event {
                TransferEvent::PathState { path, state, .. } => {
                    // Its timeout is over, and as long again its answers may take.
                    let lateness = self.transfer.answer_time(now, *path).unwrap_or_default() / 2;
                    self.paths.set_silent(now, *path, (*state == PathState::Silent).then_some(lateness));
                    match state {
                        // It may have reopened since.
                        PathState::Closed => {
                            !self.transfer.uses(*path)
                                && self.paths.in_use().any(|(id, _)| id == *path)
                                && self.paths.refuse(&[*path], random)
                        }
                        PathState::Idle | PathState::Active | PathState::Done | PathState::Silent => false,
                    }
                }
                _ => false,
            };
            self.events.push_back(event);
            if changed {
                // A returned path, or its replacement, should be found soon.
                self.probe_interval = self.config.probe_interval;
                self.probe_at = self.probe_at.min(now + self.probe_pause());
                self.offer(now, random);
            }
        }
        self.events.pop_front()
    }
}
