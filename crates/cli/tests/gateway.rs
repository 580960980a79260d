//! `trib gateway` over real daemons, read with raw HTTP and by other programs.
//!
//! `.ci/peers` installs the programs. Tests of missing ones are skipped with a message, or fail with
//! `TRIBUTARY_PEERS=required`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "how soon a gateway answers is told by the clock on the wall")]

use std::{
    fs,
    io::{BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{ChildStdout, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::common::{self, Begun, Daemon, begin, browser::Browser, config, file, port, talk};

/// A publisher, and a gateway.
struct Site {
    folder: tempfile::TempDir,
    server: Daemon,
    gateway: Option<Begun>,
    address: SocketAddr,
    _lines: BufReader<ChildStdout>,
}

impl Site {
    fn new(family: &str, http: &str) -> Site {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let (server, face) = common::server(at, family);
        let http = format!("[http]\nlisten = \"127.0.0.1:0\"\npatience = \"3s\"\n{http}");
        let config = config(at, "reader", r#""receiver""#, 0, &format!("{face}{http}"));
        let arguments = ["gateway", "--json", "--config", config.to_str().unwrap()];
        let (gateway, ready, lines) = begin(at, &arguments);
        let address = ready["address"].as_str().unwrap().parse().unwrap();
        Site { folder, server, gateway: Some(gateway), address, _lines: lines }
    }
    fn path(&self) -> &Path {
        self.folder.path()
    }
    fn put(&self, path: &Path, name: &str) {
        common::put(self.path(), path, name);
    }
    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
    /// A request with these fields, and its answer: status, head and body.
    fn ask(&self, method: &str, path: &str, fields: &str) -> (u16, String, Vec<u8>) {
        self.raw(format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n").as_bytes())
    }
    fn raw(&self, request: &[u8]) -> (u16, String, Vec<u8>) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        // A gateway that refuses early may close before it has read everything.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let end = answer
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .unwrap_or_else(|| panic!("no head in {:?}", String::from_utf8_lossy(&answer[..answer.len().min(500)])));
        let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head, answer[end + 4..].to_vec())
    }
    fn get(&self, path: &str) -> (u16, String, Vec<u8>) {
        self.ask("GET", path, "")
    }
}

/// The value of a field of a head.
fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}
/// Runs another program if it is installed.
fn program(name: &str, arguments: &[&str], folder: &Path) -> Option<Output> {
    if Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        assert_ne!(std::env::var("TRIBUTARY_PEERS").as_deref(), Ok("required"), "'{name}' is not installed");
        let _ = writeln!(std::io::stderr(), "\nSKIPPED: '{name}' is not installed; `.ci/peers FOLDER` installs it");
        return None;
    }
    let mut command = Command::new(name);
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    for variable in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env_remove(variable);
    }
    Some(command.output().unwrap())
}
fn is_done(name: &str, output: &Output) {
    assert!(output.status.success(), "{name}: {}{}", talk(output), String::from_utf8_lossy(&output.stdout));
}

fn objects_are_read_whole_and_in_ranges(family: &str) {
    let site = Site::new(family, "");
    let original = file(site.path());
    let bytes = fs::read(&original).unwrap();
    site.put(&original, "/lab/disk.iso");

    let (status, head, body) = site.ask("GET", "/lab/disk.iso", "Range: bytes=2500000-2500099\r\n");
    assert_eq!((status, field(&head, "content-range")), (206, Some("bytes 2500000-2500099/3000000")), "{head}");
    assert!(body == bytes[2_500_000..2_500_100]);

    let (status, head, body) = site.get("/lab/disk.iso");
    assert_eq!((status, field(&head, "content-length")), (200, Some("3000000")), "{head}");
    assert!(body == bytes);
    assert_eq!(field(&head, "accept-ranges"), Some("bytes"));
    assert!(field(&head, "last-modified").is_some(), "{head}");
    let tag = field(&head, "etag").unwrap().to_string();
    assert_eq!(site.ask("GET", "/lab/disk.iso", &format!("If-None-Match: {tag}\r\n")).0, 304);

    let (status, head, body) = site.ask("HEAD", "/lab/disk.iso", "");
    assert_eq!((status, field(&head, "content-length"), body.len()), (200, Some("3000000"), 0), "{head}");
    let (status, head, body) = site.ask("GET", "/lab/disk.iso", "Range: bytes=0-9,-10\r\n");
    let boundary = field(&head, "content-type").unwrap().split_once("boundary=").unwrap().1.to_string();
    let part = |range: &str, bytes: &[u8]| {
        let head = format!(
            "\r\n--{boundary}\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes {range}/3000000\r\n\r\n"
        );
        [head.as_bytes(), bytes].concat()
    };
    let meant = [
        part("0-9", &bytes[..10]),
        part("2999990-2999999", &bytes[2_999_990..]),
        format!("\r\n--{boundary}--\r\n").into_bytes(),
    ];
    assert_eq!(status, 206);
    assert!(body == meant.concat(), "{}", String::from_utf8_lossy(&body));
    let (status, head, _) = site.ask("GET", "/lab/disk.iso", "Range: bytes=3000000-\r\n");
    assert_eq!((status, field(&head, "content-range")), (416, Some("bytes */3000000")), "{head}");
    let if_range = format!("Range: bytes=5-6\r\nIf-Range: {tag}\r\n");
    assert_eq!(site.ask("GET", "/lab/disk.iso", &if_range).2, bytes[5..7]);
    assert_eq!(site.ask("GET", "/lab/disk.iso", "Range: bytes=5-6\r\nIf-Range: \"other\"\r\n").0, 200);
    assert_eq!(site.ask("DELETE", "/lab/disk.iso", "").0, 405);
    let (status, _, reason) = site.get("/lab/none");
    assert!(status == 404 && reason.starts_with(b"404: ") && reason.ends_with(b"\n"), "{status}");
    assert_eq!(reason.iter().filter(|byte| **byte == b'\n').count(), 1, "one line");
}
tributary_testkit::tests! {
    fn objects_are_read_whole_and_in_ranges_in_psi() = objects_are_read_whole_and_in_ranges("psi");
    fn objects_are_read_whole_and_in_ranges_in_ndn() = objects_are_read_whole_and_in_ranges("ndn");
    fn objects_are_read_whole_and_in_ranges_in_mobility_first() = objects_are_read_whole_and_in_ranges("mf");
}

/// Unpublished names are 404 at once, slow no reader of another object, are no transfers, and are found as soon as they
/// are published.
fn missing_names_cost_little(family: &str) {
    // A round trip takes 40 ms.
    let site = Site::new(family, "[face.egress]\ndelay = \"40ms\"\n");
    let original = file(site.path());
    site.put(&original, "/lab/there");
    assert_eq!(site.get("/lab/there").0, 200);
    let begun = Instant::now();
    let mut taken: Vec<Duration> = (0..9)
        .map(|number| {
            let begun = Instant::now();
            assert_eq!(site.get(&format!("/y{number}")).0, 404);
            begun.elapsed()
        })
        .collect();
    taken.sort();
    let _ = writeln!(
        std::io::stderr(),
        "{family}: a missing name is 404 after {:?} (median), {:?} (last)",
        taken[4],
        taken[8]
    );
    let missing = |number: usize| site.get(&format!("/x{number}/1/2/3/4/5/6/7/8"));
    thread::scope(|scope| {
        let asked: Vec<_> = (0..40).map(|number| scope.spawn(move || missing(number).0)).collect();
        assert_eq!(site.get("/lab/there").0, 200);
        assert!(asked.into_iter().all(|asked| asked.join().unwrap() == 404));
    });
    assert_eq!(site.get("/favicon.ico").0, 404);
    // The site's patience is 3 s for each of 50 names: the network has denied them.
    assert!(
        taken[8] < Duration::from_millis(2_500) && begun.elapsed() < Duration::from_secs(20),
        "{family}: {taken:?}"
    );
    let metrics = String::from_utf8(site.get("/metrics").2).unwrap();
    let failed =
        metrics.lines().find(|line| line.starts_with("tributary_transfers_ended_total") && line.contains("failed"));
    assert!(failed.is_some_and(|line| line.ends_with(" 0")), "{family}: {failed:?}");

    site.put(&original, "/x0/1");
    let published = Instant::now();
    while site.get("/x0/1").0 != 200 {
        assert!(published.elapsed() < Duration::from_secs(1), "{family}: a publication ends the negative answer");
    }
}
tributary_testkit::tests! {
    fn missing_names_cost_little_in_psi() = missing_names_cost_little("psi");
    fn missing_names_cost_little_in_ndn() = missing_names_cost_little("ndn");
    fn missing_names_cost_little_in_mobility_first() = missing_names_cost_little("mf");
}

#[test]
fn many_clients_of_an_object_share_one_fetch_and_a_warm_cache_needs_no_source() {
    let site = Site::new("psi", "");
    let original = file(site.path());
    let bytes = fs::read(&original).unwrap();
    site.put(&original, "/big");
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| assert!(site.get("/big").2 == bytes));
        }
    });
    // The publisher is gone, and the object is in the gateway's cache.
    let Site { folder, server, gateway, address, _lines } = site;
    assert_eq!(server.stop(), Some(0));
    let again = port();
    let path = config(folder.path(), "other", r#""sender""#, again, "");
    let site = Site { server: Daemon::start(folder.path(), &path), folder, gateway, address, _lines };
    assert!(site.get("/big").2 == bytes);
    let cached: u64 = fs::read_dir(site.path().join("reader/http"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!((3_000_000..3_100_000).contains(&cached), "one copy of it: {cached}");
}

/// A player that seeks waits only for the bytes at that position, not for all earlier ones.
#[test]
fn a_seek_in_a_recording_is_answered_without_what_comes_before_it_in_a_real_browser() {
    // 40 MB of sound, 227 s of it: at this rate they take 160 s.
    let site = common::http::Site::with("psi", "listen = \"127.0.0.1:0\"\n", "[limits]\nrate = \"2Mbps\"\n");
    let sound = site.path().join("sound.wav");
    fs::write(&sound, wave(40_000_000)).unwrap();
    common::put(site.path(), &sound, "/lab/sound.wav");
    let Some(mut browser) = Browser::start(site.path()) else { return };
    browser.open(&format!("http://{}/lab/sound.wav", site.address));
    browser.until("document.querySelector('video')?.readyState >= 1");
    assert!((226.0..228.0).contains(&browser.value("document.querySelector('video').duration").as_f64().unwrap()));
    browser.value(
        "window.player = document.querySelector('video'); player.pause(); \
         player.onseeked = () => { window.sought = player.currentTime; }; player.currentTime = 200; 0",
    );
    browser.until("window.sought === 200 && player.readyState >= 2");
    let stored = site.get("/transfers").json()[0]["stored_bytes"].as_u64().unwrap();
    assert!(stored < 30_000_000, "{stored} bytes were fetched for it");
}
/// A recording with this many bytes of noise: 16 bit, two channels, 44,100 Hz.
fn wave(bytes: u32) -> Vec<u8> {
    let mut wave = Vec::new();
    wave.extend_from_slice(b"RIFF");
    wave.extend_from_slice(&(bytes + 36).to_le_bytes());
    wave.extend_from_slice(b"WAVEfmt ");
    wave.extend_from_slice(&16u32.to_le_bytes());
    wave.extend([1u16, 2].iter().flat_map(|field| field.to_le_bytes()));
    wave.extend([44_100u32, 4 * 44_100].iter().flat_map(|field| field.to_le_bytes()));
    wave.extend([4u16, 16].iter().flat_map(|field| field.to_le_bytes()));
    wave.extend_from_slice(b"data");
    wave.extend_from_slice(&bytes.to_le_bytes());
    wave.extend((0..bytes).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8));
    wave
}

/// A folder with these files.
fn tree(folder: &Path, name: &str, files: &[(&str, &[u8])]) -> PathBuf {
    let root = folder.join(name);
    for (path, bytes) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    root
}

#[test]
fn folders_are_pages_and_json_and_their_files_are_objects_of_their_own() {
    let mirror = "mirror = [{ host = \"www.example.org\", name = \"/site\" }]\n";
    let site = Site::new("ndn", mirror);
    let files: [(&str, &[u8]); 5] = [
        ("index.html", b"<h1>home</h1>"),
        ("docs/a & b.txt", b"one"),
        ("docs/<script>.txt", b"two"),
        ("docs/deep/video.mp4", &[7; 100_000]),
        ("style.css", b"body {}"),
    ];
    let root = tree(site.path(), "site", &files);
    std::os::unix::fs::symlink("docs/deep/video.mp4", root.join("latest.mp4")).unwrap();
    site.put(&root, "/site");
    assert_eq!(site.get("/site/").2, b"<h1>home</h1>");
    let (status, head, _) = site.get("/site/docs");
    assert_eq!((status, field(&head, "location")), (301, Some("/site/docs/")), "{head}");
    let (status, head, body) = site.get("/site/docs/");
    let page = String::from_utf8(body).unwrap();
    assert_eq!((status, field(&head, "content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(
        page.contains("href=\"./a%20%26%20b.txt\">a &amp; b.txt<") && page.contains("href=\"./deep/\">deep/<"),
        "{page}"
    );
    assert!(!page.contains("<script>"), "{page}");
    let (_, head, body) = site.get("/site/docs/?format=json");
    let list: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(field(&head, "content-type"), Some("application/json"));
    assert_eq!(
        list["entries"][1],
        serde_json::json!({"name": "a & b.txt", "path": "a%20%26%20b.txt", "type": "file", "size": 3})
    );
    assert!(site.ask("GET", "/site/", "Accept: application/json\r\n").2.starts_with(b"{"));

    assert_eq!(site.get("/site/docs/a%20%26%20b.txt").2, b"one");
    let (_, head, body) = site.ask("GET", "/site/latest.mp4", "Range: bytes=-10\r\n");
    assert_eq!((field(&head, "content-type"), &body[..]), (Some("video/mp4"), &[7; 10][..]), "{head}");
    assert_eq!(site.get("/site/docs/none").0, 404);
    assert_eq!(site.get("/site/style.css/").0, 404);
    // As the mirrored host: by its name, and as a proxy.
    let of_host = |target: &str, host: &str| {
        site.raw(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes())
    };
    assert_eq!(of_host("/style.css", "www.example.org").2, b"body {}");
    assert_eq!(of_host("http://www.example.org/style.css", "www.example.org").2, b"body {}");
    assert_eq!(of_host("http://other.example.org/style.css", "other.example.org").0, 421);
    assert_eq!(of_host("/site/style.css", "rebound.example.org").0, 421);
}

#[test]
fn curl_wget_and_aria2_read_from_it() {
    let site = Site::new("psi", "");
    let original = file(site.path());
    let bytes = fs::read(&original).unwrap();
    site.put(&original, "/big.bin");
    let (url, folder) = (site.url("/big.bin"), site.path());
    if let Some(output) = program("curl", &["-fsS", "-r", "100-199,-5", &url], folder) {
        is_done("curl", &output);
        assert!(output.stdout.windows(100).any(|window| window == &bytes[100..200]));
    }
    if let Some(output) = program("curl", &["-fsSI", &url], folder) {
        assert!(String::from_utf8_lossy(&output.stdout).to_lowercase().contains("content-length: 3000000"));
    }
    // An interrupted download resumes.
    fs::write(folder.join("cut"), &bytes[..1_234_567]).unwrap();
    if let Some(output) = program("curl", &["-fsS", "-C", "-", "-o", "cut", &url], folder) {
        is_done("curl -C -", &output);
        assert!(fs::read(folder.join("cut")).unwrap() == bytes);
    }
    fs::write(folder.join("wgot"), &bytes[..2_000_000]).unwrap();
    if let Some(output) = program("wget", &["-q", "-c", "-O", "wgot", &url], folder) {
        is_done("wget", &output);
        assert!(fs::read(folder.join("wgot")).unwrap() == bytes);
    }
    let arguments = ["-q", "-x", "16", "-s", "16", "-k", "1M", "--file-allocation=none", "-o", "many", &url];
    if let Some(output) = program("aria2c", &arguments, folder) {
        is_done("aria2c", &output);
        assert!(fs::read(folder.join("many")).unwrap() == bytes);
    }
}

#[test]
fn empty_files_ignore_ranges_and_clients_may_begin_with_http_2() {
    let site = Site::new("psi", "");
    let empty = site.path().join("empty");
    fs::write(&empty, "").unwrap();
    site.put(&empty, "/lab/empty");
    let (status, head, _) = site.ask("GET", "/lab/empty", "Range: bytes=0-1048575\r\n");
    assert_eq!((status, field(&head, "content-length")), (200, Some("0")), "{head}");
    let original = file(site.path());
    site.put(&original, "/lab/disk.iso");
    let url = site.url("/./lab/disk.iso");
    let arguments = ["-sS", "--path-as-is", "--http2-prior-knowledge", "-w", "%{http_version}", "-o", "copy", &url];
    let Some(output) = program("curl", &arguments, site.path()) else { return };
    is_done("curl", &output);
    assert_eq!(output.stdout, b"2");
    assert!(fs::read(site.path().join("copy")).unwrap() == fs::read(original).unwrap());
}

/// A file system of this many MiB in memory, until the test ends.
pub(crate) struct SmallDisk(pub(crate) PathBuf);
impl SmallDisk {
    pub(crate) fn mount(at: &Path, mebibytes: u32) -> Option<SmallDisk> {
        fs::create_dir_all(at).unwrap();
        let size = format!("size={mebibytes}m");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "none"]).arg(at).stderr(Stdio::null());
        if mount.status().is_ok_and(|status| status.success()) {
            return Some(SmallDisk(at.into()));
        }
        let _ = writeln!(std::io::stderr(), "\nSKIPPED: a small disk: mounting one needs root");
        None
    }
}
impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).stderr(Stdio::null()).status();
    }
}

#[test]
fn objects_pass_through_a_gateway_whose_disk_is_full_and_old_ones_make_room() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(&folder.path().join("cache"), 5) else { return };
    let site = Site::new("psi", &format!("cache = {:?}\nread_ahead = \"1MiB\"\n", disk.0));
    let original = file(site.path());
    let bytes = fs::read(&original).unwrap();
    for name in ["/lab/one", "/lab/two"] {
        // The same bytes would be one object.
        fs::write(&original, [name.as_bytes(), &bytes].concat()).unwrap();
        let copy = site.path().join(name.trim_start_matches("/lab/"));
        fs::copy(&original, &copy).unwrap();
        site.put(&copy, name);
    }
    let large = site.path().join("large");
    fs::write(&large, bytes.repeat(4)).unwrap();
    site.put(&large, "/lab/large");
    let whole = |name: &str| {
        let (status, head, body) = site.get(name);
        assert_eq!(status, 200, "{name}: {head}");
        body
    };
    // The second one replaces the first; the large one fits nowhere.
    assert!(whole("/lab/one") == [b"/lab/one", &bytes[..]].concat());
    assert!(whole("/lab/two") == [b"/lab/two", &bytes[..]].concat());
    assert!(whole("/lab/large") == bytes.repeat(4));
    assert!(whole("/lab/one") == [b"/lab/one", &bytes[..]].concat(), "small ones are served afterwards");
    assert!(whole("/lab/large") == bytes.repeat(4), "and again");
}

#[test]
fn pip_installs_from_a_simple_index_behind_it() {
    let site = Site::new("ndn", "");
    let (python, folder) = ("python3", site.path());
    let wheel = folder.join("wheel.py");
    fs::write(
        &wheel,
        "import zipfile, sys\nz = zipfile.ZipFile(sys.argv[1], 'w')\nd = 'drop-1.0.dist-info/'\nz.writestr('drop.py', \
         'x = 42')\nz.writestr(d + 'METADATA', 'Metadata-Version: 2.1\\nName: drop\\nVersion: 1.0\\n')\nz.writestr(d + \
         'WHEEL', 'Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\nz.writestr(d + \
         'RECORD', 'drop.py,,\\n' + d + 'METADATA,,\\n' + d + 'WHEEL,,\\n' + d + 'RECORD,,\\n')\nz.close()\n",
    )
    .unwrap();
    let package = folder.join("index/simple/drop");
    fs::create_dir_all(&package).unwrap();
    let file = "drop-1.0-py3-none-any.whl";
    let Some(made) = program(python, &["wheel.py", package.join(file).to_str().unwrap()], folder) else { return };
    is_done("python", &made);
    let page = format!("<!DOCTYPE html><html><body><a href=\"{file}\">{file}</a></body></html>");
    fs::write(package.join("index.html"), page).unwrap();
    site.put(&folder.join("index"), "/pypi");
    let url = site.url("/pypi/simple/");
    let arguments =
        ["-m", "pip", "install", "-q", "--no-cache-dir", "--isolated", "--index-url", &url, "--target", "got", "drop"];
    let Some(output) = program(python, &arguments, folder) else { return };
    is_done("pip", &output);
    assert_eq!(fs::read_to_string(folder.join("got/drop.py")).unwrap(), "x = 42");
}

#[test]
fn apt_updates_and_downloads_from_a_mirrored_repository() {
    let mirror = "mirror = [{ host = \"deb.example.org\", name = \"/mirror/debian\" }]\n";
    let site = Site::new("psi", mirror);
    let folder = site.path();
    let files: [(&str, &[u8]); 2] = [
        (
            "DEBIAN/control",
            b"Package: drop\nVersion: 1.0\nArchitecture: all\nMaintainer: a <a@example.org>\nDescription: d\n",
        ),
        ("usr/share/drop", b"water"),
    ];
    tree(folder, "package", &files);
    fs::create_dir_all(folder.join("repo/pool")).unwrap();
    let Some(built) = program("dpkg-deb", &["--build", "package", "repo/pool/drop.deb"], folder) else { return };
    is_done("dpkg-deb", &built);
    // apt-ftparchive does no more than this.
    let deb = fs::read(folder.join("repo/pool/drop.deb")).unwrap();
    let sum = |path: &str| {
        let output = program("sha256sum", &[path], folder).unwrap();
        String::from_utf8_lossy(&output.stdout).split(' ').next().unwrap().to_string()
    };
    let packages = format!(
        "Package: drop\nVersion: 1.0\nArchitecture: all\nMaintainer: a <a@example.org>\nDescription: d\nFilename: \
         pool/drop.deb\nSize: {}\nSHA256: {}\n\n",
        deb.len(),
        sum("repo/pool/drop.deb")
    );
    fs::create_dir_all(folder.join("repo/dists/stable/main/binary-amd64")).unwrap();
    fs::write(folder.join("repo/dists/stable/main/binary-amd64/Packages"), &packages).unwrap();
    let release = format!(
        "Origin: t\nSuite: stable\nCodename: stable\nDate: Thu, 01 Jan 2026 00:00:00 UTC\nArchitectures: amd64\nComponents: \
         main\nSHA256:\n {} {} main/binary-amd64/Packages\n",
        sum("repo/dists/stable/main/binary-amd64/Packages"),
        packages.len()
    );
    fs::write(folder.join("repo/dists/stable/Release"), release).unwrap();
    site.put(&folder.join("repo"), "/mirror/debian");
    for path in
        ["root/state/lists/partial", "root/cache/archives/partial", "root/etc/preferences.d", "root/etc/trusted.gpg.d"]
    {
        fs::create_dir_all(folder.join(path)).unwrap();
    }
    fs::write(folder.join("root/status"), "").unwrap();
    fs::write(folder.join("root/sources.list"), "deb [trusted=yes] http://deb.example.org stable main\n").unwrap();
    let root = folder.join("root");
    let conf = format!(
        "Dir \"{root}\";\nDir::Etc \"{root}/etc\";\nDir::State \"{root}/state\";\nDir::State::status \
         \"{root}/status\";\nDir::Cache \"{root}/cache\";\nDir::Etc::SourceList \"{root}/sources.list\";\nDir::Etc::SourceParts \
         \"-\";\nDir::Bin::methods \"/usr/lib/apt/methods\";\nAPT::Architecture \"amd64\";\nAPT::Sandbox::User \
         \"root\";\nAcquire::http::Proxy \"http://{address}\";\nAcquire::Languages \"none\";\n",
        root = root.display(),
        address = site.address
    );
    fs::write(folder.join("apt.conf"), conf).unwrap();
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("APT_CONFIG", folder.join("apt.conf")).args(arguments).current_dir(folder).output().ok()
    };
    if program("apt-get", &["--version"], folder).is_none() {
        return;
    }
    is_done("apt-get update", &apt(&["update"]).unwrap());
    is_done("apt-get download", &apt(&["download", "drop"]).unwrap());
    assert!(fs::read(folder.join("drop_1.0_all.deb")).unwrap() == deb);
}

#[test]
fn tricks_are_answered_clearly_and_slow_or_endless_heads_are_ended() {
    // Long enough that a busy machine does not end the first slow head before the last one has arrived.
    let site = Site::new("ndn", "head_timeout = \"3s\"\nconnections = 20\n");
    for path in ["/a/../../etc/passwd", "/a/%2e%2e/b", "/a%2fb", "/a%00", "/%zz"] {
        assert_eq!(site.get(path).0, 400, "{path}");
    }
    let of = |request: &str| site.raw(request.as_bytes()).0;
    assert_eq!(of("GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n"), 400);
    assert_eq!(of("GET /a HTTP/1.1\r\nConnection: close\r\n\r\n"), 400);
    assert_eq!(of("CONNECT other.example:443 HTTP/1.1\r\nHost: other.example:443\r\nConnection: close\r\n\r\n"), 405);
    let endless = format!("GET /a HTTP/1.1\r\nHost: localhost\r\n{}", "X: y\r\n".repeat(100_000));
    assert!([400, 431].contains(&of(&endless)));
    let long = format!("GET /a HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "y".repeat(1_000_000));
    assert!([400, 431].contains(&of(&long)));

    // Slow heads fill all places; one more is refused, and after the time for heads there is space again.
    let mut slow: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(site.address).unwrap()).collect();
    for stream in &mut slow {
        stream.write_all(b"GET /a HT").unwrap();
    }
    let start = Instant::now();
    while site.get("/").0 != 503 {
        assert!(start.elapsed() < Duration::from_secs(2), "twenty heads take twenty places");
        thread::sleep(Duration::from_millis(50));
    }
    let start = Instant::now();
    while site.get("/").0 != 200 {
        assert!(start.elapsed() < Duration::from_secs(20));
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn ten_thousand_connections_take_bounded_memory_and_the_end_is_in_order() {
    let mut site = Site::new("ndn", "connections = 10000\nhead_timeout = \"60s\"\n");
    let gateway = site.gateway.take().unwrap();
    let memory = |of: u32| {
        let status = fs::read_to_string(format!("/proc/{of}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap().to_string();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let before = memory(gateway.0.id());
    let limits = fs::read_to_string("/proc/self/limits").unwrap();
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let limit = limit.split_whitespace().next().unwrap().parse().unwrap_or(20_000usize);
    let count = limit.saturating_sub(200).min(10_000);
    let mut open = Vec::new();
    for _ in 0..count {
        let mut stream = TcpStream::connect(site.address).unwrap();
        stream.write_all(b"GET /a HTTP/1.1\r\n").unwrap();
        open.push(stream);
    }
    thread::sleep(Duration::from_secs(1));
    let after = memory(gateway.0.id());
    assert!(after < before + 300_000, "{count} connections: {before} kB, {after} kB");
    gateway.signal("INT");
    assert_eq!(gateway.wait(), Some(0));
}
