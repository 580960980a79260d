//! Every operation, in process and over the control socket: both must report the same.
use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};
use tempfile::TempDir;
use tributary::{
    Api, ApiError, Daemon, ErrorKind, Flow, Get, GetOptions, LocalApi, Notice, Output, Request, SocketApi, Term,
    request::PATIENCE_MS_DEFAULT,
};

use super::fake::{FakeNode, Network, Resolver, config};

const SIZE: usize = 5 << 20;

fn daemon(folder: &Path, network: &Network) -> Daemon {
    Daemon::start_node(config(folder, ""), Box::new(FakeNode::new(network))).unwrap()
}
/// The same operation both ways.
fn both(daemon: &Daemon, check: impl Fn(&dyn Api)) {
    check(daemon.api());
    check(&SocketApi::open(daemon.control()).unwrap());
}
fn put(api: &dyn Api, path: &Path, name: &str) -> Result<Vec<Notice>, ApiError> {
    let (path, name) = (path.into(), name.into());
    let put = Request::Put {
        path,
        name,
        version: None,
        patience_ms: PATIENCE_MS_DEFAULT,
        term: Term::UntilRemoved,
        readers: Vec::new(),
        mirrors: Vec::new(),
    };
    api.answers(put)
}
fn get(name: &str, output: Output) -> Request {
    get_with(name, output, GetOptions::default())
}
fn get_with(name: &str, output: Output, options: GetOptions) -> Request {
    Request::Get(Get { patience_ms: Some(30), options, ..Get::new(name, output) })
}
fn file(folder: &Path) -> PathBuf {
    let path = folder.join("big");
    let bytes: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8).collect();
    std::fs::write(&path, bytes).unwrap();
    path
}

/// A daemon that publishes a file as `/lab/big`, and the folder of both.
fn publishing() -> (TempDir, PathBuf, Daemon) {
    let folder = tempfile::tempdir().unwrap();
    let source = file(folder.path());
    let daemon = daemon(folder.path(), &Network::default());
    put(daemon.api(), &source, "/lab/big").unwrap();
    (folder, source, daemon)
}

/// A sink whose content a test can look at.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);
impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_is_put_is_listed_and_fetched_and_the_last_word_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let (network, source) = (Network::default(), file(folder.path()));
    let daemon = daemon(folder.path(), &network);
    both(&daemon, |api| {
        let notices = put(api, &source, "/lab/big").unwrap();
        assert!(matches!(&notices[..], [Notice::Published { bytes, confirmed: true, .. }] if *bytes == SIZE as u64));
        let notices = api.answers(Request::List { scope: "/lab".into(), patience_ms: 1_000 }).unwrap();
        assert!(
            matches!(&notices[..], [Notice::Entry { name, .. }, Notice::Listed { entries: 1, .. }] if name == "/lab/big")
        );

        let target = folder.path().join("copy");
        let _ = std::fs::remove_file(&target);
        let notices = api.answers(get("/lab/big", Output::Path(target.clone()))).unwrap();
        let Some(Notice::Done(done)) = notices.last() else { panic!("{notices:?}") };
        assert!(done.verified && done.bytes == SIZE as u64 && done.sources[0].id == "attic");
        assert_eq!(std::fs::read(&target).unwrap(), std::fs::read(&source).unwrap());
        assert!(
            notices.iter().any(|notices| matches!(notices, Notice::Progress(progress) if progress.bytes == done.bytes))
        );
        assert!(matches!(notices[0], Notice::Fetching { .. }));
    });
    daemon.stop().unwrap();
}

#[test]
fn who_fetches_cannot_choose_what_the_family_leaves_to_others() {
    let (folder, _, daemon) = publishing();
    let options = GetOptions { chunk_bytes: Some(65_536), ..GetOptions::default() };
    both(&daemon, |api| {
        let target = folder.path().join("copy");
        let error = api.answers(get_with("/lab/big", Output::Path(target.clone()), options)).unwrap_err();
        assert_eq!((error.kind, target.exists()), (ErrorKind::Usage, false), "{error}");
        assert!(error.to_string().contains("the publisher cuts chunks"), "{error}");
    });
}

#[test]
fn the_done_line_has_the_promised_fields() {
    let (folder, _, daemon) = publishing();
    let notices = daemon.api().answers(get("/lab/big", Output::Path(folder.path().join("copy")))).unwrap();
    let line: serde_json::Value = serde_json::from_str(&notices.last().unwrap().to_line()).unwrap();
    assert_eq!(line["event"], "done");
    assert_eq!(line["verified"], true);
    for field in ["name", "family", "bytes", "seconds", "sources", "paths", "cached_bytes", "retransmitted"] {
        assert!(line.get(field).is_some(), "{field} in {line}");
    }
    for field in ["id", "bytes", "mbps"] {
        assert!(line["sources"][0].get(field).is_some(), "{field} in {line}");
    }
    for field in ["id", "source", "hops", "bytes", "mbps", "rtt_ms", "loss"] {
        assert!(line["paths"][0].get(field).is_some(), "{field} in {line}");
    }
    assert_eq!(line["paths"][0]["source"], line["sources"][0]["id"]);
    assert_eq!(line["paths"][0]["loss"], 0.01);
}

#[test]
fn a_stream_comes_in_order_both_ways() {
    let (_folder, source, daemon) = publishing();
    both(&daemon, |api| {
        let sink = Shared::default();
        let stream = Some(Box::new(sink.clone()) as _);
        api.ask(get("/lab/big", Output::Stream), stream, &mut |_| Flow::Continue).unwrap();
        assert_eq!(*sink.0.lock().unwrap(), std::fs::read(&source).unwrap());
    });
}

/// A sink on a full disk.
struct Full;
impl Write for Full {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::StorageFull.into())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn why_a_stream_cannot_be_written_is_told_and_not_that_the_daemon_noticed() {
    let (_folder, _, daemon) = publishing();
    both(&daemon, |api| {
        let error = api.ask(get("/lab/big", Output::Stream), Some(Box::new(Full)), &mut |_| Flow::Continue);
        let error = error.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Io);
        let text = error.to_string();
        assert!(text.contains("no storage space") && !text.contains("kept") && text.contains("write"), "{text}");
    });
}

#[test]
fn an_unknown_name_is_not_found_and_says_what_to_try() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon(folder.path(), &Network::default());
    both(&daemon, |api| {
        let error = api.answers(get("/lab/none", Output::Path(folder.path().join("x")))).unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound);
        assert_eq!(error.kind.exit_code(), 1);
        assert_eq!(
            error.to_string(),
            "cannot fetch '/lab/none': no publisher answered within 30ms\n  \
             hint: is a publisher running? list what the network offers with `trib ls`"
        );
    });
}

#[test]
fn a_target_that_cannot_be_written_is_an_error_of_the_disk() {
    let (folder, _, daemon) = publishing();
    // A folder stands where the file should go.
    std::fs::create_dir_all(folder.path().join("taken/big")).unwrap();
    both(&daemon, |api| {
        for target in ["nowhere/x", "big/x", "taken", "taken/"] {
            let error = api.answers(get("/lab/big", Output::Path(folder.path().join(target)))).unwrap_err();
            assert_eq!((error.kind, error.kind.exit_code()), (ErrorKind::Io, 5), "{error}");
        }
    });
}

#[test]
fn a_target_that_is_a_folder_or_ends_with_a_slash_gets_the_object_inside_as_with_cp() {
    let (folder, _, daemon) = publishing();
    std::fs::create_dir_all(folder.path().join("there")).unwrap();
    std::os::unix::fs::symlink("there", folder.path().join("link")).unwrap();
    both(&daemon, |api| {
        for (target, at) in [
            ("there", "there/big"),
            ("link", "there/big"),
            ("there/", "there/big"),
            ("a/b/", "a/b/big"),
            ("new", "new"),
        ] {
            let notices = api.answers(get("/lab/big", Output::Path(folder.path().join(target)))).unwrap();
            let Some(Notice::Done(done)) = notices.last() else { panic!("{notices:?}") };
            assert_eq!(done.bytes, std::fs::metadata(folder.path().join(at)).unwrap().len(), "{target}");
            assert!(done.output.as_ref().is_some_and(|output| output.ends_with(at) || target == "link"), "{done:?}");
        }
    });
}

#[test]
fn a_refused_publication_is_told_with_its_reason_and_an_unanswered_one_is_not_confirmed() {
    let folder = tempfile::tempdir().unwrap();
    let source = file(folder.path());
    let network = Network::default();
    let node = FakeNode::with_resolver(&network, Resolver::Refuses);
    let api = LocalApi::start_node(config(folder.path(), ""), Box::new(node)).unwrap();
    let error = put(&api, &source, "/lab/big").unwrap_err();
    assert_eq!(error.to_string(), "cannot publish '/lab/big': the resolver refused: its scope is closed");
    drop(api);
    let node = FakeNode::with_resolver(&network, Resolver::Silent);
    let api = LocalApi::start_node(config(folder.path(), ""), Box::new(node)).unwrap();
    assert_eq!(api.publish_all().unwrap(), [], "what was refused is not offered again");
    let request = Request::Put {
        path: source,
        name: "/lab/big".into(),
        version: None,
        patience_ms: 20,
        term: Term::UntilRemoved,
        readers: Vec::new(),
        mirrors: Vec::new(),
    };
    assert!(matches!(&api.answers(request).unwrap()[..], [Notice::Published { confirmed: false, .. }]));
    let error = api.answers(Request::List { scope: "/lab".into(), patience_ms: 20 }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
}

#[test]
fn publications_survive_a_restart_until_they_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (network, source) = (Network::default(), file(folder.path()));
    let first = daemon(folder.path(), &network);
    let notices = put(first.api(), &source, "/lab/big").unwrap();
    first.stop().unwrap();
    let second = daemon(folder.path(), &Network::default());
    let [Notice::Published { version, .. }] = second.published() else { panic!("{:?}", second.published()) };
    assert!(matches!(&notices[0], Notice::Published { version: before, .. } if before == version));
    let notices = second.api().answers(Request::Remove { name: "/lab/big".into() }).unwrap();
    assert_eq!(notices, [Notice::Unpublished { name: "/lab/big".into() }]);
    let error = second.api().answers(Request::Remove { name: "/lab/big".into() }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    second.stop().unwrap();
    assert_eq!(daemon(folder.path(), &Network::default()).published(), []);
}

#[test]
fn a_published_file_that_was_changed_since_is_told_until_it_is_published_again() {
    let (_folder, source, daemon) = publishing();
    let changed = || {
        let status = daemon.api().answers(Request::Status).unwrap();
        let [Notice::Status(status)] = &status[..] else { panic!("{status:?}") };
        status.published.iter().map(|published| published.changed).collect::<Vec<_>>()
    };
    assert_eq!(changed(), [false]);
    std::fs::write(&source, b"other bytes").unwrap();
    assert_eq!(changed(), [true]);
    put(daemon.api(), &source, "/lab/big").unwrap();
    assert_eq!(changed(), [false]);
}

#[test]
fn a_publication_that_is_gone_does_not_keep_a_daemon_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    let (network, source) = (Network::default(), file(folder.path()));
    let first = daemon(folder.path(), &network);
    put(first.api(), &source, "/lab/big").unwrap();
    first.stop().unwrap();
    std::fs::remove_file(&source).unwrap();
    let second = daemon(folder.path(), &network);
    assert_eq!(second.published(), []);
    let status = second.api().answers(Request::Status).unwrap();
    let [Notice::Status(status)] = &status[..] else { panic!() };
    assert!(status.notes.iter().any(|note| note.contains("no longer published")), "{:?}", status.notes);
}

#[test]
fn status_paths_explain_cache_cancel_and_limit_answer_both_ways() {
    let (folder, _, daemon) = publishing();
    daemon.api().answers(get("/lab/big", Output::Path(folder.path().join("copy")))).unwrap();
    both(&daemon, |api| {
        let notices = api.answers(Request::Status).unwrap();
        let [Notice::Status(status)] = &notices[..] else { panic!("{notices:?}") };
        assert_eq!(status.roles, ["router", "sender", "receiver"], "those of the config, not all that it is able to");
        assert_eq!(status.counters["malformed: too short"], 2);
        assert!(status.published[0].confirmed && status.transfers[0].id == "transfer-1");
        assert!(status.listen[0].starts_with("127.0.0.1:"));
        let notices = api.answers(Request::Paths { name: "/lab/big".into() }).unwrap();
        assert!(matches!(&notices[..], [Notice::Paths { paths, .. }] if paths[0].via == "hall"));
        let notices = api.answers(Request::Explain { id: "path-1".into() }).unwrap();
        assert!(matches!(&notices[..], [Notice::Explanation { lines, .. }] if lines[0].starts_with("path-1 to attic")));
        assert!(matches!(&api.answers(Request::Cache).unwrap()[..], [Notice::Cache(cache)] if cache.hits == 3));
        let transfer = "transfer-1".to_string();
        assert!(api.answers(Request::Cancel { transfer: transfer.clone() }).is_ok());
        let limit = Request::Limit { transfer: Some(transfer), bits_per_second: Some(1_000) };
        assert!(api.answers(limit).is_ok());
        for request in [
            Request::Paths { name: "/none".into() },
            Request::Explain { id: "path-7".into() },
            Request::Cancel { transfer: "transfer-9".into() },
        ] {
            assert_eq!(api.answers(request).unwrap_err().kind, ErrorKind::NotFound);
        }
    });
}

#[test]
fn whoever_stops_listening_ends_the_fetch() {
    let (folder, _, daemon) = publishing();
    let error = daemon
        .api()
        .ask(get("/lab/big", Output::Path(folder.path().join("copy"))), None, &mut |_| Flow::Stop)
        .unwrap_err();
    assert_eq!((error.kind, error.kind.exit_code()), (ErrorKind::Cancelled, 130));
}

#[test]
fn a_node_without_the_role_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path(), "");
    config.roles.clear();
    let api = LocalApi::start_node(config, Box::new(FakeNode::new(&Network::default()))).unwrap();
    let error = put(&api, folder.path(), "/a").unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot publish: the node 'stand-in' does not have the role sender\n  \
         hint: add \"sender\" to roles in its [node] section"
    );
    assert_eq!(api.answers(get("/a", Output::Path("x".into()))).unwrap_err().kind, ErrorKind::Usage);
}
