//! References with a publisher's key or a hash: `put` prints them, and every way to fetch reads them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
};

use crate::common::{self, Daemon, config, file, run, talk, until};

const STRANGER: &str = "ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

/// A publisher of `/lab/big`, and a daemon that also serves HTTP.
struct Site {
    folder: tempfile::TempDir,
    /// The printed reference.
    reference: String,
    address: String,
    _daemons: [Daemon; 2],
}

impl Site {
    /// The reader's config gets what `more` makes of the publisher's key.
    fn new(family: &str, more: impl Fn(&str) -> String) -> Site {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let (server, face) = common::server(at, family);
        let original = file(at);
        let answers = common::ask(at, "server", &["put", original.to_str().unwrap(), "/lab/big"]);
        let published = &answers[0];
        let [key, reference] = ["publisher", "reference"].map(|field| published[field].as_str().unwrap().to_string());
        assert_eq!(reference, format!("trib:/lab/big?publisher={key}"));
        let http = "[http]\nlisten = \"127.0.0.1:0\"\npatience = \"3s\"\n";
        let reader = config(at, "reader", r#""receiver""#, 0, &format!("{face}{http}{}", more(&key)));
        let (reader, ready) = Daemon::start_ready(at, &reader);
        let address = ready["http"].as_str().unwrap().trim_start_matches("http://").trim_end_matches('/').to_string();
        Site { folder, reference, address, _daemons: [server, reader] }
    }
    fn path(&self) -> &Path {
        self.folder.path()
    }
    /// Runs a command at the reader; returns its exit code and output.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let control = self.path().join("reader/control.sock");
        let ran = run(self.path(), &[arguments, &["--control", control.to_str().unwrap()]].concat());
        (ran.status.code(), talk(&ran))
    }
    fn get(&self, name: &str, more: &[&str]) -> (Option<i32>, String) {
        let _ = fs::remove_file(self.path().join("copy"));
        let copy = self.path().join("copy");
        self.run(&[&["get", name, "-o", copy.to_str().unwrap(), "--timeout", "3s", "--overwrite"], more].concat())
    }
    fn has(&self, file: &str) -> bool {
        let bytes = |file| fs::read(self.path().join(file)).unwrap_or_default();
        bytes(file) == bytes("original")
    }
    /// The status and the body of an answer.
    fn read(&self, target: &str) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let status = String::from_utf8_lossy(&answer[9..12]).parse().unwrap();
        (status, answer.split_off(end + 4))
    }
}

#[test]
fn a_printed_reference_is_believed_and_another_key_refused_by_every_way_in() {
    for family in ["psi", "ndn", "mf"] {
        let site = Site::new(family, |_| String::new());
        let (reference, key) = (&site.reference, site.reference.split_once('=').unwrap().1);
        let wrong = format!("trib:/lab/big?publisher={STRANGER}");

        let (code, said) = site.get(&wrong, &[]);
        assert_eq!(code, Some(1), "{family}: {said}");
        assert!(said.contains(&format!("signature by {key}, but you asked for {STRANGER}")), "{family}: {said}");
        let (code, said) = site.get(reference, &["--publisher", STRANGER]);
        assert_eq!(code, Some(2), "{family}: {said}");
        assert!(said.contains(&format!("'{reference}' contradicts --publisher {STRANGER}")), "{family}: {said}");

        let (status, said) = site.read(&format!("/lab/big?publisher={STRANGER}"));
        let said = String::from_utf8_lossy(&said);
        // In NDN another publisher may still answer, so the lookup lasts until its timeout.
        assert!(status == 404 && (family == "ndn" || said.contains(STRANGER)), "{family}: {status} {said}");
        let (status, bytes) = site.read(&reference.replace("trib:", ""));
        assert!(status == 200 && bytes == fs::read(site.path().join("original")).unwrap(), "{family}: {status}");

        let (code, said) = site.get(reference, &["--publisher", key]);
        assert_eq!(code, Some(0), "{family}: {said}");
        assert!(site.has("copy") && !said.contains("no key is known"), "{family}: {said}");
        let kept = site.path().join("kept/");
        let kept = kept.to_str().unwrap();
        for command in
            [&["follow", reference, "-o", &format!("{kept}/followed")][..], &["mirror", reference, "-o", kept]]
        {
            let _ = fs::create_dir(kept);
            let (code, said) = site.run(command);
            assert_eq!(code, Some(0), "{family} {command:?}: {said}");
        }
        until("what is followed and mirrored", || site.has("kept/followed") && site.has("kept/big"));
        let listed = common::ask(site.path(), "reader", &["transfers"]);
        assert!(listed.iter().all(|line| !line.to_string().contains("trib:")), "they are listed by name: {listed:?}");
    }
}

#[test]
fn a_rule_decides_about_its_prefix_in_every_way_in_until_a_reference_does() {
    for family in ["psi", "ndn", "mf"] {
        let rule = |prefix: &str, key: &str| format!("[[trust]]\nprefix = \"{prefix}\"\npublisher = \"{key}\"\n");
        let site = Site::new(family, |_| rule("/lab", STRANGER));
        let (code, said) = site.get("/lab/big", &[]);
        assert_eq!(code, Some(1), "{family}: {said}");
        assert!(said.contains(&format!("believes only {STRANGER} below '/lab'")), "{family}: {said}");
        let (status, said) = site.read("/lab/big");
        let said = String::from_utf8_lossy(&said);
        // In NDN another publisher may still answer, so the lookup lasts until its timeout.
        assert!(status == 404 && (family == "ndn" || said.contains(STRANGER)), "{family}: {status} {said}");
        let (code, said) = site.get(&site.reference, &[]);
        assert!(code == Some(0) && site.has("copy"), "{family}: {said}");

        // The longest prefix counts.
        let site = Site::new(family, |key| rule("/lab", STRANGER) + &rule("/lab/big", key));
        assert_eq!(site.read("/lab/big").0, 200, "{family}");
        let (code, said) = site.get("/lab/big", &[]);
        assert!(code == Some(0) && site.has("copy"), "{family}: {said}");
    }
}

#[test]
fn a_hash_accepts_its_bytes_and_no_others() {
    let site = Site::new("psi", |_| String::new());
    let (code, said) = site.get(&format!("trib:/lab/big?hash={}", "0".repeat(32)), &[]);
    let id =
        said.split_once("offered with the hash ").and_then(|(_, id)| id.get(..32)).unwrap_or_else(|| panic!("{said}"));
    assert_eq!(code, Some(1));
    let (code, said) = site.get(&format!("trib:/lab/big?hash={id}"), &[]);
    assert!(code == Some(0) && site.has("copy"), "{said}");
    let (status, _) = site.read(&format!("/lab/big?hash={id}"));
    assert_eq!(status, 200);
    assert!(!fs::read_to_string(site.path().join("reader/trust")).unwrap_or_default().contains("/lab/big"));
}

#[test]
fn an_open_folder_outranks_no_name_below_it_that_a_rule_gives_to_another_publisher() {
    for family in ["psi", "ndn", "mf"] {
        let rule = format!("[[trust]]\nprefix = \"/lab/ours\"\npublisher = \"{STRANGER}\"\n");
        let site = Site::new(family, |_| rule.clone());
        let folder = site.path().join("folder");
        for within in ["ours", "theirs"] {
            fs::create_dir_all(folder.join(within)).unwrap();
            fs::write(folder.join(within).join("x"), within).unwrap();
        }
        common::put(site.path(), &folder, "/lab");
        // The page of the folder opens its session.
        assert_eq!(site.read("/lab/").0, 200, "{family}");
        assert_eq!(site.read("/lab/theirs/x"), (200, b"theirs".to_vec()), "{family}");
        assert_eq!(site.read("/lab/ours/x").0, 404, "{family}");
    }
}
