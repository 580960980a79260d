//! What the line-based formats share: names to places, values with units.
use std::collections::BTreeMap;
use tributary_core::{Duration, Rate};

use super::{Place, TopologyError};

/// Places by their names in the file.
#[derive(Default)]
pub(super) struct Places {
    pub(super) places: Vec<Place>,
    indices: BTreeMap<String, usize>,
}

impl Places {
    /// Adds a place that must be new.
    pub(super) fn add(&mut self, line: usize, key: &str, name: &str) -> Result<usize, TopologyError> {
        let index = self.places.len();
        if self.indices.insert(key.into(), index).is_some() {
            return Err(TopologyError::at(line, format!("node '{key}' is there twice")));
        }
        self.places.push(Place { name: name.into(), location: None });
        Ok(index)
    }
    /// The place of that name, which must be there.
    pub(super) fn known(&self, line: usize, key: &str) -> Result<usize, TopologyError> {
        let unknown = || TopologyError::at(line, format!("the link names node '{key}', which is not among the nodes"));
        self.find(key).ok_or_else(unknown)
    }
    /// The place of that name.
    pub(super) fn find(&self, key: &str) -> Option<usize> {
        self.indices.get(key).copied()
    }
    /// The place of that name, added if it is new.
    pub(super) fn meet(&mut self, key: &str) -> usize {
        if let Some(index) = self.indices.get(key) {
            return *index;
        }
        self.indices.insert(key.into(), self.places.len());
        self.places.push(Place { name: key.into(), location: None });
        self.places.len() - 1
    }
}

/// A number of zero or more.
pub(super) fn number(line: usize, what: &str, text: &str) -> Result<f64, TopologyError> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err(TopologyError::at(line, format!("{what} '{text}' is no number of zero or more"))),
    }
}
/// A rate as ns-3 writes it: `1Mbps`, `10Gbps`, `100Kbps`, `64kb/s`, `9600bps`.
pub(super) fn rate(line: usize, text: &str) -> Result<Rate, TopologyError> {
    let units = [("bps", 1.0), ("kbps", 1e3), ("mbps", 1e6), ("gbps", 1e9)];
    let lower = text.to_ascii_lowercase().replace("b/s", "bps");
    with_unit(line, "rate", text, &lower, &units).map(|bits| Rate::from_bits_per_second(bits as u64))
}
/// A delay such as `10ms`, `0.5s`, `200us`; without a unit in milliseconds.
pub(super) fn delay(line: usize, text: &str) -> Result<Duration, TopologyError> {
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("", 1e6)];
    with_unit(line, "delay", text, text, &units).map(|nanos| Duration::from_nanos(nanos as u64))
}
fn with_unit(line: usize, what: &str, shown: &str, text: &str, units: &[(&str, f64)]) -> Result<f64, TopologyError> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let factor = units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    match (digits.parse::<f64>(), factor) {
        (Ok(number), Some(factor)) if number * factor < 9e18 => Ok(number * factor),
        _ => Err(TopologyError::at(line, format!("{what} '{shown}' is no number with a known unit"))),
    }
}
/// The `key=value` words of a line.
pub(super) fn attribute<'a>(words: &[&'a str], key: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.split_once('=').filter(|(name, _)| *name == key).map(|(_, value)| value))
}
