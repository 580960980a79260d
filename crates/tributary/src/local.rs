//! Carries out requests on a node in this process.
use std::{
    io::Write,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
};
use tributary_content::PublicKey;
use tributary_core::{Duration, Rate, link::LinkState};
use tributary_net::disk::{ObjectCache, OnOpen};

use crate::{
    api::{Api, Flow},
    config::NodeConfig,
    error::{ApiError, ErrorKind},
    families::BoxedNode,
    node::LocalNode,
    notice::Notice,
    operations::{self, Binding, Change, Diagnosis, Put},
    request::{Get, Output, Request},
};

/// A node in this process, with everything that a person may ask of it. Dropping it stops the node.
pub struct LocalApi {
    node: LocalNode,
}

impl LocalApi {
    /// How long copies are served, if that has a limit.
    pub(crate) fn copies_age_max(&self) -> Option<Duration> {
        self.node.config().serve.age_max
    }
    /// Brings the policies of faces up to date, and returns when to do that again; `None` if the node is gone.
    pub(crate) fn apply_policies(&self) -> Option<Duration> {
        self.node.apply_policies()
    }
    /// Withdraws copies that have become too old.
    pub(crate) fn withdraw_old_copies(&self) -> Result<(), ApiError> {
        self.node.withdraw_old_copies()
    }
    /// Starts the node of a config: opens sockets and state, publishes what the config and earlier runs say.
    ///
    /// # Errors
    /// [`ApiError`] if an address is taken, the state folder cannot be used, or something cannot be published.
    pub fn start(config: NodeConfig) -> Result<Self, ApiError> {
        Ok(LocalApi { node: LocalNode::start(config)? })
    }
    /// The same with a node that the caller made, for tests of fronts.
    ///
    /// # Errors
    /// Those of [`LocalApi::start`].
    pub fn start_node(config: NodeConfig, node: BoxedNode) -> Result<Self, ApiError> {
        Ok(LocalApi { node: LocalNode::start_node(config, node)? })
    }
    /// The config of the node.
    pub fn config(&self) -> &NodeConfig {
        self.node.config()
    }
    /// Where it listens, with the ports that the system chose.
    pub fn listen(&self) -> Vec<String> {
        self.node.runtime.listen_addrs()
    }
    /// The key that it publishes with.
    pub fn publisher(&self) -> PublicKey {
        self.node.key().public()
    }
    /// Publishes what the config and earlier runs say. What cannot be published any more becomes a note; a publication of
    /// the config that fails is an error.
    ///
    /// # Errors
    /// [`ApiError`] names the entry of the config.
    pub fn publish_all(&self) -> Result<Vec<Notice>, ApiError> {
        self.node.publish_all()
    }
    /// Waits until a neighbour answers, for at most `patience`. A node without configured neighbours does not wait.
    ///
    /// # Errors
    /// [`ApiError`] if the node is gone.
    pub fn wait_for_neighbour(&self, patience: Duration) -> Result<bool, ApiError> {
        self.node.wait_for_neighbour(patience)
    }
    /// Why no neighbour answers, and what to try; `None` if one does.
    pub fn why_alone(&self) -> Option<(String, Option<String>)> {
        operations::alone(&self.node).map(|Diagnosis { reason, hint }| (reason, hint))
    }
    /// Applies a newer config of the same node: publications, readers, groups and the rate limit change now. Returns
    /// sentences about what has changed and what needs a restart. If something cannot be published, nothing changes.
    ///
    /// # Errors
    /// [`ApiError`] names the part of the new config that cannot be applied.
    pub fn reload(&self, new: NodeConfig) -> Result<Vec<String>, ApiError> {
        self.node.reload(new)
    }
    /// Fetches what readers want of an object into a cache, until they want no more or `tell` ends it. Its output does
    /// not matter; `on_open` gets the object once it is known.
    ///
    /// # Errors
    /// Those of [`Api::ask`] for a [`Get`].
    pub fn read_through(
        &self,
        get: &Get,
        cache: &ObjectCache,
        on_open: OnOpen,
        tell: &mut dyn FnMut(Notice) -> Flow,
    ) -> Result<(), ApiError> {
        self.node.get_for_readers(get, cache, on_open, tell)
    }
    /// Carries out a request that leaves something running: [`Request::Begin`] and [`Request::Resume`]; `None` for others.
    /// Such a fetch goes on when the client has gone, until `ended` is set. How it ends is in the log, in the status and
    /// in what [`Request::Watch`] reports.
    pub fn begin(self: &Arc<Self>, request: &Request, ended: &Arc<AtomicBool>) -> Option<Result<Notice, ApiError>> {
        match request {
            Request::Begin(get) => Some(self.begin_fetch(get.clone(), ended)),
            Request::Resume { transfer } => Some(match self.node.background.resume(transfer) {
                Some(get) => self
                    .begin_fetch(get.clone(), ended)
                    .inspect_err(|_| self.node.background.on_not_resumed(transfer, get)),
                None => {
                    let message = format!("cannot resume '{transfer}': it is no paused fetch");
                    Err(ApiError::new(ErrorKind::NotFound, message).with_hint("`trib status` lists the transfers"))
                }
            }),
            _ => None,
        }
    }
    fn begin_fetch(self: &Arc<Self>, get: Get, ended: &Arc<AtomicBool>) -> Result<Notice, ApiError> {
        if get.output == Output::Stream {
            let message = format!("cannot fetch '{}' to a stream in the background", get.name);
            return Err(ApiError::new(ErrorKind::Usage, message).with_hint("name a file with -o"));
        }
        let (api, ended) = (Arc::clone(self), Arc::clone(ended));
        let (begun, wait) = mpsc::channel();
        let work = move || {
            let (name, background) = (get.name.clone(), &api.node.background);
            let mut number = None;
            let result = api.ask(Request::Get(get.clone()), None, &mut |notice| {
                if let Notice::Fetching { transfer, .. } = &notice {
                    background.on_begun(transfer, &get);
                    number = Some(transfer.clone());
                    // A client that has gone wants no answer.
                    let _ = begun.send(Ok(notice));
                }
                if ended.load(Ordering::SeqCst) { Flow::Stop } else { Flow::Continue }
            });
            if let Some(transfer) = &number {
                background.on_ended(transfer);
            }
            match &result {
                Ok(()) => tracing::info!("'{name}' is fetched"),
                Err(_) if number.as_ref().is_some_and(|transfer| background.is_paused(transfer)) => {
                    api.node.runtime.events().note(&format!("the fetch of '{name}' is paused"));
                }
                Err(error) => {
                    tracing::warn!("{}", error.message);
                    api.node.runtime.events().note(&error.message);
                }
            }
            if let Err(error) = result {
                let _ = begun.send(Err(error));
            }
        };
        let spawned = std::thread::Builder::new().name("fetch".into()).spawn(work);
        spawned.map_err(|error| ApiError::io("start", "the thread of a fetch", &error))?;
        let gone = || ApiError::new(ErrorKind::Io, "the thread of the fetch ended without a word");
        wait.recv().map_err(|_| gone())?
    }
    /// The files and folders that are published again after a restart.
    pub fn published_paths(&self) -> Vec<PathBuf> {
        self.node.publications.list().into_iter().map(|publication| publication.path).collect()
    }
    /// Stops the node: what runs ends, verified chunks are kept.
    ///
    /// # Errors
    /// [`ApiError`] if the node's thread panicked.
    pub fn stop(&self) -> Result<(), ApiError> {
        self.node.settle_quotas();
        self.node.runtime.stop()
    }

    pub(crate) fn node(&self) -> &LocalNode {
        &self.node
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
                let id = node.transfer(&transfer)?;
                node.runtime.call(move |node, now| node.cancel(now, id))?;
                Notice::Cancelled { transfer }
            }
            Request::Pause { transfer } => {
                let id = node.transfer(&transfer)?;
                if !node.background.pause(&transfer) {
                    let message = format!("cannot pause {transfer}: it is no running fetch in the background");
                    let hint = "a fetch of `trib get` is paused by ending the command; the same command resumes it";
                    return Err(ApiError::new(ErrorKind::Usage, message).with_hint(hint));
                }
                node.runtime.call(move |node, now| node.cancel(now, id))?;
                Notice::Cancelled { transfer }
            }
            Request::Limit { transfer, bits_per_second } => {
                let id = transfer.as_deref().map(|text| node.transfer(text)).transpose()?;
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
            Request::Store => Notice::Store(node.store()?),
            Request::Link { face, up } => node.link(&face, if up { LinkState::Up } else { LinkState::Down })?,
            Request::Put { .. }
            | Request::Get(_)
            | Request::Begin(_)
            | Request::Resume { .. }
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

impl Api for LocalApi {
    fn ask(
        &self,
        request: Request,
        stream: Option<Box<dyn Write + Send>>,
        tell: &mut dyn FnMut(Notice) -> Flow,
    ) -> Result<(), ApiError> {
        let node = &self.node;
        match request {
            Request::Put { path, name, version, patience_ms, term, readers } => {
                let put = Put { path: &path, name: &name, version, term, readers };
                node.put(put, Duration::from_millis(patience_ms), tell)
            }
            Request::Get(get) => node.get(&get, stream, tell),
            Request::Begin(get) => {
                let message = format!("cannot fetch '{}' in the background: this node ends with the command", get.name);
                Err(ApiError::new(ErrorKind::Usage, message).with_hint("start one with `trib node`, and name it"))
            }
            Request::Resume { transfer } => {
                let message = format!("cannot resume {transfer} in the background: this node ends with the command");
                Err(ApiError::new(ErrorKind::Usage, message).with_hint("start one with `trib node`, and name it"))
            }
            Request::Follow { id } => node.follow_other(&id, tell),
            Request::List { scope, patience_ms } => node.list(&scope, Duration::from_millis(patience_ms), tell),
            Request::Paths { name } => node.paths(&name, tell),
            Request::Transfers { transfer } => node.list_transfers(transfer.as_deref(), tell),
            Request::Watch { progress_ms } => node.watch(progress_ms, tell),
            Request::Ping(ping) => node.ping(&ping, tell),
            Request::Traceroute(trace) => node.traceroute(&trace, tell),
            Request::Send(send) => node.send(&send, tell),
            Request::Recv(recv) => node.recv(&recv, tell),
            request => {
                tell(self.answer(request)?);
                Ok(())
            }
        }
    }
}
