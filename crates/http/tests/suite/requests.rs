//! Requests as the web server sees them (RFC 9110 §7, RFC 9112 §3).
use super::{
    script::{Script, Then, read_response},
    *,
};

fn echo() -> (Script, World) {
    let script = Script::of(&[("/refuses", "HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n", Then::Closes)]);
    let world = script.world(Timeouts { answer: Duration::from_secs(8), ..Timeouts::default() });
    (script, world)
}

#[test]
fn fields_of_the_browsers_connection_stay_behind_and_the_proxies_say_that_they_are_there() {
    let (script, world) = echo();
    let fields = "Connection: keep-alive, X-Of-This-Hop\r\nX-Of-This-Hop: 1\r\nProxy-Connection: keep-alive\r\n\
                  Proxy-Authorization: Basic eDp5\r\nTE: gzip\r\nUpgrade: h2c\r\nVia: 1.0 fred\r\nX-End: 1\r\nCookie: a=1\r\n";
    assert_eq!(world.request("GET", "/a?b", fields).status(), 200);
    let seen = script.last("/a?b").unwrap();
    for name in ["connection", "x-of-this-hop", "proxy-connection", "proxy-authorization", "te", "upgrade"] {
        assert!(seen.values(name).is_empty(), "{name}: {seen:?}");
    }
    assert_eq!((seen.values("x-end"), seen.values("cookie")), (vec!["1"], vec!["a=1"]));
    assert_eq!((seen.values("host"), seen.values("via").len()), (vec!["site.example"], 3));
    assert!(seen.values("transfer-encoding").is_empty() && seen.values("content-length").is_empty(), "{seen:?}");
}

#[test]
fn a_request_that_comes_by_again_is_refused() {
    let (script, world) = echo();
    assert_eq!(world.request("GET", "/first", "").status(), 200);
    let seen = script.last("/first").unwrap();
    for hop in seen.values("via") {
        let got = world.request("GET", "/again", &format!("Via: 1.1 other, {hop}\r\n"));
        assert_eq!(got.status(), 508, "{got:?}");
    }
    assert_eq!(script.count("/again"), 0);
}

#[test]
fn a_host_may_end_with_a_dot_and_be_written_as_one_likes() {
    let (script, world) = echo();
    for host in ["site.example.", "SITE.example", "site.example:80", "site.example.:80"] {
        for target in [format!("http://{host}/"), "/".to_string()] {
            let got = world.raw(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            assert_eq!(got.status(), 200, "{host} {target}");
            assert_eq!(script.last("/").unwrap().values("host"), [host], "the web server may have its own opinion");
        }
    }
}

#[test]
fn forwards_are_counted_and_the_last_proxy_answers_itself() {
    let (script, world) = echo();
    let got = world.request("TRACE", "/here", "Max-Forwards: 0\r\nCookie: secret\r\nX-Seen: 1\r\n");
    let body = String::from_utf8_lossy(&got.body).into_owned();
    assert_eq!(got.values("content-type"), ["message/http"]);
    assert!(body.starts_with("TRACE /here HTTP/1.1\r\n") && body.contains("x-seen: 1") && !body.contains("secret"));
    let got = world.request("TRACE", "/there", "Max-Forwards: 1\r\n");
    let body = String::from_utf8_lossy(&got.body).into_owned();
    assert!(body.contains("via: 1.1 trib-") && body.contains("max-forwards: 0"), "the web server's side: {body}");
    assert_eq!(script.count("/here") + script.count("/there"), 0);
    let got = world.request("OPTIONS", "/", "Max-Forwards: 0\r\n");
    assert!(got.status() == 200 && got.values("allow")[0].contains("GET"), "{got:?}");
    assert_eq!(world.request("OPTIONS", "/beyond", "Max-Forwards: 2\r\n").status(), 200);
    assert_eq!(script.last("/beyond").unwrap().values("max-forwards"), ["0"]);
    assert_eq!(world.request("OPTIONS", "/", "Max-Forwards: many\r\n").status(), 400);
}

#[test]
fn options_of_the_server_itself_reach_it() {
    let (script, world) = echo();
    assert_eq!(world.raw("OPTIONS * HTTP/1.1\r\nHost: site.example\r\n\r\n").status(), 200);
    assert_eq!(script.last("*").unwrap().values("host"), ["site.example"]);
}

#[test]
fn bodies_pass_with_a_length_in_chunks_and_with_trailers() {
    let (script, world) = echo();
    let post = |path: &str, rest: &str| {
        world.raw(format!("POST http://site.example{path} HTTP/1.1\r\nHost: site.example\r\n{rest}"))
    };
    assert_eq!(post("/length", "Content-Length: 5\r\n\r\nhello").body, b"hello");
    assert_eq!(script.last("/length").unwrap().values("content-length"), ["5"]);
    assert_eq!(post("/empty", "Content-Length: 0\r\n\r\n").status(), 200);
    assert_eq!(script.last("/empty").unwrap().values("content-length"), ["0"]);
    let chunks = "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2;a=b\r\nhe\r\n3\r\nllo\r\n0\r\nX-Sum: 7\r\n\r\n";
    assert_eq!(post("/chunks", chunks).body, b"hello");
    let seen = script.last("/chunks").unwrap();
    assert_eq!((seen.values("transfer-encoding"), seen.values("x-sum")), (vec!["chunked"], vec!["7"]), "{seen:?}");
    let both = "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    assert_eq!(post("/both", both).body, b"hello");
    assert!(script.last("/both").unwrap().values("content-length").is_empty(), "chunks overrule it (9112 §6.3)");
    let old = world.raw("POST http://site.example/old HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!((old.status(), &old.body[..]), (200, &b"hello"[..]));
    assert!(script.last("/old").unwrap().line.ends_with("HTTP/1.1"), "a proxy says its own version (9110 §2.5)");
}

#[test]
fn a_body_waits_for_the_web_server_to_want_it() {
    let (script, world) = echo();
    let head = |path: &str| {
        format!(
            "PUT http://site.example{path} HTTP/1.1\r\nHost: site.example\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        )
    };
    let stream = world.connect();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    (&stream).write_all(head("/wants").as_bytes()).unwrap();
    let mut line = String::new();
    let mut reader = BufReader::with_capacity(1, &stream);
    reader.read_line(&mut line).unwrap();
    assert_eq!(line, "HTTP/1.1 100 Continue\r\n");
    reader.read_line(&mut line).unwrap();
    (&stream).write_all(b"hello").unwrap();
    assert_eq!(read_response(&mut reader, "PUT").body, b"hello");
    assert_eq!(script.last("/wants").unwrap().values("expect"), ["100-continue"]);
    let got = world.raw(head("/refuses"));
    assert_eq!((got.status(), got.interims.len()), (417, 0), "the body is not asked for: {got:?}");
}

#[test]
fn a_websocket_carries_bytes_both_ways() {
    let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\nhi";
    let refusal = "HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno";
    let script = Script::of(&[("/ws", switch, Then::Echoes), ("/no", refusal, Then::KeepsOpen)]);
    let world = script.world(Timeouts::default());
    let ask = |path: &str| {
        format!(
            "GET http://site.example{path} HTTP/1.1\r\nHost: site.example\r\nConnection: keep-alive, Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Key: y\r\n\r\n"
        )
    };
    let stream = world.connect();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    (&stream).write_all(ask("/ws").as_bytes()).unwrap();
    let mut reader = BufReader::with_capacity(1, &stream);
    let got = read_response(&mut reader, "GET");
    assert_eq!(
        (got.status(), got.values("upgrade"), got.values("connection")),
        (101, vec!["websocket"], vec!["upgrade"])
    );
    assert_eq!(got.values("sec-websocket-accept"), ["x"]);
    let seen = script.last("/ws").unwrap();
    assert_eq!((seen.values("upgrade"), seen.values("connection")), (vec!["websocket"], vec!["upgrade"]));
    let mut bytes = [0; 2];
    reader.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"hi");
    for length in [1, 100, 100_000] {
        let sent: Vec<u8> = (0..length).map(byte).collect();
        let writing = stream.try_clone().unwrap();
        let of_writer = sent.clone();
        let writer = thread::spawn(move || (&writing).write_all(&of_writer).unwrap());
        let mut back = vec![0; length];
        reader.read_exact(&mut back).unwrap();
        writer.join().unwrap();
        assert!(back == sent, "{length} bytes");
    }
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(reader.read(&mut bytes).unwrap(), 0, "it ends when one side ends it");
    // An unwilling server answers as usual.
    let got = world.raw(ask("/no"));
    assert_eq!((got.status(), &got.body[..]), (426, &b"no"[..]));
}

#[test]
fn each_request_is_logged_at_both_ends() {
    let (_script, world) = echo();
    let fields = "User-Agent: test \"one\"\r\nReferer: http://a/\r\nContent-Length: 5\r\n\r\nhello";
    let got = world.raw(format!("POST http://site.example/x HTTP/1.1\r\nHost: site.example\r\n{fields}"));
    assert_eq!(got.status(), 200);
    world.raw("GET / HTTP/1.1\r\nHost: site.example\r\nX-Folded: a\r\n b\r\n\r\n");
    let read = |name: &str, lines: usize| {
        let clock = Clock::new();
        loop {
            let text = std::fs::read_to_string(world.folder.path().join(name)).unwrap();
            if text.lines().count() >= lines || clock.now() > Time::from_millis(10_000) {
                return text;
            }
            thread::sleep(Duration::from_millis(20));
        }
    };
    let browser = read("browser.log", 2);
    let line = browser.lines().next().unwrap();
    assert!(line.starts_with("127.0.0.1 - - ["), "{line}");
    assert!(
        line.contains("\"POST http://site.example/x HTTP/1.1\" 200 5 \"http://a/\" \"test \\\"one\\\"\""),
        "{line}"
    );
    assert!(browser.contains("\"- - -\" 400 0"), "{browser}");
    let origin: serde_json::Value = serde_json::from_str(read("origin.log", 1).trim()).unwrap();
    assert_eq!((&origin["status"], &origin["target"], &origin["bytes"]), (&200.into(), &"/x".into(), &5.into()));
}

#[test]
fn who_does_not_finish_a_head_or_a_body_loses_the_place_to_others() {
    let script = Script::of(&[]);
    let short = Duration::from_millis(500);
    let timeouts = Timeouts { head: short, body: short, ..Timeouts::default() };
    let limits = Limits { connections: 1, ..Limits::default() };
    let world = world_of(Server::start(), script.address, None, timeouts, limits);
    let with_body = "POST http://site.example/never HTTP/1.1\r\nHost: site.example\r\nContent-Length: 9\r\n\r\nhalf";
    for unfinished in ["", "GET http://site.example/never HTTP/1.1\r\nHost: si", with_body] {
        let slow = world.connect();
        (&slow).write_all(unfinished.as_bytes()).unwrap();
        // There is one place, which it has until then.
        assert_eq!(world.request("GET", "/next", "Connection: close\r\n").status(), 200, "{unfinished:?}");
        drop(slow);
    }
    let slow = world.connect();
    (&slow).write_all(with_body.as_bytes()).unwrap();
    assert_eq!(read_response(&mut BufReader::new(&slow), "POST").status(), 408);
    assert_eq!(script.count("/never"), 0);
}

#[test]
fn a_connection_beyond_the_limit_waits_until_another_one_ends() {
    let server = Server::start();
    let address = server.address;
    let limits = Limits { connections: 2, ..Limits::default() };
    let world = world_of(server, address, None, Timeouts::default(), limits);
    let endless: Vec<TcpStream> = (0..2)
        .map(|_| {
            let mut stream = world.connect();
            stream.write_all(b"GET http://site.example/endless HTTP/1.1\r\nHost: site.example\r\n\r\n").unwrap();
            stream.read_exact(&mut [0; 1_000]).unwrap();
            stream
        })
        .collect();
    let waiting = world.connect();
    waiting.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    (&waiting).write_all(b"GET http://site.example/object/1 HTTP/1.1\r\nHost: site.example\r\n\r\n").unwrap();
    let mut byte = [0];
    assert!((&waiting).read(&mut byte).is_err(), "it waits for a place");
    drop(endless);
    waiting.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(read_response(&mut BufReader::new(&waiting), "GET").status(), 200);
}
