//! The book's page about the command line of `trib`.
use std::path::Path;
use tributary_terminal::page;

use crate::args::declared;

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
";

#[test]
fn the_page_about_the_command_line_is_what_is_declared() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/command-line.md");
    page::check(&file, &page::page(declared(), HEAD, TAIL), "cargo test -p trib --bin trib reference");
}
