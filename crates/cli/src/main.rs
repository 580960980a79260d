//! The `trib` program: arguments in, exit code out.
//!
//! | what | module |
//! |---|---|
//! | every flag, declared once | [`args`] |
//! | one file per command | [`commands`] |
//! | a network of daemons on loopback | [`demo`] |
//! | bars, plain lines, JSON lines | [`progress`] |
//! | tables of status, paths, caches | [`tables`] |
//! | a command for each complete object | [`hook`] |
//! | notices to the service manager | [`service`] |
//! | which signals end the program, and how | [`signals`] |
//!
//! How it speaks is in the crate `tributary_terminal`, which `trib-lab` uses too.
mod args;
mod commands;
mod demo;
mod hook;
mod progress;
#[cfg(test)]
mod reference_tests;
mod service;
mod signals;
mod tables;

use std::process::ExitCode;
use tributary_terminal::{failure, log};

fn main() -> ExitCode {
    let cli = match args::parse() {
        Ok(cli) => cli,
        Err(code) => return ExitCode::from(code),
    };
    log::start(cli.log_levels());
    let json = cli.json;
    match commands::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A user who pressed Ctrl-C knows it, as with any other program.
            if json || error.message != signals::INTERRUPTED_MESSAGE {
                failure::report(&error, json);
            }
            ExitCode::from(error.kind.exit_code())
        }
    }
}
