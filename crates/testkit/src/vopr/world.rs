//! A running plan: nodes, links, each user's wishes, and active faults.
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
};

use tributary_content::{MemoryObject, Name};
use tributary_core::{
    Duration, Random, Time, TransferId,
    event::Event,
    link::{LinkChange, LinkState, Loss, Reorder},
};
use tributary_sim::{Connection, Network, NodeIndex};
use tributary_transport::{Endpoint, FaceOptions, Fetch};

use super::{
    canary::Canary,
    certified,
    controlled_node::Puppet,
    disk::{Clock, Death, Disk, Pace, Trouble},
    family::Family,
    faults::{Farewell, Fault, FaultKind, Memory, What},
    group_messages::Sent,
    ledger::{End, Ledger, Narrator, Withdrawn},
    plan::Plan,
    profile::Profile,
    promised_messages::Promise,
    published_objects::{FaultyReader, Truth, Vault, key, make_object},
    workload::{FetchSpec, Operation},
};

/// A running plan.
pub(super) struct World<'a, F: Family> {
    pub(super) plan: &'a Plan<F::Settings>,
    pub(super) net: Network<Puppet<F::Node>>,
    pub(super) people: Vec<Person>,
    pub(super) ledger: Rc<RefCell<Ledger>>,
    pub(super) connections: Vec<Connection>,
    pub(super) truth: Arc<Truth>,
    /// The identifier of each node in reports of sent messages.
    pub(super) guids: Vec<String>,
    /// What outlives the nodes.
    disks: Vec<Disk>,
    paces: Vec<Pace>,
    clock: Clock,
    /// Nodes that never start again.
    pub(super) gone: BTreeSet<usize>,
    /// By the numbers of the messages.
    pub(super) promises: BTreeMap<usize, Promise>,
    /// Senders that have nothing more to do, and end.
    pub(super) dismissed: BTreeSet<usize>,
    /// When each node died last.
    died_at: Vec<Time>,
    /// How often nodes that have died broke a promise that they may break.
    pub(super) broken: u64,
    canary: Option<Canary>,
    random: Random,
    objects: BTreeMap<(usize, u64, bool), MemoryObject>,
    agenda: BTreeMap<(Time, u64), Action>,
    sequence: u64,
    /// How many faults cut each link.
    cuts: Vec<u32>,
    /// Links of devices that are away, or back over other links.
    out_of_reach: BTreeSet<usize>,
    /// Datagrams given to nodes by hand.
    pub(super) injected: u64,
}

/// The wishes of the user of one node.
pub(super) struct Person {
    /// The publications of this node: object and version.
    pub(super) published: BTreeMap<usize, u64>,
    /// The share of altered chunks in this node's objects.
    pub(super) lying: f64,
    /// How often an object was published or withdrawn here.
    stated: BTreeMap<usize, u32>,
    /// Objects of other nodes that are forged here.
    forged: BTreeSet<usize>,
    pub(super) watches: BTreeSet<String>,
    pub(super) wants: Vec<Want>,
    /// Groups to which it is attached.
    pub(super) attached: BTreeSet<usize>,
    /// Groups to which an earlier life was attached, unknown to this one: names take a while to lapse.
    pub(super) lapsing: BTreeSet<usize>,
    /// Groups left since the last start. A node that died out of reach has not announced that.
    pub(super) detached: BTreeSet<usize>,
    /// Its messages to groups.
    pub(super) sent: Vec<Sent>,
    /// Where it keeps received messages.
    pub(super) inbox: Vault,
    /// Messages that it was given whole, in any of its lives.
    pub(super) received: BTreeSet<usize>,
    vault: Vault,
    /// Operations to perform once the node runs again.
    deferred: Vec<Operation>,
    /// The node's knowledge when it restarts.
    memory: Memory,
}

/// A requested fetch.
pub(super) struct Want {
    pub(super) spec: FetchSpec,
    /// The transfer of the node's present life.
    pub(super) id: Option<TransferId>,
    /// How it ended; the user then no longer wants it.
    pub(super) end: Option<End>,
    vault: Vault,
    cancelled: bool,
}

/// Something on the agenda.
pub(super) enum Action {
    Operate(usize),
    Begin(usize),
    End(usize),
    Stop(usize),
    Depart(usize),
    Malformed(usize),
    Replay(usize),
}

impl<'a, F: Family> World<'a, F> {
    pub(super) fn new(plan: &'a Plan<F::Settings>, canary: Option<Canary>, narrator: Option<Narrator>) -> Self {
        let nodes = plan.topology.nodes.len();
        let takes_time = plan.profile == Profile::Product;
        let ledger = Rc::new(RefCell::new(Ledger::new(nodes, narrator, F::CACHES_ON_PATHS, takes_time)));
        let mut net = Network::new(plan.seed);
        let observer = Rc::clone(&ledger);
        net.set_observer(move |now, node, event: &Event| {
            observer.borrow_mut().on_event(now, node.0 as usize, event);
        });
        let (truth, mut random) = (Arc::new(Truth::default()), Random::new(plan.seed, 7));
        let imposters = plan.faults.iter().any(|fault| fault.kind == FaultKind::Imposter);
        let clock = Clock::default();
        let pace = |node: usize| Pace::new(clock.clone(), Random::new(plan.seed, PACES + node as u64));
        let paces: Vec<Pace> = (0..nodes).map(pace).collect();
        let person = |node: usize, random: &mut Random| {
            let pace = takes_time.then(|| paces[node].clone());
            let pinned = (imposters || random.chance(0.5)).then(|| key(true).public());
            Person {
                published: BTreeMap::new(),
                stated: BTreeMap::new(),
                lying: 0.0,
                forged: BTreeSet::new(),
                watches: BTreeSet::new(),
                wants: Vec::new(),
                attached: BTreeSet::new(),
                lapsing: BTreeSet::new(),
                detached: BTreeSet::new(),
                sent: Vec::new(),
                inbox: Vault::new(&truth, Some(key(true).public()), canary).with_pace(pace.clone()),
                received: BTreeSet::new(),
                vault: Vault::new(&truth, pinned, canary).with_pace(pace),
                deferred: Vec::new(),
                memory: Memory::Kept,
            }
        };
        let people = (0..nodes).map(|node| person(node, &mut random)).collect();
        let mut world = World {
            plan,
            net,
            people,
            ledger,
            connections: Vec::new(),
            truth,
            guids: Vec::new(),
            disks: Vec::new(),
            paces,
            clock,
            gone: BTreeSet::new(),
            promises: BTreeMap::new(),
            dismissed: BTreeSet::new(),
            died_at: vec![Time::ZERO; nodes],
            broken: 0,
            canary,
            random,
            objects: BTreeMap::new(),
            agenda: BTreeMap::new(),
            sequence: 0,
            cuts: vec![0; plan.topology.links.len()],
            out_of_reach: BTreeSet::new(),
            injected: 0,
        };
        world.build();
        world
    }
    fn build(&mut self) {
        for index in 0..self.plan.topology.nodes.len() {
            let random = Random::new(self.plan.seed, DISKS + index as u64);
            self.disks.push(Disk::new(self.clock.clone(), random));
            let puppet = self.puppet(index);
            self.net.add_node(puppet);
        }
        for link in &self.plan.topology.links {
            let [a, b] = link.ends.map(|(node, face)| (NodeIndex(node as u32), face));
            let [there, back] = link.directions.clone();
            self.connections.push(self.net.connect(a, b, there, back));
        }
        for index in 0..self.plan.topology.nodes.len() {
            self.attach_faces(index);
        }
        for node in 0..self.plan.topology.nodes.len() {
            let status = self.net.node(NodeIndex(node as u32)).inner().status(Time::ZERO);
            let guid = status.resolver.into_iter().find(|(subject, _)| subject == "guid").map(|(_, guid)| guid);
            self.guids.push(guid.unwrap_or_default());
            self.accept(node);
        }
        for (index, (time, _)) in self.plan.operations.iter().enumerate() {
            self.plan_at(*time, Action::Operate(index));
        }
        for (index, fault) in self.plan.faults.iter().enumerate() {
            self.plan_at(fault.from, Action::Begin(index));
            // A departing node needs some time to say goodbye.
            let until = if matches!(fault.what, What::Kill(..)) { fault.until + FAREWELL } else { fault.until };
            self.plan_at(until, Action::End(index));
        }
    }
    fn puppet(&mut self, index: usize) -> Puppet<F::Node> {
        self.ledger.borrow_mut().on_start(index);
        let life = self.ledger.borrow().lives[index];
        let seed = self.plan.seed.wrapping_mul(1_000_003).wrapping_add((index as u64) << 20 | life);
        let is_moody = self.canary == Some(Canary::Moody) && index == 0 && MOOD.with(|mood| mood.replace(!mood.get()));
        let seed = seed.wrapping_add(u64::from(is_moody) << 40);
        self.clock.set(self.net.now());
        let node = F::node(self.plan, index, seed, self.net.now(), &self.disks[index]);
        let mtu = self.plan.topology.links.iter().map(|link| link.face_mtu).max().unwrap_or(1_472).max(1_472);
        let random = Random::new(self.plan.seed, 1_000 + index as u64);
        let pace = self.paces[index].clone();
        pace.forget();
        Puppet::new(index, node, mtu as usize, &self.ledger, self.canary, (self.clock.clone(), pace), random)
    }
    fn attach_faces(&mut self, index: usize) {
        let links: Vec<(usize, usize)> = self.plan.topology.links_of(index).collect();
        let (topology, seed) = (&self.plan.topology, self.plan.seed);
        let certified = |node: usize| (node, &*topology.nodes[node].label, F::roles(topology, node));
        if self.plan.is_certified {
            let (node, label, roles) = certified(index);
            let identity = certified::identity(seed, node, label, roles);
            self.command(index, |node, now| node.set_identity(now, &identity));
        }
        for (link, end) in links {
            if self.plan.is_certified {
                let (node, label, roles) = certified(topology.links[link].ends[1 - end].0);
                let grant = certified::grant(seed, node, label, roles);
                let face = topology.links[link].ends[end].1;
                self.command(index, |node, now| node.handle_grant(now, face, Some(&grant)));
            }
            let spec = &self.plan.topology.links[link];
            let (face, rate) = (spec.ends[end].1, spec.directions[end].rate);
            let mtu = if F::FINDS_MTU { spec.face_mtu } else { spec.directions[end].mtu };
            let options = FaceOptions { mtu, rate };
            self.net.with(NodeIndex(index as u32), |puppet, now| {
                puppet.command(now, |node, now| node.add_face(now, face, options));
            });
        }
    }
    pub(super) fn plan_at(&mut self, time: Time, action: Action) {
        self.sequence += 1;
        self.agenda.insert((time, self.sequence), action);
    }
    /// Runs until `end`, with everything that is on the agenda by then.
    pub(super) fn run_until(&mut self, end: Time) {
        while let Some(&key) = self.agenda.keys().next()
            && key.0 <= end
        {
            let action = self.agenda.remove(&key).expect("it is the first one");
            self.net.run_until(key.0);
            self.act(action);
        }
        self.net.run_until(end);
    }
    fn act(&mut self, action: Action) {
        match action {
            Action::Operate(index) => {
                let operation = self.plan.operations[index].1.clone();
                self.operate(&operation);
            }
            Action::Begin(index) => self.begin(&self.plan.faults[index]),
            Action::End(index) => self.end(&self.plan.faults[index]),
            Action::Stop(node) => self.stop(node, Farewell::Announced),
            Action::Depart(node) => self.go(node),
            Action::Malformed(node) => self.inject(node, Self::malformed),
            Action::Replay(node) => self.inject(node, |world, _| {
                let recent = &world.ledger.borrow().recent;
                let at = world.random.below(recent.len() as u64) as usize;
                recent.get(at).cloned()
            }),
        }
    }
    pub(super) fn log(&self, line: impl FnOnce() -> String) {
        self.ledger.borrow().log(self.net.now(), line);
    }

    // What people do.

    pub(super) fn operate(&mut self, operation: &Operation) {
        let node = match operation {
            Operation::Cancel { fetch } => {
                let wants = |person: &Person| person.wants.iter().any(|want| want.spec.number == *fetch);
                self.people.iter().position(wants)
            }
            Operation::CancelSend { message } => {
                let sends = |person: &Person| person.sent.iter().any(|sent| sent.spec.number == *message);
                self.people.iter().position(sends)
            }
            _ => operation.node(),
        };
        let Some(node) = node else { return };
        match operation {
            Operation::Away { .. } => return self.leave(node),
            Operation::Back { link, .. } => return self.come_back(node, *link),
            _ => {}
        }
        if !self.is_running(node) {
            self.people[node].deferred.push(operation.clone());
            return;
        }
        self.log(|| format!("{operation:?}"));
        if let Operation::Publish { object, .. } | Operation::Unpublish { object, .. } = operation {
            *self.people[node].stated.entry(*object).or_default() += 1;
        }
        match operation {
            Operation::Publish { object, version, .. } => {
                self.people[node].published.insert(*object, *version);
                self.publish(node, *object);
            }
            Operation::Unpublish { object, .. } => {
                self.people[node].published.remove(object);
                let name = self.name(*object);
                self.command(node, |node, now| node.unpublish(now, &name));
            }
            Operation::Fetch(spec) => {
                let vault = self.people[node].vault.clone();
                self.want(spec.clone(), vault);
            }
            Operation::Cancel { fetch } => {
                let wants = self.people[node].wants.iter_mut().find(|want| want.spec.number == *fetch);
                let Some(want) = wants.filter(|want| want.end.is_none()) else { return };
                want.cancelled = true;
                if let Some(id) = want.id {
                    self.command(node, |node, now| node.cancel(now, id));
                }
            }
            Operation::Limit { fetch: None, rate, .. } => self.command(node, |node, now| node.limit(now, None, *rate)),
            Operation::Limit { fetch: Some(fetch), rate, .. } => {
                let want = self.people[node].wants.iter().find(|want| want.spec.number == *fetch);
                if let Some(id) = want.and_then(|want| want.id) {
                    self.command(node, |node, now| node.limit(now, Some(id), *rate));
                }
            }
            Operation::Watch { .. } | Operation::Unwatch { .. } if !F::HAS_LISTINGS => {}
            Operation::Watch { scope, .. } => {
                self.people[node].watches.insert(scope.clone());
                self.ledger.borrow_mut().forget_view(node, scope);
                let scope = scope.parse().expect("plans have legal names");
                self.command(node, |node, now| node.watch(now, &scope));
            }
            Operation::Unwatch { scope, .. } => {
                self.people[node].watches.remove(scope);
                let scope = scope.parse().expect("plans have legal names");
                self.command(node, |node, now| node.unwatch(now, &scope));
            }
            Operation::Attach { group, .. } => self.attach(node, *group),
            Operation::Detach { group, .. } => self.detach(node, *group),
            Operation::Send(message) => self.send(message.clone()),
            Operation::CancelSend { message } => self.cancel_send(node, *message),
            Operation::Away { .. } | Operation::Back { .. } => {}
        }
    }
    /// A fetch into `vault`, started now and again whenever the node restarts.
    pub(super) fn want(&mut self, spec: FetchSpec, vault: Vault) {
        let node = spec.node;
        self.people[node].wants.push(Want { spec, id: None, end: None, vault, cancelled: false });
        let last = self.people[node].wants.len() - 1;
        self.fetch(node, last);
    }
    /// An empty store that trusts the right key only.
    pub(super) fn fresh_vault(&self) -> Vault {
        Vault::new(&self.truth, Some(key(true).public()), self.canary)
    }
    fn fetch(&mut self, node: usize, want: usize) {
        let Want { spec, vault, .. } = &self.people[node].wants[want];
        let fetch = Fetch {
            name: self.name(spec.object),
            opener: Box::new(vault.clone()),
            rate_limit: spec.limit,
            paths_per_source: spec.paths,
            metric: spec.metric,
            patience: spec.patience,
        };
        let id = self.command(node, |node, now| node.fetch(now, fetch));
        self.people[node].wants[want].id = Some(id);
    }
    fn publish(&mut self, node: usize, object: usize) {
        let person = &self.people[node];
        let forged = person.forged.contains(&object);
        let (version, share) = (person.published.get(&object).copied().unwrap_or(1), person.lying);
        let reader = self.object(object, version, !forged);
        let name = reader_name(&reader);
        self.ledger.borrow_mut().forget_published(node, &name.to_string());
        let seed = self.plan.seed ^ node as u64;
        self.command(node, |node, now| {
            if share > 0.0 {
                node.publish(now, Box::new(FaultyReader { inner: reader, share, seed }));
            } else {
                node.publish(now, Box::new(reader));
            }
        });
    }
    fn object(&mut self, object: usize, version: u64, honest: bool) -> MemoryObject {
        let (seed, spec, truth) = (self.plan.seed, &self.plan.objects[object], &self.truth);
        let make = || {
            let made = make_object(seed, object, spec, version, honest);
            if honest {
                truth.add(&made);
            }
            made
        };
        self.objects.entry((object, version, honest)).or_insert_with(make).clone()
    }
    pub(super) fn name(&self, object: usize) -> Name {
        self.plan.objects[object].name.parse().expect("plans have legal names")
    }
    pub(super) fn command<R>(&mut self, node: usize, command: impl FnOnce(&mut F::Node, Time) -> R) -> R {
        self.net.with(NodeIndex(node as u32), |puppet, now| puppet.command(now, command))
    }
    pub(super) fn is_alive(&self, node: usize) -> bool {
        self.net.is_alive(NodeIndex(node as u32))
    }
    pub(super) fn is_running(&self, node: usize) -> bool {
        self.is_alive(node) && !self.net.node(NodeIndex(node as u32)).is_frozen()
    }
    /// Compares the result of a completed fetch with the publication, and remembers how wants ended.
    pub(super) fn settle_wants(&mut self) {
        let (truth, objects) = (&self.truth, &self.plan.objects);
        for (node, person) in self.people.iter_mut().enumerate() {
            let mut fetches: BTreeMap<usize, u32> = BTreeMap::new();
            for want in person.wants.iter().filter(|want| want.id.is_some()) {
                *fetches.entry(want.spec.object).or_default() += 1;
            }
            for want in person.wants.iter_mut().filter(|want| want.end.is_none()) {
                let end = want.id.and_then(|id| self.ledger.borrow().end_of(node, id));
                if end == Some(End::Completed) {
                    let name: Name = objects[want.spec.object].name.parse().expect("plans have legal names");
                    let bytes = want.vault.content().finished(&name);
                    // Another fetch of the same name may have restarted in the same store in the meantime.
                    let is_shared = fetches.get(&want.spec.object).is_some_and(|count| *count > 1);
                    assert!(bytes.is_some() || is_shared, "node {node} completed '{name}' with nothing in its store");
                    let true_bytes = bytes.is_none_or(|bytes| truth.has(&name, &bytes));
                    assert!(true_bytes, "node {node} completed '{name}' with bytes that nobody published");
                }
                if let Some(End::Failed(reason)) = &end {
                    assert!(!reason.contains("cancelled") || want.cancelled, "node {node} cancelled a fetch by itself");
                }
                want.end = end;
            }
        }
    }

    /// Receivers lose no source that has published once and never left, even if messages are lost and reordered, as
    /// long as nothing else fails.
    pub(super) fn check_withdrawals(&mut self) {
        let withdrawn = std::mem::take(&mut self.ledger.borrow_mut().withdrawn);
        let may_be = |fault: &Fault| !matches!(fault.kind, FaultKind::Loss | FaultKind::Reorder | FaultKind::Duplicate);
        if self.ledger.borrow().lost_neighbours > 0 || self.plan.faults.iter().any(may_be) {
            return;
        }
        for Withdrawn { at, node, transfer, source } in withdrawn {
            let want = self.people[node].wants.iter().find(|want| want.id == Some(transfer));
            let Some(object) = want.map(|want| want.spec.object) else { continue };
            let publisher = self.plan.topology.nodes.iter().position(|spec| spec.label == source);
            let stays = publisher.is_some_and(|publisher| {
                let person = &self.people[publisher];
                person.published.contains_key(&object) && person.stated.get(&object) == Some(&1)
            });
            assert!(
                !stays,
                "node {node}: the network withdrew at {at} all paths to '{source}' from transfer {transfer:?} of object \
                 {object}, which has been published there all the time"
            );
        }
    }
    /// A watcher whose scope did not exist watches again.
    pub(super) fn watch_again(&mut self) {
        let refused = std::mem::take(&mut self.ledger.borrow_mut().refused);
        for (node, scope) in refused {
            if self.people[node].watches.contains(&scope) {
                self.operate(&Operation::Watch { node, scope });
            }
        }
    }

    // A fault starts.

    fn begin(&mut self, fault: &Fault) {
        self.log(|| format!("begins: {:?}", fault.what));
        match &fault.what {
            What::Loss(link, loss) => self.change(*link, LinkChange::Loss(loss.clone())),
            What::Reorder(link, reorder) => self.change(*link, LinkChange::Reorder(*reorder)),
            What::Duplicate(link, share) => self.change(*link, LinkChange::Duplicate(*share)),
            What::Corrupt(link, share) => self.change(*link, LinkChange::Corrupt(*share)),
            What::Mtu(link, mtu) if F::FINDS_MTU => self.change(*link, LinkChange::Mtu(*mtu)),
            What::Mtu(..) => {}
            What::Shift(link, rate, delay) => {
                self.change(*link, LinkChange::Rate(*rate));
                self.change(*link, LinkChange::Delay(*delay));
            }
            What::Cut(links) => links.iter().for_each(|link| self.cut(*link)),
            What::Gone(node) => self.go(*node),
            What::Disk(node, trouble) => self.disks[*node].set_trouble(*trouble),
            What::Kill(node, memory, farewell) => {
                let node = *node;
                self.people[node].memory = *memory;
                if *farewell == Farewell::Announced && self.is_running(node) {
                    self.command(node, |node, now| node.leave(now));
                    self.plan_at(self.net.now() + FAREWELL.mul_f64(0.8), Action::Stop(node));
                } else {
                    self.stop(node, Farewell::Missing);
                }
            }
            What::Freeze(node) => self.puppet_mut(*node, |puppet, _| puppet.freeze()),
            What::StopClock(node) => self.puppet_mut(*node, |puppet, now| puppet.stop_clock(now)),
            What::LyingSource(node, share) => {
                self.people[*node].lying = *share;
                self.republish(*node);
            }
            What::LyingCache(node, share) => self.puppet_mut(*node, |puppet, _| puppet.set_forge(*share, F::forge)),
            What::Imposter(node, object) => {
                self.people[*node].forged.insert(*object);
                if self.is_running(*node) {
                    self.publish(*node, *object);
                }
            }
            What::Malformed(node, count) => self.plan_packets(fault, *count, || Action::Malformed(*node)),
            What::Replay(node, count) => self.plan_packets(fault, *count, || Action::Replay(*node)),
            What::DiskFull(node, chunks) => self.set_disk(*node, Some(*chunks)),
        }
    }
    fn end(&mut self, fault: &Fault) {
        self.log(|| format!("ends: {:?}", fault.what));
        match &fault.what {
            What::Loss(link, _) => self.change(*link, LinkChange::Loss(Loss::None)),
            What::Reorder(link, _) => self.change(*link, LinkChange::Reorder(Reorder::default())),
            What::Duplicate(link, _) => self.change(*link, LinkChange::Duplicate(0.0)),
            What::Corrupt(link, _) => self.change(*link, LinkChange::Corrupt(0.0)),
            What::Mtu(link, _) => {
                self.change(*link, LinkChange::Mtu(self.plan.topology.links[*link].directions[0].mtu))
            }
            What::Shift(link, ..) => {
                let directions = &self.plan.topology.links[*link].directions;
                let Connection { a_to_b, b_to_a } = self.connections[*link];
                for (way, config) in [a_to_b, b_to_a].into_iter().zip(directions) {
                    self.net.change_link(way, LinkChange::Rate(config.rate));
                    self.net.change_link(way, LinkChange::Delay(config.delay));
                }
            }
            What::Cut(links) => links.iter().for_each(|link| self.join(*link)),
            What::Gone(_) => {}
            What::Disk(node, _) => self.disks[*node].set_trouble(Trouble::None),
            What::Kill(node, ..) => self.start(*node),
            What::Freeze(node) => {
                self.puppet_mut(*node, |puppet, now| puppet.thaw(now));
                self.catch_up(*node);
            }
            What::StopClock(node) => self.puppet_mut(*node, |puppet, _| puppet.start_clock()),
            What::LyingSource(node, _) => {
                self.people[*node].lying = 0.0;
                self.republish(*node);
            }
            What::LyingCache(node, _) => self.puppet_mut(*node, |puppet, _| puppet.set_forge(0.0, F::forge)),
            What::Imposter(node, object) => {
                self.people[*node].forged.remove(object);
                let (node, object) = (*node, *object);
                match self.people[node].published.get(&object).copied() {
                    Some(version) => self.operate(&Operation::Publish { node, object, version }),
                    None => self.operate(&Operation::Unpublish { node, object }),
                }
            }
            What::Malformed(..) | What::Replay(..) => {}
            What::DiskFull(node, _) => self.set_disk(*node, None),
        }
    }
    fn set_disk(&mut self, node: usize, chunks: Option<u64>) {
        let person = &self.people[node];
        [&person.vault, &person.inbox].into_iter().for_each(|vault| vault.content().refuse_chunks_after(chunks));
    }
    fn cut(&mut self, link: usize) {
        self.cuts[link] += 1;
        self.change(link, LinkChange::State(LinkState::Down));
    }
    fn join(&mut self, link: usize) {
        self.cuts[link] -= 1;
        if self.cuts[link] == 0 {
            self.change(link, LinkChange::State(LinkState::Up));
        }
    }
    /// A device moves out of reach of all links.
    fn leave(&mut self, node: usize) {
        self.log(|| format!("node {node} is away"));
        let links: Vec<usize> = self.plan.topology.links_of(node).map(|(link, _)| link).collect();
        for link in links {
            if self.out_of_reach.insert(link) {
                self.cut(link);
            }
        }
    }
    /// It returns, over one or all of its links.
    fn come_back(&mut self, node: usize, over: Option<usize>) {
        self.log(|| format!("node {node} is back over {over:?}"));
        let links: Vec<usize> = self.plan.topology.links_of(node).map(|(link, _)| link).collect();
        for link in links.into_iter().filter(|link| over.is_none_or(|over| over == *link)) {
            if self.out_of_reach.remove(&link) {
                self.join(link);
            }
        }
    }
    /// A node is dead for good, and all its wishes end.
    pub(super) fn go(&mut self, node: usize) {
        if !self.gone.insert(node) {
            return;
        }
        self.log(|| format!("node {node} is gone for good"));
        self.lose_disk(node);
        self.stop(node, Farewell::Missing);
        let person = &mut self.people[node];
        person.published.clear();
        person.forged.clear();
        person.watches.clear();
        person.wants.clear();
        person.lapsing.append(&mut person.attached);
        person.deferred.clear();
        person.sent.iter_mut().for_each(Sent::give_up);
    }
    fn change(&mut self, link: usize, change: LinkChange) {
        self.net.change(self.connections[link], change);
    }
    pub(super) fn puppet_mut(&mut self, node: usize, change: impl FnOnce(&mut Puppet<F::Node>, Time)) {
        if self.is_alive(node) {
            self.net.with(NodeIndex(node as u32), change);
        }
    }
    fn republish(&mut self, node: usize) {
        let published: Vec<(usize, u64)> = self.people[node].published.iter().map(|(o, v)| (*o, *v)).collect();
        if self.is_running(node) {
            published.into_iter().for_each(|(object, _)| self.publish(node, object));
        } else {
            let again = published.into_iter().map(|(object, version)| Operation::Publish { node, object, version });
            self.people[node].deferred.extend(again);
        }
    }
    /// A node's life ends. A node that ends in order has time to finish its writes.
    fn stop(&mut self, node: usize, farewell: Farewell) {
        // Reports of the last moment of this life count.
        self.settle_mail();
        self.died_at[node] = self.net.now();
        let death = match self.people[node].memory {
            Memory::Kept => Death::Killed,
            Memory::Synced => Death::PowerCut,
            Memory::Lost => Death::DiskLost,
        };
        if death == Death::DiskLost {
            self.lose_disk(node);
        }
        self.count_broken(node);
        if farewell == Farewell::Missing {
            self.disks[node].end(death);
        }
        self.net.kill(NodeIndex(node as u32));
        if farewell == Farewell::Announced {
            self.disks[node].end(death);
        }
        // What ended in the last moment of this life counts.
        self.settle_wants();
        self.enter_what_came();
        if death == Death::PowerCut {
            let person = &self.people[node];
            [&person.vault, &person.inbox].into_iter().for_each(|vault| vault.lose_power(&mut self.random));
        }
        self.people[node].wants.iter_mut().for_each(|want| want.id = None);
        let person = &mut self.people[node];
        person.lapsing.append(&mut person.detached);
        person.sent.iter_mut().for_each(Sent::stop);
    }
    /// A dead node starts again, with its memory.
    fn start(&mut self, node: usize) {
        if self.is_alive(node) || self.gone.contains(&node) {
            return;
        }
        let puppet = self.puppet(node);
        self.net.restart(NodeIndex(node as u32), |_| puppet);
        self.check_names(node);
        self.attach_faces(node);
        let person = &mut self.people[node];
        if person.memory == Memory::Lost {
            person.published.clear();
            person.watches.clear();
            person.lapsing.append(&mut person.attached);
            person.sent.clear();
            let pace = (self.plan.profile == Profile::Product).then(|| self.paces[node].clone());
            person.inbox = Vault::new(&self.truth, Some(key(true).public()), self.canary).with_pace(pace.clone());
            let fresh = Vault::new(&self.truth, Some(key(true).public()), self.canary).with_pace(pace);
            person.vault = fresh.clone();
            person.wants.iter_mut().for_each(|want| want.vault = fresh.clone());
        }
        let (objects, watches) = (person.published.keys().copied(), person.watches.iter().cloned());
        let objects: BTreeSet<usize> = objects.chain(person.forged.iter().copied()).collect();
        let watches: Vec<String> = watches.collect();
        objects.into_iter().for_each(|object| self.publish(node, object));
        for scope in watches {
            self.operate(&Operation::Watch { node, scope });
        }
        self.resume_mail(node);
        for want in 0..self.people[node].wants.len() {
            let Want { end, cancelled, .. } = &mut self.people[node].wants[want];
            if *cancelled && end.is_none() {
                *end = Some(End::Failed("cancelled".into()));
            }
            if end.is_none() {
                self.fetch(node, want);
            }
        }
        self.catch_up(node);
    }
    /// The only name server has started again: records that it acknowledged shortly before it died are on its disk.
    fn check_names(&self, node: usize) {
        let failing = [FaultKind::StoreFails, FaultKind::StoreFull, FaultKind::Clock];
        let is_excused =
            self.plan.faults.iter().any(|fault| fault.kind.is_byzantine() || failing.contains(&fault.kind));
        let is_only = F::only_name_server(&self.plan.topology) == Some(node);
        if is_excused || !is_only || self.people[node].memory == Memory::Lost || self.plan.profile != Profile::Product {
            return;
        }
        let (inner, died_at) = (self.net.node(NodeIndex(node as u32)).inner(), self.died_at[node]);
        for (publisher, person) in self.people.iter().enumerate().filter(|(publisher, _)| *publisher != node) {
            for object in person.published.keys().filter(|object| person.stated.get(object) == Some(&1)) {
                let name = self.name(*object);
                let reported_at = self.ledger.borrow().published_at(publisher, &name.to_string());
                let is_recent = |at: Time| at <= died_at && died_at.since(at) < RECENT;
                assert!(
                    !reported_at.is_some_and(is_recent) || F::knows_name(inner, &key(true).public(), &name),
                    "node {node} died at {died_at} and does not know '{name}' any more, which node {publisher} was told at \
                     {reported_at:?} to be published"
                );
            }
        }
    }
    /// Does the operations that were deferred while the node was dead or frozen.
    fn catch_up(&mut self, node: usize) {
        let deferred = std::mem::take(&mut self.people[node].deferred);
        deferred.iter().for_each(|operation| self.operate(operation));
    }
    fn plan_packets(&mut self, fault: &Fault, count: u32, action: impl Fn() -> Action) {
        let lasts: Duration = fault.until.since(fault.from);
        for _ in 0..count {
            let time = fault.from + lasts.mul_f64(self.random.unit());
            self.plan_at(time, action());
        }
    }
    fn inject(&mut self, node: usize, make: impl FnOnce(&mut Self, usize) -> Option<Vec<u8>>) {
        if !self.is_alive(node) {
            return;
        }
        if let Some(bytes) = make(self, node) {
            let faces: Vec<_> = self.plan.topology.links_of(node).collect();
            let face = match faces.get(self.random.below(faces.len() as u64 + 1) as usize) {
                Some((link, end)) => self.plan.topology.links[*link].ends[*end].1,
                None => tributary_core::FaceId(super::controlled_node::UNSOLICITED_FACE + self.random.below(3) as u32),
            };
            self.injected += 1;
            self.net.inject(NodeIndex(node as u32), face, bytes::Bytes::from(bytes).into());
        }
    }
    fn malformed(&mut self, _node: usize) -> Option<Vec<u8>> {
        if let Some(bytes) = F::greedy(&self.plan.settings, &mut self.random) {
            return Some(bytes);
        }
        let recent = self.ledger.borrow().recent.clone();
        let random = &mut self.random;
        if recent.is_empty() || random.chance(0.3) {
            return Some((0..random.below(1_472)).map(|_| random.bits() as u8).collect());
        }
        let mut bytes = recent[random.below(recent.len() as u64) as usize].clone();
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len().max(1) as u64) as usize;
            match random.below(4) {
                0 => bytes.truncate(at),
                1 => bytes.extend((0..random.below(40)).map(|_| random.bits() as u8)),
                _ if bytes.is_empty() => {}
                2 => bytes[at] = random.bits() as u8,
                _ => bytes[at] ^= 1 << random.below(8),
            }
        }
        Some(bytes)
    }

    // The end of all faults.

    /// Ends every fault now, starts every node that is dead, and lifts all limits.
    pub(super) fn mend(&mut self) {
        self.log(|| "everything is mended".into());
        let left: Vec<Action> = std::mem::take(&mut self.agenda).into_values().collect();
        for action in left {
            match action {
                Action::End(_) | Action::Stop(_) | Action::Depart(_) | Action::Operate(_) => self.act(action),
                Action::Begin(_) | Action::Malformed(_) | Action::Replay(_) => {}
            }
        }
        std::mem::take(&mut self.out_of_reach).into_iter().for_each(|link| self.join(link));
        for node in 0..self.people.len() {
            self.start(node);
            if self.gone.contains(&node) {
                continue;
            }
            let receiver = self.plan.topology.nodes[node].receiver;
            self.puppet_mut(node, |puppet, now| puppet.mended(now, receiver));
            let ids: Vec<TransferId> = self.people[node].wants.iter().filter_map(|want| want.id).collect();
            self.command(node, |node, now| {
                node.limit(now, None, None);
                ids.iter().for_each(|id| node.limit(now, Some(*id), None));
            });
        }
    }
}

fn reader_name(object: &MemoryObject) -> Name {
    use tributary_content::ObjectReader;
    object.manifest().name.clone()
}

/// The streams of disks; the numbers of their nodes follow.
const DISKS: u64 = 2_000;
/// The streams of their speeds.
const PACES: u64 = 3_000;
/// A name that was published so shortly before has not ended with its lifetime.
const RECENT: Duration = Duration::from_secs(4);
/// How long a departing node keeps running.
const FAREWELL: Duration = Duration::from_millis(600);

thread_local! {
    /// What [`Canary::Moody`] changes from run to run, as a forgotten global would.
    static MOOD: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}
