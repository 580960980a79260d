//! The only writers to stdout and stderr: data on the one, talk on the other.
use indicatif::{MultiProgress, ProgressDrawTarget};
use std::{
    io::{self, ErrorKind, Write},
    sync::LazyLock,
};

/// The bars of what runs, at the bottom of a terminal; what else goes to stderr stands above them.
pub(crate) static BARS: LazyLock<MultiProgress> =
    LazyLock::new(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr()));

/// Writes one line of data to stdout. A reader that has gone ends the program quietly, as it does other filters.
pub(crate) fn data(line: &str) {
    let mut stdout = io::stdout().lock();
    let written = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    if let Err(error) = written {
        ended(&error);
    }
}
/// Writes bytes of data to stdout.
pub(crate) fn bytes(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    if let Err(error) = written {
        ended(&error);
    }
}
/// Writes one line of talk to stderr. A closed stderr is ignored: there is no other place to report to.
pub(crate) fn talk(line: &str) {
    let _ = BARS.suspend(|| writeln!(io::stderr().lock(), "{line}"));
}

/// Where the log writes its lines, each at once.
pub(crate) struct Log;
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
    std::process::exit(2);
}
