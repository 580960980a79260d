//! MobilityFirst's demo: the receiver goes away during the fetch, the network stores its chunks, the storing router is
//! killed, and the receiver comes back.
use tributary::{
    Api, ApiError, Clock, ErrorKind, Notice, Request,
    views::{DoneView, ProgressView, StoreView},
};
use tributary_core::{Duration, Time};

use super::{
    network::{LOOK, Network},
    script::Script,
    topology::{ACCESS, LAST_HOP},
};
use crate::{
    args::{Fail, FailKind},
    progress::Display,
};

/// How long the receiver is away.
const AWAY: Duration = Duration::from_secs(3);
/// How much must be in store before the router is killed: a router that holds nothing has nothing to lose.
const HELD_CHUNKS_MIN: u64 = 4;
/// How long a daemon that was started again may take until it answers.
const REVIVAL_PATIENCE: Duration = Duration::from_secs(10);

/// What happens to the receiver and its access router.
#[derive(Debug)]
pub(super) struct Away {
    at_percent: u8,
    kills_router: bool,
    clock: Clock,
    state: State,
    /// Of the access router when it was killed, and after it came back.
    held: Option<StoreView>,
    restored: Option<StoreView>,
    /// The most that was seen in its store.
    peak: StoreView,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    /// Nothing has happened yet.
    Before,
    /// Away since.
    Away(Time),
    /// The same, and the access router was killed and has come back.
    Revived(Time),
    /// Back.
    After,
}

/// What a step works on.
pub(super) struct Stage<'a, 'b> {
    pub(super) network: &'a mut Network,
    pub(super) script: &'a mut Script<'b>,
    pub(super) display: &'a mut Display,
    /// The time of the transfer in seconds.
    pub(super) now: f64,
}

/// Whether one view of a store has more than another: a chunk that is not durable yet uses space and does not count.
fn is_more(one: &StoreView, other: &StoreView) -> bool {
    (one.chunks(), one.used_bytes) > (other.chunks(), other.used_bytes)
}

impl Away {
    /// What the arguments ask for: without any failure both the absence and the kill.
    pub(super) fn new(fails: &[Fail]) -> Option<Away> {
        let of = |kind: FailKind| fails.iter().find(|fail| fail.kind == kind);
        let (link, router) = (of(FailKind::Link), of(FailKind::Router));
        if !fails.is_empty() && link.is_none() && router.is_none() {
            return None;
        }
        let percent = link.or(router).and_then(|fail| fail.percent).unwrap_or(30);
        Some(Away {
            at_percent: percent,
            kills_router: fails.is_empty() || router.is_some(),
            clock: Clock::new(),
            state: State::Before,
            held: None,
            restored: None,
            peak: StoreView::default(),
        })
    }
    /// Carries out the steps that are due.
    pub(super) fn progress(&mut self, stage: &mut Stage<'_, '_>, progress: &ProgressView) -> Result<(), ApiError> {
        let percent = progress.stored_bytes as f64 * 100.0 / progress.bytes.max(1) as f64;
        match self.state {
            State::Before if progress.bytes > 0 && percent >= f64::from(self.at_percent) => {
                stage.display.print_line(&format!("at {percent:.0} %: the receiver goes away"));
                stage.network.set_link(stage.script.topology, LAST_HOP, false)?;
                stage.script.set_link(LAST_HOP, false, stage.now);
                self.state = State::Away(self.clock.now());
            }
            State::Away(since) => {
                let held = store(stage.network)?;
                if is_more(&held, &self.peak) {
                    self.peak = held.clone();
                }
                if self.kills_router {
                    if held.chunks() >= HELD_CHUNKS_MIN {
                        self.kill(stage, held)?;
                        self.state = State::Revived(since);
                    } else if self.clock.now().since(since) > AWAY * 3 {
                        let message = format!("{ACCESS} stored {} chunks in {:?}", held.chunks(), AWAY * 3);
                        return Err(ApiError::new(ErrorKind::Incomplete, message).with_hint("take a larger --size"));
                    }
                } else {
                    self.come_back(stage, since)?;
                }
            }
            State::Revived(since) => self.come_back(stage, since)?,
            State::Before | State::After => {}
        }
        Ok(())
    }
    /// Ends the access router as a power cut would, and starts it again.
    fn kill(&mut self, stage: &mut Stage<'_, '_>, held: StoreView) -> Result<(), ApiError> {
        let Stage { network, script, display, .. } = stage;
        display.print_line(&format!("{ACCESS} keeps {} chunks for the receiver and is killed", held.chunks()));
        network.kill(ACCESS)?;
        network.revive(ACCESS)?;
        let deadline = self.clock.now() + REVIVAL_PATIENCE;
        while network.status(ACCESS).is_none() {
            network.check()?;
            if self.clock.now() >= deadline {
                return Err(ApiError::new(ErrorKind::Incomplete, format!("{ACCESS} did not come back")));
            }
            std::thread::sleep(LOOK);
        }
        // The link is as dead as before; a new process does not know.
        network.set_face(script.topology, LAST_HOP, false)?;
        let restored = store(network)?;
        display.print_line(&format!("{ACCESS} is back and found {} chunks in its store", restored.chunks()));
        (self.held, self.restored) = (Some(held), Some(restored));
        Ok(())
    }
    fn come_back(&mut self, stage: &mut Stage<'_, '_>, since: Time) -> Result<(), ApiError> {
        let Stage { network, script, display, now } = stage;
        if self.clock.now().since(since) < AWAY {
            return Ok(());
        }
        display.print_line("the receiver is back");
        network.set_link(script.topology, LAST_HOP, true)?;
        script.set_link(LAST_HOP, true, *now);
        self.state = State::After;
        Ok(())
    }
    /// Adds the observations to the report, and returns the expected ones that are missing.
    pub(super) fn judge(&self, network: &Network, done: &mut DoneView) -> Vec<String> {
        let mut missed = Vec::new();
        if self.state != State::After {
            missed.push("the file had arrived before the receiver went away; take a larger --size".to_string());
        }
        let mut add = |key: &str, value: u64| done.more.insert(key.into(), value.into());
        add("away_seconds", AWAY.as_secs());
        let peak = self.held.as_ref().filter(|held| is_more(held, &self.peak)).unwrap_or(&self.peak);
        add("stored_chunks", peak.chunks());
        add("stored_bytes", peak.used_bytes);
        if peak.chunks() == 0 {
            missed.push(format!("{ACCESS} stored nothing while the receiver was away"));
        }
        if let (Some(held), Some(restored)) = (&self.held, &self.restored) {
            add("restored_chunks", restored.chunks());
            let lost = held.lost_in(restored);
            add("lost_chunks", lost);
            if lost > 0 {
                let held = held.chunks();
                missed.push(format!("{ACCESS} lost {lost} of {held} chunks that it had promised to keep"));
            }
        }
        let delivered = network
            .status(ACCESS)
            .map_or(0, |status| status.counters.get("stored chunks delivered").copied().unwrap_or(0));
        add("delivered_from_store", delivered);
        if delivered == 0 {
            missed.push(format!("{ACCESS} delivered nothing out of its store"));
        }
        let number = |key: &str| done.more.get(key).and_then(serde_json::Value::as_f64);
        if let (Some(total), Some(fluid)) = (number("total_seconds"), number("fluid_seconds")) {
            let lost = ((total - fluid) * 1e6).round() / 1e6;
            done.more.insert("lost_seconds".into(), lost.into());
        }
        missed
    }
}

/// What the access router holds.
fn store(network: &Network) -> Result<StoreView, ApiError> {
    let answers = network.api(ACCESS)?.answers(Request::Store)?;
    let view = answers.into_iter().find_map(|notice| match notice {
        Notice::Store(view) => Some(view),
        _ => None,
    });
    view.ok_or_else(|| ApiError::new(ErrorKind::Protocol, format!("{ACCESS} did not report its store")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn away(fails: &[&str]) -> Option<(u8, bool)> {
        let fails: Vec<Fail> = fails.iter().map(|fail| fail.parse().unwrap()).collect();
        Away::new(&fails).map(|away| (away.at_percent, away.kills_router))
    }

    #[test]
    fn the_receiver_goes_away_unless_something_else_is_to_fail() {
        assert_eq!(away(&[]), Some((30, true)));
        assert_eq!(away(&["link@50"]), Some((50, false)));
        assert_eq!(away(&["router@20"]), Some((20, true)));
        assert_eq!(away(&["link@40", "router"]), Some((40, true)));
        assert_eq!(away(&["source"]), None);
    }
}
