//! `trib node`.
use signal_hook::{
    consts::{SIGHUP, SIGINT},
    iterator::Signals,
};
use std::{
    io::Read,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{RecvTimeoutError, Sender, channel},
    },
};
use tributary::{Api, ApiError, Daemon, Request};
use tributary_core::Duration;

use super::{load, print};
use crate::{
    args, out,
    signals::{INTERRUPTED, ending},
    tables,
};

/// How often the daemon looks whether its node still lives.
const LOOK: Duration = Duration::from_secs(1);

/// Runs a daemon until a signal, the end of stdin if asked for, or the death of its node.
pub(crate) fn run(node: &args::Node, json: bool) -> Result<(), ApiError> {
    let (sender, endings) = channel();
    // What is still starting has nothing to end in order.
    let at_once = Arc::new(AtomicBool::new(true));
    watch_signals(sender.clone(), Arc::clone(&at_once))?;
    if node.stop_with_stdin {
        watch_stdin(sender)?;
    }
    let config = load(&node.config)?;
    config.warnings().iter().for_each(|warning| out::talk(&format!("warning: {warning}")));
    let daemon = Daemon::start(config)?;
    at_once.store(false, Ordering::SeqCst);
    announce(&daemon, json)?;
    loop {
        match endings.recv_timeout(LOOK) {
            Ok(why) => {
                tracing::info!("stopping: {why}");
                return daemon.stop();
            }
            // A node that is gone cannot tell; asking it does.
            Err(RecvTimeoutError::Timeout) => drop(daemon.api().answers(Request::Status)?),
            Err(RecvTimeoutError::Disconnected) => unreachable!("the thread that waits for signals never ends"),
        }
    }
}

/// Tells what runs, on a thread of its own: whoever should read it may not, and the daemon ends in order all the same.
fn announce(daemon: &Daemon, json: bool) -> Result<(), ApiError> {
    let mut lines = vec![daemon.ready()?];
    lines.extend_from_slice(daemon.published());
    let tell = move || {
        for told in lines {
            match json {
                true => print(&told, json),
                false => tables::answer(&told).iter().for_each(|line| out::talk(line)),
            }
        }
    };
    let spawned = std::thread::Builder::new().name("announce".into()).spawn(tell);
    spawned.map(drop).map_err(|error| ApiError::io("start", "the thread 'announce'", &error))
}
/// Sends on that a signal came, or ends the process if that is to be `at_once`: after a first signal it is.
fn watch_signals(sender: Sender<&'static str>, at_once: Arc<AtomicBool>) -> Result<(), ApiError> {
    let failed = |error: std::io::Error| ApiError::io("listen for", "signals", &error);
    let mut signals = Signals::new(ending()).map_err(failed)?;
    let watch = move || {
        for signal in signals.forever() {
            if at_once.swap(true, Ordering::SeqCst) {
                std::process::exit(INTERRUPTED);
            }
            let why = match signal {
                SIGINT => "interrupted",
                SIGHUP => "the terminal is gone",
                _ => "told to terminate",
            };
            // Nobody listens any more only if the program ends already.
            let _ = sender.send(why);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(watch).map_err(failed)?;
    Ok(())
}
fn watch_stdin(sender: Sender<&'static str>) -> Result<(), ApiError> {
    let watch = move || {
        let mut buffer = [0; 256];
        let mut stdin = std::io::stdin().lock();
        while matches!(stdin.read(&mut buffer), Ok(count) if count > 0) {}
        let _ = sender.send("standard input has ended");
    };
    let spawned = std::thread::Builder::new().name("stdin".into()).spawn(watch);
    spawned.map(drop).map_err(|error| ApiError::io("watch", "standard input", &error))
}
