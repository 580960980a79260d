//! ndnSIM's annotated topologies (`AnnotatedTopologyReader`).
//! ```text
//! router
//! # name   comment  yPos  xPos
//! link
//! # from   to   bandwidth  metric  delay  queue  [error model]
//! ```
//! As ndnSIM's own reader does (`utils/topology/annotated-topology-reader.cpp`):
//! - Text before the line `router` is skipped; `#` starts a comment line.
//! - Of a router only the name counts, and columns behind the error model are passed over. Only the two names of a link
//!   are required.
//! - A link `b a` is omitted after a link `a b`, with any properties; two links `a b` are parallel.
//! - A metric that is not a number is ignored: their reader keeps the word and reads it only to set metrics of IP.
//!
//! Units follow ns-3's `DataRate` and `Time`. The queue is a number of packets or a class of ns-3 with its attributes;
//! known are `ns3::DropTailQueue`, `ns3::RedQueue` and `ns3::CoDelQueue`. Of error models `ns3::RateErrorModel` is
//! known, with its rate in packets.
use std::collections::BTreeSet;
use tributary_core::link::{
    QueueDiscipline,
    queue::{codel::CoDelConfig, red::RedConfig},
};

use super::{Edge, Topology, TopologyError, Way, text};

/// Reads a file's content.
pub(super) fn parse(content: &str) -> Result<Topology, TopologyError> {
    let mut section = None;
    let mut places = text::Places::default();
    let mut edges = text::Edges::default();
    let (mut joined, mut repeated) = (BTreeSet::new(), 0);
    for (line, text) in content.lines().enumerate().map(|(index, text)| (index + 1, text.trim())) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        match (words.as_slice(), section) {
            (["router"], _) => section = Some(Section::Router),
            (["link"], Some(_)) => section = Some(Section::Link),
            ([name, ..], Some(Section::Router)) => {
                places.add(line, name, name)?;
            }
            ([a, b, rest @ ..], Some(Section::Link)) => {
                let ends = [places.known(line, a)?, places.known(line, b)?];
                let forward = way(line, rest)?;
                if joined.contains(&[ends[1], ends[0]]) {
                    repeated += 1;
                    continue;
                }
                joined.insert(ends);
                edges.push(line, Edge { ends, forward, backward: None })?;
            }
            ([_], Some(Section::Link)) => return Err(TopologyError::at(line, "a link needs two names")),
            ([] | [..], _) => {}
        }
    }
    if section.is_none() {
        let message = "there is no line 'router' in it, with which the nodes of an annotated topology begin";
        return Err(TopologyError::at(content.lines().count().max(1), message));
    }
    let notes = (repeated > 0).then(|| format!("{repeated} links left out that are the way back of another one"));
    Ok(Topology { places: places.places, edges: edges.finish().0, notes: notes.into_iter().collect() })
}

#[derive(Clone, Copy)]
enum Section {
    Router,
    Link,
}

fn way(line: usize, words: &[&str]) -> Result<Way, TopologyError> {
    let word = |index: usize| words.get(index).copied();
    let (queue_packets, discipline) = word(3).map(|word| queue(line, word)).transpose()?.unwrap_or_default();
    Ok(Way {
        rate: word(0).map(|word| text::ns3_rate(line, word)).transpose()?,
        metric: word(1).and_then(|word| text::number(line, "metric", word).ok()),
        delay: word(2).map(|word| text::ns3_delay(line, word)).transpose()?,
        jitter: None,
        queue_packets,
        discipline,
        loss: word(4).map(|word| error_model(line, word)).transpose()?,
    })
}

/// A number of packets, or a class with attributes in ns-3's words.
fn queue(line: usize, word: &str) -> Result<(Option<u64>, Option<QueueDiscipline>), TopologyError> {
    let mut words = word.split(',');
    // Newer releases of ns-3 append the type of the queue's items to the class.
    let class = words.next().unwrap_or_default().trim_end_matches("<Packet>");
    if !class.starts_with("ns3::") {
        return Ok((Some(text::integer(line, "queue", word)?), None));
    }
    let (mut limit, mut red) = (None, RedConfig::DEFAULT);
    for attribute in words {
        // Their reader skips attributes without a value.
        let Some((name, value)) = attribute.split_once('=') else { continue };
        if let ("MaxPackets" | "QueueLimit" | "MaxSize", packets) = (name, value.trim_end_matches('p')) {
            limit = Some(text::integer(line, name, packets)?);
            continue;
        }
        let number = text::number(line, name, value)?;
        match (class, name) {
            ("ns3::RedQueue", "MinTh") => red.threshold_min = number,
            ("ns3::RedQueue", "MaxTh") => red.threshold_max = number,
            ("ns3::RedQueue", "QW") => red.weight = number,
            ("ns3::RedQueue", "LInterm") if number >= 1.0 => red.probability_max = 1.0 / number,
            // It only affects how an idle queue ages, which follows from the rate here.
            ("ns3::RedQueue", "MeanPktSize") => {}
            _ => return Err(TopologyError::at(line, format!("{class} has no attribute '{name}' that is known here"))),
        }
    }
    if red.threshold_max <= red.threshold_min || red.weight <= 0.0 || red.weight > 1.0 {
        return Err(TopologyError::at(line, format!("the attributes of '{word}' contradict each other")));
    }
    let discipline = match class {
        "ns3::DropTailQueue" => QueueDiscipline::DropTail,
        "ns3::RedQueue" => QueueDiscipline::Red(red),
        "ns3::CoDelQueue" => QueueDiscipline::CoDel(CoDelConfig::DEFAULT),
        _ => return Err(TopologyError::at(line, format!("the queue '{class}' is not known here"))),
    };
    Ok((limit, Some(discipline)))
}

fn error_model(line: usize, text: &str) -> Result<f64, TopologyError> {
    let words: Vec<&str> = text.split(',').collect();
    // Without a unit ns-3 counts errors of bytes.
    let is_known = words.first() == Some(&"ns3::RateErrorModel")
        && text::attribute(&words, "ErrorUnit") == Some("ERROR_UNIT_PACKET");
    let rate = text::attribute(&words, "ErrorRate").filter(|_| is_known);
    match rate.map(|rate| text::number(line, "ErrorRate", rate)).transpose()? {
        Some(rate) if rate <= 1.0 => Ok(rate),
        _ => {
            let known = "ns3::RateErrorModel,ErrorUnit=ERROR_UNIT_PACKET,ErrorRate=(0 to 1)";
            Err(TopologyError::at(line, format!("error model '{text}' is not known here, only {known}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Format;
    use tributary_core::{Duration, Rate};

    const FILE: &str = "# a comment\nrouter\n\nA NA 1 2\nB NA 1 2\n\nlink\nA B 1Mbps 3 10ms 100 \
                        ns3::RateErrorModel,ErrorUnit=ERROR_UNIT_PACKET,ErrorRate=0.25\nB A\n";

    #[test]
    fn a_link_has_what_its_line_says() {
        let topology = Topology::parse("t.txt", FILE, Format::Ndnsim).expect("it is right");
        let full = Way {
            rate: Some(Rate::from_mbps(1)),
            delay: Some(Duration::from_millis(10)),
            loss: Some(0.25),
            queue_packets: Some(100),
            discipline: None,
            metric: Some(3.0),
            jitter: None,
        };
        assert_eq!(topology.edges, [Edge { ends: [0, 1], forward: full, backward: None }]);
        assert_eq!(topology.notes, ["1 links left out that are the way back of another one"]);
    }

    #[test]
    fn a_queue_may_be_a_class_of_ns3() {
        let read = |queue: &str| {
            let text = FILE.replace("10ms 100", &format!("10ms {queue}"));
            Topology::parse("t.txt", &text, Format::Ndnsim).map(|topology| topology.edges[0].forward.clone())
        };
        let red = read("ns3::RedQueue,MinTh=10,MaxTh=30,LInterm=50,QueueLimit=60,MeanPktSize=500").expect("right");
        let config =
            RedConfig { threshold_min: 10.0, threshold_max: 30.0, probability_max: 0.02, ..RedConfig::DEFAULT };
        assert_eq!((red.queue_packets, red.discipline), (Some(60), Some(QueueDiscipline::Red(config))));
        for wrong in ["ns3::FooQueue", "ns3::RedQueue,MinTh=20", "ns3::DropTailQueue,MinTh=1", "many"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn errors_name_file_and_line() {
        let wrong = |from: &str, to: &str| {
            Topology::parse("t.txt", FILE.replace(from, to), Format::Ndnsim).expect_err("wrong").to_string()
        };
        assert_eq!(wrong("1Mbps", "1Mb"), "t.txt:8: rate '1Mb' is no number with a known unit");
        assert_eq!(wrong("B A", "B C"), "t.txt:9: the link names node 'C', which is not among the nodes");
        assert_eq!(
            wrong("router", ""),
            "t.txt:9: there is no line 'router' in it, with which the nodes of an annotated topology begin"
        );
        assert!(wrong("0.25", "1.25").starts_with("t.txt:8: error model"));
    }
}
