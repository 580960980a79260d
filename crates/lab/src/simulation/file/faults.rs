//! `[[fault]]`: what breaks, and when it is repaired.
use tributary_core::{
    Duration, Rate, Time,
    link::{LinkChange, LinkConfig, LinkState, Loss},
};

use super::{
    places::Places,
    values::{moment, required_moment, unknown},
};
use crate::simulation::{Direction, Fault, Scenario};
use tributary::config::{
    link::DELAY_MAX,
    reader::Section,
    values::{RATE_HINT, duration, size},
};

/// Reads them all into `scenario`.
pub(super) fn read(root: &Section<'_>, places: &Places<'_>, scenario: &mut Scenario) {
    for section in root.sections("fault") {
        fault(&section, places, scenario);
        section.finish();
    }
}

fn fault(section: &Section<'_>, places: &Places<'_>, scenario: &mut Scenario) {
    let at = required_moment(section, "at");
    let until = moment(section, "until");
    if let (Some(at), Some(until)) = (at, until)
        && until <= at
    {
        let hint = "leave 'until' out if it is never mended";
        section.wrong("until", format!("'until' is {until}, but 'at' is {at}"), hint);
    }
    let at = at.unwrap_or(Time::ZERO);
    match (section.has("link"), section.has("node")) {
        (true, false) => link(section, places, scenario, at, until),
        (false, true) => node(section, places, scenario, at, until),
        _ => section.missing("link", "name either the link or the node that it happens to"),
    }
}

fn link(section: &Section<'_>, places: &Places<'_>, scenario: &mut Scenario, at: Time, until: Option<Time>) {
    let Some(name) = section.text("link") else { return };
    let directions = [("both", Direction::Both), ("forward", Direction::Forward), ("backward", Direction::Backward)];
    let direction = section.choice("direction", &directions).unwrap_or_default();
    let Some(spec) = scenario.link(&name.value) else {
        if places.is_complete() {
            unknown(section, "link", &name, scenario.links.iter().map(|link| link.name.as_str()));
        }
        // Its keys are known, so they are still read.
        changes(section, &LinkConfig::default());
        return;
    };
    let before = match direction {
        Direction::Both | Direction::Forward => spec.forward.clone(),
        Direction::Backward => spec.backward.clone(),
    };
    let changes = changes(section, &before);
    if changes.is_empty() {
        let hint = "write state = \"down\", or another rate, delay, loss or queue";
        section.problem(name.span, format!("nothing changes about link '{}'", name.value), hint);
    }
    for (change, back) in changes {
        let fault = |change| Fault::Link { link: name.value.clone(), direction, change };
        scenario.fault(at, fault(change));
        if let Some(until) = until {
            scenario.fault(until, fault(back));
        }
    }
}

/// Each change and its reversal.
fn changes(section: &Section<'_>, before: &LinkConfig) -> Vec<(LinkChange, LinkChange)> {
    let states = [("down", LinkState::Down), ("up", LinkState::Up)];
    let mut changes = Vec::new();
    if let Some(state) = section.choice("state", &states) {
        let back = if state == LinkState::Down { LinkState::Up } else { LinkState::Down };
        changes.push((LinkChange::State(state), LinkChange::State(back)));
    }
    if let Some(rate) = section.parsed::<Rate>("rate", RATE_HINT) {
        changes.push((LinkChange::Rate(Some(rate)), LinkChange::Rate(before.rate)));
    }
    if let Some(delay) = duration(section, "delay", Duration::ZERO, DELAY_MAX) {
        changes.push((LinkChange::Delay(delay), LinkChange::Delay(before.delay)));
    }
    if let Some(share) = section.share("loss") {
        let loss = if share > 0.0 { Loss::Bernoulli(share) } else { Loss::None };
        changes.push((LinkChange::Loss(loss), LinkChange::Loss(before.loss.clone())));
    }
    if let Some(bytes) = size(section, "queue", 1_500, 1 << 32) {
        changes.push((LinkChange::QueueBytes(bytes), LinkChange::QueueBytes(before.queue_bytes)));
    }
    if let Some(share) = section.share("duplicate") {
        changes.push((LinkChange::Duplicate(share), LinkChange::Duplicate(before.duplicate)));
    }
    if let Some(share) = section.share("corrupt") {
        changes.push((LinkChange::Corrupt(share), LinkChange::Corrupt(before.corrupt)));
    }
    changes
}

fn node(section: &Section<'_>, places: &Places<'_>, scenario: &mut Scenario, at: Time, until: Option<Time>) {
    let actions = [
        ("kill", Action::Kill),
        ("start", Action::Start),
        ("freeze", Action::Freeze),
        ("thaw", Action::Thaw),
        ("stop-serving", Action::StopServing),
        ("serve-again", Action::ServeAgain),
    ];
    let action = section.choice("action", &actions);
    if action.is_none() && !section.has("action") {
        section.missing("action", "write what happens to the node: kill, freeze or stop-serving");
    }
    let Some(node) = section.text("node").filter(|node| places.check(section, node)) else { return };
    let Some(action) = action else { return };
    scenario.fault(at, action.fault(&node.value));
    if let Some(until) = until {
        match action.opposite() {
            Some(opposite) => scenario.fault(until, opposite.fault(&node.value)),
            None => {
                section.wrong("until", "this is not something that ends", "leave 'until' out");
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Action {
    Kill,
    Start,
    Freeze,
    Thaw,
    StopServing,
    ServeAgain,
}

impl Action {
    fn fault(self, node: &str) -> Fault {
        let node = node.to_string();
        match self {
            Action::Kill => Fault::Kill { node },
            Action::Start => Fault::Start { node },
            Action::Freeze => Fault::Freeze { node },
            Action::Thaw => Fault::Thaw { node },
            Action::StopServing => Fault::StopServing { node },
            Action::ServeAgain => Fault::ServeAgain { node },
        }
    }
    /// The reversal of a change.
    fn opposite(self) -> Option<Action> {
        match self {
            Action::Kill => Some(Action::Start),
            Action::Freeze => Some(Action::Thaw),
            Action::StopServing => Some(Action::ServeAgain),
            Action::Start | Action::Thaw | Action::ServeAgain => None,
        }
    }
}
