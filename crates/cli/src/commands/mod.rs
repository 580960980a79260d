//! One file per command that does more than ask a daemon one thing.
mod choice;
mod echo;
mod get;
mod http_proxy;
mod lab;
mod message;
mod node;
mod put;
mod sim;
mod simple;

use std::{
    path::Path,
    sync::{
        Arc,
        mpsc::{RecvTimeoutError, channel},
    },
};
use tributary::{
    Api, ApiError, ConfigErrors, ControlSocket, ErrorKind, LocalApi, NodeConfig, Notice, Request, SocketApi,
    config::LoadError, views::counted,
};
use tributary_core::Duration;

use crate::{
    args::{self, Cli, Command, Control, Group, Peer, Worker},
    demo, out,
    signals::Wish,
    tables,
};

/// Carries out a command.
pub(crate) fn run(cli: Cli) -> Result<(), ApiError> {
    let json = cli.json;
    match cli.command {
        Command::Demo(demo) => demo::run(&demo, json),
        Command::Node(node) => node::run(&node, cli.debug, json),
        Command::Put(put) => put::run(&put, json),
        Command::Get(get) => get::run(&get, json),
        Command::Ls(ls) => simple::ls(&ls, json),
        Command::Rm(named) => ask(&named.control, Request::Remove { name: named.name.to_string() }, json),
        Command::Status(of) => simple::status(&of.control, json),
        Command::Follow(follow) => get::follow(&follow, json),
        Command::Paths(named) => ask(&named.control, Request::Paths { name: named.name.to_string() }, json),
        Command::Explain(explain) => ask(&explain.control, Request::Explain { id: explain.id }, json),
        Command::Ping(ping) => echo::ping(&ping, json),
        Command::Traceroute(trace) => echo::traceroute(&trace, json),
        Command::Cache(of) => ask(&of.control, Request::Cache, json),
        Command::Cancel(cancel) => ask(&cancel.control, Request::Cancel { transfer: cancel.transfer }, json),
        Command::Limit(limit) => {
            let bits_per_second = limit.rate.0.map(|rate| rate.bits_per_second());
            ask(&limit.control, Request::Limit { transfer: limit.transfer, bits_per_second }, json)
        }
        Command::Send(send) => message::send(&send, json),
        Command::Recv(recv) => message::recv(&recv, json),
        Command::Attach(named) => ask(&named.control, Request::Attach { name: named.name.to_string() }, json),
        Command::Detach(named) => ask(&named.control, Request::Detach { name: named.name.to_string() }, json),
        Command::Readers(of) => {
            let name = of.name.map(|name| name.to_string());
            ask(&of.control, Request::Readers { name, readers: (!of.all).then_some(of.only) }, json)
        }
        Command::Group(Group::List(of)) => ask(&of.control, Request::Groups, json),
        Command::Group(Group::Add(of)) => {
            ask(&of.control, Request::GroupAdd { label: of.label, members: of.members }, json)
        }
        Command::Group(Group::Remove(of)) => {
            ask(&of.control, Request::GroupRemove { label: of.label, members: of.members }, json)
        }
        Command::Store(of) => ask(&of.control, Request::Store, json),
        Command::HttpProxy(proxy) => http_proxy::run(&proxy, json),
        Command::Lab(lab) => lab::run(&lab, json),
        Command::Sim(sim) => sim::run(&sim, json),
        Command::Config(config) => simple::config(&config, json),
        Command::Key(key) => simple::key(&key, json),
        Command::Completions(completions) => {
            simple::completions(completions.shell);
            Ok(())
        }
        Command::Man(man) => simple::man(&man.folder),
    }
}

/// Asks a daemon one thing and prints the answers.
fn ask(control: &Control, request: Request, json: bool) -> Result<(), ApiError> {
    for told in choice::connect(control, &request)?.answers(request)? {
        print(&told, json);
    }
    Ok(())
}
/// Prints an answer as data.
fn print(told: &Notice, json: bool) {
    if json {
        out::data(&told.to_line());
        return;
    }
    for line in tables::answer(told) {
        out::data(&line);
    }
}
/// The node that a request is for: one in this process, or a daemon. What the disk refuses is said before a neighbour is
/// waited for, and that wait is part of the request's patience. A command that listens for no signals has the default wish:
/// one ends it at once.
fn worker(worker: &Worker, request: &mut Request, wish: &Wish) -> Result<Hand, ApiError> {
    let Some(path) = &worker.config else { return Ok(Hand::Daemon(choice::connect(&worker.control, request)?)) };
    request.check_disk()?;
    let hand = hand(load_with(path, &worker.peer)?, wish)?;
    let Hand::Own(own) = &hand else { return Ok(hand) };
    wait_for_neighbour(&own.api, Some(request), wish)?;
    if request.patience_ms(Duration::ZERO).is_some_and(|left| *left == 0) {
        let message = "nobody could be asked: the time was up before a neighbour answered";
        let error = ApiError::new(ErrorKind::Incomplete, message);
        return Err(match own.api.why_alone() {
            Some((reason, hint)) => {
                let error = ApiError::new(ErrorKind::Incomplete, format!("{message}: {reason}"));
                hint.into_iter().fold(error, ApiError::with_hint)
            }
            None => error.with_hint(
                "is the node running that [[face]] names in the config? `trib status` there shows its neighbours",
            ),
        });
    }
    Ok(hand)
}

/// Who carries a request out.
enum Hand {
    /// A node in this process.
    Own(Own),
    /// A daemon, or a command that runs a node of the same config.
    Daemon(SocketApi),
}

/// A node in this process, which other commands with the same config may use meanwhile.
struct Own {
    // Fields are dropped in this order.
    control: Option<ControlSocket>,
    api: Arc<LocalApi>,
}

impl Hand {
    fn api(&self) -> &dyn Api {
        match self {
            Hand::Own(own) => &*own.api,
            Hand::Daemon(daemon) => daemon,
        }
    }
    /// Waits until no other command uses the node of this process any more, or somebody ends it.
    fn finish(self, wish: &Wish) {
        let Hand::Own(Own { control: Some(control), .. }) = &self else { return };
        let mut is_told = false;
        while control.clients() > 0 && !wish.is_made() {
            if !std::mem::replace(&mut is_told, true) {
                out::talk("another command uses this node; this one ends with it (Ctrl-C ends both)");
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// How long a process that has the state folder may take until it answers on its control socket, or has ended.
const HAND_OVER_PATIENCE: Duration = Duration::from_secs(3);

/// A node of a config: in this process, or, if its state folder is in use, the one that uses it.
fn hand(config: NodeConfig, wish: &Wish) -> Result<Hand, ApiError> {
    let mut waited = Duration::ZERO;
    loop {
        if let Ok(daemon) = SocketApi::open(&config.control) {
            out::talk(&format!("the node '{}' runs already and does the work", config.label));
            return Ok(Hand::Daemon(daemon));
        }
        match LocalApi::start(config.clone()) {
            Ok(api) => {
                let api = Arc::new(api);
                // Without it the node works as well; others then find the folder in use.
                let control = ControlSocket::open(&config.control, Arc::clone(&api));
                let control = control.map_err(|error| tracing::debug!("no control socket: {error}")).ok();
                return Ok(Hand::Own(Own { control, api }));
            }
            Err(error) if error.kind == ErrorKind::InUse && waited < HAND_OVER_PATIENCE => {}
            Err(error) => return Err(error),
        }
        wish.check()?;
        std::thread::sleep(LOOK);
        waited += LOOK;
    }
}
/// Reads a config.
fn load(path: &Path) -> Result<NodeConfig, ApiError> {
    NodeConfig::load(path).map_err(|error| match error {
        LoadError::Wrong(errors) => mistakes(path, &errors),
        error => error.into(),
    })
}
/// Reads a config and gives its neighbour the address that the arguments name. One from the environment is for those
/// configs that have one neighbour.
fn load_with(path: &Path, peer: &Peer) -> Result<NodeConfig, ApiError> {
    let mut config = load(path)?;
    let Some(named) = peer.named().filter(|_| peer.peer.is_some() || config.faces.len() == 1) else {
        return Ok(config);
    };
    config.set_peer(&named).map_err(|reason| {
        let source = if peer.peer.is_some() { "--peer" } else { "$TRIB_PEER" };
        let message = format!("{source} cannot be '{named}': {reason}");
        ApiError::new(ErrorKind::Usage, message).with_hint("write it like router.lan, 192.0.2.7:7001 or [fe80::1%eth0]")
    })?;
    Ok(config)
}
/// What is wrong in a file: for a person drawn with the lines, for a program in words.
fn mistakes(path: &Path, errors: &ConfigErrors) -> ApiError {
    if args::wants_json() {
        return ApiError::new(ErrorKind::Usage, errors.to_string());
    }
    out::talk(errors.render(tables::drawing(), 100).trim_end());
    let message = format!("'{}' has {}", path.display(), counted(errors.problems().len(), "mistake"));
    ApiError::new(ErrorKind::Usage, message)
}
/// How long a node in this process looks for a neighbour before it is used.
const NEIGHBOUR_PATIENCE: Duration = Duration::from_secs(5);

/// How often it is looked whether the program is to end while something else is waited for.
const LOOK: Duration = Duration::from_millis(50);

/// Starts a node in this process and waits until it reaches somebody, until the patience of `request` is over, or until the
/// program is to end.
fn start((path, peer): (&Path, &Peer), request: Option<&mut Request>, wish: &Wish) -> Result<LocalApi, ApiError> {
    let api = LocalApi::start(load_with(path, peer)?)?;
    wait_for_neighbour(&api, request, wish)?;
    Ok(api)
}
/// Waits until a node reaches somebody, until the patience of `request` is over, or until the program is to end. What was
/// waited is taken from that patience.
fn wait_for_neighbour(api: &LocalApi, request: Option<&mut Request>, wish: &Wish) -> Result<(), ApiError> {
    let mut unlimited = u64::MAX;
    let left = request.and_then(|request| request.patience_ms(api.config().fetch.patience)).unwrap_or(&mut unlimited);
    let most = NEIGHBOUR_PATIENCE.min(Duration::from_millis(*left));
    let mut waited = Duration::ZERO;
    while !api.wait_for_neighbour(LOOK.min(most - waited))? {
        wish.check()?;
        waited = most.min(waited + LOOK);
        if waited == most {
            match api.why_alone() {
                Some((reason, _)) => out::talk(&format!("within {most:?} {reason}")),
                None => out::talk(&format!("no neighbour has answered within {most:?}")),
            }
            break;
        }
    }
    *left -= milliseconds(waited);
    Ok(())
}
/// Does `work` on a thread called `name`, so that a signal need not wait for its end. What the thread began goes on until
/// the process ends.
fn aside<R: Send + 'static>(
    name: &str,
    wish: &Wish,
    work: impl FnOnce() -> Result<R, ApiError> + Send + 'static,
) -> Result<R, ApiError> {
    let (tell, told) = channel();
    // Nobody listens any more if the program ends.
    let thread = std::thread::Builder::new().name(name.into()).spawn(move || drop(tell.send(work())));
    thread.map_err(|error| ApiError::io("start", format!("the thread '{name}'"), &error))?;
    loop {
        wish.check()?;
        match told.recv_timeout(LOOK) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(ApiError::new(ErrorKind::Io, format!("the thread '{name}' panicked")));
            }
        }
    }
}
fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
