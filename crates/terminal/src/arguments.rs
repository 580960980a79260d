//! Declared arguments: examples at the end of each help, completions, manual pages.
use clap::{
    ArgMatches, Command,
    error::{ContextKind, ContextValue},
};
use std::{fs, path::Path};
use tributary::{ApiError, ErrorKind, Notice, config::nearest};

use crate::out;

/// Shown at the end of every help.
pub const EXIT_CODES: &str = "Exit codes: 0 done, or stored safely for a receiver that is away · 1 not found · 2 wrong usage or \
    config · 3 incomplete, the same command resumes · 4 refused · 5 disk, device or network of this machine · 6 daemon gone, \
    busy or of another version · 130 interrupted (of what serves until then, node, put and http-proxy: 0)";

/// The declaration with the examples of each command and the exit codes at the end of its help. Lines of examples follow
/// a line `# COMMAND`, the words between the program and the first argument.
pub fn with_examples(root: Command, examples: &'static str) -> Command {
    fn inner(command: Command, path: &str, examples: &'static str) -> Command {
        let path = format!("{path} {}", command.get_name()).trim_start().to_string();
        let end = format!("{}{EXIT_CODES}", examples_of(&path, examples));
        command.mut_subcommands(|command| inner(command, &path, examples)).after_help(end)
    }
    root.mut_subcommands(|command| inner(command, "", examples))
}

/// The examples of a command as the end of its help.
pub fn examples_of(command: &str, examples: &str) -> String {
    let found = examples.split("# ").find_map(|part| part.strip_prefix(command)?.strip_prefix('\n'));
    let lines: String = found.into_iter().flat_map(str::lines).map(|line| format!("  {line}\n")).collect();
    if lines.is_empty() { lines } else { format!("Examples:\n{lines}\n") }
}

/// Reads the arguments of the process. Prints help and errors itself; the error is then the exit code.
///
/// # Errors
/// 0 after help or version, 2 for wrong arguments, 5 if standard output cannot be written.
pub fn parse<T>(declared: Command, read: impl FnOnce(&ArgMatches) -> Result<T, clap::Error>) -> Result<T, u8> {
    let mut declared = declared;
    let parsed = declared.try_get_matches_from_mut(std::env::args_os()).and_then(|matches| read(&matches));
    parsed.map_err(|mut error| {
        suggest(&mut error, &declared, std::env::args().skip(1));
        let code = u8::try_from(error.exit_code()).unwrap_or(2);
        if code != 0 && wants_json() {
            out::data(&Notice::from(&wrong_usage(&error)).to_line());
        }
        if error.print().is_ok() { code } else { ErrorKind::Io.exit_code() }
    })
}

/// Suggests the intended command; clap does not consider transposed letters.
fn suggest(error: &mut clap::Error, declared: &Command, words: impl Iterator<Item = String>) {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidSubcommand) else { return };
    let parent = words
        .take_while(|word| word != wrong)
        .fold(declared, |command, word| command.find_subcommand(word).unwrap_or(command));
    let known: Vec<&str> = parent.get_subcommands().filter(|of| !of.is_hide_set()).map(Command::get_name).collect();
    let meant = nearest(wrong, &known).map(|meant| ContextValue::Strings(vec![meant.into()]));
    meant.into_iter().for_each(|meant| _ = error.insert(ContextKind::SuggestedSubcommand, meant));
}

/// Whether the arguments, which may be invalid, request JSON.
pub fn wants_json() -> bool {
    std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json")
}

/// The error in the arguments, without the usage that is drawn below it.
fn wrong_usage(error: &clap::Error) -> ApiError {
    let text = error.to_string();
    let what = match error.kind() {
        clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "there is no command",
        _ => text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: "),
    };
    let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
    ApiError::usage(what).with_hint("`--help` lists commands and options, also behind a command")
}

/// Prints a completion script for a shell.
pub fn print_completions(shell: clap_complete::Shell, mut declared: Command) {
    let (mut script, program) = (Vec::new(), declared.get_name().to_string());
    clap_complete::generate(shell, &mut declared, program, &mut script);
    out::bytes(&script);
}

/// Writes the manual pages of all commands to a folder, creating it if necessary.
///
/// # Errors
/// [`ErrorKind::Io`] if the folder or a page cannot be written.
pub fn write_manual(declared: Command, folder: &Path) -> Result<(), ApiError> {
    fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(declared, folder))
        .map_err(|error| ApiError::io("write the manual pages to", folder.display(), &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_in_the_wrong_order_name_the_command_that_was_meant() {
        let declared = || {
            let key = Command::new("key").subcommand(Command::new("show")).subcommand(Command::new("new"));
            Command::new("trib").subcommands(["get", "gateway", "put"].map(Command::new)).subcommand(key)
        };
        for (words, meant) in [("gte", "get"), ("gatewya", "gateway"), ("key shwo", "show")] {
            let mut command = declared();
            let words: Vec<String> = std::iter::once("trib").chain(words.split(' ')).map(String::from).collect();
            let mut error = command.try_get_matches_from_mut(&words).expect_err("there is no such command");
            suggest(&mut error, &command, words.into_iter().skip(1));
            assert!(error.to_string().contains(&format!("'{meant}'")), "{error}");
        }
    }
}
