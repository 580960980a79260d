//! `trib put`.
use std::{path::Path, sync::Arc};
use tributary::{Api, ApiError, ErrorKind, Notice, Request, Term, preflight::absolute};
use tributary_content::PublicKey;
use tributary_core::Duration;
use tributary_terminal::out;

use super::{
    answer::print,
    daemons,
    executor::{Executor, Own, aside, executor, milliseconds, wait_for_neighbour},
    load::load_with,
};
use crate::{args, signals::Wish};

/// Publishes by a daemon, or stays in the foreground as a publisher that answers on its control socket as a daemon does.
pub(crate) fn run(put: &args::Put, json: bool) -> Result<(), ApiError> {
    if put.path == Path::new("-") {
        let message =
            "cannot publish standard input: a node reads published files in place, for as long as they are published";
        return Err(ApiError::usage(message)
            .with_hint("write it to a file and publish that; `trib send -` sends standard input once (family mf)"));
    }
    let path = absolute(&put.path)?;
    // A publication that ends with this command must not return with the next node of the same config.
    let term = match (put.worker.config.is_some(), put.watch) {
        (true, _) => Term::ThisRun,
        (false, true) => Term::Watched,
        (false, false) => Term::UntilRemoved,
    };
    let (name, patience_ms) = (put.name.to_string(), milliseconds(put.timeout));
    let readers = readers(&put.readers)?;
    let mirrors = put.mirrors.iter().map(ToString::to_string).collect();
    let mut request = Request::Put { path, name, version: put.version, patience_ms, term, readers, mirrors };
    let Some(config) = &put.worker.config else {
        let answers = daemons::connect(&put.worker.control, &request)?.answers(request)?;
        answers.iter().for_each(|notice| print(notice, json));
        return confirmed(&answers, put);
    };
    request.check_disk()?;
    let wish = Wish::listen()?;
    let (control, api) = match executor(load_with(config, &put.worker.peer)?, &wish)? {
        Executor::Own(Own { control, api }) => (control, api),
        // The node that runs publishes it from now on, as if it had been named with --control.
        Executor::Daemon(daemon) => {
            let answers = daemon.answers(request)?;
            answers.iter().for_each(|notice| print(notice, json));
            return confirmed(&answers, put);
        }
    };
    wait_for_neighbour(&api, Some(&mut request), &wish)?;
    // A large file takes long to hash, and the resolver may be unreachable.
    let shared = Arc::clone(&api);
    let answers = aside("put", &wish, move || shared.answers(request));
    if answers.is_err() && wish.is_made() {
        drop(control);
        api.stop()?;
        return answers.map(drop);
    }
    let answers = answers?;
    answers.iter().for_each(|notice| print(notice, json));
    if let Err(error) = confirmed(&answers, put) {
        out::talk(&format!("{error}"));
    }
    out::talk("publishing until Ctrl-C");
    wish.wait(Duration::MAX);
    drop(control);
    api.stop()
}

/// Readers in the form for a node: files of keys are read here.
pub(crate) fn readers(named: &[String]) -> Result<Vec<String>, ApiError> {
    let mut readers = Vec::new();
    for named in named {
        // A word that names a file here means the file, even if it is also a label.
        let is_path = named.contains('/');
        if !is_path && (named.parse::<PublicKey>().is_ok() || !Path::new(named).is_file()) {
            readers.push(named.clone());
            continue;
        }
        let text = std::fs::read_to_string(named).map_err(|error| ApiError::io("read", named, &error))?;
        let before = readers.len();
        for (number, line) in (1..).zip(text.lines()) {
            let key = line.split('#').next().unwrap_or_default().trim();
            if key.is_empty() {
                continue;
            }
            if let Err(error) = key.parse::<PublicKey>() {
                return Err(ApiError::usage(format!("line {number} of '{named}' is no reader's key: {error}"))
                    .with_hint("write one key a line, as `trib key show` prints it; # begins a comment"));
            }
            readers.push(key.into());
        }
        if readers.len() == before {
            return Err(ApiError::usage(format!("there is no reader's key in '{named}'")));
        }
    }
    Ok(readers)
}

fn confirmed(answers: &[Notice], put: &args::Put) -> Result<(), ApiError> {
    if answers.iter().any(|notice| matches!(notice, Notice::Published { confirmed: false, .. })) {
        let message = format!("no resolver has confirmed '{}' within {:?}", put.name, put.timeout);
        let hint = "the node keeps trying; `trib status` shows its neighbours and `trib explain NAME` where it stands";
        return Err(ApiError::new(ErrorKind::Incomplete, message).with_hint(hint));
    }
    Ok(())
}
