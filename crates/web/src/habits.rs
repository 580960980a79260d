//! Habits of web servers, by host and port, kept in one file of the state folder.
use reqwest::Url;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use tributary_net::{disk::replace_file, wall_clock};

/// Maximum remembered servers; those unused for longest are forgotten.
const SERVERS_MAX: usize = 512;
/// Days after which a habit is forgotten: the server may have been repaired.
const DAYS_MAX: u64 = 7;
const FILE: &str = "servers.json";
/// Maximum bytes read from the file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// How a server differs from one that delivers any range over any number of connections.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Habit {
    /// Whether it delivers a file in one stream only.
    pub(crate) is_stream: bool,
    /// The most bytes of a range that it delivers; zero if it delivers all.
    pub(crate) range_max: u64,
    /// The connections that it allows, if it refused more.
    pub(crate) connections: Option<usize>,
    /// The day since 1970 on which this was last seen.
    pub(crate) day: u64,
}

/// The habits of all servers.
#[derive(Debug, Default)]
pub(crate) struct Habits {
    path: Option<PathBuf>,
    servers: BTreeMap<String, Habit>,
}

impl Habits {
    /// Reads the file; a damaged one counts as absent.
    pub(crate) fn load(folder: Option<&Path>) -> Habits {
        let path = folder.map(|folder| folder.join(FILE));
        let is_small = |path: &&PathBuf| std::fs::metadata(path).is_ok_and(|file| file.len() <= FILE_BYTES_MAX);
        let text = path.as_ref().filter(is_small).and_then(|path| std::fs::read(path).ok()).unwrap_or_default();
        let mut servers: BTreeMap<String, Habit> = serde_json::from_slice(&text).unwrap_or_default();
        servers.retain(|_, habit| today().saturating_sub(habit.day) <= DAYS_MAX);
        Habits { path, servers }
    }
    pub(crate) fn of(&self, url: &Url) -> Habit {
        self.servers.get(url.authority()).cloned().unwrap_or_default()
    }
    /// Keeps the observations of a fetch.
    pub(crate) fn learn<'a>(&mut self, seen: impl Iterator<Item = (&'a Url, Habit)>) {
        let before = self.servers.clone();
        for (url, habit) in seen {
            // A habit that only repeats keeps its day, so that it is tested again one day.
            let day = self.of(url).day;
            if habit == Habit::default() {
                self.servers.remove(url.authority());
            } else if (Habit { day, ..habit.clone() }) != self.of(url) {
                self.servers.insert(url.authority().into(), Habit { day: today(), ..habit });
            }
        }
        while self.servers.len() > SERVERS_MAX {
            let oldest = self.servers.iter().min_by_key(|(_, habit)| habit.day).map(|(server, _)| server.clone());
            oldest.map(|server| self.servers.remove(&server));
        }
        let Some(path) = self.path.as_ref().filter(|_| self.servers != before) else { return };
        let text = serde_json::to_vec(&self.servers).unwrap_or_default();
        // The file only saves requests: without it the next fetch learns the habits again.
        if let Err(error) = replace_file(path, &[&text]) {
            tracing::debug!("cannot save the observations about servers in '{}': {error}", path.display());
        }
    }
}

fn today() -> u64 {
    wall_clock().as_secs() / 86_400
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn habits_are_kept_for_a_week_and_for_a_bounded_number_of_servers() {
        let folder = tempfile::tempdir().expect("a folder");
        let url = |server: usize| Url::parse(&format!("http://host-{server}:81/f")).expect("a URL");
        let habit = Habit { range_max: 5, ..Habit::default() };
        let urls: Vec<Url> = (0..SERVERS_MAX + 9).map(url).collect();
        let mut habits = Habits::load(Some(folder.path()));
        habits.learn(urls.iter().map(|url| (url, habit.clone())));
        let known = Habits::load(Some(folder.path()));
        assert_eq!(urls.iter().filter(|url| known.of(url).range_max == 5).count(), SERVERS_MAX);
        habits.learn([(&urls[600 % SERVERS_MAX], Habit::default())].into_iter());
        assert_eq!(Habits::load(Some(folder.path())).of(&urls[600 % SERVERS_MAX]), Habit::default());
        let old = r#"{"host-1:81":{"range_max":5,"day":9}}"#;
        for text in [old, "damaged"] {
            std::fs::write(folder.path().join(FILE), text).expect("writable");
            assert_eq!(Habits::load(Some(folder.path())).of(&urls[1]), Habit::default());
        }
    }
}
