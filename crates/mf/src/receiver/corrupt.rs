//! Bytes that contradict the manifest: from whom to request them again, and which source is faulty.
use super::*;

impl Receiver {
    /// Handles corrupted bytes. The receiver requests them from their source again, bypassing all copies. If they stay
    /// wrong, it excludes the source while there are others. If a cache or storage may have sent them, requests bypass
    /// it. If several sources contributed, all stay: the unit is requested again, and then from one of them.
    pub(super) fn distrust(&mut self, now: Time, id: TransferId, wrong: Wrong) {
        for (origin, bytes) in &wrong.origins {
            self.wrong.count(*origin, *bytes);
        }
        let Some(fetch) = self.fetches.get_mut(id) else { return };
        if is_pushed(fetch.transfer) {
            return self.request_of_pusher(now, id, wrong);
        }
        let only = wrong.origins.keys().next().filter(|_| wrong.origins.len() == 1).copied();
        if let Some(Origin::Source(number)) = only {
            if fetch.has_other_sources(number) {
                return self.put_on_trial(now, id, number, wrong);
            }
            if fetch.sources.get(number).is_some_and(|source| source.state.retries < RETRIES_MAX) {
                return self.request_again(now, id, Some(number), wrong.chunks);
            }
        }
        if let Some(reassembly) = &mut fetch.reassembly {
            reassembly.restart();
        }
        fetch.leave_sender();
        let Wrong { reason, origins, .. } = wrong;
        if let Some(Origin::Source(number)) = only {
            self.blame(id, number, reason.clone());
            let Some(fetch) = self.fetches.get(id) else { return };
            if !fetch.has_deliverers() {
                let reason = format!("no source of '{}' can be trusted: {reason}", fetch.name);
                return self.fail(now, id, reason);
            }
        } else if let Some(cache) = fetch.caches.last.filter(|_| origins.contains_key(&Origin::Cache)) {
            if fetch.caches.distrust(cache) {
                fetch.record.push(TransferEvent::CacheDistrusted { node: node_of(&cache), reason });
            }
        } else if origins.keys().any(|origin| matches!(origin, Origin::Storage(_))) {
            fetch.caches.avoid = true;
        } else if origins.contains_key(&Origin::Cache) {
            self.strays += 1;
        }
        self.request(now, id);
    }
    /// A pushed object has one source, and any node on the way may have changed it: the receiver requests the chunks
    /// from the source again, bypassing all copies, at growing intervals. It does not exclude the source while others
    /// could have changed the bytes.
    fn request_of_pusher(&mut self, now: Time, id: TransferId, wrong: Wrong) {
        let Some(fetch) = self.fetches.get_mut(id) else { return };
        fetch.nack.restart(now, fetch.nack_timeout(&self.config));
        if fetch.reliability == Reliability::DontCare {
            return;
        }
        if fetch.missing.corrupt_since.is_some_and(|since| now.since(since) >= CORRUPT_LIFETIME) {
            let reason = format!(
                "all chunks of '{}' have been wrong for {} s; the last one {}; its source or a node on the way is faulty",
                fetch.name,
                CORRUPT_LIFETIME.as_secs(),
                wrong.reason
            );
            return self.fail(now, id, reason);
        }
        self.request_again(now, id, None, wrong.chunks);
    }
    /// Requests corrupted chunks from the sender again, past copies; they came in the name of `source` if it is known.
    pub(super) fn request_again(
        &mut self,
        now: Time,
        id: TransferId,
        source: Option<SourceId>,
        chunks: RangeInclusive<u32>,
    ) {
        let Some(fetch) = self.fetches.get_mut(id) else { return };
        let timeout = fetch.nack_timeout(&self.config);
        let (due, is_one_more) = fetch.on_corrupt(now, chunks, timeout);
        if let Some(source) = source.and_then(|number| fetch.sources.get_mut(number)) {
            source.state.retries += u32::from(is_one_more);
        }
        fetch.nack.put_off(due + timeout);
        self.send_status(now, id);
    }
}
