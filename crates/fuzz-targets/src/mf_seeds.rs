//! Valid inputs of the MobilityFirst targets.
use tributary_content::{ObjectId, ObjectReader, SigningKey, Unavailable};
use tributary_mf::{
    ids::{Custodian, Flow, Guid, HopId, NetworkAddress, ServiceId, Token},
    wire::{
        Adjacency, Cack, CackState, ChunkHeader, ChunkKind, ChunkRanges, Class, Csyn, CustodyState, DataHeader,
        DataTag, Flags, Hello, Holding, LinkState, MtuMessage, NameMessage, NameRecord, Probe, Readers, RecordBody,
        Refusal, Reliability, Roles, SealedHead, Statement, TransportBody, TransportMessage, Wire,
    },
};

use tributary_transport::MtuProbe;

use crate::seeds::{Seed, object};

const OBJECT: ObjectId = ObjectId([5; 16]);

fn key() -> SigningKey {
    SigningKey::from_secret(&[3; 32])
}
fn guid(byte: u8) -> Guid {
    Guid([byte; 20])
}
fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut bytes);
    bytes
}
fn chunks() -> ChunkRanges {
    ChunkRanges::from_ascending([0, 1, 2, 9, 40])
}

/// All of them.
#[expect(clippy::too_many_lines, reason = "a table of seeds")]
pub(crate) fn all() -> Vec<Seed> {
    let mut seeds: Vec<Seed> = Vec::new();
    let mut add =
        |target: &'static str, name: &str, bytes: Vec<u8>| seeds.push((target, format!("seed-{name}"), bytes));
    let mut hello = Hello {
        roles: Roles::ROUTER | Roles::PROXY,
        accepts: true,
        sequence: 4,
        probe: Probe { sequence: 3, held_us: 500, heard: 0b101 },
        nonce: 9,
        echo: 8,
        address: NetworkAddress(7),
        datagram_bytes: 1_472,
        window: 3_000,
        key: key().public(),
        label: "tower".into(),
        wants_answer: false,
        signature: None,
    };
    add("mf_hello", "plain", encoded(|out| hello.encode(out)));
    hello.sign(&key());
    add("mf_hello", "signed", encoded(|out| hello.encode(out)));

    for (name, csyn, class) in [("asks", Some(4), Class::Bulk), ("control", None, Class::Control)] {
        let header = DataHeader { index: 2, count: 9, hop: HopId(5), csyn, class };
        add("mf_hop", name, encoded(|out| header.encode(out)));
    }
    add("mf_hop", "csyn", encoded(|out| Csyn { count: 9, hop: HopId(5), number: 3 }.encode(out)));
    let probe = MtuMessage::Probe(MtuProbe { number: 5, size: 40 });
    add("mf_hop", "mtu-probe", encoded(|out| probe.encode(out)));
    add("mf_hop", "mtu-answer", encoded(|out| MtuMessage::Answer(5).encode(out)));
    let cack = |state, bitmap| Cack {
        state,
        hop: HopId(5),
        number: 3,
        window: 800,
        destination_window: 400,
        duplicates: 1,
        first_missing: 2,
        bitmap,
    };
    add("mf_hop", "partial", encoded(|out| cack(CackState::Partial, vec![0b1010, 1]).encode(out)));
    add("mf_hop", "complete", encoded(|out| cack(CackState::Complete, Vec::new()).encode(out)));

    let tag = DataTag {
        object: OBJECT,
        transfer: 1 << 31,
        token: Token(6),
        number: 3,
        count: 9,
        chunk_bytes: 1 << 20,
        reliability: Reliability::Nack,
        window: 1,
        window_chunks: 8,
    };
    let kinds =
        [("data", ChunkKind::Data(tag)), ("transport", ChunkKind::Transport(Token(6))), ("names", ChunkKind::Names)];
    for (name, kind) in kinds {
        let mut header = ChunkHeader::new(kind, guid(1), guid(2), NetworkAddress(7));
        (header.service, header.flags) = (ServiceId::Multicast, Flags::DELEGATE | Flags::REPEATED);
        header.proxies_left = 3;
        add("mf_chunk", name, encoded(|out| header.encode(out)));
        if header.tag().is_some() {
            header.custodian = Some(Custodian { guid: guid(3), address: NetworkAddress(8) });
            add("mf_chunk", "in-custody", encoded(|out| header.encode(out)));
        }
    }

    let flow = Flow { source: guid(1), destination: guid(2) };
    let (transfer, object_id, chunk_ranges) = (7, OBJECT, chunks());
    let messages = [
        (
            "request",
            TransportBody::Request {
                chunk_bytes: 1 << 16,
                reliability: Reliability::Ack,
                buffer_chunks: 8,
                held: chunk_ranges.clone(),
            }
            .about(transfer, object_id),
        ),
        (
            "status",
            TransportBody::Status { window: 2, advice_chunks: 16, sequence: 4, missing: chunk_ranges.clone() }
                .about(transfer, object_id),
        ),
        ("ack", TransportBody::Ack { complete: true, chunks: ChunkRanges::default() }.about(transfer, object_id)),
        (
            "stored",
            TransportBody::Stored { flow, proxy: guid(3), address: NetworkAddress(7), chunks: chunk_ranges.clone() }
                .about(transfer, object_id),
        ),
        (
            "dropped",
            TransportBody::Dropped { flow, proxy: guid(3), chunks: chunk_ranges.clone() }.about(transfer, object_id),
        ),
        (
            "custody",
            TransportBody::Custody { flow, state: CustodyState::Taken, chunks: chunk_ranges.clone() }
                .about(transfer, object_id),
        ),
        ("kept-for", TransportBody::KeptFor { flow, lifetime_ms: 3_600_000 }.about(transfer, object_id)),
        ("push", TransportBody::Push { flow, chunks: chunk_ranges }.about(transfer, object_id)),
        ("unavailable", TransportBody::Unavailable.about(transfer, object_id)),
        ("unreadable", TransportBody::Unreadable { why: Unavailable::Changed }.about(transfer, object_id)),
        ("completed", TransportBody::Completed { members: vec![guid(4), guid(5)] }.about(transfer, object_id)),
    ];
    for (name, message) in &messages {
        add("mf_transport", name, encoded(|out| message.encode(out)));
    }

    add("mf_transport", "push-of-all", push_of_all(flow.source));

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
    let mut records = Vec::new();
    for (label, body) in bodies {
        for readers in [Readers::All, Readers::Only([guid(4), guid(5)].into())] {
            let (key, body) = (key(), body.clone());
            let label_of = if readers == Readers::All { label.to_string() } else { format!("{label}-for-some") };
            let (version, lifetime_ms) = (5, 30_000);
            let statement =
                Statement { key: key.public(), version, lifetime_ms, ends: None, label: "x".into(), body, readers };
            let record = NameRecord::sign(statement, &key).expect("a legal record").encode();
            add("mf_names", &label_of, record.clone());
            records.push(record);
        }
    }
    let head = SealedHead { from: (NetworkAddress(7), 8), to: (NetworkAddress(9), 10), number: 11 };
    add("mf_names", "sealed", encoded(|out| head.encode(out)));
    let place = guid(9);
    let about_names = [
        ("put", NameMessage::Put { request: 1, place, record: records[0].clone() }),
        ("done", NameMessage::Done { request: 1, replicas: 5 }),
        ("stale", NameMessage::Stale { request: 1, current: 4 }),
        ("refused", NameMessage::Refused { request: 1, refusal: Refusal::Full }),
        ("lookup", NameMessage::Lookup { request: 1, place }),
        ("found", NameMessage::Found { request: 1, place, records: records[1..3].to_vec() }),
        ("watch", NameMessage::Watch { request: 1, place, lease_ms: 30_000, known: 5 }),
        ("notify", NameMessage::Notify { place, record: records[3].clone() }),
        ("next", NameMessage::Next { request: 1, place, after: (guid(4), guid(5)) }),
        (
            "page",
            NameMessage::Page {
                request: 1,
                place,
                ends: (Some((guid(4), guid(5))), Some((guid(6), guid(7)))),
                records: records[1..3].to_vec(),
            },
        ),
        (
            "renew",
            NameMessage::Renew {
                request: 1,
                author: guid(4),
                lease_ms: 30_000,
                holdings: vec![Holding { bucket: 3, count: 2, sum: 9 }, Holding { bucket: 1_023, count: 1, sum: 8 }],
            },
        ),
        ("renewed", NameMessage::Renewed { request: 1, missing: vec![3, 1_023] }),
        ("many", NameMessage::Many(vec![NameMessage::Lookup { request: 1, place }; 2])),
    ];
    for (name, message) in &about_names {
        add("mf_names", name, encoded(|out| message.encode(out)));
    }

    let state = LinkState {
        router: NetworkAddress(9),
        guid: guid(3),
        sequence: 12,
        boot: 13,
        roles: Roles::ROUTER | Roles::RESOLVER,
        storage_free: 80,
        label: "tower".into(),
        links: vec![Adjacency { neighbour: NetworkAddress(10), short_us: 900, long_us: 1_000 }],
    };
    add("mf_link_state", "one", encoded(|out| state.encode(out)));

    for setup in 0..16u8 {
        add("mf_node", &format!("{setup}"), script(setup, &messages, &about_names, &state));
    }
    seeds
}

/// A source's request for the maximum number of chunks: a node that iterated over them would hang.
fn push_of_all(source: Guid) -> Vec<u8> {
    let (flow, chunks) = (Flow { source, destination: guid(2) }, ChunkRanges::from_ascending([0]));
    let mut bytes = encoded(|out| TransportBody::Push { flow, chunks: chunks.clone() }.about(6, OBJECT).encode(out));
    let count = bytes.len() - 4;
    bytes[count..].fill(0xff);
    bytes
}

/// A script that sends every kind of message once, with time passing in between.
fn script(
    setup: u8,
    messages: &[(&str, TransportMessage)],
    about_names: &[(&str, NameMessage)],
    state: &LinkState,
) -> Vec<u8> {
    let mut script = vec![setup];
    let mut chunk = |step: u8, options: [u8; 3], payload: Vec<u8>| {
        script.extend_from_slice(&[step, 0]);
        if step == 7 {
            script.extend_from_slice(&[1, 128, setup % 6]);
        }
        script.extend_from_slice(&options);
        script.extend_from_slice(&(payload.len() as u16).to_be_bytes());
        script.extend_from_slice(&payload);
        script.extend_from_slice(&[1, 0, 0, 200, 3, 0, 0, 4, 0]);
    };
    for (number, (_, message)) in messages.iter().enumerate() {
        chunk(4, [number as u8, if number == 0 { 4 } else { 0 }, 64], encoded(|out| message.encode(out)));
    }
    chunk(4, [0, 0, 64], push_of_all(crate::mf::peer_guid(tributary_core::FaceId(0))));
    for (number, (_, message)) in about_names.iter().enumerate() {
        chunk(5, [number as u8 % 2, 0, setup], encoded(|out| message.encode(out)));
    }
    let mut sealed = encoded(|out| state.encode(out));
    tributary_mf::wire::seal(&[0; 32], &mut sealed);
    chunk(6, [0, 0, 0], sealed);
    for (service, options) in [(0, 0), (1, 96), (2, 0), (3, 32), (5, 16)] {
        chunk(7, [3 + setup % 2, service, options], vec![setup; 300]);
    }
    script.extend_from_slice(&[8, 0, 0, 0, 8, 0, 1, 2, 8, 0, 0, 1, 9, 0, 1, 0, 15, 160, 2, 0, 2, 1, 1, 0, 7, 0]);
    script
}
