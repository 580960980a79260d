//! Many seeds, one after the other, until something is found or enough was seen.
use std::collections::BTreeSet;

use super::{
    canary::Canary,
    family::Family,
    faults::FaultKind,
    ledger::Narrator,
    plan::Plan,
    profile::Profile,
    run::RunReport,
    shrink::{Finding, try_run},
};

/// How runs are made.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The only kinds of fault that may occur; `None` for every kind that the seed draws.
    pub only: Option<BTreeSet<FaultKind>>,
    /// How nodes are set up.
    pub profile: Profile,
    /// Whether groups, and messages to them, are left out.
    pub leaves_out_groups: bool,
    /// Whether the network has an authority, and nodes have certificates.
    pub is_certified: bool,
    /// A bug of the harness to switch on.
    pub canary: Option<Canary>,
    /// Receives a line for each event.
    pub narrator: Option<Narrator>,
    /// Runs every n-th seed twice and compares; zero for never.
    pub repeat_every: u64,
}

/// Runs one seed; every n-th twice.
///
/// # Errors
/// The finding.
pub fn run_seed<F: Family>(seed: u64, options: &Options) -> Result<RunReport, Finding> {
    let plan = Plan::draw::<F>(seed, options);
    let report = try_run::<F>(&plan, options.canary, options.narrator)?;
    if options.repeat_every > 0 && seed.is_multiple_of(options.repeat_every) {
        let again = try_run::<F>(&plan, options.canary, None)?;
        if again.trace_hash != report.trace_hash {
            let message = format!("two runs differ: {:016x} and {:016x}", report.trace_hash, again.trace_hash);
            return Err(Finding { seed, message, place: "trace hash".into() });
        }
    }
    Ok(report)
}

/// What many runs have shown together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Runs without a finding.
    pub runs: u64,
    /// Steps of the simulator.
    pub events: u64,
    /// Packets that crossed a link.
    pub packets: u64,
    /// Virtual seconds.
    pub seconds: f64,
    /// Fetches completed.
    pub completed: u64,
    /// Fetches failed, as they may.
    pub failed: u64,
    /// Messages to groups delivered, counted once per recipient.
    pub delivered: u64,
    /// Messages to devices that were promised to be kept, even if their senders ended.
    pub promised: u64,
    /// The largest share of the time limit that a run needed to satisfy all wishes.
    pub liveness: f64,
}

impl Totals {
    /// Adds one run.
    pub fn add(&mut self, report: &RunReport) {
        self.runs += 1;
        self.events += report.events;
        self.packets += report.packets;
        self.seconds += report.time.as_secs_f64();
        self.completed += report.completed;
        self.failed += report.failed;
        self.delivered += report.delivered;
        self.promised += report.promised;
        self.liveness = self.liveness.max(report.liveness);
    }
}
