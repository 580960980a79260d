//! The web server's side: receives requests from the network, sends them to an ordinary web server, and returns its
//! answers.
use bytes::Bytes;
use hyper::{Request, Response, Uri, body::Incoming, ext::ReasonPhrase, header};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::{
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
};
use tributary::{ApiError, messenger::Messenger};
use tributary_core::Duration;

use crate::{
    body::{self, Body, Unsent, source_of},
    browser::{leads_to_http, set_options},
    config::{FIELDS_ADDED, INTERIMS_MAX, Limits, SOCKET_BUFFER_BYTES, TCP_KEEPALIVE, Timeouts},
    exchange::{ExchangeId, FIELDS_MAX, Frame, HEAD_BYTES_MAX, Kind, Message, RequestHead, ResponseHead},
    fields::{add_via, claims_content, forwarded, has_passed, into_headers, pseudonym},
    local::{self, Forwards},
    log::{AccessLog, Entry, Record},
    messages::{Courier, Peer, Threads},
    stream::{Broken, Exchange, Inlet, Last, Memory, Outlet},
    tunnel::{self, Carried},
};

/// Remembered requests: one that the network delivers twice is executed once.
const REMEMBERED: usize = 16_384;
/// Maximum connections to the web server kept for further requests.
const KEPT_CONNECTIONS_MAX: usize = 64;
/// How long they are kept: shorter than most servers keep them, so that few requests meet a closing connection.
const KEPT_FOR: Duration = Duration::from_secs(4);

/// Settings of the web server's side.
#[derive(Debug)]
pub struct OriginConfig {
    /// The web server, such as `http://127.0.0.1:80`.
    pub origin: Uri,
    /// Where tunnels lead (`CONNECT`, for https), as host and port; `None` refuses them. Those to port 80 lead to the web
    /// server: browsers open one for a WebSocket.
    pub tunnel: Option<String>,
    /// Its limits.
    pub limits: Limits,
    /// How long it waits.
    pub timeouts: Timeouts,
    /// Where requests are logged.
    pub log: Option<AccessLog>,
}

/// The web server's side. It works until it is dropped, and then lets requests finish for a while.
pub struct OriginProxy {
    shared: Arc<Shared>,
    courier: Arc<Courier>,
    runtime: Option<tokio::runtime::Runtime>,
    _threads: Threads,
}
struct Shared {
    config: OriginConfig,
    log: Option<Arc<AccessLog>>,
    pseudonym: String,
    client: Client<HttpConnector, Body>,
    memory: Memory,
    /// Places of requests and tunnels.
    places: Arc<Semaphore>,
    seen: Mutex<Seen>,
    is_ending: AtomicBool,
}

/// Received requests, the oldest first.
#[derive(Default)]
struct Seen {
    order: VecDeque<(String, ExchangeId)>,
    known: BTreeSet<(String, ExchangeId)>,
}
impl Seen {
    /// Whether it is the first of its kind.
    fn is_new(&mut self, key: (String, ExchangeId)) -> bool {
        if !self.known.insert(key.clone()) {
            return false;
        }
        self.order.push_back(key);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

impl OriginProxy {
    /// Takes requests from `messenger`.
    ///
    /// # Errors
    /// [`ApiError`] if no thread can be started.
    pub fn start(messenger: Messenger, mut config: OriginConfig) -> Result<OriginProxy, ApiError> {
        let failed = |error: std::io::Error| ApiError::io("start", "the proxy's threads", &error);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_keepalive(Some(TCP_KEEPALIVE));
        connector.set_recv_buffer_size(Some(SOCKET_BUFFER_BYTES));
        connector.set_send_buffer_size(Some(SOCKET_BUFFER_BYTES));
        connector.set_connect_timeout(Some(config.timeouts.answer));
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(KEPT_FOR)
            .pool_max_idle_per_host(KEPT_CONNECTIONS_MAX)
            .http1_max_buf_size(HEAD_BYTES_MAX)
            .http1_max_headers(FIELDS_MAX - FIELDS_ADDED)
            // A proxy removes the space, and refuses folded lines (RFC 9112 §5.1, §5.2).
            .http1_allow_spaces_after_header_name_in_responses(true)
            .set_host(false)
            .build(connector);
        let shared = Arc::new(Shared {
            pseudonym: pseudonym(messenger.id()),
            client,
            memory: Memory::new(config.limits.memory_bytes),
            places: Arc::new(Semaphore::new(config.limits.connections)),
            seen: Mutex::default(),
            is_ending: AtomicBool::new(false),
            log: config.log.take().map(Arc::new),
            config,
        });
        let (of_reader, handle) = (Arc::clone(&shared), runtime.handle().clone());
        let on_open = move |courier: &Arc<Courier>, peer: Peer, message: Message| {
            take(&of_reader, &handle, courier, peer, message);
        };
        let (courier, threads) = Courier::start(messenger, Some(Box::new(on_open))).map_err(failed)?;
        Ok(OriginProxy { shared, courier, runtime: Some(runtime), _threads: threads })
    }
}
impl Drop for OriginProxy {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::SeqCst);
        let Some(runtime) = self.runtime.take() else { return };
        let (limits, timeouts) = (&self.shared.config.limits, &self.shared.config.timeouts);
        self.courier.end(runtime, &self.shared.places, (limits, timeouts), "the web server's side ends");
    }
}

/// Takes a request, if it is new and a place is free.
fn take(shared: &Arc<Shared>, runtime: &tokio::runtime::Handle, courier: &Arc<Courier>, peer: Peer, message: Message) {
    let Message { id, kind, .. } = message;
    let Kind::Open { limit, is_last, bytes } = kind else { return };
    let key = (peer.device.clone(), id);
    if courier.exchange(id).is_some() || !shared.seen.lock().is_new(key) {
        return tracing::debug!("a request of {} came again, or has the id of another one", peer.device);
    }
    let place = match Arc::clone(&shared.places).try_acquire_owned() {
        Ok(place) if !shared.is_ending.load(Ordering::SeqCst) => place,
        _ => {
            let most = shared.config.limits.connections;
            let reason = format!("the web server's side has {most} requests already, or ends");
            return courier.reset(id, &peer.device, 503, &reason);
        }
    };
    let mut record = Record::new(&shared.log, &*peer.device);
    record.entry.version = "HTTP/1.1".into();
    let (inlet, outlet) = Exchange::accept(courier, &shared.memory, (id, peer), (limit, is_last, bytes));
    runtime.spawn(carry_out(Arc::clone(shared), inlet, outlet, place, record));
}

/// Why a request is not answered by the web server: the status that the browser gets, and the reason.
type Failure = (u16, String);

async fn carry_out(
    shared: Arc<Shared>,
    inlet: Inlet,
    mut outlet: Outlet,
    _place: OwnedSemaphorePermit,
    mut record: Record,
) {
    if let Err((status, reason)) = answer(&shared, inlet, &mut outlet, &mut record).await {
        tracing::debug!("{} {}: {reason}", record.entry.method, record.entry.target);
        record.entry.failure = Some(reason.clone());
        record.entry.status = if record.entry.status == 0 { status } else { record.entry.status };
        outlet.fail(status, &reason);
    }
}
async fn answer(
    shared: &Arc<Shared>,
    mut inlet: Inlet,
    outlet: &mut Outlet,
    record: &mut Record,
) -> Result<(), Failure> {
    let first = tokio::time::timeout(shared.config.timeouts.head, inlet.next()).await;
    let mut head = match first {
        Ok(Ok(Some(Frame::Request(head)))) => head,
        Ok(Err(broken)) => return Err(of_stream(&broken)),
        Ok(Ok(_)) | Err(_) => return Err((400, "no request has come".into())),
    };
    on_request(&mut record.entry, &head);
    if has_passed(&head.fields, &shared.pseudonym) {
        return Err((508, "the request has come this way before".into()));
    }
    if let Forwards::Here(head, content) = local::count_hop(&mut head).map_err(|reason| (400, reason.to_string()))? {
        let mut body = body::full(content);
        return respond(shared, head, &mut body, outlet, record).await;
    }
    add_via(&mut head.fields, &shared.pseudonym);
    if head.method == "CONNECT" {
        return open_tunnel(shared, &head.target, inlet, outlet, record).await;
    }
    let switches = head.fields.iter().any(|(name, _)| name == header::UPGRADE.as_str());
    let is_sent = Arc::new(AtomicBool::new(switches || inlet.is_at_end()));
    if is_sent.load(Ordering::SeqCst) && claims_content(&head.fields) {
        return Err((400, "the request is shorter than its length".into()));
    }
    let (body, held) = match (switches, is_sent.load(Ordering::SeqCst)) {
        (true, _) => (body::empty(), Some(inlet)),
        (false, true) => (body::empty(), None),
        (false, false) => (body::of_inlet(inlet, Arc::clone(&is_sent)), None),
    };
    let mut response = forward(shared, &head, body, &is_sent, outlet).await?;
    if response.status() == hyper::StatusCode::SWITCHING_PROTOCOLS {
        let inlet = held.ok_or((502, "the web server changes the protocol unasked".to_string()))?;
        let upgrade = hyper::upgrade::on(&mut response);
        outlet.push(&Frame::Response(head_of(shared, &response)?));
        outlet.flush(Last::No).await.map_err(|broken| of_stream(&broken))?;
        record.entry.status = 101;
        let connection = upgrade.await.map_err(|error| (502, error.to_string()))?;
        return carry(shared, TokioIo::new(connection), inlet, outlet, record).await;
    }
    drop(held);
    let head = head_of(shared, &response)?;
    respond(shared, head, response.body_mut(), outlet, record).await
}
fn of_stream(broken: &Broken) -> Failure {
    match broken {
        Broken::Stopped => (499, "the browser has gone".into()),
        Broken::Failed { status, reason } => (*status, reason.clone()),
    }
}

/// Asks the web server; passes on its interim answers until the final one.
async fn forward(
    shared: &Arc<Shared>,
    head: &RequestHead,
    body: Body,
    is_sent: &AtomicBool,
    outlet: &mut Outlet,
) -> Result<Response<Incoming>, Failure> {
    let (interims, mut of_server) = mpsc::channel(INTERIMS_MAX);
    let may_repeat =
        is_sent.load(Ordering::SeqCst) && matches!(head.method.as_str(), "GET" | "HEAD" | "OPTIONS" | "TRACE");
    let mut body = Some(body);
    let mut sent = std::pin::pin!(async {
        let first = send(shared, request_of(shared, head, body.take().unwrap_or_else(body::empty), &interims)?).await;
        match first {
            // The kept-alive connection was closed by the server (RFC 9112 §9.3.1).
            Err(Unsolicited::Lost(_)) if may_repeat => {
                send(shared, request_of(shared, head, body::empty(), &interims)?).await.map_err(Unsolicited::into)
            }
            first => first.map_err(Unsolicited::into),
        }
    });
    let patience = shared.config.timeouts.answer;
    let mut passed = 0;
    loop {
        tokio::select! {
            biased;
            Some(interim) = of_server.recv() => {
                passed += 1;
                if passed > INTERIMS_MAX {
                    return Err((502, format!("the web server sends more than {INTERIMS_MAX} interim responses")));
                }
                outlet.push(&Frame::Interim(interim));
                outlet.flush(Last::No).await.map_err(|broken| of_stream(&broken))?;
            }
            response = &mut sent => return response,
            broken = outlet.broken() => return Err(of_stream(&broken)),
            () = tokio::time::sleep(patience) => {
                // It may answer when it has everything.
                if is_sent.load(Ordering::SeqCst) {
                    let origin = &shared.config.origin;
                    return Err((504, format!("the web server at {origin} has not answered within {patience:?}")));
                }
            }
        }
    }
}
/// Why the web server has not answered.
enum Unsolicited {
    /// It closed the connection without an answer.
    Lost(String),
    /// Anything else.
    Failed(String),
}
impl From<Unsolicited> for Failure {
    fn from(unasked: Unsolicited) -> Failure {
        let (Unsolicited::Lost(reason) | Unsolicited::Failed(reason)) = unasked;
        (502, reason)
    }
}
async fn send(shared: &Arc<Shared>, request: Request<Body>) -> Result<Response<Incoming>, Unsolicited> {
    let origin = &shared.config.origin;
    if request.uri().path() == "*" {
        return send_once(shared, request).await.map_err(Unsolicited::Failed);
    }
    shared.client.request(request).await.map_err(|error| {
        let of_hyper = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<hyper::Error>());
        let reason = match of_hyper {
            _ if error.is_connect() => format!("cannot reach the web server at {origin}: {}", source_of(&error)),
            Some(inner) if inner.is_parse_too_large() => {
                let fields = FIELDS_MAX - FIELDS_ADDED;
                format!("the head of its response has more than {HEAD_BYTES_MAX} bytes or {fields} fields")
            }
            Some(inner) if inner.is_parse() => {
                format!("the web server at {origin} sends invalid HTTP: {}", source_of(&error))
            }
            _ => format!("the web server at {origin} has not answered: {}", source_of(&error)),
        };
        match of_hyper {
            Some(inner) if inner.is_incomplete_message() || inner.is_canceled() => Unsolicited::Lost(reason),
            _ => Unsolicited::Failed(reason),
        }
    })
}
/// Sends a request for `*` over a separate connection, because the pool cannot express that target.
async fn send_once(shared: &Arc<Shared>, mut request: Request<Body>) -> Result<Response<Incoming>, String> {
    let authority = shared.config.origin.authority().ok_or("the origin names no host")?;
    let to = (authority.host().trim_matches(['[', ']']), authority.port_u16().unwrap_or(80));
    let connection = TcpStream::connect(to).await.map_err(|error| format!("cannot connect to {authority}: {error}"))?;
    set_options(&connection);
    let unanswered =
        |error: hyper::Error| format!("the web server at {authority} has not answered: {}", source_of(&error));
    let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(FIELDS_MAX - FIELDS_ADDED)
        .handshake(TokioIo::new(connection))
        .await
        .map_err(unanswered)?;
    tokio::spawn(connection);
    *request.uri_mut() = Uri::from_static("*");
    sender.send_request(request).await.map_err(unanswered)
}
/// The request for the web server.
fn request_of(
    shared: &Arc<Shared>,
    head: &RequestHead,
    body: Body,
    interims: &mpsc::Sender<ResponseHead>,
) -> Result<Request<Body>, Failure> {
    let wrong = |what: &str| (400, format!("the request's {what} is not legal"));
    let mut request = Request::new(body);
    *request.method_mut() = head.method.parse().map_err(|_| wrong("method"))?;
    let mut parts = shared.config.origin.clone().into_parts();
    *request.uri_mut() = match head.target.as_str() {
        "*" => Uri::from_static("*"),
        target => {
            parts.path_and_query = Some(target.parse().map_err(|_| wrong("target"))?);
            Uri::from_parts(parts).map_err(|_| wrong("target"))?
        }
    };
    *request.headers_mut() = into_headers(&head.fields).ok_or_else(|| wrong("head"))?;
    if !request.headers().contains_key(header::HOST)
        && let Some(authority) = shared.config.origin.authority()
    {
        // HTTP/1.0 may omit the host; the forwarded request is HTTP/1.1 and needs one.
        let host = authority.as_str().parse().map_err(|_| wrong("host"))?;
        request.headers_mut().insert(header::HOST, host);
    }
    let (interims, pseudonym) = (interims.clone(), shared.pseudonym.clone());
    hyper::ext::on_informational(&mut request, move |response| {
        let mut fields = forwarded(response.headers());
        add_via(&mut fields, &pseudonym);
        // A server that sends more than fit fails when they are forwarded; 101 never gets here.
        let _ = interims.try_send(ResponseHead { status: response.status().as_u16(), reason: None, fields });
    });
    Ok(request)
}
fn head_of(shared: &Arc<Shared>, response: &Response<Incoming>) -> Result<ResponseHead, Failure> {
    let mut fields = forwarded(response.headers());
    add_via(&mut fields, &shared.pseudonym);
    let reason = response.extensions().get::<ReasonPhrase>();
    let reason = reason.map(|reason| Bytes::copy_from_slice(reason.as_bytes()));
    let head = ResponseHead { status: response.status().as_u16(), reason, fields };
    match Frame::Response(head.clone()).is_too_large() {
        true => Err((502, format!("the head of its response has more than {HEAD_BYTES_MAX} bytes"))),
        false => Ok(head),
    }
}

/// Sends a response.
async fn respond<B>(
    shared: &Arc<Shared>,
    head: ResponseHead,
    body: &mut B,
    outlet: &mut Outlet,
    record: &mut Record,
) -> Result<(), Failure>
where
    B: hyper::body::Body<Data = Bytes> + Unpin,
    B::Error: std::error::Error,
{
    record.entry.status = head.status;
    outlet.push(&Frame::Response(head));
    match body::send(body, outlet, shared.config.timeouts.idle).await {
        Ok(bytes) => {
            record.entry.bytes = bytes;
            Ok(())
        }
        Err(Unsent::Stream(broken)) => Err(of_stream(&broken)),
        Err(Unsent::Body(reason)) => Err((502, format!("the web server's answer broke off: {reason}"))),
        Err(Unsent::Idle(idle)) => Err((504, format!("nothing of the web server's answer has come for {idle:?}"))),
    }
}

/// Opens a tunnel, and relays its bytes until it ends.
async fn open_tunnel(
    shared: &Arc<Shared>,
    target: &str,
    inlet: Inlet,
    outlet: &mut Outlet,
    record: &mut Record,
) -> Result<(), Failure> {
    let config = &shared.config;
    let refused = || (502, "this web server's side carries no tunnels (https)".to_string());
    let web_server = || {
        let authority = config.origin.authority()?;
        Some(format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(80)))
    };
    let to = if leads_to_http(target) { web_server() } else { config.tunnel.clone() };
    let to = to.ok_or_else(refused)?;
    let connection = match tokio::time::timeout(config.timeouts.answer, TcpStream::connect(&to)).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => return Err((502, format!("cannot connect to {to}: {error}"))),
        Err(_) => return Err((504, format!("{to} has not answered within {:?}", config.timeouts.answer))),
    };
    set_options(&connection);
    let mut fields = Vec::new();
    add_via(&mut fields, &shared.pseudonym);
    outlet.push(&Frame::Response(ResponseHead { status: 200, reason: None, fields }));
    outlet.flush(Last::No).await.map_err(|broken| of_stream(&broken))?;
    record.entry.status = 200;
    carry(shared, connection, inlet, outlet, record).await
}
async fn carry(
    shared: &Arc<Shared>,
    connection: impl tokio::io::AsyncRead + tokio::io::AsyncWrite,
    inlet: Inlet,
    outlet: &mut Outlet,
    record: &mut Record,
) -> Result<(), Failure> {
    let carried = Carried::default();
    let result = tunnel::carry(connection, inlet, outlet, shared.config.timeouts.idle, &carried).await;
    record.entry.bytes = carried.out.into_inner();
    result.map_err(|reason| (502, reason))
}

/// Completes the line of the access log.
fn on_request(entry: &mut Entry, head: &RequestHead) {
    let field = |name: header::HeaderName| {
        let value = head.fields.iter().find(|(known, _)| known == name.as_str());
        value.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    };
    (entry.method, entry.target) = (head.method.clone(), head.target.clone());
    entry.host = field(header::HOST).unwrap_or_default();
    (entry.referer, entry.agent) = (field(header::REFERER), field(header::USER_AGENT));
}
