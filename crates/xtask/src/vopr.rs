//! `cargo xtask vopr`: fault runs from seeds; see [`tributary_testkit::vopr`].
use std::time::{Duration, Instant};

use clap::Args;
use tributary_testkit::vopr::{
    Canary, Family, FaultKind, Options, Plan, Profile, Totals, campaign::run_seed, mf::Mf, ndn::Ndn, psi::Psi,
    shrink::shrink,
};

use crate::{Outcome, note, print_line};

/// What to run.
#[derive(Args, Debug)]
pub(crate) struct VoprArguments {
    /// The first seed; without a number of runs, events or minutes the only one. Default: 1.
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds to run.
    #[arg(long)]
    runs: Option<u64>,
    /// Stop after this many steps of the simulator.
    #[arg(long)]
    events: Option<u64>,
    /// Stop after this many minutes.
    #[arg(long)]
    minutes: Option<f64>,
    /// The family of the nodes.
    #[arg(long, default_value = "psi")]
    family: String,
    /// Leave out all kinds of fault but these.
    #[arg(long, value_delimiter = ',')]
    only: Option<Vec<FaultKind>>,
    /// How nodes are set up: as the product is, or (laboratory) each plan with different settings, without later
    /// additions.
    #[arg(long, default_value_t)]
    profile: Profile,
    /// Leave out groups, absent devices, and messages to them.
    #[arg(long)]
    without_groups: bool,
    /// Give the network an authority and each node a certificate for its roles.
    #[arg(long)]
    certified: bool,
    /// Run every n-th seed twice and compare the traces; zero for never.
    #[arg(long, default_value_t = 16)]
    repeat_every: u64,
    /// Continue after a finding.
    #[arg(long)]
    keep_going: bool,
    /// Runs that may be spent on reducing a plan to the parts that a finding needs.
    #[arg(long, default_value_t = 100)]
    shrink: u32,
    /// Show the plan, and each event as it happens.
    #[arg(long)]
    trace: bool,
    /// Switch a bug of the harness on, which must be found.
    #[arg(long, hide = true)]
    canary: Option<Canary>,
}

pub(crate) fn run(arguments: &VoprArguments) -> Outcome {
    match arguments.family.as_str() {
        Psi::NAME => campaign::<Psi>(arguments),
        Ndn::NAME => campaign::<Ndn>(arguments),
        Mf::NAME => campaign::<Mf>(arguments),
        other => Err(format!("there are no fault runs of a family '{other}'; there are for: psi, ndn, mf").into()),
    }
}

fn campaign<F: Family>(arguments: &VoprArguments) -> Outcome {
    let options = Options {
        only: arguments.only.as_ref().map(|kinds| kinds.iter().copied().collect()),
        profile: arguments.profile,
        leaves_out_groups: arguments.without_groups,
        is_certified: arguments.certified,
        canary: arguments.canary,
        narrator: arguments.trace.then_some(print_line as fn(&str)),
        repeat_every: arguments.repeat_every,
    };
    let first = arguments.seed.unwrap_or(1);
    let alone = arguments.runs.is_none() && arguments.events.is_none() && arguments.minutes.is_none();
    let runs_max = if alone { 1 } else { arguments.runs.unwrap_or(u64::MAX) };
    let began = Instant::now();
    let time_max = arguments.minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0));
    let (mut totals, mut findings, mut reported_at) = (Totals::default(), 0u64, began);
    for seed in (first..).take(usize::try_from(runs_max).unwrap_or(usize::MAX)) {
        if arguments.trace {
            print_line(&Plan::draw::<F>(seed, &options).to_string());
        }
        match run_seed::<F>(seed, &options) {
            Ok(report) => totals.add(&report),
            Err(finding) => {
                findings += 1;
                print_line(&format!("seed {seed}: {}\n  at {}", finding.message, finding.place));
                print_line(&format!(
                    "  replay: cargo xtask vopr --family {} --seed {seed} --trace{}",
                    F::NAME,
                    extra(arguments)
                ));
                if arguments.shrink > 0 && finding.place != "trace hash" {
                    let plan = Plan::draw::<F>(seed, &options);
                    let shrunk = shrink::<F>(&plan, finding, options.canary, arguments.shrink);
                    let kinds: Vec<String> = shrunk.kinds.iter().map(FaultKind::to_string).collect();
                    print_line(&format!("  needs (after {} runs): {}", shrunk.runs, kinds.join(",")));
                    print_line(&format!("  {}\n{}", shrunk.finding.message, shrunk.plan));
                }
                if !arguments.keep_going {
                    break;
                }
            }
        }
        if reported_at.elapsed() > Duration::from_secs(10) {
            reported_at = Instant::now();
            note(&summary(&totals, findings, began.elapsed()));
        }
        let enough = arguments.events.is_some_and(|events| totals.events >= events)
            || time_max.is_some_and(|time| began.elapsed() >= time);
        if enough {
            break;
        }
    }
    print_line(&summary(&totals, findings, began.elapsed()));
    if findings == 0 { Ok(()) } else { Err(format!("{findings} findings").into()) }
}

fn extra(arguments: &VoprArguments) -> String {
    let only = arguments.only.iter().map(|kinds| {
        let kinds: Vec<String> = kinds.iter().map(FaultKind::to_string).collect();
        format!(" --only {}", kinds.join(","))
    });
    let without = arguments.without_groups.then(|| " --without-groups".to_string());
    let certified = arguments.certified.then(|| " --certified".to_string());
    let laboratory = arguments.profile == Profile::Laboratory;
    let profile = laboratory.then(|| " --profile laboratory".to_string());
    only.chain(profile)
        .chain(without)
        .chain(certified)
        .chain(arguments.canary.iter().map(|canary| format!(" --canary {canary}")))
        .collect()
}

fn summary(totals: &Totals, findings: u64, time: Duration) -> String {
    let Totals { runs, events, packets, seconds, completed, failed, delivered, promised, liveness } = totals;
    format!(
        "{runs} runs, {events} events, {packets} packets, {seconds:.0} virtual seconds in {:.0} s; {completed} fetches \
         completed, {failed} failed for a reason, {delivered} messages delivered, {promised} promised; at most {:.0} % of the time allowed was needed; {findings} findings",
        time.as_secs_f64(),
        liveness * 100.0
    )
}
