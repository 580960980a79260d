//! Machines in network namespaces, and the commands of the documents.
use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread::sleep,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// How long a machine may take to print the expected text; all of them share one computer with other programs.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of the file that is published.
const SIZE: usize = 3_000_000;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
/// Runs `ip` and returns whether it succeeded.
fn ip(arguments: &str) -> bool {
    let mut ip = Command::new("ip");
    ip.args(arguments.split_whitespace()).stderr(Stdio::null()).stdout(Stdio::null());
    ip.status().is_ok_and(|status| status.success())
}
fn must_ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}
/// Whether namespaces can be made here; otherwise prints what is skipped. Where the tests' programs are required, root
/// must be able to make namespaces.
pub(crate) fn is_allowed(what: &str) -> bool {
    let probe = format!("tributary-probe-{}-{}", std::process::id(), next());
    let is_allowed = ip(&format!("netns add {probe}"));
    ip(&format!("netns del {probe}"));
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let is_required = is_root && std::env::var("TRIBUTARY_PEERS").is_ok_and(|value| value == "required");
    assert!(is_allowed || !is_required, "{what}: network namespaces need root and the program `ip` (iproute2)");
    if !is_allowed {
        let _ = writeln!(std::io::stderr(), "\nSKIPPED: {what}: network namespaces need root and `ip`");
    }
    is_allowed
}
fn next() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The commands of the first block after a sentence of a document, without comments.
pub(crate) fn block(document: &str, sentence: &str) -> Vec<String> {
    let text = fs::read_to_string(repository().join(document)).unwrap();
    let after = text.split_once(sentence).unwrap_or_else(|| panic!("{document} does not say '{sentence}'")).1;
    let block = after.split_once("```sh\n").unwrap().1.split_once("```").unwrap().0;
    block.lines().map(|line| line.split(" #").next().unwrap().trim().to_string()).collect()
}
/// All blocks of commands of a document.
pub(crate) fn blocks(document: &str) -> Vec<String> {
    let text = fs::read_to_string(repository().join(document)).unwrap();
    let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split_once("```").unwrap().0.to_string());
    blocks.collect()
}
/// Compares a command's output with the sample after a sentence of a document, ignoring figures: each line of the
/// sample must have been printed.
pub(crate) fn must_be_as_the_sample(document: &str, sentence: &str, printed: &str) {
    let text = fs::read_to_string(repository().join(document)).unwrap();
    let after = text.split_once(sentence).unwrap_or_else(|| panic!("{document} does not say '{sentence}'")).1;
    let sample = after.split_once("```text\n").unwrap().1.split_once("```").unwrap().0;
    let is_figure =
        |word: &&str| word.contains(|c: char| c.is_ascii_digit()) || ["B", "KiB", "MiB", "ms", "s", "–"].contains(word);
    let words = |line: &str| line.split_whitespace().filter(|word| !is_figure(word)).collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = printed.lines().map(words).collect();
    for line in sample.lines().filter(|line| line.trim() != "…") {
        assert!(lines.contains(&words(line)), "{document} shows a line that was not printed:\n{line}\n{printed}");
    }
}
/// The file shown in a document: the block of TOML whose first line is a comment with its name.
pub(crate) fn shown(document: &str, file: &str) -> String {
    let text = fs::read_to_string(repository().join(document)).unwrap();
    let begin = format!("```toml\n# {file}\n");
    let after = text.split_once(&begin).unwrap_or_else(|| panic!("{document} does not show '{file}'")).1;
    after.split_once("```").unwrap().0.to_string()
}
/// The commands that the head of an example numbers.
pub(crate) fn numbered(example: &str) -> Vec<String> {
    let text = fs::read_to_string(repository().join(example)).unwrap();
    let command = |line: &str| {
        let (number, command) = line.strip_prefix("#   ")?.split_once("   ")?;
        number.parse::<u8>().ok().map(|_| command.trim().to_string())
    };
    text.lines().take_while(|line| line.starts_with('#')).filter_map(command).collect()
}

/// A bridge, and the machines on it.
pub(crate) struct Net {
    tag: String,
    folder: TempDir,
}

impl Net {
    pub(crate) fn new(name: &str) -> Net {
        let net =
            Net { tag: format!("trib-{name}-{}-{}", std::process::id(), next()), folder: TempDir::new().unwrap() };
        must_ip(&format!("netns add {}", net.tag));
        must_ip(&format!("-n {} link add bridge type bridge", net.tag));
        must_ip(&format!("-n {} link set bridge up", net.tag));
        net
    }
    /// Machines with the addresses 10.77.0.1, 10.77.0.2, … in this order. All know the first as `router.lan`; it has an
    /// earlier address on its interface, and one on another interface, 10.88.0.1.
    pub(crate) fn machines<const N: usize>(&self, names: [&str; N]) -> [Machine; N] {
        let mut number = 0;
        names.map(|name| {
            number += 1;
            self.machine(name, number)
        })
    }
    /// Gives a machine a second interface, eth1, with a separate network that also leads to the router.
    pub(crate) fn second_uplink(&self, machine: &Machine, router: &Machine) {
        let (bridge, namespace) = (&self.tag, &machine.namespace);
        must_ip(&format!("-n {bridge} link add second type veth peer name eth1 netns {namespace}"));
        must_ip(&format!("-n {bridge} link set second master bridge up"));
        must_ip(&format!("-n {namespace} link set eth1 up"));
        must_ip(&format!("-n {namespace} addr add 10.78.0.9/24 dev eth1"));
        must_ip(&format!("-n {} addr add 10.78.0.1/24 dev eth0", router.namespace));
        must_ip(&format!("-n {namespace} route add default via 10.78.0.1 dev eth1"));
    }
    fn machine(&self, name: &str, number: u8) -> Machine {
        let (namespace, bridge) = (format!("{}-{name}", self.tag), &self.tag);
        let folder = self.folder.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        let machine = Machine { namespace: namespace.clone(), folder, address: format!("10.77.0.{number}") };
        must_ip(&format!("netns add {namespace}"));
        must_ip(&format!("-n {bridge} link add port{number} type veth peer name eth0 netns {namespace}"));
        must_ip(&format!("-n {bridge} link set port{number} master bridge up"));
        must_ip(&format!("-n {namespace} link set lo up"));
        must_ip(&format!("-n {namespace} link set eth0 up"));
        if number == 1 {
            // The kernel prefers the first address of an interface as the source.
            must_ip(&format!("-n {namespace} addr add 10.77.0.200/24 dev eth0"));
            must_ip(&format!("-n {namespace} link add other type bridge"));
            must_ip(&format!("-n {namespace} link set other up"));
            must_ip(&format!("-n {namespace} addr add 10.88.0.1/32 dev other"));
        }
        must_ip(&format!("-n {namespace} addr add {}/24 dev eth0", machine.address));
        if number > 1 {
            must_ip(&format!("-n {namespace} route add 10.88.0.1 via 10.77.0.1"));
        }
        machine.hosts("10.77.0.1 router.lan");
        let examples = machine.path("examples");
        fs::create_dir_all(&examples).unwrap();
        for entry in fs::read_dir(repository().join("examples")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                fs::copy(&path, examples.join(path.file_name().unwrap())).unwrap();
            }
        }
        let mut state = 1u64;
        let next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        fs::write(machine.path("original"), std::iter::repeat_with(next).take(SIZE).collect::<Vec<_>>()).unwrap();
        machine
    }
}
impl Drop for Net {
    fn drop(&mut self) {
        ip(&format!("netns del {}", self.tag));
    }
}

/// One machine: a namespace with an interface eth0, and a home folder, in which commands run.
pub(crate) struct Machine {
    namespace: String,
    folder: PathBuf,
    address: String,
}

impl Machine {
    pub(crate) fn address(&self) -> &str {
        &self.address
    }
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
    /// Its `/etc/hosts`.
    pub(crate) fn hosts(&self, text: &str) {
        let folder = Path::new("/etc/netns").join(&self.namespace);
        fs::create_dir_all(&folder).unwrap();
        // Written in place: it is mounted over /etc/hosts of the programs that run.
        fs::write(folder.join("hosts"), format!("127.0.0.1 localhost\n{text}\n")).unwrap();
    }
    /// The link-local IPv6 address of its interface, once usable.
    pub(crate) fn link_local(&self) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let shown = self.run("ip -6 -o addr show dev eth0 scope link");
            let address = shown.split_whitespace().skip_while(|word| *word != "inet6").nth(1);
            if let Some(address) = address.filter(|_| !shown.contains("tentative")) {
                return address.split('/').next().unwrap().to_string();
            }
            assert!(Instant::now() < end, "no link-local address: {shown}");
            sleep(Duration::from_millis(100));
        }
    }
    /// Runs a line to its end, and returns its output; it must not fail.
    pub(crate) fn run(&self, line: &str) -> String {
        let (code, printed) = self.try_run(line);
        assert_eq!(code, Some(0), "{line}: {printed}");
        printed
    }
    /// Runs a line to its end, and returns its exit code and its output.
    pub(crate) fn try_run(&self, line: &str) -> (Option<i32>, String) {
        let output = self.shell(line).output().unwrap();
        let printed = [output.stdout, output.stderr].map(|printed| String::from_utf8_lossy(&printed).into_owned());
        (output.status.code(), printed.concat())
    }
    /// Repeats a command until it prints a text.
    pub(crate) fn until(&self, line: &str, says: &str) {
        let end = Instant::now() + PATIENCE;
        loop {
            let (_, printed) = self.try_run(line);
            if printed.contains(says) {
                return;
            }
            assert!(Instant::now() < end, "'{says}' is not in what `{line}` says: {printed}");
            sleep(Duration::from_millis(200));
        }
    }
    /// Starts a command that keeps running, and waits until it has printed a text.
    pub(crate) fn begin(&self, line: &str, says: &str) -> Begun {
        let log = self.folder.join(format!("log-{}", next()));
        let printed = File::create(&log).unwrap();
        let mut command = self.shell(line);
        command.stdout(printed.try_clone().unwrap()).stderr(printed);
        let begun = Begun { child: command.spawn().unwrap(), log, line: line.into() };
        begun.wait_for(says);
        begun
    }
    fn shell(&self, line: &str) -> Command {
        let program = Path::new(env!("CARGO_BIN_EXE_trib")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("ip");
        // The last command of the line replaces the shell, so that signals reach it.
        let line = match line.rsplit_once("; ") {
            Some((before, last)) if !last.contains(['|', '&']) => format!("{before}; exec {last}"),
            None if !line.contains('|') => format!("exec {line}"),
            _ => line.to_string(),
        };
        command.args(["netns", "exec", &self.namespace, "sh", "-c", &line]);
        command.current_dir(&self.folder).env("PATH", path).env("HOME", &self.folder).stdin(Stdio::null());
        for variable in ["XDG_STATE_HOME", "TRIB_CONTROL", "TRIB_PEER"] {
            command.env_remove(variable);
        }
        command
    }
}
impl Drop for Machine {
    fn drop(&mut self) {
        ip(&format!("netns del {}", self.namespace));
        let _ = fs::remove_dir_all(Path::new("/etc/netns").join(&self.namespace));
    }
}

/// A command that runs until this is dropped; then it is interrupted, as by Ctrl-C.
pub(crate) struct Begun {
    child: Child,
    log: PathBuf,
    line: String,
}

impl Begun {
    /// Its output so far.
    pub(crate) fn printed(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }
    /// Waits until it has printed a text.
    pub(crate) fn wait_for(&self, says: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.printed().contains(says) {
            assert!(Instant::now() < end, "`{}` does not say '{says}': {}", self.line, self.printed());
            sleep(Duration::from_millis(50));
        }
    }
    /// Sends it a signal, such as `HUP`.
    #[allow(dead_code, reason = "not every test program sends signals")]
    pub(crate) fn signal(&self, signal: &str) {
        let arguments = [format!("-{signal}"), self.child.id().to_string()];
        assert!(Command::new("kill").args(arguments).status().unwrap().success());
    }
}
impl Drop for Begun {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
