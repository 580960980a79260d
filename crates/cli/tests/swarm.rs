//! Daemons that serve each other what they are still fetching.
#![expect(clippy::disallowed_methods, reason = "a test fails by panicking, in real time")]
mod common;

use std::{fs, time::Instant};

use common::{Daemon, begin, config, face, port, rest, run, talk};

/// How many fetch at once.
const RECEIVERS: usize = 6;

#[test]
fn daemons_behind_one_narrow_publisher_serve_each_other_while_they_fetch() {
    let folder = tempfile::tempdir().unwrap();
    let (here, at) = (folder.path(), port());
    let roles = r#""router", "resolver", "topology-manager""#;
    // Without a cache, which would do the same for all.
    let router = config(here, "router", roles, at, "family = \"psi\"\n[psi]\ncache_size = \"0B\"\n");
    let _router = Daemon::start(here, &router);
    let link = "[face.egress]\nrate = \"16Mbps\"\ndelay = \"5ms\"\n";
    let more = format!("family = \"psi\"\n{}{link}", face(at, "psi"));
    let _publisher = Daemon::start(here, &config(here, "publisher", r#""sender""#, 0, &more));
    let file: Vec<u8> = (0..8u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(here.join("f.bin"), &file).unwrap();
    let control = |label: &str| here.join(label).join("control.sock").display().to_string();
    let path = here.join("f.bin").display().to_string();
    let put = run(here, &["put", &path, "/lab/f", "--control", &control("publisher")]);
    assert_eq!(put.status.code(), Some(0), "{}", talk(&put));
    let labels: Vec<String> = (0..RECEIVERS).map(|number| format!("receiver-{number}")).collect();
    let receivers = labels.iter().map(|label| {
        let more = format!("family = \"psi\"\n{}[serve]\nfetched = true\n", face(at, "psi"));
        Daemon::start(here, &config(here, label, r#""receiver", "sender""#, 0, &more))
    });
    let receivers: Vec<Daemon> = receivers.collect();
    let begun = Instant::now();
    let gets = labels.iter().map(|label| {
        let (control, out) = (control(label), here.join(format!("{label}.out")).display().to_string());
        begin(here, &["get", "/lab/f", "--control", &control, "-o", &out, "--json"])
    });
    let gets: Vec<_> = gets.collect();
    let mut from_each_other = 0;
    for ((get, _, stdout), label) in gets.into_iter().zip(&labels) {
        let told = rest(stdout);
        assert_eq!(get.wait(), Some(0), "{label}: {:?}", told.last());
        assert!(fs::read(here.join(format!("{label}.out"))).unwrap() == file, "{label}");
        let done = told.iter().rfind(|line| line["event"] == "done").unwrap();
        for source in done["sources"].as_array().unwrap() {
            assert!(source["distrusted"].is_null(), "{done}");
            if source["id"].as_str().unwrap().starts_with("receiver") {
                from_each_other += source["bytes"].as_u64().unwrap();
            }
        }
    }
    let took = begun.elapsed().as_secs_f64();
    let alone = file.len() as f64 * 8.0 / 16e6;
    println!(
        "{RECEIVERS} receivers: {took:.1} s; one alone needs {alone:.1} s; {from_each_other} bytes from each other"
    );
    assert!(from_each_other > file.len() as u64, "{from_each_other} bytes");
    drop(receivers);
}
