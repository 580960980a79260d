//! Examples at the end of each command's help: each is parsed.
use super::{EXAMPLES, declared};
use tributary_terminal::arguments::examples_of;

/// The words of a line as a shell splits them, up to a pipe or a redirection.
fn words(line: &str) -> Vec<String> {
    let line = line.split(" | mpv").next().unwrap_or_default().split(" > ").next().unwrap_or_default();
    let line = line.split_once("trib ").map_or(line, |(_, rest)| rest);
    let mut words = vec!["trib".to_string()];
    let mut quoted = false;
    for part in line.split(' ') {
        let was_quoted = quoted;
        quoted ^= part.matches('\'').count() % 2 == 1;
        let part = part.replace('\'', "");
        match words.last_mut() {
            Some(last) if was_quoted => *last = format!("{last} {part}"),
            _ => words.push(part),
        }
    }
    words
}
fn leaves(command: &clap::Command, path: &str, found: &mut Vec<String>) {
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        let path = format!("{path} {}", inner.get_name()).trim_start().to_string();
        if inner.has_subcommands() {
            leaves(inner, &path, found);
        }
        if !inner.has_subcommands() || inner.is_args_conflicts_with_subcommands_set() {
            found.push(path);
        }
    }
}

#[test]
fn every_command_has_examples_and_each_is_right() {
    let mut commands = Vec::new();
    leaves(&declared(), "", &mut commands);
    for command in &commands {
        assert!(!examples_of(command, EXAMPLES).is_empty(), "'{command}' has no example");
    }
    for part in EXAMPLES.split("# ").skip(1) {
        let (command, lines) = part.split_once('\n').expect("a line");
        assert!(commands.iter().any(|known| known == command), "there is no command '{command}'");
        for line in lines.lines() {
            let parsed = declared().try_get_matches_from(words(line));
            assert!(parsed.is_ok(), "{line}: {}", parsed.map_or_else(|error| error.to_string(), |_| String::new()));
            assert!(line.contains(&format!("trib {command}")), "{line} is no example of '{command}'");
        }
    }
}
