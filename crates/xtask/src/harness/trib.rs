//! `trib` as people run it: daemons from config files, and fetches.
use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader, Write as _},
    net::SocketAddr,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{emulator, process::Process, stage::Stage};
use crate::{Outcome, note};

/// The program.
#[derive(Clone, Debug)]
pub(crate) struct Trib {
    program: PathBuf,
    /// How its nodes protect their faces, in the word of the config; `None` for the default.
    pub(crate) security: Option<String>,
}

/// One node, in terms of its config.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeSpec {
    /// Its name, unique on the stage.
    pub(crate) label: String,
    /// Its family in the word of the config; `None` for the default.
    pub(crate) family: Option<&'static str>,
    /// The network namespace that it runs in; `None` for this one.
    pub(crate) namespace: Option<String>,
    /// Its roles in the words of the config.
    pub(crate) roles: &'static [&'static str],
    /// Listening address; `None` lets the kernel choose.
    pub(crate) listen: Option<SocketAddr>,
    /// Listening URIs for streams.
    pub(crate) streams: Vec<String>,
    /// Its neighbours.
    pub(crate) faces: Vec<Face>,
    /// The name and the file that it publishes.
    pub(crate) publish: Option<(String, PathBuf)>,
    /// Further sections, as they are written.
    pub(crate) sections: String,
}

/// A neighbour.
#[derive(Clone, Debug)]
pub(crate) struct Face {
    /// Where it listens.
    pub(crate) peer: SocketAddr,
    /// The largest datagram; `None` for the default.
    pub(crate) mtu: Option<u32>,
    /// The emulated link to it, as the config's inline table.
    pub(crate) egress: Option<String>,
    /// Further lines of its section.
    pub(crate) more: String,
}

impl Face {
    /// A neighbour without an emulated link.
    pub(crate) fn to(peer: SocketAddr) -> Face {
        Face { peer, mtu: None, egress: None, more: String::new() }
    }
}

/// A daemon that runs.
pub(crate) struct Daemon {
    pub(crate) process: Process,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Its control socket.
    pub(crate) control: PathBuf,
    label: String,
}

/// The last report of `trib get`.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    /// Bytes of the object.
    pub(crate) bytes: u64,
    /// Time from the request to the last verified byte.
    pub(crate) seconds: f64,
    /// Bytes that caches delivered.
    pub(crate) cached_bytes: u64,
    /// Bytes requested again.
    pub(crate) retransmitted: u64,
    /// For each path its source, its bytes, and its hops.
    pub(crate) paths: Vec<(String, u64, u64)>,
}

/// How long a daemon may take to start: it hashes its publications first.
const START_PATIENCE: Duration = Duration::from_secs(120);
/// The maximum wait for a state.
const STATE_PATIENCE: Duration = Duration::from_secs(30);
/// A node's config in its folder.
const CONFIG: &str = "node.toml";
/// How often a state is polled.
const LOOK: Duration = Duration::from_millis(50);

impl Trib {
    /// The program that `given` names; else builds it from this workspace.
    ///
    /// # Errors
    /// If it cannot be built.
    pub(crate) fn find(given: Option<&Path>, security: Option<&str>) -> Outcome<Trib> {
        let security = security.map(Into::into);
        if let Some(program) = given {
            return Ok(Trib { program: std::path::absolute(program)?, security });
        }
        note("building trib");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args(["build", "--release", "--quiet", "--package", "trib", "--package", "trib-lab"])
            .status()?;
        if !status.success() {
            return Err("trib does not build; --trib FILE takes another one".into());
        }
        // This program is built into the same folder.
        let folder = std::env::current_exe()?;
        Ok(Trib { program: folder.with_file_name("trib"), security })
    }
    /// Starts a daemon and waits until it is up.
    ///
    /// # Errors
    /// If it exits, or prints nothing.
    pub(crate) fn node(&self, stage: &Stage, spec: &NodeSpec) -> Outcome<Daemon> {
        let config = spec.write(stage, self.security.as_deref())?;
        self.start(stage, spec, &config)
    }
    /// Restarts a daemon that ran before on `stage`, with all its files.
    ///
    /// # Errors
    /// Errors of [`Trib::node`].
    pub(crate) fn node_again(&self, stage: &Stage, spec: &NodeSpec) -> Outcome<Daemon> {
        self.start(stage, spec, &stage.path(&spec.label).join(CONFIG))
    }
    fn start(&self, stage: &Stage, spec: &NodeSpec, config: &Path) -> Outcome<Daemon> {
        let mut command = self.command_in(spec);
        command.args(["node", "--json", "--config"]).arg(config);
        let process = Process::spawn(&spec.label, stage, &mut command)?;
        let ready = loop {
            let line: Value = serde_json::from_str(&process.line(START_PATIENCE)?)?;
            if line["event"] == "ready" {
                break line;
            }
        };
        let address = ready["listen"][0].as_str().ok_or("a daemon that listens nowhere")?.parse()?;
        let control = ready["control"].as_str().ok_or("a daemon without a control socket")?.into();
        Ok(Daemon { process, address, control, label: spec.label.clone() })
    }
    /// Starts a fetch in a new process, with a node that lives as long as the fetch.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn get_here(&self, stage: &Stage, spec: &NodeSpec, name: &str, output: &Path) -> Outcome<Process> {
        let config = spec.write(stage, self.security.as_deref())?;
        let mut command = self.command_in(spec);
        command.args(["get", name, "--json", "--config"]).arg(config).arg("--output").arg(output);
        Process::spawn(&spec.label, stage, &mut command)
    }
    /// Starts a fetch by a daemon.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn get_by(&self, stage: &Stage, daemon: &Daemon, name: &str, output: &Path) -> Outcome<Process> {
        let mut command = self.command();
        command.args(["get", name, "--json", "--control"]).arg(&daemon.control).arg("--output").arg(output);
        Process::spawn(&format!("get-by-{}", daemon.label), stage, &mut command)
    }

    /// Starts to send a file by a daemon to the device or name `to`.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn send_by(
        &self,
        stage: &Stage,
        daemon: &Daemon,
        path: &Path,
        name: &str,
        to: &str,
        patience: Duration,
    ) -> Outcome<Process> {
        let mut command = self.command();
        command.arg("send").arg(path).args([name, "--json", "--to", to, "--control"]).arg(&daemon.control);
        command.args(["--timeout", &format!("{}ms", patience.as_millis())]);
        Process::spawn(&format!("send-by-{}", daemon.label), stage, &mut command)
    }
    /// Receives one object that is sent to a node that ran before on `stage`; the node lives until then.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn recv_again(
        &self,
        stage: &Stage,
        spec: &NodeSpec,
        folder: &Path,
        patience: Duration,
    ) -> Outcome<Process> {
        let mut command = self.command_in(spec);
        command.args(["recv", "--json", "--count", "1", "--config"]).arg(stage.path(&spec.label).join(CONFIG));
        command.arg("--output").arg(folder).args(["--timeout", &format!("{}ms", patience.as_millis())]);
        Process::spawn(&format!("recv-{}", spec.label), stage, &mut command)
    }
    /// The program, about to run.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env_remove("TRIB_CONTROL");
        command
    }
    /// The program, about to run where a node belongs.
    fn command_in(&self, spec: &NodeSpec) -> Command {
        let Some(namespace) = &spec.namespace else { return self.command() };
        let mut command = emulator::inside(namespace, &self.program);
        command.env_remove("TRIB_CONTROL");
        command
    }
}

impl NodeSpec {
    /// A node of that name and those roles, and of the default family.
    pub(crate) fn new(label: impl Into<String>, roles: &'static [&'static str]) -> NodeSpec {
        NodeSpec { label: label.into(), roles, ..NodeSpec::default() }
    }
    pub(crate) fn family(self, family: &'static str) -> NodeSpec {
        NodeSpec { family: Some(family), ..self }
    }
    /// In a network namespace.
    pub(crate) fn inside(self, namespace: impl Into<String>) -> NodeSpec {
        NodeSpec { namespace: Some(namespace.into()), ..self }
    }
    pub(crate) fn listen(self, address: SocketAddr) -> NodeSpec {
        NodeSpec { listen: Some(address), ..self }
    }
    pub(crate) fn face(self, face: Face) -> NodeSpec {
        self.faces(vec![face])
    }
    pub(crate) fn faces(self, faces: Vec<Face>) -> NodeSpec {
        NodeSpec { faces, ..self }
    }
    pub(crate) fn publish(self, name: &str, path: &Path) -> NodeSpec {
        NodeSpec { publish: Some((name.into(), path.into())), ..self }
    }
    pub(crate) fn sections(self, sections: impl Into<String>) -> NodeSpec {
        NodeSpec { sections: sections.into(), ..self }
    }
    /// Starts it as [`Trib::node`] does.
    pub(crate) fn start(&self, trib: &Trib, stage: &Stage) -> Outcome<Daemon> {
        trib.node(stage, self)
    }
    /// Writes the config, and removes the state of an earlier node of that name.
    fn write(&self, stage: &Stage, security: Option<&str>) -> Outcome<PathBuf> {
        let folder = stage.path(&self.label);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let config = folder.join(CONFIG);
        let roles = self.roles.join("\", \"");
        let datagrams = self.listen.map_or("127.0.0.1:0".into(), |address| address.to_string());
        let listen = [&[datagrams], &self.streams[..]].concat().join("\", \"");
        // One key for all publishers of a stage: they are mirrors of one publisher.
        let key = if self.publish.is_some() { stage.path("publisher.key") } else { folder.join("node.key") };
        let mut text = format!(
            "[node]\nlabel = \"{}\"\nroles = [\"{roles}\"]\nlisten = [\"{listen}\"]\nstate_dir = \"state\"\nkey = \"{}\"\n",
            self.label,
            key.display(),
        );
        if let Some(security) = security {
            writeln!(text, "security = \"{security}\"")?;
        }
        if let Some(family) = self.family {
            writeln!(text, "family = \"{family}\"")?;
        }
        for face in &self.faces {
            write!(text, "\n[[face]]\npeer = \"{}\"\n", face.peer)?;
            if let Some(mtu) = face.mtu {
                writeln!(text, "mtu = {mtu}")?;
            }
            if let Some(egress) = &face.egress {
                writeln!(text, "egress = {{ {egress} }}")?;
            }
            writeln!(text, "{}", face.more)?;
        }
        if let Some((name, path)) = &self.publish {
            write!(text, "\n[[publish]]\nname = \"{name}\"\npath = \"{}\"\nversion = 1\n", path.display())?;
        }
        writeln!(text, "\n{}", self.sections)?;
        fs::write(&config, text)?;
        Ok(config)
    }
}

impl Daemon {
    /// Sends one request over its control socket, and returns the answer.
    ///
    /// # Errors
    /// If it does not answer, or answers with an error.
    pub(crate) fn ask(&self, request: &Value) -> Outcome<Vec<Value>> {
        let mut socket = UnixStream::connect(&self.control)?;
        socket.set_read_timeout(Some(STATE_PATIENCE))?;
        writeln!(socket, "{}", serde_json::json!({ "v": 1, "request": request }))?;
        let mut notices = Vec::new();
        for line in BufReader::new(socket).lines() {
            let line: Value = serde_json::from_str(&line?)?;
            match line["end"].as_str() {
                Some("done") => return Ok(notices),
                Some(_) => return Err(format!("{}: {line}", self.label).into()),
                None => notices.push(line["tell"].clone()),
            }
        }
        Err(format!("{} ended its answer too early", self.label).into())
    }
    /// Its present status.
    ///
    /// # Errors
    /// Errors of [`Daemon::ask`].
    pub(crate) fn status(&self) -> Outcome<Value> {
        Ok(self.ask(&serde_json::json!({ "op": "status" }))?.pop().unwrap_or_default())
    }
    /// Waits until `is_so` accepts its status, called `what` in errors.
    ///
    /// # Errors
    /// If that does not happen; the error contains the status.
    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Outcome {
        let deadline = Instant::now() + STATE_PATIENCE;
        loop {
            let status = self.status()?;
            if is_so(&status) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("{} does not reach this state: {what}; its status: {status}", self.label).into());
            }
            std::thread::sleep(LOOK);
        }
    }
    /// Waits until the resolver has confirmed its publications.
    ///
    /// # Errors
    /// Errors of [`Daemon::wait_until`].
    pub(crate) fn wait_until_published(&self) -> Outcome {
        self.wait_until("its publication is confirmed", |status| {
            let published = status["published"].as_array().map_or(&[][..], Vec::as_slice);
            !published.is_empty() && published.iter().all(|object| object["confirmed"] == true)
        })
    }
    /// Waits until `count` neighbours answer.
    ///
    /// # Errors
    /// Errors of [`Daemon::wait_until`].
    pub(crate) fn wait_until_neighbours(&self, count: usize) -> Outcome {
        self.wait_until(&format!("{count} neighbours answer"), |status| {
            let faces = status["faces"].as_array().map_or(&[][..], Vec::as_slice);
            faces.iter().filter(|face| face["up"] == true).count() >= count
        })
    }
    /// The numbers of the chunks in its store.
    ///
    /// # Errors
    /// Errors of [`Daemon::ask`].
    pub(crate) fn held_chunks(&self) -> Outcome<BTreeSet<u32>> {
        let notice = self.ask(&serde_json::json!({ "op": "store" }))?.pop().unwrap_or_default();
        let held = notice["held"].as_array().ok_or_else(|| format!("{} does not report its store", self.label))?;
        held.iter().try_fold(BTreeSet::new(), |all, held| Ok(&all | &chunk_numbers(&held["numbers"])?))
    }
    /// Cuts or mends the emulated link of its face with this number, counted from 1 in the order of its config.
    ///
    /// # Errors
    /// Errors of [`Daemon::ask`].
    pub(crate) fn set_link(&self, face: usize, up: bool) -> Outcome {
        self.ask(&serde_json::json!({ "op": "link", "face": format!("face-{face}"), "up": up }))?;
        Ok(())
    }
}

impl Done {
    /// Reads the lines of a fetch that ended well.
    ///
    /// # Errors
    /// If the last line does not report a verified download.
    pub(crate) fn read(lines: &[String]) -> Outcome<Done> {
        let last = lines.last().ok_or("the fetch printed nothing")?;
        let done: Value = serde_json::from_str(last)?;
        if done["event"] != "done" || done["verified"] != true {
            return Err(format!("the fetch ended with {last}").into());
        }
        let number = |value: &Value, key: &str| value[key].as_u64().ok_or_else(|| format!("no '{key}' in {last}"));
        let path = |path: &Value| {
            let source = path["source"].as_str().unwrap_or_default().to_string();
            Ok::<_, String>((source, number(path, "bytes")?, number(path, "hops")?))
        };
        Ok(Done {
            bytes: number(&done, "bytes")?,
            seconds: done["seconds"].as_f64().ok_or("no 'seconds'")?,
            cached_bytes: number(&done, "cached_bytes")?,
            retransmitted: number(&done, "retransmitted")?,
            paths: done["paths"]
                .as_array()
                .map_or(&[][..], Vec::as_slice)
                .iter()
                .map(path)
                .collect::<Result<_, _>>()?,
        })
    }
}

/// Chunk numbers that are listed in runs: the first, and how many.
///
/// # Errors
/// If the value has another form.
pub(crate) fn chunk_numbers(ranges: &Value) -> Outcome<BTreeSet<u32>> {
    let ranges: Vec<(u32, u32)> = serde_json::from_value(ranges.clone())?;
    Ok(ranges.into_iter().flat_map(|(first, count)| first..first.saturating_add(count)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_verified_download_counts() {
        let done = r#"{"event":"done","verified":true,"bytes":5,"seconds":2.5,"cached_bytes":1,"retransmitted":0,
            "paths":[{"id":"path-1","source":"a","hops":2,"bytes":5}]}"#;
        let read = Done::read(&["{}".into(), done.into()]).unwrap();
        assert_eq!((read.bytes, read.seconds, read.cached_bytes), (5, 2.5, 1));
        assert_eq!(read.paths, [("a".to_string(), 5, 2)]);
        assert!(Done::read(&[done.replace("true", "false")]).is_err());
        assert!(Done::read(&[r#"{"event":"error"}"#.into()]).is_err());
        assert!(Done::read(&[]).is_err());
    }
}
