//! The web server's side: takes requests out of the network, asks an ordinary web server, and sends its answers.
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, Uri, body::Incoming, header};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::{Semaphore, watch};
use tributary::{ApiError, ErrorKind, mailbox::Mailbox};
use tributary_core::{Duration, TransferId};
use tributary_transport::messaging::{Delivery, Destination, SendOptions};

use crate::{
    exchange::{
        CreditHead, RequestHead, ResponseHead, SEGMENT_BYTES, SegmentHead, WINDOW_SEGMENTS, name_of_message, pack,
        unpack,
    },
    passed_on,
};

/// Requests that are carried out at the same time at most; others wait.
const REQUESTS_MAX: usize = 256;
/// Segments of one response under way at the same time at most.
const SEGMENTS_MAX: usize = 8;
/// How often it is looked whether one has arrived.
const LOOK: Duration = Duration::from_millis(5);
/// How long a browser may take nothing of an answer before it counts as gone.
const CREDIT_PATIENCE: Duration = Duration::from_secs(600);
/// How long a part of a body waits for more before it goes alone.
const GATHER: Duration = Duration::from_millis(50);

/// Settings of the web server's side.
#[derive(Clone, Debug)]
pub struct OriginConfig {
    /// The web server, such as `http://127.0.0.1:80`.
    pub origin: Uri,
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
    mailbox: Mailbox,
    config: OriginConfig,
    client: Client<HttpConnector, Full<Bytes>>,
    /// What browsers have taken, by request.
    credits: Mutex<BTreeMap<u64, watch::Sender<Taken>>>,
}
impl Shared {
    fn credits(&self) -> MutexGuard<'_, BTreeMap<u64, watch::Sender<Taken>>> {
        // The map is whole between any two statements, so a panic elsewhere does not spoil it.
        self.credits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a browser has taken of an answer.
#[derive(Clone, Copy, Default)]
struct Taken {
    segments: u32,
    gone: bool,
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
            let shared = Arc::new(Shared { mailbox, config, client, credits: Mutex::default() });
            let places = Arc::new(Semaphore::new(REQUESTS_MAX));
            while !end.load(Ordering::SeqCst) {
                let Some(message) = shared.mailbox.next(LOOK * 20) else { continue };
                if let Some((CreditHead { id, taken, gone }, _)) = unpack::<CreditHead>(&message.bytes) {
                    if let Some(credit) = shared.credits().get(&id) {
                        credit.send_modify(|known| {
                            known.segments = known.segments.max(taken);
                            known.gone |= gone;
                        });
                    }
                    continue;
                }
                let Some((head, body)) = unpack::<RequestHead>(&message.bytes) else {
                    tracing::debug!("'{}' is no request", message.name);
                    continue;
                };
                let (of_task, places) = (Arc::clone(&shared), Arc::clone(&places));
                runtime.spawn(async move {
                    let _place = places.acquire().await;
                    carry_out(&of_task, head, body).await;
                });
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
    let (credit, taken) = watch::channel(Taken::default());
    shared.credits().insert(head.id, credit);
    let mut answer = Answer { shared, to: head.reply_to.clone(), id: head.id, number: 0, under_way: Vec::new(), taken };
    let result = match ask(shared, &head, body).await {
        Ok(response) => answer.send_all(response).await,
        Err(reason) => Err(reason),
    };
    if answer.taken.borrow().gone {
        tracing::debug!("{} {}: nobody wants the answer any more", head.method, head.target);
    } else if let Err(reason) = result {
        tracing::debug!("{} {}: {reason}", head.method, head.target);
        // If this does not arrive either, the browser's side waits no longer than its patience.
        let _ = answer.send(true, None, Some(reason), Bytes::new()).await;
    }
    shared.credits().remove(&head.id);
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

/// A response on its way.
struct Answer<'a> {
    shared: &'a Arc<Shared>,
    to: String,
    id: u64,
    number: u32,
    under_way: Vec<TransferId>,
    taken: watch::Receiver<Taken>,
}

impl Answer<'_> {
    async fn send_all(&mut self, response: Response<Incoming>) -> Result<(), String> {
        let head = ResponseHead { status: response.status().as_u16(), headers: passed_on(response.headers()) };
        let mut head = Some(head);
        let mut body = response.into_body();
        let mut gathered = BytesMut::new();
        loop {
            let patience = if gathered.is_empty() { self.shared.config.patience } else { GATHER };
            match tokio::time::timeout(patience, body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        gathered.extend_from_slice(&data);
                    }
                }
                Ok(Some(Err(error))) => return Err(format!("the web server's answer broke off: {error}")),
                Ok(None) => return self.send(true, head.take(), None, gathered.freeze()).await,
                Err(_) if gathered.is_empty() => return Err("the web server's answer stands still".into()),
                Err(_) => self.send(false, head.take(), None, gathered.split().freeze()).await?,
            }
            while gathered.len() >= SEGMENT_BYTES {
                let part = gathered.split_to(SEGMENT_BYTES).freeze();
                self.send(false, head.take(), None, part).await?;
            }
        }
    }
    /// Sends one segment, when there is room for it.
    async fn send(
        &mut self,
        is_last: bool,
        response: Option<ResponseHead>,
        failure: Option<String>,
        body: Bytes,
    ) -> Result<(), String> {
        while self.under_way.len() >= SEGMENTS_MAX {
            let (shared, under_way) = (Arc::clone(self.shared), self.under_way.clone());
            let still = tokio::task::spawn_blocking(move || shared.mailbox.under_way(&under_way)).await;
            self.under_way = still.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
            if self.under_way.len() >= SEGMENTS_MAX {
                tokio::time::sleep(LOOK).await;
            }
        }
        let number = self.number;
        let room = |taken: &Taken| taken.gone || number < taken.segments.saturating_add(WINDOW_SEGMENTS);
        match tokio::time::timeout(CREDIT_PATIENCE, self.taken.wait_for(room)).await {
            Ok(Ok(taken)) if !taken.gone => {}
            _ => return Err("the browser takes nothing more".into()),
        }
        let reply_to = (number == 0 && !is_last).then(|| self.shared.mailbox.id().to_string());
        let head = SegmentHead { id: self.id, number, is_last, reply_to, response, failure };
        let message = pack(&head, &body);
        let (shared, to, id, number) = (Arc::clone(self.shared), self.to.clone(), self.id, self.number);
        self.number += 1;
        let sent = tokio::task::spawn_blocking(move || {
            let refused = || ApiError::new(ErrorKind::Protocol, "the request's sender has no GUID");
            let name = name_of_message("response", &to, id, number).ok_or_else(refused)?;
            let options = SendOptions { delivery: Some(Delivery::Nack), ..SendOptions::default() };
            shared.mailbox.send(name, message, &Destination::Id(to), &options)
        });
        let transfer = sent.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        self.under_way.push(transfer);
        Ok(())
    }
}
