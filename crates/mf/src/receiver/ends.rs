//! The end of a transfer, and what a node takes out of the receiver.
use super::*;

impl Receiver {
    /// Gives an object that is complete its name, and tells its custodians; see [`Receiver::settle`].
    pub(super) fn finish_if_complete(&mut self, now: Time, id: TransferId) {
        let Some(fetch) = self.fetches.get_mut(id).filter(|fetch| !fetch.record.is_ended()) else { return };
        let Some(reassembly) = fetch.reassembly.as_mut().filter(|reassembly| reassembly.is_complete()) else { return };
        // The bytes are on the disk before the object has its name: then what custodians hear is true whatever happens.
        let synced = if fetch.custody.is_empty() { Ok(true) } else { reassembly.sync() };
        let finished = match synced {
            Ok(true) => reassembly.finish(),
            waits_or_failed => waits_or_failed,
        };
        match finished {
            Ok(true) => {}
            Ok(false) => return,
            Err(reason) => return self.fail(now, id, reason),
        }
        fetch.close();
        fetch.record.complete(now);
        self.outbox.extend(fetch.stop_messages());
        self.answers.outbox.extend(fetch.custody.take_all(CustodyState::Taken));
        self.done.push_back(fetch.name.clone());
        if is_pushed(fetch.transfer) {
            self.answers.on_room();
        }
    }
    /// Ends a transfer without the whole object; what is verified stays.
    pub(super) fn fail(&mut self, now: Time, id: TransferId, reason: String) {
        let Some(fetch) = self.fetches.get_mut(id).filter(|fetch| !fetch.record.is_ended()) else { return };
        fetch.report_conflicts();
        fetch.record.fail(now, reason);
        let is_pushed = is_pushed(fetch.transfer);
        // What a custodian keeps, and there is no room for on the disk, may come again when there is.
        let may_succeed = fetch.close().is_some_and(|reassembly| reassembly.may_succeed_later());
        let comes_again = is_pushed && !fetch.custody.is_empty() && may_succeed;
        // Whoever sends need not go on.
        match is_pushed {
            true if comes_again => {}
            true => self.outbox.extend(fetch.refusal()),
            false => self.outbox.extend(fetch.stop_messages()),
        }
        let state = if comes_again { CustodyState::Lost } else { CustodyState::Over };
        self.answers.outbox.extend(fetch.custody.take_all(state));
        self.done.push_back(fetch.name.clone());
        if comes_again {
            self.pushed.forget(id);
        }
        if is_pushed {
            self.answers.on_room();
        }
    }
    /// Ends a fetch; what is verified stays.
    pub fn cancel(&mut self, now: Time, id: TransferId) {
        self.fail(now, id, "cancelled".into());
    }

    /// The next message to send.
    pub fn poll_message(&mut self) -> Option<Outgoing> {
        self.outbox.pop_front()
    }
    /// The next event of a transfer.
    pub fn poll_event(&mut self) -> Option<(TransferId, TransferEvent)> {
        if self.fetches.is_empty() {
            return None;
        }
        self.collect_events();
        self.fetches.poll_event()
    }
    pub(super) fn collect_events(&mut self) {
        self.fetches.collect_events(|fetch| fetch.record.poll_event());
    }
    /// A name of which no fetch needs announcements any more.
    pub fn poll_done(&mut self) -> Option<Name> {
        while let Some(name) = self.done.pop_front() {
            if !self.wants(&name) {
                return Some(name);
            }
        }
        None
    }
}
