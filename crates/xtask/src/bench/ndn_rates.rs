//! NDN: a forwarder's measurement of a link whose rate is not configured, compared with the link's real rate.
//!
//! ```text
//!  producer and forwarder ── a link of 0.2 to 400 Mbit/s, 10 ms ── consumer
//! ```
//! Each link is measured while a fetch fills it, over the kernel's UDP; each fetch has a new link and nodes.
use std::time::Duration;

use super::{Context, Findings, clear, ours::NAME, rivals::Source};
use crate::{
    Outcome,
    harness::{
        emulator::{Emulator, Link},
        figure::Figure,
        stage::Stage,
        trib::{Face, NodeSpec, Trib},
    },
    note,
};

/// Rates of links in Mbit/s; the last one is too fast to be measured (32 packets in less than two milliseconds).
const RATES_MBPS: [f64; 6] = [0.2, 1.0, 5.0, 25.0, 100.0, 400.0];
/// How long a fetch keeps a link busy: three trains long enough to measure the rate, and those before.
const SECONDS: f64 = 6.0;
const PATIENCE: Duration = Duration::from_secs(30);
const DELAY_MS: f64 = 10.0;
/// Bytes of a packet of a train, and of the UDP and IP headers that the link carries with it.
const PACKET_BYTES: f64 = 1_200.0;
const HEADER_BYTES: f64 = 28.0;
const PRODUCER: usize = 0;
const CONSUMER: usize = 1;
/// The only link.
const LINK: usize = 0;

pub(super) fn run(context: &mut Context<'_>) -> Outcome<Findings> {
    let mut findings = Findings::default();
    for mbps in RATES_MBPS {
        let source = Source::make(&mut context.stage, (mbps * 1e6 / 8.0 * SECONDS) as u64)?;
        let (stage, trib, rounds) = (&context.stage, &context.trib, context.arguments.rounds());
        let mut measured = Vec::new();
        for round in 1..=rounds {
            let found = measure(trib, stage, &source, mbps)?;
            note(&format!("  {mbps} Mbit/s, round {round}: {found:?} Mbit/s of UDP payload"));
            measured.extend(found.map(|found| found / (mbps * PACKET_BYTES / (PACKET_BYTES + HEADER_BYTES))));
        }
        if measured.len() < rounds {
            findings
                .notes
                .push(format!("{mbps} Mbit/s: nothing known after {} of {rounds} rounds", rounds - measured.len()));
        }
        if !measured.is_empty() {
            findings.figures.push(Figure::new(format!("measured ÷ rate of the link, {mbps} Mbit/s"), "", measured));
        }
    }
    findings.notes.push(format!(
        "the rate of the link as {PACKET_BYTES} bytes of UDP payload can use it beside {HEADER_BYTES} of headers"
    ));
    Ok(findings)
}

/// The rate that a producer's forwarder reports for the link to a consumer after a fetch over it.
fn measure(trib: &Trib, stage: &Stage, source: &Source, mbps: f64) -> Outcome<Option<f64>> {
    let link = Link { ends: [PRODUCER, CONSUMER], mbps, delay_ms: DELAY_MS, loss: 0.0, queue_kib: 64 };
    let emulator = Emulator::start(stage, 2, &[link], &[])?;
    let node = |label: &str, host: usize, roles: &'static [&'static str]| {
        NodeSpec::new(label, roles)
            .family("ndn")
            .inside(emulator.host(host))
            .listen((emulator.address(LINK, host), 6363).into())
            .sections("[ndn]\ncache_size = \"0B\"\n")
    };
    let producer = NodeSpec {
        publish: Some((NAME.into(), source.path.clone())),
        ..node("producer", PRODUCER, &["sender", "router"])
    };
    let producer = trib.node(stage, &producer)?;
    producer.wait_until_published()?;
    let face = Face { more: "routes = [\"/\"]".into(), ..Face::to(producer.address) };
    let consumer = NodeSpec { faces: vec![face], ..node("consumer", CONSUMER, &["receiver"]) };
    let output = stage.path("rates-output");
    clear(&output)?;
    trib.get_here(stage, &consumer, NAME, &output)?.finish(PATIENCE)?;
    source.take(&output)?;
    Ok(producer.status()?["faces"][0]["rate_mbps"].as_f64())
}
