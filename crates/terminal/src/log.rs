//! The log: lines on stderr, for people or as JSON, at levels that a daemon may change while it runs.
use std::{
    io::{self, IsTerminal},
    os::unix::fs::MetadataExt,
};
use tracing::{Event, Level, Subscriber, level_filters::LevelFilter};
use tracing_subscriber::{
    field::MakeExt,
    filter::Targets,
    fmt::{
        self, FmtContext, FormatEvent,
        format::{self, Format, FormatFields, Full, Json, Writer},
    },
    layer::SubscriberExt,
    registry::LookupSpan,
    reload,
    util::SubscriberInitExt,
};
use tributary::{
    config::LogFormat,
    log::{LogLevel, LogLevels},
};
use tributary_core::printable;

use crate::out;

/// `text` or `json`: the form of lines until a config sets it.
const FORMAT_VARIABLE: &str = "TRIB_LOG_FORMAT";

/// Starts the log.
pub fn start(levels: LogLevels) {
    set_format(None);
    let (filter, handle) = reload::Layer::new(targets(&levels));
    let stderr = io::stderr();
    let lines = fmt::layer()
        .with_writer(|| out::Log)
        .with_ansi(stderr.is_terminal() && out::has_colour())
        .fmt_fields(fields())
        .event_format(Lines::new(writes_journal()));
    tracing_subscriber::registry().with(filter).with(lines).init();
    tributary::log::install(levels, move |levels| {
        if let Err(error) = handle.reload(targets(levels)) {
            tracing::warn!(%error, "the log stays as it is");
        }
    });
}
/// How lines look from now on; `None` leaves that to the environment.
pub fn set_format(format: Option<LogFormat>) {
    let variable = std::env::var(FORMAT_VARIABLE).ok();
    let of_variable = LogFormat::ALL.into_iter().find(|(word, _)| Some(*word) == variable.as_deref());
    let format = format.or(of_variable.map(|(_, format)| format)).unwrap_or_default();
    out::set_json(format == LogFormat::Json);
}
fn targets(levels: &LogLevels) -> Targets {
    // Lines of libraries by the crate `log` are for debugging: that a stroke of a drawing has no length is no problem
    // of the person who drew it.
    let of_libraries = match levels.all {
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error | LogLevel::Warn | LogLevel::Info => LevelFilter::ERROR,
    };
    let all = Targets::new().with_default(filter(levels.all)).with_target("log", of_libraries);
    levels.targets().fold(all, |targets, (target, level)| targets.with_target(target, filter(level)))
}
fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    }
}

/// Whether stderr is the journal of systemd, which adds the time itself and reads priorities (systemd.exec(5),
/// `JOURNAL_STREAM`).
fn writes_journal() -> bool {
    let stream = std::env::var("JOURNAL_STREAM").ok();
    let stderr = std::fs::metadata("/proc/self/fd/2").ok();
    stream.zip(stderr).is_some_and(|(stream, stderr)| stream == format!("{}:{}", stderr.dev(), stderr.ino()))
}

/// How a line looks: for people, for the journal, or as JSON.
struct Lines {
    is_journal: bool,
    text: Format<Full>,
    journal: Format<Full, ()>,
    json: Format<Json>,
}
impl Lines {
    fn new(is_journal: bool) -> Lines {
        let text = || format::format().with_target(false);
        Lines {
            is_journal,
            text: text(),
            journal: text().with_level(false).with_ansi(false).without_time(),
            json: format::format().json().flatten_event(true).with_current_span(false).with_span_list(false),
        }
    }
}
impl<S: Subscriber + for<'a> LookupSpan<'a>, N: for<'a> FormatFields<'a> + 'static> FormatEvent<S, N> for Lines {
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        if out::is_json() {
            let mut line = String::new();
            self.json.format_event(context, Writer::new(&mut line), event)?;
            return writer.write_str(&printable::escape_json(line));
        }
        if self.is_journal {
            write!(writer, "<{}>", priority(*event.metadata().level()))?;
            return self.journal.format_event(context, writer, event);
        }
        self.text.format_event(context, writer, event)
    }
}
/// The priority of syslog (sd-daemon(3)).
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

/// How a line shows its message and its fields. Both quote peers' own statements: these cannot start a line or move the
/// cursor.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::Write,
        sync::{Arc, Mutex},
    };
    use tracing_subscriber::Registry;

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

    /// What `log` writes.
    fn written(levels: &str, is_journal: bool, log: impl FnOnce()) -> String {
        let kept = Kept::default();
        let writer = kept.clone();
        let lines = fmt::layer()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .fmt_fields(fields())
            .event_format(Lines::new(is_journal));
        let levels = targets(&levels.parse().expect("levels"));
        tracing::subscriber::with_default(Registry::default().with(levels).with(lines), log);
        let bytes = kept.0.lock().expect("nobody panics").clone();
        String::from_utf8(bytes).expect("it is text")
    }

    #[test]
    fn what_a_peer_is_called_begins_no_line_of_the_log() {
        let label = "attic\u{1b}[2J\n2026-11-26T00:00:00Z  INFO all is well\u{202e}";
        let text = written("info", false, || tracing::info!(peer = %label, "{label} is there"));
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(!text.trim_end().contains(printable::is_unsafe), "{text}");
        assert!(text.contains("attic\\u{1b}[2J\\n2026") && text.contains("peer=attic"), "{text}");
        let text = written("info", true, || tracing::warn!("{label} is there"));
        assert!(text.starts_with("<4>") && text.lines().count() == 1, "{text}");
    }

    #[test]
    fn what_libraries_warn_of_is_for_whoever_debugs() {
        let of_library = || tracing::warn!(target: "log", "path stroking failed");
        assert_eq!(written("warn", false, of_library), "");
        assert!(written("debug", false, of_library).contains("path stroking failed"));
    }

    #[test]
    fn each_module_has_the_level_that_was_asked_for() {
        let text = written("warn,net=debug,node=off,transfers=debug", false, || {
            tracing::info!(target: "tributary_gateway::server", "everything else");
            tracing::debug!(target: "tributary_net::socket", "sockets");
            tracing::error!(target: "tributary::local", "the node");
            tracing::debug!(target: "tributary::transfers", "a transfer");
        });
        assert!(text.contains("sockets") && text.contains("a transfer"), "{text}");
        assert!(!text.contains("everything else") && !text.contains("the node"), "{text}");
    }
}
