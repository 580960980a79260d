//! The daemon's end of the control socket: a Unix socket that only its owner may use.
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufReader, Read, Write},
    os::unix::{
        fs::{DirBuilderExt, FileTypeExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};
use tributary_core::{Duration, Time};
use tributary_net::{Clock, owner::is_unix_peer_owner};

use super::protocol::{Call, Reply, read_line, to_line};
use crate::{
    api::{Api, Flow},
    error::{ApiError, ErrorKind, spawn},
    local::LocalApi,
    operations::file_watch::{self, Watching},
    request::Request,
};

/// Streams that wait for their fetch at a time.
const STREAMS_MAX: usize = 64;
/// How long a client may take to accept a line before the daemon closes the connection.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);

/// How long a client waits when all places are taken: a client that exits frees its place a moment later.
const PLACE_PATIENCE: Duration = Duration::from_secs(1);
/// Interval of checks for a free place.
const PLACE_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Accepts clients until it is dropped; then the socket's file is removed.
pub struct ControlSocket {
    path: PathBuf,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the threads of all clients share.
struct Shared {
    api: Arc<LocalApi>,
    streams: Mutex<BTreeMap<String, UnixStream>>,
    /// Each client has a clone of it.
    clients: Arc<()>,
    ended: Arc<AtomicBool>,
}

impl ControlSocket {
    /// Listens at `path`, readable and writable by the owner only. The file of a daemon that was killed is replaced.
    ///
    /// # Errors
    /// [`ApiError`] if a daemon answers there already, or the socket cannot be made.
    pub fn open(path: &Path, api: Arc<LocalApi>) -> Result<Self, ApiError> {
        remove_stale(path)?;
        let listener = bind_private(path)?;
        if let Some(age_max) = api.node.config.serve.age_max {
            repeat("copies", &api, move |api| {
                if let Err(error) = api.node.withdraw_old_copies() {
                    tracing::warn!("cannot withdraw old copies: {error}");
                }
                Some(age_max.min(COPIES_LOOK))
            })?;
        }
        repeat("policies", &api, |api| api.node.apply_policies())?;
        let mut watching = None;
        repeat("watching", &api, move |api| {
            // The system watches for few programs: not for one that has nothing to watch.
            if watching.is_some() || !api.node.publications.watched().is_empty() {
                watching.get_or_insert_with(Watching::new).look(&api.node);
            }
            Some(file_watch::LOOK)
        })?;
        let ended = Arc::new(AtomicBool::new(false));
        api.start_queue(&ended)?;
        let shared = Arc::new(Shared { api, streams: Mutex::default(), clients: Arc::default(), ended });
        let of_thread = Arc::clone(&shared);
        let thread = spawn("control", move || accept(&listener, &of_thread))?;
        Ok(ControlSocket { path: path.into(), shared, thread: Some(thread) })
    }
    /// Clients that are served now.
    pub fn clients(&self) -> usize {
        Arc::strong_count(&self.shared.clients) - 1
    }
    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for clients; if that fails it has ended already.
        let _ = UnixStream::connect(&self.path);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
    }
}

/// Works while the node runs, on a thread called `name`, and pauses as long as `work` tells; `None` ends it.
fn repeat(
    name: &str,
    api: &Arc<LocalApi>,
    mut work: impl FnMut(&LocalApi) -> Option<Duration> + Send + 'static,
) -> Result<(), ApiError> {
    let api = Arc::downgrade(api);
    let turns = move || {
        while let Some(pause) = api.upgrade().and_then(|api| work(&api)) {
            std::thread::sleep(pause);
        }
    };
    spawn(name, turns).map(drop)
}
/// Longest interval between checks for outdated copies.
const COPIES_LOOK: Duration = Duration::from_secs(60);

/// Removes the socket of a daemon that is gone.
fn remove_stale(path: &Path) -> Result<(), ApiError> {
    let kind = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(ApiError::io("look at", path.display(), &error)),
    };
    if !kind.is_socket() {
        let message = format!("cannot listen at '{}': a file that is no socket exists there", path.display());
        return Err(
            ApiError::new(ErrorKind::Io, message).with_hint("choose another 'control' in [node], or move the file")
        );
    }
    match UnixStream::connect(path) {
        Ok(_) => {
            let message = format!("cannot listen at '{}': a daemon answers there already", path.display());
            let hint = "stop it first, or give this node its own 'state_dir' or 'control' in [node]";
            Err(ApiError::new(ErrorKind::Io, message).with_hint(hint))
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| ApiError::io("remove the stale socket", path.display(), &error))
        }
        Err(error) => Err(ApiError::io("look at", path.display(), &error)),
    }
}

/// Binds inside a private folder and moves the socket into place, so that other users can never connect.
fn bind_private(path: &Path) -> Result<UnixListener, ApiError> {
    let failed = |error: io::Error| {
        let error = ApiError::io("listen at", path.display(), &error);
        match path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
            true => error.with_hint(format!(
                "a socket's path has at most {SOCKET_PATH_BYTES_MAX} bytes; set 'control' in [node]"
            )),
            false => error,
        }
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(failed)?;
    let private = folder.join(format!(".{}", std::process::id()));
    fs::DirBuilder::new().mode(0o700).create(&private).map_err(failed)?;
    let inside = private.join("s");
    let listener = UnixListener::bind(&inside).and_then(|listener| {
        fs::set_permissions(&inside, fs::Permissions::from_mode(0o600))?;
        fs::rename(&inside, path)?;
        Ok(listener)
    });
    let _ = fs::remove_file(&inside);
    let _ = fs::remove_dir(&private);
    listener.map_err(failed)
}

/// Linux's maximum, with space for the private folder's name.
const SOCKET_PATH_BYTES_MAX: usize = 90;

fn accept(listener: &UnixListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        if shared.ended.load(Ordering::SeqCst) {
            return;
        }
        let Ok(client) = client else { continue };
        // The file's mode keeps other users out, but it may have been widened, or the socket opened before.
        if !is_unix_peer_owner(&client) {
            let error = ApiError::new(ErrorKind::Io, "the daemon takes commands only from the user that runs it");
            let _ = send(&client, &Reply::end(Err(error)));
            continue;
        }
        let room = shared.api.config().limits.control_clients;
        let Some(place) = take_place(shared, room) else {
            let error = ApiError::new(ErrorKind::Io, format!("the daemon serves {room} clients already"));
            let error = error.with_hint("try again, or raise 'control_clients' in [limits]");
            // A client that does not even take the refusal gets none.
            let _ = send(&client, &Reply::end(Err(error)));
            continue;
        };
        let of_thread = Arc::clone(shared);
        let _ = std::thread::Builder::new().name("client".into()).spawn(move || {
            let _place = place;
            if let Err(error) = serve(client, &of_thread) {
                tracing::debug!("a client of the control socket went: {error}");
            }
        });
    }
}

/// Takes one of `room` places for a client, if one is free or is freed soon.
fn take_place(shared: &Shared, room: usize) -> Option<Arc<()>> {
    let clock = Clock::new();
    loop {
        // Only this thread takes places, so a free one stays free.
        if Arc::strong_count(&shared.clients) <= room {
            return Some(Arc::clone(&shared.clients));
        }
        if clock.now().since(Time::ZERO) >= PLACE_PATIENCE || shared.ended.load(Ordering::SeqCst) {
            return None;
        }
        std::thread::sleep(PLACE_POLL_INTERVAL);
    }
}

/// Serves one client until it disconnects.
fn serve(client: UnixStream, shared: &Shared) -> io::Result<()> {
    client.set_write_timeout(Some(WRITE_PATIENCE))?;
    let mut reader = BufReader::new(client.try_clone()?);
    let mut line = Vec::new();
    loop {
        match read_line(&mut reader, &mut line, shared.api.config().limits.control_line_bytes) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let error = ApiError::new(ErrorKind::Protocol, error.to_string());
                return send(&client, &Reply::end(Err(error)));
            }
            Err(error) => return Err(error),
        }
        match Call::parse(&line) {
            Err(error) => send(&client, &Reply::end(Err(error)))?,
            Ok(Call { attach: Some(token), .. }) => return attach(client, token, shared),
            Ok(Call { request: Some(request), stream, .. }) => {
                let result = carry_out(&client, request, stream, shared);
                send(&client, &Reply::end(result))?;
            }
            Ok(Call { .. }) => {
                let error = ApiError::new(ErrorKind::Protocol, "the line has neither 'request' nor 'attach'");
                send(&client, &Reply::end(Err(error)))?;
            }
        }
    }
}

fn carry_out(client: &UnixStream, request: Request, stream: Option<String>, shared: &Shared) -> Result<(), ApiError> {
    let stream: Option<Box<dyn Write + Send>> = match stream {
        None => None,
        Some(token) => {
            let attached = shared.streams.lock().remove(&token);
            let stream = attached
                .ok_or_else(|| ApiError::new(ErrorKind::Protocol, "no connection is attached under that token"))?;
            Some(Box::new(stream))
        }
    };
    if let Some(begun) = shared.api.begin(&request, &shared.ended) {
        let sent = send(client, &Reply::notice(begun?));
        return sent.map_err(|error| ApiError::io("answer on", "the control socket", &error));
    }
    shared.api.ask(request, stream, &mut |notice| match send(client, &Reply::notice(notice)) {
        Ok(()) if !shared.ended.load(Ordering::SeqCst) => Flow::Continue,
        // The client has gone or the daemon stops: no reader is left.
        Ok(()) | Err(_) => Flow::Stop,
    })
}

fn attach(client: UnixStream, token: String, shared: &Shared) -> io::Result<()> {
    let for_fetch = client.try_clone()?;
    // A slow reader of a stream is no fault; it slows the fetch down.
    for_fetch.set_write_timeout(None)?;
    let mut streams = shared.streams.lock();
    // A client may attach a stream and leave without a fetch, for instance because the queue was full.
    streams.retain(|_, stream| is_there(stream));
    if streams.len() >= STREAMS_MAX || streams.contains_key(&token) {
        drop(streams);
        let error = ApiError::new(ErrorKind::Protocol, "too many streams wait, or this token is in use");
        return send(&client, &Reply::end(Err(error)));
    }
    send(&client, &Reply::end(Ok(())))?;
    streams.insert(token, for_fetch);
    Ok(())
}

/// Whether the client of a stream is still connected. It sends nothing on that connection, so only its end can be read.
fn is_there(mut stream: &UnixStream) -> bool {
    let silent = stream.set_nonblocking(true).and_then(|()| stream.read(&mut [0]));
    let silent = silent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
    silent && stream.set_nonblocking(false).is_ok()
}

fn send(mut client: &UnixStream, reply: &Reply) -> io::Result<()> {
    client.write_all(&to_line(reply))
}
