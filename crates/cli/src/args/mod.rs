//! Every flag, declared once: help, manual pages and completions come from here.
mod common;
mod demo;
mod examples;
mod http_proxy;
mod network;
pub(crate) mod web;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use std::{ffi::OsString, path::PathBuf};
use tributary::{
    Family, Request,
    key_chain::Algorithm,
    log::{self, LogLevels},
    request::{InNetwork, Place, Reliability},
};
use tributary_content::{ByteRanges, Name, PublicKey};
use tributary_core::{Duration, Rate, units};
use tributary_terminal::arguments::{self, EXIT_CODES};
use tributary_web::Url;

use self::common::{in_network, parse_chunk_bytes, parse_timeout, place, reliability};
pub(crate) use self::{
    common::{Control, OnDone, Peer, Worker},
    demo::{Demo, Evil, Fail, FailKind},
    http_proxy::{HttpOptions, HttpProxy, LogFormat},
    network::{Admit, Network, Revoke},
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
    /// What is logged: problems; by a node that keeps running also changes; with `--debug` also decisions and their reasons.
    pub(crate) fn log_levels(&self) -> LogLevels {
        let level = match (self.debug, &self.command) {
            (true, _) => log::LogLevel::Debug,
            (false, Command::Node(_)) => log::LogLevel::Info,
            (false, _) => log::LogLevel::Warn,
        };
        level.into()
    }
}

/// All declarations, with examples and the exit codes at the end of every command's help.
pub(crate) fn declared() -> clap::Command {
    arguments::with_examples(Cli::command(), examples::EXAMPLES)
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
    /// Run one daemon until SIGTERM or Ctrl-C; SIGHUP makes it read its config again
    Node(Node),
    /// Publish a file or folder under a name: by a daemon from now on, or with --config until Ctrl-C
    ///
    /// A daemon remembers its publications over restarts, until `trib rm`. A publication of put with --config ends
    /// with the command: a node that is started later with the same config does not publish it.
    Put(Put),
    /// Fetch a name, verify it, and write it to a file, a folder or a pipe; or a file from web servers
    ///
    /// A URL or a Metalink file (.meta4) is fetched from web servers alone, by this process: no node takes part. Every
    /// mirror delivers another part of the file, over every --interface. Chunks are verified by the hashes of pieces if
    /// the Metalink file has them, else the whole file by its checksum if there is one.
    ///
    /// Each path is shown with its round-trip time and loss. In the families psi and ndn they are those of the
    /// packets requested over it. In mf a receiver requests chunks, not packets: the round-trip time runs from the
    /// latest request to the first packet of its answer, and the loss is the share of packets that arrived after
    /// later ones of their chunk, because they were lost on the last hop, or on an earlier one whose router forwards
    /// chunks while they arrive.
    Get(Box<Get>),
    /// List what the network offers under a name (families psi and mf)
    Ls(Ls),
    /// Follow a fetch of a node until it ends, such as one begun with `trib get --detach`; with -o, have a daemon fetch a
    /// name again whenever there is a later version
    Follow(Follow),
    /// Have a daemon keep and serve the latest versions of names, as their publishers signed them
    ///
    /// The fetches are in the queue: `trib transfers` shows them, `trib cancel` ends one.
    Mirror(Mirror),
    /// Withdraw a name that the node publishes
    Rm(Named),
    /// Show what a node is doing
    Status(Status),
    /// Show the paths over which a node fetches or has fetched a name
    Paths(Named),
    /// Explain the state of a transfer, a path, a source or a name
    Explain(Explain),
    /// Check whether a name can be reached, by which path, and how long that takes (family ndn)
    Ping(Ping),
    /// Show the nodes on the way to a name, up to five silent ones in a row (family ndn)
    Traceroute(Traceroute),
    /// Show what is in a node's packet cache
    Cache(Query),
    /// Send a file, a folder or standard input to a device, or to all that are attached to a name (family mf)
    Send(Send),
    /// Receive what is sent to this node and write it to a folder (family mf)
    ///
    /// The name of an object gives its path below the folder. Existing files are not replaced, except with
    /// --on-repeat replace; links in the folder are not followed. Characters that a file name cannot have, or that
    /// would hide the file, are written as %XX, and so are `%` and `~`: /a/.b becomes a/%2Eb. A name component that
    /// is not generic is preceded by the number of its type: /a/v=7 becomes a/54=%07. If a name is both an object and
    /// the beginning of other names, the later one gets a `~` at that place: /sensors/roof, then
    /// /sensors/roof/temperature become sensors/roof and sensors/roof~/temperature.
    Recv(Recv),
    /// Receive what is sent to a name from now on (family mf)
    Attach(Named),
    /// Stop receiving what is sent to a name (family mf)
    Detach(Named),
    /// Restrict who may look up a name of this node; for all others the name does not exist (family mf)
    Readers(Readers),
    /// Show or change the groups that a node owns; members get what is sent to the group, and may look up what it may
    /// read (family mf)
    #[command(subcommand)]
    Group(Group),
    /// Show what a node stores for others, for whom and until when (family mf)
    Store(Store),
    /// Show or change the routes of a node, until it stops (family ndn)
    #[command(subcommand)]
    Route(Route),
    /// Show or choose how a node picks among the routes to a prefix, until it stops (family ndn)
    #[command(subcommand)]
    Strategy(Strategy),
    /// Show the faces of a node, or (family ndn) open and close some until it stops
    #[command(subcommand)]
    Face(Face),
    /// Find out what keeps nodes from working: socket buffers, clock, MTU, ports, firewall, neighbours, resolvers
    ///
    /// Each line says what was examined, and what to do where something is wrong. The exit code is 3 if there is a
    /// problem; warnings are none.
    Doctor(Doctor),
    /// Show how much a node logs, or change it until the node reads its config again
    Log(LogLevel),
    /// Show what happens at a node, until interrupted
    Watch(Query),
    /// Show the transfers of a node and its queue: what was begun with --detach or over HTTP, in order
    Transfers(Query),
    /// Cancel a transfer, or take a fetch out of the queue; verified data is kept
    Cancel(Cancel),
    /// Pause a fetch of the queue; it stays paused over restarts
    Pause(Cancel),
    /// Resume a fetch that was paused or has failed, where it stopped
    Resume(Cancel),
    /// Move a fetch to the beginning or end of the queue
    Move(Move),
    /// Limit the rate of a transfer, or of all together
    Limit(Limit),
    /// Carry HTTP through the network, with a proxy at each end (family mf)
    #[command(subcommand)]
    HttpProxy(HttpProxy),
    /// Serve objects of the network to programs that speak HTTP
    Gateway(Gateway),
    /// Run the papers' experiments in virtual time and compare their figures with ours; `trib-lab` does it
    #[command(disable_help_flag = true)]
    Lab(Delegated),
    /// Run your own scenario in virtual time: any topology, workload, faults and family; `trib-lab` does it
    #[command(disable_help_flag = true)]
    Sim(Delegated),
    /// Check a config file
    #[command(subcommand)]
    Config(Config),
    /// Make or show a publisher's key
    #[command(subcommand)]
    Key(Key),
    /// Make and show NDN keys and certificates, and sign those of others (family ndn)
    #[command(subcommand)]
    NdnKey(NdnKey),
    /// Make the authority of a network, admit nodes to it with roles and names, and revoke them
    #[command(subcommand)]
    Network(Network),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Write the manual pages to a folder
    Man(Man),
}

/// A command that sends one request to a daemon.
#[derive(Args, Debug)]
pub(crate) struct Query {
    #[command(flatten)]
    pub(crate) control: Control,
}

/// Shows what a node does.
#[derive(Args, Debug)]
pub(crate) struct Status {
    /// Show it on the whole screen, drawn anew every second, until Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) control: Control,
}

/// Examines this machine and its nodes.
#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// Examine the node of this config: the daemon that runs it, or else a node in this process
    #[arg(long, value_name = "FILE", conflicts_with = "control")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) control: Control,
}

/// Shows what a node stores, and changes how long.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Store {
    #[command(subcommand)]
    pub(crate) command: Option<StoreCommand>,
    #[command(flatten)]
    pub(crate) control: Control,
}

/// What to do with the store.
#[derive(Subcommand, Debug)]
pub(crate) enum StoreCommand {
    /// Keep chunks that are here now until they are released or with their receiver, also over restarts: they do not
    /// expire, make no room for others, and are not purged
    Hold(Held),
    /// Take chunks off hold: their lifetimes count again, and those that are over end at once
    Release(Held),
    /// Keep chunks for some time from now on at least, whatever their senders wanted; it shortens nothing
    Extend {
        /// How long, such as 12h or 720h
        #[arg(value_name = "TIME", value_parser = units::parse_duration)]
        time: Duration,
        #[command(flatten)]
        held: Held,
    },
    /// Forget chunks for good, but for those on hold; their senders hear that nobody keeps them any more
    Purge(Held),
}
impl StoreCommand {
    /// Which node is asked, and what.
    pub(crate) fn into_request(self) -> (Control, Request) {
        match self {
            StoreCommand::Hold(held) => held.ask(|destination, object| Request::StoreHold { destination, object }),
            StoreCommand::Release(held) => {
                held.ask(|destination, object| Request::StoreRelease { destination, object })
            }
            StoreCommand::Extend { time, held } => {
                let keep_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
                held.ask(|destination, object| Request::StoreExtend { destination, object, keep_ms })
            }
            StoreCommand::Purge(held) => held.ask(|destination, object| Request::Purge { destination, object }),
        }
    }
}

/// Which stored chunks are meant.
#[derive(Args, Debug)]
pub(crate) struct Held {
    /// Those for this destination: a name, or a GUID or its beginning, as `trib store` shows it
    #[arg(long, value_name = "NAME|GUID", required_unless_present_any = ["object", "all"])]
    pub(crate) to: Option<String>,
    /// Those of this object: its identifier or its beginning
    #[arg(long, value_name = "ID")]
    pub(crate) object: Option<String>,
    /// All of them
    #[arg(long, conflicts_with_all = ["to", "object"])]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) control: Control,
}
impl Held {
    fn ask(self, request: impl FnOnce(Option<String>, Option<String>) -> Request) -> (Control, Request) {
        (self.control, request(self.to, self.object))
    }
}

/// Shows or changes how much a node logs.
#[derive(Args, Debug)]
pub(crate) struct LogLevel {
    /// A level (off, error, warn, info, debug), and levels of single modules: info,net=debug [default: show what is in force]
    pub(crate) levels: Option<LogLevels>,
    #[command(flatten)]
    pub(crate) control: Control,
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
    /// The fetch: its number, such as transfer-1, or the name that it fetches
    pub(crate) transfer: String,
    /// Fetch the name to this file or folder, and again whenever there is a later version, until `trib cancel`
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
    /// The names, such as /lab/images/debian.iso
    #[arg(required = true)]
    pub(crate) names: Vec<Name>,
    /// The folder for them [default: the present one]
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) versions: VersionOptions,
    #[command(flatten)]
    pub(crate) control: Control,
}

/// How later versions are looked for.
#[derive(Args, Debug)]
pub(crate) struct VersionOptions {
    /// How long to wait before looking for a later version again
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_timeout)]
    pub(crate) every: Duration,
    /// Accept only this publisher: its key, or a file with its NDN certificate (family ndn) [default: the first one seen
    /// for the name]
    #[arg(long, value_name = "KEY|FILE", value_parser = tributary::key_chain::publisher)]
    pub(crate) publisher: Option<String>,
}

/// Moves a fetch in the queue.
#[derive(Args, Debug)]
pub(crate) struct Move {
    /// The fetch: its number in the queue, such as get-1, its transfer, or its name
    pub(crate) transfer: String,
    /// Where to
    #[arg(value_parser = place())]
    pub(crate) to: Place,
    #[command(flatten)]
    pub(crate) control: Control,
}

/// Limits who may look up a name.
#[derive(Args, Debug)]
pub(crate) struct Readers {
    /// The name, such as /lab/plans, published or attached to, now or later [default: the device itself: where it is]
    pub(crate) name: Option<Name>,
    /// GUID of a device that may, as `trib status` shows it there, or of a group; may be repeated
    #[arg(long, value_name = "GUID", required_unless_present = "all")]
    pub(crate) only: Vec<String>,
    /// Everybody may
    #[arg(long, conflicts_with = "only")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) control: Control,
}

/// What to do with groups.
#[derive(Subcommand, Debug)]
pub(crate) enum Group {
    /// Show the groups that a node owns, with their GUIDs and members
    List(Query),
    /// Add devices or groups to a group; the first members create it
    Add(Members),
    /// Remove them from it
    Remove(Members),
}

/// What to do with routes.
#[derive(Subcommand, Debug)]
pub(crate) enum Route {
    /// Show all routes
    List(Query),
    /// Add a route to all names below a prefix, or change its cost and lifetime
    Add(AddRoute),
    /// Remove the routes of a prefix over a face, whoever made them
    Remove(RemoveRoute),
}

/// Adds a route.
#[derive(Args, Debug)]
pub(crate) struct AddRoute {
    /// The names below it
    pub(crate) prefix: Name,
    /// The face that leads there: its number or label, as `trib face list` shows them
    pub(crate) face: String,
    /// What it costs beside other routes; strategies prefer little
    #[arg(long, default_value_t = 0)]
    pub(crate) cost: u64,
    /// How long it lives [default: as long as the node runs]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_timeout)]
    pub(crate) lifetime: Option<Duration>,
    #[command(flatten)]
    pub(crate) control: Control,
}

/// Removes a route.
#[derive(Args, Debug)]
pub(crate) struct RemoveRoute {
    /// The prefix
    pub(crate) prefix: Name,
    /// The face: its number or label
    pub(crate) face: String,
    #[command(flatten)]
    pub(crate) control: Control,
}

/// What to do with strategies.
#[derive(Subcommand, Debug)]
pub(crate) enum Strategy {
    /// Show what is chosen, and what can be
    List(Query),
    /// Choose the strategy of the routes at and below a prefix
    Set(SetStrategy),
    /// Take a choice back: the next shorter prefix decides
    Unset(Named),
}

/// Chooses a strategy.
#[derive(Args, Debug)]
pub(crate) struct SetStrategy {
    /// The names below it
    pub(crate) prefix: Name,
    /// The strategy, one of those that `trib strategy list` shows
    pub(crate) strategy: String,
    #[command(flatten)]
    pub(crate) control: Control,
}

/// What to do with faces.
#[derive(Subcommand, Debug)]
pub(crate) enum Face {
    /// Show the faces with their neighbours and counters
    List(Query),
    /// Open a face to an address (family ndn)
    Create(CreateFace),
    /// Close a face (family ndn)
    Destroy(DestroyFace),
}

/// Opens a face.
#[derive(Args, Debug)]
pub(crate) struct CreateFace {
    /// The address, such as udp4://192.0.2.1:6363 or tcp4://192.0.2.1:6363
    pub(crate) uri: String,
    #[command(flatten)]
    pub(crate) control: Control,
}

/// Closes a face.
#[derive(Args, Debug)]
pub(crate) struct DestroyFace {
    /// Its number or label
    pub(crate) face: String,
    #[command(flatten)]
    pub(crate) control: Control,
}

/// Members of a group.
#[derive(Args, Debug)]
pub(crate) struct Members {
    /// Its label, such as sites
    pub(crate) label: String,
    /// Their GUIDs, as `trib status` and `trib group list` show them; remove without any deletes the group
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
    /// What to call it, such as /lab/images/debian.iso
    pub(crate) name: Name,
    /// Its version; later ones have larger numbers [default: the time of its last change]
    #[arg(long = "object-version", value_name = "N")]
    pub(crate) version: Option<u64>,
    /// Seal it so that only this reader can open it: a key as `trib key show` prints it there, a file of such keys (one a
    /// line), or the label of a [[key_group]] of the node; may be repeated. Publish again with other readers to change them:
    /// who is left out cannot open what is published from then on, but still what was before
    #[arg(long = "for", value_name = "READER")]
    pub(crate) readers: Vec<String>,
    /// A web server that has the same file, by its URL; receivers fetch from it too, unless they choose not to; may be given
    /// several times. Receivers older than this option refuse a publication with mirrors
    #[arg(long = "mirror", value_name = "URL", value_parser = web::parse_web, conflicts_with = "readers")]
    pub(crate) mirrors: Vec<Url>,
    /// Publish it again, as a later version, whenever the file or folder has changed and is left alone for a moment; by a
    /// daemon, also after a restart
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
    /// The name, such as /lab/images/debian.iso, or a path in a folder, such as /lab/images/doc; or a URL, or a Metalink file. Several names are fetched one after the other
    #[arg(value_name = "NAME|URL|FILE", required = true)]
    pub(crate) names: Vec<Target>,
    /// Where to write it; `-` is standard output, in order; with a slash at its end, and of several names, the folder
    /// [default: the last part of the name]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Fetch only these bytes, as in HTTP: 0-499, 500- (to the end), -500 (the last 500), or several with commas; they are
    /// written in ascending order
    #[arg(long, value_name = "RANGES", allow_hyphen_values = true, conflicts_with = "detach")]
    pub(crate) range: Option<ByteRanges>,
    /// Of a folder, fetch only what matches this pattern, such as '*.csv' or 'data/**'; may be given several times
    #[arg(long, value_name = "GLOB", conflicts_with_all = ["range", "serve"])]
    pub(crate) include: Vec<String>,
    /// Of a folder, leave out what matches this pattern, even if it matches --include; may be given several times
    #[arg(long, value_name = "GLOB", conflicts_with_all = ["range", "serve"])]
    pub(crate) exclude: Vec<String>,
    /// Replace any existing file or folder [default: only an earlier version that this node fetched there under this
    /// name from this publisher, unless it was changed since]
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Keep an object that is sealed for readers as it is, without opening it
    #[arg(long)]
    pub(crate) sealed: bool,
    /// Serve it to others from then on, as its publisher signed it, until `trib rm`
    #[arg(long)]
    pub(crate) serve: bool,
    /// Fetch only if the node's family is this one [default: any]
    #[arg(long, value_parser = common::family())]
    pub(crate) family: Option<Family>,
    /// Accept only this publisher: its key, or a file with its NDN certificate (family ndn) [default: the first one seen
    /// for the name]
    #[arg(long, value_name = "KEY|FILE", value_parser = tributary::key_chain::publisher)]
    pub(crate) publisher: Option<String>,
    /// Maximum rate, such as 20Mbps
    #[arg(long, value_name = "RATE")]
    pub(crate) limit: Option<Rate>,
    /// Wait this long for a source, and for somebody to publish the name [default: the node's patience, 10s, but not for a
    /// publication]
    #[arg(long, value_name = "TIME", value_parser = parse_timeout)]
    pub(crate) timeout: Option<Duration>,
    /// Bytes of a chunk to request, such as 64KiB (family mf) [default: the node's chunk_size]
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
    /// Fetches of higher priority come first in the queue and, in the families psi and ndn, on each uplink; from -100 to 100
    /// [default: 0]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, value_parser = clap::value_parser!(i8).range(-100..=100))]
    pub(crate) priority: Option<i8>,
    /// Use this face only, by label or number, such as face-1; may be given several times (families psi and ndn)
    #[arg(long, value_name = "FACE")]
    pub(crate) only: Vec<String>,
    /// Do not use this face; may be given several times (families psi and ndn)
    #[arg(long, value_name = "FACE")]
    pub(crate) avoid: Vec<String>,
    /// Leave alone the web servers that the publisher names
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
    /// The node's config; its section [http] holds all settings
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    #[command(flatten)]
    pub(crate) peer: Peer,
    /// Where programs connect to [default: 'listen' of [http], else 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<std::net::SocketAddr>,
}

/// Sends.
#[derive(Args, Debug)]
pub(crate) struct Send {
    /// The file or folder; `-` is standard input
    pub(crate) path: PathBuf,
    /// What to call it, such as /sensors/roof/temperature
    pub(crate) name: Name,
    /// A name that devices are attached to, or the GUID of a device or group
    #[arg(long, value_name = "NAME|GUID")]
    pub(crate) to: String,
    /// Bytes of a chunk, such as 64KiB [default: the node's chunk_size]
    #[arg(long, value_name = "SIZE", value_parser = parse_chunk_bytes)]
    pub(crate) chunk_size: Option<u32>,
    /// End-to-end reliability [default: the node's]
    #[arg(long, value_name = "HOW", value_parser = reliability())]
    pub(crate) reliability: Option<Reliability>,
    /// What the network may store when it cannot deliver [default: the node's]
    #[arg(long, value_name = "WHAT", value_parser = in_network())]
    pub(crate) in_network: Option<InNetwork>,
    /// Priority where storage is short; larger numbers stay longer
    #[arg(long, value_name = "0-255", default_value_t = 0)]
    pub(crate) priority: u8,
    /// How long routers may store it, such as 1h [default: the routers']
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    pub(crate) lifetime: Option<Duration>,
    /// Deliver to the nearest device that is attached to the name, not to all
    #[arg(long)]
    pub(crate) nearest: bool,
    /// Let routers keep copies and serve what members of a large group miss; a request goes to at most N of them
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "nearest")]
    pub(crate) proxies: u8,
    /// Its version; later ones have larger numbers [default: the time of its last change]
    #[arg(long = "object-version", value_name = "N")]
    pub(crate) version: Option<u64>,
    /// How long to wait for delivery
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_timeout)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) worker: Worker,
}

/// What becomes of several objects of one name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum OnRepeat {
    /// Keep all: the second one of /sensors/roof is written to sensors/roof~2
    Number,
    /// Replace the earlier one of the same publisher, unless you have changed it
    Replace,
    /// Append its bytes to the file as a line; folders and objects above 1 MiB are numbered
    Append,
}

/// Receives.
#[derive(Args, Debug)]
pub(crate) struct Recv {
    /// A name to attach to, to receive what is sent to it; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) attach: Vec<Name>,
    /// The folder to write into, each object under its name
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    pub(crate) output: PathBuf,
    /// What to do with an object whose name was received before
    #[arg(long, value_name = "HOW", default_value = "number")]
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
    /// How many echo requests to send
    #[arg(short, long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(tributary::request::COUNT_MAX)))]
    pub(crate) count: u32,
    /// Time from one to the next, at least 10ms
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = units::parse_duration)]
    pub(crate) interval: Duration,
    /// How long an answer may take
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_timeout)]
    pub(crate) timeout: Duration,
    /// Path of the requests: `same` (that of the first answer), `any` (each its own), or a path from an earlier
    /// answer to the same daemon
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
    /// How many neighbours to ask at most
    #[arg(long, value_name = "N", default_value_t = 30,
        value_parser = clap::value_parser!(u8).range(1..=i64::from(tributary::request::HOPS_MAX)))]
    pub(crate) max_hops: u8,
    /// How many echo requests to send to each until one is answered
    #[arg(short, long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) count: u8,
    /// How long an answer may take
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_timeout)]
    pub(crate) timeout: Duration,
    /// Path of the requests: `same` (that of a first ping), `any` (each its own), or a path from an earlier answer to
    /// the same daemon
    #[arg(long, value_name = "PATH", default_value = "same")]
    pub(crate) path: String,
    #[command(flatten)]
    pub(crate) worker: Worker,
}

/// Explains.
#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// A transfer as `trib status` shows it, one of its paths or sources as `trib paths` does (of the latest transfer, or
    /// TRANSFER/PATH), or a name
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) control: Control,
}

/// Ends, pauses or resumes a transfer.
#[derive(Args, Debug)]
pub(crate) struct Cancel {
    /// The transfer, such as transfer-17; `trib status` lists them
    pub(crate) transfer: String,
    #[command(flatten)]
    pub(crate) control: Control,
}

/// Limits transfers.
#[derive(Args, Debug)]
pub(crate) struct Limit {
    /// Maximum rate, such as 20Mbps, or `none`
    #[arg(value_parser = parse_limit)]
    pub(crate) rate: RateLimit,
    /// The transfer, such as transfer-17; `trib status` lists them [default: all together]
    #[arg(long, value_name = "TRANSFER")]
    pub(crate) transfer: Option<String>,
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
    /// Make a new secret key and print its public half
    New {
        /// Where to write the secret key; the file must not exist
        file: PathBuf,
    },
    /// Print the public half of a secret key, for `trib get --publisher`
    Show {
        /// The file with the secret key
        file: PathBuf,
    },
}

/// Commands about NDN keys and certificates.
#[derive(Subcommand, Debug)]
pub(crate) enum NdnKey {
    /// Make a key of an identity, and a certificate that it signs itself
    New {
        /// The name of the identity, such as /lab/alice
        identity: Name,
        /// What the key signs with: ed25519 or ecdsa (P-256, which all NDN programs know)
        #[arg(long, value_name = "ALGORITHM", default_value = "ed25519", value_parser = parse_algorithm)]
        algorithm: Algorithm,
        /// Certify the publisher's key in this file, which `trib key new` made; then one certificate vouches for
        /// manifests and for packets
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
        #[command(flatten)]
        validity: Validity,
        #[command(flatten)]
        keys: Keys,
    },
    /// Show the certificates of a key chain, the best one of each key first
    Show {
        /// Only those of this identity
        identity: Option<Name>,
        #[command(flatten)]
        keys: Keys,
    },
    /// Write the best certificate of an identity, for others to trust or to sign
    Export {
        /// The identity
        identity: Name,
        /// Where to write it [default: standard output]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Write the secret key too; the file is readable by you alone
        #[arg(long, requires = "output")]
        secret: bool,
        #[command(flatten)]
        keys: Keys,
    },
    /// Keep certificates and keys out of a file that `trib ndn-key`, `ndnd sec` or `ndnsec cert-dump` wrote
    Import {
        /// The file
        file: PathBuf,
        #[command(flatten)]
        keys: Keys,
    },
    /// Certify another's key: the answer to a request, which is a certificate that the key has signed itself
    Sign {
        /// The file with the request
        request: PathBuf,
        /// The identity that signs; the request's must be below it
        #[arg(long = "as", value_name = "IDENTITY")]
        signer: Name,
        /// The issuer that is written into the certificate's name
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
    /// For how many days the certificate counts
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

/// Prints completions.
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Writes manual pages.
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// The folder, which is made if it is not there
    pub(crate) folder: PathBuf,
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
