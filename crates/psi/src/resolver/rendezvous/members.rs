//! The rendezvous nodes, and which of them are responsible for a record.
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use tributary_core::{NodeId, Time};

use crate::{ids::RecordKey, wire::bucket_of};

/// The rendezvous nodes that the topology manager announces, with this one among them.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    me: NodeId,
    replicas: usize,
    pub nodes: BTreeSet<NodeId>,
    /// Members that did not answer, until when.
    pub(super) suspected: BTreeMap<NodeId, Time>,
    /// Members that are still taking over their records, with the number of the pull that announced it.
    learning: BTreeMap<NodeId, u32>,
    /// When each member was last heard.
    heard: BTreeMap<NodeId, Time>,
}

impl Members {
    pub(super) fn new(me: NodeId, replicas: usize) -> Members {
        Members { me, replicas, nodes: BTreeSet::from([me]), ..Members::default() }
    }
    /// Sets a new membership; returns the nodes that joined and those that left.
    pub(super) fn replace(&mut self, nodes: &[NodeId]) -> (Vec<NodeId>, Vec<NodeId>) {
        let mut fresh: BTreeSet<NodeId> = nodes.iter().copied().filter(|node| *node != NodeId::NONE).collect();
        fresh.insert(self.me);
        let came = fresh.difference(&self.nodes).copied().collect();
        let went = self.nodes.difference(&fresh).copied().collect();
        self.nodes = fresh;
        self.suspected.retain(|node, _| self.nodes.contains(node));
        self.learning.retain(|node, _| self.nodes.contains(node));
        self.heard.retain(|node, _| self.nodes.contains(node));
        (came, went)
    }
    pub(super) fn contains(&self, node: NodeId) -> bool {
        self.nodes.contains(&node)
    }
    /// The nodes responsible for `key`, the first one first: the ones with the highest weights (rendezvous hashing,
    /// Thaler and Ravishankar 1998), so that a node that joins or leaves moves only its own share of the records.
    pub(super) fn responsible(&self, key: RecordKey) -> Vec<NodeId> {
        responsible(self.nodes.iter().copied(), key, self.replicas)
    }
    pub(super) fn is_responsible(&self, key: RecordKey) -> bool {
        self.responsible(key).contains(&self.me)
    }
    /// Whether this node acts for `key`: it is the first responsible one that is not suspected and has its records.
    pub(super) fn acts(&self, key: RecordKey) -> bool {
        let acts = |node: &NodeId| self.is_alive(*node) && !self.is_learning(*node);
        self.responsible(key).into_iter().find(acts) == Some(self.me)
    }
    /// Whether `node` is still taking over its records.
    pub(super) fn is_learning(&self, node: NodeId) -> bool {
        self.learning.contains_key(&node)
    }
    /// Notes that `node` is taking over its records, as of its pull of this number; true if that is new.
    pub(super) fn learns(&mut self, node: NodeId, request: u32) -> bool {
        self.nodes.contains(&node) && self.learning.insert(node, request).is_none()
    }
    /// Notes that `node` is ready, as of its pull of this number; true if that is new.
    pub(super) fn stop_learning(&mut self, node: NodeId, request: u32) -> bool {
        self.learning.get(&node) == Some(&request) && self.learning.remove(&node).is_some()
    }
    /// Whether `node` is unsuspected.
    pub(super) fn is_alive(&self, node: NodeId) -> bool {
        !self.suspected.contains_key(&node)
    }
    /// Suspects `node` of being dead until `until`; true if that is new.
    pub(super) fn suspect(&mut self, node: NodeId, until: Time) -> bool {
        node != self.me && self.nodes.contains(&node) && self.suspected.insert(node, until).is_none()
    }
    /// Notes a sign of life; true if `node` was suspected.
    pub(super) fn hear(&mut self, now: Time, node: NodeId) -> bool {
        if !self.nodes.contains(&node) {
            return false;
        }
        self.heard.insert(node, now);
        self.suspected.remove(&node).is_some()
    }
    /// Whether `node` was heard since `since`.
    pub(super) fn heard_since(&self, node: NodeId, since: Time) -> bool {
        self.heard.get(&node).is_some_and(|at| *at >= since)
    }
    /// Clears suspicions that have expired; true if there were any.
    pub(super) fn forgive(&mut self, now: Time) -> bool {
        let before = self.suspected.len();
        self.suspected.retain(|_, until| *until > now);
        self.suspected.len() < before
    }
    #[cfg(test)]
    pub(super) fn suspected(&self) -> impl Iterator<Item = NodeId> {
        self.suspected.keys().copied()
    }
}

/// The `replicas` nodes of highest weight for `key`.
pub(super) fn responsible(nodes: impl Iterator<Item = NodeId>, key: RecordKey, replicas: usize) -> Vec<NodeId> {
    responsible_for(nodes, bucket_of(key), replicas)
}

/// The nodes responsible for all records in a bucket.
pub(super) fn responsible_for(nodes: impl Iterator<Item = NodeId>, bucket: u16, replicas: usize) -> Vec<NodeId> {
    let first = mix(u64::from(bucket));
    let mut weighed: Vec<(u64, NodeId)> = nodes.map(|node| (mix(first ^ mix(node.0)), node)).collect();
    weighed.sort_unstable_by(|a, b| b.cmp(a));
    weighed.truncate(replicas);
    weighed.into_iter().map(|(_, node)| node).collect()
}

/// Spreads every input bit over all output bits (the finaliser of SplitMix64, Steele, Lea and Flood 2014).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(i: u64) -> RecordKey {
        RecordKey(*blake3::hash(&i.to_be_bytes()).as_bytes().first_chunk().unwrap())
    }
    fn nodes(count: u64) -> impl Iterator<Item = NodeId> {
        (1..=count).map(NodeId)
    }

    #[test]
    fn a_node_that_comes_takes_only_its_own_share() {
        let mut moved = 0;
        for i in 0..1_000 {
            let before = responsible(nodes(9), key(i), 3);
            let after = responsible(nodes(10), key(i), 3);
            let kept: Vec<_> = after.iter().copied().filter(|node| *node != NodeId(10)).collect();
            assert_eq!(kept, before[..kept.len()]);
            moved += usize::from(kept.len() < 3);
        }
        assert!((200..400).contains(&moved), "a tenth of the nodes holds three tenths of the records, not {moved}");
    }

    #[test]
    fn fewer_nodes_than_replicas_are_all_responsible() {
        assert_eq!(responsible(nodes(2), key(1), 3).len(), 2);
        let mut members = Members::new(NodeId(7), 3);
        assert!(members.acts(key(1)));
        assert_eq!(members.replace(&[NodeId(8), NodeId::NONE]), ([NodeId(8)].into(), Vec::new()));
        assert!(members.is_responsible(key(1)));
    }

    #[test]
    fn the_next_responsible_node_acts_when_the_first_is_suspected() {
        let mut members = Members::new(NodeId(1), 3);
        members.replace(&[NodeId(2), NodeId(3)]);
        let key = (0..).map(key).find(|key| members.responsible(*key)[..2] == [NodeId(2), NodeId(1)]).unwrap();
        assert!(!members.acts(key));
        assert!(members.suspect(NodeId(2), Time::from_millis(50)));
        assert!(members.acts(key));
        assert!(!members.forgive(Time::from_millis(49)));
        assert!(members.hear(Time::from_millis(49), NodeId(2)));
        assert!(!members.acts(key));
    }
}
