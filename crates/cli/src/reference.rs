//! The book's page about the command line: generated from the declarations of [`crate::args`], so that it cannot go stale.
use clap::{Arg, Command};
use std::{fmt::Write, path::PathBuf};

use crate::args::declared;

/// Set to write the page instead of comparing it.
const WRITE: &str = "TRIBUTARY_WRITE_DOCS";

const HEAD: &str = "# Command line

<!-- Generated from the declarations of the program: `TRIBUTARY_WRITE_DOCS=1 cargo test -p trib --bin trib reference` writes it anew. -->

`trib --help` and `trib COMMAND --help` show the same on a terminal, `trib man DIR` writes it as manual pages, and `trib completions SHELL` prints a completion script. Rates, times and sizes carry their units: `20Mbps`, `40ms`, `64KiB`.

Every command has these two options:
";
const TAIL: &str = "
## Exit codes

| code | meaning |
|---|---|
| 0 | done; also what `send` has left with routers that store all of it, whose receiver is away; `node`, `put` and `http-proxy` serve until they are interrupted and end with 0 then |
| 1 | not found |
| 2 | wrong usage, or a wrong config |
| 3 | begun and not complete; verified data is kept, and the same command goes on; of `doctor`: there are problems |
| 4 | the network, or the node that was asked, refused |
| 5 | the disk, a device or the network of this machine refused |
| 6 | the daemon is gone, busy, or of another version; or another process has the state folder |
| 130 | interrupted |

## Environment

| variable | meaning |
|---|---|
| `TRIB_CONTROL` | label or control socket of the daemon to ask, in place of `--control` |
| `TRIB_PEER` | the neighbour to use, in place of `--peer` |
| `XDG_STATE_HOME` | where nodes keep their state, in a folder `tributary`; without it `~/.local/state` |
| `TRIBUTARY_DATA` | folder of recorded traces for `trib lab` |
";

fn page() -> String {
    let mut root = declared();
    root.build();
    let mut text = HEAD.to_string();
    table(&mut text, root.get_arguments().filter(|argument| argument.is_global_set()));
    for command in root.get_subcommands() {
        section(&mut text, command, 2);
    }
    text + TAIL
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

#[test]
fn the_page_about_the_command_line_is_what_is_declared() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/command-line.md");
    let page = page();
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &page).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let difference = page.lines().zip(written.lines()).find(|(now, then)| now != then);
    assert!(
        page == written,
        "`{WRITE}=1 cargo test -p trib --bin trib reference` writes the page anew: {difference:?}"
    );
}
