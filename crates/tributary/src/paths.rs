//! Where files live unless the config or the command line names another place.
use std::path::{Path, PathBuf};

/// The folder for the state of the node called `label`: `$XDG_STATE_HOME/tributary/LABEL`, else
/// `~/.local/state/tributary/LABEL`. `None` without a home: keys do not go into a folder that every user can write.
pub fn state_dir(label: &str) -> Option<PathBuf> {
    Some(state_home()?.join(component(label)))
}
/// A label may hold any character; in a path it must stay one component.
fn component(label: &str) -> String {
    label.chars().map(|c| if c.is_alphanumeric() || "-_".contains(c) { c } else { '_' }).collect()
}
/// Where the services of this machine keep the states of their nodes (`packaging/systemd`).
pub(crate) const SYSTEM_STATES: &str = "/var/lib/tributary";

/// The folder for the state of the service's node called `label`.
pub(crate) fn system_state_dir(label: &str) -> PathBuf {
    Path::new(SYSTEM_STATES).join(component(label))
}
/// The control socket in a node's state folder.
pub(crate) fn control_in(state_dir: &Path) -> PathBuf {
    state_dir.join("control.sock")
}
/// The folder of the states of all nodes; `None` if neither variable is an absolute path.
pub(crate) fn state_home() -> Option<PathBuf> {
    let absolute = |variable| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    state.map(|state| state.join("tributary"))
}
