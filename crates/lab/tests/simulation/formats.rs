//! Files as other programs write them, with the expected values; Python's readers serve as oracles where they exist.
use proptest::prelude::*;
use std::process::Command;
use tributary::config::recordings::{self, mahimahi, series};
use tributary_core::{Duration, Rate};
use tributary_lab::{
    contacts,
    topology::{EDGES_MAX, Edge, Format, PLACES_MAX, Topology, Way},
};

fn graphml(keys: &str, graph: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?>\n<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n{keys}\n{graph}\n</graphml>\n"
    )
}
const RATE_KEY: &str = "<key id='r' for='edge' attr.name='LinkSpeedRaw' attr.type='double'/>";
const TWO_NODES: &str = "<node id='a'/><node id='b'/>";

fn read(text: &str) -> Topology {
    Topology::parse("x.graphml", text, Format::Graphml).unwrap_or_else(|error| panic!("{error}\n{text}"))
}
fn refused(text: &str) -> String {
    Topology::parse("x.graphml", text, Format::Graphml).expect_err("it is wrong").to_string()
}
fn names(topology: &Topology) -> Vec<&str> {
    topology.places.iter().map(|place| place.name.as_str()).collect()
}
fn mbps(edge: &Edge) -> [Option<u64>; 2] {
    [&edge.forward, edge.way_back()].map(|way| way.rate.map(|rate| rate.bits_per_second() / 1_000_000))
}

#[test]
fn directed_edges_are_the_two_ways_of_one_link() {
    let edge = |from: char, to: char, mbps: u64| {
        format!("<edge source='{from}' target='{to}'><data key='r'>{mbps}000000</data></edge>\n")
    };
    let with = |default: &str, edges: &[String]| {
        read(&graphml(RATE_KEY, &format!("<graph edgedefault='{default}'>{TWO_NODES}{}</graph>", edges.concat())))
    };
    let topology = with("directed", &[edge('a', 'b', 10), edge('b', 'a', 2)]);
    assert_eq!(topology.edges.iter().map(mbps).collect::<Vec<_>>(), [[Some(10), Some(2)]]);
    assert_eq!(topology.notes, Vec::<String>::new());
    let parallel = [edge('a', 'b', 10), edge('a', 'b', 20), edge('b', 'a', 1), edge('b', 'a', 2), edge('b', 'a', 3)];
    let topology = with("directed", &parallel);
    assert_eq!(
        topology.edges.iter().map(mbps).collect::<Vec<_>>(),
        [[Some(10), Some(1)], [Some(20), Some(2)], [Some(3), Some(3)]]
    );
    assert_eq!(topology.edges[2].ends, [1, 0]);
    assert!(topology.notes[0].starts_with("1 directed edges have no reverse edge"), "{:?}", topology.notes);
    let topology = with("undirected", &[edge('a', 'b', 10), edge('b', 'a', 2)]);
    assert_eq!(topology.edges.iter().map(mbps).collect::<Vec<_>>(), [[Some(10); 2], [Some(2); 2]], "parallel links");
    let mixed = [edge('a', 'b', 10), edge('b', 'a', 2).replace("<edge", "<edge directed='false'"), edge('b', 'a', 3)];
    let topology = with("directed", &mixed);
    assert_eq!(topology.edges.iter().map(mbps).collect::<Vec<_>>(), [[Some(10), Some(3)], [Some(2); 2]]);
}

#[test]
fn keys_are_for_all_and_have_defaults_as_the_format_defines() {
    let keys = "<key id='n' attr.name='label'/><key id='r' attr.name='LinkSpeedRaw'><default>5000000</default></key>\
                <key id='lat' for='node' attr.name='latitude'><default>10</default></key>\
                <key id='lon' for='node' attr.name='longitude'><default>20</default></key><key id='y' yfiles.type='nodegraphics'/>";
    let graph = "<graph edgedefault='undirected'><node id='a'><data key='n'>Ann</data><data key='lat'>nan</data></node>\
                 <node id='b'><data key='y'><y:ShapeNode xmlns:y='yed'/></data></node>\
                 <edge source='a' target='b'/><edge source='a' target='b'><data key='r'>7e6</data></edge>\
                 <edge source='a' target='b'><data key='r'>0</data></edge></graph>";
    let topology = read(&graphml(keys, graph));
    assert_eq!(names(&topology), ["Ann", "b"]);
    assert_eq!(topology.edges.iter().map(|edge| mbps(edge)[0]).collect::<Vec<_>>(), [Some(5), Some(7), None]);
    assert!(topology.places[0].location.is_none(), "NaN is no latitude");
    assert_eq!(topology.places[1].location.map(|place| place.degrees()), Some((10.0, 20.0)));
}

#[test]
fn nested_graphs_and_ports_are_read_and_hyperedges_refused() {
    let graph = "<graph edgedefault='undirected'><node id='g'><graph id='g:' edgedefault='undirected'><node id='a'/>\n\
                 <node id='b'><port name='p'/></node><edge source='a' target='b' sourceport='p'/></graph></node><node id='c'/>\
                 <edge source='b' target='c'/></graph><graph edgedefault='directed'/>";
    let topology = read(&graphml("", graph));
    assert_eq!((names(&topology), topology.is_connected()), (vec!["a", "b", "c"], true));
    assert_eq!(topology.notes, ["1 more graphs of the file left out", "1 nodes that only group others left out"]);
    let joined = graph.replace("source='b' target='c'", "source='g' target='c'");
    assert_eq!(names(&read(&graphml("", &joined))).len(), 4, "a group that is joined itself is a node");
    let hyper = graph.replace("<node id='c'/>", "<node id='c'/>\n<hyperedge><endpoint node='a'/></hyperedge>");
    assert!(
        refused(&graphml("", &hyper)).starts_with("x.graphml:6: a hyperedge joins"),
        "{}",
        refused(&graphml("", &hyper))
    );
    let deep = "<graph><node id='{}'>".repeat(40) + &"</node></graph>".repeat(40);
    let deep = deep
        .split("{}")
        .enumerate()
        .map(|(n, part)| format!("{}{part}", if n > 0 { n.to_string() } else { String::new() }));
    assert!(refused(&graphml("", &deep.collect::<String>())).contains("deeper than 16 levels"));
}

#[test]
fn what_is_wrong_with_graphml_is_told_once_and_where() {
    let graph = format!("<graph edgedefault='undirected'>{TWO_NODES}\n<edge source='a' target='b'/></graph>");
    let wrong = |from: &str, to: &str| refused(&graphml(RATE_KEY, &graph).replace(from, to));
    assert_eq!(wrong("='undirected'", "='both'"), "x.graphml:4: edgedefault 'both' is neither directed nor undirected");
    assert_eq!(wrong("<edge", "<edge directed='no'"), "x.graphml:5: directed 'no' is neither true nor false");
    let unknown = wrong("target='b'/>", "target='b'><data key='x'>1</data></edge>");
    assert_eq!(unknown, "x.graphml:5: there is no <key> 'x'");
    let fast = wrong("target='b'/>", "target='b'>\n<data key='r'>fast</data></edge>");
    assert_eq!(fast, "x.graphml:6: LinkSpeedRaw 'fast' is no number of zero or more");
    assert_eq!(wrong("graphml", "gml"), "x.graphml:2: this is not GraphML: the root element is <gml>, not <graphml>");
    let with_type = |declaration: &str| graphml(RATE_KEY, &graph).replace("?>", &format!("?>\n{declaration}\n"));
    assert_eq!(read(&with_type("<!DOCTYPE graphml SYSTEM\n'graphml.dtd'>")).edges.len(), 1);
    let entities = refused(&with_type("<!DOCTYPE graphml [<!ENTITY a 'aaaa'>]>"));
    assert!(entities.starts_with("x.graphml:2: a document type with its own declarations"), "{entities}");
}

#[test]
fn graphml_is_read_in_its_own_encoding() {
    let text = "<?xml version='1.0' encoding='LABEL'?><graphml><key id='n' for='node' attr.name='label'/>\
                <graph edgedefault='undirected'><node id='1'><data key='n'>Köln</data></node></graph></graphml>";
    let latin = |label: &str| {
        text.replace("LABEL", label).chars().map(|c| u8::try_from(u32::from(c)).expect("Latin-1")).collect::<Vec<u8>>()
    };
    let utf16: Vec<u8> =
        [0xfeff].into_iter().chain(text.replace("LABEL", "UTF-16").encode_utf16()).flat_map(u16::to_le_bytes).collect();
    for bytes in
        [latin("ISO-8859-1"), latin("iso-8859-15"), latin("windows-1252"), utf16, text.replace("LABEL", "utf-8").into()]
    {
        let topology = Topology::parse("x", &bytes, Format::Graphml).expect("it is right");
        assert_eq!(names(&topology), ["Köln"]);
    }
    let wrong = Topology::parse("x.graphml", latin("utf-8"), Format::Graphml).expect_err("it is Latin-1");
    assert_eq!(wrong.to_string(), "x.graphml:1: a byte is no UTF-8");
}

/// What Mini-NDN's own reader does with a file (`Minindn.processTopo`): the names of nodes and links, or nothing.
const PROCESS_TOPO: &str = r#"
import configparser, sys
def read(text):
    config = configparser.ConfigParser(delimiters=' ', allow_no_value=True)
    config.read_string(text)
    out = []
    for section in ('nodes', 'switches'):
        if section == 'nodes' or config.has_section(section):
            for item in config.items(section):
                if section == 'nodes' and item[1]:
                    [p.split('=')[1] for p in item[1].split(' ') if p != '_']
                out.append(item[0].split(':')[0])
    names = set(out)
    assert len(names) == len(out)
    for item in config.items('links'):
        a, b = item[0].split(':')[:2]
        assert a in names and b in names
        for param in item[1].split(' '):
            key, value = param.split('=')[0], param.split('=')[1]
            if key in ('loss', 'bw'): float(value)
            if key == 'max_queue_size': int(value)
        out.append(a + '>' + b)
    return ' '.join(out)
for text in sys.stdin.read().split('\0'):
    try: print(read(text))
    except Exception as error: print('!')
"#;

const MININDN: &str = "# made by hand\n[nodes] ; first\nAlpha: _ radius=1 angle=2\n; ----\nbeta: _\n\n  # indented\nC3: _\n\
                       [switches]\ns1: _\n[links]\nalpha:beta delay=10ms bw=10\nBeta:alpha delay=10ms bw=5 loss=1\n; ----\n\
                       beta:s1 delay=1ms max_queue_size=100\n[faces]\nalpha:beta cost=7\n";

#[test]
fn mini_ndn_files_are_read_as_python_reads_them() {
    let swap = |from: &str, to: &str| {
        assert!(MININDN.contains(from), "{from}");
        MININDN.replacen(from, to, 1)
    };
    let files = [
        MININDN.to_string(),
        MININDN.replace('\n', "\r\n"),
        swap("[nodes]", ""),
        swap("[switches]", "[nodes]"),
        swap("C3: _", "BETA: _"),
        swap("C3: _", "  C3: _"),
        swap("beta:s1", "ALPHA:BETA"),
        swap("beta:s1", "beta:s2"),
        swap("beta:s1", "beta"),
        swap("loss=1", "loss=1 # lossy"),
        swap("loss=1", "loss=high"),
        swap("max_queue_size=100", "max_queue_size=many"),
        swap("; ----\nbeta:s1", "  ; ----\nbeta:s1"),
        swap("s1: _", "s1"),
        swap("s1: _", "beta: _"),
    ];
    let Ok(mut python) = Command::new("python3")
        .args(["-c", PROCESS_TOPO])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
    else {
        return;
    };
    std::io::Write::write_all(&mut python.stdin.take().expect("it is piped"), files.join("\0").as_bytes())
        .expect("it reads");
    let output = python.wait_with_output().expect("it ends");
    let theirs = String::from_utf8(output.stdout).expect("it writes UTF-8");
    assert_eq!(theirs.lines().count(), files.len(), "{theirs}");
    for (file, theirs) in files.iter().zip(theirs.lines()) {
        let ours = match Topology::parse("x.conf", file, Format::Minindn) {
            Ok(topology) => {
                let mut words: Vec<String> = names(&topology).into_iter().map(str::to_lowercase).collect();
                let links: Vec<_> =
                    topology.edges.iter().map(|edge| edge.ends.map(|end| words[end].clone()).join(">")).collect();
                words.extend(links);
                words.join(" ")
            }
            Err(_) => "!".into(),
        };
        assert_eq!(ours, theirs, "{file}");
    }
}

#[test]
fn networkx_reads_the_same_graph() {
    const NETWORKX: &str = "import sys, networkx\n\
        g = networkx.parse_graphml(sys.stdin.read(), force_multigraph=True)\n\
        print(' '.join(d['label'] for _, d in g.nodes(data=True)))\n\
        print(' '.join(sorted(str(int(d['LinkSpeedRaw'])) for *_, d in g.edges(data=True))))\n";
    let keys = "<key id='n' for='node' attr.name='label' attr.type='string'/>".to_string() + RATE_KEY;
    let graph = "<graph edgedefault='undirected'><node id='1'><data key='n'>a</data></node><node id='2'><data key='n'>b</data></node>\
                 <edge source='1' target='2'><data key='r'>1000.0</data></edge><edge source='2' target='1'><data key='r'>2000</data></edge></graph>";
    let text = graphml(&keys, graph);
    let child = Command::new("python3")
        .args(["-c", NETWORKX])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn();
    let Ok(mut python) = child else { return };
    // Without networkx it ends before it reads.
    let _ = std::io::Write::write_all(&mut python.stdin.take().expect("it is piped"), text.as_bytes());
    let output = python.wait_with_output().expect("it ends");
    if !output.status.success() {
        return;
    }
    let topology = read(&text);
    let mut rates: Vec<_> =
        topology.edges.iter().filter_map(|edge| edge.forward.rate).map(Rate::bits_per_second).collect();
    rates.sort_unstable();
    let rates: Vec<String> = rates.iter().map(u64::to_string).collect();
    let ours = format!("{}\n{}\n", names(&topology).join(" "), rates.join(" "));
    assert_eq!(ours, String::from_utf8(output.stdout).expect("it writes UTF-8"));
}

const NDNSIM: &str = "what stands here is passed over\nrouter\n# node comment y x system more\nA NA 1 2 0 x\nB NA 1 2\nC\n\nlink\n\
                      # from to rate metric delay queue error more\nA B 1Mbps NA 10ms 20 ns3::RateErrorModel,ErrorUnit=ERROR_UNIT_PACKET,ErrorRate=0.5 x\n\
                      B A 2Mbps 1 10ms\nA B 3MB/s 1 1\nB C\n";

#[test]
fn annotated_topologies_are_read_as_ndnsim_reads_them() {
    let topology = Topology::parse("x.txt", NDNSIM.replace('\n', "\r\n"), Format::Ndnsim).expect("it is right");
    let ends: Vec<_> = topology.edges.iter().map(|edge| edge.ends).collect();
    assert_eq!(ends, [[0, 1], [0, 1], [1, 2]], "the way back is left out, a parallel link is not");
    let way = |edge: usize| &topology.edges[edge].forward;
    assert_eq!((way(0).metric, way(0).queue_packets, way(0).loss), (None, Some(20), Some(0.5)));
    assert_eq!((way(1).rate, way(1).delay), (Some(Rate::from_mbps(24)), Some(Duration::from_secs(1))));
    assert_eq!(way(2), &Way::default());
}

const WEIGHTS: &str = "A B 5\nB A 7\nA B 7\nB A 9\nB C\nC B 1\n# end\n";

#[test]
fn each_way_of_a_link_of_rocketfuel_has_its_own_number() {
    let topology = Topology::parse("x.intra", WEIGHTS, Format::Rocketfuel).expect("it is right");
    let metrics: Vec<_> =
        topology.edges.iter().map(|edge| [&edge.forward, edge.way_back()].map(|way| way.metric)).collect();
    assert_eq!(metrics, [[Some(5.0), Some(9.0)], [Some(7.0); 2], [Some(1.0); 2]], "equal numbers belong together");
}

#[test]
fn one_more_node_or_link_than_the_limit_is_refused() {
    let nodes = |count: usize| format!("[nodes]\n{}", (0..count).map(|n| format!("n{n}: _\n")).collect::<String>());
    assert_eq!(Topology::parse("x", nodes(PLACES_MAX), Format::Minindn).map(|it| it.places.len()), Ok(PLACES_MAX));
    let error = Topology::parse("x", nodes(PLACES_MAX + 1), Format::Minindn).expect_err("one more");
    assert_eq!((error.line, error.message), (PLACES_MAX + 2, format!("a topology has at most {PLACES_MAX} nodes")));
    let links = |count: usize| "a b\n".repeat(count);
    assert!(Topology::parse("x", links(EDGES_MAX), Format::Rocketfuel).is_ok());
    assert!(Topology::parse("x", links(EDGES_MAX + 1), Format::Rocketfuel).is_err());
    // As many nodes of one name as there may be take no longer than others.
    let same = (0..20_000).map(|n| format!("<node id='{n}'><data key='n'>same</data></node>")).collect::<String>();
    let same =
        graphml("<key id='n' for='node' attr.name='label'/>", &format!("<graph edgedefault='directed'>{same}</graph>"));
    assert_eq!(read(&same).places[19_999].name, "same-20000");
}

const CCH: &str = "112 @Mumbai,+IN + bb\t(3) &5 -> <462> <463> {-1}  =203.0.113.1 r0\n462 @? \t(1) -> <112>  =x! r0\n-1 =192.0.2.1 r2\n";
const CONTACTS: &str = "# one\n0 CONN a b up\n5 C M1 a b 100\n9 CONN a b down x\n";
const HAGGLE: &str = "1 7 10 25 1 0\n7 1 20 30 1 0\n";
const SERIES: &str = "t_s,\"down, mbps\",ms\n0,5,1\n1,0,2\n";

/// Every reader on these bytes: a result or one error with a line of the file.
fn read_all(bytes: &[u8]) {
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
    for (_, format) in Format::ALL {
        match Topology::parse("x", bytes, format) {
            Ok(topology) => {
                let count = topology.places.len();
                assert!(topology.places.iter().all(|place| (1..=32).contains(&place.name.len())));
                assert!(
                    topology
                        .edges
                        .iter()
                        .all(|edge| edge.ends[0] != edge.ends[1] && edge.ends.iter().all(|end| *end < count))
                );
            }
            // In UTF-16 the end of a line may hide in other bytes.
            Err(error) => {
                assert!((1..=lines.max(bytes.len())).contains(&error.line) && !error.message.is_empty(), "{error}")
            }
        }
    }
    let Ok(text) = recordings::text("x", bytes) else { return };
    let columns =
        series::Columns { time: "t_s".into(), rate: Some("down, mbps".into()), delay: Some("ms".into()), only: None };
    let _ = series::parse("x", &text, &columns);
    let _ = mahimahi::parse("x", &text);
    let _ = contacts::parse("x", &text, Duration::ZERO);
}

fn corpus() -> Vec<Vec<u8>> {
    let graph = format!(
        "<graph edgedefault='directed'>{TWO_NODES}<edge source='a' target='b'><data key='r'>1</data></edge></graph>"
    );
    let graphml = graphml(RATE_KEY, &graph);
    let texts = [MININDN, NDNSIM, WEIGHTS, CCH, CONTACTS, HAGGLE, SERIES, "1\n1\n5\n", &graphml];
    let mut files: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    files.push([0xfeff].into_iter().chain(graphml.encode_utf16()).flat_map(u16::to_be_bytes).collect());
    files
}

proptest! {
    #[test]
    fn any_bytes_give_a_result_or_one_error(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        read_all(&bytes);
    }

    #[test]
    fn files_that_are_cut_changed_or_mixed_give_a_result_or_one_error(
        file in 0..10_usize,
        other in 0..10_usize,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let files = corpus();
        let mut bytes = files[file].clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        bytes.extend_from_slice(&files[other]);
        read_all(&bytes);
    }
}
