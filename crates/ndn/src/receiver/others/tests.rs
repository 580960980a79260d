//! Dialogues with producers of others.
use super::*;
use crate::wire::{MetaInfo, SignKey, SignatureInfo, ValidityPeriod, tlv::Writer};
use alloc::vec::Vec;
use bytes::Bytes;

const AT: Time = Time::ZERO;

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}
fn fetch_of(object: &str) -> Others {
    Others::new(&name(object), None, Duration::from_secs(1_700_000_000))
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
fn give(others: &mut Others, packet: &Bytes) -> Found {
    others.handle_data(AT, packet, &Data::decode(packet).expect("it was just made"))
}
fn asks(others: &mut Others, expected: &str) {
    let (asked, _) = others.poll(AT, Duration::ZERO).expect("a question");
    assert_eq!(asked, name(expected));
    assert!(others.poll(AT, Duration::ZERO).is_none(), "one question at a time");
}

#[test]
fn an_object_without_signature_is_measured_by_its_first_and_last_segment() {
    let mut others = fetch_of("/o");
    asks(&mut others, "/o/32=metadata");
    assert!(matches!(give(&mut others, &metadata("/o/v=5", false)), Found::Step));
    asks(&mut others, "/o/v=5/seg=0");
    assert!(matches!(give(&mut others, &data("/o/v=5/seg=0", &[1; 100], Some(9), &SignKey::Digest)), Found::Step));
    asks(&mut others, "/o/v=5/seg=9");
    let last = data("/o/v=5/seg=9", &[2; 30], Some(9), &SignKey::Digest);
    assert!(matches!(give(&mut others, &last), Found::Object(_)));
    let known = others.known().expect("all is known");
    assert_eq!((known.manifest.size, known.manifest.version, known.segments), (930, 5, 10));
    let shown = known.manifest.publisher.to_string();
    assert_eq!(shown.parse(), Ok(known.manifest.publisher), "trust can remember it");
    assert_eq!(known.manifest.chunk_size % 100, 0);
    let right = data("/o/v=5/seg=3", &[3; 100], Some(9), &SignKey::Digest);
    assert_eq!(others.verified(&Data::decode(&right).expect("data")), Some(3));
    let mut forged = right.to_vec();
    let at = forged.windows(4).position(|window| window == [3; 4]).expect("content");
    forged[at] = 4;
    assert_eq!(others.verified(&Data::decode(&forged).expect("data")), None);
    assert!(others.must_bypass(3) && others.refused == 1);
    let beyond = data("/o/v=5/seg=10", &[3; 100], Some(9), &SignKey::Digest);
    assert_eq!(others.verified(&Data::decode(&beyond).expect("data")), None);
}

#[test]
fn the_key_that_signs_is_fetched_and_every_segment_must_be_of_it() {
    let (key, other) = (SignKey::ed25519(&[1; 32]), SignKey::ed25519(&[2; 32]));
    let public = ed25519_dalek::SigningKey::from_bytes(&[1; 32]).verifying_key().to_bytes();
    let info = [ED25519_INFO, &public].concat();
    let mut others = fetch_of("/o/v=7");
    asks(&mut others, "/o/v=7/seg=0");
    assert!(matches!(give(&mut others, &data("/o/v=7/seg=0", &[1; 50], Some(0), &key)), Found::Step));
    asks(&mut others, "/alice/KEY/1");
    let (of, kind) = (name("/alice/KEY/1/self/v=1"), Some(ContentType::Key));
    let meta = MetaInfo { content_type: kind, ..MetaInfo::default() };
    let certificate: Bytes =
        Data { meta: Some(meta), ..Data::new(NameView::from(&of), &info) }.sign(&SignKey::Digest).into();
    assert!(matches!(give(&mut others, &certificate), Found::Object(_)));
    let known = others.known().expect("all is known");
    assert_eq!((known.manifest.publisher, known.manifest.size), (PublicKey(public), 50));
    assert_eq!(known.producer, "alice");
    for (key, expected) in [(&key, Some(0)), (&other, None), (&SignKey::Digest, None)] {
        let packet = data("/o/v=7/seg=0", &[1; 50], Some(0), key);
        assert_eq!(others.verified(&Data::decode(&packet).expect("data")), expected);
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
    // Its certificate, and what comes of it: the words, or what is asked next.
    let told = |certificates: &[Bytes]| {
        let mut others = fetch_of("/o/v=7");
        asks(&mut others, "/o/v=7/seg=0");
        assert!(matches!(give(&mut others, &signed), Found::Step));
        asks(&mut others, "/alice/KEY/1");
        let mut found = Found::Nothing;
        for certificate in certificates {
            found = give(&mut others, certificate);
            if matches!(found, Found::Step) {
                asks(&mut others, "/root/KEY/9");
            }
        }
        match found {
            Found::Object(text) | Found::Impossible(text) => text,
            Found::Step | Found::Nothing => "waits".into(),
        }
    };
    let alone = certificate("/alice/KEY/1/self/v=1", 1, 1, "/alice/KEY/1", LATE);
    assert!(told(&[alone]).ends_with("'/alice/KEY/1', a key that vouches for itself"));
    let forged = certificate("/alice/KEY/1/self/v=1", 1, 2, "/alice/KEY/1", LATE);
    assert!(told(&[forged]).contains("is not signed by its own key"));
    let expired = certificate("/alice/KEY/1/self/v=1", 1, 1, "/alice/KEY/1", b"20231114T221319");
    assert!(told(&[expired]).contains("does not count now"));
    let by_root = certificate("/alice/KEY/1/root/v=1", 1, 9, "/root/KEY/9", LATE);
    let root = certificate("/root/KEY/9/self/v=1", 9, 9, "/root/KEY/9", LATE);
    assert_eq!(told(core::slice::from_ref(&by_root)), "waits");
    assert!(told(&[by_root.clone(), root]).contains("'/root/KEY/9' vouches; who vouches for that one was not asked"));
    let other_root = certificate("/root/KEY/9/self/v=1", 8, 8, "/root/KEY/9", LATE);
    assert!(told(&[by_root.clone(), other_root]).contains("is not signed by '/root/KEY/9'"));

    let mut others = fetch_of("/o/v=7");
    asks(&mut others, "/o/v=7/seg=0");
    give(&mut others, &signed);
    asks(&mut others, "/alice/KEY/1");
    give(&mut others, &by_root);
    let mut asked = Vec::new();
    for round in 0..6 {
        asked.extend(others.poll(AT + PATIENCE * round, Duration::ZERO).map(|(name, _)| name));
    }
    let (root, first) = (name("/root/KEY/9"), name("/o/v=7/seg=0"));
    assert_eq!(asked, [&root, &root, &root, &root, &first, &first].map(Clone::clone));
    let Found::Object(text) = give(&mut others, &signed) else { panic!("it can be fetched") };
    assert!(text.contains("could not be checked"), "{text}");
}

#[test]
fn what_a_shared_key_is_named_for_must_be_signed_with_it() {
    let (key, wrong) = (SignKey::Hmac(Vec::from([7; 32])), SignKey::Hmac(Vec::from([8; 32])));
    let shared = || Others::new(&name("/o/v=7"), Some(key.verify_key()), Duration::ZERO);
    let mut others = shared();
    asks(&mut others, "/o/v=7/seg=0");
    let right = data("/o/v=7/seg=0", &[1; 50], Some(0), &key);
    assert!(matches!(give(&mut others, &right), Found::Object(text) if text.contains("with the shared key")));
    assert_eq!(others.verified(&Data::decode(&right).expect("data")), Some(0));
    for other in [&wrong, &SignKey::Digest, &SignKey::ed25519(&[1; 32])] {
        let packet = data("/o/v=7/seg=0", &[1; 50], Some(0), other);
        assert_eq!(others.verified(&Data::decode(&packet).expect("data")), None);
        let mut others = shared();
        asks(&mut others, "/o/v=7/seg=0");
        for _ in 1..REFUSED_MAX {
            assert!(matches!(give(&mut others, &packet), Found::Nothing));
        }
        assert!(matches!(give(&mut others, &packet), Found::Impossible(_)));
    }
}

#[test]
fn what_cannot_be_fetched_is_told_and_ours_are_left_to_their_manifest() {
    let mut others = fetch_of("/o");
    asks(&mut others, "/o/32=metadata");
    assert_eq!(others.poll(AT + PATIENCE, Duration::ZERO).expect("the other way").0, name("/o"));
    let first = data("/o/v=5/seg=0", &[1; 100], Some(9), &SignKey::Digest);
    assert!(matches!(give(&mut others, &first), Found::Step), "a segment answers for the whole name");
    asks(&mut others, "/o/v=5/seg=0");
    let unsigned = data("/o/v=5/seg=0", &[1; 100], Some(9), &SignKey::Hmac(Vec::from([1; 8])));
    assert!(matches!(give(&mut others, &unsigned), Found::Impossible(_)));
    assert!(others.known().is_none() && others.poll(AT, Duration::ZERO).is_none());

    let mut others = fetch_of("/o");
    asks(&mut others, "/o/32=metadata");
    assert!(matches!(give(&mut others, &metadata("/elsewhere/v=5", false)), Found::Nothing));
    assert!(matches!(give(&mut others, &metadata("/o/v=5", true)), Found::Step));
    assert!(others.poll(AT + PATIENCE * 9, Duration::ZERO).is_none() && others.poll_timeout(Duration::ZERO).is_none());
}
