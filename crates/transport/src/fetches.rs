//! The fetches of a node: their numbers, their turns under a common limit, their events, and the last that ended.
use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    vec::Vec,
};
use core::ops::Bound::{Excluded, Included, Unbounded};

use tributary_content::{Name, StoreOpener};
use tributary_core::{
    Duration, Rate, Time, TransferId,
    event::{TransferEvent, TransferReport},
};

use crate::{
    limit::TokenBucket,
    policy::{PathDemands, Shared},
};

/// Burst of a rate limit, as time.
pub const LIMIT_BURST: Duration = Duration::from_millis(20);
/// Transfer numbers have 31 bits: families may use the last one.
const NUMBER_MAX: u32 = u32::MAX >> 1;

/// A fetch of some family in a [`FetchTable`].
pub trait Fetching {
    /// Name of the object.
    fn name(&self) -> &Name;
    /// Whether it has ended, one way or the other.
    fn is_ended(&self) -> bool;
    /// Whether it has ended and the node has no more work for it: then its account may be forgotten.
    fn is_settled(&self) -> bool {
        self.is_ended()
    }
    /// Whether it ended because its name has no publisher: then it is not listed among the node's transfers.
    fn was_in_vain(&self) -> bool {
        false
    }
    /// Changes its rate limit; `None` lifts it.
    fn set_limit(&mut self, now: Time, rate: Option<Rate>);
    /// Changes its demands on the paths that it uses. False if it cannot choose.
    fn set_demands(&mut self, _now: Time, _demands: PathDemands) -> bool {
        false
    }
    /// Its account.
    fn report(&self, now: Time) -> TransferReport;
}

tributary_core::declared! {
    /// All fetches of a node, by number.
    #[derive(Debug)]
    pub struct FetchTable<F> {
        /// Those that have work or events; the others would only be skipped for each packet.
        active: BTreeMap<TransferId, F> = BTreeMap::new(),
        settled: BTreeMap<TransferId, F> = BTreeMap::new(),
        /// Those that only look, and are no transfers.
        lookups: BTreeSet<TransferId> = BTreeSet::new(),
        number: u32 = number & NUMBER_MAX,
        /// Maximum ended fetches whose reports are kept.
        ended_max: usize = ended_max,
        /// The fetch that was served last.
        served: TransferId = TransferId(0),
        /// The limit of all fetches together, and the policies of the faces that they use.
        pub shared: Shared = Shared::default(),
        events: VecDeque<(TransferId, TransferEvent)> = VecDeque::new(),
    }
    /// Without fetches. The first one gets the number after `number`; accounts of `ended_max` ended ones are kept.
    pub fn new(number: u32, ended_max: usize) {}
}

impl<F: Fetching> FetchTable<F> {
    /// A number for a fetch before it is [inserted](FetchTable::insert): never zero, at most 31 bits.
    pub fn number(&mut self) -> TransferId {
        self.number = (self.number + 1) & NUMBER_MAX;
        self.number = self.number.max(1);
        TransferId(self.number)
    }
    /// A number for a fetch with this opener; an opener that only looks names up makes it a lookup.
    pub fn number_for(&mut self, opener: &dyn StoreOpener) -> TransferId {
        let id = self.number();
        if opener.only_looks() {
            self.lookups.insert(id);
        }
        id
    }
    /// Adds a fetch. Forgets lookups that have ended and, beyond the limit, the oldest transfers that have ended;
    /// returns all forgotten ones.
    pub fn insert(&mut self, id: TransferId, fetch: F) -> Vec<(TransferId, F)> {
        self.settled.remove(&id);
        self.active.insert(id, fetch);
        let ended = self.all().filter(|(_, fetch)| fetch.is_settled()).map(|(id, _)| id);
        let (looked, ended): (Vec<TransferId>, Vec<TransferId>) = ended.partition(|id| self.lookups.contains(id));
        looked.iter().for_each(|id| _ = self.lookups.remove(id));
        let surplus = ended.into_iter().rev().skip(self.ended_max).chain(looked);
        let remove = |id| self.settled.remove(&id).or_else(|| self.active.remove(&id)).map(|fetch| (id, fetch));
        let mut forgotten: Vec<_> = surplus.filter_map(remove).collect();
        forgotten.reverse();
        forgotten
    }
    /// Whether the table has no fetch, running or remembered.
    pub fn is_empty(&self) -> bool {
        self.active.is_empty() && self.settled.is_empty()
    }
    /// A fetch, running or remembered.
    pub fn get(&self, id: TransferId) -> Option<&F> {
        self.active.get(&id).or_else(|| self.settled.get(&id))
    }
    /// A fetch, running or remembered.
    pub fn get_mut(&mut self, id: TransferId) -> Option<&mut F> {
        self.get_with_limit(id).map(|(fetch, _)| fetch)
    }
    /// A fetch, running or remembered, and the limit that it shares with all others.
    pub fn get_with_limit(&mut self, id: TransferId) -> Option<(&mut F, &mut TokenBucket)> {
        // What the caller does may give it events.
        self.active.extend(self.settled.remove_entry(&id));
        Some((self.active.get_mut(&id)?, &mut self.shared.limit))
    }
    /// All fetches, running or remembered, the oldest first.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = (TransferId, &F)> {
        let all: BTreeMap<&TransferId, &F> = self.settled.iter().chain(&self.active).collect();
        all.into_iter().map(|(id, fetch)| (*id, fetch))
    }
    /// Those that are not settled, the oldest first, and some that have settled just now.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (TransferId, &F)> {
        self.active.iter().map(|(id, fetch)| (*id, fetch))
    }
    /// Those that are not settled, the oldest first, and some that have settled just now.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (TransferId, &mut F)> {
        self.active.iter_mut().map(|(id, fetch)| (*id, fetch))
    }
    /// Those that have not ended.
    pub fn running(&self) -> impl Iterator<Item = (TransferId, &F)> {
        self.iter().filter(|(_, fetch)| !fetch.is_ended())
    }
    /// Those that have not ended.
    pub fn running_mut(&mut self) -> impl Iterator<Item = (TransferId, &mut F)> {
        self.iter_mut().filter(|(_, fetch)| !fetch.is_ended())
    }
    /// Serves one fetch. `serve` gets the running ones in turn, starting behind the one served last, until it returns
    /// something; so all fetches share a common limit fairly.
    pub fn serve_in_turn<R>(&mut self, mut serve: impl FnMut(&mut F, &mut Shared) -> Option<R>) -> Option<R> {
        for part in [(Excluded(self.served), Unbounded), (Unbounded, Included(self.served))] {
            for (id, fetch) in self.active.range_mut(part) {
                if !fetch.is_ended()
                    && let Some(result) = serve(fetch, &mut self.shared)
                {
                    self.served = *id;
                    return Some(result);
                }
            }
        }
        None
    }
    /// Limits one fetch or, for `None`, all together; a rate of `None` lifts the limit.
    pub fn set_limit(&mut self, now: Time, id: Option<TransferId>, rate: Option<Rate>) {
        match id {
            None => self.shared.limit.set_rate(now, rate),
            Some(id) => self.get_mut(id).into_iter().for_each(|fetch| fetch.set_limit(now, rate)),
        }
    }
    /// Changes a fetch's demands on the paths that it uses; false if the fetch does not exist, or it cannot choose.
    pub fn set_demands(&mut self, now: Time, id: TransferId, demands: PathDemands) -> bool {
        if demands.priority != 0 {
            self.shared.faces.have_priorities();
        }
        self.get_mut(id).is_some_and(|fetch| fetch.set_demands(now, demands))
    }
    /// Collects the events of fetches, the oldest first.
    pub fn collect_events(&mut self, mut poll: impl FnMut(&mut F) -> Option<TransferEvent>) {
        for (id, fetch) in &mut self.active {
            while let Some(event) = poll(fetch) {
                self.events.push_back((*id, event));
            }
        }
        self.settled.extend(self.active.extract_if(.., |_, fetch| fetch.is_settled()));
    }
    /// The next event.
    pub fn poll_event(&mut self) -> Option<(TransferId, TransferEvent)> {
        self.events.pop_front()
    }
    /// The report of a fetch; `None` if the number is unknown or was forgotten.
    pub fn report(&self, now: Time, id: TransferId) -> Option<TransferReport> {
        self.get(id).map(|fetch| fetch.report(now))
    }
    /// All transfers, the oldest first, with the names that they fetch: without lookups and names without a publisher.
    pub fn names(&self) -> Vec<(TransferId, Name)> {
        let transfers = self.all().filter(|(id, fetch)| !self.lookups.contains(id) && !fetch.was_in_vain());
        transfers.map(|(id, fetch)| (id, fetch.name().clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use alloc::string::ToString;
    use tributary_content::{ChunkStore, HadStore, Manifest, StoreError};

    struct Sham(Name, bool);
    impl Fetching for Sham {
        fn name(&self) -> &Name {
            &self.0
        }
        fn is_ended(&self) -> bool {
            self.1
        }
        fn set_limit(&mut self, _: Time, _: Option<Rate>) {}
        fn report(&self, _: Time) -> TransferReport {
            unimplemented!("nobody asks")
        }
    }
    fn table(ended: &[bool]) -> FetchTable<Sham> {
        let mut table = FetchTable::new(NUMBER_MAX - 1, 2);
        for is_ended in ended {
            let id = table.number();
            table.insert(id, Sham("/x".parse().expect("a name"), *is_ended));
        }
        table
    }

    struct Look;
    impl StoreOpener for Look {
        fn trusts(&self, _: &Manifest) -> Result<(), StoreError> {
            Ok(())
        }
        fn resumes(&self, _: &Manifest) -> bool {
            false
        }
        fn only_looks(&self) -> bool {
            true
        }
        fn open(&mut self, manifest: &Manifest) -> Result<alloc::boxed::Box<dyn ChunkStore>, StoreError> {
            Ok(alloc::boxed::Box::new(HadStore::new(manifest)))
        }
    }

    #[test]
    fn lookups_are_no_transfers_and_take_no_place_of_one() {
        let mut table = table(&[true, true]);
        for _ in 0..4 {
            let id = table.number_for(&Look);
            table.insert(id, Sham("/y".parse().expect("a name"), true));
        }
        let names: Vec<_> = table.names().into_iter().map(|(_, name)| name.to_string()).collect();
        assert_eq!(names, ["/x", "/x"]);
        assert_eq!(table.lookups.len(), 0, "those that have ended are forgotten");
    }

    #[test]
    fn fetches_are_served_in_turn_and_ended_ones_are_not() {
        let mut table = table(&[false, true, false, false]);
        let numbers: Vec<u32> = table.iter().map(|(id, _)| id.0).collect();
        assert_eq!(numbers, [1, 2, 3, NUMBER_MAX], "numbers wrap, and none is zero");
        let mut served = Vec::new();
        for _ in 0..4 {
            table.serve_in_turn(|_, _| Some(())).expect("three are running");
            served.push(table.served.0);
        }
        assert_eq!(served, [2, 3, NUMBER_MAX, 2]);
    }

    #[test]
    fn the_oldest_ended_fetches_are_forgotten() {
        let mut table = table(&[true, true, false, true, true]);
        let id = table.number();
        table.insert(id, Sham("/x".parse().expect("a name"), false));
        let (running, all) = (table.running().count(), table.all().count());
        assert_eq!((running, all), (2, 4));
        // What has settled is looked at again only when somebody names it.
        table.collect_events(|_| None);
        assert_eq!((table.iter().count(), table.all().count()), (2, 4));
        let settled = table.all().find(|(_, fetch)| fetch.is_settled()).map(|(id, _)| id).expect("two are");
        assert!(table.get_mut(settled).is_some());
        assert_eq!((table.iter().count(), table.all().count()), (3, 4));
    }
}
