//! Requests and their options, as plain data: what every front makes and what a node carries out.
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use tributary_core::Duration;
use tributary_transport::messaging::{Delivery, GetOptions as Wanted, InNetwork};

use crate::{error::ApiError, preflight};

/// An operation. In JSON an object with a field `op`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Request {
    /// Publishes a file or folder. Answered by `published`.
    Put {
        /// What to publish.
        #[serde(with = "crate::any_path")]
        path: PathBuf,
        /// What to call it.
        name: String,
        /// Its version; `None` takes the time of its last change.
        #[serde(default)]
        version: Option<u64>,
        /// How long to wait for the resolver, in milliseconds.
        #[serde(default = "default_patience_ms")]
        patience_ms: u64,
        /// How long it is published.
        #[serde(default)]
        term: Term,
    },
    /// Fetches an object. Notice by `fetching`, `started`, `source`, …, `progress`, and `done` at last.
    Get(Get),
    /// The same by a daemon, which goes on when whoever asked has gone. Answered by `fetching`.
    Begin(Get),
    /// How a fetch goes on that somebody began. Notice as a `get` is.
    Follow {
        /// `transfer-1`, or the name that it fetches.
        id: String,
    },
    /// Lists what there is under a scope. Answered by `entry` for each, then `listed`.
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
    /// What the node is doing. Answered by `status`.
    Status,
    /// The paths of the transfers of a name. Answered by `paths` for each.
    Paths {
        /// The name.
        name: String,
    },
    /// Why a transfer, a path or a name is as it is. Answered by `explanation`.
    Explain {
        /// `transfer-1`, `path-2` (of the latest transfer), `transfer-1/path-2`, a source's name, or a name.
        id: String,
    },
    /// Whether a name can be reached, and how long that takes. Notice by `echo` for each request, and `pinged` at last.
    Ping(Ping),
    /// Who is on the way to a name. Notice by `echo` for each request, and `traced` at last.
    Traceroute(Traceroute),
    /// What is in the packet cache. Answered by `cache`.
    Cache,
    /// Sends an object to somebody who did not ask. Notice by `sending`, …, and `sent` at last.
    Send(Send),
    /// Takes what is sent to this node. Notice by `receiving`, and `received` for each object.
    Recv(Recv),
    /// From now on what is sent to a name reaches this node too. Answered by `attached`.
    Attach {
        /// The name.
        name: String,
    },
    /// Ends that. Answered by `attached`.
    Detach {
        /// The name.
        name: String,
    },
    /// Who may look up a name of this node: for all others it is as if there were none. Answered by `readers`.
    Readers {
        /// The name; `None` is the device itself: where it is.
        name: Option<String>,
        /// The devices that may, by their GUIDs; `None` is everybody.
        readers: Option<Vec<String>>,
    },
    /// The groups that the node owns. Answered by `groups`.
    Groups,
    /// Devices and groups belong to a group that the node owns, which begins with its first members. Answered by `groups`.
    GroupAdd {
        /// Its label.
        label: String,
        /// Their GUIDs.
        members: Vec<String>,
    },
    /// They do not any more. Answered by `groups`.
    GroupRemove {
        /// Its label.
        label: String,
        /// Their GUIDs; if none is named, the group ends.
        members: Vec<String>,
    },
    /// What the node stores for others, for whom and until when. Answered by `store`.
    Store,
    /// Ends a transfer; what it verified is kept. Answered by `cancelled`.
    Cancel {
        /// The transfer.
        transfer: String,
    },
    /// Limits a transfer, or all together. Answered by `limited`.
    Limit {
        /// The transfer; `None` for all together.
        #[serde(default)]
        transfer: Option<String>,
        /// The rate; `None` for no limit.
        #[serde(default)]
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
    /// Finds out before any node is asked that what is to be read is not there, or that nothing can be written where it is
    /// to go.
    ///
    /// # Errors
    /// [`ApiError`] of the disk.
    pub fn check_disk(&self) -> Result<(), ApiError> {
        match self {
            Request::Put { path, .. } | Request::Send(Send { path, .. }) => preflight::must_be_there(path),
            Request::Get(Get { output: Output::Path(path), .. })
            | Request::Begin(Get { output: Output::Path(path), .. }) => preflight::must_be_writable(path),
            _ => Ok(()),
        }
    }
    /// How long it waits for the network, in milliseconds, so that who waited before can take that away; `of_fetches` for a
    /// fetch that leaves it to the node's config. `None` if it waits as long as it takes, or for each of its answers.
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

/// How long something is published.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Term {
    /// Until it is removed: a node that is started again publishes it again.
    #[default]
    UntilRemoved,
    /// As long as this run of the node lasts. An earlier publication of the name that is remembered stays remembered.
    ThisRun,
}

/// A fetch to carry out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Get {
    /// What to fetch.
    pub name: String,
    /// Where to.
    pub output: Output,
    /// The publisher's key, `ed25519:…`; `None` believes the first key that was ever seen for the name.
    #[serde(default)]
    pub publisher: Option<String>,
    /// The rate not to exceed.
    #[serde(default)]
    pub limit_bits_per_second: Option<u64>,
    /// How long to go without any source before giving up, in milliseconds; `None` takes the node's config.
    #[serde(default)]
    pub patience_ms: Option<u64>,
    /// What only some families leave to who fetches; others refuse it.
    #[serde(default)]
    pub options: GetOptions,
    /// What may be replaced at the place where it is to go.
    #[serde(default)]
    pub overwrite: Overwrite,
}

/// What of a person's files a fetch may replace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overwrite {
    /// An earlier version that this node fetched to the same place under the same name from the same publisher, unless
    /// somebody has changed it since.
    #[default]
    EarlierFetch,
    /// Whatever is there.
    Anything,
}

/// Where a fetched object goes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Output {
    /// To this file or folder; an interrupted fetch is resumed beside it. A relative path starts where the node runs.
    Path(#[serde(with = "crate::any_path")] PathBuf),
    /// In order to the stream of [`Api::ask`](crate::Api::ask).
    Stream,
}

/// How long to wait for the resolver if nobody says.
pub const PATIENCE_MS_DEFAULT: u64 = 10_000;

fn default_patience_ms() -> u64 {
    PATIENCE_MS_DEFAULT
}

/// Something to send to somebody who did not ask for it. `None` leaves a choice to the node's config.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Send {
    /// The file or folder. A small file is read at once and may be gone afterwards.
    #[serde(with = "crate::any_path")]
    pub path: PathBuf,
    /// What to call it.
    pub name: String,
    /// To whom: a name that devices are attached to, or the GUID of a device or group in hex.
    pub to: String,
    /// Its version; `None` takes the time of the file's last change.
    #[serde(default)]
    pub version: Option<u64>,
    /// Bytes of a chunk.
    #[serde(default)]
    pub chunk_bytes: Option<u32>,
    /// How sure it has to be, end to end.
    #[serde(default)]
    pub reliability: Option<Reliability>,
    /// What the network may keep of it.
    #[serde(default)]
    pub in_network: Option<Keep>,
    /// Larger is more important where storage is short.
    #[serde(default)]
    pub priority: u8,
    /// How long it is worth keeping, in milliseconds.
    #[serde(default)]
    pub lifetime_ms: Option<u64>,
    /// To the nearest one that is attached to the name, not to all.
    #[serde(default)]
    pub nearest: bool,
    /// Routers keep copies and answer for what members of a group miss; a request asks at most so many of them. 0 lets
    /// the sender answer all.
    #[serde(default)]
    pub proxies: u8,
    /// How long to wait for the end, in milliseconds; afterwards a daemon goes on by itself.
    pub patience_ms: u64,
}

/// How sure a delivery has to be, end to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reliability {
    /// Sent and forgotten.
    DontCare,
    /// The receiver tells what is missing.
    Nack,
    /// The receiver tells what has arrived.
    Ack,
}

/// What the network may keep of what cannot be delivered now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// Everything.
    Store,
    /// Everything, and the first router a copy, to answer for the sender, which may sleep then.
    Delegate,
    /// Nothing.
    Nothing,
}

impl From<Reliability> for Delivery {
    fn from(reliability: Reliability) -> Self {
        match reliability {
            Reliability::DontCare => Delivery::DontCare,
            Reliability::Nack => Delivery::Nack,
            Reliability::Ack => Delivery::Ack,
        }
    }
}
impl From<Keep> for InNetwork {
    fn from(keep: Keep) -> Self {
        match keep {
            Keep::Store => InNetwork::Store,
            Keep::Delegate => InNetwork::Delegate,
            Keep::Nothing => InNetwork::Forbid,
        }
    }
}

/// How an object is fetched, by families that have the choice. `None` leaves it to the node's config.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetOptions {
    /// Bytes of a chunk that is asked for.
    #[serde(default)]
    pub chunk_bytes: Option<u32>,
    /// How sure it has to be, end to end.
    #[serde(default)]
    pub reliability: Option<Reliability>,
    /// How long nothing may come before it is said what is missing, in milliseconds.
    #[serde(default)]
    pub nack_timeout_ms: Option<u64>,
    /// What the network may keep of it while it cannot be delivered.
    #[serde(default)]
    pub in_network: Option<Keep>,
}
impl GetOptions {
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted {
            chunk_bytes: self.chunk_bytes,
            delivery: self.reliability.map(Delivery::from),
            nack_timeout: self.nack_timeout_ms.map(Duration::from_millis),
            in_network: self.in_network.map(InNetwork::from),
        }
    }
}

/// Takes what is sent to this node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recv {
    /// Names to attach to while it runs: what is sent to them reaches this node.
    #[serde(default)]
    pub attach: Vec<String>,
    /// The folder that objects are written into, each under its name. A relative path starts where the node runs.
    #[serde(with = "crate::any_path")]
    pub folder: PathBuf,
    /// The only publisher's key to believe; `None` believes the first one ever seen for a name.
    #[serde(default)]
    pub publisher: Option<String>,
    /// Ends after so many objects; `None` goes on until it is ended.
    #[serde(default)]
    pub count: Option<u64>,
    /// How long nothing may come of an object before it is said what is missing, in milliseconds.
    #[serde(default)]
    pub nack_timeout_ms: Option<u64>,
    /// Ends after so long without an object, in milliseconds; `None` waits for ever.
    #[serde(default)]
    pub patience_ms: Option<u64>,
    /// What becomes of several objects of one name.
    #[serde(default)]
    pub on_repeat: OnRepeat,
}

/// What becomes of an object whose name another one had that was received before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnRepeat {
    /// All are kept: the second one of `/sensors/roof` becomes `sensors/roof~2`.
    #[default]
    Number,
    /// It takes the place of an earlier one from the same publisher, unless somebody has changed that since.
    Replace,
    /// Its bytes are added to the file as a line. Folders and what has more than 1 MiB are numbered.
    Append,
}

/// Requests of one `ping` at most.
pub const COUNT_MAX: u32 = 1_000_000;
/// Time between two requests at least, in milliseconds: nodes answer a hundred a second.
pub const INTERVAL_MS_MIN: u64 = 10;
/// How long an answer may take at most, in milliseconds.
pub const TIMEOUT_MS_MAX: u64 = 60_000;
/// Neighbours that a `traceroute` asks at most.
pub const HOPS_MAX: u8 = 64;

/// Whether a name can be reached.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ping {
    /// What is to be reached.
    pub name: String,
    /// How many requests, up to [`COUNT_MAX`].
    pub count: u32,
    /// Time from one request to the next in milliseconds, from [`INTERVAL_MS_MIN`] on.
    pub interval_ms: u64,
    /// How long an answer may take in milliseconds, up to [`TIMEOUT_MS_MAX`].
    pub timeout_ms: u64,
    /// Which way they take.
    #[serde(default)]
    pub path: EchoPath,
}

/// Who is on the way to a name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traceroute {
    /// What is to be reached.
    pub name: String,
    /// How far to look, up to [`HOPS_MAX`] neighbours.
    pub hops_max: u8,
    /// Requests per neighbour until one is answered.
    pub tries: u8,
    /// How long an answer may take in milliseconds, up to [`TIMEOUT_MS_MAX`].
    pub timeout_ms: u64,
    /// Which way they take.
    #[serde(default)]
    pub path: EchoPath,
}

/// Which way echo requests take.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EchoPath {
    /// That of the first answer. RFC 9508 §3.
    #[default]
    Same,
    /// Each the one that the network chooses for it.
    Any,
    /// This one, as an answer named it.
    Given(String),
}
