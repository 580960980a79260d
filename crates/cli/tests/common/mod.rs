//! What the tests of the whole program share.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "real daemons take the time that they take")]
pub(crate) mod browser;
pub(crate) mod http;
pub(crate) mod machines;
pub(crate) mod origin;

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

pub(crate) use tributary_testkit::port;

pub(crate) const SIZE: usize = 3_000_000;

pub(crate) fn trib(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trib"));
    command.env("XDG_STATE_HOME", folder.join("home")).env_remove("TRIB_CONTROL").stdin(Stdio::null());
    command
}
/// The output of a command that exits. After a timeout it is killed, so that its test fails: exit code 124.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Output {
    let trib = trib(folder);
    let mut bounded = Command::new("timeout");
    bounded.arg("300s").arg(trib.get_program()).args(arguments).stdin(Stdio::null());
    for (key, value) in trib.get_envs() {
        match value {
            Some(value) => bounded.env(key, value),
            None => bounded.env_remove(key),
        };
    }
    bounded.output().unwrap()
}
/// Whether another program is installed. Its absence is printed, and fails the test with `TRIBUTARY_PEERS=required`.
pub(crate) fn has_program(name: &str) -> bool {
    use std::io::Write;
    let is_there = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !is_there {
        assert_ne!(std::env::var("TRIBUTARY_PEERS").as_deref(), Ok("required"), "'{name}' is not installed");
        let _ = writeln!(std::io::stderr(), "\nSKIPPED: '{name}' is not installed; `.ci/peers FOLDER` installs it");
    }
    is_there
}
/// The class of an exit code: 1 for the network or other nodes (1, 3, 4), 2 for this machine or the user (2, 5, 6).
/// Tests of exit codes check the codes themselves.
pub(crate) fn class(code: Option<i32>) -> Option<i32> {
    match code {
        Some(1 | 3 | 4) => Some(1),
        Some(2 | 5 | 6) => Some(2),
        other => other,
    }
}
pub(crate) fn lines(bytes: &[u8]) -> Vec<serde_json::Value> {
    String::from_utf8_lossy(bytes).lines().map(json).collect()
}
/// A line of the program's `--json` output, checked against its schema.
pub(crate) fn json(line: &str) -> serde_json::Value {
    let line = serde_json::from_str(line).unwrap();
    tributary_testkit::schema::check(&line);
    line
}
pub(crate) fn talk(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
/// The output of a command that asks the daemon of `node` and succeeds.
pub(crate) fn ask(folder: &Path, node: &str, arguments: &[&str]) -> Vec<serde_json::Value> {
    let control = folder.join(node).join("control.sock");
    let asked = run(folder, &[arguments, &["--json", "--control", control.to_str().unwrap()]].concat());
    assert_eq!(
        asked.status.code(),
        Some(0),
        "{arguments:?}: {}{}",
        String::from_utf8_lossy(&asked.stdout),
        talk(&asked)
    );
    lines(&asked.stdout)
}
/// An NDN example with other ports and its own socket, and a state folder in `folder`.
pub(crate) fn example(folder: &Path, name: &str, udp: u16, tcp: u16, websocket: u16) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    let text = fs::read_to_string(path).unwrap();
    let text = text
        .replace("tcp://0.0.0.0:6363", &format!("tcp://127.0.0.1:{tcp}"))
        .replace("0.0.0.0:6363", &format!("127.0.0.1:{udp}"))
        .replace("127.0.0.1:6363", &format!("127.0.0.1:{udp}"))
        .replace("ws://127.0.0.1:9696", &format!("ws://127.0.0.1:{websocket}"))
        .replace("unix:ndn.sock", &format!("unix://{}", folder.join("ndn.sock").display()))
        .replace("[node]\n", &format!("[node]\nstate_dir = \"{}\"\n", name.trim_end_matches(".toml")));
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}
/// Writes a config and returns its path.
pub(crate) fn config(folder: &Path, label: &str, roles: &str, listen: u16, more: &str) -> PathBuf {
    let path = folder.join(format!("{label}.toml"));
    let text = format!(
        "[node]\nlabel = \"{label}\"\nroles = [{roles}]\nstate_dir = \"{label}\"\nlisten = [\"127.0.0.1:{listen}\"]\n{more}"
    );
    fs::write(&path, text).unwrap();
    path
}
pub(crate) fn file(folder: &Path) -> PathBuf {
    let path = folder.join("original");
    let mut state = 1u64;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    })
    .take(SIZE)
    .collect();
    fs::write(&path, bytes).unwrap();
    path
}

/// A daemon that ends with the test, however that ends.
pub(crate) struct Daemon {
    child: Child,
    stdout: BufReader<ChildStdout>,
}
impl Daemon {
    /// Starts it and waits until it is ready.
    pub(crate) fn start(folder: &Path, config: &Path) -> Self {
        Self::start_ready(folder, config).0
    }
    /// The same, with its first notice.
    pub(crate) fn start_ready(folder: &Path, config: &Path) -> (Self, serde_json::Value) {
        Self::start_with(&mut trib(folder), config)
    }
    /// The same with this command.
    pub(crate) fn start_with(command: &mut Command, config: &Path) -> (Self, serde_json::Value) {
        let mut child = command
            .args(["node", "--json", "--stop-with-stdin", "--config"])
            .arg(config)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut daemon = Daemon { stdout: BufReader::new(child.stdout.take().unwrap()), child };
        let ready = daemon.line();
        assert_eq!(ready["event"], "ready");
        (daemon, ready)
    }
    pub(crate) fn line(&mut self) -> serde_json::Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        json(&line)
    }
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }
    /// Stops it in order and returns its exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        drop(self.child.stdin.take());
        self.child.wait().unwrap().code()
    }
}
impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running command, killed at the end of the test.
pub(crate) struct Begun(pub(crate) Child);

impl Begun {
    /// Sends it a signal, such as `INT`.
    pub(crate) fn signal(&self, signal: &str) {
        let arguments = [format!("-{signal}"), self.0.id().to_string()];
        assert!(Command::new("kill").args(arguments).status().unwrap().success());
    }
    /// Its exit code, once it has exited.
    pub(crate) fn wait(mut self) -> Option<i32> {
        self.0.wait().unwrap().code()
    }
}
impl Drop for Begun {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
/// Starts a command that keeps running, and waits for its first notice.
pub(crate) fn begin(folder: &Path, arguments: &[&str]) -> (Begun, serde_json::Value, BufReader<ChildStdout>) {
    let mut command = trib(folder);
    let mut child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    (Begun(child), json(&line), stdout)
}
/// Its remaining notices.
pub(crate) fn rest(mut stdout: BufReader<ChildStdout>) -> Vec<serde_json::Value> {
    let mut text = String::new();
    stdout.read_to_string(&mut text).unwrap();
    lines(text.as_bytes())
}
/// A `[[face]]` of a family to a port of this machine.
pub(crate) fn face(to: u16, family: &str) -> String {
    let routes = if family == "ndn" { "routes = [\"/\"]\n" } else { "" };
    format!("[[face]]\npeer = \"127.0.0.1:{to}\"\n{routes}")
}
/// Waits until something is so.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what} does not come about");
        sleep(Duration::from_millis(50));
    }
}

/// A daemon that publishes and plays all roles that its network needs, and the lines of a config that make a node its
/// neighbour.
pub(crate) fn server(folder: &Path, family: &str) -> (Daemon, String) {
    let roles = match family {
        "psi" => r#""sender", "router", "resolver", "topology-manager""#,
        "ndn" => r#""sender", "router""#,
        _ => r#""sender", "router", "resolver""#,
    };
    let at = port();
    let of_family = format!("family = \"{family}\"\n");
    let neighbours = if family == "ndn" { "[ndn]\nremote_registration = \"neighbours\"\n" } else { "" };
    let server = Daemon::start(folder, &config(folder, "server", roles, at, &format!("{of_family}{neighbours}")));
    let routes = if family == "ndn" { "routes = [\"/\"]\nregister = \"localhop\"\n" } else { "" };
    (server, format!("{of_family}[[face]]\npeer = \"127.0.0.1:{at}\"\n{routes}"))
}
/// The same, and the config of a receiver next to it.
pub(crate) fn server_and_receiver(folder: &Path, family: &str) -> (Daemon, PathBuf) {
    let (server, face) = server(folder, family);
    (server, config(folder, "receiver", r#""receiver""#, 0, &face))
}
/// Publishes a file or folder with that daemon.
pub(crate) fn put(folder: &Path, path: &Path, name: &str) {
    let control = folder.join("server/control.sock");
    let put = run(folder, &["put", path.to_str().unwrap(), name, "--control", control.to_str().unwrap()]);
    assert_eq!(put.status.code(), Some(0), "{}", talk(&put));
}
