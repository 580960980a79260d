//! Three paths of 20, 12 and 8 Mbit/s, each to a separate source, compared with the fluid bound.
//!
//! ```text
//!  publisher-1 ── 20 Mbit/s, 20 ms ──┐
//!  publisher-2 ── 12 Mbit/s, 20 ms ──┼── receiver (and all that holds the network together)
//!  publisher-3 ──  8 Mbit/s, 20 ms ──┘
//! ```
//! Real daemons and datagrams; each daemon delays, queues and drops its outgoing packets as the link would.
//!
//! The fluid bound is the time that the file takes if every link carries 1,448 bytes of payload in each packet of
//! 1,500 bytes from the first moment on, without round trips: 50 MB over 40 Mbit/s are 10.36 s. An outage takes its
//! link's share of the capacity for its time (12.56 s), loss takes its share of every link (10.46 s at 1 %).
use std::{
    net::SocketAddr,
    thread::sleep,
    time::{Duration, Instant},
};

use super::{Context, Findings, add, clear, ours::NAME, rivals::Source};
use crate::{
    Outcome,
    harness::{
        figure::Figure,
        process::Process,
        rounds::{Contender, Sample, take_turns},
        stage::Stage,
        targets::{self, Target},
        trib::{Daemon, Done, Face, NodeSpec, Trib},
    },
    note,
};

/// Bytes of the file.
pub(super) const SIZE: u64 = 50_000_000;
/// Rates of the links in Mbit/s, the best one first.
pub(super) const LINKS_MBPS: [f64; 3] = [20.0, 12.0, 8.0];
/// Half of the round-trip time.
pub(super) const DELAY: &str = "20ms";
/// Room in front of each link: a quarter of a second of the slowest one.
pub(super) const QUEUE: &str = "256KiB";
/// Share of a link that payload can have.
const PAYLOAD_SHARE: f64 = 1_448.0 / 1_500.0;
/// How long a fetch may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// What happens to the links.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Trouble {
    None,
    /// The best link is silent from, until, in seconds after the request.
    Outage(f64, f64),
    /// This share of the packets of every link is lost, in both directions.
    Loss(f64),
}

/// Without trouble (target 7).
pub(super) fn run(context: &mut Context<'_>) -> Outcome<Findings> {
    measure(context, Trouble::None, targets::PATHS)
}
/// With an outage of the best path (target 8).
pub(super) fn run_failure(context: &mut Context<'_>) -> Outcome<Findings> {
    measure(context, Trouble::Outage(2.2, 6.6), targets::PATHS_FAILURE)
}
/// With loss on all paths (target 9).
pub(super) fn run_loss(context: &mut Context<'_>) -> Outcome<Findings> {
    measure(context, Trouble::Loss(0.01), targets::PATHS_LOSS)
}

fn measure(context: &mut Context<'_>, trouble: Trouble, target: Target) -> Outcome<Findings> {
    let source = Source::make(&mut context.stage, SIZE)?;
    let (stage, trib) = (&context.stage, &context.trib);
    let mut findings = Findings::default();
    let mut contenders = Vec::new();
    let contender = Contender::new("trib", || fetch(trib, stage, &source, trouble));
    add(&mut contenders, &mut findings, "trib", Ok(contender));
    take_turns(context.arguments.rounds(), &mut contenders, || Ok(()));
    findings.notes.extend(contenders.iter().filter_map(Contender::failure));
    let Some(ours) = contenders.first().filter(|ours| ours.is_complete()) else { return Ok(findings) };
    let bound = fluid_seconds(SIZE, trouble);
    let seconds = ours.values(|sample| sample.seconds);
    findings.figures.push(Figure::new("time", "s", seconds).rival("fluid bound", vec![bound]).judged(target));
    let cpu = |sample: &Sample| sample.server_cpu_seconds + sample.client_cpu_seconds;
    findings.figures.push(Figure::new("CPU of all daemons", "s", ours.values(cpu)));
    findings.notes.push(format!(
        "the bound is {bound:.2} s: {SIZE} bytes at {:.4} of {:.0} Mbit/s{}, without any round trip",
        PAYLOAD_SHARE,
        LINKS_MBPS.iter().sum::<f64>(),
        match trouble {
            Trouble::None => String::new(),
            Trouble::Outage(from, until) => format!(", without the best link from {from} to {until} s"),
            Trouble::Loss(share) => format!(", of which {} % are lost", share * 100.0),
        },
    ));
    Ok(findings)
}

/// Sets up the network, fetches once, and removes it.
pub(super) fn fetch(trib: &Trib, stage: &Stage, source: &Source, trouble: Trouble) -> Outcome<Sample> {
    let network = Network::start(trib, stage, source, trouble)?;
    let output = stage.path("paths-output");
    clear(&output)?;
    let before = network.cpu_seconds()?;
    let get = trib.get_by(stage, &network.receiver, NAME, &output)?;
    let printed = network.run(&get, trouble)?;
    let ended = get.finish(PATIENCE)?;
    let lines: Vec<String> = printed.into_iter().chain(ended.lines).collect();
    let done = Done::read(&lines)?;
    let after = network.cpu_seconds()?;
    source.take(&output)?;
    for (source, bytes, hops) in &done.paths {
        note(&format!("    {source}: {:.1} MB over {hops} hops", *bytes as f64 / 1e6));
    }
    note(&format!("    asked again for {:.1} MB", done.retransmitted as f64 / 1e6));
    Ok(Sample {
        bytes: done.bytes,
        seconds: done.seconds,
        server_cpu_seconds: after.0 - before.0,
        client_cpu_seconds: after.1 - before.1 + ended.cpu_seconds,
        ..Sample::default()
    })
}

struct Network {
    receiver: Daemon,
    publishers: Vec<Daemon>,
}

impl Network {
    fn start(trib: &Trib, stage: &Stage, source: &Source, trouble: Trouble) -> Outcome<Network> {
        let receiver_at = stage.address()?;
        let publishers_at: Vec<SocketAddr> = LINKS_MBPS.iter().map(|_| stage.address()).collect::<Outcome<_>>()?;
        let loss = if let Trouble::Loss(share) = trouble { format!(", loss = {share}") } else { String::new() };
        let face = |peer: SocketAddr, mbps: f64| Face {
            egress: Some(format!("rate = \"{mbps}Mbps\", delay = \"{DELAY}\", queue = \"{QUEUE}\"{loss}")),
            ..Face::to(peer)
        };
        let receiver = NodeSpec::new("receiver", &["receiver", "router", "resolver", "topology-manager"])
            .listen(receiver_at)
            .faces(publishers_at.iter().zip(LINKS_MBPS).map(|(peer, mbps)| face(*peer, mbps)).collect())
            .start(trib, stage)?;
        let mut publishers = Vec::new();
        for (index, (address, mbps)) in publishers_at.iter().zip(LINKS_MBPS).enumerate() {
            publishers.push(
                NodeSpec::new(format!("publisher-{}", index + 1), &["sender"])
                    .listen(*address)
                    .face(face(receiver_at, mbps))
                    .publish(NAME, &source.path)
                    .start(trib, stage)?,
            );
        }
        for publisher in &publishers {
            publisher.wait_until_published()?;
        }
        receiver.wait_until_neighbours(publishers.len())?;
        Ok(Network { receiver, publishers })
    }
    /// Causes the fault while `get` runs, and returns the lines that `get` has printed.
    fn run(&self, get: &Process, trouble: Trouble) -> Outcome<Vec<String>> {
        let first = get.line(PATIENCE)?;
        let start = Instant::now();
        if let Trouble::Outage(from, until) = trouble {
            for (moment, up) in [(from, false), (until, true)] {
                sleep(Duration::from_secs_f64(moment).saturating_sub(start.elapsed()));
                // Both ends, so that nothing passes in either direction.
                self.receiver.set_link(1, up)?;
                self.publishers[0].set_link(1, up)?;
            }
        }
        Ok(vec![first])
    }
    /// CPU time of publishers and of the receiver.
    fn cpu_seconds(&self) -> Outcome<(f64, f64)> {
        let publishers = self.publishers.iter().map(|daemon| daemon.process.cpu_seconds()).sum::<Outcome<f64>>()?;
        Ok((publishers, self.receiver.process.cpu_seconds()?))
    }
}

/// The fluid bound in seconds.
fn fluid_seconds(bytes: u64, trouble: Trouble) -> f64 {
    let bits = bytes as f64 * 8.0 / PAYLOAD_SHARE / 1e6;
    let total: f64 = LINKS_MBPS.iter().sum();
    match trouble {
        Trouble::None => bits / total,
        Trouble::Loss(share) => bits / total / (1.0 - share),
        Trouble::Outage(from, until) => {
            let without = total - LINKS_MBPS[0];
            match bits - total * from {
                left if left <= 0.0 => bits / total,
                left if left <= without * (until - from) => from + left / without,
                left => until + (left - without * (until - from)) / total,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fluid_bounds_are_those_of_the_targets() {
        let near =
            |trouble, seconds: f64| assert!((fluid_seconds(SIZE, trouble) - seconds).abs() < 0.005, "{trouble:?}");
        near(Trouble::None, 10.36);
        near(Trouble::Outage(2.2, 6.6), 12.56);
        near(Trouble::Loss(0.01), 10.46);
        // An outage after the end changes nothing; one without an end leaves the two other links.
        near(Trouble::Outage(11.0, 12.0), 10.36);
        near(Trouble::Outage(0.0, 1e9), 20.72);
    }
}
