//! Assigns runs of chunks to flows, and reassigns those of flows that fail.
use super::*;

impl Bulk {
    // Private.

    pub(super) fn index_of(&self, flow: BulkFlowId, number: u64) -> Option<usize> {
        let index = usize::from(flow.0);
        let order = self.flows.get(index)?.order.as_ref()?;
        (order.number == number).then_some(index)
    }
    pub(super) fn flow_of(&mut self, flow: BulkFlowId, number: u64) -> Option<&mut Flow> {
        let index = self.index_of(flow, number)?;
        self.flows.get_mut(index)
    }
    /// How long a flow may be silent: less for a fast one than for one with slow answers. One that was silent before
    /// has less time to answer again: each attempt is a new connection, and the kernel repeats the first packet of an
    /// old attempt only after a second or more.
    pub(super) fn patience_of(&self, flow: &Flow) -> Duration {
        let rtt = flow.rtt.map(|rtt| Duration::from_secs_f64(rtt * 4.0));
        let has_head = flow.order.as_ref().is_some_and(|order| order.has_head);
        match rtt {
            Some(rtt) if flow.trouble.is_some() && !has_head => {
                let patience = rtt.clamp(ANSWER_MIN, self.config.stall);
                if flow.is_hurried { patience / 2 } else { patience }
            }
            rtt => {
                let rtt = rtt.unwrap_or(Duration::from_secs(8));
                let slowest = if has_head { rtt.min(self.config.stall * 4) } else { rtt * 2 };
                self.config.stall.max(slowest)
            }
        }
    }
    /// Chunks of the next range of a flow.
    pub(super) fn segment(&self, index: usize, pool: &dyn ChunkPool) -> u32 {
        let (flow, config) = (&self.flows[index], &self.config);
        let chunk = f64::from(pool.chunk_bytes().max(1));
        let bytes = match (flow.rate.rate, flow.rtt) {
            (Some(rate), rtt) => {
                let trips = rtt.unwrap_or(0.0) * f64::from(config.segment_round_trips);
                rate * trips.clamp(config.segment_min.as_secs_f64(), config.segment_max.as_secs_f64())
            }
            (None, _) => config.first_bytes as f64,
        };
        // Near the end each flow gets a share of the remainder, so that all finish together.
        let known: f64 = self
            .flows
            .iter()
            .filter(|flow| self.mirrors[flow.mirror].is_usable() && !flow.is_spare)
            .filter_map(|flow| flow.rate.rate)
            .sum();
        let share = flow.rate.rate.map_or(1.0, |rate| if known > 0.0 { rate / known } else { 1.0 });
        let bytes = bytes.min((pool.idle_bytes() as f64 * share).max(chunk));
        libm::ceil(bytes / chunk).clamp(1.0, f64::from(u32::MAX)) as u32
    }
    /// Seconds until a flow has delivered the chunks up to `end` of its order.
    pub(super) fn remaining(&self, now: Time, flow: &Flow, order: &Order, end: u32, chunk: f64) -> f64 {
        let left = f64::from(end.saturating_sub(order.next)) * chunk - order.partial as f64;
        let silent = now.since(order.heard).as_secs_f64();
        let waits = if order.has_head { 0.0 } else { (flow.rtt.unwrap_or(1.0) - silent).max(0.0) };
        // A connection that is silent delivers at a rate that falls with its silence.
        let rate = flow.rate.rate.unwrap_or(self.config.first_bytes as f64 / 8.0);
        let rate = if silent > 4.0 * Meter::SAMPLE { rate * 4.0 * Meter::SAMPLE / silent } else { rate };
        waits + left.max(0.0) / rate.max(1.0)
    }
    /// Seconds until a flow's first byte, and bytes a second from then on.
    pub(super) fn speed(&self, index: usize) -> (f64, f64) {
        let flow = &self.flows[index];
        let rate = flow.rate.rate.unwrap_or(self.config.first_bytes as f64 / 8.0).max(1.0);
        (flow.rtt.unwrap_or(0.5), rate)
    }
    /// The end of another flow's range that this flow delivers sooner, or a copy of its last chunk.
    pub(super) fn take_over(&mut self, now: Time, index: usize, pool: &dyn ChunkPool) -> Option<(Range<u32>, bool)> {
        let speed = self.speed(index);
        self.late_end(now, Some(index), speed, pool)
    }
    /// Like `take_over`, for a flow of another kind that starts after `latency` and delivers at `rate`: returns the end
    /// of the range to the pool. True if it found one.
    pub fn release(&mut self, now: Time, latency: Duration, rate: Rate, pool: &mut dyn ChunkPool) -> bool {
        let bytes_per_second = rate.bits_per_second() as f64 / 8.0;
        if bytes_per_second < 1.0 {
            return false;
        }
        let late = self.late_end(now, None, (latency.as_secs_f64(), bytes_per_second), pool);
        late.map(|(run, _)| pool.give_back(run)).is_some()
    }
    pub(super) fn late_end(
        &mut self,
        now: Time,
        own: Option<usize>,
        (latency, rate): (f64, f64),
        pool: &dyn ChunkPool,
    ) -> Option<(Range<u32>, bool)> {
        let chunk = f64::from(pool.chunk_bytes().max(1));
        let remaining = |(other, flow): (usize, &Flow)| {
            let order = flow.order.as_ref().filter(|order| !order.is_copy)?;
            if self.mirrors[flow.mirror].delivers == Delivers::Everything {
                return None;
            }
            Some((other, self.remaining(now, flow, order, order.end, chunk)))
        };
        let others = self.flows.iter().enumerate().filter(|(other, _)| Some(*other) != own);
        let (victim, seconds) = others.filter_map(remaining).max_by(|a, b| a.1.total_cmp(&b.1))?;
        let order = self.flows[victim].order.as_ref()?;
        let (next, end, number, is_shared) = (order.next, order.end, order.number, order.is_shared);
        if end > next + 1 {
            // The victim keeps at least its current chunk; the split is where both end together.
            let time_of = |kept: u32| latency + f64::from(end - kept) * chunk / rate;
            let kept_seconds = |kept: u32| self.remaining(now, &self.flows[victim], order, kept, chunk);
            let (mut low, mut high) = (next + 1, end);
            while low < high {
                let middle = low + (high - low) / 2;
                if kept_seconds(middle) < time_of(middle) { low = middle + 1 } else { high = middle }
            }
            if low < end {
                if let Some(order) = &mut self.flows[victim].order {
                    order.end = low;
                }
                self.cuts.push_back(BulkCut { flow: BulkFlowId(victim as u16), number, end: low });
                return Some((low..end, false));
            }
        }
        let last = end.checked_sub(1)?;
        let is_sooner = latency + chunk / rate < seconds * COPY_GAIN;
        if is_shared || !is_sooner || !pool.is_missing(last) {
            return None;
        }
        if let Some(order) = &mut self.flows[victim].order {
            order.is_shared = true;
        }
        self.retried_bytes += u64::from(pool.chunk_bytes());
        Some((last..end, true))
    }
    /// A chunk has arrived: ends other orders that have only this chunk left.
    pub(super) fn end_copies(&mut self, now: Time, chunk: u32) {
        for (index, flow) in self.flows.iter_mut().enumerate() {
            if let Some(order) = flow.order.as_ref().filter(|order| order.next == chunk && order.end == chunk + 1) {
                self.cuts.push_back(BulkCut { flow: BulkFlowId(index as u16), number: order.number, end: chunk });
                self.duplicate_bytes += order.partial;
                flow.order = None;
                flow.rate.stop(now);
            }
        }
    }
    pub(super) fn give_back(&mut self, index: usize, pool: &mut dyn ChunkPool) {
        let Some(order) = self.flows[index].order.take() else { return };
        self.flows[index].rate.since = None;
        if !order.is_copy {
            self.retried_bytes += order.partial;
            pool.give_back(order.next..order.end);
        }
    }
    pub(super) fn back_off(
        &mut self,
        now: Time,
        index: usize,
        (reason, failure): (String, Failure),
        pool: &mut dyn ChunkPool,
    ) {
        self.give_back(index, pool);
        let config = self.config;
        let uplink = self.flows[index].uplink;
        let on_uplink =
            |flows: &[Flow]| flows.iter().filter(|flow| flow.uplink == uplink && !flow.is_spare).count() as u32;
        let (turn, turns) = (on_uplink(&self.flows[..index]), on_uplink(&self.flows).max(1));
        let flow = &mut self.flows[index];
        flow.failed_requests += 1;
        flow.failures += 1;
        let since = flow.trouble.as_ref().map_or(now, |trouble| trouble.since);
        let age = now.since(since);
        let doubled = config.retry_min * (1 << (flow.failures - 1).min(10));
        (flow.was_stalled, flow.is_hurried) = (failure == Failure::Stall, false);
        let wait = match failure {
            Failure::Busy(wait) => wait,
            // Flows over the same uplink fall silent together: they are tried again one by one, so that one of them
            // soon notices the uplink's return.
            Failure::Stall if age.is_zero() => ANSWER_MIN * turn / turns,
            Failure::Stall => (age / 8).min(config.retry_max),
            Failure::Request | Failure::Refusal => doubled.min(config.retry_min.max(age / 4)).min(config.retry_max),
        };
        flow.retry_at = now + wait;
        if flow.trouble.is_none() {
            let reason = reason.clone();
            self.events.push_back(TransferEvent::PathState { path: flow.path, state: PathState::Silent, reason });
        }
        flow.trouble = Some(Trouble { reason: reason.clone(), since });
        let at = flow.mirror;
        let has_head = |flow: &Flow| flow.order.as_ref().is_some_and(|order| order.has_head);
        let is_delivering = self.flows.iter().any(|flow| flow.mirror == at && has_head(flow));
        let mirror = &mut self.mirrors[at];
        mirror.failures += 1;
        // A server that refuses the connection on trial is tried with no further one.
        mirror.is_full |=
            self.uplinks[uplink].trial == Some(index) && matches!(failure, Failure::Busy(_) | Failure::Refusal);
        let flows = self.flows.iter().filter(|flow| flow.mirror == at && !flow.is_spare).count() as u32;
        // A server that requests a pause is reachable.
        let is_there = matches!(failure, Failure::Busy(_)) || mirror.has_answered;
        let is_hopeless = match failure {
            Failure::Refusal if !mirror.has_answered => true,
            Failure::Refusal => mirror.failures >= config.failures_unanswered_max && !is_delivering,
            _ => !is_there && mirror.failures >= config.failures_unanswered_max * flows,
        };
        if is_hopeless {
            self.close(at, reason, pool);
        }
    }
    pub(super) fn close(&mut self, mirror: usize, reason: String, pool: &mut dyn ChunkPool) {
        let Some(known) = self.mirrors.get_mut(mirror).filter(|known| known.is_usable()) else { return };
        known.closed = Some(reason.clone());
        let (source, label) = (known.source, known.label.clone());
        self.events.push_back(TransferEvent::SourceClosed { source, label, reason: reason.clone() });
        self.end_flows(mirror, pool);
    }
    pub(super) fn distrust(&mut self, mirror: usize, reason: String, pool: &mut dyn ChunkPool) {
        let known = &mut self.mirrors[mirror];
        if known.distrusted.is_some() {
            return;
        }
        known.distrusted = Some(reason.clone());
        let (source, label) = (known.source, known.label.clone());
        self.events.push_back(TransferEvent::SourceDistrusted { source, label, reason: reason.clone() });
        self.end_flows(mirror, pool);
    }
    pub(super) fn end_flows(&mut self, mirror: usize, pool: &mut dyn ChunkPool) {
        for index in 0..self.flows.len() {
            if self.flows[index].mirror != mirror {
                continue;
            }
            if let Some(order) = &self.flows[index].order {
                self.cuts.push_back(BulkCut { flow: BulkFlowId(index as u16), number: order.number, end: 0 });
            }
            self.give_back(index, pool);
        }
    }
    pub(super) fn path_report(&self, now: Time, flow: &Flow) -> PathReport {
        let mirror = &self.mirrors[flow.mirror];
        let objection = mirror.distrusted.as_deref().or(mirror.closed.as_deref());
        let (state, reason) = match (objection, &flow.trouble, &flow.order) {
            (Some(reason), ..) => (PathState::Closed, reason.into()),
            (None, _, None) if flow.is_spare => (PathState::Idle, "the uplink carries no more with it".into()),
            (None, Some(trouble), Some(_)) => (PathState::Silent, format!("{}; tried again", trouble.reason)),
            (None, Some(trouble), None) => {
                let wait = flow.retry_at.since(now).as_secs_f64();
                (PathState::Silent, format!("{}; tried again in {wait:.1} s", trouble.reason))
            }

            (None, None, Some(order)) if !order.has_head => (PathState::Active, "waits for the server's answer".into()),
            (None, None, Some(order)) => {
                (PathState::Active, format!("fetches chunks {} to {}", order.next, order.end.saturating_sub(1)))
            }
            (None, None, None) => (PathState::Idle, "everything is requested".into()),
        };
        PathReport {
            path: flow.path,
            source: mirror.source,
            label: flow.label.clone(),
            hops: 1,
            state,
            reason,
            bytes: flow.bytes,
            requested_packets: flow.requests,
            lost_packets: flow.failed_requests,
            in_flight_bytes: flow.order.as_ref().map_or(0, |order| order.partial),
            rate: flow.rate.rate.map_or_else(Rate::default, |rate| Rate::from_bits_per_second((rate * 8.0) as u64)),
            rtt: flow.rtt.map(Duration::from_secs_f64),
            rtt_min: flow.rtt_min.map(Duration::from_secs_f64),
            ..PathReport::default()
        }
    }
}
