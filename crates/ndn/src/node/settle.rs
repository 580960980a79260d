//! Moves packets and events between the parts of a node until none is left.
use super::*;

impl NdnNode {
    /// Moves packets between the parts until none is left.
    pub(super) fn settle(&mut self, now: Time) {
        while let Some(local) = self.router.poll_local() {
            if local.face == FACE_RECEIVER {
                self.receiver.handle_packet(now, &local);
            } else if local.face == FACE_REGISTRAR {
                self.registrations.handle_packet(now, &local);
                // An answer makes room for the next request.
                self.register_due(now);
            } else if local.nack.is_none()
                && let Ok(interest) = Interest::decode(&local.packet)
                && let Some(data) = self.sender.handle_interest(now, &interest)
            {
                self.router.handle_local(now, FACE_SENDER, &LpPacket::default(), data);
            }
            self.return_refused(now);
        }
        while let Some((face, number, boot)) = self.router.poll_boot_answer() {
            self.registrations.on_boot(now, face, number, boot);
            self.register_due(now);
        }
        self.report_registered();
        while let Some((name, error)) = self.sender.poll_failure() {
            self.events.on_unreadable(&name, &error);
        }
        while let Some(event) = self.router.poll_event() {
            self.events.push(event);
        }
        while let Some((id, event)) = self.receiver.poll_event() {
            self.events.push(Event::Transfer(id, event));
        }
        while let Some(report) = self.receiver.poll_echo() {
            self.events.push(Event::Echo(report));
        }
    }
    fn report_registered(&mut self) {
        while let Some(outcome) = self.registrations.poll_outcome() {
            let event = match outcome {
                // The node's own certificates are no publications that anybody waits for.
                Registered::Confirmed(name) if self.is_of_certificate(&name) => continue,
                Registered::Confirmed(name) => ResolverEvent::Published { name: format!("{name}") },
                Registered::Refused(name, reason) => ResolverEvent::Rejected {
                    name: format!("{name}"),
                    operation: "publish",
                    reason: format!("the neighbour's forwarder says: {reason}"),
                },
            };
            self.events.push(Event::Resolver(event));
        }
    }
    fn is_of_certificate(&self, name: &Name) -> bool {
        self.config.signature.certificates().iter().any(|certificate| certificate.key_name() == *name)
    }
    /// Returns Interests for publications that the node can no longer read, and for names that it does not publish.
    pub(super) fn return_refused(&mut self, now: Time) {
        while let Some((interest, why)) = self.sender.poll_refusal() {
            let headers = LpPacket { nack: Some(why), ..LpPacket::default() };
            self.router.handle_local(now, FACE_SENDER, &headers, interest);
        }
    }
    pub(super) fn register_due(&mut self, now: Time) {
        loop {
            let router = &self.router;
            let has_datagrams = |face| router.mtu(face).is_some();
            let Some((face, number)) = self.registrations.poll_boot_probe(now, &mut self.random, has_datagrams) else {
                break;
            };
            self.router.probe_boot(face, number);
        }
        loop {
            let router = &self.router;
            let is_up = |face| router.is_up(face);
            let Some(command) = self.registrations.poll(now, &mut self.random, is_up) else { return };
            self.router.handle_local(now, FACE_REGISTRAR, &command.headers(), command.interest.clone());
        }
    }
}
