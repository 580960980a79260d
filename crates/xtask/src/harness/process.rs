//! Processes of a benchmark: their output, their CPU time and their peak memory.
use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::{
        resource::{UsageWho, getrusage},
        time::TimeValLike,
    },
    time::{ClockId, clock_getcpuclockid, clock_gettime},
    unistd::Pid,
};

use super::{interrupt, stage::Stage};
use crate::Outcome;

/// A process that runs. Dropping it kills it.
pub(crate) struct Process {
    name: String,
    child: Option<Child>,
    pid: Pid,
    clock: ClockId,
    peak_bytes: Arc<AtomicU64>,
    lines: mpsc::Receiver<String>,
    errors: PathBuf,
}

/// What a process left.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Lines of its stdout that were not read before.
    pub(crate) lines: Vec<String>,
    /// CPU time of its whole life, children that it waited for included.
    pub(crate) cpu_seconds: f64,
    /// Its peak memory.
    pub(crate) peak_bytes: u64,
}

impl Process {
    /// Starts `command`, which errors will call `name`.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn spawn(name: &str, stage: &Stage, command: &mut Command) -> Outcome<Process> {
        interrupt::check()?;
        let errors = stage.path(&format!("{name}.stderr"));
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&errors)?)
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", command.get_program().display()))?;
        let stdout = child.stdout.take().expect("it was asked to be piped");
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            // It ends with the process, or when the lines have no receiver.
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let pid = Pid::from_raw(child.id().try_into()?);
        let peak_bytes = Arc::new(AtomicU64::new(0));
        let peak = Arc::downgrade(&peak_bytes);
        thread::spawn(move || {
            while let Some(peak) = peak.upgrade() {
                let Some(bytes) = peak_memory(pid) else { return };
                peak.fetch_max(bytes, Ordering::Relaxed);
                drop(peak);
                thread::sleep(WATCH_INTERVAL);
            }
        });
        let clock = clock_getcpuclockid(pid)?;
        Ok(Process { name: name.into(), child: Some(child), pid, clock, peak_bytes, lines, errors })
    }
    /// The next line of its stdout.
    ///
    /// # Errors
    /// If it ends, or is silent for `patience`.
    pub(crate) fn line(&self, patience: Duration) -> Outcome<String> {
        self.lines.recv_timeout(patience).map_err(|error| match error {
            RecvTimeoutError::Timeout => self.failure(&format!("printed nothing for {patience:?}")).into(),
            RecvTimeoutError::Disconnected => self.failure("ended too early").into(),
        })
    }
    /// The rest of its first line that starts with `prefix`.
    ///
    /// # Errors
    /// If no such line arrives within `patience`.
    pub(crate) fn line_after(&self, prefix: &str, patience: Duration) -> Outcome<String> {
        loop {
            if let Some(rest) = self.line(patience)?.strip_prefix(prefix) {
                return Ok(rest.trim().into());
            }
        }
    }
    /// CPU time so far.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn cpu_seconds(&self) -> Outcome<f64> {
        Ok(clock_gettime(self.clock)?.num_nanoseconds() as f64 / 1e9)
    }
    /// Bytes that it has written to files so far.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn written_bytes(&self) -> Outcome<f64> {
        let io = fs::read_to_string(format!("/proc/{}/io", self.pid))?;
        let bytes = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse().ok());
        bytes.ok_or_else(|| "/proc does not tell what a process has written".into())
    }
    /// Peak memory so far.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.peak_bytes.fetch_max(peak_memory(self.pid).unwrap_or(0), Ordering::Relaxed);
        self.peak_bytes.load(Ordering::Relaxed)
    }
    /// Whether it still runs.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }
    /// Ends it as a power cut would, and waits until it has exited.
    ///
    /// # Errors
    /// If it has ended before.
    pub(crate) fn kill(&mut self) -> Outcome {
        let mut child = self.child.take().ok_or("it has ended already")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }
    /// Waits until it exits.
    ///
    /// # Errors
    /// If it fails, or runs for longer than `patience`.
    pub(crate) fn finish(self, patience: Duration) -> Outcome<Ended> {
        let deadline = Instant::now() + patience;
        let mut lines = Vec::new();
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => lines.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(self.failure(&format!("did not end within {patience:?}")).into());
                }
            }
        }
        self.wait(lines)
    }

    fn wait(mut self, lines: Vec<String>) -> Outcome<Ended> {
        // Children of this process are waited for in sequence, so the added time is this one's.
        let before = children_cpu_seconds()?;
        let mut child = self.child.take().expect("it is taken here only, and here it ends");
        let status = child.wait()?;
        let cpu_seconds = children_cpu_seconds()? - before;
        if !status.success() {
            let last = lines.last().map_or(String::new(), |line| format!("; its last line: {line}"));
            return Err(self.failure(&format!("failed with {status}{last}")).into());
        }
        Ok(Ended { lines, cpu_seconds, peak_bytes: self.peak_bytes.load(Ordering::Relaxed) })
    }
    /// A sentence about its end, with the last lines of its stderr.
    fn failure(&self, what: &str) -> String {
        let errors = fs::read_to_string(&self.errors).unwrap_or_default();
        let lines: Vec<_> = errors.lines().rev().take(STDERR_LINES).collect();
        let output = lines.into_iter().rev().collect::<Vec<_>>().join("\n    ");
        if output.is_empty() { format!("{} {what}", self.name) } else { format!("{} {what}:\n    {output}", self.name) }
    }
}
impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // If it has already exited, nothing is killed, and it is reaped.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// How often the memory of a process is sampled.
const WATCH_INTERVAL: Duration = Duration::from_millis(20);
/// Lines of stderr in an error.
const STDERR_LINES: usize = 8;

/// A process's peak memory; `None` once it has exited.
fn peak_memory(pid: Pid) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? << 10)
}

fn children_cpu_seconds() -> Outcome<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    Ok((usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6)
}
