//! Building a scenario and running it.
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
    rc::Rc,
    sync::{Arc, atomic::AtomicBool},
};
use tributary_content::{MemoryObject, ObjectReader};
use tributary_core::{
    FaceId, FaceProtection, PathId, Random, Rate, Time, TransferId,
    event::{Event, TransferEvent, TransferReport},
};
use tributary_sim::{Connection, Network, NodeIndex, RunEnd};
use tributary_transport::{FaceOptions, FaceSecurity, Fetch};

use super::{
    GUEST_HEADER_BYTES, Guest, Seat, SeatFace, SimulatedNode,
    guest::Route,
    lines::EventLines,
    node::Seated,
    outcome::{LinkOutcome, LinkSample, NodeOutcome, Outcome, PathSample, TransferOutcome},
    routes::routes,
    samples::Samples,
    scenario::{Direction, Fault, FetchSpec, Host, LinkSpec, NodeSpec, RunUntil, Scenario, ScenarioError},
    store::{Comparing, Gated, Shelf},
};
use crate::faults::FAULTY_CACHES;
use tributary::{fault::CorruptObject, simulated::AssignedRoute};

/// A scenario that is built and may be run.
pub struct Simulation {
    network: Network<SimulatedNode>,
    plan: Rc<Plan>,
    connections: Vec<Connection>,
    state: Rc<RefCell<State>>,
    samples: Samples,
    /// When guests were last sampled, and the bytes that their paths had by then.
    guest_bytes: BTreeMap<(usize, PathId), (Time, u64)>,
}

/// What does not change while it runs.
struct Plan {
    scenario: Scenario,
    places: BTreeMap<String, NodeIndex>,
    /// Guest → its node and its index there.
    seats: BTreeMap<String, (NodeIndex, usize)>,
    /// Per node: its guests, as indices into the scenario's, in the order of their seats.
    guests_at: Vec<Vec<usize>>,
    /// Per guest: its faces, with the route of each.
    faces_of: Vec<Vec<(SeatFace, u16)>>,
    routes: Arc<Vec<Route>>,
    /// Per node: its links, face 1 first.
    links_at: Vec<Vec<usize>>,
    objects: Arc<Vec<MemoryObject>>,
    /// Per node: its static routes, if the family needs them.
    assigned: Vec<Vec<AssignedRoute>>,
}

/// The observations of a run.
struct State {
    fetches: Vec<FetchState>,
    of_transfer: BTreeMap<(NodeIndex, TransferId), usize>,
    /// Ended before the transfer's number was known: a fetch may fail at once.
    ended_early: BTreeSet<(NodeIndex, TransferId)>,
    ended: usize,
    /// Ended, and the account not kept yet.
    fresh: Vec<usize>,
    starts: Vec<u64>,
    events: EventLines,
}

struct FetchState {
    id: Option<TransferId>,
    /// Its last report, once it has ended.
    report: Option<TransferReport>,
    shelf: Shelf,
    has_ended: bool,
    is_completed: bool,
}

impl Simulation {
    /// Builds a scenario and runs it to its end.
    ///
    /// # Errors
    /// [`ScenarioError`] if a name in it means nothing.
    pub fn run(scenario: &Scenario) -> Result<Outcome, ScenarioError> {
        Ok(Simulation::new(scenario)?.finish())
    }
    /// Builds a scenario. Nothing has happened yet.
    ///
    /// # Errors
    /// [`ScenarioError`] if a name in it means nothing.
    pub fn new(scenario: &Scenario) -> Result<Simulation, ScenarioError> {
        scenario.check()?;
        let plan = Rc::new(Plan::new(scenario.clone())?);
        let state = Rc::new(RefCell::new(State {
            fetches: scenario.fetches.iter().map(|_| FetchState::new()).collect(),
            of_transfer: BTreeMap::new(),
            ended_early: BTreeSet::new(),
            ended: 0,
            fresh: Vec::new(),
            starts: vec![0; scenario.nodes.len()],
            events: EventLines::new(scenario.keeps_events, scenario.events_max),
        }));
        let mut network = Network::new(scenario.seed);
        let (watched, labels) = (Rc::clone(&state), Rc::clone(&plan));
        network.set_observer(move |now, node, event| watched.borrow_mut().on_event(&labels, now, node, event));
        for node in 0..scenario.nodes.len() {
            network.add_node(plan.make(node, 0));
        }
        let connections = plan.connect(&mut network);
        for node in 0..scenario.nodes.len() {
            let (plan, index) = (Rc::clone(&plan), NodeIndex(node as u32));
            network.with(index, |made, now| plan.add_faces(node, made, now));
        }
        let mut simulation = Simulation {
            network,
            plan,
            connections,
            state,
            samples: Samples::new(scenario.sampling, scenario.samples_max),
            guest_bytes: BTreeMap::new(),
        };
        simulation.plan_workload();
        Ok(simulation)
    }
    /// The network, to look at or to tap.
    pub fn network(&self) -> &Network<SimulatedNode> {
        &self.network
    }
    /// The network, to tap or to plan more.
    pub fn network_mut(&mut self) -> &mut Network<SimulatedNode> {
        &mut self.network
    }
    /// Writes events to `out` as they happen, one line each, whether or not the scenario keeps them, and keeps none.
    /// Ask [`Simulation::events_error`] when the run is over.
    pub fn write_events(&mut self, out: Box<dyn io::Write>) {
        self.state.borrow_mut().events.write_to(out);
    }
    /// Why events could not be written.
    pub fn events_error(&self) -> Option<io::Error> {
        self.state.borrow_mut().events.finish().err()
    }
    /// The place of a node by its label.
    pub fn node(&self, label: &str) -> Option<NodeIndex> {
        self.plan.places.get(label).copied()
    }
    /// The two directions of a link by its name.
    pub fn connection(&self, link: &str) -> Option<Connection> {
        let index = self.plan.scenario.links.iter().position(|of| of.name == link)?;
        Some(self.connections[index])
    }
    /// Runs it to its end.
    pub fn finish(mut self) -> Outcome {
        let limit = self.plan.scenario.limit;
        while !self.advance(limit) {}
        self.outcome()
    }
    /// Runs it up to `time`, or to its end if that is earlier; returns whether it has ended.
    pub fn advance(&mut self, time: Time) -> bool {
        let scenario = &self.plan.scenario;
        let (limit, until) = (time.min(scenario.limit), scenario.until);
        let is_last = limit == scenario.limit;
        let total = scenario.fetches.len();
        loop {
            let sample_due = self.samples.due();
            let due = sample_due.map_or(limit, |due| due.min(limit));
            let state = Rc::clone(&self.state);
            let is_over = move || match until {
                RunUntil::FetchesEnd => total > 0 && state.borrow().ended >= total,
                RunUntil::FetchEnds(fetch) => state.borrow().fetches.get(fetch).is_none_or(|fetch| fetch.has_ended),
                RunUntil::Limit => false,
            };
            let state = Rc::clone(&self.state);
            let end = self.network.run_while(due, |_| state.borrow().fresh.is_empty() && !is_over());
            self.keep_reports();
            if sample_due.is_some_and(|due| self.network.now() >= due || is_over()) {
                self.sample();
            }
            match end {
                RunEnd::ConditionEnded if is_over() => return true,
                RunEnd::Idle => return true,
                RunEnd::LimitReached if self.network.now() >= limit => return is_last,
                RunEnd::ConditionEnded | RunEnd::LimitReached => {}
            }
        }
    }
    /// Keeps the reports of fetches that have just ended: a node forgets all but the last of them.
    fn keep_reports(&mut self) {
        let fresh = std::mem::take(&mut self.state.borrow_mut().fresh);
        for index in fresh {
            let report = self.report(index);
            self.state.borrow_mut().fetches[index].report = report;
        }
    }
    fn report(&self, index: usize) -> Option<TransferReport> {
        let (place, _) = self.plan.fetcher(&self.plan.scenario.fetches[index]);
        let id = self.state.borrow().fetches[index].id?;
        if !self.network.is_alive(place) {
            return None;
        }
        self.network.node(place).report(self.network.now(), id)
    }
    /// The outcome so far.
    pub fn outcome(self) -> Outcome {
        let scenario = &self.plan.scenario;
        let transfers = (0..scenario.fetches.len()).map(|fetch| self.transfer(fetch)).collect();
        let links = self.directions().map(|(spec, from, to, link)| LinkOutcome {
            link: spec.name.clone(),
            from: from.into(),
            to: to.into(),
            rate: link.rate(),
            stats: link.stats(),
            overhead_bytes: spec.forward.overhead_bytes,
            in_flight_packets: link.in_flight(),
        });
        let nodes = scenario.nodes.iter().zip(0..).map(|(node, index)| {
            let index = NodeIndex(index);
            let place = self.network.is_alive(index).then(|| self.network.node(index));
            let status = place.and_then(SimulatedNode::endpoint).map(|endpoint| endpoint.status(self.network.now()));
            NodeOutcome { label: node.label.clone(), status }
        });
        let (events, events_dropped) = self.state.borrow_mut().events.take();
        Outcome {
            scenario: scenario.name.clone(),
            seed: scenario.seed,
            ended: self.network.now(),
            transfers,
            links: links.collect(),
            nodes: nodes.collect(),
            faults: scenario.faults.iter().map(|planned| (planned.at, planned.fault.to_string())).collect(),
            events,
            events_dropped,
            stats: self.network.stats(),
            trace_hash: self.network.trace_hash(),
            path_samples: self.samples.paths,
            link_samples: self.samples.links,
        }
    }

    fn transfer(&self, index: usize) -> TransferOutcome {
        let spec = &self.plan.scenario.fetches[index];
        let state = self.state.borrow();
        let fetch = &state.fetches[index];
        let (place, is_endpoint) = self.plan.fetcher(spec);
        let node = self.network.is_alive(place).then(|| self.network.node(place));
        let report = fetch.report.clone().or_else(|| self.report(index));
        let is_verified = if is_endpoint {
            Some(fetch.shelf.is_right())
        } else {
            node.zip(fetch.id).and_then(|(node, id)| node.is_verified(id))
        };
        TransferOutcome {
            node: spec.node.clone(),
            name: spec.name.clone(),
            report,
            is_completed: fetch.is_completed,
            is_verified,
            wrong_chunks: fetch.shelf.wrong_chunks(),
        }
    }
    fn directions(&self) -> impl Iterator<Item = (&LinkSpec, &str, &str, &tributary_core::link::Link)> {
        self.plan.scenario.links.iter().zip(&self.connections).flat_map(|(spec, connection)| {
            let [a, b] = &spec.ends;
            [
                (spec, a.as_str(), b.as_str(), self.network.link(connection.a_to_b)),
                (spec, b.as_str(), a.as_str(), self.network.link(connection.b_to_a)),
            ]
        })
    }
    fn sample(&mut self) {
        let now = self.network.now();
        let mut paths = Vec::new();
        let state = self.state.borrow();
        for (index, (spec, fetch)) in self.plan.scenario.fetches.iter().zip(&state.fetches).enumerate() {
            let (place, is_endpoint) = self.plan.fetcher(spec);
            let Some(id) = fetch.id.filter(|_| !fetch.has_ended && self.network.is_alive(place)) else { continue };
            let Some(report) = self.network.node(place).report(now, id) else { continue };
            for path in report.paths {
                let source = report.sources.iter().find(|source| source.source == path.source);
                // A guest reports bytes only.
                let (since, bytes) = self.guest_bytes.insert((index, path.path), (now, path.bytes)).unwrap_or_default();
                let measured = || Rate::over(path.bytes.saturating_sub(bytes), now.since(since)).unwrap_or_default();
                let rate = if is_endpoint { path.rate } else { measured() };
                paths.push(PathSample {
                    time: now,
                    transfer: index,
                    path: path.path,
                    source: source.map(|source| source.label.clone()).unwrap_or_default(),
                    label: path.label,
                    state: path.state,
                    bytes: path.bytes,
                    in_flight_bytes: path.in_flight_bytes,
                    window_bytes: path.window_bytes,
                    rate,
                    rtt: path.rtt,
                });
            }
        }
        drop(state);
        let links: Vec<LinkSample> = self
            .directions()
            .enumerate()
            .map(|(index, (_, _, _, link))| {
                let stats = link.stats();
                LinkSample {
                    time: now,
                    link: index,
                    out_bytes: stats.out_bytes,
                    out_packets: stats.out_packets,
                    queue_bytes: stats.queue_bytes,
                    dropped_packets: stats.dropped_packets,
                    rate: link.rate(),
                }
            })
            .collect();
        self.samples.take(now, paths, links);
    }

    // ---- planning

    fn plan_workload(&mut self) {
        for index in 0..self.plan.scenario.publications.len() {
            let plan = Rc::clone(&self.plan);
            let at = plan.scenario.publications[index].at;
            self.network.at(at, move |network| plan.publish(network, index));
        }
        for index in 0..self.plan.scenario.fetches.len() {
            let (plan, state) = (Rc::clone(&self.plan), Rc::clone(&self.state));
            let at = plan.scenario.fetches[index].at;
            self.network.at(at, move |network| plan.fetch(network, &state, index));
        }
        for planned in self.plan.scenario.faults.clone() {
            let (plan, state) = (Rc::clone(&self.plan), Rc::clone(&self.state));
            let connections = self.connections.clone();
            self.network.at(planned.at, move |network| plan.fail(network, &state, &connections, planned.fault));
        }
    }
}

impl Plan {
    fn new(scenario: Scenario) -> Result<Plan, ScenarioError> {
        let places: BTreeMap<_, _> =
            scenario.nodes.iter().zip(0..).map(|(node, index)| (node.label.clone(), NodeIndex(index))).collect();
        let mut links_at = vec![Vec::new(); scenario.nodes.len()];
        for (index, link) in scenario.links.iter().enumerate() {
            for end in &link.ends {
                links_at[places[end].0 as usize].push(index);
            }
        }
        let mut guests_at = vec![Vec::new(); scenario.nodes.len()];
        let mut seats = BTreeMap::new();
        for (index, guest) in scenario.guests.iter().enumerate() {
            let at = places[&guest.at];
            seats.insert(guest.name.clone(), (at, guests_at[at.0 as usize].len()));
            guests_at[at.0 as usize].push(index);
        }
        let objects = Arc::new(scenario.publications.iter().map(|of| of.object.clone()).collect());
        let (faces_of, routes) = (Vec::new(), Arc::new(Vec::new()));
        let mut plan =
            Plan { scenario, places, seats, guests_at, faces_of, routes, links_at, objects, assigned: Vec::new() };
        plan.assign_routes();
        plan.route_guests()?;
        Ok(plan)
    }
    /// Computes the routes of the nodes that need them.
    fn assign_routes(&mut self) {
        let wants = |node: &NodeSpec| matches!(&node.host, Host::Endpoint(config) if config.needs_routes());
        self.assigned = vec![Vec::new(); self.scenario.nodes.len()];
        if self.scenario.nodes.iter().any(wants) {
            let nodes = (0..self.scenario.nodes.len()).map(|node| NodeIndex(node as u32));
            let far = |node: NodeIndex, link: &usize| self.leave(node, *link).1.0 as usize;
            let neighbours: Vec<Vec<usize>> =
                nodes.map(|node| self.links_at[node.0 as usize].iter().map(|link| far(node, link)).collect()).collect();
            self.assigned = routes(&self.scenario, &neighbours);
        }
    }
    /// Gives every guest its faces and every face its route.
    fn route_guests(&mut self) -> Result<(), ScenarioError> {
        let guests = &self.scenario.guests;
        let mut peers: Vec<Vec<&str>> =
            guests.iter().map(|guest| guest.peers.iter().map(String::as_str).collect()).collect();
        for guest in guests {
            for peer in &guest.peers {
                let index = guests.iter().position(|of| of.name == *peer).expect("the scenario was checked");
                if !peers[index].contains(&guest.name.as_str()) {
                    peers[index].push(&guest.name);
                }
            }
        }
        let mut routes = Vec::new();
        let mut faces_of = Vec::new();
        for (guest, of) in guests.iter().zip(&peers) {
            let mut faces = Vec::new();
            for (peer, number) in of.iter().zip(0..) {
                let (from, _) = self.seats[&guest.name];
                let (to, seat) = self.seats[*peer];
                let no_way = || ScenarioError::NoWay { from: guest.name.clone(), to: (*peer).into() };
                let (ways, mtu, rate) = self.way(from, to).ok_or_else(no_way)?;
                let back = guests.iter().position(|of| of.name == **peer).expect("the scenario was checked");
                let face = peers[back].iter().position(|name| *name == guest.name).unwrap_or(0);
                let route = u16::try_from(routes.len()).map_err(|_| no_way())?;
                routes.push(Route { faces: ways, guest: seat, face: FaceId(face as u32) });
                faces.push((SeatFace { face: FaceId(number), peer: (*peer).into(), mtu, rate }, route));
            }
            faces_of.push(faces);
        }
        (self.faces_of, self.routes) = (faces_of, Arc::new(routes));
        Ok(())
    }
    /// The faces of the fastest path by propagation delay (then by links), the maximum datagram of a guest on it, and
    /// the rate of its narrowest link.
    fn way(&self, from: NodeIndex, to: NodeIndex) -> Option<(Vec<FaceId>, u32, Option<Rate>)> {
        let mut best: BTreeMap<NodeIndex, (u128, usize)> = BTreeMap::from([(from, (0, 0))]);
        let mut came: BTreeMap<NodeIndex, (NodeIndex, FaceId, usize)> = BTreeMap::new();
        let mut queue = BTreeSet::from([((0, 0), from)]);
        while let Some(((delay, hops), node)) = queue.pop_first() {
            for (face, link) in self.links_at[node.0 as usize].iter().enumerate() {
                let (spec, next) = self.leave(node, *link);
                let cost = (delay + spec.delay.as_nanos(), hops + 1);
                if best.get(&next).is_none_or(|known| cost < *known) {
                    best.insert(next, cost);
                    came.insert(next, (node, FaceId(face as u32 + 1), *link));
                    queue.insert((cost, next));
                }
            }
        }
        let (mut faces, mut mtu, mut rate, mut at) = (VecDeque::new(), u32::MAX, None, to);
        while at != from {
            let (before, face, link) = *came.get(&at)?;
            let (spec, _) = self.leave(before, link);
            mtu = mtu.min(spec.mtu.saturating_sub(GUEST_HEADER_BYTES as u32));
            rate = match (rate, spec.rate) {
                (Some(a), Some(b)) => Some(std::cmp::min::<Rate>(a, b)),
                (a, b) => a.or(b),
            };
            faces.push_front(face);
            at = before;
        }
        Some((faces.into(), mtu, rate))
    }
    /// How a link is when it is entered at `node`, and where it leads.
    fn leave(&self, node: NodeIndex, link: usize) -> (&tributary_core::link::LinkConfig, NodeIndex) {
        let link = &self.scenario.links[link];
        let [a, b] = [self.places[&link.ends[0]], self.places[&link.ends[1]]];
        if a == node { (&link.forward, b) } else { (&link.backward, a) }
    }

    /// Creates a node's occupant; `start` counts its starts.
    fn make(&self, node: usize, start: u64) -> SimulatedNode {
        let seed = |stream: u64| Random::new(self.scenario.seed, stream).bits().wrapping_add(start.wrapping_mul(START));
        let endpoint = match &self.scenario.nodes[node].host {
            Host::Endpoint(config) => {
                let seed = config.seed.map_or_else(|| seed(NODE_STREAMS + node as u64), |seed| seed + start);
                let routes = if config.needs_routes() { &self.assigned[node][..] } else { &[] };
                let mut config = (**config).clone();
                config.wrapper = FAULTY_CACHES;
                Some(config.simulate(seed, routes))
            }
            Host::Bare => None,
        };
        let guests = self.guests_at[node].iter().map(|index| {
            let (spec, faces) = (&self.scenario.guests[*index], &self.faces_of[*index]);
            let seat = Seat {
                name: spec.name.clone(),
                seed: seed(GUEST_STREAMS + *index as u64),
                faces: faces.iter().map(|(face, _)| face.clone()).collect(),
            };
            let guest: Box<dyn Guest> = spec.make.make(&seat);
            Seated { guest, routes: faces.iter().map(|(_, route)| *route).collect() }
        });
        SimulatedNode::new(endpoint, guests.collect(), Arc::clone(&self.routes), Arc::new(AtomicBool::new(true)))
    }
    fn connect(&self, network: &mut Network<SimulatedNode>) -> Vec<Connection> {
        let face = |node: NodeIndex, link: usize| {
            let index = self.links_at[node.0 as usize].iter().position(|of| *of == link);
            FaceId(index.expect("both ends know the link") as u32 + 1)
        };
        let links = self.scenario.links.iter().enumerate();
        let connect = links.map(|(index, link)| {
            let [a, b] = [self.places[&link.ends[0]], self.places[&link.ends[1]]];
            network.connect((a, face(a, index)), (b, face(b, index)), link.forward.clone(), link.backward.clone())
        });
        connect.collect()
    }
    fn add_faces(&self, node: usize, made: &mut SimulatedNode, now: Time) {
        let Some(endpoint) = made.endpoint_mut() else { return };
        for (link, face) in self.links_at[node].iter().zip(1..) {
            let (spec, _) = self.leave(NodeIndex(node as u32), *link);
            let protection = FaceProtection::Required;
            let security = FaceSecurity { protection, peer_key: None, endpoints: Vec::new() };
            endpoint.set_security(FaceId(face), security);
            endpoint.add_face(now, FaceId(face), FaceOptions { mtu: spec.mtu, rate: spec.rate });
        }
    }

    // ---- events

    fn publish(&self, network: &mut Network<SimulatedNode>, index: usize) {
        let publication = &self.scenario.publications[index];
        let node = self.places[&publication.node];
        if network.is_alive(node) {
            network.with(node, |node, now| self.publish_at(node, now, index));
        }
    }
    fn publish_at(&self, node: &mut SimulatedNode, now: Time, index: usize) {
        let publication = &self.scenario.publications[index];
        let place = self.places[&publication.node];
        let serves = node.serves();
        let Some(endpoint) = node.endpoint_mut() else { return };
        let mut reader: Box<dyn ObjectReader> = Box::new(publication.object.clone());
        if let Host::Endpoint(config) = &self.scenario.nodes[place.0 as usize].host
            && config.faults.corrupt_chunks > 0.0
        {
            reader = Box::new(CorruptObject::new(reader, config.faults.corrupt_chunks, self.scenario.seed));
        }
        endpoint.publish(now, Box::new(Gated { inner: reader, serves }));
    }
    /// Where a fetch takes place, and whether an endpoint performs it.
    fn fetcher(&self, spec: &FetchSpec) -> (NodeIndex, bool) {
        match self.seats.get(&spec.node) {
            Some((place, _)) => (*place, false),
            None => {
                let place = self.places[&spec.node];
                (place, matches!(self.scenario.nodes[place.0 as usize].host, Host::Endpoint(_)))
            }
        }
    }
    fn fetch(&self, network: &mut Network<SimulatedNode>, state: &RefCell<State>, index: usize) {
        let spec = &self.scenario.fetches[index];
        let (place, _) = self.fetcher(spec);
        if !network.is_alive(place) {
            return;
        }
        let shelf = state.borrow().fetches[index].shelf.clone();
        let guest = self.seats.get(&spec.node).map(|(_, seat)| *seat);
        let id = network.with(place, |node, now| {
            if let Some(guest) = guest {
                return node.fetch_as_guest(now, guest, &spec.name);
            }
            let opener = Box::new(Comparing { shelf, objects: Arc::clone(&self.objects) });
            let fetch = Fetch {
                name: spec.name.clone(),
                opener,
                rate_limit: spec.rate_limit,
                paths_per_source: spec.paths_per_source,
                metric: spec.metric,
                patience: spec.patience,
            };
            node.endpoint_mut().map(|endpoint| endpoint.fetch(now, fetch))
        });
        state.borrow_mut().on_fetch(place, index, id);
    }
    fn fail(
        &self,
        network: &mut Network<SimulatedNode>,
        state: &RefCell<State>,
        connections: &[Connection],
        fault: Fault,
    ) {
        let with = |network: &mut Network<SimulatedNode>, node: &str, command: fn(&mut SimulatedNode)| {
            let place = self.places[node];
            if network.is_alive(place) {
                network.with(place, |node, _| command(node));
            }
        };
        match fault {
            Fault::Link { link, direction, change } => {
                let index = self.scenario.links.iter().position(|of| of.name == link);
                let connection = connections[index.expect("the scenario was checked")];
                match direction {
                    Direction::Both => network.change(connection, change),
                    Direction::Forward => network.change_link(connection.a_to_b, change),
                    Direction::Backward => network.change_link(connection.b_to_a, change),
                }
            }
            Fault::Kill { node } => {
                network.kill(self.places[&node]);
            }
            Fault::Start { node } => self.start(network, state, &node),
            Fault::Freeze { node } => with(network, &node, |node| node.set_frozen(true)),
            Fault::Thaw { node } => with(network, &node, |node| node.set_frozen(false)),
            Fault::StopServing { node } => with(network, &node, |node| node.set_serving(false)),
            Fault::ServeAgain { node } => with(network, &node, |node| node.set_serving(true)),
        }
    }
    fn start(&self, network: &mut Network<SimulatedNode>, state: &RefCell<State>, label: &str) {
        let place = self.places[label];
        let node = place.0 as usize;
        let start = {
            let mut state = state.borrow_mut();
            state.starts[node] += 1;
            state.of_transfer.retain(|(of, _), _| *of != place);
            state.starts[node]
        };
        network.restart(place, |now| {
            let mut made = self.make(node, start);
            self.add_faces(node, &mut made, now);
            for (index, publication) in self.scenario.publications.iter().enumerate() {
                if publication.node == label && publication.at <= now {
                    self.publish_at(&mut made, now, index);
                }
            }
            made
        });
        for (index, spec) in self.scenario.fetches.iter().enumerate() {
            let is_open = !state.borrow().fetches[index].has_ended;
            if self.fetcher(spec).0 == place && spec.at <= network.now() && is_open {
                self.fetch(network, state, index);
            }
        }
    }
}

impl State {
    fn on_fetch(&mut self, place: NodeIndex, index: usize, id: Option<TransferId>) {
        let Some(id) = id else {
            // The node there cannot fetch.
            self.end(index, false);
            return;
        };
        self.fetches[index].id = Some(id);
        self.of_transfer.insert((place, id), index);
        if self.ended_early.remove(&(place, id)) {
            self.end(index, false);
        }
    }
    fn on_event(&mut self, plan: &Plan, now: Time, node: NodeIndex, event: &Event) {
        self.events.on_event(now, &plan.scenario.nodes[node.0 as usize].label, event);
        let (id, is_completed) = match event {
            Event::Transfer(id, TransferEvent::Completed) => (*id, true),
            Event::Transfer(id, TransferEvent::Failed { .. }) => (*id, false),
            _ => return,
        };
        match self.of_transfer.get(&(node, id)) {
            Some(index) => self.end(*index, is_completed),
            None => {
                self.ended_early.insert((node, id));
            }
        }
    }
    fn end(&mut self, index: usize, is_completed: bool) {
        let fetch = &mut self.fetches[index];
        if !fetch.has_ended {
            (fetch.has_ended, fetch.is_completed) = (true, is_completed);
            self.ended += 1;
            self.fresh.push(index);
        }
    }
}

impl FetchState {
    fn new() -> Self {
        FetchState { id: None, report: None, shelf: Shelf::default(), has_ended: false, is_completed: false }
    }
}

/// The first random stream of nodes' seeds.
const NODE_STREAMS: u64 = 1 << 16;
/// The first random stream of guests' seeds.
const GUEST_STREAMS: u64 = 1 << 24;
/// Keeps the seeds of a node's lives apart.
const START: u64 = 0x9e37_79b9_7f4a_7c15;
