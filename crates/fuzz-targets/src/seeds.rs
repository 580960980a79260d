//! Valid inputs to start from, one or more for each target, made by the code that they will test.
use tributary::{
    Get, GetOptions, Notice, Output, Request as ApiRequest,
    error::{ApiError, ErrorKind},
    request::FolderPart,
};
use tributary_content::{Access, Hash, Manifest, MemoryObject, ObjectId, ObjectKind, ObjectReader, chunk_hash};
use tributary_core::NodeId;
use tributary_net::disk::index::{DirectoryIndex, EntryKind, FileMode, IndexEntry};
use tributary_psi::wire::{ControlBody, ControlPacket, Fid, FidKind};

use crate::{content::key, ndn::name};

/// A valid input: the target, a name for the file, the bytes.
pub type Seed = (&'static str, String, Vec<u8>);

/// All of them.
pub fn all() -> Vec<Seed> {
    let mut seeds = Seeds(crate::psi_seeds::all());
    seeds.content();
    seeds.scripts();
    seeds.text();
    seeds.0.extend(crate::mf_seeds::all());
    seeds.0.extend(crate::mf_store::seeds());
    seeds.0.extend(crate::ndn::seeds());
    seeds.0.extend(crate::ndn_foreign::seeds());
    seeds.0.extend(crate::ndn_trust::seeds());
    seeds.0.extend(crate::http::seeds());
    seeds.0
}

struct Seeds(Vec<Seed>);

impl Seeds {
    fn add(&mut self, target: &'static str, name: &str, bytes: impl Into<Vec<u8>>) {
        self.0.push((target, format!("seed-{name}"), bytes.into()));
    }
    /// The first one of a target, behind its length.
    fn first(&self, target: &str) -> Vec<u8> {
        let (.., bytes) = self.0.iter().find(|(of, ..)| *of == target).expect("each packet has seeds");
        [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat()
    }

    fn content(&mut self) {
        let texts = [
            ("root", "/"),
            ("plain", "/lab/images/debian.iso"),
            ("scheme", "ndn:/lab/v=7/seg=300"),
            ("escapes", "/a%20b/%C3%BC/.../....x"),
            ("typed", "/54=%05/65535=x/params-sha256=00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"),
        ];
        for (label, text) in texts {
            self.add("name_text", label, text);
            self.add("name_tlv", label, name(text).as_tlv().to_vec());
        }
        let values = ["10Mbps", "1.5 Gbps", "64KiB", "1.5 GiB", "40ms", "2min", "0.5 %", "0.01"];
        for (number, text) in values.into_iter().enumerate() {
            self.add("text_values", &format!("{number}"), text);
        }
        self.add("text_values", "id", ObjectId([0xa5; 16]).to_string());
        self.add("text_values", "key", key().public().to_string());

        for (label, text, size) in [("empty", "/e", 0), ("one", "/lab/one", 1), ("chunks", "/lab/images/x", 5_000)] {
            self.add("manifest", label, object(text, size).manifest().encode());
        }
        for count in [0u32, 1, 2, 3, 7, 16] {
            let leaves: Vec<Hash> = (0..count).map(|i| chunk_hash(&i.to_be_bytes())).collect();
            let leaves: Vec<u8> = leaves.iter().flat_map(|leaf| leaf.0).collect();
            self.add("hash_tree", &format!("{count}"), [&[0, 0, 0, 0, 1][..], &leaves].concat());
        }
        let mut counter = 0u8;
        let mut entropy = |bytes: &mut [u8]| {
            for byte in bytes {
                counter = counter.wrapping_add(1);
                *byte = counter;
            }
        };
        let readers = [key().public()];
        let secret = tributary_content::ObjectKey::from_secret([5; 32]);
        let id = ObjectId([1; 16]);
        let list = tributary_content::KeyList::seal(id, &secret, &readers, &mut entropy).expect("there is a reader");
        self.add("key_list", "one", list.encode());
        self.add("key_list", "cut", &list.encode()[..200]);
        self.add("bitmap", "9", [0, 0, 0, 9, 6, 0, 0, 8, 1, 0, 0, 0xff, 1]);
        self.add("bitmap", "64", [0, 0, 0, 64, 3, 2, 0, 9, 1, 2, 3, 4, 5, 6, 7, 0x80]);
        let entry = |path: &str, kind| IndexEntry { path: path.into(), kind };
        let file = |size, mode| EntryKind::File { size, mode, access: Access::Everybody };
        let entries = vec![
            entry("bin", EntryKind::Directory { access: Access::Everybody }),
            entry("bin/run", file(12, FileMode::Executable)),
            entry("bin/up", EntryKind::Link { target: b"../data".into() }),
            entry("data", file(3, FileMode::Plain)),
            entry("self", EntryKind::Link { target: b".".into() }),
        ];
        self.add("directory_index", "tree", DirectoryIndex::new(entries).expect("legal").encode());
        let private = EntryKind::File { size: 3, mode: FileMode::Plain, access: Access::Owner };
        let private = DirectoryIndex::new(vec![entry("key", private)]).expect("legal");
        self.add("directory_index", "private", private.encode());
        self.add("directory_index", "empty", DirectoryIndex::new(Vec::new()).expect("legal").encode());
    }

    /// Scripts for the state machines; see their targets for the meaning of the bytes.
    #[expect(clippy::too_many_lines, reason = "a table of scripts")]
    fn scripts(&mut self) {
        // Data for the cache, then requests for the same packets, honest and dishonest, in each kind of FID.
        for kind in 0..3u8 {
            let mut script = vec![kind << 1];
            for packet in 0..4 {
                script.extend_from_slice(&[4, 1, kind, 0, 0, 0b1, packet, 0, 1, 200]);
            }
            script.push(5);
            script.push(0);
            for step in [2, 3] {
                script.extend_from_slice(&[step, 0, kind, 0, 0, 0b10, kind, 0, 0, 0b1, 0]);
                script.extend_from_slice(if step == 3 { &[0; 8] } else { &[] });
                script.extend_from_slice(&[1, 0, 3, 9, 1, 0, 64]);
            }
            script.extend_from_slice(&[1, 2, kind, 1, 1, 0xff, 3, 0, 3, 0, 0, 3, 1, 2, 3, 5, 0]);
            self.add("router_forward", &format!("{kind}"), script);
        }
        let ones = [0x15, 0, 9, 16, 0].into_iter().chain([0xff; 40]);
        let ones: Vec<u8> = [0, 0, 1, 0, 45].into_iter().chain(ones).collect();
        self.add("router_forward", "ones", ones);
        let mut changes = vec![0, 6, 2, 1, 6, 2, 0, 6, 2, 2, 6, 7, 3, 7, 0];
        changes.extend(self.first("routes"));
        changes.extend_from_slice(&[1, 3, 1, 0, 1, 0xff, 2, 0, 9, 1, 0, 2, 1, 1]);
        self.add("router_forward", "changes", changes);
        // Copies share the hops that are left.
        let mut hops = vec![16];
        for ttl in [64, 9, 4, 3, 1, 0] {
            hops.extend_from_slice(&[1, 3, 2, 0, 1, 0b111, 3, 0, ttl, 0, 0, 3, 1, 2, 3]);
        }
        self.add("router_forward", "hops", hops);

        let mut channel = Vec::new();
        for index in 0..3 {
            channel.extend_from_slice(&[2, 0, 9, 2, index, 1, 0, 3, 10, 0, 0]);
        }
        channel.push(4);
        channel.extend(self.first("link_state"));
        channel.extend_from_slice(&[1, 1, 0, 5, 0, 255, 3]);
        channel.extend_from_slice(&[0xff; 16]);
        channel.extend_from_slice(&[0, 0, 1]);
        self.add("control_channel", "both", channel);
        let mut sealed = vec![1];
        blob(&mut sealed, |out| {
            let body = ControlBody::Fragment {
                index: 0,
                count: 1,
                reply: Fid::new(FidKind::List, 0, &[0xaa; 4]),
                payload: &[10, 0, 0, 0, 1],
            };
            ControlPacket { from: NodeId(3), to: NodeId(1), boot: 5, message: 1, body }.encode(out);
        });
        sealed.extend_from_slice(&sealed.clone());
        self.add("control_channel", "sealed", sealed);

        // Two hellos that bring the face up, a beacon, the answers' timers, and the end of the neighbour.
        let mut greeter = Vec::new();
        for sent in [1, 2] {
            greeter.extend_from_slice(&[3, 0, 0, 0, 0, 9, 0, 1, 0, 0, 5, 0xdc, 1, 1, 1]);
            greeter.extend_from_slice(&[0, 0, 0, sent, 1, 0, 0]);
        }
        greeter.extend_from_slice(&[4, 0, 1, 2, 6, 1, 0, 5, 0, 0, 0, 1, 1, 9, 0, 0, 0, 1, 3, 2]);
        greeter.extend_from_slice(&[5, 0, 0, 200, 5, 0, 4, 0, 6, 0, 0]);
        self.add("neighbour", "greeting", greeter);
        let mut sealed = vec![1, 1, 0];
        sealed.extend(self.first("hello"));
        sealed.extend_from_slice(&[1, 1, 1]);
        sealed.extend(self.first("beacon"));
        self.add("neighbour", "sealed", sealed);

        // Every message to a node with all roles, acknowledged, with time passing.
        let mut talk = vec![15];
        for (number, (_, label, _)) in (0..).zip(self.0.iter().filter(|(target, ..)| *target == "message")) {
            let from = match label.as_str() {
                "seed-Routes" | "seed-Offer" => 0,
                "seed-LinkState" | "seed-PathRequest" => 1,
                _ => number,
            };
            talk.extend_from_slice(&[3, 0, from, number, 0, 6, 0, 100, 9, 0, 0]);
        }
        talk.extend_from_slice(&[7, 0, 255]);
        self.add("psi_node", "messages", talk);
        // A fetch that is offered and answered, with a false message in between.
        let mut fetch = vec![1, 8, 0, 2];
        fetch.extend_from_slice(&[10, 0, 0, 0, 9, 1, 0, 0, 9, 2, 0, 0, 0, 0]);
        for lie in [0, 7, 0, 5, 0, 0x80] {
            fetch.extend_from_slice(&[11, 0, lie, 0, 6, 0, 30]);
        }
        self.add("psi_node", "fetch", fetch);
        // Requests before and after the node has keys.
        let request = [4, 0, 0, 1, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8, 1, 16];
        let serve = [&[9][..], &request, &[13, 0, 15, 2], &request, &[5, 1, 1, 0, 7, 0, 50]].concat();
        self.add("psi_node", "serve", serve);
        // A rendezvous node that learns of another one, gets requests of hosts, and every kind of reply.
        let mut resolve = vec![11, 13, 0, 15, 1];
        for number in 0..14 {
            resolve.extend_from_slice(&[3, 0, number % 2, number, 0, 12, 0, number, 3, 9, 0, 0, 6, 0, 30]);
        }
        self.add("psi_node", "resolve", resolve);
        let commands = (0..9).flat_map(|number| [8, number % 3, number, 7, 0, 20]);
        self.add("psi_node", "commands", [7].into_iter().chain(commands).collect::<Vec<u8>>());
    }

    fn text(&mut self) {
        self.add("node_config", "full", FULL_CONFIG);
        self.add(
            "node_config",
            "least",
            "[node]\nlabel = \"alice\"\nroles = [\"receiver\"]\nlisten = [\"127.0.0.1:7001\"]\n",
        );
        self.add(
            "node_config",
            "wrong",
            "[node]\nlabel = 7\nroles = [\"roter\"]\nlisten = \"x\"\nstat_dir = 1.5\n[psy]\n",
        );
        self.add("node_config", "syntax", "[node\nlabel = \n\"\\u00\"");
        let get = Get {
            publisher: Some(key().public().to_string()),
            limit_bits_per_second: Some(1_000_000),
            patience_ms: Some(5_000),
            options: GetOptions { chunk_bytes: Some(65_536), ..GetOptions::default() },
            overwrite: tributary::Overwrite::Anything,
            part: FolderPart { below: Some("doc".into()), include: vec!["*.csv".into()], exclude: Vec::new() },
            ..Get::new("/lab/big", Output::Path("big".into()))
        };
        let text = |text: &str| String::from(text);
        let requests = [
            (
                "put",
                ApiRequest::Put {
                    path: "x".into(),
                    name: text("/x"),
                    version: Some(3),
                    patience_ms: 100,
                    term: tributary::Term::ThisRun,
                    readers: Vec::new(),
                    mirrors: Vec::new(),
                },
            ),
            ("get", ApiRequest::Get(get)),
            ("list", ApiRequest::List { scope: text("/lab"), patience_ms: 100 }),
            ("remove", ApiRequest::Remove { name: text("/x") }),
            ("status", ApiRequest::Status),
            ("limit", ApiRequest::Limit { transfer: Some(text("transfer-1")), bits_per_second: None }),
            ("link", ApiRequest::Link { face: text("face-1"), up: false }),
        ];
        for (label, request) in requests {
            self.add("control_line", label, serde_json::to_vec(&request).expect("it can be written"));
        }
        let error = ApiError::new(ErrorKind::NotFound, "no").with_hint("try");
        let reported = [
            ("error", Notice::from(&error)),
            ("note", Notice::Note { text: text("\u{1b}[31m\n") }),
            (
                "published",
                Notice::Published {
                    name: text("/x"),
                    bytes: u64::MAX,
                    version: 1,
                    publisher: text("k"),
                    reference: text("trib:/x?publisher=k"),
                    confirmed: true,
                },
            ),
        ];
        for (label, reported) in reported {
            self.add("control_line", label, reported.to_line());
        }
    }
}

fn blob(out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = Vec::new();
    encode(&mut bytes);
    out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    out.extend_from_slice(&bytes);
}

pub(crate) fn object(text: &str, size: usize) -> MemoryObject {
    let bytes: Vec<u8> = (0..size).map(|at| at as u8).collect();
    let chunk_size = Manifest::CHUNK_SIZE_MIN;
    MemoryObject::with_options(name(text), bytes, key(), 1, ObjectKind::File, chunk_size).expect("legal")
}
/// Every section and most keys.
const FULL_CONFIG: &str = r#"# A node with everything.
[node]
label = "attic"
family = "psi"
roles = ["router", "sender", "topology-manager"]
state_dir = "state"
control = "c.sock"
key = "key"
seed = 7
listen = ["127.0.0.1:7001", "[::1]:0"]

[[face]]
peer = "192.0.2.7:7001"
local = "127.0.0.1:7001"
device = "lo"
mtu = 1472
[face.egress]
rate = "20Mbps"
delay = "20ms"
jitter = "1ms"
loss = "1%"
queue = "256KiB"
reorder = 0.01
reorder_delay = "5ms"
duplicate = "0.5%"
corrupt = 0

[[publish]]
name = "/lab/x"
path = "x.iso"
version = 3

[psi]
cache_size = "16MiB"
cache_policy = "lru"
fid_kinds = ["bloom", "list"]
hello_interval = "100ms"
lease = "10s"
replicas = 3
topology_manager_priority = 9

[transfer]
controller = "loss-based"
coupling = "normalised"
request_packets_max = 1
rto_min = "50ms"
packet_bytes = 1400
paths_per_source = 4
metric = "latency"
patience = "10s"

[limits]
rate = "100Mbps"
control_clients = 4

[faults]
corrupt_chunks = "10%"
"#;
