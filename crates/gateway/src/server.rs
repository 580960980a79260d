//! Connections and their limits, requests, answers.
use std::{
    convert::Infallible,
    net::SocketAddr,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, UNIX_EPOCH},
};

use hyper::{
    HeaderMap, Method, Request, Response, StatusCode, Uri, Version,
    body::Incoming,
    header::{self, HeaderValue},
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    runtime::Runtime,
    sync::{Semaphore, watch},
    time::{Instant, MissedTickBehavior},
};
use tributary::{ApiError, LocalApi};
use tributary_net::{disk::ObjectCache, platform};

use crate::{
    api::{
        Kind, Service,
        guard::{self, Connection},
    },
    body::{Content, Part, answer_of, empty_answer},
    conditions::{self, Validators, Wanted},
    config::GatewayConfig,
    dashboard,
    folder::{self, Found, Line},
    origin::{
        Origins,
        members::{self, Site},
    },
    place::{self, Place, Refusal},
    sessions::{Failure, Located, Sessions, Use},
};

/// Bytes that the head of a request may have.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Fields that it may have.
const FIELDS_MAX: usize = 64;
/// The start of an HTTP/2 connection, and its maximum open requests.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const STREAMS_MAX: u32 = 100;
/// How often sessions are swept.
const TIDY_INTERVAL: Duration = Duration::from_secs(2);
/// How long a client may take no byte; one that pauses for longer continues with a range.
const STALL_MAX: Duration = Duration::from_secs(60);
/// How long running answers may take after the start of the gateway's shutdown.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(5);
/// The boundary between ranges; objects that hold it do no harm, since each part has its length.
const BOUNDARY: &str = "tributary-ranges-3d6b6a416f9b5f22";
/// The answer to connections beyond the limit.
const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 39\r\n\
    Retry-After: 1\r\nConnection: close\r\n\r\n503: this gateway is at its connections";

/// A gateway that serves until it is dropped.
#[derive(Debug)]
pub struct Gateway {
    /// Where it listens.
    pub address: SocketAddr,
    end: watch::Sender<bool>,
    is_ended: Arc<AtomicBool>,
    runtime: Option<Runtime>,
    server: Option<tokio::task::JoinHandle<()>>,
}

impl Gateway {
    /// Begins to serve the objects that the node of `api` can fetch.
    ///
    /// # Errors
    /// [`ApiError`] if the address is taken or the folder of the cache cannot be used.
    pub fn start(api: Arc<LocalApi>, config: GatewayConfig) -> Result<Gateway, ApiError> {
        let cache = ObjectCache::open(&config.cache, config.cache_bytes_max, config.cache_age_max)?;
        let listen = config.listen;
        let failed = |error: std::io::Error| ApiError::io("listen on", listen, &error);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("gateway")
            .enable_all()
            .build()
            .map_err(failed)?;
        let listener = runtime.block_on(TcpListener::bind(listen)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (end, ended) = watch::channel(false);
        let is_ended = Arc::<AtomicBool>::default();
        let service = config.api.then(|| Service::start(&api, &config, &is_ended)).transpose()?.map(Arc::new);
        cache.reserve(config.cache_reserve_bytes);
        let site_listener = config.site.as_ref().map(|_| listen_for_members(&api, &runtime)).transpose()?;
        let site = config.site.as_ref().zip(site_listener.as_ref());
        let site = site.map(|(site, (_, own))| Site::new(&api, site, own.port()));
        let meter = service.as_ref().map(|service| Arc::clone(&service.meter)).unwrap_or_default();
        let origins = Origins::start(&api, &config, &cache, site, meter)?;
        if let (Some(origins), Some((listener, own))) = (&origins, site_listener) {
            runtime.spawn(members::answer_all(Arc::clone(origins), listener));
            runtime.spawn(members::greet_all(Arc::clone(origins), own));
        }
        let sessions = Arc::new(Sessions::new(api, cache, config.clone()));
        let shared = Arc::new(Shared { sessions, config, service, origins });
        let server = runtime.spawn(serve(listener, shared, ended));
        Ok(Gateway { address, end, is_ended, runtime: Some(runtime), server: Some(server) })
    }
}
impl Drop for Gateway {
    /// Ends in order: answers in progress have a few seconds.
    fn drop(&mut self) {
        self.is_ended.store(true, Ordering::SeqCst);
        self.end.send_replace(true);
        if let (Some(runtime), Some(server)) = (self.runtime.take(), self.server.take()) {
            let _ = runtime.block_on(server);
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
    }
}

/// Listens for members of the site where the node listens, but in TCP, so that one address names both.
fn listen_for_members(api: &LocalApi, runtime: &Runtime) -> Result<(TcpListener, SocketAddr), ApiError> {
    let listen = api.listen();
    let own = listen.iter().find_map(|address| address.parse::<SocketAddr>().ok());
    let own = own.ok_or_else(|| {
        ApiError::usage("members of a site need an address of the node over UDP")
            .with_hint("add one to 'listen' of [node], such as \"0.0.0.0:7001\"")
    })?;
    let listener = runtime.block_on(TcpListener::bind(own));
    let listener = listener.map_err(|error| ApiError::io("listen for members of the site on TCP", own, &error))?;
    Ok((listener, own))
}

struct Shared {
    config: GatewayConfig,
    sessions: Arc<Sessions>,
    service: Option<Arc<Service>>,
    origins: Option<Arc<Origins>>,
}

async fn serve(listener: TcpListener, shared: Arc<Shared>, mut ended: watch::Receiver<bool>) {
    let room = Arc::new(Semaphore::new(shared.config.connections_max));
    let graceful = GracefulShutdown::new();
    let tidying = tokio::spawn(tidy(Arc::clone(&shared)));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = ended.changed() => break,
        };
        let (stream, peer) = match accepted {
            Ok((stream, peer)) => (stream, peer),
            Err(error) => {
                // The system has no more descriptors: closing connections free some.
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
            refuse(stream).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        // A client that reads nothing would hold its session, and so one of the node's fetches, for ever.
        let _ = platform::limit_unacknowledged(&(&stream).into(), STALL_MAX);
        let Ok(own) = stream.local_addr() else { continue };
        let (shared, watcher) = (Arc::clone(&shared), graceful.watcher());
        let open = shared.service.as_ref().map(|service| Arc::clone(&service.meter.connections));
        tokio::spawn(async move {
            if let Err(error) = converse(stream, Connection::new(own, peer), shared, watcher).await {
                tracing::debug!("a connection ended: {error}");
            }
            drop((permit, open));
        });
    }
    drop(listener);
    tidying.abort();
    let _ = tokio::time::timeout(SHUTDOWN_PATIENCE, graceful.shutdown()).await;
    shared.sessions.close();
}
/// Answers the requests of a connection, in the client's version of HTTP.
async fn converse(
    stream: TcpStream,
    connection: Connection,
    shared: Arc<Shared>,
    watcher: Watcher,
) -> Result<(), hyper::Error> {
    let head_timeout = shared.config.head_timeout;
    let Ok(is_second) = tokio::time::timeout(head_timeout, has_preface(&stream)).await else { return Ok(()) };
    let served = (shared, Arc::new(connection));
    let service = service_fn(move |request| {
        let (shared, connection) = served.clone();
        async move { Ok::<_, Infallible>(answer(&shared, as_first_version(request), &connection).await) }
    });
    if is_second {
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(STALL_MAX)
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(HEAD_BYTES_MAX as u32)
            .serve_connection(TokioIo::new(stream), service);
        return watcher.watch(connection).await;
    }
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(FIELDS_MAX)
        .half_close(false)
        .serve_connection(TokioIo::new(stream), service);
    watcher.watch(connection).await
}
/// Whether a connection starts with the preface of HTTP/2 (RFC 9113 §3.3: prior knowledge). Requests of HTTP/1 differ
/// from it within the first bytes.
async fn has_preface(stream: &TcpStream) -> bool {
    let mut seen = [0; PREFACE.len()];
    loop {
        match stream.peek(&mut seen).await {
            Ok(count) if count == PREFACE.len() => return seen == *PREFACE,
            Ok(count) if count > 0 && PREFACE.starts_with(&seen[..count]) => {
                // A peek returns at once while bytes wait, so the next segment is polled for.
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(_) | Err(_) => return false,
        }
    }
}
/// A request of HTTP/2 as one of HTTP/1.1 to an origin: the authority becomes the field `Host`, the target a path.
fn as_first_version(mut request: Request<Incoming>) -> Request<Incoming> {
    if request.version() == Version::HTTP_2 {
        let host = request.uri().authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
        let target = request.uri().path_and_query().cloned();
        *request.uri_mut() = target.map_or_else(Uri::default, Uri::from);
        *request.version_mut() = Version::HTTP_11;
        if let Some(host) = host {
            request.headers_mut().insert(header::HOST, host);
        }
    }
    request
}

/// Periodically closes unused sessions, and frees space in the cache.
async fn tidy(shared: Arc<Shared>) {
    let mut tidy = tokio::time::interval(TIDY_INTERVAL);
    tidy.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tidy.tick().await;
        let shared = Arc::clone(&shared);
        let work = move || {
            shared.sessions.tidy();
            shared.origins.iter().for_each(|origins| origins.tidy());
        };
        let _ = tokio::task::spawn_blocking(work).await;
    }
}
/// Refuses a connection beyond the limit. It may not wait for the client.
async fn refuse(mut stream: TcpStream) {
    let _ = tokio::time::timeout(Duration::from_millis(10), stream.write_all(TOO_MANY)).await;
}

async fn answer(shared: &Shared, request: Request<Incoming>, connection: &Connection) -> Response<Content> {
    let begun = Instant::now();
    let is_head = request.method() == Method::HEAD;
    let (kind, mut response) = match &shared.service {
        Some(service) if place::is_own(&request, &shared.config) => match request.uri().path() {
            path if Service::claims(path) => service.answer(request, connection, shared.sessions.len()).await,
            "/" if wants_page(&request) => (Kind::Dashboard, dashboard::elsewhere()),
            _ => (Kind::Object, object_answer(shared, &request).await),
        },
        Some(_) | None => (Kind::Object, object_answer(shared, &request).await),
    };
    if is_head {
        *response.body_mut() = Content::empty();
    }
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    if let Some(service) = &shared.service {
        service.meter.answered(kind.word(), response.status().as_u16(), begun.elapsed());
    }
    response
}
/// Whether a browser requests a page.
fn wants_page<B>(request: &Request<B>) -> bool {
    let accept = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    request.method() == Method::GET && accept.is_some_and(|accept| accept.contains("text/html"))
}
async fn object_answer(shared: &Shared, request: &Request<Incoming>) -> Response<Content> {
    let is_open = shared.config.cross_site || place::is_mirror(request, &shared.config);
    let embedding = if is_open { Some("cross-origin") } else { guard::embedding(request.headers()) };
    let Some(embedding) = embedding else {
        return refusal(&Failure::new(403, "pages of other sites embed objects only with 'cross_site' in [http]"));
    };
    let mut response = match respond(shared, request).await {
        Ok(response) => response,
        Err(failure) => refusal(&failure),
    };
    response.headers_mut().insert("cross-origin-resource-policy", HeaderValue::from_static(embedding));
    // Pages of all publishers have one origin: without this a script in one object could read every other. Recordings
    // have no scripts, and a browser that plays one in a sandbox treats its own requests as cross-origin.
    if !place::is_mirror(request, &shared.config) && !is_recording(&response) {
        response.headers_mut().insert(
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static("sandbox allow-scripts allow-forms allow-popups allow-downloads"),
        );
    }
    response
}
/// Whether a browser plays the content of this response.
fn is_recording(response: &Response<Content>) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("audio/") || kind.starts_with("video/"))
}

async fn respond(shared: &Shared, request: &Request<Incoming>) -> Result<Response<Content>, Failure> {
    if let Some(origins) = &shared.origins
        && let Some(target) = origins.target(request, &shared.config)
    {
        return origins.answer(target?, request).await;
    }
    let method = request.method();
    if method != Method::GET && method != Method::HEAD {
        return Err(Failure::new(405, "this gateway answers GET and HEAD"));
    }
    let place = place::place(request, &shared.config).map_err(|refusal| match refusal {
        Refusal::Path(reason) | Refusal::Host(reason) => Failure::new(400, reason),
        Refusal::Misdirected => {
            Failure::new(421, "this gateway does not stand for that host; see 'hosts' and 'mirror' in [http]")
        }
    })?;
    let query = request.uri().query().unwrap_or_default();
    if place.reference.name.is_empty() {
        let text =
            format!("Tributary gateway: GET /NAME reads an object; {} are read at present\n", shared.sessions.len());
        return Ok(plain(StatusCode::OK, text));
    }
    let Located { session, below } = shared.sessions.locate(&place).await?;
    if !session.object.is_readable() {
        return Err(Failure::new(403, "it is sealed, and this node has no key of a reader"));
    }
    let Some(path) = below else {
        if place.is_folder {
            return Err(Failure::new(404, format!("'{}' is a file, not a folder", place.reference.name)));
        }
        let range = 0..session.object.size();
        let validators = Validators::new(session.object.manifest(), None);
        let kind = content_type(place.reference.name.components().last().unwrap_or_default());
        return file(shared, request, session, range, validators, kind).await;
    };
    let index = session.folder(&shared.config).await?;
    let missing =
        || Failure::new(404, format!("there is no '{}' in the folder", String::from_utf8_lossy(&path.join(&b'/'))));
    match index.find(&path).ok_or_else(missing)? {
        Found::File(_) if place.is_folder => Err(missing()),
        Found::File(range) => {
            let validators = Validators::new(session.object.manifest(), Some(&range));
            let kind = content_type(path.last().map(Vec::as_slice).unwrap_or_default());
            file(shared, request, session, range, validators, kind).await
        }
        Found::Folder(_) if !place.is_folder => Ok(moved(request)),
        Found::Folder(prefix) => {
            let wants_json = wants_json(request.headers(), query);
            let index_path: Vec<Vec<u8>> = path.iter().cloned().chain([b"index.html".to_vec()]).collect();
            if let (false, Some(Found::File(range))) = (wants_json, index.find(&index_path)) {
                let validators = Validators::new(session.object.manifest(), Some(&range));
                return file(shared, request, session, range, validators, "text/html".into()).await;
            }
            Ok(listing(request, &session, &place, &path, &index.lines(&prefix), wants_json))
        }
    }
}

/// A file: bytes `within` of the object.
async fn file(
    shared: &Shared,
    request: &Request<Incoming>,
    session: Use,
    within: Range<u64>,
    validators: Validators,
    kind: String,
) -> Result<Response<Content>, Failure> {
    let size = within.end - within.start;
    let mut response = Response::new(Content::empty());
    describe(response.headers_mut(), &validators);
    response.headers_mut().insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    let absolute = |range: &Range<u64>| within.start + range.start..within.start + range.end;
    let mut parts = Vec::new();
    match conditions::wanted(request.headers(), &validators, size) {
        Wanted::NotModified => {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return Ok(response);
        }
        Wanted::Failed => return Err(Failure::new(412, "the object is not the one that the request names")),
        Wanted::Unsatisfiable => {
            let mut refused =
                refusal(&Failure::new(416, format!("the file has {size} bytes, none of them in that range")));
            insert(refused.headers_mut(), header::CONTENT_RANGE, &format!("bytes */{size}"));
            describe(refused.headers_mut(), &validators);
            return Ok(refused);
        }
        Wanted::All => {
            insert(response.headers_mut(), header::CONTENT_TYPE, &kind);
            parts.push(Part::Object(within.clone()));
        }
        Wanted::Ranges(ranges) if ranges.len() == 1 => {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            insert(response.headers_mut(), header::CONTENT_TYPE, &kind);
            let range = &ranges[0];
            insert(response.headers_mut(), header::CONTENT_RANGE, &content_range(range, size));
            parts.push(Part::Object(absolute(range)));
        }
        Wanted::Ranges(ranges) => {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            insert(response.headers_mut(), header::CONTENT_TYPE, &format!("multipart/byteranges; boundary={BOUNDARY}"));
            for range in &ranges {
                let head = format!(
                    "\r\n--{BOUNDARY}\r\nContent-Type: {kind}\r\nContent-Range: {}\r\n\r\n",
                    content_range(range, size)
                );
                parts.push(Part::Text(head.into()));
                parts.push(Part::Object(absolute(range)));
            }
            parts.push(Part::Text(format!("\r\n--{BOUNDARY}--\r\n").into()));
        }
    }
    let (read_ahead, patience) = (shared.config.read_ahead_bytes, shared.config.patience);
    let mut content = Content::parts(parts, session, read_ahead, patience);
    insert(response.headers_mut(), header::CONTENT_LENGTH, &hyper::body::Body::size_hint(&content).lower().to_string());
    if request.method() == Method::GET {
        // After the head an error can no longer be sent.
        content.first_byte().await.map_err(|error| Failure::new(504, error.to_string()))?;
        *response.body_mut() = content;
    }
    Ok(response)
}

fn listing(
    request: &Request<Incoming>,
    session: &Use,
    place: &Place,
    path: &[Vec<u8>],
    lines: &[Line],
    wants_json: bool,
) -> Response<Content> {
    let (kind, text) = match wants_json {
        true => ("application/json", folder::json(&place.reference.name.to_string(), lines)),
        false => {
            let shown = percent_free(request.uri().path());
            ("text/html; charset=utf-8", folder::page(&shown, &place.reference.query(), lines))
        }
    };
    let manifest = session.object.manifest();
    let mut validators = Validators::new(manifest, None);
    let level = folder::encode(&path.join(&b'/'));
    validators.tag =
        format!("\"{}-{}-{level}\"", validators.tag.trim_matches('"'), if wants_json { "json" } else { "page" });
    let size = text.len() as u64;
    let mut response = match conditions::wanted(request.headers(), &validators, size) {
        Wanted::NotModified => empty_answer(StatusCode::NOT_MODIFIED),
        Wanted::Failed | Wanted::All | Wanted::Ranges(_) | Wanted::Unsatisfiable => {
            answer_of(StatusCode::OK, kind, text)
        }
    };
    describe(response.headers_mut(), &validators);
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    response
}

fn describe(headers: &mut HeaderMap, validators: &Validators) {
    insert(headers, header::ETAG, &validators.tag);
    if let Some(modified) = validators.modified.filter(|modified| *modified > UNIX_EPOCH) {
        insert(headers, header::LAST_MODIFIED, &httpdate::fmt_http_date(modified));
    }
}
fn content_range(range: &Range<u64>, size: u64) -> String {
    format!("bytes {}-{}/{size}", range.start, range.end - 1)
}
fn insert(headers: &mut HeaderMap, name: header::HeaderName, value: &str) {
    // All values are made of printable ASCII here.
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
/// The type of a file, by its name.
fn content_type(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    mime_guess::from_path(&*name).first_or_octet_stream().to_string()
}
fn wants_json(headers: &HeaderMap, query: &str) -> bool {
    let format = query.split('&').find_map(|pair| pair.strip_prefix("format="));
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    match format {
        Some(format) => format == "json",
        None => accept.contains("application/json") && !accept.contains("text/html"),
    }
}
/// Sends to the path with a slash at its end, which relative links need.
fn moved(request: &Request<Incoming>) -> Response<Content> {
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    // A path that starts with two slashes would lead to another host.
    let path = request.uri().path().trim_start_matches('/');
    let mut response = plain(StatusCode::MOVED_PERMANENTLY, "a folder's path ends with a slash\n".into());
    insert(response.headers_mut(), header::LOCATION, &format!("/{path}/{query}"));
    response
}
fn percent_free(path: &str) -> String {
    path.chars().filter(|letter| !letter.is_control()).collect()
}
fn refusal(failure: &Failure) -> Response<Content> {
    let status = StatusCode::from_u16(failure.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = plain(status, format!("{}: {}\n", failure.status, failure.reason));
    match failure.status {
        405 => insert(response.headers_mut(), header::ALLOW, "GET, HEAD"),
        503 => {
            let seconds = failure.retry_after.map_or(1, |wait| wait.as_secs() + 1);
            insert(response.headers_mut(), header::RETRY_AFTER, &seconds.to_string());
        }
        _ => {}
    }
    response
}
fn plain(status: StatusCode, text: String) -> Response<Content> {
    answer_of(status, "text/plain; charset=utf-8", text)
}
