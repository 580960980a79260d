//! The part of a folder to fetch: a path in it, and patterns that include and exclude entries.
//!
//! ```text
//!   index ──► entries below the path ──► those that patterns want ──► byte ranges, of which only the chunks are fetched
//! ```
use std::{collections::BTreeSet, fmt, fmt::Write, ops::Range, path::Path};

use globset::{GlobBuilder, GlobMatcher};
use tributary_content::{Access, Hash, ObjectKind, StoreError};

use super::index::{DirectoryIndex, EntryKind, IndexEntry, check_target};

/// Patterns that one selection may have, of each kind.
pub const PATTERNS_MAX: usize = 64;
/// Bytes of the longest pattern.
pub const PATTERN_BYTES_MAX: usize = 1_024;

/// A part of a folder: the entries at or below a path in it that the patterns select.
///
/// Patterns have the meaning of lines in a `.gitignore`: `*`, `?` and `[a-z]` match no slash, `**` matches any number
/// of folders, and `{a,b}` either; a pattern without a slash in it matches at any depth, any other from the path of the
/// selection on; a pattern that ends with a slash matches folders only; a pattern that matches a folder matches
/// everything in it.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    below: String,
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
}

#[derive(Clone)]
struct Pattern {
    text: String,
    matcher: GlobMatcher,
    only_folders: bool,
}

impl Pattern {
    fn new(text: &str) -> Result<Pattern, String> {
        let wrong = |reason: &str| format!("'{text}' is no pattern: {reason}");
        if text.len() > PATTERN_BYTES_MAX {
            return Err(wrong("it has more than 1,024 bytes"));
        }
        if text.starts_with('!') {
            return Err(wrong("'!' has no meaning here; --exclude takes away what --include gives"));
        }
        let body = text.strip_suffix('/').unwrap_or(text);
        let is_anchored = body.contains('/');
        let body = body.strip_prefix('/').unwrap_or(body);
        if body.is_empty() {
            return Err(wrong("it is empty"));
        }
        let glob = if is_anchored { body.to_string() } else { format!("**/{body}") };
        let built = GlobBuilder::new(&glob).literal_separator(true).backslash_escape(true).build();
        let matcher = built.map_err(|error| wrong(&error.kind().to_string()))?.compile_matcher();
        Ok(Pattern { text: text.into(), matcher, only_folders: text.ends_with('/') })
    }
    /// Whether it matches the path or a folder on the way to it.
    fn matches(&self, path: &[u8], is_folder: bool) -> bool {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let is_match = |path: &[u8]| self.matcher.is_match(as_path(path));
        slashes.map(|at| &path[..at]).any(is_match) || (is_folder || !self.only_folders) && is_match(path)
    }
}
impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl Selection {
    /// The entries at or below `below`, a path with slashes, empty for the whole folder: those that match a pattern of
    /// `include`, or all if it is empty, except those that match a pattern of `exclude`.
    ///
    /// # Errors
    /// A sentence names the pattern that is malformed.
    pub fn new(below: &str, include: &[String], exclude: &[String]) -> Result<Selection, String> {
        let patterns = |texts: &[String]| match texts.len() {
            have if have > PATTERNS_MAX => {
                Err(format!("a fetch takes at most {PATTERNS_MAX} patterns of a kind, not {have}"))
            }
            _ => texts.iter().map(|text| Pattern::new(text)).collect(),
        };
        let below = below.split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
        Ok(Selection { below, include: patterns(include)?, exclude: patterns(exclude)? })
    }
    /// Whether a copy of the whole folder contains the selected part at the same place.
    pub(super) fn is_of_all(&self) -> bool {
        self.below.is_empty()
    }
    /// The fingerprint of this selection from an object with the fingerprint `of`.
    pub(super) fn fingerprint(&self, of: &Hash) -> Hash {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"part of a folder").update(&of.0);
        let mut add = |text: &str| _ = hasher.update(&(text.len() as u64).to_be_bytes()).update(text.as_bytes());
        add(&self.below);
        for patterns in [&self.include, &self.exclude] {
            add(&patterns.len().to_string());
            patterns.iter().for_each(|pattern| add(&pattern.text));
        }
        Hash(*hasher.finalize().as_bytes())
    }
    /// The selected entries of a folder; `index_bytes` is the length of its encoded index, and `access` is the folder's
    /// access.
    ///
    /// # Errors
    /// [`StoreError::Absent`] if nothing is at the path, or no entry matches.
    pub(super) fn select(
        &self,
        index: &DirectoryIndex,
        index_bytes: u64,
        access: Access,
    ) -> Result<Selected, StoreError> {
        let all = placed(index, index_bytes);
        let absent = |reason: String| StoreError::Absent { reason };
        let at = index.entries().binary_search_by(|entry| entry.path[..].cmp(self.below.as_bytes()));
        let access = self.ways(index).fold(access, |access, entry| access.max(entry.access()));
        let there = match at {
            _ if self.below.is_empty() => None,
            Ok(at) => Some(&all[at]),
            Err(_) => return Err(absent(format!("there is no '{}' in the folder", self.below))),
        };
        match there.map(|(entry, start)| (&entry.kind, *start)) {
            Some((EntryKind::File { .. }, _)) if !self.include.is_empty() || !self.exclude.is_empty() => {
                Err(absent(format!("'{}' is a file, and patterns choose from a folder", self.below)))
            }
            Some((EntryKind::File { .. }, start)) => {
                let kind = there.map(|(entry, _)| entry.kind.clone());
                let entries = kind.into_iter().map(|kind| SelectedEntry { path: Vec::new(), kind, start }).collect();
                Ok(Selected { kind: ObjectKind::File, access, entries })
            }
            Some((EntryKind::Link { target }, _)) => {
                let target = String::from_utf8_lossy(target).into_owned();
                Err(absent(format!("'{}' is a link to '{target}'; fetch that", self.below)))
            }
            Some((EntryKind::Directory { .. }, _)) | None => self.select_below(&all, access),
        }
    }
    /// The entries that the path passes, itself included.
    fn ways<'a>(&self, index: &'a DirectoryIndex) -> impl Iterator<Item = &'a IndexEntry> {
        let below = self.below.clone();
        let ends = below.match_indices('/').map(|(at, _)| at).chain([below.len()]).collect::<Vec<_>>();
        ends.into_iter().filter_map(move |end| {
            let at = index.entries().binary_search_by(|entry| entry.path[..].cmp(&below.as_bytes()[..end]));
            at.ok().map(|at| &index.entries()[at])
        })
    }
    fn select_below(&self, all: &[(&IndexEntry, u64)], access: Access) -> Result<Selected, StoreError> {
        let prefix = if self.below.is_empty() { String::new() } else { format!("{}/", self.below) };
        let mut is_used = vec![false; self.include.len()];
        let mut folders: BTreeSet<&[u8]> = BTreeSet::new();
        let (mut inside, mut wanted) = (Vec::new(), BTreeSet::new());
        for (entry, start) in all {
            let Some(path) = entry.path.strip_prefix(prefix.as_bytes()) else { continue };
            let is_folder = matches!(entry.kind, EntryKind::Directory { .. });
            let mut is_wanted = self.include.is_empty();
            for (pattern, is_used) in self.include.iter().zip(&mut is_used) {
                if pattern.matches(path, is_folder) {
                    (*is_used, is_wanted) = (true, true);
                }
            }
            if let EntryKind::Link { target } = &entry.kind
                && let Err(reason) = check_target(path, target)
            {
                tracing::warn!("'{}' is left out: {reason}", String::from_utf8_lossy(&entry.path));
                continue;
            }
            inside.push((path, &entry.kind, *start));
            if is_wanted && !self.exclude.iter().any(|pattern| pattern.matches(path, is_folder)) {
                wanted.insert(path);
                let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
                folders.extend(slashes.map(|(at, _)| &path[..at]));
            }
        }
        if let Some((pattern, _)) = self.include.iter().zip(&is_used).find(|(_, is_used)| !**is_used) {
            let place = if self.below.is_empty() { String::new() } else { format!(" below '{}'", self.below) };
            return Err(StoreError::Absent {
                reason: format!("'{}' matches nothing in the folder{place}", pattern.text),
            });
        }
        if wanted.is_empty() && !inside.is_empty() {
            let reason = "the patterns exclude everything that was selected";
            return Err(StoreError::Absent { reason: reason.into() });
        }
        let is_selected = |(path, kind, _): &(&[u8], &EntryKind, u64)| {
            wanted.contains(path) || matches!(kind, EntryKind::Directory { .. }) && folders.contains(path)
        };
        let selected = inside.into_iter().filter(is_selected);
        let entries =
            selected.map(|(path, kind, start)| SelectedEntry { path: path.to_vec(), kind: kind.clone(), start });
        Ok(Selected { kind: ObjectKind::Directory, access, entries: entries.collect() })
    }
}
impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        if !self.below.is_empty() {
            let _ = write!(text, " {}", self.below);
        }
        for (option, patterns) in [("--include", &self.include), ("--exclude", &self.exclude)] {
            for pattern in patterns {
                let _ = write!(text, " {option} '{}'", pattern.text);
            }
        }
        f.write_str(text.trim_start())
    }
}

/// The entries of a folder object to unpack.
#[derive(Clone, Debug)]
pub(super) struct Selected {
    /// A folder, or a single file.
    pub(super) kind: ObjectKind,
    /// Who may read the result.
    pub(super) access: Access,
    /// The entries, each behind the folder that it is in. A single file has an empty path.
    pub(super) entries: Vec<SelectedEntry>,
}

/// An entry, and its destination.
#[derive(Clone, Debug)]
pub(super) struct SelectedEntry {
    /// Its path below the result.
    pub(super) path: Vec<u8>,
    pub(super) kind: EntryKind,
    /// The start of a file's bytes in the object.
    pub(super) start: u64,
}

impl Selected {
    /// All of a folder.
    pub(super) fn all(index: &DirectoryIndex, index_bytes: u64, access: Access) -> Selected {
        let entries = placed(index, index_bytes).into_iter().map(|(entry, start)| SelectedEntry {
            path: entry.path.clone(),
            kind: entry.kind.clone(),
            start,
        });
        Selected { kind: ObjectKind::Directory, access, entries: entries.collect() }
    }
    /// The bytes of the wanted files in the object, ascending; those that touch are one range.
    pub(super) fn bytes(&self) -> Vec<Range<u64>> {
        let mut joined: Vec<Range<u64>> = Vec::new();
        for entry in &self.entries {
            let EntryKind::File { size, .. } = entry.kind else { continue };
            match joined.last_mut() {
                Some(last) if last.end == entry.start => last.end += size,
                _ if size > 0 => joined.push(entry.start..entry.start + size),
                _ => {}
            }
        }
        joined
    }
}

/// The entries of an index, and the starts of their bytes in the object.
fn placed(index: &DirectoryIndex, index_bytes: u64) -> Vec<(&IndexEntry, u64)> {
    let mut at = index_bytes;
    let place = |entry| {
        let start = at;
        at += IndexEntry::content_bytes(entry);
        (entry, start)
    };
    index.entries().iter().map(place).collect()
}
fn as_path(bytes: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::{super::index::FileMode, *};

    fn index() -> DirectoryIndex {
        let file = |path: &str, size, access| IndexEntry {
            path: path.into(),
            kind: EntryKind::File { size, mode: FileMode::Plain, access },
        };
        let folder = |path: &str, access| IndexEntry { path: path.into(), kind: EntryKind::Directory { access } };
        let link = |path: &str, target: &str| IndexEntry {
            path: path.into(),
            kind: EntryKind::Link { target: target.into() },
        };
        DirectoryIndex::new(vec![
            file("a.csv", 10, Access::Everybody),
            folder("data", Access::Group),
            file("data/b.csv", 20, Access::Everybody),
            folder("data/old", Access::Owner),
            file("data/old/c.csv", 30, Access::Everybody),
            file("data/old/d.txt", 40, Access::Everybody),
            link("data/up", "../a.csv"),
            link("data/near", "old"),
            folder("empty", Access::Everybody),
            file("z.txt", 0, Access::Everybody),
        ])
        .expect("legal")
    }
    fn select(below: &str, include: &[&str], exclude: &[&str]) -> Result<Selected, String> {
        let texts = |of: &[&str]| of.iter().map(ToString::to_string).collect::<Vec<_>>();
        let selection = Selection::new(below, &texts(include), &texts(exclude)).map_err(|error| error.to_string())?;
        selection.select(&index(), 100, Access::Everybody).map_err(|error| error.to_string())
    }
    fn paths(selected: &Selected) -> Vec<&str> {
        selected.entries.iter().map(|entry| std::str::from_utf8(&entry.path).expect("text")).collect()
    }

    #[test]
    fn patterns_mean_what_gitignore_says() {
        for (include, exclude, meant) in [
            (&["*.csv"][..], &[][..], &["a.csv", "data", "data/b.csv", "data/old", "data/old/c.csv"][..]),
            (&["/*.csv"], &[], &["a.csv"]),
            (&["data/*"], &["old"], &["data", "data/b.csv", "data/near", "data/up"]),
            (&["data/**"], &["*.txt", "near", "up"], &["data", "data/b.csv", "data/old", "data/old/c.csv"]),
            (&["**/old"], &[], &["data", "data/old", "data/old/c.csv", "data/old/d.txt"]),
            (&["old/"], &[], &["data", "data/old", "data/old/c.csv", "data/old/d.txt"]),
            (&["{a,z}.*"], &[], &["a.csv", "z.txt"]),
            (&[], &["data/", "*.csv"], &["empty", "z.txt"]),
            (&["[a-b].csv", "z?txt"], &[], &["a.csv", "data", "data/b.csv", "z.txt"]),
        ] {
            let selected = select("", include, exclude).expect("something is left");
            assert_eq!(paths(&selected), meant, "{include:?} without {exclude:?}");
        }
    }

    #[test]
    fn a_path_in_a_folder_is_a_folder_or_a_file_and_no_more_readable_than_the_way_to_it() {
        let old = select("data/old", &[], &[]).expect("it is there");
        assert_eq!((old.kind, old.access, paths(&old)), (ObjectKind::Directory, Access::Owner, vec!["c.csv", "d.txt"]));
        assert_eq!(old.bytes(), [Range { start: 130, end: 200 }]);
        let data = select("/data/", &["*.csv"], &[]).expect("it is there");
        assert_eq!((data.access, paths(&data)), (Access::Group, vec!["b.csv", "old", "old/c.csv"]));
        let all = select("data", &[], &[]).expect("it is there");
        assert!(
            !paths(&all).contains(&"up") && paths(&all).contains(&"near"),
            "a link that would lead out is left out"
        );
        let file = select("data/old/d.txt", &[], &[]).expect("it is there");
        assert_eq!((file.kind, file.bytes()), (ObjectKind::File, vec![Range { start: 160, end: 200 }]));
        assert!(select("empty", &[], &[]).is_ok_and(|empty| empty.entries.is_empty() && empty.bytes().is_empty()));
    }

    #[test]
    fn what_matches_nothing_and_what_is_no_pattern_is_named() {
        for (below, include, exclude, expected) in [
            ("", &["*.csv", "*.png"][..], &[][..], "'*.png' matches nothing in the folder"),
            ("data", &["a.csv"], &[], "'a.csv' matches nothing in the folder below 'data'"),
            ("", &[], &["*"], "the patterns exclude everything"),
            ("nowhere/x", &[], &[], "there is no 'nowhere/x' in the folder"),
            ("data/up", &[], &[], "is a link to '../a.csv'"),
            ("a.csv", &["x"], &[], "is a file, and patterns choose from a folder"),
            ("", &["[a"], &[], "'[a' is no pattern: "),
            ("", &["!a"], &[], "--exclude takes away"),
            ("", &["/"], &[], "it is empty"),
            ("", &["x"; PATTERNS_MAX + 1], &[], "at most 64 patterns"),
        ] {
            let refused = select(below, include, exclude).expect_err("it is refused");
            assert!(refused.contains(expected), "{refused}");
        }
        assert!(select("", &[&"x".repeat(PATTERN_BYTES_MAX + 1)], &[]).is_err());
    }
}
