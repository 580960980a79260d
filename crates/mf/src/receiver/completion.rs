//! The completion of a transfer, and the receiver's outputs to the node.
use super::*;

impl Receiver {
    /// Gives a complete object its name, and notifies its custodians; see [`Receiver::settle`].
    pub(super) fn finish_if_complete(&mut self, now: Time, id: TransferId) {
        let Some(fetch) = self.fetches.get_mut(id).filter(|fetch| !fetch.record.is_ended()) else { return };
        let Some(reassembly) = fetch.reassembly.as_mut().filter(|it| it.writer.is_complete()) else { return };
        // The bytes are synced before the object gets its name: the custodians' notices then stay true in any case.
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
    /// Ends a transfer before the object is complete; verified data stays.
    pub(super) fn fail(&mut self, now: Time, id: TransferId, reason: String) {
        let Some(fetch) = self.fetches.get_mut(id).filter(|fetch| !fetch.record.is_ended()) else { return };
        fetch.report_conflicts();
        fetch.record.fail(now, reason);
        let is_pushed = is_pushed(fetch.transfer);
        // Chunks that a custodian keeps and that the disk cannot take may come again when there is space.
        let may_succeed = fetch.close().is_some_and(|reassembly| reassembly.may_succeed_later);
        let comes_again = is_pushed && !fetch.custody.is_empty() && may_succeed;
        // Tells the sender to stop.
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
    /// Ends a fetch; verified data stays.
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
    /// Returns a name whose announcements no fetch needs anymore.
    pub fn poll_done(&mut self) -> Option<Name> {
        while let Some(name) = self.done.pop_front() {
            if !self.wants(&name) {
                return Some(name);
            }
        }
        None
    }
}
