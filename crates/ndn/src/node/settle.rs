//! Moves packets and events between the parts of a node until none is left.
use super::*;
use crate::router::rib;

impl NdnNode {
    /// Moves packets between the parts until none is left.
    pub(super) fn settle(&mut self, now: Time) {
        while let Some(local) = self.router.poll_local() {
            if local.face == FACE_RECEIVER {
                self.receiver.handle_packet(now, &local);
            } else if local.face == FACE_REGISTRAR {
                self.registrations.handle_packet(now, &local);
                self.readvertised.handle_packet(now, &local);
                // An answer frees a slot for the next request.
                self.register_due(now);
            } else if local.nack.is_none()
                && let Ok(interest) = Interest::decode(&local.packet)
                && let Some(data) = self.sender.handle_interest(now, &interest)
            {
                self.router.handle_local(now, FACE_SENDER, &LpPacket::default(), data);
            }
            self.return_refused(now);
        }
        while let Some((face, number, boot)) = self.router.boot_answers.pop_front() {
            self.registrations.on_boot(now, face, number, boot);
            self.register_due(now);
        }
        self.report_registered();
        self.readvertise(now);
        while let Some((name, error)) = self.sender.objects.poll_failure() {
            self.events.on_unreadable(&name, &error);
        }
        while let Some(event) = self.router.poll_event() {
            self.events.push(event);
        }
        while let Some((id, event)) = self.receiver.poll_event() {
            self.events.push(Event::Transfer(id, event));
        }
        while let Some(report) = self.receiver.echoing.reports.pop_front() {
            self.events.push(Event::Echo(report));
        }
    }
    fn report_registered(&mut self) {
        let own = self.router.config.signature.certificates();
        while let Some(outcome) = self.registrations.poll_outcome() {
            let event = match outcome {
                // The node's own certificates are no publications that anybody waits for.
                Registered::Confirmed(name) if own.iter().any(|certificate| certificate.key_name() == name) => continue,
                Registered::Confirmed(name) => ResolverEvent::Published { name: format!("{name}") },
                Registered::Refused(name, reason) => ResolverEvent::Rejected {
                    name: format!("{name}"),
                    operation: "publish",
                    reason: format!("the neighbour's forwarder reports: {reason}"),
                },
            };
            self.events.push(Event::Resolver(event));
        }
    }
    /// Tells a routing daemon of this machine which routes it is to advertise.
    fn readvertise(&mut self, now: Time) {
        let mut has_changed = false;
        while let Some(prefix) = self.router.rib.changed.pop_first() {
            has_changed = true;
            let rib = &self.router.rib;
            if rib::is_of_routing_daemon(&prefix) {
                self.readvertised.move_to(rib.get(&prefix).last().map(|route| route.face));
                let all = rib.iter().map(|(prefix, _)| prefix).filter(|prefix| rib.is_advertised(prefix));
                all.for_each(|prefix| self.readvertised.add(now, prefix));
            } else if rib.is_advertised(&prefix) {
                self.readvertised.add(now, &prefix);
            } else {
                self.readvertised.remove(now, &prefix);
            }
        }
        // Refused commands are repeated without a waiting caller.
        while self.readvertised.poll_outcome().is_some() {}
        if has_changed {
            self.register_due(now);
        }
    }
    /// Returns Interests for publications that the node can no longer read, and for names that it does not publish.
    pub(super) fn return_refused(&mut self, now: Time) {
        while let Some((interest, why)) = self.sender.poll_refusal() {
            let headers = LpPacket { nack: Some(why), ..LpPacket::default() };
            self.router.handle_local(now, FACE_SENDER, &headers, interest);
        }
    }
    pub(super) fn register_due(&mut self, now: Time) {
        for registrations in [&mut self.registrations, &mut self.readvertised] {
            let router = &mut self.router;
            while let Some((face, number)) =
                registrations.poll_boot_probe(now, &mut self.random, |face| router.mtu(face).is_some())
            {
                router.probe_boot(face, number);
            }
            while let Some(command) = registrations.poll(now, &mut self.random, |face| router.is_up(face)) {
                router.handle_local(now, FACE_REGISTRAR, &command.headers(), command.interest.clone());
            }
        }
    }
}
