//! `trib sim` from outside: the same bytes with any number of threads, errors with lines, captures for Wireshark.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tributary_testkit::{golden, schema};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/sim")
}
fn trib(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_trib-lab")).args(words).output().unwrap()
}
fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}
fn sim(scenario: &str, more: &[&str]) -> Output {
    let path = examples().join(scenario);
    let words: Vec<&str> = ["sim", path.to_str().unwrap()].into_iter().chain(more.iter().copied()).collect();
    trib(&words)
}
/// All files below a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.strip_prefix(folder).unwrap().to_path_buf(), std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

#[test]
fn the_same_seeds_give_the_same_bytes_in_every_file_whatever_the_number_of_threads() {
    let run = |threads: &str| {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let more = ["--runs", "3", "--threads", threads, "--out", out.to_str().unwrap(), "--pcap", "dsl", "--json"];
        let output = sim("everything.toml", &more);
        assert!(output.status.success(), "{output:?}");
        (stdout(&output), files(&out))
    };
    let (one, several, again) = (run("1"), run("3"), run("3"));
    assert_eq!(one.0, several.0);
    let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&one.1), names(&several.1));
    for (path, bytes) in &one.1 {
        assert!(*bytes == several.1[path] && *bytes == again.1[path], "{} differs", path.display());
        assert!(!bytes.is_empty(), "{} is empty", path.display());
    }
    for name in [
        "events.jsonl",
        "links.csv",
        "packets.pcapng",
        "paths.csv",
        "queues.csv",
        "report.html",
        "use.pdf",
        "use.png",
        "use.svg",
        "windows.svg",
    ] {
        assert!(one.1.contains_key(&Path::new("seed-8").join(name)), "{name}");
    }
    // Other seeds are other runs.
    let hashes: Vec<_> = one.0.lines().filter_map(|line| line.split("trace_hash\":\"").nth(1)).collect();
    assert_eq!(hashes.len(), 3);
    assert!(hashes[0] != hashes[1] && hashes[1] != hashes[2]);
}

#[test]
fn a_scenario_of_ten_lines_ends_with_a_line_for_programs_and_one_for_people() {
    let output = sim("zoo.toml", &["--json"]);
    let text = stdout(&output);
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.iter().for_each(schema::check);
    let last = lines.last().unwrap();
    assert_eq!((&last["event"], &last["complete"]), (&"done".into(), &true.into()));
    assert!(last["transfers"][0]["mbps_mean"].as_f64().unwrap() > 40.0, "{last}");
    let words = stdout(&sim("mahimahi.toml", &["--runs", "2"]));
    let took: Vec<_> = words.lines().filter(|line| line.contains("tower 100 %")).collect();
    assert!(took.len() == 2 && took[0] != took[1], "the seed says where in the recording it begins: {words}");
    assert!(words.contains("complete") && words.contains("2 runs together"), "{words}");
}

#[test]
fn a_sweep_tells_what_was_set_in_each_line() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let options = ["--sweep", "scenario.seed=3,4", "--runs", "2", "--json", "--out", out.to_str().unwrap()];
    let text = stdout(&sim("mahimahi.toml", &options));
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.iter().for_each(schema::check);
    let of = |event: &str| lines.iter().filter(|line| line["event"] == event).collect::<Vec<_>>();
    assert_eq!((of("run").len(), of("done").len()), (4, 2), "{text}");
    let seeds: Vec<u64> = of("run").iter().filter_map(|line| line["seed"].as_u64()).collect();
    assert_eq!(seeds, [3, 4, 4, 5], "each point begins with its own seed");
    assert!(of("run").iter().all(|line| line["set"]["scenario.seed"].is_string()), "{text}");
    assert!(["svg", "pdf", "png"].iter().all(|kind| out.join("sweep").with_extension(kind).exists()));
}

#[test]
fn the_scenario_of_the_guide_runs_as_it_says() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/simulation.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let block = |kind: &str| guide.split_once(kind).unwrap().1.split_once("```").unwrap().0;
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("two-links.toml");
    std::fs::write(&scenario, block("```toml\n")).unwrap();
    let output = trib(&["sim", scenario.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    // Columns and ends are those that it shows; seconds move with the protocols.
    let words = |text: &str| -> Vec<String> {
        let is_word = |word: &&str| !word.contains(|letter: char| letter.is_ascii_digit());
        text.split_whitespace().filter(is_word).map(String::from).collect()
    };
    assert_eq!(words(&stdout(&output)), words(block("```text\n")));
}

#[test]
fn mistakes_are_drawn_and_told_with_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wrong.toml");
    std::fs::write(&path, "[scenario]\nduration = \"60\"\n[topology]\ngenerate = \"grit\"\n").unwrap();
    let output = trib(&["sim", path.to_str().unwrap()]);
    let talk = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{talk}");
    for part in ["wrong.toml:2:12", "wrong.toml:4:12", "did you mean \"grid\"?", "a duration such as 40ms"] {
        assert!(talk.contains(part), "no '{part}' in {talk}");
    }
    assert_eq!(
        sim("zoo.toml", &["--out", folder.path().to_str().unwrap(), "--pcap", "no-such"]).status.code(),
        Some(2)
    );
}

#[test]
fn a_run_that_does_not_get_done_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("short.toml");
    let text = "scenario = { duration = \"2500ms\" }\ntopology = { generate = \"grid\", rows = 1, columns = 3, link = { rate = \"1Mbps\" } }\n\
                publish = [{ node = \"r0-c0\", name = \"/x\", size = \"5MB\" }]\nfetch = [{ node = \"r0-c2\", name = \"/x\" }]\n";
    std::fs::write(&path, text).unwrap();
    let output = trib(&["sim", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stdout(&output).contains("when time was up"), "{output:?}");
}

/// The output of tshark for a capture, or `None` where it is not installed.
fn tshark(capture: &Path, words: &[&str]) -> Option<String> {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/wireshark");
    let mut command = Command::new("tshark");
    for script in ["mf", "ndn", "psi", "secure"] {
        command.arg("-X").arg(format!("lua_script:{}/tributary-{script}.lua", scripts.display()));
    }
    command.args(["-o", "udp.check_checksum:TRUE", "-r"]).arg(capture).args(words);
    match command.output() {
        Ok(output) => Some(String::from_utf8(output.stdout).unwrap()),
        Err(error) => {
            let is_required = std::env::var_os("TRIBUTARY_PEERS").is_some_and(|peers| peers == "required");
            assert!(!is_required, "tshark: {error}; install it with `apt-get install tshark`");
            None
        }
    }
}

#[test]
fn wireshark_reads_captures_and_our_dissector_reads_every_packet() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    assert!(sim("mahimahi.toml", &["--out", out.to_str().unwrap(), "--pcap", "tower-phone"]).status.success());
    let capture = out.join("seed-1/packets.pcapng");
    let Some(all) = tshark(&capture, &["-T", "fields", "-e", "psi.type", "-e", "udp.checksum.status"]) else { return };
    assert!(all.lines().count() > 3_000, "{} packets", all.lines().count());
    assert!(all.lines().all(|line| line.ends_with("\t1")), "every checksum is right");
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for line in all.lines() {
        *kinds.entry(line.split('\t').next().unwrap()).or_default() += 1;
    }
    for kind in ["1", "2", "3", "4", "5"] {
        assert!(kinds.contains_key(kind), "no packet of type {kind}: {kinds:?}");
    }
    assert!(!kinds.contains_key(""), "the dissector knows every packet: {kinds:?}");
    assert_eq!(tshark(&capture, &["-Y", "_ws.malformed || _ws.lua.error || psi.short"]), Some(String::new()));
    // 5 MB of payload cross the link once, and a little more for packets that were lost or requested twice.
    let data = tshark(&capture, &["-Y", "psi.type == 5", "-T", "fields", "-e", "psi.payload"]).unwrap();
    let bytes: usize = data.lines().map(|line| line.len() / 2).sum();
    assert!((5_000_000..5_400_000).contains(&bytes), "{bytes}");
}

/// Nothing of a capture is malformed, unknown, or makes a dissector fail.
const BAD: &str =
    "_ws.malformed || _ws.lua.error || mf.short || mf.unknown || ndn.short || psi.short || tribsec.short || data";

/// How many packets of a capture have each value of a field.
fn counts(capture: &Path, field: &str) -> Option<BTreeMap<String, usize>> {
    let all = tshark(capture, &["-T", "fields", "-e", field])?;
    let mut counts = BTreeMap::new();
    all.lines().for_each(|line| *counts.entry(line.to_string()).or_default() += 1);
    Some(counts)
}
/// A capture of datagrams to a port, as they are, without checksums.
fn capture_of(path: &Path, port: u16, datagrams: &[&[u8]]) {
    // The header of a file of pcap in big-endian order, for packets of IP (101).
    let mut out = [&[0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4][..], &[0; 8], &[0, 0, 0xff, 0xff, 0, 0, 0, 101]].concat();
    for (second, datagram) in (0u32..).zip(datagrams) {
        let (udp, ip) = (datagram.len() as u16 + 8, datagram.len() as u16 + 28);
        out.extend([second, 0, u32::from(ip), u32::from(ip)].iter().flat_map(|word| word.to_be_bytes()));
        out.extend([&[0x45, 0][..], &ip.to_be_bytes(), &[0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]].concat());
        out.extend([port, port, udp, 0].iter().flat_map(|half| half.to_be_bytes()));
        out.extend_from_slice(datagram);
    }
    std::fs::write(path, out).unwrap();
}

/// A packet, a field, and its value.
type Shown<'a> = (&'a str, &'a str, &'a str);

#[test]
fn our_dissectors_read_each_golden_packet_and_show_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let a = "aa".repeat(20);
    // Family, port, its most general field, and the known values of some packets.
    let known: [(&str, u16, &str, &[Shown<'_>]); 2] = [
        (
            "ndn",
            6363,
            "ndn.type",
            &[
                ("interest with all elements", "ndn.hop_limit", "64"),
                ("interest with all elements", "ndn.lifetime", "4000"),
                ("interest with all elements", "ndn.nonce", "0xdeadbeef"),
                ("data, null signature", "ndn.name", "/a/v=5/seg=0"),
                ("data, null signature", "ndn.final_block", "seg=9"),
                ("data, null signature", "ndn.signature_type", "200"),
                ("lp: token, nack, mark, acks, sequence", "ndn.lp.nack_reason", "150"),
                ("lp: token, nack, mark, acks, sequence", "ndn.lp.tx_sequence", "8"),
                ("lp: second of two pieces", "ndn.lp.piece", "1"),
                ("lp: PTP tag of two labels, probe, from a cache, failed", "ndn.ptp.tag", "a1a2a3a4b1b2b3b4"),
                ("lp: PTP tag of two labels, probe, from a cache, failed", "ndn.ptp.origin", "1"),
            ],
        ),
        (
            "mf",
            7002,
            "mf.type",
            &[
                ("hello of a router", "mf.label", "r1"),
                ("data, packet 3 of 700", "mf.index", "3"),
                ("cack", "mf.bitmap", "0404"),
                ("first packet of a chunk of data", "mf.chunk", "2"),
                ("the same with a custodian", "mf.custodian", &"cc".repeat(20)),
                ("transport: request", "mf.chunk.bytes", "1048576"),
                ("transport: custody, taken", "mf.custody", "1"),
                ("transport: kept for an hour", "mf.lifetime_ms", "0,3600000"),
                ("names: lookup", "mf.place", &a),
                ("names: put of a record with readers, its signature left out", "mf.record.version", "4"),
                ("names: many", "mf.names", "14,2,5"),
                ("link state, its code left out", "mf.sett_us", "5000"),
            ],
        ),
    ];
    for (family, port, kind, fields) in known {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../{family}/tests/golden/packets.txt"));
        let packets = golden::parse(&std::fs::read_to_string(golden).unwrap()).unwrap();
        let packets: Vec<_> = packets.into_iter().filter(|packet| packet.error.is_none()).collect();
        let capture = folder.path().join(format!("{family}.pcap"));
        capture_of(&capture, port, &packets.iter().map(|packet| &packet.bytes[..]).collect::<Vec<_>>());
        let Some(bad) = tshark(&capture, &["-Y", BAD]) else { return };
        assert_eq!(bad, "", "{family}");
        let kinds = tshark(&capture, &["-T", "fields", "-e", kind]).unwrap();
        assert!(kinds.lines().count() == packets.len() && kinds.lines().all(|line| !line.is_empty()), "{kinds}");
        let words: Vec<&str> = fields.iter().flat_map(|(_, field, _)| ["-e", field]).collect();
        let shown = tshark(&capture, &[&["-T", "fields"], &words[..]].concat()).unwrap();
        let shown: Vec<Vec<&str>> = shown.lines().map(|line| line.split('\t').collect()).collect();
        for (column, (name, field, value)) in fields.iter().enumerate() {
            let row = packets.iter().position(|packet| packet.name == *name).unwrap();
            assert_eq!(shown[row][column], *value, "{family}, {name}: {field}");
        }
    }
}

#[test]
fn our_dissectors_read_every_packet_of_runs_of_the_other_families() {
    let folder = tempfile::tempdir().unwrap();
    let runs = [("ndn.toml", "consumer-root", "ndn.type"), ("mf-mobile.toml", "radio-north", "mf.type")];
    for (scenario, link, kind) in runs {
        let out = folder.path().join(scenario);
        let run = sim(scenario, &["--out", out.to_str().unwrap(), "--pcap", link]);
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let capture = out.join("seed-1/packets.pcapng");
        let Some(kinds) = counts(&capture, kind) else { return };
        assert!(kinds.len() > 1 && kinds.values().sum::<usize>() > 100, "{kinds:?}");
        assert!(!kinds.contains_key(""), "the dissector knows every packet: {kinds:?}");
        assert_eq!(tshark(&capture, &["-Y", BAD]), Some(String::new()), "{scenario}");
    }
}

#[test]
fn what_secure_faces_send_is_shown_as_encrypted() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("secure.pcap");
    let sealed = [&[0xd4, 0, 0, 7, 0, 0, 0, 9][..], &[0x55; 30], &[0xee; 16]].concat();
    let cut = [0xd4, 0, 0, 7, 0, 0];
    for port in [6363, 7001, 7002] {
        capture_of(&capture, port, &[&sealed]);
        let fields = ["-T", "fields", "-e", "tribsec.session", "-e", "tribsec.number", "-e", "tribsec.encrypted"];
        let Some(shown) = tshark(&capture, &fields) else { return };
        assert_eq!(shown.trim_end(), format!("0x000007\t9\t{}", "55".repeat(30)), "{port}");
        let line = tshark(&capture, &[]).unwrap();
        assert!(line.contains("Data 9, 30 bytes, encrypted"), "{line}");
        capture_of(&capture, port, &[&cut]);
        assert!(!tshark(&capture, &["-Y", "tribsec.short"]).unwrap().is_empty());
    }
}
