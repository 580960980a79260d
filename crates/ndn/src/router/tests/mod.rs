//! Dialogues with one router, and with some that are joined by hand.
mod forwarding;
mod hostile;
mod links;
mod management;
mod mpfp;

use alloc::{string::String, vec::Vec};

use bytes::Bytes;
use tributary_content::Name;
use tributary_core::{Datagram, FaceId, Rate, Time, TransmitBuf};
use tributary_transport::FaceOptions;

use super::*;
use crate::{
    ids::Nonce,
    wire::{Data, Interest, MetaInfo, NackReason, NameView, SignKey},
};

/// What left a router.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Sent {
    face: u32,
    bytes: Bytes,
}

impl Sent {
    fn headers(&self) -> LpPacket<'_> {
        if self.bytes[0] == 100 { LpPacket::decode(&self.bytes).unwrap() } else { LpPacket::around(&self.bytes) }
    }
    fn packet(&self) -> Bytes {
        Bytes::copy_from_slice(self.headers().fragment.unwrap_or(&[]))
    }
    /// `interest /a`, `data /a`, `nack 150 /a`, or `idle`.
    fn what(&self) -> String {
        let (headers, packet) = (self.headers(), self.packet());
        match (packet_type(&packet), headers.nack) {
            (Some(types::INTEREST), None) => alloc::format!("interest {}", Interest::decode(&packet).unwrap().name),
            (Some(types::INTEREST), Some(why)) => {
                alloc::format!("nack {} {}", why.number(), Interest::decode(&packet).unwrap().name)
            }
            (Some(types::DATA), _) => alloc::format!("data {}", Data::decode(&packet).unwrap().name),
            _ => "idle".into(),
        }
    }
}

/// A router with faces 1 to 4 of known rate, so that none is measured, and its clock.
struct Bench {
    router: Router,
    now: Time,
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}
fn profile(mtu: u32) -> FaceProfile {
    FaceProfile::from(FaceOptions { mtu, rate: None })
}
fn interest(text: &str, nonce: u64) -> Bytes {
    Interest { nonce: Some(Nonce::from(nonce)), ..Interest::new(NameView::from(&name(text))) }.encode().into()
}
fn data(text: &str) -> Bytes {
    data_of(text, b"content")
}
fn data_of(text: &str, content: &[u8]) -> Bytes {
    let meta = MetaInfo { freshness_millis: Some(1000), ..MetaInfo::default() };
    Data { meta: Some(meta), ..Data::new(NameView::from(&name(text)), content) }.sign(&SignKey::Digest).into()
}

impl Bench {
    fn new(secret: u8, set: impl FnOnce(&mut Config)) -> Bench {
        // Of one byte repeated, hashes would be poor ones.
        let mut random = Random::new(u64::from(secret), 0);
        let mut config = Config::new("", 0);
        set(&mut config);
        let mut router = Router::new(config, core::array::from_fn(|_| random.bits() as u8));
        let known = FaceProfile { rate: Some(Rate::from_mbps(10_000)), ..profile(1472) };
        (1..=4).for_each(|face| assert!(router.add_face(FaceId(face), known.clone())));
        Bench { router, now: Time::ZERO }
    }
    fn with_routes(routes: &[(&str, u32)]) -> Bench {
        let mut bench = Bench::new(1, |_| {});
        bench.routes(routes);
        bench
    }
    fn routes(&mut self, routes: &[(&str, u32)]) {
        for (cost, (prefix, face)) in routes.iter().enumerate() {
            assert!(self.router.add_route(&name(prefix), FaceId(*face), cost as u64));
        }
    }
    fn at(&mut self, millis: u64) -> &mut Self {
        self.now = Time::from_millis(millis);
        while self.router.poll_timeout().is_some_and(|due| due <= self.now) {
            self.router.handle_timeout(self.now);
        }
        self
    }
    /// Passes it a packet with headers; returns the packets that it sends.
    fn recv_with(&mut self, face: u32, headers: &LpPacket<'_>, packet: &Bytes) -> Vec<Sent> {
        let full = LpPacket { fragment: Some(packet), ..headers.clone() }.encode();
        self.recv(face, &Bytes::from(full))
    }
    fn recv(&mut self, face: u32, packet: &Bytes) -> Vec<Sent> {
        self.router.handle_datagram(self.now, FaceId(face), Datagram::from(packet.clone()));
        self.sent()
    }
    fn sent(&mut self) -> Vec<Sent> {
        let mut batch = TransmitBuf::new();
        let mut all = Vec::new();
        while let Some(transmit) = self.router.poll_transmit(&mut batch) {
            all.extend(batch.drain().map(|datagram| Sent { face: transmit.face.0, bytes: datagram.to_vec().into() }));
        }
        all
    }
    fn what(sent: &[Sent]) -> Vec<(u32, String)> {
        sent.iter().map(|sent| (sent.face, sent.what())).collect()
    }
    fn dropped(&self, reason: &str) -> u64 {
        self.router.stats.dropped.get(reason).copied().unwrap_or(0)
    }
}

/// Compares sent packets with the expected ones, as `(face, what)`.
#[track_caller]
fn expect(sent: &[Sent], expected: &[(u32, &str)]) {
    let found = Bench::what(sent);
    let found: Vec<(u32, &str)> = found.iter().map(|(face, what)| (*face, what.as_str())).collect();
    assert_eq!(found, expected);
}
