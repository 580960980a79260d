//! Routes and strategies: commands that change the tables.
use tributary_content::Name;
use tributary_core::{FaceId, Time};

use super::{
    Router,
    rib::{ORIGIN_STATIC, Route},
    strategy,
};

impl Router {
    /// Adds a configured route, which longer prefixes do not inherit. False if the table is full.
    pub fn add_route(&mut self, prefix: &Name, face: FaceId, cost: u64) -> bool {
        self.register(prefix, Route { face, origin: ORIGIN_STATIC, cost, flags: 0, expires: None })
    }
    /// Registers a route. False if the table is full.
    pub fn register(&mut self, prefix: &Name, route: Route) -> bool {
        let registered = self.rib.register(prefix, route);
        self.update_fib(prefix);
        registered
    }
    /// Withdraws a route; returns whether it existed.
    pub fn unregister(&mut self, prefix: &Name, face: FaceId, origin: u64) -> bool {
        let withdrawn = self.rib.unregister(prefix, face, origin);
        self.update_fib(prefix);
        withdrawn
    }
    /// Sets the strategy of all prefixes below `prefix` without a more specific choice. False for an unknown strategy.
    pub fn set_strategy(&mut self, prefix: &Name, name: &str) -> bool {
        let Some(index) = strategy::by_name(name) else { return false };
        self.choices.insert(prefix.clone(), index);
        self.apply_choices();
        true
    }
    /// Withdraws a choice; the root's stays. Returns whether there was one.
    pub fn unset_strategy(&mut self, prefix: &Name) -> bool {
        let was = !prefix.is_empty() && self.choices.remove(prefix).is_some();
        self.apply_choices();
        was
    }
    /// The choices of strategies: prefixes and names.
    pub fn strategies(&self) -> impl Iterator<Item = (&Name, &'static str)> {
        self.choices.iter().map(|(prefix, index)| (prefix, strategy::STRATEGIES[*index].0))
    }
    /// Empties the content store below a prefix; returns the number of packets.
    pub fn erase_cache(&mut self, prefix: &Name, count: u64) -> u64 {
        self.cs.erase(crate::wire::NameView::from(prefix), count)
    }
    /// Changes the maximum number of packets in the content store.
    pub fn set_cache_capacity(&mut self, now: Time, packets_max: usize) {
        self.cs.set_packets_max(now, packets_max);
    }

    /// Makes the forwarding table agree with the routes at and below `prefix`.
    pub(super) fn update_fib(&mut self, prefix: &Name) {
        for affected in self.rib.affected(prefix) {
            let hops = self.rib.next_hops(&affected);
            let chosen = self.choice(&affected);
            if !self.fib.set(&affected, &hops, chosen) {
                self.count("fib full");
            }
        }
    }
    fn choice(&self, prefix: &Name) -> usize {
        let mut at = Some(prefix.clone());
        while let Some(prefix) = at {
            if let Some(index) = self.choices.get(&prefix) {
                return *index;
            }
            at = prefix.parent();
        }
        0
    }
    fn apply_choices(&mut self) {
        let choices = &self.choices;
        for entry in self.fib.iter_mut() {
            let mut at = Some(entry.prefix.clone());
            while let Some(prefix) = at {
                if let Some(index) = choices.get(&prefix) {
                    entry.strategy = *index;
                    break;
                }
                at = prefix.parent();
            }
        }
    }
}
