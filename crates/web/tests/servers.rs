//! Files from web servers of all kinds: honest, slow, hostile, and real ones.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "servers and their clients run in real time, and a test that is skipped says so"
)]
#[path = "suite/server.rs"]
mod server;

use server::{Behaviour, Server};
use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};
use tributary_core::event::TransferReport;
use tributary_net::disk::Existing;
use tributary_web::{
    Algorithm, Checksum, ClientOptions, Control, Metalink, Outcome, Pieces, Update, Wanted, WebError,
    client::Redirects, fetch,
};

fn bytes(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(b"web").finalize_xof().fill(&mut bytes);
    bytes
}
fn sha256(bytes: &[u8]) -> Checksum {
    let digits: String =
        ring::digest::digest(&ring::digest::SHA256, bytes).as_ref().iter().map(|b| format!("{b:02x}")).collect();
    Checksum::parse(Algorithm::Sha256, &digits).expect("64 digits")
}
fn pieces(bytes: &[u8], length: usize) -> Pieces {
    Pieces { length: length as u64, hashes: bytes.chunks(length).map(sha256).collect() }
}
fn wanted(servers: &[&Server], folder: &Path) -> Wanted {
    Wanted {
        mirrors: servers.iter().map(|server| server.url("f.bin")).collect(),
        output: folder.join("out.bin"),
        size: None,
        checksum: None,
        pieces: None,
        existing: Existing::EarlierFetch,
        state_dir: Some(folder.join("state")),
        rate_limit: None,
        patience: Duration::from_secs(10),
        client: ClientOptions { netrc: Some("/dev/null".into()), ..ClientOptions::default() },
    }
}
fn get(wanted: &Wanted) -> Result<Outcome, WebError> {
    fetch(wanted, &mut |_| Control::Continue(()))
}
fn temp() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}
fn of<'a>(report: &'a TransferReport, server: &Server) -> &'a tributary_core::event::SourceReport {
    report.sources.iter().find(|source| source.label == server.label()).expect("it is reported")
}
fn read(wanted: &Wanted) -> Vec<u8> {
    std::fs::read(&wanted.output).expect("it is there")
}

#[test]
fn two_mirrors_deliver_parts_of_one_file_over_one_connection_each() {
    let (file, folder) = (bytes(12 << 20), temp());
    let servers = [1, 2].map(|_| Server::start(&file, Behaviour { rate: Some(8 << 20), ..Behaviour::default() }));
    let wanted = Wanted { checksum: Some(sha256(&file)), ..wanted(&[&servers[0], &servers[1]], folder.path()) };
    let outcome = get(&wanted).expect("both are honest");
    assert!(outcome.verified && read(&wanted) == file);
    for server in &servers {
        assert!(of(&outcome.report, server).bytes > 3 << 20, "{:?}", outcome.report.sources);
        assert!(server.open_at_once() <= 1, "{} connections", server.open_at_once());
    }
}

#[test]
fn an_uplink_is_a_flow_of_its_own_bound_to_its_address() {
    let (file, folder) = (bytes(8 << 20), temp());
    let servers = [1, 2].map(|_| Server::start(&file, Behaviour { rate: Some(2 << 20), ..Behaviour::default() }));
    let mut wanted = wanted(&[&servers[0], &servers[1]], folder.path());
    wanted.client.uplinks = ["127.0.0.2", "127.0.0.3"].map(|text| text.parse().expect("an address")).to_vec();
    let outcome = get(&wanted).expect("both are honest");
    let labels: Vec<&str> = outcome.report.paths.iter().map(|path| path.label.as_str()).collect();
    assert_eq!(labels.len(), 4);
    assert!(labels[0].starts_with("127.0.0.2>127.0.0.1:"), "{labels:?}");
    assert!(outcome.report.paths.iter().all(|path| path.bytes > 0), "{:?}", outcome.report.paths);
    for server in &servers {
        assert_eq!(server.clients(), ["127.0.0.2", "127.0.0.3"]);
    }
    assert!(!outcome.verified && read(&wanted) == file);
}

#[test]
fn a_mirror_that_flips_bytes_is_named_at_its_first_piece() {
    let (file, folder) = (bytes(6 << 20), temp());
    let honest = Server::start(&file, Behaviour { rate: Some(4 << 20), ..Behaviour::default() });
    let faulty = Server::start(&file, Behaviour { flips: true, rate: Some(4 << 20), ..Behaviour::default() });
    let mut wanted = wanted(&[&faulty, &honest], folder.path());
    (wanted.size, wanted.pieces) = (Some(file.len() as u64), Some(pieces(&file, 100_000)));
    let outcome = get(&wanted).expect("one is honest");
    assert!(read(&wanted) == file && outcome.verified);
    let reason = of(&outcome.report, &faulty).distrusted.as_deref().expect("it is named");
    assert!(reason.contains("do not fit the hash of their piece"), "{reason}");
    assert_eq!((of(&outcome.report, &faulty).bytes, of(&outcome.report, &honest).distrusted.as_deref()), (0, None));
}

#[test]
fn a_mirror_that_flips_bytes_is_named_by_the_checksum_of_the_whole_file() {
    for faulty_first in [true, false] {
        let (file, folder) = (bytes(6 << 20), temp());
        let honest = Server::start(&file, Behaviour { rate: Some(4 << 20), ..Behaviour::default() });
        let faulty = Server::start(&file, Behaviour { flips: true, rate: Some(4 << 20), ..Behaviour::default() });
        let order = if faulty_first { [&faulty, &honest] } else { [&honest, &faulty] };
        let wanted = Wanted { checksum: Some(sha256(&file)), ..wanted(&order, folder.path()) };
        let outcome = get(&wanted).expect("one is honest");
        assert!(read(&wanted) == file && outcome.verified);
        let reason = of(&outcome.report, &faulty).distrusted.clone().expect("it is named");
        assert!(reason.contains("other bytes than those that fit the checksum"), "{reason}");
        assert_eq!(of(&outcome.report, &honest).distrusted, None);
    }
}

#[test]
fn a_file_without_the_wanted_checksum_never_gets_its_name() {
    let (file, folder) = (bytes(1 << 20), temp());
    let server = Server::start(&file, Behaviour::default());
    let wanted = Wanted { checksum: Some(sha256(b"another")), ..wanted(&[&server], folder.path()) };
    let error = get(&wanted).expect_err("it is another file").to_string();
    assert!(error.contains("no mirror has the file with SHA-256"), "{error}");
    assert!(!wanted.output.exists());
}

#[test]
fn a_mirror_with_a_file_of_another_size_is_named() {
    let (file, folder) = (bytes(1 << 20), temp());
    let (honest, other) = (Server::start(&file, Behaviour::default()), Server::start(&file[1..], Behaviour::default()));
    let wanted = wanted(&[&honest, &other], folder.path());
    let outcome = get(&wanted).expect("the first one decides");
    assert!(of(&outcome.report, &other).distrusted.as_deref().is_some_and(|why| why.contains("has another file")));
    assert!(read(&wanted) == file);
}

#[test]
fn a_mirror_that_stalls_holds_nothing_up() {
    let (file, folder) = (bytes(8 << 20), temp());
    let honest = Server::start(&file, Behaviour { rate: Some(4 << 20), ..Behaviour::default() });
    let stalls = Server::start(&file, Behaviour { stalls_after: Some(300_000), ..Behaviour::default() });
    let wanted = wanted(&[&honest, &stalls], folder.path());
    let begun = Instant::now();
    let outcome = get(&wanted).expect("one goes on");
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    assert!(read(&wanted) == file && of(&outcome.report, &honest).bytes > 7 << 20);
}

#[test]
fn a_mirror_that_answers_other_ranges_is_named() {
    let (file, folder) = (bytes(4 << 20), temp());
    let honest = Server::start(&file, Behaviour { rate: Some(4 << 20), ..Behaviour::default() });
    let wrong = Server::start(&file, Behaviour { shifts: true, rate: Some(4 << 20), ..Behaviour::default() });
    let wanted = wanted(&[&honest, &wrong], folder.path());
    let outcome = get(&wanted).expect("one is honest");
    let reason = of(&outcome.report, &wrong).distrusted.as_deref().expect("it is named");
    assert!(reason.starts_with("answered bytes"), "{reason}");
    assert!(read(&wanted) == file);
}

#[test]
fn a_server_that_ignores_ranges_is_used_as_one_stream_if_it_is_the_only_one() {
    let (file, folder) = (bytes(3 << 20), temp());
    let stream = Server::start(&file, Behaviour { no_ranges: true, ..Behaviour::default() });
    let wanted_alone = Wanted { checksum: Some(sha256(&file)), ..wanted(&[&stream], folder.path()) };
    get(&wanted_alone).expect("it delivers everything in order");
    assert!(read(&wanted_alone) == file);
    let (folder, ranges) = (temp(), Server::start(&file, Behaviour::default()));
    let wanted_both = wanted(&[&stream, &ranges], folder.path());
    let outcome = get(&wanted_both).expect("the other one knows ranges");
    assert_eq!((of(&outcome.report, &stream).bytes, of(&outcome.report, &ranges).bytes), (0, 3 << 20));
}

#[test]
fn a_server_that_ignores_ranges_is_remembered_and_asked_for_none_the_next_time() {
    let (file, folder) = (bytes(1 << 20), temp());
    let server = Server::start(&file, Behaviour { no_ranges: true, ..Behaviour::default() });
    let mut wanted = wanted(&[&server], folder.path());
    std::fs::create_dir(folder.path().join("state")).expect("writable");
    for (out, sends_range) in [("first", true), ("second", false)] {
        wanted.output = folder.path().join(out);
        get(&wanted).expect("it delivers everything in order");
        assert!(read(&wanted) == file);
        assert_eq!(server.last_head().to_ascii_lowercase().contains("\r\nrange:"), sends_range, "{out}");
    }
}

#[test]
fn what_was_interrupted_goes_on_where_it_stopped_unless_the_file_has_changed() {
    let (file, folder) = (bytes(8 << 20), temp());
    let server = Server::start(&file, Behaviour { rate: Some(8 << 20), ..Behaviour::default() });
    let wanted = wanted(&[&server], folder.path());
    let stopped = fetch(&wanted, &mut |update| match update {
        Update::Report(report, _) if report.stored_bytes > 2 << 20 => Control::Break(()),
        _ => Control::Continue(()),
    });
    assert!(matches!(stopped, Err(WebError::Stopped)));
    let outcome = get(&wanted).expect("it is the same file");
    assert!(outcome.report.resumed_bytes > 2 << 20 && read(&wanted) == file);
    // A repetition, and another file with another tag in between.
    std::fs::remove_file(&wanted.output).expect("it is there");
    let stopped = fetch(&wanted, &mut |update| match update {
        Update::Report(report, _) if report.stored_bytes > 2 << 20 => Control::Break(()),
        _ => Control::Continue(()),
    });
    assert!(matches!(stopped, Err(WebError::Stopped)));
    let changed: Vec<u8> = file.iter().map(|byte| byte ^ 1).collect();
    server.change(&changed);
    let outcome = get(&wanted).expect("it is another file");
    assert!(outcome.report.resumed_bytes == 0 && read(&wanted) == changed);
}

#[test]
fn a_file_that_changes_during_a_fetch_closes_its_mirror() {
    let (file, folder) = (bytes(12 << 20), temp());
    let steady = Server::start(&file, Behaviour { rate: Some(4 << 20), ..Behaviour::default() });
    let changes = Server::start(&file, Behaviour { rate: Some(4 << 20), ..Behaviour::default() });
    let wanted = wanted(&[&steady, &changes], folder.path());
    let other: Vec<u8> = file.iter().map(|byte| byte ^ 1).collect();
    let mut has_changed = false;
    let outcome = fetch(&wanted, &mut |update| {
        if let Update::Report(report, _) = update
            && report.stored_bytes > 3 << 20
            && !std::mem::replace(&mut has_changed, true)
        {
            changes.change(&other);
        }
        Control::Continue(())
    });
    let outcome = outcome.expect("the other one has not changed");
    let reason = of(&outcome.report, &changes).closed.as_deref().expect("it is closed");
    assert!(reason.contains("the file has changed on the server"), "{reason}");
    assert!(of(&outcome.report, &steady).closed.is_none());
}

#[test]
fn hostile_answers_end_with_a_clear_error_and_bounded_memory() {
    let file = bytes(100_000);
    for (behaviour, reason) in [
        (Behaviour { redirects: Some("/f.bin"), ..Behaviour::default() }, "redirects in a circle"),
        (Behaviour { redirects: Some("/f.bin?%n"), ..Behaviour::default() }, "redirects more than 10 times"),
        (Behaviour { redirects: Some("ftp://a/f"), ..Behaviour::default() }, "which is no web address"),
        (Behaviour { endless_headers: true, ..Behaviour::default() }, "message head is too large"),
        (Behaviour { status: Some("404 Not Found"), ..Behaviour::default() }, "status 404"),
        (Behaviour { status: Some("206 Partial Content"), ..Behaviour::default() }, "without saying which"),
    ] {
        let folder = temp();
        let server = Server::start(&file, behaviour.clone());
        let error = get(&wanted(&[&server], folder.path())).expect_err("it is of no use").to_string();
        assert!(error.contains(reason), "{behaviour:?}: {error}");
    }
}

#[test]
fn a_busy_server_is_asked_again_when_it_says() {
    let (file, folder) = (bytes(1 << 20), temp());
    let server = Server::start(&file, Behaviour { busy_for: 2, ..Behaviour::default() });
    let begun = Instant::now();
    let wanted = wanted(&[&server], folder.path());
    get(&wanted).expect("it is busy twice");
    assert!(begun.elapsed() >= Duration::from_secs(2), "it asked to wait a second each time: {:?}", begun.elapsed());
    assert!(read(&wanted) == file);
}

#[test]
fn certificates_are_checked_and_private_authorities_can_be_trusted() {
    let (file, folder) = (bytes(1 << 20), temp());
    let server = Server::start_tls(&file, Behaviour::default());
    let mut wanted = wanted(&[&server], folder.path());
    let pem = folder.path().join("ca.pem");
    std::fs::write(&pem, server.certificate()).expect("writable");
    // Nobody knows its authority; it is trusted, but for another host.
    for (host, trusted, hint) in [("127.0.0.1", vec![], true), ("localhost", vec![pem.clone()], false)] {
        wanted.mirrors[0].set_host(Some(host)).expect("a host");
        wanted.client.ca_certificates = trusted;
        let error = get(&wanted).expect_err("its certificate does not fit").to_string();
        assert!(error.contains("its certificate is not valid") && error.contains(host), "{error}");
        assert_eq!(error.contains("--ca-certificate"), hint, "{error}");
    }
    wanted.mirrors[0].set_host(Some("127.0.0.1")).expect("a host");
    get(&wanted).expect("it is trusted now");
    assert!(read(&wanted) == file);
}

#[test]
fn a_closed_port_is_reported_before_patience_ends() {
    let folder = temp();
    let mut wanted = wanted(&[&Server::start(&[], Behaviour::default())], folder.path());
    let closed = std::net::TcpListener::bind("127.0.0.1:0").and_then(|held| held.local_addr()).expect("a port");
    wanted.mirrors = vec![format!("http://{closed}/f.bin").parse().expect("a URL")];
    wanted.patience = Duration::from_secs(60);
    let begun = Instant::now();
    let error = get(&wanted).expect_err("nobody listens").to_string();
    assert!(error.contains(&closed.to_string()) && error.contains("refused"), "{error}");
    assert!(begun.elapsed() < wanted.patience / 2, "{:?}", begun.elapsed());
}

#[test]
fn a_redirect_out_of_encryption_is_refused_unless_it_is_allowed() {
    let (file, folder) = (bytes(1 << 20), temp());
    let plain = Server::start(&file, Behaviour::default());
    let to: &'static str = Box::leak(plain.url("f.bin").to_string().into_boxed_str());
    let server = Server::start_tls(&file, Behaviour { redirects: Some(to), ..Behaviour::default() });
    let mut wanted = wanted(&[&server], folder.path());
    let pem = folder.path().join("ca.pem");
    std::fs::write(&pem, server.certificate()).expect("writable");
    wanted.client.ca_certificates = vec![pem];
    let error = get(&wanted).expect_err("it leads out").to_string();
    assert!(error.contains("which is not encrypted"), "{error}");
    wanted.client.redirects = Redirects::Any;
    get(&wanted).expect("it is allowed");
    assert!(read(&wanted) == file);
}

#[test]
fn passwords_and_cookies_reach_their_host_only() {
    let (file, folder) = (bytes(10_000), temp());
    let server = Server::start(&file, Behaviour::default());
    let (netrc, cookies) = (folder.path().join("netrc"), folder.path().join("cookies"));
    std::fs::write(&netrc, "machine 127.0.0.1 login me password s3cret").expect("writable");
    std::fs::write(&cookies, "127.0.0.1\tFALSE\t/\tFALSE\t0\tkey\tvalue\nother.example\tTRUE\t/\tFALSE\t0\tno\tno\n")
        .expect("writable");
    let mut wanted = wanted(&[&server], folder.path());
    (wanted.client.netrc, wanted.client.cookies) = (Some(netrc), Some(cookies));
    get(&wanted).expect("it is honest");
    let head = server.last_head().to_ascii_lowercase();
    assert!(head.contains("authorization: basic bwu6cznjcmv0"), "{head}");
    assert!(head.contains("cookie: key=value\r") && head.contains("user-agent: tributary/"), "{head}");
}

#[test]
fn empty_files_and_existing_ones() {
    let folder = temp();
    let server = Server::start(&[], Behaviour::default());
    let wanted = wanted(&[&server], folder.path());
    get(&wanted).expect("it is empty");
    assert!(read(&wanted).is_empty());
    std::fs::write(&wanted.output, b"mine").expect("writable");
    let error = get(&wanted).expect_err("it is somebody's").to_string();
    assert!(error.contains("out.bin") && read(&wanted) == b"mine", "{error}");
}

/// Starts a program; `None` if it is not installed, which fails where peers are required.
fn program(command: &mut Command) -> Option<std::process::Child> {
    match command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
        Ok(child) => Some(child),
        Err(error) => {
            let required = std::env::var("TRIBUTARY_PEERS").is_ok_and(|value| value == "required");
            assert!(!required, "{command:?}: {error}");
            eprintln!("skipped: {command:?}: {error}");
            None
        }
    }
}
fn await_port(port: u16) {
    let begun = Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "nothing listens on port {port}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
struct Ended(std::process::Child);
impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn real_servers_nginx_with_ranges_and_python_without() {
    let (file, folder) = (bytes(20 << 20), temp());
    let root = folder.path().join("root");
    std::fs::create_dir(&root).expect("writable");
    std::fs::write(root.join("f.bin"), &file).expect("writable");
    let (fast, slow, python) = (tributary_testkit::port(), tributary_testkit::port(), tributary_testkit::port());
    let (at, root_text) = (folder.path().display(), root.display());
    let config = format!(
        "daemon off; master_process off; pid {at}/pid; error_log /dev/null; events {{}}\n\
         http {{ access_log off; client_body_temp_path {at}/b; proxy_temp_path {at}/p; fastcgi_temp_path {at}/f;\n\
         uwsgi_temp_path {at}/u; scgi_temp_path {at}/s; root {root_text};\n\
         server {{ listen 127.0.0.1:{fast}; limit_rate 10m; }} server {{ listen 127.0.0.1:{slow}; limit_rate 4m; }} }}\n"
    );
    std::fs::write(folder.path().join("nginx.conf"), config).expect("writable");
    let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("nginx");
    command.env("PATH", path).arg("-p").arg(folder.path()).arg("-c").arg(folder.path().join("nginx.conf"));
    let Some(_nginx) = program(&mut command).map(Ended) else { return };
    let mut command = Command::new("python3");
    command.args(["-m", "http.server", "--bind", "127.0.0.1", &python.to_string()]).current_dir(&root);
    let Some(_python) = program(&mut command).map(Ended) else { return };
    [fast, slow, python].into_iter().for_each(await_port);
    let url = |port: u16| format!("http://127.0.0.1:{port}/f.bin").parse().expect("a URL");
    let none = Server::start(&file, Behaviour::default());
    let mut wanted = Wanted { checksum: Some(sha256(&file)), ..wanted(&[&none], folder.path()) };
    wanted.mirrors = vec![url(fast), url(slow), url(python)];
    let outcome = get(&wanted).expect("all are honest");
    assert!(read(&wanted) == file);
    let bytes_of: Vec<u64> = outcome.report.sources.iter().map(|source| source.bytes).collect();
    assert!(bytes_of[0] > bytes_of[1] && bytes_of[1] > 2 << 20 && bytes_of[2] == 0, "{bytes_of:?}");
    wanted.mirrors = vec![url(python)];
    wanted.output = folder.path().join("by-python.bin");
    get(&wanted).expect("one stream");
    assert!(read(&wanted) == file);
}

#[test]
fn a_server_that_speaks_http_2_is_used_so_over_as_many_connections_as_flows() {
    let (file, folder) = (bytes(6 << 20), temp());
    let (at, port) = (folder.path().display(), tributary_testkit::port());
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_string()]).expect("a certificate");
    std::fs::write(folder.path().join("cert.pem"), server::pem("CERTIFICATE", made.cert.der())).expect("writable");
    std::fs::write(folder.path().join("key.pem"), server::pem("PRIVATE KEY", &made.signing_key.serialize_der()))
        .expect("writable");
    std::fs::write(folder.path().join("f.bin"), &file).expect("writable");
    let config = format!(
        "daemon off; master_process off; pid {at}/pid; error_log /dev/null; events {{}}\n\
         http {{ log_format short '$server_protocol $connection $status'; access_log {at}/log short;\n\
         client_body_temp_path {at}/b; proxy_temp_path {at}/p; fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u;\n\
         scgi_temp_path {at}/s; root {at}; server {{ listen 127.0.0.1:{port} ssl http2; ssl_certificate {at}/cert.pem;\n\
         ssl_certificate_key {at}/key.pem; }} }}\n"
    );
    std::fs::write(folder.path().join("nginx.conf"), config).expect("writable");
    let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("nginx");
    command.env("PATH", path).arg("-p").arg(folder.path()).arg("-c").arg(folder.path().join("nginx.conf"));
    let Some(nginx) = program(&mut command).map(Ended) else { return };
    await_port(port);
    let none = Server::start(&file, Behaviour::default());
    let mut wanted = Wanted { checksum: Some(sha256(&file)), ..wanted(&[&none], folder.path()) };
    wanted.mirrors = vec![format!("https://127.0.0.1:{port}/f.bin").parse().expect("a URL")];
    wanted.client.ca_certificates = vec![folder.path().join("cert.pem")];
    wanted.client.uplinks = ["127.0.0.2", "127.0.0.3"].map(|text| text.parse().expect("an address")).to_vec();
    let outcome = get(&wanted).expect("it is honest");
    assert!(read(&wanted) == file);
    assert!(outcome.report.paths.iter().all(|path| path.bytes > 0), "{:?}", outcome.report.paths);
    drop(nginx);
    let log = std::fs::read_to_string(folder.path().join("log")).expect("it is written");
    let partial: Vec<&str> = log.lines().filter(|line| line.ends_with("206")).collect();
    assert!(partial.iter().all(|line| line.starts_with("HTTP/2.0 ")), "{log}");
    let connections: std::collections::BTreeSet<_> = partial.iter().map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(connections.len(), 2, "{log}");
}

#[test]
fn an_object_of_a_store_is_fetched_with_signed_requests_beside_a_mirror() {
    let (file, folder) = (bytes(6 << 20), temp());
    let (stored, port) = (folder.path().join("stored"), tributary_testkit::port());
    std::fs::write(&stored, &file).expect("writable");
    let mut command = Command::new("python3");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/s3.py")).arg(port.to_string()).arg(&stored);
    command.args(["isos", "debian/a b+c.iso", "lab", "s3cret/+", "eu-west-3"]);
    let Some(_store) = program(&mut command).map(Ended) else { return };
    await_port(port);
    let store = |secret: &str| {
        let variables = [
            ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}")),
            ("AWS_REGION", "eu-west-3".into()),
            ("AWS_ACCESS_KEY_ID", "lab".into()),
            ("AWS_SECRET_ACCESS_KEY", secret.into()),
        ];
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
        Some(tributary_web::s3::Store::of(&find))
    };
    let mirror = Server::start(&file, Behaviour { rate: Some(4 << 20), ..Behaviour::default() });
    let mut wanted = Wanted { checksum: Some(sha256(&file)), ..wanted(&[&mirror], folder.path()) };
    wanted.mirrors.insert(0, "s3://isos/debian/a%20b+c.iso".parse().expect("a URL"));
    wanted.client.store = store("s3cret/+");
    let outcome = get(&wanted).expect("both have it");
    assert!(read(&wanted) == file);
    let bytes_of: Vec<(&str, u64)> =
        outcome.report.sources.iter().map(|source| (source.label.as_str(), source.bytes)).collect();
    assert!(bytes_of[0].0 == "s3://isos" && bytes_of.iter().all(|(_, bytes)| *bytes > 0), "{bytes_of:?}");
    // One that is alone, and requested in the wrong way.
    let mut refused = |secret: &str, object: &str| {
        (wanted.mirrors, wanted.client.store) = (vec![object.parse().expect("a URL")], store(secret));
        wanted.output = folder.path().join("none");
        get(&wanted).expect_err("it is refused").to_string()
    };
    let error = refused("other", "s3://isos/debian/a%20b+c.iso");
    assert!(error.contains("403 Forbidden SignatureDoesNotMatch"), "{error}");
    let error = refused("s3cret/+", "s3://isos/debian/other");
    assert!(error.contains("404 Not Found NoSuchKey"), "{error}");
    let error = refused("", "s3://isos/debian/other");
    assert!(error.contains("AccessDenied; without AWS_ACCESS_KEY_ID requests are not signed"), "{error}");
}

#[test]
fn a_metalink_file_leads_to_the_file_past_a_mirror_that_flips_bytes() {
    let (file, folder) = (bytes(4 << 20), temp());
    let honest = Server::start(&file, Behaviour { rate: Some(4 << 20), ..Behaviour::default() });
    let faulty = Server::start(&file, Behaviour { flips: true, ..Behaviour::default() });
    let hex = |bytes: &[u8]| sha256(bytes).to_string().replace("SHA-256 ", "");
    let hashes: String = file.chunks(256 << 10).map(|piece| format!("<hash>{}</hash>", hex(piece))).collect();
    let xml = format!(
        "<?xml version='1.0' encoding='UTF-8'?><metalink xmlns='urn:ietf:params:xml:ns:metalink'><file name='f.bin'>\
         <size>{}</size><hash type='sha-256'>{}</hash><pieces length='{}' type='sha-256'>{hashes}</pieces>\
         <url priority='2'>{}</url><url priority='1'>{}</url></file></metalink>",
        file.len(),
        hex(&file),
        256 << 10,
        honest.url("f.bin"),
        faulty.url("f.bin")
    );
    let list = Metalink::parse(xml.as_bytes()).expect("it is legal");
    let found = &list.files[0];
    let wanted = Wanted {
        mirrors: found.urls.iter().map(|url| url.url.clone()).collect(),
        size: found.size,
        checksum: found.checksum.clone(),
        pieces: found.pieces.clone(),
        ..wanted(&[&honest], folder.path())
    };
    let outcome = get(&wanted).expect("one is honest");
    assert!(read(&wanted) == file && of(&outcome.report, &faulty).distrusted.is_some());
    assert_eq!(of(&outcome.report, &faulty).bytes, 0);
}
