//! What several commands take: which node does the work, and times.
use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use std::path::PathBuf;
use tributary::{
    Family,
    request::{CHUNK_BYTES, InNetwork, OnRepeat, Place, Reliability},
};
use tributary_core::{ByteCount, Duration, units};

/// Parses a family, so that shells complete its name.
pub(super) fn family() -> impl TypedValueParser<Value = Family> {
    PossibleValuesParser::new(Family::ALL.map(|(word, _)| word))
        .map(|word| word.parse::<Family>().expect("it is one of the possible values"))
}

/// The daemon to ask.
#[derive(Args, Debug)]
pub(crate) struct Control {
    /// Daemon to ask [default: $TRIB_CONTROL, else any suitable]
    #[arg(long, value_name = "LABEL|SOCKET")]
    pub(crate) control: Option<PathBuf>,
}

/// Which node does the work.
#[derive(Args, Debug)]
pub(crate) struct Worker {
    /// Run a node with this config instead of asking a daemon
    #[arg(long, value_name = "FILE", conflicts_with = "control")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) peer: Peer,
    #[command(flatten)]
    pub(crate) control: Control,
}

/// A command to run when an object is complete.
#[derive(Args, Debug, Default)]
pub(crate) struct OnDone {
    /// Run this with `sh` for each completed object, with TRIB_NAME, TRIB_OUTPUT and TRIB_BYTES set
    #[arg(long = "on-done", value_name = "COMMAND")]
    pub(crate) command: Option<String>,
}

/// A neighbour in place of the config's.
#[derive(Args, Debug, Default)]
pub(crate) struct Peer {
    /// Replaces the config's neighbour [default: $TRIB_PEER]
    #[arg(long, value_name = "INVITATION|HOST[:PORT]", requires = "config")]
    pub(crate) peer: Option<String>,
}

impl Peer {
    /// What the arguments name, else the environment.
    pub(crate) fn named(&self) -> Option<String> {
        let variable = || std::env::var("TRIB_PEER").ok().filter(|text| !text.is_empty());
        self.peer.clone().or_else(variable)
    }
}

/// From a millisecond on, as requests count them.
pub(super) fn parse_timeout(text: &str) -> Result<Duration, String> {
    match units::parse_duration(text) {
        Ok(time) if time >= Duration::from_millis(1) => Ok(time),
        Ok(_) => Err("nothing can come in less than 1ms".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// One of `all` by its name, with a line of help for each.
pub(super) fn one_of<T: Clone + Copy + Send + Sync + 'static, const N: usize>(
    all: [(&'static str, T); N],
    help: [&'static str; N],
) -> impl TypedValueParser<Value = T> {
    let names = all.iter().zip(help).map(|((name, _), help)| PossibleValue::new(*name).help(help));
    PossibleValuesParser::new(names.collect::<Vec<_>>()).try_map(move |text| {
        let found = all.iter().find(|(name, _)| *name == text);
        found.map(|(_, value)| *value).ok_or("not one of the possible values")
    })
}
pub(super) fn reliability() -> impl TypedValueParser<Value = Reliability> {
    let help = ["Send once and forget", "The receiver reports missing chunks", "The receiver reports arrived chunks"];
    one_of(Reliability::ALL, help)
}
pub(super) fn on_repeat() -> impl TypedValueParser<Value = OnRepeat> {
    let all = [("number", OnRepeat::Number), ("replace", OnRepeat::Replace), ("append", OnRepeat::Append)];
    let help = [
        "Keep all: the second one of /sensors/roof is written to sensors/roof~2",
        "Replace the publisher's earlier one, unless you have changed it",
        "Append it as a line; folders and objects above 1 MiB are numbered",
    ];
    one_of(all, help)
}
pub(super) fn place() -> impl TypedValueParser<Value = Place> {
    one_of([("first", Place::First), ("last", Place::Last)], ["Before all others", "Behind all others"])
}
pub(super) fn in_network() -> impl TypedValueParser<Value = InNetwork> {
    let help = [
        "Routers store undeliverable chunks",
        "The first router answers for this node, which may sleep",
        "Routers drop undeliverable chunks",
    ];
    one_of(InNetwork::ALL, help)
}

/// A size in [`CHUNK_BYTES`].
pub(super) fn parse_chunk_bytes(text: &str) -> Result<u32, String> {
    let ByteCount(bytes) = text.parse().map_err(|error: units::UnitError| error.to_string())?;
    let inside = u32::try_from(bytes).ok().filter(|bytes| CHUNK_BYTES.contains(bytes));
    let size = |bytes: &u32| ByteCount(u64::from(*bytes));
    let range = || format!("a chunk has from {} to {}", size(CHUNK_BYTES.start()), size(CHUNK_BYTES.end()));
    inside.ok_or_else(range)
}
