//! `trib send` and `trib recv`.
use std::{
    io::{self, Read},
    path::Path,
};
use tributary::{Api, ApiError, Flow, Notice, Request, preflight::absolute, request};
use tributary_core::ByteCount;

use super::{
    answer::print,
    daemons,
    executor::{Executor, aside, executor, milliseconds, worker},
    load::load_with,
};
use crate::{args, hook::Hook, signals::Wish};

/// Standard input is read up to this size; larger content must be a file.
const STDIN_BYTES_MAX: u64 = 64 << 20;
/// The name of the file that it becomes.
const STDIN_FILE: &str = "stdin";

/// Sends by a daemon, or by a node in this process.
pub(crate) fn send(send: &args::Send, json: bool) -> Result<(), ApiError> {
    let wish = Wish::listen()?;
    // The file with standard input's content, during this command.
    let mut stdin = None;
    let path = match send.path == Path::new("-") {
        true => stdin.insert(stdin_as_file(&wish)?).path().join(STDIN_FILE),
        false => absolute(&send.path)?,
    };
    let mut request = Request::Send(request::Send {
        path,
        name: send.name.to_string(),
        to: send.to.clone(),
        version: send.version,
        chunk_bytes: send.chunk_size,
        reliability: send.reliability,
        in_network: send.in_network,
        priority: send.priority,
        lifetime_ms: send.lifetime.map(milliseconds),
        nearest: send.nearest,
        proxies: send.proxies,
        wait: send.wait,
        leaves: false,
        patience_ms: milliseconds(send.timeout),
    });
    let executor = worker(&send.worker, &mut request, &wish)?;
    if let (Request::Send(send), Executor::Own(_)) = (&mut request, &executor) {
        send.leaves = true;
    }
    let result = follow(executor.api(), request, None, &wish, json);
    executor.finish(&wish);
    result
}
/// Receives objects until the count is reached or a signal ends it.
pub(crate) fn recv(recv: &args::Recv, json: bool) -> Result<(), ApiError> {
    let wish = Wish::listen()?;
    let request = Request::Recv(request::Recv {
        attach: recv.attach.iter().map(ToString::to_string).collect(),
        folder: absolute(&recv.output)?,
        publisher: recv.publisher.map(|key| key.to_string()),
        count: recv.count,
        nack_timeout_ms: recv.nack_timeout.map(milliseconds),
        patience_ms: recv.timeout.map(milliseconds),
        on_repeat: recv.on_repeat,
    });
    // The command does not wait for neighbours: their stored messages arrive as soon as they answer.
    let executor = match &recv.worker.config {
        Some(path) => executor(load_with(path, &recv.worker.peer)?, &wish)?,
        None => Executor::Daemon(daemons::connect(&recv.worker.control, &request)?),
    };
    let hook = Hook::of(recv.hook.command.as_ref())?;
    let result = follow(executor.api(), request, hook.as_ref(), &wish, json);
    executor.finish(&wish);
    result
}

/// Prints notices until the end or a signal.
fn follow(api: &dyn Api, request: Request, hook: Option<&Hook>, wish: &Wish, json: bool) -> Result<(), ApiError> {
    let result = api.ask(request, None, &mut |notice| {
        if notice != Notice::Waiting {
            print(&notice, json);
        }
        if let Some(hook) = hook {
            hook.on(&notice);
        }
        if wish.is_made() { Flow::Stop } else { Flow::Continue }
    });
    // A command that runs until a signal stops it has not failed.
    wish.check().and(result)
}
/// Reads standard input to its end, unless the program is to exit before, and writes it to [`STDIN_FILE`] in a folder
/// that is removed when dropped.
fn stdin_as_file(wish: &Wish) -> Result<tempfile::TempDir, ApiError> {
    let bytes = aside("stdin", wish, || {
        let mut bytes = Vec::new();
        let result = io::stdin().lock().take(STDIN_BYTES_MAX + 1).read_to_end(&mut bytes);
        result.map_err(|error| ApiError::io("read", "standard input", &error))?;
        Ok(bytes)
    })?;
    if bytes.len() as u64 > STDIN_BYTES_MAX {
        let message = format!("standard input has more than {}", ByteCount(STDIN_BYTES_MAX));
        return Err(ApiError::usage(message).with_hint("write it to a file and send that"));
    }
    let folder = tempfile::tempdir();
    let folder = folder.map_err(|error| ApiError::io("make a folder in", std::env::temp_dir().display(), &error))?;
    let path = folder.path().join(STDIN_FILE);
    std::fs::write(&path, bytes).map_err(|error| ApiError::io("write", path.display(), &error))?;
    Ok(folder)
}
