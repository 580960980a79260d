//! A fake node in place of a family: objects pass through shared memory, one chunk each millisecond.
use std::{
    collections::{BTreeMap, VecDeque},
    path::Path,
    sync::{Arc, Mutex},
};
use tributary::NodeConfig;
use tributary_content::{ChunkIndex, ChunkStore, Name, ObjectReader, StoreAnswer, StoreError, StoreTask};
use tributary_core::{
    ByteCount, Datagram, Duration, FaceId, Node, NodeId, PathId, Rate, SourceId, Time, TimerId, TransferId, Transmit,
    TransmitBuf,
    event::{Event, PathReport, PathState, ResolverEvent, SourceReport, TransferEvent, TransferReport},
};
use tributary_transport::{CacheStatus, Endpoint, FaceOptions, FaceStatus, Fetch, NodeStatus, policy::FacePolicy};

/// What all nodes of one test can fetch.
#[derive(Clone, Default)]
pub(super) struct Network(Arc<Mutex<BTreeMap<Name, Box<dyn ObjectReader>>>>);

/// How the fake node treats publications.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Resolver {
    Confirms,
    Refuses,
    Silent,
}

pub(super) struct FakeNode {
    network: Network,
    resolver: Resolver,
    events: VecDeque<Event>,
    transfers: BTreeMap<TransferId, Transfer>,
    published: Vec<(Name, u64)>,
    next: Option<Time>,
}

struct Transfer {
    fetch: Fetch,
    store: Option<Box<dyn ChunkStore>>,
    report: TransferReport,
}

impl FakeNode {
    pub(super) fn new(network: &Network) -> Self {
        Self::with_resolver(network, Resolver::Confirms)
    }
    pub(super) fn with_resolver(network: &Network, resolver: Resolver) -> Self {
        FakeNode {
            network: network.clone(),
            resolver,
            events: VecDeque::new(),
            transfers: BTreeMap::new(),
            published: Vec::new(),
            next: None,
        }
    }

    fn fail(&mut self, now: Time, id: TransferId, reason: String) {
        let transfer = self.transfers.get_mut(&id).unwrap();
        transfer.report.ended = Some(now);
        transfer.report.failure = Some(reason.clone());
        self.events.push_back(Event::Transfer(id, TransferEvent::Failed { reason }));
    }
    /// Moves one chunk of a transfer, or starts or ends it.
    fn step(&mut self, now: Time, id: TransferId) {
        let transfer = self.transfers.get_mut(&id).unwrap();
        if transfer.report.ended.is_some() {
            return;
        }
        let mut network = self.network.0.lock().unwrap();
        let Some(object) = network.get_mut(&transfer.fetch.name) else {
            drop(network);
            let patience = transfer.fetch.patience.unwrap_or(Duration::MAX);
            if now.since(transfer.report.started) >= patience {
                self.fail(now, id, format!("no publisher answered within {patience:?}"));
            }
            return;
        };
        let report = &mut transfer.report;
        if transfer.store.is_none() {
            let manifest = object.manifest();
            let opened = transfer.fetch.opener.trusts(manifest).and_then(|()| {
                let mut store = transfer.fetch.opener.open(manifest)?;
                if !store.is_open() {
                    answer(&mut *store)?;
                }
                Ok(store)
            });
            match opened {
                Ok(store) => {
                    report.bytes = manifest.size;
                    let held = store.held().iter_set().map(|index| manifest.chunk_len(ChunkIndex(index)));
                    report.resumed_bytes = held.map(u64::from).sum();
                    report.stored_bytes = report.resumed_bytes;
                    transfer.store = Some(store);
                    let (source, label) = (SourceId(0), "attic".to_string());
                    report.sources.push(SourceReport { source, label: label.clone(), ..SourceReport::default() });
                    report.paths.push(path());
                    let started = TransferEvent::Started { bytes: report.bytes, resumed_bytes: report.resumed_bytes };
                    let added = TransferEvent::SourceAdded { source, node: NodeId(1), label };
                    let path = TransferEvent::PathAdded { path: PathId(1), source };
                    self.events.extend([started, added, path].map(|event| Event::Transfer(id, event)));
                }
                Err(error) => {
                    drop(network);
                    self.fail(now, id, error.to_string());
                }
            }
            return;
        }
        let store = transfer.store.as_mut().unwrap();
        let Some(index) = store.held().first_unset().map(ChunkIndex) else {
            let finished = carry_out(&mut **store, StoreTask::Finish);
            report.ended = Some(now);
            self.events.push_back(Event::Transfer(
                id,
                match finished {
                    Ok(()) => TransferEvent::Completed,
                    Err(error) => TransferEvent::Failed { reason: error.to_string() },
                },
            ));
            return;
        };
        let stored = object
            .read_chunk(index)
            .and_then(|chunk| carry_out(&mut **store, StoreTask::Chunk(index, chunk.to_vec())).map(|()| chunk.len()));
        match stored {
            Ok(bytes) => {
                report.stored_bytes += bytes as u64;
                report.sources[0].bytes += bytes as u64;
                report.paths[0].bytes += bytes as u64;
            }
            Err(error) => {
                drop(network);
                self.fail(now, id, error.to_string());
            }
        }
    }
}

/// Does a task of a store, and waits for it, as no real node may.
fn carry_out(store: &mut dyn ChunkStore, task: StoreTask) -> Result<(), StoreError> {
    if store.begin(task)?.is_none() {
        answer(store)?;
    }
    Ok(())
}
fn answer(store: &mut dyn ChunkStore) -> Result<StoreAnswer, StoreError> {
    loop {
        if let Some(answer) = store.poll_answer()? {
            return Ok(answer);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn path() -> PathReport {
    PathReport {
        path: PathId(1),
        source: SourceId(0),
        label: "hall".into(),
        face: None,
        hops: 2,
        groups: vec![],
        state: PathState::Active,
        reason: String::new(),
        bytes: 0,
        cached_bytes: 0,
        requested_packets: 1_000,
        lost_packets: 10,
        in_flight_bytes: 10_000,
        window_bytes: 20_000,
        rate: Rate::from_mbps(20),
        rtt: Some(Duration::from_millis(40)),
        rtt_min: Some(Duration::from_millis(20)),
    }
}

impl Node for FakeNode {
    fn handle_datagram(&mut self, _: Time, _: FaceId, _: Datagram) {}
    fn handle_timeout(&mut self, now: Time) {
        for id in self.transfers.keys().copied().collect::<Vec<_>>() {
            self.step(now, id);
        }
        let is_busy = self.transfers.values().any(|transfer| transfer.report.ended.is_none());
        self.next = is_busy.then(|| now + Duration::from_millis(1));
    }
    fn poll_transmit(&mut self, _: Time, _: &mut TransmitBuf) -> Option<Transmit> {
        None
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        self.next.map(|due| (due, TimerId(0)))
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

impl Endpoint for FakeNode {
    fn add_face(&mut self, _: Time, _: FaceId, _: FaceOptions) {}
    fn remove_face(&mut self, _: Time, _: FaceId) {}
    fn publish(&mut self, _: Time, object: Box<dyn ObjectReader>) {
        let (name, size) = (object.manifest().name.clone(), object.manifest().size);
        let uri = name.to_string();
        match self.resolver {
            Resolver::Confirms => self.events.push_back(Event::Resolver(ResolverEvent::Published { name: uri })),
            Resolver::Refuses => {
                let (operation, reason) = ("publish", "its scope is closed".into());
                return self.events.push_back(Event::Resolver(ResolverEvent::Rejected {
                    name: uri,
                    operation,
                    reason,
                }));
            }
            Resolver::Silent => {}
        }
        self.published.retain(|(of, _)| *of != name);
        self.published.push((name.clone(), size));
        self.network.0.lock().unwrap().insert(name, object);
    }
    fn unpublish(&mut self, _: Time, name: &Name) {
        self.published.retain(|(of, _)| of != name);
        self.network.0.lock().unwrap().remove(name);
        self.events.push_back(Event::Resolver(ResolverEvent::Unpublished { name: name.to_string() }));
    }
    fn fetch(&mut self, now: Time, fetch: Fetch) -> TransferId {
        let id = TransferId(self.transfers.len() as u32 + 1);
        let report = TransferReport { started: now, ..TransferReport::default() };
        self.transfers.insert(id, Transfer { fetch, store: None, report });
        self.next = Some(now);
        id
    }
    fn cancel(&mut self, now: Time, transfer: TransferId) {
        if let Some(transfer) = self.transfers.get_mut(&transfer) {
            transfer.store = None;
            transfer.report.ended.get_or_insert(now);
            transfer.report.failure.get_or_insert("it was cancelled".into());
        }
    }
    fn watch(&mut self, _: Time, scope: &Name) {
        if self.resolver == Resolver::Silent {
            return;
        }
        let network = self.network.0.lock().unwrap();
        let found = network.iter().filter(|(name, _)| scope.is_prefix_of(name));
        let appeared = found.map(|(name, object)| ResolverEvent::Appeared {
            name: name.to_string(),
            is_scope: false,
            publishers: 1,
            bytes: object.manifest().size,
        });
        let appeared: Vec<_> = appeared.collect();
        let listed = ResolverEvent::Listed { name: scope.to_string(), entries: appeared.len() as u32 };
        self.events.extend(appeared.into_iter().chain([listed]).map(Event::Resolver));
    }
    fn unwatch(&mut self, _: Time, _: &Name) {}
    fn leave(&mut self, _: Time) {}
    fn limit(&mut self, _: Time, _: Option<TransferId>, _: Option<Rate>) {}
    fn set_face_policy(&mut self, _: Time, _: FaceId, _: FacePolicy) {}
    fn report(&self, _: Time, transfer: TransferId) -> Option<TransferReport> {
        self.transfers.get(&transfer).map(|transfer| transfer.report.clone())
    }
    fn transfers(&self) -> Vec<(TransferId, Name)> {
        self.transfers.iter().map(|(id, transfer)| (*id, transfer.fetch.name.clone())).collect()
    }
    fn publishes(&self, name: &Name) -> bool {
        self.published.iter().any(|(of, _)| of == name)
    }
    fn published_count(&self) -> usize {
        self.published.len()
    }
    fn published(&self) -> Vec<(Name, ByteCount)> {
        self.published.iter().map(|(name, size)| (name.clone(), ByteCount(*size))).collect()
    }
    fn status(&self, _: Time) -> NodeStatus {
        NodeStatus {
            node: NodeId(7),
            label: "stand-in".into(),
            family: "psi",
            faces: vec![FaceStatus { face: FaceId(1), neighbour: "hall".into(), up: true, ..FaceStatus::default() }],
            cache: Some(CacheStatus { policy: "lru", hits: 3, ..CacheStatus::default() }),
            counters: [("malformed: too short", 2)].into(),
            ..NodeStatus::default()
        }
    }
}

/// A config whose state lives in `folder`.
pub(super) fn config(folder: &Path, more: &str) -> NodeConfig {
    let text = format!(
        "[node]\nlabel = \"stand-in\"\nroles = [\"sender\", \"receiver\", \"router\"]\nstate_dir = \"state\"\n\
         listen = [\"127.0.0.1:0\"]\n{more}"
    );
    NodeConfig::parse("test.toml", &text, folder).unwrap()
}
