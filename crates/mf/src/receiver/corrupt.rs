//! Bytes that are not what the manifest says: who is asked for them again, and who is blamed.
use super::*;

impl Receiver {
    /// Wrong bytes came. Their source is requested again, past all copies, and not any more if they stay wrong, while
    /// others serve if there are any. If a cache or storage may have sent them, these are passed by. If several sent
    /// what is wrong, the sources stay: it comes again, and then from one of them.
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
    /// A pushed object has one source, and any node on the way may have changed it: the source is asked again, past all
    /// copies, more and more rarely. It is not blamed as long as others could have changed the bytes.
    fn request_of_pusher(&mut self, now: Time, id: TransferId, wrong: Wrong) {
        let Some(fetch) = self.fetches.get_mut(id) else { return };
        fetch.nack.restart(now, fetch.nack_timeout(&self.config));
        if fetch.reliability == Reliability::DontCare {
            return;
        }
        if fetch.missing.corrupt_since().is_some_and(|since| now.since(since) >= CORRUPT_LIFETIME) {
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
    /// Requests chunks that came wrong of the sender again, past copies; they came in the name of `source` if it is
    /// known.
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
