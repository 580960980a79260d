//! Requests in transit to the responsible node: requests of clients, and requests of operations about records
//! elsewhere.
use alloc::vec::Vec;

use tributary_core::{Duration, NodeId, Time};

use super::{OPERATION_TIMEOUT, PEER_TIMEOUT, RETRY_INTERVAL, Rendezvous, Target, Timer, key_of, operation::Origin};
use crate::{
    ids::RecordKey,
    wire::{Answer, ClientRequest, Fid, Forward, Limit, Message, Operation, Rejection},
};

/// How long a host is served after its last message, though others wait for its place: two leases by default. A host
/// that returns later counts as new.
const CLIENT_LIFETIME: Duration = Duration::from_secs(60);

/// A request that waits for an answer of a responsible node.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) purpose: Purpose,
    client: NodeId,
    key: RecordKey,
    request: ClientRequest,
    /// Nodes that could not help in this round.
    tried: Vec<NodeId>,
    /// The node that handles the call now, and since when; this very node counts too.
    pub(super) queried: Option<NodeId>,
    queried_at: Time,
    began: Time,
    deadline: Time,
}

/// Who waits for the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// The client of this node that sent the request.
    Client { node: NodeId, request: u32 },
    /// An operation that coordinates with the parent scope.
    Operation(u32),
    /// The refreshing of a record's entry in its parent scope.
    Registration(RecordKey),
}

impl Rendezvous {
    pub(super) fn on_client_request(&mut self, now: Time, from: NodeId, reply: Fid, request: ClientRequest) {
        let refusal = if !self.remember_client(now, from, reply) {
            Some(Limit::Clients.reached(self.config.limits.clients_max))
        } else if matches!(request.operation, Operation::SetChild { .. }) {
            Some(Rejection::NotAuthorised)
        } else if self.calls.len() >= self.room_for(&request.operation) {
            Some(Limit::Requests.reached(self.config.limits.requests_max))
        } else {
            None
        };
        if let Some(rejection) = refusal {
            self.report_limit(&request.name, rejection);
            return self.answer(from, reply, request.request, Answer::Rejected(rejection));
        }
        // A client repeats its request through this node while it is in progress: once is enough.
        let purpose = Purpose::Client { node: from, request: request.request };
        if self.client_requests.insert((from, request.request)) {
            self.call(now, purpose, from, request);
        }
    }

    /// How many requests may be in progress for one more of this kind to be accepted: the bulk of hosts' publications
    /// leaves a quarter to requests with a waiting client, and to those that complete others.
    pub(super) fn room_for(&self, operation: &Operation) -> usize {
        let max = self.config.limits.requests_max;
        let is_bulk = matches!(
            operation,
            Operation::Publish { .. }
                | Operation::PublishScope { .. }
                | Operation::Unpublish
                | Operation::UnpublishScope
        );
        if is_bulk { max - max / 4 } else { max }
    }

    /// Remembers the route to a host; `false` if this node has reached its limit, and all hosts were heard recently.
    pub(super) fn remember_client(&mut self, now: Time, client: NodeId, reply: Fid) -> bool {
        if self.clients.len() >= self.config.limits.clients_max && !self.clients.contains_key(&client) {
            let oldest = self.clients.iter().min_by_key(|(_, (_, at))| *at);
            let idle = oldest.filter(|(_, (_, at))| now.since(*at) >= CLIENT_LIFETIME).map(|(node, _)| *node);
            let Some(idle) = idle else { return false };
            self.clients.remove(&idle);
        }
        self.clients.insert(client, (reply, now));
        true
    }

    /// Takes `request` to the node that is responsible for its name.
    pub(super) fn call(&mut self, now: Time, purpose: Purpose, client: NodeId, request: ClientRequest) -> u32 {
        let id = self.request_number();
        let deadline = now + OPERATION_TIMEOUT;
        let key = key_of(&request.name);
        let tried = Vec::new();
        self.calls.insert(
            id,
            Call { purpose, client, key, request, tried, queried: None, queried_at: now, began: now, deadline },
        );
        self.place_call(now, id);
        id
    }

    /// Sends the call to the best untried node; pauses if all were tried.
    fn place_call(&mut self, now: Time, id: u32) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let mut candidates = self.members.responsible(call.key);
        if now >= call.deadline {
            let heard = |node: &NodeId| *node == self.me || self.members.heard_since(*node, call.began);
            let late = candidates.iter().any(heard);
            let rejection = match late {
                // Those that could help wait for the store, as this one does.
                true if self.stored.is_some() && !self.is_ready() => Rejection::StoreUnavailable,
                true => Rejection::Overloaded,
                false => Rejection::NoResolverReachable,
            };
            return self.complete_call(now, id, Answer::Rejected(rejection));
        }
        candidates.sort_by_key(|node| (!self.members.is_alive(*node), self.members.is_learning(*node)));
        let Some(node) = candidates.into_iter().find(|node| !call.tried.contains(node)) else {
            call.tried.clear();
            call.queried = None;
            let due = (now + RETRY_INTERVAL).min(call.deadline);
            return self.timers.set(Timer::Call(id), due);
        };
        call.queried = Some(node);
        call.queried_at = now;
        let (client, inner) = (call.client, call.request.clone());
        let due = (now + PEER_TIMEOUT).min(call.deadline);
        self.timers.set(Timer::Call(id), due);
        if node == self.me {
            self.operate(now, Origin::Call(id), client, self.me, inner);
        } else {
            let forward = Forward { request: id, client, inner };
            self.messages.push_back((Target::Node(node), Message::Forward(forward)));
        }
    }

    pub(super) fn next_candidate(&mut self, now: Time, id: u32) {
        if let Some(call) = self.calls.get_mut(&id) {
            call.tried.extend(call.queried.take());
            self.place_call(now, id);
        }
    }

    pub(super) fn on_call_due(&mut self, now: Time, id: u32) {
        let Some(call) = self.calls.get(&id) else { return };
        match call.queried {
            // It lives and works on it: no other node would be faster.
            Some(node)
                if now < call.deadline && (node == self.me || self.members.heard_since(node, call.queried_at)) =>
            {
                if let Some(call) = self.calls.get_mut(&id) {
                    call.queried_at = now;
                    let due = (now + PEER_TIMEOUT).min(call.deadline);
                    self.timers.set(Timer::Call(id), due);
                }
            }
            Some(node) if now < call.deadline => {
                self.suspect(now, node);
                // Suspecting moves the call on, unless the node was suspected before.
                if self.calls.get(&id).is_some_and(|call| call.queried == Some(node)) {
                    self.next_candidate(now, id);
                }
            }
            Some(_) | None => self.place_call(now, id),
        }
    }

    pub(super) fn on_call_answer(&mut self, now: Time, id: u32, answer: Answer) {
        let queried_me = self.calls.get(&id).is_some_and(|call| call.queried == Some(self.me));
        match answer {
            Answer::NotReady => self.next_candidate(now, id),
            // That node does not know this one yet.
            Answer::Rejected(Rejection::NotAuthorised) if !queried_me && self.is_internal_refusal(id) => {
                self.next_candidate(now, id);
            }
            Answer::Done { .. } | Answer::Rejected(_) | Answer::Stale { .. } => self.complete_call(now, id, answer),
        }
    }

    /// Only the removal of a scope can be refused to a client as not authorised; any other such answer is about
    /// this node.
    fn is_internal_refusal(&self, id: u32) -> bool {
        self.calls.get(&id).is_some_and(|call| !matches!(call.request.operation, Operation::UnpublishScope))
    }

    fn complete_call(&mut self, now: Time, id: u32, answer: Answer) {
        let Some(call) = self.calls.remove(&id) else { return };
        self.timers.stop(&Timer::Call(id));
        match call.purpose {
            Purpose::Client { node, request } => {
                self.client_requests.remove(&(node, request));
                let route = self.clients.get(&node).map_or(Fid::NONE, |(route, _)| *route);
                self.answer(node, route, request, answer);
            }
            Purpose::Operation(operation) => self.on_parent_answer(now, operation, answer),
            Purpose::Registration(key) => self.on_registration_answer(now, key, answer),
        }
    }
}
