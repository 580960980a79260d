//! The daemons that run under this user's name.
use std::{
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
};

use crate::{
    error::{ApiError, ErrorKind},
    paths::{control_in, state_dir, state_home},
};

/// The control sockets of the daemons that may be meant: of one that is `named` by its path or by the label of its node, else
/// by `$TRIB_CONTROL` likewise, else of all that run under this user's name, by their labels.
///
/// # Errors
/// [`ApiError`] if none is named and none runs.
pub fn find_controls(named: Option<&Path>) -> Result<Vec<PathBuf>, ApiError> {
    let variable = || std::env::var_os("TRIB_CONTROL").filter(|text| !text.is_empty()).map(PathBuf::from);
    if let Some(named) = named.map(PathBuf::from).or_else(variable) {
        // A name without a folder that is no file here is a label.
        let label = named.to_str().filter(|text| !text.contains('/') && !named.exists());
        let folder = label.and_then(state_dir);
        return Ok(vec![folder.map_or(named, |folder| control_in(&folder))]);
    }
    let home = state_home().ok_or_else(|| {
        let message = "no daemon is named, and without a home folder none is found";
        ApiError::new(ErrorKind::Usage, message)
            .with_hint("name its socket with --control or $TRIB_CONTROL, or set HOME")
    })?;
    let folders = std::fs::read_dir(&home).map(|entries| entries.flatten().collect::<Vec<_>>()).unwrap_or_default();
    let folders = folders.into_iter().map(|folder| folder.path());
    let mut alive: Vec<_> = folders.filter(|folder| UnixStream::connect(control_in(folder)).is_ok()).collect();
    alive.sort();
    if alive.is_empty() {
        let message = format!("no daemon runs here: no socket in '{}' answers", home.display());
        let hint = "start one with `trib node --config FILE`, or name its socket with --control or $TRIB_CONTROL";
        return Err(ApiError::new(ErrorKind::Io, message).with_hint(hint));
    }
    Ok(alive.iter().map(|folder| control_in(folder)).collect())
}
