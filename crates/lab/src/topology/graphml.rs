//! GraphML, as the Internet Topology Zoo writes it (Knight et al., IEEE JSAC 29(9), 2011) and as others do.
//!
//! Ids of keys differ from file to file, so data is found by `attr.name`, ignoring case: `label` or `name`, `Latitude`,
//! `Longitude`, `LinkSpeedRaw` (bits per second). Delays come from latitude and longitude where both ends have them.
//!
//! The rules of the format's specification (GraphML 1.0, graphml.graphdrawing.org/specification.html; networkx's
//! `readwrite/graphml.py` and igraph's `foreign-graphml.c` read it so too):
//! - A key without `for` is for all elements; its `<default>` counts where an element has no value.
//! - The attribute `directed` of an edge, else `edgedefault` of its graph, decides whether it is directed. Edges a → b
//!   and b → a are the two ways of one link, each with its own rate; further ones are parallel links. All links here
//!   are bidirectional, so a directed edge without a reverse edge is read as a link in both directions, with a note.
//! - Nodes of nested graphs are ordinary nodes; a node that only groups them, without edges, is left out. Ports are
//!   points of a node and change nothing. A hyperedge is refused: a link has two ends.
//! - igraph writes NaN for numbers that an element does not have.
//!
//! The use of a value determines its type, not `attr.type`. Of several graphs in a file the first is read, as networkx
//! and igraph do.
use roxmltree::{Document, Error as XmlError, Node, ParsingOptions};
use std::collections::{BTreeMap, BTreeSet};
use tributary_core::Location;

use super::encoding;
use super::{Edge, Topology, TopologyError, Way, text};

/// The maximum number of elements, attributes and texts in a document; the largest of the Topology Zoo have 30,000.
pub const XML_NODES_MAX: u32 = 4_000_000;
/// How deep graphs may be nested.
pub const GRAPH_DEPTH_MAX: usize = 16;

/// Reads a file's content.
pub(super) fn parse(bytes: &[u8]) -> Result<Topology, TopologyError> {
    let text = encoding::xml(bytes)?;
    let text = without_doctype(&text)?;
    let options = ParsingOptions { allow_dtd: false, nodes_limit: XML_NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(&text, options).map_err(|error| not_xml(&error))?;
    let lines = Lines::of(&text);
    let root = document.root_element();
    if root.tag_name().name() != "graphml" {
        let message = format!("this is not GraphML: the root element is <{}>, not <graphml>", root.tag_name().name());
        return Err(TopologyError::at(lines.of_node(root), message));
    }
    let graphs: Vec<_> = elements(root, "graph").collect();
    let Some(graph) = graphs.first() else {
        return Err(TopologyError::at(lines.of_node(root), "there is no <graph>"));
    };
    let mut reader = Reader {
        keys: Keys::read(root, &lines)?,
        lines,
        places: text::Places::default(),
        edges: text::Edges::default(),
        graphs: Vec::new(),
        groups: BTreeSet::new(),
    };
    reader.nodes(*graph, 0)?;
    // An edge may be in another graph than its ends, so all nodes are read first.
    for graph in std::mem::take(&mut reader.graphs) {
        reader.edges(graph)?;
    }
    Ok(reader.finish(graphs.len() - 1))
}

struct Reader<'a, 'd> {
    keys: Keys<'a>,
    lines: Lines,
    places: text::Places,
    edges: text::Edges,
    graphs: Vec<Node<'a, 'd>>,
    /// Places that contain a nested graph.
    groups: BTreeSet<usize>,
}

impl<'a, 'd: 'a> Reader<'a, 'd> {
    fn nodes(&mut self, graph: Node<'a, 'd>, depth: usize) -> Result<(), TopologyError> {
        if depth > GRAPH_DEPTH_MAX {
            let message = format!("graphs are nested deeper than {GRAPH_DEPTH_MAX} levels");
            return Err(TopologyError::at(self.lines.of_node(graph), message));
        }
        self.graphs.push(graph);
        for node in elements(graph, "node") {
            let line = self.lines.of_node(node);
            let id = required(node, "id", line)?;
            let data = self.keys.data(node, "node", &self.lines)?;
            let name = ["label", "name"].into_iter().find_map(|name| data.get(name)).map_or(id, |(name, _)| name);
            let index = self.places.add(line, id, name)?;
            let degrees = |name: &str, max: f64| match data.get(&*name.to_ascii_lowercase()) {
                None => Ok(None),
                Some((degrees, line)) => match degrees.parse::<f64>() {
                    Ok(value) if value.is_nan() => Ok(None),
                    Ok(value) if value.abs() <= max => Ok(Some(value)),
                    _ => Err(TopologyError::at(*line, format!("{name} '{degrees}' is no angle up to {max}"))),
                },
            };
            let degrees = degrees("Latitude", 90.0)?.zip(degrees("Longitude", 180.0)?);
            self.places.places[index].location =
                degrees.and_then(|(latitude, longitude)| Location::from_degrees(latitude, longitude));
            for graph in elements(node, "graph") {
                self.groups.insert(index);
                self.nodes(graph, depth + 1)?;
            }
        }
        Ok(())
    }
    fn edges(&mut self, graph: Node<'a, 'd>) -> Result<(), TopologyError> {
        let line = |node| self.lines.of_node(node);
        if let Some(hyperedge) = elements(graph, "hyperedge").next() {
            let message =
                "a hyperedge joins any number of nodes, a link two: write it as edges, or as a node of its own";
            return Err(TopologyError::at(line(hyperedge), message));
        }
        let is_directed = match graph.attribute("edgedefault") {
            Some("directed") => true,
            // It is required; without it networkx and igraph read undirected edges.
            Some("undirected") | None => false,
            Some(other) => {
                let message = format!("edgedefault '{other}' is neither directed nor undirected");
                return Err(TopologyError::at(line(graph), message));
            }
        };
        for edge in elements(graph, "edge") {
            let line = self.lines.of_node(edge);
            let end = |name| self.places.known(line, required(edge, name, line)?);
            let ends = [end("source")?, end("target")?];
            let data = self.keys.data(edge, "edge", &self.lines)?;
            let mut way = Way::default();
            if let Some((bits, line)) = data.get("linkspeedraw").filter(|(bits, _)| !bits.eq_ignore_ascii_case("nan")) {
                let bits = text::number(*line, "LinkSpeedRaw", bits)?;
                // The Topology Zoo contains links without any property.
                way.rate =
                    Some(bits).filter(|bits| *bits >= 1.0).map(|bits| text::rate(*line, "", bits)).transpose()?;
            }
            let is_directed = match edge.attribute("directed") {
                None => is_directed,
                Some("true" | "1") => true,
                Some("false" | "0") => false,
                Some(other) => {
                    let message = format!("directed '{other}' is neither true nor false");
                    return Err(TopologyError::at(line, message));
                }
            };
            match is_directed {
                true => self.edges.push_way(line, ends, way)?,
                false => self.edges.push(line, Edge { ends, forward: way, backward: None })?,
            }
        }
        Ok(())
    }
    fn finish(self, other_graphs: usize) -> Topology {
        let (edges, one_way) = self.edges.finish();
        let mut notes = Vec::new();
        if one_way > 0 {
            notes.push(format!("{one_way} directed edges have no reverse edge; they are read as bidirectional links"));
        }
        if other_graphs > 0 {
            notes.push(format!("{other_graphs} more graphs of the file left out"));
        }
        let joined: BTreeSet<usize> = edges.iter().flat_map(|edge| edge.ends).collect();
        let groups: BTreeSet<usize> = self.groups.difference(&joined).copied().collect();
        let mut topology = Topology { places: self.places.places, edges, notes };
        if !groups.is_empty() {
            topology.notes.push(format!("{} nodes that only group others left out", groups.len()));
            topology.retain_places(|place| !groups.contains(&place));
        }
        topology.delays_from_locations();
        topology
    }
}

/// What `<key>` elements define.
struct Keys<'a> {
    /// Names in lower case, by a key's domain and its id. Ids should be unique in a file, but not all programs ensure
    /// it.
    names: BTreeMap<(&'a str, &'a str), String>,
    ids: BTreeSet<&'a str>,
    /// Defaults for elements without a value, with their lines, by the kind of element and the name.
    defaults: Vec<(&'a str, String, &'a str, usize)>,
}

impl<'a> Keys<'a> {
    fn read(root: Node<'a, '_>, lines: &Lines) -> Result<Keys<'a>, TopologyError> {
        let mut keys = Keys { names: BTreeMap::new(), ids: BTreeSet::new(), defaults: Vec::new() };
        for key in elements(root, "key") {
            let id = required(key, "id", lines.of_node(key))?;
            keys.ids.insert(id);
            // What yEd keeps for its own drawing has no name.
            let Some(name) = key.attribute("attr.name") else { continue };
            let (of, name) = (key.attribute("for").unwrap_or("all"), name.to_ascii_lowercase());
            if let Some(default) = elements(key, "default").next()
                && let Some(value) = value(default)
            {
                keys.defaults.push((of, name.clone(), value, lines.of_node(default)));
            }
            keys.names.insert((of, id), name);
        }
        Ok(keys)
    }
    /// Data of a node or an edge with their lines, by the names of their keys.
    fn data<'k>(
        &'k self,
        node: Node<'a, '_>,
        of: &'static str,
        lines: &Lines,
    ) -> Result<BTreeMap<&'k str, (&'a str, usize)>, TopologyError> {
        let defaults = self.defaults.iter().filter(|(key_of, ..)| [of, "all"].contains(key_of));
        let mut found: BTreeMap<&str, (&str, usize)> =
            defaults.map(|(_, name, value, line)| (name.as_str(), (*value, *line))).collect();
        for data in elements(node, "data") {
            let line = lines.of_node(data);
            let id = required(data, "key", line)?;
            if !self.ids.contains(id) {
                return Err(TopologyError::at(line, format!("there is no <key> '{id}'")));
            }
            let name = self.names.get(&(of, id)).or_else(|| self.names.get(&("all", id)));
            if let (Some(name), Some(value)) = (name, value(data)) {
                found.insert(name, (value, line));
            }
        }
        Ok(found)
    }
}

fn elements<'a, 'd: 'a>(parent: Node<'a, 'd>, name: &'static str) -> impl Iterator<Item = Node<'a, 'd>> {
    parent.children().filter(move |node| node.is_element() && node.tag_name().name() == name)
}
fn required<'a>(node: Node<'a, '_>, name: &str, line: usize) -> Result<&'a str, TopologyError> {
    let missing = || TopologyError::at(line, format!("<{}> has no '{name}'", node.tag_name().name()));
    node.attribute(name).ok_or_else(missing)
}
/// The text of an element, unless it is blank.
fn value<'a>(node: Node<'a, '_>) -> Option<&'a str> {
    node.text().map(str::trim).filter(|text| !text.is_empty())
}

/// The starts of lines.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Lines {
        Lines(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect())
    }
    fn of_node(&self, node: Node<'_, '_>) -> usize {
        self.0.partition_point(|end| *end < node.range().start) + 1
    }
}

fn not_xml(error: &XmlError) -> TopologyError {
    let message = match error {
        XmlError::NodesLimitReached => format!("it has more than {XML_NODES_MAX} elements, attributes and texts"),
        // The caller prints the position before the message.
        error => format!("this is not well-formed XML: {error}"),
    };
    TopologyError::at((error.pos().row as usize).max(1), message)
}

/// The text without the document type declaration that some programs write. A graph does not need it. A declaration
/// with entities is refused, because entities can expand a short document to any length.
fn without_doctype(text: &str) -> Result<std::borrow::Cow<'_, str>, TopologyError> {
    const DOCTYPE: &str = "<!DOCTYPE";
    let root = text.find("<graphml").unwrap_or(text.len());
    let Some(start) = text[..root].find(DOCTYPE) else { return Ok(text.into()) };
    let declaration = &text[start..root];
    let line = text[..start].matches('\n').count() + 1;
    match declaration.find(['>', '[']) {
        Some(end) if declaration[end..].starts_with('>') => {
            // What follows keeps its line.
            let lines = "\n".repeat(declaration[..end].matches('\n').count());
            Ok([&text[..start], &lines, &declaration[end + 1..], &text[root..]].concat().into())
        }
        _ => Err(TopologyError::at(line, "a document type with its own declarations is not read; remove it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Format;
    use tributary_core::Rate;

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
        assert_eq!(topology.edges[0].forward.rate, Some(Rate::from_mbps(10_000)));
        let ms = topology.edges[1].forward.delay.expect("both have coordinates").as_secs_f64() * 1e3;
        assert!((ms - 477.0 / 200.0).abs() < 0.02, "{ms}");
    }

    #[test]
    fn errors_name_file_and_line() {
        let wrong = |from: &str, to: &str| {
            Topology::parse("x.graphml", FILE.replace(from, to), Format::Graphml).expect_err("wrong").to_string()
        };
        let unknown = wrong("target=\"1\"", "target=\"5\"");
        assert_eq!(unknown, "x.graphml:13: the link names node '5', which is not among the nodes");
        assert_eq!(wrong("id=\"7\"", "id=\"1\""), "x.graphml:10: node '1' occurs twice");
        assert_eq!(wrong("52.52", "95"), "x.graphml:8: Latitude '95' is no angle up to 90");
        assert!(
            wrong("</graph>", "").starts_with("x.graphml:15: this is not well-formed XML"),
            "{}",
            wrong("</graph>", "")
        );
    }
}
