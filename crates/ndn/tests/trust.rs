//! Certificates, chains to trust anchors, schemas and secret keys; with packets of python-ndn and ndnd in `golden/`, which
//! `golden/make.py` made.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
use std::{path::Path, sync::Arc};

use bytes::Bytes;
use tributary_content::Name;
use tributary_ndn::{
    trust::{Anchors, Chain, Refusal, Schema, SchemaError, Step, TrustAnchor, Vouched, chain::CHAIN_CERTIFICATES_MAX},
    wire::{
        Certificate, CertificateError, Data, KeyLocator, NameView, Secret, SecretError, SignKey, SignatureInfo,
        SignatureType, VerifyKey, certificate::key_name, spki::SpkiError,
    },
};

/// 2030-01-01, when all certificates of these tests count.
const NOW: u64 = 1_893_456_000;
const VALID: (u64, u64) = (NOW - 1_000, NOW + 1_000);

fn golden(name: &str) -> Bytes {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)).unwrap().into()
}
fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// An identity with a separate key.
struct Holder {
    key: SignKey,
    certificate: Certificate,
}

impl Holder {
    fn root(identity: &str, secret: u8) -> Holder {
        let key = SignKey::ed25519(&[secret; 32]);
        let key_name = key_name(&name(identity), b"root").unwrap();
        let named = (&key_name, &key.verify_key());
        let certificate = Certificate::issue(named, (b"self", 1), (&key_name, &key), VALID).unwrap();
        Holder { key, certificate }
    }
    fn issue(&self, identity: &str, secret: u8) -> Holder {
        self.issue_valid(identity, secret, VALID)
    }
    fn issue_valid(&self, identity: &str, secret: u8, valid: (u64, u64)) -> Holder {
        let key = SignKey::ecdsa(&[secret; 32]).unwrap();
        let key_name = key_name(&name(identity), &[secret]).unwrap();
        let by = (self.certificate.name(), &self.key);
        let certificate = Certificate::issue((&key_name, &key.verify_key()), (b"ca", 1), by, valid).unwrap();
        Holder { key, certificate }
    }
    fn data(&self, of: &str) -> Bytes {
        let (of, locator) = (name(of), self.certificate.name());
        let signature = SignatureInfo {
            key_locator: Some(KeyLocator::Name(NameView::from(locator))),
            ..SignatureInfo::new(self.key.kind())
        };
        Data { signature, ..Data::new(NameView::from(&of), b"content") }.sign(&self.key).into()
    }
    fn packet(&self) -> &Bytes {
        self.certificate.packet()
    }
}
fn anchors(of: &[&Holder]) -> Arc<Anchors> {
    Arc::new(Anchors::new(of.iter().map(|holder| TrustAnchor::new(holder.certificate.clone())).collect()))
}
/// Follows the chain with these certificates at hand.
fn follow(anchors: &Arc<Anchors>, of: &str, packet: &Bytes, known: &[&Bytes]) -> Result<Vouched, Refusal> {
    let (mut chain, mut step) = Chain::begin(anchors, &name(of), packet, NOW)?;
    for _ in 0..100 {
        match step {
            Step::Vouched(vouched) => return Ok(*vouched),
            Step::Fetch(needed) => {
                let fits = |packet: &&&Bytes| {
                    Data::decode(packet).is_ok_and(|data| NameView::from(&needed).is_prefix_of(data.name))
                };
                let packet = known.iter().find(fits).unwrap_or_else(|| panic!("nobody has '{needed}'"));
                step = chain.handle_certificate(packet, NOW)?;
            }
        }
    }
    panic!("the chain has no end");
}

#[test]
fn what_python_ndn_certifies_is_read_and_verified_with_each_algorithm() {
    for (scheme, kind) in
        [("rsa", SignatureType::Rsa), ("ecdsa", SignatureType::Ecdsa), ("ed25519", SignatureType::Ed25519)]
    {
        let root = Certificate::decode(golden(&format!("{scheme}.root.cert"))).unwrap();
        let alice = Certificate::decode(golden(&format!("{scheme}.alice.cert"))).unwrap();
        assert_eq!((root.signature(), root.key().kind()), (kind, kind));
        assert!(root.is_self_issued() && root.is_signed_by(root.key()) && root.counts_at(NOW), "{scheme}");
        assert!(alice.is_signed_by(root.key()) && !alice.is_signed_by(alice.key()), "{scheme}");
        assert_eq!(alice.identity(), name(&format!("/{scheme}/alice")));
        assert_eq!(alice.validity().0, "20200101T000000");
        let spki = alice.key().to_spki().unwrap();
        assert_eq!(Data::decode(alice.packet()).unwrap().content, Some(&spki[..]), "{scheme}: it is written as it was");
        let post = golden(&format!("{scheme}.post.data"));
        let anchors = Arc::new(Anchors::new(vec![TrustAnchor::new(root.clone())]));
        let of = format!("/{scheme}/alice/post");
        let vouched = follow(&anchors, &of, &post, &[alice.packet()]).unwrap();
        assert_eq!((vouched.anchor, vouched.certificates), (root.name().clone(), 1));
        assert_eq!(vouched.signer, alice);
        for at in 0..post.len() {
            let mut changed = post.to_vec();
            changed[at] ^= 1;
            let is_signed = Data::decode(&changed).is_ok_and(|data| data.is_signed_by(alice.key()));
            assert!(!is_signed, "{scheme}: byte {at}");
        }
    }
}

#[test]
fn rsa_keys_that_can_be_factored_are_refused() {
    let refused = Certificate::decode(golden("rsa1024.root.cert")).unwrap_err();
    assert_eq!(refused, CertificateError::Key(SpkiError::RsaBits(1024)));
}

#[test]
fn a_certificate_has_its_form_or_is_none() {
    let root = Holder::root("/lab", 1);
    let data = Data::decode(root.packet()).unwrap();
    let with = |name: &str, data: &Data<'_>| {
        let name: Name = name.parse().unwrap();
        Certificate::decode(Data { name: NameView::from(&name), ..data.clone() }.sign(&root.key)).unwrap_err()
    };
    assert_eq!(with("/lab/CERT/root/self/54=%01", &data), CertificateError::Name);
    assert_eq!(with("/lab/KEY/root", &data), CertificateError::Name);
    let mut lasting = data.clone();
    lasting.signature.validity = None;
    assert_eq!(with("/lab/KEY/root/self/54=%01", &lasting), CertificateError::Validity);
    let blob = Data { meta: None, ..data.clone() };
    assert_eq!(with("/lab/KEY/root/self/54=%01", &blob), CertificateError::ContentType(0));
    let empty = Data { content: Some(b""), ..data };
    assert_eq!(with("/lab/KEY/root/self/54=%01", &empty), CertificateError::Key(SpkiError::Malformed));
    assert!(
        Certificate::issue(
            (&name("/lab/KEY/1"), &VerifyKey::Digest),
            (b"self", 1),
            (root.certificate.name(), &root.key),
            VALID
        )
        .is_err()
    );
}

#[test]
fn a_key_signs_below_its_identity_and_an_anchor_below_its_prefix() {
    let root = Holder::root("/lab", 1);
    let (site, alice) = (root.issue("/lab/site", 2), root.issue("/lab/site", 2).issue("/lab/site/alice", 3));
    let anchors = anchors(&[&root]);
    let known = [site.packet(), alice.packet()];
    let vouched = follow(&anchors, "/lab/site/alice/x", &alice.data("/lab/site/alice/x"), &known).unwrap();
    assert_eq!((vouched.certificates, vouched.signer), (2, alice.certificate.clone()));
    let rule = |of: &str, by: &Holder| follow(&anchors, of, &by.data(of), &known);
    assert!(rule("/lab/x", &root).is_ok_and(|vouched| vouched.certificates == 0));
    assert!(matches!(rule("/lab/site/bob/x", &alice), Err(Refusal::Rule(..))));
    assert!(matches!(rule("/lab/site/alicex", &alice), Err(Refusal::Rule(..))));
    // A certificate for a name that is not its issuer's.
    let mallory = alice.issue("/lab/site/bob", 4);
    let packet = mallory.data("/lab/site/bob/x");
    let refused = follow(&anchors, "/lab/site/bob/x", &packet, &[mallory.packet(), alice.packet(), site.packet()]);
    assert!(matches!(refused, Err(Refusal::Rule(..))), "{refused:?}");
    // A key from another place is an anchor if the user says so.
    let operator = Holder::root("/localhost/operator", 9);
    let anchor = TrustAnchor { prefix: name("/demo"), ..TrustAnchor::new(operator.certificate.clone()) };
    let anchors = Arc::new(Anchors::new(vec![anchor]));
    assert!(follow(&anchors, "/demo/file", &operator.data("/demo/file"), &[]).is_ok());
    assert!(!anchors.cover(&name("/localhost/operator/x")) && anchors.cover(&name("/demo")));
}

#[test]
fn a_chain_that_ends_nowhere_is_refused_with_its_reason() {
    let (root, other) = (Holder::root("/lab", 1), Holder::root("/lab", 7));
    let anchors = anchors(&[&root]);
    let stray = other.issue("/lab/alice", 2);
    let of = "/lab/alice/x";
    let refused = |holder: &Holder, known: &[&Bytes]| follow(&anchors, of, &holder.data(of), known).unwrap_err();
    // The other root has the same name as the right one, and another key.
    assert!(matches!(refused(&stray, &[stray.packet()]), Refusal::Signature(..)));
    let loner = Holder::root("/lab/alice", 8);
    let error = refused(&loner, &[loner.packet()]);
    assert!(matches!(error, Refusal::SelfSigned(..)) && error.to_string().contains("no trust anchor"), "{error}");
    for valid in [(NOW - 1_000, NOW - 1), (NOW + 1, NOW + 1_000)] {
        let late = root.issue_valid("/lab/alice", 3, valid);
        let error = refused(&late, &[late.packet()]);
        assert!(matches!(error, Refusal::Time(..)), "{error}");
    }
    let on_time = root.issue_valid("/lab/alice", 3, (NOW, NOW));
    assert!(follow(&anchors, of, &on_time.data(of), &[on_time.packet()]).is_ok());
    let data = Bytes::from(Data::new(NameView::from(&name(of)), b"").sign(&SignKey::Digest));
    assert!(matches!(follow(&anchors, of, &data, &[]), Err(Refusal::NoKey(..))));
    let data = Bytes::from(Data::new(NameView::from(&name(of)), b"").sign(&root.key));
    assert!(matches!(follow(&anchors, of, &data, &[]), Err(Refusal::NoLocator(..))));
    // Any other packet in the place of the certificate.
    let alice = root.issue("/lab/alice", 2);
    let (mut chain, _) = Chain::begin(&anchors, &name(of), &alice.data(of), NOW).unwrap();
    assert!(matches!(chain.handle_certificate(&alice.data(of), NOW), Err(Refusal::NoCertificate(..))));
    assert!(matches!(chain.handle_certificate(loner.packet(), NOW), Err(Refusal::Other(..))));
    assert!(
        matches!(chain.handle_certificate(alice.packet(), NOW), Ok(Step::Vouched(_))),
        "the right one still counts"
    );
}

#[test]
fn a_chain_that_is_too_long_or_goes_round_is_refused() {
    let root = Holder::root("/lab", 1);
    let anchors = anchors(&[&root]);
    let chain_of = |length: usize| {
        let mut holders = vec![root.issue("/lab/a", 2)];
        while holders.len() < length {
            let next = holders.last().unwrap().issue("/lab/a", 2 + holders.len() as u8);
            holders.push(next);
        }
        let known: Vec<&Bytes> = holders.iter().map(Holder::packet).collect();
        follow(&anchors, "/lab/a/x", &holders.last().unwrap().data("/lab/a/x"), &known)
    };
    assert_eq!(chain_of(CHAIN_CERTIFICATES_MAX).unwrap().certificates, CHAIN_CERTIFICATES_MAX);
    assert_eq!(chain_of(CHAIN_CERTIFICATES_MAX + 1).unwrap_err(), Refusal::TooLong);
    // Two keys that certify each other.
    let (a, b) = (SignKey::ed25519(&[5; 32]), SignKey::ed25519(&[6; 32]));
    let [named_a, named_b] = ["a", "b"].map(|id| key_name(&name("/lab/a"), id.as_bytes()).unwrap());
    let issue = |of: &Name, key: &SignKey, by: &Name, signer: &SignKey| {
        Certificate::issue((of, &key.verify_key()), (b"x", 1), (by, signer), VALID).unwrap()
    };
    let (of_a, of_b) = (issue(&named_a, &a, &named_b, &b), issue(&named_b, &b, &named_a, &a));
    let holder = Holder { key: a, certificate: of_a.clone() };
    let packet = holder.data("/lab/a/x");
    let refused = follow(&anchors, "/lab/a/x", &packet, &[of_a.packet(), of_b.packet()]).unwrap_err();
    assert_eq!(refused, Refusal::Loop(of_a.name().clone()));
}

#[test]
fn a_schema_of_python_ndn_decides_who_signs_what() {
    let schema = Schema::decode(&golden("blog.lvs")).unwrap();
    let allows = |packet: &str, certificate: &str| {
        schema.allows(NameView::from(&name(packet)), NameView::from(&name(certificate)))
    };
    let (root, alice) = ("/ed25519/KEY/root/self/54=%01", "/ed25519/alice/KEY/1/root/54=%01");
    assert!(allows("/ed25519/alice/post", alice) && allows(alice, root));
    assert!(!allows("/ed25519/bob/post", alice), "another author's");
    assert!(allows("/ed25519/bob/post", "/ed25519/bob/KEY/1/root/54=%01"));
    // As in python-ndn, a constraint is tested where a pattern first matches: here in the certificate's own name.
    assert!(!allows("/ed25519/carol/KEY/1/root/54=%01", root), "no author");
    assert!(!allows("/ed25519/alice/32=post", alice), "of another type than $eq_type says");
    assert!(!allows("/ed25519/alice/post/more", alice) && !allows("/ed25519/alice", alice));
    assert!(!allows("/ed25519/alice/post", root), "the root signs authors only");
    assert!(!allows(root, root), "nobody signs the root");
    assert!(schema.matches(NameView::from(&name(root))) && !schema.matches(NameView::from(&name("/x"))));

    let root = Certificate::decode(golden("ed25519.root.cert")).unwrap();
    let anchor = TrustAnchor { schema: Some(Arc::new(schema)), ..TrustAnchor::new(root) };
    let anchors = Arc::new(Anchors::new(vec![anchor]));
    let (post, alice) = (golden("ed25519.post.data"), golden("ed25519.alice.cert"));
    assert!(follow(&anchors, "/ed25519/alice/post", &post, &[&alice]).is_ok());
    let refused = follow(&anchors, "/ed25519/alice/other/name", &post, &[&alice]).unwrap_err();
    assert!(refused.to_string().contains("schema"), "{refused}");
}

#[test]
fn what_is_no_schema_is_refused_with_its_reason() {
    let right = golden("blog.lvs");
    for end in 0..right.len() {
        let _ = Schema::decode(&right[..end]);
    }
    for at in 0..right.len() {
        let mut changed = right.to_vec();
        changed[at] ^= 1;
        if let Ok(schema) = Schema::decode(&changed) {
            let any = name("/ed25519/alice/post");
            let _ = schema.allows(NameView::from(&any), NameView::from(&any));
        }
    }
    assert_eq!(Schema::decode(&[0x61, 1, 9]), Err(SchemaError::Version(9)));
    let version = [0x61, 4, 0, 1, 0x10, 0];
    let with = |rest: &[u8]| Schema::decode(&[&version, rest].concat()).unwrap_err().to_string();
    assert!(with(&[0x25, 1, 0]).contains("no such node"));
    // A node that is its own parent, and an edge to it.
    let round = [0x63, 14, 0x25, 1, 0, 0x57, 1, 0, 0x51, 6, 0x25, 1, 0, 0x21, 1, 8];
    assert!(with(&[&[0x25, 1, 0][..], &round].concat()).contains("not its parent"));
    let call = b"\x63\x19\x25\x01\x00\x53\x14\x25\x01\x00\x23\x01\x01\x43\x0c\x41\x0a\x31\x08\x27\x06$other";
    let mut call = call.to_vec();
    let error = Schema::decode(
        &[&version[..], &[0x25, 1, 0], &{
            call[1] = call.len() as u8 - 2;
            call
        }]
        .concat(),
    )
    .unwrap_err();
    assert_eq!(error, SchemaError::Function("$other".into()));
}

/// The packet in a file of ndnd, without its frame of text.
fn unframed(file: &str) -> Vec<u8> {
    let text = String::from_utf8(golden(file).to_vec()).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with("-----") && !line.contains(':'));
    use base64ct::Encoding;
    base64ct::Base64::decode_vec(&lines.collect::<String>()).unwrap()
}

#[test]
fn keys_and_certificates_of_ndnd_are_read_and_written_as_they_were() {
    for kind in ["ed25519", "ecc"] {
        let packet = unframed(&format!("ndnd-{kind}.key"));
        let secret = Secret::decode(&packet).unwrap();
        let certificate = Certificate::decode(unframed(&format!("ndnd-{kind}.cert"))).unwrap();
        assert_eq!((certificate.key_name(), certificate.key()), (secret.name.clone(), &secret.key.verify_key()));
        assert!(certificate.is_signed_by(&secret.key.verify_key()));
        let again = secret.encode().unwrap();
        let (read, written) = (Data::decode(&packet).unwrap(), Data::decode(&again).unwrap());
        assert_eq!((read.name, read.meta, read.content), (written.name, written.meta, written.content), "{kind}");
        let mut changed = packet.clone();
        let last = changed.len() - 1;
        changed[last] ^= 1;
        assert!(matches!(Secret::decode(&changed), Err(SecretError::Signature)));
        assert!(matches!(Secret::decode(certificate.packet()), Err(SecretError::ContentType(2))));
    }
    let shared = Secret { name: name("/a/KEY/1"), key: SignKey::Hmac(vec![1; 32]) };
    assert!(shared.encode().is_err());
}
