//! `trib lab` and `trib sim`: commands of the program `trib-lab`, found as git finds its subcommands.
use std::{
    env,
    ffi::OsStr,
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};
use tributary::ApiError;

use crate::args::Delegated;

const PROGRAM: &str = "trib-lab";
const HINT: &str = "install the package tributary-lab, or build it: cargo build --release -p trib-lab";

/// Continues as `trib-lab`.
pub(crate) fn run(command: &str, delegated: &Delegated, json: bool) -> Result<(), ApiError> {
    let program = program(command)?;
    let mut child = Command::new(&program);
    child.arg(command).args(json.then_some("--json")).args(&delegated.words);
    Err(ApiError::io("run", program.display(), &child.exec()))
}

/// `trib-lab`, which `command` needs: next to this executable, else on the PATH.
pub(crate) fn program(command: &str) -> Result<PathBuf, ApiError> {
    let folder = env::current_exe().ok().and_then(|program| program.parent().map(Path::to_path_buf));
    program_in(folder.as_deref(), env::var_os("PATH").as_deref()).ok_or_else(|| {
        ApiError::usage(format!("`trib {command}` needs the program {PROGRAM}, which is not installed")).with_hint(HINT)
    })
}

/// The first of these places that has the program; PATH as the shell reads it.
fn program_in(beside: Option<&Path>, path: Option<&OsStr>) -> Option<PathBuf> {
    let folders = path.map(|path| env::split_paths(path).collect::<Vec<_>>()).unwrap_or_default();
    let places = beside.map(Path::to_path_buf).into_iter().chain(folders);
    places.map(|folder| folder.join(PROGRAM)).find(|program| is_executable(program).unwrap_or(false))
}
fn is_executable(program: &Path) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    let about = program.metadata()?;
    Ok(about.is_file() && about.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn the_program_beside_this_one_comes_before_those_on_the_path() {
        let folders: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
        let path = env::join_paths(folders[1..].iter().map(tempfile::TempDir::path)).unwrap();
        let found = || program_in(Some(folders[0].path()), Some(&path));
        let make = |folder: usize, mode: u32| {
            let program = folders[folder].path().join(PROGRAM);
            fs::write(&program, "").unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
            program
        };
        assert_eq!(found(), None);
        make(1, 0o644);
        assert_eq!(found(), None, "what nobody may run is passed over");
        let on_path = make(2, 0o755);
        assert_eq!(found(), Some(on_path));
        let beside = make(0, 0o755);
        assert_eq!(found(), Some(beside));
    }
}
