//! Whom each way to fetch believes, in each family, against a stranger above, below and on the level of a name.
//!
//! The receiver is a whole node in this process with its API and its gateway; the network is simulated.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod domain;

use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    sync::{Arc, Mutex, atomic::AtomicBool},
    thread,
};

use domain::{Receiver, Remote, Who};
use tributary::{Api, Family, Flow, Get, LocalApi, NodeConfig, Notice, Output, Request};
use tributary_content::{Access, MemoryObject, Name, ObjectKind, SigningKey};
use tributary_gateway::Gateway;
use tributary_net::disk::index::{DirectoryIndex, EntryKind, FileMode, IndexEntry};

/// A way in which bytes of a name reach a user.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Way {
    Get,
    Queue,
    Gateway,
    Api,
    Follow,
    Mirror,
}
/// Where the stranger publishes: a folder above the name; the name, whose publisher has the folder above; or the name of
/// the publisher's object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Stranger {
    Above,
    Below,
    Same,
}

type Cell = (&'static str, Way, Stranger, Who);
type Row = (Way, Stranger, [(&'static str, [Got; 2]); 3]);

/// What each family's receiver gets with the publisher online first and with the stranger online first, once both are.
const EXPECTED: [Row; 18] = {
    use Got::{Nothing as N, Publisher as P};
    use Stranger::{Above, Below, Same};
    [
        (Way::Get, Above, [("psi", [P, P]), ("ndn", [P, P]), ("mf", [P, P])]),
        (Way::Get, Below, [("psi", [N, N]), ("ndn", [N, N]), ("mf", [N, N])]),
        (Way::Get, Same, [("psi", [P, P]), ("ndn", [P, P]), ("mf", [P, P])]),
        (Way::Queue, Above, [("psi", [P, P]), ("ndn", [P, P]), ("mf", [P, P])]),
        (Way::Queue, Below, [("psi", [N, N]), ("ndn", [N, N]), ("mf", [N, N])]),
        (Way::Queue, Same, [("psi", [P, P]), ("ndn", [P, P]), ("mf", [P, P])]),
        (Way::Gateway, Above, [("psi", [P, P]), ("ndn", [P, P]), ("mf", [P, P])]),
        (Way::Gateway, Below, [("psi", [N, N]), ("ndn", [P, P]), ("mf", [N, N])]),
        (Way::Gateway, Same, [("psi", [P, P]), ("ndn", [P, P]), ("mf", [P, P])]),
        (Way::Api, Above, [("psi", [P, P]), ("ndn", [P, P]), ("mf", [P, P])]),
        (Way::Api, Below, [("psi", [N, N]), ("ndn", [N, N]), ("mf", [N, N])]),
        (Way::Api, Same, [("psi", [P, P]), ("ndn", [P, P]), ("mf", [P, P])]),
        (Way::Follow, Above, [("psi", [P, P]), ("ndn", [P, P]), ("mf", [P, P])]),
        (Way::Follow, Below, [("psi", [N, N]), ("ndn", [N, N]), ("mf", [N, N])]),
        (Way::Follow, Same, [("psi", [P, P]), ("ndn", [P, P]), ("mf", [P, P])]),
        (Way::Mirror, Above, [("psi", [P, P]), ("ndn", [P, P]), ("mf", [P, P])]),
        (Way::Mirror, Below, [("psi", [N, N]), ("ndn", [N, N]), ("mf", [N, N])]),
        (Way::Mirror, Same, [("psi", [P, P]), ("ndn", [P, P]), ("mf", [P, P])]),
    ]
};

/// Whose bytes a receiver has got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Got {
    Publisher,
    Stranger,
    Nothing,
}

/// Every combination, with what the table expects of it.
fn cells() -> Vec<(Cell, Got)> {
    let mut cells = Vec::new();
    for (word, _) in Family::ALL {
        for way in [Way::Get, Way::Queue, Way::Gateway, Way::Api, Way::Follow, Way::Mirror] {
            for stranger in [Stranger::Above, Stranger::Below, Stranger::Same] {
                let row = EXPECTED.iter().find(|(of, at, _)| (*of, *at) == (way, stranger));
                let of_family = row.and_then(|(.., families)| families.iter().find(|(of, _)| *of == word));
                let (_, got) = of_family.unwrap_or_else(|| panic!("{word} {way:?} {stranger:?} is missing"));
                let orders = [Who::Publisher, Who::Stranger].into_iter().zip(*got);
                cells.extend(orders.map(|(first, got)| ((word, way, stranger, first), got)));
            }
        }
    }
    cells
}

const NAME: &str = "/lab/set/file";
const FOLDER: &str = "/lab/set";

fn key(who: Who) -> SigningKey {
    SigningKey::from_secret(&[who as u8 + 1; 32])
}
fn bytes(who: Who) -> Vec<u8> {
    vec![who as u8 + 1; 10_000]
}
/// What somebody publishes to be read at [`NAME`].
fn object(who: Who, is_folder: bool) -> MemoryObject {
    let made = |name: &str, bytes, kind| {
        MemoryObject::with_options(name.parse::<Name>().unwrap(), bytes, &key(who), 1, kind, 16_384).unwrap()
    };
    if !is_folder {
        return made(NAME, bytes(who), ObjectKind::File);
    }
    let kind = EntryKind::File { size: 10_000, mode: FileMode::Plain, access: Access::Everybody };
    let index = DirectoryIndex::new(vec![IndexEntry { path: b"file".to_vec(), kind }]).unwrap();
    made(FOLDER, [index.encode(), bytes(who)].concat(), ObjectKind::Directory)
}

/// A receiver that believes one of them below `/lab`.
struct Site {
    folder: tempfile::TempDir,
    remote: Remote,
    api: Arc<LocalApi>,
    gateway: Gateway,
}

impl Site {
    fn new(family: &'static str, believed: Who) -> Site {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "[node]\nlabel = \"receiver\"\nfamily = \"{family}\"\nroles = [\"sender\", \"receiver\"]\nstate_dir = \"state\"\n\
             listen = [\"127.0.0.1:0\"]\n[http]\nlisten = \"127.0.0.1:0\"\npatience = \"60s\"\nfresh = \"0s\"\n\
             [[trust]]\nprefix = \"/lab\"\npublisher = \"{}\"\n",
            key(believed).public()
        );
        let config = NodeConfig::parse("receiver", &text, folder.path()).unwrap();
        let remote = Remote::start(family, folder.path());
        let api = Arc::new(LocalApi::start_node(config.clone(), Box::new(Receiver::new(&remote))).unwrap());
        let gateway = Gateway::start(Arc::clone(&api), config.http.unwrap()).unwrap();
        Site { folder, remote, api, gateway }
    }
    fn publish(&self, who: Who, stranger: Stranger) {
        let of_folder = match stranger {
            Stranger::Above => Some(Who::Stranger),
            Stranger::Below => Some(Who::Publisher),
            Stranger::Same => None,
        };
        self.remote.publish(who, object(who, of_folder == Some(who)));
        // The driver answers this after the events that it has taken.
        self.ask(Request::Transfers { transfer: None }).unwrap();
    }
    /// What arrives at `number`, a place of its own, this way, and what is said about it.
    fn fetch(&self, way: Way, number: usize) -> (Got, String) {
        let path = self.folder.path().join(format!("copy-{number}"));
        let get = Get { patience_ms: Some(60_000), ..Get::new(NAME, Output::Path(path.clone())) };
        let every_ms = Some(3_600_000);
        let said = match way {
            Way::Get => self.ask(Request::Get(get)).map_or_else(|error| error, |()| String::new()),
            Way::Queue => self.begin(get),
            Way::Follow => self.begin(Get { every_ms, ..get }),
            Way::Mirror => self.begin(Get { every_ms, serve: true, ..get }),
            Way::Api => {
                let body = serde_json::to_string(&get).unwrap();
                let fields = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
                String::from_utf8_lossy(&self.http("POST", "/api/v1/get", &fields, &body)).into()
            }
            Way::Gateway => {
                let answer = self.http("GET", NAME, "", "");
                let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
                if answer.starts_with(b"HTTP/1.1 200") {
                    fs::write(&path, &answer[end + 4..]).unwrap();
                }
                String::from_utf8_lossy(&answer[..answer.len().min(1_000)]).into()
            }
        };
        (whose(&path), said)
    }
    fn ask(&self, request: Request) -> Result<(), String> {
        self.api.ask(request, None, &mut |_| Flow::Continue).map_err(|error| error.message)
    }
    /// Leaves a fetch to the queue, waits until it has ended, and takes it out.
    fn begin(&self, get: Get) -> String {
        let begun = self.api.begin(&Request::Begin(get), &Arc::new(AtomicBool::new(false)));
        let Some(Ok(Notice::Fetching { queue: Some(queue), transfer, .. })) = begun else { panic!("{begun:?}") };
        let mut followed = self.ask(Request::Follow { id: transfer });
        // The part of a folder is a transfer of its own, and the one before it is cancelled.
        let is_before = |said: &String| said.contains("cancelled") || said.contains("no fetch 'transfer-");
        while followed.as_ref().is_err_and(is_before) {
            followed = self.ask(Request::Follow { id: queue.clone() });
        }
        let _ = self.ask(Request::Cancel { transfer: queue });
        followed.map_or_else(|error| error, |()| String::new())
    }
    fn http(&self, method: &str, target: &str, fields: &str, body: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.gateway.address).unwrap();
        let head = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n");
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    }
}

fn whose(path: &Path) -> Got {
    match fs::read(path) {
        Ok(read) if read == bytes(Who::Publisher) => Got::Publisher,
        Ok(read) if read == bytes(Who::Stranger) => Got::Stranger,
        Ok(read) => panic!("{} bytes of nobody", read.len()),
        Err(_) => Got::Nothing,
    }
}

/// What a cell's receiver gets with one of them online, and with both.
fn play((family, way, stranger, first): Cell, believed: Who) -> [(Got, String); 2] {
    let site = Site::new(family, believed);
    let second = if first == Who::Publisher { Who::Stranger } else { Who::Publisher };
    [first, second].map(|who| {
        site.publish(who, stranger);
        site.fetch(way, who as usize)
    })
}
/// The cells that come out in another way than `expected` of them, and of what the table says.
fn failures(believed: Who, expected: fn(Cell, Got, [Got; 2]) -> bool) -> BTreeSet<String> {
    let (todo, failures) = (Mutex::new(cells()), Mutex::default());
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let Some((cell, both)) = todo.lock().unwrap().pop() else { return };
                    let got = play(cell, believed);
                    if !expected(cell, both, [got[0].0, got[1].0]) {
                        let failures: &Mutex<BTreeSet<String>> = &failures;
                        failures.lock().unwrap().insert(format!("{cell:?}: {got:?}"));
                    }
                }
            });
        }
    });
    failures.into_inner().unwrap()
}
/// Whether this way fetches a path in a folder. A path has no versions, so it cannot be followed.
fn serves_folders(way: Way) -> bool {
    !matches!(way, Way::Follow | Way::Mirror)
}
/// Cells at a time: most of each is waiting.
const WORKERS: usize = 12;

#[test]
fn every_way_in_believes_the_publisher_of_a_rule_wherever_a_stranger_is_and_whoever_comes_first() {
    let failures = failures(Who::Publisher, |(_, way, stranger, first), both, got| {
        let is_served = stranger != Stranger::Below || serves_folders(way);
        let alone = if first == Who::Publisher && is_served { Got::Publisher } else { Got::Nothing };
        got == [alone, both]
    });
    assert!(failures.is_empty(), "{failures:#?}");
}

/// The twin of the test above, in which the rule names the stranger: each attack succeeds.
#[test]
fn every_stranger_has_its_way_if_a_rule_names_it() {
    let failures = failures(Who::Stranger, |(_, way, stranger, first), _, got| {
        let is_served = stranger != Stranger::Above || serves_folders(way);
        match first {
            Who::Publisher => got[0] == Got::Nothing,
            Who::Stranger => got[0] == if is_served { Got::Stranger } else { Got::Nothing },
        }
    });
    assert!(failures.is_empty(), "{failures:#?}");
}
