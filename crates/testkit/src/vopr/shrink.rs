//! A run with its panics caught, and the smallest part of its plan that still fails.
use std::{
    any::Any,
    cell::RefCell,
    collections::BTreeSet,
    panic::{self, AssertUnwindSafe},
    sync::Once,
};

use super::{
    canary::Canary,
    family::Family,
    faults::FaultKind,
    ledger::Narrator,
    plan::Plan,
    run::{RunReport, run},
};

/// The finding of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The seed that shows it.
    pub seed: u64,
    /// The defect.
    pub message: String,
    /// Where it was noticed.
    pub place: String,
}

/// The part of a plan that is needed to find something.
#[derive(Clone, Debug)]
pub struct Shrunk<S> {
    /// The plan with everything left out that is not needed.
    pub plan: Plan<S>,
    /// The remaining finding.
    pub finding: Finding,
    /// The kinds of fault that are needed.
    pub kinds: BTreeSet<FaultKind>,
    /// How many runs it took.
    pub runs: u32,
}

thread_local! {
    /// Where the last panic of this thread was, while its panics are caught.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
    static CATCHING: RefCell<bool> = const { RefCell::new(false) };
}

/// Runs a plan; a panic becomes a finding.
///
/// # Errors
/// The finding.
pub fn try_run<F: Family>(
    plan: &Plan<F::Settings>,
    canary: Option<Canary>,
    narrator: Option<Narrator>,
) -> Result<RunReport, Finding> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if CATCHING.with(|catching| *catching.borrow()) {
                let place = info.location().map_or_else(String::new, |place| place.to_string());
                CAUGHT.with(|caught| *caught.borrow_mut() = Some(place));
            } else {
                before(info);
            }
        }));
    });
    CATCHING.with(|catching| *catching.borrow_mut() = true);
    let result = panic::catch_unwind(AssertUnwindSafe(|| run::<F>(plan, canary, narrator)));
    CATCHING.with(|catching| *catching.borrow_mut() = false);
    result.map_err(|payload| {
        let place = CAUGHT.with(|caught| caught.borrow_mut().take()).unwrap_or_default();
        Finding { seed: plan.seed, message: message_of(&*payload), place }
    })
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without words".into())
}

/// Omits whole kinds of fault, then single faults, then operations, for as long as a violation is still found at the
/// same place, in up to `runs_max` runs.
pub fn shrink<F: Family>(
    plan: &Plan<F::Settings>,
    finding: Finding,
    canary: Option<Canary>,
    runs_max: u32,
) -> Shrunk<F::Settings> {
    let mut best = Shrunk { plan: plan.clone(), finding, kinds: BTreeSet::new(), runs: 0 };
    let attempt = |best: &mut Shrunk<F::Settings>, candidate: Plan<F::Settings>| -> bool {
        if best.runs >= runs_max {
            return false;
        }
        best.runs += 1;
        match try_run::<F>(&candidate, canary, None) {
            Err(finding) if finding.place == best.finding.place => {
                (best.plan, best.finding) = (candidate, finding);
                true
            }
            _ => false,
        }
    };
    for kind in plan.kinds.clone() {
        let mut candidate = best.plan.clone();
        candidate.faults.retain(|fault| fault.kind != kind);
        attempt(&mut best, candidate);
    }
    halve(&mut best, |plan| plan.faults.len(), |plan, range| drop(plan.faults.drain(range)), &attempt);
    halve(&mut best, |plan| plan.operations.len(), |plan, range| drop(plan.operations.drain(range)), &attempt);
    best.kinds = best.plan.faults.iter().map(|fault| fault.kind).collect();
    best
}

/// Tries to leave out runs of half the items, of a quarter, and so on down to single ones.
fn halve<S: Clone>(
    best: &mut Shrunk<S>,
    len: impl Fn(&Plan<S>) -> usize,
    remove: impl Fn(&mut Plan<S>, std::ops::Range<usize>),
    attempt: &impl Fn(&mut Shrunk<S>, Plan<S>) -> bool,
) {
    let mut size = len(&best.plan).div_ceil(2);
    while size > 0 {
        let mut start = 0;
        while start < len(&best.plan) {
            let mut candidate = best.plan.clone();
            remove(&mut candidate, start..(start + size).min(len(&best.plan)));
            if !attempt(best, candidate) {
                start += size;
            }
        }
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
}
