//! Events of a node for its watchers.
use std::sync::mpsc::RecvTimeoutError;
use tributary_core::{
    Duration, Time,
    event::{Event, TransferEvent},
};
use tributary_net::Clock;

use crate::{
    api::{Flow, Notify},
    error::{ApiError, ErrorKind},
    node::LocalNode,
    notice::Notice,
    request::{PROGRESS_MS_MAX, PROGRESS_MS_MIN},
};

impl LocalNode {
    /// Reports events, the progress of running transfers every `progress_ms`, and how each one ended.
    pub(crate) fn watch(&self, progress_ms: u64, notify: Notify<'_>) -> Result<(), ApiError> {
        if !(PROGRESS_MS_MIN..=PROGRESS_MS_MAX).contains(&progress_ms) {
            let message =
                format!("'progress_ms' is {PROGRESS_MS_MIN} to {PROGRESS_MS_MAX} milliseconds, not {progress_ms}");
            return Err(ApiError::usage(message));
        }
        let interval = Duration::from_millis(progress_ms);
        let subscription = self.runtime.events.subscribe();
        let clock = Clock::new();
        let mut next = Time::ZERO;
        // A client that watches an idle node learns at once that it is connected.
        let mut is_silent = true;
        loop {
            let flow = match subscription.wait(clock.until(next)) {
                Ok(event) => {
                    is_silent = false;
                    self.report_event(event, notify)?
                }
                Err(RecvTimeoutError::Timeout) => {
                    next = clock.now() + interval;
                    let running = self.progress(None)?.into_iter().filter(|view| view.running);
                    let running: Vec<_> = running.collect();
                    is_silent &= running.is_empty();
                    let verdict = match std::mem::replace(&mut is_silent, true) {
                        true => notify(Notice::Waiting),
                        false => Flow::Continue,
                    };
                    running.into_iter().fold(verdict, |flow, view| match flow {
                        Flow::Continue => notify(self.happened(Some(view.transfer.clone()), Notice::Progress(view))),
                        Flow::Stop => Flow::Stop,
                    })
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(ApiError::new(ErrorKind::Gone, "the node has ended"));
                }
            };
            if flow == Flow::Stop {
                return Ok(());
            }
        }
    }
    fn report_event(&self, event: Event, notify: Notify<'_>) -> Result<Flow, ApiError> {
        let (transfer, what) = match event {
            // The report says how it ended.
            Event::Transfer(transfer, TransferEvent::Completed | TransferEvent::Failed { .. }) => {
                (Some(transfer), self.progress(Some(transfer))?.pop().map(Notice::Progress))
            }
            Event::Transfer(transfer, _) => (Some(transfer), Notice::from_event(event)),
            _ => (None, Notice::from_event(event)),
        };
        let transfer = transfer.map(|transfer| transfer.to_string());
        Ok(what.map_or(Flow::Continue, |what| notify(self.happened(transfer, what))))
    }
    fn happened(&self, transfer: Option<String>, what: Notice) -> Notice {
        Notice::Happened { seconds: self.runtime.now().as_secs_f64(), transfer, what: Box::new(what) }
    }
}
