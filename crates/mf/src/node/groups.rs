//! Distributes chunks for groups (paper §3.5). The first router of a chunk looks up the members of its group and their
//! addresses. One copy goes over each link, with the addresses behind it; the routers at these addresses make one
//! unicast copy for each of their members, which is stored, moved and repeated like any other chunk.
use super::*;
use crate::{
    ids::{ChunkKey, Weighted, weighted},
    relay::Task,
    wire::{ADDRESSES_MAX, Reliability},
};

impl MfNode {
    /// Whether a chunk is one that [`MfNode::spread`] sees to.
    pub(super) fn is_for_group(&self, header: &ChunkHeader) -> bool {
        self.config.router
            && header.tag().is_some()
            && matches!(header.service, ServiceId::Multicast | ServiceId::Anycast)
    }
    /// Sends a chunk to its destinations, or waits until these are known.
    pub(super) fn spread(&mut self, now: Time, slot: Slot) {
        let Some(header) = self.header(slot) else { return };
        if header.hops_left == 0 {
            return self.router.drop_chunk(slot, "hop limit");
        }
        match self.whom_it_is_for(now, &header) {
            None => self.groups.wait(slot),
            Some(Meant::Nearest(devices)) => self.send_to_nearest(now, slot, header, &devices),
            Some(Meant::All(copies)) => self.end_spread(now, slot, copies),
        }
    }
    /// Forwards an arriving chunk over idle links.
    pub(super) fn begin_spread(&mut self, now: Time, slot: Slot) {
        let Some(header) = self.header(slot).filter(|header| header.hops_left > 0) else { return };
        if self.is_for_group(&header)
            && let Some(Meant::All(copies)) = self.whom_it_is_for(now, &header)
        {
            let begun = self.router.begin_copies(now, slot, copies);
            self.events.count_all("copies for groups", begun as u64);
        }
    }
    /// Forwards a complete chunk over the other links.
    pub(super) fn end_spread(&mut self, now: Time, slot: Slot, copies: Vec<ChunkHeader>) {
        if let Some(header) = self.header(slot) {
            self.keep_for_members(now, slot, &header);
        }
        self.events.count_all("copies for groups", copies.len() as u64);
        self.router.copy(now, slot, copies);
        self.router.consume(slot);
    }
    fn header(&self, slot: Slot) -> Option<ChunkHeader> {
        self.router.buffer.chunk(slot)?.header.clone()
    }
    /// The destinations of a chunk and the copies that reach them from here; `None` while they are being looked up.
    fn whom_it_is_for(&mut self, now: Time, header: &ChunkHeader) -> Option<Meant> {
        let own = self.config.address;
        let has_entered = !header.addresses.is_empty();
        let (mut mine, mut others) = (Vec::new(), Vec::new());
        for address in &header.addresses {
            let far = *address != own && self.router.topology.as_ref().is_some_and(|t| t.route(*address).is_some());
            if far { others.push(*address) } else { mine.push(*address) }
        }
        let mut header = header.clone();
        let mut copies: Vec<ChunkHeader> = Vec::new();
        if !has_entered || !mine.is_empty() {
            let mut members = self.groups.resolve(now, self.guid, header.source, header.destination)?;
            if header.service == ServiceId::Anycast {
                members.devices.remove(&header.source);
                return Some(Meant::Nearest(members.devices));
            }
            if self.proxy.is_some() && header.proxies_left > 0 && header.source != self.guid {
                let is_mine = |addresses: &Vec<Weighted>| {
                    !has_entered || addresses.first().is_none_or(|(first, _)| mine.contains(first))
                };
                let devices = members.devices.iter().filter(|(guid, at)| **guid != header.source && is_mine(at));
                let devices = devices.map(|(guid, _)| *guid).collect();
                // The members of a group that another proxy serves are unknown here.
                self.relays.on_spread(now, &header, members.groups.is_empty().then_some(devices));
                header.source_address = own;
            }
            for (device, addresses) in members.devices.iter().filter(|(guid, _)| **guid != header.source) {
                // All routers use the best of several addresses.
                match addresses.first().map(|(address, _)| address) {
                    Some(first) if has_entered && !mine.contains(first) => {}
                    Some(first) if !has_entered && *first != own && self.can_reach(*first) => others.push(*first),
                    _ => copies.push(to_device(&header, *device)),
                }
            }
            for (group, addresses) in &members.groups {
                let place = addresses
                    .iter()
                    .map(|(address, _)| *address)
                    .find(|address| *address == own || self.can_reach(*address));
                let mut copy = ChunkHeader { destination: *group, ..header.clone() };
                copy.addresses = place.into_iter().collect();
                match place {
                    Some(_) if !has_entered || mine.contains(&own) => copies.push(copy),
                    Some(_) => {}
                    None => self.events.count("groups whose proxy is away"),
                }
            }
        }
        self.along_links(&header, others, &mut copies);
        copies.iter_mut().for_each(|copy| copy.hops_left -= 1);
        Some(Meant::All(copies))
    }
    fn can_reach(&self, address: NetworkAddress) -> bool {
        self.router.topology.as_ref().is_some_and(|topology| topology.route(address).is_some())
    }
    /// One copy for each link that leads to some of the addresses.
    fn along_links(&self, header: &ChunkHeader, mut addresses: Vec<NetworkAddress>, copies: &mut Vec<ChunkHeader>) {
        let Some(topology) = &self.router.topology else { return };
        addresses.sort_unstable();
        addresses.dedup();
        let mut by_face: BTreeMap<FaceId, Vec<NetworkAddress>> = BTreeMap::new();
        for address in addresses {
            if let Some(route) = topology.route(address) {
                by_face.entry(route.face).or_default().push(address);
            }
        }
        for part in by_face.values().flat_map(|addresses| addresses.chunks(ADDRESSES_MAX)) {
            copies.push(ChunkHeader { addresses: part.into(), ..header.clone() });
        }
    }
    /// Keeps a copy to repair the losses of members behind this router, if it acts as the source for them.
    fn keep_for_members(&mut self, now: Time, slot: Slot, header: &ChunkHeader) {
        // Unreliable chunks are never requested again.
        let tag = header.tag().filter(|tag| tag.reliability != Reliability::DontCare);
        let serves = tag.is_some_and(|tag| self.relays.serves(&header.source, tag.transfer, tag.token));
        let is_proven = self.prove_source(now, slot).is_ok();
        if header.proxies_left == 0 || header.source == self.guid || !serves || !is_proven {
            return;
        }
        if let (Some(proxy), Some(chunk)) = (&mut self.proxy, self.router.buffer.chunk(slot)) {
            // Without a copy, requests are still collected here and sent upstream.
            let _ = proxy.put(now, header, &chunk.payload(), Kept::Delegated);
        }
    }
    /// All chunks of an anycast transfer go to the same member: the nearest one at the first chunk.
    fn send_to_nearest(&mut self, now: Time, slot: Slot, header: ChunkHeader, devices: &BTreeMap<Guid, Vec<Weighted>>) {
        let id = (header.source, header.tag().map_or(0, |tag| tag.transfer));
        let places = devices.iter().flat_map(|(guid, addresses)| addresses.iter().map(move |at| (*guid, *at)));
        let far = |guid: &Guid, (at, weight): Weighted| Some(weighted(self.router.distance(guid, at)?, weight));
        let nearest = places.filter_map(|(guid, place)| Some((far(&guid, place)?, guid))).min();
        let chosen = match self.chosen.get(&id).copied().filter(|guid| devices.contains_key(guid)) {
            Some(guid) => Some(guid),
            None => nearest.map(|(_, guid)| guid).or_else(|| devices.keys().next().copied()),
        };
        let Some(chosen) = chosen else { return self.router.drop_chunk(slot, "no device is attached to the name") };
        if self.chosen.len() >= CHOSEN_MAX {
            self.chosen.clear();
        }
        self.chosen.insert(id, chosen);
        let payload = self.router.buffer.payload(slot);
        self.router.consume(slot);
        self.router.originate(now, to_device(&header, chosen), &payload, Origin::Local);
    }

    // Requests of members.

    /// Takes a member's message to the source through this router; true if the source need not see it. The source must
    /// see it if copies on the way may be wrong.
    pub(super) fn relay(&mut self, now: Time, slot: Slot, header: &ChunkHeader) -> bool {
        let is_meant = header.addresses.contains(&self.config.address) && header.destination != self.guid;
        if !is_meant || header.flags.contains(Flags::NO_CACHE) {
            return false;
        }
        let (source, own) = (header.destination, [header.source]);
        let Some(TransportMessage { transfer, body, .. }) = self.message(slot) else { return false };
        if !self.relays.knows(&source, transfer, header.token()) {
            return false;
        }
        match body {
            TransportBody::Status { missing, sequence, .. } => {
                let from = (header.source, sequence, header.proxies_left);
                self.relays.on_missing(now, source, transfer, from, missing.iter());
            }
            TransportBody::Ack { complete: false, .. } => {}
            TransportBody::Ack { .. } => self.relays.on_complete(now, source, transfer, &own),
            TransportBody::Completed { members } => self.relays.on_complete(now, source, transfer, &members),
            _ => return false,
        }
        self.router.consume(slot);
        true
    }
    /// Forwards a chunk that was sent to this device to the members that requested it.
    pub(super) fn on_repair(&mut self, now: Time, header: &ChunkHeader, payload: &Payload, is_proven: bool) {
        let Some(tag) = header.tag() else { return };
        let waiting = self.relays.on_repair(header.source, tag.transfer, tag.number);
        let Some(group) = self.relays.group(&header.source, tag.transfer).filter(|_| !waiting.is_empty()) else {
            return;
        };
        let mut copy = ChunkHeader { destination: group, source_address: self.config.address, ..header.clone() };
        if let Some(proxy) = self.proxy.as_mut().filter(|_| is_proven) {
            let _ = proxy.put(now, &copy, payload, Kept::Delegated);
        }
        copy.flags |= Flags::STORED;
        let copies = self.repairs(now, &copy, waiting);
        self.router.originate_copies(now, copies, payload);
    }
    /// Copies of a chunk for the members that have requested it again: one per link to routers with more than
    /// `multicast_threshold` of them, and one for each other member. One copy for each member would cross the same link
    /// many times.
    fn repairs(&mut self, now: Time, header: &ChunkHeader, who: Vec<Guid>) -> Vec<ChunkHeader> {
        let members = self.groups.resolve(now, self.guid, header.source, header.destination).unwrap_or_default();
        let mut at: BTreeMap<Option<NetworkAddress>, Vec<Guid>> = BTreeMap::new();
        for guid in who {
            let first = members.devices.get(&guid).and_then(|addresses| addresses.first());
            let place = first.map(|(place, _)| *place);
            let place = place.filter(|place| *place != self.config.address && self.can_reach(*place));
            at.entry(place).or_default().push(guid);
        }
        let threshold = usize::from(self.config.transfer.multicast_threshold);
        let (mut copies, mut shared) = (Vec::new(), Vec::new());
        for (place, who) in at {
            match place {
                Some(place) if who.len() > threshold => shared.push(place),
                _ => copies.extend(who.into_iter().map(|guid| to_device(header, guid))),
            }
        }
        let header = ChunkHeader { service: ServiceId::Multicast, ..header.clone() };
        self.along_links(&header, shared, &mut copies);
        copies
    }
    pub(super) fn settle_groups(&mut self, now: Time) -> bool {
        let mut moved = false;
        for slot in self.groups.take_waiting() {
            moved = true;
            self.spread(now, slot);
        }
        while let Some((guid, on)) = self.groups.watches.pop_front() {
            moved = true;
            if on { self.resolver.watch(now, guid) } else { self.unwatch_unless_used(now, guid) }
        }
        let is_news = core::mem::take(&mut self.groups.is_news);
        if is_news {
            moved = true;
            self.apply_rules(now);
        }
        let looks_again = core::mem::take(&mut self.looks_at_groups);
        // Without a connection, silence does not show that a group is empty: the outbox would count the group's
        // messages as kept for no member.
        let asked = match self.is_attached() {
            true => self.sender.take_groups(is_news || looks_again),
            false => BTreeSet::new(),
        };
        for group in asked {
            // The known members, so that the node notices when all have everything.
            if let Some(members) = self.groups.resolve(now, self.guid, self.guid, group) {
                let devices: BTreeSet<Guid> = members.devices.keys().copied().collect();
                self.sender.set_members(&group, &devices);
            }
        }
        let proxy = &self.proxy;
        let has = |key: &ChunkKey| proxy.as_ref().is_some_and(|proxy| proxy.has(key));
        for task in self.relays.poll_tasks(now, has) {
            moved = true;
            self.on_task(now, task);
        }
        moved
    }
    /// Looks up which destinations are groups: those of new transfers, and, once the node is attached, those of the
    /// outbox.
    pub(super) fn recognise_groups(&mut self, now: Time) -> bool {
        let is_attached = self.is_attached();
        let kept = self.proxy.iter().flat_map(Proxy::unrecognised);
        let asked: BTreeSet<Guid> = self.sender.unrecognised().chain(kept).collect();
        let mut moved = false;
        for guid in asked {
            let is_own = self.config.groups.keys().any(|label| self.group(label) == guid);
            let is_group = match is_attached {
                true => is_own.then_some(true).or_else(|| self.groups.is_group(now, guid)),
                false => None,
            };
            moved |= match (is_group, &mut self.proxy) {
                (None, Some(_)) if !is_attached && self.router.keeps_own => self.sender.recognise(now, &guid, None),
                (None, _) => false,
                (Some(is_group), proxy) => {
                    proxy.iter_mut().for_each(|outbox| outbox.recognise(&guid, is_group));
                    self.sender.recognise(now, &guid, Some(is_group));
                    true
                }
            };
        }
        moved
    }
    fn on_task(&mut self, now: Time, task: Task) {
        match task {
            Task::Repair(key, who) => {
                let Some((mut header, payload)) = self.proxy.as_mut().and_then(|proxy| proxy.copy(now, &key)) else {
                    return;
                };
                header.source_address = self.config.address;
                header.flags |= Flags::REPEATED | Flags::STORED;
                self.events.count_all("repairs out of copies", who.len() as u64);
                let copies = self.repairs(now, &header, who);
                self.router.originate_copies(now, copies, &payload.into());
            }
            Task::Send { to, token, message, proxies_left } => {
                if let TransportBody::Status { .. } = message.body {
                    self.events.count("requests sent upstream");
                }
                self.send_message(now, to, token, &message, (Flags::NONE, proxies_left));
            }
            Task::Release { flow, transfer, object, token } => {
                if let Some(proxy) = &mut self.proxy {
                    proxy.on_complete(token, &flow, transfer, object);
                }
            }
        }
    }
    /// Ends the watch of a name that no part of this node needs.
    pub(super) fn unwatch_unless_used(&mut self, now: Time, guid: Guid) {
        let held = self.proxy.as_ref().is_some_and(|proxy| proxy.holds_for(&guid));
        if !held && !self.followed.contains(&guid) && !self.groups.uses(&guid) && !self.listings.uses(&guid) {
            self.resolver.unwatch(now, guid);
        }
    }
}

/// The destinations of a chunk.
enum Meant {
    /// The nearest of these devices.
    Nearest(BTreeMap<Guid, Vec<Weighted>>),
    /// All, by copies with these headers.
    All(Vec<ChunkHeader>),
}

/// The unicast copy of a chunk for one device.
fn to_device(header: &ChunkHeader, device: Guid) -> ChunkHeader {
    let mut copy = ChunkHeader { destination: device, service: ServiceId::Unicast, ..header.clone() };
    copy.addresses.clear();
    copy.hops_left = copy.hops_left.max(1);
    copy
}

/// Limit of anycast transfers whose members are remembered.
const CHOSEN_MAX: usize = 4_096;
