//! Messages between the parts of a node, and from them to other nodes.
use alloc::{
    collections::{BTreeMap, VecDeque},
    format,
    string::ToString,
    vec::Vec,
};

use tributary_content::Manifest;
use tributary_core::{
    NodeId, Time, TransferId,
    event::{Event, ResolverEvent},
};

use tributary_trust::{check_signer, owner_of};

use super::{EARLY_MAX, PsiNode, Waiting};
use crate::{
    control::{Delivery, Outcome, SendResult},
    ids::Roles,
    resolver::{
        rendezvous::{Rendezvous, Target},
        topology::manager::TopologyManager,
    },
    wire::{ClientRequest, Fid, Message, Operation, PacketType, Refused, Renewed, Reply, ResolverRoute, Routes},
};

impl PsiNode {
    /// Moves messages between the parts until all are delivered, and packets to the router.
    pub(super) fn settle(&mut self, now: Time) {
        loop {
            let mut moved = false;
            moved |= self.settle_neighbour(now);
            moved |= self.settle_control(now);
            moved |= self.settle_resolvers(now);
            if !moved {
                break;
            }
        }
        while let Some((id, event)) = self.receiver.poll_event() {
            self.events.push(Event::Transfer(id, event));
        }
        while let Some(name) = self.pubsub.scopes.pop_front() {
            self.receiver.set_absent(&name);
        }
        while let Some(event) = self.pubsub.poll_event() {
            if let ResolverEvent::Rejected { name, operation: "subscribe", reason } = &event {
                self.receiver.set_refusal_of(name, reason);
            }
            // A publication that was refused for good is withdrawn.
            if let ResolverEvent::Rejected { name, operation: "publish", .. } = &event
                && let Ok(name) = name.parse()
                && !self.pubsub.publishes(&name)
            {
                self.sender.unpublish(&name);
            }
            self.events.push(Event::Resolver(event));
        }
        self.control_due = self.next_control_deadline();
    }
    fn settle_neighbour(&mut self, now: Time) -> bool {
        let mut moved = false;
        while let Some((face, up)) = self.neighbour.poll_face() {
            moved = true;
            self.on_face(now, face, up);
        }
        while let Some(event) = self.neighbour.poll_event() {
            self.events.push(event);
        }
        if let Some(manager) = &mut self.manager {
            while let Some(beacon) = self.neighbour.poll_beacon() {
                moved = true;
                manager.handle_beacon(now, &beacon);
            }
            while let Some(beacon) = manager.poll_beacon() {
                moved = true;
                self.neighbour.originate_beacon(now, beacon);
            }
        } else {
            while self.neighbour.poll_beacon().is_some() {}
        }
        let (round_trip, airtime) = self.neighbour.slowest_link();
        self.control.set_slowest_link(round_trip);
        self.pubsub.set_slowest_link(round_trip, airtime);
        let fresh = self.neighbour.poll_link_state();
        if fresh.is_some() {
            self.link_state = fresh;
            self.send_link_state(now, None);
            moved = true;
        }
        moved | self.settle_managers(now)
    }
    /// Detects topology managers that have appeared, vanished, or changed their routes.
    fn settle_managers(&mut self, now: Time) -> bool {
        let mut present: BTreeMap<NodeId, (Fid, Fid)> = BTreeMap::new();
        for manager in self.neighbour.managers() {
            if let Some(key) = &manager.key {
                self.control.learn(manager.beacon.node, key);
            }
            present.insert(manager.beacon.node, (manager.to, manager.back));
        }
        if present == self.managers {
            return false;
        }
        let before = core::mem::replace(&mut self.managers, present);
        let now_known = self.managers.clone();
        for (node, (to, back)) in now_known {
            if before.get(&node) != Some(&(to, back)) {
                // Labels end with the boot that made them. This route to a rendezvous node is used until routes arrive;
                // otherwise messages on the old route would delay the link state that routes wait for.
                self.control.introduce(node);
                self.control.reroute(node, to, back);
                self.resolvers.entry(node).and_modify(|route| *route = (to, back));
            }
            match before.get(&node) {
                Some(_) => {}
                None => {
                    let (pending, rest): (VecDeque<_>, _) =
                        core::mem::take(&mut self.early).into_iter().partition(|(from, _)| *from == node);
                    self.early = rest;
                    pending.into_iter().for_each(|(_, message)| self.on_manager_message(now, message));
                    self.send_link_state(now, Some(node));
                    if let Some(rendezvous) = &mut self.rendezvous {
                        rendezvous.handle_topology_managers(now);
                    }
                }
            }
        }
        true
    }
    fn send_link_state(&mut self, now: Time, only: Option<NodeId>) {
        let Some(state) = self.link_state.clone() else { return };
        let to: Vec<NodeId> =
            self.managers.keys().filter(|node| only.is_none_or(|only| only == **node)).copied().collect();
        for node in to {
            self.send_to_manager(now, node, &Message::LinkState(state.clone()), Waiting::LinkState);
        }
    }
    fn send_to_manager(&mut self, now: Time, node: NodeId, message: &Message, waiting: Waiting) {
        let Some((to, back)) = self.managers.get(&node).copied() else { return };
        let number = self.control.send(now, node, to, back, message);
        self.waiting.insert(number, waiting);
    }
    fn settle_control(&mut self, now: Time) -> bool {
        let mut moved = false;
        while let Some(delivery) = self.control.poll_delivery() {
            moved = true;
            self.on_message(now, delivery);
        }
        while let Some(outcome) = self.control.poll_outcome() {
            moved = true;
            self.on_outcome(now, outcome);
        }
        while let Some((fid, bytes)) = self.control.poll_packet(now) {
            moved = true;
            self.send_packet(now, PacketType::Control, 0, fid, bytes);
        }
        moved
    }
    fn on_message(&mut self, now: Time, delivery: Delivery) {
        let Delivery { from, reply, message } = delivery;
        match message {
            Message::LinkState(state) => {
                if let Some(manager) = self.manager.as_mut().filter(|_| state.node == from) {
                    if let Some(grant) = self.control.grant(from) {
                        manager.handle_grant(from, grant);
                    }
                    manager.handle_link_state(now, state);
                    while let Some((node, refused)) = manager.refused_nodes.pop_front() {
                        let own = self.managers.get(&node).map_or(Fid::NONE, |(_, back)| *back);
                        self.control.send(now, node, reply, own, &Message::Refused(refused));
                    }
                }
            }
            Message::PathRequest(request) => {
                let is_resolver = |manager: &&mut TopologyManager| manager.has_role(from, Roles::RESOLVER);
                match self.manager.as_mut().filter(is_resolver) {
                    Some(manager) => manager.handle_path_request(now, from, request),
                    None => self.events.count("path request of a node that is no rendezvous node"),
                }
            }
            Message::Routes(_) | Message::Offer(_) if self.is_manager(from) => {
                self.on_manager_message(now, message);
            }
            Message::Refused(refused) if self.is_manager(from) => self.on_refused(from, refused),
            Message::Overtaken(_) | Message::Refused(_) if !self.is_manager(from) => {
                self.events.count("message that only a topology manager may send");
            }
            Message::Routes(_) | Message::Offer(_) => {
                self.events.count("message that only a topology manager may send");
                if self.early.len() == EARLY_MAX {
                    self.early.pop_front();
                }
                self.early.push_back((from, message));
            }
            Message::ScopeNotice(_) => self.pubsub.handle_message(now, from, message),
            Message::Reply(answer) if answer.request & Reply::HOST_BIT != 0 => {
                self.pubsub.handle_message(now, from, message);
            }
            Message::Renewed(Renewed { request, .. }) if request & Reply::HOST_BIT != 0 => {
                self.pubsub.handle_message(now, from, message);
            }
            Message::Request(request) if !self.may_ask(from, &request) => {
                self.events.count("publication of a name that its host does not own");
                self.rendezvous.iter_mut().for_each(|rendezvous| rendezvous.refuse(from, reply, request.request));
            }
            _ => match &mut self.rendezvous {
                Some(rendezvous) => rendezvous.handle_message(now, from, reply, message),
                None => self.events.count("message for a role that this node has not"),
            },
        }
    }
    /// Whether a host may send this request to a rendezvous node. In a network with an authority, the host's certificate
    /// came when it introduced itself, so that renewals carry none. A host may always report that it no longer publishes
    /// anything.
    fn may_ask(&self, from: NodeId, request: &ClientRequest) -> bool {
        match &request.operation {
            // The signature decides, so that others may serve what the key has signed.
            Operation::Publish { manifest, .. } if owner_of(&request.name).is_some() => Manifest::decode(manifest)
                .is_ok_and(|of| of.name == request.name && check_signer(&of.name, &of.publisher).is_ok()),
            Operation::Publish { .. } | Operation::PublishScope { .. } | Operation::UnpublishScope => {
                self.control.may_claim(from, &request.name)
            }
            // Rendezvous nodes send this to each other, in a request that they forward.
            Operation::SetChild { .. } => false,
            Operation::Unpublish
            | Operation::Subscribe { .. }
            | Operation::Unsubscribe { .. }
            | Operation::SubscribeScope { .. }
            | Operation::UnsubscribeScope => true,
        }
    }
    /// Messages that only a topology manager may send.
    fn on_manager_message(&mut self, now: Time, message: Message) {
        match message {
            Message::Routes(routes) => self.on_routes(now, &routes),
            Message::Offer(offer) => {
                self.neighbour.see_term(offer.version.term);
                // An incomplete copy of this node is no source for itself.
                let name = self.receiver.name_of(TransferId(offer.transfer));
                let is_own = offer.source == self.config.node;
                let is_of_use = !(is_own && name.is_some_and(|name| self.sender.is_arriving(name)));
                let router = &mut self.router;
                self.receiver.handle_offer(now, offer, is_of_use, &mut |fid| router.face_of(fid));
            }
            _ => {}
        }
    }
    /// A topology manager refuses to serve a transfer of this node, or to take the node into its domain.
    fn on_refused(&mut self, from: NodeId, refused: Refused) {
        let label = self.neighbour.managers().into_iter().find(|manager| manager.beacon.node == from);
        let label = label.map_or_else(|| from.to_string(), |manager| manager.beacon.label.clone());
        let reason = format!("topology manager {label}: {}", refused.rejection);
        if refused.transfer == 0 {
            if self.refusals_reported.insert((from, refused.rejection.code())) {
                self.events.push(Event::Note(format!("this node is not taken into the domain by {reason}")));
            }
        } else if let Some(name) = self.receiver.set_refusal(TransferId(refused.transfer), &reason) {
            let name = name.to_string();
            self.events.push(Event::Resolver(ResolverEvent::Rejected { name, operation: "subscribe", reason }));
        }
    }
    fn is_manager(&self, node: NodeId) -> bool {
        self.managers.contains_key(&node) || (node == self.config.node && self.manager.is_some())
    }
    fn on_routes(&mut self, now: Time, routes: &Routes) {
        if !self.neighbour.handle_routes(routes) {
            return;
        }
        if let Some(manager) = &mut self.manager {
            manager.handle_routes(routes);
        }
        let keys = self.router.keys().followed_by(&routes.keys);
        self.router.handle_routes(&Routes { keys, ..routes.clone() });
        for route in &routes.resolvers {
            if let Some(key) = &route.key {
                self.control.learn(route.node, key);
            }
            if self.resolver_boots.insert(route.node, route.boot).is_some_and(|before| before != route.boot) {
                self.control.introduce(route.node);
            }
        }
        self.resolver_boots.retain(|node, _| routes.resolvers.iter().any(|route| route.node == *node));
        self.resolvers = routes.resolvers.iter().map(|route| (route.node, (route.to, route.back))).collect();
        for (node, (to, back)) in &self.resolvers {
            self.control.reroute(*node, *to, *back);
        }
        self.control.routes = self.resolvers.iter().map(|(node, (to, _))| (*node, *to)).collect();
        // Routes to this very node end here, so its own boot number is ignored.
        let own = self.config.node;
        let boot = |route: &ResolverRoute| if route.node == own { 0 } else { route.boot };
        let mut known: Vec<(NodeId, u32)> = routes.resolvers.iter().map(|route| (route.node, boot(route))).collect();
        if let Some(rendezvous) = &mut self.rendezvous {
            let members: Vec<NodeId> = known.iter().map(|(node, _)| *node).collect();
            rendezvous.handle_members(now, &members);
            if !known.iter().any(|(node, _)| *node == own) {
                known.push((own, 0));
            }
        }
        self.pubsub.handle_resolvers(now, &known);
    }
    fn on_outcome(&mut self, now: Time, outcome: Outcome) {
        let Some(waiting) = self.waiting.remove(&outcome.number) else { return };
        match waiting {
            Waiting::LinkState if outcome.result == SendResult::TimedOut => {
                // The next refresh repeats it; beacons show that a manager is unreachable.
                self.events.count("link state not acknowledged");
            }
            Waiting::LinkState => {}
            Waiting::PathRequest(..) if outcome.result == SendResult::Delivered => {}
            Waiting::PathRequest(key, subscriber, transfer) => {
                if let Some(rendezvous) = &mut self.rendezvous {
                    rendezvous.handle_unsolicited(now, key, subscriber, transfer);
                }
            }
            Waiting::Manager => {
                if let Some(manager) = self.manager.as_mut().filter(|_| outcome.result != SendResult::Delivered) {
                    manager.handle_undelivered(now, outcome.to);
                }
            }
            Waiting::PubSub => self.pubsub.handle_outcome(now, outcome.to, outcome.result),
            Waiting::Rendezvous => {
                if let Some(rendezvous) = &mut self.rendezvous {
                    rendezvous.handle_outcome(now, outcome.to, outcome.result);
                }
            }
        }
    }
    /// Sends the requests of the publish/subscribe client to rendezvous nodes.
    fn send_requests(&mut self, now: Time) -> bool {
        let mut moved = false;
        let mut requests: BTreeMap<NodeId, Vec<Message>> = BTreeMap::new();
        while let Some((node, message)) = self.pubsub.poll_message() {
            requests.entry(node).or_default().push(message);
        }
        for (node, messages) in requests {
            moved = true;
            let (to, back) = self.resolvers.get(&node).copied().unwrap_or((Fid::NONE, Fid::NONE));
            for message in Message::join(messages) {
                let number = self.control.send(now, node, to, back, &message);
                self.waiting.insert(number, Waiting::PubSub);
            }
        }
        moved
    }
    /// Sends the rendezvous function's messages to other nodes: simultaneous messages for one node go together.
    fn send_of_rendezvous(&mut self, now: Time) -> bool {
        let mut moved = false;
        let mut to_resolvers: BTreeMap<NodeId, Vec<Message>> = BTreeMap::new();
        let mut answers: BTreeMap<NodeId, (Fid, Vec<Message>)> = BTreeMap::new();
        while let Some((target, message)) = self.rendezvous.as_mut().and_then(Rendezvous::poll_message) {
            moved = true;
            match target {
                Target::Node(node) => to_resolvers.entry(node).or_default().push(message),
                Target::Reply(node, route) => {
                    let (newest, messages) = answers.entry(node).or_insert((route, Vec::new()));
                    *newest = route;
                    messages.push(message);
                }
                Target::TopologyManagers => {
                    let waiting = match &message {
                        Message::PathRequest(request) => {
                            Waiting::PathRequest(request.item.key(), request.subscriber, request.transfer)
                        }
                        _ => Waiting::Rendezvous,
                    };
                    let all: Vec<NodeId> = self.managers.keys().copied().collect();
                    for node in all {
                        self.send_to_manager(now, node, &message, waiting);
                    }
                }
            }
        }
        for (node, messages) in to_resolvers {
            let (to, back) = self.resolvers.get(&node).copied().unwrap_or((Fid::NONE, Fid::NONE));
            for message in Message::join(messages) {
                let number = self.control.send(now, node, to, back, &message);
                self.waiting.insert(number, Waiting::Rendezvous);
            }
        }
        for (node, (route, messages)) in answers {
            // A host that is answered knows its own route to this node.
            let back = self.resolvers.get(&node).map_or(Fid::NONE, |(_, back)| *back);
            for message in Message::join(messages) {
                self.control.send(now, node, route, back, &message);
            }
        }
        moved
    }
    fn settle_resolvers(&mut self, now: Time) -> bool {
        let mut moved = false;
        while let Some((id, name)) = self.receiver.poll_ended(now) {
            moved = true;
            self.pubsub.unsubscribe(now, &name, id.0);
        }
        moved |= self.send_requests(now);
        moved |= self.send_of_rendezvous(now);
        while let Some(event) = self.rendezvous.as_mut().and_then(Rendezvous::poll_event) {
            self.events.push(event);
        }
        if let Some(manager) = &mut self.manager {
            if core::mem::take(&mut manager.reshaped) {
                // Messages in flight may follow a route that leads nowhere now, such as to a node before its restart.
                for node in self.control.busy() {
                    if let Some((to, back)) = manager.route_to(node) {
                        moved = true;
                        self.control.reroute(node, to, back);
                    }
                }
            }
            while let Some((node, message)) = manager.poll_message() {
                moved = true;
                match manager.route_to(node) {
                    Some((to, back)) => {
                        let number = self.control.send(now, node, to, back, &message);
                        self.waiting.insert(number, Waiting::Manager);
                    }
                    None => manager.handle_undelivered(now, node),
                }
            }
            let mut events = Vec::new();
            while let Some(event) = manager.poll_event() {
                events.push(event);
            }
            events.into_iter().for_each(|event| self.events.push(event));
        }
        moved
    }
}
