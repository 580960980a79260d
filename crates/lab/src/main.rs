//! The `trib-lab` program: arguments in, exit code out.
mod program;

use std::process::ExitCode;
use tributary::{ApiError, log::LogLevel};
use tributary_terminal::{
    arguments, failure, log,
    manual::{self, Page},
};

use program::{
    args::{self, Command},
    lab, node, sim,
};

/// The book's pages that are manual pages of config files.
const SCENARIOS: [Page; 1] = [Page {
    title: "tributary-scenario.toml",
    about: "scenario for trib sim",
    text: include_str!("../pages/scenario.md"),
}];

fn main() -> ExitCode {
    let cli = match args::parse() {
        Ok(cli) => cli,
        Err(code) => return ExitCode::from(code),
    };
    log::start(if cli.debug { LogLevel::Debug } else { LogLevel::Warn }.into());
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            failure::report(&error, cli.json);
            ExitCode::from(error.kind.exit_code())
        }
    }
}

fn run(cli: &args::Cli) -> Result<(), ApiError> {
    match &cli.command {
        Command::Lab(lab) => lab::run(lab, cli.json),
        Command::Sim(sim) => sim::run(sim, cli.json),
        Command::Node { config } => node::run(config),
        Command::Completions { shell } => {
            arguments::print_completions(*shell, args::declared());
            Ok(())
        }
        Command::Man { folder } => {
            arguments::write_manual(args::declared(), folder)?;
            manual::write_to(&SCENARIOS, folder)
        }
    }
}
