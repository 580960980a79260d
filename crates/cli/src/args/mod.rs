//! Every flag, declared once: help, manual pages and completions come from here.
mod common;
mod demo;
#[cfg(test)]
mod examples_tests;
mod http_proxy;
mod network;
pub(crate) mod web;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::{ffi::OsString, path::PathBuf};
use tributary::{
    Family, Request,
    config::PeerAddress,
    key_chain::Algorithm,
    log::{self, LogLevels},
    request::{HeldFilter, InNetwork, OnRepeat, Place, Reliability},
};
use tributary_content::{ByteRanges, Name, PublicKey, Reference};
use tributary_core::{Duration, Rate, units};
use tributary_terminal::arguments::{self, EXIT_CODES};
use tributary_web::Url;

use self::common::{in_network, on_repeat, parse_chunk_bytes, parse_timeout, place, reliability};
pub(crate) use self::{
    common::{Control, OnDone, Peer, Worker},
    demo::{Demo, Evil, Fail, FailKind},
    http_proxy::{HttpOptions, HttpProxy},
    network::{Admit, Network, Revoke, parse_seconds},
    web::{Target, WebOptions, WebTarget},
};

/// Fetches named, verified files from every source that has them, over every path that leads there.
#[derive(Parser, Debug)]
#[command(name = "trib", version, after_help = EXIT_CODES, max_term_width = 100)]
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

impl Cli {
    /// The log levels: problems; in a node that keeps running also changes; with `--debug` also decisions and their
    /// reasons.
    pub(crate) fn log_levels(&self) -> LogLevels {
        let level = match (self.debug, &self.command) {
            (true, _) => log::LogLevel::Debug,
            (false, Command::Node(_)) => log::LogLevel::Info,
            (false, _) => log::LogLevel::Warn,
        };
        level.into()
    }
}

/// Lines of examples below the words of their command.
const EXAMPLES: &str = include_str!("examples.txt");

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
    /// Run a small network of real daemons on this machine and fetch a file over every path
    Demo(Demo),
    /// Run a daemon until SIGTERM or Ctrl-C; SIGHUP reloads its config
    Node(Node),
    /// Publish a file or folder under a name, by a daemon or, with --config, until Ctrl-C
    ///
    /// A daemon remembers its publications over restarts, until `trib rm`; a publication with --config ends with the
    /// command.
    Put(Put),
    /// Fetch and verify a name, or a file from web servers, into a file, a folder or a pipe
    ///
    /// This process fetches a URL or a Metalink file (.meta4) from web servers without a node. Every mirror delivers
    /// another part of the file over every --interface, verified by the Metalink file's piece hashes, else by a
    /// checksum of the whole file.
    ///
    /// In the families psi and ndn, a path's round-trip time and loss are measured on its packets. In mf the round-trip
    /// time runs from the latest request to the first packet of its answer, and the loss is the share of packets that
    /// arrived after later ones of their chunk.
    Get(Box<Get>),
    /// List what the network offers under a name (families psi and mf)
    Ls(Ls),
    /// Follow a fetch of a node until it ends, such as one of `trib get --detach`; with -o, have a daemon fetch each
    /// later version of a name
    Follow(Follow),
    /// Have a daemon keep and serve the latest versions of names under their publishers' signatures
    ///
    /// The fetches are in the queue: `trib transfers` shows them, `trib cancel` ends one.
    Mirror(Mirror),
    /// Withdraw a name that the node publishes
    Rm(Named),
    /// Show what a node is doing
    Status {
        /// Show it on the whole screen, every second, until Ctrl-C
        #[arg(long)]
        watch: bool,
        #[command(flatten)]
        control: Control,
    },
    /// Show the paths over which a node fetches or has fetched a name
    Paths(Named),
    /// Explain the state of a transfer, a path, a source or a name
    Explain {
        /// A transfer of `trib status`, a path or source of `trib paths` (of the latest transfer, or TRANSFER/PATH), or a
        /// name
        id: String,
        #[command(flatten)]
        control: Control,
    },
    /// Check whether a name is reachable, by which path, and the round-trip time (family ndn)
    Ping(Ping),
    /// Show the nodes on the path to a name, up to five silent ones in a row (family ndn)
    Traceroute(Traceroute),
    /// Show a node's packet cache
    Cache(Control),
    /// Send a file, a folder or standard input to a device or a name (family mf)
    Send(Send),
    /// Receive objects for this node into a folder (family mf)
    ///
    /// An object's name gives its path below the folder. Existing files are replaced only with --on-repeat replace;
    /// links are not followed. Characters that are illegal in a file name, or would hide the file, are written as %XX,
    /// and so are `%` and `~`: /a/.b becomes a/%2Eb. A typed name component is preceded by its type's number: /a/v=7
    /// becomes a/54=%07. If a name is an object and also a prefix, the later one gets a `~` at that place:
    /// /sensors/roof, then /sensors/roof/temperature become sensors/roof and sensors/roof~/temperature.
    Recv(Recv),
    /// Start receiving messages to a name (family mf)
    Attach(Named),
    /// Stop receiving messages to a name (family mf)
    Detach(Named),
    /// Restrict who may look up a name of this node (family mf)
    Readers {
        /// The name, such as /lab/plans, published or attached to, now or later [default: the device's address]
        name: Option<Name>,
        /// GUID of a permitted device, as its `trib status` shows it, or of a group; may be repeated
        #[arg(long, value_name = "GUID", required_unless_present = "all")]
        only: Vec<String>,
        /// Permit everybody
        #[arg(long, conflicts_with = "only")]
        all: bool,
        #[command(flatten)]
        control: Control,
    },
    /// Show or change a node's groups; members receive the group's messages and have its read permissions (family mf)
    #[command(subcommand)]
    Group(Group),
    /// Show the chunks that a node stores for others, with receiver and expiry (family mf)
    #[command(args_conflicts_with_subcommands = true)]
    Store {
        #[command(subcommand)]
        command: Option<StoreCommand>,
        #[command(flatten)]
        control: Control,
    },
    /// Show or change the routes of a node, until it stops (family ndn)
    #[command(subcommand)]
    Route(Route),
    /// Show or choose a prefix's forwarding strategy, until the node stops (family ndn)
    #[command(subcommand)]
    Strategy(Strategy),
    /// Show a node's faces, or (family ndn) open and close some until it stops
    #[command(subcommand)]
    Face(Face),
    /// Diagnose problems of nodes: socket buffers, clock, MTU, ports, firewall, neighbours, resolvers
    ///
    /// Each line names the examined item, with a remedy for problems. The exit code is 3 if there is a problem, not for
    /// warnings.
    Doctor(Doctor),
    /// Show or change a node's log levels, until it reloads its config
    Log {
        /// A level (off, error, warn, info, debug), and levels of single modules: info,net=debug [default: show the current
        /// ones]
        levels: Option<LogLevels>,
        #[command(flatten)]
        control: Control,
    },
    /// Show a node's events until interrupted
    Watch(Control),
    /// Show a node's transfers and its queue, of --detach and HTTP, in order
    Transfers(Control),
    /// Cancel a transfer or a queued fetch; verified data is kept
    Cancel(Cancel),
    /// Pause a fetch of the queue; it stays paused over restarts
    Pause(Cancel),
    /// Resume a fetch that was paused or has failed, where it stopped
    Resume(Cancel),
    /// Move a fetch to the beginning or end of the queue
    Move {
        /// The fetch: its number in the queue, such as get-1, its transfer, or its name
        transfer: String,
        /// Where to
        #[arg(value_parser = place())]
        to: Place,
        #[command(flatten)]
        control: Control,
    },
    /// Limit the rate of a transfer, or of all together
    Limit {
        /// Maximum rate, such as 20Mbps, or `none`
        #[arg(value_parser = parse_limit)]
        rate: RateLimit,
        /// The transfer, such as transfer-17; `trib status` lists them [default: all together]
        #[arg(long, value_name = "TRANSFER")]
        transfer: Option<String>,
        #[command(flatten)]
        control: Control,
    },
    /// Carry HTTP through the network by a proxy at each end (family mf)
    #[command(subcommand)]
    HttpProxy(HttpProxy),
    /// Serve objects of the network to programs that speak HTTP
    Gateway(Gateway),
    /// Run the papers' experiments in virtual time with `trib-lab`
    #[command(disable_help_flag = true)]
    Lab(Delegated),
    /// Run your own scenario in virtual time with `trib-lab`
    #[command(disable_help_flag = true)]
    Sim(Delegated),
    /// Check a config file
    #[command(subcommand)]
    Config(Config),
    /// Print a node's addresses and key as one line, for `peer` and --peer of nodes that connect to it
    Invite(Invite),
    /// Create or show a node's key, or accept the new one of a neighbour
    #[command(subcommand)]
    Key(Key),
    /// Create, show and sign NDN keys and certificates (family ndn)
    #[command(subcommand)]
    NdnKey(NdnKey),
    /// Create a network's authority, admit nodes with roles and names, and revoke them
    #[command(subcommand)]
    Network(Network),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages to a folder
    Man {
        /// The folder, created if missing
        folder: PathBuf,
    },
}

/// Examines this machine and its nodes.
#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// Examine this config's node: its daemon, or else a node in this process
    #[arg(long, value_name = "FILE", conflicts_with = "control")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) control: Control,
}

/// What to do with the store.
#[derive(Subcommand, Debug)]
pub(crate) enum StoreCommand {
    /// Hold stored chunks until release or delivery, over restarts: no expiry, eviction or purge
    Hold(Held),
    /// Release held chunks: their lifetimes count again, and expired ones are dropped
    Release(Held),
    /// Extend the lifetime of chunks to at least this time from now on
    Extend {
        /// How long, such as 12h or 720h
        #[arg(value_name = "TIME", value_parser = units::parse_duration)]
        time: Duration,
        #[command(flatten)]
        held: Held,
    },
    /// Delete chunks, except held ones, and notify their senders
    Purge(Held),
}
impl StoreCommand {
    /// The control socket to ask, and the request.
    pub(crate) fn into_request(self) -> (Control, Request) {
        match self {
            StoreCommand::Hold(held) => held.ask(Request::StoreHold),
            StoreCommand::Release(held) => held.ask(Request::StoreRelease),
            StoreCommand::Extend { time, held } => {
                let keep_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
                let extend = |HeldFilter { destination, object }| Request::StoreExtend { destination, object, keep_ms };
                held.ask(extend)
            }
            StoreCommand::Purge(held) => held.ask(Request::Purge),
        }
    }
}

/// The selected chunks.
#[derive(Args, Debug)]
pub(crate) struct Held {
    /// Only for this destination: a name, or a GUID or its beginning, as `trib store` shows it
    #[arg(long, value_name = "NAME|GUID", required_unless_present_any = ["object", "all"])]
    pub(crate) to: Option<String>,
    /// Only of this object: its identifier or its beginning
    #[arg(long, value_name = "ID")]
    pub(crate) object: Option<String>,
    /// All that are stored
    #[arg(long, conflicts_with_all = ["to", "object"])]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) control: Control,
}
impl Held {
    fn ask(self, request: impl FnOnce(HeldFilter) -> Request) -> (Control, Request) {
        (self.control, request(HeldFilter { destination: self.to, object: self.object }))
    }
}

/// A command about one name.
#[derive(Args, Debug)]
pub(crate) struct Named {
    /// The name, such as /lab/images/debian.iso
    pub(crate) name: Name,
    #[command(flatten)]
    pub(crate) control: Control,
}

/// Follows a fetch.
#[derive(Args, Debug)]
pub(crate) struct Follow {
    /// The fetch: its number, such as transfer-1, or its name
    pub(crate) transfer: String,
    /// Fetch the name and its later versions to this file or folder, until `trib cancel`
    #[arg(short, long, value_name = "FILE", conflicts_with = "command")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) versions: VersionOptions,
    #[command(flatten)]
    pub(crate) hook: OnDone,
    #[command(flatten)]
    pub(crate) control: Control,
}

/// Keeps and serves the latest versions of names.
#[derive(Args, Debug)]
pub(crate) struct Mirror {
    /// The names, such as /lab/images/debian.iso, or references (trib:/…)
    #[arg(required = true)]
    pub(crate) names: Vec<Reference>,
    /// The folder for them [default: the current one]
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) versions: VersionOptions,
    #[command(flatten)]
    pub(crate) control: Control,
}

/// How the command looks for later versions.
#[derive(Args, Debug)]
pub(crate) struct VersionOptions {
    /// Interval of checks for a later version
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_timeout)]
    pub(crate) every: Duration,
    /// Accept only this publisher: its key, or a file with its NDN certificate (family ndn) [default: the first one seen
    /// for the name]
    #[arg(long, value_name = "KEY|FILE", value_parser = tributary::key_chain::publisher)]
    pub(crate) publisher: Option<String>,
}

/// What to do with groups.
#[derive(Subcommand, Debug)]
pub(crate) enum Group {
    /// Show a node's groups with their GUIDs and members
    List(Control),
    /// Add devices or groups to a group; the first members create it
    Add(Members),
    /// Remove them from it
    Remove(Members),
}

/// What to do with routes.
#[derive(Subcommand, Debug)]
pub(crate) enum Route {
    /// Show all routes
    List(Control),
    /// Add a route to all names below a prefix, or change its cost and lifetime
    Add {
        /// The names below it
        prefix: Name,
        /// The face: its number or label, as `trib face list` shows them
        face: String,
        /// Its cost; strategies prefer low costs
        #[arg(long, default_value_t = 0)]
        cost: u64,
        /// Its lifetime [default: until the node stops]
        #[arg(long = "for", value_name = "TIME", value_parser = parse_timeout)]
        lifetime: Option<Duration>,
        #[command(flatten)]
        control: Control,
    },
    /// Remove all routes of a prefix over a face
    Remove {
        /// The prefix
        prefix: Name,
        /// The face: its number or label
        face: String,
        #[command(flatten)]
        control: Control,
    },
}

/// What to do with strategies.
#[derive(Subcommand, Debug)]
pub(crate) enum Strategy {
    /// Show chosen and available strategies
    List(Control),
    /// Choose the strategy of the routes at and below a prefix
    Set {
        /// The names below it
        prefix: Name,
        /// A strategy of `trib strategy list`
        strategy: String,
        #[command(flatten)]
        control: Control,
    },
    /// Remove a choice: the next shorter prefix decides
    Unset(Named),
}

/// What to do with faces.
#[derive(Subcommand, Debug)]
pub(crate) enum Face {
    /// Show the faces with their neighbours and counters
    List(Control),
    /// Open a face to an address (family ndn)
    Create {
        /// The address, such as udp4://192.0.2.1:6363 or tcp4://192.0.2.1:6363
        uri: String,
        #[command(flatten)]
        control: Control,
    },
    /// Close a face (family ndn)
    Destroy {
        /// Its number or label
        face: String,
        #[command(flatten)]
        control: Control,
    },
}

/// Members of a group.
#[derive(Args, Debug)]
pub(crate) struct Members {
    /// Its label, such as sites
    pub(crate) label: String,
    /// GUIDs, as `trib status` and `trib group list` show them; remove without any deletes the group
    pub(crate) members: Vec<String>,
    #[command(flatten)]
    pub(crate) control: Control,
}

/// Runs a daemon.
#[derive(Args, Debug)]
pub(crate) struct Node {
    /// The node's config; `trib config check` tests it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    #[command(flatten)]
    pub(crate) peer: Peer,
    #[command(flatten)]
    pub(crate) hook: OnDone,
    /// Stop when standard input ends, so that the node does not outlive its parent
    #[arg(long)]
    pub(crate) stop_with_stdin: bool,
}

/// Publishes.
#[derive(Args, Debug)]
pub(crate) struct Put {
    /// The file or folder
    pub(crate) path: PathBuf,
    /// Its name, such as /lab/images/debian.iso
    pub(crate) name: Name,
    /// Its version; later ones have larger numbers [default: the time of its last change]
    #[arg(long = "object-version", value_name = "N")]
    pub(crate) version: Option<u64>,
    /// Seal it for this reader: a key as the reader's `trib key show` prints it, a file of keys (one a line), or the
    /// label of a [[key_group]] of the node; may be repeated. Publish again to change the readers; removed ones can
    /// still open earlier versions
    #[arg(long = "for", value_name = "READER")]
    pub(crate) readers: Vec<String>,
    /// URL of a web server with the same file, from which receivers may fetch; may be repeated. Receivers older than
    /// this option refuse such a publication
    #[arg(long = "mirror", value_name = "URL", value_parser = web::parse_web, conflicts_with = "readers")]
    pub(crate) mirrors: Vec<Url>,
    /// Publish each later change as a new version; by a daemon, also after a restart
    #[arg(long, conflicts_with_all = ["config", "version"])]
    pub(crate) watch: bool,
    /// How long to wait for the network to confirm
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_timeout)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) worker: Worker,
}

/// Fetches.
#[derive(Args, Debug)]
pub(crate) struct Get {
    /// A name, such as /lab/images/debian.iso, or a path in a folder, such as /lab/images/doc; a reference that `trib put`
    /// prints (trib:/…); a URL, or a Metalink file. Several are fetched in turn
    #[arg(value_name = "NAME|URL|FILE", required = true)]
    pub(crate) names: Vec<Target>,
    /// Where to write it; `-` is standard output. As with `cp`, a folder that exists or ends with a slash gets the object
    /// inside; a folder that it was fetched to gets its next version [default: the last part of the name]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Fetch only these bytes, in ascending order: 0-499, 500- (to the end), -500 (the last 500), or several with
    /// commas
    #[arg(long, value_name = "RANGES", allow_hyphen_values = true, conflicts_with = "detach")]
    pub(crate) range: Option<ByteRanges>,
    /// Of a folder, fetch only files that match, such as '*.csv' or 'data/**'; may be repeated
    #[arg(long, value_name = "GLOB", conflicts_with_all = ["range", "serve"])]
    pub(crate) include: Vec<String>,
    /// Of a folder, exclude files that match, despite --include; may be repeated
    #[arg(long, value_name = "GLOB", conflicts_with_all = ["range", "serve"])]
    pub(crate) exclude: Vec<String>,
    /// Replace any existing file or folder [default: only an unchanged earlier fetch of this name and publisher]
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Keep a sealed object unopened
    #[arg(long)]
    pub(crate) sealed: bool,
    /// Serve it under its publisher's signature until `trib rm`
    #[arg(long)]
    pub(crate) serve: bool,
    /// Fetch only in this family [default: any]
    #[arg(long, value_parser = common::family())]
    pub(crate) family: Option<Family>,
    /// Accept only this publisher: its key, or a file with its NDN certificate (family ndn) [default: the first one seen
    /// for the name]
    #[arg(long, value_name = "KEY|FILE", value_parser = tributary::key_chain::publisher)]
    pub(crate) publisher: Option<String>,
    /// Maximum rate, such as 20Mbps
    #[arg(long, value_name = "RATE")]
    pub(crate) limit: Option<Rate>,
    /// Wait this long for a source and for a publication of the name [default: the node's patience, 10s, for a source
    /// only]
    #[arg(long, value_name = "TIME", value_parser = parse_timeout)]
    pub(crate) timeout: Option<Duration>,
    /// Requested chunk size, such as 64KiB (family mf) [default: the node's chunk_size]
    #[arg(long, value_name = "SIZE", value_parser = parse_chunk_bytes)]
    pub(crate) chunk_size: Option<u32>,
    /// End-to-end reliability (family mf) [default: the node's]
    #[arg(long, value_name = "HOW", value_parser = reliability())]
    pub(crate) reliability: Option<Reliability>,
    /// Time without a chunk after which missing ones are reported (family mf) [default: the node's, 3s]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    pub(crate) nack_timeout: Option<Duration>,
    /// What the network may store when it cannot deliver (family mf) [default: the publisher's]
    #[arg(long, value_name = "WHAT", value_parser = in_network())]
    pub(crate) in_network: Option<InNetwork>,
    /// Order in the queue and, in the families psi and ndn, on each uplink; from -100 to 100, highest first [default:
    /// 0]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, value_parser = clap::value_parser!(i8).range(-100..=100))]
    pub(crate) priority: Option<i8>,
    /// Use only this face, by label or number, such as face-1; may be repeated (families psi and ndn)
    #[arg(long, value_name = "FACE")]
    pub(crate) only: Vec<String>,
    /// Exclude this face; may be repeated (families psi and ndn)
    #[arg(long, value_name = "FACE")]
    pub(crate) avoid: Vec<String>,
    /// Exclude the publisher's web servers
    #[arg(long)]
    pub(crate) no_mirrors: bool,
    /// Add it to the node's queue and return at once; `trib transfers` shows the queue, `trib follow` the progress
    #[arg(long, conflicts_with_all = ["config", "command"])]
    pub(crate) detach: bool,
    #[command(flatten)]
    pub(crate) hook: OnDone,
    #[command(flatten)]
    pub(crate) web: WebOptions,
    #[command(flatten)]
    pub(crate) worker: Worker,
}

/// Serves objects over HTTP.
#[derive(Args, Debug)]
pub(crate) struct Gateway {
    /// The node's config with a section [http]
    #[arg(long, value_name = "FILE", required_unless_present = "origin")]
    pub(crate) config: Option<PathBuf>,
    /// The server whose files it fetches and keeps, instead of a config: nodes of family ndn on UDP port 7001
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    pub(crate) origin: Option<String>,
    /// Fetches each file once with the other gateways of the segment: all of them, or those that are invited
    #[arg(long, value_name = "ACCESS", value_parser = ["open", "closed"])]
    pub(crate) site: Option<String>,
    #[command(flatten)]
    pub(crate) peer: Peer,
    /// Address for programs [default: 'listen' of [http], else 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<std::net::SocketAddr>,
}

/// Sends.
#[derive(Args, Debug)]
pub(crate) struct Send {
    /// The file or folder; `-` is standard input
    pub(crate) path: PathBuf,
    /// Its name, such as /sensors/roof/temperature
    pub(crate) name: Name,
    /// A name with attached devices, or the GUID of a device or group
    #[arg(long, value_name = "NAME|GUID")]
    pub(crate) to: String,
    /// Chunk size, such as 64KiB [default: the node's chunk_size]
    #[arg(long, value_name = "SIZE", value_parser = parse_chunk_bytes)]
    pub(crate) chunk_size: Option<u32>,
    /// End-to-end reliability [default: the node's]
    #[arg(long, value_name = "HOW", value_parser = reliability())]
    pub(crate) reliability: Option<Reliability>,
    /// What the network may store when it cannot deliver [default: the node's]
    #[arg(long, value_name = "WHAT", value_parser = in_network())]
    pub(crate) in_network: Option<InNetwork>,
    /// Priority in full storage; larger numbers stay longer
    #[arg(long, value_name = "0-255", default_value_t = 0)]
    pub(crate) priority: u8,
    /// How long it is kept for an absent receiver, such as 1h [default: the node's message_lifetime, 168h]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    pub(crate) lifetime: Option<Duration>,
    /// Deliver to the nearest member or attached device only
    #[arg(long)]
    pub(crate) nearest: bool,
    /// Let routers keep copies for members of a large group; a request goes to at most N of them
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "nearest")]
    pub(crate) proxies: u8,
    /// Its version; later ones have larger numbers [default: the time of its last change]
    #[arg(long = "object-version", value_name = "N")]
    pub(crate) version: Option<u64>,
    /// Wait until every receiver has it, rather than until routers keep it for absent ones
    #[arg(long)]
    pub(crate) wait: bool,
    /// How long to wait for that
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_timeout)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) worker: Worker,
}

/// Receives.
#[derive(Args, Debug)]
pub(crate) struct Recv {
    /// A name to attach to, for 168h or until `trib detach`; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) attach: Vec<Name>,
    /// The folder
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    pub(crate) output: PathBuf,
    /// Handling of a repeated name
    #[arg(long, value_name = "HOW", default_value = "number", value_parser = on_repeat())]
    pub(crate) on_repeat: OnRepeat,
    /// Accept only this publisher's key [default: the first one seen for a name]
    #[arg(long, value_name = "KEY")]
    pub(crate) publisher: Option<PublicKey>,
    #[command(flatten)]
    pub(crate) hook: OnDone,
    /// Exit after this many objects
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Time without a chunk of an object after which missing ones are reported [default: the node's, 3s]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    pub(crate) nack_timeout: Option<Duration>,
    /// Exit after this long without an object [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_timeout)]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) worker: Worker,
}

/// Lists.
#[derive(Args, Debug)]
pub(crate) struct Ls {
    /// The name to list below
    #[arg(default_value = "/")]
    pub(crate) name: Name,
    /// How long to wait for the network
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_timeout)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) worker: Worker,
}

/// Pings.
#[derive(Args, Debug)]
pub(crate) struct Ping {
    /// The name, such as /lab/images/debian.iso
    pub(crate) name: Name,
    /// Number of echo requests
    #[arg(short, long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(tributary::request::COUNT_MAX)))]
    pub(crate) count: u32,
    /// Their interval, at least 10ms
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = units::parse_duration)]
    pub(crate) interval: Duration,
    /// Wait for an answer
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_timeout)]
    pub(crate) timeout: Duration,
    /// Path of the requests: `same` (as the first answer), `any`, or a path of an earlier answer to this daemon
    #[arg(long, value_name = "PATH", default_value = "same")]
    pub(crate) path: String,
    #[command(flatten)]
    pub(crate) worker: Worker,
}

/// Traces.
#[derive(Args, Debug)]
pub(crate) struct Traceroute {
    /// The name, such as /lab/images/debian.iso
    pub(crate) name: Name,
    /// Maximum number of hops
    #[arg(long, value_name = "N", default_value_t = 30,
        value_parser = clap::value_parser!(u8).range(1..=i64::from(tributary::request::HOPS_MAX)))]
    pub(crate) max_hops: u8,
    /// Maximum number of echo requests to each
    #[arg(short, long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) count: u8,
    /// Wait for an answer
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_timeout)]
    pub(crate) timeout: Duration,
    /// Path of the requests: `same` (as a first ping), `any`, or a path of an earlier answer to this daemon
    #[arg(long, value_name = "PATH", default_value = "same")]
    pub(crate) path: String,
    #[command(flatten)]
    pub(crate) worker: Worker,
}

/// Ends, pauses or resumes a transfer.
#[derive(Args, Debug)]
pub(crate) struct Cancel {
    /// The transfer, such as transfer-17; `trib status` lists them
    pub(crate) transfer: String,
    #[command(flatten)]
    pub(crate) control: Control,
}

/// A rate or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateLimit(pub(crate) Option<Rate>);

/// Words for another program.
#[derive(Args, Debug)]
pub(crate) struct Delegated {
    /// Passed on; with --help it describes them
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<OsString>,
}

/// Commands about config files.
#[derive(Subcommand, Debug)]
pub(crate) enum Config {
    /// Check a config file and report each mistake with its line
    Check {
        /// The file
        file: PathBuf,
    },
}

/// Commands about keys.
#[derive(Subcommand, Debug)]
pub(crate) enum Key {
    /// Create a secret key and print its public half
    New {
        /// Where to write the secret key; the file must not exist
        file: PathBuf,
    },
    /// Print the public half of a secret key, for `trib get --publisher`
    Show {
        /// The file with the secret key
        file: PathBuf,
    },
    /// Accept a neighbour's new key in place of the remembered one
    Accept {
        /// The neighbour's address, as the config or --peer names it
        address: PeerAddress,
        /// Its new key
        key: PublicKey,
        /// The node that remembers keys: its config or its state folder
        node: PathBuf,
    },
}

/// Prints an invitation.
#[derive(Args, Debug)]
pub(crate) struct Invite {
    /// Where others reach the node; may be repeated [default: where it listens]
    #[arg(long = "host", value_name = "HOST[:PORT]")]
    pub(crate) hosts: Vec<String>,
    /// Time for the first contact, such as 7d; a node that has remembered the key stays [default: no end]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_seconds)]
    pub(crate) seconds: Option<u64>,
    /// Draw it as a QR code
    #[arg(long)]
    pub(crate) qr: bool,
    #[command(flatten)]
    pub(crate) control: Control,
}

/// Commands about NDN keys and certificates.
#[derive(Subcommand, Debug)]
pub(crate) enum NdnKey {
    /// Create a key of an identity and its self-signed certificate
    New {
        /// The name of the identity, such as /lab/alice
        identity: Name,
        /// ed25519 or ecdsa (P-256, which all NDN programs support)
        #[arg(long, value_name = "ALGORITHM", default_value = "ed25519", value_parser = parse_algorithm)]
        algorithm: Algorithm,
        /// Certify this file's publisher key, made by `trib key new`, so that one certificate covers manifests and
        /// packets
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
        #[command(flatten)]
        validity: Validity,
        #[command(flatten)]
        keys: Keys,
    },
    /// Show a key chain's certificates, each key's best one first
    Show {
        /// Only of this identity
        identity: Option<Name>,
        #[command(flatten)]
        keys: Keys,
    },
    /// Write an identity's best certificate, for others to trust or sign
    Export {
        /// The identity
        identity: Name,
        /// Where to write it [default: standard output]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Also write the secret key; only you can read the file
        #[arg(long, requires = "output")]
        secret: bool,
        #[command(flatten)]
        keys: Keys,
    },
    /// Import certificates and keys from a file of `trib ndn-key`, `ndnd sec` or `ndnsec cert-dump`
    Import {
        /// The file
        file: PathBuf,
        #[command(flatten)]
        keys: Keys,
    },
    /// Certify another's key: answers a request, which is a self-signed certificate
    Sign {
        /// The file with the request
        request: PathBuf,
        /// The identity that signs; the request's must be below it
        #[arg(long = "as", value_name = "IDENTITY")]
        signer: Name,
        /// The issuer in the certificate's name
        #[arg(long, value_name = "TEXT", default_value = "NA")]
        issuer: String,
        /// Where to write the certificate [default: standard output]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        validity: Validity,
        #[command(flatten)]
        keys: Keys,
    },
}

/// How long a certificate counts.
#[derive(Args, Debug)]
pub(crate) struct Validity {
    /// Validity of the certificate in days
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub(crate) days: u32,
}

/// The key chain to use.
#[derive(Args, Debug)]
pub(crate) struct Keys {
    /// The folder of the key chain [default: `tributary/ndn-keys` in the folder of states]
    #[arg(long, value_name = "DIR")]
    pub(crate) keys: Option<PathBuf>,
}

fn parse_algorithm(text: &str) -> Result<Algorithm, String> {
    match text {
        "ed25519" => Ok(Algorithm::Ed25519),
        "ecdsa" => Ok(Algorithm::Ecdsa),
        _ => Err("it is ed25519 or ecdsa".into()),
    }
}
fn parse_limit(text: &str) -> Result<RateLimit, String> {
    match text {
        "none" => Ok(RateLimit(None)),
        rate => match rate.parse::<Rate>() {
            Ok(rate) if rate.bits_per_second() > 0 => Ok(RateLimit(Some(rate))),
            Ok(_) => Err("a limit of zero lets nothing pass; `none` lifts the limit".into()),
            Err(error) => Err(format!("{error}, or `none`")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declarations_are_consistent() {
        declared().debug_assert();
    }

    #[test]
    fn config_and_control_exclude_each_other() {
        let both = ["trib", "get", "/a", "--config", "x", "--control", "y"];
        assert!(Cli::try_parse_from(both).is_err());
        assert!(Cli::try_parse_from(&both[..5]).is_ok());
    }
}
