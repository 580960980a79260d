//! Combines messages, so that a flood of small ones fills packets instead of using one packet and one acknowledgement
//! each. Messages wait until the window to their receiver opens; bulk behind others in flight waits (as in Nagle's
//! algorithm, RFC 896) for a small part of the round-trip time.
use alloc::{
    collections::{BTreeSet, VecDeque},
    vec::Vec,
};

use tributary_core::{NodeId, Time};

use super::{ControlChannel, FRAGMENT_BYTES, MessageNumber, Outgoing, Peer, SendResult, Timer};
use crate::wire::{Fid, MANY_BYTES_MAX, Message, MessageKey, Writer};

/// The part of the round-trip time for which bulk waits for more of it.
const HELD_PART: u32 = 8;

/// One that waits, as its part of a [`Message::Many`].
#[derive(Debug)]
pub(super) struct Held {
    pub number: MessageNumber,
    route: Fid,
    reply: Fid,
    /// How many messages it is, and the length and bytes of each.
    count: u16,
    parts: Vec<u8>,
}

impl Held {
    /// `bytes` is the message's encoding.
    pub(super) fn new(number: MessageNumber, (route, reply): (Fid, Fid), message: &Message, bytes: &[u8]) -> Held {
        let (count, parts) = match message {
            Message::Many(all) => (all.len() as u16, bytes[Message::MANY_HEAD_BYTES..].to_vec()),
            _ => {
                let mut parts = Vec::with_capacity(bytes.len() + 2);
                parts.put_blob(bytes);
                (1, parts)
            }
        };
        Held { number, route, reply, count, parts }
    }
    pub(super) fn reroute(&mut self, route: Fid, reply: Fid) {
        (self.route, self.reply) = (route, reply);
    }
}

/// Numbers of combined messages, the encoded message, and its routes there and back.
type Joined = (Vec<MessageNumber>, Vec<u8>, (Fid, Fid));

/// Takes the first waiting message, and later ones with the same route that fit into one message with it: their
/// numbers, the encoded message, and its routes.
fn join(held: &mut VecDeque<Held>) -> Option<Joined> {
    let first = held.pop_front()?;
    let (routes, mut count, mut parts) = ((first.route, first.reply), first.count, first.parts);
    let mut numbers = Vec::from([first.number]);
    while let Some(next) = held.front()
        && parts.len() + next.parts.len() <= MANY_BYTES_MAX
        && (next.route, next.reply) == routes
        && let Some(sum) = count.checked_add(next.count)
        && let Some(next) = held.pop_front()
    {
        count = sum;
        parts.extend_from_slice(&next.parts);
        numbers.push(next.number);
    }
    let bytes = if count == 1 { parts.split_off(2) } else { Message::many_of_parts(count, &parts) };
    Some((numbers, bytes, routes))
}

impl ControlChannel {
    /// Holds a message to `to` back for some time.
    pub(super) fn hold(&mut self, now: Time, to: NodeId, is_bulk: bool, held: Held) {
        let Some(peer) = self.peers.get_mut(&to) else { return };
        if is_bulk {
            peer.held_bytes += held.parts.len();
            if peer.held_until.is_none() {
                let until = now + peer.rtt.map_or(tributary_core::Duration::ZERO, |(smoothed, _)| smoothed / HELD_PART);
                peer.held_until = Some(until);
                self.timers.set(Timer::Held(to), until);
            }
        }
        peer.held[usize::from(is_bulk)].push_back(held);
        self.sendable.insert(to);
    }

    /// The message to `to` whose fragment goes next: urgent ones first.
    pub(super) fn next_message(&mut self, now: Time, to: NodeId) -> Option<MessageNumber> {
        for class in [0, 1] {
            loop {
                let peer = self.peers.get_mut(&to)?;
                if let Some(number) = peer.next_ready(class) {
                    return Some(number);
                }
                if !peer.may_release(now, class) {
                    break;
                }
                self.release(to, class);
            }
        }
        None
    }

    /// Makes messages to `to` of one class ready that were held.
    fn release(&mut self, to: NodeId, class: usize) {
        let Some(peer) = self.peers.get_mut(&to) else { return };
        let Some((mut others, bytes, (route, reply))) = join(&mut peer.held[class]) else { return };
        if class == 1 {
            peer.held_bytes = peer.held_bytes.saturating_sub(bytes.len() + 2);
            if peer.held[1].is_empty() {
                (peer.held_until, peer.held_bytes) = (None, 0);
                self.timers.stop(&Timer::Held(to));
            }
        }
        let number = others.remove(0);
        let key = MessageKey { from: self.node, boot: self.boot, message: number.0 };
        let secrecy = self.pairs.as_ref().map_or(Some(&self.open), |pairs| pairs.secrecy(to));
        let Some(secrecy) = secrecy else {
            others.push(number);
            return self.conclude(to, others, SendResult::NoKey);
        };
        let bytes = secrecy.hide(&key.context(to), &bytes);
        let outgoing = Outgoing { is_bulk: class == 1, others, ..Outgoing::new(bytes, route, reply) };
        peer.ready[class].insert(number);
        peer.messages.insert(number, outgoing);
    }
}

impl Peer {
    /// Whether a message of this class must wait: ready fragments fill the window, or others are in flight and this one
    /// is bulk.
    pub(super) fn holds(&self, is_bulk: bool) -> bool {
        let ready: usize = self.ready.iter().map(BTreeSet::len).sum();
        let is_full = self.in_flight as usize + ready >= self.window as usize;
        is_full || is_bulk && self.rtt.is_some() && self.in_flight as usize + ready > 0
    }
    /// Whether held messages of a class may go: of the bulk when they fill a fragment or have waited.
    fn may_release(&self, now: Time, class: usize) -> bool {
        let has_waited = self.held_bytes >= FRAGMENT_BYTES || self.held_until.is_some_and(|until| until <= now);
        !self.held[class].is_empty() && (class == 0 || has_waited)
    }
}
