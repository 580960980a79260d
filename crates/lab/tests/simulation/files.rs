//! Scenario files: the examples run, and mistakes are reported with their lines.
use std::path::{Path, PathBuf};
use tributary::config::Security;
use tributary_core::{
    Duration, Rate, Time,
    link::{LinkChange, Loss, QueueDiscipline},
};
use tributary_lab::simulation::{
    Host, RunUntil, Simulation,
    file::{FileError, ScenarioFile},
};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/sim")
}
fn load(name: &str) -> ScenarioFile {
    ScenarioFile::load(&examples().join(name), None).unwrap_or_else(|error| panic!("{name}: {error}"))
}
fn problems(text: &str) -> Vec<String> {
    match ScenarioFile::parse("s.toml", text, &examples(), None) {
        Err(FileError::Wrong(errors)) => errors.to_string().lines().map(str::to_string).collect(),
        other => panic!("{other:?}"),
    }
}

fn run_every_example(change: impl Fn(&mut tributary_lab::simulation::Scenario)) {
    for entry in std::fs::read_dir(examples()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let mut file = ScenarioFile::load(&path, None).unwrap_or_else(|error| panic!("{error}"));
        change(&mut file.scenario);
        let outcome = Simulation::run(&file.scenario).unwrap();
        let ends: Vec<_> = outcome.transfers.iter().map(|of| (of.name.to_string(), of.seconds())).collect();
        assert!(outcome.is_complete(), "{}: {ends:?} at {}", path.display(), outcome.ended);
    }
}

#[test]
fn every_example_runs_to_its_end() {
    run_every_example(|_| {});
}

#[test]
fn every_example_runs_to_its_end_with_protected_faces() {
    run_every_example(|scenario| {
        for node in &mut scenario.nodes {
            if let Host::Endpoint(config) = &mut node.host {
                config.security = Security::Encrypted;
            }
        }
    });
}

#[test]
fn protection_costs_what_it_adds_to_packets_and_a_handshake() {
    let run = |security: &str| {
        let text = format!(
            "[scenario]\nsecurity = \"{security}\"\n[[node]]\nlabel = \"a\"\n[[node]]\nlabel = \"b\"\n\
             [[link]]\nends = [\"a\", \"b\"]\nrate = \"10Mbps\"\ndelay = \"10ms\"\n\
             [[publish]]\nnode = \"a\"\nname = \"/x\"\nsize = \"5MB\"\n[[fetch]]\nnode = \"b\"\nname = \"/x\"\n"
        );
        let file = ScenarioFile::parse("s.toml", &text, &examples(), None).unwrap_or_else(|error| panic!("{error}"));
        let outcome = Simulation::run(&file.scenario).unwrap();
        assert!(outcome.is_complete());
        outcome.transfers[0].seconds().unwrap()
    };
    let (plain, sealed) = (run("none"), run("encrypted"));
    // 24 of 1,500 bytes, and five one-way delays.
    assert!(sealed > plain && sealed < plain * 1.02 + 0.1, "{sealed} s instead of {plain} s");
}

#[test]
fn a_topology_of_the_zoo_and_a_mahimahi_trace_take_ten_lines() {
    for name in ["zoo.toml", "mahimahi.toml"] {
        let text = std::fs::read_to_string(examples().join(name)).unwrap();
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count();
        assert!(lines <= 12, "{name} has {lines} lines");
    }
    let zoo = load("zoo.toml").scenario;
    assert_eq!((zoo.nodes.len(), zoo.links.len(), zoo.name.as_str()), (11, 14, "zoo"));
    // New York to Chicago are 1,146 km of fibre.
    let link = &zoo.links[0];
    assert_eq!((link.name.as_str(), link.forward.rate), ("New York-Chicago", Some(Rate::from_mbps(50))));
    assert!((link.forward.delay.as_secs_f64() * 1e3 - 5.73).abs() < 0.05, "{:?}", link.forward.delay);
}

#[test]
fn a_file_says_what_the_scenario_holds() {
    let scenario = load("everything.toml").scenario;
    assert_eq!((scenario.seed, scenario.until, scenario.limit), (7, RunUntil::FetchesEnd, Time::from_millis(90_000)));
    assert_eq!(scenario.fetches.len(), 1 + 4);
    let lte = scenario.link("lte").unwrap();
    assert!(lte.forward.delivery.is_some() && lte.forward.rate.is_none());
    assert_eq!((lte.backward.rate, lte.backward.delivery.is_some()), (Some(Rate::from_mbps(5)), false));
    let dsl = scenario.link("dsl").unwrap();
    assert!(matches!(dsl.forward.discipline, QueueDiscipline::Red(red) if red.threshold_max == 60.0));
    // Bursts of 4 packets that lose half a percent: bad_to_good 1/4, good_to_bad 1/4 · 0.005 / 0.995.
    let Loss::GilbertElliott { good_to_bad, bad_to_good, .. } = dsl.forward.loss else { panic!("{:?}", dsl.forward) };
    assert!((good_to_bad - 0.25 * 0.005 / 0.995).abs() < 1e-12 && bad_to_good == 0.25);
    assert_eq!(scenario.faults.len(), 4, "each of the two faults ends");
    assert_eq!(scenario.guests.len(), 4, "each of the two flows has a sink");
    // The nodes of the topology keep its settings, [node.transfer] changes one of them.
    let window = |label: &str| {
        let mut scenario = scenario.clone();
        scenario.node_mut(label).unwrap().psi_mut().transfer.window_initial_packets
    };
    assert_eq!(window("home"), 32);
    assert_ne!(window("n3"), 32);
}

#[test]
fn a_seed_from_outside_takes_the_place_of_the_files() {
    let path = examples().join("everything.toml");
    let other = ScenarioFile::load(&path, Some(8)).unwrap().scenario;
    assert_eq!(other.seed, 8);
    assert_ne!(other.links[5].ends, load("everything.toml").scenario.links[5].ends, "the generator follows the seed");
}

#[test]
fn the_formats_of_others_become_nodes_and_links() {
    let read = |file: &str| {
        let text = format!("topology = {{ file = \"data/{file}\", link = {{ rate = \"5Mbps\" }} }}\n");
        ScenarioFile::parse("s.toml", &text, &examples(), None).unwrap().scenario
    };
    let metro = read("metro.conf");
    let link = metro.link("east-south").unwrap();
    assert_eq!((link.forward.rate, link.forward.loss.clone()), (Some(Rate::from_mbps(20)), Loss::Bernoulli(0.005)));
    let annotated = read("annotated.txt");
    let link = annotated.link("middle-right").unwrap();
    assert_eq!(link.forward.delay, Duration::from_millis(10));
    assert!(matches!(link.forward.discipline, QueueDiscipline::Red(_)));
}

#[test]
fn a_link_of_the_topology_can_be_changed_and_a_series_is_read() {
    let text = "topology = { file = \"data/metro.conf\" }\n[[link]]\nends = [\"south\", \"east\"]\ndelay = \"50ms\"\n\
                [link.back]\nrate = \"1Mbps\"\n";
    let scenario = ScenarioFile::parse("s.toml", text, &examples(), None).unwrap().scenario;
    let link = scenario.link("east-south").unwrap();
    // The ends are swapped, so the first values are those of the way back; others are as in the file.
    assert_eq!((link.backward.delay, link.backward.rate), (Duration::from_millis(50), Some(Rate::from_mbps(20))));
    assert_eq!((link.forward.delay, link.forward.rate), (Duration::from_millis(4), Some(Rate::from_mbps(1))));

    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lte.csv"), "t_s,down\n0,10\n1,0\n2,5\n").unwrap();
    let text = "node = [{ label = \"a\" }, { label = \"b\" }]\n[[link]]\nends = [\"a\", \"b\"]\n\
                series = { file = \"lte.csv\", rate_mbps = \"down\" }\n";
    let scenario = ScenarioFile::parse("s.toml", text, folder.path(), None).unwrap().scenario;
    let script = scenario.links[0].forward.script.clone().unwrap();
    assert_eq!(script.steps()[1].1, LinkChange::Rate(Some(Rate::from_mbps(10))));
}

#[test]
fn what_is_wrong_is_told_with_line_and_hint() {
    let text = "\
[scenario]
sed = 3
[topology]
generate = \"grid\"
rows = 2
columns = 2
[[link]]
ends = [\"r0-c0\", \"r9-c9\"]
rate = \"fast\"
[[publish]]
node = \"r0-c0\"
name = \"/a\"
[[fetch]]
node = \"r0-c1\"
name = \"/b\"
[[fault]]
link = \"r0-c0-r0-c2\"
state = \"down\"
at = \"3s\"
until = \"2s\"
";
    let found = problems(text);
    for expected in [
        "s.toml:2:1: unknown key 'sed' in [scenario]",
        "  hint: did you mean 'seed'?",
        "s.toml:8:18: there is no node 'r9-c9'",
        "s.toml:9:8: 'rate': 'fast' is not a rate such as 800kbps, 10Mbps or 1.5Gbps",
        "s.toml:10:1: [publish] has no 'size'",
        "s.toml:15:8: there is no publication '/b'",
        "s.toml:17:8: there is no link 'r0-c0-r0-c2'",
        "s.toml:20:9: 'until' is 2.000000 s, but 'at' is 3.000000 s",
    ] {
        assert!(found.iter().any(|line| line == expected), "no '{expected}' in {found:#?}");
    }
}

#[test]
fn mistakes_in_files_that_are_named_are_told_with_both_lines() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("cell.trace"), "1\n5\n3\n").unwrap();
    let text =
        "node = [{ label = \"a\" }, { label = \"b\" }]\n[[link]]\nends = [\"a\", \"b\"]\ntrace = \"cell.trace\"\n";
    let error = ScenarioFile::parse("s.toml", text, folder.path(), None).unwrap_err().to_string();
    assert!(error.starts_with("s.toml:4:9: ") && error.contains("cell.trace:3: time goes back to 3 ms"), "{error}");
}

#[test]
fn a_wrong_file_of_others_is_one_mistake_and_none_follows_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        ("net.conf", "[nodes]\na: _\nb: _\n[links]\na:b bw=1\nb:c bw=1\n", "net.conf:6: the link names node 'c'"),
        ("net.graphml", "<graphml>\n<graph></graphml>", "net.graphml:2: this is not well-formed XML"),
        ("net.txt", "A B 1Mbps\n", "net.txt:1: there is no line 'router'"),
    ];
    for (name, content, expected) in files {
        std::fs::write(folder.path().join(name), content).unwrap();
        let text = format!(
            "[topology]\nfile = \"{name}\"\nresolvers = [\"a\"]\n[[link]]\nends = [\"a\", \"b\"]\n[[publish]]\n\
             node = \"a\"\nname = \"/f\"\nsize = \"1MB\"\n[[fetch]]\nnode = \"b\"\nname = \"/f\"\n\
             [random]\ntransfers = 3\n[[traffic]]\nfrom = \"a\"\nto = \"b\"\nrate = \"1Mbps\"\n\
             [[fault]]\nat = \"1s\"\nlink = \"a-b\"\nstate = \"down\"\n[[fault]]\nat = \"1s\"\nnode = \"b\"\n\
             action = \"kill\"\n"
        );
        match ScenarioFile::parse("s.toml", &text, folder.path(), None) {
            Err(FileError::Wrong(errors)) => {
                assert_eq!(errors.problems().len(), 1, "{errors}");
                assert!(errors.to_string().contains(expected), "{errors}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_two_ways_of_a_directed_link_have_rates_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let edge = |ends: &str, rate: u32| format!("<edge {ends}><data key='r'>{rate}</data></edge>");
    let graph = format!(
        "<graphml><key id='r' attr.name='LinkSpeedRaw'/><graph edgedefault='directed'><node id='a'/><node id='b'/>{}{}\
         </graph></graphml>",
        edge("source='a' target='b'", 10_000_000),
        edge("source='b' target='a'", 2_000_000)
    );
    std::fs::write(folder.path().join("net.graphml"), graph).unwrap();
    let text = "topology = { file = \"net.graphml\" }\n";
    let scenario = ScenarioFile::parse("s.toml", text, folder.path(), None).unwrap().scenario;
    let rates: Vec<_> = scenario.links.iter().map(|link| (link.forward.rate, link.backward.rate)).collect();
    assert_eq!(rates, [(Some(Rate::from_mbps(10)), Some(Rate::from_mbps(2)))]);
}

#[test]
fn settings_that_hold_for_all_nodes_are_complained_about_once() {
    let text = "topology = { generate = \"grid\", rows = 3, columns = 3 }\n[psi]\ncache_sice = \"1MiB\"\n";
    assert_eq!(problems(text)[..1], ["s.toml:3:1: unknown key 'cache_sice' in [psi]"]);
    assert_eq!(problems(text).len(), 2);
}

#[test]
fn an_empty_file_says_what_to_write() {
    assert!(problems("")[1].contains("name a file or a generator"), "{:?}", problems(""));
}
