//! The forwarding decision of a PSI router, in this process: which links does a packet leave by?
use std::{hint::black_box, time::Instant};

use bytes::Bytes;
use tributary_content::ObjectId;
use tributary_core::{ByteCount, Datagram, FaceId, NodeId, Random, Time, TransmitBuf};
use tributary_psi::{
    router::{
        Router, RouterConfig,
        labels::{FILTER_WORDS_MAX, LabelTables, Port, filter_bytes},
    },
    wire::{DataHeader, Fid, FidKind, Header, PacketType, StreamKey, TTL_MAX},
};
use tributary_transport::FaceOptions;

use super::{Context, Findings};
use crate::{
    Outcome,
    harness::{figure::Figure, targets},
};

/// Different FIDs, so that neither the branch predictor nor a result cache helps.
const FIDS: usize = 1_024;
/// Links of a FID's path elsewhere in the network.
const LINKS_ELSEWHERE: u32 = 6;
/// Decisions per timed batch.
const BATCH: usize = 64 * FIDS;
/// Batches; their median counts.
const BATCHES: usize = 51;
/// Bytes of a Bloom filter, enough for six hops.
const FILTER_BYTES: usize = 16;
/// Bits of a label.
const LABEL_BITS: u8 = 5;
/// Payload of a packet.
const PAYLOAD_BYTES: usize = 1_384;
/// What the labels of the measured router are made from.
const SECRET: [u8; 16] = [1; 16];

pub(super) fn run(context: &mut Context<'_>) -> Outcome<Findings> {
    let mut findings = Findings::default();
    for links in [8, 64] {
        let nanoseconds: Vec<_> = (0..context.arguments.rounds()).map(|_| decision(links)).collect();
        let figure = Figure::new(format!("matching a FID, {links} links"), "ns/link", nanoseconds);
        findings.figures.push(figure.judged(targets::FORWARDING));
        let nanoseconds: Vec<_> = (0..context.arguments.rounds()).map(|_| forward(links)).collect::<Outcome<_>>()?;
        findings.figures.push(Figure::new(
            format!("all of forwarding a packet, {links} links"),
            "ns/packet",
            nanoseconds,
        ));
    }
    findings.notes.push(format!(
        "{FIDS} FIDs of {FILTER_BYTES} bytes in turn; 'all of forwarding' is from the datagram's arrival at the router to \
         its place in a transmit batch: header, decision, queue, new header; medians of {BATCHES} batches of {BATCH}",
    ));
    Ok(findings)
}

/// Nanoseconds per link of the label match alone.
fn decision(links: u32) -> f64 {
    let mut tables = LabelTables::new(&SECRET, LABEL_BITS, 64);
    tables.set_ports((0..links).map(|face| Port::Face(FaceId(face))).chain([Port::Local]).collect());
    let filters: Vec<_> = (0..FIDS as u64).map(|seed| filter(seed, links)).collect();
    let mut matches = vec![0; links as usize / 64 + 1];
    let per_decision = median_nanoseconds(|| {
        for filter in filters.iter().cycle().take(BATCH) {
            matches.fill(0);
            tables.match_bloom(black_box(filter), FILTER_BYTES, 0, &mut matches);
            black_box(&matches);
        }
    });
    per_decision / f64::from(links + 1)
}

/// Nanoseconds per packet from arrival to the transmit batch.
fn forward(links: u32) -> Outcome<f64> {
    let config = RouterConfig { cache_bytes: ByteCount(0), ..RouterConfig::new(NodeId(1), SECRET) };
    let mut router = Router::new(config);
    for face in 0..links {
        router.add_face(FaceId(face), FaceOptions { mtu: 1_472, rate: None });
        router.set_face_up(FaceId(face), true);
    }
    let payload = vec![7; PAYLOAD_BYTES];
    let packets: Vec<Bytes> = (0..FIDS as u64).map(|seed| packet(&filter(seed, links), &payload)).collect();
    let mut batch = TransmitBuf::new();
    let mut sent = 0;
    let per_packet = median_nanoseconds(|| {
        let mut waiting = 0;
        for packet in packets.iter().cycle().take(BATCH) {
            let verdict = router.forward(Time::ZERO, Some(FaceId(0)), Datagram::from(black_box(packet).clone()));
            waiting += verdict.copies;
            // As many as one receive buffer holds.
            if waiting >= 44 {
                waiting = 0;
                while router.poll_transmit(&mut batch).is_some() {
                    sent += batch.len();
                    batch.clear();
                }
            }
        }
    });
    if sent < BATCH * (BATCHES - 1) {
        return Err(format!("the router sent {sent} packets only: {:?}", router.stats).into());
    }
    Ok(per_packet)
}

/// A filter with one link of the measured router and some links of other routers.
fn filter(seed: u64, links: u32) -> [u64; FILTER_WORDS_MAX] {
    let mut random = Random::new(seed, 0);
    let mut filter = [0; FILTER_WORDS_MAX];
    let tables = LabelTables::new(&SECRET, LABEL_BITS, 1);
    let face = 1 + random.below(u64::from(links - 1)) as u32;
    tables.key.seeds(Port::Face(FaceId(face)), 0).bloom(FILTER_BYTES, LABEL_BITS).add_to(&mut filter);
    for _ in 0..LINKS_ELSEWHERE {
        let other =
            LabelTables::new(&random.bits().to_le_bytes().repeat(2).try_into().expect("twice eight"), LABEL_BITS, 1);
        other.key.seeds(Port::Face(FaceId(0)), 0).bloom(FILTER_BYTES, LABEL_BITS).add_to(&mut filter);
    }
    filter
}

fn packet(filter: &[u64; FILTER_WORDS_MAX], payload: &[u8]) -> Bytes {
    let fid = Fid::new(FidKind::Bloom, 0, &filter_bytes(filter, FILTER_BYTES));
    let mut bytes = Vec::new();
    Header { packet_type: PacketType::Data, flags: 0, ttl: TTL_MAX, fid }.encode(&mut bytes);
    let stream = StreamKey::new(&ObjectId([1; 16]), u16::try_from(payload.len()).expect("a packet's payload"));
    DataHeader { tag: 1, packet: 1, stream, origin: 0 }.encode(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes.into()
}

/// Median over the batches of the time that `batch` takes for each of its [`BATCH`] steps.
fn median_nanoseconds(mut batch: impl FnMut()) -> f64 {
    let mut nanoseconds: Vec<_> = (0..BATCHES)
        .map(|_| {
            let start = Instant::now();
            batch();
            start.elapsed().as_nanos() as f64 / BATCH as f64
        })
        .collect();
    nanoseconds.sort_by(f64::total_cmp);
    nanoseconds[BATCHES / 2]
}
