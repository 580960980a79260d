//! Messages of the transport and of the name service, and the announcement of this node's addresses.
use super::*;
use crate::{
    ids::{Token, WEIGHT_MAX, Weighted},
    sender::is_pushed,
    wire::ADDRESSES_MAX,
};

impl MfNode {
    pub(super) fn on_transport(&mut self, now: Time, header: &ChunkHeader, message: &TransportMessage) {
        let TransportMessage { transfer, object, body } = message;
        match body {
            TransportBody::Request { .. } => self.sender.handle_request(now, header, message, None),
            TransportBody::Push { flow, chunks } => {
                // Only the source of a flow may release its chunks.
                if let (Some(proxy), Some(token)) =
                    (self.proxy.as_mut().filter(|_| flow.source == header.source), header.token())
                {
                    let chunks = proxy.handle_push(now, token, flow, *transfer, *object, chunks);
                    if !chunks.is_empty() {
                        // The proxy has promised the chunks, but has lost them: their source must send them.
                        let (flow, transfer, object, proxy) = (*flow, *transfer, *object, self.guid);
                        let dropped = TransportBody::Dropped { flow, proxy, chunks }.about(transfer, object);
                        self.notify_source(now, (flow.source, header.source_address), token, &dropped);
                    }
                }
            }
            TransportBody::Custody { flow, state, chunks } => {
                if let (Some(proxy), Some(token)) = (self.proxy.as_mut(), header.token()) {
                    let about = (flow, *transfer, *object);
                    proxy.on_custody(now, &header.source, token, about, *state, chunks);
                }
            }
            TransportBody::Unreadable { .. } => self.receiver.handle_message(now, header, message),
            TransportBody::Unavailable if !is_pushed(*transfer) => {
                self.receiver.handle_message(now, header, message);
            }
            TransportBody::Unavailable
            | TransportBody::Status { .. }
            | TransportBody::Ack { .. }
            | TransportBody::Completed { .. }
            | TransportBody::Stored { .. }
            | TransportBody::KeptFor { .. }
            | TransportBody::Dropped { .. } => {
                if self.sender.is_forged(header, message) {
                    return self.events.on_dropped(FaceId::default(), "about a transfer, without its token", 0);
                }
                let flows = self.sender.flows();
                self.sender.handle_message(now, header, message);
                if let TransportBody::Ack { complete: true, .. } | TransportBody::Unavailable = body
                    && self.sender.flows() < flows
                {
                    self.router.withdraw(&header.source, *transfer);
                }
            }
        }
    }
    /// Tells a source, perhaps this node itself, the state of its stored chunks.
    pub(super) fn notify_source(
        &mut self,
        now: Time,
        (to, address): (Guid, NetworkAddress),
        token: Token,
        message: &TransportMessage,
    ) {
        if to == self.guid {
            let mut header = ChunkHeader::new(ChunkKind::Transport(token), to, to, address);
            header.source_address = self.config.address;
            self.sender.handle_message(now, &header, message);
        } else {
            self.send_message(now, (to, address), token, message, (Flags::NONE, 0));
        }
    }
    /// Notifies custodians, which may include this node, of their chunks' fate.
    pub(super) fn notify_custodians(&mut self, now: Time) -> bool {
        let mut moved = false;
        while let Some((custodian, token, message)) = self.custody.poll(now) {
            moved = true;
            if custodian.guid == self.guid {
                let header = ChunkHeader::new(ChunkKind::Transport(token), self.guid, self.guid, NetworkAddress::NONE);
                self.on_transport(now, &header, &message);
            } else {
                self.send_message(now, (custodian.guid, custodian.address), token, &message, (Flags::NONE, 0));
            }
        }
        moved
    }
    pub(super) fn originate(&mut self, now: Time, mut header: ChunkHeader, payload: &Payload, origin: Origin) {
        if header.source == self.guid && header.kind != ChunkKind::Names {
            header.source_address = self.own_address();
        }
        self.router.originate(now, header, payload, origin);
    }
    /// The address of this node: that of this router, or of the host's best access router.
    pub(super) fn own_address(&self) -> NetworkAddress {
        match self.config.router {
            true => self.config.address,
            false => self.access_routers().first().map_or(NetworkAddress::NONE, |(_, address)| *address),
        }
    }
    /// Whether names can be looked up: the node is a router, or has one.
    pub(super) fn is_attached(&self) -> bool {
        self.config.router || !self.access_routers().is_empty()
    }
    /// The access routers of a host, the best first; suspects are used only if there are no others.
    pub(super) fn access_routers(&self) -> Vec<(FaceId, NetworkAddress)> {
        let routers = self.router.peers().filter(|(_, peer)| peer.roles.contains(Roles::ROUTER));
        let all: Vec<(FaceId, NetworkAddress)> = routers.map(|(face, peer)| (face, peer.address)).collect();
        let sure: Vec<_> = all.iter().filter(|(face, _)| !self.neighbour.is_suspect(*face)).copied().collect();
        let open = |(face, _): &(FaceId, NetworkAddress)| self.policy_of(*face).is_none_or(|of| of.closed.is_none());
        let mut routers: Vec<_> = if sure.is_empty() { all } else { sure }.into_iter().filter(open).collect();
        let is_backup = |face: FaceId| self.policy_of(face).is_some_and(|of| of.is_backup);
        if routers.iter().any(|(face, _)| !is_backup(*face)) {
            routers.retain(|(face, _)| !is_backup(*face));
        }
        let best = self.best_rate(&routers);
        let cost = |face: FaceId| self.policy_of(face).map_or(0, |of| of.cost);
        routers.sort_by_key(|(face, _)| (cost(*face), core::cmp::Reverse(self.weight_of(*face, best))));
        routers
    }
    /// The addresses of this host with the weights of its accesses, the best first.
    pub(crate) fn accesses(&self) -> Vec<Weighted> {
        let routers = self.access_routers();
        let best = self.best_rate(&routers);
        let weighted = routers.into_iter().map(|(face, address)| (address, self.weight_of(face, best)));
        weighted.take(ADDRESSES_MAX).collect()
    }
    /// The rate of the slowest access, if known.
    pub(super) fn slowest_access(&self) -> Option<Rate> {
        let routers = self.access_routers();
        let rates = routers.iter().filter_map(|(face, _)| self.faces.get(face)?.rate);
        rates.min()
    }
    fn policy_of(&self, face: FaceId) -> Option<&FacePolicy> {
        self.policies.get(&face)
    }
    fn rate_of(&self, face: FaceId) -> Option<u64> {
        self.faces.get(&face)?.rate.map(Rate::bits_per_second)
    }
    fn best_rate(&self, routers: &[(FaceId, NetworkAddress)]) -> Option<u64> {
        routers.iter().filter_map(|(face, _)| self.rate_of(*face)).max().filter(|best| *best > 0)
    }
    /// The weight of an access: the configured one, else its rate relative to the best.
    fn weight_of(&self, face: FaceId, best: Option<u64>) -> u8 {
        let by_rate = || {
            let share = u128::from(self.rate_of(face)?) * u128::from(WEIGHT_MAX) / u128::from(best?);
            u8::try_from(share.max(1)).ok()
        };
        let configured = self.config.weights.get(&face).copied();
        configured.or_else(by_rate).unwrap_or(WEIGHT_MAX)
    }
    pub(super) fn send_message(
        &mut self,
        now: Time,
        (to, address): (Guid, NetworkAddress),
        token: Token,
        message: &TransportMessage,
        options: (Flags, u8),
    ) {
        let mut header = ChunkHeader::new(ChunkKind::Transport(token), self.guid, to, address);
        (header.flags, header.proxies_left) = options;
        if let TransportBody::Request { .. } = message.body {
            header.service = ServiceId::ContentRequest;
        }
        let payload = message.to_bytes();
        header.payload_bytes = payload.len() as u32;
        if self.config.router && header.service == ServiceId::ContentRequest && to != self.guid {
            // A router's own requests go through its own cache and its own choice of the nearest.
            header.source_address = self.own_address();
            let slot = self.router.put_own(header.clone(), &payload.into());
            if !self.answer_or_bind(now, slot, &header) {
                self.router.forward(now, slot);
            }
            return;
        }
        self.originate(now, header, &payload.into(), Origin::Local);
    }
}
