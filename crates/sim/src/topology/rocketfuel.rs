//! Rocketfuel's `latencies.intra` and `weights.intra`: lines of two nodes and a number, usually one for each direction.
//!
//! Whole numbers and fractions are weights and milliseconds alike, so the number is kept as the metric and as the
//! delay in milliseconds; whoever reads weights gives links a delay of his own.
use std::collections::BTreeMap;
use tributary_core::Duration;

use super::{Edge, Topology, TopologyError, text};

/// Reads a file's content.
pub(super) fn parse(content: &str) -> Result<Topology, TopologyError> {
    let mut places = text::Places::default();
    let mut edges: Vec<Edge> = Vec::new();
    // Links that were told in one direction so far: (from, to, number as written) → how many.
    let mut one_way: BTreeMap<(usize, usize, &str), usize> = BTreeMap::new();
    for (line, text) in content.lines().enumerate().map(|(index, text)| (index + 1, text.trim())) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let [a, b, number] = words[..] else {
            return Err(TopologyError::at(line, "a line has two nodes and a number"));
        };
        let value = text::number(line, "latency or weight", number)?;
        let (a, b) = (places.meet(a), places.meet(b));
        if let Some(count) = one_way.get_mut(&(b, a, number)).filter(|count| **count > 0) {
            // The way back of a link that is known.
            *count -= 1;
            continue;
        }
        *one_way.entry((a, b, number)).or_default() += 1;
        let delay = Some(Duration::from_nanos((value * 1e6) as u64));
        edges.push(Edge { ends: [a, b], delay, metric: Some(value), ..Edge::default() });
    }
    Ok(Topology { places: places.places, edges, notes: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Format;

    #[test]
    fn both_directions_make_one_link() {
        let text = "Perth,+Australia1 Darwin2 15\nDarwin2 Perth,+Australia1 15\nDarwin2 Sydney3 2.5\n";
        let topology = Topology::parse("x", text, Format::Rocketfuel).expect("it is right");
        assert_eq!((topology.places.len(), topology.edges.len()), (3, 2));
        assert_eq!(topology.edges[1].delay, Some(Duration::from_micros(2_500)));
        let wrong = Topology::parse("x", "a b\n", Format::Rocketfuel).expect_err("wrong");
        assert_eq!(wrong.to_string(), "x:1: a line has two nodes and a number");
    }
}
