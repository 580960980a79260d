//! `[topology]`, `[[node]]` and `[[link]]`: the nodes, and the links between them.
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};
use tributary_core::{
    Duration, Location,
    link::{LinkConfig, Loss, Script},
};

use super::values::{Head, TIME_MAX, required, unknown};
use crate::{
    contacts,
    simulation::{Host, LinkSpec, NodeSpec, Scenario, scenario::simulated},
    topology::{Edge, Format, Place, Topology, Way, generate},
};
use tributary::{
    Family,
    config::{
        Role,
        link::{self, Mtu},
        reader::{Located, Scope, Section},
        values::duration,
    },
};

/// The nodes so far. They become endpoints at the end, when all roles are known.
pub(super) struct Places<'a> {
    nodes: Vec<Draft<'a>>,
    indices: BTreeMap<String, usize>,
    /// The names of all links.
    link_names: BTreeSet<String>,
    /// Whether nodes are missing because their file is wrong: only that mistake is reported, not its consequences.
    is_incomplete: bool,
    pub(super) notes: Vec<String>,
}

struct Draft<'a> {
    label: String,
    family: Family,
    roles: BTreeSet<Role>,
    location: Option<Location>,
    /// Its own section, which may say how it works.
    section: Option<Section<'a>>,
}

impl<'a> Places<'a> {
    /// Reads the nodes, and the links into `scenario`.
    pub(super) fn read(root: &Section<'a>, folder: &Path, head: &Head, scenario: &mut Scenario) -> Self {
        let mut places = Places {
            nodes: Vec::new(),
            indices: BTreeMap::new(),
            link_names: BTreeSet::new(),
            is_incomplete: false,
            notes: Vec::new(),
        };
        let mut base = LinkConfig::default();
        if let Some(section) = root.section("topology") {
            base = places.topology(section, folder, head, scenario);
        }
        for section in root.sections("node") {
            places.node(section, head);
        }
        for section in root.sections("link") {
            places.link(section, &base, folder, scenario);
        }
        if places.nodes.is_empty() && !places.is_incomplete {
            root.missing("[topology]", "name a file or a generator in [topology], or nodes in [[node]]");
        }
        places
    }
    /// Whether the network is complete as the file wants it.
    pub(super) fn is_complete(&self) -> bool {
        !self.is_incomplete
    }
    /// Whether a node of that name exists; reports a problem if not.
    pub(super) fn check(&self, section: &Section<'_>, text: &Located<String>) -> bool {
        let is_known = self.indices.contains_key(&text.value);
        if !is_known && !self.is_incomplete {
            unknown(section, "node", text, self.nodes.iter().map(|node| node.label.as_str()));
        }
        is_known
    }
    /// The labels of all nodes that forward, in order; of all nodes if none does.
    pub(super) fn attachments(&self) -> Vec<String> {
        let all = |wanted: fn(&Draft<'_>) -> bool| self.nodes.iter().filter(move |node| wanted(node));
        let labels: Vec<_> = all(|node| node.roles.contains(&Role::Router)).map(|node| node.label.clone()).collect();
        if labels.is_empty() { all(|_| true).map(|node| node.label.clone()).collect() } else { labels }
    }
    /// Gives a node one more role.
    pub(super) fn add_role(&mut self, label: &str, role: Role) {
        if let Some(index) = self.indices.get(label) {
            self.nodes[*index].roles.insert(role);
        }
    }
    /// Makes endpoints of the nodes.
    pub(super) fn settle(&mut self, root: &Section<'_>, folder: &Path, head: &Head, scenario: &mut Scenario) {
        self.choose_resolver(scenario);
        for draft in std::mem::take(&mut self.nodes) {
            // A node without a task could still fetch.
            let idle = BTreeSet::from([Role::Receiver]);
            let roles = if draft.roles.is_empty() { &idle } else { &draft.roles };
            let roles: Vec<Role> = roles.iter().copied().collect();
            let mut config = simulated(&draft.label, draft.family, &roles);
            config.security = head.security;
            if let Some(location) = draft.location {
                config.set_location(location);
            }
            config.read_behaviour(root, Scope::Common, folder);
            if let Some(section) = draft.section {
                config.read_behaviour(&section, Scope::Node, folder);
                section.finish();
            }
            scenario.nodes.push(NodeSpec { label: draft.label, host: Host::Endpoint(Box::new(config)) });
        }
        if scenario.nodes.is_empty() {
            // Makes sections about behaviour known even without a node that behaves.
            simulated("nobody", head.family, &[Role::Receiver]).read_behaviour(root, Scope::Common, folder);
        }
    }
    /// Without a resolver or manager, the node with the most links becomes it.
    fn choose_resolver(&mut self, scenario: &Scenario) {
        let mut degrees: BTreeMap<&str, usize> = BTreeMap::new();
        for end in scenario.links.iter().flat_map(|link| &link.ends) {
            *degrees.entry(end).or_default() += 1;
        }
        let degree = |node: &Draft<'_>| degrees.get(node.label.as_str()).copied().unwrap_or(0);
        for role in [Role::Resolver, Role::TopologyManager] {
            if self.nodes.iter().any(|node| node.roles.contains(&role)) {
                continue;
            }
            let able = (0..self.nodes.len()).filter(|index| self.nodes[*index].family.plays(role));
            let best = able.min_by_key(|index| usize::MAX - degree(&self.nodes[*index]));
            if let Some(index) = best {
                self.nodes[index].roles.insert(role);
            }
        }
    }

    /// Adds a link under a name that is free: `a-b`, or `a-b-2` and so on.
    fn push(
        &mut self,
        scenario: &mut Scenario,
        name: Option<String>,
        ends: [String; 2],
        forward: LinkConfig,
        backward: LinkConfig,
    ) {
        let plain = format!("{}-{}", ends[0], ends[1]);
        let name = name.unwrap_or_else(|| {
            let is_free = |name: &String| !self.link_names.contains(name);
            let mut names = std::iter::once(plain.clone()).chain((2..).map(|number| format!("{plain}-{number}")));
            names.find(is_free).expect("there are more numbers than links")
        });
        self.link_names.insert(name.clone());
        scenario.links.push(LinkSpec { name, ends, forward, backward });
    }
    fn add(&mut self, label: String, family: Family, roles: BTreeSet<Role>, section: Option<Section<'a>>) {
        self.indices.insert(label.clone(), self.nodes.len());
        self.nodes.push(Draft { label, family, roles, location: None, section });
    }

    // ---- [topology]

    /// Returns the properties of links without explicit ones.
    fn topology(&mut self, section: Section<'a>, folder: &Path, head: &Head, scenario: &mut Scenario) -> LinkConfig {
        let base = match section.section("link") {
            Some(section) => link::read(section, LinkConfig::default(), folder, Mtu::Own),
            None => LinkConfig::default(),
        };
        let roles = match section.choices("roles", &Role::ALL) {
            Some(roles) => roles.into_iter().map(|role| role.value).collect(),
            None => BTreeSet::from([Role::Router]),
        };
        let (topology, scripts) = self.source(&section, folder, head);
        for note in &topology.notes {
            self.notes.push(note.clone());
        }
        for place in &topology.places {
            self.add(place.name.clone(), head.family, roles.clone(), None);
            self.nodes.last_mut().expect("one was added").location = place.location;
        }
        let mut scripts = scripts.into_iter();
        for edge in &topology.edges {
            let ends = edge.ends.map(|end| topology.places[end].name.clone());
            let script = scripts.next();
            let [forward, backward] = [&edge.forward, edge.way_back()].map(|way| {
                let config = with_way(&base, way);
                LinkConfig { script: script.clone().or(config.script), ..config }
            });
            self.push(scenario, None, ends, forward, backward);
        }
        for (key, role) in [("resolvers", Role::Resolver), ("managers", Role::TopologyManager)] {
            for label in section.texts(key).unwrap_or_default() {
                if self.check(&section, &label) {
                    self.add_role(&label.value, role);
                }
            }
        }
        section.finish();
        base
    }
    /// The network of a file, a generator or contacts; of contacts also a script for each link.
    fn source(&mut self, section: &Section<'_>, folder: &Path, head: &Head) -> (Topology, Vec<Script>) {
        let keys = ["file", "generate", "contacts"];
        let given: Vec<&str> = keys.into_iter().filter(|key| section.has(key)).collect();
        if given.len() != 1 {
            self.is_incomplete = true;
            let hint = "name one of: file = \"net.graphml\", generate = \"grid\", contacts = \"trace.tsv\"";
            section.wrong(given.first().copied().unwrap_or(""), "where does the topology come from?", hint);
        }
        let mut topology = Topology::default();
        let mut scripts = Vec::new();
        let format = section.choice("format", &Format::ALL);
        if let Some(path) = section.path("file", folder) {
            let loaded = Topology::load(&path, format).map_err(|error| error.to_string());
            let loaded = section.kept("file", loaded, "see the documentation of its format");
            self.is_incomplete |= loaded.is_none();
            topology = loaded.unwrap_or_default();
        }
        match generated(section, head) {
            Some(generated) => topology = generated,
            None => self.is_incomplete |= section.has("generate"),
        }
        let from = duration(section, "contacts_from", Duration::ZERO, TIME_MAX).unwrap_or_default();
        if let Some(path) = section.path("contacts", folder) {
            let file = path.display().to_string();
            let read = link::text_of(&path)
                .and_then(|text| contacts::parse(&file, &text, from).map_err(|error| error.to_string()));
            let contacts = section.kept("contacts", read, "lines are: time CONN node node up|down");
            self.is_incomplete |= contacts.is_none();
            if let Some(contacts) = contacts {
                let place = |name: &String| Place { name: name.clone(), location: None };
                topology.places = contacts.nodes.iter().map(place).collect();
                for ((a, b), script) in contacts.pairs {
                    topology.edges.push(Edge::between(a, b));
                    scripts.push(script);
                }
            }
        }
        let components = [("all", false), ("largest", true)];
        if section.choice("component", &components) == Some(true) && scripts.is_empty() {
            topology = topology.largest_component();
        }
        (topology, scripts)
    }

    // ---- [[node]] and [[link]]

    fn node(&mut self, section: Section<'a>, head: &Head) {
        let label = required(&section, "label", "give the node a name, such as label = \"attic\"");
        let family = section.choice("family", &Family::ALL);
        let roles = section.choices("roles", &Role::ALL);
        let roles: Option<BTreeSet<Role>> = roles.map(|roles| roles.into_iter().map(|role| role.value).collect());
        let Some(label) = label else { return };
        if label.value.is_empty() || label.value.len() > LABEL_BYTES_MAX {
            let message = format!("'label' has {} bytes", label.value.len());
            section.problem(label.span, message, format!("write 1 to {LABEL_BYTES_MAX} bytes"));
            return;
        }
        match self.indices.get(&label.value) {
            Some(index) if self.nodes[*index].section.is_some() => {
                let message = format!("there are two nodes '{}'", label.value);
                section.problem(label.span, message, "give one of them another label");
            }
            // A node of the topology: this section changes it.
            Some(index) => {
                let node = &mut self.nodes[*index];
                node.family = family.unwrap_or(node.family);
                node.roles = roles.unwrap_or_else(|| node.roles.clone());
                node.section = Some(section);
            }
            None => self.add(label.value, family.unwrap_or(head.family), roles.unwrap_or_default(), Some(section)),
        }
    }
    fn link(&mut self, section: Section<'_>, base: &LinkConfig, folder: &Path, scenario: &mut Scenario) {
        let name = section.text("name");
        let ends = section.texts("ends");
        if ends.is_none() && !section.has("ends") {
            section.missing("ends", "name the two nodes that it joins: ends = [\"a\", \"b\"]");
        }
        let mut known = None;
        if let Some(ends) = ends {
            match &ends[..] {
                [a, b] if a.value == b.value => {
                    let hint = "a link joins two different nodes";
                    section.problem(b.span.clone(), format!("this link leads from '{}' to itself", a.value), hint);
                }
                [a, b] => {
                    if self.check(&section, a) & self.check(&section, b) {
                        known = Some([a.value.clone(), b.value.clone()]);
                    }
                }
                _ => {
                    section.wrong("ends", format!("'ends' has {} entries", ends.len()), "a link has two ends");
                }
            }
        }
        // This section changes an existing link of the topology.
        let existing = known.as_ref().filter(|_| name.is_none()).and_then(|ends| {
            let turned = [ends[1].clone(), ends[0].clone()];
            scenario.links.iter().position(|link| link.ends == *ends || link.ends == turned)
        });
        let start = existing.map_or(base, |index| &scenario.links[index].forward).clone();
        let forward = link::keys(&section, start.clone(), folder, Mtu::Own);
        let backward = section.section("back").map(|back| link::read(back, start, folder, Mtu::Own));
        let backward = backward.unwrap_or_else(|| forward.clone());
        match (existing, known) {
            (Some(index), Some(ends)) => {
                let link = &mut scenario.links[index];
                let is_turned = link.ends != ends;
                (link.forward, link.backward) = if is_turned { (backward, forward) } else { (forward, backward) };
            }
            (None, Some(ends)) => {
                if let Some(name) = name.as_ref().filter(|name| scenario.link(&name.value).is_some()) {
                    let message = format!("there are two links '{}'", name.value);
                    section.problem(name.span.clone(), message, "give one of them another name");
                } else {
                    self.push(scenario, name.map(|name| name.value), ends, forward, backward);
                }
            }
            (_, None) => {}
        }
        section.finish();
    }
}

/// The maximum length of a label, so that it fits into a hello.
const LABEL_BYTES_MAX: usize = 32;

/// A file's settings for one direction of a link, which override the scenario's settings for all links.
fn with_way(base: &LinkConfig, way: &Way) -> LinkConfig {
    LinkConfig {
        rate: way.rate.or(base.rate),
        delay: way.delay.unwrap_or(base.delay),
        jitter: way.jitter.unwrap_or(base.jitter),
        loss: way.loss.map_or_else(|| base.loss.clone(), Loss::Bernoulli),
        queue_packets: way.queue_packets.or(base.queue_packets),
        discipline: way.discipline.unwrap_or(base.discipline),
        ..base.clone()
    }
}

/// `generate = "grid"` and its relatives.
fn generated(section: &Section<'_>, head: &Head) -> Option<Topology> {
    let kinds = [("grid", 0), ("tree", 1), ("barabasi-albert", 2), ("waxman", 3)];
    let kind = section.choice("generate", &kinds)?;
    let integer = |key, range| {
        let value = section.integer(key, range);
        if value.is_none() && !section.has(key) {
            section.missing(key, "write an integer");
        }
        value.map(|value| value as usize)
    };
    let seed = section.integer("seed", 0..=i64::MAX as u64).unwrap_or(head.seed);
    match kind {
        0 => {
            let (rows, columns) = (integer("rows", 1..=1_000), integer("columns", 1..=1_000));
            Some(generate::grid(rows?, columns?))
        }
        1 => {
            let (depth, fanout) = (integer("depth", 0..=16), integer("fanout", 1..=100));
            let (depth, fanout) = (depth? as u32, fanout?);
            let leaves = (fanout as u64).checked_pow(depth).filter(|leaves| *leaves <= PLACES_MAX);
            if leaves.is_none() {
                let message = format!("a tree of depth {depth} and fanout {fanout} has more than {PLACES_MAX} places");
                section.wrong("depth", message, "make it smaller");
                return None;
            }
            Some(generate::tree(depth, fanout))
        }
        2 => {
            let (places, links) = (integer("places", 2..=PLACES_MAX), integer("links", 1..=1_000));
            let (places, links) = (places?, links?);
            if links >= places {
                let message = format!("{places} places cannot have {links} links each");
                section.wrong("links", message, "make 'links' smaller than 'places'");
                return None;
            }
            Some(generate::barabasi_albert(places, links, seed))
        }
        _ => {
            let places = integer("places", 1..=5_000);
            let alpha = section.number("alpha", 1e-6..=1e6).unwrap_or(0.15);
            let beta = section.share("beta").unwrap_or(0.4);
            let side = duration(section, "side", Duration::ZERO, link::DELAY_MAX).unwrap_or(Duration::from_millis(20));
            Some(generate::waxman(places?, alpha, beta, side, seed))
        }
    }
}

/// Places in a generated network, at most.
const PLACES_MAX: u64 = 100_000;
