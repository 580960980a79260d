use alloc::{collections::BTreeMap, format, string::String, vec, vec::Vec};

use proptest::prelude::*;

use super::*;
use crate::wire::{ChildState, Holding, NoticeKind, Renewal, Renewed, mark};

const R1: NodeId = NodeId(1);
const R2: NodeId = NodeId(2);

fn name(text: &str) -> Name {
    text.parse().unwrap()
}
fn ms(millis: u64) -> Time {
    Time::from_millis(millis)
}
fn runs(nodes: &[NodeId]) -> Vec<(NodeId, u32)> {
    nodes.iter().map(|node| (*node, 1)).collect()
}
fn client() -> PubSub {
    PubSub::new(PubSubConfig { label: "host".into(), ..PubSubConfig::default() }, 7)
}
/// A client that knows two rendezvous nodes.
fn connected() -> PubSub {
    let mut client = client();
    client.handle_resolvers(ms(0), &runs(&[R1, R2]));
    client
}
fn requests(client: &mut PubSub) -> Vec<(NodeId, ClientRequest)> {
    let messages = core::iter::from_fn(|| client.poll_message());
    messages
        .filter_map(|(to, message)| match message {
            Message::Request(request) => Some((to, request)),
            Message::Renewal(_) => None,
            other => panic!("a host sends requests and renewals only, not {other:?}"),
        })
        .collect()
}
/// The renewals that are sent, each as its number and its digest of each bucket.
fn renewals(client: &mut PubSub) -> Vec<(NodeId, Renewal)> {
    let messages = core::iter::from_fn(|| client.poll_message());
    let renewal = |(to, message)| if let Message::Renewal(renewal) = message { Some((to, renewal)) } else { None };
    messages.filter_map(renewal).collect()
}
fn renewed(client: &mut PubSub, now: Time, renewal: &(NodeId, Renewal), missing: &[u16]) {
    let answer = Renewed { request: renewal.1.request, missing: missing.to_vec() };
    client.handle_message(now, renewal.0, Message::Renewed(answer));
}
fn events(client: &mut PubSub) -> Vec<ResolverEvent> {
    core::iter::from_fn(|| client.poll_event()).collect()
}
/// The answer of the node that got the request.
fn answer(client: &mut PubSub, now: Time, request: u32, answer: Answer) {
    let from = client.requests.get(&request).map_or(R1, |(_, asked, _)| *asked);
    client.handle_message(now, from, Message::Reply(Reply { request, answer }));
}
fn put(client: &mut PubSub, now: Time, text: &str) {
    client.publish(now, &name(text), vec![1], 10, MissingScopes::Create);
}
const DONE: Answer = Answer::Done { replicas: 3 };

#[test]
fn commands_before_any_resolver_is_known_wait_and_the_application_is_told_once() {
    let mut client = client();
    put(&mut client, ms(0), "/a");
    assert_eq!(client.poll_timeout(), Some(ms(5_000)));
    client.handle_timeout(ms(4_999));
    assert_eq!(events(&mut client), []);
    client.handle_timeout(ms(5_000));
    let reason = "no resolver reachable: none is known after 5 s".into();
    assert_eq!(events(&mut client), [ResolverEvent::Rejected { name: "/a".into(), operation: "publish", reason }]);
    assert_eq!(client.poll_timeout(), None);
    client.handle_resolvers(ms(60_000), &runs(&[R1]));
    let sent = requests(&mut client);
    assert_eq!((sent.len(), sent[0].0), (1, R1));
    answer(&mut client, ms(60_010), sent[0].1.request, DONE);
    assert_eq!(events(&mut client), [ResolverEvent::Published { name: "/a".into() }]);
}

#[test]
fn a_subscription_is_renewed_at_a_third_of_the_lease_with_a_newer_version() {
    let mut client = connected();
    client.subscribe(ms(0), &name("/a"), 1, 2, PathMetric::Hops);
    let first = requests(&mut client).remove(0).1;
    answer(&mut client, ms(20), first.request, DONE);
    assert_eq!(client.poll_timeout(), Some(ms(10_020)));
    client.handle_timeout(ms(10_020));
    let second = requests(&mut client).remove(0).1;
    assert!(second.version > first.version && second.request != first.request);
    assert_eq!(second.operation, first.operation);
    events(&mut client);
    answer(&mut client, ms(10_040), second.request, DONE);
    assert_eq!(events(&mut client), [], "a renewal is no news");
}

#[test]
fn all_publications_are_renewed_by_one_message_and_what_does_not_match_is_published_again() {
    let mut client = connected();
    let names: Vec<String> = (0..50).map(|number| format!("/x/{number}")).collect();
    names.iter().for_each(|name| put(&mut client, ms(0), name));
    let sent = requests(&mut client);
    sent.iter().for_each(|(_, request)| answer(&mut client, ms(20), request.request, DONE));
    events(&mut client);
    assert_eq!(client.poll_timeout(), Some(ms(10_020)));
    client.handle_timeout(ms(10_020));
    let renewal = renewals(&mut client).remove(0);
    // What the rendezvous nodes hold: of each item the version that was granted.
    let mut expected: BTreeMap<u16, Holding> = BTreeMap::new();
    for (_, request) in &sent {
        let key = ItemId::new(&request.name).key();
        let bucket = bucket_of(key);
        expected.entry(bucket).or_insert(Holding { bucket, ..Holding::default() }).add(mark(key, request.version));
    }
    assert_eq!(renewal.1.holdings, expected.values().copied().collect::<Vec<_>>());
    // One bucket is held otherwise: its items are published again with newer versions, and no others.
    let missing = *expected.keys().next().unwrap();
    renewed(&mut client, ms(10_040), &renewal, &[missing]);
    let again = requests(&mut client);
    assert_eq!(again.len(), expected[&missing].count as usize);
    for (_, request) in &again {
        assert_eq!(bucket_of(ItemId::new(&request.name).key()), missing);
        let before = sent.iter().find(|(_, it)| it.name == request.name).unwrap();
        assert!(request.version > before.1.version && request.operation == before.1.operation);
    }
    assert_eq!(events(&mut client), [], "nothing of this is news");
    again.iter().for_each(|(_, request)| answer(&mut client, ms(10_050), request.request, DONE));
    // While a request is in progress the result for its bucket is open, so the bucket is left out.
    client.publish(ms(20_010), &name("/x/1"), vec![2], 10, MissingScopes::Create);
    client.handle_timeout(ms(20_020));
    let renewal = renewals(&mut client).remove(0);
    let busy = bucket_of(ItemId::new(&name("/x/1")).key());
    assert_eq!(renewal.1.holdings.len(), expected.len() - 1);
    assert!(renewal.1.holdings.iter().all(|holding| holding.bucket != busy));
}

#[test]
fn what_does_not_match_because_it_has_just_changed_is_asked_again_and_not_published() {
    let mut client = connected();
    put(&mut client, ms(0), "/a");
    let request = requests(&mut client).remove(0).1;
    answer(&mut client, ms(20), request.request, DONE);
    client.handle_timeout(ms(10_020));
    let renewal = renewals(&mut client).remove(0);
    // Another manifest is published during the renewal, and may overtake it.
    client.publish(ms(10_030), &name("/a"), vec![2], 10, MissingScopes::Create);
    let request = requests(&mut client).remove(0).1;
    renewed(&mut client, ms(10_040), &renewal, &[renewal.1.holdings[0].bucket]);
    assert_eq!(requests(&mut client), []);
    answer(&mut client, ms(10_050), request.request, DONE);
    client.handle_timeout(ms(11_050));
    let again = renewals(&mut client).remove(0);
    assert_eq!((again.1.holdings[0].count, again.1.holdings[0] != renewal.1.holdings[0]), (1, true));
}

#[test]
fn subscriptions_go_before_publications_that_wait() {
    let mut client = connected();
    (0..500).for_each(|number| put(&mut client, ms(0), &format!("/x/{number}")));
    let first = requests(&mut client);
    assert_eq!(first.len(), 64, "the window at the beginning");
    client.subscribe(ms(1), &name("/y"), 1, 2, PathMetric::Hops);
    let urgent = requests(&mut client);
    assert!(matches!(&urgent[..], [(_, request)] if request.name == name("/y")), "it waits for none of them");
    // The window grows with each fast answer.
    let mut open = first;
    for round in 1..3u64 {
        let at = ms(100 * round);
        open.iter().for_each(|(_, request)| answer(&mut client, at, request.request, DONE));
        open = requests(&mut client);
        assert!(open.len() > 60 << round, "{}", open.len());
    }
}

#[test]
fn what_is_published_again_is_answered_as_the_first_time_and_asks_nobody() {
    let mut client = connected();
    put(&mut client, ms(0), "/a");
    let request = requests(&mut client)[0].1.request;
    put(&mut client, ms(1), "/a");
    assert_eq!(events(&mut client), []);
    answer(&mut client, ms(10), request, DONE);
    let published = [ResolverEvent::Published { name: "/a".into() }];
    assert_eq!(events(&mut client), published);
    put(&mut client, ms(20), "/a");
    assert_eq!(events(&mut client), published);
    assert_eq!(requests(&mut client), []);
}

#[test]
fn answers_and_notices_of_nodes_that_were_not_asked_are_dropped_and_counted() {
    let mut client = connected();
    put(&mut client, ms(0), "/a");
    let request = requests(&mut client)[0].1.request;
    for from in [R2, NodeId(9)] {
        for reply in [DONE, Answer::Rejected(Rejection::IsScope), Answer::Stale { current: u64::MAX >> 1 }] {
            client.handle_message(ms(5), from, Message::Reply(Reply { request, answer: reply }));
        }
    }
    let children = vec![(vec![8, 1, 0x63], ChildState::Scope)];
    let notice = ScopeNotice { scope: name("/b"), revision: 1, kind: NoticeKind::Change, children };
    client.handle_message(ms(5), NodeId(9), Message::ScopeNotice(notice));
    assert_eq!((events(&mut client), client.unsolicited), (vec![], 7));
    answer(&mut client, ms(10), request, DONE);
    assert_eq!(events(&mut client), [ResolverEvent::Published { name: "/a".into() }]);
}

#[test]
fn a_version_that_nobody_can_outdo_holds_up_its_own_name_and_no_other() {
    let mut client = connected();
    put(&mut client, ms(0), "/a");
    let request = requests(&mut client)[0].1.request;
    answer(&mut client, ms(10), request, Answer::Stale { current: (1 << 63) - 1 });
    assert_eq!(requests(&mut client), [], "there is no higher one");
    put(&mut client, ms(20), "/b");
    let (_, other) = requests(&mut client).remove(0);
    assert!(other.version < 1 << 62);
    answer(&mut client, ms(30), other.request, DONE);
    // The entry falls with its lease, and the next try succeeds.
    client.handle_timeout(ms(10_011));
    let again = requests(&mut client).into_iter().find(|(_, request)| request.name == name("/a")).expect("it is tried");
    assert!(again.1.version < 1 << 62);
}

#[test]
fn without_an_answer_the_next_resolver_is_asked_for_the_same_version() {
    let mut client = connected();
    put(&mut client, ms(0), "/a");
    let (to, first) = requests(&mut client).remove(0);
    assert_eq!(to, R1);
    client.handle_timeout(ms(3_000));
    let (to, second) = requests(&mut client).remove(0);
    assert_eq!((to, second.version), (R2, first.version));
    // The first answers late: its number is forgotten, and nothing happens twice.
    answer(&mut client, ms(3_100), first.request, DONE);
    answer(&mut client, ms(3_200), second.request, DONE);
    assert_eq!(events(&mut client).len(), 1);
    assert_eq!(client.resolver, Some(R2));
}

#[test]
fn with_a_single_silent_resolver_it_goes_on_trying() {
    let mut client = client();
    client.handle_resolvers(ms(0), &runs(&[R1]));
    put(&mut client, ms(0), "/a");
    let mut requested = 0;
    for _ in 0..20 {
        requested += requests(&mut client).len();
        let due = client.poll_timeout().unwrap();
        client.handle_timeout(due);
    }
    assert!(requested > 10, "asked {requested} times");
    assert_eq!(events(&mut client).len(), 1, "told once");
}

#[test]
fn a_resolver_that_goes_is_replaced_at_once_and_the_new_one_is_told_everything() {
    let mut client = connected();
    put(&mut client, ms(0), "/a");
    client.subscribe(ms(0), &name("/b"), 3, 4, PathMetric::Hops);
    for (_, request) in requests(&mut client) {
        answer(&mut client, ms(10), request.request, DONE);
    }
    client.handle_resolvers(ms(20), &runs(&[R2]));
    let mut sent = Vec::new();
    while let Some((to, message)) = client.poll_message() {
        assert_eq!(to, R2);
        sent.push(match message {
            Message::Request(request) => request.name.to_string(),
            Message::Renewal(renewal) => format!("{} bucket", renewal.holdings.len()),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(sent, ["/b", "1 bucket"], "what is published others hold still");
    client.handle_resolvers(ms(30), &runs(&[R1, R2]));
    assert_eq!(requests(&mut client), [], "no change without need");
}

#[test]
fn a_resolver_that_started_anew_is_told_everything_and_one_that_did_not_nothing() {
    let mut client = connected();
    put(&mut client, ms(0), "/a");
    let (_, first) = requests(&mut client).remove(0);
    answer(&mut client, ms(10), first.request, DONE);
    client.handle_resolvers(ms(20), &[(R1, 1), (R2, 9)]);
    assert_eq!(requests(&mut client), [], "another one started anew");
    client.handle_resolvers(ms(30), &[(R1, 2), (R2, 9)]);
    let renewal = renewals(&mut client).remove(0);
    assert_eq!(renewal.0, R1);
    renewed(&mut client, ms(40), &renewal, &[renewal.1.holdings[0].bucket]);
    let (to, again) = requests(&mut client).remove(0);
    assert_eq!((to, &again.operation), (R1, &first.operation));
    assert!(again.version > first.version);
    assert_eq!(requests(&mut client), []);
}

#[test]
fn an_unreachable_resolver_is_left_as_soon_as_the_control_channel_says_so() {
    let mut client = connected();
    put(&mut client, ms(0), "/a");
    requests(&mut client);
    client.handle_outcome(ms(100), R2, SendResult::TimedOut);
    assert_eq!(requests(&mut client), []);
    client.handle_outcome(ms(100), R1, SendResult::TimedOut);
    assert_eq!(requests(&mut client)[0].0, R2);
}

#[test]
fn a_withdrawal_does_not_overtake_what_it_withdraws() {
    let mut client = connected();
    put(&mut client, ms(0), "/a");
    client.unpublish(ms(1), &name("/a"));
    let sent = requests(&mut client);
    assert_eq!(sent.len(), 1);
    answer(&mut client, ms(10), sent[0].1.request, DONE);
    let withdrawal = requests(&mut client).remove(0).1;
    assert_eq!(withdrawal.operation, Operation::Unpublish);
    assert!(withdrawal.version > sent[0].1.version);
    answer(&mut client, ms(20), withdrawal.request, DONE);
    assert_eq!(events(&mut client), [ResolverEvent::Unpublished { name: "/a".into() }]);
    assert_eq!((client.status(), client.poll_timeout()), (vec![], None));
}

#[test]
fn requests_under_way_are_bounded_and_all_get_their_turn() {
    let config = PubSubConfig { requests_max: 64, ..PubSubConfig::default() };
    let mut client = PubSub::new(config, 7);
    client.handle_resolvers(ms(0), &runs(&[R1, R2]));
    for i in 0..200 {
        put(&mut client, ms(0), &format!("/{i}"));
    }
    let mut done = 0;
    loop {
        let sent = requests(&mut client);
        assert!(sent.len() <= 64 && client.requests.len() <= 64);
        if sent.is_empty() {
            break;
        }
        for (_, request) in sent {
            answer(&mut client, ms(1), request.request, DONE);
            done += 1;
        }
    }
    assert_eq!(done, 200);
}

#[test]
fn what_was_granted_is_kept_when_a_renewal_is_refused() {
    let mut client = connected();
    client.subscribe(ms(0), &name("/a"), 1, 2, PathMetric::Hops);
    let first = requests(&mut client).remove(0).1;
    answer(&mut client, ms(0), first.request, DONE);
    for round in 0..3 {
        let due = client.poll_timeout().unwrap();
        client.handle_timeout(due);
        let renewal = requests(&mut client).remove(0).1;
        answer(&mut client, due, renewal.request, Answer::Rejected(Rejection::LimitReached(Limit::Records, 9)));
        assert_eq!(client.poll_timeout(), Some(due + Duration::from_secs(1)), "round {round}");
    }
    assert_eq!(events(&mut client).len(), 2, "subscribed, and refused once");
    assert!(client.status()[0].granted);
}

#[test]
fn a_stale_version_is_caught_up_with() {
    let mut client = connected();
    put(&mut client, ms(0), "/a");
    let first = requests(&mut client).remove(0).1;
    answer(&mut client, ms(0), first.request, Answer::Stale { current: first.version + 1_000 });
    let second = requests(&mut client).remove(0).1;
    assert_eq!(second.version, first.version + 1_001);
    answer(&mut client, ms(0), second.request, DONE);
    client.unpublish(ms(1), &name("/a"));
    assert!(requests(&mut client)[0].1.version > second.version);
}

#[test]
fn a_clean_end_withdraws_everything() {
    let mut client = connected();
    put(&mut client, ms(0), "/a");
    client.subscribe(ms(0), &name("/b"), 3, 4, PathMetric::Hops);
    client.subscribe_scope(ms(0), &name("/"));
    for (_, request) in requests(&mut client) {
        answer(&mut client, ms(0), request.request, DONE);
    }
    client.withdraw_all(ms(10));
    let operations: Vec<Operation> = requests(&mut client).into_iter().map(|(_, request)| request.operation).collect();
    assert_eq!(operations, [Operation::Unpublish, Operation::Unsubscribe { transfer: 3 }, Operation::UnsubscribeScope]);
}

#[test]
fn limits_of_the_client_refuse_and_say_so() {
    let config = PubSubConfig { wishes_max: 1, label: "é".repeat(20), ..PubSubConfig::default() };
    let mut client = PubSub::new(config, 7);
    assert_eq!(client.config.label, "é".repeat(16), "cut at 32 bytes, between characters");
    put(&mut client, ms(0), "/a");
    put(&mut client, ms(0), "/b");
    client.publish(ms(0), &name("/a"), vec![0; MANIFEST_BYTES_MAX + 1], 1, MissingScopes::Create);
    let reasons: Vec<bool> =
        events(&mut client).iter().map(|event| matches!(event, ResolverEvent::Rejected { .. })).collect();
    assert_eq!(reasons, [true, true]);
}

fn notice(revision: u64, kind: NoticeKind, children: Vec<(u8, ChildState)>) -> ScopeNotice {
    let component = |letter: u8| Name::root().child(&[letter]).unwrap().as_tlv().to_vec();
    let children = children.into_iter().map(|(letter, child)| (component(letter), child)).collect();
    ScopeNotice { scope: Name::root(), revision, kind, children }
}
const ALL: NoticeKind = NoticeKind::Listing { part: 0, parts: 1 };

#[test]
fn a_change_by_another_node_that_numbers_lower_asks_for_a_renewal() {
    use crate::wire::TERM_SHIFT;
    let (mut listing, mut events) = (Listing::default(), VecDeque::new());
    let change = |revision| notice(revision, NoticeKind::Change, vec![(b'x', ChildState::Scope)]);
    assert!(!listing.on_notice(notice((9 << TERM_SHIFT) + 5, ALL, vec![]), 10, &mut events));
    assert!(!listing.on_notice(change((9 << TERM_SHIFT) + 4), 10, &mut events), "late, and known");
    assert!(listing.on_notice(change((8 << TERM_SHIFT) + 7), 10, &mut events));
    assert!(!listing.on_notice(change((10 << TERM_SHIFT) + 1), 10, &mut events), "it is newer than what is known");
}

#[test]
fn a_gap_in_the_revisions_makes_the_renewal_ask_for_a_new_listing() {
    let (mut listing, mut events) = (Listing::default(), VecDeque::new());
    assert_eq!(listing.known(), crate::wire::NOTHING_KNOWN);
    listing.on_notice(notice(5, ALL, vec![]), 10, &mut events);
    assert_eq!(listing.known(), 5);
    listing.on_notice(notice(7, NoticeKind::Change, vec![(b'x', ChildState::Scope)]), 10, &mut events);
    assert_eq!(listing.known(), 5);
    listing.on_notice(notice(6, NoticeKind::Change, vec![(b'y', ChildState::Scope)]), 10, &mut events);
    assert_eq!(listing.known(), 7);
}

#[test]
fn a_listing_in_parts_counts_once_all_parts_are_there() {
    let (mut listing, mut events) = (Listing::default(), VecDeque::new());
    for part in [1, 0] {
        assert!(events.is_empty());
        let kind = NoticeKind::Listing { part, parts: 2 };
        listing.on_notice(notice(1, kind, vec![(part as u8, ChildState::Scope)]), 10, &mut events);
    }
    assert_eq!(events.len(), 3);
    assert_eq!(events.back(), Some(&ResolverEvent::Listed { name: "/".into(), entries: 2 }));
}

#[test]
fn a_listing_that_is_longer_than_what_is_remembered_is_not_cut_in_silence() {
    let (mut listing, mut events) = (Listing::default(), VecDeque::new());
    let all = (0..4).map(|letter| (letter, ChildState::Scope)).collect();
    listing.on_notice(notice(1, ALL, all), 3, &mut events);
    listing.on_notice(notice(2, NoticeKind::Change, vec![(9, ChildState::Scope)]), 3, &mut events);
    let refused = |event: &&ResolverEvent| {
        matches!(event, ResolverEvent::Rejected { name, operation: "list", reason }
        if name == "/" && reason.contains("more than 3 entries"))
    };
    assert_eq!(events.iter().filter(refused).count(), 1, "{events:?}");
    let at = |wanted: fn(&ResolverEvent) -> bool| events.iter().position(wanted);
    let (refused, listed) = (
        at(|event| matches!(event, ResolverEvent::Rejected { .. })),
        at(|event| matches!(event, ResolverEvent::Listed { .. })),
    );
    assert!(refused < listed, "before the end of the listing: {events:?}");
}

proptest! {
    /// Changes with revisions 1, 2, …; any of them may be lost, duplicated or late, and so may listings. Once a listing
    /// of the last revision arrives, or all changes after the newest listing, the view is right.
    #[test]
    fn notices_in_any_order_end_in_the_truth(
        changes in proptest::collection::vec((0u8..5, any::<bool>()), 1..20),
        listed_at in proptest::collection::vec(0usize..20, 0..4),
        order in proptest::collection::vec(any::<prop::sample::Index>(), 40),
    ) {
        let state = |present: bool| if present { ChildState::Scope } else { ChildState::Absent };
        let mut notices = Vec::new();
        let mut truth = BTreeMap::<u8, ChildState>::new();
        let listing_of = |truth: &BTreeMap<u8, ChildState>, revision| {
            let present = truth.iter().filter(|(_, child)| **child != ChildState::Absent);
            notice(revision, ALL, present.map(|(letter, child)| (*letter, *child)).collect())
        };
        for (index, (letter, present)) in changes.iter().enumerate() {
            truth.insert(*letter, state(*present));
            let revision = index as u64 + 1;
            notices.push(notice(revision, NoticeKind::Change, vec![(*letter, state(*present))]));
            if listed_at.contains(&index) {
                notices.push(listing_of(&truth, revision));
            }
        }
        let (mut listing, mut events) = (Listing::default(), VecDeque::new());
        for index in order {
            listing.on_notice(index.get(&notices).clone(), 100, &mut events);
        }
        let last = changes.len() as u64;
        if listing.known() != last {
            listing.on_notice(listing_of(&truth, last), 100, &mut events);
        }
        prop_assert_eq!(listing.known(), last);
        let mut reported = alloc::collections::BTreeSet::new();
        for event in events {
            match event {
                ResolverEvent::Appeared { name, .. } => prop_assert!(reported.insert(name)),
                ResolverEvent::Disappeared { name } => prop_assert!(reported.remove(&name)),
                _ => {}
            }
        }
        let expected: alloc::collections::BTreeSet<String> = truth
            .into_iter()
            .filter(|(_, child)| *child != ChildState::Absent)
            .map(|(letter, _)| Name::root().child(&[letter]).unwrap().to_string())
            .collect();
        prop_assert_eq!(reported, expected);
    }
}

#[test]
fn resolvers_that_answer_too_slowly_are_not_called_unreachable() {
    let mut client = PubSub::new(PubSubConfig { requests_max: 2, ..PubSubConfig::default() }, 1);
    client.handle_resolvers(Time::ZERO, &[(NodeId(1), 1), (NodeId(2), 1)]);
    for item in 0..5 {
        let name = format!("/a/{item}").parse().unwrap();
        client.publish(Time::ZERO, &name, vec![1], 1, MissingScopes::Create);
    }
    let mut now = Time::ZERO;
    let mut reported = Vec::new();
    while now < Time::from_millis(9_000) {
        // Messages arrive, but no answer comes.
        while let Some((node, _)) = client.poll_message() {
            client.handle_outcome(now, node, SendResult::Delivered);
        }
        reported.extend(core::iter::from_fn(|| client.poll_event()));
        now = client.poll_timeout().unwrap().max(now);
        client.handle_timeout(now);
    }
    let reasons: Vec<String> = reported
        .into_iter()
        .filter_map(|event| if let ResolverEvent::Rejected { reason, .. } = event { Some(reason) } else { None })
        .collect();
    assert!(!reasons.is_empty());
    for reason in &reasons {
        assert!(
            reason.starts_with("the resolvers are overloaded: they answer, but not to this within 5 s"),
            "{reason}"
        );
        assert!(reason.contains("2 requests are in progress and 3 wait"), "{reason}");
    }
}

#[test]
fn it_is_told_whether_no_resolver_is_known_or_none_of_those_known_answers() {
    for (known, text) in [
        (&[][..], "no resolver reachable: none is known after 5 s"),
        (&[(NodeId(1), 1), (NodeId(2), 1)], "no resolver reachable: none of 2 known answered within 5 s"),
    ] {
        let mut client = PubSub::new(PubSubConfig::default(), 1);
        client.handle_resolvers(Time::ZERO, known);
        client.publish(Time::ZERO, &"/a".parse().unwrap(), vec![1], 1, MissingScopes::Create);
        let reported = loop {
            while client.poll_message().is_some() {}
            if let Some(ResolverEvent::Rejected { reason, .. }) = client.poll_event() {
                break reason;
            }
            let due = client.poll_timeout().unwrap();
            client.handle_timeout(due);
        };
        assert_eq!(reported, text);
    }
}

#[test]
fn what_a_busy_resolver_refuses_is_said_again_until_it_is_taken_and_nobody_is_told() {
    let mut client = connected();
    for item in 0..300 {
        put(&mut client, ms(0), &format!("/{item}"));
    }
    let busy = || Answer::Rejected(Limit::Requests.reached(8));
    let (mut now, mut refused, mut done, mut most) = (ms(0), 0, 0, 64);
    while done < 300 {
        let sent = requests(&mut client);
        assert!(sent.len() <= most, "{} requests after {refused} refusals", sent.len());
        now += Duration::from_millis(80);
        // It accepts eight at a time, while other hosts leave it that many; then no request for a second.
        let room = if now < ms(2_000) || now > ms(3_000) { 8 } else { 0 };
        for (at, (_, request)) in sent.iter().enumerate() {
            let is_taken = at < room;
            (done, refused) = if is_taken { (done + 1, refused) } else { (done, refused + 1) };
            answer(&mut client, now, request.request, if is_taken { DONE } else { busy() });
        }
        if client.messages.is_empty() {
            now = client.poll_timeout().expect("something waits").max(now);
            client.handle_timeout(now);
        }
        // From the first refusal on the window stays at the accepted number, and at most an eighth above.
        most = if refused > 0 && now > ms(600) { 16 } else { 64 };
        assert!(now < ms(60_000), "{done} of 300 are published");
    }
    assert!(refused < 300, "{refused} refusals");
    let told: Vec<_> =
        events(&mut client).into_iter().filter(|event| !matches!(event, ResolverEvent::Published { .. })).collect();
    assert_eq!(told, []);
    // A withdrawal is not lost either.
    client.unpublish(now, &name("/7"));
    let request = requests(&mut client).remove(0).1;
    answer(&mut client, now, request.request, busy());
    while client.messages.is_empty() {
        now = client.poll_timeout().expect("it waits").max(now);
        client.handle_timeout(now);
    }
    let again = requests(&mut client);
    assert!(again.iter().any(|(_, request)| request.operation == Operation::Unpublish), "{again:?}");
    assert!(!events(&mut client).iter().any(|event| matches!(event, ResolverEvent::Rejected { .. })));
}

#[test]
fn who_is_refused_for_long_is_told_once_and_which_limit_it_is() {
    let mut client = connected();
    for item in 0..5 {
        put(&mut client, ms(0), &format!("/{item}"));
    }
    let mut now = ms(0);
    let mut told = Vec::new();
    while now < ms(20_000) {
        for (_, request) in requests(&mut client) {
            answer(&mut client, now, request.request, Answer::Rejected(Limit::Requests.reached(8)));
        }
        told.extend(events(&mut client));
        now = client.poll_timeout().expect("it goes on").max(now + Duration::from_millis(1));
        client.handle_timeout(now);
    }
    let [ResolverEvent::Rejected { reason, .. }] = &told[..] else { panic!("{told:?}") };
    assert!(reason.contains("requests_max = 8") && reason.ends_with("still trying"), "{reason}");
}
