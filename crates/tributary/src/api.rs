//! The one interface that every front end uses, in the same process or over the control socket.
//!
//! An operation is a [`Request`]; what comes of it is a series of [`Told`]. [`LocalApi`](crate::LocalApi) carries
//! requests out, [`SocketApi`](crate::SocketApi) sends them to a daemon, and a front cannot tell which it has.
use serde::{Deserialize, Serialize};
use std::{io::Write, path::PathBuf};
use tributary_core::Duration;

use crate::{
    echo::{Ping, Traceroute},
    error::ApiError,
    files,
    messages::{GetOptions, Recv, Send},
    told::Told,
};

/// Carries out requests.
pub trait Api {
    /// Carries out `request` and tells what comes of it, the answer last.
    ///
    /// `stream` is where the bytes of a [`Get`] with [`Output::Stream`] go, in order; `None` for everything else.
    /// `tell` is called at least every [`PROGRESS_INTERVAL`](crate::told::PROGRESS_INTERVAL) or so during a `Get`, and
    /// ends the operation by giving [`Flow::Stop`]; a fetch is cancelled then, and what it verified is kept.
    ///
    /// # Errors
    /// [`ApiError`] says what failed, on what, why, and what to try.
    fn ask(
        &self,
        request: Request,
        stream: Option<Box<dyn Write + std::marker::Send>>,
        tell: &mut dyn FnMut(Told) -> Flow,
    ) -> Result<(), ApiError>;

    /// Carries out a request whose answer is one object or a few, and gives them all.
    ///
    /// # Errors
    /// Those of [`Api::ask`].
    fn answers(&self, request: Request) -> Result<Vec<Told>, ApiError> {
        let mut answers = Vec::new();
        self.ask(request, None, &mut |told| {
            answers.push(told);
            Flow::Continue
        })?;
        Ok(answers)
    }
}

/// Whether an operation goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// It does.
    Continue,
    /// It ends as soon as possible.
    Stop,
}

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
    /// Fetches an object. Told by `fetching`, `started`, `source`, …, `progress`, and `done` at last.
    Get(Get),
    /// The same by a daemon, which goes on when whoever asked has gone. Answered by `fetching`.
    Begin(Get),
    /// How a fetch goes on that somebody began. Told as a `get` is.
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
    /// Whether a name can be reached, and how long that takes. Told by `echo` for each request, and `pinged` at last.
    Ping(Ping),
    /// Who is on the way to a name. Told by `echo` for each request, and `traced` at last.
    Traceroute(Traceroute),
    /// What is in the packet cache. Answered by `cache`.
    Cache,
    /// Sends an object to somebody who did not ask. Told by `sending`, …, and `sent` at last.
    Send(Send),
    /// Takes what is sent to this node. Told by `receiving`, and `received` for each object.
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
            Request::Put { path, .. } | Request::Send(Send { path, .. }) => files::must_be_there(path),
            Request::Get(Get { output: Output::Path(path), .. })
            | Request::Begin(Get { output: Output::Path(path), .. }) => files::must_be_writable(path),
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
    /// In order to the stream of [`Api::ask`].
    Stream,
}

/// How long to wait for the resolver if nobody says.
pub const PATIENCE_MS_DEFAULT: u64 = 10_000;

fn default_patience_ms() -> u64 {
    PATIENCE_MS_DEFAULT
}
