//! The book's page about a program's arguments: generated from its declaration, and held against it by a test.
use clap::{Arg, Command};
use std::{fmt::Write, path::Path};

/// Set to write pages in place of comparing them.
const WRITE: &str = "TRIBUTARY_WRITE_DOCS";

/// An option with the same description at this many commands is described once, ahead of them.
const SHARED_BY: usize = 3;

/// The page between `head` and `tail`: the options of all commands and of several, then a section for each command.
pub fn page(mut root: Command, head: &str, tail: &str) -> String {
    root.build();
    let mut text = head.to_string();
    list(&mut text, root.get_arguments().filter(|argument| argument.is_global_set()).map(item));
    let mut options = Vec::new();
    for command in root.get_subcommands() {
        collect_options(&mut options, command);
    }
    let mut shared = Vec::new();
    for option in &options {
        if !shared.contains(option) && options.iter().filter(|other| *other == option).count() >= SHARED_BY {
            shared.push(option.clone());
        }
    }
    if !shared.is_empty() {
        text.push_str("\n## Options of several commands\n");
        list(&mut text, shared.iter().cloned());
    }
    for command in root.get_subcommands() {
        section(&mut text, command, &shared, 2);
    }
    text + tail
}

/// Compares a generated page with the file, or writes it if the environment has `TRIBUTARY_WRITE_DOCS`.
///
/// # Panics
/// If they differ, with the first differing line; `command` is the command that writes the page.
pub fn check(file: &Path, page: &str, command: &str) {
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(file, page).expect("the page can be written");
    }
    let written = std::fs::read_to_string(file).unwrap_or_default();
    let difference = page.lines().zip(written.lines()).find(|(now, then)| now != then);
    assert!(page == written, "`{WRITE}=1 {command}` writes the page anew: {difference:?}");
}

/// The descriptions of the options of a command and of those below it.
fn collect_options(options: &mut Vec<String>, command: &Command) {
    options.extend(arguments(command).filter(|argument| !argument.is_positional()).map(item));
    for inner in command.get_subcommands() {
        collect_options(options, inner);
    }
}
fn arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    let own = command.get_arguments().filter(|argument| !argument.is_global_set());
    own.filter(|argument| argument.get_id() != "help" && !argument.is_hide_set())
}

fn section(text: &mut String, command: &Command, shared: &[String], depth: usize) {
    if command.get_name() == "help" {
        return;
    }
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let _ = write!(text, "\n{} {name}\n\n{}\n", "#".repeat(depth), prose(&about));
    let (others, own): (Vec<_>, Vec<_>) = arguments(command).map(item).partition(|item| shared.contains(item));
    list(text, own.into_iter());
    let flag =
        |item: &String| item.split(['`', ' ']).find(|word| word.starts_with("--")).map(|flag| format!("`{flag}`"));
    let flags: Vec<_> = others.iter().filter_map(flag).collect();
    if !flags.is_empty() {
        let _ = write!(text, "\nAlso: {}\n", flags.join(", "));
    }
    for inner in command.get_subcommands() {
        section(text, inner, shared, depth + 1);
    }
}

fn list(text: &mut String, items: impl Iterator<Item = String>) {
    let items: String = items.collect();
    if !items.is_empty() {
        let _ = write!(text, "\n{items}");
    }
}

fn item(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default().iter().map(ToString::to_string);
    let value = names.collect::<Vec<_>>().join(" ");
    let takes_value = argument.get_action().takes_values();
    let names =
        [argument.get_short().map(|short| format!("-{short}")), argument.get_long().map(|long| format!("--{long}"))];
    let names = names.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let shown = match (names.is_empty(), takes_value) {
        // As in the usage: `<NAME>` if it is required, else `[NAME]`.
        (true, _) => argument.to_string(),
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
    let required = if argument.is_required_set() && !argument.is_positional() { " (required)" } else { "" };
    format!("- `{shown}`: {help}{required}\n")
}

/// Help of clap as Markdown: text outside backticks must not be read as HTML or as struck out.
fn prose(help: &str) -> String {
    let paragraphs = help.split("\n\n").map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    let text = paragraphs.collect::<Vec<_>>().join("\n\n");
    let escape = |(index, part): (usize, &str)| match index % 2 {
        0 => part.replace('<', "&lt;").replace('~', "\\~"),
        _ => part.to_string(),
    };
    text.split('`').enumerate().map(escape).collect::<Vec<_>>().join("`")
}
