//! The machine a benchmark runs on.
use std::{fs, process::Command};

use serde::Serialize;

/// What makes figures comparable, or not.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// Model of the processor.
    pub(crate) processor: String,
    /// Cores that this process may use.
    pub(crate) cores: usize,
    /// The kernel's release.
    pub(crate) kernel: String,
    /// Processes that wanted to run in the minute before: above zero, others disturb.
    pub(crate) load: String,
    /// The commit, with `+` if files differ from it.
    pub(crate) revision: String,
}

impl Machine {
    pub(crate) fn now() -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_string();
        let processor = read("/proc/cpuinfo");
        let processor = processor.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
        let git = |arguments: &[&str]| {
            let output = Command::new("git").args(arguments).output().ok()?;
            Some(String::from_utf8_lossy(&output.stdout).trim().to_string())
        };
        let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|files| !files.is_empty());
        let revision = git(&["rev-parse", "--short", "HEAD"]).unwrap_or_default();
        Machine {
            processor: processor.unwrap_or("unknown").into(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: read("/proc/sys/kernel/osrelease"),
            load: read("/proc/loadavg").split(' ').next().unwrap_or_default().into(),
            revision: revision + if changed { "+" } else { "" },
        }
    }
}

/// The kernel's file for this session's share of the machine.
const AUTOGROUP: &str = "/proc/self/autogroup";

/// Raises this session's share of the machine to the maximum, until dropped.
pub(crate) struct Priority(Option<String>);

impl Priority {
    /// Raises the session's share; without permission nothing happens, and [`Priority::is_raised`] is false.
    pub(crate) fn raise() -> Priority {
        let before = fs::read_to_string(AUTOGROUP).ok();
        let before = before.and_then(|line| Some(line.rsplit_once("nice ")?.1.trim().to_string()));
        Priority(before.filter(|_| fs::write(AUTOGROUP, "-20").is_ok()))
    }
    /// Whether it was permitted.
    pub(crate) fn is_raised(&self) -> bool {
        self.0.is_some()
    }
}
impl Drop for Priority {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // The permission to raise it includes the permission to lower it.
            let _ = fs::write(AUTOGROUP, before);
        }
    }
}
