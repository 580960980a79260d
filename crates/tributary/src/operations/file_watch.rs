//! Publications that follow their files: a changed file or folder is published again, as a later version.
//!
//! The system reports changes (inotify and the like); a change counts once nothing more has been reported for [`SETTLED`],
//! so that a program may write in many steps, or write aside and rename. Paths that the system cannot watch are polled.
//! Links on the way to a file are watched too: Kubernetes and deploy scripts swap `..data` or `current`.
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
    sync::mpsc::{Receiver, channel},
};
use tributary_content::Name;
use tributary_core::{Duration, Time};
use tributary_net::Clock;

use crate::node::{LocalNode, publications::Publication};

/// How long a file must be unchanged before it is published again.
const SETTLED: Duration = Duration::from_millis(700);
/// Interval of checks of a path that the system cannot watch.
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
    /// What the system watches; `None` if it cannot.
    trail: Option<Trail>,
    /// When the last change was reported that is not published yet.
    changed_at: Option<Time>,
    polled_at: Time,
    /// Why it could not be published the last time.
    problem: Option<String>,
}

/// A folder that the system watches. The watch follows the folder when it is renamed, and does not see its replacement.
#[derive(Clone, PartialEq, Eq)]
struct Place {
    path: PathBuf,
    /// Device and inode.
    identity: Option<(u64, u64)>,
    mode: RecursiveMode,
}
impl Place {
    fn at(path: &Path, mode: RecursiveMode) -> Place {
        let metadata = std::fs::metadata(path).ok();
        Place { path: path.into(), identity: metadata.map(|metadata| (metadata.dev(), metadata.ino())), mode }
    }
}

/// The path from a published name to its file or folder, over links.
#[derive(Clone, PartialEq, Eq, Default)]
struct Trail {
    /// The folders to watch: of each link, and of the file; or the published folder itself.
    places: Vec<Place>,
    /// The links, and the file or folder.
    paths: Vec<PathBuf>,
}
impl Trail {
    /// `None` if links lead in a circle.
    fn of(published: &Path) -> Option<Trail> {
        let (mut trail, mut path) = (Trail::default(), std::path::absolute(published).ok()?);
        for _ in 0..LINKS_MAX {
            match first_link(&path) {
                Some((link, target)) => {
                    trail.add(Place::at(link.parent()?, RecursiveMode::NonRecursive));
                    trail.paths.push(link);
                    path = target;
                }
                None => {
                    trail.add(match path.is_dir() {
                        true => Place::at(&path, RecursiveMode::Recursive),
                        // A rename replaces the file: its folder is watched.
                        false => Place::at(path.parent()?, RecursiveMode::NonRecursive),
                    });
                    trail.paths.push(path);
                    return Some(trail);
                }
            }
        }
        None
    }
    fn add(&mut self, place: Place) {
        if !self.places.contains(&place) {
            self.places.push(place);
        }
    }
    fn is_recursive(&self) -> bool {
        self.places.iter().any(|place| place.mode == RecursiveMode::Recursive)
    }
}
/// Links that are followed, as many as Linux follows.
const LINKS_MAX: usize = 40;

/// The first link on an absolute path, and the path with its target in its place.
fn first_link(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let (mut so_far, mut components) = (PathBuf::new(), path.components());
    while let Some(component) = components.next() {
        match component {
            Component::ParentDir => _ = so_far.pop(),
            component => so_far.push(component),
        }
        if let Ok(target) = std::fs::read_link(&so_far) {
            let resolved = so_far.parent()?.join(target).join(components.as_path());
            return Some((so_far, resolved));
        }
    }
    None
}

impl Watching {
    /// Watches nothing yet.
    pub(crate) fn new() -> Watching {
        let (sender, reports) = channel();
        let watcher = notify::recommended_watcher(move |report| drop(sender.send(report)));
        if let Err(error) = &watcher {
            tracing::warn!("the system watches no files, so they are checked every {POLL:?}: {error}");
        }
        Watching { watcher: watcher.ok(), reports, clock: Clock::new(), files: BTreeMap::new() }
    }
    /// Takes the reported changes, and publishes files again that have changed and settled.
    pub(crate) fn look(&mut self, node: &LocalNode) {
        let now = self.clock.now();
        self.leave_replaced(now);
        self.follow(node.publications.watched(), now);
        self.collect(now);
        for (name, watched) in &mut self.files {
            let is_poll_due = watched.trail.is_none() && now.since(watched.polled_at) >= POLL;
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
            // A missing file is being replaced: a rename follows.
            if node.is_unchanged(name) || !watched.publication.path.exists() {
                continue;
            }
            watched.problem = match node.publish_anew(&watched.publication) {
                Ok(version) => {
                    node.runtime.events.note(&format!("'{name}' has changed and is published as version {version}"));
                    None
                }
                Err(error) => {
                    let problem = format!("'{name}' has changed and cannot be published again: {}", error.message);
                    if watched.problem.as_ref() != Some(&problem) {
                        node.runtime.events.note(&problem);
                    }
                    // It may change once more, or become readable.
                    watched.changed_at = Some(now + POLL);
                    Some(problem)
                }
            };
        }
    }
    /// Watches exactly the publications that need it.
    fn follow(&mut self, publications: Vec<Publication>, now: Time) {
        // Another put may have given it other readers.
        let published: HashMap<&Name, &Publication> = publications.iter().map(|of| (&of.name, of)).collect();
        self.leave(|watched| published.get(&watched.publication.name) != Some(&&watched.publication));
        // A watch of a folder alone would replace the recursive watch of the same folder.
        let is_new = |publication: &Publication| !self.files.contains_key(&publication.name);
        let new =
            publications.into_iter().filter(is_new).map(|publication| (Trail::of(&publication.path), publication));
        let mut new: Vec<(Option<Trail>, Publication)> = new.collect();
        new.sort_by_key(|(trail, _)| trail.as_ref().is_some_and(Trail::is_recursive));
        for (trail, publication) in new {
            let watch = |watcher: &mut RecommendedWatcher, place: &Place| {
                let done = watcher.watch(&place.path, place.mode);
                let path = place.path.display();
                done.inspect_err(|error| tracing::warn!("'{path}' is polled every {POLL:?}: {error}")).is_ok()
            };
            let trail = trail.zip(self.watcher.as_mut()).and_then(|(trail, watcher)| {
                let is_watched = trail.places.iter().all(|place| watch(watcher, place));
                is_watched.then_some(trail)
            });
            let name = publication.name.clone();
            // It may have changed before it was watched.
            let watched = Watched { publication, trail, changed_at: Some(now), polled_at: now, problem: None };
            self.files.insert(name, watched);
        }
    }
    /// Ends the watch of replaced folders, so that their replacements are watched.
    fn leave_replaced(&mut self, now: Time) {
        let mut replaced = BTreeSet::new();
        for (name, watched) in self.files.iter_mut().filter(|(_, watched)| now.since(watched.polled_at) >= POLL) {
            if watched.trail.is_some() {
                watched.polled_at = now;
                if watched.trail != Trail::of(&watched.publication.path) {
                    replaced.insert(name.clone());
                }
            }
        }
        self.leave(|watched| replaced.contains(&watched.publication.name));
    }
    fn leave(&mut self, is_left: impl Fn(&Watched) -> bool) {
        let left: Vec<Name> = self.files.iter().filter(|(_, of)| is_left(of)).map(|(name, _)| name.clone()).collect();
        for name in left {
            let Some(trail) = self.files.remove(&name).and_then(|watched| watched.trail) else { continue };
            let Some(watcher) = &mut self.watcher else { continue };
            for place in &trail.places {
                // The folder may be gone, and its watch with it. Other watches at and below it start again.
                drop(watcher.unwatch(&place.path));
                let is_below = |other: &Trail| other.places.iter().any(|other| other.path.starts_with(&place.path));
                self.files.retain(|_, other| !other.trail.as_ref().is_some_and(is_below));
            }
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
                    let on_trail = |path: &PathBuf| {
                        watched.trail.iter().any(|trail| trail.paths.iter().any(|of| path.starts_with(of)))
                    };
                    event.paths.iter().any(on_trail)
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
