//! The browser's side: an HTTP proxy, or a server of one site, whose answers come through the network.
use bytes::Bytes;
use hyper::{
    Method, Request, Response, StatusCode, Uri, Version,
    body::{Body as _, Frame as BodyFrame, Incoming, SizeHint},
    ext::ReasonPhrase,
    header,
    http::uri::{Authority, Scheme},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{
    convert::Infallible,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Notify, OwnedSemaphorePermit, Semaphore, watch},
};
use tributary::{ApiError, messenger::Messenger};
use tributary_content::Name;
use tributary_core::Duration;

use crate::{
    body::{self, Body, Unsent},
    config::{CONTINUE_PATIENCE, FIELDS_ADDED, INTERIMS_MAX, Limits, SOCKET_BUFFER_BYTES, TCP_KEEPALIVE, Timeouts},
    exchange::{FIELDS_MAX, Frame, HEAD_BYTES_MAX, RequestHead, ResponseHead, name_of_host},
    fields::{add_via, claims_content, forwarded, has_passed, into_headers, pseudonym},
    interim::{BrowserIo, Interims},
    local::{self, Forwards},
    log::{AccessLog, Record},
    messages::{Courier, Threads},
    stream::{Broken, Exchange, Inlet, Last, Memory, Outlet},
    tunnel::{self, Carried},
};

/// The pause after a failed accept, for lack of descriptors for instance.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Settings of the browser's side.
#[derive(Debug)]
pub struct BrowserConfig {
    /// Where browsers connect to.
    pub listen: SocketAddr,
    /// The name of the web server's side; `None` uses `/http/HOST` of each request.
    pub to: Option<Name>,
    /// Its limits.
    pub limits: Limits,
    /// How long it waits.
    pub timeouts: Timeouts,
    /// Where requests are logged.
    pub log: Option<AccessLog>,
}

/// The browser's side. It works until it is dropped, and then lets requests finish for a while.
pub struct BrowserProxy {
    /// Where browsers connect to.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    ending: watch::Sender<bool>,
    runtime: Option<tokio::runtime::Runtime>,
    _threads: Threads,
}
struct Shared {
    courier: Arc<Courier>,
    config: BrowserConfig,
    log: Option<Arc<AccessLog>>,
    memory: Memory,
    pseudonym: String,
    places: Arc<Semaphore>,
}

impl BrowserProxy {
    /// Listens for browsers, and sends and receives by `messenger`.
    ///
    /// # Errors
    /// [`ApiError`] if the address is taken.
    pub fn start(messenger: Messenger, mut config: BrowserConfig) -> Result<BrowserProxy, ApiError> {
        let listen = config.listen;
        let failed = move |error: io::Error| ApiError::io("listen at", listen, &error);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let listener = runtime.block_on(TcpListener::bind(listen)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (courier, threads) = Courier::start(messenger, None).map_err(failed)?;
        let (ending, ends) = watch::channel(false);
        let shared = Arc::new(Shared {
            memory: Memory::new(config.limits.memory_bytes),
            pseudonym: pseudonym(courier.messenger.id()),
            places: Arc::new(Semaphore::new(config.limits.connections)),
            courier,
            log: config.log.take().map(Arc::new),
            config,
        });
        runtime.spawn(accept(listener, Arc::clone(&shared), ends));
        Ok(BrowserProxy { address, shared, ending, runtime: Some(runtime), _threads: threads })
    }
}
impl Drop for BrowserProxy {
    fn drop(&mut self) {
        let _ = self.ending.send(true);
        let Some(runtime) = self.runtime.take() else { return };
        let (limits, timeouts) = (&self.shared.config.limits, &self.shared.config.timeouts);
        self.shared.courier.end(runtime, &self.shared.places, (limits, timeouts), "the browser's side ends");
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, mut ends: watch::Receiver<bool>) {
    loop {
        // At the limit, connections wait in the kernel's queue.
        let place = tokio::select! {
            place = Arc::clone(&shared.places).acquire_owned() => place,
            _ = ends.changed() => return,
        };
        let Ok(place) = place else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = ends.changed() => return,
        };
        match accepted {
            Ok((stream, from)) => {
                tokio::spawn(serve(stream, from.ip(), place, Arc::clone(&shared), ends.clone()));
            }
            Err(error) => {
                tracing::warn!("a browser's connection cannot be taken: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
/// Serves the requests of one connection.
async fn serve(
    stream: TcpStream,
    from: IpAddr,
    place: OwnedSemaphorePermit,
    shared: Arc<Shared>,
    mut ends: watch::Receiver<bool>,
) {
    set_options(&stream);
    let (interims, place) = (Arc::new(Interims::default()), Arc::new(place));
    let io = BrowserIo::new(stream, Arc::clone(&interims), shared.config.timeouts.idle);
    let of_service = Arc::clone(&shared);
    let service = service_fn(move |request| {
        let (shared, interims, place) = (Arc::clone(&of_service), Arc::clone(&interims), Arc::clone(&place));
        answer(request, from, shared, interims, place)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.config.timeouts.head)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(FIELDS_MAX - FIELDS_ADDED)
        .serve_connection(TokioIo::new(io), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        _ = ends.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!("a browser's connection ended: {}", body::source_of(&error));
        if error.is_parse() {
            let entry = &mut Record::new(&shared.log, from.to_string()).entry;
            (entry.method, entry.target, entry.version) = ("-".into(), "-".into(), "-".into());
            entry.status = if error.is_parse_too_large() { 431 } else { 400 };
            entry.failure = Some(error.to_string());
        }
    }
}
/// Socket options of both proxies: send small writes at once, detect a dead end, and buffer little in the kernel.
pub(crate) fn set_options(stream: &TcpStream) {
    let keepalive = socket2::TcpKeepalive::new().with_time(TCP_KEEPALIVE).with_interval(TCP_KEEPALIVE / 4);
    let socket = socket2::SockRef::from(stream);
    let set = [
        stream.set_nodelay(true),
        socket.set_tcp_keepalive(&keepalive),
        socket.set_send_buffer_size(SOCKET_BUFFER_BYTES),
        socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES),
    ];
    let set: io::Result<()> = set.into_iter().collect();
    if let Err(error) = set {
        tracing::debug!("a connection keeps the system's settings: {error}");
    }
}

/// Why a request is answered by this proxy.
struct Failure {
    status: StatusCode,
    reason: String,
}
impl Failure {
    fn new(status: StatusCode, reason: impl Into<String>) -> Failure {
        Failure { status, reason: reason.into() }
    }
    fn refused(reason: &str) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, reason)
    }
}
impl From<Broken> for Failure {
    fn from(broken: Broken) -> Failure {
        match broken {
            Broken::Stopped => Failure::new(StatusCode::BAD_GATEWAY, broken.to_string()),
            Broken::Failed { status, reason } => {
                let status = StatusCode::from_u16(status).ok().filter(|status| status.as_u16() >= 400);
                Failure::new(status.unwrap_or(StatusCode::BAD_GATEWAY), reason)
            }
        }
    }
}

/// The state of a request while it is answered.
struct Call {
    shared: Arc<Shared>,
    interims: Arc<Interims>,
    /// Kept by a tunnel, which outlives its original connection.
    place: Arc<OwnedSemaphorePermit>,
}

async fn answer(
    request: Request<Incoming>,
    from: IpAddr,
    shared: Arc<Shared>,
    interims: Arc<Interims>,
    place: Arc<OwnedSemaphorePermit>,
) -> Result<Response<Body>, Infallible> {
    let mut record = Some(record(&shared.log, &request, from));
    let call = Call { shared, interims, place };
    let response = exchange(request, &call, &mut record).await.unwrap_or_else(|Failure { status, reason }| {
        let mut response = Response::new(body::full(format!("{reason}\n")));
        *response.status_mut() = status;
        let text = header::HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, text);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
        }
        record.iter_mut().for_each(|record| record.entry.failure = Some(reason.clone()));
        response
    });
    Ok(match record {
        // The line is written when the response has been sent.
        Some(mut record) => {
            record.entry.status = response.status().as_u16();
            response.map(|inner| http_body_util::BodyExt::boxed_unsync(Watched { inner, record }))
        }
        None => response,
    })
}

/// Answers a request through the network or locally.
async fn exchange(
    request: Request<Incoming>,
    call: &Call,
    record: &mut Option<Record>,
) -> Result<Response<Body>, Failure> {
    let shared = &call.shared;
    let (mut head, to) = head_of(&request, shared)?;
    if has_passed(&head.fields, &shared.pseudonym) {
        return Err(Failure::new(StatusCode::LOOP_DETECTED, "the request has come this way before"));
    }
    if let Forwards::Here(head, content) = local::count_hop(&mut head).map_err(Failure::refused)? {
        return response_of(head, &request.method().clone(), body::full(content), &shared.pseudonym);
    }
    add_via(&mut head.fields, &shared.pseudonym);
    let (method, moment) = (request.method().clone(), call.interims.now());
    let takes_interims = request.version() >= Version::HTTP_11;
    let is_expecting = head.fields.iter().any(|(name, _)| name == header::EXPECT.as_str());
    // A request that switches the connection's protocol becomes a tunnel if the web server agrees.
    let switches = method == Method::CONNECT || head.fields.iter().any(|(name, _)| name == header::UPGRADE.as_str());
    let has_body = !request.body().is_end_stream();

    let failed = |error: io::Error| Failure::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string());
    let (mut inlet, mut outlet) = Exchange::begin(&shared.courier, &shared.memory).map_err(failed)?;
    outlet.push(&Frame::Request(head));
    let goes_on = Arc::new(Notify::new());
    let (mut held, mut sending) = (None, None);
    if has_body && !switches {
        let (idle, may_go_on) = (shared.config.timeouts.body, Arc::clone(&goes_on));
        sending = Some(tokio::spawn(async move {
            let mut body = request.into_body();
            let opened = outlet.open(to, Last::No).await;
            if is_expecting {
                let _ = tokio::time::timeout(CONTINUE_PATIENCE, may_go_on.notified()).await;
            }
            if opened.is_ok() {
                send_body(&mut body, outlet, idle).await;
            }
        }));
    } else {
        let opened = outlet.open(to, if switches { Last::No } else { Last::Yes });
        tokio::time::timeout(shared.config.timeouts.answer, opened).await.map_err(|_| too_late(shared, &inlet))??;
        held = switches.then_some((request, outlet));
    }
    let mut interims = 0;
    let head = loop {
        let next = tokio::time::timeout(shared.config.timeouts.answer, inlet.next()).await;
        match next {
            Ok(Ok(Some(Frame::Response(head)))) => break head,
            Ok(Ok(Some(Frame::Interim(head)))) if interims < INTERIMS_MAX => {
                interims += 1;
                if is_expecting && head.status == 100 {
                    // hyper sends this when the body is read.
                    goes_on.notify_one();
                } else if takes_interims && let Some(bytes) = interim(head, &shared.pseudonym) {
                    call.interims.write(moment, bytes);
                }
            }
            Ok(Ok(_)) => return Err(Failure::new(StatusCode::BAD_GATEWAY, "the other proxy sends no response")),
            Ok(Err(broken)) => return Err(broken.into()),
            // The web server may answer when it has everything.
            Err(_) if sending.as_ref().is_some_and(|sending| !sending.is_finished()) => {}
            Err(_) => return Err(too_late(shared, &inlet)),
        }
    };
    let is_switched = head.status == 101 || method == Method::CONNECT && (200..300).contains(&head.status);
    if let Some((request, mut outlet)) = held {
        if is_switched {
            let switched = (request, inlet, outlet, Arc::clone(&call.place));
            return switch(head, &method, switched, shared, record.take());
        }
        let _ = outlet.flush(Last::Yes).await;
    } else if is_switched {
        return Err(Failure::new(StatusCode::BAD_GATEWAY, "the web server changes the protocol unasked"));
    }
    let has_no_body = method == Method::HEAD || matches!(head.status, 204 | 304);
    let body = match has_no_body || inlet.is_at_end() {
        true if !has_no_body && claims_content(&head.fields) => {
            return Err(Failure::new(StatusCode::BAD_GATEWAY, "the response is shorter than its length"));
        }
        true => body::empty(),
        false => body::of_inlet(inlet, Arc::default()),
    };
    response_of(head, &method, body, &shared.pseudonym)
}
fn too_late(shared: &Shared, inlet: &Inlet) -> Failure {
    let patience = shared.config.timeouts.answer;
    let reason = format!("no web server has answered through the network within {patience:?}");
    inlet.exchange.abort(504, &reason);
    Failure::new(StatusCode::GATEWAY_TIMEOUT, reason)
}
/// Sends a request's body; if it breaks off, that is the answer.
async fn send_body(body: &mut Incoming, mut outlet: Outlet, idle: Duration) {
    match body::send(body, &mut outlet, idle).await {
        Ok(_) | Err(Unsent::Stream(_)) => {}
        Err(Unsent::Body(reason)) => outlet.fail(400, &format!("the request's body is broken: {reason}")),
        Err(Unsent::Idle(idle)) => outlet.fail(408, &format!("nothing of the request's body has come for {idle:?}")),
    }
}
/// Answers a request that changes the protocol of its connection, and carries the bytes that follow.
fn switch(
    head: ResponseHead,
    method: &Method,
    (request, inlet, mut outlet, place): (Request<Incoming>, Inlet, Outlet, Arc<OwnedSemaphorePermit>),
    shared: &Arc<Shared>,
    record: Option<Record>,
) -> Result<Response<Body>, Failure> {
    let response = response_of(head, method, body::empty(), &shared.pseudonym)?;
    let (idle, status) = (shared.config.timeouts.idle, response.status());
    tokio::spawn(async move {
        let _place = place;
        let carried = Carried::default();
        let result = match hyper::upgrade::on(request).await {
            Ok(connection) => tunnel::carry(TokioIo::new(connection), inlet, &mut outlet, idle, &carried).await,
            Err(error) => Err(error.to_string()),
        };
        if let Some(mut record) = record {
            record.entry.status = status.as_u16();
            record.entry.bytes = carried.into.into_inner();
            record.entry.failure = result.err();
        }
    });
    Ok(response)
}
/// A response as the browser gets it.
fn response_of(head: ResponseHead, method: &Method, body: Body, pseudonym: &str) -> Result<Response<Body>, Failure> {
    let wrong = || Failure::new(StatusCode::BAD_GATEWAY, "the other proxy sends a response that is not legal");
    let ResponseHead { status, reason, mut fields } = head;
    if status == 204 || method == Method::CONNECT && (200..300).contains(&status) {
        // There is no content that could have a length (RFC 9110 §8.6).
        fields.retain(|(name, _)| name != header::CONTENT_LENGTH.as_str());
    }
    add_via(&mut fields, pseudonym);
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).map_err(|_| wrong())?;
    *response.headers_mut() = into_headers(&fields).ok_or_else(wrong)?;
    // Without an explicit phrase hyper invents one for codes that it does not know.
    let is_known = response.status().canonical_reason().is_some();
    let reason = reason.or_else(|| (!is_known).then(Bytes::new));
    if let Some(reason) = reason {
        response.extensions_mut().insert(ReasonPhrase::try_from(reason).map_err(|_| wrong())?);
    }
    Ok(response)
}
/// The bytes of an interim response; `None` if it is not legal.
fn interim(head: ResponseHead, pseudonym: &str) -> Option<Bytes> {
    let ResponseHead { status, reason, mut fields } = head;
    add_via(&mut fields, pseudonym);
    let (status, fields) = (StatusCode::from_u16(status).ok()?, into_headers(&fields)?);
    let reason = reason.or_else(|| status.canonical_reason().map(Bytes::from));
    let reason = ReasonPhrase::try_from(reason.unwrap_or_default()).ok()?;
    let mut bytes = format!("HTTP/1.1 {} ", status.as_u16()).into_bytes();
    bytes.extend_from_slice(reason.as_bytes());
    for (name, value) in &fields {
        bytes.extend([b"\r\n", name.as_str().as_bytes(), b": ", value.as_bytes()].concat());
    }
    bytes.extend_from_slice(b"\r\n\r\n");
    Some(bytes.into())
}

/// The head of the forwarded request, and the name of the proxy at the web server.
fn head_of(request: &Request<Incoming>, shared: &Shared) -> Result<(RequestHead, Name), Failure> {
    let method = request.method();
    let host = host(request)?;
    let (target, usual_port) = match method == Method::CONNECT {
        true => {
            let target = request.uri().authority().map(Authority::to_string).filter(|target| names_a_port(target));
            let target = target.ok_or_else(|| Failure::refused("CONNECT names a host and a port"))?;
            // Browsers open a tunnel to the port of http itself for WebSockets.
            let usual_port = if leads_to_http(&target) { 80 } else { 443 };
            (target, usual_port)
        }
        false => {
            let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
            (target.to_string(), 80)
        }
    };
    let named = if method == Method::CONNECT { Some(target.as_str()) } else { host.as_deref() };
    let to = match &shared.config.to {
        Some(name) => name.clone(),
        None => named.and_then(|host| name_of_host(host, usual_port)).ok_or_else(no_host)?,
    };
    let mut fields = forwarded(request.headers());
    if let Some(host) = host {
        // The target determines the host, regardless of the field's content (RFC 9112 §3.2.2).
        fields.retain(|(name, _)| name != header::HOST.as_str());
        fields.insert(0, (header::HOST.to_string(), Bytes::from(host)));
    }
    let has_body = !request.body().is_end_stream();
    if method == Method::TRACE && has_body {
        return Err(Failure::refused("TRACE has no body"));
    }
    let expectations: Vec<_> = request.headers().get_all(header::EXPECT).iter().collect();
    if expectations.iter().any(|value| !value.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
        return Err(Failure::new(StatusCode::EXPECTATION_FAILED, "no other expectation is known than 100-continue"));
    }
    let is_old = request.version() < Version::HTTP_11;
    fields.retain(|(name, _)| {
        let drops = name == header::EXPECT.as_str() && (is_old || !has_body)
            || name == header::UPGRADE.as_str() && (is_old || has_body);
        !drops
    });
    let head = RequestHead { method: method.to_string(), target, fields };
    if Frame::Request(head.clone()).is_too_large() {
        let reason = format!("a head has at most {HEAD_BYTES_MAX} bytes");
        return Err(Failure::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, reason));
    }
    Ok((head, to))
}
fn no_host() -> Failure {
    Failure::refused("the request names no host")
}
/// The host that a request addresses, with its port if given: from the target if it names one (RFC 9112 §3.2.2), else
/// from `Host`, which only HTTP/1.0 may omit.
fn host(request: &Request<Incoming>) -> Result<Option<String>, Failure> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (first, second) = (hosts.next(), hosts.next());
    if second.is_some() {
        return Err(Failure::refused("the request names several hosts"));
    }
    if first.is_none() && request.version() >= Version::HTTP_11 {
        return Err(no_host());
    }
    let uri = request.uri();
    if uri.scheme().is_some_and(|scheme| *scheme != Scheme::HTTP) {
        let reason = "this proxy sends plain http to web servers; https needs CONNECT";
        return Err(Failure::new(StatusCode::NOT_IMPLEMENTED, reason));
    }
    if uri.scheme().is_none() && uri.authority().is_some() && request.method() != Method::CONNECT {
        return Err(Failure::refused("only CONNECT names a host without a scheme"));
    }
    let of_field = first.map(|host| {
        let host = Authority::try_from(host.as_bytes()).map_err(|_| Failure::refused("'Host' is no host"))?;
        if host.as_str().contains('@') { Err(Failure::refused("'Host' names a user")) } else { Ok(host) }
    });
    let host = match uri.authority().cloned() {
        Some(host) => Some(host),
        None => of_field.transpose()?,
    };
    Ok(host.map(|host| match host.port() {
        Some(port) => format!("{}:{port}", host.host()),
        None => host.host().into(),
    }))
}

/// What nginx logs for requests whose client has disconnected before an answer.
const CLIENT_GONE: u16 = 499;

fn record(log: &Option<Arc<AccessLog>>, request: &Request<Incoming>, from: IpAddr) -> Record {
    let field = |name: header::HeaderName| {
        let value = request.headers().get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let mut record = Record::new(log, from.to_string());
    let entry = &mut record.entry;
    (entry.method, entry.target) = (request.method().to_string(), request.uri().to_string());
    entry.version = format!("{:?}", request.version());
    entry.host = request.uri().host().map(String::from).or_else(|| field(header::HOST)).unwrap_or_default();
    entry.status = CLIENT_GONE;
    (entry.referer, entry.agent) = (field(header::REFERER), field(header::USER_AGENT));
    record
}

/// The body of a response in transfer to a browser.
struct Watched {
    inner: Body,
    record: Record,
}
impl hyper::body::Body for Watched {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, io::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.inner).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => self.record.entry.bytes += frame.data_ref().map_or(0, |data| data.len() as u64),
            Some(Err(error)) => self.record.entry.failure = Some(error.to_string()),
            None => {}
        }
        Poll::Ready(frame)
    }
    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The origin that a URI names, if it names one and nothing else.
pub fn origin_of(text: &str) -> Option<Uri> {
    let uri: Uri = text.parse().ok()?;
    let is_complete = uri.path() == "/" && uri.query().is_none();
    (uri.scheme_str() == Some("http") && uri.authority().is_some() && is_complete).then_some(uri)
}

/// Whether a tunnel leads to the usual port of http.
pub(crate) fn leads_to_http(target: &str) -> bool {
    Authority::try_from(target).is_ok_and(|target| target.port_u16() == Some(80))
}

/// Whether a text is a host and a port, as `CONNECT` names them.
pub fn names_a_port(text: &str) -> bool {
    Authority::try_from(text).is_ok_and(|to| to.port_u16().is_some() && !to.host().is_empty() && !text.contains('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_tunnel_leads_is_a_host_and_a_port() {
        for (text, is_one) in [
            ("127.0.0.1:443", true),
            ("[::1]:443", true),
            ("a.example:1", true),
            ("a.example", false),
            ("a@b:1", false),
        ] {
            assert_eq!(names_a_port(text), is_one, "{text}");
        }
    }

    #[test]
    fn an_origin_is_a_scheme_and_an_authority_and_nothing_else() {
        for (text, is_one) in [
            ("http://127.0.0.1:80", true),
            ("http://www.example.org/", true),
            ("https://www.example.org", false),
            ("www.example.org:80", false),
            ("http://www.example.org/below", false),
            ("http://www.example.org/?query", false),
            ("", false),
        ] {
            assert_eq!(origin_of(text).is_some(), is_one, "{text}");
        }
    }
}
