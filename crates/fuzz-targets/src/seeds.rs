//! Valid inputs to start from, one or more for each target, made by the code that they will test.
use tributary::{
    Get, GetOptions, Notice, Output, Request as ApiRequest,
    error::{ApiError, ErrorKind},
    request::FolderPart,
};
use tributary_content::{Access, Hash, Manifest, MemoryObject, ObjectId, ObjectKind, ObjectReader, chunk_hash};
use tributary_core::{Duration, FaceId, NodeId};
use tributary_net::disk::index::{DirectoryIndex, EntryKind, FileMode, IndexEntry};
use tributary_psi::{
    capability::CapabilityKey,
    ids::{ItemId, RecordKey, Roles},
    wire::{
        Adjacency, Answer, Beacon, BitmapNumbers, ChildState, ClientRequest, ControlBody, ControlPacket, DataHeader,
        Digest, DigestKind, Entry, EntryKey, EntryValue, Fid, FidKind, Forward, Header, Heard, Hello, Holding, Limit,
        LinkState, ManagerState, MatchKey, Message, MissingScopes, NOTHING_KNOWN, NoticeKind, Offer, OfferVersion,
        Operation, Overtaken, PacketType, PathOffer, PathRequest, Publisher, RecordUpdate, Refused, Rejection, Relay,
        Renewal, Renewed, Replicate, Reply, Request, ResolverRoute, Routes, ScopeNotice, SharedLink, StreamKey, Wire,
    },
};
use tributary_transport::PathMetric;

use crate::{content::key, ndn::name};

/// A valid input: the target, a name for the file, the bytes.
pub type Seed = (&'static str, String, Vec<u8>);

/// All of them.
pub fn all() -> Vec<Seed> {
    let mut seeds = Seeds(Vec::new());
    seeds.content();
    seeds.packets();
    seeds.messages();
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
    fn encoded(&mut self, target: &'static str, name: &str, encode: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = Vec::new();
        encode(&mut bytes);
        self.add(target, name, bytes);
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

    fn packets(&mut self) {
        for (number, fid) in fids().into_iter().enumerate() {
            self.encoded("fid", &format!("{number}"), |out| fid.encode(out));
            let types =
                [PacketType::Hello, PacketType::Beacon, PacketType::Control, PacketType::Request, PacketType::Data];
            let header = Header { packet_type: types[number % 5], flags: number as u8 & 7, ttl: 64, fid };
            self.encoded("header", &format!("{number}"), |out| header.encode(out));
        }
        let request = request();
        self.encoded("request", "runs", |out| request.encode(out));
        let one = Request { forward: Fid::NONE, ranges: vec![(u32::MAX - 1, 1)], ..request };
        self.encoded("request", "one", |out| one.encode(out));
        let stream = StreamKey::new(&ObjectId([5; 16]), 1_400);
        let data = DataHeader { tag: 1, packet: 2, stream, origin: 3 };
        self.encoded("data_header", "plain", |out| data.encode(out));
        let hello = hello();
        self.encoded("hello", "heard", |out| hello.encode(out));
        let first = Hello { heard: None, padding_bytes: 0, ..hello };
        self.encoded("hello", "first", |out| first.encode(out));
        self.encoded("beacon", "active", |out| beacon().encode(out));
        let near =
            Beacon { to_manager: Vec::new(), from_manager: Vec::new(), state: ManagerState::Standby, ..beacon() };
        self.encoded("beacon", "near", |out| near.encode(out));
        let (from, to) = (NodeId(2), NodeId(1));
        let fragment = ControlBody::Fragment { index: 1, count: 3, reply: fids()[2], payload: b"hello" };
        let ack = ControlBody::Ack { received: 7 };
        let introduction = ControlBody::Introduction { credential: &[7; 32] };
        for (label, body) in [("fragment", fragment), ("ack", ack), ("introduction", introduction)] {
            let packet = ControlPacket { from, to, boot: 5, message: 42, body };
            self.encoded("control_packet", label, |out| packet.encode(out));
        }
        self.add("sealed", "plain", b"\x07\x04\x00\x11HEADbody");
    }

    fn messages(&mut self) {
        self.encoded("link_state", "two", |out| link_state().encode(out));
        self.encoded("routes", "plain", |out| routes().encode(out));
        self.encoded("path_request", "two", |out| path_request().encode(out));
        self.encoded("offer", "two", |out| offer().encode(out));
        let none = Offer::none(3, OfferVersion { term: 1, sequence: 2 });
        self.encoded("offer", "none", |out| none.encode(out));
        for (label, message) in messages() {
            self.encoded("message", &label, |out| message.encode(out));
        }
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
        blob(&mut changes, |out| routes().encode(out));
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
        blob(&mut channel, |out| link_state().encode(out));
        channel.extend_from_slice(&[1, 1, 0, 5, 0, 255, 3]);
        channel.extend_from_slice(&[0xff; 16]);
        channel.extend_from_slice(&[0, 0, 1]);
        self.add("control_channel", "both", channel);
        let mut sealed = vec![1];
        blob(&mut sealed, |out| {
            let body = ControlBody::Fragment { index: 0, count: 1, reply: fids()[2], payload: &[10, 0, 0, 0, 1] };
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
        blob(&mut sealed, |out| hello().encode(out));
        sealed.extend_from_slice(&[1, 1, 1]);
        blob(&mut sealed, |out| beacon().encode(out));
        self.add("neighbour", "sealed", sealed);

        // Every message to a node with all roles, acknowledged, with time passing.
        let mut talk = vec![15];
        for (number, (label, _)) in (0..).zip(messages()) {
            let from = match label.as_str() {
                "routes" | "offer" => 0,
                "link-state" | "path-request" => 1,
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
fn fids() -> [Fid; 5] {
    [
        Fid::NONE,
        Fid::new(FidKind::Bloom, 63, &[0x11; 32]),
        Fid::new(FidKind::List, 0, &[0xaa, 0xbb, 0xcc, 0xdd]),
        Fid::new(FidKind::Bitmap, 7, &[1, 2, 4]),
        Fid::new(FidKind::Bloom, 1, &[0xff; 96]),
    ]
}
fn request() -> Request {
    Request {
        tag: 0x0001_0002,
        object: ObjectId([5; 16]),
        packet_bytes: 1_400,
        capability: [9; 8],
        forward: fids()[1],
        ranges: vec![(0, 32), (64, 16), (0x8000_0000, 1)],
    }
}
fn hello() -> Hello {
    let heard = Heard {
        node: NodeId(1),
        nonce: 0xabcd,
        face: FaceId(1),
        echo_us: 4_096,
        age_us: 100,
        received_bytes_max: 1_500,
    };
    Hello {
        node: NodeId(0xa01),
        nonce: 0xaa,
        face: FaceId(3),
        roles: Roles::ROUTER | Roles::SENDER,
        label: "fn-1".into(),
        sent_us: 1_000_000,
        heard: Some(heard),
        padding_bytes: 3,
    }
}
fn beacon() -> Beacon {
    Beacon {
        node: NodeId(0xc03),
        boot: 0xcc,
        sequence: 9,
        term: 2,
        state: ManagerState::Active,
        priority: 100,
        capability_epoch: 5,
        label: "tm-1".into(),
        to_manager: [[0x11, 0x22, 0x33, 0x44], [0x55, 0x66, 0x77, 0x88]].into(),
        from_manager: [[0x99, 0xaa, 0xbb, 0xcc]].into(),
    }
}
fn link_state() -> LinkState {
    let adjacency = |face| Adjacency {
        face: FaceId(face),
        neighbour: NodeId(7),
        neighbour_face: FaceId(1),
        rtt_us: 20_000,
        capacity_kbps: 20_000,
        used_kbps: 100,
        mtu: 1_472,
    };
    LinkState {
        node: NodeId(2),
        boot: 5,
        sequence: 6,
        term: 1,
        roles: Roles::ROUTER | Roles::RESOLVER,
        label: "fn-1".into(),
        secret: [8; 16],
        location: None,
        adjacencies: vec![adjacency(0), adjacency(1)],
    }
}
fn routes() -> Routes {
    let (to, back) = (fids()[1], fids()[2]);
    let resolver = ResolverRoute { node: NodeId(4), boot: 7, label: "rn-1".into(), to, back, key: None };
    Routes {
        manager: NodeId(3),
        term: 2,
        sequence: 9,
        resolvers: vec![resolver],
        bitmap: BitmapNumbers { epoch: 7, local: Some(3), faces: vec![(FaceId(0), 0), (FaceId(1), 9)] },
        keys: vec![CapabilityKey::derive(&[1; 32], 4), CapabilityKey::derive(&[1; 32], 5)],
    }
}
fn path_request() -> PathRequest {
    let publisher = |node, text| Publisher {
        node: NodeId(node),
        version: 1 << 32 | node,
        label: "alice".into(),
        manifest: object(text, 10).manifest().encode(),
    };
    PathRequest {
        subscriber: NodeId(8),
        transfer: 3,
        version: 2 << 32 | 7,
        item: ItemId::new(&name("/lab/x")),
        metric: PathMetric::Latency,
        paths: 4,
        lease_ms: 30_000,
        publishers: vec![publisher(5, "/lab/x"), publisher(6, "/lab/x")],
        withdrawn: vec![(NodeId(7), 9)],
    }
}
fn overtaken() -> Overtaken {
    let entries = vec![(MatchKey::Subscription(NodeId(8), 3), 10), (MatchKey::Publisher(NodeId(5)), 11)];
    Overtaken { item: ItemId::new(&name("/lab/x")), entries }
}
fn offer() -> Offer {
    let path = |id| PathOffer {
        id,
        reverse: fids()[1],
        forward: fids()[2],
        capability: [3; 8],
        hops: 3,
        mtu: 1_472,
        latency_us: 20_000,
        capacity_kbps: 20_000,
        residual_kbps: 10_000,
        shared_links: [1, 2].map(|number| SharedLink { number, residual_kbps: 10_000 }).into(),
        label: "bob>fn-1>alice".into(),
    };
    Offer {
        transfer: 3,
        version: OfferVersion { term: 1, sequence: 2 },
        index: 0,
        count: 1,
        source: NodeId(5),
        source_label: "alice".into(),
        manifest: object("/lab/x", 5_000).manifest().encode(),
        fid_room: 32,
        paths: vec![path(1), path(2)],
    }
}

fn messages() -> Vec<(String, Message)> {
    let component = || name("/x").as_tlv().to_vec();
    let lease = Duration::from_secs(30);
    let scopes = MissingScopes::Create;
    let publish = Operation::Publish {
        label: "alice".into(),
        manifest: object("/lab/x", 10).manifest().encode(),
        object_bytes: 10,
        lease,
        scopes,
    };
    let child = ChildState::Item { publishers: 2, bytes: 10 };
    let operations = [
        publish,
        Operation::Unpublish,
        Operation::PublishScope { lease, scopes },
        Operation::UnpublishScope,
        Operation::Subscribe { transfer: 3, k: 4, metric: PathMetric::Hops, lease },
        Operation::Unsubscribe { transfer: 3 },
        Operation::SubscribeScope { known: NOTHING_KNOWN, lease },
        Operation::UnsubscribeScope,
        Operation::SetChild { component: component(), child, lease, scopes },
    ];
    let client = |operation| ClientRequest { request: 11, version: 12, name: name("/lab/x"), operation };
    let mut messages: Vec<(String, Message)> = (0..)
        .zip(operations)
        .map(|(number, operation)| (format!("request-{number}"), Message::Request(client(operation))))
        .collect();
    let answers = [
        Answer::Done { replicas: 3 },
        Answer::Rejected(Rejection::NoSuchScope),
        Answer::Rejected(Rejection::LimitReached(Limit::Records, 100_000)),
        Answer::Stale { current: 99 },
        Answer::NotReady,
    ];
    for (number, answer) in answers.into_iter().enumerate() {
        messages.push((format!("reply-{number}"), Message::Reply(Reply { request: 11, answer })));
    }
    let notice = |kind| ScopeNotice {
        scope: name("/lab"),
        revision: 4,
        kind,
        children: vec![(component(), child), (name("/y").as_tlv().to_vec(), ChildState::Scope)],
    };
    let entry = |key, value| Entry { key, version: 12, lease, value };
    let publisher = EntryValue::Publisher { label: "alice".into(), manifest: vec![1, 2, 3], object_bytes: 10 };
    let entries = vec![
        entry(EntryKey::Publisher(NodeId(5)), Some(publisher)),
        entry(EntryKey::ScopePublisher(NodeId(5)), Some(EntryValue::ScopePublisher)),
        entry(EntryKey::Subscription(NodeId(6), 3), Some(EntryValue::Subscription { k: 4, metric: PathMetric::Hops })),
        entry(EntryKey::ScopeSubscriber(NodeId(6)), Some(EntryValue::ScopeSubscriber { home: NodeId(4), known: 1 })),
        entry(EntryKey::Child(component()), Some(EntryValue::Child(child))),
        entry(EntryKey::Publisher(NodeId(7)), None),
    ];
    let record = RecordUpdate { name: name("/lab/x"), revision: 4, registration: 5, entries };
    let digest = Digest { kind: DigestKind::Compare, records: vec![(RecordKey([1; 16]), 2), (RecordKey([3; 16]), 4)] };
    let forward = Forward { request: 13, client: NodeId(6), inner: client(Operation::Unpublish) };
    let rest = [
        ("link-state", Message::LinkState(link_state())),
        ("routes", Message::Routes(routes())),
        ("path-request", Message::PathRequest(path_request())),
        ("overtaken", Message::Overtaken(overtaken())),
        ("offer", Message::Offer(offer())),
        ("listing", Message::ScopeNotice(notice(NoticeKind::Listing { part: 0, parts: 2 }))),
        ("change", Message::ScopeNotice(notice(NoticeKind::Change))),
        ("forward", Message::Forward(forward)),
        ("replicate", Message::Replicate(Replicate { request: 14, records: vec![record] })),
        ("sync", Message::Sync { request: 15 }),
        ("refused", Message::Refused(Refused { transfer: 3, rejection: Rejection::LimitReached(Limit::Transfers, 9) })),
        ("ready", Message::Ready { request: 15 }),
        ("digest", Message::Digest(digest)),
        ("relay", Message::Relay(Relay { client: NodeId(6), notice: notice(NoticeKind::Change) })),
    ];
    messages.extend(rest.into_iter().chain(renewals()).map(|(label, message)| (label.to_string(), message)));
    messages
}
fn renewals() -> [(&'static str, Message); 3] {
    [
        (
            "renewal",
            Message::Renewal(Renewal {
                request: Reply::HOST_BIT | 7,
                client: NodeId(6),
                lease: Duration::from_secs(30),
                holdings: vec![Holding { bucket: 3, count: 2, sum: 9 }, Holding { bucket: 1_023, count: 1, sum: 8 }],
            }),
        ),
        ("renewed", Message::Renewed(Renewed { request: Reply::HOST_BIT | 7, missing: vec![3, 1_023] })),
        ("many", Message::Many(vec![Message::Sync { request: 15 }, Message::Ready { request: 15 }])),
    ]
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
