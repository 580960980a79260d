//! The order of commands about one route: a neighbour's arrive in datagrams and may be reordered.
use alloc::collections::BTreeMap;

use tributary_content::Name;
use tributary_core::{FaceId, Time};

use super::Duration;

/// How long the last command about a route is remembered, longer than a packet may be in transit, and of how many
/// routes.
const MEMORY: (Duration, usize) = (Duration::from_secs(10), 16_384);

/// When the last commands about each route were signed.
#[derive(Debug, Default)]
pub(super) struct CommandOrder(BTreeMap<(Name, FaceId, u64), (u64, Time)>);

impl CommandOrder {
    /// Records a command about a route; true if one with a later signing time came before. An undated one counts in
    /// order of arrival.
    pub(super) fn is_overtaken(&mut self, now: Time, name: &Name, face: FaceId, origin: u64, at: Option<u64>) -> bool {
        let Some(at) = at else { return false };
        let key = (name.clone(), face, origin);
        if self.0.get(&key).is_some_and(|(last, until)| *until > now && *last > at) {
            return true;
        }
        if self.0.len() >= MEMORY.1 && !self.0.contains_key(&key) {
            self.0.pop_first();
        }
        self.0.insert(key, (at, now + MEMORY.0));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_bounded_and_ends() {
        let mut order = CommandOrder::default();
        let name = |number: usize| Name::root().child(&number.to_be_bytes()).unwrap();
        let mut ask = |at: u64, number: usize, signed_at| {
            order.is_overtaken(Time::from_millis(at), &name(number), FaceId(1), 0, signed_at)
        };
        assert!(!ask(0, 0, Some(7)) && ask(1, 0, Some(6)) && !ask(1, 0, Some(7)) && !ask(1, 0, None));
        assert!(!ask(10_001, 0, Some(6)), "whoever has set back the clock is heard again soon");
        (0..MEMORY.1 + 100).for_each(|number| assert!(!ask(10_002, number, Some(9))));
        assert!(order.0.len() <= MEMORY.1);
    }
}
