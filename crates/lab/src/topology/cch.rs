//! Rocketfuel's maps.
//! ```text
//! uid @loc [+] [bb] (num_neigh) [&ext] -> <nuid> <nuid> … {-euid} … =name[!] rN
//! -euid =address rN
//! ```
//! Nodes are the lines with positive numbers; they are called by their place and number. Links to nodes that the file
//! does not hold, and to other networks, are left out, as ns-3's `RocketfuelTopologyReader` does; a link that either end
//! names is one link.
use std::collections::BTreeSet;

use super::{Edge, Topology, TopologyError, text};

/// Reads a file's content.
pub(super) fn parse(content: &str) -> Result<Topology, TopologyError> {
    let mut places = text::Places::default();
    let mut rows: Vec<(usize, Vec<&str>)> = Vec::new();
    let mut external = 0;
    for (line, text) in content.lines().enumerate().map(|(index, text)| (index + 1, text.trim())) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if text.starts_with('-') {
            external += 1;
            continue;
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let uid = words[0];
        if uid.is_empty() || !uid.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(TopologyError::at(line, format!("a line begins with the number of a node, not with '{uid}'")));
        }
        let Some(location) = words.get(1).and_then(|word| word.strip_prefix('@')) else {
            return Err(TopologyError::at(line, "behind the number stands @ and the place"));
        };
        if !words.contains(&"->") {
            return Err(TopologyError::at(line, "there is no '->' in front of the neighbours"));
        }
        let location = location.replace(",+", ",");
        let index = places.add(line, uid, &format!("{} {uid}", super::shortened(&location, LOCATION_BYTES_MAX)))?;
        let neighbours = words.iter().skip_while(|word| **word != "->").skip(1);
        let neighbours = neighbours.filter_map(|word| word.strip_prefix('<').and_then(|word| word.strip_suffix('>')));
        rows.push((index, neighbours.collect()));
    }
    let last_line = content.lines().count().max(1);
    let mut pairs = BTreeSet::new();
    let mut unknown = 0;
    for (index, neighbours) in rows {
        for uid in neighbours {
            match places.find(uid) {
                Some(other) => {
                    pairs.insert([index.min(other), index.max(other)]);
                }
                None => unknown += 1,
            }
        }
    }
    let mut notes = Vec::new();
    if external > 0 {
        notes.push(format!("{external} nodes of other networks left out"));
    }
    if unknown > 0 {
        notes.push(format!("{unknown} links to nodes that the file does not hold left out"));
    }
    let mut edges = text::Edges::default();
    for [a, b] in pairs {
        edges.push(last_line, Edge::between(a, b))?;
    }
    Ok(Topology { places: places.places, edges: edges.finish().0, notes })
}

/// So that the number always fits behind it.
const LOCATION_BYTES_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Format;

    const FILE: &str = "112 @Mumbai,+IN + bb\t(3) &5 -> <462> <463> <999> {-1}  =203.0.113.1 r0\n\
                        462 @Bangalore,+IN + \t(1) &1 -> <112>  =example.invalid! r0\n\
                        463 @? \t(1) -> <112>  =198.51.100.1 r1\n-1 =192.0.2.1 r2\n";

    #[test]
    fn links_between_nodes_of_the_file_are_kept() {
        let topology = Topology::parse("x.cch", FILE, Format::Cch).expect("it is right");
        let names: Vec<_> = topology.places.iter().map(|place| place.name.as_str()).collect();
        assert_eq!(names, ["Mumbai,IN 112", "Bangalore,IN 462", "? 463"]);
        assert_eq!(topology.edges.iter().map(|edge| edge.ends).collect::<Vec<_>>(), [[0, 1], [0, 2]]);
        assert_eq!(topology.notes.len(), 2);
        let wrong =
            |from, to| Topology::parse("x.cch", FILE.replace(from, to), Format::Cch).expect_err("wrong").to_string();
        assert_eq!(wrong("462 @", "abc @"), "x.cch:2: a line begins with the number of a node, not with 'abc'");
        assert_eq!(wrong("-> <112>  =1", "<112>  =1"), "x.cch:3: there is no '->' in front of the neighbours");
    }
}
