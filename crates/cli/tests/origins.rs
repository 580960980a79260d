//! `[[origin]]` over real daemons: a gateway that fetches from web servers on a miss, with plain requests and with the
//! programs that it is for.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use crate::common::{
    self, Begun, Daemon, begin, config, http,
    origin::{Asked, Gate, Origin, Reply},
    until,
};
use crate::gateway::SmallDisk;

/// A daemon that connects gateways, and the gateways.
struct Site {
    folder: tempfile::TempDir,
    _server: Daemon,
    face: String,
}
/// A gateway.
struct Node {
    address: SocketAddr,
    _gateway: Begun,
    _lines: BufReader<ChildStdout>,
}
impl Site {
    fn new(family: &str) -> Site {
        let folder = tempfile::tempdir().unwrap();
        let (server, face) = common::server(folder.path(), family);
        Site { folder, _server: server, face }
    }
    fn gateway(&self, label: &str, http: &str, origins: &str) -> Node {
        let more = format!("{}[http]\nlisten = \"127.0.0.1:0\"\n{http}{origins}", self.face);
        let config = config(self.folder.path(), label, r#""receiver", "sender""#, 0, &more);
        let (gateway, ready, lines) =
            begin(self.folder.path(), &["gateway", "--json", "--config", config.to_str().unwrap()]);
        let address = ready["address"].as_str().unwrap().parse().unwrap();
        Node { address, _gateway: gateway, _lines: lines }
    }
    fn path(&self) -> &Path {
        self.folder.path()
    }
}
impl Node {
    fn get(&self, path: &str) -> http::Answer {
        self.with(path, "")
    }
    fn with(&self, path: &str, fields: &str) -> http::Answer {
        http::ask(self.address, "GET", path, fields, "")
    }
    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}
pub(crate) fn origin_section(path: &str, url: &str, more: &str) -> String {
    format!("[[origin]]\npath = \"{path}\"\nurl = \"{url}\"\n{more}")
}
/// Bytes that look like nothing else.
pub(crate) fn noise(seed: u64, size: usize) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(size).collect()
}
fn status(answer: &http::Answer) -> (u16, &str) {
    (answer.status, answer.field("cache-status").unwrap_or_default())
}

/// The first bytes reach a client while the origin still holds the last ones; clients at the same time share that one
/// request, later ones need none, and a neighbour's gateway takes the copy.
fn a_miss_is_streamed_shared_and_taken_by_neighbours_of(family: &str) {
    let site = Site::new(family);
    let (bytes, gate) = (noise(1, 3_000_000), Arc::<Gate>::default());
    let (body, closed) = (bytes.clone(), Arc::clone(&gate));
    let origin = Origin::start(move |_| Reply {
        gate: Some((1_000_000, Arc::clone(&closed))),
        ..Reply::new(200, &[("ETag", "\"1\""), ("Cache-Control", "max-age=600")], body.clone())
    });
    let section = origin_section("/files", &origin.url("/base"), "");
    let first = site.gateway("first", "", &section);
    let mut early = TcpStream::connect(first.address).unwrap();
    early.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    write!(early, "GET /files/a.bin?x=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut begun = vec![0; 500_000];
    early.read_exact(&mut begun).unwrap();
    thread::scope(|scope| {
        let others: Vec<_> = (0..8).map(|_| scope.spawn(|| first.get("/files/a.bin?x=1"))).collect();
        gate.open();
        for other in others {
            let answer = other.join().unwrap();
            assert!(answer.status == 200 && answer.body == bytes, "{}", answer.head);
        }
    });
    early.read_to_end(&mut begun).unwrap();
    assert!(begun.ends_with(&bytes));
    let again = first.get("/files/a.bin?x=1");
    assert_eq!(status(&again), (200, "tributary; hit"));
    assert_eq!((again.field("etag"), again.field("tributary-verified")), (Some("\"1\""), Some("origin")));
    assert!(again.field("age").is_some());
    let part = first.with("/files/a.bin?x=1", "Range: bytes=1000-1999\r\n");
    assert!(part.status == 206 && part.body == bytes[1_000..2_000]);
    assert_eq!(first.with("/files/a.bin?x=1", "If-None-Match: \"1\"\r\n").status, 304);
    assert_eq!(origin.gets("/base/a.bin?x=1").len(), 1);

    let second = site.gateway("second", "", &section);
    until("the neighbour's copy", || {
        let answer = second.get("/files/a.bin?x=1");
        assert!(answer.body == bytes);
        // Until it is published, the origin is asked.
        status(&answer).1.contains("neighbour") || origin.gets("/base/").len() > 1
    });
    assert_eq!(origin.gets("/base/").len(), 1);
    assert_eq!(second.get("/files/a.bin?x=1").field("tributary-verified"), Some("publisher"));
}

tributary_testkit::tests! {
    fn a_miss_is_streamed_shared_and_taken_by_neighbours() = a_miss_is_streamed_shared_and_taken_by_neighbours_of("psi");
    fn a_miss_is_streamed_shared_and_taken_by_neighbours_in_ndn() = a_miss_is_streamed_shared_and_taken_by_neighbours_of("ndn");
    fn a_miss_is_streamed_shared_and_taken_by_neighbours_in_mobility_first() = a_miss_is_streamed_shared_and_taken_by_neighbours_of("mf");
}

/// What RFC 9111 demands, one rule after the other, at one gateway.
#[test]
fn copies_are_used_as_the_origin_permits() {
    let site = Site::new("psi");
    let (version, is_away) = (Arc::new(AtomicUsize::new(1)), Arc::new(AtomicBool::new(false)));
    let (of, away) = (Arc::clone(&version), Arc::clone(&is_away));
    let origin = Origin::start(move |asked| {
        if away.load(Ordering::SeqCst) {
            return Reply::new(503, &[("Retry-After", "3600")], "busy");
        }
        let tag = format!("\"{}\"", of.load(Ordering::SeqCst));
        let body = format!("{} {}", asked.target, of.load(Ordering::SeqCst));
        let control = match asked.target.split('/').nth(1).unwrap() {
            "stale" => "max-age=0",
            "strict" => "max-age=0, must-revalidate",
            "background" => "max-age=0, stale-while-revalidate=3600",
            "private" => "private, max-age=600",
            "public" => "public, max-age=600",
            "absent" => return Reply::new(404, &[], "nothing"),
            "vary" => {
                let fields = [("Vary", "Accept"), ("Cache-Control", "max-age=600")];
                return Reply::new(200, &fields, asked.field("accept").unwrap_or("none"));
            }
            _ => "max-age=600",
        };
        match asked.field("if-none-match") == Some(&tag) {
            true => Reply::new(304, &[("ETag", &tag), ("Cache-Control", control)], ""),
            false => Reply::new(200, &[("ETag", &tag), ("Cache-Control", control)], body),
        }
    });
    let node = site.gateway("node", "", &origin_section("/o", &origin.url(""), "peer_patience = \"0s\"\n"));
    let gets = |path: &str| origin.gets(path).len();

    // Stale copies are confirmed, and replaced once the origin has another version.
    assert_eq!(node.get("/o/stale/a").text(), "/stale/a 1");
    let confirmed = node.get("/o/stale/a");
    assert_eq!(
        (status(&confirmed), confirmed.text().as_str()),
        ((200, "tributary; fwd=stale; fwd-status=304"), "/stale/a 1")
    );
    node.get("/o/background/a");
    node.get("/o/strict/a");
    node.get("/o/fresh/a");
    version.store(2, Ordering::SeqCst);
    assert_eq!(node.get("/o/stale/a").text(), "/stale/a 2");
    assert_eq!(node.get("/o/fresh/a").text(), "/fresh/a 1");
    assert_eq!(node.with("/o/fresh/a", "Cache-Control: no-cache\r\n").text(), "/fresh/a 2");
    let late = node.get("/o/background/a");
    assert_eq!(
        (status(&late).1, late.text().as_str()),
        ("tributary; hit; detail=stale-while-revalidate", "/background/a 1")
    );
    until("the new version", || node.get("/o/background/a").text() == "/background/a 2");
    assert_eq!(node.with("/o/none/a", "Cache-Control: only-if-cached\r\n").status, 504);

    // Absent files are remembered; answers that depend on a field are kept for each of its values.
    assert_eq!((node.get("/o/absent/a").status, node.get("/o/absent/a").text().as_str()), (404, "nothing"));
    assert_eq!(gets("/absent"), 1);
    for _ in 0..2 {
        for kind in ["text/a", "text/b"] {
            assert_eq!(node.with("/o/vary/a", &format!("Accept: {kind}\r\n")).text(), kind);
        }
    }
    assert_eq!(gets("/vary"), 2);

    // Credentials go to the origin, whose answers are for their user unless they are public.
    let token = "Authorization: Bearer secret\r\n";
    for (path, asked) in [("private", 4), ("plain", 3), ("public", 1)] {
        let path = format!("/o/{path}/a");
        (0..2).for_each(|_| assert_eq!(node.with(&path, token).status, 200));
        (0..2).for_each(|_| assert_eq!(node.get(&path).status, 200));
        let all = gets(&path[2..]);
        assert_eq!(all, asked, "{path}");
    }
    assert!(origin.gets("/plain").iter().filter(|asked| asked.field("authorization").is_some()).count() == 2);

    // A busy origin is left alone for as long as it says, and copies serve meanwhile.
    is_away.store(true, Ordering::SeqCst);
    let before = origin.count();
    let refused = node.get("/o/new/a");
    let wait: u64 = refused.field("retry-after").unwrap().parse().unwrap();
    assert!(refused.status == 503 && (200..=301).contains(&wait), "{}", refused.head);
    assert_eq!(status(&node.get("/o/stale/a")), (200, "tributary; hit; detail=origin-away"));
    assert_eq!(node.get("/o/strict/a").status, 503);
    assert_eq!(node.get("/o/new/b").status, 503);
    assert_eq!(origin.count(), before + 1, "one request for all clients");
    assert_eq!(node.with("/o/x", "").status, 503);
    for trick in ["/o/../x", "/o/%2e%2e/x"] {
        assert_eq!(node.get(trick).status, 400, "{trick}");
    }
    assert_eq!(http::ask(node.address, "POST", "/o/x", "", "{}").status, 405);
}

/// The origin sends other bytes than the digest in the address promises: no client gets the last one. A cut is resumed, and
/// a redirect to an address that the config does not name is not followed.
#[test]
fn wrong_bytes_are_not_completed_and_cuts_are_resumed() {
    let site = Site::new("psi");
    let bytes = noise(2, 400_000);
    let digest = sha256(&bytes);
    let body = bytes.clone();
    let origin = Origin::start(move |asked| match &asked.target {
        target if target.starts_with("/wrong") => Reply::new(200, &[], noise(3, 400_000)),
        target if target.starts_with("/cut") && asked.field("range").is_none() => {
            Reply { cut: Some(150_000), ..Reply::new(200, &[("ETag", "\"c\"")], body.clone()) }
        }
        target if target.starts_with("/inside") => Reply::new(302, &[("Location", "http://127.0.0.2/secret")], ""),
        _ => Reply::new(200, &[("ETag", "\"c\"")], body.clone()).ranged(asked),
    });
    let node = site.gateway("node", "", &origin_section("/o", &origin.url(""), "kind = \"oci\"\n"));
    let wrong = node.get(&format!("/o/wrong/blobs/sha256:{digest}"));
    assert!(wrong.status == 200 && wrong.body.len() < 400_000, "{}", wrong.body.len());
    let right = node.get(&format!("/o/right/blobs/sha256:{digest}"));
    assert_eq!((right.field("tributary-verified"), right.body == bytes), (Some("digest"), true));
    let cut = node.get("/o/cut/x");
    assert!(cut.status == 200 && cut.body == bytes, "{}", cut.body.len());
    assert_eq!(origin.gets("/cut")[1].field("range"), Some("bytes=150000-"));
    let inside = node.get("/o/inside/x");
    assert!(inside.status == 502 && inside.text().contains("not public"), "{}", inside.text());
}
pub(crate) fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
/// Python with this module; its absence is printed, and fails the test with `TRIBUTARY_PEERS=required`.
fn python(module: &str) -> Option<String> {
    let python = std::env::var("TRIBUTARY_PYTHON").unwrap_or_else(|_| "python3".into());
    let import = Command::new(&python).args(["-c", &format!("import {module}")]).stderr(Stdio::null()).status();
    if import.is_ok_and(|status| status.success()) {
        return Some(python);
    }
    assert_ne!(std::env::var("TRIBUTARY_PEERS").as_deref(), Ok("required"), "{python} has no module {module}");
    let _ = writeln!(std::io::stderr(), "\nSKIPPED: {python} has no module {module}; `.ci/peers FOLDER` installs it");
    None
}
/// Runs a program that must succeed.
fn succeed(command: &mut Command) -> String {
    for variable in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env_remove(variable);
    }
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        common::talk(&output),
        String::from_utf8_lossy(&output.stdout)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const COMMIT: &str = "1111111111111111111111111111111111111111";
/// What the hub answers, with a large file that is elsewhere.
fn hub(asked: &Asked, weights: &[u8], store: &str) -> Reply {
    let target = asked.target.split('?').next().unwrap();
    let digest = sha256(weights);
    let json = [("Content-Type", "application/json")];
    let commit = ("X-Repo-Commit", COMMIT);
    match target {
        "/api/models/org/model/revision/main" => {
            let info = format!(
                r#"{{"id":"org/model","sha":"{COMMIT}","siblings":[{{"rfilename":"config.json"}},{{"rfilename":"model.bin"}}]}}"#
            );
            Reply::new(200, &json, info)
        }
        _ if target == format!("/api/models/org/model/tree/{COMMIT}") => {
            let size = weights.len();
            let tree = format!(
                r#"[{{"type":"file","oid":"aa","size":9,"path":"config.json"}},{{"type":"file","oid":"bb","size":{size},"path":"model.bin","lfs":{{"oid":"{digest}","size":{size},"pointerSize":100}}}}]"#
            );
            Reply::new(200, &json, tree)
        }
        _ if target.ends_with("/config.json") => {
            Reply::new(200, &[commit, ("ETag", "\"aa\""), ("Content-Type", "text/plain")], "{\"a\": 1}\n")
        }
        _ if target.ends_with("/model.bin") && target.contains("/resolve/") => {
            let size = weights.len().to_string();
            let linked = format!("\"{digest}\"");
            let fields = [
                commit,
                ("X-Linked-Etag", &linked),
                ("X-Linked-Size", &size),
                ("X-Xet-Hash", "00"),
                ("Link", "<https://hub.invalid/x>; rel=\"xet-auth\""),
                ("Location", store),
            ];
            Reply::new(302, &fields, "")
        }
        _ => Reply::new(404, &[("X-Error-Code", "EntryNotFound")], "Entry not found"),
    }
}

/// Two gateways, two users of the hub's own client: the origin sends the model once. The weights come from the store
/// that the hub redirects to, in ranges, and are checked against the digest that the hub names.
#[test]
fn huggingface_hub_downloads_a_model_once_for_a_site() {
    let Some(python) = python("huggingface_hub") else { return };
    let site = Site::new("psi");
    let weights = noise(4, 12_000_000);
    let body = weights.clone();
    let store = Origin::start(move |asked| {
        Reply::new(200, &[("ETag", "\"store\""), ("Accept-Ranges", "bytes")], body.clone()).ranged(asked)
    });
    let (of, at) = (weights.clone(), store.url("/blob"));
    let origin = Origin::start(move |asked| hub(asked, &of, &at));
    let section = origin_section("/", &origin.url(""), "kind = \"huggingface\"\n");
    let download = |node: &Node, user: &str| {
        let script = "import sys, huggingface_hub as h\n\
            p = h.snapshot_download('org/model')\n\
            assert h.hf_hub_download('org/model', 'config.json', revision='main').startswith(p), p\n\
            try: h.hf_hub_download('org/model', 'none.txt'); sys.exit('found')\n\
            except h.errors.EntryNotFoundError: print(p, end='')";
        let mut command = Command::new(&python);
        command.args(["-c", script]).env("HF_ENDPOINT", node.url("")).env("HF_HOME", site.path().join(user));
        std::path::PathBuf::from(succeed(&mut command))
    };
    let first = site.gateway("first", "", &section);
    let snapshot = download(&first, "anna");
    assert!(std::fs::read(snapshot.join("model.bin")).unwrap() == weights);
    assert_eq!(std::fs::read_to_string(snapshot.join("config.json")).unwrap(), "{\"a\": 1}\n");
    assert!(snapshot.ends_with(COMMIT), "{snapshot:?}");
    let answer = first.get(&format!("/org/model/resolve/{COMMIT}/model.bin"));
    assert_eq!(status(&answer), (200, "tributary; hit"));
    assert_eq!((answer.field("tributary-verified"), answer.field("x-xet-hash")), (Some("digest"), None));
    let sent = || store.gets("/blob").iter().filter(|asked| asked.field("range") != Some("bytes=0-0")).count();
    let before = sent();
    // Another user at the same gateway, and one at a neighbour's.
    download(&first, "bert");
    let second = site.gateway("second", "", &section);
    let snapshot = download(&second, "cora");
    assert!(std::fs::read(snapshot.join("model.bin")).unwrap() == weights);
    assert_eq!(sent(), before, "the weights leave the store once");
    let answer = second.get(&format!("/org/model/resolve/{COMMIT}/model.bin"));
    assert_eq!(answer.field("tributary-verified"), Some("digest"));
}

/// An image of two layers in Debian's registry, pulled by skopeo through a gateway twice, the second time from its disk
/// alone.
#[test]
fn skopeo_pulls_an_image_through_the_gateway() {
    if !common::has_program("skopeo") || !common::has_program("docker-registry") {
        return;
    }
    let site = Site::new("psi");
    let at = site.path();
    let port = common::port();
    let data = at.join("registry");
    let registry = format!(
        "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: 127.0.0.1:{port}\n",
        data.display()
    );
    std::fs::write(at.join("registry.yml"), registry).unwrap();
    let mut serve = Command::new("docker-registry");
    serve.arg("serve").arg(at.join("registry.yml")).stdout(Stdio::null()).stderr(Stdio::null());
    let registry = Begun(serve.spawn().unwrap());
    until("the registry", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let layout = image(&at.join("image"));
    let push = format!("docker://127.0.0.1:{port}/team/app:1");
    let copy = |from: &str, to: &str, flag: &str| {
        let mut skopeo = Command::new("skopeo");
        skopeo.args(["--insecure-policy", "--tmpdir"]).arg(at);
        succeed(skopeo.args(["copy", flag, from, to]));
    };
    copy(&format!("oci:{}:1", layout.display()), &push, "--dest-tls-verify=false");
    let section = format!(
        "[[origin]]\npath = \"/v2\"\nurl = \"http://127.0.0.1:{port}/v2\"\nkind = \"oci\"\nfresh = \"1h\"\n\
         [[origin]]\nhost = \"other.example\"\npath = \"/v2\"\nurl = \"http://127.0.0.1:9/v2\"\nkind = \"oci\"\n"
    );
    let node = site.gateway("node", "", &section);
    let pull = |to: &str| {
        let to = at.join(to);
        copy(
            &format!("docker://{}/team/app:1", node.address),
            &format!("oci:{}:1", to.display()),
            "--src-tls-verify=false",
        );
        std::fs::read_dir(to.join("blobs/sha256")).unwrap().count()
    };
    assert_eq!(pull("first"), 4, "manifest, config, two layers");
    let tags = node.get("/v2/team/app/tags/list");
    assert_eq!(tags.json()["tags"][0], "1");
    let manifest = node.with("/v2/team/app/manifests/1", "Accept: application/vnd.oci.image.manifest.v1+json\r\n");
    assert_eq!(manifest.field("content-type"), Some("application/vnd.oci.image.manifest.v1+json"), "{}", manifest.head);
    let digest = manifest.field("docker-content-digest").unwrap().to_string();
    let fields = "Accept: application/vnd.oci.image.manifest.v1+json\r\n";
    let by_digest = node.with(&format!("/v2/team/app/manifests/{digest}"), fields);
    assert_eq!((by_digest.field("tributary-verified"), by_digest.body == manifest.body), (Some("digest"), true));
    assert_eq!(node.get("/v2/team/app/manifests/1?ns=other.example").status, 502, "another registry, which is away");
    drop(registry);
    assert_eq!(pull("second"), 4, "the registry is gone");
}
/// A layout with an image of two small layers.
fn image(folder: &Path) -> std::path::PathBuf {
    let blobs = folder.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).unwrap();
    let blob = |bytes: &[u8]| {
        let digest = sha256(bytes);
        std::fs::write(blobs.join(&digest), bytes).unwrap();
        (format!("sha256:{digest}"), bytes.len())
    };
    let layers = [noise(5, 300_000), noise(6, 20_000)].map(|bytes| blob(&bytes));
    let of = |(digest, size): &(String, usize), kind: &str| serde_json::json!({"mediaType": format!("application/vnd.oci.image.{kind}"), "digest": digest, "size": size});
    let ids: Vec<&String> = layers.iter().map(|(digest, _)| digest).collect();
    let config =
        serde_json::json!({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": ids}});
    let config = blob(config.to_string().as_bytes());
    let layers: Vec<_> = layers.iter().map(|layer| of(layer, "layer.v1.tar")).collect();
    let manifest = serde_json::json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": of(&config, "config.v1+json"), "layers": layers,
    });
    let mut entry = of(&blob(manifest.to_string().as_bytes()), "manifest.v1+json");
    entry["annotations"] = serde_json::json!({"org.opencontainers.image.ref.name": "1"});
    let index = serde_json::json!({"schemaVersion": 2, "manifests": [entry]});
    std::fs::write(folder.join("index.json"), index.to_string()).unwrap();
    std::fs::write(folder.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
    folder.to_path_buf()
}

/// An origin of files in memory, and one of what their pages link to by the name of another host.
fn two_hosts(pages: Vec<(String, Vec<u8>, &'static str)>, files: Vec<(String, Vec<u8>)>) -> (Origin, Origin) {
    let pages = move |asked: &Asked| match pages.iter().find(|(path, ..)| *path == asked.target) {
        Some((_, body, kind)) => Reply::new(200, &[("Content-Type", kind), ("ETag", "\"p\"")], body.clone()),
        None => Reply::new(404, &[], "none"),
    };
    let files = move |asked: &Asked| match files.iter().find(|(path, _)| *path == asked.target) {
        Some((_, body)) => Reply::new(200, &[("Cache-Control", "max-age=31536000")], body.clone()),
        None => Reply::new(404, &[], "none"),
    };
    (Origin::start(pages), Origin::start(files))
}

/// The pages of the index link to another host; `replace` leads pip back, and the second installation needs no origin for
/// the file.
#[test]
fn pip_installs_twice_what_an_index_sends_once() {
    let Some(python) = python("pip") else { return };
    let site = Site::new("psi");
    let wheel = site.path().join("drop-1.0-py3-none-any.whl");
    let script = "import zipfile, sys\nz = zipfile.ZipFile(sys.argv[1], 'w')\nd = 'drop-1.0.dist-info/'\n\
        z.writestr('drop.py', 'x = 42')\nz.writestr(d + 'METADATA', 'Metadata-Version: 2.1\\nName: drop\\nVersion: 1.0\\n')\n\
        z.writestr(d + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
        z.writestr(d + 'RECORD', 'drop.py,,\\n' + d + 'METADATA,,\\n' + d + 'WHEEL,,\\n' + d + 'RECORD,,\\n')\nz.close()";
    succeed(Command::new(&python).args(["-c", script]).arg(&wheel));
    let bytes = std::fs::read(&wheel).unwrap();
    let digest = sha256(&bytes);
    let file = "drop-1.0-py3-none-any.whl";
    let page = format!("<!DOCTYPE html><a href=\"https://files.invalid/packages/{file}#sha256={digest}\">{file}</a>");
    let (index, files) = two_hosts(
        vec![("/simple/drop/".into(), page.into_bytes(), "text/html")],
        vec![(format!("/packages/{file}"), bytes)],
    );
    let replace = "replace = [{ from = \"https://files.invalid/\", to = \"/pypi-files/\" }]\n";
    let section = origin_section("/pypi", &index.url(""), replace) + &origin_section("/pypi-files", &files.url(""), "");
    let node = site.gateway("node", "", &section);
    for to in ["one", "two"] {
        let url = node.url("/pypi/simple/");
        let mut pip = Command::new(&python);
        pip.args([
            "-m",
            "pip",
            "install",
            "-q",
            "--no-cache-dir",
            "--isolated",
            "--index-url",
            &url,
            "drop",
            "--target",
        ]);
        succeed(pip.arg(site.path().join(to)));
        assert_eq!(std::fs::read_to_string(site.path().join(to).join("drop.py")).unwrap(), "x = 42");
    }
    assert_eq!(files.gets("/packages/").len(), 1);
}

/// A crate from a sparse index whose `config.json` names another host.
#[test]
fn cargo_fetches_a_crate_from_a_sparse_index() {
    let site = Site::new("psi");
    let at = site.path();
    let write = |path: &str, text: &str| {
        let path = at.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("drop-1.0.0/Cargo.toml", "[package]\nname = \"drop\"\nversion = \"1.0.0\"\n");
    write("drop-1.0.0/src/lib.rs", "");
    succeed(Command::new("tar").current_dir(at).args(["czf", "drop.crate", "drop-1.0.0"]));
    let bytes = std::fs::read(at.join("drop.crate")).unwrap();
    let entry = serde_json::json!({
        "name": "drop", "vers": "1.0.0", "deps": [], "features": {}, "yanked": false, "cksum": sha256(&bytes),
    });
    let (index, files) = two_hosts(
        vec![
            ("/config.json".into(), br#"{"dl": "https://files.invalid/crates"}"#.into(), "application/json"),
            ("/dr/op/drop".into(), entry.to_string().into_bytes(), "text/plain"),
        ],
        vec![("/crates/drop/1.0.0/download".into(), bytes)],
    );
    let listen = common::port();
    let gateway = format!("http://127.0.0.1:{listen}");
    let replace = format!("replace = [{{ from = \"https://files.invalid\", to = \"{gateway}/crate-files\" }}]\n");
    let section =
        origin_section("/crates", &index.url(""), &replace) + &origin_section("/crate-files", &files.url(""), "");
    let more = format!("{}[http]\nlisten = \"127.0.0.1:{listen}\"\n{section}", site.face);
    let config = config(at, "node", r#""receiver", "sender""#, 0, &more);
    let _node = Daemon::start(at, &config);
    write("user/Cargo.toml", "[package]\nname = \"user\"\nversion = \"0.1.0\"\n[dependencies]\ndrop = \"1\"\n");
    write("user/src/lib.rs", "");
    write(
        "user/.cargo/config.toml",
        &format!(
            "[source.crates-io]\nreplace-with = \"site\"\n[source.site]\nregistry = \"sparse+{gateway}/crates/\"\n"
        ),
    );
    for home in ["one", "two"] {
        let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
        succeed(cargo.arg("fetch").current_dir(at.join("user")).env("CARGO_HOME", at.join(home)));
    }
    assert_eq!(files.gets("/crates/drop/1.0.0/download").len(), 1);
}

/// A large file comes from all mirrors, also if the first server is down; and copies outlive the gateway and the origin.
#[test]
fn mirrors_serve_together_and_copies_outlive_the_origin() {
    let site = Site::new("psi");
    let bytes = noise(7, 20_000_000);
    let mirror = || {
        let body = bytes.clone();
        Origin::start(move |asked| {
            Reply::new(200, &[("ETag", "\"m\""), ("Cache-Control", "max-age=600")], body.clone()).ranged(asked)
        })
    };
    let (first, second) = (mirror(), mirror());
    // Nothing listens on port 1.
    let more = format!("mirrors = [\"{}\", \"{}\"]\nstale = \"1h\"\n", first.url(""), second.url(""));
    let section = origin_section("/o", "http://127.0.0.1:1", &more);
    let node = site.gateway("node", "", &section);
    let answer = node.get("/o/large");
    assert!(answer.status == 200 && answer.body == bytes, "{}", answer.head);
    let ranges = |origin: &Origin| origin.gets("/large").iter().filter(|asked| asked.field("range").is_some()).count();
    assert!(ranges(&first) > 0 && ranges(&second) > 0, "{} and {}", ranges(&first), ranges(&second));
    assert!(node.get("/o/small").body == bytes, "the same bytes under another address");
    let before = first.count() + second.count();
    drop(node);
    let node = site.gateway("node", "", &section);
    let again = node.with("/o/large", "Range: bytes=19999990-\r\n");
    assert!(again.status == 206 && again.body == bytes[19_999_990..], "{}", again.head);
    assert_eq!(status(&node.get("/o/large")), (200, "tributary; hit"));
    assert_eq!(first.count() + second.count(), before);
}

/// Five times what the disk holds passes through it, from four clients at a time: each gets all bytes, and the disk keeps
/// its reserve.
#[test]
fn a_small_disk_serves_more_than_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(&folder.path().join("cache"), 64) else { return };
    let site = Site::new("psi");
    let bytes = noise(8, 16_000_000);
    let of = bytes.clone();
    let origin = Origin::start(move |asked| {
        let body = [asked.target.as_bytes(), &of].concat();
        Reply::new(200, &[("ETag", "\"d\""), ("Cache-Control", "max-age=600")], body).ranged(asked)
    });
    let node = site.gateway("node", &format!("cache = {:?}\n", disk.0), &origin_section("/o", &origin.url(""), ""));
    thread::scope(|scope| {
        for client in 0..4 {
            let (node, bytes) = (&node, &bytes);
            scope.spawn(move || {
                for file in 0..5 {
                    let answer = node.get(&format!("/o/{client}/{file}"));
                    let whole = [format!("/{client}/{file}").as_bytes(), bytes].concat();
                    assert!(answer.status == 200 && answer.body == whole, "{}: {}", answer.head, answer.body.len());
                }
            });
        }
    });
    let kept = std::fs::read_dir(&disk.0).unwrap().flatten().filter(|entry| entry.path().is_file()).count();
    assert!((1..=4).contains(&kept), "{kept} of 20 files fit");
    assert_eq!(node.get("/o/0/0").status, 200);
}
