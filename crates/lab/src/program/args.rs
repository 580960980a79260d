//! Every flag of `trib-lab`, declared once. Help shows `trib lab` and `trib sim`, the names that people use.
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::path::PathBuf;
use tributary_lab::simulation::file::Setting;
use tributary_terminal::arguments;

/// Runs the papers' experiments and scenarios of your own in virtual time.
#[derive(Parser, Debug)]
#[command(name = "trib-lab", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// Write JSON lines to stdout instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Log decisions and their reasons to stderr
    #[arg(long, global = true)]
    pub(crate) debug: bool,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// All declarations, with examples and the exit codes at the end of every command's help.
pub(crate) fn declared() -> clap::Command {
    arguments::with_examples(Cli::command(), EXAMPLES)
}
/// Reads the arguments of the process; the error is an exit code.
pub(crate) fn parse() -> Result<Cli, u8> {
    arguments::parse(declared(), Cli::from_arg_matches)
}

/// The commands.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run the papers' experiments in virtual time and compare their figures with ours
    #[command(subcommand)]
    Lab(Lab),
    /// Run your own scenario in virtual time: any topology, workload, faults and family
    Sim(Sim),
    /// Run a daemon with the faults of its config until standard input ends, as `trib demo --evil cache` does
    Node {
        /// The config
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages to a folder
    Man {
        /// The folder, which is made if it is not there
        folder: PathBuf,
    },
}

/// One key of a scenario with several values.
#[derive(Clone, Debug)]
pub(crate) struct Sweep(pub(crate) Vec<Setting>);
impl std::str::FromStr for Sweep {
    type Err = String;
    fn from_str(text: &str) -> Result<Sweep, String> {
        let (key, values) = text.split_once('=').ok_or("it has no '='; write KEY=VALUE,VALUE")?;
        values.split(',').map(|value| format!("{key}={}", value.trim()).parse()).collect::<Result<_, _>>().map(Sweep)
    }
}

/// Simulates.
#[derive(Args, Debug)]
pub(crate) struct Sim {
    /// The scenario, a TOML file; examples/sim/everything.toml shows every section
    pub(crate) scenario: PathBuf,
    /// Seed of every random choice [default: the file's, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=i64::MAX as u64))]
    pub(crate) seed: Option<u64>,
    /// How many runs, each with the next seed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) runs: u32,
    /// Put a value in the place of the file's, such as link.dsl.rate=20Mbps or node.home.transfer.window_initial_packets=32;
    /// may be repeated. In a list of sections the second word is a name, a label, a number, or * for all
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<Setting>,
    /// Run with each of these values, such as link.dsl.rate=5Mbps,10Mbps,20Mbps; if repeated, with each combination
    #[arg(long, value_name = "KEY=VALUE,...")]
    pub(crate) sweep: Vec<Sweep>,
    /// Runs at a time; the results do not depend on it [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
    /// Write events, tables, figures (SVG, PDF, PNG) and a report of each run to a new folder below this one
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Capture the packets of a link, such as a-b, into packets.pcapng; may be repeated
    #[arg(long, value_name = "LINK", requires = "out")]
    pub(crate) pcap: Vec<String>,
}

/// Commands of the lab.
#[derive(Subcommand, Debug)]
pub(crate) enum Lab {
    /// List the experiments
    List,
    /// Run one experiment and write its figures, tables and page
    Run {
        /// Its name; `trib lab list` shows them
        #[arg(value_name = "EXPERIMENT")]
        experiment: String,
        /// Run this scheme only, such as ptp-default, in an experiment that compares several
        #[arg(long, value_name = "SCHEME")]
        only: Option<String>,
        /// Seed of everything; the same seed gives the same bytes
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
        /// How often each variant runs [default: the paper's number]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
        runs: Option<u32>,
        /// Folder for CSV, figures (SVG, PDF, PNG) and the page, in a folder of the experiment's name
        #[arg(long, value_name = "DIR", default_value = "lab-results")]
        out: PathBuf,
    },
    /// Write one page with all experiments, and run those that are not in the folder yet
    Report {
        /// The folder
        #[arg(long, value_name = "DIR", default_value = "lab-results")]
        out: PathBuf,
        /// Seed of those that are run
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
        /// How often their variants run [default: the papers' numbers]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
        runs: Option<u32>,
    },
}

const EXAMPLES: &str = "\
# lab list
trib lab list
# lab run
trib lab run mmftp-failure --runs 2
# lab report
trib lab report --out lab-results
# sim
trib sim scenario.toml --runs 20 --json
trib sim scenario.toml --out results --pcap a-b
trib sim scenario.toml --set link.dsl.loss=1% --sweep link.lte.rate=5Mbps,10Mbps,20Mbps --out results
# node
trib-lab node --config lying-cache.toml
# completions
trib-lab completions bash > ~/.local/share/bash-completion/completions/trib-lab
# man
trib-lab man ~/.local/share/man/man1
";

#[cfg(test)]
mod tests {
    use std::path::Path;
    use tributary_testkit::command_page as page;

    use super::*;

    const HEAD: &str = "# Command line of the laboratory

<!-- Generated from the declarations of the program: `TRIBUTARY_WRITE_DOCS=1 cargo test -p trib-lab --bin trib-lab` writes it. -->

`trib lab` and `trib sim` are commands of the program `trib-lab`, which `trib` looks for next to itself and then on the PATH. It reads recorded traces from the folder in `TRIBUTARY_DATA`.

Every command has these two options:
";

    #[test]
    fn the_declarations_are_consistent_and_the_page_says_them() {
        declared().debug_assert();
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/command-line-lab.md");
        page::check(&file, &page::page(declared(), HEAD, ""), "cargo test -p trib-lab --bin trib-lab");
    }

    #[test]
    fn each_example_is_read() {
        for line in EXAMPLES.lines().filter(|line| !line.starts_with('#')) {
            let words = line.split(" > ").next().unwrap_or_default().split(' ').skip_while(|word| *word == "trib");
            let program = (!line.starts_with("trib-lab")).then_some("trib-lab");
            Cli::try_parse_from(program.into_iter().chain(words)).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }
}
