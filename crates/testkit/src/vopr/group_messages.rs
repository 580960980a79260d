//! Checks messages to groups: which nodes take them, which have arrived, and whether these are complete.
use std::collections::{BTreeMap, BTreeSet};

use tributary_content::{ObjectId, ObjectReader};
use tributary_core::{Duration, Time, TransferId};
use tributary_sim::NodeIndex;
use tributary_transport::{
    Endpoint, Messaging,
    messaging::{Destination, Reliability, SendOptions, SendReport, Spread},
};

use super::{
    family::Family,
    faults::FaultKind,
    ledger::End,
    messages::{Addressee, MessageSpec, group_name},
    published_objects::{FaultyReader, make_object},
    workload::Operation,
    world::{Action, World},
};

/// A message being sent.
pub(super) struct Sent {
    pub(super) spec: MessageSpec,
    /// The transfer of the node's present life.
    pub(super) id: Option<TransferId>,
    /// How often it was started: a source that restarts sends it again.
    begun: u32,
    /// Whether the source sends other bytes than it promises, in its present life.
    lies: bool,
    /// The source's last report, at its end.
    pub(super) over: Option<SendReport>,
    /// The last report of the source's present life.
    report: Option<SendReport>,
    cancelled: bool,
    /// The object, and when it was sent first.
    object: Option<(ObjectId, Time)>,
}

impl Sent {
    /// The life of its source ends.
    pub(super) fn stop(&mut self) {
        (self.id, self.report) = (None, None);
    }
    /// It is no longer sent.
    pub(super) fn give_up(&mut self) {
        (self.id, self.cancelled) = (None, true);
    }
}

/// Objects of messages have numbers from here on.
const MESSAGES: usize = 1 << 20;
/// Messages of the last phase, of this many bytes each.
const LAST_MESSAGES: usize = 1_000_000;
const LAST_BYTES: u64 = 60_000;

impl<F: Family> World<'_, F> {
    pub(super) fn messaging<R>(&mut self, node: usize, command: impl FnOnce(&mut dyn Messaging, Time) -> R) -> R {
        self.command(node, |node, now| command(node.messaging().expect("families with groups send"), now))
    }
    /// Whether anything is sent in this plan.
    pub(super) fn has_mail(&self) -> bool {
        self.plan.groups.count > 0 || !self.plan.post.couriers.is_empty()
    }
    /// A node accepts messages, if the plan has any.
    pub(super) fn accept(&mut self, node: usize) {
        if self.has_mail() {
            let inbox = Box::new(self.people[node].inbox.clone());
            self.messaging(node, |messaging, now| messaging.accept(now, Some(inbox), &Default::default()));
        }
    }
    pub(super) fn attach(&mut self, node: usize, group: usize) {
        self.people[node].attached.insert(group);
        self.people[node].detached.remove(&group);
        let name = group_name(group).parse().expect("plans have legal names");
        self.messaging(node, |messaging, now| messaging.attach(now, &name));
    }
    pub(super) fn detach(&mut self, node: usize, group: usize) {
        if self.people[node].attached.remove(&group) {
            self.people[node].detached.insert(group);
        }
        let name = group_name(group).parse().expect("plans have legal names");
        self.messaging(node, |messaging, now| messaging.detach(now, &name));
    }
    pub(super) fn send(&mut self, spec: MessageSpec) {
        let node = spec.node;
        self.people[node].sent.push(Sent {
            spec,
            id: None,
            begun: 0,
            lies: false,
            over: None,
            report: None,
            cancelled: false,
            object: None,
        });
        self.begin_to_send(node, self.people[node].sent.len() - 1);
    }
    fn begin_to_send(&mut self, node: usize, index: usize) {
        let (lying, seed) = (self.people[node].lying, self.plan.seed);
        let sent = &mut self.people[node].sent[index];
        (sent.begun, sent.lies) = (sent.begun + 1, lying > 0.0);
        let (spec, mut options) = (sent.spec.clone(), sent.spec.options.clone());
        let object = make_object(seed, MESSAGES + spec.number, &spec.object(), 1, true);
        self.truth.add(&object);
        sent.object.get_or_insert((object.manifest().publication_id(), self.net.now()));
        let to = match spec.to {
            Addressee::Group(group) => Destination::Name(group_name(group).parse().expect("plans have legal names")),
            Addressee::Device(device) => Destination::Id(self.guids[device].clone()),
        };
        options.chunk_bytes = options.chunk_bytes.map(|bytes| bytes.max((spec.size / 2_000) as u32));
        let id = self.messaging(node, |messaging, now| match lying > 0.0 {
            true => {
                let faulty = FaultyReader { inner: object, share: lying, seed: seed ^ node as u64 };
                messaging.send(now, Box::new(faulty), &to, &options)
            }
            false => messaging.send(now, Box::new(object), &to, &options),
        });
        self.people[node].sent[index].id = Some(id.expect("few messages are under way"));
    }
    pub(super) fn cancel_send(&mut self, node: usize, message: usize) {
        let sent = self.people[node].sent.iter_mut().find(|sent| sent.spec.number == message && sent.over.is_none());
        let Some(sent) = sent else { return };
        sent.cancelled = true;
        if let Some(id) = sent.id {
            self.messaging(node, |messaging, now| messaging.cancel_send(now, id));
        }
    }
    /// A node starts again: it is attached as before, and sends the messages that some members lack.
    pub(super) fn resume_mail(&mut self, node: usize) {
        self.accept(node);
        let groups: Vec<usize> = self.people[node].attached.iter().copied().collect();
        groups.into_iter().for_each(|group| self.attach(node, group));
        for index in 0..self.people[node].sent.len() {
            let sent = &self.people[node].sent[index];
            if sent.over.is_none() && !sent.cancelled && !self.is_promised(sent.spec.number) {
                self.begin_to_send(node, index);
            }
        }
    }

    /// The sources' state of messages being sent, for the analysis of a finding.
    pub(super) fn log_mail(&mut self) {
        for node in (0..self.people.len()).filter(|node| self.is_running(*node)).collect::<Vec<_>>() {
            let open = self.people[node].sent.iter().filter(|sent| sent.over.is_none());
            let open: Vec<_> = open.filter_map(|sent| Some((sent.spec.number, sent.id?))).collect();
            for (number, id) in open {
                let report = self.messaging(node, |messaging, now| messaging.send_report(now, id));
                self.log(|| format!("node {node} sends message {number} as {id:?}: {report:?}"));
            }
        }
    }

    // Checks.

    /// Records arrived messages, and compares the sources' reports with them.
    pub(super) fn settle_mail(&mut self) {
        if !self.has_mail() {
            return;
        }
        self.enter_what_came();
        for node in 0..self.people.len() {
            for index in 0..self.people[node].sent.len() {
                let Sent { id: Some(id), over: None, .. } = self.people[node].sent[index] else { continue };
                if self.is_running(node) {
                    let report = self.messaging(node, |messaging, now| messaging.send_report(now, id));
                    let Some(report) = report else {
                        // Of many that have ended only the last ones are remembered.
                        let is_one_of_many = matches!(self.people[node].sent[index].spec.to, Addressee::Device(_));
                        assert!(is_one_of_many, "node {node} forgot what became of transfer {id:?}");
                        self.people[node].sent[index].over = Some(SendReport::default());
                        continue;
                    };
                    self.check_delivered(node, index, &report);
                    let sent = &self.people[node].sent[index];
                    let Sent { spec, object, .. } = sent;
                    let is_kept = report.has_left && report.stored_chunks >= report.chunks && !sent.lies;
                    if let (true, Some((object, begun_at)), spec) = (is_kept, *object, spec.clone()) {
                        self.promise(&spec, object, begun_at);
                    }
                    let sent = &mut self.people[node].sent[index];
                    sent.over = report.is_over.then(|| report.clone());
                    sent.report = Some(report);
                }
            }
        }
        self.dismiss_couriers();
    }
    /// A courier that has sent everything, and has heard that all of it is stored or delivered, ends for good.
    fn dismiss_couriers(&mut self) {
        for node in self.plan.post.couriers.clone() {
            let mail = &self.people[node].sent;
            let planned = self.plan.operations.iter().filter(|(_, operation)| operation.sends_from(node)).count();
            let is_done = |sent: &Sent| sent.over.is_some() || self.is_promised(sent.spec.number);
            if mail.len() == planned && mail.iter().all(is_done) && self.dismissed.insert(node) {
                let wait = Duration::from_millis((self.plan.seed ^ node as u64) % 2_000);
                self.plan_at(self.net.now() + wait, Action::Depart(node));
            }
        }
    }
    pub(super) fn enter_what_came(&mut self) {
        // A sender that has lost its memory does not know of the promises to it.
        let promised =
            self.promises.values().map(|promise| (promise.name.to_string(), (promise.spec.number, u32::MAX)));
        let sent = self.people.iter().flat_map(|person| &person.sent);
        let sent = sent.map(|sent| (sent.spec.object().name, (sent.spec.number, sent.begun)));
        let begun: BTreeMap<String, (usize, u32)> = promised.chain(sent).collect();
        for (node, person) in self.people.iter_mut().enumerate() {
            for (name, times) in person.inbox.complete() {
                let Some((number, begun)) = begun.get(&name.to_string()) else { continue };
                assert!(times <= *begun, "node {node} was given '{name}' {times} times, which was sent {begun} times");
                if person.received.insert(*number) {
                    let bytes = person.inbox.content().finished(&name);
                    let is_true = bytes.is_none_or(|bytes| self.truth.has(&name, &bytes));
                    assert!(is_true, "node {node} was given '{name}' with bytes that nobody published");
                }
            }
        }
    }
    /// A member that is reported complete is complete, unless the report may have been altered.
    fn check_delivered(&self, node: usize, index: usize, report: &SendReport) {
        let spec = &self.people[node].sent[index].spec;
        if self.plan.has_faulty_sources() {
            return;
        }
        for guid in &report.delivered {
            let member = self.guids.iter().position(|known| known == guid);
            let has_it = member.is_some_and(|member| self.people[member].received.contains(&spec.number));
            assert!(
                has_it,
                "node {node} was told that {member:?} ({guid}) has message {}, which it has not",
                spec.number
            );
        }
    }
    /// The nodes, other than the sender, that a message must reach now or never.
    fn members(&self, spec: &MessageSpec) -> Vec<usize> {
        let attached = |node: &usize| match spec.to {
            Addressee::Group(group) => self.people[*node].attached.contains(&group),
            Addressee::Device(device) => device == *node && !self.gone.contains(node),
        };
        let reachable = |node: &usize| F::reaches(self.plan, &self.gone, spec.node, *node);
        (0..self.people.len()).filter(|node| *node != spec.node).filter(attached).filter(reachable).collect()
    }
    /// Whether a node has refused a part of a message because its disk was full.
    fn has_failed(&self, node: usize, spec: &MessageSpec) -> bool {
        let name = spec.object().name;
        let inner = self.net.node(NodeIndex(node as u32)).inner();
        let ledger = self.ledger.borrow();
        let failed = |id| matches!(ledger.end_of(node, id), Some(End::Failed(reason)) if reason.contains(DISK_FULL));
        inner.transfers().into_iter().any(|(id, of)| of.to_string() == name && failed(id))
    }
    /// What should have come and has not.
    pub(super) fn missing_mail(&self, last_phase: bool) -> Option<String> {
        let label = |node: usize| &self.plan.topology.nodes[node].label;
        let routers = self.plan.topology.nodes.iter().filter(|node| node.router).count();
        for sent in self.people.iter().flat_map(|person| &person.sent).filter(|sent| !sent.cancelled) {
            let (spec, members) = (&sent.spec, self.members(&sent.spec));
            let is_last = spec.number >= LAST_MESSAGES;
            let is_promised = is_last || spec.is_promised(routers) && !sent.lies;
            if is_last != last_phase || members.is_empty() || !is_promised {
                continue;
            }
            let has = |node: &usize| self.people[*node].received.contains(&spec.number);
            // Subscriptions outlive their devices: what the network or its source keeps for those who are gone for good is
            // no work that has to end. How quiet that is, the last phase sees.
            let is_gone =
                |node: &&usize| spec.group().is_some_and(|group| self.people[**node].lapsing.contains(&group));
            let gone = self.gone.iter().filter(is_gone).count() as u64;
            let kept = sent.report.as_ref().filter(|report| (1..=gone).contains(&report.waiting()));
            let settled = sent.over.as_ref().or(kept);
            if spec.options.spread == Spread::Nearest {
                let got_it = sent.over.as_ref().is_some_and(|report| report.delivered.len() == 1);
                if !got_it {
                    return Some(format!("{} still sends {spec:?} to the nearest", label(spec.node)));
                }
                continue;
            }
            // A member with a full disk has dropped it, without a notice to the source.
            let failed: BTreeSet<usize> = match is_last {
                true => BTreeSet::new(),
                false => members.iter().copied().filter(|node| !has(node) && self.has_failed(*node, spec)).collect(),
            };
            // A message that was over before all faults ended is over for the members of that time.
            let waits = if is_last || sent.over.is_none() { &members[..] } else { &[] };
            if let Some(node) = waits.iter().find(|node| !has(node) && !failed.contains(node)) {
                return Some(format!("{} has not got {spec:?} (over: {:?})", label(*node), sent.over));
            }
            if settled.is_none() && failed.is_empty() {
                let (node, report) = (label(spec.node), &sent.report);
                return Some(format!("{node} still sends {spec:?}, which all have who are not gone: {report:?}"));
            }
            if let Some(report) = settled.filter(|_| is_last) {
                let reported = |node: &usize| report.delivered.contains(&self.guids[*node]);
                let reported: Vec<usize> = (0..self.people.len()).filter(reported).collect();
                let lapses =
                    |node: &usize| spec.group().is_some_and(|group| self.people[*node].lapsing.contains(&group));
                let may = |node: &usize| members.contains(node) || lapses(node);
                let is_true = members.iter().all(|node| reported.contains(node)) && reported.iter().all(may);
                assert!(is_true, "{} was told that {reported:?} have {spec:?}, not {members:?}", label(spec.node));
            }
        }
        None
    }
    /// Sending may fail only for a reason that the plan gives.
    pub(super) fn check_failures_of_mail(&self) {
        if !self.has_mail() {
            return;
        }
        let disk_full = self.plan.faults.iter().any(|fault| fault.kind == FaultKind::DiskFull);
        // A node forges data for good: a sender that started while it did so continues with it.
        let sources_lie = self.plan.faults.iter().any(|fault| fault.kind == FaultKind::LyingSource);
        for (node, person) in self.people.iter().enumerate().filter(|(node, _)| self.is_alive(*node)) {
            let wanted: BTreeSet<TransferId> = person.wants.iter().filter_map(|want| want.id).collect();
            for (id, reason) in self.ledger.borrow().failed(node) {
                let full = disk_full && reason.contains(DISK_FULL);
                let careless = reason.contains("the sender does not care");
                let served_wrong_bytes = sources_lie && reason.contains("have been wrong for");
                let may = wanted.contains(&id) || full || careless || served_wrong_bytes;
                assert!(may, "node {node} gives up transfer {id:?}, which was sent to it: {reason}");
            }
        }
    }

    // The last phase.

    /// Messages that are still being sent are cancelled: a member has refused them, or they were never promised.
    pub(super) fn cancel_mail(&mut self) {
        for node in 0..self.people.len() {
            let running = self.people[node].sent.iter().filter(|sent| sent.over.is_none() && sent.id.is_some());
            let running: Vec<usize> = running.map(|sent| sent.spec.number).collect();
            running.into_iter().for_each(|message| self.cancel_send(node, message));
        }
    }
    /// Something to each group, in each way, which all must get.
    pub(super) fn send_to_all_groups(&mut self) {
        let mut number = LAST_MESSAGES;
        for group in 0..self.plan.groups.count {
            let alive: Vec<usize> = (0..self.people.len()).filter(|node| self.is_alive(*node)).collect();
            let node = alive[(self.plan.seed as usize + group) % alive.len()];
            for spread in [Spread::All, Spread::AllByProxies(64), Spread::Nearest] {
                let options = SendOptions { reliability: Some(Reliability::Nack), spread, ..SendOptions::default() };
                number += 1;
                let (size, chunk_size) = (LAST_BYTES, 1 << 14);
                self.operate(&Operation::Send(MessageSpec {
                    number,
                    node,
                    to: Addressee::Group(group),
                    size,
                    chunk_size,
                    options,
                }));
            }
        }
    }
    /// How long all messages being sent, or stored, may take in sequence; `seconds` returns a fetch's time.
    pub(super) fn mail_seconds(&self, seconds: impl Fn(u64, &[usize], usize) -> f64) -> f64 {
        let (mut all, mut to_devices) = (0.0, BTreeMap::<(usize, usize), u64>::new());
        for spec in self.open_mail() {
            match spec.to {
                Addressee::Group(_) => {
                    let members = self.members(spec);
                    all += members.iter().map(|member| seconds(spec.size, &[spec.node], *member)).sum::<f64>();
                }
                // Many small ones come together.
                Addressee::Device(device) => {
                    *to_devices.entry((spec.node, device)).or_default() += spec.size + MESSAGE_BYTES;
                }
            }
        }
        all + to_devices.into_iter().map(|((node, device), bytes)| seconds(bytes, &[node], device)).sum::<f64>()
    }
    /// Messages being sent, and promised ones that have not arrived.
    fn open_mail(&self) -> impl Iterator<Item = &MessageSpec> {
        let running = self.people.iter().flat_map(|person| &person.sent);
        let running = running.filter(|sent| sent.over.is_none() && !sent.cancelled);
        let promised = self.promises.values().filter(|promise| promise.is_open(self));
        running.map(|sent| &sent.spec).chain(promised.map(|promise| &promise.spec))
    }
    /// Messages delivered: each once per receiver.
    pub(super) fn delivered(&self) -> u64 {
        self.people.iter().map(|person| person.received.len() as u64).sum()
    }
}

/// The cost of a small message in addition to its bytes.
const MESSAGE_BYTES: u64 = 5_000;
/// The error of a full store.
const DISK_FULL: &str = "space";
/// How long a source may leave a silent member alone before it reminds it, twice.
pub(super) const REMINDED: Duration = Duration::from_secs(100);
