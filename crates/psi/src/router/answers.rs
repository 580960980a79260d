//! The packet cache at work (paper §III-A): passing packets are kept, and requests with a valid capability are
//! answered, or wait for the answer to another receiver's request.
use alloc::{sync::Arc, vec::Vec};

use bytes::Bytes;
use tributary_core::{Datagram, HEAD_BYTES_MAX, Time};

use super::{
    Router,
    cache::{Body, Provenance},
    decision::Ports,
    pending::Way,
    ttl_of_copies,
    view::{FidView, View, parts_after, write_header},
};
use crate::{
    capability::CapabilityKeys,
    wire::{
        DataHeader, FLAG_CACHED, FLAG_MARKED, FLAG_NO_CACHE, FLAG_UNAVAILABLE, Fid, Header, PacketType,
        REQUEST_RANGES_MAX, Request, StreamKey, TTL_MAX, WireError,
    },
};

impl Router {
    /// Keeps a packet that passes through, and copies it to the receivers that wait for it; `head` and `body` are the
    /// parts behind its header.
    pub(super) fn on_data(&mut self, view: View, head: &[u8], body: Body<'_>) {
        let Some(cache) = self.cache.as_mut().filter(|_| view.flags & FLAG_UNAVAILABLE == 0) else { return };
        let front = if head.is_empty() { &body[..] } else { head };
        let Ok(data) = DataHeader::decode(front) else { return };
        let (head, body) = match head {
            [] => (head, Body::Slice(&body[DataHeader::BYTES..])),
            head => (&head[DataHeader::BYTES..], body),
        };
        let from = if view.flags & FLAG_CACHED == 0 { Provenance::Source } else { Provenance::Cache };
        cache.insert_body(data.stream, data.packet, head, body, from);
        let mut payload = None;
        for way in self.pending.take((data.stream, data.packet)) {
            let copy = || match (head, body) {
                ([], Body::Shared(bytes)) => bytes.clone(),
                _ => [head, &body[..]].concat().into(),
            };
            let payload = payload.get_or_insert_with(copy).clone();
            // A face may have been removed since.
            let Some(first) = self.face_index.get(&way.face).copied().filter(|at| self.faces[*at].stats.up) else {
                continue;
            };
            let ports = Ports { copies: 1, first, is_local: false };
            let mut out = [0; HEAD_BYTES_MAX];
            let flags = FLAG_CACHED | view.flags & FLAG_MARKED;
            let out = self.answer_head(&mut out, flags, TTL_MAX, &way.forward, way.tag, data.stream);
            set_packet(out, data.packet);
            self.enqueue_copies(out, payload, ports, &mut 0);
        }
    }
    /// The headers of an answer of this cache, whose packet number is not set yet.
    fn answer_head<'a>(
        &self,
        out: &'a mut [u8; HEAD_BYTES_MAX],
        flags: u8,
        ttl: u8,
        forward: &Fid,
        tag: u32,
        stream: StreamKey,
    ) -> &'a mut [u8] {
        let header_len = write_header(out, PacketType::Data, flags, ttl, forward);
        let data = DataHeader { tag, packet: 0, stream, origin: self.config.node.0 as u16 };
        let out = &mut out[..header_len + DataHeader::BYTES];
        out[header_len..].copy_from_slice(&data.to_bytes());
        out
    }
    /// Verifies a request and answers the part of it that the cache has. `self.matches` is left unchanged.
    pub(super) fn on_request(
        &mut self,
        now: Time,
        view: View,
        datagram: &Datagram,
        local: bool,
    ) -> Result<Answer, &'static str> {
        let reverse = view.fid(datagram.header_bytes()).to_fid();
        let [head, body] = parts_after(datagram, view.header_len);
        let joined;
        let bytes = if head.is_empty() {
            body
        } else {
            joined = [head, body].concat();
            &joined
        };
        let request = Request::decode(bytes).map_err(WireError::reason)?;
        if !self.verified.check(&self.keys, &reverse, &request.forward, &request.capability) {
            return Err("capability not valid");
        }
        if local || view.ttl == 0 || view.flags & FLAG_NO_CACHE != 0 || self.cache.is_none() {
            return Ok(Answer::None);
        }
        self.scratch.clone_from(&self.matches);
        let answer = self.answer(now, view, &reverse, &request);
        core::mem::swap(&mut self.scratch, &mut self.matches);
        Ok(answer)
    }
    /// Sends the cached packets of `request`, whose further route is in `self.scratch`, and removes packets for which
    /// another request is pending.
    fn answer(&mut self, now: Time, view: View, reverse: &Fid, request: &Request) -> Answer {
        let stream = StreamKey::new(&request.object, request.packet_bytes);
        if self.match_fid(FidView::of(&request.forward)).is_err() {
            return Answer::None;
        }
        // The answer leaves as if it had come from the next hop of the request, so that it takes the same route as an
        // answer of the source, which is the route that the topology manager verified.
        self.take_local();
        self.matches.iter_mut().zip(&self.scratch).for_each(|(matched, request)| *matched &= !request);
        let ports = self.ports_of_matches(false);
        let copies = ports.copies;
        if copies == 0 || copies > self.config.copies_max {
            return Answer::None;
        }
        let mut head = [0; HEAD_BYTES_MAX];
        let Some(ttl) = ttl_of_copies(TTL_MAX, copies) else { return Answer::None };
        let head = self.answer_head(&mut head, FLAG_CACHED, ttl, &request.forward, request.tag, stream);
        let way = self.way_of(request, ports).map(Arc::new);

        let mut remaining = Remaining::default();
        let (mut answered, mut joined) = (0, 0);
        // It is put back below: packets are queued while the cache is searched.
        let Some(mut cache) = self.cache.take() else { return Answer::None };
        for (i, (first, count)) in request.ranges.iter().enumerate() {
            let ranges_to_come = request.ranges.len() - i - 1;
            cache.lookup_range(stream, *first..*first + u32::from(*count), |packet, found| {
                // A hit may split a range in two; the rewritten request must not get too many ranges.
                let may_split = remaining.ranges.len() + 1 + ranges_to_come <= REQUEST_RANGES_MAX;
                let Some(payload) = found.filter(|_| may_split) else {
                    let way = way.as_ref().filter(|_| may_split);
                    match way.is_some_and(|way| self.pending.ask(now, (stream, packet), way)) {
                        true => joined += 1,
                        false => remaining.push(packet),
                    }
                    return false;
                };
                set_packet(head, packet);
                self.enqueue_copies(head, payload.clone(), ports, &mut 0);
                answered += 1;
                true
            });
            remaining.close();
        }
        self.cache = Some(cache);
        if answered + joined == 0 {
            return Answer::None;
        }
        self.stats.answered += answered as u64;
        if remaining.ranges.is_empty() {
            return Answer::Some { rest: None, answered };
        }
        let rest = Request { ranges: remaining.ranges, ..request.clone() };
        let mut bytes = Vec::with_capacity(256);
        let header = Header { packet_type: PacketType::Request, flags: view.flags, ttl: view.ttl, fid: *reverse };
        header.encode(&mut bytes);
        rest.encode(&mut bytes);
        Answer::Some { rest: Some(bytes.into()), answered }
    }
    /// The path of an answer that may wait for another request's: through one face, like the request.
    fn way_of(&self, request: &Request, ports: Ports) -> Option<Way> {
        let words = || self.scratch.iter().enumerate().filter(|(_, word)| **word != 0);
        let onward = words().next().filter(|_| words().map(|(_, word)| word.count_ones()).sum::<u32>() == 1);
        let onward = onward.map(|(index, word)| index * 64 + word.trailing_zeros() as usize)?;
        let face_at = |index: usize| self.faces.get(index).filter(|_| ports.copies == 1).map(|face| face.id);
        Some(Way { forward: request.forward, tag: request.tag, face: face_at(ports.first)?, onward: face_at(onward)? })
    }
}

/// Sets the number of the packet in headers that end in a [`DataHeader`].
fn set_packet(head: &mut [u8], packet: u32) {
    let start = head.len() - DataHeader::BYTES + 4;
    head[start..start + 4].copy_from_slice(&packet.to_be_bytes());
}

/// The cache's part in a request; `rest` is forwarded.
pub(super) enum Answer {
    None,
    Some { rest: Option<Bytes>, answered: usize },
}

/// The packets of a request that the cache does not have, as ranges.
#[derive(Default)]
struct Remaining {
    ranges: Vec<(u32, u8)>,
    closed: bool,
}

impl Remaining {
    fn push(&mut self, packet: u32) {
        match self.ranges.last_mut() {
            Some((first, count)) if !self.closed && *first + u32::from(*count) == packet => *count += 1,
            _ => self.ranges.push((packet, 1)),
        }
        self.closed = false;
    }
    /// Ends a range of the original request: the next packets start a new range.
    fn close(&mut self) {
        self.closed = true;
    }
}

/// Pairs of routes whose capability was verified recently, so that each is hashed once and not per request.
#[derive(Default)]
pub(super) struct Verified(Vec<Option<(Fid, Fid, [u8; 8])>>);

impl Verified {
    const SLOTS: usize = 64;

    fn check(&mut self, keys: &CapabilityKeys, reverse: &Fid, forward: &Fid, capability: &[u8; 8]) -> bool {
        let slot = usize::from(capability[1]) % Self::SLOTS;
        let known = self.0.get(slot).and_then(Option::as_ref);
        if known.is_some_and(|(r, f, c)| r == reverse && f == forward && c == capability) {
            return true;
        }
        let valid = keys.verify(reverse, forward, capability);
        if valid {
            self.0.resize(Self::SLOTS, None);
            self.0[slot] = Some((*reverse, *forward, *capability));
        }
        valid
    }
}
