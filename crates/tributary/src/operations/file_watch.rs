//! Publications that follow their files: a file or folder that changes is published anew, as a later version.
//!
//! The system reports changes (inotify and the like); what it reports of a file counts once nothing more has come for
//! [`SETTLED`], so that a program may write in many steps, or write aside and rename. Where the system cannot watch a path,
//! it is looked at instead.
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, channel},
};
use tributary_content::Name;
use tributary_core::{Duration, Time};
use tributary_net::Clock;

use crate::node::{LocalNode, publications::Publication};

/// How long a file must have been left alone before it is published anew.
const SETTLED: Duration = Duration::from_millis(700);
/// How often a path is looked at that the system cannot watch.
const POLL: Duration = Duration::from_secs(5);
/// How often reports are collected.
pub(crate) const LOOK: Duration = Duration::from_millis(200);

/// The files that are watched.
pub(crate) struct Watching {
    watcher: Option<RecommendedWatcher>,
    reports: Receiver<notify::Result<notify::Event>>,
    clock: Clock,
    files: BTreeMap<Name, Watched>,
}

struct Watched {
    publication: Publication,
    /// What the system watches: the folder itself, or the one that a file is in; `None` if it cannot.
    place: Option<Place>,
    /// When the last change was reported that is not published yet.
    changed_at: Option<Time>,
    polled_at: Time,
    /// Why it could not be published the last time.
    problem: Option<String>,
}

/// A folder that the system watches. It goes on watching it when the folder is renamed, and not what comes in its place.
#[derive(Clone, PartialEq, Eq)]
struct Place {
    path: PathBuf,
    /// Device and inode.
    identity: Option<(u64, u64)>,
    mode: RecursiveMode,
}
impl Place {
    /// What is to be watched for a publication.
    fn of(published: &Path) -> Option<Place> {
        let (path, mode) = match published.is_dir() {
            true => (published, RecursiveMode::Recursive),
            // A file that is replaced by a rename is another one: its folder is watched.
            false => (published.parent()?, RecursiveMode::NonRecursive),
        };
        let metadata = std::fs::metadata(path).ok();
        Some(Place { path: path.into(), identity: metadata.map(|metadata| (metadata.dev(), metadata.ino())), mode })
    }
}

impl Watching {
    /// Watches nothing yet.
    pub(crate) fn new() -> Watching {
        let (sender, reports) = channel();
        let watcher = notify::recommended_watcher(move |report| drop(sender.send(report)));
        if let Err(error) = &watcher {
            tracing::warn!("the system watches no files, so they are looked at every {POLL:?}: {error}");
        }
        Watching { watcher: watcher.ok(), reports, clock: Clock::new(), files: BTreeMap::new() }
    }
    /// Takes what was reported, and publishes anew what has changed and settled.
    pub(crate) fn look(&mut self, node: &LocalNode) {
        let now = self.clock.now();
        self.leave_replaced(now);
        self.follow(node.publications.watched(), now);
        self.collect(now);
        for (name, watched) in &mut self.files {
            let is_poll_due = watched.place.is_none() && now.since(watched.polled_at) >= POLL;
            if is_poll_due {
                watched.polled_at = now;
                if watched.changed_at.is_none() && !node.is_unchanged(name) {
                    watched.changed_at = Some(now);
                }
            }
            if watched.changed_at.is_none_or(|at| now.since(at) < SETTLED) {
                continue;
            }
            watched.changed_at = None;
            // What is gone is on its way: a rename comes next.
            if node.is_unchanged(name) || !watched.publication.path.exists() {
                continue;
            }
            watched.problem = match node.publish_anew(&watched.publication) {
                Ok(version) => {
                    node.runtime.events().note(&format!("'{name}' has changed and is published as version {version}"));
                    None
                }
                Err(error) => {
                    let problem = format!("'{name}' has changed and cannot be published anew: {}", error.message);
                    if watched.problem.as_ref() != Some(&problem) {
                        node.runtime.events().note(&problem);
                    }
                    // It may change once more, or become readable.
                    watched.changed_at = Some(now + POLL);
                    Some(problem)
                }
            };
        }
    }
    /// Watches what is published to be watched, and nothing else.
    fn follow(&mut self, publications: Vec<Publication>, now: Time) {
        // Another put may have given it other readers.
        let published: HashMap<&Name, &Publication> = publications.iter().map(|of| (&of.name, of)).collect();
        self.leave(|watched| published.get(&watched.publication.name) != Some(&&watched.publication));
        // A watch of a folder alone would replace that of the folder with all below it.
        let is_new = |publication: &Publication| !self.files.contains_key(&publication.name);
        let new =
            publications.into_iter().filter(is_new).map(|publication| (Place::of(&publication.path), publication));
        let mut new: Vec<(Option<Place>, Publication)> = new.collect();
        new.sort_by_key(|(place, _)| place.as_ref().is_some_and(|place| place.mode == RecursiveMode::Recursive));
        for (place, publication) in new {
            let watch = |watcher: &mut RecommendedWatcher, place: &Place| {
                let done = watcher.watch(&place.path, place.mode);
                let path = place.path.display();
                done.inspect_err(|error| tracing::warn!("'{path}' is looked at every {POLL:?}: {error}")).is_ok()
            };
            let place =
                place.zip(self.watcher.as_mut()).and_then(|(place, watcher)| watch(watcher, &place).then_some(place));
            let name = publication.name.clone();
            // It may have changed before it was watched.
            let watched = Watched { publication, place, changed_at: Some(now), polled_at: now, problem: None };
            self.files.insert(name, watched);
        }
    }
    /// Ends the watch of folders in whose place there are others now, so that those are watched.
    fn leave_replaced(&mut self, now: Time) {
        let mut replaced = BTreeSet::new();
        for (name, watched) in self.files.iter_mut().filter(|(_, watched)| now.since(watched.polled_at) >= POLL) {
            if watched.place.is_some() {
                watched.polled_at = now;
                if watched.place != Place::of(&watched.publication.path) {
                    replaced.insert(name.clone());
                }
            }
        }
        self.leave(|watched| replaced.contains(&watched.publication.name));
    }
    fn leave(&mut self, is_left: impl Fn(&Watched) -> bool) {
        let left: Vec<Name> = self.files.iter().filter(|(_, of)| is_left(of)).map(|(name, _)| name.clone()).collect();
        for name in left {
            let Some(place) = self.files.remove(&name).and_then(|watched| watched.place) else { continue };
            let Some(watcher) = &mut self.watcher else { continue };
            // The folder may be gone, and its watch with it. Whatever else is watched at and below it is begun anew.
            drop(watcher.unwatch(&place.path));
            self.files.retain(|_, other| other.place.as_ref().is_none_or(|other| !other.path.starts_with(&place.path)));
        }
    }
    /// Notes which files were reported to have changed.
    fn collect(&mut self, now: Time) {
        while let Ok(report) = self.reports.try_recv() {
            let concerns = |watched: &Watched| match &report {
                Ok(event)
                    if matches!(
                        event.kind,
                        EventKind::Access(notify::event::AccessKind::Open(_) | notify::event::AccessKind::Read)
                    ) =>
                {
                    false
                }
                Ok(event) if !event.need_rescan() => {
                    event.paths.iter().any(|path| path.starts_with(&watched.publication.path))
                }
                // Reports were lost: any may have changed.
                Ok(_) | Err(_) => true,
            };
            self.files
                .values_mut()
                .filter(|watched| concerns(watched))
                .for_each(|watched| watched.changed_at = Some(now));
        }
    }
}
