//! What breaks while the demo's transfer runs, and when.
use tributary::{
    ApiError, ErrorKind,
    views::{DoneView, ProgressView},
};

use super::{
    bound::{self, Broken},
    network::Network,
    topology::{ACTIVE_MANAGER, BEST_LINK, RECEIVER, Topology, WEAK_FORWARDER, WEAK_PUBLISHER, WEAK_RESOLVER},
};
use crate::{
    args::{Fail, FailKind},
    progress::Display,
};

/// Remaining steps, in order.
#[derive(Clone, Debug)]
pub(crate) struct Script<'a> {
    pub(crate) topology: &'a Topology,
    steps: Vec<Step>,
    broken: Broken,
    /// Bytes that were verified when the receiver was killed last.
    kept_bytes: u64,
    /// The receiver is dead by our hand.
    killed_receiver: bool,
    /// A revived publisher that does not serve yet.
    awaited: Option<&'static str>,
    loss: f64,
    pub(crate) timeline: Timeline,
}

/// A failure at a percentage of progress.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Step {
    percent: u8,
    act: Act,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Kill(&'static str),
    Revive(&'static str),
    Cut([&'static str; 2]),
    Mend([&'static str; 2]),
}

/// How much later a failed part returns, in percent of the file.
const BACK_AFTER: u8 = 30;

/// The capacity of the links in Mbit/s from each moment (in seconds) on.
pub(crate) type Timeline = Vec<(f64, f64)>;

impl<'a> Script<'a> {
    /// The steps requested by the arguments. Bytes of `faulty` are worth nothing, so they do not count as capacity.
    pub(crate) fn new(topology: &'a Topology, fails: &[Fail], loss: f64, faulty: &[&'static str]) -> Self {
        let mut steps = Vec::new();
        for fail in fails {
            let at = fail.percent.unwrap_or(30);
            let back = at.saturating_add(BACK_AFTER).min(95);
            let mut add = |percent, act| steps.push(Step { percent, act });
            match fail.kind {
                FailKind::Source => {
                    add(at, Act::Kill(WEAK_PUBLISHER));
                    add(back, Act::Revive(WEAK_PUBLISHER));
                }
                FailKind::Link => {
                    add(at, Act::Cut(BEST_LINK));
                    add(back, Act::Mend(BEST_LINK));
                }
                FailKind::Receiver => {
                    let moments = fail.percent.map_or(vec![30, 60, 90], |percent| vec![percent]);
                    moments.into_iter().for_each(|percent| add(percent, Act::Kill(RECEIVER)));
                }
                FailKind::Resolver => add(at, Act::Kill(WEAK_RESOLVER)),
                FailKind::Tm => add(at, Act::Kill(ACTIVE_MANAGER)),
                FailKind::Router => add(at, Act::Kill(WEAK_FORWARDER)),
            }
        }
        steps.sort_by_key(|step| step.percent);
        let mut broken = Broken::default();
        broken.nodes.extend(faulty);
        let timeline = vec![(0.0, bound::capacity_mbps(topology, &broken, loss))];
        Script { topology, steps, broken, kept_bytes: 0, killed_receiver: false, awaited: None, loss, timeline }
    }
    /// Carries out the failures that are due. `before` is the time that earlier runs of the receiver took.
    pub(crate) fn progress(
        &mut self,
        network: &mut Network,
        progress: &ProgressView,
        before: f64,
        display: &mut Display,
    ) -> Result<(), ApiError> {
        if progress.bytes == 0 || self.killed_receiver {
            return Ok(());
        }
        self.check_resumed(progress)?;
        let now = before + progress.seconds;
        if let Some(label) = self.awaited
            && network.status(label).is_some_and(|status| status.published.iter().any(|of| of.confirmed))
        {
            // Only from here on could its bytes have arrived.
            self.awaited = None;
            self.broken.nodes.remove(label);
            self.note_capacity(now);
        }
        let percent = progress.stored_bytes as f64 * 100.0 / progress.bytes as f64;
        while let Some(step) = self.steps.first().copied()
            && percent >= f64::from(step.percent)
            && !self.killed_receiver
        {
            self.steps.remove(0);
            display.print_line(&format!("at {percent:.0} %: {}", step.act.words()));
            self.act(step.act, network, progress)?;
            // The clock stops while the receiver is dead: only its own runs count.
            if !self.killed_receiver {
                self.note_capacity(now);
            }
        }
        Ok(())
    }
    /// Whether the receiver is dead by our hand; asking makes it count as alive again.
    pub(crate) fn killed_receiver(&mut self) -> bool {
        std::mem::take(&mut self.killed_receiver)
    }
    /// Fails if a step was never reached, because then the demo showed nothing.
    pub(crate) fn finish(&self, done: &DoneView) -> Result<(), ApiError> {
        match self.steps.iter().find(|step| !matches!(step.act, Act::Revive(_) | Act::Mend(_))) {
            None => Ok(()),
            Some(step) => {
                let message = format!("'{}' had arrived before {} was due", done.name, step.act.words());
                Err(ApiError::new(ErrorKind::Incomplete, message).with_hint("take a larger --size"))
            }
        }
    }

    /// A link works from `now` on, or does not.
    pub(crate) fn set_link(&mut self, link: [&'static str; 2], up: bool, now: f64) {
        self.note_link(link, up);
        self.note_capacity(now);
    }
    fn note_capacity(&mut self, now: f64) {
        self.timeline.push((now, bound::capacity_mbps(self.topology, &self.broken, self.loss)));
    }
    fn note_link(&mut self, link: [&'static str; 2], up: bool) {
        if up {
            self.broken.links.remove(&link);
        } else {
            self.broken.links.insert(link);
        }
    }
    fn act(&mut self, act: Act, network: &mut Network, progress: &ProgressView) -> Result<(), ApiError> {
        match act {
            Act::Kill(label) => {
                network.kill(label)?;
                if label == RECEIVER {
                    self.killed_receiver = true;
                    self.kept_bytes = progress.stored_bytes;
                } else {
                    self.broken.nodes.insert(label);
                }
            }
            Act::Revive(label) => {
                network.revive(label)?;
                self.awaited = Some(label);
            }
            Act::Cut(link) | Act::Mend(link) => {
                let up = matches!(act, Act::Mend(_));
                network.set_link(self.topology, link, up)?;
                self.note_link(link, up);
            }
        }
        Ok(())
    }
    /// A receiver that returns must have every chunk that it had verified.
    fn check_resumed(&mut self, progress: &ProgressView) -> Result<(), ApiError> {
        let kept = std::mem::take(&mut self.kept_bytes);
        if progress.resumed_bytes < kept {
            let resumed = progress.resumed_bytes;
            let message =
                format!("the receiver had verified {kept} bytes when it was killed, and resumed with {resumed}");
            return Err(ApiError::new(ErrorKind::Incomplete, message));
        }
        Ok(())
    }
}

impl Act {
    fn words(self) -> String {
        match self {
            Act::Kill(label) => format!("{label} is killed"),
            Act::Revive(label) => format!("{label} is started again"),
            Act::Cut([a, b]) => format!("the link from {a} to {b} is cut"),
            Act::Mend([a, b]) => format!("the link from {a} to {b} is mended"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::topology, *};

    fn script(fails: &[Fail]) -> Script<'static> {
        let topology = topology::choose(tributary::Family::Psi, topology::Fetches::Once, None);
        Script::new(Box::leak(Box::new(topology)), fails, 0.0, &[])
    }
    fn steps(fails: &[&str]) -> Vec<(u8, Act)> {
        let fails: Vec<_> = fails.iter().map(|fail| fail.parse().unwrap()).collect();
        script(&fails).steps.into_iter().map(|step| (step.percent, step.act)).collect()
    }

    #[test]
    fn failures_become_steps_in_the_order_of_their_moments() {
        assert_eq!(steps(&["source@30"]), [(30, Act::Kill(WEAK_PUBLISHER)), (60, Act::Revive(WEAK_PUBLISHER))]);
        assert_eq!(steps(&["receiver"]), [30, 60, 90].map(|percent| (percent, Act::Kill(RECEIVER))));
        assert_eq!(
            steps(&["tm@50", "link@20"]),
            [(20, Act::Cut(BEST_LINK)), (50, Act::Kill(ACTIVE_MANAGER)), (50, Act::Mend(BEST_LINK))]
        );
    }

    #[test]
    fn a_failure_that_never_came_is_told() {
        let error = script(&["tm@99".parse().unwrap()])
            .finish(&DoneView { name: "/a".into(), ..DoneView::default() })
            .unwrap_err();
        assert!(error.to_string().contains("manager-1 is killed"), "{error}");
        assert!(script(&[]).finish(&DoneView::default()).is_ok());
    }
}
