//! The processor time that a packet from a forged address costs a node, compared with the same packet from a neighbour.
//!
//! `cargo run --release -p tributary-testkit --features psi,ndn,mf --example forged_cost [PACKETS]`
//!
//! Forged packets come from ever new addresses, and a driver keeps some hundreds of them; each new one closes the
//! oldest face. Tests in the families bound the decisive counts, of signatures and searches; this measures the rest.
#![expect(clippy::print_stdout, reason = "a benchmark prints what it measures")]
use std::{collections::VecDeque, time::Duration as Elapsed};

use nix::time::{ClockId, clock_gettime};
use tributary_content::{Name, SigningKey};
use tributary_core::{
    Datagram, Duration, FaceChange, FaceId, NodeId, Outlet, Time, Transmit, TransmitBuf, event::Event, pump,
};
use tributary_transport::{Endpoint, FaceOptions};

/// Unsolicited faces that a driver keeps.
const FACES: usize = 512;
/// The face of the neighbour.
const KNOWN: FaceId = FaceId(1);

struct Nowhere;
impl Outlet for Nowhere {
    fn transmit(&mut self, _: Time, _: Transmit, batch: &mut TransmitBuf) {
        let _ = batch.drain().count();
    }
    fn event(&mut self, _: Time, _: Event) {}
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let packets = std::env::args().nth(1).map_or(Ok(20_000), |text| text.parse())?;
    let psi =
        || tributary_psi::PsiNode::new(tributary_psi::Config { router: true, ..tributary_psi::Config::new("a", 1) });
    measure("psi hello", packets, psi, psi_hello);
    let ndn = || tributary_ndn::NdnNode::new(tributary_ndn::Config::new("a", 1));
    measure("ndn Interest", packets, ndn, ndn_interest);
    let mf = || {
        let config = tributary_mf::Config::new("a", 1);
        tributary_mf::MfNode::new(tributary_mf::Config { router: true, ..config })
    };
    measure("mf hello", packets, mf, mf_hello);
    Ok(())
}

fn measure<N: Endpoint>(what: &str, packets: u32, make: impl Fn() -> N, packet: impl Fn(u32) -> Vec<u8>) {
    let run = |is_forged: bool| {
        let mut node = make();
        let options = FaceOptions { mtu: 1_472, rate: None };
        let (mut now, mut faces, mut batch) = (Time::from_millis(1_000), VecDeque::new(), TransmitBuf::new());
        node.add_face(now, KNOWN, options);
        let all: Vec<Datagram> = (1..=packets).map(|number| Datagram::from(packet(number))).collect();
        pump(&mut node, now, &mut Nowhere, &mut batch);
        let begun = processor_time();
        for (number, datagram) in (2..).zip(all) {
            now += Duration::from_micros(50);
            let face = if is_forged { FaceId(number) } else { KNOWN };
            node.handle_datagram(now, face, datagram);
            pump(&mut node, now, &mut Nowhere, &mut batch);
            if is_forged {
                faces.push_back(face);
                if faces.len() > FACES
                    && let Some(oldest) = faces.pop_front()
                {
                    node.handle_face(now, oldest, FaceChange::Closed);
                    pump(&mut node, now, &mut Nowhere, &mut batch);
                }
            }
        }
        (processor_time() - begun).as_secs_f64() * 1e6 / f64::from(packets)
    };
    let (honest, forged) = (run(false), run(true));
    println!(
        "{what}: {honest:.2} us from a neighbour, {forged:.2} us from a new address, {:.1} times",
        forged / honest
    );
}

fn psi_hello(number: u32) -> Vec<u8> {
    use tributary_psi::{ids::Roles, wire};
    let hello = wire::Hello {
        node: NodeId(9),
        nonce: 7,
        face: FaceId(3),
        roles: Roles::ROUTER,
        label: "forged".into(),
        sent_us: u64::from(number),
        heard: None,
        padding_bytes: 0,
    };
    let header = wire::Header { packet_type: wire::PacketType::Hello, flags: 0, ttl: 1, fid: wire::Fid::NONE };
    let mut packet = Vec::new();
    header.encode(&mut packet);
    let start = packet.len();
    wire::Wire::encode(&hello, &mut packet);
    wire::seal(&[0; 32], &mut packet, start);
    packet
}
fn ndn_interest(number: u32) -> Vec<u8> {
    use tributary_ndn::{
        ids::Nonce,
        wire::{Interest, NameView},
    };
    let name: Name = format!("/nobody/has/{number}").parse().expect("a name");
    Interest { nonce: Some(Nonce::from(u64::from(number))), ..Interest::new(NameView::from(&name)) }.encode()
}
fn mf_hello(number: u32) -> Vec<u8> {
    use tributary_mf::{ids::NetworkAddress, wire};
    let key = SigningKey::from_secret(&[9; 32]);
    let hello = wire::Hello {
        roles: wire::Roles::ROUTER,
        accepts: false,
        wants_answer: false,
        sequence: number,
        probe: wire::Probe::default(),
        nonce: 7,
        echo: 0,
        address: NetworkAddress(9),
        datagram_bytes: 1_472,
        window: 1_000,
        key: key.public(),
        label: "forged".into(),
        signature: None,
    };
    let mut packet = Vec::new();
    hello.encode(&mut packet);
    packet
}

fn processor_time() -> Elapsed {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Elapsed::ZERO, Elapsed::from)
}
