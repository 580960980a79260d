//! Carries out requests on a node in this process.
use parking_lot::{Mutex, MutexGuard};
use std::{
    io::Write,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, OnceLock, atomic::AtomicBool, mpsc},
};
use tributary_content::{PublicKey, Reference, Signature};
use tributary_core::{Duration, Rate, Time, link::LinkState};
use tributary_net::{
    Clock,
    disk::{ObjectCache, OnOpen},
};
use tributary_trust::Identity;

use crate::{
    api::{Api, Flow, Notify},
    config::{FaceConfig, Invitation, NodeConfig},
    error::{ApiError, ErrorKind, spawn},
    families::{BoxedNode, Resolution},
    log,
    node::{LocalNode, files::Sink, membership, queue::State},
    notice::Notice,
    operations::{self, Binding, Change, Put},
    request::{Get, Output, Place, Request},
    views::DoneView,
};

/// Awaits the start of a queued fetch.
type Begun = mpsc::Sender<Result<Notice, ApiError>>;
/// Interval of checks for the node's end while no neighbour answers.
const NEIGHBOUR_LOOK: Duration = Duration::from_secs(1);
/// Interval of checks for fetches that are due.
const QUEUE_LOOK: Duration = Duration::from_millis(200);
/// How long a fetch that was paused may take to end.
const END_PATIENCE: Duration = Duration::from_secs(5);
const END_LOOK: Duration = Duration::from_millis(5);

/// A node in this process, with all operations for people. Dropping it stops the node.
pub struct LocalApi {
    pub(crate) node: LocalNode,
    on_fetched: OnceLock<OnFetched>,
    /// Held while fetches of the queue are taken, so that a client that adds one gets its result.
    turn: Mutex<()>,
}

/// Takes the report of a fetch that the node has carried out without a client.
type OnFetched = Box<dyn Fn(&DoneView) + Send + Sync>;

impl LocalApi {
    /// Starts the node of a config: opens sockets and state, and publishes the names of the config and of earlier runs.
    ///
    /// # Errors
    /// [`ApiError`] if an address is taken, the state folder cannot be used, or something cannot be published.
    pub fn start(config: NodeConfig) -> Result<Self, ApiError> {
        Ok(Self::of(LocalNode::start(config)?))
    }
    /// Starts a node that the caller made, for tests of fronts.
    ///
    /// # Errors
    /// The errors of [`LocalApi::start`].
    pub fn start_node(config: NodeConfig, node: BoxedNode) -> Result<Self, ApiError> {
        Ok(Self::of(LocalNode::start_node(config, node)?))
    }
    /// Has `on_fetched` called after each fetch of the queue that is complete. Only the first call counts.
    pub fn on_fetched(&self, on_fetched: impl Fn(&DoneView) + Send + Sync + 'static) {
        let _ = self.on_fetched.set(Box::new(on_fetched));
    }
    fn of(node: LocalNode) -> Self {
        node.apply_policies();
        LocalApi { node, on_fetched: OnceLock::new(), turn: Mutex::default() }
    }
    /// The config of the node.
    pub fn config(&self) -> &NodeConfig {
        &self.node.config
    }
    /// Where it listens, with the ports that the system chose.
    pub fn listen(&self) -> Vec<String> {
        self.node.runtime.listen_addrs()
    }
    /// Its address and key, by which others can name it; `None` without proof of keys at that address.
    pub fn invitation(&self) -> Option<Invitation> {
        self.node.invitation()
    }
    /// The key that it publishes with.
    pub fn publisher(&self) -> PublicKey {
        self.node.key.public()
    }
    /// A signature by that key for one purpose, which `context` names.
    pub fn sign(&self, context: &str, message: &[u8]) -> Signature {
        self.node.key.sign(context, message)
    }
    /// What the node is in its network, as its files say now; `None` without an authority, or if they cannot be read.
    pub fn identity(&self) -> Option<Identity> {
        membership::load(&self.node.config, &self.node.key).ok().flatten()
    }
    /// Keeps faces to these nodes besides the config's faces. Each node must prove its key, and learns this node's names.
    /// Only a family with routes gets such faces; in other families the config's network reaches the nodes.
    ///
    /// # Errors
    /// [`ApiError`] if the node is gone.
    pub fn keep_faces(&self, nodes: &[(PublicKey, SocketAddr)]) -> Result<(), ApiError> {
        let mut config = self.node.current.lock().clone();
        if config.family().profile().resolution != Resolution::Routes {
            return Ok(());
        }
        for (key, address) in nodes {
            let face = FaceConfig::to(*address, *key, config.security);
            if config.faces.iter().all(|other| other.peer != face.peer) {
                config.faces.push(face);
            }
        }
        self.node.runtime.change_neighbours(&config).map(drop)
    }
    /// Waits, without a limit, until the node's own thread has turned once: an answer shows that it is alive.
    ///
    /// # Errors
    /// [`ApiError`] if the node is gone.
    pub fn turn(&self) -> Result<(), ApiError> {
        self.node.runtime.call(|_, _| ())
    }
    /// Waits until the node has ended, and returns the reason.
    pub fn wait_for_end(&self) -> ApiError {
        self.node.runtime.driver.wait_for_end().into()
    }
    /// Waits until a neighbour answers, for at most `patience`. A node without configured neighbours does not wait.
    ///
    /// # Errors
    /// [`ApiError`] if the node is gone.
    pub fn wait_for_neighbour(&self, patience: Duration) -> Result<bool, ApiError> {
        let (node, clock) = (&self.node, Clock::new());
        let subscription = node.runtime.events.subscribe();
        while !node.config.faces.is_empty() && clock.now().since(Time::ZERO) < patience {
            let status = node.runtime.call(|node, now| node.status(now))?;
            if status.faces.iter().any(|face| face.up) {
                return Ok(true);
            }
            // Hellos answer within milliseconds; checking again soon costs little next to a person's patience.
            let _ = subscription.wait(Duration::from_millis(5));
        }
        Ok(node.config.faces.is_empty())
    }
    /// Why no neighbour answers, and a remedy; `None` if one does.
    pub fn why_alone(&self) -> Option<ApiError> {
        operations::alone(&self.node)
    }
    /// Publishes the entries of the config and of earlier runs. An earlier publication that fails becomes a note; a
    /// publication of the config that fails is an error.
    ///
    /// # Errors
    /// [`ApiError`] names the entry of the config.
    pub fn publish_all(&self) -> Result<Vec<Notice>, ApiError> {
        self.node.publish_all()
    }
    /// Applies a newer config of the same node: publications, neighbours, readers, groups, the rate limit, the
    /// certificate and the revocations change now. Returns sentences about the changes, and about those that need a
    /// restart. If one publication fails, nothing changes.
    ///
    /// # Errors
    /// [`ApiError`] names the part of the new config that cannot be applied.
    pub fn reload(&self, new: NodeConfig) -> Result<Vec<String>, ApiError> {
        self.node.reload(new)
    }
    /// Fetches the parts of an object that readers want into a cache, until they want no more or `tell` stops it. Its
    /// output is ignored; `on_open` gets the object once it is known.
    ///
    /// # Errors
    /// The errors of [`Api::ask`] for a [`Get`].
    pub fn read_through(
        &self,
        get: Get,
        cache: &ObjectCache,
        on_open: OnOpen,
        notify: Notify<'_>,
    ) -> Result<(), ApiError> {
        self.node.get_into(&get.settled()?, Sink::Cache(cache.clone(), on_open), None, notify)
    }
    /// The only publisher that is believed for a name, with what its reference pins; `None` believes the first one.
    ///
    /// # Errors
    /// [`ApiError`] if the file of remembered keys cannot be read.
    pub fn believed(&self, reference: &Reference) -> Result<Option<PublicKey>, ApiError> {
        self.node.believed(reference)
    }
    /// Finds the object or folder at the path of `reference`, without waiting, and passes its name, with the only publisher
    /// to believe about it, to `answer`. It looks up no name with fewer than `shortest` components. The lookup is not listed among the transfers.
    ///
    /// # Errors
    /// [`ApiError`] if the node is gone; `answer` gets one with the reason if the path leads to nothing.
    pub fn resolve(
        &self,
        reference: &Reference,
        shortest: usize,
        patience: Duration,
        answer: impl FnOnce(Result<Reference, ApiError>) + Send + 'static,
    ) -> Result<(), ApiError> {
        self.node.resolve(reference, shortest, patience, answer)
    }
    /// Carries out a request about the queue that leaves a fetch running: [`Request::Begin`], [`Request::Resume`] and
    /// [`Request::Move`]; `None` for others. Such a fetch runs without the client, until `ended` is set, and continues
    /// after the next start. Its result is in the log, in the status and among the events.
    pub fn begin(self: &Arc<Self>, request: &Request, ended: &Arc<AtomicBool>) -> Option<Result<Notice, ApiError>> {
        self.node.queue.end_with(ended);
        match request {
            Request::Begin(get) => Some(get.clone().settled().and_then(|get| self.enqueue(get))),
            Request::Resume { transfer } => Some(self.resume(transfer)),
            Request::Move { transfer, to } => Some(self.shift(transfer, *to)),
            _ => None,
        }
    }
    /// Continues the queued fetches from before a restart once a neighbour answers, until `ended` is set.
    pub(crate) fn start_queue(self: &Arc<Self>, ended: &Arc<AtomicBool>) -> Result<(), ApiError> {
        self.node.queue.end_with(ended);
        let api = Arc::downgrade(self);
        let work = move || {
            while let Some(api) = api.upgrade().filter(|api| !api.node.queue.is_ending()) {
                if api.node.queue.list().is_empty() {
                    break;
                }
                match api.wait_for_neighbour(NEIGHBOUR_LOOK) {
                    Ok(true) => break,
                    Ok(false) => {}
                    Err(_) => return,
                }
            }
            // Some wait for a time.
            while let Some(api) = api.upgrade().filter(|api| !api.node.queue.is_ending()) {
                api.run_waiting();
                drop(api);
                std::thread::sleep(QUEUE_LOOK);
            }
        };
        spawn("queue", work).map(drop)
    }
    fn enqueue(self: &Arc<Self>, get: Get) -> Result<Notice, ApiError> {
        if get.output == Output::Stream {
            let message = format!("cannot fetch '{}' to a stream in the background", get.name);
            return Err(ApiError::usage(message).with_hint("name a file with -o"));
        }
        self.node.demands(&get.paths)?;
        let turn = self.turn.lock();
        let number = self.node.queue.add(get)?;
        // The client gets the error, and may ask again.
        self.run_and_report(number, turn).inspect_err(|_| drop(self.node.queue.remove(number)))
    }
    fn resume(self: &Arc<Self>, text: &str) -> Result<Notice, ApiError> {
        let queue = &self.node.queue;
        let number = queue.find(text).ok_or_else(|| {
            let message = format!("cannot resume '{text}': it is no paused fetch");
            ApiError::new(ErrorKind::NotFound, message).with_hint("`trib transfers` lists the fetches")
        })?;
        // A fetch that was paused a moment ago is still ending.
        let has_ended = || Ok((!queue.is_active(number) || queue.is_wanted(number)).then_some(()));
        operations::look_until(END_PATIENCE, END_LOOK, has_ended)?;
        let turn = self.turn.lock();
        queue.resume(number)?;
        self.run_and_report(number, turn)
    }
    fn shift(self: &Arc<Self>, text: &str, to: Place) -> Result<Notice, ApiError> {
        let queue = &self.node.queue;
        let number = queue.find(text).ok_or_else(|| {
            let message = format!("cannot move '{text}': it is not in the queue");
            ApiError::new(ErrorKind::NotFound, message).with_hint("`trib transfers` lists the fetches")
        })?;
        queue.shift(number, to)?;
        self.place_of(number)
    }
    /// Where a fetch of the queue is.
    fn place_of(&self, number: u64) -> Result<Notice, ApiError> {
        let gone = || ApiError::new(ErrorKind::NotFound, "the fetch has already ended");
        let entry = self.node.queue.entry(number).ok_or_else(gone)?;
        let (id, waiting) = (entry.id(), entry.state != State::Running);
        let transfer = entry.transfer.filter(|_| !waiting).unwrap_or_else(|| id.clone());
        Ok(Notice::Fetching { transfer, name: entry.get.name, part: None, queue: Some(id), waiting })
    }
    /// Runs waiting fetches as far as the limit allows, and returns the result of one of them.
    fn run_and_report(self: &Arc<Self>, number: u64, turn: MutexGuard<'_, ()>) -> Result<Notice, ApiError> {
        let (begun, wait) = mpsc::channel();
        self.take_waiting(Some((number, begun)));
        drop(turn);
        wait.recv().unwrap_or_else(|_| self.place_of(number))
    }
    /// Runs waiting fetches as far as the limit allows.
    fn run_waiting(self: &Arc<Self>) {
        let _turn = self.turn.lock();
        self.take_waiting(None);
    }
    /// Starts waiting fetches as far as the limit allows; the caller holds `turn`. `claimed` gets the first answer of
    /// its fetch, or nothing if that one still waits.
    fn take_waiting(self: &Arc<Self>, mut claimed: Option<(u64, Begun)>) {
        let room = self.config().limits.queue_transfers;
        while let Some((number, get)) = self.node.queue.take(room) {
            let begun = claimed.take_if(|(of, _)| *of == number).map(|(_, begun)| begun);
            let api = Arc::clone(self);
            if let Err(error) = spawn("fetch", move || api.run_queued(number, get, begun)) {
                self.note_end(number, "a fetch", Err(&error));
                return;
            }
        }
    }
    /// Carries out a fetch of the queue, and then the next ones.
    fn run_queued(self: &Arc<Self>, number: u64, get: Get, begun: Option<Begun>) {
        let (name, queue) = (get.name.clone(), &self.node.queue);
        let (mut has_begun, mut account) = (false, None);
        let paused = queue.entry(number).and_then(|entry| self.node.transfer(&entry.transfer?).ok());
        let result = self.node.get_to_path(&get, paused, &mut |notice| {
            if let Notice::Done(done) = &notice {
                account = Some(done.clone());
            }
            if let Notice::Fetching { transfer, name, part, waiting, .. } = notice {
                queue.on_begun(number, &transfer);
                has_begun = true;
                let queue = queue.entry(number).map(|entry| entry.id());
                // A client that has disconnected wants no answer.
                if let Some(begun) = &begun {
                    drop(begun.send(Ok(Notice::Fetching { transfer, name, part, queue, waiting })));
                }
            }
            if queue.is_wanted(number) { Flow::Continue } else { Flow::Stop }
        });
        if let (false, Some(begun), Err(error)) = (has_begun, begun, &result) {
            drop(begun.send(Err(error.clone())));
        }
        let version = account.as_ref().and_then(|account| account.version);
        self.note_end(number, &name, result.as_ref().map(|()| version));
        if let (Ok(()), Some(on_fetched), Some(account)) = (&result, self.on_fetched.get(), &account) {
            on_fetched(account);
        }
        self.run_waiting();
    }
    /// Notes how a fetch of the queue has ended.
    fn note_end(&self, number: u64, name: &str, result: Result<Option<u64>, &ApiError>) {
        let events = &self.node.runtime.events;
        let left = self.node.queue.on_ended(number, result.map_err(|error| error.message.clone()));
        match (result, left) {
            (Ok(None), Ok(Some(_))) => tracing::debug!("'{name}' has no later version"),
            (Ok(_), _) => tracing::info!("'{name}' is fetched"),
            (Err(_), Ok(Some(State::Paused))) => events.note(&format!("the fetch of '{name}' is paused")),
            (Err(_), Ok(Some(State::Waiting))) => tracing::info!("the fetch of '{name}' resumes later"),
            (Err(error), Ok(_)) => {
                tracing::warn!("{}", error.message);
                events.note(&error.message);
            }
            (Err(_), Err(unwritten)) => events.note(&unwritten.to_string()),
        }
    }
    /// The files and folders that are published again after a restart.
    pub fn published_paths(&self) -> Vec<PathBuf> {
        self.node.publications.list().into_iter().map(|publication| publication.path).collect()
    }
    /// Stops the node: running operations end, verified chunks are kept.
    ///
    /// # Errors
    /// [`ApiError`] if the node's thread panicked.
    pub fn stop(&self) -> Result<(), ApiError> {
        self.node.settle_quotas();
        self.node.runtime.stop()
    }

    /// Carries out a request that has one answer.
    fn answer(&self, request: Request) -> Result<Notice, ApiError> {
        let node = &self.node;
        Ok(match request {
            Request::Status => Notice::Status(Box::new(node.status_with_changes()?)),
            Request::Remove { name } => node.remove(&name)?,
            Request::Explain { id } => {
                let lines = node.explain(&id)?;
                Notice::Explanation { id, lines }
            }
            Request::Cache => Notice::Cache(node.cache()?),
            Request::Cancel { transfer } => {
                node.cancel(&transfer)?;
                Notice::Cancelled { transfer }
            }
            Request::Pause { transfer } => {
                node.pause(&transfer)?;
                Notice::Cancelled { transfer }
            }
            Request::Limit { transfer, bits_per_second } => {
                let id = transfer.as_deref().map(|text| node.transfer(text)).transpose()?;
                let id = id.map(|id| node.runtime.lives.fetch_of(id));
                let rate = bits_per_second.map(Rate::from_bits_per_second);
                node.runtime.call(move |node, now| node.limit(now, id, rate))?;
                Notice::Limited { transfer, bits_per_second }
            }
            Request::Attach { name } => node.bind(&name, Binding::Attached)?,
            Request::Detach { name } => node.bind(&name, Binding::Detached)?,
            Request::Readers { name, readers } => node.set_readers(name, readers)?,
            Request::Groups => node.groups()?,
            Request::GroupAdd { label, members } => node.change_group(label, &members, Change::Add)?,
            Request::GroupRemove { label, members } => node.change_group(label, &members, Change::Remove)?,
            request @ (Request::Store
            | Request::Purge(_)
            | Request::StoreHold(_)
            | Request::StoreRelease(_)
            | Request::StoreExtend { .. }) => node.stored(request)?,
            request @ (Request::Routes
            | Request::RouteAdd { .. }
            | Request::RouteRemove { .. }
            | Request::Strategies
            | Request::SetStrategy { .. }
            | Request::FaceOpen { .. }
            | Request::FaceClose { .. }) => node.forward(request)?,
            Request::Log => log_notice()?,
            Request::SetLog { levels } => {
                let levels = levels.parse().map_err(|error| {
                    ApiError::usage(format!("cannot log as '{levels}': {error}"))
                        .with_hint("write a level, or one for everything and others for modules: info,net=debug")
                })?;
                log::set(levels);
                log_notice()?
            }
            Request::Link { face, up } => node.link(&face, if up { LinkState::Up } else { LinkState::Down })?,
            Request::Put { .. }
            | Request::Get(_)
            | Request::Begin(_)
            | Request::Resume { .. }
            | Request::Move { .. }
            | Request::Follow { .. }
            | Request::List { .. }
            | Request::Paths { .. }
            | Request::Transfers { .. }
            | Request::Watch { .. }
            | Request::Ping(_)
            | Request::Traceroute(_)
            | Request::Send(_)
            | Request::Recv(_) => unreachable!("it is answered by several notices, in `ask`"),
        })
    }
}

/// The levels of this process's log.
fn log_notice() -> Result<Notice, ApiError> {
    let no_log =
        || ApiError::usage("the log of this process is not the node's to change: the node runs inside another program");
    let levels = log::levels().ok_or_else(no_log)?.to_string();
    Ok(Notice::Log { levels, modules: log::MODULES.map(|(module, ..)| module.into()).into() })
}

impl Api for LocalApi {
    fn ask(&self, request: Request, stream: Option<Box<dyn Write + Send>>, notify: Notify<'_>) -> Result<(), ApiError> {
        let node = &self.node;
        match request {
            Request::Put { path, name, version, patience_ms, term, readers, mirrors } => {
                let put = Put { path: &path, name: &name, version, term, readers, mirrors };
                node.put(put, Duration::from_millis(patience_ms), notify)
            }
            Request::Get(get) => node.get(&get.settled()?, stream, notify),
            Request::Begin(get) => {
                let message = format!("cannot fetch '{}' in the background: this node ends with the command", get.name);
                Err(ApiError::usage(message).with_hint("start one with `trib node`, and name it"))
            }
            Request::Resume { transfer } | Request::Move { transfer, .. } => {
                let message = format!("{transfer} is not in a queue: this node ends with the command");
                Err(ApiError::usage(message).with_hint("start one with `trib node`, and name it"))
            }
            Request::Follow { id } => node.follow_other(&id, notify),
            Request::List { scope, patience_ms } => node.list(&scope, Duration::from_millis(patience_ms), notify),
            Request::Paths { name } => node.paths(&name, notify),
            Request::Transfers { transfer } => node.list_transfers(transfer.as_deref(), notify),
            Request::Watch { progress_ms } => node.watch(progress_ms, notify),
            Request::Ping(ping) => node.ping(&ping, notify),
            Request::Traceroute(trace) => node.traceroute(&trace, notify),
            Request::Send(send) => node.send(&send, notify),
            Request::Recv(recv) => node.recv(&recv, notify),
            request => {
                notify(self.answer(request)?);
                Ok(())
            }
        }
    }
}
