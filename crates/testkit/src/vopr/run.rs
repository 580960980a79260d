//! One run: a phase with faults in which nothing bad may happen, then one without in which everything good must.
use std::collections::{BTreeMap, BTreeSet};

use tributary_content::Name;
use tributary_core::{Duration, Time, event::TransferReport};
use tributary_sim::NodeIndex;
use tributary_transport::{Endpoint, PathMetric};

use super::{
    canary::Canary,
    family::{Family, Usage},
    faults::{Fault, FaultKind},
    group_messages::REMINDED,
    ledger::{End, Narrator},
    plan::Plan,
    workload::{FetchSpec, Operation},
    world::{Person, World},
};

/// What a run has cost and shown.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// Its source.
    pub seed: u64,
    /// Steps of the simulator.
    pub events: u64,
    /// Packets that crossed a link.
    pub packets: u64,
    /// Virtual time.
    pub time: Time,
    /// Fetches that completed, including the last phase's.
    pub completed: u64,
    /// Fetches that failed, as they may while there are faults.
    pub failed: u64,
    /// Messages to groups delivered, counted once per recipient.
    pub delivered: u64,
    /// Messages to devices that were promised to be kept.
    pub promised: u64,
    /// How much of the time that everything running was given was needed, from 0 to 1.
    pub liveness: f64,
    /// Fingerprint of the whole run.
    pub trace_hash: u64,
}

/// How long the idle network is observed.
const QUIET: Duration = Duration::from_secs(10);
/// The idle time before that: fetches of withdrawn objects try the paths that the faults left them, and run out of
/// patience.
const CALM: Duration = Duration::from_secs(60);
/// How often reports are compared and nodes inspected.
const SLICE: Duration = Duration::from_millis(100);
/// How often refused watches are requested again.
const WATCH_AGAIN: Duration = Duration::from_secs(1);
/// The first number of the last phase's fetches.
const LAST_FETCHES: usize = 1_000_000;
/// Fetches of the last phase per receiver, and their maximum total bytes, not counting the first one.
const LAST_FETCHES_MAX: usize = 3;
const LAST_BYTES_MAX: u64 = 2_000_000;
/// Steps after which a run is considered stuck.
const EVENTS_MAX: u64 = 100_000_000;

/// Runs a plan.
///
/// # Panics
/// If the checkers here, [`crate::Checked`] or the nodes themselves find a violation.
pub fn run<F: Family>(plan: &Plan<F::Settings>, canary: Option<Canary>, narrator: Option<Narrator>) -> RunReport {
    let mut run = Run { world: World::<F>::new(plan, canary, narrator), liveness: 0.0, watched_again: Time::ZERO };
    run.faulty_phase();
    run.world.mend();
    run.until_satisfied("mended", run.deadline(F::settle(&plan.settings)), |run| run.what_is_missing(false));
    run.world.cancel_mail();
    run.publish_what_is_missing();
    if plan.groups.count > 0 {
        run.pass(F::groups_settle(&plan.settings));
    }
    run.fetch_everything();
    run.world.send_to_all_groups();
    let settled = F::settle(&plan.settings).mul_f64(0.5);
    run.until_satisfied("fetched again", run.deadline(settled), |run| run.what_is_missing(true));
    run.quiet_phase();
    run.check_stores();
    run.check_what_was_in_vain();
    run.report()
}

struct Run<'a, F: Family> {
    world: World<'a, F>,
    liveness: f64,
    watched_again: Time,
}

impl<F: Family> Run<'_, F> {
    fn faulty_phase(&mut self) {
        while self.world.net.now() < self.world.plan.mend {
            let end = (self.world.net.now() + SLICE).min(self.world.plan.mend);
            self.world.run_until(end);
            self.check();
        }
    }
    /// Runs until nothing is missing.
    fn until_satisfied(&mut self, phase: &str, deadline: Time, missing: impl Fn(&Self) -> Option<String>) {
        let began = self.world.net.now();
        let all = deadline.since(began).as_secs_f64();
        while let Some(what) = missing(self) {
            let now = self.world.net.now();
            if now >= deadline {
                self.log_status();
                self.world.log_mail();
            }
            assert!(
                now < deadline,
                "liveness: {:.1} s after everything was {phase}, {what}",
                now.since(began).as_secs_f64()
            );
            self.world.run_until(now + SLICE);
            self.check();
        }
        self.liveness = self.liveness.max(self.world.net.now().since(began).as_secs_f64() / all);
        self.world.log(|| format!("satisfied after it was {phase}"));
    }
    /// The state of all nodes, for the analysis of a finding.
    fn log_status(&self) {
        for node in (0..self.world.people.len()).filter(|node| self.world.is_alive(*node)) {
            let status = self.world.net.node(NodeIndex(node as u32)).inner().status(self.world.net.now());
            let usages = F::usages(self.world.net.node(NodeIndex(node as u32)).inner());
            self.world.log(|| {
                format!("node {node} ({}): {:?} {:?} {usages:?}", status.label, status.resolver, status.counters)
            });
            for line in F::stored(self.world.net.node(NodeIndex(node as u32)).inner()) {
                self.world.log(|| format!("node {node} stores {line}"));
            }
        }
    }
    fn report_of(&self, node: usize, want: &super::world::Want) -> Option<TransferReport> {
        self.world.net.node(NodeIndex(node as u32)).inner().report(self.world.net.now(), want.id?)
    }
    /// Bytes that fetches which have not ended have brought.
    fn bytes_so_far(&self) -> u64 {
        let people = self.world.people.iter().enumerate();
        let open = people.flat_map(|(node, person)| person.wants.iter().map(move |want| (node, want)));
        let open = open.filter(|(_, want)| want.end.is_none());
        let reports = open.filter_map(|(node, want)| self.report_of(node, want));
        reports.flat_map(|report| report.paths).map(|path| path.bytes).sum()
    }
    /// A required event that has not happened yet.
    fn what_is_missing(&self, last_phase: bool) -> Option<String> {
        let world = &self.world;
        let label = |node: usize| &world.plan.topology.nodes[node].label;
        let ledger = world.ledger.borrow();
        for (node, person) in world.people.iter().enumerate() {
            for object in person.published.keys() {
                let name = world.name(*object).to_string();
                if !ledger.is_published(node, &name) {
                    return Some(format!("{} was not told that '{name}' is published", label(node)));
                }
            }
            for want in &person.wants {
                // A fetch with a patience waits no longer than that, even if no publisher is left.
                let ends = last_phase || want.spec.patience.is_some() || self.has_publisher(node, want.spec.object);
                if want.end.is_none() && ends {
                    let id = want.id.map(|id| id.0);
                    let report = self.report_of(node, want);
                    let waits = want.spec.patience.is_none() || self.has_publisher(node, want.spec.object);
                    if waits && report.as_ref().is_some_and(|report| self.has_given_up(&want.spec, report)) {
                        continue;
                    }
                    return Some(format!("{} still fetches {:?} as {id:?}: {report:#?}", label(node), want.spec));
                }
            }
            for scope in &person.watches {
                let (seen, truth) = (ledger.view(node, scope), self.published_in(scope));
                if seen != truth {
                    return Some(format!("{} sees {seen:?} in '{scope}', where {truth:?} are published", label(node)));
                }
            }
        }
        drop(ledger);
        world.missing_mail(last_phase).or_else(|| world.missing_promise()).or_else(|| self.misfit())
    }
    fn misfit(&self) -> Option<String> {
        let world = &self.world;
        let inner = |node: usize| world.is_alive(node).then(|| world.net.node(NodeIndex(node as u32)).inner());
        let nodes: Vec<Option<&F::Node>> = (0..world.people.len()).map(inner).collect();
        let names = |person: &Person| person.published.keys().map(|object| world.name(*object)).collect();
        let published: Vec<BTreeSet<Name>> = world.people.iter().map(names).collect();
        F::misfit(world.plan, &nodes, &published)
    }
    /// Whether a fetch that started under forged data or with another version sends no requests to the present
    /// publishers of its object. It waits for others.
    fn has_given_up(&self, spec: &FetchSpec, report: &TransferReport) -> bool {
        let world = &self.world;
        let is_given_up = |label: &str| {
            let mut sources = report.sources.iter().filter(|source| source.label == label);
            sources.any(|source| source.closed.is_some() || source.distrusted.is_some())
        };
        let publishers = world.people.iter().zip(&world.plan.topology.nodes);
        let mut publishers = publishers.filter(|(person, _)| person.published.contains_key(&spec.object));
        publishers.all(|(_, node)| is_given_up(&node.label))
    }
    fn has_publisher(&self, receiver: usize, object: usize) -> bool {
        let publishers =
            self.world.people.iter().enumerate().filter(|(_, person)| person.published.contains_key(&object));
        let (plan, gone) = (self.world.plan, &self.world.gone);
        publishers.map(|(node, _)| node).any(|node| F::reaches(plan, gone, node, receiver))
    }
    fn published_in(&self, scope: &str) -> BTreeSet<String> {
        let objects = self.world.people.iter().flat_map(|person| person.published.keys());
        let names = objects.map(|object| self.world.plan.objects[*object].name.clone());
        names.filter(|name| name.rsplit_once('/').is_some_and(|(parent, _)| parent == scope)).collect()
    }
    /// The deadline for everything wanted: `settle`, plus three times the time needed to transfer all bytes
    /// sequentially over the slowest link, or with a window of some packets over the longest path.
    fn deadline(&self, settle: Duration) -> Time {
        let world = &self.world;
        let mut seconds = world.mail_seconds(|bytes, publishers, node| self.seconds(bytes, publishers, node));
        for (node, person) in world.people.iter().enumerate() {
            for want in person.wants.iter().filter(|want| want.end.is_none()) {
                let bytes = world.plan.objects[want.spec.object].sizes.iter().copied().max().unwrap_or(0);
                let publishers = world.people.iter().enumerate();
                let publishers = publishers.filter(|(_, person)| person.published.contains_key(&want.spec.object));
                let publishers: Vec<usize> = publishers.map(|(publisher, _)| publisher).collect();
                seconds += self.seconds(bytes, &publishers, node);
            }
        }
        let reminded = if world.has_mail() { REMINDED } else { Duration::ZERO };
        let wants = world.people.iter().flat_map(|person| &person.wants).filter(|want| want.end.is_none());
        let patience = wants.filter_map(|want| want.spec.patience).max().unwrap_or_default();
        world.net.now() + settle + reminded + patience + Duration::from_secs_f64(3.0 * seconds)
    }
    /// How long `bytes` may take from any of `publishers` to `node`.
    fn seconds(&self, bytes: u64, publishers: &[usize], node: usize) -> f64 {
        let world = &self.world;
        let bytes = bytes as f64 + 20_000.0;
        let widths = publishers.iter().filter_map(|publisher| world.plan.topology.widest(*publisher, node));
        let round_trip = widths.map(|(_, delay)| delay.as_secs_f64()).fold(0.0, f64::max) + 0.4;
        let packet = f64::from(world.plan.topology.nodes[node].transfer.packet_bytes.unwrap_or(1_200));
        let header_share = packet / (packet + 120.0);
        let narrow = world.plan.topology.links.iter().flat_map(|link| &link.directions);
        let narrow = narrow.filter_map(|way| way.rate).map(|rate| rate.bytes_per_second()).min();
        let rate = narrow.unwrap_or(u64::MAX).min(100_000_000) as f64 * header_share;
        bytes / rate.min(8.0 * packet / round_trip) + round_trip * 10.0
    }
    /// Objects without a publisher that some node may publish: a subscription to them must get a result.
    fn publish_what_is_missing(&mut self) {
        for object in 0..self.world.plan.objects.len() {
            if self.world.people.iter().any(|person| person.published.contains_key(&object)) {
                continue;
            }
            let publishers = self.world.plan.objects[object].publishers.iter().copied();
            let publishers: Vec<usize> = publishers.filter(|node| !self.world.gone.contains(node)).collect();
            let Some(&node) = publishers.get(object % publishers.len().max(1)) else { continue };
            let version = self.world.plan.objects[object].sizes.len() as u64;
            self.world.operate(&Operation::Publish { node, object, version });
        }
    }
    /// Every receiver fetches all available objects, with an empty store.
    fn fetch_everything(&mut self) {
        let mut number = LAST_FETCHES;
        let is_receiver = |world: &World<'_, F>, node: usize| world.plan.topology.nodes[node].receiver;
        let receivers = (0..self.world.people.len()).filter(|node| is_receiver(&self.world, *node));
        let receivers: Vec<usize> = receivers.filter(|node| self.world.is_alive(*node)).collect();
        for node in receivers {
            let (mut fetches, mut bytes) = (0, 0);
            for object in 0..self.world.plan.objects.len() {
                let size = self.world.plan.objects[object].sizes.iter().copied().max().unwrap_or(0);
                if !self.has_publisher(node, object) || fetches > 0 && bytes + size > LAST_BYTES_MAX {
                    continue;
                }
                if fetches == LAST_FETCHES_MAX {
                    break;
                }
                (fetches, bytes, number) = (fetches + 1, bytes + size, number + 1);
                let (paths, metric) = (4, PathMetric::Hops);
                let spec = FetchSpec { number, node, object, paths, metric, patience: None, limit: None };
                let vault = self.world.fresh_vault();
                self.world.want(spec, vault);
            }
        }
    }
    /// The idle phase: few packets are sent, and no state is left over.
    fn quiet_phase(&mut self) {
        let sent = |run: &Self| -> u64 { run.world.ledger.borrow().sent.iter().flatten().sum() };
        self.pass(CALM);
        let (before, brought) = (sent(self), self.bytes_so_far());
        let steps = self.world.net.stats().steps;
        self.pass(QUIET);
        // A fetch of a withdrawn object continues as far as caches have it.
        let is_idle = self.bytes_so_far() <= brought;
        let faces = self.world.plan.topology.links.len() as f64 * 2.0;
        let limit = F::idle_packets_max(&self.world.plan.settings) * faces * QUIET.as_secs_f64();
        let packets = (sent(self) - before) as f64;
        assert!(
            packets <= limit || !is_idle,
            "idle nodes chatter: {packets} packets within {QUIET:?} over {faces} faces, {limit:.0} would do"
        );
        let steps = (self.world.net.stats().steps - steps) as f64;
        let steps_max = limit * 4.0 + 1_000.0 * self.world.people.len() as f64;
        assert!(steps <= steps_max || !is_idle, "idle nodes wake up too often: {steps} steps within {QUIET:?}");
        for node in (0..self.world.people.len()).filter(|node| self.world.is_alive(*node)) {
            let left = F::leftovers(self.world.net.node(NodeIndex(node as u32)).inner());
            let left: Vec<_> = left.into_iter().filter(|(_, left)| *left > 0).collect();
            assert!(left.is_empty(), "idle node {node} still has {left:?}");
        }
        let missing = self.what_is_missing(true);
        if missing.is_some() {
            self.log_status();
        }
        assert!(missing.is_none(), "liveness: it was so for a while, but in the end {}", missing.unwrap_or_default());
    }
    /// Chunks that nodes claim to store can be read.
    fn check_stores(&mut self) {
        for node in (0..self.world.people.len()).filter(|node| self.world.is_alive(*node)).collect::<Vec<_>>() {
            let unreadable = self.world.command(node, F::unreadable);
            assert!(unreadable.is_empty(), "node {node} says that it stores what cannot be read: {unreadable:?}");
        }
    }
    /// Among honest nodes, a device that only comes and goes is sent only packets that it awaits.
    fn check_what_was_in_vain(&self) {
        let plan = self.world.plan;
        let is_odd =
            |fault: &Fault| fault.kind.is_byzantine() || matches!(fault.kind, FaultKind::Replay | FaultKind::DiskFull);
        if plan.faults.iter().any(is_odd) || !plan.objects.is_empty() || plan.groups.count > 0 {
            return;
        }
        let phones = plan.post.phones.iter().copied();
        for node in phones.filter(|node| !plan.faults.iter().any(|fault| fault.what.is_of(*node))) {
            let vain = F::in_vain(self.world.net.node(NodeIndex(node as u32)).inner());
            let vain: Vec<_> = vain.into_iter().filter(|(_, count)| *count > 0).collect();
            assert!(vain.is_empty(), "nothing happens to node {node}, which counts {vain:?}");
        }
    }
    fn pass(&mut self, time: Duration) {
        let end = self.world.net.now() + time;
        while self.world.net.now() < end {
            self.world.run_until((self.world.net.now() + SLICE).min(end));
            self.check();
        }
    }

    // Checks that hold at any time.

    fn check(&mut self) {
        let now = self.world.net.now();
        self.check_packets();
        self.check_reports();
        self.world.settle_wants();
        self.world.settle_mail();
        if now.since(self.watched_again) >= WATCH_AGAIN {
            self.watched_again = now;
            self.world.watch_again();
        }
        self.check_failures();
        self.world.check_withdrawals();
        self.world.check_failures_of_mail();
        self.world.check_custody();
        self.check_limits();
        let events = self.world.net.stats().steps;
        assert!(events <= EVENTS_MAX, "{events} steps until {}: it does not come to an end", self.world.net.now());
    }
    /// Each packet sent has arrived, is lost and counted, or is in flight.
    fn check_packets(&self) {
        let (world, net) = (&self.world, &self.world.net);
        let ledger = world.ledger.borrow();
        let mut arrived = 0;
        for (connection, link) in world.connections.iter().zip(&world.plan.topology.links) {
            for (index, (node, face)) in [connection.a_to_b, connection.b_to_a].into_iter().zip(link.ends) {
                let (stats, flying) = (net.link_stats(index), net.link(index).in_flight());
                let sent = ledger.sent[node].get(face.0 as usize).copied().unwrap_or(0);
                assert!(sent == stats.in_packets, "node {node} sent {sent} packets to {face}, the link saw {stats:?}");
                let known = stats.out_packets + stats.lost_packets + stats.dropped_packets + stats.oversize_packets;
                let all = stats.in_packets + stats.duplicated_packets;
                assert!(
                    all == known + flying,
                    "packets on a link of node {node} do not add up: {stats:?}, {flying} fly"
                );
                arrived += stats.out_packets;
            }
        }
        let stats = net.stats();
        // The network counted packets to dead nodes, and injected ones came over no link.
        let handed = arrived - stats.unreceived_packets + world.injected;
        assert!(handed == ledger.received, "{handed} packets were handed over, nodes saw {}", ledger.received);
        let strange = (stats.unconnected_packets, ledger.sent_to_unsolicited);
        assert!(
            strange.0 == strange.1,
            "{} packets went to faces without a link, {} to strangers",
            strange.0,
            strange.1
        );
    }
    fn check_reports(&self) {
        let world = &self.world;
        for (node, person) in world.people.iter().enumerate() {
            for id in person.wants.iter().filter(|want| want.end.is_none()).filter_map(|want| want.id) {
                let inner = world.net.node(NodeIndex(node as u32)).inner();
                if let Some(report) = inner.report(world.net.now(), id) {
                    world.ledger.borrow_mut().on_report(world.net.now(), node, id, report);
                }
            }
        }
    }
    /// A fetch may fail only for a reason contained in the plan.
    fn check_failures(&self) {
        let (world, plan) = (&self.world, self.world.plan);
        let disk_full = plan.faults.iter().any(|fault| fault.kind == FaultKind::DiskFull);
        for (node, person) in world.people.iter().enumerate() {
            for want in &person.wants {
                let Some(End::Failed(reason)) = &want.end else { continue };
                let impatient =
                    want.spec.patience.is_some() && (reason.contains("answered") || reason.contains("answers"));
                let versions = plan.objects[want.spec.object].sizes.len() > 1 && reason.contains("version");
                let served_wrong_bytes = plan.has_faulty_sources() && want.spec.number < LAST_FETCHES;
                // An imposter's last publication may be the only one that a subscription finds until the news spreads.
                let imposed = plan.faults.iter().any(|fault| fault.kind == FaultKind::Imposter);
                let imposed = imposed && reason.contains("is signed by");
                let full = disk_full && reason.contains("space");
                let may =
                    impatient || versions || served_wrong_bytes || imposed || full || reason.contains("cancelled");
                assert!(may, "node {node} fails {:?} for no reason in the plan: {reason}", want.spec);
            }
        }
    }
    fn check_limits(&self) {
        for node in 0..self.world.people.len() {
            if !self.world.is_alive(node) {
                continue;
            }
            for Usage { what, used, limit } in F::usages(self.world.net.node(NodeIndex(node as u32)).inner()) {
                assert!(used <= limit, "node {node}: {used} {what}, {limit} are allowed");
            }
        }
    }
    fn report(&self) -> RunReport {
        let net = &self.world.net;
        let mut ends: BTreeMap<bool, u64> = BTreeMap::new();
        for want in self.world.people.iter().flat_map(|person| &person.wants) {
            *ends.entry(want.end == Some(End::Completed)).or_default() += 1;
        }
        RunReport {
            seed: self.world.plan.seed,
            events: net.stats().steps,
            packets: net.stats().packet_hops,
            time: net.now(),
            completed: ends.get(&true).copied().unwrap_or(0),
            failed: ends.get(&false).copied().unwrap_or(0),
            delivered: self.world.delivered(),
            promised: self.world.promises.len() as u64,
            liveness: self.liveness,
            trace_hash: net.trace_hash(),
        }
    }
}
