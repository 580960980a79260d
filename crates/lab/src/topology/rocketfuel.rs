//! Rocketfuel's `latencies.intra` and `weights.intra`: lines of two nodes and a number, usually one for each direction.
//!
//! Weights and milliseconds look alike, so the number is kept as the metric and as the delay in milliseconds; a
//! scenario over weights sets its own delays.
//!
//! As in ndnSIM's `rocketfuel-weights-reader.cpp`, a line without a number has 1, and text after the number is ignored.
//! Lines `a b` and `b a` are the two ways of one link: those with equal numbers first, then the others in their order.
//! ndnSIM's reader drops the number of the way back; here each way keeps its own, as routers do.
use std::collections::{BTreeMap, VecDeque};
use tributary_core::Duration;

use super::{Topology, TopologyError, Way, text};

/// Reads a file's content.
pub(super) fn parse(content: &str) -> Result<Topology, TopologyError> {
    let mut places = text::Places::default();
    let mut rows: Vec<Row<'_>> = Vec::new();
    for (line, text) in content.lines().enumerate().map(|(index, text)| (index + 1, text.trim())) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let mut words = text.split_whitespace();
        let (Some(a), Some(b)) = (words.next(), words.next()) else {
            return Err(TopologyError::at(line, "a line has two nodes and a number"));
        };
        let number = words.next().unwrap_or("1");
        let value = text::number(line, "latency or weight", number)?;
        if value > NUMBER_MAX {
            return Err(TopologyError::at(line, format!("latency or weight {number} is beyond {NUMBER_MAX}")));
        }
        rows.push(Row { line, ends: [places.meet(line, a)?, places.meet(line, b)?], number, value, is_back: false });
    }
    // Rows whose reverse has not been found yet, by their ends and number.
    let mut waiting: BTreeMap<([usize; 2], &str), VecDeque<usize>> = BTreeMap::new();
    let mut pairs: BTreeMap<usize, usize> = BTreeMap::new();
    for (index, row) in rows.iter_mut().enumerate() {
        let ([a, b], number) = (row.ends, row.number);
        match waiting.get_mut(&([b, a], number)).filter(|_| a != b).and_then(VecDeque::pop_front) {
            Some(first) => {
                row.is_back = true;
                pairs.insert(first, index);
            }
            None => waiting.entry(([a, b], number)).or_default().push_back(index),
        }
    }
    let mut edges = text::Edges::default();
    for (index, row) in rows.iter().enumerate().filter(|(_, row)| !row.is_back) {
        let delay = Some(Duration::from_nanos((row.value * 1e6) as u64));
        let way = Way { delay, metric: Some(row.value), ..Way::default() };
        match pairs.contains_key(&index) {
            true => edges.push(row.line, super::Edge { ends: row.ends, forward: way, backward: None })?,
            false => edges.push_way(row.line, row.ends, way)?,
        }
    }
    Ok(Topology { places: places.places, edges: edges.finish().0, notes: Vec::new() })
}

struct Row<'a> {
    line: usize,
    ends: [usize; 2],
    number: &'a str,
    value: f64,
    /// Whether it is the reverse of an earlier row with the same number.
    is_back: bool,
}

/// As milliseconds, more than eleven days.
const NUMBER_MAX: f64 = 1e9;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Format;

    #[test]
    fn both_directions_make_one_link() {
        let text = "Perth,+Australia1 Darwin2 15\nDarwin2 Perth,+Australia1 15\nDarwin2 Sydney3 2.5\n";
        let topology = Topology::parse("x", text, Format::Rocketfuel).expect("it is right");
        assert_eq!((topology.places.len(), topology.edges.len()), (3, 2));
        assert_eq!(topology.edges[1].forward.delay, Some(Duration::from_micros(2_500)));
        let wrong = Topology::parse("x", "a\n", Format::Rocketfuel).expect_err("wrong");
        assert_eq!(wrong.to_string(), "x:1: a line has two nodes and a number");
    }
}
