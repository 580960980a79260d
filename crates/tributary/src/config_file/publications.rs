//! The sections `[[publish]]`: each is one object, or a file with a list of them.
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs::{self, File},
    io::Read,
    os::unix::ffi::OsStrExt,
    path::Path,
};
use tributary_content::{BlindingKey, Name, PublicKey};

use super::sections::{Disk, READER_HINT};
use crate::config::{Limits, PublishConfig, published_name, reader::Section};

const LIST_BYTES_MAX: u64 = 256 << 20;
/// Mistakes in one list that are reported one by one.
const MISTAKES_MAX: usize = 10;
const LIST_HINT: &str = "each line is NAME<TAB>PATH; lines that begin with # are comments";

/// Reports publications beyond the limit.
pub(super) fn must_fit(root: &Section<'_>, publish: &[PublishConfig], limits: &Limits) {
    if publish.len() > limits.publications {
        let message = format!("the config publishes {} objects, {} are allowed", publish.len(), limits.publications);
        root.problem(root.span_of("limits"), message, "raise 'publications' in [limits]");
    }
}

/// Reads the sections one after the other.
pub(super) struct Publications<'a> {
    pub(super) folder: &'a Path,
    pub(super) disk: Disk,
    pub(super) key_groups: &'a BTreeMap<String, Vec<PublicKey>>,
    pub(super) blind: &'a BTreeMap<Name, BlindingKey>,
    pub(super) is_sender: bool,
}

impl Publications<'_> {
    /// Reads all of them.
    pub(super) fn read(&self, sections: Vec<Section<'_>>) -> Vec<PublishConfig> {
        let (mut names, mut read) = (BTreeSet::new(), Vec::new());
        for section in sections {
            if !self.is_sender {
                let message = "a node without the role sender publishes nothing";
                section.problem(section.span_of(""), message, "add \"sender\" to 'roles' of [node]");
            }
            match section.path("list", self.folder) {
                Some(list) => self.list(section, &list, &mut names, &mut read),
                None => read.extend(self.single(section, &mut names)),
            }
        }
        read
    }
    fn single(&self, section: Section<'_>, names: &mut BTreeSet<Name>) -> Option<PublishConfig> {
        let problem = |key: &str, message: String, hint: &str| {
            section.wrong(key, message, hint);
        };
        let name: Option<Name> = section.parsed("name", "write a name such as \"/lab/images/debian.iso\"");
        let name = name.and_then(|name| match self.published_name(&name, names) {
            Ok(name) => Some(name),
            Err(message) => {
                problem("name", message, "write another name");
                None
            }
        });
        let path = section.path("path", self.folder);
        section.require(&["name", "path"], "each [[publish]] has a name and a path, or a list of them in a file");
        if let Some(Err(message)) = path.as_deref().map(|path| self.check(path)) {
            problem("path", message, "name an existing file or folder");
        }
        let version = section.integer("version", 0..=i64::MAX as u64);
        let readers = self.readers(&section);
        let mirrors = section.texts("mirrors").unwrap_or_default();
        for url in &mirrors {
            if !url.value.starts_with("http://") && !url.value.starts_with("https://") {
                let message = format!("'{}' is no address of http or https", url.value);
                section.problem(url.span.clone(), message, "write the URL of the same file on a web server");
            }
        }
        let mirrors = mirrors.into_iter().map(|url| url.value).collect();
        section.finish();
        Some(PublishConfig { name: name?, path: path?, version, readers, mirrors })
    }
    fn list(&self, section: Section<'_>, list: &Path, names: &mut BTreeSet<Name>, read: &mut Vec<PublishConfig>) {
        let others: Vec<&str> =
            ["name", "path", "version", "mirrors"].into_iter().filter(|key| section.has(key)).collect();
        for key in &others {
            let message = format!("'{key}' is of one object, and 'list' names many");
            section.problem(section.span_of(key), message, "write a [[publish]] of its own for that object");
        }
        let readers = self.readers(&section);
        let mut mistakes = 0;
        let mut mistake = |message: String| {
            mistakes += 1;
            if mistakes <= MISTAKES_MAX {
                section.problem(section.span_of("list"), message, LIST_HINT);
            }
        };
        let shown = list.display();
        let mut bytes = Vec::new();
        match File::open(list).and_then(|file| file.take(LIST_BYTES_MAX + 1).read_to_end(&mut bytes)) {
            Ok(length) if length as u64 > LIST_BYTES_MAX => {
                mistake(format!("'{shown}': a list has at most {LIST_BYTES_MAX} bytes"));
                bytes.clear();
            }
            Ok(_) => {}
            Err(error) => mistake(format!("cannot read '{shown}': {error}")),
        }
        let folder = list.parent().unwrap_or(self.folder);
        for (line, number) in bytes.split(|byte| *byte == b'\n').zip(1_usize..) {
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            match self.entry(line, folder, names) {
                Ok((name, path)) => {
                    let (path, readers) = (folder.join(path), readers.clone());
                    read.push(PublishConfig { name, path, version: None, readers, mirrors: Vec::new() });
                }
                Err(message) => mistake(format!("{shown}:{number}: {message}")),
            }
        }
        if let Some(more) = mistakes.checked_sub(MISTAKES_MAX + 1) {
            let message = format!("{shown}: {} more mistakes", more + 1);
            section.problem(section.span_of("list"), message, LIST_HINT);
        }
        if others.is_empty() {
            section.finish();
        }
    }
    /// The name and the path in a line of a list.
    fn entry<'l>(&self, line: &'l [u8], folder: &Path, names: &mut BTreeSet<Name>) -> Result<(Name, &'l Path), String> {
        let tab = line.iter().position(|byte| *byte == b'\t').ok_or("there is no tab")?;
        let (name, path) = (&line[..tab], Path::new(OsStr::from_bytes(&line[tab + 1..])));
        let name = str::from_utf8(name).map_err(|_| "the name is not UTF-8")?;
        let parsed = name.parse().map_err(|error| format!("'{name}': {error}"))?;
        if path.as_os_str().is_empty() {
            return Err(format!("'{name}' has no path"));
        }
        self.check(&folder.join(path))?;
        Ok((self.published_name(&parsed, names)?, path))
    }
    /// The name that the network sees.
    fn published_name(&self, name: &Name, names: &mut BTreeSet<Name>) -> Result<Name, String> {
        // Each component of a blinded name has 32 bytes.
        let published =
            published_name(self.blind, name).map_err(|error| format!("'{name}' cannot be blinded: {error}"))?;
        if published.is_empty() {
            return Err("a published name has at least one component".into());
        }
        if !names.insert(published.clone()) {
            return Err(format!("'{name}' is published twice"));
        }
        Ok(published)
    }
    fn check(&self, path: &Path) -> Result<(), String> {
        match self.disk {
            Disk::Looked => {
                fs::metadata(path).map_err(|error| format!("cannot publish '{}': {error}", path.display()))?
            }
            Disk::NotLooked => return Ok(()),
        };
        Ok(())
    }
    fn readers(&self, section: &Section<'_>) -> Vec<PublicKey> {
        let mut readers = Vec::new();
        for named in section.texts("for").unwrap_or_default() {
            match (self.key_groups.get(&named.value), named.value.parse::<PublicKey>()) {
                (Some(group), _) => readers.extend(group),
                (None, Ok(key)) => readers.push(key),
                (None, Err(_)) => {
                    let message =
                        format!("'{}' is neither a reader's key nor the label of a [[key_group]]", named.value);
                    section.problem(named.span, message, READER_HINT);
                }
            }
        }
        readers
    }
}
