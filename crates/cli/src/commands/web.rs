//! `trib get` of a URL or a Metalink file: no node, no config, no network of ours.
use std::path::{Path, PathBuf};
use tributary::{
    ApiError, ErrorKind, Notice,
    preflight::{absolute, into, is_folder_name},
    views::{DoneView, ProgressView},
};
use tributary_core::{Duration, TransferId, event::Event};
use tributary_net::disk::Existing;
use tributary_web::{
    ClientOptions, Control, Metalink, Origin, Update, Url, Wanted, WebError,
    client::Redirects,
    fetch, fetch_document,
    metalink::{METALINK_BYTES_MAX, MetalinkFile},
    shown,
};

use crate::{args, hook::Hook, progress::Display, signals::Wish};

/// Longest silence within a fetch from web servers: longer than most uplinks are away.
const PATIENCE: Duration = Duration::from_secs(30);
/// The number that such a fetch has in its notices: it is the only one of its process.
const TRANSFER: TransferId = TransferId(1);

/// Fetches from web servers.
pub(super) fn run(get: &args::Get, what: &args::WebTarget, output: Option<&Path>, json: bool) -> Result<(), ApiError> {
    refuse_node_options(get)?;
    if output == Some(Path::new("-")) {
        let message = "cannot write a download from several web servers to standard output: it arrives out of order";
        return Err(ApiError::usage(message).with_hint("name a file with -o"));
    }
    let wish = Wish::listen()?;
    let wanted = wanted(get);
    match what {
        args::WebTarget::Url(url) if args::web::is_metalink(url.path()) => {
            let bytes = fetch_document(url, &wanted.client).map_err(error)?;
            metalink(get, &bytes, &shown(url), output, (&wish, json))
        }
        args::WebTarget::Url(url) => {
            let mut mirrors = vec![url.clone()];
            mirrors.extend(get.web.mirrors.iter().cloned());
            let is_file = output.is_some_and(|path| !is_folder_name(path) && !path.is_dir());
            let file = || args::web::file_of(url);
            let output = match output {
                Some(path) if is_file => path.into(),
                Some(folder) => into(folder, &file()?)?,
                None => file()?,
            };
            one(get, Wanted { mirrors, output, ..wanted }, (&wish, json))
        }
        args::WebTarget::Metalink(path) => {
            let read = |error: std::io::Error| ApiError::io("read", path.display(), &error);
            let length = std::fs::metadata(path).map_err(read)?.len();
            if length > METALINK_BYTES_MAX as u64 {
                let message = format!("'{}' has {length} bytes, more than a Metalink file may have", path.display());
                return Err(ApiError::usage(message));
            }
            let bytes = std::fs::read(path).map_err(read)?;
            metalink(get, &bytes, &path.display().to_string(), output, (&wish, json))
        }
    }
}

/// The wishes of the command, but not yet for any file.
fn wanted(get: &args::Get) -> Wanted {
    Wanted {
        mirrors: Vec::new(),
        output: PathBuf::new(),
        size: None,
        checksum: get.web.sha256.clone(),
        pieces: None,
        existing: if get.overwrite { Existing::Anything } else { Existing::EarlierFetch },
        state_dir: state_dir(),
        rate_limit: get.limit,
        patience: get.timeout.unwrap_or(PATIENCE),
        client: client_options(&get.web),
    }
}

fn metalink(
    get: &args::Get,
    bytes: &[u8],
    from: &str,
    output: Option<&Path>,
    how: (&Wish, bool),
) -> Result<(), ApiError> {
    let unusable = |why: String| ApiError::usage(format!("cannot use the Metalink file '{from}': {why}"));
    let list = Metalink::parse(bytes).map_err(unusable)?;
    let is_one = list.files.len() == 1;
    if !is_one && (get.web.sha256.is_some() || !get.web.mirrors.is_empty()) {
        return Err(unusable("it lists several files, and --sha256 and --mirror are for one".into()));
    }
    for file in list.files {
        let output = match output {
            Some(path) if is_one => into(path, Path::new(&file.name))?,
            folder => folder.unwrap_or(Path::new("")).join(&file.name),
        };
        if let Some(parent) = output.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            std::fs::create_dir_all(parent)
                .map_err(|error| ApiError::io("make the folder", parent.display(), &error))?;
        }
        let MetalinkFile { size, checksum, pieces, urls, .. } = file;
        let mut mirrors: Vec<Url> = urls.into_iter().map(|url| url.url).collect();
        mirrors.extend(get.web.mirrors.iter().cloned());
        let checksum = get.web.sha256.clone().or(checksum);
        one(get, Wanted { mirrors, output, size, checksum, pieces, ..wanted(get) }, how)?;
    }
    Ok(())
}

/// Fetches one file and shows it.
fn one(get: &args::Get, wanted: Wanted, (wish, json): (&Wish, bool)) -> Result<(), ApiError> {
    let name = wanted.mirrors.first().map(shown).unwrap_or_default();
    let wanted = Wanted { output: absolute(&wanted.output)?, ..wanted };
    let mut display = Display::new(json).with_hook(Hook::of(get.hook.command.as_ref())?);
    let part = tributary_net::disk::PartFile::unfinished_at(&wanted.output).map(|folder| folder.display().to_string());
    display.show(&Notice::Fetching {
        transfer: TRANSFER.to_string(),
        name: name.clone(),
        part,
        queue: None,
        waiting: false,
    });
    let result = fetch(&wanted, &mut |update| {
        match update {
            Update::Event(event) => {
                Notice::from_event(Event::Transfer(TRANSFER, event)).iter().for_each(|notice| display.show(notice));
            }
            Update::Opened { .. } => {}
            Update::Report(report, now) => {
                display.show(&Notice::Progress(ProgressView::new(TRANSFER, &name, &report, now)));
            }
        }
        if wish.is_made() { Control::Break(()) } else { Control::Continue(()) }
    });
    let result = result.map(|outcome| {
        let path = Some(outcome.path.display().to_string());
        let mut done = DoneView::new(&name, "web", &outcome.report, path);
        done.verified = outcome.verified;
        if let Some(checksum) = outcome.checksum {
            done.more.insert("checksum".into(), checksum.into());
        }
        display.show(&Notice::Done(done));
    });
    display.end();
    result.map_err(error)
}
fn state_dir() -> Option<PathBuf> {
    let folder = tributary::paths::state_dir("web")?;
    std::fs::create_dir_all(&folder).ok().map(|()| folder)
}
fn client_options(web: &args::WebOptions) -> ClientOptions {
    ClientOptions {
        uplinks: web.interfaces.clone(),
        ca_certificates: web.ca_certificates.clone(),
        cookies: web.cookies.clone(),
        netrc: web.netrc.clone(),
        user_agent: web.user_agent.clone(),
        redirects: if web.insecure_redirects { Redirects::Any } else { Redirects::Secure },
        store: None,
        origin: Origin::Person,
        hosts: Vec::new(),
    }
}
fn refuse_node_options(get: &args::Get) -> Result<(), ApiError> {
    let given = [
        ("--config", get.worker.config.is_some()),
        ("--publisher", get.publisher.is_some()),
        ("--family", get.family.is_some()),
        ("--sealed", get.sealed),
        ("--include", !get.include.is_empty()),
        ("--exclude", !get.exclude.is_empty()),
        ("--no-mirrors", get.no_mirrors),
        ("--detach", get.detach),
        ("--chunk-size", get.chunk_size.is_some()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => {
            let target = get.names.iter().find(|target| target.is_web()).unwrap_or(&get.names[0]);
            Err(ApiError::usage(format!("{option} is for names of a network, and '{target}' comes from web servers")))
        }
        None => Ok(()),
    }
}
fn error(error: WebError) -> ApiError {
    let kind = match &error {
        WebError::NotFound(_) => ErrorKind::NotFound,
        WebError::Incomplete(_) | WebError::Mismatch(_) => ErrorKind::Incomplete,
        WebError::Usage(_) => ErrorKind::Usage,
        WebError::Stopped => ErrorKind::Cancelled,
        _ => ErrorKind::Io,
    };
    let hint = match &error {
        WebError::Incomplete(_) | WebError::Stopped => "the same command resumes where it stopped",
        WebError::Mismatch(_) => "compare the checksum with the publisher's, or name another mirror with --mirror",
        _ => return ApiError::new(kind, error.to_string()),
    };
    ApiError::new(kind, error.to_string()).with_hint(hint)
}
