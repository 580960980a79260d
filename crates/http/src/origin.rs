//! The web server's side: takes requests out of the network, asks an ordinary web server, and sends its answers.
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, Uri, body::Incoming, header};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio::{
    net::TcpStream,
    sync::{Semaphore, mpsc::unbounded_channel, watch},
};
use tributary::{ApiError, mailbox::Mailbox};
use tributary_core::Duration;
use tributary_transport::messaging::Delivery;

use crate::{
    exchange::{RequestHead, ResponseHead, SEGMENT_BYTES, unpack},
    passed_on,
    segments::{Credit, Exchanges, Receiver, Sender, Taken, Waiting},
    tunnel,
};

/// Requests that are carried out at the same time at most; others wait.
const REQUESTS_MAX: usize = 256;
/// Tunnels at the same time at most; more are refused.
const TUNNELS_MAX: usize = 1_024;
/// How often the end is looked for.
const LOOK: Duration = Duration::from_millis(100);
/// How long a part of a body waits for more before it goes alone.
const GATHER: Duration = Duration::from_millis(50);

/// Settings of the web server's side.
#[derive(Clone, Debug)]
pub struct OriginConfig {
    /// The web server, such as `http://127.0.0.1:80`.
    pub origin: Uri,
    /// Where tunnels lead (`CONNECT`, for https), as host and port; `None` refuses them.
    pub tunnel: Option<String>,
    /// How long it may take to answer.
    pub patience: Duration,
}

/// The web server's side. It works until it is dropped.
#[derive(Debug)]
pub struct OriginProxy {
    ended: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

struct Shared {
    mailbox: Arc<Mailbox>,
    config: OriginConfig,
    client: Client<HttpConnector, Full<Bytes>>,
    /// Requests that are carried out.
    open: Exchanges,
    /// Places of requests and of tunnels.
    places: Semaphore,
    tunnels: Semaphore,
}

impl OriginProxy {
    /// Takes requests from `mailbox`.
    ///
    /// # Errors
    /// [`ApiError`] if no thread can be started.
    pub fn start(mailbox: Mailbox, config: OriginConfig) -> Result<OriginProxy, ApiError> {
        let failed = |error: std::io::Error| ApiError::io("start", "the proxy's threads", &error);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let ended = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&ended);
        let thread = std::thread::Builder::new().name("http requests".into()).spawn(move || {
            let client = Client::builder(TokioExecutor::new()).build_http();
            let shared = Arc::new(Shared {
                mailbox: Arc::new(mailbox),
                config,
                client,
                open: Exchanges::default(),
                places: Semaphore::new(REQUESTS_MAX),
                tunnels: Semaphore::new(TUNNELS_MAX),
            });
            while !end.load(Ordering::SeqCst) {
                let Some(message) = shared.mailbox.next(LOOK) else { continue };
                if shared.open.handle(&message.bytes) {
                    continue;
                }
                if let Some((head, body)) = unpack::<RequestHead>(&message.bytes) {
                    let of_task = Arc::clone(&shared);
                    match head.method.as_str() {
                        "CONNECT" => runtime.spawn(async move { carry_tunnel(&of_task, head).await }),
                        _ => runtime.spawn(async move {
                            let _place = of_task.places.acquire().await;
                            carry_out(&of_task, head, body).await;
                        }),
                    };
                } else {
                    tracing::debug!("'{}' is no request", message.name);
                }
            }
            runtime.shutdown_background();
        });
        Ok(OriginProxy { ended, thread: Some(thread.map_err(failed)?) })
    }
}
impl Drop for OriginProxy {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn carry_out(shared: &Arc<Shared>, head: RequestHead, body: Bytes) {
    let (credits, taken) = watch::channel(Taken::default());
    shared.open.lock().insert(head.id, Waiting { taken: credits, segments: None });
    let mut sender = Sender::new(&shared.mailbox, ("response", Delivery::Nack), head.reply_to.clone(), head.id, taken);
    let result = match ask(shared, &head, body).await {
        Ok(response) => send_all(&mut sender, response, shared.config.patience).await,
        Err(reason) => Err(reason),
    };
    end(shared, &head, sender, result).await;
}
/// Opens a tunnel, and carries what goes through it until it ends.
async fn carry_tunnel(shared: &Arc<Shared>, head: RequestHead) {
    let ((credits, taken), (segments, of_browser)) = (watch::channel(Taken::default()), unbounded_channel());
    let mut sender =
        Sender::new(&shared.mailbox, ("response", tunnel::DELIVERY), head.reply_to.clone(), head.id, taken);
    let Ok(_place) = shared.tunnels.try_acquire() else {
        return end(shared, &head, sender, Err(format!("{TUNNELS_MAX} tunnels are open already"))).await;
    };
    shared.open.lock().insert(head.id, Waiting { taken: credits, segments: Some(segments) });
    let connection = match connect(shared).await {
        Ok(connection) => connection,
        Err(reason) => return end(shared, &head, sender, Err(reason)).await,
    };
    let opened = ResponseHead { status: 200, headers: Vec::new() };
    if sender.send(false, Some(opened), None, Bytes::new()).await.is_ok() {
        let credit = Credit::new(&shared.mailbox, head.id, head.reply_to.clone());
        let result = tunnel::carry(connection, sender, Receiver::new(of_browser, tunnel::PATIENCE), credit).await;
        // Whoever is left of both sides is told by the credit that is given up.
        result.unwrap_or_else(|reason| tracing::debug!("a tunnel for {} ended: {reason}", head.target));
    }
    shared.open.lock().remove(&head.id);
}
/// Connects to where tunnels lead.
async fn connect(shared: &Shared) -> Result<TcpStream, String> {
    let config = &shared.config;
    let to = config.tunnel.as_deref().ok_or("this web server's side carries no tunnels (https)")?;
    match tokio::time::timeout(config.patience, TcpStream::connect(to)).await {
        Ok(Ok(connection)) => {
            // It carries what came together as it came: nothing is to be gathered again.
            let _ = connection.set_nodelay(true);
            Ok(connection)
        }
        Ok(Err(error)) => Err(format!("cannot connect to {to}: {error}")),
        Err(_) => Err(format!("{to} has not answered within {:?}", config.patience)),
    }
}
/// Ends a request; tells the browser's side what went wrong.
async fn end(shared: &Shared, head: &RequestHead, mut sender: Sender, result: Result<(), String>) {
    if sender.taken.borrow().gone {
        tracing::debug!("{} {}: nobody wants the answer any more", head.method, head.target);
    } else if let Err(reason) = result {
        tracing::debug!("{} {}: {reason}", head.method, head.target);
        // If this does not arrive either, the browser's side waits no longer than its patience.
        let _ = sender.send(true, None, Some(reason), Bytes::new()).await;
    }
    shared.open.lock().remove(&head.id);
}
/// Asks the web server.
async fn ask(shared: &Shared, head: &RequestHead, body: Bytes) -> Result<Response<Incoming>, String> {
    let config = &shared.config;
    let mut parts = config.origin.clone().into_parts();
    parts.path_and_query = Some(head.target.parse().map_err(|_| "the request's target makes no sense".to_string())?);
    let uri = Uri::from_parts(parts).map_err(|error| error.to_string())?;
    let mut request = Request::builder().method(head.method.as_str()).uri(uri);
    for (name, value) in head.headers.iter().filter(|(name, _)| name != header::CONTENT_LENGTH.as_str()) {
        request = request.header(name.as_str(), value.as_slice());
    }
    let request = request.body(Full::new(body)).map_err(|error| format!("the request makes no sense: {error}"))?;
    match tokio::time::timeout(config.patience, shared.client.request(request)).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error)) => Err(format!("cannot reach the web server at {}: {}", config.origin, source_of(&error))),
        Err(_) => Err(format!("the web server at {} has not answered within {:?}", config.origin, config.patience)),
    }
}
/// What is at the bottom of an error.
fn source_of(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(next) = deepest.source() {
        deepest = next;
    }
    deepest.to_string()
}

/// Sends a response, in segments.
async fn send_all(sender: &mut Sender, response: Response<Incoming>, patience: Duration) -> Result<(), String> {
    let head = ResponseHead { status: response.status().as_u16(), headers: passed_on(response.headers()) };
    let mut head = Some(head);
    let mut body = response.into_body();
    let mut gathered = BytesMut::new();
    loop {
        let patience = if gathered.is_empty() { patience } else { GATHER };
        match tokio::time::timeout(patience, body.frame()).await {
            Ok(Some(Ok(frame))) => {
                if let Ok(data) = frame.into_data() {
                    gathered.extend_from_slice(&data);
                }
            }
            Ok(Some(Err(error))) => return Err(format!("the web server's answer broke off: {error}")),
            Ok(None) => return sender.send(true, head.take(), None, gathered.freeze()).await,
            Err(_) if gathered.is_empty() => return Err("the web server's answer stands still".into()),
            Err(_) => sender.send(false, head.take(), None, gathered.split().freeze()).await?,
        }
        while gathered.len() >= SEGMENT_BYTES {
            let part = gathered.split_to(SEGMENT_BYTES).freeze();
            sender.send(false, head.take(), None, part).await?;
        }
    }
}
