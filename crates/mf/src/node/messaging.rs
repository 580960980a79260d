//! Sending, receiving and storing messages: the paper's send, recv, attach and detach (§4).
use tributary_core::Duration;
use tributary_transport::messaging::{
    AcceptOptions, Destination, EXTENSION, GetOptions, Group, Held, HeldFilter, InNetwork, Keeping, Messaging,
    SendOptions as Wanted, SendReport, Spread, StoreStatus,
};

use super::*;
use crate::{
    config::GroupConfig,
    router::proxy::{Decision, Holding, Place},
    sender::PUSHED_MAX,
    wire::names::{MEMBERS_MAX, OWN_LABEL_BYTES_MAX, READERS_MAX},
};

impl MfNode {
    /// The options that a front's request implies.
    fn send_options(&self, wanted: &Wanted, to: &Destination) -> SendOptions {
        let mut options = SendOptions::new(&self.config.transfer);
        options.chunk_bytes = wanted.chunk_bytes.unwrap_or(options.chunk_bytes);
        options.reliability = wanted.reliability.unwrap_or(options.reliability);
        options.in_network = wanted.in_network.unwrap_or(options.in_network);
        options.priority = wanted.priority;
        // Without storage only this node keeps the transfer: it ends when no receiver answers for a long time.
        let is_stored = options.in_network != InNetwork::Nothing;
        options.lifetime = wanted.lifetime.or(is_stored.then_some(self.config.transfer.message_lifetime));
        (options.service, options.proxies) = match (to, wanted.spread) {
            (_, Spread::AllByProxies(depth)) => (ServiceId::Multicast, depth.max(1)),
            (_, Spread::Nearest) => (ServiceId::Anycast, 0),
            (Destination::Name(_), Spread::All) => (ServiceId::Multicast, 0),
            (Destination::Id(_), Spread::All) => (ServiceId::Unicast, 0),
        };
        options.recognises = matches!(to, Destination::Id(_)) && options.proxies == 0;
        options
    }
    /// Fetches an object with the given options.
    pub(super) fn fetch_with(&mut self, now: Time, fetch: Fetch, options: GetOptions) -> TransferId {
        let place = Guid::of_name(&fetch.name);
        let id = self.receiver.fetch(now, fetch, options);
        // Another fetch may watch the name, in which case its results apply here too. A lookup would end after some
        // tries.
        self.resolver.watch(now, place);
        self.settle(now);
        id
    }
}

impl Messaging for MfNode {
    fn send(
        &mut self,
        now: Time,
        object: Box<dyn ObjectReader>,
        to: &Destination,
        options: &Wanted,
    ) -> Result<TransferId, String> {
        options.check()?;
        let destination = match to {
            Destination::Id(text) => guid(text)?,
            Destination::Name(name) => Guid::of_name(name),
        };
        let options = self.send_options(options, to);
        let id = object.manifest().publication_id();
        self.sender.lend(object);
        let transfer = MfNode::send(self, now, id, destination, options);
        if transfer.is_none() {
            self.sender.release(id);
        }
        transfer.map(TransferId).ok_or_else(|| format!("this node sends {PUSHED_MAX} objects already, its limit"))
    }
    fn get(&mut self, now: Time, fetch: Fetch, options: &GetOptions) -> Result<TransferId, String> {
        options.check()?;
        Ok(self.fetch_with(now, fetch, *options))
    }
    fn send_report(&self, _: Time, transfer: TransferId) -> Option<SendReport> {
        let mut report = self.sender.report(transfer.0)?;
        report.has_left &= !self.router.holds_own(transfer.0);
        let own = self.guid.to_string();
        let here = report.custodians.iter().find(|(guid, _)| *guid == own);
        report.kept_here = here.map_or(0, |(_, chunks)| *chunks as u32);
        Some(report)
    }
    fn cancel_send(&mut self, now: Time, transfer: TransferId) {
        self.sender.cancel(transfer.0);
        self.settle(now);
    }
    fn accept(&mut self, now: Time, acceptor: Option<Box<dyn StoreOpener>>, options: &AcceptOptions) {
        self.receiver.config.nack_timeout = options.nack_timeout.unwrap_or(self.config.transfer.nack_timeout);
        self.receiver.accept(acceptor);
        self.receiver.take_early(now);
        self.settle(now);
    }
    fn attach(&mut self, now: Time, name: &Name) {
        self.resolver.put(now, RecordBody::Attached { name: name.clone() });
        self.settle(now);
    }
    fn detach(&mut self, now: Time, name: &Name) {
        // An earlier life of the node may have attached it.
        self.resolver.put(now, RecordBody::Attached { name: name.clone() });
        self.resolver.delete(now, Guid::of_name(name));
        self.settle(now);
    }
    fn set_readers(&mut self, now: Time, name: Option<&Name>, readers: Option<&[String]>) -> Result<(), String> {
        let readers = match readers {
            None => Readers::All,
            Some(devices) if devices.len() > READERS_MAX => {
                return Err(format!("a name has at most {READERS_MAX} readers, not {}", devices.len()));
            }
            Some(devices) => Readers::Only(devices.iter().map(|text| guid(text)).collect::<Result<_, _>>()?),
        };
        match MfNode::set_readers(self, now, name, readers) {
            true => Ok(()),
            false => Err("too many names of this node have restricted readers".into()),
        }
    }
    fn set_group(&mut self, now: Time, label: &str, members: Option<&[String]>) -> Result<(), String> {
        let parse = |members: &[String]| members.iter().map(|text| guid(text)).collect::<Result<Vec<_>, _>>();
        let members = members.map(parse).transpose()?;
        let proxy = self.config.groups.get(label).and_then(|group| group.proxy);
        match MfNode::set_group(self, now, label, members.map(|members| GroupConfig { members, proxy })) {
            true => Ok(()),
            false => Err(format!(
                "a group's label has 1 to {OWN_LABEL_BYTES_MAX} bytes and a group at most {MEMBERS_MAX} members; a larger group \
                 is made of groups"
            )),
        }
    }
    fn groups(&self) -> BTreeMap<String, Group> {
        let group = |(label, group): (&String, &GroupConfig)| {
            let members = group.members.iter().map(ToString::to_string).collect();
            let proxy = group.proxy.map(|proxy| proxy.to_string());
            (label.clone(), Group { id: self.group(label).to_string(), members, proxy })
        };
        self.config.groups.iter().map(group).collect()
    }
    fn holdings(&self, now: Time) -> StoreStatus {
        let Some(proxy) = &self.proxy else { return StoreStatus::default() };
        let (used, capacity) = proxy.usage();
        let mut by_transfer: BTreeMap<_, Vec<&Holding>> = BTreeMap::new();
        // Chunks that are being written are not promised yet.
        for held in proxy.holdings().filter(|held| held.durable) {
            by_transfer.entry((ChunkKey { number: 0, ..held.key }, held.owed)).or_default().push(held);
        }
        let summary = |((key, owed), chunks): ((ChunkKey, bool), Vec<&Holding>)| Held {
            source: key.flow.source.to_string(),
            destination: key.flow.destination.to_string(),
            object: key.object.to_string(),
            name: proxy.name_of(&key).map(String::from),
            chunks: chunks.iter().map(|held| held.key.number).collect(),
            bytes: tributary_core::ByteCount(chunks.iter().map(|held| held.bytes).sum()),
            priority: chunks.iter().map(|held| held.header.priority).max().unwrap_or(0),
            age: chunks.iter().map(|held| now.since(held.since)).max().unwrap_or(Duration::ZERO),
            left: {
                let ending = chunks.iter().filter(|held| !held.on_hold);
                ending.map(|held| held.until.since(now)).min()
            },
            on_hold: chunks.iter().filter(|held| held.on_hold).count() as u64,
            reason: match owed {
                true => chunks.first().map_or("", |held| reason(held.reason)),
                false => "a copy to answer from",
            },
            custodian: self.guid.to_string(),
            waiting: count_of(&chunks, |held| !held.rests && !matches!(held.place, Place::InTransit { .. })),
            resting: count_of(&chunks, |held| held.rests),
            in_transit: count_of(&chunks, |held| in_transit(held).is_some()),
            in_transit_to: {
                let to = chunks.iter().filter_map(|held| Some(in_transit(held)?.0));
                to.collect::<BTreeSet<Guid>>().iter().map(ToString::to_string).collect()
            },
            in_transit_for: {
                let since = chunks.iter().filter_map(|held| Some(in_transit(held)?.1)).min();
                since.map_or(Duration::ZERO, |since| now.since(since))
            },
        };
        StoreStatus { used, capacity, held: by_transfer.into_iter().map(summary).collect() }
    }
    fn purge(&mut self, now: Time, what: &HeldFilter) -> Result<u64, String> {
        let keys = self.meant(what)?;
        let purged = self.proxy.as_mut().map_or(0, |proxy| proxy.purge(now, &keys));
        self.settle(now);
        Ok(purged)
    }
    fn keep(&mut self, now: Time, what: &HeldFilter, how: Keeping) -> Result<u64, String> {
        let decision = match how {
            Keeping::Hold => Decision::Hold,
            Keeping::Release => Decision::Release,
            Keeping::AtLeast(time) if !EXTENSION.contains(&time) => {
                let (min, max) = EXTENSION.into_inner();
                return Err(format!("stored chunks can be kept {min:?} to {max:?} longer, not {time:?}"));
            }
            Keeping::AtLeast(time) => Decision::AtLeast(time),
        };
        let keys = self.meant(what)?;
        let kept = self.proxy.as_mut().map_or(0, |proxy| proxy.decide(now, &keys, decision));
        self.settle(now);
        Ok(kept)
    }
    fn unsaved(&self) -> usize {
        self.proxy.as_ref().map_or(0, |proxy| proxy.unsaved_terms())
    }
}

impl MfNode {
    /// The stored chunks that a filter means.
    fn meant(&self, what: &HeldFilter) -> Result<Vec<ChunkKey>, String> {
        let destination = match what.destination.as_deref() {
            Some(text) if text.starts_with('/') => {
                let name: Name = text.parse().map_err(|_| no_guid(text))?;
                Some(Guid::of_name(&name).to_string())
            }
            other => other.map(str::to_ascii_lowercase),
        };
        let object = what.object.as_deref().map(str::to_ascii_lowercase);
        let begins = |id: String, with: &Option<String>| with.as_ref().is_none_or(|with| id.starts_with(&with[..]));
        let Some(proxy) = &self.proxy else { return Ok(Vec::new()) };
        let is_meant = |key: &ChunkKey| {
            begins(key.flow.destination.to_string(), &destination) && begins(key.object.to_string(), &object)
        };
        Ok(proxy.holdings().map(|held| held.key).filter(is_meant).collect())
    }
}

fn in_transit(held: &Holding) -> Option<(Guid, Time)> {
    if let Place::InTransit { via, since } = held.place { Some((via, since)) } else { None }
}
fn count_of(chunks: &[&Holding], is_meant: impl Fn(&Holding) -> bool) -> u64 {
    chunks.iter().filter(|held| is_meant(held)).count() as u64
}
fn guid(text: &str) -> Result<Guid, String> {
    text.parse().map_err(|()| no_guid(text))
}
fn no_guid(text: &str) -> String {
    format!("'{text}' is no GUID: it has 40 hex digits, `trib status` shows it")
}
fn reason(reason: StoreReason) -> &'static str {
    match reason {
        StoreReason::Away => "the destination is away",
        StoreReason::NoRoute => "no way leads there",
        StoreReason::BadPath => "the way is much worse than usual",
        StoreReason::Relief => "it blocked other chunks",
        StoreReason::Depleted => "storage further on is used up",
    }
}
