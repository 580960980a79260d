//! The benchmarks, and the command that runs them.
mod api_clients;
mod bulk_1;
mod bulk_3;
mod copies;
mod forwarding;
mod hop;
mod mf_hop;
mod mf_last_hop;
mod mf_mobility;
mod mf_store;
mod names;
mod ndn_congested;
mod ndn_hop;
mod ndn_legacy;
mod ndn_lookup;
mod ndn_rates;
mod ndnd;
mod ours;
mod paths;
mod paths_compute;
mod rivals;
mod rqbit;
mod sim_real;
mod sim_speed;
mod sim_zoo;
mod site;
mod swarm;
mod updates;
mod web_uplinks;

use std::path::{Path, PathBuf};

use clap::Args;
use tributary_core::ByteCount;

use crate::{
    Outcome,
    harness::{
        figure::{Figure, Report},
        interrupt,
        machine::{Machine, Priority},
        rounds::Contender,
        stage::Stage,
        trib::Trib,
    },
    note, print_line,
};

/// One benchmark.
struct Bench {
    name: &'static str,
    about: &'static str,
    run: fn(&mut Context<'_>) -> Outcome<Findings>,
}

/// All benchmarks, in the order of the targets.
const BENCHES: &[Bench] = &[
    Bench {
        name: "bulk-1",
        about: "one source, loopback UDP with 1,472-byte datagrams, verified and written (targets 1, 2, 5, 6)",
        run: bulk_1::run,
    },
    Bench { name: "bulk-3", about: "three sources on loopback (target 3)", run: bulk_3::run },
    Bench { name: "hop", about: "through one forwarder, and out of its cache (targets 4, 5)", run: hop::run },
    Bench { name: "paths", about: "50 MB over 20, 12 and 8 Mbit/s, RTT 40 ms (target 7)", run: paths::run },
    Bench {
        name: "paths-failure",
        about: "the same, the best path silent from 2.2 to 6.6 s (target 8)",
        run: paths::run_failure,
    },
    Bench { name: "paths-loss", about: "the same, 1 % loss on all paths (target 9)", run: paths::run_loss },
    Bench { name: "forwarding", about: "the forwarding decision of a PSI router (target 15)", run: forwarding::run },
    Bench {
        name: "names",
        about: "names of MobilityFirst in three members of etcd, against the embedded engine; needs etcd",
        run: names::run,
    },
    Bench {
        name: "ndn-hop",
        about: "NDN: Interest and Data of 8,000 bytes through a forwarder with sockets, against ndnd's (target 16)",
        run: ndn_hop::run,
    },
    Bench {
        name: "ndn-congested",
        about: "NDN: a file over 25 Mbit/s with a short queue between two forwarders, where ndnd's fetches fail",
        run: ndn_congested::run,
    },
    Bench {
        name: "ndn-legacy",
        about: "NDN: the same link between ndnd's forwarders, kernel interfaces; ours against ndnd's; root, linkemu",
        run: ndn_legacy::run,
    },
    Bench {
        name: "ndn-rates",
        about: "NDN: a forwarder's measurement of a link without a configured rate, 0.2 to 400 Mbit/s; root, linkemu",
        run: ndn_rates::run,
    },
    Bench {
        name: "ndn-lookup",
        about: "NDN: acceleration base, hash and trie at 10, 10³ and 10⁶ prefixes; packets read and written",
        run: ndn_lookup::run,
    },
    Bench {
        name: "paths-compute",
        about: "eight verified paths both ways in a graph of 1,000 nodes; a link that flaps at 800 nodes (target 15)",
        run: paths_compute::run,
    },
    Bench { name: "mf-hop", about: "MobilityFirst through one router, against quinn", run: mf_hop::run },
    Bench {
        name: "mf-store",
        about: "MobilityFirst: chunks stored durably for a receiver that is away, against a copy with fsync",
        run: mf_store::run_speed,
    },
    Bench {
        name: "mf-kill",
        about: "MobilityFirst: a router killed while it stores 100 MiB; chunks acknowledged and lost",
        run: mf_store::run_kill,
    },
    Bench {
        name: "mf-loss",
        about: "MobilityFirst: 25 Mbit/s, RTT 10, 50, 100 ms, 0 and 1 % loss, against kernel TCP; root, linkemu \
            (target 10)",
        run: mf_last_hop::run_loss,
    },
    Bench {
        name: "mf-outage",
        about: "MobilityFirst: the last hop silent for 10 and 30 s, against kernel TCP; root, linkemu (target 11)",
        run: mf_last_hop::run_outage,
    },
    Bench {
        name: "mf-mobility",
        about: "MobilityFirst: a receiver that moves between two access routers, against kernel TCP; root, linkemu",
        run: mf_mobility::run,
    },
    Bench {
        name: "api-clients",
        about: "a fetch over 200 Mbit/s during requests of 1,000 clients of the API and 200 streams of events (at \
            least 0.95)",
        run: api_clients::run,
    },
    Bench {
        name: "sim-speed",
        about: "the simulator with real protocol code over four hops (target 13)",
        run: sim_speed::run,
    },
    Bench {
        name: "sim-real",
        about: "simulated goodput against daemons over emulated links (target 14)",
        run: sim_real::run,
    },
    Bench {
        name: "sim-zoo",
        about: "a provider network of 754 nodes with 100 concurrent transfers in the simulator",
        run: sim_zoo::run,
    },
    Bench {
        name: "swarm",
        about: "receivers of one file that serve each other, against aria2's BitTorrent",
        run: swarm::run,
    },
    Bench {
        name: "updates",
        about: "bytes of a changed file that is fetched over its earlier version, against casync and rsync",
        run: updates::run,
    },
    Bench {
        name: "copies",
        about: "one gateway with an origin beside nginx with proxy_cache: misses and hits",
        run: copies::run,
    },
    Bench {
        name: "site",
        about: "ten gateways whose clients want the same files at once, against one nginx and one gateway alone",
        run: site::run,
    },
    Bench {
        name: "web-uplinks",
        about: "two web mirrors over three uplinks, against aria2 and curl; root, linkemu (at least 0.97 of the bound)",
        run: web_uplinks::run,
    },
];

/// Receivers of the benchmark `swarm` by default.
const RECEIVERS: [usize; 2] = [8, 32];

/// What `cargo xtask bench` takes.
#[derive(Args, Debug)]
#[command(after_help = after_help())]
pub(crate) struct BenchArguments {
    /// Which benchmarks; all by default.
    names: Vec<String>,
    /// Rounds; in each one ours and every yardstick run once, in turn.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Bytes of a bulk transfer.
    #[arg(long, default_value = "1GiB")]
    size: ByteCount,
    /// Measure memory with a transfer of this size too, once; the target is set for 8GiB. Needs twice that on disk.
    #[arg(long, value_name = "SIZE")]
    memory_size: Option<ByteCount>,
    /// Names of the benchmark `names`: 10,000 and tenfold steps up to this number.
    #[arg(long, default_value_t = 100_000)]
    records: u64,
    /// Receivers of the benchmark `swarm`, one crowd after the other.
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_values_t = RECEIVERS)]
    receivers: Vec<usize>,
    /// Print JSON, one object for each benchmark, instead of tables.
    #[arg(long)]
    json: bool,
    /// Where BENCH.json is written.
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    out: PathBuf,
    /// Where files are sent from and received to, in a folder that is removed in the end [default: the system's].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The program to measure [default: build it from this workspace].
    #[arg(long, value_name = "FILE")]
    trib: Option<PathBuf>,
    /// How nodes protect their faces, in a word of the config [default: the program's].
    #[arg(long, value_name = "WORD")]
    security: Option<String>,
    /// Do not raise this session's share of the machine, which is done where permitted.
    #[arg(long)]
    no_priority: bool,
}

/// What a benchmark works with.
struct Context<'a> {
    arguments: &'a BenchArguments,
    stage: Stage,
    trib: Trib,
}

/// What a benchmark found.
#[derive(Default)]
struct Findings {
    figures: Vec<Figure>,
    notes: Vec<String>,
}

/// Runs the benchmarks that are named.
///
/// # Errors
/// If a name is unknown, `trib` cannot be built, or a benchmark has no figure to show.
pub(crate) fn run(arguments: &BenchArguments) -> Outcome {
    for name in &arguments.names {
        if !BENCHES.iter().any(|bench| bench.name == name) {
            return Err(format!("there is no benchmark '{name}'\n{}", after_help()).into());
        }
    }
    let is_chosen =
        |bench: &&Bench| arguments.names.is_empty() || arguments.names.iter().any(|name| name == bench.name);
    interrupt::listen()?;
    let trib = Trib::find(arguments.trib.as_deref(), arguments.security.as_deref())?;
    let base = arguments.dir.clone().unwrap_or_else(std::env::temp_dir);
    let priority = if arguments.no_priority { None } else { Some(Priority::raise()) };
    let mut failures = Vec::new();
    for bench in BENCHES.iter().filter(is_chosen) {
        interrupt::check()?;
        note(&format!("{}: {}", bench.name, bench.about));
        let machine = Machine::now();
        let mut context = Context { arguments, stage: Stage::new(&base)?, trib: trib.clone() };
        match (bench.run)(&mut context) {
            Ok(mut findings) => {
                if priority.as_ref().is_some_and(|priority| !priority.is_raised()) {
                    findings.notes.push("the priority could not be raised; other processes disturb".into());
                }
                if interrupt::check().is_err() {
                    findings.notes.push("interrupted: the rounds that were complete by then count".into());
                }
                let report = Report {
                    bench: bench.name,
                    about: bench.about.into(),
                    command: arguments.command(bench.name),
                    machine,
                    figures: findings.figures,
                    notes: findings.notes,
                };
                if arguments.json {
                    print_line(&serde_json::to_string(&report)?);
                } else {
                    report.print();
                }
                report.write(&arguments.out)?;
            }
            Err(error) => {
                note(&format!("{} failed: {error}", bench.name));
                failures.push(bench.name);
            }
        }
    }
    interrupt::check()?;
    if failures.is_empty() { Ok(()) } else { Err(format!("no figures of {}", failures.join(", ")).into()) }
}

impl BenchArguments {
    /// The command that repeats one benchmark.
    fn command(&self, bench: &str) -> String {
        let mut words = format!("cargo xtask bench {bench} --runs {}", self.runs);
        if self.size.0 != 1 << 30 {
            words += &format!(" --size {}", self.size.0);
        }
        if let Some(size) = self.memory_size {
            words += &format!(" --memory-size {}", size.0);
        }
        if self.records != 100_000 {
            words += &format!(" --records {}", self.records);
        }
        if self.receivers != RECEIVERS {
            let counts: Vec<String> = self.receivers.iter().map(usize::to_string).collect();
            words += &format!(" --receivers {}", counts.join(","));
        }
        if let Some(security) = &self.security {
            words += &format!(" --security {security}");
        }
        words
    }
    fn rounds(&self) -> usize {
        self.runs as usize
    }
}

fn after_help() -> String {
    let mut help = String::from("Benchmarks:");
    for bench in BENCHES {
        help += &format!("\n  {:<15} {}", bench.name, bench.about);
    }
    help + "\n\nThe targets come from the design. A ratio is the median over the rounds of ours / the \
        yardstick's.\nOn a machine that others use, look at the ratios and not at the rates."
}

/// Removes a transfer's output; the next one must not find it.
fn clear(path: &Path) -> Outcome {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Adds a contender that could be set up and returns its place, or notes why it could not.
fn add<'a>(
    contenders: &mut Vec<Contender<'a>>,
    findings: &mut Findings,
    name: &str,
    contender: Outcome<Contender<'a>>,
) -> Option<usize> {
    match contender {
        Ok(contender) => {
            contenders.push(contender);
            Some(contenders.len() - 1)
        }
        Err(error) => {
            note(&format!("  {name}: {error}"));
            findings.notes.push(format!("{name} could not be set up: {error}"));
            None
        }
    }
}
