//! The access log: a line for each request when it is over.
use std::{
    fmt::Write as _,
    io::{self, Write},
    path::Path,
    sync::{
        Arc,
        mpsc::{SyncSender, TrySendError, sync_channel},
    },
};
use tributary::Clock;
use tributary_core::{Duration, Time, printable};
use tributary_net::wall_clock;

/// Maximum lines that wait to be written; further ones are omitted, as a blocked disk must not delay requests.
const WAITING_MAX: usize = 4_096;

/// How a line looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogFormat {
    /// The combined format of Apache and nginx, with the seconds it took at the end.
    #[default]
    Combined,
    /// An object of JSON.
    Json,
}

/// Where lines go.
#[derive(Debug)]
pub struct AccessLog {
    format: LogFormat,
    lines: SyncSender<String>,
    writer: Option<std::thread::JoinHandle<()>>,
}

/// A request that is over.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Entry {
    /// The client: an IP address, or the GUID of the other proxy.
    pub client: String,
    /// When it arrived, since the start of 1970.
    pub at: Duration,
    /// Its method.
    pub method: String,
    /// Its target.
    pub target: String,
    /// Its version, such as `HTTP/1.1`.
    pub version: String,
    /// The requested host.
    pub host: String,
    /// Status of the response; 0 if the exchange broke before it.
    pub status: u16,
    /// Bytes of the answer's body, or of a tunnel.
    pub bytes: u64,
    /// How long it took.
    pub took: Duration,
    /// `Referer`.
    pub referer: Option<String>,
    /// `User-Agent`.
    pub agent: Option<String>,
    /// The failure.
    pub failure: Option<String>,
}

/// The line of a request, written when it ends in any way.
pub(crate) struct Record {
    log: Option<Arc<AccessLog>>,
    clock: Clock,
    pub(crate) entry: Entry,
}
impl Record {
    pub(crate) fn new(log: &Option<Arc<AccessLog>>, client: impl Into<String>) -> Record {
        let entry = Entry { client: client.into(), at: wall_clock(), ..Entry::default() };
        Record { log: log.clone(), clock: Clock::new(), entry }
    }
}
impl Drop for Record {
    fn drop(&mut self) {
        if let Some(log) = &self.log {
            self.entry.took = self.clock.now().since(Time::ZERO);
            log.write(&self.entry);
        }
    }
}

impl AccessLog {
    /// Appends to a file, or writes to the standard output if the path is `-`.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open(path: &Path, format: LogFormat) -> io::Result<AccessLog> {
        let output: Box<dyn Write + Send> = match path.as_os_str() == "-" {
            true => Box::new(io::stdout()),
            false => Box::new(std::fs::OpenOptions::new().append(true).create(true).open(path)?),
        };
        AccessLog::new(output, format)
    }
    fn new(mut output: Box<dyn Write + Send>, format: LogFormat) -> io::Result<AccessLog> {
        let (lines, to_write) = sync_channel::<String>(WAITING_MAX);
        let write = move || {
            for line in to_write {
                if let Err(error) = output.write_all(line.as_bytes()).and_then(|()| output.flush()) {
                    tributary::warn_bounded(&format!("the access log cannot be written: {error}"));
                }
            }
        };
        let writer = std::thread::Builder::new().name("access log".into()).spawn(write)?;
        Ok(AccessLog { format, lines, writer: Some(writer) })
    }
    /// Writes a line.
    pub fn write(&self, entry: &Entry) {
        let line = match self.format {
            LogFormat::Combined => combined(entry),
            LogFormat::Json => json(entry),
        };
        if let Err(TrySendError::Full(_)) = self.lines.try_send(line) {
            tributary::warn_bounded("the access log is written too slowly: a line is left out");
        }
    }
}
impl Drop for AccessLog {
    fn drop(&mut self) {
        // The writer ends when its last sender is gone.
        (self.lines, _) = sync_channel(0);
        let _ = self.writer.take().map(std::thread::JoinHandle::join);
    }
}

/// When a request arrived, in UTC.
fn time(entry: &Entry, format: &str) -> String {
    let at = jiff::Timestamp::new(entry.at.as_secs() as i64, entry.at.subsec_nanos() as i32);
    at.unwrap_or_default().strftime(format).to_string()
}
fn combined(entry: &Entry) -> String {
    let quoted = |text: &Option<String>| text.as_deref().map_or("-".into(), escaped);
    format!(
        "{} - - [{}] \"{} {} {}\" {} {} \"{}\" \"{}\" {:.3}\n",
        entry.client,
        time(entry, "%d/%b/%Y:%H:%M:%S +0000"),
        escaped(&entry.method),
        escaped(&entry.target),
        entry.version,
        entry.status,
        entry.bytes,
        quoted(&entry.referer),
        quoted(&entry.agent),
        entry.took.as_secs_f64(),
    )
}
/// Text from a peer must not end a line or a quotation.
fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, letter| {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if printable::is_unsafe(letter) => {
                let _ = write!(out, "\\x{:02x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
        out
    })
}
fn json(entry: &Entry) -> String {
    let line = serde_json::json!({
        "event": "request",
        "time": time(entry, "%Y-%m-%dT%H:%M:%S%.3fZ"),
        "client": entry.client,
        "method": entry.method,
        "target": entry.target,
        "version": entry.version,
        "host": entry.host,
        "status": entry.status,
        "bytes": entry.bytes,
        "seconds": entry.took.as_secs_f64(),
        "referer": entry.referer,
        "user_agent": entry.agent,
        "failure": entry.failure,
    });
    format!("{line}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry {
            client: "192.0.2.1".into(),
            at: Duration::from_millis(1_709_210_096_789),
            method: "GET".into(),
            target: "http://example.org/\"\n".into(),
            version: "HTTP/1.1".into(),
            host: "example.org".into(),
            status: 200,
            bytes: 5,
            took: Duration::from_millis(1_500),
            referer: None,
            agent: Some("curl".into()),
            failure: None,
        }
    }

    #[test]
    fn a_line_of_the_combined_format_is_one_line_whatever_was_asked() {
        let line = "192.0.2.1 - - [29/Feb/2024:12:34:56 +0000] \"GET http://example.org/\\\"\\x0a HTTP/1.1\" 200 5 \"-\" \
                    \"curl\" 1.500\n";
        assert_eq!(combined(&entry()), line);
    }

    #[test]
    fn a_line_of_json_can_be_read() {
        let line = json(&entry());
        let read: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(read["time"], "2024-02-29T12:34:56.789Z");
        assert_eq!((&read["status"], &read["seconds"]), (&200.into(), &1.5.into()));
        assert_eq!(line.lines().count(), 1);
    }

    #[test]
    fn lines_are_in_the_file_when_the_log_is_closed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("access.log");
        for _ in 0..2 {
            let log = AccessLog::open(&path, LogFormat::Combined).expect("it can be opened");
            (0..10).for_each(|_| log.write(&entry()));
        }
        assert_eq!(std::fs::read_to_string(path).expect("text").lines().count(), 20);
    }
}
