//! Echo requests that this node answers. RFC 9508 §5, RFC 9507 §5.
//!
//! A node answers for its own name, for publications of its own applications, for prefixes registered by local programs
//! that answer no echo requests themselves (RFC 9508 §5.3), for names in its content store, and, to traceroute, where
//! the hop limit ends. Other echo requests are forwarded like any Interest. Each face has a limited number of answers
//! per second.
use tributary_content::Name;
use tributary_core::FaceId;

use super::{Done, INTERNAL_FACES_FIRST, Router, face::Face, interest::Passing};
use crate::wire::{
    Data, Interest, KeyLocator, LpPacket, NameView, SignKey, SignatureInfo, SignatureType,
    echo::{EchoReply, EchoRequest, Purpose, ReplyCode},
};

impl Router {
    /// Answers an echo request; `None` for other Interests, and requests to other nodes.
    pub(super) fn on_echo(&mut self, passing: &Passing<'_>) -> Option<Done> {
        let request = EchoRequest::of(passing.interest.name)?;
        let code = self.reply_code(&request, passing.interest)?;
        if !self.may_answer(passing.arrived) {
            return Some(Err("too many echo requests"));
        }
        self.stats.echoes += 1;
        let locator = Name::root().child(self.config.label.as_bytes()).unwrap_or_default();
        let content = EchoReply { code, responder: &self.config.label }.encode();
        let signature = SignatureInfo {
            key_locator: Some(KeyLocator::Name(NameView::from(&locator))),
            ..SignatureInfo::new(SignatureType::DigestSha256)
        };
        let data = Data { signature, ..Data::new(passing.interest.name, &content) }.sign(&SignKey::Digest);
        let headers = LpPacket { pit_token: passing.headers.pit_token, ..LpPacket::default() };
        self.send(passing.arrived, &headers, &data.into());
        Some(Ok(()))
    }
    fn reply_code(&self, request: &EchoRequest<'_>, interest: &Interest<'_>) -> Option<ReplyCode> {
        let target = request.target;
        let own = self.config.label.as_bytes();
        if target.len() == 1 && !own.is_empty() && target.last().is_some_and(|part| part.value == own) {
            return Some(ReplyCode::Forwarder);
        }
        if self.is_served_here(target) {
            return Some(ReplyCode::Application);
        }
        if self.cs.contains(self.now, target) {
            return Some(ReplyCode::Object);
        }
        let ends = request.purpose == Purpose::Traceroute && interest.hop_limit == Some(0);
        ends.then_some(ReplyCode::HopLimit)
    }
    /// Whether an application in this node serves a name, or a program that is attached to it.
    fn is_served_here(&self, name: NameView<'_>) -> bool {
        let prefixes = self.hasher.prefixes(name);
        let entry = self.fib.longest_match(&prefixes, name.as_tlv()).map(|index| self.fib.entry(index));
        entry.is_some_and(|entry| {
            let mut faces = entry.next_hops.iter().map(|hop| hop.face);
            faces.any(|face| face.0 >= INTERNAL_FACES_FIRST || self.is_registered_by_program(&entry.prefix, face))
        })
    }
    /// Whether a local program has registered a prefix on this face and answers no echo requests for it. Routes from
    /// the configuration or a tool lead on: to another forwarder, for example.
    fn is_registered_by_program(&self, prefix: &Name, face: FaceId) -> bool {
        let is_silent = |face: &Face| face.is_local() && face.up && !face.answers_echoes;
        self.faces.get(&face).is_some_and(is_silent) && self.rib.is_registered(prefix, face)
    }
    fn may_answer(&mut self, face: FaceId) -> bool {
        let now = self.now;
        // After a pause a second's worth of them.
        let per_second = self.config.echoes_per_second;
        self.faces.get_mut(&face).is_some_and(|state| state.echoes.take(now, per_second, per_second.into()))
    }
}

#[cfg(test)]
mod tests {
    use tributary_core::{Budget, Duration, Time};

    #[test]
    fn a_second_s_worth_of_answers_comes_at_once_and_then_one_at_a_time() {
        let mut allowance = Budget::default();
        let now = Time::from_millis(5_000);
        let taken = |allowance: &mut Budget, now| (0..1000).filter(|_| allowance.take(now, 100, 100)).count();
        assert_eq!(taken(&mut allowance, now), 100);
        assert_eq!(taken(&mut allowance, now + Duration::from_millis(9)), 0);
        assert_eq!(taken(&mut allowance, now + Duration::from_millis(10)), 1);
        assert_eq!(taken(&mut allowance, now + Duration::from_secs(60)), 100);
        assert!(!Budget::default().take(now, 0, 0));
    }
}
