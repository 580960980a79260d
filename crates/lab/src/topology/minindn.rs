//! Mini-NDN's configuration.
//! ```text
//! [nodes]
//! a: _ radius=0.5 angle=2.6
//! [links]
//! a:b delay=10ms bw=10 loss=1 max_queue_size=100
//! ```
//! `bw` is in Mbit/s, `loss` in percent, the queue in packets, `delay` and `jitter` are as in tc(8), to which Mininet
//! passes them. Switches, stations and access points are nodes like the others; properties that only a Wi-Fi simulator
//! uses are left out.
//!
//! Mini-NDN reads by Python's `configparser.ConfigParser(delimiters=' ', allow_no_value=True)` (`minindn/minindn.py`,
//! `Minindn.processTopo`), and so does this:
//! - A line that starts with `#` or `;`, indented or not, is a comment. A `#` after a value is refused, as in Mini-NDN:
//!   a word without `=`.
//! - Text behind the `]` of a section is skipped. A duplicate section, node or link `a:b` is refused, also if only
//!   capitals differ; `b:a` next to `a:b` is a second link.
//! - A line indented deeper than the first one of an entry continues that entry. Mini-NDN cannot use the result, so it
//!   is refused.
//!
//! In addition, a byte-order mark, tabs and multiple spaces are accepted. Names keep their capitals, unlike in
//! `configparser`.
use std::collections::BTreeMap;

use super::{Edge, Topology, TopologyError, Way, text};

/// Reads a file's content.
pub(super) fn parse(content: &str) -> Result<Topology, TopologyError> {
    let mut section = Section::None;
    let mut entry_indent = None;
    let mut sections: BTreeMap<&str, usize> = BTreeMap::new();
    let mut links: BTreeMap<String, usize> = BTreeMap::new();
    let mut places = text::Places::default();
    let (mut edges, mut notes) = (text::Edges::default(), Vec::new());
    let mut unread: BTreeMap<String, usize> = BTreeMap::new();
    for (line, raw) in content.lines().enumerate().map(|(index, text)| (index + 1, text)) {
        let text = raw.trim();
        if text.is_empty() || text.starts_with(['#', ';']) {
            continue;
        }
        let indent = raw.len() - raw.trim_start().len();
        if entry_indent.is_some_and(|entry| indent > entry) {
            let message = "it is indented deeper than the line before, so it continues that one; take the spaces away";
            return Err(TopologyError::at(line, message));
        }
        if let Some((name, _)) = text.strip_prefix('[').and_then(|text| text.rsplit_once(']')) {
            if let Some(first) = sections.insert(name, line) {
                return Err(TopologyError::at(line, format!("section [{name}] occurs twice, first in line {first}")));
            }
            entry_indent = None;
            section = match name {
                "nodes" | "switches" | "stations" | "accessPoints" | "cars" => Section::Nodes,
                "links" => Section::Links,
                "DEFAULT" => {
                    let message = "[DEFAULT] is what Python's configparser adds to all sections; write it out in each";
                    return Err(TopologyError::at(line, message));
                }
                other => {
                    notes.push(format!("line {line}: section [{other}] left out"));
                    Section::Other
                }
            };
            continue;
        }
        entry_indent = Some(indent);
        match section {
            Section::Nodes => {
                let (name, _) = text.split_once(':').unwrap_or((text, ""));
                places.add(line, &name.trim().to_lowercase(), name.trim())?;
            }
            Section::Links => {
                let (names, edge, words) = link(line, text, &places)?;
                if let Some(first) = links.insert(names.to_lowercase(), line) {
                    return Err(TopologyError::at(line, format!("link '{names}' occurs twice, first in line {first}")));
                }
                for key in text::unread(&words, &KEYS) {
                    *unread.entry(key.into()).or_default() += 1;
                }
                edges.push(line, edge)?;
            }
            Section::Other => {}
            Section::None => {
                return Err(TopologyError::at(line, "the file must begin with a section such as [nodes]"));
            }
        }
    }
    if places.places.is_empty() {
        let message = "there is no node in it: a topology of Mini-NDN has a section [nodes]";
        return Err(TopologyError::at(content.lines().count().max(1), message));
    }
    notes.extend(unread.into_iter().map(|(key, times)| format!("{key} of {times} links left out")));
    Ok(Topology { places: places.places, edges: edges.finish().0, notes })
}

/// The properties of a link that are read.
const KEYS: [&str; 5] = ["bw", "delay", "jitter", "loss", "max_queue_size"];

enum Section {
    None,
    Nodes,
    Links,
    Other,
}

/// A link, its two names as they are written, and its parameters.
fn link<'a>(line: usize, text: &'a str, places: &text::Places) -> Result<(&'a str, Edge, Vec<&'a str>), TopologyError> {
    let mut words = text.split_whitespace();
    let names = words.next().unwrap_or_default();
    let Some((a, b)) = names.split_once(':') else {
        return Err(TopologyError::at(line, "a link begins with two names: a:b"));
    };
    let words: Vec<&str> = words.filter(|word| *word != "_").collect();
    if let Some(word) = words.iter().find(|word| !word.contains('=')) {
        let hint = if word.starts_with(['#', ';']) { "; comments have lines of their own" } else { "" };
        return Err(TopologyError::at(line, format!("'{word}' is no key=value{hint}")));
    }
    let value = |key: &str| text::attribute(&words, key);
    let number = |key: &str| value(key).map(|text| text::number(line, key, text)).transpose();
    let time = |key: &str| value(key).map(|text| text::tc_delay(line, key, text)).transpose();
    let loss = number("loss")?;
    if let Some(percent) = loss.filter(|percent| *percent > 100.0) {
        return Err(TopologyError::at(line, format!("loss is {percent} percent")));
    }
    let known = |name: &str| {
        let unknown = || TopologyError::at(line, format!("the link names node '{name}', which is not among the nodes"));
        places.find(&name.to_lowercase()).ok_or_else(unknown)
    };
    let forward = Way {
        rate: number("bw")?.map(|mbps| text::rate(line, "bw", mbps * 1e6)).transpose()?,
        delay: time("delay")?,
        jitter: time("jitter")?,
        loss: loss.map(|percent| percent / 100.0),
        queue_packets: value("max_queue_size").map(|text| text::integer(line, "max_queue_size", text)).transpose()?,
        ..Way::default()
    };
    let edge = Edge { ends: [known(a)?, known(b)?], forward, backward: None };
    Ok((names, edge, words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Format;
    use tributary_core::{Duration, Rate};

    const FILE: &str = "[nodes]\na: _ radius=0.5\nb: _\n[switches]\ns1: _\n[mobility]\nx: y\n[links]\na:b delay=10ms bw=1.5 \
                        loss=1 max_queue_size=50\nb:s1 delay=2ms\n";

    #[test]
    fn a_link_has_what_its_line_says() {
        let topology = Topology::parse("t.conf", FILE, Format::Minindn).expect("it is right");
        assert_eq!((topology.places.len(), topology.notes.len()), (3, 1));
        let full = Way {
            rate: Some(Rate::from_bits_per_second(1_500_000)),
            delay: Some(Duration::from_millis(10)),
            loss: Some(0.01),
            queue_packets: Some(50),
            ..Way::default()
        };
        assert_eq!(topology.edges[0], Edge { ends: [0, 1], forward: full, backward: None });
        assert_eq!(topology.edges[1].ends, [1, 2]);
    }

    #[test]
    fn errors_name_file_and_line() {
        let wrong = |from: &str, to: &str| {
            Topology::parse("t.conf", FILE.replace(from, to), Format::Minindn).expect_err("wrong").to_string()
        };
        assert_eq!(wrong("bw=1.5", "bw=fast"), "t.conf:9: bw 'fast' is no number of zero or more");
        assert_eq!(wrong("loss=1", "loss=101"), "t.conf:9: loss is 101 percent");
        assert_eq!(wrong("b:s1", "s1"), "t.conf:10: a link begins with two names: a:b");
        assert_eq!(wrong("[nodes]", ""), "t.conf:2: the file must begin with a section such as [nodes]");
    }
}
