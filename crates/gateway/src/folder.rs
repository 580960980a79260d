//! Folders: their index, and how they are shown.
use std::{collections::BTreeMap, fmt::Write, ops::Range};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use tributary_net::disk::{
    CachedObject,
    index::{DirectoryIndex, EntryKind},
};

use crate::{config::GatewayConfig, sessions::Failure};

/// Maximum links followed.
const LINKS_MAX: usize = 8;

/// The index of a folder object, with the place of each file in the object.
#[derive(Debug)]
pub(crate) struct Folder {
    entries: BTreeMap<Vec<u8>, Entry>,
}
#[derive(Clone, PartialEq, Eq, Debug)]
enum Entry {
    File(Range<u64>),
    Folder,
    Link(Vec<u8>),
}

/// The entry at a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// A file, at these bytes of the object.
    File(Range<u64>),
    /// A folder: its path with a slash at its end; empty for the root.
    Folder(Vec<u8>),
}
/// A line of a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Line {
    pub(crate) name: Vec<u8>,
    /// The bytes of a file; `None` for a folder.
    pub(crate) size: Option<u64>,
}

impl Folder {
    /// Reads the index, which is at the beginning of the object.
    pub(crate) async fn read(object: &CachedObject, config: &GatewayConfig) -> Result<Folder, Failure> {
        let header = bytes(object, 0..DirectoryIndex::HEADER_BYTES as u64, config).await?;
        let broken =
            |error: &dyn std::fmt::Display| Failure::new(502, format!("the index of the folder is broken: {error}"));
        let len = DirectoryIndex::encoded_len(&header).map_err(|error| broken(&error))?;
        let index = bytes(object, 0..len as u64, config).await?;
        let index = DirectoryIndex::decode(&index).map_err(|error| broken(&error))?;
        if len as u64 + index.content_bytes() != object.size() {
            return Err(broken(&"it has another size than the object"));
        }
        let mut at = len as u64;
        let entries = index.entries().iter().map(|entry| {
            let kind = match &entry.kind {
                EntryKind::File { size, .. } => {
                    let first = at;
                    at += size;
                    Entry::File(first..at)
                }
                EntryKind::Directory { .. } => Entry::Folder,
                EntryKind::Link { target } => Entry::Link(target.clone()),
            };
            (entry.path.clone(), kind)
        });
        Ok(Folder { entries: entries.collect() })
    }
    /// Where a path below the folder leads. It lists nothing: links in a folder may lead to the folder itself.
    pub(crate) fn find(&self, path: &[Vec<u8>]) -> Option<Found> {
        let mut left: Vec<Vec<u8>> = path.iter().rev().cloned().collect();
        let (mut at, mut links): (Vec<Vec<u8>>, usize) = (Vec::new(), 0);
        while let Some(next) = left.pop() {
            match &next[..] {
                b"" | b"." => continue,
                b".." => {
                    at.pop()?;
                    continue;
                }
                _ => at.push(next),
            }
            match self.entries.get(&at.join(&b'/')) {
                Some(Entry::Link(target)) => {
                    links += 1;
                    if links > LINKS_MAX {
                        return None;
                    }
                    at.pop();
                    left.extend(target.split(|byte| *byte == b'/').rev().map(<[u8]>::to_vec));
                }
                Some(Entry::Folder) => {}
                Some(Entry::File(range)) => return left.is_empty().then(|| Found::File(range.clone())),
                None => return None,
            }
        }
        let mut prefix = at.join(&b'/');
        if !prefix.is_empty() {
            prefix.push(b'/');
        }
        Some(Found::Folder(prefix))
    }
    /// The direct entries of the folder whose paths begin with `prefix`.
    pub(crate) fn lines(&self, prefix: &[u8]) -> Vec<Line> {
        let inside = self.entries.range(prefix.to_vec()..).take_while(|(path, _)| path.starts_with(prefix));
        let direct = inside.filter(|(path, _)| !path[prefix.len()..].contains(&b'/') && path.len() > prefix.len());
        let lines = direct.map(|(path, entry)| {
            let size = match entry {
                Entry::File(range) => Some(range.end - range.start),
                Entry::Folder => None,
                Entry::Link(_) => {
                    let path: Vec<Vec<u8>> = path.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect();
                    match self.find(&path) {
                        Some(Found::File(range)) => Some(range.end - range.start),
                        Some(Found::Folder(_)) | None => None,
                    }
                }
            };
            Line { name: path[prefix.len()..].to_vec(), size }
        });
        lines.collect()
    }
}

/// Bytes of an object, once they have arrived.
async fn bytes(object: &CachedObject, range: Range<u64>, config: &GatewayConfig) -> Result<bytes::Bytes, Failure> {
    if range.end > object.size() {
        return Err(Failure::new(502, "the index of the folder is cut"));
    }
    let mut reader = object.reader();
    let mut at = range.start;
    while at < range.end {
        reader.want(at, range.end);
        let here = std::future::poll_fn(|context| reader.poll_here(context, at, range.end));
        at = match tokio::time::timeout(config.patience, here).await {
            Ok(Ok(here)) => here,
            Ok(Err(reason)) => return Err(Failure::new(504, reason)),
            Err(_) => return Err(Failure::new(504, "no source has sent the index of the folder in time")),
        };
    }
    let object = object.clone();
    let read = tokio::task::spawn_blocking(move || object.read(range)).await;
    match read.map_err(std::io::Error::other).and_then(|read| read) {
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(Failure::new(502, format!("the cache cannot be read: {error}"))),
    }
}

/// A folder as a page, whose links keep `query`.
pub(crate) fn page(title: &str, query: &str, lines: &[Line]) -> String {
    let (title, query) = (escape(title), escape(query));
    let mut page = format!(
        "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>{title}</title></head>\n<body><h1>{title}</h1>\n<table>\n<tr><td><a href=\"../{query}\">../</a></td><td></td></tr>\n"
    );
    for line in lines {
        let text = escape(&String::from_utf8_lossy(&line.name));
        let (slash, size) = line.size.map_or(("/", String::new()), |size| ("", size.to_string()));
        let link = encode(&line.name);
        let _ = writeln!(
            page,
            "<tr><td><a href=\"./{link}{slash}{query}\">{text}{slash}</a></td><td align=\"right\">{size}</td></tr>"
        );
    }
    page.push_str("</table></body></html>\n");
    page
}
/// A folder as JSON.
pub(crate) fn json(name: &str, lines: &[Line]) -> String {
    let line = |line: &Line| {
        let kind = if line.size.is_some() { "file" } else { "directory" };
        serde_json::json!({
            "name": String::from_utf8_lossy(&line.name),
            "path": encode(&line.name),
            "type": kind,
            "size": line.size,
        })
    };
    let entries: Vec<serde_json::Value> = lines.iter().map(line).collect();
    format!("{}\n", serde_json::json!({ "name": name, "entries": entries }))
}
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}
/// What a component of a path has as percent signs.
const OF_COMPONENTS: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'+');
/// A component of a path, percent-encoded.
pub(crate) fn encode(bytes: &[u8]) -> String {
    percent_encode(bytes, &OF_COMPONENTS).to_string()
}
/// The bytes of a text; `None` if a percent sign is not followed by two hexadecimal digits.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let is_digits = |rest: &str| rest.as_bytes().get(..2).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit));
    text.split('%').skip(1).all(is_digits).then(|| percent_decode_str(text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_the_folders_that_they_are_in_are_listed_and_lead_there() {
        let entries = [
            ("d", Entry::Folder),
            ("d/file", Entry::File(100..103)),
            ("d/up", Entry::Link(b"..".to_vec())),
            ("latest", Entry::Link(b".".to_vec())),
            ("to-file", Entry::Link(b"latest/d/file".to_vec())),
        ];
        let folder = Folder { entries: entries.map(|(path, entry)| (path.as_bytes().to_vec(), entry)).into() };
        let find = |path: &str| folder.find(&path.split('/').map(|part| part.as_bytes().to_vec()).collect::<Vec<_>>());
        let line = |name: &str, size| Line { name: name.into(), size };
        let listed = |path: &str| match find(path) {
            Some(Found::Folder(prefix)) => folder.lines(&prefix),
            found => panic!("'{path}' is {found:?}"),
        };
        for path in ["", "latest", "d/up/latest", "latest/latest/d/up"] {
            let root = [line("d", None), line("latest", None), line("to-file", Some(3))];
            assert_eq!(listed(path), root, "{path}");
        }
        assert_eq!(listed("d"), [line("file", Some(3)), line("up", None)]);
        assert_eq!(find("latest/to-file"), Some(Found::File(100..103)));
        assert_eq!(find(&["latest"; 9].join("/")), None, "more links than are followed");
    }
}
