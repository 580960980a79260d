//! Rows of `docs/results.md` that were measured before a commit.
use std::{fs, path::Path, process::Command};

use crate::{Outcome, print_line};

/// List the rows of docs/results.md that were measured before a commit.
#[derive(clap::Args, Debug)]
pub(crate) struct StaleArguments {
    /// The commit
    #[arg(long, value_name = "COMMIT", default_value = "HEAD")]
    since: String,
    /// The page
    #[arg(long, value_name = "FILE", default_value = "docs/results.md")]
    page: String,
}

pub(crate) fn run(arguments: &StaleArguments) -> Outcome {
    let mut found = 0;
    for line in fs::read_to_string(Path::new(&arguments.page))?.lines() {
        let Some((what, commit)) = row(line) else { continue };
        // Git fails for commits that it does not know: their rows are stale, too.
        let is_fresh = Command::new("git")
            .args(["merge-base", "--is-ancestor", &arguments.since, commit])
            .stderr(std::process::Stdio::null())
            .status()?
            .success();
        if !is_fresh {
            found += 1;
            print_line(&format!("{commit}  {what}"));
        }
    }
    print_line(&format!("{found} rows were measured before {}", arguments.since));
    Ok(())
}

/// The first column of a row, and the commit in its last one, `commit, YYYY-MM-DD`.
fn row(line: &str) -> Option<(&str, &str)> {
    let cells: Vec<&str> = line.trim().strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
    let (commit, date) = cells.last()?.split_once(", ")?;
    let is_row = date.starts_with("20") && commit.len() >= 7 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_row.then_some((cells[0], commit))
}

#[cfg(test)]
mod tests {
    use super::row;

    #[test]
    fn rows_are_told_from_other_lines() {
        assert_eq!(row("| One file | 2.4 | quinn | `bench` | d366c91, 2026-11-28 |"), Some(("One file", "d366c91")));
        for line in ["| what | figure | compared with | command | commit, date |", "|---|---|", "text", "| a | b |"] {
            assert_eq!(row(line), None, "{line}");
        }
    }
}
