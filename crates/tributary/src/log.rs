//! How much a process logs: a level for everything, and other levels for single modules. A config, `trib log` and the API
//! write both in one text: `info,net=debug`.
//!
//! The program owns the log. It [installs](install) a function that changes the levels, so that a request to a node can
//! change them.
use parking_lot::Mutex;
use std::{collections::BTreeMap, fmt, str::FromStr, sync::OnceLock};

/// How much is logged.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// What ends a node or loses data.
    Error,
    /// Problems.
    Warn,
    /// And changes.
    Info,
    /// Decisions and their reasons as well.
    Debug,
}

impl LogLevel {
    /// All of them with their words, in increasing detail.
    pub const ALL: [(&'static str, LogLevel); 5] = [
        ("off", LogLevel::Off),
        ("error", LogLevel::Error),
        ("warn", LogLevel::Warn),
        ("info", LogLevel::Info),
        ("debug", LogLevel::Debug),
    ];

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, level)| *level == self).map_or("", |(word, _)| word)
    }
}

/// The modules with separate levels, each with the prefix of its log targets and a description.
pub const MODULES: [(&str, &str, &str); 7] = [
    ("neighbours", "tributary::neighbours", "neighbours that come and go"),
    ("transfers", "tributary::transfers", "sources, paths and chunks of each transfer"),
    ("names", "tributary::names", "publications and lookups"),
    ("node", "tributary::", "everything else about the node: its files, its control socket, what peers did wrong"),
    ("net", "tributary_net", "sockets, streams and the disk"),
    ("gateway", "tributary_gateway", "clients of the gateway and of the API"),
    ("http", "tributary_http", "the HTTP proxies"),
];

/// The targets of lines about [`MODULES`], named by subject instead of by source file.
pub(crate) mod targets {
    pub(crate) const NEIGHBOURS: &str = "tributary::neighbours";
    pub(crate) const TRANSFERS: &str = "tributary::transfers";
    pub(crate) const NAMES: &str = "tributary::names";
}

/// A level for everything, and others for single modules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogLevels {
    /// The level of everything else.
    pub all: LogLevel,
    /// Of single modules, by their names in [`MODULES`].
    pub of_modules: BTreeMap<&'static str, LogLevel>,
}

impl LogLevels {
    /// Each target with its level, the levels of modules only.
    pub fn targets(&self) -> impl Iterator<Item = (&'static str, LogLevel)> {
        self.of_modules.iter().filter_map(|(name, level)| {
            MODULES.iter().find(|(module, ..)| module == name).map(|(_, target, _)| (*target, *level))
        })
    }
}
impl From<LogLevel> for LogLevels {
    fn from(all: LogLevel) -> Self {
        LogLevels { all, of_modules: BTreeMap::new() }
    }
}
impl fmt::Display for LogLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.all.word())?;
        self.of_modules.iter().try_for_each(|(module, level)| write!(f, ",{module}={}", level.word()))
    }
}
impl FromStr for LogLevels {
    type Err = String;
    /// Without a level for everything that is `info`.
    fn from_str(text: &str) -> Result<Self, String> {
        let level = |word: &str| {
            let found = LogLevel::ALL.iter().find(|(known, _)| *known == word);
            let known = || words(&LogLevel::ALL.map(|(word, _)| word));
            found.map(|(_, level)| *level).ok_or_else(|| format!("'{word}' is not a level: {}", known()))
        };
        let twice = |what: &str| Err(format!("there are two levels for {what}"));
        let mut all = None;
        let mut of_modules = BTreeMap::new();
        for part in text.split(',').map(str::trim) {
            match part.split_once('=') {
                None if all.is_some() => return twice("everything"),
                None => all = Some(level(part)?),
                Some((name, word)) => {
                    let known = MODULES.iter().find(|(module, ..)| *module == name);
                    let modules = || words(&MODULES.map(|(module, ..)| module));
                    let (module, ..) = known.ok_or_else(|| format!("'{name}' is not a module: {}", modules()))?;
                    if of_modules.insert(*module, level(word)?).is_some() {
                        return twice(name);
                    }
                }
            }
        }
        Ok(LogLevels { all: all.unwrap_or(LogLevel::Info), of_modules })
    }
}

fn words(known: &[&str]) -> String {
    format!("write one of {}", known.join(", "))
}

/// What carries out a change of levels, and the levels in force.
struct Log {
    apply: Box<dyn Fn(&LogLevels) + Send + Sync>,
    levels: Mutex<LogLevels>,
}

static LOG: OnceLock<Log> = OnceLock::new();

/// Has `apply` carry out changes of this process's log, which starts with `levels`. Only the first call counts.
pub fn install(levels: LogLevels, apply: impl Fn(&LogLevels) + Send + Sync + 'static) {
    // The program starts its log once.
    let _ = LOG.set(Log { apply: Box::new(apply), levels: Mutex::new(levels) });
}
/// Sets the log's level. Returns false in a process whose log belongs to another library: nothing was
/// [installed](install).
pub fn set(levels: LogLevels) -> bool {
    let Some(log) = LOG.get() else { return false };
    let mut now = log.levels.lock();
    (log.apply)(&levels);
    *now = levels;
    true
}
/// The levels in force; `None` if nothing was [installed](install).
pub fn levels() -> Option<LogLevels> {
    LOG.get().map(|log| log.levels.lock().clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_survive_their_text_and_wrong_ones_name_what_is_right() {
        for text in ["info", "off", "warn,net=debug", "debug,gateway=off,transfers=info"] {
            assert_eq!(text.parse::<LogLevels>().map(|levels| levels.to_string()), Ok(text.to_string()));
        }
        assert_eq!("net=debug".parse::<LogLevels>().map(|levels| levels.to_string()), Ok("info,net=debug".into()));
        for (wrong, reason) in [
            ("", "'' is not a level: write one of off, error, warn, info, debug"),
            ("loud", "'loud' is not a level"),
            ("info,sockets=debug", "'sockets' is not a module: write one of neighbours, transfers"),
            ("info,net=loud", "'loud' is not a level"),
            ("info,warn", "two levels for everything"),
            ("net=info,net=warn", "two levels for net"),
        ] {
            let error = wrong.parse::<LogLevels>().map_or_else(|error| error.to_string(), |levels| levels.to_string());
            assert!(error.contains(reason), "{wrong}: {error}");
        }
    }

    #[test]
    fn targets_of_lines_about_something_are_those_of_their_modules() {
        for target in [targets::NEIGHBOURS, targets::TRANSFERS, targets::NAMES] {
            assert!(MODULES.iter().any(|(_, known, _)| *known == target), "{target}");
        }
    }
}
