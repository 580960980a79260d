//! The log: lines on stderr, at a level that a daemon may change while it runs.
use std::{io::IsTerminal, sync::OnceLock};
use tracing::{Level, level_filters::LevelFilter};
use tracing_subscriber::{Registry, fmt, layer::SubscriberExt, reload, util::SubscriberInitExt};

use crate::{args, out};

static HANDLE: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// The level that the arguments select: problems; for a node that keeps running also changes; with `--debug` also
/// decisions and their reasons.
pub(crate) fn of(cli: &args::Cli) -> Level {
    match (cli.debug, &cli.command) {
        (true, _) => Level::DEBUG,
        (false, args::Command::Node(_)) => Level::INFO,
        (false, _) => Level::WARN,
    }
}
/// Starts the log.
pub(crate) fn start(level: Level) {
    let (filter, handle) = reload::Layer::new(LevelFilter::from_level(level));
    let is_terminal = std::io::stderr().is_terminal();
    let lines = fmt::layer().with_writer(|| out::Log).with_ansi(is_terminal).with_target(false);
    tracing_subscriber::registry().with(filter).with(lines).init();
    // The program starts its log once.
    let _ = HANDLE.set(handle);
}
/// Logs as much as that from now on.
pub(crate) fn set(level: Level) {
    if let Some(Err(error)) = HANDLE.get().map(|handle| handle.reload(LevelFilter::from_level(level))) {
        tracing::warn!(%error, "the log stays as it is");
    }
}
