//! `trib` as a contender: publishers and forwarders run through all rounds, each fetch is a new process.
use std::{cell::RefCell, net::SocketAddr, path::PathBuf, rc::Rc};

use super::{
    clear,
    rivals::{Source, TRANSFER_PATIENCE},
};
use crate::{
    Outcome,
    harness::{
        process::Process,
        rounds::{Contender, Sample},
        stage::{Stage, hash_of},
        trib::{Daemon, Done, Face, NodeSpec, Trib},
    },
};

/// The name under which everything is published.
pub(super) const NAME: &str = "/bench/file";

/// Roles of the node that holds the network together.
pub(super) const HUB: &[&str] = &["router", "resolver", "topology-manager"];

/// A network in which a receiver fetches.
pub(super) struct Ground<'a> {
    trib: &'a Trib,
    stage: &'a Stage,
    source: Source,
    publishers: Vec<Daemon>,
    hops: Vec<Daemon>,
    receiver: NodeSpec,
    is_checked: RefCell<bool>,
}

impl<'a> Ground<'a> {
    /// One publisher and one receiver as neighbours. With an `mtu`, faces may carry datagrams up to it.
    pub(super) fn pair(
        trib: &'a Trib,
        stage: &'a Stage,
        source: &Source,
        prefix: &str,
        mtu: Option<u32>,
    ) -> Outcome<Rc<Ground<'a>>> {
        let receiver_at = stage.address()?;
        // The publisher must name the receiver only to allow larger datagrams.
        let faces = if mtu.is_some() { vec![Face { mtu, ..Face::to(receiver_at) }] } else { Vec::new() };
        let publisher =
            NodeSpec::new(format!("{prefix}-publisher"), &["sender", "router", "resolver", "topology-manager"])
                .faces(faces)
                .publish(NAME, &source.path)
                .start(trib, stage)?;
        publisher.wait_until_published()?;
        let receiver = NodeSpec {
            label: format!("{prefix}-receiver"),
            roles: &["receiver"],
            listen: mtu.map(|_| receiver_at),
            faces: vec![Face { mtu, ..Face::to(publisher.address) }],
            ..NodeSpec::default()
        };
        Ok(Ground::new(trib, stage, source, vec![publisher], Vec::new(), receiver))
    }
    /// `count` publishers, each next to the receiver; the first one holds the network together.
    pub(super) fn sources(trib: &'a Trib, stage: &'a Stage, source: &Source, count: usize) -> Outcome<Rc<Ground<'a>>> {
        let mut publishers: Vec<Daemon> = Vec::new();
        for index in 0..count {
            let roles: &[&str] =
                if index == 0 { &["sender", "router", "resolver", "topology-manager"] } else { &["sender"] };
            let first: Vec<SocketAddr> = publishers.iter().map(|publisher| publisher.address).take(1).collect();
            publishers.push(
                NodeSpec::new(format!("source-{}", index + 1), roles)
                    .faces(first.into_iter().map(Face::to).collect())
                    .publish(NAME, &source.path)
                    .start(trib, stage)?,
            );
        }
        for publisher in &publishers {
            publisher.wait_until_published()?;
        }
        let receiver = NodeSpec {
            label: "sources-receiver".into(),
            roles: &["receiver"],
            faces: publishers.iter().map(|publisher| Face::to(publisher.address)).collect(),
            // The direct path to each; those through the first publisher would be longer and no faster.
            sections: "[transfer]\npaths_per_source = 1\n".into(),
            ..NodeSpec::default()
        };
        Ok(Ground::new(trib, stage, source, publishers, Vec::new(), receiver))
    }
    /// A publisher and a receiver on both sides of one forwarder with a cache of `cache_bytes`.
    pub(super) fn hop(
        trib: &'a Trib,
        stage: &'a Stage,
        source: &Source,
        prefix: &str,
        cache_bytes: u64,
    ) -> Outcome<Rc<Ground<'a>>> {
        let forwarder = NodeSpec::new(format!("{prefix}-forwarder"), HUB)
            .sections(format!("[psi]\ncache_size = \"{cache_bytes}B\"\n"))
            .start(trib, stage)?;
        let publisher = NodeSpec::new(format!("{prefix}-publisher"), &["sender"])
            .face(Face::to(forwarder.address))
            .publish(NAME, &source.path)
            .start(trib, stage)?;
        publisher.wait_until_published()?;
        let receiver = NodeSpec::new(format!("{prefix}-receiver"), &["receiver"]).face(Face::to(forwarder.address));
        Ok(Ground::new(trib, stage, source, vec![publisher], vec![forwarder], receiver))
    }
    /// A publisher and a receiver of MobilityFirst on both sides of one router without a content cache.
    pub(super) fn mf_hop(trib: &'a Trib, stage: &'a Stage, source: &Source) -> Outcome<Rc<Ground<'a>>> {
        let node = |label: &str, roles, faces| NodeSpec::new(format!("mf-{label}"), roles).family("mf").faces(faces);
        let sections = "[mf]\ncache_size = \"0B\"\n".into();
        let router = NodeSpec { sections, ..node("router", &["router", "resolver"], Vec::new()) };
        let router = trib.node(stage, &router)?;
        let publish = Some((NAME.into(), source.path.clone()));
        let to_router = || vec![Face::to(router.address)];
        let publisher = trib.node(stage, &NodeSpec { publish, ..node("publisher", &["sender"], to_router()) })?;
        publisher.wait_until_published()?;
        let receiver = node("receiver", &["receiver"], to_router());
        Ok(Ground::new(trib, stage, source, vec![publisher], vec![router], receiver))
    }
    pub(super) fn contender(self: &Rc<Ground<'a>>, name: impl Into<String>) -> Contender<'a> {
        let ground = Rc::clone(self);
        Contender::new(name, move || ground.fetch())
    }
    /// Fetches once with a fresh receiver.
    pub(super) fn fetch(&self) -> Outcome<Sample> {
        let output = self.output();
        clear(&output)?;
        let cpu = |daemons: &[Daemon]| daemons.iter().map(|daemon| daemon.process.cpu_seconds()).sum::<Outcome<f64>>();
        let peak = |daemons: &[Daemon]| daemons.iter().map(|daemon| daemon.process.peak_bytes()).max().unwrap_or(0);
        let before = (cpu(&self.publishers)?, cpu(&self.hops)?);
        let get = self.trib.get_here(self.stage, &self.receiver, NAME, &output)?;
        let ended = get.finish(TRANSFER_PATIENCE)?;
        let after = (cpu(&self.publishers)?, cpu(&self.hops)?);
        let done = Done::read(&ended.lines)?;
        self.check(&output, &done)?;
        clear(&output)?;
        Ok(Sample {
            bytes: done.bytes,
            seconds: done.seconds,
            server_cpu_seconds: after.0 - before.0,
            hop_cpu_seconds: after.1 - before.1,
            client_cpu_seconds: ended.cpu_seconds,
            server_peak_bytes: peak(&self.publishers),
            hop_peak_bytes: peak(&self.hops),
            client_peak_bytes: ended.peak_bytes,
            cached_bytes: done.cached_bytes,
        })
    }
    /// The largest datagram that the neighbours have proven to get through, as the publisher sees it during a fetch.
    pub(super) fn mtu(&self) -> Option<u64> {
        let output = self.output();
        let get: Process = self.trib.get_here(self.stage, &self.receiver, NAME, &output).ok()?;
        let mut largest = None;
        for _ in 0..MTU_LOOKS {
            std::thread::sleep(MTU_LOOK);
            let status = self.publishers.first()?.status().ok()?;
            let faces = status["faces"].as_array()?;
            largest = largest.max(faces.iter().filter_map(|face| face["mtu"].as_u64()).max());
        }
        drop(get);
        clear(&output).ok()?;
        largest
    }

    fn new(
        trib: &'a Trib,
        stage: &'a Stage,
        source: &Source,
        publishers: Vec<Daemon>,
        hops: Vec<Daemon>,
        receiver: NodeSpec,
    ) -> Rc<Ground<'a>> {
        let is_checked = RefCell::new(false);
        Rc::new(Ground { trib, stage, source: source.clone(), publishers, hops, receiver, is_checked })
    }
    fn output(&self) -> PathBuf {
        self.stage.path(&format!("{}-output", self.receiver.label))
    }
    /// Compares the received object with the source: the length always, every byte the first time.
    fn check(&self, output: &std::path::Path, done: &Done) -> Outcome {
        let length = std::fs::metadata(output)?.len();
        if length != self.source.size || done.bytes != length {
            return Err(format!("{length} of {} bytes arrived, {} were reported", self.source.size, done.bytes).into());
        }
        if !self.is_checked.replace(true) && hash_of(output)? != self.source.hash {
            return Err("the received file differs from the published one".into());
        }
        Ok(())
    }
}

/// How often, and at which intervals, the MTU is checked.
const MTU_LOOKS: u32 = 10;
/// See [`MTU_LOOKS`].
const MTU_LOOK: std::time::Duration = std::time::Duration::from_millis(50);
