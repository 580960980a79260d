//! Chooses the packets to request over each path, and handles lost ones.
use super::*;

impl Transfer {
    // Requests.

    pub(super) fn request_on(&mut self, now: Time, id: PathId) -> Option<PacketRequest> {
        let room = self.paths.get(&id)?.flow.as_ref()?.room(now);
        if room == 0 {
            return None;
        }
        let is_too_far = self.is_too_far(now, id);
        let running = self.running.as_mut()?;
        let path = self.paths.get_mut(&id)?;
        let flow = path.flow.as_mut()?;
        let is_probe = flow.silent_since().is_some();
        let mut caches = path.caches;
        let mut kind = RequestKind::Claiming;
        let ranges = if is_probe {
            // A probe takes nothing away from the paths that answer.
            kind = RequestKind::Probing;
            running.probe()
        } else if !path.to_heal.is_empty() {
            // No unit waits for these: the answer passes the caches on the way and replaces their wrong packets.
            kind = RequestKind::Probing;
            caches = CacheUse::Bypassed;
            let count = path.to_heal.len().min(room as usize);
            let packets: Vec<u32> = path.to_heal.drain(..count).collect();
            let (ranges, left_over) = into_ranges(&packets);
            path.to_heal.extend_from_slice(left_over);
            ranges
        } else if let Some(ranges) = running.take_suspect(id, room) {
            caches = CacheUse::Bypassed;
            ranges
        } else if is_too_far {
            Ranges::new()
        } else {
            // A chunk that takes a path long is shared: the last ones would delay the end.
            let is_quick = flow.is_quick_with(u64::from(running.writer.manifest().chunk_size));
            running.take_idle(room, (is_quick && self.sources.len() > 1).then_some(path.source), path.source)
        };
        if ranges.is_empty() && kind == RequestKind::Claiming && !is_too_far && self.release_late(now, id) {
            return self.request_on(now, id);
        }
        let flow = self.paths.get_mut(&id)?.flow.as_mut()?;
        let ranges = if ranges.is_empty() && kind == RequestKind::Claiming {
            flow.on_starved();
            let (eta, rate) = (flow.arrival_of(now, room), flow.meter.rate(now));
            kind = RequestKind::Duplicating;
            let late = if self.search_at > now { Ranges::new() } else { self.late_packets(id, eta, room) };
            match (&mut self.running, self.paths.get(&id)) {
                (Some(running), Some(path)) if late.is_empty() => {
                    // A poll takes nothing away from the paths that answer.
                    kind = RequestKind::Probing;
                    running.poll(now, path.source, Some(rate).filter(|rate| rate.bits_per_second() > 0))
                }
                _ => late,
            }
        } else {
            ranges
        };
        if ranges.is_empty() {
            return None;
        }
        let running = self.running.as_ref()?;
        let flow = self.paths.get_mut(&id)?.flow.as_mut()?;
        let number = flow.on_request(now, &ranges, kind, caches);
        let packet_bytes = running.layout.packet_bytes();
        Some(PacketRequest {
            path: id,
            number,
            object: running.writer.object(),
            packet_bytes,
            ranges,
            caches,
            is_probe,
        })
    }
    /// Whether the other paths deliver all idle packets before this one could deliver any: near the end the fetch would
    /// wait for a long path. More expensive paths do not count: they carry only the excess of cheap ones.
    fn is_too_far(&self, now: Time, id: PathId) -> bool {
        let flow = |id: &PathId| self.paths.get(id)?.flow.as_ref();
        let (Some(running), Some(own)) = (&self.running, flow(&id)) else { return false };
        let left = running.idle_bytes();
        if left == 0 || left > self.config.window_bytes_max {
            return false;
        }
        let eta = own.arrival_of(now, 1);
        let rank_of = |path: &Path| self.rules.rank(path.offer.face);
        let Some(own_rank) = self.paths.get(&id).map(rank_of) else { return false };
        let others = self.paths.iter().filter(|(other, path)| **other != id && path.held.is_none());
        let others = others.filter(|(_, path)| rank_of(path) <= own_rank);
        // Partial sources deliver only their holdings.
        let (mut complete, mut partial) = (0u64, 0u64);
        for (source, flow) in others.filter_map(|(_, path)| Some((path.source, path.flow.as_ref()?))) {
            let sum = if running.partials.sources.contains_key(&source) { &mut partial } else { &mut complete };
            *sum = sum.saturating_add(flow.brings_until(now, eta));
        }
        if partial > 0 && complete < left {
            partial = partial.min(running.covered_bytes());
        }
        complete.saturating_add(partial) >= left
    }
    /// Packets that other paths have requested and that this idle one would deliver sooner: the end-game, and the
    /// detour around a path that delays the assembly.
    pub(super) fn late_packets(&mut self, own: PathId, eta: Time, room: u32) -> Ranges {
        let (Some(running), Some(source)) = (&mut self.running, self.paths.get(&own).map(|path| path.source)) else {
            return Ranges::new();
        };
        let mut packets = Vec::new();
        for (id, path) in &mut self.paths {
            let Some(flow) = path.flow.as_mut().filter(|_| *id != own) else { continue };
            let left = room as usize - packets.len();
            if left > 0 {
                let is_there =
                    |packet| running.layout.locate(packet).is_some_and(|(unit, ..)| running.partials.has(source, unit));
                packets.extend(flow.late_packets(eta, left, |packet| is_there(packet) && running.wants(packet)));
            }
        }
        packets.sort_unstable();
        packets.dedup();
        let (ranges, left_over) = into_ranges(&packets);
        // Each chosen packet is assigned to this path now; those that do not fit into the request become idle again.
        for packet in left_over {
            running.make_idle(*packet);
        }
        let requested: u64 = ranges.iter().map(|&(_, count)| u64::from(count)).sum();
        self.record.retransmitted_bytes += requested * u64::from(running.layout.packet_bytes());
        ranges
    }

    // Losses.

    pub(super) fn detect_losses(&mut self, now: Time, id: PathId) {
        let Some(flow) = self.paths.get_mut(&id).and_then(|path| path.flow.as_mut()) else { return };
        let mut lost = Vec::new();
        flow.detect_losses(now, &mut lost);
        flow.detect_overdue(now, &mut lost);
        self.return_lost(&lost);
    }
    pub(super) fn return_lost(&mut self, lost: &[LostPacket]) {
        let Some(running) = self.running.as_mut().filter(|_| !lost.is_empty()) else { return };
        for loss in lost.iter().filter(|loss| !loss.covered) {
            if running.make_idle(loss.packet) {
                self.record.retransmitted_bytes += u64::from(running.layout.packet_bytes());
            }
        }
    }
}

/// Ascending packets as ranges, as many as fit into a request, and the packets left over.
fn into_ranges(packets: &[u32]) -> (Ranges, &[u32]) {
    let mut ranges = Ranges::new();
    for (index, &packet) in packets.iter().enumerate() {
        if let Some((first, count)) = ranges.last_mut()
            && *first + u32::from(*count) == packet
            && *count < 64
        {
            *count += 1;
        } else if ranges.len() < REQUEST_RANGES_MAX {
            ranges.push((packet, 1));
        } else {
            return (ranges, &packets[index..]);
        }
    }
    (ranges, &[])
}
