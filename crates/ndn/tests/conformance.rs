//! Every role of the family, alone and together, under the conformance suite.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test: a failed unwrap is a failed test")]
use tributary_content::Name;
use tributary_core::{ByteCount, FaceId, Time};
use tributary_ndn::{
    Config, NdnNode,
    ids::Nonce,
    router::labels::LabelScheme,
    wire::{Data, Interest, LpPacket, NackReason, NameView, PathTag, SignKey},
};
use tributary_testkit::{
    conformance::{Conformance, add_faces, fetch, publish, run},
    trust,
};

fn everything(node: &mut NdnNode, now: Time) {
    publish(node, now);
    fetch(node, now);
}

/// Packets of peers: Interests with and without tags, probes, Data, Nacks, commands, pieces.
fn samples() -> Vec<Vec<u8>> {
    let names: Vec<Name> = [
        "/conformance/object/32=manifest/abcd",
        "/conformance/object/v=1/seg=0",
        "/conformance/object",
        "/localhost/nfd/faces/list",
    ]
    .map(|name| name.parse().unwrap())
    .into();
    let mut samples = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let interest = Interest {
            nonce: Some(Nonce::from(at as u64)),
            can_be_prefix: at >= 2,
            hop_limit: Some(9),
            ..Interest::new(NameView::from(name))
        };
        let bytes = interest.encode();
        let headers = |headers: LpPacket<'_>| LpPacket { fragment: Some(&bytes), ..headers }.encode();
        samples.push(headers(LpPacket { probe: true, pit_token: Some(&[1, 2, 3, 4]), ..LpPacket::default() }));
        samples.push(headers(LpPacket { tag: Some(PathTag::parse(&[7; 12]).unwrap()), ..LpPacket::default() }));
        samples.push(headers(LpPacket { nack: Some(NackReason::NoRoute), ..LpPacket::default() }));
        samples.push(headers(LpPacket { frag_count: Some(2), sequence: Some(5), ..LpPacket::default() }));
        samples.push(bytes.clone());
        let data = Data::new(NameView::from(name), b"content").sign(&SignKey::Digest);
        samples.push(LpPacket { tag: Some(PathTag::EMPTY), tx_sequence: Some(1), ..LpPacket::around(&data) }.encode());
    }
    samples
}

fn examine(label: &'static str, set: fn(&mut Config), kick: fn(&mut NdnNode, Time)) {
    let make = move || {
        let mut config = Config::new(label, 7);
        set(&mut config);
        let mut node = NdnNode::new(config);
        add_faces(&mut node, Time::ZERO);
        for face in 0..4 {
            node.router_mut().add_route(&"/conformance".parse().unwrap(), FaceId(face), 1);
        }
        node
    };
    run(make, &Conformance { kick: Some(kick), samples: samples(), ..Conformance::default() });
}

#[test]
fn a_router_conforms() {
    examine("router", |_| {}, |_, _| {});
}
#[test]
fn a_router_without_a_cache_and_with_huffman_codes_conforms() {
    let set = |config: &mut Config| {
        (config.cache_bytes, config.labels, config.strategy) = (ByteCount(0), LabelScheme::Huffman, "multicast".into());
    };
    examine("router", set, |_, _| {});
}
#[test]
fn a_sender_conforms() {
    examine("sender", |_| {}, publish);
}
#[test]
fn a_receiver_conforms() {
    examine("receiver", |_| {}, fetch);
}
#[test]
fn all_roles_in_one_node_conform() {
    examine("everything", |_| {}, everything);
}

#[test]
fn it_believes_whom_all_families_believe() {
    trust::run(
        |_, label, seed| NdnNode::new(Config::new(label, seed)),
        |node, name, face| _ = node.router_mut().add_route(name, face, 1),
    );
}
