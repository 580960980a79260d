//! Notices to a receiver: a source does not have, or cannot read, the requested object.
use super::*;

impl Receiver {
    /// Takes a message that is for a receiver.
    pub fn handle_message(&mut self, now: Time, header: &ChunkHeader, message: &TransportMessage) {
        let TransportMessage { transfer, object, body } = message;
        match body {
            TransportBody::Unavailable => {
                self.on_unavailable(now, header, TransferId(*transfer), *object);
            }
            TransportBody::Unreadable { why } => {
                self.on_unreadable(now, header, (*transfer, *object), *why);
            }
            _ => {}
        }
    }
    /// A source does not have the object, or a router cannot deliver to it.
    fn on_unavailable(&mut self, now: Time, header: &ChunkHeader, id: TransferId, object: ObjectId) {
        let (from, token) = (header.source, header.token());
        let is_meant = |fetch: &&mut Incoming| {
            fetch.object == Some(object) && Some(fetch.token) == token && !fetch.record.is_ended()
        };
        let Some(fetch) = self.fetches.get_mut(id).filter(is_meant) else { return };
        let timeout = fetch.nack_timeout(&self.config);
        let is_known = match fetch.source_of_mut(&from) {
            Some(source) => {
                source.state.on_away(now, timeout);
                source.state.serves = None;
                true
            }
            None => false,
        };
        let was_requested = || fetch.serving.requested.is_none_or(|requested| requested == from);
        let is_answer = fetch.serving.sender.is_none() && is_known && was_requested();
        if !fetch.serving.is_sent_by(&from) && !is_answer {
            return;
        }
        if is_known && fetch.sources.iter().any(|(_, source)| is_there(source, now)) {
            fetch.leave_sender();
            fetch.serving.requested_at = None;
            return self.request(now, id);
        }
        fetch.nack.in_vain += 1;
        fetch.serving.sender = None;
        fetch.caches.avoid |= !is_known;
        // Not at once: it may be the only source, and about to return.
        fetch.nack.restart(now, timeout / 4);
    }
    /// A source cannot read its object: it receives no more requests, and the fetch fails if it was the last.
    fn on_unreadable(&mut self, now: Time, header: &ChunkHeader, about: (u32, ObjectId), why: Unavailable) {
        let (from, token) = (header.source, header.token());
        let is_meant = |fetch: &Incoming| {
            let is_of = (fetch.transfer, fetch.object) == (about.0, Some(about.1)) && Some(fetch.token) == token;
            is_of
                && (fetch.serving.is_sent_by(&from)
                    || fetch.serving.requested.is_none_or(|requested| requested == from))
        };
        let Some((id, fetch)) = self.fetches.running_mut().find(|(_, fetch)| is_meant(fetch)) else { return };
        let mut label = from.to_string();
        if let Some(number) = fetch.number_of(&from)
            && let Some(source) = fetch.sources.get_mut(number)
        {
            source.state.serves = None;
            label.clone_from(&source.label);
            fetch.record.extend(fetch.sources.close_unavailable(number, why.to_string()));
        }
        fetch.leave_sender();
        fetch.serving.requested_at = None;
        if fetch.sources.any_usable() {
            return self.request(now, id);
        }
        if fetch.has_deliverers() {
            return;
        }
        let reason = format!("no usable source of '{}' is left: '{label}': {why}", fetch.name);
        self.fail(now, id, reason);
    }
}
