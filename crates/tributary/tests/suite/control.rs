//! The control socket against clients that behave badly.
use std::{
    io::{BufRead, BufReader, Write},
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
    },
    path::Path,
};
use tributary::{Api, Daemon, ErrorKind, Request, SocketApi};

use super::fake::{FakeNode, Network, config};

fn daemon(folder: &Path, more: &str) -> Daemon {
    Daemon::start_node(config(folder, more), Box::new(FakeNode::new(&Network::default()))).unwrap()
}
/// What the daemon answers to `line`.
fn answer(daemon: &Daemon, line: &[u8]) -> String {
    let mut socket = UnixStream::connect(daemon.control()).unwrap();
    socket.write_all(line).unwrap();
    let mut reply = String::new();
    BufReader::new(socket).read_line(&mut reply).unwrap();
    reply
}

#[test]
fn malformed_lines_get_an_error_and_the_connection_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon(folder.path(), "");
    let mut socket = UnixStream::connect(daemon.control()).unwrap();
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    for line in [
        "",
        "{",
        "[]",
        "null",
        "{\"v\":1}",
        "{\"v\":1,\"request\":{\"op\":\"dance\"}}",
        "{\"v\":1,\"request\":{\"op\":\"put\"}}",
    ] {
        socket.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut reply = String::new();
        reader.read_line(&mut reply).unwrap();
        assert!(reply.contains("\"end\":\"error\"") && reply.contains("\"kind\":\"protocol\""), "{line}: {reply}");
    }
    socket.write_all(b"{\"v\":1,\"request\":{\"op\":\"status\"}}\n").unwrap();
    let mut reply = String::new();
    reader.read_line(&mut reply).unwrap();
    assert!(reply.contains("\"event\":\"status\""), "{reply}");
}

#[test]
fn a_line_that_is_too_long_ends_the_connection_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon(folder.path(), "[limits]\ncontrol_line_size = \"4KiB\"\n");
    let reply = answer(&daemon, &[b'x'; 4097]);
    assert!(reply.contains("a line has at most 4096 bytes"), "{reply}");
    let name = "n".repeat(4_000 - 50);
    let reply =
        answer(&daemon, format!("{{\"v\":1,\"request\":{{\"op\":\"explain\",\"id\":\"{name}\"}}}}\n").as_bytes());
    assert!(reply.contains("not-found"), "{reply}");
}

#[test]
fn another_version_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon(folder.path(), "");
    let reply = answer(&daemon, b"{\"v\":9,\"request\":{\"op\":\"status\"}}\n");
    assert!(reply.contains("the client speaks version 9 of the control protocol, this daemon 1"), "{reply}");
}

#[test]
fn an_answer_of_another_version_is_refused_by_the_client() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let server = std::thread::spawn(move || {
        // The first connection only checks for a daemon.
        let _ = listener.accept().unwrap();
        for reply in ["{\"v\":2,\"end\":\"done\"}\n", "220 mail ready\n", ""] {
            let (socket, _) = listener.accept().unwrap();
            BufReader::new(&socket).read_line(&mut String::new()).unwrap();
            (&socket).write_all(reply.as_bytes()).unwrap();
        }
    });
    let api = SocketApi::open(&path).unwrap();
    let messages: Vec<_> = (0..3).map(|_| api.answers(Request::Status).unwrap_err().message).collect();
    server.join().unwrap();
    assert!(messages[0].contains("the daemon speaks version 2"), "{messages:?}");
    assert!(messages[1].contains("is no daemon of ours"), "{messages:?}");
    assert!(messages[2].contains("went away"), "{messages:?}");
}

#[test]
fn the_socket_is_its_owners_alone_and_goes_with_the_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon(folder.path(), "");
    let path = daemon.control().to_path_buf();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    daemon.stop().unwrap();
    assert!(!path.exists());
    let error = SocketApi::open(&path).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Gone);
    assert!(error.to_string().contains("trib node --config FILE"), "{error}");
}

#[test]
fn a_stale_socket_is_replaced_and_a_living_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = config(folder.path(), "").control;
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    drop(UnixListener::bind(&path).unwrap());
    let first = daemon(folder.path(), "");
    let mut elsewhere = config(&folder.path().join("elsewhere"), "");
    elsewhere.control.clone_from(&path);
    let second = Daemon::start_node(elsewhere, Box::new(FakeNode::new(&Network::default())));
    let error = second.err().unwrap().to_string();
    assert!(error.contains("a daemon answers there already"), "{error}");
    assert!(SocketApi::open(first.control()).unwrap().answers(Request::Status).is_ok());
    first.stop().unwrap();
    std::fs::write(&path, "a file").unwrap();
    let third = Daemon::start_node(config(folder.path(), ""), Box::new(FakeNode::new(&Network::default())));
    assert!(third.err().unwrap().to_string().contains("a file that is no socket exists there"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "a file");
}

#[test]
fn one_client_more_than_allowed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon(folder.path(), "[limits]\ncontrol_clients = 1\n");
    let mut first = UnixStream::connect(daemon.control()).unwrap();
    // An answer shows that the first one has its place.
    first.write_all(b"{\"v\":1,\"request\":{\"op\":\"cache\"}}\n").unwrap();
    BufReader::new(&first).read_line(&mut String::new()).unwrap();
    let second = UnixStream::connect(daemon.control()).unwrap();
    let mut reply = String::new();
    BufReader::new(second).read_line(&mut reply).unwrap();
    assert!(reply.contains("serves 1 clients already"), "{reply}");
}

#[test]
fn a_client_that_comes_when_another_has_just_gone_gets_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon(folder.path(), "[limits]\ncontrol_clients = 1\n");
    for _ in 0..50 {
        // Opening checks for a daemon, and the request has another connection.
        SocketApi::open(daemon.control()).unwrap().answers(Request::Status).unwrap();
    }
}

#[test]
fn streams_whose_clients_have_gone_leave_room_for_others() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon(folder.path(), "");
    for number in 0..100 {
        let reply = answer(&daemon, format!("{{\"v\":1,\"attach\":\"{number}\"}}\n").as_bytes());
        assert!(reply.contains("\"end\":\"done\""), "{number}: {reply}");
    }
}

#[test]
fn a_stream_without_its_attached_connection_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon(folder.path(), "");
    let line = b"{\"v\":1,\"stream\":\"x\",\"request\":{\"op\":\"get\",\"name\":\"/a\",\"output\":\"stream\"}}\n";
    assert!(answer(&daemon, line).contains("no connection is attached"));
    let line = b"{\"v\":1,\"request\":{\"op\":\"get\",\"name\":\"/a\",\"output\":\"stream\"}}\n";
    assert!(answer(&daemon, line).contains("needs a stream"));
}
