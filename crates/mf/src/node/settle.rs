//! Moves messages between the parts of a node until none is left.
use super::*;
use crate::{router::neighbour::Peer, sender::LIFETIME_OVER};
use tributary_core::Duration;

impl MfNode {
    // Messages between the parts.

    /// Moves messages between the parts until none is left.
    pub(super) fn settle(&mut self, now: Time) {
        loop {
            let mut moved = self.settle_neighbour(now);
            moved |= self.settle_router(now);
            moved |= self.settle_names(now);
            moved |= self.settle_ends(now);
            moved |= self.settle_proxy(now);
            moved |= self.settle_groups(now);
            moved |= self.notify_custodians(now);
            if !moved {
                break;
            }
        }
    }
    pub(super) fn settle_neighbour(&mut self, now: Time) -> bool {
        let mut moved = false;
        while let Some(change) = self.neighbour.changes.pop_front() {
            moved = true;
            let (face, peer, up) = match change {
                Change::Up(face, peer) => (face, peer, true),
                Change::Down(face, peer) => (face, peer, false),
                Change::Mtu(face, bytes) => {
                    self.events.push(Event::Note(format!("{face} carries datagrams of {bytes} bytes")));
                    self.router.on_mtu(now, face, bytes);
                    continue;
                }
            };
            let node = crate::receiver::node_of(&peer.guid);
            self.events.push(Event::Neighbour { face, node, up });
            let (guid, is_router, boot) = (peer.guid, peer.roles.contains(Roles::ROUTER), peer.boot);
            let address = peer.address;
            if up {
                self.router.on_up(now, face, peer);
                if let Some(proxy) = &mut self.proxy {
                    proxy.on_neighbour(now, &guid, boot);
                    proxy.forget_refusals(&guid);
                    proxy.on_reachable(&guid);
                }
            } else {
                self.router.on_down(now, face);
                self.cache.arriving.on_down(face, &guid);
                if let Some(proxy) = self.proxy.as_mut().filter(|_| !self.router.is_attached(&guid)) {
                    proxy.on_neighbour_lost(&guid, boot);
                }
            }
            if up && self.boots.insert(guid, boot).is_some_and(|known| known != boot) {
                // The router has lost its state in memory. It may answer at another face while the face of its earlier
                // run still counts as up.
                self.proxy.iter_mut().for_each(|proxy| proxy.on_restarted_beyond(&guid));
                self.check_boot_number(now, &guid, boot);
                if is_router {
                    self.receiver.on_lost_way(now);
                }
                if let Some(front) = &mut self.front {
                    front.forget(&guid);
                    front.on_restarted(now, address);
                }
                if let Some(replica) = self.replica.as_mut().filter(|_| is_router) {
                    replica.on_restarted(address);
                }
            }
            if self.boots.len() > BOOTS_MAX {
                self.boots.pop_first();
            }
            if is_router && !self.config.router {
                if up {
                    self.check_other_routers(now, face);
                    if self.is_hidden() {
                        self.receiver.on_lost_way(now);
                    }
                }
                self.on_attachment(now, up);
            }
        }
        if core::mem::take(&mut self.neighbour.cleared) {
            moved = true;
            self.report_suspects();
            if !self.config.router {
                self.on_attachment(now, false);
            }
        }
        while let Some(packet) = self.neighbour.poll_packet() {
            self.hellos.push_back(packet);
        }
        if core::mem::take(&mut self.neighbour.measured) || moved {
            self.report_slowness(now);
        }
        moved
    }
    /// Reports slow links to the components that wait for answers over them.
    fn report_slowness(&mut self, now: Time) {
        let mut slowest = (Duration::ZERO, Duration::ZERO);
        for (face, _) in self.neighbour.faces().filter(|(_, peer)| peer.is_some()) {
            let (answer_time, airtime) = self.neighbour.slowness(face);
            self.router.set_slowness(now, face, (answer_time, airtime));
            slowest = (slowest.0.max(answer_time), slowest.1.max(airtime));
        }
        self.resolver.set_slowness(slowest.0, slowest.1);
    }
    /// A host that has attached to an access router may have left the others: those are probed.
    fn check_other_routers(&mut self, now: Time, attached: FaceId) {
        let routers =
            self.router.peers().filter(|(face, peer)| *face != attached && peer.roles.contains(Roles::ROUTER));
        let others: Vec<FaceId> = routers.map(|(face, _)| face).collect();
        others.into_iter().for_each(|face| self.neighbour.check(now, face));
        self.report_suspects();
    }
    /// A neighbour has restarted: the faces at which it was in an earlier life are probed.
    fn check_boot_number(&mut self, now: Time, guid: &Guid, boot: u64) {
        let is_earlier = |peer: &Peer| peer.guid == *guid && peer.boot != boot;
        let faces = self.router.peers().filter(|(_, peer)| is_earlier(peer)).map(|(face, _)| face);
        faces.collect::<Vec<FaceId>>().into_iter().for_each(|face| self.neighbour.check(now, face));
        self.report_suspects();
    }
    /// Reports once that two machines have the same key, as clones of one disk do: chunks reach either of them. A machine
    /// that has restarted at another face leaves its former one within a sweep.
    pub(super) fn report_copies(&mut self) {
        let (mut before, mut met) = (core::mem::take(&mut self.copies), BTreeMap::new());
        for (face, peer) in self.router.peers().filter(|(face, _)| !self.neighbour.is_suspect(*face)) {
            let other = met.insert(peer.guid, (face, peer.boot)).filter(|(_, boot)| *boot != peer.boot);
            let (Some((other, _)), true) = (other, self.copies.len() < FACES_MAX) else { continue };
            let was_there = before.remove(&peer.guid);
            if was_there == Some(false) {
                self.events.push(Event::Note(format!(
                    "two machines have the key of {} ({}), at {other} and {face}: what is sent to it reaches either of them; \
                     delete the file 'key' in the state folder of one, which then makes its own",
                    peer.label, peer.guid
                )));
            }
            self.copies.insert(peer.guid, was_there.is_some());
        }
        let reported = before.into_iter().filter(|(_, is_reported)| *is_reported);
        self.copies.extend(reported.take(FACES_MAX));
    }
    pub(super) fn report_suspects(&mut self) {
        for (face, _) in self.neighbour.faces() {
            self.router.set_suspect(face, self.neighbour.is_suspect(face));
        }
    }
    /// A host has gained or lost an access router: its record in the name service follows.
    pub(super) fn on_attachment(&mut self, now: Time, up: bool) {
        let routers = self.access_routers();
        self.receiver.set_attached(now, !routers.is_empty());
        if routers.is_empty() {
            return;
        }
        self.receiver.set_accesses(routers.len(), self.slowest_access());
        let address = self.own_address();
        if let Some(outbox) = &mut self.proxy {
            outbox.own.1 = address;
            outbox.on_ways(now);
        }
        let addresses = self.accesses();
        // A bad link is suspected again and again: that alone does not justify signing and sending an unchanged record.
        if up || addresses != self.attached_to {
            self.attached_to.clone_from(&addresses);
            self.resolver.put(now, RecordBody::Device(addresses));
        }
        if up {
            self.resolver.on_reachable(now);
        }
    }
    pub(super) fn settle_router(&mut self, now: Time) -> bool {
        let mut moved = false;
        while let Some(output) = self.router.poll_output(now) {
            moved = true;
            self.on_output(now, output);
        }
        self.commit(now);
        if let Some(topology) = &mut self.router.topology {
            if let Some(proxy) = &self.proxy {
                topology.set_storage_free(now, proxy.free_percent());
            }
            if topology.update() {
                moved = true;
                self.on_routes(now);
            }
        }
        while let Some((face, state)) = self.router.topology.as_mut().and_then(Topology::poll_message) {
            moved = true;
            let is_own = state.router == self.config.address;
            let message = match &mut self.signed {
                // Without a certificate its statements would be rejected.
                Some(signed) => signed.message(now, face, &state, is_own),
                None => {
                    let mut message = state.to_bytes();
                    seal(&OPEN_KEY, &mut message);
                    Some(message)
                }
            };
            if let Some(message) = message {
                self.router.notify(now, face, message.into());
            }
        }
        moved
    }
    pub(super) fn on_routes(&mut self, now: Time) {
        let Some(topology) = &self.router.topology else { return };
        for (state, _) in topology.reachable() {
            if self.seals.as_mut().is_some_and(|seals| seals.on_boot(state.router, state.boot)) {
                if let Some(front) = &mut self.front {
                    front.on_restarted(now, state.router);
                }
                self.replica.iter_mut().for_each(|replica| replica.on_restarted(state.router));
                let face = topology.route(state.router).map(|route| route.face);
                let via = face.and_then(|face| self.neighbour.peer(face)).filter(|via| via.guid != state.guid);
                if let (Some(via), Some(proxy)) = (via, &mut self.proxy) {
                    proxy.on_restarted_beyond(&via.guid);
                }
            }
        }
        let mut members: Vec<(u64, NetworkAddress)> = topology
            .reachable()
            .filter(|(state, _)| state.roles.contains(Roles::RESOLVER))
            .map(|(state, distance)| (distance, state.router))
            .collect();
        members.sort_unstable();
        let members: Vec<NetworkAddress> = members.into_iter().map(|(_, address)| address).collect();
        if let Some(front) = &mut self.front {
            let before = front.members().to_vec();
            let changed = front.handle_members(now, members);
            if let Some(replica) = self.replica.as_mut().filter(|_| changed) {
                replica.handle_members(
                    now,
                    self.config.address,
                    &before,
                    front.members(),
                    usize::from(self.config.replicas),
                );
            }
            let first = before.is_empty() && !front.members().is_empty();
            if first {
                self.resolver.on_reachable(now);
            }
        }
        self.receiver.set_attached(now, true);
        if let Some(proxy) = &mut self.proxy {
            proxy.on_ways(now);
        }
    }
    pub(super) fn settle_ends(&mut self, now: Time) -> bool {
        let mut moved = false;
        while let Some(message) = self.receiver.poll_message() {
            moved = true;
            let options = (message.flags, message.proxies);
            self.send_message(now, (message.to, message.address), message.token, &message.message, options);
        }
        while let Some((to, address, token, message)) = self.sender.poll_message() {
            moved = true;
            self.send_message(now, (to, address), token, &message, (Flags::NONE, 0));
        }
        while let Some(answer) = self.receiver.poll_answer() {
            moved = true;
            self.custody.add(now, answer);
        }
        while let Some((id, event)) = self.receiver.poll_event() {
            self.events.push(Event::Transfer(id, event));
        }
        while let Some(name) = self.receiver.poll_done() {
            moved = true;
            if !self.listings.watches(&name) {
                self.unwatch_unless_used(now, Guid::of_name(&name));
            }
        }
        while let Some((name, reason)) = self.sender.failures.pop_front() {
            self.events.push(match reason == LIFETIME_OVER {
                true => Event::Note(format!("'{name}' is no longer sent: {reason}")),
                false => Event::Unreadable { name, reason },
            });
        }
        while let Some((to, transfer)) = self.sender.expired.pop_front() {
            moved = true;
            self.router.withdraw(&to, transfer);
        }
        while self.router.room_for_local() || self.router.room_for_own() {
            let router = &mut self.router;
            let has_room = |to: &Guid, bytes: u32| router.room_for_destination(now, to, bytes);
            let Some((header, payload)) = self.sender.poll_chunk(now, &self.cache, has_room) else { break };
            moved = true;
            if self.is_for_group(&header) {
                let slot = self.router.put_own(ChunkHeader { source_address: self.config.address, ..header }, &payload);
                self.spread(now, slot);
            } else {
                self.originate(now, header, &payload, Origin::Local);
            }
            if self.router.has_outputs() {
                break;
            }
        }
        moved |= self.replace_leaders(now);
        for (header, payload) in self.anycasts.poll_ready(now, |device, address| self.router.distance(device, address))
        {
            moved = true;
            self.router.originate(now, header, &payload.into(), Origin::Local);
        }
        if let Some(follow) = self.sender.take_destinations().filter(|follow| *follow != self.followed) {
            moved = true;
            let (old, new) = (core::mem::replace(&mut self.followed, follow.clone()), follow);
            let held = |guid: &Guid| self.proxy.as_ref().is_some_and(|proxy| proxy.holds_for(guid));
            let ended: Vec<Guid> = old.difference(&new).filter(|guid| !held(guid)).copied().collect();
            ended.into_iter().for_each(|guid| self.unwatch_unless_used(now, guid));
            new.difference(&old).for_each(|guid| self.resolver.watch(now, *guid));
        }
        moved
    }
    pub(super) fn settle_proxy(&mut self, now: Time) -> bool {
        let mut moved = self.recognise_groups(now);
        loop {
            let Some(proxy) = &mut self.proxy else { return moved };
            let router = &self.router;
            let unrecognised = proxy.unrecognised();
            let may = |header: &ChunkHeader| match unrecognised.contains(&header.destination) {
                true => Release::Away,
                false => router.may_release(now, header),
            };
            let begun = |header: &ChunkHeader| router.interrupted(now, header);
            let Some((header, payload)) = proxy.poll_release(now, may, begun) else { break };
            moved = true;
            self.router.originate(now, header, &payload.into(), Origin::Store);
        }
        while let Some((guid, on)) = self.proxy.as_mut().and_then(|proxy| proxy.watches.pop_front()) {
            moved = true;
            match on {
                true => self.resolver.watch(now, guid),
                false => self.unwatch_unless_used(now, guid),
            }
        }
        while let Some(guid) = self.proxy.as_mut().and_then(|proxy| proxy.lookups.pop_front()) {
            moved = true;
            self.resolver.lookup(now, guid);
        }
        loop {
            let router = &self.router;
            let has_way = |guid: &Guid, address| router.has_way(now, guid, address);
            let report = self.proxy.as_mut().and_then(|proxy| proxy.poll_report(now, has_way));
            let Some((to, address, token, message)) = report else { break };
            moved = true;
            self.notify_source(now, (to, address), token, &message);
        }
        while let Some(answer) = self.proxy.as_mut().and_then(Proxy::poll_answer) {
            moved = true;
            self.custody.add(now, answer);
        }
        while let Some((to, address, token, message)) = self.proxy.as_mut().and_then(Proxy::poll_capped) {
            moved = true;
            self.notify_source(now, (to, address), token, &message);
        }
        while let Some(((destination, name), chunks)) = self.proxy.as_mut().and_then(|proxy| proxy.expired.pop_first())
        {
            let chunks = match chunks {
                1 => "1 chunk".to_string(),
                _ => format!("{chunks} chunks"),
            };
            self.events.push(Event::Note(format!("'{name}' has expired: {chunks} for {destination} deleted")));
        }
        while let Some(error) = self.proxy.as_mut().and_then(|proxy| proxy.failure.take()) {
            self.on_store_failed(&error);
        }
        moved
    }
}

/// Whether a chunk may leave the store now; see [`Proxy::poll_release`].
impl Router {
    fn may_release(&self, now: Time, header: &ChunkHeader) -> Release {
        match self.verdict(now, &header.unbound()) {
            Some(true) => Release::Now,
            Some(false) => Release::Later,
            None if self.is_hidden(now, &header.unbound()) => Release::Hidden,
            None => Release::Away,
        }
    }
}
