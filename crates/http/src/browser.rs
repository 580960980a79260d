//! The browser's side: an HTTP proxy, or a server of one site, whose answers come through the network.
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited, StreamBody, combinators::BoxBody};
use hyper::{
    Method, Request, Response, StatusCode, Uri, Version,
    body::{Body as _, Frame, Incoming},
    header,
    http::uri::{Authority, Scheme},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};
use tokio::{
    net::TcpListener,
    sync::{mpsc::unbounded_channel, watch},
};
use tributary::{ApiError, mailbox::Mailbox};
use tributary_content::Name;
use tributary_core::{Duration, TransferId};
use tributary_transport::messaging::{Delivery, Destination, InNetwork, SendOptions, Spread};

use crate::{
    exchange::{REQUEST_BYTES_MAX, RequestHead, ResponseHead, SegmentHead, name_of_host, name_of_message, pack},
    passed_on,
    segments::{Credit, Exchanges, Receiver, Sender, Taken, Waiting},
    tunnel,
};

/// Connections of browsers at the same time at most.
const CONNECTIONS_MAX: usize = 1_024;
/// Requests without an answer at the same time at most.
const REQUESTS_MAX: usize = 4_096;
/// How often the end is looked for.
const LOOK: Duration = Duration::from_millis(200);
/// How long a browser may take to send its headers.
const HEADERS_PATIENCE: Duration = Duration::from_secs(30);
/// How long a request is sent again that the network could not deliver, as nobody is attached to its name: whoever serves it
/// may be on the move.
const NOBODY_PATIENCE: Duration = Duration::from_secs(2);
/// How long the next part of its body.
const BODY_PATIENCE: Duration = Duration::from_secs(30);

type Body = BoxBody<Bytes, std::io::Error>;

/// Settings of the browser's side.
#[derive(Clone, Debug)]
pub struct BrowserConfig {
    /// Where browsers connect to.
    pub listen: SocketAddr,
    /// The name of the web server's side; `None` takes `/http/HOST` of each request.
    pub to: Option<Name>,
    /// How long an answer, or the next part of one, is waited for.
    pub patience: Duration,
}

/// The browser's side. It works until it is dropped.
#[derive(Debug)]
pub struct BrowserProxy {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
    runtime: Option<tokio::runtime::Runtime>,
    reader: Option<std::thread::JoinHandle<()>>,
}

struct Shared {
    mailbox: Arc<Mailbox>,
    config: BrowserConfig,
    next: AtomicU64,
    open: Exchanges,
    connections: AtomicUsize,
}

impl BrowserProxy {
    /// Listens for browsers, and sends and receives by `mailbox`.
    ///
    /// # Errors
    /// [`ApiError`] if the address is taken.
    pub fn start(mailbox: Mailbox, config: BrowserConfig) -> Result<BrowserProxy, ApiError> {
        let listen = config.listen;
        let failed = move |error: std::io::Error| ApiError::io("listen at", listen, &error);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let listener = runtime.block_on(TcpListener::bind(listen)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        // Answers to an earlier life must not be taken for those to this one.
        let first = mailbox.random();
        let shared = Arc::new(Shared {
            mailbox: Arc::new(mailbox),
            config,
            next: AtomicU64::new(first),
            open: Exchanges::default(),
            connections: AtomicUsize::new(0),
        });
        let ended = Arc::new(AtomicBool::new(false));
        let (of_reader, end_of_reader) = (Arc::clone(&shared), Arc::clone(&ended));
        let reader = std::thread::Builder::new()
            .name("http answers".into())
            .spawn(move || read_answers(&of_reader, &end_of_reader))
            .map_err(failed)?;
        runtime.spawn(accept(listener, shared));
        Ok(BrowserProxy { address, ended, runtime: Some(runtime), reader: Some(reader) })
    }
    /// Where browsers connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
impl Drop for BrowserProxy {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// Gives segments to the requests that they answer.
fn read_answers(shared: &Shared, ended: &AtomicBool) {
    while !ended.load(Ordering::SeqCst) {
        let Some(message) = shared.mailbox.next(LOOK) else { continue };
        if !shared.open.handle(&message.bytes) {
            tracing::debug!("'{}' is no part of a response", message.name);
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, for instance: others will end.
            tokio::time::sleep(LOOK).await;
            continue;
        };
        if shared.connections.fetch_add(1, Ordering::SeqCst) >= CONNECTIONS_MAX {
            shared.connections.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let of_connection = Arc::clone(&shared);
        tokio::spawn(async move {
            let service = service_fn(|request| answer(request, Arc::clone(&of_connection)));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADERS_PATIENCE)
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades();
            if let Err(error) = connection.await {
                tracing::debug!("a browser's connection ended: {error}");
            }
            of_connection.connections.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

async fn answer(request: Request<Incoming>, shared: Arc<Shared>) -> Result<Response<Body>, Infallible> {
    Ok(match exchange(request, &shared).await {
        Ok(response) => response,
        Err((status, reason)) => failure(status, &reason),
    })
}
fn failure(status: StatusCode, reason: &str) -> Response<Body> {
    let text = Full::new(Bytes::from(format!("{reason}\n"))).map_err(|never: Infallible| match never {}).boxed();
    let mut response = Response::new(text);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

type Failure = (StatusCode, String);

async fn exchange(request: Request<Incoming>, shared: &Arc<Shared>) -> Result<Response<Body>, Failure> {
    if request.method() == Method::CONNECT {
        return open_tunnel(request, shared).await;
    }
    let host = host(&request)?;
    let to = match &shared.config.to {
        Some(name) => name.clone(),
        None => host.as_deref().and_then(|host| name_of_host(host, 80)).ok_or_else(no_host)?,
    };
    let (mut parts, body) = request.into_parts();
    if let Some(Ok(host)) = host.map(header::HeaderValue::try_from) {
        parts.headers.insert(header::HOST, host);
    }
    let body = whole(body).await?;
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let asked = ask(shared, to, (&parts.method, target, passed_on(&parts.headers)), body).await?;
    let Asked { response, first, rest, .. } = asked;
    build(&response, first, rest)
}
/// Opens a tunnel to the port of a host that the request names.
async fn open_tunnel(request: Request<Incoming>, shared: &Arc<Shared>) -> Result<Response<Body>, Failure> {
    let target = request.uri().authority().map(Authority::to_string).filter(|target| names_a_port(target));
    let target = target.ok_or_else(|| refused("CONNECT names a host and a port"))?;
    let to = match &shared.config.to {
        Some(name) => name.clone(),
        None => name_of_host(&target, 443).ok_or_else(no_host)?,
    };
    let asked = ask(shared, to, (request.method(), &target, Vec::new()), Bytes::new()).await?;
    let Asked { response, rest, id, taken, .. } = asked;
    let Some((Rest { mut receiver, open, credit: Some(credit) }, true)) =
        rest.map(|rest| (rest, response.status == 200))
    else {
        return Err((StatusCode::BAD_GATEWAY, "the web server's side has opened no tunnel".into()));
    };
    receiver.patience = tunnel::PATIENCE;
    let sender = Sender::new(&shared.mailbox, ("upstream", tunnel::DELIVERY), credit.to().into(), id, taken);
    tokio::spawn(async move {
        let _open = open;
        let result = match hyper::upgrade::on(request).await {
            Ok(connection) => tunnel::carry(TokioIo::new(connection), sender, receiver, credit).await,
            Err(error) => Err(error.to_string()),
        };
        if let Err(reason) = result {
            tracing::debug!("a tunnel to {target} ended: {reason}");
        }
    });
    build(&response, Bytes::new(), None)
}

/// The first part of an answer.
struct Asked {
    id: u64,
    response: ResponseHead,
    first: Bytes,
    rest: Option<Rest>,
    taken: watch::Receiver<Taken>,
}

/// Sends a request and waits for the first part of its answer.
async fn ask(
    shared: &Arc<Shared>,
    to: Name,
    (method, target, headers): (&Method, &str, Vec<(String, Vec<u8>)>),
    body: Bytes,
) -> Result<Asked, Failure> {
    let id = shared.next.fetch_add(1, Ordering::Relaxed);
    let (segments, of_answer) = unbounded_channel();
    let (credits, taken) = watch::channel(Taken::default());
    let open = Open::new(shared, id, Waiting { segments: Some(segments), taken: credits })?;
    let reply_to = shared.mailbox.id().into();
    let head = RequestHead { id, reply_to, method: method.to_string(), target: target.into(), headers };
    let message = pack(&head, &body);
    let (mailbox, destination) = (Arc::clone(&shared.mailbox), Destination::Name(to.clone()));
    let options = SendOptions {
        delivery: Some(Delivery::Ack),
        // What nobody takes is told of, and nobody waits for its answer later.
        in_network: Some(InNetwork::Forbid),
        lifetime: Some(shared.config.patience),
        spread: Spread::Nearest,
        ..SendOptions::default()
    };
    let sent = tokio::task::spawn_blocking(move || {
        let name = name_of_message("request", mailbox.id(), id, 0)?;
        Some(mailbox.send(name, message, &destination, &options))
    });
    let request = match sent.await {
        Ok(Some(Ok(transfer))) => transfer,
        Ok(Some(Err(error))) => return Err((StatusCode::BAD_GATEWAY, error.to_string())),
        Ok(None) | Err(_) => return Err((StatusCode::BAD_GATEWAY, "the request could not be sent".into())),
    };
    let mut receiver = Receiver::new(of_answer, shared.config.patience);
    let answer = tokio::select! {
        answer = receiver.next() => answer,
        () = nobody(&shared.mailbox, request) => {
            return Err((StatusCode::BAD_GATEWAY, format!("nobody is attached to '{to}' in the network")));
        }
    };
    let Some((head, first)) = answer else {
        let reason = format!("no web server has answered through the network within {:?}", receiver.patience);
        return Err((StatusCode::GATEWAY_TIMEOUT, reason));
    };
    let Some(response) = head.response else {
        let reason = head.failure.unwrap_or_else(|| "the answer has no head".into());
        return Err((StatusCode::BAD_GATEWAY, reason));
    };
    let credit = head.reply_to.map(|to| Credit::new(&shared.mailbox, id, to));
    let rest = (!head.is_last).then_some(Rest { receiver, open, credit });
    Ok(Asked { id, response, first, rest, taken })
}

/// Waits until it is known that nobody takes a request; for ever if somebody does.
async fn nobody(mailbox: &Arc<Mailbox>, request: TransferId) {
    loop {
        tokio::time::sleep(NOBODY_PATIENCE).await;
        let mailbox = Arc::clone(mailbox);
        let asked = tokio::task::spawn_blocking(move || mailbox.is_dropped(request));
        if matches!(asked.await, Ok(Ok(true))) {
            return;
        }
    }
}

fn refused(reason: &str) -> Failure {
    (StatusCode::BAD_REQUEST, reason.into())
}
fn no_host() -> Failure {
    refused("the request names no host")
}
/// The host that a request is for, with the port if it names one: that of its target if it has one, whatever the header
/// says (RFC 9112 §3.2.2). Only HTTP/1.0 may name none.
fn host(request: &Request<Incoming>) -> Result<Option<String>, Failure> {
    let mut told = request.headers().get_all(header::HOST).iter();
    let (first, second) = (told.next(), told.next());
    if second.is_some() {
        return Err(refused("the request names several hosts"));
    }
    if request.uri().scheme().is_some_and(|scheme| *scheme != Scheme::HTTP) {
        let reason = "this proxy asks web servers by http only";
        return Err((StatusCode::NOT_IMPLEMENTED, reason.into()));
    }
    let of_target = request.uri().authority().cloned();
    let of_header = first.map(|host| Authority::try_from(host.as_bytes()).map_err(|_| refused("'Host' is no host")));
    let host = match of_target {
        Some(host) => Some(host),
        None => of_header.transpose()?,
    };
    if host.is_none() && request.version() >= Version::HTTP_11 {
        return Err(no_host());
    }
    Ok(host.map(|host| match host.port() {
        Some(port) => format!("{}:{port}", host.host()),
        None => host.host().into(),
    }))
}
/// The body of a request, all of it.
async fn whole(body: Incoming) -> Result<Bytes, Failure> {
    let too_large = || {
        let reason = format!("a request has at most {REQUEST_BYTES_MAX} bytes");
        (StatusCode::PAYLOAD_TOO_LARGE, reason)
    };
    if body.size_hint().lower() > REQUEST_BYTES_MAX as u64 {
        return Err(too_large());
    }
    let mut body = Limited::new(body, REQUEST_BYTES_MAX);
    let mut bytes = BytesMut::new();
    loop {
        let frame = tokio::time::timeout(BODY_PATIENCE, body.frame()).await;
        let frame = frame.map_err(|_| {
            let reason = format!("nothing more of the request has come within {BODY_PATIENCE:?}");
            (StatusCode::REQUEST_TIMEOUT, reason)
        })?;
        match frame {
            Some(Ok(frame)) => frame.data_ref().into_iter().for_each(|data| bytes.extend_from_slice(data)),
            Some(Err(error)) if error.is::<LengthLimitError>() => return Err(too_large()),
            Some(Err(error)) => return Err(refused(&format!("cannot read the request: {error}"))),
            None => return Ok(bytes.freeze()),
        }
    }
}

/// What is still to come of a response.
struct Rest {
    receiver: Receiver,
    open: Open,
    credit: Option<Credit>,
}

fn build(head: &ResponseHead, first: Bytes, rest: Option<Rest>) -> Result<Response<Body>, Failure> {
    let mut builder = Response::builder().status(head.status);
    for (name, value) in &head.headers {
        builder = builder.header(name.as_str(), value.as_slice());
    }
    let body = match rest {
        None => Full::new(first).map_err(|never: Infallible| match never {}).boxed(),
        Some(rest) => stream(first, rest),
    };
    let wrong = |error: hyper::http::Error| (StatusCode::BAD_GATEWAY, format!("the answer makes no sense: {error}"));
    builder.body(body).map_err(wrong)
}
/// The parts of a body as they come. What does not come cuts the connection, so that nobody takes it for the end.
fn stream(first: Bytes, rest: Rest) -> Body {
    let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Frame<Bytes>, std::io::Error>>(2);
    tokio::spawn(async move {
        let Rest { mut receiver, open, mut credit } = rest;
        let _open = open;
        if sender.send(Ok(Frame::data(first))).await.is_err() {
            return;
        }
        loop {
            credit.iter_mut().for_each(Credit::take);
            let error = |reason: String| std::io::Error::other(reason);
            let (part, is_last) = match receiver.next().await {
                Some((SegmentHead { failure: Some(reason), .. }, _)) => (Err(error(reason)), true),
                Some((head, body)) => (Ok(Frame::data(body)), head.is_last),
                None => (Err(error(format!("nothing more has come within {:?}", receiver.patience))), true),
            };
            credit.iter_mut().filter(|_| is_last).for_each(Credit::end);
            if sender.send(part).await.is_err() || is_last {
                return;
            }
        }
    });
    let parts = Parts(receiver);
    BodyExt::boxed(StreamBody::new(parts))
}

/// Parts of a body as a stream.
struct Parts(tokio::sync::mpsc::Receiver<Result<Frame<Bytes>, std::io::Error>>);

impl futures_core::Stream for Parts {
    type Item = Result<Frame<Bytes>, std::io::Error>;
    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}

/// A request that waits for its answer; forgotten when dropped.
struct Open {
    shared: Arc<Shared>,
    id: u64,
}
impl Open {
    fn new(shared: &Arc<Shared>, id: u64, waiting: Waiting) -> Result<Open, Failure> {
        let mut open = shared.open.lock();
        if open.len() >= REQUESTS_MAX {
            return Err((StatusCode::SERVICE_UNAVAILABLE, format!("{REQUESTS_MAX} requests wait already")));
        }
        open.insert(id, waiting);
        Ok(Open { shared: Arc::clone(shared), id })
    }
}
impl Drop for Open {
    fn drop(&mut self) {
        self.shared.open.lock().remove(&self.id);
    }
}
/// The origin that a URI names, if it names one and nothing else.
pub fn origin_of(text: &str) -> Option<Uri> {
    let uri: Uri = text.parse().ok()?;
    let is_whole = uri.path() == "/" && uri.query().is_none();
    (uri.scheme_str() == Some("http") && uri.authority().is_some() && is_whole).then_some(uri)
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
