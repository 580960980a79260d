//! The Python client and its file system (`packaging/python`) against this program.
use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

#[test]
fn the_python_client_and_its_file_system_work_with_this_program() {
    let python = std::env::var("TRIBUTARY_PYTHON").unwrap_or_else(|_| "python3".into());
    let packages = ["-c", "import aiohttp, fsspec, pytest, pandas, duckdb, pyarrow, mypy"];
    let has_packages = Command::new(&python).args(packages).stderr(Stdio::null()).status();
    if !has_packages.is_ok_and(|status| status.success()) {
        assert_ne!(std::env::var("TRIBUTARY_PEERS").as_deref(), Ok("required"), "packages of Python are missing");
        let _ =
            writeln!(std::io::stderr(), "\nSKIPPED: packages of Python are missing; `.ci/peers FOLDER` installs them");
        return;
    }
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/python");
    let state = tempfile::tempdir().unwrap();
    let tests = Command::new(python)
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"])
        .current_dir(&package)
        .env("PYTHONPATH", package.join("src"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("TRIB", env!("CARGO_BIN_EXE_trib"))
        .env("XDG_STATE_HOME", state.path())
        .output()
        .unwrap();
    assert!(tests.status.success(), "{}", String::from_utf8_lossy(&tests.stdout));
}
