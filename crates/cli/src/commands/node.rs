//! `trib node`.
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::{
    io::Read,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Sender, channel},
    },
};
use tributary::{
    ApiError, Daemon, NodeConfig, Notice,
    log::{self as levels, LogLevel},
    spawn,
};
use tributary_gateway::Gateway;
use tributary_terminal::{log, out};

use super::{answer::print, load::load_with};
use crate::{
    args,
    hook::Hook,
    service::{self, Watchdog},
    signals::{self, INTERRUPTED},
    tables,
};

/// Runs a daemon until a signal, the end of stdin if requested, or the death of its node.
pub(crate) fn run(node: &args::Node, debug: bool, json: bool) -> Result<(), ApiError> {
    let (sender, endings) = channel();
    // A signal during the start ends the process at once.
    let at_once = Arc::new(AtomicBool::new(true));
    watch_signals(sender.clone(), Arc::clone(&at_once))?;
    if node.stop_with_stdin {
        watch_stdin(sender.clone())?;
    }
    let config = load_with(&node.config, &node.peer)?;
    set_log(&config, debug);
    config.warnings().iter().for_each(|warning| warn(warning));
    let daemon = Daemon::start(config)?;
    let http = daemon.api().config().http.clone();
    let has_api = http.as_ref().is_some_and(|http| http.api);
    let gateway = http.map(|http| Gateway::start(daemon.shared_api(), http)).transpose()?;
    if let Some(hook) = Hook::of(node.hook.command.as_ref())? {
        daemon.api().on_fetched(move |done| hook.on(&Notice::Done(done.clone())));
    }
    at_once.store(false, Ordering::SeqCst);
    if let Some(gateway) = &gateway {
        let what = if has_api { "objects, API and dashboard" } else { "objects" };
        out::talk(&format!("serves {what} on http://{}/", gateway.address));
    }
    announce(&daemon, gateway.as_ref().map(|gateway| gateway.address), json)?;
    let label = daemon.api().config().label.clone();
    let watchdog = Watchdog::start(&daemon.shared_api())?;
    let api = daemon.shared_api();
    spawn("end", move || drop(sender.send(Wake::Gone(api.wait_for_end()))))?;
    service::ready(&label);
    loop {
        match endings.recv().expect("the thread that waits for signals never ends") {
            Wake::End(why) => {
                tracing::info!("stopping: {why}");
                service::stopping(why);
                drop(watchdog);
                // Its sessions end before the node does.
                drop(gateway);
                return daemon.stop();
            }
            Wake::Reload => {
                service::reloading();
                reload(node, &daemon, debug);
                service::ready(&label);
            }
            Wake::Gone(error) => return Err(error),
        }
    }
}

/// Why a daemon wakes up.
enum Wake {
    /// It must exit.
    End(&'static str),
    /// It must reload its config.
    Reload,
    /// Its node has ended.
    Gone(ApiError),
}

/// Reads the config again. An error in it leaves the daemon as it is.
fn reload(node: &args::Node, daemon: &Daemon, debug: bool) {
    tracing::info!("reading '{}' again", node.config.display());
    let reloaded = load_with(&node.config, &node.peer).and_then(|config| {
        set_log(&config, debug);
        daemon.api().reload(config)
    });
    match reloaded {
        Ok(changes) => changes.iter().for_each(|change| out::talk(change)),
        Err(error) => format!("not reloaded, everything stays as it was: {error}").lines().for_each(out::talk),
    }
}
/// Sets the log level of the config, unless the command line requests everything.
fn set_log(config: &NodeConfig, debug: bool) {
    log::set_format(config.log_format);
    let of_config = config.log.clone().unwrap_or_else(|| LogLevel::Info.into());
    levels::set(if debug { LogLevel::Debug.into() } else { of_config });
}
/// Prints a warning about a legal but doubtful setting.
fn warn(warning: &str) {
    if out::is_json() {
        return tracing::warn!("{warning}");
    }
    out::talk(&format!("warning: {warning}"));
}

/// Reports on a separate thread that the daemon runs: if the reader of stdout stalls, the daemon still ends in order.
fn announce(daemon: &Daemon, at: Option<SocketAddr>, json: bool) -> Result<(), ApiError> {
    let mut lines = vec![daemon.ready()?];
    if let [Notice::Ready { http, .. }] = &mut lines[..] {
        *http = at.map(|at| at.to_string());
    }
    lines.extend_from_slice(daemon.published());
    let tell = move || {
        for notice in lines {
            match json {
                true => print(&notice, json),
                false => tables::answer(&notice).iter().for_each(|line| out::talk(line)),
            }
        }
    };
    spawn("announce", tell).map(drop)
}
/// Forwards a signal, or exits the process if `at_once`, which holds after a first signal. SIGHUP exits nothing: a
/// daemon outlives its terminal.
fn watch_signals(sender: Sender<Wake>, at_once: Arc<AtomicBool>) -> Result<(), ApiError> {
    signals::watch(&[SIGINT, SIGTERM, SIGHUP], move |signal| {
        let wake = match signal {
            SIGHUP => Wake::Reload,
            _ if at_once.swap(true, Ordering::SeqCst) => std::process::exit(INTERRUPTED),
            SIGINT => Wake::End("interrupted"),
            _ => Wake::End("SIGTERM"),
        };
        // The receiver is gone only if the program ends already.
        let _ = sender.send(wake);
    })
}
fn watch_stdin(sender: Sender<Wake>) -> Result<(), ApiError> {
    let watch = move || {
        let mut buffer = [0; 256];
        let mut stdin = std::io::stdin().lock();
        while matches!(stdin.read(&mut buffer), Ok(count) if count > 0) {}
        let _ = sender.send(Wake::End("standard input has ended"));
    };
    spawn("stdin", watch).map(drop)
}
