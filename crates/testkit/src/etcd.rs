//! A real etcd cluster on loopback, whose members can be killed and stopped.
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread::sleep,
    time::Duration,
};

use crate::port;

/// How long a cluster may take to elect a leader.
const START_TIME_MAX: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);

/// A cluster, which ends with this.
pub struct EtcdCluster {
    members: Vec<Member>,
    /// Tests of one program take turns: a disk has time for one cluster.
    _turn: MutexGuard<'static, ()>,
}

struct Member {
    child: Option<Child>,
    folder: PathBuf,
    port: u16,
    arguments: Vec<String>,
}

/// Whether `etcd` is installed. If not, it prints that, and with `TRIBUTARY_PEERS=required` it fails.
///
/// # Panics
/// If it is required and missing.
pub fn is_installed() -> bool {
    let found = Command::new("etcd").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_err() {
        assert_ne!(std::env::var("TRIBUTARY_PEERS").as_deref(), Ok("required"), "'etcd' is not installed");
        let _ = writeln!(std::io::stderr(), "\nSKIPPED: 'etcd' is not installed; `.ci/peers FOLDER` installs it");
    }
    found.is_ok()
}

impl EtcdCluster {
    /// Starts `members` members with their data in `folder`, and waits until they have a leader. There is one cluster
    /// at a time in a program: a second call waits until the first cluster has ended.
    ///
    /// # Panics
    /// If they do not start.
    pub fn start(members: usize, folder: &Path) -> EtcdCluster {
        EtcdCluster::with(members, folder, "http", &[])
    }
    /// The same, with more arguments, reached by `http` or `https`.
    ///
    /// # Panics
    /// If they do not start.
    pub fn with(members: usize, folder: &Path, scheme: &str, more: &[String]) -> EtcdCluster {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let ports: Vec<(u16, u16)> = (0..members).map(|_| (port(), port())).collect();
        let peers: Vec<String> =
            ports.iter().enumerate().map(|(at, (_, peer))| format!("m{at}=http://127.0.0.1:{peer}")).collect();
        let member = |(at, (client, peer)): (usize, &(u16, u16))| {
            let data = folder.join(format!("m{at}"));
            let (client_url, peer_url) = (format!("{scheme}://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
            let arguments = [
                ("--name", format!("m{at}")),
                ("--data-dir", data.display().to_string()),
                ("--listen-client-urls", client_url.clone()),
                ("--advertise-client-urls", client_url),
                ("--listen-peer-urls", peer_url.clone()),
                ("--initial-advertise-peer-urls", peer_url),
                ("--initial-cluster", peers.join(",")),
            ];
            let arguments = arguments.into_iter().flat_map(|(flag, value)| [flag.to_string(), value]);
            let arguments = arguments.chain(more.iter().cloned()).collect();
            Member { child: None, folder: data, port: *client, arguments }
        };
        let mut cluster = EtcdCluster { members: ports.iter().enumerate().map(member).collect(), _turn: turn };
        (0..members).for_each(|at| cluster.restart(at));
        if scheme == "http" {
            cluster.wait();
        }
        cluster
    }
    /// Waits until a majority has a leader.
    ///
    /// # Panics
    /// If that takes too long.
    pub fn wait(&self) {
        let mut waited = Duration::ZERO;
        while self.leader().is_none() {
            assert!(waited < START_TIME_MAX, "the members of etcd find no leader");
            sleep(LOOK);
            waited += LOOK;
        }
    }
    /// Where clients reach each member.
    pub fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(|member| format!("http://127.0.0.1:{}", member.port)).collect()
    }
    /// Starts a member that does not run, with the data that it has.
    ///
    /// # Panics
    /// If the system has no process for it.
    pub fn restart(&mut self, at: usize) {
        let member = &mut self.members[at];
        std::fs::create_dir_all(member.folder.parent().unwrap_or(&member.folder)).expect("the folder can be made");
        let log = std::fs::File::create(member.folder.with_extension("log")).expect("the log can be made");
        let child = Command::new("etcd").args(&member.arguments).stdout(Stdio::null()).stderr(log).spawn();
        member.child = Some(child.expect("etcd is installed"));
    }
    /// Kills a member, without time for any message.
    pub fn kill(&mut self, at: usize) {
        if let Some(mut child) = self.members[at].child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
    /// Stops a member, which keeps its connections, or resumes it.
    pub fn stop(&self, at: usize, stops: bool) {
        if let Some(child) = &self.members[at].child {
            let signal = if stops { "-STOP" } else { "-CONT" };
            let _ = Command::new("kill").args([signal, &child.id().to_string()]).status();
        }
    }
    /// The leading member; `None` during an election.
    pub fn leader(&self) -> Option<usize> {
        (0..self.members.len()).find(|at| {
            let status = self.try_post(*at, "maintenance/status", "{}").unwrap_or_default();
            let field = |name: &str| {
                let (_, rest) = status.split_once(&format!("\"{name}\":\""))?;
                rest.split_once('"').map(|(value, _)| value.to_string())
            };
            field("leader").is_some_and(|leader| Some(leader) == field("member_id"))
        })
    }
    /// Sends a request of the JSON gateway to a member; returns its answer.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn post(&self, at: usize, path: &str, body: &str) -> String {
        self.try_post(at, path, body).expect("the member answers")
    }
    fn try_post(&self, at: usize, path: &str, body: &str) -> Option<String> {
        let member = &self.members[at];
        member.child.as_ref()?;
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, member.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        let length = body.len();
        write!(stream, "POST /v3/{path} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.split_once("\r\n\r\n").map(|(_, body)| body.to_string())
    }
}

impl Drop for EtcdCluster {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|at| self.kill(at));
    }
}
