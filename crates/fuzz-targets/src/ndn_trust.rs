//! Certificates, public and secret keys, key files, trust schemas and chains of certificates.
use std::sync::Arc;

use bytes::Bytes;
use tributary::key_chain;
use tributary_content::Name;
use tributary_ndn::{
    trust::{Anchors, Chain, Schema, Step, TrustAnchor, chain::CHAIN_CERTIFICATES_MAX, publisher_of},
    wire::{Certificate, Data, KeyLocator, NameView, Secret, SignKey, SignatureInfo, VerifyKey, certificate::key_name},
};

use crate::{input::Input, ndn::name};

/// The time at which certificates are checked: 2023-11-14.
const NOW: u64 = 1_700_000_000;
const VALID: (u64, u64) = (NOW - 1_000, NOW + 1_000);

/// A certificate's name has consistent parts, and its key survives encoding; an invented signature does not verify.
pub fn ndn_certificate(data: &[u8]) {
    let certificate = match Certificate::decode(data.to_vec()) {
        Ok(certificate) => certificate,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let (name, key, identity) = (certificate.name(), certificate.key_name(), certificate.identity());
    assert!(identity.is_prefix_of(&key) && key.is_prefix_of(name) && certificate.is_meant_by(&key));
    assert!(certificate.is_meant_by(name) && !certificate.is_meant_by(&identity));
    assert!(!certificate.is_signed_by(&SignKey::ed25519(&[9; 32]).verify_key()), "nobody guesses a signature");
    let spki = certificate.key().to_spki().expect("certificates hold public keys");
    let again = VerifyKey::from_spki(&spki).expect("what is written is read");
    assert_eq!((publisher_of(&again), &again), (publisher_of(certificate.key()), certificate.key()));
    let (from, to) = certificate.validity();
    assert!(!certificate.counts_at(NOW) || from <= to, "it counts from {from} to {to}");
    let text = key_chain::framed(certificate.packet()).expect("it is a certificate");
    assert_eq!(key_chain::packets(text.as_bytes()), Ok(vec![data.to_vec()]), "its file is read as it was");
}

/// A public key is written as a SubjectPublicKeyInfo that is read as the same key.
pub fn ndn_spki(data: &[u8]) {
    match VerifyKey::from_spki(data) {
        Ok(key) => {
            let again = key.to_spki().expect("it is a public key");
            assert_eq!(VerifyKey::from_spki(&again), Ok(key));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Key files are parsed or refused; a written secret key is read as the same key.
pub fn ndn_key_file(data: &[u8]) {
    let Ok(packets) = key_chain::packets(data) else { return };
    assert!(!packets.is_empty());
    for packet in packets {
        let Ok(secret) = Secret::decode(&packet) else { continue };
        let again = Secret::decode(&secret.encode().expect("it was read")).expect("what is written is read");
        assert_eq!((again.name, again.key.verify_key()), (secret.name, secret.key.verify_key()));
    }
}

/// A schema that is read answers for any names, the same each time.
pub fn ndn_schema(data: &[u8]) {
    let schema = match Schema::decode(data) {
        Ok(schema) => schema,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let names = ["/", "/a", "/a/b", "/ed25519/alice/post", "/ed25519/alice/KEY/1/root/54=%01"].map(name);
    for packet in &names {
        for certificate in &names {
            let [packet, certificate] = [packet, certificate].map(NameView::from);
            let allows = schema.allows(packet, certificate);
            assert_eq!(allows, schema.allows(packet, certificate));
            // The certificate may match only with the variables bound by the packet's name: constraints are tested
            // once.
            assert!(!allows || schema.matches(packet));
        }
    }
}

/// A chain of arbitrary certificates ends after the maximum length, and is accepted only if each of them is signed by
/// the next one and lies below it.
pub fn ndn_chain(data: &[u8]) {
    let mut input = Input::new(data);
    let keys = [1, 2, 3, 4].map(|secret| SignKey::ed25519(&[secret; 32]));
    let holders: [Name; 4] = ["/lab", "/lab/a", "/lab/a/b", "/other"].map(name);
    let named = |at: usize| key_name(&holders[at % 4], &[at as u8 % 4]).expect("it is short");
    let issue = |of: usize, by: usize, valid| {
        let (of_name, by_name) = (named(of), named(by));
        let public = keys[of % 4].verify_key();
        Certificate::issue((&of_name, &public), (b"x", 1), (&by_name, &keys[by % 4]), valid).expect("it is short")
    };
    let anchors = Arc::new(Anchors::new(vec![TrustAnchor::new(issue(0, 0, VALID))]));
    let (by, object) = (usize::from(input.u8()) % 4, name("/lab/a/b/c"));
    let locator = named(by);
    let signature = SignatureInfo {
        key_locator: Some(KeyLocator::Name(NameView::from(&locator))),
        ..SignatureInfo::new(keys[by].kind())
    };
    let packet = Data { signature, ..Data::new(NameView::from(&object), b"") }.sign(&keys[by]);
    let Ok((mut chain, mut step)) = Chain::begin(&anchors, &object, &Bytes::from(packet), NOW) else { return };
    let mut certificates = 0;
    while let (Step::Fetch(needed), Some(kind)) = (&step, input.step()) {
        assert_eq!(needed, chain.needs());
        let (of, by) = (usize::from(kind), usize::from(input.u8()));
        let valid = if kind & 0x40 == 0 { VALID } else { (NOW + 1, NOW + 2) };
        let mut answer = if kind & 0x80 == 0 { issue(of, by, valid).packet().to_vec() } else { input.blob().to_vec() };
        if kind & 0x20 != 0 && !answer.is_empty() {
            let at = usize::from(input.u16()) % answer.len();
            answer[at] ^= 1;
        }
        if let Ok(next) = chain.handle_certificate(&answer.into(), NOW) {
            step = next;
            certificates += 1;
            assert!(certificates <= CHAIN_CERTIFICATES_MAX, "a chain has an end");
        }
    }
    if let Step::Vouched(vouched) = step {
        assert_eq!(vouched.certificates, certificates);
        assert!(by < 3 && vouched.signer.identity().is_prefix_of(&object), "a key signs below its identity");
    }
}

/// Valid inputs to start from.
pub(crate) fn seeds() -> Vec<crate::seeds::Seed> {
    let golden = |name: &str| -> Vec<u8> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../ndn/tests/golden");
        std::fs::read(folder.join(name)).expect("the golden packets of the ndn crate")
    };
    let mut seeds = Vec::new();
    let mut add = |target, label: &str, bytes| seeds.push((target, format!("seed-{label}"), bytes));
    for scheme in ["rsa", "ecdsa", "ed25519"] {
        let packet = golden(&format!("{scheme}.alice.cert"));
        let content = Data::decode(&packet).expect("it is golden").content.unwrap_or_default().to_vec();
        add("ndn_spki", scheme, content);
        add("ndn_certificate", scheme, packet);
    }
    for file in ["ndnd-ed25519.key", "ndnd-ecc.key", "ndnd-ecc.cert"] {
        add("ndn_key_file", file, golden(file));
    }
    add("ndn_schema", "blog", golden("blog.lvs"));
    add("ndn_chain", "anchor", vec![0]);
    add("ndn_chain", "two", vec![2, 2, 1, 1, 0]);
    add("ndn_chain", "round", vec![2, 2, 1, 1, 2, 2, 1]);
    add("ndn_chain", "anything", vec![1, 0x41, 0, 0x21, 0, 3, 7, 0x80, 3, 1, 2, 3, 1, 0]);
    seeds
}
