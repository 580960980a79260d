//! `trib put`.
use std::sync::Arc;
use tributary::{Api, ApiError, ErrorKind, LocalApi, Request, Told};
use tributary_core::Duration;

use super::{connect, milliseconds, print, start};
use crate::{args, out, signals::Wish};

/// How often a foreground publisher looks whether it should end.
const LOOK: Duration = Duration::from_millis(50);

/// Publishes by a daemon, or stays in the foreground as a publisher.
pub(crate) fn run(put: &args::Put, json: bool) -> Result<(), ApiError> {
    let path = std::path::absolute(&put.path).map_err(|error| ApiError::io("find", put.path.display(), &error))?;
    let request =
        Request::Put { path, name: put.name.to_string(), version: put.version, patience_ms: milliseconds(put.timeout) };
    let Some(config) = &put.worker.config else {
        let answers = connect(&put.worker.control)?.answers(request)?;
        answers.iter().for_each(|told| print(told, json));
        return confirmed(&answers, put);
    };
    let wish = Wish::listen()?;
    let api = Arc::new(start(config, &wish)?);
    let answers = publish(&api, request, &wish)?;
    answers.iter().for_each(|told| print(told, json));
    if let Err(error) = confirmed(&answers, put) {
        out::talk(&format!("{error}"));
    }
    out::talk("publishing until Ctrl-C");
    while !wish.is_made() {
        std::thread::sleep(LOOK);
    }
    api.stop()
}

/// Asks on a thread of its own, so that a signal need not wait until a large file is hashed or somebody confirms.
fn publish(api: &Arc<LocalApi>, request: Request, wish: &Wish) -> Result<Vec<Told>, ApiError> {
    let of_thread = Arc::clone(api);
    let failed = |error: std::io::Error| ApiError::io("start", "the thread that publishes", &error);
    let asking = std::thread::Builder::new().name("put".into()).spawn(move || of_thread.answers(request));
    let asking = asking.map_err(failed)?;
    while !asking.is_finished() {
        if let Err(interrupted) = wish.check() {
            api.stop()?;
            return Err(interrupted);
        }
        std::thread::sleep(LOOK);
    }
    let panicked = |_| ApiError::new(ErrorKind::Io, "the thread that publishes panicked");
    asking.join().map_err(panicked)?
}

fn confirmed(answers: &[Told], put: &args::Put) -> Result<(), ApiError> {
    if answers.iter().any(|told| matches!(told, Told::Published { confirmed: false, .. })) {
        let message = format!("no resolver has confirmed '{}' within {:?}", put.name, put.timeout);
        let hint = "the node keeps trying; `trib status` shows its neighbours and `trib explain NAME` where it stands";
        return Err(ApiError::new(ErrorKind::Incomplete, message).with_hint(hint));
    }
    Ok(())
}
