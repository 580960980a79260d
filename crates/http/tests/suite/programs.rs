//! Programs that people use with a proxy: curl, pip, and a browser. A test whose program is missing prints that and
//! passes; `TRIBUTARY_PEERS=required` makes it fail where `.ci/peers` installs the program.
use super::{
    script::{Answer, Script, Then},
    *,
};
use std::{os::unix::process::CommandExt, path::PathBuf, process::Command};

/// The program, if it can be started.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn find(names: &[&str], is_installed_in_ci: bool) -> Option<PathBuf> {
    let found = names.iter().find(|name| Command::new(name).arg("--version").output().is_ok());
    if found.is_none() {
        let is_required = std::env::var("TRIBUTARY_PEERS").is_ok_and(|wish| wish == "required");
        assert!(!is_required || !is_installed_in_ci, "{} is not installed", names[0]);
        eprintln!("skipped: {} is not installed", names[0]);
    }
    found.map(PathBuf::from)
}
fn text_answer(content_type: &str, content: &[u8]) -> Answer {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n", content.len());
    Answer { pieces: vec![[head.as_bytes(), content].concat()], then: Then::KeepsOpen }
}

#[test]
fn curl_fetches_uploads_and_goes_through_tunnels() {
    let Some(curl) = find(&["curl"], true) else { return };
    let page = text_answer("text/plain", b"page");
    let script = Script::start([("/page".to_string(), page)].into());
    let timeouts = Timeouts::default();
    let world = world_of(Server::start(), script.address, None, timeouts, Limits::default());
    let run = |arguments: &[&str]| {
        let proxy = format!("http://{}", world.browser.address);
        let output = Command::new(&curl).args(["-sS", "-m", "30", "-x", &proxy]).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    assert_eq!(run(&["http://site.example/page"]), b"page");
    assert_eq!(run(&["-0", "http://site.example./page"]), b"page");
    assert_eq!(run(&["-p", "http://site.example:80/page"]), b"page", "through a tunnel to port 80");
    assert!(run(&["-I", "http://site.example/page"]).starts_with(b"HTTP/1.1 200 OK\r\n"));
    let sent: Vec<u8> = (0..3_000_000).map(byte).collect();
    let path = world.folder.path().join("upload");
    std::fs::write(&path, &sent).unwrap();
    let path = path.to_str().unwrap();
    // With `Expect: 100-continue`, as curl sends for a body of this size, and in chunks.
    assert!(run(&["-T", path, "http://site.example/put"]) == sent);
    assert!(run(&["-T", path, "-H", "Transfer-Encoding: chunked", "http://site.example/put"]) == sent);
    assert_eq!(run(&["http://site.example/page", "http://site.example/page"]), b"pagepage", "on one connection");
}

#[test]
fn pip_installs_from_an_index_behind_the_proxies() {
    let python = std::env::var("TRIBUTARY_PYTHON").unwrap_or_else(|_| "python3".into());
    let has_pip = Command::new(&python).args(["-m", "pip", "--version"]).output().is_ok_and(|got| got.status.success());
    if !has_pip {
        let is_required = std::env::var("TRIBUTARY_PEERS").is_ok_and(|wish| wish == "required");
        assert!(!is_required, "pip is not installed");
        return eprintln!("skipped: pip is not installed");
    }
    // The smallest possible package: an archive of source files with its metadata.
    let make = "import io, sys, zipfile\n\
                out = io.BytesIO()\n\
                wheel = zipfile.ZipFile(out, 'w')\n\
                wheel.writestr('upstream.py', 'x = ' + repr('y' * 300000))\n\
                info = 'upstream-1.0.dist-info/'\n\
                wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: upstream\\nVersion: 1.0\\n')\n\
                wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: a\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
                wheel.writestr(info + 'RECORD', '')\n\
                wheel.close()\n\
                sys.stdout.buffer.write(out.getvalue())\n";
    let wheel = Command::new(&python).args(["-c", make]).output().unwrap().stdout;
    let file = "upstream-1.0-py3-none-any.whl";
    let index = format!("<!DOCTYPE html><html><body><a href=\"/files/{file}\">{file}</a></body></html>");
    let answers = [
        ("/simple/upstream/".to_string(), text_answer("text/html", index.as_bytes())),
        (format!("/files/{file}"), text_answer("application/zip", &wheel)),
    ];
    let world = Script::start(answers.into()).world(Timeouts::default());
    let (proxy, into) = (format!("http://{}", world.browser.address), world.folder.path().join("packages"));
    let output = Command::new(&python)
        .args(["-m", "pip", "install", "--isolated", "--no-cache-dir", "--disable-pip-version-check", "--no-deps"])
        .args(["--index-url", "http://site.example/simple", "--trusted-host", "site.example", "--proxy", &proxy])
        .args(["--retries", "0", "--target", into.to_str().unwrap(), "upstream"])
        .env_remove("PIP_INDEX_URL")
        .env_remove("PIP_CONFIG_FILE")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read(into.join("upstream.py")).unwrap().len(), 300_006);
}

/// A page whose script counts the responses, and requests `/done` after the last one.
const PAGE: &str = "<!DOCTYPE html><title>waiting</title><body><script>\n\
    let left = 32; const done = () => { if (--left == 0) fetch('/done'); };\n\
    for (let at = 0; at < 30; at++) fetch('/part/' + at).then(got => got.text()).then(text => { if (text == 'part') done(); });\n\
    const events = new EventSource('/events'); events.onmessage = got => { if (got.data == 'one') { events.close(); done(); } };\n\
    const socket = new WebSocket('ws://site.example/socket');\n\
    socket.onopen = () => socket.send('hello'); socket.onmessage = got => { if (got.data == 'hello') done(); };\n\
    </script></body>";

#[test]
fn a_browser_loads_a_page_with_thirty_parts_an_event_stream_and_a_websocket() {
    let Some(chromium) = find(&["chromium", "chromium-browser", "google-chrome", "chromium-headless-shell"], false)
    else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (done, is_done) = std::sync::mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let done = done.clone();
            thread::spawn(move || while serve_page(&stream, &done).is_some() {});
        }
    });
    let world = world_of(Server::start(), address, None, Timeouts::default(), Limits::default());
    let mut browser = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-port=0"])
        .arg(format!("--user-data-dir={}", world.folder.path().join("profile").display()))
        .arg(format!("--proxy-server=http://{}", world.browser.address))
        .arg("http://site.example/")
        .stderr(std::process::Stdio::null())
        // The program may be a script whose child is the browser.
        .process_group(0)
        .spawn()
        .unwrap();
    let all = is_done.recv_timeout(Duration::from_secs(60));
    let group = format!("-{}", browser.id());
    assert!(Command::new("kill").args(["-KILL", "--", &group]).status().unwrap().success());
    browser.wait().unwrap();
    assert!(all.is_ok(), "the browser has not got everything within a minute");
}
fn serve_page(mut stream: &TcpStream, done: &std::sync::mpsc::Sender<()>) -> Option<()> {
    let mut reader = BufReader::with_capacity(1, stream);
    let (line, fields, _) = read_message(&mut reader)?;
    let ok = |kind: &str, content: &str| {
        format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{content}", content.len())
    };
    match line.split(' ').nth(1)? {
        "/" => stream.write_all(ok("text/html", PAGE).as_bytes()).ok(),
        "/events" => {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
            stream.write_all(head.as_bytes()).ok()?;
            stream.write_all(b"b\r\ndata: one\n\n\r\n").ok()?;
            thread::sleep(Duration::from_secs(30));
            None
        }
        "/socket" => {
            let key = fields.iter().find_map(|field| field.strip_prefix("sec-websocket-key: "))?;
            let accept = tungstenite::handshake::derive_accept_key(key.as_bytes());
            let head = format!(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).ok()?;
            let role = tungstenite::protocol::Role::Server;
            let mut socket = tungstenite::WebSocket::from_raw_socket(stream.try_clone().ok()?, role, None);
            while let Ok(message) = socket.read() {
                if message.is_text() {
                    socket.send(message).ok()?;
                }
            }
            None
        }
        "/done" => {
            let _ = done.send(());
            stream.write_all(ok("text/plain", "good").as_bytes()).ok()
        }
        target if target.starts_with("/part/") => stream.write_all(ok("text/plain", "part").as_bytes()).ok(),
        _ => stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").ok(),
    }
}
