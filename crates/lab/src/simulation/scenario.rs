//! What to simulate, as plain data.
use std::{collections::BTreeSet, fmt, path::Path};
use tributary_content::{MemoryObject, Name};
use tributary_core::{
    Duration, Rate, Time,
    link::{LinkChange, LinkConfig, LinkState, Loss},
};
use tributary_transport::{PathMetric, TransferConfig};

use super::guest::GuestFactory;
use tributary::{
    Family,
    config::{NodeConfig, Role, Security},
};

/// A network, a workload, and its faults. Times count from the start of the simulation.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name, for reports.
    pub name: String,
    /// The seed of every random choice: links, nodes and guests.
    pub seed: u64,
    /// The nodes, each with its own label.
    pub nodes: Vec<NodeSpec>,
    /// The links between them, each with its own name.
    pub links: Vec<LinkSpec>,
    /// Rivals and cross traffic, each with its own name.
    pub guests: Vec<GuestSpec>,
    /// Publications, where and when.
    pub publications: Vec<Publication>,
    /// Fetches, where and when. The transfers of the outcome are in this order.
    pub fetches: Vec<FetchSpec>,
    /// What changes or fails, and when.
    pub faults: Vec<PlannedFault>,
    /// When the run is over.
    pub until: RunUntil,
    /// The virtual time at which it is over in any case. Default: one hour.
    pub limit: Time,
    /// How often windows, RTTs, rates and links are sampled; `None` for never.
    pub sampling: Option<Duration>,
    /// Samples of paths and links kept at most: beyond that every second moment is dropped, and the time between two is
    /// twice as long from then on. Default: 200,000, some tens of megabytes.
    pub samples_max: usize,
    /// Whether events are kept as JSON lines. Default: no.
    pub keeps_events: bool,
    /// Events kept at most; more are counted and dropped. What [`Simulation::write_events`] writes has no limit.
    /// Default: 1,000,000.
    ///
    /// [`Simulation::write_events`]: super::Simulation::write_events
    pub events_max: usize,
}

/// When a run is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RunUntil {
    /// When every fetch has ended, or at the limit.
    #[default]
    FetchesEnd,
    /// When one fetch has ended, by its place among the fetches, or at the limit.
    FetchEnds(usize),
    /// At the limit.
    Limit,
}

/// One node.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// Its label, unique in the scenario.
    pub label: String,
    /// Its occupant.
    pub host: Host,
}

/// The endpoint of a node, besides guests.
#[derive(Clone, Debug)]
pub enum Host {
    /// An endpoint of a family. Its seed is drawn from the scenario's unless the config has one.
    Endpoint(Box<NodeConfig>),
    /// Nothing: the node only passes on the packets of guests.
    Bare,
}

/// One link, both directions.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkSpec {
    /// Its name, unique in the scenario; `a-b` unless chosen otherwise.
    pub name: String,
    /// The labels of the nodes that it joins.
    pub ends: [String; 2],
    /// How it is from the first to the second node.
    pub forward: LinkConfig,
    /// How it is from the second to the first node.
    pub backward: LinkConfig,
}

/// A rival or a source of cross traffic.
#[derive(Clone, Debug)]
pub struct GuestSpec {
    /// Its name, unique among guests and nodes.
    pub name: String,
    /// The label of the node where it sits.
    pub at: String,
    /// The guests it talks to: its face 0 leads to the first of them, face 1 to the second, and so on. A guest that
    /// another one names without naming it back gets a face to that one behind its own.
    pub peers: Vec<String>,
    /// Makes it.
    pub make: GuestFactory,
}

/// Something that is published.
#[derive(Clone, Debug)]
pub struct Publication {
    /// The label of the publishing node.
    pub node: String,
    /// When.
    pub at: Time,
    /// What. Clones share the bytes.
    pub object: MemoryObject,
}

/// Something that is fetched.
#[derive(Clone, PartialEq, Debug)]
pub struct FetchSpec {
    /// The label of the fetching node, or the name of a guest.
    pub node: String,
    /// When.
    pub at: Time,
    /// What.
    pub name: Name,
    /// Paths per source to request from the network, 1 to 16.
    pub paths_per_source: u8,
    /// What makes a path good.
    pub metric: PathMetric,
    /// How long to go without any source before giving up; `None` for ever.
    pub patience: Option<Duration>,
    /// The rate not to exceed; `None` for no limit.
    pub rate_limit: Option<Rate>,
}

/// A fault and its time.
#[derive(Clone, PartialEq, Debug)]
pub struct PlannedFault {
    /// When.
    pub at: Time,
    /// What.
    pub fault: Fault,
}

/// Something that changes or fails, or is mended.
#[derive(Clone, PartialEq, Debug)]
pub enum Fault {
    /// A link changes: its state, rate, delay, loss or queue.
    Link {
        /// The link's name.
        link: String,
        /// Which way.
        direction: Direction,
        /// The new value.
        change: LinkChange,
    },
    /// A node dies without a farewell.
    Kill {
        /// Its label.
        node: String,
    },
    /// A node starts (again) with an empty memory; it publishes again, and resumes fetches that had not ended from
    /// their stored chunks.
    Start {
        /// Its label.
        node: String,
    },
    /// A node stands still: it receives and sends nothing, and none of its timers runs.
    Freeze {
        /// Its label.
        node: String,
    },
    /// A frozen node continues.
    Thaw {
        /// Its label.
        node: String,
    },
    /// A publisher answers no more requests for data; everything else about it works on (mmFTP §IV-C2).
    StopServing {
        /// Its label.
        node: String,
    },
    /// It answers again.
    ServeAgain {
        /// Its label.
        node: String,
    },
}

/// A share in percent, without the digits that its binary form adds.
fn percent(share: f64) -> f64 {
    (share * 1e6).round() / 1e4
}
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Link { link, direction, change } => {
                let way = match direction {
                    Direction::Both => "",
                    Direction::Forward => " forward",
                    Direction::Backward => " backward",
                };
                write!(f, "{link}{way}: ")?;
                match change {
                    LinkChange::State(LinkState::Up) => write!(f, "up"),
                    LinkChange::State(LinkState::Down) => write!(f, "down"),
                    LinkChange::Rate(Some(rate)) => write!(f, "{rate}"),
                    LinkChange::Rate(None) => write!(f, "no limit"),
                    LinkChange::Delay(delay) => write!(f, "delay {} ms", delay.as_secs_f64() * 1e3),
                    LinkChange::Loss(Loss::None) => write!(f, "no loss"),
                    LinkChange::Loss(Loss::Bernoulli(share)) => write!(f, "loss {} %", percent(*share)),
                    LinkChange::Loss(_) => write!(f, "another loss"),
                    LinkChange::QueueBytes(bytes) => write!(f, "queue {} kB", *bytes as f64 / 1e3),
                    LinkChange::Reorder(_) => write!(f, "another order"),
                    LinkChange::Duplicate(share) => write!(f, "{} % twice", percent(*share)),
                    LinkChange::Corrupt(share) => write!(f, "{} % corrupted", percent(*share)),
                    LinkChange::Mtu(bytes) => write!(f, "MTU {bytes}"),
                }
            }
            Fault::Kill { node } => write!(f, "{node} is killed"),
            Fault::Start { node } => write!(f, "{node} starts"),
            Fault::Freeze { node } => write!(f, "{node} stands still"),
            Fault::Thaw { node } => write!(f, "{node} goes on"),
            Fault::StopServing { node } => write!(f, "{node} stops serving"),
            Fault::ServeAgain { node } => write!(f, "{node} serves again"),
        }
    }
}

/// The direction of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Direction {
    /// Both.
    #[default]
    Both,
    /// From the first to the second end.
    Forward,
    /// From the second to the first end.
    Backward,
}

impl Scenario {
    /// An empty scenario.
    pub fn new(name: &str, seed: u64) -> Self {
        Scenario {
            name: name.into(),
            seed,
            nodes: Vec::new(),
            links: Vec::new(),
            guests: Vec::new(),
            publications: Vec::new(),
            fetches: Vec::new(),
            faults: Vec::new(),
            until: RunUntil::default(),
            limit: Time::from_millis(3_600_000),
            sampling: None,
            samples_max: 200_000,
            keeps_events: false,
            events_max: 1_000_000,
        }
    }

    // ---- the network

    /// Adds an endpoint of a family with default settings; returns its config for changes.
    pub fn add_node(&mut self, label: &str, family: Family, roles: &[Role]) -> &mut NodeConfig {
        let config = Box::new(simulated(label, family, roles));
        self.nodes.push(NodeSpec { label: label.into(), host: Host::Endpoint(config) });
        match &mut self.nodes.last_mut().expect("one was pushed").host {
            Host::Endpoint(config) => config,
            Host::Bare => unreachable!("an endpoint was pushed"),
        }
    }
    /// Adds a node that only passes on the packets of guests.
    pub fn add_bare_node(&mut self, label: &str) {
        self.nodes.push(NodeSpec { label: label.into(), host: Host::Bare });
    }
    /// Adds a link with the same properties in both directions, called `a-b`.
    pub fn add_link(&mut self, a: &str, b: &str, config: LinkConfig) -> &mut LinkSpec {
        self.links.push(LinkSpec {
            name: format!("{a}-{b}"),
            ends: [a.into(), b.into()],
            forward: config.clone(),
            backward: config,
        });
        self.links.last_mut().expect("one was pushed")
    }
    /// Adds a guest at a node.
    pub fn add_guest(&mut self, name: &str, at: &str, peers: &[&str], make: GuestFactory) {
        let peers = peers.iter().map(|peer| (*peer).to_string()).collect();
        self.guests.push(GuestSpec { name: name.into(), at: at.into(), peers, make });
    }
    /// The config of an endpoint, to change.
    pub fn node_mut(&mut self, label: &str) -> Option<&mut NodeConfig> {
        self.nodes.iter_mut().find(|node| node.label == label).and_then(|node| match &mut node.host {
            Host::Endpoint(config) => Some(&mut **config),
            Host::Bare => None,
        })
    }
    /// The link of that name.
    pub fn link(&self, name: &str) -> Option<&LinkSpec> {
        self.links.iter().find(|link| link.name == name)
    }
    /// Sets how every endpoint fetches.
    pub fn set_transfer(&mut self, transfer: &TransferConfig) {
        for node in &mut self.nodes {
            if let Host::Endpoint(config) = &mut node.host {
                config.transfer_mut().into_iter().for_each(|own| own.clone_from(transfer));
            }
        }
    }

    // ---- the workload

    /// Publishes an object.
    pub fn publish(&mut self, node: &str, at: Time, object: MemoryObject) {
        self.publications.push(Publication { node: node.into(), at, object });
    }
    /// Starts a fetch with the usual four paths per source by hops and unlimited patience; returns it for changes.
    pub fn fetch(&mut self, node: &str, at: Time, name: Name) -> &mut FetchSpec {
        self.fetches.push(FetchSpec {
            node: node.into(),
            at,
            name,
            paths_per_source: 4,
            metric: PathMetric::Hops,
            patience: None,
            rate_limit: None,
        });
        self.fetches.last_mut().expect("one was pushed")
    }
    /// Plans a fault.
    pub fn fault(&mut self, at: Time, fault: Fault) {
        self.faults.push(PlannedFault { at, fault });
    }
    /// Plans a change of both directions of a link.
    pub fn change_link(&mut self, at: Time, link: &str, change: LinkChange) {
        self.fault(at, Fault::Link { link: link.into(), direction: Direction::Both, change });
    }

    /// Whether every name in it means something.
    ///
    /// # Errors
    /// [`ScenarioError`] names the first one that does not, or that means two things.
    pub fn check(&self) -> Result<(), ScenarioError> {
        let mut places = BTreeSet::new();
        for node in &self.nodes {
            if !places.insert(node.label.as_str()) {
                return Err(ScenarioError::Twice { what: "node", name: node.label.clone() });
            }
        }
        let mut links = BTreeSet::new();
        for link in &self.links {
            if !links.insert(link.name.as_str()) {
                return Err(ScenarioError::Twice { what: "link", name: link.name.clone() });
            }
            for end in &link.ends {
                known(&places, end, "node", || format!("link '{}'", link.name))?;
            }
            if link.ends[0] == link.ends[1] {
                return Err(ScenarioError::Loop { link: link.name.clone(), node: link.ends[0].clone() });
            }
        }
        let mut guests = BTreeSet::new();
        for guest in &self.guests {
            known(&places, &guest.at, "node", || format!("guest '{}'", guest.name))?;
            if !guests.insert(guest.name.as_str()) || places.contains(guest.name.as_str()) {
                return Err(ScenarioError::Twice { what: "guest", name: guest.name.clone() });
            }
        }
        for guest in &self.guests {
            for peer in &guest.peers {
                known(&guests, peer, "guest", || format!("guest '{}'", guest.name))?;
            }
        }
        for publication in &self.publications {
            let what = || format!("publication of '{}'", publication.object.name());
            known(&places, &publication.node, "node", what)?;
        }
        for fetch in &self.fetches {
            if !guests.contains(fetch.node.as_str()) {
                known(&places, &fetch.node, "node", || format!("fetch of '{}'", fetch.name))?;
            }
        }
        for planned in &self.faults {
            let by = || format!("fault at {}", planned.at);
            match &planned.fault {
                Fault::Link { link, .. } => known(&links, link, "link", by)?,
                Fault::Kill { node }
                | Fault::Start { node }
                | Fault::Freeze { node }
                | Fault::Thaw { node }
                | Fault::StopServing { node }
                | Fault::ServeAgain { node } => known(&places, node, "node", by)?,
            }
        }
        Ok(())
    }
}

fn known(
    names: &BTreeSet<&str>,
    name: &str,
    what: &'static str,
    by: impl FnOnce() -> String,
) -> Result<(), ScenarioError> {
    if names.contains(name) {
        return Ok(());
    }
    Err(ScenarioError::Unknown { what, name: name.into(), by: by() })
}

/// The name of a published object.
trait Named {
    fn name(&self) -> &Name;
}
impl Named for MemoryObject {
    fn name(&self) -> &Name {
        use tributary_content::ObjectReader;
        &self.manifest().name
    }
}

/// The default settings of a node that runs in a simulation: it listens nowhere, keeps nothing on disk, and
/// protects no face, as in the papers.
///
/// # Panics
/// If `label` is empty or longer than 32 bytes.
pub(super) fn simulated(label: &str, family: Family, roles: &[Role]) -> NodeConfig {
    let words: Vec<_> = roles.iter().map(|role| format!("\"{role}\"")).collect();
    let text = format!(
        "[node]\nlabel = {label:?}\nfamily = \"{family}\"\nroles = [{}]\nlisten = [\"127.0.0.1:0\"]\n",
        words.join(", ")
    );
    let mut config = NodeConfig::parse(label, &text, Path::new("/nowhere"))
        .unwrap_or_else(|errors| panic!("the label of a simulated node is wrong: {errors}"));
    config.listen.clear();
    config.store = None;
    config.security = Security::None;
    config
}

/// Why a scenario cannot be simulated.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// Two things have one name.
    #[error("there are two of {what} '{name}'")]
    Twice {
        /// What kind of thing.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Something is named that does not exist.
    #[error("{by} names the {what} '{name}', which does not exist")]
    Unknown {
        /// What kind of thing.
        what: &'static str,
        /// The name.
        name: String,
        /// Who names it.
        by: String,
    },
    /// A link leads from a node to itself.
    #[error("link '{link}' leads from '{node}' to itself")]
    Loop {
        /// The link.
        link: String,
        /// The node.
        node: String,
    },
    /// Guests that talk to each other have no links between them.
    #[error("there is no way from guest '{from}' to guest '{to}'")]
    NoWay {
        /// The one.
        from: String,
        /// The other.
        to: String,
    },
}
