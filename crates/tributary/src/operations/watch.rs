//! Events of a node for its watchers.
use tributary_core::{
    Duration, Time, TransferId,
    event::{Event, TransferEvent},
};
use tributary_net::Clock;

use crate::{
    api::Flow,
    error::{ApiError, ErrorKind},
    node::{LocalNode, event_bus::Waited},
    notice::Notice,
    request::{PROGRESS_MS_MAX, PROGRESS_MS_MIN},
};

impl LocalNode {
    /// Reports events, the progress of running transfers every `progress_ms`, and how each one ended.
    pub(crate) fn watch(&self, progress_ms: u64, notify: &mut dyn FnMut(Notice) -> Flow) -> Result<(), ApiError> {
        if !(PROGRESS_MS_MIN..=PROGRESS_MS_MAX).contains(&progress_ms) {
            let message =
                format!("'progress_ms' is {PROGRESS_MS_MIN} to {PROGRESS_MS_MAX} milliseconds, not {progress_ms}");
            return Err(ApiError::new(ErrorKind::Usage, message));
        }
        let interval = Duration::from_millis(progress_ms);
        let subscription = self.runtime.events().subscribe();
        let clock = Clock::new();
        let mut next = Time::ZERO;
        // A client that watches an idle node learns at once that it is connected.
        let mut is_silent = true;
        loop {
            let flow = match subscription.wait(clock.until(next)) {
                Waited::Event(event) => {
                    is_silent = false;
                    self.report_event(&event, notify)?
                }
                Waited::TimedOut => {
                    next = clock.now() + interval;
                    let running = self.progress(None)?.into_iter().filter(|view| view.running);
                    let running: Vec<_> = running.map(Notice::Progress).collect();
                    is_silent &= running.is_empty();
                    let verdict = match std::mem::replace(&mut is_silent, true) {
                        true => notify(Notice::Waiting),
                        false => Flow::Continue,
                    };
                    running.into_iter().fold(verdict, |flow, view| match flow {
                        Flow::Continue => notify(self.happened(view)),
                        Flow::Stop => Flow::Stop,
                    })
                }
                Waited::Closed => return Err(ApiError::new(ErrorKind::Gone, "the node has ended")),
            };
            if flow == Flow::Stop {
                return Ok(());
            }
        }
    }
    fn report_event(&self, event: &Event, notify: &mut dyn FnMut(Notice) -> Flow) -> Result<Flow, ApiError> {
        let of = |transfer: &TransferId, what| Notice::Happened {
            seconds: self.runtime.now().as_secs_f64(),
            transfer: Some(transfer.to_string()),
            what: Box::new(what),
        };
        Ok(match event {
            // The report says how it ended.
            Event::Transfer(transfer, TransferEvent::Completed | TransferEvent::Failed { .. }) => {
                match self.progress(Some(*transfer))?.pop() {
                    Some(view) => notify(self.happened(Notice::Progress(view))),
                    None => Flow::Continue,
                }
            }
            Event::Transfer(transfer, _) => {
                Notice::from_event(event).map_or(Flow::Continue, |what| notify(of(transfer, what)))
            }
            _ => Notice::from_event(event).map_or(Flow::Continue, |what| notify(self.happened(what))),
        })
    }
    fn happened(&self, what: Notice) -> Notice {
        let transfer = match &what {
            Notice::Progress(view) => Some(view.transfer.clone()),
            _ => None,
        };
        Notice::Happened { seconds: self.runtime.now().as_secs_f64(), transfer, what: Box::new(what) }
    }
}
