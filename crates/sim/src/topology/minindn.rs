//! Mini-NDN's configuration.
//! ```text
//! [nodes]
//! a: _ radius=0.5 angle=2.6
//! [links]
//! a:b delay=10ms bw=10 loss=1 max_queue_size=100
//! ```
//! `bw` is in Mbit/s, `loss` in percent, the queue in packets. Switches, stations and access points are nodes like the
//! others; what only matters to a Wi-Fi simulator is left out.
use tributary_core::Rate;

use super::{Edge, Topology, TopologyError, text};

/// Reads a file's content.
pub(super) fn parse(content: &str) -> Result<Topology, TopologyError> {
    let mut section = Section::None;
    let mut places = text::Places::default();
    let (mut edges, mut notes) = (Vec::new(), Vec::new());
    for (line, text) in content.lines().enumerate().map(|(index, text)| (index + 1, text.trim())) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if let Some(name) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
            section = match name {
                "nodes" | "switches" | "stations" | "accessPoints" | "cars" => Section::Nodes,
                "links" => Section::Links,
                other => {
                    notes.push(format!("line {line}: section [{other}] left out"));
                    Section::Other
                }
            };
            continue;
        }
        match section {
            Section::Nodes => {
                let (name, _) = text.split_once(':').unwrap_or((text, ""));
                places.add(line, name.trim(), name.trim())?;
            }
            Section::Links => edges.push(link(line, text, &places)?),
            Section::Other => {}
            Section::None => {
                return Err(TopologyError::at(line, "the file has to begin with a section such as [nodes]"));
            }
        }
    }
    Ok(Topology { places: places.places, edges, notes })
}

enum Section {
    None,
    Nodes,
    Links,
    Other,
}

fn link(line: usize, text: &str, places: &text::Places) -> Result<Edge, TopologyError> {
    let mut words = text.split_whitespace();
    let names = words.next().and_then(|names| names.split_once(':'));
    let Some((a, b)) = names else { return Err(TopologyError::at(line, "a link begins with two names: a:b")) };
    let words: Vec<&str> = words.collect();
    let value = |key: &str| text::attribute(&words, key);
    let number = |key: &str| value(key).map(|text| text::number(line, key, text)).transpose();
    let loss = number("loss")?;
    if let Some(percent) = loss.filter(|percent| *percent > 100.0) {
        return Err(TopologyError::at(line, format!("loss is {percent} percent")));
    }
    Ok(Edge {
        ends: [places.known(line, a)?, places.known(line, b)?],
        rate: number("bw")?.map(|mbps| Rate::from_bits_per_second((mbps * 1e6) as u64)),
        delay: value("delay").map(|text| text::delay(line, text)).transpose()?,
        loss: loss.map(|percent| percent / 100.0),
        queue_packets: number("max_queue_size")?.map(|packets| packets as u64),
        ..Edge::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Format;
    use tributary_core::Duration;

    const FILE: &str = "[nodes]\na: _ radius=0.5\nb: _\n[switches]\ns1: _\n[mobility]\nx: y\n[links]\na:b delay=10ms bw=1.5 \
                        loss=1 max_queue_size=50\nb:s1 delay=2ms\n";

    #[test]
    fn a_link_has_what_its_line_says() {
        let topology = Topology::parse("t.conf", FILE, Format::Minindn).expect("it is right");
        assert_eq!((topology.places.len(), topology.notes.len()), (3, 1));
        let full = Edge {
            ends: [0, 1],
            rate: Some(Rate::from_bits_per_second(1_500_000)),
            delay: Some(Duration::from_millis(10)),
            loss: Some(0.01),
            queue_packets: Some(50),
            ..Edge::default()
        };
        assert_eq!(topology.edges[0], full);
        assert_eq!(topology.edges[1].ends, [1, 2]);
    }

    #[test]
    fn errors_name_file_and_line() {
        let wrong = |from: &str, to: &str| {
            Topology::parse("t.conf", &FILE.replace(from, to), Format::Minindn).expect_err("wrong").to_string()
        };
        assert_eq!(wrong("bw=1.5", "bw=fast"), "t.conf:9: bw 'fast' is no number of zero or more");
        assert_eq!(wrong("loss=1", "loss=101"), "t.conf:9: loss is 101 percent");
        assert_eq!(wrong("b:s1", "s1"), "t.conf:10: a link begins with two names: a:b");
        assert_eq!(wrong("[nodes]", ""), "t.conf:2: the file has to begin with a section such as [nodes]");
    }
}
