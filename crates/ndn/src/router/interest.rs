//! What becomes of an Interest.
use alloc::vec::Vec;

use bytes::Bytes;
use tributary_core::{FaceId, Time};
use tributary_transport::transfer::CacheUse;

use super::{
    Done, Router, Transit,
    fib::{FibIndex, NEXT_HOPS_MAX},
    hash::Prefixes,
    pit::{Asked, CACHE_USES, InRecord, OutRecord, PitEntry, PitIndex, Token},
    reason,
    strategy::{Hop, Outcome, Question, by_name},
};
use crate::{
    ids::Nonce,
    wire::{Interest, LpPacket, NackReason, NameView, WireError, lp::Origin},
};

/// First component of names that never leave the machine, with type and length.
pub(super) const LOCALHOST: &[u8] = b"\x08\x09localhost";
/// First component of names that travel at most one hop.
const LOCALHOP: &[u8] = b"\x08\x08localhop";

/// Represents the content store where a packet carries its arrival face, as in NFD.
const FACE_CONTENT_STORE: FaceId = FaceId(254);
/// Maximum faces that an Interest tries, one by one, before it is returned.
const FACES_TRIED_MAX: usize = 8;

/// How an Interest is passed on.
#[derive(Clone, Copy)]
pub(super) struct Passing<'a> {
    pub(super) nonce: Nonce,
    pub(super) packet: &'a Bytes,
    pub(super) interest: &'a Interest<'a>,
    pub(super) headers: &'a LpPacket<'a>,
    pub(super) arrived: FaceId,
    /// The previous Interest of its face for the same Data, if that is pending.
    pub(super) before: Option<Asked>,
}

impl<'a> Passing<'a> {
    /// Headers of the forwarded Interest: a congestion mark stays, a probe stays one.
    pub(super) fn onward(&self, probe: bool) -> LpPacket<'a> {
        LpPacket { probe, congestion_mark: self.headers.congestion_mark, ..LpPacket::default() }
    }
}

impl Router {
    pub(super) fn on_interest(&mut self, face: FaceId, headers: &LpPacket<'_>, packet: Bytes) -> Done {
        let error = |error: WireError| error.reason();
        let first = Interest::decode(&packet).map_err(error)?;
        self.count_in(face, |counters| &mut counters.interests);
        if !first.digest_is_right() {
            return Err("parameters digest is wrong");
        }
        let mut prefixes = Prefixes::default();
        self.hasher.fill(&mut prefixes, first.name);
        if headers.next_hop_face.is_some() && !self.is_local(face) {
            return Err("next hop named by another machine");
        }
        if first.name.as_tlv().starts_with(LOCALHOST) && !self.is_local(face) {
            return Err(reason::SCOPE);
        }
        let is_owner = self.faces.get(&face).is_some_and(|state| state.is_owner());
        if !is_owner && !self.readers.may_ask(face, &first) {
            // As if the name did not exist.
            self.nack(face, headers.pit_token, &packet, NackReason::NoRoute, false);
            return Err("from a neighbour that is no reader");
        }
        // A forwarded Interest has one hop less, and a nonce.
        let (changed, nonce) = self.prepare(&packet, &first)?;
        let (packet, interest) = match &changed {
            Some(changed) => (changed, Interest::decode(changed).map_err(error)?),
            None => (&packet, first),
        };
        let mark = self.hasher.join(prefixes.full, &nonce.0);
        let caches = if headers.probe && self.config.path_tags { CacheUse::Bypassed } else { CacheUse::Allowed };
        let known = self.pit.find(prefixes.full, &interest, caches);
        let of_face =
            |entry: &PitEntry| entry.in_records.iter().find(|record| record.face == face).map(|record| record.asked);
        let before = self.pit.forms(prefixes.full, &interest).filter_map(of_face).max_by_key(|asked| asked.at);
        let passing = Passing { nonce, packet, interest: &interest, headers, arrived: face, before };
        if self.dead.contains(mark) || self.is_loop(prefixes.full, &interest, face, nonce) {
            self.nack(face, headers.pit_token, packet, NackReason::Duplicate, false);
            return Err("interest loop");
        }
        if let Some(done) = self.on_echo(&passing) {
            return done;
        }
        // A probing Interest passes by all caches (PTP §4 A).
        if !headers.probe
            && let Some(data) = self.cs.lookup(self.now, &interest)
        {
            let answer = LpPacket {
                pit_token: headers.pit_token,
                origin: self.config.path_tags.then_some(Origin::Cache),
                incoming_face: self.incoming_face(face, FACE_CONTENT_STORE),
                ..LpPacket::default()
            };
            self.send(face, &answer, &data);
            return Ok(());
        }
        let index = match known.or_else(|| self.pit.insert(prefixes.full, &interest, caches, packet)) {
            Some(index) => index,
            None => {
                self.nack(face, headers.pit_token, packet, NackReason::Congestion, false);
                return Err("pit full");
            }
        };
        if !self.note_arrival(index, &passing) {
            if known.is_none() {
                self.pit.remove(index);
            }
            self.nack(face, headers.pit_token, packet, NackReason::Congestion, false);
            return Err("pit share of the face used up");
        }
        self.pass_on(index, &prefixes, &passing)
    }
    /// The bytes to forward if they differ, hop limit counted down or nonce added, and the nonce.
    fn prepare(&mut self, packet: &Bytes, interest: &Interest<'_>) -> Result<(Option<Bytes>, Nonce), &'static str> {
        let hops = match interest.hop_limit {
            Some(0) => return Err(reason::HOP_LIMIT),
            hops => hops.map(|hops| hops - 1),
        };
        if let (Some(nonce), None) = (interest.nonce, hops) {
            return Ok((None, nonce));
        }
        let mut bytes = packet.to_vec();
        if let (Some(at), Some(hops)) = (interest.source.hop_limit_at, hops) {
            bytes[at] = hops;
        }
        let nonce = interest.nonce.unwrap_or_else(|| {
            let nonce = Nonce::from(self.random.bits());
            bytes = interest.with_nonce(&bytes, nonce);
            nonce
        });
        Ok((Some(bytes.into()), nonce))
    }
    /// Whether an Interest was seen before. Forwarders without support for tags do not forward whether caches may
    /// answer it.
    fn is_loop(&mut self, hash: u64, interest: &Interest<'_>, face: FaceId, nonce: Nonce) -> bool {
        CACHE_USES.iter().any(|caches| {
            let Some(index) = self.pit.find(hash, interest, *caches) else { return false };
            let Some(entry) = self.pit.entry(index) else { return false };
            entry.in_records.iter().any(|record| record.nonce == nonce && record.face != face)
                || entry.out_records.iter().any(|record| record.nonce == nonce && record.face == face)
        })
    }
    fn note_arrival(&mut self, index: PitIndex, passing: &Passing<'_>) -> bool {
        let now = self.now;
        let headers = passing.headers;
        let tagged = headers.tag.is_some() || headers.tag_bits.is_some();
        let lifetime = passing.interest.lifetime().min(self.config.limits.pit.lifetime_max);
        self.pit.add_in_record(
            index,
            InRecord {
                face: passing.arrived,
                nonce: passing.nonce,
                expires: now + lifetime,
                token: Token::new(headers.pit_token),
                probe: headers.probe && self.config.path_tags,
                wants_bits: headers.tag_bits.is_some(),
                path_failed: false,
                tagged,
                asked: Asked { at: now, joins: false, joined: passing.before.map_or(0, |before| before.joined) },
                interest: passing.packet.clone(),
            },
        )
    }
    /// Passes an Interest on: to the face that a local application names, or the tag, or a strategy chooses.
    fn pass_on(&mut self, index: PitIndex, prefixes: &Prefixes, passing: &Passing<'_>) -> Done {
        if let Some(next) = passing.headers.next_hop_face {
            let next = FaceId(u32::try_from(next).unwrap_or(u32::MAX - 1));
            let probe = passing.headers.probe && self.config.path_tags;
            return self.pass_to(index, passing, &passing.onward(probe), &[next], true);
        }
        let fib = self.route(passing.interest, prefixes);
        if self.config.path_tags
            && let Some(done) = self.follow_tag(index, fib, passing)
        {
            return done;
        }
        let Some(fib) = fib else { return self.no_route(index, passing) };
        self.pass_by_name(index, fib, passing)
    }
    /// The FIB entry for an Interest: by its name, or by its forwarding hint if that leads out of this network.
    fn route(&mut self, interest: &Interest<'_>, prefixes: &Prefixes) -> Option<FibIndex> {
        let arrived = |hint: NameView<'_>, region: &tributary_content::Name| hint.is_prefix_of(region.into());
        let mut hints = interest.hints().peekable();
        let is_here = interest.hints().any(|hint| self.config.regions.iter().any(|region| arrived(hint, region)));
        if hints.peek().is_some() && !is_here {
            for hint in hints {
                let found = self.fib.longest_match(&self.hasher.prefixes(hint), hint.as_tlv());
                if let Some(found) = found.filter(|found| !self.fib.entry(*found).prefix.is_empty()) {
                    return Some(found);
                }
            }
            return self.fib.longest_match(&self.hasher.prefixes(NameView::ROOT), &[]);
        }
        self.fab.longest_match(&self.fib, interest.name, prefixes)
    }
    fn no_route(&mut self, index: PitIndex, passing: &Passing<'_>) -> Done {
        let Some(entry) = self.pit.entry(index) else { return Ok(()) };
        if !entry.out_records.is_empty() {
            // It is pending over a route that is gone; the first requester gets its Nack in time.
            return Ok(());
        }
        let failed = entry.in_record(passing.arrived).is_some_and(|record| record.path_failed);
        if self.pit.remove_in_record(index, passing.arrived) {
            self.pit.remove(index);
        }
        // A Nack would have the consumer, or a router before this one, believe that the name has no route.
        if passing.interest.hop_limit == Some(0) {
            return Err(reason::HOP_LIMIT);
        }
        self.nack(passing.arrived, passing.headers.pit_token, passing.packet, NackReason::NoRoute, failed);
        Err(reason::NO_ROUTE)
    }
    /// Passes an Interest on as a strategy chooses.
    pub(super) fn pass_by_name(&mut self, index: PitIndex, fib: FibIndex, passing: &Passing<'_>) -> Done {
        // Probing Interests are distributed evenly, regardless of the prefix's strategy (PTP §4 A).
        let probes = passing.headers.probe && self.config.path_tags;
        let entry = self.fib.entry(fib);
        let chosen = if probes { by_name("equal-weight").unwrap_or(0) } else { entry.strategy };
        let key = entry.key;
        let Some(pending) = self.pit.entry(index) else { return Ok(()) };
        (pending.prefix_key, pending.strategy) = (key, chosen);
        if !probes && is_held_back(self.now, pending) {
            self.stats.aggregated += 1;
            return Ok(());
        }
        let hops = self.hops(index, fib, passing);
        if hops.is_empty() {
            return self.no_route(index, passing);
        }
        self.pass_by_strategy(index, passing, &hops)
    }
    /// The faces that an Interest may leave by.
    fn hops(&mut self, index: PitIndex, fib: FibIndex, passing: &Passing<'_>) -> Vec<Hop> {
        let mut hops = self.fib.entry(fib).next_hops.clone();
        hops.retain(|hop| self.may_leave(passing, hop.face));
        let Some(pending) = self.pit.entry(index) else { return Vec::new() };
        let used_at = |face| pending.out_records.iter().find(|record| record.face == face).map(|record| record.sent_at);
        hops.iter().map(|hop| Hop { face: hop.face, cost: hop.cost, used_at: used_at(hop.face) }).collect()
    }
    /// Forwards an Interest through those of `hops` that the strategy of its entry chooses.
    fn pass_by_strategy(&mut self, index: PitIndex, passing: &Passing<'_>, hops: &[Hop]) -> Done {
        let now = self.now;
        let Some(pending) = self.pit.entry(index) else { return Ok(()) };
        let (prefix, chosen) = (pending.prefix_key, pending.strategy);
        let mut faces = Vec::new();
        self.strategies[chosen].choose(&Question { now, prefix, hops }, &mut self.random, &mut faces);
        let probe = passing.headers.probe && self.config.path_tags;
        self.pass_to(index, passing, &passing.onward(probe), &faces, false)
    }
    /// Forwards a returned Interest to an untried face; true if there is one. A consumer that named a path decides
    /// itself what to request next, and under congestion other faces must not get more. A looping probe only concerns
    /// that route: if it were forwarded, probes would find more of the detours, and paths would not be found evenly (of
    /// the mesh of PTP §6 F 0.958 was used instead of 0.981, without signalled link rates).
    ///
    /// As a duplicate is returned from every node that has seen it, each link is tried at most once.
    pub(super) fn pass_on_elsewhere(&mut self, index: PitIndex) -> bool {
        let now = self.now;
        let Some(entry) = self.pit.entry(index) else { return false };
        let explores = entry.caches == CacheUse::Bypassed;
        let is_dead_end = |record: &OutRecord| match record.nacked {
            Some(NackReason::Congestion) => false,
            Some(NackReason::Duplicate) => !record.named && !explores,
            _ => !record.named,
        };
        if !entry.out_records.iter().all(is_dead_end) {
            return false;
        }
        // Producers below a common prefix deny names at once, so all of them may be tried.
        let has_nothing = |record: &OutRecord| record.nacked == Some(NackReason::NoRoute);
        let tried_max = if entry.out_records.iter().all(has_nothing) { NEXT_HOPS_MAX } else { FACES_TRIED_MAX };
        if entry.out_records.len() >= tried_max {
            return false;
        }
        let last = entry.out_records.iter().max_by_key(|record| record.sent_at).map(|record| record.nonce);
        let waits = entry.in_records.iter().filter(|record| record.expires > now);
        let Some(record) = waits.max_by_key(|record| Some(record.nonce) == last).cloned() else { return false };
        let headers = LpPacket { probe: record.probe, ..LpPacket::default() };
        let Ok(interest) = Interest::decode(&record.interest) else { return false };
        let prefixes = self.hasher.prefixes(interest.name);
        let Some(fib) = self.route(&interest, &prefixes) else { return false };
        let passing = Passing {
            nonce: record.nonce,
            packet: &record.interest,
            interest: &interest,
            headers: &headers,
            arrived: record.face,
            before: None,
        };
        let mut hops = self.hops(index, fib, &passing);
        hops.retain(|hop| hop.used_at.is_none());
        if hops.is_empty() {
            return false;
        }
        let passed = self.pass_by_strategy(index, &passing, &hops);
        let waits = |entry: &mut PitEntry| entry.out_records.iter().any(|record| record.nacked.is_none());
        passed.is_ok() && self.pit.entry(index).is_some_and(waits)
    }
    /// Whether an Interest may leave through a face: the face is up, not the Interest's arrival face, and within scope.
    pub(super) fn may_leave(&self, passing: &Passing<'_>, next: FaceId) -> bool {
        let name = passing.interest.name.as_tlv();
        let local = self.is_local(next);
        let from_here = self.is_local(passing.arrived);
        let in_scope = local
            || !(name.starts_with(LOCALHOST) || name.starts_with(LOCALHOP) && !from_here)
                && passing.interest.hop_limit != Some(0)
                && (from_here || self.config.transit == Transit::Allowed);
        next != passing.arrived && self.is_up(next) && in_scope
    }
    /// Sends an Interest out on `faces` and notes that, and whether they were `named`.
    pub(super) fn pass_to(
        &mut self,
        index: PitIndex,
        passing: &Passing<'_>,
        headers: &LpPacket<'_>,
        faces: &[FaceId],
        named: bool,
    ) -> Done {
        let now = self.now;
        let (first, most) = self.config.suppression;
        let mut sent = false;
        for next in faces.iter().copied() {
            let headers = LpPacket { incoming_face: self.incoming_face(next, passing.arrived), ..headers.clone() };
            if !self.send(next, &headers, passing.packet) {
                continue;
            }
            sent = true;
            let Some(entry) = self.pit.entry(index) else { continue };
            let record =
                OutRecord { face: next, nonce: passing.nonce, sent_at: now, again: false, named, nacked: None };
            match entry.out_record(next) {
                Some(known) => *known = OutRecord { again: true, ..record },
                None => {
                    entry.out_records.push(record);
                    let (prefix, chosen) = (entry.prefix_key, entry.strategy);
                    self.strategies[chosen].on_sent(now, prefix, next);
                }
            }
        }
        let Some(entry) = self.pit.entry(index) else { return Ok(()) };
        entry.suppression = if entry.suppression.is_zero() { first } else { (entry.suppression * 2).min(most) };
        if sent || !entry.out_records.is_empty() { Ok(()) } else { self.no_route(index, passing) }
    }
    /// A packet's arrival face, if the face `to` requests local fields.
    pub(super) fn incoming_face(&self, to: FaceId, from: FaceId) -> Option<u64> {
        self.faces.get(&to).is_some_and(|face| face.profile.local_fields).then_some(u64::from(from.0))
    }
    /// No face is waiting.
    pub(super) fn on_expired(&mut self, entry: &PitEntry) {
        let now = self.now;
        self.stats.satisfied_and_not.1 += 1;
        for record in &entry.out_records {
            let mark = self.hasher.join(self.hasher.name(entry.name()), &record.nonce.0);
            self.dead.insert(now, mark);
            if record.nacked.is_none() {
                self.strategies[entry.strategy].on_outcome(now, entry.prefix_key, record.face, Outcome::Nothing);
            }
        }
    }
    /// Returns an Interest unanswered.
    pub(super) fn nack(&mut self, face: FaceId, token: Option<&[u8]>, interest: &Bytes, why: NackReason, failed: bool) {
        let headers = LpPacket { pit_token: token, nack: Some(why), path_failed: failed, ..LpPacket::default() };
        self.send(face, &headers, interest);
    }
}

/// Whether an Interest is so soon after the last one passed on that it is held back.
fn is_held_back(now: Time, entry: &PitEntry) -> bool {
    let waits = entry.out_records.iter().any(|record| record.nacked.is_none());
    waits && entry.last_sent().is_some_and(|sent| now < sent + entry.suppression)
}
