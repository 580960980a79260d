//! `trib node`.
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};
use std::{
    io::Read,
    sync::mpsc::{RecvTimeoutError, Sender, channel},
};
use tributary::{Api, ApiError, Daemon, Request};
use tributary_core::Duration;

use super::{load, print};
use crate::{args, out};

/// How often the daemon looks whether its node still lives.
const LOOK: Duration = Duration::from_secs(1);

/// Runs a daemon until a signal, the end of stdin if asked for, or the death of its node.
pub(crate) fn run(node: &args::Node, json: bool) -> Result<(), ApiError> {
    let (sender, endings) = channel();
    watch_signals(sender.clone())?;
    if node.stop_with_stdin {
        watch_stdin(sender)?;
    }
    let config = load(&node.config)?;
    config.warnings().iter().for_each(|warning| out::talk(&format!("warning: {warning}")));
    let daemon = Daemon::start(config)?;
    let ready = daemon.ready()?;
    if json {
        out::data(&ready.to_line());
        daemon.published().iter().for_each(|told| print(told, json));
    } else {
        for told in std::iter::once(&ready).chain(daemon.published()) {
            crate::tables::answer(told).iter().for_each(|line| out::talk(line));
        }
    }
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

fn watch_signals(sender: Sender<&'static str>) -> Result<(), ApiError> {
    let failed = |error: std::io::Error| ApiError::io("listen for", "signals", &error);
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let watch = move || {
        for signal in signals.forever() {
            let why = if signal == SIGINT { "interrupted" } else { "told to terminate" };
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
