//! Where files live when nobody says.
use std::{os::unix::net::UnixStream, path::PathBuf};

use crate::error::{ApiError, ErrorKind};

/// The folder for the state of the node called `label`: `$XDG_STATE_HOME/tributary/LABEL`, else
/// `~/.local/state/tributary/LABEL`, else `tributary/LABEL` in the folder for temporary files.
pub fn state_dir(label: &str) -> PathBuf {
    // A label may hold any character; in a path it must stay one component.
    let folder: String = label.chars().map(|c| if c.is_alphanumeric() || "-_".contains(c) { c } else { '_' }).collect();
    state_home().join(folder)
}
/// The control socket of the only daemon that runs under this user's name.
///
/// # Errors
/// [`ApiError`] if none runs, or several, whose sockets are listed then.
pub fn find_control() -> Result<PathBuf, ApiError> {
    let home = state_home();
    let folders = std::fs::read_dir(&home).map(|entries| entries.flatten().collect::<Vec<_>>()).unwrap_or_default();
    let sockets = folders.into_iter().map(|folder| folder.path().join("control.sock"));
    let mut alive: Vec<_> = sockets.filter(|socket| UnixStream::connect(socket).is_ok()).collect();
    alive.sort();
    match &alive[..] {
        [] => {
            let message = format!("no daemon runs here: no socket in '{}' answers", home.display());
            let hint = "start one with `trib node --config FILE`, or name its socket with --control or $TRIB_CONTROL";
            Err(ApiError::new(ErrorKind::Io, message).with_hint(hint))
        }
        [only] => Ok(only.clone()),
        several => {
            let list: Vec<_> = several.iter().map(|socket| socket.display().to_string()).collect();
            let message = format!("{} daemons run here; which one?", several.len());
            let hint = format!("name one with --control or $TRIB_CONTROL: {}", list.join(", "));
            Err(ApiError::new(ErrorKind::Usage, message).with_hint(hint))
        }
    }
}

fn state_home() -> PathBuf {
    let absolute = |variable| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    match (absolute("XDG_STATE_HOME"), absolute("HOME")) {
        (Some(state), _) => state.join("tributary"),
        (None, Some(home)) => home.join(".local/state/tributary"),
        (None, None) => std::env::temp_dir().join("tributary"),
    }
}
