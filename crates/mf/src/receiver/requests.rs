//! The receiver's messages: requests, and one message per window that acknowledges it, grants the next and names
//! missing chunks (paper §3.4.2).
use super::*;

impl Receiver {
    /// Requests the missing chunks; the network chooses the nearest source, unless one must be avoided.
    pub(super) fn request(&mut self, now: Time, id: TransferId) {
        let buffer = self.buffer_of(id);
        let config = &self.config;
        let Some((fetch, shared)) = self.fetches.get_with_limit(id) else { return };
        if fetch.record.is_ended() {
            return;
        }
        if fetch.credit.ready_at(shared) > now {
            fetch.credit.request_since.get_or_insert(now);
            return;
        }
        fetch.credit.request_since = None;
        if fetch.reassembly.is_none() || !fetch.aim(now, &mut self.outbox) {
            return;
        }
        let (Some(reassembly), Some(object)) = (&fetch.reassembly, fetch.object) else { return };
        let size = reassembly.manifest().size;
        let limited = fetch.credit.rate(shared).map_or(u64::MAX, |rate| rate.bytes_in(LIMITED_CHUNK).max(1_024));
        let wanted = fetch.options.chunk_bytes.unwrap_or_else(|| {
            let slowest = self.slowest_access.map(|rate| rate.bytes_in(SLOWEST_CHUNK).max(SLOWEST_CHUNK_BYTES_MIN));
            config.chunk_bytes.min(slowest.and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(u32::MAX))
        });
        let wanted = wanted.min(u32::try_from(limited).unwrap_or(u32::MAX));
        let is_free = fetch.options.chunk_bytes.is_none() && fetch.credit.rate(shared).is_none();
        if is_free && fetch.windows.highest.is_none() {
            // Smaller chunks make no smaller window.
            let more = u16::try_from(config.chunk_bytes / wanted.max(1)).unwrap_or(u16::MAX).max(1);
            fetch.credit.window_chunks = config.window_chunks.saturating_mul(more).min(config.window_chunks_max);
        }
        let chunk_bytes = reassembly.cut.map_or(wanted, |(chunk_bytes, _)| chunk_bytes);
        fetch.credit.fit(shared, chunk_bytes, size, buffer);
        let held = match fetch.held_back(chunk_bytes) {
            Some(held) => held,
            None => fetch.reassembly.as_ref().map(|reassembly| reassembly.held(chunk_bytes)).unwrap_or_default(),
        };
        let Some(reassembly) = &fetch.reassembly else { return };
        if reassembly.is_selective() && !is_pushed(fetch.transfer) && fetch.requested_chunks.is_empty() {
            // Readers have everything that they want now.
            return;
        }
        let message = TransportBody::Request {
            chunk_bytes,
            reliability: fetch.reliability,
            buffer_chunks: fetch.credit.window_chunks,
            held,
        }
        .about(fetch.transfer, object);
        let mut flags = fetch.options.in_network.map_or(Flags::NONE, Flags::from);
        if fetch.caches.avoid {
            flags |= Flags::NO_CACHE;
        }
        let to = fetch.serving.requested.unwrap_or(fetch.content);
        self.outbox.push_back(Outgoing { flags, ..Outgoing::new(to, NetworkAddress::NONE, fetch.token, message) });
        let missing = match reassembly.is_selective() {
            true => fetch.requested_chunks.len() as u64 * u64::from(chunk_bytes),
            false => size.saturating_sub(reassembly.writer.stored_bytes() + reassembly.buffered),
        };
        fetch.credit.on_request(now, shared, missing, fetch.windows.highest, chunk_bytes);
        fetch.nack.restart(now, fetch.nack_timeout(config));
    }
    /// Sends the status message if it is due.
    pub(super) fn send_status(&mut self, now: Time, id: TransferId) {
        let buffer = self.buffer_of(id);
        let Some((fetch, shared)) = self.fetches.get_with_limit(id) else { return };
        if fetch.record.is_ended() {
            return;
        }
        let Some((_, window)) = fetch.windows.status.filter(|(at, _)| *at <= now) else { return };
        let ready = fetch.credit.ready_at(shared);
        // Missing chunks are reported at once; the window opens when the limit allows it.
        let waits = ready > now && fetch.credit.grants(window);
        if waits && !fetch.missing.any() {
            return;
        }
        let (Some(reassembly), Some((to, address)), Some(object)) =
            (&fetch.reassembly, fetch.serving.sender, fetch.object)
        else {
            // No one is sending, so no one needs the status.
            fetch.windows.status = None;
            return;
        };
        let chunk_bytes = reassembly.cut.map_or(self.config.chunk_bytes, |(chunk_bytes, _)| chunk_bytes);
        let fill = Fill {
            buffer,
            buffered: reassembly.buffered,
            chunk_bytes,
            window_chunks_max: self.config.window_chunks_max,
        };
        let size = reassembly.manifest().size;
        let advice = if waits { 0 } else { fetch.credit.advised_window(now, shared, ready, size, fill) };
        if advice == 0 && fetch.credit.is_stopped && !fetch.missing.any() {
            // The sender has been stopped.
            fetch.windows.status = Some((now + LOOK_AGAIN, window));
            return;
        }
        fetch.credit.is_stopped = advice == 0 && !waits;
        if advice > 0 {
            fetch.credit.on_advice(now, shared, window, advice, chunk_bytes);
        }
        let acknowledged = if waits { fetch.credit.granted.unwrap_or(0) } else { window };
        // Chunks that do not fit into the buffer would arrive for nothing.
        let missing_max = if fill.percent() < 50 { usize::MAX } else { fill.room().max(1) as usize };
        let message = TransportBody::Status {
            window: on_wire(acknowledged),
            advice_chunks: advice,
            sequence: fetch.windows.next_sequence(),
            missing: {
                let requested_chunks =
                    (reassembly.is_selective() && !is_pushed(fetch.transfer)).then_some(&fetch.requested_chunks);
                fetch.missing.take(reassembly, fetch.nack.in_vain, missing_max, requested_chunks)
            },
        }
        .about(fetch.transfer, object);
        match fetch.credit.is_stopped {
            _ if waits => {}
            true => fetch.windows.status = Some((now + LOOK_AGAIN, window)),
            false => fetch.windows.status = None,
        }
        self.outbox.push_back(match fetch.caches.avoid {
            // The network finds the source: the address may belong to storage that answers on its behalf.
            true => {
                Outgoing { flags: Flags::NO_CACHE, ..Outgoing::new(to, NetworkAddress::NONE, fetch.token, message) }
            }
            false => Outgoing { proxies: fetch.serving.proxies, ..Outgoing::new(to, address, fetch.token, message) },
        });
    }
}
