//! Delivers anycast requests (paper §2): the access router looks up the devices that hold the content and their
//! addresses, and forwards the request to the nearest one.
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use bytes::Bytes;
use tributary_core::{Duration, Time};

use crate::{
    ids::{Guid, NetworkAddress, Weighted, weighted},
    wire::{ChunkHeader, NameRecord, RecordBody},
};

/// How long requests wait for answers and for a reachable holder: a router that has just started, or whose neighbour
/// has, learns routes and holders a little later.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum waiting requests.
const WAITING_MAX: usize = 4_096;

/// Requests whose nearest source is still being looked up.
#[derive(Debug, Default)]
pub(crate) struct Anycasts(Vec<Waiting>);

#[derive(Debug)]
struct Waiting {
    header: ChunkHeader,
    payload: Bytes,
    since: Time,
    /// The devices that have it, with their addresses if known.
    devices: Option<BTreeMap<Guid, Option<Vec<Weighted>>>>,
    requested: bool,
}

impl Anycasts {
    /// A request without an address.
    pub(crate) fn insert(&mut self, now: Time, header: ChunkHeader, payload: Bytes) {
        if self.0.len() < WAITING_MAX {
            self.0.push(Waiting { header, payload, since: now, devices: None, requested: false });
        }
    }
    /// Takes the records at a place: the devices that have a content, or the location of a GUID's holder.
    pub(crate) fn handle_records(&mut self, place: Guid, records: &[NameRecord]) {
        for waiting in self.0.iter_mut().filter(|waiting| waiting.header.destination == place) {
            // The records are for the requester: those that it may not read do not exist for it.
            let may_know = |record: &&NameRecord| record.may_be_read_by(&waiting.header.source);
            let device = records.iter().filter(may_know).find_map(|record| match &record.statement().body {
                RecordBody::Device(addresses) => Some(addresses.clone()),
                _ => None,
            });
            let devices = waiting.devices.get_or_insert_default();
            if let Some(addresses) = device {
                devices.insert(place, Some(addresses));
                continue;
            }
            let holders = records.iter().filter(may_know);
            let holders = holders.filter(|record| matches!(record.statement().body, RecordBody::Content(_)));
            for holder in holders.map(NameRecord::author) {
                devices.entry(holder).or_insert_with(|| {
                    waiting.requested = false;
                    None
                });
            }
        }
    }
    /// Where a device is.
    pub(crate) fn handle_device(&mut self, guid: Guid, addresses: &[Weighted]) {
        for devices in self.0.iter_mut().filter_map(|waiting| waiting.devices.as_mut()) {
            if let Some(known) = devices.get_mut(&guid) {
                *known = Some(addresses.to_vec());
            }
        }
    }
    /// Devices to look up; each once for each request.
    pub(crate) fn wanted(&mut self) -> Vec<Guid> {
        let fresh = self.0.iter_mut().filter(|waiting| waiting.devices.is_some() && !waiting.requested);
        let mut wanted = Vec::new();
        for waiting in fresh {
            waiting.requested = true;
            let unknown = waiting.devices.iter().flatten().filter(|(_, known)| known.is_none());
            wanted.extend(unknown.map(|(guid, _)| *guid));
        }
        wanted
    }
    /// Returns the requests whose lookups have ended, each addressed to the nearest device, weighted by the devices'
    /// accesses. `distance` returns the distance to a device at an address, or `None` if it is unreachable.
    pub(crate) fn poll_ready(
        &mut self,
        now: Time,
        distance: impl Fn(&Guid, NetworkAddress) -> Option<u64>,
    ) -> Vec<(ChunkHeader, Bytes)> {
        let mut ready = Vec::new();
        self.0.retain_mut(|waiting| {
            let Some(devices) = &waiting.devices else { return true };
            if devices.values().any(Option::is_none) && now.since(waiting.since) < PATIENCE {
                return true;
            }
            let places = devices.iter().flat_map(|(guid, known)| known.iter().flatten().map(|place| (*guid, *place)));
            let far = |guid: &Guid, (at, weight): Weighted| Some(weighted(distance(guid, at)?, weight));
            let nearest = places.filter_map(|(guid, place)| Some((far(&guid, place)?, guid, place.0))).min();
            let Some((_, guid, address)) = nearest else { return now.since(waiting.since) < PATIENCE };
            waiting.header.destination = guid;
            waiting.header.addresses = Vec::from([address]);
            ready.push((waiting.header.clone(), waiting.payload.clone()));
            false
        });
        ready
    }
    /// Drops unanswered lookups; returns the names to look up again, because no known holder is reachable.
    pub(crate) fn expire(&mut self, now: Time) -> BTreeSet<Guid> {
        self.0.retain(|waiting| now.since(waiting.since) < PATIENCE * 2);
        let stuck = self.0.iter().filter_map(|waiting| Some((waiting.header.destination, waiting.devices.as_ref()?)));
        stuck.flat_map(|(place, devices)| core::iter::once(place).chain(devices.keys().copied())).collect()
    }
}

#[cfg(test)]
mod tests {
    use tributary_content::{MemoryObject, ObjectReader, SigningKey};

    use super::*;
    use crate::{
        ids::Token,
        wire::{ChunkKind, Readers, Statement},
    };

    #[test]
    fn a_request_of_who_may_not_know_a_content_finds_nobody_who_has_it() {
        let (key, now) = (SigningKey::from_secret(&[1; 32]), Time::from_millis(1));
        let [reader, unsolicited] = [Guid([5; 20]), Guid([6; 20])];
        let object = MemoryObject::new("/lab/plans".parse().unwrap(), Bytes::from_static(b"plans"), &key).unwrap();
        let place = Guid::of_content(&key.public(), &object.manifest().name);
        let statement = Statement {
            key: key.public(),
            version: 1,
            lifetime_ms: 1_000,
            ends: None,
            label: "x".into(),
            body: RecordBody::Content(object.manifest().encode()),
            readers: Readers::Only([reader].into()),
        };
        let record = NameRecord::sign(statement, &key).unwrap();
        let holder = record.author();
        let mut anycasts = Anycasts::default();
        for source in [reader, unsolicited] {
            let kind = ChunkKind::Transport(Token::default());
            anycasts.insert(now, ChunkHeader::new(kind, source, place, NetworkAddress::NONE), Bytes::new());
        }
        anycasts.handle_records(place, &[record]);
        assert_eq!(anycasts.wanted(), [holder]);
        anycasts.handle_device(holder, &[(NetworkAddress(4), 255)]);
        let ready = anycasts.poll_ready(now, |_, _| Some(1));
        let bound: Vec<_> = ready.iter().map(|(header, _)| (header.source, header.destination)).collect();
        assert_eq!(bound, [(reader, holder)]);
    }
}
