//! Keys in the order of their last use: the eviction order of caches, each operation in constant time.
use alloc::vec::Vec;
use core::hash::Hash;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

crate::declared! {
    /// A queue of keys that allows moving any key to the end and removing it: least recently used first if every use is
    /// a [`Recency::touch`], oldest first if only [`Recency::append`] is called.
    #[derive(Clone, Debug)]
    pub struct Recency<K> {
        index: HashMap<K, u32, FxBuildHasher> = HashMap::with_hasher(FxBuildHasher),
        links: Vec<Link<K>> = Vec::new(),
        free: Vec<u32> = Vec::new(),
        first: u32 = NONE,
        last: u32 = NONE,
    }
    /// Without keys.
    pub fn new() {}
}

#[derive(Clone, Debug)]
struct Link<K> {
    key: K,
    before: u32,
    after: u32,
}

const NONE: u32 = u32::MAX;

impl<K: Copy + Eq + Hash> Default for Recency<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Copy + Eq + Hash> Recency<K> {
    /// Moves `key` to the end; a new key goes there too.
    pub fn touch(&mut self, key: K) {
        let at = match self.index.get(&key) {
            Some(at) if *at == self.last => return,
            Some(at) => {
                let at = *at;
                self.unlink(at);
                at
            }
            None => {
                let link = Link { key, before: NONE, after: NONE };
                let at = match self.free.pop() {
                    Some(at) => {
                        self.links[at as usize] = link;
                        at
                    }
                    None => {
                        self.links.push(link);
                        (self.links.len() - 1) as u32
                    }
                };
                self.index.insert(key, at);
                at
            }
        };
        self.links[at as usize].before = self.last;
        self.links[at as usize].after = NONE;
        match self.last {
            NONE => self.first = at,
            last => self.links[last as usize].after = at,
        }
        self.last = at;
    }
    /// Appends `key` if it is new.
    pub fn append(&mut self, key: K) {
        if !self.index.contains_key(&key) {
            self.touch(key);
        }
    }
    /// Takes `key` out.
    pub fn remove(&mut self, key: K) {
        if let Some(at) = self.index.remove(&key) {
            self.unlink(at);
            self.free.push(at);
        }
    }
    /// The key that was used least recently.
    pub fn first(&self) -> Option<K> {
        self.links.get(self.first as usize).map(|link| link.key)
    }

    fn unlink(&mut self, at: u32) {
        let Link { before, after, .. } = self.links[at as usize];
        match before {
            NONE => self.first = after,
            before => self.links[before as usize].after = after,
        }
        match after {
            NONE => self.last = before,
            after => self.links[after as usize].before = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use alloc::collections::VecDeque;

    #[test]
    fn behaves_as_a_list_does() {
        let mut random = Random::new(1, 0);
        let (mut order, mut model) = (Recency::new(), VecDeque::new());
        for _ in 0..5000 {
            let key = random.below(20);
            match random.below(4) {
                0 => {
                    order.remove(key);
                    model.retain(|k| *k != key);
                }
                1 => {
                    order.append(key);
                    if !model.contains(&key) {
                        model.push_back(key);
                    }
                }
                _ => {
                    order.touch(key);
                    model.retain(|k| *k != key);
                    model.push_back(key);
                }
            }
            assert_eq!(order.first(), model.front().copied());
        }
        for key in model {
            assert_eq!(order.first(), Some(key));
            order.remove(key);
        }
        assert_eq!(order.first(), None);
    }
}
