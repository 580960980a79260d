//! Commands and datasets.
use super::*;
use crate::naming::number;
use crate::trust::{Anchors, TrustAnchor};
use crate::wire::{
    Certificate, ControlParameters, ControlResponse, KeyLocator, SignatureInfo, SignatureType,
    certificate::key_name,
    echo::{EchoReply, EchoRequest, Purpose, ReplyCode},
    interest::with_parameters,
    tlv,
    tlv::Writer,
};
use crate::{router::management::REQUESTS_MAX, wire::dataset::FacePersistency};
use alloc::sync::Arc;
use tributary_core::FaceRefusal;

/// A bench whose face 1 leads to an application of this machine.
fn bench(set: impl FnOnce(&mut Config)) -> Bench {
    let mut bench = Bench::new(1, set);
    bench.router.add_face(FaceId(1), FaceProfile { scope: FaceScope::Local, ..profile(u32::MAX) });
    bench
}
fn command(verb: &str, parameters: &ControlParameters, key: &SignKey, nonce: u8) -> Bytes {
    let base = name(&alloc::format!("/localhost/nfd/{verb}")).child(&parameters.encode()).unwrap();
    let interest = Interest {
        nonce: Some(Nonce::from(u64::from(nonce))),
        signature: Some(SignatureInfo {
            nonce: Some(&[nonce; 8]),
            time: Some(1000),
            ..SignatureInfo::new(SignatureType::DigestSha256)
        }),
        ..Interest::new(NameView::from(&base))
    };
    with_parameters(&interest, Some(key)).into()
}
fn response(sent: &[Sent]) -> ControlResponse {
    assert_eq!(sent.len(), 1, "{sent:?}");
    let packet = sent[0].packet();
    let data = Data::decode(&packet).unwrap();
    assert!(data.is_signed_by(&SignKey::Digest.verify_key()));
    ControlResponse::decode(data.content.unwrap()).unwrap()
}
fn run(bench: &mut Bench, verb: &str, parameters: &ControlParameters, nonce: u8) -> ControlResponse {
    response(&bench.recv(1, &command(verb, parameters, &SignKey::Digest, nonce)))
}
fn dataset(bench: &mut Bench, which: &str) -> Vec<u8> {
    dataset_of(bench, &name(&alloc::format!("/localhost/nfd/{which}")))
}
fn dataset_of(bench: &mut Bench, requested: &Name) -> Vec<u8> {
    let interest = Interest { can_be_prefix: true, must_be_fresh: true, ..Interest::new(NameView::from(requested)) };
    let sent = bench.recv(1, &interest.encode().into());
    let first = sent[0].packet();
    let data = Data::decode(&first).unwrap();
    let mut content = data.content.unwrap().to_vec();
    let last = data.final_block().unwrap().number().unwrap();
    for segment in 0..=last {
        let next = data.name.parent().to_name().unwrap().typed_child(types::SEGMENT, &number(segment)).unwrap();
        let sent = bench.recv(1, &Interest::new(NameView::from(&next)).encode().into());
        let packet = sent[0].packet();
        let part = Data::decode(&packet).unwrap().content.unwrap();
        match segment {
            0 => assert_eq!(part, content),
            _ => content.extend_from_slice(part),
        }
    }
    content
}
fn kinds(content: &[u8]) -> Vec<u32> {
    let mut reader = tlv::Reader::new("dataset", content);
    core::iter::from_fn(|| reader.element().unwrap().map(|element| element.kind)).collect()
}

#[test]
fn an_application_registers_a_prefix_and_is_asked_for_it() {
    let mut bench = bench(|_| {});
    let parameters = ControlParameters { name: Some(name("/app")), cost: Some(7), ..ControlParameters::default() };
    let answer = run(&mut bench, "rib/register", &parameters, 1);
    assert_eq!((answer.code, answer.body.as_ref().unwrap().face_id), (200, Some(1)));
    assert_eq!(answer.body.unwrap().flags, Some(rib::CHILD_INHERIT));
    expect(&bench.recv(2, &interest("/app/x", 1)), &[(1, "interest /app/x")]);
    assert_eq!(run(&mut bench, "rib/unregister", &parameters, 2).code, 200);
    expect(&bench.recv(2, &interest("/app/y", 1)), &[(2, "nack 150 /app/y")]);
    let expiring = ControlParameters { expiration_millis: Some(50), face_id: Some(3), ..parameters };
    run(&mut bench, "rib/register", &expiring, 3);
    expect(&bench.at(49).recv(2, &interest("/app/z", 1)), &[(3, "interest /app/z")]);
    expect(&bench.at(50).recv(2, &interest("/app/zz", 1)), &[(2, "nack 150 /app/zz")]);
}

/// A command of a neighbour to register a prefix.
fn remote_register(prefix: &str, nonce: u8) -> Bytes {
    let parameters = ControlParameters { name: Some(name(prefix)), ..ControlParameters::default() };
    let base = name("/localhop/nfd/rib/register").child(&parameters.encode()).unwrap();
    let interest = Interest {
        nonce: Some(Nonce::from(u64::from(nonce))),
        signature: Some(SignatureInfo {
            nonce: Some(&[nonce; 8]),
            time: Some(1000),
            ..SignatureInfo::new(SignatureType::DigestSha256)
        }),
        ..Interest::new(NameView::from(&base))
    };
    with_parameters(&interest, Some(&SignKey::Digest)).into()
}

/// Foreign programs ignore the challenge, but return the token of an Interest.
#[test]
fn a_neighbour_that_registers_gets_three_times_its_bytes_until_its_address_is_proven() {
    let answers: [fn(u32) -> LpPacket<'static>; 2] =
        [|number| LpPacket { boot_answer: Some((number, 9)), ..LpPacket::default() }, |_| LpPacket::default()];
    for (nonce, answer) in (1..).zip(answers) {
        let mut bench = bench(|config| config.remote_registration = RemoteRegistration::Neighbours);
        let sent = bench.recv(2, &remote_register("/app", nonce));
        let number = LpPacket::decode(&sent[0].bytes).unwrap().boot_probe.unwrap();
        assert_eq!(response(&sent[1..]).code, 200);
        let ask = |bench: &mut Bench, n: usize| {
            let mut sent = bench.recv(3, &interest(&alloc::format!("/app/{n}"), n as u64));
            sent.retain(|sent| sent.face == 2);
            sent
        };
        let passed: Vec<Sent> = (0..200).flat_map(|n| ask(&mut bench, n)).collect();
        let bytes: usize = passed.iter().chain(&sent).map(|sent| sent.bytes.len()).sum();
        assert!(passed.len() > 5 && bytes <= 3 * remote_register("/app", nonce).len(), "{} {bytes}", passed.len());
        assert!(bench.dropped("too much for an unproven address") > 100);
        // A node that does not receive the packets guesses, or answers on another face.
        let token = passed[0].headers().pit_token.unwrap().to_vec();
        let wrong = LpPacket { boot_answer: Some((number ^ 1, 9)), pit_token: Some(b"guess!"), ..LpPacket::default() };
        bench.recv_with(2, &wrong, &data("/app/0"));
        bench.recv_with(4, &LpPacket { pit_token: Some(&token), ..LpPacket::default() }, &data("/app/1"));
        let none = (300..600).map(|n| ask(&mut bench, n).len()).sum::<usize>();
        assert!(none < 20, "{none}: no more than a few for the bytes that came");
        match answer(number) {
            proof if proof.boot_answer.is_some() => drop(bench.recv(2, &proof.encode().into())),
            _ => {
                let proof = LpPacket { pit_token: Some(&token), ..LpPacket::default() };
                bench.recv_with(2, &proof, &data("/app/2"));
            }
        }
        let all = (1000..1200).map(|n| ask(&mut bench, n).len()).sum::<usize>();
        assert_eq!(all, 200);
    }
}

/// Requests and expectations of stock tools: NFD's management protocol, and the answers that ndn-cxx accepts.
#[test]
fn answers_are_what_libraries_of_others_accept() {
    let mut bench = bench(|_| {});
    let requested = ControlParameters { uri: Some("udp4://192.0.2.1:6363".into()), ..ControlParameters::default() };
    let answer = create(&mut bench, &requested, profile(1400), 1);
    let body = answer.body.unwrap();
    assert!(body.face_id.is_some() && body.uri.is_some() && body.local_uri.is_some() && body.flags.is_some());
    assert_eq!(body.persistency, Some(0));
    let of = ControlParameters { face_id: Some(9), ..ControlParameters::default() };
    let body = run(&mut bench, "faces/update", &of, 2).body.unwrap();
    assert!(body.uri.is_none() && body.local_uri.is_none() && body.face_id.is_some() && body.flags.is_some());
    let near = ControlParameters { local_uri: Some("udp4://192.0.2.9:1".into()), ..requested };
    assert_eq!(run(&mut bench, "faces/create", &near, 3).code, 406, "it cannot be chosen");
    bench.router.set_channels(alloc::vec!["udp4://0.0.0.0:6363".into(), "unix:///run/nfd/nfd.sock".into()]);
    assert_eq!(kinds(&dataset(&mut bench, "faces/channels")), [130, 130]);
    // A route that never expires is not listed as if it had.
    let endless = ControlParameters { name: Some(name("/e")), expiration_millis: Some(u64::MAX), ..of };
    assert_eq!(run(&mut bench, "rib/register", &endless, 4).code, 200);
    let routes = bench.router.rib.iter().flat_map(|(_, routes)| routes).collect::<Vec<_>>();
    assert!(routes.iter().all(|route| route.expires.is_none()));
}

#[test]
fn a_strategy_that_does_not_exist_is_refused() {
    let mut bench = bench(|_| {});
    let codes = ["best-route", "multicast/v=5", "best-route/v=99", "best-route/nonsense", "best-route/v=5/p~1", "asf"];
    let mut set = |strategy: &str, nonce| {
        let strategy = Some(name(&alloc::format!("/localhost/nfd/strategy/{strategy}")));
        let parameters = ControlParameters { name: Some(name("/a")), strategy, ..ControlParameters::default() };
        run(&mut bench, "strategy-choice/set", &parameters, nonce).code
    };
    let codes: Vec<u64> = codes.iter().zip(1..).map(|(strategy, nonce)| set(strategy, nonce)).collect();
    assert_eq!(codes, [200, 200, 404, 404, 404, 404]);
    let elsewhere = ControlParameters {
        name: Some(name("/a")),
        strategy: Some(name("/other/nfd/strategy/multicast")),
        ..ControlParameters::default()
    };
    assert_eq!(run(&mut bench, "strategy-choice/set", &elsewhere, 20).code, 404);
}

#[test]
fn programs_of_other_users_are_no_readers_and_those_of_the_owner_are() {
    let rule = NameReaders { prefix: name("/plans"), keys: alloc::vec![PublicKey([1; 32])] };
    let mut bench = bench(|config| config.readers = alloc::vec![rule]);
    bench.routes(&[("/", 4)]);
    for (scope, passes) in [(FaceScope::Local, true), (FaceScope::OtherUser, false), (FaceScope::NonLocal, false)] {
        bench.router.add_face(FaceId(1), FaceProfile { scope, ..profile(u32::MAX) });
        let sent = bench.recv(1, &interest("/plans/house", scope as u64));
        assert_eq!(sent[0].face == 4, passes, "{scope:?}");
    }
}

#[test]
fn programs_of_other_users_command_what_is_theirs_unless_the_settings_say_otherwise() {
    let codes = |management| {
        let mut bench = bench(|config| config.management = management);
        bench.router.add_face(FaceId(1), FaceProfile { scope: FaceScope::OtherUser, ..profile(u32::MAX) });
        let own = ControlParameters { name: Some(name("/a")), ..ControlParameters::default() };
        let foreign = ControlParameters { face_id: Some(3), ..own.clone() };
        let fields = ControlParameters { flags: Some(1), mask: Some(1), ..ControlParameters::default() };
        let strategy = Some(name("/localhost/nfd/strategy/multicast"));
        let strategy = ControlParameters { strategy, ..own.clone() };
        [
            run(&mut bench, "rib/register", &own, 1).code,
            run(&mut bench, "rib/register", &foreign, 2).code,
            run(&mut bench, "faces/update", &fields, 3).code,
            run(&mut bench, "strategy-choice/set", &strategy, 4).code,
        ]
    };
    assert_eq!(codes(ManagementTrust::AnyLocal), [200, 403, 200, 403]);
    assert_eq!(codes(ManagementTrust::AnyUser), [200; 4]);
}

#[test]
fn packets_say_by_which_face_they_came_once_a_program_asks_for_it() {
    let mut bench = bench(|_| {});
    let local = FaceProfile { scope: FaceScope::Local, ..profile(u32::MAX) };
    for face in [1, 2] {
        bench.router.add_face(FaceId(face), local.clone());
    }
    bench.routes(&[("/a", 1)]);
    let exchange = |bench: &mut Bench, n: u64| {
        let there = bench.recv(2, &interest("/a/x", n));
        let back = bench.recv(1, &data("/a/x"));
        [there, back].map(|sent| sent[0].headers().incoming_face)
    };
    bench.router.cs.set_packets_max(bench.now, 0);
    assert_eq!(exchange(&mut bench, 1), [None, None]);
    for (nonce, face) in [(1, 1), (2, 2)] {
        let parameters = ControlParameters { flags: Some(1), mask: Some(1), ..ControlParameters::default() };
        let sent = bench.recv(face, &command("faces/update", &parameters, &SignKey::Digest, nonce));
        assert_eq!(response(&sent).body.unwrap().flags, Some(1));
    }
    assert_eq!(exchange(&mut bench, 2), [Some(2), Some(1)]);
}

#[test]
fn neighbours_register_below_the_prefixes_that_are_theirs_and_never_the_root() {
    let codes = |scope: &[&str]| {
        let mut bench = bench(|config| {
            config.remote_registration = RemoteRegistration::Neighbours;
            config.registration_prefixes = scope.iter().map(|prefix| name(prefix)).collect();
        });
        let sent = bench.recv(2, &remote_register("/lab/a", 100));
        let number = LpPacket::decode(&sent[0].bytes).unwrap().boot_probe.unwrap();
        bench.recv(2, &LpPacket { boot_answer: Some((number, 9)), ..LpPacket::default() }.encode().into());
        let all = ["/", "/lab", "/lab/a/b", "/labour", "/localhost/nfd", "/localhop/nfd"];
        let codes = all.map(|prefix| (prefix, prefix.len() as u8));
        codes.map(|(prefix, nonce)| response(&bench.recv(2, &remote_register(prefix, nonce))).code)
    };
    assert_eq!(codes(&[]), [403, 200, 200, 200, 403, 403]);
    assert_eq!(codes(&["/lab"]), [403, 200, 200, 403, 403, 403]);
    assert_eq!(codes(&["/lab/a"]), [403, 403, 200, 403, 403, 403]);
}

#[test]
fn in_a_network_with_an_authority_neighbours_register_below_what_their_certificates_cover() {
    use tributary_trust::{Grant, PublicKey, Roles, UnixTime};
    let grant = |prefixes: &[&str]| Grant {
        prefixes: prefixes.iter().map(|prefix| name(prefix)).collect(),
        roles: Roles::HOST,
        until: Some(UnixTime::MAX),
        serial: (!prefixes.is_empty()).then_some(1),
        ..Grant::host(PublicKey([1; 32]), "neighbour")
    };
    let mut bench = bench(|config| config.remote_registration = RemoteRegistration::Neighbours);
    let register = |bench: &mut Bench, face: u32, prefix: &str, nonce: u8| {
        let mut sent = bench.recv(face, &remote_register(prefix, nonce));
        let is_question = |sent: &Sent| LpPacket::decode(&sent.bytes).is_ok_and(|packet| packet.boot_probe.is_some());
        sent.retain(|sent| !is_question(sent));
        response(&sent).code
    };
    // Without an authority, the first claimant has the names.
    assert_eq!(register(&mut bench, 3, "/lab/stolen", 1), 200);
    bench.router.require_certificates();
    bench.router.set_grant(bench.now, FaceId(3), Some(&grant(&[])));
    assert!(bench.router.rib.iter().any(|(prefix, _)| *prefix == name("/lab/stolen")), "nobody else owns it");
    bench.router.set_grant(bench.now, FaceId(2), Some(&grant(&["/lab"])));
    let is_there = |bench: &Bench, prefix: &str| bench.router.rib.iter().any(|(of, _)| *of == name(prefix));
    assert!(!is_there(&bench, "/lab/stolen"), "the owner is here");
    let codes = ["/lab", "/lab/a", "/other"].map(|prefix| register(&mut bench, 2, prefix, 10 + prefix.len() as u8));
    assert_eq!(codes, [200, 200, 403]);
    let codes = ["/lab", "/lab/b/c", "/other"].map(|prefix| register(&mut bench, 3, prefix, 30 + prefix.len() as u8));
    assert_eq!(codes, [403, 403, 200], "without a certificate, what nobody owns");
    assert_eq!(register(&mut bench, 4, "/free", 50), 403, "nothing is proven there");
    // A neighbour's registrations end with its certificate.
    bench.router.set_grant(bench.now, FaceId(2), None);
    assert!(!is_there(&bench, "/lab/a") && is_there(&bench, "/other"));
}

/// Foreign programs answer no echo requests; our nodes do, and show it by requesting a boot number.
#[test]
fn what_a_program_of_this_machine_has_registered_counts_as_served_unless_it_answers_echo_requests_itself() {
    let mut bench = bench(|config| config.label = "router".into());
    bench.router.add_face(FaceId(4), FaceProfile { scope: FaceScope::Local, ..profile(u32::MAX) });
    bench.routes(&[("/onward", 4)]);
    let register = |bench: &mut Bench, prefix: &str, face, nonce| {
        let parameters =
            ControlParameters { name: Some(name(prefix)), face_id: Some(face), ..ControlParameters::default() };
        assert_eq!(run(bench, "rib/register", &parameters, nonce).code, 200);
    };
    register(&mut bench, "/app", 1, 1);
    register(&mut bench, "/far", 3, 2);
    let ping = |bench: &mut Bench, target: &str, nonce: u64| -> (u32, Option<ReplyCode>) {
        let target = EchoRequest::name(&name(target), nonce.to_be_bytes(), Purpose::Ping).unwrap();
        let requested = Interest { nonce: Some(Nonce::from(nonce)), ..Interest::new(NameView::from(&target)) };
        let sent = bench.recv(2, &requested.encode().into());
        let packet = sent[0].packet();
        let reply = Data::decode(&packet).ok().map(|data| EchoReply::decode(data.content.unwrap()).unwrap().code);
        (sent[0].face, reply)
    };
    assert_eq!(ping(&mut bench, "/app/file", 1), (2, Some(ReplyCode::Application)));
    assert_eq!(ping(&mut bench, "/far/file", 2), (3, None), "it is on another machine");
    assert_eq!(ping(&mut bench, "/onward/file", 3), (4, None), "that may be a forwarder");
    bench.recv(1, &LpPacket { boot_probe: Some(7), ..LpPacket::default() }.encode().into());
    assert_eq!(ping(&mut bench, "/app/file", 4), (1, None), "it answers itself");
}

/// The same command with bytes that the digest in its name covers and its signature does not.
fn with_more_behind_the_signature(packet: &[u8]) -> Bytes {
    let claimed = Interest::decode(packet).unwrap().name.components().last().unwrap().value.to_vec();
    let start = (0..packet.len()).find(|at| digest(&[&packet[*at..]])[..] == claimed).unwrap();
    let digested = [&packet[start..], &[0xf0, 0]].concat();
    let header = if packet[1] < 253 { 2 } else { 4 };
    let mut value = packet[header..start].to_vec();
    let at = value.windows(32).position(|window| window == claimed).unwrap();
    value[at..at + 32].copy_from_slice(&digest(&[&digested]));
    value.extend_from_slice(&digested);
    let mut packet = Vec::new();
    packet.put_element(types::INTEREST, &value);
    packet.into()
}

#[test]
fn a_certificate_for_names_commands_neither_faces_nor_the_content_store() {
    let (key, key_name) = (SignKey::ed25519(&[4; 32]), key_name(&name("/lab"), b"1").unwrap());
    let of = (&key_name, &key.verify_key());
    let anchor = Certificate::issue(of, (b"self", 1), (&key_name, &key), (0, 4_000_000_000)).unwrap();
    let anchors = Anchors::new(alloc::vec![TrustAnchor::new(anchor)]);
    let mut bench = bench(|config| config.management = ManagementTrust::Anchors(Arc::new(anchors)));
    let parameters =
        ControlParameters { name: Some(name("/lab/app")), face_id: Some(1), ..ControlParameters::default() };
    for (nonce, (verb, code)) in [("rib/register", 200), ("faces/destroy", 403), ("cs/config", 403)].iter().enumerate()
    {
        let base = name(&alloc::format!("/localhost/nfd/{verb}")).child(&parameters.encode()).unwrap();
        let signature = SignatureInfo {
            key_locator: Some(KeyLocator::Name(NameView::from(&key_name))),
            nonce: Some(&[nonce as u8; 8]),
            time: Some(1000),
            ..SignatureInfo::new(SignatureType::Ed25519)
        };
        let interest = Interest {
            nonce: Some(Nonce::from(nonce as u64)),
            signature: Some(signature),
            ..Interest::new(NameView::from(&base))
        };
        let answer = response(&bench.recv(1, &with_parameters(&interest, Some(&key)).into()));
        assert_eq!(answer.code, *code, "{verb}: {}", answer.text);
    }
}

#[test]
fn commands_are_obeyed_once_from_here_and_if_signed_by_whom_is_trusted() {
    let parameters = ControlParameters { name: Some(name("/app")), ..ControlParameters::default() };
    let key = SignKey::ed25519(&[4; 32]);
    let trusted = key.verify_key();
    let mut bench = bench(|config| config.management = ManagementTrust::Keys(alloc::vec![trusted]));
    let mut code = |bytes: &Bytes| response(&bench.recv(1, bytes)).code;
    assert_eq!(code(&command("rib/register", &parameters, &SignKey::Digest, 1)), 403);
    assert_eq!(code(&command("rib/register", &parameters, &SignKey::ed25519(&[5; 32]), 2)), 403);
    let good = command("rib/register", &parameters, &key, 3);
    // The same command in an Interest with another nonce, which no signature covers.
    let mut again = good.to_vec();
    again[Interest::decode(&good).unwrap().nonce_at().unwrap()] ^= 1;
    assert_eq!((code(&good), code(&again.into())), (200, 403));
    let other_name = with_more_behind_the_signature(&command("rib/register", &parameters, &key, 5));
    assert_eq!((code(&command("rib/register", &parameters, &key, 5)), code(&other_name)), (200, 403));
    expect(&bench.recv(2, &command("rib/register", &parameters, &key, 4)), &[]);
    assert_eq!(bench.dropped(reason::SCOPE), 1);
}

#[test]
fn a_command_that_somebody_kept_is_obeyed_neither_later_nor_after_a_restart() {
    let parameters = ControlParameters { name: Some(name("/app")), ..ControlParameters::default() };
    let key = SignKey::ed25519(&[4; 32]);
    let start = |epoch: u64| {
        let trusted = key.verify_key();
        bench(|config| {
            config.management = ManagementTrust::Keys(alloc::vec![trusted]);
            config.epoch = Duration::from_millis(epoch);
        })
    };
    // It was signed at the second second.
    let kept = command("rib/register", &parameters, &key, 1);
    let mut copies = 0;
    let mut code = |bench: &mut Bench| {
        // No signature covers the nonce of an Interest.
        copies += 1;
        let mut copy = kept.to_vec();
        copy[Interest::decode(&kept).unwrap().nonce_at().unwrap()] = copies;
        response(&bench.recv(1, &copy.into())).code
    };
    let mut first = start(500);
    let codes = [0, 1, 119_000, 121_000, 240_000, 1_000_000].map(|at| code(first.at(at)));
    assert_eq!(codes, [200, 403, 403, 403, 403, 403]);
    assert_eq!((code(&mut start(1_000)), code(&mut start(1_001))), (200, 403), "it has started since");
    assert_eq!(code(start(0).at(121_001)), 403, "nobody has seen it, and it is old");
    let mut unsaid = Interest::decode(&kept).unwrap();
    let base = unsaid.name.parent().to_name().unwrap();
    unsaid.name = NameView::from(&base);
    unsaid.signature = unsaid.signature.map(|info| SignatureInfo { time: None, ..info });
    let unsaid = with_parameters(&Interest { source: Default::default(), ..unsaid }, Some(&key));
    assert_eq!(response(&start(0).recv(1, &unsaid.into())).code, 403, "it does not say when");
}

#[test]
fn older_command_interests_are_obeyed_too() {
    let mut bench = bench(|_| {});
    let parameters = ControlParameters { name: Some(name("/app")), ..ControlParameters::default() };
    let mut info = Vec::new();
    SignatureInfo::new(SignatureType::DigestSha256).encode(types::SIGNATURE_INFO, &mut info);
    let parts: [&[u8]; 4] = [&parameters.encode(), &[0; 8], &[1; 8], &info];
    let unsigned = parts.iter().fold(name("/localhost/nfd/rib/register"), |name, part| name.child(part).unwrap());
    let mut value = Vec::new();
    value.put_element(types::SIGNATURE_VALUE, &SignKey::Digest.sign(&[unsigned.as_tlv()]));
    let signed = unsigned.child(&value).unwrap();
    let sent = bench.recv(1, &Interest::new(NameView::from(&signed)).encode().into());
    assert_eq!(response(&sent).code, 200);
    *value.last_mut().unwrap() ^= 1;
    let forged = unsigned.child(&value).unwrap();
    assert_eq!(response(&bench.recv(1, &Interest::new(NameView::from(&forged)).encode().into())).code, 403);
}

#[test]
fn mistakes_are_answered_by_number() {
    let mut bench = bench(|_| {});
    let none = ControlParameters::default();
    let named = ControlParameters { name: Some(name("/a")), ..none.clone() };
    let codes = [
        run(&mut bench, "rib/register", &none, 1).code,
        run(&mut bench, "rib/register", &ControlParameters { face_id: Some(999), ..named.clone() }, 2).code,
        run(&mut bench, "rib/no-such", &named, 3).code,
        run(&mut bench, "faces/create", &none, 4).code,
        run(
            &mut bench,
            "strategy-choice/set",
            &ControlParameters { strategy: Some(name("/localhost/nfd/strategy/no")), ..named },
            5,
        )
        .code,
    ];
    assert_eq!(codes, [400, 410, 501, 400, 404]);
}

#[test]
fn the_driver_makes_and_closes_faces() {
    let mut bench = bench(|_| {});
    let parameters = ControlParameters { uri: Some("udp4://192.0.2.1:6363".into()), ..ControlParameters::default() };
    let requested = command("faces/create", &parameters, &SignKey::Digest, 1);
    expect(&bench.recv(1, &requested), &[]);
    let Some(FaceRequest::Create { id, uri, .. }) = bench.router.poll_face_request() else { panic!("no request") };
    bench.router.add_face(FaceId(9), FaceProfile { uri: uri.clone(), ..profile(1400) });
    bench.router.complete_face_request(bench.now, id, Ok(FaceId(9)));
    let answer = response(&bench.sent());
    assert_eq!((answer.code, answer.body.unwrap().face_id), (200, Some(9)));
    assert_eq!(run(&mut bench, "faces/create", &parameters, 2).code, 409);
    let query = |bench: &mut Bench, uri: &str| {
        let mut filter = Vec::new();
        filter.put_nested(150, |out| out.put_element(114, uri.as_bytes()));
        kinds(&dataset_of(bench, &name("/localhost/nfd/faces/query").child(&filter).unwrap())).len()
    };
    assert_eq!((query(&mut bench, &uri), query(&mut bench, "udp4://192.0.2.2:1")), (1, 0));
    let destroy = ControlParameters { face_id: Some(9), ..ControlParameters::default() };
    assert_eq!(run(&mut bench, "faces/destroy", &destroy, 3).code, 200);
    assert_eq!(bench.router.poll_face_request(), Some(FaceRequest::Destroy { face: FaceId(9) }));
    expect(&bench.recv(1, &command("faces/create", &parameters, &SignKey::Digest, 4)), &[]);
    let Some(FaceRequest::Create { id, .. }) = bench.router.poll_face_request() else { panic!("no request") };
    bench.router.complete_face_request(bench.now, id, Err(FaceRefusal::Exists(FaceId(3))));
    let answer = response(&bench.sent());
    assert_eq!((answer.code, answer.body.unwrap().face_id), (409, Some(3)));
    expect(&bench.recv(1, &command("faces/create", &parameters, &SignKey::Digest, 5)), &[]);
    bench.at(3999);
    assert!(bench.sent().is_empty());
    bench.at(4000);
    assert_eq!(bench.router.requests_due(), None);
}

/// Requests a face, makes the driver create it as face 9 with this profile, and returns the answer.
fn create(bench: &mut Bench, requested: &ControlParameters, profile: FaceProfile, nonce: u8) -> ControlResponse {
    expect(&bench.recv(1, &command("faces/create", requested, &SignKey::Digest, nonce)), &[]);
    let Some(FaceRequest::Create { id, uri, .. }) = bench.router.poll_face_request() else { panic!("no request") };
    bench.router.add_face(FaceId(9), FaceProfile { uri, ..profile });
    bench.router.complete_face_request(bench.now, id, Ok(FaceId(9)));
    response(&bench.sent())
}

/// All options of a face.
fn all_of_a_face(base: ControlParameters) -> ControlParameters {
    ControlParameters {
        persistency: Some(2),
        mtu: Some(1200),
        flags: Some(6),
        mask: Some(6),
        mark_interval: Some(50_000_000),
        mark_threshold: Some(20_000),
        ..base
    }
}

#[test]
fn a_face_is_made_as_asked_for_or_not_at_all() {
    let mut bench = bench(|_| {});
    let rate = Some(Rate::from_mbps(8));
    let requested = ControlParameters { uri: Some("udp4://192.0.2.1:6363".into()), ..ControlParameters::default() };
    let all = all_of_a_face(requested.clone());
    let answer = create(&mut bench, &all, FaceProfile { rate, ..profile(1472) }, 1);
    let reported = answer.body.unwrap();
    assert_eq!(
        (answer.code, reported.face_id, reported.persistency, reported.mtu),
        (200, Some(9), Some(2), Some(1200))
    );
    assert_eq!(
        (reported.flags, reported.mark_interval, reported.mark_threshold),
        (Some(6), Some(50_000_000), Some(20_000))
    );
    let made = bench.router.faces().find(|(id, ..)| *id == FaceId(9)).unwrap().2;
    assert!(made.reliability.is_some() && made.marking != marking::MarkingRule::Off && made.mtu == Some(1200));
    // A repeated request gets the face's properties.
    let again = run(&mut bench, "faces/create", &requested, 2);
    assert_eq!((again.code, again.body.unwrap().flags), (409, Some(6)));
    let destroy = ControlParameters { face_id: Some(9), ..ControlParameters::default() };
    assert_eq!(run(&mut bench, "faces/destroy", &destroy, 3).code, 200);
    assert!(bench.router.poll_face_request().is_some());
    // The link's rate is unknown; a stream loses nothing; the face leads to another machine.
    let flags = |flags: u64| ControlParameters { flags: Some(flags), mask: Some(flags), ..requested.clone() };
    for (nonce, (requested, mtu)) in [(flags(4), 1472), (flags(2), u32::MAX), (flags(1), 1472)].into_iter().enumerate()
    {
        let answer = create(&mut bench, &requested, profile(mtu), 10 + nonce as u8);
        assert_eq!(answer.code, 406, "{requested:?}");
        assert!(!bench.router.has_face(FaceId(9)));
        assert_eq!(bench.router.poll_face_request(), Some(FaceRequest::Destroy { face: FaceId(9) }));
    }
    let on_demand = ControlParameters { persistency: Some(1), ..requested.clone() };
    assert_eq!(run(&mut bench, "faces/create", &on_demand, 20).code, 406);
    let half = ControlParameters { flags: Some(2), ..requested };
    assert_eq!(run(&mut bench, "faces/create", &half, 21).code, 400);
    assert_eq!(bench.router.poll_face_request(), None, "the driver is asked for none of them");
}

#[test]
fn no_more_faces_are_being_made_at_one_time_than_the_limit() {
    let mut bench = bench(|_| {});
    let create = |bench: &mut Bench, n: usize| {
        let uri = Some(alloc::format!("udp4://192.0.2.1:{}", 1_000 + n));
        let parameters = ControlParameters { uri, ..ControlParameters::default() };
        bench.recv(1, &command("faces/create", &parameters, &SignKey::Digest, n as u8))
    };
    (0..REQUESTS_MAX).for_each(|n| expect(&create(&mut bench, n), &[]));
    assert_eq!(response(&create(&mut bench, REQUESTS_MAX)).code, 503);
}

#[test]
fn a_face_is_changed_as_a_whole_or_not_at_all() {
    let mut bench = bench(|_| {});
    let rate = Some(Rate::from_mbps(8));
    bench.router.add_face(FaceId(9), FaceProfile { rate, persistency: FacePersistency::OnDemand, ..profile(1400) });
    bench.router.add_face(FaceId(2), profile(1400));
    let of = |face_id: u64| ControlParameters { face_id: Some(face_id), ..ControlParameters::default() };
    let all = all_of_a_face(of(9));
    let answer = run(&mut bench, "faces/update", &all, 1);
    let reported = answer.body.unwrap();
    assert_eq!(
        (answer.code, reported.face_id, reported.persistency, reported.mtu),
        (200, Some(9), Some(2), Some(1200))
    );
    assert_eq!(
        (reported.flags, reported.mark_interval, reported.mark_threshold),
        (Some(6), Some(50_000_000), Some(20_000))
    );
    let face = |bench: &Bench| bench.router.faces().find(|(id, ..)| *id == FaceId(9)).unwrap().2.clone();
    let (target, interval) = (Duration::from_millis(20), Duration::from_millis(50));
    assert_eq!(face(&bench).marking, marking::MarkingRule::Codel { target, interval });
    assert!(face(&bench).persistency == FacePersistency::Permanent && bench.router.mtu(FaceId(9)) == Some(1200));
    // Unnamed options stay.
    let off = ControlParameters { flags: Some(0), mask: Some(4), ..of(9) };
    assert_eq!(run(&mut bench, "faces/update", &off, 2).body.unwrap().flags, Some(2));
    let before = face(&bench);
    let wrong = |change: fn(&mut ControlParameters), at: u64| {
        let mut requested = ControlParameters { mtu: Some(1000), ..of(at) };
        change(&mut requested);
        requested
    };
    let cases = [
        (wrong(|_| {}, 999), 404),
        (wrong(|_| {}, u64::from(u32::MAX)), 401),
        (wrong(|requested| requested.flags = Some(4), 9), 400),
        (wrong(|requested| requested.mark_interval = Some(1_000_000), 9), 409),
        (wrong(|requested| (requested.flags, requested.mask) = (Some(1), Some(1)), 9), 409),
        (wrong(|requested| requested.persistency = Some(1), 9), 409),
        (wrong(|requested| requested.mtu = Some(10), 9), 409),
        // Face 1 is a stream; the rate of face 2's link is unknown.
        (wrong(|_| {}, 1), 409),
        (wrong(|requested| (requested.flags, requested.mask) = (Some(4), Some(4)), 2), 409),
    ];
    for (at, (requested, code)) in cases.iter().enumerate() {
        assert_eq!(run(&mut bench, "faces/update", requested, 10 + at as u8).code, *code, "{requested:?}");
    }
    assert_eq!(face(&bench), before);
    // Without a number it is the command's arrival face.
    assert_eq!(run(&mut bench, "faces/update", &ControlParameters::default(), 30).body.unwrap().face_id, Some(1));
}

/// The sequence numbers, faces and kinds of the notifications among `sent`.
fn notifications(sent: &[Sent]) -> Vec<(u64, u8, u8)> {
    let reported = sent.iter().map(|sent| {
        let packet = sent.packet();
        let data = Data::decode(&packet).unwrap();
        assert_eq!(sent.face, 1);
        let number = data.name.components().last().unwrap();
        assert_eq!(number.kind, types::SEQUENCE);
        let value = tlv::only("notification", data.content.unwrap(), 192).unwrap();
        let mut reader = tlv::Reader::new("notification", value);
        let mut next = |kind| {
            let element = reader.element().unwrap().unwrap();
            assert_eq!((element.kind, element.value.len()), (kind, 1));
            element.value[0]
        };
        let kind = next(193);
        (number.number().unwrap(), next(105), kind)
    });
    reported.collect()
}

#[test]
fn who_follows_faces_is_told_of_each_event_once_also_of_those_that_came_too_fast() {
    let mut bench = bench(|_| {});
    let stream = name("/localhost/nfd/faces/events");
    let lifetime = Some(60_000);
    let newest = Interest {
        can_be_prefix: true,
        must_be_fresh: true,
        lifetime_millis: lifetime,
        ..Interest::new(NameView::from(&stream))
    };
    let after = |number: u8| {
        let next = stream.typed_child(types::SEQUENCE, &[number + 1]).unwrap();
        Bytes::from(Interest { lifetime_millis: lifetime, ..Interest::new(NameView::from(&next)) }.encode())
    };
    // What happened long ago is not news.
    bench.at(10_000);
    expect(&bench.recv(1, &newest.encode().into()), &[]);
    let now = bench.now;
    bench.router.add_face(FaceId(9), profile(1400));
    let reported = notifications(&bench.sent());
    let [(first, 9, 1)] = reported[..] else { panic!("{reported:?}") };
    let first = first as u8;
    expect(&bench.recv(1, &after(first)), &[]);
    bench.router.set_face_up(now, FaceId(9), false);
    assert_eq!(notifications(&bench.sent()), [(u64::from(first) + 1, 9, 4)]);
    // No request arrives in between.
    bench.router.set_face_up(now, FaceId(9), true);
    bench.router.remove_face(now, FaceId(9));
    expect(&bench.sent(), &[]);
    for (number, kind) in [(2, 3), (3, 4), (4, 2)] {
        let reported = notifications(&bench.recv(1, &after(first + number - 1)));
        assert_eq!(reported, [(u64::from(first + number), 9, kind)]);
    }
    // Neighbours do not receive it.
    expect(&bench.recv(2, &newest.encode().into()), &[]);
    bench.router.add_face(FaceId(9), profile(1400));
    expect(&bench.sent(), &[]);
}

#[test]
fn datasets_tell_what_there_is_in_as_many_segments_as_it_takes() {
    let mut bench = bench(|_| {});
    for n in 0..400 {
        bench.router.add_route(&name(&alloc::format!("/prefix/{n}")), FaceId(2), n);
    }
    assert_eq!(kinds(&dataset(&mut bench, "faces/list")), [128; 5]);
    assert_eq!(kinds(&dataset(&mut bench, "fib/list")).len(), 401);
    assert_eq!(kinds(&dataset(&mut bench, "rib/list")).len(), 400);
    assert_eq!(kinds(&dataset(&mut bench, "strategy-choice/list")), [128]);
    assert_eq!(kinds(&dataset(&mut bench, "cs/info")), [128]);
    assert_eq!(kinds(&dataset(&mut bench, "status/general"))[..3], [128, 129, 130]);
    // Of any size, and during fetches of others.
    for n in 0..100_000 {
        bench.router.add_route(&name(&alloc::format!("/a/longer/prefix/{n}")), FaceId(2), n);
    }
    let requested = name("/localhost/nfd/rib/list");
    let first = Interest { can_be_prefix: true, ..Interest::new(NameView::from(&requested)) };
    let first = bench.recv(1, &first.encode().into())[0].packet();
    let versioned = Data::decode(&first).unwrap().name.parent().to_name().unwrap();
    let large = dataset(&mut bench, "fib/list");
    assert!(large.len() > 3_900_000 && kinds(&large).len() == 100_401, "{} bytes", large.len());
    let last = Data::decode(&first).unwrap().final_block().unwrap().number().unwrap();
    let last = versioned.typed_child(types::SEGMENT, &number(last)).unwrap();
    let sent = bench.recv(1, &Interest::new(NameView::from(&last)).encode().into());
    assert_eq!(Bench::what(&sent), [(1, alloc::format!("data {last}"))]);
}

#[test]
fn the_content_store_is_configured_and_erased() {
    let mut bench = bench(|_| {});
    bench.routes(&[("/", 4)]);
    for n in 0..10u64 {
        bench.recv(2, &interest(&alloc::format!("/c/{n}"), n));
        bench.recv(4, &data(&alloc::format!("/c/{n}")));
    }
    let erase = ControlParameters { name: Some(name("/c")), count: Some(4), ..ControlParameters::default() };
    assert_eq!(run(&mut bench, "cs/erase", &erase, 1).body.unwrap().count, Some(4));
    let config = ControlParameters { capacity: Some(2), ..ControlParameters::default() };
    assert_eq!((run(&mut bench, "cs/config", &config, 2).code, bench.router.cs.len()), (200, 2));
    let switch = |flags: u64| ControlParameters { flags: Some(flags), mask: Some(3), ..ControlParameters::default() };
    let switched = |bench: &mut Bench, flags: u64, nonce: u8| {
        let answer = run(bench, "cs/config", &switch(flags), nonce);
        let info = dataset(bench, "cs/info");
        let info = tlv::only("CsInfo", &info, 128).unwrap().to_vec();
        let mut reader = tlv::Reader::new("CsInfo", &info);
        let elements = core::iter::from_fn(|| reader.element().unwrap());
        let shown = elements.filter(|element| element.kind == 108).map(|element| element.value[0]).last();
        (answer.code, answer.body.unwrap().flags, shown)
    };
    // It neither stores new packets nor answers with old ones, and still has these.
    assert_eq!(switched(&mut bench, 0, 10), (200, Some(0), Some(0)));
    let held = bench.router.cs.len();
    expect(&bench.recv(2, &interest("/c/9", 109)), &[(4, "interest /c/9")]);
    expect(&bench.recv(4, &data("/c/9")), &[(2, "data /c/9")]);
    bench.recv(2, &interest("/c/new", 110));
    bench.recv(4, &data("/c/new"));
    assert_eq!(bench.router.cs.len(), held);
    assert_eq!(switched(&mut bench, 3, 11), (200, Some(3), Some(3)));
    expect(&bench.recv(2, &interest("/c/9", 111)), &[(2, "data /c/9")]);
    let wrong = ControlParameters { flags: Some(4), mask: Some(4), ..ControlParameters::default() };
    assert_eq!(run(&mut bench, "cs/config", &wrong, 12).code, 409);
    assert_eq!(run(&mut bench, "cs/config", &ControlParameters { mask: None, ..wrong }, 13).code, 400);
    let strategy = ControlParameters {
        name: Some(name("/c")),
        strategy: Some(name("/localhost/nfd/strategy/multicast/v=5")),
        ..ControlParameters::default()
    };
    assert_eq!(run(&mut bench, "strategy-choice/set", &strategy, 3).code, 200);
    assert_eq!(bench.router.strategies().count(), 2);
    assert_eq!(run(&mut bench, "strategy-choice/unset", &strategy, 4).code, 200);
    assert_eq!(bench.router.strategies().count(), 1);
}

fn command_at(verb: &str, parameters: &ControlParameters, nonce: u64, time: u64) -> Bytes {
    let base = name(&alloc::format!("/localhost/nfd/{verb}")).child(&parameters.encode()).unwrap();
    let interest = Interest {
        nonce: Some(Nonce::from(nonce)),
        signature: Some(SignatureInfo {
            nonce: Some(&nonce.to_be_bytes()),
            time: Some(time),
            ..SignatureInfo::new(SignatureType::DigestSha256)
        }),
        ..Interest::new(NameView::from(&base))
    };
    with_parameters(&interest, Some(&SignKey::Digest)).into()
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    #[test]
    fn commands_about_a_route_in_any_order_and_often_leave_what_was_said_last(
        history in proptest::collection::vec((proptest::bool::ANY, 0u64..100), 1..8),
        order in proptest::collection::vec(proptest::prelude::any::<proptest::sample::Index>(), 16),
    ) {
        let mut bench = bench(|_| {});
        let stated: Vec<(u64, bool, u64)> = (1..).zip(&history).map(|(at, (registers, cost))| (at, *registers, *cost)).collect();
        let all = order.iter().map(|at| at.get(&stated)).chain(stated.iter().rev());
        for (nonce, (time, registers, cost)) in (1..).zip(all) {
            let cost = registers.then_some(*cost);
            let parameters = ControlParameters { name: Some(name("/app")), cost, ..ControlParameters::default() };
            let verb = if *registers { "rib/register" } else { "rib/unregister" };
            let answer = response(&bench.recv(1, &command_at(verb, &parameters, nonce, *time)));
            proptest::prop_assert!(matches!(answer.code, 200 | 409), "{:?}", answer);
        }
        let routes: Vec<u64> = bench
            .router
            .rib
            .iter()
            .filter(|(prefix, _)| **prefix == name("/app"))
            .flat_map(|(_, routes)| routes.iter().map(|route| route.cost))
            .collect();
        let (_, registers, cost) = *stated.last().unwrap();
        proptest::prop_assert_eq!(routes, if registers { Vec::from([cost]) } else { Vec::new() });
    }
}

#[test]
fn neighbours_register_names_of_keys_that_they_have_proven_without_an_authority_too() {
    use alloc::string::ToString as _;
    use tributary_trust::{Grant, PublicKey, key_prefix};
    let key = tributary_content::SigningKey::from_secret(&[1; 32]).public();
    let owned = key_prefix(&key).to_string();
    let mut bench = bench(|config| config.remote_registration = RemoteRegistration::Neighbours);
    let code = |bench: &mut Bench, face: u32, nonce: u8| {
        let mut sent = bench.recv(face, &remote_register(&owned, nonce));
        sent.retain(|sent| !LpPacket::decode(&sent.bytes).is_ok_and(|packet| packet.boot_probe.is_some()));
        response(&sent).code
    };
    bench.router.set_grant(bench.now, FaceId(2), Some(&Grant::host(key, "owner")));
    bench.router.set_grant(bench.now, FaceId(3), Some(&Grant::host(PublicKey([2; 32]), "stranger")));
    assert_eq!([2, 3, 4].map(|face| code(&mut bench, face, face as u8)), [200, 403, 403]);
    let is_there = |bench: &Bench| bench.router.rib.iter().any(|(prefix, _)| *prefix == key_prefix(&key));
    assert!(is_there(&bench));
    bench.router.set_grant(bench.now, FaceId(2), None);
    assert!(!is_there(&bench), "its owner has gone");
}
