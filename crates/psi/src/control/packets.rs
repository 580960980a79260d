//! Packets of control messages: fragments and acknowledgements, in and out.
use super::*;

impl ControlChannel {
    pub(super) fn on_packet(&mut self, now: Time, face: FaceId, bytes: &[u8]) -> Result<(), &'static str> {
        let body = bytes.split_last_chunk::<MAC_BYTES>().ok_or("control: not authentic")?.0;
        // Whose code it must have is read before that is checked.
        let packet = ControlPacket::decode(body).map_err(|error| error.reason())?;
        if packet.to != self.node {
            return Err("control: for another node");
        }
        if packet.from == self.node {
            return Err("control: from this very node");
        }
        let key = match (&mut self.pairs, &packet.body) {
            (Some(pairs), ControlBody::Introduction { credential }) => {
                pairs.meet(now, face, packet.from, credential)?
            }
            (Some(pairs), _) => pairs.code_key(packet.from).ok_or(pairs::reason::STRANGER)?,
            (None, _) => OPEN_KEY,
        };
        unseal(&key, bytes).map_err(|_| "control: not authentic")?;
        match packet.body {
            ControlBody::Introduction { credential } => {
                let pairs = self.pairs.as_mut().ok_or("control: introduction in a network without an authority")?;
                pairs.admit(now, packet.from, credential)
            }
            ControlBody::Ack { .. } if packet.boot != self.boot => Err("control: ack of an earlier run"),
            ControlBody::Ack { received } => {
                self.on_ack(now, packet.from, MessageNumber(packet.message), received);
                Ok(())
            }
            ControlBody::Fragment { index, count, reply, payload } => {
                if let Some(pairs) = &self.pairs {
                    pairs.check(now, packet.from)?;
                }
                let key = MessageKey { from: packet.from, boot: packet.boot, message: packet.message };
                self.on_fragment(now, key, index, count, reply, payload)
            }
        }
    }

    pub(super) fn on_fragment(
        &mut self,
        now: Time,
        key: MessageKey,
        index: u8,
        count: u8,
        reply: Fid,
        payload: &[u8],
    ) -> Result<(), &'static str> {
        if self.seen.touch(key) {
            self.stats.duplicates += 1;
            self.acknowledge(key, reply, all(count));
            return Ok(());
        }
        if usize::from(count) * payload.len() > 2 * MESSAGE_BYTES_MAX {
            return Err("control: message too long");
        }
        if !self.partials.contains_key(&key) {
            if self.partials.len() >= self.config.partials_max {
                let idle = self.partials.iter().min_by_key(|(_, partial)| partial.touched).map(|(key, _)| *key);
                idle.into_iter().for_each(|key| self.drop_partial(key));
            }
            let fragments = Vec::from_iter((0..count).map(|_| Vec::new()));
            self.partials.insert(key, Partial { touched: now, received: 0, fragments });
        }
        let partial = self.partials.get_mut(&key).expect("it was there or was just put there");
        if partial.fragments.len() != usize::from(count) {
            return Err("control: fragments of one message disagree");
        }
        let bit = 1u128 << index;
        if partial.received & bit == 0 {
            if self.partial_bytes + payload.len() > self.config.partial_bytes_max {
                return Err("control: too many incomplete messages");
            }
            if partial.received | bit == all(count) && self.deliveries.len() >= self.config.deliveries_max {
                return Err("control: delivery queue full");
            }
            partial.touched = now;
            partial.received |= bit;
            partial.fragments[usize::from(index)] = payload.into();
            self.partial_bytes += payload.len();
        }
        let received = partial.received;
        if received != all(count) {
            self.timers.set(Timer::Partial(key), now + PARTIAL_LIFETIME);
            self.acknowledge(key, reply, received);
            return Ok(());
        }
        let bytes = partial.fragments.concat();
        self.drop_partial(key);
        self.seen.insert(key);
        // Malformed messages are acknowledged too: repeating them would not help.
        self.acknowledge(key, reply, received);
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err("control: message too long");
        }
        let secrecy = self.pairs.as_ref().map_or(Some(&self.open), |pairs| pairs.secrecy(key.from));
        let secrecy = secrecy.ok_or(pairs::reason::STRANGER)?;
        let bytes = secrecy.reveal(&key.context(self.node), &bytes).map_err(|_| "control: not readable")?;
        let message = Message::decode(&bytes).map_err(|error| error.reason())?;
        let messages = message.each();
        self.stats.messages_delivered += messages.len() as u64;
        self.deliveries.extend(messages.into_iter().map(|message| Delivery { from: key.from, reply, message }));
        Ok(())
    }

    pub(super) fn acknowledge(&mut self, key: MessageKey, reply: Fid, received: u128) {
        let reply = if reply.is_none() { self.routes.get(&key.from).copied().unwrap_or(reply) } else { reply };
        if reply.is_none() || self.acks.len() >= ACKS_MAX {
            return;
        }
        let body = ControlBody::Ack { received };
        let packet = ControlPacket { from: self.node, to: key.from, boot: key.boot, message: key.message, body };
        let mut out = Vec::with_capacity(64);
        packet.encode(&mut out);
        let Some(code_key) = self.code_key(key.from) else { return };
        seal(&code_key, &mut out, 0);
        self.acks.push_back((reply, out));
    }

    /// The key of the codes of packets to and from a node.
    pub(super) fn code_key(&mut self, node: NodeId) -> Option<[u8; 32]> {
        self.pairs.as_mut().map_or(Some(OPEN_KEY), |pairs| pairs.code_key(node))
    }

    pub(super) fn drop_partial(&mut self, key: MessageKey) {
        self.timers.stop(&Timer::Partial(key));
        if let Some(partial) = self.partials.remove(&key) {
            self.partial_bytes -= partial.fragments.iter().map(Vec::len).sum::<usize>();
        }
    }

    pub(super) fn on_ack(&mut self, now: Time, from: NodeId, number: MessageNumber, received: u128) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        peer.heard = Some(now);
        // Any acknowledgement shows that the peer knows this node.
        peer.introduce_at = None;
        let Some(message) = peer.messages.get_mut(&number) else { return };
        let fresh = received & all(message.count) & !message.acked;
        if fresh == 0 && received & all(message.count) != all(message.count) {
            return;
        }
        let sample = message.sample(now, fresh);
        message.acked |= fresh;
        message.unsent &= !fresh;
        let landed = (message.flying & fresh).count_ones();
        message.flying &= !fresh;
        peer.in_flight -= landed;
        match sample {
            Some(sample) => {
                peer.backoff = 0;
                fold(&mut peer.rtt, sample);
                peer.rtt_min = Some(peer.rtt_min.map_or(sample, |least| least.min(sample)));
            }
            // The acknowledged transmission is unknown; it was not earlier than this.
            None if peer.rtt.is_none() && fresh != 0 => fold(&mut peer.rtt, now.since(message.first_sent)),
            None => {}
        }
        if has_queue(sample, peer.rtt_min) {
            // No more than at the beginning, unless it has grown beyond that already.
            peer.window = (peer.window + landed).min(self.config.window_packets.max(peer.window));
        } else if peer.window < peer.slow_start_end {
            peer.window = (peer.window + landed).min(WINDOW_PACKETS_MAX);
        } else {
            peer.landed += landed;
            if peer.landed >= peer.window {
                peer.landed = 0;
                // No queue shows: a long path fills in some round trips, not in a thousand.
                peer.window = (peer.window + 1 + peer.window / 8).min(WINDOW_PACKETS_MAX);
            }
        }
        if received & all(message.count) == all(message.count) {
            peer.in_flight -= message.expire_flight();
            peer.ready[usize::from(message.is_bulk)].remove(&number);
            let others = peer.messages.remove(&number).map(|message| message.others);
            self.timers.stop(&Timer::Message(from, number));
            self.conclude(from, Vec::from([number]), SendResult::Delivered);
            self.conclude(from, others.unwrap_or_default(), SendResult::Delivered);
        } else {
            message.attempts = 1;
            message.started = now;
            let rto = peer.rto(self.rto_initial, 1);
            self.timers.set(Timer::Message(from, number), now + rto);
        }
        self.sendable.insert(from);
    }

    pub(super) fn on_message_timeout(&mut self, now: Time, to: NodeId, number: MessageNumber) {
        let Some(peer) = self.peers.get_mut(&to) else { return };
        let Some(message) = peer.messages.get_mut(&number) else { return };
        // It may have forgotten this node.
        peer.introduce_at.get_or_insert(Time::ZERO);
        let lost_at = message.last_sent();
        peer.in_flight -= message.expire_flight();
        // A queue that was full has dropped packets of many messages: they are one sign, not many.
        if lost_at >= peer.halved_at {
            peer.halved_at = now;
            peer.window = (peer.window / 2).max(WINDOW_PACKETS_MIN.min(self.config.window_packets));
            peer.slow_start_end = peer.window.max(self.config.window_packets);
        }
        peer.backoff = peer.backoff.max(message.attempts).min(BACKOFF_KEPT_MAX);
        if message.attempts >= ATTEMPTS_MAX {
            if peer.heard.is_none_or(|heard| heard < message.started) {
                // No attempt was answered: the waiting messages would only fail later.
                return self.abandon(to);
            }
            peer.ready[usize::from(message.is_bulk)].remove(&number);
            let others = peer.messages.remove(&number).map(|message| message.others);
            self.conclude(to, Vec::from([number]), SendResult::TimedOut);
            self.conclude(to, others.unwrap_or_default(), SendResult::TimedOut);
        } else {
            if message.unsent == 0 {
                // Fragments were acknowledged one by one but never all together: the receiver lost its part of the
                // message.
                message.acked = 0;
                message.unsent = all(message.count);
            }
            peer.ready[usize::from(message.is_bulk)].insert(number);
        }
        self.sendable.insert(to);
    }

    pub(super) fn fragment_for(&mut self, now: Time, to: NodeId) -> Option<(Fid, Vec<u8>)> {
        let Some(code_key) = self.code_key(to) else {
            self.abandon(to);
            return None;
        };
        let peer = self.peers.get(&to)?;
        if peer.in_flight >= peer.window {
            return None;
        }
        let number = self.next_message(now, to)?;
        let peer = self.peers.get_mut(&to)?;
        let message = peer.messages.get_mut(&number)?;
        if let (Some(pairs), Some(due)) = (&self.pairs, peer.introduce_at)
            && due <= now
        {
            let route = message.route;
            peer.introduce_at = Some(now + peer.rto(self.rto_initial, 1));
            let body = ControlBody::Introduction { credential: pairs.credential() };
            let packet = ControlPacket { from: self.node, to, boot: self.boot, message: 0, body };
            let mut out = Vec::new();
            packet.encode(&mut out);
            seal(&code_key, &mut out, 0);
            return Some((route, out));
        }
        let index = message.unsent.trailing_zeros() as usize;
        let bit = 1u128 << index;
        let starts_round = message.flying == 0;
        message.unsent &= !bit;
        message.flying |= bit;
        peer.in_flight += 1;
        self.stats.fragments_sent += 1;
        if message.sent[index].0 > 0 {
            self.stats.fragments_repeated += 1;
        }
        message.sent[index] = (message.sent[index].0.saturating_add(1), now);
        if starts_round {
            message.attempts += 1;
            if message.attempts == 1 {
                message.started = now;
            }
            if message.first_sent == Time::ZERO {
                message.first_sent = now;
            }
        }
        let attempts = message.attempts;
        let start = index * FRAGMENT_BYTES;
        let end = message.bytes.len().min(start + FRAGMENT_BYTES);
        let (route, reply, count) = (message.route, message.reply, message.count);
        let body = ControlBody::Fragment { index: index as u8, count, reply, payload: &message.bytes[start..end] };
        let packet = ControlPacket { from: self.node, to, boot: self.boot, message: number.0, body };
        let mut out = Vec::with_capacity(PACKET_BYTES);
        packet.encode(&mut out);
        seal(&code_key, &mut out, 0);
        let rto = peer.rto(self.rto_initial, attempts);
        if starts_round {
            self.timers.set(Timer::Message(to, number), now + rto);
        }
        Some((route, out))
    }
}
