//! Third-party programs: their paths, and the error if they are missing.
use std::path::PathBuf;

/// The program `name` on PATH, also where only root's PATH leads.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The message about a yardstick whose program is missing.
pub(crate) fn missing(name: &str, figure: &str) -> String {
    format!("{name} is not on PATH: no figure {figure}")
}
