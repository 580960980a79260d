//! GraphML as the Internet Topology Zoo writes it (Knight et al., IEEE JSAC 29(9), 2011).
//!
//! Ids of keys differ from file to file, so data is found by `attr.name`. Delays come from latitude and longitude
//! where both ends have them, rates from `LinkSpeedRaw` (bits per second).
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::BTreeMap;
use tributary_core::{Location, Rate};

use super::{Edge, Topology, TopologyError, text};

/// Reads a file's content.
pub(super) fn parse(text: &str) -> Result<Topology, TopologyError> {
    let options = ParsingOptions { allow_dtd: false, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options)
        .map_err(|error| TopologyError::at(error.pos().row as usize, format!("this is not XML: {error}")))?;
    let line = |node: Node<'_, '_>| document.text_pos_at(node.range().start).row as usize;
    let keys: BTreeMap<(&str, &str), &str> = elements(document.root_element(), "key")
        .filter_map(|key| Some(((key.attribute("for")?, key.attribute("id")?), key.attribute("attr.name")?)))
        .collect();
    let Some(graph) = elements(document.root_element(), "graph").next() else {
        return Err(TopologyError::at(line(document.root_element()), "there is no <graph>"));
    };
    let mut places = text::Places::default();
    for node in elements(graph, "node") {
        let id = required(node, "id", line(node))?;
        let data = data(node, "node", &keys);
        let index = places.add(line(node), id, data.get("label").copied().unwrap_or(id))?;
        let degrees = |name: &str, max: f64| match data.get(name) {
            None => Ok(None),
            Some(degrees) => match degrees.parse::<f64>() {
                Ok(value) if value.abs() <= max => Ok(Some(value)),
                _ => Err(TopologyError::at(line(node), format!("{name} '{degrees}' is no angle up to {max}"))),
            },
        };
        let degrees = degrees("Latitude", 90.0)?.zip(degrees("Longitude", 180.0)?);
        places.places[index].location =
            degrees.and_then(|(latitude, longitude)| Location::from_degrees(latitude, longitude));
    }
    let mut edges = Vec::new();
    for edge in elements(graph, "edge") {
        let end = |name| places.known(line(edge), required(edge, name, line(edge))?);
        let data = data(edge, "edge", &keys);
        let rate = match data.get("LinkSpeedRaw") {
            None => None,
            Some(bits) => Some(text::number(line(edge), "LinkSpeedRaw", bits)?),
        };
        let rate = rate.filter(|bits| *bits > 0.0).map(|bits| Rate::from_bits_per_second(bits as u64));
        edges.push(Edge { ends: [end("source")?, end("target")?], rate, ..Edge::default() });
    }
    let mut topology = Topology { places: places.places, edges, notes: Vec::new() };
    topology.delays_from_locations();
    Ok(topology)
}

/// The largest documents of the collection have 30,000 nodes of XML.
const NODES_MAX: u32 = 10_000_000;

fn elements<'a, 'd: 'a>(parent: Node<'a, 'd>, name: &'static str) -> impl Iterator<Item = Node<'a, 'd>> {
    parent.children().filter(move |node| node.is_element() && node.tag_name().name() == name)
}
fn required<'a>(node: Node<'a, '_>, name: &str, line: usize) -> Result<&'a str, TopologyError> {
    let missing = || TopologyError::at(line, format!("<{}> has no '{name}'", node.tag_name().name()));
    node.attribute(name).ok_or_else(missing)
}
/// The data of a node or an edge, by the names that its keys stand for.
fn data<'a>(node: Node<'a, '_>, of: &str, keys: &BTreeMap<(&str, &str), &'a str>) -> BTreeMap<&'a str, &'a str> {
    let named = |data: Node<'a, '_>| {
        let id = data.attribute("key")?;
        let name = keys.get(&(of, id)).or_else(|| keys.get(&("all", id)))?;
        Some((*name, data.text()?.trim()))
    };
    elements(node, "data").filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Format;

    const FILE: &str = r#"<?xml version="1.0"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="LinkSpeedRaw" attr.type="double" for="edge" id="d1"/>
  <key attr.name="label" attr.type="string" for="node" id="d1"/>
  <key attr.name="Latitude" attr.type="double" for="node" id="d2"/>
  <key attr.name="Longitude" attr.type="double" for="node" id="d3"/>
  <graph edgedefault="undirected">
    <node id="0"><data key="d1">Berlin</data><data key="d2">52.52</data><data key="d3">13.405</data></node>
    <node id="1"><data key="d1">Nowhere</data></node>
    <node id="7"><data key="d1">Köln</data><data key="d2">50.94</data><data key="d3">6.96</data></node>
    <edge source="0" target="7"><data key="d1">10000000000.0</data></edge>
    <edge source="0" target="7"/>
    <edge source="1" target="1"/>
  </graph>
</graphml>"#;

    #[test]
    fn keys_are_resolved_by_what_they_are_for() {
        let topology = Topology::parse("x", FILE, Format::Graphml).expect("it is right");
        let names: Vec<_> = topology.places.iter().map(|place| place.name.as_str()).collect();
        assert_eq!(names, ["Berlin", "Nowhere", "Köln"]);
        assert_eq!(topology.edges.len(), 2, "parallel links are kept, loops are not");
        assert_eq!(topology.edges[0].rate, Some(Rate::from_mbps(10_000)));
        let ms = topology.edges[1].delay.expect("both have coordinates").as_secs_f64() * 1e3;
        assert!((ms - 477.0 / 200.0).abs() < 0.02, "{ms}");
    }

    #[test]
    fn errors_name_file_and_line() {
        let wrong = |from: &str, to: &str| {
            Topology::parse("x.graphml", &FILE.replace(from, to), Format::Graphml).expect_err("wrong").to_string()
        };
        let unknown = wrong("target=\"1\"", "target=\"5\"");
        assert_eq!(unknown, "x.graphml:13: the link names node '5', which is not among the nodes");
        assert_eq!(wrong("id=\"7\"", "id=\"1\""), "x.graphml:10: node '1' is there twice");
        assert_eq!(wrong("52.52", "95"), "x.graphml:8: Latitude '95' is no angle up to 90");
        assert!(wrong("</graph>", "").starts_with("x.graphml:15: this is not XML"), "{}", wrong("</graph>", ""));
    }
}
