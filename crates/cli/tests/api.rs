//! The HTTP API of real daemons, and attacks on it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "real daemons take the time that they take")]

use std::{
    fs,
    io::{BufRead, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use crate::common::{self, file, http::Site, until};
use serde_json::{Value, json};

fn a_file_is_published_fetched_watched_and_removed_over_http(family: &str) {
    let site = Site::new(family, "");
    let original = file(site.path());
    common::put(site.path(), &original, "/lab/disk.iso");
    let mut events = site.events("");

    let status = site.get("/status");
    assert_eq!((status.status, status.field("content-type")), (200, Some("application/json")), "{}", status.head);
    assert_eq!(status.json()["label"], "receiver");
    assert_eq!(site.get("/faces").json(), status.json()["faces"]);

    let copy = site.path().join("copy.iso");
    let begun = site.ask("POST", "/transfers", &json!({"name": "/lab/disk.iso", "output": {"path": copy}}));
    assert_eq!(begun.status, 200, "{}", begun.json());
    let transfer = begun.json()["transfer"].as_str().unwrap().to_string();
    let one = || site.get(&format!("/transfers/{transfer}")).json();
    until("the end of the transfer", || one()["running"] == false && copy.exists());
    assert_eq!((&one()["stored_bytes"], &one()["failure"]), (&json!(3_000_000), &Value::Null));
    assert!(fs::read(&copy).unwrap() == fs::read(&original).unwrap());
    let paths = site.get("/paths?name=/lab/disk.iso").json();
    assert!(!paths[0]["paths"].as_array().unwrap().is_empty(), "{paths}");
    assert!(site.get(&format!("/explanation?id={transfer}")).json()["lines"].is_array());

    // Each step was an event; the last progress has the result.
    let mut names = Vec::new();
    let mut line = String::new();
    loop {
        line.clear();
        assert!(events.read_line(&mut line).unwrap() > 0, "the stream ended: {names:?}");
        names.extend(line.strip_prefix("event: ").map(|name| name.trim().to_string()));
        if let Some(data) = line.strip_prefix("data: ") {
            let data = common::json(data);
            if data["what"]["event"] == "progress" && data["what"]["running"] == false {
                assert_eq!(data["transfer"], *transfer);
                break;
            }
        }
    }
    assert!(["started", "source"].iter().all(|name| names.contains(&name.to_string())), "{names:?}");

    let put = site.ask("POST", "/publications", &json!({"path": copy, "name": "/home/copy"}));
    assert_eq!((put.status, &put.json()[0]["event"]), (200, &json!("published")), "{}", put.json());
    assert_eq!(site.get("/publications").json()[0]["name"], "/home/copy");
    let removed = site.ask("DELETE", "/publications?name=/home/copy", &Value::Null);
    assert_eq!((removed.status, &removed.json()["event"]), (200, &json!("unpublished")));
    // A client that changes something sees it immediately.
    assert_eq!(site.get("/publications").json(), json!([]));
    assert_eq!(site.receiver.stop(), Some(0));
}
tributary_testkit::tests! {
    a_file_is_published_fetched_watched_and_removed_over_http:
    fn a_file_is_published_fetched_watched_and_removed_over_http_in_psi("psi");
    fn a_file_is_published_fetched_watched_and_removed_over_http_in_ndn("ndn");
    fn a_file_is_published_fetched_watched_and_removed_over_http_in_mobility_first("mf");
}

#[test]
fn errors_are_objects_with_a_status_of_their_kind() {
    let site = Site::new("psi", "");
    for (method, path, body, status, kind) in [
        ("GET", "/nothing", Value::Null, 404, "usage"),
        ("POST", "/status", Value::Null, 405, "usage"),
        ("GET", "/transfers/transfer-9", Value::Null, 404, "not-found"),
        ("DELETE", "/transfers/transfer-9", Value::Null, 404, "not-found"),
        ("POST", "/transfers", json!({"name": "/a"}), 400, "usage"),
        ("POST", "/transfers", json!({"name": "/a", "output": "stream"}), 400, "usage"),
        ("POST", "/transfers", json!({"name": "a b", "output": {"path": "x"}, "colour": 1}), 400, "usage"),
        ("GET", "/names", Value::Null, 400, "usage"),
        ("GET", "/store", Value::Null, 400, "usage"),
        ("POST", "/publications", json!({"path": "/nowhere", "name": "/a"}), 500, "io"),
        ("POST", "/publications", json!({"path": "", "name": "/a"}), 400, "usage"),
        ("POST", "/transfers", json!({"name": "/a", "output": {"path": ""}}), 400, "usage"),
    ] {
        let answer = site.ask(method, path, &body);
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.json());
        assert_eq!(answer.json()["kind"], kind, "{method} {path}: {}", answer.json());
    }
    assert_eq!(site.ask("POST", "/status", &Value::Null).field("allow"), Some("get"));
    let head = site.ask("HEAD", "/status", &Value::Null);
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[test]
fn requests_that_go_on_come_line_by_line_or_as_events_and_end_with_their_client() {
    let site = Site::new("ndn", "");
    common::put(site.path(), &file(site.path()), "/big");
    let ping = json!({"name": "/big", "count": 2, "interval_ms": 10, "timeout_ms": 4_000});
    let answer = site.ask("POST", "/ping", &ping);
    assert_eq!(answer.field("content-type"), Some("application/x-ndjson"), "{}", answer.head);
    let lines = common::lines(&answer.body);
    assert_eq!((lines.len(), &lines[2]["event"]), (3, &json!("pinged")), "{lines:?}");
    let events = site.ask_with("POST", "/api/v1/ping", "Accept: text/event-stream\r\n", &ping.to_string());
    assert_eq!(events.field("content-type"), Some("text/event-stream"));
    let text = String::from_utf8(events.body).unwrap();
    assert!(text.starts_with("event: echo\ndata: {\"event\":\"echo\"") && text.contains("event: pinged\n"), "{text}");

    // An immediate failure has its own status; a started fetch is followed to its end.
    let missing = site.ask("POST", "/get", &json!({"name": "/big", "output": {"path": "/nowhere/x"}}));
    assert_eq!(missing.status, 500, "{}", missing.json());
    let get = site.ask("POST", "/get", &json!({"name": "/big", "output": {"path": site.path().join("out")}}));
    assert_eq!(common::lines(&get.body).last().unwrap()["event"], "done");
    assert!(site.path().join("out").exists());

    // A client that disconnects ends its fetch.
    let body =
        json!({"name": "/none", "output": {"path": site.path().join("none")}, "patience_ms": 60_000}).to_string();
    let mut stream = TcpStream::connect(site.address).unwrap();
    write!(
        stream,
        "POST /api/v1/get HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        site.address,
        body.len()
    )
    .unwrap();
    let running = || {
        let all = site.get("/transfers").json();
        all.as_array().unwrap().iter().filter(|one| one["name"] == "/none" && one["running"] == true).count()
    };
    until("a fetch", || running() == 1);
    drop(stream);
    until("its end", || running() == 0);
}

#[test]
fn without_the_token_nothing_is_told_or_done() {
    let site = Site::with("psi", "listen = \"0.0.0.0:0\"\ntoken_file = \"token\"\n", "");
    let mut site = site;
    site.address = ([127, 0, 0, 1], site.address.port()).into();
    let token = fs::read_to_string(site.path().join("token")).unwrap();
    let token = token.trim();
    let of = |path: &str, fields: &str| site.ask_with("GET", path, fields, "");
    for fields in ["", "Authorization: Bearer x\r\n", &format!("Authorization: Basic {token}\r\n")] {
        for path in ["/api/v1/status", "/api/v1/events", "/api/v1/openapi.json", "/api/v1/nothing", "/api/v1"] {
            let refused = of(path, fields);
            assert_eq!((refused.status, refused.field("www-authenticate")), (401, Some("bearer")), "{path}");
            assert!(!refused.head.contains("access-control"), "{}", refused.head);
        }
    }
    let put = json!({"path": site.path().join("token"), "name": "/stolen"}).to_string();
    assert_eq!(site.ask_with("POST", "/api/v1/publications", "", &put).status, 401);
    let with = format!("Authorization: Bearer {token}\r\n");
    assert_eq!(of("/api/v1/status", &with).status, 200);
    assert_eq!(of("/api/v1/publications", &with).json(), json!([]));
    // Objects are read as before.
    assert_eq!(of("/", "").status, 200);
}

#[test]
fn a_listener_that_others_reach_has_no_api_without_a_token() {
    let site = Site::with("psi", "listen = \"0.0.0.0:0\"\n", "");
    let mut site = site;
    site.address = ([127, 0, 0, 1], site.address.port()).into();
    let refused = site.ask_with("GET", "/api/v1/status", "", "");
    assert_eq!(refused.status, 403);
    assert!(refused.json()["hint"].as_str().unwrap().contains("token_file"), "{}", refused.json());
}

#[test]
fn pages_of_other_sites_neither_read_nor_change_anything() {
    let site = Site::new("psi", "");
    let own = format!("http://{}", site.address);
    let status = |fields: &str| site.ask_with("GET", "/api/v1/status", fields, "").status;
    assert_eq!(status(&format!("Origin: {own}\r\nSec-Fetch-Site: same-origin\r\n")), 200);
    for fields in [
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
        "Origin: null\r\n",
        "Origin: http://evil.example\r\n",
        "Origin: http://localhost\r\n",
    ] {
        let refused = site.ask_with("GET", "/api/v1/status", fields, "");
        assert_eq!(refused.status, 403, "{fields}");
        assert!(!refused.head.contains("access-control"), "{}", refused.head);
    }
    // A browser's preflight request for methods that forms cannot send.
    let preflight = "Origin: http://evil.example\r\nAccess-Control-Request-Method: PUT\r\n";
    let preflight = site.ask_with("OPTIONS", "/api/v1/limit", preflight, "");
    assert_eq!(preflight.status, 403);
    assert!(!preflight.head.contains("access-control"), "{}", preflight.head);
    // A form's request, from a browser that sends no metadata about it.
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        let body = r#"{"bits_per_second":1}"#;
        let form = format!(
            "PUT /api/v1/limit HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: \
             {}\r\n\r\n{body}",
            site.address,
            body.len()
        );
        assert_eq!(site.raw(form.as_bytes()).status, 415, "{kind}");
    }
    // A page of a published object has the same host, and is sandboxed: its origin is null.
    let page = site.path().join("page.html");
    fs::write(&page, "<script>fetch('/api/v1/status')</script>").unwrap();
    common::put(site.path(), &page, "/page.html");
    let page = site.ask_with("GET", "/page.html", "", "");
    assert!(page.field("content-security-policy").unwrap().starts_with("sandbox"), "{}", page.head);
    assert!(!page.head.contains("allow-same-origin"));
    assert_eq!(page.field("cross-origin-resource-policy"), Some("same-origin"));
    assert_eq!(site.ask_with("GET", "/page.html", "Sec-Fetch-Site: cross-site\r\n", "").status, 403);
}

#[test]
fn a_host_that_was_made_to_lead_here_is_refused() {
    let site = Site::new("psi", "mirror = [{ host = \"www.example.org\", name = \"/site\" }]\n");
    let of = |host: &str, target: &str| {
        site.raw(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes()).status
    };
    for host in ["localhost", "127.0.0.1", "[::1]:80"] {
        assert_eq!(of(host, "/api/v1/status"), 200, "{host}");
    }
    for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example"] {
        assert_eq!(of(host, "/api/v1/status"), 421, "{host}");
    }
    assert_eq!(of("a b", "/api/v1/status"), 400);
    // A mirror's paths are names, and so are a proxy's.
    assert_eq!(of("www.example.org", "/api/v1/status"), 404);
    assert_eq!(of("www.example.org", "http://www.example.org/api/v1/status"), 404);
    assert_eq!(of("localhost", "http://localhost/api/v1/status"), 404);
}

#[test]
fn tricks_with_paths_lead_to_nothing() {
    let site = Site::new("psi", "patience = \"1s\"\n");
    let status = |path: &str| site.ask_with("GET", path, "", "").status;
    for (path, expected) in [
        ("/api/v1/../v1/status", 404),
        ("/api/v1/transfers/..%2fstatus", 404),
        ("/api/v1/transfers/%zz", 400),
        ("/api/v1/transfers/%ff", 400),
        ("/api/v1//status", 404),
        ("/api/v1/status/", 404),
        ("/api/v1/STATUS", 404),
        ("/api/v2/status", 404),
        // These are names of unpublished objects.
        ("/api/v1x/status", 404),
        ("/%61pi/v1/status", 404),
        ("//api/v1/status", 404),
        ("/x/../api/v1/status", 400),
    ] {
        assert_eq!(status(path), expected, "{path}");
    }
}

#[test]
fn slow_and_oversized_requests_are_ended_and_the_rest_goes_on() {
    let site = Site::new("psi", "head_timeout = \"1s\"\n");
    let send = |text: String| site.raw(text.as_bytes());
    let head = |len: usize| {
        format!(
            "PUT /api/v1/limit HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: \
             application/json\r\nContent-Length: {len}\r\n\r\n",
            site.address
        )
    };
    // 64 KiB is the limit, with or without a declared length.
    let long = "x".repeat(100_000);
    let refused = send(head(long.len()) + &long);
    assert!(refused.status == 400 && refused.json()["message"].as_str().unwrap().contains("65536"), "{}", refused.head);
    let chunked = head(0).replace("Content-Length: 0", "Transfer-Encoding: chunked");
    assert_eq!(send(format!("{chunked}186a0\r\n{long}\r\n0\r\n\r\n")).status, 400);
    // Deep nesting is no JSON for us.
    let deep = "[".repeat(60_000);
    assert_eq!(send(head(deep.len()) + &deep).status, 400);
    let start = Instant::now();
    assert_eq!(send(head(100) + "{").status, 400, "a body that does not come");
    assert!(start.elapsed() < Duration::from_secs(10));
    let mut slow: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(site.address).unwrap()).collect();
    for stream in &mut slow {
        stream.write_all(b"GET /api/v1/sta").unwrap();
    }
    assert_eq!(site.get("/status").status, 200);
    for mut stream in slow {
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut rest = Vec::new();
        assert!(stream.read_to_end(&mut rest).is_ok(), "it is closed");
    }
}

#[test]
fn an_upload_is_published_replaced_and_gone_when_it_is_withdrawn() {
    let site = Site::new("psi", "upload_size = \"1MiB\"\n");
    let upload = |query: &str, bytes: &[u8]| {
        let head = format!(
            "POST /api/v1/uploads?{query} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: \
             application/octet-stream\r\nContent-Length: {}\r\n\r\n",
            site.address,
            bytes.len()
        );
        site.raw(&[head.as_bytes(), bytes].concat())
    };
    let folder = site.path().join("receiver/uploads");
    let kept = || fs::read_dir(&folder).map_or(0, |entries| entries.count());
    let published = upload("name=/up/a", &[7; 900_000]);
    assert_eq!((published.status, &published.json()["bytes"]), (200, &json!(900_000)), "{}", published.text());
    let again = upload("name=/up/a", &[8; 800_000]);
    assert_eq!((again.status, &again.json()["bytes"], kept()), (200, &json!(800_000), 1), "{}", again.text());
    let copy = common::run(
        site.path(),
        &["get", "/up/a", "-o", "-", "--control", site.path().join("receiver/control.sock").to_str().unwrap()],
    );
    assert!(copy.stdout == [8; 800_000], "{}", common::talk(&copy));
    for (query, bytes, status) in [
        ("name=/up/big", &vec![1; 1_100_000][..], 400),
        ("name=/up/b&path=/etc/passwd", b"x", 400),
        ("nothing", b"x", 400),
        ("name=/", b"x", 400),
    ] {
        assert_eq!(upload(query, bytes).status, status, "{query}");
    }
    // A client that stops in the middle leaves nothing.
    let mut cut = TcpStream::connect(site.address).unwrap();
    write!(
        cut,
        "POST /api/v1/uploads?name=/cut HTTP/1.1\r\nHost: {}\r\nContent-Type: \
         application/octet-stream\r\nContent-Length: 1000\r\n\r\nhalf",
        site.address
    )
    .unwrap();
    until("the beginning of the upload", || kept() == 2);
    drop(cut);
    until("its end", || kept() == 1);
    assert_eq!(site.ask("DELETE", "/publications?name=/up/a", &Value::Null).status, 200);
    assert_eq!(kept(), 0);
}

#[test]
fn a_fetch_is_paused_resumed_where_it_was_and_cancelled() {
    let site = Site::new("psi", "");
    common::put(site.path(), &file(site.path()), "/big");
    let copy = site.path().join("copy");
    let begin = json!({"name": "/big", "output": {"path": copy}, "limit_bits_per_second": 2_000_000});
    let begun = |answer: common::http::Answer| answer.json()["transfer"].as_str().unwrap().to_string();
    let id = begun(site.ask("POST", "/transfers", &begin));
    let of = |id: &str| site.get(&format!("/transfers/{id}")).json();
    until("the first chunk", || of(&id)["stored_bytes"].as_u64().unwrap() > 0);
    let paused = site.ask("POST", &format!("/transfers/{id}/pause"), &Value::Null);
    assert_eq!(paused.status, 200, "{}", paused.text());
    until("the pause", || of(&id)["running"] == false);
    let stored = of(&id)["stored_bytes"].as_u64().unwrap();
    assert_eq!(of(&id)["paused"], true);
    assert!(!copy.exists());
    assert_eq!(site.ask("POST", &format!("/transfers/{id}/pause"), &Value::Null).status, 400, "it does not run");
    // The folder of the fetch is free a moment later.
    let mut again = site.ask("POST", &format!("/transfers/{id}/resume"), &Value::Null);
    let end = Instant::now() + Duration::from_secs(10);
    while again.status != 200 {
        assert!(Instant::now() < end, "{}", again.text());
        again = site.ask("POST", &format!("/transfers/{id}/resume"), &Value::Null);
    }
    assert_eq!(begun(again), id, "it is the same transfer");
    assert_eq!(site.ask("POST", &format!("/transfers/{id}/resume"), &Value::Null).status, 400, "once");
    until("what is here already", || of(&id)["running"] == true && of(&id)["stored_bytes"].as_u64().unwrap() >= stored);
    assert_eq!(site.ask("PUT", &format!("/transfers/{id}/limit"), &json!({"bits_per_second": null})).status, 200);
    until("the end", || copy.exists());
    assert!(fs::read(&copy).unwrap() == fs::read(site.path().join("original")).unwrap());
    let other =
        json!({"name": "/big", "output": {"path": site.path().join("other")}, "limit_bits_per_second": 100_000});
    let id = begun(site.ask("POST", "/transfers", &other));
    assert_eq!(site.ask("DELETE", &format!("/transfers/{id}"), &Value::Null).status, 200);
    until("the end", || of(&id)["running"] == false && of(&id)["paused"] == false);
    assert_eq!(site.ask("POST", &format!("/transfers/{id}/resume"), &Value::Null).status, 404);
}

/// `cargo xtask bench api-clients` repeats this with 1,000 and 200 clients, and compares rates.
#[test]
fn a_hundred_clients_and_twenty_streams_are_all_served_while_a_fetch_goes_on() {
    const CLIENTS: usize = 100;
    const STREAMS: usize = 20;
    let site = Site::new("psi", "");
    common::put(site.path(), &file(site.path()), "/big");
    let begin =
        json!({"name": "/big", "output": {"path": site.path().join("copy")}, "limit_bits_per_second": 8_000_000});
    let mut streams: Vec<_> = (0..STREAMS).map(|_| site.events("")).collect();
    let begun = site.ask("POST", "/transfers", &begin).json();
    let path = format!("/transfers/{}", begun["transfer"].as_str().unwrap());
    let of_one = || site.get(&path).json();
    let answers: usize = std::thread::scope(|scope| {
        let client = || {
            let mut answered = 0;
            while of_one()["running"] == true {
                let answer = site.ask_with("GET", "/api/v1/status", "", "");
                assert_eq!((answer.status, &answer.json()["label"]), (200, &json!("receiver")));
                answered += 1;
                std::thread::sleep(Duration::from_millis(200));
            }
            answered
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert!(answers >= CLIENTS, "{answers}");
    let done = of_one();
    assert_eq!((&done["failure"], done["stored_bytes"].as_u64()), (&Value::Null, Some(3_000_000)));
    // 3 MB at 8 Mbit/s are 3 s; a machine with other work may take some more.
    assert!(done["seconds"].as_f64().unwrap() < 12.0, "{done}");
    // Each stream received the end.
    for stream in &mut streams {
        let mut line = String::new();
        while !(line.starts_with("data: ") && line.contains("\"running\":false")) {
            line.clear();
            assert!(stream.read_line(&mut line).unwrap() > 0);
        }
    }
    let metrics = site.ask_with("GET", "/metrics", "", "").text();
    assert!(metrics.contains(&format!("tributary_http_event_streams{{family=\"psi\"}} {STREAMS}")), "{metrics}");
}

#[test]
fn another_user_of_the_machine_is_refused_without_a_token() {
    use std::os::unix::process::CommandExt;
    // Only root can become another user.
    let id = std::process::Command::new("id").arg("-u").output().unwrap();
    if id.stdout != b"0\n" {
        return;
    }
    let site = Site::new("psi", "");
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{}; printf 'GET /api/v1/status HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: \
         close\\r\\n\\r\\n' >&3; cat <&3",
        site.address.port()
    );
    let ask = |uid: u32| {
        let output = std::process::Command::new("bash").args(["-c", &script]).uid(uid).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(ask(0).starts_with("HTTP/1.1 200"), "{}", ask(0));
    let refused = ask(65_534);
    assert!(refused.starts_with("HTTP/1.1 403") && refused.contains("token_file"), "{refused}");
}

#[test]
fn what_happens_is_watched_on_the_command_line_and_fetches_are_paused_there() {
    let site = Site::new("psi", "");
    common::put(site.path(), &file(site.path()), "/big");
    let control = site.path().join("receiver/control.sock");
    let control = control.to_str().unwrap();
    let trib = |arguments: &[&str]| {
        let output = common::run(site.path(), &[arguments, &["--control", control, "--json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", common::talk(&output));
        common::lines(&output.stdout).pop().unwrap()
    };
    let (watch, first, mut lines) = common::begin(site.path(), &["watch", "--control", control, "--json"]);
    assert_eq!(first["event"], "waiting");
    let copy = site.path().join("copy");
    let begun = trib(&["get", "/big", "--detach", "--limit", "2Mbps", "-o", copy.to_str().unwrap()]);
    let id = begun["transfer"].as_str().unwrap();
    assert_eq!(trib(&["pause", id])["event"], "cancelled");
    let end = Instant::now() + Duration::from_secs(10);
    let resumed = loop {
        let output = common::run(site.path(), &["resume", id, "--control", control, "--json"]);
        if output.status.code() == Some(0) {
            break common::lines(&output.stdout).pop().unwrap();
        }
        assert!(Instant::now() < end, "{}", common::talk(&output));
    };
    let resumed = resumed["transfer"].as_str().unwrap();
    trib(&["limit", "none", "--transfer", resumed]);
    until("the end", || copy.exists());
    let mut ended = Vec::new();
    while !ended.contains(&resumed.to_string()) {
        let mut line = String::new();
        assert!(lines.read_line(&mut line).unwrap() > 0);
        let line = common::json(&line);
        if line["what"]["event"] == "progress" && line["what"]["running"] == false {
            ended.push(line["transfer"].as_str().unwrap().to_string());
        }
    }
    assert!(ended.contains(&id.to_string()), "{ended:?}");
    drop(watch);
}
