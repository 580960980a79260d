//! The only writers to stdout and stderr: data on the one, talk on the other.
use console::Term;
use indicatif::{MultiProgress, ProgressDrawTarget};
use std::{
    io::{self, ErrorKind, Write},
    sync::{
        LazyLock,
        atomic::{AtomicBool, Ordering},
    },
};

/// The progress bars at the bottom of a terminal; other output to stderr appears above them.
pub static BARS: LazyLock<MultiProgress> =
    LazyLock::new(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr()));

/// Whether lines of the log are JSON objects.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Sets whether messages outside the log become lines of the log: a log of JSON holds nothing else.
pub fn set_json(is_json: bool) {
    IS_JSON.store(is_json, Ordering::Relaxed);
}
/// Whether lines of the log are JSON objects.
pub fn is_json() -> bool {
    IS_JSON.load(Ordering::Relaxed)
}

/// Writes one line of data to stdout. A reader that has gone ends the program quietly, as it does other filters.
pub fn data(line: &str) {
    let mut stdout = io::stdout().lock();
    let written = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    if let Err(error) = written {
        ended(&error);
    }
}
/// Writes bytes of data to stdout.
pub fn bytes(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    if let Err(error) = written {
        ended(&error);
    }
}
/// The width of the terminal at standard output; `None` without a terminal: programs read uncut lines.
pub fn columns() -> Option<usize> {
    Term::stdout().size_checked().map(|(_, columns)| usize::from(columns))
}
/// Whether a terminal gets colours: not if its user disabled them (no-color.org) or it has no colours.
pub fn has_colour() -> bool {
    let refuses = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !refuses && std::env::var_os("TERM").is_some_and(|terminal| terminal != "dumb")
}
/// Writes one line of talk to stderr, or to the log if that is read by programs. A closed stderr is ignored: there is no other
/// place to report to.
pub fn talk(line: &str) {
    if is_json() {
        return tracing::info!("{}", line.trim_start());
    }
    let _ = BARS.suspend(|| writeln!(io::stderr().lock(), "{line}"));
}

/// Where the log writes its lines, each at once.
pub struct Log;
impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        BARS.suspend(|| io::stderr().lock().write(bytes))
    }
    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}

fn ended(error: &io::Error) {
    if error.kind() != ErrorKind::BrokenPipe {
        talk(&format!("error: cannot write to standard output: {error}"));
    }
    // Everything ends with the process; downloads keep their verified chunks, and a demo's daemons see their stdin end.
    std::process::exit(tributary::ErrorKind::Io.exit_code().into());
}
