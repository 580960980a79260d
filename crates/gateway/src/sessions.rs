//! Sessions of objects: one fetch for all clients that read the object.
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{OnceCell, oneshot, watch},
    time::Instant,
};
use tributary::{ApiError, ErrorKind, Flow, Get, LocalApi, Output, spawn};
use tributary_content::{Name, ObjectKind, Reference};
use tributary_net::disk::{CachedObject, ObjectCache};
use tributary_trust::owner_of;

use crate::{config::GatewayConfig, folder::Folder, place::Place};

/// Lookups and open names at a time.
const SESSIONS_MAX: usize = 256;
/// How long the failure to find a name is remembered: repeated requests then cost no search each.
const FAILURE_FRESH: Duration = Duration::from_secs(2);
/// How long a session without clients continues.
const IDLE: Duration = Duration::from_secs(10);
/// Maximum folders tried above a path.
const LEVELS_MAX: usize = 8;

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    pub(crate) status: u16,
    pub(crate) reason: String,
    /// How long the client should wait before it asks again.
    pub(crate) retry_after: Option<Duration>,
}
impl Failure {
    pub(crate) fn new(status: u16, reason: impl Into<String>) -> Failure {
        Failure { status, reason: reason.into(), retry_after: None }
    }
    fn of(error: &ApiError) -> Failure {
        let status = match error.kind {
            ErrorKind::NotFound => 404,
            ErrorKind::Rejected => 403,
            ErrorKind::Incomplete => 504,
            ErrorKind::Usage | ErrorKind::Gone | ErrorKind::InUse => 503,
            _ => 502,
        };
        Failure::new(status, error.message.replace(['\n', '\r'], " "))
    }
}

#[derive(Clone)]
enum State {
    Looking,
    Open(CachedObject),
    Failed(Failure, Instant),
}

pub(crate) struct Sessions {
    api: Arc<LocalApi>,
    cache: ObjectCache,
    config: GatewayConfig,
    open: Mutex<HashMap<Reference, Arc<Session>>>,
    /// Sessions that newer ones have replaced, while clients read from them.
    replaced: Mutex<Vec<Arc<Session>>>,
}

/// The fetch of an object for all its readers.
pub(crate) struct Session {
    state: watch::Receiver<State>,
    since: Instant,
    used_at: Mutex<Instant>,
    is_stopped: Arc<AtomicBool>,
    folder: OnceCell<Arc<Folder>>,
}

/// A client's hold on a session: besides the clients, only the list of the sessions has it.
pub(crate) struct Use {
    session: Arc<Session>,
    pub(crate) object: CachedObject,
}
impl Use {
    /// The index of the folder that the object is.
    pub(crate) async fn folder(&self, config: &GatewayConfig) -> Result<Arc<Folder>, Failure> {
        let read = || async { Folder::read(&self.object, config).await.map(Arc::new) };
        self.session.folder.get_or_try_init(read).await.cloned()
    }
}
impl Drop for Use {
    fn drop(&mut self) {
        *self.session.used_at.lock() = Instant::now();
    }
}

/// What a path means.
pub(crate) struct Located {
    pub(crate) session: Use,
    /// The path below the folder that the object is, if it is one.
    pub(crate) below: Option<Vec<Vec<u8>>>,
}

impl Sessions {
    pub(crate) fn new(api: Arc<LocalApi>, cache: ObjectCache, config: GatewayConfig) -> Sessions {
        Sessions { api, cache, config, open: Mutex::default(), replaced: Mutex::default() }
    }
    /// The object that a name means, or else the longest folder above it that is published.
    pub(crate) async fn locate(self: &Arc<Self>, place: &Place) -> Result<Located, Failure> {
        let name = &place.reference.name;
        let shortest = place.shortest.max(name.len().saturating_sub(LEVELS_MAX)).min(name.len());
        let of = |name| Reference { name, ..place.reference.clone() };
        let prefixes = (shortest..=name.len()).rev().map(|len| name.prefix(len));
        // A folder above a key's names may be anybody's.
        let sessions = prefixes
            .filter(|prefix| owner_of(prefix) == owner_of(name))
            .filter_map(|prefix| Some((prefix.len(), self.known(&of(prefix))?)));
        for (len, found) in sessions {
            // The path itself outranks folders above it, unless its publisher is theirs.
            let is_meant = len == name.len()
                || place.reference.object.is_some()
                || self.believes(&place.reference, &found.object)?;
            if is_meant && let Some(located) = fits(found, name, len) {
                return Ok(located);
            }
        }
        let (answer, resolved) = oneshot::channel();
        let answer = |found| _ = answer.send(found);
        self.api
            .resolve(&place.reference, shortest, self.config.patience, answer)
            .map_err(|error| Failure::of(&error))?;
        let resolved = resolved.await.map_err(|_| Failure::new(503, "the node has ended"))?;
        let found = resolved.map_err(|error| Failure::of(&error))?;
        let len = found.name.len();
        let session = Arc::clone(self).session(found).await?;
        fits(session, name, len).ok_or_else(|| Failure::new(404, format!("there is no '{name}'")))
    }
    /// Whether the rules believe the publisher of `folder` for a path below it.
    fn believes(&self, path: &Reference, folder: &CachedObject) -> Result<bool, Failure> {
        let key = self.api.believed(path).map_err(|error| Failure::of(&error))?;
        Ok(key == Some(folder.manifest().publisher))
    }
    /// The session of a name that is open and fresh.
    fn known(&self, name: &Reference) -> Option<Use> {
        let open = self.open.lock();
        let session = open.get(name)?;
        let state = session.state.borrow().clone();
        match state {
            State::Open(object) if session.is_fresh(&self.config) => Some(Use { session: Arc::clone(session), object }),
            State::Open(_) | State::Looking | State::Failed(..) => None,
        }
    }
    /// The session of a name, started if need be.
    async fn session(self: Arc<Self>, name: Reference) -> Result<Use, Failure> {
        let session = self.begin(&name)?;
        let mut state = session.state.clone();
        let waited = state.wait_for(|state| !matches!(state, State::Looking)).await.map(|state| state.clone());
        match waited {
            Ok(State::Open(object)) => Ok(Use { session, object }),
            Ok(State::Failed(failure, _)) => Err(failure),
            Ok(State::Looking) | Err(_) => Err(Failure::new(503, "the node has ended")),
        }
    }
    fn begin(self: &Arc<Self>, name: &Reference) -> Result<Arc<Session>, Failure> {
        let mut open = self.open.lock();
        if let Some(session) = open.get(name).filter(|session| session.is_fresh(&self.config)) {
            return Ok(Arc::clone(session));
        }
        if open.len() >= SESSIONS_MAX {
            // Names without a publisher are dropped first.
            open.retain(|_, session| !matches!(&*session.state.borrow(), State::Failed(..)));
        }
        if open.len() >= SESSIONS_MAX {
            return Err(Failure::new(503, format!("{SESSIONS_MAX} names are read already; try again later")));
        }
        let (tell, state) = watch::channel(State::Looking);
        let session = Arc::new(Session {
            state,
            since: Instant::now(),
            used_at: Mutex::new(Instant::now()),
            is_stopped: Arc::default(),
            folder: OnceCell::new(),
        });
        let (sessions, is_stopped, of) = (Arc::clone(self), Arc::clone(&session.is_stopped), name.clone());
        let work = move || sessions.fetch(&of, &is_stopped, &tell);
        spawn("session", work).map_err(|error| Failure::new(503, error.message))?;
        if let Some(before) = open.insert(name.clone(), Arc::clone(&session)) {
            self.replaced.lock().push(before);
        }
        Ok(session)
    }
    /// Fetches the chunks that readers want until they want no more.
    fn fetch(&self, name: &Reference, is_stopped: &AtomicBool, tell: &watch::Sender<State>) {
        let patience_ms = Some(u64::try_from(self.config.patience.as_millis()).unwrap_or(u64::MAX));
        let get = Get { patience_ms, ..Get::new(name.to_string(), Output::Stream) };
        let opened = tell.clone();
        let on_open = Box::new(move |object| {
            opened.send_replace(State::Open(object));
        });
        let ended = self.api.read_through(get, &self.cache, on_open, &mut |_| {
            if is_stopped.load(Ordering::Acquire) { Flow::Stop } else { Flow::Continue }
        });
        let failure = match &ended {
            Ok(()) => Failure::new(503, "it was closed"),
            Err(error) => Failure::of(error),
        };
        tracing::debug!("the session of '{name}' has ended: {}", failure.reason);
        let object = match &*tell.borrow() {
            State::Open(object) => Some(object.clone()),
            State::Looking | State::Failed(..) => None,
        };
        match object {
            Some(object) => object.end(&failure.reason),
            None => _ = tell.send_replace(State::Failed(failure, Instant::now())),
        }
    }
    /// Closes unread sessions, and frees space in the cache.
    pub(crate) fn tidy(&self) {
        let is_unused = |session: &Arc<Session>| Arc::strong_count(session) == 1;
        let mut open = self.open.lock();
        let idle = open.extract_if(|_, session| is_unused(session) && session.is_idle(&self.config));
        idle.for_each(|(_, session)| session.close());
        drop(open);
        self.replaced.lock().extract_if(.., |session| is_unused(session)).for_each(|session| session.close());
        self.cache.sweep();
    }
    /// Ends all sessions.
    pub(crate) fn close(&self) {
        self.open.lock().drain().for_each(|(_, session)| session.close());
        self.replaced.lock().drain(..).for_each(|session| session.close());
    }
    /// Their number.
    pub(crate) fn len(&self) -> usize {
        self.open.lock().len() + self.replaced.lock().len()
    }
}

impl Session {
    fn is_fresh(&self, config: &GatewayConfig) -> bool {
        let age = self.since.elapsed();
        match &*self.state.borrow() {
            State::Looking => true,
            State::Open(object) => age < config.fresh && (!object.has_ended() || object.is_complete()),
            State::Failed(_, at) => at.elapsed() < FAILURE_FRESH,
        }
    }
    fn is_idle(&self, config: &GatewayConfig) -> bool {
        match &*self.state.borrow() {
            State::Looking => false,
            State::Open(_) => {
                self.used_at.lock().elapsed() > IDLE.max(config.fresh.saturating_sub(self.since.elapsed()))
            }
            State::Failed(..) => !self.is_fresh(config),
        }
    }
    fn close(&self) {
        match &*self.state.borrow() {
            State::Open(object) => object.close(),
            State::Looking => self.is_stopped.store(true, Ordering::Release),
            State::Failed(..) => {}
        }
    }
}

/// Whether an object matches a name: it has the whole name, or is a folder above.
fn fits(session: Use, name: &Name, len: usize) -> Option<Located> {
    let is_folder = session.object.manifest().kind == ObjectKind::Directory;
    let below = || name.components().skip(len).map(<[u8]>::to_vec).collect();
    match (len == name.len(), is_folder) {
        (_, true) => Some(Located { below: Some(below()), session }),
        (true, false) => Some(Located { below: None, session }),
        (false, false) => None,
    }
}
