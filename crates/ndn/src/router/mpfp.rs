//! MPFP, the multipath path-specified forwarding of PTP (§4): tags recorded in Data and followed by Interests.
//!
//! ```text
//!  tagged Interest ─► label of this router in front? ─► face up, leads to the prefix? ─► that face, rest of the tag
//!                              │ no                           │ no
//!                              └──────────────┬───────────────┘
//!                                             ▼
//!                    by name, and the answer says that the path failed (or a Nack at once, by configuration)
//! ```
//! An Interest whose tag has no labels left has reached the end of its path: it goes to a producer in this node, if
//! there is one.
use alloc::vec::Vec;

use tributary_core::FaceId;

use super::{
    Done, INTERNAL_FACES_FIRST, InvalidPath, Router,
    face::Face,
    fib::FibIndex,
    interest::Passing,
    labels::LabelScheme,
    pit::{Asked, InRecord, PitEntry, PitIndex},
    reason,
};
use crate::wire::{
    LpPacket, NackReason, PathTag,
    huffman::{BitStack, BitTag},
};

/// How often a face waits for the answers to other faces' Interests for one name, so that none can keep its Interests from
/// the producer for longer.
const JOINS_MAX: u8 = 3;

/// The rest of a tag without this router's label.
enum Rest {
    Labels(Vec<u8>),
    Bits(BitStack),
}

impl Router {
    /// Forwards a tagged Interest along its tag; `None` if it has none, or must go by name.
    pub(super) fn follow_tag(&mut self, index: PitIndex, fib: Option<FibIndex>, passing: &Passing<'_>) -> Option<Done> {
        let headers = passing.headers;
        let labelled = headers.tag.filter(|tag| !tag.is_empty());
        let bits = headers.tag_bits.filter(|bits| !bits.is_empty());
        if labelled.is_none() && bits.is_none() {
            let face = self.producer_at_end(fib, passing)?;
            return Some(self.pass_to_path(index, fib, passing, face, &Rest::Labels(Vec::new())));
        }
        let popped = match (labelled, bits) {
            (Some(tag), _) => self.labels.pop(tag).map(|(face, rest)| (face, Rest::Labels(rest.as_bytes().to_vec()))),
            (None, Some(tag)) => self.labels.pop_bits(tag).map(|(face, rest)| (face, Rest::Bits(rest))),
            (None, None) => None,
        };
        match popped.filter(|(face, _)| self.verify(fib, passing, *face)) {
            Some((face, rest)) => {
                self.stats.tags_followed += 1;
                Some(self.pass_to_path(index, fib, passing, face, &rest))
            }
            None => self.on_invalid_path(index, passing),
        }
    }
    /// Whether the face that a tag names is up, within scope, and leads to the prefix (PTP §4 B).
    fn verify(&self, fib: Option<FibIndex>, passing: &Passing<'_>, face: FaceId) -> bool {
        let serves = fib.is_some_and(|fib| self.fib.entry(fib).next_hops.iter().any(|hop| hop.face == face));
        serves && self.may_leave(passing, face)
    }
    /// The local producer for an Interest whose tag ends here: a strategy might send it back into the network, to
    /// another producer of the prefix.
    fn producer_at_end(&self, fib: Option<FibIndex>, passing: &Passing<'_>) -> Option<FaceId> {
        let ends_here = passing.headers.tag.is_some() || passing.headers.tag_bits.is_some();
        let mut faces = self.fib.entry(fib.filter(|_| ends_here)?).next_hops.iter().map(|hop| hop.face);
        faces.find(|face| face.0 >= INTERNAL_FACES_FIRST && self.may_leave(passing, *face))
    }
    fn on_invalid_path(&mut self, index: PitIndex, passing: &Passing<'_>) -> Option<Done> {
        self.stats.tags_failed += 1;
        match self.config.invalid_path {
            InvalidPath::ByName => {
                if let Some(record) = self.pit.entry(index).and_then(|entry| entry.in_record(passing.arrived)) {
                    record.path_failed = true;
                }
                None
            }
            InvalidPath::Nack => {
                if self.pit.remove_in_record(index, passing.arrived) {
                    self.pit.remove(index);
                }
                let token = passing.headers.pit_token;
                self.nack(passing.arrived, token, passing.packet, NackReason::NoRoute, true);
                Some(Err(reason::NO_ROUTE))
            }
        }
    }
    /// Sends an Interest through the face that its tag names, unless its Data is already on its way over that face for
    /// another requester.
    fn pass_to_path(
        &mut self,
        index: PitIndex,
        fib: Option<FibIndex>,
        passing: &Passing<'_>,
        face: FaceId,
        rest: &Rest,
    ) -> Done {
        let key = fib.map(|fib| (self.fib.entry(fib).key, self.fib.entry(fib).strategy));
        let Some(entry) = self.pit.entry(index) else { return Ok(()) };
        if entry.out_records.is_empty()
            && let Some((key, strategy)) = key
        {
            (entry.prefix_key, entry.strategy) = (key, strategy);
        }
        if !passing.headers.probe && self.joins(index, passing, face) {
            self.stats.aggregated += 1;
            return Ok(());
        }
        let value = match rest {
            Rest::Labels(labels) => labels.clone(),
            Rest::Bits(bits) => bits.value(),
        };
        let headers = LpPacket {
            tag: matches!(rest, Rest::Labels(_)).then(|| PathTag::parse(&value).unwrap_or(PathTag::EMPTY)),
            tag_bits: match rest {
                Rest::Bits(_) => BitTag::parse(&value).ok(),
                Rest::Labels(_) => None,
            },
            ..passing.onward(passing.headers.probe)
        };
        self.pass_to(index, passing, &headers, &[face], true)
    }
    /// Whether an Interest waits for the answer that another face has requested by `face`: a second request would bring it
    /// twice. A repeated Interest shows that its answer may be lost, so it leaves, unless another face's Interest left
    /// since, or it waited and that one left so recently that its sender will repeat it. Receivers request lost packets with
    /// other selectors, in separate entries: all count as one, since one Data answers them.
    fn joins(&mut self, index: PitIndex, passing: &Passing<'_>, face: FaceId) -> bool {
        let now = self.now;
        let hash = self.hasher.name(passing.interest.name);
        let passed_on = |entry: &PitEntry| {
            let others = |record: &InRecord| record.face != passing.arrived && record.expires > now;
            let out = entry.out_records.iter().find(|record| record.face == face && record.nacked.is_none());
            out.copied().filter(|_| entry.in_records.iter().any(others))
        };
        let last = self.pit.forms(hash, passing.interest).filter_map(passed_on).max_by_key(|record| record.sent_at);
        let Some(last) = last else { return false };
        let is_under_way = |before: Asked| {
            let is_recent = before.joins && now < last.sent_at + self.config.suppression.1;
            (before.at < last.sent_at || is_recent) && before.joined < JOINS_MAX
        };
        if !passing.before.is_none_or(is_under_way) {
            return false;
        }
        let Some(entry) = self.pit.entry(index) else { return false };
        if let Some(record) = entry.in_record(passing.arrived) {
            record.asked = Asked { joins: true, joined: record.asked.joined + 1, ..record.asked };
        }
        if entry.out_record(face).is_none() {
            entry.out_records.push(last);
        }
        true
    }
    /// The tag for a waiting requester: the Data's own, prefixed with the label of its arrival face. A Data without
    /// one, from a forwarder without support for tags or from a producer, starts one here.
    pub(super) fn record_label(
        &mut self,
        face: FaceId,
        headers: &LpPacket<'_>,
        record: &InRecord,
    ) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        if !(record.probe || self.config.label_all) || !self.config.path_tags {
            return (None, None);
        }
        // A producer in this node is no hop further: it is this node that the label before leads to.
        if face.0 >= INTERNAL_FACES_FIRST && record.face.0 < INTERNAL_FACES_FIRST {
            return (None, None);
        }
        self.stats.labels_written += 1;
        match self.config.labels {
            LabelScheme::Random => (self.labels.push(headers.tag.unwrap_or(PathTag::EMPTY), face), None),
            LabelScheme::Huffman => (None, self.labels.push_bits(headers.tag_bits, face).map(|stack| stack.value())),
        }
    }
    /// The rates for a waiting requester: the Data's own, prefixed with the rate of its departure link.
    pub(super) fn record_rate(&self, headers: &LpPacket<'_>, record: &InRecord) -> Option<Vec<u8>> {
        if !self.may_carry_rates(record) {
            return None;
        }
        let rates = headers.rates.unwrap_or_default();
        // An application of this node has no link.
        if record.face.0 >= INTERNAL_FACES_FIRST {
            return Some(rates.as_bytes().to_vec());
        }
        let face = self.faces.get(&record.face).filter(|_| self.config.tell_rates);
        rates.pushed(face.and_then(Face::rate))
    }
    /// Measures the departure link of the answer to a probe, if its rate is not configured; the next probe gets it.
    pub(super) fn measure_rate(&mut self, record: &InRecord) {
        if self.config.tell_rates
            && self.may_carry_rates(record)
            && let Some(face) = self.faces.get_mut(&record.face)
        {
            face.measure_rate(self.now);
        }
    }
    /// Whether the answer to a requester carries rates: only to probes, whose labels they belong to.
    fn may_carry_rates(&self, record: &InRecord) -> bool {
        record.probe && self.config.path_tags && self.config.labels == LabelScheme::Random
    }
    /// A face went down: requesters whose Interests are pending there get a Nack at once (PTP §4 C 2), unless the
    /// Interests also took another route.
    pub(super) fn on_face_down(&mut self, face: FaceId) {
        // Both scan the complete table, and forged addresses come and go by the thousand.
        let was_requested = self.faces.get(&face).is_none_or(|face| face.counters.interests.1 > 0);
        let requested_of = if was_requested { self.pit.waiting_for(face) } else { Vec::new() };
        for index in requested_of {
            let Some(record) = self.pit.entry(index).and_then(|entry| entry.out_record(face)) else { continue };
            if record.nacked.is_none() {
                record.nacked = Some(NackReason::NoRoute);
                let is_named = record.named;
                self.return_unanswered(index, is_named);
            }
        }
        for index in self.pit.waited_for_by(face) {
            if self.pit.remove_in_record(index, face)
                && let Some(entry) = self.pit.remove(index)
            {
                self.on_expired(&entry);
            }
        }
    }
}
