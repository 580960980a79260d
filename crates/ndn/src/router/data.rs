//! The treatment of a Data, and of a returned Interest.
use alloc::vec::Vec;

use bytes::Bytes;
use tributary_core::FaceId;
use tributary_transport::transfer::CacheUse;

use super::{
    Done, Router,
    interest::LOCALHOST,
    pit::{CACHE_USES, OutRecord, PitEntry, PitIndex, Token},
    reason,
    strategy::Outcome,
};
use crate::wire::{Data, Interest, LpPacket, NackReason, WireError, dataset::PacketCounters, lp::Origin};

/// The cache policy that forbids caching.
const NO_CACHE: u64 = 1;

/// State shared by several entries that one Data answers.
struct Several {
    notified: Vec<(FaceId, Token)>,
    /// Whether more than one face waits in them.
    is_shared: bool,
}

impl Router {
    pub(super) fn on_data(&mut self, face: FaceId, headers: &LpPacket<'_>, packet: Bytes) -> Done {
        let data = Data::decode(&packet).map_err(|error: WireError| error.reason())?;
        self.count_in(face, |counters| &mut counters.data);
        self.faces.get_mut(&face).into_iter().for_each(|face| face.on_token(headers.pit_token));
        if data.name.as_tlv().starts_with(LOCALHOST) && !self.is_local(face) {
            return Err(reason::SCOPE);
        }
        // Only a node that got the Interest may answer it; no other fills tables and caches.
        let mut answered = self.pit.answered_by(&data, headers.origin.filter(|_| self.config.path_tags));
        answered.retain(|index| self.pit.entry(*index).is_some_and(|entry| entry.out_record(face).is_some()));
        if answered.is_empty() {
            return Err("unsolicited data");
        }
        let may_cache = headers.cache_policy != Some(NO_CACHE);
        let is_chosen = self.config.cache_share >= 1.0 || self.random.chance(self.config.cache_share);
        if may_cache && is_chosen && !data.name.as_tlv().starts_with(LOCALHOST) {
            self.cs.insert(self.now, &packet, data.name, data.freshness());
        }
        if headers.congestion_mark.is_some_and(|mark| mark > 0) {
            self.stats.marked += 1;
        }
        // A node that requested in several forms uses the first answer, and the one past caches is the most
        // informative.
        answered.sort_by_key(|index| {
            let entry = self.pit.entry(*index);
            entry.map(|entry| (entry.caches == CacheUse::Allowed, !entry.is_exact(face)))
        });
        let mut several =
            (answered.len() > 1).then(|| Several { notified: Vec::new(), is_shared: self.await_several(&answered) });
        for index in answered {
            let Some(entry) = self.pit.remove(index) else { continue };
            self.settle(face, headers, &entry);
            self.answer(face, headers, &packet, &entry, several.as_mut());
        }
        Ok(())
    }
    /// Whether more than one face waits in these entries.
    fn await_several(&mut self, entries: &[PitIndex]) -> bool {
        let mut first = None;
        entries.iter().any(|index| {
            let records = self.pit.entry(*index).map_or(&[][..], |entry| &entry.in_records);
            records.iter().any(|record| *first.get_or_insert(record.face) != record.face)
        })
    }
    /// Updates the strategy, and remembers the nonces so that looping duplicates are recognised.
    fn settle(&mut self, face: FaceId, headers: &LpPacket<'_>, entry: &PitEntry) {
        let now = self.now;
        self.stats.satisfied_and_not.0 += 1;
        let name = self.hasher.name(entry.name());
        for record in &entry.out_records {
            self.dead.insert(now, self.hasher.join(name, &record.nonce.0));
            if record.nacked.is_some() {
                continue;
            }
            let outcome = if record.face == face {
                let rtt = (!record.again).then(|| now.since(record.sent_at));
                Outcome::Data { rtt, marked: headers.congestion_mark.is_some_and(|mark| mark > 0) }
            } else {
                Outcome::Nothing
            };
            self.strategies[entry.strategy].on_outcome(now, entry.prefix_key, record.face, outcome);
        }
    }
    /// Sends a Data to all waiting faces. A node that requested in several forms gets one, or one for each of its
    /// tokens. If the Data may answer another node's Interest it is marked, since its timing measures neither order nor
    /// round trip (PTP §5 D 1).
    fn answer(
        &mut self,
        face: FaceId,
        headers: &LpPacket<'_>,
        packet: &Bytes,
        entry: &PitEntry,
        mut several: Option<&mut Several>,
    ) {
        let now = self.now;
        let is_shared = several.as_ref().is_some_and(|several| several.is_shared);
        let exact = entry.nonce_sent(face).filter(|_| !is_shared);
        for record in entry.in_records.iter().filter(|record| record.expires > now && record.face != face) {
            if let Some(Several { notified, .. }) = &mut several {
                if notified.contains(&(record.face, record.token)) {
                    continue;
                }
                notified.push((record.face, record.token));
            }
            let (tag, tag_bits) = self.record_label(face, headers, record);
            let rates = self.record_rate(headers, record);
            let own = (exact != Some(record.nonce) && !record.probe).then_some(Origin::Aggregation);
            let answer = LpPacket {
                pit_token: record.token.as_bytes(),
                congestion_mark: headers.congestion_mark,
                tag: tag.as_deref().and_then(|tag| crate::wire::PathTag::parse(tag).ok()),
                tag_bits: tag_bits.as_deref().and_then(|tag| crate::wire::huffman::BitTag::parse(tag).ok()),
                rates: rates.as_deref().and_then(|rates| crate::wire::PathRates::parse(rates).ok()),
                origin: if self.config.path_tags { headers.origin.or(own) } else { None },
                path_failed: self.config.path_tags && (headers.path_failed || record.path_failed),
                incoming_face: self.incoming_face(record.face, face),
                ..LpPacket::default()
            };
            self.send(record.face, &answer, packet);
            self.measure_rate(record);
        }
    }
    pub(super) fn on_nack(&mut self, face: FaceId, headers: &LpPacket<'_>, packet: &Bytes) -> Done {
        let Some(why) = headers.nack else { return Ok(()) };
        let interest = Interest::decode(packet).map_err(|error| error.reason())?;
        self.count_in(face, |counters| &mut counters.nacks);
        self.faces.get_mut(&face).into_iter().for_each(|face| face.on_token(headers.pit_token));
        let hash = self.hasher.name(interest.name);
        let known = CACHE_USES.map(|caches| self.pit.find(hash, &interest, caches));
        let matches = |record: &OutRecord| interest.nonce == Some(record.nonce) && record.nacked.is_none();
        let sent = |index: &PitIndex| {
            self.pit.entry(*index).and_then(|entry| entry.out_record(face)).is_some_and(|record| matches(record))
        };
        let index = known.into_iter().flatten().find(sent).ok_or(reason::UNSOLICITED_NACK)?;
        let entry = self.pit.entry(index).ok_or(reason::UNSOLICITED_NACK)?;
        let record = entry.out_record(face).ok_or(reason::UNSOLICITED_NACK)?;
        record.nacked = Some(why);
        let is_named = record.named;
        let (prefix, strategy) = (entry.prefix_key, entry.strategy);
        self.strategies[strategy].on_outcome(self.now, prefix, face, Outcome::Nack(why));
        // Congestion does not mean that the path leads nowhere.
        let leads_on = matches!(why, NackReason::Congestion | NackReason::Unavailable(_));
        let is_cut = is_named && self.config.path_tags && !leads_on;
        self.return_unanswered(index, is_cut || headers.path_failed);
        Ok(())
    }
    /// Returns an Interest to all waiting faces once every next hop has returned it: with the least of the reasons, and
    /// with the path failure for those who named a path. A loop is the reason only if there is no other: it has then
    /// been tried over all routes.
    pub(super) fn return_unanswered(&mut self, index: PitIndex, path_failed: bool) {
        let now = self.now;
        let Some(entry) = self.pit.entry(index) else { return };
        if entry.out_records.iter().any(|record| record.nacked.is_none()) || self.pass_on_elsewhere(index) {
            return;
        }
        let Some(entry) = self.pit.remove(index) else { return };
        let reasons = entry.out_records.iter().filter_map(|record| record.nacked);
        let least = reasons.min_by_key(|why| (*why == NackReason::Duplicate, why.severity()));
        self.stats.satisfied_and_not.1 += 1;
        let name = self.hasher.name(entry.name());
        for record in &entry.out_records {
            self.dead.insert(now, self.hasher.join(name, &record.nonce.0));
        }
        for record in entry.in_records.iter().filter(|record| record.expires > now) {
            let failed = record.path_failed || path_failed && record.tagged;
            let why = least.unwrap_or(NackReason::NoRoute);
            self.nack(record.face, record.token.as_bytes(), &record.interest, why, failed);
        }
    }
    pub(super) fn count_in(&mut self, face: FaceId, which: impl Fn(&mut PacketCounters) -> &mut (u64, u64)) {
        which(&mut self.stats.counters).0 += 1;
        if let Some(state) = self.faces.get_mut(&face) {
            which(&mut state.counters).0 += 1;
        }
    }
}
