//! The flows of a node and their indexes: work for one flow never scans the others.
use super::*;

/// The destination of a flow, and the number of its transfer.
pub(super) type FlowId = (Guid, u32);

/// All flows. Every change goes through [`Flows::change`], which keeps the indexes consistent.
#[derive(Default)]
pub(super) struct Flows {
    all: BTreeMap<FlowId, Entry>,
    index: Index,
    /// The flow that sent last.
    last: FlowId,
    /// Pushed transfers, and their destinations.
    pushed: BTreeMap<u32, Guid>,
    /// Flows with each transfer, object and token.
    tokens: BTreeMap<(u32, ObjectId, u64), usize>,
    /// Flows of each object.
    objects: BTreeMap<ObjectId, usize>,
    /// Transfers to each group.
    groups: BTreeMap<Guid, BTreeSet<u32>>,
    /// How many flows to a destination last long enough for it to be followed, and whether such destinations have
    /// changed.
    followed: BTreeMap<Guid, usize>,
    followed_changed: bool,
    /// Flows examined so far.
    #[cfg(test)]
    looks: core::cell::Cell<u64>,
}

/// What follows from the state of flows.
#[derive(Default)]
struct Index {
    turns: Turns,
    due: BTreeSet<(Time, FlowId)>,
    /// Pushed flows that are completely in storage on the way, by their last sign of life.
    kept: BTreeSet<(Time, FlowId)>,
    /// Requested flows by the same: all, and per device.
    requested: BTreeSet<(Time, FlowId)>,
    requested_by: BTreeMap<Guid, BTreeSet<(Time, u32)>>,
}

struct Entry {
    flow: Outflow,
    standing: Standing,
}

tributary_core::declared! {
    /// A flow's entries in the indexes.
    #[derive(Clone, Copy, PartialEq, Eq)]
    struct Standing {
        due: Time = flow.due(),
        has_turn: bool = flow.can_send(),
        alive_at: Time = flow.alive_at(),
        is_kept: bool = flow.is_kept_on_the_way(),
    }
    fn of(flow: &Outflow) {}
}

impl Flows {
    /// Begins a flow, in place of one with the same id.
    pub(super) fn insert(&mut self, id: FlowId, flow: Outflow) {
        self.remove(&id);
        let standing = Standing::of(&flow);
        *self.tokens.entry((id.1, flow.object, flow.token.0)).or_default() += 1;
        *self.objects.entry(flow.object).or_default() += 1;
        if !flow.requested {
            self.pushed.insert(id.1, id.0);
        }
        if flow.group.is_some() {
            self.groups.entry(id.0).or_default().insert(id.1);
        }
        if flow.window.controlled {
            let users = self.followed.entry(id.0).or_default();
            self.followed_changed |= *users == 0;
            *users += 1;
        }
        self.index.change(&id, &flow, standing, true);
        self.all.insert(id, Entry { flow, standing });
    }
    /// Ends a flow.
    pub(super) fn remove(&mut self, id: &FlowId) -> Option<Outflow> {
        let Entry { flow, standing } = self.all.remove(id)?;
        self.index.change(id, &flow, standing, false);
        drop_one(&mut self.tokens, &(id.1, flow.object, flow.token.0));
        drop_one(&mut self.objects, &flow.object);
        if self.pushed.get(&id.1) == Some(&id.0) && !flow.requested {
            self.pushed.remove(&id.1);
        }
        if flow.group.is_some()
            && let Some(transfers) = self.groups.get_mut(&id.0)
        {
            transfers.remove(&id.1);
            if transfers.is_empty() {
                self.groups.remove(&id.0);
            }
        }
        if flow.window.controlled {
            drop_one(&mut self.followed, &id.0);
            self.followed_changed |= !self.followed.contains_key(&id.0);
        }
        Some(flow)
    }
    /// Changes a flow.
    pub(super) fn change<R>(&mut self, id: &FlowId, change: impl FnOnce(&mut Outflow) -> R) -> Option<R> {
        self.looked();
        let Entry { flow, standing } = self.all.get_mut(id)?;
        let result = change(flow);
        let now = Standing::of(flow);
        if now != *standing {
            self.index.change(id, flow, *standing, false);
            self.index.change(id, flow, now, true);
            *standing = now;
        }
        Some(result)
    }

    // Questions.

    pub(super) fn get(&self, id: &FlowId) -> Option<&Outflow> {
        self.looked();
        self.all.get(id).map(|entry| &entry.flow)
    }
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
    /// Flows to a destination.
    pub(super) fn to(&self, destination: &Guid) -> Vec<FlowId> {
        let range = (*destination, 0)..=(*destination, u32::MAX);
        self.all.range(range).inspect(|_| self.looked()).map(|(id, _)| *id).collect()
    }
    /// The flow of a pushed transfer.
    pub(super) fn pushed(&self, transfer: u32) -> Option<FlowId> {
        Some((*self.pushed.get(&transfer)?, transfer))
    }
    pub(super) fn pushed_count(&self) -> usize {
        self.pushed.len()
    }
    /// The pushed transfer, completely in storage on the way, with the longest silence.
    pub(super) fn longest_kept(&self) -> Option<FlowId> {
        self.index.kept.first().map(|(_, id)| *id)
    }
    /// The number of requested flows: all, or one device's.
    pub(super) fn requested_count(&self, by: Option<&Guid>) -> usize {
        by.map_or(self.index.requested.len(), |by| self.index.requested_by.get(by).map_or(0, BTreeSet::len))
    }
    /// Of these the one that has been silent for longest, and since when.
    pub(super) fn longest_silent(&self, by: Option<&Guid>) -> Option<(Time, FlowId)> {
        match by {
            None => self.index.requested.first().copied(),
            Some(by) => self.index.requested_by.get(by)?.first().map(|(at, transfer)| (*at, (*by, *transfer))),
        }
    }
    /// Whether flows of a transfer carry an object, and whether one of them has this token.
    pub(super) fn carries(&self, transfer: u32, object: ObjectId, token: Option<Token>) -> (bool, bool) {
        let any = self.tokens.range((transfer, object, 0)..=(transfer, object, u64::MAX)).next().is_some();
        (any, token.is_some_and(|token| self.tokens.contains_key(&(transfer, object, token.0))))
    }
    /// Whether an object is being sent.
    pub(super) fn uses(&self, object: &ObjectId) -> bool {
        self.objects.contains_key(object)
    }
    /// Groups to which something is being sent.
    pub(super) fn groups(&self) -> impl Iterator<Item = &Guid> {
        self.groups.keys()
    }
    pub(super) fn is_for_group(&self, group: &Guid) -> bool {
        self.groups.contains_key(group)
    }
    /// Transfers to a group.
    pub(super) fn to_group(&self, group: &Guid) -> BTreeSet<u32> {
        self.groups.get(group).into_iter().flatten().inspect(|_| self.looked()).copied().collect()
    }
    /// Destinations of the flows long enough to be followed, if they have changed since the last call.
    pub(super) fn take_followed(&mut self) -> Option<BTreeSet<Guid>> {
        core::mem::take(&mut self.followed_changed).then(|| self.followed.keys().copied().collect())
    }
    /// When something is due.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.index.due.first().map(|(at, _)| *at)
    }
    /// Flows with a due timer.
    pub(super) fn due(&self, now: Time) -> BTreeSet<FlowId> {
        let due = self.index.due.iter().take_while(|(at, _)| *at <= now);
        due.inspect(|_| self.looked()).map(|(_, id)| *id).collect()
    }

    // Turns.

    /// Begins a round of turns.
    pub(super) fn round(&self) -> Round {
        Round::after(self.last)
    }
    /// The next flow of a round that has something to send.
    pub(super) fn next(&self, round: &mut Round) -> Option<FlowId> {
        self.index.turns.next(round)
    }
    /// It has had its turn.
    pub(super) fn served(&mut self, id: FlowId) {
        self.last = id;
    }

    fn looked(&self) {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
    }
    /// Flows examined so far.
    #[cfg(test)]
    pub(super) fn looks(&self) -> u64 {
        self.looks.get()
    }
}

impl Index {
    /// Adds a flow's entries, or removes them.
    fn change(&mut self, id: &FlowId, flow: &Outflow, standing: Standing, is_in: bool) {
        toggle(&mut self.due, (standing.due, *id), is_in);
        match (standing.has_turn, is_in) {
            (true, true) => self.turns.insert(*id, flow.size),
            (true, false) => self.turns.remove(id, flow.size),
            (false, _) => {}
        }
        if standing.is_kept {
            toggle(&mut self.kept, (standing.alive_at, *id), is_in);
        }
        if flow.requested {
            toggle(&mut self.requested, (standing.alive_at, *id), is_in);
            let of_one = self.requested_by.entry(id.0).or_default();
            toggle(of_one, (standing.alive_at, id.1), is_in);
            if of_one.is_empty() {
                self.requested_by.remove(&id.0);
            }
        }
    }
}

fn toggle<T: Ord>(set: &mut BTreeSet<T>, value: T, is_in: bool) {
    match is_in {
        true => set.insert(value),
        false => set.remove(&value),
    };
}
fn drop_one<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
