//! Where files live when nobody says.
use std::path::PathBuf;

/// The folder for the state of the node called `label`: `$XDG_STATE_HOME/tributary/LABEL`, else
/// `~/.local/state/tributary/LABEL`, else `tributary/LABEL` in the folder for temporary files.
pub fn state_dir(label: &str) -> PathBuf {
    // A label may hold any character; in a path it must stay one component.
    let folder: String = label.chars().map(|c| if c.is_alphanumeric() || "-_".contains(c) { c } else { '_' }).collect();
    state_home().join(folder)
}
/// Where `trib` looks for a running node if nobody names a control socket: `$TRIB_CONTROL` is asked first by the
/// program, then this, `default/control.sock` in the folder of all states.
pub fn default_control() -> PathBuf {
    state_home().join("default").join("control.sock")
}

fn state_home() -> PathBuf {
    let absolute = |variable| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    match (absolute("XDG_STATE_HOME"), absolute("HOME")) {
        (Some(state), _) => state.join("tributary"),
        (None, Some(home)) => home.join(".local/state/tributary"),
        (None, None) => std::env::temp_dir().join("tributary"),
    }
}
