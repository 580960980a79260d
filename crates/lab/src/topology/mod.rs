//! Networks as data: read from the files that others publish, or generated.
//!
//! | format | word | file |
//! |---|---|---|
//! | GraphML, of the Internet Topology Zoo and others | `graphml` | [`graphml`] |
//! | ndnSIM's annotated topologies | `ndnsim` | [`ndnsim`] |
//! | Mini-NDN's configuration | `minindn` | [`minindn`] |
//! | Rocketfuel's latencies or weights | `rocketfuel` | [`rocketfuel`] |
//! | Rocketfuel's maps | `cch` | [`cch`] |
//! | grids, trees, Barabási–Albert, Waxman | – | [`generate`] |
//!
//! A property that a file leaves open (a rate, a delay, a queue) is `None`; the user fills it in.
pub mod cch;
mod encoding;
mod error;
pub mod generate;
pub mod graphml;
pub mod minindn;
pub mod ndnsim;
pub mod rocketfuel;
mod text;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read as _,
    path::Path,
};

use tributary_core::{Duration, Location, Rate, link::QueueDiscipline};

pub use error::{LoadError, TopologyError};

/// A network of places and links, each between two of them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Topology {
    /// The nodes, with unique names of 1 to 32 bytes.
    pub places: Vec<Place>,
    /// The links. Two places may have several between them, no link leads from a place to itself.
    pub edges: Vec<Edge>,
    /// What the reader left out, and why.
    pub notes: Vec<String>,
}

/// A node of a [`Topology`].
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Place {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub location: Option<Location>,
}

/// A link of a [`Topology`].
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Edge {
    /// The indices of the places that it joins.
    pub ends: [usize; 2],
    /// Its properties from the first end to the second.
    pub forward: Way,
    /// Its properties in the other direction; `None` if they are equal.
    pub backward: Option<Way>,
}

/// One direction of a link.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Way {
    /// Its rate.
    pub rate: Option<Rate>,
    /// Its propagation delay.
    pub delay: Option<Duration>,
    /// The most by which that varies.
    pub jitter: Option<Duration>,
    /// Share of packets lost, 0 to 1.
    pub loss: Option<f64>,
    /// Packets that its queue holds.
    pub queue_packets: Option<u64>,
    /// Who drops from its queue.
    pub discipline: Option<QueueDiscipline>,
    /// Its weight in routing.
    pub metric: Option<f64>,
}

impl Edge {
    /// A link without known properties.
    pub fn between(a: usize, b: usize) -> Edge {
        Edge { ends: [a, b], ..Edge::default() }
    }
    /// Its properties in the other direction.
    pub fn way_back(&self) -> &Way {
        self.backward.as_ref().unwrap_or(&self.forward)
    }
}

/// How a topology is written down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// GraphML, of the Internet Topology Zoo and others.
    Graphml,
    /// ndnSIM's annotated topologies.
    Ndnsim,
    /// Mini-NDN's configuration.
    Minindn,
    /// Rocketfuel's latencies or weights.
    Rocketfuel,
    /// Rocketfuel's maps.
    Cch,
}

impl Format {
    /// All formats with their words.
    pub const ALL: [(&'static str, Format); 5] = [
        ("graphml", Format::Graphml),
        ("ndnsim", Format::Ndnsim),
        ("minindn", Format::Minindn),
        ("rocketfuel", Format::Rocketfuel),
        ("cch", Format::Cch),
    ];
    /// The format that files of such a name usually have.
    pub fn of(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()? {
            "graphml" | "xml" => Some(Format::Graphml),
            "txt" => Some(Format::Ndnsim),
            "conf" => Some(Format::Minindn),
            "intra" => Some(Format::Rocketfuel),
            "cch" => Some(Format::Cch),
            _ => None,
        }
    }
}

/// The maximum size of a topology file in bytes.
pub const FILE_BYTES_MAX: u64 = 64 << 20;
/// The maximum number of places in a file.
pub const PLACES_MAX: usize = 100_000;
/// The maximum number of links in a file.
pub const EDGES_MAX: usize = 500_000;
/// The maximum length of a place's name in bytes.
pub const NAME_BYTES_MAX: usize = 32;
/// Light in fibre: kilometres per millisecond.
const FIBRE_KM_PER_MS: f64 = 200.0;

impl Topology {
    /// Reads a file. `format` is guessed from its name if `None`.
    ///
    /// # Errors
    /// [`LoadError`] if it cannot be read, has an unknown format, or contains a wrong line.
    pub fn load(path: &Path, format: Option<Format>) -> Result<Topology, LoadError> {
        let file = path.display().to_string();
        let Some(format) = format.or_else(|| Format::of(path)) else { return Err(LoadError::Unknown { file }) };
        let unreadable = |reason: String| LoadError::Read { file: file.clone(), reason };
        let mut bytes = Vec::new();
        // A device or a pipe has no length to check first.
        let read = std::fs::File::open(path).and_then(|it| it.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
        let length = read.map_err(|error| unreadable(error.to_string()))? as u64;
        if length > FILE_BYTES_MAX {
            return Err(unreadable(format!("a topology has at most {FILE_BYTES_MAX} bytes")));
        }
        Ok(Topology::parse(&file, &bytes, format)?)
    }
    /// Reads the content of a file; `file` names it in errors.
    ///
    /// # Errors
    /// [`TopologyError`] with the first wrong line.
    pub fn parse(file: &str, content: impl AsRef<[u8]>, format: Format) -> Result<Topology, TopologyError> {
        let content = content.as_ref();
        let by_lines = |parse: fn(&str) -> Result<Topology, TopologyError>| {
            let (text, note) = tributary::config::recordings::encoding::text(content)?;
            parse(&text)
                .map(|topology| Topology { notes: note.into_iter().chain(topology.notes).collect(), ..topology })
        };
        let read = match format {
            Format::Graphml => graphml::parse(content),
            Format::Ndnsim => by_lines(ndnsim::parse),
            Format::Minindn => by_lines(minindn::parse),
            Format::Rocketfuel => by_lines(rocketfuel::parse),
            Format::Cch => by_lines(cch::parse),
        };
        let mut topology = read.map_err(|error| TopologyError { file: file.into(), ..error })?;
        topology.name_uniquely();
        topology.drop_loops();
        Ok(topology)
    }
    /// The index of the place of that name.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.places.iter().position(|place| place.name == name)
    }
    /// How many edges each place has.
    pub fn degrees(&self) -> Vec<usize> {
        let mut degrees = vec![0; self.places.len()];
        for end in self.edges.iter().flat_map(|edge| edge.ends) {
            degrees[end] += 1;
        }
        degrees
    }
    /// The component of each place: places with equal numbers are connected. Numbers go up from 0 in order of places.
    pub fn components(&self) -> Vec<usize> {
        let mut neighbours = vec![Vec::new(); self.places.len()];
        for [a, b] in self.edges.iter().map(|edge| edge.ends) {
            neighbours[a].push(b);
            neighbours[b].push(a);
        }
        let mut components = vec![usize::MAX; self.places.len()];
        let mut count = 0;
        for start in 0..self.places.len() {
            if components[start] != usize::MAX {
                continue;
            }
            let mut reached = vec![start];
            while let Some(place) = reached.pop() {
                if components[place] == usize::MAX {
                    components[place] = count;
                    reached.extend(&neighbours[place]);
                }
            }
            count += 1;
        }
        components
    }
    /// Whether every place can be reached from every other.
    pub fn is_connected(&self) -> bool {
        self.components().iter().all(|component| *component == 0)
    }
    /// Only the largest component; the first one of several of that size.
    pub fn largest_component(self) -> Topology {
        let components = self.components();
        let mut sizes = BTreeMap::<usize, usize>::new();
        for component in &components {
            *sizes.entry(*component).or_default() += 1;
        }
        let Some((largest, _)) = sizes.iter().max_by_key(|(number, size)| (**size, usize::MAX - **number)) else {
            return self;
        };
        let left_out = components.iter().filter(|component| *component != largest).count();
        let mut kept = self;
        if left_out > 0 {
            kept.notes.push(format!("{left_out} places outside the largest component left out"));
        }
        kept.retain_places(|place| components[place] == *largest);
        kept
    }

    /// Keeps only these places, by their indices, and the links between them.
    fn retain_places(&mut self, is_kept: impl Fn(usize) -> bool) {
        let kept: Vec<usize> = (0..self.places.len()).filter(|place| is_kept(*place)).collect();
        let new_index: BTreeMap<usize, usize> = kept.iter().copied().zip(0..).collect();
        self.places = kept.iter().map(|place| std::mem::take(&mut self.places[*place])).collect();
        self.edges = std::mem::take(&mut self.edges)
            .into_iter()
            .filter_map(|edge| {
                let ends = [*new_index.get(&edge.ends[0])?, *new_index.get(&edge.ends[1])?];
                Some(Edge { ends, ..edge })
            })
            .collect();
    }
    /// Fills missing delays from locations: great-circle distance at the speed of light in fibre, 200 km a millisecond.
    pub(crate) fn delays_from_locations(&mut self) {
        for edge in &mut self.edges {
            let [a, b] = edge.ends.map(|end| self.places[end].location);
            let Some((a, b)) = a.zip(b) else { continue };
            let delay = Duration::from_nanos((a.distance_km(b) / FIBRE_KM_PER_MS * 1e6) as u64);
            for way in [Some(&mut edge.forward), edge.backward.as_mut()].into_iter().flatten() {
                way.delay.get_or_insert(delay);
            }
        }
    }
    fn name_uniquely(&mut self) {
        let mut taken = BTreeSet::new();
        // Which number a name has reached, as thousands of places may have the same one.
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        for (index, place) in self.places.iter_mut().enumerate() {
            let name = place.name.trim();
            let name = if name.is_empty() { format!("place-{index}") } else { name.to_string() };
            let mut unique = shortened(&name, NAME_BYTES_MAX).to_string();
            while !taken.insert(unique.clone()) {
                let number = numbers.entry(shortened(&name, NAME_BYTES_MAX).into()).or_insert(1);
                *number += 1;
                let suffix = format!("-{number}");
                unique = format!("{}{suffix}", shortened(&name, NAME_BYTES_MAX - suffix.len()));
            }
            place.name = unique;
        }
    }
    fn drop_loops(&mut self) {
        let before = self.edges.len();
        self.edges.retain(|edge| edge.ends[0] != edge.ends[1]);
        if self.edges.len() < before {
            self.notes.push(format!("{} links from a place to itself left out", before - self.edges.len()));
        }
    }
}

/// The beginning of a text, whole characters only.
fn shortened(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text[..end].trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_an_atlas() {
        // Berlin to New York, 6,385 km; pole to pole half the circumference.
        let at = |latitude, longitude| Location::from_degrees(latitude, longitude).expect("on the Earth");
        let km = at(52.52, 13.405).distance_km(at(40.7128, -74.006));
        assert!((km - 6_385.0).abs() < 10.0, "{km}");
        assert!((at(90.0, 0.0).distance_km(at(-90.0, 77.0)) - 20_015.0).abs() < 1.0);
    }

    #[test]
    fn names_become_unique_and_short() {
        let name = |name: &str| Place { name: name.into(), location: None };
        let long = "ä".repeat(40);
        let mut topology =
            Topology { places: vec![name("a"), name("a"), name(""), name(&long), name(&long)], ..Topology::default() };
        topology.name_uniquely();
        let names: Vec<_> = topology.places.iter().map(|place| place.name.clone()).collect();
        assert_eq!(names, ["a", "a-2", "place-2", &"ä".repeat(16), &format!("{}-2", "ä".repeat(15))]);
    }

    #[test]
    fn the_largest_component_keeps_its_links() {
        let edge = Edge::between;
        let places = (0..6).map(|n| Place { name: n.to_string(), location: None }).collect();
        let topology = Topology { places, edges: vec![edge(0, 1), edge(2, 4), edge(4, 5)], notes: Vec::new() };
        assert_eq!(topology.components(), [0, 0, 1, 2, 1, 1]);
        let largest = topology.largest_component();
        let names: Vec<_> = largest.places.iter().map(|place| place.name.as_str()).collect();
        assert_eq!((names, largest.is_connected()), (vec!["2", "4", "5"], true));
        assert_eq!(largest.edges, [edge(0, 1), edge(1, 2)]);
    }
}
