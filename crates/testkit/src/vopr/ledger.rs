//! The books of a run: every packet and every event is entered, and a mismatch panics.
use std::collections::{BTreeMap, BTreeSet};

use tributary_core::{
    Datagram, FaceId, PathId, SourceId, Time, TransferId, TransmitBuf,
    event::{Event, PathState, ResolverEvent, TransferEvent, TransferReport},
};

use super::controlled_node::UNSOLICITED_FACE;

/// Receives a run's narration, line by line.
pub type Narrator = fn(&str);

#[derive(Default)]
pub(super) struct Ledger {
    /// Datagrams that nodes have sent, by node and face.
    pub(super) sent: Vec<Vec<u64>>,
    /// Datagrams that nodes have sent to strangers.
    pub(super) sent_to_unsolicited: u64,
    /// Datagrams that nodes were given.
    pub(super) received: u64,
    /// Some packets of the past, to be sent again.
    pub(super) recent: Vec<Vec<u8>>,
    /// How often each node was started.
    pub(super) lives: Vec<u64>,
    transfers: BTreeMap<(usize, u64, TransferId), Account>,
    /// The scope's contents as reported to each watcher.
    views: BTreeMap<(usize, String), BTreeSet<String>>,
    /// The confirmed publications of nodes.
    published: BTreeMap<(usize, String), Time>,
    /// Scopes that nodes were not allowed to watch.
    pub(super) refused: BTreeSet<(usize, String)>,
    pub(super) narrator: Option<Narrator>,
    /// How often a neighbour stopped answering.
    pub(super) lost_neighbours: u64,
    /// Sources to which the network has withdrawn the last path, until the next check.
    pub(super) withdrawn: Vec<Withdrawn>,
    /// Whether the family counts answers of caches for paths.
    caches_on_paths: bool,
    /// Whether stores of receivers answer later.
    stores_take_time: bool,
}

/// The network has withdrawn the last path of a fetch to a source.
pub(super) struct Withdrawn {
    pub(super) at: Time,
    pub(super) node: usize,
    pub(super) transfer: TransferId,
    /// The label of the source.
    pub(super) source: String,
}

/// The reports of one transfer.
#[derive(Default)]
struct Account {
    started: Option<(u64, u64)>,
    chunks: BTreeSet<u32>,
    chunk_bytes: u64,
    ended: Option<End>,
    /// Labels of sources, the paths that lead to them now, and every path that ever did.
    sources: BTreeMap<SourceId, String>,
    paths: BTreeMap<PathId, SourceId>,
    all_paths: BTreeMap<PathId, SourceId>,
    last: Option<TransferReport>,
}

/// How a transfer ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum End {
    Completed,
    Failed(String),
}

const RECENT_PACKETS: usize = 64;
/// The reason of a path that the network has withdrawn.
const WITHDRAWN: &str = "withdrawn by the network";

impl Ledger {
    pub(super) fn new(
        nodes: usize,
        narrator: Option<Narrator>,
        caches_on_paths: bool,
        stores_take_time: bool,
    ) -> Ledger {
        Ledger {
            caches_on_paths,
            stores_take_time,
            sent: vec![Vec::new(); nodes],
            lives: vec![0; nodes],
            narrator,
            ..Ledger::default()
        }
    }
    pub(super) fn on_sent(&mut self, node: usize, face: FaceId, batch: &TransmitBuf) {
        if face.0 >= UNSOLICITED_FACE {
            self.sent_to_unsolicited += batch.len() as u64;
            return;
        }
        let faces = &mut self.sent[node];
        if faces.len() <= face.0 as usize {
            faces.resize(face.0 as usize + 1, 0);
        }
        faces[face.0 as usize] += batch.len() as u64;
    }
    pub(super) fn on_received(&mut self, datagram: &Datagram) {
        self.received += 1;
        // A prime step, so that periodic traffic does not always show the same packet.
        if self.received.is_multiple_of(101) {
            let slot = (self.received / 101) as usize % RECENT_PACKETS;
            let bytes = datagram.to_vec();
            match self.recent.get_mut(slot) {
                Some(recent) => *recent = bytes,
                None => self.recent.push(bytes),
            }
        }
    }
    /// A node starts without reports.
    pub(super) fn on_start(&mut self, node: usize) {
        self.lives[node] += 1;
        self.views.retain(|(viewer, _), _| *viewer != node);
        self.published.retain(|(publisher, _), _| *publisher != node);
        self.refused.retain(|(watcher, _)| *watcher != node);
    }
    pub(super) fn log(&self, now: Time, line: impl FnOnce() -> String) {
        if let Some(narrator) = self.narrator {
            narrator(&format!("{now} {}", line()));
        }
    }

    // Events.

    pub(super) fn on_event(&mut self, now: Time, node: usize, event: &Event) {
        if !matches!(event, Event::Dropped { .. } | Event::Transfer(_, TransferEvent::ChunkStored { .. })) {
            self.log(now, || format!("node {node} tells {event:?}"));
        }
        match event {
            Event::Transfer(id, event) => self.on_transfer_event(now, node, *id, event),
            Event::Resolver(event) => self.on_resolver_event(now, node, event),
            Event::Neighbour { up: false, .. } => self.lost_neighbours += 1,
            _ => {}
        }
    }
    fn on_transfer_event(&mut self, now: Time, node: usize, id: TransferId, event: &TransferEvent) {
        let account = self.transfers.entry((node, self.lives[node], id)).or_default();
        let who = || format!("transfer {id:?} of node {node} at {now}");
        let ended = account.ended.clone();
        let live = |what: &str| assert!(ended.is_none(), "{}: {what} after it ended: {ended:?}", who());
        match event {
            TransferEvent::Started { bytes, resumed_bytes } => {
                live("started");
                assert!(account.started.is_none(), "{} started twice", who());
                assert!(resumed_bytes <= bytes, "{} resumed {resumed_bytes} of {bytes} bytes", who());
                account.started = Some((*bytes, *resumed_bytes));
            }
            TransferEvent::ChunkStored { index, bytes } => {
                live("a chunk");
                let (total, resumed) = account.started.unwrap_or_default();
                assert!(account.started.is_some(), "{}: a chunk before it started", who());
                assert!(account.chunks.insert(*index), "{}: chunk {index} was stored twice", who());
                account.chunk_bytes += u64::from(*bytes);
                let stored = account.chunk_bytes + resumed;
                assert!(stored <= total, "{}: {stored} bytes stored of {total}", who());
            }
            TransferEvent::Completed => {
                live("completed");
                let (total, resumed) = account.started.unwrap_or((u64::MAX, 0));
                let stored = account.chunk_bytes + resumed;
                assert!(stored == total, "{}: completed with {stored} of {total} bytes told", who());
                account.ended = Some(End::Completed);
            }
            TransferEvent::Failed { reason } => {
                live("failed");
                account.ended = Some(End::Failed(reason.clone()));
            }
            TransferEvent::SourceAdded { source, label, .. } => drop(account.sources.insert(*source, label.clone())),
            TransferEvent::PathAdded { path, source } => {
                account.paths.insert(*path, *source);
                account.all_paths.insert(*path, *source);
            }
            TransferEvent::PathState { path, state: PathState::Active, .. } => {
                let source = account.all_paths.get(path).copied();
                account.paths.extend(source.map(|source| (*path, source)));
            }
            TransferEvent::PathState { path, state: PathState::Closed, reason } => {
                let source = account.paths.remove(path);
                let source = source.filter(|source| !account.paths.values().any(|other| other == source));
                let source = source.and_then(|source| account.sources.get(&source)).cloned();
                if let Some(source) = source.filter(|_| reason == WITHDRAWN) {
                    self.withdrawn.push(Withdrawn { at: now, node, transfer: id, source });
                }
            }
            _ => {}
        }
    }
    fn on_resolver_event(&mut self, now: Time, node: usize, event: &ResolverEvent) {
        match event {
            ResolverEvent::Published { name } => {
                self.published.insert((node, name.clone()), now);
            }
            // An identical publication was repeated, and stays.
            ResolverEvent::Rejected { name, operation: "publish", reason } if reason.contains("already published") => {
                self.published.insert((node, name.clone()), now);
            }
            ResolverEvent::Unpublished { name } => {
                self.published.remove(&(node, name.clone()));
            }
            // The scope does not exist yet; a user asks again a little later.
            ResolverEvent::Rejected { name, operation: "subscribe scope", .. } => {
                self.refused.insert((node, name.clone()));
            }
            ResolverEvent::Appeared { name, is_scope: false, .. } => self.see(node, name, true),
            ResolverEvent::Disappeared { name } => self.see(node, name, false),
            _ => {}
        }
    }
    fn see(&mut self, node: usize, name: &str, present: bool) {
        let scope = name.rsplit_once('/').map_or("", |(scope, _)| scope);
        let view = self.views.entry((node, scope.into())).or_default();
        if present {
            view.insert(name.into());
        } else {
            view.remove(name);
        }
    }

    // Questions.

    pub(super) fn end_of(&self, node: usize, id: TransferId) -> Option<End> {
        self.transfers.get(&(node, self.lives[node], id))?.ended.clone()
    }
    /// Fetches that have failed in this life of a node, and the reasons.
    pub(super) fn failed(&self, node: usize) -> Vec<(TransferId, String)> {
        let life = self.lives[node];
        let all = self.transfers.range((node, life, TransferId(0))..=(node, life, TransferId(u32::MAX)));
        let failed = all.filter_map(|((.., id), account)| match &account.ended {
            Some(End::Failed(reason)) => Some((*id, reason.clone())),
            Some(End::Completed) | None => None,
        });
        failed.collect()
    }
    /// The contents of a scope as reported to a node; nothing before the first listing.
    pub(super) fn view(&self, node: usize, scope: &str) -> BTreeSet<String> {
        self.views.get(&(node, scope.into())).cloned().unwrap_or_default()
    }
    /// Resets a view: the node asks again and receives everything again.
    pub(super) fn forget_view(&mut self, node: usize, scope: &str) {
        self.views.remove(&(node, scope.into()));
    }
    pub(super) fn is_published(&self, node: usize, name: &str) -> bool {
        self.published.contains_key(&(node, name.into()))
    }
    /// Since when a node knows that its publication is confirmed.
    pub(super) fn published_at(&self, node: usize, name: &str) -> Option<Time> {
        self.published.get(&(node, name.into())).copied()
    }
    pub(super) fn forget_published(&mut self, node: usize, name: &str) {
        self.published.remove(&(node, name.into()));
    }

    // Reports.

    /// Compares a report with the one before and with the events.
    pub(super) fn on_report(&mut self, now: Time, node: usize, id: TransferId, report: TransferReport) {
        let account = self.transfers.entry((node, self.lives[node], id)).or_default();
        let (total, resumed) = account.started.unwrap_or_default();
        let stored = account.chunk_bytes + resumed;
        let who = || format!("report of transfer {id:?} of node {node} at {now}");
        assert!(report.bytes == total, "{}: {} bytes, told {total}", who(), report.bytes);
        assert!(report.resumed_bytes == resumed, "{}: resumed {}, told {resumed}", who(), report.resumed_bytes);
        assert!(report.stored_bytes == stored, "{}: stored {}, told {stored}", who(), report.stored_bytes);
        assert!(report.ended.is_some() == account.ended.is_some(), "{}: ended {:?}", who(), report.ended);
        let from_sources: u64 = report.sources.iter().map(|source| source.bytes).sum();
        let sum = from_sources + report.cached_bytes + resumed;
        // Asynchronous stores receive chunks that already count for their sources; a transfer that has ended has all of
        // them.
        let is_complete = account.ended == Some(End::Completed) || !self.stores_take_time;
        assert!(
            sum == stored || !is_complete && sum > stored && sum <= total,
            "{}: {from_sources} from sources, {} from caches and {resumed} resumed are {sum} bytes, stored are {stored}",
            who(),
            report.cached_bytes
        );
        let cached_on_paths: u64 = report.paths.iter().map(|path| path.cached_bytes).sum();
        assert!(
            cached_on_paths >= report.cached_bytes || !self.caches_on_paths,
            "{}: {} bytes from caches, {cached_on_paths} on paths",
            who(),
            report.cached_bytes
        );
        for path in &report.paths {
            assert!(path.cached_bytes <= path.bytes, "{}: path {path:?}", who());
        }
        if let Some(last) = &account.last {
            let counters = |report: &TransferReport| {
                [report.stored_bytes, report.cached_bytes, report.retransmitted_bytes, report.duplicate_bytes]
            };
            let fell = counters(last).into_iter().zip(counters(&report)).any(|(before, after)| after < before);
            assert!(!fell, "{}: a counter fell from {:?} to {:?}", who(), counters(last), counters(&report));
            for source in &last.sources {
                let after = report.sources.iter().find(|after| after.source == source.source);
                let after = after.map(|after| after.bytes);
                assert!(after >= Some(source.bytes), "{}: {source:?} before, {after:?} bytes now", who());
            }
            for path in &last.paths {
                let after = report.paths.iter().find(|after| after.path == path.path).map(|after| after.bytes);
                assert!(after >= Some(path.bytes), "{}: {path:?} before, {after:?} bytes now", who());
            }
        }
        account.last = Some(report);
    }
}
