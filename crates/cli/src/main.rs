//! The `trib` program: arguments in, exit code out.
//!
//! | what | module |
//! |---|---|
//! | every flag, declared once | [`args`] |
//! | one file per command | [`commands`] |
//! | a network of daemons on loopback | [`demo`] |
//! | bars, plain lines, JSON lines | [`progress`] |
//! | tables of status, paths, caches | [`tables`] |
//! | the only writers to stdout and stderr | [`out`] |
//! | what is logged, and how much | [`log`] |
//! | a command for each complete object | [`hook`] |
//! | manual pages of config files | [`manual`] |
//! | what the service manager is told | [`service`] |
//! | which signals end the program, and how | [`signals`] |
mod args;
mod commands;
mod demo;
mod failure;
mod hook;
mod log;
mod manual;
mod out;
mod progress;
#[cfg(test)]
mod reference;
mod service;
mod signals;
mod tables;

use std::process::ExitCode;
use tributary::{ApiError, ErrorKind, Notice};

fn main() -> ExitCode {
    let cli = match args::parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors: clap prints them to stdout and gives 0; the rest is usage, 2.
            let code = u8::try_from(error.exit_code()).unwrap_or(2);
            if code != 0 && args::wants_json() {
                out::data(&Notice::from(&wrong_usage(&error)).to_line());
            }
            let code = if error.print().is_ok() { code } else { ErrorKind::Io.exit_code() };
            return ExitCode::from(code);
        }
    };
    log::start(log::of(&cli));
    let json = cli.json;
    match commands::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Who pressed Ctrl-C knows it, as with any other program.
            if json || error.message != signals::INTERRUPTED_MESSAGE {
                failure::report(&error, json);
            }
            ExitCode::from(error.kind.exit_code())
        }
    }
}

/// The error in the arguments, without the usage that is drawn below it.
fn wrong_usage(error: &clap::Error) -> ApiError {
    let text = error.to_string();
    let what = match error.kind() {
        clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "there is no command",
        _ => text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: "),
    };
    let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
    ApiError::new(ErrorKind::Usage, what).with_hint("`trib --help` and `trib COMMAND --help` list commands and options")
}
