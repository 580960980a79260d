//! The log: lines on stderr, at a level that a daemon may change while it runs.
use std::{io::IsTerminal, sync::OnceLock};
use tracing::{Level, level_filters::LevelFilter};
use tracing_subscriber::{
    Registry,
    field::MakeExt,
    fmt::{
        self,
        format::{self, FormatFields},
    },
    layer::SubscriberExt,
    reload,
    util::SubscriberInitExt,
};
use tributary_core::printable;

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
    let lines = fmt::layer().with_writer(|| out::Log).with_ansi(is_terminal).with_target(false).fmt_fields(fields());
    tracing_subscriber::registry().with(filter).with(lines).init();
    // The program starts its log once.
    let _ = HANDLE.set(handle);
}
/// How a line shows its message and its fields. Both quote what peers said of themselves: nothing of it begins a line or moves
/// the cursor.
fn fields() -> impl for<'writer> FormatFields<'writer> + 'static {
    format::debug_fn(|writer, field, value| {
        let text = format!("{value:?}");
        let text = printable::escape(&text);
        match field.name() {
            "message" => write!(writer, "{text}"),
            name => write!(writer, "{name}={text}"),
        }
    })
    .delimited(" ")
}
/// Logs as much as that from now on.
pub(crate) fn set(level: Level) {
    if let Some(Err(error)) = HANDLE.get().map(|handle| handle.reload(LevelFilter::from_level(level))) {
        tracing::warn!(%error, "the log stays as it is");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{self, Write},
        sync::{Arc, Mutex},
    };

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);
    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("nobody panics").extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_a_peer_is_called_begins_no_line_of_the_log() {
        let kept = Kept::default();
        let writer = kept.clone();
        let lines = fmt::layer().with_writer(move || writer.clone()).with_ansi(false).fmt_fields(fields());
        let label = "attic\u{1b}[2J\n2026-11-26T00:00:00Z  INFO all is well\u{202e}";
        tracing::subscriber::with_default(Registry::default().with(lines), || {
            tracing::info!(peer = %label, "{label} is there");
        });
        let text = String::from_utf8(kept.0.lock().expect("nobody panics").clone()).expect("it is text");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(!text.trim_end().contains(printable::is_unsafe), "{text}");
        assert!(text.contains("attic\\u{1b}[2J\\n2026") && text.contains("peer=attic"), "{text}");
    }
}
