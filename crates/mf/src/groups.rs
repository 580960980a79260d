//! Resolves groups (paper §3.5): a group GUID leads to devices and to further groups, each perhaps with a separate
//! proxy, and devices lead to addresses. Names in use are watched, so that joining, leaving and moving members are
//! noticed.
use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    vec::Vec,
};

use tributary_core::{Duration, Time};

use crate::{
    ids::{Guid, Weighted},
    link::Slot,
    wire::{NameRecord, Readers, RecordBody, Statement},
};

/// How long to wait for an answer before a name counts as unbound.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long an unused name is watched.
const IDLE: Duration = Duration::from_secs(60);
/// Maximum nesting of groups.
const DEPTH_MAX: u32 = 8;
/// Maximum known names.
const NAMES_MAX: usize = 16_384;
/// Maximum devices of a group.
const DEVICES_MAX: usize = 4_096;

/// Groups and devices that this node has looked up.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    names: BTreeMap<Guid, Known>,
    /// Chunks that wait for the lookup of their destination.
    waiting: Vec<Slot>,
    /// Names to start (true) or stop (false) watching.
    pub(crate) watches: VecDeque<(Guid, bool)>,
    changed: bool,
    /// Whether any record has arrived since this was taken.
    pub(crate) is_news: bool,
}

/// What records say of a GUID, by author: where a device is, a group's members, or that a device is attached.
type Declared = BTreeMap<Guid, (RecordBody, Readers)>;

#[derive(Debug)]
struct Known {
    declared: Declared,
    is_answered: bool,
    queried_at: Time,
    used_at: Time,
}

/// Whom a chunk for a group is for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Members {
    /// Devices and where they are; none if they are away.
    pub(crate) devices: BTreeMap<Guid, Vec<Weighted>>,
    /// Groups that a proxy elsewhere spreads to, and where that is.
    pub(crate) groups: BTreeMap<Guid, Vec<Weighted>>,
}

impl Groups {
    /// The members of a group as `source` may see them: a group, or a member's location, that it may not read does not
    /// exist for it. `None` during the lookup. `own` is this device, which distributes to groups whose proxy it is.
    pub(crate) fn resolve(&mut self, now: Time, own: Guid, source: Guid, group: Guid) -> Option<Members> {
        let mut members = Members::default();
        let mut seen = BTreeSet::new();
        let mut open = Vec::from([(group, 0)]);
        let mut is_known = true;
        while let Some((guid, depth)) = open.pop() {
            if depth > DEPTH_MAX || !seen.insert(guid) || members.devices.len() >= DEVICES_MAX {
                continue;
            }
            let Some(declared) = self.look(now, guid) else {
                is_known = false;
                continue;
            };
            if declared.is_empty() && guid != group {
                // A device without a record is away; a group without a record has no members.
                members.devices.entry(guid).or_default();
            }
            for (author, (declared, readers)) in declared {
                if !readers.contain(&source) && author != source {
                    continue;
                }
                match declared {
                    RecordBody::Device(addresses) => drop(members.devices.insert(guid, addresses)),
                    RecordBody::Group { proxy, .. } if !proxy.is_none() && proxy != own && guid != group => {
                        match self.look(now, proxy) {
                            Some(declared) => {
                                let places = declared.into_values().find_map(|(declared, _)| match declared {
                                    RecordBody::Device(addresses) => Some(addresses),
                                    _ => None,
                                });
                                members.groups.insert(guid, places.unwrap_or_default());
                            }
                            None => is_known = false,
                        }
                    }
                    RecordBody::Group { members, .. } => {
                        open.extend(members.into_iter().map(|member| (member, depth + 1)))
                    }
                    _ => open.push((author, depth + 1)),
                }
            }
        }
        is_known.then_some(members)
    }
    /// The devices that a GUID represents: those in the owner's list, including nested groups, or else the device
    /// itself. The result is empty while `own`, this device, has not looked up the group or may not read it. Devices
    /// attached to a name are not included.
    pub(crate) fn listed(&mut self, now: Time, own: Guid, guid: Guid) -> BTreeSet<Guid> {
        let mut devices = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut open = Vec::from([(guid, 0)]);
        while let Some((guid, depth)) = open.pop() {
            if depth > DEPTH_MAX || !seen.insert(guid) || devices.len() >= DEVICES_MAX {
                continue;
            }
            let declared = self.look(now, guid).unwrap_or_default();
            let group = declared.into_iter().find_map(|(author, (declared, readers))| match declared {
                RecordBody::Group { members, .. } if readers.contain(&own) || author == own => Some(members),
                _ => None,
            });
            match group {
                Some(members) => open.extend(members.into_iter().map(|member| (member, depth + 1))),
                None => drop(devices.insert(guid)),
            }
        }
        devices
    }
    /// Whether a GUID is a group or a name with attached devices, by its records; `None` during the lookup.
    pub(crate) fn is_group(&mut self, now: Time, guid: Guid) -> Option<bool> {
        let declared = self.look(now, guid)?;
        Some(declared.values().any(|(declared, _)| !matches!(declared, RecordBody::Device(_))))
    }
    /// The records of a GUID; looks them up if they are unknown.
    fn look(&mut self, now: Time, guid: Guid) -> Option<Declared> {
        if let Some(known) = self.names.get_mut(&guid) {
            known.used_at = now;
            return (known.is_answered || now.since(known.queried_at) >= PATIENCE).then(|| known.declared.clone());
        }
        if self.names.len() >= NAMES_MAX {
            return Some(BTreeMap::new());
        }
        self.names.insert(guid, Known { declared: BTreeMap::new(), is_answered: false, queried_at: now, used_at: now });
        self.watches.push_back((guid, true));
        None
    }
    /// All records of a place.
    pub(crate) fn handle_found(&mut self, place: Guid, records: &[NameRecord]) {
        let Some(known) = self.names.get_mut(&place) else { return };
        known.is_answered = true;
        known.declared = records.iter().filter_map(|record| Some((record.author(), declared(record)?))).collect();
        (self.changed, self.is_news) = (true, true);
    }
    /// A record that is new or withdraws another one.
    pub(crate) fn handle_changed(&mut self, place: Guid, record: &NameRecord) {
        let Some(known) = self.names.get_mut(&place) else { return };
        match declared(record) {
            Some(declared) => drop(known.declared.insert(record.author(), declared)),
            None => drop(known.declared.remove(&record.author())),
        }
        (self.changed, self.is_news) = (true, true);
    }
    /// A chunk waits until its group is known.
    pub(crate) fn wait(&mut self, slot: Slot) {
        self.waiting.push(slot);
    }
    /// Chunks to resolve again, if any record has arrived.
    pub(crate) fn take_waiting(&mut self) -> Vec<Slot> {
        if core::mem::take(&mut self.changed) { core::mem::take(&mut self.waiting) } else { Vec::new() }
    }
    /// Whether a name is watched for a group.
    pub(crate) fn uses(&self, guid: &Guid) -> bool {
        self.names.contains_key(guid)
    }
    /// Forgets unused names, and ends unanswered lookups.
    pub(crate) fn expire(&mut self, now: Time) {
        self.changed |= !self.waiting.is_empty();
        let idle = self.names.iter().filter(|(_, known)| now.since(known.used_at) >= IDLE).map(|(guid, _)| *guid);
        for guid in idle.collect::<Vec<_>>() {
            self.names.remove(&guid);
            self.watches.push_back((guid, false));
        }
    }
}

fn declared(record: &NameRecord) -> Option<(RecordBody, Readers)> {
    let Statement { body, readers, .. } = record.statement();
    let is_meant = matches!(body, RecordBody::Device(_) | RecordBody::Group { .. } | RecordBody::Attached { .. });
    is_meant.then(|| (body.clone(), readers.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::NetworkAddress,
        wire::{Readers, Statement},
    };
    use tributary_content::SigningKey;

    fn key(number: u8) -> SigningKey {
        SigningKey::from_secret(&[number; 32])
    }
    fn device(number: u8) -> Guid {
        Guid::of(&key(number).public(), &[])
    }
    fn record(number: u8, body: RecordBody) -> NameRecord {
        record_for(number, body, Readers::All)
    }
    fn record_for(number: u8, body: RecordBody, readers: Readers) -> NameRecord {
        let key = key(number);
        let statement = Statement {
            key: key.public(),
            version: 1,
            lifetime_ms: 1_000,
            ends: None,
            label: "x".into(),
            body,
            readers,
        };
        NameRecord::sign(statement, &key).expect("a legal record")
    }
    fn group(label: &str, members: &[Guid], proxy: Guid) -> (Guid, NameRecord) {
        let record = record(9, RecordBody::Group { label: label.into(), members: members.into(), proxy });
        (record.guid(), record)
    }
    fn requested(groups: &mut Groups) -> Vec<Guid> {
        core::iter::from_fn(|| groups.watches.pop_front()).filter(|(_, on)| *on).map(|(guid, _)| guid).collect()
    }

    #[test]
    fn groups_in_groups_are_resolved_to_devices_and_to_proxies_elsewhere() {
        let now = Time::from_millis(1);
        let far_group = group("far", &[device(3)], device(4));
        let (top, record_of_top) = group("top", &[device(1), device(2), far_group.0], Guid::NONE);
        let mut groups = Groups::default();
        assert_eq!(groups.resolve(now, device(8), device(7), top), None);
        assert_eq!(requested(&mut groups), [top]);
        groups.handle_found(top, &[record_of_top]);
        assert_eq!(groups.resolve(now, device(8), device(7), top), None, "its members are not known yet");
        let at = |number: u8| RecordBody::Device(Vec::from([(NetworkAddress(u32::from(number)), 1)]));
        groups.handle_found(device(1), &[record(1, at(1))]);
        groups.handle_found(device(2), &[]);
        groups.handle_found(far_group.0, core::slice::from_ref(&far_group.1));
        assert_eq!(groups.resolve(now, device(8), device(7), top), None, "nor where the proxy is");
        groups.handle_found(device(4), &[record(4, at(4))]);
        let members = groups.resolve(now, device(8), device(7), top).expect("everything is known");
        let expected = BTreeMap::from([(device(1), Vec::from([(NetworkAddress(1), 1)])), (device(2), Vec::new())]);
        assert_eq!(members.devices, expected);
        assert_eq!(members.groups, BTreeMap::from([(far_group.0, Vec::from([(NetworkAddress(4), 1)]))]));
        // The proxy itself spreads to the members of its group.
        let _ = groups.resolve(now, device(4), device(7), far_group.0);
        groups.handle_found(device(3), &[record(3, at(3))]);
        let members = groups.resolve(now, device(4), device(7), far_group.0).expect("everything is known");
        assert_eq!(members.devices.keys().copied().collect::<Vec<_>>(), [device(3)]);
    }

    #[test]
    fn groups_and_members_that_a_source_may_not_know_are_not_there_for_it() {
        let now = Time::from_millis(1);
        let only = |numbers: &[u8]| Readers::Only(numbers.iter().map(|number| device(*number)).collect());
        let at = |number: u8| RecordBody::Device(Vec::from([(NetworkAddress(u32::from(number)), 1)]));
        let body = RecordBody::Group { label: "all".into(), members: [device(1), device(2)].into(), proxy: Guid::NONE };
        let record_of_all = record_for(9, body, only(&[5, 6]));
        let all = record_of_all.guid();
        let mut groups = Groups::default();
        groups.resolve(now, device(8), device(5), all);
        groups.handle_found(all, &[record_of_all]);
        groups.resolve(now, device(8), device(5), all);
        groups.handle_found(device(1), &[record(1, at(1))]);
        groups.handle_found(device(2), &[record_for(2, at(2), only(&[6, 7]))]);
        let mut members = |source: u8| {
            let members = groups.resolve(now, device(8), device(source), all).expect("everything is known");
            members.devices.into_keys().collect::<BTreeSet<_>>()
        };
        assert_eq!(members(5), [device(1)].into(), "the second member is not for it");
        assert_eq!(members(6), [device(1), device(2)].into());
        assert_eq!(members(7), [].into(), "nor is the group");
        assert_eq!(members(9), [device(1)].into(), "its owner may");
    }

    #[test]
    fn a_group_stands_for_the_devices_that_are_listed_and_for_nobody_as_long_as_it_is_not_known() {
        let now = Time::from_millis(1);
        let inner = group("inner", &[device(3)], device(4));
        let top = group("top", &[device(1), inner.0], Guid::NONE);
        let mut groups = Groups::default();
        let listed = |groups: &mut Groups, own: u8, guid: Guid| groups.listed(now, device(own), guid);
        assert_eq!(listed(&mut groups, 8, top.0), [top.0].into(), "no device has this GUID");
        assert!(!core::mem::take(&mut groups.is_news));
        groups.handle_found(top.0, core::slice::from_ref(&top.1));
        assert!(core::mem::take(&mut groups.is_news) && !core::mem::take(&mut groups.is_news));
        assert_eq!(listed(&mut groups, 8, top.0), [device(1), inner.0].into());
        // A proxy elsewhere changes nothing.
        groups.handle_found(inner.0, core::slice::from_ref(&inner.1));
        assert_eq!(listed(&mut groups, 8, top.0), [device(1), device(3)].into());
        let body = RecordBody::Group { label: "inner".into(), members: [device(3)].into(), proxy: Guid::NONE };
        groups.handle_changed(inner.0, &record_for(9, body, Readers::Only([device(7)].into())));
        assert_eq!(listed(&mut groups, 8, top.0), [device(1), inner.0].into(), "it is not for this one any more");
        assert_eq!(listed(&mut groups, 7, top.0), [device(1), device(3)].into());
        // Attaching to a name makes no device a reader.
        let name: tributary_content::Name = "/all".parse().expect("a name");
        let place = Guid::of_name(&name);
        listed(&mut groups, 8, place);
        groups.handle_found(place, &[record(5, RecordBody::Attached { name })]);
        assert_eq!(listed(&mut groups, 8, place), [place].into());
    }

    #[test]
    fn a_ring_of_groups_ends_and_silence_counts_as_nobody() {
        let now = Time::from_millis(1);
        let guid_of = |label: &str| Guid::of(&key(9).public(), label.as_bytes());
        let (a, record_a) = group("a", &[guid_of("b"), device(1)], Guid::NONE);
        let (b, record_b) = group("b", &[a], Guid::NONE);
        let mut groups = Groups::default();
        groups.resolve(now, device(8), device(7), a);
        groups.handle_found(a, &[record_a]);
        groups.resolve(now, device(8), device(7), a);
        groups.handle_found(b, &[record_b]);
        assert_eq!(groups.resolve(now, device(8), device(7), a), None, "device 1 has not been answered");
        let members = groups.resolve(now + PATIENCE, device(8), device(7), a).expect("patience is over");
        assert_eq!(members.devices, BTreeMap::from([(device(1), Vec::new())]));
        groups.expire(now + PATIENCE + IDLE);
        assert!(!groups.uses(&a), "what nobody uses is not watched");
    }
}
