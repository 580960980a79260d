//! Dialogues with other programs' producers.
use super::*;
use crate::wire::{MetaInfo, SignKey, SignatureInfo, ValidityPeriod, signature::ED25519_INFO, tlv::Writer};
use alloc::{string::ToString, vec, vec::Vec};
use bytes::Bytes;

const AT: Time = Time::ZERO;

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}
fn trust(shared: Option<VerifyKey>, epoch: Duration) -> Trust {
    Trust { shared, pinned: None, anchors: Arc::default(), unsigned: Unsigned::Fetched, epoch }
}
fn fetch_of(object: &str) -> Foreign {
    Foreign::new(&name(object), &trust(None, Duration::from_secs(1_700_000_000)))
}
fn data(of: &str, content: &[u8], last: Option<u64>, key: &SignKey) -> Bytes {
    let (of, locator) = (name(of), name("/alice/KEY/1"));
    let last = last.map(|last| segment(&Name::root(), last).expect("a component"));
    let meta = MetaInfo { final_block_id: last.as_ref().map(|last| &last.as_tlv()[..]), ..MetaInfo::default() };
    let signature = SignatureInfo {
        key_locator: Some(KeyLocator::Name(NameView::from(&locator))),
        ..SignatureInfo::new(key.kind())
    };
    Data { meta: Some(meta), signature, ..Data::new(NameView::from(&of), content) }.sign(key).into()
}
fn metadata(versioned: &str, marker: bool) -> Bytes {
    let mut content = Vec::new();
    content.put_element(types::NAME, name(versioned).as_tlv());
    if marker {
        content.put_element(naming::HAS_MANIFEST, &[]);
    }
    data("/o/32=metadata/v=1/seg=0", &content, Some(0), &SignKey::Digest)
}
fn give(foreign: &mut Foreign, packet: &Bytes) -> Found {
    foreign.handle_data(AT, packet, &Data::decode(packet).expect("it was just made"))
}
fn requests(foreign: &mut Foreign, expected: &str) {
    requests_at(foreign, AT, expected, CacheUse::Allowed);
}
fn bypasses_caches(foreign: &mut Foreign, expected: &str) {
    requests_at(foreign, AT, expected, CacheUse::Bypassed);
}
fn requests_at(foreign: &mut Foreign, at: Time, expected: &str, caches: CacheUse) {
    let requested = foreign.poll(at, Duration::ZERO).expect("a question");
    assert_eq!((requested.name, requested.caches), (name(expected), caches));
    assert!(foreign.poll(at, Duration::ZERO).is_none(), "one question at a time");
}
/// As often as an answer may be refused, past caches from the second time on, for this reason.
fn refuses(foreign: &mut Foreign, requested: &str, answer: &Bytes, reason: &str) {
    for number in 1..=REFUSED_MAX {
        assert!(matches!(give(foreign, answer), Found::Refused(_)));
        assert!(foreign.obstacle().is_some_and(|reported| reported.contains(reason)), "{:?}", foreign.obstacle());
        if number == 1 {
            bypasses_caches(foreign, requested);
        }
    }
}
/// The requests from `from` on without any answers, and whether caches may answer them.
fn requested_in_vain(foreign: &mut Foreign, from: Time, times: u32) -> Vec<(Name, CacheUse)> {
    let requested = (0..times).filter_map(|round| foreign.poll(from + PATIENCE * round, Duration::ZERO));
    requested.map(|requested| (requested.name, requested.caches)).collect()
}

#[test]
fn what_nobody_has_signed_is_refused_where_the_config_says_so() {
    let trust = Trust { unsigned: Unsigned::Refused, ..trust(None, Duration::ZERO) };
    let mut foreign = Foreign::new(&name("/o/v=7"), &trust);
    requests(&mut foreign, "/o/v=7/seg=0");
    let digest = data("/o/v=7/seg=0", b"content", Some(0), &SignKey::Digest);
    assert!(matches!(give(&mut foreign, &digest), Found::Refused(_)));
    assert!(foreign.obstacle().is_some_and(|obstacle| obstacle.contains("it is unsigned")));
}

#[test]
fn an_object_without_signature_is_measured_by_its_first_and_last_segment() {
    let mut foreign = fetch_of("/o");
    requests(&mut foreign, "/o/32=metadata");
    assert!(matches!(give(&mut foreign, &metadata("/o/v=5", false)), Found::Step));
    requests(&mut foreign, "/o/v=5/seg=0");
    assert!(matches!(give(&mut foreign, &data("/o/v=5/seg=0", &[1; 100], Some(9), &SignKey::Digest)), Found::Step));
    requests(&mut foreign, "/o/v=5/seg=9");
    let last = data("/o/v=5/seg=9", &[2; 30], Some(9), &SignKey::Digest);
    assert!(matches!(give(&mut foreign, &last), Found::Object(_)));
    let known = foreign.known().expect("all is known");
    assert_eq!((known.manifest.size, known.manifest.version, known.segments), (930, 5, 10));
    let shown = known.manifest.publisher.to_string();
    assert_eq!(shown.parse(), Ok(known.manifest.publisher), "trust can remember it");
    assert_eq!(known.manifest.chunk_size % 100, 0);
    let right = data("/o/v=5/seg=3", &[3; 100], Some(9), &SignKey::Digest);
    assert_eq!(foreign.verified(&Data::decode(&right).expect("data")), Some(3));
    let mut forged = right.to_vec();
    let at = forged.windows(4).position(|window| window == [3; 4]).expect("content");
    forged[at] = 4;
    assert_eq!(foreign.verified(&Data::decode(&forged).expect("data")), None);
    assert!(foreign.bad.contains(&3));
    let beyond = data("/o/v=5/seg=10", &[3; 100], Some(9), &SignKey::Digest);
    assert_eq!(foreign.verified(&Data::decode(&beyond).expect("data")), None);
}

#[test]
fn the_key_that_signs_is_fetched_and_every_segment_must_be_of_it() {
    let (key, other) = (SignKey::ed25519(&[1; 32]), SignKey::ed25519(&[2; 32]));
    let public = ed25519_dalek::SigningKey::from_bytes(&[1; 32]).verifying_key().to_bytes();
    let info = [ED25519_INFO, &public].concat();
    let mut foreign = fetch_of("/o/v=7");
    requests(&mut foreign, "/o/v=7/seg=0");
    assert!(matches!(give(&mut foreign, &data("/o/v=7/seg=0", &[1; 50], Some(0), &key)), Found::Step));
    requests(&mut foreign, "/alice/KEY/1");
    let (of, kind) = (name("/alice/KEY/1/self/v=1"), Some(ContentType::Key));
    let meta = MetaInfo { content_type: kind, ..MetaInfo::default() };
    let certificate: Bytes =
        Data { meta: Some(meta), ..Data::new(NameView::from(&of), &info) }.sign(&SignKey::Digest).into();
    assert!(matches!(give(&mut foreign, &certificate), Found::Object(_)));
    let known = foreign.known().expect("all is known");
    assert_eq!((known.manifest.publisher, known.manifest.size), (PublicKey(public), 50));
    assert_eq!(known.producer, "alice");
    for (key, expected) in [(&key, Some(0)), (&other, None), (&SignKey::Digest, None)] {
        let packet = data("/o/v=7/seg=0", &[1; 50], Some(0), key);
        assert_eq!(foreign.verified(&Data::decode(&packet).expect("data")), expected);
    }
}

/// A certificate for Ed25519 key `of`, by key `by` with this locator, that counts from 2020 to the end of `until`.
fn certificate(called: &str, of: u8, by: u8, locator: &str, until: &[u8; 15]) -> Bytes {
    let public = ed25519_dalek::SigningKey::from_bytes(&[of; 32]).verifying_key().to_bytes();
    let (called, locator) = (name(called), name(locator));
    let info = [ED25519_INFO, &public].concat();
    let signature = SignatureInfo {
        key_locator: Some(KeyLocator::Name(NameView::from(&locator))),
        validity: Some(ValidityPeriod { not_before: b"20200101T000000", not_after: until }),
        ..SignatureInfo::new(SignatureType::Ed25519)
    };
    let meta = MetaInfo { content_type: Some(ContentType::Key), ..MetaInfo::default() };
    let data = Data { meta: Some(meta), signature, ..Data::new(NameView::from(&called), &info) };
    data.sign(&SignKey::ed25519(&[by; 32])).into()
}

#[test]
fn who_vouches_for_a_key_is_asked_once_and_must_have_signed_its_certificate() {
    const LATE: &[u8; 15] = b"20991231T235959";
    let signed = data("/o/v=7/seg=0", &[1; 50], Some(0), &SignKey::ed25519(&[1; 32]));
    // Its certificate, and the outcome: the message, or the next request.
    let reported = |certificates: &[Bytes]| {
        let mut foreign = fetch_of("/o/v=7");
        requests(&mut foreign, "/o/v=7/seg=0");
        assert!(matches!(give(&mut foreign, &signed), Found::Step));
        requests(&mut foreign, "/alice/KEY/1");
        let mut found = Found::Nothing;
        for certificate in certificates {
            found = give(&mut foreign, certificate);
            if matches!(found, Found::Step) {
                requests(&mut foreign, "/root/KEY/9");
            }
        }
        match found {
            Found::Object(text) => text,
            Found::Refused(_) => foreign.obstacle().expect("a reason").into(),
            Found::Step | Found::Progress | Found::Nothing => "waits".into(),
        }
    };
    let alone = certificate("/alice/KEY/1/self/v=1", 1, 1, "/alice/KEY/1", LATE);
    assert!(reported(&[alone]).ends_with("'/alice/KEY/1', a key that vouches for itself"));
    let forged = certificate("/alice/KEY/1/self/v=1", 1, 2, "/alice/KEY/1", LATE);
    assert!(reported(&[forged]).contains("is not signed by its own key"));
    let expired = certificate("/alice/KEY/1/self/v=1", 1, 1, "/alice/KEY/1", b"20231114T221319");
    assert!(reported(&[expired]).contains("does not count now"));
    let by_root = certificate("/alice/KEY/1/root/v=1", 1, 9, "/root/KEY/9", LATE);
    let root = certificate("/root/KEY/9/self/v=1", 9, 9, "/root/KEY/9", LATE);
    assert_eq!(reported(core::slice::from_ref(&by_root)), "waits");
    assert!(
        reported(&[by_root.clone(), root]).contains("'/root/KEY/9' vouches; who vouches for that one was not asked")
    );
    let other_root = certificate("/root/KEY/9/self/v=1", 8, 8, "/root/KEY/9", LATE);
    assert!(reported(&[by_root.clone(), other_root]).contains("is not signed by '/root/KEY/9'"));

    let mut foreign = fetch_of("/o/v=7");
    requests(&mut foreign, "/o/v=7/seg=0");
    give(&mut foreign, &signed);
    requests(&mut foreign, "/alice/KEY/1");
    give(&mut foreign, &by_root);
    let requested: Vec<Name> = requested_in_vain(&mut foreign, AT, 6).into_iter().map(|(name, _)| name).collect();
    let (root, first) = (name("/root/KEY/9"), name("/o/v=7/seg=0"));
    assert_eq!(requested, [&root, &root, &root, &root, &first, &first].map(Clone::clone));
    let Found::Object(text) = give(&mut foreign, &signed) else { panic!("it can be fetched") };
    assert!(text.contains("could not be checked"), "{text}");
}

#[test]
fn what_a_shared_key_is_named_for_must_be_signed_with_it() {
    let (key, wrong) = (SignKey::Hmac(Vec::from([7; 32])), SignKey::Hmac(Vec::from([8; 32])));
    let shared = || Foreign::new(&name("/o/v=7"), &trust(Some(key.verify_key()), Duration::ZERO));
    let mut foreign = shared();
    requests(&mut foreign, "/o/v=7/seg=0");
    let right = data("/o/v=7/seg=0", &[1; 50], Some(0), &key);
    assert!(matches!(give(&mut foreign, &right), Found::Object(text) if text.contains("with the shared key")));
    assert_eq!(foreign.verified(&Data::decode(&right).expect("data")), Some(0));
    for other in [&wrong, &SignKey::Digest, &SignKey::ed25519(&[1; 32])] {
        let packet = data("/o/v=7/seg=0", &[1; 50], Some(0), other);
        assert_eq!(foreign.verified(&Data::decode(&packet).expect("data")), None);
        let mut foreign = shared();
        requests(&mut foreign, "/o/v=7/seg=0");
        refuses(&mut foreign, "/o/v=7/seg=0", &packet, "shared for its prefix");
    }
}

#[test]
fn what_cannot_be_fetched_is_asked_for_again_past_caches_and_told_once() {
    let mut foreign = fetch_of("/o");
    requests(&mut foreign, "/o/32=metadata");
    requests_at(&mut foreign, AT + PATIENCE, "/o", CacheUse::Allowed);
    let first = data("/o/v=5/seg=0", &[1; 100], Some(9), &SignKey::Digest);
    assert!(matches!(give(&mut foreign, &first), Found::Step), "a segment answers for the whole name");
    requests(&mut foreign, "/o/v=5/seg=0");
    let unsigned = data("/o/v=5/seg=0", &[1; 100], Some(9), &SignKey::Hmac(Vec::from([1; 8])));
    assert!(matches!(give(&mut foreign, &unsigned), Found::Refused(None)));
    bypasses_caches(&mut foreign, "/o/v=5/seg=0");
    let mut reported = Vec::new();
    for _ in 1..REFUSED_MAX {
        let Found::Refused(news) = give(&mut foreign, &unsigned) else { panic!("it cannot be used") };
        reported.extend(news);
    }
    assert!(reported.len() == 1 && reported[0].contains("[[shared_key]]"), "{reported:?}");
    // Discovery restarts, past caches.
    requests_at(&mut foreign, AT + PATIENCE, "/o/32=metadata", CacheUse::Bypassed);
    assert!(matches!(give(&mut foreign, &metadata("/elsewhere/v=5", false)), Found::Refused(None)));
    assert!(foreign.obstacle().is_some_and(|reason| reason.contains("'/elsewhere/")), "the last reason counts");
}

#[test]
fn who_shows_a_manifest_is_left_to_it_unless_none_comes() {
    let ours = || {
        let mut foreign = fetch_of("/o");
        requests(&mut foreign, "/o/32=metadata");
        assert!(matches!(give(&mut foreign, &metadata("/o/v=5", true)), Found::Step));
        assert!(foreign.poll(AT, Duration::ZERO).is_none());
        foreign
    };
    let mut foreign = ours();
    foreign.end();
    assert!(
        foreign.poll(AT + STAGE_TIME * 9, Duration::ZERO).is_none() && foreign.poll_timeout(Duration::ZERO).is_none()
    );
    let mut foreign = ours();
    let due = foreign.poll_timeout(Duration::ZERO).expect("it waits");
    assert!(foreign.poll(AT + STAGE_TIME, Duration::ZERO).is_none());
    assert!(foreign.poll(due, Duration::ZERO).is_some_and(|requested| requested.caches == CacheUse::Bypassed));
}

/// Metadata that a cache has kept of a version that is gone.
#[test]
fn a_version_that_nobody_has_any_more_is_given_up_and_the_next_is_asked_of_producers() {
    let mut foreign = fetch_of("/o");
    assert_eq!(requested_in_vain(&mut foreign, AT, 20).len(), 20, "where nothing is told it is asked on");
    let from = AT + PATIENCE * 20;
    assert!(matches!(give(&mut foreign, &metadata("/o/v=5", false)), Found::Step));
    let dead = (name("/o/v=5/seg=0"), CacheUse::Allowed);
    let metadata_past = (name("/o/32=metadata"), CacheUse::Bypassed);
    let requested = requested_in_vain(&mut foreign, from, 5);
    assert_eq!(requested, [dead.clone(), dead.clone(), dead.clone(), dead, metadata_past]);
    let missing = format!("'{}' does not come", name("/o/v=5"));
    assert!(foreign.obstacle().is_some_and(|reason| reason.contains(&missing)), "{:?}", foreign.obstacle());
    assert!(matches!(give(&mut foreign, &metadata("/o/v=6", false)), Found::Step));
    requests_at(&mut foreign, from + PATIENCE * 5, "/o/v=6/seg=0", CacheUse::Bypassed);
    // What only caches have is found by turns: by the next round caches may answer again.
    let requested = requested_in_vain(&mut foreign, from + PATIENCE * 6, 30);
    assert!(requested.contains(&(name("/o/32=metadata"), CacheUse::Allowed)), "{requested:?}");
}

#[test]
fn a_wrong_certificate_in_a_cache_is_passed_by() {
    const LATE: &[u8; 15] = b"20991231T235959";
    let signed = data("/o/v=7/seg=0", &[1; 50], Some(0), &SignKey::ed25519(&[1; 32]));
    let alone = certificate("/alice/KEY/1/self/v=1", 1, 1, "/alice/KEY/1", LATE);
    let anothers = certificate("/alice/KEY/1/self/v=1", 2, 2, "/alice/KEY/1", LATE);
    let mut foreign = fetch_of("/o/v=7");
    requests(&mut foreign, "/o/v=7/seg=0");
    give(&mut foreign, &signed);
    requests(&mut foreign, "/alice/KEY/1");
    assert!(matches!(give(&mut foreign, &anothers), Found::Refused(None)));
    bypasses_caches(&mut foreign, "/alice/KEY/1");
    assert!(matches!(give(&mut foreign, &alone), Found::Object(_)));

    // The same for its issuer.
    let by_root = certificate("/alice/KEY/1/root/v=1", 1, 9, "/root/KEY/9", LATE);
    let (root, wrong) = (9, 8);
    let certificate_of = |key| certificate("/root/KEY/9/self/v=1", key, key, "/root/KEY/9", LATE);
    let mut foreign = fetch_of("/o/v=7");
    requests(&mut foreign, "/o/v=7/seg=0");
    give(&mut foreign, &signed);
    requests(&mut foreign, "/alice/KEY/1");
    give(&mut foreign, &by_root);
    requests(&mut foreign, "/root/KEY/9");
    assert!(matches!(give(&mut foreign, &certificate_of(wrong)), Found::Refused(None)));
    bypasses_caches(&mut foreign, "/root/KEY/9");
    assert!(matches!(give(&mut foreign, &certificate_of(root)), Found::Object(_)));
}

/// The first segment shows how all are signed; a forged one must not make us reject all valid ones.
#[test]
fn a_forged_first_segment_is_given_up_when_no_producer_s_segment_is_like_it() {
    let (key, digest) = (SignKey::ed25519(&[1; 32]), SignKey::Digest);
    let segment = |number: u64, key: &SignKey| data(&format!("/o/v=7/seg={number}"), &[1; 50], Some(5), key);
    let forged = || {
        let mut foreign = fetch_of("/o/v=7");
        requests(&mut foreign, "/o/v=7/seg=0");
        assert!(matches!(give(&mut foreign, &segment(0, &digest)), Found::Step));
        requests(&mut foreign, "/o/v=7/seg=5");
        foreign
    };
    // The last one is right already.
    let mut foreign = forged();
    refuses(&mut foreign, "/o/v=7/seg=5", &segment(5, &key), "is not signed by the key");
    requests_at(&mut foreign, AT + PATIENCE, "/o/v=7/seg=0", CacheUse::Bypassed);
    assert!(matches!(give(&mut foreign, &segment(0, &key)), Found::Step));
    bypasses_caches(&mut foreign, "/alice/KEY/1");

    // The first and the last are forged, or the known producers are gone.
    let known = || {
        let mut foreign = forged();
        assert!(matches!(give(&mut foreign, &segment(5, &digest)), Found::Object(_)));
        assert!(foreign.known().is_some() && foreign.poll(AT, Duration::ZERO).is_none());
        foreign
    };
    let right = segment(3, &key);
    let mut foreign = known();
    for number in 1..=REFUSED_MAX {
        assert_eq!(foreign.verified(&Data::decode(&right).expect("data")), None);
        assert_eq!(foreign.known().is_none(), number == REFUSED_MAX);
    }
    bypasses_caches(&mut foreign, "/o/v=7/seg=0");
    let mut foreign = known();
    let due = foreign.poll_timeout(Duration::ZERO).expect("segments are waited for");
    requests_at(&mut foreign, due, "/o/v=7/seg=0", CacheUse::Bypassed);

    // Once a producer has shown a valid segment, wrong ones are only requested again.
    let mut foreign = known();
    foreign.confirm();
    for _ in 0..2 * REFUSED_MAX {
        assert_eq!(foreign.verified(&Data::decode(&right).expect("data")), None);
    }
    assert!(foreign.known().is_some() && foreign.poll_timeout(Duration::ZERO).is_none());
}

#[test]
fn first_and_last_segments_that_do_not_fit_together_are_asked_for_again() {
    let mut foreign = fetch_of("/o/v=7");
    requests(&mut foreign, "/o/v=7/seg=0");
    let last = u64::MAX;
    give(&mut foreign, &data("/o/v=7/seg=0", &[1; 50], Some(last), &SignKey::Digest));
    requests(&mut foreign, &format!("/o/v=7/seg={last}"));
    let requested = format!("/o/v=7/seg={last}");
    let answer = data(&requested, &[1; 50], Some(last), &SignKey::Digest);
    refuses(&mut foreign, &requested, &answer, "is number 18446744073709551615");
    requests_at(&mut foreign, AT + PATIENCE, "/o/v=7/seg=0", CacheUse::Bypassed);
    give(&mut foreign, &data("/o/v=7/seg=0", &[1; 50], Some(0), &SignKey::Digest));
    assert!(foreign.known().is_some());
}

#[test]
fn a_version_that_is_one_data_is_asked_for_itself_when_its_first_segment_does_not_come() {
    let mut foreign = fetch_of("/o/v=7");
    requests(&mut foreign, "/o/v=7/seg=0");
    requests_at(&mut foreign, AT + PATIENCE, "/o/v=7", CacheUse::Allowed);
    let segment_of_it = data("/o/v=7/seg=3", &[1; 50], Some(9), &SignKey::Digest);
    assert!(matches!(give(&mut foreign, &segment_of_it), Found::Nothing), "a longer name was not asked for");
    let complete = data("/o/v=7", &[1; 50], None, &SignKey::Digest);
    assert!(matches!(give(&mut foreign, &complete), Found::Object(_)));
    let known = foreign.known().expect("all is known");
    assert_eq!((known.name(0), known.manifest.size, known.segments), (Some(name("/o/v=7")), 50, 1));
    assert_eq!(foreign.verified(&Data::decode(&complete).expect("data")), Some(0));
}

#[test]
fn the_last_segment_is_looked_for_where_the_first_does_not_name_it() {
    let mut foreign = fetch_of("/o/v=7");
    requests(&mut foreign, "/o/v=7/seg=0");
    let segment = |number: u64, last| data(&format!("/o/v=7/seg={number}"), &[1; 50], last, &SignKey::Digest);
    assert!(matches!(give(&mut foreign, &segment(0, None)), Found::Step));
    for number in [1, 2] {
        requests(&mut foreign, &format!("/o/v=7/seg={number}"));
        assert!(matches!(give(&mut foreign, &segment(number, None)), Found::Step));
    }
    requests(&mut foreign, "/o/v=7/seg=4");
    requests_at(&mut foreign, AT + PATIENCE, "/o/v=7/seg=4", CacheUse::Allowed);
    requests_at(&mut foreign, AT + PATIENCE * 2, "/o/v=7/seg=3", CacheUse::Allowed);
    let forged = data("/o/v=7/seg=3", &[1; 50], Some(3), &SignKey::ed25519(&[2; 32]));
    assert!(matches!(give(&mut foreign, &forged), Found::Refused(None)));
    requests_at(&mut foreign, AT + PATIENCE * 2, "/o/v=7/seg=3", CacheUse::Bypassed);
    assert!(matches!(give(&mut foreign, &segment(3, Some(3))), Found::Object(_)));
    assert_eq!(foreign.known().map(|known| (known.segments, known.manifest.size)), Some((4, 200)));
}

#[test]
fn a_segment_of_another_size_has_all_of_them_put_together() {
    let mut foreign = fetch_of("/o/v=7");
    requests(&mut foreign, "/o/v=7/seg=0");
    let segment = |number: u64, size| data(&format!("/o/v=7/seg={number}"), &vec![7; size], Some(2), &SignKey::Digest);
    give(&mut foreign, &segment(0, 50));
    requests(&mut foreign, "/o/v=7/seg=2");
    assert!(matches!(give(&mut foreign, &segment(2, 20)), Found::Object(_)));
    assert!(foreign.known().is_some_and(|known| known.fits(1, 50) && !known.fits(1, 30) && known.fits(2, 20)));
    foreign.confirm();
    assert!(foreign.on_uneven() && foreign.known().is_none());
    let mut requested: Vec<Name> =
        core::iter::from_fn(|| foreign.poll(AT, Duration::ZERO)).map(|requested| requested.name).collect();
    assert!(matches!(give(&mut foreign, &segment(1, 30)), Found::Step), "what comes early waits");
    assert!(matches!(give(&mut foreign, &segment(1, 30)), Found::Nothing), "it comes once");
    assert!(matches!(give(&mut foreign, &segment(0, 50)), Found::Progress));
    requested.extend(core::iter::from_fn(|| foreign.poll(AT, Duration::ZERO)).map(|requested| requested.name));
    assert_eq!(requested, [0, 1, 2].map(|number| name(&format!("/o/v=7/seg={number}"))));
    assert!(matches!(give(&mut foreign, &segment(2, 20)), Found::Object(_)));
    let known = foreign.known().expect("all is known");
    assert_eq!((known.manifest.size, known.gathered_packet(0)), (100, Some(&[7; 100][..])));
    assert!(!foreign.on_uneven(), "what is put together is not put together again");
}

#[test]
fn only_what_was_asked_for_is_denied_by_a_nack_of_the_producer() {
    let denied = |of: &str| -> Bytes {
        let of = name(of);
        let meta = MetaInfo { content_type: Some(ContentType::Nack), ..MetaInfo::default() };
        Data { meta: Some(meta), ..Data::new(NameView::from(&of), &[]) }.sign(&SignKey::Digest).into()
    };
    let mut foreign = fetch_of("/o");
    requests(&mut foreign, "/o/32=metadata");
    assert!(matches!(give(&mut foreign, &denied("/o/32=metadata")), Found::Refused(None)));
    bypasses_caches(&mut foreign, "/o");
    assert!(matches!(give(&mut foreign, &denied("/o/32=manifest/abc")), Found::Nothing), "a probe that is denied");
    assert!(matches!(give(&mut foreign, &denied("/o")), Found::Refused(None)));
    assert!(foreign.is_absent && foreign.obstacle().is_some_and(|reason| reason.contains("does not exist")));
    requests_at(&mut foreign, AT + PATIENCE, "/o/32=metadata", CacheUse::Bypassed);
    assert!(matches!(give(&mut foreign, &metadata("/o/v=5", false)), Found::Step), "another producer has it");
    assert!(!foreign.is_absent);
}
