use alloc::{string::String, vec::Vec};

use proptest::{collection::vec, option, prelude::*};
use tributary_content::Name;
use tributary_core::{Duration, NodeId};
use tributary_transport::PathMetric;

use super::*;
use crate::{
    ids::RecordKey,
    wire::{
        Answer, ChildState, DigestKind, Entry, EntryKey, EntryValue, MissingScopes, NoticeKind, Operation,
        RecordUpdate, Rejection,
    },
};

fn a_b() -> Name {
    "/a/b".parse().unwrap()
}

#[test]
fn messages_are_joined_by_class_in_their_order_and_no_longer_than_is_useful() {
    let publish = |number: u32| {
        Message::Request(ClientRequest {
            request: number,
            version: 1,
            name: a_b(),
            operation: Operation::Publish {
                label: String::new(),
                manifest: alloc::vec![0; 1_000],
                object_bytes: 1,
                lease: Duration::from_secs(30),
                scopes: MissingScopes::Create,
            },
        })
    };
    let mut all: Vec<Message> = (0..40).map(publish).collect();
    all.insert(20, Message::Sync { request: 1 });
    all.push(Message::Sync { request: 2 });
    let joined = Message::join(all.clone());
    let mut bulk = Vec::new();
    for message in &joined {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        assert!(bytes.len() <= MANY_BYTES_MAX + 3);
        assert_eq!(Message::decode(&bytes).as_ref(), Ok(message));
        match message {
            Message::Many(parts) if message.is_bulk() => bulk.extend(parts.iter().cloned()),
            Message::Many(parts) => assert_eq!(parts[..], [all[20].clone(), all[41].clone()]),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(joined.len(), 4, "three of 16 kB, and what is urgent");
    all.retain(Message::is_bulk);
    assert_eq!(bulk, all);
    assert_eq!(Message::join(Vec::from([publish(1)])), [publish(1)], "one by itself stays as it is");
}

#[test]
fn every_rejection_has_its_own_code_and_text() {
    let all: Vec<Rejection> = Rejection::all().collect();
    for (i, a) in all.iter().enumerate() {
        for b in &all[i + 1..] {
            assert!(a.code() != b.code() && alloc::format!("{a}") != alloc::format!("{b}"));
        }
    }
    assert_eq!(all.len(), 26);
}

fn name() -> impl Strategy<Value = Name> {
    vec(vec(any::<u8>(), 0..5), 0..5)
        .prop_map(|parts| parts.iter().fold(Name::root(), |name, part| name.child(part).unwrap()))
}
fn component() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..8).prop_map(|value| Name::root().child(&value).unwrap().as_tlv().to_vec())
}
fn node() -> impl Strategy<Value = NodeId> {
    (1..=u64::MAX).prop_map(NodeId)
}
fn version() -> impl Strategy<Value = u64> {
    0..1u64 << 63
}
fn known() -> impl Strategy<Value = u64> {
    prop_oneof![Just(crate::wire::NOTHING_KNOWN), 0..1u64 << 62]
}
fn lease() -> impl Strategy<Value = Duration> {
    any::<u32>().prop_map(|ms| Duration::from_millis(ms.into()))
}
fn scopes() -> impl Strategy<Value = MissingScopes> {
    prop_oneof![Just(MissingScopes::Refuse), Just(MissingScopes::Create)]
}
fn metric() -> impl Strategy<Value = PathMetric> {
    proptest::sample::select(PathMetric::ALL.map(|(_, metric)| metric).to_vec())
}
fn label() -> impl Strategy<Value = String> {
    "[a-z0-9é-]{0,16}"
}
fn present() -> impl Strategy<Value = ChildState> {
    prop_oneof![
        Just(ChildState::Scope),
        (any::<u32>(), any::<u64>()).prop_map(|(publishers, bytes)| ChildState::Item { publishers, bytes }),
    ]
}
fn child() -> impl Strategy<Value = ChildState> {
    prop_oneof![Just(ChildState::Absent), present()]
}
fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        (label(), vec(any::<u8>(), 0..1_400), any::<u64>(), lease(), scopes()).prop_map(
            |(label, manifest, object_bytes, lease, scopes)| Operation::Publish {
                label,
                manifest,
                object_bytes,
                lease,
                scopes
            }
        ),
        Just(Operation::Unpublish),
        (lease(), scopes()).prop_map(|(lease, scopes)| Operation::PublishScope { lease, scopes }),
        Just(Operation::UnpublishScope),
        (any::<u32>(), 1u8..=16, metric(), lease()).prop_map(|(transfer, k, metric, lease)| Operation::Subscribe {
            transfer,
            k,
            metric,
            lease
        }),
        any::<u32>().prop_map(|transfer| Operation::Unsubscribe { transfer }),
        (known(), lease()).prop_map(|(known, lease)| Operation::SubscribeScope { known, lease }),
        Just(Operation::UnsubscribeScope),
        (component(), child(), lease(), scopes()).prop_map(|(component, child, lease, scopes)| Operation::SetChild {
            component,
            child,
            lease,
            scopes
        }),
    ]
}
fn request() -> impl Strategy<Value = ClientRequest> {
    (any::<u32>(), version(), name(), operation()).prop_map(|(request, version, name, operation)| ClientRequest {
        request,
        version,
        name,
        operation,
    })
}
fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        any::<u8>().prop_map(|replicas| Answer::Done { replicas }),
        (0..18usize).prop_map(|i| Answer::Rejected(Rejection::all().nth(i).unwrap())),
        version().prop_map(|current| Answer::Stale { current }),
        Just(Answer::NotReady),
    ]
}
fn entry() -> impl Strategy<Value = Entry> {
    let publisher = (label(), vec(any::<u8>(), 0..64), any::<u64>())
        .prop_map(|(label, manifest, object_bytes)| EntryValue::Publisher { label, manifest, object_bytes });
    let subscription = (1u8..=16, metric()).prop_map(|(k, metric)| EntryValue::Subscription { k, metric });
    let subscriber = (node(), known()).prop_map(|(home, known)| EntryValue::ScopeSubscriber { home, known });
    let key_and_value = prop_oneof![
        (node().prop_map(EntryKey::Publisher), option::of(publisher)),
        (node().prop_map(EntryKey::ScopePublisher), option::of(Just(EntryValue::ScopePublisher))),
        ((node(), any::<u32>()).prop_map(|(n, t)| EntryKey::Subscription(n, t)), option::of(subscription)),
        (node().prop_map(EntryKey::ScopeSubscriber), option::of(subscriber)),
        (component().prop_map(EntryKey::Child), option::of(present().prop_map(EntryValue::Child))),
    ];
    (key_and_value, version(), lease()).prop_map(|((key, value), version, lease)| Entry { key, version, lease, value })
}
fn notice() -> impl Strategy<Value = ScopeNotice> {
    let kind = prop_oneof![
        Just(NoticeKind::Change),
        (0u16..9, 1u16..9).prop_map(|(part, more)| NoticeKind::Listing { part, parts: part + more }),
    ];
    (name(), version(), kind, vec((component(), child()), 0..6))
        .prop_map(|(scope, revision, kind, children)| ScopeNotice { scope, revision, kind, children })
}
/// Any message of the rendezvous function.
pub(crate) fn message() -> impl Strategy<Value = Message> {
    let update = (name(), version(), version(), vec(entry(), 0..4))
        .prop_map(|(name, revision, registration, entries)| RecordUpdate { name, revision, registration, entries });
    let kind = prop::sample::select(
        [DigestKind::Compare, DigestKind::Differs, DigestKind::Leaving, DigestKind::Held].as_slice(),
    );
    let record = (any::<[u8; 16]>().prop_map(RecordKey), any::<u64>());
    prop_oneof![
        request().prop_map(Message::Request),
        (any::<u32>(), answer()).prop_map(|(request, answer)| Message::Reply(Reply { request, answer })),
        notice().prop_map(Message::ScopeNotice),
        (any::<u32>(), node(), request()).prop_map(|(request, client, inner)| Message::Forward(Forward {
            request,
            client,
            inner
        })),
        (any::<u32>(), vec(update, 0..4))
            .prop_map(|(request, records)| Message::Replicate(Replicate { request, records })),
        any::<u32>().prop_map(|request| Message::Sync { request }),
        (kind, vec(record, 0..20)).prop_map(|(kind, records)| Message::Digest(Digest { kind, records })),
        (node(), notice()).prop_map(|(client, notice)| Message::Relay(Relay { client, notice })),
        proptest::collection::btree_set(0u16..2_048, 0..8)
            .prop_map(|all| Message::Renewed(Renewed { request: 1, missing: all.into_iter().collect() })),
    ]
}

proptest! {
    #[test]
    fn what_is_emitted_parses_back(message in message()) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        prop_assert_eq!(Message::decode(&bytes), Ok(message));
    }

    #[test]
    fn damaged_messages_are_survived_and_what_parses_re_emits(
        message in message(), damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), cut: prop::sample::Index,
    ) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if cut.index(3) == 0 {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(message) = Message::decode(&bytes) {
            let mut out = Vec::new();
            message.encode(&mut out);
            prop_assert_eq!(out, bytes);
        }
    }
}
