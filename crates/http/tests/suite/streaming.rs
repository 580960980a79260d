//! Long, slow, silent and aborted bodies.
use super::{
    script::{Answer, Script, Then, read_response},
    *,
};

const EVENTS: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

#[test]
fn an_event_stream_begins_before_its_first_event_and_may_be_silent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (go, may_go) = std::sync::mpsc::channel::<()>();
    let go_on = Arc::new(std::sync::Mutex::new(may_go));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let go_on = Arc::clone(&go_on);
            thread::spawn(move || -> Option<()> {
                read_message(&mut BufReader::with_capacity(1, &stream))?;
                stream.write_all(EVENTS.as_bytes()).ok()?;
                for _ in 0..2 {
                    go_on.lock().unwrap().recv().ok()?;
                    stream.write_all(b"9\r\ndata: 1\n\n\r\n").ok()?;
                }
                stream.write_all(b"0\r\n\r\n").ok()
            });
        }
    });
    // The limit for the start of an answer is shorter than the silences within it.
    let timeouts = Timeouts { answer: Duration::from_secs(2), ..Timeouts::default() };
    let world = world_of(Server::start(), address, None, timeouts, Limits::default());
    let stream = world.connect();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    (&stream).write_all(b"GET http://site.example/ HTTP/1.1\r\nHost: site.example\r\n\r\n").unwrap();
    let mut reader = BufReader::with_capacity(1, &stream);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).unwrap();
    }
    for _ in 0..2 {
        thread::sleep(Duration::from_secs(3));
        go.send(()).unwrap();
        let mut event = [0; 14];
        reader.read_exact(&mut event).unwrap();
        assert_eq!(&event, b"9\r\ndata: 1\n\n\r\n");
    }
    reader.read_line(&mut line).unwrap();
    assert!(line.ends_with("0\r\n"), "{line}");
}

#[test]
fn what_is_silent_for_too_long_is_cut() {
    let answer = Answer { pieces: vec![EVENTS.as_bytes().to_vec()], then: Then::Echoes };
    let timeouts = Timeouts { idle: Duration::from_millis(500), ..Timeouts::default() };
    let world = Script::start([("/".to_string(), answer)].into()).world(timeouts);
    let got = world.request("GET", "/", "");
    assert!(got.status() == 200 && !got.is_complete, "{got:?}");
}

#[test]
fn uploads_longer_than_any_window_arrive_whole() {
    let world = world(Duration::from_secs(60));
    let sent: Vec<u8> = (0..12_000_000).map(byte).collect();
    let head = format!("PUT /echo HTTP/1.1\r\nHost: site.example\r\nContent-Length: {}\r\n\r\n", sent.len());
    let stream = world.connect();
    thread::scope(|scope| {
        scope.spawn(|| {
            (&stream).write_all(head.as_bytes()).unwrap();
            (&stream).write_all(&sent).unwrap();
        });
        let got = read_response(&mut BufReader::new(&stream), "PUT");
        assert!(got.is_complete && got.body == sent, "{} {} bytes", got.line, got.body.len());
    });
}

#[test]
fn an_upload_that_is_given_up_ends_at_the_web_server_and_one_that_is_refused_ends_at_the_browser() {
    let script = Script::of(&[("/refuses", "HTTP/1.1 413 Too Much\r\nContent-Length: 2\r\n\r\nno", Then::Closes)]);
    let world = script.world(Timeouts::default());
    let head = |path: &str| {
        format!("PUT http://site.example{path} HTTP/1.1\r\nHost: site.example\r\nContent-Length: 100000000\r\n\r\n")
    };
    // The web server answers before it has read the body.
    let stream = world.connect();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    (&stream).write_all(head("/refuses").as_bytes()).unwrap();
    let mut writing = stream.try_clone().unwrap();
    thread::spawn(move || while writing.write_all(&[7; 10_000]).is_ok() {});
    let got = read_response(&mut BufReader::with_capacity(1, &stream), "PUT");
    assert_eq!((got.status(), &got.body[..]), (413, &b"no"[..]), "{got:?}");
    // A browser that closes its connection: its request never completes at the web server.
    let stream = world.connect();
    (&stream).write_all(head("/half").as_bytes()).unwrap();
    (&stream).write_all(&[7; 100_000]).unwrap();
    drop(stream);
    assert_eq!(world.request("GET", "/next", "").status(), 200);
    assert_eq!(script.count("/half"), 0);
}

#[test]
fn readers_that_stand_still_hold_up_nobody_and_cost_little_memory() {
    const READERS: usize = 40;
    let world = world(Duration::from_secs(60));
    let (before, clock) = (resident_bytes(), Clock::new());
    let request = b"GET http://site.example/endless HTTP/1.1\r\nHost: site.example\r\n\r\n";
    let readers: Vec<TcpStream> = (0..READERS)
        .map(|_| {
            let mut stream = world.connect();
            stream.write_all(request).unwrap();
            stream
        })
        .collect();
    // Each response has started.
    for mut stream in &readers {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.read_exact(&mut [0; 1_000]).unwrap();
    }
    let (status, _, body) = world.get(&world.connect(), "/object/50", "");
    assert_eq!((status.as_str(), body.len()), ("HTTP/1.1 200 OK", 51_000));
    // Until nothing more is fetched.
    let (sent, mut last) = (&world.server.endless.0, 0);
    while sent.load(Ordering::SeqCst) > last && clock.now() < Time::from_millis(120_000) {
        last = sent.load(Ordering::SeqCst);
        thread::sleep(Duration::from_secs(1));
    }
    let Limits { memory_bytes, .. } = Limits::default();
    // Both proxies, and the bytes in flight in their nodes and the router.
    let most = 2 * (READERS * CONNECTION_BYTES_MAX + memory_bytes as usize) + (64 << 20);
    let held = resident_bytes().saturating_sub(before);
    assert!(held < most, "{held} bytes are held for {READERS} readers, {most} are the most");
}
/// Bytes of memory that this process uses.
fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4_096
}
