//! Attacks by a stranger with a daemon and a key of its own. Each has a prize, which it gets if the protection against it
//! is taken away.
//!
//! ```text
//!   publisher ──┐
//!   stranger  ──┴── hub ── victim
//! ```
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::json;

use super::Family;
use crate::{
    Outcome,
    harness::{
        stage::Stage,
        trib::{Daemon, Face, NodeSpec, Trib},
    },
};

/// An attack, with its protection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Play {
    /// Answers at the hub's address with its own key; the invitation's key.
    Relay,
    /// Takes the hub's address in a living session; the session's key.
    Takeover,
    /// Publishes a name that nobody knows yet, as its publisher does; the contest.
    FirstUse,
    /// Publishes a name that its publisher has withdrawn; the remembered key.
    Squatting,
    /// Requests an object from a page of another site; the gateway's check.
    CrossSite,
}

impl Play {
    pub(super) const ALL: [(Play, &'static str); 5] = [
        (Play::Relay, "a relay with its own key"),
        (Play::Takeover, "a takeover mid-session"),
        (Play::FirstUse, "a contested first use"),
        (Play::Squatting, "squatting on a name"),
        (Play::CrossSite, "a page of another site"),
    ];
}

const NAME: &str = "/attacked/file";
/// Longer than a fetch waits for a publisher.
const PROCESS_PATIENCE: Duration = Duration::from_secs(40);

/// Where a family's attacks take place.
pub(super) struct Theatre<'a> {
    pub(super) trib: &'a Trib,
    pub(super) family: Family,
    /// The files and the key of the honest nodes, and those of the stranger.
    pub(super) honest: &'a Stage,
    pub(super) strange: &'a Stage,
    /// Whether the protection is there.
    pub(super) is_protected: bool,
}

impl Theatre<'_> {
    /// Whether the stranger gets its prize.
    ///
    /// # Errors
    /// If a node does not start, or what should happen before the attack does not.
    pub(super) fn play(&self, play: Play) -> Outcome<bool> {
        match play {
            Play::Relay => self.relay(),
            Play::Takeover => self.takeover(),
            Play::FirstUse => self.first_use(),
            Play::Squatting => self.squatting(),
            Play::CrossSite => self.cross_site(),
        }
    }
    fn relay(&self) -> Outcome<bool> {
        let hub = self.hub(self.honest, None, None)?;
        let stranger = self.hub(self.strange, None, Some(NAME))?;
        let key = format!("peer_key = \"{}\"\n", key_of(&hub)?);
        let victim = self.victim(stranger.address, if self.is_protected { &key } else { "" }, "")?;
        self.is_deceived(&victim, NAME)
    }
    fn takeover(&self) -> Outcome<bool> {
        if !self.is_protected {
            let mut trib = self.trib.clone();
            trib.security = Some("none".into());
            return Theatre { trib: &trib, is_protected: true, ..*self }.takeover();
        }
        let at = self.honest.address()?;
        let mut hub = self.hub(self.honest, Some(at), Some(NAME))?;
        let victim = self.victim(at, "", "")?;
        self.is_served(&victim)?;
        hub.process.kill()?;
        let _stranger = self.hub(self.strange, Some(at), Some("/attacked/other"))?;
        self.is_deceived(&victim, "/attacked/other")
    }
    fn first_use(&self) -> Outcome<bool> {
        let hub = self.hub(self.honest, None, None)?;
        let _stranger = self.sender(self.strange, hub.address)?;
        // Without the publisher there is no contest.
        let _publisher = self.is_protected.then(|| self.sender(self.honest, hub.address)).transpose()?;
        let victim = self.victim(hub.address, "", "")?;
        self.is_deceived(&victim, NAME)
    }
    fn squatting(&self) -> Outcome<bool> {
        let hub = self.hub(self.honest, None, None)?;
        let publisher = self.sender(self.honest, hub.address)?;
        let victim = self.victim(hub.address, "", "")?;
        self.is_served(&victim)?;
        publisher.ask(&json!({"op": "remove", "name": NAME}))?;
        if !self.is_protected {
            fs::remove_file(self.honest.path("victim").join("state/trust"))?;
        }
        let _stranger = self.sender(self.strange, hub.address)?;
        self.is_deceived(&victim, NAME)
    }
    fn cross_site(&self) -> Outcome<bool> {
        let hub = self.hub(self.honest, None, Some(NAME))?;
        let listen = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let http = format!("[http]\nlisten = \"{listen}\"\ncross_site = {}\n", !self.is_protected);
        let victim = self.victim(hub.address, "", &http)?;
        self.is_served(&victim)?;
        let mut stream = TcpStream::connect(listen)?;
        let fields = "Host: localhost\r\nConnection: close\r\nSec-Fetch-Site: cross-site";
        write!(stream, "GET {NAME} HTTP/1.1\r\n{fields}\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer.starts_with(b"HTTP/1.1 200"))
    }

    /// A node that is the network, and may publish.
    fn hub(&self, stage: &Stage, listen: Option<SocketAddr>, name: Option<&str>) -> Outcome<Daemon> {
        let (word, roles) = (self.family.word(), super::ground::roles(self.family));
        let publish = name.map(|name| Ok::<_, std::io::Error>((name.into(), self.file(stage)?))).transpose()?;
        let sections = if self.family == Family::Ndn { "[ndn]\nremote_registration = \"neighbours\"\n" } else { "" };
        let spec = NodeSpec { listen, publish, ..NodeSpec::new("hub", roles).family(word).sections(sections) };
        let hub = self.trib.node(stage, &spec)?;
        self.settle(&hub, name.is_some())?;
        Ok(hub)
    }
    /// A node that publishes the name.
    fn sender(&self, stage: &Stage, hub: SocketAddr) -> Outcome<Daemon> {
        let spec = NodeSpec::new("sender", &["sender"]).family(self.family.word()).face(self.face(hub, ""));
        let sender = self.trib.node(stage, &spec.publish(NAME, &self.file(stage)?))?;
        self.settle(&sender, true)?;
        Ok(sender)
    }
    /// A node that fetches.
    fn victim(&self, hub: SocketAddr, of_face: &str, sections: &str) -> Outcome<Daemon> {
        let spec = NodeSpec::new("victim", &["receiver"]).family(self.family.word()).face(self.face(hub, of_face));
        self.trib.node(self.honest, &spec.sections(sections))
    }
    fn face(&self, to: SocketAddr, more: &str) -> Face {
        let of_family = if self.family == Family::Ndn { "routes = [\"/\"]\nregister = \"localhop\"\n" } else { "" };
        Face { more: format!("{of_family}{more}"), ..Face::to(to) }
    }
    fn settle(&self, node: &Daemon, publishes: bool) -> Outcome {
        if publishes && self.family != Family::Ndn { node.wait_until_published() } else { Ok(()) }
    }
    /// What the nodes of a stage publish.
    fn file(&self, stage: &Stage) -> std::io::Result<PathBuf> {
        let path = stage.path("file");
        fs::write(&path, self.bytes(stage))?;
        Ok(path)
    }
    fn bytes(&self, stage: &Stage) -> Vec<u8> {
        let is_strange = std::ptr::eq(stage, self.strange);
        vec![u8::from(is_strange); 50_000]
    }
    fn is_served(&self, victim: &Daemon) -> Outcome {
        match self.fetch(victim, NAME)? == Some(self.bytes(self.honest)) {
            true => Ok(()),
            false => Err("the victim does not get its file before the attack".into()),
        }
    }
    fn is_deceived(&self, victim: &Daemon, name: &str) -> Outcome<bool> {
        Ok(self.fetch(victim, name)? == Some(self.bytes(self.strange)))
    }
    /// What the victim gets.
    fn fetch(&self, victim: &Daemon, name: &str) -> Outcome<Option<Vec<u8>>> {
        let output = self.honest.path("fetched");
        remove(&output)?;
        // A fetch that fails gets nothing.
        let _ = self.trib.get_by(self.honest, victim, name, &output)?.finish(PROCESS_PATIENCE);
        Ok(fs::read(&output).ok())
    }
}

/// The key of a node, which is also its publisher's.
fn key_of(node: &Daemon) -> Outcome<String> {
    let status = node.status()?;
    let invitation = status["invitation"].as_str().and_then(|line| line.strip_prefix("trib://"));
    let key = invitation.and_then(|line| line.split('@').next()).ok_or("a node without an invitation")?;
    Ok(format!("ed25519:{key}"))
}
fn remove(path: &Path) -> Outcome {
    if path.exists() {
        fs::remove_file(path)?;
    }
    Ok(())
}
