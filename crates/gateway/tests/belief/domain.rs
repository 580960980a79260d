//! A network of one family in virtual time, and its receiver as the node of a [`LocalApi`](tributary::LocalApi).
//!
//! ```text
//! publisher ──┐
//! stranger  ──┴── router ── receiver        10 Mbit/s and 5 ms each
//! ```
use std::{
    collections::VecDeque,
    path::Path,
    sync::{Arc, Mutex, mpsc},
    thread,
};

use tributary::{
    NodeConfig,
    simulated::{AssignedRoute, BoxedNode},
};
use tributary_content::{MemoryObject, Name, ObjectReader};
use tributary_core::{
    ByteCount, Datagram, Duration, FaceId, Node, Rate, Time, TimerId, TransferId, Transmit, TransmitBuf,
    event::{Event, TransferReport},
    link::LinkConfig,
};
use tributary_sim::{Network, NodeIndex};
use tributary_transport::{Endpoint, FaceOptions, Fetch, NodeStatus, Obstacle, policy::FacePolicy};

/// Virtual time for each of the clock's: the façade waits by the clock, and the network need not.
const SPEED: u32 = 20;
const TICK: Duration = Duration::from_millis(2);
/// Until all nodes know of a publication.
const SETTLED: Duration = Duration::from_secs(5);

/// Who may publish.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Who {
    Publisher,
    Stranger,
}

struct Domain {
    net: Network<BoxedNode>,
    nodes: [NodeIndex; 2],
    receiver: NodeIndex,
    events: Arc<Mutex<VecDeque<Event>>>,
}

impl Domain {
    fn new(family: &str, folder: &Path) -> Domain {
        let mut net = Network::new(1);
        let router_roles = match family {
            "psi" => r#""router", "resolver", "topology-manager""#,
            "ndn" => r#""router""#,
            _ => r#""router", "resolver""#,
        };
        let route = |face| AssignedRoute { face: FaceId(face), prefix: Name::root(), cost: 1 };
        let mut add = |label: &str, roles: &str, seed, routes: &[AssignedRoute]| {
            let text = format!(
                "[node]\nlabel = \"{label}\"\nstate_dir = \"{label}\"\nfamily = \"{family}\"\nroles = [{roles}]\n\
                 listen = [\"127.0.0.1:0\"]\n"
            );
            let config = NodeConfig::parse(label, &text, folder).unwrap();
            let routes = if config.needs_routes() { routes } else { &[] };
            net.add_node(config.simulate(seed, routes))
        };
        let router = add("router", router_roles, 1, &[route(1), route(2)]);
        let nodes = [("publisher", 2), ("stranger", 3)].map(|(label, seed)| add(label, r#""sender""#, seed, &[]));
        let receiver = add("receiver", r#""sender", "receiver""#, 4, &[route(1)]);
        for (node, face) in [nodes[0], nodes[1], receiver].into_iter().zip(1..) {
            let link = LinkConfig::new(Rate::from_mbps(10), Duration::from_millis(5));
            let ends = [(node, FaceId(1)), (router, FaceId(face))];
            net.connect(ends[0], ends[1], link.clone(), link);
            for (end, face) in ends {
                net.with(end, |node, now| node.add_face(now, face, FaceOptions { mtu: 1_472, rate: None }));
            }
        }
        let events: Arc<Mutex<VecDeque<Event>>> = Arc::default();
        let heard = Arc::clone(&events);
        net.set_observer(move |_, node, event| {
            if node == receiver {
                heard.lock().unwrap().push_back(event.clone());
            }
        });
        let mut domain = Domain { net, nodes, receiver, events };
        domain.settle();
        domain
    }
    fn settle(&mut self) {
        let end = self.net.now() + SETTLED;
        self.net.run_until(end);
    }
}

type Job = Box<dyn FnOnce(&mut Domain) + Send>;

/// A domain on a thread of its own: a simulated network stays on one.
#[derive(Clone)]
pub(crate) struct Remote(mpsc::Sender<Job>);

impl Remote {
    pub(crate) fn start(family: &'static str, folder: &Path) -> Remote {
        let (remote, jobs) = mpsc::channel::<Job>();
        let folder = folder.to_path_buf();
        thread::spawn(move || {
            let mut domain = Domain::new(family, &folder);
            jobs.into_iter().for_each(|job| job(&mut domain));
        });
        Remote(remote)
    }
    /// Publishes an object, and waits until everybody knows of it, and the receiver's driver has taken all events.
    pub(crate) fn publish(&self, who: Who, object: MemoryObject) {
        self.call(move |domain| {
            let node = domain.nodes[who as usize];
            domain.net.with(node, |node, now| node.publish(now, Box::new(object)));
            domain.settle();
        });
        while self.call(|domain| !domain.events.lock().unwrap().is_empty()) {
            thread::sleep(TICK);
        }
    }
    fn call<R: Send + 'static>(&self, job: impl FnOnce(&mut Domain) -> R + Send + 'static) -> R {
        let (answer, answered) = mpsc::sync_channel(1);
        self.0.send(Box::new(move |domain| drop(answer.send(job(domain))))).unwrap();
        answered.recv().expect("the domain works")
    }
}

/// The receiver, for the driver of a node in this process.
pub(crate) struct Receiver {
    remote: Remote,
    events: Arc<Mutex<VecDeque<Event>>>,
    now: Time,
}

impl Receiver {
    pub(crate) fn new(remote: &Remote) -> Receiver {
        let events = remote.call(|domain| Arc::clone(&domain.events));
        Receiver { remote: remote.clone(), events, now: Time::ZERO }
    }
    /// Commands the node at this time of the driver's clock.
    fn at<R: Send + 'static>(&self, now: Time, command: impl FnOnce(&mut BoxedNode, Time) -> R + Send + 'static) -> R {
        self.remote.call(move |domain| {
            domain.net.run_until(Time::ZERO + SETTLED + now.since(Time::ZERO) * SPEED);
            domain.net.with(domain.receiver, command)
        })
    }
    fn ask<R: Send + 'static>(&self, question: impl FnOnce(&BoxedNode) -> R + Send + 'static) -> R {
        self.at(self.now, |node, _| question(node))
    }
}

impl Node for Receiver {
    fn handle_datagram(&mut self, _: Time, _: FaceId, _: Datagram) {}
    fn handle_storage(&mut self, now: Time) {
        self.at(now, |node, now| node.handle_storage(now));
    }
    fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        self.at(now, |_, _| ());
    }
    fn poll_transmit(&mut self, _: Time, _: &mut TransmitBuf) -> Option<Transmit> {
        None
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        Some((self.now + TICK, TimerId(0)))
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.events.lock().unwrap().pop_front()
    }
}

impl Endpoint for Receiver {
    fn add_face(&mut self, _: Time, _: FaceId, _: FaceOptions) {}
    fn remove_face(&mut self, _: Time, _: FaceId) {}
    fn publish(&mut self, now: Time, object: Box<dyn ObjectReader>) {
        self.at(now, |node, now| node.publish(now, object));
    }
    fn unpublish(&mut self, now: Time, name: &Name) {
        let name = name.clone();
        self.at(now, move |node, now| node.unpublish(now, &name));
    }
    fn fetch(&mut self, now: Time, fetch: Fetch) -> TransferId {
        self.at(now, |node, now| node.fetch(now, fetch))
    }
    fn cancel(&mut self, now: Time, transfer: TransferId) {
        self.at(now, move |node, now| node.cancel(now, transfer));
    }
    fn watch(&mut self, now: Time, scope: &Name) {
        let scope = scope.clone();
        self.at(now, move |node, now| node.watch(now, &scope));
    }
    fn unwatch(&mut self, now: Time, scope: &Name) {
        let scope = scope.clone();
        self.at(now, move |node, now| node.unwatch(now, &scope));
    }
    fn leave(&mut self, now: Time) {
        self.at(now, |node, now| node.leave(now));
    }
    fn limit(&mut self, _: Time, _: Option<TransferId>, _: Option<Rate>) {}
    fn set_face_policy(&mut self, _: Time, _: FaceId, _: FacePolicy) {}
    fn report(&self, now: Time, transfer: TransferId) -> Option<TransferReport> {
        self.at(now, move |node, now| node.report(now, transfer))
    }
    fn transfers(&self) -> Vec<(TransferId, Name)> {
        self.ask(|node| node.transfers())
    }
    fn publishes(&self, name: &Name) -> bool {
        let name = name.clone();
        self.ask(move |node| node.publishes(&name))
    }
    fn published_count(&self) -> usize {
        self.ask(|node| node.published_count())
    }
    fn published(&self) -> Vec<(Name, ByteCount)> {
        self.ask(|node| node.published())
    }
    fn status(&self, now: Time) -> NodeStatus {
        self.at(now, |node, now| node.status(now))
    }
    fn obstacle(&self, now: Time, name: &Name) -> Option<Obstacle> {
        let name = name.clone();
        self.at(now, move |node, now| node.obstacle(now, &name))
    }
}
