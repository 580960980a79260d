//! Who carries a request out: a node in this process, or a daemon.
use std::sync::{
    Arc,
    mpsc::{RecvTimeoutError, channel},
};
use tributary::{Api, ApiError, ControlSocket, ErrorKind, LocalApi, NodeConfig, Request, SocketApi, spawn};
use tributary_core::Duration;
use tributary_terminal::out;

use super::{daemons, load::load_with};
use crate::{args::Worker, signals::Wish};

/// The node that carries out a request: one in this process, or a daemon. Disk errors are reported before the wait for
/// a neighbour, and that wait is part of the request's patience. A command that listens for no signals has the default
/// wish: a signal ends it at once.
pub(super) fn worker(worker: &Worker, request: &mut Request, wish: &Wish) -> Result<Executor, ApiError> {
    let Some(path) = &worker.config else { return Ok(Executor::Daemon(daemons::connect(&worker.control, request)?)) };
    request.check_disk()?;
    let executor = executor(load_with(path, &worker.peer)?, wish)?;
    let Executor::Own(own) = &executor else { return Ok(executor) };
    wait_for_neighbour(&own.api, Some(request), wish)?;
    if request.patience_ms(Duration::ZERO).is_some_and(|left| *left == 0) {
        let message = "no neighbour answered in time";
        return Err(match own.api.why_alone() {
            Some(why) if why.kind == ErrorKind::Rejected => why,
            Some(why) => {
                ApiError { kind: ErrorKind::Incomplete, message: format!("{message}: {}", why.message), ..why }
            }
            None => ApiError::new(ErrorKind::Incomplete, message).with_hint(
                "is the node running that [[face]] names in the config? `trib status` there shows its neighbours",
            ),
        });
    }
    Ok(executor)
}

/// Who carries a request out.
pub(super) enum Executor {
    /// A node in this process.
    Own(Own),
    /// A daemon, or a command that runs a node of the same config.
    Daemon(SocketApi),
}

/// A node in this process, which other commands with the same config may use too.
pub(super) struct Own {
    // Fields are dropped in this order.
    pub(super) control: Option<ControlSocket>,
    pub(super) api: Arc<LocalApi>,
}

impl Executor {
    pub(super) fn api(&self) -> &dyn Api {
        match self {
            Executor::Own(own) => &*own.api,
            Executor::Daemon(daemon) => daemon,
        }
    }
    /// Waits until no other command uses the node of this process, or a signal ends it.
    pub(super) fn finish(self, wish: &Wish) {
        let Executor::Own(Own { control: Some(control), .. }) = &self else { return };
        let mut is_shown = false;
        while control.clients() > 0 {
            if !std::mem::replace(&mut is_shown, true) {
                out::talk("another command uses this node; this one ends with it (Ctrl-C ends both)");
            }
            if wish.wait(LOOK) {
                break;
            }
        }
    }
}

/// How long a process that has the state folder may take until it answers on its control socket, or has ended.
const HAND_OVER_PATIENCE: Duration = Duration::from_secs(3);

/// The node of a config: in this process, or, if its state folder is in use, the daemon that uses it.
pub(super) fn executor(config: NodeConfig, wish: &Wish) -> Result<Executor, ApiError> {
    let mut waited = Duration::ZERO;
    loop {
        if let Ok(daemon) = SocketApi::open(&config.control) {
            out::talk(&format!("the node '{}' runs already and does the work", config.label));
            return Ok(Executor::Daemon(daemon));
        }
        match LocalApi::start(config.clone()) {
            Ok(api) => {
                let api = Arc::new(api);
                // The node works without a control socket as well; other commands then find the folder in use.
                let control = ControlSocket::open(&config.control, Arc::clone(&api));
                let control = control.map_err(|error| tracing::debug!("no control socket: {error}")).ok();
                return Ok(Executor::Own(Own { control, api }));
            }
            Err(error) if error.kind == ErrorKind::InUse && waited < HAND_OVER_PATIENCE => {}
            Err(error) => return Err(error),
        }
        wish.wait(LOOK);
        wish.check()?;
        waited += LOOK;
    }
}
/// How long a node in this process looks for a neighbour before it is used.
const NEIGHBOUR_PATIENCE: Duration = Duration::from_secs(5);

/// How often a wait for something else checks whether the program is to end.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// Starts a node in this process and waits until it reaches a neighbour, or until the program is to end.
pub(super) fn start(config: NodeConfig, wish: &Wish) -> Result<Arc<LocalApi>, ApiError> {
    let api = LocalApi::start(config)?;
    wait_for_neighbour(&api, None, wish)?;
    Ok(Arc::new(api))
}
/// Waits until a neighbour answers, until the patience of `request` is over, or until the program is to end. Subtracts
/// the wait from that patience.
pub(super) fn wait_for_neighbour(api: &LocalApi, request: Option<&mut Request>, wish: &Wish) -> Result<(), ApiError> {
    let mut unlimited = u64::MAX;
    let left = request.and_then(|request| request.patience_ms(api.config().fetch.patience)).unwrap_or(&mut unlimited);
    let most = NEIGHBOUR_PATIENCE.min(Duration::from_millis(*left));
    let mut waited = Duration::ZERO;
    while !api.wait_for_neighbour(LOOK.min(most - waited))? {
        wish.check()?;
        waited = most.min(waited + LOOK);
        if waited == most {
            match api.why_alone() {
                Some(why) => out::talk(&format!("within {most:?} {}", why.message)),
                None => out::talk(&format!("no neighbour has answered within {most:?}")),
            }
            break;
        }
    }
    *left -= milliseconds(waited);
    Ok(())
}
/// Does `work` on a thread called `name`, so that a signal need not wait for its end. The thread runs until the process
/// ends.
pub(super) fn aside<R: Send + 'static>(
    name: &str,
    wish: &Wish,
    work: impl FnOnce() -> Result<R, ApiError> + Send + 'static,
) -> Result<R, ApiError> {
    let (tell, done) = channel();
    // The receiver is gone if the program ends.
    spawn(name, move || drop(tell.send(work())))?;
    loop {
        wish.check()?;
        match done.recv_timeout(LOOK) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(ApiError::new(ErrorKind::Io, format!("the thread '{name}' panicked")));
            }
        }
    }
}
pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
