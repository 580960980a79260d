use alloc::{format, vec, vec::Vec};

use tributary_content::Name;

use super::*;
use crate::wire::{MetaInfo, SignKey};

fn data(name: &str, freshness_millis: u64, size: usize) -> Bytes {
    let name: Name = name.parse().unwrap();
    let content = vec![7; size];
    let meta = MetaInfo { freshness_millis: Some(freshness_millis), ..MetaInfo::default() };
    Data { meta: Some(meta), ..Data::new(NameView::from(&name), &content) }.sign(&SignKey::Null).into()
}
fn store(policy: &str, packets_max: usize) -> ContentStore {
    let limits = CsLimits { packets_max, ..CsLimits::of_bytes(64 << 20) };
    ContentStore::new(NameHasher::new([1, 2]), limits, policy).unwrap()
}
fn put(store: &mut ContentStore, now: u64, packet: &Bytes) {
    let data = Data::decode(packet).unwrap();
    store.insert(Time::from_millis(now), packet, data.name, data.freshness());
}
fn ask(store: &mut ContentStore, now: u64, name: &str, prefix: bool, fresh: bool) -> Option<Bytes> {
    let name: Name = name.parse().unwrap();
    let interest = Interest { can_be_prefix: prefix, must_be_fresh: fresh, ..Interest::new(NameView::from(&name)) };
    store.lookup(Time::from_millis(now), &interest)
}

#[test]
fn answers_by_name_by_prefix_and_by_digest_and_fresh_if_asked() {
    let mut store = store("lru", 10);
    let packet = data("/a/b/seg=1", 100, 10);
    put(&mut store, 0, &packet);
    assert_eq!(ask(&mut store, 0, "/a/b/seg=1", false, true), Some(packet.clone()));
    assert_eq!(ask(&mut store, 0, "/a/b", true, true), Some(packet.clone()));
    assert_eq!(ask(&mut store, 0, "/", true, true), Some(packet.clone()));
    assert_eq!(ask(&mut store, 0, "/a/b", false, false), None);
    assert_eq!(ask(&mut store, 0, "/a/bb", true, false), None);
    assert_eq!(ask(&mut store, 100, "/a/b/seg=1", false, true), None, "stale");
    assert_eq!(ask(&mut store, 100, "/a/b/seg=1", false, false), Some(packet.clone()));
    let digest = crate::wire::hex(&Data::decode(&packet).unwrap().implicit_digest());
    assert_eq!(ask(&mut store, 0, &format!("/a/b/seg=1/sha256digest={digest}"), false, false), Some(packet));
    let other = "ab".repeat(32);
    assert_eq!(ask(&mut store, 0, &format!("/a/b/seg=1/sha256digest={other}"), false, false), None);
    assert_eq!(store.hits_and_misses, (5, 4));
}

#[test]
fn a_fresh_one_is_found_behind_a_stale_one() {
    let mut store = store("fifo", 10);
    put(&mut store, 0, &data("/a/v=1", 1, 5));
    put(&mut store, 0, &data("/a/v=2", 1000, 5));
    assert_eq!(ask(&mut store, 500, "/a", true, true), Some(data("/a/v=2", 1000, 5)));
}

#[test]
fn an_interest_for_a_prefix_looks_at_so_many_entries_and_no_more() {
    for (stale, is_found) in [(PREFIX_ENTRIES_MAX - 1, true), (PREFIX_ENTRIES_MAX, false)] {
        let mut store = store("fifo", 100);
        for version in 0..stale {
            put(&mut store, 0, &data(&format!("/a/v={version}"), 1, 5));
        }
        let fresh = data("/a/v=99", 1000, 5);
        put(&mut store, 0, &fresh);
        assert_eq!(ask(&mut store, 500, "/a", true, true), is_found.then_some(fresh), "behind {stale} stale ones");
    }
}

#[test]
fn each_policy_drops_its_own_and_the_limits_hold() {
    let left = |policy: &str| -> Vec<u32> {
        let mut store = store(policy, 3);
        put(&mut store, 0, &data("/1", 1000, 5));
        put(&mut store, 1, &data("/2", 1, 5));
        put(&mut store, 2, &data("/3", 1000, 5));
        assert!(ask(&mut store, 3, "/1", false, false).is_some());
        put(&mut store, 5, &data("/4", 1000, 5));
        put(&mut store, 6, &data("/5", 1000, 5));
        assert_eq!((store.len(), store.evicted), (3, 2));
        (1..=5).filter(|n| ask(&mut store, 6, &format!("/{n}"), false, false).is_some()).collect()
    };
    assert_eq!(left("lru"), [1, 4, 5]);
    assert_eq!(left("fifo"), [3, 4, 5]);
    assert_eq!(left("priority"), [3, 4, 5]);
    let mut bytes = ContentStore::new(
        NameHasher::new([1, 2]),
        CsLimits { packets_max: 100, bytes_max: 2 * (1000 + ENTRY_OVERHEAD_BYTES + 30) },
        "priority",
    )
    .unwrap();
    for n in 0..20 {
        put(&mut bytes, n, &data(&format!("/{n}"), 0, 1000));
        assert!(bytes.bytes() <= bytes.limits.bytes_max);
    }
    assert_eq!(bytes.len(), 2);
    put(&mut bytes, 30, &data("/large", 0, 4000));
    assert_eq!(bytes.len(), 2, "what is larger than the store is not kept");
    assert_eq!(bytes.erase(NameView::ROOT, 10), 2);
    assert_eq!((bytes.len(), bytes.bytes()), (0, 0));
}

#[test]
fn packets_of_hardly_any_bytes_are_bounded_by_what_they_cost_beside() {
    for policy in POLICIES.map(|(name, _)| name) {
        let limits = CsLimits::of_bytes(1 << 20);
        let mut store = ContentStore::new(NameHasher::new([1, 2]), limits, policy).unwrap();
        for n in 0..10_000 {
            put(&mut store, n, &data(&format!("/{n}"), 0, 0));
            assert!(store.bytes() <= limits.bytes_max);
        }
        assert!(store.len() <= limits.packets_max && limits.packets_max == 3_276, "{policy}: {}", store.len());
        assert!(store.len() > 2_700, "{policy}: {}", store.len());
    }
}

#[test]
fn the_same_name_again_replaces_and_no_capacity_keeps_nothing() {
    let mut store = store("lru", 3);
    put(&mut store, 0, &data("/1", 0, 5));
    put(&mut store, 0, &data("/1", 0, 6));
    assert_eq!((store.len(), ask(&mut store, 0, "/1", false, false)), (1, Some(data("/1", 0, 6))));
    store.set_packets_max(Time::ZERO, 0);
    put(&mut store, 0, &data("/2", 0, 5));
    assert!(store.is_empty());
}
