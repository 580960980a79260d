//! A fetch of an object of foreign programs: discovery, certificates and segments, from producers and caches that
//! answer anything.
use std::collections::VecDeque;

use tributary_content::{MemoryOpener, Name};
use tributary_core::{Datagram, Duration, FaceId, Node, Time, TransmitBuf};
use tributary_ndn::{
    Config, NdnNode,
    config::{SharedKey, StaticRoute},
    naming,
    wire::{
        ContentType, Data, Interest, KeyLocator, LpPacket, MetaInfo, NackReason, NameView, SignKey, SignatureInfo,
        ValidityPeriod, lp::Origin, signature::ED25519_INFO, tlv::Writer, types,
    },
};
use tributary_testkit::{Checked, Limits};
use tributary_transport::{Endpoint, FaceOptions, Fetch, PathMetric};

use crate::{content, input::Input, ndn::name};

const OBJECT: &str = "/other/y";
const MTU: u32 = 1_472;
const FACE: FaceId = FaceId(1);
const PATIENCE: Duration = Duration::from_secs(10);
/// Interests remembered, the last ones.
const REQUESTED_MAX: usize = 8;

/// The node, its time, and its requests.
struct Fetching {
    node: Checked<NdnNode>,
    now: Time,
    requested: VecDeque<Vec<u8>>,
    interests: usize,
}

impl Fetching {
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some((due, _)) = self.node.poll_timeout().filter(|(due, _)| *due <= end) {
            self.now = self.now.max(due);
            self.node.handle_timeout(self.now);
            self.drain();
        }
        self.now = end;
    }
    fn drain(&mut self) {
        let mut batch = TransmitBuf::new();
        while self.node.poll_transmit(self.now, &mut batch).is_some() {
            for datagram in batch.drain() {
                let bytes = datagram.to_vec();
                let packet = LpPacket::decode(&bytes).ok().and_then(|packet| packet.fragment);
                if let Ok(interest) = Interest::decode(packet.unwrap_or(&bytes)) {
                    self.interests += 1;
                    self.requested.push_back(interest.encode());
                    if self.requested.len() > REQUESTED_MAX {
                        self.requested.pop_front();
                    }
                }
            }
            batch.clear();
        }
        while self.node.poll_event().is_some() {}
    }
}

/// A fetch of an object without a manifest sends requests with pauses, under any answers, and ends in time; a finished
/// object has the announced size.
pub fn ndn_foreign(data: &[u8]) {
    let mut input = Input::new(data);
    let bits = input.u8();
    let shared = SharedKey { prefix: name("/other"), secret: vec![7; 32] };
    let config = Config {
        path_tags: bits & 1 == 0,
        shared_keys: if bits & 2 == 0 { Vec::new() } else { vec![shared] },
        routes: vec![StaticRoute { face: FACE, prefix: name("/"), cost: 1 }],
        epoch: Duration::from_secs(1_700_000_000),
        ..Config::new("fuzz", u64::from(bits))
    };
    let node = Checked::with_limits(NdnNode::new(config), Limits { mtu: MTU as usize, ..Limits::default() });
    let mut fetching = Fetching { node, now: Time::ZERO, requested: VecDeque::new(), interests: 0 };
    fetching.node.command(Time::ZERO, |node, now| node.add_face(now, FACE, FaceOptions { mtu: MTU, rate: None }));
    fetching.drain();
    let opener = if bits & 4 == 0 { MemoryOpener::new() } else { MemoryOpener::pinned(content::key().public()) };
    let stored = opener.content();
    let object = name(if bits & 8 == 0 { OBJECT } else { "/other/y/54=%05" });
    let fetch = Fetch {
        name: object.clone(),
        opener: Box::new(opener),
        rate_limit: None,
        paths_per_source: 2,
        metric: PathMetric::Hops,
        patience: Some(PATIENCE),
    };
    let id = fetching.node.command(Time::ZERO, |node, now| node.fetch(now, fetch));
    fetching.drain();
    let mut answers = 0;
    while let Some(step) = input.step() {
        fetching.pass(Duration::from_millis(u64::from(step) * 4));
        let answer = answer(&mut input, &fetching.requested);
        answers += 1;
        fetching.node.handle_datagram(fetching.now, FACE, Datagram::from(answer));
        fetching.drain();
    }
    // A probe every tenth of a second, a question every half second, and the packets that follow from one answer.
    let seconds = fetching.now.since(Time::ZERO).as_secs() as usize;
    let most = 200 + 16 * seconds + 128 * answers;
    assert!(fetching.interests <= most, "{} Interests for {answers} answers in {seconds} s", fetching.interests);
    fetching.pass(Duration::from_secs(120));
    let report = fetching.node.inner().report(fetching.now, id).expect("the last fetch is kept");
    assert!(report.ended.is_some(), "left alone, it ends: {report:?}");
    if report.failure.is_none() {
        let bytes = stored.finished(&object).expect("it is stored");
        assert_eq!(bytes.len() as u64, report.bytes);
    }
}

fn number(of: &Name, kind: u16, value: u64) -> Name {
    of.typed_child(kind, &naming::number(value)).expect("names are short")
}
fn signer(which: u8) -> SignKey {
    match which % 6 {
        0 => SignKey::Digest,
        1 => SignKey::Hmac(vec![7; 32]),
        2 => SignKey::Null,
        which => SignKey::ed25519(&[which; 32]),
    }
}
/// An answer: right for a possible next request, right for an earlier request, or anything.
fn answer(input: &mut Input<'_>, requested: &VecDeque<Vec<u8>>) -> Vec<u8> {
    let (kind, which, by) = (input.u8(), input.u8(), input.u8());
    let last_requested = requested.iter().rev().nth(usize::from(which) % REQUESTED_MAX);
    let last_requested = last_requested.and_then(|requested| Interest::decode(requested).ok());
    let versioned = number(&name(OBJECT), types::VERSION, u64::from(which % 4 + 4));
    let key = signer(by);
    let signed = |of: &Name, content: &[u8], content_type: Option<ContentType>, last: Option<u64>| {
        let last = last.map(|last| number(&Name::root(), types::SEGMENT, last));
        let meta = MetaInfo {
            content_type,
            freshness_millis: (by & 0x80 != 0).then_some(1_000),
            final_block_id: last.as_ref().map(|last| &last.as_tlv()[..]),
        };
        let locator = name(["/alice/KEY/1", "/bob/KEY/2", "/alice/KEY/32=manifest"][usize::from(by >> 4 & 3) % 3]);
        let validity = ValidityPeriod { not_before: b"20200101T000000", not_after: b"20991231T235959" };
        let signature = SignatureInfo {
            key_locator: (by & 8 == 0).then_some(KeyLocator::Name(NameView::from(&locator))),
            validity: (content_type == Some(ContentType::Key)).then_some(validity),
            ..SignatureInfo::new(key.kind())
        };
        Data { meta: Some(meta), signature, ..Data::new(NameView::from(of), content) }.sign(&key)
    };
    let mut packet = match kind & 7 {
        0 => {
            let of = name("/other/y/32=metadata/54=%01/50=%00");
            let mut content = input.blob().to_vec();
            if content.is_empty() {
                content.put_element(types::NAME, versioned.as_tlv());
            }
            signed(&of, &content, None, Some(0))
        }
        1 | 2 => {
            let (at, last, size) = (input.u8(), input.u8(), usize::from(input.u8()));
            let [at, last] = [at, last].map(|at| if at < 250 { u64::from(at % 8) } else { u64::MAX - u64::from(at) });
            signed(&number(&versioned, types::SEGMENT, at), &vec![7; size], None, Some(last))
        }
        3 => {
            let of = name(["/alice/KEY/1/self/54=%01", "/bob/KEY/2/root/54=%01"][usize::from(which & 1)]);
            let public = tributary_content::SigningKey::from_secret(&[input.u8(); 32]).public();
            let content = [ED25519_INFO, &public.0].concat();
            signed(&of, &content, Some(ContentType::Key), None)
        }
        4 | 5 => {
            let Some(requested) = last_requested.as_ref().and_then(|requested| requested.name.to_name().ok()) else {
                return input.blob().to_vec();
            };
            let longer = input.u8();
            // Some types are of values of another length.
            let of = requested.typed_child(u16::from(longer), &naming::number(which.into())).unwrap_or(requested);
            let content_type = [None, Some(ContentType::Key), Some(ContentType::Nack)][usize::from(which) % 3];
            signed(&of, input.blob(), content_type, (kind & 8 != 0).then_some(u64::from(which)))
        }
        6 => {
            let Some(requested) = last_requested else { return input.blob().to_vec() };
            let why = [NackReason::NoRoute, NackReason::Congestion, NackReason::Duplicate][usize::from(which) % 3];
            return LpPacket { nack: Some(why), ..LpPacket::around(&requested.encode()) }.encode();
        }
        _ => input.blob().to_vec(),
    };
    if kind & 0x80 != 0 && !packet.is_empty() {
        let at = usize::from(input.u16()) % packet.len();
        packet[at] ^= 1 << (which & 7);
    }
    let origin = [None, Some(Origin::Cache), Some(Origin::Aggregation), None][usize::from(kind >> 5 & 3)];
    LpPacket { origin, path_failed: kind & 16 != 0, ..LpPacket::around(&packet) }.encode()
}

/// Valid inputs to start from.
pub(crate) fn seeds() -> Vec<crate::seeds::Seed> {
    let metadata = [2, 0, 1, 0, 0, 0];
    let segment = |at: u8, by: u8| [2, 1, 1, by, at, 1, 100];
    let certificate = [2, 3, 0, 3, 3];
    let digests = [&[0][..], &metadata, &segment(0, 0), &segment(1, 0), &segment(1, 0), &segment(0, 0)].concat();
    let by_key = [&[0][..], &metadata, &segment(0, 3), &certificate, &segment(1, 3), &segment(0, 3), &segment(1, 3)];
    let stale = [&[0][..], &metadata, &[255; 2], &metadata, &segment(0, 0)].concat();
    let wrong_key = [&[8][..], &segment(0, 3), &[2, 3, 0, 3, 4], &[2, 3, 0, 3, 4], &certificate, &segment(1, 3)];
    let anything = [&[1][..], &[9, 4, 0, 0, 0, 0, 3, 7, 8, 9], &[9, 6, 1, 0], &[9, 0x85, 2, 0, 8, 0, 1, 1, 0, 5]];
    let seeds = [
        ("digests", digests),
        ("by-key", by_key.concat()),
        ("stale", stale),
        ("wrong-key", wrong_key.concat()),
        ("anything", anything.concat()),
    ];
    seeds.into_iter().map(|(label, bytes)| ("ndn_foreign", format!("seed-{label}"), bytes)).collect()
}
