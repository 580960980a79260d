//! Shared by the formats: names to places, links with both directions, values with units.
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tributary_core::{Duration, Rate};

use super::{EDGES_MAX, Edge, PLACES_MAX, Place, TopologyError, Way};

/// Places by their names in the file.
#[derive(Default)]
pub(super) struct Places {
    pub(super) places: Vec<Place>,
    indices: BTreeMap<String, usize>,
}

impl Places {
    /// Adds a place that must be new.
    pub(super) fn add(&mut self, line: usize, key: &str, name: &str) -> Result<usize, TopologyError> {
        if self.indices.contains_key(key) {
            return Err(TopologyError::at(line, format!("node '{key}' occurs twice")));
        }
        self.push(line, key, name)
    }
    /// The place of that name, which must exist.
    pub(super) fn known(&self, line: usize, key: &str) -> Result<usize, TopologyError> {
        let unknown = || TopologyError::at(line, format!("the link names node '{key}', which is not among the nodes"));
        self.find(key).ok_or_else(unknown)
    }
    /// The place of that name.
    pub(super) fn find(&self, key: &str) -> Option<usize> {
        self.indices.get(key).copied()
    }
    /// The place of that name, added if it is new.
    pub(super) fn meet(&mut self, line: usize, key: &str) -> Result<usize, TopologyError> {
        self.find(key).map_or_else(|| self.push(line, key, key), Ok)
    }
    fn push(&mut self, line: usize, key: &str, name: &str) -> Result<usize, TopologyError> {
        let index = self.places.len();
        if index >= PLACES_MAX {
            return Err(TopologyError::at(line, format!("a topology has at most {PLACES_MAX} nodes")));
        }
        self.indices.insert(key.into(), index);
        self.places.push(Place { name: name.into(), location: None });
        Ok(index)
    }
}

/// Links in the order of the file; some formats list each direction separately.
#[derive(Default)]
pub(super) struct Edges {
    pub(super) edges: Vec<Edge>,
    /// Links whose reverse direction is still missing, by their ends.
    one_way: BTreeMap<[usize; 2], VecDeque<usize>>,
}

impl Edges {
    /// Adds a link.
    pub(super) fn push(&mut self, line: usize, edge: Edge) -> Result<(), TopologyError> {
        if self.edges.len() >= EDGES_MAX {
            return Err(TopologyError::at(line, format!("a topology has at most {EDGES_MAX} links")));
        }
        self.edges.push(edge);
        Ok(())
    }
    /// Adds one direction: the reverse of the first link that lacks it, else a new link.
    pub(super) fn push_way(&mut self, line: usize, [from, to]: [usize; 2], way: Way) -> Result<(), TopologyError> {
        let index = match self.one_way.get_mut(&[to, from]) {
            Some(waiting) if from != to => waiting.pop_front(),
            _ => None,
        };
        match index {
            Some(index) => self.edges[index].backward = Some(way),
            None => {
                self.one_way.entry([from, to]).or_default().push_back(self.edges.len());
                self.push(line, Edge { ends: [from, to], forward: way, backward: None })?;
            }
        }
        Ok(())
    }
    /// The links, and how many of those listed by direction have only one.
    pub(super) fn finish(mut self) -> (Vec<Edge>, usize) {
        for edge in &mut self.edges {
            edge.backward = edge.backward.take().filter(|back| *back != edge.forward);
        }
        let loops = |ends: &[usize; 2]| ends[0] == ends[1];
        let alone = self.one_way.iter().filter(|(ends, _)| !loops(ends)).map(|(_, waiting)| waiting.len()).sum();
        (self.edges, alone)
    }
}

/// A number of zero or more.
pub(super) fn number(line: usize, what: &str, text: &str) -> Result<f64, TopologyError> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err(TopologyError::at(line, format!("{what} '{text}' is no number of zero or more"))),
    }
}
/// An integer of zero or more.
pub(super) fn integer(line: usize, what: &str, text: &str) -> Result<u64, TopologyError> {
    let wrong = || TopologyError::at(line, format!("{what} '{text}' is not an integer"));
    text.parse().ok().filter(|number| *number < 1 << 53).ok_or_else(wrong)
}
/// A rate above zero.
pub(super) fn rate(line: usize, what: &str, bits_per_second: f64) -> Result<Rate, TopologyError> {
    match bits_per_second as u64 {
        0 => Err(TopologyError::at(line, format!("{what} is zero: nothing would pass"))),
        bits => Ok(Rate::from_bits_per_second(bits)),
    }
}
/// A rate as ns-3's `DataRate` reads it: `1Mbps`, `10Gb/s`, `64kbps`, `9600bps`, `1MB/s`; B is eight bits, Ki is 1,024, and
/// a number alone is in bit/s.
pub(super) fn ns3_rate(line: usize, text: &str) -> Result<Rate, TopologyError> {
    let unit = |prefix: &str, factor: f64| {
        let with = |ending: &str, bits: f64| (format!("{prefix}{ending}"), factor * bits);
        [with("bps", 1.0), with("b/s", 1.0), with("Bps", 8.0), with("B/s", 8.0)]
    };
    let prefixes = [
        ("", 1.0),
        ("k", 1e3),
        ("K", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
    ];
    let units: Vec<(String, f64)> = prefixes.into_iter().flat_map(|(prefix, factor)| unit(prefix, factor)).collect();
    let units: Vec<(&str, f64)> = units.iter().map(|(unit, factor)| (unit.as_str(), *factor)).collect();
    rate(line, "its rate", with_unit(line, "rate", text, &[&units[..], &[("", 1.0)]].concat())?)
}
/// A delay as ns-3's `Time` reads it: `10ms`, `0.5s`, `200us`; a number alone is in seconds.
pub(super) fn ns3_delay(line: usize, text: &str) -> Result<Duration, TopologyError> {
    let units =
        [("ps", 1e-3), ("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 6e10), ("h", 3.6e12), ("", 1e9)];
    with_unit(line, "delay", text, &units).map(|nanos| Duration::from_nanos(nanos as u64))
}
/// A delay as tc(8) reads it, to which Mininet passes it: `10ms`, `1s`, `200usecs`; a number alone is in microseconds.
pub(super) fn tc_delay(line: usize, what: &str, text: &str) -> Result<Duration, TopologyError> {
    let (us, ms, s) = (1e3, 1e6, 1e9);
    let units = [
        ("us", us),
        ("usec", us),
        ("usecs", us),
        ("", us),
        ("ms", ms),
        ("msec", ms),
        ("msecs", ms),
        ("s", s),
        ("sec", s),
        ("secs", s),
    ];
    with_unit(line, what, text, &units).map(|nanos| Duration::from_nanos(nanos as u64))
}
fn with_unit(line: usize, what: &str, text: &str, units: &[(&str, f64)]) -> Result<f64, TopologyError> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let factor = units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    match (digits.parse::<f64>(), factor) {
        (Ok(number), Some(factor)) if number * factor < 9e18 => Ok(number * factor),
        _ => Err(TopologyError::at(line, format!("{what} '{text}' is no number with a known unit"))),
    }
}
/// The `key=value` words of a line.
pub(super) fn attribute<'a>(words: &[&'a str], key: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.split_once('=').filter(|(name, _)| *name == key).map(|(_, value)| value))
}
/// The keys of unused `key=value` words, in order.
pub(super) fn unread<'a>(words: &[&'a str], read: &[&str]) -> BTreeSet<&'a str> {
    let keys = words.iter().filter_map(|word| word.split_once('=')).map(|(key, _)| key);
    keys.filter(|key| !read.contains(key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_delays_have_the_units_of_their_tools() {
        let rate = |text| ns3_rate(1, text).map(|rate| rate.bits_per_second()).ok();
        let rates = ["1Mbps", "64kb/s", "1MBps", "2KiB/s", "9600", "1mbps", "0bps"].map(rate);
        assert_eq!(rates, [Some(1_000_000), Some(64_000), Some(8_000_000), Some(16_384), Some(9_600), None, None]);
        let delay = |text| ns3_delay(1, text).map(|it| it.as_micros()).ok();
        assert_eq!(["10ms", "2", "0.5s", "10msec"].map(delay), [Some(10_000), Some(2_000_000), Some(500_000), None]);
        let delay = |text| tc_delay(1, "delay", text).map(|it| it.as_micros()).ok();
        assert_eq!(["10ms", "2", "1secs", "1min"].map(delay), [Some(10_000), Some(2), Some(1_000_000), None]);
    }
}
