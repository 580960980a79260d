//! The book's page about the command line of `trib`.
use std::path::Path;
use tributary_testkit::command_page as page;

use crate::args::declared;

const HEAD: &str = "# Command line

<!-- Generated from the declarations of the program: `TRIBUTARY_WRITE_DOCS=1 cargo test -p trib --bin trib reference` writes it. -->

`trib --help` and `trib COMMAND --help` show the same on a terminal, `trib man DIR` writes it as manual pages, and `trib completions SHELL` prints a completion script. Rates, times and sizes carry their units: `20Mbps`, `40ms`, `64KiB`.

Every command has these two options:
";
const TAIL: &str = "
## Exit codes

| code | meaning |
|---|---|
| 0 | done; `send`: routers store everything for an absent receiver; `node`, `put` and `http-proxy`: interrupted |
| 1 | not found |
| 2 | wrong usage or config |
| 3 | incomplete; verified data is kept, and the same command resumes; `doctor`: problems |
| 4 | the network or the node refused |
| 5 | this machine's disk, device or network refused |
| 6 | the daemon is gone, busy, or of another version; another process has the state folder |
| 130 | interrupted |

## Environment

| variable | meaning |
|---|---|
| `TRIB_CONTROL` | replaces `--control` |
| `TRIB_PEER` | replaces `--peer` |
| `XDG_STATE_HOME` | parent of nodes' state, in a folder `tributary`; without it `~/.local/state` |
";

#[test]
fn the_page_about_the_command_line_is_what_is_declared() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/command-line.md");
    page::check(&file, &page::page(declared(), HEAD, TAIL), "cargo test -p trib --bin trib reference");
}
