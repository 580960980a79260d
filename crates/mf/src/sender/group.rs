//! One object in transfer to a group (paper §3.5): the source aggregates the members' missing chunks, and repeats them
//! to all or to each.
use super::*;

/// How long requests for the same chunks are collected.
const COLLECT: Duration = Duration::from_millis(50);
/// How long a member may be silent after everything was sent before it is reminded; doubles up to [`REMIND_MAX`].
const REMIND: Duration = Duration::from_secs(3);
/// Maximum members of a group whose answers are kept.
const MEMBERS_MAX: usize = 4_096;

/// How many members of a group should get it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Wanted {
    /// All.
    #[default]
    All,
    /// The nearest one, chosen by the network.
    One,
}

/// A source's state of its receivers.
#[derive(Default)]
pub(super) struct Group {
    wanted: Wanted,
    members: BTreeMap<Guid, Member>,
    /// Whether the members are known: until then one of them may still be silent and incomplete.
    is_known: bool,
    /// Chunks, and the members that have requested each since its last repair.
    requests: BTreeMap<u32, BTreeSet<Guid>>,
    repair_at: Option<Time>,
    /// Repairs for one member each.
    single: BTreeSet<(Guid, u32)>,
    remind_at: Option<Time>,
    remind_after: Duration,
}

#[derive(Default)]
struct Member {
    address: NetworkAddress,
    is_complete: bool,
    /// It cannot keep it.
    has_refused: bool,
    reports: Reports,
    /// Its chunks in storage on the way.
    stored: BTreeMap<u32, (Guid, NetworkAddress)>,
}

impl Member {
    /// Whether nothing more is wanted of the source.
    fn is_over(&self) -> bool {
        self.is_complete || self.has_refused
    }
}

impl Group {
    pub(super) fn new(wanted: Wanted) -> Group {
        Group { wanted, is_known: wanted == Wanted::One, remind_after: REMIND, ..Group::default() }
    }
    fn member(&mut self, guid: Guid) -> Option<&mut Member> {
        let room = self.members.len() < MEMBERS_MAX || self.members.contains_key(&guid);
        room.then(|| self.members.entry(guid).or_default())
    }
    /// Sets the current members of the group; it does not wait for those who leave.
    pub(super) fn set_members(&mut self, own: Guid, members: &BTreeSet<Guid>) {
        if self.wanted == Wanted::One {
            return;
        }
        self.is_known = true;
        self.members.retain(|guid, member| members.contains(guid) || member.is_over());
        for guid in members.iter().filter(|guid| **guid != own) {
            self.member(*guid);
        }
    }
    /// A member, or a proxy for its members, reports missing chunks. Returns those that proxies on the way have, except
    /// chunks that must bypass proxies.
    pub(super) fn on_missing(
        &mut self,
        now: Time,
        from: (Guid, NetworkAddress),
        sequence: u32,
        missing: impl Iterator<Item = u32>,
        past_copies: &BTreeSet<u32>,
    ) -> BTreeMap<(Guid, NetworkAddress), Vec<u32>> {
        let mut pushes: BTreeMap<(Guid, NetworkAddress), Vec<u32>> = BTreeMap::new();
        let Some(member) = self.member(from.0) else { return pushes };
        if !member.reports.is_news(now, sequence) {
            return pushes;
        }
        member.address = from.1;
        let mut wanted = Vec::new();
        for number in missing {
            match member.stored.remove(&number) {
                Some(proxy) if !past_copies.contains(&number) => pushes.entry(proxy).or_default().push(number),
                _ => wanted.push(number),
            }
        }
        for number in wanted {
            self.requests.entry(number).or_default().insert(from.0);
            self.repair_at.get_or_insert(now + COLLECT);
        }
        pushes
    }
    pub(super) fn on_complete(&mut self, guid: Guid) {
        if let Some(member) = self.member(guid) {
            member.is_complete = true;
            member.stored.clear();
        }
        self.single.retain(|(member, _)| *member != guid);
    }
    pub(super) fn on_refused(&mut self, guid: Guid) {
        if let Some(member) = self.member(guid) {
            member.has_refused = true;
        }
        self.single.retain(|(member, _)| *member != guid);
    }
    pub(super) fn on_stored(&mut self, guid: Guid, proxy: (Guid, NetworkAddress), chunks: impl Iterator<Item = u32>) {
        if let Some(member) = self.member(guid) {
            member.stored.extend(chunks.map(|number| (number, proxy)));
        }
    }
    pub(super) fn on_dropped(&mut self, guid: Guid, chunks: &ChunkRanges) {
        if let Some(member) = self.member(guid) {
            member.stored.retain(|number, _| !chunks.contains(*number));
        }
    }
    /// Runs the timers that are due. A chunk requested by more than `threshold` members is sent to all again, others
    /// only to the requesters.
    pub(super) fn handle_timeout(&mut self, now: Time, threshold: usize, again: &mut BTreeSet<u32>) {
        if self.repair_at.is_some_and(|at| at <= now) {
            self.repair_at = None;
            for (number, who) in core::mem::take(&mut self.requests) {
                if who.len() > threshold {
                    again.insert(number);
                } else {
                    self.single.extend(who.into_iter().map(|guid| (guid, number)));
                }
            }
        }
        if self.remind_at.is_some_and(|at| at <= now) {
            // A member that received nothing cannot know what is missing: the manifest makes it answer. Storage that
            // holds the manifest sends it, unless it has lost it since.
            let is_late = self.remind_after >= REMIND_MAX;
            let is_notified = |member: &Member| member.is_over() || !is_late && member.stored.contains_key(&0);
            let silent = self.members.iter().filter(|(_, member)| !is_notified(member));
            self.single.extend(silent.map(|(guid, _)| (*guid, 0)));
            self.remind_after = (self.remind_after * 2).min(REMIND_MAX);
            self.remind_at = Some(now + self.remind_after);
        }
    }
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        [self.repair_at, self.remind_at].into_iter().flatten().min()
    }
    /// A repair for one member: the member, its address, and the chunk.
    pub(super) fn take_single(&mut self) -> Option<(Guid, NetworkAddress, u32)> {
        let (guid, number) = self.single.pop_first()?;
        let address = self.members.get(&guid).map_or(NetworkAddress::NONE, |member| member.address);
        Some((guid, address, number))
    }
    /// Everything was sent once: from now on silent members are reminded.
    pub(super) fn on_all_sent(&mut self, now: Time) {
        self.remind_at.get_or_insert(now + REMIND);
    }
    /// Whether repairs for single members are pending.
    pub(super) fn has_single(&self) -> bool {
        !self.single.is_empty()
    }
    pub(super) fn is_idle(&self) -> bool {
        self.single.is_empty() && self.requests.is_empty()
    }
    /// Whether the members are known, and all have everything or refuse it; if one is enough, whether one does. Storage
    /// on the way may report for the group itself while it has not found a member.
    pub(super) fn is_over(&self) -> bool {
        let mut members = self.members.values();
        match self.wanted {
            Wanted::One => members.any(Member::is_over),
            Wanted::All => self.is_known && !self.members.is_empty() && members.all(Member::is_over),
        }
    }
    /// Whether storage on the way has all `count` chunks for each incomplete member; for one member if one is enough.
    pub(super) fn is_kept(&self, count: u32) -> bool {
        let is_kept = |member: &Member| member.is_over() || member.stored.len() >= count as usize;
        match self.wanted {
            Wanted::One => self.members.values().any(is_kept),
            Wanted::All => self.is_known && !self.members.is_empty() && self.members.values().all(is_kept),
        }
    }
    /// Members; zero before they are known.
    pub(super) fn len(&self) -> usize {
        if self.is_known { self.members.len() } else { 0 }
    }
    /// The chunks that are kept for each member.
    pub(super) fn stored(&self) -> impl Iterator<Item = u32> {
        self.members.values().flat_map(|member| member.stored.keys().copied())
    }
    /// Who keeps each of these.
    pub(super) fn keepers(&self) -> impl Iterator<Item = Guid> {
        self.members.values().flat_map(|member| member.stored.values().map(|(guid, _)| *guid))
    }
    pub(super) fn refused(&self) -> impl Iterator<Item = Guid> {
        self.members.iter().filter(|(_, member)| member.has_refused).map(|(guid, _)| *guid)
    }
    pub(super) fn delivered(&self) -> impl Iterator<Item = Guid> {
        self.members.iter().filter(|(_, member)| member.is_complete).map(|(guid, _)| *guid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn guid(number: u8) -> Guid {
        Guid([number; 20])
    }

    #[test]
    fn requests_are_collected_and_repaired_to_all_beyond_the_threshold() {
        let mut group = Group::new(Wanted::All);
        let now = Time::from_millis(1_000);
        for (member, missing) in [(1, vec![4, 7]), (2, vec![4]), (3, vec![4])] {
            let pushes =
                group.on_missing(now, (guid(member), NetworkAddress(9)), 1, missing.into_iter(), &BTreeSet::new());
            assert!(pushes.is_empty());
        }
        // An old report is no news.
        group.on_missing(now, (guid(1), NetworkAddress(9)), 1, [5].into_iter(), &BTreeSet::new());
        let mut again = BTreeSet::new();
        group.handle_timeout(now, 2, &mut again);
        assert!(again.is_empty() && group.take_single().is_none(), "it was not collected");
        group.handle_timeout(now + COLLECT, 2, &mut again);
        assert_eq!(again, BTreeSet::from([4]));
        assert_eq!(group.take_single(), Some((guid(1), NetworkAddress(9), 7)));
        assert!(group.take_single().is_none());
    }

    #[test]
    fn what_storage_on_the_way_has_is_pushed_from_there_and_the_silent_are_reminded() {
        let mut group = Group::new(Wanted::All);
        let now = Time::from_millis(1_000);
        group.set_members(guid(9), &BTreeSet::from([guid(1), guid(2), guid(9)]));
        assert_eq!(group.len(), 2, "the source itself is no receiver");
        let proxy = (guid(7), NetworkAddress(7));
        group.on_stored(guid(1), proxy, [3, 4].into_iter());
        let none = BTreeSet::new();
        let pushes = group.on_missing(now, (guid(1), NetworkAddress(1)), 1, [3, 5].into_iter(), &none);
        assert_eq!(pushes, BTreeMap::from([(proxy, Vec::from([3]))]));
        group.on_complete(guid(1));
        group.on_all_sent(now);
        let mut again = BTreeSet::new();
        group.handle_timeout(now + REMIND, 4, &mut again);
        // Member 1 requested chunk 5 before it was complete.
        let reminded: Vec<(Guid, u32)> =
            core::iter::from_fn(|| group.take_single()).map(|(guid, _, number)| (guid, number)).collect();
        assert!(reminded.contains(&(guid(2), 0)) && !reminded.contains(&(guid(1), 0)), "{reminded:?}");
        assert!(!group.is_over());
        group.on_complete(guid(2));
        assert!(group.is_over());
    }

    #[test]
    fn one_is_enough_where_one_is_wanted_whatever_storage_says_of_the_group() {
        let mut group = Group::new(Wanted::One);
        assert!(!group.is_over());
        // Before a member was found, chunks were stored for the group itself; part of the rest went to another member.
        group.on_stored(guid(5), (guid(7), NetworkAddress(7)), [1].into_iter());
        let none = BTreeSet::new();
        let from = (guid(2), NetworkAddress(2));
        group.on_missing(Time::from_millis(1_000), from, 1, [3].into_iter(), &none);
        assert!(!group.is_over());
        group.on_complete(guid(1));
        assert!(group.is_over());
    }

    #[test]
    fn who_is_not_given_the_description_by_storage_is_reminded() {
        let mut group = Group::new(Wanted::All);
        let mut now = Time::from_millis(1_000);
        group.set_members(guid(9), &BTreeSet::from([guid(1), guid(2)]));
        let proxy = (guid(7), NetworkAddress(7));
        // The store was too full for all of member 1's chunks.
        group.on_stored(guid(1), proxy, [0, 1, 2].into_iter());
        group.on_dropped(guid(1), &ChunkRanges::from_ascending([0, 1]));
        group.on_stored(guid(2), proxy, [0, 1, 2].into_iter());
        group.on_all_sent(now);
        let mut reminded: BTreeMap<Guid, u32> = BTreeMap::new();
        for _ in 0..10 {
            if reminded.contains_key(&guid(2)) {
                break;
            }
            now = group.poll_timeout().expect("somebody is silent");
            group.handle_timeout(now, 2, &mut BTreeSet::new());
            for (member, _, number) in core::iter::from_fn(|| group.take_single()) {
                assert_eq!(number, 0);
                *reminded.entry(member).or_default() += 1;
            }
        }
        assert!(reminded.get(&guid(1)) > reminded.get(&guid(2)), "{reminded:?}");
        assert!(reminded.contains_key(&guid(2)), "{reminded:?}");
        let waited = now.since(Time::from_millis(1_000));
        assert!(waited >= REMIND_MAX, "what storage may have lost is sent again late only, not after {waited:?}");
    }

    #[test]
    fn the_first_who_has_everything_is_not_all_as_long_as_nobody_knows_the_others() {
        let mut group = Group::new(Wanted::All);
        group.on_complete(guid(1));
        assert_eq!((group.is_over(), group.len()), (false, 0));
        group.set_members(guid(9), &BTreeSet::from([guid(1), guid(2)]));
        assert_eq!((group.is_over(), group.len()), (false, 2));
        group.on_complete(guid(2));
        assert!(group.is_over());
        let mut nearest = Group::new(Wanted::One);
        nearest.on_complete(guid(1));
        assert!(nearest.is_over(), "one is enough");
    }

    #[test]
    fn it_is_kept_once_storage_has_all_of_it_for_each_who_has_not_got_it() {
        let (mut group, proxy) = (Group::new(Wanted::All), (guid(7), NetworkAddress(7)));
        group.on_stored(guid(1), proxy, 0..2);
        assert!(!group.is_kept(2), "who the members are is unknown");
        group.set_members(guid(9), &BTreeSet::from([guid(1), guid(2)]));
        assert!(!group.is_kept(2));
        group.on_complete(guid(2));
        assert!(group.is_kept(2) && !group.is_kept(3) && !group.is_over());
        group.on_dropped(guid(1), &ChunkRanges::from_ascending([1]));
        assert!(!group.is_kept(2));
    }

    #[test]
    fn who_cannot_keep_it_is_not_waited_for_and_not_taken_for_one_who_has_it() {
        let mut group = Group::new(Wanted::All);
        group.set_members(guid(9), &BTreeSet::from([guid(1), guid(2)]));
        group.on_refused(guid(1));
        assert!(!group.is_over());
        group.on_complete(guid(2));
        assert!(group.is_over());
        assert_eq!((group.delivered().collect(), group.refused().collect()), (vec![guid(2)], vec![guid(1)]));
    }
}
