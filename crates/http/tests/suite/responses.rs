//! Responses of web servers with and without violations of RFC 9110 and RFC 9112: the proxies' responses have no
//! violation.
use super::{
    script::{Answer, Got, Script, Then, read_response},
    *,
};

const OK: &str = "HTTP/1.1 200 OK\r\n";

/// What the browser must get.
enum Must {
    /// This status, and this body to its end.
    Get(u16, &'static str),
    /// A status of the proxies, within seconds, with this reason.
    Fail(u16, &'static str),
    /// A body that does not end well.
    Cut,
}
use Must::{Cut, Fail, Get};

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn responses_are_framed_by_the_book_whatever_the_web_server_does() {
    let many = |count: usize| -> String { (0..count).map(|number| format!("X-{number}: 1\r\n")).collect() };
    let big = |length: usize| format!("{OK}X-Big: {}\r\nContent-Length: 2\r\n\r\nok", "h".repeat(length));
    let ok = |rest: &str| format!("{OK}{rest}");
    let of = |text: &str| text.to_string();
    let cases: Vec<(&str, String, Then, Must)> = vec![
        ("length", ok("Content-Length: 2\r\n\r\nok"), Then::KeepsOpen, Get(200, "ok")),
        (
            "chunks overrule a length, 9112 §6.3",
            ok("Content-Length: 50\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
            Then::KeepsOpen,
            Get(200, "ok"),
        ),
        (
            "the same the other way round",
            ok("Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
            Then::KeepsOpen,
            Get(200, "ok"),
        ),
        ("equal lengths", ok("Content-Length: 2\r\nContent-Length: 2\r\n\r\nok"), Then::KeepsOpen, Get(200, "ok")),
        (
            "two lengths, 9112 §6.3",
            ok("Content-Length: 2\r\nContent-Length: 3\r\n\r\nok!"),
            Then::KeepsOpen,
            Fail(502, "invalid HTTP"),
        ),
        ("a length that is none", ok("Content-Length: -2\r\n\r\nok"), Then::KeepsOpen, Fail(502, "invalid HTTP")),
        ("a length with a plus", ok("Content-Length: +2\r\n\r\nok"), Then::KeepsOpen, Fail(502, "invalid HTTP")),
        ("ended by the connection", ok("\r\nok"), Then::Closes, Get(200, "ok")),
        ("HTTP/1.0", of("HTTP/1.0 200 OK\r\n\r\nok"), Then::Closes, Get(200, "ok")),
        ("shorter than its length", ok("Content-Length: 9\r\n\r\nok"), Then::Closes, Cut),
        ("without the last chunk", ok("Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"), Then::Closes, Cut),
        (
            "chunk extensions, 9112 §7.1.1",
            ok("Transfer-Encoding: chunked\r\n\r\n2;a=b;c=\"d\"\r\nok\r\n0;e\r\n\r\n"),
            Then::KeepsOpen,
            Get(200, "ok"),
        ),
        ("a chunk size that is none", ok("Transfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n0\r\n\r\n"), Then::Closes, Cut),
        (
            "a chunk size beyond all numbers",
            ok("Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nok\r\n0\r\n\r\n"),
            Then::Closes,
            Cut,
        ),
        (
            "a chunk longer than its size",
            ok("Transfer-Encoding: chunked\r\n\r\n1\r\nok\r\n0\r\n\r\n"),
            Then::Closes,
            Cut,
        ),
        ("garbage", of("\x01\x02\x03 what?\r\n\r\n"), Then::Closes, Fail(502, "invalid HTTP")),
        ("another version", of("HTTP/2.7 200 OK\r\n\r\n"), Then::Closes, Fail(502, "invalid HTTP")),
        ("nothing", String::new(), Then::Closes, Fail(502, "has not answered")),
        ("half a head", of("HTTP/1.1 200 OK\r\nX-A: b"), Then::Closes, Fail(502, "has not answered")),
        (
            "a folded line, 9112 §5.2",
            ok("X-A: b\r\n c\r\nContent-Length: 0\r\n\r\n"),
            Then::Closes,
            Fail(502, "invalid HTTP"),
        ),
        ("a line without a colon", ok("X-A\r\nContent-Length: 0\r\n\r\n"), Then::Closes, Fail(502, "invalid HTTP")),
        ("150 fields", ok(&format!("{}Content-Length: 2\r\n\r\nok", many(150))), Then::KeepsOpen, Get(200, "ok")),
        ("700 fields", ok(&format!("{}Content-Length: 2\r\n\r\nok", many(700))), Then::Closes, Fail(502, "504 fields")),
        ("a field of 100,000 bytes", big(100_000), Then::KeepsOpen, Get(200, "ok")),
        ("a field of 200,000 bytes", big(200_000), Then::Closes, Fail(502, "131072 bytes")),
        ("a head without end", ok("X-A: b\r\n"), Then::Repeats, Fail(502, "")),
        (
            "a phrase of its own",
            of("HTTP/1.1 299 My Own\r\nContent-Length: 2\r\n\r\nok"),
            Then::KeepsOpen,
            Get(299, "ok"),
        ),
        ("no phrase", of("HTTP/1.1 299 \r\nContent-Length: 2\r\n\r\nok"), Then::KeepsOpen, Get(299, "ok")),
        ("no content", of("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n"), Then::KeepsOpen, Get(204, "")),
        ("not modified", of("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"), Then::KeepsOpen, Get(304, "")),
        (
            "an upgrade that nobody asked for, 9110 §15.2.2",
            of("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"),
            Then::Closes,
            Fail(502, ""),
        ),
        ("interim responses without end", of("HTTP/1.1 103 Early Hints\r\n\r\n"), Then::Repeats, Fail(502, "interim")),
    ];
    let path = |at: usize| format!("/case/{at}");
    let answers = cases
        .iter()
        .enumerate()
        .map(|(at, (_, text, then, _))| (path(at), Answer { pieces: vec![text.clone().into_bytes()], then: *then }));
    let script = Script::start(answers.collect());
    let world = script.world(Timeouts { answer: Duration::from_secs(8), ..Timeouts::default() });
    let clock = Clock::new();
    for (at, (what, _, _, must)) in cases.iter().enumerate() {
        let begin = clock.now();
        let got = world.request("GET", &path(at), "");
        let body = String::from_utf8_lossy(&got.body).into_owned();
        match must {
            Get(status, content) => {
                assert_eq!(
                    (got.status(), body.as_str(), got.is_complete),
                    (*status, *content, true),
                    "{what}: {got:?}"
                );
                assert_eq!(got.values("via").len(), 2, "{what}: {got:?}");
                assert!(
                    got.values("content-length").len() + got.values("transfer-encoding").len() <= 1,
                    "{what}: {got:?}"
                );
            }
            Fail(status, reason) => {
                assert!(got.status() == *status && body.contains(reason), "{what}: {got:?}");
                assert!(clock.now().since(begin) < Duration::from_secs(7), "{what}: as soon as it is known");
            }
            // If nothing was forwarded yet, a status can still be sent.
            Cut => assert!(!got.is_complete || got.status() == 502, "{what}: {got:?}"),
        }
    }
    // The next request is answered.
    assert_eq!(world.request("GET", "/other", "").status(), 200);
}

#[test]
fn a_phrase_is_that_of_the_web_server_or_none() {
    let phrases = ["HTTP/1.1 299 My Own Reason\r\n", "HTTP/1.1 299 \r\n", "HTTP/1.1 200 Fine\r\n", OK];
    let answers: Vec<(String, String)> =
        (0..phrases.len()).map(|at| (format!("/{at}"), format!("{}Content-Length: 0\r\n\r\n", phrases[at]))).collect();
    let answers: Vec<(&str, &str, Then)> =
        answers.iter().map(|(path, text)| (path.as_str(), text.as_str(), Then::KeepsOpen)).collect();
    let world = Script::of(&answers).world(Timeouts::default());
    for (at, phrase) in phrases.iter().enumerate() {
        let got = world.request("GET", &format!("/{at}"), "");
        assert_eq!(got.line, phrase.trim_end_matches("\r\n"));
    }
}

#[test]
fn fields_of_the_web_servers_connection_stay_behind_and_others_pass_as_they_are() {
    let head = "Connection: close, X-Of-This-Hop\r\nX-Of-This-Hop: 1\r\nKeep-Alive: timeout=5\r\nVia: 1.0 fred\r\n\
                Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Latin: \u{e4}\r\nX-Space : 1\r\nContent-Length: 0\r\n\r\n";
    let script = Script::of(&[("/", &format!("{OK}{head}"), Then::Closes)]);
    let world = script.world(Timeouts::default());
    let got = world.request("GET", "/", "");
    for name in ["connection", "keep-alive", "x-of-this-hop"] {
        assert!(got.values(name).is_empty(), "{got:?}");
    }
    assert_eq!(got.values("set-cookie"), ["a=1", "b=2"]);
    assert_eq!((got.values("x-latin"), got.values("x-space")), (vec!["\u{e4}"], vec!["1"]));
    let via = got.values("via");
    assert!(
        via.len() == 3 && via[0] == "1.0 fred" && via[1..].iter().all(|hop| hop.starts_with("1.1 trib-")),
        "{via:?}"
    );
}

#[test]
fn two_responses_on_a_connection_stay_two_though_the_first_has_a_false_length() {
    let text = format!("{OK}Content-Length: 50\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n");
    let world = Script::of(&[("/false", &text, Then::KeepsOpen)]).world(Timeouts::default());
    let stream = world.connect();
    let get = |path: &str| format!("GET http://site.example{path} HTTP/1.1\r\nHost: site.example\r\n\r\n");
    (&stream).write_all(format!("{}{}", get("/false"), get("/second")).as_bytes()).unwrap();
    let mut reader = BufReader::new(&stream);
    let got: Vec<Got> = (0..2).map(|_| read_response(&mut reader, "GET")).collect();
    assert_eq!((&got[0].body[..], got[1].status()), (&b"ok"[..], 200), "{got:?}");
    assert!(got[0].values("content-length").is_empty());
}

#[test]
fn trailers_pass_where_they_are_announced_and_wanted() {
    let text = format!(
        "{OK}Transfer-Encoding: chunked\r\nTrailer: X-Sum, Host\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\nHost: a\r\n\r\n"
    );
    let script = Script::of(&[("/", &text, Then::KeepsOpen)]);
    let world = script.world(Timeouts::default());
    let got = world.request("GET", "/", "TE: trailers\r\nConnection: TE\r\n");
    assert_eq!((&got.body[..], &got.trailers[..]), (&b"ok"[..], &["x-sum: 7".to_string()][..]), "{got:?}");
    assert_eq!(script.last("/").unwrap().values("te"), ["trailers"]);
    let got = world.request("GET", "/", "");
    assert!(got.is_complete && got.trailers.is_empty(), "who does not want them gets none: {got:?}");
}

#[test]
fn interim_responses_pass_before_the_final_one() {
    let pieces = ["HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n", &format!("{OK}Content-Length: 2\r\n\r\nok")];
    let pieces = pieces.map(|piece| piece.as_bytes().to_vec()).to_vec();
    let answer = Answer { pieces, then: Then::KeepsOpen };
    let world = Script::start([("/".to_string(), answer)].into()).world(Timeouts::default());
    let stream = world.connect();
    let request = |version: &str| format!("GET http://site.example/ HTTP/{version}\r\nHost: site.example\r\n\r\n");
    // One after the other on one connection: an interim response must not get into the response before.
    (&stream).write_all(request("1.1").repeat(3).as_bytes()).unwrap();
    let mut reader = BufReader::new(&stream);
    for _ in 0..3 {
        let got = read_response(&mut reader, "GET");
        assert_eq!((got.interims.len(), &got.body[..]), (1, &b"ok"[..]), "{got:?}");
        assert_eq!(got.interims[0].0, "HTTP/1.1 103 Early Hints");
        assert!(got.interims[0].1.contains(&"link: </a.css>".to_string()), "{got:?}");
    }
    let got = world.raw(request("1.0"));
    assert!(got.interims.is_empty() && got.body == b"ok", "HTTP/1.0 knows none: {got:?}");
}

#[test]
fn a_head_alone_comes_with_the_length_that_there_would_be() {
    let text = format!("{OK}Content-Length: 5000\r\n\r\n");
    let chunked = format!("{OK}Transfer-Encoding: chunked\r\n\r\n");
    let answers = [("/length", text.as_str(), Then::KeepsOpen), ("/chunked", &chunked, Then::KeepsOpen)];
    let world = Script::of(&answers).world(Timeouts::default());
    let stream = world.connect();
    let mut reader = BufReader::new(&stream);
    for (path, length) in [("/length", vec!["5000"]), ("/chunked", vec![]), ("/length", vec!["5000"])] {
        let request = format!("HEAD http://site.example{path} HTTP/1.1\r\nHost: site.example\r\n\r\n");
        (&stream).write_all(request.as_bytes()).unwrap();
        let got = read_response(&mut reader, "HEAD");
        assert_eq!((got.status(), got.values("content-length")), (200, length), "{got:?}");
    }
}
