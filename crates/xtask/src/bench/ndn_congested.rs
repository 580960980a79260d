//! NDN over a narrow link between two forwarders, with a finite queue in front of it: the value of the consumer's
//! window.
//!
//! ```text
//!  producer ── near ── 25 Mbit/s, 10 ms, queue of 64 KiB ── far ── consumer
//! ```
//! Our forwarders over UDP with the emulated link on their sockets; the same link for our programs and for ndnd's.
use std::time::Duration;

use super::{Context, Findings, clear, ndnd, ours::NAME, rivals::Source};
use crate::{
    Outcome,
    harness::{
        figure::Figure,
        stage::{Stage, hash_of},
        tools,
        trib::{Daemon, Done, Face, NodeSpec, Trib},
    },
    note,
};

/// Bytes of the file: some seconds on the link.
const SIZE: u64 = 25_000_000;
const RATE_MBPS: f64 = 25.0;
const DELAY: &str = "10ms";
const QUEUE: &str = "64KiB";
/// How long one fetch may take: three times the link's time.
const PATIENCE: Duration = Duration::from_secs(30);
/// The name of the file that `ndnd put` publishes.
const THEIRS: &str = "/bench/theirs";

pub(super) fn run(context: &mut Context<'_>) -> Outcome<Findings> {
    let source = Source::make(&mut context.stage, SIZE)?;
    let (stage, trib) = (&context.stage, &context.trib);
    let network = Network::start(trib, stage, &source)?;
    let (mut goodput, mut carried, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=context.arguments.rounds() {
        let fetched = network.fetch(trib, stage, &source)?;
        note(&format!("  trib, round {round}: {:.2} Mbit/s", fetched.goodput_mbps));
        goodput.push(fetched.goodput_mbps);
        carried.push(fetched.carried_mbps / RATE_MBPS);
        repeated.push(fetched.repeated);
    }
    let mut findings = Findings::default();
    let figures = &mut findings.figures;
    figures.push(Figure::new("share of the link's rate that datagrams of the fetch took", "", carried));
    figures.push(Figure::new("goodput, verified", "Mbit/s", goodput));
    figures.push(Figure::new("share of the payload requested again", "", repeated));
    match network.theirs(stage, &source, context.arguments.rounds()) {
        Ok((done, rounds)) => findings.notes.push(format!(
            "ndnd put and ndnd cat over the same link and the same forwarders: {done} of {rounds} fetches were complete \
             within {} s",
            PATIENCE.as_secs()
        )),
        Err(error) => findings.notes.push(format!("ndnd's programs over the same link: {error}")),
    }
    findings.notes.push(format!(
        "the link: {RATE_MBPS} Mbit/s, {DELAY} each way, a queue of {QUEUE}; rates of the link count UDP payload"
    ));
    Ok(findings)
}

struct Network {
    far: Daemon,
    /// They run as long as the network.
    _daemons: [Daemon; 2],
}

struct Fetched {
    goodput_mbps: f64,
    carried_mbps: f64,
    repeated: f64,
}

impl Network {
    fn start(trib: &Trib, stage: &Stage, source: &Source) -> Outcome<Network> {
        let (near_at, far_at) = (stage.address()?, stage.address()?);
        let egress = Some(format!("rate = \"{RATE_MBPS}Mbps\", delay = \"{DELAY}\", queue = \"{QUEUE}\""));
        let sections = "[ndn]\ncache_size = \"0B\"\nremote_registration = \"neighbours\"\n";
        let router = |label: &str, listen, peer, more: &str| NodeSpec {
            label: label.into(),
            family: Some("ndn"),
            roles: &["router"],
            listen: Some(listen),
            streams: vec![format!("unix://{}", stage.path(label).with_extension("sock").display())],
            faces: vec![Face { egress: egress.clone(), more: more.into(), ..Face::to(peer) }],
            sections: sections.into(),
            ..NodeSpec::default()
        };
        let near = trib.node(stage, &router("near", near_at, far_at, ""))?;
        let far = trib.node(stage, &router("far", far_at, near_at, "routes = [\"/\"]"))?;
        let producer = NodeSpec::new("producer", &["sender"])
            .family("ndn")
            .face(Face { more: "register = \"localhop\"".into(), ..Face::to(near_at) })
            .publish(NAME, &source.path);
        let producer = trib.node(stage, &producer)?;
        producer.wait_until_published()?;
        Ok(Network { far, _daemons: [near, producer] })
    }
    fn fetch(&self, trib: &Trib, stage: &Stage, source: &Source) -> Outcome<Fetched> {
        let output = stage.path("congested-output");
        clear(&output)?;
        let consumer = NodeSpec::new("consumer", &["receiver"])
            .family("ndn")
            .face(Face { more: "routes = [\"/\"]".into(), ..Face::to(self.far.address) });
        let before = self.received_bytes()?;
        let ended = trib.get_here(stage, &consumer, NAME, &output)?.finish(PATIENCE)?;
        let done = Done::read(&ended.lines)?;
        let carried = self.received_bytes()? - before;
        source.take(&output)?;
        let mbps = |bytes: u64| bytes as f64 * 8.0 / done.seconds / 1e6;
        Ok(Fetched {
            goodput_mbps: mbps(done.bytes),
            carried_mbps: mbps(carried),
            repeated: done.retransmitted as f64 / done.bytes as f64,
        })
    }
    /// Bytes received over the narrow link.
    fn received_bytes(&self) -> Outcome<u64> {
        let status = self.far.status()?;
        Ok(status["faces"][0]["received_bytes"].as_u64().ok_or("the far forwarder reports no bytes of its link")?)
    }
    /// Fetches of ndnd's programs that were complete, of how many.
    fn theirs(&self, stage: &Stage, source: &Source, rounds: usize) -> Outcome<(usize, usize)> {
        let ndnd = tools::find("ndnd").ok_or_else(|| tools::missing("ndnd", "over the same link"))?;
        let _put = ndnd::put(&ndnd, stage, "ndnd-put", THEIRS, source, &stage.path("near.sock"))?;
        let output = stage.path("ndnd-output");
        let mut done = 0;
        for round in 1..=rounds {
            clear(&output)?;
            let is_complete =
                ndnd::cat(&ndnd, stage, "ndnd-cat", THEIRS, &output, &ndnd::transport(&stage.path("far.sock")))
                    .and_then(|cat| cat.finish(PATIENCE))
                    .and_then(|_| Ok(hash_of(&output)? == source.hash))
                    .unwrap_or(false);
            note(&format!("  ndnd, round {round}: {}", if is_complete { "complete" } else { "not complete" }));
            done += usize::from(is_complete);
        }
        clear(&output)?;
        Ok((done, rounds))
    }
}
