//! The packet cache at work (paper §III-A): what passes is kept, and requests with a valid capability are answered.
use alloc::vec::Vec;

use bytes::Bytes;
use tributary_core::{Datagram, HEAD_BYTES_MAX};

use super::{
    Router,
    cache::{Body, Provenance},
    reason, ttl_of_copies,
    view::{FidView, View, parts_after, write_header},
};
use crate::{
    capability::CapabilityKeys,
    wire::{
        DataHeader, FLAG_CACHED, FLAG_NO_CACHE, FLAG_UNAVAILABLE, Fid, Header, PacketType, REQUEST_RANGES_MAX, Request,
        StreamKey, TTL_MAX, WireError,
    },
};

impl Router {
    /// Keeps a packet that passes through; `head` and `body` are what stands behind its header.
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
    }
    /// Verifies a request and answers what the cache has of it. `self.matches` is left as it was.
    pub(super) fn on_request(&mut self, view: View, datagram: &Datagram, local: bool) -> Result<Answer, &'static str> {
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
            return Err(reason::CAPABILITY);
        }
        if local || view.ttl == 0 || view.flags & FLAG_NO_CACHE != 0 || self.cache.is_none() {
            return Ok(Answer::None);
        }
        self.scratch.clone_from(&self.matches);
        let answer = self.answer(view, &reverse, &request);
        core::mem::swap(&mut self.scratch, &mut self.matches);
        Ok(answer)
    }
    /// Sends what the cache has of `request`, whose own way on is in `self.scratch`.
    fn answer(&mut self, view: View, reverse: &Fid, request: &Request) -> Answer {
        let stream = StreamKey::new(&request.object, request.packet_bytes);
        let Some(cache) = &mut self.cache else { return Answer::None };
        if !cache.holds(stream) {
            cache.count_misses(request.ranges.iter().map(|(_, count)| u64::from(*count)).sum());
            return Answer::None;
        }
        if self.match_fid(FidView::of(&request.forward)).is_err() {
            return Answer::None;
        }
        // The answer leaves as if it had come from where the request would have gone on to, so that it takes the
        // same way as an answer of the source, which is the way that the topology manager verified.
        self.take_local();
        self.matches.iter_mut().zip(&self.scratch).for_each(|(matched, request)| *matched &= !request);
        let ports = self.ports_of_matches(false);
        let copies = ports.copies;
        if copies == 0 || copies > self.config.copies_max {
            return Answer::None;
        }
        let mut head = [0; HEAD_BYTES_MAX];
        let Some(ttl) = ttl_of_copies(TTL_MAX, copies) else { return Answer::None };
        let header_len = write_header(&mut head, PacketType::Data, FLAG_CACHED, ttl, &request.forward);
        let head = &mut head[..header_len + DataHeader::BYTES];
        let data = DataHeader { tag: request.tag, packet: 0, stream, origin: self.config.node.0 as u16 };
        head[header_len..].copy_from_slice(&data.to_bytes());

        let mut remaining = Remaining::default();
        let mut answered = 0;
        // It is put back below: packets are queued while it is looked at.
        let Some(mut cache) = self.cache.take() else { return Answer::None };
        for (i, (first, count)) in request.ranges.iter().enumerate() {
            let ranges_to_come = request.ranges.len() - i - 1;
            cache.lookup_range(stream, *first..*first + u32::from(*count), |packet, found| {
                // A hit may split a range in two; the rewritten request must not get too many ranges.
                let may_split = remaining.ranges.len() + 1 + ranges_to_come <= REQUEST_RANGES_MAX;
                let Some(payload) = found.filter(|_| may_split) else {
                    remaining.push(packet);
                    return false;
                };
                head[header_len + 4..header_len + 8].copy_from_slice(&packet.to_be_bytes());
                self.enqueue_copies(head, payload.clone(), ports, &mut 0);
                answered += 1;
                true
            });
            remaining.close();
        }
        self.cache = Some(cache);
        if answered == 0 {
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
}

/// What the cache did with a request.
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
    /// Ends a range of the original request: what follows is a range of its own.
    fn close(&mut self) {
        self.closed = true;
    }
}

/// Pairs of routes whose capability was verified lately, so that each is hashed once and not per request.
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
