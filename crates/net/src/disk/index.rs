//! The index in front of a directory object's bytes.
use std::collections::BTreeSet;
use tributary_content::Access;
use tributary_core::printable;

use super::staging::is_reserved;

/// Every directory, file and link below a published directory, in the order of their paths.
///
/// An index from [`DirectoryIndex::decode`] or [`DirectoryIndex::new`] is safe to unpack below any directory: no path
/// leaves it, every parent comes before its children, and no link leads out.
///
/// Encoded, all numbers big-endian:
/// ```text
///   magic "TrD", layout | bytes of the whole index, u32 | entries, u32 | entry | entry | …
///
///   entry:  kind + 16 · access, u8 | bytes of the path, u16 | path | detail
///           0 file              size, u64
///           1 executable file   size, u64
///           2 directory         –
///           3 symbolic link     bytes of the target, u16 | target
/// ```
/// Layout 2 has an access ([`Access::number`]) other than 0 in at least one entry; layout 1, which earlier versions of
/// this program read as well, has only 0. The files' bytes follow the index, back to back in the same order. The index
/// keeps only two parts of a file's mode: "executable", as git does, and who else may read it; for the rest the
/// receiver's umask decides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectoryIndex {
    entries: Vec<IndexEntry>,
}

/// One line of an index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexEntry {
    /// The path below the directory, without a slash in front; any bytes that a file name may have.
    pub path: Vec<u8>,
    /// Its kind.
    pub kind: EntryKind,
}

/// The index's record of a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EntryKind {
    /// A file of `size` bytes.
    File {
        /// Its bytes.
        size: u64,
        /// Whether its owner may execute it.
        mode: FileMode,
        /// Who may read it.
        access: Access,
    },
    /// A directory.
    Directory {
        /// Who may look into it.
        access: Access,
    },
    /// A symbolic link that stays below the directory.
    Link {
        /// Where it leads, relative to its own directory.
        target: Vec<u8>,
    },
}

/// The part of a file's mode that is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileMode {
    /// Data.
    Plain,
    /// A program.
    Executable,
}

impl DirectoryIndex {
    /// Maximum entries of an index.
    pub const ENTRIES_MAX: usize = 100_000;
    /// Bytes of the longest encoded index: 16 MiB.
    pub const BYTES_MAX: usize = 16 << 20;
    /// Bytes of the longest path and of the longest target of a link.
    pub const PATH_BYTES_MAX: usize = 4096;
    /// Maximum directories in a path.
    pub const DEPTH_MAX: usize = 64;
    /// Bytes of the encoded index that contain its length: enough for [`DirectoryIndex::encoded_len`].
    pub const HEADER_BYTES: usize = 12;

    /// Sorts and checks the entries.
    ///
    /// # Errors
    /// A sentence names the entry and the rule that it breaks.
    pub fn new(mut entries: Vec<IndexEntry>) -> Result<Self, String> {
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        let index = DirectoryIndex { entries };
        index.check()?;
        Ok(index)
    }
    /// Reads an index from an untrusted source. `bytes` are exactly the index.
    ///
    /// # Errors
    /// A sentence describes the malformed part, or names the entry and the rule that it breaks.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        if Self::encoded_len(bytes)? != bytes.len() {
            return Err(malformed("length"));
        }
        let mut rest = &bytes[8..];
        let count = u32::from_be_bytes(take_array(&mut rest, "entries")?);
        let mut entries = Vec::new();
        for _ in 0..count {
            let [kind] = take_array(&mut rest, "kind")?;
            let path = take_string(&mut rest, "path")?;
            let access = Access::from_number(kind >> 4).ok_or_else(|| malformed("access"))?;
            let kind = match kind & 0x0f {
                kind @ (0 | 1) => EntryKind::File {
                    size: u64::from_be_bytes(take_array(&mut rest, "size")?),
                    mode: if kind == 1 { FileMode::Executable } else { FileMode::Plain },
                    access,
                },
                2 => EntryKind::Directory { access },
                3 if access == Access::Everybody => EntryKind::Link { target: take_string(&mut rest, "target")? },
                _ => return Err(malformed("kind")),
            };
            entries.push(IndexEntry { path, kind });
        }
        if !rest.is_empty() {
            return Err(malformed("end"));
        }
        let index = DirectoryIndex { entries };
        index.check()?;
        // One index has one encoding.
        if bytes[MAGIC.len()] != index.layout() {
            return Err(malformed("layout"));
        }
        Ok(index)
    }
    /// The length of the index in bytes, from its first [`DirectoryIndex::HEADER_BYTES`] bytes.
    ///
    /// # Errors
    /// A sentence if these bytes do not start an index, or it would be too long or have too many entries.
    pub fn encoded_len(header: &[u8]) -> Result<usize, String> {
        let mut rest = header;
        if take_array(&mut rest, "magic")? != *MAGIC {
            return Err(malformed("magic"));
        }
        if !matches!(take_array(&mut rest, "layout")?, [LAYOUT_OPEN | LAYOUT_RESTRICTED]) {
            return Err(malformed("layout"));
        }
        let length = u32::from_be_bytes(take_array(&mut rest, "length")?) as usize;
        if !(Self::HEADER_BYTES..=Self::BYTES_MAX).contains(&length) {
            return Err(too_long(length));
        }
        let count = u32::from_be_bytes(take_array(&mut rest, "entries")?) as usize;
        if count > Self::ENTRIES_MAX {
            return Err(too_many(count));
        }
        Ok(length)
    }
    /// The canonical bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.byte_count());
        bytes.extend_from_slice(MAGIC);
        bytes.push(self.layout());
        bytes.extend_from_slice(&u32::try_from(self.byte_count()).expect("check() saw to it").to_be_bytes());
        bytes.extend_from_slice(&u32::try_from(self.entries.len()).expect("check() saw to it").to_be_bytes());
        let push_string = |bytes: &mut Vec<u8>, string: &[u8]| {
            bytes.extend_from_slice(&u16::try_from(string.len()).expect("check() saw to it").to_be_bytes());
            bytes.extend_from_slice(string);
        };
        for entry in &self.entries {
            let kind = match entry.kind {
                EntryKind::File { mode: FileMode::Plain, .. } => 0,
                EntryKind::File { mode: FileMode::Executable, .. } => 1,
                EntryKind::Directory { .. } => 2,
                EntryKind::Link { .. } => 3,
            };
            bytes.push(entry.access().number() << 4 | kind);
            push_string(&mut bytes, &entry.path);
            match &entry.kind {
                EntryKind::File { size, .. } => bytes.extend_from_slice(&size.to_be_bytes()),
                EntryKind::Directory { .. } => {}
                EntryKind::Link { target } => push_string(&mut bytes, target),
            }
        }
        bytes
    }

    /// The entries in the order of their paths.
    pub fn entries(&self) -> &[IndexEntry] {
        &self.entries
    }
    /// Bytes of all files together.
    pub fn content_bytes(&self) -> u64 {
        self.entries.iter().map(IndexEntry::content_bytes).sum()
    }

    fn layout(&self) -> u8 {
        let is_open = self.entries.iter().all(|entry| entry.access() == Access::Everybody);
        if is_open { LAYOUT_OPEN } else { LAYOUT_RESTRICTED }
    }
    fn byte_count(&self) -> usize {
        let of_entry = |entry: &IndexEntry| match &entry.kind {
            EntryKind::File { .. } => 8,
            EntryKind::Directory { .. } => 0,
            EntryKind::Link { target } => 2 + target.len(),
        };
        Self::HEADER_BYTES + self.entries.iter().map(|entry| 3 + entry.path.len() + of_entry(entry)).sum::<usize>()
    }
    fn check(&self) -> Result<(), String> {
        if self.entries.len() > Self::ENTRIES_MAX {
            return Err(too_many(self.entries.len()));
        }
        let mut directories: BTreeSet<&[u8]> = BTreeSet::from([&b""[..]]);
        let (mut previous, mut total): (&[u8], u64) = (b"", 0);
        for entry in &self.entries {
            let path = &entry.path[..];
            let refuse = |rule| format!("'{}': {rule}", shown(path));
            check_path(path).map_err(refuse)?;
            if path <= previous {
                return Err(refuse("it is out of order or there twice"));
            }
            let parent = path.iter().rposition(|byte| *byte == b'/').map_or(&b""[..], |slash| &path[..slash]);
            if !directories.contains(parent) {
                return Err(refuse("its parent is not a directory of the index"));
            }
            total = match &entry.kind {
                EntryKind::File { size, .. } => total.checked_add(*size),
                EntryKind::Directory { .. } => {
                    directories.insert(path);
                    Some(total)
                }
                EntryKind::Link { target } => {
                    check_target(path, target).map_err(refuse)?;
                    Some(total)
                }
            }
            .ok_or_else(|| malformed("size"))?;
            previous = path;
        }
        let have = self.byte_count();
        if have > Self::BYTES_MAX { Err(too_long(have)) } else { Ok(()) }
    }
}
impl IndexEntry {
    /// Who may read it where it is unpacked.
    pub fn access(&self) -> Access {
        match self.kind {
            EntryKind::File { access, .. } | EntryKind::Directory { access } => access,
            EntryKind::Link { .. } => Access::Everybody,
        }
    }
    /// Bytes that the entry has behind the index.
    pub fn content_bytes(&self) -> u64 {
        match self.kind {
            EntryKind::File { size, .. } => size,
            EntryKind::Directory { .. } | EntryKind::Link { .. } => 0,
        }
    }
}

fn check_path(path: &[u8]) -> Result<(), &'static str> {
    if path.len() > DirectoryIndex::PATH_BYTES_MAX {
        return Err("its path has more than 4,096 bytes");
    }
    let mut depth = 0;
    for component in path.split(|byte| *byte == b'/') {
        depth += 1;
        match component {
            b"" => return Err("a component of its path is empty"),
            b"." | b".." => return Err("its path has '.' or '..' in it"),
            _ if component.len() > 255 => return Err("a component of its path has more than 255 bytes"),
            _ if component.contains(&0) => return Err("its path has a zero byte in it"),
            _ if is_reserved(component) => return Err("a component of its path is kept for unfinished downloads"),
            _ if depth > DirectoryIndex::DEPTH_MAX => return Err("it is more than 64 directories deep"),
            _ => {}
        }
    }
    Ok(())
}
/// A link may climb with `..` at its start only, and not above the directory that is unpacked; after that it only
/// descends. Links passed on that descent obey the same rule, so no chain of them leads out. A `..` after a component
/// is refused because that component may be a link, and then `..` leads elsewhere than it seems.
pub(super) fn check_target(path: &[u8], target: &[u8]) -> Result<(), &'static str> {
    if target.len() > DirectoryIndex::PATH_BYTES_MAX {
        return Err("the target of the link has more than 4,096 bytes");
    }
    let depth = path.iter().filter(|byte| **byte == b'/').count();
    let (mut climbed, mut descends) = (0, false);
    for component in target.split(|byte| *byte == b'/') {
        match component {
            b"" => return Err("the link is absolute, or a component of its target is empty"),
            b"." if target == b"." => descends = true,
            b"." => return Err("the target of the link has '.' in it"),
            b".." if descends => return Err("the target of the link has '..' after a component"),
            b".." => climbed += 1,
            _ if component.len() > 255 => return Err("a component of the link's target has more than 255 bytes"),
            _ if component.contains(&0) => return Err("the target of the link has a zero byte in it"),
            _ => descends = true,
        }
    }
    if climbed > depth { Err("the link leads out of the directory") } else { Ok(()) }
}
fn malformed(field: &str) -> String {
    format!("the index of the directory is malformed at its {field}")
}
fn too_many(have: usize) -> String {
    format!("a directory has at most {} entries, not {have}", DirectoryIndex::ENTRIES_MAX)
}
fn too_long(have: usize) -> String {
    format!("the index of a directory has at most {} bytes, not {have}", DirectoryIndex::BYTES_MAX)
}
fn shown(path: &[u8]) -> String {
    printable::escape(&String::from_utf8_lossy(&path[..path.len().min(200)])).into_owned()
}
fn take_array<const N: usize>(rest: &mut &[u8], field: &'static str) -> Result<[u8; N], String> {
    let (array, after) = rest.split_first_chunk().ok_or_else(|| malformed(field))?;
    *rest = after;
    Ok(*array)
}
fn take_string(rest: &mut &[u8], field: &'static str) -> Result<Vec<u8>, String> {
    let length = u16::from_be_bytes(take_array(rest, field)?);
    let (string, after) = rest.split_at_checked(usize::from(length)).ok_or_else(|| malformed(field))?;
    *rest = after;
    Ok(string.to_vec())
}

const MAGIC: &[u8; 3] = b"TrD";
/// Everybody may read everything.
const LAYOUT_OPEN: u8 = 1;
/// Some entries are restricted.
const LAYOUT_RESTRICTED: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, size: u64) -> IndexEntry {
        restricted(path, size, Access::Everybody)
    }
    fn restricted(path: &str, size: u64, access: Access) -> IndexEntry {
        IndexEntry { path: path.into(), kind: EntryKind::File { size, mode: FileMode::Plain, access } }
    }
    fn folder(path: &str) -> IndexEntry {
        IndexEntry { path: path.into(), kind: EntryKind::Directory { access: Access::Everybody } }
    }
    fn link(path: &str, target: &str) -> IndexEntry {
        IndexEntry { path: path.into(), kind: EntryKind::Link { target: target.into() } }
    }
    fn rule(entries: Vec<IndexEntry>) -> Option<String> {
        DirectoryIndex::new(entries).err().map(|error| error.to_string())
    }

    #[test]
    fn golden_index_parses_and_is_emitted_byte_for_byte() {
        let golden = [
            &b"TrD\x01\0\0\0\x33\0\0\0\x04"[..],
            b"\x02\0\x01d",
            b"\x01\0\x03d/x\0\0\0\0\0\0\x01\x02",
            b"\x00\0\x01f\0\0\0\0\0\0\0\x03",
            b"\x03\0\x01l\0\x03d/x",
        ]
        .concat();
        let index = DirectoryIndex::new(vec![
            link("l", "d/x"),
            file("f", 3),
            folder("d"),
            IndexEntry {
                path: "d/x".into(),
                kind: EntryKind::File { size: 258, mode: FileMode::Executable, access: Access::Everybody },
            },
        ])
        .expect("legal");
        assert_eq!(index.encode(), golden);
        assert_eq!(DirectoryIndex::decode(&golden), Ok(index.clone()));
        assert_eq!(index.content_bytes(), 261);
    }

    #[test]
    fn golden_index_of_private_things_parses_and_is_emitted_byte_for_byte() {
        let golden = [
            &b"TrD\x02\0\0\0\x23\0\0\0\x03"[..],
            b"\x22\0\x01d",
            b"\x10\0\x01f\0\0\0\0\0\0\0\x03",
            b"\x03\0\x01l\0\x01f",
        ]
        .concat();
        let private = IndexEntry { path: "d".into(), kind: EntryKind::Directory { access: Access::Owner } };
        let index = DirectoryIndex::new(vec![private, restricted("f", 3, Access::Group), link("l", "f")]);
        let index = index.expect("legal");
        assert_eq!(index.encode(), golden);
        assert_eq!(DirectoryIndex::decode(&golden), Ok(index));
        for (at, byte) in [(3, 1), (3, 3), (12, 0x32), (28, 0x13)] {
            let mut wrong = golden.clone();
            wrong[at] = byte;
            assert!(DirectoryIndex::decode(&wrong).is_err(), "{at}");
        }
    }

    #[test]
    fn paths_that_could_leave_the_directory_are_refused() {
        for path in ["", "/etc/passwd", "..", "../x", "d/../x", "d/..", ".", "./x", "d//x", "d/", "d/x\0y"] {
            assert!(rule(vec![folder("d"), file(path, 1)]).is_some(), "{path:?}");
        }
        let parent = "its parent is not a directory of the index";
        for parents in [vec![], vec![file("d", 1)], vec![link("d", "e")]] {
            let error = rule([parents, vec![file("d/x", 1)]].concat());
            assert!(error.is_some_and(|error| error.contains(parent)));
        }
        for path in [".tributary-0", ".Tributary-x/y", "d/.TRIBUTARY-"] {
            let error = rule(vec![folder("d"), folder(".Tributary-x"), file(path, 1)]);
            assert!(error.is_some_and(|error| error.contains("unfinished downloads")), "{path}");
        }
        assert!(rule(vec![file("a", 1), file("a", 1)]).is_some_and(|error| error.contains("twice")));
        assert_eq!(rule(vec![folder("d"), file("d/x", 1), file("d-", 1), file("..x", 1), file("...", 1)]), None);
    }

    #[test]
    fn links_that_could_lead_out_are_refused() {
        for (path, target) in [
            ("l", "/etc"),
            ("l", ".."),
            ("l", "../x"),
            ("d/l", "../.."),
            ("d/l", "../../x"),
            ("l", "x/.."),
            ("d/l", "../x/../.."),
            ("l", ""),
            ("l", "x//y"),
            ("l", "x/"),
            ("l", "x/./y"),
            ("l", "a\0b"),
        ] {
            assert!(rule(vec![folder("d"), link(path, target)]).is_some(), "{path} -> {target}");
        }
        for (path, target) in [("l", "x"), ("l", "."), ("d/l", ".."), ("d/l", "../x"), ("l", "d/y"), ("l", "..x")] {
            assert_eq!(rule(vec![folder("d"), link(path, target)]), None, "{path} -> {target}");
        }
    }

    #[test]
    fn limits_hold_exactly() {
        let longest = "a".repeat(255);
        assert_eq!(rule(vec![file(&longest, 1)]), None);
        assert!(rule(vec![file(&format!("{longest}a"), 1)]).is_some());
        let deep = |depth: usize| (1..=depth).map(|count| folder(&vec!["a"; count].join("/"))).collect();
        assert_eq!(rule(deep(DirectoryIndex::DEPTH_MAX)), None);
        assert!(rule(deep(DirectoryIndex::DEPTH_MAX + 1)).is_some());
        let many = |count: usize| (0..count).map(|number| file(&number.to_string(), 0)).collect();
        assert_eq!(rule(many(DirectoryIndex::ENTRIES_MAX)), None);
        assert!(rule(many(DirectoryIndex::ENTRIES_MAX + 1)).is_some());
        assert!(rule(vec![file("a", u64::MAX), file("b", 1)]).is_some(), "sizes that overflow");
        let header = |length: usize, entries: usize| {
            let numbers = [length, entries].map(|number| u32::try_from(number).expect("small").to_be_bytes());
            DirectoryIndex::encoded_len(&[&b"TrD\x01"[..], &numbers.concat()].concat())
        };
        let (longest, most) = (DirectoryIndex::BYTES_MAX, DirectoryIndex::ENTRIES_MAX);
        assert_eq!(header(longest, most), Ok(longest));
        assert!(header(longest + 1, 0).is_err() && header(11, 0).is_err());
        assert_eq!(header(longest, most + 1), Err(too_many(most + 1)));
    }
}
