//! The daemons that run under this user's name, and the services of this machine.
use std::{
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
};

use crate::{
    error::{ApiError, ErrorKind},
    paths::{SYSTEM_STATES, control_in, state_dir, state_home, system_state_dir},
};

/// The control sockets of the candidate daemons: the one `named` by its path or its node's label, else the one in
/// `$TRIB_CONTROL` likewise, else by label all running daemons of this user and the services of this machine that the
/// user may ask. With `$XDG_STATE_HOME` the search covers only that folder.
///
/// # Errors
/// [`ApiError`] if none is named and none runs.
pub fn find_controls(named: Option<&Path>) -> Result<Vec<PathBuf>, ApiError> {
    let variable = || std::env::var_os("TRIB_CONTROL").filter(|text| !text.is_empty()).map(PathBuf::from);
    if let Some(named) = named.map(PathBuf::from).or_else(variable) {
        // A name without a slash that is no file here is a label.
        let label = named.to_str().filter(|text| !text.contains('/') && !named.exists());
        let Some(label) = label else { return Ok(vec![named]) };
        let of_user = state_dir(label).map(|folder| control_in(&folder));
        let of_system = control_in(&system_state_dir(label));
        let is_service = !of_user.as_ref().is_some_and(|socket| socket.exists()) && of_system.exists();
        return Ok(vec![if is_service { of_system } else { of_user.unwrap_or(named) }]);
    }
    let has_own_home = std::env::var_os("XDG_STATE_HOME").is_some();
    let of_system = (!has_own_home).then(|| PathBuf::from(SYSTEM_STATES));
    let homes: Vec<PathBuf> = state_home().into_iter().chain(of_system).collect();
    let entries = homes.iter().filter_map(|home| std::fs::read_dir(home).ok()).flatten().flatten();
    let sockets = entries.map(|entry| control_in(&entry.path()));
    let mut alive: Vec<_> = sockets.filter(|socket| UnixStream::connect(socket).is_ok()).collect();
    alive.sort();
    if alive.is_empty() && state_home().is_none() {
        return Err(ApiError::usage("no daemon is named, and without a home folder none is found")
            .with_hint("name its socket with --control or $TRIB_CONTROL, or set HOME"));
    }
    if alive.is_empty() {
        let looked: Vec<_> = homes.iter().map(|home| format!("'{}'", home.display())).collect();
        let message = format!("no daemon runs here: no socket in {} answers", looked.join(" or "));
        let hint = "start one with `trib node --config FILE`, or name its socket with --control or $TRIB_CONTROL";
        return Err(ApiError::new(ErrorKind::Gone, message).with_hint(hint));
    }
    Ok(alive)
}
