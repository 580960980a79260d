//! Published files of other projects. Most of them may not be shipped: the environment variable `TRIBUTARY_DATA` names
//! their folder; without it these tests pass without a check.
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use tributary::config::recordings::{mahimahi, series};
use tributary_core::{Datagram, Duration, Random, Time, link::*};
use tributary_lab::{
    contacts,
    topology::{Format, Topology},
};

fn data(folder: &str) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os("TRIBUTARY_DATA")?).join(folder);
    path.is_dir().then_some(path)
}
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.to_string_lossy().ends_with(ending)).collect();
    files.sort();
    assert!(!files.is_empty(), "{} holds files that end in {ending}", folder.display());
    files
}
/// The rows of an `INDEX.csv`, by the name of the file.
fn index(folder: &Path) -> BTreeMap<String, Vec<f64>> {
    let text = std::fs::read_to_string(folder.join("INDEX.csv")).unwrap();
    let row = |line: &str| {
        let mut cells = line.split(',');
        (cells.next().unwrap().to_string(), cells.map(|cell| cell.parse().unwrap()).collect())
    };
    text.lines().skip(1).map(row).collect()
}
fn file_name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn the_topology_zoo_has_the_sizes_of_its_index() {
    let Some(folder) = data("topology-zoo") else { return };
    let index = index(&folder);
    for path in files(&folder, ".graphml") {
        let topology = Topology::load(&path, None).unwrap();
        let (xml, row) = (std::fs::read_to_string(&path).unwrap(), &index[&file_name(&path)]);
        let located = topology.places.iter().filter(|place| place.location.is_some()).count();
        let rated = topology.edges.iter().filter(|edge| edge.forward.rate.is_some()).count();
        let loops = xml.matches("<edge ").count() - topology.edges.len();
        let found = [topology.places.len(), topology.edges.len() + loops, located, rated].map(|n| n as f64);
        assert_eq!(found[..], row[..], "{}", path.display());
        assert!(topology.largest_component().is_connected());
    }
}

#[test]
fn the_annotated_topologies_of_ndnsim_are_read() {
    let Some(folder) = data("ndnsim-topologies") else { return };
    let mut all = files(&folder, ".txt");
    all.extend(data("rocketfuel").into_iter().flat_map(|folder| files(&folder, "-annotated.txt")));
    for path in all {
        let topology = Topology::load(&path, None).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        // Counted without the parser: lines with content in front of and behind the word `link`.
        let lines: Vec<&str> =
            text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        let middle = lines.iter().position(|line| *line == "link").unwrap();
        assert_eq!(topology.places.len(), middle - 1, "{}", path.display());
        let is_loop = |line: &&&str| line.split_whitespace().next() == line.split_whitespace().nth(1);
        let links = lines[middle + 1..].iter().filter(|line| !is_loop(line)).count();
        assert_eq!(topology.edges.len(), links, "{}", path.display());
        assert!(topology.edges.iter().all(|edge| edge.forward.rate.is_some() && edge.forward.delay.is_some()));
    }
}

#[test]
fn the_configurations_of_mini_ndn_are_read() {
    let Some(folder) = data("minindn-topologies") else { return };
    for path in files(&folder, ".conf") {
        let topology = Topology::load(&path, None).unwrap();
        assert!(topology.places.len() >= 2, "{}", path.display());
        if !file_name(&path).contains("adhoc") {
            assert!(topology.is_connected(), "{}", path.display());
        }
    }
    let geant = Topology::load(&folder.join("geant.conf"), None).unwrap();
    assert!(geant.edges.iter().all(|edge| edge.forward.delay.is_some()));
}

#[test]
fn the_maps_of_rocketfuel_are_read() {
    let Some(folder) = data("rocketfuel") else { return };
    for path in files(&folder, ".intra") {
        let topology = Topology::load(&path, None).unwrap();
        let rows = std::fs::read_to_string(&path).unwrap().lines().count();
        assert_eq!(topology.edges.len() * 2, rows, "{}: every link is told both ways", path.display());
        assert!(topology.largest_component().places.len() > 50);
    }
    for path in files(&folder, ".cch") {
        let topology = Topology::load(&path, None).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(topology.places.len(), text.lines().filter(|line| !line.starts_with('-')).count());
        assert!(!topology.edges.is_empty());
    }
}

#[test]
fn a_link_lets_out_what_a_mahimahi_trace_says_to_the_packet() {
    let Some(folder) = data("mahimahi-traces") else { return };
    let index = index(&folder);
    for path in files(&folder, ".down").into_iter().chain(files(&folder, ".up")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let trace = mahimahi::parse(&path.display().to_string(), &text).unwrap();
        let row = &index[&file_name(&path)];
        assert_eq!(trace.len() as f64, row[0], "{}", path.display());
        let mbps = trace.rate_mean().mbps();
        assert!((mbps / row[1] - 1.0).abs() < 0.01, "{}: {mbps} instead of {}", path.display(), row[1]);
        // Always something to send, two rounds through the trace: exactly one packet leaves at each line's time.
        let times: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
        let last = *times.last().unwrap();
        let queue_bytes = u64::MAX;
        let mut link = Link::new(
            LinkConfig { delivery: Some(trace), queue_bytes, overhead_bytes: 28, ..LinkConfig::default() },
            Random::new(1, 1),
        );
        let payload = Datagram::from(vec![0; 1_472]);
        for _ in 0..times.len() * 2 {
            link.enqueue(Time::ZERO, payload.clone());
        }
        for ms in times.iter().copied().chain(times.iter().map(|ms| ms + last)) {
            let arrival = link.poll_arrival(Time::from_millis(2 * last)).map(|(time, _)| time);
            assert_eq!(arrival, Some(Time::from_millis(ms)), "{}", path.display());
        }
        assert_eq!(link.in_flight(), 0);
    }
}

#[test]
fn the_series_of_lte_and_starlink_are_read() {
    let columns = |rate: &str, delay: Option<&str>, only: Option<(&str, &str)>| series::Columns {
        time: "t_s".into(),
        rate: Some(rate.into()),
        delay: delay.map(str::to_string),
        only: only.map(|(name, text)| (name.into(), text.into())),
    };
    if let Some(folder) = data("lte-satcom") {
        let text = std::fs::read_to_string(folder.join("lte_leo_1s.csv")).unwrap();
        let script = series::parse("lte", &text, &columns("lte_down_mbps", Some("lte_latency_ms"), None)).unwrap();
        assert_eq!(script.period(), Some(Duration::from_secs(1_900)));
        let rates = script.steps().iter().filter_map(|(_, change)| match change {
            LinkChange::Rate(rate) => rate.map(|rate| rate.mbps()),
            _ => None,
        });
        let rates: Vec<f64> = rates.collect();
        let mean = rates.iter().sum::<f64>() / 1_900.0;
        assert!((mean - 24.4).abs() < 0.1, "{mean}");
    }
    if let Some(folder) = data("starlink-autobahn") {
        let text = std::fs::read_to_string(folder.join("throughput_1s.csv")).unwrap();
        let down: usize = (1..=13)
            .map(|ride| {
                let only = ride.to_string();
                let script = series::parse("x", &text, &columns("down_mbps", None, Some(("ride", &only)))).unwrap();
                script.steps().iter().filter(|(_, change)| *change == LinkChange::State(LinkState::Down)).count()
            })
            .sum();
        assert_eq!(down, 45, "the seconds without any throughput");
    }
}

#[test]
fn the_contacts_of_haggle_are_read() {
    let Some(folder) = data("contact-traces") else { return };
    for (file, nodes, days) in [("haggle-intel.tsv", 9, 4.16), ("haggle-cambridge-students.tsv", 36, 11.43)] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let contacts = contacts::parse(file, &text, Duration::ZERO).unwrap();
        assert_eq!(contacts.nodes.len(), nodes);
        assert!((contacts.duration.as_secs_f64() / 86_400.0 - days).abs() < 0.01, "{:?}", contacts.duration);
        // Counted without the parser: time between the first `up` and the next `down` of each pair.
        let (mut open, mut sum) = (BTreeMap::new(), 0.0);
        for line in text.lines() {
            let words: Vec<&str> = line.split('\t').collect();
            let (time, mut pair): (f64, _) = (words[0].parse().unwrap(), [words[2], words[3]]);
            pair.sort_unstable();
            if words[4] == "up" {
                open.entry(pair).or_insert(time);
            } else if let Some(since) = open.remove(&pair) {
                sum += time - since;
            }
        }
        sum += open.values().map(|since| contacts.duration.as_secs_f64() - since).sum::<f64>();
        assert!((contacts.contact_time().as_secs_f64() - sum).abs() < 1.0, "{file}");
    }
}

#[test]
fn a_format_may_be_named_when_the_name_of_the_file_tells_nothing() {
    let folder = tempfile_like("topology-format");
    let path = folder.join("net.dat");
    std::fs::write(&path, "a b 5\nb a 5\n").unwrap();
    assert!(Topology::load(&path, None).unwrap_err().to_string().contains("does not show its format"));
    assert_eq!(Topology::load(&path, Some(Format::Rocketfuel)).unwrap().edges.len(), 1);
    std::fs::remove_dir_all(folder).unwrap();
}

/// A folder of this process's own below the system's temporary one.
fn tempfile_like(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("tributary-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
