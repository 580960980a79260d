//! Development commands of the workspace, run as `cargo xtask COMMAND`.
//!
//! `cargo xtask bench` measures `trib` against its yardsticks, both in the same run, and prints for each figure ours,
//! the yardstick's, the ratio, and the target. It is a command for people, never a timed test.
//!
//! ```text
//! bench/NAME.rs ──► harness: stage (files) · process (CPU, memory) · trib (daemons) · rounds A B A B ──► figure
//!       └────────► yardstick: pump · quic · http, as processes of this same program
//! ```
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
mod attack;
mod bench;
mod harness;
mod stale;
mod vopr;
mod yardstick;

use std::{error::Error, process::ExitCode};

use clap::{Parser, Subcommand};

/// Any error of these tools: a sentence for a person.
type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Development commands of the workspace.
#[derive(Parser, Debug)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 110)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Measure trib against its yardsticks, in the same run.
    Bench(bench::BenchArguments),
    /// Attack real daemons on loopback, and check that strangers and forgers gain nothing.
    Attack(attack::AttackArguments),
    /// Throw everything at simulated domains, from a seed, and check that nothing breaks.
    Vopr(vopr::VoprArguments),
    /// List the rows of docs/results.md that were measured before a commit.
    Stale(stale::StaleArguments),
    /// One end of a yardstick, as the benchmarks start it.
    #[command(subcommand)]
    Yardstick(yardstick::Yardstick),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Attack(arguments) => attack::run(&arguments),
        Command::Vopr(arguments) => vopr::run(&arguments),
        Command::Stale(arguments) => stale::run(&arguments),
        Command::Yardstick(yardstick) => yardstick.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints a line of results.
#[expect(clippy::print_stdout, reason = "results go to stdout")]
fn print_line(line: &str) {
    println!("{line}");
}

/// Prints a line about the progress.
#[expect(clippy::print_stderr, reason = "talk goes to stderr")]
fn note(line: &str) {
    eprintln!("{line}");
}
