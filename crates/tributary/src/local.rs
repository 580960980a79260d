//! Carries out requests on a node in this process.
use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};
use tributary_content::{Name, PublicKey, SigningKey};
use tributary_core::{
    Duration, FaceId, Rate, Time, TransferId,
    event::{Event, ResolverEvent, TransferEvent, TransferReport},
    link::{LinkChange, LinkState},
};
use tributary_net::{
    Clock,
    disk::{self, LeftOut},
};
use tributary_transport::{Fetch, Obstacle, ObstacleKind};

use crate::{
    api::{Api, Flow, Get, Output, Request, Term},
    config::{NodeConfig, Role},
    diagnosis::{self, Diagnosis},
    error::{ApiError, ErrorKind},
    explain,
    fault::CorruptObject,
    files::{Files, Sink, Trouble, unfinished_at},
    hub::{Heard, Listener, Resolution},
    messages::{Change, GetOptions},
    occupied::Occupied,
    publications::{Publication, Publications},
    registry::{self, BoxedNode},
    running::Running,
    told::{PROGRESS_INTERVAL, Told},
    views::{CacheView, DoneView, ProgressView, StatusView, TransferView},
};

/// A node in this process, with everything that a person may ask of it. Dropping it stops the node.
pub struct LocalApi {
    config: NodeConfig,
    /// The config as it was read last; what only a restart changes is as in `config`.
    current: Mutex<NodeConfig>,
    running: Running,
    files: Files,
    key: SigningKey,
    publications: Publications,
    seed: u64,
    gets: AtomicUsize,
    /// Somebody receives what is sent.
    receiving: AtomicBool,
    /// The names that it was told to attach to, whoever receives.
    attached: Mutex<BTreeSet<Name>>,
    /// The files and folders that are published, by the URIs of their names.
    originals: Mutex<BTreeMap<String, disk::Original>>,
    /// Dropped last: whoever comes next finds everything written.
    _occupied: Occupied,
}

impl LocalApi {
    /// Starts the node of a config: opens sockets and state, publishes what the config and earlier runs say.
    ///
    /// # Errors
    /// [`ApiError`] if an address is taken, the state folder cannot be used, or something cannot be published.
    pub fn start(config: NodeConfig) -> Result<Self, ApiError> {
        let mut config = config;
        let seed = seed(&config);
        let files = Files::open(&config.state_dir)?;
        let occupied = Occupied::take(&config)?;
        let key = files.key(&config.key)?;
        registry::identify(&mut config, &key);
        let running = Running::start(&config, seed, files.storage())?;
        Self::with_running(config, running, seed, files, key, occupied)
    }
    /// The same with a node that the caller made, for tests of fronts.
    ///
    /// # Errors
    /// Those of [`LocalApi::start`].
    pub fn start_node(config: NodeConfig, node: BoxedNode) -> Result<Self, ApiError> {
        let seed = seed(&config);
        let files = Files::open(&config.state_dir)?;
        let occupied = Occupied::take(&config)?;
        let key = files.key(&config.key)?;
        let running = Running::start_node(&config, seed, files.storage(), node)?;
        Self::with_running(config, running, seed, files, key, occupied)
    }
    /// The config of the node.
    pub fn config(&self) -> &NodeConfig {
        &self.config
    }
    /// Where it listens, with the ports that the system chose.
    pub fn listen(&self) -> Vec<String> {
        self.running.listen_addrs()
    }
    /// The key that it publishes with.
    pub fn publisher(&self) -> PublicKey {
        self.key.public()
    }
    /// Publishes what the config and earlier runs say. What cannot be published any more is given back and told as
    /// a note; a publication of the config that fails is an error.
    ///
    /// # Errors
    /// [`ApiError`] names the entry of the config.
    pub fn publish_all(&self) -> Result<Vec<Told>, ApiError> {
        let mut told = Vec::new();
        for entry in &self.config.publish {
            let (publication, left_out) = self.open_object(&entry.path, entry.name.clone(), entry.version)?;
            told.extend(left_out);
            told.push(self.offer(publication)?);
        }
        for publication in self.publications.list() {
            if self.config.publish.iter().any(|entry| entry.name == publication.name) {
                continue;
            }
            let opened = self.open_object(&publication.path, publication.name.clone(), publication.version);
            match opened.and_then(|(opened, left_out)| Ok((left_out, self.offer(opened)?))) {
                Ok((left_out, published)) => told.extend(left_out.into_iter().chain([published])),
                Err(error) => {
                    let note = format!("'{}' is not published any more: {}", publication.name, error.message);
                    tracing::warn!("{note}");
                    self.running.hub().note(&note);
                }
            }
        }
        Ok(told)
    }
    /// Waits until a neighbour answers, for at most `patience`. A node without configured neighbours does not wait.
    ///
    /// # Errors
    /// [`ApiError`] if the node is gone.
    pub fn wait_for_neighbour(&self, patience: Duration) -> Result<bool, ApiError> {
        let clock = Clock::new();
        let listener = self.running.hub().listen();
        while !self.config.faces.is_empty() && clock.now().since(Time::ZERO) < patience {
            let status = self.running.call(|node, now| node.status(now))?;
            if status.faces.iter().any(|face| face.up) {
                return Ok(true);
            }
            // Hellos answer within milliseconds; asking again soon costs nothing beside a person's patience.
            listener.wait(Duration::from_millis(5));
        }
        Ok(self.config.faces.is_empty())
    }
    /// Why no neighbour answers, and what to try; `None` if one does.
    pub fn why_alone(&self) -> Option<(String, Option<String>)> {
        diagnosis::alone(self).map(|Diagnosis { reason, hint }| (reason, hint))
    }
    /// Stops the node: what runs ends, verified chunks are kept.
    ///
    /// # Errors
    /// [`ApiError`] if the node's thread panicked.
    pub fn stop(&self) -> Result<(), ApiError> {
        self.running.stop()
    }

    pub(crate) fn running(&self) -> &Running {
        &self.running
    }
    pub(crate) fn files(&self) -> &Files {
        &self.files
    }
    pub(crate) fn key(&self) -> &SigningKey {
        &self.key
    }
    pub(crate) fn receiving(&self) -> &AtomicBool {
        &self.receiving
    }
    pub(crate) fn current(&self) -> MutexGuard<'_, NodeConfig> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Whether what is published under a name is still as it was then.
    pub(crate) fn is_unchanged(&self, name: &Name) -> bool {
        self.originals().get(&name.to_string()).is_some_and(disk::Original::is_unchanged)
    }
    pub(crate) fn attached(&self) -> MutexGuard<'_, BTreeSet<Name>> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn originals(&self) -> MutexGuard<'_, BTreeMap<String, disk::Original>> {
        self.originals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_running(
        config: NodeConfig,
        running: Running,
        seed: u64,
        files: Files,
        key: SigningKey,
        occupied: Occupied,
    ) -> Result<Self, ApiError> {
        let publications = Publications::open(&config.state_dir)?;
        Ok(LocalApi {
            current: Mutex::new(config.clone()),
            config,
            running,
            files,
            key,
            publications,
            seed,
            gets: AtomicUsize::new(0),
            receiving: AtomicBool::new(false),
            attached: Mutex::default(),
            originals: Mutex::default(),
            _occupied: occupied,
        })
    }

    fn put(
        &self,
        path: &Path,
        name: &str,
        version: Option<u64>,
        patience: Duration,
        term: Term,
        tell: &mut dyn FnMut(Told) -> Flow,
    ) -> Result<(), ApiError> {
        self.must_play(Role::Sender, "publish")?;
        let name = parse_name(name)?;
        if name.is_empty() {
            return Err(ApiError::new(ErrorKind::Usage, "cannot publish under '/': a name has at least one component"));
        }
        let path = std::path::absolute(path).map_err(|error| ApiError::io("find", path.display(), &error))?;
        let room = self.config.limits.publications;
        let uri = name.to_string();
        let published = self.running.call(|node, now| node.status(now).published)?;
        if published.len() >= room && !published.iter().any(|(of, _)| *of == uri) {
            let message = format!("cannot publish '{name}': this node publishes {room} objects already");
            return Err(ApiError::new(ErrorKind::Usage, message).with_hint("raise 'publications' in [limits]"));
        }
        let (publication, left_out) = self.open_object(&path, name.clone(), version)?;
        if let Some(left_out) = left_out {
            tell(left_out);
        }
        // First what may fail: what is offered now is offered after a restart.
        if term == Term::UntilRemoved {
            self.publications.remember(Publication { name: name.clone(), path, version })?;
        }
        self.running.hub().forget(&uri);
        let listener = self.running.hub().listen();
        let mut told = self.offer(publication)?;
        let outcome = wait_until(&listener, patience, || self.running.hub().resolution(&uri));
        if let Some(Resolution::Rejected(reason)) = &outcome {
            // What the node has given up is offered no more; else it goes on trying.
            let published = self.running.call(|node, now| node.status(now).published)?;
            if !published.iter().any(|(of, _)| *of == uri) {
                if term == Term::UntilRemoved {
                    self.publications.forget(&name)?;
                }
                self.originals().remove(&uri);
            }
            let message = format!("cannot publish '{uri}': the resolver refused: {reason}");
            return Err(ApiError::new(ErrorKind::Rejected, message));
        }
        if let Told::Published { confirmed, .. } = &mut told {
            *confirmed = outcome == Some(Resolution::Confirmed);
        }
        if outcome.is_none() {
            let of = name.clone();
            let obstacle = self.running.call(move |node, now| node.obstacle(now, &of))?;
            let obstacle = obstacle.filter(|obstacle| obstacle.kind != ObstacleKind::NoSuchName);
            if let Some(Diagnosis { reason, .. }) = diagnosis::diagnose(self, &uri, obstacle.as_ref()) {
                tell(Told::Note { text: format!("'{uri}' cannot be confirmed yet: {reason}") });
            }
        }
        tell(told);
        Ok(())
    }

    fn get(
        &self,
        get: &Get,
        stream: Option<Box<dyn Write + Send>>,
        tell: &mut dyn FnMut(Told) -> Flow,
    ) -> Result<(), ApiError> {
        self.must_play(Role::Receiver, "fetch")?;
        let name = parse_name(&get.name)?;
        let (options, has_options) = (get.options.wanted(), get.options != GetOptions::default());
        if has_options && !self.running.call(|node, _| node.messaging().is_some())? {
            let family = self.config.family;
            let message = format!(
                "cannot fetch '{name}' so: with family {family} the publisher cuts chunks, and the node alone sees to losses"
            );
            return Err(ApiError::new(ErrorKind::Usage, message).with_hint(
                "leave out chunk size, reliability, NACK timeout and what the network may keep, or take a node with \
                 family = \"mf\"",
            ));
        }
        let publisher = match &get.publisher {
            Some(text) => Some(text.parse::<PublicKey>().map_err(|error| {
                let message = format!("'{text}' is not a publisher's key: {error}");
                ApiError::new(ErrorKind::Usage, message).with_hint("`trib key show` prints it on the publisher's side")
            })?),
            None => None,
        };
        let sink = match (&get.output, stream) {
            (Output::Path(path), _) => {
                Sink::Path(std::path::absolute(path).map_err(|error| ApiError::io("find", path.display(), &error))?)
            }
            (Output::Stream, Some(stream)) => Sink::Stream(stream),
            (Output::Stream, None) => {
                return Err(ApiError::new(ErrorKind::Usage, "a fetch to a stream needs a stream to write to"));
            }
        };
        let room = self.config.limits.transfers;
        let _place = Place::take(&self.gets, room).ok_or_else(|| {
            let message = format!("cannot fetch '{name}': this node runs {room} fetches already");
            ApiError::new(ErrorKind::Usage, message).with_hint("raise 'transfers' in [limits], or wait")
        })?;
        let output = match &sink {
            Sink::Path(path) => Some(path.display().to_string()),
            Sink::Stream(_) => None,
        };
        let part = match &sink {
            Sink::Path(path) => unfinished_at(path).map(|folder| folder.display().to_string()),
            Sink::Stream(_) => None,
        };
        let trouble = Trouble::default();
        let fetch = Fetch {
            name: name.clone(),
            opener: self.files.opener(sink, publisher, get.overwrite, &trouble)?,
            rate_limit: get.limit_bits_per_second.map(Rate::from_bits_per_second),
            paths_per_source: self.config.fetch.paths_per_source,
            metric: self.config.fetch.metric,
            patience: Some(get.patience_ms.map_or(self.config.fetch.patience, Duration::from_millis)),
        };
        let listener = self.running.hub().listen();
        let transfer = self.running.call(move |node, now| match node.messaging().filter(|_| has_options) {
            Some(messaging) => messaging.get(now, fetch, &options),
            None => node.fetch(now, fetch),
        })?;
        let name = name.to_string();
        let mut obstacle = None;
        let patience = get.patience_ms.map_or(self.config.fetch.patience, Duration::from_millis);
        let (what, waits) = ((&*name, part.as_deref()), Some(patience));
        let report = self.follow(transfer, what, &listener, &mut obstacle, waits, tell)?;
        match report {
            Ended::Completed(report) => {
                tell(Told::Done(DoneView::new(&name, self.config.family.word(), &report, output)));
                Ok(())
            }
            Ended::Level(below) => {
                self.running.call(move |node, now| node.cancel(now, transfer))?;
                let message = format!("cannot fetch '{name}': it is a level above other names, such as {}", below[0]);
                Err(ApiError::new(ErrorKind::NotFound, message).with_hint(format!("`trib ls {name}` lists them")))
            }
            Ended::Failed(report, reason) => {
                let diagnosis = report.sources.is_empty().then(|| diagnosis::diagnose(self, &name, obstacle.as_ref()));
                Err(failure(&name, &reason, &report, (&trouble, part.as_deref()), diagnosis.flatten()))
            }
            Ended::Stopped => {
                self.running.call(move |node, now| node.cancel(now, transfer))?;
                let kept = part.map(|part| format!(" in '{part}'")).unwrap_or_default();
                let message = format!("the fetch of '{name}' was ended; what was verified is kept{kept}");
                Err(ApiError::new(ErrorKind::Cancelled, message).with_hint("the same command goes on where it stopped"))
            }
        }
    }
    /// Tells the progress of a transfer until it ends. `obstacle` becomes what keeps it from finding a source; that the
    /// network lacks something is told at once, since waiting does not help.
    fn follow(
        &self,
        transfer: TransferId,
        (name, part): (&str, Option<&str>),
        listener: &Listener,
        obstacle: &mut Option<Obstacle>,
        patience: Option<Duration>,
        tell: &mut dyn FnMut(Told) -> Flow,
    ) -> Result<Ended, ApiError> {
        let clock = Clock::new();
        let mut next = Time::ZERO;
        let (mut missing_since, mut is_told) = (None, false);
        let mut may_be_level = self.config.family.lists();
        let mut flow =
            tell(Told::Fetching { transfer: transfer.to_string(), name: name.into(), part: part.map(Into::into) });
        while flow == Flow::Continue {
            let mut ending = None;
            match listener.wait(clock.until(next)) {
                Heard::Event(Event::Resolver(ResolverEvent::Rejected { name: of, operation: "subscribe", reason }))
                    if of == name =>
                {
                    *obstacle = Some(Obstacle { kind: ObstacleKind::Silent, reason });
                }
                Heard::Event(Event::Transfer(of, event)) if of == transfer => match event {
                    TransferEvent::Completed => ending = Some(None),
                    TransferEvent::Failed { reason } => ending = Some(Some(reason)),
                    event => {
                        if let Some(told) = Told::from_event(&Event::Transfer(of, event)) {
                            flow = tell(told);
                        }
                    }
                },
                Heard::Event(_) | Heard::Silence => {}
                Heard::Gone => return Err(ApiError::new(ErrorKind::Gone, "the node was stopped")),
            }
            if ending.is_none() && clock.now() < next {
                continue;
            }
            next = clock.now() + PROGRESS_INTERVAL;
            let Some((now, report)) = self.report(transfer)? else {
                let message = format!("'{name}': the node forgot {transfer} before it ended");
                return Err(ApiError::new(ErrorKind::Incomplete, message));
            };
            if flow == Flow::Continue {
                flow = tell(Told::Progress(ProgressView::new(transfer, name, &report, now)));
            }
            // A family that has nobody to ask yet may wait longer than it should.
            let is_over = patience.is_some_and(|patience| clock.now().since(Time::ZERO) >= patience + PATIENCE_SLACK);
            if is_over && ending.is_none() && report.sources.is_empty() && report.bytes == 0 && report.ended.is_none() {
                self.running.call(move |node, now| node.cancel(now, transfer))?;
                let patience = patience.unwrap_or_default();
                return Ok(Ended::Failed(report, format!("no publisher answered within {patience:?}")));
            }
            if report.sources.is_empty() {
                self.look_for_obstacle(name, obstacle)?;
                let missing = obstacle.as_ref().filter(|obstacle| obstacle.kind == ObstacleKind::Missing);
                missing_since = missing.map(|_| missing_since.unwrap_or(clock.now()));
                let is_due = missing_since.is_some_and(|since| clock.now().since(since) >= MISSING_PATIENCE);
                if let Some(missing) = missing.filter(|_| is_due && !is_told) {
                    is_told = true;
                    flow = tell(Told::Note { text: format!("'{name}' cannot be found yet: {}", missing.reason) });
                }
            }
            if clock.now() >= LEVEL_LOOK && ending.is_none() && std::mem::take(&mut may_be_level) {
                let is_found = report.bytes > 0 || !report.sources.is_empty() || report.ended.is_some();
                let below = if is_found { Vec::new() } else { self.below(name) };
                if !below.is_empty() {
                    return Ok(Ended::Level(below));
                }
            }
            match ending {
                Some(None) => return Ok(Ended::Completed(report)),
                Some(Some(reason)) => return Ok(Ended::Failed(report, reason)),
                // The event is still on its way, or was lost.
                None if report.ended.is_some() => {
                    return Ok(match report.failure.clone() {
                        Some(reason) => Ended::Failed(report, reason),
                        None => Ended::Completed(report),
                    });
                }
                None => {}
            }
        }
        Ok(Ended::Stopped)
    }

    /// Takes note of what keeps a fetch from finding a source. What was known stays known: a fetch that ends is forgotten by
    /// those who knew.
    fn look_for_obstacle(&self, name: &str, obstacle: &mut Option<Obstacle>) -> Result<(), ApiError> {
        let of = parse_name(name)?;
        if let Some(found) = self.running.call(move |node, now| node.obstacle(now, &of))? {
            *obstacle = Some(found);
        }
        Ok(())
    }
    /// The names right below one, as far as they are known soon.
    fn below(&self, name: &str) -> Vec<String> {
        let mut below = Vec::new();
        let listed = self.list(name, LEVEL_PATIENCE, &mut |told| {
            if let Told::Entry { name, .. } = told {
                below.push(name);
            }
            Flow::Continue
        });
        // What cannot be listed is no level, as far as anybody knows.
        tracing::debug!("whether '{name}' is a level: {listed:?}");
        below
    }
    fn list(&self, scope: &str, patience: Duration, tell: &mut dyn FnMut(Told) -> Flow) -> Result<(), ApiError> {
        let scope = parse_name(scope)?;
        let uri = scope.to_string();
        let listener = self.running.hub().listen_to_many();
        let watched = scope.clone();
        self.running.call(move |node, now| node.watch(now, &watched))?;
        let clock = Clock::new();
        let deadline = Time::ZERO + patience;
        let result = loop {
            let left = clock.until(deadline);
            let nothing = |after: String| {
                let message = format!("cannot list '{uri}': nothing is known below it{after}");
                match diagnosis::diagnose(self, &uri, None) {
                    Some(Diagnosis { reason, hint }) => {
                        let error = ApiError::new(ErrorKind::NotFound, format!("{message}: {reason}"));
                        hint.into_iter().fold(error, ApiError::with_hint)
                    }
                    None => ApiError::new(ErrorKind::NotFound, message).with_hint(
                        "`trib ls /` lists what there is; if that fails too, see in `trib status` who answers",
                    ),
                }
            };
            if left.is_zero() {
                break Err(nothing(format!(" after {patience:?}")));
            }
            match listener.wait(left) {
                Heard::Event(Event::Resolver(event)) => match &event {
                    ResolverEvent::Listed { name, entries: 0 } if *name == uri => break Err(nothing(String::new())),
                    ResolverEvent::Listed { name, .. } if *name == uri => {
                        tell(Told::from_event(&Event::Resolver(event)).expect("a listing has a shape"));
                        break Ok(());
                    }
                    ResolverEvent::Appeared { name, .. } if is_below(&uri, name) => {
                        if let Some(told) = Told::from_event(&Event::Resolver(event))
                            && tell(told) == Flow::Stop
                        {
                            break Err(ApiError::new(
                                ErrorKind::Cancelled,
                                format!("the listing of '{uri}' was ended"),
                            ));
                        }
                    }
                    ResolverEvent::Rejected { name, operation: "subscribe" | "watch" | "list", reason }
                        if *name == uri =>
                    {
                        let message = format!("cannot list '{uri}': {reason}");
                        break Err(ApiError::new(ErrorKind::Rejected, message));
                    }
                    _ => {}
                },
                Heard::Event(_) | Heard::Silence => {}
                Heard::Gone => break Err(ApiError::new(ErrorKind::Cancelled, "the node was stopped")),
            }
        };
        self.running.call(move |node, now| node.unwatch(now, &scope))?;
        result
    }

    fn remove(&self, name: &str, tell: &mut dyn FnMut(Told) -> Flow) -> Result<(), ApiError> {
        let name = parse_name(name)?;
        let uri = name.to_string();
        let published = self.running.call(|node, now| node.status(now).published)?;
        let was_remembered = self.publications.forget(&name)?;
        if !was_remembered && !published.iter().any(|(of, _)| *of == uri) {
            let message = format!("cannot remove '{uri}': this node does not publish it");
            let hint = "`trib status` lists what it publishes; ask the node that has it";
            return Err(ApiError::new(ErrorKind::NotFound, message).with_hint(hint));
        }
        self.withdraw(&name)?;
        tell(Told::Unpublished { name: uri });
        Ok(())
    }
    /// Publishes a name no more.
    pub(crate) fn withdraw(&self, name: &Name) -> Result<(), ApiError> {
        let (uri, of) = (name.to_string(), name.clone());
        self.running.call(move |node, now| node.unpublish(now, &of))?;
        self.running.hub().forget(&uri);
        self.originals().remove(&uri);
        Ok(())
    }

    pub(crate) fn status(&self) -> Result<StatusView, ApiError> {
        let (status, transfers) = self.running.call(|node, now| {
            let transfers: Vec<_> = node
                .transfers()
                .into_iter()
                .filter_map(|(id, name)| node.report(now, id).map(|report| (id, name, report)))
                .collect();
            (node.status(now), transfers)
        })?;
        let hub = self.running.hub();
        let mut view = StatusView::new(&status);
        view.listen = self.listen();
        // What a node is able to do is more than what it may.
        view.roles = self.config.roles.iter().map(ToString::to_string).collect();
        for (face_id, face) in self.running.neighbours() {
            let id = face_id.to_string();
            let silent = view.faces.iter_mut().filter(|view| view.id == id && view.neighbour.is_empty());
            let found = self.running.found(face_id).and_then(|found| found.address);
            let address = found.map_or_else(String::new, |address| format!(" ({address})"));
            silent.for_each(|view| view.neighbour = format!("{}{address}", face.peer));
        }
        for published in &mut view.published {
            published.confirmed = hub.resolution(&published.name) == Some(Resolution::Confirmed);
            published.unreadable = hub.unreadable(&published.name);
        }
        view.transfers = transfers
            .iter()
            .map(|(id, name, report)| TransferView {
                id: id.to_string(),
                name: name.to_string(),
                bytes: report.bytes,
                stored_bytes: report.stored_bytes,
                running: report.ended.is_none(),
                failure: report.failure.clone(),
            })
            .collect();
        let stats = self.running.stats()?;
        let now = self.running.now();
        for face in &mut view.faces {
            face.problem = self.running.problem(&face.id, &stats, now);
        }
        let counters = [
            ("driver: datagrams in", stats.in_datagrams),
            ("driver: datagrams out", stats.out_datagrams),
            ("driver: bytes in", stats.in_bytes),
            ("driver: bytes out", stats.out_bytes),
            ("driver: backlog drops", stats.backlog_drops),
            ("driver: oversize drops", stats.oversize_drops),
            ("driver: send errors", stats.send_errors),
            ("driver: receive errors", stats.receive_errors),
            ("driver: socket buffer shortfall in bytes", stats.buffer_shortfall_bytes),
            ("events too many for a listener", hub.events_dropped()),
        ];
        view.counters.extend(counters.map(|(name, count)| (name.to_string(), count)));
        view.notes = hub.notes();
        view.uptime_seconds = now.as_secs_f64();
        view.version = env!("CARGO_PKG_VERSION").into();
        Ok(view)
    }

    /// Tells the progress of a fetch that somebody else began, until it ends; who leaves ends nothing.
    fn follow_other(&self, id: &str, tell: &mut dyn FnMut(Told) -> Flow) -> Result<(), ApiError> {
        let transfers = self.transfers()?;
        // Of several fetches of one name the latest is meant.
        let found = transfers.iter().rfind(|(transfer, name)| transfer.to_string() == id || name.to_string() == id);
        let (transfer, name) = found.cloned().ok_or_else(|| {
            let message = format!("there is no fetch '{id}'");
            ApiError::new(ErrorKind::NotFound, message).with_hint("`trib status` lists the transfers")
        })?;
        let (name, listener, mut obstacle) = (name.to_string(), self.running.hub().listen(), None);
        match self.follow(transfer, (&name, None), &listener, &mut obstacle, None, tell)? {
            Ended::Completed(report) => {
                tell(Told::Done(DoneView::new(&name, self.config.family.word(), &report, None)));
                Ok(())
            }
            Ended::Failed(report, reason) => Err(failure(&name, &reason, &report, (&Trouble::default(), None), None)),
            Ended::Level(_) | Ended::Stopped => Ok(()),
        }
    }
    /// The same, with what was changed on the disk since it was published.
    fn status_with_changes(&self) -> Result<StatusView, ApiError> {
        let mut status = self.status()?;
        let originals = self.originals().clone();
        for published in &mut status.published {
            published.changed = originals.get(&published.name).is_some_and(|original| !original.is_unchanged());
        }
        Ok(status)
    }

    fn paths(&self, name: &str, tell: &mut dyn FnMut(Told) -> Flow) -> Result<(), ApiError> {
        let name = parse_name(name)?;
        let uri = name.to_string();
        let mut found = false;
        for (transfer, of) in self.transfers()? {
            if of != name {
                continue;
            }
            if let Some((now, report)) = self.report(transfer)? {
                found = true;
                let view = ProgressView::new(transfer, &uri, &report, now);
                tell(Told::Paths { transfer: view.transfer, name: view.name, paths: view.paths });
            }
        }
        if found {
            return Ok(());
        }
        let message = format!("no paths for '{uri}': this node has not fetched it");
        Err(ApiError::new(ErrorKind::NotFound, message).with_hint("paths are found when a fetch starts"))
    }

    fn explain(&self, id: &str) -> Result<Vec<String>, ApiError> {
        let mut transfers = Vec::new();
        for (transfer, name) in self.transfers()? {
            if let Some((now, report)) = self.report(transfer)? {
                transfers.push(explain::Known { transfer, name: name.to_string(), report, now });
            }
        }
        explain::explain(id, &transfers, &self.status_with_changes()?)
    }

    fn link(&self, face: &str, up: bool) -> Result<Told, ApiError> {
        let number = face.strip_prefix("face-").and_then(|number| number.parse().ok()).map(FaceId);
        let number = number.ok_or_else(|| {
            ApiError::new(ErrorKind::Usage, format!("'{face}' is not a face; `trib status` lists them: face-1, …"))
        })?;
        let state = if up { LinkState::Up } else { LinkState::Down };
        self.running.change_link(number, LinkChange::State(state))?;
        let text = format!("the link of {number} is {}", if up { "mended" } else { "cut" });
        self.running.hub().note(&text);
        Ok(Told::Note { text })
    }

    pub(crate) fn must_play(&self, role: Role, verb: &str) -> Result<(), ApiError> {
        if self.config.has_role(role) {
            return Ok(());
        }
        let message = format!("cannot {verb}: the node '{}' does not have the role {role}", self.config.label);
        Err(ApiError::new(ErrorKind::Usage, message)
            .with_hint(format!("add \"{role}\" to roles in its [node] section")))
    }
    /// A file or folder as an object, and a note of what in it is left out.
    pub(crate) fn open_object(
        &self,
        path: &Path,
        name: Name,
        version: Option<u64>,
    ) -> Result<(disk::Publication, Option<Told>), ApiError> {
        let mut publication = self.files.publish(path, name, version, &self.key)?;
        let note = left_out_note(path, &publication.left_out).map(|text| {
            tracing::warn!("{text}");
            self.running.hub().note(&text);
            Told::Note { text }
        });
        let share = self.config.faults.corrupt_chunks;
        if share > 0.0 {
            publication.object = Box::new(CorruptObject::new(publication.object, share, self.seed));
        }
        Ok((publication, note))
    }
    pub(crate) fn offer(&self, publication: disk::Publication) -> Result<Told, ApiError> {
        let disk::Publication { object, original, .. } = publication;
        let manifest = object.manifest();
        self.originals().insert(manifest.name.to_string(), original);
        let told = Told::Published {
            name: manifest.name.to_string(),
            bytes: manifest.size,
            version: manifest.version,
            publisher: manifest.publisher.to_string(),
            confirmed: false,
        };
        self.running.call(move |node, now| node.publish(now, object))?;
        Ok(told)
    }
    pub(crate) fn transfers(&self) -> Result<Vec<(TransferId, Name)>, ApiError> {
        self.running.call(|node, _| node.transfers())
    }
    fn report(&self, transfer: TransferId) -> Result<Option<(Time, TransferReport)>, ApiError> {
        self.running.call(move |node, now| node.report(now, transfer).map(|report| (now, report)))
    }
    /// A transfer by its number, if the node knows it.
    fn transfer(&self, text: &str) -> Result<TransferId, ApiError> {
        let found = self.transfers()?.into_iter().find(|(id, _)| id.to_string() == text);
        found.map(|(id, _)| id).ok_or_else(|| {
            let message = format!("there is no transfer '{text}'");
            ApiError::new(ErrorKind::NotFound, message).with_hint("`trib status` lists the transfers")
        })
    }
}

impl Api for LocalApi {
    fn ask(
        &self,
        request: Request,
        stream: Option<Box<dyn Write + Send>>,
        tell: &mut dyn FnMut(Told) -> Flow,
    ) -> Result<(), ApiError> {
        match request {
            Request::Put { path, name, version, patience_ms, term } => {
                self.put(&path, &name, version, Duration::from_millis(patience_ms), term, tell)
            }
            Request::Get(get) => self.get(&get, stream, tell),
            Request::Begin(get) => {
                let message = format!("cannot fetch '{}' without whoever asked: this node ends with it", get.name);
                Err(ApiError::new(ErrorKind::Usage, message).with_hint("start one with `trib node`, and name it"))
            }
            Request::Follow { id } => self.follow_other(&id, tell),
            Request::List { scope, patience_ms } => self.list(&scope, Duration::from_millis(patience_ms), tell),
            Request::Remove { name } => self.remove(&name, tell),
            Request::Paths { name } => self.paths(&name, tell),
            Request::Status => {
                tell(Told::Status(self.status_with_changes()?));
                Ok(())
            }
            Request::Explain { id } => {
                let lines = self.explain(&id)?;
                tell(Told::Explanation { id, lines });
                Ok(())
            }
            Request::Cache => {
                let cache = self.status()?.cache.ok_or_else(|| {
                    let message = format!("the node '{}' has no packet cache", self.config.label);
                    ApiError::new(ErrorKind::NotFound, message).with_hint("nodes with the role router have one")
                })?;
                tell(Told::Cache(CacheView { ..cache }));
                Ok(())
            }
            Request::Cancel { transfer } => {
                let id = self.transfer(&transfer)?;
                self.running.call(move |node, now| node.cancel(now, id))?;
                tell(Told::Cancelled { transfer });
                Ok(())
            }
            Request::Limit { transfer, bits_per_second } => {
                let id = transfer.as_deref().map(|text| self.transfer(text)).transpose()?;
                let rate = bits_per_second.map(Rate::from_bits_per_second);
                self.running.call(move |node, now| node.limit(now, id, rate))?;
                tell(Told::Limited { transfer, bits_per_second });
                Ok(())
            }
            Request::Ping(ping) => self.ping(&ping, tell),
            Request::Traceroute(trace) => self.traceroute(&trace, tell),
            Request::Send(send) => self.send(&send, tell),
            Request::Recv(recv) => self.recv(&recv, tell),
            Request::Attach { name } => {
                tell(self.bind(&name, true)?);
                Ok(())
            }
            Request::Detach { name } => {
                tell(self.bind(&name, false)?);
                Ok(())
            }
            Request::Readers { name, readers } => {
                tell(self.set_readers(name, readers)?);
                Ok(())
            }
            Request::Groups => {
                tell(self.groups()?);
                Ok(())
            }
            Request::GroupAdd { label, members } => {
                tell(self.change_group(label, &members, Change::Add)?);
                Ok(())
            }
            Request::GroupRemove { label, members } => {
                tell(self.change_group(label, &members, Change::Remove)?);
                Ok(())
            }
            Request::Store => {
                tell(Told::Store(self.store()?));
                Ok(())
            }
            Request::Link { face, up } => {
                tell(self.link(&face, up)?);
                Ok(())
            }
        }
    }
}

/// How a transfer ended.
enum Ended {
    Completed(TransferReport),
    Failed(TransferReport, String),
    Stopped,
    /// Nobody offers it, but there are these names below it.
    Level(Vec<String>),
}

/// A fetch that knows no source after so long may be one of a level: then it is looked what is below it.
const LEVEL_LOOK: Time = Time::from_millis(500);
/// How much later than a fetch's patience it is ended, if its family does not end it.
const PATIENCE_SLACK: Duration = Duration::from_secs(1);
/// How long the network may seem to lack something before that is told: beacons and routes take a moment to arrive.
const MISSING_PATIENCE: Duration = Duration::from_secs(2);
/// How long that may take.
const LEVEL_PATIENCE: Duration = Duration::from_millis(500);

/// One of a limited number of places; given back when dropped.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(taken: &'a AtomicUsize, room: usize) -> Option<Self> {
        let more = |count: usize| (count < room).then_some(count + 1);
        taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Place(taken))
    }
}
impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What to tell a person about a fetch that failed; `diagnosis` is why nobody answered.
fn failure(
    name: &str,
    reason: &str,
    report: &TransferReport,
    (trouble, part): (&Trouble, Option<&str>),
    diagnosis: Option<Diagnosis>,
) -> ApiError {
    // Where it was given up its name is told as well.
    let message = format!("cannot fetch '{name}': {}", reason.replace(&format!(" of '{name}'"), ""));
    let kept = report.stored_bytes;
    match trouble.take() {
        Some(error) => ApiError::new(ErrorKind::Io, format!("cannot fetch '{name}': {error}")),
        None if report.sources.iter().any(|source| source.distrusted.is_some()) => {
            ApiError::new(ErrorKind::NotFound, message).with_hint(
                "ask the publisher for the key that `trib key show` prints there, and pin it with --publisher",
            )
        }
        None if report.bytes == 0 => match diagnosis {
            Some(Diagnosis { reason, hint }) => {
                let error = ApiError::new(ErrorKind::NotFound, format!("{message}: {reason}"));
                hint.into_iter().fold(error, ApiError::with_hint)
            }
            None => ApiError::new(ErrorKind::NotFound, message)
                .with_hint("is a publisher running? list what the network offers with `trib ls`"),
        },
        None => ApiError::new(ErrorKind::Incomplete, message).with_hint(format!(
            "{kept} of {} bytes are verified and kept{}; the same command goes on there",
            report.bytes,
            part.filter(|_| kept > 0).map(|part| format!(" in '{part}'")).unwrap_or_default()
        )),
    }
}

/// Waits for `done` to give something, looking again after every event.
fn wait_until<T>(listener: &Listener, patience: Duration, done: impl Fn() -> Option<T>) -> Option<T> {
    let clock = Clock::new();
    let deadline = Time::ZERO + patience;
    loop {
        if let Some(result) = done() {
            return Some(result);
        }
        let left = clock.until(deadline);
        if left.is_zero() || matches!(listener.wait(left), Heard::Gone) {
            return None;
        }
    }
}

/// What is told of what in a folder is left out; `None` if that is nothing.
fn left_out_note(path: &Path, left_out: &[LeftOut]) -> Option<String> {
    let of = |left_out: &LeftOut| format!("'{}' ({})", left_out.path, left_out.reason);
    let some: Vec<String> = left_out.iter().take(LEFT_OUT_TOLD).map(of).collect();
    let more = match left_out.len().saturating_sub(LEFT_OUT_TOLD) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!some.is_empty()).then(|| format!("left out of '{}': {}{more}", path.display(), some.join(", ")))
}
/// Of what is left out of a folder so much is told.
const LEFT_OUT_TOLD: usize = 10;

/// Whether `name` is the scope itself or below it, as URIs.
fn is_below(scope: &str, name: &str) -> bool {
    scope == "/" || name == scope || name.strip_prefix(scope).is_some_and(|rest| rest.starts_with('/'))
}

pub(crate) fn parse_name(text: &str) -> Result<Name, ApiError> {
    text.parse().map_err(|error| ApiError::new(ErrorKind::Usage, format!("'{text}' is not a name: {error}")))
}

/// The config's seed, else one that no earlier start had.
fn seed(config: &NodeConfig) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The standard library's hasher is seeded by the system at each start: entropy without another dependency.
    config.seed.unwrap_or_else(|| std::hash::RandomState::new().build_hasher().finish())
}

/// Where a daemon keeps files that belong to one node.
pub(crate) fn publications_file(state_dir: &Path) -> PathBuf {
    state_dir.join("publications.json")
}

/// Shared by the control socket's threads.
pub(crate) type SharedApi = Arc<LocalApi>;
