//! Notifications of a daemon's state to a service manager: ready, reloading, stopping, and alive. systemd's protocol
//! (sd_notify(3)); without `NOTIFY_SOCKET` nothing is sent.
use sd_notify::NotifyState;
use std::sync::{
    Arc,
    mpsc::{RecvTimeoutError, Sender, channel},
};
use tributary::{ApiError, LocalApi, spawn};
use tributary_core::Duration;

/// The daemon serves: its sockets are open, and the config's publications are published.
pub(crate) fn ready(label: &str) {
    send_states(&[NotifyState::Ready, NotifyState::Status(&format!("node '{label}' is running"))]);
}
/// It reads its config again; [`ready`] ends that.
pub(crate) fn reloading() {
    // Without the time systemd cannot distinguish this reload from an earlier one.
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        send_states(&[NotifyState::Reloading, now, NotifyState::Status("reads its config again")]);
    }
}
/// It ends.
pub(crate) fn stopping(why: &str) {
    send_states(&[NotifyState::Stopping, NotifyState::Status(&format!("stopping: {why}"))]);
}

/// Feeds the watchdog while the node's own thread turns. Dropping it stops that.
pub(crate) struct Watchdog {
    /// Its thread waits for the end of this.
    _end: Sender<()>,
}

impl Watchdog {
    /// Starts it, if the service manager watches this process.
    ///
    /// # Errors
    /// [`ApiError`] if the system has no thread for it.
    pub(crate) fn start(api: &Arc<LocalApi>) -> Result<Option<Watchdog>, ApiError> {
        let Some(limit) = sd_notify::watchdog_enabled() else { return Ok(None) };
        let api = Arc::clone(api);
        Self::feed(limit, move || api.turn().is_ok(), || send_states(&[NotifyState::Watchdog])).map(Some)
    }
    /// Calls `food` about twice within `limit`, each time after `turns` has confirmed that the node turns; ends when it
    /// does not.
    fn feed(
        limit: Duration,
        turns: impl Fn() -> bool + Send + 'static,
        food: impl Fn() + Send + 'static,
    ) -> Result<Watchdog, ApiError> {
        let (end, ended) = channel();
        let work = move || {
            while turns() {
                food();
                if ended.recv_timeout(limit / 2) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        // A node that does not turn is waited for by others.
        spawn("watchdog", work)?;
        Ok(Watchdog { _end: end })
    }
}

fn send_states(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "cannot notify the service manager");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watchdog_starves_when_the_node_does_not_turn() {
        let (turn, turns) = channel::<()>();
        let (food, eaten) = channel();
        let turns = std::sync::Mutex::new(turns);
        let is_turning = move || turns.lock().expect("nobody panics").recv().is_ok();
        let watchdog =
            Watchdog::feed(Duration::from_millis(2), is_turning, move || _ = food.send(())).expect("a thread");
        for _ in 0..3 {
            turn.send(()).expect("it waits for turns");
            eaten.recv().expect("a turn feeds it");
        }
        let hungry = eaten.recv_timeout(Duration::from_millis(50));
        assert_eq!(hungry, Err(RecvTimeoutError::Timeout), "fed without a turn");
        drop(watchdog);
    }
}
