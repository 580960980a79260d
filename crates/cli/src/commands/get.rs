//! `trib get`.
use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
};
use tributary::{
    Api, ApiError, ErrorKind, Flow, Get, GetOptions, Notice, Output, Overwrite, Request, Sealed,
    preflight::{absolute, file_name, into},
    request::{FolderPart, PathWishes, WebMirrors},
};
use tributary_content::Reference;
use tributary_terminal::{failure, out};

use super::{
    answer::print,
    daemons,
    executor::{Executor, milliseconds, worker},
    web,
};
use crate::{
    args::{self, Target},
    hook::Hook,
    progress::Display,
    signals::Wish,
};

/// Fetches by a daemon, or by a node in this process, or from web servers. Each of several targets becomes a file in
/// one folder; after an error the other targets are still fetched, after an interrupt they are not.
pub(crate) fn run(get: &args::Get, json: bool) -> Result<(), ApiError> {
    let output = get.output.as_deref();
    let [_, _, ..] = &get.names[..] else { return run_one(get, &get.names[0], output, json) };
    if get.range.is_some() || output == Some(Path::new("-")) {
        return Err(ApiError::usage("several names are fetched whole, to a folder").with_hint("fetch them one by one"));
    }
    if get.web.sha256.is_some() || !get.web.mirrors.is_empty() && get.names.iter().any(Target::is_web) {
        let message = "--sha256 and --mirror are for one file";
        return Err(ApiError::usage(message).with_hint("fetch files of web servers one by one"));
    }
    let folder = folder(output)?;
    refuse_collisions(&get.names, &folder)?;
    let mut failed = Ok(());
    for target in &get.names {
        match run_one(get, target, Some(&folder), json) {
            Err(error) if error.kind == ErrorKind::Cancelled => return Err(error),
            Err(error) if failed.is_ok() => failed = Err(error),
            Err(error) => failure::report(&error, json),
            Ok(()) => {}
        }
    }
    failed
}
/// The folder of the targets, marked by its slash.
fn folder(output: Option<&Path>) -> Result<PathBuf, ApiError> {
    absolute(&output.unwrap_or(Path::new(".")).join(""))
}
/// Refuses targets that would be written to one file of a folder.
fn refuse_collisions(targets: &[Target], folder: &Path) -> Result<(), ApiError> {
    let mut files: Vec<(&Target, PathBuf)> = Vec::new();
    for target in targets {
        let Some(file) = target.file()? else { continue };
        if let Some((other, _)) = files.iter().find(|(_, of)| *of == file) {
            let file = folder.join(file);
            let message = format!("'{other}' and '{target}' would both be written to '{}'", file.display());
            return Err(ApiError::usage(message).with_hint("name them one by one, each with another -o"));
        }
        files.push((target, file));
    }
    Ok(())
}
fn run_one(get: &args::Get, target: &Target, output: Option<&Path>, json: bool) -> Result<(), ApiError> {
    let reference = match target {
        Target::Web(what) => return web::run(get, what, output, json),
        Target::Name(reference) => reference,
    };
    let output = match output {
        Some(path) if path == Path::new("-") => Output::Stream,
        Some(path) => Output::Path(absolute(path)?),
        None => Output::Path(folder(None)?),
    };
    if json && output == Output::Stream {
        let message = "--json and -o - would mix lines and bytes on standard output";
        return Err(ApiError::usage(message).with_hint("write to a file, or leave --json out"));
    }
    let (output, stream): (_, Option<Box<dyn Write + Send>>) = match (output, &get.range) {
        (Output::Stream, _) => (Output::Stream, Some(Box::new(std::io::stdout()))),
        (Output::Path(path), Some(_)) => {
            let path = into(&path, &file_name(&reference.name)?)?;
            (Output::Stream, Some(Box::new(create(&path, get.overwrite)?)))
        }
        (output, None) => (output, None),
    };
    let wanted = Get {
        name: reference.to_string(),
        output,
        publisher: get.publisher.clone(),
        hash: None,
        limit_bits_per_second: get.limit.map(|rate| rate.bits_per_second()),
        patience_ms: get.timeout.map(milliseconds),
        options: GetOptions {
            chunk_bytes: get.chunk_size,
            reliability: get.reliability,
            nack_timeout: get.nack_timeout,
            in_network: get.in_network,
        },
        overwrite: if get.overwrite { Overwrite::Anything } else { Overwrite::EarlierFetch },
        sealed: if get.sealed { Sealed::Keep } else { Sealed::Open },
        ranges: get.range.as_ref().map(ToString::to_string),
        part: FolderPart { below: None, include: get.include.clone(), exclude: get.exclude.clone() },
        serve: get.serve,
        web: web_mirrors(get)?,
        no_mirrors: get.no_mirrors,
        paths: PathWishes { priority: get.priority.unwrap_or(0), only: get.only.clone(), avoid: get.avoid.clone() },
        every_ms: None,
        newer_than: None,
    };
    let wanted = wanted.settled()?;
    if get.detach {
        return begin(wanted, &get.worker.control, |api| check_family(get, api), json);
    }
    // From here on a signal stops the fetch in order: verified chunks are kept.
    let wish = Wish::listen()?;
    let mut request = Request::Get(wanted);
    let mut stream = stream;
    loop {
        let executor = worker(&get.worker, &mut request, &wish)?;
        check_family(get, executor.api())?;
        let is_streamed = stream.is_some();
        let mut display = Display::new(json).with_hook(Hook::of(get.hook.command.as_ref())?);
        let result = show(executor.api(), request.clone(), stream.take(), &wish, &mut display);
        // The command whose node this one used has exited with its node: continue with a node in this process.
        let is_left = matches!(&executor, Executor::Daemon(_)) && get.worker.config.is_some() && !is_streamed;
        match result {
            Err(error)
                if is_left && matches!(error.kind, ErrorKind::Gone | ErrorKind::Cancelled) && !wish.is_made() => {}
            result => {
                executor.finish(&wish);
                return result;
            }
        }
    }
}
/// Follows a fetch that another command started.
pub(crate) fn follow(follow: &args::Follow, json: bool) -> Result<(), ApiError> {
    if let Some(output) = &follow.output {
        let reference = follow.transfer.parse::<Reference>().map_err(|error| {
            let message = format!("'{}' is not a name: {error}", follow.transfer);
            ApiError::usage(message).with_hint("-o fetches the versions of a name")
        })?;
        let get = versions_of(&reference, output, &follow.versions)?;
        return begin(get, &follow.control, |_| Ok(()), json);
    }
    let wish = Wish::listen()?;
    let name = follow.transfer.parse::<Reference>().map(|reference| reference.name.to_string());
    let request = Request::Follow { id: name.unwrap_or_else(|_| follow.transfer.clone()) };
    let daemon = daemons::connect(&follow.control, &request)?;
    let mut display = Display::new(json).with_hook(Hook::of(follow.hook.command.as_ref())?);
    match show(&daemon, request, None, &wish, &mut display) {
        // Who looks away ends nothing.
        Err(error) if error.kind == ErrorKind::Cancelled && wish.is_made() => Ok(()),
        result => result,
    }
}
/// Has a daemon keep and serve the latest versions of names.
pub(crate) fn mirror(mirror: &args::Mirror, json: bool) -> Result<(), ApiError> {
    let folder = folder(mirror.output.as_deref())?;
    let names: Vec<Target> = mirror.names.iter().cloned().map(Target::Name).collect();
    refuse_collisions(&names, &folder)?;
    for reference in &mirror.names {
        let get = Get { serve: true, ..versions_of(reference, &folder, &mirror.versions)? };
        begin(get, &mirror.control, |_| Ok(()), json)?;
    }
    Ok(())
}
/// A fetch of all versions of a name.
fn versions_of(reference: &Reference, output: &Path, options: &args::VersionOptions) -> Result<Get, ApiError> {
    let get = Get {
        publisher: options.publisher.clone(),
        every_ms: Some(milliseconds(options.every)),
        ..Get::new(reference.to_string(), Output::Path(absolute(output)?))
    };
    get.settled()
}
/// Leaves a fetch to a daemon that passes the check.
fn begin(
    get: Get,
    control: &args::Control,
    check: impl FnOnce(&dyn Api) -> Result<(), ApiError>,
    json: bool,
) -> Result<(), ApiError> {
    if get.output == Output::Stream {
        let message = "--detach and -o - contradict each other: no process would read the output";
        return Err(ApiError::usage(message).with_hint("name a file with -o"));
    }
    let follows = get.every_ms.is_some();
    let request = Request::Begin(get);
    request.check_disk()?;
    let daemon = daemons::connect(control, &request)?;
    check(&daemon)?;
    for notice in daemon.answers(request)? {
        match &notice {
            Notice::Fetching { name, queue: Some(queue), .. } if follows && !json => out::data(&format!(
                "{queue} follows '{name}'; `trib transfers` shows it, `trib cancel {queue}` ends it"
            )),
            Notice::Fetching { name, queue: Some(queue), waiting: true, .. } if !json => out::data(&format!(
                "{queue} waits for its turn to fetch '{name}'; `trib transfers` shows the queue, `trib cancel {queue}` takes it \
                 out"
            )),
            Notice::Fetching { transfer, name, .. } if !(follows || json) => out::data(&format!(
                "{transfer} fetches '{name}' by itself; `trib follow {transfer}` shows how far it is, `trib cancel {transfer}` \
                 ends it"
            )),
            notice => print(notice, json),
        }
    }
    Ok(())
}
fn show(
    api: &dyn Api,
    request: Request,
    stream: Option<Box<dyn Write + Send>>,
    wish: &Wish,
    display: &mut Display,
) -> Result<(), ApiError> {
    let result = api.ask(request, stream, &mut |notice| {
        display.show(&notice);
        if wish.is_made() { Flow::Stop } else { Flow::Continue }
    });
    display.end();
    result
}

/// The web servers that deliver chunks of a name. A daemon reads their files where it runs, so paths are absolute.
fn web_mirrors(get: &args::Get) -> Result<WebMirrors, ApiError> {
    if get.web.sha256.is_some() {
        let message =
            "--sha256 is for files of web servers; a name's bytes are checked against its publisher's signature";
        return Err(ApiError::usage(message));
    }
    if get.web.user_agent.is_some() || get.web.insecure_redirects {
        let message = "--user-agent and --insecure-redirects are for URLs and Metalink files, not for names";
        return Err(ApiError::usage(message));
    }
    let at = |path: &Option<PathBuf>| path.as_deref().map(absolute).transpose();
    Ok(WebMirrors {
        urls: get.web.mirrors.iter().map(ToString::to_string).collect(),
        interfaces: get.web.interfaces.iter().map(ToString::to_string).collect(),
        ca_certificates: get.web.ca_certificates.iter().map(|path| absolute(path)).collect::<Result<_, _>>()?,
        cookies: at(&get.web.cookies)?,
        netrc: at(&get.web.netrc)?,
    })
}
/// Refuses to fetch with another family than the requested one.
fn check_family(get: &args::Get, api: &dyn Api) -> Result<(), ApiError> {
    let Some(family) = get.family else { return Ok(()) };
    for notice in api.answers(Request::Status)? {
        if let Notice::Status(status) = notice
            && status.family != family.word()
        {
            let names: Vec<_> = get.names.iter().map(|name| format!("'{name}'")).collect();
            let message = format!("cannot fetch {} with {family}: the node speaks {}", names.join(", "), status.family);
            return Err(ApiError::usage(message).with_hint("ask a node of that family, with --control"));
        }
    }
    Ok(())
}

/// Creates the file that gets a part of an object.
fn create(path: &Path, overwrite: bool) -> Result<File, ApiError> {
    let mut options = File::options();
    options.write(true);
    match overwrite {
        true => options.create(true).truncate(true),
        false => options.create_new(true),
    };
    options.open(path).map_err(|error| {
        let failed = ApiError::io("create", path.display(), &error);
        let exists = error.kind() == std::io::ErrorKind::AlreadyExists;
        if exists { failed.with_hint("--overwrite replaces it, another -o FILE leaves it alone") } else { failed }
    })
}
