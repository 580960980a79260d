//! The name service: queries, answers, and their consequences.
use super::*;
use crate::{
    config::GroupConfig,
    receiver::{Announced, Announcer},
    wire::{Readers, SealedHead, names::READERS_MAX},
};
use tributary_content::Manifest;
use tributary_trust::owner_of;

/// Reasons for which messages are dropped in a network with an authority.
const NOT_CERTIFIED: &str = "message for a router that is not known to be certified";
pub(super) const NOT_OWNED: &str = "record for a name that its host does not own";
/// Counter of queries to the wrong node.
const NO_NAMES: &str = "question to a node without names";
/// Limit of names with separate readers, and of groups that this node owns.
const RULES_MAX: usize = 4_096;

/// Whether a binding has just changed, or is only repeated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum News {
    Yes,
    No,
}

impl MfNode {
    pub(super) fn settle_names(&mut self, now: Time) -> bool {
        let mut moved = false;
        let mut questions = Vec::new();
        while let Some(message) = self.resolver.poll_message() {
            moved = true;
            match &mut self.front {
                Some(front) => {
                    let asker = Asker { guid: self.guid, address: NetworkAddress::NONE };
                    front.handle_question(now, asker, message);
                }
                None => questions.push(message),
            }
        }
        let face = if questions.is_empty() { None } else { self.access_routers().first().map(|(face, _)| *face) };
        // Without a router the query is repeated when one appears.
        if let Some(router) = face.and_then(|face| self.neighbour.peer(face)).cloned() {
            for message in NameMessage::join(questions) {
                self.send_names(now, router.guid, router.address, &message);
            }
        }
        let mut sealed: BTreeMap<NetworkAddress, Vec<NameMessage>> = BTreeMap::new();
        while let Some((to, message)) = self.front.as_mut().and_then(Front::poll_message) {
            moved = true;
            if to == self.config.address {
                let asker = Asker { guid: self.guid, address: to };
                match &mut self.replica {
                    Some(replica) => replica.handle(now, asker, message),
                    None => self.events.count(NO_NAMES),
                }
            } else {
                sealed.entry(to).or_default().push(message);
            }
        }
        if let Some(replica) = &mut self.replica {
            replica.settle(now);
            if let Some(error) = replica.poll_failure() {
                self.events.push(Event::Note(format!("cannot store names: {error}")));
            }
        }
        while let Some((to, message)) = self.replica.as_mut().and_then(|records| records.poll_message()) {
            moved = true;
            match &mut self.front {
                Some(front) if to.address == self.config.address => {
                    front.handle_answer(now, self.config.address, message);
                }
                _ => sealed.entry(to.address).or_default().push(message),
            }
        }
        for (to, messages) in sealed {
            for message in NameMessage::join(messages) {
                self.send_sealed(now, to, &message);
            }
        }
        let mut answers: BTreeMap<Guid, Vec<NameMessage>> = BTreeMap::new();
        while let Some((to, message)) = self.front.as_mut().and_then(Front::poll_answer) {
            moved = true;
            if to.guid == self.guid {
                self.resolver.handle_message(now, message);
            } else {
                if let NameMessage::Notify { place, record } = &message {
                    self.on_passing_news(now, *place, record);
                }
                answers.entry(to.guid).or_default().push(message);
            }
        }
        for (to, messages) in answers {
            for message in NameMessage::join(messages) {
                self.send_names(now, to, self.config.address, &message);
            }
        }
        while let Some(answer) = self.resolver.poll_answer() {
            moved = true;
            self.on_answer(now, answer);
        }
        moved
    }
    /// Between a host and its access router, which know each other by their hellos.
    fn send_names(&mut self, now: Time, to: Guid, address: NetworkAddress, message: &NameMessage) {
        let header = ChunkHeader::new(ChunkKind::Names, self.guid, to, address);
        self.originate(now, header, &message.to_bytes().into(), Origin::Local);
    }
    /// To another router.
    fn send_sealed(&mut self, now: Time, to: NetworkAddress, message: &NameMessage) {
        let Some(seals) = &mut self.seals else { return };
        let Some(payload) = seals.seal(to, message) else { return self.events.count(NOT_CERTIFIED) };
        let mut header = ChunkHeader::new(ChunkKind::Names, self.guid, Guid::NONE, to);
        header.source_address = self.config.address;
        self.originate(now, header, &payload.into(), Origin::Local);
    }
    /// Takes a message about names that arrived on a face.
    ///
    /// # Errors
    /// The reason for ignoring the message.
    pub(super) fn on_names(
        &mut self,
        now: Time,
        face: FaceId,
        source: Guid,
        payload: &[u8],
    ) -> Result<(), &'static str> {
        if SealedHead::is_at(payload) {
            let seals = self.seals.as_mut().ok_or("sealed, and this is no router")?;
            let (address, message) = seals.unseal(payload)?;
            let asker = Asker { guid: Guid::NONE, address };
            for message in message.each() {
                match (message.question(), &mut self.replica, &mut self.front) {
                    (Some(_), Some(replica), _) => replica.handle(now, asker, message),
                    (None, Some(replica), _) if message.answers_hand_over() => {
                        replica.handle_answer(now, address, &message);
                    }
                    (None, _, Some(front)) => front.handle_answer(now, address, message),
                    (Some(_), None, _) | (None, _, None) => self.events.count(NO_NAMES),
                }
            }
            return Ok(());
        }
        let message = NameMessage::decode(payload).map_err(WireError::reason)?;
        let mut result = Ok(());
        for message in message.each() {
            result = result.and(self.on_name_message(now, face, source, message));
        }
        result
    }
    /// Takes one message of a neighbour.
    fn on_name_message(
        &mut self,
        now: Time,
        face: FaceId,
        source: Guid,
        message: NameMessage,
    ) -> Result<(), &'static str> {
        let peer =
            self.neighbour.peer(face).filter(|peer| peer.guid == source).ok_or("name query of an unsolicited face")?;
        if let NameMessage::Put { record, .. } = &message
            && NameRecord::statement_in(record).is_some_and(|statement| !self.may_put(face, &statement.body))
        {
            return Err(NOT_OWNED);
        }
        match (message.question(), &mut self.front) {
            (Some(number), Some(front)) => {
                let (life, served) = self.served.entry(source).or_default();
                if *life != peer.boot {
                    (*life, *served) = (peer.boot, Replays::default());
                }
                if !served.is_new_unproven(u64::from(number)) {
                    return Err("repeated");
                }
                if self.served.len() > BOOTS_MAX {
                    self.served.pop_first();
                }
                // A renewal shows no names. Where names have owners, a host that owns none puts its records again, to
                // be checked.
                if let NameMessage::Renew { request, holdings, .. } = &message
                    && !self.owners.grant(face).is_some_and(Grant::is_certified)
                    && self.owners.grants().any(|grant| !grant.prefixes.is_empty())
                {
                    let missing = holdings.iter().map(|holding| holding.bucket).collect();
                    let renewed = NameMessage::Renewed { request: *request, missing };
                    self.send_names(now, source, self.config.address, &renewed);
                    return Ok(());
                }
                if let NameMessage::Put { place, record, .. } = &message
                    && *place == source
                    && let Ok(record) = NameRecord::decode(record)
                    && record.author() == source
                {
                    let stated = record.statement();
                    self.router.handle_readers(source, stated.version, stated.readers.clone());
                }
                front.handle_question(now, Asker { guid: source, address: NetworkAddress::NONE }, message);
            }
            (None, None) if peer.roles.contains(Roles::ROUTER) => self.resolver.handle_message(now, message),
            (None, _) => return Err("unsolicited answer"),
            (Some(_), None) => self.events.count(NO_NAMES),
        }
        Ok(())
    }
    /// Whether the host on a face may put a record: about a name that it [may claim](Claimants::may_claim). Records about
    /// the device and its groups belong to it by the key that signs them.
    fn may_put(&self, face: FaceId, body: &RecordBody) -> bool {
        match body {
            RecordBody::Scope { name } => self.owners.may_lead_to(face, name),
            RecordBody::Attached { name } => self.owners.may_claim(face, name),
            // A record of a name that belongs to a key is valid only with that key's signature.
            RecordBody::Content(manifest) if self.signed.is_some() => Manifest::decode(manifest)
                .is_ok_and(|of| owner_of(&of.name).is_some() || self.owners.may_claim(face, &of.name)),
            _ => true,
        }
    }
    pub(super) fn on_answer(&mut self, now: Time, answer: Answer) {
        match answer {
            Answer::Found(place, records) => {
                self.on_device(now, place, records.iter().find(|record| record.author() == place), News::No);
                self.anycasts.handle_records(place, &records);
                for device in self.anycasts.wanted() {
                    self.resolver.lookup(now, device);
                }
                self.groups.handle_found(place, &records);
                let own = self.readable(records);
                if own.is_empty() {
                    self.receiver.handle_absence(place);
                }
                self.on_announced(now, place, &own, Announced::All);
                self.listings.handle_found(place, &own);
            }
            Answer::Changed(place, record) => {
                if record.author() == place {
                    self.on_device(now, place, Some(&record), News::Yes);
                }
                self.groups.handle_changed(place, &record);
                if record.may_be_read_by(&self.guid) {
                    self.listings.handle_changed(place, &record);
                    if record.manifest().is_some_and(|manifest| self.receiver.wants(&manifest.name)) {
                        self.on_announced_to_fetch(now, place, &record);
                    }
                }
            }
            Answer::Kept(guid, _) => {
                if let Some((name, here)) = self.published.get(&guid).cloned() {
                    let name = name.to_string();
                    self.events.push(Event::Resolver(if here {
                        ResolverEvent::Published { name }
                    } else {
                        ResolverEvent::Unpublished { name }
                    }));
                    // Renewals are no events.
                    self.published.remove(&guid);
                }
            }
            Answer::Refused(guid, refusal) => {
                if let Some((name, here)) = self.published.get(&guid) {
                    let (name, operation) = (name.to_string(), if *here { "publish" } else { "unpublish" });
                    let reason = refusal.reason();
                    self.events.push(Event::Resolver(ResolverEvent::Rejected { name, operation, reason }));
                }
            }
        }
        while let Some(event) = self.listings.events.pop_front() {
            self.events.push(Event::Resolver(event));
        }
    }
    /// A router uses passing notices about moved devices to its hosts: chunks in flight to the old address can be
    /// redirected.
    fn on_passing_news(&mut self, now: Time, place: Guid, record: &[u8]) {
        let Ok(record) = NameRecord::decode(record) else { return };
        if record.author() == place {
            self.on_device(now, place, Some(&record), News::Yes);
        }
    }
    /// A device has these addresses, or none: chunks in flight and in store follow.
    fn on_device(&mut self, now: Time, guid: Guid, record: Option<&NameRecord>, news: News) {
        let version = record.map(|record| record.statement().version);
        // An older answer changes nothing, and a lookup that found nothing revokes nothing.
        if !self.router.accepts_binding(now, &guid, version) {
            return;
        }
        let nowhere = Binding { addresses: Vec::new(), readers: Readers::All, lifetime: NOTHING_LIFETIME, version };
        let binding = match record.map(NameRecord::statement) {
            Some(statement) => match &statement.body {
                RecordBody::Device(bound) => {
                    // The device may have moved in between: it is looked up again.
                    let lifetime = core::time::Duration::from_millis(u64::from(statement.lifetime_ms));
                    let lifetime = lifetime.min(self.config.binding_lifetime);
                    Binding { addresses: bound.clone(), readers: statement.readers.clone(), lifetime, version }
                }
                RecordBody::Deleted(_) => nowhere,
                _ => return,
            },
            None => nowhere,
        };
        let addresses = &binding.addresses;
        let elsewhere = addresses.iter().any(|(address, _)| Some(*address) != self.router_address());
        self.sender.handle_binding(now, &guid, addresses.iter().map(|(address, _)| *address));
        self.anycasts.handle_device(guid, addresses);
        match news {
            News::Yes if !addresses.is_empty() => self.router.handle_move(now, guid, binding),
            News::Yes | News::No => self.router.handle_binding(now, guid, binding),
        }
        if elsewhere && let Some(proxy) = &mut self.proxy {
            proxy.on_reachable(&guid);
        }
    }
    /// Sets the readers of a name's records, or (`None`) of this node's addresses. A group admits its members, now and
    /// later. False if the limit is reached.
    pub fn set_readers(&mut self, now: Time, name: Option<&Name>, readers: Readers) -> bool {
        let name = name.cloned();
        match readers {
            Readers::All => {
                self.rules.remove(&name);
                self.answer_readers(now, name.as_ref(), Readers::All);
            }
            Readers::Only(_) if self.rules.len() >= RULES_MAX && !self.rules.contains_key(&name) => return false,
            Readers::Only(stated) => {
                self.rules.insert(name.clone(), Rule { configured: stated, readers: Readers::All });
                self.apply_rule(now, name);
            }
        }
        self.settle(now);
        true
    }
    /// Sets the members of a group that this node owns; `None` removes the group of this label. True if it is within
    /// the limits of [`Config::groups`].
    pub fn set_group(&mut self, now: Time, label: &str, group: Option<GroupConfig>) -> bool {
        let Some(group) = group else {
            if self.config.groups.remove(label).is_some() {
                self.resolver.delete(now, self.group(label));
            }
            self.settle(now);
            return true;
        };
        if !group.is_legal(label) || (self.config.groups.len() >= RULES_MAX && !self.config.groups.contains_key(label))
        {
            return false;
        }
        self.resolver.put(now, group.record(label));
        self.config.groups.insert(label.into(), group);
        self.settle(now);
        true
    }
    /// Applies the current members of the groups among readers.
    pub(super) fn apply_rules(&mut self, now: Time) {
        let names: Vec<Option<Name>> = self.rules.keys().cloned().collect();
        names.into_iter().for_each(|name| self.apply_rule(now, name));
    }
    fn apply_rule(&mut self, now: Time, name: Option<Name>) {
        let Some(rule) = self.rules.get_mut(&name) else { return };
        let mut devices = BTreeSet::new();
        for guid in &rule.configured {
            devices.append(&mut self.groups.listed(now, self.guid, *guid));
        }
        let count = devices.len();
        let readers = Readers::Only(devices.into_iter().take(READERS_MAX).collect());
        if rule.readers == readers {
            return;
        }
        rule.readers = readers.clone();
        if count > READERS_MAX {
            let of = name.as_ref().map_or_else(|| String::from("where this node is"), |name| format!("'{name}'"));
            self.events.push(Event::Note(format!("only {READERS_MAX} of {count} readers of {of} may look it up")));
        }
        self.answer_readers(now, name.as_ref(), readers);
    }
    fn answer_readers(&mut self, now: Time, name: Option<&Name>, readers: Readers) {
        let Some(name) = name else { return self.resolver.set_readers(now, self.guid, readers) };
        if let Some(content) = self.content_of(name) {
            self.resolver.set_readers(now, content, readers.clone());
        }
        self.resolver.set_readers(now, Guid::of_name(name), readers);
    }
    /// Who may look up the records of a name.
    pub(super) fn readers_of(&self, name: &Name) -> Readers {
        self.rules.get(&Some(name.clone())).map(|rule| rule.readers.clone()).unwrap_or_default()
    }
    /// Whether this node's addresses have restricted readers: other senders' chunks do not follow it.
    pub(super) fn is_hidden(&self) -> bool {
        self.rules.contains_key(&None)
    }
    pub(super) fn router_address(&self) -> Option<NetworkAddress> {
        self.config.router.then_some(self.config.address)
    }
    /// An announcement of a name in a fetch: the fetch's choice of publisher depends on all of them.
    fn on_announced_to_fetch(&mut self, now: Time, place: Guid, record: &NameRecord) {
        match self.resolver.records(place) {
            Some(records) => {
                let own = self.readable(records);
                self.on_announced(now, place, &own, Announced::All);
            }
            None => self.on_announced(now, place, core::slice::from_ref(record), Announced::Some),
        }
    }
    /// The records that this node may read: a router delivers by all, but as a host it sees fewer.
    fn readable(&self, records: Vec<NameRecord>) -> Vec<NameRecord> {
        records.into_iter().filter(|record| record.may_be_read_by(&self.guid)).collect()
    }
    pub(super) fn on_announced(&mut self, now: Time, place: Guid, records: &[NameRecord], announced: Announced) {
        let announcement = |record: &NameRecord| {
            let (guid, label) = (record.author(), record.statement().label.clone());
            Some((Announcer { guid, label }, record.manifest()?))
        };
        let manifests = records.iter().filter_map(announcement);
        let mut by_name: BTreeMap<Name, Vec<_>> = BTreeMap::new();
        for (author, manifest) in manifests.filter(|(_, manifest)| Guid::of_name(&manifest.name) == place) {
            by_name.entry(manifest.name.clone()).or_default().push((author, manifest));
        }
        for (name, found) in by_name {
            self.receiver.handle_announcements(now, &name, &found, announced);
        }
    }
}
