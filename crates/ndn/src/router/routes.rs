//! Routes and strategies: commands that change the tables.
use alloc::collections::BTreeMap;

use tributary_content::Name;
use tributary_core::FaceId;

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

    /// Makes the forwarding table agree with the routes at and below `prefix`.
    pub(super) fn update_fib(&mut self, prefix: &Name) {
        for affected in self.rib.affected(prefix) {
            let hops = self.rib.next_hops(&affected);
            let chosen = choice(&self.choices, &affected);
            if !self.fib.set(&affected, &hops, chosen) {
                self.count("fib full");
            }
        }
    }
    fn apply_choices(&mut self) {
        for entry in self.fib.iter_mut() {
            entry.strategy = choice(&self.choices, &entry.prefix);
        }
    }
}

/// The most specific choice for a prefix; the root always has one.
fn choice(choices: &BTreeMap<Name, usize>, prefix: &Name) -> usize {
    let mut above = core::iter::successors(Some(prefix.clone()), Name::parent);
    above.find_map(|prefix| choices.get(&prefix).copied()).unwrap_or(0)
}
