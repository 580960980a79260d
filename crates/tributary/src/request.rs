//! Requests and their options, as plain data: made by every front and executed by a node.
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use tributary_core::Duration;
pub use tributary_transport::messaging::{CHUNK_BYTES, GetOptions, HeldFilter, InNetwork, NACK_TIMEOUT, Reliability};

use crate::{error::ApiError, preflight};

/// An operation of a node. In JSON an object with a field `op`; the names of notices below are those of their field
/// `event`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Request {
    /// Publishes a file or folder. Answered by `published`.
    Put {
        /// What to publish.
        #[serde(with = "crate::path_serde")]
        path: PathBuf,
        /// What to call it.
        name: String,
        /// Its version; `None` uses the time of its last change.
        version: Option<u64>,
        /// How long to wait for the resolver, in milliseconds.
        #[serde(default = "default_patience_ms")]
        patience_ms: u64,
        /// How long it is published.
        #[serde(default)]
        term: Term,
        /// The only readers: keys, `ed25519:…`, and labels of key groups in the node's config. Without any, everybody
        /// can read it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        readers: Vec<String>,
        /// URLs of web servers that have the same file; receivers may fetch from them too.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        mirrors: Vec<String>,
    },
    /// Fetches an object. Reported by `fetching`, `started`, `source`, …, `progress`, and finally `done`.
    Get(Get),
    /// Adds a fetch to a daemon's queue, which continues without the client, and after a restart. Answered by
    /// `fetching`; a waiting one is called `get-1` and the like, and has no transfer yet.
    Begin(Get),
    /// Follows a fetch that another client began. Reported as a `get` is.
    Follow {
        /// `transfer-1`, its number in the queue, `get-1`, or the name that it fetches.
        id: String,
    },
    /// Lists the names under a scope. Answered by an `entry` for each, then `listed`.
    List {
        /// The scope.
        scope: String,
        /// How long to wait for the resolver, in milliseconds.
        #[serde(default = "default_patience_ms")]
        patience_ms: u64,
    },
    /// Withdraws a name. Answered by `unpublished`.
    Remove {
        /// The name.
        name: String,
    },
    /// Describes what the node is doing. Answered by `status`.
    Status,
    /// Says where transfers stand, with their sources and paths, and what the queue has. Answered by a `progress` for
    /// each.
    Transfers {
        /// Only this one, such as `transfer-1` or `get-1`; `None` for all that the node remembers, oldest first,
        /// followed by queued ones without a transfer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        transfer: Option<String>,
    },
    /// Reports what happens at the node until the client goes. Reported by `happened`, and by `waiting` when nothing does.
    Watch {
        /// Time from one `progress` of a running transfer to the next, in milliseconds, from [`PROGRESS_MS_MIN`] to
        /// [`PROGRESS_MS_MAX`].
        #[serde(default = "default_progress_ms")]
        progress_ms: u64,
    },
    /// Lists the paths of the transfers of a name. Answered by a `paths` for each.
    Paths {
        /// The name.
        name: String,
    },
    /// Explains the state of a transfer, a path or a name. Answered by `explanation`.
    Explain {
        /// `transfer-1`, `path-2` (of the latest transfer), `transfer-1/path-2`, a source's name, or a name.
        id: String,
    },
    /// Measures whether a name can be reached and how long that takes. Reported by an `echo` for each request, and finally `pinged`.
    Ping(Ping),
    /// Finds the nodes on the way to a name. Reported by an `echo` for each request, and finally `traced`.
    Traceroute(Traceroute),
    /// Lists the content of the packet cache. Answered by `cache`.
    Cache,
    /// Sends an object to receivers that did not ask for it. Reported by `sending`, …, and finally `sent`.
    Send(Send),
    /// Receives objects sent to this node. Reported by `receiving`, and a `received` for each object.
    Recv(Recv),
    /// Attaches the node to a name: objects sent to the name reach it. Answered by `attached`.
    Attach {
        /// The name.
        name: String,
    },
    /// Detaches the node from a name. Answered by `attached`.
    Detach {
        /// The name.
        name: String,
    },
    /// Sets which devices may look up a name of this node; for others it does not exist. Answered by `readers`.
    Readers {
        /// The name; `None` for the address of the device itself.
        name: Option<String>,
        /// GUIDs of the devices that may; `None` for all.
        readers: Option<Vec<String>>,
    },
    /// Lists the groups that the node owns. Answered by `groups`.
    Groups,
    /// Adds devices and groups to a group that the node owns; the first ones create it. Answered by `groups`.
    GroupAdd {
        /// Its label.
        label: String,
        /// Their GUIDs.
        members: Vec<String>,
    },
    /// Removes members from a group. Answered by `groups`.
    GroupRemove {
        /// Its label.
        label: String,
        /// Their GUIDs; an empty list removes the group.
        members: Vec<String>,
    },
    /// Lists the routes of a node of the family ndn. Answered by `routes`.
    Routes,
    /// Adds a route until the node stops, or changes its cost and lifetime. Answered by `routes`, with the prefix's
    /// routes.
    RouteAdd {
        /// The names below it.
        prefix: String,
        /// The face that leads there: its number, such as `face-3`, or its label in the config.
        face: String,
        /// Its cost compared with other routes.
        #[serde(default)]
        cost: u64,
        /// For how long, in milliseconds; `None` for as long as the node runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lifetime_ms: Option<u64>,
    },
    /// Removes the routes of a prefix over a face, of any origin. Answered by `routes`, with the prefix's remaining
    /// routes.
    RouteRemove {
        /// The names below it.
        prefix: String,
        /// The face: its number, such as `face-3`, or its label in the config.
        face: String,
    },
    /// Lists the strategies that are chosen for prefixes, and those that can be chosen. Answered by `strategies`.
    Strategies,
    /// Chooses the strategy of the routes at and below a prefix until the node stops. Answered by `strategies`.
    SetStrategy {
        /// The names below it.
        prefix: String,
        /// The strategy; `None` takes a choice back.
        strategy: Option<String>,
    },
    /// Opens a face to an address until the node stops. Answered by `face-changed`.
    FaceOpen {
        /// The address, such as `udp4://192.0.2.1:6363` or `tcp4://192.0.2.1:6363`.
        uri: String,
    },
    /// Closes a face until the node stops. Answered by `face-changed`.
    FaceClose {
        /// The face: its number, such as `face-3`, or its label in the config.
        face: String,
    },
    /// Lists the chunks that the node stores for others, for whom and until when. Answered by `store`.
    Store,
    /// Drops chunks that the node stores for others, except those on hold, and notifies their senders. Answered by
    /// `store`, with the remaining ones.
    Purge(HeldFilter),
    /// Puts chunks that the node stores for others on hold: they are kept until they are released or with their receiver, also
    /// over restarts. Answered by `store`.
    StoreHold(HeldFilter),
    /// Takes them off hold: their lifetimes count again, and those that are over end at once. Answered by `store`.
    StoreRelease(HeldFilter),
    /// Keeps chunks that the node stores for others for some time from now on at least, whatever their senders wanted, also
    /// over restarts; it shortens nothing. Answered by `store`.
    StoreExtend {
        /// Only those for this destination: a name, or the beginning of a GUID; `None` for all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        destination: Option<String>,
        /// Only chunks of this object, by the start of its identifier; `None` for all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        object: Option<String>,
        /// How long, a second to ten years.
        keep_ms: u64,
    },
    /// Tells how much the node logs. Answered by `log`.
    Log,
    /// Changes how much it logs, until it reads its config again. Answered by `log`.
    SetLog {
        /// A level, `off`, `error`, `warn`, `info` or `debug`, and levels of single modules: `info,net=debug`.
        levels: String,
    },
    /// Ends a transfer and takes it out of the queue; its verified chunks are kept. Answered by `cancelled`.
    Cancel {
        /// The transfer, or its number in the queue, `get-1`.
        transfer: String,
    },
    /// Ends a fetch of the queue, so that it can be resumed, also after a restart. Answered by `cancelled`.
    Pause {
        /// The transfer, or its number in the queue, `get-1`.
        transfer: String,
    },
    /// Resumes a paused or failed fetch where it stopped, in its turn. A paused one stays the same transfer. Answered
    /// by `fetching`.
    Resume {
        /// The transfer, or its number in the queue, `get-1`.
        transfer: String,
    },
    /// Moves a fetch in the queue. Running fetches continue. Answered by `fetching`.
    Move {
        /// The transfer, or its number in the queue, `get-1`.
        transfer: String,
        /// Where to.
        to: Place,
    },
    /// Limits the rate of a transfer, or of all together. Answered by `limited`.
    Limit {
        /// The transfer; `None` for all together.
        transfer: Option<String>,
        /// The rate; `None` for no limit.
        bits_per_second: Option<u64>,
    },
    /// Cuts or mends the emulated link of a face, for demos and tests. Answered by `note`.
    Link {
        /// The face, such as `face-1`.
        face: String,
        /// Whether packets pass.
        up: bool,
    },
}

impl Request {
    /// Checks the disk before the request reaches a node: its source must exist, and its target must be writable.
    ///
    /// # Errors
    /// [`ApiError`] of the disk.
    pub fn check_disk(&self) -> Result<(), ApiError> {
        match self {
            Request::Put { path, .. }
            | Request::Send(Send { path, .. })
            | Request::Get(Get { output: Output::Path(path), .. })
            | Request::Begin(Get { output: Output::Path(path), .. })
                if path.as_os_str().is_empty() =>
            {
                Err(ApiError::usage("the path is empty"))
            }
            Request::Put { path, .. } | Request::Send(Send { path, .. }) => preflight::must_be_there(path),
            Request::Get(Get { output: Output::Path(path), name, .. })
            | Request::Begin(Get { output: Output::Path(path), name, .. }) => preflight::must_take(path, name),
            _ => Ok(()),
        }
    }
    /// How long it waits for the network, in milliseconds, for callers that have waited already and subtract that. A fetch
    /// that leaves it to the node's config gets `of_fetches`. `None` if the request has no limit, or one for each answer.
    pub fn patience_ms(&mut self, of_fetches: Duration) -> Option<&mut u64> {
        match self {
            Request::Put { patience_ms, .. }
            | Request::List { patience_ms, .. }
            | Request::Send(Send { patience_ms, .. }) => Some(patience_ms),
            Request::Get(Get { patience_ms, .. }) => {
                let of_fetches = || u64::try_from(of_fetches.as_millis()).unwrap_or(u64::MAX);
                Some(patience_ms.get_or_insert_with(of_fetches))
            }
            _ => None,
        }
    }
}

/// A place in the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// Before all others.
    First,
    /// Behind all others.
    Last,
}

/// How long something is published.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Term {
    /// Until it is removed: the node publishes it again after a restart.
    #[default]
    UntilRemoved,
    /// The same, and again as a later version whenever the file or folder has changed.
    Watched,
    /// Until the node stops. A publication of the name that is remembered from before stays remembered.
    ThisRun,
}

/// A fetch to carry out.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Get {
    /// What to fetch: a name, or a reference such as `trib:/lab/image?publisher=KEY`.
    pub name: String,
    /// Where to.
    pub output: Output,
    /// The publisher's key, `ed25519:…`; `None` trusts the first key ever seen for the name.
    pub publisher: Option<String>,
    /// The object's id, the hash of its bytes: only these are accepted, whoever signs them; `None` accepts any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The rate not to exceed.
    pub limit_bits_per_second: Option<u64>,
    /// How long to go without any source before giving up, in milliseconds; `None` takes the node's config.
    pub patience_ms: Option<u64>,
    /// Choices that only some families leave to the receiver; nodes of other families refuse them.
    #[serde(default)]
    pub options: GetOptions,
    /// What may be replaced at the place where it is to go.
    #[serde(default)]
    pub overwrite: Overwrite,
    /// The treatment of an object that is sealed for readers.
    #[serde(default)]
    pub sealed: Sealed,
    /// Ranges of bytes, as in HTTP: `0-499,1000-,-200`. Only their chunks are fetched, and only their bytes are written,
    /// in ascending order, to a stream. `None` fetches all.
    pub ranges: Option<String>,
    /// The part of a folder that is wanted. A part is not served to others.
    #[serde(default, skip_serializing_if = "FolderPart::is_all")]
    pub part: FolderPart,
    /// Whether the node serves the fetched object to others from then on, as its publisher signed it.
    #[serde(default)]
    pub serve: bool,
    /// Web servers that have the object too.
    #[serde(default, skip_serializing_if = "WebMirrors::is_empty")]
    pub web: WebMirrors,
    /// Whether web servers that the publisher names are left alone, whatever the node's config says.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_mirrors: bool,
    /// Which paths it may use (families psi and ndn), and which fetches come first.
    #[serde(default, skip_serializing_if = "PathWishes::is_default")]
    pub paths: PathWishes,
    /// For the queue: how long after its end it is fetched again, in milliseconds, to follow its publisher; `None` ends with
    /// one version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_ms: Option<u64>,
    /// Fetch only a version above this. Without one, the fetch succeeds without fetching anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newer_than: Option<u64>,
}

impl Get {
    /// A fetch of `name` to `output`, with the defaults for all else.
    pub fn new(name: impl Into<String>, output: Output) -> Get {
        Get { name: name.into(), output, ..Get::default() }
    }
}

/// The wanted part of a folder, whose chunks alone are fetched. Patterns are lines as in `.gitignore`: one without a
/// slash matches at any depth, and a pattern that matches a folder matches everything in it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FolderPart {
    /// The path of a folder or file in the object; `None` for all of it. A name without an object is tried as such a
    /// path below the names above it.
    pub below: Option<String>,
    /// Wanted files, such as `*.csv` or `data/**`; empty for everything.
    pub include: Vec<String>,
    /// Exceptions from them.
    pub exclude: Vec<String>,
}
impl FolderPart {
    /// Whether it is all of a folder.
    pub fn is_all(&self) -> bool {
        *self == FolderPart::default()
    }
}

/// Which paths a fetch may use, and which fetches come first.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathWishes {
    /// Fetches of higher priority come first in the queue and, in the families psi and ndn, on each face.
    pub priority: i8,
    /// The only faces to use, by label or number; empty for all.
    pub only: Vec<String>,
    /// Faces not to use.
    pub avoid: Vec<String>,
}
impl PathWishes {
    /// Whether nothing is wished.
    pub fn is_default(&self) -> bool {
        *self == PathWishes::default()
    }
}

/// Web servers that deliver chunks of a fetch, in addition to the network's sources.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebMirrors {
    /// Their URLs of the object's file.
    pub urls: Vec<String>,
    /// Network devices and local addresses to connect over; each mirror gets a connection over each of them.
    #[serde(default)]
    pub interfaces: Vec<String>,
    /// Files with certificates to trust, in addition to the system's.
    #[serde(default)]
    pub ca_certificates: Vec<PathBuf>,
    /// A file of cookies, in the format of Netscape.
    pub cookies: Option<PathBuf>,
    /// A file of passwords by host.
    pub netrc: Option<PathBuf>,
}
impl WebMirrors {
    /// Whether there are no addresses.
    pub fn is_empty(&self) -> bool {
        self.urls.is_empty()
    }
}

/// What a fetch does with an object that is sealed for readers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sealed {
    /// Opens it with the node's key, which must be a reader's.
    #[default]
    Open,
    /// Keeps the sealed bytes, as a mirror that need not read them.
    Keep,
}

/// Which files a fetch may replace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overwrite {
    /// An earlier version that this node fetched to the same place under the same name from the same publisher, if
    /// unchanged since.
    #[default]
    EarlierFetch,
    /// Any file or folder.
    Anything,
}

/// The destination of a fetched object.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Output {
    /// To this file or folder; an interrupted fetch is resumed next to it. Into it, by the last part of the name, if it ends
    /// with a slash, or is a folder that the same object was not fetched to. A relative path starts where the node runs.
    Path(#[serde(with = "crate::path_serde")] PathBuf),
    /// In order to the stream of [`Api::ask`](crate::Api::ask).
    #[default]
    Stream,
}

/// Minimum interval of [`Request::Watch`]'s progress reports, in milliseconds.
pub const PROGRESS_MS_MIN: u64 = 100;
/// Maximum interval: a disconnected client is noticed then.
pub const PROGRESS_MS_MAX: u64 = 60_000;

fn default_progress_ms() -> u64 {
    1_000
}

/// How long to wait for the resolver by default.
pub const PATIENCE_MS_DEFAULT: u64 = 10_000;

fn default_patience_ms() -> u64 {
    PATIENCE_MS_DEFAULT
}

/// An object to send to receivers that did not ask for it. `None` leaves a choice to the node's config.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Send {
    /// The file or folder. A small file is read at once and may be gone afterwards.
    #[serde(with = "crate::path_serde")]
    pub path: PathBuf,
    /// What to call it.
    pub name: String,
    /// Its receivers: a name that devices are attached to, or the GUID of a device or group in hex.
    pub to: String,
    /// Its version; `None` takes the time of the file's last change.
    pub version: Option<u64>,
    /// Bytes of a chunk.
    pub chunk_bytes: Option<u32>,
    /// End-to-end reliability.
    pub reliability: Option<Reliability>,
    /// The storage that routers may provide.
    pub in_network: Option<InNetwork>,
    /// Where storage is short, larger values are kept longer.
    #[serde(default)]
    pub priority: u8,
    /// How long routers may store it, in milliseconds.
    pub lifetime_ms: Option<u64>,
    /// Whether it goes to the nearest attached device only, instead of to all.
    #[serde(default)]
    pub nearest: bool,
    /// How many routers on the way a member of a group may request missing chunks from, one after the other; they keep
    /// copies for that. With 0 the sender answers all requests.
    #[serde(default)]
    pub proxies: u8,
    /// Whether to wait until every receiver has it, rather than until it is stored for absent ones.
    #[serde(default)]
    pub wait: bool,
    /// Whether the node ends with the command, so that what only this node keeps is not on its way.
    #[serde(default)]
    pub leaves: bool,
    /// How long to wait for that, in milliseconds; a daemon continues on its own afterwards.
    pub patience_ms: u64,
}

/// Receives objects sent to this node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recv {
    /// Names to attach to: objects sent to them reach this node, and are kept for it while it is away.
    #[serde(default)]
    pub attach: Vec<String>,
    /// The folder that objects are written into, each under its name. A relative path starts where the node runs.
    #[serde(with = "crate::path_serde")]
    pub folder: PathBuf,
    /// The only publisher's key to trust; `None` trusts the first one ever seen for a name.
    pub publisher: Option<String>,
    /// How many objects to take; `None` for no limit.
    pub count: Option<u64>,
    /// How long the receiver waits for the next packet of an object before it reports missing chunks, in milliseconds.
    pub nack_timeout_ms: Option<u64>,
    /// How long to wait for the next object, in milliseconds; `None` waits for ever.
    pub patience_ms: Option<u64>,
    /// What happens to several objects of one name.
    #[serde(default)]
    pub on_repeat: OnRepeat,
}

/// The treatment of an object whose name was received before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnRepeat {
    /// All are kept: the second one of `/sensors/roof` becomes `sensors/roof~2`.
    #[default]
    Number,
    /// It replaces an earlier one of the same publisher, unless that was changed since.
    Replace,
    /// Its bytes are added to the file as a line. Folders and objects above 1 MiB are numbered.
    Append,
}

/// Maximum requests of one `ping`.
pub const COUNT_MAX: u32 = 1_000_000;
/// The shortest time between two requests, in milliseconds: nodes answer a hundred a second.
pub const INTERVAL_MS_MIN: u64 = 10;
/// The longest timeout of a request, in milliseconds.
pub const TIMEOUT_MS_MAX: u64 = 60_000;
/// Maximum neighbours probed by a `traceroute`.
pub const HOPS_MAX: u8 = 64;

/// Measures whether a name can be reached.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ping {
    /// The name to reach.
    pub name: String,
    /// How many requests, up to [`COUNT_MAX`].
    pub count: u32,
    /// Time from one request to the next in milliseconds, from [`INTERVAL_MS_MIN`] on.
    pub interval_ms: u64,
    /// How long an answer may take in milliseconds, up to [`TIMEOUT_MS_MAX`].
    pub timeout_ms: u64,
    /// The path that requests take.
    #[serde(default)]
    pub path: EchoPath,
}

/// Finds the nodes on the way to a name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traceroute {
    /// The name to reach.
    pub name: String,
    /// How far to look, up to [`HOPS_MAX`] neighbours.
    pub hops_max: u8,
    /// Requests per neighbour until one is answered.
    pub tries: u8,
    /// How long an answer may take in milliseconds, up to [`TIMEOUT_MS_MAX`].
    pub timeout_ms: u64,
    /// The path that requests take.
    #[serde(default)]
    pub path: EchoPath,
}

/// The path that echo requests take.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EchoPath {
    /// The path of the first answer. RFC 9508 §3.
    #[default]
    Same,
    /// The one that the network chooses for each request.
    Any,
    /// This path, as an answer named it.
    Given(String),
}
