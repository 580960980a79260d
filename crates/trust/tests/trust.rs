//! What certificates and revocations promise.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
use std::{collections::BTreeSet, sync::Arc};

use proptest::prelude::*;
use tributary_content::{Name, SigningKey};
use tributary_core::{Time, wire::WireError};
use tributary_trust::{
    Access, CLOCK_TOLERANCE, Certificate, Grant, Identity, IssueError, Network, PublicKey, Refusal, Revocations, Roles,
    Terms, TextError, UnixTime,
};

const NOW: UnixTime = UnixTime(1_800_000_000);

fn key(byte: u8) -> SigningKey {
    SigningKey::from_secret(&[byte; 32])
}
fn terms(of: u8) -> Terms {
    Terms {
        serial: u64::from(of),
        key: key(of).public(),
        label: "attic".into(),
        roles: Roles::ROUTER | Roles::RESOLVER,
        prefixes: vec!["/lab".parse().unwrap()],
        not_before: NOW,
        not_after: NOW.after(3_600),
    }
}
fn certificate(of: u8) -> Certificate {
    Certificate::issue(&key(1), terms(of)).unwrap()
}
fn closed() -> Network {
    Network::new(key(1).public(), Access::Closed)
}
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
fn revocations(number: u64, serials: &[u64], keys: &[PublicKey]) -> Revocations {
    let (serials, keys) = (serials.iter().copied().collect(), keys.iter().copied().collect());
    Revocations::issue(&key(1), number, serials, keys).unwrap()
}

#[test]
fn the_bytes_of_a_certificate_stay_what_they_are() {
    let bytes = certificate(2).encode();
    let fields = [
        ("layout", "01"),
        ("network", "NETWORK"),
        ("serial", "0000000000000002"),
        ("key", &hex(&key(2).public().0)),
        ("not before", "000000006b49d200"),
        ("not after", "000000006b49e010"),
        ("roles", "03"),
        ("label", "056174746963"),
        ("prefixes", "01"),
        ("prefix", "000508036c6162"),
    ];
    let expected: String = fields.iter().map(|(_, digits)| *digits).collect();
    let signed = bytes.len() - 64;
    let network = hex(&bytes[1..9]);
    assert_eq!(hex(&bytes[..signed]), expected.replace("NETWORK", &network));
    assert_eq!(network, NETWORK);
    assert_eq!(hex(&bytes[signed..]), SIGNATURE);
    assert_eq!(Certificate::decode(&bytes), Ok(certificate(2)));
    assert_eq!(Certificate::from_text(&format!("  {}\n", certificate(2).to_text())), Ok(certificate(2)));
}
const NETWORK: &str = "93deeeb07c07f083";
const SIGNATURE: &str = "942ba2c4cecc1a399547dec9082db5f79df3d2957f8985a7053803e20c4483c2\
                         9f0f84b48a68ea715d7b3fbd5423427f61f07d7ff97a0d1a6da0254e00ff5305";

#[test]
fn the_bytes_of_revocations_stay_what_they_are() {
    let list = revocations(7, &[2, 9], &[key(3).public()]);
    let bytes = list.encode();
    let expected =
        format!("01{NETWORK}0000000000000007000200000000000000020000000000000009{}{}", "0001", hex(&key(3).public().0));
    assert_eq!(hex(&bytes[..bytes.len() - 64]), expected);
    assert_eq!(Revocations::decode(&bytes), Ok(list.clone()));
    assert_eq!(Revocations::from_text(&list.to_text()), Ok(list));
}

#[test]
fn malformed_bytes_are_refused_by_field() {
    let bytes = certificate(2).encode();
    let changed = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        Certificate::decode(&bytes).unwrap_err()
    };
    assert_eq!(changed(0, 2), WireError::Version { found: 2, known: 1 });
    assert_eq!(changed(65, 0b1000), WireError::Value { field: "roles", found: 8 });
    assert_eq!(changed(66, 0), WireError::Value { field: "label", found: 0 });
    assert_eq!(changed(67, 0x1b), WireError::Value { field: "label", found: 5 });
    assert_eq!(changed(72, 17), WireError::Value { field: "prefixes", found: 17 });
    // Byte 61 is the highest one that is set of the end.
    assert!(matches!(changed(61, 0), WireError::Value { field: "not after", .. }));
    for length in 0..bytes.len() {
        assert!(Certificate::decode(&bytes[..length]).is_err());
    }
    assert!(Certificate::decode(&[&bytes[..], &[0]].concat()).is_err());
    assert!(matches!(Certificate::from_text("certificate"), Err(TextError::Format { .. })));
    assert!(matches!(Certificate::from_text("tributary-certificate:0"), Err(TextError::Format { .. })));
}

#[test]
fn terms_beyond_a_limit_are_not_signed() {
    let issue = |terms| Certificate::issue(&key(1), terms);
    let longest: Vec<Name> = (0..16).map(|n| format!("/{n:02}{}", "x".repeat(34)).parse().unwrap()).collect();
    let full = Terms { label: "x".repeat(32), prefixes: longest.clone(), ..terms(2) };
    assert_eq!(issue(full.clone()).unwrap().encode().len(), Certificate::BYTES_MAX);
    assert!(Certificate::decode(&issue(full.clone()).unwrap().encode()).is_ok());
    let mut longer = longest;
    longer[0] = format!("/{}", "x".repeat(37)).parse().unwrap();
    assert!(matches!(issue(Terms { prefixes: longer, ..terms(2) }), Err(IssueError::Prefixes { .. })));
    let many = vec![Name::root(); 17];
    assert!(matches!(issue(Terms { prefixes: many, ..terms(2) }), Err(IssueError::Prefixes { .. })));
    assert!(matches!(issue(Terms { label: "x".repeat(33), ..terms(2) }), Err(IssueError::Label { bytes: 33 })));
    assert_eq!(issue(Terms { label: "a\u{1b}".into(), ..terms(2) }), Err(IssueError::LabelCharacter));
    assert_eq!(issue(Terms { not_after: NOW, ..terms(2) }), Err(IssueError::Never));
}

#[test]
fn a_closed_network_admits_only_who_is_certified_now_for_this_key() {
    let (network, certified) = (closed(), certificate(2));
    let admit = |key: u8, certificate: Option<&Certificate>, now| {
        network.admit(&self::key(key).public(), "x", certificate, now)
    };
    let grant = admit(2, Some(&certified), NOW).unwrap();
    assert_eq!((grant.label.as_str(), grant.roles), ("attic", Roles::ROUTER | Roles::RESOLVER));
    assert!(grant.owns(&"/lab/image".parse().unwrap()) && !grant.owns(&"/laboratory".parse().unwrap()));
    assert!(matches!(admit(2, None, NOW), Err(Refusal::NoCertificate { .. })));
    assert!(matches!(admit(3, Some(&certified), NOW), Err(Refusal::OtherKey { .. })));
    assert!(matches!(admit(2, Some(&certified), NOW.after(3_600)), Err(Refusal::Expired { .. })));
    assert!(admit(2, Some(&certified), NOW.after(3_599)).is_ok());
    assert!(admit(2, Some(&certified), UnixTime(NOW.0 - CLOCK_TOLERANCE)).is_ok(), "a clock may be a day behind");
    assert!(matches!(admit(2, Some(&certified), UnixTime(NOW.0 - CLOCK_TOLERANCE - 1)), Err(Refusal::NotYet { .. })));
    let other = Certificate::issue(&key(9), terms(2)).unwrap();
    assert!(matches!(admit(2, Some(&other), NOW), Err(Refusal::OtherNetwork { .. })));
    // A foreign signature under this network's name.
    let mut forged = other.encode();
    forged[1..9].copy_from_slice(&certified.encode()[1..9]);
    let forged = Certificate::decode(&forged).unwrap();
    assert!(matches!(admit(2, Some(&forged), NOW), Err(Refusal::Forged { .. })));
}

#[test]
fn an_open_network_admits_everybody_as_a_host() {
    let mut network = Network::new(key(1).public(), Access::Open);
    let grant = network.admit(&key(3).public(), "guest", None, NOW).unwrap();
    assert_eq!(grant, Grant::host(key(3).public(), "guest"));
    assert!(!grant.owns(&"/lab".parse().unwrap()) && !grant.roles.contains(Roles::ROUTER));
    // A wrong certificate is no ticket either.
    let other = Certificate::issue(&key(9), terms(3)).unwrap();
    assert!(network.admit(&key(3).public(), "guest", Some(&other), NOW).is_err());
    network.revoke(revocations(1, &[], &[key(3).public()])).unwrap();
    assert!(matches!(network.admit(&key(3).public(), "guest", None, NOW), Err(Refusal::Revoked { .. })));
    assert!(network.check(&grant, NOW).is_err());
}

#[test]
fn the_higher_number_of_revocations_wins() {
    let mut network = closed();
    let grant = network.verify(&certificate(2), NOW).unwrap();
    assert_eq!(network.revoke(revocations(2, &[2], &[])), Ok(true));
    assert!(matches!(network.check(&grant, NOW), Err(Refusal::Revoked { .. })));
    assert!(matches!(network.verify(&certificate(2), NOW), Err(Refusal::Revoked { .. })));
    assert_eq!(network.revoke(revocations(1, &[], &[])), Ok(false), "an older list");
    assert!(network.check(&grant, NOW).is_err());
    let forged = Revocations::issue(&key(9), 9, BTreeSet::new(), BTreeSet::new()).unwrap();
    assert!(matches!(network.revoke(forged), Err(Refusal::ForgedRevocations { .. })));
    assert_eq!(network.revoke(revocations(3, &[], &[])), Ok(true));
    assert_eq!(network.check(&grant, NOW), Ok(()));
}

#[test]
fn refusals_say_whose_why_and_what_to_do() {
    let shown = closed().admit(&key(2).public(), "x", None, NOW).unwrap_err().to_string();
    assert!(shown.contains(&key(2).public().to_string()) && shown.contains("trib network admit"), "{shown}");
    let shown = closed().verify(&certificate(2), NOW.after(9_999)).unwrap_err().to_string();
    assert!(
        shown.contains("'attic'") && shown.contains("2027-01-15") && shown.contains("trib network admit"),
        "{shown}"
    );
}

proptest! {
    #[test]
    fn what_is_issued_is_read_back_and_no_bit_can_be_changed(
        serial: u64,
        label in "[a-z]{1,32}",
        bits in 0u8..8,
        names in prop::collection::vec("/[a-z]{1,8}(/[a-z]{1,8}){0,2}", 0..8),
        from in 0u64..1 << 40,
        lasts in 1u64..1 << 40,
        flip: prop::sample::Index,
    ) {
        let terms = Terms {
            serial,
            key: key(2).public(),
            label,
            roles: Roles::from_bits(bits).unwrap(),
            prefixes: names.iter().map(|name| name.parse().unwrap()).collect(),
            not_before: UnixTime(from),
            not_after: UnixTime(from + lasts),
        };
        let certificate = Certificate::issue(&key(1), terms.clone()).unwrap();
        let mut bytes = certificate.encode();
        prop_assert!(bytes.len() <= Certificate::BYTES_MAX);
        let read = Certificate::decode(&bytes).unwrap();
        prop_assert_eq!(read.terms(), &terms);
        prop_assert!(read.is_signed_by(&key(1).public()));
        let at = flip.index(bytes.len() * 8);
        bytes[at / 8] ^= 1 << (at % 8);
        let accepted = Certificate::decode(&bytes)
            .is_ok_and(|changed| closed().verify(&changed, UnixTime(from)).is_ok());
        prop_assert!(!accepted);
    }
    #[test]
    fn any_bytes_are_a_certificate_that_re_emits_them_or_none(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(read) = Certificate::decode(&bytes) {
            prop_assert_eq!(read.encode(), bytes.clone());
        }
        if let Ok(read) = Revocations::decode(&bytes) {
            prop_assert_eq!(read.encode(), bytes);
        }
    }
}

#[test]
fn a_node_without_a_clock_takes_the_time_from_its_authority_s_certificates() {
    let starting = |own: Option<Certificate>, shows: u64| {
        let clock = move |now: Time| UnixTime(shows).after(now.since(Time::ZERO).as_secs());
        Identity::new(key(2), own, closed(), Arc::new(clock))
    };
    let later = Terms { not_before: NOW.after(90 * 86_400), not_after: NOW.after(91 * 86_400), ..terms(3) };
    let issued = |by: u8, terms: &Terms| Certificate::issue(&key(by), terms.clone()).unwrap();
    let at = Time::from_millis(100_000);
    // Booted in 1971, certified in 2027, and its neighbour three months later.
    let node = starting(Some(certificate(2)), 40_000_000);
    assert!(node.own_grant("attic", at).is_ok());
    assert_eq!(node.correction(at), Some((UnixTime(40_000_100), NOW)));
    assert_eq!(node.clone().time_of_day(Time::from_millis(160_000)), NOW.after(60), "and it goes on from there");
    assert!(matches!(node.verify(&issued(9, &later), at), Err(Refusal::OtherNetwork { .. })));
    assert!(node.verify(&issued(1, &later), at).is_ok());
    assert_eq!(node.time_of_day(at), later.not_before);
    // A clock that is set back while the node runs continues from the time that it has shown.
    let clock = |now: Time| if now < Time::from_millis(50_000) { NOW.after(500) } else { UnixTime(0) };
    let node = Identity::new(key(2), Some(certificate(2)), closed(), Arc::new(clock));
    assert_eq!(node.time_of_day(Time::from_millis(10_000)), NOW.after(500));
    assert_eq!(node.time_of_day(at), NOW.after(590));
    // A clock that can be right is not moved by a certificate with a wrong date.
    let node = starting(Some(certificate(2)), NOW.0 - 86_400);
    assert!(node.own_grant("attic", at).is_ok(), "a day slow");
    assert!(matches!(node.verify(&issued(1, &later), at), Err(Refusal::NotYet { .. })));
    assert_eq!((node.correction(at), node.time_of_day(at)), (None, UnixTime(NOW.0 - 86_300)));
}
