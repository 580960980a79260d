//! Valid inputs of the MobilityFirst targets: the parts of the family's golden packets, signed records, and scripts.
use tributary_content::{ObjectId, ObjectReader, SigningKey};
use tributary_mf::{
    ids::{Flow, Guid, NetworkAddress},
    wire::{
        ChunkHeader, ChunkKind, ChunkRanges, DataHeader, NameRecord, PacketType, Readers, RecordBody, SealedHead,
        Statement, TransportBody, Wire,
    },
};
use tributary_testkit::golden;

use crate::seeds::{Seed, object};

const PACKETS: &str = include_str!("../../mf/tests/golden/packets.txt");

fn guid(byte: u8) -> Guid {
    Guid([byte; 20])
}
fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut bytes);
    bytes
}

/// All of them.
pub(crate) fn all() -> Vec<Seed> {
    let mut seeds: Vec<Seed> = Vec::new();
    let mut add = |target: &'static str, name: &str, bytes: &[u8]| {
        let name: String = name.chars().filter(|letter| *letter != ',').collect();
        seeds.push((target, format!("seed-{}", name.replace([' ', ':'], "-")), bytes.to_vec()));
    };
    let (mut messages, mut about_names, mut states) = (Vec::new(), Vec::new(), Vec::new());
    let packets = golden::parse(PACKETS).expect("the family's tests read it");
    for golden::GoldenPacket { name, bytes, .. } in packets.iter().filter(|packet| packet.error.is_none()) {
        match PacketType::of(bytes[0]).expect("it is well-formed") {
            PacketType::Hello => add("mf_hello", name, bytes),
            PacketType::Csyn | PacketType::Cack | PacketType::Mtu => add("mf_hop", name, bytes),
            PacketType::Data => {
                let (hop, rest) = bytes.split_at(DataHeader::BYTES);
                add("mf_hop", name, hop);
                if DataHeader::decode(hop).is_ok_and(|header| header.index > 0) {
                    continue;
                }
                let (header, len) = ChunkHeader::decode(rest).expect("it is well-formed");
                let (header_bytes, payload) = rest.split_at(len);
                add("mf_chunk", name, header_bytes);
                let (target, alike) = match header.kind {
                    ChunkKind::Data(_) => continue,
                    ChunkKind::Transport(_) => ("mf_transport", &mut messages),
                    ChunkKind::Names => ("mf_names", &mut about_names),
                    ChunkKind::LinkState => ("mf_link_state", &mut states),
                };
                add(target, name, payload);
                alike.push(payload);
            }
        }
    }
    for (label, record) in records() {
        add("mf_names", &label, &record);
    }
    let head = SealedHead { from: (NetworkAddress(7), 8), to: (NetworkAddress(9), 10), number: 11 };
    add("mf_names", "sealed", &encoded(|out| head.encode(out)));
    for setup in 0..16 {
        add("mf_node", &setup.to_string(), &script(setup, &messages, &about_names, states[0]));
    }
    seeds
}

/// A signed record of each kind, for everybody and for some.
fn records() -> Vec<(String, Vec<u8>)> {
    let name: tributary_content::Name = "/lab/all".parse().expect("a name");
    let bodies = [
        ("device", RecordBody::Device(vec![(NetworkAddress(7), 128), (NetworkAddress(8), 1)])),
        ("group", RecordBody::Group { label: b"all".to_vec(), members: vec![guid(4), guid(5)], proxy: guid(6) }),
        ("content", RecordBody::Content(object("/lab/object", 5_000).manifest().encode())),
        ("attached", RecordBody::Attached { name: name.clone() }),
        ("detached", RecordBody::Detached { name: name.clone() }),
        ("scope", RecordBody::Scope { name: name.clone() }),
        ("scope-gone", RecordBody::ScopeGone { name }),
        ("deleted", RecordBody::Deleted(b"all".to_vec())),
    ];
    let key = SigningKey::from_secret(&[3; 32]);
    let readers = [("", Readers::All), ("-for-some", Readers::Only([guid(4), guid(5)].into()))];
    let both = bodies.into_iter().flat_map(|body| readers.clone().map(|readers| (body.clone(), readers)));
    let signed = both.map(|((label, body), (whom, readers))| {
        let statement = Statement {
            key: key.public(),
            version: 5,
            lifetime_ms: 30_000,
            ends: None,
            label: "x".into(),
            body,
            readers,
        };
        (format!("{label}{whom}"), NameRecord::sign(statement, &key).expect("a legal record").encode())
    });
    signed.collect()
}

/// A source's request for the maximum number of chunks: a node that iterated over them would hang.
fn push_of_all(source: Guid) -> Vec<u8> {
    let (flow, chunks) = (Flow { source, destination: guid(2) }, ChunkRanges::from_ascending([0]));
    let push = TransportBody::Push { flow, chunks }.about(6, ObjectId([5; 16]));
    let mut bytes = encoded(|out| push.encode(out));
    let count = bytes.len() - 4;
    bytes[count..].fill(0xff);
    bytes
}

/// A script that sends every kind of message once, with time passing in between.
fn script(setup: u8, messages: &[&[u8]], about_names: &[&[u8]], state: &[u8]) -> Vec<u8> {
    let mut script = vec![setup];
    let mut chunk = |step: u8, options: [u8; 3], payload: &[u8]| {
        script.extend_from_slice(&[step, 0]);
        if step == 7 {
            script.extend_from_slice(&[1, 128, setup % 6]);
        }
        script.extend_from_slice(&options);
        script.extend_from_slice(&(payload.len() as u16).to_be_bytes());
        script.extend_from_slice(payload);
        script.extend_from_slice(&[1, 0, 0, 200, 3, 0, 0, 4, 0]);
    };
    for (number, message) in messages.iter().enumerate() {
        chunk(4, [number as u8, if number == 0 { 4 } else { 0 }, 64], message);
    }
    chunk(4, [0, 0, 64], &push_of_all(crate::mf::peer_guid(tributary_core::FaceId(0))));
    for (number, message) in about_names.iter().enumerate() {
        chunk(5, [number as u8 % 2, 0, setup], message);
    }
    let mut sealed = state.to_vec();
    tributary_mf::wire::seal(&[0; 32], &mut sealed);
    chunk(6, [0, 0, 0], &sealed);
    for (service, options) in [(0, 0), (1, 96), (2, 0), (3, 32), (5, 16)] {
        chunk(7, [3 + setup % 2, service, options], &[setup; 300]);
    }
    script.extend_from_slice(&[8, 0, 0, 0, 8, 0, 1, 2, 8, 0, 0, 1, 9, 0, 1, 0, 15, 160, 2, 0, 2, 1, 1, 0, 7, 0]);
    script
}
