//! The book's page about a program's arguments: generated from its declaration, and held against it by a test.
use clap::{Arg, Command};
use std::{fmt::Write, path::Path};

/// Set to write pages in place of comparing them.
const WRITE: &str = "TRIBUTARY_WRITE_DOCS";

/// The page between `head` and `tail`: the options of all commands, then a section for each command.
pub fn page(mut root: Command, head: &str, tail: &str) -> String {
    root.build();
    let mut text = head.to_string();
    table(&mut text, root.get_arguments().filter(|argument| argument.is_global_set()));
    for command in root.get_subcommands() {
        section(&mut text, command, 2);
    }
    text + tail
}

/// Compares a generated page with the file, or writes it if the environment has `TRIBUTARY_WRITE_DOCS`.
///
/// # Panics
/// If they differ, with the first line that does; `command` is what writes the page.
pub fn check(file: &Path, page: &str, command: &str) {
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(file, page).expect("the page can be written");
    }
    let written = std::fs::read_to_string(file).unwrap_or_default();
    let difference = page.lines().zip(written.lines()).find(|(now, then)| now != then);
    assert!(page == written, "`{WRITE}=1 {command}` writes the page anew: {difference:?}");
}

fn section(text: &mut String, command: &Command, depth: usize) {
    if command.get_name() == "help" {
        return;
    }
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let _ = write!(text, "\n{} {name}\n\n{}\n\n```text\n{usage}\n```\n", "#".repeat(depth), prose(&about));
    let arguments = command.get_arguments().filter(|argument| !argument.is_global_set());
    table(text, arguments.filter(|argument| argument.get_id() != "help" && !argument.is_hide_set()));
    for inner in command.get_subcommands() {
        section(text, inner, depth + 1);
    }
}

fn table<'a>(text: &mut String, arguments: impl Iterator<Item = &'a Arg>) {
    let rows: Vec<String> = arguments.map(row).collect();
    if !rows.is_empty() {
        let _ = write!(text, "\n| argument | meaning |\n|---|---|\n{}", rows.concat());
    }
}

fn row(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default().iter().map(ToString::to_string);
    let value = names.collect::<Vec<_>>().join(" ");
    let takes_value = argument.get_action().takes_values();
    let names =
        [argument.get_short().map(|short| format!("-{short}")), argument.get_long().map(|long| format!("--{long}"))];
    let names = names.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let shown = match (names.is_empty(), takes_value) {
        (true, _) => value,
        (false, true) => format!("{names} {value}"),
        (false, false) => names,
    };
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut help = prose(&help);
    let choices: Vec<_> = argument.get_possible_values().into_iter().filter(|_| takes_value).collect();
    if !choices.is_empty() {
        let choice = |choice: &clap::builder::PossibleValue| match choice.get_help() {
            Some(meaning) => format!("`{}` ({})", choice.get_name(), prose(&meaning.to_string())),
            None => format!("`{}`", choice.get_name()),
        };
        let _ = write!(help, ". One of {}", choices.iter().map(choice).collect::<Vec<_>>().join(", "));
    }
    let defaults: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if takes_value && !defaults.is_empty() {
        let _ = write!(help, " [default: {}]", defaults.join(" "));
    }
    format!("| `{}` | {help} |\n", shown.replace('|', "\\|"))
}

/// Help of clap as Markdown: text outside backticks must not be read as HTML or as the end of a cell.
fn prose(help: &str) -> String {
    let paragraphs = help.split("\n\n").map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    paragraphs.collect::<Vec<_>>().join("\n\n").replace('<', "&lt;").replace('|', "\\|").replace('~', "\\~")
}
